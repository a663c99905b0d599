//! Floors: the simplest code that moves the same bytes, for comparison.

pub mod blocks;
pub mod digest;
pub mod memory;
pub mod read;
pub mod wire;
pub mod write;
pub mod zstd;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the number of threads that a floor uses: one for every core, as for the contestants.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Keeps this process, and what it starts, on one core.
pub fn on_one_core() -> io::Result<()> {
    // SAFETY: the set is initialised, and its length is given.
    let done = unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut cores);
        libc::sched_setaffinity(0, size_of_val(&cores), &cores)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls `work` with every piece of `0..len`, each at most `piece` bytes, on `threads` threads. A thread that has
/// finished a piece takes the next one.
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
