//! Choices for tensors by their names.

use crate::file::File;
use crate::glob::Glob;
use holdall_core::{Error, Result};

/// A choice for all tensors, or for those whose names match a [`Glob`]. The first one whose pattern matches applies,
/// else the one without a pattern.
#[derive(Debug, Clone)]
pub struct ByName<T>(Vec<(Option<Glob>, T)>);

impl<T> Default for ByName<T> {
    fn default() -> ByName<T> {
        ByName(Vec::new())
    }
}

impl<T: Copy> ByName<T> {
    /// Adds a choice for the names that `glob` matches, or for all names, after the existing ones.
    pub fn push(&mut self, glob: Option<Glob>, says: T) {
        self.0.push((glob, says));
    }

    /// Checks that at most one choice has no pattern, and that each pattern matches a tensor. `twice` creates the error
    /// for two choices without a pattern.
    ///
    /// # Errors
    /// Returns the error of `twice`; a `NotFound` error if a pattern matches nothing.
    pub fn check(&self, file: &File, twice: impl Fn(&T, &T) -> Error) -> Result<()> {
        let mut of_all = self.0.iter().filter(|(glob, _)| glob.is_none());
        if let (Some((_, one)), Some((_, other))) = (of_all.next(), of_all.next()) {
            return Err(twice(one, other));
        }
        for glob in self.0.iter().filter_map(|(glob, _)| glob.as_ref()) {
            if !file.names().any(|name| glob.matches(name)) {
                return Err(glob.matches_nothing(file.names()).in_source(file.name()));
            }
        }
        Ok(())
    }

    /// Returns the choice for the tensor of this name, and whether it names the tensor itself instead of matching a
    /// pattern.
    pub fn lookup(&self, name: &str) -> Option<(T, bool)> {
        let matches =
            |(glob, _): &&(Option<Glob>, T)| glob.as_ref().is_some_and(|g| g.matches(name));
        let found = self.0.iter().find(matches);
        let (glob, says) = found.or_else(|| self.0.iter().find(|(glob, _)| glob.is_none()))?;
        let is_name = |g: &Glob| g.as_name() == Some(name) || g.as_str() == name;
        Some((*says, glob.as_ref().is_some_and(is_name)))
    }
}
