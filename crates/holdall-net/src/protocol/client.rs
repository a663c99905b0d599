//! The client's end.

use super::frame::{
    ClientFrame, FileId, Frames, INDEX_MAX, PATH_MAX, Refusal, ServerFrame, VERSION,
};
use super::total;
#[cfg(feature = "quic")]
use crate::rules::FAILED;
use crate::rules::{ADDRESS, ANSWER, FRAME, VERSION as VERSION_RULE};
use bytes::Bytes;
use holdall_core::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;

/// What a server has said on the control stream.
#[derive(Debug)]
pub struct Client {
    frames: Frames,
    is_welcome: bool,
    /// The number of the next file.
    next: u32,
    /// Files that were asked for.
    waiting: BTreeSet<u32>,
    /// The file whose index is coming.
    coming: Option<Coming>,
}

#[derive(Debug)]
struct Coming {
    file: u32,
    id: FileId,
    len: u64,
    ranges: Vec<Range<u64>>,
    bytes: Vec<u8>,
    total: usize,
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// It takes this client, and answers so many of its requests at once.
    Welcome {
        /// So many.
        requests: u32,
    },
    /// A file is open.
    Opened {
        /// Its number.
        file: u32,
        /// What tells it from others.
        id: FileId,
        /// Bytes in all.
        len: u64,
        /// Its index, where the client did not know it: where bytes are, and they.
        index: Vec<(u64, Bytes)>,
    },
    /// A file is not opened.
    Refused {
        /// Its number.
        file: u32,
        /// Why.
        refusal: Refusal,
    },
}

impl Client {
    /// A client, and the first bytes of its control stream.
    pub fn new(token: &str) -> (Client, Vec<u8>) {
        let client = Client {
            frames: Frames::default(),
            is_welcome: false,
            next: 0,
            waiting: BTreeSet::new(),
            coming: None,
        };
        (client, ClientFrame::Hello { version: VERSION, token: token.to_owned() }.encode())
    }

    /// The number of a file, and what is sent on the control stream to open it.
    ///
    /// # Errors
    /// `net/address`, for a name that is too long.
    pub fn open(&mut self, path: &str, known: Option<FileId>) -> Result<(u32, Vec<u8>)> {
        if path.len() > PATH_MAX {
            let len = path.len();
            return Err(ADDRESS.broken(format!("the path has {len} bytes, of {PATH_MAX} at most")));
        }
        let file = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(file);
        Ok((file, ClientFrame::Open { file, known, path: path.to_owned() }.encode()))
    }

    /// What these bytes of the control stream say.
    ///
    /// # Errors
    /// What the connection ends for: `net/frame`, `net/version`.
    pub fn control(&mut self, mut input: &[u8]) -> Result<Vec<Told>> {
        let mut all = Vec::new();
        loop {
            if let Some(coming) = &mut self.coming {
                let missing = coming.total - coming.bytes.len();
                let (taken, rest) = input.split_at(input.len().min(missing));
                coming.bytes.extend_from_slice(taken);
                input = rest;
                if coming.bytes.len() < coming.total {
                    return Ok(all);
                }
                all.extend(self.coming.take().map(Coming::whole));
            }
            let taken = self.frames.take(&mut input, ServerFrame::most_of_control)?;
            let Some((kind, said)) = taken else { return Ok(all) };
            let frame = ServerFrame::decode(kind, &said)?;
            if self.is_welcome == matches!(frame, ServerFrame::Welcome { .. }) {
                return Err(FRAME.broken("a server says welcome once, before all else"));
            }
            match frame {
                ServerFrame::Welcome { version, requests } => {
                    if version != VERSION {
                        let e = format!("the server speaks version {version}, this is {VERSION}");
                        return Err(VERSION_RULE.broken(e));
                    }
                    self.is_welcome = true;
                    all.push(Told::Welcome { requests });
                }
                ServerFrame::File { file, id, len, index } => {
                    self.asked(file)?;
                    let total = check_index(&index, len)?;
                    let bytes = Vec::new();
                    self.coming = Some(Coming { file, id, len, ranges: index, bytes, total });
                }
                ServerFrame::Refused { file, refusal } => {
                    self.asked(file)?;
                    all.push(Told::Refused { file, refusal });
                }
                ServerFrame::Answer { .. } => {
                    return Err(FRAME.broken("an answer is on the stream of its request"));
                }
            }
        }
    }

    fn asked(&mut self, file: u32) -> Result<()> {
        match self.waiting.remove(&file) {
            true => Ok(()),
            false => Err(FRAME.broken(format!("file {file} was not asked for"))),
        }
    }

    /// What closes a file.
    pub fn close(file: u32) -> Vec<u8> {
        ClientFrame::Close { file }.encode()
    }

    /// What makes the answer on a stream more urgent, or less.
    pub fn priority(stream: u64, priority: i32) -> Vec<u8> {
        ClientFrame::Priority { stream, priority }.encode()
    }
}

/// Bytes of an index, where it may be one: rising ranges inside the file.
fn check_index(index: &[Range<u64>], len: u64) -> Result<usize> {
    let is_rising = index.windows(2).all(|w| w[0].end <= w[1].start);
    let is_inside = index.iter().all(|r| !r.is_empty() && r.end <= len);
    match total(index).filter(|total| is_rising && is_inside && *total <= INDEX_MAX) {
        Some(total) => Ok(total as usize),
        None => Err(FRAME.broken(format!(
            "an index is in rising ranges of its file, of at most {INDEX_MAX} bytes"
        ))),
    }
}

impl Coming {
    fn whole(self) -> Told {
        let mut bytes = Bytes::from(self.bytes);
        let cut = |range: &Range<u64>| {
            let len = (range.end - range.start) as usize;
            (range.start, bytes.split_to(len.min(bytes.len())))
        };
        let index = self.ranges.iter().map(cut).collect();
        Told::Opened { file: self.file, id: self.id, len: self.len, index }
    }
}

/// An answer on its way in, over as many streams as it takes: what came stays, and the next stream is asked for the
/// rest.
#[derive(Debug)]
pub struct Arrival {
    ranges: Vec<Range<u64>>,
    /// The range that is coming, and how much of it came.
    at: usize,
    done: u64,
    frames: Frames,
    /// Whether this stream says that bytes follow.
    is_answered: bool,
    /// Bytes that came in all.
    came: u64,
}

/// Bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The number of the range that they are of.
    pub of: usize,
    /// Where in that range.
    pub at: u64,
    /// They.
    pub bytes: &'a [u8],
}

impl Arrival {
    /// Of these ranges, of which nothing came.
    pub fn new(ranges: Vec<Range<u64>>) -> Arrival {
        let mut new = Arrival {
            ranges,
            at: 0,
            done: 0,
            frames: Frames::default(),
            is_answered: false,
            came: 0,
        };
        new.pass_empty();
        new
    }

    /// The request for what is missing, on a new stream; nothing, where nothing is.
    pub fn request(&mut self, file: u32, priority: i32) -> Option<Vec<u8>> {
        if self.is_whole() {
            return None;
        }
        self.frames = Frames::default();
        self.is_answered = false;
        let ranges = self.missing();
        Some(ClientFrame::Request { file, priority, ranges }.encode())
    }

    /// What did not come.
    pub fn missing(&self) -> Vec<Range<u64>> {
        let mut rest = self.ranges.get(self.at..).unwrap_or_default().to_vec();
        if let Some(first) = rest.first_mut() {
            first.start += self.done;
        }
        rest
    }

    /// Whether all came.
    pub fn is_whole(&self) -> bool {
        self.at == self.ranges.len()
    }

    /// Bytes that came, over all streams.
    pub fn came(&self) -> u64 {
        self.came
    }

    /// Takes bytes of the stream, and hands out those of the file.
    ///
    /// # Errors
    /// `net/frame`; `net/answer` for bytes that were not asked for; what the server refuses the request for.
    pub fn push(
        &mut self,
        mut input: &[u8],
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_answered {
            let taken = self.frames.take(&mut input, ServerFrame::most_of_answer)?;
            let Some((kind, said)) = taken else { return Ok(()) };
            match ServerFrame::decode(kind, &said)? {
                ServerFrame::Refused { refusal, .. } => return Err(refusal.error()),
                ServerFrame::Answer { len } => {
                    let due = total(&self.missing()).unwrap_or(u64::MAX);
                    if len != due {
                        return Err(ANSWER.broken(format!(
                            "the server announces {len} bytes, {due} were asked for"
                        )));
                    }
                    self.is_answered = true;
                }
                _ => return Err(FRAME.broken("an answer, or why there is none, is due")),
            }
        }
        while !input.is_empty() {
            let Some(range) = self.ranges.get(self.at) else { return Err(too_many()) };
            let left = range.end - range.start - self.done;
            let len = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
            let (taken, rest) = input.split_at(len);
            each(Piece { of: self.at, at: self.done, bytes: taken })?;
            self.done += len as u64;
            self.came += len as u64;
            input = rest;
            self.pass_empty();
        }
        Ok(())
    }

    /// The stream has ended, as streams do.
    ///
    /// # Errors
    /// `net/answer`, where bytes are missing.
    pub fn finish(&self) -> Result<()> {
        match self.is_whole() && self.is_answered {
            true => Ok(()),
            false => Err(self.too_few()),
        }
    }

    #[cold]
    fn too_few(&self) -> Error {
        let missing = total(&self.missing()).unwrap_or(u64::MAX);
        ANSWER.broken(format!("the server ended with {missing} bytes still to come"))
    }

    /// Goes past ranges of which nothing is to come.
    fn pass_empty(&mut self) {
        while let Some(range) = self.ranges.get(self.at)
            && range.end.saturating_sub(range.start) <= self.done
        {
            (self.at, self.done) = (self.at + 1, 0);
        }
    }
}

#[cold]
fn too_many() -> Error {
    ANSWER.broken("the server sent more bytes than were asked for")
}

/// The error of a connection or stream that the other side ended with that number.
#[cfg(feature = "quic")]
pub(crate) fn ended(number: u64, text: &str) -> Error {
    match super::Why::from_number(number) {
        Some(why) if text.is_empty() => why.rule().broken("the server ended the answer"),
        Some(why) => Refusal { why, text: text.to_owned() }.error(),
        None => FAILED.broken(format!("the server ended the connection with number {number}")),
    }
}
