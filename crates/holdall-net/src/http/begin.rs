//! What a client begins with: TLS or plain text, HTTP/1.1 or HTTP/2.

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

/// What is spoken over TLS, the dearest first.
pub(super) const PROTOCOLS: &[&[u8]] = &[HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// What every connection of HTTP/2 begins with, and no other.
const PREFACE: &[u8] = b"PRI";
/// No settings, and the end: no stream was looked at, `INADEQUATE_SECURITY` (RFC 9113, 6.8 and 7).
const INADEQUATE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0c";
/// The first byte of TLS: a record of the handshake.
const HANDSHAKE: u8 = 22;
/// How long one who has sent a byte or two is left to send more.
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

/// What the first bytes are of, which are left where they are; nothing, where none come.
fn first(shared: &Shared, stream: &TcpStream) -> io::Result<Option<First>> {
    let until = Instant::now() + shared.service.bounds.patience;
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

/// Tells a client of HTTP/2 that plain text is not spoken here. What it asks is not looked at.
fn refuse(mut stream: &TcpStream, visit: &Visit) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let told = stream.write_all(INADEQUATE).map_err(Unsent::Client);
    visit.tell("", 0, Answer::plain().done(&told));
    part_with(stream, LOOK)
}

/// HTTP/2 without TLS.
fn plain(shared: &Shared, stream: TcpStream, visit: &Visit) -> io::Result<()> {
    let end = stream.try_clone()?;
    let answering = done(async { Ok(http2::serve(shared, waiting(stream)?, visit).await) })?;
    part(&end)?;
    drop(answering);
    Ok(())
}

/// TLS, and in it whichever was agreed on.
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

/// What came of TLS.
enum Begun<A> {
    Ended,
    Http1(Box<StreamOwned<ServerConnection, TcpStream>>),
    Http2(A),
}

/// What `doing` comes to, which this thread does.
fn done<T>(doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    wait::wait(&wait::shared().map_err(io::Error::other)?, doing)
}

/// A socket that is waited for with others.
fn waiting(stream: TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

/// Ends a connection that was waited for.
fn part(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    part_with(stream, PARTING)
}

/// What comes of something that a client has to do; nothing, where it takes longer than its patience, or the server ends.
pub(super) async fn in_time<T>(shared: &Shared, doing: impl Future<Output = T>) -> Option<T> {
    let until = Instant::now() + shared.service.bounds.patience;
    let mut doing = pin!(doing);
    while !shared.is_ending() && Instant::now() < until {
        if let Ok(out) = timeout(LOOK, doing.as_mut()).await {
            return Some(out);
        }
    }
    None
}
