//! The elements of computed tensors, piece by piece.

use super::node::{Computed, Function, Node, float};
use super::outtype::Form;
use super::{SHAPE, TensorSource};
use bytes::Bytes;
use half::f16;
use holdall_collections::DebugUnwrap;
use holdall_core::error::Result;
use holdall_core::layout::float::decode_f32;
use holdall_core::layout::number::ElementType;
use holdall_core::model::DType;
use std::ops::Range;
use std::sync::Arc;

/// The number of elements that are computed at a time: 16 MiB of F32.
const PIECE: u64 = 1 << 22;
/// Reads of fewer elements than this are served from a window of the source.
const SMALL_READ: u64 = 1 << 16;
/// The number of elements of a window.
const WINDOW: u64 = 1 << 18;

/// The bytes of a computed tensor, in pieces.
pub struct Pieces {
    source: Arc<dyn TensorSource>,
    reading: Reading,
    element: ElementType,
    form: Form,
    at: u64,
    count: u64,
}

impl Pieces {
    pub(super) fn new(of: &Computed, form: Form, source: Arc<dyn TensorSource>) -> Pieces {
        let reading = Reading::new(&of.node);
        Pieces { source, reading, element: of.element.clone(), form, at: 0, count: of.count() }
    }

    fn piece(&mut self, elements: Range<u64>) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.reading.read(&*self.source, &self.element, elements, &mut bytes)?;
        self.form.encode(&self.element, bytes)
    }
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.at >= self.count {
            return None;
        }
        let end = self.at.saturating_add(PIECE).min(self.count);
        let piece = self.piece(self.at..end);
        // An error ends the pieces.
        self.at = if piece.is_ok() { end } else { self.count };
        Some(piece)
    }
}

/// A [`Node`] with what it holds while it is read.
enum Reading {
    Source { tensor: usize, start: u64, window: Vec<u8> },
    Slice { of: Box<Reading>, inner: u64, from: u64, start: u64, len: u64 },
    Join { parts: Vec<(Reading, u64)>, inner: u64, len: u64 },
    Permute { of: Box<Reading>, shape: Vec<u64>, axes: Vec<usize>, held: Option<(u64, Vec<u8>)> },
    Map { of: Box<Reading>, from: ElementType, function: Function },
    Made(Arc<[f32]>),
}

impl Reading {
    fn new(node: &Node) -> Reading {
        match node {
            Node::Source(tensor) => {
                Reading::Source { tensor: *tensor, start: 0, window: Vec::new() }
            }
            Node::Slice { of, inner, from, start, len } => Reading::Slice {
                of: Box::new(Reading::new(of)),
                inner: *inner,
                from: *from,
                start: *start,
                len: *len,
            },
            Node::Join { parts, inner } => Reading::Join {
                parts: parts.iter().map(|(part, len)| (Reading::new(part), *len)).collect(),
                inner: *inner,
                len: parts.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len)),
            },
            Node::Permute { of, shape, axes } => Reading::Permute {
                of: Box::new(Reading::new(of)),
                shape: shape.clone(),
                axes: axes.clone(),
                held: None,
            },
            Node::Map { of, from, function } => Reading::Map {
                of: Box::new(Reading::new(of)),
                from: from.clone(),
                function: *function,
            },
            Node::Made(numbers) => Reading::Made(numbers.clone()),
        }
    }

    /// Appends the bytes of the elements, whose type is `element`.
    fn read(
        &mut self,
        source: &dyn TensorSource,
        element: &ElementType,
        elements: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let width = element.dtype.width();
        match self {
            Reading::Source { tensor, start, window } => {
                let len = elements.end.saturating_sub(elements.start);
                if len >= SMALL_READ {
                    return source.read(*tensor, elements, out);
                }
                let held = (window.len() as u64).checked_div(width).unwrap_or(0);
                let end = start.saturating_add(held);
                if elements.start < *start || elements.end > end {
                    window.clear();
                    let all = source.count(*tensor);
                    let end = elements.start.saturating_add(WINDOW).min(all).max(elements.end);
                    source.read(*tensor, elements.start..end, window)?;
                    *start = elements.start;
                }
                let from = elements.start.saturating_sub(*start).saturating_mul(width);
                append(window, from, len.saturating_mul(width), out)
            }
            Reading::Slice { of, inner, from, start, len } => {
                let (row, whole) = (len.saturating_mul(*inner), from.saturating_mul(*inner));
                let skipped = start.saturating_mul(*inner);
                each_run(elements, row, |outer, within, len| {
                    let at = outer.saturating_mul(whole).saturating_add(skipped);
                    let at = at.saturating_add(within);
                    of.read(source, element, at..at.saturating_add(len), out)
                })
            }
            Reading::Join { parts, inner, len } => {
                let row = len.saturating_mul(*inner);
                each_run(elements, row, |outer, within, len| {
                    let end = within.saturating_add(len);
                    let mut begin = 0u64;
                    for (part, own) in parts.iter_mut() {
                        let own = own.saturating_mul(*inner);
                        let after = begin.saturating_add(own);
                        let (from, to) = (within.max(begin), end.min(after));
                        if from < to {
                            let base = outer.saturating_mul(own);
                            let at = |n: u64| base.saturating_add(n.saturating_sub(begin));
                            part.read(source, element, at(from)..at(to), out)?;
                        }
                        begin = after;
                    }
                    Ok(())
                })
            }
            Reading::Permute { of, shape, axes, held } => {
                let block = shape.iter().fold(1u64, |n, d| n.saturating_mul(*d));
                each_run(elements, block, |number, within, len| {
                    if held.as_ref().is_none_or(|(own, _)| *own != number) {
                        *held = None;
                        let at = number.saturating_mul(block);
                        let mut bytes = Vec::new();
                        of.read(source, element, at..at.saturating_add(block), &mut bytes)?;
                        *held = Some((number, permuted(&bytes, shape, axes, width)));
                    }
                    let bytes = held.as_ref().map_or(&[][..], |(_, bytes)| bytes);
                    append(bytes, within.saturating_mul(width), len.saturating_mul(width), out)
                })
            }
            Reading::Map { of, from, function } => {
                let mut bytes = Vec::new();
                of.read(source, from, elements, &mut bytes)?;
                let is_half = *element == float(DType::F16);
                decode_f32(from.dtype, from.logical_type.as_ref(), &bytes, |numbers| {
                    for x in numbers {
                        let y = function.apply(*x);
                        match is_half {
                            true => out.extend_from_slice(&f16::from_f32(y).to_le_bytes()),
                            false => out.extend_from_slice(&y.to_le_bytes()),
                        }
                    }
                })
            }
            Reading::Made(numbers) => {
                let start = usize::try_from(elements.start).unwrap_or(usize::MAX);
                let end = usize::try_from(elements.end).unwrap_or(usize::MAX);
                let range = numbers.get(start..end).debug_unwrap();
                range.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
                Ok(())
            }
        }
    }
}

impl Function {
    #[allow(clippy::cast_possible_truncation)] // Rounding to the type of the result.
    fn apply(self, x: f32) -> f32 {
        match self {
            Function::Cast => x,
            Function::Add(c) => x + c as f32,
            Function::Multiply(c) => x * c as f32,
            Function::NegExp => -f64::from(x).exp() as f32,
            Function::LogNeg => (-f64::from(x)).ln() as f32,
        }
    }
}

/// Cuts a range of elements into runs inside rows of `row` elements: the number of the row, the first element in it,
/// and the number of elements.
fn each_run(
    elements: Range<u64>,
    row: u64,
    mut run: impl FnMut(u64, u64, u64) -> Result<()>,
) -> Result<()> {
    let mut at = elements.start;
    while at < elements.end {
        let (Some(outer), Some(within)) = (at.checked_div(row), at.checked_rem(row)) else {
            return Ok(());
        };
        let len = row.saturating_sub(within).min(elements.end.saturating_sub(at));
        run(outer, within, len)?;
        at = at.saturating_add(len);
    }
    Ok(())
}

fn append(bytes: &[u8], from: u64, len: u64, out: &mut Vec<u8>) -> Result<()> {
    let range = || {
        let start = usize::try_from(from).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    };
    let Some(part) = range() else {
        let found = bytes.len();
        return Err(SHAPE.broken(format!("{len} bytes from {from} on, of only {found}")));
    };
    out.extend_from_slice(part);
    Ok(())
}

/// Returns a tensor whose axes are reordered. `bytes` has all its elements, of `width` bytes each.
fn permuted(bytes: &[u8], shape: &[u64], axes: &[usize], width: u64) -> Vec<u8> {
    // Axes at the end that stay are moved together.
    let still = axes.iter().enumerate().rev().take_while(|(at, axis)| at == *axis).count();
    let moved = shape.len().saturating_sub(still);
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let mut unit = size(width);
    for n in shape.get(moved..).unwrap_or_default() {
        unit = unit.saturating_mul(size(*n));
    }
    let mut strides = vec![0usize; moved];
    let mut stride = unit;
    for (own, n) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride = stride.saturating_mul(size(*n));
    }
    // For each axis of the result, outermost first: its length, and the bytes of one step along it.
    let order = axes.iter().take(moved);
    let steps: Vec<(usize, usize)> =
        order.filter_map(|axis| Some((size(*shape.get(*axis)?), *strides.get(*axis)?))).collect();
    let mut out = Vec::with_capacity(bytes.len());
    if bytes.is_empty() {
        return out;
    }
    let mut index = vec![0usize; steps.len()];
    let mut at = 0usize;
    loop {
        out.extend_from_slice(bytes.get(at..at.saturating_add(unit)).debug_unwrap());
        // The next index: the last axis first.
        let mut axis = steps.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return out };
            axis = next;
            let (Some(n), Some(&(len, step))) = (index.get_mut(axis), steps.get(axis)) else {
                return out;
            };
            *n = n.saturating_add(1);
            if *n < len {
                at = at.saturating_add(step);
                break;
            }
            *n = 0;
            at = at.saturating_sub(step.saturating_mul(len.saturating_sub(1)));
        }
    }
}
