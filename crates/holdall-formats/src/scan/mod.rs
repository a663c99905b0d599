//! What unpickling a file would import and call, found without importing, calling or unpacking anything.
//!
//! A verdict of `safe` says that every byte that a known loader could unpickle was followed to its end: `pickle.load` and
//! `torch.load` from the start of a file on, once or again and again; `torch.load` in a zip, in the tar archives and the sequences
//! of pickles that it wrote earlier; `numpy.load` behind the header of each array; `joblib.load` in what it decompresses, and behind
//! the arrays that it keeps in pickles. What could not be followed is in [`ScanReport::unread`], which makes the verdict
//! at least [`Danger::Unknown`]. The names of files decide nothing: everything is recognized by its bytes.
//!
//! A [`Scan`] keeps a list of jobs. A job looks at one region of the file, or of what was decompressed, and adds others:
//!
//! ```text
//! File      a region that may be anything: recognizes archives and compressed data, and begins a sequence in any case
//! Sequence  pickles and arrays, one after the other: `sequence.rs`
//! Tar, Entry, Headers, Packed   the members of archives and what is compressed: `tar.rs`, `zip.rs`, `packed.rs`
//! Parts     the files of a tar archive of torch that have other bytes between their pickles: `parts.rs`
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
use packed::{Packing, packing};
use region::Region;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was found in a file, a folder or an archive.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// Files that were looked at, those in archives too.
    pub files: u64,
    /// All pickles.
    pub pickles: Vec<Pickle>,
    /// What could not be followed, and why: pickles may be there.
    pub unread: Vec<Error>,
}

impl ScanReport {
    /// The worst of all pickles; at least [`Danger::Unknown`] where something could not be followed.
    pub fn verdict(&self) -> Danger {
        let worst = self.pickles.iter().map(|p| p.verdict).max().unwrap_or(Danger::NoPickles);
        if self.unread.is_empty() { worst } else { worst.max(Danger::Unknown) }
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, other: ScanReport) {
        self.files = self.files.saturating_add(other.files);
        self.pickles.extend(other.pickles);
        self.unread.extend(other.unread);
    }

    /// Adds a pickle that begins at byte `offset` of the file called `name`, with those in it.
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

/// A pickle, and what unpickling it would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pickle {
    /// The file; `ARCHIVE!/NAME` of one in an archive.
    pub source: String,
    /// Where in that file it begins, as it is when it is decompressed.
    pub offset: u64,
    /// Bytes of it, as far as it can be followed.
    pub len: u64,
    /// Whether it is in the texts or bytes of another pickle, which are only data unless something called unpickles them.
    pub inner: bool,
    /// The highest protocol that it says; 0 of those that say none.
    pub protocol: u64,
    /// The worst of its imports; at least [`Danger::Unknown`] where it was not followed to its end.
    pub verdict: Danger,
    /// What it would import, in the order of first use.
    pub imports: Vec<Import>,
    /// Why it was not followed to its end. What is before that would have run.
    pub broken: Option<Error>,
    /// Whether more may come after what is described here: a limit was reached, or a loader may read on in a way that is not known.
    /// Otherwise it ends with STOP, or where every unpickler raises.
    pub is_open: bool,
}

/// Bytes that tell what a file is.
const HEAD: u64 = 4 << 10;
/// Bytes at the end of a file that a zip's end may be in: its record, and the longest comment.
const TAIL: u64 = (64 << 10) + 22;
/// Where HDF5 may begin, behind a block of its user.
const HDF5: [usize; 4] = [0, 512, 1024, 2048];
/// Bytes of a file of HDF5 that are looked through for the mark of PyTables, which is an attribute of the outermost group.
const MARKED: u64 = 1 << 20;
/// How many archives and compressed files may be inside of each other.
const MAX_DEPTH: usize = 4;

/// A scan of one file, step by step: each step looks at one thing that is in it.
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
    /// What is to be looked at, the next one last.
    ahead: Vec<Job>,
    found: Found,
    /// Steps that were done: a zip goes by the number of the one that began it.
    steps: u64,
    /// Zips whose directory is wrong or contradicts its entries.
    contradictory: BTreeSet<u64>,
    /// Bytes that were decompressed.
    decoded: u64,
    /// The names of all files that were looked at, those in archives too.
    names: HashSet<String>,
}

/// Something to be looked at.
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
    /// Pickles and arrays from a byte on.
    Sequence { at: u64 },
    /// A tar archive, as far as it was walked.
    Tar(Box<tar::Walk>),
    /// A file of a tar archive of torch, with other bytes between its pickles.
    Parts(parts::Kind),
    /// An entry of a zip, by the directory of that.
    Entry { directory: Arc<Directory>, at: usize, zip: u64 },
    /// The headers of a zip, where its directory or an entry is wrong.
    Headers { zip: u64 },
    /// A region that is compressed as a whole: a file, or an entry of a zip, which is one file with what it decodes to.
    Packed { packing: Packing, is_entry: bool },
}

/// What a job comes to: what was found, and what is to be looked at next, in that order.
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
    /// A job about something else at the same place.
    fn with(&self, what: ScanTarget) -> Job {
        Job { what, ..self.clone() }
    }

    /// A job about a file inside.
    fn inside(&self, what: ScanTarget, region: Region, name: String) -> Job {
        Job { what, region, name, depth: self.depth.saturating_add(1) }
    }
}

impl Scan {
    /// Begins with a file of `len` bytes, which is called `name` in the report.
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

    /// Whether there is nothing left to be looked at.
    pub fn is_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// What was found. The files that an index names were not scanned, unless they are in one archive with it.
    pub fn finish(self) -> ScanReport {
        let (mut report, indices) = self.finish_with_indices();
        report.unread.extend(indices.iter().map(ModelIndex::unread));
        report
    }

    /// What was found, and the index files that name files that were not scanned: the caller scans those, or adds
    /// [`ModelIndex::unread`] to the report.
    pub fn finish_with_indices(self) -> (ScanReport, Vec<ModelIndex>) {
        let Found { report, mut indices, .. } = self.found;
        indices.iter_mut().for_each(|index| index.leave_out(&self.names));
        indices.retain(|index| !index.files.is_empty());
        (report, indices)
    }

    /// Looks at the next thing. What the window holds is not needed for the one after it.
    ///
    /// # Errors
    /// What the window needs: then it is called again.
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
            ScanTarget::Packed { packing, is_entry } => {
                self.packed(*packing, *is_entry, job, window, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Recognizes archives and compressed data. What else it is does not matter: whatever a file is, a loader of pickles may be given it.
    fn file(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let len = window.len();
        window.all([0..len.min(HEAD), len.saturating_sub(TAIL)..len])?;
        let (head, tail) = (window.head(HEAD)?, window.tail(TAIL)?);
        let is_zip = zip::starts(&head) || zip::may_end(&tail, window)?;
        let is_tar = tar::starts(&head);
        let packing = packing(&head);
        found.report.files = found.report.files.saturating_add(1);
        let begins_at =
            |start: &usize| head.get(*start..).is_some_and(|h| h.starts_with(b"\x89HDF\r\n"));
        let is_hdf5 = HDF5.iter().any(begins_at);
        if is_hdf5
            && memchr::memmem::find(&window.head(MARKED)?, b"PYTABLES_FORMAT_VERSION").is_some()
        {
            let message = "PyTables wrote it, which unpickles attributes and objects in it";
            found.unread(job, PACKED.broken(message));
        }
        index::index(job, window, &head, found)?;
        keras::layers(job, window, &head, is_hdf5, found)?;
        if (is_zip || is_tar || packing.is_some()) && job.depth >= MAX_DEPTH {
            let message = format!("it is inside of {MAX_DEPTH} archives, and is not opened");
            found.unread(job, PACKED.broken(message));
            return Ok(());
        }
        if is_zip {
            self.zip(job, window, found)?;
        }
        if is_tar {
            found.next.push(job.with(ScanTarget::Tar(Box::default())));
        }
        match packing {
            Some(Ok(packing)) => {
                found.next.push(job.with(ScanTarget::Packed { packing, is_entry: false }));
            }
            Some(Err(what)) => {
                let message = format!("it is packed by {what}, and may have pickles in it");
                found.unread(job, PACKED.broken(message));
            }
            None => {}
        }
        found.next.push(job.with(ScanTarget::Sequence { at: 0 }));
        Ok(())
    }

    /// The most bytes of one file that are followed.
    fn most(&self) -> u64 {
        self.limits.header_len
    }
}

/// The error about a file of which only the first `most` bytes are followed.
fn too_long(most: u64) -> Error {
    let more = Remedy::RaiseLimit { limit: "header_len", at_least: None };
    TOO_LONG.broken(format!("it has more than {most} bytes")).with_remedy(more)
}
