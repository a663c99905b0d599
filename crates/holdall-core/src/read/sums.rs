//! Digests that are put together from shares, which come in any order.

use crate::codec::crc::Crc32;
use crate::error::Result;
use crate::model::{
    Algorithm, Component, Digest, Encoding, Hasher, crc32_combine, crc32c, crc32c_combine,
};
use crate::read::{DIGEST, Want};
use holdall_collections::sort_by;

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

/// Compares what a component decoded to, before its bytes are turned round, with the CRC-32 that the file gives of that.
///
/// # Errors
/// [`DIGEST`].
pub(super) fn check_decoded(c: &Component, found: u32) -> Result<()> {
    match c.decoded_crc() {
        Some(said) if said != found => Err(DIGEST.broken(format!(
            "the decoded bytes have {}, the file says {}",
            Digest::Crc32(found),
            Digest::Crc32(said)
        ))),
        _ => Ok(()),
    }
}

impl Component {
    /// The CRC-32 of what it decodes to, where it is compressed and the file tells that.
    pub fn decoded_crc(&self) -> Option<u32> {
        match self.digest {
            Some(Digest::Crc32(said)) if self.encoding != Encoding::Raw => Some(said),
            _ => None,
        }
    }

    /// The algorithm of the digest that it has of its stored bytes, where it is one this version can compute. A CRC-32 of
    /// what is compressed is of what that decodes to, and compared wherever all of it is decoded.
    pub fn summed_by(&self) -> Option<Algorithm> {
        let is_of_stored = |a: &Algorithm| self.encoding == Encoding::Raw || *a != Algorithm::Crc32;
        self.digest.as_ref()?.algorithm().filter(is_of_stored)
    }
}

/// The digests of a component that are to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// CRC-32C, which can be put together from shares.
    pub crc32c: bool,
    /// CRC-32, the same.
    pub crc32: bool,
    /// SHA-256, which can only be computed from the first byte to the last.
    pub sha256: bool,
    /// XXH3 of the decoded bytes, which can only be computed so too.
    pub xxh3: bool,
    /// SHA-256 of the decoded bytes, the same.
    pub sha256_decoded: bool,
}

impl Digests {
    /// None.
    pub const NONE: Digests =
        Digests { crc32c: false, crc32: false, sha256: false, xxh3: false, sha256_decoded: false };

    /// Whether any can only be computed from the first byte to the last.
    pub fn is_sequential(self) -> bool {
        self.sha256 || self.is_of_decoded()
    }

    /// Whether any is computed of the decoded bytes where those are not the stored ones.
    pub fn is_of_decoded(self) -> bool {
        self.xxh3 || self.sha256_decoded
    }

    /// Whether there is any.
    pub fn any(self) -> bool {
        self.in_shares() || self.is_sequential()
    }

    /// Whether there is one that can be put together from shares.
    pub fn in_shares(self) -> bool {
        self.crc32c || self.crc32
    }
}

/// That algorithm, or none.
impl From<Option<Algorithm>> for Digests {
    fn from(algorithm: Option<Algorithm>) -> Digests {
        Digests {
            crc32c: algorithm == Some(Algorithm::Crc32c),
            crc32: algorithm == Some(Algorithm::Crc32),
            sha256: algorithm == Some(Algorithm::Sha256),
            xxh3: algorithm == Some(Algorithm::Xxh3),
            sha256_decoded: algorithm == Some(Algorithm::Sha256Decoded),
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

/// The CRC of a run of a component's stored bytes.
#[derive(Debug, Clone)]
struct Share {
    want: u32,
    /// Whether it is CRC-32, not CRC-32C.
    is_zip: bool,
    crc: u32,
    /// Counted from the start of the stored bytes.
    start: u64,
    len: u64,
}

impl Sums {
    /// Adds the CRC-32C of stored bytes of a component, of which `start` come before them, or their CRC-32.
    fn add(&mut self, want: u32, is_zip: bool, start: u64, bytes: &[u8]) {
        let crc = if is_zip { Crc32::of_zip(bytes) } else { crc32c(bytes) };
        self.shares.push(Share { want, is_zip, crc, start, len: bytes.len() as u64 });
    }

    /// Adds the share of `stored`, of which `start` bytes of the component come before, in the digests that `want`
    /// is to have. Whoever wants one that is sequential gives all bytes at once; one of decoded bytes is wanted here only of raw ones.
    pub fn take(&mut self, number: u32, want: &Want, start: u64, stored: &[u8]) {
        if want.range.is_some() {
            return;
        }
        if want.digests.crc32c {
            self.add(number, false, start, stored);
        }
        if want.digests.crc32 {
            self.add(number, true, start, stored);
        }
        let whole = [
            (want.digests.sha256, Algorithm::Sha256),
            (want.digests.xxh3, Algorithm::Xxh3),
            (want.digests.sha256_decoded, Algorithm::Sha256Decoded),
        ];
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

    /// Takes out the digest of one component, of which all shares came.
    pub fn take_digest(&mut self, want: u32) -> Option<Digest> {
        let is_own = |number: u32| number == want;
        let shares = self.shares.extract_if(.., |s| is_own(s.want)).collect();
        let whole = self.whole.extract_if(.., |(number, _)| is_own(*number)).collect();
        Sums { shares, whole }.finish().pop().map(|(_, digest)| digest)
    }

    /// The digests of each component of which shares came, in rising order of the numbers of wants.
    pub fn finish(self) -> Vec<(u32, Digest)> {
        let Sums { mut shares, mut whole } = self;
        let key = |s: &Share| (s.want, s.is_zip, s.start);
        sort_by(&mut shares, |a, b| key(a).cmp(&key(b)));
        for of_one in shares.chunk_by(|a, b| (a.want, a.is_zip) == (b.want, b.is_zip)) {
            let Some((first, rest)) = of_one.split_first() else { continue };
            let combine = if first.is_zip { crc32_combine } else { crc32c_combine };
            let crc = rest.iter().fold(first.crc, |crc, s| combine(crc, s.crc, s.len));
            let digest = if first.is_zip { Digest::Crc32(crc) } else { Digest::Crc32c(crc) };
            whole.push((first.want, digest));
        }
        sort_by(&mut whole, |(a, _), (b, _)| a.cmp(b));
        whole
    }
}
