//! Converts a manifest to the plain form that the decoders read, if it uses other forms of CBOR.
//!
//! Decoders borrow names from the manifest and compare keys as bytes, so they require text of definite length without
//! tags. A manifest with other items is rare: it is copied once, without the tags, with every text in one piece, and
//! without the fields whose keys are not text. Such fields have no place in the index, and the document requires
//! readers to ignore them.

use holdall_collections::DebugUnwrap;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::Value;
use holdall_core::wire::cbor::{KEY, Kind, Reader, Writer};

/// The tag for self-described CBOR (RFC 8949, section 3.4.6).
const SELF_DESCRIBED: u64 = 55799;
/// The maximum number of ignored items that are reported.
const MAX_UNREPRESENTED: usize = 64;

/// A manifest in the plain form.
#[derive(Debug)]
pub(super) struct Respelled {
    pub(super) bytes: Vec<u8>,
    /// Descriptions of the items that the plain form leaves out.
    pub(super) unrepresented: Vec<String>,
}

/// Returns the manifest in the plain form, or `None` if it is in this form already.
///
/// # Errors
/// Returns [`KEY`] for a tensor or a component whose name is not text, and the errors of [`Reader::skip`] for bytes
/// that are not CBOR.
pub(super) fn respell(bytes: &[u8], is_v0: bool, limits: &Limits) -> Result<Option<Respelled>> {
    let root = if is_v0 { ManifestPosition::Entries } else { ManifestPosition::Root };
    let mut copy = Copy { out: Writer::new(), unrepresented: Vec::new() };
    let mut reader = Reader::new(bytes, 0, limits);
    copy.item(&mut reader, root, "the manifest")?;
    // Bytes after the item are left for the decoder to refuse.
    let end = usize::try_from(reader.offset()).unwrap_or(usize::MAX);
    copy.out.raw(bytes.get(end..).debug_unwrap());
    let Copy { out, unrepresented } = copy;
    let out = out.into_bytes();
    Ok((out != bytes).then_some(Respelled { bytes: out, unrepresented }))
}

/// A position in the structure of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManifestPosition {
    /// 1.x: the manifest.
    Root,
    /// 1.x: the tensors by name.
    Tensors,
    Tensor,
    /// 1.x: the components by role.
    Components,
    Component,
    Attributes,
    /// 0.1: the manifest.
    Entries,
    Entry,
    /// A field with a known meaning: a text, a number, a list of numbers.
    Known,
    /// A value of any structure, which is copied unchanged.
    Free,
}

impl ManifestPosition {
    /// Returns the position of the value of `key`.
    fn field(self, key: &str) -> ManifestPosition {
        match (self, key) {
            (ManifestPosition::Root | ManifestPosition::Tensor, "attributes") => {
                ManifestPosition::Attributes
            }
            (ManifestPosition::Root, "objects" | "tensors") => ManifestPosition::Tensors,
            (ManifestPosition::Tensors, _) => ManifestPosition::Tensor,
            (ManifestPosition::Tensor, "components") => ManifestPosition::Components,
            (ManifestPosition::Components, _) => ManifestPosition::Component,
            (ManifestPosition::Root, "version")
            | (ManifestPosition::Tensor, "shape" | "format" | "dtype")
            | (
                ManifestPosition::Component,
                "dtype"
                | "type"
                | "offset"
                | "length"
                | "uncompressed_length"
                | "encoding"
                | "digest",
            )
            | (
                ManifestPosition::Entry,
                "name" | "offset" | "size" | "dtype" | "shape" | "encoding" | "layout"
                | "data_endianness" | "checksum",
            ) => ManifestPosition::Known,
            _ => ManifestPosition::Free,
        }
    }
}

struct Copy {
    out: Writer,
    unrepresented: Vec<String>,
}

impl Copy {
    /// Copies the next item, whose position is `position`. `name` is its name in reports.
    fn item(
        &mut self,
        reader: &mut Reader<'_>,
        position: ManifestPosition,
        name: &str,
    ) -> Result<()> {
        if position == ManifestPosition::Free {
            self.out.raw(reader.raw()?);
            return Ok(());
        }
        self.drop_tags(reader, name)?;
        match (position, reader.kind()) {
            (ManifestPosition::Known, Some(Kind::Text)) => {
                self.out.text(&reader.any_text("a field")?)
            }
            (ManifestPosition::Known | ManifestPosition::Entries, Some(Kind::Array)) => {
                let inner = if position == ManifestPosition::Known {
                    ManifestPosition::Free
                } else {
                    ManifestPosition::Entry
                };
                self.array(reader, inner, name)?;
            }
            (ManifestPosition::Known | ManifestPosition::Entries, _) => self.out.raw(reader.raw()?),
            (_, Some(Kind::Map)) => self.map(reader, position, name)?,
            // An item of an unexpected type is left for the decoder to refuse.
            _ => self.out.raw(reader.raw()?),
        }
        Ok(())
    }

    fn array(
        &mut self,
        reader: &mut Reader<'_>,
        inner: ManifestPosition,
        name: &str,
    ) -> Result<()> {
        let outer = std::mem::take(&mut self.out);
        let mut count = 0usize;
        let mut items = reader.array("a list")?;
        while reader.more(&mut items)? {
            if inner == ManifestPosition::Free {
                // A dimension.
                self.drop_tags(reader, name)?;
            }
            self.item(reader, inner, name)?;
            count = count.saturating_add(1);
        }
        let items = std::mem::replace(&mut self.out, outer);
        self.out.array(count);
        self.out.raw(items.as_bytes());
        Ok(())
    }

    fn map(
        &mut self,
        reader: &mut Reader<'_>,
        position: ManifestPosition,
        name: &str,
    ) -> Result<()> {
        let outer = std::mem::take(&mut self.out);
        let mut count = 0usize;
        let mut items = reader.map("a map")?;
        while reader.more(&mut items)? {
            let before = reader.clone();
            self.drop_tags(reader, &format!("a key of {name}"))?;
            if reader.kind() != Some(Kind::Text) {
                *reader = before;
                self.no_text(reader, position, name)?;
                continue;
            }
            let key = reader.any_text("a key")?;
            self.out.text(&key);
            let name = match position {
                ManifestPosition::Tensors => format!("tensor `{}`", key.escaped()),
                ManifestPosition::Components => format!("component `{}` of {name}", key.escaped()),
                _ => format!("`{}` of {name}", key.escaped()),
            };
            self.item(reader, position.field(&key), &name)?;
            count = count.saturating_add(1);
        }
        let items = std::mem::replace(&mut self.out, outer);
        self.out.map(count);
        self.out.raw(items.as_bytes());
        Ok(())
    }

    /// Skips a key that is not text, and its value.
    fn no_text(
        &mut self,
        reader: &mut Reader<'_>,
        position: ManifestPosition,
        name: &str,
    ) -> Result<()> {
        let start = reader.offset();
        let key = key_text(&reader.value()?);
        if matches!(position, ManifestPosition::Tensors | ManifestPosition::Components) {
            let message = format!("a name in {name} is {key}, not text");
            return Err(KEY.broken(message).at(reader.since(start)));
        }
        reader.skip()?;
        self.pass_over(|| match position {
            ManifestPosition::Attributes => format!("the attribute with the key {key} in {name}"),
            _ => format!("the field with the key {key} of {name}"),
        });
        Ok(())
    }

    fn drop_tags(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<()> {
        for tag in reader.tags()? {
            if tag != SELF_DESCRIBED {
                self.pass_over(|| format!("tag {tag} on {name}"));
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, what: impl FnOnce() -> String) {
        if self.unrepresented.len() < MAX_UNREPRESENTED {
            self.unrepresented.push(what());
        }
    }
}

/// Returns a key that is not text, in a form for messages.
fn key_text(key: &Value) -> String {
    match key {
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Null => "null".into(),
        Value::Undefined => "undefined".into(),
        Value::Bytes(bytes) => format!("b`{}`", bytes.escape_ascii().to_string().escaped()),
        Value::Text(text) => format!("`{}`", text.escaped()),
        Value::Array(_) => "that is an array".into(),
        Value::Map(_) => "that is a map".into(),
        Value::Tag(tag, _) => format!("with tag {tag}"),
        Value::Simple(n) => format!("simple({n})"),
        _ => "of another type".into(),
    }
}
