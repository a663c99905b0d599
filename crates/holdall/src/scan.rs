//! Looking for pickles, and at what each would import and call: nothing is imported, called or unpacked.
//!
//! Pickles are found by what they are, wherever they are: alone, one after the other, in files of arrays, in zips and tar archives and those
//! in them, in folders, and in the texts and bytes of other pickles. A zip that readers do not agree on is looked through
//! header by header besides.

use crate::OpenOptions;
use bytes::Bytes;
use holdall_core::codec::Stream;
use holdall_core::error::Shown as _;
use holdall_core::wire::pickle::trace::{self, Trace};
use holdall_core::wire::pickle::{NONE, PACKED, TOO_LONG};
use holdall_core::wire::zip::walk::guesses;
use holdall_core::wire::zip::{Directory, EntryKind, Method, TOO_MANY_ENTRIES};
use holdall_core::wire::{npy, tar};
use holdall_core::{Error, Limits, Remedy, Result, Window, formats};
use holdall_io::Work;
use holdall_io::archive::members;
use holdall_io::error::io;
use holdall_io::source::{ByteSource, MemorySource, SliceSource, fetched};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is known of something that a pickle would import, and of a pickle.
pub use holdall_core::wire::pickle::names::Danger as Verdict;
/// Something that a pickle would import.
pub use holdall_core::wire::pickle::trace::Import;

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
    /// The worst of all pickles; [`Verdict::Unknown`] where something could not be looked into.
    pub fn verdict(&self) -> Verdict {
        let worst = self.pickles.iter().map(|p| p.verdict).max().unwrap_or(Verdict::Safe);
        if self.unread.is_empty() { worst } else { worst.max(Verdict::Unknown) }
    }
}

/// A pickle, and what it would do to whoever unpickles it.
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
    /// The worst of its imports; at least [`Verdict::Unknown`] where it cannot be followed to its end.
    pub verdict: Verdict,
    /// What it would import, in the order of first use.
    pub imports: Vec<Import>,
    /// Why it cannot be followed to its end. What is before that would have run.
    pub broken: Option<Error>,
}

/// Looks for pickles in the file or folder at `path`, at an address on the web, or in an archive (`ARCHIVE!/PATH`), and at what each
/// would do.
///
/// # Errors
/// Io; cancellation. What is wrong with a file is in the report.
pub fn scan(path: impl AsRef<Path>, options: &OpenOptions, work: &Work) -> Result<ScanReport> {
    let path = path.as_ref();
    let limits = options.limits();
    if !path.is_dir() {
        let (source, name) = options.bytes_of(path)?;
        return scan_source(&source, &name, limits, work);
    }
    let mut scanner = Scanner { limits, work, report: ScanReport::default() };
    let files = files_of(path, limits)?;
    work.begin(files.iter().map(|(_, len)| len).sum());
    for (file, len) in files {
        let (source, name) = options.bytes_of(&file)?;
        scanner.source(&source, &name, 0)?;
        work.advance(len)?;
    }
    Ok(scanner.report)
}

/// As [`scan`], of whatever `source` gives; `name` stands for it, and tells by its extension whether pickles are to be expected.
///
/// # Errors
/// As [`scan`].
pub fn scan_source(
    source: &Arc<dyn ByteSource>,
    name: &str,
    limits: &Limits,
    work: &Work,
) -> Result<ScanReport> {
    let mut scanner = Scanner { limits, work, report: ScanReport::default() };
    work.begin(source.len());
    scanner.source(source, name, 0)?;
    work.advance(source.len())?;
    Ok(scanner.report)
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

struct Scanner<'a> {
    limits: &'a Limits,
    work: &'a Work,
    report: ScanReport,
}

impl Scanner<'_> {
    fn source(&mut self, source: &Arc<dyn ByteSource>, name: &str, depth: usize) -> Result<()> {
        self.work.check()?;
        self.report.files += 1;
        let len = source.len();
        let head = source.read_range(0..len.min(HEAD))?;
        let tail = source.read_range(len.saturating_sub(TAIL)..len)?;
        let is_zip = head.starts_with(b"PK\x03\x04") || find(&tail, b"PK\x05\x06");
        if is_zip {
            self.zip(source, name, depth)?;
        }
        let is_tar = tar::is_one(&head);
        if is_tar {
            self.tar(source, name, depth)?;
        }
        let found = self.pickles(source, &head, name)?;
        if found || is_zip || is_tar {
            return Ok(());
        }
        if let Some(what) = pack_of(&head) {
            let e = PACKED.broken(format!("it is packed by {what}, and may have pickles in it"));
            self.report.unread.push(e.in_source(name));
        } else if is_named(name) && !self.is_of_a_format(source)? {
            let e = NONE.broken("it is named as a pickle, and is none");
            self.report.unread.push(e.in_source(name));
        }
        Ok(())
    }

    fn is_of_a_format(&self, source: &Arc<dyn ByteSource>) -> Result<bool> {
        let mut window = Window::new(source.len());
        match fetched(&**source, &mut window, formats::detect) {
            Ok(format) => Ok(format.id != "pytorch" && format.id != "onnx-file"),
            Err(e) if e.io().is_some() => Err(e),
            Err(_) => Ok(false),
        }
    }

    /// Follows the pickles at the start of a file, or behind the header of an array. Whether there are any.
    fn pickles(&mut self, source: &Arc<dyn ByteSource>, head: &[u8], name: &str) -> Result<bool> {
        let start = match head.starts_with(b"\x93NUMPY") {
            true => npy::header_len(head).unwrap_or(0),
            false => 0,
        };
        let is_named = is_named(name);
        let begin = usize::try_from(start).ok().and_then(|at| head.get(at..)).unwrap_or_default();
        // Most files are told from their first bytes: what follows those is not fetched.
        let is_short = source.len() <= HEAD;
        if start < HEAD && !is_short && !may_be_pickle(begin) {
            return Ok(false);
        }
        let most = self.limits.header_len;
        let end = source.len().min(start.saturating_add(most));
        let bytes = source.read_range(start.min(end)..end)?;
        let found = trace::all(&bytes, is_named && start == 0, self.limits.attribute_values);
        let is_cut = end < source.len();
        let any = !found.is_empty();
        for (at, trace) in found {
            let is_too_long = is_cut && trace.is_cut;
            self.add(name, start + at, trace, false);
            if is_too_long {
                let e = TOO_LONG.broken(format!("it has more than {most} bytes"));
                let more = Remedy::RaiseLimit { limit: "header_len", at_least: Some(source.len()) };
                self.report.unread.push(e.with_remedy(more).in_source(name));
            }
        }
        Ok(any)
    }

    fn add(&mut self, name: &str, offset: u64, mut trace: Trace, inner: bool) {
        trace.imports.iter_mut().for_each(|import| import.offset += offset);
        let (verdict, len, protocol) = (trace.danger(), trace.len, trace.protocol);
        self.report.pickles.push(Pickle {
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
            self.add(name, offset + at, inside, true);
        }
    }

    /// Whether an archive is too deep in others to be looked into, which is told.
    fn is_too_deep(&mut self, name: &str, depth: usize) -> bool {
        if depth >= MOST_ARCHIVES {
            let e = PACKED.broken(format!("it is an archive in archives, {MOST_ARCHIVES} deep"));
            self.report.unread.push(e.in_source(name));
        }
        depth >= MOST_ARCHIVES
    }

    fn tar(&mut self, source: &Arc<dyn ByteSource>, name: &str, depth: usize) -> Result<()> {
        if self.is_too_deep(name, depth) {
            return Ok(());
        }
        // What is before that which is wrong is looked at.
        let (members, wrong) = members(&**source, self.limits)?;
        for member in members {
            let own = format!("{name}!/{}", member.name);
            let inside = SliceSource::new(source.clone(), member.range)?;
            let inside: Arc<dyn ByteSource> = Arc::new(inside);
            self.source(&inside, &own, depth + 1)?;
        }
        self.report.unread.extend(wrong.map(|e| e.in_source(name)));
        Ok(())
    }

    fn zip(&mut self, source: &Arc<dyn ByteSource>, name: &str, depth: usize) -> Result<()> {
        if self.is_too_deep(name, depth) {
            return Ok(());
        }
        let mut window = Window::new(source.len());
        let read = |window: &Window| Directory::read(window, self.limits);
        let directory = match fetched(&**source, &mut window, read) {
            Ok(directory) => directory,
            Err(e) if e.io().is_some() => return Err(e),
            Err(e) => {
                self.report.unread.push(e.in_source(name));
                return self.guessed(source, name, depth);
            }
        };
        let mut is_odd = false;
        for entry in directory.entries().filter(|entry| entry.kind() == EntryKind::File) {
            let own = format!("{name}!/{}", entry.name());
            let place = match fetched(&**source, &mut window, |w| directory.data(entry, w)) {
                Ok(place) => place,
                Err(e) if e.io().is_some() => return Err(e),
                Err(e) => {
                    self.report.unread.push(e.in_source(name));
                    is_odd = true;
                    continue;
                }
            };
            self.entry(source, place, entry.method(), &own, depth)?;
        }
        if is_odd { self.guessed(source, name, depth) } else { Ok(()) }
    }

    /// Looks at what each header of a zip says is behind it, whatever the directory says.
    fn guessed(&mut self, source: &Arc<dyn ByteSource>, name: &str, depth: usize) -> Result<()> {
        let most = self.limits.header_len;
        let bytes = source.read_range(0..source.len().min(most))?;
        let mut left = most;
        for (at, guess) in guesses(&bytes).enumerate() {
            let len = guess.data.end.saturating_sub(guess.data.start) as u64;
            left = left.saturating_sub(len.max(1));
            if at >= MOST_GUESSES || left == 0 {
                let e =
                    TOO_MANY_ENTRIES.broken("it has more headers of entries than are looked at");
                self.report.unread.push(e.in_source(name));
                break;
            }
            let own = format!("{name}!/{}", guess.name);
            let place = guess.data.start as u64..guess.data.end as u64;
            let Some(method) = guess.method else { continue };
            self.entry(source, place, method, &own, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        source: &Arc<dyn ByteSource>,
        place: std::ops::Range<u64>,
        method: Method,
        name: &str,
        depth: usize,
    ) -> Result<()> {
        if method == Method::Stored {
            let inside: Arc<dyn ByteSource> = Arc::new(SliceSource::new(source.clone(), place)?);
            return self.source(&inside, name, depth + 1);
        }
        let most = self.limits.header_len;
        let stored =
            source.read_range(place.start..place.end.min(place.start.saturating_add(most)))?;
        let (head, _) = self.decoded(method, &stored, HEAD);
        let is_zip = head.starts_with(b"PK");
        if (head.len() as u64) == HEAD && !is_zip && !may_be_pickle(&head) {
            self.report.files += 1;
            return Ok(());
        }
        let (bytes, is_whole) = self.decoded(method, &stored, most);
        let before = (self.report.pickles.len(), self.report.unread.len());
        let inside: Arc<dyn ByteSource> = Arc::new(MemorySource::new(bytes));
        self.source(&inside, name, depth + 1)?;
        let after = (self.report.pickles.len(), self.report.unread.len());
        if !is_whole && after != before {
            let e = TOO_LONG.broken(format!(
                "`{}` is broken, or has more than {most} bytes when it is decoded",
                name.shown()
            ));
            self.report.unread.push(e.in_source(name));
        }
        Ok(())
    }

    /// What stored bytes decode to, as far as they do and up to `most` bytes; whether that is all.
    fn decoded(&self, method: Method, stored: &[u8], most: u64) -> (Bytes, bool) {
        let Some(mut stream) = Stream::new(method.encoding(), self.limits) else {
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

fn pack_of(head: &[u8]) -> Option<&'static str> {
    PACKS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what)
}

fn is_named(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| NAMED.contains(&e.to_ascii_lowercase().as_str()))
}

fn find(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|at| at == mark)
}

/// All files of a folder and those in it, by name, and their lengths. Links to folders are not followed.
fn files_of(root: &Path, limits: &Limits) -> Result<Vec<(PathBuf, u64)>> {
    let mut out = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |e| io(e, "reading the folder").in_source(folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                folders.push(path);
            } else if let Ok(meta) = std::fs::metadata(&path)
                && meta.is_file()
            {
                out.push((path, meta.len()));
            }
            if out.len() as u64 > limits.files {
                let message = format!("the folder has more than {} files", limits.files);
                let more = Remedy::RaiseLimit { limit: "files", at_least: None };
                return Err(TOO_MANY_ENTRIES.broken(message).with_remedy(more));
            }
        }
    }
    out.sort();
    Ok(out)
}
