//! The keys of stored slices, as bytes in the same order as the values that they encode.

use holdall_collections::DebugUnwrap;

/// The start and length of a slice in one dimension; `None` for the whole dimension.
pub(super) type Extent = Option<(i64, i64)>;

/// Returns the key of a slice of a variable.
pub(super) fn key(name: &[u8], slice: &[Extent]) -> Vec<u8> {
    let mut out = Vec::new();
    number(0, &mut out);
    for byte in name {
        match byte {
            0 => out.extend([0, 0xff]),
            0xff => out.extend([0xff, 0]),
            byte => out.push(*byte),
        }
    }
    out.extend([0, 1]);
    number(slice.len() as u64, &mut out);
    for extent in slice {
        let (start, len) = extent.unwrap_or((0, -1));
        signed(start, &mut out);
        signed(len, &mut out);
    }
    out
}

/// Writes the number of bytes, then the bytes, the highest first.
fn number(n: u64, out: &mut Vec<u8>) {
    let bytes = n.to_be_bytes();
    let skip = usize::try_from(n.leading_zeros() / 8).debug_unwrap();
    let bytes = bytes.get(skip..).debug_unwrap();
    out.push(u8::try_from(bytes.len()).debug_unwrap());
    out.extend_from_slice(bytes);
}

/// Writes one bits for the number of bytes, a zero bit, and the number, the highest bit first. For a negative number
/// all bits are inverted.
fn signed(n: i64, out: &mut Vec<u8>) {
    let size = (n ^ (n >> 63)).unsigned_abs();
    // Each byte has 7 bits for the number, one of which is the sign.
    let bits = 64u32.saturating_sub(size.leading_zeros());
    let len = usize::try_from(bits / 7).debug_unwrap().saturating_add(1).min(10);
    let mut bytes = [if n < 0 { 0xff } else { 0 }; 10];
    for (to, from) in bytes.iter_mut().skip(2).zip(n.to_be_bytes()) {
        *to = from;
    }
    // The one bits for the number of bytes, aligned to the start of ten bytes.
    let ones = u16::MAX.checked_shl(16u32.saturating_sub(u32::try_from(len).unwrap_or(16)));
    let mask = ones.unwrap_or(0).to_be_bytes();
    let mut kept = bytes.iter().skip(10usize.saturating_sub(len)).copied().collect::<Vec<u8>>();
    for (byte, mask) in kept.iter_mut().zip(mask) {
        *byte ^= mask;
    }
    out.extend(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_as_long_as_they_must_be() {
        let encoded = |n: i64| {
            let mut out = Vec::new();
            signed(n, &mut out);
            out
        };
        // The first number of each length, in the encoding of the format.
        assert_eq!(encoded(0), [0x80]);
        assert_eq!(encoded(63), [0xbf]);
        assert_eq!(encoded(64), [0xc0, 0x40]);
        assert_eq!(encoded(-1), [0x7f]);
        assert_eq!(encoded(-64), [0x40]);
        assert_eq!(encoded(-65), [0x3f, 0xbf]);
        assert_eq!(encoded(8191), [0xdf, 0xff]);
        assert_eq!(encoded(8192), [0xe0, 0x20, 0x00]);
        assert_eq!(encoded(i64::MAX).len(), 10);
        let mut last = Vec::new();
        for n in [
            i64::MIN,
            -(1 << 40),
            -70_000,
            -8193,
            -65,
            -1,
            0,
            1,
            63,
            64,
            8192,
            1 << 20,
            1 << 48,
            i64::MAX,
        ] {
            let now = encoded(n);
            assert!(now > last, "{n}");
            last = now;
        }
    }

    #[test]
    fn a_key_is_a_zero_a_name_and_its_extents() {
        let made = key(b"w\0", &[Some((0, 2)), None]);
        assert_eq!(made, [0, b'w', 0, 0xff, 0, 1, 1, 2, 0x80, 0x82, 0x80, 0x7f]);
    }
}
