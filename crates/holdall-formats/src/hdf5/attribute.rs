//! Attributes of objects as values.

use super::datatype::{Dataspace, Datatype, Kind, Number, Padding, is_bool};
use super::header::{Header, Message, kind};
use super::heaps::FractalHeap;
use super::reader::{Reader, little};
use super::tree::{self, slice};
use super::variable_length::{GlobalHeaps, Located, Paths, ended, part, referenced};
use super::{TOO_MANY, VERSION};
use bytes::Bytes;
use half::{bf16, f16};
use holdall_collections::HashSet;
use holdall_core::error::{Error, ErrorKind, Escape as _, Result};
use holdall_core::model::{ByteOrder, DType, LogicalType, Value};
use holdall_core::window::Stop;
use std::sync::Arc;

/// The type of a B-tree of version 2 that has attributes by name.
const BY_NAME: u8 = 8;

/// An attribute: its value, or a description of its type if it cannot be a value.
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) value: Result<Value, String>,
    /// An attribute with references to objects, whose paths are not known before all groups are.
    later: Option<Later>,
}

struct Later {
    parsed: Parsed,
    heaps: Arc<GlobalHeaps>,
}

impl Attribute {
    /// Completes a value with references to objects.
    pub(super) fn finish(&mut self, reader: &Reader<'_>, paths: &Paths) -> Result<()> {
        if let Some(Later { parsed, heaps }) = self.later.take() {
            let values = Values { reader, heaps: &heaps, paths };
            // They were counted when the attribute was found.
            let mut budget = Budget { left: u64::MAX };
            self.value = parsed.value(&values, &mut budget).map_err(|e| named(e, &self.name))?;
        }
        Ok(())
    }
}

/// The number of values that may still be read.
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(reader: &Reader<'_>) -> Budget {
        Budget { left: reader.limits.attribute_values }
    }

    pub(super) fn take(&mut self, reader: &Reader<'_>, count: u64) -> Result<()> {
        let most = reader.limits.attribute_values;
        let over = || TOO_MANY.broken(format!("more than {most} values"));
        self.left = self.left.checked_sub(count).ok_or_else(over)?;
        Ok(())
    }

    /// Returns the number of values that may still be read.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Counts a value of `len` bytes, which counts as several if it is long.
    pub(super) fn take_bytes(&mut self, reader: &Reader<'_>, len: u64) -> Result<()> {
        self.take(reader, len / BYTES)
    }
}

/// The number of bytes of a value that count as one further value.
const BYTES: u64 = 64;

/// Returns all attributes of an object, in its order.
pub(super) fn attributes(
    reader: &Reader<'_>,
    header: &Header,
    budget: &mut Budget,
) -> Result<Vec<Attribute>, Stop> {
    let mut messages: Vec<Message> = header.all(kind::ATTRIBUTE).cloned().collect();
    if let Some(info) = header.get(reader, kind::ATTRIBUTE_INFO)? {
        messages.append(&mut dense(reader, &info)?);
    }
    let mut parsed = Vec::new();
    for message in &messages {
        let mut name = "?".to_owned();
        let found = parse(reader, message, &mut name);
        parsed.push((name, unsupported_as_text(found)?));
    }
    let mut heaps = GlobalHeaps::default();
    let sound = parsed.iter().filter_map(|(_, found)| found.as_ref().ok());
    let all: Vec<(&Datatype, &[u8])> =
        sound.map(|found| (&found.datatype, &*found.bytes)).collect();
    heaps.load(reader, &all)?;
    let (heaps, paths) = (Arc::new(heaps), Paths::default());
    let mut out = Vec::new();
    for (name, found) in parsed {
        let values = Values { reader, heaps: &heaps, paths: &paths };
        let (value, later) = match found {
            Ok(parsed) => {
                let value = parsed.value(&values, budget).map_err(|e| named(e, &name))?;
                let has_references = parsed.datatype.has_references();
                let later = has_references.then(|| Later { parsed, heaps: heaps.clone() });
                (value, later)
            }
            Err(what) => (Err(what), None),
        };
        out.push(Attribute { name, value, later });
    }
    Ok(out)
}

/// Separates unsupported attributes from invalid ones: returns the message of an `Unsupported` error as text, for an
/// attribute to be ignored, and other errors as errors.
fn unsupported_as_text<T>(found: Result<T, Stop>) -> Result<Result<T, String>, Stop> {
    match found {
        Err(Stop::Fail(e)) if e.kind() == ErrorKind::Unsupported => Ok(Err(e.message().to_owned())),
        found => found.map(Ok),
    }
}

fn named(e: Error, name: &str) -> Error {
    e.within(format!("the attribute `{}`", name.escaped()))
}

/// Returns the attributes in a fractal heap, as messages.
fn dense(reader: &Reader<'_>, info: &Message) -> Result<Vec<Message>, Stop> {
    let (version, heap, names) = reader.read(info.at, "attribute info", &info.body, |cursor| {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        cursor.take(if flags & 1 != 0 { 2 } else { 0 })?;
        Some((version, reader.address(cursor)?, reader.address(cursor)?))
    })?;
    if version != 0 {
        return Err(VERSION
            .broken(format!("unsupported version of attribute info: {version}"))
            .into());
    }
    let (Some(heap), Some(names)) = (heap, names) else { return Ok(Vec::new()) };
    let heap = FractalHeap::read(reader, heap)?;
    let records = tree::records_v2(reader, names, BY_NAME, None)?;
    // A record has the id, the flags of the message, a number and a hash.
    let ids =
        records.iter().map(|record| slice(record, 0..(record.len() as u64).saturating_sub(9)));
    let objects = heap.objects(reader, ids)?;
    let mut messages = Vec::new();
    for ((at, body), record) in objects.into_iter().zip(records) {
        let flags = record.len().checked_sub(9).and_then(|at| record.get(at)).copied();
        messages.push(Message::new(kind::ATTRIBUTE, flags.unwrap_or_default(), body, at));
    }
    Ok(messages)
}

/// A parsed attribute. Its strings may be in the global heap.
struct Parsed {
    datatype: Datatype,
    shape: Option<Vec<u64>>,
    count: u64,
    bytes: Bytes,
    at: u64,
}

/// Parses the message of an attribute. The name is stored in `called` as soon as it is read, for errors.
fn parse(reader: &Reader<'_>, message: &Message, called: &mut String) -> Result<Parsed, Stop> {
    let message = &message.resolve_shared(reader)?;
    let at = message.at;
    let body = &message.body;
    let (version, flags, name, datatype, space, data) =
        reader.read(at, "an attribute", body, |cursor| {
            let (version, flags) = (cursor.u8()?, cursor.u8()?);
            let lens = [cursor.u16_le()?, cursor.u16_le()?, cursor.u16_le()?];
            cursor.take(if version > 2 { 1 } else { 0 })?;
            let mut next = |len: u16| {
                let len = u64::from(len);
                let from = cursor.position();
                cursor.take(if version < 2 { len.next_multiple_of(8) } else { len })?;
                Some(slice(body, from..from.saturating_add(len)))
            };
            let [name, datatype, space] = lens;
            let (name, datatype, space) = (next(name)?, next(datatype)?, next(space)?);
            let data = slice(body, cursor.position()..body.len() as u64);
            Some((version, flags, name, datatype, space, data))
        })?;
    if !(1..=3).contains(&version) {
        return Err(VERSION.broken(format!("unsupported attribute version {version}")).into());
    }
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    *called = String::from_utf8_lossy(name).into_owned();
    // In version 1, this byte is reserved.
    let is_shared = |bit: u8| version > 1 && flags & bit != 0;
    let own = |bit: u8, kind: u16, body: Bytes| match is_shared(bit) {
        true => message.shared(reader, kind, &body).map(|message| message.body),
        false => Ok(body),
    };
    let datatype = Datatype::read(reader, at, &own(1, kind::DATATYPE, datatype)?)?;
    let space = Dataspace::read(reader, at, &own(2, kind::DATASPACE, space)?)?;
    let count = space.count();
    let len = count.and_then(|count| count.checked_mul(datatype.size.into()));
    let (Some(count), Some(len)) = (count, len.filter(|len| *len <= data.len() as u64)) else {
        let message = format!("some values of the attribute `{}` are missing", called.escaped());
        return Err(reader.broken(at, message).into());
    };
    let bytes = slice(&data, 0..len);
    Ok(Parsed { datatype, shape: space.shape, count, bytes, at })
}

impl Parsed {
    /// Returns the bytes of each value.
    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let size = usize::try_from(self.datatype.size).unwrap_or(usize::MAX).max(1);
        self.bytes.chunks_exact(size)
    }

    fn value(&self, values: &Values<'_, '_>, budget: &mut Budget) -> Result<Result<Value, String>> {
        let reader = values.reader;
        let Some(shape) = &self.shape else {
            budget.take(reader, 1)?;
            return Ok(Ok(Value::Null));
        };
        budget.take(reader, self.count.saturating_add(1))?;
        // Values of 0 bytes are empty strings.
        let all = match self.datatype.size {
            0 => Ok((0..self.count).map(|_| Value::Text(String::new())).collect()),
            _ => values
                .list(&self.datatype, self.each(), budget)
                .map_err(|e| self.located(reader, e))?,
        };
        Ok(all.map(|all| nested(all, shape)))
    }

    /// Adds the location of the attribute to an error.
    fn located(&self, reader: &Reader<'_>, e: Error) -> Error {
        e.at(reader.locate(self.at, 0).unwrap_or_default())
    }
}

/// Returns values in row-major order as nested arrays.
fn nested(mut values: Vec<Value>, shape: &[u64]) -> Value {
    let Some((_, inner)) = shape.split_first() else {
        return values.pop().unwrap_or(Value::Null);
    };
    for dim in inner.iter().rev() {
        let dim = usize::try_from(*dim).unwrap_or(usize::MAX);
        if dim == 0 {
            return Value::Array(Vec::new());
        }
        let mut rest = values.into_iter();
        values = Vec::new();
        loop {
            let row: Vec<Value> = rest.by_ref().take(dim).collect();
            if row.is_empty() {
                break;
            }
            values.push(Value::Array(row));
        }
    }
    Value::Array(values)
}

/// Reads values.
struct Values<'a, 'w> {
    reader: &'a Reader<'w>,
    heaps: &'a GlobalHeaps,
    paths: &'a Paths,
}

impl Values<'_, '_> {
    /// Reads values of one type; returns a description of the type if they cannot be values.
    fn list<'b>(
        &self,
        datatype: &Datatype,
        all: impl Iterator<Item = &'b [u8]>,
        budget: &mut Budget,
    ) -> Result<Result<Vec<Value>, String>> {
        let mut values = Vec::new();
        for bytes in all {
            match self.one(datatype, bytes, budget)? {
                Ok(value) => values.push(value),
                Err(what) => return Ok(Err(what)),
            }
        }
        Ok(Ok(values))
    }

    /// Reads a value.
    fn one(
        &self,
        datatype: &Datatype,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<Result<Value, String>> {
        budget.take_bytes(self.reader, bytes.len() as u64)?;
        let items = |bytes: usize, datatype: &Datatype| {
            (bytes as u64).checked_div(datatype.size.into()).unwrap_or(0)
        };
        let size =
            |datatype: &Datatype| usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
        Ok(Ok(match &datatype.kind {
            Kind::Number(number) => numeric(number, bytes),
            Kind::Enum(base, names) => match (&base.kind, is_bool(base, names)) {
                (_, true) => Value::Bool(bytes.first().is_some_and(|byte| *byte != 0)),
                (Kind::Number(number), false) => numeric(number, bytes),
                _ => return Ok(Err("enumerations that are not of numbers".to_owned())),
            },
            Kind::Text(padding) => {
                let trimmed = match padding {
                    Padding::Ended => ended(bytes),
                    Padding::Zeros => trimmed(bytes, 0),
                    Padding::Spaces => trimmed(bytes, b' '),
                };
                text(trimmed)
            }
            Kind::Opaque(_) => Value::Bytes(bytes.to_vec()),
            Kind::Array(_, datatype) if matches!(datatype.kind, Kind::Array(..)) => {
                return Ok(Err("arrays of arrays".to_owned()));
            }
            Kind::Array(dims, datatype) => {
                budget.take(self.reader, items(bytes.len(), datatype))?;
                match self.list(datatype, bytes.chunks_exact(size(datatype)), budget)? {
                    Ok(values) => nested(values, dims),
                    Err(what) => return Ok(Err(what)),
                }
            }
            Kind::VarText | Kind::Var(_) => {
                let width = match &datatype.kind {
                    Kind::Var(datatype) => datatype.size.into(),
                    _ => 1,
                };
                let missing = || self.reader.broken(0, "a value is missing from the heap");
                let found = Located::read(self.reader, bytes).ok_or_else(missing)?;
                let found = self.heaps.get(found, width).ok_or_else(missing)?;
                budget.take_bytes(self.reader, found.len() as u64)?;
                let Kind::Var(datatype) = &datatype.kind else {
                    return Ok(Ok(text(ended(&found))));
                };
                budget.take(self.reader, items(found.len(), datatype))?;
                match self.list(datatype, found.chunks_exact(size(datatype)), budget)? {
                    Ok(values) => Value::Array(values),
                    Err(what) => return Ok(Err(what)),
                }
            }
            Kind::Reference if self.paths.is_empty() => Value::Null,
            Kind::Reference => match referenced(self.reader, self.paths, bytes) {
                Ok(path) => Value::Text(path.to_owned()),
                Err(e) => return Ok(Err(e.message().to_owned())),
            },
            Kind::Record(members) => {
                budget.take(self.reader, members.len() as u64)?;
                let (mut pairs, mut names) = (Vec::new(), HashSet::default());
                for member in members {
                    let own = part(bytes, member.at, member.datatype.size);
                    let outside = || self.reader.broken(0, "a member lies outside of its record");
                    if !names.insert(member.name.as_str()) {
                        return Ok(Err("records with two members of one name".to_owned()));
                    }
                    match self.one(&member.datatype, own.ok_or_else(outside)?, budget)? {
                        Ok(value) => pairs.push((Value::Text(member.name.clone()), value)),
                        Err(what) => return Ok(Err(what)),
                    }
                }
                Value::Map(pairs)
            }
            Kind::Other(what) => return Ok(Err((*what).to_owned())),
        }))
    }
}

fn trimmed(bytes: &[u8], padding: u8) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != padding).map_or(0, |at| at.saturating_add(1));
    bytes.get(..end).unwrap_or_default()
}

/// Returns a string, or bytes if they are not UTF-8.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// Returns a number, or an array of both parts of a complex number.
fn numeric(number: &Number, bytes: &[u8]) -> Value {
    let width = usize::try_from(number.dtype.width()).unwrap_or(1).max(1);
    let plain = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if number.order == ByteOrder::Big {
            bytes.reverse();
        }
        let bits = little(&bytes).unwrap_or_default();
        // The value has exactly `width` bytes.
        let low = |n: u64| n.to_le_bytes();
        let [a, b, c, d, ..] = low(bits);
        match number.dtype {
            DType::F64 => Value::Float(f64::from_bits(bits)),
            DType::F32 => Value::Float(f32::from_le_bytes([a, b, c, d]).into()),
            DType::F16 => Value::Float(f16::from_le_bytes([a, b]).into()),
            DType::Bf16 => Value::Float(bf16::from_le_bytes([a, b]).into()),
            DType::I64 => Value::Integer(i64::from_le_bytes(low(bits)).into()),
            DType::I32 => Value::Integer(i32::from_le_bytes([a, b, c, d]).into()),
            DType::I16 => Value::Integer(i16::from_le_bytes([a, b]).into()),
            DType::I8 => Value::Integer(i8::from_le_bytes([a]).into()),
            DType::U64 | DType::U32 | DType::U16 | DType::U8 => Value::Integer(bits.into()),
            DType::Bool => Value::Bool(bits != 0),
        }
    };
    match number.logical {
        Some(LogicalType::Complex64 | LogicalType::Complex128) => {
            Value::Array(bytes.chunks_exact(width).map(plain).collect())
        }
        _ => plain(bytes),
    }
}
