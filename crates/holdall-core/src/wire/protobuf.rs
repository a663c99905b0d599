//! Protocol buffers, as far as it takes to look for a few fields of a message: field by field, without a
//! schema, without memory of its own.

use crate::error::{Error, Result};
use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

crate::error::rules! {
    /// Rules of protocol buffers.
    pub static RULES;

    /// Bytes that are not a message.
    pub BROKEN: Malformed "protobuf/broken"
        "A message is a run of whole fields, each a tag and a value of the tag's type.";
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// A whole number, a truth value, an element of an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl<'a> Field<'a> {
    /// The bytes, where it is made of bytes.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Field::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text, where it is UTF-8.
    pub fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// The number, where it is a whole one.
    pub fn varint(self) -> Option<u64> {
        match self {
            Field::Varint(n) => Some(n),
            _ => None,
        }
    }
}

/// The fields of a message, in the order in which they are stored. What lies between those that somebody
/// looks at is passed over untouched.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of the message in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { left: bytes }
    }

    /// The number and value of the next field; `None` at the end.
    ///
    /// # Errors
    /// [`BROKEN`]; there is no next field then.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, Field<'a>)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                Field::Bytes(self.take(len)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups were given up before anyone used them for what we read.
            other => return Err(self.broken(format!("a field of type {other}"))),
        };
        match tag >> 3 {
            0 => Err(self.broken("a field of number 0".into())),
            number => Ok(Some((number, value))),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let mut out = 0u64;
        for shift in (0..64u32).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            out |= bits.checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(out);
            }
        }
        Err(self.broken("a number of more than ten bytes".into()))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?;
        bytes.try_into().map_err(|_| self.broken("too few bytes".into()))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(len).ok().and_then(|len| self.left.split_at_checked(len));
        let Some((now, later)) = split else {
            let left = self.left.len();
            return Err(self.broken(format!("a value of {len} bytes where {left} are left")));
        };
        self.left = later;
        Ok(now)
    }

    #[cold]
    fn broken(&mut self, what: String) -> Error {
        self.left = &[];
        BROKEN.broken(what)
    }
}

/// Looks whether bytes are whole numbers, one after the other, as packed fields have them.
///
/// # Errors
/// [`BROKEN`]
pub fn varints(bytes: &[u8]) -> Result<()> {
    let mut fields = Fields::new(bytes);
    while !fields.left.is_empty() {
        fields.varint()?;
    }
    Ok(())
}

/// Bytes of a file that are looked at together, at multiples of this.
const CHUNK: u64 = 32 << 10;
/// The most that is asked for together, where all of it is looked at.
const MOST_CHUNK: u64 = 16 << 20;

/// The fields of a message in a file, of which only as much is read as somebody looks at: runs of bytes stay where they
/// are.
#[derive(Debug)]
pub struct Scan<'w> {
    window: &'w Window,
    at: u64,
    end: u64,
    /// Bytes at hand, and where they begin.
    chunk: (u64, Bytes),
}

/// The value of a field of a [`Scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A whole number, a truth value, an element of an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Where text, bytes, a message, or packed numbers are, in bytes of the file.
    Bytes(Range<u64>),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl<'w> Scan<'w> {
    /// The fields of the message at `place`, which is in the file.
    pub fn new(window: &'w Window, place: Range<u64>) -> Scan<'w> {
        let end = place.end.min(window.len());
        Scan { window, at: place.start.min(end), end, chunk: (0, Bytes::new()) }
    }

    /// Where the next field, or number, begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The number and value of the next field; `None` at the end.
    ///
    /// # Errors
    /// [`BROKEN`]; what the window needs.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, Item)>, Stop> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Item::Varint(self.varint()?),
            1 => Item::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                let end = self.at.checked_add(len).filter(|end| *end <= self.end);
                let Some(end) = end else {
                    let left = self.end.saturating_sub(self.at);
                    let message = format!("a value of {len} bytes where {left} are left");
                    return Err(BROKEN.broken(message).at(start..self.at).into());
                };
                let from = std::mem::replace(&mut self.at, end);
                Item::Bytes(from..end)
            }
            5 => Item::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups were given up before anyone used them for what we read.
            other => {
                let message = format!("a field of type {other}");
                return Err(BROKEN.broken(message).at(start..self.at).into());
            }
        };
        match tag >> 3 {
            0 => Err(BROKEN.broken("a field of number 0").at(start..self.at).into()),
            number => Ok(Some((number, value))),
        }
    }

    /// The next whole number of packed ones; `None` at the end.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub fn number(&mut self) -> Result<Option<u64>, Stop> {
        if self.at >= self.end { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let start = self.at;
        let mut out = 0u64;
        for shift in (0..64u32).step_by(7) {
            let [byte] = self.array()?;
            out |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(out);
            }
        }
        Err(BROKEN.broken("a number of more than ten bytes").at(start..self.at).into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let upto = self.at.saturating_add(N as u64);
        if upto > self.end {
            let message = "the message ends inside of a number";
            return Err(BROKEN.broken(message).at(self.at..self.end).into());
        }
        let (start, bytes) = &self.chunk;
        let from = self.at.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
        let here = from.and_then(|from| bytes.get(from..)?.first_chunk::<N>().copied());
        let found = match here {
            Some(found) => found,
            None => {
                let start = (self.at / CHUNK).saturating_mul(CHUNK);
                let end = start.saturating_add(CHUNK).max(upto).min(self.window.len());
                let bytes = match self.window.bytes(start..end) {
                    Err(Stop::Need(_)) => return Err(self.need(start, end)),
                    found => found?,
                };
                let from = usize::try_from(self.at.saturating_sub(start)).unwrap_or(usize::MAX);
                let found = bytes.get(from..).and_then(|rest| rest.first_chunk::<N>().copied());
                self.chunk = (start, bytes);
                found.unwrap_or([0; N])
            }
        };
        self.at = upto;
        Ok(found)
    }

    /// The need for the chunk `start..end`, and for more of what follows where much of what is before it was read: who is called again
    /// for each chunk would go through all before it as many times.
    fn need(&self, start: u64, end: u64) -> Stop {
        let mut len = CHUNK;
        let was_read = |len: u64| {
            start.checked_sub(len).is_some_and(|from| self.window.bytes(from..start).is_ok())
        };
        while len < MOST_CHUNK && was_read(len) {
            len = len.saturating_mul(2);
        }
        let needed = start..start.saturating_add(len).min(self.window.len()).max(end);
        Stop::Need(Vec::from([needed]))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_one_by_one() {
        let mut fields = Fields::new(&[0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0]);
        assert_eq!(fields.next().unwrap(), Some((1, Field::Varint(150))));
        assert_eq!(fields.next().unwrap().unwrap().1.text(), Some("hi"));
        assert_eq!(fields.next().unwrap(), Some((3, Field::Fixed32(1))));
        assert_eq!(fields.next().unwrap(), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let eleven = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        for bytes in
            [&[0x08][..], &[0x00, 0x01], &[0x12, 0x05, 1], &[0x0b], &[0x09, 1, 2, 3], &eleven]
        {
            let mut fields = Fields::new(bytes);
            assert_eq!(fields.next().unwrap_err().code(), BROKEN.code, "{bytes:?}");
            assert!(matches!(fields.next(), Ok(None)), "{bytes:?}");
        }
    }
}
