//! Statistics of a tensor's values: min, max, mean, std, counts of special values, and a histogram.

use crate::elements::{Elements, step};
pub use holdall_core::layout::stats::{Histogram, Measure, Stats};

use holdall_core::layout::dense::Dense;
use holdall_core::layout::stats::{Bins, Moments, stored_values};
use holdall_core::{Error, Layout, Result, Role};
use holdall_io::{Tensor, held};
use holdall_io::{Work, with_work};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Options of statistics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatsOptions {
    bins: usize,
    work: Work,
}

impl StatsOptions {
    /// Creates the default options: a histogram of 16 bins, one thread per core, no progress.
    pub fn new() -> StatsOptions {
        StatsOptions { bins: 16, work: Work::default() }
    }

    /// Sets the number of bins of the histogram, at most 65536. With 0 bins the values are read once instead
    /// of twice.
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

/// Maximum decoded bytes of a remote tensor that are held in memory.
const MAX_HELD_LEN: u64 = 64 << 20;

/// Computes statistics of a tensor's values in bounded memory, on several threads if the stored form allows
/// it.
///
/// The values are read twice, the second time for the histogram. Dense tensors of any type are supported; for
/// complex ones the magnitudes are used. The stored form of quantized and described tensors is held in
/// memory, and so are the positions of a sparse tensor's entries if they are not sorted. Digests are
/// checked as in a load, since all of the tensor is read.
///
/// ```no_run
/// # fn main() -> holdall::Result<()> {
/// let file = holdall::open("model.safetensors")?;
/// let stats = holdall::stats(&file.tensor("embed.weight")?, &holdall::StatsOptions::new())?;
/// println!("min {:?}, max {:?}", stats.min.map(|n| n.to_f64()), stats.max.map(|n| n.to_f64()));
/// println!("mean {:?}, std {:?}, {} NaN", stats.mean, stats.std, stats.nan);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns an `Unsupported` error if the layout or the logical type is unknown; the same as [`Tensor::bytes`], [`Tensor::csr`],
/// [`Tensor::coo`], [`Tensor::quantized`]; a `Malformed` error if `bool` bytes are above 1.
pub fn stats(tensor: &Tensor, options: &StatsOptions) -> Result<Stats> {
    let (elements, implied) = elements(tensor.sound()?)?;
    elements.compare()?;
    let passes = if options.bins > 0 { 2 } else { 1 };
    options.work.begin(elements.len().unwrap_or(0).saturating_mul(passes));
    let in_context = |e: Error| e.in_tensor(tensor.name()).in_source(tensor.file().name());
    let scan = Scan { elements: &elements, options };
    let parts = Mutex::new(Vec::new());
    scan.each(|start, bytes| {
        let mut part = Moments::new(&elements.element_type);
        part.take(&elements.element_type, bytes)?;
        parts.lock().unwrap_or_else(PoisonError::into_inner).push((start, part));
        Ok(())
    })
    .map_err(in_context)?;
    // In order, so that the result does not depend on the order in which threads finish.
    let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    parts.sort_by_key(|(start, _)| *start);
    let mut all = Moments::new(&elements.element_type);
    parts.iter().for_each(|(_, part)| all.add(part));
    all.add_zeros(implied);
    let mut out = all.finish(&elements.element_type, implied);
    if options.bins > 0
        && let Some(bins) = Bins::from_stats(&out, options.bins)
    {
        let all = Mutex::new(bins.clone());
        scan.each(|_, bytes| {
            let mut part = bins.clone();
            part.take(&elements.element_type, bytes)?;
            all.lock().unwrap_or_else(PoisonError::into_inner).add(&part);
            Ok(())
        })
        .map_err(in_context)?;
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.add_zeros(implied);
        out.histogram = Some(all.finish());
    }
    Ok(out)
}

/// Returns the elements that a tensor stores or represents, and the number of zeros to add to them.
fn elements(tensor: &Tensor) -> Result<(Elements, u64)> {
    Ok(match tensor.layout() {
        // The values are read twice but fetched once.
        Layout::Dense if is_small_remote(tensor) => (Elements::held(tensor.to_dense()?), 0),
        Layout::Dense => (Elements::stored(tensor, tensor.require(&Role::Data)?)?, 0),
        Layout::SparseCsr | Layout::PackedCsr => {
            let csr = held::csr(&tensor.checked())?;
            sparse(tensor, csr.values(), || csr.flat_indices())?
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            let coo = held::coo(&tensor.checked())?;
            sparse(tensor, coo.values(), || coo.flat_indices())?
        }
        layout if layout.is_computed() => (Elements::computed(tensor.computed()?), 0),
        _ if tensor.description().is_some() => (Elements::described(tensor)?, 0),
        // `to_dense` returns the error for an unknown layout.
        _ => (Elements::held(tensor.to_dense()?), 0),
    })
}

/// Returns `true` if a tensor is remote and small enough to be held in memory.
fn is_small_remote(tensor: &Tensor) -> bool {
    let len = tensor.component(&Role::Data).and_then(|c| c.decoded_len);
    tensor.file().sources().read_hints().is_remote() && len.is_some_and(|len| len <= MAX_HELD_LEN)
}

/// Returns the stored values and the number of implied zeros. If several values have the same position, they are
/// summed, and all elements are returned.
fn sparse<P: Iterator<Item = u64>>(
    tensor: &Tensor,
    values: &Dense,
    flat_indices: impl Fn() -> P,
) -> Result<(Elements, u64)> {
    Ok(match stored_values(values, flat_indices, tensor.count()) {
        Some((values, zeros)) => (Elements::held(values), zeros),
        None => (Elements::held(tensor.to_dense()?), 0),
    })
}

struct Scan<'a> {
    elements: &'a Elements,
    options: &'a StatsOptions,
}

impl Scan<'_> {
    /// Calls `visit` with consecutive runs of elements: the index of the first element, and the bytes.
    fn each(&self, visit: impl Fn(u64, &[u8]) -> Result<()> + Sync) -> Result<()> {
        let step = step(&[self.elements]);
        let progress = &self.options.work;
        let is_random = self.elements.is_random() && !self.elements.checks_digest_in_order();
        let Some(count) = self.elements.count.filter(|_| is_random) else {
            let mut cursor = self.elements.cursor()?;
            let mut start = 0;
            loop {
                let read =
                    cursor.next(step, |bytes| visit(start, bytes).map(|()| bytes.len() as u64))?;
                if read == 0 {
                    return Ok(());
                }
                progress.advance(read)?;
                start += step;
            }
        };
        progress.for_each(ranges(count, step), Vec::new, |memory, range| {
            self.elements.with(range.clone(), memory, |bytes| {
                visit(range.start, bytes)?;
                progress.advance(bytes.len() as u64)
            })
        })
    }
}

/// Splits all elements into ranges.
fn ranges(count: u64, step: u64) -> Vec<Range<u64>> {
    (0..count.div_ceil(step)).map(|i| i * step..count.min((i + 1) * step)).collect()
}
