//! A file that another Holdall serves.

use super::held::{cut, missing};
use super::{ByteSource, check_range};
use crate::buffer::Buffer;
use crate::http::{Policy, address};
use crate::workers;
use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::{MergedRead, ReadHints, join};
use holdall_net::protocol::{GROUP, RANGES_MAX};
use holdall_net::quic::{Address, Priority, QuicTimeouts, Remote};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A file that another Holdall serves (`holdall://…`), over QUIC, on any number of threads.
///
/// The server sends the index when the file is opened. Each read is one stream with all its ranges. A lost connection
/// is reopened, and bytes that were already received are not requested again. If the file has changed by then, the read
/// fails.
#[derive(Clone)]
pub struct QuicSource {
    remote: Arc<Remote>,
    urgency: Arc<Priority>,
}

/// Ranges with a gap of at most this many bytes are merged: a range costs 16 bytes in the request and a read on the
/// server.
const GAP: u64 = 256;

impl QuicSource {
    /// Opens the file at `address`, with the hosts, certificate authorities and timeouts of `policy`.
    ///
    /// # Errors
    /// Returns `net/address`, `net/failed`, `net/certificate`, `net/token`, `net/no-file`; `http/private-host`.
    pub fn open(address: &str, policy: &Policy) -> Result<QuicSource> {
        let address = Address::parse(address)?;
        let (host, port, hosts) = (address.host.clone(), address.port, policy.hosts);
        let addresses = Box::new(move || address::resolve(&host, port, hosts));
        let timeouts = QuicTimeouts {
            connect: policy.timeouts.connect,
            stall: policy.timeouts.stall,
            tries: policy.timeouts.tries,
            pause: policy.timeouts.pause,
        };
        let remote = Remote::open(address, addresses, policy.authorities.clone(), timeouts)?;
        Ok(QuicSource { remote: Arc::new(remote), urgency: Arc::default() })
    }

    /// Returns the address without secrets.
    pub fn name(&self) -> String {
        self.remote.name()
    }

    /// Returns the bytes of a range if they are in memory.
    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        self.remote.index().iter().find_map(|(at, bytes)| cut(*at, bytes, range))
    }

    fn check(&self, range: &Range<u64>) -> Result<()> {
        check_range(range, self.remote.len()).map_err(|e| e.in_source(self.name()))
    }

    /// Fills each buffer of `out` with its range, by parallel requests if one is not enough.
    fn fill(&self, mut ranges: &[Range<u64>], mut out: &mut [&mut [u8]]) -> Result<()> {
        let mut requests = Vec::new();
        while !ranges.is_empty() {
            // A request may not ask for more bytes than the file has.
            let mut room = self.len();
            let count = ranges.iter().take(RANGES_MAX).take_while(|range| {
                let left = room.checked_sub(range.end - range.start);
                room = left.unwrap_or(0);
                left.is_some()
            });
            let count = count.count().max(1);
            let (now, later) = ranges.split_at(count);
            let (own, others) = std::mem::take(&mut out).split_at_mut(count);
            requests.push((now, own));
            (ranges, out) = (later, others);
        }
        let at_once = self.read_hints().at_once;
        workers::for_each(
            at_once,
            requests,
            || (),
            |(), (ranges, out)| {
                self.remote.fetch(ranges, &self.urgency, |piece| {
                    let end = piece.offset as usize + piece.bytes.len();
                    out[piece.range_index][piece.offset as usize..end].copy_from_slice(piece.bytes);
                    Ok(())
                })
            },
        )
    }
}

impl ByteSource for QuicSource {
    fn len(&self) -> u64 {
        self.remote.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| self.check(range))?;
        let at_hand: Vec<Option<Bytes>> = ranges.iter().map(|range| self.at_hand(range)).collect();
        let missing = missing(ranges, &at_hand);
        let gap = if self.remote.with_proofs() { GROUP } else { GAP };
        let reads = join(&missing, gap, self.read_hints().piece);
        let new = |read: &MergedRead| Buffer::new((read.range.end - read.range.start) as usize);
        let mut buffers = reads.iter().map(new).collect::<Result<Vec<_>>>()?;
        let mut out: Vec<&mut [u8]> = buffers.iter_mut().map(Buffer::as_mut).collect();
        let joined: Vec<Range<u64>> = reads.iter().map(|read| read.range.clone()).collect();
        self.fill(&joined, &mut out)?;
        let mut all = at_hand;
        for (read, bytes) in reads.iter().zip(buffers.into_iter().map(Buffer::freeze)) {
            for &wanted in &read.ranges {
                all[wanted] = cut(read.range.start, &bytes, &missing[wanted]);
            }
        }
        Ok(all.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        self.check(&range)?;
        match self.at_hand(&range) {
            Some(bytes) => out.copy_from_slice(&bytes),
            None => self.fill(std::slice::from_ref(&range), &mut [out])?,
        }
        Ok(())
    }

    fn read_hints(&self) -> ReadHints {
        ReadHints::REMOTE
    }

    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        self.remote.index().to_vec()
    }

    fn with_priority(&self, priority: i32) -> Option<Arc<dyn ByteSource>> {
        let (remote, urgency) = (Arc::clone(&self.remote), Arc::new(Priority::new(priority)));
        Some(Arc::new(QuicSource { remote, urgency }))
    }

    fn set_priority(&self, priority: i32) {
        self.remote.set_priority(&self.urgency, priority);
    }
}

impl fmt::Debug for QuicSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicSource").field("remote", &self.remote).finish_non_exhaustive()
    }
}
