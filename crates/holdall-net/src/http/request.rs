//! Requests of HTTP clients, and parsing of HTTP/1.1 heads.

use holdall_json::percent_decoded;
use std::ops::Range;

/// Maximum length of a request's head, in bytes.
pub(super) const HEAD_MAX: usize = 16 << 10;

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// The request target, as it was sent.
    pub(super) target: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    /// Whether the client keeps the connection open for further requests.
    pub(super) goes_on: bool,
}

impl<'a> Request<'a> {
    /// Parses an HTTP/1.1 request head, including the empty line at its end. Returns `None` if it is invalid or
    /// announces a body.
    pub(super) fn parse(head: &'a [u8]) -> Option<Request<'a>> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target, version) = (first.next()?, first.next()?, first.next()?);
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || first.next().is_some() {
            return None;
        }
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
            if !is_name || value.contains(|c: char| c.is_control() && c != '\t') {
                return None;
            }
            headers.push((name, value.trim_matches([' ', '\t'])));
        }
        let mut request = Request::new(method, target, headers)?;
        request.goes_on = version == "HTTP/1.1";
        if let Some(connection) = request.header("connection") {
            let has =
                |word: &str| connection.split(',').any(|w| w.trim().eq_ignore_ascii_case(word));
            request.goes_on = !has("close") && (request.goes_on || has("keep-alive"));
        }
        Some(request)
    }

    /// Creates a request of any HTTP version. Returns `None` if its target is not a path, or if it has a body.
    pub(super) fn new(
        method: &'a str,
        target: &'a str,
        headers: Vec<(&'a str, &'a str)>,
    ) -> Option<Request<'a>> {
        let is_path = target.starts_with('/') || (target == "*" && method == "OPTIONS");
        let request = Request { method, target, headers, goes_on: true };
        let has_body = request.header("transfer-encoding").is_some()
            || request.header("content-length").is_some_and(|len| len != "0");
        let is_one = is_path && !has_body && !target.contains(|c: char| c.is_control());
        is_one.then_some(request)
    }

    /// Returns the value of the first header with this name.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    /// Returns the decoded name of the requested file.
    pub(super) fn name(&self) -> Option<String> {
        let path = self.target.split(['?', '#']).next()?;
        percent_decoded(path.strip_prefix('/')?)
    }

    /// Returns the tokens the client sent: that of `Bearer TOKEN`, or the user name and the password of `Basic`. A
    /// client that sent none has the empty token.
    pub(super) fn tokens(&self) -> Vec<String> {
        let Some((scheme, given)) = self.header("authorization").and_then(|a| a.split_once(' '))
        else {
            return vec![String::new()];
        };
        if scheme.eq_ignore_ascii_case("bearer") {
            return vec![given.trim().to_owned()];
        }
        let bytes = data_encoding::BASE64.decode(given.trim().as_bytes()).unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        let (name, password) = text.split_once(':').unwrap_or((&text, ""));
        vec![name.to_owned(), password.to_owned()]
    }

    /// Returns whether the header lists this validator, or `*`; `None` if the request has no such header.
    pub(super) fn lists(&self, header: &str, etag: &str) -> Option<bool> {
        let all = self.header(header)?;
        Some(all.trim() == "*" || all.split(',').any(|one| one.trim() == etag))
    }
}

/// The part of a file that is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseRange {
    /// The whole file.
    Whole,
    Range(Range<u64>),
    /// A range that the file does not have.
    Outside,
}

/// Parses a `Range` header for a file of `len` bytes. Invalid headers and headers with several ranges are ignored.
pub(super) fn part(header: Option<&str>, len: u64) -> ResponseRange {
    let read = |text: &str| -> Option<ResponseRange> {
        let (first, last) = text.strip_prefix("bytes=")?.trim().split_once('-')?;
        let number = |text: &str| -> Option<u64> {
            let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            // A number that overflows is past the end of any file.
            is_number.then(|| text.parse().unwrap_or(u64::MAX))
        };
        let range = match (first, last) {
            ("", count) => len.saturating_sub(number(count)?)..len,
            (first, "") => number(first)?..len,
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(len)
            }
        };
        Some(if range.start < range.end {
            ResponseRange::Range(range)
        } else {
            ResponseRange::Outside
        })
    };
    header.and_then(read).unwrap_or(ResponseRange::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let head = b"GET /a%20b?x HTTP/1.1\r\nHost: h\r\nRANGE:\tbytes=0-1 \r\n\r\n";
        let request = Request::parse(head).unwrap();
        assert_eq!((request.method, request.name().unwrap().as_str()), ("GET", "a b"));
        assert_eq!(request.header("range"), Some("bytes=0-1"));
        assert!(request.goes_on);
        let closing = Request::parse(b"GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").unwrap();
        assert!(!closing.goes_on);
        assert!(!Request::parse(b"GET / HTTP/1.0\r\n\r\n").unwrap().goes_on);
        let basic = b"GET / HTTP/1.1\r\nAuthorization: Basic YTpi\r\n\r\n";
        assert_eq!(Request::parse(basic).unwrap().tokens(), ["a", "b"]);
    }

    #[test]
    fn invalid_request_heads_are_refused() {
        for head in [
            &b""[..],
            b"\r\n\r\n",
            b"GET / HTTP/1.1\r\n",
            b"GET  / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/2\r\n\r\n",
            b"GET / HTTP/1.1 x\r\n\r\n",
            b"GET http://h/ HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n folded\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\na: b\nc: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Request::parse(head), None, "{}", String::from_utf8_lossy(head));
        }
        let request = Request::parse(b"GET /%ff HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(request.name(), None);
    }

    #[test]
    fn ranges_are_read() {
        for (text, wanted) in [
            ("bytes=0-9", ResponseRange::Range(0..10)),
            ("bytes=90-", ResponseRange::Range(90..100)),
            ("bytes=-10", ResponseRange::Range(90..100)),
            ("bytes=-1000", ResponseRange::Range(0..100)),
            ("bytes=99-99999999999999999999999", ResponseRange::Range(99..100)),
            ("bytes=100-", ResponseRange::Outside),
            ("bytes=-0", ResponseRange::Outside),
            ("bytes=9-0", ResponseRange::Whole),
            ("bytes=0-1,5-6", ResponseRange::Whole),
            ("bytes=a-b", ResponseRange::Whole),
            ("bytes=+1-2", ResponseRange::Whole),
            ("lines=0-1", ResponseRange::Whole),
        ] {
            assert_eq!(part(Some(text), 100), wanted, "{text}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), ResponseRange::Outside);
        assert_eq!(part(None, 0), ResponseRange::Whole);
    }
}
