//! Responses, and their validation.

use super::client::{broken, failure};
use super::header::date;
use super::rules::{ANSWER, ENCODING, SLOW, STATUS};
use super::socket::BodySocket;
use super::{ContentRange, FailedTry, Service, Timeouts, Url, retry_after};
use crate::http::retry::Retry;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;
use ureq::http::HeaderMap;

/// A response whose body has not been read yet.
pub struct Answer {
    /// The URL of the response, after redirects.
    pub(crate) url: Url,
    /// The status code.
    pub status: u16,
    pub(super) headers: HeaderMap,
    /// The body.
    pub body: Body,
    /// The service that signed the request, if one did.
    pub(super) service: Option<Arc<dyn Service>>,
}

impl Answer {
    /// Returns the value of a header if it is valid text. Of repeated headers, returns the first.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// Returns the value of a header that determines the meaning of the body.
    ///
    /// # Errors
    /// Returns [`ANSWER`] if the header is repeated or is not text.
    fn single(&self, name: &str) -> Result<Option<&str>> {
        let mut all = self.headers.get_all(name).iter();
        let (Some(value), more) = (all.next(), all.next()) else { return Ok(None) };
        if more.is_some() {
            return Err(
                ANSWER.broken(format!("the response has the header `{name}` more than once"))
            );
        }
        match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(ANSWER.broken(format!("the header `{name}` is not text"))),
        }
    }

    /// Returns the length of the body in bytes, as the server states it.
    pub fn content_len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Returns the parsed `Content-Range` header, or `None` without one.
    ///
    /// # Errors
    /// Returns [`ANSWER`] if the header is invalid or repeated.
    pub fn content_range(&self) -> Result<Option<ContentRange>> {
        let Some(text) = self.single("content-range")? else { return Ok(None) };
        match ContentRange::parse(text) {
            Some(range) => Ok(Some(range)),
            None => {
                let text = text.escaped();
                Err(ANSWER.broken(format!("the header `Content-Range: {text}` is not valid")))
            }
        }
    }

    /// Returns the content encoding in lowercase, or `None` for `identity`.
    ///
    /// # Errors
    /// Returns [`ENCODING`] if several encodings are applied on top of each other.
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
                        "expected at most one content encoding, found `{first}` and `{one}`"
                    );
                    return Err(ENCODING.broken(e));
                }
            }
        }
        Ok(found)
    }

    /// Returns the headers that identify this version of the file.
    ///
    /// # Errors
    /// Returns [`ANSWER`] if one of these headers is repeated.
    pub fn validator(&self) -> Result<Validator> {
        let text = |name| Ok(self.single(name)?.filter(|text| !text.is_empty()).map(str::to_owned));
        let (etag, modified) = (text("etag")?, text("last-modified")?);
        let seconds = |text: Option<&str>| text.and_then(date);
        let is_past = match (seconds(modified.as_deref()), seconds(self.header("date"))) {
            (Some(modified), Some(now)) => modified < now,
            _ => false,
        };
        Ok(Validator { etag, modified, is_past })
    }

    /// Reads the start of the body, up to `at_most` bytes.
    pub(crate) fn text(&mut self, at_most: usize) -> Vec<u8> {
        let mut out = vec![0; at_most];
        let len = self.body.fill(&mut out).unwrap_or_else(|(len, _)| len);
        out.truncate(len);
        out
    }

    /// Converts this response to an error, because it is not the requested file.
    pub fn refused(&mut self) -> FailedTry {
        if let Some(service) = self.service.clone() {
            let body = self.text(MAX_REFUSAL);
            if let Some(failed) = service.refused(self, &body) {
                return failed;
            }
        }
        let status = self.status;
        let says = match status {
            401 | 403 => ": access is denied",
            404 | 410 => ": there is no such file",
            408 | 425 | 429 => ": the server asks to try again later",
            500..=599 => ": server error",
            _ => "",
        };
        let error: Error =
            STATUS.broken(format!("{} answers with status {status}{says}", self.url.host()));
        let kind = match status {
            401 | 403 => Some(io::ErrorKind::PermissionDenied),
            404 | 410 => Some(io::ErrorKind::NotFound),
            _ => None,
        };
        let error = match kind {
            Some(kind) => error.with_cause(io::Error::from(kind)),
            None => error,
        };
        let error = match status {
            401 if !self.url.has_credentials() => error.with_hint(CREDENTIALS_HINT),
            _ => error,
        };
        let again = match status {
            408 | 425 | 429 | 500 | 502 | 503 | 504 => {
                Retry::Later(self.header("retry-after").and_then(retry_after))
            }
            _ => Retry::Never,
        };
        FailedTry { error, again }
    }
}

/// The hint for a server that requires credentials, if the URL has none.
const CREDENTIALS_HINT: &str = "put the credentials before the host: `https://USER:PASSWORD@host/…`, or `TOKEN@` for `holdall serve`";
/// The greatest number of bytes of an error response that are read.
const MAX_REFUSAL: usize = 64 << 10;

/// The headers that identify a version of a file on a server: `ETag` and `Last-Modified`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validator {
    etag: Option<String>,
    modified: Option<String>,
    /// Whether `Last-Modified` is before the time of the response (`Date`): a later change then gets another time.
    is_past: bool,
}

impl Validator {
    /// Returns the value for `If-Range`: a strong `ETag`, else `Last-Modified`.
    pub fn condition(&self) -> Option<&str> {
        self.strong().or(self.modified.as_deref())
    }

    /// Returns the `ETag` if it is strong: files with the same strong `ETag` are equal byte for byte.
    pub(crate) fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|tag| tag.starts_with('"'))
    }

    /// Returns `true` if another response is of the same version, as far as headers can tell. It must have the same
    /// strong `ETag`, or, without one, the same headers with the same values.
    pub(crate) fn fits(&self, other: &Validator) -> bool {
        match self.strong() {
            Some(tag) => other.strong() == Some(tag),
            None => (&self.etag, &self.modified) == (&other.etag, &other.modified),
        }
    }

    /// Returns why a change of the file may go unnoticed, or `None` if it cannot.
    pub(crate) fn weakness(&self) -> Option<&'static str> {
        match (&self.etag, &self.modified) {
            _ if self.strong().is_some() || self.is_past && self.etag.is_none() => None,
            (Some(_), _) => Some(
                "the server's `ETag` is weak (`W/…`): if the file is replaced while it is open by one of the same \
                 length, and the server keeps its `ETag` and `Last-Modified`, parts of both may be read",
            ),
            (None, Some(_)) => Some(
                "the server sends no `ETag`, and a `Last-Modified` that is not before the time of its response: if the file is \
                 replaced in the same second by one of the same length, parts of both may be read",
            ),
            (None, None) => Some(
                "the server sends neither `ETag` nor `Last-Modified`: if the file is replaced while it is open by one \
                 of the same length, parts of both may be read",
            ),
        }
    }
}

/// Shows the headers with their values.
impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("`{name}: {}`", value.escaped()))
        };
        match (shown("ETag", &self.etag), shown("Last-Modified", &self.modified)) {
            (Some(tag), Some(modified)) => write!(f, "{tag} and {modified}"),
            (Some(one), None) | (None, Some(one)) => f.write_str(&one),
            (None, None) => f.write_str("neither `ETag` nor `Last-Modified`"),
        }
    }
}

/// The body of a response as it is received, with content encodings still applied.
pub struct Body {
    from: ureq::BodyReader<'static>,
    /// Direct access to the socket that bypasses the library. Only while the length is known and bytes are missing.
    door: Option<BodySocket>,
    len: u64,
    /// Whether bytes were read directly from the socket; all later ones are then, too.
    is_past: bool,
    /// Whether the connection can be reused for another request.
    lasts: bool,
    timeouts: Timeouts,
    begun: Instant,
    received: u64,
}

/// Reads shorter than this go through the library.
const LONG: usize = 64 << 10;

impl Body {
    pub(super) fn new(
        body: ureq::Body,
        door: Option<BodySocket>,
        lasts: bool,
        timeouts: Timeouts,
    ) -> Body {
        let (door, len) = match body.content_length() {
            Some(len) => (door, len),
            None => (None, 0),
        };
        let from = body.into_with_config().limit(u64::MAX).reader();
        let (is_past, begun) = (false, Instant::now());
        Body { from, door, len, is_past, lasts, timeouts, begun, received: 0 }
    }

    /// Returns the number of bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Reads the next bytes of the body, and returns how many; 0 at the end.
    pub fn next(&mut self, out: &mut [u8]) -> Result<usize, FailedTry> {
        let stall = self.timeouts.stall.as_secs_f64();
        let late = |e: io::Error| broken(e, format!("no data received for {stall} s"));
        let n = self.read(out).map_err(|e| match ureq::Error::from(e) {
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::TimedOut => late(e),
            ureq::Error::Io(e) => broken(e, "receiving"),
            ureq::Error::Timeout(_) => late(io::ErrorKind::TimedOut.into()),
            e => failure(e),
        })?;
        self.received += n as u64;
        let took = self.begun.elapsed();
        if n > 0 && took > self.timeouts.stall {
            let expected =
                (took - self.timeouts.stall).as_secs_f64() * self.timeouts.slowest as f64;
            if (self.received as f64) < expected {
                let secs = took.as_secs();
                let e = SLOW.broken(format!("the server sent {} bytes in {secs} s", self.received));
                return Err(FailedTry::passing(e));
            }
        }
        Ok(n)
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(self.received)).unwrap_or(usize::MAX);
        let most = out.len().min(left);
        let Some(door) = &self.door else {
            return if self.is_past { Ok(0) } else { self.from.read(out) };
        };
        if !self.is_past && (most < LONG || door.has_buffered_bytes()) {
            return self.from.read(out);
        }
        self.is_past = true;
        let n = door.read(&mut out[..most], self.timeouts.stall)?;
        if n == left
            && let Some(door) = self.door.take()
            && self.lasts
        {
            door.keep();
        }
        if n == 0 && most > 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(n) }
    }

    /// Fills `out` as far as the body reaches, and returns the number of bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Result<usize, (usize, FailedTry)> {
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

    fn new(etag: Option<&str>, modified: Option<&str>) -> Validator {
        let (etag, modified) = (etag.map(str::to_owned), modified.map(str::to_owned));
        Validator { etag, modified, is_past: false }
    }

    #[test]
    fn conditions_are_strong_tags_or_times() {
        assert_eq!(new(Some("\"a\""), Some("Mon")).condition(), Some("\"a\""));
        assert_eq!(new(Some("W/\"a\""), Some("Mon")).condition(), Some("Mon"));
        assert_eq!(new(Some("W/\"a\""), None).condition(), None);
    }

    #[test]
    fn later_answers_have_the_validator_of_the_first() {
        let strong = new(Some("\"a\""), Some("Mon"));
        assert!(strong.fits(&strong) && strong.fits(&new(Some("\"a\""), None)));
        assert!(strong.fits(&new(Some("\"a\""), Some("Tue"))));
        for other in [None, Some("\"b\""), Some("W/\"a\"")] {
            assert!(!strong.fits(&new(other, Some("Mon"))), "{other:?}");
        }
        for first in [new(Some("W/\"a\""), Some("Mon")), new(None, Some("Mon")), new(None, None)] {
            assert!(first.fits(&first));
            for etag in [None, Some("\"a\""), Some("W/\"a\""), Some("W/\"b\"")] {
                for modified in [None, Some("Mon"), Some("Tue")] {
                    let other = new(etag, modified);
                    assert_eq!(first.fits(&other), first == other, "{first} {other}");
                }
            }
        }
    }

    #[test]
    fn a_weak_validator_says_why() {
        let past = |etag, modified| Validator { is_past: true, ..new(etag, modified) };
        assert_eq!(new(Some("\"a\""), None).weakness(), None);
        assert_eq!(past(None, Some("Mon")).weakness(), None);
        for (weak, says) in [
            (new(None, Some("Mon")), "same second"),
            (new(None, None), "neither"),
            (past(Some("W/\"a\""), Some("Mon")), "`ETag` is weak"),
        ] {
            assert!(weak.weakness().unwrap().contains(says), "{weak}");
        }
    }
}
