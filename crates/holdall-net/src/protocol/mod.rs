//! The protocol between server and client, without I/O and without a clock.
//!
//! The first stream that a client opens is the *control* stream. On it, the client says hello, opens files and changes
//! priorities; the server answers with each file's id, its length, and the bytes of its index as they are in the file.
//! Every other stream is one request for ranges of one file; the response is their bytes, one range after the other.
//!
//! [`Server`] and [`Client`] are the two ends of a control stream, [`ResponseStream`] and [`PendingResponse`] those of
//! a request. Received bytes are passed in, cut anywhere; messages, actions and frames to send come out.

mod client;
mod frame;
mod intake;
mod server;
mod tree;

#[cfg(feature = "quic")]
pub(crate) use client::ended;
pub use client::{Client, PendingResponse, ServerMessage};
pub use frame::{
    ClientFrame, FileId, FrameDecoder, HEAD_LEN, INDEX_MAX, PATH_MAX, RANGES_MAX, Refusal,
    RefusalReason, ServerFrame, VERSION,
};
pub use intake::Piece;
pub use server::{PendingRequest, Request, ResponseStream, Server, ServerAction};
pub use tree::{GROUP, Prover, Reading, Root, Step, Tree, proven_len};

/// The protocol's name in the TLS handshake (ALPN).
pub const PROTOCOL: &[u8] = b"holdall/1";

/// Returns the total length of the ranges in bytes; `None` if the sum overflows, or a range ends before it starts.
pub fn total(ranges: &[std::ops::Range<u64>]) -> Option<u64> {
    ranges.iter().try_fold(0u64, |sum, r| sum.checked_add(r.end.checked_sub(r.start)?))
}
