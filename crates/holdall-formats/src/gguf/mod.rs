//! GGUF, the file format of llama.cpp: key–values, then the descriptions of the tensors, then the data.
//!
//! # Contents
//! Dense tensors and tensors in [blocks](holdall_core::layout::blocks), and key–values with everything that a runtime
//! needs to know. The header comes first, so the start of a file is enough to read its index.
//!
//! # Layout
//! ```text
//! offset 0    "GGUF", u32 version, u64 tensors, u64 key–values
//! then        each key–value: string key, u32 type, value; an array is u32 type, u64 n, n values
//! then        each tensor: string name, u32 n, n × u64 dimensions, the fastest first, u32 type, u64 offset
//! aligned     data: tensors in the order above, each padded with zeros to the alignment
//! ```
//! A string is a u64 length and its bytes. Offsets count from the start of the data. The alignment is the value of the
//! key `general.alignment`, by default 32. In a big-endian file everything but the magic is swapped, so that the lower
//! half of its version reads as zero.
//!
//! # Specification
//! `docs/gguf.md` of ggml, and the checks of ggml's own loader.
//! [`RULES`] are the rules that are checked.
//!
//! # Support
//! Versions 2 and 3 are read, in both byte orders, except one type of blocks in big-endian files
//! ([`BIG_ENDIAN_BLOCKS`]). Version 3 is written, little-endian. Key–values are attributes of the file, in the order of
//! the file. Most types of GGUF follow from the value (a boolean, a string, a 32-bit integer, a float that fits 32
//! bits); for values of other types, the attribute `holdall.gguf.types` names the type, so that they are written as
//! they were read. Strings that are not UTF-8 are bytes. Attributes that no key–value can hold are kept as text in the
//! lossless JSON of [`Value::to_json`](holdall_core::model::Value::to_json), under the keys `holdall.attributes` and
//! `holdall.tensor_attributes`, and restored when the file is read.
//!
//! A tensor of an unknown type has a layout with the number of its type (`gguf.type_153`). Its bytes extend to the
//! start of the next tensor, including the padding between them, because its length is unknown.
//!
//! # Deviations
//! ggml accepts names shorter than 64 bytes, or up to 127 bytes if it is built for longer names; names of up to 127
//! bytes are read and written. ggml accepts any byte as a boolean: values other than 0 are true, and are written as 1.
//! Bytes after the data are ignored, as in ggml.
//!
//! # Untrusted input
//! The header is read in growing steps up to [`Limits::header_len`], and no memory is allocated according to a count in
//! the file: every loop ends where the available bytes end. Values are counted against [`Limits::attribute_values`].
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
/// The magic number that some writers use in big-endian files.
const REVERSED: &[u8; 4] = b"FUGG";
/// The default alignment of the data, in bytes.
const ALIGN_DEFAULT: u64 = 32;
/// The key of the alignment.
const ALIGN_KEY: &str = "general.alignment";
/// The maximum number of dimensions.
const MAX_RANK: usize = 4;
/// The maximum length of a name, plus one.
const NAME_END: usize = 128;
/// The length of names, in bytes, from which ggml in its default build refuses them (`GGML_MAX_NAME`).
const GGML_NAME_END: usize = 64;

/// The type numbers of plain element types.
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

/// The prefix of the layout of a tensor with an unknown type. The number of the type follows.
const OPAQUE: &str = "gguf.type_";

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy)]
enum Element {
    Plain(DType),
    Blocks(&'static BlockType),
    /// The number of an unknown type.
    Opaque(u32),
}

impl Element {
    fn by_id(id: u32) -> Option<Element> {
        let plain = PLAIN.iter().find(|(own, _)| *own == id).map(|(_, t)| Element::Plain(*t));
        plain.or_else(|| BlockType::by_id(id).map(Element::Blocks))
    }

    /// Returns the unknown type that a tensor's layout names.
    fn by_layout(layout: &Layout) -> Option<Element> {
        let Layout::Other(name) = layout else { return None };
        let id = name.strip_prefix(OPAQUE)?.parse().ok()?;
        let is_opaque = Element::by_id(id).is_none() && **name == *format!("{OPAQUE}{id}");
        is_opaque.then_some(Element::Opaque(id))
    }

    /// Returns the number of the type.
    fn id(self) -> Option<u32> {
        match self {
            Element::Plain(dtype) => PLAIN.iter().find(|(_, t)| *t == dtype).map(|(id, _)| *id),
            Element::Blocks(block_type) => Some(block_type.id),
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
            Element::Blocks(block_type) => Layout::Blocks(block_type),
            Element::Opaque(id) => Layout::Other(format!("{OPAQUE}{id}").into()),
        }
    }
}
