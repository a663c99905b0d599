//! The runs of a blob, on their way into a file.

use super::Part;
use super::spool::{Spool, SpoolHeap};
use super::window::Window;
use crate::blob::{BlobElement, element_width};
use crate::rules::CONTENT;
use crate::{BLOB, ENTRIES, HEAP};
use holdall_core::{DType, Error, Result};
use holdall_json::parse;
use holdall_schema::record::rules::{ENTRY_LENGTH, JSON, UTF8};
use holdall_schema::{Content, Entry, Heap, SchemaLimits};
use serde_json::Value;
use std::path::Path;

/// A blob under construction: see [`Build::blob`](super::Build::blob).
pub struct BlobWriter {
    name: String,
    content: Content,
    kind: String,
    limits: SchemaLimits,
    entries: Spool,
    heap: SpoolHeap,
    count: u64,
}

impl BlobWriter {
    pub(super) fn new(
        name: &str,
        content: Content,
        kind: String,
        folder: &Path,
        limits: &SchemaLimits,
    ) -> BlobWriter {
        BlobWriter {
            name: name.to_owned(),
            content,
            kind,
            limits: limits.clone(),
            entries: Spool::new(folder),
            heap: SpoolHeap::new(folder),
            count: 0,
        }
    }

    /// Lets equal runs share their bytes, as
    /// [`DatasetWriter::with_dedup`](super::DatasetWriter::with_dedup) does.
    pub fn with_dedup(mut self) -> BlobWriter {
        self.heap.window = Some(Window::default());
        self
    }

    /// How many runs there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a run of bytes, which are checked to be what the blob holds. Gives its place.
    ///
    /// # Errors
    /// `record/utf8`, `record/json`, `record/entry-length`, Io.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64> {
        let align = match self.content {
            Content::Bytes => 1,
            Content::Utf8 => match std::str::from_utf8(bytes) {
                Ok(_) => 1,
                Err(e) => {
                    let (at, len) = (e.valid_up_to(), bytes.len());
                    return Err(self.place(UTF8.broken(format!("byte {at} of {len} is not UTF-8"))));
                }
            },
            Content::Json => match parse(bytes, self.limits.depth) {
                Ok(_) => 1,
                Err(e) => return Err(self.place(JSON.broken("not JSON").because(e))),
            },
            Content::Elements(dtype) => {
                let width = element_width(dtype);
                if !(bytes.len() as u64).is_multiple_of(width) {
                    let message = format!("{} bytes of elements that take {width}", bytes.len());
                    return Err(self.place(ENTRY_LENGTH.broken(message)));
                }
                width as u32
            }
        };
        self.put(bytes, align).map_err(|e| self.place(e))?;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Adds a run of text.
    ///
    /// # Errors
    /// As [`BlobWriter::bytes`].
    pub fn text(&mut self, text: &str) -> Result<u64> {
        self.bytes(text.as_bytes())
    }

    /// Adds a JSON value.
    ///
    /// # Errors
    /// `records/content` where the blob does not hold JSON; Io.
    pub fn value(&mut self, value: &Value) -> Result<u64> {
        if self.content != Content::Json {
            return Err(self.not("JSON"));
        }
        self.bytes(value.to_string().as_bytes())
    }

    /// Adds a run of elements.
    ///
    /// # Errors
    /// `records/content` where `T` is not their type; Io.
    pub fn elements<T: BlobElement>(&mut self, elements: &[T]) -> Result<u64> {
        if !matches!(self.content, Content::Elements(dtype) if T::is(dtype)) {
            return Err(self.not(std::any::type_name::<T>()));
        }
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        elements.iter().for_each(|e| e.put(&mut bytes));
        self.bytes(&bytes)
    }

    fn put(&mut self, bytes: &[u8], align: u32) -> Result<()> {
        let offset = if bytes.is_empty() { 0 } else { self.heap.append(bytes, align)? };
        self.entries.append(&Entry { offset, len: bytes.len() as u64 }.to_bytes())
    }

    #[cold]
    fn not(&self, what: &str) -> Error {
        self.place(CONTENT.broken(format!("a blob of {} is not one of {what}", self.content)))
    }

    #[cold]
    fn place(&self, e: Error) -> Error {
        e.in_tensor(self.name.as_str())
    }
}

impl From<BlobWriter> for Part {
    fn from(blob: BlobWriter) -> Part {
        Part {
            kind: blob.kind,
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
