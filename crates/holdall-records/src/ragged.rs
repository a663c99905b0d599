//! The elements of an array in a record.

use super::{ReadScalar, Record, Records, Typed};
use holdall_core::Result;
use holdall_schema::{Accessor, Path, TypeId};
use std::borrow::Cow;

/// The elements of an array in a record, wherever they lie: a ragged row.
#[derive(Clone)]
pub struct Ragged<'r> {
    pub(super) records: &'r Records,
    pub(super) index: u64,
    pub(super) ty: TypeId,
    pub(super) stride: usize,
    pub(super) size: usize,
    pub(super) bytes: Cow<'r, [u8]>,
}

impl Records {
    /// The way to an element of the array that `array` leads to, or to a part of one: for the records that
    /// [`Ragged::at`] gives.
    ///
    /// # Errors
    /// `record/access` where `array` leads to no array; as [`Records::accessor`].
    pub fn element_accessor(&self, array: &Accessor, path: &str) -> Result<Accessor> {
        let path: Path = path.parse()?;
        let placed = |e| super::placed(e, self.tensor());
        self.schema().extent(array.ty()).map_err(placed)?;
        match &self.schema().ty(array.ty()).kind {
            holdall_schema::Kind::Array(array) => {
                self.schema().accessor(array.items, &path).map_err(placed)
            }
            kind => {
                let rule = &holdall_schema::record::rules::ACCESS;
                let kind = kind.as_str();
                Err(placed(rule.broken(format!("a `TypeDef:{kind}` is not an array"))))
            }
        }
    }
}

impl<'r> Ragged<'r> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All their bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes from one to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// An element, as a record of its own; `None` past the last.
    pub fn at(&self, index: usize) -> Option<Record<'_>> {
        let start = index.checked_mul(self.stride)?;
        let bytes = self.bytes.get(start..)?.get(..self.size)?;
        let (records, ty) = (self.records, self.ty);
        Some(Record { records, ty, index: self.index, bytes: Cow::Borrowed(bytes) })
    }

    /// The elements, each as a record of its own.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        let (records, ty, index) = (self.records, self.ty, self.index);
        self.bytes.chunks_exact(self.stride).map(move |bytes| Record {
            records,
            ty,
            index,
            bytes: Cow::Borrowed(bytes.get(..self.size).unwrap_or(bytes)),
        })
    }

    /// All elements as numbers: `typed` comes from [`Records::element_accessor`].
    ///
    /// # Errors
    /// `record/bool-byte`, `record/length`, `record/union-tag`. What is not there is 0.
    pub fn to_vec<T: ReadScalar + Default>(&self, typed: &Typed<T>) -> Result<Vec<T>> {
        let mut out = vec![T::default(); self.len()];
        let copied = typed.copy_column(&self.bytes, &mut out, T::default());
        copied.map_err(|e| self.records.in_record(e, self.index))?;
        Ok(out)
    }
}

impl std::fmt::Debug for Ragged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ragged").field("len", &self.len()).finish_non_exhaustive()
    }
}
