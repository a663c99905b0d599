//! Checks how components fit together: sparse indices, quantized groups, records, blobs.

use super::{Reason, State, VerifyOptions, VerifyReport};
use crate::delta::is_difference;
use holdall_core::error::Escape as _;
use holdall_core::layout::delta::DeltaView;
use holdall_core::layout::planes;
use holdall_core::layout::strided::Strided;
use holdall_core::{Component, DType, Encoding, Extent, Layout, Result, Role};
use holdall_io::{Check, Tensor, held};
use holdall_records::TensorRecords as _;
use holdall_schema::Content;
use holdall_schema::record::rules::TOO_LARGE;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Checks the layouts of `tensors`. Tensors with damaged bytes are skipped, since they have a finding
/// already.
pub(super) fn check<'a>(
    tensors: &'a [Tensor],
    options: &VerifyOptions,
    state: &State,
    report: &mut VerifyReport,
) -> Result<()> {
    let counts = Counts::default();
    let layered = |t: &&Tensor| {
        *t.layout() != Layout::Dense && t.fault().is_none() && !state.is_bad(t.position())
    };
    let mut seen = HashSet::new();
    let with_len = |t: &'a Tensor| (t, own_len(t, &mut seen));
    let mut jobs: Vec<(&Tensor, u64)> = tensors.iter().filter(layered).map(with_len).collect();
    // The longest first, so that no thread still works on a long one at the end.
    jobs.sort_by_key(|(t, _)| std::cmp::Reverse(t.stored_len()));
    options.work.for_each(
        jobs,
        || (),
        |(), (tensor, len)| check_one(tensor, len, state, &counts),
    )?;
    report.sparse += counts.sparse.into_inner();
    report.quantized += counts.quantized.into_inner();
    report.described += counts.described.into_inner();
    report.records += counts.records.into_inner();
    report.blobs += counts.blobs.into_inner();
    report.read_len += counts.read_len.into_inner();
    Ok(())
}

/// Returns the bytes that only these checks read; bytes shared by several tensors count for the first.
fn own_len(tensor: &Tensor, seen: &mut HashSet<Extent>) -> u64 {
    // Components in chunks were read before.
    let is_unread = |c: &Component| {
        c.digest.is_none()
            && c.encoding == Encoding::Raw
            && c.dtype != DType::Bool
            && c.stored.chunked().is_none()
    };
    let own = tensor.components().filter(is_unread).filter(|c| seen.insert(c.stored));
    own.map(|c| c.stored_len()).sum()
}

/// Number of tensors found sound.
#[derive(Default)]
struct Counts {
    sparse: AtomicU64,
    quantized: AtomicU64,
    described: AtomicU64,
    records: AtomicU64,
    blobs: AtomicU64,
    /// Bytes that only these checks read.
    read_len: AtomicU64,
}

fn check_one(tensor: &Tensor, len: u64, state: &State, counts: &Counts) -> Result<()> {
    // Their digests were compared before.
    let unchecked = tensor.checked_with(Check::Off);
    let (checked, count) = match tensor.layout() {
        Layout::SparseCsr | Layout::PackedCsr => (held::csr(&unchecked).map(drop), &counts.sparse),
        Layout::SparseCoo | Layout::PackedCoo => (held::coo(&unchecked).map(drop), &counts.sparse),
        Layout::SparseBlocks | Layout::SparseHybrid => {
            (held::tiles(&unchecked).map(drop), &counts.sparse)
        }
        Layout::QuantizedGroup => (held::quantized(&unchecked).map(drop), &counts.quantized),
        // The only possible error in blocks is their length, which opening checks.
        Layout::Blocks(_) => return Ok(()),
        // Every bit pattern is a number, so the components alone can be wrong.
        Layout::Strided | Layout::Planes(_) => {
            let checked = match tensor.layout() {
                Layout::Strided => Strided::check(tensor.info()),
                _ => planes::check(tensor.info()).map(drop),
            };
            return match checked {
                Ok(()) => Ok(()),
                Err(e) => state.find(tensor.position(), u64::MAX, e.in_tensor(tensor.name())),
            };
        }
        Layout::Other(_) if is_difference(tensor) => {
            let get = |role: &Role| unchecked.bytes(role);
            return match DeltaView::from_tensor(tensor.info(), get) {
                Ok(_) => Ok(()),
                Err(e) => state.find(tensor.position(), u64::MAX, e.in_tensor(tensor.name())),
            };
        }
        Layout::Records => (check_records(tensor), &counts.records),
        Layout::Blob => (check_blob(tensor), &counts.blobs),
        _ if tensor.described_weight().is_some() => {
            (tensor.check_described_weight(), &counts.quantized)
        }
        _ if tensor.description().is_some() => {
            (tensor.described().and_then(|view| view.check()), &counts.described)
        }
        other => {
            let (at, name) = (tensor.position(), tensor.name());
            state.skip(at, Reason::UnknownLayout, name, None, || {
                format!("layout `{}` is not known", other.as_str().escaped())
            });
            return Ok(());
        }
    };
    counts.read_len.fetch_add(len, Ordering::Relaxed);
    match checked {
        Ok(()) => {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(e) => state.find(tensor.position(), u64::MAX, e.in_tensor(tensor.name())),
    }
}

/// Records that are not in memory are read whole up to this many bytes: their references may point anywhere,
/// and many small reads could each cost a round trip. Longer ones are read piece by piece.
const WHOLE_MAX: u64 = 32 << 20;

fn check_records(tensor: &Tensor) -> Result<()> {
    let records = tensor.records()?;
    let len = |c: Component| c.decoded_len.unwrap_or(c.stored_len());
    let is_short = tensor.components().map(len).fold(0, u64::saturating_add) <= WHOLE_MAX;
    let records = if is_short { records.loaded()? } else { records };
    let records = records.assume_compared();
    records.iter(0..records.len())?.try_for_each(|record| record?.check())
}

/// Entries may share bytes, so that their total can be far longer than the file: the total is limited.
fn check_blob(tensor: &Tensor) -> Result<()> {
    let blob = tensor.blob()?;
    let limits = tensor.file().limits();
    let most = limits.decoded_len.max(tensor.stored_len().saturating_mul(limits.expansion));
    let mut left = most;
    for at in 0..blob.len() {
        let len = blob.get(at)?.len() as u64;
        left = left.checked_sub(len).ok_or_else(|| {
            let message =
                format!("the entries up to index {at} have more than {most} bytes in total");
            TOO_LARGE.broken(message).in_tensor(tensor.name())
        })?;
        match blob.content() {
            Content::Utf8 => blob.str(at).map(drop)?,
            Content::Json => blob.json(at).map(drop)?,
            _ => {}
        }
    }
    Ok(())
}
