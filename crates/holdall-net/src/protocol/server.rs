//! The server's end.

use super::frame::{
    ClientFrame, FileId, Frames, RANGES_MAX, Refusal, RefusalReason, ServerFrame, VERSION,
};
use super::total;
use super::tree::{Step, Walk, proven_len};
use crate::rules::{FRAME, TOKEN, VERSION as VERSION_RULE};
use crate::shelf::{ServerLimits, Tokens};
use holdall_core::Result;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a client has said on its control stream, and what it may do.
#[derive(Debug)]
pub struct Server {
    tokens: Tokens,
    files_max: usize,
    requests: u32,
    frames: Frames,
    is_greeted: bool,
    files: BTreeMap<u32, Asked>,
}

/// A file that a client asked for.
#[derive(Debug)]
enum Asked {
    /// It is being opened, for a client that knows it as this.
    Coming { known: Option<FileId>, is_proven: bool },
    /// It is open.
    Open { len: u64, is_proven: bool },
}

/// What is to be done because of what a client said.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerAction {
    /// Send this on the control stream.
    Send(Vec<u8>),
    /// Open the file of that name, and say so to [`Server::opened`].
    Open {
        /// The client's number for it.
        file: u32,
        /// Its name.
        path: String,
        /// Whether its tree is needed.
        is_proven: bool,
    },
    /// Forget the file.
    Close {
        /// Its number.
        file: u32,
    },
    /// Send the answer on that stream with another priority.
    Priority {
        /// QUIC's number for the stream.
        stream: u64,
        /// Higher ones come first.
        priority: i32,
    },
}

/// What a client wants on a stream of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the file.
    pub file: u32,
    /// How urgent it is.
    pub priority: i32,
    /// What of it.
    pub ranges: Vec<Range<u64>>,
}

impl Server {
    /// For a client that has just connected.
    pub fn new(tokens: Tokens, bounds: &ServerLimits) -> Server {
        Server {
            tokens,
            files_max: bounds.files,
            requests: u32::try_from(bounds.requests).unwrap_or(u32::MAX),
            frames: Frames::default(),
            is_greeted: false,
            files: BTreeMap::new(),
        }
    }

    /// What is to be done because of these bytes of the control stream.
    ///
    /// # Errors
    /// What the connection ends for: `net/frame`, `net/version`, `net/token`.
    pub fn control(&mut self, mut input: &[u8]) -> Result<Vec<ServerAction>> {
        let mut orders = Vec::new();
        while let Some((kind, said)) = self.frames.take(&mut input, ClientFrame::most_of_control)? {
            let frame = ClientFrame::decode(kind, &said)?;
            if self.is_greeted == matches!(frame, ClientFrame::Hello { .. }) {
                return Err(FRAME.broken("a client says hello once, before all else"));
            }
            match frame {
                ClientFrame::Hello { version, token } => {
                    if version != VERSION {
                        let e = format!("the client speaks version {version}, this is {VERSION}");
                        return Err(VERSION_RULE.broken(e));
                    }
                    if !self.tokens.admit(&token) {
                        let e = match token.is_empty() {
                            true => "a token is asked for, and none is given",
                            false => "the token that is given is unknown",
                        };
                        return Err(TOKEN.broken(e));
                    }
                    self.is_greeted = true;
                    let welcome =
                        ServerFrame::Welcome { version: VERSION, requests: self.requests };
                    orders.push(ServerAction::Send(welcome.encode()));
                }
                ClientFrame::Open { file, known, is_proven, path } => {
                    if self.files.contains_key(&file) {
                        return Err(FRAME.broken(format!("file {file} is open already")));
                    }
                    if self.files.len() >= self.files_max {
                        let text = format!("{} files are open", self.files_max);
                        orders.push(ServerAction::Send(refused(file, RefusalReason::Busy, text)));
                        continue;
                    }
                    self.files.insert(file, Asked::Coming { known, is_proven });
                    orders.push(ServerAction::Open { file, path, is_proven });
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
                    return Err(FRAME.broken("a request has a stream of its own"));
                }
            }
        }
        Ok(orders)
    }

    /// A file was opened, or not: what is to be sent on the control stream, and the index that follows it. Nothing, where the client does
    /// not want it any more.
    pub fn opened(
        &mut self,
        file: u32,
        found: Result<(FileId, u64, Vec<Range<u64>>), Refusal>,
    ) -> Option<(Vec<u8>, ResponseStream)> {
        let asked = self.files.get_mut(&file)?;
        let Asked::Coming { known, is_proven } = *asked else { return None };
        match found {
            Ok((id, len, index)) => {
                let index = match (known == Some(id), is_proven) {
                    (true, _) => Vec::new(),
                    (_, true) => with_end(index, len),
                    _ => index,
                };
                *asked = Asked::Open { len, is_proven };
                let frame = ServerFrame::File { file, id, len, index: index.clone() };
                Some((frame.encode(), ResponseStream::new(index, len, is_proven)))
            }
            Err(refusal) => {
                self.files.remove(&file);
                let frame = ServerFrame::Refused { file, refusal };
                Some((frame.encode(), ResponseStream::new(Vec::new(), 0, false)))
            }
        }
    }

    /// The answer to a request, where it is one.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn admit(&self, request: &Request) -> Result<ResponseStream, Refusal> {
        let wrong = |text: String| Refusal { why: RefusalReason::Request, text };
        let Some(Asked::Open { len, is_proven }) = self.files.get(&request.file) else {
            return Err(wrong(format!("file {} is not open", request.file)));
        };
        if let Some(range) = request.ranges.iter().find(|r| r.end > *len) {
            let (start, end) = (range.start, range.end);
            return Err(wrong(format!("{start}..{end} is not in a file of {len} bytes")));
        }
        match total(&request.ranges) {
            Some(total) if total <= *len => {
                Ok(ResponseStream::new(request.ranges.clone(), *len, *is_proven))
            }
            _ => Err(wrong("it asks for more bytes than the file has".to_owned())),
        }
    }

    /// The frame that refuses a request.
    pub fn refuse(request: &Request, refusal: Refusal) -> Vec<u8> {
        ServerFrame::Refused { file: request.file, refusal }.encode()
    }
}

fn refused(file: u32, why: RefusalReason, text: String) -> Vec<u8> {
    ServerFrame::Refused { file, refusal: Refusal { why, text } }.encode()
}

/// A request on its way in.
#[derive(Debug, Default)]
pub struct PendingRequest {
    frames: Frames,
    request: Option<Request>,
}

impl PendingRequest {
    /// More bytes of the stream.
    ///
    /// # Errors
    /// `net/frame`.
    pub fn push(&mut self, mut input: &[u8]) -> Result<()> {
        while !input.is_empty() {
            if self.request.is_some() {
                return Err(FRAME.broken("more follows a request"));
            }
            let taken = self.frames.take(&mut input, ClientFrame::most_of_request)?;
            let Some((kind, said)) = taken else { return Ok(()) };
            if let ClientFrame::Request { file, priority, ranges } =
                ClientFrame::decode(kind, &said)?
            {
                self.request = Some(Request { file, priority, ranges });
            }
        }
        Ok(())
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// `net/frame`, if it is not a whole request.
    pub fn finish(self) -> Result<Request> {
        self.request.ok_or_else(|| FRAME.broken("a stream ends before its request does"))
    }

    /// The most bytes that a request has.
    pub const MOST: usize = super::HEAD_LEN + 8 + 16 * RANGES_MAX;
}

/// An index, with the end of the file in it: who has that proven knows how long the file is.
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

/// Ranges on their way out.
#[derive(Debug, Clone)]
pub struct ResponseStream {
    ranges: Vec<Range<u64>>,
    len: u64,
    is_proven: bool,
    /// The range that is being sent, and how much of it was.
    at: usize,
    done: u64,
    /// What is left of its proof.
    walk: Option<Walk>,
}

impl ResponseStream {
    /// Of these ranges of a file of `len` bytes.
    fn new(ranges: Vec<Range<u64>>, len: u64, is_proven: bool) -> ResponseStream {
        ResponseStream { ranges, len, is_proven, at: 0, done: 0, walk: None }
    }

    /// What comes before the bytes.
    pub fn head(&self) -> Vec<u8> {
        let len = match self.is_proven {
            true => self.ranges.iter().map(|range| proven_len(self.len, range)).sum(),
            false => total(&self.ranges).unwrap_or(u64::MAX),
        };
        ServerFrame::Answer { len }.encode()
    }

    /// Whether steps are spelled with the tree.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// What is to be sent next, of about `most` bytes; none, when all is.
    pub fn next(&mut self, most: u64) -> Vec<Step> {
        let (mut out, mut room) = (Vec::new(), most.max(1));
        while room > 0
            && let Some(range) = self.ranges.get(self.at)
        {
            if self.is_proven {
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
