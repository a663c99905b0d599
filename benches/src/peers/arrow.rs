//! `arrow` 60, as its parts for arrays and for IPC files.

use crate::datasets::TEXTS;
use crate::files::Workload;
use crate::rows::texts::{Order, READS, look};
use crate::timing::{Outcome, repeated};
use crate::worker::Context;
use anyhow::{Context as _, Result};
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch};
use arrow_ipc::{reader::FileReader, writer::FileWriter};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Writes texts as a `Utf8` column: 4 bytes for each besides its own.
pub fn write(path: &Path, texts: &[String]) -> Result<()> {
    write_array(path, GenericStringArray::<i32>::from_iter_values(texts))
}

/// Writes texts as a `LargeUtf8` column: 8 bytes for each besides its own.
pub fn write_large(path: &Path, texts: &[String]) -> Result<()> {
    write_array(path, GenericStringArray::<i64>::from_iter_values(texts))
}

fn write_array(path: &Path, array: impl Array + 'static) -> Result<()> {
    let batch = RecordBatch::try_from_iter([(TEXTS, Arc::new(array) as ArrayRef)])?;
    let mut writer = FileWriter::try_new(File::create(path)?, &batch.schema())?;
    writer.write(&batch)?;
    Ok(writer.finish()?)
}

/// Reads texts by index. The file was read, and its texts checked, before.
pub fn texts<O: OffsetSizeTrait>(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let from = BufReader::new(File::open(c.path(file))?);
    let batch = FileReader::try_new(from, None)?.next().context("no batch")??;
    let array = batch.column(0).as_any().downcast_ref::<GenericStringArray<O>>();
    let array = array.context("no texts")?;
    let order = order.draw(array.len());
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        Ok(order.iter().fold(0, |sum, &i| look(sum, array.value(i as usize))))
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}
