//! Quantizes tensors in groups, piece by piece.

use super::{AT_A_TIME, ErrorStats};
use bytes::Bytes;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::number::ElementType;
use holdall_core::layout::quantized::Grouping;
use holdall_core::{DType, Result};
use holdall_io::items::{ComponentSource, ComputedPieces};
use holdall_io::{Check, DensePieces, Tensor, Work};
use std::sync::{Arc, Mutex, PoisonError};

/// Scales and zero points of at most this many bytes are kept in memory until they are written; otherwise
/// they are computed again.
const HELD: u64 = 8 << 20;
/// The number of components: words, scales and zero points.
const PARTS: usize = 3;

type Parts = [Vec<u8>; PARTS];

/// Returns the sources of the words, the scales and the zero points of a tensor in groups, with the lengths
/// `lens`.
pub(super) fn feeds(
    tensor: &Tensor,
    grouping: Grouping,
    lens: [u64; PARTS],
    work: &Work,
    error_stats: &ErrorStats,
) -> Vec<ComponentSource> {
    let [_, scales, zeros] = lens;
    let held: Arc<Mutex<Option<Parts>>> = Arc::default();
    let is_held = scales.saturating_add(zeros) <= HELD;
    let one = |part: usize| {
        let (from, work, error_stats, held) =
            (tensor.clone(), work.clone(), error_stats.clone(), held.clone());
        ComponentSource::Made(Box::new(move || {
            let there = {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.as_mut().and_then(|all| all.get_mut(part)).map(std::mem::take)
            };
            if let Some(own) = there {
                let made: ComputedPieces = Box::new(std::iter::once(Ok(own.into())));
                return Ok(made);
            }
            let others = is_held.then_some(held);
            let made: ComputedPieces =
                Box::new(Groups::new(from, grouping, part, others, work, error_stats)?);
            Ok(made)
        }))
    };
    (0..PARTS).map(one).collect()
}

/// Produces one component of a tensor in groups, piece by piece.
struct Groups {
    from: Tensor,
    element: ElementType,
    dense: DensePieces,
    /// The bits and the size of groups.
    grouping: Grouping,
    /// The index of the component to produce.
    part: usize,
    /// The other components so far, and where they are kept at the end.
    others: Parts,
    held: Option<Arc<Mutex<Option<Parts>>>>,
    /// Elements that are quantized together: whole groups that fill whole words.
    unit: u64,
    /// Bytes of elements that do not fill a unit yet.
    left: Vec<u8>,
    /// Index of the first of those elements.
    at: u64,
    is_done: bool,
    work: Work,
    /// The largest error so far, and the sum of the squares of all errors.
    most: f64,
    squares: f64,
    error_stats: ErrorStats,
}

/// The result of quantizing one run of elements.
#[derive(Default)]
struct Run {
    parts: Parts,
    most: f64,
    squares: f64,
}

impl Groups {
    fn new(
        from: Tensor,
        grouping: Grouping,
        part: usize,
        held: Option<Arc<Mutex<Option<Parts>>>>,
        work: Work,
        error_stats: ErrorStats,
    ) -> Result<Groups> {
        let element = from.dense_type().unwrap_or(ElementType::new(DType::F32, None));
        let size = grouping.size_in(from.shape());
        // Eight elements of any type fill whole bytes.
        let unit =
            least_common_multiple(least_common_multiple(size, grouping.packing()?.elements()), 8);
        Ok(Groups {
            dense: from.dense_pieces(Check::All)?,
            grouping: Grouping::new(grouping.bits(), Some(size))?,
            from,
            element,
            part,
            others: Parts::default(),
            held,
            unit,
            left: Vec::new(),
            at: 0,
            is_done: false,
            work,
            most: 0.,
            squares: 0.,
            error_stats,
        })
    }

    /// Returns the component's bytes of the next elements; `None` at the end.
    fn next_piece(&mut self) -> Result<Option<Bytes>> {
        while !self.is_done {
            let Some(piece) = self.dense.next().transpose()? else {
                self.is_done = true;
                let last = Bytes::from(std::mem::take(&mut self.left));
                let made = self.quantize_dense(&last)?;
                self.finish();
                return Ok((!made.is_empty()).then_some(made));
            };
            let all = match self.left.is_empty() {
                true => piece,
                false => {
                    self.left.extend_from_slice(&piece);
                    Bytes::from(std::mem::take(&mut self.left))
                }
            };
            let unit = self.element.len_of(self.unit).max(1);
            let whole = (all.len() as u64 / unit * unit) as usize;
            self.left = all[whole..].to_vec();
            if whole > 0 {
                return self.quantize_dense(&all.slice(..whole)).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the component's bytes of these elements, quantized on the threads of `work`.
    fn quantize_dense(&mut self, dense: &Bytes) -> Result<Bytes> {
        let Groups { element, grouping, unit, at, work, .. } = self;
        let count = dense.len() as u64 * 8 / element.bits().max(1);
        let run = (AT_A_TIME / *unit).max(1) * *unit;
        let mut runs: Vec<Run> = (0..count.div_ceil(run)).map(|_| Run::default()).collect();
        let limits = self.from.file().limits();
        work.for_each(
            runs.iter_mut().enumerate().collect(),
            || (),
            |(), (number, out)| {
                work.check()?;
                let start = number as u64 * run;
                let end = count.min(start.saturating_add(run));
                let bytes = element.len_of(start) as usize..element.len_of(end) as usize;
                let (shape, bytes) = (vec![end - start], dense.slice(bytes));
                let part = Dense::new(element.dtype, element.logical_type.clone(), shape, bytes);
                let made = grouping.quantize_from(&part, *at + start, limits)?;
                let zeros = made.parts.zeros.map(|zeros| zeros.bytes).unwrap_or_default();
                let parts = [made.parts.packed_weight.bytes, made.parts.scales.bytes, zeros];
                out.parts = parts.map(Vec::from);
                out.most = made.max_error;
                out.squares = made.rms_error * made.rms_error * (end - start) as f64;
                Ok(())
            },
        )?;
        *at += count;
        let mut own = Vec::with_capacity(runs.iter().map(|run| run.parts[self.part].len()).sum());
        for Run { parts, most, squares } in runs {
            for (number, bytes) in parts.iter().enumerate() {
                match number == self.part {
                    true => own.extend_from_slice(bytes),
                    // Words are too large to be kept.
                    false if number > 0 && self.held.is_some() => {
                        self.others[number].extend_from_slice(bytes);
                    }
                    false => {}
                }
            }
            self.most = self.most.max(most);
            self.squares += squares;
        }
        Ok(own.into())
    }

    /// Stores the errors and the other components.
    fn finish(&mut self) {
        let rms = (self.squares / self.from.count().max(1) as f64).sqrt();
        *self.error_stats.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.most, rms));
        if let (0, Some(held)) = (self.part, &self.held) {
            let others = std::mem::take(&mut self.others);
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(others);
        }
    }
}

impl Iterator for Groups {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let made = self.next_piece().transpose()?;
        self.is_done |= made.is_err();
        Some(made.map_err(|e| e.in_tensor(self.from.name()).in_source(self.from.file().name())))
    }
}

/// Returns the least common multiple.
fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
