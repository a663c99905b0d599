//! Limits that keep a small file from using more than a few MiB.

use holdall::Limits;

/// The maximum decoded length of anything.
pub(crate) const DECODED_LEN: u64 = 4 << 20;

pub(crate) fn tight() -> Limits {
    let mut limits = Limits::default();
    limits.manifest_len = 1 << 20;
    limits.header_len = 1 << 20;
    limits.text_len = 1 << 18;
    limits.files = 4096;
    limits.tensors = 4096;
    limits.rank = 16;
    limits.depth = 32;
    limits.schema_nodes = 1 << 12;
    limits.attribute_values = 1 << 14;
    limits.decoded_len = DECODED_LEN;
    limits.expansion = 16;
    limits.zstd_window_log = 20;
    limits
}
