//! A file on a web server, read by range requests.

use super::held::{ReceivedParts, cut, lock, missing};
use super::{ByteSource, check_range};
use crate::buffer::Buffer;
use crate::http::rules::{ANSWER, CHANGED, ENCODING, RANGES, SCHEME, VALIDATOR};
use crate::http::{
    Answer, Client, FailedTry, GetOptions, Policy, RequestedRange, Url, Validator, retrying,
};
use crate::workers;
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::read::{MergedRead, ReadHints, join};
use holdall_core::{Error, Result, Warning};
use holdall_formats::IndexLocation;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

/// A file on a web server, read by range requests, on any number of threads.
///
/// The first request fetches the last 512 KiB, and so the length of the file. Later ranges are merged into one request
/// if the gap between them is at most 64 KiB. The version of the file is pinned by its `ETag` or its `Last-Modified`
/// header: a response with another version is an error, and so is one that lacks a header that the first one had. If
/// the server sends neither, or only a weak one, [`ByteSource::warnings`] reports that, and a change of the file that
/// keeps its length is not detected. A server without support for range requests is an error.
pub struct HttpSource {
    client: Client,
    /// The name of the file in errors.
    name: String,
    /// The URL that the caller gave.
    asked: Url,
    /// The URL after redirects.
    found: Mutex<Url>,
    len: u64,
    validator: Validator,
    /// The request header that pins the version, as `(name, value)`.
    pin: Option<(&'static str, String)>,
    /// Whether the first response contains the index, so that the other end of the file need not be fetched.
    is_telling: bool,
    /// Whether the first response contained the whole file.
    is_whole: bool,
    held: ReceivedParts,
}

/// The part of a file that is fetched first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The end, because the format is unknown.
    Unknown,
    /// The end or ends where the format has its index.
    With(IndexLocation),
}

/// The number of bytes of the first request, at one end of the file.
const FIRST: u64 = 512 << 10;
/// The number of bytes fetched from the start of the file in parallel with its end, for formats that need both.
const HEAD: u64 = 256 << 10;
/// The same for formats that have only a magic number at the start. A shorter file is covered by the request for its
/// end.
const SHORT_HEAD: u64 = 4 << 10;
/// Ranges with a gap of at most this many bytes between them are fetched by one request.
const GAP: u64 = 64 << 10;
/// The same if there are more requests than can be sent at once: a request that has to wait costs as much time as about
/// this many bytes.
const WIDE_GAP: u64 = 256 << 10;
/// The greatest length in bytes of a merged request.
const MAX_REQUEST_LEN: u64 = ReadHints::REMOTE.piece;
/// The number of parallel requests if they are large. Each is a connection of its own, and a few connections do not
/// fill a fast line.
const AT_ONCE: usize = 8;
/// The number of parallel requests if each is at most [`WIDE_GAP`] long, and so mostly latency.
const SMALL_AT_ONCE: usize = 32;
/// Smaller reads are extended to this many bytes; the extra bytes are cached for a while.
const AHEAD: u64 = 64 << 10;
/// The hint for addresses with an unknown scheme.
const ADDRESSES: &str = "addresses begin with `https://`, `http://`, `holdall://`, `s3://`, `gs://`, `az://` or `hf://`";
const OWN_FILE: &str = "name a file of this machine by its path";

impl HttpSource {
    /// Opens the file at `url` by one request, or two if the server does not support ranges from the end.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the URL is invalid or `policy` refuses it; an `Io` error; Unsupported ([`RANGES`]) if the server does not support
    /// ranges and the file is longer than 512 KiB.
    pub fn open(url: &str, policy: &Policy) -> Result<HttpSource> {
        HttpSource::open_with(url, Client::new(policy), Begin::Unknown)
    }

    /// Opens the file at `url` with `client`, fetching the part `begin` first.
    ///
    /// # Errors
    /// Returns the same errors as [`HttpSource::open`].
    pub(crate) fn open_with(url: &str, client: Client, begin: Begin) -> Result<HttpSource> {
        let asked = Url::parse(url).map_err(|e| {
            let e = match e.code() == SCHEME.code {
                true if url.to_ascii_lowercase().starts_with("file:") => e.with_hint(OWN_FILE),
                true => e.with_hint(ADDRESSES),
                false => e,
            };
            e.in_source(crate::http::redacted(url))
        })?;
        let name = asked.to_string();
        HttpSource::open_by(client, asked, name, begin)
    }

    /// Opens the file at `asked` with `client`, fetching the part `begin` first. `name` is its name in errors.
    ///
    /// # Errors
    /// Returns the same errors as [`HttpSource::open`].
    pub(crate) fn open_by(
        client: Client,
        asked: Url,
        name: String,
        begin: Begin,
    ) -> Result<HttpSource> {
        let wanted = match begin {
            // In this case the first request is for the start.
            _ if !has_ends(&client) => 0,
            Begin::With(IndexLocation::End) => SHORT_HEAD,
            Begin::With(IndexLocation::BothEnds) => HEAD,
            Begin::With(IndexLocation::Start) | Begin::Unknown => 0,
        };
        let (opened, head) = std::thread::scope(|scope| {
            let ask = || head(&client, &asked, wanted);
            let head =
                (wanted > 0).then(|| std::thread::Builder::new().spawn_scoped(scope, ask).ok());
            let opened = retrying(&client.policy().timeouts, || first(&client, &asked, begin));
            (opened, head.flatten().and_then(|head| head.join().ok()?))
        });
        let first = opened.map_err(|e| e.in_source(&name))?;
        let is_telling = match begin {
            Begin::With(IndexLocation::Start) => true,
            // Some servers do not support ranges from the end.
            Begin::With(IndexLocation::End) => {
                first.part.0 + first.part.1.len() as u64 == first.len
            }
            Begin::With(IndexLocation::BothEnds) | Begin::Unknown => false,
        };
        let is_whole = first.part.1.len() as u64 == first.len;
        // A start of another version is dropped. Any other error shows up when the start is requested again.
        let head = head.filter(|head| !is_whole && head.is_of(&first)).map(|head| (0, head.bytes));
        let prefetched = [first.part].into_iter().chain(head).collect();
        let held = match is_whole && first.validator.weakness().is_some() {
            // The parts are of one version. If they were evicted and fetched again, they could be of another.
            true => ReceivedParts::permanent(prefetched),
            false => ReceivedParts::new(prefetched),
        };
        Ok(HttpSource {
            client,
            name,
            asked,
            pin: first.pin,
            found: Mutex::new(first.url),
            len: first.len,
            validator: first.validator,
            is_telling,
            is_whole,
            held,
        })
    }

    /// Returns the URL without secrets.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Returns a key that identifies this version of this file, or `None` without a strong validator. It may contain
    /// secrets.
    pub(crate) fn version(&self) -> Option<String> {
        let tag = self.validator.strong()?;
        Some(format!("{}\n{tag}", self.asked.secret_text()))
    }

    /// Returns the bytes of a range if they are in memory.
    fn cached(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.start == range.end {
            return Some(Bytes::new());
        }
        self.held.cut(range)
    }

    /// Fetches a merged range, and returns the bytes of each requested range in it, with its index.
    fn fetch(&self, read: &MergedRead, ranges: &[Range<u64>]) -> Result<Vec<(usize, Bytes)>> {
        let mut range = read.range.clone();
        let small = range.end - range.start < AHEAD;
        if small {
            range.end = range.start.saturating_add(AHEAD).min(self.len);
        }
        let mut buffer = Buffer::new((range.end - range.start) as usize)?;
        self.fill(range.start, buffer.as_mut())?;
        let bytes = buffer.freeze();
        let parts = read.ranges.iter().map(|&wanted| {
            let whole = cut(range.start, &bytes, &ranges[wanted]).unwrap_or_default();
            // A small part is copied, so that it does not keep a large buffer alive.
            let shared = whole.len() >= bytes.len() / 2;
            (wanted, if shared { whole } else { Bytes::copy_from_slice(&whole) })
        });
        let parts = parts.collect();
        if small {
            self.held.keep(range.start, bytes);
        }
        Ok(parts)
    }

    /// Fills `out` with the bytes from `start` on. After an interrupted connection, a retry continues where it stopped.
    fn fill(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(out.len() as u64);
        let mut done = 0;
        let filled = retrying(&self.client.policy().timeouts, || self.part(start, out, &mut done));
        filled.map_err(|e| e.at(range).in_source(&self.name))
    }

    /// Requests the rest of `out` after its first `done` bytes.
    fn part(&self, start: u64, out: &mut [u8], done: &mut usize) -> Result<(), FailedTry> {
        let wanted = start + *done as u64..start + out.len() as u64;
        let ask = GetOptions {
            part: Some(RequestedRange::from(&wanted)),
            condition: self.pin.as_ref().map(|(name, value)| (*name, value.as_str())),
            encodings: None,
        };
        let url = lock(&self.found).clone();
        let mut answer = self.client.get(&url, &ask)?;
        if matches!(answer.status, 401 | 403 | 404 | 410) && url != self.asked {
            // The target of a redirect is often valid only for a limited time.
            answer = self.client.get(&self.asked, &ask)?;
            *lock(&self.found) = answer.url.clone();
        }
        self.check(&mut answer, &wanted)?;
        let out = &mut out[*done..];
        match answer.body.fill(out) {
            Ok(n) if n == out.len() => ends(&mut answer),
            Ok(n) => {
                let len = out.len();
                Err(FailedTry::passing(
                    ANSWER.broken(format!(
                        "the server sent {n} of the {len} bytes that it announced"
                    )),
                ))
            }
            Err((n, failed)) => {
                *done += n;
                Err(failed)
            }
        }
    }

    /// Checks a response against the requested range and the pinned version.
    fn check(&self, answer: &mut Answer, wanted: &Range<u64>) -> Result<(), FailedTry> {
        let changed = |what: String| Err(CHANGED.broken(what).into());
        let another = |found: Validator| {
            let first = &self.validator;
            changed(format!("the first response had {first}, and a later one has {found}"))
        };
        let found = match answer.status {
            200 | 206 => answer.validator()?,
            _ => Validator::default(),
        };
        let same = self.validator.fits(&found);
        match answer.status {
            206 if !same => another(found),
            206 => {
                let (bytes, total) = part_of(answer)?;
                match total {
                    Some(total) if total != self.len => {
                        changed(format!("the file had {} bytes, and now has {total}", self.len))
                    }
                    _ if bytes != (wanted.start, wanted.end) => {
                        Err(wrong_part(&bytes, wanted).into())
                    }
                    _ => Ok(()),
                }
            }
            // The server ignored the range: the pinned version no longer exists, or the range is now outside the file.
            200 if !same => another(found),
            412 | 416 => changed("the server no longer has the requested range".into()),
            200 => Err(RANGES
                .broken("the server does not support byte ranges: it sent the whole file")
                .into()),
            _ => Err(answer.refused()),
        }
    }
}

impl ByteSource for HttpSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut out = Vec::with_capacity(ranges.len());
        for range in ranges {
            check_range(range, self.len).map_err(|e| e.in_source(&self.name))?;
            out.push(self.cached(range));
        }
        let missing = missing(ranges, &out);
        let mut reads = join(&missing, GAP, MAX_REQUEST_LEN);
        if reads.len() > AT_ONCE {
            // More requests than can run in parallel: merge across wider gaps.
            reads = join(&missing, WIDE_GAP, MAX_REQUEST_LEN);
        }
        let is_small = |read: &MergedRead| read.range.end - read.range.start <= WIDE_GAP;
        let at_once = if reads.iter().all(is_small) { SMALL_AT_ONCE } else { AT_ONCE };
        let fetched = Mutex::new(Vec::new());
        workers::for_each(
            at_once,
            reads,
            || (),
            |(), read| {
                let parts = self.fetch(&read, &missing)?;
                lock(&fetched).extend(parts);
                Ok(())
            },
        )?;
        for (wanted, bytes) in lock(&fetched).drain(..) {
            out[wanted] = Some(bytes);
        }
        Ok(out.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn read_hints(&self) -> ReadHints {
        let mut hints = ReadHints::REMOTE;
        hints.at_once = AT_ONCE;
        hints
    }

    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        if self.is_telling { self.held.first() } else { Vec::new() }
    }

    fn warnings(&self) -> Vec<Warning> {
        // If the first response had the whole file, all bytes are of one version.
        let weakness = self.validator.weakness().filter(|_| !self.is_whole);
        weakness.map(|why| Warning::new(VALIDATOR, why)).into_iter().collect()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        check_range(&range, self.len).map_err(|e| e.in_source(&self.name))?;
        if (out.len() as u64) < AHEAD {
            out.copy_from_slice(&self.read_range(range)?);
            return Ok(());
        }
        match self.cached(&range) {
            Some(bytes) => out.copy_from_slice(&bytes),
            None => self.fill(offset, out)?,
        }
        Ok(())
    }
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSource")
            .field("url", &self.name)
            .field("len", &self.len)
            .field("validator", &self.validator)
            .finish_non_exhaustive()
    }
}

/// The properties of the remote file in the first response.
struct FirstAnswer {
    url: Url,
    len: u64,
    validator: Validator,
    pin: Option<(&'static str, String)>,
    part: (u64, Bytes),
}

impl FirstAnswer {
    /// Creates it from a response, for a file of `len` bytes of which `part` was received.
    fn from_answer(
        answer: &Answer,
        client: &Client,
        len: u64,
        part: (u64, Bytes),
    ) -> Result<FirstAnswer> {
        let validator = answer.validator()?;
        let own = client.service().map(|service| service.pin(answer));
        let usual = || validator.condition().map(|value| ("if-range", value.to_owned()));
        let pin = own.unwrap_or_else(usual);
        Ok(FirstAnswer { url: answer.url.clone(), len, validator, pin, part })
    }
}

/// The start of a file, fetched in parallel with its end.
struct Head {
    validator: Validator,
    total: Option<u64>,
    bytes: Bytes,
}

impl Head {
    fn is_of(&self, first: &FirstAnswer) -> bool {
        first.validator.fits(&self.validator) && self.total == Some(first.len)
    }
}

/// Requests the start of a file. Returns `None` on any error, without a retry.
fn head(client: &Client, url: &Url, wanted: u64) -> Option<Head> {
    let mut answer = ask(client, url, RequestedRange::Range(0, wanted)).ok()?;
    if answer.status != 206 {
        return None;
    }
    let ((start, end), total) = part_of(&answer).ok()?;
    if (start, end) != (0, total?.min(wanted)) {
        return None;
    }
    let validator = answer.validator().ok()?;
    let bytes = body(&mut answer, end).ok()?;
    Some(Head { validator, total, bytes })
}

/// Requests an end of a file: its start if the server does not support ranges from the end.
fn first(client: &Client, url: &Url, begin: Begin) -> Result<FirstAnswer, FailedTry> {
    let mut from_end = begin != Begin::With(IndexLocation::Start) && has_ends(client);
    let part = if from_end { RequestedRange::Last(FIRST) } else { RequestedRange::Range(0, FIRST) };
    let mut answer = ask(client, url, part)?;
    match answer.status {
        206 => {}
        // The whole file is not longer than the requested range.
        200 if answer.content_len().is_some_and(|len| len <= FIRST) => {
            return whole(answer, client);
        }
        416 if answer.content_range()?.is_some_and(|r| r.total == Some(0)) => {
            return Ok(FirstAnswer::from_answer(&answer, client, 0, (0, Bytes::new()))?);
        }
        // Some servers support ranges, but not from the end.
        200 if answer.header("accept-ranges") != Some("bytes") => return Err(no_ranges()),
        // From a store that supports such ranges, 400 has another reason.
        400 if client.service().is_some() => return Err(answer.refused()),
        200 | 400 | 416 | 501 if from_end => {
            from_end = false;
            answer = ask(client, url, RequestedRange::Range(0, FIRST))?;
            match answer.status {
                206 => {}
                200 => return Err(no_ranges()),
                _ => return Err(answer.refused()),
            }
        }
        200 => return Err(no_ranges()),
        _ => return Err(answer.refused()),
    }
    let ((start, end), total) = part_of(&answer)?;
    let Some(len) = total else {
        let e = RANGES.broken("the server does not state the length of the file");
        return Err(e.into());
    };
    let expected = if from_end { len.saturating_sub(FIRST)..len } else { 0..len.min(FIRST) };
    if (start, end) != (expected.start, expected.end) {
        return Err(wrong_part(&(start, end), &expected).into());
    }
    let bytes = body(&mut answer, end - start)?;
    Ok(FirstAnswer::from_answer(&answer, client, len, (start, bytes))?)
}

/// Returns `true` if the end of a file can be requested without knowing its length.
fn has_ends(client: &Client) -> bool {
    client.service().is_none_or(|service| service.has_ends())
}

/// Handles a response with the whole file.
fn whole(mut answer: Answer, client: &Client) -> Result<FirstAnswer, FailedTry> {
    refuse_encoding(&answer)?;
    // Some servers send the requested part with the status for a whole file.
    let part = answer.content_range()?;
    let is_part =
        |range: &crate::http::ContentRange| range.bytes != range.total.map(|total| (0, total));
    if let Some(range) = part.filter(is_part) {
        let total = range.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
        let message = format!(
            "status 200 announces the whole file, but `Content-Range` a part of {total} bytes; expected status 206"
        );
        return Err(ANSWER.broken(message).into());
    }
    let len = answer.content_len().unwrap_or_default();
    let bytes = body(&mut answer, len)?;
    Ok(FirstAnswer::from_answer(&answer, client, len, (0, bytes))?)
}

fn ask(client: &Client, url: &Url, part: RequestedRange) -> Result<Answer, FailedTry> {
    client.get(url, &GetOptions { part: Some(part), condition: None, encodings: None })
}

/// Returns the byte range of a partial response, and the length of the file if the response states it.
fn part_of(answer: &Answer) -> Result<((u64, u64), Option<u64>), FailedTry> {
    refuse_encoding(answer)?;
    let Some(range) = answer.content_range()? else {
        let what = match answer.header("content-type") {
            Some(kind) if kind.starts_with("multipart/") => {
                "the server sent several parts for one range"
            }
            _ => "the server sent a partial response without `Content-Range`",
        };
        return Err(ANSWER.broken(what).into());
    };
    let Some((start, end)) = range.bytes else {
        return Err(ANSWER
            .broken("the server sent a partial response without a byte range")
            .into());
    };
    match answer.content_len() {
        Some(len) if len != end - start => {
            let e =
                format!("the server sent a range of {} bytes with a length of {len}", end - start);
            Err(ANSWER.broken(e).into())
        }
        _ => Ok(((start, end), range.total)),
    }
}

fn refuse_encoding(answer: &Answer) -> Result<()> {
    match answer.encoding()? {
        None => Ok(()),
        Some(name) => {
            let name = name.escaped();
            Err(ENCODING
                .broken(format!("the server sent the file with the content encoding `{name}`, which was not requested")))
        }
    }
}

/// Reads a whole body of `len` bytes, at most 512 KiB.
fn body(answer: &mut Answer, len: u64) -> Result<Bytes, FailedTry> {
    let mut out = vec![0; len.min(FIRST) as usize];
    let n = answer.body.fill(&mut out).map_err(|(_, failed)| failed)?;
    if n < out.len() {
        let e = ANSWER.broken(format!("the server sent {n} of the {len} bytes that it announced"));
        return Err(FailedTry::passing(e));
    }
    ends(answer)?;
    Ok(out.into())
}

/// Checks that nothing follows the announced bytes. (Reading to the end also makes the connection reusable.)
fn ends(answer: &mut Answer) -> Result<(), FailedTry> {
    match answer.body.next(&mut [0])? {
        0 => Ok(()),
        _ => Err(ANSWER.broken("the server sent more bytes than it announced").into()),
    }
}

#[cold]
fn no_ranges() -> FailedTry {
    RANGES.broken("the server does not support byte ranges: it sent the whole file").into()
}

#[cold]
fn wrong_part(got: &(u64, u64), wanted: &Range<u64>) -> Error {
    let (start, end) = got;
    let (from, to) = (wanted.start, wanted.end);
    ANSWER.broken(format!("the server sent bytes {start}..{end} instead of {from}..{to}"))
}
