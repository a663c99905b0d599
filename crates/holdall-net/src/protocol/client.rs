//! The client's end.

use super::frame::{
    ClientFrame, FileId, Frames, INDEX_MAX, PATH_MAX, Refusal, ServerFrame, VERSION,
};
use super::intake::{Intake, Piece};
use super::total;
use super::tree::{Root, is_of_nothing, unproven};
#[cfg(feature = "quic")]
use crate::rules::FAILED;
use crate::rules::{ADDRESS, ANSWER, FRAME, VERSION as VERSION_RULE};
use bytes::Bytes;
use holdall_core::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a server has said on the control stream.
#[derive(Debug)]
pub struct Client {
    frames: Frames,
    is_welcome: bool,
    /// The number of the next file.
    next: u32,
    /// Files that were asked for.
    waiting: BTreeMap<u32, Waiting>,
    /// The file whose index is coming.
    coming: Option<Coming>,
}

/// A file that was asked for: what it is known as, and its hash.
#[derive(Debug)]
struct Waiting {
    known: Option<FileId>,
    root: Option<Root>,
}

#[derive(Debug)]
struct Coming {
    file: u32,
    id: FileId,
    len: u64,
    ranges: Vec<Range<u64>>,
    intake: Intake,
    bytes: Vec<u8>,
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerMessage {
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
            waiting: BTreeMap::new(),
            coming: None,
        };
        (client, ClientFrame::Hello { version: VERSION, token: token.to_owned() }.encode())
    }

    /// The number of a file, and what is sent on the control stream to open it. With its hash, what comes of it is proven.
    ///
    /// # Errors
    /// `net/address`, for a name that is too long.
    pub fn open(
        &mut self,
        path: &str,
        known: Option<FileId>,
        root: Option<Root>,
    ) -> Result<(u32, Vec<u8>)> {
        if path.len() > PATH_MAX {
            let len = path.len();
            return Err(ADDRESS.broken(format!("the path has {len} bytes, of {PATH_MAX} at most")));
        }
        let file = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(file, Waiting { known, root });
        let (is_proven, path) = (root.is_some(), path.to_owned());
        Ok((file, ClientFrame::Open { file, known, is_proven, path }.encode()))
    }

    /// What these bytes of the control stream say.
    ///
    /// # Errors
    /// What the connection ends for: `net/frame`, `net/version`, `net/proof`.
    pub fn control(&mut self, mut input: &[u8]) -> Result<Vec<ServerMessage>> {
        let mut all = Vec::new();
        loop {
            if let Some(coming) = &mut self.coming {
                let bytes = &mut coming.bytes;
                coming.intake.take(&mut input, |piece| {
                    bytes.extend_from_slice(piece.bytes);
                    Ok(())
                })?;
                if !coming.intake.is_whole() {
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
                    all.push(ServerMessage::Welcome { requests });
                }
                ServerFrame::File { file, id, len, index } => {
                    let Waiting { known, root } = self.asked(file)?;
                    check_index(&index, len)?;
                    if let Some(root) = root
                        && known != Some(id)
                    {
                        has_end(&index, len, root)?;
                    }
                    let proof = root.map(|root| (len, root));
                    let (intake, bytes) = (Intake::new(index.clone(), proof), Vec::new());
                    self.coming = Some(Coming { file, id, len, ranges: index, intake, bytes });
                }
                ServerFrame::Refused { file, refusal } => {
                    self.asked(file)?;
                    all.push(ServerMessage::Refused { file, refusal });
                }
                ServerFrame::Answer { .. } => {
                    return Err(FRAME.broken("an answer is on the stream of its request"));
                }
            }
        }
    }

    fn asked(&mut self, file: u32) -> Result<Waiting> {
        match self.waiting.remove(&file) {
            Some(waiting) => Ok(waiting),
            None => Err(FRAME.broken(format!("file {file} was not asked for"))),
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

/// Whether an index may be one: rising ranges inside the file.
fn check_index(index: &[Range<u64>], len: u64) -> Result<()> {
    let is_rising = index.windows(2).all(|w| w[0].end <= w[1].start);
    let is_inside = index.iter().all(|r| !r.is_empty() && r.end <= len);
    match total(index).filter(|total| is_rising && is_inside && *total <= INDEX_MAX) {
        Some(_) => Ok(()),
        None => Err(FRAME.broken(format!(
            "an index is in rising ranges of its file, of at most {INDEX_MAX} bytes"
        ))),
    }
}

/// Whether the end of the file is proven with its index, so that it is as long as the server says.
fn has_end(index: &[Range<u64>], len: u64, root: Root) -> Result<()> {
    match index.last() {
        None if len == 0 && is_of_nothing(root) => Ok(()),
        None if len == 0 => Err(unproven(0..0)),
        Some(last) if last.end == len => Ok(()),
        _ => Err(FRAME.broken("the index of a proven file has the last byte of the file in it")),
    }
}

impl Coming {
    fn whole(self) -> ServerMessage {
        let mut bytes = Bytes::from(self.bytes);
        let cut = |range: &Range<u64>| {
            let len = (range.end - range.start) as usize;
            (range.start, bytes.split_to(len.min(bytes.len())))
        };
        let index = self.ranges.iter().map(cut).collect();
        ServerMessage::Opened { file: self.file, id: self.id, len: self.len, index }
    }
}

/// An answer on its way in, over as many streams as it takes: what came stays, and the next stream is asked for the
/// rest.
#[derive(Debug)]
pub struct PendingResponse {
    intake: Intake,
    frames: Frames,
    /// Whether this stream says that bytes follow.
    is_answered: bool,
}

impl PendingResponse {
    /// Of these ranges, of which nothing came.
    pub fn new(ranges: Vec<Range<u64>>) -> PendingResponse {
        PendingResponse::with_intake(Intake::new(ranges, None))
    }

    /// The same of a file of `len` bytes and this hash, from a server that was asked for proofs when it was opened.
    pub fn proven(ranges: Vec<Range<u64>>, len: u64, root: Root) -> PendingResponse {
        PendingResponse::with_intake(Intake::new(ranges, Some((len, root))))
    }

    fn with_intake(intake: Intake) -> PendingResponse {
        PendingResponse { intake, frames: Frames::default(), is_answered: false }
    }

    /// The request for what is missing, on a new stream; nothing, where nothing is.
    pub fn request(&mut self, file: u32, priority: i32) -> Option<Vec<u8>> {
        if self.is_whole() {
            return None;
        }
        self.frames = Frames::default();
        self.is_answered = false;
        self.intake.again();
        let ranges = self.missing();
        Some(ClientFrame::Request { file, priority, ranges }.encode())
    }

    /// What did not come.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.intake.missing()
    }

    /// Whether all came.
    pub fn is_whole(&self) -> bool {
        self.intake.is_whole()
    }

    /// Bytes that came, over all streams.
    pub fn bytes_received(&self) -> u64 {
        self.intake.bytes_received()
    }

    /// Takes bytes of the stream, and hands out those of the file.
    ///
    /// # Errors
    /// `net/frame`; `net/answer` for bytes that were not asked for; `net/proof`; what the server refuses the request for.
    pub fn push(
        &mut self,
        mut input: &[u8],
        each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_answered {
            let taken = self.frames.take(&mut input, ServerFrame::most_of_answer)?;
            let Some((kind, said)) = taken else { return Ok(()) };
            match ServerFrame::decode(kind, &said)? {
                ServerFrame::Refused { refusal, .. } => return Err(refusal.error()),
                ServerFrame::Answer { len } => {
                    let due = self.intake.due();
                    if len != due {
                        return Err(ANSWER.broken(format!(
                            "the server announces {len} bytes, {due} were asked for"
                        )));
                    }
                    self.is_answered = true;
                }
                _ => return Err(FRAME.broken("expected an answer or an error")),
            }
        }
        self.intake.take(&mut input, each)?;
        if input.is_empty() { Ok(()) } else { Err(too_many()) }
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
}

#[cold]
fn too_many() -> Error {
    ANSWER.broken("the server sent more bytes than were asked for")
}

/// The error of a connection or stream that the other side ended with that number.
#[cfg(feature = "quic")]
pub(crate) fn ended(number: u64, text: &str) -> Error {
    match super::RefusalReason::from_number(number) {
        Some(why) if text.is_empty() => why.rule().broken("the server ended the answer"),
        Some(why) => Refusal { why, text: text.to_owned() }.error(),
        None => FAILED.broken(format!("the server ended the connection with number {number}")),
    }
}
