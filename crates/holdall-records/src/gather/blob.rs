//! Gathers the runs of a blob as a column.

use super::block::has_content;
use super::fill::split_at_offsets_64;
use super::plan::{Content as TextContent, OFFSET_64};
use super::{Gathered, RunSelection, Values};
use crate::{Blob, placed};
use bytes::Bytes;
use holdall_core::{Error, Result};
use holdall_io::buffer::Buffer;
use holdall_schema::Content;
use holdall_schema::record::rules::{TOO_LARGE, UTF8};
use std::ops::Range;

impl Blob {
    /// Returns the chosen runs, which are texts or bytes, as a column: [`Values::Binary64`]. JSON is text. Their bytes
    /// are not copied if they are in memory, one after the other.
    ///
    /// # Errors
    /// Returns `records/content` for a blob of elements, the errors of [`Blob::str`] and [`Blob::bytes`], and
    /// `record/too-large` if the column would need more memory than the limit of the file, which is possible if entries
    /// share their bytes.
    pub fn gather(&self, chosen: &RunSelection<'_>) -> Result<Gathered> {
        self.check_content(!matches!(self.content(), Content::Elements(_)), "texts or bytes")?;
        let (offsets, data) = match chosen {
            RunSelection::Range(range) => {
                if *range == (0..self.len()) {
                    self.compare()?;
                } else if !range.is_empty() {
                    // Before memory is taken for all of them.
                    self.range(range.end - 1)?;
                }
                self.column(range.clone())?
            }
            RunSelection::At(indices) => self.column(indices.iter().copied())?,
        };
        let content = match self.content() {
            Content::Utf8 | Content::Json => TextContent::Text,
            Content::Bytes | Content::Elements(_) => TextContent::Any,
        };
        let after_first = offsets.get(OFFSET_64..).unwrap_or_default();
        let depth = self.0.limits.depth;
        if !has_content(
            content,
            Some(&data),
            split_at_offsets_64(&data, after_first),
            |_| true,
            depth,
        ) {
            return Err(self.wrong(chosen));
        }
        Ok(Gathered {
            len: after_first.len() / OFFSET_64,
            absent: 0,
            presence: None,
            values: Values::Binary64(offsets, data),
        })
    }

    /// Returns the offsets and the data of the column with these runs.
    fn column(&self, indices: impl Iterator<Item = u64> + Clone) -> Result<(Bytes, Bytes)> {
        let is_near = self.0.entries.whole().is_some() && self.0.heap.whole().is_some();
        let Some(run) = is_near.then(|| self.consecutive(indices.clone())).transpose()?.flatten()
        else {
            return self.copied(indices.collect());
        };
        let count = indices.clone().count();
        let mut offsets = Buffer::new((count + 1) * OFFSET_64)?;
        let (mut total, mut slots) = (0, offsets.as_mut().as_chunks_mut().0.iter_mut());
        if let Some(first) = slots.next() {
            *first = [0; OFFSET_64];
        }
        for (slot, index) in slots.zip(indices) {
            let range = self.range(index)?;
            total += range.end - range.start;
            *slot = total.to_le_bytes();
        }
        let data = self.0.heap.shared(run).map_err(|e| placed(e, self.tensor()))?;
        Ok((offsets.freeze(), data))
    }

    /// Returns the range of the heap that consists of these runs; `None` if they do not lie one after the other.
    fn consecutive(&self, indices: impl Iterator<Item = u64>) -> Result<Option<Range<u64>>> {
        let mut all = 0..0;
        for index in indices {
            let range = self.range(index)?;
            if range.is_empty() {
                continue;
            }
            if all.is_empty() {
                all = range;
            } else if all.end == range.start {
                all.end = range.end;
            } else {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }

    fn copied(&self, indices: Vec<u64>) -> Result<(Bytes, Bytes)> {
        let most = self.0.limits.decoded_len;
        let (mut offsets, mut data) = (vec![0; OFFSET_64], Vec::new());
        for run in self.at(indices) {
            data.extend_from_slice(&run?);
            if data.len() as u64 > most {
                let message = format!("runs of a batch take more than {most} bytes");
                let error = TOO_LARGE.broken(message).with_hint("take fewer runs at a time");
                return Err(placed(error, self.tensor()));
            }
            offsets.extend_from_slice(&(data.len() as u64).to_le_bytes());
        }
        Ok((offsets.into(), data.into()))
    }

    /// Returns the error of the first run with invalid content.
    #[cold]
    fn wrong(&self, chosen: &RunSelection<'_>) -> Error {
        let check = |index: u64| self.str(index).err();
        let found = match chosen {
            RunSelection::Range(range) => range.clone().find_map(check),
            RunSelection::At(indices) => indices.iter().copied().find_map(check),
        };
        found.unwrap_or_else(|| placed(UTF8.broken("a run is not valid UTF-8"), self.tensor()))
    }
}
