//! Iterates over the elements of a tensor in bounded memory: in any order if the stored form allows it, so
//! that several threads can share the work, otherwise from the start.
//!
//! For a remote file, which is read from the start, digests are checked while reading. For other files, a
//! caller that reads all of a component checks its digest separately: [`Tensor::check_digest`].

use bytes::Bytes;
use holdall_core::codec::{FRAME_LEN, SeekTable, check_decoded_len};
use holdall_core::layout::Computed;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::described::Described;
use holdall_core::layout::number::ElementType;
use holdall_core::read::Access;
use holdall_core::{ByteOrder, Component, DType, Encoding, Result};
use holdall_io::Tensor;
use holdall_io::executor::{Pieces, frames_range, table_of};
use std::ops::Range;
use std::sync::Arc;

/// The elements of a tensor in row-major order, from any source.
pub(crate) struct Elements {
    pub(crate) element_type: ElementType,
    /// Number of elements; `None` if the length is known only after decoding.
    pub(crate) count: Option<u64>,
    source: ElementSource,
}

enum ElementSource {
    /// A component of a file.
    File(Box<InFile>),
    Memory(Bytes),
    /// Elements that are computed when read, as `f32`.
    Computed(Box<dyn Computed>),
    /// Elements that are computed when read, with the type that the tensor's description gives.
    Described(Box<(Tensor, Described)>),
}

struct InFile {
    tensor: Tensor,
    component: Component,
    table: Option<Arc<SeekTable>>,
}

impl Elements {
    /// Returns the elements of a component, read from the file.
    ///
    /// # Errors
    /// Returns an `Io` error; a `Limit` error if the component decodes to more bytes than the caller allows.
    pub(crate) fn stored(tensor: &Tensor, component: Component) -> Result<Elements> {
        let mut table = None;
        if component.encoding != Encoding::Raw {
            // Each frame alone may be within a limit that their sum exceeds.
            let len = component.decoded_len.unwrap_or(0);
            let allowed = check_decoded_len(len, component.stored_len(), tensor.file().limits());
            allowed.map_err(|e| tensor.in_context(e, &component))?;
            let sources = tensor.file().sources();
            // A remote component is fetched in a few large reads, one after the other, so that the table is
            // not needed.
            let found = match sources.read_hints().is_remote() {
                true => None,
                false => {
                    table_of(sources, &component).map_err(|e| tensor.in_context(e, &component))?
                }
            };
            // Long frames would be decoded again for each range in them.
            let short = |t: &SeekTable| t.frames().iter().all(|f| is_short(&f.decoded));
            table = found.filter(short).map(Arc::new);
        }
        let element_type = ElementType::new(component.dtype, component.logical_type.clone());
        let bits = u128::from(element_type.bits());
        let count = component.decoded_len.map(|len| (u128::from(len) * 8 / bits) as u64);
        let tensor = tensor.clone();
        Ok(Elements {
            element_type,
            count,
            source: ElementSource::File(Box::new(InFile { tensor, component, table })),
        })
    }

    /// Returns elements that are in memory.
    pub(crate) fn held(dense: Dense) -> Elements {
        let element_type = ElementType::new(dense.dtype(), dense.logical_type().cloned());
        let bytes = dense.into_bytes();
        let count = Some((bytes.len() as u128 * 8 / u128::from(element_type.bits())) as u64);
        Elements { element_type, count, source: ElementSource::Memory(bytes) }
    }

    /// Returns the elements of a tensor whose layout computes them.
    pub(crate) fn computed(computed: Box<dyn Computed>) -> Elements {
        Elements {
            element_type: ElementType::new(DType::F32, None),
            count: Some(computed.count()),
            source: ElementSource::Computed(computed),
        }
    }

    /// Returns the elements that a tensor of a described layout represents.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::described`].
    pub(crate) fn described(tensor: &Tensor) -> Result<Elements> {
        let described = tensor.described()?;
        let element_type = described.dtype();
        Ok(Elements {
            element_type: ElementType::new(element_type.dtype(), element_type.logical_type()),
            count: Some(described.count()),
            source: ElementSource::Described(Box::new((tensor.clone(), described))),
        })
    }

    /// Returns `true` if any range can be read without reading the bytes before it.
    pub(crate) fn is_random(&self) -> bool {
        match &self.source {
            ElementSource::File(f) => f.component.encoding == Encoding::Raw || f.table.is_some(),
            ElementSource::Memory(_) | ElementSource::Computed(_) | ElementSource::Described(_) => {
                true
            }
        }
    }

    /// Returns `true` if the digest is compared only by a [cursor](Elements::cursor) that reads from the
    /// first element to the last, because any other way would fetch or decode the bytes twice.
    pub(crate) fn checks_digest_in_order(&self) -> bool {
        match &self.source {
            ElementSource::File(f) => {
                (f.is_remote() || !self.is_random())
                    && f.tensor.file().check().algorithm(&f.component).is_some()
            }
            ElementSource::Memory(_) | ElementSource::Computed(_) | ElementSource::Described(_) => {
                false
            }
        }
    }

    /// Compares the bytes with their digest, unless a cursor does. Elements in memory and computed ones were
    /// compared earlier.
    ///
    /// # Errors
    /// Returns an `Io` error, an `Integrity` error.
    pub(crate) fn compare(&self) -> Result<()> {
        match &self.source {
            ElementSource::File(f) if !self.checks_digest_in_order() => {
                f.tensor.checked().compare(&f.component.role)
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the elements are in a local file, so that they can be read a second time at little cost.
    pub(crate) fn is_local_file(&self) -> bool {
        matches!(&self.source, ElementSource::File(f) if !f.is_remote())
    }

    /// Returns the length of the elements in bytes.
    pub(crate) fn len(&self) -> Option<u64> {
        self.count.map(|n| self.element_type.len_of(n))
    }

    /// Passes the bytes of elements `range`, whose start is a multiple of 4, to `work`. `memory` is a buffer
    /// for bytes that are not in memory already.
    ///
    /// # Errors
    /// Returns the errors of reading and decoding, with their context; errors of `work`.
    pub(crate) fn with<T>(
        &self,
        range: Range<u64>,
        memory: &mut Vec<u8>,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let bytes = self.element_type.len_of(range.start)..self.element_type.len_of(range.end);
        match &self.source {
            ElementSource::Memory(all) => work(&all[bytes.start as usize..bytes.end as usize]),
            ElementSource::Computed(q) => {
                let mut values = vec![0f32; (range.end - range.start) as usize];
                q.dequantize_range(range, &mut values)?;
                memory.resize(4 * values.len(), 0);
                for (bytes, value) in memory.as_chunks_mut().0.iter_mut().zip(values) {
                    *bytes = value.to_le_bytes();
                }
                work(memory)
            }
            ElementSource::Described(both) => {
                let (tensor, described) = &**both;
                memory.clear();
                described
                    .elements(range, memory)
                    .map_err(|e| e.in_tensor(tensor.name()).in_source(tensor.file().name()))?;
                work(memory)
            }
            ElementSource::File(f) => f.with(bytes, memory, work),
        }
    }

    /// Returns a cursor at the first element.
    ///
    /// # Errors
    /// Returns a `Limit` error if compressed data decodes to more bytes than allowed.
    pub(crate) fn cursor(&self) -> Result<Cursor<'_>> {
        let pieces = match &self.source {
            ElementSource::File(f) if !self.is_random() || f.is_remote() => {
                Some(f.tensor.checked().component_pieces(f.component.clone())?)
            }
            _ => None,
        };
        Ok(Cursor { elements: self, at: 0, pieces, left: Vec::new(), memory: Vec::new() })
    }

    /// Returns the smallest number of bytes that is worth one read.
    pub(crate) fn least(&self) -> u64 {
        match &self.source {
            ElementSource::File(f) if f.is_remote() => f.tensor.file().sources().read_hints().piece,
            _ => 0,
        }
    }
}

impl InFile {
    fn with<T>(
        &self,
        range: Range<u64>,
        memory: &mut Vec<u8>,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let c = &self.component;
        let in_context = |e| self.tensor.in_context(e, c);
        let (sources, limits) = (self.tensor.file().sources(), self.tensor.file().limits());
        if let Some(table) = &self.table {
            let bytes = frames_range(sources, limits, c, table, range).map_err(in_context)?;
            return work(&bytes);
        }
        let source = sources.at(c.stored.source);
        let plain = c.encoding == Encoding::Raw && c.byte_order == ByteOrder::Little;
        if plain && source.read_hints().access == Access::Copied {
            memory.resize((range.end - range.start) as usize, 0);
            source.read_into(c.stored.start + range.start, memory).map_err(in_context)?;
            return work(memory);
        }
        let bytes = holdall_io::executor::range(sources, limits, c, range).map_err(in_context)?;
        work(&bytes)
    }

    /// Returns `true` if the file is remote.
    fn is_remote(&self) -> bool {
        self.tensor.file().sources().read_hints().is_remote()
    }
}

/// Reads elements from the start, as many at a time as the caller requests.
pub(crate) struct Cursor<'a> {
    elements: &'a Elements,
    /// Number of elements passed to `work` so far.
    at: u64,
    /// Decoded pieces in order, if the elements can only be read in order.
    pieces: Option<Pieces>,
    /// Decoded bytes that have not been passed to `work` yet.
    left: Vec<u8>,
    memory: Vec<u8>,
}

impl Cursor<'_> {
    /// Passes the bytes of the next `count` elements to `work`, fewer at the end. `count` is a multiple of 4.
    ///
    /// # Errors
    /// Returns the same errors as [`Elements::with`].
    pub(crate) fn next<T>(
        &mut self,
        count: u64,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let Some(pieces) = &mut self.pieces else {
            let start = self.at;
            self.at = self.elements.count.unwrap_or(0).min(start + count);
            return self.elements.with(start..self.at, &mut self.memory, work);
        };
        let wanted = self.elements.element_type.len_of(count) as usize;
        while self.left.len() < wanted {
            let Some(piece) = pieces.next() else { break };
            self.left.extend_from_slice(&piece?);
        }
        let now = wanted.min(self.left.len());
        let out = work(&self.left[..now]);
        self.left.drain(..now);
        out
    }
}

fn is_short(range: &Range<u64>) -> bool {
    range.end - range.start <= 4 * FRAME_LEN
}

/// Returns how many elements to process at a time: a multiple of 4, so that packed elements fill whole bytes,
/// a whole number of the frames that Holdall writes in each type, and at least as many as are worth one read.
pub(crate) fn step(sides: &[&Elements]) -> u64 {
    let bits = || sides.iter().map(|e| e.element_type.bits());
    let least = bits().min().unwrap_or(8);
    // A frame is a power of two of bits, which 6 does not divide.
    let frames = if bits().any(|bits| bits == 6) { 3 } else { 1 };
    let piece = sides.iter().map(|e| e.least()).max().unwrap_or(0).div_ceil(FRAME_LEN).max(1);
    (FRAME_LEN * 8 * frames * piece / least).next_multiple_of(4).max(4)
}
