//! Writes the records of tables in memory straight to the file: their number and the length of their heap are known
//! before the first record is made, so nothing is kept in temporary files.

use super::Build;
use super::dataset::DatasetWriter;
use super::merge::THREADS;
use crate::HEAP;
use crate::arrow::table::Table;
use crate::gather::reuse;
use crate::rows::{FillOptions, Rows};
use bytes::Bytes;
use holdall_core::{ComponentSpec, DType, Result, Role};
use holdall_io::Work;
use holdall_io::error::IO;
use holdall_io::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes of records that are made and written together.
const PIECE: usize = 1 << 20;

impl Build {
    /// Adds a dataset of the rows of a table in memory, if it can be converted as a whole. Returns the dataset otherwise.
    pub(super) fn add_table(
        &mut self,
        dataset: DatasetWriter,
        rows: &Rows,
        options: &FillOptions,
    ) -> Result<Result<u64, DatasetWriter>> {
        let is_plain = dataset.is_empty()
            && dataset.heap.window.is_none()
            && options.files().is_none()
            && !options.checks(&dataset.kind, &dataset.vocabulary);
        let Some(batches) = rows.table().filter(|_| is_plain) else { return Ok(Err(dataset)) };
        let (schema, ty, stride) = (&dataset.schema, dataset.ty, dataset.stride);
        match Table::new(batches, schema, ty, stride, &dataset.work)? {
            Some(table) => {
                let count = table.rows() as u64;
                self.push(item(dataset, table))?;
                Ok(Ok(count))
            }
            None => Ok(Err(dataset)),
        }
    }
}

/// Returns the dataset of a table, whose bytes are made when the file is written.
fn item(dataset: DatasetWriter, table: Table) -> Item {
    let (stride, work) = (dataset.stride, dataset.work.clone());
    let has_heap = dataset.schema.ty(dataset.ty).heap_align.is_some();
    let (rows, heap_len) = (table.rows(), table.heap_len());
    let mut spec = dataset.into_spec(rows as u64);
    let component = |role, len| ComponentSpec::new(Role::from_name(role), DType::U8, len);
    spec.components.push(component("data", (rows * stride) as u64));
    let table = Arc::new(table);
    let own = Arc::clone(&table);
    let records = move || {
        let pieces: ComputedPieces = Box::new(Pieces::new(own, stride, work));
        Ok(pieces)
    };
    let mut feeds = vec![ComponentSource::Made(Box::new(records))];
    if has_heap {
        spec.components.push(component(HEAP, heap_len));
        let heap = move || {
            let pieces: ComputedPieces = Box::new(table.heap().map(Ok));
            Ok(pieces)
        };
        feeds.push(ComponentSource::Made(Box::new(heap)));
    }
    Item { spec, feeds, keep: CopyMode::Nothing }
}

/// The records of a table, in pieces that other threads make.
struct Pieces {
    maker: Arc<Maker>,
    /// The index of the next piece.
    next: usize,
    early: BTreeMap<usize, Result<Bytes>>,
    /// `None` if there are no other threads.
    made: Option<Receiver<(usize, Result<Bytes>)>>,
    threads: Vec<JoinHandle<()>>,
}

struct Maker {
    table: Arc<Table>,
    stride: usize,
    /// The number of rows of a piece.
    every: usize,
    /// The index of the next piece that no thread has begun.
    begun: AtomicUsize,
    work: Work,
}

impl Pieces {
    fn new(table: Arc<Table>, stride: usize, work: Work) -> Pieces {
        let threads = work.threads().min(THREADS);
        let every = (PIECE / stride.max(1)).max(1);
        let maker = Arc::new(Maker { table, stride, every, begun: AtomicUsize::new(0), work });
        let mut pieces = Pieces {
            next: 0,
            early: BTreeMap::new(),
            made: None,
            threads: Vec::new(),
            maker: Arc::clone(&maker),
        };
        if threads > 1 && maker.table.rows() > every {
            // The caller's thread writes.
            let (give, made) = sync_channel(2 * threads);
            for _ in 1..threads {
                let (maker, give) = (Arc::clone(&maker), give.clone());
                let run = move || maker.run(&give);
                pieces.threads.extend(std::thread::Builder::new().spawn(run));
            }
            pieces.made = Some(made).filter(|_| !pieces.threads.is_empty());
        }
        pieces
    }
}

impl Maker {
    fn rows(&self, piece: usize) -> Option<Range<usize>> {
        let (start, rows) = (piece.checked_mul(self.every)?, self.table.rows());
        (start < rows).then(|| start..rows.min(start + self.every))
    }

    fn run(&self, give: &SyncSender<(usize, Result<Bytes>)>) {
        loop {
            let piece = self.begun.fetch_add(1, Ordering::Relaxed);
            let Some(rows) = self.rows(piece) else { return };
            if give.send((piece, self.make(rows))).is_err() {
                return;
            }
        }
    }

    fn make(&self, rows: Range<usize>) -> Result<Bytes> {
        self.work.check()?;
        let len = rows.len() * self.stride;
        // All pieces but the last have the same length, so their memory is used again.
        let mut memory = reuse::take(len.max(PIECE))?;
        self.table.write(rows, &mut memory.as_mut()[..len]);
        Ok(reuse::lend(memory).slice(..len))
    }
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let rows = self.maker.rows(self.next)?;
        let number = self.next;
        self.next += 1;
        let Some(made) = &self.made else { return Some(self.maker.make(rows)) };
        loop {
            if let Some(piece) = self.early.remove(&number) {
                return Some(piece);
            }
            match made.recv() {
                Ok((at, piece)) => drop(self.early.insert(at, piece)),
                Err(_) => return Some(Err(IO.broken("an encoding thread stopped"))),
            }
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        // Ends the threads that wait to send a piece.
        self.made = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
