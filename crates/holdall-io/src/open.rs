//! Opening a file: how its bytes are fetched, what it may ask for, and finding what it contains.

use crate::error::{CHANGED, SOURCES, io};
use crate::executor::Sources;
use crate::external::is_away;
use crate::file::File;
use crate::lock::Stamp;
use crate::shards::Home;
use crate::source::{Access, ByteSource, FileSource, MapSource, MemorySource, fetched, read_now};
use bytes::Bytes;
use holdall_core::layout::described::Layouts;
use holdall_core::{Index, Limits, Result, Window};
use holdall_formats::Format;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How the bytes of a file are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Io {
    /// [`Io::Map`] on local disks and [`Io::Read`] on network and user-space file systems, where
    /// mapping is many times slower. Loading much of a file that is not in the system's cache goes
    /// past the cache.
    #[default]
    Auto,
    /// Memory-map the file: views cost nothing until touched.
    Map,
    /// Read by position, through the system's cache.
    Read,
    /// Read by position; loads go past the system's cache (`O_DIRECT`) where the file system can.
    Direct,
}

/// Which digests are checked when whole components are read.
///
/// Bytes that are only borrowed from a map are not touched by handing them out, so they are checked only
/// under [`Check::All`]; parts of components cannot be checked at all. A file inside a package is checked against its SHA-256 as a whole when it is opened
/// under [`Check::All`], and not under the others. A verification checks everything whatever was chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// None.
    Off,
    /// Those that cost next to nothing: CRC-32C.
    Fast,
    /// All that this version can compute, SHA-256 too.
    #[default]
    Read,
    /// The same, of bytes that are only borrowed as well.
    All,
}

/// What becomes of a file in which single tensors have a fault (an unknown dtype, a wrong length) and the table of
/// tensors is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Faults {
    /// It opens. Those tensors are listed with their [fault](holdall_core::TensorInfo::fault), reading one of them fails
    /// with it, and all others can be read.
    #[default]
    Keep,
    /// It is refused for the first of them.
    Refuse,
}

/// Opens a file with the default [`OpenOptions`]: one of the file system, or one at `https://…`.
///
/// # Errors
/// Io when it cannot be read, Unsupported when no format claims it, and what its format finds wrong.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    OpenOptions::new().open(path)
}

/// What a caller chooses about opening a file.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    io: Io,
    check: Check,
    limits: Limits,
    faults: Faults,
    layouts: Arc<Layouts>,
    /// With the policy that addresses are opened under. Clones share its connections.
    #[cfg(feature = "http")]
    client: crate::http::Client,
    #[cfg(feature = "http")]
    cache: Option<crate::cache::BlockCache>,
    #[cfg(feature = "stores")]
    stores: crate::stores::Stores,
}

impl OpenOptions {
    /// [`Io::Auto`], [`Check::Read`], [`Faults::Keep`] and the default [`Limits`].
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Fetches bytes this way.
    pub fn with_io(mut self, io: Io) -> OpenOptions {
        self.io = io;
        self
    }

    /// Checks these digests on reading.
    pub fn with_check(mut self, check: Check) -> OpenOptions {
        self.check = check;
        self
    }

    /// What becomes of a file in which single tensors have a fault.
    pub fn with_faults(mut self, faults: Faults) -> OpenOptions {
        self.faults = faults;
        self
    }

    /// Holds the file to these limits.
    pub fn with_limits(mut self, limits: Limits) -> OpenOptions {
        self.limits = limits;
        self
    }

    /// Gives layouts that have no meaning by themselves the one that these descriptions say; see [`read_layouts`].
    pub fn with_layouts(mut self, layouts: impl Into<Arc<Layouts>>) -> OpenOptions {
        self.layouts = layouts.into();
        self
    }

    /// Opens addresses on the web under this policy.
    #[cfg(feature = "http")]
    pub fn with_policy(mut self, policy: crate::http::Policy) -> OpenOptions {
        self.client = crate::http::Client::new(&policy);
        self
    }

    /// Keeps blocks of files that are elsewhere in this cache.
    #[cfg(feature = "http")]
    pub fn with_cache(mut self, cache: crate::cache::BlockCache) -> OpenOptions {
        self.cache = Some(cache);
        self
    }

    /// Uses object stores so: with these credentials, at this endpoint.
    #[cfg(feature = "stores")]
    pub fn with_store_options(mut self, options: crate::stores::StoreOptions) -> OpenOptions {
        self.stores = crate::stores::Stores::new(options);
        self
    }

    /// The same for a file that will change while it is open: read where it would be mapped.
    pub fn unmapped(&self) -> OpenOptions {
        let io = match self.io {
            Io::Auto | Io::Map => Io::Read,
            other => other,
        };
        OpenOptions { io, ..self.clone() }
    }

    /// Opens a file of the file system, or, where `path` begins with `https://`, one on a web server: by
    /// range requests, see [`crate::http`]; with `s3://`, `gs://`, `az://` or `hf://` one in an object store, see [`crate::stores`]. A model of several files is opened as one: a folder with an index file (`*.index.json`)
    /// or with one file of tensors, such an index file, the first part of a split GGUF file, an ONNX model with external data, a file of zTensor 2
    /// with shards, a distributed checkpoint. `ARCHIVE!/PATH` is a file inside of a tar archive or a zip.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
        if let Some((archive, inside)) = crate::archive::split(path) {
            return self.open_inside(archive, inside);
        }
        if let Some(file) = self.open_model(path)? {
            return Ok(file);
        }
        let opened = self.with_files(self.open_one(path), path);
        match opened {
            // Asked last, for most of what is opened is a file.
            Err(_) if crate::http::is_url(path).is_none() && path.is_dir() => {
                self.open_folder(&Home::Folder(path.to_owned()))
            }
            #[cfg(feature = "stores")]
            Err(e) if e.code() == crate::stores::rules::NO_OBJECT.code => {
                self.open_prefix(path).unwrap_or(Err(e))
            }
            opened => opened,
        }
    }

    /// What was opened with the files that belong to it.
    fn with_files(&self, opened: Result<File>, path: &Path) -> Result<File> {
        // Where faults are not kept, tensors in other files are none once those are open.
        let opened = match opened {
            Err(e) if self.faults == Faults::Refuse && is_away(&e) => {
                self.clone().with_faults(Faults::Keep).open_one(path)
            }
            opened => opened,
        };
        self.with_external(opened?, path).and_then(|file| self.with_parts(file, path))
    }

    /// Opens one file, whatever it is a part of.
    fn open_one(&self, path: &Path) -> Result<File> {
        if let Some(url) = crate::http::is_url(path) {
            let (source, name) = self.remote(url)?;
            return self.decode(source, name, Io::Read);
        }
        let name = path.display().to_string();
        // Somebody may be editing the file in place. What was decoded counts only if the file was the
        // same before and after.
        for attempt in 1..=ATTEMPTS {
            let file = FileSource::open(path).map_err(|e| e.in_source(&name))?;
            let (handle, before) = file.as_opened();
            let opened = self.open_file(file, &name);
            let now = handle.metadata().map_err(|e| io(e, "opening").in_source(&name))?;
            if Stamp::from(&now) == before {
                return opened;
            }
            if attempt == ATTEMPTS {
                return opened.and_then(|_| Err(changing().in_source(&name)));
            }
            std::thread::sleep(PAUSE);
        }
        Err(changing().in_source(&name))
    }

    /// The bytes of a file, of whatever format, or of what is at an address on the web, and how that is named in errors.
    ///
    /// # Errors
    /// Io.
    pub fn bytes_of(&self, path: &Path) -> Result<(Arc<dyn ByteSource>, String)> {
        #[cfg(any(feature = "carton", feature = "pytorch", feature = "numpy", feature = "hdf5"))]
        if let Some((archive, inside)) = crate::archive::split(path) {
            return self.bytes_inside(archive, inside);
        }
        if let Some(url) = crate::http::is_url(path) {
            return self.remote(url);
        }
        let name = path.display().to_string();
        let file = FileSource::open(path).and_then(|file| self.source(file));
        file.map(|(source, _)| (source, name.clone())).map_err(|e| e.in_source(name))
    }

    /// What is at an address on the web, and how it is named in errors.
    #[cfg(feature = "http")]
    pub fn remote(&self, url: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        if crate::http::is_served(url) {
            return self.served(url);
        }
        let begin = begin(url);
        let source = match crate::stores::is_address(url) {
            #[cfg(feature = "stores")]
            true => self.stores.open(url, &self.client, begin)?,
            #[cfg(not(feature = "stores"))]
            true => return Err(no_stores(url)),
            false => crate::source::HttpSource::open_with(url, self.client.clone(), begin)?,
        };
        let (name, version) = (source.name(), source.version());
        let source: Arc<dyn ByteSource> = Arc::new(source);
        Ok(match (&self.cache, version) {
            (Some(cache), Some(version)) => (Arc::new(cache.of(source, &version)), name),
            _ => (source, name),
        })
    }

    /// What is at an address on the web: this build does not open those.
    ///
    /// # Errors
    /// Unsupported: `http/not-built`.
    #[cfg(not(feature = "http"))]
    pub fn remote(&self, url: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        if crate::http::is_served(url) {
            return self.served(url);
        }
        if crate::stores::is_address(url) {
            return Err(no_stores(url));
        }
        Err(crate::http::rules::NOT_BUILT.broken("this build does not open addresses on the web"))
    }

    /// What another Holdall serves, and how it is named in errors.
    #[cfg(feature = "quic")]
    fn served(&self, address: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        let source = crate::source::QuicSource::open(address, self.client.policy())?;
        let name = source.name();
        Ok((Arc::new(source), name))
    }

    #[cfg(not(feature = "quic"))]
    fn served(&self, _: &str) -> Result<(Arc<dyn ByteSource>, String)> {
        let rule = &crate::http::rules::NOT_SERVED;
        Err(rule.broken("this build does not open `holdall://` addresses"))
    }

    /// What an object store has below a prefix, or what of it matches a pattern: `s3://bucket/model/*.safetensors`.
    ///
    /// # Errors
    /// What the store refuses; Limit, where there are more than `Limits::files`.
    #[cfg(feature = "stores")]
    pub fn list(&self, address: &str) -> Result<Vec<crate::stores::Listed>> {
        self.stores.list(address, self.client.policy(), &self.limits)
    }

    /// Begins a file that will be at an address of an object store: what writes files is given the path of what this returns, and
    /// [`Staged::publish`](crate::stores::Staged::publish) uploads it.
    ///
    /// # Errors
    /// Misuse where there is an object and `overwrite` is not set; what the store refuses.
    #[cfg(feature = "stores")]
    pub fn stage(&self, address: &str, overwrite: bool) -> Result<crate::stores::Staged> {
        self.stores.stage(address, self.client.policy(), overwrite)
    }

    /// Begins a model of several files that will be below an address of an object store: what writes folders is given the path of what this
    /// returns, and [`StagedFolder::publish`](crate::stores::StagedFolder::publish) uploads its files.
    ///
    /// # Errors
    /// Misuse where there are objects below it and `overwrite` is not set; what the store refuses.
    #[cfg(feature = "stores")]
    pub fn stage_folder(
        &self,
        address: &str,
        overwrite: bool,
    ) -> Result<crate::stores::StagedFolder> {
        self.stores.stage_folder(address, self.client.policy(), overwrite)
    }

    fn open_file(&self, file: FileSource, name: &str) -> Result<File> {
        let (source, io) = self.source(file).map_err(|e| e.in_source(name))?;
        self.decode(source, name.to_owned(), io)
    }

    /// The way to the bytes of a file, and what [`Io::Auto`] came to.
    pub fn source(&self, file: FileSource) -> Result<(Arc<dyn ByteSource>, Io)> {
        let io = match self.io {
            Io::Auto if file.is_remote() => Io::Read,
            Io::Auto | Io::Map => Io::Map,
            other => other,
        };
        let source: Arc<dyn ByteSource> = match io {
            Io::Map => Arc::new(MapSource::new(file)?),
            _ => Arc::new(file),
        };
        Ok((source, io))
    }

    /// How the caller wants bytes to be fetched.
    pub(crate) fn io(&self) -> Io {
        self.io
    }

    /// What layouts mean that have no meaning by themselves.
    pub(crate) fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// Which digests are checked.
    pub fn check(&self) -> Check {
        self.check
    }

    /// The limits that files are held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Opens a file that is in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`], without Io.
    pub fn open_bytes(&self, bytes: impl Into<Bytes>, name: impl Into<String>) -> Result<File> {
        self.decode(Arc::new(MemorySource::new(bytes)), name.into(), Io::Map)
    }

    /// Opens whatever `source` gives; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_source(
        &self,
        source: Arc<dyn ByteSource>,
        name: impl Into<String>,
    ) -> Result<File> {
        self.decode(source, name.into(), Io::Read)
    }

    /// A model whose index is at hand and whose bytes are in `sources`, one for each that the index numbers: shards,
    /// external data. `name` stands for it in errors.
    ///
    /// # Errors
    /// Misuse, where there are fewer or more sources than the index spans, or one is of another length than it says.
    pub fn open_index(
        &self,
        index: Index,
        sources: Vec<Arc<dyn ByteSource>>,
        name: impl Into<String>,
    ) -> Result<File> {
        let name = name.into();
        let said: Vec<u64> = index.source_lens().collect();
        let found: Vec<u64> = sources.iter().map(|source| source.len()).collect();
        if said != found {
            let message = format!("the index spans sources of {said:?} bytes, there are {found:?}");
            return Err(SOURCES.broken(message).in_source(name));
        }
        let sources = Sources::new(sources, &index);
        Ok(File::new(index, sources, self, Io::Read, name))
    }

    /// An index, where its faults are kept or there are none.
    pub(crate) fn judged(&self, index: Index) -> Result<Index> {
        match self.faults {
            Faults::Keep => Ok(index),
            Faults::Refuse => index.sound(),
        }
    }

    /// The file that `source` has, under that name in errors; `io` is what [`Io::Auto`] came to.
    ///
    /// # Errors
    /// As [`open`].
    pub fn decode(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let index = index(&*source, &self.limits).and_then(|index| self.judged(index));
        let index = index.map_err(|e| e.in_source(&name))?;
        let sources = Sources::new(vec![source], &index);
        Ok(File::new(index, sources, self, io, name))
    }
}

/// The descriptions of layouts in a file, for [`OpenOptions::with_layouts`].
///
/// # Errors
/// Io; what is wrong with it: `docs/spec/layouts.md`.
pub fn read_layouts(path: impl AsRef<Path>, limits: &Limits) -> Result<Layouts> {
    let path = path.as_ref();
    let named = |e: holdall_core::Error| e.in_source(path.display());
    let failed = |e| named(io(e, "reading"));
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than may be there, so that what is too long is found to be.
    file.take(limits.text_len.saturating_add(1)).read_to_end(&mut text).map_err(failed)?;
    Layouts::parse(&text, limits).map_err(named)
}

/// The format of a file of the file system, by its content.
///
/// # Errors
/// Io; `format/unknown`, `format/empty`.
pub fn format_of(path: impl AsRef<Path>) -> Result<&'static Format> {
    let path = path.as_ref();
    let found = FileSource::open(path).and_then(|source| {
        let mut window = Window::new(source.len());
        fetch_ends(&source, &mut window)?;
        fetched(&source, &mut window, holdall_formats::detect)
    });
    found.map_err(|e| e.in_source(path.display()))
}

/// Where the table of contents of what `source` holds lies, as far as its format tells that without decoding it.
///
/// # Errors
/// As [`format_of`]; what the format finds wrong on the way there.
pub fn table_of(source: &dyn ByteSource, limits: &Limits) -> Result<Option<Range<u64>>> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::table(window, limits))
}

/// What opens files: [`OpenOptions`], and whoever knows more places that a file can be in.
pub trait Open {
    /// Opens the file of that name.
    ///
    /// # Errors
    /// As [`open`].
    fn at(&self, path: &Path) -> Result<File>;

    /// Opens a file that is in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`], without Io.
    fn in_memory(&self, bytes: Bytes, name: String) -> Result<File>;

    /// Opens whatever `source` gives; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`].
    fn of_source(&self, source: Arc<dyn ByteSource>, name: String) -> Result<File>;
}

impl Open for OpenOptions {
    fn at(&self, path: &Path) -> Result<File> {
        self.open(path)
    }

    fn in_memory(&self, bytes: Bytes, name: String) -> Result<File> {
        self.open_bytes(bytes, name)
    }

    fn of_source(&self, source: Arc<dyn ByteSource>, name: String) -> Result<File> {
        self.open_source(source, name)
    }
}

/// How often a file that changes while it is opened is opened again.
const ATTEMPTS: u32 = 100;
/// What an edit takes that is under way.
const PAUSE: Duration = Duration::from_millis(2);

/// What of the file at an address is asked for first, as far as its name tells.
#[cfg(feature = "http")]
fn begin(url: &str) -> crate::source::Begin {
    let (_, name) = crate::shards::Home::of(Path::new(url));
    let format = holdall_formats::shards::format_by(name);
    format.map_or(crate::source::Begin::Unknown, |f| crate::source::Begin::With(f.index_location))
}

#[cfg(not(feature = "stores"))]
#[cold]
fn no_stores(url: &str) -> holdall_core::Error {
    let e = crate::stores::rules::NOT_BUILT
        .broken("this build does not open addresses of object stores");
    e.in_source(crate::stores::shown(url))
}

#[cold]
fn changing() -> holdall_core::Error {
    CHANGED.broken(format!("the file changed each of {ATTEMPTS} times that it was opened"))
}

/// Bytes fetched from each end of a file before anything is known about it, where every fetch is a
/// wait: enough for every magic number, and for the whole manifest or header of most files.
const FIRST_FETCH: u64 = 256 << 10;
/// The same of a file that is read, where a fetch costs less.
const FIRST_READ: u64 = 64 << 10;
/// Bytes fetched from the start of a file that is in the system's cache, where a fetch costs little and
/// what is not needed costs more.
const FIRST_TOUCH: u64 = 4 << 10;

/// Fetches what most formats want to see first.
pub fn fetch_ends(source: &dyn ByteSource, window: &mut Window) -> Result<()> {
    let len = source.len();
    let came = source.came();
    if !came.is_empty() {
        came.into_iter().for_each(|(at, bytes)| window.add(at, bytes));
        return Ok(());
    }
    let first = 0..len.min(FIRST_TOUCH);
    let at_hand = match source.local() {
        Some(local) if local.is_mapped() => local.read_at_hand(first),
        Some(_) => None,
        None if source.terms().access == Access::Borrowed => Some(source.read_range(first)),
        None => None,
    };
    if let Some(bytes) = at_hand {
        window.add(0, bytes?);
        return Ok(());
    }
    let each = if source.terms().is_remote() { FIRST_FETCH } else { FIRST_READ };
    let head = 0..len.min(each);
    let tail = head.end.max(len.saturating_sub(each))..len;
    let ends = [head, tail];
    let bytes = read_now(source, &ends)?;
    ends.iter().zip(bytes).for_each(|(range, bytes)| window.add(range.start, bytes));
    Ok(())
}

/// Decodes the index of what `source` holds, fetching what the decoder asks for.
pub(crate) fn index(source: &dyn ByteSource, limits: &Limits) -> Result<Index> {
    let mut window = Window::new(source.len());
    fetch_ends(source, &mut window)?;
    fetched(source, &mut window, |window| holdall_formats::decode(window, limits))
}
