//! `LINKS`: addresses of files that are not in the package.

use crate::LINKS_NAME;
use crate::fields::{self, Fields};
use crate::manifest::hash_of;
use crate::rules::*;
use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;

/// The contents of `LINKS`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// SHA-256 of a file, and the addresses from which it can be fetched, in the file's order.
    pub urls: Vec<([u8; 32], Vec<String>)>,
}

impl Links {
    /// Parses the text of `LINKS`. Addresses are not checked here, but when they are fetched.
    ///
    /// # Errors
    /// Returns [`LINKS_VERSION`], [`LINKS`], [`MISSING_FIELD`], [`FIELD`], and the rules of TOML.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Links> {
        let table = fields::parse(bytes, LINKS_NAME, limits)?;
        let top = Fields::new(&table, LINKS_NAME);
        let version = top.required_count("version")?;
        if version != 1 {
            return Err(top.broken(&LINKS_VERSION, format!("`version` is {version}")));
        }
        let mut links = Links::default();
        let urls = top.required_table("urls")?;
        for key in urls.table.keys() {
            let sha256 = hash_of(key)
                .ok_or_else(|| urls.broken(&LINKS, format!("`{}` is not a hash", key.escaped())))?;
            let list = urls.texts(key)?.filter(|list| !list.is_empty());
            let list =
                list.ok_or_else(|| urls.broken(&LINKS, format!("`{key}` has no address")))?;
            links.urls.push((sha256, list));
        }
        Ok(links)
    }

    /// Returns the hashes that have an address.
    pub fn hashes(&self) -> HashSet<[u8; 32]> {
        self.urls.iter().map(|(sha256, _)| *sha256).collect()
    }
}
