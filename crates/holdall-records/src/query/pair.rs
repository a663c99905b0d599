//! Comparing two members of a record with each other.

use super::condition::{Integer, Operator, Padded, no_order};
use crate::rules::CONDITION;
use crate::{Record, Records};
use holdall_core::Result;
use holdall_core::error::Shown as _;
use holdall_schema::{Accessor, Kind, Meaning, Scalar, Typed};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// Two members that are compared with each other.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    left: Side,
    right: Side,
}

#[derive(Debug, Clone)]
struct Side {
    part: Accessor,
    read: Read,
    /// What the numbers mean, unless they are a text: only numbers of the same meaning are compared.
    meaning: Option<Arc<Meaning>>,
}

/// How a member is read.
#[derive(Debug, Clone)]
enum Read {
    Integer(Integer),
    Time(Integer),
    Float(Typed<f64>),
    Bool(Typed<bool>),
    Text,
    Padded(Padded),
    Decimal(Arc<Meaning>),
    Enum,
    Variant,
}

/// Kinds of values that can be compared with each other.
#[derive(PartialEq)]
enum Family {
    Number,
    Time,
    Bool,
    /// Texts, names of enum values and keys of variants.
    Text,
}

enum Found<'r> {
    Integer(i128),
    Float(f64),
    Text(Cow<'r, str>),
}

impl Pair {
    /// Resolves the members.
    ///
    /// # Errors
    /// Returns [`CONDITION`] if the kinds of the members cannot be compared, or have no order although the operator
    /// needs one; and the errors of [`Records::accessor`].
    pub(super) fn new(
        records: &Records,
        left: &str,
        right: &str,
        operator: Operator,
    ) -> Result<Pair> {
        let pair = Pair { left: Side::new(records, left)?, right: Side::new(records, right)? };
        let kind = |side: &Side| records.schema().ty(side.part.ty()).kind.clone();
        if pair.left.family() != pair.right.family() || pair.left.meaning != pair.right.meaning {
            let [a, b] = [&pair.left, &pair.right].map(|side| kind(side).as_str());
            let (left, right) = (left.shown(), right.shown());
            let message = format!(
                "`{left}` is a `TypeDef:{a}` and `{right}` a `TypeDef:{b}`: expected two numbers, two times, two \
                 Booleans or two texts, of the same unit or scale"
            );
            return Err(CONDITION.broken(message));
        }
        if !operator.is_equality() {
            for (path, side) in [(left, &pair.left), (right, &pair.right)] {
                if matches!(side.read, Read::Bool(_) | Read::Enum | Read::Variant) {
                    return Err(no_order(path, &kind(side)));
                }
            }
        }
        Ok(pair)
    }

    /// Compares the two members; returns `None` if one is absent or is NaN.
    ///
    /// # Errors
    /// Returns the errors of [`Record::get`], [`Record::string`], [`Record::enum_value`] and [`Record::variant`].
    pub(super) fn order(&self, record: &Record<'_>) -> Result<Option<Ordering>> {
        let Some(left) = self.left.value(record)? else { return Ok(None) };
        let Some(right) = self.right.value(record)? else { return Ok(None) };
        Ok(left.order(&right))
    }
}

impl Side {
    fn new(records: &Records, path: &str) -> Result<Side> {
        let part = records.accessor(path)?;
        let of = records.schema().ty(part.ty());
        let padded = Padded::new(of);
        let meaning = of.meaning.clone().filter(|_| padded.is_none());
        let read = match &of.kind {
            _ if let Some(padded) = padded => Read::Padded(padded),
            Kind::String if let Some(meaning) = &meaning => Read::Decimal(meaning.clone()),
            Kind::String => Read::Text,
            Kind::Enum(_) => Read::Enum,
            Kind::Union(_) => Read::Variant,
            kind => match (Integer::from_accessor(&part), part.typed(), part.typed()) {
                (Some(integer), ..) if matches!(kind, Kind::Scalar(Scalar::Timestamp)) => {
                    Read::Time(integer)
                }
                (Some(integer), ..) => Read::Integer(integer),
                (_, Ok(float), _) => Read::Float(float),
                (.., Ok(bool)) => Read::Bool(bool),
                _ => {
                    let (path, kind) = (path.shown(), kind.as_str());
                    let message =
                        format!("`{path}` is a `TypeDef:{kind}`, which cannot be compared");
                    return Err(CONDITION.broken(message));
                }
            },
        };
        Ok(Side { part, read, meaning })
    }

    fn family(&self) -> Family {
        match self.read {
            Read::Integer(_) | Read::Float(_) | Read::Decimal(_) => Family::Number,
            Read::Time(_) => Family::Time,
            Read::Bool(_) => Family::Bool,
            Read::Text | Read::Padded(_) | Read::Enum | Read::Variant => Family::Text,
        }
    }

    fn value<'r>(&'r self, record: &'r Record<'_>) -> Result<Option<Found<'r>>> {
        let part = &self.part;
        let text = |name: &'r str| Found::Text(name.into());
        Ok(match &self.read {
            Read::Integer(integer) | Read::Time(integer) => {
                integer.read(record)?.map(Found::Integer)
            }
            Read::Float(typed) => record.get(typed)?.map(Found::Float),
            Read::Bool(typed) => record.get(typed)?.map(|found| Found::Integer(found.into())),
            Read::Text => record.string(part)?.map(Found::Text),
            Read::Padded(padded) => padded.text(record, part)?.map(|text| Found::Text(text.into())),
            Read::Decimal(meaning) => {
                let number = record.string(part)?.and_then(|text| meaning.parse(&text));
                number.map(Found::Integer)
            }
            Read::Enum => record.enum_value(part)?.map(text),
            Read::Variant => record.variant(part)?.map(text),
        })
    }
}

impl Found<'_> {
    fn order(&self, other: &Found<'_>) -> Option<Ordering> {
        match (self, other) {
            (Found::Integer(a), Found::Integer(b)) => Some(a.cmp(b)),
            (Found::Integer(a), Found::Float(b)) => order_exactly(*a, *b),
            (Found::Float(a), Found::Integer(b)) => order_exactly(*b, *a).map(Ordering::reverse),
            (Found::Float(a), Found::Float(b)) => a.partial_cmp(b),
            (Found::Text(a), Found::Text(b)) => Some(a.cmp(b)),
            // Their families differ, which `Pair::new` excludes.
            _ => None,
        }
    }
}

/// Compares an integer with a float without rounding either; returns `None` for NaN.
fn order_exactly(a: i128, b: f64) -> Option<Ordering> {
    const END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if b.is_nan() {
        return None;
    }
    if b >= END {
        return Some(Ordering::Less);
    }
    if b < -END {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc();
    Some(a.cmp(&(whole as i128)).then(0.0.partial_cmp(&(b - whole))?))
}

#[cfg(test)]
mod tests {
    use super::order_exactly;
    use std::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn integers_and_floats_are_compared_exactly() {
        let big = (1 << 53) + 1;
        for (a, b, wanted) in [
            (1, 1.0, Some(Equal)),
            (1, 1.5, Some(Less)),
            (-1, -1.5, Some(Greater)),
            (-2, -1.5, Some(Less)),
            (big, (1u64 << 53) as f64, Some(Greater)),
            (i128::MAX, f64::INFINITY, Some(Less)),
            (i128::MIN, f64::NEG_INFINITY, Some(Greater)),
            (i128::MIN, -170_141_183_460_469_231_731_687_303_715_884_105_728.0, Some(Equal)),
            (0, -0.0, Some(Equal)),
            (0, f64::NAN, None),
        ] {
            assert_eq!(order_exactly(a, b), wanted, "{a} {b}");
        }
    }
}
