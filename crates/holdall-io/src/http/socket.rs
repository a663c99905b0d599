//! Connections over plain TCP, and reading bodies directly from the socket.
//!
//! The HTTP library copies every body through its own buffer and inspects it piece by piece, which on a fast line costs
//! as much as receiving it. Therefore long bodies are received directly into their destination. The library does not
//! notice, and drops its half of the connection; once the body is complete, the next request to the same address reuses
//! the connection.

use super::client::IDLE;
use holdall_collections::DebugUnwrap;
use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// A connector for the addresses that the resolver returned. It reuses an idle connection if there is one.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    idle: Arc<Idle>,
}

/// Idle connections whose last response was read directly from the socket, with the time since when they are idle.
#[derive(Debug, Default)]
struct Idle(Mutex<Vec<(Instant, Arc<TcpStream>)>>);

/// A connection, as the HTTP library uses it.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    buffers: Counted,
    idle: Arc<Idle>,
}

/// The HTTP library's buffers, with a count of the bytes in them.
#[derive(Debug)]
struct Counted {
    inner: LazyBuffers,
    held: Arc<AtomicUsize>,
}

/// Direct access to the bytes of a body, bypassing the HTTP library.
pub(super) struct BodySocket {
    stream: Arc<TcpStream>,
    /// The number of bytes in the library's buffer.
    held: Arc<AtomicUsize>,
    idle: Arc<Idle>,
}

thread_local! {
    /// The connection of this thread's last request.
    static ASKED: RefCell<Option<BodySocket>> = const { RefCell::new(None) };
}

/// Takes the connection of this thread's last request.
pub(super) fn asked() -> Option<BodySocket> {
    ASKED.take()
}

impl BodySocket {
    /// Returns `true` if the library still has bytes of the body, which come before those in the socket.
    pub(super) fn has_buffered_bytes(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// Receives available bytes into `out`, at least one unless the connection has ended. The library must not be used
    /// to read the body afterwards.
    pub(super) fn read(&self, out: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(timeout))?;
        receive(&self.stream, out, timeout)
    }

    /// Returns the connection to the idle ones, after the response was read completely.
    pub(super) fn keep(self) {
        let mut idle = self.idle.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == IDLE {
            idle.remove(0);
        }
        idle.push((Instant::now(), self.stream));
    }
}

impl Idle {
    /// Takes an idle connection to one of these addresses that was used within `age` and is still open.
    fn take(&self, addresses: &[SocketAddr], age: Duration) -> Option<Arc<TcpStream>> {
        let is_wanted =
            |stream: &TcpStream| stream.peer_addr().is_ok_and(|peer| addresses.contains(&peer));
        loop {
            let stream = {
                let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                idle.retain(|(since, _)| since.elapsed() < age);
                let at = idle.iter().rposition(|(_, stream)| is_wanted(stream))?;
                idle.remove(at).1
            };
            if is_quiet(&stream) {
                return Some(stream);
            }
        }
    }
}

/// Returns `true` if the connection is open and has received nothing: a server must not send before a request.
fn is_quiet(stream: &TcpStream) -> bool {
    let look = || -> io::Result<bool> {
        stream.set_nonblocking(true)?;
        let found = { stream }.read(&mut [0]);
        stream.set_nonblocking(false)?;
        Ok(found.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock))
    };
    look().unwrap_or(false)
}

/// Reads once, and continues after a signal.
fn receive(mut stream: &TcpStream, out: &mut [u8], timeout: Duration) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match stream.read(out) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && begun.elapsed() < timeout => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted || is_timeout(&e) => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            done => return done,
        }
    }
}

impl Connector<()> for Sockets {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, Error> {
        let config = details.config;
        let kept = match details.needs_tls() {
            true => None,
            false => self.idle.take(&details.addrs, config.max_idle_age()),
        };
        let stream = match kept {
            Some(stream) => stream,
            None => {
                let stream = connect(&details.addrs, details.timeout)?;
                stream.set_nodelay(true)?;
                Arc::new(stream)
            }
        };
        let inner = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let buffers = Counted { inner, held: Arc::default() };
        Ok(Some(Socket { stream, buffers, idle: Arc::clone(&self.idle) }))
    }
}

/// Connects to the first of these addresses that accepts. Each gets an equal share of the remaining time.
fn connect(all: &[SocketAddr], timeout: NextTimeout) -> Result<TcpStream, Error> {
    let until = timeout.not_zero().map(|left| Instant::now() + *left);
    let mut last = Error::Io(io::ErrorKind::ConnectionRefused.into());
    for (at, address) in all.iter().enumerate() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::Timeout(timeout.reason));
        }
        let share = left.map(|left| left / (all.len() - at) as u32);
        let connected = match share {
            Some(share) => TcpStream::connect_timeout(address, share),
            None => TcpStream::connect(address),
        };
        last = match connected {
            Ok(stream) => return Ok(stream),
            Err(e) if is_timeout(&e) => Error::Timeout(Timeout::Connect),
            Err(e) => Error::Io(e),
        };
    }
    Err(last)
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Converts an error of the socket to one of the HTTP library.
fn socket_error(e: io::Error, timeout: NextTimeout) -> Error {
    if is_timeout(&e) { Error::Timeout(timeout.reason) } else { Error::Io(e) }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let (stream, held) = (Arc::clone(&self.stream), Arc::clone(&self.buffers.held));
        ASKED.set(Some(BodySocket { stream, held, idle: Arc::clone(&self.idle) }));
        let timeout = timeout.for_write();
        let left = timeout.not_zero().map(|left| *left);
        self.stream.set_write_timeout(left)?;
        let output = self.buffers.output().get(..amount).debug_unwrap();
        (&*self.stream).write_all(output).map_err(|e| socket_error(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let left = timeout.not_zero().map(|left| *left);
        self.stream.set_read_timeout(left)?;
        let input = self.buffers.inner.input_append_buf();
        let n = receive(&self.stream, input, left.unwrap_or(Duration::MAX));
        let n = n.map_err(|e| socket_error(e, timeout))?;
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    fn is_open(&mut self) -> bool {
        is_quiet(&self.stream)
    }
}

impl Counted {
    fn count(&self) {
        self.held.store(self.inner.input().len(), Ordering::Relaxed);
    }
}

impl Buffers for Counted {
    fn output(&mut self) -> &mut [u8] {
        self.inner.output()
    }

    fn input(&self) -> &[u8] {
        self.inner.input()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.inner.input_append_buf()
    }

    fn input_appended(&mut self, amount: usize) {
        self.inner.input_appended(amount);
        self.count();
    }

    fn input_consume(&mut self, amount: usize) {
        self.inner.input_consume(amount);
        self.count();
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.inner.tmp_and_output()
    }

    fn can_use_input(&self) -> bool {
        self.inner.can_use_input()
    }
}
