//! From stored bytes to elements, without I/O: the one place where that is decided and done.
//!
//! ```text
//!  Want  ──►  Plan  ──►  Fetch, Fetch, …      which bytes, merged how, in what order
//!                          │ somebody gets them: a map, threads, HTTP, a browser
//!                          ▼
//!             Part, Part, …                   what each byte of a fetch is for
//!                          │ PartDecoder: a part alone · ComponentDecoder: a component in order
//!                          ▼
//!             decoded bytes, little-endian    Sums: whether the stored ones have their digest
//! ```
//!
//! A [`Want`] is a component, or a range of its decoded bytes. A [`Plan`] says for any number of wants what to fetch
//! ([`Fetch`]) and what each part of it is for ([`Part`]); how large fetches are and how far apart parts may be to be
//! fetched together is the source's to say ([`Terms`]). Whoever carries out a plan is an *executor*. One that has
//! threads and blocking sources takes fetches in any order, decodes their parts by a [`PartDecoder`] and adds up
//! digests in [`Sums`]; components that cannot be cut go through a [`ComponentDecoder`]. One that gets bytes as they
//! come, in any order and in pieces of any size, hands them to an [`Assembly`], which does all of that.

mod assembly;
mod chunked;
mod decoder;
mod extent;
mod join;
mod part;
mod plan;
mod sums;
mod terms;
mod want;

pub use assembly::{Assembly, DecodedPart};
pub use chunked::{Chunk, Chunked, EdgeChunks, Grid};
pub use decoder::{ComponentDecoder, Decoded, PIECE_LEN};
pub use extent::Extent;
pub use join::{MergedRead, join};
pub use part::PartDecoder;
pub use plan::{Fetch, FetchPart, FetchSizing, Plan, Purpose};
pub use sums::{Digests, Sums, check_digest};
pub use terms::{Access, ReadHints};
pub use want::{Want, distinct};

use crate::model::block::{BLOCK_TYPES, BlockType};
use crate::model::{ByteOrder, Component};

crate::error::rules! {
    /// Every rule of reading components.
    pub static RULES;

    /// The bytes are not the ones that were written.
    pub DIGEST: Integrity "file/digest"
        "The stored bytes of a component match the digest that the file gives."
        hint "the bytes changed since they were written: fetch or restore the file again";
    /// An executor ended before all bytes of its plan came.
    pub MISSING: Misuse "read/missing" "All bytes of a plan are fetched before the plan is finished.";
}

impl Component {
    /// How many of its decoded bytes are made little-endian together, elements or blocks; 1 where they are it already.
    pub fn turned_len(&self) -> u64 {
        match self.byte_order {
            ByteOrder::Little => 1,
            ByteOrder::Big => self.dtype.width().max(1),
            ByteOrder::BigBlocks(at) => match BLOCK_TYPES.get(usize::from(at)) {
                Some(of) if of.fields().is_some_and(|fields| !fields.is_empty()) => of.bytes,
                _ => 1,
            },
        }
    }

    /// Makes its bytes little-endian: whole elements or blocks, as many as there are.
    pub fn turn(&self, bytes: &mut [u8]) {
        let len = self.turned_len() as usize;
        let units = bytes.chunks_exact_mut(len);
        match self.byte_order {
            _ if len <= 1 => {}
            ByteOrder::Little => {}
            ByteOrder::Big => units.for_each(<[u8]>::reverse),
            ByteOrder::BigBlocks(at) => {
                let of = BLOCK_TYPES.get(usize::from(at));
                let fields = of.and_then(BlockType::fields).unwrap_or_default();
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
