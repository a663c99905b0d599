//! What a comparison finds.

use crate::path::Path;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// One difference between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Where: in the old schema for what was removed, else in the new one. [`Segment::Each`] stands
    /// for the elements of an array, and for the members that an object has beside its properties.
    ///
    /// [`Segment::Each`]: crate::Segment::Each
    pub path: Path,
    /// What is different.
    pub what: ChangeKind,
    /// What it means for reading an old file with the new schema.
    pub verdict: Verdict,
    /// What the old schema has there, in short: `Int32`, `F32 [20, 5]`.
    pub old: Option<Arc<str>>,
    /// What the new schema has there, in short.
    pub new: Option<Arc<str>>,
    /// The values of an enum that were added or removed.
    pub values: Arc<[Arc<str>]>,
}

/// What is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The new schema has the member, the old one has not.
    Added,
    /// The old schema has the member, the new one has not.
    Removed,
    /// The member was required, and is optional.
    MadeOptional,
    /// The member was optional, and is required.
    MadeRequired,
    /// A number's kind holds all values of the old one.
    Widened,
    /// A number's kind does not hold all values of the old one.
    Narrowed,
    /// Another kind.
    Kind,
    /// Another element type of a tensor.
    DType,
    /// Another shape of a tensor.
    Shape,
    /// Another number of elements of an array.
    Length,
    /// Other bounds for a number of elements.
    Bounds,
    /// An enum has more values.
    ValuesAdded,
    /// An enum has fewer values.
    ValuesRemoved,
    /// The values of an enum come in another order.
    ValuesOrder,
    /// A union has one more variant.
    VariantAdded,
    /// A union has one variant less.
    VariantRemoved,
    /// The discriminator of a union has another name.
    Discriminator,
    /// Other members are allowed beside the properties of an object, or no longer.
    Others,
    /// The schema of plain JSON says something else.
    Json,
    /// Keywords that only the validator of JSON looks at.
    Keywords,
    /// The members of a struct come in another order.
    Order,
    /// Another `align`.
    Align,
    /// Another `default` of a member.
    Default,
    /// Annotations.
    Annotations,
}

impl ChangeKind {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::MadeOptional => "made-optional",
            ChangeKind::MadeRequired => "made-required",
            ChangeKind::Widened => "widened",
            ChangeKind::Narrowed => "narrowed",
            ChangeKind::Kind => "kind",
            ChangeKind::DType => "dtype",
            ChangeKind::Shape => "shape",
            ChangeKind::Length => "length",
            ChangeKind::Bounds => "bounds",
            ChangeKind::ValuesAdded => "values-added",
            ChangeKind::ValuesRemoved => "values-removed",
            ChangeKind::ValuesOrder => "values-order",
            ChangeKind::VariantAdded => "variant-added",
            ChangeKind::VariantRemoved => "variant-removed",
            ChangeKind::Discriminator => "discriminator",
            ChangeKind::Others => "others",
            ChangeKind::Json => "json",
            ChangeKind::Keywords => "keywords",
            ChangeKind::Order => "order",
            ChangeKind::Align => "align",
            ChangeKind::Default => "default",
            ChangeKind::Annotations => "annotations",
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a change means for reading an old file with the new schema; the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It is read as it is.
    Compatible,
    /// It is read once the new schema has a `default`.
    NeedsDefault,
    /// It is read with a converter that the caller brings.
    NeedsConverter,
    /// Something that was there is gone, or has another form.
    Breaking,
}

impl Verdict {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Compatible => "compatible",
            Verdict::NeedsDefault => "needs-default",
            Verdict::NeedsConverter => "needs-converter",
            Verdict::Breaking => "breaking",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The step of a version that changes ask for (8.3), the largest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bump {
    /// What values there may be is the same.
    Patch,
    /// Old files are read.
    Minor,
    /// Old files are not, or not all of them, or not all that is in them.
    Major,
}

impl Bump {
    /// The step for all of these changes; without any, a patch.
    pub fn for_changes(changes: &[Change]) -> Bump {
        changes.iter().map(Change::bump).max().unwrap_or(Bump::Patch)
    }

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Bump::Patch => "patch",
            Bump::Minor => "minor",
            Bump::Major => "major",
        }
    }
}

impl fmt::Display for Bump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Change {
    /// The step of a version that this change alone asks for.
    pub fn bump(&self) -> Bump {
        match (self.verdict, self.what) {
            (
                Verdict::Compatible,
                ChangeKind::Order
                | ChangeKind::ValuesOrder
                | ChangeKind::Align
                | ChangeKind::Default
                | ChangeKind::Annotations,
            ) => Bump::Patch,
            (Verdict::Compatible, _) => Bump::Minor,
            _ => Bump::Major,
        }
    }

    /// The change as in [`changes_json`].
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("path".into(), self.path.to_string().into());
        out.insert("change".into(), self.what.as_str().into());
        out.insert("verdict".into(), self.verdict.as_str().into());
        for (key, side) in [("old", &self.old), ("new", &self.new)] {
            if let Some(text) = side {
                out.insert(key.into(), (**text).into());
            }
        }
        if !self.values.is_empty() {
            let values = self.values.iter().map(|v| Value::from(&**v)).collect();
            out.insert("values".into(), Value::Array(values));
        }
        Value::Object(out)
    }
}

/// `widened at a.b: Int32, now Int64 (compatible)`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at ", self.what)?;
        match self.path.is_root() {
            true => f.write_str("the root")?,
            false => write!(f, "{}", self.path.to_string().escape_debug())?,
        }
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, ": {old}, now {new}")?,
            (Some(one), None) | (None, Some(one)) => write!(f, ": {one}")?,
            (None, None) => {}
        }
        write!(f, " ({})", self.verdict)
    }
}

/// Changes as JSON (8.6): `{"bump": "major", "changes": [{"path": "a.b", "change": "widened",
/// "verdict": "compatible", "old": "Int32", "new": "Int64"}]}`.
pub fn changes_json(changes: &[Change]) -> Value {
    let list: Vec<Value> = changes.iter().map(Change::to_json).collect();
    json!({"bump": Bump::for_changes(changes).as_str(), "changes": list})
}
