//! Tracks the datasets and blobs that were begun for a file and must be added to it.

use crate::rules::NOT_ADDED;
use holdall_core::Result;
use holdall_core::error::Escape as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names of the datasets and blobs that a [`Build`](super::Build) handed out and that were not added yet, by
/// number.
#[derive(Clone, Default)]
pub(super) struct PendingWriters(Arc<Mutex<Names>>);

#[derive(Default)]
struct Names {
    next: u64,
    out: BTreeMap<u64, String>,
}

/// The obligation to add one of them. Dropping it does not fulfil it.
pub(crate) struct PendingWriter {
    to: PendingWriters,
    id: u64,
}

impl PendingWriters {
    /// Records that a dataset or blob was handed out.
    pub(super) fn register(&self, name: &str) -> PendingWriter {
        let mut names = self.names();
        let id = names.next;
        names.next += 1;
        names.out.insert(id, name.to_owned());
        PendingWriter { to: self.clone(), id }
    }

    /// Checks that every started tensor was added or discarded.
    ///
    /// # Errors
    /// Returns `build/not-added` if one was neither added nor discarded.
    pub(super) fn check(&self) -> Result<()> {
        let names = self.names();
        if names.out.is_empty() {
            return Ok(());
        }
        let all: Vec<String> =
            names.out.values().map(|name| format!("`{}`", name.escaped())).collect();
        let verb = if all.len() == 1 { "was" } else { "were" };
        Err(NOT_ADDED.broken(format!("{} {verb} begun, but not added to the file", all.join(", "))))
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingWriter {
    /// Fulfils the obligation: the dataset or blob was added or discarded.
    pub(super) fn resolve(self) {
        self.to.names().out.remove(&self.id);
    }
}
