//! Reads the sampled runs of both files and compares them.

use super::correlation::Correlation;
use super::plan::{Candidate, SampledRun, Side, Stored};
use bytes::Bytes;
use holdall_core::Result;
use holdall_core::layout::Computed as _;
use holdall_core::layout::blocks::Blocks;
use holdall_io::{File, Work};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The bytes of each side that are in memory at once, on each thread.
const BATCH: u64 = 16 << 20;

/// A compared run.
pub(super) struct ComparedRun {
    pub(super) candidate: usize,
    pub(super) sums: Correlation,
    /// A vector that is sampled as a whole, by its numbers.
    pub(super) vectors: Option<[Vec<f64>; 2]>,
}

/// Reads runs of both files, many with each request, and compares them. They are in the order of the file `a`.
pub(super) fn compare(
    files: [&File; 2],
    all: &[Candidate],
    mut runs: Vec<SampledRun>,
    work: &Work,
) -> Result<Vec<ComparedRun>> {
    let len = |side: usize, run: &SampledRun| {
        let bytes = all[run.candidate].sides[side].bytes(&run.elements);
        bytes.end - bytes.start
    };
    let sources = |run: &SampledRun| [0, 1].map(|side| all[run.candidate].sides[side].source);
    runs.sort_by_key(|run| {
        let bytes = all[run.candidate].sides[0].bytes(&run.elements);
        (sources(run), bytes.start)
    });
    work.begin(runs.iter().map(|run| len(0, run) + len(1, run)).sum());
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut batched = 0;
    for (at, run) in runs.iter().enumerate() {
        let cost = len(0, run).max(len(1, run));
        match batches.last_mut() {
            Some(batch)
                if batched + cost <= BATCH && sources(&runs[batch.start]) == sources(run) =>
            {
                batch.end = at + 1;
                batched += cost;
            }
            _ => {
                batches.push(at..at + 1);
                batched = cost;
            }
        }
    }
    let found = Mutex::new(Vec::with_capacity(runs.len()));
    work.for_each(
        batches,
        || (),
        |(), batch| {
            let some = &runs[batch.clone()];
            let read = |side: usize| -> Result<Vec<Bytes>> {
                let ranges: Vec<Range<u64>> = some
                    .iter()
                    .map(|run| all[run.candidate].sides[side].bytes(&run.elements))
                    .collect();
                let source = sources(&some[0])[side];
                files[side]
                    .sources()
                    .at(source)
                    .read(&ranges)
                    .map_err(|e| e.in_source(files[side].name()))
            };
            let (of_a, of_b) = (read(0)?, read(1)?);
            let mut done = 0;
            for (n, (run, (x, y))) in some.iter().zip(of_a.iter().zip(&of_b)).enumerate() {
                done += (x.len() + y.len()) as u64;
                let compared = compare_run(&all[run.candidate], run, x, y)?;
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push((batch.start + n, compared));
            }
            work.advance(done)
        },
    )?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In order, so that the sums do not depend on the order in which threads finish.
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, run)| run).collect())
}

fn compare_run(
    candidate: &Candidate,
    run: &SampledRun,
    a: &Bytes,
    b: &Bytes,
) -> Result<ComparedRun> {
    let mut values = [Vec::new(), Vec::new()];
    for ((side, bytes), values) in candidate.sides.iter().zip([a, b]).zip(&mut values) {
        numbers(side, bytes, values)?;
    }
    let mut sums = Correlation::default();
    sums.add_values(&values[0], &values[1], candidate.rounding());
    let is_whole = run.elements == (0..candidate.count) && candidate.is_float();
    let vectors = is_whole.then_some(values);
    Ok(ComparedRun { candidate: run.candidate, sums, vectors })
}

/// Replaces the contents of `out` with the numbers of stored elements.
fn numbers(side: &Side, bytes: &Bytes, out: &mut Vec<f64>) -> Result<()> {
    match &side.stored {
        Stored::Plain(element) => element.as_stored().read_f64(bytes, out),
        Stored::Blocks(block) => {
            let count = bytes.len() as u64 / block.bytes.max(1) * block.elements;
            let mut values = vec![0f32; count as usize];
            Blocks::new(block, &[count], bytes.clone())?.dequantize_range(0..count, &mut values)?;
            *out = values.into_iter().map(f64::from).collect();
            Ok(())
        }
    }
}
