//! Reads bytes of a file by their addresses.

use super::{BOUNDS, CHECKSUM, LOOP, STRUCTURE};
use bytes::Bytes;
use holdall_core::error::{Error, Result};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cursor::Cursor;
use std::cell::Cell;
use std::ops::Range;

/// The number of bytes read first of a structure that states its length.
pub(super) const FIRST: u64 = 512;
/// The maximum of bytes read from all blocks, as a multiple of the file's length plus [`LEAST`].
const TIMES: u64 = 64;
const LEAST: u64 = 64 << 10;
/// The number of bytes of a checksum.
const SUM: u64 = 4;

/// A file in a window, with the base and the length of its addresses.
pub(super) struct Reader<'w> {
    pub(super) window: &'w Window,
    pub(super) limits: &'w Limits,
    /// The offset of address 0 in the window.
    pub(super) base: u64,
    /// The offset of the file's end in the window.
    pub(super) end: u64,
    /// The number of bytes of an address.
    pub(super) offset: u8,
    /// The number of bytes of a length.
    pub(super) length: u8,
    /// The number of bytes read from blocks. Bytes of a shared block count each time.
    pub(super) seen: Cell<u64>,
}

/// An address; `None` if it is the undefined address.
pub(super) type Address = Option<u64>;

impl Reader<'_> {
    /// Returns the range in the window of `len` bytes at an address.
    pub(super) fn locate(&self, at: u64, len: u64) -> Result<Range<u64>> {
        let start = self.base.checked_add(at);
        let end = start.and_then(|start| start.checked_add(len));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.end => Ok(start..end),
            _ => {
                let has = self.end.saturating_sub(self.base);
                let message = format!(
                    "{len} bytes at address {at} are outside of the file, which has {has} bytes"
                );
                Err(BOUNDS.broken(message))
            }
        }
    }

    /// Returns the bytes at an address.
    pub(super) fn bytes(&self, at: u64, len: u64) -> Result<Bytes, Stop> {
        self.look(self.locate(at, len)?)
    }

    /// Returns up to `most` bytes at an address; fewer if the file ends before.
    pub(super) fn head(&self, at: u64, most: u64) -> Result<Bytes, Stop> {
        self.look(self.clipped(at, most)?)
    }

    /// Returns bytes of a block. Fails if the total of read bytes shows that blocks refer to each other repeatedly.
    fn look(&self, range: Range<u64>) -> Result<Bytes, Stop> {
        let bytes = self.window.bytes(range)?;
        let seen = self.seen.get().saturating_add(bytes.len() as u64);
        self.seen.set(seen);
        let most = self.end.saturating_sub(self.base).saturating_add(LEAST).saturating_mul(TIMES);
        if seen > most {
            let message = format!("reading all blocks takes more than {most} bytes");
            return Err(LOOP.broken(message).into());
        }
        Ok(bytes)
    }

    fn clipped(&self, at: u64, most: u64) -> Result<Range<u64>> {
        let start = self.locate(at, 0)?.start;
        Ok(start..start.saturating_add(most).min(self.end))
    }

    /// Requests all of these blocks together, given as the address and the length of each.
    pub(super) fn ask(&self, blocks: impl IntoIterator<Item = (u64, u64)>) -> Result<(), Stop> {
        let ranges = blocks.into_iter().filter_map(|(at, len)| self.clipped(at, len).ok());
        self.window.all(ranges)
    }

    /// Returns the bytes between the signature of a block of `len` bytes and the checksum at its end.
    pub(super) fn block(&self, at: u64, len: u64, signature: &[u8; 4]) -> Result<Bytes, Stop> {
        let bytes = self.bytes(at, len)?;
        self.check_signature(at, &bytes, signature)?;
        let content = self.verified_len(at, &bytes)?;
        Ok(bytes.slice(signature.len()..content))
    }

    /// Checks that bytes begin with a signature.
    pub(super) fn check_signature(&self, at: u64, bytes: &[u8], signature: &[u8]) -> Result<()> {
        match bytes.starts_with(signature) {
            true => Ok(()),
            false => {
                let found = bytes.get(..signature.len()).unwrap_or(bytes).escape_ascii();
                let wanted = signature.escape_ascii();
                Err(self.broken(at, format!("expected `{wanted}`, found `{found}`")))
            }
        }
    }

    /// Compares the checksum at the end of `bytes` with the bytes before it, and returns the number of these.
    pub(super) fn verified_len(&self, at: u64, bytes: &[u8]) -> Result<usize> {
        let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
            return Err(self.broken(at, "a block is too short for its checksum"));
        };
        let (found, stored) = (lookup3(content), u32::from_le_bytes(*stored));
        match found == stored {
            true => Ok(content.len()),
            false => {
                let message =
                    format!("the checksum is {found:#010x}, but {stored:#010x} is stored");
                let range = self.locate(at, bytes.len() as u64)?;
                Err(CHECKSUM.broken(message).at(range))
            }
        }
    }

    /// Returns a [`STRUCTURE`] error at an address.
    #[cold]
    pub(super) fn broken(&self, at: u64, message: impl Into<String>) -> Error {
        let start = self.base.saturating_add(at).min(self.end);
        STRUCTURE.broken(message.into()).at(start..start)
    }

    /// Parses `bytes` with `read`. If there are too few bytes, the error says that `what` is cut short.
    pub(super) fn read<'b, T>(
        &self,
        at: u64,
        what: &str,
        bytes: &'b [u8],
        read: impl FnOnce(&mut Cursor<'b>) -> Option<T>,
    ) -> Result<T> {
        let found = read(&mut Cursor::new(bytes));
        found.ok_or_else(|| self.broken(at, format!("{what} ends before its last field")))
    }

    /// Reads the next address.
    pub(super) fn address(&self, cursor: &mut Cursor<'_>) -> Option<Address> {
        let bytes = cursor.take(self.offset.into())?;
        Some(little(bytes).filter(|_| bytes.iter().any(|byte| *byte != 0xff)))
    }

    /// Reads the next length.
    pub(super) fn length(&self, cursor: &mut Cursor<'_>) -> Option<u64> {
        little(cursor.take(self.length.into())?)
    }
}

/// Returns the little-endian number in up to 8 bytes.
pub(super) fn little(bytes: &[u8]) -> Option<u64> {
    let mut all = [0; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(all))
}

/// Applies `read` to each of `items`. If bytes are missing for some items, the bytes for all items are requested
/// together.
pub(super) fn each<I, T>(
    items: impl IntoIterator<Item = I>,
    mut read: impl FnMut(I) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let (mut out, mut needs) = (Vec::new(), Vec::new());
    for item in items {
        match read(item) {
            Ok(found) => out.push(found),
            Err(Stop::Need(mut ranges)) => needs.append(&mut ranges),
            // Errors are returned only if no earlier bytes are missing, so that the first error does not depend on
            // which bytes are available.
            Err(failed) if needs.is_empty() => return Err(failed),
            Err(_) => break,
        }
    }
    match needs.is_empty() {
        true => Ok(out),
        false => Err(Stop::Need(needs)),
    }
}

/// Returns the length of a block without its checksum.
pub(super) fn without_sum(len: u64) -> u64 {
    len.saturating_sub(SUM)
}

/// Bob Jenkins's lookup3 hash, which is the checksum of blocks.
fn lookup3(bytes: &[u8]) -> u32 {
    // A length is taken modulo 2^32.
    let len = (bytes.len() as u64 & 0xffff_ffff) as u32;
    let start = 0xdead_beef_u32.wrapping_add(len);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |bytes: &[u8], at: usize| {
        let mut word = [0; 4];
        let from = bytes.get(at..).unwrap_or_default();
        word.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        u32::from_le_bytes(word)
    };
    let mut rest = bytes;
    loop {
        let block = rest.get(..12).unwrap_or(rest);
        a = a.wrapping_add(word(block, 0));
        b = b.wrapping_add(word(block, 4));
        c = c.wrapping_add(word(block, 8));
        if rest.len() <= 12 {
            break;
        }
        rest = rest.get(12..).unwrap_or_default();
        (a, b, c) = mixed(a, b, c);
    }
    if rest.is_empty() { c } else { last(a, b, c) }
}

fn mixed(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

fn last(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    /// The test vectors published with the hash.
    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
