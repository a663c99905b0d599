//! What can be wrong with a schema, and with what is asked of one.

use crate::error::{Kind, Rule};

/// Every rule of schemas.
pub static RULES: &[&Rule] = &[
    &KIND,
    &KEYWORD,
    &ALIGN,
    &REMOTE_REF,
    &MISSING_REF,
    &REF_SIBLINGS,
    &CYCLE,
    &SIZE_OVERFLOW,
    &TOO_LARGE,
    &DEPTH,
    &INVALID,
    &ENUM,
    &ITEMS,
    &ZERO_SIZE,
    &STRUCT,
    &UNION,
    &TENSOR,
    &OPEN_SHAPE,
    &BLOB,
    &KIND_PLACE,
    &REFERENCE_KEYWORD,
    &PATH,
    &UNKNOWN_PATH,
];

/// No kind, two of them, or one that there is not.
pub static KIND: Rule = Rule::new(
    "schema/kind",
    Kind::Malformed,
    "A node has at most one keyword that starts with `TypeDef:`; it names a kind, and has the value \
     that kind asks for.",
);
/// A standard keyword that says something else than the kind.
pub static KEYWORD: Rule = Rule::new(
    "schema/keyword",
    Kind::Malformed,
    "The standard keywords beside a kind agree with it.",
);
/// An alignment that is none.
pub static ALIGN: Rule = Rule::new(
    "schema/align",
    Kind::Malformed,
    "`align` is a power of two from 1 to 65536, or `natural`.",
);
/// A `$ref` that leads out of the schema.
pub static REMOTE_REF: Rule = Rule::new(
    "schema/remote-ref",
    Kind::Malformed,
    "A `$ref` is `#/$defs/` and a name; nothing is fetched.",
);
/// A `$ref` that leads nowhere.
pub static MISSING_REF: Rule =
    Rule::new("schema/missing-ref", Kind::Malformed, "What a `$ref` names is among `$defs`.");
/// A `$ref` among keywords that say more.
pub static REF_SIBLINGS: Rule = Rule::new(
    "schema/ref-siblings",
    Kind::Malformed,
    "Beside `$ref` there are only annotations, `$defs`, `$schema` and `$id`.",
);
/// A kind in itself.
pub static CYCLE: Rule = Rule::new(
    "schema/cycle",
    Kind::Malformed,
    "What has a kind, or leads to references, does not contain itself; a `$ref` does not lead to \
     itself.",
);
/// More bytes than 63 bits count.
pub static SIZE_OVERFLOW: Rule =
    Rule::new("schema/size-overflow", Kind::Malformed, "Sizes fit 63 bits.");
/// Over the limit of nodes.
pub static TOO_LARGE: Rule = Rule::new(
    "schema/too-large",
    Kind::Limit,
    "A schema has at most `Limits::schema_nodes` nodes, and what is asked about its paths touches no \
     more of them.",
);
/// Over the limit of nesting.
pub static DEPTH: Rule =
    Rule::new("schema/depth", Kind::Limit, "A schema nests at most `Limits::depth` levels deep.");
/// Not a JSON Schema.
pub static INVALID: Rule =
    Rule::new("schema/invalid", Kind::Malformed, "A schema is a JSON Schema of draft 2020-12.");
/// An enum without a list of different strings.
pub static ENUM: Rule =
    Rule::new("schema/enum", Kind::Malformed, "`enum` lists one or more different strings.");
/// An array of what has no kind.
pub static ITEMS: Rule =
    Rule::new("schema/items", Kind::Malformed, "The `items` of an array with a kind have a kind.");
/// Elements without bytes.
pub static ZERO_SIZE: Rule =
    Rule::new("schema/zero-size", Kind::Malformed, "The elements of an array take bytes.");
/// A struct whose lists do not fit together.
pub static STRUCT: Rule = Rule::new(
    "schema/struct",
    Kind::Malformed,
    "A struct lists each member once; each is in `properties` with a kind, and nothing else is in \
     `properties` or `required`.",
);
/// A union without variants, or with unfit ones.
pub static UNION: Rule = Rule::new(
    "schema/union",
    Kind::Malformed,
    "A union names its discriminator and has one or more structs in `mapping`, none with a member of \
     that name.",
);
/// A tensor's dtype or shape that is none.
pub static TENSOR: Rule = Rule::new(
    "schema/tensor",
    Kind::Malformed,
    "A tensor's `dtype` is one of safetensors, its `shape` an array of counts, `null` and names of \
     symbols; in a record its elements fill whole bytes.",
);
/// A tensor in a record of unknown size.
pub static OPEN_SHAPE: Rule = Rule::new(
    "schema/open-shape",
    Kind::Malformed,
    "The dtype and shape of a tensor in a record are known, from the schema or from symbols.",
);
/// A blob of unknown content.
pub static BLOB: Rule = Rule::new(
    "schema/blob",
    Kind::Malformed,
    "The `content` of a blob is `utf-8`, `bytes`, `json` or a dtype of whole bytes.",
);
/// A kind that cannot stand there.
pub static KIND_PLACE: Rule =
    Rule::new("schema/kind-place", Kind::Malformed, "A blob is a reference, not part of a record.");
/// A condition on the way to references.
pub static REFERENCE_KEYWORD: Rule = Rule::new(
    "schema/reference-keyword",
    Kind::Malformed,
    "On the way to references, nodes without a kind have only the keywords of section 6.2.",
);
/// Not a path.
pub static PATH: Rule = Rule::new(
    "schema/path",
    Kind::Misuse,
    "A path is names with a dot between them and `[i]`, with `\\` before `.`, `[` and `\\` in names.",
);
/// A path that leads nowhere.
pub static UNKNOWN_PATH: Rule =
    Rule::new("schema/unknown-path", Kind::NotFound, "A path leads to something the schema has.");
