//! The client's side of the protocol.

use super::frame::{
    ClientFrame, FileId, FrameDecoder, INDEX_MAX, PATH_MAX, Refusal, ServerFrame, VERSION,
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

/// The client's side of a control stream: opens files, and decodes what the server sends.
#[derive(Debug)]
pub struct Client {
    frames: FrameDecoder,
    is_welcome: bool,
    /// The number of the next file to open.
    next: u32,
    /// Files that were requested, and for which the server has not answered yet.
    waiting: BTreeMap<u32, Waiting>,
    /// The file whose index is being received.
    coming: Option<Coming>,
}

/// A requested file: the id of the version the client knows, and the expected BLAKE3 hash of the file.
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

/// A message from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// The server accepts the client.
    Welcome {
        /// Maximum number of requests that the server answers at once.
        requests: u32,
    },
    /// A file is open.
    Opened {
        /// The file's number.
        file: u32,
        /// The id of this version of the file.
        id: FileId,
        /// The file's length in bytes.
        len: u64,
        /// The file's index, as `(offset, bytes)`; empty if the client knows this version.
        index: Vec<(u64, Bytes)>,
    },
    /// A file could not be opened.
    Refused {
        /// The file's number.
        file: u32,
        /// The reason.
        refusal: Refusal,
    },
}

impl Client {
    /// Creates a client, and returns it with the first bytes to send on its control stream.
    pub fn new(token: &str) -> (Client, Vec<u8>) {
        let client = Client {
            frames: FrameDecoder::default(),
            is_welcome: false,
            next: 0,
            waiting: BTreeMap::new(),
            coming: None,
        };
        (client, ClientFrame::Hello { version: VERSION, token: token.to_owned() }.encode())
    }

    /// Returns a number for the file and the frame to send on the control stream, to open the file. `known` is the id
    /// of the version that the client knows already: the server then sends no index. If `root` is given, the server
    /// sends proofs, and everything it sends is checked against this hash.
    ///
    /// # Errors
    /// Returns `net/address` if the name is longer than [`PATH_MAX`] bytes.
    pub fn open(
        &mut self,
        path: &str,
        known: Option<FileId>,
        root: Option<Root>,
    ) -> Result<(u32, Vec<u8>)> {
        if path.len() > PATH_MAX {
            let len = path.len();
            return Err(
                ADDRESS.broken(format!("the path has {len} bytes, the maximum is {PATH_MAX}"))
            );
        }
        let file = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(file, Waiting { known, root });
        let (with_proofs, path) = (root.is_some(), path.to_owned());
        Ok((file, ClientFrame::Open { file, known, with_proofs, path }.encode()))
    }

    /// Decodes the next bytes of the control stream, split at any byte, and returns the complete messages.
    ///
    /// # Errors
    /// Returns `net/frame`, `net/version` or `net/proof`. After an error, the connection must be closed.
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
            let taken = self.frames.take(&mut input, ServerFrame::max_control_len)?;
            let Some((kind, payload)) = taken else { return Ok(all) };
            let frame = ServerFrame::decode(kind, &payload)?;
            if self.is_welcome == matches!(frame, ServerFrame::Welcome { .. }) {
                return Err(FRAME.broken("expected one welcome frame, before all others"));
            }
            match frame {
                ServerFrame::Welcome { version, requests } => {
                    if version != VERSION {
                        let e = format!(
                            "the server uses version {version}, this client version {VERSION}"
                        );
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
                    return Err(FRAME.broken("unexpected response on the control stream"));
                }
            }
        }
    }

    fn asked(&mut self, file: u32) -> Result<Waiting> {
        match self.waiting.remove(&file) {
            Some(waiting) => Ok(waiting),
            None => Err(FRAME.broken(format!("file {file} was not requested"))),
        }
    }

    /// Returns the frame that closes a file.
    pub fn close(file: u32) -> Vec<u8> {
        ClientFrame::Close { file }.encode()
    }

    /// Returns the frame that changes the priority of the response on a stream.
    pub fn priority(stream: u64, priority: i32) -> Vec<u8> {
        ClientFrame::Priority { stream, priority }.encode()
    }
}

/// Checks that an index has ascending ranges inside the file, of at most [`INDEX_MAX`] bytes.
fn check_index(index: &[Range<u64>], len: u64) -> Result<()> {
    let is_rising = index.windows(2).all(|w| w[0].end <= w[1].start);
    let is_inside = index.iter().all(|r| !r.is_empty() && r.end <= len);
    match total(index).filter(|total| is_rising && is_inside && *total <= INDEX_MAX) {
        Some(_) => Ok(()),
        None => Err(FRAME.broken(format!(
            "the ranges of an index are not in ascending order inside the file, or have more than {INDEX_MAX} bytes"
        ))),
    }
}

/// Checks that the index includes the last byte of the file, so that its proof also proves the file's length.
fn has_end(index: &[Range<u64>], len: u64, root: Root) -> Result<()> {
    match index.last() {
        None if len == 0 && is_of_nothing(root) => Ok(()),
        None if len == 0 => Err(unproven(0..0)),
        Some(last) if last.end == len => Ok(()),
        _ => Err(FRAME.broken("the index of a file with proofs does not include its last byte")),
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

/// A response that is being received, over one or more streams. When a stream fails, the next one requests only what is
/// still missing.
#[derive(Debug)]
pub struct PendingResponse {
    intake: Intake,
    frames: FrameDecoder,
    /// Whether the current stream has announced its bytes.
    is_answered: bool,
}

impl PendingResponse {
    /// Creates a response for these ranges, of which nothing was received yet.
    pub fn new(ranges: Vec<Range<u64>>) -> PendingResponse {
        PendingResponse::with_intake(Intake::new(ranges, None))
    }

    /// Creates a response whose ranges come with proofs, for a file of `len` bytes with the hash `root`. The file must
    /// have been opened with that hash.
    pub fn proven(ranges: Vec<Range<u64>>, len: u64, root: Root) -> PendingResponse {
        PendingResponse::with_intake(Intake::new(ranges, Some((len, root))))
    }

    fn with_intake(intake: Intake) -> PendingResponse {
        PendingResponse { intake, frames: FrameDecoder::default(), is_answered: false }
    }

    /// Returns the frame that requests the missing ranges on a new stream; `None` if nothing is missing.
    pub fn request(&mut self, file: u32, priority: i32) -> Option<Vec<u8>> {
        if self.is_whole() {
            return None;
        }
        self.frames = FrameDecoder::default();
        self.is_answered = false;
        self.intake.again();
        let ranges = self.missing();
        Some(ClientFrame::Request { file, priority, ranges }.encode())
    }

    /// Returns the ranges that were not received yet.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.intake.missing()
    }

    /// Returns `true` if all ranges were received.
    pub fn is_whole(&self) -> bool {
        self.intake.is_whole()
    }

    /// Returns the number of bytes received so far, over all streams.
    pub fn bytes_received(&self) -> u64 {
        self.intake.bytes_received()
    }

    /// Decodes the next bytes of the stream, and passes the file's bytes to `each`.
    ///
    /// # Errors
    /// Returns `net/frame` if the bytes are not valid; `net/answer` if they were not requested; `net/proof` if they do not
    /// match the hash; the server's refusal; an error from `each`.
    pub fn push(
        &mut self,
        mut input: &[u8],
        each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_answered {
            let taken = self.frames.take(&mut input, ServerFrame::max_answer_len)?;
            let Some((kind, payload)) = taken else { return Ok(()) };
            match ServerFrame::decode(kind, &payload)? {
                ServerFrame::Refused { refusal, .. } => return Err(refusal.error()),
                ServerFrame::Answer { len } => {
                    let due = self.intake.due();
                    if len != due {
                        return Err(ANSWER
                            .broken(format!("the server announces {len} bytes, expected {due}")));
                    }
                    self.is_answered = true;
                }
                _ => return Err(FRAME.broken("expected a response or a refusal")),
            }
        }
        self.intake.take(&mut input, each)?;
        if input.is_empty() { Ok(()) } else { Err(too_many()) }
    }

    /// Checks that the response is complete. To be called when the stream has ended regularly.
    ///
    /// # Errors
    /// Returns `net/answer` if bytes are missing.
    pub fn finish(&self) -> Result<()> {
        match self.is_whole() && self.is_answered {
            true => Ok(()),
            false => Err(self.too_few()),
        }
    }

    #[cold]
    fn too_few(&self) -> Error {
        let missing = total(&self.missing()).unwrap_or(u64::MAX);
        ANSWER.broken(format!("the response ended with {missing} bytes missing"))
    }
}

#[cold]
fn too_many() -> Error {
    ANSWER.broken("the server sent more bytes than were requested")
}

/// Returns the error for a stream or connection that the other side closed with this number.
#[cfg(feature = "quic")]
pub(crate) fn ended(number: u64, text: &str) -> Error {
    match super::RefusalReason::from_number(number) {
        Some(why) if text.is_empty() => why.rule().broken("the server ended the response"),
        Some(why) => Refusal { reason: why, text: text.to_owned() }.error(),
        None => FAILED.broken(format!("the server ended the connection with number {number}")),
    }
}
