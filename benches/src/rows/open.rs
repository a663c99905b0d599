//! Opening a file and listing its contents.

use super::Target::{BeyondAtMost, MemoryAtMostFile, TimeAtMost};
use super::header::header;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::*;
use crate::files::shards;
use crate::ours;
use crate::peers::{safetensors, zt12, zt21};
use crate::timing::repeated;
use anyhow::Result;

/// How often a process opens a small table of contents, which takes microseconds.
const OFTEN: usize = 200;
/// How often a process opens a large table of contents, in addition to the warm-up.
const ONCE: usize = 1;
/// How often a process opens many files.
const SOME: usize = 5;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "open-llama",
        cache: Cache::AsFound,
        rate: false,
        what: "Open and go through names, dtypes and shapes: Llama-3.2-1B, all 146 tensors, \
               safetensors; warm.",
        files: &[LlamaHoles],
        contestants: OPEN_LLAMA,
        goals: &[Goal { ours: "holdall", target: TimeAtMost(0.5, &["safetensors"]), note: "" }],
    },
    Comparison {
        name: "open-200k",
        cache: Cache::Warm,
        rate: false,
        what: "The same with 200 000 tensors; warm.",
        files: &[TinySafetensors, TinyZt12, TinyZt21],
        contestants: OPEN_200K,
        goals: &[
            Goal { ours: "holdall, zTensor 1.2", target: TimeAtMost(0.33, PEERS), note: CLEARED },
            Goal { ours: "holdall, safetensors", target: TimeAtMost(0.33, PEERS), note: CLEARED },
            Goal {
                ours: "holdall, zTensor 1.2",
                target: MemoryAtMostFile(1.5, TinyZt12),
                note: "",
            },
            Goal {
                ours: "holdall, safetensors",
                target: MemoryAtMostFile(1.5, TinySafetensors),
                note: "",
            },
        ],
    },
    Comparison {
        name: "open-shards",
        cache: Cache::AsFound,
        rate: false,
        what: "The same with 100 000 tensors in 200 safetensors files, by their index; the peer decodes the headers one after \
               the other and compares nothing with the index; warm.",
        files: &[Shards100k],
        contestants: OPEN_SHARDS,
        goals: &[Goal {
            ours: "holdall",
            target: BeyondAtMost(100_000_000, &["read of the headers and the index"]),
            note: "",
        }],
    },
];

const CLEARED: &str = "A third of ours is the kernel clearing the pages of the index.";

const PEERS: &[&str] = &["safetensors", "ztensor 1.2", "ztensor 2.1"];

const OPEN_LLAMA: &[Contestant] = &[
    ours("holdall", |c| ours::list(c, LlamaHoles, OFTEN)),
    peer("safetensors", |c| safetensors::list(c, LlamaHoles, OFTEN)),
];

const OPEN_SHARDS: &[Contestant] = &[
    ours("holdall", |c| ours::list(c, Shards100k, SOME)),
    floor("read of the headers and the index", |c| {
        let folder = c.path(Shards100k);
        let read = || -> Result<_> {
            let index = std::fs::read(folder.join("model.safetensors.index.json"))?;
            let headers =
                shards(&folder)?.iter().map(|path| header(path)).collect::<Result<Vec<_>>>()?;
            Ok((index, headers))
        };
        Ok(repeated(SOME, read)?.1)
    }),
    peer("safetensors", |c| safetensors::list_shards(c, Shards100k, SOME)),
];

const OPEN_200K: &[Contestant] = &[
    ours("holdall, zTensor 1.2", |c| ours::list(c, TinyZt12, ONCE)),
    ours("holdall, safetensors", |c| ours::list(c, TinySafetensors, ONCE)),
    peer("safetensors", |c| safetensors::list(c, TinySafetensors, ONCE)),
    peer("ztensor 1.2", |c| zt12::list(c, TinyZt12, ONCE)),
    peer("ztensor 2.1", |c| zt21::list(c, TinyZt21, ONCE)),
];
