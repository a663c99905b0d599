//! Timing the work of a contestant, and the results of a run.

use std::time::Instant;

/// The results of one run of one contestant.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// The wall time of the work.
    pub nanos: u64,
    /// The processor time of the work, over all threads and finished child processes.
    pub cpu_nanos: u64,
    /// A digest of the delivered bytes (see [`crate::workload::Check`]), computed after the clock stopped. All
    /// contestants of a comparison that return a digest must return the same.
    pub check: Option<u64>,
    /// The bytes written to the file, if the speed is measured by them.
    pub written: Option<u64>,
}

/// Runs `work` and returns its result and its time. The result is not dropped while the clock runs.
pub fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Outcome), E> {
    let cpu = cpu_nanos();
    let start = Instant::now();
    let made = work()?;
    let nanos = start.elapsed().as_nanos() as u64;
    Ok((made, Outcome { nanos, cpu_nanos: cpu_nanos() - cpu, check: None, written: None }))
}

/// Runs short work `times` times after one unmeasured run and returns the median run. The result of a run is dropped
/// between runs.
pub fn repeated<T, E>(
    times: usize,
    mut work: impl FnMut() -> Result<T, E>,
) -> Result<(T, Outcome), E> {
    let mut last = work()?;
    let mut runs = Vec::with_capacity(times);
    for _ in 0..times {
        drop(last);
        let (made, outcome) = timed(&mut work)?;
        last = made;
        runs.push(outcome);
    }
    runs.sort_by_key(|r| r.nanos);
    Ok((last, runs[runs.len() / 2]))
}

fn cpu_nanos() -> u64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: `usage` is valid memory for the structure, which consists of plain numbers.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(who, &mut usage);
                usage
            };
            let nanos =
                |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
            nanos(usage.ru_utime) + nanos(usage.ru_stime)
        })
        .sum()
}
