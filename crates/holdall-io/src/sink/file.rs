//! A file that appears completely or not at all.
//!
//! Bytes are written to an unnamed file if the system supports that (a killed process then leaves nothing), otherwise
//! to a temporary file next to the target. The file gets the target's name in one step, when all bytes are written and
//! flushed to the disk. A background thread writes chunks of 4 MiB; if the file must reach the disk, it bypasses the
//! system's page cache. With [`Durability::System`], large slices are written to the page cache directly from the
//! caller's memory. If no thread can be started, the caller's thread writes everything.

use super::unpublished::{Unpublished, folder, sync_folder};
use super::{FILL_LEN, Sink};
use crate::buffer::Buffer;
use crate::error::{EXISTS, IN_USE, IO, NAME, NOT_REGULAR, io};
use crate::platform::{self, set_direct, write_all_at};
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

/// The number of bytes in one write.
const PIECE: usize = 4 << 20;
/// The number of chunks in memory: one being filled, the others being written.
const PIECES: usize = 3;
/// The number of bytes from which a separate write is cheaper than copying them into a chunk.
const STRAIGHT_MIN: usize = 128 << 10;
/// Files expected to be shorter than this are written through the page cache, because direct writes do not pay off.
const DIRECT_MIN: u64 = 16 << 20;

/// How safely a file's bytes are stored when it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The bytes are on the disk: after a power failure there is the old file or the new one.
    #[default]
    Disk,
    /// The bytes are with the operating system: after the process is killed there is the old file or the new one, but
    /// after a power failure there may be neither.
    System,
}

/// A file under construction. Dropping it before [`Sink::finish`] removes all traces of it.
pub struct FileSink {
    /// The path that the caller gave, used in errors.
    named: PathBuf,
    /// The path after following symbolic links.
    target: PathBuf,
    overwrite: bool,
    durability: Durability,
    file: Unpublished,
    len: u64,
    expected: u64,
    filling: Option<Buffer>,
    filled: usize,
    writer: Writer,
    /// Bytes that replace appended ones at the end, with their offsets.
    patches: Vec<(u64, Vec<u8>)>,
    /// Whether all bytes have been written.
    is_complete: bool,
}

/// The thread that writes full chunks.
enum Writer {
    /// A background thread, which is started with the first chunk.
    Later,
    Thread(Background),
    /// The caller's thread.
    Caller,
}

/// The background thread, and the channels that carry full chunks to it and empty ones back.
struct Background {
    full: SyncSender<Piece>,
    empty: Receiver<Buffer>,
    made: usize,
    thread: JoinHandle<std::io::Result<()>>,
}

/// A chunk to be written: the first `filled` bytes of `memory`, at offset `at` of the file.
struct Piece {
    memory: Buffer,
    filled: usize,
    at: u64,
}

impl FileSink {
    /// Starts a file that will be at `target`. A symbolic link there is followed.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the file exists and `overwrite` is not set; an `Io` error if its folder cannot be written.
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

    /// Checks that a file can be created at `target`, as far as that can be known without creating it. For callers that
    /// have much to do before they call [`FileSink::create`].
    ///
    /// # Errors
    /// Returns the same errors as [`FileSink::create`].
    pub fn check(target: &Path, overwrite: bool) -> Result<()> {
        let there = target_path(target, overwrite)?;
        match folder(&there).metadata() {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(not_created(ErrorKind::NotADirectory.into(), &there, target)),
            Err(e) => Err(not_created(e, &there, target)),
        }
    }

    /// Returns the canonical path of a file at `target`, which need not exist.
    ///
    /// # Errors
    /// Returns the same errors as [`FileSink::check`].
    pub fn resolve(target: &Path) -> Result<PathBuf> {
        let there = target_path(target, true)?;
        let beside = folder(&there).canonicalize().map_err(|e| not_created(e, &there, target))?;
        Ok(there.file_name().map_or_else(|| there.clone(), |name| beside.join(name)))
    }

    /// Replaces the bytes that were appended at `offset` by `bytes`, before the file is published. For headers that
    /// are only known once everything after them is written.
    pub fn patch(&mut self, offset: u64, bytes: Vec<u8>) {
        self.patches.push((offset, bytes));
    }

    fn as_file(&self) -> &File {
        self.file.as_file()
    }

    fn failed(&self, e: std::io::Error) -> Error {
        io(e, "writing").in_source(self.named.display())
    }

    /// Starts the background thread, or falls back to the caller's thread if the system cannot start one.
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

    /// Returns a chunk to fill.
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
            Err(_) => Err(self.stop_writer().err().unwrap_or_else(writer_ended)),
        }
    }

    /// Adds `count` bytes to the current chunk, which has room for them, and sends it when it is full.
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
            write_all_at(self.as_file(), &piece.memory.as_ref()[..piece.filled], piece.at)
                .map_err(|e| self.failed(e))?;
            self.filling = Some(piece.memory);
            return Ok(());
        };
        if writer.full.send(piece).is_ok() {
            return Ok(());
        }
        Err(self.stop_writer().err().unwrap_or_else(writer_ended))
    }

    /// Waits until the background thread has written everything.
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

    /// Writes the bytes that are still in memory, and the patches.
    fn complete(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_complete, true) {
            return Ok(());
        }
        let last = self.filling.take().map(|piece| (piece, std::mem::take(&mut self.filled)));
        self.stop_writer()?;
        if let Some((piece, filled)) = last {
            set_direct(self.as_file(), false);
            let at = self.len - filled as u64;
            write_all_at(self.as_file(), &piece.as_ref()[..filled], at)
                .map_err(|e| self.failed(e))?;
        }
        if !self.patches.is_empty() {
            set_direct(self.as_file(), false);
            for (at, bytes) in &self.patches {
                write_all_at(self.as_file(), bytes, *at).map_err(|e| self.failed(e))?;
            }
        }
        // Free reserved blocks past the end.
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

/// A file that does not have its name yet, read at offsets.
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

    fn read_hints(&self) -> ReadHints {
        self.0.read_hints()
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
        if bytes < DIRECT_MIN {
            return Ok(());
        }
        // Reports a full disk now instead of after writing most of the file.
        platform::reserve(self.as_file(), bytes).map_err(|e| self.failed(e))
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        if self.durability == Durability::System && bytes.len() >= STRAIGHT_MIN {
            // Directly from the caller's memory into the page cache.
            if let Some(memory) = self.filling.take() {
                let filled = std::mem::take(&mut self.filled);
                self.send(Piece { memory, filled, at: self.len - filled as u64 })?;
            }
            write_all_at(self.as_file(), bytes, self.len).map_err(|e| self.failed(e))?;
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
        // Reads go through the page cache, even after direct writes.
        set_direct(self.as_file(), false);
        let file = self.as_file().try_clone().map_err(|e| self.failed(e))?;
        let source = FileSource::from_file(file, &self.named)?;
        // Not as a local file: that could be opened a second time by its path.
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
            _ if platform::is_in_use(&e) => in_use(e, &named),
            _ => io(e, "publishing").in_source(named.display()),
        })
    }
}

#[cold]
fn exists(named: &Path) -> Error {
    EXISTS.broken("the file exists already").in_source(named.display())
}

#[cold]
fn in_use(e: std::io::Error, named: &Path) -> Error {
    IN_USE.broken("the file is open elsewhere").with_cause(e).in_source(named.display())
}

/// Returns the path of the file after following symbolic links. Refuses paths where no file can be created.
fn target_path(named: &Path, overwrite: bool) -> Result<PathBuf> {
    super::check_local(named)?;
    let refused = |e: Error| Err(e.in_source(named.display()));
    if let Some(why) = platform::invalid_name(named) {
        return refused(NAME.broken(why));
    }
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
            IO.broken("the path names a folder, which does not exist")
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

/// Returns `true` if the path can only be that of a folder: `models/`, `models/.`, `..`.
fn names_a_folder(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    let last = text.rsplit(std::path::is_separator).next();
    matches!(last, Some("" | "." | ".."))
}

/// Follows the symbolic links at `named` if there is no file yet. Returns `None` for a cycle.
fn followed(named: &Path) -> Option<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut at = named.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(to) = at.read_link() else { return Some(at) };
        at = folder(&at).join(to);
    }
    None
}

/// Returns the error for a file that cannot be created, with the caller's path in place of the temporary name.
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
        if direct
            && (!filled.is_multiple_of(platform::page_size())
                || write_all_at(file, bytes, at).is_err())
        {
            // File systems refuse direct writes in their own ways; the cache always works.
            set_direct(file, false);
            direct = false;
            write_all_at(file, bytes, at)?;
        } else if !direct {
            write_all_at(file, bytes, at)?;
        }
        // The sink may not wait for it any more.
        let _ = back.send(memory);
    }
    Ok(())
}

/// Returns the error for a background thread that ended early.
#[cold]
fn writer_ended() -> Error {
    IO.broken("the background thread that writes the file has ended")
}
