//! Digests that are put together from shares, which come in any order.

use crate::error::Result;
use crate::model::{Algorithm, Component, Digest, Hasher, crc32c, crc32c_combine};
use crate::read::{DIGEST, Want};

/// Compares the digest of a component's stored bytes with the one that the file gives.
///
/// # Errors
/// [`DIGEST`].
pub fn check_digest(c: &Component, found: &Digest) -> Result<()> {
    match &c.digest {
        Some(declared) if declared != found => {
            Err(DIGEST.broken(format!("the stored bytes have {found}, the file says {declared}")))
        }
        _ => Ok(()),
    }
}

/// The digests of a component that are to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// CRC-32C, which can be put together from shares.
    pub crc32c: bool,
    /// SHA-256, which can only be computed from the first byte to the last.
    pub sha256: bool,
    /// XXH3 of the decoded bytes, which can only be computed so too.
    pub xxh3: bool,
}

impl Digests {
    /// None.
    pub const NONE: Digests = Digests { crc32c: false, sha256: false, xxh3: false };

    /// Whether any can only be computed from the first byte to the last.
    pub fn is_sequential(self) -> bool {
        self.sha256 || self.xxh3
    }

    /// Whether there is any.
    pub fn any(self) -> bool {
        self.crc32c || self.is_sequential()
    }
}

/// That algorithm, or none.
impl From<Option<Algorithm>> for Digests {
    fn from(algorithm: Option<Algorithm>) -> Digests {
        Digests {
            crc32c: algorithm == Some(Algorithm::Crc32c),
            sha256: algorithm == Some(Algorithm::Sha256),
            xxh3: algorithm == Some(Algorithm::Xxh3),
        }
    }
}

/// Shares of the digests of any number of components. Shares come in any order, also from several threads
/// that each have their own, and each byte is in one of them.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    shares: Vec<Share>,
    /// Digests of all stored bytes of a component.
    whole: Vec<(u32, Digest)>,
}

/// The CRC-32C of a run of a component's stored bytes.
#[derive(Debug, Clone)]
struct Share {
    want: u32,
    crc: u32,
    /// Counted from the start of the stored bytes.
    start: u64,
    len: u64,
}

impl Sums {
    /// Adds the CRC-32C of stored bytes of a component, of which `start` come before them.
    pub fn add(&mut self, want: u32, start: u64, bytes: &[u8]) {
        let share = Share { want, crc: crc32c(bytes), start, len: bytes.len() as u64 };
        self.shares.push(share);
    }

    /// Adds the share of `stored`, of which `start` bytes of the component come before, in the digests that `want`
    /// is to have. Whoever wants one that is sequential gives all bytes at once; XXH3 is wanted here only of raw ones.
    pub fn take(&mut self, number: u32, want: &Want, start: u64, stored: &[u8]) {
        if want.range.is_some() {
            return;
        }
        if want.digests.crc32c {
            self.add(number, start, stored);
        }
        let whole =
            [(want.digests.sha256, Algorithm::Sha256), (want.digests.xxh3, Algorithm::Xxh3)];
        for (_, algorithm) in whole.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(stored);
            self.add_whole(number, hasher.finish());
        }
    }

    /// Adds a digest of all stored bytes of a component.
    pub fn add_whole(&mut self, want: u32, digest: Digest) {
        self.whole.push((want, digest));
    }

    /// Adds what `other` has.
    pub fn join(&mut self, mut other: Sums) {
        self.shares.append(&mut other.shares);
        self.whole.append(&mut other.whole);
    }

    /// The digests of each component of which shares came, in rising order of the numbers of wants.
    pub fn finish(self) -> Vec<(u32, Digest)> {
        let Sums { mut shares, mut whole } = self;
        shares.sort_unstable_by_key(|s| (s.want, s.start));
        for of_one in shares.chunk_by(|a, b| a.want == b.want) {
            let Some((first, rest)) = of_one.split_first() else { continue };
            let crc = rest.iter().fold(first.crc, |crc, s| crc32c_combine(crc, s.crc, s.len));
            whole.push((first.want, Digest::Crc32c(crc)));
        }
        whole.sort_by_key(|(want, _)| *want);
        whole
    }
}
