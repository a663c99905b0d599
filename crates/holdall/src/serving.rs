//! Files served over QUIC and HTTP at one port, and what is read to do so: keys, certificates, tokens.

use crate::Result;
use crate::error::io;
#[cfg(feature = "quic")]
use holdall_net::FileCatalog;
use holdall_net::http::{HttpOptions, HttpServer, PlainHttp, encoded};
#[cfg(feature = "quic")]
use holdall_net::quic::{Identity, Server};
#[cfg(feature = "quic")]
use holdall_net::rules::IDENTITY;
use holdall_net::rules::{LISTEN, TOKEN};
use holdall_net::{Service, Tokens};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
#[cfg(feature = "quic")]
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
#[cfg(feature = "quic")]
use std::sync::Arc;
use std::time::Duration;

/// Over what files are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocols {
    /// QUIC and HTTP.
    #[cfg(feature = "quic")]
    #[default]
    Both,
    /// QUIC alone.
    #[cfg(feature = "quic")]
    Quic,
    /// HTTP alone.
    #[cfg_attr(not(feature = "quic"), default)]
    Http,
}

impl Protocols {
    #[cfg(feature = "quic")]
    fn has_quic(self) -> bool {
        self != Protocols::Http
    }

    /// Whether it takes a certificate.
    #[cfg(feature = "quic")]
    fn is_secure(self) -> bool {
        self.has_quic() || cfg!(feature = "http2")
    }

    fn has_http(self) -> bool {
        match self {
            Protocols::Http => true,
            #[cfg(feature = "quic")]
            Protocols::Both => true,
            #[cfg(feature = "quic")]
            Protocols::Quic => false,
        }
    }
}

/// Where and over what a [`Service`] can be had.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    listen: SocketAddr,
    over: Protocols,
    #[cfg(feature = "quic")]
    identity: Option<Arc<Identity>>,
    #[cfg(feature = "quic")]
    has_hashes: bool,
    plain_http: Option<PlainHttp>,
    cors: Option<String>,
    metrics: Option<SocketAddr>,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            over: Protocols::default(),
            #[cfg(feature = "quic")]
            identity: None,
            #[cfg(feature = "quic")]
            has_hashes: false,
            plain_http: None,
            cors: None,
            metrics: None,
        }
    }
}

impl ServeOptions {
    /// To this machine alone, at any port, over all protocols that are built in, with a certificate that is made for it.
    pub fn new() -> ServeOptions {
        ServeOptions::default()
    }

    /// Listens there: UDP for QUIC and TCP for HTTP, at the same port; 0 for any.
    pub fn with_listen(mut self, listen: SocketAddr) -> ServeOptions {
        self.listen = listen;
        self
    }

    /// Serves over these protocols.
    pub fn with_over(mut self, over: Protocols) -> ServeOptions {
        self.over = over;
        self
    }

    /// Shows this certificate.
    #[cfg(feature = "quic")]
    pub fn with_identity(mut self, identity: impl Into<Arc<Identity>>) -> ServeOptions {
        self.identity = Some(identity.into());
        self
    }

    /// Reads every file before it begins, and puts its BLAKE3 hash into its address: each range that is read by that address is proven.
    #[cfg(feature = "quic")]
    pub fn with_hashes(mut self) -> ServeOptions {
        self.has_hashes = true;
        self
    }

    /// Serves clients that speak HTTP in plain text, or refuses them. Unless this says it, they are refused where their token would go
    /// over a network in plain text: where tokens are asked for, and other machines reach the address.
    pub fn with_plain_http(mut self, plain: PlainHttp) -> ServeOptions {
        self.plain_http = Some(plain);
        self
    }

    /// What becomes of clients that speak HTTP in plain text.
    fn plain(&self, service: &Service) -> PlainHttp {
        let is_read = !service.is_open() && !self.listen.ip().is_loopback();
        self.plain_http.unwrap_or(match is_read && cfg!(feature = "http2") {
            true => PlainHttp::Refuse,
            false => PlainHttp::Allow,
        })
    }

    /// Lets pages of this origin read what is served over HTTP; `*` for all.
    pub fn with_cors(mut self, origin: impl Into<String>) -> ServeOptions {
        self.cors = Some(origin.into());
        self
    }

    /// Tells [numbers](Service::metrics) at `http://ADDRESS/metrics`, to whoever asks there.
    pub fn with_metrics(mut self, at: SocketAddr) -> ServeOptions {
        self.metrics = Some(at);
        self
    }
}

/// Servers of a [`Service`], until this is stopped or dropped.
pub struct Serving {
    address: SocketAddr,
    /// The SHA-256 of its certificate, where no authority has signed that.
    pin: Option<String>,
    #[cfg(feature = "quic")]
    quic: Option<Server>,
    http: Option<HttpServer>,
    plain: PlainHttp,
    metrics: Option<HttpServer>,
    hashes: Option<BTreeMap<String, String>>,
}

/// Ports that are tried where any will do: one that is free for TCP may be taken for UDP.
const PORTS: usize = 8;

impl Serving {
    /// Serves what is on the shelf of `service`.
    ///
    /// # Errors
    /// `net/listen`, `net/identity`; what files fail with that are hashed.
    pub fn start(service: &Service, options: &ServeOptions) -> Result<Serving> {
        #[cfg(feature = "quic")]
        let hashes = match options.has_hashes && options.over.has_quic() {
            true => Some(hashes(&**service.shelf())?),
            false => None,
        };
        #[cfg(not(feature = "quic"))]
        let hashes = None;
        #[cfg(feature = "quic")]
        let options = &match options.identity {
            None if options.over.is_secure() => {
                options.clone().with_identity(Identity::generate()?)
            }
            _ => options.clone(),
        };
        let mut tries = if options.listen.port() == 0 { PORTS } else { 1 };
        loop {
            tries -= 1;
            match Serving::at(service, options) {
                Err(e) if tries > 0 && e.code() == LISTEN.code => {}
                Ok(serving) => break Ok(Serving { hashes, ..serving }),
                Err(e) => break Err(e),
            }
        }
    }

    fn at(service: &Service, options: &ServeOptions) -> Result<Serving> {
        let (mut address, plain) = (options.listen, options.plain(service));
        let mut http = None;
        if options.over.has_http() {
            let mut how = HttpOptions::default();
            how.cors = options.cors.clone();
            how.plain = plain;
            #[cfg(feature = "http2")]
            how.identity.clone_from(&options.identity);
            let server = HttpServer::start(service.clone(), address, how)?;
            address = server.address();
            http = Some(server);
        }
        #[cfg(feature = "quic")]
        let mut quic = None;
        #[cfg(feature = "quic")]
        if let Some(identity) = options.identity.as_ref().filter(|_| options.over.has_quic()) {
            let server = Server::start(service.clone(), address, identity)?;
            address = server.address()?;
            quic = Some(server);
        }
        #[cfg(feature = "quic")]
        let identity = options.identity.as_ref().filter(|_| options.over.is_secure());
        #[cfg(feature = "quic")]
        let pin = identity.and_then(|identity| identity.pin());
        #[cfg(not(feature = "quic"))]
        let pin = None;
        let metrics = match options.metrics {
            Some(at) => {
                let service = Service::new(service.metrics());
                Some(HttpServer::start(service, at, HttpOptions::default())?)
            }
            None => None,
        };
        Ok(Serving {
            address,
            pin,
            #[cfg(feature = "quic")]
            quic,
            http,
            plain,
            metrics,
            hashes: None,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where numbers are told, if they are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(HttpServer::address)
    }

    /// The SHA-256 of its certificate, in hex, where no authority has signed that.
    pub fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    /// The BLAKE3 hashes of all files, in hex, by their names, where they were asked for.
    pub fn hashes(&self) -> Option<&BTreeMap<String, String>> {
        self.hashes.as_ref()
    }

    /// The address of the file of that name, `holdall://…`, where it is served over QUIC.
    pub fn url(&self, name: &str) -> Option<String> {
        #[cfg(feature = "quic")]
        self.quic.as_ref()?;
        let hash = self.hashes.as_ref().and_then(|all| all.get(name)).map(String::as_str);
        let mut url = format!("holdall://{}/{}", self.address, encoded(name));
        let parts = [("sha256", self.pin()), ("blake3", hash)];
        let parts = parts.into_iter().filter_map(|(key, value)| Some((key, value?)));
        for (mark, (key, value)) in ['#', '&'].into_iter().zip(parts) {
            url.push_str(&format!("{mark}{key}={value}"));
        }
        cfg!(feature = "quic").then_some(url)
    }

    /// The same, `http://…`, where it is served over HTTP in plain text. That of no name is the list of all.
    pub fn http_url(&self, name: &str) -> Option<String> {
        let is_plain = self.http.is_some() && self.plain == PlainHttp::Allow;
        is_plain.then(|| format!("http://{}/{}", self.address, encoded(name)))
    }

    /// The same, `https://…`, where HTTP is spoken over TLS too.
    pub fn https_url(&self, name: &str) -> Option<String> {
        let is_secure = self.http.is_some() && cfg!(feature = "http2");
        is_secure.then(|| format!("https://{}/{}", self.address, encoded(name)))
    }

    /// Clients that are connected over QUIC.
    pub fn clients(&self) -> usize {
        #[cfg(feature = "quic")]
        let count = self.quic.as_ref().map_or(0, Server::clients);
        #[cfg(not(feature = "quic"))]
        let count = 0;
        count
    }

    /// Takes no more clients and requests, waits for the answers that are on their way for at most so long, and ends.
    pub fn stop(self, patience: Duration) {
        std::thread::scope(|scope| {
            #[cfg(feature = "quic")]
            if let Some(server) = self.quic {
                scope.spawn(move || server.stop(patience));
            }
            if let Some(server) = self.http {
                scope.spawn(move || server.stop(patience));
            }
        });
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Hashes of all files by their names.
#[cfg(feature = "quic")]
fn hashes(files: &dyn FileCatalog) -> Result<BTreeMap<String, String>> {
    let all = files.list()?.into_iter().map(|entry| {
        let tree = files.open(&entry.name).and_then(|file| file.tree());
        let root = tree.map_err(|e| e.for_source(&entry.name))?.root().to_string();
        Ok((entry.name, root))
    });
    all.collect()
}

/// The longest file of tokens or keys, in bytes.
const SMALL: u64 = 1 << 20;

#[cfg(feature = "quic")]
/// The identity in a file, a key and the certificate that it signs itself; made, and written for its owner alone, where there is none.
///
/// # Errors
/// `net/identity`; Io.
pub fn read_identity(path: &Path) -> Result<Identity> {
    if path.exists() {
        return Identity::of_own(&small(path)?).map_err(|e| e.in_source(path.display()));
    }
    let identity = Identity::generate()?;
    let written = write_secret(path, identity.to_pem().as_bytes());
    written.map_err(|e| {
        IDENTITY
            .broken("the certificate and its key cannot be written")
            .because(e)
            .in_source(path.display())
    })?;
    Ok(identity)
}

#[cfg(feature = "quic")]
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
            let e = TOKEN.broken("the file of tokens has none");
            return Err(e.with_hint("write a secret on each line of it"));
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

#[cfg(feature = "quic")]
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
