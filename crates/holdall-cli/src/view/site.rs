//! What `view` serves: the page, and the files that were named, by ranges.
//!
//! Everything is below a token that nobody can guess, and the server is asked under an address of this computer alone: a page
//! of another site, or another name that leads here, gets nothing.

use holdall::serve::http::encoded;
use holdall::serve::rules::NO_FILE;
use holdall::serve::{Entry, FileCatalog, FileId, ServedFile, Tokens, file};
use holdall::{Bytes, Result};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of the page, and what they are.
pub(super) const PAGE: [(&str, &str); 4] = [
    ("open.html", "text/html; charset=utf-8"),
    ("viewer.css", "text/css; charset=utf-8"),
    ("viewer.js", "text/javascript; charset=utf-8"),
    ("core.js", "text/javascript; charset=utf-8"),
];

/// What browsers are told with each answer. The page may ask this server alone.
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

/// The page and the files, as `TOKEN/open.html` and `TOKEN/0/NAME`. They are listed to nobody.
pub(super) struct Site {
    token: String,
    tokens: Tokens,
    page: PathBuf,
    shown: Vec<Shown>,
}

/// A file that is shown, and those that belong to it.
pub(super) struct Shown {
    /// Its name.
    entry: String,
    /// Where each is, by its path from the folder of the first.
    files: BTreeMap<String, PathBuf>,
}

impl Shown {
    /// The file at a path, and others of the same model.
    pub(super) fn new(entry: &Path, others: &[PathBuf]) -> Shown {
        let folder = entry.parent().unwrap_or(Path::new(""));
        let name = |path: &Path| {
            let parts = path.strip_prefix(folder).ok()?.components();
            let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
            Some((parts.join("/"), path.to_owned()))
        };
        let files = others.iter().map(PathBuf::as_path).chain([entry]).filter_map(name).collect();
        let entry = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Shown { entry, files }
    }
}

impl Site {
    pub(super) fn new(page: &Path, shown: Vec<Shown>) -> Result<Site> {
        let token = token();
        let tokens = Tokens::new(vec![token.clone()])?;
        Ok(Site { token, tokens, page: page.to_owned(), shown })
    }

    /// Where the page shows the files, on a server at that address.
    pub(super) fn address(&self, at: SocketAddr) -> String {
        let token = &self.token;
        let mut out = format!("http://{at}/{token}/open.html#");
        for (number, Shown { entry, .. }) in self.shown.iter().enumerate() {
            let key = if number == 0 { "url" } else { "&with" };
            // Behind `#` it is escaped once more.
            let name = encoded(entry).replace('%', "%25");
            out.push_str(&format!("{key}=/{token}/{number}/{name}"));
        }
        out
    }
}

impl FileCatalog for Site {
    fn open(&self, name: &str) -> Result<Arc<dyn ServedFile>> {
        let none = || NO_FILE.broken("nothing of that name is shown");
        let below = name.split_once('/').filter(|(token, _)| self.tokens.admit(token));
        let (_, path) = below.ok_or_else(none)?;
        if let Some((own, kind)) = PAGE.into_iter().find(|(own, _)| *own == path) {
            return Ok(Arc::new(OfPage { file: file(self.page.join(own))?, kind }));
        }
        let (number, path) = path.split_once('/').ok_or_else(none)?;
        let shown = number.parse().ok().and_then(|number: usize| self.shown.get(number));
        file(shown.and_then(|shown| shown.files.get(path)).ok_or_else(none)?)
    }

    fn list(&self) -> Result<Vec<Entry>> {
        Err(NO_FILE.broken("what is shown is not listed"))
    }
}

/// A file of the page.
struct OfPage {
    file: Arc<dyn ServedFile>,
    kind: &'static str,
}

impl ServedFile for OfPage {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn id(&self) -> FileId {
        self.file.id()
    }

    fn index(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.file.read(range)
    }

    fn kind(&self) -> &'static str {
        self.kind
    }
}

/// 128 bits that nobody can guess: hashes under a secret that the system gave.
fn token() -> String {
    let secret = RandomState::new();
    format!("{:016x}{:016x}", secret.hash_one(1), secret.hash_one(2))
}
