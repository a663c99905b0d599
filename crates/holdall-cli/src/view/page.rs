//! The files of the viewer: those that are built into the command, or those of a folder.

use crate::exit::NO_PAGE;
use holdall::serve::{FileId, ServedFile, file};
use holdall::{Algorithm, Bytes, Digest, Hasher, Result};
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file of the page.
struct PageFile {
    name: &'static str,
    /// Its media type.
    kind: &'static str,
    /// Its bytes, compressed by gzip; none if the command was built without the page.
    compressed: Option<&'static [u8]>,
}

/// The files of the page, as the build script found them.
const PAGE: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page, ready to be served.
pub(super) struct Page(Vec<(&'static str, Arc<dyn ServedFile>)>);

impl Page {
    /// Returns the page of a folder.
    pub(super) fn in_folder(folder: &Path) -> Result<Page> {
        let one = |part: &PageFile| match folder.join(part.name) {
            path if path.is_file() => Ok((part.name, of_kind(file(path)?, part.kind))),
            _ => {
                let e = format!("the folder does not contain the viewer: {} is missing", part.name);
                Err(NO_PAGE.broken(e).in_source(folder.display()))
            }
        };
        PAGE.iter().map(one).collect::<Result<_>>().map(Page)
    }

    /// Returns the page that is built into the command.
    pub(super) fn built_in() -> Result<Page> {
        let one = |part: &PageFile| {
            let none = || NO_PAGE.broken("this command was built without the viewer");
            let mut bytes = Vec::new();
            let mut unpacked = flate2::read::GzDecoder::new(part.compressed.ok_or_else(none)?);
            unpacked.read_to_end(&mut bytes).map_err(|e| {
                holdall::error::io(e, "the viewer in this command cannot be decompressed")
            })?;
            let file = Arc::new(InMemory::new(Bytes::from(bytes)));
            Ok((part.name, of_kind(file, part.kind)))
        };
        PAGE.iter().map(one).collect::<Result<_>>().map(Page)
    }

    /// Returns the file of the page with this name.
    pub(super) fn file(&self, name: &str) -> Option<Arc<dyn ServedFile>> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, file)| Arc::clone(file))
    }
}

fn of_kind(file: Arc<dyn ServedFile>, kind: &'static str) -> Arc<dyn ServedFile> {
    Arc::new(OfPage { file, kind })
}

/// A file of the page, with its media type.
struct OfPage {
    file: Arc<dyn ServedFile>,
    kind: &'static str,
}

impl ServedFile for OfPage {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn id(&self) -> FileId {
        self.file.id()
    }

    fn index(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.file.read(range)
    }

    fn kind(&self) -> &'static str {
        self.kind
    }
}

/// A file whose bytes are in memory.
struct InMemory {
    bytes: Bytes,
    id: FileId,
}

impl InMemory {
    fn new(bytes: Bytes) -> InMemory {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(&bytes);
        let id = match hasher.finish() {
            Digest::Sha256(digest) => FileId(digest),
            _ => FileId([0; 32]),
        };
        InMemory { bytes, id }
    }
}

impl ServedFile for InMemory {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn index(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        // The file is in memory, so that its length fits.
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}
