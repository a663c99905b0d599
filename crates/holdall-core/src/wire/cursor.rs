//! A cursor over a byte slice, which checks every read against the bytes left.

/// Reads a variable-length integer, as in protocol buffers, Thrift and LevelDB: each byte has seven bits, lowest first,
/// and the last byte is the first whose highest bit is not set. Returns `None` if it has more than ten bytes.
///
/// # Errors
/// Returns the errors of `next`, which returns the next byte.
#[inline]
pub fn varint<E>(
    mut next: impl FnMut() -> std::result::Result<u8, E>,
) -> std::result::Result<Option<u64>, E> {
    let mut out = 0u64;
    for shift in (0..64u32).step_by(7) {
        let byte = next()?;
        out |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(Some(out));
        }
    }
    Ok(None)
}

/// The bytes that were not read yet, and the number of bytes read.
///
/// Lengths are `u64` until they are compared with the slice, so that numbers from a file can be passed unchanged. A
/// read that does not fit returns `None` and reads nothing.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, len: bytes.len() }
    }

    /// Returns the number of bytes read so far.
    #[inline]
    pub fn position(&self) -> u64 {
        // `rest` is a tail of the slice, so this never wraps.
        self.len.wrapping_sub(self.rest.len()) as u64
    }

    /// Returns the number of bytes left.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.rest.len() as u64
    }

    /// Returns the bytes left.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the next byte without reading it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads the next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(n).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads the next byte and subtracts `base`, if the result is below 24: the CBOR form of most numbers and lengths.
    #[inline(always)]
    pub fn small(&mut self, base: u8) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        let small = first.wrapping_sub(base);
        if small >= 24 {
            return None;
        }
        self.rest = rest;
        Some(small)
    }

    /// Reads a string of fewer than 24 bytes, whose first byte is `base` plus its length.
    #[inline(always)]
    pub fn small_string(&mut self, base: u8) -> Option<&'a [u8]> {
        let (&first, rest) = self.rest.split_first()?;
        let len = first.wrapping_sub(base);
        if len >= 24 {
            return None;
        }
        let (taken, rest) = rest.split_at_checked(len.into())?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// Reads a little-endian `u16`.
    #[inline]
    pub fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a little-endian `u32`.
    #[inline]
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a little-endian `u64`.
    #[inline]
    pub fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_does_not_fit_takes_nothing() {
        let mut c = Cursor::new(&[1, 2, 3]);
        assert_eq!(c.take(4), None);
        assert_eq!(c.take(u64::MAX), None);
        assert_eq!(c.array::<4>(), None);
        assert_eq!((c.position(), c.remaining()), (0, 3));
        assert_eq!(c.array::<2>(), Some([1, 2]));
        assert_eq!((c.peek(), c.u8(), c.u8()), (Some(3), Some(3), None));
        assert_eq!((c.position(), c.remaining()), (3, 0));
        assert_eq!(c.take(0), Some(&[][..]));
    }
}
