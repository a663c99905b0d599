//! A file on a server.

use super::line::{ConnectionKey, Link, Opened, QuicServer, Wanted, lock};
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

/// Runs of bytes that are taken at a time of those that came; each is one packet's.
const CHUNKS: usize = 64;
/// Bytes that are handed over together, so that who waits for them is not woken for each packet.
const BATCH: usize = 512 << 10;
/// How long fewer bytes wait for more.
const LINGER: Duration = Duration::from_millis(1);
/// Batches that wait for who takes them.
const BATCHES: usize = 4;

/// What finds the addresses of a host that may be connected to; asked whenever a connection is made.
pub type AddressResolver = Box<dyn Fn() -> Result<Vec<SocketAddr>> + Send + Sync>;

/// How long is waited, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicTimeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte of an answer.
    pub stall: Duration,
    /// How often it is tried, in all, when it fails in a way that may pass and no byte comes in between.
    pub tries: u32,
    /// The pause before the third try; each further one is twice as long. The second comes at once.
    pub pause: Duration,
}

/// A file that is open on a server, over a connection that all files share which this process has open there, under one token, trust
/// and patience. Read by any number of threads.
///
/// A connection that is lost is made again, and what came before is not asked for again. A file that is not the same
/// by then is an error: `net/changed`.
pub struct Remote {
    address: Address,
    addresses: AddressResolver,
    trust: Trust,
    patience: QuicTimeouts,
    id: FileId,
    len: u64,
    index: Vec<(u64, Bytes)>,
    link: Mutex<Option<Arc<Link>>>,
}

/// How urgent the fetches are that are given this: higher numbers come first, 0 is what nobody chose.
#[derive(Default)]
pub struct Priority {
    now: AtomicI32,
    /// Where answers are coming.
    streams: Mutex<Vec<(Weak<Link>, u64)>>,
}

impl Priority {
    /// This urgent.
    pub fn new(priority: i32) -> Priority {
        Priority { now: AtomicI32::new(priority), streams: Mutex::default() }
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

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Urgency({})", self.now())
    }
}

/// While an answer comes.
struct Asking<'a> {
    of: &'a Priority,
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

/// What comes on a stream, taken by a task of the runtime, which ends with this.
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

/// Gives what comes on a stream in batches, until it ends, fails, or nobody takes them any more.
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

/// What comes until it is enough, or pauses; and whether more is to come.
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
    /// `net/failed`, `net/certificate`, `net/token`, `net/no-file` and the like.
    pub fn open(
        address: Address,
        addresses: AddressResolver,
        authorities: Vec<Vec<u8>>,
        patience: QuicTimeouts,
    ) -> Result<Remote> {
        let trust = match address.pin {
            Some(pin) => Trust::Pin(pin),
            None => Trust::Authorities(authorities),
        };
        let mut remote = Remote {
            address,
            addresses,
            trust,
            patience,
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

    /// Whether what is fetched is proven, which takes whole groups ([`GROUP`](crate::protocol::GROUP)).
    pub fn is_proven(&self) -> bool {
        self.address.root.is_some()
    }

    /// The bytes that came unasked, in which a decoder finds what the file contains: where they are, and they.
    pub fn index(&self) -> &[(u64, Bytes)] {
        &self.index
    }

    /// Whether the server was asked for the file in the first packet of the connection that there is now, by a ticket of an earlier
    /// one: then it was opened in one round trip.
    pub fn is_early(&self) -> bool {
        lock(&self.link).as_ref().is_some_and(|link| link.line.is_early())
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
        urgency: &Priority,
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        for (number, ranges) in ranges.chunks(RANGES_MAX).enumerate() {
            let mut each =
                |piece: Piece<'_>| each(Piece { of: number * RANGES_MAX + piece.of, ..piece });
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
                    // What was achieved counts: the next failure is a first one.
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

    /// Gives what is under way and what comes another urgency: higher numbers come first.
    pub fn urge(&self, urgency: &Priority, priority: i32) {
        urgency.now.store(priority, Ordering::Relaxed);
        let streams = lock(&urgency.streams).clone();
        for (link, stream) in streams {
            let Some(link) = link.upgrade() else { continue };
            let frame = Client::priority(stream, priority);
            // A connection that is lost is made again, with what it is now.
            let _ = wait(link.line.handle(), link.line.say(&frame));
        }
    }

    /// One request for what is missing.
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
        // Where the server has reset the stream already, it says why on the other half.
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

    /// The connection, made again where it was lost.
    fn link(&self) -> Result<Arc<Link>, Failed> {
        let mut held = lock(&self.link);
        if let Some(link) = &*held
            && link.line.is_alive()
        {
            return Ok(Arc::clone(link));
        }
        let (link, opened) = self.connect(Some(self.id))?;
        if (opened.id, opened.len) != (self.id, self.len) {
            return Err(CHANGED.broken("another file is served in its place by now").into());
        }
        let link = Arc::new(link);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// A connection with the file open on it.
    fn connect(&self, known: Option<FileId>) -> Result<(Link, Opened), Failed> {
        let handle = shared()?;
        // Whatever address another file has its connection to, this one may be connected to as well.
        let whom = |to| ConnectionKey {
            host: self.address.host.clone(),
            to,
            trust: self.trust.clone(),
            token: self.address.token.clone(),
            patience: self.patience,
        };
        let places = (self.addresses)()?.into_iter().map(|to| QuicServer::connect_to(whom(to)));
        let mut places = places.collect::<Result<Vec<_>>>()?;
        places.sort_by_key(|place| !place.is_connected());
        let Address { path, root, .. } = &self.address;
        let mut last = None;
        for place in places {
            match place.open(&handle, Wanted { path, known, root: *root }) {
                Ok(done) => return Ok(done),
                Err(failed) if failed.is_passing => last = Some(failed),
                Err(failed) => return Err(failed),
            }
        }
        Err(last.unwrap_or_else(|| {
            FAILED.broken(format!("the host {} has no address", self.address.host)).into()
        }))
    }

    /// Tries until it is done, or trying is of no use any more.
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
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("address", &self.address)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
