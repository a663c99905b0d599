//! Digests of stored bytes (CRC-32C, SHA-256) and of decoded bytes (the CRC-32 of zips, XXH3).

#[cfg(feature = "digests")]
use super::sha256::Sha256;
use crate::codec::crc::Crc32;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::fmt;
use std::sync::Arc;

/// A digest algorithm that this version can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// CRC-32C (Castagnoli): detects accidents, not attacks. Over stored bytes.
    Crc32c,
    /// SHA-256 over stored bytes.
    Sha256,
    /// CRC-32 as zips use it: detects accidents, not attacks. Over decoded bytes.
    Crc32,
    /// XXH3 of 64 bits: detects accidents, not attacks. Over decoded bytes.
    Xxh3,
    /// SHA-256 over decoded bytes, as the `MANIFEST` of a package has it for compressed files.
    Sha256Decoded,
}

impl Algorithm {
    /// Returns `true` if the digest is over decoded bytes, in the file's byte order, instead of over stored bytes.
    pub const fn covers_decoded_bytes(self) -> bool {
        matches!(self, Algorithm::Crc32 | Algorithm::Xxh3 | Algorithm::Sha256Decoded)
    }

    /// Returns `true` if the algorithm is SHA-256, which takes several times as long as the others.
    pub const fn is_slow(self) -> bool {
        matches!(self, Algorithm::Sha256 | Algorithm::Sha256Decoded)
    }

    /// Returns the algorithm's name: `crc32c`, `sha256`, `crc32`, `xxh3` or `sha256-decoded`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Crc32c => "crc32c",
            Algorithm::Sha256 => "sha256",
            Algorithm::Crc32 => "crc32",
            Algorithm::Xxh3 => "xxh3",
            Algorithm::Sha256Decoded => "sha256-decoded",
        }
    }
}

/// A digest algorithm and its value. CRC-32C and SHA-256 are over a component's stored bytes. CRC-32, XXH3 and
/// [`Digest::Sha256Decoded`] are over its decoded bytes in the file's byte order, as zips, zTensor 2 and packages
/// define them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Digest {
    /// CRC-32C, written `crc32c:0x%08X`.
    Crc32c(u32),
    /// SHA-256, written `sha256:` and 64 lower-case hex digits.
    Sha256([u8; 32]),
    /// CRC-32, written `crc32:0x%08X`.
    Crc32(u32),
    /// XXH3, written `xxh3:` and 16 lower-case hex digits.
    Xxh3(u64),
    /// SHA-256 of the decoded bytes, written `sha256-decoded:` and 64 lower-case hex digits.
    Sha256Decoded([u8; 32]),
    /// An algorithm that this version does not know, as the file spells it. It is never counted as verified.
    Other(Arc<str>),
}

impl Digest {
    /// Returns the algorithm's name in the text of a digest, whether the algorithm is known or not.
    pub fn algorithm_of(text: &str) -> &str {
        text.split(':').next().unwrap_or_default()
    }

    /// Parses `algorithm:value`. CRC-32C is accepted with or without `0x` and in either case.
    ///
    /// Returns `None` if the value is invalid for a known algorithm.
    pub fn from_text(text: &str) -> Option<Digest> {
        if let Some(v) = text.strip_prefix("crc32c:") {
            let v = v.strip_prefix("0x").or_else(|| v.strip_prefix("0X")).unwrap_or(v);
            let digit = |n: u32, c: char| Some(n << 4 | c.to_digit(16)?);
            let crc = (v.len() == 8).then(|| v.chars().try_fold(0, digit)).flatten();
            return crc.map(Digest::Crc32c);
        }
        if let Some(v) = text.strip_prefix("sha256:") {
            let mut out = [0; 32];
            // `decode_mut` panics for other lengths than 64.
            let hex: &[u8; 64] = v.as_bytes().try_into().ok()?;
            HEXLOWER_PERMISSIVE.decode_mut(hex, &mut out).ok()?;
            return Some(Digest::Sha256(out));
        }
        Some(Digest::Other(text.into()))
    }

    /// Returns the algorithm, if this build can compute it.
    pub fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Digest::Crc32c(_) => Some(Algorithm::Crc32c),
            Digest::Crc32(_) => Some(Algorithm::Crc32),
            Digest::Sha256(_) if cfg!(feature = "digests") => Some(Algorithm::Sha256),
            Digest::Xxh3(_) if cfg!(feature = "digests") => Some(Algorithm::Xxh3),
            Digest::Sha256Decoded(_) if cfg!(feature = "digests") => Some(Algorithm::Sha256Decoded),
            Digest::Sha256(_) | Digest::Xxh3(_) | Digest::Sha256Decoded(_) | Digest::Other(_) => {
                None
            }
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Crc32c(v) => write!(f, "crc32c:0x{v:08X}"),
            Digest::Sha256(v) => write!(f, "sha256:{}", HEXLOWER.encode_display(v)),
            Digest::Sha256Decoded(v) => write!(f, "sha256-decoded:{}", HEXLOWER.encode_display(v)),
            Digest::Crc32(v) => write!(f, "crc32:0x{v:08X}"),
            Digest::Xxh3(v) => write!(f, "xxh3:{v:016x}"),
            Digest::Other(text) => f.write_str(text),
        }
    }
}

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = Crc32::castagnoli();
    sum.update(bytes);
    sum.value()
}

/// Returns the CRC-32C of `a` followed by `b`, given `crc32c(a)`, `crc32c(b)` and the length of `b` in bytes. This
/// allows several threads to compute the digest of one component.
pub fn crc32c_combine(a: u32, b: u32, b_len: u64) -> u32 {
    combine::<CASTAGNOLI>(&CASTAGNOLI_POWERS, a, b, b_len)
}

/// Returns the CRC-32 (of zips) of `a` followed by `b`, like [`crc32c_combine`].
pub fn crc32_combine(a: u32, b: u32, b_len: u64) -> u32 {
    combine::<ZIP>(&ZIP_POWERS, a, b, b_len)
}

fn combine<const POLYNOMIAL: u32>(powers: &[u32; 67], a: u32, b: u32, b_len: u64) -> u32 {
    if a == 0 {
        return b;
    }
    // A CRC is a remainder of polynomials over GF(2): appending n zero bytes multiplies it by x^(8n).
    let mut shifted = a;
    let mut bits = b_len;
    let mut power = 3;
    while bits != 0 {
        if bits & 1 == 1 {
            shifted = multiply::<POLYNOMIAL>(powers[power], shifted);
        }
        bits >>= 1;
        power += 1;
    }
    shifted ^ b
}

/// The polynomial of CRC-32C without its x^32, the coefficient of x^31 in bit 0.
const CASTAGNOLI: u32 = 0x82f6_3b78;
/// The polynomial of CRC-32 as zips use it, in the same notation.
const ZIP: u32 = 0xedb8_8320;

/// x^(2^n) modulo the polynomial.
static CASTAGNOLI_POWERS: [u32; 67] = powers::<CASTAGNOLI>();
static ZIP_POWERS: [u32; 67] = powers::<ZIP>();

const fn powers<const POLYNOMIAL: u32>() -> [u32; 67] {
    let mut out = [1 << 30; 67];
    let mut n = 1;
    while n < out.len() {
        out[n] = multiply::<POLYNOMIAL>(out[n - 1], out[n - 1]);
        n += 1;
    }
    out
}

/// Returns the product of two polynomials modulo the CRC's polynomial.
const fn multiply<const POLYNOMIAL: u32>(a: u32, mut b: u32) -> u32 {
    let mut out = 0;
    let mut bit = 1u32 << 31;
    while bit != 0 {
        if a & bit != 0 {
            out ^= b;
        }
        let carry = if b & 1 == 1 { POLYNOMIAL } else { 0 };
        b = (b >> 1) ^ carry;
        bit >>= 1;
    }
    out
}

/// Computes a digest incrementally.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Crc32c(u32),
    Crc32(u32),
    #[cfg(feature = "digests")]
    Sha256(Sha256),
    #[cfg(feature = "digests")]
    Sha256Decoded(Sha256),
    #[cfg(feature = "digests")]
    Xxh3(Box<twox_hash::xxhash3_64::Hasher>),
    #[cfg(not(feature = "digests"))]
    Unbuilt(Algorithm),
}

impl Hasher {
    /// Creates a hasher. In a build without the feature `digests`, which the formats that use digests enable, SHA-256
    /// and XXH3 are missing, and their result is a [`Digest::Other`].
    pub fn new(algorithm: Algorithm) -> Hasher {
        Hasher(match algorithm {
            Algorithm::Crc32c => State::Crc32c(0),
            Algorithm::Crc32 => State::Crc32(0),
            #[cfg(feature = "digests")]
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            #[cfg(feature = "digests")]
            Algorithm::Sha256Decoded => State::Sha256Decoded(Sha256::new()),
            #[cfg(feature = "digests")]
            Algorithm::Xxh3 => State::Xxh3(Box::default()),
            #[cfg(not(feature = "digests"))]
            unbuilt => State::Unbuilt(unbuilt),
        })
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc32c(crc) => *crc = crc32c_combine(*crc, crc32c(bytes), bytes.len() as u64),
            State::Crc32(crc) => {
                *crc = crc32_combine(*crc, Crc32::zip_crc32(bytes), bytes.len() as u64);
            }
            #[cfg(feature = "digests")]
            State::Sha256(state) | State::Sha256Decoded(state) => state.update(bytes),
            #[cfg(feature = "digests")]
            State::Xxh3(state) => std::hash::Hasher::write(&mut **state, bytes),
            #[cfg(not(feature = "digests"))]
            State::Unbuilt(_) => {}
        }
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Crc32c(crc) => Digest::Crc32c(crc),
            State::Crc32(crc) => Digest::Crc32(crc),
            #[cfg(feature = "digests")]
            State::Sha256(state) => Digest::Sha256(state.finish()),
            #[cfg(feature = "digests")]
            State::Sha256Decoded(state) => Digest::Sha256Decoded(state.finish()),
            #[cfg(feature = "digests")]
            State::Xxh3(state) => Digest::Xxh3(std::hash::Hasher::finish(&*state)),
            #[cfg(not(feature = "digests"))]
            State::Unbuilt(algorithm) => Digest::Other(algorithm.as_str().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_combine_to_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        for at in [0, 1, 7, 64, 4096, 65_537, 99_999, 100_000] {
            let (a, b) = bytes.split_at(at);
            let whole = crc32c_combine(crc32c(a), crc32c(b), b.len() as u64);
            assert_eq!(whole, crc32c(&bytes), "{at}");
            let [a, rest] = [a, b].map(Crc32::zip_crc32);
            assert_eq!(crc32_combine(a, rest, b.len() as u64), Crc32::zip_crc32(&bytes), "{at}");
        }
        // The check value of the algorithm's definition.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn long_parts_combine() {
        // 2^40 zero bytes at once, and half of them twice.
        let zeros = |crc, n| crc32c_combine(crc, 0, n);
        assert_eq!(zeros(0xdead_beef, 1 << 40), zeros(zeros(0xdead_beef, 1 << 39), 1 << 39));
    }
}
