//! Members of records by their place, and columns.

use super::Target::TimeAtMost;
use super::{Cache, Comparison, Contestant, Goal, floor, ours};
use crate::datasets::Sample;
use crate::files::Workload::*;
use crate::floor::read::map;
use crate::ours::records;
use crate::timing::{Outcome, repeated};
use crate::worker::Context;
use crate::workload::XorShift;
use anyhow::{Result, ensure};
use std::hint::black_box;

/// How often a process goes over all places; the median counts.
pub const READS: usize = 9;
/// Places in one go.
const COUNT: usize = 1 << 20;
/// Records that lie in the caches of a core together.
const NEAR: usize = 1 << 12;

/// Which records are read.
#[derive(Debug, Clone, Copy)]
pub enum Places {
    /// Any.
    All,
    /// The first few.
    Near,
}

impl Places {
    /// A million of `len` places in no order.
    pub fn draw(self, len: usize) -> Vec<u32> {
        let most = match self {
            Places::All => len,
            Places::Near => len.min(NEAR),
        };
        let mut random = XorShift(0x9a7e);
        (0..COUNT).map(|_| random.index_below(most)).collect()
    }
}

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "record-random",
        cache: Cache::Warm,
        rate: false,
        what: "Read one f32 of each of 1 million random records of 64 bytes out of a million: 64 MB, mapped. The floor \
               is the map cast to a slice of a `#[repr(C)]` struct.",
        files: &[Samples],
        contestants: RANDOM,
        goals: MEMBER_GOALS,
    },
    Comparison {
        name: "record-near",
        cache: Cache::Warm,
        rate: false,
        what: "The same among the first 4096 records, 256 KB, which the caches hold: what is left is \
               instructions.",
        files: &[Samples],
        contestants: NEARBY,
        goals: NEARBY_GOALS,
    },
    Comparison {
        name: "column-copy",
        cache: Cache::Warm,
        rate: false,
        what: "Copy one f32 of each of 1 million records of 64 bytes into memory that is there.",
        files: &[Samples],
        contestants: COLUMN,
        goals: &[Goal {
            ours: "holdall",
            target: TimeAtMost(1.25, &["loop over structs", "loop over bytes"]),
            note: "",
        }],
    },
];

const MEMBER_GOALS: &[Goal] = &[
    Goal { ours: "holdall, Values::get", target: TimeAtMost(1.5, &["cast"]), note: STRIDE },
    Goal { ours: "holdall, Records::get", target: TimeAtMost(1.5, &["cast"]), note: INSTRUCTIONS },
    Goal { ours: "holdall, accessor", target: TimeAtMost(1.5, &["cast"]), note: INSTRUCTIONS },
];

const NEARBY_GOALS: &[Goal] = &[
    Goal { ours: "holdall, Values::get", target: TimeAtMost(1.5, &["cast"]), note: STRIDE },
    Goal { ours: "holdall, Records::get", target: TimeAtMost(1.5, &["cast"]), note: INSTRUCTIONS },
    Goal { ours: "holdall, accessor", target: TimeAtMost(1.5, &["cast"]), note: INSTRUCTIONS },
];

const STRIDE: &str = "How far records are apart is a number here, so that each read multiplies and checks that nothing overflows; the floor shifts.";

const INSTRUCTIONS: &str = "The floor is one bound and one load. Where a member lies, what it is and whether it may be absent are \
     numbers here, which are looked at each time; where records do not lie in the caches, that hides behind memory.";

const RANDOM: &[Contestant] = &[
    ours("holdall, Values::get", |c| records::member_values(c, Samples, Places::All)),
    ours("holdall, Records::get", |c| records::member(c, Samples, Places::All)),
    ours("holdall, accessor", |c| records::member_of_bytes(c, Samples, Places::All)),
    floor("cast", |c| cast(c, Places::All)),
];

const NEARBY: &[Contestant] = &[
    ours("holdall, Values::get", |c| records::member_values(c, Samples, Places::Near)),
    ours("holdall, Records::get", |c| records::member(c, Samples, Places::Near)),
    ours("holdall, accessor", |c| records::member_of_bytes(c, Samples, Places::Near)),
    floor("cast", |c| cast(c, Places::Near)),
];

const COLUMN: &[Contestant] = &[
    ours("holdall", |c| records::column(c, Samples)),
    floor("loop over structs", |c| {
        copied(c, |bytes, out| {
            let samples = as_samples(bytes)?;
            out.iter_mut().zip(samples).for_each(|(slot, sample)| *slot = sample.score);
            Ok(())
        })
    }),
    floor("loop over bytes", |c| {
        copied(c, |bytes, out| {
            for (slot, record) in out.iter_mut().zip(bytes.chunks_exact(size_of::<Sample>())) {
                *slot = f32::from_le_bytes([record[8], record[9], record[10], record[11]]);
            }
            Ok(())
        })
    }),
];

fn cast(c: &Context, places: Places) -> Result<Outcome> {
    let stored = records::stored(&records::records(c, Samples)?)?;
    let map = map(&c.path(Samples))?;
    let samples = as_samples(&map[stored])?;
    let places = places.draw(samples.len());
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0u64;
        for &i in &places {
            sum = sum.wrapping_add(u64::from(samples[i as usize].score.to_bits()));
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

fn copied(c: &Context, copy: fn(&[u8], &mut [f32]) -> Result<()>) -> Result<Outcome> {
    let stored = records::stored(&records::records(c, Samples)?)?;
    let map = map(&c.path(Samples))?;
    let bytes = &map[stored];
    let mut out = vec![1f32; bytes.len() / size_of::<Sample>()];
    let ((), mut outcome) = repeated(READS, || copy(black_box(bytes), &mut out))?;
    outcome.check = Some(out.iter().fold(0, |sum, x| sum.wrapping_add(u64::from(x.to_bits()))));
    Ok(outcome)
}

/// Bytes as the structs that they hold.
fn as_samples(bytes: &[u8]) -> Result<&[Sample]> {
    let count = bytes.len() / size_of::<Sample>();
    ensure!(bytes.as_ptr().cast::<Sample>().is_aligned(), "the records are not aligned");
    // SAFETY: aligned, that many whole structs, and every field is fine with any bytes.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}
