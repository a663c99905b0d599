//! Files of other formats, opened and loaded by Holdall and by the packages of those formats.

use super::Target::{SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, FRESH, Goal, floor, load::floor_warm, ours, peer};
use crate::files::Workload::*;
use crate::ours;
use crate::peers::{python, zipnn};
use holdall::Check;
use std::path::Path;

/// How often a process opens the file. The median counts.
const OFTEN: usize = 50;

macro_rules! rows {
    ($($id:literal, $file:ident, $load:literal;)*) => {
        pub const COMPARISONS: &[Comparison] = &[$(
            Comparison {
                name: concat!("open-", $id),
                cache: Cache::Warm,
                rate: false,
                what: concat!("Open and go through names, types and shapes: Llama shapes as ", $id, ", float16; warm."),
                files: &[$file],
                contestants: &[
                    ours("holdall", |c| ours::list(c, $file, OFTEN)),
                    peer($load, |c| python::list(c, $file)),
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
                    peer($load, |c| python::load(c, $file)),
                ],
                goals: &[
                    Goal { ours: "holdall", target: TimeAtMost(1.15, &["pread"]), note: FRESH },
                    Goal { ours: "holdall", target: SpeedAtLeast(3.0, &[$load]), note: FRESH },
                ],
            },
        )*];
    };
}

rows! {
    "pytorch", LlamaTorch, "torch";
    "npz", LlamaNpz, "numpy";
    "npy", EmbeddingNpy, "numpy";
    "hdf5", LlamaHdf5, "h5py";
    "onnx", LlamaOnnx, "onnx";
}

/// Returns why the package of a comparison is not available.
pub fn missing(comparison: &Comparison, folder: &Path) -> Option<String> {
    if comparison.files.contains(&LlamaZipNn) {
        return Some(format!("{:#}", zipnn::python(folder).err()?));
    }
    let package = comparison.files.iter().find_map(|file| python::package(*file))?;
    Some(format!("{:#}", package.python(folder).err()?))
}
