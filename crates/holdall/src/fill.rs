//! Filling memory with components: the jobs of a load, done on several threads.

use crate::file::File;
use crate::load::LoadOptions;
use crate::open::Check;
use crate::pieces::{check_digest, checked_algorithm, seek_table, swap_bytes};
use crate::source::Access;
use crate::workers;
use holdall_core::codec::Decoder;
use holdall_core::codec::zstd::{Checksums, Frame};
use holdall_core::model::{Hasher, crc32c, crc32c_combine};
use holdall_core::{Algorithm, ByteOrder, Component, Digest, Encoding, Error, Result};
use std::ops::Range;
use std::sync::Mutex;

/// Bytes in one job.
const JOB_LEN: usize = 2 << 20;
/// Bytes read at a time when they are digested: few enough that the digest finds them in the
/// processor's cache.
const STEP_LEN: usize = 128 << 10;
/// Reads under way for each thread when they go past the system's cache, to keep the disk busy.
const DIRECT_DEPTH: usize = 4;

/// A component to be read, and the tensor it is of (its number in the file).
pub(crate) struct Wanted {
    pub(crate) tensor: usize,
    pub(crate) component: Component,
}

/// Memory to be filled.
pub(crate) enum Fill<'a> {
    /// With a stretch of the file as it is, which holds these wanted components (by number, in offset
    /// order).
    Region { offset: u64, parts: &'a [usize], out: &'a mut [u8] },
    /// With the decoded bytes of one wanted component.
    Component { wanted: usize, out: &'a mut [u8] },
}

enum Job<'a> {
    /// Read the bytes at `offset`, which hold (parts of) these components.
    Read { offset: u64, parts: &'a [usize], out: &'a mut [u8] },
    /// Read these stored bytes of one component (relative to it) and decode them into `out`.
    Decode { wanted: usize, stored: Range<u64>, out: &'a mut [u8] },
    /// Read these stored bytes (relative to the component) for their share of its digest alone.
    Sum { wanted: usize, stored: Range<u64> },
    /// Read a component for a digest that cannot be cut.
    Digest { wanted: usize },
}

/// The CRC-32C of a part of a component's stored bytes.
struct Sum {
    wanted: usize,
    /// Relative to the component.
    start: u64,
    len: u64,
    crc: u32,
}

struct Context<'a> {
    file: &'a File,
    wanted: &'a [Wanted],
    check: Check,
    direct: bool,
    options: &'a LoadOptions,
    sums: Mutex<Vec<Sum>>,
}

/// What a thread keeps between jobs.
struct Kept {
    decoder: Decoder,
    checksums: Checksums,
    scratch: Vec<u8>,
}

/// Does all fills.
pub(crate) fn fill(
    file: &File,
    wanted: &[Wanted],
    fills: Vec<Fill<'_>>,
    direct: bool,
    options: &LoadOptions,
) -> Result<()> {
    let check = options.check.unwrap_or(file.check());
    let context = Context { file, wanted, check, direct, options, sums: Mutex::new(Vec::new()) };
    let mut jobs = Vec::new();
    for fill in fills {
        context.cut(fill, &mut jobs)?;
    }
    if check == Check::All {
        let long = |w: &Wanted| checked_algorithm(&w.component, check) == Some(Algorithm::Sha256);
        jobs.extend(
            (0..wanted.len()).filter(|&i| long(&wanted[i])).map(|wanted| Job::Digest { wanted }),
        );
    }
    let kept = || Kept {
        decoder: Decoder::new(file.limits()),
        checksums: Checksums::Compare,
        scratch: Vec::new(),
    };
    let threads = options.work.threads() * if direct { DIRECT_DEPTH } else { 1 };
    workers::for_each(threads, jobs, kept, |kept, job| context.run(kept, job))?;
    context.compare()
}

impl<'a> Context<'a> {
    /// Cuts a fill into jobs.
    fn cut(&self, fill: Fill<'a>, jobs: &mut Vec<Job<'a>>) -> Result<()> {
        match fill {
            Fill::Region { offset, mut parts, out } => {
                let mut at = offset;
                for out in out.chunks_mut(JOB_LEN) {
                    let end = at + out.len() as u64;
                    // Components are in offset order, and only equal ones overlap.
                    let (now, rest) = self.between(parts, at, end);
                    jobs.push(Job::Read { offset: at, parts: now, out });
                    (parts, at) = (rest, end);
                }
                Ok(())
            }
            Fill::Component { wanted, out } => self.cut_component(wanted, out, jobs),
        }
    }

    fn cut_component(
        &self,
        wanted: usize,
        out: &'a mut [u8],
        jobs: &mut Vec<Job<'a>>,
    ) -> Result<()> {
        let c = &self.wanted[wanted].component;
        if c.encoding == Encoding::Raw {
            let mut start = 0;
            for out in out.chunks_mut(JOB_LEN) {
                let stored = start..start + out.len() as u64;
                start = stored.end;
                jobs.push(Job::Decode { wanted, stored, out });
            }
            return Ok(());
        }
        let Some(table) = seek_table(self.file, c)? else {
            jobs.push(Job::Decode { wanted, stored: 0..c.stored_len(), out });
            return Ok(());
        };
        let mut rest = out;
        for frames in groups(table.frames()) {
            let (Some(first), Some(last)) = (frames.first(), frames.last()) else { continue };
            let (own, tail) = rest.split_at_mut((last.decoded.end - first.decoded.start) as usize);
            rest = tail;
            let stored = first.stored.start..last.stored.end;
            jobs.push(Job::Decode { wanted, stored, out: own });
        }
        // The table itself belongs to the stored bytes, and so to their digest.
        let frames_end = table.frames().last().map_or(0, |f| f.stored.end);
        if checked_algorithm(c, self.check) == Some(Algorithm::Crc32c) {
            jobs.push(Job::Sum { wanted, stored: frames_end..c.stored_len() });
        }
        Ok(())
    }

    fn run(&self, kept: &mut Kept, job: Job<'_>) -> Result<()> {
        match job {
            Job::Read { offset, parts, out } => self.read(offset, parts, out),
            Job::Decode { wanted, stored, out } => {
                self.decode(kept, wanted, stored, out).map_err(|e| self.place(wanted, e))
            }
            Job::Sum { wanted, stored } => {
                self.sum(wanted, stored).map_err(|e| self.place(wanted, e))
            }
            Job::Digest { wanted } => self.digest(wanted).map_err(|e| self.place(wanted, e)),
        }
    }

    fn read(&self, offset: u64, parts: &[usize], out: &mut [u8]) -> Result<()> {
        let source = self.file.source();
        let len = out.len() as u64;
        if let Some(done) = self.direct.then(|| source.read_direct(offset, out)).flatten() {
            done?;
            self.sum_parts(offset, parts, out)?;
        } else {
            // A region that was to be read direct may reach past the end of the file.
            let inside = source.len().saturating_sub(offset).min(len) as usize;
            let out = &mut out[..inside];
            let sums = |&i: &usize| self.wants_sum(i);
            // A digest is cheap only while the bytes are in the processor's cache.
            let step = if parts.iter().any(sums) { STEP_LEN } else { out.len().max(1) };
            let mut at = offset;
            let mut rest = parts;
            for out in out.chunks_mut(step) {
                source.read_into(at, out)?;
                let end = at + out.len() as u64;
                let (now, after) = self.between(rest, at, end);
                self.sum_parts(at, now, out)?;
                (rest, at) = (after, end);
            }
        }
        self.options.work.advance(len)
    }

    /// Of parts in offset order, those that have bytes in `from..to`, and those from there on.
    fn between<'p>(&self, parts: &'p [usize], from: u64, to: u64) -> (&'p [usize], &'p [usize]) {
        let stored = |i: &usize| &self.wanted[*i].component.stored;
        let parts = &parts[parts.partition_point(|i| stored(i).end <= from)..];
        (&parts[..parts.partition_point(|i| stored(i).start < to)], parts)
    }

    fn wants_sum(&self, wanted: usize) -> bool {
        checked_algorithm(&self.wanted[wanted].component, self.check) == Some(Algorithm::Crc32c)
    }

    /// Checks the parts that lie in these bytes whole, and takes the sums of what there is of others.
    fn sum_parts(&self, offset: u64, parts: &[usize], bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        for &wanted in parts.iter().filter(|&&i| self.wants_sum(i)) {
            let c = &self.wanted[wanted].component;
            let from = c.stored.start.max(offset);
            let to = c.stored.end.min(end).max(from);
            let bytes = &bytes[(from - offset) as usize..(to - offset) as usize];
            if (from..to) == c.stored {
                check_digest(c, Digest::Crc32c(crc32c(bytes)))
                    .map_err(|e| self.place(wanted, e))?;
            } else {
                self.sum_bytes(wanted, from - c.stored.start, bytes);
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        kept: &mut Kept,
        wanted: usize,
        stored: Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let c = &self.wanted[wanted].component;
        let source = self.file.source();
        let absolute = c.stored.start + stored.start..c.stored.start + stored.end;
        if c.encoding == Encoding::Raw {
            let step = if self.wants_sum(wanted) { STEP_LEN } else { out.len().max(1) };
            let mut at = stored.start;
            for out in out.chunks_mut(step) {
                source.read_into(c.stored.start + at, out)?;
                self.sum_bytes(wanted, at, out);
                at += out.len() as u64;
            }
        } else if source.access() == Access::Borrowed {
            source.expect(absolute.clone());
            let bytes = source.read_range(absolute)?;
            self.sum_bytes(wanted, stored.start, &bytes);
            self.set_checksums(kept, wanted);
            kept.decoder.decode_into(c.encoding, &bytes, out)?;
        } else {
            kept.scratch.resize((stored.end - stored.start) as usize, 0);
            source.read_into(absolute.start, &mut kept.scratch)?;
            self.sum_bytes(wanted, stored.start, &kept.scratch);
            self.set_checksums(kept, wanted);
            kept.decoder.decode_into(c.encoding, &kept.scratch, out)?;
        }
        if c.byte_order == ByteOrder::Big {
            swap_bytes(out, c.dtype.width());
        }
        self.options.work.advance(stored.end - stored.start)
    }

    /// Frames need not be held against zstd's checksums where the digest vouches for them, or where no
    /// checks are wanted.
    fn set_checksums(&self, kept: &mut Kept, wanted: usize) {
        let vouched = self.check == Check::Off
            || checked_algorithm(&self.wanted[wanted].component, self.check).is_some();
        let checksums = if vouched { Checksums::Ignore } else { Checksums::Compare };
        if kept.checksums != checksums {
            kept.checksums = checksums;
            kept.decoder.set_checksums(checksums);
        }
    }

    fn sum(&self, wanted: usize, stored: Range<u64>) -> Result<()> {
        let first = self.wanted[wanted].component.stored.start;
        let absolute = first + stored.start..first + stored.end;
        let bytes = self.file.source().read_range(absolute)?;
        self.sum_bytes(wanted, stored.start, &bytes);
        Ok(())
    }

    /// Takes the sum of stored bytes that start at `start` of their component, if it is to be checked.
    fn sum_bytes(&self, wanted: usize, start: u64, bytes: &[u8]) {
        if self.wants_sum(wanted) {
            let sum = Sum { wanted, start, len: bytes.len() as u64, crc: crc32c(bytes) };
            self.sums.lock().unwrap_or_else(|p| p.into_inner()).push(sum);
        }
    }

    fn digest(&self, wanted: usize) -> Result<()> {
        let c = &self.wanted[wanted].component;
        let Some(algorithm) = checked_algorithm(c, self.check) else { return Ok(()) };
        let mut hasher = Hasher::new(algorithm);
        let mut at = c.stored.start;
        while at < c.stored.end {
            let end = c.stored.end.min(at + JOB_LEN as u64);
            hasher.update(&self.file.source().read_range(at..end)?);
            at = end;
        }
        check_digest(c, hasher.finish())
    }

    /// Puts the sums of each component together and compares them with the file's.
    fn compare(self) -> Result<()> {
        let mut sums = self.sums.into_inner().unwrap_or_else(|p| p.into_inner());
        sums.sort_unstable_by_key(|s| (s.wanted, s.start));
        for of_one in sums.chunk_by(|a, b| a.wanted == b.wanted) {
            let Some(first) = of_one.first() else { continue };
            let crc =
                of_one[1..].iter().fold(first.crc, |crc, s| crc32c_combine(crc, s.crc, s.len));
            let wanted = &self.wanted[first.wanted];
            check_digest(&wanted.component, Digest::Crc32c(crc))
                .map_err(|e| place(self.file, wanted, e))?;
        }
        Ok(())
    }

    fn place(&self, wanted: usize, e: Error) -> Error {
        place(self.file, &self.wanted[wanted], e)
    }
}

#[cold]
pub(crate) fn place(file: &File, wanted: &Wanted, e: Error) -> Error {
    let e = match file.index().at(wanted.tensor) {
        Some(tensor) => e.in_tensor(tensor.name()),
        None => e,
    };
    let c = &wanted.component;
    e.in_component(&c.role).at(c.stored.clone()).in_source(file.name())
}

/// Runs of frames that decode to about [`JOB_LEN`] bytes.
fn groups(frames: &[Frame]) -> Vec<&[Frame]> {
    let mut out = Vec::new();
    let mut rest = frames;
    while let Some(first) = rest.first() {
        let limit = first.decoded.start.saturating_add(JOB_LEN as u64);
        let count = rest.partition_point(|f| f.decoded.end <= limit).max(1);
        let (group, tail) = rest.split_at(count);
        out.push(group);
        rest = tail;
    }
    out
}
