//! GGUF: key–values, then what each tensor is, then the data: llama.cpp's files.
//!
//! # What
//! Dense tensors and tensors in [blocks](holdall_core::layout::blocks), and key–values that say all that a runtime needs to know.
//! The header comes first, so a reader learns everything from the start of the file.
//!
//! # Layout
//! ```text
//! offset 0    "GGUF", u32 version, u64 tensors, u64 key–values
//! then        each key–value: string key, u32 type, value; an array is u32 type, u64 n, n values
//! then        each tensor: string name, u32 n, n × u64 dimensions, the fastest first, u32 type, u64 offset
//! aligned     data: tensors in the order above, each padded with zeros to the alignment
//! ```
//! A string is a u64 length and its bytes. Offsets count from the start of the data. The alignment is the key–value
//! `general.alignment`, 32 without one. In a big-endian file everything but the magic is swapped, so that the
//! lower half of its version reads as zero.
//!
//! # Specification
//! `docs/gguf.md` of ggml, and what ggml's own loader refuses. By [`RULES`].
//!
//! # Support
//! Versions 2 and 3 are read, in both byte orders, but for one type of blocks in big-endian files ([`BIG_ENDIAN_BLOCKS`]); version 3 is
//! written, little-endian. Key–values are attributes of the file, in its order. Which of GGUF's types a value has follows
//! from the value where it can (a truth value, text, an integer of 32 bits, a float that is one of 32 bits); where the
//! file has another, the attribute `holdall.gguf.types` names it, so that it is written again as it was. Text that is
//! not UTF-8 is bytes. What no key–value can say is kept as text in the lossless JSON of
//! [`Value::to_json`](holdall_core::model::Value::to_json), under the keys `holdall.attributes` and `holdall.tensor_attributes`,
//! and turned back in reading.
//!
//! A tensor of a type that is not known keeps its number in the layout (`gguf.type_153`) and its bytes as they lie, up to those of the
//! next tensor, with the padding between them: nothing here says how long it is.
//!
//! # Deviations
//! ggml itself takes names shorter than 64 bytes, and those who build it for longer ones up to 127; so are read and written. ggml takes 8 and more kinds of truth values; all that are not 0 are true, and are written as 1. Bytes after the
//! data are passed over, as ggml does.
//!
//! # Untrusted input
//! The header is read in growing steps up to [`Limits::header_len`], and nothing is allocated by a count of the file:
//! every loop ends where the bytes at hand end. Values are counted against [`Limits::attribute_values`].
//!
//! [`Limits::header_len`]: holdall_core::Limits::header_len
//! [`Limits::attribute_values`]: holdall_core::Limits::attribute_values

mod decode;
mod detect;
mod encode;
mod part;
mod rules;
mod value;

pub use rules::{
    ALIGN, ALIGNMENT, BIG_ENDIAN_BLOCKS, DECLARED, DTYPE, ELEMENT_TYPE, ENCODING, FIT,
    HEADER_BOUNDS, HEADER_LIMIT, KEY, LAYOUT, NAME, OFFSET, RANK, ROWS, RULES, STRING,
    TOO_MANY_VALUES, TRUNCATED, VALUE_TYPE, VERSION,
};

use super::{Format, IndexLocation, Parts, Shards, writer};
use holdall_core::model::block::BlockType;
use holdall_core::model::{DType, Layout};

/// GGUF.
pub static FORMAT: Format = Format {
    id: "gguf",
    name: "GGUF",
    extensions: &["gguf"],
    reads: &["3", "2"],
    versions: &["3"],
    encode: writer(encode::encoder),
    index_location: IndexLocation::Start,
    aligns: true,
    shards: Some(Shards::Parts(PARTS)),
    rules: RULES,
    ..Format::read_by(detect::detect, decode::decode)
};

/// The parts of a split file.
const PARTS: Parts = Parts { read: part::part_of, set: part::set_part, remove: part::leave_parts };

/// The first bytes of a file.
const MAGIC: &[u8; 4] = b"GGUF";
/// What some writers put there in big-endian files.
const REVERSED: &[u8; 4] = b"FUGG";
/// The alignment of data where no key–value says another.
const ALIGN_DEFAULT: u64 = 32;
/// The key–value that says another.
const ALIGN_KEY: &str = "general.alignment";
/// The most dimensions.
const MAX_RANK: usize = 4;
/// Bytes that names stay below.
const NAME_END: usize = 128;
/// The length of a name from which on ggml as it is usually built refuses it (`GGML_MAX_NAME`).
const GGML_NAME_END: usize = 64;

/// The numbers of plain element types.
const PLAIN: [(u32, DType); 8] = [
    (0, DType::F32),
    (1, DType::F16),
    (24, DType::I8),
    (25, DType::I16),
    (26, DType::I32),
    (27, DType::I64),
    (28, DType::F64),
    (30, DType::Bf16),
];

/// The layout of a tensor of a type that is not known, before its number.
const OPAQUE: &str = "gguf.type_";

/// What the elements of a tensor are.
#[derive(Debug, Clone, Copy)]
enum Element {
    Plain(DType),
    Blocks(&'static BlockType),
    /// Of that number, and not known.
    Opaque(u32),
}

impl Element {
    fn by_id(id: u32) -> Option<Element> {
        let plain = PLAIN.iter().find(|(own, _)| *own == id).map(|(_, t)| Element::Plain(*t));
        plain.or_else(|| BlockType::by_id(id).map(Element::Blocks))
    }

    /// The type that the layout of a tensor names, which is not known otherwise.
    fn by_layout(layout: &Layout) -> Option<Element> {
        let Layout::Other(name) = layout else { return None };
        let id = name.strip_prefix(OPAQUE)?.parse().ok()?;
        let is_opaque = Element::by_id(id).is_none() && **name == *format!("{OPAQUE}{id}");
        is_opaque.then_some(Element::Opaque(id))
    }

    /// Its number.
    fn id(self) -> Option<u32> {
        match self {
            Element::Plain(dtype) => PLAIN.iter().find(|(_, t)| *t == dtype).map(|(id, _)| *id),
            Element::Blocks(of) => Some(of.id),
            Element::Opaque(id) => Some(id),
        }
    }

    fn dtype(self) -> DType {
        match self {
            Element::Plain(dtype) => dtype,
            Element::Blocks(_) | Element::Opaque(_) => DType::U8,
        }
    }

    fn layout(self) -> Layout {
        match self {
            Element::Plain(_) => Layout::Dense,
            Element::Blocks(of) => Layout::Blocks(of),
            Element::Opaque(id) => Layout::Other(format!("{OPAQUE}{id}").into()),
        }
    }
}
