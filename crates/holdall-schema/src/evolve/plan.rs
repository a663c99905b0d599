//! The plan of a resolution: what to do with each part of a record, with all decisions made in advance.

use crate::kinds::{IndexWidth, Scalar, TypeId};
use crate::schema::Extent;
use std::ops::Range;
use std::sync::Arc;

/// The index of a plan in its [`Resolution`](super::Resolution).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlanId(pub(super) usize);

/// How a value of one type is converted to another.
#[derive(Debug)]
pub(super) enum Plan {
    /// Copy the bytes, none of which is padding or an entry.
    Copy,
    /// Convert a number to a wider kind.
    Widen(Scalar, Scalar),
    /// Convert the index of one list to that of another. `indices` are the new indices, by the old index.
    Enum { from: IndexWidth, to: IndexWidth, indices: Arc<[u32]> },
    /// Copy the heap data of the entry unchanged.
    Entry,
    /// Convert members, and copy runs of them.
    Struct(Vec<Step>),
    /// Convert the variant with the tag.
    Union { from: IndexWidth, to: IndexWidth, variants: Vec<VariantPlan> },
    /// Convert elements in the record itself.
    Fixed { items: Items },
    /// Convert elements in the record to elements in the heap.
    IntoHeap { items: Items },
    /// Convert elements in the heap.
    Variable { items: Items },
    /// Call a converter.
    Convert { converter: usize, from: TypeId, to: TypeId },
}

/// How the elements of an array are converted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Items {
    pub(super) from: Extent,
    pub(super) to: Extent,
    pub(super) plan: PlanId,
    /// Whether the bytes of all elements are copied at once.
    pub(super) run: Run,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// Copy the bytes of all elements at once.
    Whole,
    /// Convert the elements one after the other.
    Each,
}

/// The conversion of one variant of the writer's union.
#[derive(Debug)]
pub(super) struct VariantPlan {
    pub(super) key: Arc<str>,
    /// The variant's tag in the reader's union.
    pub(super) tag: u32,
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) plan: PlanId,
}

/// The conversion of part of a struct.
#[derive(Debug)]
pub(super) enum Step {
    /// Copy bytes of required members.
    Copy { from: Range<usize>, to: Range<usize> },
    /// Convert a member that both structs have, or pass the whole struct to a converter.
    Member(MemberPlan),
    /// Fill a member that only the reader has.
    Fill { name: Arc<str>, to: Range<usize>, bit: Option<u32>, default: usize },
}

#[derive(Debug)]
pub(super) struct MemberPlan {
    pub(super) name: Arc<str>,
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) plan: PlanId,
    /// The member's presence bit in the writer's struct.
    pub(super) from_bit: Option<u32>,
    /// The member's presence bit in the reader's struct.
    pub(super) to_bit: Option<u32>,
    /// The index of the default for a required member that is absent in the writer's record.
    pub(super) missing: Option<usize>,
}

/// An encoded default, its heap, and the plan that copies both into a record.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) bytes: Vec<u8>,
    pub(super) heap: Vec<u8>,
    pub(super) plan: PlanId,
}
