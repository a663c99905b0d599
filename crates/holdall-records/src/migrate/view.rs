//! Reads a file under another schema: the file that a migration would write, computed from the old one on demand.
//!
//! Only the index of the new file is kept. A range of it is computed from the old file: records one by one, elements
//! one by one. The heap of a dataset is used as it is, followed by heap data of defaults. Only if a conversion would
//! create new heap data are the records converted once, when the file is opened, and kept on disk.

use super::Migration;
use super::prepare::{Job, Work};
use super::tensors::Flat;
use crate::Records;
use crate::build::{DatasetWriter, FinishedTensor, Spool};
use bytes::Bytes;
use holdall_core::{
    Component, Encoding, Error, Result, Role, Stored, TensorSpec, Value as Attribute,
};
use holdall_formats::Format;
use holdall_io::items::unchanged_item;
use holdall_io::source::{Access, ByteSource, ReadHints};
use holdall_io::{File, OpenOptions, Tensor};
use holdall_schema::{Converters, HeapDefaults, Resolution, SCHEMA_ATTRIBUTE};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

impl Migration {
    /// Returns the file under the new schema without writing it: tensors and records are converted as they are read.
    /// Members that the schema does not have are skipped. Standard keywords are not checked, as for any file that is
    /// read.
    ///
    /// ```no_run
    /// # fn main() -> holdall_core::Result<()> {
    /// # use holdall_schema::{Document, Reading, SchemaLimits};
    /// # let new = Document::parse(b"{}", "new.json", Reading::ByContent, &SchemaLimits::default())?;
    /// use holdall_records::{Migration, TensorRecords as _};
    /// let file = Migration::new(new).view(&holdall_io::open("old.mt")?)?;
    /// let records = file.tensor("samples")?.records()?;
    /// # drop(records);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Migration::plan`], an unsupported error if no format can represent the result, or an I/O
    /// error.
    pub fn view(&self, file: &File) -> Result<File> {
        let migration = self.clone().with_drop();
        let prepared = migration.prepare(file)?;
        let (schema, mut attributes) = migration.attributes(file, &prepared);
        if let Some(schema) = schema {
            attributes.set(SCHEMA_ATTRIBUTE, Attribute::Text(schema));
        }
        let mut specs = Vec::new();
        let mut sources = Vec::new();
        for work in prepared.works {
            let (spec, parts) = migration.parts(work, file)?;
            specs.push(spec);
            sources.push(parts);
        }
        let own = holdall_formats::by_name(file.format()).filter(|format| format.encode.is_some());
        let all = own.into_iter().chain(holdall_formats::FORMATS.iter().copied());
        let mut refused = None;
        for format in all {
            match laid_out(format, &attributes, &specs) {
                Ok(Some(laid)) => {
                    let view = View::new(laid, sources, file);
                    let options = OpenOptions::new().with_limits(file.limits().clone());
                    return options.open_source(Arc::new(view), file.name());
                }
                Ok(None) => {}
                // The error of the file's own format is the most useful one.
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        let none = || crate::rules::NO_METATENSOR.broken("this build writes no format");
        Err(refused.unwrap_or_else(none).in_source(file.name()))
    }

    /// Returns the description of a tensor of the view, and the source of the bytes of each component.
    fn parts(&self, work: Work, file: &File) -> Result<(TensorSpec, Vec<From>)> {
        match work {
            Work::Copied(tensor, target) => {
                let mut spec = unchanged_item(&tensor)?.spec;
                spec.name = target;
                let same = |c: Component| From::Same(tensor.clone(), c.role);
                let parts = tensor.components().map(same).collect();
                Ok((spec, parts))
            }
            Work::Flat(flat) => {
                let parts = match flat.spec.components.len() {
                    1 => vec![From::Flat(flat.clone())],
                    _ => {
                        let tensor = flat.tensor().cloned();
                        let roles = flat.spec.components.iter().map(|c| c.role.clone());
                        let same = |role| tensor.clone().map(|tensor| From::Same(tensor, role));
                        roles.filter_map(same).collect()
                    }
                };
                Ok((flat.spec, parts))
            }
            Work::Records(job) => {
                let name = job.name.clone();
                let made = self.records(*job);
                made.map_err(|e| e.in_tensor(name).in_source(file.name()))
            }
        }
    }

    fn records(&self, job: Job) -> Result<(TensorSpec, Vec<From>)> {
        let (records, schema) = (&job.records, &job.to.schema);
        let is_at_hand =
            records.heap().is_some() || !job.resolution.converts_heap(records.schema());
        if job.resolution.keeps_heap(schema) && is_at_hand {
            let kept = job.resolution.kept(records.0.heap.len(), &job.converters)?;
            let tail = Bytes::from(kept.tail.clone());
            let spec = job.spec(records.0.heap.len().saturating_add(tail.len() as u64))?;
            let stride = spec.components[0].decoded_len.checked_div(records.len()).unwrap_or(0);
            let Job { records, resolution, converters, .. } = job;
            let heap = From::Heap(records.clone(), tail);
            let each = Each { records, resolution, converters, kept, stride };
            return Ok((spec, vec![From::Records(Box::new(each)), heap]));
        }
        let (folder, work) = (std::env::temp_dir(), holdall_io::Work::new());
        let (name, kind, count) = (&job.target, &job.to.json, records.len());
        let mut writer = DatasetWriter::new(name, kind, &folder, &self.limits, &work)?;
        writer.migrate(records, 0..count, &job.resolution, &job.converters)?;
        let spools: Vec<Spool> = FinishedTensor::from(writer)
            .components
            .into_iter()
            .map(|(_, _, spool)| spool)
            .collect();
        let spec = job.spec(spools.get(1).map_or(0, Spool::len))?;
        Ok((spec, spools.into_iter().map(|spool| From::Spooled(Mutex::new(spool))).collect()))
    }
}

/// The source of the bytes of a component.
enum From {
    Same(Tensor, Role),
    Flat(Box<Flat>),
    Records(Box<Each>),
    /// The heap of records, and the bytes that follow it.
    Heap(Records, Bytes),
    Spooled(Mutex<Spool>),
}

/// Records that are converted one by one.
struct Each {
    records: Records,
    resolution: Resolution,
    converters: Converters<'static>,
    kept: HeapDefaults,
    stride: u64,
}

impl From {
    fn range(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            From::Same(tensor, role) => tensor.bytes_range(role, range),
            From::Flat(flat) => flat.range(range).map_err(|e| match flat.tensor() {
                Some(tensor) => e.in_tensor(tensor.name()).in_source(tensor.file().name()),
                None => e,
            }),
            From::Records(each) => each.range(range),
            From::Heap(records, tail) => {
                let old = &records.0.heap;
                let (start, end) = (range.start.min(old.len()), range.end.min(old.len()));
                let after = |at: u64| at.saturating_sub(old.len()).min(tail.len() as u64) as usize;
                let rest = tail.slice(after(range.start)..after(range.end));
                if start == end {
                    return Ok(rest);
                }
                let first = old.shared(start..end)?;
                if rest.is_empty() {
                    return Ok(first);
                }
                Ok([&*first, &*rest].concat().into())
            }
            From::Spooled(spool) => {
                let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(spool.range(range)?.into())
            }
        }
    }
}

impl Each {
    fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let (first, end) = (range.start / self.stride, range.end.div_ceil(self.stride));
        let (old_stride, new_stride) = (self.records.0.stride, self.stride as usize);
        let old = self.records.run(first..end)?;
        let mut out = vec![0; (end - first) as usize * new_stride];
        let heap = self.records.heap().unwrap_or_default();
        let placed = |e: Error, at: usize| self.records.in_record(e, first + at as u64);
        let mut migrator = self.resolution.migrator(&self.converters)?.over(&self.kept);
        let (from, to) = (self.resolution.from_size(), self.resolution.to_size());
        let slots = out.chunks_exact_mut(new_stride);
        for (at, (record, slot)) in old.chunks_exact(old_stride).zip(slots).enumerate() {
            // Sizes are not larger than strides.
            let (record, slot) = (&record[..from], &mut slot[..to]);
            migrator.record(record, heap, slot, &mut Nothing).map_err(|e| placed(e, at))?;
        }
        let start = (range.start - first * self.stride) as usize;
        Ok(Bytes::from(out).slice(start..start + (range.end - range.start) as usize))
    }
}

/// A heap to which nothing is added, because entries are not changed.
struct Nothing;

impl holdall_schema::Heap for Nothing {
    fn append(&mut self, bytes: &[u8], _: u32) -> Result<u64> {
        let rule = &holdall_schema::evolve::rules::VALUE;
        Err(rule.broken(format!("{} bytes were added to a heap that must not change", bytes.len())))
    }
}

/// The layout of a file: the bytes before its components, the ranges of the components, and the bytes after them.
struct Laid {
    head: Bytes,
    /// The ranges by tensor, in the given order.
    components: Vec<Vec<Range<u64>>>,
    end: u64,
    tail: Bytes,
}

/// Computes the layout of a file in `format`. Returns `None` if the format cannot be written.
fn laid_out(
    format: &'static Format,
    attributes: &holdall_core::Attributes,
    specs: &[TensorSpec],
) -> Result<Option<Laid>> {
    let Some(encode) = format.encode else { return Ok(None) };
    let mut encoder = encode(&holdall_core::EncodeOptions::new())?;
    encoder.check_attributes(attributes)?;
    specs.iter().try_for_each(|spec| encoder.check_tensor(spec))?;
    let order = encoder.order(specs);
    let ordered: Vec<TensorSpec> = order.iter().map(|at| specs[*at].clone()).collect();
    let head = encoder.begin(attributes, &ordered)?;
    let mut end = head.len() as u64;
    let mut placed: Vec<Vec<Range<u64>>> = vec![Vec::new(); specs.len()];
    for (at, spec) in order.into_iter().zip(&ordered) {
        for (c, component) in spec.components.iter().enumerate() {
            let start = encoder.next_offset(end, spec, c)?;
            let range = start..start.saturating_add(component.decoded_len);
            end = range.end;
            let stored = Stored { range: range.clone(), encoding: Encoding::Raw, digest: None };
            encoder.component_written(spec, c, stored)?;
            placed[at].push(range);
        }
    }
    let tail = encoder.finish(end)?;
    Ok(Some(Laid { head, components: placed, end, tail }))
}

/// The bytes of a file that is computed on demand.
struct View {
    laid: Laid,
    /// Non-empty runs of bytes, sorted by offset.
    runs: Vec<(Range<u64>, From)>,
    hints: ReadHints,
}

impl View {
    fn new(mut laid: Laid, sources: Vec<Vec<From>>, file: &File) -> View {
        let ranges = std::mem::take(&mut laid.components);
        let mut runs = Vec::new();
        for (ranges, sources) in ranges.into_iter().zip(sources) {
            runs.extend(ranges.into_iter().zip(sources));
        }
        runs.retain(|(range, _)| !range.is_empty());
        runs.sort_by_key(|(range, _)| range.start);
        let mut hints =
            file.all_sources().first().map_or(ReadHints::DISK, |source| source.read_hints());
        hints.access = Access::Copied;
        View { laid, runs, hints }
    }

    fn range(&self, range: &Range<u64>) -> Result<Bytes> {
        holdall_io::source::check_range(range, self.len())?;
        let first = self.runs.partition_point(|(run, _)| run.end <= range.start);
        let runs = self.runs.get(first..).unwrap_or_default();
        if let Some((run, from)) = runs.first()
            && run.start <= range.start
            && range.end <= run.end
            && !range.is_empty()
        {
            return from.range(range.start - run.start..range.end - run.start);
        }
        let mut out = vec![0; (range.end - range.start) as usize];
        let mut put = |at: u64, bytes: &[u8]| {
            let start = at.max(range.start);
            let end = (at + bytes.len() as u64).min(range.end);
            if start < end {
                let to = (start - range.start) as usize..(end - range.start) as usize;
                out[to].copy_from_slice(&bytes[(start - at) as usize..(end - at) as usize]);
            }
        };
        put(0, &self.laid.head);
        put(self.laid.end, &self.laid.tail);
        for (run, from) in runs.iter().take_while(|(run, _)| run.start < range.end) {
            let (start, end) = (run.start.max(range.start), run.end.min(range.end));
            put(start, &from.range(start - run.start..end - run.start)?);
        }
        Ok(out.into())
    }
}

impl ByteSource for View {
    fn len(&self) -> u64 {
        self.laid.end.saturating_add(self.laid.tail.len() as u64)
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.range(range)).collect()
    }

    fn read_hints(&self) -> ReadHints {
        self.hints
    }
}
