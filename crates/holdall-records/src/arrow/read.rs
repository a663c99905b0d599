//! Converts gathered columns to Arrow arrays.

use super::element::Element;
use super::meant;
use super::types::ITEM;
use crate::gather::{ColumnBytes, Gathered, Values, Wrong, tensor};
use crate::rules::ARROW;
use crate::{Blob, placed};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{self as t, ArrowDictionaryKeyType, ArrowPrimitiveType, ByteArrayType};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray,
    GenericByteArray, LargeListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, Field, FieldRef};
use bytes::Bytes;
use holdall_core::Result;
use holdall_schema::record::rules::{BOOL_BYTE, TOO_LARGE};
use holdall_schema::{Content, IndexWidth};
use std::ops::Range;
use std::sync::Arc;

/// Converts a column to an array of the field's type. The recursion is bounded by the depth of the schema.
pub(super) fn array(field: &Field, column: Gathered) -> Result<ArrayRef> {
    let Gathered { len, presence: there, values, .. } = column;
    let nulls = there.map(|bits| NullBuffer::new(BooleanBuffer::new(bits.into(), 0, len)));
    let refused = super::refused;
    if let Some(found) = meant::array(field, &values, len, nulls.clone())? {
        return Ok(found);
    }
    Ok(match (values, field.data_type()) {
        (Values::Bits(bits), _) => {
            let bits = BooleanBuffer::new(bits.freeze().into(), 0, len);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        (Values::Numbers(data), ty) => numbers(ty, data.freeze(), len, nulls)?,
        (Values::EnumIndices(data, e), _) => {
            let values: StringArray = e.values.iter().map(|v| Some(&**v)).collect();
            let (data, values) = (data.freeze(), Arc::new(values));
            match e.width {
                IndexWidth::One => dictionary::<t::UInt8Type>(data, nulls, values)?,
                IndexWidth::Two => dictionary::<t::UInt16Type>(data, nulls, values)?,
                IndexWidth::Four => dictionary::<t::UInt32Type>(data, nulls, values)?,
            }
        }
        (Values::Binary64(offsets, bytes), DataType::LargeUtf8) => {
            byte_array::<t::LargeUtf8Type>(offsets, bytes, nulls)?
        }
        (Values::Binary64(offsets, bytes), _) => {
            byte_array::<t::LargeBinaryType>(offsets, bytes, nulls)?
        }
        (Values::Struct(members), DataType::Struct(fields)) => {
            let below = fields.iter().zip(members).map(|(field, member)| array(field, member));
            let below = below.collect::<Result<Vec<_>>>()?;
            let made = StructArray::try_new_with_length(fields.clone(), below, nulls, len);
            Arc::new(made.map_err(refused)?)
        }
        (Values::Lists(offsets, below), DataType::LargeList(item)) => {
            let below = array(item, *below)?;
            let made = LargeListArray::try_new(item.clone(), offset_buffer(offsets), below, nulls);
            Arc::new(made.map_err(refused)?)
        }
        (Values::Lists(offsets, below), DataType::Map(entries, _)) => {
            let below = array(entries, *below)?;
            let long = |_| ARROW.broken("the maps of a batch have more than 2^31 entries");
            let offsets = offset_buffer(offsets);
            let offsets = offsets.iter().map(|end| i32::try_from(*end));
            let offsets = offsets.collect::<Result<Vec<i32>, _>>().map_err(long)?;
            let (offsets, below) = (OffsetBuffer::new(offsets.into()), below.as_struct().clone());
            let made = MapArray::try_new(entries.clone(), offsets, below, nulls, false);
            Arc::new(made.map_err(refused)?)
        }
        (Values::Fixed(below), DataType::FixedSizeList(item, count)) => {
            let below = array(item, *below)?;
            let item = item.clone();
            let made = FixedSizeListArray::try_new_with_length(item, *count, below, nulls, len);
            Arc::new(made.map_err(refused)?)
        }
        // `Fields` created the field for the kind that was gathered, so this does not happen.
        (_, other) => return Err(ARROW.broken(format!("the values do not fit the type {other}"))),
    })
}

fn numbers(ty: &DataType, data: Bytes, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(match ty {
        DataType::Int8 => primitive::<t::Int8Type>(data, nulls),
        DataType::Int16 => primitive::<t::Int16Type>(data, nulls),
        DataType::Int32 => primitive::<t::Int32Type>(data, nulls),
        DataType::Int64 => primitive::<t::Int64Type>(data, nulls),
        DataType::UInt8 => primitive::<t::UInt8Type>(data, nulls),
        DataType::UInt16 => primitive::<t::UInt16Type>(data, nulls),
        DataType::UInt32 => primitive::<t::UInt32Type>(data, nulls),
        DataType::UInt64 => primitive::<t::UInt64Type>(data, nulls),
        DataType::Float16 => primitive::<t::Float16Type>(data, nulls),
        DataType::Float32 => primitive::<t::Float32Type>(data, nulls),
        DataType::Float64 => primitive::<t::Float64Type>(data, nulls),
        DataType::FixedSizeBinary(width) => {
            let made = FixedSizeBinaryArray::try_new_with_len(*width, data.into(), nulls, len);
            Arc::new(made.map_err(super::refused)?)
        }
        _ => {
            let times = PrimitiveArray::<t::TimestampNanosecondType>::new(scalars(data), nulls);
            Arc::new(times.with_timezone("UTC"))
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(data: Bytes, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(scalars(data), nulls))
}

fn dictionary<K: ArrowDictionaryKeyType>(
    data: Bytes,
    nulls: Option<NullBuffer>,
    values: Arc<StringArray>,
) -> Result<ArrayRef> {
    let keys = PrimitiveArray::<K>::new(scalars(data), nulls);
    let made = DictionaryArray::try_new(keys, values);
    Ok(Arc::new(made.map_err(super::refused)?))
}

fn byte_array<T: ByteArrayType<Offset = i64>>(
    offsets: Bytes,
    bytes: Bytes,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let made = GenericByteArray::<T>::try_new(offset_buffer(offsets), bytes.into(), nulls);
    Ok(Arc::new(made.map_err(super::refused)?))
}

fn offset_buffer(offsets: Bytes) -> OffsetBuffer<i64> {
    OffsetBuffer::new(scalars(offsets))
}

/// Converts little-endian numbers to the machine's byte order. Copies them if they are not aligned.
fn scalars<T: ArrowNativeType>(data: Bytes) -> ScalarBuffer<T> {
    let width = size_of::<T>();
    let buffer = if cfg!(target_endian = "big") {
        let mut own = data.to_vec();
        own.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        Buffer::from_slice_ref(own)
    } else if (data.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
        Buffer::from(data)
    } else {
        Buffer::from_slice_ref(&data[..])
    };
    ScalarBuffer::from(buffer)
}

/// Returns the runs of a blob, and the field of their column.
pub(super) fn runs(blob: &Blob, range: Range<u64>) -> Result<(FieldRef, ArrayRef)> {
    let most = blob.0.limits.decoded_len;
    let (mut bytes, mut offsets) = (Vec::new(), vec![0; size_of::<i64>()]);
    let (dtype, ty) = match blob.content() {
        Content::Utf8 | Content::Json => (None, DataType::LargeUtf8),
        Content::Bytes => (None, DataType::LargeBinary),
        Content::Elements(dtype) => {
            let item = Arc::new(Element::Of(dtype).field(ITEM, true));
            (Some(dtype), DataType::LargeList(item))
        }
    };
    let width = dtype.map_or(1, |dtype| Element::Of(dtype).width());
    let len = (range.end - range.start) as usize;
    for at in range {
        match blob.content() {
            Content::Utf8 => drop(blob.str(at)?),
            Content::Json => drop(blob.json(at)?),
            Content::Bytes | Content::Elements(_) => {}
        }
        let run = blob.get(at)?;
        if (bytes.len() as u64).saturating_add(run.len() as u64) > most {
            let message = format!("the runs of a batch take more than {most} bytes");
            return Err(placed(TOO_LARGE.broken(message), blob.tensor()));
        }
        bytes.extend_from_slice(&run);
        offsets.extend(((bytes.len() / width) as u64).to_le_bytes());
    }
    let (offsets, count, bytes) = (offsets.into(), bytes.len() / width, Bytes::from(bytes));
    let values = match dtype {
        None => Values::Binary64(offsets, bytes),
        Some(dtype) => {
            let below =
                tensor(ColumnBytes::Shared(bytes), dtype, 1, count).map_err(|wrong| match wrong {
                    Wrong::Told(e) => placed(e, blob.tensor()),
                    Wrong::Bytes => {
                        placed(BOOL_BYTE.broken("found a byte that is not 0 or 1"), blob.tensor())
                    }
                });
            Values::Lists(offsets, Box::new(below?))
        }
    };
    let field = Arc::new(Field::new(blob.tensor().name(), ty, false));
    let column = array(&field, Gathered { len, absent: 0, presence: None, values })?;
    Ok((field, column))
}
