//! Checking the digests of a whole file.

use super::Target::SpeedAtLeast;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::*;
use crate::floor::{cores, digest, read};
use crate::ours;
use crate::peers::{zt12, zt21};
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use std::convert::Infallible;
use std::hint::black_box;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "verify-crc32c",
        cache: Cache::Warm,
        rate: true,
        what: "Check the crc32c digest of every tensor: Llama shapes, warm.",
        files: &[LlamaZt12, LlamaZt21],
        contestants: CRC32C,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.8, &["sum of the map, all cores"]),
            note: "Page faults of the map and the digest share two cores with the other processes of the machine.",
        }],
    },
    Comparison {
        name: "verify-sha256",
        cache: Cache::Warm,
        rate: true,
        what: "Check the sha256 digest of every tensor: Llama shapes, warm. The floors hash one part in \
               as many as there are cores of the bytes, on one thread.",
        files: &[LlamaZt12Sha256],
        contestants: SHA256,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.9, &["sha2 × cores", "ring × cores"]),
            note: "The 525 MB embedding is one stream on one core regardless of the other, and the map is touched for the first time.",
        }],
    },
];

const CRC32C: &[Contestant] = &[
    ours("holdall", |c| ours::verify(c, LlamaZt12)),
    floor("sum of the map, all cores", |c| {
        let path = c.path(LlamaZt12);
        Ok(timed(|| digest::sum_on_all_cores(&path))?.1)
    }),
    peer("ztensor 1.2, read checked", |c| zt12::load(c, LlamaZt12, true)),
    peer("ztensor 2.1, xxh3", |c| zt21::verify(c, LlamaZt21)),
];

const SHA256: &[Contestant] = &[
    ours("holdall", |c| ours::verify(c, LlamaZt12Sha256)),
    floor("sha2 × cores", |c| stream(c, digest::sha2_stream)),
    floor("ring × cores", |c| stream(c, digest::ring_stream)),
    peer("ztensor 1.2, read checked", |c| zt12::load(c, LlamaZt12Sha256, true)),
];

fn stream(c: &Context, hash: fn(&[u8]) -> [u8; 32]) -> Result<Outcome> {
    let memory = read::buffered(&c.path(LlamaZt12Sha256))?;
    let share = &memory[..memory.len() / cores()];
    match timed(|| Ok::<_, Infallible>(black_box(hash(share)))) {
        Ok((_, outcome)) => Ok(outcome),
    }
}
