//! Compressing frames on several threads, in order.

use crate::error::NOT_IN_FORMAT;
use crate::work::Work;
use holdall_core::codec::Encoder;
use holdall_core::error::Error;
use holdall_core::{Encoding, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a frame is waited for between two looks at whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Threads that compress. Frames come back in the order in which they were given. Where the system
/// starts no thread, they are compressed as they are given. Dropped with frames under way, it does not wait for them:
/// each thread ends with its frame, which at high levels takes seconds.
pub(crate) struct Compressor {
    encoding: Encoding,
    jobs: Option<Sender<(u64, Buffers)>>,
    done: Receiver<(u64, Result<Buffers>)>,
    threads: usize,
    /// Whether nobody wants the frames that are left.
    dropped: Arc<AtomicBool>,
    /// Asked whether they are wanted, while one is waited for.
    work: Work,
    /// Compresses here, where there are no threads.
    here: Option<Box<dyn Encoder>>,
    given: u64,
    taken: u64,
    early: BTreeMap<u64, Result<Buffers>>,
}

/// What goes into a frame and what comes out. Used again and again: most of the cost of fresh memory
/// is that it is fresh.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Bytes of an element.
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
    /// Threads that compress in `encoding`, which is one that components are written in.
    pub(crate) fn new(encoding: Encoding, level: Option<i32>, work: &Work) -> Result<Compressor> {
        let encoder = || match encoding.encoder() {
            Some(new) => new(level),
            None => Err(NOT_IN_FORMAT.broken(format!("components are not written in {encoding}"))),
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
            encoding,
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

    /// What it compresses in.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Frames given and not taken back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.given - self.taken
    }

    /// Whether another frame can be given without holding more than a few of them for each thread.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.threads as u64 * 2 + 1
    }

    pub(crate) fn give(&mut self, buffers: Buffers) {
        if let Some(encoder) = &mut self.here {
            self.early.insert(self.given, buffers.encode(&mut **encoder));
            self.given += 1;
        } else if let Some(jobs) = &self.jobs {
            // The threads live as long as this sender.
            let _ = jobs.send((self.given, buffers));
            self.given += 1;
        }
    }

    /// The next frame, waiting for it as long as it is wanted; `None` when none is in flight.
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
            match self.done.recv_timeout(LOOK) {
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
