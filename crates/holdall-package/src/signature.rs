//! Checks values against the declared inputs and outputs.
//!
//! # What
//! [`Call`] checks the inputs and the outputs of one call of a model: missing and unknown values, element
//! types, shapes. A symbol means one size, or one whole shape, in all its uses in the call; `*` means any.
//!
//! # Nested values
//! Dimension 0 is the number of inner tensors, and the further dimensions are those of the inner tensors: a
//! size or a symbol must hold for each of them. An empty nested tensor has no type and no further dimensions
//! to check.

use crate::{DimSpec, ShapeSpec, TensorValue, ValueSpec};
use holdall_core::error::{Error, Rule, Shown as _, list};
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
    /// The elements of an input have another type.
    pub INPUT_TYPE: Misuse "signature/input-type"
        "An input has the declared type.";
    /// An input has another number of dimensions.
    pub INPUT_RANK: Misuse "signature/input-rank"
        "An input has as many dimensions as are declared.";
    /// A dimension of an input has another size.
    pub INPUT_SIZE: Misuse "signature/input-size"
        "A dimension of an input has the declared size.";
    /// A symbol in the shape of an input has another value elsewhere.
    pub INPUT_SYMBOL: Misuse "signature/input-symbol"
        "A symbol has the same value, a size or a whole shape, in the shapes of all inputs.";

    /// A declared output is missing.
    pub OUTPUT_MISSING: Malformed "signature/output-missing"
        "A model returns every declared output.";
    /// An output is not declared, or is returned twice.
    pub OUTPUT_UNKNOWN: Malformed "signature/output-unknown"
        "A model returns only declared outputs, each once.";
    /// The elements of an output have another type.
    pub OUTPUT_TYPE: Malformed "signature/output-type"
        "An output has the declared type.";
    /// An output has another number of dimensions.
    pub OUTPUT_RANK: Malformed "signature/output-rank"
        "An output has as many dimensions as are declared.";
    /// A dimension of an output has another size.
    pub OUTPUT_SIZE: Malformed "signature/output-size"
        "A dimension of an output has the declared size.";
    /// A symbol in the shape of an output has another value elsewhere.
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
    /// The elements have another type.
    pub ty: &'static Rule,
    /// The value has another number of dimensions.
    pub rank: &'static Rule,
    /// A dimension has another size.
    pub size: &'static Rule,
    /// A symbol has another value elsewhere.
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

/// The shape of one value, for a symbol that means a whole shape.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whole {
    Plain(Vec<u64>),
    Nested(Vec<Vec<u64>>),
}

/// The check of one call, with the values of the symbols seen so far.
#[derive(Debug, Clone, Default)]
pub struct CallChecker<'a> {
    /// Each symbol's size, and where it was first used.
    sizes: BTreeMap<&'a str, (u64, String)>,
    /// Each symbol's shape, and where it was first used.
    shapes: BTreeMap<&'a str, (Whole, String)>,
}

impl<'a> CallChecker<'a> {
    /// Creates the check of a new call, without values of symbols.
    pub fn new() -> CallChecker<'a> {
        CallChecker::default()
    }

    /// Compares inputs with the declared ones, and returns all errors. If nothing is declared, there are
    /// none.
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
        let mut wrong = Vec::new();
        if declared.is_empty() {
            return wrong;
        }
        let (rules, what) = (side.rules(), side.as_str());
        let names = || {
            let names = declared.iter().map(|d| format!("`{}`", d.name.shown()));
            format!("the model declares {}", list(names))
        };
        let mut given: BTreeMap<String, ()> = BTreeMap::new();
        for (name, value) in values {
            let name = name.as_ref();
            let shown = name.shown();
            if given.insert(name.to_owned(), ()).is_some() {
                wrong.push(rules.unknown.broken(format!("{what} `{shown}` is given twice")));
                continue;
            }
            let Some(spec) = declared.iter().find(|d| d.name == name) else {
                let e = rules.unknown.broken(format!("there is no {what} `{shown}`"));
                wrong.push(e.with_hint(names()));
                continue;
            };
            self.one(side, spec, value, &mut wrong);
        }
        for spec in declared.iter().filter(|d| !given.contains_key(&d.name)) {
            let (name, ty) = (spec.name.shown(), spec.ty.as_str());
            let shape = shown_shape(&spec.shape);
            wrong.push(
                rules.missing.broken(format!("{what} `{name}` ({ty}, shape {shape}) is missing")),
            );
        }
        wrong
    }

    fn one(
        &mut self,
        side: Side,
        spec: &'a ValueSpec,
        value: &TensorValue,
        wrong: &mut Vec<Error>,
    ) {
        let (rules, place) = (side.rules(), value_label(side, spec));
        if let Some(found) = value.ty().filter(|ty| *ty != spec.ty) {
            let (found, wanted) = (found.as_str(), spec.ty.as_str());
            wrong.push(rules.ty.broken(format!("{place} is {found}, declared as {wanted}")));
        }
        match &spec.shape {
            ShapeSpec::Any => {}
            ShapeSpec::Symbol(symbol) => {
                let whole = whole(value);
                let (bound, first) = self
                    .shapes
                    .entry(symbol.as_str())
                    .or_insert_with(|| (whole.clone(), place.clone()));
                if *bound != whole {
                    let (symbol, found) = (symbol.shown(), shown_whole(&whole));
                    let bound = shown_whole(bound);
                    wrong.push(rules.symbol.broken(format!(
                        "{place} has shape {found}, but `{symbol}` is {bound} in {first}"
                    )));
                }
            }
            ShapeSpec::Dims(dims) => self.dims(side, &place, dims, value, wrong),
        }
    }

    fn dims(
        &mut self,
        side: Side,
        place: &str,
        dims: &'a [DimSpec],
        value: &TensorValue,
        wrong: &mut Vec<Error>,
    ) {
        let inner = match value {
            TensorValue::Nested(inner) => inner,
            plain => {
                let shape = plain.shape().unwrap_or_default();
                return self.plain(side, place, dims, shape, 0, wrong);
            }
        };
        let Some((outer, rest)) = dims.split_first() else {
            let e = format!("{place} is a nested tensor, declared as a scalar");
            return wrong.push(side.rules().rank.broken(e));
        };
        let count = u64::try_from(inner.len()).unwrap_or(u64::MAX);
        self.dim(side, place, 0, outer, count, wrong);
        for (at, part) in inner.iter().enumerate() {
            let place = format!("tensor {at} of {place}");
            self.plain(side, &place, rest, part.shape().unwrap_or_default(), 1, wrong);
        }
    }

    /// Compares a shape with one entry per dimension; `before` is the number of dimensions taken by a nested
    /// tensor.
    fn plain(
        &mut self,
        side: Side,
        place: &str,
        dims: &'a [DimSpec],
        shape: &[u64],
        before: usize,
        wrong: &mut Vec<Error>,
    ) {
        if shape.len() != dims.len() {
            let (found, wanted) = (shape.len(), dims.len());
            let declared = shown_dims(dims);
            wrong.push(side.rules().rank.broken(format!(
                "{place} has {found} dimensions, {shape:?}, declared with {wanted}, {declared}"
            )));
            return;
        }
        for (at, (dim, size)) in dims.iter().zip(shape).enumerate() {
            self.dim(side, place, at.saturating_add(before), dim, *size, wrong);
        }
    }

    fn dim(
        &mut self,
        side: Side,
        place: &str,
        at: usize,
        dim: &'a DimSpec,
        found: u64,
        wrong: &mut Vec<Error>,
    ) {
        let rules = side.rules();
        match dim {
            DimSpec::Any => {}
            DimSpec::Size(size) if *size == found => {}
            DimSpec::Size(size) => wrong.push(
                rules
                    .size
                    .broken(format!("dimension {at} of {place} is {found}, declared as {size}")),
            ),
            DimSpec::Symbol(symbol) => {
                let here = || format!("dimension {at} of {place}");
                let (bound, first) =
                    self.sizes.entry(symbol.as_str()).or_insert_with(|| (found, here()));
                if *bound != found {
                    let (here, symbol) = (here(), symbol.shown());
                    wrong.push(rules.symbol.broken(format!(
                        "{here} is {found}, but `{symbol}` is {bound} in {first}"
                    )));
                }
            }
        }
    }
}

/// Gives values without names the names of the inputs, in the declared order.
///
/// # Errors
/// [`POSITION`]
pub fn in_order(
    declared: &[ValueSpec],
    values: Vec<TensorValue>,
) -> Result<Vec<(String, TensorValue)>, Error> {
    if values.len() != declared.len() {
        let (found, wanted) = (values.len(), declared.len());
        let e = POSITION.broken(format!("{found} inputs without names, declared are {wanted}"));
        return Err(e.with_hint(match declared.is_empty() {
            true => "the model declares no inputs: name them".to_owned(),
            false => format!("the order is {}", list(declared.iter().map(|d| d.name.shown()))),
        }));
    }
    Ok(declared.iter().map(|d| d.name.clone()).zip(values).collect())
}

fn value_label(side: Side, spec: &ValueSpec) -> String {
    format!("{} `{}`", side.as_str(), spec.name.shown())
}

fn whole(value: &TensorValue) -> Whole {
    match value {
        TensorValue::Nested(inner) => {
            Whole::Nested(inner.iter().map(|v| v.shape().unwrap_or_default().to_vec()).collect())
        }
        plain => Whole::Plain(plain.shape().unwrap_or_default().to_vec()),
    }
}

fn shown_whole(whole: &Whole) -> String {
    match whole {
        Whole::Plain(shape) => format!("{shape:?}"),
        Whole::Nested(shapes) => format!("nested {shapes:?}"),
    }
}

/// Returns a declared shape for people: `*`, `shape`, `[batch, 3]`.
pub fn shown_shape(shape: &ShapeSpec) -> String {
    match shape {
        ShapeSpec::Any => "*".to_owned(),
        ShapeSpec::Symbol(symbol) => symbol.shown().to_string(),
        ShapeSpec::Dims(dims) => shown_dims(dims),
    }
}

fn shown_dims(dims: &[DimSpec]) -> String {
    let all: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            DimSpec::Any => "*".to_owned(),
            DimSpec::Size(size) => size.to_string(),
            DimSpec::Symbol(symbol) => symbol.shown().to_string(),
        })
        .collect();
    format!("[{}]", all.join(", "))
}
