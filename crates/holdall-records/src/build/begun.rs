//! What was begun for a file, and has to come back to it.

use crate::rules::NOT_ADDED;
use holdall_core::Result;
use holdall_core::error::Shown as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names of the datasets and blobs that a [`Build`](super::Build) handed out and did not get back, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Names>>);

#[derive(Default)]
struct Names {
    next: u64,
    out: BTreeMap<u64, String>,
}

/// That one of them is still to come back. Dropping it is not coming back.
pub(crate) struct Promise {
    to: Begun,
    number: u64,
}

impl Begun {
    /// Notes that this one was handed out.
    pub(super) fn promise(&self, name: &str) -> Promise {
        let mut names = self.names();
        let number = names.next;
        names.next += 1;
        names.out.insert(number, name.to_owned());
        Promise { to: self.clone(), number }
    }

    /// # Errors
    /// `build/not-added` where one has not come back.
    pub(super) fn check(&self) -> Result<()> {
        let names = self.names();
        if names.out.is_empty() {
            return Ok(());
        }
        let all: Vec<String> =
            names.out.values().map(|name| format!("`{}`", name.shown())).collect();
        let verb = if all.len() == 1 { "was" } else { "were" };
        Err(NOT_ADDED.broken(format!("{} {verb} begun and not added to the file", all.join(", "))))
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Promise {
    /// It came back, or nobody wants it any more.
    pub(super) fn keep(self) {
        self.to.names().out.remove(&self.number);
    }
}
