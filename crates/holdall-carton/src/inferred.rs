//! Infers the description of a package from a model's file.

use super::Description;
use super::onnx::{self, Declared};
use holdall_core::Result;
use holdall_io::error::io;
use std::path::{Path, PathBuf};

/// The information in a model's file.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Inferred {
    /// The description, as far as the file has it: complete for ONNX, empty for other formats.
    pub description: Description,
    /// An input or output that a package cannot declare, and the reason. No inputs and outputs are declared
    /// then.
    pub undeclared: Option<(String, String)>,
}

impl Inferred {
    /// Creates the result for a known description.
    pub(crate) fn from_description(description: &Description) -> Inferred {
        Inferred { description: description.clone(), undeclared: None }
    }

    /// Reads the model in the folder at `path` for the given runner. The files are directly in the folder, or
    /// in its folder `model`.
    ///
    /// # Errors
    /// Returns an `Io` error; errors of the model's file.
    pub fn from_folder(path: impl AsRef<Path>, runner: &str) -> Result<Inferred> {
        let path = path.as_ref();
        if runner != "onnx" {
            return Ok(Inferred::default());
        }
        let model = path.join("model");
        match onnx_files(if model.is_dir() { &model } else { path })?.as_slice() {
            [only] => Inferred::from_file(only),
            _ => Ok(Inferred::default()),
        }
    }

    /// Reads the file at `path`, if its extension is that of a supported format.
    ///
    /// # Errors
    /// Returns an `Io` error; errors of the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Inferred> {
        let path = path.as_ref();
        let mut out = Inferred::default();
        if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx")) {
            return Ok(out);
        }
        let bytes = super::mapped(path)?;
        let found = onnx::signature(&bytes).map_err(|e| e.in_source(path.display()))?;
        let d = &mut out.description;
        d.model_name = found.name;
        d.runner.name = "onnx".into();
        // Release 1.N of the standard introduced operator set N + 5.
        if let Some(minor) = found.opset.checked_sub(5).filter(|minor| *minor >= 2) {
            d.runner.framework_version = format!(">=1.{minor}, <2");
        }
        for (all, to) in [(found.inputs, &mut d.inputs), (found.outputs, &mut d.outputs)] {
            for value in all {
                match value {
                    Declared::Tensor(spec) => to.push(spec),
                    Declared::Other(name, why) => {
                        out.undeclared.get_or_insert((name, why));
                    }
                }
            }
        }
        if out.undeclared.is_some() {
            (d.inputs, d.outputs) = (Vec::new(), Vec::new());
        }
        Ok(out)
    }
}

/// Returns the ONNX files in a folder: `model.onnx` if it exists, otherwise every file with that extension.
/// The graph is known only if there is exactly one.
///
/// # Errors
/// Returns an `Io` error.
pub fn onnx_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let usual = folder.join("model.onnx");
    if usual.is_file() {
        return Ok(vec![usual]);
    }
    let read = folder.read_dir().map_err(|e| io(e, "listing").in_source(folder.display()))?;
    let paths = read.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "onnx")).collect())
}
