//! Asynchronous sources.

use super::executor::spawn_blocking;
use crate::error::SOURCE_LEN;
use crate::source::{ReadHints, check_range};
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A read in progress. Dropping it cancels the read.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>>;

/// Bytes that are read asynchronously at offsets. The requirements for implementations are those of
/// [`crate::ByteSource`]; in addition, dropping a read must cancel it.
pub trait ByteSource: Send + Sync {
    /// Returns the length in bytes, which never changes.
    fn len(&self) -> u64;

    /// Reads the bytes of each range, in the order of `ranges`.
    ///
    /// # Errors
    /// Returns an `Io` error if a range cannot be read completely.
    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a>;

    /// Returns `true` if the source has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the cost of a read and the best length of one. By default [`ReadHints::REMOTE`].
    fn read_hints(&self) -> ReadHints {
        ReadHints::REMOTE
    }
}

/// A blocking source, such as a file or an address, that is read on `tokio`'s threads for blocking operations.
pub struct Blocking(Arc<dyn crate::ByteSource>);

impl Blocking {
    /// Creates an asynchronous source that reads `source` on other threads.
    pub fn new(source: Arc<dyn crate::ByteSource>) -> Blocking {
        Blocking(source)
    }
}

impl ByteSource for Blocking {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a> {
        let (source, ranges) = (Arc::clone(&self.0), ranges.to_vec());
        Box::pin(spawn_blocking(move || source.read(&ranges)))
    }

    fn read_hints(&self) -> ReadHints {
        self.0.read_hints()
    }
}

/// Reads the bytes of each range, and checks that the source returned as many as requested.
pub(super) async fn read(source: &dyn ByteSource, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    ranges.iter().try_for_each(|range| check_range(range, source.len()))?;
    let all = source.read(ranges).await?;
    let found: Vec<u64> = all.iter().map(|bytes| bytes.len() as u64).collect();
    let wanted: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
    if found != wanted {
        let at = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        let at = at.unwrap_or(found.len().min(wanted.len()));
        let count = |all: &[u64]| all.get(at).map_or("no".to_owned(), u64::to_string);
        let message =
            format!("the source returned {} bytes, expected {}", count(&found), count(&wanted));
        let e = SOURCE_LEN.broken(message);
        return Err(ranges.get(at).map_or(e.clone(), |range| e.at(range.clone())));
    }
    Ok(all)
}
