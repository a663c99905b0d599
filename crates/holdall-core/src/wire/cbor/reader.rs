//! Reading items one after the other from a byte slice.

use super::*;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::wire::cursor::Cursor;
use std::ops::Range;

pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
/// Additional information of an item of indefinite length and, with major type 7, of a break.
pub(super) const INDEFINITE: u8 = 31;
pub(super) const NULL_BYTE: u8 = 0xf6;
const BREAK_BYTE: u8 = 0xff;

/// Reads CBOR items from a slice.
///
/// The typed reads ([`Reader::text`], [`Reader::u64`], [`Reader::array`], [`Reader::map`]) are for a format's own
/// structure: `context` names the item in errors. Attribute values are read with [`Reader::value`] and
/// [`Reader::attributes`].
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    base: u64,
    /// The bytes of the file from which the slice was computed, if it is not a part of the file itself.
    made_from: Option<Range<u64>>,
    pub(super) depth: usize,
    max_depth: usize,
    pub(super) values_left: u64,
}

/// The rest of an array or map that is being read; see [`Reader::more`].
#[derive(Debug)]
#[must_use]
pub struct Items {
    /// `None` if the length is indefinite.
    left: Option<u64>,
}

impl Items {
    /// Returns the number of items left, if the file states it. There is at least one byte left for each.
    pub fn left(&self) -> Option<u64> {
        self.left
    }
}

/// The first bytes of an item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) major: u8,
    pub(super) info: u8,
    /// A number, length or count; 0 if `info` is [`INDEFINITE`].
    pub(super) arg: u64,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which start at offset `base` in the file (for errors).
    pub fn new(bytes: &'a [u8], base: u64, limits: &Limits) -> Reader<'a> {
        Reader {
            cursor: Cursor::new(bytes),
            base,
            made_from: None,
            depth: 0,
            max_depth: limits.depth.min(MAX_DEPTH),
            values_left: limits.attribute_values,
        }
    }

    /// Creates a reader of `bytes` that were computed from the bytes `made_from` of the file, to which errors refer.
    pub fn from_copy(bytes: &'a [u8], made_from: Range<u64>, limits: &Limits) -> Reader<'a> {
        Reader { made_from: Some(made_from.clone()), ..Reader::new(bytes, made_from.start, limits) }
    }

    /// Returns the offset of the next item in the file.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.base.saturating_add(self.cursor.position())
    }

    /// Returns the number of bytes that were not read yet.
    pub fn remaining(&self) -> u64 {
        self.cursor.remaining()
    }

    /// Returns the range of the file from `start` to the next item.
    #[inline]
    pub fn since(&self, start: u64) -> Range<u64> {
        match &self.made_from {
            None => start..self.offset(),
            Some(made_from) => made_from.clone(),
        }
    }

    /// Reads text.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`] if the next item is not text, [`UTF8`] if it is not UTF-8, and [`TRUNCATED`] if the bytes
    /// end inside it.
    #[inline]
    pub fn text(&mut self, context: &'static str) -> Result<&'a str> {
        let start = self.offset();
        let bytes = self.name(context)?;
        self.utf8(bytes, start)
    }

    /// Reads text as bytes, which may be invalid until [`Reader::utf8`] checks them. A decoder that looks for known
    /// names compares the bytes first.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`] if the next item is not text, and [`TRUNCATED`] if the bytes end inside it.
    #[inline(always)]
    pub fn name(&mut self, context: &'static str) -> Result<&'a [u8]> {
        match self.cursor.small_string(TEXT << 5) {
            Some(bytes) => Ok(bytes),
            None => self
                .long_text(|reader, head, start| reader.unexpected("text", context, head, start)),
        }
    }

    /// Reads a map's key as bytes, like [`Reader::name`].
    ///
    /// # Errors
    /// Returns [`KEY`] if the next item is not text, and [`TRUNCATED`] if the bytes end inside it.
    #[inline(always)]
    pub fn key(&mut self, context: &'static str) -> Result<&'a [u8]> {
        match self.cursor.small_string(TEXT << 5) {
            Some(bytes) => Ok(bytes),
            None => self.long_text(|reader, head, start| {
                let found = kind_name(head);
                KEY.broken(format!("a key of {context} is {found}, not text"))
                    .at(reader.since(start))
            }),
        }
    }

    /// Reads text of any length, or returns the error `other` if the next item is not text.
    fn long_text(&mut self, other: impl FnOnce(&Self, Head, u64) -> Error) -> Result<&'a [u8]> {
        let start = self.offset();
        let head = self.head()?;
        if head.major != TEXT {
            return Err(other(self, head, start));
        }
        if head.info == INDEFINITE {
            return Err(ITEM_KIND
                .broken("expected text of definite length, found text of indefinite length")
                .at(self.since(start)));
        }
        self.take(head.arg, start)
    }

    /// Converts `bytes` to text. They were read from offset `start` of the file.
    ///
    /// # Errors
    /// Returns [`UTF8`] if the bytes are not UTF-8.
    #[inline]
    pub fn utf8(&self, bytes: &'a [u8], start: u64) -> Result<&'a str> {
        std::str::from_utf8(bytes)
            .map_err(|e| UTF8.broken("text is not UTF-8").because(e).at(self.since(start)))
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`] if the next item is not an unsigned integer, and [`TRUNCATED`] if the bytes end inside it.
    #[inline(always)]
    pub fn u64(&mut self, context: &'static str) -> Result<u64> {
        match self.cursor.small(UNSIGNED << 5) {
            Some(n) => Ok(n.into()),
            None => self.large_u64(context),
        }
    }

    fn large_u64(&mut self, context: &'static str) -> Result<u64> {
        let start = self.offset();
        let head = self.head()?;
        if head.major != UNSIGNED {
            return Err(self.unexpected("an unsigned integer", context, head, start));
        }
        Ok(head.arg)
    }

    /// Reads the start of an array.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`] if the next item is not an array, [`COUNT`] if it has more items than bytes left,
    /// [`DEPTH`] if it is nested too deeply, and [`TRUNCATED`] if the bytes end inside it.
    #[inline(always)]
    pub fn array(&mut self, context: &'static str) -> Result<Items> {
        self.container(ARRAY, context)
    }

    /// Reads the start of a map. Each of its [`Items`] is a key and a value.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::array`], for a map.
    #[inline(always)]
    pub fn map(&mut self, context: &'static str) -> Result<Items> {
        self.container(MAP, context)
    }

    #[inline(always)]
    fn container(&mut self, major: u8, context: &'static str) -> Result<Items> {
        let before = self.cursor.clone();
        if let Some(count) = self.cursor.small(major << 5) {
            let least = if major == MAP { count.wrapping_mul(2) } else { count };
            if u64::from(least) <= self.cursor.remaining() && self.depth < self.max_depth {
                self.depth = self.depth.wrapping_add(1);
                return Ok(Items { left: Some(count.into()) });
            }
            self.cursor = before;
        }
        self.large_container(major, context)
    }

    fn large_container(&mut self, major: u8, context: &'static str) -> Result<Items> {
        let start = self.offset();
        let head = self.head()?;
        if head.major != major {
            let wanted = if major == MAP { "a map" } else { "an array" };
            return Err(self.unexpected(wanted, context, head, start));
        }
        self.open(head, start)
    }

    /// Returns `true` if another item follows; in a map, another key and value. Call it before each item, until it
    /// returns `false`.
    ///
    /// # Errors
    /// Returns [`TRUNCATED`] if the bytes end.
    #[inline(always)]
    pub fn more(&mut self, items: &mut Items) -> Result<bool> {
        let more = match &mut items.left {
            Some(left) => match left.checked_sub(1) {
                Some(rest) => {
                    *left = rest;
                    true
                }
                None => false,
            },
            None => match self.cursor.peek() {
                Some(BREAK_BYTE) => {
                    self.cursor.u8();
                    false
                }
                Some(_) => true,
                None => return Err(self.truncated(self.offset())),
            },
        };
        if !more {
            self.depth = self.depth.saturating_sub(1);
        }
        Ok(more)
    }

    /// Reads a null, if one is next, and returns whether it was.
    #[inline]
    pub fn null(&mut self) -> bool {
        let is_null = self.cursor.peek() == Some(NULL_BYTE);
        if is_null {
            self.cursor.u8();
        }
        is_null
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// Returns [`TRAILING`] if bytes follow.
    pub fn end(&self) -> Result<()> {
        let (left, at) = (self.cursor.remaining(), self.offset());
        if left == 0 {
            return Ok(());
        }
        Err(TRAILING
            .broken(format!("{left} bytes follow the item"))
            .at(at..at.saturating_add(left)))
    }

    /// Skips the next item of any kind. Tags and strings of indefinite length are allowed; keys are not compared.
    ///
    /// # Errors
    /// Returns [`TRUNCATED`], [`RESERVED`], [`BREAK`], [`UTF8`], [`COUNT`] or [`DEPTH`] if the item is invalid.
    pub fn skip(&mut self) -> Result<()> {
        // The items left in each open array, map and tag, innermost last.
        let mut open: Vec<Frame> = Vec::new();
        loop {
            let start = self.offset();
            let head = self.head()?;
            let complete = match (head.major, head.info) {
                (UNSIGNED | NEGATIVE, _) => true,
                (BYTES | TEXT, INDEFINITE) => {
                    self.chunks(head.major, |_| ())?;
                    true
                }
                (BYTES | TEXT, _) => {
                    let bytes = self.take(head.arg, start)?;
                    if head.major == TEXT {
                        self.utf8(bytes, start)?;
                    }
                    true
                }
                (ARRAY | MAP, _) => {
                    let frame = Frame::new(head);
                    self.check_count(head, start)?;
                    self.check_depth(open.len(), start)?;
                    let empty = frame.left == Some(0);
                    if !empty {
                        open.push(frame);
                    }
                    empty
                }
                (TAG, _) => {
                    self.check_depth(open.len(), start)?;
                    open.push(Frame { left: Some(1), pairs: false, odd: false });
                    false
                }
                (_, INDEFINITE) => match open.pop() {
                    Some(Frame { left: None, pairs, odd }) if !(pairs && odd) => true,
                    _ => return Err(self.stray_break(start)),
                },
                _ => {
                    self.check_simple(head, start)?;
                    true
                }
            };
            if !complete {
                continue;
            }
            loop {
                let Some(frame) = open.last_mut() else { return Ok(()) };
                frame.odd = !frame.odd;
                let Some(left) = &mut frame.left else { break };
                *left = left.saturating_sub(1);
                if *left > 0 {
                    break;
                }
                open.pop();
            }
        }
    }

    /// Reads the first bytes of the next item.
    #[inline]
    pub(super) fn head(&mut self) -> Result<Head> {
        let start = self.offset();
        let Some(first) = self.cursor.u8() else { return Err(self.truncated(start)) };
        let (major, info) = (first >> 5, first & 31);
        let arg = match info {
            0..=23 => Some(info.into()),
            24 => self.cursor.u8().map(u64::from),
            25 => self.cursor.array().map(|b| u16::from_be_bytes(b).into()),
            26 => self.cursor.array().map(|b| u32::from_be_bytes(b).into()),
            27 => self.cursor.array().map(u64::from_be_bytes),
            INDEFINITE if major >= BYTES && major != TAG => Some(0),
            _ => return Err(self.reserved(first, start)),
        };
        match arg {
            Some(arg) => Ok(Head { major, info, arg }),
            None => Err(self.truncated(start)),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, n: u64, start: u64) -> Result<&'a [u8]> {
        match self.cursor.take(n) {
            Some(bytes) => Ok(bytes),
            None => {
                let left = self.cursor.remaining();
                Err(TRUNCATED
                    .broken(format!("a string of {n} bytes exceeds the {left} bytes left"))
                    .at(start..self.offset().saturating_add(left)))
            }
        }
    }

    /// Calls `each` with the chunks of a string of indefinite length, up to its break.
    pub(super) fn chunks(&mut self, major: u8, mut each: impl FnMut(&'a [u8])) -> Result<()> {
        loop {
            let start = self.offset();
            let head = self.head()?;
            match (head.major, head.info) {
                (7, INDEFINITE) => return Ok(()),
                (m, info) if m == major && info != INDEFINITE => {
                    let bytes = self.take(head.arg, start)?;
                    if major == TEXT {
                        // RFC 8949, section 3.2.3: no character is split between chunks.
                        self.utf8(bytes, start)?;
                    }
                    each(bytes);
                }
                _ => {
                    return Err(RESERVED
                        .broken(format!(
                            "a string of indefinite length contains {}, expected definite chunks of its kind",
                            kind_name(head)
                        ))
                        .at(self.since(start)));
                }
            }
        }
    }

    /// Enters an array or map.
    #[inline]
    pub(super) fn open(&mut self, head: Head, start: u64) -> Result<Items> {
        self.check_count(head, start)?;
        self.check_depth(0, start)?;
        self.depth = self.depth.saturating_add(1);
        Ok(Items { left: (head.info != INDEFINITE).then_some(head.arg) })
    }

    #[inline]
    fn check_count(&self, head: Head, start: u64) -> Result<()> {
        let least = if head.major == MAP { head.arg.saturating_mul(2) } else { head.arg };
        let left = self.cursor.remaining();
        if least > left {
            return Err(COUNT
                .broken(format!(
                    "{} of {} items requires at least {least} bytes, but {left} are left",
                    kind_name(head),
                    head.arg
                ))
                .at(self.since(start)));
        }
        Ok(())
    }

    /// Checks that another array, map or tag may open, `below` levels inside the ones open here.
    #[inline]
    pub(super) fn check_depth(&self, below: usize, start: u64) -> Result<()> {
        if self.depth.saturating_add(below) >= self.max_depth {
            return Err(DEPTH
                .broken(format!("nested more than {} levels deep", self.max_depth))
                .at(self.since(start)));
        }
        Ok(())
    }

    /// Checks a simple value (RFC 8949, section 3.3: values below 32 never take two bytes).
    pub(super) fn check_simple(&self, head: Head, start: u64) -> Result<()> {
        if head.info == 24 && head.arg < 32 {
            return Err(RESERVED
                .broken(format!("simple value {} in its two-byte form", head.arg))
                .at(self.since(start)));
        }
        Ok(())
    }

    #[cold]
    fn reserved(&self, first: u8, start: u64) -> Error {
        RESERVED
            .broken(format!("an item starts with the reserved byte 0x{first:02x}"))
            .at(self.since(start))
    }

    #[cold]
    fn truncated(&self, start: u64) -> Error {
        let end = self.offset().saturating_add(self.cursor.remaining());
        TRUNCATED.broken("the bytes end inside an item").at(start..end)
    }

    #[cold]
    pub(super) fn stray_break(&self, start: u64) -> Error {
        BREAK.broken("expected an item, found a break").at(self.since(start))
    }

    #[cold]
    fn unexpected(&self, wanted: &str, context: &str, head: Head, start: u64) -> Error {
        let range = self.since(start);
        match (head.major, head.info) {
            (7, INDEFINITE) => self.stray_break(start),
            (TAG, _) => {
                let tag = head.arg;
                ITEM_KIND
                    .broken(format!("expected {wanted} at {context}, found tag {tag}"))
                    .at(range)
            }
            _ => ITEM_KIND
                .broken(format!("expected {wanted} at {context}, found {}", kind_name(head)))
                .at(range),
        }
    }
}

/// An array, map or tag that encloses the current item in [`Reader::skip`].
struct Frame {
    left: Option<u64>,
    pairs: bool,
    /// Whether an odd number of items was skipped.
    odd: bool,
}

impl Frame {
    fn new(head: Head) -> Frame {
        let pairs = head.major == MAP;
        let items = if pairs { head.arg.saturating_mul(2) } else { head.arg };
        Frame { left: (head.info != INDEFINITE).then_some(items), pairs, odd: false }
    }
}

/// Returns the name of an item's type, for messages.
fn kind_name(head: Head) -> &'static str {
    match (head.major, head.info) {
        (UNSIGNED, _) => "an unsigned integer",
        (NEGATIVE, _) => "a negative integer",
        (BYTES, _) => "a byte string",
        (TEXT, _) => "text",
        (ARRAY, _) => "an array",
        (MAP, _) => "a map",
        (TAG, _) => "a tag",
        (_, 20 | 21) => "a boolean",
        (_, 22) => "null",
        (_, 23) => "undefined",
        (_, 25..=27) => "a float",
        (_, INDEFINITE) => "a break",
        _ => "a simple value",
    }
}
