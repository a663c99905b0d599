//! A file on a server.

use super::connection::{ConnectionKey, Link, Opened, QuicServer, Wanted, lock};
use super::{Address, Trust};
use crate::protocol::{Client, FileId, PendingResponse, Piece, RANGES_MAX};
use crate::rules::{CHANGED, FAILED};
use crate::wait::{Failed, shared, wait};
use bytes::Bytes;
use holdall_core::Result;
use quinn::{ReadError, RecvStream, VarInt, WriteError};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Maximum number of chunks to read at a time. Each is the content of one packet.
const CHUNKS: usize = 64;
/// Number of bytes to pass on at a time, so that the waiting thread is not woken for each packet.
const BATCH: usize = 512 << 10;
/// How long to wait for more bytes before passing on fewer.
const LINGER: Duration = Duration::from_millis(1);
/// Maximum number of batches that wait to be processed.
const BATCHES: usize = 4;

/// Resolves a host to the addresses that may be connected to. Called whenever a connection is made.
pub type AddressResolver = Box<dyn Fn() -> Result<Vec<SocketAddr>> + Send + Sync>;

/// Timeouts and retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicTimeouts {
    /// Timeout for making a connection.
    pub connect: Duration,
    /// Maximum time without a received byte, before the connection counts as lost.
    pub stall: Duration,
    /// Maximum number of consecutive attempts that fail temporarily and receive no bytes.
    pub tries: u32,
    /// The pause before the third attempt, doubled for each further one. The second attempt follows without a pause.
    pub pause: Duration,
}

/// A file that is open on a server. All files of this process with the same server, token, trust and timeouts share one
/// connection. Any number of threads may read from it.
///
/// If the connection is lost, it is made again, and only missing bytes are requested again. If the file has changed by
/// then, reading fails with `net/changed`.
pub struct Remote {
    address: Address,
    addresses: AddressResolver,
    trust: Trust,
    timeouts: QuicTimeouts,
    id: FileId,
    len: u64,
    index: Vec<(u64, Bytes)>,
    link: Mutex<Option<Arc<Link>>>,
}

/// The priority of fetches, which can be changed while they run. Higher numbers come first; the default is 0.
#[derive(Default)]
pub struct Priority {
    now: AtomicI32,
    /// The streams of running responses.
    streams: Mutex<Vec<(Weak<Link>, u64)>>,
}

impl Priority {
    /// Creates a priority.
    pub fn new(priority: i32) -> Priority {
        Priority { now: AtomicI32::new(priority), streams: Mutex::default() }
    }

    fn now(&self) -> i32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Registers the stream of a response until the returned guard is dropped.
    fn begins(&self, link: &Arc<Link>, stream: u64) -> Asking<'_> {
        lock(&self.streams).push((Arc::downgrade(link), stream));
        Asking { priority: self, stream }
    }
}

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Priority({})", self.now())
    }
}

/// A registered stream.
struct Asking<'a> {
    priority: &'a Priority,
    stream: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut streams = lock(&self.priority.streams);
        if let Some(at) = streams.iter().position(|(_, stream)| *stream == self.stream) {
            streams.swap_remove(at);
        }
    }
}

/// The bytes of a stream, received by a task of the runtime, which is aborted when this is dropped.
struct Batches {
    come: Receiver<Result<Vec<Bytes>, ReadError>>,
    task: JoinHandle<()>,
}

impl Batches {
    fn new(receive: RecvStream, handle: &Handle) -> Batches {
        let (give, come) = channel(BATCHES);
        Batches { come, task: handle.spawn(gather(receive, give)) }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Receives a stream in batches, until it ends or fails, or the receiver is dropped.
async fn gather(mut receive: RecvStream, give: Sender<Result<Vec<Bytes>, ReadError>>) {
    let mut chunks = [const { Bytes::new() }; CHUNKS];
    loop {
        let (batch, goes_on) = batch(&mut receive, &mut chunks).await;
        if !batch.is_empty() && give.send(Ok(batch)).await.is_err() {
            return;
        }
        match goes_on {
            Ok(true) => {}
            Ok(false) => return,
            Err(e) => return drop(give.send(Err(e)).await),
        }
    }
}

/// Receives bytes until there are [`BATCH`], or none arrive for [`LINGER`]. Also returns whether the stream continues.
async fn batch(
    receive: &mut RecvStream,
    chunks: &mut [Bytes],
) -> (Vec<Bytes>, Result<bool, ReadError>) {
    let (mut batch, mut len) = (Vec::new(), 0);
    while len < BATCH {
        let next = receive.read_chunks(chunks);
        let came = match batch.is_empty() {
            true => next.await,
            false => match timeout(LINGER, next).await {
                Ok(came) => came,
                Err(_) => break,
            },
        };
        match came {
            Ok(Some(count)) => {
                let came = chunks.iter_mut().take(count).map(std::mem::take);
                batch.extend(came.inspect(|bytes| len += bytes.len()));
            }
            Ok(None) => return (batch, Ok(false)),
            Err(e) => return (batch, Err(e)),
        }
    }
    (batch, Ok(true))
}

impl Remote {
    /// Opens the file at an address.
    ///
    /// # Errors
    /// Returns `net/failed`, `net/certificate`, `net/token`, `net/no-file` and others.
    pub fn open(
        address: Address,
        addresses: AddressResolver,
        authorities: Vec<Vec<u8>>,
        timeouts: QuicTimeouts,
    ) -> Result<Remote> {
        let trust = match address.pin {
            Some(pin) => Trust::Pin(pin),
            None => Trust::Authorities(authorities),
        };
        let mut remote = Remote {
            address,
            addresses,
            trust,
            timeouts,
            id: FileId([0; 32]),
            len: 0,
            index: Vec::new(),
            link: Mutex::new(None),
        };
        let opened = remote.retrying(|| remote.connect(None));
        let (link, opened) = opened.map_err(|e| remote.address.in_context(e))?;
        (remote.id, remote.len, remote.index) = (opened.id, opened.len, opened.index);
        *lock(&remote.link) = Some(Arc::new(link));
        Ok(remote)
    }

    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the id of this version of the file, which differs from that of every other version and file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns `true` if the address has the file's hash. Everything that is fetched is then checked against it, in
    /// whole groups ([`GROUP`](crate::protocol::GROUP)).
    pub fn with_proofs(&self) -> bool {
        self.address.root.is_some()
    }

    /// Returns the file's index, which the server sent when the file was opened, as `(offset, bytes)`.
    pub fn index(&self) -> &[(u64, Bytes)] {
        &self.index
    }

    /// Returns `true` if the file was requested as early data (0-RTT) of the current connection, with a session ticket
    /// of an earlier one: opening it took one round trip.
    pub fn is_early_data(&self) -> bool {
        lock(&self.link).as_ref().is_some_and(|link| link.line.is_early_data())
    }

    /// Returns the address, without the token.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Fetches ranges, which must be inside the file, and passes their bytes to `each` as they arrive: range by range,
    /// each from its start.
    ///
    /// # Errors
    /// Returns `net/failed`, `net/changed` and others; an error from `each`.
    pub fn fetch(
        &self,
        ranges: &[Range<u64>],
        urgency: &Priority,
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        for (number, ranges) in ranges.chunks(RANGES_MAX).enumerate() {
            let mut each = |piece: Piece<'_>| {
                each(Piece { range_index: number * RANGES_MAX + piece.range_index, ..piece })
            };
            self.arrive(ranges, urgency, &mut each).map_err(|e| self.address.in_context(e))?;
        }
        Ok(())
    }

    fn arrive(
        &self,
        ranges: &[Range<u64>],
        urgency: &Priority,
        each: &mut dyn FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut arrival = match self.address.root {
            Some(root) => PendingResponse::proven(ranges.to_vec(), self.len, root),
            None => PendingResponse::new(ranges.to_vec()),
        };
        loop {
            let before = arrival.bytes_received();
            let done = self.retrying(|| {
                let link = self.link()?;
                let done = wait(link.line.handle(), self.ask(&link, &mut arrival, urgency, each));
                match done {
                    // Bytes arrived, so the number of attempts starts again.
                    Err(Failed { is_passing: true, .. }) if arrival.bytes_received() > before => {
                        Ok(false)
                    }
                    done => done.map(|()| true),
                }
            })?;
            if done {
                return Ok(());
            }
        }
    }

    /// Changes a priority, also of the fetches that are running.
    pub fn set_priority(&self, urgency: &Priority, priority: i32) {
        urgency.now.store(priority, Ordering::Relaxed);
        let streams = lock(&urgency.streams).clone();
        for (link, stream) in streams {
            let Some(link) = link.upgrade() else { continue };
            let frame = Client::priority(stream, priority);
            // If the connection is lost, the new request has the new priority.
            let _ = wait(link.line.handle(), link.line.say(&frame));
        }
    }

    /// Requests the missing ranges once.
    async fn ask(
        &self,
        link: &Arc<Link>,
        arrival: &mut PendingResponse,
        urgency: &Priority,
        each: &mut dyn FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<(), Failed> {
        if arrival.is_whole() {
            return Ok(());
        }
        let line = &link.line;
        let (mut send, receive) =
            line.in_time(line.connection.open_bi()).await?.map_err(|e| line.lost_under(e))?;
        let _asking = urgency.begins(link, VarInt::from(send.id()).into_inner());
        let Some(request) = arrival.request(link.file, urgency.now()) else { return Ok(()) };
        // If the server has reset the stream already, the reason is on its other direction.
        match line.in_time(send.write_all(&request)).await? {
            Ok(()) | Err(WriteError::Stopped(_)) => {}
            Err(WriteError::ConnectionLost(e)) => return Err(line.lost_under(e)),
            Err(e) => return Err(line.unsent(e)),
        }
        let _ = send.finish();
        let mut batches = Batches::new(receive, line.handle());
        while let Some(batch) = line.in_time(batches.come.recv()).await? {
            for bytes in batch.map_err(|e| line.unread(e))? {
                line.record_received(bytes.len());
                arrival.push(&bytes, &mut *each)?;
            }
        }
        Ok(arrival.finish()?)
    }

    /// Returns the connection, made again if it was lost.
    fn link(&self) -> Result<Arc<Link>, Failed> {
        let mut held = lock(&self.link);
        if let Some(link) = &*held
            && link.line.is_alive()
        {
            return Ok(Arc::clone(link));
        }
        let (link, opened) = self.connect(Some(self.id))?;
        if (opened.id, opened.len) != (self.id, self.len) {
            return Err(CHANGED.broken("the server now has a different file of this name").into());
        }
        let link = Arc::new(link);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Makes a connection on which the file is open.
    fn connect(&self, known: Option<FileId>) -> Result<(Link, Opened), Failed> {
        let handle = shared()?;
        // Another file may be connected to a different address of the host: prefer any address that has a connection.
        let whom = |to| ConnectionKey {
            host: self.address.host.clone(),
            to,
            trust: self.trust.clone(),
            token: self.address.token.clone(),
            timeouts: self.timeouts,
        };
        let servers = (self.addresses)()?.into_iter().map(|to| QuicServer::connect_to(whom(to)));
        let mut servers = servers.collect::<Result<Vec<_>>>()?;
        servers.sort_by_key(|server| !server.is_connected());
        let Address { path, root, .. } = &self.address;
        let mut last = None;
        for server in servers {
            match server.open(&handle, Wanted { path, known, root: *root }) {
                Ok(done) => return Ok(done),
                Err(failed) if failed.is_passing => last = Some(failed),
                Err(failed) => return Err(failed),
            }
        }
        Err(last.unwrap_or_else(|| {
            FAILED.broken(format!("the host {} has no addresses", self.address.host)).into()
        }))
    }

    /// Calls `attempt` until it succeeds, fails permanently, or has failed too often.
    fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T, Failed>) -> Result<T> {
        let mut tried = 0;
        loop {
            let Failed { error, is_passing } = match attempt() {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            tried += 1;
            if !is_passing || tried >= self.timeouts.tries {
                return Err(error);
            }
            if tried > 1 {
                let times = 1u32 << (tried - 2).min(10);
                std::thread::sleep(self.timeouts.pause.saturating_mul(times));
            }
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
