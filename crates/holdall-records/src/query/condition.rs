//! What must hold of a record.

use crate::rules::CONDITION;
use crate::{Record, Records};
use holdall_core::Result;
use holdall_schema::{Accessor, Encoder, Kind, Path, Scalar, Schema, SchemaLimits, Typed};
use serde_json::json;
use std::cmp::Ordering;

/// A condition on the records of one dataset: see [`Records::condition`].
#[derive(Debug, Clone)]
pub struct Condition {
    part: Accessor,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// It is there, or not.
    There(bool),
    Compare(Compare, Read),
}

/// How a member and a value compare where the condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How the member is read, and the value it is compared with.
#[derive(Debug, Clone)]
enum Read {
    Integer(Integer, i128),
    /// The value of a float against an integer or a float.
    Float(Typed<f64>, f64),
    Bool(Typed<bool>, bool),
    Enum(String),
    Text(String),
    Variant(String),
}

/// Every kind of integer, and times.
#[derive(Debug, Clone)]
enum Integer {
    I8(Typed<i8>),
    I16(Typed<i16>),
    I32(Typed<i32>),
    I64(Typed<i64>),
    U8(Typed<u8>),
    U16(Typed<u16>),
    U32(Typed<u32>),
    U64(Typed<u64>),
}

impl Condition {
    /// Reads `stars>=4`, `image`, `!image`.
    pub(super) fn new(records: &Records, text: &str) -> Result<Condition> {
        let Some((path, compare, value)) = split(text) else {
            let (path, wanted) = match text.strip_prefix('!') {
                Some(path) => (path, false),
                None => (text, true),
            };
            let path = named(path, text)?;
            return Ok(Condition { part: records.accessor(path)?, test: Test::There(wanted) });
        };
        let part = records.accessor(named(path, text)?)?;
        let read = Read::new(&part, &records.schema().ty(part.ty()).kind, value)?;
        let is_ordered = !matches!(read, Read::Bool(..) | Read::Enum(_) | Read::Variant(_));
        if !is_ordered && !matches!(compare, Compare::Equal | Compare::NotEqual) {
            let kind = records.schema().ty(part.ty()).kind.as_str();
            let message = format!(
                "a `TypeDef:{kind}` has no order, only `=` and `!=`: `{}`",
                text.escape_debug()
            );
            return Err(CONDITION.broken(message));
        }
        Ok(Condition { part, test: Test::Compare(compare, read) })
    }

    /// Whether it holds of a record. A member that a record does not have is unequal to every value, and
    /// neither less nor greater.
    ///
    /// # Errors
    /// As [`Record::get`] and [`Record::string`].
    pub fn holds(&self, record: &Record<'_>) -> Result<bool> {
        match &self.test {
            Test::There(wanted) => Ok(record.is_there(&self.part)? == *wanted),
            Test::Compare(compare, read) => {
                let order = read.order(record, &self.part)?;
                Ok(compare.holds(order))
            }
        }
    }
}

/// The member that a condition is about. Without one it would be the whole record, which is always there.
fn named<'p>(path: &'p str, text: &str) -> Result<&'p str> {
    match path.trim() {
        "" => Err(CONDITION.broken(format!("`{}` names no member", text.escape_debug()))),
        path => Ok(path),
    }
}

/// The member, the sign and the value; the first sign counts.
fn split(text: &str) -> Option<(&str, Compare, &str)> {
    let at = text.find(['=', '!', '<', '>']).filter(|at| *at > 0)?;
    let (path, rest) = text.split_at(at);
    let signs = [
        ("!=", Compare::NotEqual),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("==", Compare::Equal),
        ("=", Compare::Equal),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];
    let found = signs.iter().find_map(|(sign, c)| Some((*c, rest.strip_prefix(sign)?)));
    found.map(|(compare, value)| (path.trim(), compare, value.trim()))
}

impl Compare {
    /// `order` is `None` where there is no value, or it is not a number.
    fn holds(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else { return self == Compare::NotEqual };
        match self {
            Compare::Equal => order.is_eq(),
            Compare::NotEqual => order.is_ne(),
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            Compare::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Read {
    fn new(part: &Accessor, kind: &Kind, value: &str) -> Result<Read> {
        let wrong =
            |what: &str| CONDITION.broken(format!("`{}` is not {what}", value.escape_debug()));
        if let Some(integer) = Integer::of(part) {
            let value = match kind {
                Kind::Scalar(Scalar::Timestamp) => {
                    time(value).ok_or_else(|| wrong("a time, as 2024-05-01T12:00:00Z"))?
                }
                _ => value.parse().map_err(|_| wrong("a whole number"))?,
            };
            return Ok(Read::Integer(integer, value));
        }
        if let Ok(typed) = part.typed::<f64>() {
            let value = value.parse().map_err(|_| wrong("a number"))?;
            return Ok(Read::Float(typed, nearest(kind, value).unwrap_or(value)));
        }
        if let Ok(typed) = part.typed::<bool>() {
            let value = match value {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return Err(wrong("true or false")),
            };
            return Ok(Read::Bool(typed, value));
        }
        let text = value.to_owned();
        match kind {
            Kind::String => Ok(Read::Text(text)),
            Kind::Enum(e) if e.place(value).is_some() => Ok(Read::Enum(text)),
            Kind::Enum(_) => Err(wrong("one of the enum's values")),
            Kind::Union(union) if union.tag(value).is_some() => Ok(Read::Variant(text)),
            Kind::Union(_) => Err(wrong("the key of a variant")),
            other => {
                let kind = other.as_str();
                Err(CONDITION.broken(format!("a `TypeDef:{kind}` cannot be compared with a value")))
            }
        }
    }

    /// How the member compares with the value.
    fn order(&self, record: &Record<'_>, part: &Accessor) -> Result<Option<Ordering>> {
        Ok(match self {
            Read::Integer(integer, value) => integer.read(record)?.map(|found| found.cmp(value)),
            Read::Float(typed, value) => {
                record.get(typed)?.and_then(|found| found.partial_cmp(value))
            }
            Read::Bool(typed, value) => record.get(typed)?.map(|found| found.cmp(value)),
            Read::Text(value) => record.string(part)?.map(|found| (*found).cmp(value)),
            Read::Enum(value) => record.enum_value(part)?.map(|found| found.cmp(value)),
            Read::Variant(value) => record.variant(part)?.map(|found| found.cmp(value)),
        })
    }
}

impl Integer {
    fn of(part: &Accessor) -> Option<Integer> {
        part.typed()
            .map(Integer::I64)
            .or_else(|_| part.typed().map(Integer::I32))
            .or_else(|_| part.typed().map(Integer::U8))
            .or_else(|_| part.typed().map(Integer::U32))
            .or_else(|_| part.typed().map(Integer::U64))
            .or_else(|_| part.typed().map(Integer::U16))
            .or_else(|_| part.typed().map(Integer::I16))
            .or_else(|_| part.typed().map(Integer::I8))
            .ok()
    }

    fn read(&self, record: &Record<'_>) -> Result<Option<i128>> {
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

/// The number of a kind that is nearest: what is printed of a member is what finds it. `None` where the kind
/// has none that is near.
fn nearest(kind: &Kind, value: f64) -> Option<f64> {
    let limits = SchemaLimits::default();
    let json = json!({ format!("TypeDef:{}", kind.as_str()): true });
    let schema = Schema::compile_record(&json, &limits).ok()?;
    let ty = schema.record()?;
    let mut bytes = [0; 8];
    let bytes = bytes.get_mut(..usize::try_from(schema.extent(ty).ok()?.size).ok()?)?;
    let mut encoder = Encoder::new(&schema, ty, &limits).ok()?;
    encoder.value(&json!(value), bytes, &mut Vec::new()).ok()?;
    schema.accessor(ty, &Path::root()).ok()?.typed::<f64>().ok()?.read(bytes).ok()?
}

/// Nanoseconds since 1970.
fn time(text: &str) -> Option<i128> {
    let json = json!({"TypeDef:Timestamp": true});
    let limits = SchemaLimits::default();
    let schema = Schema::compile_record(&json, &limits).ok()?;
    let mut bytes = [0; 8];
    let mut encoder = Encoder::new(&schema, schema.record()?, &limits).ok()?;
    encoder.value(&text.into(), &mut bytes, &mut Vec::new()).ok()?;
    Some(i64::from_le_bytes(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart_at_their_first_sign() {
        assert_eq!(split("a.b>=4"), Some(("a.b", Compare::GreaterOrEqual, "4")));
        assert_eq!(split("a = x=y"), Some(("a", Compare::Equal, "x=y")));
        assert_eq!(split("a!=<b>"), Some(("a", Compare::NotEqual, "<b>")));
        assert_eq!(split("a<3"), Some(("a", Compare::Less, "3")));
        assert_eq!(split("a="), Some(("a", Compare::Equal, "")));
        assert_eq!(split("image"), None);
        assert_eq!(split("!image"), None);
    }
}
