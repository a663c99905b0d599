//! Described layouts: layouts whose meaning a description defines: the components, how they fit together, and how the
//! value of an element is computed from them.
//!
//! A description is a text, specified in `docs/spec/layouts.md`:
//!
//! ```toml
//! [layouts.quantized_4bit]
//! shape = ["rows", "columns"]
//! index = ["row", "column"]
//! value = "(data[row, column] - zero_point[row]) * scale[row]"
//!
//! [layouts.quantized_4bit.components]
//! data = { bits = 4, shape = ["rows", "columns"] }
//! scale = { read_as = "f32", shape = ["rows"] }
//! zero_point = { read_as = "f32", shape = ["rows"] }
//! ```
//!
//! Evaluating an expression always ends, with a number or an error, whatever the bytes are: expressions have no loops
//! and a bounded size, and a dense copy of the tensor may not exceed the limits.

mod compute;
mod description;
mod expression;
mod part;
#[cfg(feature = "layouts")]
mod read;

pub use description::{Description, Layouts};

use super::cast::{FloatType, Overflow, round_f64};
use super::dense::Dense;
use super::{DENSE_LIMIT, LENGTH, ROWS, WRONG_LAYOUT};
use crate::error::{Escape as _, Result, list};
use crate::limits::Limits;
use crate::model::{Attributes, LogicalType, Role, TensorInfo, Value, element_count};
use bytes::Bytes;
use compute::{Column, ElementIndices, Scope, nowhere};
use holdall_collections::DebugUnwrap;
use part::{Number, Operand, Stored};
use std::ops::Range;
use std::sync::Arc;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A description is invalid.
    pub DESCRIPTION: Malformed "layouts/description"
        "A description of layouts has only known keys, with values of the right types.";
    /// An expression is invalid.
    pub EXPRESSION: Malformed "layouts/expression"
        "An expression consists of numbers, names from its description and known operations, at most 256 of them.";
    /// A layout is described twice, or already has a meaning.
    pub TAKEN: Malformed "layouts/taken"
        "A layout is described only once, and only if it has no meaning yet.";
    /// A tensor does not fit the description of its layout.
    pub FIT: Malformed "layouts/fit"
        "A tensor of a described layout has the dimensions, attributes and components that the description requires.";
    /// This build does not support descriptions.
    pub NOT_BUILT: Unsupported "layouts/not-built"
        "Descriptions of layouts require a build with the feature `layouts`.";
    /// An element has no value.
    pub VALUE: Malformed "layouts/value"
        "Subscripts are in range, integers are below 2^63, and nothing is divided by zero.";
}

/// The number of elements that are computed at a time.
const STEP: usize = 4096;

/// A tensor of a described layout, which has the components and lengths that the description requires.
#[derive(Debug, Clone)]
pub struct Described {
    description: Arc<Description>,
    shape: Vec<u64>,
    count: u64,
    scope: Scope,
}

impl Described {
    /// Creates the view of a tensor whose layout `layouts` describes. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the layout is not described, the errors of `get`, [`FIT`] if the tensor does not fit
    /// the description, and [`DENSE_LIMIT`] if a dense copy would exceed the limits.
    pub fn from_tensor(
        info: &TensorInfo,
        layouts: &Layouts,
        limits: &Limits,
        get: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<Described> {
        let layout = info.layout().as_str();
        let Some(description) = layouts.get(layout) else {
            let layout = layout.escaped();
            return Err(WRONG_LAYOUT.broken(format!("the layout `{layout}` has no description")));
        };
        let described = Described::new(info, description.clone(), limits, get);
        described.map_err(|e| match e.code() {
            code if code == FIT.code => {
                e.within(format!("the description of `{}`", layout.escaped()))
            }
            _ => e,
        })
    }

    fn new(
        info: &TensorInfo,
        description: Arc<Description>,
        limits: &Limits,
        get: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<Described> {
        let shape = info.shape().to_vec();
        let count = element_count(&shape)
            .ok_or_else(|| LENGTH.broken(format!("shape {shape:?} exceeds 2^64 elements")))?;
        let most = limits.decoded_len;
        if count.checked_mul(description.dtype.dtype().width()).is_none_or(|len| len > most) {
            let message = format!(
                "{count} elements of {} exceed the limit of {most} bytes",
                description.dtype
            );
            return Err(DENSE_LIMIT.broken(message));
        }
        let whole = |n: u64| {
            let message = || FIT.broken(format!("shape {shape:?} exceeds 2^63"));
            i64::try_from(n).map_err(|_| message())
        };
        let dimensions = match &description.dimensions {
            None => Vec::new(),
            Some(names) if names.len() == shape.len() => {
                shape.iter().map(|d| whole(*d)).collect::<Result<_>>()?
            }
            Some(names) => {
                let message = format!("expected {} dimensions, found shape {shape:?}", names.len());
                return Err(FIT.broken(message));
            }
        };
        let mut scope = Scope { dimensions, count: whole(count)?, ..Scope::default() };
        for wanted in &description.attributes {
            let found = number_of(info.attributes(), &wanted.name)?.or(wanted.default);
            let missing = || FIT.broken(format!("missing attribute `{}`", wanted.name.escaped()));
            scope.attributes.push(found.ok_or_else(missing)?);
        }
        scope.tables.clone_from(&description.tables);
        let known = |role: &Role| description.components.iter().any(|c| c.role == *role);
        if let Some(c) = info.components().find(|c| !known(&c.role)) {
            let role = c.role.as_str().escaped();
            return Err(FIT.broken(format!("unexpected component `{role}`")).in_component(&c.role));
        }
        for wanted in &description.components {
            let part = component(info, wanted, &scope, &get);
            scope.components.push(part.map_err(|e| e.in_component(&wanted.role))?);
        }
        Ok(Described { description, shape, count, scope })
    }

    /// Returns the dimensions, in elements.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of elements: the product of the shape.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> FloatType {
        self.description.dtype
    }

    /// Computes the elements in the range `elements` of the row-major order, and appends them to `out` as little-endian
    /// elements of [`Described::dtype`]. Each is computed in `f64` and rounded once.
    ///
    /// # Errors
    /// Returns [`ROWS`] if the range is outside the tensor, and [`VALUE`] if an element has no value.
    pub fn elements(&self, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        if elements.start > elements.end || elements.end > self.count {
            let (start, end) = (elements.start, elements.end);
            return Err(
                ROWS.broken(format!("elements {start}..{end} are outside 0..{}", self.count))
            );
        }
        let mut first = elements.start;
        while first < elements.end {
            let len = usize::try_from(elements.end - first).unwrap_or(STEP).min(STEP);
            let values = self.scope.compute(&self.description.value, &self.indices(first, len))?;
            round_f64(&values.into_reals(), self.dtype(), Overflow::Infinite, out);
            first += len as u64;
        }
        Ok(())
    }

    /// Computes every element, without keeping them.
    ///
    /// # Errors
    /// Returns [`VALUE`] if an element has no value.
    pub fn check(&self) -> Result<()> {
        let mut out = Vec::new();
        let mut first = 0;
        while first < self.count {
            let end = self.count.min(first.saturating_add(STEP as u64));
            out.clear();
            self.elements(first..end, &mut out)?;
            first = end;
        }
        Ok(())
    }

    /// Converts the tensor to a dense one.
    ///
    /// # Errors
    /// Returns [`VALUE`] if an element has no value, and [`DENSE_LIMIT`] if there is not enough memory.
    pub fn to_dense(&self) -> Result<Dense> {
        let dtype = self.dtype();
        // The limit was checked in `new`.
        let len = usize::try_from(self.count.saturating_mul(dtype.dtype().width()));
        let mut out = Vec::new();
        if len.is_err() || out.try_reserve_exact(len.unwrap_or(0)).is_err() {
            let message = format!("not enough memory for {} elements", self.count);
            return Err(DENSE_LIMIT.broken(message));
        }
        self.elements(0..self.count, &mut out)?;
        Ok(Dense::new(dtype.dtype(), dtype.logical_type(), self.shape.clone(), out))
    }

    /// Returns the indices of `len` elements, starting at the row-major index `first`.
    fn indices(&self, first: u64, len: usize) -> ElementIndices {
        if self.description.dimensions.is_none() {
            // The count is below 2^63.
            let all = (first..first.saturating_add(len as u64)).map(|at| at as i64).collect();
            return ElementIndices { first, len, indices: vec![all] };
        }
        let mut indices = vec![Vec::with_capacity(len); self.shape.len()];
        let mut at: Vec<u64> = vec![0; self.shape.len()];
        let mut rest = first;
        for (place, size) in at.iter_mut().zip(&self.shape).rev() {
            *place = rest.checked_rem(*size).debug_unwrap();
            rest = rest.checked_div(*size).debug_unwrap();
        }
        for _ in 0..len {
            for (all, place) in indices.iter_mut().zip(&at) {
                all.push(*place as i64);
            }
            for (place, size) in at.iter_mut().zip(&self.shape).rev() {
                *place += 1;
                if *place < *size {
                    break;
                }
                *place = 0;
            }
        }
        ElementIndices { first, len, indices }
    }
}

/// Returns the elements of a component, or its default if it is missing.
fn component(
    info: &TensorInfo,
    wanted: &description::Component,
    scope: &Scope,
    get: &impl Fn(&Role) -> Result<Bytes>,
) -> Result<Operand> {
    let name = wanted.role.as_str();
    let mut shape = Vec::new();
    for (number, size) in wanted.shape.iter().enumerate() {
        let found = scope.compute(size, &nowhere()).map_err(|e| e.with_rule(&FIT))?;
        match found {
            Column::Whole(all) if all.first().is_some_and(|n| *n >= 0) => shape.extend(all),
            _ => {
                let message = format!(
                    "dimension {number} of the component's shape is not a non-negative whole number"
                );
                return Err(FIT.broken(message));
            }
        }
    }
    let Some(c) = info.component(&wanted.role) else {
        return match wanted.default {
            Some(number) => Ok(Operand::same(name, shape, number)),
            None => Err(FIT.broken(format!("missing component `{}`", name.escaped()))),
        };
    };
    if !wanted.dtypes.is_empty() && !wanted.dtypes.contains(&c.dtype) {
        let known = list(wanted.dtypes.iter().map(|d| d.as_str()));
        return Err(FIT.broken(format!("the elements are {}, expected {known}", c.dtype)));
    }
    let stored = match &wanted.stored {
        Some(stored) => stored.clone(),
        None => Stored::Typed(c.dtype, c.logical_type.clone()),
    };
    if let Stored::Typed(_, Some(LogicalType::Other(name))) = &stored {
        return Err(FIT.broken(format!("unknown logical type `{}`", name.escaped())));
    }
    Operand::new(name, shape, &stored, c.dtype.width(), get(&wanted.role)?)
}

/// Returns the value of a numeric attribute. Numbers may be stored as text, because some formats have only text
/// attributes.
fn number_of(attributes: &Attributes, key: &str) -> Result<Option<Number>> {
    let found = match attributes.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Bool(is)) => Some(Number::Whole(i64::from(*is))),
        Some(Value::Integer(n)) => i64::try_from(*n).ok().map(Number::Whole),
        Some(Value::Float(x)) => Some(Number::Real(*x)),
        Some(Value::Text(text)) => {
            let whole = text.parse().ok().map(Number::Whole);
            whole.or_else(|| text.parse().ok().map(Number::Real))
        }
        Some(_) => None,
    };
    let not = || FIT.broken(format!("the attribute `{}` is not a number", key.escaped()));
    found.ok_or_else(not).map(Some)
}
