//! Statistics of values: min, max, mean, std, counts of special values, and a histogram.

use super::dense::Dense;
use super::number::{ElementType, Number, NumberClass};
use crate::error::Result;

/// The quantity that a [`Stats`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// The elements themselves; for a quantized tensor, the dequantized values.
    Value,
    /// The magnitudes of complex elements.
    Magnitude,
}

/// Statistics of the values of a tensor.
///
/// `min`, `max`, `mean`, `std` and the histogram cover the finite values; NaN and infinities are counted
/// separately.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The quantity that was measured.
    pub measure: Measure,
    /// The number of values, including the zeros that a sparse tensor does not store.
    pub count: u64,
    /// Values that are 0 (or -0).
    pub zeros: u64,
    /// The number of zeros that a sparse tensor does not store. `zeros` includes them.
    pub implied_zeros: u64,
    /// The number of NaN values.
    pub nan: u64,
    /// The number of values that are plus infinity.
    pub inf: u64,
    /// The number of values that are minus infinity.
    pub neg_inf: u64,
    /// The smallest finite value, exact even for 64-bit integers; `None` if no value is finite.
    pub min: Option<Number>,
    /// The largest finite value, exact even for 64-bit integers; `None` if no value is finite.
    pub max: Option<Number>,
    /// The mean of the finite values; `None` if no value is finite, or a sum overflows `f64`.
    pub mean: Option<f64>,
    /// The standard deviation of the population (divided by the count, not by the count minus one); `None` if `mean` is
    /// `None`.
    pub std: Option<f64>,
    /// The histogram of the finite values; `None` if no value is finite, or no bins were requested.
    pub histogram: Option<Histogram>,
}

/// Counts of finite values in bins of equal width from `min` to `max`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The start of the first bin: the smallest finite value.
    pub min: f64,
    /// The end of the last bin: the largest finite value.
    pub max: f64,
    /// The number of values in each bin. A value on the border of two bins belongs to the upper one, and `max`
    /// to the last. If all values are equal, there is one bin.
    pub counts: Vec<u64>,
}

/// The smallest and the largest value, exact.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MinMax {
    Float { min: f64, max: f64 },
    Integer { min: i128, max: i128 },
}

impl MinMax {
    /// Returns the initial state, before any value.
    fn new(element_type: &ElementType) -> MinMax {
        if element_type.is_integer() {
            MinMax::Integer { min: i128::MAX, max: i128::MIN }
        } else {
            MinMax::default()
        }
    }
}

impl Default for MinMax {
    fn default() -> MinMax {
        MinMax::Float { min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

/// Count, mean and sum of squared deviations of finite values, and counts of other values.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    finite: u64,
    mean: f64,
    squares: f64,
    zeros: u64,
    nan: u64,
    inf: u64,
    neg_inf: u64,
    min_max: MinMax,
}

/// The number of values that are processed side by side, for vector instructions.
const LANES: usize = 8;

impl Moments {
    /// Creates moments for elements of this type.
    pub fn new(element_type: &ElementType) -> Moments {
        Moments { min_max: MinMax::new(element_type), ..Moments::default() }
    }

    /// Adds elements.
    ///
    /// # Errors
    /// Returns the errors of [`ElementType::each_f64`].
    pub fn take(&mut self, element_type: &ElementType, bytes: &[u8]) -> Result<()> {
        let before = self.min_max;
        let mut left = Vec::new();
        element_type.each_f64(bytes, |values| self.take_values(values, &mut left))?;
        if element_type.class() == NumberClass::Wide {
            // An f64 cannot represent these exactly.
            self.min_max = before;
        }
        if let (NumberClass::Wide, MinMax::Integer { min, max }) =
            (element_type.class(), &mut self.min_max)
        {
            let mut exact = Vec::new();
            for bytes in bytes.chunks(8 << 10) {
                element_type.read_i128(bytes, &mut exact)?;
                *min = exact.iter().copied().fold(*min, i128::min);
                *max = exact.iter().copied().fold(*max, i128::max);
            }
        }
        Ok(())
    }

    /// Adds a few values, which stay in the cache for the second pass. `left` is reusable memory.
    fn take_values(&mut self, values: &[f64], left: &mut Vec<f64>) {
        if values.iter().fold(true, |all, x| all & x.is_finite()) {
            return self.take_finite(values);
        }
        left.clear();
        for &x in values {
            if x.is_finite() {
                left.push(x);
            } else if x.is_nan() {
                self.nan += 1;
            } else if x > 0.0 {
                self.inf += 1;
            } else {
                self.neg_inf += 1;
            }
        }
        self.take_finite(left);
    }

    fn take_finite(&mut self, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        let (lanes, rest) = values.as_chunks::<LANES>();
        let (mut mins, mut maxs) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let (mut sums, mut nulls) = ([0.0; LANES], [0u64; LANES]);
        let mut look = |i: usize, x: f64| {
            mins[i] = if x < mins[i] { x } else { mins[i] };
            maxs[i] = if x > maxs[i] { x } else { maxs[i] };
            sums[i] += x;
            nulls[i] += u64::from(x == 0.0);
        };
        for lane in lanes {
            (0..LANES).for_each(|i| look(i, lane[i]));
        }
        rest.iter().enumerate().for_each(|(i, &x)| look(i, x));
        let mean = sums.iter().sum::<f64>() / values.len() as f64;
        let mut squares = [0.0; LANES];
        let mut square = |i: usize, x: f64| squares[i] += (x - mean) * (x - mean);
        for lane in lanes {
            (0..LANES).for_each(|i| square(i, lane[i]));
        }
        rest.iter().enumerate().for_each(|(i, &x)| square(i, x));
        let min = mins.into_iter().fold(f64::INFINITY, f64::min);
        let max = maxs.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let min_max = match self.min_max {
            MinMax::Float { .. } => MinMax::Float { min, max },
            MinMax::Integer { .. } => MinMax::Integer { min: min as i128, max: max as i128 },
        };
        self.add(&Moments {
            finite: values.len() as u64,
            mean,
            squares: squares.iter().sum(),
            zeros: nulls.iter().sum(),
            min_max,
            ..Moments::default()
        });
    }

    /// Merges two sets of values (Chan, Golub and LeVeque), numerically stable whatever their sizes.
    pub fn add(&mut self, other: &Moments) {
        self.zeros += other.zeros;
        self.nan += other.nan;
        self.inf += other.inf;
        self.neg_inf += other.neg_inf;
        if other.finite == 0 {
            return;
        }
        let (a, b) = (self.finite as f64, other.finite as f64);
        let apart = other.mean - self.mean;
        self.finite += other.finite;
        self.mean += apart * (b / (a + b));
        self.squares += other.squares + apart * apart * (a * b / (a + b));
        match (&mut self.min_max, other.min_max) {
            (MinMax::Float { min, max }, MinMax::Float { min: a, max: b }) => {
                *min = min.min(a);
                *max = max.max(b);
            }
            (MinMax::Integer { min, max }, MinMax::Integer { min: a, max: b }) => {
                *min = a.min(*min);
                *max = b.max(*max);
            }
            _ => {}
        }
    }

    /// Adds zeros that are not stored.
    pub fn add_zeros(&mut self, count: u64) {
        let min_max = match self.min_max {
            MinMax::Float { .. } => MinMax::Float { min: 0.0, max: 0.0 },
            MinMax::Integer { .. } => MinMax::Integer { min: 0, max: 0 },
        };
        self.add(&Moments { finite: count, zeros: count, min_max, ..Moments::default() });
    }

    /// Returns the statistics. The histogram is computed in a second pass: see [`Bins`].
    pub fn finish(&self, element_type: &ElementType, implied_zeros: u64) -> Stats {
        let (min, max) = match self.min_max {
            MinMax::Float { min, max } => (Number::Float(min), Number::Float(max)),
            MinMax::Integer { min, max } => (Number::Integer(min), Number::Integer(max)),
        };
        let some = |n: Number| (self.finite > 0).then_some(n);
        let finite = |x: f64| (self.finite > 0 && x.is_finite()).then_some(x);
        Stats {
            measure: match element_type.class() {
                NumberClass::Complex => Measure::Magnitude,
                _ => Measure::Value,
            },
            count: self.finite + self.nan + self.inf + self.neg_inf,
            zeros: self.zeros,
            implied_zeros,
            nan: self.nan,
            inf: self.inf,
            neg_inf: self.neg_inf,
            min: some(min),
            max: some(max),
            mean: finite(self.mean),
            std: finite((self.squares / self.finite as f64).sqrt()),
            histogram: None,
        }
    }
}

/// Bins of equal width from the minimum to the maximum.
#[derive(Debug, Clone)]
pub struct Bins {
    min: f64,
    max: f64,
    counts: Vec<u64>,
    /// The divisor of values that keeps their differences within f64.
    shrink: f64,
}

impl Bins {
    /// Creates up to `count` bins for the finite values that `stats` describe, or `None` if no value is finite.
    pub fn from_stats(stats: &Stats, count: usize) -> Option<Bins> {
        let (min, max) = (stats.min?.to_f64(), stats.max?.to_f64());
        let shrink = if (max - min).is_finite() { 1.0 } else { 2.0 };
        let count = if min < max { count } else { 1 };
        Some(Bins { min, max, counts: vec![0; count], shrink })
    }

    /// Returns the index of the bin of a finite value.
    fn bin_index(&self, x: f64) -> usize {
        let min = self.min / self.shrink;
        let share = (x / self.shrink - min) / (self.max / self.shrink - min);
        // Casts of negative numbers and NaN give 0.
        ((share * self.counts.len() as f64) as usize).min(self.counts.len() - 1)
    }

    /// Counts elements.
    ///
    /// # Errors
    /// Returns the errors of [`ElementType::each_f64`].
    pub fn take(&mut self, element_type: &ElementType, bytes: &[u8]) -> Result<()> {
        element_type.each_f64(bytes, |values| {
            for &x in values.iter().filter(|x| x.is_finite()) {
                let at = self.bin_index(x);
                self.counts[at] += 1;
            }
        })
    }

    /// Counts zeros that are not stored.
    pub fn add_zeros(&mut self, count: u64) {
        let at = self.bin_index(0.0);
        self.counts[at] += count;
    }

    /// Merges the counts of other values.
    pub fn add(&mut self, other: &Bins) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, n)| *all += n);
    }

    /// Returns the histogram.
    pub fn finish(self) -> Histogram {
        Histogram { min: self.min, max: self.max, counts: self.counts }
    }
}

/// Returns the stored values of a sparse tensor, and the number of zeros that are not stored. Returns `None` if several
/// values have the same coordinates and must be added.
pub fn stored_values<P: Iterator<Item = u64>>(
    values: &Dense,
    flat_indices: impl Fn() -> P,
    count: u64,
) -> Option<(Dense, u64)> {
    // Places usually ascend, and then need not be collected to find duplicates.
    if !flat_indices().is_sorted_by(|a, b| a < b) {
        let mut all: Vec<u64> = flat_indices().collect();
        all.sort_unstable();
        if all.windows(2).any(|w| w[0] == w[1]) {
            return None;
        }
    }
    Some((values.clone(), count.saturating_sub(flat_indices().count() as u64)))
}
