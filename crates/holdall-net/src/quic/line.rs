//! Connections of this process to servers. All files that are open at one server share one, as long as any of them is open.

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

/// Who is connected to, as whom, and how long is waited: what has all of it in common shares a connection, and the tickets by
/// which the next one is made.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    /// The name that a certificate is to be for.
    pub(super) host: String,
    pub(super) to: SocketAddr,
    pub(super) trust: Trust,
    pub(super) token: String,
    pub(super) patience: QuicTimeouts,
}

/// A server, and the connection to it, while there is one.
pub(super) struct QuicServer {
    whom: ConnectionKey,
    process: u32,
    /// With the tickets that the server gave: they are kept here and nowhere else.
    config: quinn::ClientConfig,
    /// Held while a connection is made.
    state: Mutex<State>,
    /// Connections that were tried.
    tried: AtomicU64,
}

#[derive(Default)]
struct State {
    line: Weak<Line>,
    /// Why the last one that was tried could not be made.
    failed: Option<Failed>,
}

/// A connection.
pub(super) struct Line {
    whom: ConnectionKey,
    process: u32,
    handle: Handle,
    pub(super) connection: Connection,
    control: tokio::sync::Mutex<SendStream>,
    asked: Mutex<Asked>,
    /// Bytes that came on any stream.
    came: AtomicU64,
    /// Whether what was said first went out before the server had said anything.
    is_early: bool,
    // Kept, because dropping it ends what it is for.
    _endpoint: Endpoint,
}

/// The client's end of the control stream.
struct Asked {
    client: Client,
    /// Who waits for which file.
    waiting: BTreeMap<u32, oneshot::Sender<Result<Opened, Failed>>>,
    has_ended: bool,
}

/// A connection, and the number that a file has on it.
pub(super) struct Link {
    pub(super) line: Arc<Line>,
    pub(super) file: u32,
}

/// A file that is wanted: its name, as what it is known, and its hash.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) path: &'a str,
    pub(super) known: Option<FileId>,
    pub(super) root: Option<Root>,
}

/// What a server said of a file.
pub(super) struct Opened {
    pub(super) id: FileId,
    pub(super) len: u64,
    pub(super) index: Vec<(u64, Bytes)>,
}

/// Servers that are remembered.
const PLACES: usize = 64;
/// Bytes of one answer that may be on their way.
const STREAM_WINDOW: u32 = 16 << 20;
/// Bytes of all answers that may be on their way.
const WINDOW: u32 = 64 << 20;
/// Sent where nothing else is, so that neither side takes the other for gone.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// After which without a word the other side is gone.
const GONE: Duration = Duration::from_secs(10);

/// The servers that this process has talked to, the last at the end.
static KNOWN: Mutex<Vec<Arc<QuicServer>>> = Mutex::new(Vec::new());

impl QuicServer {
    /// The place of that server.
    ///
    /// # Errors
    /// `net/certificate`.
    pub(super) fn connect_to(whom: ConnectionKey) -> Result<Arc<QuicServer>> {
        let process = std::process::id();
        let mut known = lock(&KNOWN);
        let found = known.iter().position(|place| place.process == process && place.whom == whom);
        let place = match found {
            Some(at) => known.remove(at),
            None => {
                let config = config(&whom.trust)?;
                let (state, tried) = Default::default();
                Arc::new(QuicServer { whom, process, config, state, tried })
            }
        };
        known.push(Arc::clone(&place));
        if known.len() > PLACES {
            let idle = known.iter().position(|place| !place.is_connected());
            known.remove(idle.unwrap_or(0));
        }
        Ok(place)
    }

    /// Whether there is a connection now.
    pub(super) fn is_connected(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| alive(&state.line).is_some())
    }

    /// A file opened over the connection, which is made where there is none.
    pub(super) fn open(
        &self,
        handle: &Handle,
        wanted: Wanted<'_>,
    ) -> Result<(Link, Opened), Failed> {
        let tried = self.tried.load(Ordering::Acquire);
        let mut full: Option<Arc<Line>> = None;
        let mut state = loop {
            let state = lock(&self.state);
            let is_full = |line: &Arc<Line>| full.as_ref().is_some_and(|f| Arc::ptr_eq(f, line));
            match alive(&state.line) {
                Some(line) if !is_full(&line) => {
                    drop(state);
                    match wait(handle, line.open(wanted)) {
                        // As many files are open as the server allows a client: there may be room on another connection, which
                        // somebody else may have made by now.
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
                    // Somebody else has just found out.
                    Some(failed) => return Err(failed.clone()),
                    None => break state,
                },
                _ => break state,
            }
        };
        let made = wait(handle, Line::connect(self, handle, wanted));
        self.tried.fetch_add(1, Ordering::AcqRel);
        state.failed = made.as_ref().err().cloned();
        let (line, file, told) = made?;
        state.line = Arc::downgrade(&line);
        drop(state);
        wait(handle, line.opened(file, told))
    }
}

/// What a client offers, and demands.
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

/// A connection that somebody has, and that is not lost.
fn alive(line: &Weak<Line>) -> Option<Arc<Line>> {
    line.upgrade().filter(|line| line.is_alive())
}

impl Line {
    /// A connection on which a file is being opened: its number, and who tells of it.
    async fn connect(
        place: &QuicServer,
        handle: &Handle,
        wanted: Wanted<'_>,
    ) -> Result<(Arc<Line>, u32, oneshot::Receiver<Result<Opened, Failed>>), Failed> {
        let whom = &place.whom;
        let host = &whom.host;
        let from: SocketAddr = match whom.to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint =
            endpoint(from, None).map_err(|e| FAILED.broken("no socket can be had").because(e))?;
        let (mut client, mut said) = Client::new(&whom.token);
        let (file, open) = client.open(wanted.path, wanted.known, wanted.root)?;
        said.extend(open);
        let connecting = endpoint
            .connect_with(place.config.clone(), whom.to, host)
            .map_err(|e| FAILED.broken(format!("{host} cannot be connected to")).because(e))?;
        let connect = whom.patience.connect;
        let (connection, is_early, (send, receive)) =
            match timeout(connect, begin(whom, connecting, &said)).await {
                Ok(done) => done?,
                Err(_) => {
                    let secs = connect.as_secs_f64();
                    let e = FAILED.broken(format!("{host} takes no connection within {secs} s"));
                    return Err(Failed::passing(e));
                }
            };
        let (tell, told) = oneshot::channel();
        let asked = Asked { client, waiting: BTreeMap::from([(file, tell)]), has_ended: false };
        let line = Arc::new(Line {
            whom: whom.clone(),
            process: std::process::id(),
            handle: handle.clone(),
            connection,
            control: tokio::sync::Mutex::new(send),
            asked: Mutex::new(asked),
            came: AtomicU64::new(0),
            is_early,
            _endpoint: endpoint,
        });
        handle.spawn(listen(Arc::downgrade(&line), receive));
        Ok((line, file, told))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Whether what was said first went out before the server had said anything, by a ticket of an earlier connection.
    pub(super) fn is_early(&self) -> bool {
        self.is_early
    }

    /// Whether it is a connection of this process, which was not lost.
    pub(super) fn is_alive(&self) -> bool {
        self.process == std::process::id() && self.connection.close_reason().is_none()
    }

    /// Opens another file over it.
    async fn open(self: &Arc<Line>, wanted: Wanted<'_>) -> Result<(Link, Opened), Failed> {
        let (tell, told) = oneshot::channel();
        let mut control = self.in_time(self.control.lock()).await?;
        let (file, open) = {
            let mut asked = lock(&self.asked);
            if asked.has_ended {
                let host = &self.whom.host;
                return Err(Failed::passing(FAILED.broken(format!("{host} has ended"))));
            }
            let (file, open) = asked.client.open(wanted.path, wanted.known, wanted.root)?;
            asked.waiting.insert(file, tell);
            (file, open)
        };
        self.in_time(control.write_all(&open)).await?.map_err(|e| self.unsent(e))?;
        drop(control);
        self.opened(file, told).await
    }

    /// What becomes of a file that was asked for.
    async fn opened(
        self: &Arc<Line>,
        file: u32,
        told: oneshot::Receiver<Result<Opened, Failed>>,
    ) -> Result<(Link, Opened), Failed> {
        match self.in_time(told).await? {
            Ok(opened) => Ok((Link { line: Arc::clone(self), file }, opened?)),
            Err(_) => Err(Failed::passing(FAILED.broken("the connection has ended"))),
        }
    }

    /// Says something on the control stream.
    pub(super) async fn say(&self, frame: &[u8]) -> Result<(), Failed> {
        let mut control = self.in_time(self.control.lock()).await?;
        self.in_time(control.write_all(frame)).await?.map_err(|e| self.unsent(e))
    }

    /// So many bytes came.
    pub(super) fn record_received(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What comes of a future, if the server does not stop sending before. Else the other side may be gone without a word: the
    /// connection is closed, and the next try makes another.
    pub(super) async fn in_time<F: Future>(&self, future: F) -> Result<F::Output, Failed> {
        let stall = self.whom.patience.stall;
        let mut future = pin!(future);
        loop {
            let before = self.came.load(Ordering::Relaxed);
            if let Ok(out) = timeout(stall, future.as_mut()).await {
                return Ok(out);
            }
            if self.came.load(Ordering::Relaxed) == before {
                self.connection.close(VarInt::from_u32(0), b"");
                let (host, secs) = (&self.whom.host, stall.as_secs_f64());
                let e = FAILED.broken(format!("{host} sends nothing within {secs} s"));
                return Err(Failed::passing(e));
            }
        }
    }

    /// Takes bytes of the control stream, and tells those who wait for what they say.
    fn take(&self, bytes: &[u8]) -> Result<()> {
        let mut asked = lock(&self.asked);
        for told in asked.client.control(bytes)? {
            let (file, opened) = match told {
                ServerMessage::Welcome { .. } => continue,
                ServerMessage::Opened { file, id, len, index } => {
                    (file, Ok(Opened { id, len, index }))
                }
                ServerMessage::Refused { file, refusal } => {
                    let is_passing = refusal.why == RefusalReason::Busy;
                    (file, Err(Failed { error: refusal.error(), is_passing }))
                }
            };
            if let Some(tell) = asked.waiting.remove(&file) {
                let _ = tell.send(opened);
            }
        }
        Ok(())
    }

    /// Tells all who wait that nothing more comes. Files are opened one after the other, so what is wrong with one is wrong with the
    /// first of them: the others may try again.
    fn end(&self, failed: &Failed) {
        let mut asked = lock(&self.asked);
        asked.has_ended = true;
        let is_of_all = is_of_all(&failed.error);
        for (number, tell) in std::mem::take(&mut asked.waiting).into_values().enumerate() {
            let is_passing = failed.is_passing || (number > 0 && !is_of_all);
            let _ = tell.send(Err(Failed { error: failed.error.clone(), is_passing }));
        }
    }

    /// Why the connection has ended, for those who wait for an answer on it: what was wrong with another file is not wrong with this.
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

/// Whether an error is about the connection, rather than about a file on it.
fn is_of_all(e: &Error) -> bool {
    ["net/frame", "net/version", "net/token", "net/certificate"].contains(&e.code())
}

/// Makes a connection, and says the first words on its control stream: at once, where there is a ticket of an earlier one, and again
/// where the server does not take that.
async fn begin(
    whom: &ConnectionKey,
    connecting: Connecting,
    said: &[u8],
) -> Result<(Connection, bool, (SendStream, RecvStream)), Failed> {
    let connection = match connecting.into_0rtt() {
        Err(connecting) => connecting.await.map_err(|e| lost(whom, e))?,
        Ok((connection, accepted)) => {
            let early = say_first(whom, &connection, said).await;
            // Nothing is read before it is known, so no byte can come twice.
            match (early, accepted.await) {
                // Where the handshake was quicker, they were not early at all.
                (Ok(streams), is_taken) if is_taken || !streams.1.is_0rtt() => {
                    let is_early = streams.1.is_0rtt();
                    return Ok((connection, is_early, streams));
                }
                (Err(failed), true) => return Err(failed),
                _ => {}
            }
            connection
        }
    };
    let streams = say_first(whom, &connection, said).await?;
    Ok((connection, false, streams))
}

/// The control stream, with the first words on it.
async fn say_first(
    whom: &ConnectionKey,
    connection: &Connection,
    said: &[u8],
) -> Result<(SendStream, RecvStream), Failed> {
    let (mut send, receive) = connection.open_bi().await.map_err(|e| lost(whom, e))?;
    send.write_all(said).await.map_err(|e| unsent(whom, e))?;
    Ok((send, receive))
}

/// Hears what the server says on the control stream, as long as there is the connection.
async fn listen(line: Weak<Line>, mut receive: RecvStream) {
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
                Failed::passing(FAILED.broken("the server ended before it opened the file"))
            }
            Err(e) => unread(&line.whom, e),
        };
        return line.end(&failed);
    }
}

/// Why there is no connection.
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
                _ => Failed::passing(FAILED.broken(format!("asking {host}")).because(e)),
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
            Failed::passing(FAILED.broken(format!("{host} does not answer any more")))
        }
        e => Failed::passing(FAILED.broken(format!("asking {host}")).because(e)),
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
        e => ANSWER.broken("the answer cannot be read").because(e).into(),
    }
}

/// What the other side ended a stream or a connection for.
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
            // Its threads are those of the process that this one was forked from.
            return std::mem::forget(line);
        }
        // Without this there is nobody else, and the connection ends.
        if line.is_alive() && Arc::strong_count(&line) > 2 {
            let close = Client::close(self.file);
            let handle = line.handle.clone();
            handle.spawn(async move { line.say(&close).await.is_ok() });
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.connection.close(VarInt::from_u32(0), b"");
        }
    }
}

/// A thread that panicked poisons nothing worth protecting here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
