//! Sums over the elements that are the same in both files, for the tensors and layers in which others are not.

use super::jobs::{Found, Pair};
use super::values::{elements, is_beyond_us};
use super::{DiffOptions, LayerDiff};
use crate::elements::step;
use holdall_core::diff::{Layers, Squares, Tally, sum_of_squares};
use holdall_core::{Encoding, Layout, Result, Role};
use holdall_io::Tensor;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Elements of a raw tensor that one job sums.
const PIECE: u64 = 1 << 24;

/// Sums over the elements of two tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    pub(super) squares: Squares,
    /// Whether equal elements are not included.
    pub(super) is_partial: bool,
}

impl Sums {
    /// Returns the sums of a comparison, unless the elements are of an unknown type.
    pub(super) fn new(tally: &Tally) -> Option<Sums> {
        tally.sums().map(|squares| Sums { squares, is_partial: tally.skipped > 0 })
    }
}

/// Completes the sums of the changed tensors, and returns the differences by layer.
pub(super) fn layers(
    pairs: &[Pair],
    found: &mut Found,
    options: &DiffOptions,
) -> Result<Vec<LayerDiff>> {
    let mut layers = Layers::default();
    let numbers: Vec<usize> = pairs.iter().map(|pair| layers.number(pair.a.name())).collect();
    let mut is_changed = vec![false; numbers.iter().max().map_or(0, |last| last + 1)];
    let mut wanted: Vec<bool> = pairs.iter().map(has_numbers).collect();
    for (pair, diff) in &found.changed {
        if diff.values.as_ref().is_some_and(|values| values.unequal > 0) {
            is_changed[numbers[*pair]] = true;
        }
        wanted[*pair] &= diff.incomparable.is_none() && diff.shapes.is_none();
    }
    let mut sums: Vec<Option<Squares>> = vec![None; pairs.len()];
    for (pair, own) in &found.sums {
        sums[*pair] = Some(own.squares);
        wanted[*pair] &= own.is_partial;
    }
    let wanted = (0..pairs.len()).filter(|at| wanted[*at] && is_changed[numbers[*at]]).collect();
    for (pair, norm) in norms(pairs, wanted, options)? {
        let own = sums[pair].get_or_insert_default();
        own.add(&Squares::of_equal((norm - own.source).max(0.0)));
    }
    let mut changed = found.changed.iter_mut().peekable();
    for (at, pair) in pairs.iter().enumerate() {
        let own = sums[at].as_ref();
        let mut diff = changed.next_if(|(pair, _)| *pair == at).map(|(_, diff)| diff);
        if let (Some(own), Some(values)) =
            (own, diff.as_mut().and_then(|diff| diff.values.as_mut()))
        {
            values.set_squares(Some(own));
        }
        let count = if has_elements(pair) { pair.a.count() } else { 0 };
        layers.add(pair.a.name(), count, diff.as_deref(), own);
    }
    Ok(layers.finish())
}

/// Returns `true` if a pair is compared element by element.
fn has_elements(pair: &Pair) -> bool {
    match pair.a.layout() {
        Layout::Records | Layout::Blob => false,
        Layout::Other(_) => pair.a.description().is_some(),
        _ => true,
    }
}

/// Returns `true` if the elements of a pair are numbers that can be read.
fn has_numbers(pair: &Pair) -> bool {
    let is_known = pair.a.logical_type().is_none_or(|t| t.bits().is_some());
    has_elements(pair) && is_known && pair.fault().is_none()
}

/// A part of a tensor to be summed.
struct Norm {
    pair: usize,
    /// `None` for a whole tensor.
    elements: Option<Range<u64>>,
}

/// Returns the sum of the squares of the elements of each of these pairs in `a`, unless they cannot be read.
fn norms(pairs: &[Pair], wanted: Vec<usize>, options: &DiffOptions) -> Result<Vec<(usize, f64)>> {
    let mut jobs = Vec::new();
    for pair in wanted {
        let tensor = &pairs[pair].a;
        let is_raw = *tensor.layout() == Layout::Dense
            && tensor.component(&Role::Data).is_some_and(|c| c.encoding == Encoding::Raw);
        let count = tensor.count();
        match is_raw && count > PIECE {
            true => jobs.extend(
                (0..count)
                    .step_by(PIECE as usize)
                    .map(|start| Norm { pair, elements: Some(start..count.min(start + PIECE)) }),
            ),
            false => jobs.push(Norm { pair, elements: None }),
        }
    }
    let work = &options.work;
    work.begin(jobs.iter().map(|job| cost(pairs, job)).sum());
    let found = Mutex::new(Vec::with_capacity(jobs.len()));
    work.for_each(jobs, Vec::new, |memory, job| {
        let cost = cost(pairs, &job);
        match norm(&pairs[job.pair].a, job.elements.clone(), memory) {
            Ok(norm) => {
                let start = job.elements.map_or(0, |elements| elements.start);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push((job.pair, start, norm));
            }
            Err(e) if is_beyond_us(&e) => {}
            Err(e) => return Err(e),
        }
        work.advance(cost)
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In order, so that the sums do not depend on the order in which threads finish.
    found.sort_by_key(|(pair, start, _)| (*pair, *start));
    let mut out: Vec<(usize, f64)> = Vec::new();
    for (pair, _, norm) in found {
        match out.last_mut() {
            Some((last, sum)) if *last == pair => *sum += norm,
            _ => out.push((pair, norm)),
        }
    }
    Ok(out)
}

/// Returns the bytes that a job reads.
fn cost(pairs: &[Pair], job: &Norm) -> u64 {
    let tensor = &pairs[job.pair].a;
    match &job.elements {
        None => tensor.stored_len(),
        Some(range) => {
            let bits = tensor.dtype().map_or(0, |dtype| dtype.width() * 8);
            (range.end - range.start).saturating_mul(bits) / 8
        }
    }
}

fn norm(tensor: &Tensor, range: Option<Range<u64>>, memory: &mut Vec<u8>) -> Result<f64> {
    let all = elements(tensor)?;
    let step = step(&[&all]);
    let mut sum = 0.0;
    if let Some(range) = range {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + step);
            sum +=
                all.with(start..end, memory, |bytes| sum_of_squares(&all.element_type, bytes))?;
            start = end;
        }
        return Ok(sum);
    }
    let mut cursor = all.cursor()?;
    loop {
        let read = cursor.next(step, |bytes| {
            sum += sum_of_squares(&all.element_type, bytes)?;
            Ok(bytes.len())
        })?;
        if read == 0 {
            return Ok(sum);
        }
    }
}
