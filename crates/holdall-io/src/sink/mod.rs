//! Where bytes go.

mod file;
mod folder;
mod stream;
mod summed;
mod unpublished;

pub use file::{Durability, FileSink};
pub use folder::FolderSink;
pub use stream::StreamSink;
pub use summed::DigestSink;
pub use unpublished::{folder, sweep, sync_folder};

use crate::error::TO_ADDRESS;
use crate::source::ByteSource;
use holdall_core::Result;
use std::path::Path;
use std::sync::Arc;

/// Refuses an address: files are not written there.
///
/// # Errors
/// Unsupported: `write/address`.
pub fn check_local(path: &Path) -> Result<()> {
    let location = crate::Location::new(path);
    match location.as_address() {
        Some(_) => {
            let e = TO_ADDRESS.broken("this is an address, not a path");
            Err(e.in_source(location))
        }
        None => Ok(()),
    }
}

/// The most bytes that [`Sink::fill`] asks for at a time: few enough to stay in the processor's cache until they are
/// digested.
pub const FILL_LEN: usize = 1 << 20;

/// An append-only destination that publishes all or nothing, where it can.
pub trait Sink {
    /// What [`Sink::finish`] gives back.
    type Done;

    /// Bytes appended so far.
    fn len(&self) -> u64;

    /// Whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Told, before the first byte, about how many bytes may come.
    fn expect(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Told, before the first byte, how many bytes will come at least; makes room for them.
    ///
    /// # Errors
    /// Io, when there is no room.
    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Io. The sink is then of no more use; dropping it leaves nothing behind.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends `len` bytes that `read` gives, in pieces of at most [`FILL_LEN`]: it fills all of the memory that it is
    /// called with. A sink that lends its own saves a copy.
    ///
    /// # Errors
    /// As [`Sink::append`], and what `read` fails with.
    fn fill(&mut self, len: u64, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let mut memory = vec![0; len.min(FILL_LEN as u64) as usize];
        let mut left = len;
        while left > 0 {
            let now = left.min(FILL_LEN as u64) as usize;
            read(&mut memory[..now])?;
            self.append(&memory[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    /// Returns what was appended as a source, to be looked at before it is published; `None` where it cannot be read back, as
    /// from a pipe. Nothing is appended after this.
    ///
    /// # Errors
    /// Io. The sink is then of no more use.
    fn read_back(&mut self) -> Result<Option<Arc<dyn ByteSource>>> {
        Ok(None)
    }

    /// Publishes what was appended.
    ///
    /// # Errors
    /// Io; nothing is published then.
    fn finish(self) -> Result<Self::Done>;
}
