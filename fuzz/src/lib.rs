//! Properties that must hold whatever bytes Holdall is given. Each format family has a target that decodes any bytes as
//! its formats; other targets have a module each, whose `run` panics if its property does not hold.
//!
//! Two fuzzers call them. `cargo xtask fuzz-smoke` runs on stable Rust, is reproducible, and is part of
//! `cargo xtask test`; `libfuzzer/` requires a nightly compiler and more time.
//!
//! Targets of views and of round trips do not take a file: they read a tensor from their bytes, as numbers and runs of
//! bytes ([`Take`]). In each of these modules, `seeds` converts a file of the corpus to such bytes.

mod frames;
mod limits;
mod schemas;
mod take;
mod targets;
mod walk;

pub use take::Take;

pub use targets::*;

use holdall::Format;
use std::borrow::Cow;
use std::sync::LazyLock;
use targets::decode;

/// A target: one property that must hold.
#[derive(Debug)]
pub struct Target {
    /// The target's name, and that of its folder in `regressions/`.
    pub name: &'static str,
    /// The function that panics if the property does not hold.
    run: Run,
    /// Folders in the repository with files to start from. Missing folders are ignored.
    pub seeds: Cow<'static, [&'static str]>,
    /// Converts such a file to seeds.
    pub seeds_of_file: fn(&[u8]) -> Vec<Vec<u8>>,
    /// The form of the bytes, for mutations.
    pub form: Form,
    /// The number of inputs before a change is merged. Each target takes a few seconds.
    pub runs: u64,
}

impl Target {
    /// Tries one input; panics if the property does not hold.
    pub fn run(&self, data: &[u8]) {
        match &self.run {
            Run::Own(run) => run(data),
            Run::Decode(formats) => formats.iter().for_each(|format| decode(format, data)),
        }
    }

    /// Returns `true` if this build has the features that the target needs. Otherwise its inputs would test nothing.
    pub fn is_built(&self) -> bool {
        self.name != COLUMNS || cfg!(feature = "parquet")
    }
}

/// How a target tries an input.
#[derive(Debug)]
enum Run {
    /// With a function.
    Own(fn(&[u8])),
    /// By decoding it as each format of a family.
    Decode(Vec<&'static Format>),
}

/// The form of a target's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any bytes.
    Bytes,
    /// A file that contains the length of its header or manifest.
    File,
    /// Two files, preceded by the length of the first one as a little-endian u32.
    Pair,
}

/// All targets: `decode_FAMILY` for each family of formats, and the hand-written ones.
pub static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let of_formats = holdall_formats::families().map(decodes);
    of_formats.chain(own()).collect()
});

/// Returns the target that decodes any bytes as the formats of a family.
fn decodes(family: &'static str) -> Target {
    let (form, runs) = match family {
        "ztensor" | "safetensors" | "metatensor" => (Form::File, 100_000),
        "carton" => (Form::File, 50_000),
        // Many structures, which are located by searching.
        "hdf5" => (Form::Bytes, 20_000),
        _ => (Form::Bytes, 100_000),
    };
    let mut seeds: Vec<&'static str> =
        ["accept", "reject"].map(|kind| &*format!("corpus/{kind}/{family}").leak()).to_vec();
    if family == "tensorflow" {
        seeds.push(CHECKPOINTS);
    }
    Target {
        name: format!("decode_{family}").leak(),
        run: Run::Decode(holdall_formats::formats_of(family).collect()),
        seeds: seeds.into(),
        seeds_of_file: whole,
        form,
        runs,
    }
}

/// Returns the hand-written targets.
fn own() -> Vec<Target> {
    vec![
        Target {
            name: "ztensor2_resealed",
            run: Run::Own(ztensor2_resealed::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor2", "corpus/reject/ztensor2"]),
            seeds_of_file: whole,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "tensorflow_with_data",
            run: Run::Own(tensorflow_with_data::run),
            seeds: Cow::Borrowed(&[CHECKPOINTS, "corpus/reject/tensorflow"]),
            seeds_of_file: whole,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "checkpoint",
            run: Run::Own(checkpoint::run),
            seeds: Cow::Borrowed(&[
                "crates/holdall/tests/checkpoint",
                "crates/holdall/tests/checkpoint/ranks",
            ]),
            seeds_of_file: whole,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "tar",
            run: Run::Own(tar::run),
            seeds: Cow::Borrowed(&["fuzz/seeds/tar"]),
            seeds_of_file: whole,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "pickle",
            run: Run::Own(pickle::run),
            seeds: Cow::Borrowed(&["corpus/accept/pytorch", "corpus/reject/pytorch"]),
            seeds_of_file: pickle::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "zip",
            run: Run::Own(zip::run),
            seeds: Cow::Borrowed(PACKAGES),
            seeds_of_file: whole,
            form: Form::File,
            runs: 100_000,
        },
        Target {
            name: "carton_texts",
            run: Run::Own(carton_texts::run),
            seeds: Cow::Borrowed(PACKAGES),
            seeds_of_file: carton_texts::seeds,
            form: Form::Bytes,
            runs: 25_000,
        },
        Target {
            name: "runner_frames",
            run: Run::Own(runner_frames::run),
            seeds: Cow::Borrowed(&["corpus/accept/carton", "corpus/accept/safetensors"]),
            seeds_of_file: runner_frames::seeds,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "stream_frames",
            run: Run::Own(stream_frames::run),
            seeds: Cow::Borrowed(&["fuzz/seeds/http"]),
            seeds_of_file: stream_frames::seeds,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "http_texts",
            run: Run::Own(http_texts::run),
            seeds: Cow::Borrowed(&["fuzz/seeds/http"]),
            seeds_of_file: http_texts::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "assembly",
            run: Run::Own(assembly::run),
            seeds: Cow::Borrowed(FILES),
            seeds_of_file: whole,
            form: Form::File,
            runs: 25_000,
        },
        Target {
            name: "windowed",
            run: Run::Own(windowed::run),
            seeds: Cow::Borrowed(FILES),
            seeds_of_file: whole,
            form: Form::File,
            runs: 50_000,
        },
        Target {
            name: "cbor",
            run: Run::Own(cbor::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/reject/ztensor"]),
            seeds_of_file: cbor::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "json",
            run: Run::Own(json::run),
            seeds: Cow::Borrowed(FILES),
            seeds_of_file: json::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "npy",
            run: Run::Own(npy::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/accept/safetensors"]),
            seeds_of_file: npy::seeds,
            form: Form::Bytes,
            runs: 250_000,
        },
        Target {
            name: "zstd_seekable",
            run: Run::Own(zstd_seekable::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor"]),
            seeds_of_file: zstd_seekable::seeds,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "decode_delta",
            run: Run::Own(decode_delta::run),
            seeds: Cow::Borrowed(UPDATES),
            seeds_of_file: decode_delta::seeds,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "apply_delta",
            run: Run::Own(apply_delta::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/reject/ztensor"]),
            seeds_of_file: apply_delta::seeds,
            form: Form::Pair,
            runs: 5_000,
        },
        Target {
            name: "views_dense",
            run: Run::Own(views_dense::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/accept/safetensors"]),
            seeds_of_file: views_dense::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "views_sparse",
            run: Run::Own(views_sparse::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/reject/ztensor"]),
            seeds_of_file: views_sparse::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "views_quantized",
            run: Run::Own(views_quantized::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor", "corpus/reject/ztensor"]),
            seeds_of_file: views_quantized::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "views_described",
            run: Run::Own(views_described::run),
            seeds: Cow::Borrowed(&["fuzz/seeds/layouts"]),
            seeds_of_file: views_described::seeds,
            form: Form::Bytes,
            runs: 100_000,
        },
        Target {
            name: "schema_layout",
            run: Run::Own(schema_layout::run),
            seeds: Cow::Borrowed(VECTORS),
            seeds_of_file: schema_layout::seeds,
            form: Form::Bytes,
            runs: 25_000,
        },
        Target {
            name: "records",
            run: Run::Own(records::run),
            seeds: Cow::Borrowed(VECTORS),
            seeds_of_file: records::seeds,
            form: Form::Bytes,
            runs: 50_000,
        },
        Target {
            name: "schema_evolution",
            run: Run::Own(schema_evolution::run),
            seeds: Cow::Borrowed(VECTORS),
            seeds_of_file: schema_evolution::seeds,
            form: Form::Bytes,
            runs: 10_000,
        },
        Target {
            name: COLUMNS,
            run: Run::Own(columns::run),
            seeds: Cow::Borrowed(&["fuzz/seeds/columns"]),
            seeds_of_file: whole,
            form: Form::Bytes,
            runs: 5_000,
        },
        Target {
            name: "roundtrip",
            run: Run::Own(roundtrip::run),
            seeds: Cow::Borrowed(&["corpus/accept/ztensor"]),
            seeds_of_file: roundtrip::seeds,
            form: Form::Bytes,
            runs: 10_000,
        },
        Target {
            name: "metatensor",
            run: Run::Own(metatensor::run),
            seeds: Cow::Borrowed(&["corpus/accept/metatensor", "corpus/reject/metatensor"]),
            seeds_of_file: metatensor::seeds,
            form: Form::Bytes,
            runs: 25_000,
        },
        Target {
            name: "file",
            run: Run::Own(file::run),
            seeds: Cow::Borrowed(FILES),
            seeds_of_file: whole,
            form: Form::File,
            runs: 10_000,
        },
        Target {
            name: "diff",
            run: Run::Own(diff::run),
            seeds: Cow::Borrowed(&[
                "corpus/accept/ztensor",
                "corpus/accept/safetensors",
                "corpus/accept/metatensor",
            ]),
            seeds_of_file: diff::seeds,
            form: Form::Pair,
            runs: 10_000,
        },
    ]
}

/// The target that requires the feature `parquet`.
const COLUMNS: &str = "columns";

/// Indexes of TensorFlow checkpoints, which are not in the corpus because their data is in other files.
const CHECKPOINTS: &str = "crates/holdall/tests/tensorflow";

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

/// The folders of weight updates.
const UPDATES: &[&str] = &[
    "corpus/updates/steps/v1/deltas",
    "corpus/updates/steps/v2-gap_delta/deltas",
    "corpus/updates/steps/v2-raw/deltas",
    "corpus/updates/steps/bad",
    "corpus/updates/versions/updates/weight_v000001",
    "corpus/updates/versions/updates/weight_v000002",
    "corpus/updates/versions/updates/weight_v000003",
    "corpus/updates/versions/bad/far-position/weight_v000003",
];

const VECTORS: &[&str] = &["corpus/vectors/metatensor"];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// Prepares a libFuzzer process for a target: panics that the target catches must not end the process before.
pub fn prepare(name: &str) {
    if name == COLUMNS {
        drop(std::panic::take_hook());
    }
}

/// Tries one input of the target with this name.
///
/// # Panics
/// Panics if the property does not hold, or if there is no such target.
pub fn run(name: &str, data: &[u8]) {
    target(name).unwrap_or_else(|| panic!("there is no target `{name}`")).run(data);
}

/// Returns a file of the corpus unchanged, unless it only describes another file.
fn whole(file: &[u8]) -> Vec<Vec<u8>> {
    if is_description(file) { Vec::new() } else { vec![file.to_vec()] }
}

/// Returns `true` if a file of the corpus describes the contents of another one.
fn is_description(file: &[u8]) -> bool {
    file.starts_with(b"{")
}

/// Opens a file of the corpus, if it can be opened.
fn open(file: &[u8]) -> Option<holdall::File> {
    holdall::OpenOptions::new().open_bytes(file.to_vec(), "a seed").ok()
}
