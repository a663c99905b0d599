//! How a tensor is computed from the tensors of the source: a tree of operations with their shapes.

use super::SHAPE;
use holdall_core::error::{Error, Result};
use holdall_core::layout::number::ElementType;
use holdall_core::model::{DType, element_count};
use std::sync::Arc;

/// The maximum number of dimensions of a tensor between two steps.
const MAX_RANK: usize = 12;

/// A tensor that is computed: its shape, the type of its elements, and how it is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Computed {
    pub(super) shape: Vec<u64>,
    pub(super) element: ElementType,
    pub(super) node: Node,
}

/// An operation. Elements are in row-major order, and every operation knows the shapes that it needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A tensor of the source, by its index.
    Source(usize),
    /// The elements `start..start + len` along an axis of length `from`.
    Slice { of: Arc<Node>, inner: u64, from: u64, start: u64, len: u64 },
    /// Tensors after each other along an axis, with their lengths along it.
    Join { parts: Arc<Vec<(Node, u64)>>, inner: u64 },
    /// Blocks of `shape`, in each of which the axes are permuted. The axes in front of them stay where they are.
    Permute { of: Arc<Node>, shape: Vec<u64>, axes: Vec<usize> },
    /// A function of each element.
    Map { of: Arc<Node>, from: ElementType, function: Function },
    /// Numbers that the recipe computes.
    Made(Arc<[f32]>),
}

/// A function of an element. It is computed in `f32` and rounded to the type of the tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    /// Nothing but the conversion to another type.
    Cast,
    Add(f64),
    Multiply(f64),
    /// -exp(x).
    NegExp,
    /// log(-x).
    LogNeg,
}

impl Node {
    /// Returns `true` if an exponential or a logarithm is part of it, whose last place depends on the library.
    pub(super) fn is_rounded(&self) -> bool {
        match self {
            Node::Source(_) | Node::Made(_) => false,
            Node::Slice { of, .. } | Node::Permute { of, .. } => of.is_rounded(),
            Node::Join { parts, .. } => parts.iter().any(|(part, _)| part.is_rounded()),
            Node::Map { of, function, .. } => {
                matches!(function, Function::NegExp | Function::LogNeg) || of.is_rounded()
            }
        }
    }
}

impl Computed {
    pub(super) fn count(&self) -> u64 {
        element_count(&self.shape).unwrap_or(u64::MAX)
    }

    /// Returns the index of an axis, which counts from the end if it is negative.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if there is no such axis.
    pub(super) fn axis(&self, axis: i64) -> Result<usize> {
        axis_of(axis, self.shape.len())
    }

    fn len(&self, axis: usize) -> u64 {
        self.shape.get(axis).copied().unwrap_or(1)
    }

    /// Returns the number of elements of one step along the axis.
    fn inner(&self, axis: usize) -> u64 {
        let inner = self.shape.get(axis.saturating_add(1)..).unwrap_or_default();
        element_count(inner).unwrap_or(u64::MAX)
    }

    /// Gives the tensor another shape with the same number of elements.
    pub(super) fn reshaped(mut self, shape: Vec<u64>) -> Result<Computed> {
        if shape.len() > MAX_RANK {
            let found = shape.len();
            return Err(SHAPE.broken(format!("{found} dimensions, expected at most {MAX_RANK}")));
        }
        if element_count(&shape) != element_count(&self.shape) {
            return Err(SHAPE.broken(format!(
                "{:?} has another number of elements than {shape:?}",
                self.shape
            )));
        }
        self.shape = shape;
        Ok(self)
    }

    /// Keeps a range along an axis.
    pub(super) fn sliced(mut self, axis: usize, start: u64, end: u64) -> Result<Computed> {
        let from = self.len(axis);
        if start > end || end > from {
            return Err(SHAPE.broken(format!(
                "{start}..{end} is not inside 0..{from}, axis {axis} of {:?}",
                self.shape
            )));
        }
        let len = end.saturating_sub(start);
        if len == from {
            return Ok(self);
        }
        let inner = self.inner(axis);
        if let Some(n) = self.shape.get_mut(axis) {
            *n = len;
        }
        self.node = Node::Slice { of: Arc::new(self.node), inner, from, start, len };
        Ok(self)
    }

    /// Reorders the axes: axis `axes[i]` becomes axis `i`.
    pub(super) fn permuted(mut self, axes: &[usize]) -> Result<Computed> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.shape.len()) {
            return Err(SHAPE.broken(format!(
                "{axes:?} does not order the {} axes of {:?}",
                self.shape.len(),
                self.shape
            )));
        }
        let fixed = axes.iter().enumerate().take_while(|(at, axis)| at == *axis).count();
        if fixed == axes.len() {
            return Ok(self);
        }
        // Axes of length 1 can be anywhere: no element moves.
        let long = axes.iter().filter(|axis| self.shape.get(**axis).is_some_and(|n| *n != 1));
        if long.is_sorted() {
            self.shape = axes.iter().filter_map(|axis| self.shape.get(*axis).copied()).collect();
            return Ok(self);
        }
        let block = self.shape.get(fixed..).unwrap_or_default().to_vec();
        let moved = axes.get(fixed..).unwrap_or_default();
        let moved = moved.iter().map(|axis| axis.saturating_sub(fixed)).collect();
        self.shape = axes.iter().filter_map(|axis| self.shape.get(*axis).copied()).collect();
        self.node = Node::Permute { of: Arc::new(self.node), shape: block, axes: moved };
        Ok(self)
    }

    /// Applies a function to each element. Elements of F16 stay F16; all others become F32.
    pub(super) fn mapped(mut self, function: Function) -> Computed {
        let from = std::mem::replace(&mut self.element, float(DType::F32));
        if from == float(DType::F16) && function != Function::Cast {
            self.element = from.clone();
        }
        self.node = Node::Map { of: Arc::new(self.node), from, function };
        self
    }
}

/// Returns the type of elements without another meaning.
pub(super) fn float(dtype: DType) -> ElementType {
    ElementType::new(dtype, None)
}

/// Puts tensors after each other along an axis, which all have.
///
/// # Errors
/// Returns [`SHAPE`] if the other dimensions differ.
pub(super) fn joined(all: Vec<Computed>, axis: i64) -> Result<Computed> {
    let none = || SHAPE.broken("no tensors to join");
    let axis = all.first().ok_or_else(none)?.axis(axis)?;
    let all = alike(all);
    let (mut shape, element) = match all.first() {
        Some(first) => (first.shape.clone(), first.element.clone()),
        None => return Err(none()),
    };
    let inner = all.first().map_or(1, |first| first.inner(axis));
    let mut len = 0u64;
    let mut parts = Vec::with_capacity(all.len());
    for part in all {
        let own = part.len(axis);
        let mut expected = shape.clone();
        if let Some(n) = expected.get_mut(axis) {
            *n = own;
        }
        if expected != part.shape {
            return Err(SHAPE.broken(format!(
                "{shape:?} and {:?} cannot be joined along axis {axis}",
                part.shape
            )));
        }
        len = len.checked_add(own).ok_or_else(|| SHAPE.broken("the tensor is too large"))?;
        parts.push((part.node, own));
    }
    if let Some(n) = shape.get_mut(axis) {
        *n = len;
    }
    if element_count(&shape).is_none() {
        return Err(SHAPE.broken(format!("a tensor of shape {shape:?} is too large")));
    }
    Ok(Computed { shape, element, node: Node::Join { parts: Arc::new(parts), inner } })
}

/// Puts tensors of equal shapes after each other along a new axis.
///
/// # Errors
/// The errors of [`joined`].
pub(super) fn stacked(all: Vec<Computed>, axis: i64) -> Result<Computed> {
    let rank = all.first().map_or(0, |first| first.shape.len());
    let at = axis_of(axis, rank.saturating_add(1))?;
    let longer = |mut part: Computed| {
        if at > part.shape.len() || part.shape.len() >= MAX_RANK {
            return Err(SHAPE.broken(format!("{:?} cannot have an axis {at} more", part.shape)));
        }
        part.shape.insert(at, 1);
        Ok(part)
    };
    let all = all.into_iter().map(longer).collect::<Result<Vec<_>>>()?;
    joined(all, i64::try_from(at).unwrap_or(i64::MAX))
}

/// Converts tensors whose types differ to F32.
fn alike(all: Vec<Computed>) -> Vec<Computed> {
    let first = all.first().map(|first| first.element.clone());
    if all.iter().all(|part| Some(&part.element) == first.as_ref()) {
        return all;
    }
    let wide = float(DType::F32);
    let convert = |part: Computed| match part.element == wide {
        true => part,
        false => part.mapped(Function::Cast),
    };
    all.into_iter().map(convert).collect()
}

/// Returns the index of an axis of several, which counts from the end if it is negative.
///
/// # Errors
/// Returns [`SHAPE`] if there is no such axis.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let wrong = || -> Error { SHAPE.broken(format!("no axis {axis} in {rank} dimensions")) };
    let count = i64::try_from(rank).map_err(|_| wrong())?;
    let at = if axis < 0 { axis.saturating_add(count) } else { axis };
    usize::try_from(at).ok().filter(|at| *at < rank).ok_or_else(wrong)
}
