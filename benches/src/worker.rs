//! One run of one contestant, in its own process.

use crate::args::{Args, WorkerRun};
use crate::files::Workload;
use crate::rows;
use crate::workload::Check;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The context of a run of a contestant.
pub struct Context {
    dir: PathBuf,
    /// 0 for the warm-up.
    pub round: usize,
}

impl Context {
    pub fn path(&self, file: Workload) -> PathBuf {
        file.path(&self.dir)
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// Returns a check of the delivered bytes: of every byte in the warm-up, of the ends of tensors afterwards.
    pub fn check(&self) -> Check {
        Check::new(self.round == 0)
    }

    /// Returns an output path where no file exists.
    pub fn output(&self) -> Result<Output> {
        self.output_with("zt")
    }

    /// Returns an output path with an extension, where no file exists.
    pub fn output_with(&self, extension: &str) -> Result<Output> {
        Output::new(self.dir.join("output").with_extension(extension))
    }
}

/// A file that a contestant writes, deleted when dropped.
pub struct Output(PathBuf);

impl Output {
    /// Removes the file at `path`.
    pub fn new(path: PathBuf) -> Result<Output> {
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        Ok(Output(path))
    }
}

impl AsRef<Path> for Output {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the contestant and prints the results as one JSON object.
pub fn run(run: &WorkerRun, args: &Args) -> Result<()> {
    let comparison = rows::named(&run.comparison)?;
    let contestant = comparison
        .contestants
        .iter()
        .find(|c| c.name == run.contestant)
        .with_context(|| format!("no contestant `{}`", run.contestant))?;
    let context = Context { dir: args.dir.clone(), round: run.round };
    let outcome = (contestant.run)(&context)?;
    println!(
        "{}",
        json!({
            "nanos": outcome.nanos, "cpu_nanos": outcome.cpu_nanos, "check": outcome.check,
            "written": outcome.written,
        })
    );
    Ok(())
}
