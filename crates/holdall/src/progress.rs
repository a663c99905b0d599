//! How far along a long operation is.

use std::sync::Arc;

/// Told how far along an operation is, from any thread. Implementations must be quick.
pub trait Progress: Send + Sync {
    /// The operation will handle this many bytes in all.
    fn begin(&self, total_bytes: u64);
    /// It handled this many more.
    fn advance(&self, bytes: u64);
}

/// A listener, or none.
#[derive(Clone, Default)]
pub(crate) struct Listener(pub(crate) Option<Arc<dyn Progress>>);

impl Listener {
    pub(crate) fn begin(&self, total: u64) {
        if let Some(p) = &self.0 {
            p.begin(total);
        }
    }

    pub(crate) fn advance(&self, bytes: u64) {
        if let Some(p) = &self.0 {
            p.advance(bytes);
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "listening" } else { "silent" })
    }
}
