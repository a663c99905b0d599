//! Compressing frames on several threads, in order.

use holdall_core::Result;
use holdall_core::codec::zstd::Encoder;
use holdall_core::error::Error;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads that compress. Frames come back in the order in which they were given. Where the system
/// starts no thread, they are compressed as they are given.
pub(crate) struct Compressor {
    jobs: Option<Sender<(u64, Buffers)>>,
    done: Receiver<(u64, Result<Buffers>)>,
    threads: Vec<JoinHandle<()>>,
    /// Compresses here, where there are no threads.
    here: Option<Encoder>,
    given: u64,
    taken: u64,
    early: BTreeMap<u64, Result<Buffers>>,
}

/// What goes into a frame and what comes out. Used again and again: most of the cost of fresh memory
/// is that it is fresh.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) decoded: Vec<u8>,
    pub(crate) frame: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(level: i32, threads: usize) -> Result<Compressor> {
        let (jobs, queue) = channel::<(u64, Buffers)>();
        let (give, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let count = threads;
        let mut threads = Vec::new();
        for _ in 0..count {
            let mut encoder = Encoder::new(level)?;
            let (queue, give) = (Arc::clone(&queue), give.clone());
            let work = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(|p| p.into_inner()).recv();
                    let Ok((number, mut buffers)) = job else { return };
                    let result =
                        encoder.frame(&buffers.decoded, &mut buffers.frame).map(|()| buffers);
                    if give.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            match std::thread::Builder::new().spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        let here = if threads.is_empty() { Some(Encoder::new(level)?) } else { None };
        Ok(Compressor {
            jobs: Some(jobs),
            done,
            threads,
            here,
            given: 0,
            taken: 0,
            early: BTreeMap::new(),
        })
    }

    /// Frames given and not taken back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.given - self.taken
    }

    /// Whether another frame can be given without holding more than a few of them for each thread.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.threads.len() as u64 * 2 + 1
    }

    pub(crate) fn give(&mut self, mut buffers: Buffers) {
        if let Some(encoder) = &mut self.here {
            let done = encoder.frame(&buffers.decoded, &mut buffers.frame).map(|()| buffers);
            self.early.insert(self.given, done);
            self.given += 1;
        } else if let Some(jobs) = &self.jobs {
            // The threads live as long as this sender.
            let _ = jobs.send((self.given, buffers));
            self.given += 1;
        }
    }

    /// The next frame, waiting for it; `None` when none is in flight.
    pub(crate) fn take(&mut self) -> Option<Result<Buffers>> {
        if self.in_flight() == 0 {
            return None;
        }
        loop {
            if let Some(result) = self.early.remove(&self.taken) {
                self.taken += 1;
                return Some(result);
            }
            match self.done.recv() {
                Ok((number, result)) => drop(self.early.insert(number, result)),
                Err(_) => return Some(Err(lost())),
            }
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cold]
fn lost() -> Error {
    crate::error::IO.broken("a compressing thread stopped")
}
