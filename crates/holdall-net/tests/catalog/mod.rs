//! A server with a few files that records what it does, and a TLS client.

use bytes::Bytes;
use holdall_core::Result;
use holdall_net::http::{HttpOptions, HttpServer};
use holdall_net::protocol::FileId;
use holdall_net::rules::{CHANGED, FAILED, NO_FILE};
use holdall_net::{Access, Entry, FileCatalog, Log, ServedFile, ServerLimits, Service};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Length of `large`, and the period of its content: a prime.
const LARGE: usize = 48 * PART;
const PART: usize = 65_521;
/// `torn` can be read up to this offset.
const TORN: u64 = 100_000;

/// `digits`, `a b`, `empty`, `large`; `torn`, whose end cannot be read; `broken`, which cannot be opened.
pub(crate) struct Files(Arc<Seen>);

/// What the server did.
#[derive(Default)]
pub(crate) struct Seen {
    read: AtomicU64,
    open: AtomicUsize,
    most: AtomicUsize,
    log: Mutex<Vec<String>>,
}

impl Seen {
    /// Returns the number of bytes read from files.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// Returns the largest number of files that were open at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::Acquire)
    }

    /// Returns the names and outcomes of all requests.
    pub(crate) fn all(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self, how: &str) -> usize {
        self.all().iter().filter(|line| *line == how).count()
    }

    pub(crate) fn log(self: &Arc<Self>) -> Log {
        let own = Arc::clone(self);
        Arc::new(move |access: &Access<'_>| {
            own.log.lock().unwrap().push(format!("{} {}", access.name, access.outcome));
        })
    }
}

impl Files {
    pub(crate) fn served() -> (Arc<dyn FileCatalog>, Arc<Seen>) {
        let seen = Arc::<Seen>::default();
        (Arc::new(Files(Arc::clone(&seen))), seen)
    }

    /// Returns the content of `large`, which `torn` has, too.
    pub(crate) fn large() -> Bytes {
        static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
            let noise = |n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8;
            (0..PART as u32).map(noise).collect::<Vec<u8>>().repeat(LARGE / PART).into()
        });
        BYTES.clone()
    }
}

/// Starts a server with these files on a free port.
pub(crate) fn server(limits: ServerLimits, options: HttpOptions) -> (HttpServer, Arc<Seen>) {
    let (files, seen) = Files::served();
    let service = Service::new(files).with_limits(limits).with_log(seen.log());
    (start(service, options), seen)
}

pub(crate) fn start(service: Service, options: HttpOptions) -> HttpServer {
    HttpServer::start(service, "127.0.0.1:0".parse().unwrap(), options).unwrap()
}

impl FileCatalog for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        let end = if name == "torn" { TORN } else { u64::MAX };
        let bytes: Bytes = match name {
            "digits" => Bytes::from_static(b"0123456789"),
            "a b" => Bytes::from_static(b"a b"),
            "empty" => Bytes::new(),
            "large" | "torn" => Files::large(),
            "broken" => return Err(FAILED.broken("it is broken")),
            _ => return Err(NO_FILE.broken("there is none")),
        };
        let seen = Arc::clone(&self.0);
        let open = seen.open.fetch_add(1, Ordering::AcqRel) + 1;
        seen.most.fetch_max(open, Ordering::AcqRel);
        Ok(Arc::new(StoredFile { bytes, end, seen }))
    }

    fn list(&self) -> Result<Vec<Entry>> {
        let entry = |(name, len): (&str, usize)| Entry { name: name.to_owned(), len: len as u64 };
        Ok([("a b", 3), ("digits", 10), ("empty", 0), ("large", LARGE)].map(entry).into())
    }
}

struct StoredFile {
    bytes: Bytes,
    end: u64,
    seen: Arc<Seen>,
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        self.seen.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ServedFile for StoredFile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn id(&self) -> FileId {
        FileId([self.bytes.len() as u8; 32])
    }

    fn index(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.end > self.end {
            return Err(CHANGED.broken("it is torn"));
        }
        self.seen.read.fetch_add(range.end - range.start, Ordering::AcqRel);
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}

/// Makes a TLS connection to a server with this certificate.
pub(crate) async fn secure(
    at: SocketAddr,
    protocols: &[&[u8]],
    shown: &[u8],
) -> TlsStream<TcpStream> {
    let provider = Arc::new(ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Shown(shown.to_vec())))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(at).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

#[derive(Debug)]
struct Shown(Vec<u8>);

impl ServerCertVerifier for Shown {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        assert_eq!(certificate.as_ref(), self.0);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        unreachable!("TLS 1.3 is spoken")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
