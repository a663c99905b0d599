//! Where bytes come from that are waited for.

use super::executor::apart;
use crate::error::SOURCE_LEN;
use crate::source::{ReadHints, check_range};
use bytes::Bytes;
use holdall_core::Result;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A read under way. Dropped, it ends.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>>;

/// Bytes that are read by position and waited for; what an implementation keeps is what [`crate::ByteSource`] asks for, but that
/// reads end when they are dropped.
pub trait ByteSource: Send + Sync {
    /// Bytes in all; never changes.
    fn len(&self) -> u64;

    /// The bytes of each range, in the order of `ranges`.
    ///
    /// # Errors
    /// Io, when any of them cannot be had in full.
    fn read<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a>;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a read costs, and how large a read is good.
    fn terms(&self) -> ReadHints {
        ReadHints::REMOTE
    }
}

/// A source that blocks, read on the threads that `tokio` has for that: a file, an address, whatever [`crate::ByteSource`] there is.
pub struct Blocking(Arc<dyn crate::ByteSource>);

impl Blocking {
    /// Reads `source` on other threads.
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
        Box::pin(apart(move || source.read(&ranges)))
    }

    fn terms(&self) -> ReadHints {
        self.0.terms()
    }
}

/// The bytes of each range, which are as many as they should be.
pub(super) async fn read(source: &dyn ByteSource, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    ranges.iter().try_for_each(|range| check_range(range, source.len()))?;
    let all = source.read(ranges).await?;
    let found: Vec<u64> = all.iter().map(|bytes| bytes.len() as u64).collect();
    let wanted: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
    if found != wanted {
        let at = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        let at = at.unwrap_or(found.len().min(wanted.len()));
        let told = |all: &[u64]| all.get(at).map_or("no".to_owned(), u64::to_string);
        let message = format!("the source gave {} bytes for {}", told(&found), told(&wanted));
        let e = SOURCE_LEN.broken(message);
        return Err(ranges.get(at).map_or(e.clone(), |range| e.at(range.clone())));
    }
    Ok(all)
}
