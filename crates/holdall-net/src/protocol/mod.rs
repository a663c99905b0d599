//! What both sides say, without I/O and without a clock.
//!
//! The first stream that a client opens is the *control* stream: it says hello, which files it wants, and what has become more
//! urgent; the server answers with each file's id, length, and the bytes of its index as they are in the file. Every
//! other stream is one request: ranges of one file; its answer has their bytes, one after the other.
//!
//! [`Server`] and [`Client`] are the two ends of a control stream, [`Answering`] and [`Arrival`] those of a request.
//! What the other side sends is pushed in as it comes, cut anywhere; what is to be done comes out.

mod client;
mod frame;
mod intake;
mod server;
mod tree;

#[cfg(feature = "quic")]
pub(crate) use client::ended;
pub use client::{Client, PendingResponse, ServerMessage};
pub use frame::{
    ClientFrame, FileId, Frames, HEAD_LEN, INDEX_MAX, PATH_MAX, RANGES_MAX, Refusal, RefusalReason,
    ServerFrame, VERSION,
};
pub use intake::Piece;
pub use server::{PendingRequest, Request, ResponseStream, Server, ServerAction};
pub use tree::{GROUP, Prover, Reading, Root, Step, Tree, proven_len};

/// What the two sides agree on when they connect (ALPN).
pub const PROTOCOL: &[u8] = b"holdall/1";

/// Bytes of all these ranges; `None` if the sum overflows, or a range ends before it starts.
pub fn total(ranges: &[std::ops::Range<u64>]) -> Option<u64> {
    ranges.iter().try_fold(0u64, |sum, r| sum.checked_add(r.end.checked_sub(r.start)?))
}
