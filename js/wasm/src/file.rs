//! The open file: decoding an index from ranges, and queries about it.

use crate::json::{self, CALL, Object};
use crate::{Answer, le};
use holdall_core::codec::SeekTable;
use holdall_core::layout::dense::row_range;
use holdall_core::model::nearest;
use holdall_core::read::{Chunk, Chunked, Extent, join};
use holdall_core::{
    Bytes, Component, Digest, Error, Index, Layout, Limits, Role, Stop, TensorInfo, Window,
};
#[cfg(feature = "whole")]
use holdall_core::{model::Coverage, read::Want};
use holdall_formats::shards::has_more;
use holdall_json::write_string;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The maximum length of joined neighbouring ranges.
pub(crate) const JOINED: u64 = 64 << 20;

/// An open file, or one that is being opened.
pub(crate) struct File {
    /// The bytes received so far; empty once the index is decoded.
    window: Window,
    index: Option<Index>,
    /// Seek tables by tensor and component; `None` if the component has no table.
    tables: BTreeMap<(u32, u32), Option<Arc<SeekTable>>>,
}

impl File {
    pub(crate) fn new(len: u64) -> File {
        File { window: Window::new(len), index: None, tables: BTreeMap::new() }
    }

    /// Creates an open file from an index.
    #[cfg(feature = "whole")]
    pub(crate) fn from_index(index: Index) -> File {
        let len = index.source_lens().next().unwrap_or_default();
        File { index: Some(index), ..File::new(len) }
    }

    pub(crate) fn add(&mut self, offset: u64, bytes: Bytes) {
        self.window.add(offset, bytes);
    }

    pub(crate) fn decode(&mut self, limits: &Limits, gap: u64) -> Result<Answer, Error> {
        if self.index.is_none() {
            match holdall_formats::decode(&self.window, limits) {
                Ok(index) => {
                    self.window = Window::new(self.window.len());
                    self.index = Some(index);
                }
                Err(stop) => return stopped(stop, gap),
            }
        }
        Ok(Answer::text(self.facts()?.finish()))
    }

    /// Returns the properties of the file as a whole.
    pub(crate) fn facts(&self) -> Result<Object, Error> {
        let index = self.index()?;
        let format = holdall_formats::by_name(index.format());
        Ok(Object::new()
            .text("format", index.format())
            .text("formatName", format.map_or(index.format(), |f| f.name))
            .text("version", index.version())
            .number("tensors", index.len() as u64)
            .with("attributes", |out| json::attributes(index.attributes(), out))
            .with("warnings", |out| {
                json::list(index.warnings(), out, |w, out| out.push_str(&json::warning(w)));
            })
            .with("unrepresented", |out| {
                json::list(index.unrepresented(), out, |words, out| write_string(words, out))
            })
            .flag("hasMore", has_more(index))
            .with("checksums", |out| {
                json::list(index.checksums(), out, |checksum, out| {
                    let algorithm = checksum.bytes.digest.as_ref().and_then(Digest::algorithm);
                    let algorithm = algorithm.map(|algorithm| algorithm.as_str());
                    json::list([Some(&*checksum.name), algorithm], out, json::text_or_null);
                });
            }))
    }

    /// Returns the digest of the file's contents, independent of how they are stored; empty if
    /// the format has none.
    #[cfg(feature = "whole")]
    pub(crate) fn content(&self, limits: &Limits, gap: u64) -> Result<Answer, Error> {
        let Some(content) =
            holdall_formats::by_name(self.index()?.format()).and_then(|f| f.content)
        else {
            return Ok(Answer::NOTHING);
        };
        match content(&self.window, limits) {
            Ok(digest) => Ok(Answer::text(digest.unwrap_or_default())),
            Err(stop) => stopped(stop, gap),
        }
    }

    /// Returns the bytes that a checksum of the file covers, by the index of the checksum.
    #[cfg(feature = "whole")]
    pub(crate) fn checksum(&self, at: u32) -> Result<Want, Error> {
        let found = self.index()?.checksums().get(at as usize);
        let found =
            found.ok_or_else(|| CALL.broken(format!("there is no checksum number {at}")))?;
        let bytes = found.bytes.clone();
        let algorithm = bytes.stored_digest_algorithm();
        Ok(Want::new(at, bytes).with_digests(algorithm))
    }

    /// Returns the components without a digest that checksums of the file cover, as indices of
    /// the tensor, the component and the checksum.
    #[cfg(feature = "whole")]
    pub(crate) fn covered(&self) -> Result<Answer, Error> {
        let index = self.index()?;
        let coverage = Coverage::new(index.checksums());
        let mut all = Vec::new();
        for (tensor, at) in (0..index.len()).filter_map(|at| Some((index.at(at)?, at as u64))) {
            let components = (0u64..).zip(tensor.components());
            for (number, c) in components.filter(|(_, c)| c.digest.is_none()) {
                let numbers = coverage.numbers(&c, index.chunked());
                all.extend(numbers.into_iter().flat_map(|checksum| [at, number, checksum as u64]));
            }
        }
        Ok(Answer::numbers(all))
    }

    pub(crate) fn index(&self) -> Result<&Index, Error> {
        self.index.as_ref().ok_or_else(|| CALL.broken("the file is not open yet"))
    }

    pub(crate) fn info(&self, at: u32) -> Result<TensorInfo, Error> {
        let found = self.index()?.at(at as usize);
        found.ok_or_else(|| CALL.broken(format!("there is no tensor number {at}")))
    }

    pub(crate) fn component(&self, at: u32, number: u32) -> Result<Component, Error> {
        let found = self.info(at)?.components().nth(number as usize);
        found.ok_or_else(|| CALL.broken(format!("tensor {at} has no component number {number}")))
    }

    pub(crate) fn known_table(&self, at: u32, number: u32) -> Option<Arc<SeekTable>> {
        self.tables.get(&(at, number)).cloned().flatten()
    }

    pub(crate) fn tensor(&self, at: u32) -> Result<Answer, Error> {
        Ok(Answer::text(json::tensor(&self.info(at)?, self.index()?.chunked())))
    }

    pub(crate) fn find(&self, name: &[u8]) -> Result<Answer, Error> {
        let name = std::str::from_utf8(name).ok();
        let found = name.and_then(|name| self.index.as_ref()?.position(name));
        Ok(Answer::numbers(found.map(|at| at as u64)))
    }

    /// Returns the name most similar to an unknown one; empty if none is similar enough.
    pub(crate) fn near(&self, name: &[u8]) -> Result<Answer, Error> {
        let names = self.index()?.names();
        let near = std::str::from_utf8(name).ok().and_then(|name| nearest(name, names));
        Ok(Answer::text(near.unwrap_or_default().to_owned()))
    }

    pub(crate) fn rows(&self, at: u32, rows: Range<u64>) -> Result<Answer, Error> {
        let info = self.info(at)?;
        let named = |e: Error| e.in_tensor(info.name());
        info.sound().map_err(named)?;
        let data = info.component(&Role::Data).filter(|_| *info.layout() == Layout::Dense);
        let Some(c) = data else { return Ok(Answer::NOTHING) };
        let range = row_range(info.shape(), c.dtype, c.logical_type.as_ref(), rows)
            .map_err(|e| named(e.in_component(&c.role)))?;
        Ok(Answer::numbers([range.start, range.end]))
    }

    pub(crate) fn table(&self, at: u32, number: u32) -> Result<Answer, Error> {
        if self.tables.contains_key(&(at, number)) {
            return Ok(Answer::NOTHING);
        }
        let extent = self.component(at, number)?.table_extent();
        Ok(Answer::numbers(extent.iter().flat_map(|e| [e.start, e.end, source(e)])))
    }

    pub(crate) fn table_read(&mut self, at: u32, number: u32, end: &[u8]) -> Result<Answer, Error> {
        match self.component(at, number)?.seek_table(end) {
            Ok(table) => {
                self.tables.insert((at, number), table.map(Arc::new));
                Ok(Answer::NOTHING)
            }
            Err(longer) => Ok(Answer::Need(le([longer.start, longer.end]))),
        }
    }

    pub(crate) fn stated(&self, range: Range<u64>) -> Result<Answer, Error> {
        let stated = self.index()?.stated();
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        match stated.get(at(range.start)..at(range.end)) {
            Some(bytes) => Ok(Answer::Done(bytes.to_vec())),
            None => Err(CALL.broken(format!("bytes {range:?} of {} stated ones", stated.len()))),
        }
    }
}

impl File {
    /// Returns the array with that source number, which is assembled from chunks of the file.
    fn array(&self, source: u32) -> Result<&Chunked, Error> {
        let number = Extent::new(source, 0..0).chunked();
        let array = number.and_then(|n| self.index().ok()?.chunked().get(n));
        array
            .map(|array| &**array)
            .ok_or_else(|| CALL.broken(format!("source {source} is not in this file")))
    }

    pub(crate) fn chunks(&self, source: u32, range: Range<u64>) -> Result<Answer, Error> {
        let chunks = self.array(source)?.covering(range);
        Ok(Answer::numbers(
            chunks.flat_map(|Chunk { stored, .. }| {
                [u64::from(stored.source), stored.start, stored.end]
            }),
        ))
    }

    pub(crate) fn unchunk(
        &self,
        source: u32,
        range: Range<u64>,
        mut stored: &[u8],
    ) -> Result<Answer, Error> {
        let array = self.array(source)?;
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= array.len());
        let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
            return Err(CALL.broken(format!("bytes {range:?} of {}", array.len())));
        };
        let mut out = vec![0; len];
        array.clear(range.start, &mut out);
        for chunk in array.covering(range.clone()) {
            let len = chunk.stored.len();
            let own = usize::try_from(len).ok().and_then(|len| stored.split_at_checked(len));
            let Some((own, rest)) = own else {
                return Err(CALL.broken("the chunks are shorter than they are stored"));
            };
            stored = rest;
            array.copy_chunk(chunk, &array.decode(chunk, own)?, 0, range.start, &mut out);
        }
        Ok(Answer::Done(out))
    }
}

/// Returns the source number of an extent: that of a file, or the number of the index itself.
pub(crate) fn source(extent: &Extent) -> u64 {
    u64::from(extent.source)
}

/// Returns the needed ranges, joined if they are at most `gap` bytes apart, or the error.
pub(crate) fn stopped(stop: Stop, gap: u64) -> Result<Answer, Error> {
    match stop {
        Stop::Fail(e) => Err(e),
        Stop::Need(ranges) => {
            let joined = join(&ranges, gap, JOINED);
            Ok(Answer::Need(le(joined.iter().flat_map(|j| [j.range.start, j.range.end]))))
        }
    }
}
