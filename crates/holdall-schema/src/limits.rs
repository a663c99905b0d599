//! Limits for the work that a schema can cause.

/// Limits for the work that a schema can cause. Values that exceed what the program supports are reduced.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// Largest number of nodes of a schema, and of paths that one operation on it visits.
    pub nodes: u64,
    /// Largest nesting depth of a schema and of JSON.
    pub depth: usize,
    /// Largest number of heap bytes that the entries of one record refer to. Shared bytes count each time.
    pub decoded_len: u64,
}

/// Types are walked recursively, so no limit allows deeper nesting than this.
const MAX_DEPTH: usize = 256;

impl SchemaLimits {
    /// Sets the largest number of nodes.
    pub fn with_nodes(mut self, nodes: u64) -> SchemaLimits {
        self.nodes = nodes;
        self
    }

    /// Sets the largest nesting depth.
    pub fn with_depth(mut self, depth: usize) -> SchemaLimits {
        self.depth = depth;
        self
    }

    /// Sets the largest number of heap bytes of one record.
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
