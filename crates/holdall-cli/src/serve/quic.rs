//! The certificate and key of the server, for QUIC and TLS.

use clap::Args;
use holdall::Result;
use holdall::serve::{Identity, read_certificate, read_identity};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct QuicArgs {
    /// File for the server's self-signed certificate and its key, so that addresses stay the same after a restart;
    /// created if it does not exist
    #[arg(long, value_name = "FILE", conflicts_with = "certificate")]
    identity: Option<PathBuf>,

    /// A certificate from an authority, in PEM, with its chain
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// Returns the requested identity; `None` for a temporary self-signed one.
pub(super) fn identity(args: &QuicArgs) -> Result<Option<Identity>> {
    Ok(match (&args.certificate, &args.key, &args.identity) {
        (Some(certificate), Some(key), _) => Some(read_certificate(certificate, key)?),
        (_, _, Some(path)) => Some(read_identity(path)?),
        _ => None,
    })
}
