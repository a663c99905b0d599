//! Whose turn it is in a file that is written front to back: the components of a tensor one after the other, tensors in any
//! order, all that were declared.

use holdall_collections::HashSet;
use holdall_core::encode::{Stored, TensorSpec};
use holdall_core::error::{Result, Rule, Shown as _};
use holdall_core::model::Encoding;

/// What was declared, and how much of it was placed: `P` says where a component is.
pub(super) struct DeclaredComponents<P> {
    /// The rule that is broken where the encoder was not told the truth.
    rule: &'static Rule,
    /// Before that byte there are no components.
    first: u64,
    /// Names of the declared tensors that are not written yet; `None` when nothing was declared.
    declared: Option<HashSet<String>>,
    /// The tensor some components of which are written.
    current: Option<Current<P>>,
}

struct Current<P> {
    name: String,
    parts: Vec<P>,
}

impl<P: From<Stored>> DeclaredComponents<P> {
    /// Nothing was declared yet.
    pub(super) fn new(rule: &'static Rule, first: u64) -> DeclaredComponents<P> {
        DeclaredComponents { rule, first, declared: None, current: None }
    }

    /// Begins anew. Gives the tensors that have no components: nothing will be placed for them.
    pub(super) fn begin<'a>(&mut self, declared: &'a [TensorSpec]) -> Result<Vec<&'a TensorSpec>> {
        self.current = None;
        let mut names = HashSet::default();
        let mut empty = Vec::new();
        for tensor in declared {
            if !names.insert(tensor.name.clone()) {
                return Err(self.rule.broken("two tensors have this name").in_tensor(&tensor.name));
            }
            if tensor.components.is_empty() {
                names.remove(&tensor.name);
                empty.push(tensor);
            }
        }
        self.declared = (!declared.is_empty()).then_some(names);
        Ok(empty)
    }

    /// Checks that this component is the next one that may be written. Says whether it begins a tensor that was not declared,
    /// which nobody found fit yet.
    pub(super) fn check(&self, tensor: &TensorSpec, component: usize) -> Result<bool> {
        let wrong = |message: String| Err(self.rule.broken(message).in_tensor(&tensor.name));
        let next = match &self.current {
            Some(current) if current.name != tensor.name => {
                let name = current.name.shown();
                return wrong(format!("components of `{name}` are still to come"));
            }
            Some(current) => current.parts.len(),
            None => 0,
        };
        if component != next || component >= tensor.components.len() {
            let count = tensor.components.len();
            return wrong(format!("component {component} of {count}, {next} comes next"));
        }
        if component > 0 {
            return Ok(false);
        }
        match &self.declared {
            Some(declared) if !declared.contains(&tensor.name) => {
                wrong("it was not declared, or it was written before".into())
            }
            declared => Ok(declared.is_none()),
        }
    }

    /// Takes note of a component that [`Turns::check`] let through. With the last one of a tensor, gives all of them.
    pub(super) fn placed(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<Option<Vec<P>>> {
        let range = &stored.range;
        let len = range.end.saturating_sub(range.start);
        let expected = tensor.components.get(component).map_or(0, |c| c.decoded_len);
        let is_short = stored.encoding == Encoding::Raw && len != expected;
        if range.start > range.end || range.start < self.first || is_short {
            let message = format!(
                "stored as {} at bytes {}..{}, with {expected} bytes declared",
                stored.encoding, range.start, range.end
            );
            return Err(self.rule.broken(message).in_tensor(&tensor.name));
        }
        Ok(self.add(tensor, stored.into()))
    }

    /// The same for one that is not stored.
    pub(super) fn add(&mut self, tensor: &TensorSpec, part: P) -> Option<Vec<P>> {
        let new = || Current { name: tensor.name.clone(), parts: Vec::new() };
        let current = self.current.get_or_insert_with(new);
        current.parts.push(part);
        if current.parts.len() < tensor.components.len() {
            return None;
        }
        let parts = std::mem::take(&mut current.parts);
        self.current = None;
        if let Some(declared) = &mut self.declared {
            declared.remove(&tensor.name);
        }
        Some(parts)
    }

    /// Checks that nothing is missing.
    pub(super) fn finish(&self) -> Result<()> {
        if let Some(current) = &self.current {
            let message = "not all its components were written";
            return Err(self.rule.broken(message).in_tensor(&current.name));
        }
        if let Some(declared) = &self.declared
            && let Some(name) = declared.iter().min()
        {
            let message = format!("{} declared tensors were not written", declared.len());
            return Err(self.rule.broken(message).in_tensor(name));
        }
        Ok(())
    }
}
