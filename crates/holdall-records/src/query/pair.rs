//! Comparing two members of a record with each other.

use super::condition::{Operator, no_order};
use super::reader::MemberReader;
use crate::rules::CONDITION;
use crate::{Record, Records};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_schema::{Accessor, Meaning};
use std::cmp::Ordering;

/// Two members that are compared with each other.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    left: Side,
    right: Side,
}

#[derive(Debug, Clone)]
struct Side {
    part: Accessor,
    read: MemberReader,
    /// The unit or scale of numbers that have one; only numbers with the same are compared.
    unit: Option<Meaning>,
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
        if pair.left.family() != pair.right.family() || pair.left.unit != pair.right.unit {
            let [a, b] = [&pair.left, &pair.right].map(|side| kind(side).as_str());
            let (left, right) = (left.escaped(), right.escaped());
            let message = format!(
                "`{left}` is a `TypeDef:{a}` and `{right}` a `TypeDef:{b}`: expected two numbers, two times, two \
                 Booleans or two texts, of the same unit or scale"
            );
            return Err(CONDITION.broken(message));
        }
        if !operator.is_equality() {
            for (path, side) in [(left, &pair.left), (right, &pair.right)] {
                if !side.read.is_ordered() {
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
        let Some(left) = self.left.read.value(record, &self.left.part)? else { return Ok(None) };
        let Some(right) = self.right.read.value(record, &self.right.part)? else { return Ok(None) };
        Ok(left.order(&right))
    }
}

impl Side {
    fn new(records: &Records, path: &str) -> Result<Side> {
        let part = records.accessor(path)?;
        let ty = records.schema().ty(part.ty());
        let read = MemberReader::new(records, &part).ok_or_else(|| {
            let (path, kind) = (path.escaped(), ty.kind.as_str());
            CONDITION.broken(format!("`{path}` is a `TypeDef:{kind}`, which cannot be compared"))
        })?;
        let unit = match (&read, ty.meaning.as_deref()) {
            (MemberReader::Padded(_), _) => None,
            // The number of digits makes no difference.
            (_, Some(Meaning::Decimal(_, scale))) => Some(Meaning::Decimal(0, *scale)),
            (_, meaning) => meaning.cloned(),
        };
        Ok(Side { part, read, unit })
    }

    fn family(&self) -> Family {
        match self.read {
            MemberReader::Integer(_) | MemberReader::Float(_) | MemberReader::Decimal(_) => {
                Family::Number
            }
            MemberReader::Time(_) => Family::Time,
            MemberReader::Bool(_) => Family::Bool,
            MemberReader::Text
            | MemberReader::Padded(_)
            | MemberReader::Enum
            | MemberReader::Variant => Family::Text,
        }
    }
}
