//! Texts by index.

use super::Target::{SizeAtMost, SpeedAtLeast};
use super::{Cache, Comparison, Contestant, Goal, ours, peer};
use crate::files::Workload::*;
use crate::ours::records;
use crate::peers::arrow;
use crate::workload::XorShift;

/// How often a process goes over all texts; the median counts.
pub const READS: usize = 9;
/// Texts in one go.
const COUNT: usize = 1 << 20;
/// Texts that lie in the caches of a core together.
const NEAR: usize = 1 << 11;
/// What an entry of 16 bytes takes beyond an offset of 8 bytes, for a million texts.
const WIDER: u64 = 8_000_000;

/// Which texts are read.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Any, in no order.
    Random,
    /// One after the other.
    InOrder,
    /// The first few, in no order.
    Near,
}

impl Order {
    /// A million of `len` places.
    pub fn of(self, len: usize) -> Vec<u32> {
        let mut random = XorShift(0x9a7e);
        let mut below = |most: usize| ((random.next() >> 32) * most as u64 >> 32) as u32;
        (0..COUNT)
            .map(|at| match self {
                Order::Random => below(len),
                Order::InOrder => (at % len) as u32,
                Order::Near => below(len.min(NEAR)),
            })
            .collect()
    }
}

/// Looks at a text: its length, its first byte and its last.
#[inline]
pub fn look(sum: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let ends =
        bytes.first().zip(bytes.last()).map_or(0, |(a, b)| u64::from(*a) << 8 | u64::from(*b));
    sum.wrapping_add(ends << 16).wrapping_add(bytes.len() as u64)
}

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "strings",
        cache: Cache::Warm,
        rate: false,
        what: "Read 1 million random texts of 40 bytes out of a million, and look at the length, the first and the last byte. \
               Arrow's array was read from an IPC file, and its texts checked, before.",
        files: &[Texts, TextRecords, TextsArrow, TextsArrowLarge],
        contestants: RANDOM,
        goals: &[
            Goal {
                ours: "holdall, blob",
                target: SpeedAtLeast(0.8, &["arrow, Utf8", "arrow, LargeUtf8"]),
                note: "",
            },
            Goal {
                ours: "holdall, blob",
                target: SizeAtMost(1.05, Texts, TextsArrowLarge, WIDER),
                note: "",
            },
            Goal {
                ours: "holdall, blob",
                target: SizeAtMost(1.05, Texts, TextsArrow, WIDER),
                note: "An entry has 16 bytes, the offset of a `Utf8` column 4: 12 bytes more, of which 8 are allowed \
                       for. A `LargeUtf8` column, which like a blob may pass 2 GB, has 8.",
            },
        ],
    },
    Comparison {
        name: "strings-in-order",
        cache: Cache::Warm,
        rate: false,
        what: "The same, one after the other.",
        files: &[Texts, TextRecords, TextsArrow, TextsArrowLarge],
        contestants: IN_ORDER,
        goals: SPEED,
    },
    Comparison {
        name: "strings-near",
        cache: Cache::Warm,
        rate: false,
        what: "The same among the first 2048 texts, which the caches hold: what is left is instructions.",
        files: &[Texts, TextRecords, TextsArrow, TextsArrowLarge],
        contestants: NEARBY,
        goals: SPEED,
    },
];

const SPEED: &[Goal] = &[Goal {
    ours: "holdall, blob",
    target: SpeedAtLeast(0.8, &["arrow, Utf8", "arrow, LargeUtf8"]),
    note: "",
}];

const RANDOM: &[Contestant] = &[
    ours("holdall, blob", |c| records::texts(c, Texts, Order::Random)),
    ours("holdall, member", |c| records::text_members(c, TextRecords, Order::Random)),
    peer("arrow, Utf8", |c| arrow::texts::<i32>(c, TextsArrow, Order::Random)),
    peer("arrow, LargeUtf8", |c| arrow::texts::<i64>(c, TextsArrowLarge, Order::Random)),
];

const IN_ORDER: &[Contestant] = &[
    ours("holdall, blob", |c| records::texts(c, Texts, Order::InOrder)),
    ours("holdall, member", |c| records::text_members(c, TextRecords, Order::InOrder)),
    peer("arrow, Utf8", |c| arrow::texts::<i32>(c, TextsArrow, Order::InOrder)),
    peer("arrow, LargeUtf8", |c| arrow::texts::<i64>(c, TextsArrowLarge, Order::InOrder)),
];

const NEARBY: &[Contestant] = &[
    ours("holdall, blob", |c| records::texts(c, Texts, Order::Near)),
    ours("holdall, member", |c| records::text_members(c, TextRecords, Order::Near)),
    peer("arrow, Utf8", |c| arrow::texts::<i32>(c, TextsArrow, Order::Near)),
    peer("arrow, LargeUtf8", |c| arrow::texts::<i64>(c, TextsArrowLarge, Order::Near)),
];
