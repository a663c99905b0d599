//! Serves files over QUIC and HTTP at one port, and reads keys, certificates and tokens for it.

use crate::Result;
use crate::error::io;
use holdall_json::percent_encoded;
#[cfg(feature = "quic")]
use holdall_net::FileCatalog;
use holdall_net::http::{HttpOptions, HttpServer, PlainHttp};
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

/// The protocols over which files are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocols {
    /// QUIC and HTTP.
    #[cfg(feature = "quic")]
    #[default]
    Both,
    /// QUIC only.
    #[cfg(feature = "quic")]
    Quic,
    /// HTTP only.
    #[cfg_attr(not(feature = "quic"), default)]
    Http,
}

impl Protocols {
    #[cfg(feature = "quic")]
    fn has_quic(self) -> bool {
        self != Protocols::Http
    }

    /// Returns `true` if the protocol uses a certificate.
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

/// Options of serving a [`Service`]: address, protocols, certificate.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    listen: SocketAddr,
    protocols: Protocols,
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
            protocols: Protocols::default(),
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
    /// Creates the default options: local connections only, any port, all protocols of this build, a newly
    /// generated certificate.
    pub fn new() -> ServeOptions {
        ServeOptions::default()
    }

    /// Listens at this address: UDP for QUIC and TCP for HTTP, at the same port; port 0 for any free port.
    pub fn with_listen(mut self, listen: SocketAddr) -> ServeOptions {
        self.listen = listen;
        self
    }

    /// Serves over these protocols.
    pub fn with_protocols(mut self, over: Protocols) -> ServeOptions {
        self.protocols = over;
        self
    }

    /// Uses this certificate.
    #[cfg(feature = "quic")]
    pub fn with_identity(mut self, identity: impl Into<Arc<Identity>>) -> ServeOptions {
        self.identity = Some(identity.into());
        self
    }

    /// Hashes every file before serving, and puts its BLAKE3 hash into its address: each range that a client
    /// reads by that address is verified.
    #[cfg(feature = "quic")]
    pub fn with_hashes(mut self) -> ServeOptions {
        self.has_hashes = true;
        self
    }

    /// Sets whether clients that use plain-text HTTP are served. By default, in builds with the feature `http2`,
    /// they are refused if their token would cross a network in plain text: if tokens are required and the
    /// address is reachable from other machines.
    pub fn with_plain_http(mut self, plain: PlainHttp) -> ServeOptions {
        self.plain_http = Some(plain);
        self
    }

    /// Returns how clients that use plain-text HTTP are treated.
    fn plain(&self, service: &Service) -> PlainHttp {
        let is_read = !service.is_open() && !self.listen.ip().is_loopback();
        self.plain_http.unwrap_or(match is_read && cfg!(feature = "http2") {
            true => PlainHttp::Refuse,
            false => PlainHttp::Allow,
        })
    }

    /// Allows web pages of this origin to read files over HTTP; `*` allows all origins.
    pub fn with_cors(mut self, origin: impl Into<String>) -> ServeOptions {
        self.cors = Some(origin.into());
        self
    }

    /// Serves [metrics](Service::metrics) at `http://ADDRESS/metrics`, without authentication.
    pub fn with_metrics(mut self, address: SocketAddr) -> ServeOptions {
        self.metrics = Some(address);
        self
    }
}

/// The running servers of a [`Service`], until it is stopped or dropped.
pub struct Serving {
    address: SocketAddr,
    /// The SHA-256 of the certificate if it is self-signed.
    certificate_sha256: Option<String>,
    #[cfg(feature = "quic")]
    quic: Option<Server>,
    http: Option<HttpServer>,
    plain: PlainHttp,
    metrics: Option<HttpServer>,
    hashes: Option<BTreeMap<String, String>>,
}

/// Number of ports to try when any port will do: a port that is free for TCP may be in use for UDP.
const PORTS: usize = 8;

impl Serving {
    /// Starts serving the files of `service`.
    ///
    /// # Errors
    /// Returns `net/listen`, `net/identity`; errors of reading the files that are hashed.
    pub fn start(service: &Service, options: &ServeOptions) -> Result<Serving> {
        #[cfg(feature = "quic")]
        let hashes = match options.has_hashes && options.protocols.has_quic() {
            true => Some(hashes(&**service.catalog())?),
            false => None,
        };
        #[cfg(not(feature = "quic"))]
        let hashes = None;
        #[cfg(feature = "quic")]
        let options = &match options.identity {
            None if options.protocols.is_secure() => {
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
        if options.protocols.has_http() {
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
        if let Some(identity) = options.identity.as_ref().filter(|_| options.protocols.has_quic()) {
            let server = Server::start(service.clone(), address, identity)?;
            address = server.address()?;
            quic = Some(server);
        }
        #[cfg(feature = "quic")]
        let identity = options.identity.as_ref().filter(|_| options.protocols.is_secure());
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
            certificate_sha256: pin,
            #[cfg(feature = "quic")]
            quic,
            http,
            plain,
            metrics,
            hashes: None,
        })
    }

    /// Returns the address that the server listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the metrics, if they are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(HttpServer::address)
    }

    /// Returns the SHA-256 of the certificate in hex, if it is self-signed.
    pub fn certificate_sha256(&self) -> Option<&str> {
        self.certificate_sha256.as_deref()
    }

    /// Returns the BLAKE3 hashes of all files in hex, by name, if `ServeOptions::with_hashes` was set.
    pub fn hashes(&self) -> Option<&BTreeMap<String, String>> {
        self.hashes.as_ref()
    }

    /// Returns the `holdall://…` address of the file called `name`, if files are served over QUIC.
    pub fn url(&self, name: &str) -> Option<String> {
        #[cfg(feature = "quic")]
        self.quic.as_ref()?;
        let hash = self.hashes.as_ref().and_then(|all| all.get(name)).map(String::as_str);
        let mut url = format!("holdall://{}/{}", self.address, percent_encoded(name));
        let parts = [("sha256", self.certificate_sha256()), ("blake3", hash)];
        let parts = parts.into_iter().filter_map(|(key, value)| Some((key, value?)));
        for (mark, (key, value)) in ['#', '&'].into_iter().zip(parts) {
            url.push_str(&format!("{mark}{key}={value}"));
        }
        cfg!(feature = "quic").then_some(url)
    }

    /// Returns the `http://…` address of the file called `name`, if files are served over plain-text HTTP. An
    /// empty name gives the address of the listing.
    pub fn http_url(&self, name: &str) -> Option<String> {
        let is_plain = self.http.is_some() && self.plain == PlainHttp::Allow;
        is_plain.then(|| format!("http://{}/{}", self.address, percent_encoded(name)))
    }

    /// Returns the `https://…` address of the file called `name`, if files are served over HTTP with TLS.
    pub fn https_url(&self, name: &str) -> Option<String> {
        let is_secure = self.http.is_some() && cfg!(feature = "http2");
        is_secure.then(|| format!("https://{}/{}", self.address, percent_encoded(name)))
    }

    /// Returns the number of clients connected over QUIC.
    pub fn clients(&self) -> usize {
        #[cfg(feature = "quic")]
        let count = self.quic.as_ref().map_or(0, Server::clients);
        #[cfg(not(feature = "quic"))]
        let count = 0;
        count
    }

    /// Refuses new clients and requests, waits at most `timeout` for pending answers, and stops.
    pub fn stop(self, timeout: Duration) {
        std::thread::scope(|scope| {
            #[cfg(feature = "quic")]
            if let Some(server) = self.quic {
                scope.spawn(move || server.stop(timeout));
            }
            if let Some(server) = self.http {
                scope.spawn(move || server.stop(timeout));
            }
        });
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns the BLAKE3 hashes of all files by name.
#[cfg(feature = "quic")]
fn hashes(files: &dyn FileCatalog) -> Result<BTreeMap<String, String>> {
    let all = files.list()?.into_iter().map(|entry| {
        let tree = files.open(&entry.name).and_then(|file| file.tree());
        let root = tree.map_err(|e| e.for_source(&entry.name))?.root().to_string();
        Ok((entry.name, root))
    });
    all.collect()
}

/// The maximum length of a file of tokens or keys, in bytes.
const SMALL: u64 = 1 << 20;

#[cfg(feature = "quic")]
/// Reads an identity, a key and its self-signed certificate, from a file. If the file does not exist,
/// generates an identity and writes it, readable only by its owner.
///
/// # Errors
/// Returns `net/identity`; an `Io` error.
pub fn read_identity(path: &Path) -> Result<Identity> {
    if path.exists() {
        return Identity::from_self_signed_pem(&small(path)?)
            .map_err(|e| e.in_source(path.display()));
    }
    let identity = Identity::generate()?;
    let written = write_secret(path, identity.to_pem().as_bytes());
    written.map_err(|e| {
        IDENTITY
            .broken("cannot write the file of the certificate and its key")
            .because(e)
            .in_source(path.display())
    })?;
    Ok(identity)
}

#[cfg(feature = "quic")]
/// Reads an identity signed by an authority: a certificate chain in PEM, and its key.
///
/// # Errors
/// Returns `net/identity`; an `Io` error.
pub fn read_certificate(certificate: &Path, key: &Path) -> Result<Identity> {
    let identity = Identity::from_pem(&small(certificate)?, &small(key)?);
    identity.map_err(|e| e.in_source(certificate.display()))
}

/// Reads tokens from a file, one per line.
///
/// # Errors
/// Returns `net/token`, also if the file has no tokens; an `Io` error.
pub fn read_tokens(path: &Path) -> Result<Tokens> {
    let read = || {
        let text = String::from_utf8(small(path)?);
        let text = text.map_err(|_| TOKEN.broken("the token file is not UTF-8"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let all: Vec<String> = lines.map(str::to_owned).collect();
        if all.is_empty() {
            let e = TOKEN.broken("the token file has no tokens");
            return Err(e.with_hint("write one secret per line"));
        }
        Tokens::new(all)
    };
    read().map_err(|e| e.in_source(path.display()))
}

/// Reads a small file, of at most [`SMALL`] bytes.
fn small(path: &Path) -> Result<Vec<u8>> {
    let failed = |e| io(e, "reading").in_source(path.display());
    let mut out = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(SMALL).read_to_end(&mut out).map_err(failed)?;
    Ok(out)
}

#[cfg(feature = "quic")]
/// Writes a new file that only its owner can read.
fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    holdall_io::platform::make_private(&mut options);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
