//! The whole content of one entry, in memory.

use super::rules::*;
use super::{Directory, Entry, Method, Sums, descriptor, local};
use crate::codec::Decoder;
use crate::codec::crc::Crc32;
use crate::error::Shown as _;
use crate::limits::Limits;
use crate::window::{Stop, Window};
use bytes::Bytes;
use std::ops::Range;

impl Directory {
    /// The decoded bytes of `entry`, checked against its CRC-32; for texts and other small files.
    ///
    /// # Errors
    /// [`ENTRY_LEN`] above [`Limits::text_len`]; as [`Directory::data`]; [`DESCRIPTOR`]; what decoding finds
    /// wrong; [`CRC32`].
    pub fn content(
        &self,
        entry: Entry<'_>,
        window: &Window,
        limits: &Limits,
    ) -> Result<Bytes, Stop> {
        let (len, most) = (entry.decoded_len(), limits.text_len);
        if len.max(entry.stored_len()) > most {
            let name = entry.name().shown();
            return Err(ENTRY_LEN
                .broken(format!("entry `{name}` has {len} bytes, at most {most}"))
                .into());
        }
        self.decoded(entry, window, limits)
    }

    /// The same of an entry whose length the caller has found to be small enough.
    ///
    /// # Errors
    /// [`ENTRY_LEN`] where there is no memory for it; else as [`Directory::content`].
    pub fn decoded(
        &self,
        entry: Entry<'_>,
        window: &Window,
        limits: &Limits,
    ) -> Result<Bytes, Stop> {
        let (name, len) = (entry.name().shown(), entry.decoded_len());
        let place = self.data(entry, window)?;
        let stored = window.bytes(place.clone())?;
        // Here it is next to what was fetched anyway.
        descriptor::check(entry, place.end, window)?;
        let content = match entry.method() {
            Method::Stored => stored,
            method => {
                let (mut out, len) = (Vec::new(), usize::try_from(len).unwrap_or(usize::MAX));
                if out.try_reserve_exact(len).is_err() {
                    let message =
                        format!("there is no memory for the {len} bytes of entry `{name}`");
                    return Err(ENTRY_LEN.broken(message).into());
                }
                out.resize(len, 0);
                let done =
                    Decoder::new(limits).decode_into(method.encoding(), 1, &stored, &mut out);
                done.map_err(|e| e.at(place.clone()))?;
                out.into()
            }
        };
        let (found, said) = (Crc32::of_zip(&content), entry.crc32());
        if found != said && self.sums == Sums::Checked {
            let message = format!(
                "the CRC-32 of entry `{name}` is {found:#010x}, the directory says {said:#010x}"
            );
            return Err(CRC32.broken(message).at(place).into());
        }
        Ok(content)
    }
}

impl Directory {
    /// [`Directory::data`] of many entries, which asks for all that is missing at once.
    ///
    /// # Errors
    /// As [`Directory::data`].
    pub fn data_of_all(
        &self,
        entries: &[Entry<'_>],
        window: &Window,
    ) -> Result<Vec<Range<u64>>, Stop> {
        all(entries, |entry| self.data(entry, window))
    }

    /// The bytes that [`Directory::contents`] asks for: those of most entries are right behind their headers.
    pub fn likely(
        &self,
        entries: &[Entry<'_>],
        limits: &Limits,
    ) -> impl Iterator<Item = Range<u64>> {
        let is_small = |entry: &&Entry<'_>| entry.stored_len() <= limits.text_len;
        entries.iter().filter(is_small).map(|entry| local::likely_whole(*entry))
    }

    /// [`Directory::content`] of many entries, which asks for all that is missing at once.
    ///
    /// # Errors
    /// As [`Directory::content`].
    pub fn contents(
        &self,
        entries: &[Entry<'_>],
        window: &Window,
        limits: &Limits,
    ) -> Result<Vec<Bytes>, Stop> {
        window.all(self.likely(entries, limits))?;
        all(entries, |entry| self.content(entry, window, limits))
    }
}

/// What `of` gives for each entry, or all that any of them needs.
pub fn all<T>(
    entries: &[Entry<'_>],
    of: impl Fn(Entry<'_>) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let (mut out, mut missing) = (Vec::new(), Vec::new());
    for &entry in entries {
        match of(entry) {
            Ok(found) => out.push(found),
            Err(Stop::Need(ranges)) => missing.extend(ranges),
            // Only once nothing before it is missing, so that the same error comes first however much
            // is at hand.
            Err(fail) if missing.is_empty() => return Err(fail),
            Err(_) => break,
        }
    }
    if missing.is_empty() { Ok(out) } else { Err(Stop::Need(missing)) }
}
