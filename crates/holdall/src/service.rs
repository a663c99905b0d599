//! Files served over QUIC and HTTP at one port, and what is read to do so: keys, certificates, tokens.

use crate::Result;
use crate::error::io;
use holdall_net::http::{HttpOptions, HttpServer, encoded};
use holdall_net::quic::{Identity, Server};
use holdall_net::rules::{IDENTITY, LISTEN, TOKEN};
use holdall_net::{Bounds, Log, Shelf, Tokens};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Over what files are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Over {
    /// QUIC and HTTP.
    #[default]
    Both,
    /// QUIC alone.
    Quic,
    /// HTTP alone.
    Http,
}

/// How files are served.
#[derive(Clone)]
pub struct ServeOptions {
    listen: SocketAddr,
    over: Over,
    identity: Option<Arc<Identity>>,
    tokens: Tokens,
    bounds: Bounds,
    cors: Option<String>,
    log: Log,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            over: Over::Both,
            identity: None,
            tokens: Tokens::default(),
            bounds: Bounds::default(),
            cors: None,
            log: Arc::new(|_| {}),
        }
    }
}

impl ServeOptions {
    /// To this machine alone, at any port, over both protocols, with a certificate that is made for it, whoever asks.
    pub fn new() -> ServeOptions {
        ServeOptions::default()
    }

    /// Listens there: UDP for QUIC and TCP for HTTP, at the same port; 0 for any.
    pub fn with_listen(mut self, listen: SocketAddr) -> ServeOptions {
        self.listen = listen;
        self
    }

    /// Serves over these protocols.
    pub fn with_over(mut self, over: Over) -> ServeOptions {
        self.over = over;
        self
    }

    /// Shows this certificate.
    pub fn with_identity(mut self, identity: impl Into<Arc<Identity>>) -> ServeOptions {
        self.identity = Some(identity.into());
        self
    }

    /// Asks clients for one of these.
    pub fn with_tokens(mut self, tokens: Tokens) -> ServeOptions {
        self.tokens = tokens;
        self
    }

    /// Lets clients have so much.
    pub fn with_bounds(mut self, bounds: Bounds) -> ServeOptions {
        self.bounds = bounds;
        self
    }

    /// Lets pages of this origin read what is served over HTTP; `*` for all.
    pub fn with_cors(mut self, origin: impl Into<String>) -> ServeOptions {
        self.cors = Some(origin.into());
        self
    }

    /// Tells what was asked for, and how it ended.
    pub fn with_log(mut self, log: Log) -> ServeOptions {
        self.log = log;
        self
    }
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServeOptions { listen, over, tokens, bounds, cors, .. } = self;
        let mut out = f.debug_struct("ServeOptions");
        out.field("listen", listen).field("over", over).field("tokens", tokens);
        out.field("bounds", bounds).field("cors", cors).finish_non_exhaustive()
    }
}

/// Files that are served, until this is stopped or dropped.
pub struct Service {
    address: SocketAddr,
    quic: Option<(Server, Option<String>)>,
    http: Option<HttpServer>,
}

/// Ports that are tried where any will do: one that is free for TCP may be taken for UDP.
const PORTS: usize = 8;

impl Service {
    /// Serves what is on `shelf`.
    ///
    /// # Errors
    /// `net/listen`, `net/identity`.
    pub fn start(shelf: Arc<dyn Shelf>, options: &ServeOptions) -> Result<Service> {
        let identity = match &options.identity {
            Some(identity) => Arc::clone(identity),
            None => Arc::new(Identity::generate()?),
        };
        let mut tries = if options.listen.port() == 0 { PORTS } else { 1 };
        loop {
            tries -= 1;
            match Service::at(&shelf, options, &identity) {
                Err(e) if tries > 0 && e.code() == LISTEN.code => {}
                other => return other,
            }
        }
    }

    fn at(shelf: &Arc<dyn Shelf>, options: &ServeOptions, identity: &Identity) -> Result<Service> {
        let ServeOptions { tokens, bounds, cors, log, .. } = options;
        let mut address = options.listen;
        let mut http = None;
        if options.over != Over::Quic {
            let mut how = HttpOptions::default();
            (how.tokens, how.bounds, how.cors) = (tokens.clone(), *bounds, cors.clone());
            let server = HttpServer::start(Arc::clone(shelf), address, how, Arc::clone(log))?;
            address = server.address();
            http = Some(server);
        }
        let mut quic = None;
        if options.over != Over::Http {
            let (shelf, tokens, log) = (Arc::clone(shelf), tokens.clone(), Arc::clone(log));
            let server = Server::start(shelf, address, identity, tokens, *bounds, log)?;
            address = server.address()?;
            quic = Some((server, identity.pin()));
        }
        Ok(Service { address, quic, http })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The SHA-256 of its certificate, in hex, where no authority has signed that.
    pub fn pin(&self) -> Option<&str> {
        self.quic.as_ref().and_then(|(_, pin)| pin.as_deref())
    }

    /// The address of the file of that name, `holdall://…`, where it is served over QUIC.
    pub fn url(&self, name: &str) -> Option<String> {
        let (_, pin) = self.quic.as_ref()?;
        let fragment = pin.as_ref().map_or(String::new(), |pin| format!("#sha256={pin}"));
        Some(format!("holdall://{}/{}{fragment}", self.address, encoded(name)))
    }

    /// The same, `http://…`, where it is served over HTTP. That of no name is the list of all.
    pub fn http_url(&self, name: &str) -> Option<String> {
        self.http.as_ref().map(|_| format!("http://{}/{}", self.address, encoded(name)))
    }

    /// Clients that are connected over QUIC.
    pub fn clients(&self) -> usize {
        self.quic.as_ref().map_or(0, |(server, _)| server.clients())
    }

    /// Takes no more clients and requests, waits for the answers that are on their way for at most so long over each protocol, and ends.
    pub fn stop(self, patience: Duration) {
        if let Some((server, _)) = self.quic {
            server.stop(patience);
        }
        if let Some(server) = self.http {
            server.stop(patience);
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The longest file of tokens or keys, in bytes.
const SMALL: u64 = 1 << 20;

/// The identity whose key is in a file; made, and written for its owner alone, where there is none.
///
/// # Errors
/// `net/identity`; Io.
pub fn read_identity(path: &Path) -> Result<Identity> {
    if path.exists() {
        return Identity::of_key(&small(path)?).map_err(|e| e.in_source(path.display()));
    }
    let identity = Identity::generate()?;
    let written = write_secret(path, identity.key());
    written.map_err(|e| {
        IDENTITY.broken("the key cannot be written").because(e).in_source(path.display())
    })?;
    Ok(identity)
}

/// The identity that an authority has signed: a certificate in PEM, with those that lead to it, and its key.
///
/// # Errors
/// `net/identity`; Io.
pub fn read_certificate(certificate: &Path, key: &Path) -> Result<Identity> {
    let identity = Identity::of_pem(&small(certificate)?, &small(key)?);
    identity.map_err(|e| e.in_source(certificate.display()))
}

/// The tokens in a file, one a line.
///
/// # Errors
/// `net/token`, also where there are none; Io.
pub fn read_tokens(path: &Path) -> Result<Tokens> {
    let read = || {
        let text = String::from_utf8(small(path)?);
        let text = text.map_err(|_| TOKEN.broken("the file of tokens is not UTF-8"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let all: Vec<String> = lines.map(str::to_owned).collect();
        if all.is_empty() {
            return Err(TOKEN.broken("the file of tokens has none"));
        }
        Tokens::new(all)
    };
    read().map_err(|e| e.in_source(path.display()))
}

/// A file of a few lines.
fn small(path: &Path) -> Result<Vec<u8>> {
    let failed = |e| io(e, "reading").in_source(path.display());
    let mut out = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(SMALL).read_to_end(&mut out).map_err(failed)?;
    Ok(out)
}

/// Writes a new file that its owner alone may read.
fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
