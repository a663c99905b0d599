//! The start of a connection: detects TLS or plain text, and HTTP/1.1 or HTTP/2.

use super::answer::Answer;
use super::server::{LOOK, PARTING, PlainHttp, Shared, Unsent, is_passing, part_with};
use super::{http1, http2};
use crate::service::Visit;
use crate::wait;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The protocols offered over TLS (ALPN), most preferred first.
pub(super) const PROTOCOLS: &[&[u8]] = &[HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// The first bytes of every HTTP/2 connection. No HTTP/1.1 request starts with them.
const PREFACE: &[u8] = b"PRI";
/// An empty SETTINGS frame and a GOAWAY frame: no stream was processed, `INADEQUATE_SECURITY` (RFC 9113, 6.8 and 7).
const INADEQUATE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0c";
/// The first byte of a TLS connection: the type of a handshake record.
const HANDSHAKE: u8 = 22;
/// How long to wait for more bytes from a client that has sent only a part of [`PREFACE`].
const PAUSE: Duration = Duration::from_millis(10);

enum First {
    Tls,
    Http2,
    Other,
}

/// Serves a client in the protocol that it speaks.
pub(super) fn serve(shared: &Shared, stream: TcpStream, visit: &Visit) -> io::Result<()> {
    match (first(shared, &stream)?, &shared.tls) {
        (None, _) => Ok(()),
        (Some(First::Tls), Some(tls)) => secure(shared, stream, visit, tls),
        (Some(First::Http2), _) if shared.plain == PlainHttp::Refuse => refuse(&stream, visit),
        (Some(_), _) if shared.plain == PlainHttp::Refuse => {
            http1::refuse_plain(shared, &stream, visit)
        }
        (Some(First::Http2), _) => plain(shared, stream, visit),
        (Some(_), _) => http1::serve(shared, &stream, visit),
    }
}

/// Detects the protocol from the first bytes, without consuming them. Returns `None` if the client sends none in time.
fn first(shared: &Shared, stream: &TcpStream) -> io::Result<Option<First>> {
    let until = Instant::now() + shared.service.limits.idle_timeout;
    stream.set_read_timeout(Some(LOOK))?;
    let mut bytes = [0; PREFACE.len()];
    while !shared.is_ending() && Instant::now() < until {
        match stream.peek(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => match bytes.get(..n).unwrap_or_default() {
                [HANDSHAKE, ..] => return Ok(Some(First::Tls)),
                PREFACE => return Ok(Some(First::Http2)),
                part if PREFACE.starts_with(part) => std::thread::sleep(PAUSE),
                _ => return Ok(Some(First::Other)),
            },
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Tells an HTTP/2 client that plain text is refused, without reading its requests.
fn refuse(mut stream: &TcpStream, visit: &Visit) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let sent = stream.write_all(INADEQUATE).map_err(Unsent::Client);
    visit.log_request("", 0, Answer::plain().done(&sent));
    part_with(stream, LOOK)
}

/// Serves HTTP/2 without TLS.
fn plain(shared: &Shared, stream: TcpStream, visit: &Visit) -> io::Result<()> {
    let end = stream.try_clone()?;
    let answering = done(async { Ok(http2::serve(shared, waiting(stream)?, visit).await) })?;
    part(&end)?;
    drop(answering);
    Ok(())
}

/// Serves a client over TLS, in the HTTP version that the handshake selected.
fn secure(
    shared: &Shared,
    stream: TcpStream,
    visit: &Visit,
    tls: &Arc<ServerConfig>,
) -> io::Result<()> {
    let end = stream.try_clone()?;
    let begun = done(async {
        let accepting = TlsAcceptor::from(Arc::clone(tls)).accept(waiting(stream)?);
        let Some(stream) = in_time(shared, accepting).await else { return Ok(Begun::Ended) };
        let stream = stream?;
        if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
            return Ok(Begun::Http2(http2::serve(shared, stream, visit).await));
        }
        let (stream, session) = stream.into_inner();
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        Ok(Begun::Http1(Box::new(StreamOwned::new(session, stream))))
    })?;
    match begun {
        Begun::Ended => Ok(()),
        Begun::Http2(answering) => {
            part(&end)?;
            drop(answering);
            Ok(())
        }
        Begun::Http1(stream) => http1::serve_secure(shared, *stream, visit),
    }
}

/// The state after a TLS handshake.
enum Begun<A> {
    Ended,
    Http1(Box<StreamOwned<ServerConnection, TcpStream>>),
    Http2(A),
}

/// Runs a future to completion on this thread.
fn done<T>(doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    wait::wait(&wait::shared().map_err(io::Error::other)?, doing)
}

/// Turns a blocking socket into one of tokio's.
fn waiting(stream: TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

/// Closes a connection that was used asynchronously.
fn part(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    part_with(stream, PARTING)
}

/// Waits for something the client has to do. Returns `None` if that takes longer than
/// [`ServerLimits::idle_timeout`](crate::ServerLimits::idle_timeout), or if the server is stopped.
pub(super) async fn in_time<T>(shared: &Shared, doing: impl Future<Output = T>) -> Option<T> {
    let until = Instant::now() + shared.service.limits.idle_timeout;
    let mut doing = pin!(doing);
    while !shared.is_ending() && Instant::now() < until {
        if let Ok(out) = timeout(LOOK, doing.as_mut()).await {
            return Some(out);
        }
    }
    None
}
