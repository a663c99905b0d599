//! Compares values: small pairs of tensors whole, large ones in pieces, on all threads.

use super::norms::Sums;
use super::values::{is_beyond_us, stored};
use super::{DiffOptions, TensorDiff};
use crate::elements::{Elements, step};
use holdall_core::diff::{Scratch, Squares, Tally, is_comparable, unravel};
use holdall_core::{Error, Layout, Result, Role};
use holdall_io::Tensor;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Pairs of dense tensors of up to this many bytes together are compared in one job.
const SMALL: u64 = 4 << 20;
/// Maximum number of small pairs in one job.
const MAX_BATCH: usize = 256;

/// Two tensors of the same name, and the differences found so far.
pub(super) struct Pair {
    pub(super) a: Tensor,
    pub(super) b: Tensor,
    pub(super) diff: TensorDiff,
}

impl Pair {
    /// Returns the error if one of the tensors cannot be read.
    pub(super) fn fault(&self) -> Option<Error> {
        [&self.a, &self.b].into_iter().find_map(|tensor| tensor.sound().err())
    }
}

/// Buffers that a thread keeps between jobs.
#[derive(Default)]
pub(super) struct JobBuffers {
    pub(super) scratch: Scratch,
    a: Vec<u8>,
    b: Vec<u8>,
}

enum Job {
    /// Compares these pairs completely.
    Pairs(Range<usize>),
    /// Compares the digests of a large pair.
    Digests(usize),
    /// Compares a range of elements of a large pair.
    Piece { big: usize, range: Range<u64> },
}

/// A pair of dense tensors that is split into several jobs.
struct Big {
    pair: usize,
    a: Elements,
    b: Elements,
    tally: Mutex<Tally>,
    /// The sums of each piece, with the index of its first element.
    squares: Mutex<Vec<(u64, Squares)>>,
}

pub(super) struct Context<'a> {
    pairs: &'a [Pair],
    big: Vec<Big>,
    pub(super) options: &'a DiffOptions,
    found: Mutex<Found>,
}

/// What the comparison of all pairs found.
#[derive(Default)]
pub(super) struct Found {
    /// The differing pairs, by index.
    pub(super) changed: Vec<(usize, TensorDiff)>,
    /// The sums over the elements of the pairs of which any were summed, by index.
    pub(super) sums: Vec<(usize, Sums)>,
}

impl Found {
    fn add(&mut self, pair: usize, diff: TensorDiff, sums: Option<Sums>) {
        if diff.is_change() {
            self.changed.push((pair, diff));
        }
        let says_nothing = |sums: &Sums| sums.is_partial && sums.squares == Squares::default();
        if let Some(sums) = sums.filter(|sums| !says_nothing(sums)) {
            self.sums.push((pair, sums));
        }
    }
}

/// Compares the values of all pairs.
pub(super) fn compare(pairs: &[Pair], options: &DiffOptions) -> Result<Found> {
    let mut context = Context { pairs, big: Vec::new(), options, found: Mutex::default() };
    let jobs = context.cut()?;
    options.work.begin(jobs.iter().map(|job| context.cost(job)).sum());
    options.work.for_each(jobs, JobBuffers::default, |kept, job| {
        let cost = context.cost(&job);
        context.run(kept, job)?;
        options.work.advance(cost)
    })?;
    let mut found = context.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for big in context.big {
        let pair = &pairs[big.pair];
        let mut tally = big.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut squares = big.squares.into_inner().unwrap_or_else(PoisonError::into_inner);
        // In order, so that the sums do not depend on the order in which threads finish.
        squares.sort_by_key(|(start, _)| *start);
        squares.iter().for_each(|(_, piece)| tally.squares.add(piece));
        let mut diff = pair.diff.clone();
        let sums = Sums::new(&tally);
        diff.values = tally.finish(|at| unravel(pair.a.shape(), at));
        found.add(big.pair, diff, sums);
    }
    found.changed.sort_by_key(|(pair, _)| *pair);
    found.sums.sort_by_key(|(pair, _)| *pair);
    Ok(found)
}

impl Context<'_> {
    /// Splits the work into jobs: first the pairs that one thread must compare from start to end, the longest
    /// first, then all others in the order of `a`.
    fn cut(&mut self) -> Result<Vec<Job>> {
        let (mut whole, mut jobs): (Vec<Job>, Vec<Job>) = (Vec::new(), Vec::new());
        // Bytes in the current batch.
        let mut batched = 0;
        for at in 0..self.pairs.len() {
            let len = self.pair_len(at);
            if len <= SMALL {
                batched += len;
                match jobs.last_mut() {
                    Some(Job::Pairs(batch))
                        if batch.end == at && batch.len() < MAX_BATCH && batched <= SMALL =>
                    {
                        batch.end = at + 1;
                    }
                    _ => {
                        jobs.push(Job::Pairs(at..at + 1));
                        batched = len;
                    }
                }
                continue;
            }
            let Some((a, b, count)) = self.open(at)? else {
                whole.push(Job::Pairs(at..at + 1));
                continue;
            };
            let step = step(&[&a, &b]);
            let big = self.big.len();
            self.big.push(Big {
                pair: at,
                a,
                b,
                tally: Mutex::default(),
                squares: Mutex::default(),
            });
            let ranges = (0..count.div_ceil(step)).map(|i| i * step..count.min((i + 1) * step));
            jobs.extend(ranges.map(|range| Job::Piece { big, range }));
            whole.push(Job::Digests(big));
        }
        whole.sort_by_key(|job| std::cmp::Reverse(self.cost(job)));
        whole.append(&mut jobs);
        Ok(whole)
    }

    /// Returns the elements of a pair of dense tensors if any range of them can be read independently.
    fn open(&self, at: usize) -> Result<Option<(Elements, Elements, u64)>> {
        let Pair { a, b, diff } = &self.pairs[at];
        let dense = [a, b].iter().all(|t| *t.layout() == Layout::Dense);
        if !dense || diff.shapes.is_some() || self.pairs[at].fault().is_some() {
            return Ok(None);
        }
        let (a, b) = match (stored(a, &Role::Data), stored(b, &Role::Data)) {
            (Ok(a), Ok(b)) => (a, b),
            // The error is reported when the pair is compared.
            (Err(e), _) | (_, Err(e)) if is_beyond_us(&e) => return Ok(None),
            (a, b) => (a?, b?),
        };
        let open =
            a.is_random() && b.is_random() && is_comparable(&a.element_type, &b.element_type);
        // Remote bytes are fetched once: their digests are computed while reading from start to end.
        let open = open && !a.checks_digest_in_order() && !b.checks_digest_in_order();
        let count = a.count.filter(|_| open && a.count == b.count);
        Ok(count.map(|count| (a, b, count)))
    }

    /// Returns the bytes to be read for a pair.
    fn pair_len(&self, at: usize) -> u64 {
        let Pair { a, b, diff } = &self.pairs[at];
        if diff.shapes.is_some() { 0 } else { a.stored_len().saturating_add(b.stored_len()) }
    }

    fn cost(&self, job: &Job) -> u64 {
        match job {
            Job::Pairs(pairs) => pairs.clone().map(|at| self.pair_len(at)).sum(),
            // Other jobs read these bytes too.
            Job::Digests(_) => 0,
            Job::Piece { big, range } => {
                let Big { a, b, .. } = &self.big[*big];
                a.element_type.len_of(range.end - range.start)
                    + b.element_type.len_of(range.end - range.start)
            }
        }
    }

    fn run(&self, kept: &mut JobBuffers, job: Job) -> Result<()> {
        match job {
            Job::Pairs(pairs) => pairs.into_iter().try_for_each(|at| self.pair(kept, at)),
            Job::Digests(big) => self.big[big].a.compare().and_then(|()| self.big[big].b.compare()),
            Job::Piece { big, range } => self.piece(kept, &self.big[big], range),
        }
    }

    fn piece(&self, kept: &mut JobBuffers, big: &Big, range: Range<u64>) -> Result<()> {
        let pair = &self.pairs[big.pair];
        let compare = self.comparison(pair, &big.a, &big.b);
        let mut tally = Tally::default();
        let JobBuffers { scratch, a: memory_a, b: memory_b } = kept;
        big.a.with(range.clone(), memory_a, |a| {
            big.b.with(range.clone(), memory_b, |b| {
                let count = range.end - range.start;
                compare.elements(range.start, count, a, b, &mut tally, scratch)
            })
        })?;
        if tally.squares != Squares::default() {
            let piece = (range.start, tally.squares);
            big.squares.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
        }
        big.tally.lock().unwrap_or_else(PoisonError::into_inner).add(tally);
        Ok(())
    }

    /// Compares the values of a pair from start to end.
    fn pair(&self, kept: &mut JobBuffers, at: usize) -> Result<()> {
        let pair = &self.pairs[at];
        let mut found = pair.diff.clone();
        let mut sums = None;
        if let Some(e) = pair.fault() {
            found.incomparable = Some(e);
        } else if found.shapes.is_none() {
            match self.values(kept, pair, &mut found) {
                Ok(tally) => sums = tally.as_ref().and_then(Sums::new),
                Err(e) if is_beyond_us(&e) => found.incomparable = Some(e),
                Err(e) => return Err(e),
            }
        }
        self.found.lock().unwrap_or_else(PoisonError::into_inner).add(at, found, sums);
        Ok(())
    }
}
