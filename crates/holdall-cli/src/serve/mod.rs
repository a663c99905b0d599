//! `holdall serve`.

#[cfg(feature = "quic")]
mod quic;

use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::text::printable;
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::fields;
use holdall::operations::Operation;
use holdall::plain::Plain;
use holdall::serve::http::PlainHttp;
use holdall::serve::{
    Access, FileCatalog, Files, Log, Protocols, ServeOptions, ServerLimits, Service, Serving,
    Tokens, read_tokens,
};
use std::io::Write as _;
use std::net::SocketAddr;
use std::num::{NonZero, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Serve files and folders to other machines, read-only: over QUIC (`holdall://…`) and HTTP, plain and over TLS
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall serve model.zt                            for this machine only
  holdall serve models --listen 0.0.0.0:4433 --token-file tokens --identity server.key
  holdall inspect 'holdall://TOKEN@host:4433/models/model.zt#sha256=…'

A file in a served folder has the folder's name in its address: `models/a/b.zt`. Names that begin with a dot, and all other \
files, cannot be read. SIGINT and SIGTERM stop the server once running responses are sent, or after 10 seconds.")]
pub(crate) struct ServeArgs {
    /// Files and folders to serve
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Address to listen on: UDP for QUIC and TCP for HTTP, on the same port; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433", value_parser = address)]
    listen: SocketAddr,

    /// Serve only over quic, or only over http
    #[arg(long, value_name = "WHICH", hide_possible_values = true)]
    only: Option<Only>,

    #[cfg(feature = "quic")]
    #[command(flatten)]
    quic: quic::QuicArgs,

    /// Require clients to send one of the tokens in this file, which has one per line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Allow or refuse clients that speak plain HTTP, without TLS: allow or refuse [default: refuse if tokens are
    /// required and other machines can reach the address]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    plain_http: Option<PlainText>,

    /// Let web pages of this origin read the files over HTTP; '*' for all origins
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,

    /// Maximum number of connected clients, for QUIC and HTTP each
    #[arg(long, value_name = "N", default_value = "256", value_parser = crate::args::positive_number)]
    clients: NonZero<usize>,

    /// Maximum bytes per second to one machine, such as 10MB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate: Option<NonZeroU64>,

    /// Maximum bytes per second to all machines together [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate_of_all: Option<NonZeroU64>,

    /// Read every file first and add its BLAKE3 hash to its address, so that clients can verify each range that they
    /// receive
    #[cfg(feature = "quic")]
    #[arg(long)]
    hash: bool,

    /// Serve metrics (clients, requests, bytes) at http://ADDRESS/metrics, in Prometheus format, without authentication
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    #[cfg(feature = "quic")]
    Quic,
    Http,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlainText {
    Allow,
    Refuse,
}

/// How long to wait for running responses when the server is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until a signal arrives.
pub(crate) fn run(session: &Session, args: &ServeArgs) -> Result<Status, Failure> {
    args.paths.iter().try_for_each(|path| crate::input::check_location(Operation::Serve, path))?;
    let files = Files::new(&args.paths)?.with_limits(session.global.limits());
    let files: Arc<dyn FileCatalog> = Arc::new(files);
    let tokens = match &args.token_file {
        Some(path) => read_tokens(path)?,
        None => Tokens::default(),
    };
    let mut limits = ServerLimits::default();
    limits.clients = args.clients.get();
    (limits.rate, limits.rate_of_all) = (args.rate, args.rate_of_all);
    if !args.listen.ip().is_loopback() && tokens.is_open() {
        session
            .warn("without `--token-file`, everyone who can reach the address can read the files");
    }
    let service = Service::new(Arc::clone(&files)).with_tokens(tokens).with_limits(limits);
    let service = service.with_log(log(session));
    #[cfg(feature = "quic")]
    if args.hash && args.only == Some(Only::Http) {
        session.warn("`--hash` has no effect without QUIC: HTTP addresses have no hash");
    }
    let options = options(args)?;
    // Before the addresses are printed.
    let ended = crate::platform::end_requested();
    let serving = Serving::start(&service, &options)?;
    announce(session, &*files, &serving)?;
    while !ended.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(50));
    }
    session.note("stopping");
    serving.stop(GRACE);
    Ok(Status::Fine)
}

fn options(args: &ServeArgs) -> Result<ServeOptions, Failure> {
    let mut options = ServeOptions::new().with_listen(args.listen);
    options = match args.only {
        None => options,
        #[cfg(feature = "quic")]
        Some(Only::Quic) => options.with_protocols(Protocols::Quic),
        Some(Only::Http) => options.with_protocols(Protocols::Http),
    };
    options = match args.plain_http {
        None => options,
        Some(PlainText::Allow) => options.with_plain_http(PlainHttp::Allow),
        Some(PlainText::Refuse) => options.with_plain_http(PlainHttp::Refuse),
    };
    #[cfg(feature = "quic")]
    if let Some(identity) = quic::identity(&args.quic)? {
        options = options.with_identity(identity);
    }
    #[cfg(feature = "quic")]
    if args.hash {
        options = options.with_hashes();
    }
    if let Some(origin) = &args.cors {
        options = options.with_cors(origin);
    }
    if let Some(at) = args.metrics {
        options = options.with_metrics(at);
    }
    Ok(options)
}

/// Prints the addresses of the files.
fn announce(session: &Session, files: &dyn FileCatalog, serving: &Serving) -> Result<(), Failure> {
    let all = files.list()?;
    if session.json() {
        let names = all.iter().map(|entry| entry.name.as_str());
        let report = fields! {
            address: serving.address().to_string(),
            quic: serving.url("").is_some(),
            http: serving.http_url("").is_some(),
            https: serving.https_url("").is_some(),
            sha256: serving.certificate_sha256(),
            metrics: serving.metrics().map(|at| at.to_string()),
            files: Plain::list(names),
            blake3: serving.hashes().map(|all| Plain::map(all.iter().map(|(k, v)| (k.as_str(), v.as_str())))),
        };
        writeln!(session.out(), "{}", as_json(&report))?;
        return session.finish();
    }
    {
        let mut out = session.out();
        let urls = all.iter().filter_map(|entry| serving.url(&entry.name));
        for url in urls.take(SHOWN) {
            writeln!(out, "{url}")?;
        }
        if let Some(more) = all.len().checked_sub(SHOWN).filter(|more| *more > 0)
            && serving.url("").is_some()
        {
            writeln!(out, "… and {more} more")?;
        }
        for url in [serving.http_url(""), serving.https_url("")].into_iter().flatten() {
            writeln!(out, "{url}")?;
        }
        if let Some(at) = serving.metrics() {
            writeln!(out, "http://{at}/metrics")?;
        }
    }
    session.finish()
}

/// Maximum number of addresses that are printed.
const SHOWN: usize = 20;

/// Parses an IP address and a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = "write an IP address and a port, for example 127.0.0.1:4433 or [::1]:4433";
    text.parse().map_err(|_| wrong.to_owned())
}

/// Parses bytes per second.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    let rate = crate::args::size(text.strip_suffix("/s").unwrap_or(text))?;
    NonZeroU64::new(rate).ok_or_else(|| "the minimum is 1 byte per second".to_owned())
}

/// Returns a log that prints a line to standard error for each request: client, protocol, name, bytes sent, outcome.
fn log(session: &Session) -> Log {
    let is_quiet = session.global.quiet;
    Arc::new(move |access: &Access<'_>| {
        if is_quiet {
            return;
        }
        let name = if access.name.is_empty() { "-" } else { access.name };
        let Access { client, protocol, sent, outcome, .. } = access;
        // If standard error cannot be written to, the request cannot be logged.
        let _ =
            writeln!(std::io::stderr(), "{client} {protocol} {} {sent} {outcome}", printable(name));
    })
}
