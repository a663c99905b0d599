//! The window: the available bytes of a file, through which decoders access the file.

use crate::error::Error;
use bytes::Bytes;
use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A decoder requested bytes beyond the end of the file. Formats check bounds first, with a more specific error.
    pub OUTSIDE: Malformed "window/outside" "Every byte range lies inside the file.";
}

/// Why a decoder stopped.
#[derive(Debug)]
pub enum Stop {
    /// The decoder needs these bytes: one or more non-empty, half-open ranges inside the file. Fetch them, add them to
    /// the window, and call the decoder again.
    Need(Vec<Range<u64>>),
    /// The file is invalid, or exceeds a limit.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Fail(e)
    }
}

/// The ranges of one file that were fetched so far.
///
/// [`Window::bytes`] returns a range without copying, or [`Stop::Need`].
#[derive(Debug, Clone)]
pub struct Window {
    len: u64,
    /// The fetched ranges, in ascending order of both starts and ends: none lies inside another.
    parts: Vec<(u64, Bytes)>,
    /// The value kept by [`Window::once`].
    kept: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Window {
    /// Creates the window of a file of `len` bytes of which nothing was fetched yet.
    pub fn new(len: u64) -> Window {
        Window { len, parts: Vec::new(), kept: OnceLock::new() }
    }

    /// Creates a window with the whole file.
    pub fn whole(bytes: Bytes) -> Window {
        let mut window = Window::new(bytes.len() as u64);
        window.add(0, bytes);
        window
    }

    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the bytes at `offset`. Bytes beyond the end of the file are ignored.
    pub fn add(&mut self, offset: u64, mut bytes: Bytes) {
        let room = self.len.saturating_sub(offset);
        if bytes.len() as u64 > room {
            // `room` is less than `bytes.len()`, so it fits `usize`.
            bytes.truncate(room as usize);
        }
        let end = |part: &(u64, Bytes)| part.0 + part.1.len() as u64;
        let new = (offset, bytes);
        // Parts inside the new one, and empty ones, follow the parts that start before it.
        let from = self.parts.partition_point(|part| part.0 < offset);
        let to = from + self.parts[from..].partition_point(|part| end(part) <= end(&new));
        let is_held = |part: Option<&(u64, Bytes)>| {
            part.is_some_and(|part| part.0 <= offset && end(part) >= end(&new))
        };
        if is_held(self.parts.get(from)) || is_held(self.parts[..from].last()) {
            return;
        }
        self.parts.splice(from..to, [new]);
    }

    /// Returns the bytes of `range`, if they were fetched.
    ///
    /// # Errors
    /// Returns [`Stop::Need`] with the whole `range` if any of it is missing, and [`OUTSIDE`] if it extends beyond the
    /// end of the file.
    pub fn bytes(&self, range: Range<u64>) -> Result<Bytes, Stop> {
        if range.start > range.end || range.end > self.len {
            return Err(OUTSIDE
                .broken(format!("bytes beyond the end of the file, which has {} bytes", self.len))
                .at(range)
                .into());
        }
        self.part(&range).ok_or_else(|| Stop::Need(vec![range]))
    }

    /// Requests all of `ranges` at once if any is missing, so that a decoder that needs them one by one is only called
    /// again once.
    ///
    /// # Errors
    /// Returns [`Stop::Need`] with the missing ranges. Ranges beyond the end of the file are ignored.
    pub fn all(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<(), Stop> {
        let is_missing = |range: &Range<u64>| {
            range.end <= self.len && !range.is_empty() && self.part(range).is_none()
        };
        let missing: Vec<Range<u64>> = ranges.into_iter().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Need(missing)) }
    }

    /// Returns the bytes of `range`, which lies inside the file, if they were fetched.
    fn part(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        // Of the parts that start early enough, the last one ends last.
        let at = self.parts.partition_point(|(offset, _)| *offset <= range.start);
        let (offset, bytes) = self.parts.get(at.checked_sub(1)?)?;
        let (from, to) = (range.start - offset, range.end - offset);
        (to <= bytes.len() as u64).then(|| bytes.slice(from as usize..to as usize))
    }

    /// Returns the window of a part of the file, with what was fetched of it. Its offsets are relative to the start of
    /// the part.
    pub fn part_of(&self, range: Range<u64>) -> Window {
        let range = range.start.min(self.len)..range.end.min(self.len);
        let mut part = Window::new(range.end.saturating_sub(range.start));
        for (offset, bytes) in &self.parts {
            let end = offset.saturating_add(bytes.len() as u64);
            let (from, to) = (range.start.max(*offset), range.end.min(end));
            if from < to {
                // Both lie inside `bytes`.
                part.add(
                    from - range.start,
                    bytes.slice((from - offset) as usize..(to - offset) as usize),
                );
            }
        }
        part
    }

    /// Returns up to `len` bytes from the start of the file, or the whole file if it is shorter.
    pub fn head(&self, len: u64) -> Result<Bytes, Stop> {
        self.bytes(0..len.min(self.len))
    }

    /// Parses the start of the file with `read`. It is called with the first `first` bytes and, as long as these are
    /// too short, with eight times as many or as many as it guessed, up to `max_len`. Returns `None` if `max_len` bytes are
    /// too short.
    ///
    /// # Errors
    /// Returns [`Stop::Need`] if bytes are missing, and the errors of `read`.
    pub fn growing<T>(
        &self,
        first: u64,
        max_len: u64,
        mut read: impl FnMut(Bytes) -> Result<ParseAttempt<T>, Error>,
    ) -> Result<Option<T>, Stop> {
        let max_len = max_len.min(self.len);
        let mut len = first.min(max_len);
        loop {
            let guess = match read(self.head(len)?)? {
                ParseAttempt::Read(found) => return Ok(Some(found)),
                ParseAttempt::Short { guess } if len < max_len => guess,
                ParseAttempt::Short { .. } => return Ok(None),
            };
            len = len.saturating_mul(8).max(guess).min(max_len);
        }
    }

    /// Returns the result of `read`, which is computed once and kept: for a table that several formats examine, and
    /// that a decoder needs each time it is called. Only the first value of a file is kept, so `read` must always
    /// return the same for a file.
    pub fn once<T: Any + Send + Sync>(
        &self,
        read: impl FnOnce() -> Result<T, Stop>,
    ) -> Result<Arc<T>, Stop> {
        let kept = self.kept.get().map(|kept| Arc::clone(kept).downcast());
        if let Some(Ok(kept)) = kept {
            return Ok(kept);
        }
        let made = Arc::new(read()?);
        // Another thread may have been faster, with the same result.
        let _ = self.kept.set(Arc::<T>::clone(&made));
        Ok(made)
    }

    /// Returns up to `len` bytes from the end of the file, or the whole file if it is shorter.
    pub fn tail(&self, len: u64) -> Result<Bytes, Stop> {
        self.bytes(self.len.saturating_sub(len)..self.len)
    }
}

/// The result of parsing the start of a file that may be incomplete.
pub enum ParseAttempt<T> {
    /// The bytes were enough.
    Read(T),
    /// More bytes are needed.
    Short {
        /// The estimated number of bytes from the start of the file, or 0 if unknown.
        guess: u64,
    },
}

impl<T> From<Option<T>> for ParseAttempt<T> {
    fn from(found: Option<T>) -> ParseAttempt<T> {
        match found {
            Some(found) => ParseAttempt::Read(found),
            None => ParseAttempt::Short { guess: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes whose values are their offsets.
    fn part(range: Range<u64>) -> Bytes {
        range.map(|at| at as u8).collect()
    }

    #[test]
    fn parts_in_any_order_are_found() {
        let mut window = Window::new(100);
        for range in [50..60, 10..20, 52..58, 15..30, 5..12, 0..40, 90..200, 45..60, 45..50] {
            window.add(range.start, part(range));
        }
        let starts: Vec<u64> = window.parts.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(starts, [0, 45, 90]);
        for range in [0..40, 12..17, 45..60, 59..60, 90..100, 99..100, 41..41] {
            assert_eq!(window.bytes(range.clone()).unwrap(), part(range));
        }
        for missing in [39..41, 40..41, 44..46, 59..61, 89..91] {
            match window.bytes(missing.clone()) {
                Err(Stop::Need(ranges)) => assert_eq!(ranges, [missing]),
                other => panic!("{missing:?}: {other:?}"),
            }
        }
        match window.all([0..10, 40..45, 45..46, 70..80, 90..101, 41..41]) {
            Err(Stop::Need(ranges)) => assert_eq!(ranges, [40..45, 70..80]),
            other => panic!("{other:?}"),
        }
        assert!(window.all([0..10, 90..100]).is_ok());
        let inside = window.part_of(35..95);
        assert_eq!(inside.len(), 60);
        for range in [0..5, 10..25, 55..60] {
            let own = part(range.start + 35..range.end + 35);
            assert_eq!(inside.bytes(range).unwrap(), own);
        }
        assert!(
            matches!(inside.bytes(4..6), Err(Stop::Need(ranges)) if ranges.first() == Some(&(4..6)))
        );
        assert!(matches!(inside.bytes(59..61), Err(Stop::Fail(_))));
        assert_eq!(window.part_of(90..1000).len(), 10);
    }
}
