//! The elements of an array in a record.

use super::{ReadScalar, Record, Records, Typed};
use holdall_core::Result;
use holdall_schema::{Accessor, Path, TypeId};
use std::borrow::Cow;

/// The elements of an array in a record, whose number can differ from record to record.
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
    /// Looks up an element of the array at `array`, or a member of the element, for use with the records that
    /// [`Ragged::at`] returns.
    ///
    /// # Errors
    /// Returns `record/access` if `array` does not refer to an array, and the errors of [`Records::accessor`].
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
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Returns `true` if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes of all elements.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the distance from one element to the next, in bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the element at `index` as a separate record, or `None` if `index` is out of range.
    pub fn at(&self, index: usize) -> Option<Record<'_>> {
        let start = index.checked_mul(self.stride)?;
        let bytes = self.bytes.get(start..)?.get(..self.size)?;
        let (records, ty) = (self.records, self.ty);
        Some(Record { records, ty, index: self.index, bytes: Cow::Borrowed(bytes) })
    }

    /// Returns an iterator over the elements, each as a separate record.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        let (records, ty, index) = (self.records, self.ty, self.index);
        self.bytes.chunks_exact(self.stride).map(move |bytes| Record {
            records,
            ty,
            index,
            bytes: Cow::Borrowed(bytes.get(..self.size).unwrap_or(bytes)),
        })
    }

    /// Returns all elements as numbers. `typed` comes from [`Records::element_accessor`].
    ///
    /// # Errors
    /// Returns `record/bool-byte`, `record/length` or `record/union-tag` if the bytes are invalid. Absent elements
    /// become 0.
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
