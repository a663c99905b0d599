//! Downloads one linked file from one address.

use super::decode::{ACCEPTED, BodyState, ContentEncoding, CountingBody, ReportedProgress, decode};
use super::rules::{DECLARED, DIGEST};
use super::store::{PendingObject, hash};
use holdall_core::model::{Algorithm, Digest, Hasher};
use holdall_core::{Error, Limits, Result};
use holdall_io::error::io;
use holdall_io::http::rules::{ANSWER, TOO_LONG};
use holdall_io::http::{
    Answer, Client, FailedTry, GetOptions, RequestedRange as Asked, Url, retrying,
};
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};

/// The parameters of a download.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) limits: &'a Limits,
    /// Maximum length of the file, by its declaration.
    pub(super) at_most: u64,
    pub(super) sha256: &'a [u8; 32],
    pub(super) url: &'a Url,
}

/// The origin of the bytes received so far, needed to resume the download. Stored next to them as text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct From {
    /// SHA-256 of the address, which may contain secrets.
    url: String,
    /// The value for `If-Range`.
    validator: String,
    /// Length of the whole file in bytes.
    len: Option<u64>,
}

impl Download<'_> {
    /// Downloads the file into `part`, which may contain the start of it.
    ///
    /// # Errors
    /// Returns the error of the last attempt.
    pub(super) fn run(
        &self,
        part: &mut PendingObject,
        progress: &mut ReportedProgress,
    ) -> Result<()> {
        retrying(&self.client.policy().timeouts, || self.attempt(part, progress))
    }

    fn attempt(
        &self,
        part: &mut PendingObject,
        progress: &mut ReportedProgress,
    ) -> Result<(), FailedTry> {
        let before = self.resumable(part)?;
        let (mut answer, start) = match &before {
            Some((from, len)) => match self.rest(from, *len)? {
                Some(answer) => (answer, *len),
                None => (self.whole()?, 0),
            },
            None => (self.whole()?, 0),
        };
        let encoding = ContentEncoding::by_name(answer.encoding()?.as_deref())?;
        let expected = answer.content_len();
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let failed = |e| io(e, "writing to the cache");
        if start == 0 {
            self.note(part, &answer, encoding)?;
            part.file.set_len(0).map_err(failed)?;
        }
        if let Some(len) = expected {
            let all = start.saturating_add(len);
            if all > self.limits.fetched_len {
                let cap = self.limits.fetched_len;
                return Err(TOO_LONG.broken(format!("it has {all} bytes, more than {cap}")).into());
            }
            if encoding == ContentEncoding::Identity && all > self.at_most {
                return Err(self.longer(&all.to_string()).into());
            }
            progress.expect(all);
        }
        part.file.rewind().map_err(failed)?;
        if start > 0 {
            hash(&mut part.file, &mut hasher).map_err(failed)?;
        }
        part.file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let state = BodyState::default();
        let counting = CountingBody {
            body: &mut answer.body,
            before: start,
            cap: self.limits.fetched_len,
            progress,
            state: &state,
        };
        let mut len = start;
        decode(encoding, counting, self.limits, &mut |bytes| {
            len = len.saturating_add(bytes.len() as u64);
            if len > self.at_most {
                return Err(self.longer(&format!("at least {len}")));
            }
            hasher.update(bytes);
            part.file.write_all(bytes).map_err(failed)
        })?;
        let received = answer.body.received();
        if let Some(len) =
            expected.filter(|len| *len != received && encoding == ContentEncoding::Identity)
        {
            let e = ANSWER
                .broken(format!("the server sent {received} of the {len} bytes that it announced"));
            return Err(FailedTry::passing(e));
        }
        let found = hasher.finish();
        if found == Digest::Sha256(*self.sha256) {
            return Ok(());
        }
        // The bytes are of no use, here or to a later process.
        let _ = fs::remove_file(part.note_path());
        part.file.set_len(0).map_err(failed)?;
        let e = DIGEST.broken(format!("the server sent a file with {found}"));
        // A file combined from two answers may be right when fetched in one.
        Err(if start > 0 { FailedTry::passing(e) } else { e.into() })
    }

    /// Returns the error for a file of this length.
    #[cold]
    fn longer(&self, len: &str) -> Error {
        let most = self.at_most;
        DECLARED.broken(format!("it has {len} bytes, but by its declaration at most {most}"))
    }

    /// Returns the origin and the length of the partial file, if the download from this address can be
    /// resumed.
    fn resumable(&self, part: &PendingObject) -> Result<Option<(From, u64)>> {
        let len = part.file.metadata().map_err(|e| io(e, "reading the cache"))?.len();
        let from = fs::read_to_string(part.note_path()).ok().and_then(|text| From::read(&text));
        let from = from.filter(|from| len > 0 && from.url == address(self.url));
        // If the file is complete but had the wrong hash, it is fetched again.
        Ok(from.filter(|from| from.len.is_none_or(|all| len < all)).map(|from| (from, len)))
    }

    /// Requests the whole file.
    fn whole(&self) -> Result<Answer, FailedTry> {
        let ask = GetOptions { part: None, condition: None, encodings: Some(ACCEPTED) };
        let mut answer = self.client.get(self.url, &ask)?;
        if answer.status == 200 { Ok(answer) } else { Err(answer.refused()) }
    }

    /// Requests the bytes after the first `len`, without encoding. Returns `None` if the server cannot send
    /// them.
    fn rest(&self, from: &From, len: u64) -> Result<Option<Answer>, FailedTry> {
        let ask = GetOptions {
            part: Some(Asked::From(len)),
            condition: Some(("if-range", &from.validator)),
            encodings: None,
        };
        let mut answer = self.client.get(self.url, &ask)?;
        if answer.status != 206 {
            // Another version is sent whole (200), or the range does not exist in it (416).
            return match answer.status {
                200 | 412 | 416 => Ok(None),
                _ => Err(answer.refused()),
            };
        }
        let range = answer.content_range()?;
        let fits = range.is_some_and(|r| {
            let total = from.len.or(r.total);
            r.bytes.is_some_and(|(first, end)| first == len && Some(end) == total)
                && r.total.is_none_or(|all| Some(all) == total)
        });
        let same = answer.validator()?.condition() == Some(&from.validator);
        let plain = answer.encoding()?.is_none();
        Ok((fits && same && plain).then_some(answer))
    }

    /// Writes down the origin of the bytes, if the download can be resumed.
    fn note(&self, part: &PendingObject, answer: &Answer, encoding: ContentEncoding) -> Result<()> {
        let path = part.note_path();
        let validator = answer.validator()?;
        let (Some(validator), ContentEncoding::Identity) = (validator.condition(), encoding) else {
            let _ = fs::remove_file(path);
            return Ok(());
        };
        let from = From {
            url: address(self.url),
            validator: validator.to_owned(),
            len: answer.content_len(),
        };
        fs::write(path, from.text()).map_err(|e| io(e, "writing to the cache"))
    }
}

impl From {
    fn text(&self) -> String {
        let len = self.len.map_or("?".to_owned(), |len| len.to_string());
        format!("{}\n{len}\n{}\n", self.url, self.validator)
    }

    fn read(text: &str) -> Option<From> {
        let mut lines = text.lines();
        let (url, len, validator) = (lines.next()?, lines.next()?, lines.next()?);
        let len = if len == "?" { None } else { Some(len.parse().ok()?) };
        // A valid header value, without line ends.
        let fine = !validator.is_empty() && validator.chars().all(|c| matches!(c, ' '..='~'));
        fine.then(|| From { url: url.to_owned(), validator: validator.to_owned(), len })
    }
}

/// Returns the hash that identifies an address in the cache.
fn address(url: &Url) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(url.secret_text().as_bytes());
    hasher.finish().to_string()
}
