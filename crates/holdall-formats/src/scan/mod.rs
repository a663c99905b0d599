//! Looking for pickles, and at what each would import and call: nothing is imported, called or unpacked.
//!
//! Pickles are found by what they are, wherever they are: alone, one after the other, in files of arrays, in zips and tar archives
//! and those in them, and in the texts and bytes of other pickles. A zip that readers do not agree on is looked through header by
//! header besides.

pub mod names;
pub mod trace;

use bytes::Bytes;
use holdall_core::error::{Error, Shown as _};
use holdall_core::limits::Limits;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::npy;
use holdall_core::wire::pickle::{NONE, PACKED, TOO_LONG};
use holdall_core::wire::tar::{self, Walk};
use holdall_core::wire::zip::walk::guesses;
use holdall_core::wire::zip::{Directory, EntryKind, Method, TOO_MANY_ENTRIES};
use holdall_error::Remedy;
use names::Danger;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use trace::{Import, Trace};

/// What was found in a file, a folder or an archive.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// Files that were looked at, those in archives too.
    pub files: u64,
    /// All pickles.
    pub pickles: Vec<Pickle>,
    /// What could not be looked into, and why: pickles may be there.
    pub unread: Vec<Error>,
}

impl ScanReport {
    /// The worst of all pickles; [`Danger::Unknown`] where something could not be looked into.
    pub fn verdict(&self) -> Danger {
        let worst = self.pickles.iter().map(|p| p.verdict).max().unwrap_or(Danger::Safe);
        if self.unread.is_empty() { worst } else { worst.max(Danger::Unknown) }
    }

    /// Takes what was found elsewhere in.
    pub fn extend(&mut self, other: ScanReport) {
        self.files += other.files;
        self.pickles.extend(other.pickles);
        self.unread.extend(other.unread);
    }
}

/// A pickle, and what unpickling it would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pickle {
    /// The file; `ARCHIVE!/NAME` of one in an archive.
    pub source: String,
    /// Where in that file it begins.
    pub offset: u64,
    /// Bytes of it, as far as it can be followed.
    pub len: u64,
    /// Whether it is in the texts or bytes of another pickle, which are only data unless something called unpickles them.
    pub inner: bool,
    /// The highest protocol that it says; 0 of those that say none.
    pub protocol: u64,
    /// The worst of its imports; at least [`Danger::Unknown`] where it cannot be followed to its end.
    pub verdict: Danger,
    /// What it would import, in the order of first use.
    pub imports: Vec<Import>,
    /// Why it cannot be followed to its end. What is before that would have run.
    pub broken: Option<Error>,
}

/// Bytes that tell what a file is.
const HEAD: u64 = 4 << 10;
/// Bytes at the end of a file that a zip's end may be in: its record, and the longest comment.
const TAIL: u64 = (64 << 10) + 22;
/// How deep archives in archives are looked into.
const MOST_ARCHIVES: usize = 4;
/// How many headers of a zip that readers do not agree on are looked at.
const MOST_GUESSES: usize = 1000;
/// Names of files that are pickles, or zips with one.
const NAMED: [&str; 8] = ["pkl", "pickle", "pt", "pth", "ckpt", "joblib", "dill", "pk"];
/// How files begin that may have others in them, and are not opened.
const PACKS: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "LZ4"),
];

/// A look through one file, step by step: each step looks at one thing that is in it.
///
/// ```
/// use holdall_core::scan::Scan;
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
    /// Those of them that readers do not agree on.
    odd: BTreeSet<u64>,
}

/// Something to be looked at.
#[derive(Debug, Clone)]
struct Job {
    what: What,
    place: Place,
    name: String,
    depth: usize,
}

#[derive(Debug, Clone)]
enum What {
    /// A file of any kind.
    File,
    /// A tar archive, as far as it was walked.
    Tar(Box<Walk>),
    /// The pickles that an archive begins with, too.
    Pickles,
    /// An entry of a zip, by the directory of that.
    Entry { directory: Arc<Directory>, at: usize, zip: u64 },
    /// The headers of a zip, where its directory or an entry is wrong.
    Headers { zip: u64 },
    /// An entry whose bytes are at a place of the zip.
    Stored { range: Range<u64>, method: Method },
    /// The end of an entry that is not there as a whole; how much had been found before it.
    Cut { before: (usize, usize) },
}

/// Where bytes are: in the file, or decoded.
#[derive(Debug, Clone)]
enum Place {
    File(Range<u64>),
    Memory(Bytes),
}

impl Place {
    /// A part of it, as far as there is one.
    fn part(&self, range: Range<u64>) -> Place {
        match self {
            Place::File(all) => {
                let at = |at: u64| all.start.saturating_add(at).min(all.end);
                Place::File(at(range.start)..at(range.end))
            }
            Place::Memory(bytes) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let end = at(range.end);
                Place::Memory(bytes.slice(at(range.start).min(end)..end))
            }
        }
    }
}

/// What a job comes to: what was found, and what is to be looked at next, in that order.
#[derive(Debug, Default)]
struct Found {
    report: ScanReport,
    next: Vec<Job>,
    odd: Option<u64>,
}

impl Scan {
    /// Begins with a file of `len` bytes; its name tells by its extension whether pickles are to be expected.
    pub fn new(name: impl Into<String>, len: u64, limits: &Limits) -> Scan {
        let first =
            Job { what: What::File, place: Place::File(0..len), name: name.into(), depth: 0 };
        let (limits, ahead) = (limits.clone(), vec![first]);
        Scan { limits, ahead, found: Found::default(), steps: 0, odd: BTreeSet::new() }
    }

    /// Whether there is nothing left to be looked at.
    pub fn is_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// What was found.
    pub fn finish(self) -> ScanReport {
        self.found.report
    }

    /// Looks at the next thing. What the window holds is not needed for the one after it.
    ///
    /// # Errors
    /// What the window needs: then it is called again.
    pub fn step(&mut self, window: &Window) -> Result<(), Stop> {
        let Some(mut job) = self.ahead.pop() else { return Ok(()) };
        let found = match job.place.clone() {
            Place::Memory(bytes) => self.look(&mut job, &Window::whole(bytes)),
            Place::File(range) => match self.look(&mut job, &window.part_of(range.clone())) {
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
        self.odd.extend(found.odd);
        self.steps += 1;
        self.found.report.extend(found.report);
        Ok(())
    }

    fn look(&self, job: &mut Job, window: &Window) -> Result<Found, Stop> {
        let mut found = Found::default();
        if let What::Tar(walk) = &mut job.what {
            let walk = std::mem::take(walk);
            self.tar(walk, job, window, &mut found)?;
            return Ok(found);
        }
        match &job.what {
            What::Tar(_) => {}
            What::File => self.file(job, window, &mut found)?,
            What::Pickles => {
                self.pickles(&window.head(HEAD)?, job, window, &mut found)?;
            }
            What::Entry { directory, at, zip } => {
                let Some(entry) = directory.at(*at) else { return Ok(found) };
                match directory.data(entry, window) {
                    Ok(range) => {
                        let own = format!("{}!/{}", job.name, entry.name());
                        let what = What::Stored { range, method: entry.method() };
                        found.next.push(Job { what, name: own, ..job.clone() });
                    }
                    Err(Stop::Fail(e)) => {
                        found.report.unread.push(e.in_source(&job.name));
                        found.odd = Some(*zip);
                    }
                    Err(need) => return Err(need),
                }
            }
            What::Headers { zip } if self.odd.contains(zip) => {
                self.headers(job, window, &mut found)?;
            }
            What::Headers { .. } => {}
            What::Stored { range, method } => {
                self.entry(job, range.clone(), *method, window, &mut found)?;
            }
            What::Cut { before } => {
                let own = &self.found.report;
                if (own.pickles.len(), own.unread.len()) != *before {
                    let most = self.limits.header_len;
                    let e = TOO_LONG.broken(format!(
                        "`{}` is broken, or has more than {most} bytes when it is decoded",
                        job.name.as_str().shown()
                    ));
                    found.report.unread.push(e.in_source(&job.name));
                }
            }
        }
        Ok(found)
    }

    fn file(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let len = window.len();
        window.all([0..len.min(HEAD), len.saturating_sub(TAIL)..len])?;
        let (head, tail) = (window.head(HEAD)?, window.tail(TAIL)?);
        let is_zip = head.starts_with(b"PK\x03\x04") || find(&tail, b"PK\x05\x06");
        let is_tar = tar::is_one(&head);
        if (is_zip || is_tar) && self.is_too_deep(job, found) {
            return Ok(());
        }
        if is_zip {
            self.zip(job, window, found)?;
        }
        if is_tar {
            found.next.push(Job { what: What::Tar(Box::default()), ..job.clone() });
        }
        if is_zip || is_tar {
            found.next.push(Job { what: What::Pickles, ..job.clone() });
        } else if !self.pickles(&head, job, window, found)? {
            let name = job.name.as_str();
            if let Some(what) = pack_of(&head) {
                let e =
                    PACKED.broken(format!("it is packed by {what}, and may have pickles in it"));
                found.report.unread.push(e.in_source(name));
            } else if is_named(name) && !is_of_a_format(window)? {
                let e = NONE.broken("it is named as a pickle, but is not one");
                found.report.unread.push(e.in_source(name));
            }
        }
        found.report.files += 1;
        Ok(())
    }

    /// Follows the pickles at the start of a file, or behind the header of an array. Whether there are any.
    fn pickles(
        &self,
        head: &[u8],
        job: &Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<bool, Stop> {
        let start = start_of(head);
        let is_named = is_named(&job.name);
        let begin = usize::try_from(start).ok().and_then(|at| head.get(at..)).unwrap_or_default();
        // Most files are told from their first bytes: what follows those is not fetched.
        let is_short = window.len() <= HEAD;
        if start < HEAD && !is_short && !may_be_pickle(begin) {
            return Ok(false);
        }
        let most = self.limits.header_len;
        let end = window.len().min(start.saturating_add(most));
        let bytes = window.bytes(start.min(end)..end)?;
        let traces = trace::all(&bytes, is_named && start == 0, self.limits.attribute_values);
        let is_cut = end < window.len();
        let any = !traces.is_empty();
        for (at, trace) in traces {
            let is_too_long = is_cut && trace.is_cut;
            add(&job.name, start + at, trace, false, &mut found.report);
            if is_too_long {
                let e = TOO_LONG.broken(format!("it has more than {most} bytes"));
                let least = Some(window.len());
                let more = Remedy::RaiseLimit { limit: "header_len", at_least: least };
                found.report.unread.push(e.with_remedy(more).in_source(&job.name));
            }
        }
        Ok(any)
    }

    /// Whether an archive is too deep in others to be looked into, which is told.
    fn is_too_deep(&self, job: &Job, found: &mut Found) -> bool {
        let is_too_deep = job.depth >= MOST_ARCHIVES;
        if is_too_deep {
            let e = PACKED
                .broken(format!("it is inside of {MOST_ARCHIVES} archives, and is not opened"));
            found.report.unread.push(e.in_source(&job.name));
        }
        is_too_deep
    }

    /// Goes on in a tar archive, then looks at its files: at those, too, that are before what is wrong.
    fn tar(
        &self,
        mut walk: Box<Walk>,
        job: &mut Job,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let before = walk.position();
        match walk.go(window, &self.limits) {
            Err(Stop::Need(ranges)) => {
                if walk.position() == before {
                    job.what = What::Tar(walk);
                    return Err(Stop::Need(ranges));
                }
                // It continues in a step of its own, so that the window's bytes are released.
                let (place, name) = (job.place.clone(), job.name.clone());
                found.next.push(Job { what: What::Tar(walk), place, name, depth: job.depth });
                return Ok(());
            }
            Err(Stop::Fail(e)) => found.report.unread.push(e.in_source(&job.name)),
            Ok(()) => {}
        }
        found.next.extend(walk.members.into_iter().map(|member| Job {
            what: What::File,
            place: job.place.part(member.range),
            name: format!("{}!/{}", job.name, member.name),
            depth: job.depth.saturating_add(1),
        }));
        Ok(())
    }

    fn zip(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let zip = self.steps;
        match Directory::read(window, &self.limits) {
            Ok(directory) => {
                let files = directory.entries().filter(|entry| entry.kind() == EntryKind::File);
                found.next.extend(files.map(|entry| {
                    let (directory, at) = (directory.clone(), entry.position());
                    Job { what: What::Entry { directory, at, zip }, ..job.clone() }
                }));
            }
            Err(Stop::Fail(e)) => {
                found.report.unread.push(e.in_source(&job.name));
                found.odd = Some(zip);
            }
            Err(need) => return Err(need),
        }
        found.next.push(Job { what: What::Headers { zip }, ..job.clone() });
        Ok(())
    }

    /// Looks at what each header of a zip says is behind it, whatever the directory says.
    fn headers(&self, job: &Job, window: &Window, found: &mut Found) -> Result<(), Stop> {
        let most = self.limits.header_len;
        let bytes = window.head(most)?;
        let mut left = most;
        for (at, guess) in guesses(&bytes).enumerate() {
            let len = guess.data.end.saturating_sub(guess.data.start) as u64;
            left = left.saturating_sub(len.max(1));
            if at >= MOST_GUESSES || left == 0 {
                let e =
                    TOO_MANY_ENTRIES.broken("it has more headers of entries than are looked at");
                found.report.unread.push(e.in_source(&job.name));
                break;
            }
            let own = format!("{}!/{}", job.name, guess.name);
            let range = guess.data.start as u64..guess.data.end as u64;
            let Some(method) = guess.method else { continue };
            found.next.push(Job { what: What::Stored { range, method }, name: own, ..job.clone() });
        }
        Ok(())
    }

    fn entry(
        &self,
        job: &Job,
        range: Range<u64>,
        method: Method,
        window: &Window,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let inside = |place| Job {
            what: What::File,
            place,
            name: job.name.clone(),
            depth: job.depth.saturating_add(1),
        };
        if method == Method::Stored {
            found.next.push(inside(job.place.part(range)));
            return Ok(());
        }
        let most = self.limits.header_len;
        let stored = window.bytes(range.start..range.end.min(range.start.saturating_add(most)))?;
        let (head, _) = self.decoded(method, &stored, HEAD);
        let begin = usize::try_from(start_of(&head)).ok().and_then(|at| head.get(at..));
        let may_have = head.starts_with(b"PK")
            || tar::is_one(&head)
            || pack_of(&head).is_some()
            || begin.is_none_or(may_be_pickle);
        if (head.len() as u64) == HEAD && !may_have {
            found.report.files += 1;
            return Ok(());
        }
        let (bytes, is_whole) = self.decoded(method, &stored, most);
        found.next.push(inside(Place::Memory(bytes)));
        if !is_whole {
            let own = &self.found.report;
            let before = (own.pickles.len(), own.unread.len());
            found
                .next
                .push(Job { what: What::Cut { before }, ..inside(Place::Memory(Bytes::new())) });
        }
        Ok(())
    }

    /// What stored bytes decode to, as far as they do and up to `most` bytes; whether that is all.
    fn decoded(&self, method: Method, stored: &[u8], most: u64) -> (Bytes, bool) {
        let Some(mut stream) = method.encoding().stream(1, &self.limits) else {
            return (Bytes::copy_from_slice(stored), true);
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut out, mut read) = (Vec::new(), 0);
        let mut piece = vec![0; most.min(1 << 20)];
        while out.len() < most {
            match stream.decode(&stored[read..], &mut piece) {
                Ok((0, 0)) => return (out.into(), stream.end().is_ok()),
                Ok((used, made)) => {
                    read += used;
                    out.extend_from_slice(&piece[..made]);
                }
                // What follows the end of a stream is not looked at; what is broken ends.
                Err(_) => return (out.into(), stream.end().is_ok()),
            }
        }
        out.truncate(most);
        (out.into(), false)
    }
}

fn add(name: &str, offset: u64, mut trace: Trace, inner: bool, report: &mut ScanReport) {
    trace.imports.iter_mut().for_each(|import| import.offset += offset);
    let (verdict, len, protocol) = (trace.danger(), trace.len, trace.protocol);
    report.pickles.push(Pickle {
        source: name.to_owned(),
        offset,
        len,
        inner,
        protocol,
        verdict,
        imports: trace.imports,
        broken: trace.broken.map(|e| e.in_source(name)),
    });
    for (at, inside) in trace.inner {
        add(name, offset + at, inside, true, report);
    }
}

fn is_of_a_format(window: &Window) -> Result<bool, Stop> {
    match crate::detect(window) {
        Ok(format) => Ok(!format.is_pickle),
        Err(Stop::Fail(_)) => Ok(false),
        Err(need) => Err(need),
    }
}

/// Whether a pickle may begin so. One that says its protocol does in two bytes; of others the first opcodes are followed.
fn may_be_pickle(head: &[u8]) -> bool {
    match head {
        [0x80, protocol, ..] => *protocol <= 5,
        _ => {
            let found = Trace::of(head, HEAD);
            found.is_pickle() || found.is_cut
        }
    }
}

/// Where pickles would begin: behind the header of an array.
fn start_of(head: &[u8]) -> u64 {
    if head.starts_with(b"\x93NUMPY") { npy::header_len(head).unwrap_or(0) } else { 0 }
}

fn pack_of(head: &[u8]) -> Option<&'static str> {
    PACKS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what)
}

fn is_named(name: &str) -> bool {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let extension = last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    extension.is_some_and(|(_, e)| NAMED.contains(&e.to_ascii_lowercase().as_str()))
}

fn find(bytes: &[u8], mark: &[u8]) -> bool {
    memchr::memmem::find(bytes, mark).is_some()
}
