//! Bytes of a file over the network of this machine, with nothing else: ranges over HTTP, streams of bare quinn.

use super::memory::HugeMemory;
use super::{cores, in_pieces};
use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};

/// Bytes of one request.
const PIECE: u64 = 8 << 20;
/// Windows as ours are.
const STREAM_WINDOW: u32 = 16 << 20;
const WINDOW: u32 = 64 << 20;
const SEND_WINDOW: u64 = 8 << 20;

/// What is at `target` of an HTTP server, by `threads` connections that ask for 8 MiB at a time.
pub fn http(at: SocketAddr, target: &str, len: u64, threads: usize) -> Result<HugeMemory> {
    let memory = HugeMemory::new(len as usize);
    let idle: Mutex<Vec<BufReader<TcpStream>>> = Mutex::default();
    in_pieces(len, PIECE, threads, |range| -> Result<()> {
        let kept = idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut stream = match kept {
            Some(stream) => stream,
            None => BufReader::with_capacity(64 << 10, TcpStream::connect(at)?),
        };
        let Range { start, end } = range;
        let last = end - 1;
        let ask = format!("GET {target} HTTP/1.1\r\nHost: {at}\r\nRange: bytes={start}-{last}\r\n\r\n");
        stream.get_mut().write_all(ask.as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 206"), "{line}");
        while line != "\r\n" {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "the head ends early");
        }
        // SAFETY: pieces do not overlap, and lie in the memory.
        let out = unsafe {
            std::slice::from_raw_parts_mut(memory.at(start), (end - start) as usize)
        };
        stream.read_exact(out)?;
        if let Ok(mut idle) = idle.lock() {
            idle.push(stream);
        }
        Ok(())
    })?;
    Ok(memory)
}

/// A server of quinn's that sends the ranges it is asked for, of a file in memory, and a client that is connected to it.
pub struct Quic {
    _server: (Runtime, Endpoint),
    _client: Endpoint,
    runtime: Runtime,
    connection: Connection,
    len: u64,
}

impl Quic {
    pub fn new(path: &Path) -> Result<Quic> {
        let bytes = Bytes::from(std::fs::read(path)?);
        let len = bytes.len() as u64;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = CertificateDer::from(made.cert.der().to_vec());
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        let mut transport = TransportConfig::default();
        transport.send_window(SEND_WINDOW);
        config.transport_config(Arc::new(transport));
        let runtime = || Builder::new_multi_thread().worker_threads(cores()).enable_all().build();
        let (serving, runtime) = (runtime()?, runtime()?);
        let server = {
            let _inside = serving.enter();
            Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?
        };
        let to = server.local_addr()?;
        serving.spawn(serve(server.clone(), bytes));

        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(WINDOW));
        config.transport_config(Arc::new(transport));
        let client = {
            let _inside = runtime.enter();
            Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?
        };
        let connecting = client.connect_with(config, to, "localhost")?;
        let connection = runtime.block_on(connecting)?;
        Ok(Quic { _server: (serving, server), _client: client, runtime, connection, len })
    }

    /// The whole file, by so many streams at once.
    pub fn load(&self, streams: usize) -> Result<HugeMemory> {
        let memory = HugeMemory::new(self.len as usize);
        in_pieces(self.len, PIECE, streams, |range| {
            self.runtime.block_on(self.piece(range, &memory))
        })?;
        Ok(memory)
    }

    async fn piece(&self, range: Range<u64>, memory: &HugeMemory) -> Result<()> {
        let (mut send, mut receive) = self.connection.open_bi().await?;
        let ask = [range.start.to_le_bytes(), range.end.to_le_bytes()].concat();
        send.write_all(&ask).await?;
        send.finish()?;
        let mut at = range.start;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            let end = at + chunk.bytes.len() as u64;
            ensure!(end <= range.end, "more than was asked for");
            // SAFETY: pieces do not overlap, and lie in the memory.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    chunk.bytes.as_ptr(),
                    memory.at(at),
                    chunk.bytes.len(),
                );
            }
            at = end;
        }
        ensure!(at == range.end, "less than was asked for");
        Ok(())
    }
}

async fn serve(endpoint: Endpoint, bytes: Bytes) -> Result<()> {
    while let Some(incoming) = endpoint.accept().await {
        let (connection, bytes) = (incoming.await?, bytes.clone());
        tokio::spawn(async move {
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    let ask = receive.read_to_end(16).await?;
                    let number = |at: usize| {
                        let of = ask.get(at..at + 8).and_then(|b| b.first_chunk());
                        of.map(|b| u64::from_le_bytes(*b) as usize).context("a short request")
                    };
                    send.write_chunk(bytes.slice(number(0)?..number(8)?)).await?;
                    send.finish()?;
                    anyhow::Ok(())
                });
            }
        });
    }
    Ok(())
}
