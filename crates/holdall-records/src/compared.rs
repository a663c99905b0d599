//! Compares whole datasets and blobs with their digests.

use crate::{Blob, Records};
use holdall_core::{Error, Result};
use holdall_io::Tensor;
use std::ops::Range;
use std::sync::OnceLock;

/// The result of comparing all components of a tensor with their digests, which is done at most once.
#[derive(Default)]
pub(super) struct Compared(OnceLock<Option<Error>>);

impl Compared {
    fn get(&self, tensor: &Tensor) -> Result<()> {
        // Comparing a remote file would fetch all bytes twice.
        if tensor.file().sources().read_hints().is_remote() {
            return Ok(());
        }
        let compared = self.0.get_or_init(|| tensor.checked().compare_all().err());
        compared.clone().map_or(Ok(()), Err)
    }
}

impl Records {
    /// Compares all bytes of the dataset with their digests, under the policy that the file was opened with. Operations
    /// on all records call this first. Operations on some of the records do not, and remote files are not compared
    /// here; [`Records::loaded`] compares their records.
    ///
    /// # Errors
    /// Returns an I/O error, an integrity error.
    pub fn compare(&self) -> Result<()> {
        self.0.compared.get(self.tensor())
    }

    /// Marks the tensor as compared, for callers that have already compared it.
    pub fn assume_compared(self) -> Records {
        let _ = self.0.compared.0.set(None);
        self
    }

    /// Calls [`Records::compare`] if the range is all records.
    pub(super) fn compare_if_whole(&self, range: &Range<u64>) -> Result<()> {
        match *range == (0..self.len()) {
            true => self.compare(),
            false => Ok(()),
        }
    }
}

impl Blob {
    /// Compares all bytes of the blob with their digests: see [`Records::compare`].
    ///
    /// # Errors
    /// Returns an I/O error, an integrity error.
    pub fn compare(&self) -> Result<()> {
        self.0.compared.get(self.tensor())
    }
}
