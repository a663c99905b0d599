//! A generated file, a client for it, and a network path that observes every packet between client and server.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use holdall_core::{Bytes, Result};
use holdall_net::protocol::{FileId, Piece};
use holdall_net::quic::{Address, Identity, Priority, QuicTimeouts, Remote};
use holdall_net::{Entry, FileCatalog, ServedFile};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A catalog that has one file of this length, under every name.
pub(crate) struct Only(pub(crate) u64);

impl FileCatalog for Only {
    fn open(&self, _: &str) -> Result<Arc<dyn ServedFile>> {
        Ok(Arc::new(Only(self.0)))
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
}

impl ServedFile for Only {
    fn len(&self) -> u64 {
        self.0
    }

    fn id(&self) -> FileId {
        FileId([7; 32])
    }

    fn index(&self) -> Vec<Range<u64>> {
        vec![0..100]
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(range.map(byte).collect())
    }
}

/// Opens the file on a server with this identity.
pub(crate) fn open(identity: &Identity, name: &str, at: SocketAddr) -> Remote {
    let pin = identity.pin().unwrap();
    let address = Address::parse(&format!("holdall://{at}/{name}#sha256={pin}")).unwrap();
    let secs = Duration::from_secs;
    let (connect, stall, pause) = (secs(5), secs(5), Duration::from_millis(10));
    let timeouts = QuicTimeouts { connect, stall, tries: 4, pause };
    Remote::open(address, Box::new(move || Ok(vec![at])), Vec::new(), timeouts).unwrap()
}

/// Reads a range and compares its content.
pub(crate) fn read(remote: &Remote, range: Range<u64>) {
    let mut came = Vec::new();
    let take = |piece: Piece<'_>| {
        assert_eq!(piece.offset, came.len() as u64);
        came.extend_from_slice(piece.bytes);
        Ok(())
    };
    remote.fetch(std::slice::from_ref(&range), &Priority::new(0), take).unwrap();
    assert!(came.into_iter().eq(range.map(byte)));
    assert_eq!(remote.index(), [(0, (0..100).map(byte).collect())]);
}

/// Returns the client's end of a path to a server. It forwards the packets of one client and the server that the
/// filters let through.
pub(crate) fn way(
    server: SocketAddr,
    mut forth: impl FnMut(&[u8]) -> bool + Send + 'static,
    mut back: impl FnMut(&[u8]) -> bool + Send + 'static,
) -> SocketAddr {
    let any = "127.0.0.1:0";
    let (near, far) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
    far.connect(server).unwrap();
    let at = near.local_addr().unwrap();
    let client = Arc::new(Mutex::new(at));
    let from = Arc::clone(&client);
    let (to_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    // Both end with the process.
    std::thread::spawn(move || {
        let mut memory = [0; 65536];
        while let Ok((len, client)) = near.recv_from(&mut memory) {
            *from.lock().unwrap() = client;
            if forth(&memory[..len]) {
                let _ = to_far.send(&memory[..len]);
            }
        }
    });
    std::thread::spawn(move || {
        let mut memory = [0; 65536];
        while let Ok(len) = far.recv(&mut memory) {
            let to = *client.lock().unwrap();
            if back(&memory[..len]) {
                let _ = to_near.send_to(&memory[..len], to);
            }
        }
    });
    at
}
