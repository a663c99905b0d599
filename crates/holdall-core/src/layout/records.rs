//! Datasets of records, and blobs: checks of the schema and the components that need no record.
//!
//! The caller compiles the schema from the text of [`schema_text`], and passes the lengths of components, because some are
//! only known after decoding.

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{DType, Role, TensorInfo};
use holdall_schema::record::rules::{ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_EMPTY, ENTRY_LENGTH};
use holdall_schema::{
    Content, Entry, Extent, Node, Root, Schema, SchemaLimits, TENSOR_SCHEMA_ATTRIBUTE, TypeId,
};
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A tensor of records has no schema.
    pub KIND: Malformed "records/kind"
        "A tensor with the layout `records` or `blob` has the attribute `metatensor.kind`: the JSON text of its schema.";
    /// The components do not match the number of records or entries.
    pub SIZE: Malformed "records/size"
        "A dataset or blob has one dimension, and exactly as many bytes as its records or entries require.";
    /// The heap is missing, or not needed.
    pub HEAP: Malformed "records/heap"
        "A dataset has the component `blob_data` if, and only if, its records have entries.";
}

/// The bytes that the entries of a record may expand to, however small the file is.
const SMALL: u64 = 1 << 20;

/// Returns the JSON text of the schema of a dataset's records, or of a blob.
///
/// # Errors
/// Returns [`KIND`] if the attribute is missing or not text.
pub fn schema_text(info: &TensorInfo) -> Result<&str> {
    let Some(found) = info.attributes().get(TENSOR_SCHEMA_ATTRIBUTE) else {
        return Err(KIND.broken(format!("missing attribute `{TENSOR_SCHEMA_ATTRIBUTE}`")));
    };
    let text = found.as_text();
    text.ok_or_else(|| {
        KIND.broken(format!("the attribute `{TENSOR_SCHEMA_ATTRIBUTE}` must be text"))
    })
}

/// Returns the only dimension of a dataset or a blob.
fn count(info: &TensorInfo) -> Result<u64> {
    match info.shape() {
        [count] => Ok(*count),
        shape => Err(SIZE.broken(format!("expected one dimension, found shape {shape:?}"))),
    }
}

/// The records of a tensor of layout `records`.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The schema of the records.
    pub schema: Schema,
    /// The type of a record in the schema.
    pub ty: TypeId,
    /// The size of a record, and the distance between records, in bytes.
    pub extent: Extent,
    /// The size of a record in bytes, as a `usize`.
    pub size: usize,
    /// The distance between the starts of records in bytes, as a `usize`.
    pub stride: usize,
    /// The number of records.
    pub count: u64,
}

impl Dataset {
    /// Describes the records of a tensor, with the schema of its [`schema_text`].
    ///
    /// # Errors
    /// Returns [`KIND`] if the schema is not that of a record, [`SIZE`] if the shape is invalid, and errors about the
    /// sizes of the schema.
    pub fn new(info: &TensorInfo, schema: Schema) -> Result<Dataset> {
        let Some(ty) = schema.record() else {
            return Err(KIND.broken("expected the schema of a record"));
        };
        let extent = schema.extent(ty)?;
        let count = count(info)?;
        let (Ok(size), Ok(stride)) = (usize::try_from(extent.size), usize::try_from(extent.stride))
        else {
            return Err(
                SIZE.broken(format!("records of {} bytes do not fit in memory", extent.size))
            );
        };
        Ok(Dataset { schema, ty, extent, size, stride, count })
    }

    /// Checks that a component of `len` bytes contains exactly the records.
    ///
    /// # Errors
    /// Returns [`SIZE`] if it does not.
    pub fn check_len(&self, len: u64) -> Result<()> {
        let Dataset { count, stride, .. } = self;
        if *stride != 0 && count.checked_mul(self.extent.stride) == Some(len) {
            return Ok(());
        }
        let message =
            format!("{count} records of {stride} bytes do not fit a component of {len} bytes");
        Err(SIZE.broken(message).in_component(Role::Data))
    }

    /// Returns `true` if the records have a heap. Checks that the schema and the components agree on it.
    ///
    /// # Errors
    /// Returns [`HEAP`] if they differ.
    pub fn has_heap(&self, info: &TensorInfo) -> Result<bool> {
        match (self.schema.ty(self.ty).heap_align, info.component(&Role::BlobData)) {
            (Some(_), None) => {
                Err(HEAP.broken("the records have entries, but there is no `blob_data`"))
            }
            (None, Some(_)) => {
                Err(HEAP.broken("the records have no entries, but there is a `blob_data`"))
            }
            (heap, _) => Ok(heap.is_some()),
        }
    }
}

/// Returns limits for records whose components have `len` bytes. Entries that share bytes may expand to far more values
/// than the file has bytes, and each byte becomes a value.
pub fn limits_of(limits: &Limits, len: u64) -> SchemaLimits {
    let of_schemas = limits.schema_limits();
    let most = len.saturating_mul(limits.expansion).max(SMALL);
    let decoded_len = of_schemas.decoded_len.min(most);
    of_schemas.with_decoded_len(decoded_len)
}

/// The runs of bytes of a tensor of layout `blob`.
#[derive(Debug, Clone, Copy)]
pub struct BlobLayout {
    /// The content of each run.
    pub content: Content,
    /// The number of runs.
    pub count: u64,
}

impl BlobLayout {
    /// Describes the runs of a tensor, with the schema of its [`schema_text`].
    ///
    /// # Errors
    /// Returns [`KIND`] if the schema is not that of a blob, and [`SIZE`] if the shape or the type of the entries is
    /// invalid.
    pub fn new(info: &TensorInfo, schema: &Schema) -> Result<BlobLayout> {
        let content = match schema.root() {
            Root::References(node) => match schema.node(node) {
                Node::Blob { content, .. } => *content,
                _ => return Err(KIND.broken("expected the schema of a blob")),
            },
            Root::Record(_) => return Err(KIND.broken("expected the schema of a blob")),
        };
        let count = count(info)?;
        let dtype = info.component(&Role::Entries).map(|c| c.dtype);
        if let Some(dtype) = dtype.filter(|dtype| *dtype != DType::U64) {
            let message = format!("expected entries of u64, found {dtype}");
            return Err(SIZE.broken(message).in_component(Role::Entries));
        }
        Ok(BlobLayout { content, count })
    }

    /// Checks that a component of `len` bytes contains exactly the entries.
    ///
    /// # Errors
    /// Returns [`SIZE`] if it does not.
    pub fn check_len(&self, len: u64) -> Result<()> {
        if self.count.checked_mul(Entry::LEN as u64) == Some(len) {
            return Ok(());
        }
        let message =
            format!("{} entries of 16 bytes do not fit a component of {len} bytes", self.count);
        Err(SIZE.broken(message).in_component(Role::Entries))
    }

    /// Returns the half-open range that an entry refers to, in a heap of `heap` bytes.
    ///
    /// # Errors
    /// Returns `record/entry-bounds` if the range is outside the heap, `record/entry-empty` if an empty entry has an
    /// offset, and `record/entry-length` or `record/entry-align` if elements are incomplete or not aligned.
    pub fn range(&self, entry: Entry, heap: u64) -> Result<Range<u64>> {
        let Entry { offset, len } = entry;
        if len == 0 && offset != 0 {
            let message = format!("an entry of 0 bytes has the offset {offset}, expected 0");
            return Err(ENTRY_EMPTY.broken(message));
        }
        let Some(end) = offset.checked_add(len).filter(|end| *end <= heap) else {
            return Err(ENTRY_BOUNDS.broken(format!(
                "an entry of {len} bytes at offset {offset} exceeds its heap of {heap} bytes"
            )));
        };
        if let Content::Elements(dtype) = self.content {
            // The schema ensures that elements have whole bytes.
            let width = (dtype.bits() / 8).max(1);
            if !len.is_multiple_of(width) {
                let message =
                    format!("{len} bytes are not a multiple of {width}, the bytes of an element");
                return Err(ENTRY_LENGTH.broken(message));
            }
            if !offset.is_multiple_of(width) {
                let message =
                    format!("offset {offset} is not aligned for elements of {width} bytes");
                return Err(ENTRY_ALIGN.broken(message));
            }
        }
        Ok(offset..end)
    }
}
