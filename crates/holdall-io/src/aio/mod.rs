//! Files for programs that wait for many things at once, on `tokio`: the second executor of the same
//! [plans](holdall_core::read).
//!
//! What to fetch and what it decodes to is decided where it always is; here bytes are waited for instead of read, and
//! decoded on threads that may compute. A future that is dropped ends what it began: reads that are waited for are
//! dropped with it, one that a thread has begun runs to its end and is forgotten.
//!
//! All of it is called from inside a runtime of `tokio`.

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
use holdall_core::{Component, Index, Result, Role, TensorInfo};
use std::fmt;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a file of the file system or at an address.
///
/// # Errors
/// As [`crate::OpenOptions::open`].
pub async fn open_with(path: impl Into<PathBuf>, options: &OpenOptions) -> Result<File> {
    let (path, options) = (path.into(), options.clone());
    executor::apart(move || options.open(&path)).await.map(File::from)
}

/// Opens whatever `source` gives; `name` stands for it in errors.
///
/// # Errors
/// As [`crate::OpenOptions::open_source`].
pub async fn open_source(
    source: Arc<dyn ByteSource>,
    name: impl Into<String>,
    options: &OpenOptions,
) -> Result<File> {
    let (name, options) = (name.into(), options.clone());
    let reads = Reads::here();
    let _ended = Ended { cancel: Cancel::new(), reads: Some(Arc::clone(&reads)) };
    let bridge = reads.bridge(Arc::clone(&source));
    let file = executor::apart(move || options.open_source(bridge, name)).await?;
    Ok(File(Arc::new(Inner { file, sources: vec![source], waits: true })))
}

/// An open file whose bytes are waited for. Cheap to clone.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    file: Whole,
    /// By the numbers that the index gives them.
    sources: Vec<Arc<dyn ByteSource>>,
    /// Whether they are sources that are waited for, rather than such that threads read.
    waits: bool,
}

/// Reads of an open file on the threads that `tokio` has for what blocks.
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
    /// The table of contents.
    pub fn index(&self) -> &Index {
        self.0.file.index()
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        self.0.file.name()
    }

    /// Tensors in the file's own order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + use<> {
        let file = self.clone();
        self.0.file.tensors().map(move |of| Tensor { of, file: file.clone() })
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// NotFound, with the nearest name there is.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        Ok(Tensor { of: self.0.file.tensor(name)?, file: self.clone() })
    }

    /// Loads every tensor: see [`File::load`].
    ///
    /// # Errors
    /// As [`crate::File::load_all`].
    pub async fn load_all(&self, options: &LoadOptions) -> Result<Loaded> {
        self.load_tensors(self.index().tensors().collect(), options).await
    }

    /// Loads these tensors into memory of their own, decoded and checked. Reads are under way for as many bytes as the source
    /// says are good; decoding is done on as many threads as `options` allow.
    ///
    /// # Errors
    /// As [`crate::File::load`].
    pub async fn load<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<Loaded> {
        let tensors = self.0.file.named(names)?;
        self.load_tensors(tensors, options).await
    }

    /// The source of that number. A number that no source has stands for the first: an index is checked against its sources when
    /// they come together.
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
                    // Checksums of more than a component are compared on a thread that may wait.
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

    /// Does what threads do with an open file: records, verification, comparison, conversion, whatever takes one. `job` is run on a thread
    /// that may block, with this file, whose reads are waited for, and with the [`Work`] that it is to hand on: when the future is
    /// dropped, that is cancelled, and reads of a [`ByteSource`] that is waited for fail.
    ///
    /// # Errors
    /// What `job` fails with.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Whole, Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = Cancel::new();
        let work = Work::new().with_cancel(&cancel);
        let reads = self.0.waits.then(Reads::here);
        let file = match &reads {
            None => self.0.file.clone(),
            Some(reads) => {
                let bridge = |source: &Arc<dyn ByteSource>| reads.bridge(Arc::clone(source));
                self.0.file.with_sources(self.0.sources.iter().map(bridge).collect())
            }
        };
        let _ended = Ended { cancel, reads };
        executor::apart(move || job(&file, work)).await
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.file.fmt(f)
    }
}

/// Ends what a future has begun on threads, when it is dropped.
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

/// One tensor of an open file. Everything about it is there ([`TensorInfo`], to which it derefs); its bytes are waited for.
#[derive(Clone)]
pub struct Tensor {
    of: Info,
    file: File,
}

impl Tensor {
    /// The decoded bytes of a component: little-endian, elements in row-major order.
    ///
    /// # Errors
    /// As [`crate::Tensor::bytes`].
    pub async fn bytes(&self, role: &Role) -> Result<Bytes> {
        let c = self.of.require(role)?;
        let want = crate::load::wanted(self.position(), c.clone(), self.file.0.file.check());
        let load = executor::load(&self.file, vec![want], &LoadOptions::new()).await;
        let mut all = load.map_err(|e| self.of.in_context(e, &c))?;
        Ok(all.pop().unwrap_or_default())
    }

    /// The decoded bytes `range` of a component, reading and decoding no more than it must.
    ///
    /// # Errors
    /// As [`crate::Tensor::bytes_range`].
    pub async fn bytes_range(&self, role: &Role, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.bytes_ranges(role, &[range]).await?;
        Ok(all.pop().unwrap_or_default())
    }

    /// The decoded bytes of several ranges of a component, which rise and do not overlap.
    ///
    /// # Errors
    /// As [`crate::Tensor::bytes_ranges`].
    pub async fn bytes_ranges(&self, role: &Role, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let c: Component = self.of.require(role)?;
        let read = executor::ranges(&self.file, self.position(), &c, ranges);
        read.await.map_err(|e| self.of.in_context(e, &c))
    }
}

impl Deref for Tensor {
    type Target = TensorInfo;

    fn deref(&self) -> &TensorInfo {
        self.of.info()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt(f)
    }
}
