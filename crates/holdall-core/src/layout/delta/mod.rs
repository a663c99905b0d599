//! Deltas: the elements of a tensor that differ from those of a base tensor.
//!
//! A tensor of layout `delta` has the shape of its target. Which elements changed is in `gaps` or `mask`, how they changed in the
//! planes `d0`, `d1`, …: byte `k` of a number for each changed element, the distance between the new element and the old one in
//! the order of the numbers that they encode. `starts` has the positions in these components for each block of 2^20
//! elements, so that blocks are applied independently. The attributes name the type of the elements, the number of changes, and
//! digests of the base and of the target.
//!
//! [`DeltaView`] applies a delta, [`DeltaBlocks`] reads one block of it, [`encode`] makes one, and [`DeltaEncoder`] makes one of elements that come in pieces.

mod blocks;
#[cfg(feature = "digests")]
mod digest;
mod encode;
mod head;
mod rank;
mod view;

pub use blocks::DeltaBlocks;
#[cfg(feature = "digests")]
pub use digest::ElementsDigest;
pub use encode::{DeltaEncoder, Encoded, count_changed, encode};
pub use head::{DeltaHead, KEY};
pub use view::DeltaView;

use crate::error::Result;
use crate::model::{DType, LogicalType, Role, TensorInfo};

/// The name of the layout.
pub const LAYOUT: &str = "delta";
/// Elements of a block.
pub const BLOCK: u64 = 1 << 20;
/// The most elements that one byte of `gaps` skips, with the byte that continues.
const MORE: u8 = 255;

/// The attributes of a tensor of the layout.
pub const ATTRIBUTES: [&str; 5] = ["dtype", "type", "base", "target", "changed"];

const GAPS: &str = "gaps";
const MASK: &str = "mask";
const STARTS: &str = "starts";
/// The names of the planes.
const PLANES: [&str; 8] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"];

fn role(name: &str) -> Role {
    Role::from_name(name)
}

/// The type of elements that a delta can have.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaType {
    /// The storage type.
    pub dtype: DType,
    /// The logical type, for floats of 8 bits.
    pub logical_type: Option<LogicalType>,
}

impl DeltaType {
    /// Returns the type, or `None` if tensors of it have no deltas, because an element is not a single number of whole
    /// bytes.
    pub fn new(dtype: DType, logical_type: Option<LogicalType>) -> Option<DeltaType> {
        let is_float = |of: &LogicalType| of.bits() == Some(8) && !of.is_complex();
        let fits = match &logical_type {
            None => dtype.width() <= 8,
            Some(of) => dtype.width() == 1 && is_float(of),
        };
        fits.then_some(DeltaType { dtype, logical_type })
    }

    /// Returns the type of the elements of a tensor of layout `delta`.
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`], [`COMPONENTS`] and [`CHANGED`] if its attributes or components are not those of a delta.
    pub fn of_tensor(info: &TensorInfo) -> Result<DeltaType> {
        view::DeltaFacts::new(info).map(|facts| facts.element_type)
    }

    /// Returns the bytes of an element.
    pub fn width(&self) -> u64 {
        self.dtype.width()
    }

    /// Returns `true` if the order of the numbers differs from that of their bits.
    fn is_float(&self) -> bool {
        self.logical_type.is_some()
            || matches!(self.dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }
}

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A file is not a delta.
    pub NOT_DELTA: Malformed "delta/not-a-delta"
        "A delta is a file with the attribute `delta`: its version (1), the number of tensors of the target, and the names of tensors that were removed.";
    /// An attribute of a delta is missing or invalid.
    pub ATTRIBUTE: Malformed "delta/attribute"
        "A tensor of layout `delta` has the attributes `dtype`, `base`, `target` and `changed`, and `type` for 8-bit floats: the element type, digests (`xxh3-128:` or `sha256:` and hexadecimal digits), and the number of elements that changed, at least 1.";
    /// The components of a delta do not belong together.
    pub COMPONENTS: Malformed "delta/components"
        "A tensor of layout `delta` has either `gaps` or `mask`, `starts`, and one plane `d0`, `d1`, … for each byte of an element; `starts` is u64, the others are u8.";
    /// A component of a delta has the wrong length.
    pub LENGTH: Malformed "delta/length"
        "`mask` has one bit for each element, rounded up to bytes; each plane one byte for each changed element; `starts` two numbers (with `gaps`) or one (with `mask`) for each block of 2^20 elements.";
    /// A gap leads out of its block, or the gaps end in the middle.
    pub GAP: Malformed "delta/gap"
        "The gaps of a block lead to elements of this block, and a gap of 255 is continued.";
    /// Bits of the mask beyond the last element are set.
    pub SPARE: Malformed "delta/spare-bits" "The bits of `mask` after the last element are 0.";
    /// The number of changed elements differs.
    pub CHANGED: Malformed "delta/changed"
        "`changed` is the number of elements that `gaps` or `mask` names, and `starts` has the sums up to each block.";
    /// A changed element has no value.
    pub VALUE: Malformed "delta/value" "The number of a changed element is not the largest of its width.";
}
