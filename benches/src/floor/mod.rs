//! The barest code that moves the same bytes: what a comparison is measured against.

pub mod blocks;
pub mod digest;
pub mod memory;
pub mod read;
pub mod wire;
pub mod write;
pub mod zstd;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads a floor uses: every core, as the contestants may.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Calls `work` with every piece of `0..len`, of at most `piece` bytes, from `threads` threads that take
/// the next piece when they are done with one.
pub fn in_pieces<E: Send>(
    len: u64,
    piece: u64,
    threads: usize,
    work: impl Fn(Range<u64>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicU64::new(0);
    let take = || {
        loop {
            let start = next.fetch_add(piece, Ordering::Relaxed);
            if start >= len {
                return Ok(());
            }
            work(start..(start + piece).min(len))?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mine = take();
        others.into_iter().map(|t| t.join().unwrap_or(Ok(()))).fold(mine, Result::and)
    })
}
