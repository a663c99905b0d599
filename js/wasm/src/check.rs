//! Verification besides digests and decoding: how components fit together, records, blobs, gaps.

use crate::file::File;
use crate::json::{self, CALL, Object};
use crate::records;
use crate::view::{Held, get};
use crate::{Answer, le};
use holdall_collections::sort;
use holdall_core::layout::delta::{DeltaView, LAYOUT};
use holdall_core::layout::planes;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::records::{BlobLayout, schema_text};
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::{Error, Index, Layout, Limits, Role, TensorInfo};
use holdall_json::parse;
use holdall_schema::record::rules::{JSON, TOO_LARGE, UTF8};
use holdall_schema::{Content, Entry, Schema, SchemaLimits, normalize};

/// Checks how the components of a tensor fit together. The answer is one byte if there is no
/// check for its layout.
pub(crate) fn check(info: TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let found = match info.layout() {
        Layout::SparseCsr | Layout::PackedCsr => {
            Csr::from_tensor(&info, get(&info, held), limits).map(drop)
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            Coo::from_tensor(&info, get(&info, held), limits).map(drop)
        }
        Layout::SparseBlocks | Layout::SparseHybrid => {
            Tiles::from_tensor(&info, get(&info, held), limits).map(drop)
        }
        Layout::QuantizedGroup => Quantized::from_tensor(&info, get(&info, held)).map(drop),
        Layout::Dense | Layout::Blocks(_) | Layout::Strided => Ok(()),
        Layout::Planes(_) => planes::check(&info).map(drop),
        Layout::Other(name) if &**name == LAYOUT => {
            DeltaView::from_tensor(&info, get(&info, held)).map(drop)
        }
        Layout::Records => records::check(&info, held, limits),
        Layout::Blob => blob(&info, held, limits),
        #[cfg(feature = "whole")]
        other if let Some(found) = crate::whole::tensor_of_package(other, &info, held, limits) => {
            found
        }
        _ => return Ok(Answer::Done(vec![1])),
    };
    found.map(|()| Answer::NOTHING).map_err(|e| e.in_tensor(info.name()))
}

fn blob(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<(), Error> {
    let limits_of_schemas = limits.schema_limits();
    let json = parse(schema_text(info)?.as_bytes(), limits.depth).and_then(normalize)?;
    let runs = BlobLayout::new(info, &Schema::compile(&json, &limits_of_schemas)?)?;
    let get = get(info, held);
    let entries = get(&Role::Entries)?;
    runs.check_len(entries.len() as u64)?;
    let heap = get(&Role::BlobData)?;
    let most = limits.decoded_len.max(info.stored_len().saturating_mul(limits.expansion));
    let mut left = most;
    for (at, entry) in entries.as_chunks::<{ Entry::LEN }>().0.iter().enumerate() {
        let range = runs.range(Entry::from_bytes(*entry), heap.len() as u64);
        let run = range
            .and_then(|range| {
                // Inside the heap, which is in memory.
                let run = &heap[range.start as usize..range.end as usize];
                fits(run, runs.content, &limits_of_schemas).map(|()| run)
            })
            .map_err(|e| e.within(format!("run {at}")))?;
        left = left.checked_sub(run.len() as u64).ok_or_else(|| {
            TOO_LARGE.broken(format!(
                "the entries up to index {at} have more than {most} bytes in total"
            ))
        })?;
    }
    Ok(())
}

/// Checks that the bytes of a run have the blob's content.
fn fits(run: &[u8], content: Content, limits: &SchemaLimits) -> Result<(), Error> {
    match content {
        Content::Utf8 => match std::str::from_utf8(run) {
            Ok(_) => Ok(()),
            Err(e) => {
                Err(UTF8.broken(format!("byte {} of the text is not UTF-8", e.valid_up_to())))
            }
        },
        Content::Json => match parse(run, limits.depth) {
            Ok(_) => Ok(()),
            Err(e) => Err(JSON.broken("not JSON").because(e)),
        },
        _ => Ok(()),
    }
}

/// Returns the gaps of the file that must be zero, if its format has this rule: start, end, and
/// the index of the next tensor.
pub(crate) fn gaps(file: &File) -> Result<Answer, Error> {
    let index = file.index()?;
    let has_rule = holdall_formats::by_name(index.format()).and_then(|f| f.gaps).is_some();
    Ok(if has_rule { Answer::Done(le(between(index))) } else { Answer::NOTHING })
}

/// Returns the gaps that align components, for formats and versions whose writers set them to
/// zero: the code of the warning for other bytes, and `ranges` as in [`gaps`].
pub(crate) fn padding(file: &File) -> Result<Answer, Error> {
    let index = file.index()?;
    let code = holdall_formats::by_name(index.format()).and_then(|f| f.padding?(index.version()));
    let Some(code) = code else { return Ok(Answer::NOTHING) };
    let starts = index.tensors().flat_map(|t| t.components().collect::<Vec<_>>());
    let starts = starts.filter(|c| c.stored.source == 0 && !c.stored.is_empty());
    let bits = starts.fold(MAX_ALIGN, |all, c| all | c.stored.start);
    let align = (1u64 << bits.trailing_zeros()).max(LEAST_ALIGN);
    let mut ranges = between(index);
    for gap in ranges.as_chunks_mut::<3>().0 {
        // A longer gap may be left from tensors that were removed.
        let next = gap[0].next_multiple_of(align);
        let end = if next == gap[1] { next } else { gap[0].next_multiple_of(LEAST_ALIGN) };
        gap[1] = gap[1].min(end);
    }
    let text = Object::new().text("code", code).with("ranges", |out| {
        json::list(ranges, out, json::integer);
    });
    Ok(Answer::text(text.finish()))
}

/// The smallest alignment of components, in bytes, up to the largest one that files are written
/// with.
const LEAST_ALIGN: u64 = 64;
const MAX_ALIGN: u64 = 2 << 20;

/// Returns the ranges of the first source that belong to no component: start, end, and the index
/// of the next tensor.
fn between(index: &Index) -> Vec<u64> {
    let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
    for tensor in index.tensors() {
        let at = tensor.position() as u64;
        let own = tensor.components().filter(|c| c.stored.source == 0);
        ranges.extend(own.map(|c| (c.stored.start, c.stored.end, at)));
    }
    let claimed = index.claimed().iter().filter(|extent| extent.source == 0);
    ranges.extend(claimed.map(|extent| (extent.start, extent.end, u64::MAX)));
    sort(&mut ranges);
    let mut end = index.data_range().start;
    let mut out = Vec::new();
    for (start, own_end, tensor) in ranges {
        if start > end {
            out.extend([end, start, tensor]);
        }
        end = end.max(own_end);
    }
    out
}

/// Checks that the bytes of a gap are zero.
pub(crate) fn gap(file: &File, start: u64, bytes: &[u8], tensor: u64) -> Result<Answer, Error> {
    let index = file.index()?;
    let Some(rule) = holdall_formats::by_name(index.format()).and_then(|f| f.gaps) else {
        return Err(CALL.broken("the format has no rule about gaps"));
    };
    let Some(at) = bytes.iter().position(|b| *b != 0) else { return Ok(Answer::NOTHING) };
    let (place, end) = (start + at as u64, start + bytes.len() as u64);
    let message = format!("byte {place} is {:#04x}, in the gap {start}..{end}", bytes[at]);
    let name = usize::try_from(tensor).ok().and_then(|at| index.at(at));
    let name = name.map(|t| t.name().to_owned()).unwrap_or_default();
    Err(rule.broken(message).at(start..end).in_tensor(name))
}
