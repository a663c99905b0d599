//! Independent implementations of CRC-32 and SHA-256, so that the tested code does not check itself.

/// Returns the CRC-32 as zip uses it.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    let table: Vec<u32> = (0..256).map(|byte| (0..8).fold(byte, |crc, _| step(crc))).collect();
    !bytes.iter().fold(!0, |crc, byte| table[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

/// Returns the first bits of the fractions of the roots of order `root` of the first `N` primes.
fn fractions<const N: usize>(root: u32) -> [u32; N] {
    let mut out = [0; N];
    let mut candidates = (2u128..).filter(|n| (2..*n).all(|d| n % d != 0));
    for word in &mut out {
        let prime = candidates.next().expect("there is always another prime");
        // The whole part of the root of prime × 2^(32 × root): the root times 2^32.
        let target = prime << (32 * root);
        let (mut low, mut high) = (0u128, 1 << 40);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if middle.checked_pow(root).is_some_and(|p| p <= target) {
                low = middle;
            } else {
                high = middle;
            }
        }
        *word = low as u32;
    }
    out
}

/// Returns the SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state: [u32; 8] = fractions(2);
    let keys: [u32; 64] = fractions(3);
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut w = [0u32; 64];
        for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        }
        for i in 16..64 {
            let a = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ w[i - 15] >> 3;
            let b = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16].wrapping_add(a).wrapping_add(w[i - 7]).wrapping_add(b);
        }
        let mut v = state;
        for i in 0..64 {
            let [a, b, c, d, e, f, g, h] = v;
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let one = h
                .wrapping_add(sum)
                .wrapping_add(e & f ^ !e & g)
                .wrapping_add(keys[i])
                .wrapping_add(w[i]);
            let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = sum.wrapping_add(a & b ^ a & c ^ b & c);
            v = [one.wrapping_add(two), a, b, c, d.wrapping_add(one), e, f, g];
        }
        for (state, v) in state.iter_mut().zip(v) {
            *state = state.wrapping_add(v);
        }
    }
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
