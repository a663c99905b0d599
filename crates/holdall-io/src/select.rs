//! Selecting tensors by name.

pub use crate::by_name::ByName;
pub use crate::cast::{Cast, CastCount, Casts, scaled_weight};
pub use crate::glob::Glob;
pub use crate::rename::Rename;
pub use holdall_core::model::nearest;

use crate::file::{File, Tensor};
use holdall_core::Result;
use std::collections::HashSet;

/// A selection of tensors: those that match one of the includes (or all, without includes) and none of the excludes.
/// Patterns are [`Glob`]s that must match the whole name.
#[derive(Debug, Clone, Default)]
pub struct Select {
    include: Patterns,
    exclude: Patterns,
}

/// A set of patterns, any of which may match.
#[derive(Debug, Clone, Default)]
struct Patterns {
    all: Vec<Glob>,
    /// The patterns that are plain names, so that looking up one of a thousand names costs no more than one of a few.
    names: HashSet<String>,
}

impl Patterns {
    fn new<S: AsRef<str>>(texts: &[S]) -> Result<Patterns> {
        let mut out = Patterns::default();
        for text in texts {
            let glob = Glob::new(text.as_ref())?;
            out.names.insert(glob.as_str().to_owned());
            out.names.extend(glob.as_name().map(str::to_owned));
            out.all.push(glob);
        }
        Ok(out)
    }

    fn match_any(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.all.iter().any(|g| g.as_name().is_none() && g.matches(name))
    }
}

impl Select {
    /// Selects all tensors.
    pub fn all() -> Select {
        Select::default()
    }

    /// Selects tensors that match any of `include` (all tensors, if it is empty) and none of `exclude`.
    ///
    /// # Errors
    /// Returns a `Misuse` error if a pattern is invalid.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Select> {
        Ok(Select { include: Patterns::new(include)?, exclude: Patterns::new(exclude)? })
    }

    /// Excludes the tensors of these names, which are not patterns.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = String>) -> Select {
        self.exclude.names.extend(names);
        self
    }

    /// Returns `true` if the selection has all tensors of any file.
    pub fn is_all(&self) -> bool {
        self.include.all.is_empty() && self.exclude.names.is_empty()
    }

    /// Returns `true` if a tensor of this name is selected.
    pub fn selects(&self, name: &str) -> bool {
        (self.include.all.is_empty() || self.include.match_any(name))
            && !self.exclude.match_any(name)
    }

    /// Returns `true` if a value of this name, which is listed among the tensors, is selected: as a tensor would be, or
    /// together with all tensors below it.
    pub fn selects_value(&self, name: &str) -> bool {
        let below = format!("{name}.");
        let matches = |patterns: &Patterns| patterns.match_any(name) || patterns.match_any(&below);
        (self.include.all.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }

    /// Returns the selected tensors of `file`, in file order.
    ///
    /// # Errors
    /// Returns a `NotFound` error if an include matches nothing, with the most similar name as a hint.
    pub fn tensors(&self, file: &File) -> Result<Vec<Tensor>> {
        self.check(|name| file.index().get(name).is_some(), || file.names())
            .map_err(|e| e.in_source(file.name()))?;
        Ok(file.tensors().filter(|t| self.selects(t.name())).collect())
    }

    /// Returns the selected ones of these names, in their order.
    ///
    /// # Errors
    /// Returns a `NotFound` error if an include matches nothing, with the most similar name as a hint.
    pub fn names<'n>(&self, all: &[&'n str]) -> Result<Vec<&'n str>> {
        let known: HashSet<&str> = all.iter().copied().collect();
        self.check(|name| known.contains(name), || all.iter().copied())?;
        Ok(all.iter().copied().filter(|name| self.selects(name)).collect())
    }

    /// Returns an error if an include matches none of these names.
    fn check<'n, I: ExactSizeIterator<Item = &'n str>>(
        &self,
        is_known: impl Fn(&str) -> bool,
        all: impl Fn() -> I,
    ) -> Result<()> {
        for glob in &self.include.all {
            let found = match glob.as_name() {
                Some(name) => [name, glob.as_str()].into_iter().any(&is_known),
                None => all().any(|name| glob.matches(name)),
            };
            if !found {
                return Err(glob.matches_nothing(all()));
            }
        }
        Ok(())
    }
}
