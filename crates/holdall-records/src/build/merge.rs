//! Encodes batches of records on several threads and joins them in order.

use super::dataset::DatasetWriter;
use crate::entries::{From, Mover, entry};
use holdall_core::{Error, Result};
use holdall_io::error::IO;
use holdall_schema::{Checker, Entry, Kind, Len, Schema, SchemaLimits, TypeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

/// Largest number of threads. More would be idle, because a single thread joins the batches.
pub(super) const THREADS: usize = 16;
/// If records have more entries than this, the entries are found by walking each record.
const MAX_ENTRIES: usize = 1024;

/// Runs the jobs that `next` returns on several threads, each with its own state, and passes the results to `take` in
/// the order of the jobs. `take` returns a result when it is done with it, and `next` receives it to reuse its memory.
pub(super) fn in_order<J: Send, S, R: Send>(
    threads: usize,
    mut next: impl FnMut(Option<R>) -> Result<Option<J>>,
    state: impl Fn() -> Result<S> + Sync,
    run: impl Fn(&mut S, J) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<R>,
) -> Result<()> {
    if threads == 1 {
        let (mut state, mut spare) = (state()?, None);
        while let Some(job) = next(spare.take())? {
            spare = Some(take(run(&mut state, job)?)?);
        }
        return Ok(());
    }
    let (give, jobs) = channel::<(u64, J)>();
    let jobs = Mutex::new(jobs);
    let (back, done) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (jobs, back, state, run) = (&jobs, back.clone(), &state, &run);
            scope.spawn(move || {
                let mut own = None;
                loop {
                    let job = jobs.lock().unwrap_or_else(|p| p.into_inner()).recv();
                    let Ok((number, job)) = job else { return };
                    let state = match &mut own {
                        Some(state) => Ok(state),
                        empty => state().map(|state| empty.insert(state)),
                    };
                    if back.send((number, state.and_then(|state| run(state, job)))).is_err() {
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
                let job = next(spare.pop())?;
                more = job.is_some();
                if let Some(job) = job
                    && give.send((given, job)).is_ok()
                {
                    given += 1;
                }
                continue;
            }
            spare.push(take(order.next()?)?);
        }
        Ok(())
    })
}

/// Returns results in the order of their jobs.
struct Order<R> {
    done: Receiver<(u64, Result<R>)>,
    early: BTreeMap<u64, Result<R>>,
    taken: u64,
}

impl<R> Order<R> {
    fn next(&mut self) -> Result<R> {
        loop {
            if let Some(result) = self.early.remove(&self.taken) {
                self.taken += 1;
                return result;
            }
            match self.done.recv() {
                Ok((number, result)) => drop(self.early.insert(number, result)),
                Err(_) => return Err(IO.broken("an encoding thread stopped")),
            }
        }
    }
}

/// How batches are joined.
pub(crate) enum Merge {
    /// Every record has its entries at the same positions, and no entry refers to other entries, so each entry is
    /// shifted by the start of the batch's heap.
    Shift { places: Vec<usize>, align: u32 },
    /// Each record is walked to find its entries.
    Walk { limits: SchemaLimits, schema: Box<Schema> },
}

impl Merge {
    pub(crate) fn new(schema: &Schema, ty: TypeId, to: &DatasetWriter) -> Merge {
        let mut places = Vec::new();
        let align = schema.ty(ty).heap_align.unwrap_or(1);
        if to.heap.window.is_none() && find(schema, ty, 0, &mut places).is_some() {
            return Merge::Shift { places, align };
        }
        Merge::Walk { limits: to.limits.clone(), schema: Box::new(schema.clone()) }
    }

    /// Adds `count` records, whose entries refer to `heap`. Changes the entries of `records`.
    pub(crate) fn take(
        &self,
        records: &mut [u8],
        heap: &[u8],
        count: u64,
        to: &mut DatasetWriter,
    ) -> Result<()> {
        match self {
            Merge::Shift { places, align } => {
                if !heap.is_empty() {
                    to.heap.spool.pad(*align)?;
                }
                let base = to.heap.spool.len();
                if base > 0 && !places.is_empty() {
                    for record in records.chunks_exact_mut(to.stride) {
                        for place in places {
                            shift(record.get_mut(*place..).unwrap_or_default(), base)?;
                        }
                    }
                }
                to.heap.spool.append(heap)?;
            }
            Merge::Walk { limits, schema } => {
                let get = |r: std::ops::Range<u64>| {
                    let found = heap.get(r.start as usize..r.end as usize);
                    Ok(Cow::Borrowed(found.unwrap_or_default()))
                };
                let from = From { len: heap.len() as u64, get: &get };
                let mut mover = Mover::new(schema, &from, &mut to.heap, limits.decoded_len);
                for record in records.chunks_exact_mut(to.stride) {
                    mover.record(to.ty, record.get_mut(..to.size).unwrap_or_default())?;
                }
            }
        }
        to.records.append(records)?;
        to.added(count);
        Ok(())
    }
}

/// Checks records against the keywords of their schema. Returns the index of the first wrong one, with the reason.
pub(crate) fn check_block(
    records: &[u8],
    heap: &[u8],
    schema: &Schema,
    ty: TypeId,
    stride: usize,
    limits: &SchemaLimits,
    checker: &Checker<'_>,
) -> Result<(), (usize, Error)> {
    let size = schema.extent(ty).map_err(|e| (0, e))?.size as usize;
    for (row, record) in records.chunks_exact(stride).enumerate() {
        let record = record.get(..size).unwrap_or_default();
        let value = schema.record_value(ty, record, heap, limits);
        value.and_then(|value| checker.one_record(value)).map_err(|e| (row, e))?;
    }
    Ok(())
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
    if places.len() >= MAX_ENTRIES {
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
