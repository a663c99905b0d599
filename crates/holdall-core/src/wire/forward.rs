//! Bytes of a file, read forward: of what is passed over nothing is fetched.

use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

/// Bytes that are looked at together, at multiples of this.
const CHUNK: u64 = 32 << 10;
/// The most that is asked for together, where all of it is looked at.
const MOST_CHUNK: u64 = 16 << 20;

/// A place in a range of a file. A read that does not fit answers `None` and takes nothing.
#[derive(Debug)]
pub struct Forward<'w> {
    window: &'w Window,
    at: u64,
    end: u64,
    /// Bytes at hand, and where they begin.
    chunk: (u64, Bytes),
}

impl<'w> Forward<'w> {
    /// At the first byte of `place`, of which what is outside of the file is cut off.
    pub fn new(window: &'w Window, place: Range<u64>) -> Forward<'w> {
        let end = place.end.min(window.len());
        Forward { window, at: place.start.min(end), end, chunk: (0, Bytes::new()) }
    }

    /// Where the next byte is in the file.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Passes over the next `len` bytes; where they are.
    pub fn pass(&mut self, len: u64) -> Option<Range<u64>> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// What the window needs.
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
