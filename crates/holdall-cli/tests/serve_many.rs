//! The memory of a server with many clients, none of which reads the data that it requested.
#![cfg(all(target_os = "linux", feature = "http2"))]
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use crate::command::command;
use holdall_net::protocol::{Client, PendingResponse};
use holdall_net::quic::{Address, Trust};
use quinn::{Connection, Endpoint, RecvStream, SendStream, TransportConfig};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CLIENTS: usize = 200;
const REQUESTS: usize = 16;
const LEN: u64 = 64 << 20;

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    /// Returns the server's peak memory, in MB.
    fn most(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        kib * 1024 / 1_000_000
    }
}

/// A connection with many outstanding requests.
struct Asking {
    _connection: Connection,
    _control: (SendStream, RecvStream),
    _requests: Vec<(SendStream, RecvStream)>,
}

/// Returns the bytes that an HTTP/2 client sends to request a lot with the largest windows.
fn all_at_once() -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut add = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        out.extend([0, 0, payload.len() as u8, kind, flags]);
        out.extend(stream.to_be_bytes());
        out.extend(payload);
    };
    // The initial window of streams; the window of the connection.
    add(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    add(8, 0, 0, &0x7fff_0000u32.to_be_bytes());
    for number in 0..REQUESTS as u32 {
        // `GET`, `http`, and a path without compression.
        add(1, 5, 2 * number + 1, b"\x82\x86\x04\x0a/large.bin");
    }
    out
}

/// A client with the file open.
async fn open(endpoint: &Endpoint, at: SocketAddr) -> (Connection, SendStream, RecvStream, u32) {
    let connection = endpoint.connect(at, "127.0.0.1").unwrap().await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let (mut client, mut hello) = Client::new("");
    let (file, open) = client.open("large.bin", None, None).unwrap();
    hello.extend(open);
    send.write_all(&hello).await.unwrap();
    let mut messages = 0;
    while messages < 2 {
        let chunk = receive.read_chunk(1000, true).await.unwrap().unwrap();
        messages += client.control(&chunk.bytes).unwrap().len();
    }
    (connection, send, receive, file)
}

#[test]
fn two_hundred_clients_that_take_nothing_cost_a_megabyte_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bin");
    std::fs::File::create(&path).unwrap().set_len(LEN).unwrap();
    let mut command = command(["serve", "--quiet", "--json", "--listen", "127.0.0.1:0"]);
    let mut child = command.arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let serving = Serving(child);
    let report: serde_json::Value = serde_json::from_str(&line).unwrap();
    let (at, pin) = (report["address"].as_str().unwrap(), report["sha256"].as_str().unwrap());
    let alone = serving.most();

    let slow: Vec<TcpStream> = (0..CLIENTS)
        .map(|number| {
            let mut stream = TcpStream::connect(at).unwrap();
            match number % 2 {
                0 => write!(stream, "GET /large.bin HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap(),
                _ => stream.write_all(&all_at_once()).unwrap(),
            }
            stream
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asking = runtime.block_on(async {
        let address = Address::parse(&format!("holdall://{at}/x#sha256={pin}")).unwrap();
        let mut config = Trust::Pin(address.pin.unwrap()).config().unwrap();
        let mut transport = TransportConfig::default();
        // Windows that are larger than what the server sends.
        transport.stream_receive_window((16u32 << 20).into()).receive_window((64u32 << 20).into());
        // Keep the connection open while others connect.
        transport.keep_alive_interval(Some(Duration::from_secs(3)));
        config.transport_config(Arc::new(transport));
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(config);
        let at: SocketAddr = at.parse().unwrap();
        let mut connected = Vec::new();
        for _ in 0..CLIENTS {
            connected.push(open(&endpoint, at).await);
        }
        let mut all = Vec::new();
        for (connection, send, receive, file) in connected {
            let mut requests = Vec::new();
            for _ in 0..REQUESTS {
                let (mut send, receive) = connection.open_bi().await.unwrap();
                let request = PendingResponse::new(vec![0..LEN]).request(file, 0).unwrap();
                send.write_all(&request).await.unwrap();
                send.finish().unwrap();
                requests.push((send, receive));
            }
            all.push(Asking {
                _connection: connection,
                _control: (send, receive),
                _requests: requests,
            });
        }
        // Wait until the last requests are sent.
        tokio::time::sleep(Duration::from_millis(100)).await;
        all
    });
    // From here on, nothing received is read or acknowledged. The server sends as much as it may.
    let until = Instant::now() + Duration::from_secs(10);
    let (mut most, mut since) = (serving.most(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        if serving.most() > most {
            (most, since) = (serving.most(), Instant::now());
        }
    }
    let clients = asking.len();
    println!(
        "{clients} clients of QUIC and {} of HTTP/1.1 and 2: {alone} MB without, {most} MB with",
        slow.len()
    );
    assert!(most <= 64 + clients as u64, "{most} MB for {clients} clients");
    drop(runtime);
    drop(asking);
}
