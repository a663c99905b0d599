//! Reading rows of a large tensor in a cold file.

use super::Target::TimeAtMost;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::cold::drop_cache;
use crate::files::Workload::{self, *};
use crate::floor::{read, zstd};
use crate::ours;
use crate::peers::{safetensors, zt12, zt21};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The rows read at a time: 256 KB of the embedding.
pub const ROWS: u64 = 64;
/// The runs in a process, each at another position. The median counts.
const RUNS: u64 = 5;

pub const COMPARISONS: &[Comparison] = &[Comparison {
    name: "rows-cold",
    cache: Cache::Cold,
    rate: false,
    what: "Open the cold file and read 64 rows (256 KB) of the 525 MB embedding, raw and compressed.",
    files: &[LlamaZt12, LlamaSafetensors, LlamaZt12Zstd, LlamaSeekable, LlamaZt21, LlamaZt21Zstd],
    contestants: ROWS_COLD,
    goals: &[
        Goal {
            ours: "holdall, zstd",
            target: TimeAtMost(
                3.0,
                &["holdall, raw", "safetensors", "ztensor 1.2, raw", "ztensor 2.1, raw"],
            ),
            note: "A slice requires decoding its frames of 1 MiB, which takes longer than reading them raw.",
        },
        Goal {
            ours: "holdall, zstd",
            target: TimeAtMost(1.1, &["pread of the frames, zstd library"]),
            note: "",
        },
    ],
}];

const ROWS_COLD: &[Contestant] = &[
    ours("holdall, raw", |c| ours::rows(c, LlamaZt12)),
    ours("holdall, zstd", |c| ours::rows(c, LlamaSeekable)),
    floor("pread of a raw file", |c| {
        let (offset, width) = zt12::embedding(&c.path(LlamaZt12))?;
        Runs::new(c, LlamaZt12)
            .each(|path, start| read::range(path, offset + start * width, (ROWS * width) as usize))
    }),
    floor("pread of the frames, zstd library", frames),
    peer("safetensors", |c| safetensors::rows(c, LlamaSafetensors)),
    peer("ztensor 1.2, raw", |c| zt12::rows(c, LlamaZt12)),
    peer("ztensor 1.2, zstd", |c| zt12::rows(c, LlamaZt12Zstd)),
    peer("ztensor 2.1, raw", |c| zt21::rows(c, LlamaZt21)),
    peer("ztensor 2.1, zstd", |c| zt21::rows(c, LlamaZt21Zstd)),
];

/// Reads and decodes the frames of the rows. Their positions are known in advance.
fn frames(c: &Context) -> Result<Outcome> {
    let (component, width) = zt12::embedding_stored(&c.path(LlamaSeekable))?;
    let frames = zstd::frames(&c.path(LlamaSeekable), component)?;
    Runs::new(c, LlamaSeekable).each(|path, start| {
        let wanted = (start * width) as usize..((start + ROWS) * width) as usize;
        zstd::decode_range(path, &frames, wanted)
    })
}

/// The positions that one process reads, each from a cold file.
pub struct Runs<'a> {
    context: &'a Context,
    path: PathBuf,
}

impl<'a> Runs<'a> {
    pub fn new(context: &'a Context, file: Workload) -> Runs<'a> {
        Runs { context, path: context.path(file) }
    }

    /// Calls `read` with the first row of each run and returns the median run. Each run reads another position, the
    /// same for all contestants.
    pub fn each(&self, mut read: impl FnMut(&Path, u64) -> Result<Vec<u8>>) -> Result<Outcome> {
        let mut check = self.context.check();
        let mut runs = Vec::new();
        for run in 0..RUNS {
            let start = (self.context.round as u64 * RUNS + run + 1) * 7919 % (16_032 - ROWS);
            drop_cache(&self.path)?;
            let (bytes, outcome) = timed(|| read(&self.path, start))?;
            check.tensor("rows", &bytes);
            runs.push(outcome);
        }
        runs.sort_by_key(|r| r.nanos);
        Ok(Outcome { check: check.value(), ..runs[runs.len() / 2] })
    }
}
