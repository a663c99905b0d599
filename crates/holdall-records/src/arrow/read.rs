//! Records as columns.

use super::element::Element;
use super::numbers::Run;
use super::types::{ITEM, element};
use crate::{Blob, Ragged, Record, Records, placed};
use arrow_array::types::{self as t, ArrowDictionaryKeyType, ByteArrayType};
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeListArray, GenericByteArray, LargeListArray,
    PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef};
use holdall_core::Result;
use holdall_schema::record::rules::TOO_LARGE;
use holdall_schema::{Accessor, Content, Enum, Kind, Path, PlaceWidth, Segment, TypeId};
use std::ops::Range;
use std::sync::Arc;

/// Records, or elements of arrays in them; `None` where there is none, as in what is absent.
type Rows<'a, 'r> = &'a [Option<Record<'r>>];

/// Makes the columns of a batch.
pub(super) struct Reader<'a> {
    records: &'a Records,
    /// Bytes that they may still take.
    left: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(records: &'a Records) -> Reader<'a> {
        Reader { records, left: records.limits().decoded_len }
    }

    /// The part at a path of rows of a type, as a column of that field. The height of a schema bounds the recursion.
    pub(super) fn column(
        &mut self,
        rows: Rows<'_, '_>,
        ty: TypeId,
        path: &Path,
        field: &Field,
    ) -> Result<ArrayRef> {
        let schema = self.records.schema();
        let part = schema.accessor(ty, path)?;
        Ok(match (&schema.ty(part.ty()).kind, field.data_type()) {
            (Kind::Scalar(scalar), _) => {
                let raws = self.raws(rows, &part)?;
                let element = Element::of(*scalar);
                let one = Run { element, count: 1, stride: element.width() };
                let nulls = nulls(raws.iter().map(Option::is_some));
                self.numbers(rows, &raws, one, nulls)?
            }
            (Kind::Enum(e), _) => self.names(rows, &part, e)?,
            (Kind::String, _) => self.runs::<t::LargeUtf8Type>(rows, |row, out| {
                Ok(row.string(&part)?.map(|text| out.extend_from_slice(text.as_bytes())).is_some())
            })?,
            (Kind::Record, _) => self.runs::<t::LargeUtf8Type>(rows, |row, out| {
                Ok(row.json(&part)?.map(|text| out.extend_from_slice(text.as_bytes())).is_some())
            })?,
            (Kind::Bytes, _) => self.runs::<t::LargeBinaryType>(rows, |row, out| {
                Ok(row.data(&part)?.map(|bytes| out.extend_from_slice(&bytes)).is_some())
            })?,
            (Kind::Struct(of), DataType::Struct(fields)) => {
                let nulls = self.there(rows, &part)?;
                let mut below = Vec::with_capacity(fields.len());
                for (member, field) in of.members.iter().zip(fields) {
                    let path = path.then(Segment::Name(member.name.clone()));
                    below.push(self.column(rows, ty, &path, field)?);
                }
                structs(fields.clone(), below, nulls, rows.len())?
            }
            (Kind::Union(union), DataType::Struct(fields)) => {
                let nulls = self.there(rows, &part)?;
                let mut below = vec![self.runs::<t::LargeUtf8Type>(rows, |row, out| {
                    Ok(row
                        .variant(&part)?
                        .map(|key| out.extend_from_slice(key.as_bytes()))
                        .is_some())
                })?];
                for (variant, field) in union.variants.iter().zip(fields.iter().skip(1)) {
                    let path = path.then(Segment::Name(variant.key.clone()));
                    below.push(self.column(rows, ty, &path, field)?);
                }
                structs(fields.clone(), below, nulls, rows.len())?
            }
            (Kind::Tensor(tensor), DataType::FixedSizeList(item, count)) => {
                let raws = self.raws(rows, &part)?;
                let element = element(tensor)?;
                let run = Run { element, count: *count as usize, stride: element.width() };
                let below = self.numbers(rows, &raws, run, None)?;
                lists(item, *count, below, nulls(raws.iter().map(Option::is_some)), rows.len())?
            }
            (Kind::Array(array), DataType::FixedSizeList(item, count)) => {
                let found = self.elements(rows, &part)?;
                let nulls = nulls(found.iter().map(Option::is_some));
                let below = self.below(rows, &found, array.items, *count as usize, item)?;
                lists(item, *count, below, nulls, rows.len())?
            }
            (Kind::Array(array), DataType::LargeList(item)) => {
                let found = self.elements(rows, &part)?;
                let nulls = nulls(found.iter().map(Option::is_some));
                let ends = ends(found.iter().map(|f| f.as_ref().map_or(0, Ragged::len)));
                let below = self.below(rows, &found, array.items, 0, item)?;
                let made = LargeListArray::try_new(item.clone(), ends, below, nulls);
                Arc::new(made.map_err(super::refused)?)
            }
            // `Fields` made the field of this kind.
            (kind, other) => {
                let message = format!("a `TypeDef:{}` for a column of {other}", kind.as_str());
                return Err(crate::rules::ARROW.broken(message));
            }
        })
    }

    /// Counts bytes of a column before there is memory for them.
    fn take(&mut self, count: usize, width: usize) -> Result<()> {
        let wanted = (count as u64).saturating_mul(width as u64);
        let most = self.records.limits().decoded_len;
        self.left = self.left.checked_sub(wanted).ok_or_else(|| {
            let message = format!("columns of a batch take more than {most} bytes");
            placed(TOO_LARGE.broken(message), self.records.tensor())
        })?;
        Ok(())
    }

    /// The bytes of a part in the records themselves.
    fn raws<'x>(&mut self, rows: Rows<'x, '_>, part: &Accessor) -> Result<Vec<Option<&'x [u8]>>> {
        self.take(rows.len(), size_of::<Option<&[u8]>>())?;
        rows.iter().map(|row| row.as_ref().map_or(Ok(None), |row| row.raw(part))).collect()
    }

    /// Which rows have a part.
    fn there(&mut self, rows: Rows<'_, '_>, part: &Accessor) -> Result<Option<NullBuffer>> {
        self.take(rows.len(), 1)?;
        let there = rows.iter().map(|row| row.as_ref().map_or(Ok(false), |row| row.is_there(part)));
        Ok(nulls(there.collect::<Result<Vec<_>>>()?.into_iter()))
    }

    /// The elements of an array in each row.
    fn elements<'x>(
        &mut self,
        rows: Rows<'x, '_>,
        part: &Accessor,
    ) -> Result<Vec<Option<Ragged<'x>>>> {
        self.take(rows.len(), size_of::<Option<Ragged<'_>>>())?;
        let each = rows.iter();
        each.map(|row| row.as_ref().map_or(Ok(None), |row| row.elements(part))).collect()
    }

    /// Elements of arrays, one after the other; `count` absent ones for an array that is absent.
    fn below(
        &mut self,
        rows: Rows<'_, '_>,
        arrays: &[Option<Ragged<'_>>],
        items: TypeId,
        count: usize,
        item: &Field,
    ) -> Result<ArrayRef> {
        let schema = self.records.schema();
        if let Kind::Scalar(scalar) = schema.ty(items).kind {
            let stride = schema.extent(items)?.stride as usize;
            let run = Run { element: Element::of(scalar), count, stride };
            let bytes: Vec<_> = arrays.iter().map(|a| a.as_ref().map(Ragged::bytes)).collect();
            return self.numbers(rows, &bytes, run, None);
        }
        let mut each = Vec::new();
        for array in arrays {
            let len = array.as_ref().map_or(count, Ragged::len);
            self.take(len, size_of::<Option<Record<'_>>>())?;
            match array {
                Some(array) => each.extend(array.iter().map(Some)),
                None => each.extend(std::iter::repeat_with(|| None).take(count)),
            }
        }
        self.column(&each, items, &Path::root(), item)
    }

    /// Texts or runs of bytes. `of` appends that of a record, and says whether there is one.
    fn runs<T: ByteArrayType<Offset = i64>>(
        &mut self,
        rows: Rows<'_, '_>,
        mut of: impl FnMut(&Record<'_>, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<ArrayRef> {
        self.take(rows.len(), size_of::<i64>())?;
        let (mut bytes, mut lens) = (Vec::new(), Vec::with_capacity(rows.len()));
        let mut there = Vec::with_capacity(rows.len());
        for row in rows {
            let before = bytes.len();
            there.push(row.as_ref().map_or(Ok(false), |row| of(row, &mut bytes))?);
            lens.push(bytes.len() - before);
            self.take(bytes.len() - before, 1)?;
        }
        byte_array::<T>(bytes, lens, nulls(there.into_iter()))
    }

    /// The places of an enum's strings.
    fn names(&mut self, rows: Rows<'_, '_>, part: &Accessor, e: &Enum) -> Result<ArrayRef> {
        let raws = self.raws(rows, part)?;
        let mut places = Vec::with_capacity(rows.len());
        for (row, raw) in rows.iter().zip(raws) {
            let Some((row, raw)) = row.as_ref().zip(raw) else {
                places.push(None);
                continue;
            };
            let mut bytes = [0; 4];
            bytes.iter_mut().zip(raw).for_each(|(slot, b)| *slot = *b);
            let place = u32::from_le_bytes(bytes);
            if e.value(place).is_none() {
                // Says why.
                row.enum_value(part)?;
            }
            places.push(Some(place));
        }
        let values: StringArray = e.values.iter().map(|v| Some(&**v)).collect();
        match e.width {
            PlaceWidth::One => dictionary::<t::UInt8Type>(places, values, |n| n as u8),
            PlaceWidth::Two => dictionary::<t::UInt16Type>(places, values, |n| n as u16),
            PlaceWidth::Four => dictionary::<t::UInt32Type>(places, values, |n| n),
        }
    }

    /// Numbers of runs of bytes, one after the other: a run for each row.
    fn numbers(
        &mut self,
        rows: Rows<'_, '_>,
        bytes: &[Option<&[u8]>],
        run: Run,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        self.take(run.total(bytes), run.element.width())?;
        run.array(bytes, nulls).map_err(|(at, e)| {
            let index = rows.get(at).and_then(Option::as_ref).map_or(0, Record::index);
            self.records.in_record(e, index)
        })
    }
}

/// Which are there; `None` where all are.
fn nulls(there: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    let there: Vec<bool> = there.collect();
    there.contains(&false).then(|| there.into())
}

/// Where lists of these lengths end.
fn ends(lens: impl Iterator<Item = usize>) -> OffsetBuffer<i64> {
    OffsetBuffer::from_lengths(lens)
}

fn byte_array<T: ByteArrayType<Offset = i64>>(
    bytes: Vec<u8>,
    lens: Vec<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let values = Buffer::from_vec(bytes);
    let made = GenericByteArray::<T>::try_new(ends(lens.into_iter()), values, nulls);
    Ok(Arc::new(made.map_err(super::refused)?))
}

fn dictionary<K: ArrowDictionaryKeyType>(
    places: Vec<Option<u32>>,
    values: StringArray,
    key: impl Fn(u32) -> K::Native,
) -> Result<ArrayRef> {
    let keys: PrimitiveArray<K> = places.into_iter().map(|place| place.map(&key)).collect();
    let made = DictionaryArray::try_new(keys, Arc::new(values));
    Ok(Arc::new(made.map_err(super::refused)?))
}

fn structs(
    fields: Fields,
    below: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    len: usize,
) -> Result<ArrayRef> {
    let made = StructArray::try_new_with_length(fields, below, nulls, len);
    Ok(Arc::new(made.map_err(super::refused)?))
}

fn lists(
    item: &FieldRef,
    count: i32,
    below: ArrayRef,
    nulls: Option<NullBuffer>,
    len: usize,
) -> Result<ArrayRef> {
    let made = FixedSizeListArray::try_new_with_length(item.clone(), count, below, nulls, len);
    Ok(Arc::new(made.map_err(super::refused)?))
}

/// The runs of a blob, and the type of their column.
pub(super) fn runs(blob: &Blob, range: Range<u64>) -> Result<(SchemaRef, ArrayRef)> {
    let most = blob.0.limits.decoded_len;
    let (mut bytes, mut lens) = (Vec::new(), Vec::new());
    for at in range {
        match blob.content() {
            Content::Utf8 => drop(blob.str(at)?),
            Content::Json => drop(blob.json(at)?),
            Content::Bytes | Content::Elements(_) => {}
        }
        let run = blob.get(at)?;
        if (bytes.len() as u64).saturating_add(run.len() as u64) > most {
            let message = format!("runs of a batch take more than {most} bytes");
            return Err(placed(TOO_LARGE.broken(message), blob.tensor()));
        }
        bytes.extend_from_slice(&run);
        lens.push(run.len());
    }
    let column: ArrayRef = match blob.content() {
        Content::Utf8 | Content::Json => byte_array::<t::LargeUtf8Type>(bytes, lens, None)?,
        Content::Bytes => byte_array::<t::LargeBinaryType>(bytes, lens, None)?,
        Content::Elements(dtype) => {
            let element = Element::Of(dtype);
            let item: FieldRef = Arc::new(element.field(ITEM, true));
            let run = Run { element, count: 0, stride: element.width() };
            let ends = ends(lens.iter().map(|len| len / element.width()));
            let below =
                run.array(&[Some(&bytes)], None).map_err(|(_, e)| placed(e, blob.tensor()))?;
            let made = LargeListArray::try_new(item, ends, below, None);
            Arc::new(made.map_err(super::refused)?)
        }
    };
    let field = Field::new(blob.tensor().name(), column.data_type().clone(), false);
    Ok((Arc::new(arrow_schema::Schema::new(vec![field])), column))
}
