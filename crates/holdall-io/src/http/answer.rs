//! Answers, and what is believed of them.

use super::client::{broken, said};
use super::rules::{ANSWER, ENCODING, SLOW, STATUS};
use super::{ContentRange, Failed, Patience, Url, retry_after};
use crate::http::retry::Again;
use holdall_core::error::Shown as _;
use holdall_core::{Error, Result};
use std::io::{self, Read};
use std::time::Instant;
use ureq::http::HeaderMap;

/// An answer whose body is still to come.
pub struct Answer {
    /// Where it came from, redirects followed.
    pub(crate) url: Url,
    /// The status.
    pub status: u16,
    pub(super) headers: HeaderMap,
    /// The bytes, as they come.
    pub body: Body,
}

impl Answer {
    /// The text of a header, where it is there once and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// Bytes of the body as the server states them.
    pub fn content_len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// `Content-Range`, read.
    ///
    /// # Errors
    /// [`ANSWER`], where it makes no sense.
    pub fn content_range(&self) -> Result<Option<ContentRange>> {
        let Some(text) = self.header("content-range") else { return Ok(None) };
        match ContentRange::parse(text) {
            Some(range) => Ok(Some(range)),
            None => {
                let text = text.shown();
                Err(ANSWER.broken(format!("the header `Content-Range: {text}` is not valid")))
            }
        }
    }

    /// The one content encoding that is not `identity`, in lowercase.
    ///
    /// # Errors
    /// [`ENCODING`], where there are several.
    pub fn encoding(&self) -> Result<Option<String>> {
        let mut found = None;
        for value in self.headers.get_all("content-encoding") {
            let text = value.to_str().unwrap_or("?").to_ascii_lowercase();
            for one in text.split(',').map(str::trim) {
                if one.is_empty() || one == "identity" {
                    continue;
                }
                if let Some(first) = found.replace(one.to_owned()) {
                    let e = format!(
                        "the content encodings are `{first}` and `{one}`, one on the other"
                    );
                    return Err(ENCODING.broken(e));
                }
            }
        }
        Ok(found)
    }

    /// What tells this version of the file from others.
    pub fn validator(&self) -> Validator {
        let text = |name| self.header(name).map(str::to_owned);
        Validator { etag: text("etag"), modified: text("last-modified") }
    }

    /// The failure that this answer is: it does not bring what was asked for.
    pub fn refused(&self) -> Failed {
        let status = self.status;
        let says = match status {
            401 | 403 => ": access is denied",
            404 | 410 => ": there is no such file",
            408 | 425 | 429 => ": it asks to come back later",
            500..=599 => ": the server is in trouble",
            _ => "",
        };
        let error: Error =
            STATUS.broken(format!("{} answers with status {status}{says}", self.url.host()));
        let again = match status {
            408 | 425 | 429 | 500 | 502 | 503 | 504 => {
                Again::Later(self.header("retry-after").and_then(retry_after))
            }
            _ => Again::Never,
        };
        Failed { error, again }
    }
}

/// What tells one version of a file on a server from another: `ETag` and `Last-Modified`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validator {
    etag: Option<String>,
    modified: Option<String>,
}

impl Validator {
    /// What `If-Range` takes: a strong `ETag`, else `Last-Modified`.
    pub fn condition(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|tag| tag.starts_with('"'));
        strong.or(self.modified.as_deref())
    }

    /// Whether another answer may be of the same version. What only one of them has says nothing.
    pub(crate) fn fits(&self, other: &Validator) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => Some(a == b),
            _ => None,
        };
        same(&self.etag, &other.etag).or(same(&self.modified, &other.modified)).unwrap_or(true)
    }
}

/// The body of an answer as it comes: its bytes as sent, content encodings and all.
pub struct Body {
    from: ureq::BodyReader<'static>,
    patience: Patience,
    begun: Instant,
    received: u64,
}

impl Body {
    pub(super) fn new(body: ureq::Body, patience: Patience) -> Body {
        let from = body.into_with_config().limit(u64::MAX).reader();
        Body { from, patience, begun: Instant::now(), received: 0 }
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; none at the end.
    pub fn next(&mut self, out: &mut [u8]) -> Result<usize, Failed> {
        let n = self.from.read(out).map_err(|e| match ureq::Error::from(e) {
            ureq::Error::Io(e) => broken(e, "receiving"),
            ureq::Error::Timeout(_) => {
                let e = io::Error::from(io::ErrorKind::TimedOut);
                broken(e, format!("nothing came for {} s", self.patience.stall.as_secs_f64()))
            }
            e => said(e),
        })?;
        self.received += n as u64;
        let took = self.begun.elapsed();
        if n > 0 && took > self.patience.stall {
            let expected =
                (took - self.patience.stall).as_secs_f64() * self.patience.slowest as f64;
            if (self.received as f64) < expected {
                let secs = took.as_secs();
                let e = SLOW.broken(format!("the server sent {} bytes in {secs} s", self.received));
                return Err(Failed::passing(e));
            }
        }
        Ok(n)
    }

    /// Fills `out` as far as the body goes; how far.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Result<usize, (usize, Failed)> {
        let mut done = 0;
        while done < out.len() {
            match self.next(&mut out[done..]) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => return Err((done, e)),
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_compared_by_what_both_have() {
        let new = |etag: Option<&str>, modified: Option<&str>| Validator {
            etag: etag.map(str::to_owned),
            modified: modified.map(str::to_owned),
        };
        assert_eq!(new(Some("\"a\""), Some("Mon")).condition(), Some("\"a\""));
        assert_eq!(new(Some("W/\"a\""), Some("Mon")).condition(), Some("Mon"));
        assert_eq!(new(Some("W/\"a\""), None).condition(), None);
        let first = new(Some("W/\"a\""), Some("Mon"));
        assert!(first.fits(&new(Some("W/\"a\""), Some("Tue"))));
        assert!(!first.fits(&new(Some("W/\"b\""), Some("Mon"))));
        assert!(!first.fits(&new(None, Some("Tue"))));
        assert!(first.fits(&new(None, None)));
    }
}
