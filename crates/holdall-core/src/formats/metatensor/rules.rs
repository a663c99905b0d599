//! Every rule of the format.

use crate::error::{Kind, Rule};

/// Every rule of the format; those of schemas and records are with `holdall-schema`.
pub static RULES: &[&Rule] = &[
    &HEADER_BOUNDS,
    &HEADER_LIMIT,
    &TOO_MANY_VALUES,
    &VERSION,
    &ENDIAN,
    &DATA_ALIGN,
    &HEADER,
    &PADDING,
    &REFERENCE,
    &MEMBERS,
    &VALUE,
    &DTYPE,
    &SHAPE,
    &SYMBOL,
    &SIZE,
    &COUNT,
    &OFFSETS,
    &BOUNDS,
    &ALIGN,
    &GAP,
    &GAP_BYTES,
    &TRAILING_DATA,
    &TRUNCATED,
    &LAYOUT,
    &COMPONENTS,
    &LOGICAL_TYPE,
    &KIND,
    &ATTRIBUTE,
    &SCHEMA_FIT,
    &ENCODING,
    &WRITE_ALIGN,
    &DECLARED,
];

/// The header reaches past the end of the file.
pub static HEADER_BOUNDS: Rule =
    Rule::new("metatensor/header-bounds", Kind::Malformed, "The header lies inside the file.");
/// The header is too long.
pub static HEADER_LIMIT: Rule = Rule::new(
    "metatensor/header-limit",
    Kind::Limit,
    "The header has at most `Limits::header_len` bytes (the format allows 100,000,000), and so have \
     the kinds of its tensors, written out.",
);
/// More values than the limit.
pub static TOO_MANY_VALUES: Rule = Rule::new(
    "metatensor/too-many-values",
    Kind::Limit,
    "`metadata`, and the plain values among the tensors, hold at most `Limits::attribute_values` \
     values each, keys among them.",
);
/// A version that is not known.
pub static VERSION: Rule = Rule::new(
    "metatensor/version",
    Kind::Unsupported,
    "The value of `metatensor` is a version that starts with `1.`.",
);
/// Bytes in another order.
pub static ENDIAN: Rule =
    Rule::new("metatensor/endian", Kind::Unsupported, "`endian` is `little`.");
/// An alignment of the data that is none.
pub static DATA_ALIGN: Rule = Rule::new(
    "metatensor/data-align",
    Kind::Malformed,
    "`data_align` is a power of two from 64 to 65536.",
);
/// A key of the header is missing, or has a value of another type.
pub static HEADER: Rule = Rule::new(
    "metatensor/header",
    Kind::Malformed,
    "The header has `endian`, `schema` and `tensors`, and every key a value of its type.",
);
/// The data does not start on its boundary.
pub static PADDING: Rule = Rule::new(
    "metatensor/padding",
    Kind::Malformed,
    "The header is filled up with spaces so that the data starts at a multiple of `data_align`.",
);
/// A reference without its fields.
pub static REFERENCE: Rule = Rule::new(
    "metatensor/reference",
    Kind::Malformed,
    "A reference has the fields of its node in the schema, with values of their types.",
);
/// A member that is missing, or one too many.
pub static MEMBERS: Rule = Rule::new(
    "metatensor/members",
    Kind::Malformed,
    "An object of references has the members that the schema requires, and no others where it \
     forbids them.",
);
/// A plain value that the schema does not allow.
pub static VALUE: Rule = Rule::new(
    "metatensor/value",
    Kind::Malformed,
    "Plain values among the tensors are as the schema says.",
);
/// Another element type than the schema's.
pub static DTYPE: Rule = Rule::new(
    "metatensor/dtype",
    Kind::Malformed,
    "The dtype of a reference is one of safetensors, and the schema's where it names one.",
);
/// Another shape than the schema's.
pub static SHAPE: Rule = Rule::new(
    "metatensor/shape",
    Kind::Malformed,
    "The shape of a reference is the schema's, where it names one.",
);
/// Two numbers for one symbol.
pub static SYMBOL: Rule = Rule::new(
    "metatensor/symbol",
    Kind::Malformed,
    "A symbol in the shapes of a schema is one number throughout a file.",
);
/// A range of another length than it should have.
pub static SIZE: Rule = Rule::new(
    "metatensor/size",
    Kind::Malformed,
    "`data_offsets` take the bytes that dtype and shape, or count and schema, take.",
);
/// Too few or too many elements.
pub static COUNT: Rule = Rule::new(
    "metatensor/count",
    Kind::Malformed,
    "A dataset, or an array of references, has as many elements as `minItems` and `maxItems` say.",
);
/// `data_offsets` is not a range.
pub static OFFSETS: Rule = Rule::new(
    "metatensor/offsets",
    Kind::Malformed,
    "`data_offsets` is two numbers, start and end, the start not after the end.",
);
/// Offsets that no file reaches.
pub static BOUNDS: Rule = Rule::new(
    "metatensor/bounds",
    Kind::Malformed,
    "Every range ends below 2^63, counted from the start of the file.",
);
/// A range that does not start on its boundary.
pub static ALIGN: Rule = Rule::new(
    "metatensor/align",
    Kind::Malformed,
    "Every range starts at a multiple of the alignment of what it holds.",
);
/// More bytes between two ranges than alignment needs.
pub static GAP: Rule = Rule::new(
    "metatensor/gap",
    Kind::Malformed,
    "A gap before a range is shorter than the alignment of that range.",
);
/// Something in a gap.
pub static GAP_BYTES: Rule =
    Rule::new("metatensor/gap-bytes", Kind::Malformed, "The bytes of a gap are zero.");
/// The file goes on after its last range.
pub static TRAILING_DATA: Rule = Rule::new(
    "metatensor/trailing-data",
    Kind::Malformed,
    "The file ends where its last range ends.",
);
/// The file ends before its last range does.
pub static TRUNCATED: Rule = Rule::new(
    "metatensor/truncated",
    Kind::Malformed,
    "The file has all the bytes that its header describes.",
)
.with_hint("the file was cut short, perhaps by a download that broke off: get it again");
/// A layout that the format lacks.
pub static LAYOUT: Rule = Rule::new(
    "metatensor/layout",
    Kind::Unsupported,
    "Metatensor holds dense tensors, records and blobs.",
)
.with_hint("`--dense` writes sparse and quantized tensors as dense ones");
/// A tensor with other components than its layout's.
pub static COMPONENTS: Rule = Rule::new(
    "metatensor/components",
    Kind::Unsupported,
    "A tensor in Metatensor has the components of its layout and no others.",
)
.with_hint("`--exclude` leaves the tensor out");
/// A logical type that the format lacks.
pub static LOGICAL_TYPE: Rule = Rule::new(
    "metatensor/logical-type",
    Kind::Unsupported,
    "A tensor's logical type is one that safetensors has a name for.",
)
.with_hint("`--raw-types` writes the storage elements and drops the logical type");
/// Records or a blob without a schema.
pub static KIND: Rule = Rule::new(
    "metatensor/kind",
    Kind::Unsupported,
    "Records and blobs have the attribute `metatensor.kind`, the JSON text of a schema that fits their \
     bytes.",
);
/// One of our attributes with another content.
pub static ATTRIBUTE: Rule = Rule::new(
    "metatensor/attribute",
    Kind::Unsupported,
    "The attribute `metatensor.schema` is the JSON text of a schema, and `metatensor.values` that of an \
     object from paths beside the tensors' to values.",
)
.with_hint("`--drop-attributes` leaves it out");
/// Tensors that the schema among the attributes does not describe.
pub static SCHEMA_FIT: Rule = Rule::new(
    "metatensor/schema-fit",
    Kind::Unsupported,
    "Tensors are written as the schema among the file's attributes says, where there is one.",
)
.with_hint(
    "take the attribute `metatensor.schema` away (`holdall edit FILE unset metatensor.schema`, or \
     `holdall convert --infer-schema`), and a schema is made from the tensors",
);
/// Compressed bytes, or bytes with a digest.
pub static ENCODING: Rule = Rule::new(
    "metatensor/encoding",
    Kind::Unsupported,
    "Data in Metatensor is raw and carries no digest.",
)
.with_hint("`--encoding raw --digest none`");
/// An alignment that cannot be written.
pub static WRITE_ALIGN: Rule = Rule::new(
    "metatensor/write-align",
    Kind::Misuse,
    "An alignment is a power of two, at most 65536.",
);
/// The writer was not told the truth.
pub static DECLARED: Rule = Rule::new(
    "metatensor/declared",
    Kind::Misuse,
    "What is written is what was declared: unique names, these sizes, in this order, all of it.",
);
