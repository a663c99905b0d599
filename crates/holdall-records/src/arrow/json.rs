//! Converts cells to JSON values, for columns whose type is not that of their member.

use arrow_array::cast::AsArray as _;
use arrow_array::types as t;
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use data_encoding::BASE64;
use holdall_core::Result;
use holdall_schema::calendar::date_of;
use holdall_schema::record::rules::{COUNT, RANGE, TYPE};
use serde_json::{Map, Value, json};

/// Returns the JSON value of a row. Members of structs that are null are left out. The recursion is bounded by the
/// depth of the column's type.
pub(crate) fn value(array: &dyn Array, row: usize) -> Result<Value> {
    macro_rules! of {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row)
        };
    }
    if matches!(array.data_type(), DataType::Dictionary(..)) && array.len() > 1 {
        // Reading a dictionary looks at all of its keys.
        return value(array.slice(row, 1).as_ref(), 0);
    }
    if array.logical_nulls().is_some_and(|n| n.is_null(row)) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => of!(t::Int8Type).into(),
        DataType::Int16 => of!(t::Int16Type).into(),
        DataType::Int32 => of!(t::Int32Type).into(),
        DataType::Int64 => of!(t::Int64Type).into(),
        DataType::UInt8 => of!(t::UInt8Type).into(),
        DataType::UInt16 => of!(t::UInt16Type).into(),
        DataType::UInt32 => of!(t::UInt32Type).into(),
        DataType::UInt64 => of!(t::UInt64Type).into(),
        DataType::Float16 => float(of!(t::Float16Type).to_f64()),
        DataType::Float32 => float(f64::from(of!(t::Float32Type))),
        DataType::Float64 => float(of!(t::Float64Type)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            time::<t::TimestampSecondType>(array, row, SECOND)?
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            time::<t::TimestampMillisecondType>(array, row, 1_000_000)?
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            time::<t::TimestampMicrosecondType>(array, row, 1000)?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            time::<t::TimestampNanosecondType>(array, row, 1)?
        }
        DataType::Date32 => time::<t::Date32Type>(array, row, DAY * SECOND)?,
        DataType::Date64 => time::<t::Date64Type>(array, row, 1_000_000)?,
        DataType::Struct(_) => {
            let columns = array.as_struct();
            let mut members = Map::new();
            for (name, column) in columns.column_names().into_iter().zip(columns.columns()) {
                let value = value(column.as_ref(), row)?;
                if !value.is_null() {
                    members.insert(name.to_owned(), value);
                }
            }
            Value::Object(members)
        }
        _ => {
            if let Some((values, rows)) = super::cells::lists(array) {
                let items = rows(row).map(|at| value(values, at));
                return items.collect::<Result<_>>().map(Value::Array);
            }
            if let Some(text) = super::cells::decimals(array) {
                return Ok(text(row).into());
            }
            if let DataType::Dictionary(..) = array.data_type()
                && super::cells::runs(array, false).is_none()
            {
                let all = array.as_any_dictionary();
                let key = all.normalized_keys().get(row).copied().unwrap_or_default();
                return value(all.values().as_ref(), key);
            }
            if let Some(text) = super::cells::runs(array, true) {
                return Ok(String::from_utf8_lossy(text(row)).into());
            }
            let bytes = super::cells::runs(array, false);
            let wrong = || {
                TYPE.broken(format!(
                    "values of the type {} cannot be converted to JSON",
                    array.data_type()
                ))
            };
            BASE64.encode(bytes.ok_or_else(wrong)?(row)).into()
        }
    })
}

/// Appends the JSON text of a row, with members in the order of the columns: see [`value`].
pub(super) fn write(array: &dyn Array, row: usize, out: &mut String) -> Result<()> {
    let is_null = |array: &dyn Array| array.logical_nulls().is_some_and(|n| n.is_null(row));
    if let (Some(columns), false) = (array.as_struct_opt(), is_null(array)) {
        let mut separator = '{';
        for (name, column) in columns.column_names().into_iter().zip(columns.columns()) {
            if column.data_type().is_null() || is_null(column.as_ref()) {
                continue;
            }
            out.push(separator);
            separator = ',';
            out.push_str(&Value::from(name).to_string());
            out.push(':');
            write(column.as_ref(), row, out)?;
        }
        out.push_str(if separator == '{' { "{}" } else { "}" });
        return Ok(());
    }
    if let (Some((values, rows)), false) = (super::cells::lists(array), is_null(array)) {
        out.push('[');
        for (at, item) in rows(row).enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(values, item, out)?;
        }
        out.push(']');
        return Ok(());
    }
    out.push_str(&value(array, row)?.to_string());
    Ok(())
}

/// Returns the JSON of a tensor from nested lists of its elements. Other values stay as they are.
pub(super) fn tensor(value: Value, dims: &[u64]) -> Result<Value> {
    fn flatten(value: Value, dims: &[u64], out: &mut Vec<Value>) -> Result<()> {
        let (Value::Array(items), [len, rest @ ..]) = (&value, dims) else {
            out.push(value);
            return Ok(());
        };
        if items.len() as u64 != *len {
            return Err(COUNT.broken(format!("expected {len} elements, found {}", items.len())));
        }
        let Value::Array(items) = value else { return Ok(()) };
        items.into_iter().try_for_each(|item| flatten(item, rest, out))
    }
    if !value.is_array() {
        return Ok(value);
    }
    let mut data = Vec::new();
    flatten(value, dims, &mut data)?;
    Ok(json!({ "data": data }))
}

fn float(x: f64) -> Value {
    let odd = if x.is_nan() {
        "nan"
    } else if x > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    serde_json::Number::from_f64(x).map_or_else(|| json!({ "$float": odd }), Value::Number)
}

/// Returns a time as text. Times without a zone are UTC.
fn time<T: ArrowPrimitiveType>(array: &dyn Array, row: usize, each: i128) -> Result<Value>
where
    T::Native: Into<i64>,
{
    let nanos = i128::from(array.as_primitive::<T>().value(row).into()) * each;
    let wrong = |_| RANGE.broken("the time is out of range for 64-bit nanoseconds");
    i64::try_from(nanos).map_err(wrong)?;
    let (seconds, nanos) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND));
    let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // At most 64 bits of nanoseconds have about 18 bits of days.
    let (year, month, day) = date_of(days as i64);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let date = format!("{year:04}-{month:02}-{day:02}");
    Ok(format!("{date}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z").into())
}

/// Nanoseconds in a second, and seconds in a day.
const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400;
