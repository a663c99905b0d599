//! Files for asynchronous programs on `tokio`: the second executor of the same [plans](holdall_core::read).
//!
//! Planning and decoding are shared with the blocking executor. Here, bytes are awaited instead of read, and decoded on
//! threads for computation. Dropping a future ends what it has started: awaited reads are dropped with it; a read that
//! is already running on a thread completes, and its result is ignored.
//!
//! All functions must be called from a `tokio` runtime.

mod bridge;
mod executor;
mod source;

pub use source::{Blocking, ByteSource, Reading};

use crate::checked::Check;
use crate::file::{File as Whole, Tensor as Info};
use crate::load::{LoadOptions, Loaded, all_of};
use crate::options::OpenOptions;
use crate::work::{Cancel, Work};
use bridge::Reads;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::{Component, Index, Result, Role, TensorInfo};
use std::fmt;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a local file or one at an address.
///
/// # Errors
/// Returns the same errors as [`crate::OpenOptions::open`].
pub async fn open_with(path: impl Into<PathBuf>, options: &OpenOptions) -> Result<File> {
    let (path, options) = (path.into(), options.clone());
    executor::spawn_blocking(move || options.open(&path)).await.map(File::from)
}

/// Opens the file that `source` reads. `name` is its name in errors.
///
/// # Errors
/// Returns the same errors as [`crate::OpenOptions::open_source`].
pub async fn open_source(
    source: Arc<dyn ByteSource>,
    name: impl Into<String>,
    options: &OpenOptions,
) -> Result<File> {
    let (name, options) = (name.into(), options.clone());
    let reads = Reads::on_current_runtime();
    let _ended = Ended { cancel: Cancel::new(), reads: Some(Arc::clone(&reads)) };
    let bridge = reads.bridge(Arc::clone(&source));
    let file = executor::spawn_blocking(move || options.open_source(bridge, name)).await?;
    Ok(File(Arc::new(Inner { file, sources: vec![source], waits: true })))
}

/// An open file with asynchronous reads. Cheap to clone.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    file: Whole,
    /// The sources, indexed by the source numbers of the index.
    sources: Vec<Arc<dyn ByteSource>>,
    /// Whether the sources are asynchronous, as opposed to blocking ones that are read on threads.
    waits: bool,
}

/// Reads an open file on `tokio`'s threads for blocking operations.
impl From<Whole> for File {
    fn from(file: Whole) -> File {
        let blocking = |source: &Arc<dyn crate::ByteSource>| {
            Arc::new(Blocking::new(Arc::clone(source))) as Arc<dyn ByteSource>
        };
        let sources = file.all_sources().iter().map(blocking).collect();
        File(Arc::new(Inner { file, sources, waits: false }))
    }
}

impl File {
    /// Returns the index.
    pub fn index(&self) -> &Index {
        self.0.file.index()
    }

    /// Returns the name under which the file was opened.
    pub fn name(&self) -> &str {
        self.0.file.name()
    }

    /// Returns the tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + use<> {
        let file = self.clone();
        self.0.file.tensors().map(move |inner| Tensor { inner, file: file.clone() })
    }

    /// Returns the tensor called `name`.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no such tensor, with the most similar name as a hint.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        Ok(Tensor { inner: self.0.file.tensor(name)?, file: self.clone() })
    }

    /// Loads every tensor: see [`File::load`].
    ///
    /// # Errors
    /// Returns the same errors as [`crate::File::load_all`].
    pub async fn load_all(&self, options: &LoadOptions) -> Result<Loaded> {
        self.load_tensors(self.index().tensors().collect(), options).await
    }

    /// Loads the tensors called `names` into new memory, decoded and checked. As many reads are in flight as the
    /// source's read hints say; decoding uses as many threads as `options` allow.
    ///
    /// # Errors
    /// Returns the same errors as [`crate::File::load`].
    pub async fn load<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<Loaded> {
        let tensors = self.0.file.named(names)?;
        self.load_tensors(tensors, options).await
    }

    /// Returns the source with this number. An unknown number returns the first source; it cannot occur, because an
    /// index is checked against its sources when both are combined.
    fn source(&self, number: u32) -> &dyn ByteSource {
        let at = usize::try_from(number).ok().filter(|at| *at < self.0.sources.len());
        &*self.0.sources[at.unwrap_or(0)]
    }

    async fn load_tensors(
        &self,
        tensors: Vec<TensorInfo>,
        options: &LoadOptions,
    ) -> Result<Loaded> {
        let file = &self.0.file;
        let load = async {
            let check = options.check.unwrap_or(file.check());
            let wants = match check == Check::All && file.checksums().next().is_some() {
                true => {
                    // Checksums of more than one component are compared on a thread that may block.
                    let (of_them, options) = (tensors.clone(), options.clone());
                    let own = self.clone();
                    own.run(move |file: &Whole, _| all_of(file, &of_them, &options)).await?
                }
                false => all_of(file, &tensors, options)?,
            };
            executor::load(self, wants, options).await
        };
        let bytes = load.await.map_err(|e| e.in_source(file.name()))?;
        Ok(Loaded::new(file, tensors, bytes))
    }

    /// Runs any blocking operation with an open file: records, verification, comparison, conversion. `job` runs on a
    /// thread that may block, with this file, and with a [`Work`] that it should pass on. Dropping the future cancels
    /// that work, and makes reads of asynchronous sources fail.
    ///
    /// # Errors
    /// Returns the errors of `job`.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Whole, Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = Cancel::new();
        let work = Work::new().with_cancel(&cancel);
        let reads = self.0.waits.then(Reads::on_current_runtime);
        let file = match &reads {
            None => self.0.file.clone(),
            Some(reads) => {
                let bridge = |source: &Arc<dyn ByteSource>| reads.bridge(Arc::clone(source));
                self.0.file.with_sources(self.0.sources.iter().map(bridge).collect())
            }
        };
        let _ended = Ended { cancel, reads };
        executor::spawn_blocking(move || job(&file, work)).await
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.file.fmt(f)
    }
}

/// Ends the operations of a future on other threads when it is dropped.
struct Ended {
    cancel: Cancel,
    reads: Option<Arc<Reads>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(reads) = &self.reads {
            reads.end();
        }
    }
}

/// A tensor of an open file. It derefs to its description ([`TensorInfo`]), which is in memory; its bytes are read
/// asynchronously.
#[derive(Clone)]
pub struct Tensor {
    inner: Info,
    file: File,
}

impl Tensor {
    /// Returns the decoded bytes of a component: little-endian, elements in row-major order.
    ///
    /// # Errors
    /// Returns the same errors as [`crate::Tensor::bytes`].
    pub async fn bytes(&self, role: &Role) -> Result<Bytes> {
        let c = self.inner.require(role)?;
        let want = crate::load::wanted(self.position(), c.clone(), self.file.0.file.check());
        let load = executor::load(&self.file, vec![want], &LoadOptions::new()).await;
        let mut all = load.map_err(|e| self.inner.in_context(e, &c))?;
        Ok(all.pop().debug_unwrap())
    }

    /// Returns the decoded bytes `range` of a component, reading and decoding no more than necessary.
    ///
    /// # Errors
    /// Returns the same errors as [`crate::Tensor::bytes_range`].
    pub async fn bytes_range(&self, role: &Role, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.bytes_ranges(role, &[range]).await?;
        Ok(all.pop().debug_unwrap())
    }

    /// Returns the decoded bytes of several ranges of a component, which must ascend without overlap.
    ///
    /// # Errors
    /// Returns the same errors as [`crate::Tensor::bytes_ranges`].
    pub async fn bytes_ranges(&self, role: &Role, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let c: Component = self.inner.require(role)?;
        let read = executor::ranges(&self.file, self.position(), &c, ranges);
        read.await.map_err(|e| self.inner.in_context(e, &c))
    }
}

impl Deref for Tensor {
    type Target = TensorInfo;

    fn deref(&self) -> &TensorInfo {
        self.inner.info()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
