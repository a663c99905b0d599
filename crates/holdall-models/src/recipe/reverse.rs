//! Plans of the way back: from the tensors that a recipe writes to those that it reads.

use super::evaluate::{Locals, Scope};
use super::outtype::Form;
use super::pattern::Captures;
use super::plan::{
    Input, LeftOut, NamedTensors, Output, Plan, SourceTensor, check_names, locals, read,
};
use super::read::{Action, Recipe, Rule};
use super::stepped::Stepped;
use super::trace::{Traced, item};
use super::{INCOMPLETE, LEFT_OVER, NO_INVERSE, OutType};
use holdall_collections::HashMap;
use holdall_core::error::{Escape as _, Result, list};
use holdall_core::model::{Attributes, DType, Value};

/// The maximum number of dimensions of a tensor before the steps of a rule.
const MAX_RANK: usize = 5;

/// Tensors that a rule wrote together.
pub(super) struct Written {
    pub(super) rule: usize,
    captures: Captures,
    /// For each name of the rule, the tensor.
    parts: Vec<Option<usize>>,
}

impl Recipe {
    /// Plans the way back: `input` has the tensors that the recipe writes, and the configuration of the model that it
    /// read. Elements are written in the type of the matrices, or as `input` says.
    ///
    /// # Errors
    /// Returns [`NO_INVERSE`] if a rule cannot be undone, and the errors of [`Recipe::plan`].
    pub fn plan_back(&self, input: &Input<'_>) -> Result<Plan> {
        let tensors = input.source.tensors();
        let given: Vec<(String, Value)> = self
            .files
            .iter()
            .map(|(name, path)| {
                let file = input.files.iter().find(|(own, _)| own == path);
                (name.clone(), file.map_or(Value::Null, |(_, value)| value.clone()))
            })
            .collect();
        let named = NamedTensors::new(&*input.source);
        let scope = Scope::new(input.config, &self.definitions, &given, &named)
            .with_defaults(&self.defaults);
        let (groups, left_out) = self.written(&scope, tensors)?;
        let outtype = match input.outtype {
            OutType::Auto => usual(tensors),
            chosen => chosen,
        };
        let form = match outtype {
            OutType::F16 => Form::Float(DType::F16),
            OutType::Bf16 => Form::Float(DType::Bf16),
            _ => Form::Float(DType::F32),
        };
        let mut outputs = Vec::new();
        for group in groups {
            let Some(rule) = self.rules.get(group.rule) else { continue };
            let all = undone(rule, &group, &scope, tensors, read);
            for (name, computed, sources) in all.map_err(|e| e.within(rule.line.clone()))? {
                outputs.push(Output { name, form, sources, computed });
            }
        }
        outputs.sort_by_key(|output| output.sources.iter().min().copied());
        check_names(&outputs)?;
        let (metadata, warnings) = (Attributes::new(), Vec::new());
        Ok(Plan { outputs, metadata, left_out, warnings, outtype, source: input.source.clone() })
    }

    /// Assigns each tensor to the first rule that writes it.
    pub(super) fn written(
        &self,
        scope: &Scope<'_>,
        tensors: &[SourceTensor],
    ) -> Result<(Vec<Written>, Vec<LeftOut>)> {
        let mut groups: Vec<Written> = Vec::new();
        let mut known: HashMap<(usize, Captures), usize> = HashMap::default();
        let (mut left_out, mut left_over) = (Vec::new(), Vec::new());
        'tensors: for (index, tensor) in tensors.iter().enumerate() {
            for (number, rule) in self.rules.iter().enumerate() {
                if matches!(rule.action, Action::Drop { .. }) {
                    continue;
                }
                let mut found = rule.to.iter().enumerate();
                let found = found.find_map(|(at, to)| Some((at, to.matches(&tensor.name)?)));
                let Some((part, mut captures)) = found else { continue };
                if let Action::Make { .. } = rule.action {
                    let reason = "it follows from the configuration".to_owned();
                    left_out.push(LeftOut { name: tensor.name.clone(), reason });
                    continue 'tensors;
                }
                if let Some(when) = &rule.when
                    && !scope.is_true(when, &locals(rule, &captures, scope)?)?
                {
                    continue;
                }
                captures.sort();
                let key = (number, captures);
                let at = *known.entry(key).or_insert_with_key(|key| {
                    let parts = vec![None; rule.to.len()];
                    groups.push(Written { rule: number, captures: key.1.clone(), parts });
                    groups.len().saturating_sub(1)
                });
                let slot = groups.get_mut(at).and_then(|group| group.parts.get_mut(part));
                if let Some(slot) = slot {
                    *slot = Some(index);
                }
                continue 'tensors;
            }
            left_over.push(tensor.name.as_str());
        }
        if !left_over.is_empty() {
            let names = list(left_over.iter().map(|name| format!("`{}`", name.escaped())));
            let message = format!("the recipe `{}` writes no {names}", self.name().escaped());
            return Err(LEFT_OVER.broken(message));
        }
        Ok((groups, left_out))
    }
}

/// Returns the type of the first matrix, if it is a float of 16 bits.
fn usual(tensors: &[SourceTensor]) -> OutType {
    let first = tensors.iter().find(|tensor| tensor.shape.len() >= 2);
    match first.map(|tensor| tensor.element.dtype) {
        Some(DType::F16) => OutType::F16,
        Some(DType::Bf16) => OutType::Bf16,
        _ => OutType::F32,
    }
}

/// What a rule read, by name, with the indices of the tensors that it is computed from.
pub(super) type Undone<S> = Vec<(String, S, Vec<usize>)>;

/// Computes what a rule read of what it wrote, each of which `read` returns.
///
/// # Errors
/// Returns [`NO_INVERSE`] if the rule cannot be undone, [`INCOMPLETE`] if a tensor is missing, and the errors of `read`.
pub(super) fn undone<S: Stepped>(
    rule: &Rule,
    group: &Written,
    scope: &Scope<'_>,
    tensors: &[SourceTensor],
    read: impl Fn(&SourceTensor, usize) -> Result<S>,
) -> Result<Undone<S>> {
    let locals = locals(rule, &group.captures, scope)?;
    let (mut all, mut sources) = (Vec::new(), Vec::new());
    for (to, part) in rule.to.iter().zip(&group.parts) {
        let found = part.and_then(|index| Some((index, tensors.get(index)?)));
        let Some((index, tensor)) = found else {
            let name = to.name(&group.captures)?;
            return Err(INCOMPLETE.broken(format!("`{}` is missing", name.escaped())));
        };
        sources.push(index);
        all.push(read(tensor, index)?);
    }
    let in_context = |e: holdall_core::Error| {
        let first = sources.first().and_then(|index| tensors.get(*index));
        e.in_tensor(first.map_or("", |tensor| tensor.name.as_str()))
    };
    let traced = traced(rule, &all, scope, &locals).map_err(in_context)?;
    let before = traced.undone(all).map_err(in_context)?;
    if before.len() != rule.from.len() {
        return Err(in_context(NO_INVERSE.broken("the steps do not lead back")));
    }
    let mut out = Vec::new();
    for (one, from) in before.into_iter().zip(&rule.from) {
        let Some((capture, _)) = &rule.gather else {
            out.push((from.name(&group.captures)?, one, sources.clone()));
            continue;
        };
        let count = one.shape().first().copied().unwrap_or(0);
        for n in 0..count {
            let mut captures = group.captures.clone();
            captures.push((capture.clone(), n.to_string()));
            out.push((from.name(&captures)?, item(&one, 0, n)?, sources.clone()));
        }
    }
    Ok(out)
}

/// Follows the steps of a rule from tensors of the rank with which they make tensors of the ranks that `all` have.
fn traced<S: Stepped>(
    rule: &Rule,
    all: &[S],
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<Traced> {
    let fits = |shapes: &[Vec<Option<u64>>]| {
        let fits_one = |(shape, found): (&Vec<Option<u64>>, &S)| {
            let mut sizes = shape.iter().zip(found.shape());
            shape.len() == found.shape().len()
                && sizes.all(|(size, found)| size.is_none_or(|size| size == *found))
        };
        shapes.len() == all.len() && shapes.iter().zip(all).all(fits_one)
    };
    let mut error = None;
    for rank in 1..=MAX_RANK {
        let rank = rank.saturating_add(usize::from(rule.gather.is_some()));
        let start = vec![vec![None; rank]; rule.from.len()];
        match Traced::new(&rule.steps, start, scope, locals) {
            Ok((traced, shapes)) if fits(&shapes) => return Ok(traced),
            Ok(_) => {}
            Err(e) => error = Some(e),
        }
    }
    Err(error.unwrap_or_else(|| {
        NO_INVERSE.broken("the tensors do not have the shapes that the rule makes")
    }))
}
