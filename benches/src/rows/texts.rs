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
    /// The first few, in no order.
    Near,
}

impl Order {
    /// A million of `len` places.
    pub fn draw(self, len: usize) -> Vec<u32> {
        let most = match self {
            Order::Random => len,
            Order::Near => len.min(NEAR),
        };
        let mut random = XorShift(0x9a7e);
        (0..COUNT).map(|_| random.index_below(most)).collect()
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
        what: "Read 1 million random texts of 40 bytes out of a million, and look at the length, the first and \
               the last byte. Unless it says mapped, they were read from the file into memory before, and checked there, as \
               Arrow's reader does, and `Texts` has made a table of 16 bytes for each; `Blob::str` and \
               `Record::string` check each text again. A blob may pass 2 GB, as `LargeUtf8` may: its file is the one \
               whose size is compared.",
        files: &[Texts, TextRecords, TextsArrow, TextsArrowLarge],
        contestants: RANDOM,
        goals: &[
            Goal { ours: "holdall, blob", target: SpeedAtLeast(0.8, ARROW), note: "" },
            Goal { ours: "holdall, records", target: SpeedAtLeast(0.8, ARROW), note: "" },
            Goal {
                ours: "holdall, blob",
                target: SizeAtMost(1.05, Texts, TextsArrowLarge, WIDER),
                note: "",
            },
        ],
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

const ARROW: &[&str] = &["arrow, Utf8", "arrow, LargeUtf8"];

const SPEED: &[Goal] = &[
    Goal { ours: "holdall, blob", target: SpeedAtLeast(0.8, ARROW), note: "" },
    Goal { ours: "holdall, records", target: SpeedAtLeast(0.8, ARROW), note: "" },
];

const RANDOM: &[Contestant] = &[
    ours("holdall, blob", |c| records::texts(c, Texts, Order::Random)),
    ours("holdall, records", |c| records::member_texts(c, TextRecords, Order::Random)),
    ours("holdall, blob, mapped", |c| records::mapped_texts(c, Texts, Order::Random)),
    ours("holdall, Blob::str", |c| records::texts_checked(c, Texts, Order::Random)),
    ours("holdall, Record::string", |c| {
        records::member_texts_checked(c, TextRecords, Order::Random)
    }),
    peer("arrow, Utf8", |c| arrow::texts::<i32>(c, TextsArrow, Order::Random)),
    peer("arrow, LargeUtf8", |c| arrow::texts::<i64>(c, TextsArrowLarge, Order::Random)),
];

const NEARBY: &[Contestant] = &[
    ours("holdall, blob", |c| records::texts(c, Texts, Order::Near)),
    ours("holdall, records", |c| records::member_texts(c, TextRecords, Order::Near)),
    ours("holdall, blob, mapped", |c| records::mapped_texts(c, Texts, Order::Near)),
    ours("holdall, Blob::str", |c| records::texts_checked(c, Texts, Order::Near)),
    ours("holdall, Record::string", |c| records::member_texts_checked(c, TextRecords, Order::Near)),
    peer("arrow, Utf8", |c| arrow::texts::<i32>(c, TextsArrow, Order::Near)),
    peer("arrow, LargeUtf8", |c| arrow::texts::<i64>(c, TextsArrowLarge, Order::Near)),
];
