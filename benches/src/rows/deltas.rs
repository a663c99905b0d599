//! Deltas between models.

use super::Target::{SizeAtMost, SpeedAtLeast};
use super::{Cache, Comparison, Goal, ours, peer};
use crate::files::Workload::{self, *};
use crate::floor::on_one_core;
use crate::ours;
use crate::peers::updates;
use crate::timing::{Outcome, timed};
use crate::worker::Context;
use anyhow::Result;
use std::path::Path;

macro_rules! rows {
    ($($id:literal, $change:literal, $target:ident, $delta:ident, $xor:ident, $gaps:ident, $size:literal, $speed:literal;)*) => {
        pub const COMPARISONS: &[Comparison] = &[$(
            Comparison {
                name: concat!("delta-make-", $id),
                cache: Cache::Warm,
                rate: true,
                what: concat!("Make the delta of ", $change, ", on one core: Llama shapes, bf16, warm. The peers' layouts are written from their description."),
                files: &[LlamaSafetensors, $target, $delta, $xor, $gaps],
                contestants: &[
                    ours("holdall", |c| make(c, $target, ours::deltas::write_delta)),
                    peer("slime, xor", |c| make(c, $target, updates::make_xor)),
                    peer("TRL, gaps", |c| make(c, $target, updates::make_gaps)),
                ],
                goals: &[
                    Goal { ours: "holdall", target: SpeedAtLeast(1.2, &["slime, xor"]), note: "" },
                    Goal { ours: "holdall", target: SizeAtMost($size, $delta, $xor, 0), note: "" },
                ],
            },
            Comparison {
                name: concat!("delta-apply-", $id),
                cache: Cache::Warm,
                rate: true,
                what: concat!("Apply the delta of ", $change, ", on one core: a new file, with the base and the result checked. The peers change a copy of the base in place; slime checks the result, TRL nothing."),
                files: &[LlamaSafetensors, $target, $delta, $xor, $gaps],
                contestants: &[
                    ours("holdall", |c| apply_ours(c, $delta)),
                    peer("slime, xor, with the copy", |c| apply(c, $xor, updates::apply_xor, true)),
                    peer("slime, xor, in place", |c| apply(c, $xor, updates::apply_xor, false)),
                    peer("TRL, gaps, in place", |c| apply(c, $gaps, updates::apply_gaps, false)),
                ],
                goals: &[Goal {
                    ours: "holdall",
                    target: SpeedAtLeast($speed, &["slime, xor, with the copy"]),
                    note: "",
                }],
            },
        )*];
    };
}

rows! {
    "step", "a step of reinforcement learning, with less than 1 % of the elements changed",
        LlamaStep, LlamaStepDelta, LlamaStepXor, LlamaStepGaps, 0.55, 1.0;
    "tuned", "a fine-tune, with a quarter of the elements changed",
        LlamaTuned, LlamaTunedDelta, LlamaTunedXor, LlamaTunedGaps, 0.75, 0.6;
}

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
