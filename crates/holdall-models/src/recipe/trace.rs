//! The inverses of steps. The steps are followed with shapes of which only the rank is known at first, so that each step
//! tells how to undo it.

use super::NO_INVERSE;
use super::evaluate::{Locals, Scope};
use super::expression::Expression;
use super::node::Function;
use super::step::{Operation, Step};
use super::stepped::Stepped;
use holdall_core::error::{Error, Result};
use holdall_core::model::Value;

/// A shape whose unknown dimensions are `None`.
type Shape = Vec<Option<u64>>;

/// How a step is undone.
#[derive(Debug, Clone)]
enum Undo {
    /// Each tensor before the step, in order: what makes it of the tensors after it.
    Each(Vec<One>),
    /// The tensors at these positions were joined along an axis, where they have these lengths.
    Cut { positions: Vec<usize>, axis: usize, lengths: Vec<Option<u64>> },
    /// The tensors at these positions were stacked along an axis.
    Unstack { positions: Vec<usize>, axis: usize },
}

#[derive(Debug, Clone)]
enum One {
    Same,
    /// Axes become one.
    Flatten {
        axis: usize,
        count: usize,
    },
    /// An axis becomes several.
    Unflatten {
        axis: usize,
        sizes: Shape,
    },
    Reshape(Shape),
    Permute(Vec<usize>),
    Squeeze(usize),
    Unsqueeze(usize),
    /// This number of tensors is joined.
    Join {
        axis: usize,
        count: usize,
    },
    Stack {
        axis: usize,
        count: usize,
    },
    Apply(Function),
}

/// The steps of a rule, ready to be undone.
pub(super) struct Traced {
    undo: Vec<Undo>,
}

impl Traced {
    /// Follows steps from tensors of these shapes. Returns the shapes of the tensors that they make, too.
    ///
    /// # Errors
    /// Returns [`NO_INVERSE`] if a step has none, and the errors of expressions.
    pub(super) fn new(
        steps: &[Step],
        mut shapes: Vec<Shape>,
        scope: &Scope<'_>,
        locals: &Locals,
    ) -> Result<(Traced, Vec<Shape>)> {
        let mut undo = Vec::new();
        for step in steps {
            let (one, after) = followed(step, &shapes, scope, locals)?;
            undo.extend(one);
            shapes = after;
        }
        Ok((Traced { undo }, shapes))
    }

    /// Computes the tensors before the steps of those after them.
    ///
    /// # Errors
    /// Returns [`NO_INVERSE`] if sizes are unknown, and [`SHAPE`](super::SHAPE).
    pub(super) fn undone<S: Stepped>(&self, mut all: Vec<S>) -> Result<Vec<S>> {
        for undo in self.undo.iter().rev() {
            all = undo.applied(all)?;
        }
        Ok(all)
    }
}

impl Undo {
    fn applied<S: Stepped>(&self, all: Vec<S>) -> Result<Vec<S>> {
        let mut all = all.into_iter();
        let mut out = Vec::new();
        match self {
            Undo::Each(each) => {
                for one in each {
                    let count = match one {
                        One::Join { count, .. } | One::Stack { count, .. } => *count,
                        _ => 1,
                    };
                    let taken: Vec<S> = all.by_ref().take(count).collect();
                    out.push(one.applied(taken)?);
                }
            }
            Undo::Cut { positions, axis, lengths } => {
                let mut all: Vec<S> = all.collect();
                let at = positions.first().copied().unwrap_or(0).min(all.len());
                if at >= all.len() {
                    return Err(unknown());
                }
                let whole = all.remove(at);
                let total = whole.shape().get(*axis).copied().unwrap_or(1);
                let lengths = completed(
                    lengths,
                    total,
                    |known, n| known.checked_add(n),
                    0,
                    |known| total.checked_sub(known),
                )?;
                let mut start = 0u64;
                let mut parts = Vec::new();
                for len in lengths {
                    let end = start.saturating_add(len);
                    parts.push(whole.clone().sliced(*axis, start, end)?);
                    start = end;
                }
                out = inserted(all, positions, parts);
            }
            Undo::Unstack { positions, axis } => {
                let mut all: Vec<S> = all.collect();
                let at = positions.first().copied().unwrap_or(0);
                if at >= all.len() {
                    return Err(unknown());
                }
                let whole = all.remove(at);
                let parts = (0..positions.len() as u64).map(|n| item(&whole, *axis, n));
                out = inserted(all, positions, parts.collect::<Result<_>>()?);
            }
        }
        Ok(out)
    }
}

/// Returns the item `n` of a tensor along an axis, which it lacks.
pub(super) fn item<S: Stepped>(whole: &S, axis: usize, n: u64) -> Result<S> {
    whole.clone().sliced(axis, n, n.saturating_add(1))?.without_axis(axis)
}

/// Puts tensors at their positions among the others.
fn inserted<S>(others: Vec<S>, positions: &[usize], parts: Vec<S>) -> Vec<S> {
    let mut out = others;
    for (position, part) in positions.iter().zip(parts) {
        out.insert((*position).min(out.len()), part);
    }
    out
}

impl One {
    fn applied<S: Stepped>(&self, mut taken: Vec<S>) -> Result<S> {
        match self {
            One::Join { axis, .. } => return S::joined(taken, signed(*axis)),
            One::Stack { axis, .. } => return S::stacked(taken, signed(*axis)),
            _ => {}
        }
        let Some(of) = taken.pop() else { return Err(unknown()) };
        match self {
            One::Same | One::Join { .. } | One::Stack { .. } => Ok(of),
            One::Flatten { axis, count } => {
                let end = axis.saturating_add(*count).min(of.shape().len());
                of.flattened((*axis).min(end)..end)
            }
            One::Unflatten { axis, sizes } => {
                let total = of.shape().get(*axis).copied().ok_or_else(unknown)?;
                of.unflattened(*axis, factors(sizes, total)?)
            }
            One::Reshape(before) => {
                let sizes = factors(before, of.count())?;
                of.reshaped(sizes)
            }
            One::Permute(axes) => of.permuted(axes),
            One::Squeeze(axis) => of.without_axis(*axis),
            One::Unsqueeze(axis) => of.with_axis(*axis),
            One::Apply(function) => of.mapped(*function),
        }
    }
}

fn factors(sizes: &[Option<u64>], total: u64) -> Result<Vec<u64>> {
    completed(
        sizes,
        total,
        |known, n| known.checked_mul(n),
        1,
        |known| total.checked_div(known).filter(|_| total.is_multiple_of(known)),
    )
}

/// Computes the one unknown size of several from the others.
fn completed(
    sizes: &[Option<u64>],
    total: u64,
    combine: impl Fn(u64, u64) -> Option<u64>,
    neutral: u64,
    rest: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<u64>> {
    if sizes.iter().filter(|size| size.is_none()).count() > 1 {
        return Err(unknown());
    }
    let mut known = sizes.iter().flatten().copied();
    let known = known.try_fold(neutral, combine).ok_or_else(unknown)?;
    let missing = rest(known)
        .ok_or_else(|| NO_INVERSE.broken(format!("the sizes {sizes:?} do not fit {total}")))?;
    Ok(sizes.iter().map(|size| size.unwrap_or(missing)).collect())
}

/// Follows one step.
fn followed(
    step: &Step,
    shapes: &[Shape],
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<(Option<Undo>, Vec<Shape>)> {
    let mut locals = locals.clone();
    let is_chosen = |at: usize| match &step.only {
        None => true,
        Some(only) => only.iter().any(|position| {
            let count = signed(shapes.len());
            *position == signed(at) || position.saturating_add(count) == signed(at)
        }),
    };
    let positions: Vec<usize> = (0..shapes.len()).filter(|at| is_chosen(*at)).collect();
    let first = positions.first().and_then(|at| shapes.get(*at)).ok_or_else(unknown)?;
    locals.set("shape", shape_value(first));
    if let Some(when) = &step.when
        && !scope.is_true(when, &locals)?
    {
        return Ok((None, shapes.to_vec()));
    }
    if let Operation::Concat(axis) | Operation::Stack(axis) = step.operation {
        let is_stack = matches!(step.operation, Operation::Stack(_));
        let rank = first.len().saturating_add(usize::from(is_stack));
        let axis = axis_of(axis, rank)?;
        let lengths: Vec<Option<u64>> = positions
            .iter()
            .map(|at| shapes.get(*at).and_then(|shape| shape.get(axis)).copied().flatten())
            .collect();
        let mut whole = first.clone();
        let undo = if is_stack {
            whole.insert(axis, Some(positions.len() as u64));
            Undo::Unstack { positions: positions.clone(), axis }
        } else {
            let sum = lengths.iter().copied().try_fold(0u64, |sum, n| sum.checked_add(n?));
            if let Some(n) = whole.get_mut(axis) {
                *n = sum;
            }
            Undo::Cut { positions: positions.clone(), axis, lengths }
        };
        let mut after: Vec<Shape> = Vec::new();
        for (at, shape) in shapes.iter().enumerate() {
            match positions.first() == Some(&at) {
                true => after.push(whole.clone()),
                false if positions.contains(&at) => {}
                false => after.push(shape.clone()),
            }
        }
        return Ok((Some(undo), after));
    }
    let (mut each, mut after) = (Vec::new(), Vec::new());
    for (at, shape) in shapes.iter().enumerate() {
        if !is_chosen(at) {
            each.push(One::Same);
            after.push(shape.clone());
            continue;
        }
        locals.set("shape", shape_value(shape));
        let (one, shapes) = single(&step.operation, shape, scope, &locals)?;
        each.push(one);
        after.extend(shapes);
    }
    Ok((Some(Undo::Each(each)), after))
}

/// Follows an operation on one tensor.
fn single(
    operation: &Operation,
    shape: &[Option<u64>],
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<(One, Vec<Shape>)> {
    let mut after = shape.to_vec();
    let one = match operation {
        Operation::Unflatten { axis, into } => {
            let axis = axis_of(*axis, shape.len())?;
            let sizes = sizes(into, shape.get(axis).copied().flatten(), scope, locals)?;
            let count = sizes.len();
            after.splice(axis..axis.saturating_add(1), sizes);
            One::Flatten { axis, count }
        }
        Operation::Flatten { axis, count } => {
            let axis = axis_of(*axis, shape.len())?;
            let count = usize::try_from(*count).map_err(|_| unknown())?;
            let end = axis.checked_add(count).filter(|end| *end <= shape.len());
            let end = end.ok_or_else(unknown)?;
            let sizes: Shape = after.splice(axis..end, []).collect();
            let product = sizes.iter().copied().try_fold(1u64, |n, d| n.checked_mul(d?));
            after.insert(axis, product);
            One::Unflatten { axis, sizes }
        }
        Operation::Reshape(into) => {
            let total = shape.iter().copied().try_fold(1u64, |n, d| n.checked_mul(d?));
            after = sizes(into, total, scope, locals)?;
            One::Reshape(shape.to_vec())
        }
        Operation::Permute(axes) => {
            let axes = axes.iter().map(|axis| axis_of(*axis, shape.len()));
            permutation(axes.collect::<Result<_>>()?, shape, &mut after)?
        }
        Operation::Transpose(a, b) => {
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            axes.swap(axis_of(*a, shape.len())?, axis_of(*b, shape.len())?);
            permutation(axes, shape, &mut after)?
        }
        Operation::Squeeze(axis) => {
            let axis = axis_of(*axis, shape.len())?;
            after.remove(axis);
            One::Unsqueeze(axis)
        }
        Operation::Unsqueeze(axis) => {
            let axis = axis_of(*axis, shape.len().saturating_add(1))?;
            after.insert(axis, Some(1));
            One::Squeeze(axis)
        }
        Operation::Split { axis, sizes: into } => {
            let axis = axis_of(*axis, shape.len())?;
            let mut parts = Vec::new();
            for size in into {
                let value = scope.value(size, locals)?.as_integer();
                let mut part = shape.to_vec();
                if let Some(n) = part.get_mut(axis) {
                    *n = value.and_then(|n| u64::try_from(n).ok());
                }
                parts.push(part);
            }
            return Ok((One::Join { axis, count: parts.len() }, parts));
        }
        Operation::Chunk { axis, count } => {
            let axis = axis_of(*axis, shape.len())?;
            let count = scope.whole(count, locals)?;
            let mut part = shape.to_vec();
            if let Some(n) = part.get_mut(axis) {
                *n = n.and_then(|n| n.checked_div(count));
            }
            let count =
                usize::try_from(count).ok().filter(|n| *n <= 1 << 14).ok_or_else(unknown)?;
            return Ok((One::Join { axis, count }, vec![part; count]));
        }
        Operation::Unstack(axis) => {
            let axis = axis_of(*axis, shape.len())?;
            let count = shape.get(axis).copied().flatten().and_then(|n| usize::try_from(n).ok());
            let count = count.filter(|n| *n <= 1 << 14).ok_or_else(unknown)?;
            after.remove(axis);
            return Ok((One::Stack { axis, count }, vec![after; count]));
        }
        Operation::Slice { start, .. } => {
            if scope.value(start, locals)? != Value::Integer(0) {
                return Err(NO_INVERSE.broken("`slice` cuts elements off, which are gone"));
            }
            // What was cut off at the end stays off.
            after.iter_mut().for_each(|n| *n = None);
            One::Same
        }
        Operation::Add(x) => One::Apply(Function::Add(-number(x, scope, locals)?)),
        Operation::Multiply(x) => {
            let x = number(x, scope, locals)?;
            if x == 0.0 {
                return Err(NO_INVERSE.broken("`multiply` by 0 has no inverse"));
            }
            One::Apply(Function::Multiply(1.0 / x))
        }
        Operation::NegExp => One::Apply(Function::LogNeg),
        Operation::Concat(_) | Operation::Stack(_) | Operation::Named(_) => One::Same,
    };
    Ok((one, vec![after]))
}

fn permutation(axes: Vec<usize>, shape: &[Option<u64>], after: &mut Shape) -> Result<One> {
    if axes.len() != shape.len() {
        return Err(unknown());
    }
    *after = axes.iter().map(|axis| shape.get(*axis).copied().flatten()).collect();
    let mut inverse = vec![0; axes.len()];
    for (to, from) in axes.iter().enumerate() {
        if let Some(slot) = inverse.get_mut(*from) {
            *slot = to;
        }
    }
    Ok(One::Permute(inverse))
}

fn sizes(
    all: &[Expression],
    total: Option<u64>,
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<Shape> {
    let mut out = Vec::new();
    for expression in all {
        let value = scope.value(expression, locals)?.as_integer();
        out.push(value.and_then(|n| u64::try_from(n).ok()));
    }
    match total {
        Some(total) if out.iter().filter(|size| size.is_none()).count() == 1 => {
            Ok(factors(&out, total)?.into_iter().map(Some).collect())
        }
        _ => Ok(out),
    }
}

fn number(of: &Expression, scope: &Scope<'_>, locals: &Locals) -> Result<f64> {
    scope.value(of, locals)?.as_f64().ok_or_else(unknown)
}

fn shape_value(shape: &[Option<u64>]) -> Value {
    let one = |n: &Option<u64>| n.map_or(Value::Null, |n| Value::Integer(n.into()));
    Value::Array(shape.iter().map(one).collect())
}

fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis.saturating_add(signed(rank)) } else { axis };
    usize::try_from(at).ok().filter(|at| *at < rank).ok_or_else(unknown)
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cold]
fn unknown() -> Error {
    NO_INVERSE
        .broken("the sizes of the tensors before the steps do not follow from those after them")
}
