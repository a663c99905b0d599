//! `carton.toml`: what a package says of its model.

use crate::value::ValueType;
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::wire::toml::{self, Value};
use std::fmt;

/// The contents of `carton.toml`.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Description {
    /// Name of the model.
    pub model_name: Option<String>,
    /// One line, of at most 100 characters where the original wrote it.
    pub short_description: Option<String>,
    /// Markdown; images are `https` addresses or `@misc/` references.
    pub model_description: Option<String>,
    /// An SPDX expression, as a rule.
    pub license: Option<String>,
    /// Address of the model's repository.
    pub repository: Option<String>,
    /// Address of the model's home page.
    pub homepage: Option<String>,
    /// Target triples; every platform where there are none.
    pub required_platforms: Vec<String>,
    /// In the order that inputs without names follow.
    pub inputs: Vec<ValueSpec>,
    /// In the order that outputs without names follow.
    pub outputs: Vec<ValueSpec>,
    /// Inputs with the outputs they should give.
    pub self_tests: Vec<SelfTest>,
    /// Inputs and outputs to look at.
    pub examples: Vec<Example>,
    /// What runs the model.
    pub runner: Runner,
    /// Ours: free texts about the model, `[card]`, in the file's order.
    pub card: Vec<(String, String)>,
    /// Ours: what the model was made from, `[lineage] base_model`.
    pub base_models: Vec<String>,
    /// Ours: path in the package of a bill of materials, `[sbom] file`.
    pub sbom: Option<String>,
    /// Keys of the top that are not known.
    pub other: UnknownKeys,
    /// Those of `[lineage]`.
    pub other_lineage: UnknownKeys,
    /// Those of `[sbom]`.
    pub other_sbom: UnknownKeys,
}

/// Keys of a table that are not known, each with its value as TOML has it on one line. They say nothing here and are
/// written again.
pub type UnknownKeys = Vec<(String, String)>;

/// One declared input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueSpec {
    /// Unique among the inputs, or the outputs.
    pub name: String,
    /// Type of its elements.
    pub ty: ValueType,
    /// Which shapes are allowed.
    pub shape: ShapeSpec,
    /// For people.
    pub description: Option<String>,
    /// For the runner: the name of a node in the model.
    pub internal_name: Option<String>,
    /// Keys that are not known.
    pub other: UnknownKeys,
}

impl ValueSpec {
    /// An input or output without a description.
    pub fn new(name: impl Into<String>, ty: ValueType, shape: ShapeSpec) -> ValueSpec {
        let name = name.into();
        ValueSpec {
            name,
            ty,
            shape,
            description: None,
            internal_name: None,
            other: UnknownKeys::new(),
        }
    }
}

/// Which shapes an input or output may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeSpec {
    /// `"*"`: any.
    Any,
    /// The same whole shape wherever the symbol stands.
    Symbol(String),
    /// One entry for each dimension; none for a scalar.
    Dims(Vec<DimSpec>),
}

/// As people read it: `[batch, 3, *]`, or `any`.
impl fmt::Display for ShapeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = match self {
            ShapeSpec::Any => return f.write_str("any"),
            ShapeSpec::Symbol(symbol) => return f.write_str(symbol),
            ShapeSpec::Dims(dims) => dims,
        };
        f.write_str("[")?;
        for (at, dim) in dims.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            match dim {
                DimSpec::Size(n) => write!(f, "{n}")?,
                DimSpec::Symbol(symbol) => f.write_str(symbol)?,
                DimSpec::Any => f.write_str("*")?,
            }
        }
        f.write_str("]")
    }
}

/// Which sizes a dimension may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DimSpec {
    /// This one.
    Size(u64),
    /// The same wherever the symbol stands.
    Symbol(String),
    /// `"*"`: any.
    Any,
}

/// Inputs, and the outputs they should give.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SelfTest {
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Names of inputs, and of tensors in `tensor_data` (without `@tensor_data/`).
    pub inputs: Vec<(String, String)>,
    /// Names of outputs, and of tensors in `tensor_data`; `None` where the test only wants the model to
    /// run.
    pub expected: Option<Vec<(String, String)>>,
    /// Ours: `[self_test.compare]`.
    pub tolerance: Tolerance,
    /// Keys that are not known.
    pub other: UnknownKeys,
    /// Those of `[self_test.compare]`.
    pub other_compare: UnknownKeys,
}

/// How far an output may be from the expected one: `|out - expected| <= atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Of the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
    /// Whether NaN is as good as NaN.
    pub equal_nan: bool,
    /// Whether `rtol` and `atol` hold for integers too, which are compared exactly otherwise.
    pub integers: bool,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-5, atol: 1e-8, equal_nan: false, integers: false }
    }
}

/// Inputs and outputs to look at; they need not run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Example {
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// By name.
    pub inputs: Vec<(String, Reference)>,
    /// By name.
    pub outputs: Vec<(String, Reference)>,
    /// Keys that are not known.
    pub other: UnknownKeys,
}

/// What an example shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `@tensor_data/NAME`: the tensor of that name.
    Tensor(String),
    /// `@misc/PATH`: the file `misc/PATH`.
    Misc(String),
}

/// What runs the model.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Runner {
    /// Name of the runner: `onnx`.
    pub name: String,
    /// A requirement in the form of Cargo's: `=1.12.1`.
    pub framework_version: String,
    /// Version of what the runner expects in `model/`.
    pub compat_version: u64,
    /// For the runner, in the file's order.
    pub options: Vec<(String, OptionValue)>,
    /// Keys that are not known.
    pub other: UnknownKeys,
}

/// The value of a runner's option: any value of TOML.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A whole number.
    Integer(i64),
    /// A number.
    Double(f64),
    /// A text.
    String(String),
    /// Yes or no.
    Boolean(bool),
    /// A date, a time or both, as TOML writes them.
    Datetime(String),
    /// A list.
    Array(Vec<OptionValue>),
    /// Values by name, in the file's order.
    Table(Vec<(String, OptionValue)>),
}

impl OptionValue {
    /// Returns the value that TOML has.
    pub(crate) fn from_toml(value: &Value) -> OptionValue {
        match value {
            Value::Integer(n) => OptionValue::Integer(*n),
            Value::Float(x) => OptionValue::Double(*x),
            Value::String(text) => OptionValue::String(text.clone()),
            Value::Boolean(yes) => OptionValue::Boolean(*yes),
            Value::Datetime(time) => OptionValue::Datetime(time.to_string()),
            Value::Array(all) => {
                OptionValue::Array(all.iter().map(OptionValue::from_toml).collect())
            }
            Value::Table(table) => {
                let pair = |(name, value): (&String, &Value)| {
                    (name.clone(), OptionValue::from_toml(value))
                };
                OptionValue::Table(table.iter().map(pair).collect())
            }
        }
    }

    /// Reads a value as TOML writes it.
    ///
    /// # Errors
    /// Those of TOML.
    pub fn parse(text: &str) -> Result<OptionValue> {
        let table = toml::parse(format!("v = {text}\n").as_bytes(), &Limits::default())?;
        let value = table.get("v").filter(|_| table.len() == 1);
        value.map(OptionValue::from_toml).ok_or_else(|| toml::BROKEN.broken("this is no value"))
    }
}

/// As TOML writes it, on one line.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::write::option(self))
    }
}
