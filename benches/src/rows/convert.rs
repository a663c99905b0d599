//! Converting a file without loading it.

use super::Target::{BusyAtLeast, MemoryAtMost, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, floor, ours};
use crate::files::LEVEL;
use crate::files::Workload::*;
use crate::floor::cores;
use crate::floor::write::copy_summed;
use crate::floor::zstd::compress_on_all_cores;
use crate::ours;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result, ensure};
use holdall::Durability;
use std::fs::File;
use std::process::Command;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "convert",
        cache: Cache::Warm,
        rate: true,
        what: "Convert safetensors to a raw zTensor 1.2 file with crc32c digests, without waiting for \
               the disk: Llama shapes, warm.",
        files: &[LlamaSafetensors],
        contestants: CONVERT,
        goals: &[
            Goal {
                ours: "holdall",
                target: TimeAtMost(1.1, &["cp"]),
                note: "`cp` lets the kernel copy the file once; computing a digest requires reading the bytes, by a second copy or a map.",
            },
            Goal { ours: "holdall", target: TimeAtMost(1.1, &["read, crc32c, write"]), note: "" },
            Goal { ours: "holdall", target: MemoryAtMost(64_000_000), note: "" },
        ],
    },
    Comparison {
        name: "convert-synced",
        cache: Cache::Warm,
        rate: true,
        what: "The same, and wait until it is on the disk, which is what the command does.",
        files: &[LlamaSafetensors],
        contestants: CONVERT_SYNCED,
        goals: &[
            Goal { ours: "holdall", target: TimeAtMost(1.1, &["cp, fsync"]), note: "" },
            Goal { ours: "holdall", target: MemoryAtMost(64_000_000), note: "" },
        ],
    },
    Comparison {
        name: "convert-zstd",
        cache: Cache::Warm,
        rate: true,
        what: "Convert safetensors to a compressed zTensor 1.2 file (zstd level 3) on the disk: Llama \
               shapes, warm.",
        files: &[LlamaSafetensors],
        contestants: CONVERT_ZSTD,
        goals: &[Goal {
            ours: "holdall",
            target: BusyAtLeast(0.9),
            note: "The file is flushed to the disk at the end, when all data is compressed.",
        }],
    },
];

const CONVERT: &[Contestant] = &[
    ours("holdall", |c| ours::convert(c, Durability::System, None)),
    floor("cp", |c| copy(c, false)),
    floor("read, crc32c, write", |c| {
        let (path, output) = (c.path(LlamaSafetensors), c.output()?);
        Ok(timed(|| copy_summed(&path, output.as_ref(), cores()))?.1)
    }),
];

const CONVERT_SYNCED: &[Contestant] = &[
    ours("holdall", |c| ours::convert(c, Durability::Disk, None)),
    floor("cp, fsync", |c| copy(c, true)),
];

const CONVERT_ZSTD: &[Contestant] = &[
    ours("holdall", |c| ours::convert(c, Durability::Disk, Some(LEVEL))),
    floor("zstd library, all cores, not written", |c| {
        let path = c.path(LlamaSafetensors);
        Ok(timed(|| compress_on_all_cores(&path, LEVEL))?.1)
    }),
];

fn copy(c: &Context, sync: bool) -> Result<Outcome> {
    let path = c.path(LlamaSafetensors);
    let output = c.output()?;
    let run = || -> Result<()> {
        let status = Command::new("cp").arg(&path).arg(output.as_ref()).status().context("cp")?;
        ensure!(status.success(), "cp failed");
        if sync {
            File::open(&output)?.sync_all()?;
        }
        Ok(())
    };
    Ok(timed(run)?.1)
}
