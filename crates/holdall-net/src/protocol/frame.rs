//! Frames: how messages are encoded. Section 2 of `docs/spec/stream.md`.
//!
//! ```text
//! 0    1    kind
//! 1    4    length of what follows, u32
//! 5         what the kind says
//! ```
//! Numbers are little-endian; a range is its first byte and its length, u64 each; a text takes the rest of its frame.

use crate::rules::{BUSY, CHANGED, FAILED, FRAME, NO_FILE, REQUEST, TOKEN};
use crate::shelf::TOKEN_MAX;
use holdall_core::error::Shown as _;
use holdall_core::{Error, Result, Rule};
use std::fmt;
use std::ops::Range;

/// The version of the protocol that is spoken here.
pub const VERSION: u16 = 1;
/// Bytes before what a frame says.
pub const HEAD_LEN: usize = 5;
/// The most bytes of a name.
pub const PATH_MAX: usize = 4096;
/// The most ranges of one request, and of an index.
pub const RANGES_MAX: usize = 1024;
/// The most bytes of an index that are sent unasked.
pub const INDEX_MAX: u64 = 64 << 20;
/// The most bytes of a reason.
const REASON_MAX: usize = 512;

/// What tells one version of one file from every other file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub [u8; 32]);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFrame {
    /// On the control stream, first.
    Hello {
        /// The protocol's version.
        version: u16,
        /// Empty where the client has none.
        token: String,
    },
    /// On the control stream: opens a file.
    Open {
        /// A number that the client gives it, for as long as it has it open.
        file: u32,
        /// What the client knows it as: then it needs no index.
        known: Option<FileId>,
        /// Whether ranges of it are to come with their proofs.
        is_proven: bool,
        /// Its name.
        path: String,
    },
    /// On the control stream: the file is not asked for any more.
    Close {
        /// Its number.
        file: u32,
    },
    /// On the control stream: how urgent the answer to a request is from now on.
    Priority {
        /// The number that QUIC gives the stream.
        stream: u64,
        /// Higher ones come first.
        priority: i32,
    },
    /// On a stream of its own, and nothing after it.
    Request {
        /// The number of an open file.
        file: u32,
        /// Higher ones come first.
        priority: i32,
        /// Ranges of the file, in any order.
        ranges: Vec<Range<u64>>,
    },
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerFrame {
    /// On the control stream, first.
    Welcome {
        /// The protocol's version.
        version: u16,
        /// Requests of this client that are answered at once.
        requests: u32,
    },
    /// On the control stream: a file is open. The bytes of the ranges follow it, one after the other.
    File {
        /// Its number.
        file: u32,
        /// What tells it from others.
        id: FileId,
        /// Bytes in all.
        len: u64,
        /// Where its index is; empty where the client knows it.
        index: Vec<Range<u64>>,
    },
    /// On the control stream: a file is not opened. On that of a request, in place of an answer.
    Refused {
        /// The number of the file.
        file: u32,
        /// Why.
        refusal: Refusal,
    },
    /// On the stream of a request: its bytes follow.
    Answer {
        /// How many.
        len: u64,
    },
}

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as a number.
    pub why: RefusalReason,
    /// The same in words.
    pub text: String,
}

/// The reasons, by their numbers, from 1 on. Streams that are reset and connections that are closed have them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalReason {
    /// The bytes are not a frame that is expected now.
    Frame = 1,
    /// Another version of the protocol.
    Version = 2,
    /// No token, or an unknown one.
    Token = 3,
    /// There is no such file.
    NoFile = 4,
    /// The request is none.
    Request = 5,
    /// Too much at once.
    Busy = 6,
    /// The file has changed.
    Changed = 7,
    /// The server cannot read the file.
    Failed = 8,
    /// The server ends, or has waited too long.
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

    /// Its number.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The reason of that number.
    pub fn from_number(number: u64) -> Option<RefusalReason> {
        RefusalReason::ALL.into_iter().find(|why| u64::from(why.number()) == number)
    }

    /// The rule that was broken.
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
    /// As an error of who was refused.
    pub fn error(&self) -> Error {
        self.why.rule().broken(format!("the server says: {}", self.text.shown()))
    }
}

/// What of an error another may know: its text, without what the server calls the file.
impl From<&Error> for Refusal {
    fn from(e: &Error) -> Refusal {
        let of = |why: &RefusalReason| e.code() == why.rule().code;
        match RefusalReason::ALL.iter().find(|why| of(why)) {
            Some(why) => Refusal { why: *why, text: e.found().to_owned() },
            None => {
                Refusal { why: RefusalReason::Failed, text: "the file cannot be read".to_owned() }
            }
        }
    }
}

/// Frames that come in pieces: the bytes so far of the next one.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// The kind of the next frame and what it says, taken from the start of `input` as far as it belongs to it; nothing where more
    /// is needed. `most` is how long a frame of a kind may be; nothing for kinds that are not due.
    ///
    /// # Errors
    /// [`FRAME`].
    pub fn take(
        &mut self,
        input: &mut &[u8],
        most: impl Fn(u8) -> Option<usize>,
    ) -> Result<Option<(u8, Vec<u8>)>> {
        loop {
            let len = match *self.0 {
                [] => 1,
                [kind, ref rest @ ..] => {
                    let Some(most) = most(kind) else {
                        return Err(FRAME.broken(format!("a frame of kind {kind:#04x} is not due")));
                    };
                    match rest.first_chunk() {
                        Some(len) => {
                            let len = u32::from_le_bytes(*len) as usize;
                            if len > most {
                                return Err(FRAME.broken(format!(
                                    "a frame of kind {kind:#04x} says that it has {len} bytes, and may have {most}"
                                )));
                            }
                            HEAD_LEN + len
                        }
                        None => HEAD_LEN,
                    }
                }
            };
            if self.0.len() >= HEAD_LEN && self.0.len() == len {
                let said = self.0.split_off(HEAD_LEN);
                let kind = self.0.first().copied().unwrap_or_default();
                self.0.clear();
                return Ok(Some((kind, said)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(input.len().min(len - self.0.len()));
            self.0.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// Whether a frame has begun and not ended.
    pub fn is_cut(&self) -> bool {
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

/// What an open frame has, by bits.
const KNOWN: u8 = 1;
const PROVEN: u8 = 2;

impl ClientFrame {
    /// The most bytes of a frame of that kind on a control stream.
    pub fn most_of_control(kind: u8) -> Option<usize> {
        match kind {
            HELLO => Some(2 + TOKEN_MAX),
            OPEN => Some(4 + 1 + 32 + PATH_MAX),
            CLOSE => Some(4),
            PRIORITY => Some(12),
            _ => None,
        }
    }

    /// The most bytes of a frame of that kind on the stream of a request.
    pub fn most_of_request(kind: u8) -> Option<usize> {
        (kind == REQUEST_KIND).then_some(8 + 16 * RANGES_MAX)
    }

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ClientFrame::Hello { version, token } => {
                framed(HELLO, &[&version.to_le_bytes(), token.as_bytes()])
            }
            ClientFrame::Open { file, known, is_proven, path } => {
                let flags =
                    if known.is_some() { KNOWN } else { 0 } | if *is_proven { PROVEN } else { 0 };
                let id = known.as_ref().map_or(&[][..], |id| &id.0[..]);
                framed(OPEN, &[&file.to_le_bytes(), &[flags], id, path.as_bytes()])
            }
            ClientFrame::Close { file } => framed(CLOSE, &[&file.to_le_bytes()]),
            ClientFrame::Priority { stream, priority } => {
                framed(PRIORITY, &[&stream.to_le_bytes(), &priority.to_le_bytes()])
            }
            ClientFrame::Request { file, priority, ranges } => framed(
                REQUEST_KIND,
                &[&file.to_le_bytes(), &priority.to_le_bytes(), &spelled(ranges)],
            ),
        }
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`FRAME`].
    pub fn decode(kind: u8, said: &[u8]) -> Result<ClientFrame> {
        let mut said = FrameReader(said);
        let frame = match kind {
            HELLO => ClientFrame::Hello {
                version: u16::from_le_bytes(said.array()?),
                token: said.text(TOKEN_MAX)?,
            },
            OPEN => {
                let file = said.u32()?;
                let [flags] = said.array()?;
                if flags & !(KNOWN | PROVEN) != 0 {
                    return Err(
                        FRAME.broken(format!("{flags} is not a sum of {KNOWN} and {PROVEN}"))
                    );
                }
                ClientFrame::Open {
                    file,
                    known: match flags & KNOWN {
                        0 => None,
                        _ => Some(FileId(said.array()?)),
                    },
                    is_proven: flags & PROVEN != 0,
                    path: said.text(PATH_MAX)?,
                }
            }
            CLOSE => ClientFrame::Close { file: said.u32()? },
            PRIORITY => ClientFrame::Priority { stream: said.u64()?, priority: said.i32()? },
            REQUEST_KIND => ClientFrame::Request {
                file: said.u32()?,
                priority: said.i32()?,
                ranges: said.ranges()?,
            },
            _ => return Err(FRAME.broken(format!("a frame of kind {kind:#04x} is not due"))),
        };
        said.end().map(|()| frame)
    }
}

impl ServerFrame {
    /// The most bytes of a frame of that kind on a control stream.
    pub fn most_of_control(kind: u8) -> Option<usize> {
        match kind {
            WELCOME => Some(6),
            FILE => Some(4 + 32 + 8 + 16 * RANGES_MAX),
            REFUSED => Some(4 + 2 + REASON_MAX),
            _ => None,
        }
    }

    /// The most bytes of a frame of that kind on the stream of a request.
    pub fn most_of_answer(kind: u8) -> Option<usize> {
        match kind {
            REFUSED => Some(4 + 2 + REASON_MAX),
            ANSWER_KIND => Some(8),
            _ => None,
        }
    }

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ServerFrame::Welcome { version, requests } => {
                framed(WELCOME, &[&version.to_le_bytes(), &requests.to_le_bytes()])
            }
            ServerFrame::File { file, id, len, index } => {
                framed(FILE, &[&file.to_le_bytes(), &id.0, &len.to_le_bytes(), &spelled(index)])
            }
            ServerFrame::Refused { file, refusal } => {
                let text = &refusal.text[..refusal.text.floor_char_boundary(REASON_MAX)];
                let why = refusal.why.number().to_le_bytes();
                framed(REFUSED, &[&file.to_le_bytes(), &why, text.as_bytes()])
            }
            ServerFrame::Answer { len } => framed(ANSWER_KIND, &[&len.to_le_bytes()]),
        }
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`FRAME`].
    pub fn decode(kind: u8, said: &[u8]) -> Result<ServerFrame> {
        let mut said = FrameReader(said);
        let frame = match kind {
            WELCOME => ServerFrame::Welcome {
                version: u16::from_le_bytes(said.array()?),
                requests: said.u32()?,
            },
            FILE => ServerFrame::File {
                file: said.u32()?,
                id: FileId(said.array()?),
                len: said.u64()?,
                index: said.ranges()?,
            },
            REFUSED => ServerFrame::Refused {
                file: said.u32()?,
                refusal: {
                    let number = u64::from(u16::from_le_bytes(said.array()?));
                    let Some(why) = RefusalReason::from_number(number) else {
                        return Err(FRAME.broken(format!("{number} is not a reason to refuse")));
                    };
                    Refusal { why, text: said.text(REASON_MAX)? }
                },
            },
            ANSWER_KIND => ServerFrame::Answer { len: said.u64()? },
            _ => return Err(FRAME.broken(format!("a frame of kind {kind:#04x} is not due"))),
        };
        said.end().map(|()| frame)
    }
}

/// A frame of these parts.
fn framed(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(HEAD_LEN + len);
    out.push(kind);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

fn spelled(ranges: &[Range<u64>]) -> Vec<u8> {
    let numbers = ranges.iter().flat_map(|r| [r.start, r.end.saturating_sub(r.start)]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// What a frame says that was not looked at yet.
struct FrameReader<'a>(&'a [u8]);

impl FrameReader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((first, rest)) = self.0.split_first_chunk() else {
            let left = self.0.len();
            return Err(FRAME.broken(format!("{N} bytes are due in a frame that has {left} left")));
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

    /// The rest, as a text.
    fn text(&mut self, most: usize) -> Result<String> {
        let all = std::mem::take(&mut self.0);
        if all.len() > most {
            let len = all.len();
            return Err(FRAME.broken(format!("a text of {len} bytes may have {most}")));
        }
        match std::str::from_utf8(all) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(FRAME.broken("a text is not UTF-8")),
        }
    }

    /// The rest, as ranges.
    fn ranges(&mut self) -> Result<Vec<Range<u64>>> {
        let mut all = Vec::with_capacity(self.0.len().min(16 * RANGES_MAX) / 16);
        while !self.0.is_empty() {
            let (start, len) = (self.u64()?, self.u64()?);
            let Some(end) = start.checked_add(len) else {
                let message = format!("{len} bytes from {start} on end past 2^64");
                return Err(FRAME.broken(message));
            };
            if all.len() == RANGES_MAX {
                return Err(FRAME.broken(format!("there are more than {RANGES_MAX} ranges")));
            }
            all.push(start..end);
        }
        Ok(all)
    }

    fn end(&self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            n => Err(FRAME.broken(format!("a frame has {n} bytes too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> (Vec<ClientFrame>, Vec<ServerFrame>) {
        let id = FileId([7; 32]);
        let refusal = Refusal { why: RefusalReason::Busy, text: "later".into() };
        (
            vec![
                ClientFrame::Hello { version: 1, token: "t".into() },
                ClientFrame::Open { file: 3, known: None, is_proven: true, path: "a/ö.zt".into() },
                ClientFrame::Open {
                    file: 4,
                    known: Some(id),
                    is_proven: false,
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
    fn frames_come_back_however_they_are_cut() {
        let (asked, told) = frames();
        let bytes: Vec<u8> = asked.iter().flat_map(ClientFrame::encode).collect();
        for cut in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for mut part in bytes.chunks(cut) {
                while let Some((kind, said)) =
                    frames.take(&mut part, ClientFrame::most_of_control).unwrap()
                {
                    found.push(ClientFrame::decode(kind, &said).unwrap());
                }
            }
            assert_eq!(found, asked);
            assert!(!frames.is_cut());
        }
        for frame in told {
            let bytes = frame.encode();
            let (mut rest, mut frames) = (&bytes[..], Frames::default());
            let (kind, said) =
                frames.take(&mut rest, ServerFrame::most_of_control).unwrap().unwrap();
            assert_eq!(ServerFrame::decode(kind, &said).unwrap(), frame);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let take = |bytes: &[u8]| {
            let mut input = bytes;
            Frames::default().take(&mut input, ClientFrame::most_of_control)
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
        for (kind, said) in [
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
            let e = ClientFrame::decode(kind, said).unwrap_err();
            assert_eq!(e.code(), "net/frame", "{kind} {said:?}");
        }
        for (kind, said) in [(0x81, &[1, 0][..]), (0x83, &[0, 0, 0, 0, 99, 0]), (0x84, &[0; 7])] {
            assert_eq!(ServerFrame::decode(kind, said).unwrap_err().code(), "net/frame");
        }
    }
}
