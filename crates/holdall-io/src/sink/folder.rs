//! A folder that appears whole or not at all.
//!
//! It is filled under a temporary name beside the target, `.holdall-XXXXXX.part`, and gets its own in one
//! step. As long as somebody fills it, it is locked; writing a file or a folder there removes what
//! nobody has locked.

use super::Durability;
use super::unpublished::{PREFIX, RANDOM, SUFFIX, folder, sweep, sync_folder, system};
use crate::error::{IO, io};
use crate::temporary::{self, Temporary};
use holdall_core::{Error, Result, Rule};
use std::fs::{File, Permissions};
use std::io;
use std::path::{Path, PathBuf};

/// A folder under construction. Dropped before [`FolderSink::finish`], it leaves nothing behind.
pub struct FolderSink {
    target: PathBuf,
    /// What is broken where the folder cannot be there.
    place: &'static Rule,
    overwrite: bool,
    part: Temporary,
    /// Held as long as the folder is filled.
    lock: Option<File>,
    /// What a new folder's mode is: temporary ones are their owner's alone.
    mode: Option<Permissions>,
}

impl FolderSink {
    /// Begins a folder that will be at `target`.
    ///
    /// # Errors
    /// `place` when there is something and `overwrite` is not set, or it is not a folder; Io when its own
    /// folder cannot be written.
    pub fn create(target: &Path, overwrite: bool, place: &'static Rule) -> Result<FolderSink> {
        super::check_local(target)?;
        FolderSink::check(target, overwrite, place)?;
        let beside = folder(target);
        sweep(beside);
        let part = loop {
            let part = builder().tempdir_in(beside).map_err(|e| failed(system(e), target))?;
            // Between its creation and its lock another process may have taken it for a stale one.
            match hold(part.path()) {
                Held::Yes(lock) => break (part, lock),
                Held::Gone => {}
            }
        };
        let (part, lock) = part;
        let part = Temporary::new(part);
        let mode = usual_mode(part.path()).map_err(|e| failed(e, target))?;
        Ok(FolderSink { target: target.to_owned(), place, overwrite, part, lock, mode })
    }

    /// The folder to be filled.
    pub fn path(&self) -> &Path {
        self.part.path()
    }

    /// Gives the folder its name, in one step where the system can. The files in it are as durable as whoever wrote
    /// them made them; the name is as this says.
    ///
    /// # Errors
    /// `place` when there is something by now; Io.
    pub fn finish(self, durability: Durability) -> Result<()> {
        let failed = |e| io(e, "publishing").in_source(self.target.display());
        if let Some(mode) = self.mode {
            std::fs::set_permissions(self.part.path(), mode).map_err(failed)?;
        }
        {
            // The published folder must not be removed any more.
            let _held = temporary::all();
            if self.target.symlink_metadata().is_err() {
                std::fs::rename(self.part.path(), &self.target).map_err(failed)?;
            } else if !self.overwrite {
                return Err(exists(&self.target, self.place));
            } else {
                replace(self.part.path(), &self.target).map_err(failed)?;
            }
        }
        if durability == Durability::Disk {
            sync_folder(&self.target).map_err(failed)?;
        }
        drop(self.lock);
        // Where another folder was replaced, it has the temporary name now, and goes.
        drop(self.part);
        Ok(())
    }

    /// Whether a folder can be begun that will be at `target`, as far as that shows before it is.
    ///
    /// # Errors
    /// As [`FolderSink::create`].
    pub fn check(target: &Path, overwrite: bool, place: &'static Rule) -> Result<()> {
        match target.symlink_metadata() {
            Err(_) => match target.file_name() {
                Some(_) => Ok(()),
                None => Err(place.broken("this names no new folder").in_source(target.display())),
            },
            Ok(_) if !overwrite => Err(exists(target, place)),
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => {
                let e = place.broken("this is not a folder, and is not replaced by one");
                let e = e.with_hint("name another folder, or remove what is in its place first");
                Err(e.in_source(target.display()))
            }
        }
    }
}

#[cold]
fn exists(target: &Path, place: &'static Rule) -> Error {
    place.broken("this exists already").in_source(target.display())
}

#[cold]
fn failed(e: io::Error, target: &Path) -> Error {
    let beside = folder(target);
    let e = match beside.metadata() {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => IO
            .broken(format!("the folder `{}` does not exist", beside.display()))
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

enum Held {
    /// With the lock, where there are locks.
    Yes(Option<File>),
    Gone,
}

#[cfg(unix)]
fn hold(part: &Path) -> Held {
    use std::fs::TryLockError;
    let Ok(file) = File::open(part) else { return Held::Gone };
    match file.try_lock() {
        Ok(()) if part.exists() => Held::Yes(Some(file)),
        Ok(()) | Err(TryLockError::WouldBlock) => Held::Gone,
        // Without locks nothing is swept.
        Err(TryLockError::Error(_)) => Held::Yes(None),
    }
}

#[cfg(not(unix))]
fn hold(_: &Path) -> Held {
    Held::Yes(None)
}

/// The mode that a new folder has. Found in `part` while nothing else is in it.
#[cfg(unix)]
fn usual_mode(part: &Path) -> io::Result<Option<Permissions>> {
    let probe = part.join("mode");
    std::fs::create_dir(&probe)?;
    let mode = probe.metadata()?.permissions();
    std::fs::remove_dir(&probe)?;
    Ok(Some(mode))
}

#[cfg(not(unix))]
fn usual_mode(_: &Path) -> io::Result<Option<Permissions>> {
    Ok(None)
}

/// Puts the folder `part` in the place of `target`, and what was there in its own.
fn replace(part: &Path, target: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, part, CWD, target, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    // File systems that cannot exchange: for an instant there is nothing. Killed in it, the old folder stays, under
    // a name that nobody sweeps.
    let old = builder().suffix(".old").tempdir_in(folder(target))?;
    let kept = old.path().join("old");
    std::fs::rename(target, &kept)?;
    let replaced = std::fs::rename(part, target);
    if replaced.is_err() && std::fs::rename(&kept, target).is_err() {
        let _ = old.keep();
    }
    replaced
}
