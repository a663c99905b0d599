//! The QUIC server.

use super::connection::lock;
use super::pieces::Pieces;
use super::priorities::{Registration, ResponsePriorities};
use super::{Identity, endpoint, number, transport};
use crate::catalog::{RequestOutcome, ServedFile, ServerLimits};
use crate::meter::Protocol;
use crate::protocol::{
    PROTOCOL, PendingRequest, Prover, Refusal, RefusalReason, Request, ResponseStream,
    Server as Session, ServerAction, Step, Tree,
};
use crate::rules::{FAILED, IDENTITY, LISTEN};
use crate::service::{PIECE, Service, Visit};
use crate::wait::{runtime, wait};
use bytes::Bytes;
use holdall_core::{Error, Result};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connecting, Connection, Endpoint, RecvStream, SendStream, VarInt};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum bytes of requests in flight from a client.
const WINDOW: u32 = 256 << 10;
/// Number of requests a client may have sent, per request that is being answered.
const WAITING: usize = 4;

/// Serves files over QUIC, on its own threads, until it is stopped or dropped.
pub struct Server {
    runtime: Option<Runtime>,
    endpoint: Endpoint,
    shared: Arc<Shared>,
}

struct Shared {
    service: Service,
    is_ending: AtomicBool,
    /// Number of requests that are being answered.
    answering: AtomicUsize,
    pieces: Arc<Pieces>,
}

/// A connected client.
struct Peer {
    shared: Arc<Shared>,
    visit: Visit,
    connection: Connection,
    session: Mutex<Session>,
    files: Mutex<HashMap<u32, Open>>,
    priorities: ResponsePriorities,
    turns: Semaphore,
}

#[derive(Clone)]
struct Open {
    name: Arc<str>,
    file: Arc<dyn ServedFile>,
    /// The file's hash tree, if it is sent with proofs.
    tree: Option<Arc<Tree>>,
}

/// Reads a file for a response, with proofs if there is a `prover`.
struct Spelling {
    file: Arc<dyn ServedFile>,
    prover: Option<Prover>,
    pieces: Arc<Pieces>,
}

impl Server {
    /// Starts a server at the address `listen`. Port 0 chooses a free port.
    ///
    /// # Errors
    /// Returns `net/listen` if the address cannot be used; `net/identity` if the certificate or key is invalid.
    pub fn start(service: Service, listen: SocketAddr, identity: &Identity) -> Result<Server> {
        let config = config(identity, &service.limits)?;
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
        let runtime = runtime(threads)?;
        let endpoint = {
            let _inside = runtime.enter();
            endpoint(listen, Some(config))
                .map_err(|e| LISTEN.broken(format!("cannot listen at {listen} (UDP)")).because(e))?
        };
        let (is_ending, answering) = (AtomicBool::new(false), AtomicUsize::new(0));
        let shared = Arc::new(Shared { service, is_ending, answering, pieces: Arc::default() });
        runtime.spawn(accept(endpoint.clone(), Arc::clone(&shared)));
        Ok(Server { runtime: Some(runtime), endpoint, shared })
    }

    /// Returns the address the server listens on.
    ///
    /// # Errors
    /// Returns `net/listen` if the socket has no address.
    pub fn address(&self) -> Result<SocketAddr> {
        self.endpoint
            .local_addr()
            .map_err(|e| LISTEN.broken("the socket has no address").because(e))
    }

    /// Returns the number of open connections.
    pub fn clients(&self) -> usize {
        self.endpoint.open_connections()
    }

    /// Accepts no more clients and requests, waits at most `grace` for running responses, and stops.
    pub fn stop(mut self, grace: Duration) {
        self.endpoint.set_server_config(None);
        self.shared.is_ending.store(true, Ordering::Release);
        let until = Instant::now() + grace;
        while self.shared.answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.endpoint.close(number(RefusalReason::Ending), b"the server is shutting down");
        if let Some(runtime) = self.runtime.take() {
            let idle =
                async { timeout(Duration::from_millis(500), self.endpoint.wait_idle()).await };
            // Clients that do not receive the notification in time will notice by their timeout.
            let _ = wait(runtime.handle(), idle);
            runtime.shutdown_background();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.endpoint.close(number(RefusalReason::Ending), b"the server is shutting down");
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.endpoint.local_addr().ok()).finish()
    }
}

fn config(identity: &Identity, limits: &ServerLimits) -> Result<quinn::ServerConfig> {
    let mut tls = identity.tls(&[PROTOCOL])?;
    // Tickets are kept in memory, and each can be used once: early data that is replayed is not accepted as early data.
    tls.max_early_data_size = u32::MAX;
    let tls = QuicServerConfig::try_from(tls)
        .map_err(|e| IDENTITY.broken("TLS cannot be set up").because(e))?;
    let streams = limits.requests.saturating_mul(WAITING).saturating_add(1);
    let mut transport = transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(streams.min(1 << 16) as u32))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(limits.in_flight.max(PIECE))
        .max_idle_timeout(limits.idle_timeout.try_into().ok());
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        let clients = endpoint.open_connections();
        // When half the places are taken, clients must prove their address, so that forged ones do not take the places
        // of others.
        if clients > shared.service.limits.clients / 2 && incoming.may_retry() {
            let _ = incoming.retry();
        } else if clients >= shared.service.limits.clients {
            shared.service.turn_away(Protocol::Quic);
            incoming.refuse();
        } else if let Ok(connecting) = incoming.accept() {
            // It is counted before the next client is accepted.
            tokio::spawn(client(connecting, Arc::clone(&shared)));
        }
    }
}

async fn client(connecting: Connecting, shared: Arc<Shared>) {
    let idle_timeout = shared.service.limits.idle_timeout;
    // Early data may be replayed. That is harmless, because clients only request bytes.
    let connection = match connecting.into_0rtt() {
        Ok((connection, _)) => connection,
        Err(connecting) => match timeout(idle_timeout, connecting).await {
            Ok(Ok(connection)) => connection,
            _ => return,
        },
    };
    let (send, receive) = match timeout(idle_timeout, connection.accept_bi()).await {
        Ok(Ok(streams)) => streams,
        Ok(Err(_)) => return,
        Err(_) => {
            return connection
                .close(number(RefusalReason::Ending), b"no control stream was opened");
        }
    };
    let Some(visit) = shared.service.enter(Protocol::Quic, connection.remote_address()) else {
        return connection.close(number(RefusalReason::Busy), b"too many clients");
    };
    connection.set_send_window(visit.share());
    let peer = Arc::new(Peer {
        visit,
        connection: connection.clone(),
        session: Mutex::new(Session::new(shared.service.tokens.clone(), &shared.service.limits)),
        files: Mutex::default(),
        priorities: ResponsePriorities::default(),
        turns: Semaphore::new(shared.service.limits.requests.max(1)),
        shared,
    });
    tokio::spawn(Arc::clone(&peer).control(send, receive));
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(Arc::clone(&peer).request(send, receive));
    }
}

impl Peer {
    /// Processes the control stream until it ends or is invalid.
    async fn control(self: Arc<Self>, mut send: SendStream, mut receive: RecvStream) {
        let idle_timeout = self.shared.service.limits.idle_timeout;
        let mut is_greeted = false;
        loop {
            let chunk = receive.read_chunk(64 << 10, true);
            let chunk = match is_greeted {
                true => chunk.await,
                false => match timeout(idle_timeout, chunk).await {
                    Ok(chunk) => chunk,
                    Err(_) => {
                        return self
                            .connection
                            .close(number(RefusalReason::Ending), b"no hello was received");
                    }
                },
            };
            let Ok(Some(chunk)) = chunk else { return };
            let orders = match lock(&self.session).control(&chunk.bytes) {
                Ok(orders) => orders,
                Err(e) => {
                    let refusal = Refusal::from(&e);
                    self.log("", 0, RequestOutcome::Refused(e.code()));
                    return self.connection.close(number(refusal.reason), refusal.text.as_bytes());
                }
            };
            for order in orders {
                is_greeted = true;
                if self.carry_out(order, &mut send).await.is_none() {
                    return;
                }
            }
        }
    }

    /// Carries out an action. Returns `None` if the client accepts no more bytes.
    async fn carry_out(&self, order: ServerAction, send: &mut SendStream) -> Option<()> {
        match order {
            ServerAction::Send(bytes) => self.send(send, bytes.into()).await,
            ServerAction::Close { file } => {
                lock(&self.files).remove(&file);
                Some(())
            }
            ServerAction::Priority { stream, priority } => {
                self.priorities.set_priority(stream, priority);
                Some(())
            }
            ServerAction::Open { file, path, with_proofs } => {
                self.open(file, path, with_proofs, send).await
            }
        }
    }

    async fn open(
        &self,
        number: u32,
        name: String,
        with_proofs: bool,
        send: &mut SendStream,
    ) -> Option<()> {
        let catalog = Arc::clone(&self.shared.service.catalog);
        let (name, asked): (Arc<str>, String) = (name.as_str().into(), name);
        let opened = spawn_blocking(move || {
            let file = catalog.open(&asked)?;
            let index = file.index();
            let tree = if with_proofs { Some(file.tree()?) } else { None };
            Ok((file, index, tree))
        });
        let opened = opened.await.unwrap_or_else(|_| {
            Err(FAILED.broken("an internal error: the thread that reads the file panicked"))
        });
        let (file, found) = match opened {
            Ok((file, index, tree)) => {
                let found = (file.id(), file.len(), index);
                (Some((file, tree)), Ok(found))
            }
            Err(e) => {
                self.log(&name, 0, RequestOutcome::Refused(e.code()));
                (None, Err(Refusal::from(&e)))
            }
        };
        let Some((frame, mut index)) = lock(&self.session).opened(number, found) else {
            return Some(());
        };
        let Some((file, tree)) = file else { return self.send(send, frame.into()).await };
        let open = Open { name, file, tree };
        lock(&self.files).insert(number, open.clone());
        self.send(send, frame.into()).await?;
        let (mut spelling, mut sent) = (open.spelling(&self.shared.pieces), 0);
        loop {
            let steps = index.next(self.visit.piece());
            if steps.is_empty() {
                break;
            }
            self.due(steps.iter().map(Step::len).sum()).await;
            let bytes = match spelling.spell(steps).await {
                Ok(bytes) => bytes,
                Err(e) => {
                    // The client expects bytes here, so closing the connection is the only way to report an error.
                    let refusal = Refusal::from(&e);
                    self.log(&open.name, sent, RequestOutcome::Refused(e.code()));
                    self.connection.close(super::number(refusal.reason), refusal.text.as_bytes());
                    return None;
                }
            };
            for bytes in bytes {
                let len = bytes.len() as u64;
                self.send(send, bytes).await?;
                sent += len;
                self.visit.sent(len);
            }
        }
        self.log(&open.name, sent, RequestOutcome::Whole);
        Some(())
    }

    /// Sends bytes on the control stream. Returns `None` if the client does not accept them in time.
    async fn send(&self, send: &mut SendStream, bytes: Bytes) -> Option<()> {
        match timeout(self.shared.service.limits.idle_timeout, send.write_chunk(bytes)).await {
            Ok(Ok(())) => Some(()),
            Ok(Err(_)) => None,
            Err(_) => {
                self.connection
                    .close(number(RefusalReason::Ending), b"the client accepted no bytes in time");
                None
            }
        }
    }

    /// Answers one request.
    async fn request(self: Arc<Self>, mut send: SendStream, mut receive: RecvStream) {
        let stream = u64::from(VarInt::from(send.id()));
        let request = match self.requested(&mut receive).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(e) => {
                self.log("", 0, RequestOutcome::Refused(e.code()));
                return self.connection.close(number(RefusalReason::Frame), e.found().as_bytes());
            }
        };
        let registration = self.priorities.register(stream, request.priority);
        if let Ok(turn) = self.turns.acquire().await {
            self.shared.answering.fetch_add(1, Ordering::AcqRel);
            let _response = self.visit.begin_response();
            self.answer(&request, &registration, &mut send).await;
            drop((turn, registration));
            // Sent bytes may still be in flight: a server that is stopped waits until they are acknowledged.
            let _ = self.taken(send.stopped()).await;
            self.shared.answering.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Receives the request of a stream. Returns `None` if the client has given it up.
    async fn requested(&self, receive: &mut RecvStream) -> Result<Option<Request>> {
        let mut requesting = PendingRequest::default();
        loop {
            let chunk = receive.read_chunk(PendingRequest::MAX_LEN, true);
            match timeout(self.shared.service.limits.idle_timeout, chunk).await {
                Ok(Ok(Some(chunk))) => requesting.push(&chunk.bytes)?,
                Ok(Ok(None)) => return requesting.finish().map(Some),
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
    }

    async fn answer(
        &self,
        request: &Request,
        registration: &Registration<'_>,
        send: &mut SendStream,
    ) {
        let admitted = match self.shared.is_ending.load(Ordering::Acquire) {
            true => Err(Refusal {
                reason: RefusalReason::Ending,
                text: "the server is shutting down".to_owned(),
            }),
            false => lock(&self.session).admit(request),
        };
        let open = lock(&self.files).get(&request.file).cloned();
        let (mut answering, open) = match (admitted, open) {
            (Ok(answering), Some(open)) => (answering, open),
            (admitted, open) => {
                let gone = Refusal {
                    reason: RefusalReason::Request,
                    text: "the file is closed".to_owned(),
                };
                let refusal = admitted.err().unwrap_or(gone);
                let name = open.as_ref().map_or("", |open| &*open.name);
                self.log(name, 0, RequestOutcome::Refused(refusal.reason.rule().code));
                let frame = Session::refuse(request, refusal);
                if self.taken(send.write_all(&frame)).await.is_some() {
                    let _ = send.finish();
                }
                return;
            }
        };
        let (sent, done) = self.pieces(&mut answering, &open, registration, send).await;
        self.log(&open.name, sent, done);
    }

    /// Sends a response. Returns the number of bytes sent, and the outcome.
    async fn pieces(
        &self,
        answering: &mut ResponseStream,
        open: &Open,
        registration: &Registration<'_>,
        send: &mut SendStream,
    ) -> (u64, RequestOutcome) {
        let (mut spelling, mut sent) = (open.spelling(&self.shared.pieces), 0);
        let mut urgency = registration.priority();
        registration.record_progress();
        let _ = send.set_priority(urgency);
        if self.taken(send.write_all(&answering.head())).await.is_none() {
            return (sent, RequestOutcome::Left);
        }
        loop {
            registration.wait_turn().await;
            self.connection.set_send_window(self.visit.share());
            let steps = answering.next(self.visit.piece());
            if steps.is_empty() {
                let _ = send.finish();
                return (sent, RequestOutcome::Whole);
            }
            let now = registration.priority();
            if now != urgency {
                urgency = now;
                let _ = send.set_priority(urgency);
            }
            self.due(steps.iter().map(Step::len).sum()).await;
            let mut bytes = match spelling.spell(steps).await {
                Ok(bytes) => bytes,
                Err(e) => {
                    let _ = send.reset(number(Refusal::from(&e).reason));
                    return (sent, RequestOutcome::Refused(e.code()));
                }
            };
            let len: u64 = bytes.iter().map(|bytes| bytes.len() as u64).sum();
            if self.taken(send.write_all_chunks(&mut bytes)).await.is_none() {
                let _ = send.reset(number(RefusalReason::Ending));
                return (sent, RequestOutcome::Left);
            }
            registration.record_progress();
            sent += len;
            self.visit.sent(len);
        }
    }

    /// Waits until the rate limit allows to send this number of bytes.
    async fn due(&self, bytes: u64) {
        let delay = self.visit.delay(bytes);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Waits until bytes are sent. Returns `None` if the client is gone, or accepts nothing for too long.
    async fn taken<T, E>(&self, sending: impl Future<Output = Result<T, E>>) -> Option<T> {
        timeout(self.shared.service.limits.idle_timeout, sending).await.ok()?.ok()
    }

    fn log(&self, name: &str, sent: u64, done: RequestOutcome) {
        self.visit.log_request(name, sent, done);
    }
}

impl Open {
    fn spelling(&self, pieces: &Arc<Pieces>) -> Spelling {
        let (file, prover) = (Arc::clone(&self.file), self.tree.clone().map(Prover::new));
        Spelling { file, prover, pieces: Arc::clone(pieces) }
    }
}

impl Spelling {
    /// Reads the bytes to send for these steps, on a thread where waiting for a disk does not delay others.
    async fn spell(&mut self, steps: Vec<Step>) -> Result<Vec<Bytes>, Error> {
        let (file, pieces) = (Arc::clone(&self.file), Arc::clone(&self.pieces));
        let prover = self.prover.take();
        let spelled = spawn_blocking(move || {
            let Some(mut prover) = prover else {
                return (pieces.read(&*file, &steps), None);
            };
            let bytes = prover.spell(&steps, &|range| file.read(range));
            (bytes.map(|bytes| vec![bytes]), Some(prover))
        });
        let (bytes, prover) = match spelled.await {
            Ok(spelled) => spelled,
            Err(_) => (
                Err(FAILED.broken("an internal error: the thread that reads the file panicked")),
                None,
            ),
        };
        self.prover = prover;
        bytes
    }
}
