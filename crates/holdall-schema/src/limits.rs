//! What a schema may ask of this process.

/// The most that a schema may ask. Numbers above what a program can bear are taken as less.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// Nodes of a schema; paths that one question about it may touch.
    pub nodes: u64,
    /// Levels of nesting, of a schema and of JSON.
    pub depth: usize,
    /// Bytes of a heap that the entries of one record may stand for, shared ones counted each time.
    pub decoded_len: u64,
}

/// Types are walked recursively: no limit lets them nest deeper.
const MAX_DEPTH: usize = 256;

impl SchemaLimits {
    /// Limits with that many nodes.
    pub fn with_nodes(mut self, nodes: u64) -> SchemaLimits {
        self.nodes = nodes;
        self
    }

    /// Limits with that many levels of nesting.
    pub fn with_depth(mut self, depth: usize) -> SchemaLimits {
        self.depth = depth;
        self
    }

    /// Limits with that many bytes of one record's heap.
    pub fn with_decoded_len(mut self, bytes: u64) -> SchemaLimits {
        self.decoded_len = bytes;
        self
    }

    pub(crate) fn json_depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn max_nodes(&self) -> u64 {
        self.nodes.min(u64::from(u32::MAX >> 1))
    }

    pub(crate) fn max_depth(&self) -> usize {
        self.depth.min(MAX_DEPTH)
    }
}

impl Default for SchemaLimits {
    fn default() -> SchemaLimits {
        SchemaLimits { nodes: 1 << 20, depth: 64, decoded_len: 4 << 30 }
    }
}
