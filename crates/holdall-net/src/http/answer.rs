//! HTTP responses, independent of the HTTP version.

use super::request::{Request, ResponseRange, part};
use super::server::HttpOptions;
use crate::catalog::{Entry, ServedFile};
use crate::rules::{FAILED, NO_FILE, PLAIN, TOKEN};
use crate::service::Service;
use holdall_core::Result;
use holdall_json::write_string;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// A response, independent of the HTTP version: its status and headers, and its body.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
    /// The code of the rule that the request broke, if it was refused.
    pub(super) refused: Option<&'static str>,
}

/// The body of a response.
enum Body {
    Text(String),
    File(Arc<dyn ServedFile>, Range<u64>),
}

/// Builds responses to requests.
pub(super) struct Responder<'a> {
    pub(super) service: &'a Service,
    pub(super) options: &'a HttpOptions,
    /// Whether the server listens on a loopback address only.
    pub(super) is_loopback: bool,
}

impl Responder<'_> {
    /// Returns the response to a request, or to bytes that are not a valid request (`None`).
    pub(super) fn answer(&self, request: Option<&Request<'_>>) -> Answer {
        let mut answer = match request {
            Some(request) => self.respond(request),
            None => Answer::text(400, "invalid request\n"),
        };
        for (name, value) in &self.options.headers {
            answer.add(name, value);
        }
        if let Some(origin) = &self.options.cors {
            answer.add("Access-Control-Allow-Origin", origin);
            answer.add("Access-Control-Expose-Headers", "ETag, Content-Range, Accept-Ranges");
            answer.add("Timing-Allow-Origin", origin);
            if origin != "*" {
                answer.add("Vary", "Origin");
            }
        }
        answer
    }

    fn respond(&self, request: &Request<'_>) -> Answer {
        // DNS rebinding: a foreign web page whose host name resolves to this machine sends that host name. Only hosts
        // that mean this machine itself are accepted.
        if self.is_loopback && !request.header("host").is_none_or(is_local_host) {
            return Answer::text(421, "wrong host\n");
        }
        match request.method {
            "GET" | "HEAD" => {}
            "OPTIONS" => {
                let mut answer = Answer::text(204, "");
                answer.add("Allow", METHODS);
                if self.options.cors.is_some() {
                    answer.add("Access-Control-Allow-Methods", METHODS);
                    let headers = "Authorization, If-Match, If-None-Match, If-Range, Range";
                    answer.add("Access-Control-Allow-Headers", headers);
                    answer.add("Access-Control-Max-Age", "600");
                }
                return answer;
            }
            _ => {
                let mut answer = Answer::text(405, "method not allowed: use GET or HEAD\n");
                answer.add("Allow", METHODS);
                return answer;
            }
        }
        if !request.tokens().iter().any(|token| self.service.tokens.admit(token)) {
            let mut answer = Answer::text(401, "missing or invalid token\n");
            answer.add("WWW-Authenticate", "Bearer");
            answer.refused = Some(TOKEN.code);
            return answer;
        }
        match request.name() {
            Some(name) if name.is_empty() || name.ends_with('/') => self.list(&name),
            Some(name) => self.file(request, &name),
            None => not_found(),
        }
    }

    fn list(&self, prefix: &str) -> Answer {
        let all = match self.service.catalog.list() {
            Ok(all) => all,
            Err(e) if e.code() == NO_FILE.code => return not_found(),
            Err(_) => return Answer::text(500, "the files cannot be listed\n"),
        };
        let is_in = |entry: &&Entry| entry.name.starts_with(prefix);
        let mut text = "{\"files\":[".to_owned();
        let mut count = 0;
        for entry in all.iter().filter(is_in) {
            text.push_str(if count > 0 { ",\n" } else { "\n" });
            text.push_str("{\"name\":");
            write_string(&entry.name, &mut text);
            // Writing to a `String` cannot fail.
            let _ = write!(text, ",\"bytes\":{}}}", entry.len);
            count += 1;
        }
        if count == 0 && !prefix.is_empty() {
            return not_found();
        }
        text.push_str("\n]}\n");
        let mut answer = Answer::text(200, text);
        answer.headers = vec![("Content-Type", "application/json".to_owned())];
        answer
    }

    fn file(&self, request: &Request<'_>, name: &str) -> Answer {
        let file = match self.service.catalog.open(name) {
            Ok(file) => file,
            Err(e) if e.code() == NO_FILE.code => return not_found(),
            Err(_) => {
                let mut answer = Answer::text(500, "the file cannot be read\n");
                answer.refused = Some(FAILED.code);
                return answer;
            }
        };
        let (len, id) = (file.len(), file.id().to_string());
        let etag = format!("\"{}\"", id.get(..32).unwrap_or_default());
        let with_file_headers = |mut answer: Answer| {
            answer.add("ETag", &etag);
            answer.add("Accept-Ranges", "bytes");
            answer
        };
        if request.lists("if-match", &etag) == Some(false) {
            return with_file_headers(Answer::text(412, ""));
        }
        if request.lists("if-none-match", &etag) == Some(true) {
            return with_file_headers(Answer::text(304, ""));
        }
        let is_same = request.header("if-range").is_none_or(|one| one == etag);
        let range_header = request.header("range").filter(|_| is_same);
        let (status, range) = match part(range_header, len) {
            ResponseRange::Whole => (200, 0..len),
            ResponseRange::Range(range) => (206, range),
            ResponseRange::Outside => {
                let mut answer = with_file_headers(Answer::text(416, ""));
                answer.add("Content-Range", &format!("bytes */{len}"));
                return answer;
            }
        };
        let content_range = match status {
            206 => Some(format!("bytes {}-{}/{len}", range.start, range.end.saturating_sub(1))),
            _ => None,
        };
        let kind = file.kind();
        let body = Body::File(file, range);
        let mut answer =
            with_file_headers(Answer { status, headers: Vec::new(), body, refused: None });
        answer.add("Content-Type", kind);
        if let Some(content_range) = content_range {
            answer.add("Content-Range", &content_range);
        }
        answer
    }
}

const METHODS: &str = "GET, HEAD, OPTIONS";

/// Returns `true` if a host name cannot belong to a foreign site, because it is an IP address or `localhost`.
fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cold]
fn not_found() -> Answer {
    let mut answer = Answer::text(404, "no such file is served\n");
    answer.refused = Some(NO_FILE.code);
    answer
}

impl Answer {
    pub(super) fn text(status: u16, text: impl Into<String>) -> Answer {
        let kind = ("Content-Type", "text/plain; charset=utf-8".to_owned());
        Answer { status, headers: vec![kind], body: Body::Text(text.into()), refused: None }
    }

    /// Returns the response to a client that does not use TLS, if plain text is refused.
    pub(super) fn plain() -> Answer {
        let text = "this server accepts HTTPS only: use https://\n";
        Answer { refused: Some(PLAIN.code), ..Answer::text(400, text) }
    }

    fn add(&mut self, name: &'static str, value: &str) {
        self.headers.push((name, value.to_owned()));
    }

    /// Returns all headers, including `Content-Length`.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let own = self.headers.iter().map(|(name, value)| (*name, Cow::Borrowed(value.as_str())));
        // Responses with status 204 and 304 have no body, and no `Content-Length` either.
        let len = (!matches!(self.status, 204 | 304)).then(|| self.len().to_string());
        let len = len.map(|len| ("Content-Length", Cow::Owned(len)));
        own.chain(len).chain([("X-Content-Type-Options", Cow::Borrowed("nosniff"))])
    }

    /// Returns the length of the body in bytes.
    pub(super) fn len(&self) -> u64 {
        match &self.body {
            Body::Text(text) => text.len() as u64,
            Body::File(_, range) => range.end - range.start,
        }
    }

    /// Reads `out.len()` bytes of the body, starting at offset `at`. `at + out.len()` must not exceed the length of the
    /// body.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at + out.len() as u64;
        match &self.body {
            Body::Text(text) => {
                let bytes = text.as_bytes().get(at as usize..end as usize);
                out.copy_from_slice(bytes.unwrap_or_default());
                Ok(())
            }
            Body::File(file, range) => file.read_into(range.start + at..range.start + end, out),
        }
    }
}
