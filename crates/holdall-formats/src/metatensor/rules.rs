//! Every rule of the format.

/// The code of the warning for a plain value that this build cannot check.
pub(super) const VALUES_UNCHECKED: &str = "metatensor/values-unchecked";

/// The code of the warning for a plain value whose pattern cannot be compiled.
pub(super) const PATTERN_UNCHECKED: &str = "metatensor/pattern-unchecked";

holdall_core::error::rules! {
    /// Every rule of the format; those of schemas and records are with `holdall-schema`.
    pub static RULES;

    /// The header reaches past the end of the file.
    pub HEADER_BOUNDS: Malformed "metatensor/header-bounds" "The header lies inside the file.";
    /// The header is too long.
    pub HEADER_LIMIT: Limit "metatensor/header-limit"
        "The header has at most `Limits::header_len` bytes (the format allows 100,000,000), and so do the kinds of its tensors when written out."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
    /// More values than the limit.
    pub TOO_MANY_VALUES: Limit "metatensor/too-many-values"
        "`metadata`, and the plain values among the tensors, hold at most `Limits::attribute_values` values each, keys included."
        remedies [RaiseLimit { limit: "attribute_values", at_least: None }];
    /// A version that is not known.
    pub VERSION: Unsupported "metatensor/version"
        "The value of `metatensor` is a version that starts with `1.`.";
    /// Bytes in another order.
    pub ENDIAN: Unsupported "metatensor/endian" "`endian` is `little`.";
    /// An invalid alignment of the data.
    pub DATA_ALIGN: Malformed "metatensor/data-align"
        "`data_align` is a power of two from 64 to 65536.";
    /// A key of the header is missing, or has a value of another type.
    pub HEADER: Malformed "metatensor/header"
        "The header has `endian`, `schema` and `tensors`, and every key a value of its type.";
    /// The data does not start on its boundary.
    pub PADDING: Malformed "metatensor/padding"
        "The header is padded with spaces so that the data starts at a multiple of `data_align`.";
    /// A reference without its fields.
    pub REFERENCE: Malformed "metatensor/reference"
        "A reference has the fields of its node in the schema, with values of their types.";
    /// A member that is missing or not allowed.
    pub MEMBERS: Malformed "metatensor/members"
        "An object of references has the members that the schema requires, and no others where the schema forbids them.";
    /// A plain value that the schema does not allow.
    pub VALUE: Malformed "metatensor/value"
        "Plain values among the tensors fit the schema.";
    /// An element type that differs from the schema's.
    pub DTYPE: Malformed "metatensor/dtype"
        "The dtype of a reference is one that safetensors has, and the schema's if the schema names one.";
    /// A shape that differs from the schema's.
    pub SHAPE: Malformed "metatensor/shape"
        "The shape of a reference is the schema's, if the schema names one.";
    /// A symbol with two values.
    pub SYMBOL: Malformed "metatensor/symbol"
        "A symbol in the shapes of a schema has the same value throughout a file.";
    /// A range of the wrong length.
    pub SIZE: Malformed "metatensor/size"
        "`data_offsets` span exactly the bytes that dtype and shape, or count and schema, require.";
    /// Too few or too many elements.
    pub COUNT: Malformed "metatensor/count"
        "A dataset, or an array of references, has as many elements as `minItems` and `maxItems` \
         say.";
    /// `data_offsets` is not a range.
    pub OFFSETS: Malformed "metatensor/offsets"
        "`data_offsets` is two numbers, a start and an end that is not before the start.";
    /// A range that ends too far away for any file.
    pub BOUNDS: Malformed "metatensor/bounds"
        "Every range ends below 2^63, counted from the start of the file.";
    /// A range that is not aligned.
    pub ALIGN: Malformed "metatensor/align"
        "Every range starts at a multiple of the alignment of what it holds.";
    /// More bytes between two ranges than alignment needs.
    pub GAP: Malformed "metatensor/gap"
        "A gap before a range is shorter than the alignment of that range.";
    /// Non-zero bytes in a gap.
    pub GAP_BYTES: Malformed "metatensor/gap-bytes" "The bytes of a gap are zero.";
    /// The file has bytes after its last range.
    pub TRAILING_DATA: Malformed "metatensor/trailing-data"
        "The file ends where its last range ends.";
    /// The file ends before its last range does.
    pub TRUNCATED: Malformed "metatensor/truncated"
        "The file has all the bytes that its header describes."
        hint "the file was cut short, perhaps by a download that broke off: get it again"
        remedies [Salvage];
    /// A layout that the format lacks.
    pub LAYOUT: Unsupported "metatensor/layout"
        "Metatensor holds dense tensors, records and blobs."
        remedies [MakeDense];
    /// A tensor with other components than its layout has.
    pub COMPONENTS: Unsupported "metatensor/components"
        "A tensor in Metatensor has the components of its layout and no others."
        remedies [LeaveOut];
    /// A logical type that the format lacks.
    pub LOGICAL_TYPE: Unsupported "metatensor/logical-type"
        "A tensor's logical type is one that safetensors has a name for."
        remedies [DropLogicalTypes];
    /// Records or a blob without a schema.
    pub KIND: Unsupported "metatensor/kind"
        "Records and blobs have the attribute `metatensor.kind`: the JSON text of a schema that fits their bytes.";
    /// An attribute of Holdall's with invalid content.
    pub ATTRIBUTE: Unsupported "metatensor/attribute"
        "The attribute `metatensor.schema` is the JSON text of a schema, and `metatensor.values` the JSON text of an object that maps paths, other than those of tensors, to values."
        remedies [DropAttributes];
    /// Tensors that the schema among the attributes does not describe.
    pub SCHEMA_FIT: Unsupported "metatensor/schema-fit"
        "Tensors are written as the schema in the file's attributes says, if it has one."
        remedies [InferSchema];
    /// Compressed bytes, or bytes with a digest.
    pub ENCODING: Unsupported "metatensor/encoding"
        "Data in Metatensor is raw and carries no digest."
        remedies [StoreRaw];
    /// An alignment that cannot be written.
    pub WRITE_ALIGN: Misuse "metatensor/write-align"
        "An alignment is a power of two, at most 65536.";
    /// The bytes written differ from those declared.
    pub DECLARED: Misuse "metatensor/declared"
        "The tensors written match those declared: unique names, these sizes, in this order, nothing missing.";
}
