//! Every rule of the format, and the codes of its warnings.

use crate::error::{Kind, Rule};
use crate::wire::cbor;

/// Rules of zTensor, CBOR's included.
pub static RULES: &[&Rule] = &[
    &UNSUPPORTED_CONTAINER,
    &TOO_SHORT,
    &MANIFEST_BOUNDS,
    &EMPTY_MANIFEST,
    &MANIFEST_LEN,
    &CONTAINER,
    &MISSING_FIELD,
    &VERSION_SYNTAX,
    &UNSUPPORTED_VERSION,
    &UNKNOWN_DTYPE,
    &UNKNOWN_ENCODING,
    &UNKNOWN_BYTE_ORDER,
    &DIGEST,
    &UNCOMPRESSED_LENGTH,
    &INDEX_DTYPE,
    &LAYOUT,
    &LOGICAL_TYPE,
    &FILE_ATTRIBUTES,
    &TENSOR_ATTRIBUTES,
    &RESERVED_FIELD,
    &ONE_DTYPE,
    &WIDE_INDICES,
    &COMPONENTS,
    &ALIGN,
    &DECLARED,
    &cbor::TRUNCATED,
    &cbor::RESERVED,
    &cbor::BREAK,
    &cbor::UTF8,
    &cbor::COUNT,
    &cbor::DEPTH,
    &cbor::TOO_MANY_VALUES,
    &cbor::ITEM_KIND,
    &cbor::TAGGED,
    &cbor::INDEFINITE_STRING,
    &cbor::KEY,
    &cbor::DUPLICATE_KEY,
    &cbor::TRAILING,
    &cbor::NOT_CBOR,
];

/// A container of a generation this version does not read.
pub static UNSUPPORTED_CONTAINER: Rule = Rule::new(
    "ztensor/unsupported-container",
    Kind::Unsupported,
    "The file starts with `ZTEN0001` (zTensor 0.1) or `ZTEN1000` (1.0 to 1.2).",
);
/// Too short for a footer.
pub static TOO_SHORT: Rule = Rule::new(
    "ztensor/too-short",
    Kind::Malformed,
    "A file holds a magic number, a manifest and a footer: at least 17 bytes, or 25 where it ends in \
     a magic number.",
)
.with_hint("the file was cut short: fetch or write it again");
/// A manifest that does not fit in the file.
pub static MANIFEST_BOUNDS: Rule = Rule::new(
    "ztensor/manifest-bounds",
    Kind::Malformed,
    "The manifest lies between the magic number and the footer.",
)
.with_hint("the file was cut short or its end overwritten: fetch or write it again");
/// A manifest of no bytes.
pub static EMPTY_MANIFEST: Rule = Rule::new(
    "ztensor/empty-manifest",
    Kind::Malformed,
    "The manifest has at least one byte, in a file without tensors too.",
);
/// A manifest over the limit.
pub static MANIFEST_LEN: Rule = Rule::new(
    "ztensor/manifest-len",
    Kind::Limit,
    "The manifest has at most `Limits::manifest_len` bytes.",
);
/// Container and manifest are of different generations.
pub static CONTAINER: Rule = Rule::new(
    "ztensor/container",
    Kind::Malformed,
    "A file that ends in a magic number lists `objects` (1.1 and later); one that does not lists \
     `tensors` (1.0).",
);
/// A required field is missing.
pub static MISSING_FIELD: Rule = Rule::new(
    "ztensor/missing-field",
    Kind::Malformed,
    "The manifest, every tensor and every component have all fields that the specification requires.",
);
/// A version that is not one.
pub static VERSION_SYNTAX: Rule = Rule::new(
    "ztensor/version-syntax",
    Kind::Malformed,
    "`version` is `major.minor` or `major.minor.patch`.",
);
/// Another major version.
pub static UNSUPPORTED_VERSION: Rule = Rule::new(
    "ztensor/unsupported-version",
    Kind::Unsupported,
    "`version` names major version 1, as the magic number does.",
);
/// A dtype outside the closed set.
pub static UNKNOWN_DTYPE: Rule = Rule::new(
    "ztensor/unknown-dtype",
    Kind::Unsupported,
    "A dtype is one of the 13 storage types, in the spelling of the file's version.",
);
/// An encoding that is neither raw nor zstd.
pub static UNKNOWN_ENCODING: Rule =
    Rule::new("ztensor/unknown-encoding", Kind::Unsupported, "An encoding is `raw` or `zstd`.");
/// 0.1's `data_endianness` is neither little nor big.
pub static UNKNOWN_BYTE_ORDER: Rule = Rule::new(
    "ztensor/unknown-byte-order",
    Kind::Malformed,
    "`data_endianness` is `little` or `big`.",
);
/// A digest with a value that its algorithm cannot give.
pub static DIGEST: Rule = Rule::new(
    "ztensor/digest",
    Kind::Malformed,
    "A crc32c digest is 8 hex digits after an optional `0x`, a sha256 digest 64.",
);
/// A raw component with two lengths.
pub static UNCOMPRESSED_LENGTH: Rule = Rule::new(
    "ztensor/uncompressed-length",
    Kind::Malformed,
    "`uncompressed_length` of a raw component, if given, is its `length`.",
);
/// Sparse indices that are not integers.
pub static INDEX_DTYPE: Rule = Rule::new(
    "ztensor/index-dtype",
    Kind::Malformed,
    "`indices`, `indptr` and `coords` are u64 (other integers are read with a warning).",
);

/// A layout that the version written lacks.
pub static LAYOUT: Rule = Rule::new(
    "ztensor/layout",
    Kind::Unsupported,
    "A tensor written is of a layout that the version has: 0.1 dense or packed sparse; 1.0 dense, \
     sparse_csr, sparse_coo; 1.2 quantized_group too; 1.x any layout that is unknown.",
)
.with_hint(
    "`--dense` writes sparse and quantized tensors as dense ones; `--exclude` leaves tensors out",
);
/// A logical type that the version written lacks.
pub static LOGICAL_TYPE: Rule = Rule::new(
    "ztensor/logical-type",
    Kind::Unsupported,
    "A component written as 0.1 or 1.0 has no logical type.",
)
.with_hint(
    "`--to ztensor@1.2` keeps them; `--raw-types` writes the storage elements without logical types",
);
/// Attributes of the file that the version written cannot hold.
pub static FILE_ATTRIBUTES: Rule = Rule::new(
    "ztensor/file-attributes",
    Kind::Unsupported,
    "A file's attributes are text in 1.0, and in 0.1 there is a tensor to hold them.",
)
.with_hint("`--to ztensor@1.2` keeps them; `--drop-attributes` leaves out what cannot be kept");
/// Attributes of a tensor that the version written cannot hold.
pub static TENSOR_ATTRIBUTES: Rule = Rule::new(
    "ztensor/tensor-attributes",
    Kind::Unsupported,
    "A tensor written as 1.0 has no attributes.",
)
.with_hint("`--to ztensor@1.2` keeps them; `--drop-attributes` leaves out what cannot be kept");
/// An attribute that would stand where 0.1 has a field of its own.
pub static RESERVED_FIELD: Rule = Rule::new(
    "ztensor/reserved-field",
    Kind::Unsupported,
    "No attribute of a tensor written as 0.1 has the name of one of 0.1's fields.",
)
.with_hint("`--to ztensor@1.2` keeps them; `--drop-attributes` leaves out what cannot be kept");
/// Components of two dtypes in a version that has one dtype per tensor.
pub static ONE_DTYPE: Rule = Rule::new(
    "ztensor/one-dtype",
    Kind::Unsupported,
    "The components of a tensor written as 1.0 have one dtype, but for sparse indices, which are u64.",
)
.with_hint("`--to ztensor@1.2` keeps them; `--exclude` leaves tensors out");
/// Sparse indices to be written that are not u64.
pub static WIDE_INDICES: Rule = Rule::new(
    "ztensor/wide-indices",
    Kind::Unsupported,
    "`indices`, `indptr` and `coords` are written as u64.",
)
.with_hint(
    "`--dense` writes sparse and quantized tensors as dense ones; `--exclude` leaves tensors out",
);
/// A tensor to be written that no decoder would accept.
pub static COMPONENTS: Rule = Rule::new(
    "ztensor/components",
    Kind::Misuse,
    "A tensor written has the components of its layout, each once, and of the lengths that shape and \
     dtype give.",
);
/// An alignment that is not one.
pub static ALIGN: Rule = Rule::new(
    "ztensor/align",
    Kind::Misuse,
    "An alignment asked for is a power of two from 64 to 2097152 (2 MiB).",
);
/// The encoder was not told the truth.
pub static DECLARED: Rule = Rule::new(
    "ztensor/declared",
    Kind::Misuse,
    "What is written is what was declared: unique names, the components of a tensor one after the \
     other, all of it.",
);

/// Codes of warnings: what is odd about a file but does not make it bad.
pub mod warnings {
    /// The version is newer than the newest known, or not one of the container's generation.
    pub const VERSION: &str = "ztensor/version";
    /// An offset is not a multiple of 64.
    pub const ALIGNMENT: &str = "ztensor/alignment";
    /// A digest of an unknown algorithm, which cannot be verified.
    pub const UNKNOWN_DIGEST: &str = "ztensor/unknown-digest";
    /// Sparse indices narrower than u64.
    pub const INDEX_DTYPE: &str = "ztensor/index-dtype";
    /// A zstd component of a 1.2 file without `uncompressed_length`.
    pub const UNCOMPRESSED_LENGTH: &str = "ztensor/uncompressed-length";
    /// A 0.1 sparse component whose length does not fit its shape and dtype.
    pub const PACKED_SPARSE: &str = "ztensor/packed-sparse";
    /// A 0.1 `sparse` tensor without a `sparse_format` that is known.
    pub const SPARSE_FORMAT: &str = "ztensor/sparse-format";
    /// A byte order on a compressed 0.1 component, where it has no meaning.
    pub const BYTE_ORDER: &str = "ztensor/byte-order";
}
