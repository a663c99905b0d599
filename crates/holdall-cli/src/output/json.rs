//! JSON, written as it is made.

use holdall::error::Detail;
use holdall::{Digest, Error, Number, Value, Warning};
use std::fmt::{self, Write as _};

/// A string as JSON text, quotes included.
pub(crate) struct JsonString<'a>(pub(crate) &'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A string cannot fail to be JSON.
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// Appends a string as JSON text, quotes included.
pub(crate) fn push_string(s: &str, out: &mut String) {
    // Names are nearly always plain; only the others take the long way.
    let is_plain = |b: u8| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\';
    if s.bytes().all(is_plain) {
        out.push('"');
        out.push_str(s);
        out.push('"');
    } else {
        out.push_str(&JsonString(s).to_string());
    }
}

/// Appends a string, or `null`.
pub(crate) fn push_optional(s: Option<&str>, out: &mut String) {
    match s {
        Some(s) => push_string(s, out),
        None => out.push_str("null"),
    }
}

/// Appends a number.
pub(crate) fn push_number(n: u64, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{n}");
}

/// Appends a float; what JSON cannot say is `{"$float": "nan" | "inf" | "-inf"}`.
pub(crate) fn push_f64(x: f64, out: &mut String) {
    Value::Float(x).write_json(out);
}

/// Appends an element: a number, or the two parts of a complex one.
pub(crate) fn push_element(n: Number, out: &mut String) {
    match n {
        Number::Integer(i) => Value::Integer(i).write_json(out),
        Number::Complex(re, im) => {
            Value::Array(vec![Value::Float(re), Value::Float(im)]).write_json(out);
        }
        real => push_f64(real.to_f64(), out),
    }
}

/// Appends a digest as text.
pub(crate) fn push_digest(digest: &Digest, out: &mut String) {
    match digest {
        Digest::Other(text) => push_string(text, out),
        plain => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\"{plain}\"");
        }
    }
}

/// Appends an error as an object; the value of `error` in what is printed on standard error.
pub(crate) fn push_error(e: &Error, out: &mut String) {
    out.push_str("{\"kind\":");
    push_string(e.kind().as_str(), out);
    out.push_str(",\"code\":");
    push_string(e.code(), out);
    out.push_str(",\"message\":");
    push_string(e.message(), out);
    for (key, value) in
        [("source", e.source_name()), ("tensor", e.tensor()), ("component", e.component())]
    {
        out.push_str(",\"");
        out.push_str(key);
        out.push_str("\":");
        push_optional(value, out);
    }
    out.push_str(",\"range\":");
    match e.range() {
        Some(range) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "[{},{}]", range.start, range.end);
        }
        None => out.push_str("null"),
    }
    out.push_str(",\"hint\":");
    push_optional(super::remedy::advice(e).as_deref(), out);
    out.push_str(",\"remedies\":[");
    for (at, remedy) in e.remedies().iter().enumerate() {
        out.push_str(if at > 0 { ",{\"do\":" } else { "{\"do\":" });
        push_string(remedy.name(), out);
        for (key, detail) in remedy.details() {
            // Writing to a String cannot fail.
            let _ = match detail {
                Detail::Number(n) => write!(out, ",\"{key}\":{n}"),
                Detail::Text(text) => write!(out, ",\"{key}\":{}", JsonString(text)),
            };
        }
        out.push('}');
    }
    out.push_str("]}");
}

/// Appends warnings as an array.
pub(crate) fn push_warnings(all: &[Warning], out: &mut String) {
    out.push('[');
    for (at, w) in all.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"code\":" } else { "{\"code\":" });
        push_string(w.code, out);
        out.push_str(",\"message\":");
        push_string(&w.message, out);
        out.push_str(",\"tensor\":");
        push_optional(w.tensor.as_deref(), out);
        out.push_str(",\"component\":");
        push_optional(w.component.as_deref(), out);
        out.push_str(",\"count\":");
        push_number(w.count, out);
        out.push('}');
    }
    out.push(']');
}
