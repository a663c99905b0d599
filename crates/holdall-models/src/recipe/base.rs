//! The base model of an adapter, as far as it is known.

use super::ADAPTER;
use super::adapter::Module;
use super::pattern::Captures;
use super::plan::{SourceTensor, matched};
use super::read::Rule;
use holdall_collections::HashMap;
use holdall_core::error::Result;

/// The matrices of a base model, by the names that an adapter may use for them.
pub(super) struct BaseMatrices<'a> {
    rules: &'a [Rule],
    tensors: &'a [SourceTensor],
    names: HashMap<&'a str, usize>,
    /// Tensors by the rule and the part of it that they match, and what it captures.
    parts: Option<HashMap<(usize, usize, Captures), usize>>,
}

impl<'a> BaseMatrices<'a> {
    pub(super) fn new(rules: &'a [Rule], tensors: &'a [SourceTensor]) -> BaseMatrices<'a> {
        let names = tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.as_str(), at));
        BaseMatrices { rules, tensors, names: names.collect(), parts: None }
    }

    /// Returns the tensor of the base model that a module of an adapter is for: the one with its name, or one that the
    /// rule takes for the same, as with another prefix. Returns `None` if the tensors of the base model are not known.
    ///
    /// # Errors
    /// Returns [`ADAPTER`] if the base model has no such tensor.
    pub(super) fn matrix(
        &mut self,
        rule: usize,
        module: &Module,
    ) -> Result<Option<&'a SourceTensor>> {
        if self.tensors.is_empty() {
            return Ok(None);
        }
        let name = module.weight();
        let mut found = self.names.get(name.as_str()).copied();
        if found.is_none()
            && let Some((part, mut captures)) =
                self.rules.get(rule).and_then(|rule| matched(rule, &name))
        {
            captures.sort();
            let (rules, tensors) = (self.rules, self.tensors);
            let parts = self.parts.get_or_insert_with(|| {
                let mut parts = HashMap::default();
                for (at, tensor) in tensors.iter().enumerate() {
                    for (number, rule) in rules.iter().enumerate() {
                        if let Some((part, mut captures)) = matched(rule, &tensor.name) {
                            captures.sort();
                            parts.entry((number, part, captures)).or_insert(at);
                        }
                    }
                }
                parts
            });
            found = parts.get(&(rule, part, captures)).copied();
        }
        match found.and_then(|at| self.tensors.get(at)) {
            Some(tensor) => Ok(Some(tensor)),
            None => Err(ADAPTER.broken("the base model has no such matrix").in_tensor(name)),
        }
    }
}
