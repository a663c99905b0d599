//! What is done with each part of a record, with every question answered beforehand.

use crate::kinds::{PlaceWidth, Scalar, TypeId};
use crate::schema::Extent;
use std::ops::Range;
use std::sync::Arc;

/// The place of a plan in its [`Resolution`](super::Resolution).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlanId(pub(super) usize);

/// How a value of one type becomes one of another.
#[derive(Debug)]
pub(super) enum Plan {
    /// The same bytes, none of which is padding or an entry.
    Copy,
    /// A number as one of a wider kind.
    Widen(Scalar, Scalar),
    /// A place in one list as a place in another; by the place in the first.
    Enum { from: PlaceWidth, to: PlaceWidth, places: Arc<[u32]> },
    /// What the entry points at, as it is.
    Entry,
    /// Members, and runs of them.
    Struct(Vec<Step>),
    /// One of these, by the tag.
    Union { from: PlaceWidth, to: PlaceWidth, variants: Vec<VariantPlan> },
    /// Elements in the record itself.
    Fixed { items: Items },
    /// Elements from the record into the heap.
    IntoHeap { items: Items },
    /// Elements in the heap.
    Variable { items: Items },
    /// What the caller does.
    Convert { converter: usize, from: TypeId, to: TypeId },
}

/// How the elements of an array become others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Items {
    pub(super) from: Extent,
    pub(super) to: Extent,
    pub(super) plan: PlanId,
    /// Whether all bytes of all of them are copied at once.
    pub(super) run: Run,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// The bytes of all elements, as they are.
    Whole,
    /// One after the other.
    Each,
}

/// One variant of a writer's union.
#[derive(Debug)]
pub(super) struct VariantPlan {
    pub(super) key: Arc<str>,
    /// Its tag for the reader.
    pub(super) tag: u32,
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) plan: PlanId,
}

/// Part of a struct.
#[derive(Debug)]
pub(super) enum Step {
    /// Bytes of required members.
    Copy { from: Range<usize>, to: Range<usize> },
    /// A member that both have, or the whole struct for a converter.
    Member(MemberPlan),
    /// A member that only the reader has.
    Fill { name: Arc<str>, to: Range<usize>, bit: Option<u32>, default: usize },
}

#[derive(Debug)]
pub(super) struct MemberPlan {
    pub(super) name: Arc<str>,
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) plan: PlanId,
    /// The bit of presence that the writer has for it.
    pub(super) from_bit: Option<u32>,
    /// The bit of presence that the reader has for it.
    pub(super) to_bit: Option<u32>,
    /// What a required member is where the writer has none; the place of a default.
    pub(super) missing: Option<usize>,
}

/// A default: its bytes, their heap, and how both get into a record.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) bytes: Vec<u8>,
    pub(super) heap: Vec<u8>,
    pub(super) plan: PlanId,
}
