//! GGUF: opened, loaded, written, and its blocks made numbers.

use super::Target::{SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, FRESH, Goal, floor, load::floor_warm, ours, peer, save};
use crate::files::Workload::*;
use crate::floor::{blocks, cores, in_pieces, memory::HugeMemory, read, write};
use crate::ours;
use crate::peers::gguf;
use crate::timing::{Outcome, repeated};
use crate::worker::Context;
use anyhow::{Context as _, Result};
use holdall::{Check, Role};
use std::ops::Range;

/// Elements that a thread of a floor makes at a time: their f32 are a huge page.
const PIECE: usize = 1 << 19;

/// How often a process opens or makes numbers; the median counts.
const TIMES: usize = 5;

macro_rules! dequantise {
    (with_loops: $($with:literal)*; alone: $($alone:literal)*) => {
        &[
            OPEN, OPEN_TOKENS, LOAD, SAVE,
            $(Comparison {
                name: concat!("dequantise-", $with),
                cache: Cache::Warm,
                rate: false,
                what: concat!(
                    "Make the 16.8 million elements of a tensor in blocks of ", $with, " f32, in fresh memory, on all \
                     cores; a floor does it by plain loops, compiled the same way, on as many, another writes one number all over \
                     such memory; gguf 0.19 by NumPy."
                ),
                files: &[BlocksGguf],
                contestants: &[
                    ours("holdall", |c| ours::gguf::dequantise(c, $with)),
                    floor("plain loops", |c| loops(c, $with)),
                    floor("the memory alone", filled),
                    peer("gguf-py", |c| gguf::dequantise(c, BlocksGguf, $with)),
                ],
                goals: &[
                    Goal { ours: "holdall", target: SpeedAtLeast(0.8, &["plain loops"]), note: PAGES },
                    Goal { ours: "holdall", target: SpeedAtLeast(20.0, &["gguf-py"]), note: MEMORY },
                ],
            },)*
            $(Comparison {
                name: concat!("dequantise-", $alone),
                cache: Cache::Warm,
                rate: false,
                what: concat!("The same of ", $alone, ", without plain loops."),
                files: &[BlocksGguf],
                contestants: &[
                    ours("holdall", |c| ours::gguf::dequantise(c, $alone)),
                    floor("the memory alone", filled),
                    peer("gguf-py", |c| gguf::dequantise(c, BlocksGguf, $alone)),
                ],
                goals: &[Goal { ours: "holdall", target: SpeedAtLeast(20.0, &["gguf-py"]), note: MEMORY }],
            },)*
        ]
    };
}

pub const COMPARISONS: &[Comparison] = dequantise! {
    with_loops: "q4_0" "q5_0" "q8_0" "q2_k" "q3_k" "q4_k" "q5_k" "q6_k" "iq4_xs" "mxfp4";
    alone: "q4_1" "q5_1" "iq4_nl" "iq1_s" "iq1_m" "iq2_xxs" "iq2_xs" "iq2_s" "iq3_xxs" "iq3_s" "tq1_0" "tq2_0" "nvfp4"
};

/// The types that a file for these comparisons has tensors of.
pub const TYPES: &[&str] = &[
    "q4_0", "q5_0", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs", "mxfp4", "q4_1",
    "q5_1", "iq4_nl", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0",
    "tq2_0", "nvfp4",
];

const PAGES: &str =
    "Most of both times is the kernel clearing the pages of the 67 MB that come out.";
const MEMORY: &str = "The 67 MB that come out are fresh memory, whose pages the kernel clears: that alone, with one number written \
                      all over it, is the row `the memory alone`.";

const OPEN: Comparison = Comparison {
    name: "open-gguf",
    cache: Cache::Warm,
    rate: false,
    what: "Open and go through names, types and shapes: Llama shapes in GGUF; warm.",
    files: &[LlamaGguf],
    contestants: &[
        ours("holdall", |c| ours::list(c, LlamaGguf, 200)),
        peer("gguf-py", |c| gguf::list(c, LlamaGguf)),
    ],
    goals: &[Goal { ours: "holdall", target: TimeAtMost(0.2, &["gguf-py"]), note: "" }],
};

const OPEN_TOKENS: Comparison = Comparison {
    name: "open-gguf-tokens",
    what: "The same of a file whose key–values have 128,256 tokens, with scores and types.",
    files: &[TokensGguf],
    contestants: &[
        ours("holdall", |c| ours::list(c, TokensGguf, 10)),
        peer("gguf-py", |c| gguf::list(c, TokensGguf)),
    ],
    ..OPEN
};

const LOAD: Comparison = Comparison {
    name: "load-gguf",
    cache: Cache::Warm,
    rate: true,
    what: "Load every tensor into owned buffers: Llama shapes in GGUF, warm.",
    files: &[LlamaGguf],
    contestants: &[
        ours("holdall", |c| ours::load(c, LlamaGguf, Check::Off)),
        floor("pread", |c| floor_warm(c, LlamaGguf)),
        peer("gguf-py", |c| gguf::load(c, LlamaGguf)),
    ],
    goals: &[
        Goal { ours: "holdall", target: TimeAtMost(1.15, &["pread"]), note: "" },
        Goal { ours: "holdall", target: SpeedAtLeast(3.0, &["gguf-py"]), note: FRESH },
    ],
};

const SAVE: Comparison = Comparison {
    name: "save-gguf",
    cache: Cache::Warm,
    rate: true,
    what: "Write a model in memory to a new GGUF file, without waiting for the disk: Llama shapes.",
    files: &[LlamaSafetensors],
    contestants: &[
        ours("holdall", ours::gguf::save),
        floor("fallocate + write", |c| {
            save::saved(c, |output, model| write::buffered(output, model))
        }),
    ],
    goals: &[Goal { ours: "holdall", target: TimeAtMost(1.1, &["fallocate + write"]), note: "" }],
};

/// Makes the tensor of that name numbers by plain loops on all cores.
fn loops(c: &Context, name: &str) -> Result<Outcome> {
    let (each, bytes, elements) = blocks::loop_for(name).context("no such loop")?;
    let path = c.path(BlocksGguf);
    let stored = {
        let data = holdall::open(&path)?.tensor(name)?.component(&Role::Data);
        data.context("no data")?.stored.range()
    };
    let map = read::map(&path)?;
    let data = &map[stored.start as usize..stored.end as usize];
    let count = data.len() / bytes;
    let (made, mut outcome) = repeated(TIMES, || {
        in_fresh_memory(count, elements, |blocks, room| {
            each(&data[blocks.start as usize * bytes..blocks.end as usize * bytes], room);
        })
    })?;
    let mut check = c.check();
    check.tensor(name, &made);
    outcome.check = check.value();
    Ok(outcome)
}

/// Writes one number to memory like that which blocks are made numbers in.
fn filled(c: &Context) -> Result<Outcome> {
    let file = holdall::open(c.path(BlocksGguf))?;
    let first = file.index().tensors().next().context("no tensor")?;
    let count = first.shape().iter().product::<u64>() as usize;
    let fill = || in_fresh_memory(count, 1, |_, room| room.fill(1.0));
    Ok(repeated(TIMES, fill)?.1)
}

/// Hands blocks, by their numbers, and the room for their elements to `each`, on all cores.
fn in_fresh_memory(
    blocks: usize,
    elements: usize,
    each: impl Fn(Range<u64>, &mut [f32]) + Sync,
) -> Result<HugeMemory> {
    let out = HugeMemory::new(blocks * elements * 4);
    in_pieces(blocks as u64, (PIECE / elements) as u64, cores(), |blocks| {
        let len = (blocks.end - blocks.start) as usize * elements;
        let at = out.at(blocks.start * elements as u64 * 4).cast::<f32>();
        // SAFETY: pieces do not overlap, lie inside, and begin at multiples of 4.
        each(blocks, unsafe { std::slice::from_raw_parts_mut(at, len) });
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(out)
}
