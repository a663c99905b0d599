//! Converts a file into another format, version, encoding or alignment, in bounded memory.

mod expected;
#[cfg_attr(not(feature = "onnx"), path = "convert/no_graph.rs")]
mod graph;
mod refusals;
mod report;
mod scaled;
mod schema;
pub(crate) mod shards;
mod source;

pub use schema::{infer_schema, schema, schema_of_tensors};

use crate::delta::{self, NOT_MODEL};
use crate::form::{FormRule, Forming, ReformedTensor, Reforms, TensorForm};
use crate::repack::{SparseForms, attributes_of_elements, is_sparse};
use expected::is_made_dense;
use holdall_core::layout::cast::{FloatType, Overflow};
use holdall_core::layout::number::ElementType;
use holdall_core::ledger::{Expected, Record};
use holdall_core::{
    Attributes, DType, Encode, Layout, LogicalType, Remedy, Result, TensorSpec, Value, Warning,
};
use holdall_formats::shards::{PART, SPLIT};
use holdall_io::Work;
use holdall_io::error::{SCALED, SHARDS_TARGET};
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::ledger;
use holdall_io::select::{Cast, CastCount, Casts, Rename, Select};
use holdall_io::sink::{FileSink, Sink, StreamSink};
use holdall_io::{File, Tensor, check_described, planes};
use holdall_io::{WriteOptions, Writer};
use refusals::{Refusals, target_error};
use report::{report, report_changes, report_stored};
use shards::Shards;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Options of a conversion.
#[derive(Debug, Clone)]
pub struct Convert {
    write: WriteOptions,
    keep_encoding: bool,
    select: Select,
    renames: Vec<Rename>,
    sharing: Sharing,
    dense: bool,
    described: bool,
    raw_types: bool,
    drop_attributes: bool,
    attributes: Option<Attributes>,
    casts: Casts,
    reforms: Reforms,
    max_shard_len: Option<u64>,
    max_shard_tensors: Option<u64>,
    #[cfg_attr(not(feature = "onnx"), allow(dead_code))]
    graph: Option<File>,
    #[cfg_attr(not(feature = "onnx"), allow(dead_code))]
    external: ExternalData,
}

/// The tensors of an ONNX model that are stored in an external data file next to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ExternalData {
    /// The tensors that are external in the source; if the model has 2 GiB or more, all tensors of at least 1
    /// KiB.
    #[default]
    AsItIs,
    /// Tensors of at least this many bytes.
    AtLeast(u64),
    /// No tensors.
    None,
}

impl Convert {
    /// Creates options that keep everything as it is in the source, except for what `write` sets. Components
    /// keep their encoding; see [`Convert::reencode`].
    pub fn new(write: WriteOptions) -> Convert {
        Convert {
            write,
            keep_encoding: true,
            select: Select::all(),
            renames: Vec::new(),
            sharing: Sharing::Keep,
            dense: false,
            described: false,
            raw_types: false,
            drop_attributes: false,
            attributes: None,
            casts: Casts::default(),
            reforms: Reforms::default(),
            max_shard_len: None,
            max_shard_tensors: None,
            graph: None,
            external: ExternalData::default(),
        }
    }

    /// Re-encodes every component with the encoding of the write options (raw by default, or zstd) instead of
    /// copying compressed components as they are.
    pub fn reencode(mut self) -> Convert {
        self.keep_encoding = false;
        self
    }

    /// Writes only the selected tensors.
    pub fn with_select(mut self, select: Select) -> Convert {
        self.select = select;
        self
    }

    /// Renames tensors: the first rule that matches a name applies.
    pub fn with_renames(mut self, renames: Vec<Rename>) -> Convert {
        self.renames = renames;
        self
    }

    /// Sets how components with identical bytes are written.
    pub fn with_sharing(mut self, sharing: Sharing) -> Convert {
        self.sharing = sharing;
        self
    }

    /// Writes every tensor as a dense one: sparse tensors with their zeros, quantized tensors as `f32`, and
    /// tensors of described layouts with the type that their description gives. A quantized weight that the
    /// source stores as several tensors is written under its own name, as [`File::dequantized`] has it, and
    /// without those tensors. Tensors are converted piece by piece.
    pub fn with_dense(mut self) -> Convert {
        self.dense = true;
        self
    }

    /// Writes each quantized weight that the source stores as several tensors as one tensor of the layout `quantized.KIND`, whose
    /// components are those tensors, unchanged, as [`File::described`] has it. The target must be zTensor 1.2. A later
    /// conversion into another format writes the stored tensors again.
    pub fn with_described(mut self) -> Convert {
        self.described = true;
        self
    }

    /// Writes tensors in the form `to`: sparse where that is smaller, or quantized if they hold floats and
    /// have at least two dimensions. Other tensors, and tensors that match a pattern of
    /// [`Convert::with_forms`], are not changed by this rule. Tensors are converted piece by piece; a tensor
    /// that becomes sparse is read several times. [`ConvertReport::reformed`] lists the changed tensors, with
    /// the error of quantizing.
    pub fn with_form(self, to: TensorForm) -> Convert {
        self.with_forms([FormRule::all(to)])
    }

    /// Writes tensors in the forms that `rules` give: the first rule whose pattern matches the tensor's name
    /// in the source applies, otherwise the rule without a pattern. Patterns skip the same tensors as
    /// [`Convert::with_form`]; a tensor that is given by its exact name gets the form or causes an error.
    pub fn with_forms(mut self, rules: impl IntoIterator<Item = FormRule>) -> Convert {
        self.reforms.extend(rules);
        self
    }

    /// Rounds dense float tensors to the type `to`, to nearest, ties to even. Other tensors, and tensors that
    /// match a pattern of [`Convert::with_dtypes`], are not changed by this rule.
    /// [`ConvertReport::overflowed`] counts the numbers that overflow.
    pub fn with_dtype(self, to: FloatType) -> Convert {
        self.with_dtypes([Cast::all(to)])
    }

    /// Rounds dense float tensors to the types that `rules` give: the first rule whose pattern matches the
    /// tensor's name in the source applies, otherwise the rule without a pattern. Patterns skip tensors that
    /// do not hold floats; such a tensor given by its exact name is an error. Compressed tensors get the
    /// encoding of the write options.
    pub fn with_dtypes(mut self, rules: impl IntoIterator<Item = Cast>) -> Convert {
        self.casts.extend(rules);
        self
    }

    /// Sets how numbers out of the range of their new type are converted.
    pub fn with_overflow(mut self, overflow: Overflow) -> Convert {
        self.casts.set_overflow(overflow);
        self
    }

    /// Writes logical types that the target lacks as their storage elements: a complex tensor gets a last
    /// dimension of 2, and elements of fewer than 8 bits become bytes.
    pub fn with_raw_types(mut self) -> Convert {
        self.raw_types = true;
        self
    }

    /// Leaves out attributes of the file and of tensors that the target cannot hold.
    pub fn with_drop_attributes(mut self) -> Convert {
        self.drop_attributes = true;
        self
    }

    /// Gives the target these file attributes instead of the source's.
    pub fn with_attributes(mut self, attributes: Attributes) -> Convert {
        self.attributes = Some(attributes);
        self
    }

    /// Writes a folder of shards with at most `bytes` bytes of tensors each, as the Hugging Face hub stores
    /// models in several files. Shards are filled greedily, in the order of the source; a larger tensor gets
    /// its own shard, and tensors that share their bytes stay together. The files are
    /// `model-00001-of-00003.safetensors` and so on with `model.safetensors.index.json`, or the parts of a
    /// split GGUF file, in the format of the write options or of the folder's extension, by default
    /// safetensors; if everything fits, there is only `model.safetensors`. The folder appears when it is
    /// complete.
    pub fn with_max_shard_len(mut self, bytes: u64) -> Convert {
        self.max_shard_len = Some(bytes);
        self
    }

    /// Writes a folder of shards with at most `count` tensors each (at least one), alone or together with
    /// [`Convert::with_max_shard_len`]. Tensors that share their bytes stay together.
    pub fn with_max_shard_tensors(mut self, count: u64) -> Convert {
        self.max_shard_tensors = Some(count);
        self
    }

    /// Returns the limits of each shard as `(bytes, tensors)`, or `None` if the target is one file.
    fn shard_limits(&self) -> Option<(u64, u64)> {
        let is_limited = self.max_shard_len.is_some() || self.max_shard_tensors.is_some();
        let or_all = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        is_limited.then(|| (or_all(self.max_shard_len), or_all(self.max_shard_tensors)))
    }

    /// Writes the tensors into the graph of the ONNX model `graph` and keeps the rest of the graph unchanged;
    /// the target is ONNX. By default a model is written into its own graph. Types stay those of the graph,
    /// except where [`Convert::with_dtypes`] changes them: the graph then casts back to the type it expects.
    pub fn with_graph(mut self, graph: File) -> Convert {
        self.graph = Some(graph);
        self
    }

    /// Sets which tensors of an ONNX model are written to an external file next to it, `model.onnx.data`.
    pub fn with_external(mut self, external: ExternalData) -> Convert {
        self.external = external;
        self
    }

    /// Sets the threads, the progress callback (in decoded bytes) and the cancellation token, instead of
    /// those of the write options.
    pub fn with_work(mut self, work: Work) -> Convert {
        self.write.work = work;
        self
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// Number of tensors written.
    pub tensors: u64,
    /// Number of their components that share the bytes of another component.
    pub shared: u64,
    /// Decoded bytes of all components that do not share the bytes of another.
    pub decoded_len: u64,
    /// Length of the source in bytes.
    pub source_len: u64,
    /// Length of the target in bytes; 0 for a dry run.
    pub target_len: u64,
    /// Contents of the source that the target lacks without a request to drop them, in words: data that this
    /// version does not know, data that the target cannot hold, attributes dropped under
    /// [`Convert::with_drop_attributes`].
    pub left_behind: Vec<String>,
    /// Warnings about the source that concern the written tensors, and one (`convert/not-formed`) with the
    /// number of tensors that a pattern for blocks skipped because their rows are not a whole number of
    /// blocks.
    pub warnings: Vec<Warning>,
    /// Number of tensors whose elements were rounded or widened to another float type.
    pub cast: u64,
    /// Number of elements that overflowed: finite numbers out of the range of the new type, and infinities if
    /// the type has none. They became infinite, NaN if the type has no infinities, or the largest number, as
    /// set by [`Convert::with_overflow`].
    pub overflowed: u64,
    /// The tensors that contain overflowed elements.
    pub overflows: Vec<Overflowed>,
    /// Number of tensors that were written in byte planes; 0 for a dry run.
    pub in_planes: u64,
    /// Number of other tensors of which a component was compressed; 0 for a dry run.
    pub compressed: u64,
    /// The tensors that became sparse or quantized; for a dry run, without the errors.
    pub reformed: Vec<ReformedTensor>,
    /// The quantized weights that became dense, with the tensors that stored them.
    pub dequantized: Vec<DequantizedWeight>,
    /// Names of the files in the written folder, or of an ONNX model and its external file; empty for a
    /// single file.
    pub files: Vec<String>,
}

impl ConvertReport {
    /// Creates the report of a conversion that has not written anything yet.
    pub(crate) fn empty(file: &File) -> ConvertReport {
        report(file.index().source_len(), Vec::new(), &[], 0)
    }

    /// Creates the report of a conversion that reads no tensors.
    pub(crate) fn without_source() -> ConvertReport {
        report(0, Vec::new(), &[], 0)
    }
}

/// A quantized weight of several tensors that was written as one dense tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DequantizedWeight {
    /// The name of the weight in the source.
    pub name: String,
    /// The name of the weight's kind.
    pub kind: &'static str,
    /// The names of the tensors that the target does not have, because their content is in the values.
    pub applied: Vec<String>,
    /// The names of the tensors that the target does not have although they do not change the values: scales
    /// of activations.
    pub dropped: Vec<String>,
}

/// A tensor with numbers that overflowed when they were rounded to another type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overflowed {
    /// The tensor's name in the target.
    pub name: String,
    /// The type of the elements in the source.
    pub from: ElementType,
    /// The type of the elements in the target.
    pub to: FloatType,
    /// Number of elements that overflowed.
    pub count: u64,
}

/// Writes the contents of `file` to `path`, which appears when it is complete: a file, or a folder of shards
/// ([`Convert::with_max_shard_len`], [`Convert::with_max_shard_tensors`]).
///
/// # Errors
/// Before anything is written: Unsupported, naming the tensors that the target cannot hold and possible
/// remedies; Misuse if `path` exists. While writing: Integrity or Malformed if the source's bytes are wrong;
/// Io. After any error, the previous contents of `path` are unchanged.
pub fn convert(file: &File, path: impl AsRef<Path>, options: &Convert) -> Result<ConvertReport> {
    let path = path.as_ref();
    let file = &options.source(file, path)?;
    let mut prepared = prepare(file, path, options)?;
    if prepared.shards.is_some() {
        return shards::write(file, path, prepared);
    }
    if let Some(into) = prepared.into.take() {
        return graph::write(file, path, into, prepared);
    }
    let sink = FileSink::create(path, prepared.write.overwrite, prepared.write.durability)?;
    run(file, sink, prepared).map(|(report, ())| report)
}

/// Writes the contents of `file` to the stream `to`. The options must name the format.
///
/// # Errors
/// Returns the same errors as [`convert`]; bytes written before an error stay written.
pub fn convert_to<W: Write>(file: &File, to: W, options: &Convert) -> Result<(ConvertReport, W)> {
    if options.shard_limits().is_some() {
        return Err(SHARDS_TARGET.broken("a stream is not a folder"));
    }
    let file = &options.source(file, Path::new("-"))?;
    let prepared = prepare(file, Path::new("-"), options)?;
    if let Some(into) = &prepared.into {
        into.check_stream(&prepared.items)?;
    }
    run(file, StreamSink::new(to), prepared)
}

/// Runs all checks of [`convert`] without writing. Returns the tensors that it would write, in order, and the
/// report.
///
/// # Errors
/// Returns the same errors as [`convert`], before anything is written.
pub fn plan(
    file: &File,
    path: impl AsRef<Path>,
    options: &Convert,
) -> Result<(Vec<TensorSpec>, ConvertReport)> {
    let path = path.as_ref();
    let file = &options.source(file, path)?;
    let Prepared { items, write, casts, forming, warnings, shards, expected, .. } =
        prepare(file, path, options)?;
    let mut report = report(file.index().source_len(), warnings, &items, 0);
    report.dequantized = options.dequantized(file);
    let mut record = Record::new(Some(write.attributes));
    items.iter().for_each(|item| record.add(Arc::new(item.spec.clone())));
    report.left_behind = ledger::close(file, &record, &expected)?;
    report.cast = casts.len() as u64;
    report.reformed = forming.into_iter().map(|(name, form)| form.report(name)).collect();
    report.files = shards.map(|shards| shards.files()).unwrap_or_default();
    Ok((items.into_iter().map(|i| i.spec).collect(), report))
}

struct Prepared {
    items: Vec<Item>,
    encoder: Box<dyn Encode>,
    write: WriteOptions,
    /// Tensors that are cast to another type, by their names in the target.
    casts: Vec<(String, CastCount)>,
    /// Tensors that get another form, by their names in the target.
    forming: Vec<(String, Forming)>,
    /// Warnings about the source that concern the items.
    warnings: Vec<Warning>,
    /// The assignment of items to shards, if the target is a folder.
    shards: Option<Shards>,
    /// The ONNX graph that the tensors are written into, if any.
    into: Option<graph::Into>,
    /// The quantized weights that become dense.
    dequantized: Vec<DequantizedWeight>,
    /// The changes that were requested, for the ledger.
    expected: Expected,
}

/// Plans the conversion and checks everything that can be checked before writing.
fn prepare(file: &File, path: &Path, options: &Convert) -> Result<Prepared> {
    if file.is_single_part() {
        let message = "this is one part of a split model, and the other parts cannot be found from bytes alone";
        let hint = "open the first part by its path, in the folder with the other parts";
        return Err(SPLIT.broken(message).with_hint(hint).in_source(file.name()));
    }
    #[cfg(feature = "carton")]
    if file.warnings().iter().any(|w| w.code == holdall_package::warnings::LINKED_INDEX) {
        // Without the table, the tensors are unknown, and none would be written.
        let message = "the table of tensors is not in the package, which only links to it";
        let rule = &holdall_package::rules::NOT_HERE;
        return Err(rule.broken(message).in_source(file.name()));
    }
    let mut write = options.write.clone();
    write.attributes = options.attributes_of(file, write.format_for(path).ok());
    if options.shard_limits().is_some() {
        write = shards::check(file, path, write)?;
        write.attributes = options.attributes_of(file, write.format_for(path).ok());
    }
    let into = graph::graph_target(file, path, options)?;
    let encoder = match &into {
        Some(into) => into.encoder(),
        None => write.encoder(write.format_for(path)?)?,
    };
    if let Ok(format) = write.format_for(path) {
        write = write.with_format(format);
    }
    if options.drop_attributes {
        let alone = |(key, value): (&str, &Value)| {
            let one = Attributes::from_iter([(key.to_owned(), value.clone())]);
            encoder.check_attributes(&one).is_ok().then(|| (key.to_owned(), value.clone()))
        };
        write.attributes = write.attributes.iter().filter_map(alone).collect();
    }
    options.casts.check(file)?;
    options.reforms.check(file)?;
    let format = write.format_for(path).ok();
    let expected = options.expected(file, &*encoder, format, into.as_ref())?;
    if delta::is_delta(file) {
        return Err(NOT_MODEL
            .broken("the file is a delta between two models")
            .in_source(file.name()));
    }
    let forms = SparseForms::for_encoder(&*encoder);
    let mut items = Vec::new();
    let mut casts = Vec::new();
    let mut forming = Vec::new();
    let mut over: Option<Warning> = None;
    let mut refused = Refusals::default();
    let mut tensors = options.select.tensors(file)?;
    // Sorted by offset, so that the source is read from front to back.
    if !file.has_order() {
        tensors.sort_by_key(|t| t.components().map(|c| c.stored).min().unwrap_or_default());
    }
    for tensor in tensors {
        if into.as_ref().is_some_and(|into| into.stays(&tensor)) {
            continue;
        }
        if let Some(e) = tensor.fault() {
            refused.add(e.with_remedy(Remedy::LeaveOut));
            continue;
        }
        if let Some(e) = options.scaled_weight_error(&tensor) {
            refused.add(e);
            continue;
        }
        if let Err(e) = holdall_io::items::check_available(&tensor) {
            refused.add(e.with_remedy(Remedy::LeaveOut));
            continue;
        }
        let (mut item, formed) = match options.reforms.item(&tensor, &options.write.work)? {
            Some((item, formed)) => (item, Some(formed)),
            None => {
                match (&mut over, options.reforms.unchanged_warning(&tensor)) {
                    (Some(first), Some(_)) => first.count += 1,
                    (None, Some(first)) => over = Some(first),
                    (_, None) => {}
                }
                (item(&tensor, &*encoder, &forms, options)?, None)
            }
        };
        if let Some(name) = options.renames.iter().find_map(|r| r.apply(tensor.name())) {
            item.spec.name = name;
        }
        let cast = match options.casts.apply(&tensor, &mut item) {
            Err(e) if e.code() == SCALED.code => {
                refused.add(e);
                continue;
            }
            cast => cast?,
        };
        let is_asked_for = cast.is_some();
        if let Some(count) = cast {
            casts.push((item.spec.name.clone(), count));
        }
        if let Some(formed) = formed {
            forming.push((item.spec.name.clone(), formed));
        }
        if options.drop_attributes {
            drop_tensor_attributes(&mut item.spec, &*encoder);
        }
        if let Some(into) = &into {
            into.set_attributes(&mut item.spec);
        }
        if options.raw_types && encoder.check_tensor(&item.spec).is_err() {
            drop_logical_types(&mut item.spec);
        }
        let unasked = into.as_ref().filter(|_| !is_asked_for);
        match encoder.check_tensor(&item.spec) {
            Ok(()) => match unasked.and_then(|into| into.wrong_type(&item.spec)) {
                None => items.push(item),
                Some(e) => refused.add_tensor(e, item.spec),
            },
            Err(e) if tensor.description().is_some() => {
                refused.add_tensor(e.with_remedy(Remedy::MakeDense), item.spec);
            }
            Err(e) => refused.add_tensor(e, item.spec),
        }
    }
    let attributes = encoder.check_attributes(&write.attributes).err();
    refused.finish(file, &write, attributes, &items, options.dense)?;
    if let Some(into) = &into {
        items.extend(into.kept(&items)?);
    }
    items::check_names(&items).map_err(|e| e.in_source(file.name()))?;
    let specs = items.iter().map(|item| &item.spec);
    let specs = specs.map(|spec| (spec.name.as_str(), &spec.layout, &spec.attributes));
    check_described(specs, &write.attributes).map_err(|e| e.in_source(file.name()))?;
    if options.keep_encoding && encoder.can_compress() {
        items.iter_mut().for_each(|item| item.keep = CopyMode::Encoding);
    }
    let order: Vec<String> = items.iter().map(|item| item.spec.name.clone()).collect();
    let items =
        items::arrange(items, &*encoder, options.sharing).map_err(|e| target_error(e, &write))?;
    let shards = match options.shard_limits() {
        Some(most) => Some(Shards::new(&order, &items, most, write.format_for(path)?)?),
        None => None,
    };
    let mut warnings = file.index().warnings_of(&|name| options.select.selects(name));
    warnings.extend(over);
    warnings.extend(items::warnings(&*encoder, items.iter().map(|item| &item.spec)));
    warnings.extend(file.warnings().iter().filter(|warning| warning.code == PART).cloned());
    let dequantized = options.dequantized(file);
    Ok(Prepared {
        items,
        encoder,
        write,
        casts,
        forming,
        warnings,
        shards,
        into,
        dequantized,
        expected,
    })
}

fn run<S: Sink>(
    file: &File,
    sink: S,
    Prepared { items, encoder, write, casts, forming, warnings, dequantized, expected, .. }: Prepared,
) -> Result<(ConvertReport, S::Done)> {
    let mut report = report(file.index().source_len(), warnings, &items, 0);
    report.dequantized = dequantized;
    write.work.begin(report.decoded_len);
    let writer = write_items(file, sink, encoder, &write, items)?;
    let finished = writer.close().map_err(|e| target_error(e, &write).in_source(file.name()))?;
    report.left_behind = ledger::close(file, finished.record(), &expected)?;
    report_stored(&mut report, finished.record());
    report.target_len = finished.len();
    let done = finished.publish()?;
    report_changes(&mut report, casts, forming);
    Ok((report, done))
}

/// Returns the decoded bytes of the item, without components that share the bytes of another.
fn len_of(item: &Item) -> u64 {
    let own = item.spec.components.iter().filter(|c| c.shares.is_none());
    own.fold(0, |n, c| n.saturating_add(c.decoded_len))
}

/// Writes the tensors of one file, but does not close the writer.
fn write_items<S: Sink>(
    file: &File,
    sink: S,
    encoder: Box<dyn Encode>,
    write: &WriteOptions,
    items: Vec<Item>,
) -> Result<Writer<S>> {
    let mut writer = Writer::new(sink, encoder, write);
    let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
    // An error about a tensor that cannot be written names the source file.
    writer.declare(&specs).map_err(|e| target_error(e, write).in_source(file.name()))?;
    drop(specs);
    items::write(&mut writer, items, &write.work)?;
    Ok(writer)
}

impl Convert {
    /// Returns `true` if the write options ask for planes of a tensor. One that is in planes gets new ones where the encoding of
    /// each is chosen again. One that is cast is written in planes by the writer, once it has its new type.
    fn makes_planes(&self, tensor: &Tensor) -> bool {
        let has_elements = match tensor.layout() {
            Layout::Dense | Layout::Strided => true,
            Layout::Planes(_) => self.write.has_smallest(),
            _ => false,
        };
        let is_cast = self.casts.target(tensor.name()).is_some();
        self.write.has_planes() && has_elements && !is_cast
    }
}

/// Returns the item for a tensor: how it is written, and the sources of its bytes.
pub(crate) fn item(
    tensor: &Tensor,
    encoder: &dyn Encode,
    forms: &SparseForms,
    options: &Convert,
) -> Result<Item> {
    let in_planes = match options.makes_planes(tensor) {
        true if options.write.has_smallest() => planes::smallest_item(tensor)?,
        true => planes::item(tensor, false)?,
        false => None,
    };
    if let Some(item) = in_planes {
        return Ok(item);
    }
    let has_elements =
        || is_sparse(tensor) || tensor.layout().is_computed() || tensor.description().is_some();
    if is_made_dense(tensor.layout()) || (options.dense && has_elements()) {
        return dense_item(tensor);
    }
    let mut item = forms.item(tensor)?;
    if let Layout::Planes(_) = tensor.layout() {
        let is_refused = encoder.check_tensor(&item.spec).is_err();
        let is_cast = options.casts.target(tensor.name()).is_some();
        if is_refused || is_cast || options.dense {
            return dense_item(tensor);
        }
        // Without their encoding, planes would take as much as the dense tensor.
        item.keep = CopyMode::Encoding;
    }
    Ok(item)
}

pub(crate) fn dense_item(tensor: &Tensor) -> Result<Item> {
    let element_type = tensor.dense_type();
    let (dtype, logical) = element_type
        .map_or((DType::F32, None), |element_type| (element_type.dtype, element_type.logical_type));
    tensor.check_dense()?;
    let mut spec = TensorSpec::dense(tensor.name(), dtype, tensor.shape());
    if let Some(t) = logical {
        let len = holdall_core::model::stored_size(tensor.count(), dtype, Some(&t));
        let len = len.ok().flatten().unwrap_or(0);
        if let Some(c) = spec.components.first_mut() {
            (c.logical_type, c.decoded_len) = (Some(t), len);
        }
    }
    spec.attributes = attributes_of_elements(tensor);
    Ok(Item { spec, feeds: vec![ComponentSource::dense(tensor)], keep: CopyMode::Nothing })
}

/// Removes the attributes that the target cannot hold.
fn drop_tensor_attributes(spec: &mut TensorSpec, encoder: &dyn Encode) {
    let mut probe = spec.clone();
    probe.attributes = Attributes::new();
    // The tensor may be refused for other reasons. An attribute is dropped only if adding it changes the
    // result from the result without attributes to a different error.
    let answer = |spec: &TensorSpec| encoder.check_tensor(spec).map_err(|e| e.code());
    let without = answer(&probe);
    let mut kept = Attributes::new();
    for (key, value) in spec.attributes.iter() {
        probe.attributes = Attributes::from_iter([(key.to_owned(), value.clone())]);
        let with = answer(&probe);
        if with.is_ok() || with == without {
            kept.push(key, value.clone());
        }
    }
    spec.attributes = kept;
}

/// Replaces logical types by their storage elements and adjusts the shape of dense tensors to count those.
fn drop_logical_types(spec: &mut TensorSpec) {
    for c in &mut spec.components {
        let Some(t) = c.logical_type.take() else { continue };
        if spec.layout != Layout::Dense {
            continue;
        }
        match t {
            t if t.is_complex() => spec.shape.push(2),
            LogicalType::F4E2M1 | LogicalType::F6E2M3 | LogicalType::F6E3M2 => {
                let bits = t.bits().unwrap_or(8);
                match spec.shape.last_mut() {
                    Some(last) if (*last).saturating_mul(bits).is_multiple_of(8) => {
                        *last = last.saturating_mul(bits) / 8;
                    }
                    _ => spec.shape = vec![c.decoded_len],
                }
            }
            LogicalType::Other(_) => {
                let count = holdall_core::model::element_count(&spec.shape);
                if count.and_then(|n| n.checked_mul(c.dtype.width())) != Some(c.decoded_len) {
                    spec.shape = vec![c.decoded_len / c.dtype.width()];
                }
            }
            _ => {}
        }
    }
}
