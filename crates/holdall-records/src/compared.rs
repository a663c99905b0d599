//! Datasets and blobs as a whole, compared with their digests.

use crate::{Blob, Records};
use holdall_core::{Error, Result};
use holdall_io::Tensor;
use std::ops::Range;
use std::sync::OnceLock;

/// What became of comparing all components of a tensor with their digests. It is done once.
#[derive(Default)]
pub(super) struct Compared(OnceLock<Option<Error>>);

impl Compared {
    fn get(&self, tensor: &Tensor) -> Result<()> {
        // From far away all bytes would be fetched twice.
        if tensor.file().sources().terms().is_remote() {
            return Ok(());
        }
        let compared = self.0.get_or_init(|| tensor.checked().compare_all().err());
        compared.clone().map_or(Ok(()), Err)
    }
}

impl Records {
    /// Compares all bytes of the dataset with their digests, under the policy that the file was opened with. What goes through all records
    /// does this first; a part of them is not compared, and neither is a file far away, whose records [`Records::loaded`] compares.
    ///
    /// # Errors
    /// Io, Integrity.
    pub fn compare(&self) -> Result<()> {
        self.0.compared.get(self.tensor())
    }

    /// The same for a caller that compared the tensor before: nothing is compared any more.
    pub fn assume_compared(self) -> Records {
        let _ = self.0.compared.0.set(None);
        self
    }

    /// [`Records::compare`], if the range is all of them.
    pub(super) fn compare_if_whole(&self, range: &Range<u64>) -> Result<()> {
        match *range == (0..self.len()) {
            true => self.compare(),
            false => Ok(()),
        }
    }
}

impl Blob {
    /// Compares all bytes of the blob with their digests, as [`Records::compare`] does.
    ///
    /// # Errors
    /// Io, Integrity.
    pub fn compare(&self) -> Result<()> {
        self.0.compared.get(self.tensor())
    }
}
