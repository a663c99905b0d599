//! Attribute values as JSON, without loss: writing and reading.

use super::{Attributes, Value};
use crate::error::{Error, Escape as _, Remedy, Result};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use holdall_json::{DUPLICATE_KEY, NUMBER, Number, Reader, Token, duplicate, write_string};
use std::fmt::{self, Write as _};

impl Value {
    /// Returns the value as JSON text, without loss. A value that JSON cannot represent becomes an object with one key
    /// that starts with `$`: `{"$bytes": hex}`, `{"$float": "nan" | "inf" | "-inf" | hex of the bits}`,
    /// `{"$tag": [n, value]}`, `{"$simple": n}`, `{"$undefined": true}`, and `{"$map": [[key, value], …]}` for a map
    /// with a key that is not text or starts with `$`.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    /// Appends [`Value::to_json`] to `out`.
    pub fn write_json(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Value::Null => out.write_str("null"),
            Value::Undefined => out.write_str("{\"$undefined\":true}"),
            Value::Bool(b) => write!(out, "{b}"),
            Value::Integer(i) => write!(out, "{i}"),
            Value::Float(x) => write_float(*x, out),
            Value::Bytes(bytes) => {
                out.push_str("{\"$bytes\":\"");
                HEXLOWER.encode_append(bytes, out);
                out.write_str("\"}")
            }
            Value::Text(s) => {
                write_string(s, out);
                Ok(())
            }
            Value::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.write_str("]")
            }
            Value::Map(pairs) => write_map(pairs, out),
            Value::Tag(tag, value) => {
                let _ = write!(out, "{{\"$tag\":[{tag},");
                value.write_json(out);
                out.write_str("]}")
            }
            Value::Simple(n) => write!(out, "{{\"$simple\":{n}}}"),
        };
    }

    /// Parses JSON text: the output of [`Value::to_json`], or any other JSON. `max_depth` limits the nesting of the
    /// text.
    ///
    /// A number with a point or an exponent becomes a float, and so does an integer that exceeds 64 bits.
    ///
    /// # Errors
    /// Returns the errors of [`Reader`], [`DUPLICATE_KEY`] if an object has the same key twice, and [`LOSSLESS`] if an
    /// object has a key that starts with `$` but is not one of the forms listed at [`Value::to_json`].
    pub fn from_json(text: &str, max_depth: usize) -> Result<Value> {
        let mut reader = Reader::new(text.as_bytes(), 0, max_depth)?;
        let value = Value::read_json(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    /// Reads any value; see [`Value::from_json`]. The reader limits the depth of the recursion.
    ///
    /// # Errors
    /// Returns the errors of [`Value::from_json`].
    pub fn read_json(reader: &mut Reader<'_>) -> Result<Value> {
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
                    items.push(Value::read_json(reader)?);
                }
                Ok(Value::Array(items))
            }
            Token::Object => read_object(reader),
        }
    }

    /// Checks that [`Value::from_json`] would read the output of [`Value::to_json`] back unchanged, and that the value
    /// nests at most `depth` arrays, maps and tags.
    ///
    /// # Errors
    /// Returns [`NOT_JSON`] if it would not.
    pub fn check_json(&self, depth: usize) -> Result<()> {
        let inner = depth.saturating_sub(1);
        match self {
            Value::Array(_) | Value::Map(_) | Value::Tag(..) if depth == 0 => {
                let e = NOT_JSON.broken("the value is nested too deeply to be read back");
                return Err(e.with_remedy(Remedy::DropAttributes));
            }
            Value::Integer(n) if !(MIN_INTEGER..=MAX_INTEGER).contains(n) => {
                return Err(NOT_JSON.broken(format!("the integer {n} is outside -2^64..2^64")));
            }
            Value::Array(items) => items.iter().try_for_each(|item| item.check_json(inner))?,
            Value::Tag(_, item) => item.check_json(inner)?,
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    key.check_json(inner)?;
                    value.check_json(inner)?;
                }
                let keys: Vec<String> = pairs.iter().map(|(k, _)| k.to_json()).collect();
                if let Some(key) = duplicate(keys.iter().map(String::as_str)) {
                    let message = format!("a map has the key {} twice", key.escaped());
                    return Err(NOT_JSON.broken(message));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Attributes {
    /// Returns the attributes as one JSON object; see [`Value::to_json`]. Keys are written unchanged.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (i, (k, v)) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_string(k, &mut out);
            out.push(':');
            v.write_json(&mut out);
        }
        out.push('}');
        out
    }

    /// Parses attributes from one JSON object, as written by [`Attributes::to_json`]. The object's own keys are taken
    /// unchanged, even if they start with `$`.
    ///
    /// # Errors
    /// Returns the errors of [`Value::from_json`].
    pub fn from_json(text: &str, max_depth: usize) -> Result<Attributes> {
        let mut reader = Reader::new(text.as_bytes(), 0, max_depth)?;
        let attributes = Attributes::read_json(&mut reader)?;
        reader.end()?;
        Ok(attributes)
    }

    /// Reads an object as attributes; see [`Attributes::from_json`].
    ///
    /// # Errors
    /// Returns the errors of [`Value::from_json`].
    pub fn read_json(reader: &mut Reader<'_>) -> Result<Attributes> {
        let start = reader.offset();
        let mut scratch = String::new();
        let mut attributes = Attributes::new();
        reader.begin_object()?;
        while let Some(key) = reader.next_key(&mut scratch)? {
            let key = key.to_owned();
            attributes.push(key, Value::read_json(reader)?);
        }
        match duplicate(attributes.iter().map(|(k, _)| k)) {
            Some(key) => Err(twice(key, start, reader)),
            None => Ok(attributes),
        }
    }
}

fn write_float(x: f64, out: &mut String) -> fmt::Result {
    if x.is_finite() {
        // `{:?}` keeps the point (1.0, not 1), so a float stays a float, and round-trips.
        write!(out, "{x:?}")
    } else if x.is_infinite() {
        write!(out, "{{\"$float\":\"{}\"}}", if x > 0.0 { "inf" } else { "-inf" })
    } else if x.to_bits() == f64::NAN.to_bits() {
        out.write_str("{\"$float\":\"nan\"}")
    } else {
        write!(out, "{{\"$float\":\"{:016x}\"}}", x.to_bits())
    }
}

fn write_map(pairs: &[(Value, Value)], out: &mut String) -> fmt::Result {
    let plain = pairs.iter().all(|(k, _)| k.as_text().is_some_and(|k| !k.starts_with('$')));
    out.push_str(if plain { "{" } else { "{\"$map\":[" });
    for (i, (k, v)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if !plain {
            out.push('[');
        }
        k.write_json(out);
        out.push(if plain { ':' } else { ',' });
        v.write_json(out);
        if !plain {
            out.push(']');
        }
    }
    out.write_str(if plain { "}" } else { "]}" })
}

fn owned_string(reader: &mut Reader<'_>) -> Result<String> {
    let mut scratch = String::new();
    let text = reader.string(&mut scratch)?;
    Ok(text.to_owned())
}

/// The range of numbers that are read as integers.
const MIN_INTEGER: i128 = -(1 << 64);
const MAX_INTEGER: i128 = (1 << 64) - 1;

fn read_number(number: Number<'_>) -> Result<Value> {
    let text = number.text;
    let integer = text.parse::<i128>().ok().filter(|i| (MIN_INTEGER..=MAX_INTEGER).contains(i));
    if let Some(i) = integer.filter(|_| number.is_integer && text != "-0") {
        return Ok(Value::Integer(i));
    }
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(Value::Float(x)),
        _ => Err(NUMBER.broken("the number is too large for a double")),
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
                let message =
                    format!("expected `{}` to be the only key of its object", key.escaped());
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
        pairs.push((key, Value::read_json(reader)?));
    }
    match duplicate(pairs.iter().filter_map(|(k, _)| k.as_text())) {
        Some(key) => Err(twice(key, start, reader)),
        None => Ok(Value::Map(pairs)),
    }
}

/// Reads the value of `{form: …}`, or returns `None` if the form is unknown or its value is invalid.
fn read_form(form: &str, reader: &mut Reader<'_>) -> Result<Option<Value>> {
    Ok(match form {
        "$undefined" => reader.bool()?.then_some(Value::Undefined),
        "$bytes" => {
            let bytes = HEXLOWER_PERMISSIVE.decode(owned_string(reader)?.as_bytes());
            bytes.ok().map(Value::Bytes)
        }
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
                match read_pair(reader, Value::read_json)? {
                    Some(pair) => pairs.push(pair),
                    None => return Ok(None),
                }
            }
            // Keys of any type are equal if their JSON text is.
            let keys: Vec<String> = pairs.iter().map(|(k, _)| k.to_json()).collect();
            if let Some(key) = duplicate(keys.iter().map(String::as_str)) {
                let message = format!("the key {} appears twice", key.escaped());
                return Err(DUPLICATE_KEY.broken(message));
            }
            Some(Value::Map(pairs))
        }
        _ => None,
    })
}

/// Reads an array of exactly two items: the first with `first`, the second as any value.
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
    let b = Value::read_json(reader)?;
    Ok((!reader.next_item()?).then_some((a, b)))
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
    let message = format!("unknown key `{}`, or invalid value for it", form.escaped());
    LOSSLESS.broken(message).at(start..reader.offset())
}

#[cold]
fn twice(key: &str, start: u64, reader: &Reader<'_>) -> Error {
    let message = format!("the key `{}` appears twice", key.escaped());
    DUPLICATE_KEY.broken(message).at(start..reader.offset())
}

crate::error::rules! {
    /// The rules of attribute values as JSON.
    pub static RULES;

    /// An object with a `$` key does not represent an attribute value.
    pub LOSSLESS: Malformed "json/lossless"
        "An object with a key that starts with `$` is one of the forms for values that JSON \
         lacks.";
    /// A value to be written as JSON would not be read back unchanged.
    pub NOT_JSON: Misuse "json/not-json"
        "A value to be written as JSON can be read back unchanged: integers from -2^64 to 2^64 - 1, unique keys, and no deeper nesting than readers allow.";
}
