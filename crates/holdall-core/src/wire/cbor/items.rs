//! Reading items in every form that CBOR has for them, for formats that must accept all of them.

use super::reader::{ARRAY, BYTES, INDEFINITE, MAP, NEGATIVE, TAG, TEXT, UNSIGNED};
use super::*;
use crate::error::Result;
use std::borrow::Cow;

/// The kind of an item, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An integer, negative or not.
    Integer,
    /// A byte string.
    Bytes,
    /// A text.
    Text,
    /// An array.
    Array,
    /// A map.
    Map,
    /// A tag, and the item that it is on.
    Tag,
    /// A float, a simple value or a break.
    Other,
}

impl<'a> Reader<'a> {
    /// Returns the kind of the next item, or `None` at the end of the bytes.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self.cursor.peek()? >> 5 {
            UNSIGNED | NEGATIVE => Kind::Integer,
            BYTES => Kind::Bytes,
            TEXT => Kind::Text,
            ARRAY => Kind::Array,
            MAP => Kind::Map,
            TAG => Kind::Tag,
            _ => Kind::Other,
        })
    }

    /// Reads the tags before the next item, outermost first.
    ///
    /// # Errors
    /// Returns [`RESERVED`], [`DEPTH`] or [`TRUNCATED`].
    pub fn tags(&mut self) -> Result<Vec<u64>> {
        let mut tags = Vec::new();
        while self.kind() == Some(Kind::Tag) {
            let start = self.offset();
            self.check_depth(tags.len(), start)?;
            tags.push(self.head()?.arg);
        }
        Ok(tags)
    }

    /// Reads a text of definite or indefinite length.
    ///
    /// # Errors
    /// Returns [`ITEM_KIND`], [`UTF8`], [`RESERVED`] or [`TRUNCATED`].
    pub fn any_text(&mut self, context: &'static str) -> Result<Cow<'a, str>> {
        let start = self.offset();
        let mut ahead = self.clone();
        let head = ahead.head()?;
        if (head.major, head.info) != (TEXT, INDEFINITE) {
            return self.text(context).map(Cow::Borrowed);
        }
        *self = ahead;
        let mut bytes = Vec::new();
        self.chunks(TEXT, |chunk| bytes.extend_from_slice(chunk))?;
        // Each chunk was found to be UTF-8.
        let text = String::from_utf8(bytes).map_err(|e| {
            let e = e.utf8_error();
            UTF8.broken("text is not UTF-8").because(e).at(self.since(start))
        })?;
        Ok(Cow::Owned(text))
    }

    /// Skips the next item of any kind, and returns its bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::skip`].
    pub fn raw(&mut self) -> Result<&'a [u8]> {
        let before = self.cursor.clone();
        self.skip()?;
        let len = self.cursor.position().saturating_sub(before.position());
        let mut whole = before;
        Ok(whole.take(len).unwrap_or_default())
    }
}
