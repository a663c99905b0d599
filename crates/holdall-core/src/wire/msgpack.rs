//! MessagePack, read value by value. Texts, bytes and extensions are returned as ranges.
//!
//! ```text
//! 00–7f      a number        c0 c2 c3   nothing, false, true    d0–d3    numbers of 1 to 8 bytes, signed
//! 80–8f      a map           c4–c6      bytes                   d4–d8    extensions of 1 to 16 bytes
//! 90–9f      an array        c7–c9      extensions              d9–db    texts
//! a0–bf      a text          ca cb      floats                  dc dd    arrays
//! e0–ff      -32 to -1       cc–cf      numbers, not negative   de df    maps
//! ```
//! Values longer than a byte are big-endian.

use super::forward::Forward;
use crate::window::{Stop, Window};
use std::ops::Range;

crate::error::rules! {
    /// Rules of MessagePack.
    pub static RULES;

    /// The bytes are not a valid value.
    pub BROKEN: Malformed "msgpack/broken"
        "A value is complete and of a type that MessagePack has; an array or map has as many items as it states.";
}

/// A value, or the start of an array or map.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Nil.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A whole number, from -2^63 to 2^64 - 1.
    Integer(i128),
    /// A float; single precision is widened without loss.
    Float(f64),
    /// The range of a text.
    Text(Range<u64>),
    /// The range of bytes.
    Bytes(Range<u64>),
    /// An array of this many values, which follow.
    Array(u64),
    /// A map of this many keys, each followed by its value.
    Map(u64),
    /// The type of an extension, and the range of its bytes.
    Ext(i8, Range<u64>),
}

/// Reads values one after the other.
#[derive(Debug)]
pub struct Scan<'w>(Forward<'w>);

impl<'w> Scan<'w> {
    /// Creates a scan of the values in `range` of the file.
    pub fn new(window: &'w Window, range: Range<u64>) -> Scan<'w> {
        Scan(Forward::new(window, range))
    }

    /// Returns the offset of the next value.
    pub fn position(&self) -> u64 {
        self.0.position()
    }

    /// Returns `true` if no value is left.
    pub fn is_at_end(&self) -> bool {
        self.0.remaining() == 0
    }

    /// Reads the next value. The items of an array or a map follow; there is at least one byte left for each.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the value is invalid, and [`Stop::Need`] if bytes are missing.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Item, Stop> {
        let start = self.position();
        let [first] = self.array(start)?;
        Ok(match first {
            0x00..=0x7f => Item::Integer(first.into()),
            0x80..=0x8f => self.map(start, u64::from(first & 15))?,
            0x90..=0x9f => self.items(start, u64::from(first & 15))?,
            0xa0..=0xbf => Item::Text(self.run(start, u64::from(first & 31))?),
            0xc0 => Item::Nil,
            0xc1 => {
                return Err(BROKEN
                    .broken("a value has the reserved type 0xc1")
                    .at(start..start)
                    .into());
            }
            0xc2 => Item::Bool(false),
            0xc3 => Item::Bool(true),
            0xc4..=0xc6 => {
                let len = self.len(start, first & 3)?;
                Item::Bytes(self.run(start, len)?)
            }
            0xc7..=0xc9 => {
                let len = self.len(start, (first & 15).saturating_sub(7))?;
                self.ext(start, len)?
            }
            0xca => Item::Float(f32::from_be_bytes(self.array(start)?).into()),
            0xcb => Item::Float(f64::from_be_bytes(self.array(start)?)),
            0xcc..=0xcf => Item::Integer(self.len(start, first & 3)?.into()),
            0xd0 => Item::Integer(i8::from_be_bytes(self.array(start)?).into()),
            0xd1 => Item::Integer(i16::from_be_bytes(self.array(start)?).into()),
            0xd2 => Item::Integer(i32::from_be_bytes(self.array(start)?).into()),
            0xd3 => Item::Integer(i64::from_be_bytes(self.array(start)?).into()),
            0xd4..=0xd8 => {
                let len = 1u64.wrapping_shl(first.wrapping_sub(0xd4).into());
                self.ext(start, len)?
            }
            0xd9..=0xdb => {
                let len = self.len(start, (first & 3).saturating_sub(1))?;
                Item::Text(self.run(start, len)?)
            }
            0xdc | 0xdd => {
                let count = self.len(start, (first & 1).saturating_add(1))?;
                self.items(start, count)?
            }
            0xde | 0xdf => {
                let count = self.len(start, (first & 1).saturating_add(1))?;
                self.map(start, count)?
            }
            0xe0..=0xff => Item::Integer(first.cast_signed().into()),
        })
    }

    /// Reads a number of 1, 2, 4 or 8 bytes, for a `size` of 0 to 3.
    fn len(&mut self, start: u64, size: u8) -> Result<u64, Stop> {
        Ok(match size {
            0 => u8::from_be_bytes(self.array(start)?).into(),
            1 => u16::from_be_bytes(self.array(start)?).into(),
            2 => u32::from_be_bytes(self.array(start)?).into(),
            _ => u64::from_be_bytes(self.array(start)?),
        })
    }

    fn ext(&mut self, start: u64, len: u64) -> Result<Item, Stop> {
        let [kind] = self.array(start)?;
        Ok(Item::Ext(kind.cast_signed(), self.run(start, len)?))
    }

    /// Each item takes at least one byte.
    fn items(&self, start: u64, count: u64) -> Result<Item, Stop> {
        self.fits(start, count, count).map(|()| Item::Array(count))
    }

    fn map(&self, start: u64, count: u64) -> Result<Item, Stop> {
        self.fits(start, count, count.saturating_mul(2)).map(|()| Item::Map(count))
    }

    fn fits(&self, start: u64, count: u64, least: u64) -> Result<(), Stop> {
        let left = self.0.remaining();
        if least > left {
            let message = format!("{count} items exceed the {left} bytes left");
            return Err(BROKEN.broken(message).at(start..self.position()).into());
        }
        Ok(())
    }

    fn run(&mut self, start: u64, len: u64) -> Result<Range<u64>, Stop> {
        let left = self.0.remaining();
        self.0.pass(len).ok_or_else(|| {
            let message = format!("a value of {len} bytes exceeds the {left} bytes left");
            BROKEN.broken(message).at(start..self.position()).into()
        })
    }

    fn array<const N: usize>(&mut self, start: u64) -> Result<[u8; N], Stop> {
        self.0.array()?.ok_or_else(|| {
            let message = format!("a value ends {} bytes early", N as u64);
            let end = self.position().saturating_add(self.0.remaining());
            BROKEN.broken(message).at(start..end).into()
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn all(bytes: &'static [u8]) -> Vec<Item> {
        let window = Window::whole(bytes.into());
        let mut scan = Scan::new(&window, 0..window.len());
        let mut out = Vec::new();
        while !scan.is_at_end() {
            out.push(scan.next().unwrap());
        }
        out
    }

    #[test]
    fn values_of_every_type_are_read() {
        let long = b"\xcd\x01\x00\xce\x00\x01\x00\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xd3\x80\0\0\0\0\0\0\0";
        let numbers = [256, 65536, u64::MAX.into(), i64::MIN.into()].map(Item::Integer);
        assert_eq!(all(long), numbers);
        assert_eq!(
            all(b"\x7f\xe0\xcc\xff\xd0\x80\xd1\xff\xfe\xd2\xff\xff\xff\xfd"),
            [127, -32, 255, -128, -2, -3].map(Item::Integer)
        );
        assert_eq!(
            all(b"\xc0\xc2\xc3\xca\x3f\x80\0\0\xcb\x40\0\0\0\0\0\0\0"),
            [Item::Nil, Item::Bool(false), Item::Bool(true), Item::Float(1.0), Item::Float(2.0)]
        );
        assert_eq!(
            all(b"\xa1a\xd9\x01b\xda\0\x01c\xdb\0\0\0\x01d\xc4\x01e\xc5\0\x01f\xc6\0\0\0\x01g"),
            [
                Item::Text(1..2),
                Item::Text(4..5),
                Item::Text(8..9),
                Item::Text(14..15),
                Item::Bytes(17..18),
                Item::Bytes(21..22),
                Item::Bytes(27..28)
            ]
        );
        assert_eq!(
            all(b"\xd4\x01a\xd5\x02ab\xc7\x01\xffa\xc8\0\x01\x03a\xc9\0\0\0\x01\x04a"),
            [
                Item::Ext(1, 2..3),
                Item::Ext(2, 5..7),
                Item::Ext(-1, 10..11),
                Item::Ext(3, 15..16),
                Item::Ext(4, 22..23)
            ]
        );
        assert_eq!(
            all(b"\x81\x01\x91\x02\xdc\0\x01\xdd\0\0\0\x01\xde\0\x01\xdf\0\0\0\x01\0\0"),
            [
                Item::Map(1),
                Item::Integer(1),
                Item::Array(1),
                Item::Integer(2),
                Item::Array(1),
                Item::Array(1),
                Item::Map(1),
                Item::Map(1),
                Item::Integer(0),
                Item::Integer(0)
            ]
        );
    }

    #[test]
    fn invalid_values_are_refused() {
        for bytes in [
            &b"\xc1"[..],
            b"\xa2a",
            b"\xcd\x01",
            b"\x92\x01",
            b"\xdf\xff\xff\xff\xff\0",
            b"\xdb\xff\xff\xff\xff",
            b"\xc9\0\0\0\x02\x01a",
            b"\xd8\x01abc",
            b"",
        ] {
            let window = Window::whole(bytes.into());
            let found = Scan::new(&window, 0..window.len()).next();
            assert!(
                matches!(&found, Err(Stop::Fail(e)) if e.code() == BROKEN.code),
                "{bytes:?} {found:?}"
            );
        }
    }
}
