//! JSON for the host.

use holdall_core::error::Detail;
use holdall_core::layout::number::Number;
use holdall_core::model::Attributes;
use holdall_core::read::Chunked;
use holdall_core::{
    Component, Error, Limit, Limits, LogicalType, NameCase, TensorInfo, Value, Warning,
};
use holdall_formats::Format;
use holdall_json::write_string;
use std::fmt::Write as _;
use std::sync::Arc;

holdall_core::error::rules! {
    /// The rules of calls.
    pub static RULES;

    /// The host made an invalid call.
    pub CALL: Misuse "wasm/call" "The module is called in order, with numbers that it gave.";
}

/// The largest integer below which every integer is a double.
const SAFE: i128 = (1 << 53) - 1;

/// Appends a float; values that JSON lacks are written as an object.
pub(crate) fn maybe_float(x: Option<f64>, out: &mut String) {
    match x {
        Some(x) => Value::Float(x).write_json(out),
        None => out.push_str("null"),
    }
}

/// Appends an element; a complex number is a list of its two parts.
pub(crate) fn maybe_number(n: Option<Number>, out: &mut String) {
    match n {
        Some(Number::Integer(n)) => integer(n, out),
        Some(Number::Complex(re, im)) => list([re, im], out, |x, out| maybe_float(Some(x), out)),
        other => maybe_float(other.map(Number::to_f64), out),
    }
}

/// Appends an integer, or an object with its digits if a double cannot hold it.
pub(crate) fn integer(n: impl Into<i128>, out: &mut String) {
    let n = n.into();
    // Writing to a String cannot fail.
    let _ = match (-SAFE..=SAFE).contains(&n) {
        true => write!(out, "{n}"),
        false => write!(out, "{{\"$int\":\"{n}\"}}"),
    };
}

/// A JSON object that is written field by field.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Object {
        Object("{".to_owned())
    }

    /// Adds a field whose value `write` appends.
    pub(crate) fn with(mut self, name: &str, write: impl FnOnce(&mut String)) -> Object {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        write_string(name, &mut self.0);
        self.0.push(':');
        write(&mut self.0);
        self
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Object {
        self.with(name, |out| write_string(value, out))
    }

    pub(crate) fn maybe_text(self, name: &str, value: Option<&str>) -> Object {
        self.with(name, |out| text_or_null(value, out))
    }

    pub(crate) fn number(self, name: &str, value: impl Into<i128>) -> Object {
        self.with(name, |out| integer(value, out))
    }

    pub(crate) fn maybe_number(self, name: &str, value: Option<u64>) -> Object {
        self.with(name, |out| match value {
            Some(value) => integer(value, out),
            None => out.push_str("null"),
        })
    }

    pub(crate) fn flag(self, name: &str, value: bool) -> Object {
        self.with(name, |out| out.push_str(if value { "true" } else { "false" }))
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Appends a string, or `null`.
pub(crate) fn text_or_null(value: Option<&str>, out: &mut String) {
    match value {
        Some(value) => write_string(value, out),
        None => out.push_str("null"),
    }
}

/// Appends a list, with `write` for each item.
pub(crate) fn list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push('[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

/// Returns a list of strings.
pub(crate) fn texts<'t>(items: impl IntoIterator<Item = &'t str>) -> String {
    let mut out = String::new();
    list(items, &mut out, write_string);
    out
}

/// Returns an error with all of its details.
pub(crate) fn error(e: &Error) -> String {
    let object = Object::new()
        .text("kind", e.kind().as_str())
        .text("code", e.code())
        .text("message", e.message())
        .text("text", &e.to_string())
        .maybe_text("tensor", e.tensor())
        .maybe_text("component", e.component())
        .with("range", |out| match e.range() {
            Some(range) => list([range.start, range.end], out, integer),
            None => out.push_str("null"),
        })
        .maybe_text("hint", e.hint());
    let remedies = |out: &mut String| {
        list(e.remedies(), out, |remedy, out| {
            let mut one = Object::new().text("do", remedy.name());
            for (name, detail) in remedy.details() {
                let key = NameCase::Camel.spell(name);
                one = match detail {
                    Detail::Text(text) if name == "limit" => {
                        one.text(&key, &NameCase::Camel.spell(text))
                    }
                    Detail::Text(text) => one.text(&key, text),
                    Detail::Number(n) => one.number(&key, n),
                };
            }
            out.push_str(&one.finish());
        });
    };
    object.with("remedies", remedies).finish()
}

/// Returns a warning.
pub(crate) fn warning(w: &Warning) -> String {
    Object::new()
        .text("code", w.code)
        .text("message", &w.message)
        .maybe_text("tensor", w.tensor.as_deref())
        .maybe_text("component", w.component.as_deref())
        .number("count", w.count)
        .finish()
}

/// Returns the formats of this build.
pub(crate) fn formats(all: &[&Format]) -> String {
    let mut out = String::new();
    list(all, &mut out, |format, out| {
        let names = |names: &'static [&'static str]| {
            move |out: &mut String| list(names, out, |name, out| write_string(name, out))
        };
        let one = Object::new()
            .text("id", format.id)
            .text("name", format.name)
            .with("extensions", names(format.extensions))
            .with("reads", names(format.reads));
        out.push_str(&one.finish());
    });
    out
}

/// Returns the properties of a tensor that a list does not include: attributes, components, and
/// why it cannot be read.
pub(crate) fn tensor(info: &TensorInfo, chunked: &[Arc<Chunked>]) -> String {
    let object = Object::new().with("attributes", |out| attributes(info.attributes(), out)).with(
        "components",
        |out| {
            list(info.components(), out, |c, out| out.push_str(&component(&c, chunked)));
        },
    );
    match info.fault() {
        Some(fault) => object.with("fault", |out| out.push_str(&error(&fault))),
        None => object,
    }
    .finish()
}

fn component(c: &Component, chunked: &[Arc<Chunked>]) -> String {
    let array = c.stored.chunked().and_then(|number| chunked.get(number));
    Object::new()
        .text("role", c.role.as_str())
        .text("dtype", c.dtype.as_str())
        .maybe_text("logicalType", c.logical_type.as_ref().map(|t| t.as_str()))
        .number("source", c.stored.source)
        .maybe_number("offset", (!c.stored.is_stated()).then_some(c.stored.start))
        .number("storedLen", c.stored_len())
        .text("encoding", c.encoding.as_str())
        .maybe_number("decodedLen", c.decoded_len)
        .maybe_text("digest", c.digest.as_ref().map(|d| d.to_string()).as_deref())
        .maybe_text("algorithm", c.digest.as_ref().and_then(|d| d.algorithm()).map(|a| a.as_str()))
        .flag("bigEndian", c.swap_unit_len() > 1)
        .flag("isChunked", c.stored.chunked().is_some())
        .maybe_text("chunkChecksum", array.and_then(|array| array.checksum()))
        .flag("hasMeaning", !matches!(c.logical_type, Some(LogicalType::Other(_))))
        .finish()
}

/// Appends attributes as pairs, since names are arbitrary.
pub(crate) fn attributes(all: &Attributes, out: &mut String) {
    list(all.iter(), out, |(key, value), out| pair(key, out, |out| self::value(value, out)));
}

fn pair(key: &str, out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('[');
    write_string(key, out);
    out.push(',');
    write(out);
    out.push(']');
}

/// Appends a value. Values that JSON lacks, and all maps, are objects with one key that starts
/// with `$`.
pub(crate) fn value(value_ref: &Value, out: &mut String) {
    match value_ref {
        Value::Integer(n) => integer(*n, out),
        Value::Array(items) => list(items, out, value),
        Value::Map(pairs) => {
            out.push_str("{\"$map\":");
            list(pairs, out, |(key, item), out| {
                out.push('[');
                value(key, out);
                out.push(',');
                value(item, out);
                out.push(']');
            });
            out.push('}');
        }
        Value::Tag(tag, item) => {
            out.push_str("{\"$tag\":[");
            integer(*tag, out);
            out.push(',');
            value(item, out);
            out.push_str("]}");
        }
        // Other scalars have the same JSON as elsewhere.
        other => other.write_json(out),
    }
}

/// Parses limits by their names in camelCase, and the flags given with them; missing ones have
/// their default.
pub(crate) fn limits(text: &[u8]) -> Result<Limits, Error> {
    let wrong = || CALL.broken("limits must be an object of numbers");
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    let given = Attributes::from_json(text, 1).map_err(|_| wrong())?;
    let mut limits = Limits::default();
    for (name, value) in given.iter() {
        match (name, value) {
            ("salvage", Value::Bool(on)) => limits.salvage = *on,
            ("skipUnknown", Value::Bool(on)) => limits.skip_unknown = *on,
            _ => {
                // An unknown name is reported before its value is checked.
                Limit::find(name, NameCase::Camel)?;
                let n = value.as_integer().and_then(|n| u64::try_from(n).ok());
                let n = n.ok_or_else(|| {
                    CALL.broken(format!("the limit `{name}` is not a whole number"))
                })?;
                limits.set(name, NameCase::Camel, n)?;
            }
        }
    }
    Ok(limits)
}
