//! Chunked arrays: arrays that are stored as a grid of smaller ones.

use crate::codec::DecodedLen;
use crate::codec::pipeline::{self, Step};
use crate::error::{Error, Result};
use crate::read::Extent;
use holdall_collections::sort_by;
use std::ops::Range;

/// An array that is stored in chunks. It is a source of decoded bytes: elements in row-major order, in the byte order
/// in which they are stored. Components in the sources from [`Extent::CHUNKED`] on lie in such an array, see
/// [`Index::chunked`](crate::Index::chunked).
///
/// Chunks cover the array from its first element on, in row-major order. Chunks of a fixed size may extend beyond the
/// end of the array. The elements of a missing chunk have the fill value.
#[derive(Debug, Clone)]
pub struct Chunked {
    grid: Grid,
    fill: Vec<u8>,
    steps: Vec<Step>,
    edges: EdgeChunks,
    /// The stored chunks, sorted by their numbers.
    chunks: Vec<Chunk>,
}

/// The division of an array into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// The array's dimensions, in elements.
    shape: Vec<u64>,
    cut: Cut,
    /// Bytes per element.
    width: u64,
}

/// How an array is divided into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cut {
    /// Into the cells of a grid: each dimension is divided independently.
    Cells(Vec<Cuts>),
    /// Into arbitrary boxes that fill the array, sorted by their first elements.
    Boxes(Vec<Span>),
}

/// The maximum number of boxes that do not form a grid: each is compared with all others.
const MAX_BOXES: usize = 4096;

/// How one dimension is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cuts {
    /// Every this many elements. The last chunk is stored in full size, even if the array ends inside it.
    Every(u64),
    /// At these starts of chunks; the first is 0.
    At(Vec<u64>),
}

impl Cuts {
    /// Returns the number of chunks in a dimension of `dim` elements.
    fn cells(&self, dim: u64) -> u64 {
        match self {
            Cuts::Every(step) => dim.div_ceil(*step),
            Cuts::At(starts) => starts.len() as u64,
        }
    }

    /// Returns the index of the chunk that contains element `at`.
    fn cell(&self, at: u64) -> u64 {
        match self {
            Cuts::Every(step) => at / step,
            Cuts::At(starts) => starts.partition_point(|start| *start <= at).max(1) as u64 - 1,
        }
    }

    /// Returns a chunk's first element, how many of its elements are in the array, and how many are stored.
    fn span(&self, cell: u64, dim: u64) -> (u64, u64, u64) {
        match self {
            Cuts::Every(step) => {
                let first = (cell * step).min(dim);
                (first, (*step).min(dim - first), *step)
            }
            Cuts::At(starts) => {
                let at = |cell: u64| starts.get(cell as usize).copied().unwrap_or(dim);
                let first = at(cell);
                let len = at(cell + 1) - first;
                (first, len, len)
            }
        }
    }

    /// Returns the maximum number of elements in a chunk.
    fn most(&self, dim: u64) -> u64 {
        match self {
            Cuts::Every(step) => *step,
            Cuts::At(starts) => {
                (0..starts.len() as u64).map(|cell| self.span(cell, dim).1).max().unwrap_or(0)
            }
        }
    }
}

/// The extent of a chunk: in each dimension its first element, how many of its elements are in the array, and how many
/// are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    origin: Vec<u64>,
    inside: Vec<u64>,
    stored: Vec<u64>,
}

/// How chunks are stored that extend beyond the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeChunks {
    /// Filtered like all other chunks.
    Filtered,
    /// Stored without filters.
    Plain,
}

/// One stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The chunk's number in the grid, in row-major order.
    pub number: u64,
    /// The location of the stored bytes.
    pub stored: Extent,
    /// The steps that were skipped for this chunk, one bit each.
    pub skipped_steps: u32,
}

impl Grid {
    /// Divides an array of `shape` into chunks of `chunk` elements of `width` bytes each. Returns `None` if the ranks
    /// differ, a chunk has no elements, or the number of bytes exceeds 2^64.
    pub fn new(shape: &[u64], chunk: &[u64], width: u64) -> Option<Grid> {
        let product = |dims: &[u64]| dims.iter().try_fold(width, |n, dim| n.checked_mul(*dim));
        // Dimensions of 0 count as 1, so that no product of other dimensions exceeds 2^64 either.
        let full: Vec<u64> = shape.iter().map(|dim| (*dim).max(1)).collect();
        let fits = shape.len() == chunk.len()
            && width > 0
            && product(chunk).is_some_and(|len| len > 0)
            && product(&full).is_some();
        let cut = || Cut::Cells(chunk.iter().map(|step| Cuts::Every(*step)).collect());
        fits.then(|| Grid { shape: shape.to_vec(), cut: cut(), width })
    }

    /// Divides an array of `shape`, in each dimension at `starts`: 0, followed by ascending indices inside the
    /// dimension. Returns `None` if `starts` do not have this form, or if the number of bytes exceeds 2^64.
    pub fn cut(shape: &[u64], starts: Vec<Vec<u64>>, width: u64) -> Option<Grid> {
        let fits = |(starts, dim): (&Vec<u64>, &u64)| {
            starts.first() == Some(&0)
                && starts.is_sorted_by(|a, b| a < b)
                && starts.last().is_some_and(|last| last < dim)
        };
        let product = shape.iter().try_fold(width, |n, dim| n.checked_mul(*dim));
        let fits = shape.len() == starts.len()
            && width > 0
            && product.is_some()
            && starts.iter().zip(shape).all(fits);
        let cut = || Cut::Cells(starts.into_iter().map(Cuts::At).collect());
        fits.then(|| Grid { shape: shape.to_vec(), cut: cut(), width })
    }

    /// Divides an array of `shape` into boxes, each given by its first element and its dimensions. Returns the grid and
    /// the number of each box. Returns `None` if the boxes do not cover each element exactly once, if the number of
    /// bytes exceeds 2^64, or if there are more than 4096 boxes that do not form a grid.
    pub fn from_boxes(
        shape: &[u64],
        boxes: &[(Vec<u64>, Vec<u64>)],
        width: u64,
    ) -> Option<(Grid, Vec<u64>)> {
        let mut starts: Vec<Vec<u64>> = vec![Vec::new(); shape.len()];
        for (origin, _) in boxes {
            starts.iter_mut().zip(origin).for_each(|(all, at)| all.push(*at));
        }
        for all in &mut starts {
            sort_by(all, |a, b| a.cmp(b));
            all.dedup();
        }
        let grid = Grid::cut(shape, starts, width)?;
        let numbers: Option<Vec<u64>> =
            boxes.iter().map(|(origin, shape)| grid.number_of(origin, shape)).collect();
        let cells = grid.cells().try_fold(1u64, u64::checked_mul);
        if let Some(numbers) = numbers.filter(|_| cells == Some(boxes.len() as u64)) {
            let mut rising = numbers.clone();
            sort_by(&mut rising, |a, b| a.cmp(b));
            rising.dedup();
            return (rising.len() == numbers.len()).then_some((grid, numbers));
        }
        grid.irregular(boxes)
    }

    /// Divides the same array into boxes that do not form a grid.
    fn irregular(mut self, boxes: &[(Vec<u64>, Vec<u64>)]) -> Option<(Grid, Vec<u64>)> {
        let mut spans = Vec::new();
        let mut filled = 0u64;
        for (number, (origin, inside)) in boxes.iter().enumerate().take(MAX_BOXES + 1) {
            let is_inside = |((at, len), dim): ((&u64, &u64), &u64)| {
                *len > 0 && at.checked_add(*len).is_some_and(|end| end <= *dim)
            };
            let ranks = [origin.len(), inside.len()];
            if number == MAX_BOXES
                || ranks != [self.shape.len(); 2]
                || !origin.iter().zip(inside).zip(&self.shape).all(is_inside)
            {
                return None;
            }
            filled = filled.checked_add(inside.iter().product())?;
            let (origin, inside, stored) = (origin.clone(), inside.clone(), inside.clone());
            spans.push((number, Span { origin, inside, stored }));
        }
        let is_apart = |a: &Span, b: &Span| {
            let mut dims = (0..self.shape.len()).map(|d| (d, a.origin[d], b.origin[d]));
            dims.any(|(d, x, y)| x + a.inside[d] <= y || y + b.inside[d] <= x)
        };
        let are_apart = spans
            .iter()
            .enumerate()
            .all(|(at, (_, a))| spans[at + 1..].iter().all(|(_, b)| is_apart(a, b)));
        if !are_apart || filled != self.shape.iter().product::<u64>() {
            return None;
        }
        sort_by(&mut spans, |(_, a), (_, b)| a.origin.cmp(&b.origin));
        let mut numbers = vec![0; spans.len()];
        for (coordinates, (number, _)) in spans.iter().enumerate() {
            numbers[*number] = coordinates as u64;
        }
        self.cut = Cut::Boxes(spans.into_iter().map(|(_, span)| span).collect());
        Some((self, numbers))
    }

    /// Returns the length of the array in bytes.
    pub fn len(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.width
    }

    /// Returns `true` if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of the largest chunk in bytes.
    pub fn chunk_len(&self) -> u64 {
        let most = match &self.cut {
            Cut::Cells(cuts) => {
                self.shape.iter().zip(cuts).map(|(dim, cuts)| cuts.most(*dim)).product()
            }
            Cut::Boxes(all) => {
                all.iter().map(|span| span.stored.iter().product::<u64>()).max().unwrap_or(0)
            }
        };
        most * self.width
    }

    /// Returns how each dimension is divided; empty for boxes that do not form a grid.
    fn cuts(&self) -> &[Cuts] {
        match &self.cut {
            Cut::Cells(cuts) => cuts,
            Cut::Boxes(_) => &[],
        }
    }

    /// Returns the number of chunks in each dimension of a grid.
    fn cells(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(self.cuts()).map(|(dim, cuts)| cuts.cells(*dim))
    }

    /// Returns the number of the cell with these indices, counted in cells. Returns `None` if the cell is outside the
    /// array or there is no grid.
    pub fn number(&self, coordinates: &[u64]) -> Option<u64> {
        let fits = coordinates.len() == self.shape.len() && self.cuts().len() == coordinates.len();
        let mut cells = self.cells().zip(coordinates);
        fits.then_some(())?;
        cells.try_fold(0u64, |number, (cells, at)| (*at < cells).then(|| number * cells + at))
    }

    /// Returns the number of the cell that is exactly this box of elements.
    fn number_of(&self, origin: &[u64], shape: &[u64]) -> Option<u64> {
        let cells = self.cuts().iter().zip(origin).map(|(cuts, at)| cuts.cell(*at));
        let number = self.number(&cells.collect::<Vec<_>>())?;
        let span = self.span(number);
        (span.origin == origin && span.inside == shape).then_some(number)
    }

    fn span(&self, number: u64) -> Span {
        let rank = self.shape.len();
        let mut span = Span { origin: vec![0; rank], inside: vec![0; rank], stored: vec![0; rank] };
        if let Cut::Boxes(all) = &self.cut {
            return all.get(number as usize).cloned().unwrap_or(span);
        }
        let mut rest = number;
        for (at, (cuts, dim)) in self.cuts().iter().zip(&self.shape).enumerate().rev() {
            let cells = cuts.cells(*dim).max(1);
            (span.origin[at], span.inside[at], span.stored[at]) = cuts.span(rest % cells, *dim);
            rest /= cells;
        }
        span
    }

    /// Returns the row-major index of an element.
    fn element(&self, coordinates: impl Iterator<Item = u64>) -> u64 {
        self.shape.iter().zip(coordinates).fold(0, |n, (dim, at)| n * dim + at)
    }

    /// Returns a range of numbers that includes all chunks with any of these bytes.
    fn numbers(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.start >= bytes.end || self.is_empty() {
            return 0..0;
        }
        if let Cut::Boxes(all) = &self.cut {
            let first = |span: &Span| self.element(span.origin.iter().copied()) * self.width;
            return 0..all.partition_point(|span| first(span) < bytes.end) as u64;
        }
        let coordinates = |mut element: u64| {
            let mut coordinates: Vec<u64> = self
                .shape
                .iter()
                .rev()
                .map(|dim| {
                    let at = element % dim;
                    element /= dim;
                    at
                })
                .collect();
            coordinates.reverse();
            coordinates
        };
        let (first, last) =
            (coordinates(bytes.start / self.width), coordinates((bytes.end - 1) / self.width));
        let (mut low, mut high, mut is_same) = (0, 0, true);
        for (at, cells) in self.cells().enumerate() {
            let (from, upto) = match is_same {
                true => (self.cuts()[at].cell(first[at]), self.cuts()[at].cell(last[at])),
                false => (0, cells - 1),
            };
            (low, high) = (low * cells + from, high * cells + upto);
            is_same &= first[at] == last[at];
        }
        low..high + 1
    }
}

impl Chunked {
    /// Creates an array from its chunks, which may come in any order. `fill` is the value of one element.
    ///
    /// # Errors
    /// Returns [`pipeline::BROKEN`] if two chunks have the same number, if the stored length of a chunk is impossible,
    /// or if `fill` is not one element.
    pub fn new(
        grid: Grid,
        fill: Vec<u8>,
        steps: Vec<Step>,
        edges: EdgeChunks,
        mut chunks: Vec<Chunk>,
    ) -> Result<Chunked> {
        sort_by(&mut chunks, |a, b| a.number.cmp(&b.number));
        if fill.len() as u64 != grid.width {
            let message =
                format!("the fill value has {} bytes, elements have {}", fill.len(), grid.width);
            return Err(pipeline::BROKEN.broken(message));
        }
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].number == pair[1].number) {
            let message = format!("chunk {} is stored twice", pair[0].number);
            return Err(pipeline::BROKEN.broken(message).at(pair[1].stored.range()));
        }
        let chunked = Chunked { grid, fill, steps, edges, chunks };
        for chunk in &chunked.chunks {
            chunked.check_len(chunk).map_err(|e| e.at(chunk.stored.range()))?;
        }
        Ok(chunked)
    }

    /// Replaces the source of each chunk by the one that `number` returns for it.
    pub fn renumbered(mut self, number: impl Fn(u32) -> u32) -> Chunked {
        self.chunks.iter_mut().for_each(|chunk| chunk.stored.source = number(chunk.stored.source));
        self
    }

    /// Returns the length of all elements in bytes.
    pub fn len(&self) -> u64 {
        self.grid.len()
    }

    /// Returns `true` if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// Returns the decoded length of the largest chunk, in bytes.
    pub fn chunk_len(&self) -> u64 {
        self.grid.chunk_len()
    }

    /// Returns the total stored length of all chunks, in bytes.
    pub fn stored_len(&self) -> u64 {
        let lens = self.chunks.iter().map(|chunk| chunk.stored.len());
        lens.fold(0, u64::saturating_add)
    }

    /// Returns the steps that encode a chunk, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the stored chunks, sorted by their numbers.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Returns the name of the checksum that every chunk has, which is compared whenever a chunk is decoded.
    pub fn checksum(&self) -> Option<&'static str> {
        // Chunks that are stored without filters have no checksum.
        if self.edges == EdgeChunks::Plain || self.chunks.is_empty() {
            return None;
        }
        let sums =
            self.steps.iter().zip(0u32..).filter_map(|(step, at)| Some((step.checksum()?, at)));
        let mut of_all = sums.filter(|(_, at)| {
            let bit = 1u32.checked_shl(*at).unwrap_or(0);
            self.chunks.iter().all(|chunk| chunk.skipped_steps & bit == 0)
        });
        of_all.next().map(|(name, _)| name)
    }

    /// Returns the stored chunks with any of these bytes of the array.
    pub fn covering(&self, bytes: Range<u64>) -> impl Iterator<Item = &Chunk> {
        let numbers = self.grid.numbers(&bytes);
        let from = self.chunks.partition_point(|chunk| chunk.number < numbers.start);
        let upto = self.chunks.partition_point(|chunk| chunk.number < numbers.end);
        self.chunks[from..upto.max(from)].iter().filter(move |chunk| {
            let span = self.span(chunk);
            span.start < bytes.end && bytes.start < span.end
        })
    }

    /// Returns the range of the array from the first to the last byte of a chunk. Bytes of other chunks may lie in
    /// between.
    pub fn span(&self, chunk: &Chunk) -> Range<u64> {
        let Span { origin, inside, .. } = self.grid.span(chunk.number);
        if inside.contains(&0) {
            return 0..0;
        }
        let first = self.grid.element(origin.iter().copied());
        let last = origin.iter().zip(&inside).map(|(at, count)| at + count - 1);
        let last = self.grid.element(last);
        first * self.grid.width..(last + 1) * self.grid.width
    }

    /// Decodes the stored bytes of a chunk.
    ///
    /// # Errors
    /// Returns an error of [`pipeline::RULES`] if the stored bytes are malformed.
    pub fn decode(&self, chunk: &Chunk, stored: &[u8]) -> Result<Vec<u8>> {
        let len = usize::try_from(self.len_of(chunk)).unwrap_or(usize::MAX);
        let steps = self.steps_of(chunk);
        let decoded = pipeline::decode(steps, chunk.skipped_steps, stored, len);
        decoded.map_err(|e| e.at(chunk.stored.range()))
    }

    /// Returns, for a chunk whose steps were all skipped, the range of its bytes that covers `bytes` of the array.
    /// Returns `None` for other chunks.
    pub fn plain(&self, chunk: &Chunk, bytes: &Range<u64>) -> Option<Range<u64>> {
        let steps = self.steps_of(chunk);
        let is_skipped = |number| pipeline::is_skipped(chunk.skipped_steps, number);
        if !(0..steps.len()).all(is_skipped) {
            return None;
        }
        let mut found: Option<Range<u64>> = None;
        self.runs(chunk, bytes, |from, _| {
            found = Some(found.as_ref().map_or(from.start, |found| found.start)..from.end);
        });
        Some(found.unwrap_or(0..0))
    }

    /// Fills `out`, which are bytes of the array starting at `offset`, with the fill value.
    pub fn clear(&self, offset: u64, out: &mut [u8]) {
        if self.fill.iter().all(|byte| *byte == 0) {
            return out.fill(0);
        }
        let skip = (offset % self.grid.width) as usize;
        for (to, from) in out.iter_mut().zip(self.fill.iter().cycle().skip(skip)) {
            *to = *from;
        }
    }

    /// Copies a chunk's decoded bytes to their positions in `out`, which are bytes of the array starting at `offset`.
    /// `decoded` are the bytes of the chunk starting at its byte `first`.
    pub fn copy_chunk(
        &self,
        chunk: &Chunk,
        decoded: &[u8],
        first: u64,
        offset: u64,
        out: &mut [u8],
    ) {
        self.runs(chunk, &(offset..offset + out.len() as u64), |from, to| {
            let Some(start) = from.start.checked_sub(first) else { return };
            let source = start as usize..(from.end - first) as usize;
            let target = (to - offset) as usize..(to - offset + (from.end - from.start)) as usize;
            if let (Some(source), Some(target)) = (decoded.get(source), out.get_mut(target)) {
                target.copy_from_slice(source);
            }
        });
    }

    /// Calls `visit` for each contiguous run of a chunk's bytes that lies in `bytes` of the array, in order, with its
    /// range in the chunk and its start in the array.
    fn runs(&self, chunk: &Chunk, bytes: &Range<u64>, mut visit: impl FnMut(Range<u64>, u64)) {
        let Span { origin, inside, stored: dims } = self.grid.span(chunk.number);
        // A dimension that a chunk covers in full forms one run with the dimension before it.
        let Grid { shape, width, .. } = &self.grid;
        let is_whole = |at: usize| inside[at] == shape[at] && inside[at] == dims[at];
        let mut rows = inside.len().saturating_sub(1);
        while rows > 0 && is_whole(rows) {
            rows -= 1;
        }
        let run = inside.get(rows..).unwrap_or_default().iter().product::<u64>() * width;
        if inside.contains(&0) {
            return;
        }
        // The index of the row in the chunk, in each dimension but the last.
        let mut row = vec![0; rows];
        loop {
            let coordinates = origin.iter().enumerate();
            let coordinates =
                coordinates.map(|(at, first)| first + row.get(at).copied().unwrap_or(0));
            let to = self.grid.element(coordinates) * width;
            if to >= bytes.end {
                return;
            }
            if to + run > bytes.start {
                let within = dims.iter().enumerate();
                let from =
                    within.fold(0, |n, (at, dim)| n * dim + row.get(at).copied().unwrap_or(0));
                let from = from * width;
                let skip = bytes.start.saturating_sub(to);
                let len = run.min(bytes.end - to) - skip;
                visit(from + skip..from + skip + len, to + skip);
            }
            let Some(next) = (0..rows).rev().find(|at| row[*at] + 1 < inside[*at]) else { return };
            row[next] += 1;
            row[next + 1..].fill(0);
        }
    }

    /// Returns the decoded length of a chunk in bytes.
    fn len_of(&self, chunk: &Chunk) -> u64 {
        if let Cut::Cells(cuts) = &self.grid.cut
            && cuts.iter().all(|cuts| matches!(cuts, Cuts::Every(_)))
        {
            return self.grid.chunk_len();
        }
        self.grid.span(chunk.number).stored.iter().product::<u64>() * self.grid.width
    }

    fn steps_of(&self, chunk: &Chunk) -> &[Step] {
        let is_plain = self.edges == EdgeChunks::Plain && {
            let Span { inside, stored, .. } = self.grid.span(chunk.number);
            inside != stored
        };
        // Steps that describe how elements are stored apply to all chunks.
        let of_elements = self.steps.iter().take_while(|step| step.describes_elements()).count();
        if is_plain { self.steps.get(..of_elements).unwrap_or_default() } else { &self.steps }
    }

    /// Refuses a chunk whose stored length is impossible, so that no memory is allocated for lengths that a file only
    /// claims.
    fn check_len(&self, chunk: &Chunk) -> Result<(), Error> {
        let (found, wanted) = (chunk.stored.len(), self.len_of(chunk));
        let passed = self.steps_of(chunk).iter().enumerate().rev();
        let passed =
            passed.filter(|(number, _)| !pipeline::is_skipped(chunk.skipped_steps, *number));
        let (mut most, mut is_exact) = (found, true);
        for (_, step) in passed {
            match step.decoded_len(most) {
                DecodedLen::Exactly(len) => most = len,
                DecodedLen::AtMost(len) => (most, is_exact) = (len, false),
            }
        }
        if most < wanted || (is_exact && most != wanted) {
            let message =
                format!("{found} stored bytes cannot decode to a chunk of {wanted} bytes");
            return Err(pipeline::BROKEN.broken(message));
        }
        Ok(())
    }
}
