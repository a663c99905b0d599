//! What is gathered of each record, and what columns are made of it.

use super::Texts;
use super::views::VIEW;
use crate::rules::ARROW;
use holdall_core::Result;
use holdall_schema::record::rules::ACCESS;
use holdall_schema::rules::OPEN_SHAPE;
use holdall_schema::{
    Accessor, Array, Enum, Kind, Len, Path, Scalar, Schema, Segment, TensorDType, TypeId, Union,
};
use std::sync::Arc;

/// What is gathered of one kind of record.
pub(super) struct Plan<'s> {
    schema: &'s Schema,
    texts: Texts,
    pub(super) slots: Vec<Slot>,
}

/// A part of each record, gathered for itself.
pub(super) struct Slot {
    pub(super) part: Accessor,
    pub(super) job: Job,
}

pub(super) enum Job {
    /// Only whether it is there.
    There,
    /// A boolean.
    Bits,
    /// Its bytes, `size` of `width`; as a number less than `most`.
    Numbers { size: usize, width: usize, most: Option<u32> },
    /// An entry of elements of that stride and alignment; of texts and runs both are 1.
    Ends { stride: u64, align: u64, content: Content },
    /// The entry of a text or a run, as a view.
    Views(Content),
}

/// What the bytes of an entry are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Any,
    Text,
    /// The text of an object.
    Json,
}

/// A column, by the number of its slot.
pub(super) struct Shape {
    pub(super) slot: usize,
    pub(super) of: ColumnKind,
}

pub(super) enum ColumnKind {
    Bits,
    Numbers,
    Places(Enum),
    Runs,
    Views,
    Struct(Vec<Shape>),
    /// Of which the slot has the tags.
    Union(Union, Vec<Shape>),
    Lists(TypeId),
    /// Lists of one length.
    Fixed(TypeId),
    /// So many elements.
    Tensor(TensorDType, usize),
}

impl<'s> Plan<'s> {
    pub(super) fn new(schema: &'s Schema, texts: Texts) -> Plan<'s> {
        Plan { schema, texts, slots: Vec::new() }
    }

    /// Adds the part at a path of records of a type; `is_raw` for what it has in the heap, as it is.
    pub(super) fn add(&mut self, ty: TypeId, path: &Path, is_raw: bool) -> Result<Shape> {
        let schema = self.schema;
        let part = schema.accessor(ty, path)?;
        let size = part.size();
        let numbers = |most| Job::Numbers { size, width: size, most };
        let runs = |content| match self.texts {
            Texts::Ends => (Job::Ends { stride: 1, align: 1, content }, ColumnKind::Runs),
            Texts::Views => (Job::Views(content), ColumnKind::Views),
        };
        // Of what is below it comes first.
        let slot = self.slots.len();
        let of_kind = &schema.ty(part.ty()).kind;
        let (job, of) = match of_kind {
            Kind::String => runs(Content::Text),
            Kind::Record => runs(Content::Json),
            Kind::Bytes => runs(Content::Any),
            Kind::Array(Array { items, len: Len::Variable { .. }, .. }) => {
                let extent = schema.extent(*items)?;
                let (stride, align) = (extent.stride.max(1), u64::from(extent.align.max(1)));
                (Job::Ends { stride, align, content: Content::Any }, ColumnKind::Lists(*items))
            }
            kind if is_raw => {
                let message = format!("a `TypeDef:{}` has nothing in the heap", kind.as_str());
                return Err(ACCESS.broken(message));
            }
            Kind::Scalar(Scalar::Boolean) => (Job::Bits, ColumnKind::Bits),
            Kind::Scalar(_) => (numbers(None), ColumnKind::Numbers),
            Kind::Enum(e) => {
                (numbers(u32::try_from(e.values.len()).ok()), ColumnKind::Places(e.clone()))
            }
            Kind::Struct(_) => (Job::There, ColumnKind::Struct(Vec::new())),
            Kind::Union(union) => {
                let width = union.width.bytes() as usize;
                let most = u32::try_from(union.variants.len()).ok();
                (
                    Job::Numbers { size: width, width, most },
                    ColumnKind::Union(union.clone(), Vec::new()),
                )
            }
            Kind::Array(Array { items, len: Len::Fixed(count), .. }) => {
                // Within the record, whose size fits memory.
                let stride = schema.extent(*items)?.stride.max(1) as usize;
                let width = (*count as usize).saturating_mul(stride);
                let job = Job::Numbers { size: size.min(width), width, most: None };
                (job, ColumnKind::Fixed(*items))
            }
            Kind::Tensor(tensor) => {
                let any = || OPEN_SHAPE.broken("a tensor of any dtype");
                let dtype = tensor.dtype.ok_or_else(any)?;
                // As above.
                let count = schema.dims(tensor)?.iter().product::<u64>() as usize;
                (numbers(None), ColumnKind::Tensor(dtype, count))
            }
            kind => {
                return Err(ARROW.broken(format!("no column is of a `TypeDef:{}`", kind.as_str())));
            }
        };
        self.slots.push(Slot { part, job });
        let mut below =
            |name: &Arc<str>| self.add(ty, &path.then(Segment::Name(name.clone())), false);
        let of = match (of, of_kind) {
            (ColumnKind::Struct(_), Kind::Struct(of)) => ColumnKind::Struct(
                of.members.iter().map(|m| below(&m.name)).collect::<Result<_>>()?,
            ),
            (ColumnKind::Union(union, _), _) => {
                // One that is called as the discriminator has no name left in a struct.
                let variants = union.variants.iter().filter(|v| v.key != union.discriminator);
                let variants = variants.map(|v| below(&v.key)).collect::<Result<_>>()?;
                ColumnKind::Union(union, variants)
            }
            (of, _) => of,
        };
        Ok(Shape { slot, of })
    }
}

impl Job {
    /// Bytes of `count` values.
    pub(super) fn len(&self, count: usize) -> usize {
        match self {
            Job::There => 0,
            Job::Bits => count.div_ceil(8),
            Job::Numbers { width, .. } => count.saturating_mul(*width),
            Job::Ends { .. } => (count + 1) * END,
            Job::Views(_) => count.saturating_mul(VIEW),
        }
    }
}

/// Bytes of where something ends.
pub(super) const END: usize = size_of::<i64>();
