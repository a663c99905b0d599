//! Writes files of datasets, blobs and dense tensors.
//!
//! Records and heaps grow at the same time, and formats with the header at the start need all lengths before the first
//! byte is written. Therefore each is kept in an unnamed temporary file in the target's folder, and [`Build::finish`]
//! puts them together: the disk needs room for the data twice.
//!
//! Memory use stays below 128 MiB for any number of cores and records, plus the schema, the longest record with its
//! heap data, and twice the longest line for [`DatasetWriter::lines`].
//!
//! JSON lines are encoded in batches on several threads, each batch with its own heap, and joined in order; the
//! entries of a batch are then shifted by the start of its heap.

mod blob;
#[cfg(feature = "arrow")]
mod columns;
mod dataset;
mod lines;
mod merge;
mod migrate;
mod pending;
mod spool;
#[cfg(feature = "arrow")]
mod table;
mod window;

pub use blob::BlobWriter;
pub use dataset::DatasetWriter;

use super::rules::{NODE, WHICH_CONTENT};
use super::{BLOB, FillOptions, RECORDS, Rows};
use holdall_core::ledger::{Record, TieRule};
use holdall_core::{
    Attributes, ComponentSpec, DType, Encode, Layout, Limits, Remedy, Result, Role, TensorSpec,
    Value as Attribute,
};
use holdall_io::Tensor;
use holdall_io::items::unchanged_item;
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::sink::FileSink;
use holdall_io::{Work, WriteOptions, Writer};
use holdall_json::parse;
use holdall_schema::{
    Content, Document, Node, Path, Root, SCHEMA_ATTRIBUTE, Schema, SchemaLimits, Segment,
    TENSOR_SCHEMA_ATTRIBUTE, normalize, record_schema, record_text,
};
pub(crate) use merge::{Merge, check_block};
use pending::{PendingWriter, PendingWriters};
use serde_json::Value;
pub(crate) use spool::Spool;
use std::io::Read;
use std::path::PathBuf;

/// A file of datasets, blobs and dense tensors under construction, in any format that supports them. Dropping it before
/// [`Build::finish`] leaves no file. Each dataset and blob that it begins must be given to [`Build::add`] or discarded
/// before, or `finish` fails.
///
/// ```no_run
/// # fn main() -> holdall_core::Result<()> {
/// use holdall_io::WriteOptions;
/// use holdall_records::Build;
/// let kind = serde_json::json!({
///     "TypeDef:Struct": ["text", "label"],
///     "required": ["text", "label"],
///     "properties": {"text": {"TypeDef:String": true}, "label": {"TypeDef:Int32": true}},
/// });
/// let mut build = Build::create("train.mt", &WriteOptions::new())?;
/// let mut samples = build.dataset_with_schema("samples", &kind)?;
/// samples.text(br#"{"text": "good", "label": 1}"#)?;
/// build.add(samples)?;
/// build.finish()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the file is only written by `finish`"]
pub struct Build {
    path: PathBuf,
    folder: PathBuf,
    options: WriteOptions,
    schema: Option<FileSchema>,
    limits: SchemaLimits,
    sink: FileSink,
    encoder: Box<dyn Encode>,
    items: Vec<Item>,
    pending: PendingWriters,
}

/// The schema of the file.
struct FileSchema {
    json: Value,
    /// The text that the author wrote.
    text: String,
    compiled: Schema,
}

/// The hint for formats that do not support records and blobs.
const HOLDERS: &str =
    "write Metatensor (`.mt`) or zTensor (`.zt`), which support records and blobs";

/// The result of a [`Build`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildReport {
    /// The number of tensors, including datasets and blobs.
    pub tensors: u64,
    /// The length of the file in bytes.
    pub target_len: u64,
}

/// A dataset or a blob that is complete.
#[must_use = "it is not part of the file until it is passed to `Build::add`"]
pub struct FinishedTensor {
    pending: Option<PendingWriter>,
    kind: String,
    name: String,
    layout: &'static str,
    count: u64,
    pub(crate) components: Vec<(&'static str, DType, Spool)>,
}

impl FinishedTensor {
    /// Returns the description of the tensor: its name, and its components with their lengths.
    pub fn spec(&self) -> TensorSpec {
        let components = self.components.iter().map(|(role, dtype, spool)| {
            ComponentSpec::new(Role::from_name(role), *dtype, spool.len())
        });
        let components = components.collect();
        TensorSpec { components, ..spec(&self.name, self.layout, self.count, self.kind.clone()) }
    }

    /// Returns a reader of the bytes of each component, in the order of [`FinishedTensor::spec`].
    ///
    /// # Errors
    /// Returns an I/O error.
    pub fn into_readers(self) -> Result<Vec<impl Read + Send + Sync + 'static>> {
        self.pending.into_iter().for_each(PendingWriter::resolve);
        self.components.into_iter().map(|(_, _, spool)| spool.reader(Work::default())).collect()
    }
}

impl Build {
    /// Creates a file that appears at `path` when [`Build::finish`] succeeds.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::create`].
    pub fn create(path: impl AsRef<std::path::Path>, options: &WriteOptions) -> Result<Build> {
        let path = path.as_ref();
        let format = options.format_for(path).map_err(|e| e.without_advice().with_hint(HOLDERS));
        let encoder = options.encoder(format?)?;
        let sink = FileSink::create(path, options.overwrite, options.durability)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok(Build {
            path: path.to_owned(),
            folder: folder.unwrap_or_else(|| std::path::Path::new(".")).to_owned(),
            options: options.clone(),
            schema: None,
            limits: Limits::default().schema_limits(),
            sink,
            encoder,
            items: Vec::new(),
            pending: PendingWriters::default(),
        })
    }

    /// Sets the schema of the file. [`Build::dataset`] and [`Build::blob`] look up their kinds in it, and it is written
    /// to the file.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules.
    pub fn with_schema(self, schema: &Value) -> Result<Build> {
        self.with_text(&schema.to_string())
    }

    /// Sets the schema of the file like [`Build::with_schema`], and writes its original text, with the order of all
    /// keywords.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules.
    pub fn with_document(self, schema: &Document) -> Result<Build> {
        self.with_text(&schema.text).map_err(|e| e.in_source(&schema.name))
    }

    pub(crate) fn with_text(mut self, text: &str) -> Result<Build> {
        let json = parse(text.as_bytes(), self.limits.depth).and_then(normalize)?;
        let compiled = Schema::compile(&json, &self.limits)?;
        self.options.attributes.set(SCHEMA_ATTRIBUTE, Attribute::Text(text.to_owned()));
        self.encoder.check_attributes(&self.options.attributes)?;
        self.schema = Some(FileSchema { json, text: text.to_owned(), compiled });
        Ok(self)
    }

    /// Sets the limits for schemas and records.
    pub fn with_limits(mut self, limits: SchemaLimits) -> Build {
        self.limits = limits;
        self
    }

    /// Begins the dataset that the schema has at the path `name`. Call [`Build::add`] with it when its records have
    /// been added, or [`DatasetWriter::discard`]; otherwise [`Build::finish`] fails. Several datasets can be filled at
    /// the same time, on several threads.
    ///
    /// # Errors
    /// Returns `records/node` if the schema has no dataset at this path, an error of the `schema/…` rules if the schema
    /// is invalid, or an unsupported error if the format has no datasets.
    pub fn dataset(&self, name: &str) -> Result<DatasetWriter> {
        let (schema, pointer) = match self.node(name)? {
            (schema, Node::Dataset { pointer, .. }) => (schema, pointer),
            _ => return Err(self.no_node(name, "dataset")),
        };
        let Some(kind) = record_schema(&schema.json, pointer) else {
            return Err(self.no_node(name, "dataset"));
        };
        let text = record_text(&kind, &schema.text, pointer, self.limits.depth);
        Ok(self.dataset_with_schema(name, &kind)?.with_schema_text(text))
    }

    /// Begins a dataset with this schema of a record. The keywords and properties of a JSON value are sorted;
    /// [`Build::dataset_from_document`] keeps their order.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules if the schema is invalid, or an unsupported error if the format has no
    /// datasets.
    pub fn dataset_with_schema(&self, name: &str, kind: &Value) -> Result<DatasetWriter> {
        let kind = normalize(kind.clone())?;
        self.check_format(name, RECORDS, &kind)?;
        DatasetWriter::new(name, &kind, &self.folder, &self.limits, &self.options.work)
            .map(|dataset| dataset.with_pending(self.pending.register(name)))
            .map_err(|e| e.in_tensor(name))
    }

    /// Begins the dataset that `schema` describes. The dataset for a schema of a record is at `path`, or called
    /// `records`. A schema of a file is also written to the new file; it contains the dataset's path itself, and `path`
    /// chooses one of several datasets.
    ///
    /// # Errors
    /// Returns `records/which-dataset`, and the errors of [`Build::with_schema`] and [`Build::dataset`].
    pub fn dataset_from_document(
        self,
        schema: &Document,
        path: Option<&str>,
    ) -> Result<(Build, DatasetWriter)> {
        let own = |e: holdall_core::Error| e.in_source(&schema.name);
        match schema.schema.root() {
            Root::Record(_) => {
                let dataset = self.dataset_with_schema(path.unwrap_or(RECORDS), &schema.json);
                let dataset = dataset.map_err(own)?.with_vocabulary(schema.vocabulary.clone());
                let dataset = dataset.with_schema_text(schema.normal_text());
                Ok((self, dataset))
            }
            Root::References(_) => {
                let (name, _) = schema.dataset(path, &self.limits)?;
                let build = self.with_document(schema)?;
                let dataset = build.dataset(&name).map_err(own)?;
                Ok((build, dataset.with_vocabulary(schema.vocabulary.clone())))
            }
        }
    }

    /// Begins the blob that the schema has at the path `name`: see [`Build::dataset`].
    ///
    /// # Errors
    /// Returns `records/node` if the schema has no blob at this path, or an unsupported error if the format has no
    /// blobs.
    pub fn blob(&self, name: &str) -> Result<BlobWriter> {
        match self.node(name)? {
            (_, Node::Blob { content, .. }) => self.blob_with_content(name, *content),
            _ => Err(self.no_node(name, "blob")),
        }
    }

    /// Begins a blob with this content type.
    ///
    /// # Errors
    /// Returns an unsupported error if the format has no blobs.
    pub fn blob_with_content(&self, name: &str, content: Content) -> Result<BlobWriter> {
        self.check_format(name, BLOB, &blob::kind(content))?;
        let blob = BlobWriter::new(name, content, &self.folder, &self.limits);
        Ok(blob.with_pending(self.pending.register(name)))
    }

    /// Begins the blob `name`, with the content type that the file's schema has at this path, otherwise with `content`.
    ///
    /// # Errors
    /// Returns `records/node` if the schema has a blob of another content type at this path, `records/which-content` if
    /// neither the schema nor `content` gives a content type, or an unsupported error if the format has no blobs.
    pub fn blob_for(&self, name: &str, content: Option<Content>) -> Result<BlobWriter> {
        let own = match self.node(name) {
            Ok((_, Node::Blob { content, .. })) => Some(*content),
            _ => None,
        };
        match (own, content) {
            (Some(own), Some(content)) if own != content => {
                let message =
                    format!("the schema has a blob of {own} at this path, not of {content}");
                Err(NODE.broken(message).in_tensor(name))
            }
            (Some(content), _) | (None, Some(content)) => self.blob_with_content(name, content),
            (None, None) => {
                let message = "the content type of the blob is not known";
                Err(WHICH_CONTENT.broken(message).in_tensor(name))
            }
        }
    }

    /// Adds a dataset or a blob.
    ///
    /// # Errors
    /// Returns `write/same-name` if the file already has a tensor of this name, an unsupported error if the format does
    /// not support it, or an I/O error.
    pub fn add(&mut self, part: impl Into<FinishedTensor>) -> Result<()> {
        self.add_with(part, &Attributes::new())
    }

    /// Adds a dataset with a record for each row, as [`DatasetWriter::fill`] and [`Build::add`] do, and returns the
    /// number of rows. Rows that are columns in memory ([`Rows::from_table`]) are not copied to temporary files if all
    /// columns have the types of their members: [`Build::finish`] converts them.
    ///
    /// # Errors
    /// Returns the errors of [`DatasetWriter::fill`] and [`Build::add`].
    pub fn add_rows(
        &mut self,
        dataset: DatasetWriter,
        rows: Rows,
        options: &FillOptions,
    ) -> Result<u64> {
        #[cfg(feature = "arrow")]
        let dataset = match self.add_table(dataset, &rows, options)? {
            Ok(count) => return Ok(count),
            Err(dataset) => dataset,
        };
        let mut dataset = dataset;
        let count = dataset.fill(rows, options)?;
        self.add(dataset)?;
        Ok(count)
    }

    /// Adds a dataset or a blob with further attributes, besides those of the dataset or blob itself.
    pub(crate) fn add_with(
        &mut self,
        part: impl Into<FinishedTensor>,
        attributes: &Attributes,
    ) -> Result<()> {
        let mut part = part.into();
        // Fulfils the obligation even if adding fails, because the error is returned to the caller anyway.
        part.pending.take().into_iter().for_each(PendingWriter::resolve);
        let mut spec = part.spec();
        for (key, value) in attributes.iter() {
            if spec.attributes.get(key).is_none() {
                spec.attributes.push(key, value.clone());
            }
        }
        let feeds = part.components.into_iter().map(|(_, _, spool)| self.feed(spool));
        let feeds = feeds.collect::<Result<_>>()?;
        self.push(Item { spec, feeds, keep: CopyMode::Nothing })
    }

    /// Adds a dataset or a blob with the attributes of `like` besides its own. Its components have the encodings of those
    /// of `like` that have the same roles, as far as the format has them.
    pub(crate) fn add_like(
        &mut self,
        part: impl Into<FinishedTensor>,
        like: &Tensor,
    ) -> Result<()> {
        self.add_with(part, like.attributes())?;
        let Some(item) = self.items.last_mut() else { return Ok(()) };
        let feeds = std::mem::take(&mut item.feeds).into_iter().zip(&item.spec.components);
        let feeds = feeds.map(|(feed, spec)| {
            match (feed, like.components().find(|c| c.role == spec.role)) {
                (ComponentSource::Reader(from), Some(c)) => {
                    ComponentSource::Encoded(from, c.encoding)
                }
                (feed, _) => feed,
            }
        });
        item.feeds = feeds.collect();
        Ok(())
    }

    /// Adds a tensor of any layout. `components` are the decoded bytes of each component that has bytes, in order. The
    /// bytes are kept on disk.
    ///
    /// # Errors
    /// Returns the errors of [`Build::add`], and `write/length` if a component does not have the length that `spec`
    /// states.
    pub fn tensor(&mut self, spec: TensorSpec, components: &[&[u8]]) -> Result<()> {
        let mut bytes = components.iter();
        let mut feeds = Vec::new();
        for component in &spec.components {
            let mut spool = Spool::new(&self.folder);
            if component.shares.is_none() {
                spool.append(bytes.next().copied().unwrap_or_default())?;
            }
            feeds.push(self.feed(spool)?);
        }
        self.push(Item { spec, feeds, keep: CopyMode::Nothing })
    }

    /// Adds a tensor of one component. [`Build::finish`] reads its bytes from `from`.
    ///
    /// # Errors
    /// Returns the same errors as [`Build::add`].
    pub fn tensor_from(
        &mut self,
        spec: TensorSpec,
        from: impl Read + Send + 'static,
    ) -> Result<()> {
        self.fed(spec, ComponentSource::Reader(Box::new(from)))
    }

    /// Adds a copy of a tensor, dataset or blob of an open file.
    ///
    /// # Errors
    /// Returns the same errors as [`Build::add`].
    pub fn copy(&mut self, tensor: &Tensor) -> Result<()> {
        self.copy_as(tensor, tensor.name())
    }

    /// Adds a copy of a tensor, dataset or blob of an open file, under another name.
    ///
    /// # Errors
    /// Returns the same errors as [`Build::add`].
    pub fn copy_as(&mut self, tensor: &Tensor, name: &str) -> Result<()> {
        let mut item = unchanged_item(tensor)?;
        name.clone_into(&mut item.spec.name);
        self.push(item)
    }

    /// Adds a copy of a tensor, dataset or blob of an open file, whose compressed components are copied as they are.
    pub(crate) fn copy_encoded(&mut self, tensor: &Tensor) -> Result<()> {
        let mut item = unchanged_item(tensor)?;
        item.keep = CopyMode::Encoding;
        self.push(item)
    }

    /// Adds a tensor of one component that `feed` provides.
    pub(crate) fn fed(&mut self, spec: TensorSpec, feed: ComponentSource) -> Result<()> {
        self.push(Item { spec, feeds: vec![feed], keep: CopyMode::Nothing })
    }

    /// Adds a copy of a tensor with the name and shape of `spec`. The shape must have as many elements as that of the
    /// tensor.
    pub(crate) fn copy_under(&mut self, tensor: &Tensor, spec: &TensorSpec) -> Result<()> {
        let mut item = unchanged_item(tensor)?;
        spec.name.clone_into(&mut item.spec.name);
        spec.shape.clone_into(&mut item.spec.shape);
        self.push(item)
    }

    /// Checks that the tensors added so far fit the schema, regardless of the file's format.
    ///
    /// # Errors
    /// Returns `metatensor/schema-fit` or a similar error if they do not.
    pub(super) fn check_fit(&self) -> Result<()> {
        let Some(FileSchema { json: schema, .. }) = &self.schema else { return Ok(()) };
        let specs: Vec<TensorSpec> = self.items.iter().map(|item| item.spec.clone()).collect();
        crate::check::fits(&specs, &self.options.attributes, schema)?
    }

    /// Writes the file and publishes it.
    ///
    /// # Errors
    /// Returns `build/not-added` if a dataset or blob was begun, but neither added nor discarded; an unsupported error
    /// if the format cannot represent the file (for example `metatensor/schema-fit`); an I/O error; or `write/length`.
    /// After an error, an existing file at the path is unchanged.
    pub fn finish(self) -> Result<BuildReport> {
        self.finish_from(|_, _| Ok(())).map(|(report, ())| report)
    }

    /// Writes and publishes the file like [`Build::finish`], unless `check` returns an error about the report of what
    /// was written.
    pub(crate) fn finish_from<T>(
        self,
        check: impl FnOnce(&Record, TieRule) -> Result<T>,
    ) -> Result<(BuildReport, T)> {
        self.pending.check()?;
        let ties = Sharing::Keep.tie_rule(&*self.encoder);
        items::check_names(&self.items)?;
        let items = items::arrange(self.items, &*self.encoder, Sharing::Keep)?;
        let lens = items.iter().flat_map(|i| &i.spec.components).map(|c| c.decoded_len);
        self.options.work.begin(lens.fold(0, u64::saturating_add));
        let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
        let mut writer = Writer::new(self.sink, self.encoder, &self.options);
        writer.declare(&specs)?;
        items::write(&mut writer, items, &self.options.work)?;
        let finished = writer.close()?;
        let checked = check(finished.record(), ties)?;
        let report = BuildReport { tensors: specs.len() as u64, target_len: finished.len() };
        finished.publish()?;
        Ok((report, checked))
    }

    fn push(&mut self, item: Item) -> Result<()> {
        self.encoder.check_tensor(&item.spec)?;
        if self.items.iter().any(|i| i.spec.name == item.spec.name) {
            let message = "two tensors would have this name";
            return Err(holdall_io::error::SAME_NAME.broken(message).in_tensor(item.spec.name));
        }
        self.items.push(item);
        Ok(())
    }

    fn feed(&self, spool: Spool) -> Result<ComponentSource> {
        Ok(ComponentSource::Reader(Box::new(spool.reader(self.options.work.clone())?)))
    }

    /// Refuses a dataset or blob early if the format does not support it.
    fn check_format(&self, name: &str, layout: &'static str, kind: &Value) -> Result<()> {
        let mut spec = spec(name, layout, 0, kind.to_string());
        let roles: &[(&str, DType)] = match layout {
            RECORDS => &[("data", DType::U8)],
            _ => &[(super::ENTRIES, DType::U64), (super::HEAP, DType::U8)],
        };
        let component =
            |(role, dtype): &(&str, DType)| ComponentSpec::new(Role::from_name(role), *dtype, 0);
        spec.components = roles.iter().map(component).collect();
        if layout == RECORDS {
            let schema =
                Schema::compile_record(kind, &self.limits).map_err(|e| e.in_tensor(name))?;
            if schema.record().is_some_and(|ty| schema.ty(ty).heap_align.is_some()) {
                spec.components.push(component(&(super::HEAP, DType::U8)));
            }
        }
        let refused = |e: holdall_core::Error| {
            e.without_advice().with_hint(HOLDERS).in_source(self.path.display())
        };
        self.encoder.check_tensor(&spec).map_err(refused)
    }

    /// Looks up what the schema has at a path.
    fn node(&self, name: &str) -> Result<(&FileSchema, &Node)> {
        let Some(file_schema) = &self.schema else {
            let e = NODE.broken("the file has no schema").in_tensor(name);
            return Err(e.with_remedy(Remedy::GiveSchema));
        };
        let path: Path = name.parse()?;
        let schema = &file_schema.compiled;
        let Root::References(mut at) = schema.root() else {
            return Err(self.no_node(name, "reference"));
        };
        for segment in &path.0 {
            let next = schema.step(at, segment).filter(|_| *segment != Segment::Each);
            at = next.ok_or_else(|| self.no_node(name, "reference"))?;
        }
        Ok((file_schema, schema.node(at)))
    }

    #[cold]
    fn no_node(&self, name: &str, what: &str) -> holdall_core::Error {
        NODE.broken(format!("the schema has no {what} at this path")).in_tensor(name)
    }
}

/// Returns the description of a tensor with this layout and without components.
pub(crate) fn spec(name: &str, layout: &str, count: u64, kind: String) -> TensorSpec {
    let kind = (TENSOR_SCHEMA_ATTRIBUTE.to_owned(), Attribute::Text(kind));
    TensorSpec {
        name: name.to_owned(),
        shape: vec![count],
        layout: Layout::from_name(layout),
        attributes: Attributes::from_iter([kind]),
        components: Vec::new(),
    }
}

impl std::fmt::Debug for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.items.iter().map(|i| i.spec.name.as_str()).collect();
        f.debug_struct("Build").field("tensors", &names).finish_non_exhaustive()
    }
}
