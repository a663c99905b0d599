//! Transferring bytes of a file over loopback: by quinn alone, and by HTTP/1.1 range requests.

use super::in_pieces;
use super::memory::HugeMemory;
use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use holdall::serve::{Address, Identity};
use holdall_net::quic::Trust;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use socket2::SockRef;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The bytes that Holdall's server reads at a time, and sends to a client ahead of acknowledgments.
const PIECE: u64 = 1 << 20;
const SEND_WINDOW: u64 = 8 << 20;
/// The receive windows of Holdall's client, for a stream and for the connection.
const STREAM_WINDOW: u32 = 16 << 20;
const WINDOW: u32 = 64 << 20;
/// The maximum packet size of both sides, and the size of the system's buffers.
const PACKET: u16 = 6_500;
const BUFFER: usize = 4 << 20;

/// A server that only sends a file over quinn. A stream starts with the requested range in 16 bytes.
pub struct Bare {
    address: SocketAddr,
    pin: String,
    // The runtime's threads end with it.
    _runtime: Runtime,
}

impl Bare {
    pub fn serve(path: &Path) -> Result<Bare> {
        let identity = Identity::generate()?;
        let pin = identity.pin().context("the identity is created here")?;
        let chain = identity.certificates().map(|der| CertificateDer::from(der.to_vec())).collect();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key().to_vec()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"holdall/1".to_vec()];
        let mut transport = transport();
        transport.send_window(SEND_WINDOW);
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport));
        let runtime = runtime(super::cores().min(8))?;
        let endpoint = {
            let _inside = runtime.enter();
            endpoint(Some(config))?
        };
        let address = endpoint.local_addr()?;
        let file = Arc::new(File::open(path)?);
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                let Ok(connection) = incoming.await else { continue };
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    let file = Arc::clone(&file);
                    tokio::spawn(async move {
                        let mut wanted = [0; 16];
                        receive.read_exact(&mut wanted).await?;
                        let number = |at: usize| {
                            wanted[at..].first_chunk().map_or(0, |n| u64::from_le_bytes(*n))
                        };
                        let (mut at, end) = (number(0), number(8));
                        while at < end {
                            let mut piece = vec![0; (end - at).min(PIECE) as usize];
                            file.read_exact_at(&mut piece, at)?;
                            at += piece.len() as u64;
                            send.write_chunk(Bytes::from(piece)).await?;
                        }
                        send.finish()?;
                        anyhow::Ok(())
                    });
                }
            }
        });
        Ok(Bare { address, pin, _runtime: runtime })
    }

    /// Fetches the first `len` bytes of the file in equal shares over `streams` streams of one connection.
    pub fn fetch(&self, len: u64, streams: u64) -> Result<HugeMemory> {
        let address = Address::parse(&format!("holdall://h/x#sha256={}", self.pin))?;
        let pin = address.pin.context("the address has a pin")?;
        let mut transport = transport();
        transport
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(WINDOW));
        let mut config = Trust::Pin(pin).config()?;
        config.transport_config(Arc::new(transport));
        let runtime = runtime(2)?;
        let memory = Arc::new(HugeMemory::new(len as usize));
        runtime.block_on(async {
            let endpoint = endpoint(None)?;
            let connection = endpoint.connect_with(config, self.address, "h")?.await?;
            let share = len.div_ceil(streams);
            let each = (0..streams).map(|n| {
                let (connection, memory) = (connection.clone(), Arc::clone(&memory));
                tokio::spawn(async move {
                    let (mut at, end) = (n * share, ((n + 1) * share).min(len));
                    let (mut send, mut receive) = connection.open_bi().await?;
                    send.write_all(&[at.to_le_bytes(), end.to_le_bytes()].concat()).await?;
                    send.finish()?;
                    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
                        let came = chunk.bytes;
                        ensure!(at + came.len() as u64 <= end, "received too many bytes");
                        // SAFETY: the memory has `len` bytes, and the shares of the streams do not overlap.
                        unsafe {
                            let to = memory.at(at);
                            std::ptr::copy_nonoverlapping(came.as_ptr(), to, came.len());
                        }
                        at += came.len() as u64;
                    }
                    ensure!(at == end, "received too few bytes");
                    anyhow::Ok(())
                })
            });
            for stream in each.collect::<Vec<_>>() {
                stream.await??;
            }
            connection.close(VarInt::from_u32(0), b"");
            anyhow::Ok(())
        })?;
        runtime.shutdown_timeout(Duration::from_secs(1));
        Arc::into_inner(memory).context("the streams have ended")
    }
}

fn transport() -> TransportConfig {
    let mut packets = MtuDiscoveryConfig::default();
    packets.upper_bound(PACKET);
    let mut transport = TransportConfig::default();
    transport.mtu_discovery_config(Some(packets));
    transport
}

/// Opens a socket for packets of this size. Must be called inside a runtime.
fn endpoint(serves: Option<ServerConfig>) -> Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(PACKET)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    Ok(Endpoint::new(config, serves, socket, Arc::new(TokioRuntime))?)
}

fn runtime(threads: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(threads).enable_io().enable_time().build()?)
}

/// Fetches `len` bytes from a URL by requests for ranges of `piece` bytes, with `at_once` concurrent requests.
pub fn http(url: &str, len: u64, piece: u64, at_once: usize) -> Result<HugeMemory> {
    let rest = url.strip_prefix("http://").context("the URL is plain HTTP")?;
    let (host, path) = rest.split_once('/').context("the URL has a path")?;
    let memory = HugeMemory::new(len as usize);
    let idle: Mutex<Vec<BufReader<TcpStream>>> = Mutex::default();
    in_pieces(len, piece, at_once, |range| {
        let kept = idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut stream = match kept {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(host)?;
                stream.set_nodelay(true)?;
                BufReader::with_capacity(1 << 16, stream)
            }
        };
        let last = range.end - 1;
        let ask = format!(
            "GET /{path} HTTP/1.1\r\nhost: {host}\r\nrange: bytes={}-{last}\r\n\r\n",
            range.start
        );
        stream.get_mut().write_all(ask.as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 206"), "the server answers {line:?}");
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        // SAFETY: the memory has `len` bytes, and pieces do not overlap.
        let out = unsafe {
            std::slice::from_raw_parts_mut(
                memory.at(range.start),
                (range.end - range.start) as usize,
            )
        };
        stream.read_exact(out)?;
        if let Ok(mut idle) = idle.lock() {
            idle.push(stream);
        }
        anyhow::Ok(())
    })?;
    Ok(memory)
}
