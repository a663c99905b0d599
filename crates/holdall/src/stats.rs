//! What the values of a tensor are like: extremes, moments, oddities, a histogram.

use crate::elements::{Elements, step};
use holdall_core::layout::dense::Dense;
use holdall_core::{Error, Layout, Result, Role};
use holdall_io::Tensor;
use holdall_io::number::{Class, ElementType, Number};
use holdall_io::{Work, with_work};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What a caller chooses about statistics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatsOptions {
    bins: usize,
    work: Work,
}

impl StatsOptions {
    /// A histogram of 16 bins, one thread for each core, no progress.
    pub fn new() -> StatsOptions {
        StatsOptions { bins: 16, work: Work::default() }
    }

    /// A histogram of so many bins, at most 65536. With none the values are read once, not twice.
    pub fn with_bins(mut self, bins: usize) -> StatsOptions {
        self.bins = bins.min(1 << 16);
        self
    }
}

with_work!(StatsOptions);

impl Default for StatsOptions {
    fn default() -> StatsOptions {
        StatsOptions::new()
    }
}

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

/// Decoded bytes of a tensor far away that are held in memory.
const HELD: u64 = 64 << 20;

/// Statistics of a tensor's values, in bounded memory, on several threads where the stored form
/// allows it.
///
/// The values are gone through twice, the second time for the histogram. Dense tensors of any type:
/// of complex ones the magnitudes. Sparse tensors are held in memory; of quantized and described ones, the stored form. Digests are
/// checked as those of a load are: all of the tensor is read.
///
/// # Errors
/// Unsupported for a layout or a logical type that is not known; as [`Tensor::bytes`], [`Tensor::csr`],
/// [`Tensor::coo`], [`Tensor::quantized`]; Malformed for `bool` bytes above 1.
pub fn stats(tensor: &Tensor, options: &StatsOptions) -> Result<Stats> {
    crate::elements::check_digests(tensor)?;
    let (elements, implied) = elements(tensor)?;
    let passes = if options.bins > 0 { 2 } else { 1 };
    options.work.begin(elements.len().unwrap_or(0).saturating_mul(passes));
    let placed = |e: Error| e.in_tensor(tensor.name()).in_source(tensor.file().name());
    let scan = Scan { elements: &elements, options };
    let parts = Mutex::new(Vec::new());
    scan.each(|start, bytes| {
        let mut part = Moments::of(&elements.of);
        part.take(&elements.of, bytes)?;
        parts.lock().unwrap_or_else(PoisonError::into_inner).push((start, part));
        Ok(())
    })
    .map_err(placed)?;
    // In order, so that the last digit does not depend on which thread was first.
    let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    parts.sort_by_key(|(start, _)| *start);
    let mut all = Moments::of(&elements.of);
    parts.iter().for_each(|(_, part)| all.add(part));
    all.add_zeros(implied);
    let mut out = all.finish(&elements.of, implied);
    let (Some(min), Some(max)) = (out.min, out.max) else { return Ok(out) };
    if options.bins > 0 {
        let bins = Bins::new(min.to_f64(), max.to_f64(), options.bins);
        let counts = Mutex::new(vec![0u64; bins.count]);
        scan.each(|_, bytes| {
            let mut part = vec![0; bins.count];
            elements.of.each_f64(bytes, |values| bins.count_all(values, &mut part))?;
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.iter_mut().zip(part).for_each(|(all, n)| *all += n);
            Ok(())
        })
        .map_err(placed)?;
        let mut counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        counts[bins.of(0.0)] += implied;
        out.histogram = Some(Histogram { low: bins.low, high: bins.high, counts });
    }
    Ok(out)
}

/// The elements that a tensor stores or stands for, and how many zeros are to be added.
fn elements(tensor: &Tensor) -> Result<(Elements, u64)> {
    Ok(match tensor.layout() {
        // Values are gone through twice, and fetched once.
        Layout::Dense if is_far(tensor) => (Elements::held(tensor.dense()?), 0),
        Layout::Dense => (Elements::stored(tensor, tensor.require(&Role::Data)?)?, 0),
        Layout::SparseCsr | Layout::PackedCsr => {
            let csr = tensor.csr()?;
            let columns = csr.shape()[1];
            let place = |(row, column): (u64, u64)| row.wrapping_mul(columns).wrapping_add(column);
            let places = csr.entries().map(|e| place((e.row, e.column)));
            let values = csr.values().clone();
            sparse(tensor, values, &mut places.into_iter())?
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            let coo = tensor.coo()?;
            let shape = coo.shape();
            let mut places = coo.entries().map(|e| {
                let both = e.coords().zip(shape);
                both.fold(0u64, |at, (c, &size)| at.wrapping_mul(size).wrapping_add(c))
            });
            sparse(tensor, coo.values().clone(), &mut places)?
        }
        layout if layout.is_computed() => (Elements::computed(tensor.computed()?), 0),
        _ if tensor.description().is_some() => (Elements::described(tensor)?, 0),
        // Says that the layout is not known.
        _ => (Elements::held(tensor.to_dense()?), 0),
    })
}

/// Whether a tensor lies far away, and is small enough to be held in memory.
fn is_far(tensor: &Tensor) -> bool {
    let len = tensor.component(&Role::Data).and_then(|c| c.decoded_len);
    tensor.file().sources().terms().is_remote() && len.is_some_and(|len| len <= HELD)
}

/// Stored values and implied zeros; where values share a place, and are summed, all elements.
fn sparse(
    tensor: &Tensor,
    values: Dense,
    places: &mut dyn Iterator<Item = u64>,
) -> Result<(Elements, u64)> {
    let mut all: Vec<u64> = places.collect();
    let stored = all.len() as u64;
    if !all.is_sorted() {
        all.sort_unstable();
    }
    if all.windows(2).any(|w| w[0] == w[1]) {
        return Ok((Elements::held(tensor.to_dense()?), 0));
    }
    Ok((Elements::held(values), tensor.count().saturating_sub(stored)))
}

struct Scan<'a> {
    elements: &'a Elements,
    options: &'a StatsOptions,
}

impl Scan<'_> {
    /// Hands all elements to `work`: where each run of them starts, and its bytes.
    fn each(&self, work: impl Fn(u64, &[u8]) -> Result<()> + Sync) -> Result<()> {
        let step = step(&[self.elements]);
        let told = &self.options.work;
        let Some(count) = self.elements.count.filter(|_| self.elements.is_random()) else {
            let mut cursor = self.elements.cursor()?;
            let mut start = 0;
            loop {
                let read =
                    cursor.next(step, |bytes| work(start, bytes).map(|()| bytes.len() as u64))?;
                if read == 0 {
                    return Ok(());
                }
                told.advance(read)?;
                start += step;
            }
        };
        told.for_each(ranges(count, step), Vec::new, |memory, range| {
            self.elements.with(range.clone(), memory, |bytes| {
                work(range.start, bytes)?;
                told.advance(bytes.len() as u64)
            })
        })
    }
}

/// All elements, cut into ranges.
fn ranges(count: u64, step: u64) -> Vec<Range<u64>> {
    (0..count.div_ceil(step)).map(|i| i * step..count.min((i + 1) * step)).collect()
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
struct Moments {
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
    fn of(of: &ElementType) -> Moments {
        Moments { extremes: Extremes::of(of), ..Moments::default() }
    }

    fn take(&mut self, of: &ElementType, bytes: &[u8]) -> Result<()> {
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
    fn add(&mut self, other: &Moments) {
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

    fn add_zeros(&mut self, count: u64) {
        let extremes = match self.extremes {
            Extremes::Float { .. } => Extremes::Float { min: 0.0, max: 0.0 },
            Extremes::Integer { .. } => Extremes::Integer { min: 0, max: 0 },
        };
        self.add(&Moments { finite: count, zeros: count, extremes, ..Moments::default() });
    }

    fn finish(&self, of: &ElementType, implied_zeros: u64) -> Stats {
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
struct Bins {
    low: f64,
    high: f64,
    count: usize,
    /// What values are divided by first, so that no difference of two passes f64.
    shrink: f64,
}

impl Bins {
    fn new(low: f64, high: f64, count: usize) -> Bins {
        let shrink = if (high - low).is_finite() { 1.0 } else { 2.0 };
        Bins { low, high, count: if low < high { count } else { 1 }, shrink }
    }

    /// The bin of a finite value.
    fn of(&self, x: f64) -> usize {
        let low = self.low / self.shrink;
        let share = (x / self.shrink - low) / (self.high / self.shrink - low);
        // Casts of what is below 0, or no number, give 0.
        ((share * self.count as f64) as usize).min(self.count - 1)
    }

    fn count_all(&self, values: &[f64], counts: &mut [u64]) {
        for &x in values.iter().filter(|x| x.is_finite()) {
            counts[self.of(x)] += 1;
        }
    }
}
