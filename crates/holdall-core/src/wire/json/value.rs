//! Attribute values back from the lossless JSON they are written as.

use super::{
    DUPLICATE_KEY, LOSSLESS, NOT_JSON, NUMBER, Number, Reader, Token, duplicate, hex_digit,
};
use crate::error::{Error, Result, Shown as _};
use crate::model::{Attributes, Value};

impl Value {
    /// The value of JSON text: what [`Value::to_json`] wrote, or any other JSON. `max_depth` bounds
    /// the nesting of the text.
    ///
    /// A number with a point or an exponent is a float, and so is an integer that passes 64 bits.
    ///
    /// # Errors
    /// Those of [`Reader`]; [`DUPLICATE_KEY`]; [`LOSSLESS`] for an object with a key that starts
    /// with `$` but is none of the forms listed at [`Value::to_json`].
    pub fn from_json(text: &str, max_depth: usize) -> Result<Value> {
        let mut reader = Reader::new(text.as_bytes(), 0, max_depth)?;
        let value = read_value(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

impl Attributes {
    /// The attributes of one JSON object, as [`Attributes::to_json`] writes it: its own keys stand
    /// as they are, even those that start with `$`.
    ///
    /// # Errors
    /// As [`Value::from_json`].
    pub fn from_json(text: &str, max_depth: usize) -> Result<Attributes> {
        let mut reader = Reader::new(text.as_bytes(), 0, max_depth)?;
        let attributes = read_attributes(&mut reader)?;
        reader.end()?;
        Ok(attributes)
    }
}

/// Takes an object as attributes; see [`Attributes::from_json`].
///
/// # Errors
/// As [`Value::from_json`].
pub fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes> {
    let start = reader.offset();
    let mut scratch = String::new();
    let mut attributes = Attributes::new();
    reader.begin_object()?;
    while let Some(key) = reader.next_key(&mut scratch)? {
        let key = key.to_owned();
        attributes.push(key, read_value(reader)?);
    }
    match duplicate(attributes.iter().map(|(k, _)| k)) {
        Some(key) => Err(twice(key, start, reader)),
        None => Ok(attributes),
    }
}

/// Takes any value; see [`Value::from_json`]. Recursion is bounded by the reader's depth.
///
/// # Errors
/// As [`Value::from_json`].
pub fn read_value(reader: &mut Reader<'_>) -> Result<Value> {
    match reader.peek()? {
        Token::Null => reader.null().map(|()| Value::Null),
        Token::Bool => reader.bool().map(Value::Bool),
        Token::Number => {
            let start = reader.offset();
            let number = reader.number()?;
            read_number(number).map_err(|e| e.at(start..reader.offset()))
        }
        Token::String => Ok(Value::Text(owned_string(reader)?)),
        Token::Array => {
            let mut items = Vec::new();
            reader.begin_array()?;
            while reader.next_item()? {
                items.push(read_value(reader)?);
            }
            Ok(Value::Array(items))
        }
        Token::Object => read_object(reader),
    }
}

fn owned_string(reader: &mut Reader<'_>) -> Result<String> {
    let mut scratch = String::new();
    let text = reader.string(&mut scratch)?;
    Ok(text.to_owned())
}

/// Checks that `value`, at most `depth` arrays, maps and tags deep, is read back as it is from what
/// [`Value::to_json`] gives.
///
/// # Errors
/// [`NOT_JSON`].
pub fn check(value: &Value, depth: usize) -> Result<()> {
    let inner = depth.saturating_sub(1);
    match value {
        Value::Array(_) | Value::Map(_) | Value::Tag(..) if depth == 0 => {
            return Err(NOT_JSON.broken("it nests too deep to be read back"));
        }
        Value::Integer(n) if !(LEAST..=MOST).contains(n) => {
            return Err(NOT_JSON.broken(format!("the integer {n} is not in -2^64..2^64")));
        }
        Value::Array(items) => items.iter().try_for_each(|item| check(item, inner))?,
        Value::Tag(_, item) => check(item, inner)?,
        Value::Map(pairs) => {
            for (key, value) in pairs {
                check(key, inner)?;
                check(value, inner)?;
            }
            let keys: Vec<String> = pairs.iter().map(|(k, _)| k.to_json()).collect();
            if let Some(key) = duplicate(keys.iter().map(String::as_str)) {
                let message = format!("a map has the key {} twice", key.shown());
                return Err(NOT_JSON.broken(message));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Integers that are not floats.
const LEAST: i128 = -(1 << 64);
const MOST: i128 = (1 << 64) - 1;

fn read_number(number: Number<'_>) -> Result<Value> {
    let text = number.text;
    let integer = text.parse::<i128>().ok().filter(|i| (LEAST..=MOST).contains(i));
    if let Some(i) = integer.filter(|_| number.is_integer && text != "-0") {
        return Ok(Value::Integer(i));
    }
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(Value::Float(x)),
        _ => Err(NUMBER.broken("the number passes the range of a double")),
    }
}

fn read_object(reader: &mut Reader<'_>) -> Result<Value> {
    let start = reader.offset();
    let mut scratch = String::new();
    let mut pairs = Vec::new();
    reader.begin_object()?;
    while let Some(key) = reader.next_key(&mut scratch)? {
        if key.starts_with('$') {
            if !pairs.is_empty() {
                let message = format!("`{}` among other keys", key.shown());
                return Err(LOSSLESS.broken(message).at(start..reader.offset()));
            }
            let form = key.to_owned();
            let value = read_form(&form, reader)
                .map_err(|e| e.at(start..reader.offset()))?
                .ok_or_else(|| not_a_form(&form, start, reader))?;
            return match reader.next_key(&mut scratch)? {
                None => Ok(value),
                Some(_) => Err(not_a_form(&form, start, reader)),
            };
        }
        let key = Value::Text(key.to_owned());
        pairs.push((key, read_value(reader)?));
    }
    match duplicate(pairs.iter().filter_map(|(k, _)| k.as_text())) {
        Some(key) => Err(twice(key, start, reader)),
        None => Ok(Value::Map(pairs)),
    }
}

/// The value that `{form: …}` stands for; `None` when it stands for none.
fn read_form(form: &str, reader: &mut Reader<'_>) -> Result<Option<Value>> {
    Ok(match form {
        "$undefined" => reader.bool()?.then_some(Value::Undefined),
        "$bytes" => read_hex(&owned_string(reader)?).map(Value::Bytes),
        "$float" => read_float(&owned_string(reader)?).map(Value::Float),
        "$simple" => u8::try_from(reader.u64()?).ok().map(Value::Simple),
        "$tag" => {
            let pair = read_pair(reader, |r| r.u64())?;
            pair.map(|(tag, value)| Value::Tag(tag, Box::new(value)))
        }
        "$map" => {
            let mut pairs = Vec::new();
            reader.begin_array()?;
            while reader.next_item()? {
                match read_pair(reader, read_value)? {
                    Some(pair) => pairs.push(pair),
                    None => return Ok(None),
                }
            }
            // Keys of any type: two are the same when their text is.
            let keys: Vec<String> = pairs.iter().map(|(k, _)| k.to_json()).collect();
            if let Some(key) = duplicate(keys.iter().map(String::as_str)) {
                let message = format!("the key {} comes twice", key.shown());
                return Err(DUPLICATE_KEY.broken(message));
            }
            Some(Value::Map(pairs))
        }
        _ => None,
    })
}

/// An array of exactly two: the first taken by `first`, then any value.
fn read_pair<T>(
    reader: &mut Reader<'_>,
    first: impl FnOnce(&mut Reader<'_>) -> Result<T>,
) -> Result<Option<(T, Value)>> {
    reader.begin_array()?;
    if !reader.next_item()? {
        return Ok(None);
    }
    let a = first(reader)?;
    if !reader.next_item()? {
        return Ok(None);
    }
    let b = read_value(reader)?;
    Ok((!reader.next_item()?).then_some((a, b)))
}

fn read_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some((hex_digit(high)? << 4) | hex_digit(low)?)).collect()
}

fn read_float(text: &str) -> Option<f64> {
    match text {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ if text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(text, 16).ok().map(f64::from_bits)
        }
        _ => None,
    }
}

#[cold]
fn not_a_form(form: &str, start: u64, reader: &Reader<'_>) -> Error {
    let message = format!("`{}` with this value stands for nothing", form.shown());
    LOSSLESS.broken(message).at(start..reader.offset())
}

#[cold]
fn twice(key: &str, start: u64, reader: &Reader<'_>) -> Error {
    let message = format!("the key `{}` comes twice", key.shown());
    DUPLICATE_KEY.broken(message).at(start..reader.offset())
}
