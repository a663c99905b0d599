//! Deltas between models.

use super::Target::{SizeAtMost, SpeedAtLeast};
use super::{Cache, Comparison, Contestant, Goal, ours, peer};
use crate::files::Workload::{self, *};
use crate::floor::on_one_core;
use crate::ours;
use crate::peers::updates;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use std::path::Path;

pub const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "delta-make-step",
        cache: Cache::Warm,
        rate: true,
        what: "Make the delta of a step of reinforcement learning, with less than 1 % of the elements changed, on one core: Llama shapes, bf16, warm. The peers' layouts are written from their description.",
        files: &[LlamaSafetensors, LlamaStep, LlamaStepDelta, LlamaStepXor, LlamaStepGaps],
        contestants: MAKE_STEP,
        goals: &[
            Goal { ours: "holdall", target: SpeedAtLeast(1.2, &["slime, xor"]), note: "" },
            Goal {
                ours: "holdall",
                target: SizeAtMost(0.55, LlamaStepDelta, LlamaStepXor, 0),
                note: "",
            },
        ],
    },
    Comparison {
        name: "delta-make-tuned",
        cache: Cache::Warm,
        rate: true,
        what: "The same for a fine-tune, with a quarter of the elements changed.",
        files: &[LlamaSafetensors, LlamaTuned, LlamaTunedDelta, LlamaTunedXor, LlamaTunedGaps],
        contestants: MAKE_TUNED,
        goals: &[
            Goal { ours: "holdall", target: SpeedAtLeast(1.2, &["slime, xor"]), note: "" },
            Goal {
                ours: "holdall",
                target: SizeAtMost(0.75, LlamaTunedDelta, LlamaTunedXor, 0),
                note: "",
            },
        ],
    },
    Comparison {
        name: "delta-apply-step",
        cache: Cache::Warm,
        rate: true,
        what: "Apply the delta of a step on one core: a new file, with the base and the result checked. The peers change a copy of the base in place; slime checks the result, TRL nothing.",
        files: &[LlamaSafetensors, LlamaStep, LlamaStepDelta, LlamaStepXor, LlamaStepGaps],
        contestants: APPLY_STEP,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(1.0, &["slime, xor, with the copy"]),
            note: "",
        }],
    },
    Comparison {
        name: "delta-apply-tuned",
        cache: Cache::Warm,
        rate: true,
        what: "The same for a fine-tune.",
        files: &[LlamaSafetensors, LlamaTuned, LlamaTunedDelta, LlamaTunedXor, LlamaTunedGaps],
        contestants: APPLY_TUNED,
        goals: &[Goal {
            ours: "holdall",
            target: SpeedAtLeast(0.6, &["slime, xor, with the copy"]),
            note: "",
        }],
    },
];

const MAKE_STEP: &[Contestant] = &[
    ours("holdall", |c| make(c, LlamaStep, ours::deltas::write_delta)),
    peer("slime, xor", |c| make(c, LlamaStep, updates::make_xor)),
    peer("TRL, gaps", |c| make(c, LlamaStep, updates::make_gaps)),
];

const MAKE_TUNED: &[Contestant] = &[
    ours("holdall", |c| make(c, LlamaTuned, ours::deltas::write_delta)),
    peer("slime, xor", |c| make(c, LlamaTuned, updates::make_xor)),
    peer("TRL, gaps", |c| make(c, LlamaTuned, updates::make_gaps)),
];

const APPLY_STEP: &[Contestant] = &[
    ours("holdall", |c| apply_ours(c, LlamaStepDelta)),
    peer("slime, xor, with the copy", |c| apply(c, LlamaStepXor, updates::apply_xor, true)),
    peer("slime, xor, in place", |c| apply(c, LlamaStepXor, updates::apply_xor, false)),
    peer("TRL, gaps, in place", |c| apply(c, LlamaStepGaps, updates::apply_gaps, false)),
];

const APPLY_TUNED: &[Contestant] = &[
    ours("holdall", |c| apply_ours(c, LlamaTunedDelta)),
    peer("slime, xor, with the copy", |c| apply(c, LlamaTunedXor, updates::apply_xor, true)),
    peer("slime, xor, in place", |c| apply(c, LlamaTunedXor, updates::apply_xor, false)),
    peer("TRL, gaps, in place", |c| apply(c, LlamaTunedGaps, updates::apply_gaps, false)),
];

fn make(
    c: &Context,
    target: Workload,
    write: fn(&Path, &Path, &Path) -> Result<()>,
) -> Result<Outcome> {
    on_one_core()?;
    let output = c.output()?;
    let (base, target) = (c.path(LlamaSafetensors), c.path(target));
    Ok(timed(|| write(&base, &target, output.as_ref()))?.1)
}

fn apply_ours(c: &Context, delta: Workload) -> Result<Outcome> {
    on_one_core()?;
    ours::deltas::apply(c, delta)
}

/// Applies an update to a copy of the base, which is made while the clock runs or before.
fn apply(
    c: &Context,
    update: Workload,
    apply: fn(&Path, &Path) -> Result<()>,
    copy_is_timed: bool,
) -> Result<Outcome> {
    on_one_core()?;
    let output = c.output_with("safetensors")?;
    let copy = || std::fs::copy(c.path(LlamaSafetensors), &output);
    if !copy_is_timed {
        copy()?;
    }
    let ((), mut outcome) = timed(|| -> Result<()> {
        if copy_is_timed {
            copy()?;
        }
        apply(output.as_ref(), &c.path(update))
    })?;
    outcome.check = ours::deltas::check(c, output.as_ref())?;
    Ok(outcome)
}
