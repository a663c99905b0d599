//! Some elements of a tensor, reading no more than holds them.

use crate::exit::Failure;
use holdall::codec::zstd::{SEEK_FOOTER_LEN, SINGLE_FRAME_MAX, SeekTable};
use holdall::layout::dense::Dense;
use holdall::{Bytes, Component, DType, Encoding, LogicalType, Result, Role, Tensor};
use std::ops::Range;

/// Elements `ranges` of one component, in row-major order; ranges rise and do not overlap.
pub(crate) fn of_component(
    tensor: &Tensor,
    c: &Component,
    ranges: &[Range<u64>],
) -> Result<Vec<Dense>> {
    let unit = Unit::of(c);
    let stored: Vec<Range<u64>> = ranges.iter().map(|r| unit.bytes(r)).collect();
    let all = if c.encoding == Encoding::Raw || is_seekable(tensor, c)? {
        stored.iter().map(|r| tensor.bytes_range(&c.role, r.clone())).collect::<Result<Vec<_>>>()?
    } else {
        in_passing(tensor, &c.role, &stored)?
    };
    let dense = |(range, bytes): (&Range<u64>, Bytes)| {
        let (whole, skipped) = unit.whole(range);
        let read = Dense::new(c.dtype, c.logical_type.clone(), [whole.end - whole.start], bytes);
        unit.trim(read, skipped, range.end - range.start)
    };
    ranges.iter().zip(all).map(dense).collect()
}

/// Elements `ranges` of a quantized tensor, as f32.
pub(crate) fn of_quantized(tensor: &Tensor, ranges: &[Range<u64>]) -> Result<Vec<Dense>> {
    let view = tensor.quantized()?;
    let one = |range: &Range<u64>| {
        // What is shown is little.
        let mut out = vec![0f32; (range.end - range.start) as usize];
        view.dequantize_range(range.clone(), &mut out)?;
        let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_le_bytes()).collect();
        Ok(Dense::new(DType::F32, None, [out.len() as u64], bytes))
    };
    ranges.iter().map(one).collect()
}

/// Hands the decoded bytes `range` of a component to `sink`, in pieces of whole elements. Its digest is
/// checked when the range is the whole.
pub(crate) fn stream(
    tensor: &Tensor,
    c: &Component,
    range: Option<Range<u64>>,
    mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    /// Bytes handed on at a time; a multiple of every element's width, and of 3.
    const PIECE: u64 = 3 << 20;
    match range {
        Some(range) if c.encoding == Encoding::Raw || is_seekable(tensor, c)? => {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + PIECE);
                sink(&tensor.bytes_range(&c.role, at..end)?)?;
                at = end;
            }
        }
        range => {
            let range = range.unwrap_or(0..u64::MAX);
            let mut at = 0;
            for piece in tensor.pieces(&c.role)? {
                let piece = piece?;
                let end = at + piece.len() as u64;
                let (from, to) = (range.start.clamp(at, end), range.end.clamp(at, end));
                sink(&piece[(from - at) as usize..(to - at) as usize])?;
                at = end;
                if at >= range.end {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The fewest elements that are whole bytes.
struct Unit {
    elements: u64,
    bytes: u64,
}

impl Unit {
    fn of(c: &Component) -> Unit {
        let bits = c.logical_type.as_ref().and_then(LogicalType::bits);
        match bits.unwrap_or(c.dtype.width() * 8) {
            4 => Unit { elements: 2, bytes: 1 },
            6 => Unit { elements: 4, bytes: 3 },
            bits => Unit { elements: 1, bytes: bits / 8 },
        }
    }

    /// The units that hold `range`, as elements, and how many of them come before it.
    fn whole(&self, range: &Range<u64>) -> (Range<u64>, u64) {
        let start = range.start / self.elements * self.elements;
        (start..range.end.next_multiple_of(self.elements), range.start - start)
    }

    fn bytes(&self, range: &Range<u64>) -> Range<u64> {
        let (whole, _) = self.whole(range);
        let byte = |element: u64| element / self.elements * self.bytes;
        byte(whole.start)..byte(whole.end)
    }

    /// The `count` elements after the first `skipped`.
    fn trim(&self, read: Dense, skipped: u64, count: u64) -> Result<Dense> {
        if self.elements == 1 {
            return Ok(read);
        }
        // Elements below 8 bits cannot be sliced, but every one of them fits an f32.
        let all = read.to_f32()?;
        let kept = all.into_iter().skip(skipped as usize).take(count as usize);
        let bytes: Vec<u8> = kept.flat_map(f32::to_le_bytes).collect();
        Ok(Dense::new(DType::F32, None, [count], bytes))
    }
}

/// Whether a compressed component can be read in parts.
fn is_seekable(tensor: &Tensor, c: &Component) -> Result<bool> {
    let long = c.decoded_len.is_some_and(|len| len > SINGLE_FRAME_MAX);
    if !long || c.encoding != Encoding::Zstd || c.stored_len() < SEEK_FOOTER_LEN {
        return Ok(false);
    }
    let footer = c.stored.end - SEEK_FOOTER_LEN..c.stored.end;
    let read = tensor.file().source().read(&[footer])?;
    let len = |footer: &Bytes| SeekTable::len_from_footer(footer, c.stored_len());
    Ok(read.first().and_then(len).is_some())
}

/// Byte ranges picked while the component is decoded from its start, once.
fn in_passing(tensor: &Tensor, role: &Role, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let mut out: Vec<Vec<u8>> = vec![Vec::new(); ranges.len()];
    let last = ranges.iter().map(|r| r.end).max().unwrap_or(0);
    let mut at = 0;
    for piece in tensor.pieces(role)? {
        let piece = piece?;
        let end = at + piece.len() as u64;
        for (range, out) in ranges.iter().zip(&mut out) {
            let (from, to) = (range.start.clamp(at, end) - at, range.end.clamp(at, end) - at);
            out.extend_from_slice(&piece[from as usize..to as usize]);
        }
        at = end;
        if at >= last {
            break;
        }
    }
    Ok(out.into_iter().map(Bytes::from).collect())
}
