//! Reads: planning fetches for components, and decoding the fetched bytes.

use crate::file::source;
use crate::json::CALL;
use crate::{Answer, State, le};
use holdall_core::layout::BOOL_BYTE;
use holdall_core::read::{Assembly, DecodedPart, FetchSizing, Plan, Purpose, ReadHints, Want};
use holdall_core::{ByteOrder, Bytes, Component, DType, Encoding, Error, Layout, TensorInfo};
use std::collections::BTreeMap;

/// Decoded bytes are passed to the host; otherwise they are only checked.
const GIVE: u32 = 1;
/// Bools are checked to be 0 or 1.
const BOOLS: u32 = 2;
/// Nothing is decoded here: the host uses the fetched bytes of components that are stored raw.
const BARE: u32 = 4;

/// The length of a request from the host: indices of tensor and component, flags, padding, start,
/// end.
const WANT_LEN: usize = 32;
/// The request has a range of the decoded bytes.
const RANGE: u32 = 1;
/// The digest in the file is checked.
const DIGEST: u32 = 2;
/// The stored bytes are returned without decoding.
const AS_STORED: u32 = 4;
/// The request is for the bytes of a checksum of the file, by its index, instead of a component.
#[cfg(feature = "whole")]
const CHECKSUM: u32 = 8;

/// The alignment of typed arrays, in bytes.
const ALIGN: u64 = 8;

/// Active reads by number.
#[derive(Default)]
pub(crate) struct Reads {
    next: u32,
    open: BTreeMap<u32, Read>,
}

struct Read {
    assembly: Assembly,
    mode: u32,
    /// For each request, whether its bytes are bools, and its tensor.
    wants: Vec<(bool, Option<TensorInfo>)>,
    /// The error for the first byte that is not a bool.
    bad: Option<Error>,
}

/// Returns the costs of reads.
pub(crate) fn hints(piece: u64, gap: u64, at_once: u32) -> ReadHints {
    let mut hints = if at_once > 1 { ReadHints::REMOTE } else { ReadHints::DISK };
    (hints.piece, hints.gap, hints.at_once) = (piece, gap, at_once as usize);
    hints
}

/// Plans a read of the requests in `input`. The answer has the number of the read, the numbers of
/// fetches and of parts, and both: for a fetch its source, the number of its parts, start and
/// end; for a part its request, its purpose, and the ranges of its stored and of its decoded
/// bytes.
pub(crate) fn plan(
    state: &mut State,
    input: &[u8],
    mode: u32,
    hints: ReadHints,
) -> Result<Answer, Error> {
    let file = state.file()?;
    let (mut wants, mut wants_info) = (Vec::new(), Vec::new());
    for raw in input.chunks_exact(WANT_LEN) {
        let (at, number, flags) = (u32_at(raw, 0), u32_at(raw, 4), u32_at(raw, 8));
        #[cfg(feature = "whole")]
        if flags & CHECKSUM != 0 {
            wants.push(file.checksum(at)?);
            wants_info.push((false, None));
            continue;
        }
        let info = file.info(at)?;
        info.sound()?;
        let mut component = file.component(at, number)?;
        let algorithm = component.stored_digest_algorithm();
        if flags & AS_STORED != 0 {
            component.decoded_len = Some(component.stored_len());
            (component.encoding, component.byte_order) = (Encoding::Raw, ByteOrder::Little);
        }
        let bools = mode & BOOLS != 0 && flags & AS_STORED == 0 && is_bool(&info, &component);
        let mut want = Want::new(at, component);
        if flags & RANGE != 0 {
            want = want.with_range(u64_at(raw, 16)..u64_at(raw, 24));
        }
        if flags & DIGEST != 0 {
            want = want.with_digests(algorithm);
        }
        wants.push(want.with_table(file.known_table(at, number)));
        wants_info.push((bools, Some(info)));
    }
    let mut cut = FetchSizing::from(hints);
    cut.align = ALIGN;
    let plan = Plan::new(wants, cut);
    let mut out = le([0, plan.fetches().len() as u64, plan.parts().len() as u64]);
    for fetch in plan.fetches() {
        let parts = fetch.parts.len() as u64;
        out.extend(le([source(&fetch.extent), parts, fetch.extent.start, fetch.extent.end]));
    }
    for part in plan.parts() {
        let purpose = match part.purpose {
            Purpose::Alone => 0,
            Purpose::Next => 1,
            Purpose::Digest => 2,
        };
        let (stored, decoded) = (&part.stored, &part.decoded);
        let numbers =
            [part.want.into(), purpose, stored.start, stored.end, decoded.start, decoded.end];
        out.extend(le(numbers));
    }
    if mode & BARE == 0 {
        let assembly = Assembly::new(plan, &state.limits).map_err(|e| named(e, &wants_info))?;
        let number = state.reads.next.wrapping_add(1);
        state.reads.next = number;
        state.reads.open.insert(number, Read { assembly, mode, wants: wants_info, bad: None });
        out[..8].copy_from_slice(&u64::from(number).to_le_bytes());
    }
    Ok(Answer::Done(out))
}

impl Reads {
    /// Adds bytes of a fetch. The answer is what could be decoded: the index of the request, the
    /// offset in its decoded bytes, their number, and the bytes, padded to a multiple of 8.
    pub(crate) fn push(
        &mut self,
        read: u32,
        fetch: u32,
        offset: u64,
        bytes: Bytes,
    ) -> Result<Answer, Error> {
        let Some(Read { assembly, mode, wants, bad }) = self.open.get_mut(&read) else {
            return Err(CALL.broken(format!("there is no read number {read}")));
        };
        let gives = *mode & GIVE != 0;
        let mut out = Vec::new();
        let taken = assembly.push(fetch as usize, offset, bytes, |arrival| {
            let DecodedPart { want, offset, bytes } = arrival;
            if bad.is_none() && wants.get(want as usize).is_some_and(|(bools, _)| *bools) {
                *bad = not_bool(&bytes, offset).map(|e| match wants.get(want as usize) {
                    Some((_, Some(info))) => e.in_tensor(info.name()),
                    _ => e,
                });
            }
            if gives {
                out.extend(le([want.into(), offset, bytes.len() as u64]));
                out.extend_from_slice(&bytes);
                out.resize(out.len().next_multiple_of(8), 0);
            }
            Ok(())
        });
        match taken {
            Ok(()) => Ok(Answer::Done(out)),
            Err(e) => Err(named(e, wants)),
        }
    }

    pub(crate) fn finish(&mut self, read: u32) -> Result<Answer, Error> {
        let Some(Read { assembly, wants, bad, .. }) = self.open.remove(&read) else {
            return Err(CALL.broken(format!("there is no read number {read}")));
        };
        assembly.finish().map_err(|e| named(e, &wants))?;
        bad.map_or(Ok(Answer::NOTHING), Err)
    }

    pub(crate) fn forget(&mut self, read: u32) {
        self.open.remove(&read);
    }
}

/// Adds the name of the tensor to an error of a read, if all requests are for one tensor.
fn named(e: Error, wants: &[(bool, Option<TensorInfo>)]) -> Error {
    match wants {
        [(_, Some(only))] => e.in_tensor(only.name()),
        _ => e,
    }
}

/// Returns whether the bytes of a component are only bools; a packed sparse tensor has indices
/// among them.
fn is_bool(info: &TensorInfo, c: &Component) -> bool {
    let packed = matches!(info.layout(), Layout::PackedCsr | Layout::PackedCoo);
    !packed && c.dtype == DType::Bool && c.logical_type.is_none()
}

fn not_bool(bytes: &[u8], start: u64) -> Option<Error> {
    let at = bytes.iter().position(|b| *b > 1)?;
    let (element, value) = (start + at as u64, bytes[at]);
    Some(BOOL_BYTE.broken(format!("element {element} is {value}; a bool is 0 or 1")))
}

fn u32_at(raw: &[u8], at: usize) -> u32 {
    raw.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    raw.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}
