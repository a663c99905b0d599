//! What drives the protocol: QUIC, by quinn.
//!
//! Callers wait; quinn and its sockets run on two threads of their own. A wait of ours parks the thread that asked,
//! so it may be one of anybody's runtime.

mod address;
mod identity;
mod line;
mod precedence;
mod remote;
mod server;
mod trust;

pub use address::Address;
pub use identity::Identity;
pub use remote::{Addresses, Patience, Remote, Urgency};
pub use server::Server;
pub use trust::Trust;

use crate::protocol::Why;
use quinn::VarInt;

/// A reason as QUIC has it.
fn number(why: Why) -> VarInt {
    VarInt::from_u32(u32::from(why.number()))
}
