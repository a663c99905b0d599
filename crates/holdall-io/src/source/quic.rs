//! A file that another Holdall serves.

use super::held::cut;
use super::{ByteSource, check_range};
use crate::buffer::Buffer;
use crate::http::{Policy, address};
use bytes::Bytes;
use holdall_core::Result;
use holdall_core::read::Terms;
use holdall_net::quic::{Address, Patience, Remote, Urgency};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A file that another Holdall serves (`holdall://…`), over QUIC, on any number of threads.
///
/// The index comes when it is opened. Each read is a stream of its own, of all its ranges. A connection that is lost is
/// made again, and what came before is not asked for again; a file that is another by then is an error.
#[derive(Clone)]
pub struct QuicSource {
    remote: Arc<Remote>,
    urgency: Arc<Urgency>,
}

impl QuicSource {
    /// Opens the file at `address`. Hosts, authorities and patience are those of `policy`.
    ///
    /// # Errors
    /// `net/address`, `net/failed`, `net/certificate`, `net/token`, `net/no-file`; `http/private-host`.
    pub fn open(address: &str, policy: &Policy) -> Result<QuicSource> {
        let address = Address::parse(address)?;
        let (host, port, hosts) = (address.host.clone(), address.port, policy.hosts);
        let addresses = Box::new(move || address::of(&host, port, hosts));
        let patience = Patience {
            connect: policy.patience.connect,
            stall: policy.patience.stall,
            tries: policy.patience.tries,
            pause: policy.patience.pause,
        };
        let remote = Remote::open(address, addresses, policy.authorities.clone(), patience)?;
        Ok(QuicSource { remote: Arc::new(remote), urgency: Arc::default() })
    }

    /// Where it was opened, without what is secret.
    pub fn name(&self) -> String {
        self.remote.name()
    }

    /// What is at hand of a range.
    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        self.remote.index().iter().find_map(|(at, bytes)| cut(*at, bytes, range))
    }

    fn check(&self, range: &Range<u64>) -> Result<()> {
        check_range(range, self.remote.len()).map_err(|e| e.in_source(self.name()))
    }

    /// Fills each of `out` with its range.
    fn fill(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]]) -> Result<()> {
        self.remote.fetch(ranges, &self.urgency, |piece| {
            let end = piece.at as usize + piece.bytes.len();
            out[piece.of][piece.at as usize..end].copy_from_slice(piece.bytes);
            Ok(())
        })
    }
}

impl ByteSource for QuicSource {
    fn len(&self) -> u64 {
        self.remote.len()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| self.check(range))?;
        let at_hand: Vec<Option<Bytes>> = ranges.iter().map(|range| self.at_hand(range)).collect();
        let missing = ranges.iter().zip(&at_hand).filter(|(_, bytes)| bytes.is_none());
        let missing: Vec<Range<u64>> = missing.map(|(range, _)| range.clone()).collect();
        let new = |range: &Range<u64>| Buffer::new((range.end - range.start) as usize);
        let mut buffers = missing.iter().map(new).collect::<Result<Vec<_>>>()?;
        let mut out: Vec<&mut [u8]> = buffers.iter_mut().map(Buffer::as_mut).collect();
        self.fill(&missing, &mut out)?;
        let mut came = buffers.into_iter().map(Buffer::freeze);
        Ok(at_hand.into_iter().map(|b| b.or_else(|| came.next()).unwrap_or_default()).collect())
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

    fn terms(&self) -> Terms {
        Terms::REMOTE
    }

    fn came(&self) -> Vec<(u64, Bytes)> {
        self.remote.index().to_vec()
    }

    fn with_priority(&self, priority: i32) -> Option<Arc<dyn ByteSource>> {
        let (remote, urgency) = (Arc::clone(&self.remote), Arc::new(Urgency::new(priority)));
        Some(Arc::new(QuicSource { remote, urgency }))
    }

    fn set_priority(&self, priority: i32) {
        self.remote.urge(&self.urgency, priority);
    }
}

impl fmt::Debug for QuicSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicSource").field("remote", &self.remote).finish_non_exhaustive()
    }
}
