//! The differences that a comparison finds.

use crate::path::Path;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// One difference between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The path: in the old schema for something removed, otherwise in the new one. [`Segment::Each`] means the
    /// elements of an array, or the members of an object in addition to its properties.
    ///
    /// [`Segment::Each`]: crate::Segment::Each
    pub path: Path,
    /// The kind of difference.
    pub what: ChangeKind,
    /// The consequence for reading an old file with the new schema.
    pub verdict: Verdict,
    /// A short description of the old type: `Int32`, `F32 [20, 5]`.
    pub old: Option<Arc<str>>,
    /// A short description of the new type.
    pub new: Option<Arc<str>>,
    /// The values of an enum that were added or removed.
    pub values: Arc<[Arc<str>]>,
}

/// The kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The new schema has the member, the old one does not.
    Added,
    /// The old schema has the member, the new one does not.
    Removed,
    /// The member was required and is now optional.
    MadeOptional,
    /// The member was optional and is now required.
    MadeRequired,
    /// The new kind of number represents all values of the old one.
    Widened,
    /// The new kind of number does not represent all values of the old one.
    Narrowed,
    /// Another kind.
    Kind,
    /// Another element type of a tensor.
    DType,
    /// Another shape of a tensor.
    Shape,
    /// Another number of elements of an array.
    Length,
    /// Other bounds for the number of elements.
    Bounds,
    /// The enum has more values.
    ValuesAdded,
    /// The enum has fewer values.
    ValuesRemoved,
    /// The values of the enum have another order.
    ValuesOrder,
    /// The union has one more variant.
    VariantAdded,
    /// The union has one variant less.
    VariantRemoved,
    /// The discriminator of the union has another name.
    Discriminator,
    /// The object allows other members in addition to its properties, or no longer allows them.
    Others,
    /// The schema of plain JSON has changed.
    Json,
    /// Keywords that only the JSON validator uses.
    Keywords,
    /// The members of the struct have another order.
    Order,
    /// Another `align`.
    Align,
    /// Another `default` of a member.
    Default,
    /// Annotations.
    Annotations,
}

impl ChangeKind {
    /// Returns the name in JSON.
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

/// The consequence of a change for reading an old file with the new schema, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Old files can be read.
    Compatible,
    /// Old files can be read once the new schema has a `default`.
    NeedsDefault,
    /// Old files can be read with a converter from the caller.
    NeedsConverter,
    /// A member or value was removed or changed its form.
    Breaking,
}

impl Verdict {
    /// Returns the name in JSON.
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

/// The version step that changes require (8.3), the largest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bump {
    /// The set of valid values is the same.
    Patch,
    /// Old files can be read.
    Minor,
    /// Old files cannot be read, or only some of them, or only in part.
    Major,
}

impl Bump {
    /// Returns the step that all of these changes require; a patch if there are no changes.
    pub fn for_changes(changes: &[Change]) -> Bump {
        changes.iter().map(Change::bump).max().unwrap_or(Bump::Patch)
    }

    /// Returns the name in JSON.
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
    /// Returns the step that this change alone requires.
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

    /// Returns the change as JSON, as in [`changes_json`].
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

/// Formats the change: `widened at a.b: Int32, now Int64 (compatible)`.
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

/// Returns changes as JSON (8.6): `{"bump": "major", "changes": [{"path": "a.b", "change": "widened", "verdict":
/// "compatible", "old": "Int32", "new": "Int64"}]}`.
pub fn changes_json(changes: &[Change]) -> Value {
    let list: Vec<Value> = changes.iter().map(Change::to_json).collect();
    json!({"bump": Bump::for_changes(changes).as_str(), "changes": list})
}
