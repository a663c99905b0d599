//! The protocol over QUIC, with quinn.
//!
//! The API is blocking: quinn and its sockets run on two threads of their own, and callers park their thread, which may
//! belong to any runtime.

mod address;
mod connection;
mod identity;
mod pieces;
mod priorities;
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

/// Maximum length of a packet in bytes, if the network path allows it. On loopback and with jumbo frames, sending a
/// quarter as many packets takes half the processor time. quinn passes ten packets to the system at once, which can
/// take 65,507 bytes.
const PACKET: u16 = 6_500;
/// The initial congestion window in bytes: quinn's default of ten packets, and one large packet that probes the path.
/// Without room for the probe, a first response would have to wait for another round trip.
const AT_FIRST: u64 = 12_000 + PACKET as u64;

/// Size of the socket's receive buffer in bytes. Packets that arrive while it is full are lost, which slows the sender
/// down: with Linux' default, one packet in 250 is lost on loopback. Linux grants at most twice `net.core.rmem_max`.
const BUFFER: usize = 4 << 20;

/// Returns the transport settings that both sides use: bidirectional streams only, and packets as large as the path
/// allows.
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

/// Creates a socket for packets of this size. Must be called inside a tokio runtime.
fn endpoint(at: SocketAddr, serves: Option<ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(PACKET).map_err(io::Error::other)?;
    let socket = UdpSocket::bind(at)?;
    // An optimisation: the socket works without it.
    let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    Endpoint::new(config, serves, socket, Arc::new(TokioRuntime))
}

/// Returns a reason as QUIC's error code.
fn number(why: RefusalReason) -> VarInt {
    VarInt::from_u32(u32::from(why.number()))
}
