//! Converts columns to records.

use super::block::Block;
use super::cells::{self, Bytes, Elements, Number, copy};
use super::element::{DTYPE, Element};
use super::json;
use super::types::element;
use crate::rules::ARROW;
use crate::{BlobWriter, DatasetWriter};
use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_json::parse;
use holdall_schema::record::Unknown;
use holdall_schema::record::rules::{
    COUNT, ENUM_VALUE, JSON, MISSING_MEMBER, TYPE, UNION_KEY, UNKNOWN_MEMBER, UTF8,
};
use holdall_schema::{
    Content, Encoder, Entry, Enum, Heap, Kind, Len, Member, Schema, SchemaLimits, Struct, TypeId,
    Union,
};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

impl DatasetWriter {
    /// Adds a record for each row, in order, and returns the number of records added. Each member is the column of its
    /// name. Columns have the types that [`Records::arrow`](crate::Records::arrow) returns, or equivalent ones:
    /// integers and floats of fewer bits, texts and bytes of every layout, also in dictionaries, lists of every kind,
    /// times of every unit, dates. A null value is an absent member, or the member's default.
    ///
    /// # Errors
    /// Returns `records/arrow` if the type of a column does not fit its member; `record/unknown-member`,
    /// `record/missing-member`, `record/range` or another rule of section 5.2 of the specification, with the row; or an
    /// I/O error. The records of the rows before the error have been added.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<u64> {
        let (schema, limits) = (self.schema.clone(), self.limits.clone());
        let rows = Rows {
            schema: &schema,
            ty: self.ty,
            limits: &limits,
            unknown: Unknown::Refuse,
            mismatch: Mismatch::Refuse,
        };
        let all = std::iter::once(Ok(batch.clone()));
        self.blocks(all, &rows, || Ok(None)).map_err(|e| self.in_context(e))?;
        Ok(batch.num_rows() as u64)
    }
}

/// The bytes of a record, and of its heap.
type Made<'a> = (&'a [u8], &'a [u8]);

/// Converts the rows of batches to records.
pub(crate) struct Rows<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) ty: TypeId,
    pub(crate) limits: &'s SchemaLimits,
    /// How to treat columns that the schema does not have.
    pub(crate) unknown: Unknown,
    /// How to treat columns whose type is not that of their member.
    pub(crate) mismatch: Mismatch,
}

/// How to treat a column whose type is not that of its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Returns the error `records/arrow`.
    Refuse,
    /// Converts the values to JSON, as section 5.2 of the specification reads it: integers become floats, texts
    /// become times, structs become unions.
    Convert,
}

impl Rows<'_> {
    /// Converts the rows of a batch to records, column by column, and replaces the contents of `block` by them.
    /// Returns the first row that is not a record, with the reason. The block contains the records before that row.
    ///
    /// # Errors
    /// Returns an error about a column.
    pub(crate) fn block(
        &self,
        batch: &RecordBatch,
        stride: usize,
        block: &mut Block,
    ) -> Result<Option<(usize, Error)>> {
        let rows = StructArray::from(batch.clone());
        let maker = self.maker();
        let column = maker.column(self.ty, self.whole(&rows)?, "")?;
        let made = maker.fill(&column, self.ty, batch.num_rows(), stride, block);
        let Err((row, e)) = made else { return Ok(None) };
        // The block may contain parts of the rows after the wrong one, so it is made again.
        let made = maker.fill(&column, self.ty, row, stride, block);
        made.map_err(|(_, e)| e)?;
        Ok(Some((row, e)))
    }

    fn maker(&self) -> Maker<'_> {
        let Rows { schema, limits, unknown, mismatch, .. } = *self;
        Maker { schema, limits, unknown, mismatch }
    }

    /// Returns the rows as values of the record's type: those of the only column, unless records have members.
    fn whole<'a>(&self, rows: &'a StructArray) -> Result<&'a dyn Array> {
        match (&self.schema.ty(self.ty).kind, rows.columns()) {
            (Kind::Struct(_), _) => Ok(rows),
            (Kind::Union(_) | Kind::Record, _) if self.mismatch == Mismatch::Convert => Ok(rows),
            (_, [one]) => Ok(one.as_ref()),
            (kind, other) => Err(ARROW.broken(format!(
                "{} columns for a record of `TypeDef:{}`, which is one value",
                other.len(),
                kind.as_str()
            ))),
        }
    }

    /// Calls `with` for each row of a batch, with its index and with either the bytes of its record and heap or the
    /// reason why it is not a record.
    ///
    /// # Errors
    /// Returns an error about a column, or the error of `with`.
    pub(crate) fn each(
        &self,
        batch: &RecordBatch,
        with: &mut dyn FnMut(usize, Result<Made<'_>>) -> Result<()>,
    ) -> Result<()> {
        let rows = StructArray::from(batch.clone());
        let maker = self.maker();
        let column = maker.column(self.ty, self.whole(&rows)?, "")?;
        let size = self.schema.extent(self.ty)?.size as usize;
        let (mut record, mut heap) = (vec![0; size], Vec::new());
        for row in 0..batch.num_rows() {
            record.fill(0);
            heap.clear();
            let made = match column.is_null(row) {
                true => Err(MISSING_MEMBER.broken("a record cannot be null")),
                false => maker.put(&column, self.ty, row, &mut record, &mut heap),
            };
            with(row, made.map(|()| (&*record, &*heap)))?;
        }
        Ok(())
    }
}

impl BlobWriter {
    /// Adds a run for each value of a column, in order: texts, bytes, or lists of elements. Returns the number of runs
    /// added.
    ///
    /// # Errors
    /// Returns `records/arrow` if the column has another type, and the errors of [`BlobWriter::bytes`], with the row.
    /// The runs of the rows before the error have been added.
    pub fn array(&mut self, array: &dyn Array) -> Result<u64> {
        let content = self.content();
        let wrong =
            || {
                let found = array.data_type();
                self.in_context(ARROW.broken(format!(
                    "a column of {found} cannot be written to a blob of {content}"
                )))
            };
        let values = match content {
            Content::Elements(dtype) => Values::elements(array, Element::Of(dtype)),
            _ => cells::runs(array, content != Content::Bytes).map(Values::Runs),
        };
        let values = values.ok_or_else(wrong)?;
        let (nulls, mut run) = (array.logical_nulls(), Vec::new());
        for row in 0..array.len() {
            run.clear();
            let made = match nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                true => Err(TYPE.broken("a run cannot be null")),
                false => values.append(row, &mut run),
            };
            made.and_then(|()| self.bytes(&run).map(drop))
                .map_err(|e| self.in_context(e.within(format!("row {row}"))))?;
        }
        Ok(array.len() as u64)
    }
}

/// The values of a column of runs.
enum Values<'a> {
    Runs(Bytes<'a>),
    Elements { rows: Elements<'a>, number: Number<'a>, nulls: Option<NullBuffer>, width: usize },
}

impl<'a> Values<'a> {
    fn elements(array: &'a dyn Array, element: Element) -> Option<Values<'a>> {
        let (values, rows) = cells::lists(array)?;
        let number = cells::numbers(values, element)?;
        Some(Values::Elements {
            rows,
            number,
            nulls: values.logical_nulls(),
            width: element.width(),
        })
    }

    fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Values::Runs(bytes) => out.extend_from_slice(bytes(row)),
            Values::Elements { rows, number, nulls, width } => {
                for at in rows(row) {
                    if nulls.as_ref().is_some_and(|n| n.is_null(at)) {
                        return Err(null_element());
                    }
                    let start = out.len();
                    out.resize(start + width, 0);
                    number(at, out.get_mut(start..).unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }
}

/// A column, and how its rows are converted to values.
pub(super) struct Column<'a> {
    pub(super) nulls: Option<NullBuffer>,
    pub(super) put: Put<'a>,
}

pub(super) enum Put<'a> {
    Number(Number<'a>),
    /// The bytes of the values as records contain them, and the width of a value.
    Plain(&'a [u8], usize),
    /// The index of each row's value in a dictionary, the tags of those values in an enum, and their texts.
    Tags(Vec<usize>, Vec<Option<u32>>, Bytes<'a>),
    /// Values that are converted by way of JSON.
    Json(&'a dyn Array),
    Text(Bytes<'a>),
    /// Decimal numbers as texts.
    Decimal(cells::Texts<'a>),
    /// Columns by the index of their member.
    Struct(Vec<Option<Column<'a>>>),
    /// The column of keys, and the columns of the variants by tag.
    Union(Bytes<'a>, Vec<Option<Column<'a>>>),
    List(Elements<'a>, Box<Column<'a>>),
}

impl Column<'_> {
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|n| n.is_null(row))
    }
}

pub(super) struct Maker<'s> {
    pub(super) schema: &'s Schema,
    limits: &'s SchemaLimits,
    unknown: Unknown,
    mismatch: Mismatch,
}

impl Maker<'_> {
    /// Returns how values of a type are read from an array. The recursion is bounded by the depth of the schema.
    fn column<'a>(&self, ty: TypeId, array: &'a dyn Array, path: &str) -> Result<Column<'a>> {
        let kind = &self.schema.ty(ty).kind;
        let put = match kind {
            _ if array.data_type().is_null() => Some(Put::Text(Box::new(|_| &[]))),
            Kind::Scalar(scalar) => {
                let element = Element::from_scalar(*scalar);
                let plain =
                    cells::plain(array, element).map(|bytes| Put::Plain(bytes, element.width()));
                plain.or_else(|| cells::numbers(array, element).map(Put::Number))
            }
            Kind::Enum(e) => tags(array, e).or_else(|| cells::runs(array, true).map(Put::Text)),
            Kind::String | Kind::Record => match cells::decimals(array) {
                Some(text) if matches!(kind, Kind::String) => Some(Put::Decimal(text)),
                _ => cells::runs(array, true).map(Put::Text),
            },
            // The JSON of bytes is base64.
            Kind::Bytes
                if self.mismatch == Mismatch::Convert && cells::runs(array, true).is_some() =>
            {
                None
            }
            Kind::Bytes => cells::runs(array, false).map(Put::Text),
            Kind::Struct(fields) => match array.as_struct_opt() {
                Some(columns) => {
                    let names = fields.members.iter().map(|m| (&*m.name, m.ty)).collect();
                    Some(Put::Struct(self.named(names, columns, None, path)?))
                }
                None => None,
            },
            Kind::Union(union) => {
                let columns = array.as_struct_opt();
                let key = columns.and_then(|c| c.column_by_name(&union.discriminator));
                let key = key.and_then(|key| {
                    let (nulls, text) = (key.logical_nulls(), cells::runs(key.as_ref(), true)?);
                    let is_null = move |row| nulls.as_ref().is_some_and(|n| n.is_null(row));
                    Some(Box::new(move |row| if is_null(row) { &[][..] } else { text(row) })
                        as Bytes<'_>)
                });
                match columns.zip(key) {
                    None => None,
                    Some((columns, _))
                        if self.mismatch == Mismatch::Convert && !nests(union, columns) =>
                    {
                        None
                    }
                    Some((columns, key)) => {
                        let names = union.variants.iter().map(|v| (&*v.key, v.ty));
                        let variants =
                            self.named(names.collect(), columns, Some(&union.discriminator), path)?;
                        Some(Put::Union(key, variants))
                    }
                }
            }
            Kind::Array(of) => match cells::lists(array) {
                Some((values, rows)) => {
                    let items = self.column(of.items, values, &format!("{path}[]"))?;
                    Some(Put::List(rows, Box::new(items)))
                }
                None => None,
            },
            Kind::Tensor(tensor) => {
                let element = element(tensor)?;
                cells::lists(array).and_then(|(values, rows)| {
                    let number = Put::Number(cells::numbers(values, element)?);
                    let plain = cells::plain(values, element);
                    let put = plain.map_or(number, |bytes| Put::Plain(bytes, element.width()));
                    let items = Column { nulls: values.logical_nulls(), put };
                    Some(Put::List(rows, Box::new(items)))
                })
            }
            _ => None,
        };
        let put = match self.mismatch {
            Mismatch::Refuse => put,
            Mismatch::Convert => put.or(Some(Put::Json(array))),
        };
        let Some(put) = put else {
            let (path, found) = (path.escaped(), array.data_type());
            let message = format!(
                "column `{path}` has the type {found}, but the member is a `TypeDef:{}`",
                kind.as_str()
            );
            return Err(ARROW.broken(message));
        };
        Ok(Column { nulls: array.logical_nulls(), put })
    }

    /// Returns the columns with these names and types. Other columns are an error, except for the one to skip.
    fn named<'a>(
        &self,
        wanted: Vec<(&str, TypeId)>,
        columns: &'a StructArray,
        skip: Option<&str>,
        path: &str,
    ) -> Result<Vec<Option<Column<'a>>>> {
        let known: HashSet<&str> = wanted.iter().map(|(name, _)| *name).chain(skip).collect();
        let mut there: HashMap<&str, (&'a Field, &'a ArrayRef)> = HashMap::new();
        for (field, array) in columns.fields().iter().zip(columns.columns()) {
            let name = field.name().as_str();
            let path = below(path, name);
            if !known.contains(name) {
                if self.unknown == Unknown::Ignore {
                    continue;
                }
                return Err(UNKNOWN_MEMBER.broken(format!("unknown member `{}`", path.escaped())));
            }
            if there.insert(name, (field, array)).is_some() {
                return Err(
                    UNKNOWN_MEMBER.broken(format!("two columns are called `{}`", path.escaped()))
                );
            }
        }
        let column = |(name, ty): &(&str, TypeId)| {
            let Some((field, array)) = there.get::<str>(name).copied() else { return Ok(None) };
            if self.mismatch == Mismatch::Convert && !self.is_said(*ty, field) {
                return Ok(Some(Column { nulls: array.logical_nulls(), put: Put::Json(array) }));
            }
            self.column(*ty, array.as_ref(), &below(path, name)).map(Some)
        };
        wanted.iter().map(column).collect()
    }

    /// Returns `false` for a column of bytes that may be other bytes than the numbers of its member.
    fn is_said(&self, ty: TypeId, field: &Field) -> bool {
        let (DataType::FixedSizeBinary(_), Kind::Scalar(scalar)) =
            (field.data_type(), &self.schema.ty(ty).kind)
        else {
            return true;
        };
        let name = field.metadata().get(DTYPE);
        name.is_some_and(|name| name == Element::from_scalar(*scalar).name())
    }

    /// Writes the value of a row into the zeroed bytes of its type.
    pub(super) fn put(
        &self,
        column: &Column<'_>,
        ty: TypeId,
        row: usize,
        out: &mut [u8],
        heap: &mut Vec<u8>,
    ) -> Result<()> {
        match (&self.schema.ty(ty).kind, &column.put) {
            (_, Put::Number(number)) => number(row, out),
            (_, Put::Plain(bytes, width)) => {
                copy(out, bytes.get(row * width..(row + 1) * width).unwrap_or_default());
                Ok(())
            }
            (_, Put::Tags(keys, tags, names)) => {
                let key = keys.get(row).copied().unwrap_or(usize::MAX);
                let Some(Some(tag)) = tags.get(key) else {
                    let name = tags.get(key).map_or(&[][..], |_| names(key));
                    return Err(unknown_value(&String::from_utf8_lossy(name), tags.len()));
                };
                copy(out, &tag.to_le_bytes());
                Ok(())
            }
            (kind, Put::Json(array)) => {
                let encoder = Encoder::new(self.schema, ty, self.limits)?;
                let mut encoder = encoder.with_unknown(self.unknown);
                if matches!(kind, Kind::Record) {
                    let mut text = String::new();
                    json::write(*array, row, &mut text)?;
                    return encoder.text(text.as_bytes(), out, heap);
                }
                let value = json::value(*array, row)?;
                let value = match kind {
                    Kind::Tensor(tensor) => json::tensor(value, &self.schema.dims(tensor)?)?,
                    _ => value,
                };
                encoder.value(&value, out, heap)
            }
            (Kind::Enum(e), Put::Text(text)) => {
                let name = String::from_utf8_lossy(text(row));
                let place =
                    e.index_of(&name).ok_or_else(|| unknown_value(&name, e.values.len()))?;
                copy(out, &place.to_le_bytes());
                Ok(())
            }
            (_, Put::Decimal(text)) => entry(text(row).as_bytes(), 1, out, heap),
            (Kind::Bytes, Put::Text(bytes)) => entry(bytes(row), 1, out, heap),
            (kind, Put::Text(bytes)) => {
                let text = bytes(row);
                if std::str::from_utf8(text).is_err() {
                    return Err(UTF8.broken("the text is not UTF-8"));
                }
                if matches!(kind, Kind::Record) {
                    self.check_json(text)?;
                }
                entry(text, 1, out, heap)
            }
            (Kind::Struct(fields), Put::Struct(members)) => {
                self.fields(fields, members, row, out, heap)
            }
            (Kind::Union(union), Put::Union(key, variants)) => {
                let key = String::from_utf8_lossy(key(row));
                let tag = union.tag(&key);
                let found = tag.and_then(|tag| Some((tag, union.variants.get(tag)?)));
                let (tag, variant) = found.ok_or_else(|| {
                    UNION_KEY.broken(format!("unknown variant `{}`", key.escaped()))
                })?;
                let there = variants.get(tag).and_then(Option::as_ref).filter(|c| !c.is_null(row));
                let there = there.ok_or_else(|| {
                    MISSING_MEMBER.broken(format!("missing member `{}`", key.escaped()))
                })?;
                copy(
                    out.get_mut(..union.width.bytes() as usize).unwrap_or_default(),
                    &tag.to_le_bytes(),
                );
                let slot = self.slot(u64::from(union.start), variant.ty, out)?;
                self.put(there, variant.ty, row, slot, heap)
                    .map_err(|e| e.within(key.escaped().to_string()))
            }
            (Kind::Array(array), Put::List(rows, items)) => {
                let extent = self.schema.extent(array.items)?;
                let (stride, size) = (extent.stride as usize, extent.size as usize);
                let rows = rows(row);
                let count = rows.len();
                let each = |bytes: &mut [u8], heap: &mut Vec<u8>| -> Result<()> {
                    for (row, slot) in rows.clone().zip(bytes.chunks_mut(stride.max(1))) {
                        if items.is_null(row) {
                            return Err(null_element());
                        }
                        let slot = slot.get_mut(..size).unwrap_or_default();
                        self.put(items, array.items, row, slot, heap)?;
                    }
                    Ok(())
                };
                match array.len {
                    Len::Fixed(len) if len != count as u64 => Err(wrong_count(count, len)),
                    Len::Fixed(_) => each(out, heap),
                    Len::Variable { .. } => {
                        let mut bytes = vec![0; count.saturating_mul(stride)];
                        each(&mut bytes, heap)?;
                        entry(&bytes, extent.align, out, heap)
                    }
                }
            }
            (Kind::Tensor(tensor), Put::List(rows, items)) => {
                let (element, rows) = (element(tensor)?, rows(row));
                let wanted = self.schema.dims(tensor)?.iter().product();
                if rows.len() as u64 != wanted {
                    return Err(wrong_count(rows.len(), wanted));
                }
                let mut number = |row: usize, out: &mut [u8]| match &items.put {
                    Put::Number(number) => number(row, out),
                    _ => self.put(items, ty, row, out, heap),
                };
                let (bits, width) = (element.bits(), element.width());
                for (at, row) in rows.enumerate() {
                    if items.is_null(row) {
                        return Err(null_element());
                    }
                    let start = at * bits;
                    let slot = out.get_mut(start / 8..).unwrap_or_default();
                    if bits >= 8 {
                        number(row, slot.get_mut(..width).unwrap_or_default())?;
                        continue;
                    }
                    let mut code = [0];
                    number(row, &mut code)?;
                    let code = u16::from(code[0]);
                    if code >> bits != 0 {
                        return Err(TYPE.broken(format!(
                            "{code} is out of range for an element of {bits} bits"
                        )));
                    }
                    let shifted = (code << (start % 8)).to_le_bytes();
                    slot.iter_mut().zip(shifted).for_each(|(slot, b)| *slot |= b);
                }
                Ok(())
            }
            // The column was created for this kind, so this does not happen.
            (kind, _) => {
                Err(ARROW.broken(format!("the column is not a `TypeDef:{}`", kind.as_str())))
            }
        }
    }

    fn fields(
        &self,
        fields: &Struct,
        columns: &[Option<Column<'_>>],
        row: usize,
        out: &mut [u8],
        heap: &mut Vec<u8>,
    ) -> Result<()> {
        for (member, column) in fields.members.iter().zip(columns) {
            let there = column.as_ref().filter(|c| !c.is_null(row));
            if there.is_none() && member.presence.is_some() {
                continue;
            }
            if let Some(bit) = member.presence
                && let Some(byte) = out.get_mut(bit as usize / 8)
            {
                *byte |= 1 << (bit % 8);
            }
            let slot = self.slot(member.offset.unwrap_or(0), member.ty, out)?;
            let made = match there {
                Some(column) => self.put(column, member.ty, row, slot, heap),
                None => self.default(member, slot, heap),
            };
            made.map_err(|e| e.within(format!("`{}`", member.name.escaped())))?;
        }
        Ok(())
    }

    fn check_json(&self, text: &[u8]) -> Result<()> {
        let wrong = |e| JSON.broken("the text is not JSON").because(e);
        match parse(text, self.limits.depth).map_err(wrong)? {
            Value::Object(_) => Ok(()),
            _ => Err(JSON.broken("expected the text of an object, found another JSON value")),
        }
    }

    pub(super) fn default(
        &self,
        member: &Member,
        slot: &mut [u8],
        heap: &mut Vec<u8>,
    ) -> Result<()> {
        match &member.default {
            Some(default) => {
                Encoder::new(self.schema, member.ty, self.limits)?.value(default, slot, heap)
            }
            None => Err(MISSING_MEMBER.broken("the member is missing or null")),
        }
    }

    fn slot<'o>(&self, start: u64, ty: TypeId, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        let size = self.schema.extent(ty)?.size;
        // The member is part of the record, whose size fits in memory.
        Ok(out.get_mut(start as usize..(start + size) as usize).unwrap_or_default())
    }
}

/// Returns the tags of a dictionary of texts, each of which is looked up once.
fn tags<'a>(array: &'a dyn Array, e: &Enum) -> Option<Put<'a>> {
    let all = array.as_any_dictionary_opt()?;
    let texts = cells::runs(all.values().as_ref(), true)?;
    let nulls = all.values().logical_nulls();
    // If there are no values, all rows are null and there are no keys to normalize.
    let keys = if all.values().is_empty() { Vec::new() } else { all.normalized_keys() };
    let tag = |at| {
        let is_null = nulls.as_ref().is_some_and(|n| n.is_null(at));
        e.index_of(std::str::from_utf8(if is_null { &[] } else { texts(at) }).ok()?)
    };
    let tags = (0..all.values().len()).map(tag).collect();
    Some(Put::Tags(keys, tags, texts))
}

/// Returns `true` if the columns of a union are its discriminator and a struct for each of some variants, as
/// [`Records::arrow`](crate::Records::arrow) returns them, and not the members of the variants.
fn nests(union: &Union, columns: &StructArray) -> bool {
    columns.fields().iter().all(|field| {
        field.name() == &*union.discriminator
            || (union.tag(field.name()).is_some()
                && (field.data_type().is_null()
                    || matches!(field.data_type(), DataType::Struct(_))))
    })
}

#[cold]
fn unknown_value(name: &str, count: usize) -> Error {
    ENUM_VALUE.broken(format!("`{}` is not one of the {count} values", name.escaped()))
}

/// Appends bytes to the heap and writes their entry to `out`.
fn entry(bytes: &[u8], align: u32, out: &mut [u8], heap: &mut Vec<u8>) -> Result<()> {
    let offset = if bytes.is_empty() { 0 } else { Heap::append(heap, bytes, align)? };
    copy(out, &Entry { offset, len: bytes.len() as u64 }.to_bytes());
    Ok(())
}

pub(super) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cold]
fn null_element() -> Error {
    TYPE.broken("an element cannot be null")
}

#[cold]
fn wrong_count(found: usize, wanted: u64) -> Error {
    COUNT.broken(format!("expected {wanted} elements, found {found}"))
}
