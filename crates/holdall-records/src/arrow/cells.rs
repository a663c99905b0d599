//! Converts cells of Arrow columns to values of records. The type of a column is examined once; the returned function
//! then converts each row.

use super::element::Element;
use arrow_array::Array;
use arrow_array::cast::AsArray as _;
use arrow_array::types as t;
use arrow_schema::{DataType, TimeUnit};
use holdall_core::Result;
use holdall_schema::TensorDType;
use holdall_schema::record::rules::RANGE;
use std::ops::Range;

/// Writes the number of a row into its bytes in a record.
pub(super) type Number<'a> = Box<dyn Fn(usize, &mut [u8]) -> Result<()> + 'a>;
/// Returns the text or the bytes of a row.
pub(super) type Bytes<'a> = Box<dyn Fn(usize) -> &'a [u8] + 'a>;
/// Returns the range of the elements of a row.
pub(super) type Elements<'a> = Box<dyn Fn(usize) -> Range<usize> + 'a>;

type Integer<'a> = Box<dyn Fn(usize) -> i128 + 'a>;

/// Returns a converter for a column of numbers, or `None` unless its type is that of `element` or a type with a subset
/// of its values.
pub(super) fn numbers(array: &dyn Array, element: Element) -> Option<Number<'_>> {
    macro_rules! integer {
        ($ty:ty) => {{
            let cell = integers(array)?;
            Some(Box::new(move |row, out: &mut [u8]| {
                let n = cell(row);
                let wrong = |_| RANGE.broken(format!("{n} is out of range for its kind"));
                copy(out, &<$ty>::try_from(n).map_err(wrong)?.to_le_bytes());
                Ok(())
            }))
        }};
    }
    macro_rules! float {
        ($($arrow:ty),+ => $ty:ty) => {{
            $(if let Some(a) = array.as_primitive_opt::<$arrow>() {
                return Some(Box::new(move |row, out: &mut [u8]| {
                    copy(out, &<$ty>::from(a.value(row)).to_le_bytes());
                    Ok(())
                }));
            })+
            None
        }};
    }
    if matches!(array.data_type(), DataType::Dictionary(..)) {
        let all = array.as_any_dictionary();
        let value = numbers(all.values().as_ref(), element)?;
        let keys = if all.values().is_empty() { Vec::new() } else { all.normalized_keys() };
        return Some(Box::new(move |row, out: &mut [u8]| {
            keys.get(row).map_or(Ok(()), |key| value(*key, out))
        }));
    }
    if let Some(text) = decimals(array).filter(|_| is_float(element)) {
        return Some(Box::new(move |row, out: &mut [u8]| {
            let text = text(row);
            let wrong = |_| RANGE.broken(format!("{text} is out of range for its kind"));
            let number: f64 = text.parse().map_err(wrong)?;
            // Both are of the same bits as the nearest number of their kind.
            match element {
                Element::Of(TensorDType::F32) => {
                    copy(out, &text.parse().unwrap_or(number as f32).to_le_bytes());
                }
                _ => copy(out, &number.to_le_bytes()),
            }
            Ok(())
        }));
    }
    match element {
        Element::Timestamp => times(array),
        Element::Of(TensorDType::I8) => integer!(i8),
        Element::Of(TensorDType::I16) => integer!(i16),
        Element::Of(TensorDType::I32) => integer!(i32),
        Element::Of(TensorDType::I64) => integer!(i64),
        Element::Of(TensorDType::U8) => integer!(u8),
        Element::Of(TensorDType::U16) => integer!(u16),
        Element::Of(TensorDType::U32) => integer!(u32),
        Element::Of(TensorDType::U64) => integer!(u64),
        Element::Of(TensorDType::F16) => float!(t::Float16Type => half::f16),
        Element::Of(TensorDType::F32) => float!(t::Float32Type, t::Float16Type => f32),
        Element::Of(TensorDType::F64) => {
            float!(t::Float64Type, t::Float32Type, t::Float16Type => f64)
        }
        Element::Of(TensorDType::Bool) => {
            let a = array.as_boolean_opt()?;
            Some(Box::new(move |row, out: &mut [u8]| {
                copy(out, &[u8::from(a.value(row))]);
                Ok(())
            }))
        }
        own => {
            let a = array.as_fixed_size_binary_opt()?;
            if a.value_length() as usize != own.width() {
                return None;
            }
            Some(Box::new(move |row, out: &mut [u8]| {
                copy(out, a.value(row));
                Ok(())
            }))
        }
    }
}

/// Returns the bytes of a column whose values are stored as records store them.
pub(super) fn plain(array: &dyn Array, element: Element) -> Option<&[u8]> {
    if cfg!(target_endian = "big") {
        return None;
    }
    macro_rules! of {
        ($($ty:ty),+) => {{
            $(if let Some(a) = array.as_primitive_opt::<$ty>() {
                return Some(a.values().inner().as_slice());
            })+
        }};
    }
    match (element, array.data_type()) {
        (Element::Timestamp, DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            of!(t::TimestampNanosecondType);
        }
        (Element::Timestamp, _) => {}
        (element, found) if element.own_type().as_ref() == Some(found) => of!(
            t::Int8Type,
            t::Int16Type,
            t::Int32Type,
            t::Int64Type,
            t::UInt8Type,
            t::UInt16Type,
            t::UInt32Type,
            t::UInt64Type,
            t::Float16Type,
            t::Float32Type,
            t::Float64Type
        ),
        _ => {}
    }
    None
}

/// Returns a reader of texts, or of bytes if those are accepted, including values in a dictionary.
pub(super) fn runs(array: &dyn Array, is_text: bool) -> Option<Bytes<'_>> {
    macro_rules! of {
        ($array:expr) => {{
            let a = $array;
            Some(Box::new(move |row| AsRef::<[u8]>::as_ref(a.value(row))))
        }};
    }
    match array.data_type() {
        DataType::Utf8 => of!(array.as_string::<i32>()),
        DataType::LargeUtf8 => of!(array.as_string::<i64>()),
        DataType::Utf8View => of!(array.as_string_view()),
        DataType::Binary if !is_text => of!(array.as_binary::<i32>()),
        DataType::LargeBinary if !is_text => of!(array.as_binary::<i64>()),
        DataType::BinaryView if !is_text => of!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) if !is_text => of!(array.as_fixed_size_binary()),
        // Never called, because every row is null.
        DataType::Null => Some(Box::new(|_| &[])),
        DataType::Dictionary(_, _) => {
            let all = array.as_any_dictionary();
            let values = runs(all.values().as_ref(), is_text)?;
            // If there are no values, all rows are null and there are no keys to normalize.
            let keys = if all.values().is_empty() { Vec::new() } else { all.normalized_keys() };
            Some(Box::new(move |row| keys.get(row).map_or(&[][..], |key| values(*key))))
        }
        _ => None,
    }
}

fn is_float(element: Element) -> bool {
    matches!(element, Element::Of(TensorDType::F32 | TensorDType::F64))
}

/// Returns the text of a decimal number.
pub(super) type Texts<'a> = Box<dyn Fn(usize) -> String + 'a>;

/// Returns a reader of decimal numbers as texts.
pub(super) fn decimals(array: &dyn Array) -> Option<Texts<'_>> {
    macro_rules! of {
        ($ty:ty) => {{
            let a = array.as_primitive::<$ty>();
            Some(Box::new(move |row| a.value_as_string(row)))
        }};
    }
    match array.data_type() {
        DataType::Decimal32(..) => of!(t::Decimal32Type),
        DataType::Decimal64(..) => of!(t::Decimal64Type),
        DataType::Decimal128(..) => of!(t::Decimal128Type),
        DataType::Decimal256(..) => of!(t::Decimal256Type),
        DataType::Dictionary(_, values) if values.is_decimal() => {
            let all = array.as_any_dictionary();
            let value = decimals(all.values().as_ref())?;
            let keys = if all.values().is_empty() { Vec::new() } else { all.normalized_keys() };
            Some(Box::new(move |row| keys.get(row).map_or_else(String::new, |key| value(*key))))
        }
        _ => None,
    }
}

/// Returns the elements of all lists, and a function that returns the range of the elements of a row. The elements of
/// maps are structs of a key and a value.
pub(super) fn lists(array: &dyn Array) -> Option<(&dyn Array, Elements<'_>)> {
    fn at<N: Copy + TryInto<usize>>(offsets: &[N], row: usize) -> Range<usize> {
        let end = |at: usize| offsets.get(at).and_then(|n| (*n).try_into().ok()).unwrap_or(0);
        end(row)..end(row + 1)
    }
    match array.data_type() {
        DataType::List(_) => {
            let a = array.as_list::<i32>();
            Some((a.values().as_ref(), Box::new(|row| at(a.value_offsets(), row))))
        }
        DataType::LargeList(_) => {
            let a = array.as_list::<i64>();
            Some((a.values().as_ref(), Box::new(|row| at(a.value_offsets(), row))))
        }
        DataType::FixedSizeList(_, count) => {
            let a = array.as_fixed_size_list();
            let count = usize::try_from(*count).unwrap_or(0);
            Some((a.values().as_ref(), Box::new(move |row| row * count..(row + 1) * count)))
        }
        DataType::Map(..) => {
            let a = array.as_map();
            Some((a.entries(), Box::new(|row| at(a.value_offsets(), row))))
        }
        _ => None,
    }
}

fn integers(array: &dyn Array) -> Option<Integer<'_>> {
    macro_rules! of {
        ($ty:ty) => {{
            let a = array.as_primitive::<$ty>();
            Some(Box::new(move |row| i128::from(a.value(row))))
        }};
    }
    match array.data_type() {
        DataType::Int8 => of!(t::Int8Type),
        DataType::Int16 => of!(t::Int16Type),
        DataType::Int32 => of!(t::Int32Type),
        DataType::Int64 => of!(t::Int64Type),
        DataType::UInt8 => of!(t::UInt8Type),
        DataType::UInt16 => of!(t::UInt16Type),
        DataType::UInt32 => of!(t::UInt32Type),
        DataType::UInt64 => of!(t::UInt64Type),
        _ => None,
    }
}

/// Returns a converter to nanoseconds since 1970. Times without a zone are UTC.
fn times(array: &dyn Array) -> Option<Number<'_>> {
    macro_rules! of {
        ($ty:ty) => {{
            let a = array.as_primitive::<$ty>();
            Box::new(move |row| i128::from(a.value(row)))
        }};
    }
    const SECOND: i128 = 1_000_000_000;
    let (cell, each): (Integer<'_>, i128) = match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => (of!(t::TimestampSecondType), SECOND),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            (of!(t::TimestampMillisecondType), 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => (of!(t::TimestampMicrosecondType), 1000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (of!(t::TimestampNanosecondType), 1),
        DataType::Date32 => (of!(t::Date32Type), 86_400 * SECOND),
        DataType::Date64 => (of!(t::Date64Type), 1_000_000),
        _ => return None,
    };
    Some(Box::new(move |row, out| {
        let wrong = |_| RANGE.broken("the time is out of range for 64-bit nanoseconds");
        copy(out, &i64::try_from(cell(row) * each).map_err(wrong)?.to_le_bytes());
        Ok(())
    }))
}

pub(super) fn copy(out: &mut [u8], bytes: &[u8]) {
    out.iter_mut().zip(bytes).for_each(|(slot, b)| *slot = *b);
}
