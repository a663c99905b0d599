//! The file formats of this build: lookup by name, detection by content, decoding.

pub use holdall_formats::{
    ContentDigest, DecodeExternal, EMPTY, ExternalFiles, FORMATS, FindOldEnds, FindTable, Format,
    IndexLocation, NOT_BUILT, NewEncoder, OldEnd, Shards, UNKNOWN, by_name, decode, detect, table,
    with_schema, writable,
};
