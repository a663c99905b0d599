//! What a client begins with: TLS or plain text, HTTP/1.1 or HTTP/2.

use super::server::{LOOK, PARTING, Shared, is_passing, part_with};
use super::{http1, http2};
use crate::service::Visit;
use crate::wait;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io;
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
        (Some(First::Http2), _) => plain(shared, stream, visit),
        (Some(First::Tls), Some(tls)) => secure(shared, stream, visit, tls),
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
