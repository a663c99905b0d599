//! A server on this computer for this computer: the page, and the files that were named, by ranges.
//!
//! Everything is below a token that nobody can guess, and only for who asks it by an address of the loopback: a page of
//! another site, or another name that leads here, gets nothing.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// The files of the page, and what they are.
pub(super) const PAGE: [(&str, &str); 4] = [
    ("open.html", "text/html; charset=utf-8"),
    ("viewer.css", "text/css; charset=utf-8"),
    ("viewer.js", "text/javascript; charset=utf-8"),
    ("core.js", "text/javascript; charset=utf-8"),
];
/// What the page may do: ask this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; \
     style-src 'self'; img-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Bytes of a request's head.
const HEAD: u64 = 16 << 10;
/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// How long somebody may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Server {
    listener: TcpListener,
    site: Arc<Site>,
}

/// What is served.
struct Site {
    token: String,
    port: u16,
    page: PathBuf,
    files: Vec<Served>,
    open: AtomicUsize,
}

struct Served {
    path: PathBuf,
    /// Its name in the address.
    name: String,
    len: u64,
    tag: String,
}

/// A request, as far as it matters.
struct Request {
    is_head: bool,
    path: String,
    host: String,
    range: Option<String>,
    if_range: Option<String>,
    closes: bool,
}

impl Server {
    pub(super) fn new(page: &Path, files: &[PathBuf], port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let files = files.iter().map(|path| served(path)).collect::<io::Result<_>>()?;
        let page = page.to_owned();
        let site = Site { token: token(), port, page, files, open: AtomicUsize::new(0) };
        Ok(Server { listener, site: Arc::new(site) })
    }

    /// Where the page shows the files.
    pub(super) fn address(&self) -> String {
        let Site { token, port, files, .. } = &*self.site;
        let of = |at: usize| files.get(at).map(|file| format!("/{token}/{at}/{}", file.name));
        let mut out = format!("http://127.0.0.1:{port}/{token}/open.html#");
        for (key, address) in [("url", of(0)), ("with", of(1))] {
            if let Some(address) = address {
                // Only what a name may have needs to be escaped once more.
                let address = address.replace('%', "%25");
                out.push_str(&format!("{}{key}={address}", if key == "url" { "" } else { "&" }));
            }
        }
        out
    }

    /// Answers until the process ends.
    pub(super) fn serve(&self) -> io::Result<()> {
        for stream in self.listener.incoming() {
            // One that is gone already is nobody's concern.
            let Ok(stream) = stream else { continue };
            if !stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
                continue;
            }
            let site = Arc::clone(&self.site);
            if site.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                site.open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            std::thread::spawn(move || {
                // Who goes away in the middle is not told.
                let _ = site.talk(&stream);
                site.open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok(())
    }
}

impl Site {
    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = request(&mut reader)? {
            self.answer(&request, stream)?;
            if request.closes {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request, stream: &TcpStream) -> io::Result<()> {
        let refused = |status| head(stream, status, &[("Content-Length", "0")]);
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !hosts.contains(&request.host) {
            return refused("421 Misdirected Request");
        }
        let below = request.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((_, path)) = below.filter(|(token, _)| same(token, &self.token)) else {
            return refused("404 Not Found");
        };
        if let Some((name, kind)) = PAGE.iter().find(|(name, _)| *name == path) {
            let bytes = std::fs::read(self.page.join(name))?;
            let len = bytes.len().to_string();
            head(stream, "200 OK", &[("Content-Type", kind), ("Content-Length", &len)])?;
            return if request.is_head { Ok(()) } else { (&*stream).write_all(&bytes) };
        }
        let number = path.split_once('/').and_then(|(number, _)| number.parse::<usize>().ok());
        match number.and_then(|number| self.files.get(number)) {
            Some(file) => file.answer(request, stream),
            None => refused("404 Not Found"),
        }
    }
}

impl Served {
    fn answer(&self, request: &Request, mut stream: &TcpStream) -> io::Result<()> {
        // A range of another file is none of this one.
        let is_same = request.if_range.as_ref().is_none_or(|tag| *tag == self.tag);
        let wanted = request.range.as_deref().filter(|_| is_same).and_then(range);
        let (start, end) = match wanted {
            None => (0, self.len),
            Some((None, last)) => (self.len.saturating_sub(last.unwrap_or(0)), self.len),
            Some((Some(first), last)) => {
                (first, last.map_or(self.len, |last| self.len.min(last.saturating_add(1))))
            }
        };
        if wanted.is_some() && start >= end {
            let all = format!("bytes */{}", self.len);
            return head(
                stream,
                "416 Range Not Satisfiable",
                &[("Content-Range", &all), ("Content-Length", "0")],
            );
        }
        let len = (end - start).to_string();
        let place = format!("bytes {start}-{}/{}", end.saturating_sub(1), self.len);
        let mut fields = vec![
            ("Content-Type", "application/octet-stream"),
            ("Content-Length", &*len),
            ("Accept-Ranges", "bytes"),
            ("ETag", &*self.tag),
        ];
        let status = match wanted {
            Some(_) => {
                fields.push(("Content-Range", &*place));
                "206 Partial Content"
            }
            None => "200 OK",
        };
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(start))?;
        head(stream, status, &fields)?;
        if request.is_head {
            return Ok(());
        }
        let sent = io::copy(&mut file.take(end - start), &mut stream)?;
        // The file was cut: the connection ends, so that nobody takes less for all.
        if sent < end - start { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

fn served(path: &Path) -> io::Result<Served> {
    let about = File::open(path)?.metadata()?;
    let since = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let tag = format!("\"{:x}-{:x}\"", about.len(), since.unwrap_or_default().as_nanos());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(Served { path: path.to_owned(), name: escaped, len: about.len(), tag })
}

/// 128 bits that nobody can guess: hashes under a secret that the system gave.
fn token() -> String {
    let secret = RandomState::new();
    format!("{:016x}{:016x}", secret.hash_one(1), secret.hash_one(2))
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// `bytes=1-2`: the first and the last; of `bytes=-2` only how many at the end. Several ranges are none.
fn range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok().map(Some),
        _ => None,
    };
    let both = (number(first)?, number(last)?);
    match both {
        (None, None) => None,
        (Some(first), Some(last)) if last < first => None,
        both => Some(both),
    }
}

fn head(mut stream: &TcpStream, status: &str, fields: &[(&str, &str)]) -> io::Result<()> {
    let mut out = format!("HTTP/1.1 {status}\r\n");
    let always = [
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", POLICY),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    for (name, value) in fields.iter().chain(&always) {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str("\r\n");
    stream.write_all(out.as_bytes())
}

/// The next request; none where there is no other.
fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut limited = reader.by_ref().take(HEAD);
    let mut line = String::new();
    let mut next = |line: &mut String| -> io::Result<bool> {
        line.clear();
        let len = limited.read_line(line)?;
        if len > 0 && !line.ends_with('\n') {
            return Err(io::ErrorKind::InvalidData.into());
        }
        line.truncate(line.trim_end().len());
        Ok(len > 0)
    };
    if !next(&mut line)? {
        return Ok(None);
    }
    let mut parts = line.split(' ');
    let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let mut out =
        Request { is_head, path, host: String::new(), range: None, if_range: None, closes: false };
    loop {
        if !next(&mut line)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.is_empty() {
            return Ok(Some(out));
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim().to_owned();
        match name.to_ascii_lowercase().as_str() {
            "host" => out.host = value,
            "range" => out.range = Some(value),
            "if-range" => out.if_range = Some(value),
            "connection" => out.closes = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
}
