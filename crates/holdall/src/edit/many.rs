//! Changes of several tensors at once, by patterns and rules.

use super::Edit;
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_io::Tensor;
use holdall_io::error::{SAME_NAME, SELECT};
use holdall_io::select::{Rename, Select};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

impl Edit {
    /// Adds tensors of another open file under the names that the rules give them. With `replace`, existing tensors of
    /// these names are replaced.
    ///
    /// # Errors
    /// Returns the same errors as [`Edit::append`].
    pub fn append_all(
        &mut self,
        tensors: &[Tensor],
        rules: &[Rename],
        replace: bool,
    ) -> Result<()> {
        for tensor in tensors {
            let name = Rename::first(rules, tensor.name());
            if replace && self.by_name.contains_key(&*name) {
                self.remove(&name)?;
            }
            self.append(tensor, &name)?;
        }
        Ok(())
    }

    /// Removes the tensors that the selection finds among those that the file has after the changes so far. Returns
    /// their number.
    ///
    /// # Errors
    /// Returns the errors of [`Select::names`] and [`Edit::remove`].
    pub fn remove_all(&mut self, select: &Select) -> Result<usize> {
        let names = self.names();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let removed = select.names(&all).map_err(|e| e.in_source(self.file.name()))?;
        for name in &removed {
            self.remove(name)?;
        }
        Ok(removed.len())
    }

    /// Returns the names of the tensors that the file has after the changes so far.
    fn names(&self) -> Vec<String> {
        let mut all: Vec<_> = self.by_name.iter().collect();
        all.sort_by_key(|(_, position)| **position);
        all.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Renames every tensor that a rule matches, of those that the file has after the changes so far. Returns their
    /// number. The new names may be old names of other renamed tensors.
    ///
    /// # Errors
    /// Returns a `Misuse` error if no rule matches, or two tensors would have one name; and the errors of [`Edit::rename`].
    pub fn rename_all(&mut self, rules: &[Rename]) -> Result<usize> {
        let (names, source) = (self.names(), self.file.name().to_owned());
        let mut changes: Vec<(&str, Cow<'_, str>)> = Vec::new();
        for name in &names {
            let new = Rename::first(rules, name);
            if new != *name {
                changes.push((name, new));
            }
        }
        if changes.is_empty() {
            let e = SELECT.broken(format!("no rule renames any of the {} tensors", names.len()));
            return Err(e.in_source(source));
        }
        check_names(&names, &changes).map_err(|e| e.in_source(source))?;
        // Renames may form a cycle, so all old names are released before any new one is assigned.
        for (at, (old, _)) in changes.iter().enumerate() {
            self.rename(old, &passing_name(at))?;
        }
        for (at, (_, new)) in changes.iter().enumerate() {
            self.rename(&passing_name(at), new)?;
        }
        Ok(changes.len())
    }
}

/// Refuses to give two tensors the same name.
fn check_names(names: &[String], changes: &[(&str, Cow<'_, str>)]) -> Result<()> {
    let shown = |name: &str| format!("`{}`", name.escaped());
    let refuse = |message: String| {
        let e = SAME_NAME.broken(message);
        Err(e.with_hint("use as many `*` after `=` as before it: 'OLD.*=NEW.*'"))
    };
    let taken: HashSet<&str> = names.iter().map(String::as_str).collect();
    let olds: HashSet<&str> = changes.iter().map(|(old, _)| *old).collect();
    let mut news: HashMap<&str, &str> = HashMap::new();
    for (old, new) in changes {
        if let Some(other) = news.insert(new, old) {
            let (other, old, new) = (shown(other), shown(old), shown(new));
            return refuse(format!("the rules rename both {other} and {old} to {new}"));
        }
        if taken.contains(&**new) && !olds.contains(&**new) {
            let (old, new) = (shown(old), shown(new));
            return refuse(format!(
                "the rules rename {old} to {new}, which is the name of another tensor"
            ));
        }
    }
    Ok(())
}

/// Returns a temporary name that no file uses.
fn passing_name(at: usize) -> String {
    format!("\0holdall renames\0{at}")
}
