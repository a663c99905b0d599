//! The index: a compact table of a file's contents.

use super::shape::element_count;
use super::{
    Attributes, ByteOrder, Checksum, Component, DType, Digest, Encoding, Layout, LogicalType, Role,
};
use crate::error::{Error, Escape as _, Result, Rule};
use crate::read::{Chunked, Extent};
use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Something unusual about a file that does not make the file invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The warning's code, stable like the code of a rule.
    pub code: &'static str,
    /// The message of the first case.
    pub message: String,
    /// The tensor of the first case.
    pub tensor: Option<String>,
    /// The component of the first case.
    pub component: Option<String>,
    /// The number of cases; only the first one's details are kept.
    pub count: u64,
}

impl Warning {
    /// Creates a warning about the file or its source as a whole, with one case.
    pub fn new(code: &'static str, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into(), tensor: None, component: None, count: 1 }
    }

    /// Sets the tensor that the warning is about.
    pub fn in_tensor(mut self, tensor: impl Into<String>) -> Warning {
        self.tensor = Some(tensor.into());
        self
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(t) = &self.tensor {
            match t.as_str() {
                "" => f.write_str("the tensor with an empty name: ")?,
                name => write!(f, "tensor `{}`: ", name.escaped())?,
            }
        }
        f.write_str(&self.message)?;
        if self.count > 1 {
            write!(f, " (and {} more)", self.count - 1)?;
        }
        write!(f, " [{}]", self.code)
    }
}

/// The in-memory table of contents of a file: tensors and attributes. Cloning is cheap.
///
/// Memory is proportional to the manifest: 52 bytes per dense tensor, 8 per dimension, and the names.
#[derive(Clone)]
pub struct Index(pub(super) Arc<Inner>);

#[derive(Default)]
pub(super) struct Inner {
    pub(super) format: &'static str,
    pub(super) version: String,
    /// The sources: the length of each, and the range in which components may lie.
    pub(super) sources: Vec<(u64, Range<u64>)>,
    /// Checksums of bytes that are not exactly those of one component.
    pub(super) checksums: Vec<Checksum>,
    /// The bytes of components whose values are in the manifest: the source [`Extent::STATED`].
    pub(super) stated: Bytes,
    /// Arrays that are assembled from chunks: the sources from [`Extent::CHUNKED`] on.
    pub(super) chunked: Vec<Arc<Chunked>>,
    /// Contents of the file that the index does not represent: see [`Index::unrepresented`].
    pub(super) unrepresented: Vec<String>,
    /// See [`Index::dispensable`].
    pub(super) dispensable: Vec<String>,
    pub(super) attributes: Attributes,
    pub(super) warnings: Vec<Warning>,
    /// The first warnings about tensors, one entry per case.
    pub(super) cases: Vec<Warning>,
    /// All names, concatenated.
    pub(super) names: String,
    /// All shapes, concatenated.
    pub(super) dims: Vec<u64>,
    pub(super) tensors: Vec<TensorRow>,
    pub(super) components: Vec<ComponentRow>,
    /// The source of each component; empty as long as all are in the first source.
    pub(super) sources_of: Vec<u32>,
    pub(super) tensor_attributes: Vec<Attributes>,
    /// Digests that do not fit in a row.
    pub(super) digests: Vec<Digest>,
    /// Decoded lengths of compressed components; `u64::MAX` if unknown.
    pub(super) decoded_lens: Vec<u64>,
    /// Interned names of roles, layouts and logical types.
    pub(super) roles: Vec<Role>,
    pub(super) layouts: Vec<Layout>,
    pub(super) logical_types: Vec<LogicalType>,
    /// Tensor indices in bytewise order of their names; empty if the rows are in that order.
    pub(super) by_name: Vec<u32>,
    /// The faults of tensors, with the tensors' indices in ascending order.
    pub(super) faults: Vec<(u32, Fault)>,
    /// The bytes that tensors with a fault claim, as far as known.
    pub(super) claimed: Vec<Extent>,
}

/// One tensor. Its name, dimensions and components start where those of the previous row end.
pub(super) struct TensorRow {
    pub(super) name_end: u32,
    pub(super) dims_end: u32,
    pub(super) components_end: u32,
    /// 1 + index in `tensor_attributes`, or 0 if the tensor has no attributes.
    pub(super) attributes: u32,
    pub(super) layout: u16,
}

/// The error of a tensor that cannot be read.
pub(super) enum Fault {
    Known(Error),
    /// Only the rule that was broken, because many faults are kept in full already.
    OneOfMany(&'static Rule),
}

pub(super) struct ComponentRow {
    pub(super) offset: u64,
    pub(super) stored_len: u64,
    /// 1 + index in `decoded_lens`, or 0 if the decoded length equals the stored length.
    pub(super) decoded_len: u32,
    /// The digest, or its index: see `digest_kind`.
    pub(super) digest: u32,
    pub(super) role: u16,
    /// 1 + index in `logical_types`, or 0 without a logical type.
    pub(super) logical_type: u16,
    pub(super) digest_kind: DigestKind,
    pub(super) dtype: DType,
    pub(super) encoding: Encoding,
    pub(super) byte_order: ByteOrder,
}

/// The meaning of the field `digest` of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestKind {
    /// The component has no digest.
    None,
    /// The field is the CRC-32C.
    Crc32c,
    /// The field is the digest's index in `digests`.
    Other,
}

/// The description of a tensor in a list: see [`Index::row`].
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The end of the tensor's name in [`Index::all_names`]; it starts at the end of the previous one.
    pub name_end: usize,
    /// The end of the tensor's shape in [`Index::all_dims`]; it starts at the end of the previous one.
    pub dims_end: usize,
    /// The stored length of all components, in bytes.
    pub stored_len: u64,
    /// The properties that many tensors share.
    pub kind: RowKind,
}

/// The properties that determine how a tensor is shown, except for its name and its numbers. Within one index, two
/// tensors of equal kind have the same layout, dtype and logical type, and either both or neither can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKind {
    layout: u16,
    logical_type: u16,
    dtype: Option<DType>,
    first: Option<DType>,
    is_faulty: bool,
}

impl Index {
    /// Returns the id of the format that decoded the file: `ztensor`, `metatensor`, `safetensors`.
    pub fn format(&self) -> &'static str {
        self.0.format
    }

    /// Returns the format's version as the file states it (`1.2.0`), or an empty string if the format has none.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns the length of each source in bytes, by number. A model in one file has one source.
    pub fn source_lens(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.sources.iter().map(|(len, _)| *len)
    }

    /// Returns the checksums of bytes that are not exactly those of one component, in the file's order.
    pub fn checksums(&self) -> &[Checksum] {
        &self.0.checksums
    }

    /// Returns the total length of all sources, in bytes.
    pub fn source_len(&self) -> u64 {
        self.source_lens().fold(0, u64::saturating_add)
    }

    /// Returns the bytes of components whose values are in the manifest, as zTensor 0.1 stores the indices of sparse
    /// tensors. Components in the source [`Extent::STATED`] lie in these bytes.
    pub fn stated(&self) -> &Bytes {
        &self.0.stated
    }

    /// Returns the arrays that are assembled from chunks: the sources from [`Extent::CHUNKED`] on.
    pub fn chunked(&self) -> &[Arc<Chunked>] {
        &self.0.chunked
    }

    /// Returns descriptions of what the file contains and this version does not know: fields of its manifest or header,
    /// a newer version. Writing the file again would lose it. At most 8 descriptions are kept.
    pub fn unrepresented(&self) -> &[String] {
        &self.0.unrepresented
    }

    /// Returns descriptions of what the file contains, is skipped, and is not needed: writing the file again may lose
    /// it, but should report it. At most 8 descriptions are kept.
    pub fn dispensable(&self) -> &[String] {
        &self.0.dispensable
    }

    /// Returns the range of the first source that may contain components: all but the header, manifest and footer.
    pub fn data_range(&self) -> Range<u64> {
        match self.0.sources.first() {
            Some((len, data)) => data.start..data.end.min(*len),
            None => 0..0,
        }
    }

    /// Returns the range of each source that may contain components, by number.
    pub fn data_ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.0.sources.iter().map(|(len, data)| data.start..data.end.min(*len).max(data.start))
    }

    /// Returns the file's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.0.attributes
    }

    /// Returns the warnings about the file.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// Returns the warnings about the file as a whole, and about the tensors whose names `is_chosen` accepts. Only the
    /// first few thousand cases of a file are kept one by one; later ones are counted whatever their tensor.
    pub fn warnings_of(&self, is_chosen: &dyn Fn(&str) -> bool) -> Vec<Warning> {
        let about = |warning: &Warning| {
            let Some(_) = warning.tensor else { return Some(warning.clone()) };
            let cases = || self.0.cases.iter().filter(|case| case.code == warning.code);
            let unknown = warning.count.saturating_sub(cases().count() as u64);
            let chosen = || cases().filter(|case| case.tensor.as_deref().is_some_and(is_chosen));
            let first = chosen().next().or_else(|| (unknown > 0).then_some(warning))?;
            let count = (chosen().count() as u64).saturating_add(unknown);
            Some(Warning { count, ..first.clone() })
        };
        self.0.warnings.iter().filter_map(about).collect()
    }

    /// Returns the index if every tensor can be read.
    ///
    /// # Errors
    /// Returns the fault of the first tensor that cannot be read.
    pub fn sound(self) -> Result<Index> {
        let first = self.faults().next();
        first.map_or(Ok(self), Err)
    }

    /// Returns the faults of tensors that cannot be read, in the file's order. All other tensors can be read. See
    /// [`TensorInfo::fault`].
    pub fn faults(&self) -> impl ExactSizeIterator<Item = Error> {
        self.0.faults.iter().map(|(at, fault)| self.0.error(*at, fault))
    }

    /// Returns the bytes that unreadable tensors claim, as far as known.
    pub fn claimed(&self) -> &[Extent] {
        &self.0.claimed
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.0.tensors.len()
    }

    /// Returns `true` if the file has no tensors.
    pub fn is_empty(&self) -> bool {
        self.0.tensors.is_empty()
    }

    /// Returns all tensors, in the file's order.
    pub fn tensors(&self) -> Tensors {
        Tensors { index: self.clone(), next: 0 }
    }

    /// Returns the names of all tensors, in the file's order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.0.name(at))
    }

    /// Returns all names, concatenated in the file's order.
    pub fn all_names(&self) -> &str {
        &self.0.names
    }

    /// Returns all shapes, concatenated in the file's order.
    pub fn all_dims(&self) -> &[u64] {
        &self.0.dims
    }

    /// Returns the description of the tensor at `index` for a list, or `None` if `index` is out of range.
    #[inline(always)]
    pub fn row(&self, index: usize) -> Option<Row> {
        let inner = &*self.0;
        let row = inner.tensors.get(index)?;
        let all = &inner.components[inner.components_of(index)];
        let main = inner.main_of(all);
        let kind = RowKind {
            layout: row.layout,
            logical_type: main.map_or(0, |row| row.logical_type),
            dtype: main.map(|row| row.dtype),
            first: all.first().map(|row| row.dtype),
            is_faulty: inner.fault_of(index as u32).is_some(),
        };
        let stored_len = all.iter().fold(0, |n: u64, row| n.saturating_add(row.stored_len));
        let (name_end, dims_end) = (row.name_end as usize, row.dims_end as usize);
        Some(Row { name_end, dims_end, stored_len, kind })
    }

    /// Returns the tensor at index `at` in the file's order, or `None` if `at` is out of range.
    pub fn at(&self, at: usize) -> Option<TensorInfo> {
        (at < self.len()).then(|| TensorInfo { index: self.clone(), at: at as u32 })
    }

    /// Returns the tensors in bytewise order of their names.
    pub fn by_name(&self) -> impl Iterator<Item = TensorInfo> {
        (0..self.len()).map(|i| TensorInfo { index: self.clone(), at: self.0.nth(i) as u32 })
    }

    /// Returns the tensor with this name.
    pub fn get(&self, name: &str) -> Option<TensorInfo> {
        self.position(name).map(|at| TensorInfo { index: self.clone(), at: at as u32 })
    }

    /// Returns the index, in the file's order, of the tensor with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let inner = &*self.0;
        let (mut low, mut high) = (0, inner.tensors.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match inner.name(inner.nth(middle)).cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(inner.nth(middle)),
            }
        }
        None
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("format", &self.format())
            .field("version", &self.version())
            .field("tensors", &self.len())
            .finish_non_exhaustive()
    }
}

// The functions are always inlined: in a module optimised for size they would become calls, which cost more than their
// bodies.
impl Inner {
    /// Returns the range of a tensor's entries in an arena, given the end of each row's entries.
    #[inline(always)]
    fn span(&self, at: usize, end: impl Fn(&TensorRow) -> u32) -> Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| end(&self.tensors[before]));
        start as usize..end(&self.tensors[at]) as usize
    }

    /// Records the source of the component that is added next.
    pub(super) fn add_source(&mut self, source: u32) {
        if source > 0 || !self.sources_of.is_empty() {
            self.sources_of.resize(self.components.len(), 0);
            self.sources_of.push(source);
        }
    }

    /// Returns the index of the tensor at position `at` in the order of names.
    #[inline(always)]
    fn nth(&self, at: usize) -> usize {
        self.by_name.get(at).map_or(at, |&at| at as usize)
    }

    /// Returns the bytes of the name of the tensor at index `at`.
    #[inline(always)]
    pub(super) fn name_bytes(&self, at: usize) -> &[u8] {
        &self.names.as_bytes()[self.span(at, |t| t.name_end)]
    }

    /// Returns the name of the tensor at index `at`.
    #[inline(always)]
    pub(super) fn name(&self, at: usize) -> &str {
        &self.names[self.span(at, |t| t.name_end)]
    }

    /// Returns the shape of the tensor at index `at`.
    #[inline(always)]
    pub(super) fn dims(&self, at: usize) -> &[u64] {
        &self.dims[self.span(at, |t| t.dims_end)]
    }

    /// Returns the range of a tensor's components in `components`.
    #[inline(always)]
    pub(super) fn components_of(&self, at: usize) -> Range<usize> {
        self.span(at, |t| t.components_end)
    }

    /// Returns the component that defines the type of a tensor's elements.
    #[inline(always)]
    fn main_of<'r>(&self, rows: &'r [ComponentRow]) -> Option<&'r ComponentRow> {
        if let [only] = rows {
            return Some(only);
        }
        let find_row = |role: &Role| rows.iter().find(|row| self.roles[row.role as usize] == *role);
        [Role::Data, Role::Values, Role::PackedWeight, Role::Entries]
            .iter()
            .find_map(find_row)
            .or_else(|| rows.first())
    }

    /// Returns the fault of the tensor at index `at`, if it has one.
    #[inline(always)]
    fn fault_of(&self, at: u32) -> Option<&Fault> {
        if self.faults.is_empty() {
            return None;
        }
        let found = self.faults.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(&self.faults[found].1)
    }

    /// Returns the error for a fault of the tensor at index `at`.
    #[cold]
    fn error(&self, at: u32, fault: &Fault) -> Error {
        match fault {
            Fault::Known(e) => e.clone(),
            Fault::OneOfMany(rule) => rule
                .broken("the same error as in earlier tensors")
                .in_tensor(self.name(at as usize)),
        }
    }

    /// Returns the decoded length of a component in bytes, if known.
    pub(super) fn decoded_len(&self, row: &ComponentRow) -> Option<u64> {
        match row.decoded_len.checked_sub(1) {
            Some(i) => Some(self.decoded_lens[i as usize]).filter(|&len| len != u64::MAX),
            None => Some(row.stored_len),
        }
    }

    /// Returns the component at index `at` among all components.
    fn component(&self, at: usize) -> Component {
        let row = &self.components[at];
        let source = self.sources_of.get(at).copied().unwrap_or(0);
        Component {
            role: self.roles[row.role as usize].clone(),
            dtype: row.dtype,
            logical_type: (row.logical_type as usize)
                .checked_sub(1)
                .map(|i| self.logical_types[i].clone()),
            encoding: row.encoding,
            byte_order: row.byte_order,
            stored: Extent::new(source, row.offset..row.offset + row.stored_len),
            decoded_len: self.decoded_len(row),
            digest: match row.digest_kind {
                DigestKind::None => None,
                DigestKind::Crc32c => Some(Digest::Crc32c(row.digest)),
                DigestKind::Other => Some(self.digests[row.digest as usize].clone()),
            },
        }
    }
}

/// An iterator over the tensors of an [`Index`], in the file's order.
#[derive(Debug, Clone)]
pub struct Tensors {
    index: Index,
    next: usize,
}

impl Iterator for Tensors {
    type Item = TensorInfo;

    fn next(&mut self) -> Option<TensorInfo> {
        let item = self.index.at(self.next)?;
        self.next += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.index.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Tensors {}

/// The description of one tensor of an [`Index`]: everything except its bytes. Keeps the index alive.
#[derive(Clone)]
pub struct TensorInfo {
    index: Index,
    at: u32,
}

impl TensorInfo {
    #[inline(always)]
    fn row(&self) -> &TensorRow {
        &self.index.0.tensors[self.at as usize]
    }

    /// Returns the tensor's name exactly as in the file (it may contain NUL and control characters).
    pub fn name(&self) -> &str {
        self.index.0.name(self.at as usize)
    }

    /// Returns the tensor's index in the file's order.
    pub fn position(&self) -> usize {
        self.at as usize
    }

    /// Returns the tensor's dimensions, in elements. A scalar has none.
    pub fn shape(&self) -> &[u64] {
        self.index.0.dims(self.at as usize)
    }

    /// Returns the number of logical elements: the product of the shape, which the builder checked to fit.
    pub fn count(&self) -> u64 {
        element_count(self.shape()).unwrap_or(u64::MAX)
    }

    /// Returns the error because of which the tensor cannot be read, if any. Such a tensor has a name, a shape and
    /// attributes as far as they could be decoded, and no components.
    pub fn fault(&self) -> Option<Error> {
        let inner = &*self.index.0;
        inner.fault_of(self.at).map(|fault| inner.error(self.at, fault))
    }

    /// Returns the tensor if it can be read.
    ///
    /// # Errors
    /// Returns the tensor's [fault](TensorInfo::fault) if it cannot be read.
    pub fn sound(&self) -> Result<&TensorInfo> {
        match self.fault() {
            Some(e) => Err(e),
            None => Ok(self),
        }
    }

    /// Returns the layout: how the components form a tensor.
    pub fn layout(&self) -> &Layout {
        &self.index.0.layouts[self.row().layout as usize]
    }

    /// Returns the tensor's attributes.
    pub fn attributes(&self) -> &Attributes {
        static NONE: Attributes = Attributes::new();
        match self.row().attributes.checked_sub(1) {
            Some(i) => &self.index.0.tensor_attributes[i as usize],
            None => &NONE,
        }
    }

    /// Returns the tensor's components, in the file's order.
    pub fn components(&self) -> impl ExactSizeIterator<Item = Component> {
        self.sorted_range().map(|at| self.index.0.component(at))
    }

    /// Returns the component of a dense raw tensor that has no properties except name, shape, dtype and byte range.
    pub(super) fn plain(&self) -> Option<Component> {
        let mut components = self.components();
        let is_plain = |c: &Component| {
            c.role == Role::Data
                && c.encoding == Encoding::Raw
                && c.digest.is_none()
                && !c.stored.is_stated()
        };
        let has_more = *self.layout() != Layout::Dense || self.row().attributes > 0;
        // A tensor with a fault has no components.
        components.next().filter(|c| is_plain(c) && !has_more && components.len() == 0)
    }

    /// Returns the component with this role.
    pub fn component(&self, role: &Role) -> Option<Component> {
        let inner = &self.index.0;
        let at = self.rows().iter().position(|row| inner.roles[row.role as usize] == *role)?;
        Some(inner.component(self.sorted_range().start + at))
    }

    /// Returns the storage dtype of the tensor's elements: that of the component `data`, `values`, `packed_weight` or
    /// `entries`, or else of the first component; for a tensor in planes, that of the elements. Returns `None` if the tensor
    /// has no components.
    pub fn dtype(&self) -> Option<DType> {
        let stored = self.main_row()?.dtype;
        match self.layout() {
            Layout::Planes(of) => Some(of.dtype),
            _ => Some(stored),
        }
    }

    /// Returns the logical type of the tensor's elements: that of the same component as [`TensorInfo::dtype`].
    pub fn logical_type(&self) -> Option<LogicalType> {
        let i = (self.main_row()?.logical_type as usize).checked_sub(1)?;
        Some(self.index.0.logical_types[i].clone())
    }

    /// Returns the stored length of all components, in bytes.
    pub fn stored_len(&self) -> u64 {
        self.rows().iter().fold(0, |n, row| n.saturating_add(row.stored_len))
    }

    /// Returns the range of the tensor's components among all components.
    #[inline(always)]
    fn sorted_range(&self) -> Range<usize> {
        self.index.0.components_of(self.at as usize)
    }

    #[inline(always)]
    fn rows(&self) -> &[ComponentRow] {
        &self.index.0.components[self.sorted_range()]
    }

    #[inline(always)]
    fn main_row(&self) -> Option<&ComponentRow> {
        self.index.0.main_of(self.rows())
    }
}

impl fmt::Debug for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorInfo")
            .field("name", &self.name())
            .field("shape", &self.shape())
            .field("layout", self.layout())
            .field("components", &self.components().collect::<Vec<_>>())
            .finish()
    }
}
