//! Converters that have a name (8.4.3): said in text, so that they need no code.

mod apply;
mod exact;
mod parse;

use crate::error::Result;
use crate::kinds::Scalar;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// Converters of the fixed set, one after the other: `scale(0.001)|round`.
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

/// One converter of the set, with its arguments.
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

/// What becomes of a number beyond those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// It is refused.
    Refused,
    /// It becomes the largest of the kind, or the lowest.
    Saturate,
}

/// An argument: what it is as JSON, and what was written.
#[derive(Debug, Clone, PartialEq)]
struct Argument {
    value: Value,
    text: String,
}

/// A number, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Exact {
    Int(i128),
    Float(f64),
}

impl Chain {
    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the elements of a tensor come in another shape.
    pub fn reshapes(&self) -> bool {
        self.steps.contains(&Step::Reshape)
    }

    /// Whether it does no more than to round numbers into another kind, and to give them another shape.
    pub fn is_cast(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Cast(_) | Step::Reshape))
    }

    /// Whether numbers beyond those of the new kind become the largest of it.
    pub fn saturates(&self) -> bool {
        self.steps.contains(&Step::Cast(Beyond::Saturate))
    }

    /// What the JSON of a value becomes.
    ///
    /// # Errors
    /// `evolve/value`.
    pub fn value(&self, value: Value) -> Result<Value> {
        self.steps.iter().try_fold(value, |value, step| step.value(value))
    }

    /// Whether it works on numbers and booleans of one kind, and gives those of another.
    pub fn takes(&self, from: Scalar, to: Scalar) -> bool {
        let is_number =
            |scalar| !matches!(scalar, Scalar::Complex64 | Scalar::Complex128 | Scalar::Timestamp);
        is_number(from) && is_number(to) && self.steps.iter().all(Step::takes_numbers)
    }
}

impl FromStr for Chain {
    type Err = crate::Error;

    /// # Errors
    /// `evolve/converter`.
    fn from_str(text: &str) -> Result<Chain> {
        parse::chain(text)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
