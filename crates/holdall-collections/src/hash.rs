//! Hash maps and hash sets for keys that come from files.
//!
//! If the hash function is known, a file can be made whose names all collide in a map, and reading the file takes
//! hours. So hashes need a secret seed. The standard library asks the operating system for one. WebAssembly in a
//! browser has no operating system, and the standard library uses a constant there; the host provides the seed
//! instead, by calling `seed`.

// The aliases are what other crates use instead.
#![allow(clippy::disallowed_types)]

/// The standard library's hash map, with a secret seed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, SeededState>;
/// The standard library's hash set, with a secret seed.
pub type HashSet<T> = std::collections::HashSet<T, SeededState>;

/// The hasher state that maps and sets start from.
#[cfg(not(target_family = "wasm"))]
pub type SeededState = std::hash::RandomState;
/// The hasher state that maps and sets start from.
#[cfg(target_family = "wasm")]
pub type SeededState = seeded::Seeded;

#[cfg(target_family = "wasm")]
pub use seeded::seed;

#[cfg(any(target_family = "wasm", test))]
#[cfg_attr(test, allow(unreachable_pub))] // Only built for its own tests.
mod seeded {
    use std::hash::{BuildHasher, DefaultHasher, Hasher as _};
    use std::sync::atomic::{AtomicU64, Ordering};

    static SECRET: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    /// Sets the secret seed of all maps and sets created after this call.
    ///
    /// Call it before the first file is opened, with 128 random bits.
    pub fn seed(secret: [u64; 2]) {
        for (word, value) in SECRET.iter().zip(secret) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// A hasher state that starts with the secret seed.
    #[derive(Debug, Clone)]
    pub struct Seeded([u64; 2]);

    impl Default for Seeded {
        fn default() -> Seeded {
            Seeded(
                [0, 1]
                    .map(|at: usize| SECRET.get(at).map_or(0, |word| word.load(Ordering::Relaxed))),
            )
        }
    }

    impl BuildHasher for Seeded {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            // SipHash with a known key that hashes a secret first reveals as little as SipHash with a secret key.
            let mut hasher = DefaultHasher::new();
            self.0.iter().for_each(|word| hasher.write_u64(*word));
            hasher
        }
    }
}

#[cfg(test)]
mod tests {
    use super::seeded::{Seeded, seed};
    use std::hash::BuildHasher as _;

    #[test]
    fn hashes_depend_on_the_secret() {
        let before = Seeded::default();
        seed([1, 2]);
        let after = Seeded::default();
        assert_eq!(after.hash_one("a"), Seeded::default().hash_one("a"));
        assert_ne!(before.hash_one("a"), after.hash_one("a"));
        let map: std::collections::HashMap<&str, u8, Seeded> =
            [("a", 1), ("b", 2)].into_iter().collect();
        assert_eq!((map["a"], map["b"], map.get("c")), (1, 2, None));
    }
}
