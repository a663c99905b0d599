//! `ztensor` 1.2.3.

use crate::files::Workload;
use crate::floor::read::touch;
use crate::floor::zstd::Stored;
use crate::rows::save::Model;
use crate::rows::slice::{ROWS, Runs};
use crate::rows::touch::TOUCHES;
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::EMBEDDING;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use ztensor12::{Checksum, Component, Compression, DType, Object, Reader};

/// Opens the file and lists names, dtypes and shapes.
pub fn list(c: &Context, file: Workload, times: usize) -> Result<Outcome> {
    let path = c.path(file);
    let ((), mut outcome) = repeated(times, || -> Result<()> {
        let reader = Reader::open_mmap_shared(&path)?;
        for (name, tensor) in reader.tensors() {
            black_box((name.len(), tensor.data_dtype()?, tensor.shape.iter().sum::<u64>()));
        }
        Ok(())
    })?;
    let mut check = c.check();
    for (name, tensor) in Reader::open(&path)?.tensors() {
        check.listed(name, tensor.shape.iter().copied());
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Loads by `Reader::open` and `read` of every tensor, with or without checks of the digests.
pub fn load(c: &Context, file: Workload, verify: bool) -> Result<Outcome> {
    let ((reader, tensors), mut outcome) = timed(|| -> Result<_> {
        let reader = Reader::open(c.path(file))?;
        let names: Vec<&str> = reader.tensors().keys().map(String::as_str).collect();
        let tensors = reader.read_many(&names, verify)?;
        Ok((reader, tensors))
    })?;
    let mut check = c.check();
    for (name, bytes) in reader.tensors().keys().zip(&tensors) {
        check.tensor(name, bytes);
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Loads by `open_mmap_shared` and a copy of every view.
pub fn load_copies(c: &Context, file: Workload) -> Result<Outcome> {
    let (tensors, mut outcome) = timed(|| -> Result<Vec<(String, Vec<u8>)>> {
        let reader = Reader::open_mmap_shared(c.path(file))?;
        let names = reader.tensors().keys();
        names.map(|name| Ok((name.clone(), reader.view(name)?.to_vec()))).collect()
    })?;
    let mut check = c.check();
    tensors.iter().for_each(|(name, bytes)| check.tensor(name, bytes));
    outcome.check = check.value();
    Ok(outcome)
}

/// Maps the file and touches every page of every tensor.
pub fn touch_all(c: &Context, file: Workload) -> Result<Outcome> {
    let (_, outcome) = repeated(TOUCHES, || -> Result<_> {
        let reader = Reader::open_mmap_shared(c.path(file))?;
        for name in reader.tensors().keys() {
            black_box(touch(reader.view(name)?));
        }
        Ok(reader)
    })?;
    Ok(outcome)
}

/// Opens the cold file and copies rows of the embedding, from the map if it is raw.
pub fn rows(c: &Context, file: Workload) -> Result<Outcome> {
    Runs::new(c, file).each(|path, start| {
        let reader = Reader::open_mmap_shared(path)?;
        let width = 2 * width(reader.get(EMBEDDING))?;
        let range = (start * width) as usize..((start + ROWS) * width) as usize;
        match reader.view(EMBEDDING) {
            Ok(bytes) => Ok(bytes[range].to_vec()),
            Err(_) => Ok(reader.read(EMBEDDING, false)?[range].to_vec()),
        }
    })
}

fn width(tensor: Option<&Object>) -> Result<u64> {
    tensor.and_then(|t| t.shape.get(1).copied()).context("missing matrix")
}

/// Adds every tensor with a crc32c digest. `finish` does not flush to the disk.
pub fn save(c: &Context, sync: bool) -> Result<Outcome> {
    let model = Model::load(c)?;
    let views = model.views()?;
    let output = c.output()?;
    let ((), outcome) = timed(|| -> Result<()> {
        let mut writer = ztensor12::Writer::create(&output)?;
        for (name, view) in &views {
            let shape = view.shape().iter().map(|&d| d as u64).collect();
            let (raw, digest) = (Compression::Raw, Checksum::Crc32c);
            writer.add_bytes(name, shape, DType::BF16, raw, view.data(), digest)?;
        }
        writer.finish()?;
        if sync {
            File::open(&output)?.sync_all()?;
        }
        Ok(())
    })?;
    Ok(outcome)
}

/// Returns the ranges of every tensor's data in a zTensor 1.2 file, as this crate reads the manifest.
pub fn stored(path: &Path) -> Result<Vec<Stored>> {
    let reader = Reader::open(path)?;
    let parts = reader
        .tensors()
        .values()
        .map(|tensor| tensor.components.get("data").map(stored_of).context("no data"));
    parts.collect()
}

fn stored_of(data: &Component) -> Stored {
    let decoded_len = data.uncompressed_length.unwrap_or(data.length) as usize;
    Stored { offset: data.offset as usize, len: data.length as usize, decoded_len }
}

/// Returns the offset of the embedding's data, and the bytes in a row of it.
pub fn embedding(path: &Path) -> Result<(u64, u64)> {
    let (stored, width) = embedding_stored(path)?;
    Ok((stored.offset as u64, width))
}

/// Returns the range of the embedding's data, and the bytes in a decoded row of it.
pub fn embedding_stored(path: &Path) -> Result<(Stored, u64)> {
    let reader = Reader::open(path)?;
    let tensor = reader.get(EMBEDDING);
    let data = tensor.and_then(|t| t.components.get("data")).context("no embedding")?;
    Ok((stored_of(data), 2 * width(tensor)?))
}
