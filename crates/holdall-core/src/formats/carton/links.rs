//! `LINKS`: where files that are not in the package can be fetched.

/// The contents of `LINKS`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// SHA-256 of a file, and the addresses it may be fetched from, in the file's order.
    pub urls: Vec<([u8; 32], Vec<String>)>,
}
