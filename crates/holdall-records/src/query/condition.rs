//! Conditions on records.

use super::pair::Pair;
use super::pattern::Pattern;
use super::written::{Operand, Written};
use crate::rules::CONDITION;
use crate::{Record, Records};
use holdall_core::error::Shown as _;
use holdall_core::{Error, Remedy, Result};
use holdall_io::select::nearest as nearest_name;
use holdall_schema::{
    Accessor, Encoder, Kind, Meaning, Path, Scalar, Schema, SchemaLimits, Type, Typed,
};
use serde_json::json;
use std::cmp::Ordering;
use std::sync::Arc;

/// A condition on the records of one dataset: see [`Records::condition`].
#[derive(Debug, Clone)]
pub struct Condition(Node);

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // Most are the large one.
enum Node {
    /// At least one condition holds.
    Any(Vec<Node>),
    /// All conditions hold.
    All(Vec<Node>),
    Not(Box<Node>),
    /// A test of one member.
    One(Accessor, Test),
    /// A comparison of two members.
    Two(Box<Pair>, Operator),
}

#[derive(Debug, Clone)]
enum Test {
    /// The member is present.
    There,
    Compare(Operator, Read),
    /// A text contains this text.
    Text(String),
    /// A text or the name of an enum value matches this pattern.
    Like(Pattern, Option<Padded>),
    /// A text of a fixed length contains this text.
    Padded(Padded, String),
    /// An array contains this element.
    Element(Accessor, Read),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How the member is read, and the value to compare it with.
#[derive(Debug, Clone)]
enum Read {
    Integer(Integer, i128),
    /// Compares an integer or a float as `f64`.
    Float(Typed<f64>, f64),
    Bool(Typed<bool>, bool),
    Enum(String),
    Text(String),
    Variant(String),
    Padded(Padded, String),
    /// A decimal number, in units of its last digit.
    Decimal(Arc<Meaning>, i128),
}

/// A text of a fixed length, which NumPy stores as numbers.
#[derive(Debug, Clone)]
pub(super) struct Padded(Arc<Meaning>, Kind);

impl Padded {
    pub(super) fn new(of: &Type) -> Option<Padded> {
        let meaning = of.meaning.as_ref()?;
        let is_text = matches!(**meaning, Meaning::Characters | Meaning::Bytes);
        is_text.then(|| Padded(meaning.clone(), of.kind.clone()))
    }

    /// Returns the text of a member; `None` if it is absent, or not a text.
    pub(super) fn text(&self, record: &Record<'_>, part: &Accessor) -> Result<Option<String>> {
        let found = record.part(part)?;
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

impl Condition {
    /// Resolves a parsed condition against the schema.
    pub(super) fn new(records: &Records, text: &str) -> Result<Condition> {
        Node::new(records, &Written::new(text)?).map(Condition)
    }

    /// Returns `true` if the condition holds for a record. A member that a record does not have is unequal to every
    /// value, neither less nor greater, and contains nothing.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::get`], [`Record::string`] and [`Record::elements`].
    pub fn holds(&self, record: &Record<'_>) -> Result<bool> {
        self.0.holds(record)
    }
}

impl Node {
    fn new(records: &Records, written: &Written<'_>) -> Result<Node> {
        let all = |all: &[Written<'_>]| -> Result<Vec<Node>> {
            all.iter().map(|one| Node::new(records, one)).collect()
        };
        Ok(match written {
            Written::Any(written) => Node::Any(all(written)?),
            Written::All(written) => Node::All(all(written)?),
            Written::Not(written) => Node::Not(Box::new(Node::new(records, written)?)),
            Written::There(path) => {
                let part = records.accessor(path)?;
                // A Boolean member alone tests its value, as in most query languages.
                match part.typed::<bool>() {
                    Ok(typed) => {
                        Node::One(part, Test::Compare(Operator::Equal, Read::Bool(typed, true)))
                    }
                    Err(_) => Node::One(part, Test::There),
                }
            }
            Written::Null(path) => {
                Node::Not(Box::new(Node::One(records.accessor(path)?, Test::There)))
            }
            Written::Compare(path, compare, operand) => {
                Node::compare(records, path, *compare, operand)?
            }
            Written::In(path, operands) => {
                let one = |operand| Node::compare(records, path, Operator::Equal, operand);
                Node::Any(operands.iter().map(one).collect::<Result<_>>()?)
            }
            Written::Like(path, pattern) => {
                let part = records.accessor(path)?;
                let of = records.schema().ty(part.ty());
                let (kind, padded) = (&of.kind, Padded::new(of));
                if !matches!(kind, Kind::String | Kind::Enum(_)) && padded.is_none() {
                    let (path, kind) = (path.shown(), kind.as_str());
                    let message =
                        format!("`{path}` is a `TypeDef:{kind}`; `like` needs text or an enum");
                    return Err(CONDITION.broken(message));
                }
                Node::One(part, Test::Like(Pattern::new(pattern)?, padded))
            }
            Written::Contains(path, value) => {
                let part = records.accessor(path)?;
                let of = records.schema().ty(part.ty());
                let test = match &of.kind {
                    Kind::String => Test::Text(value.clone().into_owned()),
                    _ if let Some(padded) = Padded::new(of) => {
                        Test::Padded(padded, value.clone().into_owned())
                    }
                    Kind::Array(array) => {
                        let element = records.element_accessor(&part, "")?;
                        let read = Read::new(&element, records.schema().ty(array.items), value)?;
                        Test::Element(element, read)
                    }
                    kind => {
                        let (path, kind) = (path.shown(), kind.as_str());
                        let message = format!(
                            "`{path}` is a `TypeDef:{kind}`; `contains` needs text or an array: \
                             compare a single value with `=` or `in`"
                        );
                        return Err(CONDITION.broken(message));
                    }
                };
                Node::One(part, test)
            }
        })
    }

    /// Compares a member with a value or with another member.
    fn compare(
        records: &Records,
        path: &str,
        operator: Operator,
        operand: &Operand<'_>,
    ) -> Result<Node> {
        let part = records.accessor(path)?;
        let of = records.schema().ty(part.ty());
        let kind = &of.kind;
        let found = match operand {
            Operand::Value(value) => Read::new(&part, of, value),
            Operand::Bare(value) => Read::new(&part, of, value),
            Operand::Member(other) => {
                return Ok(Node::Two(
                    Box::new(Pair::new(records, path, other, operator)?),
                    operator,
                ));
            }
        };
        let read = match (found, operand) {
            (Ok(read), _) => read,
            (Err(_), Operand::Bare(other))
                if !other.is_empty() && records.accessor(other).is_ok() =>
            {
                return Ok(Node::Two(
                    Box::new(Pair::new(records, path, other, operator)?),
                    operator,
                ));
            }
            (Err(e), _) => return Err(e),
        };
        let is_ordered = !matches!(read, Read::Bool(..) | Read::Enum(_) | Read::Variant(_));
        if !is_ordered && !operator.is_equality() {
            return Err(no_order(path, kind));
        }
        Ok(Node::One(part, Test::Compare(operator, read)))
    }

    fn holds(&self, record: &Record<'_>) -> Result<bool> {
        match self {
            Node::Any(all) => Node::any_child(all, record, true),
            Node::All(all) => Ok(!Node::any_child(all, record, false)?),
            Node::Not(inner) => Ok(!inner.holds(record)?),
            Node::One(part, Test::There) => record.is_present(part),
            Node::One(part, Test::Compare(compare, read)) => {
                Ok(compare.holds(read.order(record, part)?))
            }
            Node::One(part, Test::Text(wanted)) => {
                Ok(record.string(part)?.is_some_and(|text| text.contains(wanted.as_str())))
            }
            Node::One(part, Test::Like(pattern, None)) => pattern.matches_member(record, part),
            Node::One(part, Test::Like(pattern, Some(padded))) => {
                Ok(padded.text(record, part)?.is_some_and(|text| pattern.matches(&text)))
            }
            Node::Two(pair, operator) => Ok(operator.holds(pair.order(record)?)),
            Node::One(part, Test::Padded(padded, wanted)) => {
                Ok(padded.text(record, part)?.is_some_and(|text| text.contains(wanted.as_str())))
            }
            Node::One(part, Test::Element(element, read)) => {
                let Some(all) = record.elements(part)? else { return Ok(false) };
                for one in all.iter() {
                    if read.order(&one, element)? == Some(Ordering::Equal) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Returns `wanted` if any of the conditions evaluates to `wanted`; stops at the first one that does.
    fn any_child(all: &[Node], record: &Record<'_>, wanted: bool) -> Result<bool> {
        for one in all {
            if one.holds(record)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the error for a member that is compared by its order, which its kind lacks.
pub(super) fn no_order(path: &str, kind: &Kind) -> Error {
    let (path, kind) = (path.shown(), kind.as_str());
    CONDITION.broken(format!("`{path}` is a `TypeDef:{kind}`, which has no order: use `=` or `!=`"))
}

impl Operator {
    /// Returns `true` for `=` and `!=`.
    pub(super) fn is_equality(self) -> bool {
        matches!(self, Operator::Equal | Operator::NotEqual)
    }

    /// `order` is `None` if the member is absent or is NaN.
    fn holds(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else { return self == Operator::NotEqual };
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Read {
    fn new(part: &Accessor, of: &Type, value: &str) -> Result<Read> {
        let kind = &of.kind;
        let wrong = |what: &str| {
            CONDITION.broken(format!("expected {what}, found `{}`", value.escape_debug()))
        };
        if let Some(padded) = Padded::new(of) {
            return Ok(Read::Padded(padded, value.to_owned()));
        }
        if let Some(integer) = Integer::from_accessor(part) {
            let value = match kind {
                Kind::Scalar(Scalar::Timestamp) => {
                    time(value).ok_or_else(|| wrong("a time, as 2024-05-01T12:00:00Z"))?
                }
                _ => match &of.meaning {
                    None => value.parse().map_err(|_| wrong("a whole number"))?,
                    Some(meaning) => {
                        let known = meaning.parse(value).or_else(|| value.parse().ok());
                        known.ok_or_else(|| wrong(meaning.expected()))?
                    }
                },
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
            Kind::String if let Some(meaning) = &of.meaning => {
                let number = meaning.parse(value).ok_or_else(|| wrong(meaning.expected()))?;
                Ok(Read::Decimal(meaning.clone(), number))
            }
            Kind::String => Ok(Read::Text(text)),
            Kind::Enum(e) if e.index_of(value).is_some() => Ok(Read::Enum(text)),
            Kind::Enum(e) => {
                let all = e.values.iter().map(|value| &**value);
                Err(or_like(wrong("one of the enum's values"), value, all))
            }
            Kind::Union(union) if union.tag(value).is_some() => Ok(Read::Variant(text)),
            Kind::Union(union) => {
                let all = union.variants.iter().map(|variant| &*variant.key);
                Err(or_like(wrong("the key of a variant"), value, all))
            }
            other => {
                let kind = other.as_str();
                Err(CONDITION.broken(format!("a `TypeDef:{kind}` cannot be compared with a value")))
            }
        }
    }

    /// Compares the member with the value.
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
            Read::Decimal(meaning, value) => {
                let found = record.string(part)?.and_then(|found| meaning.parse(&found));
                found.map(|found| found.cmp(value))
            }
            Read::Padded(padded, value) => {
                padded.text(record, part)?.map(|found| found.as_str().cmp(value))
            }
        })
    }
}

impl Integer {
    pub(super) fn from_accessor(part: &Accessor) -> Option<Integer> {
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

/// Returns the number of this kind that is nearest to `value`, so that a printed value finds the member it came from.
/// Returns `None` if no number of the kind is near.
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

/// Parses a time as nanoseconds since 1970.
fn time(text: &str) -> Option<i128> {
    let json = json!({"TypeDef:Timestamp": true});
    let limits = SchemaLimits::default();
    let schema = Schema::compile_record(&json, &limits).ok()?;
    let mut bytes = [0; 8];
    let mut encoder = Encoder::new(&schema, schema.record()?, &limits).ok()?;
    encoder.value(&text.into(), &mut bytes, &mut Vec::new()).ok()?;
    Some(i64::from_le_bytes(bytes).into())
}

/// Adds a hint to the error: the most similar value, or a list of the possible values if there are few.
fn or_like<'a>(e: Error, given: &str, all: impl Iterator<Item = &'a str> + Clone) -> Error {
    if let Some(near) = nearest_name(given, all.clone()) {
        return e.with_remedy(Remedy::did_you_mean(near));
    }
    let listed: Vec<_> =
        all.clone().take(LISTED).map(|value| format!("`{}`", value.shown())).collect();
    let more = if all.count() > LISTED { ", …" } else { "" };
    e.with_hint(format!("available: {}{more}", listed.join(", ")))
}

/// Largest number of an enum's values to list.
const LISTED: usize = 12;
