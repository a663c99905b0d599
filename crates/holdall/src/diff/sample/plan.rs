//! Which elements are sampled: spread over all tensors, within a budget of bytes.

use super::correlation::Rounding;
use holdall_core::layout::number::{ElementType, NumberClass};
use holdall_core::model::BlockType;
use holdall_core::{ByteOrder, DType, Encoding, Layout, LogicalType, Role};
use holdall_io::{File, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;

/// The length of a run in a local file, in bytes.
const RUN: u64 = 4 << 10;
/// The least length of a run: less is not worth a read.
const LEAST_RUN: u64 = 256;
/// The length of a run in a remote file. A source fetches no fewer bytes.
const REMOTE_RUN: u64 = 64 << 10;
/// The least number of bytes between two runs in a remote file. A source fetches shorter gaps too, to save a request.
const REMOTE_GAP: u64 = 256 << 10;
/// The number of bytes of each tensor that are enough.
const ENOUGH: u64 = 256 << 10;

/// How a side of a candidate is stored.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    /// Elements of a plain type.
    Plain(ElementType),
    /// Blocks of quantized elements.
    Blocks(&'static BlockType),
}

impl Stored {
    /// Returns the number of elements at whose multiples a run can begin and end.
    fn unit(&self) -> u64 {
        match self {
            Stored::Plain(_) => 4,
            Stored::Blocks(block) => block.elements,
        }
    }

    /// Returns the bits of an element, rounded up.
    fn bits(&self) -> u64 {
        match self {
            Stored::Plain(element) => element.bits(),
            Stored::Blocks(block) => (block.bytes * 8).div_ceil(block.elements),
        }
    }

    /// Returns the bytes of the first `count` elements.
    pub(super) fn len_of(&self, count: u64) -> u64 {
        match self {
            Stored::Plain(element) => element.len_of(count),
            Stored::Blocks(block) => (count / block.elements).saturating_mul(block.bytes),
        }
    }
}

/// A side of a candidate.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// The number of its source.
    pub(super) source: u32,
    /// The first byte of its elements there.
    start: u64,
    pub(super) stored: Stored,
}

impl Side {
    fn new(tensor: &Tensor) -> Option<Side> {
        tensor.sound().ok()?;
        let c = tensor.component(&Role::Data)?;
        let stored = match tensor.layout() {
            Layout::Dense => Stored::Plain(ElementType::new(c.dtype, c.logical_type.clone())),
            Layout::Blocks(block) => Stored::Blocks(block),
            _ => return None,
        };
        let is_plain = c.encoding == Encoding::Raw
            && c.byte_order == ByteOrder::Little
            && !c.stored.is_stated()
            && c.stored.chunked().is_none();
        is_plain.then_some(Side { source: c.stored.source, start: c.stored.start, stored })
    }

    /// Returns the location of elements.
    pub(super) fn bytes(&self, elements: &Range<u64>) -> Range<u64> {
        let at = |n| self.start.saturating_add(self.stored.len_of(n));
        at(elements.start)..at(elements.end)
    }

    fn is_float(&self) -> bool {
        match &self.stored {
            Stored::Plain(element) => element.is_known() && element.class() == NumberClass::Float,
            Stored::Blocks(_) => true,
        }
    }
}

/// Two tensors that can be sampled.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) sides: [Side; 2],
    /// The number of elements that both have.
    pub(super) count: u64,
    /// Decides the order and the positions, so that they do not depend on those of other tensors.
    seed: u64,
}

impl Candidate {
    /// Returns the candidate for two tensors with `count` common elements, or `None` if ranges of their elements cannot be
    /// read, or cannot be compared.
    pub(super) fn new(a: &Tensor, b: &Tensor, count: u64) -> Option<Candidate> {
        let sides = [Side::new(a)?, Side::new(b)?];
        if let [Stored::Plain(x), Stored::Plain(y)] = [&sides[0].stored, &sides[1].stored]
            && !holdall_core::diff::is_comparable(x, y)
        {
            return None;
        }
        let is_real = |side: &Side| match &side.stored {
            Stored::Plain(element) => element.class() != NumberClass::Complex,
            Stored::Blocks(_) => true,
        };
        let fits = count > 0 && sides.iter().all(is_real);
        fits.then(|| Candidate { sides, count, seed: hash(a.name()) })
    }

    pub(super) fn is_float(&self) -> bool {
        self.sides.iter().all(Side::is_float)
    }

    /// Returns `true` if a side is quantized in blocks.
    pub(super) fn is_quantized(&self) -> bool {
        self.sides.iter().any(|side| matches!(side.stored, Stored::Blocks(_)))
    }

    /// Returns the greatest error of quantization, relative to the numbers: four times that of normally distributed ones.
    pub(super) fn quantization(&self) -> f64 {
        let bits = self.sides.iter().map(|side| side.stored.bits()).min().unwrap_or(8);
        (8.0 / (bits as f64).exp2()).min(0.9)
    }

    /// Returns how far elements can be apart if only their types differ.
    pub(super) fn rounding(&self) -> Rounding {
        let [Stored::Plain(x), Stored::Plain(y)] = [&self.sides[0].stored, &self.sides[1].stored]
        else {
            return Rounding::default();
        };
        if x == y {
            return Rounding::default();
        }
        [x, y].into_iter().filter_map(precision).max_by_key(|p| -p.0).map_or(
            Rounding::default(),
            |(digits, least)| Rounding {
                relative: f64::from(-digits).exp2(),
                least: f64::from(least).exp2(),
            },
        )
    }

    fn unit(&self) -> u64 {
        let units = self.sides.iter().map(|side| side.stored.unit());
        // All units are powers of two.
        units.max().unwrap_or(4)
    }
}

/// Returns the binary digits of a float type, and the exponent of half its smallest number.
fn precision(element: &ElementType) -> Option<(i32, i32)> {
    Some(match (&element.logical_type, element.dtype) {
        (Some(LogicalType::F8E4M3Fn), _) => (4, -10),
        (Some(LogicalType::F8E5M2), _) => (3, -17),
        (Some(_), _) => return None,
        (None, DType::F64) => (53, -1075),
        (None, DType::F32) => (24, -150),
        (None, DType::F16) => (11, -25),
        (None, DType::Bf16) => (8, -134),
        _ => return None,
    })
}

/// A run of neighbouring elements of a candidate.
#[derive(Debug, Clone)]
pub(super) struct SampledRun {
    pub(super) candidate: usize,
    pub(super) elements: Range<u64>,
}

/// Returns the number of bytes of the selected tensors of a file, and how many of them may be read.
pub(super) fn budget(file: &File, takes: impl Fn(&str) -> bool, share: f64) -> (u64, u64) {
    let taken = file.tensors().filter(|tensor| takes(tensor.name()));
    let all = taken.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.stored_len()));
    (all, (all as f64 * share) as u64)
}

/// Chooses runs, and keeps account of what reading them costs.
pub(super) struct Planner {
    is_remote: [bool; 2],
    /// The bytes of each side, and how many may be read.
    budgets: [(u64, u64); 2],
    spent: [u64; 2],
    /// The part of the budgets that is not spent yet: a divisor.
    reserved: u64,
    is_frugal: bool,
    /// The ranges of each source that will be read, by their starts.
    taken: [BTreeMap<(u32, u64), u64>; 2],
}

impl Planner {
    pub(super) fn new(files: [&File; 2], budgets: [(u64, u64); 2], is_frugal: bool) -> Planner {
        Planner {
            is_remote: files.map(|file| file.sources().read_hints().is_remote()),
            budgets,
            spent: [0; 2],
            reserved: 0,
            is_frugal,
            taken: [BTreeMap::new(), BTreeMap::new()],
        }
    }

    /// Reserves a part of the budgets: `1 / part` of them, or nothing.
    pub(super) fn reserve(&mut self, part: u64) {
        self.reserved = part;
    }

    /// Returns the bytes of each side, and of those the planned ones.
    pub(super) fn planned(&self) -> [(u64, u64); 2] {
        [0, 1].map(|side| (self.budgets[side].0, self.spent[side]))
    }

    fn left(&self, side: usize) -> u64 {
        let (_, most) = self.budgets[side];
        let reserved = most.checked_div(self.reserved).unwrap_or(0);
        (most - reserved).saturating_sub(self.spent[side])
    }

    /// Spreads runs over all candidates: one of each in turn, in an order that does not depend on their names, until the budget
    /// is spent.
    pub(super) fn spread(&mut self, all: &[Candidate]) -> Vec<SampledRun> {
        let mut out = Vec::new();
        let len = self.run_len(all.len() as u64);
        let most = if self.is_frugal { (ENOUGH / len).max(1) } else { u64::MAX };
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&at| all[at].seed);
        let mut fruitless = 0;
        for round in 0..most {
            let before = out.len();
            order.retain(|&at| {
                let run = self.run(&all[at], len, round);
                let is_whole = run == (0..all[at].count);
                if self.take(&all[at], &run) {
                    out.push(SampledRun { candidate: at, elements: run });
                }
                !is_whole
            });
            fruitless = if out.len() == before { fruitless + 1 } else { 0 };
            // A run too near to the others may be followed by one that is not.
            if order.is_empty() || fruitless == 64 {
                break;
            }
        }
        out
    }

    /// Returns one run of each candidate, as far as the budget allows: short ones as a whole.
    pub(super) fn once(&mut self, all: &[Candidate]) -> Vec<SampledRun> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&at| all[at].seed);
        let mut out = Vec::new();
        for at in order {
            let run = self.run(&all[at], REMOTE_RUN, 0);
            if self.take(&all[at], &run) {
                out.push(SampledRun { candidate: at, elements: run });
            }
        }
        out
    }

    /// Returns the length of a run in bytes, for this many candidates.
    fn run_len(&self, candidates: u64) -> u64 {
        if self.is_remote.contains(&true) {
            return REMOTE_RUN;
        }
        let left = self.left(0).min(self.left(1));
        left.checked_div(candidates).unwrap_or(RUN).clamp(LEAST_RUN, RUN)
    }

    /// Returns the elements of a candidate's run in a round. The positions of the rounds are spread evenly.
    fn run(&self, candidate: &Candidate, len: u64, round: u64) -> Range<u64> {
        /// The golden ratio as a fraction of 2^64: its multiples are spread evenly.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let bits = candidate.sides.iter().map(|side| side.stored.bits()).max().unwrap_or(8).max(1);
        let unit = candidate.unit();
        let want = (len.saturating_mul(8) / bits / unit).max(1).saturating_mul(unit);
        if want >= candidate.count {
            return 0..candidate.count;
        }
        let positions = (candidate.count - want) / unit + 1;
        let at = candidate.seed.wrapping_add(round.wrapping_mul(GOLDEN));
        let chosen = (u128::from(at) * u128::from(positions)) >> 64;
        let start = u64::try_from(chosen).unwrap_or(0) * unit;
        start..start + want
    }

    /// Adds a run if it is within the budget, and far enough from the others for its source not to read the gaps.
    fn take(&mut self, candidate: &Candidate, run: &Range<u64>) -> bool {
        let mut reads = [((0, 0), 0, 0); 2];
        for (side, read) in reads.iter_mut().enumerate() {
            let own = &candidate.sides[side];
            let bytes = own.bytes(run);
            let (least, gap) = if self.is_remote[side] { (REMOTE_RUN, REMOTE_GAP) } else { (0, 0) };
            let end = bytes.end.max(bytes.start.saturating_add(least));
            let cost = end - bytes.start;
            let before = self.taken[side].range(..=(own.source, end.saturating_add(gap)));
            let is_near = before.last().is_some_and(|(&(source, _), &last)| {
                source == own.source && last.saturating_add(gap) > bytes.start
            });
            if cost > self.left(side) || is_near {
                return false;
            }
            *read = ((own.source, bytes.start), end, cost);
        }
        for (side, (start, end, cost)) in reads.into_iter().enumerate() {
            self.taken[side].insert(start, end);
            self.spent[side] += cost;
        }
        true
    }
}

/// Returns a number that looks random for each name: FNV-1a, mixed.
fn hash(name: &str) -> u64 {
    let mut out = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        out = (out ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    out ^= out >> 33;
    out = out.wrapping_mul(0xff51_afd7_ed55_8ccd);
    out ^ out >> 33
}
