//! The corpus: files that are accepted, each with what `inspect` says of it, and files that are refused,
//! each named after the code it is refused with (`index.bounds.offset-0-1.2.zt` breaks `index/bounds`).
//!
//! What stands in `corpus/reject`, and in `corpus/accept` under a name that starts with `made-`, comes from
//! the tables here and is the same every time. Other accepted files were written by the programs they
//! are named after (see `interop/`) and are kept as they came.

mod bounds;
mod content;
mod sound;
mod written;
mod zt;

use crate::command::{Outcome, cargo, root};
use std::collections::BTreeSet;
use std::path::Path;

/// A file of the corpus.
pub(crate) struct Made {
    /// Below `corpus/`.
    path: String,
    bytes: Vec<u8>,
}

impl Made {
    pub(crate) fn new(path: String, bytes: Vec<u8>) -> Made {
        Made { path, bytes }
    }
}

/// `cargo xtask corpus [--make]`.
pub(crate) fn corpus(args: &[String]) -> Outcome {
    match args {
        [] => {}
        [one] if one == "--make" => make()?,
        _ => return Err("the only option is --make".into()),
    }
    cargo(["test", "--package", "xtask", "corpus"]).run()?;
    let packages = ["--package", "holdall", "--package", "holdall-cli"];
    cargo(["test"]).args(packages).args(["--test", "corpus*"]).run()
}

/// `cargo xtask bless`: writes what `inspect` says of every accepted file beside it.
pub(crate) fn bless(_args: &[String]) -> Outcome {
    cargo(["test", "--package", "holdall-cli", "--test", "corpus"]).env("HOLDALL_BLESS", "1").run()
}

/// Writes every file that comes from a table, and removes those that no longer do.
fn make() -> Outcome {
    let io = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let corpus = root().join("corpus");
    for stray in strays(&corpus) {
        let path = corpus.join(stray);
        std::fs::remove_file(&path).map_err(|e| io(&path, e))?;
    }
    for made in all() {
        let path = corpus.join(&made.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
        }
        std::fs::write(&path, &made.bytes).map_err(|e| io(&path, e))?;
    }
    Ok(())
}

/// Every file that comes from a table.
fn all() -> Vec<Made> {
    let of_rules = crate::ztensor_files::rejects::rejects().into_iter();
    let mut all: Vec<Made> = of_rules
        .map(|(name, bytes)| Made::new(format!("reject/ztensor/{name}.zt"), bytes))
        .collect();
    let of_ztensor2 = crate::ztensor2_files::rejects().into_iter();
    all.extend(
        of_ztensor2.map(|(name, bytes)| Made::new(format!("reject/ztensor2/{name}.zt"), bytes)),
    );
    let of_pytorch = crate::pytorch_files::rejects().into_iter();
    all.extend(
        of_pytorch.map(|(name, bytes)| Made::new(format!("reject/pytorch/{name}.pt"), bytes)),
    );
    let of_numpy = crate::numpy_files::rejects().into_iter();
    all.extend(of_numpy.map(|(name, bytes)| Made::new(format!("reject/numpy/{name}"), bytes)));
    let of_onnx = crate::onnx_files::rejects().into_iter();
    all.extend(of_onnx.map(|(name, bytes)| Made::new(format!("reject/onnx/{name}.onnx"), bytes)));
    let of_flax = crate::flax_files::rejects().into_iter();
    all.extend(
        of_flax.map(|(name, bytes)| Made::new(format!("reject/flax/{name}.msgpack"), bytes)),
    );
    let of_tflite = crate::tflite_files::rejects().into_iter();
    all.extend(
        of_tflite.map(|(name, bytes)| Made::new(format!("reject/tflite/{name}.tflite"), bytes)),
    );
    for (name, bytes) in [
        ("everything", crate::tflite_files::everything()),
        ("outside", crate::tflite_files::outside()),
    ] {
        all.push(Made::new(format!("accept/tflite/made-{name}.tflite"), bytes));
    }
    let of_tensorflow = crate::tensorflow_files::rejects().into_iter();
    all.extend(
        of_tensorflow
            .map(|(name, bytes)| Made::new(format!("reject/tensorflow/{name}.index"), bytes)),
    );
    let of_gguf = crate::gguf_files::rejects().into_iter();
    all.extend(of_gguf.map(|(name, bytes)| Made::new(format!("reject/gguf/{name}.gguf"), bytes)));
    let of_hdf5 = crate::hdf5_files::rejects().into_iter();
    all.extend(of_hdf5.map(|(name, bytes)| {
        let extension = if name.starts_with("hdf5.compressed") { "keras" } else { "h5" };
        Made::new(format!("reject/hdf5/{name}.{extension}"), bytes)
    }));
    all.extend(
        crate::metatensor_files::rejects::rejects()
            .into_iter()
            .map(|reject| Made::new(format!("reject/metatensor/{}.mt", reject.name), reject.bytes)),
    );
    all.extend(
        crate::metatensor_files::accepts::accepts()
            .into_iter()
            .map(|(name, bytes)| Made::new(format!("accept/metatensor/made-{name}.mt"), bytes)),
    );
    all.extend(crate::safetensors_files::rejects().into_iter().map(|reject| {
        let path = format!("reject/safetensors/{}.safetensors", reject.name);
        Made::new(path, reject.bytes)
    }));
    all.extend(crate::carton_files::rejects::rejects().into_iter().map(|reject| {
        let path = format!("reject/carton/{}.carton", reject.name);
        Made::new(path, reject.bytes)
    }));
    all.extend(
        crate::carton_files::accepts::accepts()
            .into_iter()
            .map(|(name, bytes)| Made::new(format!("accept/carton/made-{name}.carton"), bytes)),
    );
    all.extend(bounds::rejects());
    all.extend(content::rejects());
    all.extend(sound::accepts());
    all.extend(written::accepts());
    all
}

/// Files that are in the corpus as if they came from a table, but do not.
fn strays(corpus: &Path) -> Vec<String> {
    let made: BTreeSet<String> = all().into_iter().map(|m| m.path).collect();
    let mut strays = Vec::new();
    for kind in ["accept", "reject"] {
        for folder in corpus.join(kind).read_dir().into_iter().flatten().flatten() {
            for entry in folder.path().read_dir().into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{kind}/{}/{name}", folder.file_name().to_string_lossy());
                let is_ours = kind == "reject" || name.starts_with("made-");
                if is_ours && !made.contains(path.trim_end_matches(".json")) {
                    strays.push(path);
                }
            }
        }
    }
    strays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_holds_what_the_tables_say() {
        let corpus = root().join("corpus");
        let mut paths = BTreeSet::new();
        let remedy = "`cargo xtask corpus --make` writes it";
        for Made { path, bytes } in all() {
            let found = std::fs::read(corpus.join(&path));
            assert!(found.is_ok_and(|found| found == bytes), "{path} is another: {remedy}");
            assert!(bytes.len() <= 64 << 10, "{path} is not small");
            assert!(paths.insert(path.clone()), "{path} comes twice");
        }
        assert_eq!(strays(&corpus), [""; 0], "no table has these: {remedy}");
    }
}
