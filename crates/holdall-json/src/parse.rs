//! Parsing whole values.

use crate::error::{Escape as _, Result};
use crate::{DUPLICATE_KEY, NUMBER, Number, Reader, Token};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// Parses JSON text that nests at most `max_depth` levels deep. Keys must be unique. A number with a point or an
/// exponent, or of more than 64 bits, becomes the nearest double.
///
/// # Errors
/// Returns the errors of [`Reader`], [`DUPLICATE_KEY`] if an object has the same key twice, and [`NUMBER`] if a number
/// is too large for a double.
pub fn parse(text: &[u8], max_depth: usize) -> Result<Value> {
    parse_at(text, 0, max_depth)
}

/// Parses JSON text like [`parse`]. Errors give byte ranges for a text that starts at `offset` in the file.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn parse_at(text: &[u8], offset: u64, max_depth: usize) -> Result<Value> {
    let mut reader = Reader::new(text, offset, max_depth)?;
    let mut scratch = String::new();
    let value = read(&mut reader, &mut scratch)?;
    reader.end()?;
    Ok(value)
}

/// Reads any value. The reader limits the depth of the recursion.
fn read(reader: &mut Reader<'_>, scratch: &mut String) -> Result<Value> {
    match reader.peek()? {
        Token::Null => reader.null().map(|()| Value::Null),
        Token::Bool => reader.bool().map(Value::Bool),
        Token::String => Ok(Value::String(reader.string(scratch)?.to_owned())),
        Token::Number => {
            let start = reader.offset();
            let number = reader.number()?;
            read_number(number).map_err(|e| e.at(start..reader.offset()))
        }
        Token::Array => {
            let mut items = Vec::new();
            reader.begin_array()?;
            while reader.next_item()? {
                items.push(read(reader, scratch)?);
            }
            Ok(Value::Array(items))
        }
        Token::Object => {
            let start = reader.offset();
            let mut members = Map::new();
            reader.begin_object()?;
            while let Some(key) = reader.next_key(scratch)? {
                match members.entry(key) {
                    Entry::Vacant(entry) => {
                        entry.insert(read(reader, scratch)?);
                    }
                    Entry::Occupied(_) => {
                        let message = format!("the key `{}` appears twice", key.escaped());
                        return Err(DUPLICATE_KEY.broken(message).at(start..reader.offset()));
                    }
                }
            }
            Ok(Value::Object(members))
        }
    }
}

/// Returns an integer if the number fits in 64 bits, and otherwise the nearest double.
#[inline]
fn read_number(number: Number<'_>) -> Result<Value> {
    if number.is_integer && number.text != "-0" {
        if let Ok(n) = number.text.parse::<u64>() {
            return Ok(n.into());
        }
        if let Ok(n) = number.text.parse::<i64>() {
            return Ok(n.into());
        }
    }
    match number.text.parse::<f64>() {
        // serde_json's numbers can only hold finite floats.
        Ok(x) if x.is_finite() => Ok(x.into()),
        _ => Err(NUMBER.broken("the number is too large for a double")),
    }
}
