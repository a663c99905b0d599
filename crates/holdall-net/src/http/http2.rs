//! HTTP/2, with `h2`: many requests at once.
//!
//! One thread per client drives its connection and all responses on it, so a slow file delays only that client. No more
//! of a body is read than the client's flow-control window has room for.

use super::answer::Answer;
use super::begin::within_idle_timeout;
use super::request::{HEAD_MAX, Request};
use super::server::{BusyGuard, CLOSE_TIMEOUT, POLL_INTERVAL, Shared, Unsent};
use crate::catalog::RequestOutcome;
use crate::service::{PIECE_MIN, Visit};
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

/// Requests that a client may have sent, per request that is being answered. Clients start with up to 100 requests,
/// before they receive the server's settings, so at least [`WAITING_MIN`] are accepted.
const WAITING: usize = 4;
const WAITING_MIN: usize = 100;
/// Maximum bytes of a response that are read and not yet sent. The minimum, with many clients, is [`PIECE_MIN`].
const BUFFER: u64 = 64 << 10;
/// If the client has room for fewer than [`FEW`] bytes, wait [`LITTLE`] for more room: otherwise a client that frees
/// room byte by byte would receive one frame per byte.
const FEW: usize = 1 << 10;
const LITTLE: Duration = Duration::from_millis(5);
/// How long the last response is assumed to be in transit.
const AFTERWARDS: Duration = Duration::from_secs(1);

struct Peer<'a> {
    shared: &'a Shared,
    visit: &'a Visit,
    /// Limits the number of requests that are answered at once.
    turns: Semaphore,
}

/// The state of a connection besides its responses.
struct Course<'a> {
    look: Interval,
    /// When the last response was finished, or the connection was made.
    since: Instant,
    /// The time at which the client was informed that no more requests are accepted.
    parting: Option<Instant>,
    answering: Option<BusyGuard<'a>>,
}

/// Serves a client until it disconnects, or sends no request for too long. The caller keeps the returned guard until
/// the connection is closed.
pub(super) async fn serve<'a>(
    shared: &'a Shared,
    io: impl AsyncRead + AsyncWrite + Unpin,
    visit: &'a Visit,
) -> Option<BusyGuard<'a>> {
    let requests = shared.service.limits.requests.clamp(1, 1 << 12);
    let buffer = (visit.share() / requests as u64).clamp(PIECE_MIN, BUFFER);
    let most = (requests * WAITING).max(WAITING_MIN);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(most as u32)
        .max_header_list_size(HEAD_MAX as u32)
        .max_send_buffer_size(buffer as usize);
    let mut connection = within_idle_timeout(shared, builder.handshake(io)).await?.ok()?;
    let peer = Peer { shared, visit, turns: Semaphore::new(requests) };
    peer.drive(&mut connection, most).await
}

impl<'a> Peer<'a> {
    /// Accepts and answers requests, at most `most` at a time.
    async fn drive<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut Connection<T, Bytes>,
        most: usize,
    ) -> Option<BusyGuard<'a>> {
        let mut course = Course::new();
        let mut answers: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        poll_fn(|context| {
            loop {
                answers.retain_mut(|answer| answer.as_mut().poll(context).is_pending());
                if course.is_over(self.shared, connection, !answers.is_empty(), context) {
                    return Poll::Ready(());
                }
                if answers.len() >= most {
                    // A client that resets its streams and opens new ones has to wait.
                    return connection.poll_closed(context).map(|_| ());
                }
                match ready!(connection.poll_accept(context)) {
                    Some(Ok((_, mut respond))) if course.parting.is_some() => {
                        respond.send_reset(Reason::REFUSED_STREAM);
                    }
                    Some(Ok((request, respond))) => {
                        course.answering.get_or_insert_with(|| self.shared.answering());
                        answers.push(Box::pin(self.reply(request, respond)));
                    }
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
        })
        .await;
        course.answering
    }

    /// Answers one request.
    async fn reply(&self, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        if poll_fn(|context| Poll::Ready(respond.poll_reset(context).is_ready())).await {
            return;
        }
        let (parts, body) = request.into_parts();
        let request = read(&parts).filter(|_| body.is_end_stream());
        let _response = self.visit.begin_response();
        let answer = self.shared.answer(request.as_ref());
        let is_head = request.as_ref().is_some_and(|r| r.method == "HEAD");
        let name = request.as_ref().and_then(Request::name).unwrap_or_default();
        let mut telling = Telling { visit: self.visit, name, sent: 0, done: RequestOutcome::Left };
        let is_whole = is_head || answer.len() == 0;
        let Ok(mut stream) = respond.send_response(head(&answer), is_whole) else { return };
        let done = match is_whole {
            true => Ok(()),
            false => self.send(&mut stream, &answer, &mut telling.sent).await,
        };
        telling.done = answer.done(&done);
        match done {
            Ok(()) => {}
            Err(Unsent::Client(_)) => stream.send_reset(Reason::CANCEL),
            Err(Unsent::File(_)) => stream.send_reset(Reason::INTERNAL_ERROR),
        }
    }

    /// Sends a body. `sent` counts its bytes.
    async fn send(
        &self,
        stream: &mut SendStream<Bytes>,
        answer: &Answer,
        sent: &mut u64,
    ) -> Result<(), Unsent> {
        let len = answer.len();
        while *sent < len {
            let piece = self.visit.piece().min(len - *sent);
            let count = self.room(stream, piece as usize).await?;
            let delay = self.visit.delay(count as u64);
            if !delay.is_zero() {
                sleep(delay).await;
            }
            let mut bytes = vec![0; count];
            answer.read(*sent, &mut bytes).map_err(Unsent::File)?;
            let end = *sent + count as u64;
            stream.send_data(bytes.into(), end == len).map_err(io::Error::other)?;
            *sent = end;
            self.visit.sent(count as u64);
        }
        Ok(())
    }

    /// Waits until the client has room for at least one byte, and returns how many bytes may be sent now, at most
    /// `most`.
    async fn room(&self, stream: &mut SendStream<Bytes>, most: usize) -> io::Result<usize> {
        stream.reserve_capacity(most);
        let idle_timeout = self.shared.service.limits.idle_timeout;
        let waited = timeout(idle_timeout, has_room(stream, 1)).await;
        waited.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let enough = FEW.min(most);
        if stream.capacity() < enough
            && let Ok(waited) = timeout(LITTLE, has_room(stream, enough)).await
        {
            waited?;
        }
        Ok(stream.capacity().min(most))
    }
}

/// Waits until the client has room for at least `least` bytes.
async fn has_room(stream: &mut SendStream<Bytes>, least: usize) -> io::Result<()> {
    poll_fn(|context| {
        while stream.capacity() < least {
            match ready!(stream.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(e)) => return Poll::Ready(Err(io::Error::other(e))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

impl Course<'_> {
    fn new() -> Self {
        let mut look = interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Course { look, since: Instant::now(), parting: None, answering: None }
    }

    /// Checks a connection for idleness and shutdown, every [`POLL_INTERVAL`]. Returns `true` if it is to be closed.
    fn is_over<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        shared: &Shared,
        connection: &mut Connection<T, Bytes>,
        is_busy: bool,
        context: &mut Context<'_>,
    ) -> bool {
        let mut looks = false;
        while self.look.poll_tick(context).is_ready() {
            looks = true;
        }
        let now = Instant::now();
        if is_busy {
            self.since = now;
        }
        let idle = now - self.since;
        let ends = shared.is_ending() || idle >= shared.service.limits.idle_timeout;
        if looks && ends && self.parting.is_none() {
            connection.graceful_shutdown();
            self.parting = Some(now);
        }
        match self.parting {
            Some(at) => !is_busy && now - self.since.max(at) >= CLOSE_TIMEOUT,
            None => {
                if idle >= AFTERWARDS {
                    self.answering = None;
                }
                false
            }
        }
    }
}

/// Returns the request of a stream; `None` if it is not valid.
fn read(parts: &http::request::Parts) -> Option<Request<'_>> {
    let host = parts.uri.authority().map(|authority| ("host", authority.as_str()));
    let mut headers: Vec<(&str, &str)> = host.into_iter().collect();
    for (name, value) in &parts.headers {
        headers.push((name.as_str(), std::str::from_utf8(value.as_bytes()).ok()?));
    }
    Request::new(parts.method.as_str(), parts.uri.path_and_query()?.as_str(), headers)
}

/// Returns the status and headers of a response.
fn head(answer: &Answer) -> Response<()> {
    let mut head = Response::new(());
    let status = StatusCode::from_u16(answer.status);
    *head.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers() {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            head.headers_mut().append(name, value);
        }
    }
    head
}

/// Logs how a request ended, even if its future is dropped in the middle.
struct Telling<'a> {
    visit: &'a Visit,
    name: String,
    sent: u64,
    done: RequestOutcome,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.visit.log_request(&self.name, self.sent, self.done);
    }
}
