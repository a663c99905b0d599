//! Addresses of served files.

use crate::protocol::Root;
use crate::rules::ADDRESS;
use data_encoding::HEXLOWER_PERMISSIVE;
use holdall_core::{Error, Result};
use holdall_json::percent_decoded;
use std::fmt;

/// The address of a served file: `holdall://TOKEN@HOST:PORT/PATH#sha256=HEX&blake3=HEX`.
///
/// `Display` and `Debug` leave out the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// A host name or an IP address; an IPv6 address without brackets.
    pub host: String,
    /// The port. Default: 4433.
    pub port: u16,
    /// The file's name, percent-decoded.
    pub path: String,
    /// The access token; empty for no token.
    pub token: String,
    /// The expected SHA-256 of the server's certificate.
    pub pin: Option<[u8; 32]>,
    /// The expected BLAKE3 hash of the file.
    pub root: Option<Root>,
}

/// The default port.
const PORT: u16 = 4433;

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// Returns `net/address` if the text is not an address of a served file.
    pub fn parse(text: &str) -> Result<Address> {
        let wrong = |what: &'static str| ADDRESS.broken(what);
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("holdall") => rest,
            _ => return Err(wrong("it does not start with `holdall://`")),
        };
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let Some((authority, path)) = rest.split_once('/') else {
            return Err(wrong("the path is missing"));
        };
        let (token, host) = match authority.rsplit_once('@') {
            Some((token, host)) => (token, host),
            None => ("", authority),
        };
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => {
                (host, port.strip_prefix(':').or(Some(port).filter(|p| !p.is_empty())))
            }
            None => match host.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (host, None),
            },
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(wrong("the host is neither a name nor an IP address"));
        }
        let port = match port {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(wrong("the port is not a number from 1 to 65,535")),
            },
        };
        let (mut pin, mut root) = (None, None);
        for part in fragment.into_iter().flat_map(|fragment| fragment.split('&')) {
            let read = part.split_once('=').and_then(|(key, digits)| {
                let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
                Some((key, bytes.try_into().ok()?))
            });
            match read {
                Some(("sha256", hash)) if pin.is_none() => pin = Some(hash),
                Some(("blake3", hash)) if root.is_none() => root = Some(Root(hash)),
                _ => {
                    return Err(wrong(
                        "expected `sha256=` or `blake3=` (or both, separated by `&`) with 64 hexadecimal digits each after \
                         `#`",
                    ));
                }
            }
        }
        let path =
            percent_decoded(path).ok_or_else(|| wrong("the path is not percent-encoded UTF-8"))?;
        if path.is_empty() {
            return Err(wrong("the path is missing"));
        }
        Ok(Address {
            host: host.to_ascii_lowercase(),
            port,
            path,
            token: percent_decoded(token)
                .ok_or_else(|| wrong("the token is not percent-encoded UTF-8"))?,
            pin,
            root,
        })
    }

    /// Adds the address to an error.
    pub(crate) fn in_context(&self, e: Error) -> Error {
        e.for_source(self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "holdall://{open}{}{close}:{}/{}", self.host, self.port, self.path)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_displayed_without_the_token() {
        let pin = "ab".repeat(32);
        let address =
            Address::parse(&format!("holdall://s%40cret@Host:99/a%20b/m.zt#sha256={pin}")).unwrap();
        assert_eq!((&*address.host, address.port, &*address.path), ("host", 99, "a b/m.zt"));
        assert_eq!((&*address.token, address.pin), ("s@cret", Some([0xab; 32])));
        assert_eq!(address.to_string(), "holdall://host:99/a b/m.zt");
        assert_eq!(address.root, None);
        let both = Address::parse(&format!("holdall://h/m#blake3={pin}&sha256={pin}")).unwrap();
        assert_eq!((both.pin, both.root), (address.pin, Some(Root([0xab; 32]))));
        let address = Address::parse("HOLDALL://[::1]/m").unwrap();
        assert_eq!((&*address.host, address.port), ("::1", 4433));
        assert_eq!(Address::parse("holdall://[::1]:7/m").unwrap().port, 7);
    }

    #[test]
    fn invalid_addresses_are_refused() {
        let hash = "ab".repeat(32);
        for text in [
            "",
            "http://h/x",
            "holdall://h",
            "holdall://h/",
            "holdall:///x",
            "holdall://h:0/x",
            "holdall://h:99999/x",
            "holdall://[::1]7x/x",
            "holdall://h!/x",
            "holdall://h/x%zz",
            "holdall://h/x%4",
            "holdall://h/%ff",
            "holdall://h/x#",
            "holdall://h/x#sha256=ab",
            "holdall://h/x#md5=ab",
            "holdall://h/x#blake3=ab",
            &format!("holdall://h/x#blake3={hash}&blake3={hash}"),
            &format!("holdall://h/x#sha256={hash}&"),
        ] {
            assert_eq!(Address::parse(text).unwrap_err().code(), "net/address", "{text}");
        }
    }
}
