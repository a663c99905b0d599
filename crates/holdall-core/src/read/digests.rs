//! Digests that are combined from shares, which come in any order.

use crate::codec::crc::Crc32;
use crate::error::Result;
use crate::model::{
    Algorithm, Component, Digest, Encoding, Hasher, crc32_combine, crc32c, crc32c_combine,
};
use crate::read::{DIGEST, Want};
use holdall_collections::sort_by;

/// Compares the digest of a component's stored bytes with the one in the file.
///
/// # Errors
/// Returns [`DIGEST`] if they differ.
pub fn check_digest(c: &Component, found: &Digest) -> Result<()> {
    match &c.digest {
        Some(declared) if declared != found => Err(DIGEST
            .broken(format!("the digest of the stored bytes is {found}, expected {declared}"))),
        _ => Ok(()),
    }
}

/// Compares the CRC-32 of a component's decoded bytes, before bytes are swapped, with the one in the file.
///
/// # Errors
/// Returns [`DIGEST`] if they differ.
pub(super) fn check_decoded(c: &Component, found: u32) -> Result<()> {
    match c.decoded_crc() {
        Some(expected) if expected != found => Err(DIGEST.broken(format!(
            "the digest of the decoded bytes is {}, expected {}",
            Digest::Crc32(found),
            Digest::Crc32(expected)
        ))),
        _ => Ok(()),
    }
}

impl Component {
    /// Returns the CRC-32 of the decoded bytes, if the component is compressed and the file has one.
    pub fn decoded_crc(&self) -> Option<u32> {
        match self.digest {
            Some(Digest::Crc32(expected)) if self.encoding != Encoding::Raw => Some(expected),
            _ => None,
        }
    }

    /// Returns the algorithm of the digest of the stored bytes, if this version can compute it. The CRC-32 of a
    /// compressed component is over the decoded bytes, and is compared whenever the whole component is decoded.
    pub fn stored_digest_algorithm(&self) -> Option<Algorithm> {
        let is_of_stored = |a: &Algorithm| self.encoding == Encoding::Raw || *a != Algorithm::Crc32;
        self.digest.as_ref()?.algorithm().filter(is_of_stored)
    }
}

/// The digests of a component to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// CRC-32C, which can be combined from shares.
    pub crc32c: bool,
    /// CRC-32, which can be combined from shares.
    pub crc32: bool,
    /// SHA-256, which must be computed from the first byte to the last.
    pub sha256: bool,
    /// XXH3 of the decoded bytes, which must be computed from the first byte to the last.
    pub xxh3: bool,
    /// SHA-256 of the decoded bytes, which must be computed from the first byte to the last.
    pub sha256_decoded: bool,
}

impl Digests {
    /// No digests.
    pub const NONE: Digests =
        Digests { crc32c: false, crc32: false, sha256: false, xxh3: false, sha256_decoded: false };

    /// Returns `true` if any digest must be computed from the first byte to the last.
    pub fn is_sequential(self) -> bool {
        self.sha256 || self.covers_decoded_bytes()
    }

    /// Returns `true` if any digest is over the decoded bytes.
    pub fn covers_decoded_bytes(self) -> bool {
        self.xxh3 || self.sha256_decoded
    }

    /// Returns `true` if any digest is to be computed.
    pub fn any(self) -> bool {
        self.in_shares() || self.is_sequential()
    }

    /// Returns `true` if any digest can be combined from shares.
    pub fn in_shares(self) -> bool {
        self.crc32c || self.crc32
    }
}

/// Selects this algorithm, or none.
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

/// Shares of the digests of any number of components. Shares may be added in any order. Several threads may each
/// collect their own shares. Each byte must be in exactly one share.
#[derive(Debug, Clone, Default)]
pub struct DigestCollector {
    shares: Vec<Share>,
    /// Digests of all stored bytes of a component.
    whole: Vec<(u32, Digest)>,
}

/// The CRC of a run of a component's stored bytes.
#[derive(Debug, Clone)]
struct Share {
    want: u32,
    /// Whether the CRC is CRC-32 instead of CRC-32C.
    is_zip: bool,
    crc: u32,
    /// Offset from the start of the component's stored bytes.
    start: u64,
    len: u64,
}

impl DigestCollector {
    /// Adds the CRC-32C, or the CRC-32, of stored bytes of a component that start at its byte `start`.
    fn add(&mut self, want: u32, is_zip: bool, start: u64, bytes: &[u8]) {
        let crc = if is_zip { Crc32::zip_crc32(bytes) } else { crc32c(bytes) };
        self.shares.push(Share { want, is_zip, crc, start, len: bytes.len() as u64 });
    }

    /// Adds the share of `stored`, which start at byte `start` of the component, to the digests that `want` requests.
    /// If one of them is sequential, `stored` must be the whole component. Digests of decoded bytes are only supported
    /// for raw components here.
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

    /// Adds the shares of `other`.
    pub fn join(&mut self, mut other: DigestCollector) {
        self.shares.append(&mut other.shares);
        self.whole.append(&mut other.whole);
    }

    /// Removes and returns the digest of one component, all of whose shares were added.
    pub fn take_digest(&mut self, want: u32) -> Option<Digest> {
        let is_own = |number: u32| number == want;
        let shares = self.shares.extract_if(.., |s| is_own(s.want)).collect();
        let whole = self.whole.extract_if(.., |(number, _)| is_own(*number)).collect();
        DigestCollector { shares, whole }.finish().pop().map(|(_, digest)| digest)
    }

    /// Returns the digest of each component whose shares were added, sorted by index of the want.
    pub fn finish(self) -> Vec<(u32, Digest)> {
        let DigestCollector { mut shares, mut whole } = self;
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
