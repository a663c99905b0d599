//! Frames: what goes over the wire between this program and a runner. Section 2 of `docs/spec/runner.md`.
//!
//! ```text
//! 0    1       kind
//! 1    3       zero
//! 4    4       number of the request, u32
//! 8    4       length of the header, u32
//! 12   4       length of the data, u32
//! 16   header  a JSON object
//!      data    bytes that the header speaks of
//! ```
//! Numbers are little-endian.

use crate::rules::{FRAME, FRAME_LIMIT};
use holdall::Result;
use serde_json::Value as Json;

/// Bytes before the header.
pub const PREFIX_LEN: usize = 16;
/// The most bytes of a frame's header.
pub const HEADER_MAX: u32 = 64 << 20;
/// The most bytes of a frame's data.
pub const DATA_MAX: u32 = 64 << 20;
/// The version of the protocol that this program speaks.
pub const PROTOCOL: u64 = 1;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// To the runner, first: versions of the protocol that are offered, and the folder for shared memory.
    Hello,
    /// From the runner: the version it chose, and what it is.
    Ready,
    /// To the runner: the folder of a model, and its options.
    Load,
    /// From the runner: the model is loaded.
    Loaded,
    /// To the runner: inputs.
    Call,
    /// From the runner: outputs. More may come.
    Item,
    /// From the runner: the call is over.
    Done,
    /// From the runner: the request failed.
    Fail,
    /// To the runner: end.
    Bye,
}

impl Kind {
    /// All of them, in the order of their numbers, which count from 1.
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

    /// Its number.
    pub fn number(self) -> u8 {
        1 + Kind::ALL.iter().position(|k| *k == self).unwrap_or(0) as u8
    }

    /// The kind of that number.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// The request that it is, or answers.
    pub request: u32,
    /// A JSON object.
    pub header: Json,
    /// Bytes that the header speaks of.
    pub data: Vec<u8>,
}

impl Frame {
    /// A frame without data.
    pub fn new(kind: Kind, request: u32, header: Json) -> Frame {
        Frame { kind, request, header, data: Vec::new() }
    }

    /// The same with data.
    pub fn with_data(mut self, data: Vec<u8>) -> Frame {
        self.data = data;
        self
    }

    /// A text in the header; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.header.get(name).and_then(Json::as_str).unwrap_or_default()
    }

    /// The bytes of the frame.
    ///
    /// # Errors
    /// [`FRAME_LIMIT`]
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
        _ => Err(FRAME_LIMIT.broken(format!("{what} of {len} bytes, at most {max}"))),
    }
}

/// The first bytes of a frame, read: what follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefix {
    /// What the frame is for.
    pub kind: Kind,
    /// The request that it is, or answers.
    pub request: u32,
    /// Bytes of the header, at most [`HEADER_MAX`].
    pub header_len: usize,
    /// Bytes of the data, at most [`DATA_MAX`].
    pub data_len: usize,
}

impl Prefix {
    /// Reads the first bytes of a frame.
    ///
    /// # Errors
    /// [`FRAME`], [`FRAME_LIMIT`].
    pub fn decode(bytes: &[u8; PREFIX_LEN]) -> Result<Prefix> {
        let (words, _) = bytes.as_chunks::<4>();
        let [first, rest @ ..] = words else { return Err(FRAME.broken("a frame of no bytes")) };
        let [kind, 0, 0, 0] = *first else {
            return Err(FRAME.broken(format!("a frame starts with `{}`", first.escape_ascii())));
        };
        let Some(kind) = Kind::from_number(kind) else {
            return Err(FRAME.broken(format!("a frame of kind {kind}, there are 1 to 9")));
        };
        let number = |at: usize| rest.get(at).map_or(0, |b| u32::from_le_bytes(*b));
        let (header, data) = (number(1), number(2));
        let header_len = length(header as usize, HEADER_MAX, "header")? as usize;
        let data_len = length(data as usize, DATA_MAX, "data")? as usize;
        Ok(Prefix { kind, request: number(0), header_len, data_len })
    }

    /// The frame, from the bytes of its header and its data.
    ///
    /// # Errors
    /// [`FRAME`]
    pub fn frame(&self, header: &[u8], data: Vec<u8>) -> Result<Frame> {
        let header: Json = serde_json::from_slice(header)
            .map_err(|e| FRAME.broken("the header of a frame is not JSON").because(e))?;
        if !header.is_object() {
            return Err(FRAME.broken("the header of a frame is not a JSON object"));
        }
        Ok(Frame { kind: self.kind, request: self.request, header, data })
    }
}
