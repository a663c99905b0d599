//! What a file contains, held compactly.

use super::shape::element_count;
use super::{
    Attributes, ByteOrder, Checksum, Component, DType, Digest, Encoding, Layout, LogicalType, Role,
};
use crate::error::{Error, Result, Rule, Shown as _};
use crate::read::{Chunked, Extent};
use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Something worth telling that does not make the file bad.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// Stable, like the code of a rule.
    pub code: &'static str,
    /// The first case, in words.
    pub message: String,
    /// The first tensor it is about.
    pub tensor: Option<String>,
    /// The component of that tensor.
    pub component: Option<String>,
    /// How many times it was found; only the first is kept.
    pub count: u64,
}

impl Warning {
    /// One case, of the file as a whole, or of where it comes from.
    pub fn new(code: &'static str, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into(), tensor: None, component: None, count: 1 }
    }

    /// The same, about this tensor.
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
                name => write!(f, "tensor `{}`: ", name.shown())?,
            }
        }
        f.write_str(&self.message)?;
        if self.count > 1 {
            write!(f, " (and {} more)", self.count - 1)?;
        }
        write!(f, " [{}]", self.code)
    }
}

/// The in-memory table of contents of a file: tensors and attributes. Cheap to clone.
///
/// Memory is proportional to the manifest: 52 bytes for a dense tensor, 8 for each dimension, and the
/// name.
#[derive(Clone)]
pub struct Index(pub(super) Arc<Inner>);

#[derive(Default)]
pub(super) struct Inner {
    pub(super) format: &'static str,
    pub(super) version: String,
    /// The sources: their lengths, and where in each components may lie.
    pub(super) sources: Vec<(u64, Range<u64>)>,
    /// Checksums of bytes that are not those of one component alone.
    pub(super) checksums: Vec<Checksum>,
    /// Bytes of components that the manifest states: those of [`Extent::STATED`].
    pub(super) stated: Bytes,
    /// Arrays put together of chunks: the sources from [`Extent::CHUNKED`] on.
    pub(super) chunked: Vec<Arc<Chunked>>,
    /// What the file says and the index does not: see [`Index::unkept`].
    pub(super) unkept: Vec<String>,
    /// See [`Index::dispensable`].
    pub(super) dispensable: Vec<String>,
    pub(super) attributes: Attributes,
    pub(super) warnings: Vec<Warning>,
    /// The cases of those that are about tensors, one by one: the first of the file.
    pub(super) cases: Vec<Warning>,
    /// All names, one after the other.
    pub(super) names: String,
    /// All shapes, one after the other.
    pub(super) dims: Vec<u64>,
    pub(super) tensors: Vec<TensorRow>,
    pub(super) components: Vec<ComponentRow>,
    /// The source of each component; empty while all are in the first.
    pub(super) sources_of: Vec<u32>,
    pub(super) tensor_attributes: Vec<Attributes>,
    /// Digests that do not fit into a row.
    pub(super) digests: Vec<Digest>,
    /// Decoded lengths of compressed components; `u64::MAX` where one is not known.
    pub(super) decoded_lens: Vec<u64>,
    /// Interned names of roles, layouts and logical types.
    pub(super) roles: Vec<Role>,
    pub(super) layouts: Vec<Layout>,
    pub(super) logical_types: Vec<LogicalType>,
    /// Tensor numbers in bytewise order of their names; empty when the rows are in that order.
    pub(super) by_name: Vec<u32>,
    /// What is wrong with single tensors, by their numbers, which rise.
    pub(super) faults: Vec<(u32, Fault)>,
    /// Bytes that tensors with a fault take, as far as they say.
    pub(super) claimed: Vec<Extent>,
}

/// One tensor. What it has of names, dimensions and components starts where the row before ends.
pub(super) struct TensorRow {
    pub(super) name_end: u32,
    pub(super) dims_end: u32,
    pub(super) components_end: u32,
    /// 1 + its place in `tensor_attributes`, or 0.
    pub(super) attributes: u32,
    pub(super) layout: u16,
}

/// What is wrong with a tensor.
pub(super) enum Fault {
    Known(Error),
    /// The rule that it breaks, where others before it are told in full.
    OneOfMany(&'static Rule),
}

pub(super) struct ComponentRow {
    pub(super) offset: u64,
    pub(super) stored_len: u64,
    /// 1 + its place in `decoded_lens`, or 0 where the stored length is the decoded one too.
    pub(super) decoded_len: u32,
    /// What `digest_kind` says.
    pub(super) digest: u32,
    pub(super) role: u16,
    /// 1 + its place in `logical_types`, or 0.
    pub(super) logical_type: u16,
    pub(super) digest_kind: DigestKind,
    pub(super) dtype: DType,
    pub(super) encoding: Encoding,
    pub(super) byte_order: ByteOrder,
}

/// What the number in a component's row says of its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestKind {
    /// Nothing: there is none.
    None,
    /// It is the CRC-32C.
    Crc32c,
    /// The digest is at that place in `digests`.
    Other,
}

/// What a list shows of a tensor: see [`Index::row`].
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Where its name ends in [`Index::all_names`]; it starts where the one before it ends.
    pub name_end: usize,
    /// The same of its shape in [`Index::all_dims`].
    pub dims_end: usize,
    /// Bytes on disk of all its components.
    pub stored_len: u64,
    /// What it has in common with others.
    pub kind: RowKind,
}

/// What tells how a tensor is shown, but for its name and its numbers. Two of an index that are equal are of tensors with the same layout, dtype
/// and logical type, which both can be read, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKind {
    layout: u16,
    logical_type: u16,
    dtype: Option<DType>,
    first: Option<DType>,
    is_faulty: bool,
}

impl Index {
    /// Id of the format it was decoded by: `ztensor`, `metatensor`, `safetensors`.
    pub fn format(&self) -> &'static str {
        self.0.format
    }

    /// Version of the format as the file states it (`1.2.0`); empty where the format has none.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The lengths of the sources that it spans, in bytes, by their numbers: one for a model in one file.
    pub fn source_lens(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.sources.iter().map(|(len, _)| *len)
    }

    /// The checksums of bytes that are not those of one component alone, in the file's order.
    pub fn checksums(&self) -> &[Checksum] {
        &self.0.checksums
    }

    /// Bytes in all sources.
    pub fn source_len(&self) -> u64 {
        self.source_lens().fold(0, u64::saturating_add)
    }

    /// The bytes that no source has because the manifest itself states them, as zTensor 0.1 does with the
    /// indices of sparse tensors. Components in [`Extent::STATED`] lie in them.
    pub fn stated(&self) -> &Bytes {
        &self.0.stated
    }

    /// The arrays that are put together of chunks: the sources from [`Extent::CHUNKED`] on.
    pub fn chunked(&self) -> &[Arc<Chunked>] {
        &self.0.chunked
    }

    /// What the file says besides that this version does not know, in words: fields of its manifest or header, a
    /// newer version. Who writes the file again would lose it. The first 8 things of a file are kept.
    pub fn unkept(&self) -> &[String] {
        &self.0.unkept
    }

    /// What the file says besides that is passed over, and that the file can do without, in words: a rewrite may lose it, if it says so.
    /// The first 8 things of a file are kept.
    pub fn dispensable(&self) -> &[String] {
        &self.0.dispensable
    }

    /// The bytes of the first source that may hold components: all but its header, manifest and footer.
    pub fn data_range(&self) -> Range<u64> {
        match self.0.sources.first() {
            Some((len, data)) => data.start..data.end.min(*len),
            None => 0..0,
        }
    }

    /// Returns the bytes of each source that may hold components, by their numbers.
    pub fn data_ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.0.sources.iter().map(|(len, data)| data.start..data.end.min(*len).max(data.start))
    }

    /// The file's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.0.attributes
    }

    /// What is odd about the file but does not make it bad.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// The same of the file as a whole, and of the tensors that are chosen by their names. Of a file with more than
    /// thousands of cases those behind are counted whatever tensor they are about.
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

    /// The index, where every tensor can be read.
    ///
    /// # Errors
    /// What is wrong with the first tensor that cannot.
    pub fn sound(self) -> Result<Index> {
        let first = self.faults().next();
        first.map_or(Ok(self), Err)
    }

    /// What is wrong with single tensors, in the file's own order: each is listed and cannot be read, and all others
    /// can. See [`TensorInfo::fault`].
    pub fn faults(&self) -> impl ExactSizeIterator<Item = Error> {
        self.0.faults.iter().map(|(at, fault)| self.0.error(*at, fault))
    }

    /// The bytes of tensors that cannot be read, as far as they say which those are.
    pub fn claimed(&self) -> &[Extent] {
        &self.0.claimed
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.tensors.is_empty()
    }

    /// All tensors in the file's own order.
    pub fn tensors(&self) -> Tensors {
        Tensors { index: self.clone(), next: 0 }
    }

    /// Names in the file's own order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.0.name(at))
    }

    /// All names in the file's own order, one after the other.
    pub fn all_names(&self) -> &str {
        &self.0.names
    }

    /// All shapes in the file's own order, one after the other.
    pub fn all_dims(&self) -> &[u64] {
        &self.0.dims
    }

    /// What a list shows of tensor number `at`.
    #[inline(always)]
    pub fn row(&self, at: usize) -> Option<Row> {
        let inner = &*self.0;
        let row = inner.tensors.get(at)?;
        let all = &inner.components[inner.components_of(at)];
        let main = inner.main_of(all);
        let kind = RowKind {
            layout: row.layout,
            logical_type: main.map_or(0, |row| row.logical_type),
            dtype: main.map(|row| row.dtype),
            first: all.first().map(|row| row.dtype),
            is_faulty: inner.fault_of(at as u32).is_some(),
        };
        let stored_len = all.iter().fold(0, |n: u64, row| n.saturating_add(row.stored_len));
        let (name_end, dims_end) = (row.name_end as usize, row.dims_end as usize);
        Some(Row { name_end, dims_end, stored_len, kind })
    }

    /// Tensor number `at` in the file's own order.
    pub fn at(&self, at: usize) -> Option<TensorInfo> {
        (at < self.len()).then(|| TensorInfo { index: self.clone(), at: at as u32 })
    }

    /// The tensors in bytewise order of their names.
    pub fn by_name(&self) -> impl Iterator<Item = TensorInfo> {
        (0..self.len()).map(|i| TensorInfo { index: self.clone(), at: self.0.nth(i) as u32 })
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<TensorInfo> {
        self.position(name).map(|at| TensorInfo { index: self.clone(), at: at as u32 })
    }

    /// The number of the tensor of that name, in the file's own order.
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

// In a module that is built to be small they would be calls, which cost more than they do.
impl Inner {
    /// Where what tensor number `at` has of something starts and ends, from where each row ends.
    #[inline(always)]
    fn span(&self, at: usize, end: impl Fn(&TensorRow) -> u32) -> Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| end(&self.tensors[before]));
        start as usize..end(&self.tensors[at]) as usize
    }

    /// Notes the source of the component that is added next.
    pub(super) fn add_source(&mut self, source: u32) {
        if source > 0 || !self.sources_of.is_empty() {
            self.sources_of.resize(self.components.len(), 0);
            self.sources_of.push(source);
        }
    }

    /// The number of the tensor whose name is in place `at` of all names in order.
    #[inline(always)]
    fn nth(&self, at: usize) -> usize {
        self.by_name.get(at).map_or(at, |&at| at as usize)
    }

    /// The bytes of the name of tensor number `at`.
    #[inline(always)]
    pub(super) fn name_bytes(&self, at: usize) -> &[u8] {
        &self.names.as_bytes()[self.span(at, |t| t.name_end)]
    }

    /// The name of tensor number `at`.
    #[inline(always)]
    pub(super) fn name(&self, at: usize) -> &str {
        &self.names[self.span(at, |t| t.name_end)]
    }

    /// The shape of tensor number `at`.
    #[inline(always)]
    pub(super) fn dims(&self, at: usize) -> &[u64] {
        &self.dims[self.span(at, |t| t.dims_end)]
    }

    /// The places in `components` of those of tensor number `at`.
    #[inline(always)]
    pub(super) fn components_of(&self, at: usize) -> Range<usize> {
        self.span(at, |t| t.components_end)
    }

    /// The one of a tensor's components that says what its elements are.
    #[inline(always)]
    fn main_of<'r>(&self, rows: &'r [ComponentRow]) -> Option<&'r ComponentRow> {
        if let [only] = rows {
            return Some(only);
        }
        let of = |role: &Role| rows.iter().find(|row| self.roles[row.role as usize] == *role);
        [Role::Data, Role::Values, Role::PackedWeight, Role::Entries]
            .iter()
            .find_map(of)
            .or_else(|| rows.first())
    }

    /// What is wrong with tensor number `at`, if anything is.
    #[inline(always)]
    fn fault_of(&self, at: u32) -> Option<&Fault> {
        if self.faults.is_empty() {
            return None;
        }
        let found = self.faults.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(&self.faults[found].1)
    }

    /// What is wrong with tensor number `at`.
    #[cold]
    fn error(&self, at: u32, fault: &Fault) -> Error {
        match fault {
            Fault::Known(e) => e.clone(),
            Fault::OneOfMany(rule) => {
                rule.broken("as in tensors before it").in_tensor(self.name(at as usize))
            }
        }
    }

    /// Bytes that a component decodes to, where that is known.
    pub(super) fn decoded_len(&self, row: &ComponentRow) -> Option<u64> {
        match row.decoded_len.checked_sub(1) {
            Some(i) => Some(self.decoded_lens[i as usize]).filter(|&len| len != u64::MAX),
            None => Some(row.stored_len),
        }
    }

    /// Component number `at` of all.
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

/// The tensors of an [`Index`], in the file's own order.
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

/// One tensor of an [`Index`]: everything about it but its bytes. Keeps the index alive.
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

    /// Its name, exactly as the file has it (it may hold NUL and control characters).
    pub fn name(&self) -> &str {
        self.index.0.name(self.at as usize)
    }

    /// Its number in the file's own order.
    pub fn position(&self) -> usize {
        self.at as usize
    }

    /// Its dimensions, in elements; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        self.index.0.dims(self.at as usize)
    }

    /// Logical elements: the product of the shape. It fits; the builder saw to that.
    pub fn count(&self) -> u64 {
        element_count(self.shape()).unwrap_or(u64::MAX)
    }

    /// Why it cannot be read, where that is so: it has a name then, and a shape and attributes as far as they could be
    /// made out, and no components.
    pub fn fault(&self) -> Option<Error> {
        let inner = &*self.index.0;
        inner.fault_of(self.at).map(|fault| inner.error(self.at, fault))
    }

    /// The tensor, where it can be read.
    ///
    /// # Errors
    /// Its [fault](TensorInfo::fault).
    pub fn sound(&self) -> Result<&TensorInfo> {
        match self.fault() {
            Some(e) => Err(e),
            None => Ok(self),
        }
    }

    /// How its components form a tensor.
    pub fn layout(&self) -> &Layout {
        &self.index.0.layouts[self.row().layout as usize]
    }

    /// Its attributes.
    pub fn attributes(&self) -> &Attributes {
        static NONE: Attributes = Attributes::new();
        match self.row().attributes.checked_sub(1) {
            Some(i) => &self.index.0.tensor_attributes[i as usize],
            None => &NONE,
        }
    }

    /// Its components, in the file's own order.
    pub fn components(&self) -> impl ExactSizeIterator<Item = Component> {
        self.places().map(|at| self.index.0.component(at))
    }

    /// The component of a dense tensor of raw bytes, where there is nothing else to know of it but its name and shape.
    pub(super) fn plain(&self) -> Option<Component> {
        let mut components = self.components();
        let is_plain = |c: &Component| {
            c.role == Role::Data
                && c.encoding == Encoding::Raw
                && c.digest.is_none()
                && !c.stored.is_stated()
        };
        let has_more = *self.layout() != Layout::Dense || self.row().attributes > 0;
        // One with a fault has no component.
        components.next().filter(|c| is_plain(c) && !has_more && components.len() == 0)
    }

    /// The component of that role.
    pub fn component(&self, role: &Role) -> Option<Component> {
        let inner = &self.index.0;
        let at = self.rows().iter().position(|row| inner.roles[row.role as usize] == *role)?;
        Some(inner.component(self.places().start + at))
    }

    /// The storage dtype of its elements: of `data`, `values`, `packed_weight` or `entries`, else of the
    /// first component. `None` for a tensor without components.
    pub fn dtype(&self) -> Option<DType> {
        self.main_row().map(|row| row.dtype)
    }

    /// The logical type of its elements, found as [`TensorInfo::dtype`] is.
    pub fn logical_type(&self) -> Option<LogicalType> {
        let i = (self.main_row()?.logical_type as usize).checked_sub(1)?;
        Some(self.index.0.logical_types[i].clone())
    }

    /// Bytes on disk of all its components.
    pub fn stored_len(&self) -> u64 {
        self.rows().iter().fold(0, |n, row| n.saturating_add(row.stored_len))
    }

    /// Where its components are among all.
    #[inline(always)]
    fn places(&self) -> Range<usize> {
        self.index.0.components_of(self.at as usize)
    }

    #[inline(always)]
    fn rows(&self) -> &[ComponentRow] {
        &self.index.0.components[self.places()]
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
