//! The comparisons: the contestants, and their goals.

mod build;
mod convert;
mod deltas;
mod formats;
pub mod gguf;
pub mod gpu;
mod header;
mod load;
mod open;
mod packages;
mod planes;
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

/// The note for goals compared with a Python package, if Holdall is limited by fresh memory.
const FRESH: &str = "Most of the time is the kernel clearing fresh pages: `pread` is the simplest read of the same bytes into such memory.";

/// Contestants that do the same work, and goals for them.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub name: &'static str,
    /// A sentence that describes the work.
    pub what: &'static str,
    pub cache: Cache,
    /// Whether the work reads all bytes, so that the length of the first file divided by the time is its speed.
    pub rate: bool,
    /// The files that it reads.
    pub files: &'static [Workload],
    pub contestants: &'static [Contestant],
    pub goals: &'static [Goal],
}

/// Whether the files are in the page cache when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// The files are put there.
    Warm,
    /// A contestant removes the file from the page cache right before its clock starts.
    Cold,
    /// The page cache is not changed.
    AsFound,
}

#[derive(Debug, Clone, Copy)]
pub struct Contestant {
    pub name: &'static str,
    pub kind: Kind,
    /// Does the work once, or repeatedly to return the median.
    pub run: fn(&Context) -> Result<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Floor,
    Peer,
}

/// A goal for one of Holdall's contestants.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    pub ours: &'static str,
    pub target: Target,
    /// Why the goal is missed. Shown only in that case, and written by hand after profiling.
    pub note: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// The maximum of our median time divided by the least median of these contestants.
    TimeAtMost(f64, &'static [&'static str]),
    /// The maximum of our median time minus the least median of these contestants, in nanoseconds.
    BeyondAtMost(u64, &'static [&'static str]),
    /// The minimum of the least median of these contestants divided by our median time.
    SpeedAtLeast(f64, &'static [&'static str]),
    /// The maximum of the process's peak anonymous memory, in bytes.
    MemoryAtMost(u64),
    /// The maximum of the process's peak anonymous memory as a multiple of the size of the file, which is mostly its
    /// table of contents.
    MemoryAtMostFile(f64, Workload),
    /// The maximum of the process's peak anonymous memory as a multiple of that of another contestant.
    MemoryAtMostOf(f64, &'static str),
    /// The maximum of the process's peak anonymous memory minus that of another contestant, in bytes.
    MemoryBeyondAtMost(u64, &'static str),
    /// The maximum length of the first file as a multiple of the length of the second file plus a number of bytes.
    SizeAtMost(f64, Workload, Workload, u64),
    /// The minimum of bytes written divided by processor time in seconds.
    OutputAtLeast(u64),
    /// The minimum of processor time divided by wall time and cores.
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

/// Returns all comparisons, in the order of the report.
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
        planes::COMPARISONS,
        deltas::COMPARISONS,
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

/// Returns the comparison with this name.
pub fn named(name: &str) -> Result<Comparison> {
    all()
        .into_iter()
        .find(|c| c.name == name)
        .with_context(|| format!("no comparison `{name}`; --list names them"))
}

/// Returns the named comparisons, or all if there are no names.
pub fn chosen(names: &[String]) -> Result<Vec<Comparison>> {
    if names.is_empty() {
        return Ok(all());
    }
    names.iter().map(|n| named(n)).collect()
}

/// Returns the comparisons that can run here, and prints why the others cannot.
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
