//! Executing a plan with bytes in any order and in any pieces gives the same result as decoding each component in
//! order, or the same failure.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::read::{Assembly, Decoded, FetchSizing, Want};
use holdall::{Bytes, Digest, Error, Limits, Plan, ReadHints, Window, formats};
use std::sync::Arc;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let limits = limits::tight();
    let Ok(index) = formats::decode(&Window::whole(bytes.clone()), &limits) else { return };
    // The order is derived from the bytes, so it is the same each time.
    let mut state = data.iter().fold(0x9e37_79b9_7f4a_7c15u64, |state, b| {
        (state ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut roll = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below.max(1)
    };
    for tensor in index.tensors().take(64) {
        for c in tensor.components().filter(|c| !c.stored.is_stated()) {
            let digest = c.digest.as_ref().and_then(Digest::algorithm);
            let mut want = Want::new(tensor.position() as u32, c.clone()).with_digests(digest);
            if roll(2) == 0
                && let Some(extent) = c.table_extent()
            {
                let table = c.seek_table(&bytes[extent.start as usize..extent.end as usize]);
                want = want.with_table(table.ok().flatten().map(Arc::new));
            }
            let mut hints = [ReadHints::MEMORY, ReadHints::REMOTE][roll(2)];
            hints.piece = [16, 1000, 1 << 20][roll(3)];
            let cut = FetchSizing { align: [1, 64][roll(2)], ..FetchSizing::from(hints) };
            let plan = Plan::new(vec![want.clone()], cut);
            let one = in_order(&bytes, &want, &limits);
            let other = in_any_order(&bytes, plan, &limits, &mut roll);
            match (one, other) {
                (Ok(one), Ok(other)) => assert_eq!(one, other),
                (Err(one), Err(other)) => {
                    is_of_the_file(&one);
                    is_of_the_file(&other);
                }
                // zstd accepts more if it decodes a frame at once: it needs no window in addition to the bytes, and
                // matches may reach beyond it.
                (Err(one), Ok(_)) if one.code().starts_with("zstd/") => {}
                (one, other) => panic!("in order {one:?}, in any order {other:?}"),
            }
        }
    }
}

fn in_order(bytes: &Bytes, want: &Want, limits: &Limits) -> Result<Vec<u8>, Error> {
    let mut decoder = want.decoder(limits)?;
    let range = want.component.stored.range();
    let mut left = bytes.slice(range.start as usize..range.end as usize);
    let mut out = Vec::new();
    loop {
        match decoder.next()? {
            Decoded::Need => decoder.push(left.split_to(left.len().min(777))),
            Decoded::Piece(bytes) => out.extend_from_slice(&bytes),
            Decoded::End => return Ok(out),
        }
    }
}

fn in_any_order(
    bytes: &Bytes,
    plan: Plan,
    limits: &Limits,
    roll: &mut impl FnMut(usize) -> usize,
) -> Result<Vec<u8>, Error> {
    let mut pieces = Vec::new();
    for (number, fetch) in plan.fetches().iter().enumerate() {
        let whole = bytes.slice(fetch.extent.start as usize..fetch.extent.end as usize);
        let mut at = 0;
        while at < whole.len() {
            let end = whole.len().min(at + 1 + whole.len() / 8 + roll(300));
            pieces.push((number, at as u64, whole.slice(at..end)));
            at = end;
        }
    }
    for i in (1..pieces.len()).rev() {
        pieces.swap(i, roll(i + 1));
    }
    let mut found = Vec::new();
    let mut assembly = Assembly::new(plan, limits)?;
    for (fetch, offset, bytes) in pieces {
        assembly.push(fetch, offset, bytes, |arrival| {
            found.push((arrival.offset, arrival.bytes));
            Ok(())
        })?;
    }
    assembly.finish()?;
    found.sort_by_key(|(offset, _)| *offset);
    let mut out = Vec::new();
    for (offset, bytes) in found {
        assert_eq!(offset, out.len() as u64);
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}
