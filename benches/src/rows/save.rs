//! Writing a model in memory to a new file.

use super::Target::TimeAtMost;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::*;
use crate::floor::memory::HugeMemory;
use crate::floor::{cores, read, write};
use crate::ours;
use crate::peers::{safetensors, zt12, zt21};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use ::safetensors::SafeTensors;
use ::safetensors::tensor::TensorView;
use anyhow::Result;
use holdall::{Algorithm, Durability};

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "save",
        cache: Cache::Warm,
        rate: true,
        what: "Write a model in memory to a new file, without waiting for the disk: Llama shapes.",
        files: &[LlamaSafetensors],
        contestants: SAVE,
        goals: &[
            Goal {
                ours: "holdall, crc32c",
                target: TimeAtMost(1.1, &["fallocate + write"]),
                note: "The digest reads the bytes once more while the kernel copies them; the floor with a digest shows the cost.",
            },
            Goal {
                ours: "holdall, crc32c",
                target: TimeAtMost(1.1, &["fallocate + write, crc32c at once"]),
                note: "",
            },
        ],
    },
    Comparison {
        name: "save-synced",
        cache: Cache::Warm,
        rate: true,
        what: "The same, and wait until it is on the disk (fsync).",
        files: &[LlamaSafetensors],
        contestants: SAVE_SYNCED,
        goals: &[
            Goal {
                ours: "holdall, crc32c",
                target: TimeAtMost(1.1, &["write + fsync", "O_DIRECT + fsync"]),
                note: "Bytes are copied into aligned pieces for direct writes, with the digest computed at the same time; the floor that copies and sums shows the cost.",
            },
            Goal {
                ours: "holdall, crc32c",
                target: TimeAtMost(1.1, &["copy, crc32c, O_DIRECT + fsync"]),
                note: "",
            },
        ],
    },
];

const SAVE: &[Contestant] = &[
    ours("holdall, crc32c", |c| ours::save(c, Durability::System, Some(Algorithm::Crc32c))),
    ours("holdall, no digest", |c| ours::save(c, Durability::System, None)),
    floor("fallocate + write", |c| saved(c, |output, model| write::buffered(output, model))),
    floor("fallocate + write, crc32c at once", |c| {
        saved(c, |output, model| write::buffered_summed(output, model))
    }),
    peer("safetensors", |c| safetensors::save(c, false)),
    peer("ztensor 1.2, crc32c", |c| zt12::save(c, false)),
];

const SAVE_SYNCED: &[Contestant] = &[
    ours("holdall, crc32c", |c| ours::save(c, Durability::Disk, Some(Algorithm::Crc32c))),
    ours("holdall, no digest", |c| ours::save(c, Durability::Disk, None)),
    floor("write + fsync", |c| saved(c, |output, model| write::buffered_synced(output, model))),
    floor("O_DIRECT + fsync", |c| {
        saved(c, |output, model| write::direct_synced(output, model, cores()))
    }),
    floor("copy, crc32c, O_DIRECT + fsync", |c| {
        saved(c, |output, model| write::direct_copied_synced(output, model, cores()))
    }),
    peer("safetensors", |c| safetensors::save(c, true)),
    peer("ztensor 1.2, crc32c", |c| zt12::save(c, true)),
    peer("ztensor 2.1, xxh3", zt21::save),
];

pub fn saved(
    c: &Context,
    write: fn(&std::path::Path, &HugeMemory) -> Result<std::fs::File>,
) -> Result<Outcome> {
    let model = Model::load(c)?;
    let output = c.output()?;
    Ok(timed(|| write(output.as_ref(), &model.bytes))?.1)
}

/// The Llama-shaped model in memory.
pub struct Model {
    bytes: HugeMemory,
}

impl Model {
    pub fn load(c: &Context) -> Result<Model> {
        Ok(Model { bytes: read::buffered(&c.path(LlamaSafetensors))? })
    }

    /// Returns its tensors, in no particular order.
    pub fn views(&self) -> Result<Vec<(String, TensorView<'_>)>> {
        Ok(SafeTensors::deserialize(&self.bytes)?.tensors())
    }
}
