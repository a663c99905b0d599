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
