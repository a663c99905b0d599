//! Builds columns from gathered values.

use super::fill::Filled;
use super::plan::{ColumnKind, OFFSET_64, Shape};
use super::views::{VIEW, buffers, views};
use super::{ColumnBytes, Found, Gathered, Gatherer, Rows, TextForm, Values, Wrong, block};
use holdall_core::Result;
use holdall_io::buffer::Buffer;
use holdall_schema::{Kind, Path, Scalar, TensorDType, TypeId, Union};
use std::borrow::Cow;

impl Gatherer<'_> {
    pub(super) fn column(
        &mut self,
        shape: Shape,
        len: usize,
        filled: &mut [Filled],
    ) -> Found<Gathered> {
        let Filled { presence, absent, values, data } = std::mem::take(&mut filled[shape.slot]);
        let values = match shape.of {
            ColumnKind::Bits => Values::Bits(values),
            ColumnKind::Numbers => Values::Numbers(values),
            ColumnKind::EnumIndices(e) => Values::EnumIndices(values, e),
            ColumnKind::Binary(TextForm::Views) => {
                self.take(len, VIEW)?;
                let (offsets, data) = (values.freeze(), data.freeze());
                Values::Views(views(&offsets, &data, self.work)?.freeze(), buffers(data))
            }
            ColumnKind::Binary(TextForm::Offsets32) => {
                Values::Binary32(values.freeze(), data.freeze())
            }
            ColumnKind::Binary(TextForm::Offsets64) => {
                Values::Binary64(values.freeze(), data.freeze())
            }
            ColumnKind::Views => Values::Views(values.freeze(), buffers(data.freeze())),
            ColumnKind::Struct(members) => Values::Struct(self.all(members, len, filled)?),
            ColumnKind::Union(union, variants) => {
                let keys = self.keys(&union, values.as_ref(), presence.as_deref())?;
                let keys = Gathered { len, absent, presence: presence.clone(), values: keys };
                let mut below = vec![keys];
                below.extend(self.all(variants, len, filled)?);
                Values::Struct(below)
            }
            ColumnKind::Lists(items) => {
                Values::Lists(values.freeze(), Box::new(self.elements(data, items)?))
            }
            ColumnKind::Fixed(items) => Values::Fixed(Box::new(self.elements(values, items)?)),
            ColumnKind::Tensor(dtype, count) => {
                self.take(count.saturating_mul(len), 1)?;
                Values::Fixed(Box::new(tensor(values, dtype, count, len)?))
            }
        };
        Ok(Gathered { len, absent, presence, values })
    }

    pub(super) fn all(
        &mut self,
        shapes: Vec<Shape>,
        len: usize,
        filled: &mut [Filled],
    ) -> Found<Vec<Gathered>> {
        shapes.into_iter().map(|shape| self.column(shape, len, filled)).collect()
    }

    /// Returns a column of consecutive values of a type, such as the elements of arrays.
    fn elements(&mut self, data: ColumnBytes, items: TypeId) -> Found<Gathered> {
        let schema = self.records.schema();
        let extent = schema.extent(items)?;
        // The values are part of records or of a heap in memory, so the sizes fit in `usize`.
        let (size, stride) = (extent.size as usize, extent.stride.max(1) as usize);
        let len = data.as_ref().len() / stride;
        let is_plain = matches!(schema.ty(items).kind, Kind::Scalar(s) if s != Scalar::Boolean);
        if is_plain && size == stride {
            return Ok(whole(len, Values::Numbers(aligned(data, size)?)));
        }
        let rows = Rows { bytes: Cow::Borrowed(data.as_ref()), count: len, stride };
        self.columns(&rows, items, &[Path::root()], &[self.texts])?.pop().ok_or(Wrong::Bytes)
    }

    /// Returns the keys of unions with these tags. `there` has a bit for each union, set if it is present.
    fn keys(&mut self, union: &Union, tags: &[u8], presence: Option<&[u8]>) -> Result<Values> {
        let width = union.width.bytes() as usize;
        let len = tags.len() / width;
        self.take(len + 1, OFFSET_64)?;
        let (mut offsets, mut keys) = (Buffer::new((len + 1) * OFFSET_64)?, Vec::new());
        let slots = offsets.as_mut().chunks_exact_mut(OFFSET_64).skip(1);
        for (at, (slot, tag)) in slots.zip(tags.chunks_exact(width)).enumerate() {
            let mut number = [0; 4];
            number[..width].copy_from_slice(tag);
            let variant = union.variants.get(u32::from_le_bytes(number) as usize);
            let is_present = presence.is_none_or(|bits| bits[at / 8] >> (at % 8) & 1 == 1);
            if let Some(variant) = variant.filter(|_| is_present) {
                self.take(variant.key.len(), 1)?;
                keys.extend_from_slice(variant.key.as_bytes());
            }
            slot.copy_from_slice(&(keys.len() as u64).to_le_bytes());
        }
        Ok(Values::Binary64(offsets.freeze(), keys.into()))
    }
}

/// Returns the elements of `len` tensors with `count` elements each.
pub(crate) fn tensor(
    data: ColumnBytes,
    dtype: TensorDType,
    count: usize,
    len: usize,
) -> Found<Gathered> {
    let (total, bits) = (count * len, dtype.bits() as usize);
    if dtype == TensorDType::Bool {
        if !block::is_below(data.as_ref(), 1, 2) {
            return Err(Wrong::Bytes);
        }
        let mut packed = Buffer::new(total.div_ceil(8))?;
        block::pack(data.as_ref(), packed.as_mut());
        return Ok(whole(total, Values::Bits(ColumnBytes::Own(packed))));
    }
    if bits >= 8 {
        return Ok(whole(total, Values::Numbers(data)));
    }
    let mut codes = Buffer::new(total)?;
    let each = data.as_ref().chunks((count * bits).div_ceil(8).max(1));
    for (slots, bytes) in codes.as_mut().chunks_mut(count.max(1)).zip(each) {
        for (at, slot) in slots.iter_mut().enumerate() {
            *slot = code(bytes, at * bits, bits);
        }
    }
    Ok(whole(total, Values::Numbers(ColumnBytes::Own(codes))))
}

/// Returns a column without absent values.
fn whole(len: usize, values: Values) -> Gathered {
    Gathered { len, absent: 0, presence: None, values }
}

/// Returns numbers at an aligned address; copies them if necessary.
fn aligned(data: ColumnBytes, width: usize) -> Result<ColumnBytes> {
    let is_aligned = |bytes: &[u8]| (bytes.as_ptr() as usize).is_multiple_of(width.clamp(1, 8));
    match data {
        ColumnBytes::Shared(bytes) if !is_aligned(&bytes) => {
            let mut copy = Buffer::new(bytes.len())?;
            copy.as_mut().copy_from_slice(&bytes);
            Ok(ColumnBytes::Own(copy))
        }
        data => Ok(data),
    }
}

/// Returns `bits` bits, starting at bit `start`.
fn code(bytes: &[u8], start: usize, bits: usize) -> u8 {
    let [low, high] = [0, 1].map(|next| bytes.get(start / 8 + next).copied().unwrap_or(0));
    (u16::from_le_bytes([low, high]) >> (start % 8)) as u8 & ((1 << bits) - 1)
}
