//! Decoding stored bytes into elements, without I/O. All crates that read components use this module.
//!
//! ```text
//!  Want  ──►  Plan  ──►  Fetch, Fetch, …      which bytes, merged how, in what order
//!                          │ somebody gets them: a map, threads, HTTP, a browser
//!                          ▼
//!             Part, Part, …                   what each byte of a fetch is for
//!                          │ PartDecoder: a part alone · ComponentDecoder: a component in order
//!                          ▼
//!             decoded bytes, little-endian    DigestCollector: whether the stored ones have their digest
//! ```
//!
//! A [`Want`] is a component, or a range of its decoded bytes. A [`Plan`] lists, for any number of wants, what to fetch
//! ([`Fetch`]) and the purpose of each part of a fetch ([`FetchPart`]). The source determines how large fetches are,
//! and how far apart parts may be to be fetched together ([`ReadHints`]). The code that carries out a plan is called an
//! *executor*. An executor with threads and blocking sources runs fetches in any order, decodes their parts with a
//! [`PartDecoder`] and collects digests in [`DigestCollector`]; components that must be decoded in order go through a
//! [`ComponentDecoder`]. An executor that receives bytes in any order, in pieces of any size, passes them to an
//! [`Assembly`], which does all of this.

mod assembly;
mod chunked;
mod decoder;
mod digests;
mod extent;
mod hints;
mod join;
mod part;
mod plan;
mod want;

pub use assembly::{Assembly, DecodedPart};
pub use chunked::{Chunk, Chunked, EdgeChunks, Grid};
pub use decoder::{ComponentDecoder, Decoded, PIECE_LEN};
pub use digests::{DigestCollector, Digests, check_digest};
pub use extent::Extent;
pub use hints::{Access, ReadHints};
pub use join::{MergedRead, join};
pub use part::PartDecoder;
pub use plan::{Fetch, FetchPart, FetchSizing, Plan, Purpose};
pub use want::{Want, distinct};

use crate::model::block::{BLOCK_TYPES, BlockType};
use crate::model::{ByteOrder, Component};

crate::error::rules! {
    /// All rules about reading components.
    pub static RULES;

    /// The stored bytes differ from the ones that were written.
    pub DIGEST: Integrity "file/digest"
        "The stored bytes of a component match the digest that the file gives."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// An executor finished before all bytes of its plan arrived.
    pub MISSING: Misuse "read/missing" "All bytes of a plan are fetched before the plan is finished.";
}

impl Component {
    /// Returns the unit in which decoded bytes are converted to little-endian, in bytes: an element or a block, or 1 if
    /// no conversion is needed.
    pub fn swap_unit_len(&self) -> u64 {
        match self.byte_order {
            ByteOrder::Little => 1,
            ByteOrder::Big => self.dtype.width().max(1),
            ByteOrder::BigBlocks(at) => match BLOCK_TYPES.get(usize::from(at)) {
                Some(block_type)
                    if block_type.fields().is_some_and(|fields| !fields.is_empty()) =>
                {
                    block_type.bytes
                }
                _ => 1,
            },
        }
    }

    /// Converts bytes to little-endian in place. `bytes` are whole elements or blocks.
    pub fn make_little_endian(&self, bytes: &mut [u8]) {
        let len = self.swap_unit_len() as usize;
        let units = bytes.chunks_exact_mut(len);
        match self.byte_order {
            _ if len <= 1 => {}
            ByteOrder::Little => {}
            ByteOrder::Big => units.for_each(<[u8]>::reverse),
            ByteOrder::BigBlocks(at) => {
                let block_type = BLOCK_TYPES.get(usize::from(at));
                let fields = block_type.and_then(BlockType::fields).unwrap_or_default();
                for block in units {
                    for (start, width, count) in fields {
                        let field = block.get_mut(*start..start + width * count);
                        let numbers = field.unwrap_or_default().chunks_exact_mut(*width);
                        numbers.for_each(<[u8]>::reverse);
                    }
                }
            }
        }
    }
}
