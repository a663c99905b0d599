//! Writing strings. The rest of JSON can be written with `push_str`.

use std::fmt::Write as _;

/// Appends `s` as a JSON string with the fewest escapes that the grammar allows. Most other writers do the same, so
/// files can be equal to theirs byte by byte.
#[inline]
pub fn write_string(s: &str, out: &mut String) {
    out.push('"');
    let mut plain = s;
    while let Some(at) = plain.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        let (before, rest) = plain.split_at(at);
        out.push_str(before);
        let mut rest = rest.chars();
        match rest.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            None => {}
        }
        plain = rest.as_str();
    }
    out.push_str(plain);
    out.push('"');
}
