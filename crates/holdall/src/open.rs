//! Opening a file: how its bytes are fetched, what it may ask for, and finding what it contains.

use crate::file::File;
use crate::source::{Access, ByteSource, FileSource, MapSource, MemorySource};
use bytes::Bytes;
use holdall_core::{Index, Limits, Result, Stop, Window, formats};
use std::path::Path;
use std::sync::Arc;

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
/// Bytes that are only borrowed from a map are not touched by reading them, so they are checked only
/// under [`Check::All`]. [`crate::verify()`] checks everything whatever was chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// None.
    Off,
    /// Those that cost next to nothing: CRC-32C.
    #[default]
    Fast,
    /// All that this version can compute, SHA-256 too.
    All,
}

/// Opens a file with the default [`OpenOptions`].
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
}

impl OpenOptions {
    /// [`Io::Auto`], [`Check::Fast`] and the default [`Limits`].
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

    /// Holds the file to these limits.
    pub fn with_limits(mut self, limits: Limits) -> OpenOptions {
        self.limits = limits;
        self
    }

    /// The same for a file that will change while it is open: read where it would be mapped.
    pub(crate) fn unmapped(&self) -> OpenOptions {
        let io = match self.io {
            Io::Auto | Io::Map => Io::Read,
            other => other,
        };
        OpenOptions { io, ..self.clone() }
    }

    /// Opens a file of the file system.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let named = |e: holdall_core::Error| e.in_source(&name);
        let file = FileSource::open(path).map_err(named)?;
        let io = match self.io {
            Io::Auto if file.is_remote() => Io::Read,
            Io::Auto | Io::Map => Io::Map,
            other => other,
        };
        let source: Arc<dyn ByteSource> = match io {
            Io::Map => Arc::new(MapSource::new(file).map_err(named)?),
            _ => Arc::new(file),
        };
        self.decode(source, name, io)
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

    fn decode(&self, source: Arc<dyn ByteSource>, name: String, io: Io) -> Result<File> {
        let index = index(&*source, &self.limits).map_err(|e| e.in_source(&name))?;
        Ok(File::new(index, source, self.limits.clone(), self.check, self.io, io, name))
    }
}

/// Bytes fetched from each end of a file before anything is known about it: enough for every magic
/// number, and for the whole manifest or header of most files.
const FIRST_FETCH: u64 = 64 << 10;

/// Decodes the index of what `source` holds, fetching what the decoder asks for.
fn index(source: &dyn ByteSource, limits: &Limits) -> Result<Index> {
    let len = source.len();
    let head = 0..len.min(FIRST_FETCH);
    let tail = head.end.max(len.saturating_sub(FIRST_FETCH))..len;
    let at_hand = source.access() == Access::Borrowed
        && !source.is_cold(head.clone())
        && !source.is_cold(tail.clone());
    let mut window = if at_hand {
        Window::whole(source.read_range(0..len)?)
    } else {
        let mut window = Window::new(len);
        window.add(head.start, source.read_part(head)?);
        window.add(tail.start, source.read_part(tail)?);
        window
    };
    loop {
        match formats::decode(&window, limits) {
            Ok(index) => return Ok(index),
            Err(Stop::Fail(e)) => return Err(e),
            Err(Stop::Need(range)) => {
                window.add(range.start, source.read_part(range.clone())?);
            }
        }
    }
}
