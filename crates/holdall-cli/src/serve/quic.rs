//! Who the server is, over QUIC.

use super::small;
use clap::Args;
use holdall::Result;
use holdall::serve::rules::IDENTITY;
use holdall::serve::{Identity, Server, Service, Shelf};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct QuicArgs {
    /// The key that the certificate is made of, so that addresses stay the same; written where it is not there
    #[arg(long, value_name = "FILE", conflicts_with = "certificate")]
    identity: Option<PathBuf>,

    /// A certificate from an authority, in PEM, with those that lead to it
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// Hashes of all files by their names.
pub(super) fn hashes(files: &dyn Shelf) -> Result<BTreeMap<String, String>> {
    let all = files.list()?.into_iter().map(|entry| {
        let tree = files.open(&entry.name).and_then(|file| file.tree());
        let root = tree.map_err(|e| e.for_source(&entry.name))?.root().to_string();
        Ok((entry.name, root))
    });
    all.collect()
}

/// A server, and the SHA-256 of its certificate where it has made that itself.
pub(super) fn start(
    service: Service,
    listen: SocketAddr,
    args: &QuicArgs,
) -> Result<(Server, Option<String>)> {
    let identity = identity(args)?;
    let server = Server::start(service, listen, &identity)?;
    Ok((server, identity.pin()))
}

fn identity(args: &QuicArgs) -> Result<Identity> {
    if let (Some(certificate), Some(key)) = (&args.certificate, &args.key) {
        let of = Identity::of_pem(&small(certificate)?, &small(key)?);
        return of.map_err(|e| e.in_source(certificate.display()));
    }
    let Some(path) = &args.identity else { return Identity::generate() };
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
