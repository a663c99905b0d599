//! SHA-256, computed by the faster library on this processor: `sha2` if the processor has SHA instructions, and
//! otherwise `ring` (in builds that include it), whose assembly takes half as long there.

use sha2::Digest as _;

/// Computes a SHA-256 hash incrementally.
#[derive(Clone)]
pub struct Sha256(State);

#[derive(Clone)]
enum State {
    Sha2(Box<sha2::Sha256>),
    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    Ring(Box<ring::digest::Context>),
}

impl Default for Sha256 {
    fn default() -> Sha256 {
        Sha256::new()
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    /// Creates a hasher.
    pub fn new() -> Sha256 {
        #[cfg(all(feature = "ring", target_arch = "x86_64"))]
        if !std::arch::is_x86_feature_detected!("sha") {
            return Sha256::by_ring();
        }
        Sha256(State::Sha2(Box::default()))
    }

    #[cfg(all(feature = "ring", target_arch = "x86_64"))]
    fn by_ring() -> Sha256 {
        Sha256(State::Ring(Box::new(ring::digest::Context::new(&ring::digest::SHA256))))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha2(state) => state.update(bytes),
            #[cfg(all(feature = "ring", target_arch = "x86_64"))]
            State::Ring(state) => state.update(bytes),
        }
    }

    /// Returns the hash of all bytes added.
    pub fn finish(self) -> [u8; 32] {
        match self.0 {
            State::Sha2(state) => state.finalize().into(),
            #[cfg(all(feature = "ring", target_arch = "x86_64"))]
            State::Ring(state) => {
                let mut out = [0; 32];
                out.copy_from_slice(state.finish().as_ref());
                out
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Sha256> {
        vec![
            Sha256::new(),
            Sha256(State::Sha2(Box::default())),
            #[cfg(all(feature = "ring", target_arch = "x86_64"))]
            Sha256::by_ring(),
        ]
    }

    /// Test values of the standard, FIPS 180-4.
    #[test]
    fn each_library_gives_the_hash_of_the_standard() {
        for mut hash in all() {
            hash.update(b"abc");
            assert_eq!(hash.finish()[..4], [0xba, 0x78, 0x16, 0xbf]);
        }
        for hash in all() {
            assert_eq!(hash.finish()[..4], [0xe3, 0xb0, 0xc4, 0x42]);
        }
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let bytes: Vec<u8> = (0..10_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        let whole: [u8; 32] = sha2::Sha256::digest(&bytes).into();
        for piece in [1, 63, 64, 65, 4096, 10_000] {
            for mut hash in all() {
                for part in bytes.chunks(piece) {
                    hash.update(part);
                    // A clone continues with the same state.
                    hash = hash.clone();
                }
                assert_eq!(hash.finish(), whole, "{piece}");
            }
        }
    }
}
