//! Loading tensors in the order in which they are needed, each available while the others are still loading.

use crate::error::IO;
use crate::file::File;
use crate::load::{LoadOptions, Loaded, LoadedTensor, load};
use crate::work::{Cancel, Work};
use holdall_core::{Error, Result, TensorInfo};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The greatest number of bytes of adjacent tensors that are loaded as one batch.
const BATCH: u64 = 1 << 20;
/// The greatest number of bytes of the first batch, doubled for each further batch: the first tensors should not wait
/// for more bytes than arrive in a round trip.
const FIRST_BATCH: u64 = 12 << 10;
/// The greatest number of tensors of a batch: the number of ranges that a request can have.
const BATCH_COUNT: usize = 512;
/// The greatest number of bytes that are loading or loaded and not taken yet. A single tensor may exceed it.
const AHEAD: u64 = 256 << 20;

impl File {
    /// Starts to load tensors in the background, in the order of `names`, and returns at once. The stream returns each
    /// tensor as soon as it is loaded and checked. Requests to a server have priorities, so that the tensors needed
    /// first arrive first. At most 256 MiB are loaded ahead of the caller.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no tensor of one of the names; the fault of a tensor that has one.
    pub fn stream<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<TensorStream> {
        let infos = names.into_iter().map(|name| Ok(self.tensor(name)?.info().clone()));
        let infos = infos.collect::<Result<Vec<TensorInfo>>>()?;
        if let Some(e) = infos.iter().find_map(TensorInfo::fault) {
            return Err(e.in_source(self.name()));
        }
        let (left, ended) = (infos.len(), Cancel::new());
        let mut load = options.clone();
        load.work = Work::new().with_cancel(&ended);
        let state = State { queue: batches(infos), left, ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { file: self.clone(), options: load, state, changed });
        let count = self.sources().read_hints().at_once.clamp(2, 4);
        let start = |_| {
            let own = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("holdall-stream".to_owned());
            thread
                .spawn(move || own.work())
                .map_err(|e| IO.broken("no thread can be started").because(e))
        };
        let work = options.work.clone();
        let mut arriving =
            TensorStream { shared: Arc::clone(&shared), ended, work, threads: Vec::new() };
        for number in 0..count {
            arriving.threads.push(start(number)?);
        }
        Ok(arriving)
    }
}

/// An iterator over tensors as they are loaded. Dropping it stops loading.
pub struct TensorStream {
    shared: Arc<Shared>,
    ended: Cancel,
    /// The caller's work, which can be cancelled.
    work: Work,
    threads: Vec<JoinHandle<()>>,
}

/// A loaded tensor.
#[derive(Clone)]
pub struct StreamedTensor {
    loaded: Arc<Loaded>,
    at: usize,
}

impl StreamedTensor {
    /// Returns the tensor's description and bytes.
    pub fn tensor(&self) -> LoadedTensor<'_> {
        self.loaded.at(self.at)
    }

    /// Returns the tensor's name.
    pub fn name(&self) -> &str {
        self.tensor().info().name()
    }
}

impl fmt::Debug for StreamedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamedTensor({})", self.name())
    }
}

struct Shared {
    file: File,
    options: LoadOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Batches whose loading has not begun.
    queue: VecDeque<Batch>,
    /// Batches that are loading, each with its number and its file.
    under_way: Vec<(u64, Batch, File)>,
    ready: VecDeque<StreamedTensor>,
    /// The number of batches whose loading has begun.
    begun: u64,
    /// The number of bytes that are loading or loaded and not taken yet.
    ahead: u64,
    /// The number of tensors that were not taken yet.
    left: usize,
    failed: Option<Error>,
    is_ended: bool,
}

/// Tensors that are loaded together.
#[derive(Clone)]
struct Batch {
    tensors: Vec<TensorInfo>,
    len: u64,
    is_urgent: bool,
}

fn len_of(info: &TensorInfo) -> u64 {
    info.components()
        .fold(0, |sum, c| sum.saturating_add(c.decoded_len.unwrap_or(0).max(c.stored_len())))
}

fn batches(infos: Vec<TensorInfo>) -> VecDeque<Batch> {
    let mut all: VecDeque<Batch> = VecDeque::new();
    for info in infos {
        let len = len_of(&info);
        let most = BATCH.min(FIRST_BATCH << all.len().saturating_sub(1).min(16));
        match all.back_mut() {
            Some(last)
                if last.len.saturating_add(len) <= most && last.tensors.len() < BATCH_COUNT =>
            {
                last.len += len;
                last.tensors.push(info);
            }
            _ => all.push_back(Batch { tensors: vec![info], len, is_urgent: false }),
        }
    }
    all
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads one batch after the other until there are no more.
    fn work(&self) {
        while let Some((number, batch, file)) = self.begin() {
            let loaded = load(&file, batch.tensors, &self.options);
            let mut state = self.state();
            state.under_way.retain(|(own, ..)| *own != number);
            match loaded {
                Ok(loaded) => {
                    let loaded = Arc::new(loaded);
                    let all = (0..loaded.len())
                        .map(|at| StreamedTensor { loaded: Arc::clone(&loaded), at });
                    state.ready.extend(all);
                }
                Err(e) => {
                    state.failed.get_or_insert(e);
                    state.is_ended = true;
                }
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn begin(&self) -> Option<(u64, Batch, File)> {
        let mut state = self.state();
        loop {
            let len = state.queue.front().filter(|_| !state.is_ended)?.len;
            if state.ahead == 0 || state.ahead.saturating_add(len) <= AHEAD {
                break;
            }
            state = self.wait(state);
        }
        let batch = state.queue.pop_front()?;
        state.ahead = state.ahead.saturating_add(batch.len);
        state.begun += 1;
        let number = state.begun;
        let later = i32::try_from(number).map_or(i32::MIN, |n| -n);
        let priority = if batch.is_urgent { i32::MAX } else { later };
        let file = self.file.with_priority(priority);
        state.under_way.push((number, batch.clone(), file.clone()));
        Some((number, batch, file))
    }
}

impl TensorStream {
    /// Moves a tensor, with the others of its batch, before the rest. Does nothing if it is already loaded.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the file has no such tensor.
    pub fn prefer(&self, name: &str) -> Result<()> {
        let position = self.shared.file.tensor(name)?.position();
        let is_in = |batch: &Batch| batch.tensors.iter().any(|t| t.position() == position);
        let mut state = self.shared.state();
        if let Some(at) = state.queue.iter().position(is_in) {
            if let Some(batch) = state.queue.remove(at) {
                state.queue.push_front(Batch { is_urgent: true, ..batch });
            }
            return Ok(());
        }
        let under_way = state.under_way.iter().find(|(_, batch, _)| is_in(batch));
        let file = under_way.map(|(.., file)| file.clone());
        drop(state);
        if let Some(file) = file {
            file.all_sources().iter().for_each(|source| source.set_priority(i32::MAX));
        }
        Ok(())
    }

    /// Waits for at most `timeout` until a tensor can be taken or the stream has ended. Returns `true` if so.
    pub fn wait(&self, timeout: Duration) -> bool {
        let from = Instant::now();
        let mut state = self.shared.state();
        loop {
            let is_due = state.left == 0 || !state.ready.is_empty() || state.failed.is_some();
            if is_due || self.is_broken(&state) || self.work.check().is_err() {
                return true;
            }
            let Some(left) = timeout.checked_sub(from.elapsed()) else { return false };
            // Cancelling does not notify, so it is polled.
            let waited = self.shared.changed.wait_timeout(state, left.min(POLL_INTERVAL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns `true` if all threads have ended although a batch is unfinished.
    fn is_broken(&self, state: &State) -> bool {
        self.threads.iter().all(JoinHandle::is_finished) && !state.under_way.is_empty()
    }

    /// Returns the number of tensors that were not taken yet.
    pub fn left(&self) -> usize {
        self.shared.state().left
    }
}

impl Iterator for TensorStream {
    type Item = Result<StreamedTensor>;

    fn next(&mut self) -> Option<Result<StreamedTensor>> {
        // `self` is borrowed mutably, so no other caller takes the tensor in between.
        while !self.wait(POLL_INTERVAL) {}
        let mut state = self.shared.state();
        if let Err(e) = self.work.check() {
            (state.left, state.is_ended) = (0, true);
            self.ended.cancel();
            return Some(Err(e));
        }
        if state.left == 0 {
            return None;
        }
        if let Some(arrived) = state.ready.pop_front() {
            state.left -= 1;
            state.ahead = state.ahead.saturating_sub(len_of(arrived.tensor().info()));
            if state.ready.is_empty() && state.under_way.is_empty() {
                state.ahead = 0;
            }
            drop(state);
            self.shared.changed.notify_all();
            return Some(Ok(arrived));
        }
        state.left = 0;
        let broken = || IO.broken("a loading thread ended before all tensors were loaded");
        Some(Err(state.failed.take().unwrap_or_else(broken)))
    }
}

/// The interval at which cancellation is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Drop for TensorStream {
    fn drop(&mut self) {
        self.ended.cancel();
        self.shared.state().is_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // The panic of a thread was already reported.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorStream({} left)", self.left())
    }
}
