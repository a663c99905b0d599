//! Digests of the elements of a tensor, as a delta names them.

use data_encoding::HEXLOWER;

/// Computes the digest of elements, in order.
pub struct ElementsDigest(Kind);

enum Kind {
    Xxh3(Box<twox_hash::xxhash3_128::Hasher>),
    Sha256(sha2::Sha256),
}

impl ElementsDigest {
    /// Creates the digest that new deltas have: XXH3 with 128 bits.
    pub fn new() -> ElementsDigest {
        ElementsDigest(Kind::Xxh3(Box::default()))
    }

    /// Creates a digest of the kind that `text` is: `xxh3-128:…` or `sha256:…`.
    pub fn like(text: &str) -> ElementsDigest {
        match text.starts_with("sha256:") {
            true => ElementsDigest(Kind::Sha256(sha2::Digest::new())),
            false => ElementsDigest::new(),
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Xxh3(hasher) => hasher.write(bytes),
            Kind::Sha256(hasher) => sha2::Digest::update(hasher, bytes),
        }
    }

    /// Returns the digest as text.
    pub fn finish(self) -> String {
        match self.0 {
            Kind::Xxh3(hasher) => {
                format!("xxh3-128:{}", HEXLOWER.encode(&hasher.finish_128().to_be_bytes()))
            }
            Kind::Sha256(hasher) => {
                format!("sha256:{}", HEXLOWER.encode(&sha2::Digest::finalize(hasher)))
            }
        }
    }
}

impl Default for ElementsDigest {
    fn default() -> ElementsDigest {
        ElementsDigest::new()
    }
}
