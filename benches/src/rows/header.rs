//! Opening Metatensor: reading a header, and checking it against its schema.

use super::Target::{BeyondAtMost, MemoryAtMost, TimeAtMost};
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::{self, *};
use crate::ours::{self, records};
use crate::timing::{Outcome, repeated};
use crate::worker::Context;
use anyhow::Result;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How often a process opens a small header, which takes microseconds.
const OFTEN: usize = 200;
/// How often a process opens a large header.
const SOME: usize = 5;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "open-mt-10g",
        cache: Cache::AsFound,
        rate: false,
        what: "Open a Metatensor file of 10 GB (146 tensors of Llama-3.2-1B, 80 million records, 20 million \
               texts; the data is a hole), go through names, dtypes and shapes, and open the records \
               and the texts; warm.",
        files: &[Holes10G],
        contestants: OPEN,
        goals: &[
            Goal {
                ours: "holdall",
                target: BeyondAtMost(2_000_000, &["read of the header"]),
                note: "",
            },
            Goal { ours: "holdall", target: MemoryAtMost(4_000_000), note: "" },
        ],
    },
    Comparison {
        name: "header-100k",
        cache: Cache::AsFound,
        rate: false,
        what: "Open a file with 100 000 references, validate its header and lay it out, against serde_json \
               parsing the same header, which is in memory, to `Value`. The schema describes the \
               tensors once.",
        files: &[Header100k],
        contestants: HEADER,
        goals: &[Goal { ours: "holdall", target: TimeAtMost(3.0, &["serde_json"]), note: "" }],
    },
    Comparison {
        name: "header-100k-named",
        cache: Cache::AsFound,
        rate: false,
        what: "The same where the schema describes each of the 100 000 tensors on its own.",
        files: &[Header100kNamed],
        contestants: HEADER_NAMED,
        goals: &[Goal { ours: "holdall", target: TimeAtMost(3.0, &["serde_json"]), note: "" }],
    },
];

const OPEN: &[Contestant] = &[
    ours("holdall", |c| records::open_all(c, Holes10G, OFTEN)),
    floor("read of the header", |c| {
        let path = c.path(Holes10G);
        Ok(repeated(OFTEN, || header(&path))?.1)
    }),
];

const HEADER: &[Contestant] =
    &[ours("holdall", |c| open(c, Header100k)), peer("serde_json", |c| serde(c, Header100k))];

const HEADER_NAMED: &[Contestant] = &[
    ours("holdall", |c| open(c, Header100kNamed)),
    peer("serde_json", |c| serde(c, Header100kNamed)),
];

fn open(c: &Context, file: Workload) -> Result<Outcome> {
    Ok(Outcome { check: None, ..ours::list(c, file, SOME)? })
}

fn serde(c: &Context, file: Workload) -> Result<Outcome> {
    let header = header(&c.path(file))?;
    Ok(repeated(SOME, || serde_json::from_slice::<Value>(&header))?.1)
}

/// Returns the bytes of a header.
pub fn header(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut len = [0; 8];
    file.read_exact_at(&mut len, 0)?;
    let mut bytes = vec![0; u64::from_le_bytes(len) as usize];
    file.read_exact_at(&mut bytes, 8)?;
    Ok(bytes)
}
