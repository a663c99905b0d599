//! Where each path of a record lies.

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
    /// The way there. The element of a fixed array is [`Segment::Each`], a variant of a union the
    /// name of its key.
    pub path: Path,
    /// Its type.
    pub ty: TypeId,
    /// Its bytes, half-open, from the start of the record. For what lies in elements of fixed arrays:
    /// that in the first of each.
    pub range: Range<u64>,
    /// The stride of its type in bytes: for an element, the way to the next.
    pub stride: u64,
    /// What it is aligned to as its type says, in bytes. A struct with a smaller alignment may pack
    /// it closer.
    pub align: u32,
    /// The bit that says whether it is there, where it is an optional member.
    pub presence: Option<PresenceBit>,
}

/// A bit of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceBit {
    /// Its byte, from the start of the record.
    pub byte: u64,
    /// Its place in the byte: of value 2^bit.
    pub bit: u8,
}

/// Every path of a record, parents before children, members in their order; variants of unions lie
/// over each other. What lies in the heap is not a part: [`Schema::layout`] of the element's type tells.
///
/// Ends with an error after [`SchemaLimits::nodes`] paths.
#[derive(Debug)]
pub struct RecordLayout<'s> {
    schema: &'s Schema,
    /// What comes next, last first.
    ahead: Vec<Ahead>,
    /// The path of the item given last.
    path: Vec<Segment>,
    left: u64,
    most: u64,
}

#[derive(Debug)]
struct Ahead {
    /// Steps of the parent's path.
    parent_len: usize,
    segment: Option<Segment>,
    ty: TypeId,
    start: u64,
    presence: Option<PresenceBit>,
}

impl Schema {
    /// Where each path of a record of that type lies.
    ///
    /// # Errors
    /// `schema/open-shape` where a symbol has no number: see [`Schema::bind`].
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
            // Within the record, whose size fits 63 bits.
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
                // No more than will be handed out before the limit.
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
