//! Byte planes.

use super::Target::{SizeAtMost, SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, ours, peer};
use crate::cold::drop_cache;
use crate::files::LEVEL;
use crate::files::Workload::{self, *};
use crate::floor::on_one_core;
use crate::ours;
use crate::peers::zipnn;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use holdall::{Check, Durability};

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "load-planes",
        cache: Cache::Warm,
        rate: true,
        what: "Load every tensor of a file in byte planes into owned buffers, on one core: Llama shapes, warm.",
        files: &[LlamaSafetensors, LlamaPlanes, LlamaSeekable, LlamaZipNn],
        contestants: LOAD,
        goals: &[
            Goal { ours: "planes", target: SpeedAtLeast(2.3, &["zstd, crc32c"]), note: "" },
            Goal {
                ours: "planes",
                target: SizeAtMost(0.667, LlamaPlanes, LlamaSafetensors, 0),
                note: "",
            },
        ],
    },
    Comparison {
        name: "load-planes-cold",
        cache: Cache::Cold,
        rate: true,
        what: "The same on all cores, and nothing of the file in the page cache. Planes are faster than raw bytes from any disk that is slower than they are decoded.",
        files: &[LlamaSafetensors, LlamaZt12, LlamaPlanes, LlamaSeekable],
        contestants: LOAD_COLD,
        goals: &[Goal { ours: "planes", target: TimeAtMost(1.0, &["raw"]), note: "" }],
    },
    Comparison {
        name: "convert-planes",
        cache: Cache::Warm,
        rate: true,
        what: "Convert safetensors to a file in byte planes, on one core, without waiting for the disk: Llama shapes, warm. ZipNN only compresses.",
        files: &[LlamaSafetensors],
        contestants: CONVERT,
        goals: &[Goal { ours: "planes", target: TimeAtMost(1.0, &["zstd"]), note: "" }],
    },
    Comparison {
        name: "row-planes",
        cache: Cache::Warm,
        rate: false,
        what: "Read one row of 4 KB of the 525 MB embedding from an open file, warm.",
        files: &[LlamaSafetensors, LlamaZt12, LlamaPlanes, LlamaSeekable],
        contestants: &[
            ours("raw", |c| ours::deltas::row(c, LlamaZt12)),
            ours("planes", |c| ours::deltas::row(c, LlamaPlanes)),
            ours("zstd", |c| ours::deltas::row(c, LlamaSeekable)),
        ],
        goals: &[],
    },
];

const LOAD: &[Contestant] = &[
    ours("planes", |c| load(c, LlamaPlanes)),
    ours("zstd, crc32c", |c| load(c, LlamaSeekable)),
    peer("ZipNN", zipnn::load),
];

const LOAD_COLD: &[Contestant] = &[
    ours("planes", |c| load_cold(c, LlamaPlanes)),
    ours("zstd", |c| load_cold(c, LlamaSeekable)),
    ours("raw", |c| load_cold(c, LlamaZt12)),
];

const CONVERT: &[Contestant] = &[
    ours("planes", |c| {
        on_one_core()?;
        let output = c.output()?;
        Ok(timed(|| ours::deltas::write_planes(&c.path(LlamaSafetensors), output.as_ref()))?.1)
    }),
    ours("zstd", |c| {
        on_one_core()?;
        ours::convert(c, Durability::System, Some(LEVEL))
    }),
    peer("ZipNN", zipnn::compress),
];

fn load(c: &Context, file: Workload) -> Result<Outcome> {
    on_one_core()?;
    ours::load(c, file, Check::Fast)
}

fn load_cold(c: &Context, file: Workload) -> Result<Outcome> {
    drop_cache(&c.path(file))?;
    ours::load(c, file, Check::Fast)
}
