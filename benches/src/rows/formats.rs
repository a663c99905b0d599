//! Files of other formats, opened and loaded beside the packages that they are of.

use super::Target::{SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, Goal, floor, load::floor_warm, ours, peer};
use crate::files::Workload::*;
use crate::ours;
use crate::peers::python::{self, Package};
use holdall::Check;
use std::path::Path;

const FRESH: &str = "Both times are reading into fresh memory, most of which is the kernel clearing pages; no read of these bytes on all \
                     cores, `pread`, is faster.";

/// How often a process opens; the median counts.
const OFTEN: usize = 50;

macro_rules! rows {
    ($($id:literal, $of:ident, $file:ident, $load:literal;)*) => {
        /// The packages, by the names of their comparisons.
        const PACKAGES: &[(&str, &Package)] = &[$(
            (concat!("open-", $id), &python::$of),
            (concat!("load-", $id), &python::$of),
        )*];

        pub const COMPARISONS: &[Comparison] = &[$(
            Comparison {
                name: concat!("open-", $id),
                cache: Cache::Warm,
                rate: false,
                what: concat!("Open and go through names, types and shapes: Llama shapes as ", $id, ", float16; warm."),
                files: &[$file],
                contestants: &[
                    ours("holdall", |c| ours::list(c, $file, OFTEN)),
                    peer($load, |c| python::$of.list(c, $file)),
                ],
                goals: &[Goal { ours: "holdall", target: TimeAtMost(0.2, &[$load]), note: "" }],
            },
            Comparison {
                name: concat!("load-", $id),
                cache: Cache::Warm,
                rate: true,
                what: concat!("Load every tensor into owned buffers: Llama shapes as ", $id, ", float16, warm."),
                files: &[$file],
                contestants: &[
                    ours("holdall", |c| ours::load(c, $file, Check::Off)),
                    floor("pread", |c| floor_warm(c, $file)),
                    peer($load, |c| python::$of.load(c, $file)),
                ],
                goals: &[
                    Goal { ours: "holdall", target: TimeAtMost(1.15, &["pread"]), note: "" },
                    Goal { ours: "holdall", target: SpeedAtLeast(3.0, &[$load]), note: FRESH },
                ],
            },
        )*];
    };
}

rows! {
    "pytorch", TORCH, LlamaTorch, "torch";
    "npz", NPZ, LlamaNpz, "numpy";
    "npy", NPY, EmbeddingNpy, "numpy";
    "hdf5", H5PY, LlamaHdf5, "h5py";
    "onnx", ONNX, LlamaOnnx, "onnx";
}

/// Why a comparison cannot be made: its package cannot be had.
pub fn missing(comparison: &Comparison, folder: &Path) -> Option<String> {
    let (_, package) = PACKAGES.iter().find(|(name, _)| *name == comparison.name)?;
    Some(format!("{:#}", package.python(folder).err()?))
}
