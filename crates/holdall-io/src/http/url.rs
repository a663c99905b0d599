//! Web addresses.

use super::rules::{SCHEME, URL};
use holdall_core::{Error, Result};
use holdall_json::hex_digit;
use std::fmt;

/// A web address: `https://HOST:PORT/PATH?QUERY`.
///
/// Displaying one omits parts that may be secret: the user name and password, and the query, in which signed links have
/// their signature.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    /// The text before the `@`, percent-encoded.
    credentials: Option<String>,
    /// The host, in lowercase. An IPv6 address has brackets.
    host: String,
    port: u16,
    /// The path and query, which begin with a slash.
    target: String,
}

impl Url {
    /// Parses an address. Drops the fragment (`#…`), and percent-encodes characters that are not allowed in a URL, such
    /// as spaces.
    ///
    /// # Errors
    /// Returns [`URL`] if the text is not a URL; [`SCHEME`] if its scheme is neither http nor https.
    pub fn parse(text: &str) -> Result<Url> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(URL.broken("the address does not start with a scheme, such as `https:`"));
        };
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            other => {
                let shown: String = other.chars().take(20).collect();
                let shown = shown.escape_debug();
                return Err(SCHEME.broken(format!("the scheme is `{shown}`")));
            }
        };
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(URL.broken("the scheme is not followed by `//`"));
        };
        if rest.contains('\\') {
            return Err(URL.broken("the address contains a backslash"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        let (host, port) = split_port(host)?;
        check_host(host)?;
        let target = encoded(target.split('#').next().unwrap_or_default())?;
        let target = if target.starts_with('/') { target } else { format!("/{target}") };
        Ok(Url {
            secure,
            credentials: credentials.map(str::to_owned),
            host: host.to_ascii_lowercase(),
            port: port.unwrap_or(if secure { 443 } else { 80 }),
            target,
        })
    }

    /// Returns `true` if the scheme is https.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns the host: a name or an IP address; an IPv6 address has brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns `true` if the address contains a user name or password.
    pub fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// Returns the target of a redirect from this address to `location`. The credentials are kept only if the target
    /// has the same scheme, host and port.
    ///
    /// # Errors
    /// Returns the same errors as [`Url::parse`].
    pub fn join(&self, location: &str) -> Result<Url> {
        let has_scheme = location.split_once(':').is_some_and(|(scheme, _)| {
            !scheme.is_empty()
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        });
        if has_scheme || location.starts_with("//") {
            let own = if self.secure { "https:" } else { "http:" };
            let absolute =
                if has_scheme { location.to_owned() } else { format!("{own}{location}") };
            let mut url = Url::parse(&absolute)?;
            let same = (url.secure, &url.host, url.port) == (self.secure, &self.host, self.port);
            if same && url.credentials.is_none() {
                url.credentials.clone_from(&self.credentials);
            }
            return Ok(url);
        }
        if location.contains('\\') {
            return Err(URL.broken("the address contains a backslash"));
        }
        let location = encoded(location.split('#').next().unwrap_or_default())?;
        let path = self.target.split('?').next().unwrap_or_default();
        let target = if location.starts_with('/') {
            location
        } else if location.is_empty() {
            self.target.clone()
        } else if location.starts_with('?') {
            format!("{path}{location}")
        } else {
            let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
            format!("{folder}{location}")
        };
        Ok(Url { target: without_dots(&target), ..self.clone() })
    }

    /// Returns the address for the HTTP library: everything except the credentials.
    pub(crate) fn to_request(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}{}", self.host, self.shown_port(), self.target)
    }

    /// Returns the whole address, including credentials and query. It must never be displayed.
    pub fn secret_text(&self) -> String {
        format!("{} {}", self.to_request(), self.credentials.as_deref().unwrap_or_default())
    }

    /// Returns the value of the `Authorization` header for the credentials, or `None` without them.
    pub(super) fn authorization(&self) -> Option<String> {
        let credentials = self.credentials.as_deref()?;
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let mut plain = decoded(user);
        plain.push(b':');
        plain.extend(decoded(password));
        Some(format!("Basic {}", data_encoding::BASE64.encode(&plain)))
    }

    fn shown_port(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { String::new() } else { format!(":{}", self.port) }
    }
}

/// Access to parts of the address, for signing requests.
#[cfg(feature = "stores")]
impl Url {
    /// Returns host and port, as in the `Host` header.
    pub(crate) fn authority(&self) -> String {
        format!("{}{}", self.host, self.shown_port())
    }

    /// Returns the path, percent-encoded, which begins with a slash.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the query, without the question mark.
    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Returns path and query, percent-encoded.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Returns `true` if both addresses have the same scheme, host and port.
    pub(crate) fn has_same_origin(&self, other: &Url) -> bool {
        (self.secure, &self.host, self.port) == (other.secure, &other.host, other.port)
    }

    /// Returns the same address with another path and query, which must be percent-encoded.
    pub(crate) fn with_target(&self, target: impl Into<String>) -> Url {
        Url { target: target.into(), ..self.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let (path, query) = match self.target.split_once('?') {
            Some((path, _)) => (path, "?…"),
            None => (self.target.as_str(), ""),
        };
        write!(f, "{scheme}://{}{}{path}{query}", self.host, self.shown_port())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

/// Returns a text that should be a URL in a form that may be displayed, without parts that may be secret.
pub(crate) fn redacted(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => url.to_string(),
        Err(_) => {
            // The text before the last `@` may be a password, and no host can be recognised.
            let rest = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            rest.chars().take(100).collect::<String>().escape_debug().to_string()
        }
    }
}

/// Splits a text into host and port.
fn split_port(text: &str) -> Result<(&str, Option<u16>)> {
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text[after_bracket..].find(':').map(|at| after_bracket + at) else {
        return Ok((text, None));
    };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok((host, Some(port))),
        _ => Err(URL.broken("the port is not a number from 1 to 65535")),
    }
}

fn check_host(host: &str) -> Result<()> {
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').and_then(|a| a.parse::<std::net::Ipv6Addr>().ok());
        return match address {
            Some(_) => Ok(()),
            None => Err(URL.broken("the brackets do not hold an IPv6 address")),
        };
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() {
        return Err(URL.broken("the address has no host"));
    }
    if !host.chars().all(fine) || host.len() > 253 {
        let e: Error =
            URL.broken("the host has other characters than letters, digits, `.`, `-` and `_`");
        return Err(e.with_hint("write names in other scripts in their ASCII form, `xn--…`"));
    }
    Ok(())
}

/// Percent-encodes everything in a path and query that must be.
fn encoded(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            0..=0x1f | 0x7f => return Err(URL.broken("the address contains a control character")),
            b' ' | b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                out.push_str(&format!("%{byte:02X}"));
            }
            _ => out.push(char::from(byte)),
        }
    }
    Ok(out)
}

/// Decodes percent-encoded text to bytes. A `%` that is not followed by two hex digits remains as it is.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escape = match after {
            [high, low, after @ ..] if byte == b'%' => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        let (byte, after) = escape.unwrap_or((byte, after));
        out.push(byte);
        rest = after;
    }
    out
}

/// Resolves the segments `.` and `..` in the path of a target.
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut out: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            _ => out.push(segment),
        }
    }
    format!("/{}{query}", out.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let url = Url::parse("HTTPS://Host.Example:8443/a b/é?q=1#f").unwrap();
        assert_eq!(url.to_request(), "https://host.example:8443/a%20b/%C3%A9?q=1");
        assert_eq!(url.to_string(), "https://host.example:8443/a%20b/%C3%A9?…");
        let url = Url::parse("http://[::1]").unwrap();
        assert_eq!((url.to_request().as_str(), url.host()), ("http://[::1]/", "[::1]"));
        assert_eq!(Url::parse("https://h:443?x").unwrap().to_request(), "https://h/?x");
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (text, code) in [
            ("model.zt", "http/url"),
            ("https:host/x", "http/url"),
            ("https:///x", "http/url"),
            ("https://ho st/x", "http/url"),
            ("https://hôst/x", "http/url"),
            ("https://host:0/x", "http/url"),
            ("https://host:70000/x", "http/url"),
            ("https://host:+80/x", "http/url"),
            ("https://[::1/x", "http/url"),
            ("https://[host]/x", "http/url"),
            ("https://host\\@other/x", "http/url"),
            ("https://host/a\nb", "http/url"),
            ("file:///etc/passwd", "http/scheme"),
            ("ftp://host/x", "http/scheme"),
            ("gopher:x", "http/scheme"),
        ] {
            assert_eq!(Url::parse(text).unwrap_err().code(), code, "{text}");
        }
    }

    #[test]
    fn secrets_are_sent_and_not_shown() {
        let url = Url::parse("https://me:pa%3Ass@host/x?sig=abc").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://host/x?… Url(https://host/x?…)");
        assert_eq!(url.to_request(), "https://host/x?sig=abc");
        // "me:pa:ss"
        assert_eq!(url.authorization().unwrap(), "Basic bWU6cGE6c3M=");
        assert_eq!(redacted("https://me:secret@ho st/x?sig=abc"), "ho st/x");
    }

    #[test]
    fn only_two_digits_after_a_percent_sign_are_decoded() {
        for (text, bytes) in [
            ("a%2Fb%ffc", &b"a/b\xffc"[..]),
            ("%+1%-1% 1", b"%+1%-1% 1"),
            ("%4g%%41%4", b"%4g%A%4"),
            ("%\u{e9}", b"%\xc3\xa9"),
        ] {
            assert_eq!(decoded(text), bytes, "{text}");
        }
    }

    #[test]
    fn redirects_are_followed_from_where_they_stand() {
        let from = Url::parse("https://me:pw@host/a/b/c?q").unwrap();
        for (location, to) in [
            ("d", "https://host/a/b/d"),
            ("../d?x", "https://host/a/d?x"),
            ("../../../../d", "https://host/d"),
            ("./", "https://host/a/b/"),
            ("..", "https://host/a/"),
            ("/d", "https://host/d"),
            ("?z", "https://host/a/b/c?z"),
            ("//other/d", "https://other/d"),
            ("http://other:81/d", "http://other:81/d"),
            ("", "https://host/a/b/c?q"),
        ] {
            assert_eq!(from.join(location).unwrap().to_request(), to, "{location}");
        }
        assert!(from.join("/d").unwrap().has_credentials());
        assert!(from.join("https://host/d").unwrap().has_credentials());
        for other in ["//other/d", "https://host:444/d", "http://host/d"] {
            assert!(!from.join(other).unwrap().has_credentials(), "{other}");
        }
        assert_eq!(from.join("d\\e").unwrap_err().code(), "http/url");
        assert_eq!(from.join("file:///etc/passwd").unwrap_err().code(), "http/scheme");
    }
}
