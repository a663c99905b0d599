//! Extra fields, each with an identifier, a length and that many bytes.

use super::rules::*;
use crate::error::Result;
use crate::wire::cursor::Cursor;

/// The identifier of the field for numbers that do not fit in a header.
const ZIP64_ID: u16 = 0x0001;
/// The identifier of Info-ZIP's field with the name in UTF-8.
const UNICODE_PATH_ID: u16 = 0x7075;
/// Bytes of that field before the name: a version and a CRC-32.
const UNICODE_PATH_HEAD: usize = 5;
/// The value of a 32-bit number that is stored in the zip64 field.
pub(super) const FULL: u64 = 0xffff_ffff;

/// The extra fields that are read.
#[derive(Default)]
pub(super) struct Extra<'a> {
    zip64: Option<Cursor<'a>>,
    /// The name in UTF-8, if there is such a field.
    pub(super) path: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    /// Reads all fields. Up to 3 zeros may follow the last one, because tools that align entries pad with them.
    ///
    /// # Errors
    /// Returns [`EXTRA`] if the fields are malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Extra<'a>> {
        let mut out = Extra::default();
        let mut c = Cursor::new(bytes);
        while c.remaining() >= 4 {
            let field = c.u16_le().zip(c.u16_le());
            let Some((id, field)) = field.and_then(|(id, len)| Some((id, c.take(len.into())?)))
            else {
                return Err(EXTRA.broken("an extra field exceeds the bytes left"));
            };
            match id {
                ZIP64_ID if out.zip64.is_some() => {
                    return Err(EXTRA.broken("expected one zip64 extra field, found two"));
                }
                ZIP64_ID => out.zip64 = Some(Cursor::new(field)),
                UNICODE_PATH_ID if out.path.is_some() => {
                    return Err(EXTRA.broken("two extra fields with the name"));
                }
                UNICODE_PATH_ID => {
                    out.path = Some(field.get(UNICODE_PATH_HEAD..).unwrap_or_default());
                }
                _ => {}
            }
        }
        let rest = c.take(c.remaining()).unwrap_or_default();
        if rest.iter().any(|&b| b != 0) {
            return Err(EXTRA.broken(format!("{} bytes follow the last extra field", rest.len())));
        }
        Ok(out)
    }

    /// Returns `small`, or the next number of the zip64 field if `small` has the value that refers to it.
    ///
    /// # Errors
    /// Returns [`ZIP64`] if the zip64 field does not contain the number.
    pub(super) fn wide(&mut self, small: u32) -> Result<u64> {
        let small = u64::from(small);
        if small != FULL {
            return Ok(small);
        }
        self.zip64
            .as_mut()
            .and_then(Cursor::u64_le)
            .ok_or_else(|| ZIP64.broken("a number is missing in the zip64 extra field"))
    }

    /// Returns `small`, or the next 32 bits of the zip64 field if `small` has the value that refers to them.
    ///
    /// # Errors
    /// Returns the errors of [`Extra::wide`].
    pub(super) fn disk(&mut self, small: u16) -> Result<u32> {
        if small != 0xffff {
            return Ok(small.into());
        }
        self.zip64
            .as_mut()
            .and_then(Cursor::u32_le)
            .ok_or_else(|| ZIP64.broken("a disk number is missing in the zip64 extra field"))
    }
}
