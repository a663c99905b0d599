//! Reading entries into memory.

use super::rules::*;
use super::{Directory, Entry, EntryChecksums, Method, descriptor, local};
use crate::codec::Decoder;
use crate::codec::crc::Crc32;
use crate::error::Escape as _;
use crate::limits::Limits;
use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

impl Directory {
    /// Returns the decoded bytes of `entry`, and compares its CRC-32. For texts and other small files.
    ///
    /// # Errors
    /// Returns [`ENTRY_LEN`] if the entry exceeds [`Limits::text_len`], [`DESCRIPTOR`] or [`CRC32`] if these differ,
    /// and the errors of [`Directory::data`] and of decoding.
    pub fn content(
        &self,
        entry: Entry<'_>,
        window: &Window,
        limits: &Limits,
    ) -> Result<Bytes, Stop> {
        let (len, most) = (entry.decoded_len(), limits.text_len);
        if len.max(entry.stored_len()) > most {
            let name = entry.name().escaped();
            return Err(ENTRY_LEN
                .broken(format!(
                    "entry `{name}` has {len} bytes, which exceeds the limit of {most}"
                ))
                .into());
        }
        self.decoded(entry, window, limits)
    }

    /// Returns the decoded bytes of an entry like [`Directory::content`]. The caller checks that the length is small
    /// enough.
    ///
    /// # Errors
    /// Returns [`ENTRY_LEN`] if there is not enough memory, and the errors of [`Directory::content`].
    pub fn decoded(
        &self,
        entry: Entry<'_>,
        window: &Window,
        limits: &Limits,
    ) -> Result<Bytes, Stop> {
        let (name, len) = (entry.name().escaped(), entry.decoded_len());
        let range = self.data(entry, window)?;
        let stored = window.bytes(range.clone())?;
        // The descriptor is next to bytes that were fetched anyway.
        descriptor::check(entry, range.end, window)?;
        let content = match entry.method() {
            Method::Stored => stored,
            method => {
                let (mut out, len) = (Vec::new(), usize::try_from(len).unwrap_or(usize::MAX));
                if out.try_reserve_exact(len).is_err() {
                    let message =
                        format!("not enough memory for the {len} bytes of entry `{name}`");
                    return Err(ENTRY_LEN.broken(message).into());
                }
                out.resize(len, 0);
                let done =
                    Decoder::new(limits).decode_into(method.encoding(), 1, &stored, &mut out);
                done.map_err(|e| e.at(range.clone()))?;
                out.into()
            }
        };
        let (found, expected) = (Crc32::zip_crc32(&content), entry.crc32());
        if found != expected && self.sums == EntryChecksums::Checked {
            let message =
                format!("the CRC-32 of entry `{name}` is {found:#010x}, expected {expected:#010x}");
            return Err(CRC32.broken(message).at(range).into());
        }
        Ok(content)
    }
}

impl Directory {
    /// Returns the stored ranges of many entries, like [`Directory::data`], and requests all missing bytes at once.
    ///
    /// # Errors
    /// Returns the errors of [`Directory::data`].
    pub fn data_of_all(
        &self,
        entries: &[Entry<'_>],
        window: &Window,
    ) -> Result<Vec<Range<u64>>, Stop> {
        all(entries, |entry| self.data(entry, window))
    }

    /// Returns the bytes that [`Directory::contents`] requests: most entries' bytes follow their headers directly.
    pub fn likely_ranges(
        &self,
        entries: &[Entry<'_>],
        limits: &Limits,
    ) -> impl Iterator<Item = Range<u64>> {
        let is_small = |entry: &&Entry<'_>| entry.stored_len() <= limits.text_len;
        entries.iter().filter(is_small).map(|entry| local::likely_whole(*entry))
    }

    /// Returns the contents of many entries, like [`Directory::content`], and requests all missing bytes at once.
    ///
    /// # Errors
    /// Returns the errors of [`Directory::content`].
    pub fn contents(
        &self,
        entries: &[Entry<'_>],
        window: &Window,
        limits: &Limits,
    ) -> Result<Vec<Bytes>, Stop> {
        window.all(self.likely_ranges(entries, limits))?;
        all(entries, |entry| self.content(entry, window, limits))
    }
}

/// Calls `make` with each entry and returns the results, or all bytes that any of the calls needs.
pub fn all<T>(
    entries: &[Entry<'_>],
    make: impl Fn(Entry<'_>) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let (mut out, mut missing) = (Vec::new(), Vec::new());
    for &entry in entries {
        match make(entry) {
            Ok(found) => out.push(found),
            Err(Stop::Need(ranges)) => missing.extend(ranges),
            // Only returned if nothing before it is missing, so that the same error is returned first whatever was
            // fetched.
            Err(fail) if missing.is_empty() => return Err(fail),
            Err(_) => break,
        }
    }
    if missing.is_empty() { Ok(out) } else { Err(Stop::Need(missing)) }
}
