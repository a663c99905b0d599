//! Packet sizes: as large as the network path allows, without any response depending on it.

mod way;

use holdall_net::Service;
use holdall_net::quic::{Identity, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use way::{Only, open, read, way};

const LEN: u64 = 4 << 20;

/// Returns the length of the largest packet that arrives over a path that drops packets longer than `takes` bytes. The
/// client reads the file repeatedly, until a packet has at least `until` bytes.
fn largest(takes: usize, until: usize) -> usize {
    let identity = Identity::generate().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(Service::new(Arc::new(Only(LEN))), any, &identity).unwrap();
    let most = Arc::<AtomicUsize>::default();
    let seen = Arc::clone(&most);
    let forth = move |datagram: &[u8]| datagram.len() <= takes;
    let back = move |datagram: &[u8]| {
        let passes = datagram.len() <= takes;
        seen.fetch_max(if passes { datagram.len() } else { 0 }, Ordering::AcqRel);
        passes
    };
    let remote = open(&identity, "x", way(server.address().unwrap(), forth, back));
    let ends = Instant::now() + Duration::from_secs(20);
    while most.load(Ordering::Acquire) < until && Instant::now() < ends {
        read(&remote, 0..LEN);
    }
    most.load(Ordering::Acquire)
}

#[test]
fn packets_grow_if_the_path_takes_large_ones() {
    let most = largest(usize::MAX, 6_000);
    assert!((6_000..=6_500).contains(&most), "{most}");
}

#[test]
fn everything_arrives_if_the_path_takes_only_small_packets() {
    let most = largest(1_472, 1_400);
    assert!((1_400..=1_472).contains(&most), "{most}");
}
