//! `holdall serve`.

use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::output::text::printable;
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::fields;
use holdall::plain::Plain;
use holdall::serve::{
    Access, Bounds, Files, Log, Over, ServeOptions, Service, Shelf, read_certificate,
    read_identity, read_tokens,
};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Serve files and folders to other machines, read-only: over QUIC (`holdall://…`) and HTTP
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall serve model.zt                            to this machine alone
  holdall serve models --listen 0.0.0.0:4433 --token-file tokens --identity server.key
  holdall inspect 'holdall://TOKEN@host:4433/models/model.zt#sha256=…'

Files are asked for by the name of what was given, and what is in it: `models/a/b.zt`. Nothing else can be read,
nor what begins with a dot. SIGINT and SIGTERM end the server once answers on their way are sent, at most 10 seconds later.")]
pub(crate) struct ServeArgs {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Where to listen: UDP for QUIC and TCP for HTTP, at the same port; 0 for any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,

    /// Serve over one of them: quic or http
    #[arg(long, value_name = "WHICH", hide_possible_values = true)]
    only: Option<Only>,

    /// The key that the certificate is made of, so that addresses stay the same; written where it is not there
    #[arg(long, value_name = "FILE", conflicts_with = "certificate")]
    identity: Option<PathBuf>,

    /// A certificate from an authority, in PEM, with those that lead to it
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Ask clients for one of the tokens in this file, one a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Let pages of this origin read what is served over HTTP; '*' for all
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,

    /// Clients at once, over each of the two
    #[arg(long, value_name = "N", default_value_t = 256)]
    clients: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Quic,
    Http,
}

/// The longest that answers on their way are waited for.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until a signal comes.
pub(crate) fn run(session: &Session, args: &ServeArgs) -> Result<Status, Failure> {
    let files = Files::new(&args.paths)?.with_limits(session.global.limits());
    let files: Arc<dyn Shelf> = Arc::new(files);
    let options = options(session, args)?;
    // Before anything is announced.
    let ended = ended();
    let service = Service::start(Arc::clone(&files), &options)?;
    announce(session, &*files, &service)?;
    while !ended.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(50));
    }
    session.note("ending");
    service.stop(GRACE);
    Ok(Status::Fine)
}

fn options(session: &Session, args: &ServeArgs) -> Result<ServeOptions, Failure> {
    let mut options = ServeOptions::new().with_listen(args.listen).with_log(log(session));
    options = options.with_over(match args.only {
        None => Over::Both,
        Some(Only::Quic) => Over::Quic,
        Some(Only::Http) => Over::Http,
    });
    match &args.token_file {
        Some(path) => options = options.with_tokens(read_tokens(path)?),
        None if !args.listen.ip().is_loopback() => {
            session
                .warn("without `--token-file` whoever reaches the address can read what is served");
        }
        None => {}
    }
    let mut bounds = Bounds::default();
    bounds.clients = args.clients;
    options = options.with_bounds(bounds);
    if let Some(origin) = &args.cors {
        options = options.with_cors(origin);
    }
    if args.only != Some(Only::Http) {
        let identity = match (&args.certificate, &args.key, &args.identity) {
            (Some(certificate), Some(key), _) => Some(read_certificate(certificate, key)?),
            (_, _, Some(path)) => Some(read_identity(path)?),
            _ => None,
        };
        if let Some(identity) = identity {
            options = options.with_identity(identity);
        }
    }
    Ok(options)
}

/// Tells where the files are.
fn announce(session: &Session, files: &dyn Shelf, service: &Service) -> Result<(), Failure> {
    let all = files.list()?;
    if session.json() {
        let names = all.iter().map(|entry| entry.name.as_str());
        let told = fields! {
            address: service.address().to_string(),
            quic: service.url("").is_some(),
            http: service.http_url("").is_some(),
            sha256: service.pin(),
            files: Plain::list(names),
        };
        writeln!(session.out(), "{}", as_json(&told))?;
        return session.finish();
    }
    {
        let mut out = session.out();
        let urls = all.iter().filter_map(|entry| service.url(&entry.name));
        for url in urls.take(SHOWN) {
            writeln!(out, "{url}")?;
        }
        let more = all.len().saturating_sub(SHOWN);
        if more > 0 && service.url("").is_some() {
            writeln!(out, "… and {more} more")?;
        }
        if let Some(url) = service.http_url("") {
            writeln!(out, "{url}")?;
        }
    }
    session.finish()
}

/// Addresses that are printed.
const SHOWN: usize = 20;

/// A line on standard error for each request: who, how, what, bytes sent, how it ended.
fn log(session: &Session) -> Log {
    let is_quiet = session.global.quiet;
    Arc::new(move |access: &Access<'_>| {
        if is_quiet {
            return;
        }
        let name = if access.name.is_empty() { "-" } else { access.name };
        let Access { client, by, sent, done, .. } = access;
        // There is no one to tell.
        let _ = writeln!(std::io::stderr(), "{client} {by} {} {sent} {done}", printable(name));
    })
}

/// What becomes true when a signal says that the process is to end. The second one ends it.
fn ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        use signal_hook::flag;
        // Where it cannot be had, the signal does what it did.
        let _ = flag::register_conditional_shutdown(signal, 130, Arc::clone(&ended));
        let _ = flag::register(signal, Arc::clone(&ended));
    }
    ended
}
