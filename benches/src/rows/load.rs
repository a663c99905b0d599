//! Loading every tensor into memory owned by the caller.

use super::Target::TimeAtMost;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::cold::drop_cache;
use crate::files::Workload::{self, *};
use crate::floor::memory::HugeMemory;
use crate::floor::{cores, read};
use crate::ours;
use crate::peers::{safetensors, zt12, zt21};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use holdall::Check;
use std::path::Path;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "load-warm",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor into owned buffers: Llama shapes, warm, digests not checked.",
        files: &[LlamaZt12, LlamaSafetensors, LlamaZt21],
        contestants: WARM,
        goals: WARM_GOALS,
    },
    Comparison {
        name: "load-warm-51k",
        cache: Cache::Warm,
        rate: true,
        what: "The same with 51 000 tensors of 10 KB.",
        files: &[SmallZt12, SmallSafetensors, SmallZt21],
        contestants: WARM_51K,
        goals: SMALL_GOALS,
    },
    Comparison {
        name: "load-cold",
        cache: Cache::Cold,
        rate: true,
        what: "Load every tensor into owned buffers: Llama shapes, nothing of the file in the page cache.",
        files: &[LlamaZt12, LlamaSafetensors, LlamaZt21],
        contestants: COLD,
        goals: &[
            Goal {
                ours: "holdall, zTensor 1.2",
                target: TimeAtMost(1.1, &["pread", "O_DIRECT", "O_DIRECT, 4 reads a core"]),
                note: "",
            },
            Goal {
                ours: "holdall, safetensors",
                target: TimeAtMost(1.1, &["pread", "O_DIRECT", "O_DIRECT, 4 reads a core"]),
                note: "",
            },
        ],
    },
    Comparison {
        name: "load-checked",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor into owned buffers with its digest checked, and without: Llama shapes, warm.",
        files: &[LlamaZt12, LlamaZt21],
        contestants: CHECKED,
        goals: &[Goal {
            ours: "holdall, crc32c",
            target: TimeAtMost(1.15, &["holdall, unchecked"]),
            note: "The digest is a tenth of a load; how much of it overlaps with the copying depends on the caches of the machine.",
        }],
    },
];

const WARM_GOALS: &[Goal] = &[
    Goal {
        ours: "holdall, zTensor 1.2",
        target: TimeAtMost(1.15, &["pread"]),
        note: "Most of both times is the kernel clearing fresh pages, and varies from run to run by more than the difference.",
    },
    Goal {
        ours: "holdall, safetensors",
        target: TimeAtMost(1.15, &["pread"]),
        note: "Most of both times is the kernel clearing fresh pages, and varies from run to run by more than the difference.",
    },
];

const SMALL_GOALS: &[Goal] = &[
    Goal { ours: "holdall, zTensor 1.2", target: TimeAtMost(1.15, &["pread"]), note: OPENED },
    Goal {
        ours: "holdall, zTensor 1.2",
        target: TimeAtMost(1.15, &["open, pread, zTensor 1.2"]),
        note: "",
    },
    Goal { ours: "holdall, safetensors", target: TimeAtMost(1.15, &["pread"]), note: OPENED },
    Goal {
        ours: "holdall, safetensors",
        target: TimeAtMost(1.15, &["open, pread, safetensors"]),
        note: "",
    },
];

const OPENED: &str = "Decoding the 51 000 entries is part of ours, on one core, before reading can start; `pread` has no entries. \
     `open, pread` has: it opens the file as ours does, then reads it as `pread` does.";

const WARM: &[Contestant] = &[
    ours("holdall, zTensor 1.2", |c| ours::load(c, LlamaZt12, Check::Off)),
    ours("holdall, safetensors", |c| ours::load(c, LlamaSafetensors, Check::Off)),
    floor("pread", |c| floor_warm(c, LlamaZt12)),
    peer("safetensors, fs::read", |c| safetensors::load_file(c, LlamaSafetensors)),
    peer("safetensors, map and copy", |c| safetensors::load_copies(c, LlamaSafetensors)),
    peer("ztensor 1.2, read", |c| zt12::load(c, LlamaZt12, false)),
    peer("ztensor 1.2, map and copy", |c| zt12::load_copies(c, LlamaZt12)),
    peer("ztensor 2.1", |c| zt21::load(c, LlamaZt21, false)),
];

const WARM_51K: &[Contestant] = &[
    ours("holdall, zTensor 1.2", |c| ours::load(c, SmallZt12, Check::Off)),
    ours("holdall, safetensors", |c| ours::load(c, SmallSafetensors, Check::Off)),
    floor("pread", |c| floor_warm(c, SmallZt12)),
    floor("open, pread, zTensor 1.2", |c| opened(c, SmallZt12)),
    floor("open, pread, safetensors", |c| opened(c, SmallSafetensors)),
    peer("safetensors, fs::read", |c| safetensors::load_file(c, SmallSafetensors)),
    peer("safetensors, map and copy", |c| safetensors::load_copies(c, SmallSafetensors)),
    peer("ztensor 1.2, read", |c| zt12::load(c, SmallZt12, false)),
    peer("ztensor 1.2, map and copy", |c| zt12::load_copies(c, SmallZt12)),
    peer("ztensor 2.1", |c| zt21::load(c, SmallZt21, false)),
];

const COLD: &[Contestant] = &[
    ours("holdall, zTensor 1.2", |c| cold(c, LlamaZt12, |c, file| ours::load(c, file, Check::Off))),
    ours("holdall, safetensors", |c| {
        cold(c, LlamaSafetensors, |c, file| ours::load(c, file, Check::Off))
    }),
    floor("pread", |c| floor_cold(c, LlamaZt12, read::buffered)),
    floor("O_DIRECT", |c| floor_cold(c, LlamaZt12, |path| read::direct(path, cores()))),
    floor("O_DIRECT, 4 reads a core", |c| {
        floor_cold(c, LlamaZt12, |path| read::direct(path, 4 * cores()))
    }),
    peer("safetensors, fs::read", |c| cold(c, LlamaSafetensors, safetensors::load_file)),
    peer("safetensors, map and copy", |c| cold(c, LlamaSafetensors, safetensors::load_copies)),
    peer("ztensor 1.2, read", |c| cold(c, LlamaZt12, |c, file| zt12::load(c, file, false))),
    peer("ztensor 2.1", |c| cold(c, LlamaZt21, |c, file| zt21::load(c, file, false))),
];

const CHECKED: &[Contestant] = &[
    ours("holdall, crc32c", |c| ours::load(c, LlamaZt12, Check::Fast)),
    ours("holdall, unchecked", |c| ours::load(c, LlamaZt12, Check::Off)),
    floor("pread, unchecked", |c| floor_warm(c, LlamaZt12)),
    peer("ztensor 1.2, crc32c", |c| zt12::load(c, LlamaZt12, true)),
    peer("ztensor 1.2, unchecked", |c| zt12::load(c, LlamaZt12, false)),
    peer("ztensor 2.1, xxh3", |c| zt21::load(c, LlamaZt21, true)),
    peer("ztensor 2.1, unchecked", |c| zt21::load(c, LlamaZt21, false)),
];

pub fn floor_warm(c: &Context, file: Workload) -> Result<Outcome> {
    let path = c.path(file);
    Ok(timed(|| read::buffered(&path))?.1)
}

/// Decodes the entries with Holdall, which is faster than any peer, and then reads the bytes.
fn opened(c: &Context, file: Workload) -> Result<Outcome> {
    let path = c.path(file);
    Ok(timed(|| -> Result<_> { Ok((holdall::open(&path)?, read::buffered(&path)?)) })?.1)
}

fn floor_cold(
    c: &Context,
    file: Workload,
    read: fn(&Path) -> Result<HugeMemory>,
) -> Result<Outcome> {
    let path = c.path(file);
    drop_cache(&path)?;
    Ok(timed(|| read(&path))?.1)
}

fn cold(
    c: &Context,
    file: Workload,
    load: fn(&Context, Workload) -> Result<Outcome>,
) -> Result<Outcome> {
    drop_cache(&c.path(file))?;
    load(c, file)
}
