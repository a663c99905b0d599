//! What the values of a tensor are like, pass by pass.

use crate::json::{self, CALL, Object};
use crate::view::{Held, element_type, get};
use crate::{Answer, le};
use holdall_core::layout::number::ElementType;
use holdall_core::layout::sparse::{Coo, Csr};
use holdall_core::layout::stats::{Bins, Measure, Moments, Stats, stored_values};
use holdall_core::{Error, Layout, Limits, TensorInfo};

/// Values that are gone through.
pub(crate) struct Pass {
    of: ElementType,
    bins: usize,
    moments: Moments,
    second: Option<(Stats, Bins)>,
    /// Zeros that are not stored.
    zeros: u64,
}

impl Pass {
    /// The input is the name of the type of the elements.
    pub(crate) fn begin(name: &[u8], bins: u32) -> Result<Pass, Error> {
        let of = element_type(name)?;
        let moments = Moments::new(&of);
        Ok(Pass { of, bins: bins.min(1 << 16) as usize, moments, second: None, zeros: 0 })
    }

    /// Takes whole elements.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Answer, Error> {
        match &mut self.second {
            Some((_, bins)) => bins.take(&self.of, bytes)?,
            None => {
                let mut part = Moments::new(&self.of);
                part.take(&self.of, bytes)?;
                self.moments.add(&part);
            }
        }
        Ok(Answer::NOTHING)
    }

    /// Ends the first pass, with so many zeros that are not stored. The answer is a byte where there is to be another.
    pub(crate) fn turn(&mut self, zeros: u64) -> Answer {
        self.zeros = zeros;
        self.moments.add_zeros(zeros);
        let stats = self.moments.finish(&self.of, zeros);
        let bins = if self.bins > 0 { Bins::from_stats(&stats, self.bins) } else { None };
        self.second = bins.map(|bins| (stats, bins));
        Answer::Done(vec![1; usize::from(self.second.is_some())])
    }

    /// What was found.
    pub(crate) fn finish(self) -> Answer {
        let stats = match self.second {
            None => self.moments.finish(&self.of, self.zeros),
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

/// The stored values of a sparse tensor whose components are held: how many zeros it has besides, and their bytes.
/// Nothing where some share a place.
pub(crate) fn stored(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let get = get(info, held);
    let found = match info.layout() {
        Layout::SparseCsr | Layout::PackedCsr => {
            let csr = Csr::from_tensor(info, get, limits)?;
            stored_values(csr.values(), || csr.places(), info.count())
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            let coo = Coo::from_tensor(info, get, limits)?;
            stored_values(coo.values(), || coo.places(), info.count())
        }
        // Their entries are looked at as they lie in the whole.
        Layout::SparseBlocks | Layout::SparseHybrid => None,
        _ => return Err(CALL.broken("the tensor is not sparse")),
    };
    Ok(Answer::Done(found.map_or_else(Vec::new, |(values, zeros)| {
        let mut out = le([zeros]);
        out.extend_from_slice(&values.into_bytes());
        out
    })))
}
