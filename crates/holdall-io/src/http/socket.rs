//! Connections over plain TCP, and bodies that are read past the HTTP library.
//!
//! The library copies every body out of a buffer of its own, which costs as much as receiving it where the line is fast. The bytes of a long
//! body are received into the memory that they are for instead, and the library is shown as many bytes of nothing in particular, so that it
//! knows where the next answer begins.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// Bytes that the library is shown at a time of what came past it: few, so that they stay in the processor's first cache.
pub(super) const SHOWN: usize = 16 << 10;

/// Connects to the addresses that the resolver has kept.
#[derive(Debug)]
pub(super) struct Sockets;

/// A connection, as the library has it.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    buffers: Counted,
    past: Arc<Past>,
}

/// What the two readers of a connection know of each other.
#[derive(Debug, Default)]
struct Past {
    /// Bytes in the library's buffer.
    held: AtomicUsize,
    /// Bytes that were received past the library, and that it was not shown yet.
    owed: AtomicUsize,
}

/// The buffers of the library, which tell how much is in them.
#[derive(Debug)]
struct Counted {
    inner: LazyBuffers,
    past: Arc<Past>,
}

/// A way to the bytes of a body that leads past the library.
pub(super) struct Door {
    stream: Arc<TcpStream>,
    past: Arc<Past>,
}

thread_local! {
    /// The connection over which this thread's last request went.
    static ASKED: RefCell<Option<Door>> = const { RefCell::new(None) };
}

/// The connection over which this thread's last request went, once.
pub(super) fn asked() -> Option<Door> {
    ASKED.take()
}

impl Door {
    /// Whether the library has bytes of the body, which come before those of the socket.
    pub(super) fn is_shut(&self) -> bool {
        self.past.held.load(Ordering::Relaxed) > 0
    }

    /// Receives what there is, and something unless the connection has ended. The library is to be shown as many bytes: it reads
    /// them as it reads others.
    pub(super) fn read(&self, out: &mut [u8], patience: Duration) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(patience))?;
        let n = receive(&self.stream, out, patience)?;
        self.past.owed.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }
}

/// One read, which a signal does not end.
fn receive(mut stream: &TcpStream, out: &mut [u8], patience: Duration) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match stream.read(out) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && begun.elapsed() < patience => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted || is_passing(&e) => {
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
        let stream = Arc::new(connect(&details.addrs, details.timeout)?);
        stream.set_nodelay(true)?;
        let past = Arc::new(Past::default());
        let inner = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let buffers = Counted { inner, past: Arc::clone(&past) };
        Ok(Some(Socket { stream, buffers, past }))
    }
}

/// A connection to the first of these that takes one. Each has its share of the time that is left.
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
            Err(e) if is_passing(&e) => Error::Timeout(Timeout::Connect),
            Err(e) => Error::Io(e),
        };
    }
    Err(last)
}

fn is_passing(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What is told of an error of the socket.
fn told(e: io::Error, timeout: NextTimeout) -> Error {
    if is_passing(&e) { Error::Timeout(timeout.reason) } else { Error::Io(e) }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let door = Door { stream: Arc::clone(&self.stream), past: Arc::clone(&self.past) };
        ASKED.set(Some(door));
        let timeout = timeout.for_write();
        let left = timeout.not_zero().map(|left| *left);
        self.stream.set_write_timeout(left)?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        (&*self.stream).write_all(output).map_err(|e| told(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let owed = self.past.owed.load(Ordering::Relaxed);
        if owed > 0 {
            // Whatever the buffer has in it: nobody looks at that.
            let shown = owed.min(self.buffers.input_append_buf().len()).min(SHOWN);
            self.past.owed.fetch_sub(shown, Ordering::Relaxed);
            self.buffers.input_appended(shown);
            return Ok(shown > 0);
        }
        let timeout = timeout.for_read();
        let left = timeout.not_zero().map(|left| *left);
        self.stream.set_read_timeout(left)?;
        let input = self.buffers.inner.input_append_buf();
        let n = receive(&self.stream, input, left.unwrap_or(Duration::MAX));
        let n = n.map_err(|e| told(e, timeout))?;
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    fn is_open(&mut self) -> bool {
        // Nothing is to come before it is asked for.
        let is_quiet = || -> io::Result<bool> {
            self.stream.set_nonblocking(true)?;
            let found = (&*self.stream).read(&mut [0]);
            self.stream.set_nonblocking(false)?;
            Ok(found.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock))
        };
        is_quiet().unwrap_or(false)
    }
}

impl Counted {
    fn count(&self) {
        self.past.held.store(self.inner.input().len(), Ordering::Relaxed);
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
