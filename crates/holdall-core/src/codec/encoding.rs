//! The encoding of a component: raw, or a codec.

use super::{BROKEN, CODECS, Codec, LENGTH, NewEncoder, SeekFormat, StreamDecoder};
use crate::error::Rule;
use crate::limits::Limits;
use std::fmt;
use std::num::NonZeroU8;

/// The encoding of stored bytes. Takes one byte of memory, because an index stores one per component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// The stored bytes are the decoded bytes.
    #[default]
    Raw,
    /// A codec decodes the stored bytes.
    Coded(CodecId),
}

/// A codec in [`CODECS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodecId(
    /// The codec's position in the list, plus 1.
    NonZeroU8,
);

impl CodecId {
    const fn entry(self) -> (&'static str, &'static dyn Codec) {
        CODECS[self.0.get() as usize - 1]
    }
}

impl fmt::Debug for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().0)
    }
}

impl Encoding {
    /// Returns the encoding with this name: `raw`, or the name of a codec in [`CODECS`].
    pub const fn from_name(name: &str) -> Option<Encoding> {
        if is_same(name, RAW) {
            return Some(Encoding::Raw);
        }
        let mut at = 0;
        while at < CODECS.len() {
            if is_same(name, CODECS[at].0) {
                return match NonZeroU8::new(at as u8 + 1) {
                    Some(place) => Some(Encoding::Coded(CodecId(place))),
                    None => None,
                };
            }
            at += 1;
        }
        None
    }

    /// Returns the encoding with this name, which must be in the list. For constants, where an unknown name does not
    /// compile.
    pub(crate) const fn from_known_name(name: &str) -> Encoding {
        match Encoding::from_name(name) {
            Some(encoding) => encoding,
            None => panic!("no codec of this name is in the list"),
        }
    }

    /// Returns all encodings, raw first.
    pub fn all() -> impl Iterator<Item = Encoding> {
        let names = CODECS.iter().map(|(name, _)| *name);
        std::iter::once(RAW).chain(names).filter_map(Encoding::from_name)
    }

    /// Returns the encodings that can be written, raw first.
    pub fn writable() -> impl Iterator<Item = Encoding> {
        Encoding::all().filter(|encoding| encoding.is_writable())
    }

    /// Returns the encoding's name: `raw`, or the name of the codec in [`CODECS`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Raw => RAW,
            Encoding::Coded(id) => id.entry().0,
        }
    }

    /// Returns the codec, or `None` for raw bytes.
    pub const fn codec(self) -> Option<&'static dyn Codec> {
        match self {
            Encoding::Raw => None,
            Encoding::Coded(id) => Some(id.entry().1),
        }
    }

    /// Returns the maximum decoded length of `stored_len` stored bytes.
    pub fn max_decoded_len(self, stored_len: u64) -> u64 {
        self.codec().map_or(stored_len, |codec| codec.decoded_len(stored_len).max_len())
    }

    /// Returns `true` if components can be written in this encoding.
    pub fn is_writable(self) -> bool {
        self.codec().is_none_or(|codec| codec.encoder().is_some())
    }

    /// Returns the format of the codec's seek tables, if it has any.
    pub fn seek_format(self) -> Option<&'static dyn SeekFormat> {
        self.codec()?.seek_format()
    }

    /// Returns a stream decoder for elements of `width` bytes, or `None` for raw bytes.
    pub fn stream(self, width: u64, limits: &Limits) -> Option<Box<dyn StreamDecoder>> {
        Some(self.codec()?.stream(width, limits))
    }

    /// Returns the function that creates encoders, or `None` for raw bytes and codecs that cannot be written.
    pub fn encoder(self) -> Option<NewEncoder> {
        self.codec()?.encoder()
    }

    /// Returns the rule that a component decodes to its declared length.
    pub fn length_rule(self) -> &'static Rule {
        self.codec().map_or(&LENGTH, Codec::length_rule)
    }

    /// Returns the rule that stored bytes are complete and well-formed.
    pub fn broken_rule(self) -> &'static Rule {
        self.codec().map_or(&BROKEN, Codec::broken_rule)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The name of the encoding without a codec.
const RAW: &str = "raw";

/// Returns `a == b`, for constants.
const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_encodings_are_one_to_one() {
        assert_eq!(size_of::<Encoding>(), 1);
        assert!(CODECS.len() < usize::from(u8::MAX));
        let all: Vec<Encoding> = Encoding::all().collect();
        assert_eq!(all.len(), CODECS.len() + 1, "two codecs have one name");
        for encoding in all {
            assert_eq!(Encoding::from_name(encoding.as_str()), Some(encoding));
        }
        assert_eq!(Encoding::from_name("zst"), None);
        let names: Vec<&str> = Encoding::writable().map(Encoding::as_str).collect();
        assert_eq!(names.first(), Some(&"raw"));
    }
}
