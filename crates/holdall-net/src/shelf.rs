//! What a server has, and whom it gives it to.

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

/// The files that a server has, by name: parts with `/` between them, and none before the first.
pub trait FileCatalog: Send + Sync {
    /// The file of that name, as it is now.
    ///
    /// # Errors
    /// `net/no-file` for every name that is not served, whatever the reason; Io.
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>>;

    /// Every file, in the order of names.
    ///
    /// # Errors
    /// `net/no-file`, where listing is off; Io.
    fn list(&self) -> Result<Vec<Entry>>;
}

/// A file that is served: the bytes of one version of it.
pub trait ServedFile: Send + Sync {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// What tells this version of this file from every other.
    fn id(&self) -> FileId;

    /// Where the bytes are without which nothing is known of the file: rising, not empty, none touching another. None at
    /// all of a file in no format that is known.
    fn index(&self) -> Vec<Range<u64>>;

    /// The bytes of a range inside the file.
    ///
    /// # Errors
    /// `net/changed` where the file is another by now; Io.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;

    /// The same, into memory that is as long as the range.
    ///
    /// # Errors
    /// As for reading; `net/failed` where the file gives more bytes or fewer.
    fn read_into(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let read = self.read(range)?;
        if read.len() != out.len() {
            let found = format!("the file gave {} bytes for {}", read.len(), out.len());
            return Err(FAILED.broken(found));
        }
        out.copy_from_slice(&read);
        Ok(())
    }

    /// The tree of its hashes, which takes reading it once.
    ///
    /// # Errors
    /// As for reading.
    fn tree(&self) -> Result<Arc<Tree>> {
        Tree::new(self.len(), &|range| self.read(range)).map(Arc::new)
    }

    /// What the bytes are to a browser: a media type.
    fn kind(&self) -> &'static str {
        "application/octet-stream"
    }

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file in a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Bytes in all.
    pub len: u64,
}

/// Who may ask: anybody, or who has one of these.
#[derive(Clone, Default)]
pub struct Tokens(Vec<String>);

/// The most bytes of a token.
pub(crate) const TOKEN_MAX: usize = 512;

impl Tokens {
    /// One of them is asked for; without any, nobody is asked for one.
    ///
    /// # Errors
    /// `net/token` for one that is empty, longer than 512 bytes or not of visible ASCII.
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

    /// Whether nobody is asked for one.
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether who gives this may ask. It takes as long for each wrong one.
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

/// How much clients may have of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Clients at once, over each protocol.
    pub clients: usize,
    /// Files that a client has open at once.
    pub files: usize,
    /// Requests of a client that are answered at once; more of them wait.
    pub requests: usize,
    /// Bytes on their way to a client, of all its requests.
    pub in_flight: u64,
    /// Bytes on their way to all clients, each of which has the same share.
    pub in_flight_of_all: u64,
    /// Bytes a second to a machine, however many clients it has; for IPv6 to a network of /64. Without one, as many as go.
    pub rate: Option<NonZeroU64>,
    /// Bytes a second to all.
    pub rate_of_all: Option<NonZeroU64>,
    /// How long a client may do nothing, and how long it may take none of what is sent to it.
    pub patience: Duration,
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
            patience: Duration::from_secs(30),
        }
    }
}

/// Something that a server did, for its log.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    /// Who asked.
    pub client: SocketAddr,
    /// By which protocol: `quic`, `http`.
    pub by: &'static str,
    /// What was asked for.
    pub name: &'a str,
    /// Bytes that were sent.
    pub sent: u64,
    /// How it ended.
    pub done: RequestOutcome,
}

/// Who is told what was asked for, and how it ended. Called from any thread.
pub type Log = Arc<dyn Fn(&Access<'_>) + Send + Sync>;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// All that was asked for was sent.
    Whole,
    /// The client left before that.
    Left,
    /// The broken rule that it was refused for.
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
    fn one_of_the_tokens_is_asked_for() {
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
