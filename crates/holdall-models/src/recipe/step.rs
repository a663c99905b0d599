//! The steps of a rule: operations on the shapes and elements of tensors.

use super::evaluate::{Locals, Scope};
use super::expression::Expression;
use super::node::Function;
use super::stepped::Stepped;
use super::text::Table;
use super::{SHAPE, TEXT};
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::Value;

/// The maximum number of tensors between two steps.
const MAX_TENSORS: usize = 1 << 14;

/// A step, and the tensors that it applies to.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) operation: Operation,
    /// The positions of the tensors among those of the step before; all of them if `None`.
    pub(super) only: Option<Vec<i64>>,
    pub(super) when: Option<Expression>,
}

/// An operation on one or several tensors.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// Splits an axis into several.
    Unflatten {
        axis: i64,
        into: Vec<Expression>,
    },
    /// Makes one axis of several.
    Flatten {
        axis: i64,
        count: i64,
    },
    Reshape(Vec<Expression>),
    Permute(Vec<i64>),
    Transpose(i64, i64),
    /// Cuts a tensor into several along an axis.
    Split {
        axis: i64,
        sizes: Vec<Expression>,
    },
    /// Cuts a tensor into equal parts along an axis.
    Chunk {
        axis: i64,
        count: Expression,
    },
    /// Cuts a tensor into its items along an axis, which they lack.
    Unstack(i64),
    Concat(i64),
    Stack(i64),
    Slice {
        axis: i64,
        start: Expression,
        end: Expression,
    },
    Squeeze(i64),
    Unsqueeze(i64),
    Add(Expression),
    Multiply(Expression),
    NegExp,
    /// The steps with this name.
    Named(String),
}

/// Reads a list of steps.
///
/// # Errors
/// Returns [`TEXT`] if a step is invalid.
pub(super) fn read(all: Vec<Table<'_>>) -> Result<Vec<Step>> {
    all.into_iter().map(one).collect()
}

fn one(mut table: Table<'_>) -> Result<Step> {
    let only = table.take("only").map(|e| e.integers()).transpose()?;
    let when = table.take_expression("when")?;
    let axis = table.take("axis").map(|e| e.integer()).transpose()?;
    let at = axis.unwrap_or(0);
    let names = [
        "unflatten",
        "flatten",
        "reshape",
        "permute",
        "transpose",
        "split",
        "chunk",
        "unstack",
        "concat",
        "stack",
        "slice",
        "squeeze",
        "unsqueeze",
        "add",
        "multiply",
        "apply",
        "steps",
    ];
    let found = names.iter().find_map(|name| Some((*name, table.take(name)?)));
    let Some((name, e)) = found else {
        return Err(table.wrong(&format!("expected one of {}", names.join(", "))));
    };
    let takes_axis = matches!(name, "unflatten" | "flatten" | "split" | "chunk" | "slice");
    if axis.is_some() && !takes_axis {
        return Err(e.wrong("has no `axis`: its value is the axis"));
    }
    let operation = match name {
        "unflatten" => Operation::Unflatten { axis: at, into: e.expressions()? },
        "flatten" => Operation::Flatten { axis: at, count: e.integer()? },
        "reshape" => Operation::Reshape(e.expressions()?),
        "permute" => Operation::Permute(e.integers()?),
        "transpose" => match e.integers()?.as_slice() {
            [a, b] => Operation::Transpose(*a, *b),
            _ => return Err(e.wrong("expected two axes")),
        },
        "split" => Operation::Split { axis: at, sizes: e.expressions()? },
        "chunk" => Operation::Chunk { axis: at, count: e.expression()? },
        "unstack" => Operation::Unstack(e.integer()?),
        "concat" => Operation::Concat(e.integer()?),
        "stack" => Operation::Stack(e.integer()?),
        "slice" => match <[Expression; 2]>::try_from(e.expressions()?) {
            Ok([start, end]) => Operation::Slice { axis: at, start, end },
            Err(_) => return Err(e.wrong("expected the start and the end")),
        },
        "squeeze" => Operation::Squeeze(e.integer()?),
        "unsqueeze" => Operation::Unsqueeze(e.integer()?),
        "add" => Operation::Add(e.expression()?),
        "multiply" => Operation::Multiply(e.expression()?),
        "apply" => match e.text()? {
            "neg_exp" => Operation::NegExp,
            other => {
                let message = format!("`{}` is not a function; known is neg_exp", other.escaped());
                return Err(e.wrong(&message));
            }
        },
        _ => Operation::Named(e.text()?.to_owned()),
    };
    table.finish()?;
    Ok(Step { operation, only, when })
}

/// Replaces steps that are named by those that have the name.
///
/// # Errors
/// Returns [`TEXT`] if a name is unknown, or the names go in circles.
pub(super) fn resolved(
    steps: &[Step],
    named: &dyn Fn(&str) -> Option<Vec<Step>>,
    depth: usize,
) -> Result<Vec<Step>> {
    let mut out = Vec::new();
    for step in steps {
        let Operation::Named(name) = &step.operation else {
            out.push(step.clone());
            continue;
        };
        if step.only.is_some() || step.when.is_some() {
            let message = format!("`steps = \"{}\"` has no `only` and no `when`", name.escaped());
            return Err(TEXT.broken(message));
        }
        let inner = named(name)
            .filter(|_| depth < 8)
            .ok_or_else(|| TEXT.broken(format!("no steps named `{}`", name.escaped())))?;
        out.extend(resolved(&inner, named, depth.saturating_add(1))?);
    }
    Ok(out)
}

/// Applies steps to tensors.
///
/// # Errors
/// Returns [`SHAPE`] if a step does not fit the shapes, and the errors of expressions.
pub(super) fn apply<S: Stepped>(
    steps: &[Step],
    mut all: Vec<S>,
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<Vec<S>> {
    for (number, step) in steps.iter().enumerate() {
        let shape = all.first().map(|first| first.shape().to_vec()).unwrap_or_default();
        all = apply_one(step, all, scope, locals).map_err(|e| {
            let number = number.saturating_add(1);
            e.within(format!("step {number}, on a tensor of shape {shape:?}"))
        })?;
        if all.len() > MAX_TENSORS {
            let found = all.len();
            return Err(SHAPE.broken(format!("{found} tensors, expected at most {MAX_TENSORS}")));
        }
    }
    Ok(all)
}

fn apply_one<S: Stepped>(
    step: &Step,
    all: Vec<S>,
    scope: &Scope<'_>,
    locals: &Locals,
) -> Result<Vec<S>> {
    let mut locals = locals.clone();
    let count = all.len();
    let chosen = |at: usize| match &step.only {
        None => true,
        Some(only) => {
            let from_end = i64::try_from(at).ok().zip(i64::try_from(count).ok());
            from_end.is_some_and(|(at, count)| {
                only.contains(&at) || only.contains(&at.saturating_sub(count))
            })
        }
    };
    let first = all.iter().enumerate().find(|(at, _)| chosen(*at)).map(|(_, one)| one);
    let Some(first) = first else { return Err(SHAPE.broken("no tensor for the step")) };
    locals.set("shape", shape_value(first.shape()));
    if let Some(when) = &step.when
        && !scope.is_true(when, &locals)?
    {
        return Ok(all);
    }
    let mut out = Vec::with_capacity(all.len());
    if let Operation::Concat(axis) | Operation::Stack(axis) = step.operation {
        // The result takes the position of the first tensor.
        let mut parts = Vec::new();
        let mut position = None;
        for (at, tensor) in all.into_iter().enumerate() {
            match chosen(at) {
                true => {
                    position = position.or(Some(out.len()));
                    parts.push(tensor);
                }
                false => out.push(tensor),
            }
        }
        let one = match step.operation {
            Operation::Stack(_) => S::stacked(parts, axis)?,
            _ => S::joined(parts, axis)?,
        };
        out.insert(position.unwrap_or(0).min(out.len()), one);
        return Ok(out);
    }
    for (at, tensor) in all.into_iter().enumerate() {
        match chosen(at) {
            true => {
                locals.set("shape", shape_value(tensor.shape()));
                out.extend(step.operation.on(tensor, scope, &locals)?);
                locals.0.pop();
            }
            false => out.push(tensor),
        }
    }
    Ok(out)
}

fn shape_value(shape: &[u64]) -> Value {
    Value::Array(shape.iter().map(|n| Value::Integer((*n).into())).collect())
}

impl Operation {
    /// Applies an operation on one tensor.
    fn on<S: Stepped>(&self, of: S, scope: &Scope<'_>, locals: &Locals) -> Result<Vec<S>> {
        Ok(vec![match self {
            Operation::Unflatten { axis, into } => {
                let axis = of.axis(*axis)?;
                let total = of.shape().get(axis).copied().unwrap_or(1);
                of.unflattened(axis, sizes(into, total, scope, locals)?)?
            }
            Operation::Flatten { axis, count } => {
                let axis = of.axis(*axis)?;
                let end = usize::try_from(*count).ok().and_then(|n| axis.checked_add(n));
                let Some(end) = end.filter(|end| axis < *end && *end <= of.shape().len()) else {
                    let message = format!("no {count} axes from {axis} on in {:?}", of.shape());
                    return Err(SHAPE.broken(message));
                };
                of.flattened(axis..end)?
            }
            Operation::Reshape(into) => {
                let total = of.count();
                let shape = sizes(into, total, scope, locals)?;
                of.reshaped(shape)?
            }
            Operation::Permute(axes) => {
                let axes: Result<Vec<usize>> = axes.iter().map(|axis| of.axis(*axis)).collect();
                of.permuted(&axes?)?
            }
            Operation::Transpose(a, b) => {
                let (a, b) = (of.axis(*a)?, of.axis(*b)?);
                let mut axes: Vec<usize> = (0..of.shape().len()).collect();
                axes.swap(a, b);
                of.permuted(&axes)?
            }
            Operation::Split { axis, sizes: into } => {
                let axis = of.axis(*axis)?;
                let total = of.shape().get(axis).copied().unwrap_or(1);
                let sizes = parts(into, total, scope, locals)?;
                return cut(&of, axis, &sizes);
            }
            Operation::Chunk { axis, count } => {
                let axis = of.axis(*axis)?;
                let total = of.shape().get(axis).copied().unwrap_or(1);
                let count = scope.whole(count, locals)?;
                let size = total.checked_div(count).filter(|_| total.is_multiple_of(count));
                let (Some(size), Ok(count)) = (size, usize::try_from(count)) else {
                    let message = format!("{total} cannot be cut into {count} equal parts");
                    return Err(SHAPE.broken(message));
                };
                if count > MAX_TENSORS {
                    return Err(SHAPE.broken(format!("{count} parts, at most {MAX_TENSORS}")));
                }
                return cut(&of, axis, &vec![size; count]);
            }
            Operation::Unstack(axis) => {
                let axis = of.axis(*axis)?;
                let total = of.shape().get(axis).copied().unwrap_or(1);
                let count = usize::try_from(total).ok().filter(|n| *n <= MAX_TENSORS);
                let Some(count) = count else {
                    return Err(SHAPE.broken(format!("{total} parts, at most {MAX_TENSORS}")));
                };
                let all = cut(&of, axis, &vec![1; count])?;
                return all.into_iter().map(|part| part.without_axis(axis)).collect();
            }
            Operation::Slice { axis, start, end } => {
                let axis = of.axis(*axis)?;
                let start = scope.whole(start, locals)?;
                let end = match scope.value(end, locals)? {
                    Value::Null => of.shape().get(axis).copied().unwrap_or(1),
                    _ => scope.whole(end, locals)?,
                };
                of.sliced(axis, start, end)?
            }
            Operation::Squeeze(axis) => {
                let axis = of.axis(*axis)?;
                of.without_axis(axis)?
            }
            Operation::Unsqueeze(axis) => {
                let rank = i64::try_from(of.shape().len()).unwrap_or(i64::MAX);
                let at =
                    if *axis < 0 { axis.saturating_add(rank).saturating_add(1) } else { *axis };
                let at = usize::try_from(at).ok().filter(|at| *at <= of.shape().len());
                let Some(at) = at else {
                    return Err(SHAPE.broken(format!("no axis {axis} for {:?}", of.shape())));
                };
                of.with_axis(at)?
            }
            Operation::Add(x) => of.mapped(Function::Add(number(x, scope, locals)?))?,
            Operation::Multiply(x) => of.mapped(Function::Multiply(number(x, scope, locals)?))?,
            Operation::NegExp => of.mapped(Function::NegExp)?,
            Operation::Concat(_) | Operation::Stack(_) | Operation::Named(_) => of,
        }])
    }
}

fn number(of: &Expression, scope: &Scope<'_>, locals: &Locals) -> Result<f64> {
    let value = scope.value(of, locals)?;
    value.as_f64().ok_or_else(|| {
        SHAPE.broken(format!("expected a number, found {}", value.to_json().escaped()))
    })
}

fn cut<S: Stepped>(of: &S, axis: usize, sizes: &[u64]) -> Result<Vec<S>> {
    let mut start = 0u64;
    let mut out = Vec::with_capacity(sizes.len());
    for size in sizes {
        let end = start.saturating_add(*size);
        out.push(of.clone().sliced(axis, start, end)?);
        start = end;
    }
    Ok(out)
}

/// Evaluates dimensions whose product is `total`, of which one may be -1.
fn sizes(all: &[Expression], total: u64, scope: &Scope<'_>, locals: &Locals) -> Result<Vec<u64>> {
    let product = |known: u64, n: u64| known.checked_mul(n);
    completed(all, scope, locals, 1, product, |known| {
        total.checked_div(known).filter(|_| total.is_multiple_of(known))
    })
    .map_err(|e| e.within(format!("for {total} elements")))
}

/// Evaluates lengths whose sum is `total`, of which one may be -1.
fn parts(all: &[Expression], total: u64, scope: &Scope<'_>, locals: &Locals) -> Result<Vec<u64>> {
    let sum = |known: u64, n: u64| known.checked_add(n);
    let sizes = completed(all, scope, locals, 0, sum, |known| total.checked_sub(known))?;
    let found = sizes.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
    match found == Some(total) {
        true => Ok(sizes),
        false => Err(SHAPE.broken(format!("parts of {sizes:?} are not {total} together"))),
    }
}

/// Evaluates numbers, and computes the one that is -1 from the others.
fn completed(
    all: &[Expression],
    scope: &Scope<'_>,
    locals: &Locals,
    neutral: u64,
    combine: impl Fn(u64, u64) -> Option<u64>,
    rest: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<u64>> {
    let (mut known, mut open, mut out) = (neutral, None, Vec::with_capacity(all.len()));
    for (at, expression) in all.iter().enumerate() {
        let value = scope.value(expression, locals)?;
        if value == Value::Integer(-1) && open.is_none() {
            open = Some(at);
            out.push(0);
            continue;
        }
        let size = scope.whole(expression, locals)?;
        let all = combine(known, size);
        known = all.ok_or_else(|| SHAPE.broken("the dimensions are too large"))?;
        out.push(size);
    }
    if let Some(slot) = open.and_then(|at| out.get_mut(at)) {
        *slot = rest(known)
            .ok_or_else(|| SHAPE.broken(format!("the others, {known} together, do not fit")))?;
    }
    Ok(out)
}
