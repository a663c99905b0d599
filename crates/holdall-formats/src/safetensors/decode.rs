//! Decodes the header into an index, in one pass.

use super::restore::{Metadata, Restore};
use super::{
    DIALECT, DTYPE, DUPLICATE_KEY, HEADER_OBJECT, HOLE, METADATA, METADATA_KEY, MISSING_FIELD,
    OFFSETS, OVERLAP, TOO_SHORT, TRAILING_DATA, TRUNCATED,
};
use crate::element::{ElementType, by_name};
use crate::header::LEN_BYTES;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashSet;
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::{DUPLICATE_NAME, RANK, SAMPLE, SHAPE_OVERFLOW};
use holdall_core::model::{ByteOrder, Component, Encoding, Index, IndexBuilder, Layout, Role};
use holdall_core::window::{Stop, Window};
use holdall_json::{Reader, Token, duplicate};
use std::ops::Range;

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let range = header_range(window, limits)?;
    let text = window.bytes(range.clone())?;
    let header = Header { text: &text, range, source_len: window.len(), limits };
    let known = match header.index(None)? {
        Pass::Done(index) => return Ok(index),
        Pass::Again(metadata) => metadata,
    };
    match header.index(Some(known))? {
        Pass::Done(index) => Ok(index),
        // Cannot happen: a second pass is requested only if the metadata is unknown.
        Pass::Again(_) => Err(METADATA.broken("the header cannot be read").into()),
    }
}

/// Returns the byte range of the header.
pub(super) fn header_range(window: &Window, limits: &Limits) -> Result<Range<u64>, Stop> {
    let head = window.head(LEN_BYTES)?;
    let Some(len) = head.first_chunk::<8>() else {
        let message = format!("the file has {} bytes", window.len());
        return Err(TOO_SHORT.broken(message).at(0..window.len()).into());
    };
    let len = u64::from_le_bytes(*len);
    Ok(DIALECT.range(window, len, limits.header_len)?)
}

struct Header<'a> {
    text: &'a [u8],
    range: Range<u64>,
    source_len: u64,
    limits: &'a Limits,
}

/// The result of a pass over the header.
enum Pass {
    Done(Index),
    /// The metadata came after tensors to which it gives attributes or aliases, so another pass is needed.
    Again(Metadata),
}

/// The entry of a tensor.
struct Entry {
    /// The element type, or the error why the tensor cannot be read.
    element: Result<&'static ElementType>,
    /// The byte range in the data.
    range: Range<u64>,
    /// The byte range of the entry in the file.
    at: Range<u64>,
}

/// The ranges of the entries so far, in the data. Most headers have entries in the order of their ranges, without gaps.
/// For these, only the end of the last range is kept.
#[derive(Default)]
struct Tiling {
    count: usize,
    end: u64,
    /// All ranges, if one of them did not start at the end of the one before.
    ranges: Option<Vec<Range<u64>>>,
}

impl Tiling {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the range of the entry that was added to `builder` last.
    fn add(&mut self, range: Range<u64>, builder: &IndexBuilder) {
        if self.ranges.is_none() && range.start != self.end {
            let mut start = 0u64;
            let before = builder.stored_lens().take(self.count).map(|len| {
                let range = start..start.saturating_add(len);
                start = range.end;
                range
            });
            self.ranges = Some(before.collect());
        }
        match &mut self.ranges {
            Some(ranges) => ranges.push(range),
            None => self.end = range.end,
        }
        self.count = self.count.saturating_add(1);
    }
}

impl Header<'_> {
    /// Reads the header. `known` is the metadata if an earlier pass has read it.
    fn index(&self, known: Option<Metadata>) -> Result<Pass> {
        let mut reader = Reader::new(self.text, self.range.start, self.limits.depth)?;
        self.check_start(&mut reader)?;
        // Bytes past the end of the file are detected below, with a better message.
        let data = self.range.end..u64::MAX;
        let mut builder = IndexBuilder::new("safetensors", "", self.source_len, data, self.limits);
        let mut tiling = Tiling::default();
        let mut shape = Vec::new();
        let mut last = None;
        let mut key_scratch = String::new();
        let is_again = known.is_some();
        let mut metadata_seen = false;
        // In a salvage, all names are kept, because duplicate names are faults.
        let mut names = self.limits.salvage.then(HashSet::default);
        let mut restore = Restore::new(known.unwrap_or_default(), self.limits);
        reader.begin_object()?;
        while let Some(name) = reader.next_key(&mut key_scratch)? {
            if name == METADATA_KEY {
                if std::mem::replace(&mut metadata_seen, true) {
                    if self.limits.salvage {
                        reader.skip()?;
                        continue;
                    }
                    let message = format!("duplicate key `{METADATA_KEY}`");
                    return Err(DUPLICATE_KEY.broken(message).at(reader.here()));
                }
                if is_again {
                    reader.skip()?;
                    continue;
                }
                let metadata = read_metadata(&mut reader, self.limits)?;
                if !tiling.is_empty() && metadata.needs_tensors() {
                    return Ok(Pass::Again(metadata));
                }
                restore = Restore::new(metadata, self.limits);
                continue;
            }
            let entry = read_entry(&mut reader, &mut shape, last, self.limits)
                .map_err(|e| e.in_tensor(name))?;
            let other = match &mut names {
                Some(names) => unique_name(names, name),
                None => None,
            };
            if let Some(other) = &other {
                builder.warn(DUPLICATE_KEY.code, Some(other), None, || {
                    format!(
                        "the header has several entries named `{}`, and this is one of them",
                        name.escaped()
                    )
                    .into()
                });
            }
            let name = other.as_deref().unwrap_or(name);
            last = entry.element.as_ref().ok().copied();
            let stored = self.locate(&entry).map_err(|e| e.in_tensor(name).at(entry.at.clone()))?;
            match entry.element {
                Ok(element) => {
                    let (dtype, logical) = (element.dtype, element.logical_type.as_ref());
                    let (order, extent) = (ByteOrder::Little, stored.clone().into());
                    builder.dense(name, &shape, dtype, logical, order, extent)?;
                    if let Some(attributes) = restore.tensor(name, &shape, element, &stored) {
                        builder.tensor_attributes(attributes);
                    }
                }
                Err(e) => {
                    builder.tensor(name, &shape, Layout::Dense)?;
                    builder.fault(e.at(entry.at));
                    builder.claim(stored.into())?;
                    restore.drop_attributes(name);
                }
            }
            tiling.add(entry.range, &builder);
            if tiling.count == SAMPLE {
                let read = reader.offset().saturating_sub(self.range.start);
                let left = self.range.end.saturating_sub(reader.offset());
                // An estimate of the remaining entries from the remaining bytes. It is less than the number of bytes,
                // which is limited.
                let count = left.saturating_mul(SAMPLE as u64).checked_div(read);
                builder.reserve(usize::try_from(count.unwrap_or_default()).debug_unwrap());
            }
        }
        reader.end()?;
        if !self.limits.salvage {
            self.check_tiling(tiling)?;
        }
        restore.finish(&mut builder)?;
        let index = builder.finish().map_err(|e| match e.code() == DUPLICATE_NAME.code {
            true => e.with_remedy(Remedy::Salvage),
            false => e,
        });
        Ok(Pass::Done(index?))
    }

    /// The README requires `{` first; the reference also accepts whitespace before it.
    fn check_start(&self, reader: &mut Reader<'_>) -> Result<()> {
        match reader.peek() {
            Ok(Token::Object) => Ok(()),
            _ if self.text.is_empty() => {
                Err(HEADER_OBJECT.broken("the header is empty").at(self.range.clone()))
            }
            _ => Err(HEADER_OBJECT.broken("expected an object as the header").at(reader.here())),
        }
    }

    /// Returns the byte range of an entry in the file.
    fn locate(&self, entry: &Entry) -> Result<Range<u64>> {
        let absolute = |offset: u64| {
            self.range.end.checked_add(offset).filter(|&o| o < u64::MAX).ok_or_else(|| {
                OFFSETS.broken(format!("the offset {offset} in the data is past 2^64 in the file"))
            })
        };
        let range = absolute(entry.range.start)?..absolute(entry.range.end)?;
        if range.is_empty() {
            // A range past the end of the file is reported by the check of all ranges, which has a better message.
            let at = range.start.min(self.source_len);
            return Ok(at..at);
        }
        Ok(range)
    }

    /// Checks that the tensors fill the data: sorted by start, then end, each starts where the one before it ended.
    fn check_tiling(&self, tiling: Tiling) -> Result<()> {
        let absolute = |r: Range<u64>| {
            self.range.end.saturating_add(r.start)..self.range.end.saturating_add(r.end)
        };
        let check = |at: usize, range: &Range<u64>, end: u64| -> Result<u64> {
            if range.start > end {
                let message =
                    format!("bytes {end}..{} of the data belong to no tensor", range.start);
                Err(HOLE.broken(message).in_tensor(self.name_at(at)).at(absolute(end..range.start)))
            } else if range.start < end {
                let message = format!(
                    "bytes {}..{} of the data start inside another tensor, which ends at {end}",
                    range.start, range.end
                );
                Err(OVERLAP.broken(message).in_tensor(self.name_at(at)).at(absolute(range.clone())))
            } else {
                Ok(range.end)
            }
        };
        let mut end = tiling.end;
        if let Some(ranges) = tiling.ranges {
            let mut sorted: Vec<(usize, Range<u64>)> = ranges.into_iter().enumerate().collect();
            sorted.sort_by_key(|(_, range)| (range.start, range.end));
            end = 0;
            for (at, range) in sorted {
                end = check(at, &range, end)?;
            }
        }
        let found = self.source_len.saturating_sub(self.range.end);
        if end > found {
            let message = format!(
                "the header describes {end} bytes of data, but the file has {found}: {} are missing",
                end.saturating_sub(found)
            );
            return Err(TRUNCATED.broken(message).at(absolute(found..end)));
        }
        if end < found {
            let message = format!(
                "the header describes {end} bytes of data, but the file has {found}: {} too many",
                found.saturating_sub(end)
            );
            return Err(TRAILING_DATA.broken(message).at(absolute(end..found)));
        }
        Ok(())
    }

    /// Returns the name of entry number `at` for an error, by reading the header again.
    #[cold]
    fn name_at(&self, at: usize) -> String {
        let read = || -> Result<String> {
            let mut reader = Reader::new(self.text, self.range.start, self.limits.depth)?;
            let (mut scratch, mut number) = (String::new(), 0usize);
            reader.begin_object()?;
            while let Some(name) = reader.next_key(&mut scratch)? {
                if name != METADATA_KEY {
                    if number == at {
                        return Ok(name.to_owned());
                    }
                    number = number.saturating_add(1);
                }
                reader.skip()?;
            }
            Ok(String::new())
        };
        read().unwrap_or_default()
    }
}

/// Returns a unique name for a tensor whose name is a duplicate.
fn unique_name(names: &mut HashSet<String>, name: &str) -> Option<String> {
    if names.insert(name.to_owned()) {
        return None;
    }
    let other = (2u32..).map(|number| format!("{name}#{number}"));
    other.into_iter().find(|other| names.insert(other.clone()))
}

/// Returns a raw little-endian `data` component.
pub(super) fn component(element: &ElementType, stored: Range<u64>) -> Component {
    Component {
        role: Role::Data,
        dtype: element.dtype,
        logical_type: element.logical_type.clone(),
        encoding: Encoding::Raw,
        byte_order: ByteOrder::Little,
        decoded_len: Some(stored.end.saturating_sub(stored.start)),
        stored: stored.into(),
        digest: None,
    }
}

/// Reads `__metadata__`: an object of strings, or null, which is ignored.
fn read_metadata(reader: &mut Reader<'_>, limits: &Limits) -> Result<Metadata> {
    let start = reader.offset();
    let mut pairs = Vec::new();
    match reader.peek()? {
        Token::Object => {}
        Token::Null => {
            reader.null()?;
            return Ok(Metadata::default());
        }
        _ => {
            let message = format!("`{METADATA_KEY}` is not an object");
            return Err(METADATA.broken(message).at(reader.here()));
        }
    }
    let (mut key_scratch, mut value_scratch) = (String::new(), String::new());
    reader.begin_object()?;
    while let Some(key) = reader.next_key(&mut key_scratch)? {
        if reader.peek()? != Token::String {
            let message = format!("expected a string as the value of `{}`", key.escaped());
            return Err(METADATA.broken(message).at(reader.here()));
        }
        let value = reader.string(&mut value_scratch)?;
        pairs.push((key.to_owned(), value.to_owned()));
    }
    if limits.salvage {
        let mut keys = HashSet::default();
        pairs.retain(|(key, _)| keys.insert(key.clone()));
    }
    if let Some(key) = duplicate(pairs.iter().map(|(k, _)| k.as_str())) {
        let message = format!("duplicate key `{}` in `{METADATA_KEY}`", key.escaped());
        return Err(DUPLICATE_KEY.broken(message).at(start..reader.offset()));
    }
    Ok(Metadata { pairs })
}

/// Reads the entry of a tensor, and its dimensions into `shape`. `last` is the element type of the entry before, which
/// is usually the same.
fn read_entry(
    reader: &mut Reader<'_>,
    shape: &mut Vec<u64>,
    last: Option<&'static ElementType>,
    limits: &Limits,
) -> Result<Entry> {
    reader.peek()?;
    let start = reader.offset();
    let (mut element, mut range, mut has_shape) = (None, None, false);
    let mut scratch = String::new();
    reader.begin_object()?;
    while let Some(field) = reader.next_key(&mut scratch)? {
        match field {
            "dtype" if element.is_none() => element = Some(read_dtype(reader, last)?),
            "shape" if !has_shape => {
                read_shape(reader, shape, limits)?;
                has_shape = true;
            }
            "data_offsets" if range.is_none() => range = Some(read_offsets(reader)?),
            "dtype" | "shape" | "data_offsets" => {
                let message = format!("duplicate field `{field}`");
                return Err(DUPLICATE_KEY.broken(message).at(start..reader.offset()));
            }
            _ => reader.skip()?,
        }
    }
    let missing = |field: &str| -> Error {
        MISSING_FIELD.broken(format!("missing field `{field}`")).at(start..reader.offset())
    };
    let element = element.ok_or_else(|| missing("dtype"))?;
    if !has_shape {
        return Err(missing("shape"));
    }
    let range = range.ok_or_else(|| missing("data_offsets"))?;
    let element = element.and_then(|element| {
        match product(shape).and_then(|count| count.checked_mul(element.bits)) {
            Some(_) => Ok(element),
            None => {
                let message =
                    format!("shape {shape:?} of {} has more than 2^64 bits", element.name);
                Err(SHAPE_OVERFLOW.broken(message).at(start..reader.offset()))
            }
        }
    });
    Ok(Entry { element, range, at: start..reader.offset() })
}

/// Returns the product, computed from the left as in the reference: an overflow before a zero is an error.
pub(super) fn product(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))
}

/// Reads the dtype. An unknown dtype is the fault of this tensor alone.
fn read_dtype(
    reader: &mut Reader<'_>,
    last: Option<&'static ElementType>,
) -> Result<Result<&'static ElementType>> {
    let mut scratch = String::new();
    let name = reader.string(&mut scratch)?;
    Ok(last.filter(|other| other.name == name).or_else(|| by_name(name)).ok_or_else(|| {
        DTYPE.broken(format!("unknown dtype `{}`", name.escaped())).at(reader.here())
    }))
}

fn read_shape(reader: &mut Reader<'_>, shape: &mut Vec<u64>, limits: &Limits) -> Result<()> {
    shape.clear();
    reader.begin_array()?;
    while reader.next_item()? {
        if shape.len() >= limits.rank {
            let message = format!("more than {} dimensions", limits.rank);
            return Err(RANK.broken(message).at(reader.here()));
        }
        shape.push(reader.u64()?);
    }
    Ok(())
}

fn read_offsets(reader: &mut Reader<'_>) -> Result<Range<u64>> {
    let from = reader.offset();
    reader.begin_array()?;
    DIALECT.offsets(reader, from, |reader| reader.u64())
}
