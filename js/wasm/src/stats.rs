//! Statistics of a tensor's values, in two passes.

use crate::json::{self, CALL, Object};
use crate::view::{Held, element_type, get};
use crate::{Answer, le};
use holdall_core::layout::number::ElementType;
use holdall_core::layout::sparse::{Coo, Csr};
use holdall_core::layout::stats::{Bins, Measure, Moments, Stats, stored_values};
use holdall_core::{Error, Layout, Limits, TensorInfo};

/// The values that are being processed.
pub(crate) struct Pass {
    element_type: ElementType,
    bins: usize,
    moments: Moments,
    second: Option<(Stats, Bins)>,
    /// The number of zeros that are not stored.
    zeros: u64,
}

impl Pass {
    /// Begins statistics; `name` is the type of the elements.
    pub(crate) fn begin(name: &[u8], bins: u32) -> Result<Pass, Error> {
        let element_type = element_type(name)?;
        let moments = Moments::new(&element_type);
        Ok(Pass { element_type, bins: bins.min(1 << 16) as usize, moments, second: None, zeros: 0 })
    }

    /// Adds whole elements.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Answer, Error> {
        match &mut self.second {
            Some((_, bins)) => bins.take(&self.element_type, bytes)?,
            None => {
                let mut part = Moments::new(&self.element_type);
                part.take(&self.element_type, bytes)?;
                self.moments.add(&part);
            }
        }
        Ok(Answer::NOTHING)
    }

    /// Ends the first pass; `zeros` is the number of zeros that are not stored. The answer is one
    /// byte if a second pass is needed.
    pub(crate) fn turn(&mut self, zeros: u64) -> Answer {
        self.zeros = zeros;
        self.moments.add_zeros(zeros);
        let stats = self.moments.finish(&self.element_type, zeros);
        let bins = if self.bins > 0 { Bins::from_stats(&stats, self.bins) } else { None };
        self.second = bins.map(|bins| (stats, bins));
        Answer::Done(vec![1; usize::from(self.second.is_some())])
    }

    /// Returns the statistics.
    pub(crate) fn finish(self) -> Answer {
        let stats = match self.second {
            None => self.moments.finish(&self.element_type, self.zeros),
            Some((mut stats, mut bins)) => {
                bins.add_zeros(self.zeros);
                stats.histogram = Some(bins.finish());
                stats
            }
        };
        Answer::text(shown(&stats))
    }
}

fn shown(stats: &Stats) -> String {
    let is_magnitude = stats.measure == Measure::Magnitude;
    let real = |x: Option<f64>| move |out: &mut String| json::maybe_float(x, out);
    let number = |n| move |out: &mut String| json::maybe_number(n, out);
    Object::new()
        .text("measure", if is_magnitude { "magnitude" } else { "value" })
        .number("count", stats.count)
        .number("zeros", stats.zeros)
        .number("impliedZeros", stats.implied_zeros)
        .number("nan", stats.nan)
        .number("inf", stats.inf)
        .number("negInf", stats.neg_inf)
        .with("min", number(stats.min))
        .with("max", number(stats.max))
        .with("mean", real(stats.mean))
        .with("std", real(stats.std))
        .with("histogram", |out| match &stats.histogram {
            None => out.push_str("null"),
            Some(found) => {
                let one = Object::new()
                    .with("min", real(Some(found.min)))
                    .with("max", real(Some(found.max)))
                    .with("counts", |out| {
                        json::list(found.counts.iter().copied(), out, json::integer)
                    });
                out.push_str(&one.finish());
            }
        })
        .finish()
}

/// Returns the stored values of a sparse tensor whose components are held: the number of its
/// other zeros, and the bytes of the values. The answer is empty if several entries have the same
/// index.
pub(crate) fn stored(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let get = get(info, held);
    let found = match info.layout() {
        Layout::SparseCsr | Layout::PackedCsr => {
            let csr = Csr::from_tensor(info, get, limits)?;
            stored_values(csr.values(), || csr.flat_indices(), info.count())
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            let coo = Coo::from_tensor(info, get, limits)?;
            stored_values(coo.values(), || coo.flat_indices(), info.count())
        }
        // These are converted to dense form as a whole.
        Layout::SparseBlocks | Layout::SparseHybrid => None,
        _ => return Err(CALL.broken("the tensor is not sparse")),
    };
    Ok(Answer::Done(found.map_or_else(Vec::new, |(values, zeros)| {
        let mut out = le([zeros]);
        out.extend_from_slice(&values.into_bytes());
        out
    })))
}
