//! Compares two models by a small sample of their weights.
//!
//! `docs/sampling.md` explains the statistics and their limits.

mod correlation;
mod plan;
mod read;
mod verdict;

use super::TensorDiff;
use holdall_core::diff::{TensorPair, compare};
use holdall_core::layout::number::NumberClass;
use holdall_core::{Layout, Result};
use holdall_io::select::Select;
use holdall_io::{File, Work, with_work};
use plan::{Candidate, Planner};
use verdict::Evidence;

/// Options of a comparison by a sample.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SampleOptions {
    work: Work,
    select: Select,
    share: f64,
    /// Whether no more is read than the verdict needs, even if `share` allows it.
    is_frugal: bool,
}

impl SampleOptions {
    /// Creates the default options: all tensors, at most 1 % of the bytes and less of large models, one thread per core, no
    /// progress.
    pub fn new() -> SampleOptions {
        SampleOptions {
            work: Work::default(),
            select: Select::default(),
            share: 0.01,
            is_frugal: true,
        }
    }

    /// Reads this share of the stored bytes of each file at most, from 0 to 1. More of it is used than by default, where
    /// 256 KiB of a tensor are enough.
    pub fn with_share(mut self, share: f64) -> SampleOptions {
        self.share = share.clamp(0.0, 1.0);
        self.is_frugal = false;
        self
    }

    /// Samples only the selected tensors.
    pub fn with_select(mut self, select: Select) -> SampleOptions {
        self.select = select;
        self
    }
}

with_work!(SampleOptions);

impl Default for SampleOptions {
    fn default() -> SampleOptions {
        SampleOptions::new()
    }
}

/// What a sample says about two models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleVerdict {
    /// The same names, shapes and attributes, and no difference in what was sampled, but for rounding to another type.
    Same,
    /// The weights correlate: one is a fine-tune of the other, or both of a third, or one is a quantized copy.
    SameBase,
    /// The weights do not correlate.
    Unrelated,
    /// The sample does not say.
    Undecided,
}

impl SampleVerdict {
    /// Returns the name, such as `same_base`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SampleVerdict::Same => "same",
            SampleVerdict::SameBase => "same_base",
            SampleVerdict::Unrelated => "unrelated",
            SampleVerdict::Undecided => "undecided",
        }
    }
}

/// The result of a comparison by a sample.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleDiff {
    /// The verdict.
    pub verdict: SampleVerdict,
    /// The evidence for the verdict, or the reason for the lack of one: a sentence without a point.
    pub reason: String,
    /// The probability with which each statement below holds, such as 0.999.
    pub confidence: f64,
    /// The number of bytes that were requested of the tensors of `a` and of `b`; headers come in addition.
    pub bytes_read: (u64, u64),
    /// The number of bytes that the tensors of `a` and of `b` take.
    pub bytes: (u64, u64),
    /// The number of runs of neighbouring elements that were compared.
    pub runs: u64,
    /// The number of elements that were compared.
    pub elements: u64,
    /// The number of elements of these that are not equal, apart from rounding to the type of the other side.
    pub unequal: u64,
    /// The number of tensors of which elements were compared.
    pub sampled: u64,
    /// The number of tensors that are in both models with the same shape, or with another number of rows.
    pub common: u64,
    /// The number of tensors that are only in `a`, only in `b`, or in both with other shapes.
    pub unmatched: u64,
    /// The share of the weights of the larger model in matrices of which elements were compared.
    pub coverage: f64,
    /// The share of these weights in matrices that correlate: by more than 0.5, with `confidence`.
    pub related: f64,
    /// The share of these weights in matrices that do not.
    pub unrelated: f64,
    /// The correlation in the median matrix, by weights.
    pub correlation: Option<f64>,
    /// The interval in which that correlation is in the whole matrix, with `confidence`.
    pub interval: Option<(f64, f64)>,
    /// The greatest share of runs that can differ if none of the sampled ones does, with `confidence`.
    pub most_unequal: f64,
    /// Whether the types of some tensors differ, and all their values are equal when rounded to the other type.
    pub is_rounded: bool,
    /// Whether a side is quantized, and no difference is larger than quantization makes: a fine-tune could hide below it.
    pub is_within_quantization: bool,
}

/// Compares two models by a sample of their tensors, which is small and the same each time.
///
/// The sample is spread over all matrices that both models have under the same name, in runs of neighbouring elements. All
/// ranges of a remote file are requested together.
///
/// # Errors
/// Returns the errors of reading either file; a `NotFound` error if the selection names a tensor that is in neither file.
pub fn sample(a: &File, b: &File, options: &SampleOptions) -> Result<SampleDiff> {
    let takes = |name: &str| options.select.selects(name);
    let (whole, pairs) = compare(a.index(), b.index(), takes);
    if whole.compared == 0 && whole.removed.is_empty() && whole.added.is_empty() {
        options.select.tensors(a)?;
    }
    let mut evidence = Evidence::new(a, b, takes);
    evidence.has_other_attributes = !whole.attributes.is_empty();
    evidence.unmatched = (whole.removed.len() + whole.added.len()) as u64;
    let (mut matrices, mut others) = (Vec::new(), Vec::new());
    for pair in &pairs {
        evidence.has_other_attributes |= !pair.diff.attributes.is_empty();
        let Some(rows) = common_elements(pair) else {
            evidence.unmatched += 1;
            continue;
        };
        evidence.common += 1;
        evidence.is_resized |= pair.diff.shapes.is_some();
        match Candidate::new(&a.tensor(pair.a.name())?, &b.tensor(pair.b.name())?, rows) {
            Some(candidate) if is_matrix(pair) && candidate.is_float() => matrices.push(candidate),
            Some(candidate) => others.push(candidate),
            None => evidence.unreadable += 1,
        }
    }
    let budgets = [a, b].map(|file| plan::budget(file, takes, options.share));
    let mut planner = Planner::new([a, b], budgets, options.is_frugal);
    // The rest is for vectors, which decide whether nothing changed at all.
    planner.reserve(8);
    let runs = planner.spread(&matrices);
    evidence.matrices(read::compare([a, b], &matrices, runs, &options.work)?, &matrices);
    planner.reserve(0);
    if evidence.needs_others() {
        let runs = planner.once(&others);
        evidence.others(read::compare([a, b], &others, runs, &options.work)?);
    }
    evidence.bytes_read = planner.planned();
    Ok(evidence.finish())
}

/// Returns the number of elements that two tensors have in common: all if the shapes are equal, those of the rows that both
/// have if only the first dimension differs.
fn common_elements(pair: &TensorPair) -> Option<u64> {
    let TensorDiff { shapes, .. } = &pair.diff;
    let Some((x, y)) = shapes else { return Some(pair.a.count()) };
    match (&x[..], &y[..]) {
        ([_, x @ ..], [_, y @ ..]) if x == y && !x.is_empty() => {
            Some(pair.a.count().min(pair.b.count()))
        }
        _ => None,
    }
}

/// Returns `true` if a tensor has at least two dimensions that are longer than 1.
fn is_matrix(pair: &TensorPair) -> bool {
    pair.a.shape().iter().filter(|&&size| size > 1).count() >= 2
}

/// Returns the number of weights in a tensor: its elements, if they are real numbers.
fn weights(tensor: &holdall_core::TensorInfo) -> u64 {
    let is_float = || {
        let element = tensor.dtype().map(|dtype| {
            holdall_core::layout::number::ElementType::new(dtype, tensor.logical_type())
        });
        element.is_some_and(|e| e.is_known() && e.class() == NumberClass::Float)
    };
    let is_numbers = match tensor.layout() {
        Layout::Dense => is_float(),
        layout => layout.is_computed(),
    };
    if is_numbers { tensor.count() } else { 0 }
}
