//! A web server on loopback that counts its requests, and misbehaves on request.
#![allow(dead_code)] // Each test file uses its own part.

use holdall::http::{Hosts, Policy, Schemes, Timeouts};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Returns the tests' policy: http, loopback, and no waiting.
pub(crate) fn policy() -> Policy {
    let mut timeouts = Timeouts::default();
    timeouts.pause = Duration::from_millis(1);
    timeouts.longest_pause = Duration::from_millis(5);
    timeouts.stall = Duration::from_secs(5);
    Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo).with_timeouts(timeouts)
}

/// A server that stops when this is dropped.
pub(crate) struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Number of earlier requests for the same target.
    pub(crate) nth: usize,
    /// Bytes of the body that were sent.
    pub(crate) sent: usize,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// `Content-Length`, if it is not the length of the body; `None` for a body that ends with the
    /// connection.
    pub(crate) declared: Option<usize>,
    /// The connection is closed after this many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Waits for this duration after each such number of bytes.
    pub(crate) pace: Option<(usize, Duration)>,
}

impl Server {
    /// Starts a server that answers in this way.
    pub(crate) fn new(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (log, end, answer) = (seen.clone(), stop.clone(), Arc::new(answer));
        let connections = Arc::new(AtomicUsize::new(0));
        let taken = connections.clone();
        let listener = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (log, answer) = (log.clone(), answer.clone());
                taken.fetch_add(1, Ordering::SeqCst);
                if let Ok(stream) = stream {
                    // A client that disconnects is not an error.
                    std::thread::spawn(move || converse(stream, &log, &*answer));
                }
            }
        });
        Server { port, seen, connections, stop, listener: Some(listener) }
    }

    /// Starts a well-behaved server of one file, at every path.
    pub(crate) fn with_file(bytes: Vec<u8>) -> Server {
        Server::new(move |r| Reply::file(&bytes, "\"v1\"", r))
    }

    /// Returns the address of a path that begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Forgets the requests so far.
    pub(crate) fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// Returns the numbers of requests, and of bytes in bodies, so far.
    pub(crate) fn count(&self) -> (usize, usize) {
        let seen = self.seen();
        (seen.len(), seen.iter().map(|r| r.sent).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Request {
    /// Returns the value of a header; the name is in lowercase.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns the range of bytes requested of a file of `len` bytes, first and last.
    pub(crate) fn range(&self, len: usize) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (first, last) {
            ("", last) => (len.saturating_sub(last.parse().unwrap()), len.checked_sub(1)?),
            (first, "") => (first.parse().unwrap(), len.checked_sub(1)?),
            (first, last) => {
                let last: usize = last.parse().unwrap();
                (first.parse().unwrap(), last.min(len.checked_sub(1)?))
            }
        })
    }
}

impl Reply {
    /// Returns an answer with a complete body.
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        let body = body.into();
        Reply {
            status,
            headers: Vec::new(),
            declared: Some(body.len()),
            body,
            cut: None,
            pace: None,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Returns a redirect.
    pub(crate) fn to(location: impl ToString) -> Reply {
        Reply::new(302, "elsewhere").with("location", location)
    }

    /// Returns the answer of a correct server with this version of the file.
    pub(crate) fn file(bytes: &[u8], etag: &str, request: &Request) -> Reply {
        let same = request.header("if-range").is_none_or(|tag| tag == etag);
        let range = request.range(bytes.len()).filter(|_| same);
        let reply = match (request.header("range").filter(|_| same), range) {
            (Some(_), Some((first, last))) if first <= last => {
                let total = bytes.len();
                let reply = Reply::new(206, &bytes[first..=last]);
                reply.with("content-range", format!("bytes {first}-{last}/{total}"))
            }
            (Some(_), _) => {
                Reply::new(416, "").with("content-range", format!("bytes */{}", bytes.len()))
            }
            (None, _) => Reply::new(200, bytes),
        };
        reply.with("etag", etag).with("accept-ranges", "bytes")
    }
}

/// Answers the requests of one connection.
fn converse(
    stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request) -> Reply,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        let mut first = String::new();
        if lines.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let len = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; len.map_or(0, |(_, len)| len.parse().unwrap())];
        lines.read_exact(&mut body)?;
        let mut request = Request { method, target, headers, body, nth: 0, sent: 0 };
        let at = {
            let mut seen = seen.lock().unwrap();
            request.nth = seen.iter().filter(|r| r.target == request.target).count();
            seen.push(request.clone());
            seen.len() - 1
        };
        let reply = answer(&request);
        let mut head = format!("HTTP/1.1 {} Text\r\n", reply.status);
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match reply.declared {
            Some(len) => head.push_str(&format!("content-length: {len}\r\n\r\n")),
            None => head.push_str("connection: close\r\n\r\n"),
        }
        let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
        // Counted before it is sent, so that a client that has received it finds it counted.
        if let Some(r) = seen.lock().unwrap().get_mut(at) {
            r.sent = body.len();
        }
        out.write_all(head.as_bytes())?;
        match reply.pace {
            None => out.write_all(body)?,
            Some((step, pause)) => {
                for part in body.chunks(step) {
                    out.write_all(part)?;
                    std::thread::sleep(pause);
                }
            }
        }
        if reply.cut.is_some() || reply.declared != Some(reply.body.len()) {
            let _ = out.shutdown(Shutdown::Both);
            return Ok(());
        }
    }
}
