//! Loading compressed tensors.

use super::Target::SpeedAtLeast;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::{self, *};
use crate::floor::read::map;
use crate::floor::zstd::{decode_into, ready_memory};
use crate::ours;
use crate::peers::{zt12, zt21};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use crate::workload::sum_words;
use anyhow::Result;
use holdall::Check;
use std::hint::black_box;

pub const COMPARISONS: &[Comparison] = &[Comparison {
    name: "load-zstd",
    cache: Cache::Warm,
    rate: true,
    what: "Load every tensor of a compressed file (zstd level 3) into owned buffers: Llama shapes, warm.",
    files: &[LlamaSafetensors, LlamaSeekable, LlamaZt12Zstd, LlamaZt21Zstd],
    contestants: LOAD_ZSTD,
    goals: &[Goal {
        ours: "holdall",
        target: SpeedAtLeast(
            1.8,
            &["zstd library, frames of 1 MB", "zstd library, one frame a tensor"],
        ),
        note: "Decoding into fresh memory pays for its page faults, which the floor does not; 1.8 on two cores leaves a tenth for everything except zstd.",
    }],
}];

const LOAD_ZSTD: &[Contestant] = &[
    ours("holdall", |c| ours::load(c, LlamaSeekable, Check::Off)),
    ours("holdall, crc32c", |c| ours::load(c, LlamaSeekable, Check::Fast)),
    ours("holdall, one frame a tensor", |c| ours::load(c, LlamaZt12Zstd, Check::Off)),
    floor("zstd library, frames of 1 MB", |c| one_thread(c, LlamaSeekable)),
    floor("zstd library, one frame a tensor", |c| one_thread(c, LlamaZt12Zstd)),
    peer("ztensor 1.2", |c| zt12::load(c, LlamaZt12Zstd, false)),
    peer("ztensor 1.2, our file", |c| zt12::load(c, LlamaSeekable, false)),
    peer("ztensor 2.1", |c| zt21::load(c, LlamaZt21Zstd, false)),
];

/// Decodes with one thread of the zstd library, from memory into existing memory.
fn one_thread(c: &Context, file: Workload) -> Result<Outcome> {
    let path = c.path(file);
    let parts = zt12::stored(&path)?;
    let map = map(&path)?;
    black_box(sum_words(&map));
    let mut memory = ready_memory(parts.iter().map(|p| p.decoded_len).sum());
    Ok(timed(|| decode_into(&map, &parts, &mut memory))?.1)
}
