//! Datasets of records and blobs: all that their schema and their components say before a record is looked at.
//!
//! The schema is the caller's to compile, from the text of [`kind`]. How many bytes a component has is for the caller to say too,
//! because for some only decoding tells.

use crate::error::Result;
use crate::limits::Limits;
use crate::model::{DType, Role, TensorInfo};
use holdall_schema::record::rules::{ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_EMPTY, ENTRY_LENGTH};
use holdall_schema::{
    Content, Entry, Extent, KIND_ATTRIBUTE, Node, Root, Schema, SchemaLimits, TypeId,
};
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// No schema of the records.
    pub KIND: Malformed "records/kind"
        "A tensor with the layout `records` or `blob` has the attribute `metatensor.kind`: the JSON text of its schema.";
    /// Components that do not fit their count.
    pub SIZE: Malformed "records/size"
        "A dataset or blob has one dimension, and exactly as many bytes as its records or entries take.";
    /// A heap too many, or none.
    pub HEAP: Malformed "records/heap"
        "A dataset has the component `blob_data` if, and only if, its records have entries.";
}

/// Bytes that the entries of a record may stand for, however little the file has.
const SMALL: u64 = 1 << 20;

/// The JSON text of a tensor's kind.
///
/// # Errors
/// [`KIND`].
pub fn kind(info: &TensorInfo) -> Result<&str> {
    let Some(found) = info.attributes().get(KIND_ATTRIBUTE) else {
        return Err(KIND.broken(format!("there is no attribute `{KIND_ATTRIBUTE}`")));
    };
    let text = found.as_text();
    text.ok_or_else(|| KIND.broken(format!("the attribute `{KIND_ATTRIBUTE}` is not text")))
}

/// The one dimension of a dataset or a blob.
fn count(info: &TensorInfo) -> Result<u64> {
    match info.shape() {
        [count] => Ok(*count),
        shape => Err(SIZE.broken(format!("shape {shape:?} has not one dimension"))),
    }
}

/// The records of a tensor of the layout `records`.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// What they are.
    pub schema: Schema,
    /// Their type in it.
    pub ty: TypeId,
    /// Bytes of a record, and from one to the next.
    pub extent: Extent,
    /// The same, which fit memory.
    pub size: usize,
    /// From one record to the next.
    pub stride: usize,
    /// How many there are.
    pub count: u64,
}

impl Dataset {
    /// The records of a tensor, under the schema of its [`kind`].
    ///
    /// # Errors
    /// [`KIND`], [`SIZE`]; what computing sizes fails with.
    pub fn new(info: &TensorInfo, schema: Schema) -> Result<Dataset> {
        let Some(ty) = schema.record() else {
            return Err(KIND.broken("the schema is not that of a record"));
        };
        let extent = schema.extent(ty)?;
        let count = count(info)?;
        let (Ok(size), Ok(stride)) = (usize::try_from(extent.size), usize::try_from(extent.stride))
        else {
            return Err(SIZE.broken(format!("records of {} bytes do not fit memory", extent.size)));
        };
        Ok(Dataset { schema, ty, extent, size, stride, count })
    }

    /// Checks that so many bytes are those of the records.
    ///
    /// # Errors
    /// [`SIZE`].
    pub fn check_len(&self, len: u64) -> Result<()> {
        let Dataset { count, stride, .. } = self;
        if *stride != 0 && count.checked_mul(self.extent.stride) == Some(len) {
            return Ok(());
        }
        let message = format!("{count} records of {stride} bytes, the component has {len}");
        Err(SIZE.broken(message).in_component(Role::Data))
    }

    /// Whether the records have a heap, as their schema and the components say alike.
    ///
    /// # Errors
    /// [`HEAP`], where they differ.
    pub fn has_heap(&self, info: &TensorInfo) -> Result<bool> {
        match (self.schema.ty(self.ty).heap_align, info.component(&Role::BlobData)) {
            (Some(_), None) => {
                Err(HEAP.broken("the records have entries, and there is no `blob_data`"))
            }
            (None, Some(_)) => {
                Err(HEAP.broken("the records have no entries, and there is a `blob_data`"))
            }
            (heap, _) => Ok(heap.is_some()),
        }
    }
}

/// Limits for records whose components have `len` bytes: entries that share bytes may stand for far more than there is, and
/// each byte of that becomes a value.
pub fn limits_of(limits: &Limits, len: u64) -> SchemaLimits {
    let of_schemas = limits.of_schemas();
    let most = len.saturating_mul(limits.expansion).max(SMALL);
    let decoded_len = of_schemas.decoded_len.min(most);
    of_schemas.with_decoded_len(decoded_len)
}

/// The runs of bytes of a tensor of the layout `blob`.
#[derive(Debug, Clone, Copy)]
pub struct BlobLayout {
    /// What they are.
    pub content: Content,
    /// How many there are.
    pub count: u64,
}

impl BlobLayout {
    /// The runs of a tensor, under the schema of its [`kind`].
    ///
    /// # Errors
    /// [`KIND`], [`SIZE`].
    pub fn new(info: &TensorInfo, schema: &Schema) -> Result<BlobLayout> {
        let content = match schema.root() {
            Root::References(node) => match schema.node(node) {
                Node::Blob { content, .. } => *content,
                _ => return Err(KIND.broken("the schema is not that of a blob")),
            },
            Root::Record(_) => return Err(KIND.broken("the schema is not that of a blob")),
        };
        let count = count(info)?;
        let dtype = info.component(&Role::Entries).map(|c| c.dtype);
        if let Some(dtype) = dtype.filter(|dtype| *dtype != DType::U64) {
            let message = format!("the entries are {dtype}, not u64");
            return Err(SIZE.broken(message).in_component(Role::Entries));
        }
        Ok(BlobLayout { content, count })
    }

    /// Checks that so many bytes are those of the entries.
    ///
    /// # Errors
    /// [`SIZE`].
    pub fn check_len(&self, len: u64) -> Result<()> {
        if self.count.checked_mul(Entry::LEN as u64) == Some(len) {
            return Ok(());
        }
        let message = format!("{} entries of 16 bytes, the component has {len}", self.count);
        Err(SIZE.broken(message).in_component(Role::Entries))
    }

    /// The bytes of a heap of `heap` bytes that an entry points at, half-open.
    ///
    /// # Errors
    /// `record/entry-bounds`, `record/entry-empty`; for elements `record/entry-length` and `record/entry-align`.
    pub fn range(&self, entry: Entry, heap: u64) -> Result<Range<u64>> {
        let Entry { offset, len } = entry;
        if len == 0 && offset != 0 {
            let message = format!("an entry of 0 bytes has the offset {offset}, not 0");
            return Err(ENTRY_EMPTY.broken(message));
        }
        let Some(end) = offset.checked_add(len).filter(|end| *end <= heap) else {
            return Err(ENTRY_BOUNDS.broken(format!(
                "an entry of {len} bytes at offset {offset} leaves its heap of {heap} bytes"
            )));
        };
        if let Content::Elements(dtype) = self.content {
            // The schema has seen to it that elements have whole bytes.
            let width = (dtype.bits() / 8).max(1);
            if !len.is_multiple_of(width) {
                let message = format!("{len} bytes of elements that take {width}");
                return Err(ENTRY_LENGTH.broken(message));
            }
            if !offset.is_multiple_of(width) {
                let message = format!("elements of {width} bytes start at offset {offset}");
                return Err(ENTRY_ALIGN.broken(message));
            }
        }
        Ok(offset..end)
    }
}
