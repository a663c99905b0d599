//! Files that packages link to.

pub(crate) mod fetch;
pub(crate) mod shrink;

use crate::output::json::push_string;
use crate::session::Session;
use holdall::carton::Package;
use holdall::carton::links::{LinkFetcher, Linked, Store, hex};
use std::sync::Arc;

/// What fetches linked files, as the user wants it.
pub(crate) fn fetcher(session: &Session) -> holdall::Result<LinkFetcher> {
    let store = Store::standard()?;
    let fetcher = if session.global.offline {
        LinkFetcher::offline(store)
    } else {
        LinkFetcher::new(store, &crate::input::policy(session))
    };
    Ok(fetcher.with_limits(session.global.limits()))
}

/// A package that gets what it links to.
pub(crate) fn linked(session: &Session, package: Package) -> holdall::Result<Package> {
    if package.links().urls.is_empty() {
        return Ok(package);
    }
    Ok(package.with_fetcher(Arc::new(fetcher(session)?)))
}

/// Appends linked files as an array.
fn push_linked(all: &[Linked], out: &mut String) {
    out.push('[');
    for (at, file) in all.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"path\":" } else { "{\"path\":" });
        push_string(&file.path, out);
        out.push_str(",\"len\":");
        out.push_str(&file.len.map_or("null".to_owned(), |len| len.to_string()));
        out.push_str(&format!(",\"sha256\":\"{}\",\"urls\":[", hex(&file.sha256)));
        for (at, url) in file.urls.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            push_string(url, out);
        }
        out.push_str("]}");
    }
    out.push(']');
}
