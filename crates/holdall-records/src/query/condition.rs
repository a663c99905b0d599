//! Conditions on records.

use super::pair::Pair;
use super::pattern::Pattern;
use super::reader::{MemberReader, MemberValue};
use super::written::{Operand, Written};
use crate::rules::CONDITION;
use crate::{Record, Records};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Remedy, Result};
use holdall_io::select::nearest as nearest_name;
use holdall_schema::{Accessor, Encoder, Kind, Path, Schema, SchemaLimits};
use serde_json::json;
use std::cmp::Ordering;

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
    IsPresent,
    Compare(Operator, Read),
    /// A text contains this text.
    Contains(MemberReader, String),
    /// A text or the name of an enum value matches this pattern.
    Like(MemberReader, Pattern),
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
struct Read {
    reader: MemberReader,
    wanted: MemberValue<'static>,
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
            Written::IsPresent(path) => {
                let part = records.accessor(path)?;
                // A Boolean member alone tests its value, as in most query languages.
                match part.typed::<bool>() {
                    Ok(typed) => Node::One(
                        part,
                        Test::Compare(
                            Operator::Equal,
                            Read {
                                reader: MemberReader::Bool(typed),
                                wanted: MemberValue::Integer(1),
                            },
                        ),
                    ),
                    Err(_) => Node::One(part, Test::IsPresent),
                }
            }
            Written::Null(path) => {
                Node::Not(Box::new(Node::One(records.accessor(path)?, Test::IsPresent)))
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
                let ty = records.schema().ty(part.ty());
                let Some(reader) = MemberReader::for_text(ty) else {
                    let (path, kind) = (path.escaped(), ty.kind.as_str());
                    let message =
                        format!("`{path}` is a `TypeDef:{kind}`; `like` needs text or an enum");
                    return Err(CONDITION.broken(message));
                };
                Node::One(part, Test::Like(reader, Pattern::new(pattern)?))
            }
            Written::Contains(path, value) => {
                let part = records.accessor(path)?;
                let ty = records.schema().ty(part.ty());
                let test = match &ty.kind {
                    kind if !matches!(kind, Kind::Enum(_))
                        && let Some(reader) = MemberReader::for_text(ty) =>
                    {
                        Test::Contains(reader, value.clone().into_owned())
                    }
                    Kind::Array(_) => {
                        let element = records.element_accessor(&part, "")?;
                        let read = Read::new(records, &element, value)?;
                        Test::Element(element, read)
                    }
                    kind => {
                        let (path, kind) = (path.escaped(), kind.as_str());
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
        let ty = records.schema().ty(part.ty());
        let kind = &ty.kind;
        let found = match operand {
            Operand::Value(value) => Read::new(records, &part, value),
            Operand::Bare(value) => Read::new(records, &part, value),
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
        if !read.reader.is_ordered() && !operator.is_equality() {
            return Err(no_order(path, kind));
        }
        Ok(Node::One(part, Test::Compare(operator, read)))
    }

    fn holds(&self, record: &Record<'_>) -> Result<bool> {
        match self {
            Node::Any(all) => Node::any_child(all, record, true),
            Node::All(all) => Ok(!Node::any_child(all, record, false)?),
            Node::Not(inner) => Ok(!inner.holds(record)?),
            Node::One(part, Test::IsPresent) => record.is_present(part),
            Node::One(part, Test::Compare(compare, read)) => {
                Ok(compare.holds(read.order(record, part)?))
            }
            Node::One(part, Test::Contains(reader, wanted)) => {
                Ok(reader.text(record, part)?.is_some_and(|text| text.contains(wanted.as_str())))
            }
            Node::One(part, Test::Like(reader, pattern)) => {
                Ok(reader.text(record, part)?.is_some_and(|text| pattern.matches(&text)))
            }
            Node::Two(pair, operator) => Ok(operator.holds(pair.order(record)?)),
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
    let (path, kind) = (path.escaped(), kind.as_str());
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
    fn new(records: &Records, part: &Accessor, value: &str) -> Result<Read> {
        let ty = records.schema().ty(part.ty());
        let wrong = |what: &str| {
            CONDITION.broken(format!("expected {what}, found `{}`", value.escape_debug()))
        };
        let reader = MemberReader::new(records, part).ok_or_else(|| {
            let kind = ty.kind.as_str();
            CONDITION.broken(format!("a `TypeDef:{kind}` cannot be compared with a value"))
        })?;
        let text = || MemberValue::Text(value.to_owned().into());
        let wanted = match (&reader, &ty.kind) {
            (MemberReader::Time(_), _) => {
                let time = time(value).ok_or_else(|| wrong("a time, as 2024-05-01T12:00:00Z"));
                MemberValue::Integer(time?)
            }
            (MemberReader::Integer(_), _) => MemberValue::Integer(match &ty.meaning {
                None => value.parse().map_err(|_| wrong("a whole number"))?,
                Some(meaning) => {
                    let known = meaning.parse(value).or_else(|| value.parse().ok());
                    known.ok_or_else(|| wrong(meaning.expected()))?
                }
            }),
            (MemberReader::Float(_), kind) => {
                let value = value.parse().map_err(|_| wrong("a number"))?;
                MemberValue::Float(nearest(kind, value).unwrap_or(value))
            }
            (MemberReader::Bool(_), _) => match value {
                "true" | "1" => MemberValue::Integer(1),
                "false" | "0" => MemberValue::Integer(0),
                _ => return Err(wrong("true or false")),
            },
            (MemberReader::Decimal(meaning), _) => {
                let number = meaning.parse(value).ok_or_else(|| wrong(meaning.expected()));
                MemberValue::Integer(number?)
            }
            (_, Kind::Enum(e)) if e.index_of(value).is_none() => {
                let all = e.values.iter().map(|value| &**value);
                return Err(or_like(wrong("one of the enum's values"), value, all));
            }
            (_, Kind::Union(union)) if union.tag(value).is_none() => {
                let all = union.variants.iter().map(|variant| &*variant.key);
                return Err(or_like(wrong("the key of a variant"), value, all));
            }
            _ => text(),
        };
        Ok(Read { reader, wanted })
    }

    /// Compares the member with the value; `None` if it is absent or is NaN.
    fn order(&self, record: &Record<'_>, part: &Accessor) -> Result<Option<Ordering>> {
        Ok(self.reader.value(record, part)?.and_then(|found| found.order(&self.wanted)))
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
        all.clone().take(LISTED).map(|value| format!("`{}`", value.escaped())).collect();
    let more = if all.count() > LISTED { ", …" } else { "" };
    e.with_hint(format!("available: {}{more}", listed.join(", ")))
}

/// Largest number of an enum's values to list.
const LISTED: usize = 12;
