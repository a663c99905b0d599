//! Which digests are checked on reading.

/// Which digests are checked when whole components are read.
///
/// Bytes that are only borrowed from a map are not touched by handing them out, so they are checked only
/// under [`Check::All`]; parts of components cannot be checked at all. A file inside a package is checked against its SHA-256 as a whole when it is opened
/// under [`Check::All`], and not under the others. A verification checks everything whatever was chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// None.
    Off,
    /// Those that cost next to nothing: CRC-32C.
    Fast,
    /// All that this version can compute, SHA-256 too.
    #[default]
    Read,
    /// The same, of bytes that are only borrowed as well.
    All,
}
