//! Bytes that are put together of chunks: the elements of an array that is stored as a grid of smaller ones.

use crate::codec::filter::{self, Filter};
use crate::error::{Error, Result};
use crate::read::Extent;
use std::ops::Range;

/// An array that is stored in chunks, as a source of its decoded bytes: elements in row-major order, in the order of bytes that
/// they are stored in. Components in sources from [`Extent::CHUNKED`] on lie in one, see [`Index::chunked`](crate::Index::chunked).
///
/// Chunks cover the array from its first element on, row by row, and reach beyond its end where it ends inside one. Where a
/// chunk is missing, elements have the fill value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunked {
    /// The number of the source that has the chunks.
    source: u32,
    grid: Grid,
    fill: Vec<u8>,
    filters: Vec<Filter>,
    edges: Edges,
    /// By their places in the grid, which rise.
    chunks: Vec<Chunk>,
}

/// How an array is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Dimensions of the array, in elements.
    shape: Vec<u64>,
    /// Those of a chunk.
    chunk: Vec<u64>,
    /// Bytes of an element.
    width: u64,
}

/// What becomes of chunks that reach beyond the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// They went through the filters as all others.
    Filtered,
    /// They are stored as they are.
    Plain,
}

/// One stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its place in the grid, row by row.
    pub number: u64,
    /// Where its bytes are in the source.
    pub stored: Range<u64>,
    /// The filters that it did not go through, a bit each.
    pub left_out: u32,
}

impl Grid {
    /// An array of `shape` in chunks of `chunk` elements of `width` bytes; `None` where ranks differ, a chunk has no elements,
    /// or bytes pass 2^64.
    pub fn new(shape: &[u64], chunk: &[u64], width: u64) -> Option<Grid> {
        let product = |dims: &[u64]| dims.iter().try_fold(width, |n, dim| n.checked_mul(*dim));
        // No dimension passes 2^64 either, whatever a dimension of 0 makes of the product.
        let full: Vec<u64> = shape.iter().map(|dim| (*dim).max(1)).collect();
        let fits = shape.len() == chunk.len()
            && width > 0
            && product(chunk).is_some_and(|len| len > 0)
            && product(&full).is_some();
        fits.then(|| Grid { shape: shape.to_vec(), chunk: chunk.to_vec(), width })
    }

    /// Bytes of the array.
    pub fn len(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.width
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a chunk.
    pub fn chunk_len(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.width
    }

    /// Chunks in each dimension.
    pub fn cells(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(&self.chunk).map(|(dim, chunk)| dim.div_ceil(*chunk))
    }

    /// The number of the chunk at that place, in chunks from the start in each dimension; `None` where it is outside of the array.
    pub fn number(&self, place: &[u64]) -> Option<u64> {
        let fits = place.len() == self.shape.len();
        let mut places = self.cells().zip(place);
        fits.then_some(())?;
        places.try_fold(0u64, |number, (cells, at)| (*at < cells).then(|| number * cells + at))
    }

    /// The place in the array of the first element of a chunk, and how many of its elements are inside in each dimension.
    fn span(&self, number: u64) -> (Vec<u64>, Vec<u64>) {
        let cells: Vec<u64> = self.cells().collect();
        let (mut origin, mut inside) = (vec![0; cells.len()], vec![0; cells.len()]);
        let mut rest = number;
        for at in (0..cells.len()).rev() {
            let cell = rest % cells[at].max(1);
            rest /= cells[at].max(1);
            origin[at] = (cell * self.chunk[at]).min(self.shape[at]);
            inside[at] = self.chunk[at].min(self.shape[at] - origin[at]);
        }
        (origin, inside)
    }

    /// The number of an element, row by row.
    fn element(&self, place: impl Iterator<Item = u64>) -> u64 {
        self.shape.iter().zip(place).fold(0, |n, (dim, at)| n * dim + at)
    }

    /// The numbers among which are those of all chunks with any of these bytes.
    fn numbers(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.start >= bytes.end || self.is_empty() {
            return 0..0;
        }
        let place = |mut element: u64| {
            let mut place: Vec<u64> = self
                .shape
                .iter()
                .rev()
                .map(|dim| {
                    let at = element % dim;
                    element /= dim;
                    at
                })
                .collect();
            place.reverse();
            place
        };
        let (first, last) = (place(bytes.start / self.width), place((bytes.end - 1) / self.width));
        let (mut low, mut high, mut is_same) = (0, 0, true);
        for (at, cells) in self.cells().enumerate() {
            let (from, upto) = match is_same {
                true => (first[at] / self.chunk[at], last[at] / self.chunk[at]),
                false => (0, cells - 1),
            };
            (low, high) = (low * cells + from, high * cells + upto);
            is_same &= first[at] == last[at];
        }
        low..high + 1
    }
}

impl Chunked {
    /// An array whose chunks are in source number `source`; `fill` is one element. Chunks come in any order.
    ///
    /// # Errors
    /// [`filter::BROKEN`] where two chunks have one place, where the stored bytes of one cannot be those of a chunk, and where `fill` is
    /// not one element.
    pub fn new(
        source: u32,
        grid: Grid,
        fill: Vec<u8>,
        filters: Vec<Filter>,
        edges: Edges,
        mut chunks: Vec<Chunk>,
    ) -> Result<Chunked> {
        chunks.sort_by_key(|chunk| chunk.number);
        if fill.len() as u64 != grid.width {
            let message =
                format!("a fill value of {} bytes, elements have {}", fill.len(), grid.width);
            return Err(filter::BROKEN.broken(message));
        }
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].number == pair[1].number) {
            let message = format!("chunk number {} is stored twice", pair[0].number);
            return Err(filter::BROKEN.broken(message).at(pair[1].stored.clone()));
        }
        let chunked = Chunked { source, grid, fill, filters, edges, chunks };
        for chunk in &chunked.chunks {
            chunked.check_len(chunk).map_err(|e| e.at(chunk.stored.clone()))?;
        }
        Ok(chunked)
    }

    /// The number of the source that has the chunks.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The same of another source.
    pub(crate) fn of_source(self, source: u32) -> Chunked {
        Chunked { source, ..self }
    }

    /// Bytes of all elements.
    pub fn len(&self) -> u64 {
        self.grid.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// Bytes of one chunk, decoded.
    pub fn chunk_len(&self) -> u64 {
        self.grid.chunk_len()
    }

    /// Bytes that are stored.
    pub fn stored_len(&self) -> u64 {
        let lens = self.chunks.iter().map(|chunk| chunk.stored.end - chunk.stored.start);
        lens.fold(0, u64::saturating_add)
    }

    /// What chunks go through, in order.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// The chunks that are stored, by their places.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Where the bytes of a chunk are.
    pub fn extent(&self, chunk: &Chunk) -> Extent {
        Extent::new(self.source, chunk.stored.clone())
    }

    /// The stored chunks with any of these bytes of the array.
    pub fn covering(&self, bytes: Range<u64>) -> impl Iterator<Item = &Chunk> {
        let numbers = self.grid.numbers(&bytes);
        let from = self.chunks.partition_point(|chunk| chunk.number < numbers.start);
        let upto = self.chunks.partition_point(|chunk| chunk.number < numbers.end);
        self.chunks[from..upto.max(from)].iter().filter(move |chunk| {
            let span = self.span(chunk);
            span.start < bytes.end && bytes.start < span.end
        })
    }

    /// From the first byte of a chunk in the array to behind its last: others' are between them.
    pub fn span(&self, chunk: &Chunk) -> Range<u64> {
        let (origin, inside) = self.grid.span(chunk.number);
        if inside.contains(&0) {
            return 0..0;
        }
        let first = self.grid.element(origin.iter().copied());
        let last = origin.iter().zip(&inside).map(|(at, count)| at + count - 1);
        let last = self.grid.element(last);
        first * self.grid.width..(last + 1) * self.grid.width
    }

    /// The bytes of a chunk, of its stored ones.
    ///
    /// # Errors
    /// [`filter::RULES`].
    pub fn decode(&self, chunk: &Chunk, stored: &[u8]) -> Result<Vec<u8>> {
        let len = usize::try_from(self.chunk_len()).unwrap_or(usize::MAX);
        let filters = self.filters_of(chunk);
        let decoded = filter::decode(filters, chunk.left_out, stored, len);
        decoded.map_err(|e| e.at(chunk.stored.clone()))
    }

    /// Fills `out`, bytes of the array from `offset` on, as if no chunk was stored.
    pub fn clear(&self, offset: u64, out: &mut [u8]) {
        if self.fill.iter().all(|byte| *byte == 0) {
            return out.fill(0);
        }
        let skip = (offset % self.grid.width) as usize;
        for (to, from) in out.iter_mut().zip(self.fill.iter().cycle().skip(skip)) {
            *to = *from;
        }
    }

    /// Puts what a chunk decodes to where it belongs in `out`, bytes of the array from `offset` on.
    pub fn place(&self, chunk: &Chunk, decoded: &[u8], offset: u64, out: &mut [u8]) {
        let (origin, inside) = self.grid.span(chunk.number);
        let end = offset + out.len() as u64;
        // Dimensions that a chunk has all of are one run with the one before.
        let Grid { shape, chunk: dims, width } = &self.grid;
        let is_whole = |at: usize| inside[at] == shape[at] && inside[at] == dims[at];
        let mut rows = inside.len().saturating_sub(1);
        while rows > 0 && is_whole(rows) {
            rows -= 1;
        }
        let run = inside.get(rows..).unwrap_or_default().iter().product::<u64>() * width;
        if inside.contains(&0) {
            return;
        }
        // Which row of the chunk it is, in each dimension but the last.
        let mut row = vec![0; rows];
        loop {
            let place = origin.iter().enumerate();
            let place = place.map(|(at, first)| first + row.get(at).copied().unwrap_or(0));
            let to = self.grid.element(place) * width;
            if to >= end {
                return;
            }
            if to + run > offset {
                let within = dims.iter().enumerate();
                let from =
                    within.fold(0, |n, (at, dim)| n * dim + row.get(at).copied().unwrap_or(0));
                let from = from * width;
                let skip = offset.saturating_sub(to);
                let len = run.min(end - to) - skip;
                let source = (from + skip) as usize..(from + skip + len) as usize;
                let target = (to + skip - offset) as usize..(to + skip + len - offset) as usize;
                if let (Some(source), Some(target)) = (decoded.get(source), out.get_mut(target)) {
                    target.copy_from_slice(source);
                }
            }
            let Some(next) = (0..rows).rev().find(|at| row[*at] + 1 < inside[*at]) else { return };
            row[next] += 1;
            row[next + 1..].fill(0);
        }
    }

    fn filters_of(&self, chunk: &Chunk) -> &[Filter] {
        let is_plain = self.edges == Edges::Plain && {
            let (_, inside) = self.grid.span(chunk.number);
            inside != self.grid.chunk
        };
        if is_plain { &[] } else { &self.filters }
    }

    /// Refuses a chunk whose stored bytes cannot be those of one: no memory is taken for what a file only says.
    fn check_len(&self, chunk: &Chunk) -> Result<(), Error> {
        let (found, wanted) = (chunk.stored.end - chunk.stored.start, self.chunk_len());
        let passed = self.filters_of(chunk).iter().enumerate();
        let passed = passed.filter(|(number, _)| !filter::is_left_out(chunk.left_out, *number));
        let (mut most, mut is_exact) = (found, true);
        for (_, filter) in passed {
            most = filter.most_decoded(most);
            match filter {
                Filter::Fletcher32 if is_exact => most = most.saturating_sub(4),
                Filter::Deflate | Filter::Lzf => is_exact = false,
                _ => {}
            }
        }
        if most < wanted || (is_exact && most != wanted) {
            let message = format!("{found} stored bytes for a chunk of {wanted}");
            return Err(filter::BROKEN.broken(message));
        }
        Ok(())
    }
}
