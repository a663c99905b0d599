//! The temporary folder of a loaded model.

use crate::rules::io;
use holdall::Result;
use holdall_io::temporary::{Temporary, set_read_only};
use std::path::{Path, PathBuf};

/// A temporary folder that contains the folder `model`. Deleted when it is dropped.
pub(crate) struct Folder(Temporary);

impl Folder {
    pub(crate) fn new() -> Result<Folder> {
        let made = tempfile::Builder::new().prefix("holdall-model-").tempdir();
        made.map(|dir| Folder(Temporary::new(dir)))
            .map_err(|e| io(e, "creating a folder for the model"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.0.path().join("model")
    }

    /// Makes all files in `model` read-only.
    pub(crate) fn protect(&self) -> Result<()> {
        let model = self.model();
        if !model.exists() {
            // The package has no file in `model`.
            std::fs::create_dir(&model).map_err(|e| io(e, "creating the model's folder"))?;
        }
        set_read_only(&model, true).map_err(|e| io(e, "protecting the model's files"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Read-only folders cannot be deleted.
        let _ = set_read_only(&self.model(), false);
    }
}
