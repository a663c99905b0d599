//! The sources that a model spans.

use crate::source::{ByteSource, ChunkedSource, MemorySource, ReadHints};
use bytes::Bytes;
use holdall_core::read::{Access, Chunked, Extent};
use holdall_core::{Index, Result};
use std::ops::Range;
use std::sync::Arc;

/// The sources of a model, indexed by the source numbers of its index. Cheap to clone.
#[derive(Clone)]
pub struct Sources {
    all: Arc<[Arc<dyn ByteSource>]>,
    /// Bytes that the index itself states: source [`Extent::STATED`].
    stated: MemorySource,
    /// Arrays assembled from chunks: sources from [`Extent::CHUNKED`] on.
    chunked: Arc<[ChunkedSource]>,
}

impl Sources {
    /// Creates the sources of the model that `index` describes.
    pub(crate) fn new(sources: Vec<Arc<dyn ByteSource>>, index: &Index) -> Sources {
        let all: Arc<[Arc<dyn ByteSource>]> = sources.into();
        let array = |array: &Arc<Chunked>| ChunkedSource::new(all.clone(), array.clone());
        let chunked = index.chunked().iter().map(array).collect();
        Sources { stated: MemorySource::new(index.stated().clone()), chunked, all }
    }

    /// Returns the same model over other sources of the same bytes.
    pub(crate) fn over(&self, sources: Vec<Arc<dyn ByteSource>>) -> Sources {
        let all: Arc<[Arc<dyn ByteSource>]> = sources.into();
        let chunked = self.chunked.iter().map(|array| array.over(all.clone())).collect();
        Sources { stated: self.stated.clone(), chunked, all }
    }

    /// Returns the sources in order, without stated bytes and chunked arrays.
    pub(crate) fn all(&self) -> &[Arc<dyn ByteSource>] {
        &self.all
    }

    /// Returns the source with this number. An unknown number returns the first source; it cannot occur, because an
    /// index is checked against its sources when both are combined.
    pub fn at(&self, number: u32) -> &dyn ByteSource {
        if number == Extent::STATED {
            return &self.stated;
        }
        let array = Extent { source: number, ..Extent::default() }.chunked();
        if let Some(array) = array.and_then(|array| self.chunked.get(array)) {
            return array;
        }
        let at = usize::try_from(number).ok().filter(|at| *at < self.all.len()).unwrap_or(0);
        &*self.all[at]
    }

    /// Returns the read hints for all sources together: those of the most remote one.
    pub fn read_hints(&self) -> ReadHints {
        let hints = self.all.iter().map(|source| source.read_hints());
        hints.max_by_key(|t| (t.at_once, t.access == Access::Copied)).unwrap_or(ReadHints::MEMORY)
    }

    /// Reads the bytes of an extent.
    ///
    /// # Errors
    /// Returns the same errors as [`ByteSource::read`].
    pub(crate) fn read(&self, extent: Extent) -> Result<Bytes> {
        self.at(extent.source).read_range(extent.range())
    }

    /// Reads the bytes of each extent. Adjacent extents of one source are read in one call.
    ///
    /// # Errors
    /// Returns the same errors as [`ByteSource::read`].
    pub(crate) fn read_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>> {
        let mut out = Vec::with_capacity(extents.len());
        for same in extents.chunk_by(|a, b| a.source == b.source) {
            let ranges: Vec<Range<u64>> = same.iter().map(Extent::range).collect();
            out.append(&mut self.at(same[0].source).read(&ranges)?);
        }
        Ok(out)
    }
}

/// One source, without stated bytes.
impl From<Arc<dyn ByteSource>> for Sources {
    fn from(source: Arc<dyn ByteSource>) -> Sources {
        Sources {
            all: vec![source].into(),
            stated: MemorySource::new(Bytes::new()),
            chunked: [].into(),
        }
    }
}
