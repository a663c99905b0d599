//! Bytes that are put together of chunks: the elements of an array that is stored as a grid of smaller ones.

use crate::codec::DecodedLen;
use crate::codec::pipeline::{self, Step};
use crate::error::{Error, Result};
use crate::read::Extent;
use holdall_collections::sort_by;
use std::ops::Range;

/// An array that is stored in chunks, as a source of its decoded bytes: elements in row-major order, in the order of bytes that
/// they are stored in. Components in sources from [`Extent::CHUNKED`] on lie in one, see [`Index::chunked`](crate::Index::chunked).
///
/// Chunks cover the array from its first element on, row by row. Those of one size reach beyond its end where it ends inside one.
/// Where a chunk is missing, elements have the fill value.
#[derive(Debug, Clone)]
pub struct Chunked {
    grid: Grid,
    fill: Vec<u8>,
    steps: Vec<Step>,
    edges: EdgeChunks,
    /// By their places in the grid, which rise.
    chunks: Vec<Chunk>,
}

/// How an array is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Dimensions of the array, in elements.
    shape: Vec<u64>,
    cut: Cut,
    /// Bytes of an element.
    width: u64,
}

/// How an array is cut into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cut {
    /// Into the cells of a grid: each dimension by itself.
    Cells(Vec<Cuts>),
    /// Into any boxes that fill it, by their first elements.
    Boxes(Vec<Span>),
}

/// The most boxes of an array that do not form a grid: each is compared with all others.
const MOST_BOXES: usize = 4096;

/// How a dimension is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cuts {
    /// After so many elements each; the last chunk is stored as if the array went on.
    Every(u64),
    /// Where each chunk starts, from 0 on.
    At(Vec<u64>),
}

impl Cuts {
    /// Chunks in a dimension of so many elements.
    fn cells(&self, dim: u64) -> u64 {
        match self {
            Cuts::Every(step) => dim.div_ceil(*step),
            Cuts::At(starts) => starts.len() as u64,
        }
    }

    /// The chunk with that element.
    fn cell(&self, at: u64) -> u64 {
        match self {
            Cuts::Every(step) => at / step,
            Cuts::At(starts) => starts.partition_point(|start| *start <= at).max(1) as u64 - 1,
        }
    }

    /// The first element of a chunk, how many of its elements are in the array, and how many are stored.
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

    /// The most elements that one has.
    fn most(&self, dim: u64) -> u64 {
        match self {
            Cuts::Every(step) => *step,
            Cuts::At(starts) => {
                (0..starts.len() as u64).map(|cell| self.span(cell, dim).1).max().unwrap_or(0)
            }
        }
    }
}

/// Where a chunk is: in each dimension its first element, how many of its elements are in the array, and how many are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    origin: Vec<u64>,
    inside: Vec<u64>,
    stored: Vec<u64>,
}

/// What becomes of chunks that reach beyond the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeChunks {
    /// They went through the steps as all others.
    Filtered,
    /// They are stored as they are.
    Plain,
}

/// One stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its place in the grid, row by row.
    pub number: u64,
    /// Where its bytes are.
    pub stored: Extent,
    /// The steps that it did not go through, a bit each.
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
        let cut = || Cut::Cells(chunk.iter().map(|step| Cuts::Every(*step)).collect());
        fits.then(|| Grid { shape: shape.to_vec(), cut: cut(), width })
    }

    /// An array of `shape` that is cut, in each dimension, where `starts` says: at 0, and at rising numbers inside of it. `None` where
    /// they are not that, or bytes pass 2^64.
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

    /// An array of `shape` that is cut into these boxes, and the number of each: its first element, and how many it has in each dimension. `None`
    /// where they do not fill the array, each element once, where bytes pass 2^64, and where more than 4096 do not form a grid.
    pub fn of_boxes(
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

    /// The same array cut into boxes that do not form a grid.
    fn irregular(mut self, boxes: &[(Vec<u64>, Vec<u64>)]) -> Option<(Grid, Vec<u64>)> {
        let mut spans = Vec::new();
        let mut filled = 0u64;
        for (number, (origin, inside)) in boxes.iter().enumerate().take(MOST_BOXES + 1) {
            let is_inside = |((at, len), dim): ((&u64, &u64), &u64)| {
                *len > 0 && at.checked_add(*len).is_some_and(|end| end <= *dim)
            };
            let ranks = [origin.len(), inside.len()];
            if number == MOST_BOXES
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
        for (place, (number, _)) in spans.iter().enumerate() {
            numbers[*number] = place as u64;
        }
        self.cut = Cut::Boxes(spans.into_iter().map(|(_, span)| span).collect());
        Some((self, numbers))
    }

    /// Bytes of the array.
    pub fn len(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.width
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the largest chunk.
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

    /// How each dimension is cut; `None` for boxes that do not form a grid.
    fn cuts(&self) -> &[Cuts] {
        match &self.cut {
            Cut::Cells(cuts) => cuts,
            Cut::Boxes(_) => &[],
        }
    }

    /// Chunks in each dimension of a grid.
    fn cells(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(self.cuts()).map(|(dim, cuts)| cuts.cells(*dim))
    }

    /// The number of the cell of a grid at that place, in cells from the start in each dimension; `None` where it is outside of the array.
    pub fn number(&self, place: &[u64]) -> Option<u64> {
        let fits = place.len() == self.shape.len() && self.cuts().len() == place.len();
        let mut places = self.cells().zip(place);
        fits.then_some(())?;
        places.try_fold(0u64, |number, (cells, at)| (*at < cells).then(|| number * cells + at))
    }

    /// The number of the cell that is this box of elements.
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

    /// The number of an element, row by row.
    fn element(&self, place: impl Iterator<Item = u64>) -> u64 {
        self.shape.iter().zip(place).fold(0, |n, (dim, at)| n * dim + at)
    }

    /// The numbers among which are those of all chunks with any of these bytes.
    fn numbers(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.start >= bytes.end || self.is_empty() {
            return 0..0;
        }
        if let Cut::Boxes(all) = &self.cut {
            let first = |span: &Span| self.element(span.origin.iter().copied()) * self.width;
            return 0..all.partition_point(|span| first(span) < bytes.end) as u64;
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
    /// An array; `fill` is one element. Chunks come in any order.
    ///
    /// # Errors
    /// [`pipeline::BROKEN`] where two chunks have one place, where the stored bytes of one cannot be those of a chunk, and where `fill` is
    /// not one element.
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
                format!("a fill value of {} bytes, elements have {}", fill.len(), grid.width);
            return Err(pipeline::BROKEN.broken(message));
        }
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].number == pair[1].number) {
            let message = format!("chunk number {} is stored twice", pair[0].number);
            return Err(pipeline::BROKEN.broken(message).at(pair[1].stored.range()));
        }
        let chunked = Chunked { grid, fill, steps, edges, chunks };
        for chunk in &chunked.chunks {
            chunked.check_len(chunk).map_err(|e| e.at(chunk.stored.range()))?;
        }
        Ok(chunked)
    }

    /// The same with chunks in other sources: those that `number` gives for theirs.
    pub fn renumbered(mut self, number: impl Fn(u32) -> u32) -> Chunked {
        self.chunks.iter_mut().for_each(|chunk| chunk.stored.source = number(chunk.stored.source));
        self
    }

    /// Bytes of all elements.
    pub fn len(&self) -> u64 {
        self.grid.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.grid.is_empty()
    }

    /// Bytes of the largest chunk, decoded.
    pub fn chunk_len(&self) -> u64 {
        self.grid.chunk_len()
    }

    /// Bytes that are stored.
    pub fn stored_len(&self) -> u64 {
        let lens = self.chunks.iter().map(|chunk| chunk.stored.len());
        lens.fold(0, u64::saturating_add)
    }

    /// What chunks go through, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The chunks that are stored, by their places.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Returns the name of the checksum that every chunk has, and that is compared wherever it is decoded.
    pub fn checksum(&self) -> Option<&'static str> {
        // Chunks that are stored as they are have none.
        if self.edges == EdgeChunks::Plain || self.chunks.is_empty() {
            return None;
        }
        let sums =
            self.steps.iter().zip(0u32..).filter_map(|(step, at)| Some((step.checksum()?, at)));
        let mut of_all = sums.filter(|(_, at)| {
            let bit = 1u32.checked_shl(*at).unwrap_or(0);
            self.chunks.iter().all(|chunk| chunk.left_out & bit == 0)
        });
        of_all.next().map(|(name, _)| name)
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
        let Span { origin, inside, .. } = self.grid.span(chunk.number);
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
    /// [`pipeline::RULES`].
    pub fn decode(&self, chunk: &Chunk, stored: &[u8]) -> Result<Vec<u8>> {
        let len = usize::try_from(self.len_of(chunk)).unwrap_or(usize::MAX);
        let steps = self.steps_of(chunk);
        let decoded = pipeline::decode(steps, chunk.left_out, stored, len);
        decoded.map_err(|e| e.at(chunk.stored.range()))
    }

    /// Of a chunk that is stored as it is: those of its bytes from the first to the last that are among `bytes` of the array.
    pub fn plain(&self, chunk: &Chunk, bytes: &Range<u64>) -> Option<Range<u64>> {
        let steps = self.steps_of(chunk);
        let is_left_out = |number| pipeline::is_left_out(chunk.left_out, number);
        if !(0..steps.len()).all(is_left_out) {
            return None;
        }
        let mut found: Option<Range<u64>> = None;
        self.runs(chunk, bytes, |from, _| {
            found = Some(found.as_ref().map_or(from.start, |found| found.start)..from.end);
        });
        Some(found.unwrap_or(0..0))
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

    /// Puts what a chunk decodes to where it belongs in `out`, bytes of the array from `offset` on. `decoded` are the bytes of the chunk
    /// from number `first` on.
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

    /// Tells `visit` of each run of bytes of a chunk that is among `bytes` of the array, in order: where it is in the chunk, and where in the
    /// array it starts.
    fn runs(&self, chunk: &Chunk, bytes: &Range<u64>, mut visit: impl FnMut(Range<u64>, u64)) {
        let Span { origin, inside, stored: dims } = self.grid.span(chunk.number);
        // Dimensions that a chunk has all of are one run with the one before.
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
        // Which row of the chunk it is, in each dimension but the last.
        let mut row = vec![0; rows];
        loop {
            let place = origin.iter().enumerate();
            let place = place.map(|(at, first)| first + row.get(at).copied().unwrap_or(0));
            let to = self.grid.element(place) * width;
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

    /// Bytes of a chunk, decoded.
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
        // How elements lie is no matter of chunks.
        let of_elements = self.steps.iter().take_while(|step| step.describes_elements()).count();
        if is_plain { self.steps.get(..of_elements).unwrap_or_default() } else { &self.steps }
    }

    /// Refuses a chunk whose stored bytes cannot be those of one: no memory is taken for what a file only says.
    fn check_len(&self, chunk: &Chunk) -> Result<(), Error> {
        let (found, wanted) = (chunk.stored.len(), self.len_of(chunk));
        let passed = self.steps_of(chunk).iter().enumerate().rev();
        let passed = passed.filter(|(number, _)| !pipeline::is_left_out(chunk.left_out, *number));
        let (mut most, mut is_exact) = (found, true);
        for (_, step) in passed {
            match step.decoded_len(most) {
                DecodedLen::Exactly(len) => most = len,
                DecodedLen::AtMost(len) => (most, is_exact) = (len, false),
            }
        }
        if most < wanted || (is_exact && most != wanted) {
            let message = format!("{found} stored bytes for a chunk of {wanted}");
            return Err(pipeline::BROKEN.broken(message));
        }
        Ok(())
    }
}
