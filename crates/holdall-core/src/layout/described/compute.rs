//! Evaluation of expressions for many elements at a time.
//!
//! Whole numbers are `i64`, and an overflow is an error. Other numbers are `f64` with the rules of IEEE 754. Every
//! operation is exact or rounded once, with the same result on every machine.

use super::VALUE;
use super::expression::{Expression, Function, Indexed, Operator};
use super::part::{Number, Operand};
use crate::error::{Error, Result};
use holdall_collections::DebugUnwrap;

/// The values of the names in an expression.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) dimensions: Vec<i64>,
    pub(super) count: i64,
    pub(super) attributes: Vec<Number>,
    pub(super) components: Vec<Operand>,
    pub(super) tables: Vec<Operand>,
}

/// The elements whose values are computed.
#[derive(Debug, Default)]
pub(super) struct ElementIndices {
    /// The row-major index of the first element.
    pub(super) first: u64,
    /// The number of elements.
    pub(super) len: usize,
    /// For each dimension, the index of each element in it.
    pub(super) indices: Vec<Vec<i64>>,
}

/// A value for each element.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Column {
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

impl Column {
    fn new(number: Number, len: usize) -> Column {
        match number {
            Number::Whole(n) => Column::Whole(vec![n; len]),
            Number::Real(x) => Column::Real(vec![x; len]),
        }
    }

    /// Converts the values to `f64`; whole numbers beyond 2^53 are rounded.
    pub(super) fn into_reals(self) -> Vec<f64> {
        match self {
            Column::Whole(all) => all.into_iter().map(|n| n as f64).collect(),
            Column::Real(all) => all,
        }
    }
}

impl Scope {
    /// Computes the value of the expression for each of `indices`.
    ///
    /// # Errors
    /// Returns [`VALUE`] for the first element that has no value.
    pub(super) fn compute(
        &self,
        expression: &Expression,
        indices: &ElementIndices,
    ) -> Result<Column> {
        let one = |n: i64| Ok(Column::new(Number::Whole(n), indices.len));
        match expression {
            Expression::Whole(n) => one(*n),
            Expression::Real(x) => Ok(Column::new(Number::Real(*x), indices.len)),
            Expression::Index(at) => {
                let all = indices.indices.get(*at).cloned();
                Ok(Column::Whole(all.unwrap_or_else(|| vec![0; indices.len])))
            }
            Expression::Dimension(at) => one(self.dimensions.get(*at).copied().debug_unwrap()),
            Expression::Count => one(self.count),
            Expression::Attribute(at) => {
                let number = self.attributes.get(*at).copied().unwrap_or(Number::Whole(0));
                Ok(Column::new(number, indices.len))
            }
            Expression::Item(items, subscripts) => self.items(*items, subscripts, indices),
            Expression::Call(function, arguments) => {
                let all = arguments.iter().map(|a| self.compute(a, indices));
                call(*function, all.collect::<Result<Vec<_>>>()?, indices)
            }
            Expression::Binary(operator, both) => {
                let [left, right] = &**both;
                let (left, right) = (self.compute(left, indices)?, self.compute(right, indices)?);
                binary(*operator, left, right, indices)
            }
            Expression::Negate(operand) => match self.compute(operand, indices)? {
                Column::Real(all) => Ok(Column::Real(all.into_iter().map(|x| -x).collect())),
                Column::Whole(all) => whole(all.into_iter(), indices, i64::checked_neg, || {
                    "the negated number".to_owned()
                }),
            },
        }
    }

    fn items(
        &self,
        indexed: Indexed,
        subscripts: &[Expression],
        indices: &ElementIndices,
    ) -> Result<Column> {
        let part = match indexed {
            Indexed::Component(at) => self.components.get(at),
            Indexed::Table(at) => self.tables.get(at),
        };
        let Some(part) = part else { return Ok(Column::Whole(vec![0; indices.len])) };
        let mut at = vec![0i64; indices.len];
        for (number, (subscript, &len)) in subscripts.iter().zip(part.shape()).enumerate() {
            let Column::Whole(all) = self.compute(subscript, indices)? else {
                let name = part.name();
                let message = format!("subscript {number} of `{name}` must be a whole number");
                return Err(VALUE.broken(message));
            };
            for (element, (place, found)) in at.iter_mut().zip(all).enumerate() {
                if found < 0 || found >= len {
                    let name = part.name();
                    return Err(at_element(
                        indices,
                        element,
                        format!("subscript {number} of `{name}` is {found}, outside 0..{len}"),
                    ));
                }
                // Less than the product of the shape, which is a length in memory.
                *place = place.wrapping_mul(len).wrapping_add(found);
            }
        }
        part.take(&at).map_err(|(element, message)| at_element(indices, element, message))
    }
}

/// Returns a single element, for an expression without positions.
pub(super) fn nowhere() -> ElementIndices {
    ElementIndices { first: 0, len: 1, indices: Vec::new() }
}

#[cold]
fn at_element(indices: &ElementIndices, at: usize, message: String) -> Error {
    let element = indices.first.saturating_add(at as u64);
    VALUE.broken(message).within(format!("element {element}"))
}

/// Maps each value to a whole number, or returns an error for the first that has none.
fn whole<T: Copy>(
    all: impl Iterator<Item = T>,
    indices: &ElementIndices,
    each: impl Fn(T) -> Option<i64>,
    what: impl Fn() -> String,
) -> Result<Column> {
    let mut out = Vec::with_capacity(indices.len);
    for (at, x) in all.enumerate() {
        match each(x) {
            Some(n) => out.push(n),
            None => {
                let message = format!("{} is not a whole number below 2^63", what());
                return Err(at_element(indices, at, message));
            }
        }
    }
    Ok(Column::Whole(out))
}

fn binary(operator: Operator, a: Column, b: Column, indices: &ElementIndices) -> Result<Column> {
    let (a, b) = match (operator, a, b) {
        (Operator::Divide, a, b) => (Column::Real(a.into_reals()), b),
        (_, a, b) => (a, b),
    };
    if let (Column::Whole(a), Column::Whole(b)) = (&a, &b) {
        let each: fn((i64, i64)) -> Option<i64> = match operator {
            Operator::Or => |(a, b)| Some(a | b),
            Operator::And => |(a, b)| Some(a & b),
            Operator::ShiftLeft => |(a, b)| {
                let by = u32::try_from(b).ok().filter(|by| *by < 64)?;
                // No set bit may be shifted out.
                a.checked_shl(by).filter(|out| out >> by == a)
            },
            Operator::ShiftRight => |(a, b)| a.checked_shr(u32::try_from(b).ok()?),
            Operator::Add => |(a, b)| a.checked_add(b),
            Operator::Subtract => |(a, b)| a.checked_sub(b),
            Operator::Multiply => |(a, b)| a.checked_mul(b),
            Operator::FloorDivide => |(a, b)| {
                let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
                if rest != 0 && (rest < 0) != (b < 0) {
                    quotient.checked_sub(1)
                } else {
                    Some(quotient)
                }
            },
            Operator::Remainder => |(a, b)| {
                let rest = a.checked_rem(b)?;
                if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
            },
            Operator::Divide => |_| None,
        };
        let both = a.iter().copied().zip(b.iter().copied());
        return whole(both, indices, each, || format!("the result of `{}`", operator.as_str()));
    }
    let each: fn(f64, f64) -> f64 = match operator {
        Operator::Add => |a, b| a + b,
        Operator::Subtract => |a, b| a - b,
        Operator::Multiply => |a, b| a * b,
        Operator::Divide => |a, b| a / b,
        other => {
            let message = format!("`{}` requires whole numbers", other.as_str());
            return Err(VALUE.broken(message));
        }
    };
    let (mut a, b) = (a.into_reals(), b.into_reals());
    a.iter_mut().zip(b).for_each(|(a, b)| *a = each(*a, b));
    Ok(Column::Real(a))
}

fn call(function: Function, arguments: Vec<Column>, indices: &ElementIndices) -> Result<Column> {
    let mut arguments = arguments.into_iter();
    let (first, second) = (arguments.next(), arguments.next());
    let first = first.unwrap_or(Column::Whole(Vec::new()));
    match (function, first, second) {
        (Function::Abs, Column::Whole(all), _) => {
            whole(all.into_iter(), indices, i64::checked_abs, || {
                format!("the result of `{}`", function.as_str())
            })
        }
        (Function::Abs, Column::Real(all), _) => {
            Ok(Column::Real(all.into_iter().map(f64::abs).collect()))
        }
        (Function::Exp2, Column::Whole(all), _) => {
            Ok(Column::Real(all.into_iter().map(power_of_two).collect()))
        }
        (Function::Exp2, Column::Real(_), _) => {
            Err(VALUE.broken(format!("`{}` requires whole numbers", function.as_str())))
        }
        (Function::Min, Column::Whole(a), Some(Column::Whole(b))) => {
            Ok(Column::Whole(a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect()))
        }
        (Function::Max, Column::Whole(a), Some(Column::Whole(b))) => {
            Ok(Column::Whole(a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect()))
        }
        (_, a, b) => {
            let b = b.unwrap_or(Column::Real(Vec::new())).into_reals();
            // NaN if either is NaN, because then neither is less.
            let pick = |(a, b): (f64, f64)| match function {
                _ if a.is_nan() || b.is_nan() => f64::NAN,
                Function::Min if a == b => {
                    if a.is_sign_negative() {
                        a
                    } else {
                        b
                    }
                }
                Function::Min => {
                    if a < b {
                        a
                    } else {
                        b
                    }
                }
                _ if a == b => {
                    if a.is_sign_negative() {
                        b
                    } else {
                        a
                    }
                }
                _ => {
                    if a > b {
                        a
                    } else {
                        b
                    }
                }
            };
            Ok(Column::Real(a.into_reals().into_iter().zip(b).map(pick).collect()))
        }
    }
}

/// Returns 2^n, exact if an `f64` can represent it; infinite above, 0 below.
fn power_of_two(n: i64) -> f64 {
    match n {
        -1022..=1023 => f64::from_bits(n.saturating_add(1023).unsigned_abs() << 52),
        -1074..=-1023 => f64::from_bits(1 << n.saturating_add(1074).unsigned_abs()),
        n if n > 0 => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression::{Name, parse};
    use super::*;

    fn value(text: &str) -> Result<Column> {
        let resolve = |name: &str| (name == "k").then_some(Name::Index(0));
        let expression = parse(text, &resolve)?;
        let indices = ElementIndices { first: 0, len: 1, indices: vec![vec![7]] };
        Scope::default().compute(&expression, &indices)
    }

    #[track_caller]
    fn is(text: &str, expected: Column) {
        assert_eq!(value(text).map_err(|e| e.to_string()), Ok(expected), "{text}");
    }

    #[test]
    fn operators_bind_as_in_other_languages() {
        for (text, n) in [
            ("2 + 3 * 4", 14),
            ("(2 + 3) * 4", 20),
            ("10 - 4 - 3", 3),
            ("-7 // 2", -4),
            ("-7 % 4", 1),
            ("7 % -4", -1),
            ("1 << 4 | 3 & 6", 18),
            ("1 << 2 + 1", 8),
            ("k % 2 * 4", 4),
            ("--3", 3),
            ("min(3, -4) + max(1, 2)", -2),
            ("abs(-9) >> 1", 4),
            ("9223372036854775807", i64::MAX),
        ] {
            is(text, Column::Whole(vec![n]));
        }
        for (text, x) in [
            ("1 / 4", 0.25),
            ("1 / 0", f64::INFINITY),
            ("0.5 + k", 7.5),
            ("exp2(-3) * 2", 0.25),
            ("exp2(-1074)", f64::from_bits(1)),
            ("exp2(-1075)", 0.0),
            ("exp2(-1022)", f64::MIN_POSITIVE),
            ("exp2(1023) * 2", f64::INFINITY),
            ("min(1.5, 2) - 1e1", -8.5),
            ("-0.0", -0.0),
        ] {
            is(text, Column::Real(vec![x]));
        }
    }

    #[test]
    fn undefined_results_are_errors() {
        for text in [
            "1 // 0",
            "1 % 0",
            "9223372036854775807 + 1",
            "1 << 63",
            "1 << 64",
            "1 >> 64",
            "1 << -1",
            "-(0 - 9223372036854775807 - 1)",
            "1.5 // 2",
            "1 & 2.0",
            "exp2(0.5)",
        ] {
            assert_eq!(value(text).expect_err(text).code(), "layouts/value", "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_errors() {
        let deep = format!("{}1{}", "(".repeat(40), ")".repeat(40));
        let signs = format!("{}1", "-".repeat(40));
        let long = vec!["1"; 300].join("+");
        for text in [
            "",
            "1 +",
            "(1",
            "1)",
            "1 2",
            "x",
            "k[0]",
            "min(1)",
            "min 1",
            "1..2",
            "1e999",
            "0x10",
            "99999999999999999999",
            "k $ 1",
            "é",
            &deep,
            &signs,
            &long,
        ] {
            assert_eq!(value(text).expect_err(text).code(), "layouts/expression", "{text}");
        }
    }
}
