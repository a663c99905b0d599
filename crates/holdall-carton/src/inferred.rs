//! What a model's file says of itself, as the description of a package.

use super::Description;
use super::onnx::{self, Declared};
use holdall_core::Result;
use holdall_io::error::io;
use std::path::{Path, PathBuf};

/// What a model's file says of itself.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Inferred {
    /// As far as the file tells: of ONNX all that must be said, of other files nothing.
    pub description: Description,
    /// An input or output that no package can declare, and why. Then none are declared.
    pub undeclared: Option<(String, String)>,
}

impl Inferred {
    /// What is known already.
    pub(crate) fn from_description(description: &Description) -> Inferred {
        Inferred { description: description.clone(), undeclared: None }
    }

    /// Looks into the folder at `path` with the files of a model for that runner, or with a folder `model` that has
    /// them.
    ///
    /// # Errors
    /// Io, and what is wrong with the model's file.
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

    /// Looks into the file at `path`, where its extension is that of a format which tells something.
    ///
    /// # Errors
    /// Io, and what is wrong with the file.
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
        // Release 1.N of the standard brought operators of version N + 5.
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

/// The graph of an ONNX model in a folder: `model.onnx`, else every file with that extension, of which one alone is the
/// graph.
///
/// # Errors
/// Io.
pub fn onnx_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let usual = folder.join("model.onnx");
    if usual.is_file() {
        return Ok(vec![usual]);
    }
    let read = folder.read_dir().map_err(|e| io(e, "listing").in_source(folder.display()))?;
    let paths = read.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "onnx")).collect())
}
