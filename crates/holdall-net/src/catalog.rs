//! The files that a server has, and who may read them.

use crate::protocol::{FileId, Tree};
use crate::rules::{FAILED, TOKEN};
use bytes::Bytes;
use holdall_core::Result;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The files that a server has, by name. A name has segments separated by `/`, and no leading `/`.
pub trait FileCatalog: Send + Sync {
    /// Opens the current version of the file with this name.
    ///
    /// # Errors
    /// Returns `net/no-file` for every name that is not served, whatever the reason; an I/O error if the file cannot be read.
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>>;

    /// Returns all files, sorted by name.
    ///
    /// # Errors
    /// Returns `net/no-file` if listing is disabled; an I/O error if the files cannot be listed.
    fn list(&self) -> Result<Vec<Entry>>;
}

/// One version of a served file.
pub trait ServedFile: Send + Sync {
    /// Returns the length of the file in bytes.
    fn len(&self) -> u64;

    /// Returns the id of this version of the file, which differs from that of every other version and file.
    fn id(&self) -> FileId;

    /// Returns the byte ranges a decoder needs to open the file: in ascending order, not empty, neither overlapping nor
    /// adjacent. Returns no ranges if the file's format is not known.
    fn index(&self) -> Vec<Range<u64>>;

    /// Reads a range, which must be inside the file.
    ///
    /// # Errors
    /// Returns `net/changed` if the file was changed meanwhile; an I/O error if it cannot be read.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;

    /// Reads a range into `out`, which must be as long as the range.
    ///
    /// # Errors
    /// Returns the same errors as for [`read`](ServedFile::read); `net/failed` if the file returns more or fewer bytes.
    fn read_into(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let read = self.read(range)?;
        if read.len() != out.len() {
            let found = format!("read {} bytes, expected {}", read.len(), out.len());
            return Err(FAILED.broken(found));
        }
        out.copy_from_slice(&read);
        Ok(())
    }

    /// Returns the file's hash tree. Computing it reads the whole file once.
    ///
    /// # Errors
    /// Returns the same errors as for [`read`](ServedFile::read).
    fn tree(&self) -> Result<Arc<Tree>> {
        Tree::new(self.len(), &|range| self.read(range)).map(Arc::new)
    }

    /// Returns the file's media type, for browsers. The default is `application/octet-stream`.
    fn kind(&self) -> &'static str {
        "application/octet-stream"
    }

    /// Returns `true` if the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file's name.
    pub name: String,
    /// The file's length in bytes.
    pub len: u64,
}

/// The tokens that a server accepts. Without any, everyone may read its files.
#[derive(Clone, Default)]
pub struct Tokens(Vec<String>);

/// Maximum length of a token, in bytes.
pub(crate) const TOKEN_MAX: usize = 512;

impl Tokens {
    /// Accepts each of these tokens. If the list is empty, clients need none.
    ///
    /// # Errors
    /// Returns `net/token` if a token is empty, longer than 512 bytes, or has characters other than visible ASCII.
    pub fn new(all: Vec<String>) -> Result<Tokens> {
        let is_one = |t: &String| {
            (1..=TOKEN_MAX).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic())
        };
        match all.iter().position(|t| !is_one(t)) {
            Some(at) => Err(TOKEN.broken(format!(
                "token {} is not 1 to {TOKEN_MAX} visible ASCII characters",
                at + 1
            ))),
            None => Ok(Tokens(all)),
        }
    }

    /// Returns `true` if clients need no token.
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a client with this token may read files. The time it takes does not depend on how much of the
    /// token is right.
    pub fn admit(&self, given: &str) -> bool {
        let given = given.as_bytes();
        let is = |token: &String| {
            let token = token.as_bytes();
            let differing = token.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
            token.len() == given.len() && differing == 0
        };
        self.is_open() || self.0.iter().fold(false, |found, token| found | is(token))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Limits for the clients of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum number of connected clients, per protocol. Default: 256.
    pub clients: usize,
    /// Maximum number of files a client may have open. Default: 1024.
    pub files: usize,
    /// Maximum number of requests of one client that are answered at once; further requests wait. Default: 16.
    pub requests: usize,
    /// Maximum bytes in flight to one client, over all its requests. Default: 8 MiB.
    pub in_flight: u64,
    /// Maximum bytes in flight to all clients, shared equally. Default: 32 MiB.
    pub in_flight_of_all: u64,
    /// Maximum bytes per second to one machine (IPv6: to one /64 network), over all its clients. Default: unlimited.
    pub rate: Option<NonZeroU64>,
    /// Maximum bytes per second to all clients together. Default: unlimited.
    pub rate_of_all: Option<NonZeroU64>,
    /// How long a client may be idle, or accept none of the bytes sent to it, before it is disconnected. Default: 30 s.
    pub idle_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            clients: 256,
            files: 1024,
            requests: 16,
            in_flight: 8 << 20,
            in_flight_of_all: 32 << 20,
            rate: None,
            rate_of_all: None,
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// A request, for the server's log.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    /// The client's address.
    pub client: SocketAddr,
    /// The protocol: `quic` or `http`.
    pub protocol: &'static str,
    /// The requested name.
    pub name: &'a str,
    /// Number of bytes sent.
    pub sent: u64,
    /// The outcome.
    pub outcome: RequestOutcome,
}

/// A function that is called after each request, from any thread.
pub type Log = Arc<dyn Fn(&Access<'_>) + Send + Sync>;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// All requested bytes were sent.
    Whole,
    /// The client disconnected before the end.
    Left,
    /// The request was refused. The value is the code of the broken rule.
    Refused(&'static str),
}

impl fmt::Display for RequestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestOutcome::Whole => "whole",
            RequestOutcome::Left => "left",
            RequestOutcome::Refused(code) => code,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_tokens_are_accepted() {
        let tokens = Tokens::new(vec!["first".into(), "second".into()]).unwrap();
        assert!(tokens.admit("first") && tokens.admit("second"));
        assert!(!tokens.admit("") && !tokens.admit("firs") && !tokens.admit("firstt"));
        assert!(Tokens::default().admit("") && Tokens::default().admit("any"));
        for bad in ["", "a b", "ä", &"x".repeat(513)] {
            assert_eq!(Tokens::new(vec![bad.into()]).unwrap_err().code(), "net/token", "{bad}");
        }
        assert!(!format!("{tokens:?}").contains("first"));
    }
}
