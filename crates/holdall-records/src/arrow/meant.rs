//! Columns of values with a meaning, which keywords of the schema give: NumPy's texts and times, named values, decimal numbers.

use crate::gather::Values;
use crate::rules::ARROW;
use arrow_array::types as t;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, Decimal128Array, DictionaryArray, LargeStringArray,
    PrimitiveArray, StringArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, TimeUnit as Unit};
use holdall_core::Result;
use holdall_schema::calendar::day_of;
use holdall_schema::record::rules::RANGE;
use holdall_schema::{Kind, Len, Meaning, Scalar, TimeUnit, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// The keys in the metadata of a column with NumPy's name of its type, and with the kind and the names of its values.
const DESCR: &str = "numpy.descr";
const ENUM: &str = "hdf5.enum";
const ENUM_KIND: &str = "hdf5.enum.kind";

/// Returns `true` if an array is a map.
pub(super) fn is_map(of: &Type) -> bool {
    of.meaning.as_deref() == Some(&Meaning::Map)
}

/// Returns the entries of a map, from the structs that they are: keys are never null.
pub(super) fn entries(pairs: &Field) -> Field {
    let ty = match pairs.data_type() {
        DataType::Struct(members) => {
            let member = |(at, member): (usize, &Arc<Field>)| {
                Arc::new(Field::clone(member).with_nullable(at > 0))
            };
            DataType::Struct(members.iter().enumerate().map(member).collect())
        }
        other => other.clone(),
    };
    Field::new("entries", ty, false)
}

/// Returns the column of values of a type with a meaning; `None` for others, and for those that Arrow has no type for.
pub(super) fn field(of: &Type, name: &str, is_optional: bool) -> Option<Field> {
    let meaning = of.meaning.as_deref()?;
    let len = || match &of.kind {
        Kind::Array(array) => match array.len {
            Len::Fixed(len) => Some(len),
            Len::Variable { .. } => None,
        },
        _ => None,
    };
    let (key, said, ty) = match meaning {
        Meaning::Characters => (DESCR, format!("<U{}", len()?), DataType::LargeUtf8),
        Meaning::Bytes => (DESCR, format!("|S{}", len()?), DataType::LargeUtf8),
        Meaning::Time(count, unit) => {
            let ty = match unit {
                TimeUnit::Years | TimeUnit::Months | TimeUnit::Weeks | TimeUnit::Days => {
                    DataType::Date32
                }
                _ => DataType::Timestamp(of_times(*unit)?.0, None),
            };
            (DESCR, format!("<M8[{count}{}]", unit.as_str()), ty)
        }
        Meaning::Span(count, unit) => {
            let (own, _) = clock(*unit)?;
            (DESCR, format!("<m8[{count}{}]", unit.as_str()), DataType::Duration(own))
        }
        Meaning::Names(names) => {
            let names: serde_json::Map<String, serde_json::Value> = names
                .iter()
                .filter_map(|(name, n)| {
                    let n = i64::try_from(*n).map(Into::into).or(u64::try_from(*n).map(Into::into));
                    Some((name.to_string(), n.ok()?))
                })
                .collect();
            let ty = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
            let said = serde_json::Value::Object(names).to_string();
            let kind = HashMap::from([
                (ENUM.to_owned(), said),
                (ENUM_KIND.to_owned(), of.kind.as_str().to_owned()),
            ]);
            return Some(Field::new(name, ty, is_optional).with_metadata(kind));
        }
        Meaning::Decimal(digits, scale) => {
            let scale = i8::try_from(*scale).ok()?;
            let ty = DataType::Decimal128((*digits).max(1), scale);
            return Some(Field::new(name, ty, is_optional));
        }
        _ => return None,
    };
    // A time may be NaT, which is null.
    let is_time = matches!(meaning, Meaning::Time(..) | Meaning::Span(..));
    let field = Field::new(name, ty, is_optional || is_time);
    Some(field.with_metadata(HashMap::from([(key.to_owned(), said)])))
}

/// Returns the unit of Arrow for a unit of at most a week, and how many of it are one; `None` for units that it has none for.
fn clock(unit: TimeUnit) -> Option<(Unit, i64)> {
    Some(match unit {
        TimeUnit::Weeks => (Unit::Second, 7 * 86_400),
        TimeUnit::Days => (Unit::Second, 86_400),
        TimeUnit::Hours => (Unit::Second, 3600),
        TimeUnit::Minutes => (Unit::Second, 60),
        TimeUnit::Seconds => (Unit::Second, 1),
        TimeUnit::Milliseconds => (Unit::Millisecond, 1),
        TimeUnit::Microseconds => (Unit::Microsecond, 1),
        TimeUnit::Nanoseconds => (Unit::Nanosecond, 1),
        _ => return None,
    })
}

/// Does the same for times, of which Parquet has none in seconds.
fn of_times(unit: TimeUnit) -> Option<(Unit, i64)> {
    Some(match clock(unit)? {
        (Unit::Second, seconds) => (Unit::Millisecond, seconds.saturating_mul(1000)),
        own => own,
    })
}

/// Converts a column that [`field`] describes; returns `None` for other columns.
pub(super) fn array(
    field: &Field,
    values: &Values,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<Option<ArrayRef>> {
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    if let (DataType::Decimal128(digits, scale), Values::Binary64(offsets, bytes)) =
        (field.data_type(), values)
    {
        let meaning = Meaning::Decimal(*digits, u8::try_from(*scale).unwrap_or(0));
        let offsets: Vec<usize> = offsets
            .as_chunks::<8>()
            .0
            .iter()
            .map(|end| usize::try_from(i64::from_le_bytes(*end)).unwrap_or(0))
            .collect();
        let number = |row: usize| {
            if is_null(row) {
                return Ok(None);
            }
            let run = offsets.get(row).zip(offsets.get(row + 1));
            let run = run.and_then(|(start, end)| bytes.get(*start..*end)).unwrap_or_default();
            let text = String::from_utf8_lossy(run);
            let wrong =
                || RANGE.broken(format!("`{}` is not a decimal number", text.escape_debug()));
            meaning.parse(&text).ok_or_else(wrong).map(Some)
        };
        let numbers = (0..len).map(number).collect::<Result<Vec<Option<i128>>>>()?;
        let made = Decimal128Array::from(numbers).with_precision_and_scale(*digits, *scale);
        return Ok(Some(Arc::new(made.map_err(super::refused)?)));
    }
    let said = field.metadata();
    if let (Some(names), Values::Numbers(data)) = (said.get(ENUM), values) {
        let kind = said.get(ENUM_KIND).map_or("", String::as_str);
        return names_of(names, kind, data.as_ref(), len, &is_null).map(Some);
    }
    let Some(meaning) = said.get(DESCR).and_then(|descr| Meaning::from_descr(descr)) else {
        return Ok(None);
    };
    match (meaning, values) {
        (meaning @ (Meaning::Characters | Meaning::Bytes), Values::Fixed(below)) => {
            let Values::Numbers(data) = &below.values else { return Ok(None) };
            let (data, kind) = (data.as_ref(), Kind::String);
            let width = data.len().checked_div(len).unwrap_or(0);
            let text = |row: usize| {
                if is_null(row) {
                    return Ok(None);
                }
                let value = data.get(row * width..(row + 1) * width).unwrap_or_default();
                let wrong = || {
                    let name = field.name();
                    ARROW.broken(format!(
                        "column `{name}` has a value that is not text, in row {row}"
                    ))
                };
                meaning.text(&kind, value).ok_or_else(wrong).map(Some)
            };
            let texts = (0..len).map(text).collect::<Result<LargeStringArray>>()?;
            Ok(Some(Arc::new(texts)))
        }
        (Meaning::Time(count, unit) | Meaning::Span(count, unit), Values::Numbers(data)) => {
            let numbers = data.as_ref().as_chunks::<8>().0.iter().enumerate();
            let numbers = numbers.map(|(row, n)| {
                let n = i64::from_le_bytes(*n);
                (!is_null(row) && n != i64::MIN).then_some(n)
            });
            let convert = |n: i64| -> Option<i64> {
                let n = n.checked_mul(count.into())?;
                Some(match (field.data_type(), unit) {
                    (DataType::Date32, TimeUnit::Years | TimeUnit::Months) => {
                        let months = if unit == TimeUnit::Years { n.checked_mul(12)? } else { n };
                        let year = months.div_euclid(12).checked_add(1970)?;
                        let month = months.rem_euclid(12).checked_add(1)?;
                        day_of(i32::try_from(year).ok()?, u8::try_from(month).ok()?, 1)?
                    }
                    (DataType::Date32, TimeUnit::Weeks) => n.checked_mul(7)?,
                    (DataType::Date32, _) => n,
                    (DataType::Timestamp(..), _) => n.checked_mul(of_times(unit)?.1)?,
                    _ => n.checked_mul(clock(unit)?.1)?,
                })
            };
            let wrong = || RANGE.broken("a time is out of range for its Arrow type");
            let numbers = numbers.map(|n| n.map(|n| convert(n).ok_or_else(wrong)).transpose());
            let numbers = numbers.collect::<Result<Vec<Option<i64>>>>()?;
            Ok(Some(match field.data_type() {
                DataType::Date32 => {
                    let day = |n: Option<i64>| {
                        n.map(|n| i32::try_from(n).map_err(|_| wrong())).transpose()
                    };
                    let days = numbers.into_iter().map(day).collect::<Result<Vec<_>>>()?;
                    Arc::new(PrimitiveArray::<t::Date32Type>::from(days))
                }
                DataType::Timestamp(Unit::Millisecond, _) => {
                    made::<t::TimestampMillisecondType>(numbers)
                }
                DataType::Timestamp(Unit::Microsecond, _) => {
                    made::<t::TimestampMicrosecondType>(numbers)
                }
                DataType::Timestamp(..) => made::<t::TimestampNanosecondType>(numbers),
                DataType::Duration(Unit::Second) => made::<t::DurationSecondType>(numbers),
                DataType::Duration(Unit::Millisecond) => {
                    made::<t::DurationMillisecondType>(numbers)
                }
                DataType::Duration(Unit::Microsecond) => {
                    made::<t::DurationMicrosecondType>(numbers)
                }
                _ => made::<t::DurationNanosecondType>(numbers),
            }))
        }
        _ => Ok(None),
    }
}

fn made<T: ArrowPrimitiveType<Native = i64>>(numbers: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(numbers.into_iter().collect::<PrimitiveArray<T>>())
}

/// Returns the names of values. A value without a name is its number.
fn names_of(
    names: &str,
    kind: &str,
    data: &[u8],
    len: usize,
    is_null: &dyn Fn(usize) -> bool,
) -> Result<ArrayRef> {
    let names: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(names).unwrap_or_default();
    let is_signed = Scalar::from_name(kind).is_some_and(|scalar| scalar.as_str().starts_with('I'));
    let value = |n: &serde_json::Value| n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
    let (mut texts, mut places) = (Vec::new(), HashMap::new());
    for (name, n) in &names {
        if let Some(n) = value(n) {
            places.entry(n).or_insert(texts.len() as i32);
            texts.push(name.clone());
        }
    }
    let width = data.len().checked_div(len).unwrap_or(1).max(1);
    let mut keys = Vec::with_capacity(len);
    for (row, bytes) in data.chunks_exact(width).enumerate() {
        if is_null(row) {
            keys.push(None);
            continue;
        }
        let is_negative = is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut all = [if is_negative { 0xff } else { 0 }; 16];
        all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let n = i128::from_le_bytes(all);
        let key = *places.entry(n).or_insert_with(|| {
            texts.push(n.to_string());
            texts.len() as i32 - 1
        });
        keys.push(Some(key));
    }
    let keys = PrimitiveArray::<t::Int32Type>::from(keys);
    let made = DictionaryArray::try_new(keys, Arc::new(StringArray::from(texts)));
    Ok(Arc::new(made.map_err(super::refused)?))
}
