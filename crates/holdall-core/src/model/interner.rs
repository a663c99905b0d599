//! Interning of roles, layouts and logical types.

use super::builder::TOO_MANY_NAMES;
use crate::error::Result;
use holdall_collections::HashMap;
use std::hash::Hash;

/// Assigns numbers to values, in the order in which they first occur. The value of the last call is compared first.
pub(super) struct Interner<T> {
    ids: HashMap<T, u16>,
    last: Option<u16>,
}

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner { ids: HashMap::default(), last: None }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the number of a value, and appends the value to `all` if it is new.
    ///
    /// # Errors
    /// Returns [`TOO_MANY_NAMES`] if there are too many values.
    pub(super) fn intern(&mut self, all: &mut Vec<T>, value: &T) -> Result<u16> {
        if let Some(id) = self.last.filter(|&id| all[id as usize] == *value) {
            return Ok(id);
        }
        let id = match self.ids.get(value) {
            Some(&id) => id,
            None => {
                // One less than the maximum, because some rows store 1 + the number.
                let id = u16::try_from(all.len()).ok().filter(|&id| id < u16::MAX);
                let id = id.ok_or_else(|| {
                    TOO_MANY_NAMES
                        .broken("more than 65534 distinct roles, layouts or logical types")
                })?;
                self.ids.insert(value.clone(), id);
                all.push(value.clone());
                id
            }
        };
        self.last = Some(id);
        Ok(id)
    }
}
