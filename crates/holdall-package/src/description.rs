//! `carton.toml`: the description of a package's model.

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
    /// A summary in one line; the original writer limits it to 100 characters.
    pub short_description: Option<String>,
    /// Markdown; images are `https` addresses or `@misc/` references.
    pub model_description: Option<String>,
    /// License, usually an SPDX expression.
    pub license: Option<String>,
    /// Address of the model's repository.
    pub repository: Option<String>,
    /// Address of the model's home page.
    pub homepage: Option<String>,
    /// Target triples; empty for every platform.
    pub required_platforms: Vec<String>,
    /// Inputs, in the order in which inputs without names are passed.
    pub inputs: Vec<ValueSpec>,
    /// Outputs, in the order in which outputs without names are returned.
    pub outputs: Vec<ValueSpec>,
    /// Inputs with their expected outputs.
    pub self_tests: Vec<SelfTest>,
    /// Example inputs and outputs for display.
    pub examples: Vec<Example>,
    /// The runner of the model.
    pub runner: Runner,
    /// Extension: free texts about the model, `[card]`, in the file's order.
    pub card: Vec<(String, String)>,
    /// Extension: the models that this one was made from, `[lineage] base_model`.
    pub base_models: Vec<String>,
    /// Extension: path in the package of a bill of materials, `[sbom] file`.
    pub sbom: Option<String>,
    /// Unknown keys at the top level.
    pub other: UnknownKeys,
    /// Unknown keys of `[lineage]`.
    pub other_lineage: UnknownKeys,
    /// Unknown keys of `[sbom]`.
    pub other_sbom: UnknownKeys,
}

/// Unknown keys of a table, each with its value as TOML on one line. They are ignored, and kept when the text
/// is written again.
pub type UnknownKeys = Vec<(String, String)>;

/// One declared input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueSpec {
    /// Unique among the inputs, or the outputs.
    pub name: String,
    /// Type of the elements.
    pub ty: ValueType,
    /// Allowed shapes.
    pub shape: ShapeSpec,
    /// Description for people.
    pub description: Option<String>,
    /// For the runner: the name of a node in the model.
    pub internal_name: Option<String>,
    /// Unknown keys.
    pub other: UnknownKeys,
}

impl ValueSpec {
    /// Creates an input or output without a description.
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

/// The shapes that an input or output may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeSpec {
    /// `"*"`: any shape.
    Any,
    /// A symbol that means the same whole shape in all its uses.
    Symbol(String),
    /// One entry for each dimension; empty for a scalar.
    Dims(Vec<DimSpec>),
}

/// Writes the shape for people: `[batch, 3, *]`, or `any`.
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

/// The sizes that a dimension may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DimSpec {
    /// This size.
    Size(u64),
    /// A symbol that means the same size in all its uses.
    Symbol(String),
    /// `"*"`: any size.
    Any,
}

/// A self-test: inputs, and the outputs that the model should return for them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SelfTest {
    /// Name for people.
    pub name: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// Names of inputs, with names of tensors in `tensor_data` (without `@tensor_data/`).
    pub inputs: Vec<(String, String)>,
    /// Names of outputs, with names of tensors in `tensor_data`; `None` if the test only checks that the
    /// model runs.
    pub expected: Option<Vec<(String, String)>>,
    /// Extension: `[self_test.compare]`.
    pub tolerance: Tolerance,
    /// Unknown keys.
    pub other: UnknownKeys,
    /// Unknown keys of `[self_test.compare]`.
    pub other_compare: UnknownKeys,
}

/// How far an output may be from the expected value: `|out - expected| <= atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Tolerance relative to the expected value.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Whether NaN equals NaN.
    pub equal_nan: bool,
    /// Whether `rtol` and `atol` apply to integers too, which are otherwise compared exactly.
    pub integers: bool,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-5, atol: 1e-8, equal_nan: false, integers: false }
    }
}

/// Example inputs and outputs for display; they need not run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Example {
    /// Name for people.
    pub name: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// Inputs by name.
    pub inputs: Vec<(String, Reference)>,
    /// Outputs by name.
    pub outputs: Vec<(String, Reference)>,
    /// Unknown keys.
    pub other: UnknownKeys,
}

/// The value that an example shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `@tensor_data/NAME`: the tensor called `NAME`.
    Tensor(String),
    /// `@misc/PATH`: the file `misc/PATH`.
    Misc(String),
}

/// The runner of the model.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Runner {
    /// Name of the runner, such as `onnx`.
    pub name: String,
    /// A version requirement in Cargo's syntax, such as `=1.12.1`.
    pub framework_version: String,
    /// Version of the format that the runner expects in `model/`.
    pub compat_version: u64,
    /// Options for the runner, in the file's order.
    pub options: Vec<(String, OptionValue)>,
    /// Unknown keys.
    pub other: UnknownKeys,
}

/// The value of a runner's option: any TOML value.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    String(String),
    /// `true` or `false`.
    Boolean(bool),
    /// A date, a time or both, as TOML writes them.
    Datetime(String),
    /// A list.
    Array(Vec<OptionValue>),
    /// Values by name, in the file's order.
    Table(Vec<(String, OptionValue)>),
}

impl OptionValue {
    /// Returns the value as an option.
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

    /// Parses a TOML value.
    ///
    /// # Errors
    /// Returns the rules of TOML.
    pub fn parse(text: &str) -> Result<OptionValue> {
        let table = toml::parse(format!("v = {text}\n").as_bytes(), &Limits::default())?;
        let value = table.get("v").filter(|_| table.len() == 1);
        value.map(OptionValue::from_toml).ok_or_else(|| {
            toml::BROKEN.broken("expected a single TOML value, such as `1`, `\"text\"` or `[1, 2]`")
        })
    }
}

/// Writes the value as TOML on one line.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::write::option(self))
    }
}
