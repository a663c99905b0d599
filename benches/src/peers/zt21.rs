//! `ztensor` 2.1.

use crate::files::Workload;
use crate::floor::read::touch;
use crate::rows::save::Model;
use crate::rows::slice::{ROWS, Runs};
use crate::rows::touch::TOUCHES;
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::EMBEDDING;
use anyhow::{Context as _, Result};
use std::hint::black_box;
use ztensor21::{DType, Source, Writer};

/// Opens the file and lists names, dtypes and shapes.
pub fn list(c: &Context, file: Workload, times: usize) -> Result<Outcome> {
    let path = c.path(file);
    let ((), mut outcome) = repeated(times, || -> Result<()> {
        let source = Source::open(&path)?;
        for tensor in source.tensors() {
            let dtype = tensor.data()?.dtype();
            black_box((tensor.name().len(), dtype, tensor.shape().iter().sum::<u64>()));
        }
        Ok(())
    })?;
    let mut check = c.check();
    for tensor in Source::open(&path)?.tensors() {
        check.listed(tensor.name(), tensor.shape().iter().copied());
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Loads by `bytes().into_owned()` of every tensor, with or without `verify` first.
pub fn load(c: &Context, file: Workload, verify: bool) -> Result<Outcome> {
    let (tensors, mut outcome) = timed(|| -> Result<Vec<(String, Vec<u8>)>> {
        let source = Source::open(c.path(file))?;
        let tensors = source.tensors().map(|tensor| {
            let data = tensor.data()?;
            if verify {
                data.verify()?;
            }
            Ok((tensor.name().to_owned(), data.bytes()?.into_owned()))
        });
        tensors.collect()
    })?;
    let mut check = c.check();
    tensors.iter().for_each(|(name, bytes)| check.tensor(name, bytes));
    outcome.check = check.value();
    Ok(outcome)
}

/// Maps the file and touches every page of every tensor.
pub fn touch_all(c: &Context, file: Workload) -> Result<Outcome> {
    let (_, outcome) = repeated(TOUCHES, || -> Result<_> {
        let source = Source::open(c.path(file))?;
        for tensor in source.tensors() {
            black_box(touch(tensor.data()?.map()?));
        }
        Ok(source)
    })?;
    Ok(outcome)
}

/// Opens the cold file and copies rows of the embedding.
pub fn rows(c: &Context, file: Workload) -> Result<Outcome> {
    Runs::new(c, file).each(|path, start| {
        let source = Source::open(path)?;
        let tensor = source.tensor(EMBEDDING)?;
        let width = 2 * tensor.shape().get(1).context("not a matrix")?;
        let range = (start * width) as usize..((start + ROWS) * width) as usize;
        Ok(tensor.data()?.bytes()?[range].to_vec())
    })
}

/// Verifies every tensor by `verify`: xxh3 of the mapped bytes.
pub fn verify(c: &Context, file: Workload) -> Result<Outcome> {
    let ((), outcome) = timed(|| -> Result<()> {
        for tensor in Source::open(c.path(file))?.tensors() {
            anyhow::ensure!(tensor.verify()?.is_checked(), "no digest");
        }
        Ok(())
    })?;
    Ok(outcome)
}

/// Adds every tensor in canonical form (xxh3 digests, 64 KB alignment). `finish` always flushes to the disk.
pub fn save(c: &Context) -> Result<Outcome> {
    let model = Model::load(c)?;
    let mut views = model.views()?;
    views.sort_by(|a, b| a.0.cmp(&b.0));
    let output = c.output()?;
    let ((), outcome) = timed(|| -> Result<()> {
        let mut writer = Writer::create(&output)?;
        for (name, view) in &views {
            let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
            writer.add(name, shape, DType::BF16, view.data())?;
        }
        writer.finish()?;
        Ok(())
    })?;
    Ok(outcome)
}
