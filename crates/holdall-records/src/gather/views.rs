//! Texts as views: sixteen bytes for each, which have a short text in them and point at a long one.

use super::plan::END;
use crate::rules::ARROW;
use bytes::Bytes;
use holdall_core::Result;
use holdall_io::Work;
use holdall_io::buffer::Buffer;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a view.
const VIEW: usize = 16;
/// Bytes of a text that is in its view.
const SHORT: usize = 12;
/// Bytes from the start of one buffer to that of the next. Each is as long as two of these steps, so that no text is cut.
const STEP: usize = 1 << 30;
/// Texts that a thread takes at a time.
const EVERY: usize = 1 << 14;

/// Views of the texts that end at `ends`, as [`Values::Runs`](super::Values::Runs) has them, and the buffers that they point into.
///
/// # Errors
/// `records/arrow` for a text of more than 1 GiB.
pub fn views(ends: &Bytes, bytes: &Bytes, work: &Work) -> Result<(Buffer, Vec<Bytes>)> {
    let ends = ends.as_chunks::<END>().0;
    let mut out = Buffer::new(ends.len().saturating_sub(1) * VIEW)?;
    let is_long = AtomicBool::new(false);
    let jobs = out.as_mut().chunks_mut(EVERY * VIEW).zip((0..).step_by(EVERY)).collect();
    work.for_each(
        jobs,
        || (),
        |(), (slots, first): (&mut [u8], usize)| {
            let mut start = end(ends.get(first));
            let mut longest = 0;
            for (slot, next) in slots.as_chunks_mut().0.iter_mut().zip(&ends[first + 1..]) {
                let next = end(Some(next));
                longest = longest.max(next - start);
                *slot = view(bytes, start, next - start).to_le_bytes();
                start = next;
            }
            if longest > STEP {
                is_long.store(true, Ordering::Relaxed);
            }
            work.check()
        },
    )?;
    if is_long.into_inner() {
        return Err(ARROW.broken("a text of more than 1 GiB for a view"));
    }
    let each = (0..bytes.len()).step_by(STEP);
    Ok((out, each.map(|start| bytes.slice(start..bytes.len().min(start + 2 * STEP - 1))).collect()))
}

fn end(end: Option<&[u8; END]>) -> usize {
    end.map_or(0, |end| u64::from_le_bytes(*end) as usize)
}

fn view(bytes: &[u8], start: usize, len: usize) -> u128 {
    let text = bytes.get(start..).unwrap_or_default();
    let first = match text.first_chunk() {
        Some(first) => u128::from_le_bytes(*first),
        None => {
            let mut first = [0; VIEW];
            first[..text.len()].copy_from_slice(text);
            u128::from_le_bytes(first)
        }
    };
    let head = match len <= SHORT {
        true => first & ((1 << (8 * len)) - 1),
        false => {
            let (index, offset) = (start / STEP, start % STEP);
            first & 0xffff_ffff | (index as u128) << 32 | (offset as u128) << 64
        }
    };
    head << 32 | len as u128 & 0xffff_ffff
}
