//! The content that `view` serves: the page, and ranges of the named files.
//!
//! All paths begin with a token that cannot be guessed, and requests must be for an address of this computer: pages of
//! other sites, and other host names that resolve to this computer, have no access.

use super::page::Page;
use holdall::Result;
use holdall::serve::http::percent_encoded;
use holdall::serve::rules::NO_FILE;
use holdall::serve::{Entry, FileCatalog, ServedFile, Tokens, file};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Headers of every response. The page may send requests only to this server.
pub(super) const HEADERS: [(&str, &str); 4] = [
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'; img-src blob:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
];

/// The page and the files, as `TOKEN/open.html` and `TOKEN/0/NAME`. They cannot be listed.
pub(super) struct Site {
    token: String,
    tokens: Tokens,
    page: Page,
    shown: Vec<ViewedModel>,
}

/// A file to show, with the other files of its model.
pub(super) struct ViewedModel {
    /// The file's name.
    entry: String,
    /// The path of each file, by its path relative to the folder of the shown file.
    files: BTreeMap<String, PathBuf>,
}

impl ViewedModel {
    /// Creates an entry for the file at a path, and for others of the same model.
    pub(super) fn new(entry: &Path, others: &[PathBuf]) -> ViewedModel {
        let folder = entry.parent().unwrap_or(Path::new(""));
        let name = |path: &Path| {
            let parts = path.strip_prefix(folder).ok()?.components();
            let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
            Some((parts.join("/"), path.to_owned()))
        };
        let files = others.iter().map(PathBuf::as_path).chain([entry]).filter_map(name).collect();
        let entry = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ViewedModel { entry, files }
    }
}

impl Site {
    pub(super) fn new(page: Page, shown: Vec<ViewedModel>) -> Result<Site> {
        let token = token();
        let tokens = Tokens::new(vec![token.clone()])?;
        Ok(Site { token, tokens, page, shown })
    }

    /// Returns the address of the page that shows the files, on a server at `at`.
    pub(super) fn address(&self, at: SocketAddr) -> String {
        let token = &self.token;
        let mut out = format!("http://{at}/{token}/open.html#");
        for (number, ViewedModel { entry, .. }) in self.shown.iter().enumerate() {
            let key = if number == 0 { "url" } else { "&with" };
            // Escaped a second time, because it is in the fragment.
            let name = percent_encoded(entry).replace('%', "%25");
            out.push_str(&format!("{key}=/{token}/{number}/{name}"));
        }
        out
    }
}

impl FileCatalog for Site {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        let none = || NO_FILE.broken("no file of this name is shown");
        let below = name.split_once('/').filter(|(token, _)| self.tokens.admit(token));
        let (_, path) = below.ok_or_else(none)?;
        if let Some(file) = self.page.file(path) {
            return Ok(file);
        }
        let (number, path) = path.split_once('/').ok_or_else(none)?;
        let shown = number.parse().ok().and_then(|number: usize| self.shown.get(number));
        file(shown.and_then(|shown| shown.files.get(path)).ok_or_else(none)?)
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Err(NO_FILE.broken("listing is disabled"))
    }
}

/// Returns 128 unpredictable bits: hashes under a secret from the operating system.
fn token() -> String {
    let secret = RandomState::new();
    format!("{:016x}{:016x}", secret.hash_one(1), secret.hash_one(2))
}
