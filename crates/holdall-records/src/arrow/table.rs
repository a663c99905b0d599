//! Converts tables in memory to records without a copy of their texts: the heap is the texts of one column after the
//! other, so the position of every text is known before a record is made.
//!
//! Only tables whose columns all have the types of their members, and no invalid value, are converted in this way. For
//! all others, [`Table::new`] returns `None`, and the rows are converted one batch after the other.

use super::cells;
use super::element::Element;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{self as t, ArrowDictionaryKeyType, ByteArrayType};
use arrow_array::{Array, ArrayRef, GenericByteArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;
use holdall_core::Result;
use holdall_io::Work;
use holdall_schema::{Entry, Enum, Kind, Member, Schema, TypeId};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of rows of a part of a table.
const ROWS: usize = 1 << 16;

/// A table that becomes records.
pub(crate) struct Table {
    stride: usize,
    members: Vec<Target>,
    parts: Vec<RowChunk>,
    /// The number of rows before each part, and that of all rows.
    starts: Vec<usize>,
    heap_len: u64,
}

/// The position of a member in a record.
struct Target {
    offset: usize,
    /// The byte and the bit that say whether the member is present.
    presence: Option<(usize, u8)>,
    source: Source,
}

/// How a column is converted.
enum Source {
    /// The column does not exist, and the member is optional.
    Absent,
    /// Numbers as records contain them.
    Plain(Element),
    Bits,
    /// Times, each of which is this number of nanoseconds.
    Times(i64),
    Texts,
    /// Names of an enum, in a dictionary.
    Names(Enum),
}

/// Some rows of a table.
struct RowChunk {
    rows: usize,
    /// The column of each member.
    columns: Vec<Option<Column>>,
}

struct Column {
    array: ArrayRef,
    nulls: Option<NullBuffer>,
    /// The offset in the heap of the column's first text.
    base: u64,
    /// The tag of each name in a dictionary.
    tags: Vec<u32>,
}

impl Table {
    /// Returns the table of these batches, or `None` if they must be converted in another way. `stride` is the distance
    /// from one record to the next.
    pub(crate) fn new(
        batches: &[RecordBatch],
        schema: &Schema,
        ty: TypeId,
        stride: usize,
        work: &Work,
    ) -> Result<Option<Table>> {
        let Kind::Struct(fields) = &schema.ty(ty).kind else { return Ok(None) };
        let Some(first) = batches.first() else { return Ok(None) };
        let columns = first.schema();
        if batches.iter().any(|batch| batch.schema().fields() != columns.fields()) {
            return Ok(None);
        }
        // Columns without a member, and two columns of one name, are errors that are found elsewhere.
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        let is_known = |name: &&str| fields.index_of(name).is_some();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < names.len() || !names.iter().all(is_known) {
            return Ok(None);
        }
        let (mut members, mut chosen) = (Vec::new(), Vec::new());
        for member in &fields.members {
            let at = names.iter().position(|name| *name == &*member.name);
            let found = at.and_then(|at| columns.fields().get(at));
            let source = match found {
                None => Some(Source::Absent).filter(|_| member.presence.is_some()),
                Some(field) => source(schema, member, field.data_type()),
            };
            let (Some(source), Some(offset)) = (source, member.offset) else { return Ok(None) };
            let presence = member.presence.map(|bit| (bit as usize / 8, 1 << (bit % 8)));
            // The member is part of the record, whose size fits in memory.
            members.push(Target { offset: offset as usize, presence, source });
            chosen.push(at);
        }
        let mut parts = Vec::new();
        for batch in batches {
            for start in (0..batch.num_rows()).step_by(ROWS) {
                let rows = ROWS.min(batch.num_rows() - start);
                let column = |at: &Option<usize>| {
                    let array = batch.columns().get((*at)?)?.slice(start, rows);
                    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                    Some(Column { array, nulls, base: 0, tags: Vec::new() })
                };
                parts.push(RowChunk { rows, columns: chosen.iter().map(column).collect() });
            }
        }
        let is_wrong = AtomicBool::new(false);
        work.for_each(
            parts.iter_mut().collect(),
            || (),
            |(), part: &mut RowChunk| {
                if !part.is_sound(&members) {
                    is_wrong.store(true, Ordering::Relaxed);
                }
                work.check()
            },
        )?;
        if is_wrong.into_inner() {
            return Ok(None);
        }
        let (mut starts, mut rows) = (Vec::new(), 0usize);
        for part in &parts {
            starts.push(rows);
            rows += part.rows;
        }
        starts.push(rows);
        let mut table = Table { stride, members, parts, starts, heap_len: 0 };
        table.assign_offsets();
        Ok(Some(table))
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the length of the heap in bytes.
    pub(crate) fn heap_len(&self) -> u64 {
        self.heap_len
    }

    /// Decides where the texts of each column are in the heap.
    fn assign_offsets(&mut self) {
        for at in 0..self.members.len() {
            if !matches!(self.members.get(at), Some(Target { source: Source::Texts, .. })) {
                continue;
            }
            for part in &mut self.parts {
                let Some(Some(column)) = part.columns.get_mut(at) else { continue };
                column.base = self.heap_len;
                // Ranges of memory.
                self.heap_len += texts(&column.array).map_or(0, |(range, _)| range.len() as u64);
            }
        }
    }

    /// Returns the bytes of the heap, in order, without a copy.
    pub(crate) fn heap(&self) -> impl Iterator<Item = Bytes> + use<> {
        let mut all = Vec::new();
        for (at, target) in self.members.iter().enumerate() {
            if !matches!(target.source, Source::Texts) {
                continue;
            }
            for part in &self.parts {
                let Some(Some(column)) = part.columns.get(at) else { continue };
                let Some((range, bytes)) = texts(&column.array) else { continue };
                if !range.is_empty() {
                    all.push(Bytes::from_owner(Held(bytes)).slice(range));
                }
            }
        }
        all.into_iter()
    }

    /// Writes the records of a range of rows, each at a multiple of the stride.
    pub(crate) fn write(&self, rows: Range<usize>, out: &mut [u8]) {
        out.fill(0);
        let mut left = out;
        let first = self.starts.partition_point(|start| *start <= rows.start).saturating_sub(1);
        for (part, start) in self.parts.iter().zip(&self.starts).skip(first) {
            let from = rows.start.saturating_sub(*start).min(part.rows);
            let to = rows.end.saturating_sub(*start).min(part.rows);
            if from >= to {
                break;
            }
            let (own, rest) = left.split_at_mut((to - from) * self.stride);
            left = rest;
            for (target, column) in self.members.iter().zip(&part.columns) {
                if let Some(column) = column {
                    target.write(column, from..to, self.stride, own);
                }
            }
        }
    }
}

/// An owner of the bytes of a buffer.
struct Held(Buffer);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Returns how a column becomes a member, or `None` if another way is needed.
fn source(schema: &Schema, member: &Member, found: &DataType) -> Option<Source> {
    const MILLION: i64 = 1_000_000;
    Some(match (&schema.ty(member.ty).kind, found) {
        (Kind::Scalar(scalar), _) => match (Element::from_scalar(*scalar), found) {
            (Element::Timestamp, DataType::Timestamp(unit, _)) => Source::Times(match unit {
                TimeUnit::Second => 1000 * MILLION,
                TimeUnit::Millisecond => MILLION,
                TimeUnit::Microsecond => 1000,
                TimeUnit::Nanosecond => 1,
            }),
            (element, DataType::Boolean) if element.own_type() == Some(DataType::Boolean) => {
                Source::Bits
            }
            (element, _) if element.own_type().as_ref() == Some(found) => Source::Plain(element),
            _ => return None,
        },
        (Kind::String, DataType::Utf8 | DataType::LargeUtf8)
        | (Kind::Bytes, DataType::Binary | DataType::LargeBinary) => Source::Texts,
        (Kind::Enum(e), DataType::Dictionary(_, values))
            if matches!(**values, DataType::Utf8 | DataType::LargeUtf8) =>
        {
            Source::Names(e.clone())
        }
        _ => return None,
    })
}

impl RowChunk {
    /// Returns `true` if all values can be written. Prepares the tags of names.
    fn is_sound(&mut self, members: &[Target]) -> bool {
        members.iter().zip(&mut self.columns).all(|(target, column)| {
            let Some(column) = column else { return true };
            (column.nulls.is_none() || target.presence.is_some()) && column.is_sound(&target.source)
        })
    }
}

impl Column {
    fn is_sound(&mut self, source: &Source) -> bool {
        match source {
            Source::Absent => true,
            Source::Bits => self.array.as_boolean_opt().is_some(),
            Source::Plain(element) => cells::plain(&self.array, *element)
                .is_some_and(|bytes| bytes.len() == self.array.len() * element.width()),
            Source::Times(each) => times(&self.array).is_some_and(|times| {
                let is_right = |(row, time): (usize, &i64)| {
                    self.is_null(row) || time.checked_mul(*each).is_some()
                };
                *each == 1 || times.iter().enumerate().all(is_right)
            }),
            Source::Texts => match self.array.data_type() {
                DataType::Utf8 => is_sound::<t::Utf8Type>(&self.array, true),
                DataType::LargeUtf8 => is_sound::<t::LargeUtf8Type>(&self.array, true),
                DataType::Binary => is_sound::<t::BinaryType>(&self.array, false),
                _ => is_sound::<t::LargeBinaryType>(&self.array, false),
            },
            Source::Names(e) => self.find_tags(e).is_some(),
        }
    }

    /// Looks up the tag of each name in the dictionary. Returns `None` if one of them is not a value of the enum.
    fn find_tags(&mut self, e: &Enum) -> Option<()> {
        let all = self.array.as_any_dictionary_opt()?;
        let names = all.values();
        if names.null_count() > 0 {
            return None;
        }
        let text = cells::runs(names.as_ref(), true)?;
        let tag = |at| e.index_of(std::str::from_utf8(text(at)).ok()?);
        self.tags = (0..names.len()).map(tag).collect::<Option<_>>()?;
        // Keys were not compared with the length of the dictionary.
        let most = self.tags.len();
        let is_right = with_keys(&self.array, &mut |row, key| key < most || self.is_null(row))?;
        is_right.then_some(())
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// Calls `with` with each row and its key in a dictionary. Returns whether it returned `true` for all of them, or `None`
/// for keys of another type.
fn with_keys(array: &ArrayRef, with: &mut dyn FnMut(usize, usize) -> bool) -> Option<bool> {
    fn each<K: ArrowDictionaryKeyType>(
        array: &ArrayRef,
        with: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Option<bool>
    where
        K::Native: TryInto<usize>,
    {
        let keys = array.as_dictionary_opt::<K>()?.keys().values();
        let key = |key: &K::Native| (*key).try_into().unwrap_or(usize::MAX);
        Some(keys.iter().map(key).enumerate().all(|(row, key)| with(row, key)))
    }
    let DataType::Dictionary(keys, _) = array.data_type() else { return None };
    match **keys {
        DataType::Int8 => each::<t::Int8Type>(array, with),
        DataType::Int16 => each::<t::Int16Type>(array, with),
        DataType::Int32 => each::<t::Int32Type>(array, with),
        DataType::Int64 => each::<t::Int64Type>(array, with),
        DataType::UInt8 => each::<t::UInt8Type>(array, with),
        DataType::UInt16 => each::<t::UInt16Type>(array, with),
        DataType::UInt32 => each::<t::UInt32Type>(array, with),
        DataType::UInt64 => each::<t::UInt64Type>(array, with),
        _ => None,
    }
}

fn times(array: &ArrayRef) -> Option<&[i64]> {
    Some(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            array.as_primitive_opt::<t::TimestampSecondType>()?.values()
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            array.as_primitive_opt::<t::TimestampMillisecondType>()?.values()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive_opt::<t::TimestampMicrosecondType>()?.values()
        }
        _ => array.as_primitive_opt::<t::TimestampNanosecondType>()?.values(),
    })
}

/// Returns `true` if the texts of a column are consecutive, valid, and empty where they are null.
fn is_sound<T: ByteArrayType>(array: &ArrayRef, is_text: bool) -> bool
where
    T::Offset: TryInto<usize>,
{
    let Some(array) = array.as_bytes_opt::<T>() else { return false };
    let Some(range) = range(array) else { return false };
    let Some(bytes) = array.values().get(range.clone()) else { return false };
    let offsets = array.value_offsets();
    let is_in_order = offsets.windows(2).all(|pair| matches!(pair, [start, end] if start <= end));
    let is_empty = |row: usize| {
        let pair = offsets.get(row..row + 2).unwrap_or_default();
        matches!(pair, [start, end] if start == end)
    };
    let are_nulls_empty = array.nulls().is_none_or(|nulls| {
        nulls.null_count() == 0 || (0..array.len()).all(|row| nulls.is_valid(row) || is_empty(row))
    });
    let is_valid = !is_text
        || bytes.is_ascii()
        || std::str::from_utf8(bytes).is_ok_and(|text| {
            let at = |end: &T::Offset| (*end).try_into().unwrap_or(usize::MAX);
            offsets.iter().all(|end| text.is_char_boundary(at(end).wrapping_sub(range.start)))
        });
    is_in_order && are_nulls_empty && is_valid
}

/// Returns the range of a column's bytes that its texts take.
fn range<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<Range<usize>>
where
    T::Offset: TryInto<usize>,
{
    let offsets = array.value_offsets();
    let [first, last] = [offsets.first(), offsets.last()].map(|end| (*end?).try_into().ok());
    Some(first?..last?)
}

/// Returns the bytes that a column of texts refers to, and the range of them that its texts take.
fn texts(array: &ArrayRef) -> Option<(Range<usize>, Buffer)> {
    fn typed<T: ByteArrayType>(array: &ArrayRef) -> Option<(Range<usize>, Buffer)>
    where
        T::Offset: TryInto<usize>,
    {
        let array = array.as_bytes_opt::<T>()?;
        Some((range(array)?, array.values().clone()))
    }
    match array.data_type() {
        DataType::Utf8 => typed::<t::Utf8Type>(array),
        DataType::LargeUtf8 => typed::<t::LargeUtf8Type>(array),
        DataType::Binary => typed::<t::BinaryType>(array),
        _ => typed::<t::LargeBinaryType>(array),
    }
}

impl Target {
    /// Writes a range of a column's values to zeroed records.
    fn write(&self, column: &Column, rows: Range<usize>, stride: usize, records: &mut [u8]) {
        if let Some((byte, bit)) = self.presence {
            for (row, record) in rows.clone().zip(records.chunks_exact_mut(stride)) {
                if let (Some(byte), false) = (record.get_mut(byte), column.is_null(row)) {
                    *byte |= bit;
                }
            }
        }
        let slots = records.get_mut(self.offset..).unwrap_or_default().chunks_mut(stride);
        let slots = slots.take(rows.len());
        let nulls = column.nulls.as_ref();
        let array = &column.array;
        match &self.source {
            Source::Absent => {}
            Source::Plain(element) => {
                let width = element.width();
                let all = cells::plain(array, *element).unwrap_or_default();
                let some = all.get(rows.start * width..rows.end * width).unwrap_or_default();
                match width {
                    1 => put(some.as_chunks::<1>().0.iter().copied(), slots, nulls, rows.start),
                    2 => put(some.as_chunks::<2>().0.iter().copied(), slots, nulls, rows.start),
                    4 => put(some.as_chunks::<4>().0.iter().copied(), slots, nulls, rows.start),
                    _ => put(some.as_chunks::<8>().0.iter().copied(), slots, nulls, rows.start),
                }
            }
            Source::Bits => {
                let Some(array) = array.as_boolean_opt() else { return };
                let bits = rows.clone().map(|row| [u8::from(array.value(row))]);
                put(bits, slots, nulls, rows.start);
            }
            Source::Times(each) => {
                let all = times(array).unwrap_or_default().get(rows.clone()).unwrap_or_default();
                let nanos = all.iter().map(|time| time.wrapping_mul(*each).to_le_bytes());
                put(nanos, slots, nulls, rows.start);
            }
            Source::Texts => match array.data_type() {
                DataType::Utf8 => entries::<t::Utf8Type>(column, rows, slots),
                DataType::LargeUtf8 => entries::<t::LargeUtf8Type>(column, rows, slots),
                DataType::Binary => entries::<t::BinaryType>(column, rows, slots),
                _ => entries::<t::LargeBinaryType>(column, rows, slots),
            },
            Source::Names(e) => {
                let width = e.width.bytes() as usize;
                let mut slots = slots;
                let part = array.slice(rows.start, rows.len());
                let _ = with_keys(&part, &mut |row, key| {
                    let slot = slots.next().and_then(|slot| slot.get_mut(..width));
                    if let (Some(slot), Some(tag)) = (slot, column.tags.get(key))
                        && !column.is_null(rows.start + row)
                    {
                        cells::copy(slot, &tag.to_le_bytes());
                    }
                    true
                });
            }
        }
    }
}

/// Copies values to the starts of slots, except for nulls.
fn put<'r, const N: usize>(
    values: impl Iterator<Item = [u8; N]>,
    slots: impl Iterator<Item = &'r mut [u8]>,
    nulls: Option<&NullBuffer>,
    first: usize,
) {
    match nulls {
        None => {
            for (slot, value) in slots.zip(values) {
                if let Some(slot) = slot.first_chunk_mut() {
                    *slot = value;
                }
            }
        }
        Some(nulls) => {
            for (row, (slot, value)) in (first..).zip(slots.zip(values)) {
                if let (Some(slot), true) = (slot.first_chunk_mut(), nulls.is_valid(row)) {
                    *slot = value;
                }
            }
        }
    }
}

/// Writes the entries of texts. Those of empty texts are zero.
fn entries<'r, T: ByteArrayType>(
    column: &Column,
    rows: Range<usize>,
    slots: impl Iterator<Item = &'r mut [u8]>,
) where
    T::Offset: TryInto<u64>,
{
    let Some(array) = column.array.as_bytes_opt::<T>() else { return };
    let offsets = array.value_offsets();
    let end = |end: &T::Offset| (*end).try_into().unwrap_or(0);
    let shift = column.base.wrapping_sub(offsets.first().map_or(0, end));
    let mut start = offsets.get(rows.start).map_or(0, end);
    for (slot, next) in slots.zip(offsets.get(rows.start + 1..).unwrap_or_default()) {
        let next = end(next);
        let len = next - start;
        if len > 0
            && let Some(slot) = slot.first_chunk_mut()
        {
            *slot = Entry { offset: start.wrapping_add(shift), len }.to_bytes();
        }
        start = next;
    }
}
