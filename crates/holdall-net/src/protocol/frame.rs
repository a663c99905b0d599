//! Frames: the encoding of messages. Section 2 of `docs/spec/stream.md`.
//!
//! ```text
//! 0    1    kind
//! 1    4    length of the content, u32
//! 5         content
//! ```
//! Numbers are little-endian. A range is its offset and its length, u64 each. A string extends to the end of its frame.

use crate::catalog::TOKEN_MAX;
use crate::rules::{BUSY, CHANGED, FAILED, FRAME, NO_FILE, REQUEST, TOKEN};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result, Rule};
use std::fmt;
use std::ops::Range;

/// The protocol version that this crate implements.
pub const VERSION: u16 = 1;
/// Length of a frame's head, in bytes.
pub const HEAD_LEN: usize = 5;
/// Maximum length of a file name, in bytes.
pub const PATH_MAX: usize = 4096;
/// Maximum number of ranges in a request, and in an index.
pub const RANGES_MAX: usize = 1024;
/// Maximum length of an index that a server sends, in bytes.
pub const INDEX_MAX: u64 = 64 << 20;
/// Maximum length of the text of a refusal, in bytes.
const REASON_MAX: usize = 512;

/// The id of one version of a file, which differs from that of every other version and file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub [u8; 32]);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// A message from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFrame {
    /// The first frame on the control stream.
    Hello {
        /// The protocol version.
        version: u16,
        /// The access token; empty if the client has none.
        token: String,
    },
    /// Opens a file. Sent on the control stream.
    Open {
        /// A number the client chooses for the file, unique among its open files.
        file: u32,
        /// The id of the version that the client knows. If it is still current, the server sends no index.
        known: Option<FileId>,
        /// Whether the ranges of this file are to be sent with proofs.
        with_proofs: bool,
        /// The file's name.
        path: String,
    },
    /// Closes a file. Sent on the control stream.
    Close {
        /// The file's number.
        file: u32,
    },
    /// Changes the priority of a response. Sent on the control stream.
    Priority {
        /// QUIC's id of the request's stream.
        stream: u64,
        /// The new priority. Higher ones are sent first.
        priority: i32,
    },
    /// Requests ranges of a file. The only frame on its stream.
    Request {
        /// The number of an open file.
        file: u32,
        /// The priority. Higher ones are sent first.
        priority: i32,
        /// Ranges of the file, in any order.
        ranges: Vec<Range<u64>>,
    },
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerFrame {
    /// The first frame on the control stream.
    Welcome {
        /// The protocol version.
        version: u16,
        /// Maximum number of requests of this client that are answered at once.
        requests: u32,
    },
    /// A file is open. Sent on the control stream, followed by the bytes of the ranges of `index`.
    File {
        /// The file's number.
        file: u32,
        /// The id of this version of the file.
        id: FileId,
        /// The file's length in bytes.
        len: u64,
        /// The byte ranges of the file's index; empty if the client knows this version.
        index: Vec<Range<u64>>,
    },
    /// A file cannot be opened (sent on the control stream), or a request is refused (sent on its stream instead of a
    /// response).
    Refused {
        /// The file's number.
        file: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// A response. Sent on the request's stream, followed by the requested bytes.
    Answer {
        /// Number of bytes that follow.
        len: u64,
    },
}

/// The reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as a number.
    pub reason: RefusalReason,
    /// The reason, in words.
    pub text: String,
}

/// Reasons for refusals, numbered from 1. Reset streams and closed connections use the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalReason {
    /// An invalid or unexpected frame.
    Frame = 1,
    /// An unsupported protocol version.
    Version = 2,
    /// A missing or invalid token.
    Token = 3,
    /// No file with this name.
    NoFile = 4,
    /// Invalid request.
    Request = 5,
    /// Too many open files, requests or clients.
    Busy = 6,
    /// The file was changed while it was open.
    Changed = 7,
    /// The server cannot read the file.
    Failed = 8,
    /// The server is shutting down, or waited too long.
    Ending = 9,
}

impl RefusalReason {
    const ALL: [RefusalReason; 9] = [
        RefusalReason::Frame,
        RefusalReason::Version,
        RefusalReason::Token,
        RefusalReason::NoFile,
        RefusalReason::Request,
        RefusalReason::Busy,
        RefusalReason::Changed,
        RefusalReason::Failed,
        RefusalReason::Ending,
    ];

    /// Returns the reason's number.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Returns the reason with this number.
    pub fn from_number(number: u64) -> Option<RefusalReason> {
        RefusalReason::ALL.into_iter().find(|why| u64::from(why.number()) == number)
    }

    /// Returns the broken rule.
    pub fn rule(self) -> &'static Rule {
        match self {
            RefusalReason::Frame => &FRAME,
            RefusalReason::Version => &crate::rules::VERSION,
            RefusalReason::Token => &TOKEN,
            RefusalReason::NoFile => &NO_FILE,
            RefusalReason::Request => &REQUEST,
            RefusalReason::Busy => &BUSY,
            RefusalReason::Changed => &CHANGED,
            RefusalReason::Failed | RefusalReason::Ending => &FAILED,
        }
    }
}

impl Refusal {
    /// Returns the refusal as an error for the client.
    pub fn error(&self) -> Error {
        self.reason.rule().broken(format!("the server responded: {}", self.text.escaped()))
    }
}

/// The part of an error that a client may see: its text, without the server's path of the file.
impl From<&Error> for Refusal {
    fn from(e: &Error) -> Refusal {
        let has_rule = |why: &RefusalReason| e.code() == why.rule().code;
        match RefusalReason::ALL.iter().find(|why| has_rule(why)) {
            Some(why) => Refusal { reason: *why, text: e.found().to_owned() },
            None => Refusal {
                reason: RefusalReason::Failed,
                text: "the file cannot be read".to_owned(),
            },
        }
    }
}

/// A decoder of frames, from bytes that arrive in pieces. Holds the bytes of an incomplete frame.
#[derive(Debug, Default)]
pub struct FrameDecoder(Vec<u8>);

impl FrameDecoder {
    /// Returns the kind and the content of the next frame, and removes its bytes from the start of `input`. Returns
    /// `None` if the frame is incomplete: then all of `input` was consumed, and the rest is expected in a later call.
    /// `max_len` returns the maximum content length of a kind, in bytes, or `None` for kinds that are not expected.
    ///
    /// # Errors
    /// Returns [`FRAME`] if the kind is not expected, or the frame is too long.
    pub fn take(
        &mut self,
        input: &mut &[u8],
        max_len: impl Fn(u8) -> Option<usize>,
    ) -> Result<Option<(u8, Vec<u8>)>> {
        loop {
            let len = match *self.0 {
                [] => 1,
                [kind, ref rest @ ..] => {
                    let Some(max) = max_len(kind) else {
                        return Err(FRAME.broken(format!("unexpected frame of kind {kind:#04x}")));
                    };
                    match rest.first_chunk() {
                        Some(len) => {
                            let len = u32::from_le_bytes(*len) as usize;
                            if len > max {
                                return Err(FRAME.broken(format!(
                                    "a frame of kind {kind:#04x} has {len} bytes, the maximum is {max}"
                                )));
                            }
                            HEAD_LEN + len
                        }
                        None => HEAD_LEN,
                    }
                }
            };
            if self.0.len() >= HEAD_LEN && self.0.len() == len {
                let payload = self.0.split_off(HEAD_LEN);
                let kind = self.0.first().copied().unwrap_or_default();
                self.0.clear();
                return Ok(Some((kind, payload)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(input.len().min(len - self.0.len()));
            self.0.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// Returns `true` if a frame has begun and is incomplete.
    pub fn is_incomplete(&self) -> bool {
        !self.0.is_empty()
    }
}

const HELLO: u8 = 0x01;
const OPEN: u8 = 0x02;
const CLOSE: u8 = 0x03;
const PRIORITY: u8 = 0x04;
const REQUEST_KIND: u8 = 0x05;
const WELCOME: u8 = 0x81;
const FILE: u8 = 0x82;
const REFUSED: u8 = 0x83;
const ANSWER_KIND: u8 = 0x84;

/// The flags of an open frame.
const KNOWN: u8 = 1;
const PROVEN: u8 = 2;

impl ClientFrame {
    /// Returns the maximum content length of a frame of this kind on a control stream, in bytes; `None` if the kind is
    /// not allowed there.
    pub fn max_control_len(kind: u8) -> Option<usize> {
        match kind {
            HELLO => Some(2 + TOKEN_MAX),
            OPEN => Some(4 + 1 + 32 + PATH_MAX),
            CLOSE => Some(4),
            PRIORITY => Some(12),
            _ => None,
        }
    }

    /// Returns the maximum content length of a frame of this kind on a request's stream, in bytes; `None` if the kind
    /// is not allowed there.
    pub fn max_request_len(kind: u8) -> Option<usize> {
        (kind == REQUEST_KIND).then_some(8 + 16 * RANGES_MAX)
    }

    /// Encodes the frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ClientFrame::Hello { version, token } => {
                framed(HELLO, &[&version.to_le_bytes(), token.as_bytes()])
            }
            ClientFrame::Open { file, known, with_proofs, path } => {
                let flags =
                    if known.is_some() { KNOWN } else { 0 } | if *with_proofs { PROVEN } else { 0 };
                let id = known.as_ref().map_or(&[][..], |id| &id.0[..]);
                framed(OPEN, &[&file.to_le_bytes(), &[flags], id, path.as_bytes()])
            }
            ClientFrame::Close { file } => framed(CLOSE, &[&file.to_le_bytes()]),
            ClientFrame::Priority { stream, priority } => {
                framed(PRIORITY, &[&stream.to_le_bytes(), &priority.to_le_bytes()])
            }
            ClientFrame::Request { file, priority, ranges } => framed(
                REQUEST_KIND,
                &[&file.to_le_bytes(), &priority.to_le_bytes(), &encode_ranges(ranges)],
            ),
        }
    }

    /// Decodes the content of a frame.
    ///
    /// # Errors
    /// Returns [`FRAME`] if the kind or the content is invalid.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<ClientFrame> {
        let mut payload = FrameReader(payload);
        let frame = match kind {
            HELLO => ClientFrame::Hello {
                version: u16::from_le_bytes(payload.array()?),
                token: payload.text(TOKEN_MAX)?,
            },
            OPEN => {
                let file = payload.u32()?;
                let [flags] = payload.array()?;
                if flags & !(KNOWN | PROVEN) != 0 {
                    return Err(FRAME.broken(format!("unknown flags {flags:#04x}")));
                }
                ClientFrame::Open {
                    file,
                    known: match flags & KNOWN {
                        0 => None,
                        _ => Some(FileId(payload.array()?)),
                    },
                    with_proofs: flags & PROVEN != 0,
                    path: payload.text(PATH_MAX)?,
                }
            }
            CLOSE => ClientFrame::Close { file: payload.u32()? },
            PRIORITY => ClientFrame::Priority { stream: payload.u64()?, priority: payload.i32()? },
            REQUEST_KIND => ClientFrame::Request {
                file: payload.u32()?,
                priority: payload.i32()?,
                ranges: payload.ranges()?,
            },
            _ => return Err(FRAME.broken(format!("unexpected frame of kind {kind:#04x}"))),
        };
        payload.end().map(|()| frame)
    }
}

impl ServerFrame {
    /// Returns the maximum content length of a frame of this kind on a control stream, in bytes; `None` if the kind is
    /// not allowed there.
    pub fn max_control_len(kind: u8) -> Option<usize> {
        match kind {
            WELCOME => Some(6),
            FILE => Some(4 + 32 + 8 + 16 * RANGES_MAX),
            REFUSED => Some(4 + 2 + REASON_MAX),
            _ => None,
        }
    }

    /// Returns the maximum content length of a frame of this kind on a request's stream, in bytes; `None` if the kind
    /// is not allowed there.
    pub fn max_answer_len(kind: u8) -> Option<usize> {
        match kind {
            REFUSED => Some(4 + 2 + REASON_MAX),
            ANSWER_KIND => Some(8),
            _ => None,
        }
    }

    /// Encodes the frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ServerFrame::Welcome { version, requests } => {
                framed(WELCOME, &[&version.to_le_bytes(), &requests.to_le_bytes()])
            }
            ServerFrame::File { file, id, len, index } => framed(
                FILE,
                &[&file.to_le_bytes(), &id.0, &len.to_le_bytes(), &encode_ranges(index)],
            ),
            ServerFrame::Refused { file, refusal } => {
                let text = &refusal.text[..refusal.text.floor_char_boundary(REASON_MAX)];
                let why = refusal.reason.number().to_le_bytes();
                framed(REFUSED, &[&file.to_le_bytes(), &why, text.as_bytes()])
            }
            ServerFrame::Answer { len } => framed(ANSWER_KIND, &[&len.to_le_bytes()]),
        }
    }

    /// Decodes the content of a frame.
    ///
    /// # Errors
    /// Returns [`FRAME`] if the kind or the content is invalid.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<ServerFrame> {
        let mut payload = FrameReader(payload);
        let frame = match kind {
            WELCOME => ServerFrame::Welcome {
                version: u16::from_le_bytes(payload.array()?),
                requests: payload.u32()?,
            },
            FILE => ServerFrame::File {
                file: payload.u32()?,
                id: FileId(payload.array()?),
                len: payload.u64()?,
                index: payload.ranges()?,
            },
            REFUSED => ServerFrame::Refused {
                file: payload.u32()?,
                refusal: {
                    let number = u64::from(u16::from_le_bytes(payload.array()?));
                    let Some(why) = RefusalReason::from_number(number) else {
                        return Err(FRAME.broken(format!("unknown reason {number}")));
                    };
                    Refusal { reason: why, text: payload.text(REASON_MAX)? }
                },
            },
            ANSWER_KIND => ServerFrame::Answer { len: payload.u64()? },
            _ => return Err(FRAME.broken(format!("unexpected frame of kind {kind:#04x}"))),
        };
        payload.end().map(|()| frame)
    }
}

/// Returns a frame whose content is the concatenation of `parts`.
fn framed(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(HEAD_LEN + len);
    out.push(kind);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

fn encode_ranges(ranges: &[Range<u64>]) -> Vec<u8> {
    let numbers = ranges.iter().flat_map(|r| [r.start, r.end.saturating_sub(r.start)]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// The part of a frame's content that was not read yet.
struct FrameReader<'a>(&'a [u8]);

impl FrameReader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((first, rest)) = self.0.split_first_chunk() else {
            let left = self.0.len();
            return Err(FRAME.broken(format!("expected {N} more bytes in a frame, found {left}")));
        };
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the rest as a text of at most `max` bytes.
    fn text(&mut self, max: usize) -> Result<String> {
        let all = std::mem::take(&mut self.0);
        if all.len() > max {
            let len = all.len();
            return Err(FRAME.broken(format!("a string has {len} bytes, the maximum is {max}")));
        }
        match std::str::from_utf8(all) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(FRAME.broken("a string is not UTF-8")),
        }
    }

    /// Reads the rest as ranges.
    fn ranges(&mut self) -> Result<Vec<Range<u64>>> {
        let mut all = Vec::with_capacity(self.0.len().min(16 * RANGES_MAX) / 16);
        while !self.0.is_empty() {
            let (start, len) = (self.u64()?, self.u64()?);
            let Some(end) = start.checked_add(len) else {
                let message = format!("{len} bytes from {start} on end past 2^64");
                return Err(FRAME.broken(message));
            };
            if all.len() == RANGES_MAX {
                return Err(FRAME.broken(format!("more than {RANGES_MAX} ranges")));
            }
            all.push(start..end);
        }
        Ok(all)
    }

    fn end(&self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            n => Err(FRAME.broken(format!("a frame has {n} unexpected bytes at its end"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> (Vec<ClientFrame>, Vec<ServerFrame>) {
        let id = FileId([7; 32]);
        let refusal = Refusal { reason: RefusalReason::Busy, text: "later".into() };
        (
            vec![
                ClientFrame::Hello { version: 1, token: "t".into() },
                ClientFrame::Open {
                    file: 3,
                    known: None,
                    with_proofs: true,
                    path: "a/ö.zt".into(),
                },
                ClientFrame::Open {
                    file: 4,
                    known: Some(id),
                    with_proofs: false,
                    path: String::new(),
                },
                ClientFrame::Close { file: 3 },
                ClientFrame::Priority { stream: 8, priority: -5 },
            ],
            vec![
                ServerFrame::Welcome { version: 1, requests: 16 },
                ServerFrame::File { file: 3, id, len: 100, index: vec![0..10, 90..100] },
                ServerFrame::Refused { file: 4, refusal },
            ],
        )
    }

    #[test]
    fn frames_decode_from_parts_of_any_length() {
        let (client_frames, server_frames) = frames();
        let bytes: Vec<u8> = client_frames.iter().flat_map(ClientFrame::encode).collect();
        for cut in 1..bytes.len() {
            let (mut frames, mut found) = (FrameDecoder::default(), Vec::new());
            for mut part in bytes.chunks(cut) {
                while let Some((kind, payload)) =
                    frames.take(&mut part, ClientFrame::max_control_len).unwrap()
                {
                    found.push(ClientFrame::decode(kind, &payload).unwrap());
                }
            }
            assert_eq!(found, client_frames);
            assert!(!frames.is_incomplete());
        }
        for frame in server_frames {
            let bytes = frame.encode();
            let (mut rest, mut frames) = (&bytes[..], FrameDecoder::default());
            let (kind, payload) =
                frames.take(&mut rest, ServerFrame::max_control_len).unwrap().unwrap();
            assert_eq!(ServerFrame::decode(kind, &payload).unwrap(), frame);
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        let take = |bytes: &[u8]| {
            let mut input = bytes;
            FrameDecoder::default().take(&mut input, ClientFrame::max_control_len)
        };
        assert_eq!(take(&[0xff]).unwrap_err().code(), "net/frame");
        assert_eq!(take(&[0x05]).unwrap_err().code(), "net/frame", "a request on a control stream");
        assert_eq!(
            take(&[0x03, 5, 0, 0, 0]).unwrap_err().code(),
            "net/frame",
            "longer than its kind"
        );
        assert_eq!(take(&[0x02, 255, 255, 255, 255]).unwrap_err().code(), "net/frame");
        assert!(take(&[0x03, 4, 0, 0, 0, 1]).unwrap().is_none());
        for (kind, payload) in [
            (0x01, &[1][..]),
            (0x01, &[1, 0, 0xff]),
            (0x02, &[1, 0, 0, 0, 4]),
            (0x02, &[1, 0, 0, 0, 1, 9, 9]),
            (0x03, &[1, 0, 0]),
            (0x04, &[0; 13]),
            (0x05, &[0; 9]),
            (0x05, &[0xff; 24]),
            (0x77, &[]),
        ] {
            let e = ClientFrame::decode(kind, payload).unwrap_err();
            assert_eq!(e.code(), "net/frame", "{kind} {payload:?}");
        }
        for (kind, payload) in [(0x81, &[1, 0][..]), (0x83, &[0, 0, 0, 0, 99, 0]), (0x84, &[0; 7])]
        {
            assert_eq!(ServerFrame::decode(kind, payload).unwrap_err().code(), "net/frame");
        }
    }
}
