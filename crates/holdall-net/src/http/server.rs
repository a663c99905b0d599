//! Connections.

use super::answer::{Answer, Body, Ways};
use super::request::{HEAD_MAX, Request};
use crate::meter::By;
use crate::rules::LISTEN;
use crate::service::{Service, Visit};
use crate::shelf::Done;
use holdall_core::{Error, Result};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How files are served over HTTP.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Which pages in browsers may read what is served: those of this origin, or of all (`*`); none without.
    pub cors: Option<String>,
    /// Headers that every answer has besides its own: names and values.
    pub headers: Vec<(&'static str, &'static str)>,
}

/// Serves files over HTTP/1.1, on threads of its own, until it is stopped or dropped.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    service: Service,
    options: HttpOptions,
    is_loopback: bool,
    is_ending: AtomicBool,
    /// Requests that are answered now.
    answering: AtomicUsize,
}

/// The longest that what a client still sends is taken when all is said.
const PARTING: Duration = Duration::from_secs(2);
/// How often who waits for a client looks whether the server ends.
const LOOK: Duration = Duration::from_millis(200);

impl HttpServer {
    /// Serves at `listen`.
    ///
    /// # Errors
    /// `net/listen`.
    pub fn start(service: Service, listen: SocketAddr, options: HttpOptions) -> Result<HttpServer> {
        let failed =
            |e: io::Error| LISTEN.broken(format!("nobody can listen at {listen} (TCP)")).because(e);
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            service,
            options,
            is_loopback: address.ip().is_loopback(),
            is_ending: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
        });
        let own = Arc::clone(&shared);
        let accept = move || accept(&listener, &own);
        let thread = std::thread::Builder::new().name("holdall-http".to_owned()).spawn(accept);
        Ok(HttpServer { address, shared, listener: Some(thread.map_err(failed)?) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more clients and requests, waits for the answers that are on their way for at most so long, and ends.
    pub fn stop(mut self, patience: Duration) {
        self.end();
        let until = Instant::now() + patience;
        while self.shared.answering.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }

    fn end(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        if let Some(listener) = self.listener.take() {
            // It waits for a client: this is one. Where none can be, it ends with the process.
            if TcpStream::connect_timeout(&self.address, LOOK).is_ok() {
                let _ = listener.join();
            }
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_ending() {
            return;
        }
        let Ok(stream) = stream else {
            // No more files may be open, for example: later there may be.
            std::thread::sleep(LOOK);
            continue;
        };
        let own = Arc::clone(shared);
        let Ok(peer) = stream.peer_addr() else { continue };
        let Some(visit) = shared.service.enter(By::Http, peer) else {
            let _ = refuse(&stream);
            continue;
        };
        let serve = move || {
            // A client that goes away is no reason to complain.
            let _ = own.converse(&stream, &visit).and_then(|()| part_with(&stream));
            let _ = stream.shutdown(Shutdown::Both);
        };
        // Where there are no more threads, the client is gone with what would have served it.
        let _ = std::thread::Builder::new().name("holdall-http".to_owned()).spawn(serve);
    }
}

/// Tells a client that there are enough of them.
fn refuse(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    let answer = Answer::text(503, "there are as many clients as this server takes\n");
    stream.write_all(answer.head(false).as_bytes())?;
    match answer.body {
        Body::Text(text) => stream.write_all(text.as_bytes()),
        Body::File(..) => Ok(()),
    }
}

/// Ends a connection on which all is said. Who still sends gets the answer nevertheless: closing with bytes unread would
/// take it back.
fn part_with(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + PARTING;
    let (mut part, mut left) = ([0; 4096], 4 * HEAD_MAX);
    while left > 0 && Instant::now() < until {
        match stream.read(&mut part)? {
            0 => break,
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

impl Shared {
    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Answers one request after the other.
    fn converse(&self, stream: &TcpStream, visit: &Visit) -> io::Result<()> {
        let patience = self.service.bounds.patience;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(patience))?;
        let mut held = Vec::new();
        while let Some(len) = self.head(stream, &mut held)? {
            self.answering.fetch_add(1, Ordering::AcqRel);
            let done = self.reply(stream, visit, held.get(..len).unwrap_or_default());
            self.answering.fetch_sub(1, Ordering::AcqRel);
            if !done? {
                break;
            }
            held.drain(..len);
        }
        Ok(())
    }

    /// The length of the next head, once it is in `held`; nothing, where none comes. One that is too long is as long as may
    /// be, and none.
    fn head(&self, mut stream: &TcpStream, held: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let until = Instant::now() + self.service.bounds.patience;
        let mut part = [0; 4096];
        loop {
            let end = held.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
            if let Some(len) = end.or((held.len() >= HEAD_MAX).then_some(held.len())) {
                return Ok(Some(len));
            }
            if self.is_ending() || Instant::now() >= until {
                return Ok(None);
            }
            match stream.read(&mut part) {
                Ok(0) => return Ok(None),
                Ok(n) => held.extend_from_slice(part.get(..n).unwrap_or_default()),
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Answers one request; whether another may follow.
    fn reply(&self, stream: &TcpStream, visit: &Visit, head: &[u8]) -> io::Result<bool> {
        let request = if head.len() > HEAD_MAX { None } else { Request::parse(head) };
        let ways =
            Ways { service: &self.service, options: &self.options, is_loopback: self.is_loopback };
        let _answers = visit.answers();
        let answer = ways.answer(request.as_ref());
        let goes_on = request.as_ref().is_some_and(|r| r.goes_on) && !self.is_ending();
        let is_head = request.as_ref().is_some_and(|r| r.method == "HEAD");
        let mut sent = 0;
        let done = send(stream, visit, &answer, goes_on, is_head, &mut sent);
        let name = request.as_ref().and_then(Request::name).unwrap_or_default();
        let how = match (&done, answer.refused) {
            (Err(Unsent::File(e)), _) => Done::Refused(e.code()),
            (Err(Unsent::Client(_)), _) => Done::Left,
            (Ok(()), Some(code)) => Done::Refused(code),
            (Ok(()), None) => Done::Whole,
        };
        visit.tell(&name, sent, how);
        match done {
            Ok(()) => Ok(goes_on),
            Err(Unsent::Client(e)) => Err(e),
            // What is missing of the answer is how the client finds out.
            Err(Unsent::File(_)) => Ok(false),
        }
    }
}

/// Sends an answer; `sent` counts bytes of its body.
fn send(
    mut stream: &TcpStream,
    visit: &Visit,
    answer: &Answer,
    goes_on: bool,
    is_head: bool,
    sent: &mut u64,
) -> Result<(), Unsent> {
    stream.write_all(answer.head(goes_on).as_bytes())?;
    match &answer.body {
        _ if is_head => {}
        Body::Text(text) => {
            stream.write_all(text.as_bytes())?;
            *sent += text.len() as u64;
            visit.sent(*sent);
        }
        Body::File(file, range) => {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + visit.piece());
                std::thread::sleep(visit.delay(end - start));
                let bytes = file.read(start..end).map_err(Unsent::File)?;
                stream.write_all(&bytes)?;
                *sent += end - start;
                visit.sent(end - start);
                start = end;
            }
        }
    }
    Ok(())
}

/// Why an answer was not sent whole.
enum Unsent {
    Client(io::Error),
    File(Error),
}

impl From<io::Error> for Unsent {
    fn from(e: io::Error) -> Unsent {
        Unsent::Client(e)
    }
}

fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(e.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}
