//! Short descriptions of the parts of a schema.

use crate::error::Escape as _;
use crate::kinds::{Align, Dim, Kind, Len, TensorType, TypeId};
use crate::path::Path;
use crate::schema::{Node, Schema};
use holdall_collections::DebugUnwrap;
use holdall_json::write_string;
use serde_json::Value;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// Number of characters after which a text is cut.
const MAX_TEXT_CHARS: usize = 60;

/// Describes a type: `Int32`, `F32 [20, 5]`, `String []`, `Enum of 3`.
pub(super) fn ty(schema: &Schema, id: TypeId) -> String {
    let Ok(ty) = crate::extent::get(&schema.types, id) else { return String::new() };
    match &ty.kind {
        Kind::Tensor(tensor) => self::tensor(tensor),
        Kind::Enum(e) => format!("Enum of {}", e.values.len()),
        Kind::Array(array) => {
            let mut text = self::ty(schema, array.items);
            text.push(' ');
            text.push_str(&array.len.to_string());
            text
        }
        other => other.as_str().to_owned(),
    }
}

/// Describes a node: like [`ty`], or `Blob utf-8`, `object`, `JSON`.
pub(super) fn node(schema: &Schema, node: &Node) -> String {
    match node {
        Node::Flat { tensor, .. } => self::tensor(tensor),
        Node::Dataset { items, len, .. } => {
            format!("{} {}", ty(schema, *items), len)
        }
        Node::Blob { content, .. } => format!("Blob {content}"),
        Node::Object(_) => "object".to_owned(),
        Node::List { min, max, .. } => {
            format!("array {}", Len::Variable { min: *min, max: *max })
        }
        Node::Plain { ty: Some(id), .. } => ty(schema, *id),
        Node::Plain { ty: None, .. } => "JSON".to_owned(),
    }
}

/// Describes a tensor: `F32 [20, n]`, or `Tensor` if any is allowed.
pub(super) fn tensor(tensor: &TensorType) -> String {
    let dims = |shape: &[Dim]| {
        let mut out = String::from("[");
        for (at, dim) in shape.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            // Writing to a String cannot fail.
            let _ = match dim {
                Dim::Known(n) => write!(out, "{n}"),
                Dim::Any => write!(out, "null"),
                Dim::Symbol(name) => write!(out, "{}", name.escape_debug()),
            };
        }
        out.push(']');
        out
    };
    match (tensor.dtype_names(), &tensor.shape) {
        (None, None) => "Tensor".to_owned(),
        (Some(dtype), None) => cut(&dtype),
        (None, Some(shape)) => cut(&format!("Tensor {}", dims(shape))),
        (Some(dtype), Some(shape)) => cut(&format!("{dtype} {}", dims(shape))),
    }
}

impl fmt::Display for TensorType {
    /// Formats the type as in changes of a schema: `F32 [20, n]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&tensor(self))
    }
}

/// Describes an alignment: `align 4`, `align natural`.
pub(super) fn align(align: Option<Align>) -> Option<String> {
    align.map(|a| match a {
        Align::Bytes(bytes) => format!("align {bytes}"),
        Align::Natural => "align natural".to_owned(),
    })
}

/// Lists names: `a, b, c`.
pub(super) fn names<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> String {
    let mut out = Short::default();
    for (at, name) in names.enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        if write!(out, "{comma}{}", name.escape_debug()).is_err() {
            break;
        }
    }
    out.text
}

/// Formats JSON as text.
pub(super) fn json(value: &Value) -> String {
    let mut out = Short::default();
    // Text that does not fit is left out and not even formatted.
    let _ = write_json(value, &mut out);
    out.text
}

fn write_json(value: &Value, out: &mut Short) -> std::fmt::Result {
    match value {
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                out.write_str(if at > 0 { "," } else { "[" })?;
                write_json(item, out)?;
            }
            out.write_str(if items.is_empty() { "[]" } else { "]" })
        }
        Value::Object(members) => {
            for (at, (key, item)) in members.iter().enumerate() {
                out.write_str(if at > 0 { "," } else { "{" })?;
                write_text(key, out)?;
                out.write_str(":")?;
                write_json(item, out)?;
            }
            out.write_str(if members.is_empty() { "{}" } else { "}" })
        }
        other => write!(out, "{other}"),
    }
}

/// Writes a string as JSON. Of a long string, writes a little more than fits, so that its end is never shown.
fn write_text(text: &str, out: &mut Short) -> std::fmt::Result {
    let end =
        text.char_indices().nth(MAX_TEXT_CHARS.saturating_add(1)).map_or(text.len(), |(at, _)| at);
    let mut quoted = String::new();
    write_string(text.get(..end).debug_unwrap(), &mut quoted);
    out.write_str(&quoted)
}

/// Shortens a long text.
pub(super) fn cut(text: &str) -> String {
    let mut out = Short::default();
    // This cannot fail either.
    let _ = out.write_str(text);
    out.text
}

/// A text of limited length that ends with `…` if it was cut.
#[derive(Default)]
struct Short {
    text: String,
    count: usize,
}

impl std::fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        for c in more.chars() {
            if self.count >= MAX_TEXT_CHARS {
                if self.count == MAX_TEXT_CHARS {
                    self.text.push('…');
                }
                self.count = MAX_TEXT_CHARS.saturating_add(1);
                return Err(std::fmt::Error);
            }
            self.text.push(c);
            self.count = self.count.saturating_add(1);
        }
        Ok(())
    }
}

/// Formats a path for a message.
pub(super) fn path(path: &Path) -> String {
    match path.is_root() {
        true => "the record".to_owned(),
        false => format!("`{}`", path.to_string().escaped()),
    }
}
