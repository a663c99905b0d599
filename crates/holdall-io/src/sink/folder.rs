//! A folder that appears completely or not at all.
//!
//! It is filled under a temporary name next to the target, `.holdall-XXXXXX.part`, and gets its own name in one step.
//! It is locked while it is being filled; writing a file or a folder there removes temporary ones that are not locked.

use super::Durability;
use super::unpublished::{PREFIX, RANDOM, SUFFIX, folder, sweep, sync_folder, system};
use crate::error::{IN_USE, IO, NAME, io};
use crate::platform::{self, HeldFolder};
use crate::temporary::{self, Temporary};
use holdall_core::{Error, Result, Rule};
use std::fs::{File, Permissions};
use std::io;
use std::path::{Path, PathBuf};

/// A folder under construction. Dropping it before [`FolderSink::finish`] removes all traces of it.
pub struct FolderSink {
    target: PathBuf,
    /// The rule that is violated if the folder cannot be created at its target.
    exists_rule: &'static Rule,
    overwrite: bool,
    part: Temporary,
    /// The lock, held while the folder is being filled.
    lock: Option<File>,
    /// The default mode of a new folder. (Temporary folders are only accessible to their owner.)
    mode: Option<Permissions>,
}

impl FolderSink {
    /// Starts a folder that will be at `target`.
    ///
    /// # Errors
    /// Returns `exists_rule` if the target exists and `overwrite` is not set, or if it is not a folder; an `Io` error if its parent folder
    /// cannot be written.
    pub fn create(
        target: &Path,
        overwrite: bool,
        exists_rule: &'static Rule,
    ) -> Result<FolderSink> {
        super::check_local(target)?;
        FolderSink::check(target, overwrite, exists_rule)?;
        let parent = folder(target);
        sweep(parent);
        let part = loop {
            let part = builder().tempdir_in(parent).map_err(|e| failed(system(e), target))?;
            // Between creation and lock, another process may have removed it as stale.
            match platform::hold_folder(part.path()) {
                HeldFolder::Held(lock) => break (part, lock),
                HeldFolder::Gone => {}
            }
        };
        let (part, lock) = part;
        let part = Temporary::new(part);
        let mode = platform::default_folder_access(part.path()).map_err(|e| failed(e, target))?;
        Ok(FolderSink { target: target.to_owned(), exists_rule, overwrite, part, lock, mode })
    }

    /// Returns the path of the folder to fill.
    pub fn path(&self) -> &Path {
        self.part.path()
    }

    /// Gives the folder its name, in one step if the system supports that. `durability` applies to the name; the files
    /// in the folder are as durable as their writer made them.
    ///
    /// # Errors
    /// Returns `exists_rule` if the target was created meanwhile; an `Io` error.
    pub fn finish(self, durability: Durability) -> Result<()> {
        let failed = |e: io::Error| {
            let e = match platform::is_in_use(&e) {
                true => IN_USE.broken("a file in the folder is open elsewhere").with_cause(e),
                false => io(e, "publishing"),
            };
            e.in_source(self.target.display())
        };
        if let Some(mode) = self.mode {
            std::fs::set_permissions(self.part.path(), mode).map_err(failed)?;
        }
        {
            // From here on the folder must not be removed as a temporary one.
            let _held = temporary::all();
            if self.target.symlink_metadata().is_err() {
                platform::rename_over(self.part.path(), &self.target).map_err(failed)?;
            } else if !self.overwrite {
                return Err(exists(&self.target, self.exists_rule));
            } else {
                replace(self.part.path(), &self.target).map_err(failed)?;
            }
        }
        if durability == Durability::Disk {
            sync_folder(&self.target).map_err(failed)?;
        }
        drop(self.lock);
        // If another folder was replaced, it now has the temporary name, and is removed.
        drop(self.part);
        Ok(())
    }

    /// Checks that a folder can be created at `target`, as far as that can be known without creating it.
    ///
    /// # Errors
    /// Returns the same errors as [`FolderSink::create`].
    pub fn check(target: &Path, overwrite: bool, exists_rule: &'static Rule) -> Result<()> {
        if let Some(why) = platform::invalid_name(target) {
            return Err(NAME.broken(why).in_source(target.display()));
        }
        match target.symlink_metadata() {
            Err(_) => match target.file_name() {
                Some(_) => Ok(()),
                None => Err(exists_rule
                    .broken("this path cannot be that of a new folder")
                    .in_source(target.display())),
            },
            Ok(_) if !overwrite => Err(exists(target, exists_rule)),
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => {
                let e =
                    exists_rule.broken("the target is a file, which is not replaced by a folder");
                let e = e.with_hint("choose another path, or remove the file first");
                Err(e.in_source(target.display()))
            }
        }
    }
}

#[cold]
fn exists(target: &Path, exists_rule: &'static Rule) -> Error {
    exists_rule.broken("the target exists already").in_source(target.display())
}

#[cold]
fn failed(e: io::Error, target: &Path) -> Error {
    let parent = folder(target);
    let e = match parent.metadata() {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => IO
            .broken(format!("the folder `{}` does not exist", parent.display()))
            .with_hint("create the folder first")
            .with_cause(missing),
        _ => io(e, "creating"),
    };
    e.in_source(target.display())
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM);
    builder
}

/// Exchanges the folders `part` and `target`.
fn replace(part: &Path, target: &Path) -> io::Result<()> {
    if platform::exchange(part, target) {
        return Ok(());
    }
    // File systems that cannot exchange: for an instant there is no folder. If the process is killed then, the old
    // folder stays, under a name that is never removed automatically.
    let old = builder().suffix(".old").tempdir_in(folder(target))?;
    let kept = old.path().join("old");
    platform::rename_over(target, &kept)?;
    let replaced = platform::rename_over(part, target);
    if replaced.is_err() && std::fs::rename(&kept, target).is_err() {
        let _ = old.keep();
    }
    replaced
}
