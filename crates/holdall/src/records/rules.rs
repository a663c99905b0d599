//! What can be wrong with datasets and blobs, apart from their records.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// No schema of the records.
    pub KIND: Malformed "records/kind"
        "A tensor of the layout `records` or `blob` has the attribute `metatensor.kind`: the JSON \
         text of its schema.";
    /// Components that do not fit their count.
    pub SIZE: Malformed "records/size"
        "A dataset and a blob have one dimension, and as many bytes as so many records or entries \
         take.";
    /// A heap too many, or none.
    pub HEAP: Malformed "records/heap"
        "A dataset has the component `blob_data` where its records have entries, and only there.";
    /// A place that there is not.
    pub INDEX: Misuse "records/index"
        "A record, and an entry of a blob, is asked for by a place from 0 to their number.";
    /// A buffer of another length.
    pub BUFFER: Misuse "records/buffer"
        "A buffer for a column has as many elements as there are records asked for.";
    /// A blob read as what it is not.
    pub CONTENT: Misuse "records/content" "The runs of a blob are read as its content.";
    /// A path under which the schema has something else.
    pub NODE: NotFound "records/node"
        "A dataset, and a blob, is written under a path at which the file's schema has one.";
    /// Records of two kinds in one dataset.
    pub OTHER_KIND: Misuse "records/other-kind"
        "Records that are copied into a dataset have its kind."
        hint "go by JSON: `to_value` of the one, `value` of the other";
    /// A line of JSON without end.
    pub LINE: Limit "records/line" "A line of JSON has at most 64 MiB.";
    /// A Rust struct that is no mirror of the records.
    pub DERIVE: Misuse "records/derive"
        "A Rust type that records are read as has its fields where the schema has the members, of \
         the same size and kind.";
}
