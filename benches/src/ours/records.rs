//! Records, texts and headers.

use crate::datasets::{self, SAMPLES, TEXTS};
use crate::files::Workload;
use crate::rows::records::{Places, READS};
use crate::rows::texts::{Order, look};
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use anyhow::{Context as _, Result};
use holdall::records::{Blob, Build, Records, Texts};
use holdall::{Io, OpenOptions, Role, TensorRecords as _, Work};
use std::hint::black_box;
use std::io::Read;
use std::ops::Range;

/// Opens the file, lists names, dtypes and shapes, and opens its dataset and its blob.
pub fn open_all(c: &Context, file: Workload, times: usize) -> Result<Outcome> {
    let path = c.path(file);
    let (_, outcome) = repeated(times, || -> Result<_> {
        let file = holdall::open(&path)?;
        for tensor in file.tensors() {
            black_box((tensor.name().len(), tensor.dtype(), tensor.shape().iter().sum::<u64>()));
        }
        let (records, blob) = (file.tensor(SAMPLES)?.records()?, file.tensor(TEXTS)?.blob()?);
        black_box((records.len(), blob.len()));
        Ok(file)
    })?;
    Ok(outcome)
}

/// Returns the dataset of a mapped file.
pub fn records(c: &Context, file: Workload) -> Result<Records> {
    let file = OpenOptions::new().with_io(Io::Map).open(c.path(file))?;
    Ok(file.tensor(SAMPLES)?.records()?)
}

/// Returns the range of the dataset's records in its file.
pub fn stored(records: &Records) -> Result<Range<usize>> {
    let data = records.tensor().info().component(&Role::Data).context("no records")?;
    Ok(data.stored.start as usize..data.stored.end as usize)
}

/// Reads a member of many records.
pub fn member(c: &Context, file: Workload, places: Places) -> Result<Outcome> {
    let records = records(c, file)?;
    let score = records.typed::<f32>("score")?;
    let places = places.draw(records.len() as usize);
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0u64;
        for &i in &places {
            let score = records.get(u64::from(i), &score)?.unwrap_or_default();
            sum = sum.wrapping_add(u64::from(score.to_bits()));
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// As [`member`], without copying the values.
pub fn member_values(c: &Context, file: Workload, places: Places) -> Result<Outcome> {
    let column = records(c, file)?.column::<f32>("score")?;
    let values = column.values().context("not mapped")?;
    let places = places.draw(values.len());
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0u64;
        for &i in &places {
            let score = values.get(i as usize).unwrap_or_default();
            sum = sum.wrapping_add(u64::from(score.to_bits()));
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// As [`member`], only through the accessor.
pub fn member_of_bytes(c: &Context, file: Workload, places: Places) -> Result<Outcome> {
    let records = records(c, file)?;
    let score = records.typed::<f32>("score")?;
    let bytes = records.bytes().context("not mapped")?;
    let size = records.extent().size as usize;
    let places = places.draw(records.len() as usize);
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0u64;
        for &i in &places {
            let start = i as usize * size;
            let score = score.read(&bytes[start..start + size])?.unwrap_or_default();
            sum = sum.wrapping_add(u64::from(score.to_bits()));
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// Copies a column into existing memory.
pub fn column(c: &Context, file: Workload) -> Result<Outcome> {
    let column = records(c, file)?.column::<f32>("score")?;
    let mut out = vec![1f32; column.len() as usize];
    let ((), mut outcome) = repeated(READS, || column.copy_into(&mut out))?;
    outcome.check = Some(out.iter().fold(0, |sum, x| sum.wrapping_add(u64::from(x.to_bits()))));
    Ok(outcome)
}

fn blob(c: &Context, file: Workload, io: Io) -> Result<Blob> {
    let file = OpenOptions::new().with_io(io).open(c.path(file))?;
    Ok(file.tensor(TEXTS)?.blob()?)
}

/// Reads texts of a blob by index. All texts were loaded and checked before.
pub fn texts(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let blob = blob(c, file, Io::Read)?.loaded()?;
    read_texts(&blob.texts()?.context("not in memory")?, order)
}

/// As [`texts`], from a mapped file.
pub fn mapped_texts(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let blob = blob(c, file, Io::Map)?;
    read_texts(&blob.texts()?.context("not mapped")?, order)
}

/// Reads texts that are members of records. All texts were loaded and checked before.
pub fn member_texts(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let file = OpenOptions::new().with_io(Io::Read).open(c.path(file))?;
    let records = file.tensor(SAMPLES)?.records()?.loaded()?;
    read_texts(&records.texts("text")?.context("not mapped")?, order)
}

fn read_texts(texts: &Texts<'_>, order: Order) -> Result<Outcome> {
    let order = order.draw(texts.len() as usize);
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0;
        for &i in &order {
            sum = look(sum, texts.get(u64::from(i))?);
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// Reads texts of a blob by index, and checks each when it is read.
pub fn texts_checked(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let blob = blob(c, file, Io::Read)?.loaded()?;
    let order = order.draw(blob.len() as usize);
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0;
        for &i in &order {
            sum = look(sum, &blob.str(u64::from(i))?);
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// Reads texts that are members of records, and checks each when it is read.
pub fn member_texts_checked(c: &Context, file: Workload, order: Order) -> Result<Outcome> {
    let file = OpenOptions::new().with_io(Io::Read).open(c.path(file))?;
    let records = file.tensor(SAMPLES)?.records()?.loaded()?;
    let text = records.accessor("text")?;
    let order = order.draw(records.len() as usize);
    let (sum, outcome) = repeated(READS, || -> Result<u64> {
        let mut sum = 0;
        for &i in &order {
            let record = records.record(u64::from(i))?;
            sum = look(sum, &record.string(&text)?.unwrap_or_default());
        }
        Ok(sum)
    })?;
    Ok(Outcome { check: Some(sum), ..outcome })
}

/// Builds a file from JSON lines, on all cores if `threads` is `None`.
pub fn build(c: &Context, lines: impl Read, threads: Option<usize>) -> Result<Outcome> {
    let output = c.output()?;
    let options = datasets::options();
    let options = match threads {
        Some(threads) => options.with_work(Work::new().with_threads(threads)),
        None => options,
    };
    let kind = datasets::line_kind();
    let (report, outcome) = timed(|| -> Result<_> {
        let mut build = Build::create(&output, &options)?;
        let mut samples = build.dataset_with_schema(SAMPLES, &kind)?;
        samples.lines(lines)?;
        build.add(samples)?;
        Ok(build.finish()?)
    })?;
    Ok(Outcome { written: Some(report.target_len), ..outcome })
}
