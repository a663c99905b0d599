//! Named converters (8.4.3): written as text, so that no code is needed.

mod apply;
mod exact;
mod parse;

use crate::error::Result;
use crate::kinds::Scalar;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// A chain of named converters that are applied one after the other: `scale(0.001)|round`.
///
/// ```
/// use holdall_schema::Chain;
/// use serde_json::json;
///
/// let chain: Chain = "split(\", \")".parse()?;
/// assert_eq!(chain.value(json!("cat, dog"))?, json!(["cat", "dog"]));
/// let chain: Chain = "map(cat=0, dog=1, *=2)".parse()?;
/// assert_eq!(chain.value(json!("bird"))?, json!(2));
/// # Ok::<(), holdall_schema::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    text: String,
    steps: Vec<Step>,
}

/// One named converter with its arguments.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Cast(Beyond),
    Round,
    Scale(Exact),
    Offset(Exact),
    Clamp(Exact, Exact),
    Map(Vec<(Argument, Value)>, Option<Value>),
    Const(Value),
    Parse,
    Text,
    Split(String),
    Join(String, Vec<String>),
    Member(Vec<String>),
    Reshape,
}

/// How to treat a number that is out of range for its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// Returns an error.
    Refused,
    /// Replaces the number by the largest or the lowest one of the kind.
    Saturate,
}

/// An argument: its JSON value, and its text.
#[derive(Debug, Clone, PartialEq)]
struct Argument {
    value: Value,
    text: String,
}

/// A number without rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Exact {
    Int(i128),
    Float(f64),
}

impl Chain {
    /// Returns the text of the chain.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the chain changes the shape of a tensor.
    pub fn reshapes(&self) -> bool {
        self.steps.contains(&Step::Reshape)
    }

    /// Returns `true` if the chain only rounds numbers to another kind and changes the shape.
    pub fn is_cast(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Cast(_) | Step::Reshape))
    }

    /// Returns `true` if out-of-range numbers become the nearest number of the new kind.
    pub fn saturates(&self) -> bool {
        self.steps.contains(&Step::Cast(Beyond::Saturate))
    }

    /// Converts the JSON of a value.
    ///
    /// # Errors
    /// Returns `evolve/value` if a converter does not accept the value.
    pub fn value(&self, value: Value) -> Result<Value> {
        self.steps.iter().try_fold(value, |value, step| step.value(value))
    }

    /// Returns `true` if the chain converts numbers or booleans of the kind `from` to the kind `to`.
    pub fn can_convert(&self, from: Scalar, to: Scalar) -> bool {
        let is_number =
            |scalar| !matches!(scalar, Scalar::Complex64 | Scalar::Complex128 | Scalar::Timestamp);
        is_number(from) && is_number(to) && self.steps.iter().all(Step::takes_numbers)
    }
}

impl FromStr for Chain {
    type Err = crate::Error;

    /// Parses a chain of converters.
    ///
    /// # Errors
    /// Returns `evolve/converter` if the text is not a chain of converters.
    fn from_str(text: &str) -> Result<Chain> {
        parse::chain(text)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
