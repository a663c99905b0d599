//! Connections of this process to servers. All files that are open on one server share a connection, which closes with
//! the last of them.

use super::{QuicTimeouts, Trust, endpoint, number, transport, trust};
use crate::protocol::{Client, FileId, RefusalReason, Root, ServerMessage};
use crate::rules::{ANSWER, FAILED};
use crate::wait::{Failed, wait};
use bytes::Bytes;
use holdall_core::{Error, Result};
use quinn::{
    Connecting, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream, VarInt,
    WriteError,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The properties that two files must have in common to share a connection, and the session tickets for the next one.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    /// The host name, which the certificate must be valid for.
    pub(super) host: String,
    pub(super) to: SocketAddr,
    pub(super) trust: Trust,
    pub(super) token: String,
    pub(super) timeouts: QuicTimeouts,
}

/// A server, and the current connection to it, if any.
pub(super) struct QuicServer {
    whom: ConnectionKey,
    process: u32,
    /// The client configuration, which also holds the server's session tickets.
    config: quinn::ClientConfig,
    /// Locked while a connection is being made.
    state: Mutex<State>,
    /// Number of connections that were attempted.
    tried: AtomicU64,
}

#[derive(Default)]
struct State {
    line: Weak<ServerConnection>,
    /// Why the last attempt failed.
    failed: Option<Failed>,
}

/// A connection to a server.
pub(super) struct ServerConnection {
    whom: ConnectionKey,
    process: u32,
    handle: Handle,
    pub(super) connection: Connection,
    control: tokio::sync::Mutex<SendStream>,
    asked: Mutex<Asked>,
    /// Number of bytes received on all streams.
    came: AtomicU64,
    /// Whether the first frames were sent as early data (0-RTT).
    is_early_data: bool,
    // Kept alive, because dropping it closes the connection.
    _endpoint: Endpoint,
}

/// The client's end of the control stream.
struct Asked {
    client: Client,
    /// The callers that wait for files to be opened, by file number.
    waiting: BTreeMap<u32, oneshot::Sender<Result<Opened, Failed>>>,
    has_ended: bool,
}

/// An open file: its connection, and its number there.
pub(super) struct Link {
    pub(super) line: Arc<ServerConnection>,
    pub(super) file: u32,
}

/// A file to open: its name, the id of the version that the client knows, and its expected BLAKE3 hash.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) path: &'a str,
    pub(super) known: Option<FileId>,
    pub(super) root: Option<Root>,
}

/// The server's description of an open file.
pub(super) struct Opened {
    pub(super) id: FileId,
    pub(super) len: u64,
    pub(super) index: Vec<(u64, Bytes)>,
}

/// Maximum number of servers that are remembered.
const PLACES: usize = 64;
/// Maximum bytes in flight of one response.
const STREAM_WINDOW: u32 = 16 << 20;
/// Maximum bytes in flight of all responses.
const WINDOW: u32 = 64 << 20;
/// Interval of keep-alive packets, so that neither side considers an idle connection lost.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// Time without any packet after which a connection counts as lost.
const GONE: Duration = Duration::from_secs(10);

/// The servers that this process has connected to, most recently used last.
static KNOWN: Mutex<Vec<Arc<QuicServer>>> = Mutex::new(Vec::new());

impl QuicServer {
    /// Returns the entry of a server, adding it if necessary.
    ///
    /// # Errors
    /// Returns `net/certificate` if the trusted authorities are invalid.
    pub(super) fn connect_to(whom: ConnectionKey) -> Result<Arc<QuicServer>> {
        let process = std::process::id();
        let mut known = lock(&KNOWN);
        let found =
            known.iter().position(|server| server.process == process && server.whom == whom);
        let server = match found {
            Some(at) => known.remove(at),
            None => {
                let config = config(&whom.trust)?;
                let (state, tried) = Default::default();
                Arc::new(QuicServer { whom, process, config, state, tried })
            }
        };
        known.push(Arc::clone(&server));
        if known.len() > PLACES {
            let idle = known.iter().position(|server| !server.is_connected());
            known.remove(idle.unwrap_or(0));
        }
        Ok(server)
    }

    /// Returns `true` if there is a connection now.
    pub(super) fn is_connected(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| alive(&state.line).is_some())
    }

    /// Opens a file over the current connection, or over a new one.
    pub(super) fn open(
        &self,
        handle: &Handle,
        wanted: Wanted<'_>,
    ) -> Result<(Link, Opened), Failed> {
        let tried = self.tried.load(Ordering::Acquire);
        let mut full: Option<Arc<ServerConnection>> = None;
        let mut state = loop {
            let state = lock(&self.state);
            let is_full =
                |line: &Arc<ServerConnection>| full.as_ref().is_some_and(|f| Arc::ptr_eq(f, line));
            match alive(&state.line) {
                Some(line) if !is_full(&line) => {
                    drop(state);
                    match wait(handle, line.open(wanted)) {
                        // The client has its maximum number of files open on this connection. Another connection may
                        // have room; another thread may have made one meanwhile.
                        Err(failed)
                            if failed.error.code() == "net/busy"
                                && Arc::strong_count(&line) > 1 =>
                        {
                            full = Some(line);
                        }
                        done => return done,
                    }
                }
                None if self.tried.load(Ordering::Acquire) != tried => match &state.failed {
                    // Another thread's attempt has just failed.
                    Some(failed) => return Err(failed.clone()),
                    None => break state,
                },
                _ => break state,
            }
        };
        let made = wait(handle, ServerConnection::connect(self, handle, wanted));
        self.tried.fetch_add(1, Ordering::AcqRel);
        state.failed = made.as_ref().err().cloned();
        let (line, file, receiver) = made?;
        state.line = Arc::downgrade(&line);
        drop(state);
        wait(handle, line.opened(file, receiver))
    }
}

/// Returns the client configuration for a server.
fn config(trust: &Trust) -> Result<quinn::ClientConfig> {
    let mut transport = transport();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(GONE.try_into().ok());
    let mut config = trust.config()?;
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Returns the connection if it is in use and not lost.
fn alive(line: &Weak<ServerConnection>) -> Option<Arc<ServerConnection>> {
    line.upgrade().filter(|line| line.is_alive())
}

impl ServerConnection {
    /// Makes a connection and requests a file on it. Returns the connection, the number of the file, and the receiver
    /// of the server's answer.
    async fn connect(
        server: &QuicServer,
        handle: &Handle,
        wanted: Wanted<'_>,
    ) -> Result<(Arc<ServerConnection>, u32, oneshot::Receiver<Result<Opened, Failed>>), Failed>
    {
        let whom = &server.whom;
        let host = &whom.host;
        let from: SocketAddr = match whom.to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint =
            endpoint(from, None).map_err(|e| FAILED.broken("cannot create a socket").because(e))?;
        let (mut client, mut hello) = Client::new(&whom.token);
        let (file, open) = client.open(wanted.path, wanted.known, wanted.root)?;
        hello.extend(open);
        let connecting = endpoint
            .connect_with(server.config.clone(), whom.to, host)
            .map_err(|e| FAILED.broken(format!("cannot connect to {host}")).because(e))?;
        let connect = whom.timeouts.connect;
        let (connection, is_early_data, (send, receive)) =
            match timeout(connect, begin(whom, connecting, &hello)).await {
                Ok(done) => done?,
                Err(_) => {
                    let secs = connect.as_secs_f64();
                    let e = FAILED
                        .broken(format!("{host} did not accept a connection within {secs} s"));
                    return Err(Failed::passing(e));
                }
            };
        let (tell, receiver) = oneshot::channel();
        let asked = Asked { client, waiting: BTreeMap::from([(file, tell)]), has_ended: false };
        let line = Arc::new(ServerConnection {
            whom: whom.clone(),
            process: std::process::id(),
            handle: handle.clone(),
            connection,
            control: tokio::sync::Mutex::new(send),
            asked: Mutex::new(asked),
            came: AtomicU64::new(0),
            is_early_data,
            _endpoint: endpoint,
        });
        handle.spawn(listen(Arc::downgrade(&line), receive));
        Ok((line, file, receiver))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns `true` if the first frames were sent as early data (0-RTT), with a session ticket of an earlier
    /// connection.
    pub(super) fn is_early_data(&self) -> bool {
        self.is_early_data
    }

    /// Returns `true` if this process made the connection, and it is not lost.
    pub(super) fn is_alive(&self) -> bool {
        self.process == std::process::id() && self.connection.close_reason().is_none()
    }

    /// Opens a file over this connection.
    async fn open(
        self: &Arc<ServerConnection>,
        wanted: Wanted<'_>,
    ) -> Result<(Link, Opened), Failed> {
        let (tell, receiver) = oneshot::channel();
        let mut control = self.in_time(self.control.lock()).await?;
        let (file, open) = {
            let mut asked = lock(&self.asked);
            if asked.has_ended {
                let host = &self.whom.host;
                return Err(Failed::passing(
                    FAILED.broken(format!("{host} closed the connection")),
                ));
            }
            let (file, open) = asked.client.open(wanted.path, wanted.known, wanted.root)?;
            asked.waiting.insert(file, tell);
            (file, open)
        };
        self.in_time(control.write_all(&open)).await?.map_err(|e| self.unsent(e))?;
        drop(control);
        self.opened(file, receiver).await
    }

    /// Waits until a requested file is open.
    async fn opened(
        self: &Arc<ServerConnection>,
        file: u32,
        receiver: oneshot::Receiver<Result<Opened, Failed>>,
    ) -> Result<(Link, Opened), Failed> {
        match self.in_time(receiver).await? {
            Ok(opened) => Ok((Link { line: Arc::clone(self), file }, opened?)),
            Err(_) => Err(Failed::passing(FAILED.broken("the connection was closed"))),
        }
    }

    /// Sends a frame on the control stream.
    pub(super) async fn say(&self, frame: &[u8]) -> Result<(), Failed> {
        let mut control = self.in_time(self.control.lock()).await?;
        self.in_time(control.write_all(frame)).await?.map_err(|e| self.unsent(e))
    }

    /// Counts received bytes.
    pub(super) fn record_received(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for a future, as long as the server keeps sending. If nothing arrives for `QuicTimeouts::stall`, the
    /// connection counts as lost: closes it, so that the next attempt makes another.
    pub(super) async fn in_time<F: Future>(&self, future: F) -> Result<F::Output, Failed> {
        let stall = self.whom.timeouts.stall;
        let mut future = pin!(future);
        loop {
            let before = self.came.load(Ordering::Relaxed);
            if let Ok(out) = timeout(stall, future.as_mut()).await {
                return Ok(out);
            }
            if self.came.load(Ordering::Relaxed) == before {
                self.connection.close(VarInt::from_u32(0), b"");
                let (host, secs) = (&self.whom.host, stall.as_secs_f64());
                let e = FAILED.broken(format!("{host} sent nothing for {secs} s"));
                return Err(Failed::passing(e));
            }
        }
    }

    /// Decodes bytes of the control stream, and passes the messages to the callers that wait for them.
    fn take(&self, bytes: &[u8]) -> Result<()> {
        let mut asked = lock(&self.asked);
        for message in asked.client.control(bytes)? {
            let (file, opened) = match message {
                ServerMessage::Welcome { .. } => continue,
                ServerMessage::Opened { file, id, len, index } => {
                    (file, Ok(Opened { id, len, index }))
                }
                ServerMessage::Refused { file, refusal } => {
                    let is_passing = refusal.reason == RefusalReason::Busy;
                    (file, Err(Failed { error: refusal.error(), is_passing }))
                }
            };
            if let Some(tell) = asked.waiting.remove(&file) {
                let _ = tell.send(opened);
            }
        }
        Ok(())
    }

    /// Fails all callers that wait for a file to be opened. Servers open files in order, so an error about a file is
    /// about the first one that is waiting: the others may retry.
    fn end(&self, failed: &Failed) {
        let mut asked = lock(&self.asked);
        asked.has_ended = true;
        let is_of_all = is_of_all(&failed.error);
        for (number, tell) in std::mem::take(&mut asked.waiting).into_values().enumerate() {
            let is_passing = failed.is_passing || (number > 0 && !is_of_all);
            let _ = tell.send(Err(Failed { error: failed.error.clone(), is_passing }));
        }
    }

    /// Returns why the connection was closed, for a caller that waits for a response on it. The caller may retry if the
    /// error was about another file.
    pub(super) fn lost_under(&self, e: ConnectionError) -> Failed {
        let failed = lost(&self.whom, e);
        Failed { is_passing: failed.is_passing || !is_of_all(&failed.error), ..failed }
    }

    pub(super) fn unsent(&self, e: WriteError) -> Failed {
        unsent(&self.whom, e)
    }

    pub(super) fn unread(&self, e: ReadError) -> Failed {
        match e {
            ReadError::ConnectionLost(e) => self.lost_under(e),
            e => unread(&self.whom, e),
        }
    }
}

/// Returns `true` if an error is about the connection, rather than about one file.
fn is_of_all(e: &Error) -> bool {
    ["net/frame", "net/version", "net/token", "net/certificate"].contains(&e.code())
}

/// Makes a connection and sends the first frames on its control stream: as early data (0-RTT), if there is a session
/// ticket, and again if the server refuses that.
async fn begin(
    whom: &ConnectionKey,
    connecting: Connecting,
    hello: &[u8],
) -> Result<(Connection, bool, (SendStream, RecvStream)), Failed> {
    let connection = match connecting.into_0rtt() {
        Err(connecting) => connecting.await.map_err(|e| lost(whom, e))?,
        Ok((connection, accepted)) => {
            let early = say_first(whom, &connection, hello).await;
            // Nothing is read before the server has accepted the early data, so no byte can arrive twice.
            match (early, accepted.await) {
                // If the handshake was completed first, the frames were not early.
                (Ok(streams), is_taken) if is_taken || !streams.1.is_0rtt() => {
                    let is_early_data = streams.1.is_0rtt();
                    return Ok((connection, is_early_data, streams));
                }
                (Err(failed), true) => return Err(failed),
                _ => {}
            }
            connection
        }
    };
    let streams = say_first(whom, &connection, hello).await?;
    Ok((connection, false, streams))
}

/// Opens the control stream and sends the first frames on it.
async fn say_first(
    whom: &ConnectionKey,
    connection: &Connection,
    hello: &[u8],
) -> Result<(SendStream, RecvStream), Failed> {
    let (mut send, receive) = connection.open_bi().await.map_err(|e| lost(whom, e))?;
    send.write_all(hello).await.map_err(|e| unsent(whom, e))?;
    Ok((send, receive))
}

/// Receives the server's messages on the control stream until the connection is closed.
async fn listen(line: Weak<ServerConnection>, mut receive: RecvStream) {
    loop {
        let chunk = receive.read_chunk(1 << 20, true).await;
        let Some(line) = line.upgrade() else { return };
        let failed = match chunk {
            Ok(Some(chunk)) => {
                line.record_received(chunk.bytes.len());
                let Err(e) = line.take(&chunk.bytes) else { continue };
                line.connection.close(number(RefusalReason::Frame), e.found().as_bytes());
                e.into()
            }
            Ok(None) => {
                line.connection.close(VarInt::from_u32(0), b"");
                Failed::passing(
                    FAILED.broken("the server closed the control stream before it opened the file"),
                )
            }
            Err(e) => unread(&line.whom, e),
        };
        return line.end(&failed);
    }
}

/// Returns the error for a lost connection.
fn lost(whom: &ConnectionKey, e: ConnectionError) -> Failed {
    let host = &whom.host;
    match e {
        ConnectionError::ApplicationClosed(closed) => {
            let code = closed.error_code.into_inner();
            let text = String::from_utf8_lossy(&closed.reason);
            ended(code, &text)
        }
        ConnectionError::TransportError(e) => {
            let code = u64::from(e.code);
            match code.checked_sub(0x100).map(u8::try_from) {
                Some(Ok(alert)) => trust::refused(&whom.trust, alert, &e.reason).into(),
                _ => Failed::passing(FAILED.broken(format!("requesting from {host}")).because(e)),
            }
        }
        ConnectionError::ConnectionClosed(closed) => {
            let code = u64::from(closed.error_code);
            let reason = String::from_utf8_lossy(&closed.reason);
            match code.checked_sub(0x100).map(u8::try_from) {
                Some(Ok(alert)) => trust::refused(&whom.trust, alert, &reason).into(),
                _ => Failed::passing(FAILED.broken(format!("{host} closed the connection"))),
            }
        }
        ConnectionError::TimedOut => {
            Failed::passing(FAILED.broken(format!("{host} stopped responding")))
        }
        e => Failed::passing(FAILED.broken(format!("requesting from {host}")).because(e)),
    }
}

fn unsent(whom: &ConnectionKey, e: WriteError) -> Failed {
    match e {
        WriteError::ConnectionLost(e) => lost(whom, e),
        WriteError::Stopped(code) => ended(code.into_inner(), ""),
        e => FAILED.broken("the request cannot be sent").because(e).into(),
    }
}

fn unread(whom: &ConnectionKey, e: ReadError) -> Failed {
    match e {
        ReadError::ConnectionLost(e) => lost(whom, e),
        ReadError::Reset(code) => ended(code.into_inner(), ""),
        e => ANSWER.broken("the response cannot be read").because(e).into(),
    }
}

/// Returns the error for a stream or connection that the other side closed with this code.
fn ended(code: u64, text: &str) -> Failed {
    let error: Error = crate::protocol::ended(code, text);
    let is_passing = matches!(
        RefusalReason::from_number(code),
        None | Some(RefusalReason::Busy | RefusalReason::Ending)
    );
    Failed { error, is_passing }
}

impl Drop for Link {
    fn drop(&mut self) {
        let line = Arc::clone(&self.line);
        if line.process != std::process::id() {
            // This is a forked child: the connection's threads exist only in its parent.
            return std::mem::forget(line);
        }
        // With the last file, the whole connection closes; before, only this file.
        if line.is_alive() && Arc::strong_count(&line) > 2 {
            let close = Client::close(self.file);
            let handle = line.handle.clone();
            handle.spawn(async move { line.say(&close).await.is_ok() });
        }
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.connection.close(VarInt::from_u32(0), b"");
        }
    }
}

/// Locks a mutex, ignoring poisoning: a panic cannot leave the data here inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
