//! Holdall, used as documented.

pub mod deltas;
pub mod gguf;
pub mod records;

use crate::files::Workload;
use crate::floor::read::touch;
use crate::rows::save::Model;
use crate::rows::slice::{ROWS, Runs};
use crate::rows::touch::TOUCHES;
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::EMBEDDING;
use anyhow::{Context as _, Result, ensure};
use holdall::{
    Algorithm, Check, Convert, DType, Durability, Io, Loaded, OpenOptions, Role, TensorSpec,
    VerifyOptions, WriteOptions, Writer,
};
use safetensors::tensor::TensorView;
use std::hint::black_box;
use std::path::Path;

/// Opens the file and lists names, dtypes and shapes.
pub fn list(c: &Context, file: Workload, times: usize) -> Result<Outcome> {
    let path = c.path(file);
    let ((), mut outcome) = repeated(times, || -> Result<()> {
        for tensor in holdall::open(&path)?.tensors() {
            black_box((tensor.name().len(), tensor.dtype(), tensor.shape().iter().sum::<u64>()));
        }
        Ok(())
    })?;
    let mut check = c.check();
    for tensor in holdall::open(&path)?.tensors() {
        check.listed(tensor.name(), tensor.shape().iter().copied());
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Opens the file and loads every tensor, with or without checks of the digests.
pub fn load(c: &Context, file: Workload, digests: Check) -> Result<Outcome> {
    let (loaded, mut outcome) = timed(|| {
        OpenOptions::new().with_check(digests).open(c.path(file)).and_then(|file| file.load_all())
    })?;
    outcome.check = check_of(c, &loaded)?;
    Ok(outcome)
}

/// Returns the check of the loaded tensors.
pub fn check_of(c: &Context, loaded: &Loaded) -> Result<Option<u64>> {
    let mut check = c.check();
    for tensor in loaded.iter() {
        check.tensor(tensor.info().name(), tensor.bytes(&Role::Data)?);
    }
    Ok(check.value())
}

/// Verifies the file.
pub fn verify(c: &Context, file: Workload) -> Result<Outcome> {
    let (report, outcome) = timed(|| {
        holdall::open(c.path(file)).and_then(|file| holdall::verify(&file, &VerifyOptions::new()))
    })?;
    let checked: u64 = report.digests.iter().map(|(_, count)| count).sum();
    ensure!(report.is_sound() && checked == report.tensors, "{report:?}");
    Ok(outcome)
}

/// Maps the file and touches every page of every tensor.
pub fn touch_all(c: &Context, file: Workload) -> Result<Outcome> {
    let (_, outcome) = repeated(TOUCHES, || -> Result<_> {
        let file = OpenOptions::new().with_io(Io::Map).open(c.path(file))?;
        for tensor in file.tensors() {
            black_box(touch(&tensor.bytes(&Role::Data)?));
        }
        Ok(file)
    })?;
    Ok(outcome)
}

/// Opens the cold file and reads rows of the embedding.
pub fn rows(c: &Context, file: Workload) -> Result<Outcome> {
    Runs::new(c, file).each(|path, start| {
        let file = holdall::open(path)?;
        let tensor = file.tensor(EMBEDDING)?;
        let width = 2 * tensor.shape().get(1).context("not a matrix")?;
        Ok(tensor.bytes_range(&Role::Data, start * width..(start + ROWS) * width)?.to_vec())
    })
}

/// Writes a model from memory, tensor by tensor. The file is renamed into place when it is complete.
pub fn save(c: &Context, durability: Durability, digest: Option<Algorithm>) -> Result<Outcome> {
    let model = Model::load(c)?;
    let views = model.views()?;
    let output = c.output()?;
    let options = WriteOptions::new().with_durability(durability).with_digest(digest);
    let ((), outcome) = timed(|| -> Result<()> {
        let spec = |(name, view): &(String, TensorView)| {
            let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
            TensorSpec::dense(name, DType::Bf16, shape)
        };
        let specs: Vec<TensorSpec> = views.iter().map(spec).collect();
        let mut writer = Writer::create(&output, &options)?;
        writer.declare(&specs)?;
        for (spec, (_, view)) in specs.into_iter().zip(&views) {
            writer.add(spec, &[view.data()])?;
        }
        writer.finish()?;
        Ok(())
    })?;
    Ok(outcome)
}

/// Converts the safetensors file to zTensor 1.2, raw or compressed.
pub fn convert(c: &Context, durability: Durability, zstd: Option<i32>) -> Result<Outcome> {
    let output = c.output()?;
    let source = c.path(Workload::LlamaSafetensors);
    let ((), outcome) = timed(|| convert_file(&source, output.as_ref(), durability, zstd))?;
    Ok(outcome)
}

/// Converts `source` to a zTensor 1.2 file with crc32c digests.
pub fn convert_file(
    source: &Path,
    target: &Path,
    durability: Durability,
    zstd: Option<i32>,
) -> Result<()> {
    let options = WriteOptions::new().with_durability(durability);
    let options = match zstd {
        Some(level) => options.with_zstd(level),
        None => options,
    };
    holdall::convert(&holdall::open(source)?, target, &Convert::new(options))?;
    Ok(())
}
