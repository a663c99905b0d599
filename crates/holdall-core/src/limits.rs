//! Every cap in one struct. Nothing is decoded or decompressed without it.

use holdall_schema::SchemaLimits;

/// The most that a file may ask of this process. Numbers in a file are checked against these before
/// anything is allocated or decompressed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a zTensor manifest (the specification's own cap).
    pub manifest_len: u64,
    /// Bytes of a safetensors or Metatensor header (the formats' own cap), or of a zip's directory. Also those of
    /// elements that an ONNX model has in fields of numbers.
    pub header_len: u64,
    /// Bytes of each text in a package: a carton's `carton.toml`, `MANIFEST`, `LINKS` and
    /// `tensor_data/index.toml`. Also those of a description of layouts.
    pub text_len: u64,
    /// Entries of a zip, or files of a package.
    pub files: u64,
    /// Tensors in one file.
    pub tensors: u64,
    /// Dimensions of one tensor.
    pub rank: usize,
    /// Nesting of maps and arrays in a manifest, header or attribute value.
    pub depth: usize,
    /// Nodes of a Metatensor schema; paths that one question about it may touch.
    pub schema_nodes: u64,
    /// Values in all the attributes of one file; keys, items of arrays and entries of maps count too.
    pub attribute_values: u64,
    /// Bytes that compressed components may decode to (each, and all that are loaded at once)
    /// whatever they store. Also the most bytes of a dense copy of a sparse or quantized tensor.
    pub decoded_len: u64,
    /// Beyond `decoded_len`, compressed components may decode to this many times what they store.
    pub expansion: u64,
    /// Bytes of one file that is fetched over a network, as they are sent: a file of a model, as a rule.
    pub fetched_len: u64,
    /// Base-2 logarithm of the largest window a zstd frame may ask for. Level 22 asks for 27.
    pub zstd_window_log: u32,
    /// Whether a file may have more or less data than its header describes: a tensor of which bytes are missing has a
    /// [fault](crate::TensorInfo::fault) then. For taking what is sound out of a damaged file.
    pub salvage: bool,
    /// Whether values of a pickle that are not in the list of what is known are left out. Without it they are refused.
    pub skip_unknown: bool,
}

impl Limits {
    /// The part of them that is about schemas and records.
    pub fn of_schemas(&self) -> SchemaLimits {
        SchemaLimits::default()
            .with_nodes(self.schema_nodes)
            .with_depth(self.depth)
            .with_decoded_len(self.decoded_len)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            manifest_len: 1 << 30,
            header_len: 100_000_000,
            text_len: 8 << 20,
            files: 1 << 20,
            tensors: 1 << 24,
            rank: 64,
            depth: 128,
            schema_nodes: 1 << 20,
            attribute_values: 1 << 22,
            decoded_len: 4 << 30,
            expansion: 64,
            fetched_len: 64 << 30,
            zstd_window_log: 27,
            salvage: false,
            skip_unknown: false,
        }
    }
}
