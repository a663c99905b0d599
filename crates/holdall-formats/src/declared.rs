//! Checks the order in which the components of a file are written: the components of a tensor one after the other, the
//! tensors in any order, and in the end all that were declared.

use holdall_collections::HashSet;
use holdall_core::encode::{Stored, TensorSpec};
use holdall_core::error::{Escape as _, Result, Rule};
use holdall_core::model::Encoding;

/// The declared components, and those that are written. `P` describes a written component.
pub(super) struct DeclaredComponents<P> {
    /// The rule that is broken if the calls do not match the declaration.
    rule: &'static Rule,
    /// The minimum offset of a component.
    first: u64,
    /// The names of declared tensors that are not written yet; `None` if nothing was declared.
    declared: Option<HashSet<String>>,
    /// The tensor of which some components were written, but not all.
    current: Option<Current<P>>,
}

struct Current<P> {
    name: String,
    parts: Vec<P>,
}

impl<P: From<Stored>> DeclaredComponents<P> {
    /// Creates the state before anything is declared.
    pub(super) fn new(rule: &'static Rule, first: u64) -> DeclaredComponents<P> {
        DeclaredComponents { rule, first, declared: None, current: None }
    }

    /// Declares the tensors of a new file. Returns the tensors without components, for which nothing will be written.
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

    /// Checks that this component can be written next. Returns `true` if it begins a tensor that was not declared, and
    /// so has not been checked yet.
    pub(super) fn check(&self, tensor: &TensorSpec, component: usize) -> Result<bool> {
        let wrong = |message: String| Err(self.rule.broken(message).in_tensor(&tensor.name));
        let next = match &self.current {
            Some(current) if current.name != tensor.name => {
                let name = current.name.escaped();
                return wrong(format!("expected the remaining components of `{name}` first"));
            }
            Some(current) => current.parts.len(),
            None => 0,
        };
        if component != next || component >= tensor.components.len() {
            let count = tensor.components.len();
            return wrong(format!(
                "cannot write component {component} now: {next} of {count} components are written"
            ));
        }
        if component > 0 {
            return Ok(false);
        }
        match &self.declared {
            Some(declared) if !declared.contains(&tensor.name) => {
                wrong("it was not declared, or was already written".into())
            }
            declared => Ok(declared.is_none()),
        }
    }

    /// Records a component that [`check`](Self::check) allowed. Returns all components of the tensor with its last one.
    pub(super) fn component_written(
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

    /// Records a component that has no bytes in the file.
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

    /// Checks that everything declared was written.
    pub(super) fn finish(&self) -> Result<()> {
        if let Some(current) = &self.current {
            let message = "not all of its components were written";
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
