//! Tensors of the layout `blob`: many runs of bytes.

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

/// The runs of bytes of one tensor. Cheap to clone; can be shared between threads.
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
    let limits = tensor.file().limits().schema_limits();
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
    /// Returns the number of runs.
    pub fn len(&self) -> u64 {
        self.0.runs.count
    }

    /// Returns `true` if the blob has no runs.
    pub fn is_empty(&self) -> bool {
        self.0.runs.count == 0
    }

    /// Returns the content type of the runs.
    pub fn content(&self) -> Content {
        self.0.runs.content
    }

    /// Returns the tensor that contains the runs.
    pub fn tensor(&self) -> &Tensor {
        &self.0.tensor
    }

    /// Returns the same blob with all its bytes in memory, so that later calls read nothing from the file.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::bytes`].
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

    /// Returns the bytes of the run at `index`, of any content type.
    ///
    /// # Errors
    /// Returns `records/index` if `index` is out of range; `record/entry-bounds` or `record/entry-empty` if its entry
    /// is invalid; `record/entry-length` or `record/entry-align` if elements have an invalid length or alignment. If
    /// the bytes are neither mapped nor in memory, also the errors of [`Tensor::bytes_range`].
    pub fn get(&self, index: u64) -> Result<Cow<'_, [u8]>> {
        let range = self.range(index)?;
        self.0.heap.get(range).map_err(|e| self.in_context(e, index))
    }

    /// Returns the bytes of a run as a reference-counted buffer, without a copy if they are mapped or in memory.
    ///
    /// # Errors
    /// Returns the same errors as [`Blob::get`].
    pub fn bytes(&self, index: u64) -> Result<Bytes> {
        let range = self.range(index)?;
        self.0.heap.shared(range).map_err(|e| self.in_context(e, index))
    }

    /// Returns the byte range of a run in the heap, half-open.
    ///
    /// # Errors
    /// Returns the same errors as [`Blob::get`].
    pub fn range(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        if index >= inner.runs.count {
            let message =
                format!("run {index} is out of range for a blob with {} runs", inner.runs.count);
            return Err(placed(INDEX.broken(message), &inner.tensor));
        }
        self.heap_range(index).map_err(|e| self.in_context(e, index))
    }

    fn heap_range(&self, index: u64) -> Result<Range<u64>> {
        let inner = &*self.0;
        // Lies within the entries, whose length was checked against the number of runs.
        let start = index * Entry::LEN as u64;
        let entry = inner.entries.get(start..start + Entry::LEN as u64)?;
        inner.runs.range(super::entries::entry(&entry)?, inner.heap.len())
    }

    /// Returns a run as text.
    ///
    /// # Errors
    /// Returns `record/utf8`, `records/content`, and the errors of [`Blob::get`].
    pub fn str(&self, index: u64) -> Result<Cow<'_, str>> {
        self.check_content(matches!(self.content(), Content::Utf8 | Content::Json), "text")?;
        text(self.get(index)?).map_err(|e| self.in_context(e, index))
    }

    /// Returns a run as a JSON value.
    ///
    /// # Errors
    /// Returns `record/json`, `records/content`, and the errors of [`Blob::get`].
    pub fn json(&self, index: u64) -> Result<Value> {
        self.check_content(self.content() == Content::Json, "JSON")?;
        let found = parse(&self.get(index)?, self.0.limits.depth);
        found.map_err(|e| {
            self.in_context(JSON.broken("the run is not valid JSON").because(e), index)
        })
    }

    /// Returns a copy of the elements of a run.
    ///
    /// # Errors
    /// Returns `records/content` if the elements are not of type `T`, and the errors of [`Blob::get`].
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
        let message = format!("the blob contains {}, not {what}", self.content());
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

/// Types that the elements of a run can be read as.
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
