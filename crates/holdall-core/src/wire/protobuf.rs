//! Protocol buffers: reading messages field by field, without a schema and without allocating.

use crate::error::{Error, Result};
use crate::window::{Stop, Window};
use crate::wire::cursor::varint;
use crate::wire::forward::Forward;
use std::ops::Range;

crate::error::rules! {
    /// Rules of protocol buffers.
    pub static RULES;

    /// The bytes are not a message.
    pub BROKEN: Malformed "protobuf/broken"
        "A message is a sequence of complete fields, each a tag and a value of the tag's type.";
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// An integer, a boolean, or a value of an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl<'a> Field<'a> {
    /// Returns the bytes, if the value consists of bytes.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Field::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the text, if the value is UTF-8.
    pub fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns the number, if the value is an integer.
    pub fn varint(self) -> Option<u64> {
        match self {
            Field::Varint(n) => Some(n),
            _ => None,
        }
    }
}

/// The fields of a message, in the order in which they are stored. Fields that are not needed are skipped without being
/// decoded.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Creates an iterator over the fields of the message in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { left: bytes }
    }

    /// Returns the number and the value of the next field, or `None` at the end.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the message is malformed. No further fields are returned then.
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
            // Groups were deprecated before the formats read here existed.
            other => return Err(self.broken(format!("unsupported field of type {other}"))),
        };
        match tag >> 3 {
            0 => Err(self.broken("a field has the number 0".into())),
            number => Ok(Some((number, value))),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let found = varint(|| self.array().map(|[byte]| byte))?;
        found.ok_or_else(|| self.broken("a number has more than ten bytes".into()))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N as u64)?;
        bytes
            .try_into()
            .map_err(|_| self.broken(format!("expected a value of {N} bytes, found fewer")))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(len).ok().and_then(|len| self.left.split_at_checked(len));
        let Some((now, later)) = split else {
            let left = self.left.len();
            return Err(
                self.broken(format!("a value of {len} bytes exceeds the {left} bytes left"))
            );
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

/// Checks that bytes are integers, one after the other, as in packed fields.
///
/// # Errors
/// Returns [`BROKEN`] if they are not.
pub fn varints(bytes: &[u8]) -> Result<()> {
    let mut fields = Fields::new(bytes);
    while !fields.left.is_empty() {
        fields.varint()?;
    }
    Ok(())
}

/// The fields of a message in a file, which reads only the bytes that are needed. Values that consist of bytes are
/// returned as ranges.
#[derive(Debug)]
pub struct Scan<'w>(Forward<'w>);

/// The value of a field of a [`Scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An integer, a boolean, or a value of an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// The range in the file of text, bytes, a message, or packed numbers.
    Bytes(Range<u64>),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl<'w> Scan<'w> {
    /// Creates a scan of the message in `range` of the file.
    pub fn new(window: &'w Window, range: Range<u64>) -> Scan<'w> {
        Scan(Forward::new(window, range))
    }

    /// Returns the offset of the next field or number.
    pub fn position(&self) -> u64 {
        self.0.position()
    }

    /// Returns the number and the value of the next field, or `None` at the end.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the message is malformed, and [`Stop::Need`] if bytes are missing.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, Item)>, Stop> {
        if self.0.remaining() == 0 {
            return Ok(None);
        }
        let start = self.position();
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Item::Varint(self.varint()?),
            1 => Item::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                let Some(run) = self.0.pass(len) else {
                    let left = self.0.remaining();
                    let message = format!("a value of {len} bytes exceeds the {left} bytes left");
                    return Err(BROKEN.broken(message).at(start..self.position()).into());
                };
                Item::Bytes(run)
            }
            5 => Item::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups were deprecated before the formats read here existed.
            other => {
                let message = format!("unsupported field of type {other}");
                return Err(BROKEN.broken(message).at(start..self.position()).into());
            }
        };
        match tag >> 3 {
            0 => Err(BROKEN.broken("a field has the number 0").at(start..self.position()).into()),
            number => Ok(Some((number, value))),
        }
    }

    /// Returns the next packed integer, or `None` at the end.
    ///
    /// # Errors
    /// Returns the errors of [`Scan::next`].
    pub fn number(&mut self) -> Result<Option<u64>, Stop> {
        if self.0.remaining() == 0 { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let start = self.position();
        let found = varint(|| self.array().map(|[byte]| byte))?;
        found.ok_or_else(|| {
            BROKEN.broken("a number has more than ten bytes").at(start..self.position()).into()
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        if let Some(found) = self.0.array()? {
            return Ok(found);
        }
        let (start, left) = (self.position(), self.0.remaining());
        let message = "the message ends inside a number";
        Err(BROKEN.broken(message).at(start..start.saturating_add(left)).into())
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
    fn invalid_messages_are_refused() {
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
