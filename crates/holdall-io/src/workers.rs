//! Work on several threads.

use holdall_core::{Error, Result};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

/// The threads to use: what the caller wants, else one for each core.
pub(crate) fn threads(wanted: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    wanted.unwrap_or_else(cores).clamp(1, 256)
}

/// Does all jobs on up to `threads` threads, each with a state of its own, taking them in order. The
/// first error stops the jobs that have not begun, and is returned. Where the system starts fewer
/// threads, those do all of it: the caller's own always does its part.
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
            // A thread that panicked poisons nothing worth protecting here.
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

/// What each job comes to, in their order, done on up to `threads` threads. Of several that fail the first in that order is told.
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
    // Whatever comes before one that failed was begun before it.
    let all = done.into_iter().map(|(_, found)| found).collect::<Result<Vec<_>>>()?;
    ended.map(|()| all)
}
