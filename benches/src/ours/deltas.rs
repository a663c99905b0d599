//! Byte planes and deltas by Holdall.

use crate::files::Workload::{self, *};
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::EMBEDDING;
use anyhow::Result;
use holdall::delta::{self, ApplyOptions, MakeOptions};
use holdall::{Check, Convert, Durability, OpenOptions, Role, WriteOptions};
use std::path::Path;

fn options() -> WriteOptions {
    WriteOptions::new().with_durability(Durability::System).with_overwrite(true)
}

/// Writes the tensors of `source` in byte planes.
pub fn write_planes(source: &Path, path: &Path) -> Result<()> {
    let options = Convert::new(options().with_planes());
    holdall::convert(&holdall::open(source)?, path, &options)?;
    Ok(())
}

/// Writes the delta from `base` to `target`.
pub fn write_delta(base: &Path, target: &Path, path: &Path) -> Result<()> {
    let mut make = MakeOptions::default();
    make.write = options();
    delta::make(&holdall::open(base)?, &holdall::open(target)?, path, &make)?;
    Ok(())
}

/// Applies the delta `file` to the base, and checks the result.
pub fn apply(c: &Context, file: Workload) -> Result<Outcome> {
    let output = c.output_with("safetensors")?;
    let mut apply = ApplyOptions::default();
    apply.write = options();
    let ((), mut outcome) = timed(|| -> Result<()> {
        let (base, delta) =
            (holdall::open(c.path(LlamaSafetensors))?, holdall::open(c.path(file))?);
        delta::apply(&base, &delta, output.as_ref(), &apply)?;
        Ok(())
    })?;
    outcome.check = check(c, output.as_ref())?;
    Ok(outcome)
}

/// Returns the check of a file's tensors.
pub fn check(c: &Context, path: &Path) -> Result<Option<u64>> {
    super::check_of(c, &OpenOptions::new().with_check(Check::Off).open(path)?.load_all()?)
}

/// Opens the file, which is in memory, and reads one row of the embedding, each time another one.
pub fn row(c: &Context, file: Workload) -> Result<Outcome> {
    let file = holdall::open(c.path(file))?;
    let tensor = file.tensor(EMBEDDING)?;
    let &[rows, width] = tensor.shape() else { anyhow::bail!("not a matrix") };
    let mut at = 0;
    let (_, outcome) = repeated(1001, || {
        at = (at + rows / 3 + 1) % rows;
        tensor.bytes_range(&Role::Data, 2 * at * width..2 * (at + 1) * width).map(|b| b.to_vec())
    })?;
    Ok(outcome)
}
