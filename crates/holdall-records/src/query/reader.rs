//! Reads the values of members that conditions, sorts and aggregates work with.

use crate::{Record, Records};
use holdall_core::Result;
use holdall_schema::{Accessor, Kind, Meaning, Scalar, Type, Typed};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// How the value of a member is read.
#[derive(Debug, Clone)]
pub(super) enum MemberReader {
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

/// The value of a member.
#[derive(Debug, Clone)]
pub(super) enum MemberValue<'r> {
    /// Integers, times, Booleans, and decimal numbers in units of their last digit.
    Integer(i128),
    Float(f64),
    /// Texts, names of enum values and keys of variants.
    Text(Cow<'r, str>),
}

impl MemberReader {
    /// Returns the reader of a member; `None` if its values cannot be compared.
    pub(super) fn new(records: &Records, accessor: &Accessor) -> Option<MemberReader> {
        let ty = records.schema().ty(accessor.ty());
        Some(match &ty.kind {
            _ if let Some(padded) = Padded::new(ty) => MemberReader::Padded(padded),
            Kind::String => match &ty.meaning {
                Some(meaning) => MemberReader::Decimal(meaning.clone()),
                None => MemberReader::Text,
            },
            Kind::Enum(_) => MemberReader::Enum,
            Kind::Union(_) => MemberReader::Variant,
            kind => match (Integer::from_accessor(accessor), accessor.typed(), accessor.typed()) {
                (Some(integer), ..) if matches!(kind, Kind::Scalar(Scalar::Timestamp)) => {
                    MemberReader::Time(integer)
                }
                (Some(integer), ..) => MemberReader::Integer(integer),
                (_, Ok(float), _) => MemberReader::Float(float),
                (.., Ok(bool)) => MemberReader::Bool(bool),
                _ => return None,
            },
        })
    }

    /// Returns the reader of a text or of the names of an enum; `None` for other types.
    pub(super) fn for_text(ty: &Type) -> Option<MemberReader> {
        match &ty.kind {
            Kind::String => Some(MemberReader::Text),
            Kind::Enum(_) => Some(MemberReader::Enum),
            _ => Padded::new(ty).map(MemberReader::Padded),
        }
    }

    /// Returns the text of the member; `None` if the record does not have it, or its value is not a text.
    ///
    /// # Errors
    /// Returns the errors of [`Record::string`] and [`Record::enum_value`].
    pub(super) fn text<'r>(
        &self,
        record: &'r Record<'_>,
        accessor: &'r Accessor,
    ) -> Result<Option<Cow<'r, str>>> {
        Ok(match self.value(record, accessor)? {
            Some(MemberValue::Text(text)) => Some(text),
            _ => None,
        })
    }

    /// Returns `false` for values that are only equal or not: Booleans, enum values and variants.
    pub(super) fn is_ordered(&self) -> bool {
        !matches!(self, MemberReader::Bool(_) | MemberReader::Enum | MemberReader::Variant)
    }

    /// Returns the value of the member; `None` if the record does not have it, or a decimal number is not one.
    ///
    /// # Errors
    /// Returns the errors of [`Record::get`], [`Record::string`], [`Record::enum_value`] and [`Record::variant`].
    pub(super) fn value<'r>(
        &self,
        record: &'r Record<'_>,
        accessor: &'r Accessor,
    ) -> Result<Option<MemberValue<'r>>> {
        let text = |name: &'r str| MemberValue::Text(name.into());
        Ok(match self {
            MemberReader::Integer(integer) | MemberReader::Time(integer) => {
                integer.read(record)?.map(MemberValue::Integer)
            }
            MemberReader::Float(typed) => record.get(typed)?.map(MemberValue::Float),
            MemberReader::Bool(typed) => {
                record.get(typed)?.map(|found| MemberValue::Integer(found.into()))
            }
            MemberReader::Text => record.string(accessor)?.map(MemberValue::Text),
            MemberReader::Padded(padded) => {
                padded.text(record, accessor)?.map(|text| MemberValue::Text(text.into()))
            }
            MemberReader::Decimal(meaning) => {
                let number = record.string(accessor)?.and_then(|text| meaning.parse(&text));
                number.map(MemberValue::Integer)
            }
            MemberReader::Enum => record.enum_value(accessor)?.map(text),
            MemberReader::Variant => record.variant(accessor)?.map(text),
        })
    }
}

/// A text of a fixed length, which NumPy stores as numbers.
#[derive(Debug, Clone)]
pub(super) struct Padded(Arc<Meaning>, Kind);

impl Padded {
    pub(super) fn new(ty: &Type) -> Option<Padded> {
        let meaning = ty.meaning.as_ref()?;
        let is_text = matches!(**meaning, Meaning::Characters | Meaning::Bytes);
        is_text.then(|| Padded(meaning.clone(), ty.kind.clone()))
    }

    /// Returns the text of a member; `None` if it is absent, or not a text.
    pub(super) fn text(&self, record: &Record<'_>, accessor: &Accessor) -> Result<Option<String>> {
        let found = record.part(accessor)?;
        Ok(found.and_then(|found| self.0.text(&self.1, found.bytes())))
    }
}

/// Accessors for every kind of integer and for times.
#[derive(Debug, Clone)]
pub(super) enum Integer {
    I8(Typed<i8>),
    I16(Typed<i16>),
    I32(Typed<i32>),
    I64(Typed<i64>),
    U8(Typed<u8>),
    U16(Typed<u16>),
    U32(Typed<u32>),
    U64(Typed<u64>),
}

impl Integer {
    pub(super) fn from_accessor(accessor: &Accessor) -> Option<Integer> {
        accessor
            .typed()
            .map(Integer::I64)
            .or_else(|_| accessor.typed().map(Integer::I32))
            .or_else(|_| accessor.typed().map(Integer::U8))
            .or_else(|_| accessor.typed().map(Integer::U32))
            .or_else(|_| accessor.typed().map(Integer::U64))
            .or_else(|_| accessor.typed().map(Integer::U16))
            .or_else(|_| accessor.typed().map(Integer::I16))
            .or_else(|_| accessor.typed().map(Integer::I8))
            .ok()
    }

    pub(super) fn read(&self, record: &Record<'_>) -> Result<Option<i128>> {
        Ok(match self {
            Integer::I8(typed) => record.get(typed)?.map(i128::from),
            Integer::I16(typed) => record.get(typed)?.map(i128::from),
            Integer::I32(typed) => record.get(typed)?.map(i128::from),
            Integer::I64(typed) => record.get(typed)?.map(i128::from),
            Integer::U8(typed) => record.get(typed)?.map(i128::from),
            Integer::U16(typed) => record.get(typed)?.map(i128::from),
            Integer::U32(typed) => record.get(typed)?.map(i128::from),
            Integer::U64(typed) => record.get(typed)?.map(i128::from),
        })
    }
}

impl MemberValue<'_> {
    /// Compares two values of one kind, and integers with floats exactly; returns `None` for NaN and for other kinds.
    pub(super) fn order(&self, other: &MemberValue<'_>) -> Option<Ordering> {
        match (self, other) {
            (MemberValue::Integer(a), MemberValue::Integer(b)) => Some(a.cmp(b)),
            (MemberValue::Integer(a), MemberValue::Float(b)) => order_exactly(*a, *b),
            (MemberValue::Float(a), MemberValue::Integer(b)) => {
                order_exactly(*b, *a).map(Ordering::reverse)
            }
            (MemberValue::Float(a), MemberValue::Float(b)) => a.partial_cmp(b),
            (MemberValue::Text(a), MemberValue::Text(b)) => Some(a.cmp(b)),
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
