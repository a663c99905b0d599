//! Finds out what unpickling a file would import and call, without importing, calling or unpacking anything.
//!
//! The verdict `safe` means that every byte that a known loader could unpickle was analyzed to the end: `pickle.load`
//! and `torch.load` from the start of a file, once or repeatedly; `torch.load` in a zip, and in the tar archives and
//! pickle sequences of its older versions; `numpy.load` after the header of each array; `joblib.load` in data that it
//! decompresses, and after the arrays that it stores in pickles. Data that could not be analyzed is in
//! [`ScanReport::unread`], and the verdict is then at least [`Danger::Unknown`]. The names of files do not matter:
//! everything is recognized by its bytes.
//!
//! A [`Scan`] has a list of jobs. A job analyzes one region of the file, or of decompressed data, and adds further
//! jobs:
//!
//! ```text
//! File      a region that may be anything: recognizes archives and compressed data, and begins a sequence in any case
//! Sequence  pickles and arrays, one after the other: `sequence.rs`
//! Tar, Entry, Headers, Packed   members of archives, and compressed data: `tar.rs`, `zip.rs`, `packed.rs`
//! Parts     files in a torch tar archive that have other bytes between their pickles: `parts.rs`
//! ```

mod index;
mod keras;
pub mod names;
mod packed;
mod parts;
mod region;
mod sequence;
mod tar;
pub mod trace;
mod zip;

use crate::scan::names::Danger;
use crate::scan::trace::{End, Import, Trace};
use holdall_collections::HashSet;
use holdall_core::error::Error;
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::pickle::{PACKED, TOO_LONG};
use holdall_core::wire::zip::Directory;
use holdall_error::Remedy;
pub use index::ModelIndex;
use packed::{Compression, detect_compression};
use region::Region;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of scanning a file, a folder or an archive.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// The number of scanned files, including those in archives.
    pub files: u64,
    /// All pickles that were found.
    pub pickles: Vec<Pickle>,
    /// Data that could not be analyzed, and why. It may contain pickles.
    pub unread: Vec<Error>,
}

impl ScanReport {
    /// Returns the worst verdict of all pickles, and at least [`Danger::Unknown`] if anything could not be analyzed.
    pub fn verdict(&self) -> Danger {
        let worst = self.pickles.iter().map(|p| p.verdict).max().unwrap_or(Danger::NoPickles);
        if self.unread.is_empty() { worst } else { worst.max(Danger::Unknown) }
    }

    /// Adds the contents of another report.
    pub fn extend(&mut self, other: ScanReport) {
        self.files = self.files.saturating_add(other.files);
        self.pickles.extend(other.pickles);
        self.unread.extend(other.unread);
    }

    /// Adds a pickle that begins at `offset` of the file `name`, and the pickles inside it.
    fn add(&mut self, name: &str, offset: u64, mut trace: Trace, inner: bool, most: u64) {
        trace
            .imports
            .iter_mut()
            .for_each(|import| import.offset = import.offset.saturating_add(offset));
        let (verdict, len, protocol) = (trace.danger(), trace.len, trace.protocol);
        let is_open = matches!(trace.end, End::Unfollowed(_) | End::Cut) || trace.skipped.is_some();
        let broken = match trace.end {
            End::Finished => trace.skipped,
            End::Raised(e) | End::Unfollowed(e) => Some(e),
            End::Cut => Some(too_long(most)),
        };
        self.pickles.push(Pickle {
            source: name.to_owned(),
            offset,
            len,
            inner,
            protocol,
            verdict,
            imports: trace.imports,
            broken: broken.map(|e| e.in_source(name)),
            is_open,
        });
        for (at, array) in trace.arrays {
            self.add(name, offset.saturating_add(at), array, false, most);
        }
        for (at, inside) in trace.inner {
            self.add(name, offset.saturating_add(at), inside, true, most);
        }
    }
}

/// A pickle, and the effects of unpickling it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pickle {
    /// The name of the file; `ARCHIVE!/NAME` for a file in an archive.
    pub source: String,
    /// The offset of the pickle in the file, after decompression.
    pub offset: u64,
    /// The length of the pickle in bytes, as far as it could be analyzed.
    pub len: u64,
    /// Whether it is inside a string or bytes of another pickle. These are only data, unless a function that is called
    /// unpickles them.
    pub inner: bool,
    /// The highest protocol that it states; 0 if it states none.
    pub protocol: u64,
    /// The worst verdict of its imports, and at least [`Danger::Unknown`] if it was not analyzed to the end.
    pub verdict: Danger,
    /// The imports of the pickle, in the order of first use.
    pub imports: Vec<Import>,
    /// The reason why it was not analyzed to the end. Opcodes before that point would have run.
    pub broken: Option<Error>,
    /// Whether further opcodes may follow those in this report, because a limit was reached or a loader may continue in
    /// an unknown way. If `false`, the pickle ends with STOP, or where every unpickler raises an exception.
    pub is_open: bool,
}

/// The number of bytes by which a file is recognized.
const HEAD: u64 = 4 << 10;
/// The number of bytes at the end of a file that may contain a zip's end record, with the longest comment.
const TAIL: u64 = (64 << 10) + 22;
/// The offsets at which HDF5 may begin, after a user block.
const HDF5: [usize; 4] = [0, 512, 1024, 2048];
/// The number of bytes of an HDF5 file in which the mark of PyTables is searched, which is an attribute of the root
/// group.
const MARKED: u64 = 1 << 20;
/// The maximum nesting of archives and compressed files.
const MAX_DEPTH: usize = 4;

/// A scan of one file, in steps. Each step analyzes one part of the file.
///
/// ```
/// use holdall_formats::scan::Scan;
/// use holdall_core::{Limits, Stop, Window};
/// # fn read(_: std::ops::Range<u64>) -> bytes::Bytes { bytes::Bytes::from_static(b"\x80\x02N.") }
/// let mut scan = Scan::new("model.pkl", 4, &Limits::default());
/// while !scan.is_done() {
///     let mut window = Window::new(4);
///     while let Err(stop) = scan.step(&window) {
///         match stop {
///             Stop::Need(ranges) => ranges.into_iter().for_each(|r| window.add(r.start, read(r))),
///             Stop::Fail(e) => panic!("{e}"),
///         }
///     }
/// }
/// assert_eq!(scan.finish().pickles.len(), 1);
/// ```
#[derive(Debug)]
pub struct Scan {
    limits: Limits,
    /// The jobs to be done, the next one last.
    ahead: Vec<Job>,
    found: Found,
    /// The number of steps done. A zip is identified by the step that found it.
    steps: u64,
    /// Zips with a directory that is invalid or contradicts the entries.
    contradictory: BTreeSet<u64>,
    /// The number of decompressed bytes.
    decoded: u64,
    /// The names of all scanned files, including those in archives.
    names: HashSet<String>,
}

/// A region to be analyzed.
#[derive(Debug, Clone)]
struct Job {
    what: ScanTarget,
    region: Region,
    name: String,
    depth: usize,
}

#[derive(Debug, Clone)]
enum ScanTarget {
    /// A file of any kind.
    File,
    /// Pickles and arrays, from an offset on.
    Sequence { at: u64 },
    /// A tar archive, and the state of reading it.
    Tar(Box<tar::Walk>),
    /// A file in a torch tar archive, with other bytes between its pickles.
    Parts(parts::Kind),
    /// An entry of a zip, given by the zip's directory.
    Entry { directory: Arc<Directory>, at: usize, zip: u64 },
    /// The headers of a zip whose directory or entry is invalid.
    Headers { zip: u64 },
    /// A region that is compressed as a whole: a file, or an entry of a zip, which counts as one file with its
    /// decompressed data.
    Packed { compression: Compression, is_entry: bool },
}

/// The result of a job: findings, and further jobs, in order.
#[derive(Debug, Default)]
struct Found {
    report: ScanReport,
    indices: Vec<ModelIndex>,
    next: Vec<Job>,
    contradictory: Option<u64>,
    decoded: u64,
}

impl Found {
    fn unread(&mut self, job: &Job, e: Error) {
        self.report.unread.push(e.in_source(&job.name));
    }
}

impl Job {
    /// Returns a job with another target in the same region.
    fn with(&self, what: ScanTarget) -> Job {
        Job { what, ..self.clone() }
    }

    /// Returns a job for a file inside of this job's file.
    fn for_inner_file(&self, what: ScanTarget, region: Region, name: String) -> Job {
        Job { what, region, name, depth: self.depth.saturating_add(1) }
    }
}

impl Scan {
    /// Starts a scan of a file of `len` bytes. `name` is its name in the report.
    pub fn new(name: impl Into<String>, len: u64, limits: &Limits) -> Scan {
        let region = Region::File(0..len);
        let first = Job { what: ScanTarget::File, region, name: name.into(), depth: 0 };
        Scan {
            limits: limits.clone(),
            ahead: vec![first],
            found: Found::default(),
            steps: 0,
            contradictory: BTreeSet::new(),
            decoded: 0,
            names: HashSet::default(),
        }
    }

    /// Returns `true` if there are no further steps.
    pub fn is_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Returns the report. Files that an index names were not scanned, unless they are in the same archive.
    pub fn finish(self) -> ScanReport {
        let (mut report, indices) = self.finish_with_indices();
        report.unread.extend(indices.iter().map(ModelIndex::unread));
        report
    }

    /// Returns the report, and the index files that name files that were not scanned. The caller must scan these, or
    /// add [`ModelIndex::unread`] to the report.
    pub fn finish_with_indices(self) -> (ScanReport, Vec<ModelIndex>) {
        let Found { report, mut indices, .. } = self.found;
        indices.iter_mut().for_each(|index| index.leave_out(&self.names));
        indices.retain(|index| !index.files.is_empty());
        (report, indices)
    }

    /// Does the next step. The bytes in the window are not needed by later steps.
    ///
    /// # Errors
    /// Returns [`Stop::Need`] if bytes are missing: call it again with a window that has them.
    pub fn step(&mut self, window: &Window) -> Result<(), Stop> {
        let Some(mut job) = self.ahead.pop() else { return Ok(()) };
        let found = match job.region.clone() {
            Region::Memory(bytes) => self.look(&mut job, &Window::whole(bytes)),
            Region::File(range) => match self.look(&mut job, &window.part_of(range.clone())) {
                Err(Stop::Need(ranges)) => {
                    let at = |at: u64| at.saturating_add(range.start);
                    Err(Stop::Need(ranges.iter().map(|r| at(r.start)..at(r.end)).collect()))
                }
                found => found,
            },
        };
        let found = match found {
            Ok(found) => found,
            Err(stop) => {
                self.ahead.push(job);
                return Err(stop);
            }
        };
        self.ahead.extend(found.next.into_iter().rev());
        self.contradictory.extend(found.contradictory);
        self.steps = self.steps.saturating_add(1);
        self.decoded = self.decoded.saturating_add(found.decoded);
        if matches!(job.what, ScanTarget::File | ScanTarget::Packed { .. }) {
            self.names.insert(job.name);
        }
        self.found.indices.extend(found.indices);
        self.found.report.extend(found.report);
        Ok(())
    }

    fn look(&self, job: &mut Job, window: &Window) -> Result<Found, Stop> {
        let mut found = Found::default();
        if let ScanTarget::Tar(walk) = &mut job.what {
            let walk = std::mem::take(walk);
            self.tar(walk, job, window, &mut found)?;
            return Ok(found);
        }
        match &job.what {
            ScanTarget::Tar(_) => {}
            ScanTarget::File => self.file(job, window, &mut found)?,
            ScanTarget::Sequence { at } => self.sequence(*at, job, window, &mut found)?,
            ScanTarget::Parts(kind) => self.parts(*kind, job, window, &mut found)?,
            ScanTarget::Entry { directory, at, zip } => {
                self.entry(directory, *at, *zip, job, window, &mut found)?;
            }
            ScanTarget::Headers { zip } if self.contradictory.contains(zip) => {
                self.headers(job, window, &mut found)?;
            }
            ScanTarget::Headers { .. } => {}
            ScanTarget::Packed { compression, is_entry } => {
                self.scan_compressed(*compression, *is_entry, job, window, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Recognizes archives and compressed data. Other formats do not matter, because any file can be given to a loader
    /// of pickles.
    fn file(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let len = window.len();
        window.all([0..len.min(HEAD), len.saturating_sub(TAIL)..len])?;
        let (head, tail) = (window.head(HEAD)?, window.tail(TAIL)?);
        let is_zip = zip::starts(&head) || zip::may_be_zip(&tail, window)?;
        let is_tar = tar::starts(&head);
        let compression = detect_compression(&head);
        found.report.files = found.report.files.saturating_add(1);
        let begins_at =
            |start: &usize| head.get(*start..).is_some_and(|h| h.starts_with(b"\x89HDF\r\n"));
        let is_hdf5 = HDF5.iter().any(begins_at);
        if is_hdf5
            && memchr::memmem::find(&window.head(MARKED)?, b"PYTABLES_FORMAT_VERSION").is_some()
        {
            let message =
                "it was written by PyTables, which unpickles attributes and objects in it";
            found.unread(job, PACKED.broken(message));
        }
        index::index(job, window, &head, found)?;
        keras::layers(job, window, &head, is_hdf5, found)?;
        if (is_zip || is_tar || compression.is_some()) && job.depth >= MAX_DEPTH {
            let message = format!("it is nested in {MAX_DEPTH} archives, and was not opened");
            found.unread(job, PACKED.broken(message));
            return Ok(());
        }
        if is_zip {
            self.zip(job, window, found)?;
        }
        if is_tar {
            found.next.push(job.with(ScanTarget::Tar(Box::default())));
        }
        match compression {
            Some(Ok(compression)) => {
                found.next.push(job.with(ScanTarget::Packed { compression, is_entry: false }));
            }
            Some(Err(what)) => {
                let message = format!(
                    "it is compressed by {what}, which is not supported, and may contain pickles"
                );
                found.unread(job, PACKED.broken(message));
            }
            None => {}
        }
        found.next.push(job.with(ScanTarget::Sequence { at: 0 }));
        Ok(())
    }

    /// Returns the maximum number of bytes of a file that are analyzed.
    fn most(&self) -> u64 {
        self.limits.header_len
    }
}

/// Returns the error for a file of which only the first `most` bytes were analyzed.
fn too_long(most: u64) -> Error {
    let more = Remedy::RaiseLimit { limit: "header_len", at_least: None };
    TOO_LONG.broken(format!("it has more than {most} bytes")).with_remedy(more)
}
