//! Writes the runs of a blob.

use super::FinishedTensor;
use super::pending::PendingWriter;
use super::spool::{Spool, SpoolHeap};
use super::window::Window;
use crate::blob::BlobElement;
use crate::rows::{Row, Rows};
use crate::rules::CONTENT;
use crate::{BLOB, ENTRIES, HEAP};
use holdall_core::{DType, Error, Result};
use holdall_schema::record::{check_run, encode_run};
use holdall_schema::{Content, Entry, Heap, SchemaLimits};
use serde_json::Value;
use std::path::Path;

/// A blob under construction: see [`Build::blob`](super::Build::blob).
#[must_use = "it is not part of the file until it is passed to `Build::add`"]
pub struct BlobWriter {
    pending: Option<PendingWriter>,
    name: String,
    content: Content,
    limits: SchemaLimits,
    entries: Spool,
    heap: SpoolHeap,
    count: u64,
    /// Reused memory for the current run.
    scratch: Vec<u8>,
}

impl BlobWriter {
    /// Creates a writer of a blob that does not belong to a [`Build`](super::Build) yet. Bytes that exceed its buffer
    /// in memory are kept in unnamed temporary files in `folder`.
    pub fn new(name: &str, content: Content, folder: &Path, limits: &SchemaLimits) -> BlobWriter {
        BlobWriter {
            pending: None,
            name: name.to_owned(),
            content,
            limits: limits.clone(),
            entries: Spool::new(folder),
            heap: SpoolHeap::new(folder),
            count: 0,
            scratch: Vec::new(),
        }
    }

    /// Stores equal runs once, as [`DatasetWriter::with_dedup`](super::DatasetWriter::with_dedup) does.
    pub fn with_dedup(mut self) -> BlobWriter {
        self.heap.window = Some(Window::default());
        self
    }

    /// Sets the obligation to add this blob to the file that it was begun for.
    pub(super) fn with_pending(mut self, pending: PendingWriter) -> BlobWriter {
        self.pending = Some(pending);
        self
    }

    /// Discards the blob, so that the file can be finished without it.
    pub fn discard(self) {
        self.pending.into_iter().for_each(PendingWriter::resolve);
    }

    /// Returns the blob's path in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the content type of the runs.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Returns the number of runs.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns `true` if there are no runs.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a run of bytes and returns its index. Checks that the bytes are of the blob's content type.
    ///
    /// # Errors
    /// Returns `record/utf8`, `record/json`, `record/entry-length`, an I/O error.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64> {
        let align = check_run(self.content, bytes, &self.limits).map_err(|e| self.in_context(e))?;
        self.put(bytes, align).map_err(|e| self.in_context(e))?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Adds a run of text.
    ///
    /// # Errors
    /// Returns the same errors as [`BlobWriter::bytes`].
    pub fn text(&mut self, text: &str) -> Result<u64> {
        self.bytes(text.as_bytes())
    }

    /// Adds a run that is a JSON value.
    ///
    /// # Errors
    /// Returns `records/content` if the blob does not contain JSON, or an I/O error.
    pub fn value(&mut self, value: &Value) -> Result<u64> {
        if self.content != Content::Json {
            return Err(self.not("JSON"));
        }
        self.bytes(value.to_string().as_bytes())
    }

    /// Adds a run of elements.
    ///
    /// # Errors
    /// Returns `records/content` if the elements are not of type `T`, or an I/O error.
    pub fn elements<T: BlobElement>(&mut self, elements: &[T]) -> Result<u64> {
        if !matches!(self.content, Content::Elements(dtype) if T::is(dtype)) {
            return Err(self.not(std::any::type_name::<T>()));
        }
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        elements.iter().for_each(|e| e.put(&mut bytes));
        self.bytes(&bytes)
    }

    /// Adds a run from its JSON text and returns its index: a string for text, a base64 string for bytes, any value for
    /// JSON, an array of numbers for elements.
    ///
    /// # Errors
    /// Returns an error of the rules in section 5.2 of the specification or of the `json/…` rules, or an I/O error.
    pub fn json(&mut self, json: &[u8]) -> Result<u64> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let made = encode_run(self.content, json, &self.limits, &mut bytes);
        let added = made.map_err(|e| self.in_context(e)).and_then(|()| self.bytes(&bytes));
        self.scratch = bytes;
        added
    }

    /// Adds a run for each row of JSON, in order, and returns the number of runs added: see [`BlobWriter::json`].
    ///
    /// # Errors
    /// Returns the errors of [`BlobWriter::json`], with the number of the line; the errors of reading `rows`; and
    /// `records/content` if `rows` is a table. The runs of the lines before the error have been added.
    pub fn fill(&mut self, mut rows: Rows) -> Result<u64> {
        let before = self.count;
        while let Some((line, row)) = rows.next()? {
            let added = match row {
                Row::Json(text) => self.json(text),
                Row::Table(_) => Err(self.not("rows of a table")),
            };
            added.map_err(|e| rows.at_line(e, line))?;
        }
        Ok(self.count - before)
    }

    fn put(&mut self, bytes: &[u8], align: u32) -> Result<()> {
        let offset = if bytes.is_empty() { 0 } else { self.heap.append(bytes, align)? };
        self.entries.append(&Entry { offset, len: bytes.len() as u64 }.to_bytes())
    }

    #[cold]
    fn not(&self, what: &str) -> Error {
        self.in_context(CONTENT.broken(format!("the blob contains {}, not {what}", self.content)))
    }

    #[cold]
    pub(crate) fn in_context(&self, e: Error) -> Error {
        e.in_tensor(self.name.as_str())
    }
}

/// Returns the kind of a blob with this content type.
pub(super) fn kind(content: Content) -> Value {
    serde_json::json!({"TypeDef:Blob": {"content": content.to_string()}})
}

impl From<BlobWriter> for FinishedTensor {
    fn from(blob: BlobWriter) -> FinishedTensor {
        FinishedTensor {
            pending: blob.pending,
            kind: kind(blob.content).to_string(),
            name: blob.name,
            layout: BLOB,
            count: blob.count,
            components: vec![
                (ENTRIES, DType::U64, blob.entries),
                (HEAP, DType::U8, blob.heap.spool),
            ],
        }
    }
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobWriter")
            .field("name", &self.name)
            .field("len", &self.count)
            .finish_non_exhaustive()
    }
}
