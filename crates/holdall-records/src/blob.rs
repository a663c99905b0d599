//! Many runs of bytes: the layout `blob`.

use super::compared::Compared;
use super::open::schema_of;
use super::rules::{CONTENT, INDEX};
use super::store::Store;
use super::{BLOB, ENTRIES, HEAP, check_layout, placed, record::text};
use bytes::Bytes;
use holdall_core::layout::records::BlobLayout;
use holdall_core::{Error, Result, Role};
use holdall_io::{Check, Tensor};
use holdall_json::parse;
use holdall_schema::record::rules::JSON;
use holdall_schema::{Content, Entry, Schema, SchemaLimits, TensorDType};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The runs of bytes of one tensor. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Blob(pub(super) Arc<Inner>);

pub(super) struct Inner {
    tensor: Tensor,
    pub(super) runs: BlobLayout,
    pub(super) limits: SchemaLimits,
    pub(super) entries: Store,
    pub(super) heap: Store,
    pub(super) compared: Compared,
}

pub(super) fn open(tensor: &Tensor) -> Result<Blob> {
    tensor.sound()?;
    check_layout(tensor, BLOB)?;
    let limits = tensor.file().limits().of_schemas();
    let schema = Schema::compile(&schema_of(tensor, &limits)?, &limits)?;
    let runs = BlobLayout::new(tensor.info(), &schema)?;
    let entries = Store::open(tensor, &Role::from_name(ENTRIES))?;
    runs.check_len(entries.len())?;
    let heap = Store::open(tensor, &Role::from_name(HEAP))?;
    let tensor = tensor.clone();
    let compared = Compared::default();
    let blob = Blob(Arc::new(Inner { tensor, runs, limits, entries, heap, compared }));
    if blob.0.tensor.file().check() == Check::All {
        blob.compare()?;
    }
    Ok(blob)
}

impl Blob {
    /// How many runs there are.
    pub fn len(&self) -> u64 {
        self.0.runs.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.runs.count == 0
    }

    /// What they are.
    pub fn content(&self) -> Content {
        self.0.runs.content
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
            runs: inner.runs,
            limits: inner.limits.clone(),
            entries: load(&inner.entries)?,
            heap: load(&inner.heap)?,
            compared: Compared::default(),
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
        self.0.heap.get(range).map_err(|e| self.in_context(e, index))
    }

    /// The bytes of a run, kept for as long as wanted: a view where they are mapped or in memory.
    ///
    /// # Errors
    /// As [`Blob::get`].
    pub fn bytes(&self, index: u64) -> Result<Bytes> {
        let range = self.range(index)?;
        self.0.heap.shared(range).map_err(|e| self.in_context(e, index))
    }

    /// Where a run lies in the heap: bytes from its start, half-open.
    ///
    /// # Errors
    /// As [`Blob::get`].
    pub fn range(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        if index >= inner.runs.count {
            let message = format!("run {index} of {}", inner.runs.count);
            return Err(placed(INDEX.broken(message), &inner.tensor));
        }
        self.found(index).map_err(|e| self.in_context(e, index))
    }

    fn found(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        // Within the entries, whose length was checked against the count.
        let start = index * Entry::LEN as u64;
        let entry = inner.entries.get(start..start + Entry::LEN as u64)?;
        inner.runs.range(super::entries::entry(&entry)?, inner.heap.len())
    }

    /// A run of text.
    ///
    /// # Errors
    /// `record/utf8`, `records/content`, and as [`Blob::get`].
    pub fn str(&self, index: u64) -> Result<Cow<'_, str>> {
        self.check_content(matches!(self.content(), Content::Utf8 | Content::Json), "text")?;
        text(self.get(index)?).map_err(|e| self.in_context(e, index))
    }

    /// A run of JSON.
    ///
    /// # Errors
    /// `record/json`, `records/content`, and as [`Blob::get`].
    pub fn json(&self, index: u64) -> Result<Value> {
        self.check_content(self.content() == Content::Json, "JSON")?;
        let found = parse(&self.get(index)?, self.0.limits.depth);
        found.map_err(|e| self.in_context(JSON.broken("not JSON").because(e), index))
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
        let message = format!("a blob of {} is not a blob of {what}", self.content());
        Err(placed(CONTENT.broken(message), self.tensor()))
    }

    #[cold]
    fn in_context(&self, e: Error, index: u64) -> Error {
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
