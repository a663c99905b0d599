//! Encodes lines of JSON as records, on several threads and in order.

use super::dataset::DatasetWriter;
use crate::entries::{From, Mover, entry};
use crate::rules::LINE;
use holdall_core::{Error, Result};
use holdall_io::error::{IO, io};
use holdall_schema::{Encoder, Entry, Kind, Len, Schema, SchemaLimits, TypeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

/// Bytes of text in a batch; more if one line is longer.
const BATCH: usize = 256 << 10;
/// Bytes of the records of a batch, which may be much longer than their text; more if one record is longer.
const RECORDS: usize = 1 << 20;
/// Length of the longest line, in bytes.
const LONGEST: usize = 64 << 20;
/// Largest number of threads. More would be idle, because a single thread joins the batches.
const THREADS: usize = 16;
/// If records have more entries than this, the entries are found by walking each record.
const MOST_ENTRIES: usize = 1024;

/// A reader of lines in batches.
pub(super) struct Lines<R> {
    from: R,
    /// Bytes that were read, but not returned yet.
    rest: Vec<u8>,
    /// If `rest` is longer than a batch: the number of its first bytes that are known to contain no line end.
    searched: usize,
    /// The number of the next line, counted from 1.
    next: u64,
    at_end: bool,
}

/// Some lines and the records that they are encoded to.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    /// The number of the batch's first line.
    first: u64,
    records: Vec<u8>,
    heap: Vec<u8>,
    count: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, rest: Vec::new(), searched: 0, next: 1, at_end: false }
    }

    /// Reads the next lines, at most `most`, into `batch`. Returns whether there are any.
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool> {
        batch.text.clear();
        while !self.at_end && self.rest.len() < BATCH {
            self.read()?;
        }
        let mut end = self.end(most);
        while end == 0 && !self.at_end {
            if self.rest.len() > LONGEST {
                let message = format!("line {} has more than {LONGEST} bytes", self.next);
                return Err(LINE.broken(message));
            }
            self.read()?;
            end = self.end(most);
        }
        if end == 0 {
            // The last line may have no line end.
            end = self.rest.len();
        }
        batch.text.extend_from_slice(self.rest.get(..end).unwrap_or_default());
        self.rest.drain(..end);
        self.searched = 0;
        batch.first = self.next;
        self.next += line_ends(&batch.text) as u64;
        Ok(!batch.text.is_empty())
    }

    /// Returns the end of the last complete line of a batch, or 0 if there is none.
    fn end(&mut self, most: usize) -> usize {
        let is_end = |b: &u8| *b == b'\n';
        let (batch, beyond) = self.rest.split_at(self.rest.len().min(BATCH));
        let end = match batch.iter().rposition(is_end) {
            Some(at) => at + 1,
            None => {
                // Bytes of a line longer than a batch are searched only once.
                let from = self.searched.max(BATCH) - BATCH;
                self.searched = self.rest.len();
                match beyond.iter().skip(from).position(is_end) {
                    Some(at) => return batch.len() + from + at + 1,
                    None => return 0,
                }
            }
        };
        let whole = batch.get(..end).unwrap_or_default();
        if line_ends(whole) <= most {
            return end;
        }
        let mut whole = whole.iter();
        (0..most).map(|_| whole.by_ref().position(is_end).map_or(0, |at| at + 1)).sum()
    }

    fn read(&mut self) -> Result<()> {
        let before = self.rest.len();
        self.rest.resize(before + BATCH, 0);
        let count = loop {
            match self.from.read(self.rest.get_mut(before..).unwrap_or_default()) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.map_err(|e| io(e, "reading lines of JSON"))?,
            }
        };
        self.rest.truncate(before + count);
        self.at_end = count == 0;
        Ok(())
    }
}

/// Adds a record for each line.
pub(super) fn encode<R: Read>(
    to: &mut DatasetWriter,
    mut lines: Lines<R>,
    threads: usize,
) -> Result<()> {
    // The threads use a clone of the schema, because the writer is changed while they work.
    let (schema, limits, ty, stride) = (to.schema.clone(), to.limits.clone(), to.ty, to.stride);
    let merge = Merge::new(&schema, ty, to);
    let most = (RECORDS / stride).max(1);
    let threads = threads.min(THREADS);
    if threads == 1 {
        let mut batch = Batch::default();
        let mut encoder = Encoder::new(&schema, ty, &limits)?;
        while lines.fill(&mut batch, most)? {
            batch.encode(&mut encoder, stride)?;
            merge.take(&mut batch, to)?;
        }
        return Ok(());
    }
    let (give, jobs) = channel::<(u64, Batch)>();
    let jobs = Mutex::new(jobs);
    let (back, done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (jobs, back, schema, limits) = (&jobs, back.clone(), &schema, &limits);
            scope.spawn(move || {
                let Ok(mut encoder) = Encoder::new(schema, ty, limits) else { return };
                loop {
                    let job = jobs.lock().unwrap_or_else(|p| p.into_inner()).recv();
                    let Ok((number, mut batch)) = job else { return };
                    let made = batch.encode(&mut encoder, stride).map(|()| batch);
                    if back.send((number, made)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(back);
        // Takes ownership of the sender, so that the threads end when this function returns.
        let give = give;
        let mut order = Order { done, early: BTreeMap::new(), taken: 0 };
        let (mut given, mut spare) = (0u64, Vec::new());
        let mut more = true;
        while more || order.taken < given {
            let in_flight = given - order.taken;
            if more && in_flight < threads as u64 * 2 {
                let mut batch: Batch = spare.pop().unwrap_or_default();
                more = lines.fill(&mut batch, most)?;
                if more && give.send((given, batch)).is_ok() {
                    given += 1;
                }
                continue;
            }
            let mut batch = order.next()?;
            merge.take(&mut batch, to)?;
            spare.push(batch);
        }
        Ok(())
    })
}

/// Returns batches in the order of their lines.
struct Order {
    done: Receiver<(u64, Result<Batch>)>,
    early: BTreeMap<u64, Result<Batch>>,
    taken: u64,
}

impl Order {
    fn next(&mut self) -> Result<Batch> {
        loop {
            if let Some(batch) = self.early.remove(&self.taken) {
                self.taken += 1;
                return batch;
            }
            match self.done.recv() {
                Ok((number, batch)) => drop(self.early.insert(number, batch)),
                Err(_) => return Err(IO.broken("an encoding thread stopped")),
            }
        }
    }
}

impl Batch {
    fn encode(&mut self, encoder: &mut Encoder<'_>, stride: usize) -> Result<()> {
        self.records.clear();
        self.heap.clear();
        self.count = 0;
        let (mut rest, mut next) = (self.text.as_slice(), self.first);
        while !rest.is_empty() {
            let (line, number) = (rest.get(..line_len(rest)).unwrap_or_default(), next);
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            next += 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let start = self.records.len();
            self.records.resize(start + stride, 0);
            let slot = self.records.get_mut(start..).unwrap_or_default();
            let slot = slot.get_mut(..encoder.size()).unwrap_or_default();
            encoder.text(line, slot, &mut self.heap).map_err(|e| in_line(e, number))?;
            self.count += 1;
        }
        Ok(())
    }
}

/// Counts the line ends in `bytes`. The sums are in `u8`, so that the compiler can vectorize the loop.
fn line_ends(bytes: &[u8]) -> usize {
    let few = |bytes: &[u8]| bytes.iter().map(|b| u8::from(*b == b'\n')).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|chunk| usize::from(few(chunk))).sum()
}

/// Returns the length of the first line without its line end. Compares many bytes at a time.
fn line_len(bytes: &[u8]) -> usize {
    let has_no_end = |chunk: &&[u8; 32]| !chunk.iter().fold(false, |any, b| any | (*b == b'\n'));
    let (chunks, _) = bytes.as_chunks();
    let before = chunks.iter().take_while(has_no_end).count() * 32;
    let rest = bytes.get(before..).unwrap_or_default();
    before + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

#[cold]
fn in_line(e: Error, line: u64) -> Error {
    e.within(format!("line {line}"))
}

/// How batches are joined.
enum Merge {
    /// Every record has its entries at the same positions, and no entry refers to other entries, so each entry is
    /// shifted by the start of the batch's heap.
    Shift { places: Vec<usize>, align: u32 },
    /// Each record is walked to find its entries.
    Walk { limits: SchemaLimits, schema: Box<Schema> },
}

impl Merge {
    fn new(schema: &Schema, ty: TypeId, to: &DatasetWriter) -> Merge {
        let mut places = Vec::new();
        let align = schema.ty(ty).heap_align.unwrap_or(1);
        if to.heap.window.is_none() && find(schema, ty, 0, &mut places).is_some() {
            return Merge::Shift { places, align };
        }
        Merge::Walk { limits: to.limits.clone(), schema: Box::new(schema.clone()) }
    }

    fn take(&self, batch: &mut Batch, to: &mut DatasetWriter) -> Result<()> {
        match self {
            Merge::Shift { places, align } => {
                if !batch.heap.is_empty() {
                    to.heap.spool.pad(*align)?;
                }
                let base = to.heap.spool.len();
                if base > 0 && !places.is_empty() {
                    for record in batch.records.chunks_exact_mut(to.stride) {
                        for place in places {
                            shift(record.get_mut(*place..).unwrap_or_default(), base)?;
                        }
                    }
                }
                to.heap.spool.append(&batch.heap)?;
            }
            Merge::Walk { limits, schema } => {
                let heap = &batch.heap;
                let get = |r: std::ops::Range<u64>| {
                    let found = heap.get(r.start as usize..r.end as usize);
                    Ok(Cow::Borrowed(found.unwrap_or_default()))
                };
                let from = From { len: heap.len() as u64, get: &get };
                let mut mover = Mover::new(schema, &from, &mut to.heap, limits.decoded_len);
                for record in batch.records.chunks_exact_mut(to.stride) {
                    mover.record(to.ty, record.get_mut(..to.size).unwrap_or_default())?;
                }
            }
        }
        to.records.append(&batch.records)?;
        to.added(batch.count);
        Ok(())
    }
}

/// Adds `base` to the offset of an entry, unless the entry is empty.
#[inline]
fn shift(bytes: &mut [u8], base: u64) -> Result<()> {
    let Entry { offset, len } = entry(bytes)?;
    if len > 0
        && let Some(slot) = bytes.first_chunk_mut()
    {
        *slot = Entry { offset: offset + base, len }.to_bytes();
    }
    Ok(())
}

/// Collects the positions of all entries of a type that starts at `start`. Returns `None` if the positions differ
/// between records or an entry refers to other entries.
fn find(schema: &Schema, ty: TypeId, start: u64, places: &mut Vec<usize>) -> Option<()> {
    let found = schema.ty(ty);
    if found.heap_align.is_none() {
        return Some(());
    }
    if places.len() >= MOST_ENTRIES {
        return None;
    }
    match &found.kind {
        Kind::String | Kind::Bytes | Kind::Record => places.push(usize::try_from(start).ok()?),
        Kind::Array(array) => match array.len {
            Len::Variable { .. } if schema.ty(array.items).heap_align.is_some() => return None,
            Len::Variable { .. } => places.push(usize::try_from(start).ok()?),
            Len::Fixed(len) => {
                let stride = schema.extent(array.items).ok()?.stride;
                for at in 0..len {
                    find(schema, array.items, start + at * stride, places)?;
                }
            }
        },
        // The bytes of an absent member are zero, which is an empty entry.
        Kind::Struct(fields) => {
            for member in &fields.members {
                find(schema, member.ty, start + member.offset?, places)?;
            }
        }
        _ => return None,
    }
    Some(())
}
