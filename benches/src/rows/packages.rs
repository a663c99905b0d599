//! Packages: opened, verified, packed, and one tensor of them.

use super::Target::{MemoryAtMost, SpeedAtLeast, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::Package2G;
use crate::floor::digest;
use crate::packages::{self, TENSOR, copy_into_one, files, hash_all, hash_on_all_cores};
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result, ensure};
use holdall::Role;
use holdall::carton::{FileSelection, Package, PackageVerifyOptions, Packer, SymlinkPolicy};
use std::hint::black_box;

/// How often a process opens; the median counts.
const TIMES: usize = 9;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "package-open",
        cache: Cache::Warm,
        rate: false,
        what: "Open a package of 2 GB and 2,000 files, go over its files, read and check what describes \
               it; Python's zipfile and tomllib read the same and check nothing. Warm.",
        files: &[Package2G],
        contestants: OPEN,
        goals: &[
            Goal {
                ours: "holdall",
                target: SpeedAtLeast(15.0, &["python zipfile"]),
                note: "Every name, length and hash of 2,000 files is read and compared with those of all others; the floor shows what reading and hashing alone take.",
            },
            Goal { ours: "holdall", target: MemoryAtMost(20_000_000), note: "" },
        ],
    },
    Comparison {
        name: "package-tensor",
        cache: Cache::Warm,
        rate: false,
        what: "Open the package and read one byte of every page of a tensor of 64 MiB in it, mapped; the \
               floor maps that file unpacked. Warm.",
        files: &[Package2G],
        contestants: TENSORS,
        goals: &[Goal {
            ours: "holdall, first byte",
            target: super::Target::BeyondAtMost(5_000_000, &["open and fstat"]),
            note: "",
        }],
    },
    Comparison {
        name: "package-verify",
        cache: Cache::Warm,
        rate: true,
        what: "Check every hash, checksum and tensor of the package; warm.",
        files: &[Package2G],
        contestants: VERIFY,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.9, &["sha2 of the files × cores"]),
            note: "",
        }],
    },
    Comparison {
        name: "package-pack",
        cache: Cache::Warm,
        rate: true,
        what: "Pack the folder, stored, and wait until it is on the disk (fsync).",
        files: &[Package2G],
        contestants: PACK,
        goals: &[Goal {
            ours: "holdall",
            target: TimeAtMost(1.15, &["copy into one + fsync, then sha2 on one core"]),
            note: "",
        }],
    },
];

const OPEN: &[Contestant] = &[
    ours("holdall", |c| {
        let path = c.path(Package2G);
        let ((), outcome) = repeated(TIMES, || -> Result<()> {
            let package = Package::open(&path)?;
            for file in package.files() {
                black_box((file.path.len(), file.len, file.sha256));
            }
            black_box((package.hash(), package.description().inputs.len()));
            Ok(())
        })?;
        Ok(outcome)
    }),
    floor("read of the texts, sha2 of MANIFEST", |c| {
        let path = c.path(Package2G);
        let texts = packages::texts(&path)?;
        let work = || -> Result<_> {
            let read =
                |(offset, len): &(u64, usize)| crate::floor::read::range(&path, *offset, *len);
            let texts = texts.iter().map(read).collect::<Result<Vec<_>>>()?;
            Ok(texts.last().map(|manifest| digest::sha2_stream(manifest)))
        };
        Ok(repeated(TIMES, work)?.1)
    }),
    peer("python zipfile", |c| packages::python(packages::LIST, &c.path(Package2G))),
];

const TENSORS: &[Contestant] = &[
    ours("holdall, first byte", |c| tensor(c, |bytes| bytes.first().copied().map_or(0, u64::from))),
    ours("holdall, every page", |c| tensor(c, crate::floor::read::touch)),
    floor("open and fstat", |c| {
        let path = c.path(Package2G);
        let (_, outcome) = repeated(TIMES, || std::fs::File::open(&path)?.metadata())?;
        Ok(outcome)
    }),
    floor("map of the file, every page", |c| {
        let path = packages::folder(&c.path(Package2G)).join("tensor_data/x.bin");
        Ok(repeated(TIMES, || crate::floor::read::touch_map(&path))?.1)
    }),
];

fn tensor(c: &Context, touch: fn(&[u8]) -> u64) -> Result<Outcome> {
    let path = c.path(Package2G);
    let (_, outcome) = repeated(TIMES, || -> Result<_> {
        let bytes = holdall::open(&path)?.tensor(TENSOR)?.bytes(&Role::Data)?;
        black_box(touch(&bytes));
        Ok(bytes)
    })?;
    Ok(outcome)
}

const VERIFY: &[Contestant] = &[
    ours("holdall", |c| {
        let (report, outcome) = timed(|| -> Result<_> {
            Ok(Package::open(c.path(Package2G))?.verify(&PackageVerifyOptions::new())?)
        })?;
        ensure!(report.findings.is_empty(), "{report:?}");
        Ok(outcome)
    }),
    floor("sha2 of the files × cores", |c| {
        let files = files(&packages::folder(&c.path(Package2G)))?;
        Ok(timed(|| hash_on_all_cores(&files, digest::sha2_stream))?.1)
    }),
];

const PACK: &[Contestant] = &[
    ours("holdall", |c| {
        let folder = packages::folder(&c.path(Package2G));
        let output = c.output()?;
        let (report, outcome) = timed(|| {
            Packer::from_folder(&folder, SymlinkPolicy::Inside, FileSelection::All)?
                .write(output.as_ref(), false)
        })?;
        let package = Package::open(c.path(Package2G))?;
        let hash = package.hash().context("no MANIFEST")?;
        ensure!(report.hash == hash, "another hash than that of the package before");
        Ok(outcome)
    }),
    floor("copy into one + fsync, then sha2 on one core", |c| {
        let files = files(&packages::folder(&c.path(Package2G)))?;
        let output = c.output()?;
        let (_, outcome) = timed(|| {
            copy_into_one(&files, output.as_ref())?;
            hash_all(&files, 1, digest::sha2_stream)
        })?;
        Ok(outcome)
    }),
];
