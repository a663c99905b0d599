//! A file on a web server, read by ranges.

use super::held::{Held, cut, lock, missing};
use super::{ByteSource, check_range};
use crate::buffer::Buffer;
use crate::http::rules::{ANSWER, CHANGED, ENCODING, RANGES, SCHEME, VALIDATOR};
use crate::http::{
    Answer, Client, FailedTry, GetOptions, Policy, RequestedRange, Url, Validator, retrying,
};
use crate::workers;
use bytes::Bytes;
use holdall_core::error::Shown as _;
use holdall_core::read::{MergedRead, ReadHints, join};
use holdall_core::{Error, Result, Warning};
use holdall_formats::IndexLocation;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

/// A file on a web server, read by range requests, on any number of threads.
///
/// The first request brings the last 512 KiB and tells the length; what is asked for later comes in as few
/// requests as there are gaps of more than 64 KiB. The version of the file is pinned by its `ETag` or its
/// `Last-Modified`: an answer from another version is an error, and so is one without what the first one had. Where
/// the server has neither, or only what is weak, its [`ByteSource::warnings`] say so, and another file of the same
/// length goes unnoticed. A server that does not know ranges is an error.
pub struct HttpSource {
    client: Client,
    /// What the caller calls it.
    name: String,
    /// Where the caller said it is.
    asked: Url,
    /// Where redirects led.
    found: Mutex<Url>,
    len: u64,
    validator: Validator,
    /// The header by which answers are of that version.
    pin: Option<(&'static str, String)>,
    /// Whether what came first tells what is in it, so that the other end is not looked at.
    is_telling: bool,
    /// Whether all of it came with the first answer.
    is_whole: bool,
    held: Held,
}

/// What of a file is asked for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Its end, because nothing is known of it.
    Unknown,
    /// The end or the ends that tell what is in it.
    With(IndexLocation),
}

/// Bytes asked for at first, at one end of the file.
const FIRST: u64 = 512 << 10;
/// Bytes of its start that are asked for at the same time as its end, where both are wanted.
const HEAD: u64 = 256 << 10;
/// The same where they only say what it is: a file that is shorter than what comes of its end has them there as well.
const SHORT_HEAD: u64 = 4 << 10;
/// Gaps up to so many bytes are fetched along rather than left out by another request.
const GAP: u64 = 64 << 10;
/// The same where there are more requests than can be under way at once: then a request waits for another, which
/// takes as long as so many bytes.
const WIDE_GAP: u64 = 256 << 10;
/// Requests are merged up to so many bytes.
const MOST: u64 = ReadHints::REMOTE.piece;
/// Requests at once, where they bring much: each is a connection of its own, and a few of those do not fill a line that is fast.
const AT_ONCE: usize = 8;
/// The same where each brings at most [`WIDE_GAP`], and is little but a wait.
const SMALL_AT_ONCE: usize = 32;
/// Smaller reads fetch so much, and what they did not ask for is kept for a while.
const AHEAD: u64 = 64 << 10;
/// What helps who gives an address with a scheme that there is not.
const ADDRESSES: &str = "addresses begin with `https://`, `http://`, `holdall://`, `s3://`, `gs://`, `az://` or `hf://`";
const OWN_FILE: &str = "name a file of this machine by its path";

impl HttpSource {
    /// Opens the file at `url`: one request, or two where the server knows no ranges from the end.
    ///
    /// # Errors
    /// Misuse for an invalid URL or one that `policy` refuses; Io; Unsupported ([`RANGES`]) for a server
    /// that can only send the whole of a file that is longer than 512 KiB.
    pub fn open(url: &str, policy: &Policy) -> Result<HttpSource> {
        HttpSource::open_with(url, Client::new(policy), Begin::Unknown)
    }

    /// The same, asked by `client`, for that first.
    ///
    /// # Errors
    /// As [`HttpSource::open`].
    pub(crate) fn open_with(url: &str, client: Client, begin: Begin) -> Result<HttpSource> {
        let asked = Url::parse(url).map_err(|e| {
            let e = match e.code() == SCHEME.code {
                true if url.to_ascii_lowercase().starts_with("file:") => e.with_hint(OWN_FILE),
                true => e.with_hint(ADDRESSES),
                false => e,
            };
            e.in_source(crate::http::shown(url))
        })?;
        let name = asked.to_string();
        HttpSource::open_by(client, asked, name, begin)
    }

    /// Opens what `client` finds at `asked`, that of it first; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`HttpSource::open`].
    pub(crate) fn open_by(
        client: Client,
        asked: Url,
        name: String,
        begin: Begin,
    ) -> Result<HttpSource> {
        let wanted = match begin {
            // Then the start is asked for anyway.
            _ if !has_ends(&client) => 0,
            Begin::With(IndexLocation::End) => SHORT_HEAD,
            Begin::With(IndexLocation::BothEnds) => HEAD,
            Begin::With(IndexLocation::Start) | Begin::Unknown => 0,
        };
        let (opened, head) = std::thread::scope(|scope| {
            let ask = || head(&client, &asked, wanted);
            let head =
                (wanted > 0).then(|| std::thread::Builder::new().spawn_scoped(scope, ask).ok());
            let opened = retrying(&client.policy().patience, || first(&client, &asked, begin));
            (opened, head.flatten().and_then(|head| head.join().ok()?))
        });
        let first = opened.map_err(|e| e.in_source(&name))?;
        let is_telling = match begin {
            Begin::With(IndexLocation::Start) => true,
            // Some servers give no end.
            Begin::With(IndexLocation::End) => {
                first.part.0 + first.part.1.len() as u64 == first.len
            }
            Begin::With(IndexLocation::BothEnds) | Begin::Unknown => false,
        };
        let is_whole = first.part.1.len() as u64 == first.len;
        // Of another version the start is nothing that was asked for; whatever else went wrong is found when it is asked for again.
        let head = head.filter(|head| !is_whole && head.is_of(&first)).map(|head| (0, head.bytes));
        let came = [first.part].into_iter().chain(head).collect();
        let held = match is_whole && first.validator.weakness().is_some() {
            // It is of one version; what would be asked for again may be of another.
            true => Held::for_good(came),
            false => Held::new(came),
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

    /// Where it was opened, without what may be secret.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// What no other file and no other version of it has, where the server tells that for sure. It may have secrets in it.
    pub(crate) fn version(&self) -> Option<String> {
        let tag = self.validator.strong()?;
        Some(format!("{}\n{tag}", self.asked.secret_text()))
    }

    /// What is at hand of a range.
    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.start == range.end {
            return Some(Bytes::new());
        }
        self.held.cut(range)
    }

    /// Fetches one stretch, and hands out those parts of it that were wanted.
    fn fetch(&self, read: &MergedRead, ranges: &[Range<u64>]) -> Result<Vec<(usize, Bytes)>> {
        let mut range = read.range.clone();
        let small = range.end - range.start < AHEAD;
        if small {
            range.end = range.start.saturating_add(AHEAD).min(self.len);
        }
        let mut buffer = Buffer::new((range.end - range.start) as usize)?;
        self.fill(range.start, buffer.as_mut())?;
        let bytes = buffer.freeze();
        let parts = read.of.iter().map(|&wanted| {
            let whole = cut(range.start, &bytes, &ranges[wanted]).unwrap_or_default();
            // A small part does not keep a large stretch in memory.
            let shared = whole.len() >= bytes.len() / 2;
            (wanted, if shared { whole } else { Bytes::copy_from_slice(&whole) })
        });
        let parts = parts.collect();
        if small {
            self.held.keep(range.start, bytes);
        }
        Ok(parts)
    }

    /// Fills `out` from `start` on. What came before a connection was cut off counts.
    fn fill(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(out.len() as u64);
        let mut done = 0;
        let filled = retrying(&self.client.policy().patience, || self.part(start, out, &mut done));
        filled.map_err(|e| e.at(range).in_source(&self.name))
    }

    /// One request for what is missing of `out` behind its first `done` bytes.
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
            // What redirects lead to is often valid for a while only.
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

    /// Checks an answer against what was asked for and the version that is pinned.
    fn check(&self, answer: &mut Answer, wanted: &Range<u64>) -> Result<(), FailedTry> {
        let changed = |what: String| Err(CHANGED.broken(what).into());
        let another = |found: Validator| {
            let first = &self.validator;
            changed(format!("the server's first answer had {first}, and a later one has {found}"))
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
                        changed(format!("it had {} bytes, and has {total} now", self.len))
                    }
                    _ if bytes != (wanted.start, wanted.end) => {
                        Err(wrong_part(&bytes, wanted).into())
                    }
                    _ => Ok(()),
                }
            }
            // The answer to a condition that does not hold, or to a range that is outside now.
            200 if !same => another(found),
            412 | 416 => changed("the server does not have that part of it now".into()),
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
            out.push(self.at_hand(range));
        }
        let missing = missing(ranges, &out);
        let mut reads = join(&missing, GAP, MOST);
        if reads.len() > AT_ONCE {
            // They would wait for each other.
            reads = join(&missing, WIDE_GAP, MOST);
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

    fn terms(&self) -> ReadHints {
        let mut terms = ReadHints::REMOTE;
        terms.at_once = AT_ONCE;
        terms
    }

    fn prefetched(&self) -> Vec<(u64, Bytes)> {
        if self.is_telling { self.held.first() } else { Vec::new() }
    }

    fn warnings(&self) -> Vec<Warning> {
        // What came whole with the first answer is of one version.
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
        match self.at_hand(&range) {
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

/// What the first answer told.
struct FirstAnswer {
    url: Url,
    len: u64,
    validator: Validator,
    pin: Option<(&'static str, String)>,
    part: (u64, Bytes),
}

impl FirstAnswer {
    /// What an answer tells that is of `len` bytes and has those of `part`.
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

/// The start of a file, asked for beside its end.
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

/// Asks for the start of a file; nothing, where that does not come at once.
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

/// Asks for an end of a file; for its start, where the server does not know ranges from the end.
fn first(client: &Client, url: &Url, begin: Begin) -> Result<FirstAnswer, FailedTry> {
    let mut from_end = begin != Begin::With(IndexLocation::Start) && has_ends(client);
    let part = if from_end { RequestedRange::Last(FIRST) } else { RequestedRange::Range(0, FIRST) };
    let mut answer = ask(client, url, part)?;
    match answer.status {
        206 => {}
        // All of it is at most what was asked for.
        200 if answer.content_len().is_some_and(|len| len <= FIRST) => {
            return whole(answer, client);
        }
        416 if answer.content_range()?.is_some_and(|r| r.total == Some(0)) => {
            return Ok(FirstAnswer::from_answer(&answer, client, 0, (0, Bytes::new()))?);
        }
        // Some servers know ranges, but none from the end.
        200 if answer.header("accept-ranges") != Some("bytes") => return Err(no_ranges()),
        // A service that knows them says something else by that.
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
        let e = RANGES.broken("the server does not tell the length of the file");
        return Err(e.into());
    };
    let expected = if from_end { len.saturating_sub(FIRST)..len } else { 0..len.min(FIRST) };
    if (start, end) != (expected.start, expected.end) {
        return Err(wrong_part(&(start, end), &expected).into());
    }
    let bytes = body(&mut answer, end - start)?;
    Ok(FirstAnswer::from_answer(&answer, client, len, (start, bytes))?)
}

/// Whether the end of a file can be asked for without its length.
fn has_ends(client: &Client) -> bool {
    client.service().is_none_or(|service| service.has_ends())
}

/// A file that came whole.
fn whole(mut answer: Answer, client: &Client) -> Result<FirstAnswer, FailedTry> {
    refuse_encoding(&answer)?;
    // Some servers send the part that was asked for, and call it the whole file.
    let part = answer.content_range()?;
    let is_part =
        |range: &crate::http::ContentRange| range.bytes != range.total.map(|total| (0, total));
    if let Some(range) = part.filter(is_part) {
        let total = range.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
        let message = format!(
            "status 200 says that the whole file follows, `Content-Range` that it is a part of {total} bytes; expected 206"
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

/// The bytes that an answer with a part says it has, and the length of the file where it says that.
fn part_of(answer: &Answer) -> Result<((u64, u64), Option<u64>), FailedTry> {
    refuse_encoding(answer)?;
    let Some(range) = answer.content_range()? else {
        let what = match answer.header("content-type") {
            Some(kind) if kind.starts_with("multipart/") => "several parts came for one range",
            _ => "a part came without `Content-Range`",
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
            let name = name.shown();
            Err(ENCODING
                .broken(format!("the server sent the file with the content encoding `{name}`, which was not asked for")))
        }
    }
}

/// The whole of a body of `len` bytes, which are few.
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

/// Nothing comes after what was promised. (Having seen the end, the connection can be used again.)
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
