//! HTTP/1.1: one request after the other, each with its response.

use super::answer::Answer;
use super::request::{HEAD_MAX, Request};
use super::server::{POLL_INTERVAL, Shared, Unsent, close_after, is_timeout};
use crate::service::Visit;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Serves a client until it sends no more requests, or an invalid one.
pub(super) fn serve(shared: &Shared, stream: &TcpStream, visit: &Visit) -> io::Result<()> {
    prepare(shared, stream)?;
    converse(shared, &mut &*stream, visit)?;
    close_after(stream, POLL_INTERVAL)?;
    stream.shutdown(Shutdown::Both)
}

/// Serves a client over TLS, like [`serve`].
#[cfg(feature = "http2")]
pub(super) fn serve_secure(
    shared: &Shared,
    mut stream: rustls::StreamOwned<rustls::ServerConnection, TcpStream>,
    visit: &Visit,
) -> io::Result<()> {
    prepare(shared, &stream.sock)?;
    converse(shared, &mut stream, visit)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    close_after(&stream.sock, POLL_INTERVAL)
}

/// Sends 503: the server has its maximum number of clients.
pub(super) fn refuse(stream: &TcpStream) -> io::Result<()> {
    let answer = Answer::text(503, "too many clients\n");
    tell(stream, &answer)
}

/// Tells a client that plain text is refused, without reading its request.
pub(super) fn refuse_plain(shared: &Shared, stream: &TcpStream, visit: &Visit) -> io::Result<()> {
    prepare(shared, stream)?;
    let answer = Answer::plain();
    let sent = tell(stream, &answer).map_err(Unsent::Client);
    visit.log_request("", 0, answer.done(&sent));
    close_after(stream, POLL_INTERVAL)
}

fn tell(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(POLL_INTERVAL))?;
    let mut text = vec![0; answer.len() as usize];
    answer.read(0, &mut text).map_err(io::Error::other)?;
    stream.write_all(head(answer, false).as_bytes())?;
    stream.write_all(&text)
}

fn prepare(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    stream.set_write_timeout(Some(shared.service.limits.idle_timeout))
}

fn converse(shared: &Shared, stream: &mut (impl Read + Write), visit: &Visit) -> io::Result<()> {
    let mut held = Vec::new();
    while let Some(len) = next(shared, stream, &mut held)? {
        let answering = shared.answering();
        let goes_on = reply(shared, stream, visit, held.get(..len).unwrap_or_default())?;
        drop(answering);
        if !goes_on {
            break;
        }
        held.drain(..len);
    }
    Ok(())
}

/// Reads until `held` contains a whole request head and returns its length; `None` if no request arrives. If no head
/// ends within [`HEAD_MAX`] bytes, returns the number of bytes read: parsing them fails.
fn next(shared: &Shared, stream: &mut impl Read, held: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let until = Instant::now() + shared.service.limits.idle_timeout;
    let mut part = [0; 4096];
    loop {
        let end = held.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
        if let Some(len) = end.or((held.len() >= HEAD_MAX).then_some(held.len())) {
            return Ok(Some(len));
        }
        if shared.is_ending() || Instant::now() >= until {
            return Ok(None);
        }
        match stream.read(&mut part) {
            Ok(0) => return Ok(None),
            Ok(n) => held.extend_from_slice(part.get(..n).unwrap_or_default()),
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Answers one request. Returns whether another may follow on this connection.
fn reply(
    shared: &Shared,
    stream: &mut impl Write,
    visit: &Visit,
    asked: &[u8],
) -> io::Result<bool> {
    let request = if asked.len() > HEAD_MAX { None } else { Request::parse(asked) };
    let _response = visit.begin_response();
    let answer = shared.answer(request.as_ref());
    let goes_on = request.as_ref().is_some_and(|r| r.goes_on) && !shared.is_ending();
    let is_head = request.as_ref().is_some_and(|r| r.method == "HEAD");
    let mut sent = 0;
    let done = send(stream, visit, &answer, goes_on, is_head, &mut sent);
    let name = request.as_ref().and_then(Request::name).unwrap_or_default();
    visit.log_request(&name, sent, answer.done(&done));
    match done {
        Ok(()) => Ok(goes_on),
        Err(Unsent::Client(e)) => Err(e),
        // The status line was sent already: the client learns of the error from the missing bytes.
        Err(Unsent::File(_)) => Ok(false),
    }
}

/// Sends a response. `sent` counts the bytes of its body.
fn send(
    stream: &mut impl Write,
    visit: &Visit,
    answer: &Answer,
    goes_on: bool,
    is_head: bool,
    sent: &mut u64,
) -> Result<(), Unsent> {
    stream.write_all(head(answer, goes_on).as_bytes())?;
    let len = if is_head { 0 } else { answer.len() };
    // The buffer is reused for each piece.
    let mut memory = vec![0; visit.piece().min(len) as usize];
    while *sent < len {
        let count = (memory.len() as u64).min(visit.piece()).min(len - *sent);
        let piece = memory.get_mut(..count as usize).unwrap_or_default();
        std::thread::sleep(visit.delay(count));
        answer.read(*sent, piece).map_err(Unsent::File)?;
        stream.write_all(piece)?;
        *sent += count;
        visit.sent(count);
    }
    Ok(stream.flush()?)
}

/// Returns the status line and headers of a response.
fn head(answer: &Answer, goes_on: bool) -> String {
    let words = match answer.status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let mut head = format!("HTTP/1.1 {} {words}\r\n", answer.status);
    let connection = if goes_on { "keep-alive" } else { "close" };
    for (name, value) in answer.headers().chain([("Connection", connection.into())]) {
        for part in [name, ": ", &value, "\r\n"] {
            head.push_str(part);
        }
    }
    head.push_str("\r\n");
    head
}
