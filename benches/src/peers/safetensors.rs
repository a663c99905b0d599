//! `safetensors` 0.8. It does not read files: the program passes it the bytes of the file.

use crate::files::{Workload, shards};
use crate::floor::read::{map, touch};
use crate::rows::save::Model;
use crate::rows::slice::{ROWS, Runs};
use crate::rows::touch::TOUCHES;
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::EMBEDDING;
use anyhow::{Result, anyhow};
use safetensors::{SafeTensors, slice::TensorIndexer};
use std::fs::File;
use std::hint::black_box;

/// Maps the file, decodes the header and lists names, dtypes and shapes.
pub fn list(c: &Context, file: Workload, times: usize) -> Result<Outcome> {
    let path = c.path(file);
    let ((), mut outcome) = repeated(times, || -> Result<()> {
        let map = map(&path)?;
        let tensors = SafeTensors::deserialize(&map)?;
        for (name, tensor) in tensors.iter() {
            black_box((name.len(), tensor.dtype(), tensor.shape().iter().sum::<usize>()));
        }
        Ok(())
    })?;
    let map = map(&path)?;
    let mut check = c.check();
    for (name, tensor) in SafeTensors::deserialize(&map)?.iter() {
        check.listed(name, tensor.shape().iter().map(|&d| d as u64));
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Maps each of several files, decodes its header and lists names, dtypes and shapes.
pub fn list_shards(c: &Context, folder: Workload, times: usize) -> Result<Outcome> {
    let all = shards(&c.path(folder))?;
    let list = || -> Result<()> {
        for path in &all {
            let map = map(path)?;
            for (name, tensor) in SafeTensors::deserialize(&map)?.iter() {
                black_box((name.len(), tensor.dtype(), tensor.shape().iter().sum::<usize>()));
            }
        }
        Ok(())
    };
    Ok(repeated(times, list)?.1)
}

/// Reads the whole file into one buffer by `std::fs::read`. The tensors are slices of it.
pub fn load_file(c: &Context, file: Workload) -> Result<Outcome> {
    let (bytes, mut outcome) = timed(|| -> Result<_> {
        let bytes = std::fs::read(c.path(file))?;
        for (name, tensor) in SafeTensors::deserialize(&bytes)?.iter() {
            black_box((name, tensor.data().as_ptr()));
        }
        Ok(bytes)
    })?;
    let mut check = c.check();
    for (name, tensor) in SafeTensors::deserialize(&bytes)?.iter() {
        check.tensor(name, tensor.data());
    }
    outcome.check = check.value();
    Ok(outcome)
}

/// Maps the file and copies every tensor into its own buffer.
pub fn load_copies(c: &Context, file: Workload) -> Result<Outcome> {
    let (tensors, mut outcome) = timed(|| -> Result<Vec<(String, Vec<u8>)>> {
        let map = map(&c.path(file))?;
        let tensors = SafeTensors::deserialize(&map)?;
        Ok(tensors.iter().map(|(name, t)| (name.to_owned(), t.data().to_vec())).collect())
    })?;
    let mut check = c.check();
    tensors.iter().for_each(|(name, bytes)| check.tensor(name, bytes));
    outcome.check = check.value();
    Ok(outcome)
}

/// Maps the file and touches every page of every tensor.
pub fn touch_all(c: &Context, file: Workload) -> Result<Outcome> {
    let (_, outcome) = repeated(TOUCHES, || -> Result<_> {
        let map = map(&c.path(file))?;
        let tensors = SafeTensors::deserialize(&map)?;
        black_box(tensors.iter().map(|(_, t)| touch(t.data())).sum::<u64>());
        Ok(map)
    })?;
    Ok(outcome)
}

/// Opens the cold file and copies rows of the embedding.
pub fn rows(c: &Context, file: Workload) -> Result<Outcome> {
    Runs::new(c, file).each(|path, start| {
        let map = map(path)?;
        let tensors = SafeTensors::deserialize(&map)?;
        let rows = TensorIndexer::from(start as usize..(start + ROWS) as usize);
        let tensor = tensors.tensor(EMBEDDING)?;
        let pieces = tensor.sliced_data(&[rows]);
        Ok(pieces.map_err(|e| anyhow!("{e}"))?.collect::<Vec<_>>().concat())
    })
}

/// Writes by `serialize_to_file`, which renames the file into place but does not flush it to the disk.
pub fn save(c: &Context, sync: bool) -> Result<Outcome> {
    let model = Model::load(c)?;
    let views = model.views()?;
    let output = c.output()?;
    let ((), outcome) = timed(|| -> Result<()> {
        let named = views.iter().map(|(name, view)| (name.as_str(), view));
        safetensors::serialize_to_file(named, None, output.as_ref())?;
        if sync {
            File::open(&output)?.sync_all()?;
        }
        Ok(())
    })?;
    Ok(outcome)
}
