//! The position of each path of a record.

use crate::error::Result;
use crate::extent::get;
use crate::kinds::{Kind, Len, TypeId};
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::rules::TOO_LARGE;
use crate::schema::Schema;
use std::ops::Range;

/// One path of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayoutItem {
    /// The path. The elements of a fixed array are [`Segment::Each`], a variant of a union is the name of its key.
    pub path: Path,
    /// The type of the path.
    pub ty: TypeId,
    /// The byte range in the record, half-open. For a path in elements of fixed arrays, the byte range in the
    /// first element of each.
    pub range: Range<u64>,
    /// The stride of the type in bytes: the distance from one element to the next.
    pub stride: u64,
    /// The alignment of the type in bytes. A struct with a smaller alignment may place it at an offset that is not a
    /// multiple of it.
    pub align: u32,
    /// The presence bit, if this is an optional member.
    pub presence: Option<PresenceBit>,
}

/// The position of a presence bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceBit {
    /// The byte that contains it, from the start of the record.
    pub byte: u64,
    /// The index of the bit in the byte: the bit has the value 2^bit.
    pub bit: u8,
}

/// An iterator over every path of a record, parents before children, members in their order. The variants of a union
/// overlap. Heap data is not included: use [`Schema::layout`] with the type of the elements.
///
/// Ends with an error after [`SchemaLimits::nodes`] paths.
#[derive(Debug)]
pub struct RecordLayout<'s> {
    schema: &'s Schema,
    /// The items to return next, in reverse order.
    ahead: Vec<Ahead>,
    /// The path of the item that was returned last.
    path: Vec<Segment>,
    left: u64,
    most: u64,
}

#[derive(Debug)]
struct Ahead {
    /// The number of segments of the parent's path.
    parent_len: usize,
    segment: Option<Segment>,
    ty: TypeId,
    start: u64,
    presence: Option<PresenceBit>,
}

impl Schema {
    /// Returns the position of each path of a record of this type.
    ///
    /// # Errors
    /// Returns `schema/open-shape` if a symbol has no number: see [`Schema::bind`].
    pub fn layout(&self, ty: TypeId, limits: &SchemaLimits) -> Result<RecordLayout<'_>> {
        self.extent(ty)?;
        let root = Ahead { parent_len: 0, segment: None, ty, start: 0, presence: None };
        let most = limits.max_nodes();
        Ok(RecordLayout { schema: self, ahead: vec![root], path: Vec::new(), left: most, most })
    }
}

impl Iterator for RecordLayout<'_> {
    type Item = Result<LayoutItem>;

    fn next(&mut self) -> Option<Result<LayoutItem>> {
        let next = self.ahead.pop()?;
        let item = self.take(next);
        if item.is_err() {
            self.ahead.clear();
        }
        Some(item)
    }
}

impl RecordLayout<'_> {
    fn take(&mut self, next: Ahead) -> Result<LayoutItem> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(TOO_LARGE.broken(format!("a record has more than {} paths", self.most)));
        };
        self.left = left;
        self.path.truncate(next.parent_len);
        self.path.extend(next.segment);
        self.push_children(next.ty, next.start)?;
        let extent = self.schema.extent(next.ty)?;
        Ok(LayoutItem {
            path: Path(self.path.clone()),
            ty: next.ty,
            // Part of the record, whose size fits in 63 bits.
            range: next.start..next.start.saturating_add(extent.size),
            stride: extent.stride,
            align: extent.align,
            presence: next.presence,
        })
    }

    fn push_children(&mut self, ty: TypeId, start: u64) -> Result<()> {
        let parent_len = self.path.len();
        let from = self.ahead.len();
        match &get(&self.schema.types, ty)?.kind {
            Kind::Struct(fields) => {
                // At most as many as can be returned before the limit is reached.
                let most = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_add(1);
                for member in fields.members.iter().take(most) {
                    self.ahead.push(Ahead {
                        parent_len,
                        segment: Some(Segment::Name(member.name.clone())),
                        ty: member.ty,
                        start: start.saturating_add(member.offset.unwrap_or(0)),
                        presence: member.presence.map(|bit| PresenceBit {
                            byte: start.saturating_add(u64::from(bit / 8)),
                            bit: (bit % 8).to_le_bytes()[0],
                        }),
                    });
                }
            }
            Kind::Union(union) => {
                for variant in &union.variants {
                    self.ahead.push(Ahead {
                        parent_len,
                        segment: Some(Segment::Name(variant.key.clone())),
                        ty: variant.ty,
                        start: start.saturating_add(u64::from(union.start)),
                        presence: None,
                    });
                }
            }
            Kind::Array(array) if matches!(array.len, Len::Fixed(1..)) => {
                let segment = Some(Segment::Each);
                self.ahead.push(Ahead {
                    parent_len,
                    segment,
                    ty: array.items,
                    start,
                    presence: None,
                });
            }
            _ => {}
        }
        if let Some(pushed) = self.ahead.get_mut(from..) {
            pushed.reverse();
        }
        Ok(())
    }
}
