//! An error on its way out of a record, picking up the path as it goes.

use crate::error::{Error, Remedy};
use crate::path::{Path, Segment};

/// What went wrong, and the way there, innermost step first.
pub(crate) struct Fail {
    error: Error,
    steps: Vec<Segment>,
}

/// A result whose error finds its path later: sound records pay nothing for it.
pub(crate) type Outcome<T> = Result<T, Box<Fail>>;

impl From<Error> for Box<Fail> {
    #[cold]
    fn from(error: Error) -> Box<Fail> {
        Box::new(Fail { error, steps: Vec::new() })
    }
}

impl Fail {
    /// The same, inside a member.
    #[cold]
    pub(crate) fn inside(mut self: Box<Fail>, segment: Segment) -> Box<Fail> {
        self.steps.push(segment);
        self
    }

    /// The same with what can be done about it.
    #[cold]
    pub(crate) fn advised(mut self: Box<Fail>, remedy: Remedy) -> Box<Fail> {
        self.error = self.error.with_remedy(remedy);
        self
    }

    /// The error, within its path.
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
