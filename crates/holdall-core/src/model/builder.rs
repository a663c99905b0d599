//! Builds an index, and runs the checks that are common to all formats.
//!
//! An error in a single tensor becomes that tensor's *fault*: the tensor stays in the index but cannot be read, and the
//! other tensors can. An error that makes the table itself untrustworthy (bounds, overlaps in most formats, two tensors
//! of the same name) is returned as an error.

mod dense;
mod overlaps;

pub use dense::SAMPLE;

use super::index::{ComponentRow, DigestKind, Fault, Index, Inner, TensorRow, Warning};
use super::interner::Interner;
use super::shape::{element_count, stored_size};
use super::{
    Attributes, Checksum, Component, Digest, Encoding, Layout, LogicalType, Role, TensorInfo,
};
use crate::error::{Error, Escape as _, Result, cut_message};
use crate::limits::Limits;
use crate::read::{Chunked, Extent};
use holdall_collections::in_order;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

crate::error::rules! {
    /// Rules common to all formats.
    pub static RULES;

    /// A component reaches outside the part of the file that may hold data.
    pub BOUNDS: Malformed "index/bounds"
        "Every component lies inside the file, and outside its header, manifest and footer.";
    /// Two components overlap partially.
    pub OVERLAP: Malformed "index/overlap"
        "Two components are disjoint or the same range (tied weights); they never overlap partially.";
    /// Two tensors have the same name.
    pub DUPLICATE_NAME: Malformed "index/duplicate-name" "Tensor names are unique.";
    /// The product of a shape, or its size in bytes, does not fit in 64 bits.
    pub SHAPE_OVERFLOW: Malformed "index/shape-overflow"
        "The product of a shape, and its size in bytes, fit in 64 bits.";
    /// The size of a component differs from the size that the tensor's shape and dtype require.
    pub SIZE: Malformed "index/size"
        "A dense component has exactly product(shape) elements of its dtype, a component of blocks has exactly the blocks of its rows, and the `entries` of a blob have 16 bytes each.";
    /// A component that the layout requires is missing.
    pub MISSING_COMPONENT: Malformed "index/missing-component"
        "A tensor has every component that its layout requires.";
    /// A tensor has two components of the same role.
    pub DUPLICATE_COMPONENT: Malformed "index/duplicate-component"
        "The component roles of one tensor are unique.";
    /// A component's decoded length is not a multiple of its dtype's width.
    pub ELEMENT_WIDTH: Malformed "index/element-width"
        "The length of a decoded component is a multiple of the width of its dtype.";
    /// Too many tensors.
    pub TOO_MANY_TENSORS: Limit "index/too-many-tensors"
        "A file has at most `Limits::tensors` tensors."
        remedies [RaiseLimit { limit: "tensors", at_least: None }];
    /// Too many dimensions.
    pub RANK: Limit "index/rank" "A tensor has at most `Limits::rank` dimensions."
        remedies [RaiseLimit { limit: "rank", at_least: None }];
    /// A compressed component claims to decode to more bytes than its encoding can express.
    pub EXPANSION: Malformed "index/expansion"
        "A compressed component decodes to no more than its encoding can express (zstd: 128 KiB for \
         4 bytes; Deflate: 1032 for 1).";
    /// The file ends before the end of a component.
    pub CUT_SHORT: Malformed "index/cut-short"
        "A tensor that is recovered from a damaged file has all of its bytes.";
    /// The index has too many names, components or bytes of names.
    pub TOO_MANY_NAMES: Limit "index/too-many-names"
        "A file has at most 65534 distinct roles, layouts or logical types each.";
    /// Too many components.
    pub TOO_MANY_COMPONENTS: Limit "index/too-many-components"
        "A tensor has at most `Limits::components` components."
        remedies [RaiseLimit { limit: "components", at_least: None }];
}

/// The maximum number of warnings about single tensors that are kept as separate cases.
const MAX_CASES: usize = 4096;
/// The maximum number of skipped fields that are remembered, see [`IndexBuilder::unrepresented`].
const MAX_UNREPRESENTED: usize = 8;

/// Bytes of one entry of a blob: an offset and a length.
const ENTRY_LEN: u64 = 16;

/// The number of faults that are kept with their full error. Of later ones only the rule is kept.
const FULL_FAULTS: usize = 1000;

/// Builds an [`Index`]. Decoders add the tensors that they find, in the file's order, and the checks that hold for
/// every format run here.
pub struct IndexBuilder {
    inner: Inner,
    limits: Limits,
    /// The bytes of components whose values are in the manifest instead of in the data.
    stated: Vec<u8>,
    /// Whether all names so far came in strictly ascending bytewise order.
    sorted: bool,
    /// The handling of components that overlap partially.
    overlaps: Overlaps,
    /// For each role, the index of the last tensor that has it, plus one.
    role_seen: Vec<u32>,
    /// The number of closed tensors: tensors whose checks are done.
    closed: usize,
    role_ids: Interner<Role>,
    layout_ids: Interner<Layout>,
    logical_ids: Interner<LogicalType>,
}

/// The handling of components that overlap partially.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlaps {
    /// The file is refused with an error.
    Refused,
    /// The tensors that the components belong to get a fault.
    Faults,
    /// Overlaps are allowed: tensors are views of shared memory.
    Views,
}

impl IndexBuilder {
    /// Creates the builder for a file of `source_len` bytes whose components must lie inside the range `data`.
    pub fn new(
        format: &'static str,
        version: impl Into<String>,
        source_len: u64,
        data: Range<u64>,
        limits: &Limits,
    ) -> IndexBuilder {
        let inner = Inner {
            format,
            version: version.into(),
            sources: vec![(source_len, data)],
            ..Inner::default()
        };
        IndexBuilder {
            inner,
            limits: limits.clone(),
            stated: Vec::new(),
            sorted: true,
            overlaps: Overlaps::Refused,
            role_seen: Vec::new(),
            closed: 0,
            role_ids: Interner::default(),
            layout_ids: Interner::default(),
            logical_ids: Interner::default(),
        }
    }

    /// Allows components to overlap partially, for formats whose tensors are views of shared memory.
    pub fn with_views(mut self) -> IndexBuilder {
        self.overlaps = Overlaps::Views;
        self
    }

    /// Turns partial overlaps into faults of the tensors concerned, instead of an error for the whole file.
    pub fn with_overlap_faults(mut self) -> IndexBuilder {
        self.overlaps = Overlaps::Faults;
        self
    }

    /// Adds another source of `len` bytes, whose components must lie inside the range `data`. Returns the source's
    /// number, which components use to refer to it.
    ///
    /// # Errors
    /// Returns [`TOO_MANY_NAMES`] if there are too many sources.
    pub fn source(&mut self, len: u64, data: Range<u64>) -> Result<u32> {
        let number = arena_offset(self.inner.sources.len())?;
        self.inner.sources.push((len, data));
        Ok(number)
    }

    /// Returns the limits for the file.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds a checksum of bytes that are not exactly those of one component.
    pub fn checksum(&mut self, checksum: Checksum) {
        self.inner.checksums.push(checksum);
    }

    /// Adds the expected digest of a whole source, and the file's name for that source.
    pub fn whole(&mut self, source: u32, name: String, digest: Digest) {
        let len = self.inner.sources.get(source as usize).map_or(0, |(len, _)| *len);
        self.checksum(Checksum::new(name, Extent::new(source, 0..len), digest));
    }

    /// Adds little-endian bytes whose values are in the manifest instead of in the data. Returns their extent, for a
    /// component to refer to.
    pub fn stated(&mut self, bytes: &[u8]) -> Extent {
        let start = self.stated.len() as u64;
        self.stated.extend_from_slice(bytes);
        Extent::new(Extent::STATED, start..self.stated.len() as u64)
    }

    /// Adds an array that is assembled from chunks. Returns its extent, for a component to refer to.
    ///
    /// # Errors
    /// Returns [`TOO_MANY_NAMES`] if there are too many arrays.
    pub fn chunked(&mut self, array: impl Into<Arc<Chunked>>) -> Result<Extent> {
        let array = array.into();
        let number = arena_offset(self.inner.chunked.len())?;
        let source = Extent::CHUNKED.checked_add(number).filter(|n| *n < Extent::STATED);
        let source = source.ok_or_else(|| {
            TOO_MANY_NAMES.broken(format!("there are {number} arrays in chunks before this one"))
        })?;
        let len = array.len();
        self.inner.chunked.push(array);
        Ok(Extent::new(source, 0..len))
    }

    /// Records that something in the file was skipped and would be lost, such as an unknown field.
    pub fn unrepresented(&mut self, description: impl FnOnce() -> String) {
        if self.inner.unrepresented.len() < MAX_UNREPRESENTED {
            self.inner.unrepresented.push(cut_message(description().into()).into_owned());
        }
    }

    /// Records that something in the file was skipped that the file does not need.
    pub fn dispensable(&mut self, description: impl FnOnce() -> String) {
        if self.inner.dispensable.len() < MAX_UNREPRESENTED {
            self.inner.dispensable.push(cut_message(description().into()).into_owned());
        }
    }

    /// Sets the format's version, for formats that state it after other fields.
    pub fn version(&mut self, version: impl Into<String>) {
        self.inner.version = version.into();
    }

    /// Sets the file's attributes.
    pub fn attributes(&mut self, attributes: Attributes) {
        self.inner.attributes = attributes;
    }

    /// Adds a warning. Warnings of one code are merged: the first message is kept, the others are counted.
    pub fn warn(
        &mut self,
        code: &'static str,
        tensor: Option<&str>,
        component: Option<&str>,
        message: impl FnOnce() -> Cow<'static, str>,
    ) {
        let known = self.inner.warnings.iter_mut().find(|w| w.code == code);
        let is_kept = tensor.is_some() && self.inner.cases.len() < MAX_CASES;
        if known.is_some() && !is_kept {
            known.into_iter().for_each(|w| w.count += 1);
            return;
        }
        let case = Warning {
            code,
            message: cut_message(message()).into_owned(),
            tensor: tensor.map(str::to_owned),
            component: component.map(str::to_owned),
            count: 1,
        };
        match known {
            Some(w) => w.count += 1,
            None => self.inner.warnings.push(case.clone()),
        }
        if is_kept {
            self.inner.cases.push(case);
        }
    }

    /// Adds a warning whose code has no other warnings.
    pub fn add_warning(&mut self, warning: Warning) {
        self.inner.warnings.push(warning);
    }

    /// Adds a tensor. The components that are added next belong to it.
    ///
    /// A shape whose product exceeds 2^64 becomes a fault of the tensor, and so does anything that closing the tensor
    /// finds: see [`IndexBuilder::finish`].
    ///
    /// # Errors
    /// Returns [`TOO_MANY_TENSORS`] or [`RANK`] if the tensor exceeds a limit, or [`TOO_MANY_NAMES`] if the index is
    /// full.
    pub fn tensor(&mut self, name: &str, shape: &[u64], layout: Layout) -> Result<()> {
        self.close_tensor();
        let inner = &mut self.inner;
        if inner.tensors.len() as u64 >= self.limits.tensors {
            let most = self.limits.tensors;
            return Err(TOO_MANY_TENSORS.broken(format!("more than {most} tensors")));
        }
        if shape.len() > self.limits.rank {
            return Err(RANK
                .broken(format!("{} dimensions, at most {}", shape.len(), self.limits.rank))
                .in_tensor(name));
        }
        let fits = element_count(shape).is_some();
        if let Some(last) = inner.tensors.len().checked_sub(1) {
            self.sorted = self.sorted && inner.name_bytes(last) < name.as_bytes();
        }
        inner.names.push_str(name);
        inner.dims.extend_from_slice(if fits { shape } else { &[] });
        let row = TensorRow {
            name_end: arena_offset(inner.names.len())?,
            dims_end: arena_offset(inner.dims.len())?,
            components_end: arena_offset(inner.components.len())?,
            attributes: 0,
            layout: self.layout_ids.intern(&mut inner.layouts, &layout)?,
        };
        inner.tensors.push(row);
        if !fits {
            self.fault(
                SHAPE_OVERFLOW.broken(format!("the product of shape {shape:?} exceeds 2^64")),
            );
        }
        Ok(())
    }

    /// Adds the tensors of another file whose names `keep` accepts, together with the file's sources, warnings and
    /// checksums, but not its attributes.
    ///
    /// # Errors
    /// Returns the errors of [`IndexBuilder::tensor`] and [`IndexBuilder::component`].
    pub fn absorb(&mut self, file: &Index, keep: impl Fn(&str) -> bool) -> Result<()> {
        let sources = file.0.sources.iter();
        let numbers: Vec<u32> =
            sources.map(|(len, data)| self.source(*len, data.clone())).collect::<Result<_>>()?;

        let arrays = file.0.chunked.iter().map(|array| {
            let number = |source| numbers.get(source as usize).copied().unwrap_or(u32::MAX);
            self.chunked((**array).clone().renumbered(number))
        });
        let arrays: Vec<Extent> = arrays.collect::<Result<_>>()?;
        let number = |stored: Extent| match stored.chunked() {
            Some(array) => arrays.get(array).map_or(u32::MAX, |extent| extent.source),
            None => numbers.get(stored.source as usize).copied().unwrap_or(u32::MAX),
        };
        for t in file.tensors().filter(|t| keep(t.name())) {
            let with_number = |stored| Extent { source: number(stored), ..stored };
            self.copy(t.name(), &t, file, with_number)?;
        }
        for claimed in file.claimed() {
            self.inner.claimed.push(Extent { source: number(*claimed), ..*claimed });
        }
        for checksum in file.checksums() {
            let mut checksum = checksum.clone();
            let stored = checksum.bytes.stored;
            checksum.bytes.stored = Extent { source: number(stored), ..stored };
            self.checksum(checksum);
        }
        self.inner.warnings.extend_from_slice(file.warnings());
        for what in file.unrepresented() {
            self.unrepresented(|| what.clone());
        }
        for what in file.dispensable() {
            self.dispensable(|| what.clone());
        }
        Ok(())
    }

    /// Adds a tensor of another index under `name`. `map_extent` maps extents of the other index to extents of this
    /// one.
    ///
    /// # Errors
    /// Returns the errors of [`IndexBuilder::tensor`] and [`IndexBuilder::component`].
    pub fn copy(
        &mut self,
        name: &str,
        tensor: &TensorInfo,
        index: &Index,
        map_extent: impl Fn(Extent) -> Extent,
    ) -> Result<()> {
        if let Some(c) = tensor.plain() {
            let (logical, stored) = (c.logical_type.as_ref(), map_extent(c.stored));
            return self.dense(name, tensor.shape(), c.dtype, logical, c.byte_order, stored);
        }
        self.tensor(name, tensor.shape(), tensor.layout().clone())?;
        self.tensor_attributes(tensor.attributes().clone());
        if let Some(e) = tensor.fault() {
            self.fault(e);
        }
        for mut c in tensor.components() {
            c.stored = match c.stored.is_stated() {
                true => {
                    let range = c.stored.start as usize..c.stored.end as usize;
                    self.stated(index.stated().get(range).unwrap_or_default())
                }
                false => map_extent(c.stored),
            };
            self.component(c).map_err(|e| e.in_tensor(name))?;
        }
        Ok(())
    }

    /// Creates a builder without sources, for files that are added with [`absorb`](IndexBuilder::absorb). Overlaps are
    /// not checked here, because they were checked when each file was decoded.
    pub fn for_files(
        format: &'static str,
        version: impl Into<String>,
        limits: &Limits,
    ) -> IndexBuilder {
        let mut builder = IndexBuilder::new(format, version, 0, 0..0, limits);
        builder.inner.sources.clear();
        builder.with_views()
    }

    /// Marks the tensor added last as unreadable because of an error. Only the first error is kept. The tensor's
    /// components are dropped, but the bytes that they claim are kept.
    pub fn fault(&mut self, e: Error) {
        let e = self.blame_last(e);
        let Some(last) = self.inner.tensors.len().checked_sub(1) else { return };
        if self.is_faulty(last) {
            return;
        }
        let own = self.inner.components_of(last);
        let inner = &mut self.inner;
        for at in own.clone() {
            let source = inner.sources_of.get(at).copied().unwrap_or(0);
            let row = &inner.components[at];
            let stored = row.offset..row.offset.saturating_add(row.stored_len);
            inner.claimed.push(Extent::new(source, stored));
        }
        inner.components.truncate(own.start);
        inner.sources_of.truncate(own.start);
        inner.tensors[last].components_end = own.start as u32;
        let fault = match inner.faults.len() < FULL_FAULTS {
            true => Fault::Known(e),
            false => Fault::OneOfMany(e.rule()),
        };
        inner.faults.push((last as u32, fault));
    }

    /// Claims bytes for the tensor added last, without describing them further.
    ///
    /// # Errors
    /// Returns [`BOUNDS`] if the bytes lie outside the source.
    pub fn claim(&mut self, stored: Extent) -> Result<()> {
        self.check_bounds(stored)?;
        let len = self.source_of(stored).map_or(0, |(len, _)| len);
        self.inner.claimed.push(Extent { end: stored.end.min(len.max(stored.start)), ..stored });
        Ok(())
    }

    /// Returns `true` if the tensor at index `last`, the one added last, has a fault.
    fn is_faulty(&self, last: usize) -> bool {
        self.inner.faults.last().is_some_and(|(at, _)| *at as usize == last)
    }

    /// Sets the attributes of the tensor added last.
    pub fn tensor_attributes(&mut self, attributes: Attributes) {
        if !attributes.is_stated() {
            return;
        }
        if let Some(t) = self.inner.tensors.last_mut() {
            self.inner.tensor_attributes.push(attributes);
            t.attributes = self.inner.tensor_attributes.len() as u32;
        }
    }

    /// Gives the tensor added last the attributes of the tensor at index `other`. They are shared, and take no
    /// additional memory.
    pub fn same_attributes(&mut self, other: usize) {
        let shared = self.inner.tensors.get(other).map_or(0, |t| t.attributes);
        if let Some(t) = self.inner.tensors.last_mut() {
            t.attributes = shared;
        }
    }

    /// Adds a component to the tensor added last.
    ///
    /// A raw component's decoded length is always its stored length. A known logical type over the wrong storage dtype
    /// is kept as an unknown one, with a warning. A decoded length that the encoding cannot reach becomes the tensor's
    /// fault ([`EXPANSION`]).
    ///
    /// # Errors
    /// Returns [`BOUNDS`] if the component lies outside the data, [`DUPLICATE_COMPONENT`] if the tensor already has
    /// this role, [`TOO_MANY_COMPONENTS`] or [`TOO_MANY_NAMES`] if there are too many.
    pub fn component(&mut self, mut c: Component) -> Result<()> {
        self.check_bounds(c.stored).map_err(|e| e.in_component(&c.role))?;
        let len = self.source_of(c.stored).map_or(0, |(len, _)| len);
        if self.limits.salvage && !c.stored.is_stated() && c.stored.end > len {
            let missing = c.stored.end - c.stored.start.max(len);
            let message = format!("the file ends at byte {len}: {missing} bytes are missing");
            self.fault(CUT_SHORT.broken(message).in_component(&c.role).at(c.stored.range()));
            c.stored.end = len.max(c.stored.start);
            if c.stored.is_empty() {
                return Ok(());
            }
        }
        match (c.encoding, c.decoded_len) {
            (Encoding::Raw, _) => c.decoded_len = Some(c.stored_len()),
            (encoding, Some(decoded)) => {
                if let Err(e) = check_expansion(encoding, c.stored_len(), decoded) {
                    self.fault(e.in_component(&c.role).at(c.stored.range()));
                }
            }
            // Lengths that follow from the shape are checked when the tensor is closed.
            (_, None) => {}
        }
        if self.inner.tensors.len().checked_sub(1).is_some_and(|last| self.is_faulty(last)) {
            return self.claim(c.stored);
        }
        self.check_logical_type(&mut c);
        let inner = &mut self.inner;
        let role = self.role_ids.intern(&mut inner.roles, &c.role)?;
        let logical_type = match &c.logical_type {
            Some(t) => self.logical_ids.intern(&mut inner.logical_types, t)? + 1,
            None => 0,
        };
        let (digest_kind, digest) = match c.digest {
            None => (DigestKind::None, 0),
            Some(Digest::Crc32c(crc)) => (DigestKind::Crc32c, crc),
            Some(other) => {
                inner.digests.push(other);
                (DigestKind::Other, arena_offset(inner.digests.len() - 1)?)
            }
        };
        let decoded_len = match c.encoding {
            Encoding::Raw => 0,
            Encoding::Coded(_) => {
                inner.decoded_lens.push(c.decoded_len.unwrap_or(u64::MAX));
                arena_offset(inner.decoded_lens.len())?
            }
        };
        let Some(last) = inner.tensors.len().checked_sub(1) else {
            return Ok(());
        };
        if self.role_seen.len() <= role as usize {
            self.role_seen.resize(role as usize + 1, 0);
        }
        let owner = arena_offset(last + 1)?;
        if std::mem::replace(&mut self.role_seen[role as usize], owner) == owner {
            let e = DUPLICATE_COMPONENT.broken(format!("two components `{}`", c.role));
            return Err(self.blame_last(e).in_component(&c.role).at(c.stored.range()));
        }
        let most = self.limits.components;
        if inner.components_of(last).len() >= most {
            let e = TOO_MANY_COMPONENTS.broken(format!("more than {most} components"));
            return Err(self.blame_last(e));
        }
        inner.add_source(c.stored.source);
        inner.components.push(ComponentRow {
            offset: c.stored.start,
            stored_len: c.stored.len(),
            decoded_len,
            digest,
            role,
            logical_type,
            digest_kind,
            dtype: c.dtype,
            encoding: c.encoding,
            byte_order: c.byte_order,
        });
        inner.tensors[last].components_end = arena_offset(inner.components.len())?;
        Ok(())
    }

    /// Returns the stored length of each tensor, in the order in which they were added. Every tensor must have exactly
    /// one component.
    pub fn stored_lens(&self) -> impl Iterator<Item = u64> {
        let inner = &self.inner;
        let mut faults = inner.faults.iter().map(|(at, _)| *at as usize).peekable();
        let (mut claimed, mut rows) = (inner.claimed.iter(), inner.components.iter());
        (0..inner.tensors.len()).map_while(move |at| match faults.next_if_eq(&at) {
            Some(_) => claimed.next().map(Extent::len),
            None => rows.next().map(|row| row.stored_len),
        })
    }

    /// Closes the last tensor, and runs the checks between tensors. Closing a tensor can add one of the faults
    /// [`MISSING_COMPONENT`], [`SIZE`], [`ELEMENT_WIDTH`], [`SHAPE_OVERFLOW`] and [`EXPANSION`].
    ///
    /// # Errors
    /// Returns [`DUPLICATE_NAME`] if two tensors have the same name, and [`OVERLAP`] if two components overlap
    /// partially, unless overlaps are allowed or become faults.
    pub fn finish(mut self) -> Result<Index> {
        self.close_tensor();
        self.check_names()?;
        self.check_overlaps()?;
        self.inner.stated = self.stated.into();
        Ok(Index(Arc::new(self.inner)))
    }

    /// Returns the name of the tensor added last.
    fn last_name(&self) -> Option<&str> {
        self.inner.tensors.len().checked_sub(1).map(|last| self.inner.name(last))
    }

    /// Adds the name of the tensor added last to an error.
    fn blame_last(&self, e: Error) -> Error {
        match self.last_name() {
            Some(name) => e.in_tensor(name),
            None => e,
        }
    }

    /// Returns the length of an extent's source, and the range in which components may lie.
    fn source_of(&self, stored: Extent) -> Option<(u64, Range<u64>)> {
        let whole = |len: u64| (len, 0..len);
        match stored.chunked() {
            Some(number) => self.inner.chunked.get(number).map(|array| whole(array.len())),
            None if stored.is_stated() => Some(whole(self.stated.len() as u64)),
            None => self.inner.sources.get(stored.source as usize).cloned(),
        }
    }

    /// Checks that the tensor added last may claim these bytes.
    fn check_bounds(&self, stored: Extent) -> Result<()> {
        let Some((len, data)) = self.source_of(stored) else {
            let (number, count) = (stored.source, self.inner.sources.len());
            return Err(BOUNDS.broken(format!("no source {number}: the file has {count} sources")));
        };
        // An empty component cannot overlap with anything, so it may lie anywhere in the file.
        let room = if stored.is_empty() { 0..len } else { data };
        if stored.start > stored.end || stored.start < room.start || stored.end > room.end {
            let e = BOUNDS.broken(format!(
                "component bytes {}..{} are outside {}..{}, the range for data in this file of \
                 {len} bytes",
                stored.start, stored.end, room.start, room.end
            ));
            return Err(self.blame_last(e).at(stored.range()));
        }
        Ok(())
    }

    /// Normalises the component's logical type: one that equals the dtype is removed; one that is unknown, or not
    /// defined over this dtype, becomes [`LogicalType::Other`].
    fn check_logical_type(&mut self, c: &mut Component) {
        let Some(t) = &c.logical_type else { return };
        if t.storage() == Some(c.dtype) {
            return;
        }
        if t.is_plain(c.dtype) {
            c.logical_type = None;
            return;
        }
        let (dtype, name) = (c.dtype, t.as_str().to_owned());
        let tensor = self.last_name().map(str::to_owned);
        self.warn("index/logical-type", tensor.as_deref(), Some(c.role.as_str()), || {
            let name = name.escaped();
            format!("unknown logical type `{name}` over {dtype}; read as plain {dtype}").into()
        });
        c.logical_type = Some(LogicalType::Other(name.into()));
    }

    /// Checks the components of the tensor added last against its layout, and fills in the decoded lengths that follow
    /// from its shape.
    fn close_tensor(&mut self) {
        let count = self.inner.tensors.len();
        if self.closed == count {
            return;
        }
        self.closed = count;
        let last = count - 1;
        if self.is_faulty(last) {
            return;
        }
        if let Err(e) = self.check_layout(last) {
            self.fault(e);
        }
    }

    fn check_layout(&mut self, last: usize) -> Result<()> {
        let own = self.inner.components_of(last);
        let layout = self.inner.tensors[last].layout as usize;
        for role in self.inner.layouts[layout].required_roles() {
            let inner = &self.inner;
            let mut rows = inner.components[own.clone()].iter();
            let Some(at) = rows.position(|c| inner.roles[c.role as usize] == *role) else {
                let layout = &inner.layouts[layout];
                let e = MISSING_COMPONENT
                    .broken(format!("layout `{layout}` requires a component `{role}`"));
                return Err(self.blame_last(e));
            };
            let at = own.start + at;
            if let Some(expected) = self.expected_len(last, at)? {
                self.settle_len(last, at, expected)?;
            }
        }
        self.check_element_widths(last)
    }

    /// Returns the decoded length of the component at index `at` of the tensor at index `last`, if it follows from the
    /// tensor's shape.
    fn expected_len(&self, last: usize, at: usize) -> Result<Option<u64>> {
        let inner = &self.inner;
        let (row, dims) = (&inner.components[at], inner.dims(last));
        let role = &inner.roles[row.role as usize];
        match (&inner.layouts[inner.tensors[last].layout as usize], role) {
            (Layout::Dense, Role::Data) => {
                let logical =
                    (row.logical_type as usize).checked_sub(1).map(|i| &inner.logical_types[i]);
                let count = element_count(dims).unwrap_or(u64::MAX);
                stored_size(count, row.dtype, logical).map_err(|()| {
                    let type_name = logical.map_or(row.dtype.as_str(), |logical| logical.as_str()).escaped();
                    let e = SHAPE_OVERFLOW.broken(format!(
                        "shape {dims:?} of {type_name} is not a whole number of bytes, or exceeds 2^64 bytes"
                    ));
                    self.blame_last(e).in_component(role)
                })
            }
            (Layout::Blocks(block_type), Role::Data) => {
                block_type.stored_len(dims).map(Some).ok_or_else(|| {
                    let message = format!(
                        "the rows of shape {dims:?} are not a multiple of a block of {block_type}"
                    );
                    self.blame_last(SIZE.broken(message)).in_component(role)
                })
            }
            (Layout::SparseCsr, Role::Indptr) => Ok(dims
                .first()
                .and_then(|rows| rows.checked_add(1)?.checked_mul(row.dtype.width()))),
            (Layout::Blob, Role::Entries) => {
                Ok(dims.first().and_then(|count| count.checked_mul(ENTRY_LEN)))
            }
            _ => Ok(None),
        }
    }

    /// Sets an unknown decoded length to `expected`, or compares a known one with it. Lengths of sparse components are
    /// not compared here: the sparse view compares them with each other.
    fn settle_len(&mut self, last: usize, at: usize, expected: u64) -> Result<()> {
        let inner = &mut self.inner;
        let row = &inner.components[at];
        let Some(found) = inner.decoded_len(row) else {
            if let Err(e) = check_expansion(row.encoding, row.stored_len, expected) {
                let e = e.at(row.offset..row.offset + row.stored_len);
                let role = inner.roles[row.role as usize].clone();
                return Err(self.blame_last(e).in_component(role));
            }
            let last_element = (row.decoded_len as usize).saturating_sub(1);
            inner.decoded_lens[last_element] = expected;
            return Ok(());
        };
        let layout = &inner.layouts[inner.tensors[last].layout as usize];
        if found == expected || !matches!(layout, Layout::Dense | Layout::Blocks(_) | Layout::Blob)
        {
            return Ok(());
        }
        let dims = inner.dims(last);
        let name: &dyn std::fmt::Display = match layout {
            Layout::Blocks(name) => name,
            _ => &row.dtype,
        };
        let e = SIZE
            .broken(format!(
                "shape {dims:?} of {name} requires {expected} bytes, the component has {found}"
            ))
            .at(row.offset..row.offset + row.stored_len);
        let role = inner.roles[row.role as usize].clone();
        Err(self.blame_last(e).in_component(role))
    }

    fn check_element_widths(&self, last: usize) -> Result<()> {
        let inner = &self.inner;
        let layout = &inner.layouts[inner.tensors[last].layout as usize];
        if matches!(layout, Layout::PackedCsr | Layout::PackedCoo) {
            return Ok(());
        }
        for row in &inner.components[inner.components_of(last)] {
            let Some(len) = inner.decoded_len(row) else { continue };
            // Widths are powers of two.
            if len & (row.dtype.width() - 1) != 0 {
                let e = ELEMENT_WIDTH.broken(format!(
                    "{len} decoded bytes are not a multiple of the width of {}",
                    row.dtype
                ));
                return Err(self
                    .blame_last(e)
                    .in_component(&inner.roles[row.role as usize])
                    .at(row.offset..row.offset + row.stored_len));
            }
        }
        Ok(())
    }

    /// Sorts the tensors by name, if they are not sorted already, and refuses duplicates.
    fn check_names(&mut self) -> Result<()> {
        if self.sorted {
            return Ok(());
        }
        let inner = &mut self.inner;
        let names: Vec<&[u8]> = (0..inner.tensors.len()).map(|at| inner.name_bytes(at)).collect();
        let by_name = in_order(&names);
        inner.by_name = by_name.map_err(|at| {
            DUPLICATE_NAME
                .broken("two tensors have the same name")
                .in_tensor(inner.name(at as usize))
        })?;
        Ok(())
    }
}

/// Checks that `stored_len` bytes of an encoding can decode to `decoded_len` bytes.
fn check_expansion(encoding: Encoding, stored_len: u64, decoded_len: u64) -> Result<()> {
    let most = encoding.max_decoded_len(stored_len);
    if decoded_len <= most {
        return Ok(());
    }
    let message =
        format!("{stored_len} stored bytes cannot decode to {decoded_len}: at most {most}");
    Err(EXPANSION.broken(message))
}

/// Converts an offset in one of the arenas to 32 bits. The length limit of manifests keeps every arena far below 2^32.
fn arena_offset(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| TOO_MANY_NAMES.broken("the index exceeds 2^32 entries"))
}
