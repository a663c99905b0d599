//! The file formats of this build: looked up by name, recognised in bytes, decoded.

pub use holdall_formats::{
    ContentDigest, DecodeExternal, EMPTY, ExternalFiles, FORMATS, FindOldEnds, FindTable, Format,
    IndexLocation, NOT_BUILT, NewEncoder, OldEnd, Shards, UNKNOWN, by_name, decode, detect, table,
    with_schema, writable,
};
