//! Early data (0-RTT), sent with a session ticket of an earlier connection: it is answered once, even if it is
//! replayed.

mod way;

use holdall_net::quic::{Identity, Remote, Server};
use holdall_net::{Log, Service};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use way::{Only, way};

/// A server, and the names of the files that were opened and read.
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
            let service = Service::new(Arc::new(Only(1 << 20))).with_log(log.clone());
            match Server::start(service, at, &self.identity) {
                Ok(server) => return self.server = Some(server),
                // The previous server may hold the socket for a moment.
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
        way::open(&self.identity, name, at)
    }

    /// Waits until all connections are closed.
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

fn read(remote: &Remote) {
    way::read(remote, 5000..105_000);
}

/// Opens and reads the file, waits until the connection is closed, and adds the expected log entries to `seen`. Returns
/// whether the request was sent as early data.
fn visit(world: &World, name: &str, at: SocketAddr, seen: &mut Vec<String>) -> bool {
    let remote = world.open(name, at);
    let is_early_data = remote.is_early_data();
    read(&remote);
    drop(remote);
    world.is_left();
    seen.extend([format!("{name} 100"), format!("{name} 100000")]);
    is_early_data
}

/// Repeats visits until one uses early data: on a busy machine, the session ticket may be lost, or the handshake may
/// finish before the first frames are sent.
fn early(mut visit: impl FnMut() -> bool) {
    assert!((0..20).any(|_| visit()), "no early data was accepted");
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
fn refused_early_data_is_sent_again() {
    let mut world = World::new();
    let (at, mut seen) = (world.at(), Vec::new());
    visit(&world, "a", at, &mut seen);
    // Another server, without the session tickets of the previous one.
    world.server.take();
    world.start(at);
    assert!(!visit(&world, "b", at, &mut seen));
    // Its own tickets are accepted.
    early(|| visit(&world, "c", at, &mut seen));
    assert_eq!(world.seen(), seen);
}

#[test]
fn replayed_early_data_is_not_answered() {
    let world = World::new();
    let sent = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let keep = Arc::clone(&sent);
    let forth = move |sent: &[u8]| {
        keep.lock().unwrap().push(sent.to_vec());
        true
    };
    let at = way(world.at(), forth, |_| true);
    let mut seen = Vec::new();
    visit(&world, "a", at, &mut seen);
    early(|| {
        sent.lock().unwrap().clear();
        visit(&world, "b", at, &mut seen)
    });
    let sent = sent.lock().unwrap().clone();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for datagram in &sent {
        other.send_to(datagram, world.at()).unwrap();
    }
    // The server treats it as a new client at the start of a handshake.
    let (len, from) = other.recv_from(&mut [0; 65536]).unwrap();
    assert!(len > 0 && from == world.at());
    read(&world.open("c", world.at()));
    seen.extend(["c 100".into(), "c 100000".into()]);
    assert_eq!(world.seen(), seen);
}
