//! Formatting of names, numbers and sizes.

use holdall::{Attributes, Component, DType, Layout, LogicalType, TensorInfo, Value};
use holdall_schema::TENSOR_SCHEMA_ATTRIBUTE;
use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The separator between groups of three digits.
const THIN: char = '\u{202f}';

/// Escapes a name from a file, so that it is safe to print: control characters, characters that reorder or hide text,
/// and backslashes, so that different names look different.
pub(crate) fn escape(name: &str) -> String {
    escaped(name, true)
}

/// Escapes the path or name of a file, so that it is safe to print: like [`escape`], but leaves backslashes as they are on
/// systems where they separate the parts of a path.
pub(crate) fn escape_path(path: &str) -> String {
    escaped(path, std::path::MAIN_SEPARATOR != '\\')
}

/// Escapes text that quotes from a file, so that it is safe to print: like [`escape`], but leaves backslashes as they
/// are.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, false)
}

fn escaped(text: &str, backslash: bool) -> String {
    // Nearly all names need no escapes.
    if text.bytes().all(|b| (b' '..0x7f).contains(&b) && !(backslash && b == b'\\')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' if backslash => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_deceptive(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Zero-width characters, and those that change the direction of text.
fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns the width of `text` in a terminal, in columns.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Shortens `text` to at most `most` columns. Removes characters from the middle, more from the first part, because
/// names often differ at the end.
pub(crate) fn cut_middle(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let (head, tail) = (room / 3, room - room / 3);
    let head_end = fitting(text.char_indices().map(|(i, c)| (i + c.len_utf8(), c)), head);
    let tail_start =
        text.len() - fitting(text.char_indices().rev().map(|(i, c)| (text.len() - i, c)), tail);
    format!("{}…{}", &text[..head_end], &text[tail_start.max(head_end)..])
}

/// Shortens `text` to at most `most` columns by cutting the end.
pub(crate) fn cut_end(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let end = text.char_indices().map(|(i, c)| (i + c.len_utf8(), c));
    format!("{}…", &text[..fitting(end, most.saturating_sub(1))])
}

/// Breaks `text` into lines of at most `most` columns, at the separators ` · ` of a list. Items that are longer than a
/// line are cut at the end.
pub(crate) fn lines_of(text: &str, most: usize) -> Vec<String> {
    const BETWEEN: &str = " · ";
    let mut lines: Vec<String> = Vec::new();
    for thing in text.split(BETWEEN) {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(BETWEEN) + columns(thing) <= most => {
                line.push_str(BETWEEN);
                line.push_str(thing);
            }
            _ => lines.push(thing.to_owned()),
        }
    }
    lines.iter().map(|line| cut_end(line, most)).collect()
}

/// Returns the last of these byte positions whose characters fit into `room` columns.
fn fitting(ends: impl Iterator<Item = (usize, char)>, room: usize) -> usize {
    let (mut used, mut end) = (0, 0);
    for (at, c) in ends {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        end = at;
    }
    end
}

/// A whole number, formatted with groups of three digits.
pub(crate) struct Grouped(pub(crate) u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut out = String::with_capacity(digits.len() * 2);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
                out.push(THIN);
            }
            out.push(digit);
        }
        f.pad(&out)
    }
}

/// A number of bytes, formatted with three digits: `90.9 MB`.
pub(crate) struct Size(pub(crate) u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
        if self.0 < 1000 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut n = self.0 as f64 / 1000.0;
        let mut unit = 0;
        while n >= 999.5 && unit + 1 < UNITS.len() {
            n /= 1000.0;
            unit += 1;
        }
        let decimals = if n < 9.995 {
            2
        } else if n < 99.95 {
            1
        } else {
            0
        };
        f.pad(&format!("{n:.decimals$} {}", UNITS[unit]))
    }
}

/// Formats a number of bytes, approximately and exactly: `90.9 MB (90 868 376 bytes)`.
pub(crate) fn exact_size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} byte{}", plural(bytes));
    }
    format!("{} ({} bytes)", Size(bytes), Grouped(bytes))
}

/// Returns `s`, unless `n` is 1.
pub(crate) fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Formats a number of things: `1 tensor`, `12 tensors`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    match thing.strip_suffix("try") {
        Some(stem) if n != 1 => format!("{} {stem}tries", Grouped(n)),
        _ => format!("{} {thing}{}", Grouped(n), plural(n)),
    }
}

/// Formats a shape: `[512, 384]`, or `[]` for a scalar.
pub(crate) fn shape(dims: &[u64]) -> String {
    format!("{dims:?}")
}

/// Returns the type of a component's elements: the logical type, or else the dtype.
pub(crate) fn component_type(c: &Component) -> Cow<'static, str> {
    type_name(Some(c.dtype), c.logical_type.as_ref())
}

/// Returns the type of a tensor's elements, determined like [`TensorInfo::dtype`]; for records and blobs, the name in
/// their schema: `Struct`, `utf-8`.
pub(crate) fn tensor_type(t: &TensorInfo) -> Cow<'static, str> {
    if t.fault().is_some() {
        return "unreadable".into();
    }
    if matches!(t.layout(), Layout::Records | Layout::Blob) {
        return kind_name(t).map_or("-".into(), |name| escape(&name).into());
    }
    if let Layout::Blocks(block_type) = t.layout() {
        return block_type.as_str().into();
    }
    if *t.layout() == Layout::QuantizedWeight {
        let kind = t.attributes().get("kind").and_then(holdall::Value::as_text);
        return kind.map_or("-".into(), |kind| escape(kind).into());
    }
    type_name(t.dtype(), t.logical_type().as_ref())
}

/// Returns the name of a tensor's kind, or of its content, from the attribute with its schema.
fn kind_name(t: &TensorInfo) -> Option<String> {
    let kind = t.attributes().get(TENSOR_SCHEMA_ATTRIBUTE)?.as_text()?;
    let kind: serde_json::Value = serde_json::from_str(kind).ok()?;
    let (name, value) = kind.as_object()?.iter().find_map(|(keyword, value)| {
        keyword.strip_prefix("TypeDef:").map(|name| (name.to_owned(), value))
    })?;
    let content = value.get("content").and_then(serde_json::Value::as_str);
    Some(content.map_or(name, str::to_owned))
}

/// Returns the singular noun for the elements of a tensor.
pub(crate) fn element_noun(layout: &Layout) -> &'static str {
    match layout {
        Layout::Records => "record",
        Layout::Blob => "entry",
        _ => "element",
    }
}

/// Returns the name of a type: the logical type, or else the dtype.
pub(crate) fn type_name(dtype: Option<DType>, logical: Option<&LogicalType>) -> Cow<'static, str> {
    match (logical, dtype) {
        (Some(logical), _) => escape(logical.as_str()).into(),
        (None, Some(dtype)) => dtype.as_str().into(),
        (None, None) => "-".into(),
    }
}

/// Returns the largest power of two, up to 4096, that divides `offset`.
pub(crate) fn alignment(offset: u64) -> u64 {
    1 << offset.trailing_zeros().min(12)
}

/// Formats an attribute's value in one line: text as it is, everything else as JSON.
pub(crate) fn value(v: &Value) -> String {
    match v {
        Value::Text(s) => escape(s),
        other => printable(&other.to_json()),
    }
}

/// Returns the keys and formatted values of attributes.
pub(crate) fn attributes(all: &Attributes) -> impl Iterator<Item = (String, String)> {
    all.iter().map(|(k, v)| (escape(k), value(v)))
}

/// Returns the name of a format with a version, unless the name includes the version.
pub(crate) fn versioned(name: &str, version: &str) -> String {
    match version.is_empty() || name.split(' ').next_back() == Some(version) {
        true => name.to_owned(),
        false => format!("{name} {version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_so_that_none_looks_like_another() {
        assert_eq!(escape("a.b"), "a.b");
        assert_eq!(escape("a\0b\x1b[31m\n"), "a\\u{0}b\\u{1b}[31m\\n");
        assert_eq!(escape("a\\n"), "a\\\\n");
        assert_eq!(escape("\u{202e}x\u{200b}"), "\\u{202e}x\\u{200b}");
        assert_eq!(escape("вес.重み"), "вес.重み");
    }

    #[test]
    fn names_are_cut_in_the_middle_at_whole_characters() {
        assert_eq!(cut_middle("abc", 3), "abc");
        assert_eq!(cut_middle("abcdefgh", 5), "a…fgh");
        assert_eq!(cut_middle("重重重重", 7), "重…重重");
        assert_eq!(cut_end("abcdefgh", 5), "abcd…");
        assert_eq!(cut_middle("abcdefgh", 0), "…");
    }

    #[test]
    fn lists_are_broken_between_their_things() {
        let list = "f32 12 kB · bf16 3 kB · i64 1 kB";
        assert_eq!(lines_of(list, 80), [list]);
        assert_eq!(lines_of(list, 22), ["f32 12 kB · bf16 3 kB", "i64 1 kB"]);
        assert_eq!(lines_of(list, 6), ["f32 1…", "bf16 …", "i64 1…"]);
        assert_eq!(lines_of("", 6), [""]);
    }

    #[test]
    fn sizes_have_three_digits() {
        let text = |n| Size(n).to_string();
        assert_eq!(text(0), "0 B");
        assert_eq!(text(999), "999 B");
        assert_eq!(text(1000), "1.00 kB");
        assert_eq!(text(90_868_376), "90.9 MB");
        assert_eq!(text(99_960_000), "100 MB");
        assert_eq!(text(999_900_000), "1.00 GB");
        assert_eq!(text(u64::MAX), "18.4 EB");
        assert_eq!(Grouped(1234).to_string(), "1234");
        assert_eq!(Grouped(1_234_567).to_string(), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn alignment_stops_at_a_page() {
        assert_eq!(alignment(0), 4096);
        assert_eq!(alignment(64), 64);
        assert_eq!(alignment(72), 8);
        assert_eq!(alignment(1 << 20), 4096);
    }
}
