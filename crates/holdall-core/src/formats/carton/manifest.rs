//! `MANIFEST`: the path and the SHA-256 of every file.

/// The rows of a `MANIFEST`, in the order of the bytes of their paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Path and SHA-256 of each file but `MANIFEST` and `LINKS`.
    pub rows: Vec<(String, [u8; 32])>,
}
