//! What the sampled runs say together.

use super::correlation::{CONFIDENCE, Correlation, most_unseen};
use super::plan::Candidate;
use super::read::ComparedRun;
use super::{SampleDiff, SampleVerdict, weights};
use holdall_io::File;

/// Matrices that correlate by more than this are related.
const RELATED: f64 = 0.5;
/// The share of the weights that must be in related matrices for models to have the same base.
const MOSTLY: f64 = 0.5;
/// The share of the weights that must be in unrelated matrices for models to be unrelated.
const NEARLY_ALL: f64 = 0.95;
/// The share of the weights of the larger model that must be in sampled matrices for any verdict on their relation.
const COVERED: f64 = 0.5;
/// The number of equal runs below which models are not called the same.
const FEW_RUNS: u64 = 32;
/// The number of different values that a vector needs to be evidence.
const MANY_VALUES: usize = 16;

/// What was found out about two models so far.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) has_other_attributes: bool,
    /// Whether tensors with another number of rows are among the common ones.
    pub(super) is_resized: bool,
    pub(super) common: u64,
    pub(super) unmatched: u64,
    /// Common tensors of which no ranges of elements can be read, such as compressed ones.
    pub(super) unreadable: u64,
    /// The bytes of each side, and of those the planned ones.
    pub(super) bytes_read: [(u64, u64); 2],
    /// The weights of the larger model.
    weights: u64,
    runs: u64,
    sampled: u64,
    all: Correlation,
    /// The weights in sampled matrices, related and unrelated ones.
    covered: u64,
    related: u64,
    unrelated: u64,
    /// The correlation, its interval and the weights of each matrix.
    correlations: Vec<(f64, (f64, f64), u64)>,
    is_quantized: bool,
    is_beyond_quantization: bool,
    /// Vectors with the same values in any order, that no two models have by chance.
    same_vectors: u64,
}

impl Evidence {
    pub(super) fn new(a: &File, b: &File, takes: impl Fn(&str) -> bool) -> Evidence {
        let sum = |file: &File| {
            let taken = file.tensors().filter(|tensor| takes(tensor.name()));
            taken.fold(0, |sum: u64, tensor| sum.saturating_add(weights(tensor.info())))
        };
        Evidence { weights: sum(a).max(sum(b)), ..Evidence::default() }
    }

    /// Adds runs of matrices.
    pub(super) fn matrices(&mut self, runs: Vec<ComparedRun>, all: &[Candidate]) {
        let mut sums: Vec<Option<Correlation>> = vec![None; all.len()];
        for run in runs {
            self.runs += 1;
            self.all.add(&run.sums);
            sums[run.candidate].get_or_insert_default().add(&run.sums);
        }
        for (candidate, sums) in all.iter().zip(sums) {
            let Some(sums) = sums else { continue };
            self.sampled += 1;
            if candidate.is_quantized() {
                self.is_quantized = true;
                self.is_beyond_quantization |= sums.relative() > candidate.quantization();
            } else {
                self.is_beyond_quantization |= sums.unequal > 0;
            }
            let Some(r) = sums.pearson() else { continue };
            let weights = candidate.count;
            self.covered = self.covered.saturating_add(weights);
            let interval = sums.interval(r);
            if interval.0 > RELATED {
                self.related = self.related.saturating_add(weights);
            } else if interval.1 < RELATED {
                self.unrelated = self.unrelated.saturating_add(weights);
            }
            self.correlations.push((r, interval, weights));
        }
    }

    /// Returns `true` if vectors could change the verdict: if nothing differs so far, or if matrices do not correlate.
    pub(super) fn needs_others(&self) -> bool {
        self.all.unequal == 0 || self.related < self.covered / 2
    }

    /// Adds runs of vectors, integers and other tensors.
    pub(super) fn others(&mut self, runs: Vec<ComparedRun>) {
        for run in runs {
            self.runs += 1;
            self.sampled += 1;
            self.all.add(&run.sums);
            self.is_beyond_quantization |= run.sums.unequal > 0;
            self.same_vectors += u64::from(run.vectors.is_some_and(|[a, b]| is_same_vector(a, b)));
        }
    }

    fn share(&self, part: u64) -> f64 {
        if self.weights == 0 { 0.0 } else { part as f64 / self.weights as f64 }
    }

    pub(super) fn finish(mut self) -> SampleDiff {
        let (verdict, reason) = self.verdict();
        self.correlations.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut before = 0u64;
        let median = self.correlations.iter().find(|(_, _, weights)| {
            before = before.saturating_add(*weights);
            before >= self.covered / 2
        });
        let [(all_a, of_a), (all_b, of_b)] = self.bytes_read;
        let has_other_types = self.all.inexact > 0 && self.all.unequal == 0;
        SampleDiff {
            verdict,
            reason,
            confidence: CONFIDENCE,
            bytes_read: (of_a, of_b),
            bytes: (all_a, all_b),
            runs: self.runs,
            elements: self.all.count,
            unequal: self.all.unequal,
            sampled: self.sampled,
            common: self.common,
            unmatched: self.unmatched,
            coverage: self.share(self.covered),
            related: self.share(self.related),
            unrelated: self.share(self.unrelated),
            correlation: median.map(|(r, ..)| *r),
            interval: median.map(|(_, interval, _)| *interval),
            most_unequal: most_unseen(self.runs),
            is_rounded: verdict == SampleVerdict::Same && has_other_types,
            is_within_quantization: self.is_quantized && !self.is_beyond_quantization,
        }
    }

    fn verdict(&self) -> (SampleVerdict, String) {
        use SampleVerdict::{Same, SameBase, Undecided, Unrelated};
        let percent = |x: f64| format!("{:.1} %", 100.0 * x);
        if self.common == 0 {
            return (Undecided, "no tensor of one has a name and shape of the other".to_owned());
        }
        if self.runs == 0 {
            let why = match self.unreadable == self.common {
                true => "no tensor is stored so that a part of it can be read",
                false => "the share is less than one read takes",
            };
            return (Undecided, why.to_owned());
        }
        let is_equal = self.all.unequal == 0;
        let is_same_shape = self.unmatched == 0 && !self.is_resized;
        if is_equal && is_same_shape && self.runs < FEW_RUNS {
            let found = format!("only {} runs were compared, which are equal", self.runs);
            return (Undecided, found);
        }
        if is_equal && is_same_shape {
            let what = match (self.all.inexact > 0, self.has_other_attributes) {
                (true, _) => "all sampled elements are equal, rounded to the less precise type",
                (false, true) => "all sampled elements are equal, but attributes differ",
                (false, false) => "all sampled elements are equal",
            };
            return (Same, what.to_owned());
        }
        let covered = self.share(self.covered);
        if covered < COVERED {
            let found = percent(covered);
            return (
                Undecided,
                format!("only {found} of the weights are in matrices that could be sampled"),
            );
        }
        let [related, unrelated] =
            [self.related, self.unrelated].map(|part| part as f64 / self.covered.max(1) as f64);
        if related >= MOSTLY {
            return (SameBase, format!("{} of the sampled weights correlate", percent(related)));
        }
        if unrelated < NEARLY_ALL {
            let (x, y) = (percent(related), percent(unrelated));
            return (Undecided, format!("{x} of the sampled weights correlate, {y} do not"));
        }
        if self.same_vectors > 0 {
            let found = "the matrices do not correlate, but vectors have the same values: the order of neurons may differ";
            return (Undecided, found.to_owned());
        }
        (Unrelated, format!("{} of the sampled weights do not correlate", percent(unrelated)))
    }
}

/// Returns `true` if two vectors have the same values in any order, and are neither constants nor ramps, which unrelated models
/// can share.
fn is_same_vector(mut a: Vec<f64>, mut b: Vec<f64>) -> bool {
    let is_ramp = |v: &[f64]| v.is_sorted() || v.iter().rev().is_sorted();
    if is_ramp(&a) || is_ramp(&b) {
        return false;
    }
    for v in [&mut a, &mut b] {
        v.sort_by(f64::total_cmp);
    }
    let is_equal = a == b;
    a.dedup();
    is_equal && a.len() >= MANY_VALUES
}

#[cfg(test)]
mod tests {
    use super::is_same_vector;

    #[test]
    fn constants_ramps_and_few_values_are_no_evidence() {
        let odd: Vec<f64> = (0..64).map(|n| f64::from(n * 37 % 64)).collect();
        let mut turned = odd.clone();
        turned.rotate_left(9);
        assert!(is_same_vector(odd.clone(), turned.clone()));
        turned[0] += 0.5;
        assert!(!is_same_vector(odd, turned));
        let ramp: Vec<f64> = (0..64).map(f64::from).collect();
        assert!(!is_same_vector(ramp.clone(), ramp));
        let few: Vec<f64> = (0..64).map(|n| f64::from(n % 5)).collect();
        assert!(!is_same_vector(few.clone(), few));
    }
}
