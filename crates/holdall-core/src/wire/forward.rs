//! Reading a file forward, without fetching the bytes that are skipped.

use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

/// The block size of fetches.
const CHUNK: u64 = 32 << 10;
/// The maximum length of a fetch, if all bytes are read.
const MAX_CHUNK: u64 = 16 << 20;

/// A position in a range of a file. A read that does not fit returns `None` and reads nothing.
#[derive(Debug)]
pub struct Forward<'w> {
    window: &'w Window,
    at: u64,
    end: u64,
    /// The fetched bytes around the position, and their offset.
    chunk: (u64, Bytes),
}

impl<'w> Forward<'w> {
    /// Creates a reader at the start of `range`, which is cut off at the end of the file.
    pub fn new(window: &'w Window, range: Range<u64>) -> Forward<'w> {
        let end = range.end.min(window.len());
        Forward { window, at: range.start.min(end), end, chunk: (0, Bytes::new()) }
    }

    /// Returns the offset of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Skips the next `len` bytes, and returns their range.
    pub fn pass(&mut self, len: u64) -> Option<Range<u64>> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// Returns [`Stop::Need`] if bytes are missing.
    pub fn array<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Stop> {
        let upto = self.at.saturating_add(N as u64);
        if upto > self.end {
            return Ok(None);
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
        Ok(Some(found))
    }

    /// Returns the need for the chunk `start..end`, extended by what follows if much of what precedes was read: a
    /// decoder starts over for each chunk that it needs, so chunks grow.
    fn need(&self, start: u64, end: u64) -> Stop {
        let mut len = CHUNK;
        let was_read = |len: u64| {
            start.checked_sub(len).is_some_and(|from| self.window.bytes(from..start).is_ok())
        };
        while len < MAX_CHUNK && was_read(len) {
            len = len.saturating_mul(2);
        }
        let needed = start..start.saturating_add(len).min(self.window.len()).max(end);
        Stop::Need(Vec::from([needed]))
    }
}
