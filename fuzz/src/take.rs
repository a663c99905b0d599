//! Numbers and names from bytes: every sequence of bytes is a valid sequence of values, and a small change of the bytes
//! is a small change of the values.

use holdall::layout::Decoded;
use holdall::{Bytes, Component, DType, LogicalType};

/// Takes numbers and runs of bytes from the front of an input. After the end everything is 0 or empty.
#[derive(Debug)]
pub struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    /// Starts at the front of `input`.
    pub fn new(input: &'a [u8]) -> Take<'a> {
        Take(input)
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// Takes up to `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(len.min(self.0.len()));
        self.0 = later;
        now
    }

    fn word<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let found = self.bytes(N);
        out[..found.len()].copy_from_slice(found);
        out
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.word())
    }

    /// Takes a little-endian `u16`.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.word())
    }

    /// Takes a little-endian `u32`.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.word())
    }

    /// Takes a little-endian `u64`.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.word())
    }

    /// Takes a number below `count`, which is at most 256.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.u8()) % count.max(1)
    }

    /// Takes bytes that are preceded by their length in two bytes.
    pub fn run(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.bytes(len.into())
    }

    /// Takes a shape of up to 5 dimensions of any size.
    pub fn shape(&mut self) -> Vec<u64> {
        let rank = self.below(6);
        (0..rank).map(|_| self.u64()).collect()
    }

    /// Takes a dtype.
    pub fn dtype(&mut self) -> DType {
        DType::ALL[self.below(DType::ALL.len())]
    }

    /// Takes a dtype and, in some cases, a logical type.
    pub fn types(&mut self) -> (DType, Option<LogicalType>) {
        let dtype = self.dtype();
        let number = usize::from(self.u8());
        let logical = number.checked_sub(1).and_then(|at| logical_types().nth(at));
        // Other combinations become unknown types when a file is opened.
        let fits = |t: &LogicalType| t.storage().is_none_or(|storage| storage == dtype);
        (dtype, logical.filter(fits))
    }

    /// Takes decoded bytes of some type, up to 64 KiB.
    pub fn component(&mut self) -> Decoded {
        let (dtype, logical_type) = self.types();
        // Copied, so that they are aligned in memory.
        Decoded { dtype, logical_type, bytes: Bytes::copy_from_slice(self.run()) }
    }
}

/// Writes bytes that [`Take`] reads back.
#[derive(Debug, Default)]
pub(crate) struct Put(pub(crate) Vec<u8>);

impl Put {
    pub(crate) fn u8(&mut self, n: u8) {
        self.0.push(n);
    }

    pub(crate) fn run(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.0.extend(len.to_le_bytes());
        self.0.extend_from_slice(&bytes[..len.into()]);
    }

    /// Writes a shape. Returns `false` if it has too many dimensions.
    pub(crate) fn shape(&mut self, shape: &[u64]) -> bool {
        self.u8(shape.len() as u8);
        shape.iter().for_each(|d| self.0.extend(d.to_le_bytes()));
        shape.len() < 6
    }

    pub(crate) fn types(&mut self, dtype: DType, logical: Option<&LogicalType>) {
        let index = DType::ALL.iter().position(|d| *d == dtype);
        self.u8(index.unwrap_or_default() as u8);
        let number = |t: &LogicalType| logical_types().position(|k| k == *t);
        self.u8(logical.map_or(0, |t| number(t).map_or(11, |n| n as u8 + 1)));
    }

    pub(crate) fn component(&mut self, c: &Component, decoded: &[u8]) {
        self.types(c.dtype, c.logical_type.as_ref());
        self.run(decoded);
    }
}

/// Returns the logical types in the order of their numbers in inputs, which must not change.
fn logical_types() -> impl Iterator<Item = LogicalType> {
    let first = LogicalType::KNOWN.into_iter().filter(|t| *t != LogicalType::Complex32);
    first.chain([LogicalType::from_name("q7"), LogicalType::Complex32])
}
