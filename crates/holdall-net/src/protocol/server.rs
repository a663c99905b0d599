//! The server's end.

use super::frame::{ClientFrame, FileId, Frames, RANGES_MAX, Refusal, ServerFrame, VERSION, Why};
use super::total;
use crate::rules::{FRAME, TOKEN, VERSION as VERSION_RULE};
use crate::shelf::{Bounds, Tokens};
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
    Coming(Option<FileId>),
    /// It is open.
    Open { len: u64 },
}

/// What is to be done because of what a client said.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// Send this on the control stream.
    Send(Vec<u8>),
    /// Open the file of that name, and say so to [`Server::opened`].
    Open {
        /// The client's number for it.
        file: u32,
        /// Its name.
        path: String,
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
    pub fn new(tokens: Tokens, bounds: &Bounds) -> Server {
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
    pub fn control(&mut self, mut input: &[u8]) -> Result<Vec<Order>> {
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
                    orders.push(Order::Send(welcome.encode()));
                }
                ClientFrame::Open { file, known, path } => {
                    if self.files.contains_key(&file) {
                        return Err(FRAME.broken(format!("file {file} is open already")));
                    }
                    if self.files.len() >= self.files_max {
                        let text = format!("{} files are open", self.files_max);
                        orders.push(Order::Send(refused(file, Why::Busy, text)));
                        continue;
                    }
                    self.files.insert(file, Asked::Coming(known));
                    orders.push(Order::Open { file, path });
                }
                ClientFrame::Close { file } => {
                    if self.files.remove(&file).is_some() {
                        orders.push(Order::Close { file });
                    }
                }
                ClientFrame::Priority { stream, priority } => {
                    orders.push(Order::Priority { stream, priority });
                }
                ClientFrame::Request { .. } => {
                    return Err(FRAME.broken("a request has a stream of its own"));
                }
            }
        }
        Ok(orders)
    }

    /// A file was opened, or not: what is to be sent on the control stream, and the ranges whose bytes follow it. Nothing,
    /// where the client does not want it any more.
    pub fn opened(
        &mut self,
        file: u32,
        found: Result<(FileId, u64, Vec<Range<u64>>), Refusal>,
    ) -> Option<(Vec<u8>, Vec<Range<u64>>)> {
        let asked = self.files.get_mut(&file)?;
        let Asked::Coming(known) = asked else { return None };
        match found {
            Ok((id, len, index)) => {
                let index = if *known == Some(id) { Vec::new() } else { index };
                *asked = Asked::Open { len };
                let frame = ServerFrame::File { file, id, len, index: index.clone() };
                Some((frame.encode(), index))
            }
            Err(refusal) => {
                self.files.remove(&file);
                Some((ServerFrame::Refused { file, refusal }.encode(), Vec::new()))
            }
        }
    }

    /// The answer to a request, where it is one.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn admit(&self, request: &Request) -> Result<Answering, Refusal> {
        let wrong = |text: String| Refusal { why: Why::Request, text };
        let Some(Asked::Open { len }) = self.files.get(&request.file) else {
            return Err(wrong(format!("file {} is not open", request.file)));
        };
        if let Some(range) = request.ranges.iter().find(|r| r.end > *len) {
            let (start, end) = (range.start, range.end);
            return Err(wrong(format!("{start}..{end} is not in a file of {len} bytes")));
        }
        match total(&request.ranges) {
            Some(total) if total <= *len => {
                Ok(Answering { total, ranges: request.ranges.clone(), at: 0, done: 0 })
            }
            _ => Err(wrong("it asks for more bytes than the file has".to_owned())),
        }
    }

    /// The frame that refuses a request.
    pub fn refuse(request: &Request, refusal: Refusal) -> Vec<u8> {
        ServerFrame::Refused { file: request.file, refusal }.encode()
    }
}

fn refused(file: u32, why: Why, text: String) -> Vec<u8> {
    ServerFrame::Refused { file, refusal: Refusal { why, text } }.encode()
}

/// A request on its way in.
#[derive(Debug, Default)]
pub struct Requesting {
    frames: Frames,
    request: Option<Request>,
}

impl Requesting {
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
    /// `net/frame`, where it is no whole request.
    pub fn finish(self) -> Result<Request> {
        self.request.ok_or_else(|| FRAME.broken("a stream ends before its request does"))
    }

    /// The most bytes that a request has.
    pub const MOST: usize = super::HEAD_LEN + 8 + 16 * RANGES_MAX;
}

/// An answer on its way out.
#[derive(Debug)]
pub struct Answering {
    total: u64,
    ranges: Vec<Range<u64>>,
    /// The range that is being sent, and how much of it was.
    at: usize,
    done: u64,
}

impl Answering {
    /// What comes before the bytes.
    pub fn head(&self) -> Vec<u8> {
        ServerFrame::Answer { len: self.total }.encode()
    }

    /// The next bytes of the file to be sent, in ranges that have at most `most` together; none, when all are.
    pub fn next(&mut self, most: u64) -> Vec<Range<u64>> {
        let (mut out, mut room) = (Vec::new(), most.max(1));
        while room > 0
            && let Some(range) = self.ranges.get(self.at)
        {
            let start = range.start + self.done;
            let end = range.end.min(start.saturating_add(room));
            if start < end {
                out.push(start..end);
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
