//! Converting a file without loading it.

use super::{Cache, Comparison, Contestant, floor};
use crate::files::Workload::*;
use crate::floor::zstd::compress_on_all_cores;
use crate::timing::timed;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "convert",
        cache: Cache::Warm,
        rate: true,
        what: "Convert safetensors to a raw zTensor 1.2 file with crc32c digests: Llama shapes, warm.",
        files: &[LlamaSafetensors],
        contestants: CONVERT,
        goals: &[],
    },
    Comparison {
        name: "convert-zstd",
        cache: Cache::Warm,
        rate: true,
        what: "Convert safetensors to a compressed zTensor 1.2 file (zstd level 3): Llama shapes, warm.",
        files: &[LlamaSafetensors],
        contestants: CONVERT_ZSTD,
        goals: &[],
    },
];

const CONVERT: &[Contestant] = &[floor("cp", |c| {
    let path = c.path(LlamaSafetensors);
    let output = c.output()?;
    let run = || -> Result<()> {
        let status = Command::new("cp").arg(&path).arg(output.as_ref()).status().context("cp")?;
        ensure!(status.success(), "cp failed");
        Ok(())
    };
    Ok(timed(run)?.1)
})];

const CONVERT_ZSTD: &[Contestant] = &[floor("zstd library, all cores, not written", |c| {
    let path = c.path(LlamaSafetensors);
    Ok(timed(|| compress_on_all_cores(&path, 3))?.1)
})];
