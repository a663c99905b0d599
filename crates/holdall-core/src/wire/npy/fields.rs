//! The types of structured arrays: the fields of their records, their offsets, and the schema of a record.

use super::literal::{Descr, FieldDescr};
use super::{DTYPE, Element, FIELDS, HEADER, any_element};
use crate::codec::members::{Members, Step, len_of};
use crate::error::{Error, Escape as _, Result};
use crate::model::{ByteOrder, DType, LogicalType, element_count, stored_size};
use holdall_collections::{HashSet, sort, sort_by};
use holdall_json::write_string;
use std::fmt::Write as _;

/// The maximum number of dimensions of a field, as in NumPy.
const MAX_RANK: usize = 64;
/// The schema keyword with the NumPy name of a member's type that has no equivalent here.
pub const DESCR_KEYWORD: &str = "numpy.descr";
/// The schema keyword with the names of a member's values, which an enumeration of HDF5 gives.
pub const ENUM_KEYWORD: &str = "hdf5.enum";
/// The number of bytes of an entry, which refers to values of variable length.
const ENTRY: u64 = 16;

/// The type of a structured array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    fields: Vec<Field>,
    /// Bytes of a record, including the bytes between and after its fields.
    size: u64,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name, unique in the record.
    pub name: String,
    /// The field's title, for people.
    pub title: Option<String>,
    /// The offset in bytes from the start of the record.
    pub offset: u64,
    /// The type of one element.
    pub ty: FieldType,
    /// The dimensions; empty for a single element.
    pub shape: Vec<u64>,
    /// The names of the values of an enumeration; empty for other elements.
    pub names: Vec<(String, i128)>,
}

/// Hint for records without bytes.
const NO_BYTES: &str = "save it from Python without the fields that are empty";

/// The type of one element of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// A number, a text or bytes.
    Element(Element),
    /// A record.
    Fields(Fields),
    /// A value of variable length: an entry that refers to it.
    Entry(EntryType),
}

/// The type of a value of variable length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryType {
    /// A text in UTF-8.
    Text,
    /// Bytes.
    Bytes,
    /// Any number of elements of this type. The name of the field has no meaning.
    Array(Box<Field>),
}

impl FieldType {
    /// Returns the bytes of one element.
    fn size(&self) -> Option<u64> {
        match self {
            FieldType::Fields(fields) => Some(fields.size),
            FieldType::Entry(_) => Some(ENTRY),
            FieldType::Element(Element { dtype, logical_type, inner, .. }) => {
                let width = stored_size(1, *dtype, logical_type.as_ref()).ok().flatten();
                width?.checked_mul(inner.unwrap_or(1))
            }
        }
    }
}

impl Fields {
    /// Creates the fields that a header describes. Unnamed opaque fields are padding.
    pub(super) fn new(descrs: Vec<FieldDescr<'_>>) -> Result<Fields> {
        let (mut fields, mut size) = (Vec::new(), 0u64);
        for FieldDescr { title, name, ty, shape } in descrs {
            let named = |e: Error| e.within(format!("the field `{}`", name.escaped()));
            let ty = match ty {
                Descr::Name(descr) => any_element(&descr).map(FieldType::Element).map_err(named)?,
                Descr::Fields(descrs) => FieldType::Fields(Fields::new(descrs).map_err(named)?),
            };
            let (name, title) = (name.into(), title.map(String::from));
            let field = Field { name, title, offset: size, ty, shape, names: Vec::new() };
            size = field.end()?;
            let is_padding = matches!(&field.ty, FieldType::Element(e) if is_opaque(e));
            if !(field.name.is_empty() && is_padding) {
                fields.push(field);
            }
        }
        Fields::with_offsets(fields, size)
    }

    /// Creates the type of records of `size` bytes with these fields.
    ///
    /// # Errors
    /// Returns [`FIELDS`] if a field has no name, a name that occurs twice, or bytes outside the record or inside
    /// another field; [`HEADER`] if a field has too many dimensions; and [`DTYPE`] if no field has any bytes.
    pub fn with_offsets(fields: Vec<Field>, size: u64) -> Result<Fields> {
        let mut names = HashSet::default();
        let mut ranges = Vec::new();
        for field in &fields {
            if field.name.is_empty() {
                return Err(
                    FIELDS.broken(format!("the field at byte {} has no name", field.offset))
                );
            }
            if !names.insert(field.name.as_str()) {
                return Err(
                    FIELDS.broken(format!("two fields are named `{}`", field.name.escaped()))
                );
            }
            let end = field.end()?;
            if end > size {
                let name = field.name.escaped();
                let message = format!(
                    "the field `{name}` ends at byte {end}, beyond the {size} bytes of the record"
                );
                return Err(FIELDS.broken(message));
            }
            if end > field.offset {
                ranges.push((field.offset, end));
            }
        }
        sort(&mut ranges);
        let next = ranges.iter().skip(1);
        if let Some((_, (at, _))) = ranges.iter().zip(next).find(|((_, end), (at, _))| end > at) {
            return Err(FIELDS.broken(format!("the field at byte {at} begins inside another")));
        }
        let fields = Fields { fields, size };
        if len_of(&fields.steps()) == 0 {
            let message = "records without fields, or without bytes";
            return Err(DTYPE.broken(message).with_hint(NO_BYTES));
        }
        Ok(fields)
    }

    /// Returns the number of nodes of the schema, including nested fields and dimensions.
    pub fn nodes(&self) -> u64 {
        self.fields.iter().fold(0, |nodes, field| nodes.saturating_add(field.nodes()))
    }

    /// Returns all fields, in order.
    pub fn all(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the bytes of a stored record.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns `true` if no number is big-endian.
    pub fn is_little_endian(&self) -> bool {
        self.fields.iter().all(|field| match &field.ty {
            FieldType::Element(element) => element.byte_order == ByteOrder::Little,
            FieldType::Fields(fields) => fields.is_little_endian(),
            FieldType::Entry(_) => true,
        })
    }

    /// Returns the codec that converts records to those of [`Fields::schema`], or `None` if they need no conversion.
    pub fn members(&self) -> Option<Members> {
        let steps = self.steps();
        (!self.is_as_stored(&steps)).then(|| Members::new(self.size, steps))
    }

    /// Returns `true` if these steps copy a record unchanged.
    fn is_as_stored(&self, steps: &[Step]) -> bool {
        *steps == [Step::Run { from: 0, len: self.size, swap_width: 1 }]
    }

    fn steps(&self) -> Vec<Step> {
        let mut out: Vec<Step> = Vec::new();
        for Field { offset: at, ty, shape, .. } in &self.fields {
            let count = element_count(shape).unwrap_or(0);
            let stride = ty.size().unwrap_or(0);
            let len = stride.saturating_mul(count);
            if len == 0 {
                continue;
            }
            let run = |swap_width| Step::Run { from: *at, len, swap_width };
            let next = match ty {
                FieldType::Element(e) if e.byte_order == ByteOrder::Big => {
                    // At most 8.
                    run(u32::try_from(e.dtype.width()).unwrap_or(1))
                }
                FieldType::Element(_) | FieldType::Entry(_) => run(1),
                FieldType::Fields(fields) => match fields.steps() {
                    steps if fields.is_as_stored(&steps) => run(1),
                    steps => Step::Each { from: *at, count, stride, steps },
                },
            };
            match (out.last_mut(), next) {
                (
                    Some(Step::Run { from, len, swap_width: 1 }),
                    Step::Run { from: next, len: more, swap_width: 1 },
                ) if from.saturating_add(*len) == next => *len = len.saturating_add(more),
                (_, next) => out.push(next),
            }
        }
        out
    }

    /// Returns the JSON text of the schema of a record, with sorted keys: a struct without bytes between its members.
    pub fn schema(&self) -> String {
        let mut out = String::new();
        self.write_kind(None, &mut out);
        out
    }

    fn write_kind(&self, title: Option<&str>, out: &mut String) {
        let comma = |number: usize| if number == 0 { "" } else { "," };
        let names = |out: &mut String| {
            for (number, field) in self.fields.iter().enumerate() {
                out.push_str(comma(number));
                write_string(&field.name, out);
            }
        };
        out.push_str("{\"TypeDef:Struct\":[");
        names(out);
        out.push_str("],\"align\":1,\"properties\":{");
        let mut sorted: Vec<&Field> = self.fields.iter().collect();
        sort_by(&mut sorted, |a, b| a.name.cmp(&b.name));
        for (number, field) in sorted.into_iter().enumerate() {
            out.push_str(comma(number));
            write_string(&field.name, out);
            out.push(':');
            field.write_kind(out);
        }
        out.push_str("},\"required\":[");
        names(out);
        out.push(']');
        write_end(title, "object", out);
    }
}

impl Field {
    /// Returns the number of nodes of the schema.
    pub fn nodes(&self) -> u64 {
        let below = match &self.ty {
            FieldType::Element(_) => 2,
            FieldType::Fields(fields) => fields.nodes(),
            FieldType::Entry(EntryType::Text | EntryType::Bytes) => 2,
            FieldType::Entry(EntryType::Array(inner)) => inner.nodes().saturating_add(2),
        };
        let names = self.names.len() as u64;
        below.saturating_add(self.shape.len() as u64).saturating_add(names)
    }

    /// Returns the JSON text of the schema of the field's value, with sorted keys.
    pub fn schema(&self) -> String {
        let mut out = String::new();
        self.write_kind(&mut out);
        out
    }

    /// Returns the offset after the field's last byte, from the start of the record.
    fn end(&self) -> Result<u64> {
        let named = |e: Error| e.within(format!("the field `{}`", self.name.escaped()));
        if self.shape.len() > MAX_RANK {
            let message = format!("{} dimensions exceed the limit of {MAX_RANK}", self.shape.len());
            return Err(named(HEADER.broken(message)));
        }
        // A zero in a dimension after the first makes elements of no bytes.
        let inner = match &self.ty {
            FieldType::Element(element) => element.inner,
            FieldType::Fields(_) | FieldType::Entry(_) => None,
        };
        if self.shape.iter().copied().chain(inner).skip(1).any(|n| n == 0) {
            let message = "an array whose elements have no bytes";
            return Err(named(DTYPE.broken(message).with_hint(NO_BYTES)));
        }
        let count = element_count(&self.shape);
        let len = self.ty.size().zip(count).and_then(|(width, n)| width.checked_mul(n));
        let end = len.and_then(|len| self.offset.checked_add(len)).filter(|end| *end < 1 << 63);
        end.ok_or_else(|| named(FIELDS.broken("records exceed 2^63 bytes")))
    }

    fn write_kind(&self, out: &mut String) {
        for _ in &self.shape {
            out.push_str(ARRAY);
        }
        // The title of an array belongs to the whole field.
        let of_array = !self.shape.is_empty();
        let title = self.title.as_deref();
        let own = title.filter(|_| !of_array);
        match &self.ty {
            FieldType::Fields(fields) => fields.write_kind(own, out),
            FieldType::Element(element) => write_element(element, &self.names, own, out),
            FieldType::Entry(entry) => write_entry(entry, own, out),
        }
        for (number, count) in self.shape.iter().enumerate().rev() {
            let _ = write!(out, ",\"maxItems\":{count},\"minItems\":{count}");
            write_end(title.filter(|_| number == 0), "array", out);
        }
    }
}

/// The start of an array's schema, up to the schema of its elements.
const ARRAY: &str = "{\"TypeDef:Array\":true,\"items\":";

/// Writes the last keywords of a schema.
fn write_end(title: Option<&str>, json: &str, out: &mut String) {
    if let Some(title) = title {
        out.push_str(",\"title\":");
        write_string(title, out);
    }
    let _ = write!(out, ",\"type\":\"{json}\"}}");
}

/// Writes the schema of one element. A type without an equivalent keeps its NumPy name in a keyword.
fn write_element(
    element: &Element,
    names: &[(String, i128)],
    title: Option<&str>,
    out: &mut String,
) {
    let Element { dtype, logical_type, descr, inner, .. } = element;
    let is_time = descr.as_deref() == Some("<M8[ns]");
    let (json, kind) = match (dtype, logical_type) {
        _ if is_time => ("string", "Timestamp"),
        (_, Some(LogicalType::Complex64)) => ("array", "Complex64"),
        (_, Some(LogicalType::F8E4M3Fn)) => ("number", "Float8E4M3"),
        (_, Some(LogicalType::F8E5M2)) => ("number", "Float8E5M2"),
        (_, Some(_)) => ("array", "Complex128"),
        (DType::Bool, _) => ("boolean", "Boolean"),
        (DType::F64, _) => ("number", "Float64"),
        (DType::F32, _) => ("number", "Float32"),
        (DType::F16, _) => ("number", "Float16"),
        (DType::Bf16, _) => ("number", "BFloat16"),
        (DType::I64, _) => ("integer", "Int64"),
        (DType::I32, _) => ("integer", "Int32"),
        (DType::I16, _) => ("integer", "Int16"),
        (DType::I8, _) => ("integer", "Int8"),
        (DType::U64, _) => ("integer", "Uint64"),
        (DType::U32, _) => ("integer", "Uint32"),
        (DType::U16, _) => ("integer", "Uint16"),
        (DType::U8, _) => ("integer", "Uint8"),
    };
    let write_descr = |out: &mut String| {
        if let Some(descr) = descr.as_deref().filter(|_| !is_time) {
            let _ = write!(out, ",\"{DESCR_KEYWORD}\":");
            write_string(descr, out);
        }
    };
    if let Some(inner) = inner {
        out.push_str(ARRAY);
        let _ = write!(out, "{{\"TypeDef:{kind}\":true,\"type\":\"{json}\"}}");
        let _ = write!(out, ",\"maxItems\":{inner},\"minItems\":{inner}");
        write_descr(out);
        return write_end(title, "array", out);
    }
    let _ = write!(out, "{{\"TypeDef:{kind}\":true");
    if is_time {
        out.push_str(",\"format\":\"date-time\"");
    }
    write_names(names, out);
    write_descr(out);
    write_end(title, json, out);
}

/// Writes the keyword with the names of values, sorted by name.
fn write_names(names: &[(String, i128)], out: &mut String) {
    if names.is_empty() {
        return;
    }
    let mut sorted: Vec<&(String, i128)> = names.iter().collect();
    sort_by(&mut sorted, |(a, _), (b, _)| a.cmp(b));
    let _ = write!(out, ",\"{ENUM_KEYWORD}\":{{");
    for (number, (name, value)) in sorted.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write_string(name, out);
        let _ = write!(out, ":{value}");
    }
    out.push('}');
}

/// Writes the schema of a value of variable length.
fn write_entry(entry: &EntryType, title: Option<&str>, out: &mut String) {
    let json = match entry {
        EntryType::Text => {
            out.push_str("{\"TypeDef:String\":true");
            "string"
        }
        EntryType::Bytes => {
            out.push_str("{\"TypeDef:Bytes\":true,\"contentEncoding\":\"base64\"");
            "string"
        }
        EntryType::Array(inner) => {
            out.push_str(ARRAY);
            inner.write_kind(out);
            "array"
        }
    };
    write_end(title, json, out);
}

/// Returns `true` if the element is opaque bytes.
fn is_opaque(element: &Element) -> bool {
    element.descr.as_deref().is_some_and(|descr| descr.starts_with("|V"))
}
