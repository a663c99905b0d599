//! Frames: the messages between this program and a runner. Section 2 of `docs/spec/runner.md`.
//!
//! ```text
//! 0    1       kind
//! 1    3       zero
//! 4    4       request number, u32
//! 8    4       length of the header, u32
//! 12   4       length of the data, u32
//! 16   header  a JSON object
//!      data    bytes that the header describes
//! ```
//! Numbers are little-endian.

use crate::rules::{FRAME, FRAME_LIMIT};
use holdall::Result;
use serde_json::Value as Json;

/// Number of bytes before the header.
pub const PREFIX_LEN: usize = 16;
/// Maximum length of a frame's header, in bytes.
pub const HEADER_MAX: u32 = 64 << 20;
/// Maximum length of a frame's data, in bytes.
pub const DATA_MAX: u32 = 64 << 20;
/// The protocol version that this crate implements.
pub const PROTOCOL: u64 = 1;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// To the runner, first: the offered protocol versions and the folder for shared memory.
    Hello,
    /// From the runner: the chosen version, and the runner's name and version.
    Ready,
    /// To the runner: load a model from this folder, with these options.
    Load,
    /// From the runner: the model is loaded.
    Loaded,
    /// To the runner: run the model on these inputs.
    Call,
    /// From the runner: outputs. More items may follow.
    Item,
    /// From the runner: the call is complete.
    Done,
    /// From the runner: the request failed.
    Fail,
    /// To the runner: end the process.
    Bye,
}

impl Kind {
    /// All kinds, in the order of their numbers, which start at 1.
    pub const ALL: [Kind; 9] = [
        Kind::Hello,
        Kind::Ready,
        Kind::Load,
        Kind::Loaded,
        Kind::Call,
        Kind::Item,
        Kind::Done,
        Kind::Fail,
        Kind::Bye,
    ];

    /// Returns the kind's number.
    pub fn number(self) -> u8 {
        1 + Kind::ALL.iter().position(|k| *k == self).unwrap_or(0) as u8
    }

    /// Returns the kind with this number.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Frame {
    /// The kind.
    pub kind: Kind,
    /// The number of the request that this is, or that it answers.
    pub request: u32,
    /// The header, a JSON object.
    pub header: Json,
    /// The data that the header describes.
    pub data: Vec<u8>,
}

impl Frame {
    /// Creates a frame without data.
    pub fn new(kind: Kind, request: u32, header: Json) -> Frame {
        Frame { kind, request, header, data: Vec::new() }
    }

    /// Sets the data.
    pub fn with_data(mut self, data: Vec<u8>) -> Frame {
        self.data = data;
        self
    }

    /// Returns a string in the header; empty if the header lacks it.
    pub fn text(&self, name: &str) -> &str {
        self.header.get(name).and_then(Json::as_str).unwrap_or_default()
    }

    /// Encodes the frame.
    ///
    /// # Errors
    /// Returns [`FRAME_LIMIT`] if the header or the data is too long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let header = self.header.to_string();
        let header_len = length(header.len(), HEADER_MAX, "header")?;
        let data_len = length(self.data.len(), DATA_MAX, "data")?;
        let mut out = Vec::with_capacity(PREFIX_LEN + header.len() + self.data.len());
        out.extend_from_slice(&[self.kind.number(), 0, 0, 0]);
        for number in [self.request, header_len, data_len] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&self.data);
        Ok(out)
    }
}

fn length(len: usize, max: u32, what: &str) -> Result<u32> {
    match u32::try_from(len) {
        Ok(len) if len <= max => Ok(len),
        _ => Err(FRAME_LIMIT.broken(format!("the {what} has {len} bytes, the maximum is {max}"))),
    }
}

/// The decoded first bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefix {
    /// The frame's kind.
    pub kind: Kind,
    /// The number of the request that the frame is, or that it answers.
    pub request: u32,
    /// Length of the header in bytes, at most [`HEADER_MAX`].
    pub header_len: usize,
    /// Length of the data in bytes, at most [`DATA_MAX`].
    pub data_len: usize,
}

impl Prefix {
    /// Decodes the first bytes of a frame.
    ///
    /// # Errors
    /// Returns [`FRAME`] if they are not the start of a frame, [`FRAME_LIMIT`] if the frame is too long.
    pub fn decode(bytes: &[u8; PREFIX_LEN]) -> Result<Prefix> {
        let (words, _) = bytes.as_chunks::<4>();
        let [first, rest @ ..] = words else { return Err(FRAME.broken("a frame of no bytes")) };
        let [kind, 0, 0, 0] = *first else {
            return Err(FRAME.broken(format!(
                "unexpected bytes at the start of a frame: `{}`",
                first.escape_ascii()
            )));
        };
        let Some(kind) = Kind::from_number(kind) else {
            return Err(FRAME.broken(format!("a frame has kind {kind}, expected 1 to 9")));
        };
        let number = |at: usize| rest.get(at).map_or(0, |b| u32::from_le_bytes(*b));
        let (header, data) = (number(1), number(2));
        let header_len = length(header as usize, HEADER_MAX, "header")? as usize;
        let data_len = length(data as usize, DATA_MAX, "data")? as usize;
        Ok(Prefix { kind, request: number(0), header_len, data_len })
    }

    /// Decodes the header and returns the frame.
    ///
    /// # Errors
    /// Returns [`FRAME`] if the header is not a JSON object.
    pub fn frame(&self, header: &[u8], data: Vec<u8>) -> Result<Frame> {
        let header: Json = serde_json::from_slice(header)
            .map_err(|e| FRAME.broken("the header of a frame is not JSON").because(e))?;
        if !header.is_object() {
            return Err(FRAME.broken("the header of a frame is not a JSON object"));
        }
        Ok(Frame { kind: self.kind, request: self.request, header, data })
    }
}
