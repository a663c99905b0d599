//! A single record.

use super::entries::{From, Mover};
use super::{Accessor, Ragged, ReadScalar, Records, Typed};
use holdall_core::{Error, Result};
use holdall_json::parse;
use holdall_schema::record::rules::{ACCESS, ENTRY_ALIGN, ENTRY_BOUNDS, ENTRY_LENGTH, JSON, UTF8};
use holdall_schema::{Entry, Kind, Len, TypeId};
use serde_json::Value;
use std::borrow::Cow;

/// One record of a dataset, or an element of an array in one.
#[derive(Clone)]
pub struct Record<'r> {
    pub(super) records: &'r Records,
    pub(super) ty: TypeId,
    pub(super) index: u64,
    pub(super) bytes: Cow<'r, [u8]>,
}

impl<'r> Record<'r> {
    /// Returns the record's type in the schema.
    pub fn ty(&self) -> TypeId {
        self.ty
    }

    /// Returns the record's index in the dataset.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the dataset that contains this record.
    pub fn records(&self) -> &'r Records {
        self.records
    }

    /// Returns the record's own bytes. The bytes that its entries refer to are in the heap.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the value of a number, a time or a boolean. Returns `None` if an optional member of the path is absent
    /// or a union contains another variant.
    ///
    /// # Errors
    /// Returns `record/bool-byte` for a boolean other than 0 or 1, `record/union-tag` for an invalid tag.
    #[inline]
    pub fn get<T: ReadScalar>(&self, typed: &Typed<T>) -> Result<Option<T>> {
        typed.read(&self.bytes).map_err(|e| self.in_context(e))
    }

    /// Returns `true` if the record has the member: all optional members of the path are present and each union
    /// contains the variant that the path names.
    ///
    /// # Errors
    /// Returns `record/union-tag` if the tag of a union is invalid.
    pub fn is_present(&self, part: &Accessor) -> Result<bool> {
        part.is_present(&self.bytes).map_err(|e| self.in_context(e))
    }

    /// Returns the bytes of a member that is stored in the record itself: a fixed array, a tensor, a struct or a
    /// number.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::is_present`].
    pub fn raw(&self, part: &Accessor) -> Result<Option<&[u8]>> {
        part.raw(&self.bytes).map_err(|e| self.in_context(e))
    }

    /// Returns the bytes that a string, a bytes member, a JSON object or a variable array has in the heap.
    ///
    /// # Errors
    /// Returns `record/entry-bounds` if the entry refers to bytes outside of the heap, `record/access` if the member
    /// has no entry, `record/union-tag` if a tag is invalid. If the heap is neither mapped nor in memory, also the
    /// errors of [`Tensor::bytes_range`](holdall_io::Tensor::bytes_range).
    pub fn data(&self, part: &Accessor) -> Result<Option<Cow<'r, [u8]>>> {
        match part.entry(&self.bytes).map_err(|e| self.in_context(e))? {
            Some(entry) => self.heap_bytes(entry).map(Some).map_err(|e| self.in_context(e)),
            None => Ok(None),
        }
    }

    /// Returns the value of a string member.
    ///
    /// # Errors
    /// Returns `record/utf8` if the bytes are not UTF-8, and the errors of [`Record::data`].
    pub fn string(&self, part: &Accessor) -> Result<Option<Cow<'r, str>>> {
        self.check_kind(part, |kind| matches!(kind, Kind::String), "a string")?;
        let Some(bytes) = self.data(part)? else { return Ok(None) };
        text(bytes).map(Some).map_err(|e| self.in_context(e))
    }

    /// Returns the JSON text of a `TypeDef:Record`, which is one JSON object.
    ///
    /// # Errors
    /// Returns `record/json` if the text is not a JSON object, and the errors of [`Record::data`].
    pub fn json(&self, part: &Accessor) -> Result<Option<Cow<'r, str>>> {
        self.check_kind(part, |kind| matches!(kind, Kind::Record), "a JSON object")?;
        let Some(bytes) = self.data(part)? else { return Ok(None) };
        let depth = self.records.0.limits.depth;
        let found = parse(&bytes, depth)
            .map_err(|e| JSON.broken("the text is not a valid JSON object").because(e));
        match found.map_err(|e| self.in_context(e))? {
            Value::Object(_) => text(bytes).map(Some).map_err(|e| self.in_context(e)),
            _ => {
                Err(self
                    .in_context(JSON.broken("expected a JSON object, found another JSON value")))
            }
        }
    }

    /// Returns the value of an enum as its string.
    ///
    /// # Errors
    /// Returns `record/enum-index` if the stored index is out of range, `record/access` if the member is not an enum,
    /// `record/union-tag` if a tag is invalid.
    pub fn enum_value<'a>(&self, part: &'a Accessor) -> Result<Option<&'a str>> {
        part.enum_value(&self.bytes).map_err(|e| self.in_context(e))
    }

    /// Returns the key of the variant that a union contains.
    ///
    /// # Errors
    /// Returns `record/union-tag` if the tag is invalid, `record/access` if the member is not a union.
    pub fn variant<'a>(&self, part: &'a Accessor) -> Result<Option<&'a str>> {
        part.variant(&self.bytes).map_err(|e| self.in_context(e))
    }

    /// Returns the elements of an array, which may be stored in the record or in the heap.
    ///
    /// # Errors
    /// Returns `record/entry-length` if the bytes are not a whole number of elements, `record/entry-align` if the
    /// elements are not aligned, and the errors of [`Record::data`].
    pub fn elements(&self, part: &Accessor) -> Result<Option<Ragged<'_>>> {
        let schema = self.records.schema();
        let array = match self.kind(part)? {
            Kind::Array(array) => array,
            kind => return Err(self.not(kind, "an array")),
        };
        let items = schema.extent(array.items).map_err(|e| self.in_context(e))?;
        let bytes = match array.len {
            Len::Fixed(_) => self.raw(part)?.map(Cow::Borrowed),
            Len::Variable { .. } => {
                let Some(entry) = part.entry(&self.bytes).map_err(|e| self.in_context(e))? else {
                    return Ok(None);
                };
                if !entry.len.is_multiple_of(items.stride.max(1)) {
                    let stride = items.stride;
                    let message =
                        format!("{} bytes, not a multiple of the element size {stride}", entry.len);
                    return Err(self.in_context(ENTRY_LENGTH.broken(message)));
                }
                if !entry.offset.is_multiple_of(u64::from(items.align.max(1))) {
                    let (align, at) = (items.align, entry.offset);
                    let message = format!(
                        "offset {at} of the elements is not a multiple of their alignment {align}"
                    );
                    return Err(self.in_context(ENTRY_ALIGN.broken(message)));
                }
                Some(self.heap_bytes(entry).map_err(|e| self.in_context(e))?)
            }
        };
        Ok(bytes.map(|bytes| Ragged {
            records: self.records,
            index: self.index,
            ty: array.items,
            // The stride of a record, or of a heap, that is in memory, so it fits in `usize`.
            stride: items.stride.max(1) as usize,
            size: items.size as usize,
            bytes,
        }))
    }

    /// Returns a member that is stored in the record itself as a separate record, to which [`Record::to_value`],
    /// [`Record::check`] and [`Record::with_heap`] can be applied.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::is_present`].
    pub fn part(&self, part: &Accessor) -> Result<Option<Record<'_>>> {
        let (records, index) = (self.records, self.index);
        let found = self.raw(part)?.map(Cow::Borrowed);
        Ok(found.map(|bytes| Record { records, ty: part.ty(), index, bytes }))
    }

    /// Returns the record as JSON text (section 5.3 of the specification). Texts and times of NumPy and named values of
    /// HDF5, which are stored as numbers, are texts. Checks every byte of the record.
    ///
    /// # Errors
    /// Returns an error of the rules about bytes in sections 3 to 5 of the specification, and the errors of
    /// [`Record::data`].
    pub fn to_json(&self) -> Result<String> {
        let mut out = String::new();
        self.with_heap(|schema, bytes, heap| {
            schema.display_text(self.ty, bytes, heap, &self.records.0.limits, &mut out)
        })?;
        Ok(out)
    }

    /// Returns the record as a JSON value. Checks every byte of the record.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::to_json`].
    pub fn to_value(&self) -> Result<Value> {
        self.with_heap(|schema, bytes, heap| {
            schema.record_value(self.ty, bytes, heap, &self.records.0.limits)
        })
    }

    /// Checks every significant byte of the record and the heap bytes that its entries refer to.
    ///
    /// # Errors
    /// Returns the same errors as [`Record::to_json`].
    pub fn check(&self) -> Result<()> {
        self.with_heap(|schema, bytes, heap| {
            schema.check_record(self.ty, bytes, heap, &self.records.0.limits)
        })
    }

    /// Calls `with` with the schema, the bytes of the record and a heap that its entries refer to. If the dataset's
    /// heap is mapped or in memory, that is the dataset's heap. Otherwise, it is a new heap with only the bytes that
    /// this record needs, and the record's entries are changed to refer to it.
    ///
    /// # Errors
    /// Returns the errors of `with`. If the heap is neither mapped nor in memory, also the `record/…` errors about
    /// entries and the errors of [`Tensor::bytes_range`](holdall_io::Tensor::bytes_range).
    pub fn with_heap<T>(
        &self,
        with: impl FnOnce(&holdall_schema::Schema, &[u8], &[u8]) -> Result<T>,
    ) -> Result<T> {
        let (schema, inner) = (self.records.schema(), &*self.records.0);
        if let Some(heap) = inner.heap.whole() {
            return with(schema, &self.bytes, heap).map_err(|e| self.in_context(e));
        }
        let (mut bytes, mut heap) = (self.bytes.to_vec(), Vec::new());
        let from = From { len: inner.heap.len(), get: &|range| inner.heap.get(range) };
        Mover::new(schema, &from, &mut heap, inner.limits.decoded_len)
            .record(self.ty, &mut bytes)
            .and_then(|()| with(schema, &bytes, &heap))
            .map_err(|e| self.in_context(e))
    }

    /// Returns the heap bytes that an entry refers to.
    pub(super) fn heap_bytes(&self, entry: Entry) -> Result<Cow<'r, [u8]>> {
        let heap = &self.records.0.heap;
        if let Some(heap) = heap.whole() {
            return entry.bytes(heap).map(Cow::Borrowed);
        }
        match entry.offset.checked_add(entry.len).filter(|end| *end <= heap.len()) {
            Some(end) => heap.get(entry.offset..end),
            None => {
                let Entry { offset, len } = entry;
                Err(ENTRY_BOUNDS.broken(format!(
                    "an entry of {len} bytes at offset {offset} ends after its heap of {} bytes",
                    heap.len()
                )))
            }
        }
    }

    fn kind(&self, part: &Accessor) -> Result<&'r Kind> {
        let schema = self.records.schema();
        // Fails if the type belongs to another schema.
        schema.extent(part.ty()).map_err(|e| self.in_context(e))?;
        Ok(&schema.ty(part.ty()).kind)
    }

    fn check_kind(&self, part: &Accessor, is: fn(&Kind) -> bool, what: &str) -> Result<()> {
        match self.kind(part)? {
            kind if is(kind) => Ok(()),
            kind => Err(self.not(kind, what)),
        }
    }

    #[cold]
    fn not(&self, kind: &Kind, what: &str) -> Error {
        self.in_context(ACCESS.broken(format!("a `TypeDef:{}` is not {what}", kind.as_str())))
    }

    #[cold]
    fn in_context(&self, e: Error) -> Error {
        self.records.in_record(e, self.index)
    }
}

/// Converts bytes to text. Fails if they are not UTF-8.
pub(super) fn text(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>> {
    let wrong = |at: usize, len: usize| UTF8.broken(format!("byte {at} of {len} is not UTF-8"));
    match bytes {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(e) => Err(wrong(e.valid_up_to(), bytes.len())),
        },
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|e| wrong(e.utf8_error().valid_up_to(), e.as_bytes().len())),
    }
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("index", &self.index).finish_non_exhaustive()
    }
}
