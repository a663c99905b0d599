//! A file on a server.

use super::wait::{Failed, clients, wait};
use super::{Address, Trust, number, trust};
use crate::protocol::{Arrival, Client, FileId, Piece, RANGES_MAX, Told, Why};
use crate::rules::{ANSWER, CHANGED, FAILED};
use bytes::Bytes;
use holdall_core::{Error, Result};
use quinn::{
    Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream, TransportConfig,
    VarInt, WriteError,
};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// What finds the addresses of a host that may be connected to; asked whenever a connection is made.
pub type Addresses = Box<dyn Fn() -> Result<Vec<SocketAddr>> + Send + Sync>;

/// How long is waited, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte of an answer.
    pub stall: Duration,
    /// How often it is tried, in all, when it fails in a way that may pass and no byte comes in between.
    pub tries: u32,
    /// The pause before the third try; each further one is twice as long. The second comes at once.
    pub pause: Duration,
}

/// A file that is open on a server, over a connection of its own. Read by any number of threads.
///
/// A connection that is lost is made again, and what came before is not asked for again. A file that is not the same
/// by then is an error: `net/changed`.
pub struct Remote {
    address: Address,
    addresses: Addresses,
    trust: Trust,
    config: quinn::ClientConfig,
    patience: Patience,
    id: FileId,
    len: u64,
    index: Vec<(u64, Bytes)>,
    link: Mutex<Option<Arc<Link>>>,
}

/// A connection, and the number that the file has on it.
struct Link {
    process: u32,
    handle: Handle,
    connection: Connection,
    file: u32,
    control: tokio::sync::Mutex<SendStream>,
    // Kept, because dropping them ends what they are for.
    _control: RecvStream,
    _endpoint: Endpoint,
}

/// How urgent the fetches are that are given this: higher numbers come first, 0 is what nobody chose.
#[derive(Default)]
pub struct Urgency {
    now: AtomicI32,
    /// Where answers are coming.
    streams: Mutex<Vec<(Weak<Link>, u64)>>,
}

impl Urgency {
    /// This urgent.
    pub fn new(priority: i32) -> Urgency {
        Urgency { now: AtomicI32::new(priority), streams: Mutex::default() }
    }

    fn now(&self) -> i32 {
        self.now.load(Ordering::Relaxed)
    }

    /// An answer comes on that stream, until what this gives is dropped.
    fn begins(&self, link: &Arc<Link>, stream: u64) -> Asking<'_> {
        lock(&self.streams).push((Arc::downgrade(link), stream));
        Asking { of: self, stream }
    }
}

impl fmt::Debug for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Urgency({})", self.now())
    }
}

/// While an answer comes.
struct Asking<'a> {
    of: &'a Urgency,
    stream: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut streams = lock(&self.of.streams);
        if let Some(at) = streams.iter().position(|(_, stream)| *stream == self.stream) {
            streams.swap_remove(at);
        }
    }
}

/// Bytes of one answer that may be on their way.
const STREAM_WINDOW: u32 = 16 << 20;
/// Bytes of all answers that may be on their way.
const WINDOW: u32 = 64 << 20;
/// Sent where nothing else is, so that neither side takes the other for gone.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// After which without a word the other side is gone.
const GONE: Duration = Duration::from_secs(10);

impl Remote {
    /// Opens the file at an address.
    ///
    /// # Errors
    /// `net/failed`, `net/certificate`, `net/token`, `net/no-file` and the like.
    pub fn open(
        address: Address,
        addresses: Addresses,
        authorities: Vec<Vec<u8>>,
        patience: Patience,
    ) -> Result<Remote> {
        let trust = match address.pin {
            Some(pin) => Trust::Pin(pin),
            None => Trust::Authorities(authorities),
        };
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(WINDOW))
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .keep_alive_interval(Some(KEEP_ALIVE))
            .max_idle_timeout(GONE.try_into().ok());
        let mut config = trust.config().map_err(|e| address.place(e))?;
        config.transport_config(Arc::new(transport));
        let mut remote = Remote {
            address,
            addresses,
            trust,
            config,
            patience,
            id: FileId([0; 32]),
            len: 0,
            index: Vec::new(),
            link: Mutex::new(None),
        };
        let opened = remote.retrying(|| remote.connect(None));
        let (link, opened) = opened.map_err(|e| remote.address.place(e))?;
        (remote.id, remote.len, remote.index) = (opened.id, opened.len, opened.index);
        *lock(&remote.link) = Some(Arc::new(link));
        Ok(remote)
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What tells this version of the file from others.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The bytes that came unasked, in which a decoder finds what the file contains: where they are, and they.
    pub fn index(&self) -> &[(u64, Bytes)] {
        &self.index
    }

    /// Where it is, without what is secret.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Fetches ranges, which are in the file, and shows their bytes as they come: range by range, each from its start.
    ///
    /// # Errors
    /// `net/failed`, `net/changed` and the like; what `each` fails with.
    pub fn fetch(
        &self,
        ranges: &[Range<u64>],
        urgency: &Urgency,
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        for (number, ranges) in ranges.chunks(RANGES_MAX).enumerate() {
            let mut each =
                |piece: Piece<'_>| each(Piece { of: number * RANGES_MAX + piece.of, ..piece });
            self.arrive(ranges, urgency, &mut each).map_err(|e| self.address.place(e))?;
        }
        Ok(())
    }

    fn arrive(
        &self,
        ranges: &[Range<u64>],
        urgency: &Urgency,
        each: &mut dyn FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut arrival = match self.address.root {
            Some(root) => Arrival::proven(ranges.to_vec(), self.len, root),
            None => Arrival::new(ranges.to_vec()),
        };
        loop {
            let before = arrival.came();
            let done = self.retrying(|| {
                let link = self.link()?;
                let done = wait(&link.handle, self.ask(&link, &mut arrival, urgency, each));
                match done {
                    // What was achieved counts: the next failure is a first one.
                    Err(Failed { is_passing: true, .. }) if arrival.came() > before => Ok(false),
                    done => done.map(|()| true),
                }
            })?;
            if done {
                return Ok(());
            }
        }
    }

    /// Gives what is under way and what comes another urgency: higher numbers come first.
    pub fn urge(&self, urgency: &Urgency, priority: i32) {
        urgency.now.store(priority, Ordering::Relaxed);
        let streams = lock(&urgency.streams).clone();
        for (link, stream) in streams {
            let Some(link) = link.upgrade() else { continue };
            let said = async {
                let mut control = link.control.lock().await;
                control.write_all(&Client::priority(stream, priority)).await
            };
            // A connection that is lost is made again, with what it is now.
            let _ = wait(&link.handle, async { timeout(self.patience.stall, said).await });
        }
    }

    /// One request for what is missing.
    async fn ask(
        &self,
        link: &Arc<Link>,
        arrival: &mut Arrival,
        urgency: &Urgency,
        each: &mut dyn FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<(), Failed> {
        if arrival.is_whole() {
            return Ok(());
        }
        let asked = self.ask_on(link, arrival, urgency, each).await;
        if let Err(Stop::Stalled(_)) = &asked {
            // The other side may be gone without a word: the next try makes another connection.
            link.connection.close(VarInt::from_u32(0), b"");
        }
        asked.map_err(Failed::from)
    }

    async fn ask_on(
        &self,
        link: &Arc<Link>,
        arrival: &mut Arrival,
        urgency: &Urgency,
        each: &mut dyn FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<(), Stop> {
        let (mut send, mut receive) =
            self.in_time(link.connection.open_bi()).await?.map_err(|e| self.lost(e))?;
        let _asking = urgency.begins(link, VarInt::from(send.id()).into_inner());
        let Some(request) = arrival.request(link.file, urgency.now()) else { return Ok(()) };
        let sent = self.in_time(send.write_all(&request)).await?;
        // Where the server has reset the stream already, it says why on the other half.
        match sent {
            Ok(()) | Err(WriteError::Stopped(_)) => {}
            Err(e) => return Err(self.unsent(e).into()),
        }
        let _ = send.finish();
        loop {
            let chunk = self.in_time(receive.read_chunk(usize::MAX, true)).await?;
            match chunk.map_err(|e| self.unread(e))? {
                Some(chunk) => arrival.push(&chunk.bytes, &mut *each)?,
                None => return Ok(arrival.finish()?),
            }
        }
    }

    /// What comes of a future, if it comes in time.
    async fn in_time<F: Future>(&self, future: F) -> Result<F::Output, Stop> {
        let stall = self.patience.stall;
        timeout(stall, future).await.map_err(|_| {
            let secs = stall.as_secs_f64();
            let host = &self.address.host;
            Stop::Stalled(FAILED.broken(format!("{host} sends nothing within {secs} s")))
        })
    }

    /// The connection, made again where it was lost.
    fn link(&self) -> Result<Arc<Link>, Failed> {
        let mut held = lock(&self.link);
        if let Some(link) = &*held
            && link.process == std::process::id()
            && link.connection.close_reason().is_none()
        {
            return Ok(Arc::clone(link));
        }
        let (link, opened) = self.connect(Some(self.id))?;
        if (opened.id, opened.len) != (self.id, self.len) {
            return Err(CHANGED.broken("another file is served in its place by now").into());
        }
        let link = Arc::new(link);
        if let Some(lost) = held.replace(Arc::clone(&link))
            && lost.process != link.process
        {
            // Its threads are those of the process that this one was forked from.
            std::mem::forget(lost);
        }
        Ok(link)
    }

    /// A connection with the file open on it.
    fn connect(&self, known: Option<FileId>) -> Result<(Link, Opened), Failed> {
        let handle = clients()?;
        let mut last = None;
        for to in (self.addresses)()? {
            match wait(&handle, self.connect_to(&handle, to, known)) {
                Ok(done) => return Ok(done),
                Err(failed) if failed.is_passing => last = Some(failed),
                Err(failed) => return Err(failed),
            }
        }
        Err(last.unwrap_or_else(|| {
            FAILED.broken(format!("the host {} has no address", self.address.host)).into()
        }))
    }

    async fn connect_to(
        &self,
        handle: &Handle,
        to: SocketAddr,
        known: Option<FileId>,
    ) -> Result<(Link, Opened), Failed> {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint =
            Endpoint::client(from).map_err(|e| FAILED.broken("no socket can be had").because(e))?;
        let host = &self.address.host;
        let connecting = endpoint
            .connect_with(self.config.clone(), to, host)
            .map_err(|e| FAILED.broken(format!("{host} cannot be connected to")).because(e))?;
        let connect = self.patience.connect;
        let connection = match timeout(connect, connecting).await {
            Ok(done) => done.map_err(|e| self.lost(e))?,
            Err(_) => {
                let secs = connect.as_secs_f64();
                let e = FAILED.broken(format!("{host} takes no connection within {secs} s"));
                return Err(Failed::passing(e));
            }
        };
        let (mut send, mut receive) =
            self.in_time(connection.open_bi()).await?.map_err(|e| self.lost(e))?;
        let (mut client, mut hello) = Client::new(&self.address.token);
        let (file, open) = client.open(&self.address.path, known, self.address.root)?;
        hello.extend(open);
        self.in_time(send.write_all(&hello)).await?.map_err(|e| self.unsent(e))?;
        let opened = loop {
            let chunk = self.in_time(receive.read_chunk(1 << 20, true)).await?;
            let Some(chunk) = chunk.map_err(|e| self.unread(e))? else {
                let e = FAILED.broken("the server ended before it opened the file");
                return Err(Failed::passing(e));
            };
            let told = client.control(&chunk.bytes).inspect_err(|e| {
                connection.close(number(Why::Frame), e.found().as_bytes());
            })?;
            let mut found = None;
            for told in told {
                match told {
                    Told::Welcome { .. } => {}
                    Told::Opened { id, len, index, .. } => found = Some(Opened { id, len, index }),
                    Told::Refused { refusal, .. } => {
                        let is_passing = refusal.why == Why::Busy;
                        return Err(Failed { error: refusal.error(), is_passing });
                    }
                }
            }
            if let Some(opened) = found {
                break opened;
            }
        };
        let link = Link {
            process: std::process::id(),
            handle: handle.clone(),
            connection,
            file,
            control: tokio::sync::Mutex::new(send),
            _control: receive,
            _endpoint: endpoint,
        };
        Ok((link, opened))
    }

    /// Tries until it is done, or it is no use any more.
    fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T, Failed>) -> Result<T> {
        let mut tried = 0;
        loop {
            let Failed { error, is_passing } = match attempt() {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            tried += 1;
            if !is_passing || tried >= self.patience.tries {
                return Err(error);
            }
            if tried > 1 {
                let times = 1u32 << (tried - 2).min(10);
                std::thread::sleep(self.patience.pause.saturating_mul(times));
            }
        }
    }

    /// Why there is no connection.
    fn lost(&self, e: ConnectionError) -> Failed {
        let host = &self.address.host;
        match e {
            ConnectionError::ApplicationClosed(closed) => {
                let code = closed.error_code.into_inner();
                let text = String::from_utf8_lossy(&closed.reason);
                ended(code, &text)
            }
            ConnectionError::TransportError(e) => {
                let code = u64::from(e.code);
                match code.checked_sub(0x100).map(u8::try_from) {
                    Some(Ok(alert)) => trust::refused(&self.trust, alert, &e.reason).into(),
                    _ => Failed::passing(FAILED.broken(format!("asking {host}")).because(e)),
                }
            }
            ConnectionError::ConnectionClosed(closed) => {
                let code = u64::from(closed.error_code);
                let reason = String::from_utf8_lossy(&closed.reason);
                match code.checked_sub(0x100).map(u8::try_from) {
                    Some(Ok(alert)) => trust::refused(&self.trust, alert, &reason).into(),
                    _ => Failed::passing(FAILED.broken(format!("{host} closed the connection"))),
                }
            }
            ConnectionError::TimedOut => {
                Failed::passing(FAILED.broken(format!("{host} does not answer any more")))
            }
            e => Failed::passing(FAILED.broken(format!("asking {host}")).because(e)),
        }
    }

    fn unsent(&self, e: WriteError) -> Failed {
        match e {
            WriteError::ConnectionLost(e) => self.lost(e),
            WriteError::Stopped(code) => ended(code.into_inner(), ""),
            e => FAILED.broken("the request cannot be sent").because(e).into(),
        }
    }

    fn unread(&self, e: ReadError) -> Failed {
        match e {
            ReadError::ConnectionLost(e) => self.lost(e),
            ReadError::Reset(code) => ended(code.into_inner(), ""),
            e => ANSWER.broken("the answer cannot be read").because(e).into(),
        }
    }
}

/// Why an answer did not come.
enum Stop {
    /// Nothing came for too long.
    Stalled(Error),
    Failed(Failed),
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Failed {
        match stop {
            Stop::Stalled(error) => Failed::passing(error),
            Stop::Failed(failed) => failed,
        }
    }
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Stop {
        Stop::Failed(failed)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error.into())
    }
}

/// What the other side ended a stream or a connection for.
fn ended(code: u64, text: &str) -> Failed {
    let error: Error = crate::protocol::ended(code, text);
    let is_passing = matches!(Why::from_number(code), None | Some(Why::Busy | Why::Ending));
    Failed { error, is_passing }
}

/// What a server said of the file.
struct Opened {
    id: FileId,
    len: u64,
    index: Vec<(u64, Bytes)>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.connection.close(VarInt::from_u32(0), b"");
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("address", &self.address)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A thread that panicked poisons nothing worth protecting here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
