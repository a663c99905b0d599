//! Factors of a matrix, which the steps of a recipe move as they move the matrix.

use super::node::{Computed, Function, axis_of};
use super::stepped::Stepped;
use super::{ADAPTER, SHAPE};
use holdall_core::error::Result;
use holdall_core::model::element_count;
use std::ops::Range;

/// A tensor that is the product of two factors: `sum over r of left[.., r] * right[.., r]`.
///
/// Each factor has all axes of the tensor, with length 1 where only the other one has them, and the rank as last axis. So a
/// step on rows is one on the left factor, a step on columns one on the right, and a transposition swaps both.
#[derive(Debug, Clone)]
pub(super) struct Factored {
    shape: Vec<u64>,
    left: Computed,
    right: Computed,
    owners: Vec<Owner>,
}

/// The factor that has an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Left,
    Right,
    /// An axis that numbers matrices, such as that of experts.
    Both,
}

impl Factored {
    /// Creates the product of `left` (`[rows, rank]`) and `right` (`[columns, rank]`), with numbers of further axes in front of
    /// both.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the shapes do not fit each other.
    pub(super) fn new(left: Computed, right: Computed) -> Result<Factored> {
        let rank = left.shape.len();
        let batch = rank.saturating_sub(2);
        let fits = rank >= 2
            && right.shape.len() == rank
            && left.shape.get(..batch) == right.shape.get(..batch)
            && left.shape.last() == right.shape.last();
        if !fits {
            return Err(SHAPE.broken(format!(
                "factors of shapes {:?} and {:?} have no product",
                left.shape, right.shape
            )));
        }
        let length = |of: &Computed| of.shape.get(batch).copied().unwrap_or(1);
        let mut shape = left.shape.get(..batch).unwrap_or_default().to_vec();
        let mut owners = vec![Owner::Both; batch];
        shape.extend([length(&left), length(&right)]);
        owners.extend([Owner::Left, Owner::Right]);
        let left = Stepped::with_axis(left, batch.saturating_add(1))?;
        let right = Stepped::with_axis(right, batch)?;
        Ok(Factored { shape, left, right, owners })
    }

    /// Returns the factor with the rows and the one with the columns, as `[.., rows, rank]` and `[.., columns, rank]`, and
    /// whether the left one has the rows.
    ///
    /// # Errors
    /// Returns [`ADAPTER`] if the tensor is no matrix, or no list of matrices, with a factor for the rows and one for the columns.
    pub(super) fn into_factors(self) -> Result<(Computed, Computed, bool)> {
        let count = self.shape.len();
        let [.., rows, columns] = self.owners.as_slice() else {
            return Err(ADAPTER.broken(format!("{:?} is the shape of no matrix", self.shape)));
        };
        let length = |at: usize| self.shape.get(at).copied().unwrap_or(1);
        let (rows_at, columns_at) = (count.saturating_sub(2), count.saturating_sub(1));
        // An axis of length 1 can belong to either.
        let left_has_rows = match (rows, columns) {
            (Owner::Left, Owner::Right) => true,
            (Owner::Right, Owner::Left) => false,
            (owner, _) if length(columns_at) == 1 => *owner != Owner::Right,
            (_, owner) if length(rows_at) == 1 => *owner != Owner::Left,
            _ => return Err(self.mixed()),
        };
        let batch = self.owners.iter().zip(&self.shape).take(rows_at);
        if batch.clone().any(|(owner, n)| *owner != Owner::Both && *n != 1) {
            return Err(self.mixed());
        }
        let (with_rows, with_columns) = match left_has_rows {
            true => (self.left, self.right),
            false => (self.right, self.left),
        };
        let with_rows = Stepped::without_axis(with_rows, columns_at)?;
        let with_columns = Stepped::without_axis(with_columns, rows_at)?;
        Ok((with_rows, with_columns, left_has_rows))
    }

    #[cold]
    fn mixed(&self) -> holdall_core::Error {
        let shape = &self.shape;
        ADAPTER.broken(format!("rows and columns are mixed in the tensor of shape {shape:?}"))
    }

    /// Returns the factor that has all of several axes.
    fn owner(&self, axes: Range<usize>) -> Result<Owner> {
        let all = self.owners.get(axes.clone()).unwrap_or_default();
        let lengths = self.shape.get(axes).unwrap_or_default();
        let mut long = all.iter().zip(lengths).filter(|(_, n)| **n != 1).map(|(owner, _)| *owner);
        let Some(first) = long.next() else {
            return Ok(all.first().copied().unwrap_or(Owner::Left));
        };
        match long.all(|owner| owner == first) {
            true => Ok(first),
            false => Err(self.mixed()),
        }
    }

    /// Changes axes of both factors: `change` gets the lengths that a factor has there.
    fn with_axes(
        mut self,
        axes: Range<usize>,
        owners: Vec<Owner>,
        change: impl Fn(&[u64], bool) -> Vec<u64>,
        owner: Owner,
    ) -> Result<Factored> {
        let changed = |of: Computed, is_own: bool| {
            let mut shape = of.shape.clone();
            let lengths = change(shape.get(axes.clone()).unwrap_or_default(), is_own);
            shape.splice(axes.clone(), lengths);
            of.reshaped(shape)
        };
        self.left = changed(self.left, owner != Owner::Right)?;
        self.right = changed(self.right, owner != Owner::Left)?;
        let lengths = change(self.shape.get(axes.clone()).unwrap_or_default(), true);
        self.shape.splice(axes.clone(), lengths);
        self.owners.splice(axes, owners);
        Ok(self)
    }
}

impl Stepped for Factored {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn reshaped(self, _: Vec<u64>) -> Result<Factored> {
        Err(ADAPTER.broken("`reshape` does not keep rows and columns apart"))
    }

    fn unflattened(self, axis: usize, sizes: Vec<u64>) -> Result<Factored> {
        let total = self.shape.get(axis).copied().unwrap_or(1);
        if element_count(&sizes) != Some(total) {
            return Err(SHAPE.broken(format!("{total} is not the product of {sizes:?}")));
        }
        let owner = self.owners.get(axis).copied().unwrap_or(Owner::Left);
        let owners = vec![owner; sizes.len()];
        let change = |_: &[u64], is_own: bool| match is_own {
            true => sizes.clone(),
            false => vec![1; sizes.len()],
        };
        self.with_axes(axis..axis.saturating_add(1), owners, change, owner)
    }

    fn flattened(self, axes: Range<usize>) -> Result<Factored> {
        let owner = self.owner(axes.clone())?;
        let change = |lengths: &[u64], _: bool| vec![element_count(lengths).unwrap_or(u64::MAX)];
        self.with_axes(axes, vec![owner], change, owner)
    }

    fn without_axis(self, axis: usize) -> Result<Factored> {
        let length = self.shape.get(axis).copied().unwrap_or(0);
        if length != 1 {
            return Err(SHAPE.broken(format!("axis {axis} has the length {length}, not 1")));
        }
        let change = |_: &[u64], _: bool| Vec::new();
        self.with_axes(axis..axis.saturating_add(1), Vec::new(), change, Owner::Both)
    }

    fn with_axis(self, at: usize) -> Result<Factored> {
        self.with_axes(at..at, vec![Owner::Left], |_: &[u64], _: bool| vec![1], Owner::Both)
    }

    fn permuted(mut self, axes: &[usize]) -> Result<Factored> {
        let mut with_rank = axes.to_vec();
        with_rank.push(self.shape.len());
        self.left = self.left.permuted(&with_rank)?;
        self.right = self.right.permuted(&with_rank)?;
        self.shape = axes.iter().filter_map(|axis| self.shape.get(*axis).copied()).collect();
        self.owners = axes.iter().filter_map(|axis| self.owners.get(*axis).copied()).collect();
        Ok(self)
    }

    fn sliced(mut self, axis: usize, start: u64, end: u64) -> Result<Factored> {
        let owner = self.owners.get(axis).copied().unwrap_or(Owner::Left);
        if owner != Owner::Right {
            self.left = self.left.sliced(axis, start, end)?;
        }
        if owner != Owner::Left {
            self.right = self.right.sliced(axis, start, end)?;
        }
        if let Some(n) = self.shape.get_mut(axis) {
            *n = end.saturating_sub(start);
        }
        Ok(self)
    }

    fn mapped(mut self, function: Function) -> Result<Factored> {
        match function {
            // A constant that the recipe adds is in the matrix of the base model, not in its change.
            Function::Cast | Function::Add(_) => {}
            Function::Multiply(_) => {
                self.left = self.left.mapped(Function::Cast).mapped(function);
            }
            Function::NegExp | Function::LogNeg => {
                let message = "the change of an exponential is no product of factors";
                return Err(ADAPTER.broken(message));
            }
        }
        Ok(self)
    }

    fn joined(all: Vec<Factored>, axis: i64) -> Result<Factored> {
        let Some(first) = all.first().cloned() else {
            return Err(SHAPE.broken("no tensors to join"));
        };
        let at = first.axis(axis)?;
        let owner = first.owners.get(at).copied().unwrap_or(Owner::Left);
        let is_alike = all.iter().all(|one| one.owners == first.owners);
        let other = |one: &Factored| match owner {
            Owner::Left => one.right == first.right,
            Owner::Right => one.left == first.left,
            Owner::Both => true,
        };
        if !is_alike || !all.iter().all(other) {
            let count = all.len();
            let message = format!("{count} tensors are joined, whose factors differ");
            return Err(ADAPTER.broken(message));
        }
        let axis = i64::try_from(at).unwrap_or(i64::MAX);
        let mut shape = first.shape.clone();
        let lengths = all.iter().map(|one| one.shape.get(at).copied().unwrap_or(1));
        if let Some(n) = shape.get_mut(at) {
            *n = lengths.fold(0, u64::saturating_add);
        }
        let lefts = || all.iter().map(|one| one.left.clone()).collect();
        let rights = || all.iter().map(|one| one.right.clone()).collect();
        let left = match owner {
            Owner::Right => first.left,
            _ => super::node::joined(lefts(), axis)?,
        };
        let right = match owner {
            Owner::Left => first.right,
            _ => super::node::joined(rights(), axis)?,
        };
        Ok(Factored { shape, left, right, owners: first.owners })
    }

    fn stacked(all: Vec<Factored>, axis: i64) -> Result<Factored> {
        let Some(first) = all.first().cloned() else {
            return Err(SHAPE.broken("no tensors to stack"));
        };
        let at = axis_of(axis, first.shape.len().saturating_add(1))?;
        if !all.iter().all(|one| one.owners == first.owners && one.shape == first.shape) {
            let message = "tensors of different shapes, or of which only some have factors in rows, are stacked";
            return Err(ADAPTER.broken(message));
        }
        let ranks: Vec<u64> =
            all.iter().map(|one| one.left.shape.last().copied().unwrap_or(0)).collect();
        if ranks.iter().any(|rank| Some(rank) != ranks.first()) {
            let message = format!("the factors that are stacked have different ranks: {ranks:?}");
            return Err(ADAPTER.broken(message));
        }
        let axis = i64::try_from(at).unwrap_or(i64::MAX);
        let count = all.len() as u64;
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for one in all {
            lefts.push(one.left);
            rights.push(one.right);
        }
        let (mut shape, mut owners) = (first.shape, first.owners);
        shape.insert(at, count);
        owners.insert(at, Owner::Both);
        let left = super::node::stacked(lefts, axis)?;
        let right = super::node::stacked(rights, axis)?;
        Ok(Factored { shape, left, right, owners })
    }
}
