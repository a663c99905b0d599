//! What clients say before the handshake is done, by a ticket of an earlier connection: it is answered once, whoever says it again.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use holdall_core::{Bytes, Result};
use holdall_net::protocol::FileId;
use holdall_net::quic::{Address, Identity, Patience, Remote, Server, Urgency};
use holdall_net::{Entry, Log, Served, Service, Shelf};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LEN: u64 = 1 << 20;

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

/// A server, and the names of what was opened and answered.
struct World {
    server: Option<Server>,
    identity: Identity,
    seen: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> World {
        let identity = Identity::generate().unwrap();
        let mut world = World { server: None, identity, seen: Arc::default() };
        world.start("127.0.0.1:0".parse().unwrap());
        world
    }

    fn start(&mut self, at: SocketAddr) {
        let seen = Arc::clone(&self.seen);
        let log: Log = Arc::new(move |access| {
            seen.lock().unwrap().push(format!("{} {}", access.name, access.sent));
        });
        for _ in 0..500 {
            let service = Service::new(Arc::new(Only)).with_log(log.clone());
            match Server::start(service, at, &self.identity) {
                Ok(server) => return self.server = Some(server),
                // The one before may hold the socket for a moment.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("the address stays taken");
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn at(&self) -> SocketAddr {
        self.server().address().unwrap()
    }

    fn open(&self, name: &str, at: SocketAddr) -> Remote {
        let pin = self.identity.pin().unwrap();
        let address = Address::parse(&format!("holdall://{at}/{name}#sha256={pin}")).unwrap();
        let secs = Duration::from_secs;
        let (connect, stall, pause) = (secs(5), secs(5), Duration::from_millis(10));
        let patience = Patience { connect, stall, tries: 4, pause };
        Remote::open(address, Box::new(move || Ok(vec![at])), Vec::new(), patience).unwrap()
    }

    /// Waits until all connections have ended.
    fn is_left(&self) {
        for _ in 0..1000 {
            if self.server().clients() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("clients do not leave");
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads some of it, and compares all of that.
fn read(remote: &Remote) {
    let range = 5000..105_000;
    let mut came = Vec::new();
    let take = |piece: holdall_net::protocol::Piece<'_>| {
        assert_eq!(piece.at, came.len() as u64);
        came.extend_from_slice(piece.bytes);
        Ok(())
    };
    remote.fetch(std::slice::from_ref(&range), &Urgency::new(0), take).unwrap();
    assert!(came.into_iter().eq(range.map(byte)));
    assert_eq!(remote.index(), [(0, (0..100).map(byte).collect())]);
}

/// Opens and reads it, waits until that has ended, and adds to `seen` what it leaves in the server's log. Whether the server was asked
/// early.
fn visit(world: &World, name: &str, at: SocketAddr, seen: &mut Vec<String>) -> bool {
    let remote = world.open(name, at);
    let is_early = remote.is_early();
    read(&remote);
    drop(remote);
    world.is_left();
    seen.extend([format!("{name} 100"), format!("{name} 100000")]);
    is_early
}

/// Visits until one is early: on a busy machine what lets somebody come early may be lost on its way, or the handshake may be done
/// before the first words are said.
fn early(mut visit: impl FnMut() -> bool) {
    assert!((0..20).any(|_| visit()), "nobody is let in early");
}

#[test]
fn a_server_that_is_known_is_asked_at_once() {
    let world = World::new();
    let (at, mut seen) = (world.at(), Vec::new());
    assert!(!visit(&world, "a", at, &mut seen));
    early(|| visit(&world, "b", at, &mut seen));
    early(|| visit(&world, "c", at, &mut seen));
    assert_eq!(world.seen(), seen);
}

#[test]
fn what_is_refused_early_is_said_again() {
    let mut world = World::new();
    let (at, mut seen) = (world.at(), Vec::new());
    visit(&world, "a", at, &mut seen);
    // Another server, which knows nothing of the tickets of the one before.
    world.server.take();
    world.start(at);
    assert!(!visit(&world, "b", at, &mut seen));
    // Its own tickets are good.
    early(|| visit(&world, "c", at, &mut seen));
    assert_eq!(world.seen(), seen);
}

/// Passes on what one client and a server say to each other, and keeps what the client said.
struct Between {
    at: SocketAddr,
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Between {
    fn new(server: SocketAddr) -> Between {
        let any = "127.0.0.1:0";
        let (near, far) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        far.connect(server).unwrap();
        let at = near.local_addr().unwrap();
        let said = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let client = Arc::new(Mutex::new(at));
        let (keep, from) = (Arc::clone(&said), Arc::clone(&client));
        let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        // Both end with the process.
        std::thread::spawn(move || {
            let mut memory = [0; 65536];
            while let Ok((len, client)) = near.recv_from(&mut memory) {
                *from.lock().unwrap() = client;
                keep.lock().unwrap().push(memory[..len].to_vec());
                let _ = forth.send(&memory[..len]);
            }
        });
        std::thread::spawn(move || {
            let mut memory = [0; 65536];
            while let Ok(len) = far.recv(&mut memory) {
                let to = *client.lock().unwrap();
                let _ = back.send_to(&memory[..len], to);
            }
        });
        Between { at, said }
    }
}

#[test]
fn what_somebody_says_a_second_time_is_not_answered() {
    let world = World::new();
    let between = Between::new(world.at());
    let mut seen = Vec::new();
    visit(&world, "a", between.at, &mut seen);
    early(|| {
        between.said.lock().unwrap().clear();
        visit(&world, "b", between.at, &mut seen)
    });
    let said = between.said.lock().unwrap().clone();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for datagram in &said {
        other.send_to(datagram, world.at()).unwrap();
    }
    // It is taken for a client that begins, and no more.
    let (len, from) = other.recv_from(&mut [0; 65536]).unwrap();
    assert!(len > 0 && from == world.at());
    read(&world.open("c", world.at()));
    seen.extend(["c 100".into(), "c 100000".into()]);
    assert_eq!(world.seen(), seen);
}
