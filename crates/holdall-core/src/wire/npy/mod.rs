//! The header of NumPy's `.npy` files, read and written.
//!
//! # Overview
//! A file contains one array: a header followed by its elements. The members of an `.npz` have the same format.
//!
//! # Layout
//! ```text
//! 0        6    magic: 93 `NUMPY`
//! 6        2    version: 1.0, 2.0 or 3.0
//! 8        2|4  length of the header, u16 (1.0) or u32 (2.0 and 3.0), little-endian
//! 10|12    len  a Python dict, padded with spaces to a multiple of 64 in all, and a line feed:
//!               {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//! ```
//!
//! # Specification
//! NEP 1 and the documentation of `numpy.lib.format`.
//!
//! # Support
//! Reads and writes bool, integers and floats of 1 to 8 bytes, and complex numbers; reads both byte orders and both
//! element orders; writes little-endian. [`read_any`] also reads types without an equivalent here as their parts, and
//! keeps the NumPy name of the type: times as integers, texts and opaque bytes with an additional dimension, and
//! structured arrays with their fields ([`Fields`]). Object arrays are refused (`npy/dtype`).
//!
//! # Deviations
//! None known. The dict is parsed as a literal, never evaluated.
//!
//! # Untrusted input
//! The header's length is compared with the available bytes and [`HEADER_MAX`], which also limits the number of
//! dimensions. Dimensions are returned unchecked.

mod fields;
mod literal;

pub use fields::{DESCR_KEYWORD, ENUM_KEYWORD, EntryType, Field, FieldType, Fields};

use crate::error::{Escape as _, Result};
use crate::model::{ByteOrder, DType, LogicalType, element_count, stored_size};
use crate::wire::cursor::Cursor;
use holdall_collections::DebugUnwrap;
use literal::{Descr, Literal};
use std::borrow::Cow;

crate::error::rules! {
    /// All rules of `.npy` headers.
    pub static RULES;

    /// The file does not start like an `.npy` file.
    pub MAGIC: Malformed "npy/magic"
        "An .npy file starts with byte 0x93, `NUMPY`, and version 1.0, 2.0 or 3.0.";
    /// The file ends inside the header.
    pub TRUNCATED: Malformed "npy/truncated"
        "The header has the length that it states, and at most 64 KiB.";
    /// The header has unexpected contents.
    pub HEADER: Malformed "npy/header"
        "The header is a Python dict of `descr`, `fortran_order` and `shape`, and nothing else.";
    /// The type of the elements is not supported.
    pub DTYPE: Unsupported "npy/dtype"
        "The elements of an .npy file are booleans, integers, floats or complex numbers of a known width; in a file of tensors also times, strings, bytes, and records of all these."
        hint "save it from Python with another dtype: objects as numbers, longdouble as float64";
    /// The fields of a record are invalid.
    pub FIELDS: Malformed "npy/fields"
        "The fields of a structured type have unique names, and a record has at most 2^63 bytes.";
    /// NumPy has no such type.
    pub NO_DESCR: Unsupported "npy/no-such-type"
        "Elements written to an .npy file have a type that NumPy has.";
}

/// The maximum length of a header, in bytes. Headers of numeric arrays are much shorter.
pub const HEADER_MAX: u64 = 64 << 10;

/// The first bytes of a file.
pub const MAGIC_BYTES: &[u8; 6] = b"\x93NUMPY";
/// The alignment of the elements, in bytes.
const ALIGN: usize = 64;

/// The contents of a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The storage element type.
    pub dtype: DType,
    /// The complex type, if two stored elements form one element.
    pub logical_type: Option<LogicalType>,
    /// The order of bytes within an element.
    pub byte_order: ByteOrder,
    /// Whether the first dimension varies fastest.
    pub fortran_order: bool,
    /// The dimensions, in elements; empty for a scalar.
    pub shape: Vec<u64>,
    /// Bytes before the first element.
    pub len: u64,
    /// NumPy's name of the type, little-endian, if it has no equivalent here (`<M8[ns]`, `<U5`, `|V2`).
    pub descr: Option<String>,
    /// The number of elements of `dtype` that form one of NumPy's elements, if it is not one: the last dimension of
    /// `shape`.
    pub inner: Option<u64>,
    /// The fields of a structured array, whose elements are records of bytes; `dtype` is then `u8`.
    pub fields: Option<Fields>,
}

/// The type of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The storage element type.
    pub dtype: DType,
    /// The complex type, if two stored elements form one element.
    pub logical_type: Option<LogicalType>,
    /// The order of bytes within an element.
    pub byte_order: ByteOrder,
    /// NumPy's name of the type, as in [`Header::descr`].
    pub descr: Option<String>,
    /// The number of elements of `dtype` per element, as in [`Header::inner`].
    pub inner: Option<u64>,
}

/// Returns NumPy's name of a type, little-endian: `<f4`, `|b1`.
pub fn descr(dtype: DType, logical: Option<&LogicalType>) -> Option<&'static str> {
    Some(match (logical, dtype) {
        (None, DType::F64) => "<f8",
        (None, DType::F32) => "<f4",
        (None, DType::F16) => "<f2",
        (None, DType::Bf16) => return None,
        (None, DType::I64) => "<i8",
        (None, DType::I32) => "<i4",
        (None, DType::I16) => "<i2",
        (None, DType::I8) => "|i1",
        (None, DType::U64) => "<u8",
        (None, DType::U32) => "<u4",
        (None, DType::U16) => "<u2",
        (None, DType::U8) => "|u1",
        (None, DType::Bool) => "|b1",
        (Some(LogicalType::Complex64), DType::F32) => "<c8",
        (Some(LogicalType::Complex128), DType::F64) => "<c16",
        (Some(_), _) => return None,
    })
}

/// Returns the header of row-major, little-endian elements, in version 1.0, or 2.0 if it does not fit.
///
/// # Errors
/// Returns [`NO_DESCR`] for `bf16` and logical types below 32 bits.
pub fn header(dtype: DType, logical: Option<&LogicalType>, shape: &[u64]) -> Result<Vec<u8>> {
    let Some(descr) = descr(dtype, logical) else {
        let name = logical.map_or(dtype.as_str(), |t| t.as_str()).escaped();
        return Err(NO_DESCR.broken(format!("NumPy has no type for {name}")));
    };
    header_of(descr, false, shape)
}

/// Returns the header of little-endian elements whose type NumPy calls `descr`, a name or a list of fields. `fortran`
/// says that the first dimension varies fastest.
///
/// # Errors
/// Returns [`NO_DESCR`] if the header would be too long.
pub fn header_of(descr: &str, fortran: bool, shape: &[u64]) -> Result<Vec<u8>> {
    let shape = tuple(shape);
    let order = if fortran { "True" } else { "False" };
    let quote = if descr.starts_with('[') { "" } else { "'" };
    let dict =
        format!("{{'descr': {quote}{descr}{quote}, 'fortran_order': {order}, 'shape': {shape}, }}");
    for (version, width) in [(1u8, 2usize), (2, 4)] {
        let before = MAGIC_BYTES.len().saturating_add(2).saturating_add(width);
        let total = before.saturating_add(dict.len()).saturating_add(1).next_multiple_of(ALIGN);
        let len = total.saturating_sub(before);
        let Ok(len) = u32::try_from(len) else { break };
        if width == 2 && len > u32::from(u16::MAX) {
            continue;
        }
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(MAGIC_BYTES);
        out.extend_from_slice(&[version, 0]);
        out.extend(len.to_le_bytes().iter().take(width));
        out.extend_from_slice(dict.as_bytes());
        out.resize(total.saturating_sub(1), b' ');
        out.push(b'\n');
        return Ok(out);
    }
    Err(NO_DESCR.broken("the shape has too many dimensions for a header"))
}

/// Formats a shape as NumPy does: `(3,)`, but `(3, 4)`.
pub fn tuple(shape: &[u64]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let dims = match shape {
        [_] => dims.trim_end(),
        _ => dims.trim_end_matches(", "),
    };
    format!("({dims})")
}

/// Returns the length of the header in bytes, given the first 12 bytes of the file (or all, if there are fewer).
///
/// # Errors
/// Returns [`MAGIC`] if the file does not start like an `.npy` file, and [`TRUNCATED`] if the file ends or the header
/// is too long.
pub fn header_len(head: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(head);
    if cursor.take(6) != Some(MAGIC_BYTES) {
        let found = head.get(..6).unwrap_or(head).escape_ascii();
        return Err(MAGIC.broken(format!("the file starts with `{found}`")));
    }
    let short = || TRUNCATED.broken(format!("the file ends after {} bytes", head.len()));
    let [major, minor] = cursor.array::<2>().ok_or_else(short)?;
    let len = match (major, minor) {
        (1, 0) => u64::from(u16::from_le_bytes(cursor.array::<2>().ok_or_else(short)?)),
        (2 | 3, 0) => u64::from(u32::from_le_bytes(cursor.array::<4>().ok_or_else(short)?)),
        _ => return Err(MAGIC.broken(format!("unsupported version {major}.{minor}"))),
    };
    if len > HEADER_MAX {
        return Err(
            TRUNCATED.broken(format!("a header of {len} bytes exceeds the limit of {HEADER_MAX}"))
        );
    }
    Ok(len.saturating_add(cursor.position()))
}

/// Reads the header at the start of `bytes`, for elements of a type that Holdall has.
///
/// # Errors
/// Returns [`MAGIC`] or [`TRUNCATED`] like [`header_len`], [`HEADER`] if the contents are invalid, and [`DTYPE`] if the
/// type is not supported.
pub fn read(bytes: &[u8]) -> Result<Header> {
    let header = read_any(bytes)?;
    match (&header.descr, &header.fields) {
        (Some(descr), _) => {
            Err(DTYPE.broken(format!("unsupported elements of type '{}'", descr.escaped())))
        }
        (None, Some(_)) => Err(DTYPE.broken("unsupported elements of several fields")),
        (None, None) => Ok(header),
    }
}

/// Reads the header at the start of `bytes`, for elements of any type that can be read as its parts.
///
/// # Errors
/// Returns the errors of [`read`].
pub fn read_any(bytes: &[u8]) -> Result<Header> {
    let (text, len) = header_text(bytes)?;
    Stated::read(&text)?.header(len)
}

/// Returns the number of bytes of the elements after the header, or `None` if it exceeds 2^64. In addition to the types
/// of [`read_any`], accepts C's `long double`, of 12 or 16 bytes.
///
/// # Errors
/// Returns the errors of [`read_any`].
pub fn elements_len(bytes: &[u8]) -> Result<Option<u64>> {
    let (text, len) = header_text(bytes)?;
    let stated = Stated::read(&text)?;
    let width = match &stated.descr {
        Descr::Name(name) => match ordered(name).1 {
            "f12" => Some(12),
            "f16" => Some(16),
            "c24" => Some(24),
            "c32" => Some(32),
            _ => None,
        },
        Descr::Fields(_) => None,
    };
    match width {
        Some(width) => Ok(element_count(&stated.shape).and_then(|count| count.checked_mul(width))),
        None => Ok(stated.header(len)?.elements_len()),
    }
}

/// Returns the text of a header, and the offset of the elements.
fn header_text(bytes: &[u8]) -> Result<(Cow<'_, str>, u64)> {
    let len = header_len(bytes)?;
    let Some(head) = usize::try_from(len).ok().and_then(|len| bytes.get(..len)) else {
        let found = bytes.len();
        return Err(TRUNCATED
            .broken(format!("the header ends at byte {len}, but the file ends at {found}")));
    };
    let (start, is_utf8) = match bytes.get(6) {
        Some(1) => (10, false),
        version => (12, version == Some(&3)),
    };
    let text = head.get(start..).debug_unwrap();
    let text = match std::str::from_utf8(text) {
        Ok(text) if is_utf8 || text.is_ascii() => Cow::Borrowed(text),
        Err(_) if is_utf8 => return Err(HEADER.broken("the header is not UTF-8")),
        // Latin-1.
        _ => text.iter().map(|byte| char::from(*byte)).collect(),
    };
    Ok((text, len))
}

/// The contents of a header, before the types are resolved.
struct Stated<'a> {
    descr: Descr<'a>,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl<'a> Stated<'a> {
    fn read(text: &'a str) -> Result<Stated<'a>> {
        let mut literal = Literal { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        literal.expect("{")?;
        while !literal.accept("}") {
            let key = literal.string()?;
            literal.expect(":")?;
            let is_new = match &*key {
                "descr" => descr.replace(literal.descr()?).is_none(),
                "fortran_order" => fortran_order.replace(literal.bool()?).is_none(),
                "shape" => shape.replace(literal.shape()?).is_none(),
                other => {
                    return Err(HEADER.broken(format!("unexpected key '{}'", other.escaped())));
                }
            };
            if !is_new {
                return Err(HEADER.broken(format!("the key '{key}' occurs twice")));
            }
            if !literal.accept(",") {
                literal.expect("}")?;
                break;
            }
        }
        if !literal.rest.trim().is_empty() {
            return Err(HEADER.broken("unexpected text after the dict"));
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(HEADER.broken("`descr`, `fortran_order` or `shape` is missing"));
        };
        Ok(Stated { descr, fortran_order, shape })
    }

    /// Returns the header, of `len` bytes, with resolved types.
    fn header(self, len: u64) -> Result<Header> {
        let Stated { descr, fortran_order, mut shape } = self;
        let (element, fields) = match descr {
            Descr::Name(name) => (any_element(&name)?, None),
            Descr::Fields(descrs) => (Element::BYTE, Some(Fields::new(descrs)?)),
        };
        let Element { dtype, logical_type, byte_order, descr, inner } = element;
        shape.extend(inner);
        Ok(Header {
            dtype,
            logical_type,
            byte_order,
            fortran_order,
            shape,
            len,
            descr,
            inner,
            fields,
        })
    }
}

impl Header {
    /// Returns the bytes of the elements, or `None` if they exceed 2^64.
    pub fn elements_len(&self) -> Option<u64> {
        let count = element_count(&self.shape)?;
        match &self.fields {
            Some(fields) => count.checked_mul(fields.size()),
            None => stored_size(count, self.dtype, self.logical_type.as_ref()).ok().flatten(),
        }
    }
}

impl Element {
    /// A byte.
    const BYTE: Element = Element {
        dtype: DType::U8,
        logical_type: None,
        byte_order: ByteOrder::Little,
        descr: None,
        inner: None,
    };
}

/// Returns the type of elements that NumPy calls `descr`.
///
/// # Errors
/// Returns [`DTYPE`] if the type is not supported.
pub fn any_element(descr: &str) -> Result<Element> {
    let (order, name) = ordered(descr);
    let kind = name.split_at_checked(1).unwrap_or_default();
    let count = || kind.1.parse::<u32>().ok().map(u64::from);
    let is_time = name.get(..2).is_some_and(|two| matches!(two, "M8" | "m8"));
    let found = match kind.0 {
        "M" | "m" if is_time && is_unit(name.get(2..).debug_unwrap()) => Some((DType::I64, None)),
        "U" => count().map(|n| (DType::U32, Some(n))),
        "S" | "a" | "V" => count().map(|n| (DType::U8, Some(n))),
        "O" => {
            let what = "the elements are Python objects in a pickle, which Holdall never runs";
            return Err(DTYPE.broken(what));
        }
        _ => None,
    };
    let Some((dtype, inner)) = found else {
        let (dtype, logical_type, byte_order) = element(descr)?;
        return Ok(Element { dtype, logical_type, byte_order, descr: None, inner: None });
    };
    let byte_order = match order {
        ">" => ByteOrder::Big,
        "<" | "|" | "=" => ByteOrder::Little,
        _ => {
            return Err(DTYPE.broken(format!("unsupported elements of type '{}'", descr.escaped())));
        }
    };
    // Decoded elements are little-endian.
    let order = if dtype.width() == 1 { "|" } else { "<" };
    let descr = Some(format!("{order}{name}"));
    Ok(Element { dtype, logical_type: None, byte_order, descr, inner })
}

/// Splits the name of a type into its byte order and the rest. Without an order, or with `=`, it has the order of the
/// machine that wrote it, which is assumed to be little-endian.
fn ordered(descr: &str) -> (&str, &str) {
    let parts = descr.split_at_checked(1);
    parts.filter(|(order, _)| matches!(*order, "<" | ">" | "|" | "=")).unwrap_or(("=", descr))
}

/// Returns `true` if the text is the unit of a time, `[ns]` or `[25us]`, or empty.
fn is_unit(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_plain =
        |inner: &str| !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_alphanumeric());
    text.is_empty() || inner.is_some_and(is_plain)
}

/// Returns `true` if the name has the form of a number with a width: `f16`.
fn is_number(name: &str) -> bool {
    let width = name.strip_prefix(['b', 'i', 'u', 'f', 'c']);
    width.is_some_and(|width| !width.is_empty() && width.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the type that NumPy calls `descr`: `<f4`.
///
/// # Errors
/// Returns [`DTYPE`] if the type is not supported.
pub fn element(descr: &str) -> Result<(DType, Option<LogicalType>, ByteOrder)> {
    let unknown = || {
        let e = DTYPE.broken(format!("unsupported elements of type '{}'", descr.escaped()));
        match is_number(ordered(descr).1) {
            true => e,
            false => e.with_hint(
                "save the array again with `numpy.save`, which writes type names like '<f4' and '|b1'",
            ),
        }
    };
    let (order, name) = ordered(descr);
    // Words, which have at least four letters, have no byte order.
    if descr != name && name.len() > 3 {
        return Err(unknown());
    }
    let (dtype, logical_type) = match name {
        "f8" | "d" | "float64" => (DType::F64, None),
        "f4" | "f" | "float32" => (DType::F32, None),
        "f2" | "e" | "float16" => (DType::F16, None),
        "i8" | "q" | "int64" => (DType::I64, None),
        "i4" | "i" | "int32" => (DType::I32, None),
        "i2" | "h" | "int16" => (DType::I16, None),
        "i1" | "b" | "int8" => (DType::I8, None),
        "u8" | "Q" | "uint64" => (DType::U64, None),
        "u4" | "I" | "uint32" => (DType::U32, None),
        "u2" | "H" | "uint16" => (DType::U16, None),
        "u1" | "B" | "uint8" => (DType::U8, None),
        "b1" | "?" | "bool" => (DType::Bool, None),
        "c8" | "F" | "complex64" => (DType::F32, Some(LogicalType::Complex64)),
        "c16" | "D" | "complex128" => (DType::F64, Some(LogicalType::Complex128)),
        _ => return Err(unknown()),
    };
    let byte_order = if order == ">" { ByteOrder::Big } else { ByteOrder::Little };
    Ok((dtype, logical_type, byte_order))
}
