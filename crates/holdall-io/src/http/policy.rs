//! The policy for requests: allowed hosts, schemes and redirects, and timeouts.

use super::Url;
use super::rules::{CERTIFICATES, DOWNGRADE, REDIRECT, REDIRECT_TARGET, SCHEME};
use holdall_core::error::Escape as _;
use holdall_core::{Remedy, Result};
use std::time::Duration;

/// The hosts that requests may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// Hosts with public addresses. Refused are loopback, private, link-local, shared (CGNAT), multicast, unspecified
    /// and reserved addresses, also if they are written as an IPv6 address with an embedded IPv4 address.
    #[default]
    Public,
    /// All hosts.
    Any,
}

/// The allowed schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schemes {
    /// Only https.
    #[default]
    Https,
    /// https and http. With http, anyone on the network path can read and change the data.
    HttpToo,
}

/// Timeouts of a request, and the number of tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The timeout for resolving a host, and for connecting to it. Default: 10 s.
    pub connect: Duration,
    /// The timeout for the next byte of a response. Default: 30 s.
    pub stall: Duration,
    /// The least average rate of a response in bytes per second, checked once it took longer than `stall`. Default:
    /// 1024.
    pub slowest: u64,
    /// The total number of tries for failures that may be temporary. Default: 4.
    pub tries: u32,
    /// The pause before the second try, doubled for each further one. `Retry-After` of the server takes precedence, up
    /// to `longest_pause`. Default: 250 ms.
    pub pause: Duration,
    /// The longest pause. Default: 20 s.
    pub longest_pause: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            slowest: 1024,
            tries: 4,
            pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(20),
        }
    }
}

/// The policy for requests: allowed hosts, schemes and redirects, and timeouts. The default is safe for untrusted URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) hosts: Hosts,
    pub(crate) schemes: Schemes,
    pub(crate) redirects: u32,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// Certificates of the authorities to trust (DER). If empty, those of Mozilla's list.
    pub(crate) authorities: Vec<Vec<u8>>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            hosts: Hosts::default(),
            schemes: Schemes::default(),
            redirects: 8,
            timeouts: Timeouts::default(),
            authorities: Vec::new(),
        }
    }
}

impl Policy {
    /// Returns the default policy: https to public hosts, at most 8 redirects, and the default [`Timeouts`].
    pub fn new() -> Policy {
        Policy::default()
    }

    /// Sets the allowed hosts.
    pub fn with_hosts(mut self, hosts: Hosts) -> Policy {
        self.hosts = hosts;
        self
    }

    /// Sets the allowed schemes.
    pub fn with_schemes(mut self, schemes: Schemes) -> Policy {
        self.schemes = schemes;
        self
    }

    /// Sets the greatest number of redirects of one request.
    pub fn with_redirects(mut self, redirects: u32) -> Policy {
        self.redirects = redirects;
        self
    }

    /// Sets the timeouts.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Policy {
        self.timeouts = timeouts;
        self
    }

    /// Trusts the authorities whose certificates are in `pem`, instead of those on Mozilla's list: for servers of
    /// organisations with their own certificate authority.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the PEM text contains no certificate, or an invalid one.
    pub fn with_certificates(mut self, pem: &[u8]) -> Result<Policy> {
        self.authorities.clear();
        for item in ureq::tls::parse_pem(pem) {
            match item {
                Ok(ureq::tls::PemItem::Certificate(one)) => {
                    self.authorities.push(one.der().to_vec());
                }
                Ok(_) => {}
                Err(e) => return Err(CERTIFICATES.broken("the PEM text is invalid").because(e)),
            }
        }
        if self.authorities.is_empty() {
            return Err(CERTIFICATES.broken("the PEM text contains no certificate"));
        }
        Ok(self)
    }

    /// Checks the scheme of a URL. Hosts are checked later, when their addresses are known.
    pub fn check(&self, url: &Url) -> Result<()> {
        if url.is_secure() || self.schemes == Schemes::HttpToo {
            return Ok(());
        }
        Err(SCHEME
            .broken("expected the scheme `https`, found `http`")
            .with_remedy(Remedy::AllowHttp))
    }

    /// Returns the target of redirect number `count` (from 1), from `from` to `location`, if the policy allows it.
    pub(crate) fn redirect(&self, from: &Url, location: &str, count: u32) -> Result<Url> {
        if count > self.redirects {
            let limit = self.redirects;
            return Err(REDIRECT.broken(format!("the server redirects more than {limit} times")));
        }
        // An invalid target is the server's fault, not the caller's, so the error has another rule.
        let to = from.join(location).map_err(|e| {
            let (from, to) = (from.to_string(), super::url::redacted(location));
            let (from, to) = (from.escaped(), to.escaped());
            e.with_rule(&REDIRECT_TARGET).within(format!("{from} redirects to `{to}`"))
        })?;
        if from.is_secure() && !to.is_secure() {
            return Err(DOWNGRADE.broken(format!(
                "{} redirects to {}",
                from.to_string().escaped(),
                to.to_string().escaped()
            )));
        }
        self.check(&to).map(|()| to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_certificates() {
        for text in ["", "nothing", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let e = Policy::new().with_certificates(text.as_bytes()).unwrap_err();
            assert_eq!(e.code(), "http/certificates", "{text}");
        }
    }

    #[test]
    fn only_https_unless_allowed_and_never_down_from_it() {
        let strict = Policy::new();
        let lenient = Policy::new().with_schemes(Schemes::HttpToo);
        let http = Url::parse("http://host/x").unwrap();
        let https = Url::parse("https://host/x").unwrap();
        assert_eq!(strict.check(&http).unwrap_err().code(), "http/scheme");
        assert!(strict.check(&https).is_ok() && lenient.check(&http).is_ok());
        for policy in [&strict, &lenient] {
            let e = policy.redirect(&https, "http://host/y", 1).unwrap_err();
            assert_eq!(e.code(), "http/downgrade");
            let e = policy.redirect(&https, "file:///etc/passwd", 1).unwrap_err();
            assert_eq!(e.code(), "http/redirect-target");
            let message = "https://host/x redirects to `file:///etc/passwd`: the scheme is `file`";
            assert_eq!(e.message(), message);
            let long = format!("http://[::bad/{}", "x".repeat(1000));
            let e = policy.redirect(&https, &long, 1).unwrap_err();
            assert_eq!(e.code(), "http/redirect-target");
            assert!(e.message().len() < 250, "{e}");
        }
        assert!(lenient.redirect(&http, "https://host/y", 8).is_ok());
        assert_eq!(lenient.redirect(&http, "/y", 9).unwrap_err().code(), "http/redirect");
    }
}
