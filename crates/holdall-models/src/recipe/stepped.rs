//! What steps move: a tensor, or the factors of one.

use super::SHAPE;
use super::node::{Computed, Function, axis_of, joined, stacked};
use holdall_core::error::Result;
use holdall_core::model::element_count;
use std::ops::Range;

/// Something with a shape that the steps of a recipe apply to.
pub(super) trait Stepped: Clone {
    fn shape(&self) -> &[u64];

    /// Gives it another shape with the same number of elements.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the number differs.
    fn reshaped(self, shape: Vec<u64>) -> Result<Self>;

    /// Splits an axis into several, whose product is its length.
    ///
    /// # Errors
    /// The errors of [`Stepped::reshaped`].
    fn unflattened(self, axis: usize, sizes: Vec<u64>) -> Result<Self> {
        let mut shape = self.shape().to_vec();
        shape.splice(axis..axis.saturating_add(1), sizes);
        self.reshaped(shape)
    }

    /// Makes one axis of several.
    ///
    /// # Errors
    /// The errors of [`Stepped::reshaped`].
    fn flattened(self, axes: Range<usize>) -> Result<Self> {
        let mut shape = self.shape().to_vec();
        let merged = shape.get(axes.clone()).unwrap_or_default();
        let merged = merged.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let merged = merged.ok_or_else(|| SHAPE.broken("the axes are too long"))?;
        shape.splice(axes, [merged]);
        self.reshaped(shape)
    }

    /// Removes an axis of length 1.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the length is another one.
    fn without_axis(self, axis: usize) -> Result<Self> {
        let mut shape = self.shape().to_vec();
        shape.remove(axis.min(shape.len().saturating_sub(1)));
        self.reshaped(shape)
    }

    /// Inserts an axis of length 1.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if there are too many axes.
    fn with_axis(self, at: usize) -> Result<Self> {
        let mut shape = self.shape().to_vec();
        shape.insert(at.min(shape.len()), 1);
        self.reshaped(shape)
    }

    /// Reorders the axes: axis `axes[i]` becomes axis `i`.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if `axes` is no order of the axes.
    fn permuted(self, axes: &[usize]) -> Result<Self>;

    /// Keeps a range along an axis.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the range is not inside the axis.
    fn sliced(self, axis: usize, start: u64, end: u64) -> Result<Self>;

    /// Applies a function to each element.
    ///
    /// # Errors
    /// Returns the rule that the function breaks.
    fn mapped(self, function: Function) -> Result<Self>;

    /// Puts several after each other along an axis, which all have.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the other dimensions differ.
    fn joined(all: Vec<Self>, axis: i64) -> Result<Self>;

    /// Puts several after each other along a new axis.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the shapes differ.
    fn stacked(all: Vec<Self>, axis: i64) -> Result<Self>;

    /// Returns the index of an axis, which counts from the end if it is negative.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if there is no such axis.
    fn axis(&self, axis: i64) -> Result<usize> {
        axis_of(axis, self.shape().len())
    }

    /// Returns the number of elements.
    fn count(&self) -> u64 {
        element_count(self.shape()).unwrap_or(u64::MAX)
    }
}

impl Stepped for Computed {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn reshaped(self, shape: Vec<u64>) -> Result<Computed> {
        Computed::reshaped(self, shape)
    }

    fn permuted(self, axes: &[usize]) -> Result<Computed> {
        Computed::permuted(self, axes)
    }

    fn sliced(self, axis: usize, start: u64, end: u64) -> Result<Computed> {
        Computed::sliced(self, axis, start, end)
    }

    fn mapped(self, function: Function) -> Result<Computed> {
        Ok(Computed::mapped(self, function))
    }

    fn joined(all: Vec<Computed>, axis: i64) -> Result<Computed> {
        joined(all, axis)
    }

    fn stacked(all: Vec<Computed>, axis: i64) -> Result<Computed> {
        stacked(all, axis)
    }
}
