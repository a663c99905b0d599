//! Running jobs on several threads.

use holdall_core::{Error, Result};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

/// Returns the number of threads to use: `wanted`, by default one for each core.
pub(crate) fn threads(wanted: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    wanted.unwrap_or_else(cores).clamp(1, 256)
}

/// Runs all jobs on up to `threads` threads, in order. Each thread has its own state. The first error stops the jobs
/// that have not begun, and is returned. If the system cannot start as many threads, fewer run all jobs: the caller's
/// thread always takes part.
pub fn for_each<J: Send, S>(
    threads: usize,
    jobs: Vec<J>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J) -> Result<()> + Sync,
) -> Result<()> {
    if threads <= 1 || jobs.len() <= 1 {
        let mut state = state();
        return jobs.into_iter().try_for_each(|job| work(&mut state, job));
    }
    let threads = threads.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter());
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let run = || {
        let mut state = state();
        loop {
            // Poisoning is ignored: a panic leaves nothing inconsistent here.
            let job = queue.lock().unwrap_or_else(|p| p.into_inner()).next();
            let Some(job) = job else { return };
            if let Err(e) = work(&mut state, job) {
                failed.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
                queue.lock().unwrap_or_else(|p| p.into_inner()).by_ref().for_each(drop);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    match failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// Runs all jobs on up to `threads` threads, and returns the results in the order of the jobs. If several jobs fail,
/// returns the error of the first one in that order.
pub(crate) fn map<J: Send, T: Send>(
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let jobs = jobs.into_iter().enumerate().collect();
    let ended = for_each(
        threads,
        jobs,
        || (),
        |(), (at, job)| {
            let found = work(job);
            let ended = found.as_ref().map(drop).map_err(Error::clone);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, found));
            ended
        },
    );
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    // Every job before a failed one was begun before it, so its result is present.
    let all = done.into_iter().map(|(_, found)| found).collect::<Result<Vec<_>>>()?;
    ended.map(|()| all)
}
