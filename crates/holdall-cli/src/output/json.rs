//! JSON, written as it is made.

use holdall::Digest;
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
