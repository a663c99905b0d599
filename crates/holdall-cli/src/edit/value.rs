//! Parsing of attribute values on the command line.

use crate::exit::ARGUMENTS;
use clap::ValueEnum;
use data_encoding::HEXLOWER_PERMISSIVE;
use holdall::error::Escape as _;
use holdall::{Attributes, Error, Limits, Result, Value};
use std::path::Path;

/// The value of the `--type` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ValueType {
    Text,
    Json,
    Int,
    Float,
    Bool,
    Bytes,
}

/// Parses `KEY=VALUE`. The value has the requested type, or else the type of the existing attribute, or else text.
pub(super) fn pair<'p>(
    pair: &'p str,
    asked: Option<ValueType>,
    attributes: &Attributes,
) -> Result<(&'p str, Value)> {
    let Some((key, text)) = pair.split_once('=') else {
        let shown = pair.escaped();
        return Err(ARGUMENTS.broken(format!("`{shown}` has no `=`; write KEY=VALUE")));
    };
    if key.is_empty() {
        let shown = pair.escaped();
        return Err(ARGUMENTS.broken(format!("`{shown}` has no key; write KEY=VALUE")));
    }
    match (asked, attributes.get(key)) {
        (Some(asked), _) => Ok((key, asked.taken(text)?)),
        (None, None) => Ok((key, ValueType::Text.taken(text)?)),
        (None, Some(old)) => match ValueType::for_value(old).taken(text) {
            Err(e) if e.hint().is_none() && e.code() == ARGUMENTS.code => {
                Err(e
                    .with_hint(format!("the attribute `{key}` has that type; `--type` changes it")))
            }
            taken => Ok((key, taken?)),
        },
    }
}

impl ValueType {
    /// Returns the type of an existing value.
    fn for_value(value: &Value) -> ValueType {
        match value {
            Value::Bool(_) => ValueType::Bool,
            Value::Integer(_) => ValueType::Int,
            Value::Float(_) => ValueType::Float,
            Value::Bytes(_) => ValueType::Bytes,
            Value::Array(_) | Value::Map(_) => ValueType::Json,
            _ => ValueType::Text,
        }
    }

    /// Parses a value. If it starts with `@`, it is the content of the file of that name.
    fn taken(self, text: &str) -> Result<Value> {
        match text.strip_prefix('@') {
            // `@@`: text that starts with `@`.
            Some(rest) if rest.starts_with('@') => self.read(rest),
            Some(path) => self.read_file(Path::new(path)),
            None => self.read(text),
        }
    }

    /// Reads a value from a file: its bytes, or its text, including the newline.
    fn read_file(self, path: &Path) -> Result<Value> {
        let failed = |e: std::io::Error| holdall::error::io(e, "reading").in_source(path.display());
        let bytes = std::fs::read(path).map_err(failed)?;
        if matches!(self, ValueType::Bytes) {
            return Ok(Value::Bytes(bytes));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            let e = ARGUMENTS.broken(format!("`{}` is not text in UTF-8", path.display()));
            e.with_hint("`--type bytes` stores its bytes")
        })?;
        match self {
            ValueType::Text => Ok(Value::Text(text)),
            // Files with numbers usually end with a newline.
            other => other.read(text.trim()),
        }
    }

    fn read(self, text: &str) -> Result<Value> {
        let wrong = |what: &str| -> Error {
            ARGUMENTS.broken(format!("`{}` is not {what}", text.escaped()))
        };
        match self {
            ValueType::Text => Ok(Value::Text(text.to_owned())),
            ValueType::Json => Value::from_json(text, Limits::default().depth)
                .map_err(|e| wrong("JSON").because(e)),
            ValueType::Int => {
                let fits = |n: &i128| (-(1 << 64)..1 << 64).contains(n);
                let n = text.parse().ok().filter(fits);
                n.map(Value::Integer).ok_or_else(|| wrong("an integer from -2^64 to 2^64 - 1"))
            }
            ValueType::Float => match text.parse::<f64>() {
                Err(_) => Err(wrong("a floating-point number")),
                // A finite number that overflows to infinity.
                Ok(x) if x.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => {
                    Err(wrong("a floating-point number of 64 bits: the largest is about 1.8e308")
                        .with_hint("write `inf` or `-inf` for infinity"))
                }
                Ok(x) => Ok(Value::Float(x)),
            },
            ValueType::Bool => {
                text.parse().map(Value::Bool).map_err(|_| wrong("a bool: `true` or `false`"))
            }
            ValueType::Bytes => HEXLOWER_PERMISSIVE
                .decode(text.as_bytes())
                .map(Value::Bytes)
                .map_err(|_| wrong("hex")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_as_their_types() {
        let read = |kind: ValueType, text| kind.read(text).ok();
        assert_eq!(read(ValueType::Text, "1"), Some(Value::Text("1".into())));
        assert_eq!(read(ValueType::Int, "-18446744073709551616"), Some(Value::Integer(-(1 << 64))));
        assert_eq!(read(ValueType::Int, "18446744073709551616"), None);
        assert_eq!(read(ValueType::Float, "2.5e-3"), Some(Value::Float(0.0025)));
        assert_eq!(read(ValueType::Float, "1e400"), None);
        assert_eq!(read(ValueType::Float, "-1e400"), None);
        assert_eq!(read(ValueType::Float, "-inf"), Some(Value::Float(f64::NEG_INFINITY)));
        assert!(matches!(read(ValueType::Float, "NaN"), Some(Value::Float(x)) if x.is_nan()));
        assert_eq!(read(ValueType::Bool, "yes"), None);
        assert_eq!(read(ValueType::Bytes, "00fF"), Some(Value::Bytes(vec![0, 255])));
        assert_eq!(read(ValueType::Bytes, "0"), None);
        let list = Value::Array(vec![Value::Integer(1), Value::Null]);
        assert_eq!(read(ValueType::Json, "[1, null]"), Some(list));
        assert_eq!(read(ValueType::Json, "[1"), None);
        let mut old = Attributes::new();
        let text = |text: &str| Value::Text(text.to_owned());
        assert!(pair("novalue", None, &old).is_err() && pair("=2", None, &old).is_err());
        assert_eq!(pair("a=b=c", None, &old).unwrap(), ("a", text("b=c")));
        assert_eq!(pair("a=@@b", None, &old).unwrap(), ("a", text("@b")));
        assert_eq!(pair("a=1", None, &old).unwrap(), ("a", text("1")));
        // An existing attribute keeps its type.
        old.set("a", Value::Integer(7));
        assert_eq!(pair("a=1", None, &old).unwrap(), ("a", Value::Integer(1)));
        assert_eq!(pair("a=1", Some(ValueType::Text), &old).unwrap(), ("a", text("1")));
        assert!(pair("a=x", None, &old).unwrap_err().hint().unwrap().contains("--type"));
    }
}
