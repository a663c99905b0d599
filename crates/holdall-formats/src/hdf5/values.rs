//! Writes datatypes, dataspaces and attributes as bytes.

use super::blocks::{Message, Target, Texts};
use super::datatype::{MARKS, TAG};
use super::header::kind;
use holdall_core::model::{DType, LogicalType, Value};
use holdall_core::wire::npy::{Element, FieldType, Fields};

/// The maximum number of dimensions in HDF5.
pub(super) const MAX_RANK: usize = 32;
/// The maximum length of a message, which must be less than 64 KiB.
const MAX_MESSAGE_LEN: usize = 64_000;

/// The element type of a dataset, and the attribute that names it if the datatype does not.
pub(super) struct Stored {
    pub(super) datatype: Vec<u8>,
    pub(super) mark: Option<&'static str>,
}

/// Returns the element type in HDF5, if there is one.
pub(super) fn element(dtype: DType, logical: Option<&LogicalType>) -> Option<Stored> {
    let plain = |datatype: Vec<u8>| Stored { datatype, mark: None };
    let found =
        MARKS.iter().find(|(_, datatype, own)| (datatype, own.as_ref()) == (&dtype, logical));
    let mark = found.map(|(mark, ..)| *mark);
    Some(match logical {
        Some(LogicalType::Complex64) => plain(pair(&float(4, 8, 127))),
        Some(LogicalType::Complex128) => plain(pair(&float(8, 11, 1023))),
        Some(LogicalType::F8E5M2) => plain(float(1, 5, 15)),
        None => Stored { datatype: number(dtype), mark },
        // Opaque bytes, whose type only the attribute names.
        Some(_) => mark.map(|_| Stored { datatype: opaque(1), mark })?,
    })
}

/// Returns the message of a datatype.
pub(super) fn datatype(datatype: Vec<u8>) -> Message {
    Message::new(kind::DATATYPE, datatype)
}

/// Returns the message of a dataspace.
pub(super) fn dataspace(shape: &[u64]) -> Message {
    Message::new(kind::DATASPACE, space(Some(shape)))
}

/// Returns the fill value message: space is allocated late, and the fill value is the default.
pub(super) fn fill() -> Message {
    Message::new(kind::FILL, vec![2, 2, 2, 1, 0, 0, 0, 0])
}

/// Returns the message of an attribute; `None` if HDF5 cannot hold the value, or not in a message.
pub(super) fn attribute(name: &str, value: &Value, texts: &mut Texts) -> Option<Message> {
    if name.is_empty() || name.contains('\0') || name.len() > MAX_MESSAGE_LEN / 2 {
        return None;
    }
    if *value == Value::Null {
        return Some(attribute_message(name, &number(DType::F64), &space(None)));
    }
    let (shape, leaves) = leaves(value)?;
    let values = Values::from_values(&leaves)?;
    let datatype = values.datatype();
    let len = match &values {
        Values::Plain(_, bytes) => bytes.len(),
        Values::Texts(all) => all.len().checked_mul(16)?,
    };
    let mut message = attribute_message(name, &datatype, &space(Some(&shape)));
    if len > MAX_MESSAGE_LEN / 2 {
        return None;
    }
    match values {
        Values::Plain(_, bytes) => message.push(&bytes),
        Values::Texts(all) => {
            for text in all {
                let len = u32::try_from(text.len()).ok()?;
                message.push(&len.to_le_bytes());
                if text.is_empty() {
                    message.push(&[0; 12]);
                    continue;
                }
                let (collection, number) = texts.add(text);
                message.push_address(Target::Texts(collection));
                message.push(&number.to_le_bytes());
            }
        }
    }
    Some(message)
}

/// Returns the message of an attribute without its values, in version 3, in which the name is UTF-8.
fn attribute_message(name: &str, datatype: &[u8], space: &[u8]) -> Message {
    let len = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_le_bytes();
    let mut message = Message::new(kind::ATTRIBUTE, vec![3, 0]);
    [len(name.len().saturating_add(1)), len(datatype.len()), len(space.len())]
        .iter()
        .for_each(|len| message.push(len));
    [&[1][..], name.as_bytes(), &[0], datatype, space].iter().for_each(|bytes| message.push(bytes));
    message
}

/// Returns the shape and the values in row-major order; `None` if the nested lists differ in length.
fn leaves(value: &Value) -> Option<(Vec<u64>, Vec<&Value>)> {
    let (mut shape, mut level) = (Vec::new(), vec![value]);
    while let Some(Value::Array(first)) = level.first() {
        let mut next = Vec::new();
        for item in &level {
            match item {
                Value::Array(items) if items.len() == first.len() => next.extend(items),
                _ => return None,
            }
        }
        shape.push(first.len() as u64);
        // A reader cannot tell how many empty lists a list has.
        if first.is_empty() {
            return (shape.len() == 1).then_some((shape, next));
        }
        level = next;
    }
    (shape.len() <= MAX_RANK).then_some((shape, level))
}

/// Values of one type.
enum Values<'a> {
    Plain(Vec<u8>, Vec<u8>),
    Texts(Vec<&'a str>),
}

impl<'a> Values<'a> {
    fn from_values(all: &[&'a Value]) -> Option<Values<'a>> {
        let each = |datatype: Vec<u8>, get: &dyn Fn(&Value) -> Option<[u8; 8]>| {
            let found: Option<Vec<[u8; 8]>> = all.iter().map(|value| get(value)).collect();
            found.map(|found| Values::Plain(datatype, found.concat()))
        };
        let signed = |value: &Value| Some(i64::try_from(value.as_integer()?).ok()?.to_le_bytes());
        let unsigned = |value: &Value| Some(u64::try_from(value.as_integer()?).ok()?.to_le_bytes());
        let float = |value: &Value| match value {
            Value::Float(x) => Some(x.to_le_bytes()),
            _ => None,
        };
        match all.first() {
            Some(Value::Bool(_)) => {
                let is = |value: &&Value| match value {
                    Value::Bool(is) => Some(u8::from(*is)),
                    _ => None,
                };
                let found: Option<Vec<u8>> = all.iter().map(is).collect();
                found.map(|found| Values::Plain(number(DType::Bool), found))
            }
            Some(Value::Integer(_)) => {
                each(number(DType::I64), &signed).or_else(|| each(number(DType::U64), &unsigned))
            }
            Some(Value::Text(_)) => {
                let text = |value: &&'a Value| value.as_text().filter(|text| !text.contains('\0'));
                all.iter().map(text).collect::<Option<_>>().map(Values::Texts)
            }
            Some(Value::Bytes(first)) => {
                let same = |value: &&'a Value| match value {
                    Value::Bytes(bytes) if bytes.len() == first.len() => Some(bytes.as_slice()),
                    _ => None,
                };
                let found: Option<Vec<&[u8]>> = all.iter().map(same).collect();
                let len = u32::try_from(first.len()).ok().filter(|len| *len > 0)?;
                found.map(|found| Values::Plain(opaque(len), found.concat()))
            }
            Some(Value::Float(_)) | None => each(number(DType::F64), &float),
            Some(_) => None,
        }
    }

    fn datatype(&self) -> Vec<u8> {
        match self {
            Values::Plain(datatype, _) => datatype.clone(),
            Values::Texts(_) => {
                // A variable-length string in UTF-8.
                [&[0x19, 1, 1, 0, 16, 0, 0, 0][..], &number(DType::U8)].concat()
            }
        }
    }
}

/// Returns the body of a dataspace message.
fn space(shape: Option<&[u64]>) -> Vec<u8> {
    let Some(shape) = shape else { return vec![2, 0, 0, 2] };
    let rank = u8::try_from(shape.len()).unwrap_or(u8::MAX);
    let mut out = vec![1, rank, 0, 0, 0, 0, 0, 0];
    shape.iter().for_each(|dim| out.extend_from_slice(&dim.to_le_bytes()));
    out
}

/// Returns the datatype of plain elements.
fn number(dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F64 => float(8, 11, 1023),
        DType::F32 => float(4, 8, 127),
        DType::F16 => float(2, 5, 15),
        DType::Bf16 => float(2, 8, 127),
        DType::I64 => integer(8, true),
        DType::I32 => integer(4, true),
        DType::I16 => integer(2, true),
        DType::I8 => integer(1, true),
        DType::U64 => integer(8, false),
        DType::U32 => integer(4, false),
        DType::U16 => integer(2, false),
        DType::U8 => integer(1, false),
        // As h5py writes booleans.
        DType::Bool => {
            let datatype = integer(1, true);
            [&[0x18, 2, 0, 0, 1, 0, 0, 0][..], &datatype, b"FALSE\0\0\0TRUE\0\0\0\0", &[0, 1]]
                .concat()
        }
    }
}

fn integer(width: u8, is_signed: bool) -> Vec<u8> {
    let bits = if is_signed { 8 } else { 0 };
    vec![0x10, bits, 0, 0, width, 0, 0, 0, 0, 0, width.saturating_mul(8), 0]
}

/// Returns a float type with an implied bit before its mantissa.
fn float(width: u8, exponent: u8, bias: u16) -> Vec<u8> {
    let bits = width.saturating_mul(8);
    let sign = bits.saturating_sub(1);
    let mantissa = sign.saturating_sub(exponent);
    let [low, high] = bias.to_le_bytes();
    let head = [0x11, 0x20, sign, 0, width, 0, 0, 0, 0, 0, bits, 0];
    [&head[..], &[mantissa, exponent, 0, mantissa, low, high, 0, 0]].concat()
}

/// Returns a compound of two floats, as h5py writes complex numbers.
fn pair(datatype: &[u8]) -> Vec<u8> {
    let width = datatype.get(4).copied().unwrap_or_default();
    let mut out = vec![0x16, 2, 0, 0, width.saturating_mul(2), 0, 0, 0];
    for (name, at) in [(b'r', 0), (b'i', width)] {
        out.extend_from_slice(&[name, 0, 0, 0, 0, 0, 0, 0, at, 0, 0, 0]);
        // No dimensions.
        out.extend_from_slice(&[0; 28]);
        out.extend_from_slice(datatype);
    }
    out
}

/// Returns the compound type of records with these fields; `None` if HDF5 has no such type, or it is too long for a
/// message.
pub(super) fn record(fields: &Fields) -> Option<Vec<u8>> {
    let datatype = compound(fields)?;
    (datatype.len() <= MAX_MESSAGE_LEN).then_some(datatype)
}

/// Returns a compound of version 2, whose members have dimensions only in their types.
fn compound(fields: &Fields) -> Option<Vec<u8>> {
    let [low, high] = u16::try_from(fields.all().len()).ok()?.to_le_bytes();
    let size = u32::try_from(fields.size()).ok()?;
    let mut out = [&[0x26, low, high, 0][..], &size.to_le_bytes()].concat();
    for field in fields.all() {
        if field.name.contains('\0') || out.len() > MAX_MESSAGE_LEN {
            return None;
        }
        out.extend_from_slice(field.name.as_bytes());
        let len = field.name.len();
        out.resize(out.len().checked_add(8)?.checked_sub(len.checked_rem(8)?)?, 0);
        out.extend_from_slice(&u32::try_from(field.offset).ok()?.to_le_bytes());
        out.extend(member(&field.ty, &field.shape)?);
    }
    Some(out)
}

/// Returns the type of a field.
fn member(ty: &FieldType, shape: &[u64]) -> Option<Vec<u8>> {
    let mut dims = shape.to_vec();
    let datatype = match ty {
        FieldType::Fields(fields) => compound(fields)?,
        FieldType::Entry(_) => return None,
        FieldType::Element(numpy) => match numpy_datatype(numpy) {
            Some(datatype) => datatype,
            None => {
                dims.extend(numpy.inner);
                let stored = element(numpy.dtype, numpy.logical_type.as_ref());
                stored.filter(|stored| stored.mark.is_none())?.datatype
            }
        },
    };
    let width = u32::from_le_bytes(*datatype.get(4..)?.first_chunk()?);
    if width == 0 || dims.len() > MAX_RANK {
        return None;
    }
    if dims.is_empty() {
        return Some(datatype);
    }
    let len = dims.iter().try_fold(u64::from(width), |n, dim| n.checked_mul(*dim))?;
    let len = u32::try_from(len).ok().filter(|len| *len > 0)?;
    let rank = u8::try_from(dims.len()).ok()?;
    let mut out = [&[0x2a, 0, 0, 0][..], &len.to_le_bytes(), &[rank, 0, 0, 0]].concat();
    for dim in dims {
        out.extend_from_slice(&u32::try_from(dim).ok()?.to_le_bytes());
    }
    // The permutation of the dimensions, which is the identity.
    (0..u32::from(rank)).for_each(|at| out.extend_from_slice(&at.to_le_bytes()));
    out.extend(datatype);
    Some(out)
}

/// Returns the datatype of elements with a specific NumPy type: fixed-length strings, opaque bytes, or times as h5py
/// writes them. `None` for other elements.
pub(super) fn numpy_datatype(datatype: &Element) -> Option<Vec<u8>> {
    let descr = datatype.descr.as_deref()?;
    match (descr.chars().nth(1)?, datatype.inner) {
        ('S', Some(len)) if len > 0 => Some(text(u32::try_from(len).ok()?)),
        ('V', Some(len)) if len > 0 => Some(opaque(u32::try_from(len).ok()?)),
        ('M' | 'm', None) => tagged(&format!("{TAG}{descr}")),
        _ => None,
    }
}

/// Returns the type of eight opaque bytes with a tag.
fn tagged(tag: &str) -> Option<Vec<u8>> {
    let mut out = opaque(8);
    let len = tag.len().checked_next_multiple_of(8)?;
    let end = out.len().checked_add(len)?;
    *out.get_mut(1)? = u8::try_from(len).ok()?;
    out.extend_from_slice(tag.as_bytes());
    out.resize(end, 0);
    Some(out)
}

/// Returns the type of a string of `len` bytes that is padded with zeros.
fn text(len: u32) -> Vec<u8> {
    [&[0x13, 1, 0, 0][..], &len.to_le_bytes()].concat()
}

/// Returns the type of opaque bytes without a tag.
pub(super) fn opaque(len: u32) -> Vec<u8> {
    [&[0x15, 0, 0, 0][..], &len.to_le_bytes()].concat()
}
