//! The order of shuffled batches: a permutation that is computed number by number.

use crate::memory::BorrowedBuffer;
use pyo3::prelude::*;

/// Number of rounds of the Feistel network.
const ROUNDS: usize = 6;

/// Replaces numbers below `count` (uint64, in a writable buffer) by their positions in a pseudorandom order, which depends
/// on `count` and the keys. Other numbers stay as they are.
#[pyfunction]
pub(crate) fn shuffle_numbers(
    py: Python<'_>,
    numbers: &Bound<'_, PyAny>,
    count: u64,
    keys: [u64; ROUNDS],
) -> PyResult<()> {
    let mut buffer = BorrowedBuffer::writable(numbers)?;
    let bytes = buffer.bytes_mut();
    py.detach(|| {
        let network = Network::new(count, keys);
        for number in bytes.as_chunks_mut().0 {
            *number = network.position(u64::from_ne_bytes(*number)).to_ne_bytes();
        }
    });
    Ok(())
}

/// A Feistel network on the numbers of twice `half` bits, of which there are at least `count`.
struct Network {
    count: u64,
    half: u32,
    keys: [u64; ROUNDS],
}

impl Network {
    fn new(count: u64, keys: [u64; ROUNDS]) -> Network {
        let bits = u64::BITS - count.max(2).saturating_sub(1).leading_zeros();
        Network { count, half: bits.div_ceil(2), keys }
    }

    /// Returns the position of a number. Results that are too large are permuted again: the network is a permutation, so
    /// they return to the numbers below `count`, from which they came.
    fn position(&self, number: u64) -> u64 {
        if number >= self.count {
            return number;
        }
        let mut found = self.permuted(number);
        while found >= self.count {
            found = self.permuted(found);
        }
        found
    }

    fn permuted(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            let mut z = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z ^= z >> 32;
            z = z.wrapping_mul(0xd6e8_feb8_6659_fd93);
            z ^= z >> 32;
            (left, right) = (right, left ^ (z & mask));
        }
        left << self.half | right
    }
}
