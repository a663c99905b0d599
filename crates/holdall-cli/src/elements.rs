//! Reads some elements of a tensor, without reading the others.

use crate::exit::Failure;
use holdall::layout::{Blocks, Computed, Dense};
use holdall::{Bytes, Component, DType, Layout, LogicalType, Result, Role, Tensor};
use std::ops::Range;

/// Returns ranges of elements of one component, in row-major order. The ranges must be ascending and must not overlap.
pub(crate) fn component_parts(
    tensor: &Tensor,
    c: &Component,
    ranges: &[Range<u64>],
) -> Result<Vec<Dense>> {
    let unit = Unit::for_component(c);
    let stored: Vec<Range<u64>> = ranges.iter().map(|r| unit.bytes(r)).collect();
    let all = tensor.bytes_ranges(&c.role, &stored)?;
    let dense = |(range, bytes): (&Range<u64>, Bytes)| {
        let (whole, skipped) = unit.whole(range);
        let read = Dense::new(c.dtype, c.logical_type.clone(), [whole.end - whole.start], bytes);
        unit.trim(read, skipped, range.end - range.start)
    };
    ranges.iter().zip(all).map(dense).collect()
}

/// Returns ranges of elements of a tensor whose layout computes them, as f32.
pub(crate) fn computed_parts(tensor: &Tensor, ranges: &[Range<u64>]) -> Result<Vec<Dense>> {
    let decode = |view: &dyn Computed, range: Range<u64>| {
        // Only a few elements are shown, so the allocation is small.
        let mut out = vec![0f32; (range.end - range.start) as usize];
        view.dequantize_range(range, &mut out)?;
        let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_le_bytes()).collect();
        Ok(Dense::new(DType::F32, None, [out.len() as u64], bytes))
    };
    let Layout::Blocks(block_type) = tensor.layout() else {
        let view = tensor.computed()?;
        return ranges.iter().map(|range| decode(&*view, range.clone())).collect();
    };
    // Blocks are independent of each other, so it is enough to read those with the elements.
    let blocks = |range: &Range<u64>| {
        range.start / block_type.elements..range.end.div_ceil(block_type.elements)
    };
    let stored: Vec<Range<u64>> = ranges
        .iter()
        .map(|range| blocks(range).start * block_type.bytes..blocks(range).end * block_type.bytes)
        .collect();
    let read = tensor.bytes_ranges(&Role::Data, &stored)?;
    let one = |(range, bytes): (&Range<u64>, Bytes)| {
        let (first, count) = (blocks(range).start * block_type.elements, range.end - range.start);
        let shape = [(blocks(range).end * block_type.elements) - first];
        let start = range.start - first;
        decode(&Blocks::new(block_type, &shape, bytes)?, start..start + count)
    };
    ranges.iter().zip(read).map(one).collect()
}

/// Returns ranges of elements of a tensor that is not stored in row-major order. Reads the whole tensor.
pub(crate) fn gathered(tensor: &Tensor, ranges: &[Range<u64>]) -> Result<Vec<Dense>> {
    let dense = tensor.to_dense()?;
    let count = tensor.count().max(1);
    let width = dense.bytes().len() as u64 / count;
    let one = |range: &Range<u64>| {
        let bytes = (range.start * width) as usize..(range.end * width) as usize;
        let shape = [range.end - range.start];
        Dense::new(dense.dtype(), dense.logical_type().cloned(), shape, dense.bytes().slice(bytes))
    };
    Ok(ranges.iter().map(one).collect())
}

/// Returns ranges of elements of a tensor in planes, reading only the frames that contain them.
pub(crate) fn in_planes(
    tensor: &Tensor,
    dtype: DType,
    ranges: &[Range<u64>],
) -> Result<Vec<Dense>> {
    let width = dtype.width();
    let bytes: Vec<_> = ranges.iter().map(|range| range.start * width..range.end * width).collect();
    let read = tensor.bytes_ranges(&Role::Data, &bytes)?;
    let one = |(range, bytes): (&Range<u64>, Bytes)| {
        Dense::new(dtype, None, [range.end - range.start], bytes)
    };
    Ok(ranges.iter().zip(read).map(one).collect())
}

/// Returns ranges of elements of a tensor with a described layout, in the type of the description.
pub(crate) fn described_parts(tensor: &Tensor, ranges: &[Range<u64>]) -> Result<Vec<Dense>> {
    let view = tensor.described()?;
    let dtype = view.dtype();
    let one = |range: &Range<u64>| {
        let mut out = Vec::new();
        view.elements(range.clone(), &mut out)?;
        Ok(Dense::new(dtype.dtype(), dtype.logical_type(), [range.end - range.start], out))
    };
    let all: Result<_> = ranges.iter().map(one).collect();
    all.map_err(|e| e.in_tensor(tensor.name()).in_source(tensor.file().name()))
}

/// Passes the decoded bytes `range` of a component to `sink`, in pieces of whole elements. The digest is checked if the
/// range is the whole component.
pub(crate) fn stream(
    tensor: &Tensor,
    c: &Component,
    range: Option<Range<u64>>,
    mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let pieces = match range {
        Some(range) => tensor.pieces_range(&c.role, range)?,
        None => tensor.pieces(&c.role)?,
    };
    pieces.into_iter().try_for_each(|piece| sink(&piece?))
}

/// The smallest number of elements that is a whole number of bytes.
struct Unit {
    elements: u64,
    bytes: u64,
}

impl Unit {
    fn for_component(c: &Component) -> Unit {
        let bits = c.logical_type.as_ref().and_then(LogicalType::bits);
        match bits.unwrap_or(c.dtype.width() * 8) {
            4 => Unit { elements: 2, bytes: 1 },
            6 => Unit { elements: 4, bytes: 3 },
            bits => Unit { elements: 1, bytes: bits / 8 },
        }
    }

    /// Returns the range of elements of the units that contain `range`, and the number of its elements before `range`.
    fn whole(&self, range: &Range<u64>) -> (Range<u64>, u64) {
        let start = range.start / self.elements * self.elements;
        (start..range.end.next_multiple_of(self.elements), range.start - start)
    }

    fn bytes(&self, range: &Range<u64>) -> Range<u64> {
        let (whole, _) = self.whole(range);
        let byte = |element: u64| element / self.elements * self.bytes;
        byte(whole.start)..byte(whole.end)
    }

    /// Returns `count` elements after the first `skipped`.
    fn trim(&self, read: Dense, skipped: u64, count: u64) -> Result<Dense> {
        if self.elements == 1 {
            return Ok(read);
        }
        // Elements of fewer than 8 bits cannot be sliced, but f32 represents all of them exactly.
        let all = read.to_f32()?;
        let kept = all.into_iter().skip(skipped as usize).take(count as usize);
        let bytes: Vec<u8> = kept.flat_map(f32::to_le_bytes).collect();
        Ok(Dense::new(DType::F32, None, [count], bytes))
    }
}
