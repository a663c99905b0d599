//! QUIC clients that send invalid data, too much, or nothing: their connections are closed with the reason, and other
//! clients are still served.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use holdall_core::Result;
use holdall_net::protocol::{Client, FileId, PROTOCOL, PendingResponse, RefusalReason};
use holdall_net::quic::{Address, Identity, Priority, QuicTimeouts, Remote, Server};
use holdall_net::{Entry, FileCatalog, Log, ServedFile, ServerLimits, Service};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A file of zeros with this length, and the number of bytes read from it.
struct Zeros(u64, Arc<AtomicU64>);

impl ServedFile for Zeros {
    fn len(&self) -> u64 {
        self.0
    }

    fn id(&self) -> FileId {
        FileId([9; 32])
    }

    fn index(&self) -> Vec<Range<u64>> {
        vec![0..10]
    }

    fn read(&self, range: Range<u64>) -> Result<bytes::Bytes> {
        self.1.fetch_add(range.end - range.start, Ordering::Relaxed);
        Ok(vec![0; (range.end - range.start) as usize].into())
    }
}

struct Only(Arc<AtomicU64>);

impl FileCatalog for Only {
    fn open(&self, _: &str) -> Result<Arc<dyn ServedFile>> {
        Ok(Arc::new(Zeros(1 << 40, Arc::clone(&self.0))))
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }
}

const IDLE_TIMEOUT: Duration = Duration::from_millis(600);

struct World {
    server: Server,
    identity: Identity,
    /// Number of bytes the server has read.
    read: Arc<AtomicU64>,
    ended: Arc<Mutex<Vec<String>>>,
}

fn world(clients: usize) -> World {
    let identity = Identity::generate().unwrap();
    let read = Arc::<AtomicU64>::default();
    let ended = Arc::<Mutex<Vec<String>>>::default();
    let log: Log = {
        let ended = Arc::clone(&ended);
        Arc::new(move |access| ended.lock().unwrap().push(access.outcome.to_string()))
    };
    let mut limits = ServerLimits::default();
    (limits.idle_timeout, limits.in_flight, limits.clients) = (IDLE_TIMEOUT, 1 << 20, clients);
    limits.requests = 4;
    let any = "127.0.0.1:0".parse().unwrap();
    let catalog = Arc::new(Only(Arc::clone(&read)));
    let service = Service::new(catalog).with_limits(limits).with_log(log);
    let server = Server::start(service, any, &identity).unwrap();
    World { server, identity, read, ended }
}

impl World {
    fn address(&self) -> SocketAddr {
        self.server.address().unwrap()
    }

    /// Checks that a well-behaved client is served.
    fn works(&self) {
        let at = self.address();
        let pin = self.identity.pin().unwrap();
        let address = Address::parse(&format!("holdall://{at}/x#sha256={pin}")).unwrap();
        let timeouts = QuicTimeouts {
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            tries: 4,
            pause: Duration::from_millis(100),
        };
        let remote =
            Remote::open(address, Box::new(move || Ok(vec![at])), Vec::new(), timeouts).unwrap();
        let mut came = 0;
        let count = |piece: holdall_net::protocol::Piece<'_>| {
            came += piece.bytes.len();
            Ok(())
        };
        remote.fetch(&[5..100_005], &Priority::new(0), count).unwrap();
        assert_eq!(came, 100_000);
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

async fn connect(
    at: SocketAddr,
    protocol: &[u8],
) -> Result<(Endpoint, Connection), ConnectionError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connection = endpoint.connect_with(config, at, "x").unwrap().await?;
    Ok((endpoint, connection))
}

/// Connects, says hello and opens the file.
async fn opened(at: SocketAddr) -> (Endpoint, Connection, SendStream, RecvStream) {
    let (endpoint, connection) = connect(at, PROTOCOL).await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let (mut client, mut hello) = Client::new("");
    hello.extend(client.open("x", None, None).unwrap().1);
    send.write_all(&hello).await.unwrap();
    let mut came = 0;
    while came < 11 + (5 + 44 + 16) + 10 {
        came += receive.read_chunk(1000, true).await.unwrap().unwrap().bytes.len();
    }
    (endpoint, connection, send, receive)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await }).unwrap()
}

fn why(e: &ConnectionError) -> Option<RefusalReason> {
    match e {
        ConnectionError::ApplicationClosed(closed) => {
            RefusalReason::from_number(closed.error_code.into_inner())
        }
        _ => None,
    }
}

#[test]
fn garbage_ends_the_connection_with_its_reason() {
    let world = world(64);
    let at = world.address();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for len in [0, 1, 20, 1200, 1400] {
        socket.send_to(&vec![0xc5; len], at).unwrap();
    }
    run(async {
        assert!(connect(at, b"h3").await.is_err(), "another protocol");
        // On the control stream.
        for (garbage, reason) in [
            (vec![0xff; 100], RefusalReason::Frame),
            (vec![1, 255, 255, 255, 255], RefusalReason::Frame),
            (vec![3, 4, 0, 0, 0, 0, 0, 0, 0], RefusalReason::Frame),
            (vec![1, 2, 0, 0, 0, 9, 0], RefusalReason::Version),
        ] {
            let (_endpoint, connection) = connect(at, PROTOCOL).await.unwrap();
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            send.write_all(&garbage).await.unwrap();
            assert_eq!(why(&connection.closed().await), Some(reason), "{garbage:?}");
        }
        // On a request's stream.
        for garbage in [vec![0xff; 100], vec![5, 9, 0, 0, 0], vec![1, 2, 0, 0, 0, 1, 0]] {
            let (_endpoint, connection, ..) = opened(at).await;
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            send.write_all(&garbage).await.unwrap();
            send.finish().unwrap();
            assert_eq!(why(&connection.closed().await), Some(RefusalReason::Frame), "{garbage:?}");
        }
    });
    world.works();
}

#[test]
fn ranges_outside_and_files_that_are_not_open_are_refused() {
    let world = world(64);
    run(async {
        let (_endpoint, connection, ..) = opened(world.address()).await;
        for (file, range) in [(0, 0..(1 << 40) + 1), (1, 0..1), (0, u64::MAX - 5..u64::MAX)] {
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            let mut arrival = PendingResponse::new(vec![range]);
            send.write_all(&arrival.request(file, 0).unwrap()).await.unwrap();
            send.finish().unwrap();
            let answer = receive.read_to_end(1000).await.unwrap();
            let e = arrival.push(&answer, |_| Ok(())).unwrap_err();
            assert_eq!(e.code(), "net/request");
        }
        assert!(connection.close_reason().is_none(), "nothing else is wrong");
    });
    assert_eq!(world.read.load(Ordering::Relaxed), 10, "the index alone");
}

#[test]
fn clients_that_never_read_are_cut_off_and_cost_little() {
    let world = world(64);
    run(async {
        let (_endpoint, connection, ..) = opened(world.address()).await;
        let mut held = Vec::new();
        for _ in 0..16 {
            let (mut send, receive) = connection.open_bi().await.unwrap();
            let request = PendingResponse::new(vec![0..1 << 40]).request(0, 0).unwrap();
            send.write_all(&request).await.unwrap();
            send.finish().unwrap();
            held.push((send, receive));
        }
        // The next stream has to wait: QUIC limits their number.
        let next = tokio::time::timeout(Duration::from_millis(100), connection.open_bi()).await;
        assert!(next.is_err());
        let until = Instant::now() + IDLE_TIMEOUT * 8;
        while world.ended.lock().unwrap().iter().filter(|done| *done == "left").count() < 4 {
            assert!(Instant::now() < until, "{:?}", world.ended.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    // What fits in the flow-control windows, for each request that was started.
    assert!(world.read.load(Ordering::Relaxed) < 64 << 20, "{:?}", world.read);
    world.works();
}

#[test]
fn silent_clients_and_too_many_clients_are_disconnected() {
    let world = world(4);
    let at = world.address();
    run(async {
        // No stream; a stream without a hello; half a hello; and together they are the maximum number of clients.
        let mut held = Vec::new();
        for hello in [None, Some(vec![]), Some(vec![1, 2]), Some(Client::new("").1)] {
            let (endpoint, connection) = connect(at, PROTOCOL).await.unwrap();
            let mut streams = None;
            if let Some(hello) = hello {
                let (mut send, receive) = connection.open_bi().await.unwrap();
                send.write_all(&hello).await.unwrap();
                streams = Some((send, receive));
            }
            held.push((endpoint, connection, streams));
        }
        assert!(connect(at, PROTOCOL).await.is_err(), "a fifth");
        for (_, connection, _) in &held {
            connection.closed().await;
        }
    });
    world.works();
}

#[test]
fn abandoned_handshakes_do_not_block_others() {
    let world = world(4);
    let at = world.address();
    // First packets of clients that ignore the server's responses.
    let liars = run(async {
        let mut liars = Vec::new();
        for _ in 0..40 {
            let trap = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let client = tokio::spawn(connect(trap.local_addr().unwrap(), PROTOCOL));
            let mut datagram = vec![0; 2000];
            let len = trap.recv(&mut datagram).await.unwrap();
            client.abort();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(&datagram[..len], at).unwrap();
            liars.push(socket);
        }
        liars
    });
    let begun = Instant::now();
    world.works();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The server forgets them, too.
    let until = Instant::now() + IDLE_TIMEOUT * 8;
    while world.server.clients() > 1 {
        assert!(Instant::now() < until, "{}", world.server.clients());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(liars);
    world.works();
}

#[test]
fn a_server_that_ends_lets_answers_end() {
    let world = world(64);
    let at = world.address();
    let (server, read) = (world.server, world.read);
    let (begun, is_begun) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        run(async {
            let (_endpoint, connection, ..) = opened(at).await;
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            let mut arrival = PendingResponse::new(vec![0..30 << 20]);
            send.write_all(&arrival.request(0, 0).unwrap()).await.unwrap();
            send.finish().unwrap();
            let mut is_told = false;
            while let Some(chunk) = receive.read_chunk(1 << 16, true).await.unwrap() {
                arrival.push(&chunk.bytes, |_| Ok(())).unwrap();
                if !is_told {
                    begun.send(()).unwrap();
                    is_told = true;
                }
            }
            arrival.finish().unwrap();
            assert_eq!(why(&connection.closed().await), Some(RefusalReason::Ending));
        });
    });
    is_begun.recv().unwrap();
    server.stop(Duration::from_secs(10));
    client.join().unwrap();
    assert_eq!(read.load(Ordering::Relaxed), (30 << 20) + 10);
}
