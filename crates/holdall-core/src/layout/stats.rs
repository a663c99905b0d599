//! What values are like: extremes, moments, oddities, a histogram.

use super::dense::Dense;
use super::number::{Class, ElementType, Number};
use crate::error::Result;

/// What numbers stand for in a [`Stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// The elements themselves; of a quantized tensor, what they stand for.
    Value,
    /// The magnitudes of complex elements.
    Magnitude,
}

/// Statistics of the values of a tensor.
///
/// Minimum, maximum, mean, deviation and histogram are over the finite values; NaN and infinities
/// are counted apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// What the numbers are.
    pub measure: Measure,
    /// Values in all: of a sparse tensor, the zeros that are not stored too.
    pub count: u64,
    /// Values that are 0 (or -0).
    pub zeros: u64,
    /// Zeros that a sparse tensor does not store. They are among `zeros` too.
    pub implied_zeros: u64,
    /// Values that are not numbers.
    pub nan: u64,
    /// Values that are plus infinity.
    pub inf: u64,
    /// Values that are minus infinity.
    pub neg_inf: u64,
    /// The least finite value, if there is one: exact, for 64-bit integers too.
    pub min: Option<Number>,
    /// The greatest.
    pub max: Option<Number>,
    /// Their mean; none where there are no finite values, or sums pass what f64 holds.
    pub mean: Option<f64>,
    /// Their standard deviation, of the population: divided by their count, not by one less.
    pub std: Option<f64>,
    /// How they are spread, if there are any and bins were asked for.
    pub histogram: Option<Histogram>,
}

/// Finite values counted by where they lie between the least and the greatest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The least value.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Values in each of as many bins of equal width. A value between two bins belongs to the upper
    /// one, the greatest to the last. One bin only where all values are the same.
    pub counts: Vec<u64>,
}

/// The least and the greatest, exact.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extremes {
    Float { min: f64, max: f64 },
    Integer { min: i128, max: i128 },
}

impl Extremes {
    /// Of nothing yet.
    fn of(of: &ElementType) -> Extremes {
        if of.is_integer() {
            Extremes::Integer { min: i128::MAX, max: i128::MIN }
        } else {
            Extremes::default()
        }
    }
}

impl Default for Extremes {
    fn default() -> Extremes {
        Extremes::Float { min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

/// Count, mean and sum of squared deviations of finite values, and counts of the others.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    finite: u64,
    mean: f64,
    squares: f64,
    zeros: u64,
    nan: u64,
    inf: u64,
    neg_inf: u64,
    extremes: Extremes,
}

/// Values that are looked at side by side, which is what a processor does best.
const LANES: usize = 8;

impl Moments {
    /// Of no values of that type yet.
    pub fn of(of: &ElementType) -> Moments {
        Moments { extremes: Extremes::of(of), ..Moments::default() }
    }

    /// Takes elements.
    ///
    /// # Errors
    /// As [`ElementType::each_f64`].
    pub fn take(&mut self, of: &ElementType, bytes: &[u8]) -> Result<()> {
        let before = self.extremes;
        let mut left = Vec::new();
        of.each_f64(bytes, |values| self.take_values(values, &mut left))?;
        if of.class() == Class::Wide {
            // An f64 does not hold these exactly.
            self.extremes = before;
        }
        if let (Class::Wide, Extremes::Integer { min, max }) = (of.class(), &mut self.extremes) {
            let mut exact = Vec::new();
            for bytes in bytes.chunks(8 << 10) {
                of.read_i128(bytes, &mut exact)?;
                *min = exact.iter().copied().fold(*min, i128::min);
                *max = exact.iter().copied().fold(*max, i128::max);
            }
        }
        Ok(())
    }

    /// Takes a few values: as many as stay in the cache for a second look. `left` is memory to use.
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
        let (mut low, mut high) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let (mut sums, mut nulls) = ([0.0; LANES], [0u64; LANES]);
        let mut look = |i: usize, x: f64| {
            low[i] = if x < low[i] { x } else { low[i] };
            high[i] = if x > high[i] { x } else { high[i] };
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
        let min = low.into_iter().fold(f64::INFINITY, f64::min);
        let max = high.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let extremes = match self.extremes {
            Extremes::Float { .. } => Extremes::Float { min, max },
            Extremes::Integer { .. } => Extremes::Integer { min: min as i128, max: max as i128 },
        };
        self.add(&Moments {
            finite: values.len() as u64,
            mean,
            squares: squares.iter().sum(),
            zeros: nulls.iter().sum(),
            extremes,
            ..Moments::default()
        });
    }

    /// Joins two sets of values (Chan, Golub and LeVeque): stable, whatever their sizes.
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
        match (&mut self.extremes, other.extremes) {
            (Extremes::Float { min, max }, Extremes::Float { min: low, max: high }) => {
                *min = min.min(low);
                *max = max.max(high);
            }
            (Extremes::Integer { min, max }, Extremes::Integer { min: low, max: high }) => {
                *min = low.min(*min);
                *max = high.max(*max);
            }
            _ => {}
        }
    }

    /// Takes zeros that are not stored.
    pub fn add_zeros(&mut self, count: u64) {
        let extremes = match self.extremes {
            Extremes::Float { .. } => Extremes::Float { min: 0.0, max: 0.0 },
            Extremes::Integer { .. } => Extremes::Integer { min: 0, max: 0 },
        };
        self.add(&Moments { finite: count, zeros: count, extremes, ..Moments::default() });
    }

    /// What they are like. The histogram is the next pass: [`Bins`].
    pub fn finish(&self, of: &ElementType, implied_zeros: u64) -> Stats {
        let (min, max) = match self.extremes {
            Extremes::Float { min, max } => (Number::Float(min), Number::Float(max)),
            Extremes::Integer { min, max } => (Number::Integer(min), Number::Integer(max)),
        };
        let some = |n: Number| (self.finite > 0).then_some(n);
        let finite = |x: f64| (self.finite > 0 && x.is_finite()).then_some(x);
        Stats {
            measure: match of.class() {
                Class::Complex => Measure::Magnitude,
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

/// Bins of equal width from the least value to the greatest.
#[derive(Debug, Clone)]
pub struct Bins {
    low: f64,
    high: f64,
    counts: Vec<u64>,
    /// What values are divided by first, so that no difference of two passes f64.
    shrink: f64,
}

impl Bins {
    /// Up to `count` bins for the finite values of which that is known; none where there are none.
    pub fn of(stats: &Stats, count: usize) -> Option<Bins> {
        let (low, high) = (stats.min?.to_f64(), stats.max?.to_f64());
        let shrink = if (high - low).is_finite() { 1.0 } else { 2.0 };
        let count = if low < high { count } else { 1 };
        Some(Bins { low, high, counts: vec![0; count], shrink })
    }

    /// The bin of a finite value.
    fn place(&self, x: f64) -> usize {
        let low = self.low / self.shrink;
        let share = (x / self.shrink - low) / (self.high / self.shrink - low);
        // Casts of what is below 0, or no number, give 0.
        ((share * self.counts.len() as f64) as usize).min(self.counts.len() - 1)
    }

    /// Counts elements.
    ///
    /// # Errors
    /// As [`ElementType::each_f64`].
    pub fn take(&mut self, of: &ElementType, bytes: &[u8]) -> Result<()> {
        of.each_f64(bytes, |values| {
            for &x in values.iter().filter(|x| x.is_finite()) {
                let at = self.place(x);
                self.counts[at] += 1;
            }
        })
    }

    /// Counts zeros that are not stored.
    pub fn add_zeros(&mut self, count: u64) {
        let at = self.place(0.0);
        self.counts[at] += count;
    }

    /// Joins what was counted of other values.
    pub fn add(&mut self, other: &Bins) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, n)| *all += n);
    }

    /// What was counted.
    pub fn finish(self) -> Histogram {
        Histogram { low: self.low, high: self.high, counts: self.counts }
    }
}

/// The stored values of a sparse tensor, and how many zeros it has that are not stored; none where some share a
/// place, and are summed.
pub fn stored_values<P: Iterator<Item = u64>>(
    values: &Dense,
    places: impl Fn() -> P,
    count: u64,
) -> Option<(Dense, u64)> {
    // As a rule they rise, and need not be held to tell that none are the same.
    if !places().is_sorted_by(|a, b| a < b) {
        let mut all: Vec<u64> = places().collect();
        all.sort_unstable();
        if all.windows(2).any(|w| w[0] == w[1]) {
            return None;
        }
    }
    Some((values.clone(), count.saturating_sub(places().count() as u64)))
}
