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
mod encode;
mod part;
mod value;

use super::{Format, IndexLocation, Parts, Shards, writer};
use holdall_core::model::block::BlockType;
use holdall_core::model::{DType, Layout};
use holdall_core::window::{Stop, Window};

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
    ..Format::read_by(detect, decode::decode)
};

/// The parts of a split file.
const PARTS: Parts = Parts { read: part::part_of, set: part::set_part, remove: part::leave_parts };

holdall_core::error::rules! {
    /// Every rule of the format.
    pub static RULES;

    /// A version that is not known.
    pub VERSION: Unsupported "gguf/version" "The version is 2 or 3.";
    /// The header ends before it is complete.
    pub HEADER_BOUNDS: Malformed "gguf/header-bounds"
        "The header, with as many key–values and tensors as it says, lies inside the file.";
    /// The header is too long.
    pub HEADER_LIMIT: Limit "gguf/header-limit"
        "The header has at most `Limits::header_len` bytes."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// Too many values.
    pub TOO_MANY_VALUES: Limit "gguf/too-many-values"
        "Key–values hold at most `Limits::attribute_values` values, array items included."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// An invalid key.
    pub KEY: Malformed "gguf/key" "Keys are UTF-8, not empty, and unique.";
    /// A type of values that is not known.
    pub VALUE_TYPE: Malformed "gguf/value-type"
        "The type of a value is one of the 13 of GGUF, and array items are not arrays.";
    /// Text that is too long.
    pub STRING: Malformed "gguf/string"
        "Strings have at most 2^30 bytes, and arrays at most 2^30 items.";
    /// An invalid alignment.
    pub ALIGNMENT: Malformed "gguf/alignment"
        "`general.alignment` is a u32 that is a power of two.";
    /// A name that ggml does not take.
    pub NAME: Malformed "gguf/name" "Names of tensors are UTF-8 and shorter than 128 bytes.";
    /// Too many dimensions.
    pub RANK: Malformed "gguf/rank" "A tensor has at most 4 dimensions, none negative.";
    /// An element type that is not known.
    pub DTYPE: Unsupported "gguf/dtype" "The type of a tensor in a big-endian file is one that ggml has: of others the order of bytes is not known.";
    /// Rows that are not whole blocks.
    pub ROWS: Malformed "gguf/rows"
        "The first dimension of a tensor in blocks is a multiple of the block's elements, and the tensor has fewer than 2^63 elements.";
    /// An offset that is not the next.
    pub OFFSET: Malformed "gguf/offset"
        "The offset of a tensor is the sum of the sizes of those before it, each padded to the \
         alignment." remedies [Salvage];
    /// Data that is missing.
    pub TRUNCATED: Malformed "gguf/truncated" "The data of every tensor lies inside the file."
        remedies [Salvage];
    /// Blocks of a big-endian file.
    pub BIG_ENDIAN_BLOCKS: Unsupported "gguf/big-endian-blocks"
        "A big-endian file has no IQ2_XXS tensors: ggml does not read them there as it wrote them.";

    /// A layout that the format cannot hold.
    pub LAYOUT: Unsupported "gguf/layout" "A tensor to be written is dense, in blocks, or of a type whose number its layout names (`gguf.type_153`)."
        remedies [MakeDense];
    /// Elements that the format cannot hold.
    pub ELEMENT_TYPE: Unsupported "gguf/element-type"
        "Elements to be written are f64, f32, f16, bf16 or signed integers."
        remedies [LeaveOut];
    /// A tensor that ggml would not take.
    pub FIT: Unsupported "gguf/fit"
        "A tensor to be written has at most 4 dimensions, and a name shorter than 128 bytes.";
    /// Not what was declared.
    pub DECLARED: Misuse "gguf/declared"
        "Tensors are declared before the first byte is written, then written as declared, in order.";
    /// Compression or a digest.
    pub ENCODING: Unsupported "gguf/encoding" "Components are stored raw, without a digest."
        remedies [StoreRaw];
    /// An alignment that cannot be.
    pub ALIGN: Misuse "gguf/align" "The alignment is a power of two from 8 to 2^26.";
}

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

fn detect(window: &Window) -> Result<bool, Stop> {
    let magic = window.head(4)?;
    Ok(magic.as_ref() == MAGIC || magic.as_ref() == REVERSED)
}
