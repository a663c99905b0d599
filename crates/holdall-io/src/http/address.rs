//! Public IP addresses: those that untrusted URLs may make this process connect to.

#[cfg(feature = "quic")]
use super::Hosts;
#[cfg(feature = "quic")]
use super::rules::PRIVATE_HOST;
#[cfg(feature = "quic")]
use holdall_core::Result;
#[cfg(feature = "quic")]
use std::net::SocketAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Resolves a host, and returns the addresses that may be connected to.
///
/// # Errors
/// Returns [`PRIVATE_HOST`] if none of them is allowed; `net/failed` if the host is not found.
#[cfg(feature = "quic")]
pub(crate) fn resolve(host: &str, port: u16, hosts: Hosts) -> Result<Vec<SocketAddr>> {
    use std::net::ToSocketAddrs as _;
    let failed = &holdall_net::rules::FAILED;
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|e| failed.broken(format!("the host {host} is not found: {e}")))?;
    let all: Vec<SocketAddr> = found.collect();
    let is_allowed = |a: &SocketAddr| hosts == Hosts::Any || is_public(a.ip());
    let allowed: Vec<SocketAddr> = all.iter().copied().filter(is_allowed).collect();
    match (allowed.is_empty(), all.first()) {
        (true, Some(refused)) => Err(PRIVATE_HOST.broken(format!(
            "the host {host} has the address {}, which is not public",
            refused.ip()
        ))),
        _ => Ok(allowed),
    }
}

/// Returns `true` if the address belongs to the public internet. Not public are the machine itself, private networks,
/// unassigned ranges, and notations that embed such an address in another.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let number = u32::from(address);
    let inside = |(net, bits): &(Ipv4Addr, u32)| {
        let mask = u32::MAX << (32 - bits);
        number & mask == u32::from(*net) & mask
    };
    !NOT_PUBLIC_V4.iter().any(inside)
}

/// Networks with their prefix lengths, from the IANA registries of special-purpose addresses.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // "this network", unspecified
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // behind a carrier's translation
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local; metadata of cloud machines
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // measurements
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    match s {
        // Translated IPv4 (NAT64): as public as the embedded address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // All other public addresses are in 2000::/3. That excludes loopback, unspecified, unique local, link-local,
        // site-local and multicast addresses, and embedded IPv4 addresses (`::ffff:0:0/96`, `::/96`).
        _ if s[0] & 0xe000 != 0x2000 => false,
        // Protocol assignments (Teredo and others), documentation, 6to4 with an embedded IPv4 address,
        // documentation again.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x2002, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn the_public_internet_is_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::200e",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::8.8.8.8",
            "64:ff9b::10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }
}
