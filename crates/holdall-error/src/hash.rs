//! Maps by hashes for keys that come from files.
//!
//! Who knows how names are hashed can make a file whose names all fall into one place of a map, and reading it takes
//! hours. So hashes need a secret. The standard library asks the system for one; a browser's WebAssembly has no system,
//! and there the standard library takes a constant. The host gives the secret then, by `seed`.

/// A map of the standard library, with a secret.
pub type HashMap<K, V> = std::collections::HashMap<K, V, State>;
/// A set of the standard library, with a secret.
pub type HashSet<T> = std::collections::HashSet<T, State>;

/// Where the hashes of a map start.
#[cfg(not(target_family = "wasm"))]
pub type State = std::hash::RandomState;
/// Where the hashes of a map start.
#[cfg(target_family = "wasm")]
pub type State = seeded::Seeded;

#[cfg(target_family = "wasm")]
pub use seeded::seed;

#[cfg(any(target_family = "wasm", test))]
#[cfg_attr(test, allow(unreachable_pub))] // Elsewhere nobody has it.
mod seeded {
    use std::hash::{BuildHasher, DefaultHasher, Hasher as _};
    use std::sync::atomic::{AtomicU64, Ordering};

    static SECRET: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    /// Sets the secret of maps that are made from now on: 128 bits that nobody can guess, before the first file
    /// is opened.
    pub fn seed(secret: [u64; 2]) {
        for (word, value) in SECRET.iter().zip(secret) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Hashes that start with the secret.
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
            // SipHash whose key is known, over a secret first, tells as little as SipHash under a secret key.
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
