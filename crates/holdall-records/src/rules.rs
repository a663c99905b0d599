//! Rules about datasets and blobs, except for the contents of records.

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// An index that is out of range.
    pub INDEX: Misuse "records/index"
        "The index of a record, or of an entry of a blob, is at least 0 and less than the number of records or entries.";
    /// A buffer of the wrong length.
    pub BUFFER: Misuse "records/buffer"
        "A buffer for a column, or for bytes of records, has room for exactly the requested records, and the bytes lie in a record.";
    /// A blob read or written as another content type.
    pub CONTENT: Misuse "records/content" "The entries of a blob are written and read as its content type.";
    /// A new blob without a content type.
    pub WHICH_CONTENT: Misuse "records/which-content"
        "The entries of a new blob are `utf-8`, `json`, `bytes` or elements of a type, as the schema or the caller says.";
    /// A path at which the schema has something else.
    pub NODE: NotFound "records/node"
        "A dataset or blob is written at a path where the file's schema has a dataset or blob.";
    /// Records of different kinds in one dataset.
    pub OTHER_KIND: Misuse "records/other-kind"
        "Records that are copied into a dataset have its kind."
        hint "convert through JSON: read with `to_value`, write with `value`";
    /// A line of JSON that is too long.
    pub LINE: Limit "records/line" "A JSON line has at most 64 MiB.";
    /// A Rust struct with another memory layout than the records.
    pub DERIVE: Misuse "records/derive"
        "A Rust type for records has its fields where the schema has the members, with the same sizes and kinds.";
    /// An invalid condition.
    pub CONDITION: Misuse "records/condition"
        "A condition names a member and compares it with a value of the member's kind, or with another member that it can be compared with.";
    /// An invalid aggregate.
    pub AGGREGATE: Misuse "records/aggregate"
        "An aggregate is count, sum, min, max, mean or std of a member of the right kind: `mean(stars)`.";
    /// A member that cannot be exported as files or give them names.
    pub FILE_MEMBER: Misuse "records/file-member"
        "Members of bytes or text can be exported as files, which can be named after text, enums and numbers.";
    /// Values to sort or count by that take too much memory.
    pub SORTED: Limit "records/sorted"
        "The values that records are sorted or counted by take at most `Limits::decoded_len` bytes."
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
    /// No rows to infer a schema from.
    pub NO_RECORDS: Misuse "infer/no-records"
        "A schema is inferred from at least one record.";
    /// An invalid table.
    pub TABLE: Misuse "input/table"
        "The first line of a table names each column once, every line has as many fields, and quotes enclose whole fields.";
    /// A table in a build without the feature `tables`.
    pub NO_TABLES: Unsupported "records/no-tables"
        "Tables of records (CSV, TSV) are read by builds with the feature `tables`.";
    /// A Parquet or Arrow file in a build without the feature `parquet`.
    pub NO_PARQUET: Unsupported "records/no-parquet"
        "Parquet and Arrow files are read and written by builds with the feature `parquet`."
        hint "build with the feature `parquet`, or use the Python package, which reads and writes them with pyarrow";
    /// A damaged Parquet or Arrow file.
    pub COLUMNS: Malformed "input/columns"
        "A Parquet or Arrow file is complete, and its footer, pages and messages describe its contents."
        hint "get the file again, or check it with the program that wrote it";
    /// A Parquet or Arrow file that needs too much memory.
    pub COLUMNS_LIMIT: Limit "input/columns-limit"
        "The part of a Parquet or Arrow file that must be in memory at once takes at most `Limits::decoded_len` bytes, or `Limits::expansion` times its stored length."
        hint "write the file with smaller row groups or batches"
        remedies [RaiseLimit { limit: "decoded_len", at_least: None }];
    /// A Parquet or Arrow file with a feature that is not supported.
    pub COLUMNS_UNSUPPORTED: Unsupported "input/columns-unsupported"
        "A Parquet file is not encrypted, and is uncompressed or compressed with Snappy, zstd or LZ4; an Arrow file is little-endian IPC."
        hint "write the file again, with Snappy or zstd";
    /// An Arrow column whose type does not fit its member.
    pub ARROW: Misuse "records/arrow"
        "An Arrow column has the type of its member, or an equivalent one. A member that becomes a column has a kind that Arrow has a type for."
        hint "cast the column, or leave it out";
    /// A JSON array that is too long.
    pub ARRAY_LEN: Limit "records/array-len"
        "A JSON array of records, which is read into memory, is no longer than allowed."
        hint "write one record on each line instead: lines are read one after the other";
    /// An invalid file name, or one that leads out of its folder.
    pub FILE_NAME: Misuse "build/file-name"
        "A member that is a file names a file inside the folder: a relative path in UTF-8 without `..`.";
    /// A dataset or blob that was begun, but neither added nor discarded.
    pub NOT_ADDED: Misuse "build/not-added"
        "Every dataset and blob that is begun for a file is added to it, or discarded, before the file is finished."
        hint "add each dataset and blob when it is filled, or discard it";
    /// A build without the format Metatensor, which compares tensors with a schema.
    pub NO_METATENSOR: Unsupported "records/no-metatensor"
        "Tensors are compared with a schema, or get one, only in builds with the feature `metatensor`.";
    /// A tensor without a known decoded length.
    pub UNKNOWN_LEN: Unsupported "records/unknown-len"
        "A tensor that is compared with a schema has a known decoded length.";
    /// The text of a schema is too long.
    pub SCHEMA_LEN: Limit "input/schema-len"
        "The text of a schema is no longer than the header of a file may be."
        remedies [RaiseLimit { limit: "header_len", at_least: None }];
}

pub use holdall_schema::rules::WHICH_DATASET;
