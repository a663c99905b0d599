//! An error inside of a record that collects its path while it is returned.

use crate::error::{Error, Remedy};
use crate::path::{Path, Segment};

/// An error and the segments of its path, innermost first.
pub(crate) struct Fail {
    error: Error,
    steps: Vec<Segment>,
}

/// A result whose error collects its path on return, so that valid records do not pay for it.
pub(crate) type Outcome<T> = Result<T, Box<Fail>>;

impl From<Error> for Box<Fail> {
    #[cold]
    fn from(error: Error) -> Box<Fail> {
        Box::new(Fail { error, steps: Vec::new() })
    }
}

impl Fail {
    /// Adds a segment to the path.
    #[cold]
    pub(crate) fn inside(mut self: Box<Fail>, segment: Segment) -> Box<Fail> {
        self.steps.push(segment);
        self
    }

    /// Adds a remedy to the error.
    #[cold]
    pub(crate) fn advised(mut self: Box<Fail>, remedy: Remedy) -> Box<Fail> {
        self.error = self.error.with_remedy(remedy);
        self
    }

    /// Returns the error with its path.
    #[cold]
    #[expect(clippy::boxed_local, reason = "it travels in a box")]
    pub(crate) fn into_error(self: Box<Fail>) -> Error {
        let Fail { error, mut steps } = *self;
        if steps.is_empty() {
            return error;
        }
        steps.reverse();
        let path = Path(steps);
        error.within(format!("`{path}`"))
    }
}
