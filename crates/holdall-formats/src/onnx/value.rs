//! The inputs and outputs of a graph, and the other values of a model besides its weights.

use super::{TEXT, name_of};
use holdall_collections::HashMap;
use holdall_core::error::{Error, Remedy, Result};
use holdall_core::model::Value;
use holdall_core::wire::protobuf::{Field, Fields};

/// The pairs of a map. If a key occurs more than once, the last value counts, as in protocol buffers.
#[derive(Default)]
pub(super) struct Pairs {
    all: Vec<(Value, Value)>,
    indices: HashMap<String, usize>,
}

impl Pairs {
    pub(super) fn set(&mut self, key: String, value: Value) {
        match self.indices.get(&key).and_then(|at| self.all.get_mut(*at)) {
            Some((_, old)) => *old = value,
            None => {
                self.all.push((Value::Text(key.clone()), value));
                self.indices.insert(key, self.all.len().saturating_sub(1));
            }
        }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Map(self.all)
    }
}

/// Returns an input or an output: name, element type and shape, as far as the message in `bytes` states them.
///
/// # Errors
/// Returns [`BROKEN`](holdall_core::wire::protobuf::BROKEN) for an invalid message.
pub(super) fn described(bytes: &[u8]) -> Result<Value> {
    let (mut name, mut message) = (String::new(), &b""[..]);
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => name = lossy(bytes),
            (2, Field::Bytes(bytes)) => message = bytes,
            _ => {}
        }
    }
    let mut pairs = Pairs::default();
    pairs.set("name".to_owned(), Value::Text(name));
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.next()? {
        let kind = match number {
            1 => "tensor",
            4 => "sequence",
            5 => "map",
            8 => "sparse_tensor",
            9 => "optional",
            _ => continue,
        };
        if kind != "tensor" {
            pairs.set("kind".to_owned(), Value::Text(kind.to_owned()));
        }
        if matches!(number, 1 | 8) {
            tensor(field.bytes().unwrap_or_default(), &mut pairs)?;
        }
    }
    Ok(pairs.into_value())
}

fn tensor(bytes: &[u8], pairs: &mut Pairs) -> Result<()> {
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Varint(n)) => pairs.set("dtype".to_owned(), Value::Text(name_of(n))),
            (2, Field::Bytes(bytes)) => {
                let mut dims = Vec::new();
                let mut own = Fields::new(bytes);
                while let Some((number, field)) = own.next()? {
                    if number == 1 {
                        dims.push(dim(field.bytes().unwrap_or_default())?);
                    }
                }
                pairs.set("shape".to_owned(), Value::Array(dims));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns a size, the name of a size, or `*` for any size.
fn dim(bytes: &[u8]) -> Result<Value> {
    let mut out = Value::Text("*".to_owned());
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            // Some exporters write -1 for an unknown size.
            (1, Field::Varint(n)) if i64::try_from(n).is_ok() => out = Value::Integer(n.into()),
            (2, Field::Bytes(name)) if !name.is_empty() => out = Value::Text(lossy(name)),
            _ => {}
        }
    }
    Ok(out)
}

/// Returns fields 1 and 2 of a small message: two strings, or a string and a number.
///
/// # Errors
/// Returns [`BROKEN`](holdall_core::wire::protobuf::BROKEN) for an invalid message.
pub(super) fn entry(bytes: &[u8]) -> Result<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::Text(String::new()));
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => key = lossy(bytes),
            (2, Field::Bytes(bytes)) => value = Value::Text(lossy(bytes)),
            (2, Field::Varint(n)) => value = integer(n),
            _ => {}
        }
    }
    Ok((key, value))
}

/// Returns a signed integer in the encoding of protocol buffers.
pub(super) fn integer(n: u64) -> Value {
    Value::Integer(n.cast_signed().into())
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the error for more values than `Limits::attribute_values`.
pub(super) fn too_many() -> Error {
    let raise = Remedy::RaiseLimit { limit: "attribute_values", at_least: None };
    TEXT.broken("the graph has too many key–values and values").with_remedy(raise)
}

/// Subtracts the number of values in `value` from `left`.
///
/// # Errors
/// Returns [`TEXT`] if there are more than `left`.
pub(super) fn count(value: &Value, left: &mut u64) -> Result<()> {
    *left = left.checked_sub(1).ok_or_else(too_many)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| count(item, left)),
        Value::Map(pairs) => pairs.iter().try_for_each(|(_, value)| count(value, left)),
        _ => Ok(()),
    }
}
