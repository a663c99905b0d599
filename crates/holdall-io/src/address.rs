//! Addresses of files: which texts are addresses and not paths, and how addresses are printed.

use std::path::Path;

/// A file's name as it may be printed: of an address on the web without what may be secret in it.
pub fn shown(path: &Path) -> String {
    #[cfg(feature = "quic")]
    if let Some(Ok(address)) = is_url(path).map(holdall_net::quic::Address::parse) {
        return address.to_string();
    }
    match is_url(path) {
        Some(url) if crate::stores::is_address(url) => crate::stores::shown(url),
        #[cfg(feature = "http")]
        Some(url) => crate::http::shown(url),
        _ => path.display().to_string(),
    }
}

/// Whether an address is one of a file that another Holdall serves.
pub fn is_served(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("holdall"))
}

/// The text of `path` where it is an address rather than the name of a file: it begins with `http://`, `https://` or
/// `holdall://`, or with the scheme of an object store, in letters of any case; or with another scheme, where there is no such file.
pub fn is_url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let known = ["http", "https", "holdall"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
    // One letter is a drive.
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (known || crate::stores::is_scheme(scheme) || (is_scheme && !path.exists())).then_some(text)
}
