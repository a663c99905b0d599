//! Checksums of a tensor's bytes, as weight updates state them.

use super::CHECKSUM_FORMAT;
use crate::error::{Escape as _, Result};
use data_encoding::HEXLOWER;

/// A kind of checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumKind {
    /// XXH3 with 128 bits.
    #[default]
    Xxh3,
    /// BLAKE3 with 256 bits.
    Blake3,
    /// Adler-32.
    Adler32,
}

impl ChecksumKind {
    /// All kinds.
    pub const ALL: [ChecksumKind; 3] =
        [ChecksumKind::Xxh3, ChecksumKind::Blake3, ChecksumKind::Adler32];

    /// Returns the kind with this name.
    ///
    /// # Errors
    /// Returns [`CHECKSUM_FORMAT`] if the name is unknown.
    pub fn from_name(name: &str) -> Result<ChecksumKind> {
        let found = ChecksumKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let message = format!("the checksum format is `{}`", name.escaped());
            CHECKSUM_FORMAT.broken(message)
        })
    }

    /// Returns the name: `xxh3-128`.
    pub fn name(self) -> &'static str {
        match self {
            ChecksumKind::Xxh3 => "xxh3-128",
            ChecksumKind::Blake3 => "blake3",
            ChecksumKind::Adler32 => "adler32",
        }
    }

    /// Returns the checksum of `bytes` as lower-case hexadecimal digits, the highest first.
    pub fn compute(self, bytes: &[u8]) -> String {
        match self {
            ChecksumKind::Xxh3 => {
                let mut hasher = twox_hash::xxhash3_128::Hasher::new();
                hasher.write(bytes);
                HEXLOWER.encode(&hasher.finish_128().to_be_bytes())
            }
            ChecksumKind::Blake3 => HEXLOWER.encode(blake3::hash(bytes).as_bytes()),
            ChecksumKind::Adler32 => HEXLOWER.encode(&adler2::adler32_slice(bytes).to_be_bytes()),
        }
    }

    /// Returns `true` if `stated` is the checksum `computed`, whatever the case of its digits and whether or not leading zeros are
    /// written.
    pub fn agree(stated: &str, computed: &str) -> bool {
        let plain = |text: &str| text.trim_start_matches('0').to_ascii_lowercase();
        plain(stated) == plain(computed)
    }
}

#[cfg(test)]
mod tests {
    use super::ChecksumKind;

    #[test]
    fn checksums_are_those_of_other_implementations() {
        assert_eq!(ChecksumKind::Adler32.compute(b"Wikipedia"), "11e60398");
        assert_eq!(ChecksumKind::Xxh3.compute(b""), "99aa06d3014798d86001c324468d497f");
        assert!(ChecksumKind::Blake3.compute(b"").starts_with("af1349b9f5f9a1a6a0404dea36dcc949"));
        assert!(ChecksumKind::agree("0A", "a"));
        assert!(!ChecksumKind::agree("a0", "a"));
    }
}
