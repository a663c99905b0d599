//! Names of roles, layouts and logical types as numbers.

use super::builder::TOO_MANY_NAMES;
use crate::error::Result;
use holdall_collections::HashMap;
use std::hash::Hash;

/// Names given numbers in the order they first come; the last one found is tried first.
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
    /// The number of a value, which is put at the end of all where it is new.
    ///
    /// # Errors
    /// [`TOO_MANY_NAMES`].
    pub(super) fn intern(&mut self, all: &mut Vec<T>, value: &T) -> Result<u16> {
        if let Some(id) = self.last.filter(|&id| all[id as usize] == *value) {
            return Ok(id);
        }
        let id = match self.ids.get(value) {
            Some(&id) => id,
            None => {
                // One below the top, because some rows hold 1 + the number.
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
