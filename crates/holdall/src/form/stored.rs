//! Finds the nonzero elements of dense tensors piece by piece: once to count them, and once for each
//! component of the sparse tensor.

use bytes::Bytes;
use holdall_core::layout::number::ElementType;
use holdall_core::{DType, Result};
use holdall_io::items::{ComponentSource, ComputedPieces};
use holdall_io::{Check, DensePieces, Tensor};
use std::ops::Range;

/// Number of elements processed together: their indices take at most 2 MiB.
const AT_A_TIME: u64 = 1 << 18;

/// The content of one component of the sparse tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonzeroContent {
    /// The bytes of the elements.
    Values,
    /// Indices in a dimension of length `size` with a stride of `every` elements.
    Places { every: u64, size: u64 },
    /// Row pointers: the number of nonzero elements before each row of `columns` elements, and before the
    /// end.
    Rows { rows: u64, columns: u64 },
}

/// Returns the number of nonzero elements of a tensor.
pub(super) fn count(tensor: &Tensor) -> Result<u64> {
    let mut stored = Stored::new(tensor, NonzeroContent::Values)?;
    let mut count = 0u64;
    while let Some(range) = stored.next_range()? {
        count += stored.nonzero(range).count() as u64;
    }
    Ok(count)
}

/// Returns a source of these contents of a tensor, one after the other.
pub(super) fn feed(tensor: &Tensor, all: Vec<NonzeroContent>) -> ComponentSource {
    let tensor = tensor.clone();
    ComponentSource::Made(Box::new(move || {
        let each = all.into_iter().flat_map(move |what| {
            let (stored, failed) = match Stored::new(&tensor, what) {
                Ok(stored) => (Some(stored), None),
                Err(e) => (None, Some(Err(e))),
            };
            failed.into_iter().chain(stored.into_iter().flatten())
        });
        let made: ComputedPieces = Box::new(each);
        Ok(made)
    }))
}

/// One pass over the elements of a tensor.
struct Stored {
    dense: DensePieces,
    what: NonzeroContent,
    /// Bytes per element.
    width: usize,
    piece: Bytes,
    /// Processed bytes of the current piece, and the index of the next element.
    seen: usize,
    at: u64,
    /// Nonzero elements so far, and the rows whose pointers were written.
    upto: u64,
    row: u64,
    is_done: bool,
}

impl Stored {
    fn new(tensor: &Tensor, what: NonzeroContent) -> Result<Stored> {
        let element = tensor.dense_type().unwrap_or(ElementType::new(DType::U8, None));
        Ok(Stored {
            dense: tensor.dense_pieces(Check::All)?,
            what,
            width: element.len_of(1).max(1) as usize,
            piece: Bytes::new(),
            seen: 0,
            at: 0,
            upto: 0,
            row: 0,
            is_done: false,
        })
    }

    /// Returns the next byte range of the piece to process, and loads the next piece when one is done; `None`
    /// at the end.
    fn next_range(&mut self) -> Result<Option<Range<usize>>> {
        while self.seen >= self.piece.len() {
            let Some(piece) = self.dense.next().transpose()? else { return Ok(None) };
            (self.piece, self.seen) = (piece, 0);
        }
        let most = (AT_A_TIME as usize).saturating_mul(self.width);
        let range = self.seen..self.piece.len().min(self.seen.saturating_add(most));
        self.seen = range.end;
        Ok(Some(range))
    }

    /// Returns the nonzero elements in these bytes, with their indices in the tensor. A negative zero counts
    /// as nonzero, since its sign bit is set.
    fn nonzero(&self, range: Range<usize>) -> impl Iterator<Item = (u64, &[u8])> {
        let all = (0u64..).zip(self.piece[range].chunks_exact(self.width));
        all.filter(|(_, value)| value.iter().any(|b| *b != 0))
    }

    fn made(&mut self, range: Range<usize>) -> Vec<u8> {
        let (first, count) = (self.at, (range.len() / self.width) as u64);
        self.at += count;
        let mut out = Vec::new();
        match self.what {
            NonzeroContent::Values => {
                self.nonzero(range).for_each(|(_, value)| out.extend_from_slice(value))
            }
            NonzeroContent::Places { every, size } => {
                for (number, _) in self.nonzero(range) {
                    let column = (first + number) / every.max(1) % size.max(1);
                    out.extend_from_slice(&column.to_le_bytes());
                }
            }
            NonzeroContent::Rows { rows, columns } => {
                let (mut row, mut upto) = (self.row, self.upto);
                // Row 0 starts before all elements; other pointers are written where their row begins.
                let mut tell = |column: u64, upto: u64| {
                    while row <= rows && row.saturating_mul(columns) <= column {
                        out.extend_from_slice(&upto.to_le_bytes());
                        row += 1;
                    }
                };
                for (number, _) in self.nonzero(range) {
                    tell(first + number, upto);
                    upto += 1;
                }
                tell(first + count, upto);
                (self.row, self.upto) = (row, upto);
            }
        }
        out
    }

    /// Returns the bytes after the last element: row pointers of a shape without columns.
    fn finish(&mut self) -> Vec<u8> {
        let NonzeroContent::Rows { rows, .. } = self.what else { return Vec::new() };
        let last = (rows + 1).min(self.row.saturating_add(AT_A_TIME));
        let count = last.saturating_sub(self.row) as usize;
        self.row = self.row.max(last);
        self.upto.to_le_bytes().repeat(count)
    }

    fn advance(&mut self) -> Result<Vec<u8>> {
        while let Some(range) = self.next_range()? {
            let out = self.made(range);
            if !out.is_empty() {
                return Ok(out);
            }
        }
        Ok(self.finish())
    }
}

impl Iterator for Stored {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.is_done {
            return None;
        }
        match self.advance() {
            Ok(out) if out.is_empty() => None,
            Ok(out) => Some(Ok(out.into())),
            Err(e) => {
                self.is_done = true;
                Some(Err(e))
            }
        }
    }
}
