//! An open file and its tensors.

use crate::checked::{Check, Covering};
use crate::composite::Originals;
use crate::error::{NO_COMPONENT, NOT_FOUND};
use crate::executor::{ErrorContext, Pieces, Sources};
use crate::location::Location;
use crate::model::ModelFile;
use crate::options::{Io, OpenOptions};
use crate::planes;
use crate::quantized::{Quantized, Weights};
use crate::source::ByteSource;
use bytes::Bytes;
use holdall_core::error::{Escape as _, list};
use holdall_core::layout::described::Layouts;
use holdall_core::{
    Algorithm, Attributes, Component, Error, Index, Limits, Remedy, Result, Role, TensorInfo,
    Warning,
};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An open file: its index, and access to its bytes. Cheap to clone, and can be shared between threads.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    index: Index,
    sources: Sources,
    options: OpenOptions,
    io: Io,
    name: String,
    warnings: Vec<Warning>,
    files: Vec<ModelFile>,
    covering: Covering,
    quantized: Quantized,
}

impl File {
    pub(crate) fn new(
        index: Index,
        sources: Sources,
        options: &OpenOptions,
        io: Io,
        name: String,
    ) -> File {
        let mut warnings = index.warnings().to_vec();
        for warning in sources.all().iter().flat_map(|source| source.warnings()) {
            match warnings.iter_mut().find(|w| w.code == warning.code) {
                Some(first) => first.count += warning.count,
                None => warnings.push(warning),
            }
        }
        let options = options.clone();
        let (files, covering) = (Vec::new(), Covering::default());
        let quantized = Quantized::default();
        File(Arc::new(Inner {
            index,
            sources,
            options,
            io,
            name,
            warnings,
            files,
            covering,
            quantized,
        }))
    }

    /// Returns the same file with another index over the same sources, some of whose tensors are quantized weights.
    pub(crate) fn with_weights(&self, index: Index, weights: Weights) -> File {
        let sources = Sources::new(self.all_sources().to_vec(), &index);
        let (options, io, name) = (&self.0.options, self.0.io, self.0.name.clone());
        let mut file = File::new(index, sources, options, io, name);
        for warning in self.warnings() {
            if !file.warnings().iter().any(|own| own.code == warning.code) {
                file = file.with_warning(warning.clone());
            }
        }
        let mut file = file.with_files(self.0.files.clone());
        if let Some(inner) = Arc::get_mut(&mut file.0) {
            inner.quantized = Quantized::from_weights(weights);
        }
        file
    }

    /// Returns the same file with another index over the same sources, whose order is to be kept.
    pub(crate) fn with_index_in_order(&self, index: Index, originals: Originals) -> File {
        let mut file = self.with_weights(index, Weights::new());
        if let Some(inner) = Arc::get_mut(&mut file.0) {
            inner.quantized = Quantized::in_order(originals);
        }
        file
    }

    /// Returns `true` if the order of the tensors is that of another file, and not that of their bytes: see
    /// [`File::stored`].
    pub fn has_order(&self) -> bool {
        self.quantized().has_order
    }

    /// Returns the quantized weights that were found.
    pub(crate) fn quantized(&self) -> &Quantized {
        &self.0.quantized
    }

    /// Returns the options that the file was opened with.
    pub(crate) fn options(&self) -> &OpenOptions {
        &self.0.options
    }

    /// Returns the same file, whose requests have this priority if its sources have priorities: see
    /// [`ByteSource::with_priority`].
    pub(crate) fn with_priority(&self, priority: i32) -> File {
        let own = self.all_sources().iter();
        let all: Vec<_> = own.filter_map(|source| source.with_priority(priority)).collect();
        if all.len() < self.all_sources().len() {
            return self.clone();
        }
        self.with_sources(all)
    }

    /// Returns the same file over other sources of the same bytes.
    pub(crate) fn with_sources(&self, all: Vec<Arc<dyn ByteSource>>) -> File {
        let sources = self.sources().over(all);
        let (index, name) = (self.index().clone(), self.0.name.clone());
        let mut file = File::new(index, sources, &self.0.options, self.0.io, name);
        for warning in self.warnings() {
            if !file.warnings().iter().any(|own| own.code == warning.code) {
                file = file.with_warning(warning.clone());
            }
        }
        file.with_files(self.0.files.clone())
    }

    /// Returns the same file as a model that consists of these files.
    pub(crate) fn with_files(mut self, files: Vec<ModelFile>) -> File {
        // The file was just created, so there is only one reference to it.
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.files = files;
        }
        self
    }

    /// Returns the same file, with one more file of the model in front of the others.
    pub(crate) fn with_first_file(mut self, first: ModelFile) -> File {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.files.insert(0, first);
        }
        self
    }

    /// Returns the same file with one more warning.
    pub(crate) fn with_warning(mut self, warning: Warning) -> File {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.warnings.push(warning);
        }
        self
    }

    /// Returns the index.
    pub fn index(&self) -> &Index {
        &self.0.index
    }

    /// Returns the id of the file's format, such as `ztensor`, `metatensor` or `safetensors`.
    pub fn format(&self) -> &'static str {
        self.0.index.format()
    }

    /// Returns the version of the format as the file states it. Empty if the format has no versions.
    pub fn version(&self) -> &str {
        self.0.index.version()
    }

    /// Returns the file's attributes.
    pub fn attributes(&self) -> &Attributes {
        self.0.index.attributes()
    }

    /// Returns the warnings: oddities of the file or its source that do not make it invalid.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// Returns the errors of the tensors that cannot be read, in file order. All other tensors can be read.
    pub fn faults(&self) -> impl Iterator<Item = Error> {
        self.0.index.faults().map(|e| e.in_source(self.name()))
    }

    /// Returns the name under which the file was opened.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the files that the model consists of. Empty if it was opened from an index and its sources.
    pub fn files(&self) -> &[ModelFile] {
        &self.0.files
    }

    /// Returns `true` if the file at `location` is one of the model's files.
    pub(crate) fn is_made_of(&self, location: &Location) -> bool {
        self.files().iter().any(|file| file.location == *location)
    }

    /// Returns how bytes are fetched. [`Io::Auto`] has been replaced by the chosen way.
    pub fn io(&self) -> Io {
        self.0.io
    }

    /// Returns how the caller wants bytes to be fetched, which can be [`Io::Auto`].
    pub(crate) fn wanted_io(&self) -> Io {
        self.0.options.io()
    }

    /// Returns how the files that a package links to are fetched.
    #[cfg(feature = "carton")]
    pub(crate) fn fetching(&self) -> &crate::package::Fetching {
        &self.0.options.fetching
    }

    /// Returns the checksums that cover more than one component.
    pub(crate) fn covering(&self) -> &Covering {
        &self.0.covering
    }

    /// Returns which digests are checked when components are read.
    pub fn check(&self) -> Check {
        self.0.options.check()
    }

    /// Returns the limits that apply to the file.
    pub fn limits(&self) -> &Limits {
        self.0.options.limits()
    }

    /// Returns the descriptions of layouts that Holdall does not know.
    pub fn layouts(&self) -> &Arc<Layouts> {
        self.0.options.layouts()
    }

    /// Returns a number that only clones of this file share.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Returns the sources of the file's bytes, indexed by the source number of an [`Extent`](holdall_core::Extent). A
    /// model in one file has one source.
    pub fn all_sources(&self) -> &[Arc<dyn ByteSource>] {
        self.0.sources.all()
    }

    /// Returns the sources, with the bytes that the index itself states.
    pub fn sources(&self) -> &Sources {
        &self.0.sources
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.0.index.len()
    }

    /// Returns `true` if the file has no tensors.
    pub fn is_empty(&self) -> bool {
        self.0.index.is_empty()
    }

    /// Returns the names of the tensors, in file order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.index.names()
    }

    /// Returns the tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + use<> {
        let file = self.clone();
        self.0.index.tensors().map(move |info| Tensor { info, file: file.clone() })
    }

    /// Returns the tensor called `name`.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no such tensor, with the most similar name as a hint.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        match self.0.index.get(name) {
            Some(info) => Ok(Tensor { info, file: self.clone() }),
            None => Err(self.no_tensor(name)),
        }
    }

    /// Returns the tensor at index `position` in file order, or `None` if that is out of range.
    pub fn at(&self, position: usize) -> Option<Tensor> {
        let info = self.0.index.at(position)?;
        Some(Tensor { info, file: self.clone() })
    }

    #[cold]
    pub(crate) fn no_position(&self, position: usize) -> Error {
        let message =
            format!("tensor index {position} is out of range: the file has {} tensors", self.len());
        NOT_FOUND.broken(message).in_source(self.name())
    }

    /// Looks up the tensors of these names in the index.
    pub(crate) fn named<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<TensorInfo>> {
        let find = |name| self.0.index.get(name).ok_or_else(|| self.no_tensor(name));
        names.into_iter().map(find).collect()
    }

    #[cold]
    fn no_tensor(&self, name: &str) -> Error {
        let e = NOT_FOUND.broken("there is no tensor of this name").in_tensor(name);
        let e = e.in_source(self.name());
        match holdall_core::model::nearest(name, self.names()) {
            Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
            None => e,
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("name", &self.name())
            .field("index", self.index())
            .field("io", &self.io())
            .finish_non_exhaustive()
    }
}

/// A tensor of an open file. It derefs to its description ([`TensorInfo`]), which is in memory; its bytes are fetched
/// on request. Keeps the file open.
#[derive(Clone)]
pub struct Tensor {
    info: TensorInfo,
    file: File,
}

impl Tensor {
    /// Returns the tensor's description.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Returns the file that the tensor belongs to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the stored bytes of a component, without decoding them.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the tensor has no component in this role; an `Io` error.
    pub fn stored(&self, role: &Role) -> Result<Bytes> {
        let c = self.require(role)?;
        self.file.sources().read(c.stored).map_err(|e| self.in_context(e, &c))
    }

    /// Returns the decoded bytes of a component piece by piece, in bounded memory. The digest is computed along with
    /// the pieces; if it differs, the last item is the error.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the tensor has no component in this role.
    pub fn pieces(&self, role: &Role) -> Result<Pieces> {
        self.checked().pieces(role)
    }

    /// Returns the decoded bytes of a component of this tensor piece by piece, as [`Tensor::pieces`] does, checked
    /// against the given digest, or unchecked if that is `None`.
    ///
    /// # Errors
    /// Returns an `Io` error if the table of its frames cannot be read; a `Limit` error if it decodes to more bytes than allowed.
    pub fn component_pieces(
        &self,
        component: Component,
        digest: Option<Algorithm>,
    ) -> Result<Pieces> {
        let (sources, limits) = (self.file.sources().clone(), self.file.limits().clone());
        Pieces::new(sources, limits, self.error_context(), component, digest)
    }

    /// Returns the names of the tensor and the file, for errors while reading components.
    pub(crate) fn error_context(&self) -> ErrorContext {
        ErrorContext::new(self.name(), self.file.name())
    }

    /// Returns the decoded bytes `range` of a component. Reads and decodes no more than necessary: only those bytes of
    /// a raw component, only the frames that contain them of a seekable one.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::bytes`]; a `Misuse` error if the range is outside the component. A digest covers the whole component, so it
    /// is only checked if the range is the whole component.
    pub fn bytes_range(&self, role: &Role, range: Range<u64>) -> Result<Bytes> {
        let all = self.bytes_ranges(role, std::slice::from_ref(&range))?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// Returns the decoded bytes of several ranges of a component, as [`Tensor::bytes_range`] does for one. The ranges
    /// must ascend without overlap. Ranges near each other, or in one compressed frame, are fetched and decoded once.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::bytes_range`].
    pub fn bytes_ranges(&self, role: &Role, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if planes::is_joined(self, role) {
            return ranges.iter().map(|range| planes::range(self, range.clone())).collect();
        }
        let c = self.require(role)?;
        self.checked().ranges(&c, ranges).map_err(|e| self.in_context(e, &c))
    }

    /// Returns the decoded bytes `range` of a component piece by piece, in bounded memory, reading and decoding no more
    /// than necessary. The digest is only checked if the range is the whole component, which is then read as
    /// [`Tensor::pieces`] reads it.
    ///
    /// # Errors
    /// Returns a `NotFound` error; a `Limit` error if a compressed component decodes to more bytes than allowed.
    pub fn pieces_range(&self, role: &Role, range: Range<u64>) -> Result<Pieces> {
        let c = self.require(role)?;
        if range.start == 0 && c.decoded_len == Some(range.end) {
            return self.checked().component_pieces(c);
        }
        let (sources, limits) = (self.file.sources(), self.file.limits());
        Pieces::for_range(sources, limits, self.error_context(), c, range)
    }

    /// Returns the tensor if it can be read.
    ///
    /// # Errors
    /// Returns the tensor's [fault](TensorInfo::fault), if it has one.
    pub fn sound(&self) -> Result<&Tensor> {
        match self.fault() {
            Some(e) => Err(e.in_source(self.file.name())),
            None => Ok(self),
        }
    }

    /// Returns the component in this role.
    ///
    /// # Errors
    /// Returns the tensor's [fault](TensorInfo::fault); NotFound (`file/no-component`) if it has no such component.
    pub fn require(&self, role: &Role) -> Result<Component> {
        self.sound()?;
        self.component(role).ok_or_else(|| {
            let all = list(self.components().map(|c| format!("`{}`", c.role.as_str().escaped())));
            let role = role.as_str().escaped();
            NO_COMPONENT
                .broken(format!("there is no component `{role}`; the tensor has {all}"))
                .in_tensor(self.name())
                .in_source(self.file.name())
        })
    }

    /// Adds the component, its byte range, the tensor and the file to an error.
    pub fn in_context(&self, e: Error, c: &Component) -> Error {
        let e = e.in_tensor(self.name()).in_component(&c.role).in_source(self.file.name());
        if c.stored.is_stated() { e } else { e.at(c.stored.range()) }
    }
}

impl Deref for Tensor {
    type Target = TensorInfo;

    fn deref(&self) -> &TensorInfo {
        &self.info
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}
