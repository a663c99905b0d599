//! How far along a long operation is.

use crate::error::CANCELLED;
use holdall_core::Result;
use std::sync::Arc;

/// Told how far along an operation is, from any thread. Implementations must be quick.
pub trait Progress: Send + Sync {
    /// The operation will handle this many bytes in all.
    fn begin(&self, total_bytes: u64);
    /// It handled this many more.
    fn advance(&self, bytes: u64);
    /// Asked now and then whether the operation is still wanted. Once it is not, the operation ends with
    /// an error of kind Io as soon as it can, and leaves behind what any other error leaves.
    fn is_cancelled(&self) -> bool {
        false
    }
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

    pub(crate) fn advance(&self, bytes: u64) -> Result<()> {
        let Some(p) = &self.0 else { return Ok(()) };
        p.advance(bytes);
        if p.is_cancelled() {
            let e = std::io::Error::from(std::io::ErrorKind::Interrupted);
            return Err(CANCELLED.broken("the operation was cancelled").with_io(e));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "listening" } else { "silent" })
    }
}
