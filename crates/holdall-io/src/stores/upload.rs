//! Uploading files to an object store when they are complete.

use super::rules::{ADDRESS, ANSWER, READ_ONLY};
use super::{Address, Stores, open::Store, xml};
use crate::error::{EXISTS, io};
use crate::http::{Answer, Client, FailedTry, HttpRequest, Policy, Url, retrying};
use crate::temporary::Temporary;
use crate::workers;
use holdall_core::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that will be uploaded to an object store. Any writer writes a local temporary file, and [`Staged::publish`]
/// uploads it, completely or not at all. Dropping it before that leaves no traces.
#[derive(Debug)]
pub struct Staged {
    address: Address,
    stores: Stores,
    policy: Policy,
    overwrite: bool,
    path: PathBuf,
    /// Removed on drop.
    _folder: Temporary,
}

impl Staged {
    /// Returns the path to write the file to. It has the name of the object.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Uploads the file, in parts if it is large.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the object exists and may not be replaced; errors of the store; an `Io` error. After an error, an old object is
    /// unchanged, and no new one exists.
    pub fn publish(self) -> Result<()> {
        let name = self.address.to_string();
        let run = || {
            let failed = |e| io(e, "reading the file to upload");
            let file = File::open(&self.path).map_err(failed)?;
            let len = file.metadata().map_err(failed)?.len();
            let store = self.stores.store(&self.address, &self.policy)?;
            let client = Client::new(&self.policy).with_service(store.clone());
            let url = store.url(&self.address.key)?;
            store.upload(&Upload { client, url, file, len, overwrite: self.overwrite })
        };
        run().map_err(|e| e.in_source(name))
    }
}

impl Stores {
    /// Starts a file that will be uploaded to an address.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the address is not that of an object, or the object exists and may not be replaced; errors of the
    /// store.
    pub fn stage(&self, text: &str, policy: &Policy, overwrite: bool) -> Result<Staged> {
        let address = Address::parse(text).map_err(|e| e.in_source(super::redacted(text)))?;
        let shown = address.to_string();
        let begin = || {
            let name = address.key.rsplit('/').next().unwrap_or_default();
            if name.is_empty() {
                return Err(ADDRESS.broken("this is the address of a folder, not of an object"));
            }
            let store = self.store(&address, policy)?;
            store.check_writable()?;
            if !overwrite && exists(store, &address, policy)? {
                return Err(EXISTS.broken("the object exists already"));
            }
            let folder = temporary()?;
            let (path, policy) = (folder.path().join(name), policy.clone());
            let (address, stores) = (address.clone(), self.clone());
            Ok(Staged { address, stores, policy, overwrite, path, _folder: folder })
        };
        begin().map_err(|e: Error| e.in_source(shown))
    }
}

/// Creates a folder in the system's folder for temporary files.
pub(super) fn temporary() -> Result<Temporary> {
    let folder = tempfile::Builder::new().prefix("holdall-").tempdir();
    folder.map(Temporary::new).map_err(|e| io(e, "creating a temporary folder"))
}

/// Returns `true` if the object exists.
fn exists(store: Arc<dyn Store>, address: &Address, policy: &Policy) -> Result<bool> {
    let client = Client::new(policy).with_service(store.clone());
    let request = HttpRequest::new("GET", store.url(&address.key)?, b"")
        .with("accept-encoding", "identity")
        .with("range", "bytes=0-0");
    retrying(&policy.timeouts, || {
        let mut answer = client.send(&request)?;
        match answer.status {
            // 416: an empty object has no first byte.
            200 | 206 | 416 => Ok(true),
            404 => Ok(false),
            _ => Err(answer.refused()),
        }
    })
}

/// An upload in progress.
pub(super) struct Upload {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) file: File,
    pub(super) len: u64,
    pub(super) overwrite: bool,
}

/// The maximum length in bytes of a file that is uploaded in one request.
const MAX_SINGLE_LEN: u64 = 16 << 20;
/// The minimum length of a part in bytes.
const MIN_PART_LEN: u64 = 16 << 20;
/// The maximum number of parts. Stores accept 10,000.
const MAX_PARTS: u64 = 9000;
/// The number of parts that are uploaded in parallel.
const PARALLEL_PARTS: usize = 4;

impl Upload {
    /// Returns `true` if the file is uploaded in one request.
    pub(super) fn is_small(&self) -> bool {
        self.len <= MAX_SINGLE_LEN
    }

    /// Reads the whole file, which must be small.
    pub(super) fn whole(&self) -> Result<Vec<u8>> {
        self.bytes(0, self.len)
    }

    fn bytes(&self, from: u64, end: u64) -> Result<Vec<u8>> {
        let mut out = vec![0; (end - from) as usize];
        crate::platform::read_exact_at(&self.file, &mut out, from)
            .map_err(|e| io(e, "reading the file to upload"))?;
        Ok(out)
    }

    /// Returns the URL of the object with another query.
    pub(super) fn with_query(&self, query: &str) -> Url {
        self.url.with_target(format!("{}?{query}", self.url.path()))
    }

    /// Sends a request, and returns the response if it is a success.
    pub(super) fn send(&self, request: &HttpRequest<'_>) -> Result<Answer> {
        retrying(&self.client.policy().timeouts, || {
            let mut answer = self.client.send(request)?;
            match answer.status {
                // 308: an upload session expects more parts.
                200..=299 | 308 => Ok(answer),
                409 | 412 if !self.overwrite => {
                    Err(FailedTry::from(EXISTS.broken("the object exists already")))
                }
                _ => Err(answer.refused()),
            }
        })
    }

    /// Adds to a request a header that makes it fail if the object exists, unless it may be replaced.
    pub(super) fn only_new<'a>(
        &self,
        name: &'static str,
        value: &str,
        request: HttpRequest<'a>,
    ) -> HttpRequest<'a> {
        if self.overwrite { request } else { request.with(name, value) }
    }

    /// Uploads the parts in parallel, and returns the results of `send`, which gets the index and the bytes of each
    /// part.
    pub(super) fn parts<T: Send>(
        &self,
        send: impl Fn(u64, &[u8]) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let size = self.part_len();
        let jobs: Vec<u64> = (0..self.len.div_ceil(size)).collect();
        let done = Mutex::new(Vec::new());
        workers::for_each(
            PARALLEL_PARTS,
            jobs,
            || (),
            |(), number| {
                let bytes = self.bytes(number * size, ((number + 1) * size).min(self.len))?;
                let result = send(number, &bytes)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                Ok(())
            },
        )?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        Ok(done.into_iter().map(|(_, result)| result).collect())
    }

    /// Uploads the parts one after the other. `send` gets the offset and the bytes of each part.
    pub(super) fn in_order(&self, mut send: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let size = self.part_len();
        for number in 0..self.len.div_ceil(size) {
            let from = number * size;
            send(from, &self.bytes(from, (from + size).min(self.len))?)?;
        }
        Ok(())
    }

    fn part_len(&self) -> u64 {
        // A multiple of 1 MiB.
        MIN_PART_LEN.max((self.len / MAX_PARTS + 1).next_multiple_of(1 << 20))
    }

    /// Uploads the file with S3's multipart protocol: starts the upload, sends its parts, completes it. Aborts on an
    /// error.
    pub(super) fn multipart(&self) -> Result<()> {
        let begun = HttpRequest::new("POST", self.with_query("uploads"), b"");
        let mut answer = self.send(&begun)?;
        let id = xml::find(&answer.text(64 << 10), "UploadId").filter(|id| !id.is_empty());
        let Some(id) = id else { return Err(ANSWER.broken("the response has no upload id")) };
        let id = super::signing::encoded(&id, false);
        let run = || {
            let tags = self.parts(|number, bytes| {
                let query = format!("partNumber={}&uploadId={id}", number + 1);
                let answer = self.send(&HttpRequest::new("PUT", self.with_query(&query), bytes))?;
                let tag = answer.header("etag").map(str::to_owned);
                tag.ok_or_else(|| ANSWER.broken("the response to a part has no `ETag`"))
            })?;
            let mut body = String::from("<CompleteMultipartUpload>");
            for (number, tag) in tags.iter().enumerate() {
                let tag = tag.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
                let number = number + 1;
                body.push_str(&format!(
                    "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
                ));
            }
            body.push_str("</CompleteMultipartUpload>");
            let url = self.with_query(&format!("uploadId={id}"));
            let request = HttpRequest::new("POST", url, body.as_bytes());
            let request = self.only_new("if-none-match", "*", request);
            let mut answer = self.send(&request)?;
            // The status is sent before the store has combined the parts, so the body may still have an error.
            let body = answer.text(64 << 10);
            match xml::find(&body, "Code") {
                Some(code)
                    if matches!(
                        code.as_str(),
                        "PreconditionFailed" | "ConditionalRequestConflict"
                    ) =>
                {
                    Err(EXISTS.broken("the object exists already"))
                }
                Some(code) => {
                    let code = code.escape_debug();
                    Err(ANSWER.broken(format!("the store could not combine the parts: `{code}`")))
                }
                None => Ok(()),
            }
        };
        let done = run();
        if done.is_err() {
            // This error is ignored, because the first one matters more.
            let url = self.with_query(&format!("uploadId={id}"));
            let _ = self.client.send(&HttpRequest::new("DELETE", url, b""));
        }
        done
    }
}

/// Returns the error for a store that cannot be written to.
pub(super) fn read_only() -> Error {
    READ_ONLY.broken("the hub does not support uploads, only commits")
}
