//! What drives the protocol: QUIC, by quinn.
//!
//! Callers wait; quinn and its sockets run on two threads of their own. A wait of ours parks the thread that asked,
//! so it may be one of anybody's runtime.

mod address;
mod identity;
mod line;
mod pieces;
mod precedence;
mod remote;
mod server;
mod trust;

pub use address::Address;
pub use identity::Identity;
pub use remote::{AddressResolver, Priority, QuicTimeouts, Remote};
pub use server::Server;
pub use trust::Trust;

use crate::protocol::RefusalReason;
use quinn::congestion::CubicConfig;
use quinn::{
    Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// The most bytes of a packet. As large as the way takes them, on loopback and where frames are jumbo, a quarter as many take half of
/// the processor time. quinn hands ten to the system at once, which takes 65,507 bytes.
const PACKET: u16 = 6_500;
/// Bytes that go out before anything is known of the way: quinn's ten packets, and a large one that finds out whether it arrives, so
/// that this takes no room from a first answer, which would wait for another round trip.
const AT_FIRST: u64 = 12_000 + PACKET as u64;

/// Bytes that the system is asked to hold until they are read. What arrives beyond that is lost, which slows the sender down: with the buffer
/// that Linux gives by default, one packet in 250 is lost on loopback. It gives no more than twice `net.core.rmem_max`.
const BUFFER: usize = 4 << 20;

/// What both sides say of a connection: nothing but what clients ask for goes over it, in packets that grow as far as they arrive.
fn transport() -> TransportConfig {
    let mut packets = MtuDiscoveryConfig::default();
    packets.upper_bound(PACKET);
    let mut congestion = CubicConfig::default();
    congestion.initial_window(AT_FIRST);
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(congestion))
        .mtu_discovery_config(Some(packets))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    transport
}

/// A socket that takes such packets. Called inside of a runtime.
fn endpoint(at: SocketAddr, serves: Option<ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(PACKET).map_err(io::Error::other)?;
    let socket = UdpSocket::bind(at)?;
    // Without it everything works as well, only slower.
    let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    Endpoint::new(config, serves, socket, Arc::new(TokioRuntime))
}

/// A reason as QUIC has it.
fn number(why: RefusalReason) -> VarInt {
    VarInt::from_u32(u32::from(why.number()))
}
