//! Packages made byte by byte: sound ones, and some that break a rule each, found on opening them or on
//! loading their tensors.
#![allow(dead_code)] // Each user takes some of it.

pub(crate) mod accepts;
pub(crate) mod rejects;
#[path = "../../../holdall-core/tests/zip_files/sums.rs"]
pub(crate) mod sums;
#[path = "../../../holdall-core/tests/zip_files/zip.rs"]
pub(crate) mod zip;

use sums::{hex, sha256};
use zip::{Built, Entry, Zip};

/// A `carton.toml` with all that is required, and nothing else.
pub(crate) const MINIMAL: &str = "spec_version = 1\n\n[runner]\nrunner_name = \"noop\"\n\
     required_framework_version = \"=1.0.0\"\nrunner_compat_version = 1\n";

/// Files of a package, without `MANIFEST`: that is made of them.
#[derive(Clone)]
pub(crate) struct Package {
    pub(crate) entries: Vec<Entry>,
    /// In place of the one that fits.
    pub(crate) manifest: Option<Vec<u8>>,
    /// Rows of files that are not there.
    pub(crate) linked: Vec<(String, Vec<u8>)>,
    pub(crate) zip: Zip,
}

impl Package {
    /// One with this `carton.toml`.
    pub(crate) fn new(description: &str) -> Package {
        let mut zip = Package {
            entries: Vec::new(),
            manifest: None,
            linked: Vec::new(),
            zip: Zip::default(),
        };
        zip.add("carton.toml", description);
        zip
    }

    pub(crate) fn minimal() -> Package {
        Package::new(MINIMAL)
    }

    pub(crate) fn add(&mut self, path: &str, content: impl AsRef<[u8]>) -> &mut Entry {
        self.entries.push(Entry::new(path, content.as_ref()));
        self.entries.last_mut().expect("it was just added")
    }

    pub(crate) fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Package {
        self.add(path, content);
        self
    }

    /// A symbolic link, with the row that the content of its target has.
    pub(crate) fn link(&mut self, path: &str, target: &str, content: &[u8]) {
        let entry = self.add(path, target);
        entry.mode = 0o120_777;
        entry.listed = Some(content.to_vec());
    }

    /// A file that is only in `LINKS`.
    pub(crate) fn elsewhere(&mut self, path: &str, content: &[u8]) {
        self.linked.push((path.to_owned(), content.to_vec()));
    }

    /// The `MANIFEST` that fits.
    pub(crate) fn listing(&self) -> String {
        let mut rows: Vec<(Vec<u8>, String)> = Vec::new();
        let is_listed = |name: &[u8]| {
            !name.ends_with(b"/") && name != b"LINKS" && name != b"/LINKS" && name != b"/MANIFEST"
        };
        for entry in self.entries.iter().filter(|e| is_listed(&e.name)) {
            let content = entry.listed.as_ref().unwrap_or(&entry.content);
            rows.push((entry.name.clone(), hex(&sha256(content))));
        }
        for (path, content) in &self.linked {
            rows.push((path.clone().into_bytes(), hex(&sha256(content))));
        }
        rows.sort();
        let line = |(path, hash): &(Vec<u8>, String)| {
            format!("{}={hash}\n", String::from_utf8_lossy(path))
        };
        rows.iter().map(line).collect()
    }

    pub(crate) fn build(&self) -> Built {
        let mut zip = self.zip.clone();
        zip.entries.extend(self.entries.iter().cloned());
        let manifest = self.manifest.clone().unwrap_or_else(|| self.listing().into_bytes());
        zip.entries.push(Entry::new("MANIFEST", &manifest));
        zip.build()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.build().bytes
    }
}

/// Rows of `tensor_data/index.toml`.
pub(crate) fn tensor(name: &str, dtype: &str, shape: &str, file: &str) -> String {
    format!(
        "[[tensor]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = {shape}\nfile = \"{file}\"\n\
         inner = []\n\n"
    )
}

pub(crate) fn nested(name: &str, inner: &[&str]) -> String {
    format!("[[tensor]]\nname = \"{name}\"\ndtype = \"nested\"\ninner = {inner:?}\n\n")
}

/// Bytes without a pattern.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the files of the corpus that come from here: the path of each below `corpus/`, and its bytes.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("reject/carton/{name}.carton");
    let rejects = rejects::rejects().into_iter().map(|r| (path(&r.name), r.bytes));
    let path = |name: &str| format!("accept/carton/made-{name}.carton");
    let accepts = accepts::accepts().into_iter().map(|(name, bytes)| (path(name), bytes));
    rejects.chain(accepts).collect()
}
