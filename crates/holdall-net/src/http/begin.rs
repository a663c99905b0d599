//! The start of a connection: detects TLS or plain text, and HTTP/1.1 or HTTP/2.

use super::answer::Answer;
use super::server::{
    CLOSE_TIMEOUT, POLL_INTERVAL, PlainHttp, Shared, Unsent, close_after, is_timeout,
};
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
/// The time to wait for more bytes from a client that has sent only a part of [`PREFACE`].
const PAUSE: Duration = Duration::from_millis(10);

/// The protocol that the first bytes of a connection belong to.
enum FirstBytes {
    Tls,
    Http2,
    Other,
}

/// Serves a client in the protocol that it speaks.
pub(super) fn serve(shared: &Shared, stream: TcpStream, visit: &Visit) -> io::Result<()> {
    match (detect_protocol(shared, &stream)?, &shared.tls) {
        (None, _) => Ok(()),
        (Some(FirstBytes::Tls), Some(tls)) => serve_tls(shared, stream, visit, tls),
        (Some(FirstBytes::Http2), _) if shared.plain == PlainHttp::Refuse => {
            refuse_http2(&stream, visit)
        }
        (Some(_), _) if shared.plain == PlainHttp::Refuse => {
            http1::refuse_plain(shared, &stream, visit)
        }
        (Some(FirstBytes::Http2), _) => serve_http2(shared, stream, visit),
        (Some(_), _) => http1::serve(shared, &stream, visit),
    }
}

/// Detects the protocol from the first bytes, without consuming them. Returns `None` if the client sends none in time.
fn detect_protocol(shared: &Shared, stream: &TcpStream) -> io::Result<Option<FirstBytes>> {
    let until = Instant::now() + shared.service.limits.idle_timeout;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let mut bytes = [0; PREFACE.len()];
    while !shared.is_ending() && Instant::now() < until {
        match stream.peek(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => match bytes.get(..n).unwrap_or_default() {
                [HANDSHAKE, ..] => return Ok(Some(FirstBytes::Tls)),
                PREFACE => return Ok(Some(FirstBytes::Http2)),
                part if PREFACE.starts_with(part) => std::thread::sleep(PAUSE),
                _ => return Ok(Some(FirstBytes::Other)),
            },
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Tells an HTTP/2 client that plain text is refused, without reading its requests.
fn refuse_http2(mut stream: &TcpStream, visit: &Visit) -> io::Result<()> {
    stream.set_write_timeout(Some(POLL_INTERVAL))?;
    let sent = stream.write_all(INADEQUATE).map_err(Unsent::Client);
    visit.log_request("", 0, Answer::plain().done(&sent));
    close_after(stream, POLL_INTERVAL)
}

/// Serves HTTP/2 without TLS.
fn serve_http2(shared: &Shared, stream: TcpStream, visit: &Visit) -> io::Result<()> {
    let end = stream.try_clone()?;
    let answering = block_on(async { Ok(http2::serve(shared, into_tokio(stream)?, visit).await) })?;
    close_async(&end)?;
    drop(answering);
    Ok(())
}

/// Serves a client over TLS, in the HTTP version that the handshake selected.
fn serve_tls(
    shared: &Shared,
    stream: TcpStream,
    visit: &Visit,
    tls: &Arc<ServerConfig>,
) -> io::Result<()> {
    let end = stream.try_clone()?;
    let begun = block_on(async {
        let accepting = TlsAcceptor::from(Arc::clone(tls)).accept(into_tokio(stream)?);
        let Some(stream) = within_idle_timeout(shared, accepting).await else {
            return Ok(Handshake::Ended);
        };
        let stream = stream?;
        if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
            return Ok(Handshake::Http2(http2::serve(shared, stream, visit).await));
        }
        let (stream, session) = stream.into_inner();
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        Ok(Handshake::Http1(Box::new(StreamOwned::new(session, stream))))
    })?;
    match begun {
        Handshake::Ended => Ok(()),
        Handshake::Http2(answering) => {
            close_async(&end)?;
            drop(answering);
            Ok(())
        }
        Handshake::Http1(stream) => http1::serve_secure(shared, *stream, visit),
    }
}

/// The state after a TLS handshake.
enum Handshake<A> {
    Ended,
    Http1(Box<StreamOwned<ServerConnection, TcpStream>>),
    Http2(A),
}

/// Runs a future to completion on this thread.
fn block_on<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    wait::wait(&wait::shared().map_err(io::Error::other)?, future)
}

/// Turns a blocking socket into one of tokio's.
fn into_tokio(stream: TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

/// Closes a connection that was used asynchronously.
fn close_async(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    close_after(stream, CLOSE_TIMEOUT)
}

/// Awaits a future that depends on the client. Returns `None` if that takes longer than
/// [`ServerLimits::idle_timeout`](crate::ServerLimits::idle_timeout), or if the server is stopped.
pub(super) async fn within_idle_timeout<T>(
    shared: &Shared,
    future: impl Future<Output = T>,
) -> Option<T> {
    let until = Instant::now() + shared.service.limits.idle_timeout;
    let mut future = pin!(future);
    while !shared.is_ending() && Instant::now() < until {
        if let Ok(out) = timeout(POLL_INTERVAL, future.as_mut()).await {
            return Some(out);
        }
    }
    None
}
