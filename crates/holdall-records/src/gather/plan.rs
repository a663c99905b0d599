//! Plans what to gather from each record and which columns to build from it.

use super::TextForm;
use super::views::VIEW;
use crate::rules::ARROW;
use holdall_core::Result;
use holdall_schema::record::rules::ACCESS;
use holdall_schema::rules::OPEN_SHAPE;
use holdall_schema::{
    Accessor, Array, Enum, Kind, Len, Path, Scalar, Schema, Segment, TensorDType, TypeId, Union,
};
use std::sync::Arc;

/// The values to gather from records of one type.
pub(super) struct Plan<'s> {
    schema: &'s Schema,
    /// The form of strings and byte strings.
    pub(super) texts: TextForm,
    /// Whether the heap is in memory, so that one pass is enough for views.
    is_near: bool,
    pub(super) slots: Vec<Slot>,
}

/// A member that is gathered from each record.
pub(super) struct Slot {
    pub(super) part: Accessor,
    pub(super) job: Job,
}

pub(super) enum Job {
    /// Gather only whether the member is present.
    Presence,
    /// A boolean.
    Bits,
    /// Copy `size` bytes into slots of `width` bytes. If `most` is set, they are a number that must be less than it.
    Numbers { size: usize, width: usize, most: Option<u32> },
    /// An entry, as an offset of `width` bytes, 4 or 8, and data. The elements in the heap have this stride and
    /// alignment, which are 1 for strings and byte strings.
    Offsets { stride: u64, align: u64, content: Content, width: usize },
    /// The entry of a string or byte string, as a view.
    Views(Content),
}

/// The content of the bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Any,
    Text,
    /// The text of a JSON object.
    Json,
}

/// A column and the index of the slot that it is built from.
pub(super) struct Shape {
    pub(super) slot: usize,
    pub(super) of: ColumnKind,
}

pub(super) enum ColumnKind {
    Bits,
    Numbers,
    EnumIndices(Enum),
    /// Offsets and data, which are then converted to this form.
    Binary(TextForm),
    Views,
    Struct(Vec<Shape>),
    /// The slot contains the tags.
    Union(Union, Vec<Shape>),
    Lists(TypeId),
    /// Lists of equal length.
    Fixed(TypeId),
    /// This number of elements.
    Tensor(TensorDType, usize),
}

impl<'s> Plan<'s> {
    pub(super) fn new(schema: &'s Schema, texts: TextForm, is_near: bool) -> Plan<'s> {
        Plan { schema, texts, is_near, slots: Vec::new() }
    }

    /// Adds the member at a path of records of a type. `is_raw` gathers its heap data unchanged.
    pub(super) fn add(&mut self, ty: TypeId, path: &Path, is_raw: bool) -> Result<Shape> {
        let schema = self.schema;
        let part = schema.accessor(ty, path)?;
        let size = part.size();
        let numbers = |most| Job::Numbers { size, width: size, most };
        let strings = |content| {
            let offsets = |width| Job::Offsets { stride: 1, align: 1, content, width };
            match self.texts {
                TextForm::Views if self.is_near => (Job::Views(content), ColumnKind::Views),
                TextForm::Offsets32 => (offsets(OFFSET_32), ColumnKind::Binary(self.texts)),
                TextForm::Offsets64 | TextForm::Views => {
                    (offsets(OFFSET_64), ColumnKind::Binary(self.texts))
                }
            }
        };
        // Only strings that are columns themselves have 32-bit offsets.
        let has_offsets_32 = self.texts == TextForm::Offsets32;
        // Slots of nested members come after this one.
        let slot = self.slots.len();
        let of_kind = &schema.ty(part.ty()).kind;
        let (job, of) = match of_kind {
            Kind::String => strings(Content::Text),
            Kind::Record => strings(Content::Json),
            Kind::Bytes => strings(Content::Any),
            Kind::Array(Array { items, len: Len::Variable { .. }, .. }) => {
                let extent = schema.extent(*items)?;
                let (stride, align) = (extent.stride.max(1), u64::from(extent.align.max(1)));
                let (content, width) = (Content::Any, OFFSET_64);
                (Job::Offsets { stride, align, content, width }, ColumnKind::Lists(*items))
            }
            kind if is_raw => {
                let message = format!("a `TypeDef:{}` has no data in the heap", kind.as_str());
                return Err(ACCESS.broken(message));
            }
            Kind::Scalar(Scalar::Boolean) => (Job::Bits, ColumnKind::Bits),
            Kind::Scalar(_) => (numbers(None), ColumnKind::Numbers),
            Kind::Enum(e) => {
                (numbers(u32::try_from(e.values.len()).ok()), ColumnKind::EnumIndices(e.clone()))
            }
            Kind::Struct(_) => (Job::Presence, ColumnKind::Struct(Vec::new())),
            Kind::Union(union) => {
                let width = union.width.bytes() as usize;
                let most = u32::try_from(union.variants.len()).ok();
                (
                    Job::Numbers { size: width, width, most },
                    ColumnKind::Union(union.clone(), Vec::new()),
                )
            }
            Kind::Array(Array { items, len: Len::Fixed(count), .. }) => {
                // Part of a record, whose size fits in memory.
                let stride = schema.extent(*items)?.stride.max(1) as usize;
                let width = (*count as usize).saturating_mul(stride);
                let job = Job::Numbers { size: size.min(width), width, most: None };
                (job, ColumnKind::Fixed(*items))
            }
            Kind::Tensor(tensor) => {
                let any = || OPEN_SHAPE.broken("the dtype of the tensor is not known");
                let dtype = tensor.dtype.ok_or_else(any)?;
                // As above.
                let count = schema.dims(tensor)?.iter().product::<u64>() as usize;
                (numbers(None), ColumnKind::Tensor(dtype, count))
            }
            kind => {
                return Err(
                    ARROW.broken(format!("a `TypeDef:{}` cannot be a column", kind.as_str()))
                );
            }
        };
        self.slots.push(Slot { part, job });
        if has_offsets_32 {
            self.texts = TextForm::Offsets64;
        }
        let mut below =
            |name: &Arc<str>| self.add(ty, &path.then(Segment::Name(name.clone())), false);
        let of = match (of, of_kind) {
            (ColumnKind::Struct(_), Kind::Struct(of)) => ColumnKind::Struct(
                of.members.iter().map(|m| below(&m.name)).collect::<Result<_>>()?,
            ),
            (ColumnKind::Union(union, _), _) => {
                // A variant with the name of the discriminator cannot be a member of the struct.
                let variants = union.variants.iter().filter(|v| v.key != union.discriminator);
                let variants = variants.map(|v| below(&v.key)).collect::<Result<_>>()?;
                ColumnKind::Union(union, variants)
            }
            (of, _) => of,
        };
        Ok(Shape { slot, of })
    }
}

impl Slot {
    /// Returns the width of the numbers if they are copied as they are stored, and every record has them.
    pub(super) fn plain_width(&self) -> Option<usize> {
        match self.job {
            Job::Numbers { size, width: width @ (1 | 2 | 4 | 8 | 16), .. } if size == width => {
                self.part.is_always_present().then_some(width)
            }
            _ => None,
        }
    }
}

impl Job {
    /// Returns the bytes of `count` values.
    pub(super) fn len(&self, count: usize) -> usize {
        match self {
            Job::Presence => 0,
            Job::Bits => count.div_ceil(8),
            Job::Numbers { width, .. } => count.saturating_mul(*width),
            Job::Offsets { width, .. } => (count + 1) * width,
            Job::Views(_) => count.saturating_mul(VIEW),
        }
    }
}

/// Size of a 64-bit offset in bytes.
pub(super) const OFFSET_64: usize = size_of::<i64>();
/// Size of a 32-bit offset in bytes.
pub(super) const OFFSET_32: usize = size_of::<i32>();
