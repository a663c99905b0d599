//! Checks values against the declared inputs and outputs.
//!
//! [`CallChecker`] checks the inputs and the outputs of one call of a model: missing and unknown values, element
//! types, shapes. A symbol means one size, or one whole shape, in all its uses in the call; `*` means any.
//!
//! # Nested values
//! Dimension 0 is the number of inner tensors, and the further dimensions are those of the inner tensors: a
//! size or a symbol must hold for each of them. An empty nested tensor has no type and no further dimensions
//! to check.

use crate::{DimSpec, ShapeSpec, TensorValue, ValueSpec};
use holdall_core::error::{Error, Escape as _, Rule, list};
use std::collections::BTreeMap;

holdall_core::error::rules! {
    /// The rules of values, inputs and outputs.
    pub static RULES;

    /// There are more values than declared inputs.
    pub POSITION: Misuse "signature/position"
        "There are as many inputs without names as the model declares, in its order.";

    /// A declared input is missing.
    pub INPUT_MISSING: Misuse "signature/input-missing"
        "Every input that a model declares is given.";
    /// An input is not declared, or is given twice.
    pub INPUT_UNKNOWN: Misuse "signature/input-unknown"
        "An input that is given is declared by the model, and given once.";
    /// The elements of an input do not have the declared type.
    pub INPUT_TYPE: Misuse "signature/input-type"
        "An input has the declared type.";
    /// An input does not have the declared number of dimensions.
    pub INPUT_RANK: Misuse "signature/input-rank"
        "An input has as many dimensions as are declared.";
    /// A dimension of an input does not have the declared size.
    pub INPUT_SIZE: Misuse "signature/input-size"
        "A dimension of an input has the declared size.";
    /// A symbol has different values in the shapes of inputs.
    pub INPUT_SYMBOL: Misuse "signature/input-symbol"
        "A symbol has the same value, a size or a whole shape, in the shapes of all inputs.";

    /// A declared output is missing.
    pub OUTPUT_MISSING: Malformed "signature/output-missing"
        "A model returns every declared output.";
    /// An output is not declared, or is returned twice.
    pub OUTPUT_UNKNOWN: Malformed "signature/output-unknown"
        "A model returns only declared outputs, each once.";
    /// The elements of an output do not have the declared type.
    pub OUTPUT_TYPE: Malformed "signature/output-type"
        "An output has the declared type.";
    /// An output does not have the declared number of dimensions.
    pub OUTPUT_RANK: Malformed "signature/output-rank"
        "An output has as many dimensions as are declared.";
    /// A dimension of an output does not have the declared size.
    pub OUTPUT_SIZE: Malformed "signature/output-size"
        "A dimension of an output has the declared size.";
    /// A symbol has different values in the shapes of inputs and outputs.
    pub OUTPUT_SYMBOL: Malformed "signature/output-symbol"
        "A symbol has the same value in the shapes of all outputs as in those of the inputs.";
}

/// The rules for the values of one side, inputs or outputs.
#[derive(Debug)]
pub struct SideRules {
    /// A declared value is missing.
    pub missing: &'static Rule,
    /// A value is not declared, or is given twice.
    pub unknown: &'static Rule,
    /// The elements do not have the declared type.
    pub ty: &'static Rule,
    /// The value does not have the declared number of dimensions.
    pub rank: &'static Rule,
    /// A dimension does not have the declared size.
    pub size: &'static Rule,
    /// A symbol has different values.
    pub symbol: &'static Rule,
}

/// The rules for inputs.
pub static INPUT: SideRules = SideRules {
    missing: &INPUT_MISSING,
    unknown: &INPUT_UNKNOWN,
    ty: &INPUT_TYPE,
    rank: &INPUT_RANK,
    size: &INPUT_SIZE,
    symbol: &INPUT_SYMBOL,
};

/// The rules for outputs: the model does not fit its description.
pub static OUTPUT: SideRules = SideRules {
    missing: &OUTPUT_MISSING,
    unknown: &OUTPUT_UNKNOWN,
    ty: &OUTPUT_TYPE,
    rank: &OUTPUT_RANK,
    size: &OUTPUT_SIZE,
    symbol: &OUTPUT_SYMBOL,
};

/// The side whose values are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

impl Side {
    fn rules(self) -> &'static SideRules {
        match self {
            Side::Input => &INPUT,
            Side::Output => &OUTPUT,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Side::Input => "input",
            Side::Output => "output",
        }
    }
}

/// The shape of one value, as a symbol for a whole shape has it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WholeShape {
    Plain(Vec<u64>),
    Nested(Vec<Vec<u64>>),
}

/// The check of one call, with the values of the symbols seen so far.
#[derive(Debug, Clone, Default)]
pub struct CallChecker<'a> {
    /// Each symbol's size, and where it was first used.
    sizes: BTreeMap<&'a str, (u64, String)>,
    /// Each symbol's shape, and where it was first used.
    shapes: BTreeMap<&'a str, (WholeShape, String)>,
}

impl<'a> CallChecker<'a> {
    /// Creates the check of a new call, without values of symbols.
    pub fn new() -> CallChecker<'a> {
        CallChecker::default()
    }

    /// Compares inputs with the declared ones, and returns all errors. Without declared inputs, any are valid.
    pub fn inputs<'v, N: AsRef<str> + 'v>(
        &mut self,
        declared: &'a [ValueSpec],
        values: impl IntoIterator<Item = (N, &'v TensorValue)>,
    ) -> Vec<Error> {
        self.check(Side::Input, declared, values)
    }

    /// Compares outputs with the declared ones, with the values that symbols have in the inputs, and returns
    /// all errors.
    pub fn outputs<'v, N: AsRef<str> + 'v>(
        &mut self,
        declared: &'a [ValueSpec],
        values: impl IntoIterator<Item = (N, &'v TensorValue)>,
    ) -> Vec<Error> {
        self.check(Side::Output, declared, values)
    }

    fn check<'v, N: AsRef<str> + 'v>(
        &mut self,
        side: Side,
        declared: &'a [ValueSpec],
        values: impl IntoIterator<Item = (N, &'v TensorValue)>,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        if declared.is_empty() {
            return errors;
        }
        let (rules, what) = (side.rules(), side.as_str());
        let names = || {
            let names = declared.iter().map(|d| format!("`{}`", d.name.escaped()));
            format!("the model declares {}", list(names))
        };
        let mut given: BTreeMap<String, ()> = BTreeMap::new();
        for (name, value) in values {
            let name = name.as_ref();
            let shown = name.escaped();
            if given.insert(name.to_owned(), ()).is_some() {
                errors.push(rules.unknown.broken(format!("{what} `{shown}` is given twice")));
                continue;
            }
            let Some(spec) = declared.iter().find(|d| d.name == name) else {
                let e = rules.unknown.broken(format!("there is no {what} `{shown}`"));
                errors.push(e.with_hint(names()));
                continue;
            };
            self.check_value(side, spec, value, &mut errors);
        }
        for spec in declared.iter().filter(|d| !given.contains_key(&d.name)) {
            let (name, ty) = (spec.name.escaped(), spec.ty.as_str());
            let shape = display_shape(&spec.shape);
            errors.push(
                rules.missing.broken(format!("{what} `{name}` ({ty}, shape {shape}) is missing")),
            );
        }
        errors
    }

    fn check_value(
        &mut self,
        side: Side,
        spec: &'a ValueSpec,
        value: &TensorValue,
        errors: &mut Vec<Error>,
    ) {
        let (rules, label) = (side.rules(), value_label(side, spec));
        if let Some(found) = value.ty().filter(|ty| *ty != spec.ty) {
            let (found, wanted) = (found.as_str(), spec.ty.as_str());
            errors.push(rules.ty.broken(format!("{label} is {found}, declared as {wanted}")));
        }
        match &spec.shape {
            ShapeSpec::Any => {}
            ShapeSpec::Symbol(symbol) => {
                let whole = whole_shape(value);
                let (bound, first) = self
                    .shapes
                    .entry(symbol.as_str())
                    .or_insert_with(|| (whole.clone(), label.clone()));
                if *bound != whole {
                    let (symbol, found) = (symbol.escaped(), display_whole(&whole));
                    let bound = display_whole(bound);
                    errors.push(rules.symbol.broken(format!(
                        "{label} has shape {found}, but `{symbol}` is {bound} in {first}"
                    )));
                }
            }
            ShapeSpec::Dims(dims) => self.check_dims(side, &label, dims, value, errors),
        }
    }

    fn check_dims(
        &mut self,
        side: Side,
        label: &str,
        dims: &'a [DimSpec],
        value: &TensorValue,
        errors: &mut Vec<Error>,
    ) {
        let inner = match value {
            TensorValue::Nested(inner) => inner,
            plain => {
                let shape = plain.shape().unwrap_or_default();
                return self.check_shape(side, label, dims, shape, 0, errors);
            }
        };
        let Some((outer, rest)) = dims.split_first() else {
            let e = format!("{label} is a nested tensor, declared as a scalar");
            return errors.push(side.rules().rank.broken(e));
        };
        let count = u64::try_from(inner.len()).unwrap_or(u64::MAX);
        self.check_dim(side, label, 0, outer, count, errors);
        for (at, part) in inner.iter().enumerate() {
            let label = format!("tensor {at} of {label}");
            self.check_shape(side, &label, rest, part.shape().unwrap_or_default(), 1, errors);
        }
    }

    /// Compares a shape with one entry per dimension; `before` is the number of dimensions taken by a nested
    /// tensor.
    fn check_shape(
        &mut self,
        side: Side,
        label: &str,
        dims: &'a [DimSpec],
        shape: &[u64],
        before: usize,
        errors: &mut Vec<Error>,
    ) {
        if shape.len() != dims.len() {
            let (found, wanted) = (shape.len(), dims.len());
            let declared = display_dims(dims);
            errors.push(side.rules().rank.broken(format!(
                "{label} has {found} dimensions, {shape:?}, declared with {wanted}, {declared}"
            )));
            return;
        }
        for (at, (dim, size)) in dims.iter().zip(shape).enumerate() {
            self.check_dim(side, label, at.saturating_add(before), dim, *size, errors);
        }
    }

    fn check_dim(
        &mut self,
        side: Side,
        label: &str,
        at: usize,
        dim: &'a DimSpec,
        found: u64,
        errors: &mut Vec<Error>,
    ) {
        let rules = side.rules();
        match dim {
            DimSpec::Any => {}
            DimSpec::Size(size) if *size == found => {}
            DimSpec::Size(size) => errors.push(
                rules
                    .size
                    .broken(format!("dimension {at} of {label} is {found}, declared as {size}")),
            ),
            DimSpec::Symbol(symbol) => {
                let location = || format!("dimension {at} of {label}");
                let (bound, first) =
                    self.sizes.entry(symbol.as_str()).or_insert_with(|| (found, location()));
                if *bound != found {
                    let (location, symbol) = (location(), symbol.escaped());
                    errors.push(rules.symbol.broken(format!(
                        "{location} is {found}, but `{symbol}` is {bound} in {first}"
                    )));
                }
            }
        }
    }
}

/// Assigns the names of the declared inputs, in their order, to values without names.
///
/// # Errors
/// Returns [`POSITION`]
pub fn assign_names(
    declared: &[ValueSpec],
    values: Vec<TensorValue>,
) -> Result<Vec<(String, TensorValue)>, Error> {
    if values.len() != declared.len() {
        let (found, wanted) = (values.len(), declared.len());
        let e = POSITION.broken(format!("expected {wanted} inputs, found {found}"));
        return Err(e.with_hint(match declared.is_empty() {
            true => "the model declares no inputs: pass them by name".to_owned(),
            false => format!("the order is {}", list(declared.iter().map(|d| d.name.escaped()))),
        }));
    }
    Ok(declared.iter().map(|d| d.name.clone()).zip(values).collect())
}

fn value_label(side: Side, spec: &ValueSpec) -> String {
    format!("{} `{}`", side.as_str(), spec.name.escaped())
}

fn whole_shape(value: &TensorValue) -> WholeShape {
    match value {
        TensorValue::Nested(inner) => WholeShape::Nested(
            inner.iter().map(|v| v.shape().unwrap_or_default().to_vec()).collect(),
        ),
        plain => WholeShape::Plain(plain.shape().unwrap_or_default().to_vec()),
    }
}

fn display_whole(whole: &WholeShape) -> String {
    match whole {
        WholeShape::Plain(shape) => format!("{shape:?}"),
        WholeShape::Nested(shapes) => format!("nested {shapes:?}"),
    }
}

/// Returns a declared shape for people: `*`, `shape`, `[batch, 3]`.
pub fn display_shape(shape: &ShapeSpec) -> String {
    match shape {
        ShapeSpec::Any => "*".to_owned(),
        ShapeSpec::Symbol(symbol) => symbol.escaped().to_string(),
        ShapeSpec::Dims(dims) => display_dims(dims),
    }
}

fn display_dims(dims: &[DimSpec]) -> String {
    let all: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            DimSpec::Any => "*".to_owned(),
            DimSpec::Size(size) => size.to_string(),
            DimSpec::Symbol(symbol) => symbol.escaped().to_string(),
        })
        .collect();
    format!("[{}]", all.join(", "))
}
