//! Digests over stored bytes: CRC-32C and SHA-256.

use sha2::Digest as _;
use std::fmt;
use std::sync::Arc;

/// A digest algorithm that this version can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// CRC-32C (Castagnoli): catches accidents, not adversaries.
    Crc32c,
    /// SHA-256.
    Sha256,
}

impl Algorithm {
    /// `crc32c` or `sha256`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Crc32c => "crc32c",
            Algorithm::Sha256 => "sha256",
        }
    }
}

/// An algorithm's name and its value over a component's stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Digest {
    /// CRC-32C, written `crc32c:0x%08X`.
    Crc32c(u32),
    /// SHA-256, written `sha256:` and 64 lower-case hex digits.
    Sha256([u8; 32]),
    /// An algorithm this version does not know, as the file spells it; never counted as verified.
    Other(Arc<str>),
}

impl Digest {
    /// Reads `algorithm:value`. CRC-32C is accepted with or without `0x` and in either case.
    /// `None` when a known algorithm's value is not one it can have.
    pub fn from_text(text: &str) -> Option<Digest> {
        if let Some(v) = text.strip_prefix("crc32c:") {
            let v = v.strip_prefix("0x").or_else(|| v.strip_prefix("0X")).unwrap_or(v);
            let digit = |n: u32, c: char| Some(n << 4 | c.to_digit(16)?);
            let crc = (v.len() == 8).then(|| v.chars().try_fold(0, digit)).flatten();
            return crc.map(Digest::Crc32c);
        }
        if let Some(v) = text.strip_prefix("sha256:") {
            if v.len() != 64 || !v.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let mut out = [0u8; 32];
            for (byte, pair) in out.iter_mut().zip(v.as_bytes().chunks_exact(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            }
            return Some(Digest::Sha256(out));
        }
        Some(Digest::Other(text.into()))
    }

    /// The algorithm, where it is one this version can compute.
    pub fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Digest::Crc32c(_) => Some(Algorithm::Crc32c),
            Digest::Sha256(_) => Some(Algorithm::Sha256),
            Digest::Other(_) => None,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Crc32c(v) => write!(f, "crc32c:0x{v:08X}"),
            Digest::Sha256(v) => {
                f.write_str("sha256:")?;
                v.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
            Digest::Other(text) => f.write_str(text),
        }
    }
}

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm is 32 bits wide; the crate returns every width as u64.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of `a` followed by `b`, from `crc32c(a)`, `crc32c(b)` and the length of `b` in bytes.
/// This is what lets the pieces of one component be checked on several threads.
pub fn crc32c_combine(a: u32, b: u32, b_len: u64) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    crc_fast::checksum_combine(algorithm, a.into(), b.into(), b_len) as u32
}

/// A digest being computed piece by piece.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Crc32c(crc_fast::Digest),
    Sha256(Box<sha2::Sha256>),
}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new(algorithm: Algorithm) -> Hasher {
        Hasher(match algorithm {
            Algorithm::Crc32c => {
                State::Crc32c(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
            }
            Algorithm::Sha256 => State::Sha256(Box::default()),
        })
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc32c(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
        }
    }

    /// The digest of all bytes taken.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Crc32c(state) => Digest::Crc32c(state.finalize() as u32),
            State::Sha256(state) => Digest::Sha256(state.finalize().into()),
        }
    }
}
