//! Uploading decoded bytes into buffers, with a limit on the memory in use.

use crate::device::{done, guarded, lost};
use crate::placement::Spot;
use holdall::Result;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes after which writes are submitted to the device. wgpu frees staging memory only after the device has executed
/// them.
const SUBMIT_LEN: u64 = 4 << 20;

/// How bytes are written into buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadMode {
    /// Through staging memory, from which the device copies them.
    Staged,
    /// Directly: the buffers are mapped until all bytes are written.
    Mapped,
}

impl UploadMode {
    /// Returns the bytes of a word, the unit of writing: writes start at multiples of it.
    const fn word(self) -> u64 {
        match self {
            UploadMode::Staged => wgpu::COPY_BUFFER_ALIGNMENT,
            UploadMode::Mapped => wgpu::MAP_ALIGNMENT,
        }
    }
}

/// A device, its buffers, and the writes into them, which may come from any number of threads.
pub(crate) struct Upload {
    device: wgpu::Device,
    queue: wgpu::Queue,
    buffers: Vec<wgpu::Buffer>,
    way: UploadMode,
    /// The limit of staging memory in use, in bytes.
    bound: u64,
    staging: Mutex<Staging>,
    /// Words of which only some bytes were written yet, by the indices of the component and of the word.
    edges: Mutex<HashMap<(usize, u64), Edge>>,
}

#[derive(Default)]
struct Staging {
    /// Bytes that were written and not submitted yet.
    waiting: u64,
    /// Submissions that the device is executing, and their bytes.
    sent: VecDeque<(wgpu::SubmissionIndex, u64)>,
    under_way: u64,
}

/// A partially written word.
#[derive(Default)]
struct Edge {
    bytes: [u8; wgpu::MAP_ALIGNMENT as usize],
    /// The number of bytes written so far.
    count: u64,
}

/// The component to write to: its pages and its length.
pub(crate) struct Target<'t> {
    /// The index of the component.
    pub(crate) index: usize,
    pub(crate) spots: &'t [Spot],
    pub(crate) len: u64,
}

impl Upload {
    pub(crate) fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        buffers: Vec<wgpu::Buffer>,
        bound: u64,
        way: UploadMode,
    ) -> Upload {
        Upload {
            device: device.clone(),
            queue: queue.clone(),
            buffers,
            way,
            bound: bound.max(2 * SUBMIT_LEN),
            staging: Mutex::default(),
            edges: Mutex::default(),
        }
    }

    pub(crate) fn buffers(&self) -> &[wgpu::Buffer] {
        &self.buffers
    }

    /// Writes bytes of a component, starting at its byte `at`. Each byte must be written once; the order does not
    /// matter.
    pub(crate) fn write(&self, target: &Target<'_>, at: u64, bytes: &[u8]) -> Result<()> {
        let (word, end) = (self.way.word(), at + bytes.len() as u64);
        // Whole words are written directly; the bytes before and after share a word with bytes that are written at
        // another time.
        let first = at.next_multiple_of(word).min(end);
        let last = (end / word * word).max(first);
        let (head, rest) = bytes.split_at((first - at) as usize);
        let (words, tail) = rest.split_at((last - first) as usize);
        self.edge(target, at, head)?;
        self.words(target, first, words)?;
        self.edge(target, last, tail)
    }

    /// Writes bytes inside one word, and the word itself once it is complete.
    fn edge(&self, target: &Target<'_>, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = self.way.word();
        let word = at / len;
        let whole = {
            let mut edges = unpoisoned(&self.edges);
            let edge = edges.entry((target.index, word)).or_default();
            let from = (at % len) as usize;
            edge.bytes[from..from + bytes.len()].copy_from_slice(bytes);
            edge.count += bytes.len() as u64;
            let is_whole = edge.count >= (target.len - word * len).min(len);
            if is_whole { edges.remove(&(target.index, word)) } else { None }
        };
        whole.map_or(Ok(()), |edge| self.words(target, word * len, &edge.bytes[..len as usize]))
    }

    /// Writes whole words, which may span pages.
    fn words(&self, target: &Target<'_>, at: u64, bytes: &[u8]) -> Result<()> {
        let (mut at, mut left, mut start) = (at, bytes, 0);
        for spot in target.spots {
            let end = start + spot.len.next_multiple_of(4);
            if at < end && !left.is_empty() {
                let now = (end - at).min(left.len() as u64).min(usize::MAX as u64);
                let (own, rest) = left.split_at(now as usize);
                let offset = spot.offset + (at - start);
                match self.way {
                    UploadMode::Staged => self.send(spot.buffer, offset, own)?,
                    UploadMode::Mapped => self.put(spot.buffer, offset, own)?,
                }
                (at, left) = (at + now, rest);
            }
            start += spot.len;
        }
        Ok(())
    }

    /// Copies into a mapped buffer.
    fn put(&self, buffer: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        let mut view =
            self.buffers[buffer].get_mapped_range_mut(range).map_err(|e| lost().with_cause(e))?;
        view.copy_from_slice(bytes);
        Ok(())
    }

    /// Copies into staging memory, from which the device copies into the buffer.
    fn send(&self, buffer: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        for (n, bytes) in bytes.chunks(SUBMIT_LEN as usize).enumerate() {
            let Some(size) = wgpu::BufferSize::new(bytes.len() as u64) else { continue };
            let offset = offset + n as u64 * SUBMIT_LEN;
            let buffer = &self.buffers[buffer];
            let written =
                guarded(&self.device, format_args!("{size} bytes of staging memory"), || {
                    let view = self.queue.write_buffer_with(buffer, offset, size);
                    view.map(|mut view| view.copy_from_slice(bytes))
                })?;
            written.ok_or_else(lost)?;
            self.account(size.get())?;
        }
        Ok(())
    }

    /// Submits the writes once there are enough, and waits while too much staging memory is in use.
    fn account(&self, len: u64) -> Result<()> {
        let mut staging = unpoisoned(&self.staging);
        staging.waiting += len;
        if staging.waiting < SUBMIT_LEN {
            return Ok(());
        }
        let index = guarded(&self.device, format_args!("a copy"), || self.queue.submit([]))?;
        let sent = std::mem::take(&mut staging.waiting);
        staging.sent.push_back((index, sent));
        staging.under_way += sent;
        // Other threads may write one more piece each meanwhile.
        while staging.under_way > self.bound - SUBMIT_LEN {
            let Some((index, len)) = staging.sent.pop_front() else { break };
            done(&self.device, Some(index))?;
            staging.under_way -= len;
        }
        Ok(())
    }

    /// Submits the remaining writes, and waits until the device has executed all of them.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.way == UploadMode::Mapped {
            let unmap = || self.buffers.iter().for_each(wgpu::Buffer::unmap);
            guarded(&self.device, format_args!("buffers that were written"), unmap)?;
        }
        guarded(&self.device, format_args!("a copy"), || self.queue.submit([]))?;
        *unpoisoned(&self.staging) = Staging::default();
        done(&self.device, None)
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
