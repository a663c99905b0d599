//! A file that appears whole or not at all.
//!
//! Bytes go to a file without a name where the system has such (so that a killed process leaves
//! nothing), else to a temporary one beside the target; only when all are written and on the disk
//! does it take the target's name, in one step. Bytes are written on a thread of their own, in pieces
//! of 4 MiB; those that must reach the disk past the system's cache. Others that lie in memory, many at a time, go
//! into the cache from where they are, and so do all where the system starts no thread.

use super::unpublished::{Unpublished, folder, sync_folder};
use super::{FILL_LEN, Sink};
use crate::buffer::Buffer;
use crate::error::{EXISTS, IO, NOT_REGULAR, io};
use crate::source::{ByteSource, FileSource, ReadHints};
use bytes::Bytes;
use holdall_core::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes in one write.
const PIECE: usize = 4 << 20;
/// Pieces in memory: one being filled, the others being written.
const PIECES: usize = 3;
/// From this many bytes on, copying them into a piece costs more than a write of their own.
const STRAIGHT_MIN: usize = 128 << 10;
/// What direct writes want offsets, lengths and addresses to be multiples of.
const PAGE: usize = 4096;
/// Files expected to be smaller are written through the cache: going past it does not pay.
const DIRECT_MIN: u64 = 16 << 20;

/// What has happened to a file's bytes when it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// They are on the disk: a power cut leaves the old file or the new one.
    #[default]
    Disk,
    /// They are with the operating system: a killed process leaves the old file or the new one, a
    /// power cut may leave neither.
    System,
}

/// A file under construction. Dropped before [`Sink::finish`], it leaves nothing behind.
pub struct FileSink {
    /// As the caller named it: what errors say.
    named: PathBuf,
    /// Where the symbolic links in that lead.
    target: PathBuf,
    overwrite: bool,
    durability: Durability,
    file: Unpublished,
    len: u64,
    expected: u64,
    filling: Option<Buffer>,
    filled: usize,
    writer: Writer,
    /// Bytes that take the place of appended ones at the end.
    patches: Vec<(u64, Vec<u8>)>,
    /// Whether the file has all its bytes.
    is_complete: bool,
}

/// Who writes the pieces that are full.
enum Writer {
    /// A thread of its own, which starts with the first of them.
    Later,
    Thread(Background),
    /// Whoever appends.
    Caller,
}

/// The thread that writes, and the pieces that go to it full and come back empty.
struct Background {
    full: SyncSender<Piece>,
    empty: Receiver<Buffer>,
    made: usize,
    thread: JoinHandle<std::io::Result<()>>,
}

/// Bytes to be written: as many as are filled, from that offset of the file on.
struct Piece {
    memory: Buffer,
    filled: usize,
    at: u64,
}

impl FileSink {
    /// Begins a file that will be at `target`. A symbolic link there is followed.
    ///
    /// # Errors
    /// Misuse when there is a file and `overwrite` is not set, Io when its folder cannot be written.
    pub fn create(target: &Path, overwrite: bool, durability: Durability) -> Result<FileSink> {
        let named = target.to_owned();
        let target = target_path(&named, overwrite)?;
        let file = Unpublished::begin(&target).map_err(|e| not_created(e, &target, &named))?;
        Ok(FileSink {
            named,
            target,
            overwrite,
            durability,
            file,
            len: 0,
            expected: 0,
            filling: None,
            filled: 0,
            writer: Writer::Later,
            patches: Vec::new(),
            is_complete: false,
        })
    }

    /// Whether a file can be begun that will be at `target`, as far as that shows before it is. For
    /// those who have much to do before they call [`FileSink::create`].
    ///
    /// # Errors
    /// As [`FileSink::create`].
    pub fn check(target: &Path, overwrite: bool) -> Result<()> {
        let there = target_path(target, overwrite)?;
        match folder(&there).metadata() {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(not_created(ErrorKind::NotADirectory.into(), &there, target)),
            Err(e) => Err(not_created(e, &there, target)),
        }
    }

    /// The canonical path of a file that will be at `target`, whether there is one or not.
    ///
    /// # Errors
    /// As [`FileSink::check`].
    pub fn resolve(target: &Path) -> Result<PathBuf> {
        let there = target_path(target, true)?;
        let beside = folder(&there).canonicalize().map_err(|e| not_created(e, &there, target))?;
        Ok(there.file_name().map_or_else(|| there.clone(), |name| beside.join(name)))
    }

    /// Puts `bytes` in the place of those that were appended at `at`, before the file is published. For
    /// headers that say what is only known when all after them is written.
    pub fn patch(&mut self, at: u64, bytes: Vec<u8>) {
        self.patches.push((at, bytes));
    }

    fn as_file(&self) -> &File {
        self.file.as_file()
    }

    fn failed(&self, e: std::io::Error) -> Error {
        io(e, "writing").in_source(self.named.display())
    }

    /// Starts the thread that writes, unless the system has none to give.
    fn start_writer(&mut self) -> Result<()> {
        let file = self.as_file().try_clone().map_err(|e| self.failed(e))?;
        let direct = self.durability == Durability::Disk
            && self.expected.max(self.len) >= DIRECT_MIN
            && set_direct(&file, true);
        let (full, jobs) = sync_channel::<Piece>(PIECES);
        let (back, empty) = sync_channel(PIECES);
        let work = move || write_pieces(&file, direct, &jobs, &back);
        self.writer = match std::thread::Builder::new().spawn(work) {
            Ok(thread) => Writer::Thread(Background { full, empty, made: 0, thread }),
            Err(_) => {
                set_direct(self.as_file(), false);
                Writer::Caller
            }
        };
        Ok(())
    }

    /// A piece to fill.
    fn piece(&mut self) -> Result<Buffer> {
        let Writer::Thread(writer) = &mut self.writer else { return Buffer::mapped(PIECE) };
        if let Ok(piece) = writer.empty.try_recv() {
            return Ok(piece);
        }
        if writer.made < PIECES - 1 {
            writer.made += 1;
            return Buffer::mapped(PIECE);
        }
        match writer.empty.recv() {
            Ok(piece) => Ok(piece),
            Err(_) => Err(self.stop_writer().err().unwrap_or_else(|| IO.broken("writing stopped"))),
        }
    }

    /// Gives the piece that is being filled `count` more bytes, which it has room for, and sends it when it is full.
    fn fill_piece(
        &mut self,
        count: usize,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = match self.filling.take() {
            Some(piece) => piece,
            None => self.piece()?,
        };
        read(&mut piece.as_mut()[self.filled..self.filled + count])?;
        self.filled += count;
        self.len += count as u64;
        if self.filled < PIECE {
            self.filling = Some(piece);
            return Ok(());
        }
        self.filled = 0;
        self.send(Piece { memory: piece, filled: PIECE, at: self.len - PIECE as u64 })
    }

    fn send(&mut self, piece: Piece) -> Result<()> {
        if matches!(self.writer, Writer::Later) {
            self.start_writer()?;
        }
        let Writer::Thread(writer) = &self.writer else {
            write_at(self.as_file(), &piece.memory.as_ref()[..piece.filled], piece.at)
                .map_err(|e| self.failed(e))?;
            self.filling = Some(piece.memory);
            return Ok(());
        };
        if writer.full.send(piece).is_ok() {
            return Ok(());
        }
        Err(self.stop_writer().err().unwrap_or_else(|| IO.broken("writing stopped")))
    }

    /// Waits for what was handed to the writer.
    fn stop_writer(&mut self) -> Result<()> {
        let writer = std::mem::replace(&mut self.writer, Writer::Caller);
        let Writer::Thread(writer) = writer else { return Ok(()) };
        drop(writer.full);
        // Pieces that come back must not block the thread.
        drop(writer.empty);
        match writer.thread.join() {
            Ok(done) => done.map_err(|e| self.failed(e)),
            Err(_) => Err(IO.broken("the writing thread stopped")),
        }
    }

    /// Writes what is left in memory, so that the file has all its bytes.
    fn complete(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_complete, true) {
            return Ok(());
        }
        let last = self.filling.take().map(|piece| (piece, std::mem::take(&mut self.filled)));
        self.stop_writer()?;
        if let Some((piece, filled)) = last {
            set_direct(self.as_file(), false);
            let at = self.len - filled as u64;
            write_at(self.as_file(), &piece.as_ref()[..filled], at).map_err(|e| self.failed(e))?;
        }
        if !self.patches.is_empty() {
            set_direct(self.as_file(), false);
            for (at, bytes) in &self.patches {
                write_at(self.as_file(), bytes, *at).map_err(|e| self.failed(e))?;
            }
        }
        // Reserved blocks past the end go back.
        self.as_file().set_len(self.len).map_err(|e| self.failed(e))
    }

    fn publish(self) -> std::io::Result<()> {
        self.file.publish(&self.target, self.overwrite)?;
        if self.durability == Durability::Disk {
            sync_folder(&self.target)?;
        }
        Ok(())
    }
}

/// A file that does not have its name yet, read by position.
struct Unnamed(FileSource);

impl ByteSource for Unnamed {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_into(offset, out)
    }

    fn terms(&self) -> ReadHints {
        self.0.terms()
    }
}

impl Sink for FileSink {
    type Done = ();

    fn len(&self) -> u64 {
        self.len
    }

    fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.expect(bytes);
        #[cfg(target_os = "linux")]
        if bytes >= DIRECT_MIN {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            let reserved = fallocate(self.as_file(), FallocateFlags::KEEP_SIZE, 0, bytes);
            // Better to hear now that the disk is too small than when it is full. File systems that
            // cannot reserve still write.
            if let Err(e @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) = reserved {
                return Err(self.failed(e.into()));
            }
        }
        Ok(())
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        if self.durability == Durability::System && bytes.len() >= STRAIGHT_MIN {
            // Into the system's cache straight from the caller's memory.
            if let Some(memory) = self.filling.take() {
                let filled = std::mem::take(&mut self.filled);
                self.send(Piece { memory, filled, at: self.len - filled as u64 })?;
            }
            write_at(self.as_file(), bytes, self.len).map_err(|e| self.failed(e))?;
            self.len += bytes.len() as u64;
            return Ok(());
        }
        while !bytes.is_empty() {
            let now;
            (now, bytes) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            self.fill_piece(now.len(), |memory| {
                memory.copy_from_slice(now);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn fill(&mut self, mut len: u64, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        while len > 0 {
            let now = len.min((PIECE - self.filled).min(FILL_LEN) as u64) as usize;
            self.fill_piece(now, &mut *read)?;
            len -= now as u64;
        }
        Ok(())
    }

    fn read_back(&mut self) -> Result<Option<Arc<dyn ByteSource>>> {
        self.complete()?;
        // The system's cache has what is read, whichever way it was written.
        set_direct(self.as_file(), false);
        let file = self.as_file().try_clone().map_err(|e| self.failed(e))?;
        let source = FileSource::from_file(file, &self.named)?;
        // Not as a local file, which may be opened a second time by its path.
        Ok(Some(Arc::new(Unnamed(source))))
    }

    fn finish(mut self) -> Result<()> {
        self.complete()?;
        if self.durability == Durability::Disk {
            self.as_file().sync_all().map_err(|e| self.failed(e))?;
        }
        let (named, overwrite) = (self.named.clone(), self.overwrite);
        self.publish().map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists if !overwrite => exists(&named),
            _ => io(e, "publishing").in_source(named.display()),
        })
    }
}

#[cold]
fn exists(named: &Path) -> Error {
    EXISTS.broken("the file exists already").in_source(named.display())
}

/// Where a file named so will be, its symbolic links followed. Refuses what is not a place for a file.
fn target_path(named: &Path, overwrite: bool) -> Result<PathBuf> {
    super::check_local(named)?;
    let refused = |e: Error| Err(e.in_source(named.display()));
    match named.metadata() {
        Ok(meta) if meta.is_dir() => refused(
            IO.broken("this is a folder, not a file")
                .with_hint("name a file in the folder")
                .with_cause(std::io::Error::from(ErrorKind::IsADirectory)),
        ),
        Ok(meta) if !meta.is_file() => {
            refused(NOT_REGULAR.broken("this is a pipe or a device, not a regular file"))
        }
        Ok(_) if !overwrite => Err(exists(named)),
        Err(missing) if missing.kind() == ErrorKind::NotFound && names_a_folder(named) => refused(
            IO.broken("this names a folder, and it does not exist")
                .with_hint("create the folder first, and name a file in it")
                .with_cause(missing),
        ),
        Err(e) if names_a_folder(named) => refused(io(e, "creating")),
        _ => match named.canonicalize() {
            Ok(there) => Ok(there),
            Err(e) => followed(named).map_or_else(|| refused(io(e, "creating")), Ok),
        },
    }
}

/// Whether no file can have this name: `models/`, `models/.`, `..`.
fn names_a_folder(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    let last = text.rsplit(std::path::is_separator).next();
    matches!(last, Some("" | "." | ".."))
}

/// Where the symbolic links at `named` lead, when there is no file yet; nowhere when they go round in
/// a circle.
fn followed(named: &Path) -> Option<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut at = named.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = at.read_link() else { return Some(at) };
        at = folder(&at).join(to);
    }
    None
}

/// Names the file asked for: the temporary one beside it means nothing to anybody.
#[cold]
fn not_created(e: std::io::Error, target: &Path, named: &Path) -> Error {
    let folder = folder(target);
    let e = match folder.metadata() {
        Err(missing) if missing.kind() == ErrorKind::NotFound => IO
            .broken(format!("the folder `{}` does not exist", folder.display()))
            .with_hint("create the folder first")
            .with_cause(missing),
        Ok(meta) if !meta.is_dir() => {
            IO.broken(format!("`{}` is a file, not a folder", folder.display())).with_cause(e)
        }
        _ => io(e, "creating"),
    };
    e.in_source(named.display())
}

fn write_pieces(
    file: &File,
    mut direct: bool,
    jobs: &Receiver<Piece>,
    back: &SyncSender<Buffer>,
) -> std::io::Result<()> {
    for Piece { memory, filled, at } in jobs {
        let bytes = &memory.as_ref()[..filled];
        if direct && (!filled.is_multiple_of(PAGE) || write_at(file, bytes, at).is_err()) {
            // File systems refuse direct writes in their own ways; the cache always works.
            set_direct(file, false);
            direct = false;
            write_at(file, bytes, at)?;
        } else if !direct {
            write_at(file, bytes, at)?;
        }
        // Nobody may be waiting for it.
        let _ = back.send(memory);
    }
    Ok(())
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        (bytes, at) = (&bytes[n..], at + n as u64);
    }
    Ok(())
}

/// Turns writing past the cache on or off; whether that could be done.
#[cfg(target_os = "linux")]
fn set_direct(file: &File, on: bool) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let Ok(flags) = fcntl_getfl(file) else { return false };
    let wanted = if on { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    wanted == flags || fcntl_setfl(file, wanted).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn set_direct(_: &File, _: bool) -> bool {
    false
}
