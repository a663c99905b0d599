//! How large packets get: as large as the way takes them, and no answer depends on it.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use holdall_core::{Bytes, Result};
use holdall_net::protocol::FileId;
use holdall_net::quic::{Address, Identity, Patience, Remote, Server, Urgency};
use holdall_net::{Entry, Served, Service, Shelf};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LEN: u64 = 4 << 20;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// One file, under every name.
struct Only;

impl Shelf for Only {
    fn open(&self, _: &str) -> Result<Arc<dyn Served>> {
        Ok(Arc::new(Only))
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
}

impl Served for Only {
    fn len(&self) -> u64 {
        LEN
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

/// A way to a server that loses what is longer than it takes: where it begins, and the most bytes that came over it at once.
fn way(server: SocketAddr, takes: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let any = "127.0.0.1:0";
    let (near, far) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
    far.connect(server).unwrap();
    let at = near.local_addr().unwrap();
    let most = Arc::<AtomicUsize>::default();
    let client = Arc::new(Mutex::new(at));
    let (from, seen) = (Arc::clone(&client), Arc::clone(&most));
    let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    // Both end with the process.
    std::thread::spawn(move || {
        let mut memory = [0; 65536];
        while let Ok((len, client)) = near.recv_from(&mut memory) {
            *from.lock().unwrap() = client;
            if len <= takes {
                let _ = forth.send(&memory[..len]);
            }
        }
    });
    std::thread::spawn(move || {
        let mut memory = [0; 65536];
        while let Ok(len) = far.recv(&mut memory) {
            let to = *client.lock().unwrap();
            if len <= takes {
                seen.fetch_max(len, Ordering::AcqRel);
                let _ = back.send_to(&memory[..len], to);
            }
        }
    });
    (at, most)
}

/// The most bytes of a packet to who reads the file again and again, until there are so many.
fn largest(takes: usize, until: usize) -> usize {
    let identity = Identity::generate().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(Service::new(Arc::new(Only)), any, &identity).unwrap();
    let (at, most) = way(server.address().unwrap(), takes);
    let pin = identity.pin().unwrap();
    let address = Address::parse(&format!("holdall://{at}/x#sha256={pin}")).unwrap();
    let secs = Duration::from_secs;
    let patience = Patience { connect: secs(5), stall: secs(5), tries: 4, pause: secs(0) };
    let remote =
        Remote::open(address, Box::new(move || Ok(vec![at])), Vec::new(), patience).unwrap();
    let ends = Instant::now() + secs(20);
    while most.load(Ordering::Acquire) < until && Instant::now() < ends {
        let mut came = Vec::new();
        let take = |piece: holdall_net::protocol::Piece<'_>| {
            assert_eq!(piece.at, came.len() as u64);
            came.extend_from_slice(piece.bytes);
            Ok(())
        };
        remote.fetch(&[0..LEN], &Urgency::new(0), take).unwrap();
        assert!(came.into_iter().eq((0..LEN).map(byte)));
    }
    most.load(Ordering::Acquire)
}

#[test]
fn packets_grow_where_the_way_takes_more_than_most() {
    let most = largest(usize::MAX, 6_000);
    assert!((6_000..=6_500).contains(&most), "{most}");
}

#[test]
fn where_the_way_takes_little_all_arrives() {
    let most = largest(1_472, 1_400);
    assert!((1_400..=1_472).contains(&most), "{most}");
}
