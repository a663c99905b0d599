//! ggml's block types: a fixed number of elements in a fixed number of bytes, including their scales.

use super::ByteOrder;
use std::fmt;

/// A field of numbers in a block: the offset of the first one, the bytes of each, and how many there are.
pub type Field = (usize, usize, usize);

/// A type whose elements are stored in blocks. Two types are equal if their ids are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockType {
    /// The type's number in GGUF.
    pub id: u32,
    /// The name of the type's layout: `gguf.q4_k`.
    pub layout: &'static str,
    /// Elements per block: neighbours in the last dimension.
    pub elements: u64,
    /// Bytes per block.
    pub bytes: u64,
}

/// All block types. The missing numbers belong to types that ggml removed, and to types without blocks.
#[rustfmt::skip]
pub static BLOCK_TYPES: [BlockType; 27] = [
    BlockType { id: 2, layout: "gguf.q4_0", elements: 32, bytes: 18 },
    BlockType { id: 3, layout: "gguf.q4_1", elements: 32, bytes: 20 },
    BlockType { id: 6, layout: "gguf.q5_0", elements: 32, bytes: 22 },
    BlockType { id: 7, layout: "gguf.q5_1", elements: 32, bytes: 24 },
    BlockType { id: 8, layout: "gguf.q8_0", elements: 32, bytes: 34 },
    BlockType { id: 9, layout: "gguf.q8_1", elements: 32, bytes: 36 },
    BlockType { id: 10, layout: "gguf.q2_k", elements: 256, bytes: 84 },
    BlockType { id: 11, layout: "gguf.q3_k", elements: 256, bytes: 110 },
    BlockType { id: 12, layout: "gguf.q4_k", elements: 256, bytes: 144 },
    BlockType { id: 13, layout: "gguf.q5_k", elements: 256, bytes: 176 },
    BlockType { id: 14, layout: "gguf.q6_k", elements: 256, bytes: 210 },
    BlockType { id: 15, layout: "gguf.q8_k", elements: 256, bytes: 292 },
    BlockType { id: 16, layout: "gguf.iq2_xxs", elements: 256, bytes: 66 },
    BlockType { id: 17, layout: "gguf.iq2_xs", elements: 256, bytes: 74 },
    BlockType { id: 18, layout: "gguf.iq3_xxs", elements: 256, bytes: 98 },
    BlockType { id: 19, layout: "gguf.iq1_s", elements: 256, bytes: 50 },
    BlockType { id: 20, layout: "gguf.iq4_nl", elements: 32, bytes: 18 },
    BlockType { id: 21, layout: "gguf.iq3_s", elements: 256, bytes: 110 },
    BlockType { id: 22, layout: "gguf.iq2_s", elements: 256, bytes: 82 },
    BlockType { id: 23, layout: "gguf.iq4_xs", elements: 256, bytes: 136 },
    BlockType { id: 29, layout: "gguf.iq1_m", elements: 256, bytes: 56 },
    BlockType { id: 34, layout: "gguf.tq1_0", elements: 256, bytes: 54 },
    BlockType { id: 35, layout: "gguf.tq2_0", elements: 256, bytes: 66 },
    BlockType { id: 39, layout: "gguf.mxfp4", elements: 32, bytes: 17 },
    BlockType { id: 40, layout: "gguf.nvfp4", elements: 64, bytes: 36 },
    BlockType { id: 41, layout: "gguf.q1_0", elements: 128, bytes: 18 },
    BlockType { id: 42, layout: "gguf.q2_0", elements: 64, bytes: 18 },
];

impl BlockType {
    /// Returns the type with this number in GGUF.
    pub fn by_id(id: u32) -> Option<&'static BlockType> {
        BLOCK_TYPES.iter().find(|t| t.id == id)
    }

    /// Returns the type whose layout has this name.
    pub fn by_layout(name: &str) -> Option<&'static BlockType> {
        BLOCK_TYPES.iter().find(|t| t.layout == name)
    }

    /// Returns the type with this name, with or without the prefix `gguf.`, in any case: `Q4_K`.
    pub fn by_name(name: &str) -> Option<&'static BlockType> {
        let name = name.to_ascii_lowercase();
        BLOCK_TYPES.iter().find(|t| t.layout == name || t.as_str() == name)
    }

    /// Returns the type's name: `q4_k`.
    pub fn as_str(&self) -> &'static str {
        self.layout.strip_prefix("gguf.").unwrap_or(self.layout)
    }

    /// Returns the fields of a block whose numbers have more than one byte. Returns `None` for types that ggml cannot
    /// read back after writing them on a big-endian machine.
    #[rustfmt::skip]
    pub fn fields(&self) -> Option<&'static [Field]> {
        Some(match self.as_str() {
            "mxfp4" | "nvfp4" => &[],
            "q4_0" | "q8_0" | "q1_0" | "q2_0" | "iq4_nl" | "iq2_s" | "iq3_s" => &[(0, 2, 1)],
            "q4_1" | "q8_1" | "q4_k" | "q5_k" | "iq4_xs" => &[(0, 2, 2)],
            "q5_0" => &[(0, 2, 1), (2, 4, 1)],
            "q5_1" => &[(0, 2, 2), (4, 4, 1)],
            "q2_k" => &[(80, 2, 2)],
            "q3_k" => &[(108, 2, 1)],
            "q6_k" => &[(208, 2, 1)],
            "q8_k" => &[(0, 4, 1), (260, 2, 16)],
            "iq2_xs" => &[(0, 2, 33)],
            "iq3_xxs" => &[(0, 2, 1), (66, 4, 8)],
            "iq1_s" => &[(0, 2, 1), (34, 2, 8)],
            "iq1_m" => &[(48, 2, 4)],
            "tq1_0" => &[(52, 2, 1)],
            "tq2_0" => &[(64, 2, 1)],
            _ => return None,
        })
    }

    /// Returns the byte order of big-endian blocks of this type, or `None` like [`BlockType::fields`].
    pub fn big_endian(&self) -> Option<ByteOrder> {
        self.fields()?;
        let at = BLOCK_TYPES.iter().position(|t| t.id == self.id)?;
        Some(ByteOrder::BigBlocks(u8::try_from(at).ok()?))
    }

    /// Returns the bytes of a tensor of this shape, or `None` if its rows are not whole blocks or the result exceeds
    /// 2^64.
    pub fn stored_len(&self, shape: &[u64]) -> Option<u64> {
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(self.elements) {
            return None;
        }
        (super::element_count(shape)? / self.elements).checked_mul(self.bytes)
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
