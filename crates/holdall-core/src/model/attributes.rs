//! Key–value data on a file or a tensor, kept without loss.

use std::fmt::{self, Write as _};

/// One attribute value: anything CBOR can say.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// CBOR null.
    Null,
    /// CBOR undefined.
    Undefined,
    /// true or false.
    Bool(bool),
    /// An integer, from -2^64 to 2^64 - 1.
    Integer(i128),
    /// A float; half and single precision widen without loss.
    Float(f64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text string.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Key–value pairs in the file's order. Keys may be any value; they are unique.
    Map(Vec<(Value, Value)>),
    /// A tagged value. Nothing is done with the tag.
    Tag(u64, Box<Value>),
    /// A simple value without a name.
    Simple(u8),
}

impl Value {
    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Integer(i) => Some(*i),
            _ => None,
        }
    }

    /// The number as f64, if this is an integer or a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Integer(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// The value as JSON text, without loss: what JSON cannot say is an object with one key that
    /// starts with `$`: `{"$bytes": hex}`, `{"$float": "nan" | "inf" | "-inf" | hex of the bits}`,
    /// `{"$tag": [n, value]}`, `{"$simple": n}`, `{"$undefined": true}`, and
    /// `{"$map": [[key, value], …]}` for a map with a key that is not text or starts with `$`.
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
                bytes.iter().for_each(|b| {
                    let _ = write!(out, "{b:02x}");
                });
                out.write_str("\"}")
            }
            Value::Text(s) => {
                write_json_string(s, out);
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

/// Appends `s` as a JSON string, quotes included.
pub(crate) fn write_json_string(s: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (i, b) in s.bytes().enumerate() {
        let escape = match b {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x00..=0x1f | 0x7f => "",
            _ => continue,
        };
        out.push_str(&s[from..i]);
        from = i + 1;
        if escape.is_empty() {
            let _ = write!(out, "\\u{b:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&s[from..]);
    out.push('"');
}

/// Key–value data on a file or a tensor, in the file's order, keys unique.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(Vec<(String, Value)>);

impl Attributes {
    /// No attributes.
    pub const fn new() -> Attributes {
        Attributes(Vec::new())
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key`, in place if it is there, at the end if not.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, v)) => *v = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// Adds a pair whose key the caller knows to be new: decoders check keys once, for the map.
    pub fn push(&mut self, key: impl Into<String>, value: Value) {
        self.0.push((key.into(), value));
    }

    /// Pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attributes as one JSON object; see [`Value::to_json`]. Keys stand as they are.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (i, (k, v)) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_json_string(k, &mut out);
            out.push(':');
            v.write_json(&mut out);
        }
        out.push('}');
        out
    }
}

impl FromIterator<(String, Value)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Attributes {
        let mut out = Attributes::new();
        pairs.into_iter().for_each(|(k, v)| out.set(k, v));
        out
    }
}
