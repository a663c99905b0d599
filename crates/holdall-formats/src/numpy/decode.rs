//! Decodes the index of one array, and of a zip of arrays.

use super::{ATTRIBUTES, EXTENSION, METHOD, NAME, NPY, NPZ, TENSORS, TYPE, is_name};
use crate::array::{START, USUAL};
use crate::kept;
use crate::{Elements, add_array, add_arrays, array_header};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::codec::crc::Crc32;
use holdall_core::codec::deflate;
use holdall_core::error::{Escape as _, Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, DType, Digest, Encoding, Index, IndexBuilder, Layout, LogicalType, Value,
    crc32_combine,
};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy::{self, Fields, Header};
use holdall_core::wire::zip::{Directory, Entry, EntryKind, Method, read};
use holdall_schema::rules::TOO_LARGE;
use std::cell::Cell;
use std::ops::Range;

/// The name of the tensor in an `.npy` file.
const ALONE: &str = "data";
/// The number of bytes of a compressed entry that are read first for the array's header.
const FIRST: u64 = 256;

pub(super) fn array(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let bytes = |range: Range<u64>| window.bytes(range);
    let first = array_header(0, window.len(), &bytes)?;
    let mut builder = IndexBuilder::new(NPY.id, "", window.len(), first.len..window.len(), limits);
    let (number, is_cut) = add_arrays(&mut builder, ALONE, 0, first, window.len(), &bytes)?;
    let index = builder.finish()?;
    // Nothing is stored for the only tensor if it cannot be read, and a file that is cut short is incomplete.
    match (number == 1, is_cut) {
        (_, true) => Ok(index.sound().map_err(|e| e.with_remedy(Remedy::Salvage))?),
        (true, false) => Ok(index.sound()?),
        (false, false) => Ok(index),
    }
}

pub(super) fn is_of_array(entry: Entry<'_>) -> bool {
    entry.kind() == EntryKind::File && entry.name().ends_with(EXTENSION)
}

/// The header of an array, and the CRC-32 of the header, if it is valid; and the byte range of the entry.
type Head = (Range<u64>, Result<(Header, u32)>);

pub(super) fn arrays(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let directory = Directory::read(window, limits)?;
    let entries: Vec<Entry<'_>> = directory.entries().filter(|entry| is_of_array(*entry)).collect();
    // The two headers of an entry are read together.
    window.all(entries.iter().map(|entry| {
        let Range { start, end } = directory.header(*entry);
        start..end.saturating_add(USUAL).min(directory.range().start)
    }))?;
    // Small compressed headers can decode to many fields, which are limited together.
    let room = Cell::new(limits.schema_nodes);
    let heads = read::all(&entries, |entry| -> Result<Head, Stop> {
        let range = directory.data(entry, window)?;
        let found = head(entry, &range, window).and_then(|found| {
            let nodes = found.0.fields.as_ref().map_or(0, Fields::nodes);
            let most = limits.schema_nodes;
            let left = room.get().checked_sub(nodes);
            let message = || format!("all arrays together have more than {most} fields");
            room.set(left.ok_or_else(|| TOO_LARGE.broken(message()))?);
            Ok(found)
        });
        match found {
            Ok(found) => Ok((range, Ok(found))),
            Err(Stop::Fail(e)) => Ok((range, Err(e))),
            Err(need) => Err(need),
        }
    })?;
    let mut builder =
        IndexBuilder::new(NPZ.id, "", window.len(), 0..directory.range().start, limits);
    for entry in directory.entries().filter(|entry| !is_of_array(*entry)) {
        if entry.kind() != EntryKind::Folder && !matches!(entry.name(), ATTRIBUTES | TENSORS) {
            let name = entry.name().escaped();
            builder.unrepresented(|| format!("the entry `{name}`"));
            builder.warn("npz/passed-over", None, None, || {
                format!("the entry `{name}` is ignored: its name does not end in `.npy`").into()
            });
        }
    }
    let ours = kept::Entries::read(&directory, ATTRIBUTES, TENSORS, window, limits)?;
    builder.attributes(ours.attributes);
    for (name, e) in ours.odd {
        builder.warn("npz/restore", None, None, || {
            format!("the entry `{name}` is not in the form that Holdall writes: {e}").into()
        });
    }
    let mut of_tensors = ours.of_tensors;
    for (entry, (range, head)) in entries.into_iter().zip(heads) {
        let name = entry.name().strip_suffix(EXTENSION).unwrap_or(entry.name());
        if !is_name(name) {
            let message = format!("invalid name of an entry: `{}`", entry.name().escaped());
            return Err(NAME.broken(message).at(range).into());
        }
        match head {
            Ok((header, crc)) => {
                let attributes = of_tensors.remove(name).unwrap_or_default();
                let head_len = header.len;
                let (header, attributes) = typed(header, attributes);
                let len = entry.decoded_len().saturating_sub(head_len);
                let (start, encoding) = match entry.method() {
                    Method::Stored => (range.start.saturating_add(head_len), Encoding::Raw),
                    _ => (range.start, Encoding::DEFLATE_NPY),
                };
                // The CRC-32 of the elements alone.
                let crc = entry.crc32() ^ crc32_combine(crc, 0, len);
                let digest = Some(Digest::Crc32(crc));
                let elements =
                    Elements { stored: (start..range.end).into(), encoding, len, digest };
                add_array(&mut builder, name, &header, elements, attributes)?;
            }
            Err(e) => {
                builder.tensor(name, &[], Layout::Dense)?;
                builder.claim(range.into())?;
                builder.fault(e);
            }
        }
    }
    Ok(builder.finish()?)
}

/// Reads the header of an array, and computes the CRC-32 of the header.
fn head(entry: Entry<'_>, range: &Range<u64>, window: &Window) -> Result<(Header, u32), Stop> {
    let bytes = match entry.method() {
        Method::Stored => {
            let first = |len: u64| {
                window.bytes(range.start..range.end.min(range.start.saturating_add(len)))
            };
            let start = first(START)?;
            first(npy::header_len(&start)?)?
        }
        Method::Deflate => inflated(range, window)?,
        other => {
            let message = format!("the entry is compressed with the unsupported method {other}");
            return Err(METHOD.broken(message).at(range.clone()).into());
        }
    };
    let header = npy::read_any(&bytes)?;
    if header.len > entry.decoded_len() {
        let message = format!(
            "the entry has {} bytes, but its header has {}",
            entry.decoded_len(),
            header.len
        );
        return Err(npy::TRUNCATED.broken(message).into());
    }
    Ok((header, Crc32::zip_crc32(&bytes)))
}

/// Decodes the header at the start of a compressed array, reading only as many bytes as needed.
fn inflated(range: &Range<u64>, window: &Window) -> Result<Bytes, Stop> {
    let mut len = FIRST;
    loop {
        let end = range.end.min(range.start.saturating_add(len));
        let stored = window.bytes(range.start..end)?;
        let mut stream = deflate::Stream::new();
        let (mut out, mut read) = (Vec::new(), 0usize);
        let mut wanted = START;
        loop {
            // At most `header_len` bytes.
            let at = out.len();
            out.resize(usize::try_from(wanted).unwrap_or(0).max(at), 0);
            let room = out.get_mut(at..).debug_unwrap();
            let (used, written) = stream.decode(stored.get(read..).debug_unwrap(), room)?;
            read = read.saturating_add(used);
            out.truncate(at.saturating_add(written));
            if out.len() as u64 == wanted {
                let whole = npy::header_len(&out)?;
                if whole <= wanted {
                    return Ok(out.into());
                }
                wanted = whole;
            } else if (used, written) == (0, 0) {
                break;
            }
        }
        if end == range.end {
            // The bytes that exist are enough to report the error.
            return Ok(out.into());
        }
        len = len.saturating_mul(8);
    }
}

/// Gives opaque bytes the type that an entry written by Holdall names. Returns the header and the other attributes.
fn typed(mut header: Header, mut attributes: Attributes) -> (Header, Attributes) {
    let declared = match attributes.get(TYPE) {
        Some(Value::Text(text)) => match (text.as_str(), header.inner) {
            ("bf16", Some(2)) => Some((DType::Bf16, None)),
            (name, Some(1)) => {
                let logical = LogicalType::from_name(name);
                let is_byte = logical.bits() == Some(8) && logical.storage() == Some(DType::U8);
                is_byte.then_some((DType::U8, Some(logical)))
            }
            _ => None,
        },
        _ => None,
    };
    let is_opaque = header.dtype == DType::U8 && header.descr.is_some();
    if let Some((dtype, logical)) = declared.filter(|_| is_opaque) {
        attributes.remove(TYPE);
        (header.dtype, header.logical_type) = (dtype, logical);
        (header.descr, header.inner) = (None, None);
        header.shape.pop();
    }
    (header, attributes)
}
