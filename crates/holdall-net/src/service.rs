//! What servers have in common.

use crate::shelf::{Bounds, Log, Shelf, Tokens};
use std::fmt;
use std::sync::Arc;

/// What is served, to whom, how much of it at once, and who is told. Servers that are given clones of one serve the same.
#[derive(Clone)]
pub struct Service {
    pub(crate) shelf: Arc<dyn Shelf>,
    pub(crate) tokens: Tokens,
    pub(crate) bounds: Bounds,
    pub(crate) log: Log,
}

impl Service {
    /// What is on `shelf`, to anybody, under the usual bounds.
    pub fn new(shelf: Arc<dyn Shelf>) -> Service {
        let (tokens, bounds) = (Tokens::default(), Bounds::default());
        Service { shelf, tokens, bounds, log: Arc::new(|_| {}) }
    }

    /// Who may ask.
    pub fn with_tokens(mut self, tokens: Tokens) -> Service {
        self.tokens = tokens;
        self
    }

    /// How much clients may have.
    pub fn with_bounds(mut self, bounds: Bounds) -> Service {
        self.bounds = bounds;
        self
    }

    /// Who is told what was asked for.
    pub fn with_log(mut self, log: Log) -> Service {
        self.log = log;
        self
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("tokens", &self.tokens)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}
