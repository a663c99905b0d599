//! Mapping a file and touching every page of it.

use super::Target::TimeAtMost;
use super::{Cache, Comparison, Contestant, Goal, floor, ours, peer};
use crate::files::Workload::*;
use crate::floor::read;
use crate::ours;
use crate::peers::{safetensors, zt12, zt21};
use crate::timing::repeated;

/// How often a process maps the file and touches it. The median counts.
pub const TOUCHES: usize = 9;

pub const COMPARISONS: &[Comparison] = &[Comparison {
    name: "map-touch",
    cache: Cache::Warm,
    rate: false,
    what: "Map the file and read one byte of every page of every tensor: Llama shapes, warm.",
    files: &[LlamaZt12, LlamaSafetensors, LlamaZt21],
    contestants: MAP_TOUCH,
    goals: &[Goal { ours: "holdall", target: TimeAtMost(1.05, &["bare map"]), note: "" }],
}];

const MAP_TOUCH: &[Contestant] = &[
    ours("holdall", |c| ours::touch_all(c, LlamaZt12)),
    floor("bare map", |c| {
        let path = c.path(LlamaZt12);
        Ok(repeated(TOUCHES, || read::touch_map(&path))?.1)
    }),
    peer("safetensors", |c| safetensors::touch_all(c, LlamaSafetensors)),
    peer("ztensor 1.2", |c| zt12::touch_all(c, LlamaZt12)),
    peer("ztensor 2.1", |c| zt21::touch_all(c, LlamaZt21)),
];
