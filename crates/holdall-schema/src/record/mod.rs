//! Records: values as bytes and as JSON (section 5 of the Metatensor specification).

mod encode;
pub(crate) mod fail;
pub(crate) mod float;
pub(crate) mod input;
pub(crate) mod number;
pub mod rules;
mod run;
mod time;
pub(crate) mod walk;

pub use encode::{Encoder, Null, Unknown};
pub use input::{InputInteger, InputNumber, RecordInput};
pub use run::{check_run, encode_run};

use crate::error::Result;
use crate::schema::Extent;
use rules::{ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_EMPTY, ENTRY_LENGTH};

/// The destination of the data that entries refer to.
pub trait Heap {
    /// Appends bytes, at least one, after zeros up to a multiple of `align` (a power of two), and returns the offset at
    /// which they start. May instead return the offset of equal bytes that are already in the heap, if it is a multiple
    /// of `align`.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be stored.
    fn append(&mut self, bytes: &[u8], align: u32) -> Result<u64>;
}

/// A heap in memory.
impl Heap for Vec<u8> {
    fn append(&mut self, bytes: &[u8], align: u32) -> Result<u64> {
        let align = usize::try_from(align).unwrap_or(1).max(1);
        self.resize(self.len().next_multiple_of(align), 0);
        let start = self.len();
        self.extend_from_slice(bytes);
        Ok(start as u64)
    }
}

/// A reference to a heap.
impl<H: Heap + ?Sized> Heap for &mut H {
    fn append(&mut self, bytes: &[u8], align: u32) -> Result<u64> {
        (**self).append(bytes, align)
    }
}

/// The location of bytes in the heap (section 4 of the Metatensor specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The distance from the start of the heap, in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Entry {
    /// The size of an entry in bytes.
    pub const LEN: usize = 16;

    /// Decodes an entry from its 16 bytes.
    #[inline]
    pub fn from_bytes(bytes: [u8; Entry::LEN]) -> Entry {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        Entry {
            offset: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u64::from_le_bytes(rest),
        }
    }

    /// Encodes an entry in 16 bytes.
    pub fn to_bytes(self) -> [u8; Entry::LEN] {
        let mut bytes = [0; Entry::LEN];
        for (slot, b) in bytes
            .iter_mut()
            .zip(self.offset.to_le_bytes().into_iter().chain(self.len.to_le_bytes()))
        {
            *slot = b;
        }
        bytes
    }

    /// Returns the bytes of the heap that the entry refers to.
    ///
    /// # Errors
    /// Returns `record/entry-bounds` if they are not all in the heap.
    #[inline]
    pub fn bytes(self, heap: &[u8]) -> Result<&[u8]> {
        let start = usize::try_from(self.offset).ok();
        let end = self.offset.checked_add(self.len).and_then(|end| usize::try_from(end).ok());
        match start.zip(end).and_then(|(start, end)| heap.get(start..end)) {
            Some(bytes) => Ok(bytes),
            None => Err(self.out_of_bounds(heap.len())),
        }
    }

    #[cold]
    fn out_of_bounds(self, heap: usize) -> crate::Error {
        let Entry { offset, len } = self;
        ENTRY_BOUNDS.broken(format!(
            "an entry of {len} bytes at offset {offset} ends after its heap of {heap} bytes"
        ))
    }

    /// Checks that an empty entry has offset 0.
    fn check_empty(self) -> Result<()> {
        if self.len == 0 && self.offset != 0 {
            let message = format!("an entry of 0 bytes has the offset {}, not 0", self.offset);
            return Err(ENTRY_EMPTY.broken(message));
        }
        Ok(())
    }

    /// Returns the elements of a variable array. `items` is the extent of one element.
    ///
    /// # Errors
    /// Returns `record/entry-bounds`, `record/entry-length`, `record/entry-align`.
    #[inline]
    pub fn elements<'h>(self, heap: &'h [u8], items: Extent) -> Result<Elements<'h>> {
        let bytes = self.bytes(heap)?;
        let stride = items.stride;
        if !self.len.is_multiple_of(stride.max(1)) {
            let message =
                format!("{} bytes, not a multiple of the element size {stride}", self.len);
            return Err(ENTRY_LENGTH.broken(message));
        }
        if !self.offset.is_multiple_of(u64::from(items.align)) {
            let message = format!(
                "the alignment of the elements is {}, but the array starts at offset {}",
                items.align, self.offset
            );
            return Err(ENTRY_ALIGN.broken(message));
        }
        let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
        let size = usize::try_from(items.size).unwrap_or(usize::MAX);
        Ok(Elements { bytes, stride, size })
    }
}

/// The elements of an array, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'h> {
    bytes: &'h [u8],
    stride: usize,
    size: usize,
}

impl<'h> Elements<'h> {
    pub(crate) fn new(bytes: &'h [u8], stride: usize, size: usize) -> Elements<'h> {
        Elements { bytes, stride: stride.max(1), size }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.stride).unwrap_or(0)
    }

    /// Returns `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes of all elements.
    pub fn bytes(&self) -> &'h [u8] {
        self.bytes
    }

    /// Returns the distance from one element to the next, in bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the bytes of the element at `index`, without the padding after it.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&'h [u8]> {
        let start = index.checked_mul(self.stride)?;
        self.bytes.get(start..start.checked_add(self.size)?)
    }

    /// Returns an iterator over the bytes of each element.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'h [u8]> + use<'h> {
        let size = self.size;
        self.bytes.chunks_exact(self.stride).map(move |b| b.get(..size).unwrap_or(b))
    }
}
