//! Building files of records from JSON lines.

use super::Target::{MemoryAtMost, MemoryAtMostOf, OutputAtLeast, SpeedAtLeast};
use super::{Cache, Comparison, Contestant, Goal, ours, peer};
use crate::files::Workload::*;
use crate::ours::records;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use serde_json::Value;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Seek};

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "build-ndjson",
        cache: Cache::Warm,
        rate: true,
        what: "Build a Metatensor file from 1 million JSON lines (4 numbers, an array of 3 and 2 strings each), without \
               waiting for the disk, against serde_json parsing the lines to `Value` and dropping \
               them, on one core. GB/s are of JSON. One of the two goals of speed is to be met.",
        files: &[Lines],
        contestants: BUILD,
        goals: &[
            Goal {
                ours: "holdall, one core",
                target: SpeedAtLeast(0.8, &["serde_json"]),
                note: "",
            },
            Goal { ours: "holdall, one core", target: OutputAtLeast(200_000_000), note: "" },
            Goal { ours: "holdall", target: MemoryAtMost(256_000_000), note: "" },
        ],
    },
    Comparison {
        name: "build-large",
        cache: Cache::AsFound,
        rate: false,
        what: "The same on all cores with these lines over and over: memory does not grow with the output.",
        files: &[Lines],
        contestants: LARGE,
        goals: &[
            Goal { ours: "holdall, 2.3 GB", target: MemoryAtMost(256_000_000), note: "" },
            Goal {
                ours: "holdall, 2.3 GB",
                target: MemoryAtMostOf(1.1, "holdall, 0.6 GB"),
                note: "",
            },
        ],
    },
];

const BUILD: &[Contestant] = &[
    ours("holdall", |c| records::build(c, File::open(c.path(Lines))?, None)),
    ours("holdall, one core", |c| records::build(c, File::open(c.path(Lines))?, Some(1))),
    peer("serde_json", parse),
];

const LARGE: &[Contestant] = &[
    ours("holdall, 0.6 GB", |c| records::build(c, Again::new(c, 4)?, None)),
    ours("holdall, 2.3 GB", |c| records::build(c, Again::new(c, 16)?, None)),
];

fn parse(c: &Context) -> Result<Outcome> {
    let mut lines = BufReader::with_capacity(1 << 18, File::open(c.path(Lines))?);
    let mut line = Vec::new();
    let ((), outcome) = timed(|| -> Result<()> {
        while lines.read_until(b'\n', &mut line)? > 0 {
            black_box(serde_json::from_slice::<Value>(&line)?);
            line.clear();
        }
        Ok(())
    })?;
    Ok(outcome)
}

/// Reads a file repeatedly.
struct Again {
    file: File,
    left: usize,
}

impl Again {
    fn new(c: &Context, times: usize) -> Result<Again> {
        Ok(Again { file: File::open(c.path(Lines))?, left: times })
    }
}

impl Read for Again {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.left > 0 {
            let count = self.file.read(out)?;
            if count > 0 {
                return Ok(count);
            }
            self.left -= 1;
            self.file.rewind()?;
        }
        Ok(0)
    }
}
