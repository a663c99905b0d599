//! The bytes of a file that are at hand, and the one door through which decoders reach them.

use crate::error::{Error, Kind, Rule};
use bytes::Bytes;
use std::ops::Range;

/// A decoder asked for bytes past the end of the file. Formats check bounds first and say more;
/// this is the net below them.
pub static OUTSIDE: Rule =
    Rule::new("window/outside", Kind::Malformed, "Every byte range lies inside the file.");

/// Why a decoder stopped.
#[derive(Debug)]
pub enum Stop {
    /// It needs these bytes (half-open, inside the file). Fetch them, add them to the window, and
    /// call it again.
    Need(Range<u64>),
    /// The file is bad, or over a limit.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Fail(e)
    }
}

/// The ranges of one file fetched so far.
///
/// [`Window::bytes`] hands out a range without copying, or stops with [`Stop::Need`].
#[derive(Debug, Clone)]
pub struct Window {
    len: u64,
    parts: Vec<(u64, Bytes)>,
}

impl Window {
    /// Nothing fetched yet of a file of `len` bytes.
    pub fn new(len: u64) -> Window {
        Window { len, parts: Vec::new() }
    }

    /// The whole file is at hand.
    pub fn whole(bytes: Bytes) -> Window {
        Window { len: bytes.len() as u64, parts: vec![(0, bytes)] }
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the bytes found at `offset`. What lies past the end of the file is ignored.
    pub fn add(&mut self, offset: u64, mut bytes: Bytes) {
        let room = self.len.saturating_sub(offset);
        if bytes.len() as u64 > room {
            // `room` is below a length that fits `usize`.
            bytes.truncate(room as usize);
        }
        self.parts.push((offset, bytes));
    }

    /// The bytes of `range`, or the range that must be fetched first.
    ///
    /// # Errors
    /// [`Stop::Need`] with the whole of `range` when any of it is missing; [`OUTSIDE`] when it
    /// reaches past the end of the file.
    pub fn bytes(&self, range: Range<u64>) -> Result<Bytes, Stop> {
        if range.start > range.end || range.end > self.len {
            return Err(OUTSIDE
                .broken(format!("the file has {} bytes", self.len))
                .at(range)
                .into());
        }
        for (offset, bytes) in &self.parts {
            let (Some(from), Some(to)) =
                (range.start.checked_sub(*offset), range.end.checked_sub(*offset))
            else {
                continue;
            };
            if to <= bytes.len() as u64 {
                return Ok(bytes.slice(from as usize..to as usize));
            }
        }
        Err(Stop::Need(range))
    }

    /// Up to `len` bytes from the start of the file: all of it when it is shorter.
    pub fn head(&self, len: u64) -> Result<Bytes, Stop> {
        self.bytes(0..len.min(self.len))
    }

    /// Up to `len` bytes from the end of the file: all of it when it is shorter.
    pub fn tail(&self, len: u64) -> Result<Bytes, Stop> {
        self.bytes(self.len.saturating_sub(len)..self.len)
    }
}
