//! The header of NumPy's `.npy` files, read and written.
//!
//! # What
//! One array: a header in front of its elements. Also the form of the members of an `.npz`.
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
//! Reads and writes bool, integers and floats of 1 to 8 bytes and complex numbers; reads both byte
//! orders and both element orders; writes little-endian. [`read_any`] reads what has no type of ours as what it is made of,
//! too, and names its type: times as integers, texts and opaque bytes with a dimension more; of structured arrays it tells
//! the fields ([`Fields`]). Object arrays are refused (`npy/dtype`).
//!
//! # Deviations
//! None known. The dict is read as the literal it is, never evaluated.
//!
//! # Untrusted input
//! The header's length is checked against the bytes at hand and [`HEADER_MAX`]; the number of dimensions
//! is bounded by it. Dimensions are handed on as they are.

mod fields;
mod literal;

pub use fields::{DESCR_KEYWORD, Field, FieldType, Fields};

use crate::error::{Result, Shown as _};
use crate::model::{ByteOrder, DType, LogicalType, element_count, stored_size};
use crate::wire::cursor::Cursor;
use literal::{Descr, Literal};
use std::borrow::Cow;

crate::error::rules! {
    /// Every rule of `.npy` headers.
    pub static RULES;

    /// Not an `.npy` file.
    pub MAGIC: Malformed "npy/magic"
        "An .npy file starts with byte 0x93, `NUMPY`, and version 1.0, 2.0 or 3.0.";
    /// It ends inside the header.
    pub TRUNCATED: Malformed "npy/truncated"
        "The header is as long as it says, and at most 64 KiB.";
    /// The header says something else.
    pub HEADER: Malformed "npy/header"
        "The header is a Python dict of `descr`, `fortran_order` and `shape`, and nothing else.";
    /// Elements that are not numbers.
    pub DTYPE: Unsupported "npy/dtype"
        "The elements of an .npy file are booleans, integers, floats or complex numbers of a known width; in a file of tensors also times, strings, bytes, and records of all these."
        hint "save it from Python with another dtype: objects as numbers, longdouble as float64";
    /// Fields that make no record.
    pub FIELDS: Malformed "npy/fields"
        "The fields of a structured type have unique names, and a record has at most 2^63 bytes.";
    /// A type that NumPy does not have.
    pub NO_DESCR: Unsupported "npy/no-such-type"
        "Elements written to an .npy file have a type that NumPy has.";
}

/// The most bytes that are read as a header. The headers of numeric arrays are far below.
pub const HEADER_MAX: u64 = 64 << 10;

/// What a file begins with.
pub const MAGIC_BYTES: &[u8; 6] = b"\x93NUMPY";
/// The elements start at a multiple of this many bytes.
const ALIGN: usize = 64;

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Storage element type.
    pub dtype: DType,
    /// The complex type, where two stored elements are one.
    pub logical_type: Option<LogicalType>,
    /// Order of bytes within an element.
    pub byte_order: ByteOrder,
    /// Whether the first dimension varies fastest.
    pub fortran_order: bool,
    /// Dimensions, in elements; empty for a scalar.
    pub shape: Vec<u64>,
    /// Bytes before the first element.
    pub len: u64,
    /// The name of its type, little-endian, where NumPy's has no like here (`<M8[ns]`, `<U5`, `|V2`).
    pub descr: Option<String>,
    /// How many of `dtype` are one of NumPy's elements, where that is not one: `shape` has them as its last dimension.
    pub inner: Option<u64>,
    /// The fields of a structured array, whose elements are records of bytes; `dtype` is `u8` then.
    pub fields: Option<Fields>,
}

/// What the elements of an array are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Storage element type.
    pub dtype: DType,
    /// The complex type, where two stored elements are one.
    pub logical_type: Option<LogicalType>,
    /// Order of bytes within an element.
    pub byte_order: ByteOrder,
    /// As [`Header::descr`].
    pub descr: Option<String>,
    /// As [`Header::inner`].
    pub inner: Option<u64>,
}

/// NumPy's name of a type, little-endian: `<f4`, `|b1`.
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

/// The header of row-major, little-endian elements. Version 1.0, or 2.0 when it does not fit.
///
/// # Errors
/// [`NO_DESCR`] for `bf16` and the logical types below 32 bits.
pub fn header(dtype: DType, logical: Option<&LogicalType>, shape: &[u64]) -> Result<Vec<u8>> {
    let Some(descr) = descr(dtype, logical) else {
        let name = logical.map_or(dtype.as_str(), |t| t.as_str()).shown();
        return Err(NO_DESCR.broken(format!("NumPy has no type for {name}")));
    };
    header_of(descr, false, shape)
}

/// The header of elements of the type that NumPy calls `descr`, a name or a list of fields, little-endian, whose first dimension varies
/// fastest where `fortran` says so.
///
/// # Errors
/// [`NO_DESCR`], where it would be too long.
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

/// `(3,)` but `(3, 4)`, as NumPy writes it.
pub fn tuple(shape: &[u64]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let dims = match shape {
        [_] => dims.trim_end(),
        _ => dims.trim_end_matches(", "),
    };
    format!("({dims})")
}

/// How many bytes the header has in all, from its first 12 (or all, when there are fewer).
///
/// # Errors
/// [`MAGIC`], [`TRUNCATED`].
pub fn header_len(head: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(head);
    if cursor.take(6) != Some(MAGIC_BYTES) {
        let found = head.get(..6).unwrap_or(head).escape_ascii();
        return Err(MAGIC.broken(format!("it starts with `{found}`")));
    }
    let short = || TRUNCATED.broken(format!("the file ends after {} bytes", head.len()));
    let [major, minor] = cursor.array::<2>().ok_or_else(short)?;
    let len = match (major, minor) {
        (1, 0) => u64::from(u16::from_le_bytes(cursor.array::<2>().ok_or_else(short)?)),
        (2 | 3, 0) => u64::from(u32::from_le_bytes(cursor.array::<4>().ok_or_else(short)?)),
        _ => return Err(MAGIC.broken(format!("it is of version {major}.{minor}"))),
    };
    if len > HEADER_MAX {
        return Err(TRUNCATED.broken(format!("a header of {len} bytes, at most {HEADER_MAX}")));
    }
    Ok(len.saturating_add(cursor.position()))
}

/// Reads the header at the start of `bytes`, of elements of a type that is one of ours.
///
/// # Errors
/// [`MAGIC`], [`TRUNCATED`], [`HEADER`], [`DTYPE`].
pub fn read(bytes: &[u8]) -> Result<Header> {
    let header = read_any(bytes)?;
    match (&header.descr, &header.fields) {
        (Some(descr), _) => Err(DTYPE.broken(format!("elements of type '{}'", descr.shown()))),
        (None, Some(_)) => Err(DTYPE.broken("elements of several fields")),
        (None, None) => Ok(header),
    }
}

/// Reads the header at the start of `bytes`, of elements of any type that has something like it here.
///
/// # Errors
/// As [`read`].
pub fn read_any(bytes: &[u8]) -> Result<Header> {
    let (text, len) = header_text(bytes)?;
    Stated::read(&text)?.header(len)
}

/// Returns how many bytes the elements behind the header take. Beyond what [`read_any`] reads, they may be C's `long double`s, whose width
/// is 12 or 16 bytes. `None` where that passes 2^64.
///
/// # Errors
/// As [`read_any`].
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

/// Returns the text of a header, and the bytes up to the elements.
fn header_text(bytes: &[u8]) -> Result<(Cow<'_, str>, u64)> {
    let len = header_len(bytes)?;
    let Some(head) = usize::try_from(len).ok().and_then(|len| bytes.get(..len)) else {
        let found = bytes.len();
        return Err(TRUNCATED.broken(format!("the header ends at {len}, the file at {found}")));
    };
    let (start, is_utf8) = match bytes.get(6) {
        Some(1) => (10, false),
        version => (12, version == Some(&3)),
    };
    let text = head.get(start..).unwrap_or_default();
    let text = match std::str::from_utf8(text) {
        Ok(text) if is_utf8 || text.is_ascii() => Cow::Borrowed(text),
        Err(_) if is_utf8 => return Err(HEADER.broken("the header is not UTF-8")),
        // Latin-1.
        _ => text.iter().map(|byte| char::from(*byte)).collect(),
    };
    Ok((text, len))
}

/// What a header states.
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
                    return Err(HEADER.broken(format!("unexpected key '{}'", other.shown())));
                }
            };
            if !is_new {
                return Err(HEADER.broken(format!("the key '{key}' is there twice")));
            }
            if !literal.accept(",") {
                literal.expect("}")?;
                break;
            }
        }
        if !literal.rest.trim().is_empty() {
            return Err(HEADER.broken("there is text after the dict"));
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(HEADER.broken("`descr`, `fortran_order` or `shape` is missing"));
        };
        Ok(Stated { descr, fortran_order, shape })
    }

    /// Returns the header, of `len` bytes, as what its elements are here.
    fn header(self, len: u64) -> Result<Header> {
        let Stated { descr, fortran_order, mut shape } = self;
        let (element, fields) = match descr {
            Descr::Name(name) => (any_element(&name)?, None),
            Descr::Fields(said) => (Element::BYTE, Some(Fields::new(said)?)),
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
    /// Bytes that the elements take. `None` where that passes 2^64.
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

/// What elements of the type that NumPy calls `descr` are made of.
///
/// # Errors
/// [`DTYPE`].
pub fn any_element(descr: &str) -> Result<Element> {
    let (order, name) = ordered(descr);
    let kind = name.split_at_checked(1).unwrap_or_default();
    let count = || kind.1.parse::<u32>().ok().map(u64::from);
    let is_time = name.get(..2).is_some_and(|two| matches!(two, "M8" | "m8"));
    let found = match kind.0 {
        "M" | "m" if is_time && is_unit(name.get(2..).unwrap_or_default()) => {
            Some((DType::I64, None))
        }
        "U" => count().map(|n| (DType::U32, Some(n))),
        "S" | "a" | "V" => count().map(|n| (DType::U8, Some(n))),
        "O" => {
            let what = "the elements are Python's objects, in a pickle, which is never run";
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
        _ => return Err(DTYPE.broken(format!("elements of type '{}'", descr.shown()))),
    };
    // What is read is little-endian.
    let order = if dtype.width() == 1 { "|" } else { "<" };
    let descr = Some(format!("{order}{name}"));
    Ok(Element { dtype, logical_type: None, byte_order, descr, inner })
}

/// The order of bytes that the name of a type begins with, and the rest. One without is of the machine that wrote it, as one
/// with `=` is, which is taken for little-endian.
fn ordered(descr: &str) -> (&str, &str) {
    let parts = descr.split_at_checked(1);
    parts.filter(|(order, _)| matches!(*order, "<" | ">" | "|" | "=")).unwrap_or(("=", descr))
}

/// Whether it is the unit of a time: `[ns]`, `[25us]`, or none.
fn is_unit(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let is_plain =
        |inner: &str| !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_alphanumeric());
    text.is_empty() || inner.is_some_and(is_plain)
}

/// Whether it is how NumPy names numbers of some width: `f16`.
fn is_number(name: &str) -> bool {
    let width = name.strip_prefix(['b', 'i', 'u', 'f', 'c']);
    width.is_some_and(|width| !width.is_empty() && width.bytes().all(|b| b.is_ascii_digit()))
}

/// The type that NumPy calls `descr`: `<f4`.
///
/// # Errors
/// [`DTYPE`].
pub fn element(descr: &str) -> Result<(DType, Option<LogicalType>, ByteOrder)> {
    let unknown = || {
        let e = DTYPE.broken(format!("elements of type '{}'", descr.shown()));
        match is_number(ordered(descr).1) {
            true => e,
            false => e.with_hint(
                "`numpy.save` writes names of types like '<f4' and '|b1': save it anew with that",
            ),
        }
    };
    let (order, name) = ordered(descr);
    // Words, which have four letters and more, stand without an order.
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
