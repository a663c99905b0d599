//! What must hold whatever bytes Holdall is given: one module for each target, whose `run` panics where
//! it does not hold.
//!
//! Two fuzzers call them. `cargo xtask fuzz-smoke` runs on stable, repeats itself exactly, and is part
//! of `cargo xtask test`; `libfuzzer/` is for those who have a nightly compiler and time.
//!
//! Targets of views and of round trips do not take a file: they read a tensor out of their bytes, a
//! number or a run of bytes at a time ([`Take`]). Next to `run` each says how a file of the corpus
//! becomes such bytes.

mod frames;
mod limits;
mod schemas;
mod take;
mod targets;
mod walk;

pub use take::Take;

pub use targets::*;

/// One thing that must hold.
#[derive(Debug)]
pub struct Target {
    /// Its name, also that of its folder in `regressions/`.
    pub name: &'static str,
    /// Panics where it does not hold.
    pub run: fn(&[u8]),
    /// Folders with files to start from, in the repository.
    pub seeds: &'static [&'static str],
    /// The seeds that one such file gives.
    pub of_file: fn(&[u8]) -> Vec<Vec<u8>>,
    /// What its bytes are, for those who change them.
    pub form: Form,
    /// Inputs that are tried before a change lands. Each target takes a few seconds.
    pub runs: u64,
}

/// What the bytes of a target are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Just bytes.
    Bytes,
    /// A file, in which a number says how long its header or manifest is.
    File,
    /// Two of those: the length of the first as u32, little-endian, and both.
    Pair,
}

/// Everything that is tried.
pub static TARGETS: &[Target] = &[
    Target {
        name: "decode_ztensor",
        run: decode_ztensor::run,
        seeds: &["corpus/accept/ztensor", "corpus/reject/ztensor"],
        of_file: whole,
        form: Form::File,
        runs: 100_000,
    },
    Target {
        name: "decode_gguf",
        run: decode_gguf::run,
        seeds: &["corpus/accept/gguf", "corpus/reject/gguf"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_numpy",
        run: decode_numpy::run,
        seeds: &["corpus/accept/numpy", "corpus/reject/numpy"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_ztensor2",
        run: decode_ztensor2::run,
        seeds: &["corpus/accept/ztensor2", "corpus/reject/ztensor2"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_onnx",
        run: decode_onnx::run,
        seeds: &["corpus/accept/onnx", "corpus/reject/onnx"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_flax",
        run: decode_flax::run,
        seeds: &["corpus/accept/flax", "corpus/reject/flax"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_tflite",
        run: decode_tflite::run,
        seeds: &["corpus/accept/tflite", "corpus/reject/tflite"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_tensorflow",
        run: decode_tensorflow::run,
        seeds: &["crates/holdall/tests/tensorflow", "corpus/reject/tensorflow"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_hdf5",
        run: decode_hdf5::run,
        seeds: &["corpus/accept/hdf5", "corpus/reject/hdf5"],
        of_file: whole,
        form: Form::Bytes,
        runs: 20_000,
    },
    Target {
        name: "decode_pytorch",
        run: decode_pytorch::run,
        seeds: &["corpus/accept/pytorch", "corpus/reject/pytorch"],
        of_file: whole,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "checkpoint",
        run: checkpoint::run,
        seeds: &["crates/holdall/tests/checkpoint", "crates/holdall/tests/checkpoint/ranks"],
        of_file: whole,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "tar",
        run: tar::run,
        seeds: &["fuzz/seeds/tar"],
        of_file: whole,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "pickle",
        run: pickle::run,
        seeds: &["corpus/accept/pytorch", "corpus/reject/pytorch"],
        of_file: pickle::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "decode_safetensors",
        run: decode_safetensors::run,
        seeds: &["corpus/accept/safetensors", "corpus/reject/safetensors"],
        of_file: whole,
        form: Form::File,
        runs: 100_000,
    },
    Target {
        name: "decode_metatensor",
        run: decode_metatensor::run,
        seeds: &["corpus/accept/metatensor", "corpus/reject/metatensor"],
        of_file: whole,
        form: Form::File,
        runs: 100_000,
    },
    Target {
        name: "decode_carton",
        run: decode_carton::run,
        seeds: PACKAGES,
        of_file: whole,
        form: Form::File,
        runs: 50_000,
    },
    Target {
        name: "zip",
        run: zip::run,
        seeds: PACKAGES,
        of_file: whole,
        form: Form::File,
        runs: 100_000,
    },
    Target {
        name: "carton_texts",
        run: carton_texts::run,
        seeds: PACKAGES,
        of_file: carton_texts::seeds,
        form: Form::Bytes,
        runs: 25_000,
    },
    Target {
        name: "runner_frames",
        run: runner_frames::run,
        seeds: &["corpus/accept/carton", "corpus/accept/safetensors"],
        of_file: runner_frames::seeds,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "stream_frames",
        run: stream_frames::run,
        seeds: &["fuzz/seeds/http"],
        of_file: stream_frames::seeds,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "http_texts",
        run: http_texts::run,
        seeds: &["fuzz/seeds/http"],
        of_file: http_texts::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "assembly",
        run: assembly::run,
        seeds: FILES,
        of_file: whole,
        form: Form::File,
        runs: 25_000,
    },
    Target {
        name: "windowed",
        run: windowed::run,
        seeds: FILES,
        of_file: whole,
        form: Form::File,
        runs: 50_000,
    },
    Target {
        name: "cbor",
        run: cbor::run,
        seeds: &["corpus/accept/ztensor", "corpus/reject/ztensor"],
        of_file: cbor::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "json",
        run: json::run,
        seeds: FILES,
        of_file: json::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "npy",
        run: npy::run,
        seeds: &["corpus/accept/ztensor", "corpus/accept/safetensors"],
        of_file: npy::seeds,
        form: Form::Bytes,
        runs: 250_000,
    },
    Target {
        name: "zstd_seekable",
        run: zstd_seekable::run,
        seeds: &["corpus/accept/ztensor"],
        of_file: zstd_seekable::seeds,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "views_dense",
        run: views_dense::run,
        seeds: &["corpus/accept/ztensor", "corpus/accept/safetensors"],
        of_file: views_dense::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "views_sparse",
        run: views_sparse::run,
        seeds: &["corpus/accept/ztensor", "corpus/reject/ztensor"],
        of_file: views_sparse::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "views_quantized",
        run: views_quantized::run,
        seeds: &["corpus/accept/ztensor", "corpus/reject/ztensor"],
        of_file: views_quantized::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "views_described",
        run: views_described::run,
        seeds: &["fuzz/seeds/layouts"],
        of_file: views_described::seeds,
        form: Form::Bytes,
        runs: 100_000,
    },
    Target {
        name: "schema_layout",
        run: schema_layout::run,
        seeds: VECTORS,
        of_file: schema_layout::seeds,
        form: Form::Bytes,
        runs: 25_000,
    },
    Target {
        name: "records",
        run: records::run,
        seeds: VECTORS,
        of_file: records::seeds,
        form: Form::Bytes,
        runs: 50_000,
    },
    Target {
        name: "schema_evolution",
        run: schema_evolution::run,
        seeds: VECTORS,
        of_file: schema_evolution::seeds,
        form: Form::Bytes,
        runs: 10_000,
    },
    #[cfg(feature = "parquet")]
    Target {
        name: "columns",
        run: columns::run,
        seeds: &["fuzz/seeds/columns"],
        of_file: whole,
        form: Form::Bytes,
        runs: 5_000,
    },
    Target {
        name: "roundtrip",
        run: roundtrip::run,
        seeds: &["corpus/accept/ztensor"],
        of_file: roundtrip::seeds,
        form: Form::Bytes,
        runs: 10_000,
    },
    Target {
        name: "metatensor",
        run: metatensor::run,
        seeds: &["corpus/accept/metatensor", "corpus/reject/metatensor"],
        of_file: metatensor::seeds,
        form: Form::Bytes,
        runs: 25_000,
    },
    Target {
        name: "file",
        run: file::run,
        seeds: FILES,
        of_file: whole,
        form: Form::File,
        runs: 10_000,
    },
    Target {
        name: "diff",
        run: diff::run,
        seeds: &["corpus/accept/ztensor", "corpus/accept/safetensors", "corpus/accept/metatensor"],
        of_file: diff::seeds,
        form: Form::Pair,
        runs: 10_000,
    },
];

const FILES: &[&str] = &[
    "corpus/accept/ztensor",
    "corpus/reject/ztensor",
    "corpus/accept/safetensors",
    "corpus/reject/safetensors",
    "corpus/accept/metatensor",
    "corpus/reject/metatensor",
    "corpus/accept/carton",
    "corpus/reject/carton",
];

const PACKAGES: &[&str] = &["corpus/accept/carton", "corpus/reject/carton"];

const VECTORS: &[&str] = &["corpus/vectors/metatensor"];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// A file of the corpus as it is, unless it is only a description of another.
fn whole(file: &[u8]) -> Vec<Vec<u8>> {
    if is_description(file) { Vec::new() } else { vec![file.to_vec()] }
}

/// Whether a file of the corpus says what is in the one beside it.
fn is_description(file: &[u8]) -> bool {
    file.starts_with(b"{")
}

/// A file of the corpus, opened, where it can be.
fn open(file: &[u8]) -> Option<holdall::File> {
    holdall::OpenOptions::new().open_bytes(file.to_vec(), "a seed").ok()
}
