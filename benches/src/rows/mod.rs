//! The comparisons: who does what, and who must stand where.

mod build;
mod convert;
mod formats;
pub mod gguf;
pub mod gpu;
mod header;
mod load;
mod open;
mod packages;
pub mod records;
mod remote;
pub mod save;
pub mod slice;
pub mod texts;
pub mod touch;
mod verify;
mod zstd;

use crate::files::Workload;
use crate::timing::Outcome;
use crate::worker::Context;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::sync::LazyLock;

/// What stands in the way of those who read into fresh memory much faster than a package of Python.
const FRESH: &str = "Most of the time is the kernel clearing fresh pages: `pread` is the barest read of the same bytes into such memory.";

/// Contestants that do the same work, and goals about them.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub name: &'static str,
    /// What is done, in a sentence.
    pub what: &'static str,
    pub cache: Cache,
    /// Whether it goes over all bytes, so that those of the first file over the time are its speed.
    pub rate: bool,
    /// The files it reads.
    pub files: &'static [Workload],
    pub contestants: &'static [Contestant],
    pub goals: &'static [Goal],
}

/// Whether the files are in the page cache when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// They are put there.
    Warm,
    /// A contestant puts the file out of it right before its clock starts.
    Cold,
    /// Left as it is.
    AsFound,
}

#[derive(Debug, Clone, Copy)]
pub struct Contestant {
    pub name: &'static str,
    pub kind: Kind,
    /// Does the work once, or often and takes the median.
    pub run: fn(&Context) -> Result<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Floor,
    Peer,
}

/// What one of our contestants must reach.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    pub ours: &'static str,
    pub target: Target,
    /// What stands in the way; shown when the goal is missed. Written by hand after profiling.
    pub note: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Our median time over the least median of these is at most that.
    TimeAtMost(f64, &'static [&'static str]),
    /// Our median time passes the least median of these by at most so many nanoseconds.
    BeyondAtMost(u64, &'static [&'static str]),
    /// The least median of these over our median time is at least that.
    SpeedAtLeast(f64, &'static [&'static str]),
    /// Peak anonymous memory of the process is at most so many bytes.
    MemoryAtMost(u64),
    /// Peak anonymous memory of the process is at most so many times the size of the file, which is
    /// mostly its table of contents.
    MemoryAtMostFile(f64, Workload),
    /// Peak anonymous memory of the process is at most so many times that of another.
    MemoryAtMostOf(f64, &'static str),
    /// Peak anonymous memory of the process passes that of another by at most so many bytes.
    MemoryBeyondAtMost(u64, &'static str),
    /// The first file is at most so many times as long as the second with so many bytes more.
    SizeAtMost(f64, Workload, Workload, u64),
    /// Bytes written over processor time in seconds are at least that.
    OutputAtLeast(u64),
    /// Processor time over wall time and cores is at least that.
    BusyAtLeast(f64),
}

const fn ours(name: &'static str, run: fn(&Context) -> Result<Outcome>) -> Contestant {
    Contestant { name, kind: Kind::Ours, run }
}

const fn floor(name: &'static str, run: fn(&Context) -> Result<Outcome>) -> Contestant {
    Contestant { name, kind: Kind::Floor, run }
}

const fn peer(name: &'static str, run: fn(&Context) -> Result<Outcome>) -> Contestant {
    Contestant { name, kind: Kind::Peer, run }
}

/// All of them, in the order of the report.
pub fn all() -> Vec<Comparison> {
    [
        open::COMPARISONS,
        load::COMPARISONS,
        touch::COMPARISONS,
        slice::COMPARISONS,
        zstd::COMPARISONS,
        verify::COMPARISONS,
        save::COMPARISONS,
        convert::COMPARISONS,
        gguf::COMPARISONS,
        formats::COMPARISONS,
        header::COMPARISONS,
        records::COMPARISONS,
        texts::COMPARISONS,
        build::COMPARISONS,
        packages::COMPARISONS,
        gpu::COMPARISONS,
        remote::COMPARISONS,
    ]
    .concat()
}

/// The comparison of that name.
pub fn named(name: &str) -> Result<Comparison> {
    all()
        .into_iter()
        .find(|c| c.name == name)
        .with_context(|| format!("no comparison `{name}`; --list names them"))
}

/// Those named, or all.
pub fn chosen(names: &[String]) -> Result<Vec<Comparison>> {
    if names.is_empty() {
        return Ok(all());
    }
    names.iter().map(|n| named(n)).collect()
}

/// Those that can be made here; of the others it is told why not.
pub fn possible(mut comparisons: Vec<Comparison>, folder: &Path) -> Vec<Comparison> {
    let has_device = LazyLock::new(gpu::is_possible);
    comparisons.retain(|c| {
        let missing = match c.name.starts_with("gpu-") && !*has_device {
            true => Some("wgpu finds no adapter".to_owned()),
            false => formats::missing(c, folder),
        };
        if let Some(why) = &missing {
            eprintln!("skipped: {}, for {why}", c.name);
        }
        missing.is_none()
    });
    comparisons
}
