//! Compressing frames on several threads, in order.

use crate::error::NOT_IN_FORMAT;
use crate::work::Work;
use holdall_core::codec::{Encoder, frame_lens};
use holdall_core::error::Error;
use holdall_core::{Encoding, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The interval at which cancellation is checked while waiting for a frame.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a component is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The encoding, which must be one that can be written.
    pub encoding: Encoding,
    /// The level of the codec; `None` for its default.
    pub level: Option<i32>,
    /// The decoded length of a frame, if the codec has seekable frames; `None` for the usual length.
    pub frame_len: Option<u64>,
}

impl Compression {
    /// Returns the length of each frame of `decoded_len` bytes; the last one may be shorter.
    pub(crate) fn frame_len(&self, decoded_len: u64) -> u64 {
        match (self.encoding.seek_format(), self.frame_len) {
            (None, _) => decoded_len,
            (Some(_), Some(len)) => len.min(decoded_len),
            (Some(_), None) => frame_lens(decoded_len).0.next().unwrap_or(0),
        }
    }
}

/// A pool of threads that compress frames and return them in order. If the system cannot start a thread, frames are
/// compressed by the caller. Dropping the pool does not wait for frames in progress, which at high levels take seconds:
/// each thread ends after its frame.
pub(crate) struct Compressor {
    compression: Compression,
    jobs: Option<Sender<(u64, Buffers)>>,
    done: Receiver<(u64, Result<Buffers>)>,
    threads: usize,
    /// Whether the remaining frames are no longer needed.
    dropped: Arc<AtomicBool>,
    /// Checked for cancellation while waiting for a frame.
    work: Work,
    /// The encoder for compressing on the caller's thread, if there are no other threads.
    here: Option<Box<dyn Encoder>>,
    given: u64,
    taken: u64,
    early: BTreeMap<u64, Result<Buffers>>,
}

/// The input and output of compressing a frame. Reused, because allocating new memory costs more than copying.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The width of an element in bytes.
    pub(crate) width: u64,
    pub(crate) decoded: Vec<u8>,
    pub(crate) frame: Vec<u8>,
}

impl Buffers {
    fn encode(mut self, encoder: &mut dyn Encoder) -> Result<Buffers> {
        encoder.encode(self.width, &self.decoded, &mut self.frame)?;
        Ok(self)
    }
}

impl Compressor {
    /// Starts threads that compress frames.
    pub(crate) fn new(compression: Compression, work: &Work) -> Result<Compressor> {
        let Compression { encoding, level, .. } = compression;
        let encoder = || match encoding.encoder() {
            Some(new) => new(level),
            None => Err(NOT_IN_FORMAT.broken(format!("cannot write components in {encoding}"))),
        };
        let (jobs, queue) = channel::<(u64, Buffers)>();
        let (give, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let dropped = Arc::new(AtomicBool::new(false));
        let mut threads = 0;
        for _ in 0..work.threads() {
            let mut encoder = encoder()?;
            let (queue, give, dropped) = (Arc::clone(&queue), give.clone(), Arc::clone(&dropped));
            let work = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(|p| p.into_inner()).recv();
                    let Ok((number, buffers)) = job else { return };
                    if dropped.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = buffers.encode(&mut *encoder);
                    if give.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            match std::thread::Builder::new().spawn(work) {
                Ok(_) => threads += 1,
                Err(_) => break,
            }
        }
        let here = if threads == 0 { Some(encoder()?) } else { None };
        Ok(Compressor {
            compression,
            jobs: Some(jobs),
            done,
            threads,
            dropped,
            work: work.clone(),
            here,
            given: 0,
            taken: 0,
            early: BTreeMap::new(),
        })
    }

    /// Returns `true` if frames of `other` are compressed in the same way.
    pub(crate) fn serves(&self, other: Compression) -> bool {
        let way = |c: Compression| (c.encoding, c.level);
        way(self.compression) == way(other)
    }

    /// Returns the number of frames that were given and not taken back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.given - self.taken
    }

    /// Returns `true` if another frame can be given without exceeding a few frames for each thread.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.threads as u64 * 2 + 1
    }

    pub(crate) fn give(&mut self, buffers: Buffers) {
        if let Some(encoder) = &mut self.here {
            self.early.insert(self.given, buffers.encode(&mut **encoder));
            self.given += 1;
        } else if let Some(jobs) = &self.jobs {
            // The threads run as long as this sender exists.
            let _ = jobs.send((self.given, buffers));
            self.given += 1;
        }
    }

    /// Waits for the next frame. Returns `None` if none is in flight, and an error if the work is cancelled.
    pub(crate) fn take(&mut self) -> Option<Result<Buffers>> {
        if self.in_flight() == 0 {
            return None;
        }
        loop {
            if let Some(result) = self.early.remove(&self.taken) {
                self.taken += 1;
                return Some(result);
            }
            if let Err(e) = self.work.check() {
                return Some(Err(e));
            }
            match self.done.recv_timeout(POLL_INTERVAL) {
                Ok((number, result)) => drop(self.early.insert(number, result)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Some(Err(lost())),
            }
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

#[cold]
fn lost() -> Error {
    crate::error::IO.broken("a compressing thread stopped")
}
