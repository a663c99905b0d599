//! Walks a byte slice; every read is checked against what is left.

/// A number in the seven low bits of each byte, the lowest first, whose last byte is the first without the highest bit: what protocol buffers,
/// Thrift and tables of LevelDB have. `None` where more than ten bytes go on.
///
/// # Errors
/// What `next`, which gives the next byte, fails with.
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

/// The bytes not read yet, and how many were.
///
/// Lengths stay `u64` until they are checked against the slice, so a file's number can be passed as it
/// is. A read that does not fit answers `None` and takes nothing.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, len: bytes.len() }
    }

    /// Bytes read so far.
    #[inline]
    pub fn position(&self) -> u64 {
        // `rest` is a tail of the slice, so this never wraps.
        self.len.wrapping_sub(self.rest.len()) as u64
    }

    /// Bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.rest.len() as u64
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next byte, not taken.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(n).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next byte less `base`, if that is below 24: how CBOR spells most numbers and lengths.
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

    /// A string below 24 bytes after a byte that is `base` and its length.
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

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// The next 2 bytes, the least significant first.
    #[inline]
    pub fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next 4 bytes, the least significant first.
    #[inline]
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 8 bytes, the least significant first.
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
