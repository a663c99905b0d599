//! Converts bytes to JSON, or only checks them. Both use the same code, so that every value that is shown has been
//! checked.

use super::Entry;
use super::fail::{Fail, Outcome};
use super::number::{Element, Num, le, small_text};
use super::rules::{
    BOOL_BYTE, ENUM_INDEX, JSON, LENGTH, PRESENCE, TOO_LARGE, UNION_PADDING, UNION_TAG, UTF8,
};
use crate::error::{Error, Escape as _, Result};
use crate::extent::get;
use crate::kinds::{Array, Enum, IndexWidth, Kind, Len, Scalar, Struct, TensorType, TypeId, Union};
use crate::limits::SchemaLimits;
use crate::path::Segment;
use crate::rules::{OPEN_SHAPE, TOO_LARGE as TOO_MANY};
use crate::schema::Schema;
use data_encoding::BASE64;
use holdall_json::Reader;
use holdall_json::{Token, parse, write_string};
use serde_json::Value;
use std::fmt::Write as _;

impl Schema {
    /// Appends the JSON of a record (section 5.3).
    ///
    /// # Errors
    /// Returns the errors of [`Schema::check_record`]. After an error, `out` may contain part of the JSON.
    pub fn record_text(
        &self,
        ty: TypeId,
        record: &[u8],
        heap: &[u8],
        limits: &SchemaLimits,
        out: &mut String,
    ) -> Result<()> {
        self.walk(ty, record, heap, limits, JsonOutput(out), false)
    }

    /// Appends the JSON of a record for display: values with a [`Meaning`](crate::Meaning) are written as text. Encoders read
    /// both forms.
    ///
    /// # Errors
    /// Returns the same errors as [`Schema::record_text`].
    pub fn display_text(
        &self,
        ty: TypeId,
        record: &[u8],
        heap: &[u8],
        limits: &SchemaLimits,
        out: &mut String,
    ) -> Result<()> {
        self.walk(ty, record, heap, limits, JsonOutput(out), true)
    }

    /// Returns the JSON of a record as a value.
    ///
    /// # Errors
    /// Returns the same errors as [`Schema::check_record`].
    pub fn record_value(
        &self,
        ty: TypeId,
        record: &[u8],
        heap: &[u8],
        limits: &SchemaLimits,
    ) -> Result<Value> {
        let mut text = String::new();
        self.record_text(ty, record, heap, limits, &mut text)?;
        // The depth is already bounded, by the schema and by the check of the JSON objects in records.
        parse(text.as_bytes(), usize::MAX)
    }

    /// Checks every significant byte of a record and the heap bytes that its entries refer to.
    ///
    /// # Errors
    /// Returns an error of the rules about bytes in sections 3 to 5 of the specification; `record/length`; or
    /// `record/too-large`.
    pub fn check_record(
        &self,
        ty: TypeId,
        record: &[u8],
        heap: &[u8],
        limits: &SchemaLimits,
    ) -> Result<()> {
        self.walk(ty, record, heap, limits, NoOutput, false)
    }

    fn walk(
        &self,
        ty: TypeId,
        record: &[u8],
        heap: &[u8],
        limits: &SchemaLimits,
        out: impl Output,
        with_meanings: bool,
    ) -> Result<()> {
        let size = self.extent(ty)?.size;
        if record.len() as u64 != size {
            let message = format!("found {} bytes for a record of {size} bytes", record.len());
            return Err(LENGTH.broken(message));
        }
        let depth = limits.json_depth();
        let max_bytes = limits.decoded_len;
        let remaining_empty = limits.max_nodes();
        let mut walk = Walk {
            schema: self,
            heap,
            out,
            remaining: max_bytes,
            max_bytes,
            remaining_empty,
            depth,
            with_meanings,
        };
        walk.value(ty, record).map_err(Fail::into_error)
    }
}

/// The destination of the JSON, if there is one.
trait Output {
    fn write(&mut self, with: impl FnOnce(&mut String));
}

struct JsonOutput<'o>(&'o mut String);

impl Output for JsonOutput<'_> {
    #[inline]
    fn write(&mut self, with: impl FnOnce(&mut String)) {
        with(self.0);
    }
}

struct NoOutput;

impl Output for NoOutput {
    #[inline]
    fn write(&mut self, _with: impl FnOnce(&mut String)) {}
}

struct Walk<'w, O> {
    schema: &'w Schema,
    heap: &'w [u8],
    out: O,
    /// Number of heap bytes that may still be visited. Entries can share bytes, so nested arrays that share theirs can
    /// represent more data than any file contains.
    remaining: u64,
    max_bytes: u64,
    /// Number of values without bytes that may still be visited: a short schema can demand any number of them.
    remaining_empty: u64,
    depth: usize,
    /// Whether values with a meaning are written as its text.
    with_meanings: bool,
}

impl<'w, O: Output> Walk<'w, O> {
    fn value(&mut self, ty: TypeId, bytes: &'w [u8]) -> Outcome<()> {
        let schema = self.schema;
        let found = get(&schema.types, ty)?;
        if found.size == Some(0) {
            let message = "a record has more members without bytes than the limit";
            self.remaining_empty =
                self.remaining_empty.checked_sub(1).ok_or_else(|| TOO_MANY.broken(message))?;
        }
        if self.with_meanings
            && let Some(meaning) = &found.meaning
            && let Some(text) = meaning.text(&found.kind, bytes)
        {
            self.out.write(|o| write_string(&text, o));
            return Ok(());
        }
        match &found.kind {
            Kind::Scalar(scalar) => {
                if *scalar == Scalar::Boolean {
                    check_bool(bytes)?;
                }
                self.out.write(|o| Num::from_scalar(*scalar).decode(bytes, o));
            }
            Kind::Enum(e) => {
                let value = enum_value(e, bytes)?;
                self.out.write(|o| write_string(value, o));
            }
            Kind::Struct(fields) => {
                self.out.write(|o| o.push('{'));
                self.fields(fields, bytes)?;
            }
            Kind::Union(union) => self.union(union, bytes)?,
            Kind::String => {
                let text = text(self.entry(bytes)?)?;
                self.out.write(|o| write_string(text, o));
            }
            Kind::Bytes => {
                let found = self.entry(bytes)?;
                self.out.write(|o| {
                    o.push('"');
                    BASE64.encode_append(found, o);
                    o.push('"');
                });
            }
            Kind::Record => {
                let text = object(self.entry(bytes)?, self.depth)?;
                self.out.write(|o| o.push_str(text));
            }
            Kind::Array(array) => self.array(array, bytes)?,
            Kind::Tensor(tensor) => self.tensor(tensor, bytes)?,
        }
        Ok(())
    }

    /// Writes the members of a struct and the closing brace.
    fn fields(&mut self, fields: &Struct, bytes: &'w [u8]) -> Outcome<()> {
        check_presence(fields, bytes)?;
        let mut is_first = true;
        for member in &fields.members {
            let slot = self.slot(member.offset, member.ty, bytes)?;
            if member.presence.is_some_and(|bit| !has_bit(bytes, bit)) {
                if let Some(b) = slot.iter().find(|b| **b != 0) {
                    let name = member.name.escaped();
                    let message =
                        format!("`{name}` is absent, but one of its bytes is {b:#04x}, not zero");
                    return Err(PRESENCE.broken(message).into());
                }
                continue;
            }
            self.out.write(|o| {
                // After the discriminator of a union a comma is needed, too.
                if !(is_first && o.ends_with('{')) {
                    o.push(',');
                }
                write_string(&member.name, o);
                o.push(':');
            });
            is_first = false;
            self.value(member.ty, slot)
                .map_err(|f| f.inside(Segment::Name(member.name.clone())))?;
        }
        self.out.write(|o| o.push('}'));
        Ok(())
    }

    fn union(&mut self, union: &Union, bytes: &'w [u8]) -> Outcome<()> {
        let tag = read_index(union.width, bytes);
        let variant = usize::try_from(tag).ok().and_then(|t| union.variants.get(t));
        let Some(variant) = variant else {
            let message = format!(
                "tag {tag} is out of range for a union with {} variants",
                union.variants.len()
            );
            return Err(UNION_TAG.broken(message).into());
        };
        let slot = self.slot(Some(u64::from(union.start)), variant.ty, bytes)?;
        let tag_end = to_usize(u64::from(union.width.bytes()));
        let start = to_usize(u64::from(union.start));
        let end = start.saturating_add(slot.len());
        let unused = [bytes.get(tag_end..start), bytes.get(end..)];
        if let Some(b) = unused.into_iter().flatten().flatten().find(|b| **b != 0) {
            let key = variant.key.escaped();
            let message =
                format!("a byte that the variant `{key}` does not use is {b:#04x}, not zero");
            return Err(UNION_PADDING.broken(message).into());
        }
        self.out.write(|o| {
            o.push('{');
            write_string(&union.discriminator, o);
            o.push(':');
            write_string(&variant.key, o);
        });
        let schema = self.schema;
        let Kind::Struct(fields) = &get(&schema.types, variant.ty)?.kind else { return Ok(()) };
        self.fields(fields, slot).map_err(|f| f.inside(Segment::Name(variant.key.clone())))
    }

    fn array(&mut self, array: &Array, bytes: &'w [u8]) -> Outcome<()> {
        let items = self.schema.extent(array.items)?;
        let elements = match array.len {
            Len::Fixed(_) => {
                super::Elements::new(bytes, to_usize(items.stride), to_usize(items.size))
            }
            Len::Variable { .. } => {
                let entry = Entry::from_bytes(le(bytes));
                entry.check_empty()?;
                let elements = entry.elements(self.heap, items)?;
                self.count_bytes(entry.len)?;
                elements
            }
        };
        self.out.write(|o| o.push('['));
        for (at, element) in elements.iter().enumerate() {
            if at > 0 {
                self.out.write(|o| o.push(','));
            }
            self.value(array.items, element).map_err(|f| f.inside(Segment::Index(at as u64)))?;
        }
        self.out.write(|o| o.push(']'));
        Ok(())
    }

    fn tensor(&mut self, tensor: &TensorType, bytes: &'w [u8]) -> Outcome<()> {
        let Some(dtype) = tensor.dtype else {
            return Err(OPEN_SHAPE.broken("the dtype of the tensor is not known").into());
        };
        let shape = self.schema.dims(tensor)?;
        let element = Num::from_dtype(dtype);
        self.out.write(|o| {
            // Writing to a String cannot fail.
            let _ = write!(o, "{{\"dtype\":\"{dtype}\",\"shape\":[");
            for (at, dim) in shape.iter().enumerate() {
                let _ = write!(o, "{}{dim}", if at > 0 { "," } else { "" });
            }
            o.push_str("],\"data\":[");
        });
        let bits = to_usize(dtype.bits());
        match element {
            Element::Whole(num) => {
                for (at, element) in bytes.chunks_exact((bits / 8).max(1)).enumerate() {
                    if num == Num::Bool {
                        check_bool(element)
                            .map_err(|e| Box::<Fail>::from(e).inside(Segment::Index(at as u64)))?;
                    }
                    self.out.write(|o| {
                        if at > 0 {
                            o.push(',');
                        }
                        num.decode(element, o);
                    });
                }
            }
            Element::Bits(kind) => self.out.write(|o| {
                let count = bytes.len().saturating_mul(8).checked_div(bits).unwrap_or(0);
                for at in 0..count {
                    if at > 0 {
                        o.push(',');
                    }
                    let start = at.saturating_mul(bits);
                    let pair = bytes.get(start / 8..).unwrap_or_default();
                    let next = pair.get(1).copied().unwrap_or(0);
                    let pair = u16::from_le_bytes([pair.first().copied().unwrap_or(0), next]);
                    let mask = (1u32 << (bits & 7)).saturating_sub(1);
                    small_text(kind, u32::from(pair >> (start % 8)) & mask, o);
                }
            }),
        }
        self.out.write(|o| o.push_str("]}"));
        Ok(())
    }

    /// Returns the bytes of an entry, and counts them.
    fn entry(&mut self, bytes: &[u8]) -> Result<&'w [u8]> {
        let entry = Entry::from_bytes(le(bytes));
        entry.check_empty()?;
        let found = entry.bytes(self.heap)?;
        self.count_bytes(entry.len)?;
        Ok(found)
    }

    fn count_bytes(&mut self, len: u64) -> Result<()> {
        match self.remaining.checked_sub(len) {
            Some(remaining) => {
                self.remaining = remaining;
                Ok(())
            }
            None => {
                let message = format!("a record refers to more than {} bytes", self.max_bytes);
                Err(TOO_LARGE.broken(message))
            }
        }
    }

    /// Returns the bytes of a part of a value.
    fn slot(&self, start: Option<u64>, ty: TypeId, bytes: &'w [u8]) -> Result<&'w [u8]> {
        let size = get(&self.schema.types, ty)?.size;
        let (Some(start), Some(size)) = (start, size) else {
            return Err(OPEN_SHAPE.broken("the size of a member is not known"));
        };
        let range = to_usize(start)..to_usize(start.saturating_add(size));
        let len = bytes.len();
        bytes.get(range).ok_or_else(|| {
            LENGTH.broken(format!("a member ends after the {len} bytes of its record"))
        })
    }
}

/// Returns `true` if a presence bit is set.
#[inline]
fn has_bit(bytes: &[u8], bit: u32) -> bool {
    let byte = bytes.get(to_usize(u64::from(bit / 8))).copied().unwrap_or(0);
    byte & (1 << (bit % 8)) != 0
}

/// Checks the bits that belong to no member: the highest bits of the last byte.
fn check_presence(fields: &Struct, bytes: &[u8]) -> Result<()> {
    let optional = fields.members.iter().filter_map(|m| m.presence).max();
    let used = optional.map_or(0, |last| last.saturating_add(1)) % 8;
    let last = fields.presence_len.checked_sub(1);
    let Some(byte) = last.and_then(|at| bytes.get(to_usize(u64::from(at)))) else { return Ok(()) };
    if used != 0 && byte >> used != 0 {
        let message = format!("a presence byte with {used} used bits is {byte:#04x}");
        return Err(PRESENCE.broken(message));
    }
    Ok(())
}

pub(crate) fn check_bool(bytes: &[u8]) -> Result<bool> {
    match bytes.first() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        found => Err(not_a_bool(found.copied())),
    }
}

#[cold]
fn not_a_bool(found: Option<u8>) -> Error {
    BOOL_BYTE.broken(format!("a boolean is 0 or 1, found {}", found.unwrap_or(0)))
}

/// Reads an index of the given width from the start of `bytes`.
#[inline]
pub(crate) fn read_index(width: IndexWidth, bytes: &[u8]) -> u32 {
    match width {
        IndexWidth::One => u32::from(u8::from_le_bytes(le(bytes))),
        IndexWidth::Two => u32::from(u16::from_le_bytes(le(bytes))),
        IndexWidth::Four => u32::from_le_bytes(le(bytes)),
    }
}

pub(crate) fn enum_value<'e>(e: &'e Enum, bytes: &[u8]) -> Result<&'e str> {
    let index = read_index(e.width, bytes);
    e.value(index).ok_or_else(|| {
        ENUM_INDEX.broken(format!(
            "index {index} is out of range for an enum with {} values",
            e.values.len()
        ))
    })
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        UTF8.broken(format!("byte {} of {} is not UTF-8", e.valid_up_to(), bytes.len()))
    })
}

/// Checks that the bytes are a JSON object and returns its text.
pub(crate) fn object(bytes: &[u8], depth: usize) -> Result<&str> {
    let wrong = |e: Error| JSON.broken("the text is not a valid JSON object").because(e);
    let mut reader = Reader::new(bytes, 0, depth).map_err(wrong)?;
    if reader.peek().map_err(wrong)? != Token::Object {
        return Err(JSON.broken("expected a JSON object, found another JSON value"));
    }
    parse(bytes, depth).map_err(wrong)?;
    text(bytes)
}

/// Converts a size in memory, which the size of the record bounds.
fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
