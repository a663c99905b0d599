//! An open file and its tensors.

use crate::checked::{Check, Covering};
use crate::error::{NO_COMPONENT, NOT_FOUND};
use crate::executor::{ErrorContext, Pieces, Sources};
use crate::location::Location;
use crate::model::ModelFile;
use crate::options::{Io, OpenOptions};
use crate::source::ByteSource;
use bytes::Bytes;
use holdall_core::error::{Shown as _, list};
use holdall_core::layout::described::Layouts;
use holdall_core::{
    Algorithm, Attributes, Component, Error, Index, Limits, Remedy, Result, Role, TensorInfo,
    Warning,
};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An open file: what it contains, and the way to its bytes. Cheap to clone; shared by threads.
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
        File(Arc::new(Inner { index, sources, options, io, name, warnings, files, covering }))
    }

    /// The same file, whose reads have that priority where there is a choice: see [`ByteSource::with_priority`].
    pub(crate) fn with_priority(&self, priority: i32) -> File {
        let own = self.all_sources().iter();
        let all: Vec<_> = own.filter_map(|source| source.with_priority(priority)).collect();
        if all.len() < self.all_sources().len() {
            return self.clone();
        }
        self.with_sources(all)
    }

    /// The same file over other sources of the same bytes.
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

    /// Returns the same file, as a model that is made of these files.
    pub(crate) fn with_files(mut self, files: Vec<ModelFile>) -> File {
        // Nobody else has it yet.
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.files = files;
        }
        self
    }

    /// Returns the same file, with one more file of the model before the others.
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

    /// The table of contents.
    pub fn index(&self) -> &Index {
        &self.0.index
    }

    /// Id of its format: `ztensor`, `metatensor`, `safetensors`.
    pub fn format(&self) -> &'static str {
        self.0.index.format()
    }

    /// Version of its format as the file states it; empty where the format has none.
    pub fn version(&self) -> &str {
        self.0.index.version()
    }

    /// The file's attributes.
    pub fn attributes(&self) -> &Attributes {
        self.0.index.attributes()
    }

    /// What is odd about the file, or about where it comes from, but does not make it bad.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// What is wrong with single tensors, in the file's own order: those cannot be read, and all others can.
    pub fn faults(&self) -> impl Iterator<Item = Error> {
        self.0.index.faults().map(|e| e.in_source(self.name()))
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the files that the model is made of. Empty if it was opened from an index and its sources.
    pub fn files(&self) -> &[ModelFile] {
        &self.0.files
    }

    /// Whether the file at a location is one of the model's.
    pub(crate) fn is_made_of(&self, location: &Location) -> bool {
        self.files().iter().any(|file| file.location == *location)
    }

    /// How its bytes are fetched: what [`Io::Auto`] came to.
    pub fn io(&self) -> Io {
        self.0.io
    }

    /// How the caller asked for its bytes to be fetched.
    pub(crate) fn wanted_io(&self) -> Io {
        self.0.options.io()
    }

    /// How files that it links to are fetched, if it is a package.
    #[cfg(feature = "carton")]
    pub(crate) fn fetching(&self) -> &crate::package::Fetching {
        &self.0.options.fetching
    }

    /// The checksums that cover more than one component.
    pub(crate) fn covering(&self) -> &Covering {
        &self.0.covering
    }

    /// The digests checked when components are read.
    pub fn check(&self) -> Check {
        self.0.options.check()
    }

    /// The limits it is held to.
    pub fn limits(&self) -> &Limits {
        self.0.options.limits()
    }

    /// What layouts mean that have no meaning by themselves.
    pub fn layouts(&self) -> &Arc<Layouts> {
        self.0.options.layouts()
    }

    /// A number that two open files share only when they are clones of each other.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Where its bytes come from: one source for a model in one file, by the numbers that
    /// [`Extent`](holdall_core::Extent)s have.
    pub fn all_sources(&self) -> &[Arc<dyn ByteSource>] {
        self.0.sources.all()
    }

    /// Where its bytes are.
    pub fn sources(&self) -> &Sources {
        &self.0.sources
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.index.is_empty()
    }

    /// Names in the file's own order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.index.names()
    }

    /// Tensors in the file's own order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + use<> {
        let file = self.clone();
        self.0.index.tensors().map(move |info| Tensor { info, file: file.clone() })
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// NotFound, with the nearest name there is.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        match self.0.index.get(name) {
            Some(info) => Ok(Tensor { info, file: self.clone() }),
            None => Err(self.no_tensor(name)),
        }
    }

    /// Tensor number `position` in the file's own order.
    pub fn at(&self, position: usize) -> Option<Tensor> {
        let info = self.0.index.at(position)?;
        Some(Tensor { info, file: self.clone() })
    }

    #[cold]
    pub(crate) fn no_position(&self, position: usize) -> Error {
        let message = format!("there is no tensor number {position}, only {}", self.len());
        NOT_FOUND.broken(message).in_source(self.name())
    }

    /// The tensors of these names in the index.
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

/// One tensor of an open file. Everything about it is there ([`TensorInfo`], to which it derefs); its
/// bytes are fetched when asked for. Keeps the file open.
#[derive(Clone)]
pub struct Tensor {
    info: TensorInfo,
    file: File,
}

impl Tensor {
    /// What is known about it.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// The file it is in.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The stored bytes of a component, just as they are in the file.
    ///
    /// # Errors
    /// NotFound, Io.
    pub fn stored(&self, role: &Role) -> Result<Bytes> {
        let c = self.require(role)?;
        self.file.sources().read(c.stored).map_err(|e| self.in_context(e, &c))
    }

    /// The decoded bytes of a component piece by piece, in bounded memory; its digest is checked on
    /// the way and a mismatch is the last item.
    ///
    /// # Errors
    /// NotFound.
    pub fn pieces(&self, role: &Role) -> Result<Pieces> {
        self.checked().pieces(role)
    }

    /// The decoded bytes of a component of this tensor piece by piece, as [`Tensor::pieces`] gives them, checked against
    /// this digest, or against none.
    ///
    /// # Errors
    /// Io, from reading the table of its frames; Limit, when it decodes to more than is allowed.
    pub fn component_pieces(
        &self,
        component: Component,
        digest: Option<Algorithm>,
    ) -> Result<Pieces> {
        let (sources, limits) = (self.file.sources().clone(), self.file.limits().clone());
        Pieces::new(sources, limits, self.error_context(), component, digest)
    }

    /// The tensor and the file, for errors of what reads components.
    pub(crate) fn error_context(&self) -> ErrorContext {
        ErrorContext::new(self.name(), self.file.name())
    }

    /// The decoded bytes `range` of a component, reading and decoding no more than it must: only
    /// those bytes of a raw component, only the frames that hold them of a seekable one.
    ///
    /// # Errors
    /// As [`Tensor::bytes`], but a digest covers the whole component, so it is only compared if the range is all of it. Misuse for
    /// a range outside it.
    pub fn bytes_range(&self, role: &Role, range: Range<u64>) -> Result<Bytes> {
        let all = self.bytes_ranges(role, std::slice::from_ref(&range))?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// The decoded bytes of several ranges of a component, which rise and do not overlap, as [`Tensor::bytes_range`] gives
    /// one of them. What lies near each other, or in one compressed run, is fetched and decoded once.
    ///
    /// # Errors
    /// As [`Tensor::bytes_range`].
    pub fn bytes_ranges(&self, role: &Role, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let c = self.require(role)?;
        self.checked().ranges(&c, ranges).map_err(|e| self.in_context(e, &c))
    }

    /// The decoded bytes `range` of a component piece by piece, in bounded memory, reading and decoding no more than it
    /// must. A range that is all of the component is read as [`Tensor::pieces`] reads it; of a part no digest is compared.
    ///
    /// # Errors
    /// NotFound; Limit, when what is compressed decodes to more than is allowed.
    pub fn pieces_range(&self, role: &Role, range: Range<u64>) -> Result<Pieces> {
        let c = self.require(role)?;
        if range.start == 0 && c.decoded_len == Some(range.end) {
            return self.checked().component_pieces(c);
        }
        let (sources, limits) = (self.file.sources(), self.file.limits());
        Pieces::within(sources, limits, self.error_context(), c, range)
    }

    /// The tensor, where it can be read.
    ///
    /// # Errors
    /// Its [fault](TensorInfo::fault).
    pub fn sound(&self) -> Result<&Tensor> {
        match self.fault() {
            Some(e) => Err(e.in_source(self.file.name())),
            None => Ok(self),
        }
    }

    /// The component in that role, or the error that there is none.
    ///
    /// # Errors
    /// The tensor's [fault](TensorInfo::fault); NotFound: `file/no-component`.
    pub fn require(&self, role: &Role) -> Result<Component> {
        self.sound()?;
        self.component(role).ok_or_else(|| {
            let all = list(self.components().map(|c| format!("`{}`", c.role.as_str().shown())));
            let role = role.as_str().shown();
            NO_COMPONENT
                .broken(format!("there is no component `{role}`, only {all}"))
                .in_tensor(self.name())
                .in_source(self.file.name())
        })
    }

    /// The error with the component, the tensor and the file it is about.
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
