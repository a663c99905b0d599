//! URLs and header values, as in links and responses: a URL that is read is printed without secrets, does not lead to
//! other hosts, and is read back unchanged.

use holdall::http::{ContentRange, Url, retry_after};

/// Panics if the property does not hold. The lines are a URL, the target of a redirect from it, and values of
/// `Content-Range` and `Retry-After`.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (address, location, range, pause) = (line(), line(), line(), line());
    if let Some(url) = read(address) {
        match url.join(location) {
            Ok(to) => {
                sound(&to);
                let same = (to.host(), to.is_secure()) == (url.host(), url.is_secure());
                let own = location.contains('@');
                assert!(same || own || !to.has_credentials(), "credentials go from {url} to {to}");
            }
            Err(e) => refused(&e),
        }
    }
    // Every text may be a URL.
    read(location);
    if let Some(found) = ContentRange::parse(range) {
        let total = found.total.map_or("*".to_owned(), |total| total.to_string());
        let bytes = match found.bytes {
            Some((start, end)) => {
                assert!(start < end && found.total.is_none_or(|total| end <= total), "{found:?}");
                format!("{start}-{}", end - 1)
            }
            None => "*".to_owned(),
        };
        assert_eq!(ContentRange::parse(&format!("bytes {bytes}/{total}")), Some(found));
    }
    if let Some(pause) = retry_after(pause) {
        assert_eq!(retry_after(&pause.as_secs().to_string()), Some(pause));
    }
}

/// Parses the URL, if it is valid.
fn read(text: &str) -> Option<Url> {
    match Url::parse(text) {
        Ok(url) => {
            sound(&url);
            Some(url)
        }
        Err(e) => {
            refused(&e);
            None
        }
    }
}

/// Checks the properties of a URL.
fn sound(url: &Url) {
    let host = url.host();
    assert!(!host.is_empty() && host.is_ascii() && host.to_lowercase() == host, "{host:?}");
    assert!(!host.contains(['/', '?', '#', '@', '\\', ' ']), "{host:?}");
    let shown = url.to_string();
    assert!(shown.starts_with(if url.is_secure() { "https://" } else { "http://" }), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control() || c == ' '), "{shown:?}");
    // It has no query, and no user or password before its host.
    let (_, rest) = shown.split_once("://").expect("it has a scheme");
    assert!(rest.starts_with(host), "{shown}");
    assert!(shown.split_once('?').is_none_or(|(_, query)| query == "…"), "{shown}");
    let back = Url::parse(&shown).expect("it was printed");
    assert_eq!((back.host(), back.is_secure()), (host, url.is_secure()));
    assert!(!back.has_credentials());
}

fn refused(e: &holdall::Error) {
    assert!(matches!(e.code(), "http/url" | "http/scheme"), "{e}");
}

/// Returns a file of lines unchanged.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    vec![file.to_vec()]
}
