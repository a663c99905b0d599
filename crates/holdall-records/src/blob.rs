//! Many runs of bytes: the layout `blob`.

use super::open::{count, kind};
use super::rules::{CONTENT, INDEX, KIND as KIND_RULE, SIZE};
use super::store::Store;
use super::{BLOB, ENTRIES, HEAP, check_layout, placed, record::text};
use bytes::Bytes;
use holdall_core::{DType, Error, Result, Role};
use holdall_io::Tensor;
use holdall_json::parse;
use holdall_schema::record::rules::{ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_EMPTY, ENTRY_LENGTH, JSON};
use holdall_schema::{Content, Entry, Node, Root, Schema, SchemaLimits, TensorDType};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The runs of bytes of one tensor. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Blob(pub(super) Arc<Inner>);

pub(super) struct Inner {
    tensor: Tensor,
    content: Content,
    count: u64,
    limits: SchemaLimits,
    pub(super) entries: Store,
    pub(super) heap: Store,
}

pub(super) fn open(tensor: &Tensor) -> Result<Blob> {
    tensor.sound()?;
    check_layout(tensor, BLOB)?;
    let limits = tensor.file().limits().of_schemas();
    let schema = Schema::compile(&kind(tensor, &limits)?, &limits)?;
    let content = match schema.root() {
        Root::References(node) => match schema.node(node) {
            Node::Blob { content, .. } => *content,
            _ => return Err(KIND_RULE.broken("the schema is not that of a blob")),
        },
        Root::Record(_) => return Err(KIND_RULE.broken("the schema is not that of a blob")),
    };
    let count = count(tensor)?;
    let role = Role::from_name(ENTRIES);
    let dtype = tensor.require(&role)?.dtype;
    if dtype != DType::U64 {
        return Err(SIZE.broken(format!("the entries are {dtype}, not u64")).in_component(role));
    }
    let entries = Store::open(tensor, &role)?;
    if count.checked_mul(Entry::LEN as u64) != Some(entries.len()) {
        let message = format!("{count} entries of 16 bytes, the component has {}", entries.len());
        return Err(SIZE.broken(message).in_component(role));
    }
    let heap = Store::open(tensor, &Role::from_name(HEAP))?;
    let tensor = tensor.clone();
    Ok(Blob(Arc::new(Inner { tensor, content, count, limits, entries, heap })))
}

impl Blob {
    /// How many runs there are.
    pub fn len(&self) -> u64 {
        self.0.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// What they are.
    pub fn content(&self) -> Content {
        self.0.content
    }

    /// The tensor they are of.
    pub fn tensor(&self) -> &Tensor {
        &self.0.tensor
    }

    /// The same runs with all their bytes in memory, so that nothing is read any more.
    ///
    /// # Errors
    /// As [`Tensor::bytes`].
    pub fn loaded(&self) -> Result<Blob> {
        let load = |store: &Store| store.loaded().map_err(|e| placed(e, self.tensor()));
        let inner = &*self.0;
        Ok(Blob(Arc::new(Inner {
            tensor: inner.tensor.clone(),
            content: inner.content,
            count: inner.count,
            limits: inner.limits.clone(),
            entries: load(&inner.entries)?,
            heap: load(&inner.heap)?,
        })))
    }

    /// The bytes of a run, whatever they are.
    ///
    /// # Errors
    /// `records/index`, `record/entry-bounds`, `record/entry-empty`, and for elements
    /// `record/entry-length` and `record/entry-align`; where the bytes are not at hand, as
    /// [`Tensor::bytes_range`].
    pub fn get(&self, index: u64) -> Result<Cow<'_, [u8]>> {
        let range = self.range(index)?;
        self.0.heap.get(range).map_err(|e| self.place(e, index))
    }

    /// The bytes of a run, kept for as long as wanted: a view where they are mapped or in memory.
    ///
    /// # Errors
    /// As [`Blob::get`].
    pub fn bytes(&self, index: u64) -> Result<Bytes> {
        let range = self.range(index)?;
        self.0.heap.shared(range).map_err(|e| self.place(e, index))
    }

    /// Where a run lies in the heap: bytes from its start, half-open.
    ///
    /// # Errors
    /// As [`Blob::get`].
    pub fn range(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        if index >= inner.count {
            let message = format!("run {index} of {}", inner.count);
            return Err(placed(INDEX.broken(message), &inner.tensor));
        }
        self.found(index).map_err(|e| self.place(e, index))
    }

    fn found(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        // Within the entries, whose length was checked against the count.
        let start = index * Entry::LEN as u64;
        let entry = inner.entries.get(start..start + Entry::LEN as u64)?;
        let Entry { offset, len } = super::entries::entry(&entry)?;
        if len == 0 && offset != 0 {
            let message = format!("an entry of 0 bytes has the offset {offset}, not 0");
            return Err(ENTRY_EMPTY.broken(message));
        }
        let Some(end) = offset.checked_add(len).filter(|end| *end <= inner.heap.len()) else {
            let heap = inner.heap.len();
            return Err(ENTRY_BOUNDS.broken(format!(
                "an entry of {len} bytes at offset {offset} leaves its heap of {heap} bytes"
            )));
        };
        if let Content::Elements(dtype) = inner.content {
            let width = element_width(dtype);
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

    /// A run of text.
    ///
    /// # Errors
    /// `record/utf8`, `records/content`, and as [`Blob::get`].
    pub fn str(&self, index: u64) -> Result<Cow<'_, str>> {
        self.check_content(matches!(self.content(), Content::Utf8 | Content::Json), "text")?;
        text(self.get(index)?).map_err(|e| self.place(e, index))
    }

    /// A run of JSON.
    ///
    /// # Errors
    /// `record/json`, `records/content`, and as [`Blob::get`].
    pub fn json(&self, index: u64) -> Result<Value> {
        self.check_content(self.content() == Content::Json, "JSON")?;
        let found = parse(&self.get(index)?, self.0.limits.depth);
        found.map_err(|e| self.place(JSON.broken("not JSON").because(e), index))
    }

    /// A run of elements, copied.
    ///
    /// # Errors
    /// `records/content` where `T` is not their type; as [`Blob::get`].
    pub fn elements<T: BlobElement>(&self, index: u64) -> Result<Vec<T>> {
        let is = matches!(self.content(), Content::Elements(dtype) if T::is(dtype));
        self.check_content(is, std::any::type_name::<T>())?;
        let bytes = self.get(index)?;
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect())
    }

    pub(super) fn check_content(&self, is: bool, what: &str) -> Result<()> {
        if is {
            return Ok(());
        }
        let message = format!("a blob of {} is not one of {what}", self.content());
        Err(placed(CONTENT.broken(message), self.tensor()))
    }

    #[cold]
    fn place(&self, e: Error, index: u64) -> Error {
        placed(e.within(format!("run {index}")), self.tensor())
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("tensor", self.tensor())
            .field("len", &self.len())
            .field("content", &self.content())
            .finish_non_exhaustive()
    }
}

/// Bytes of an element; the schema has seen to it that it has whole ones.
pub(super) fn element_width(dtype: TensorDType) -> u64 {
    (dtype.bits() / 8).max(1)
}

mod sealed {
    pub trait Sealed {}
}

/// What runs of elements are read as.
pub trait BlobElement: sealed::Sealed + Copy {
    #[doc(hidden)]
    fn is(dtype: TensorDType) -> bool;
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;
    #[doc(hidden)]
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($ty:ty: $($dtype:ident)|+;)+) => {$(
        impl sealed::Sealed for $ty {}

        impl BlobElement for $ty {
            fn is(dtype: TensorDType) -> bool {
                matches!(dtype, $(TensorDType::$dtype)|+)
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> $ty {
                <$ty>::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
            }

            #[inline]
            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )+};
}

elements! {
    i8: I8;
    i16: I16;
    i32: I32;
    i64: I64;
    u8: U8 | Bool | F8_E4M3 | F8_E5M2 | F8_E8M0 | F8_E4M3Fnuz | F8_E5M2Fnuz;
    u16: U16;
    u32: U32;
    u64: U64;
    f32: F32;
    f64: F64;
    half::f16: F16;
    half::bf16: Bf16;
}
