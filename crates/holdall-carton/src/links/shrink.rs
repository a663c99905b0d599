//! Replaces files of a package by links, and the reverse.

use super::rules::{ADDRESS, CANNOT_LINK};
use super::{LinkFetcher, hex};
use crate::{FileLocation, Links, PackReport, Package, PackageFile, Packer, Packing};
use holdall_core::Result;
use holdall_core::error::Escape as _;
use holdall_io::Work;
use holdall_io::http::{Policy, Url};
use holdall_io::package::read::reading;
use holdall_io::package::rules::NO_FILE;
use holdall_io::sink::{Durability, FileSink, Sink as _};
use holdall_json::percent_encoded;
use holdall_package::{CARTON_TOML, TENSOR_INDEX};
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Takes files out of a package and lists them in `LINKS` instead. The package's contents and its hash stay
/// the same.
#[derive(Debug, Clone)]
pub struct Shrink {
    package: Package,
    links: Links,
    policy: Policy,
}

/// A file that a package only links to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkedFile {
    /// The file's path in the package.
    pub path: String,
    /// Length in bytes, if the package had the file.
    pub len: Option<u64>,
    /// SHA-256 of the file, which names it in a store.
    pub sha256: [u8; 32],
    /// Addresses of the file.
    pub urls: Vec<String>,
}

impl Shrink {
    /// Creates a shrinker that takes nothing out yet. Addresses must be allowed by `policy`, except for the
    /// hosts, which are checked when a file is fetched.
    pub fn new(package: &Package, policy: &Policy) -> Shrink {
        let links = package.links().clone();
        Shrink { package: package.clone(), links, policy: policy.clone() }
    }

    /// Links to the file at `path`, and to all others with the same bytes. May be called again with another
    /// address, which is tried after the first.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the path is not in the package; a `Misuse` error if readers would refuse the address, or if the file
    /// must stay.
    pub fn with_link(self, path: &str, url: &str) -> Result<Shrink> {
        let Some(file) = self.package.file(path) else {
            let e = NO_FILE.broken(format!("there is no file `{}` in the package", path.escaped()));
            return Err(e.in_source(self.package.name()));
        };
        let sha256 = self.linkable(file)?;
        self.link(sha256, url)
    }

    /// Links to the files of the package for which `links` has addresses. Its other rows are ignored.
    ///
    /// # Errors
    /// Returns the same errors as [`Shrink::with_link`].
    pub fn with_links(mut self, links: &Links) -> Result<Shrink> {
        let package = self.package.clone();
        let by_hash: HashMap<[u8; 32], &PackageFile> =
            package.files().iter().rev().filter_map(|file| Some((file.sha256?, file))).collect();
        for (sha256, urls) in &links.urls {
            let Some(file) = by_hash.get(sha256).copied() else { continue };
            self.linkable(file)?;
            for url in urls {
                self = self.link(*sha256, url)?;
            }
        }
        Ok(self)
    }

    /// Links to the file at `path` by a template of addresses, in which `{sha256}` is replaced by its hash
    /// and `{path}` by its path in the package.
    ///
    /// # Errors
    /// Returns the same errors as [`Shrink::with_link`]; a `Misuse` error if the template contains neither.
    pub fn with_template(self, path: &str, template: &str) -> Result<Shrink> {
        if !template.contains("{sha256}") && !template.contains("{path}") {
            let e =
                "it has neither `{sha256}` nor `{path}` in it, so all files would have one address";
            return Err(ADDRESS.broken(e).in_source(redacted(template)));
        }
        let sha256 = self.package.file(path).and_then(|file| file.sha256).unwrap_or_default();
        // Replaced together: if the path were inserted first, a `{sha256}` in the path itself would be
        // replaced too.
        let url = template
            .split("{path}")
            .map(|part| part.replace("{sha256}", &hex(&sha256)))
            .collect::<Vec<_>>()
            .join(&percent_encoded(path));
        self.with_link(path, &url)
    }

    /// Returns the files that are worth taking out: not those that describe the package, and at least `least`
    /// bytes long, in the package's order.
    pub fn candidates(&self, least: u64) -> impl Iterator<Item = &PackageFile> {
        let fits = move |file: &&PackageFile| {
            file.location != FileLocation::Links
                && file.target.is_none()
                && file.len.is_some_and(|len| len >= least)
                && file.path != CARTON_TOML
                && file.path != TENSOR_INDEX
                && self.linkable(file).is_ok()
        };
        self.package.files().iter().filter(fits)
    }

    /// Returns the files that the package will only link to, one row for each path.
    pub fn linked(&self) -> Vec<LinkedFile> {
        let addresses = addresses(&self.links);
        let row = |file: &PackageFile| {
            let sha256 = file.sha256?;
            let (path, urls) = (file.path.clone(), addresses.get(&sha256)?.to_vec());
            Some(LinkedFile { path, len: file.len, sha256, urls })
        };
        self.package.files().iter().filter_map(row).collect()
    }

    /// Writes the taken-out files into a folder, which need not exist, each named by its SHA-256: ready to be
    /// uploaded to a server. Existing files are kept if their bytes match their name.
    ///
    /// # Errors
    /// Returns an `Io` error; an `Integrity` error if a file of the package does not match `MANIFEST`.
    pub fn save(&self, folder: impl AsRef<Path>, work: &Work) -> Result<()> {
        let folder = folder.as_ref();
        let failed = |e| holdall_io::error::io(e, "writing").in_source(folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let mut wanted = self.linked();
        wanted.retain(|linked| {
            self.package.file(&linked.path).is_some_and(|f| f.location != FileLocation::Links)
        });
        wanted.sort_by_key(|linked| linked.sha256);
        wanted.dedup_by_key(|linked| linked.sha256);
        work.begin(wanted.iter().filter_map(|linked| linked.len).sum());
        let mut piece = vec![0; 1 << 20];
        for linked in &wanted {
            let target = folder.join(hex(&linked.sha256));
            let mut from = self.package.reader(&linked.path)?;
            let mut sink = FileSink::create(&target, true, Durability::Disk)?;
            loop {
                let n = from.read(&mut piece).map_err(|e| {
                    let e = reading(e, &linked.path);
                    e.in_source(self.package.inside(&linked.path))
                })?;
                if n == 0 {
                    break;
                }
                sink.append(&piece[..n])?;
                work.advance(n as u64)?;
            }
            sink.finish()?;
        }
        Ok(())
    }

    /// Returns a packer for the package without the taken-out files. The other files are stored as before.
    pub fn packer(self) -> Packer {
        Packer::from_package(&self.package).with_links(self.links).with_packing(Packing::Kept)
    }

    fn link(mut self, sha256: [u8; 32], url: &str) -> Result<Shrink> {
        check(&self.policy, url).map_err(|e| e.in_source(redacted(url)))?;
        let urls = &mut self.links.urls;
        let at = urls.iter().position(|(other, _)| *other == sha256).unwrap_or_else(|| {
            urls.push((sha256, Vec::new()));
            urls.len() - 1
        });
        if !urls[at].1.iter().any(|known| known == url) {
            urls[at].1.push(url.to_owned());
        }
        Ok(self)
    }

    /// Returns the hash of a file that may be linked to.
    fn linkable(&self, file: &PackageFile) -> Result<[u8; 32]> {
        let refused = |what: &str| {
            let e = CANNOT_LINK.broken(format!("`{}` {what}", file.path.escaped()));
            Err(e.in_source(self.package.name()))
        };
        match file.sha256 {
            Some(sha256) => Ok(sha256),
            None => refused("is not listed in a `MANIFEST`"),
        }
    }
}

/// Returns the files of a package that are only linked to, with their addresses.
pub fn missing(package: &Package) -> Vec<LinkedFile> {
    let addresses = addresses(package.links());
    let row = |file: &PackageFile| {
        let sha256 = file.sha256.filter(|_| file.location == FileLocation::Links)?;
        let (path, urls) = (file.path.clone(), addresses.get(&sha256)?.to_vec());
        Some(LinkedFile { path, len: file.len, sha256, urls })
    };
    package.files().iter().filter_map(row).collect()
}

/// Returns the addresses of files by their hashes.
fn addresses(links: &Links) -> HashMap<[u8; 32], &[String]> {
    links.urls.iter().map(|(sha256, urls)| (*sha256, urls.as_slice())).collect()
}

/// Fetches all files that a package links to into the store of `fetcher`.
///
/// # Errors
/// Returns the same errors as [`LinkFetcher::fetch_all`].
pub fn fetch(package: &Package, fetcher: &LinkFetcher) -> Result<()> {
    let missing = missing(package);
    let wanted: Vec<_> =
        missing.iter().map(|l| (l.sha256, l.urls.as_slice(), package.max_len(&l.path))).collect();
    let inside = |sha256: &[u8; 32]| {
        let path = missing.iter().find(|l| l.sha256 == *sha256).map(|l| l.path.as_str());
        format!("{}!/{}", package.name(), path.unwrap_or_default())
    };
    fetcher.fetch_each(&wanted, |e, sha256| e.for_source(inside(sha256)))
}

/// Writes a package that contains all files that `package` links to, with the same model hash.
///
/// # Errors
/// Returns the same errors as [`fetch`] and [`Packer::write`].
pub fn embed_links(
    package: &Package,
    fetcher: &LinkFetcher,
    to: impl AsRef<Path>,
    overwrite: bool,
) -> Result<PackReport> {
    FileSink::check(to.as_ref(), overwrite)?;
    fetch(package, fetcher)?;
    let package = package.clone().with_fetcher(Arc::new(fetcher.clone()));
    let packer = Packer::from_package(&package).with_links(Links::default());
    packer.with_packing(Packing::Kept).write(to, overwrite)
}

/// Checks an address for `LINKS` against the policy.
fn check(policy: &Policy, text: &str) -> Result<()> {
    let url = Url::parse(text)?;
    policy.check(&url)?;
    if url.has_credentials() {
        let e = ADDRESS.broken("the address contains a user name or password, which every reader of the package would see");
        return Err(e);
    }
    if text.contains('{') || text.contains('}') {
        return Err(ADDRESS.broken("the address contains braces"));
    }
    Ok(())
}

fn redacted(url: &str) -> String {
    holdall_io::location::redacted(url.as_ref())
}
