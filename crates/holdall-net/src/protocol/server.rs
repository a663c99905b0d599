//! The server's side of the protocol.

use super::frame::{
    ClientFrame, FileId, FrameDecoder, RANGES_MAX, Refusal, RefusalReason, ServerFrame, VERSION,
};
use super::total;
use super::tree::{Step, Walk, proven_len};
use crate::catalog::{ServerLimits, Tokens};
use crate::rules::{FRAME, TOKEN, VERSION as VERSION_RULE};
use holdall_core::Result;
use std::collections::BTreeMap;
use std::ops::Range;

/// The server's side of a control stream: decodes what a client sends, and checks what it may do.
#[derive(Debug)]
pub struct Server {
    tokens: Tokens,
    files_max: usize,
    requests: u32,
    frames: FrameDecoder,
    is_greeted: bool,
    files: BTreeMap<u32, RequestedFile>,
}

/// A file that a client has requested.
#[derive(Debug)]
enum RequestedFile {
    /// The file is being opened. `known` is the id of the version that the client knows.
    Opening { known: Option<FileId>, with_proofs: bool },
    /// The file is open.
    Open { len: u64, with_proofs: bool },
}

/// An action that the server must take in response to a client's message.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerAction {
    /// Send these bytes on the control stream.
    Send(Vec<u8>),
    /// Open a file, and pass the result to [`Server::opened`].
    Open {
        /// The client's number for the file.
        file: u32,
        /// The file's name.
        path: String,
        /// Whether ranges are sent with proofs, which requires the file's hash tree.
        with_proofs: bool,
    },
    /// Close a file.
    Close {
        /// The file's number.
        file: u32,
    },
    /// Change the priority of the response on a stream.
    Priority {
        /// QUIC's id of the stream.
        stream: u64,
        /// The new priority. Higher ones are sent first.
        priority: i32,
    },
}

/// A request for ranges of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The file's number.
    pub file: u32,
    /// The priority. Higher ones are sent first.
    pub priority: i32,
    /// The requested ranges of the file.
    pub ranges: Vec<Range<u64>>,
}

impl Server {
    /// Creates the state for a client that has just connected.
    pub fn new(tokens: Tokens, limits: &ServerLimits) -> Server {
        Server {
            tokens,
            files_max: limits.files,
            requests: u32::try_from(limits.requests).unwrap_or(u32::MAX),
            frames: FrameDecoder::default(),
            is_greeted: false,
            files: BTreeMap::new(),
        }
    }

    /// Decodes the next bytes of the control stream, split at any byte, and returns what the server must do.
    ///
    /// # Errors
    /// Returns `net/frame`, `net/version` or `net/token`. After an error, the connection must be closed.
    pub fn control(&mut self, mut input: &[u8]) -> Result<Vec<ServerAction>> {
        let mut orders = Vec::new();
        while let Some((kind, payload)) =
            self.frames.take(&mut input, ClientFrame::max_control_len)?
        {
            let frame = ClientFrame::decode(kind, &payload)?;
            if self.is_greeted == matches!(frame, ClientFrame::Hello { .. }) {
                return Err(FRAME.broken("expected one hello frame, before all others"));
            }
            match frame {
                ClientFrame::Hello { version, token } => {
                    if version != VERSION {
                        let e = format!(
                            "the client uses version {version}, this server version {VERSION}"
                        );
                        return Err(VERSION_RULE.broken(e));
                    }
                    if !self.tokens.admit(&token) {
                        let e = match token.is_empty() {
                            true => "missing token",
                            false => "invalid token",
                        };
                        return Err(TOKEN.broken(e));
                    }
                    self.is_greeted = true;
                    let welcome =
                        ServerFrame::Welcome { version: VERSION, requests: self.requests };
                    orders.push(ServerAction::Send(welcome.encode()));
                }
                ClientFrame::Open { file, known, with_proofs, path } => {
                    if self.files.contains_key(&file) {
                        return Err(FRAME.broken(format!("file {file} is open already")));
                    }
                    if self.files.len() >= self.files_max {
                        let text =
                            format!("the client has {} files open, the maximum", self.files_max);
                        orders.push(ServerAction::Send(refused(file, RefusalReason::Busy, text)));
                        continue;
                    }
                    self.files.insert(file, RequestedFile::Opening { known, with_proofs });
                    orders.push(ServerAction::Open { file, path, with_proofs });
                }
                ClientFrame::Close { file } => {
                    if self.files.remove(&file).is_some() {
                        orders.push(ServerAction::Close { file });
                    }
                }
                ClientFrame::Priority { stream, priority } => {
                    orders.push(ServerAction::Priority { stream, priority });
                }
                ClientFrame::Request { .. } => {
                    return Err(FRAME.broken("unexpected request on the control stream"));
                }
            }
        }
        Ok(orders)
    }

    /// Records the result of opening a file. Returns the frame to send on the control stream, and the index to send
    /// after it; `None` if the client has closed the file meanwhile.
    pub fn opened(
        &mut self,
        file: u32,
        found: Result<(FileId, u64, Vec<Range<u64>>), Refusal>,
    ) -> Option<(Vec<u8>, ResponseStream)> {
        let asked = self.files.get_mut(&file)?;
        let RequestedFile::Opening { known, with_proofs } = *asked else { return None };
        match found {
            Ok((id, len, index)) => {
                let index = match (known == Some(id), with_proofs) {
                    (true, _) => Vec::new(),
                    (_, true) => with_end(index, len),
                    _ => index,
                };
                *asked = RequestedFile::Open { len, with_proofs };
                let frame = ServerFrame::File { file, id, len, index: index.clone() };
                Some((frame.encode(), ResponseStream::new(index, len, with_proofs)))
            }
            Err(refusal) => {
                self.files.remove(&file);
                let frame = ServerFrame::Refused { file, refusal };
                Some((frame.encode(), ResponseStream::new(Vec::new(), 0, false)))
            }
        }
    }

    /// Returns the response to a request.
    ///
    /// # Errors
    /// Returns the refusal, if the request is invalid.
    pub fn admit(&self, request: &Request) -> Result<ResponseStream, Refusal> {
        let wrong = |text: String| Refusal { reason: RefusalReason::Request, text };
        let Some(RequestedFile::Open { len, with_proofs }) = self.files.get(&request.file) else {
            return Err(wrong(format!("file {} is not open", request.file)));
        };
        if let Some(range) = request.ranges.iter().find(|r| r.end > *len) {
            let (start, end) = (range.start, range.end);
            return Err(wrong(format!(
                "the range {start}..{end} is outside the file of {len} bytes"
            )));
        }
        match total(&request.ranges) {
            Some(total) if total <= *len => {
                Ok(ResponseStream::new(request.ranges.clone(), *len, *with_proofs))
            }
            _ => Err(wrong("the ranges have more bytes than the file".to_owned())),
        }
    }

    /// Returns the frame that refuses a request.
    pub fn refuse(request: &Request, refusal: Refusal) -> Vec<u8> {
        ServerFrame::Refused { file: request.file, refusal }.encode()
    }
}

fn refused(file: u32, why: RefusalReason, text: String) -> Vec<u8> {
    ServerFrame::Refused { file, refusal: Refusal { reason: why, text } }.encode()
}

/// A request that is being received.
#[derive(Debug, Default)]
pub struct PendingRequest {
    frames: FrameDecoder,
    request: Option<Request>,
}

impl PendingRequest {
    /// Decodes the next bytes of the stream, split at any byte.
    ///
    /// # Errors
    /// Returns `net/frame` if the bytes are invalid, or follow the request.
    pub fn push(&mut self, mut input: &[u8]) -> Result<()> {
        while !input.is_empty() {
            if self.request.is_some() {
                return Err(FRAME.broken("unexpected bytes after a request"));
            }
            let taken = self.frames.take(&mut input, ClientFrame::max_request_len)?;
            let Some((kind, payload)) = taken else { return Ok(()) };
            if let ClientFrame::Request { file, priority, ranges } =
                ClientFrame::decode(kind, &payload)?
            {
                self.request = Some(Request { file, priority, ranges });
            }
        }
        Ok(())
    }

    /// Returns the request. To be called when the stream has ended.
    ///
    /// # Errors
    /// Returns `net/frame` if the request is incomplete.
    pub fn finish(self) -> Result<Request> {
        self.request.ok_or_else(|| FRAME.broken("the stream ended within a request"))
    }

    /// Maximum length of a request, in bytes.
    pub const MAX_LEN: usize = super::HEAD_LEN + 8 + 16 * RANGES_MAX;
}

/// Adds the last byte of the file to an index: its proof also proves the file's length.
fn with_end(mut index: Vec<Range<u64>>, len: u64) -> Vec<Range<u64>> {
    match index.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.end == len => {}
        Some(last) if last.end == len - 1 => last.end = len,
        _ => {
            index.truncate(RANGES_MAX - 1);
            index.push(len - 1..len);
        }
    }
    index
}

/// A response that is being sent.
#[derive(Debug, Clone)]
pub struct ResponseStream {
    ranges: Vec<Range<u64>>,
    len: u64,
    with_proofs: bool,
    /// The range that is being sent, and the number of its bytes sent so far.
    at: usize,
    done: u64,
    /// The remaining steps of the range's proof.
    walk: Option<Walk>,
}

impl ResponseStream {
    /// Creates a response with these ranges of a file of `len` bytes.
    fn new(ranges: Vec<Range<u64>>, len: u64, with_proofs: bool) -> ResponseStream {
        ResponseStream { ranges, len, with_proofs, at: 0, done: 0, walk: None }
    }

    /// Returns the frame that precedes the bytes.
    pub fn head(&self) -> Vec<u8> {
        let len = match self.with_proofs {
            true => self.ranges.iter().map(|range| proven_len(self.len, range)).sum(),
            false => total(&self.ranges).unwrap_or(u64::MAX),
        };
        ServerFrame::Answer { len }.encode()
    }

    /// Returns `true` if the ranges are sent with proofs.
    pub fn with_proofs(&self) -> bool {
        self.with_proofs
    }

    /// Returns what to send next, about `max_len` bytes; an empty vector at the end.
    pub fn next(&mut self, max_len: u64) -> Vec<Step> {
        let (mut out, mut room) = (Vec::new(), max_len.max(1));
        while room > 0
            && let Some(range) = self.ranges.get(self.at)
        {
            if self.with_proofs {
                let walk = self.walk.get_or_insert_with(|| Walk::new(self.len, range));
                match walk.next() {
                    Some(step) => {
                        room = room.saturating_sub(step.len());
                        out.push(step);
                    }
                    None => (self.at, self.walk) = (self.at + 1, None),
                }
                continue;
            }
            let start = range.start + self.done;
            let end = range.end.min(start.saturating_add(room));
            if start < end {
                out.push(Step::Bytes(start..end));
                room -= end - start;
            }
            match end == range.end {
                true => (self.at, self.done) = (self.at + 1, 0),
                false => self.done = end - range.start,
            }
        }
        out
    }
}
