//! What can be wrong with datasets and blobs, apart from their records.

use holdall_core::{Kind, Rule};

/// No schema of the records.
pub static KIND: Rule = Rule::new(
    "records/kind",
    Kind::Malformed,
    "A tensor of the layout `records` or `blob` has the attribute `metatensor.kind`: the JSON text of its \
     schema.",
);
/// Components that do not fit their count.
pub static SIZE: Rule = Rule::new(
    "records/size",
    Kind::Malformed,
    "A dataset and a blob have one dimension, and as many bytes as so many records or entries take.",
);
/// A heap too many, or none.
pub static HEAP: Rule = Rule::new(
    "records/heap",
    Kind::Malformed,
    "A dataset has the component `blob_data` where its records have entries, and only there.",
);
/// A place that there is not.
pub static INDEX: Rule = Rule::new(
    "records/index",
    Kind::Misuse,
    "A record, and an entry of a blob, is asked for by a place from 0 to their number.",
);
/// A buffer of another length.
pub static BUFFER: Rule = Rule::new(
    "records/buffer",
    Kind::Misuse,
    "A buffer for a column has as many elements as there are records asked for.",
);
/// A blob read as what it is not.
pub static CONTENT: Rule =
    Rule::new("records/content", Kind::Misuse, "The runs of a blob are read as its content.");
/// A path under which the schema has something else.
pub static NODE: Rule = Rule::new(
    "records/node",
    Kind::NotFound,
    "A dataset, and a blob, is written under a path at which the file's schema has one.",
);
/// Records of two kinds in one dataset.
pub static OTHER_KIND: Rule = Rule::new(
    "records/other-kind",
    Kind::Misuse,
    "Records that are copied into a dataset have its kind.",
)
.with_hint("go by JSON: `to_value` of the one, `value` of the other");
/// A line of JSON without end.
pub static LINE: Rule =
    Rule::new("records/line", Kind::Limit, "A line of JSON has at most 64 MiB.");
/// A Rust struct that is no mirror of the records.
pub static DERIVE: Rule = Rule::new(
    "records/derive",
    Kind::Misuse,
    "A Rust type that records are read as has its fields where the schema has the members, of the same \
     size and kind.",
);
