//! Checking every byte of a package.
//!
//! Opening one checks what its texts say and how they fit together. What is left is in the bytes: hashes
//! and checksums, what is compressed, tensors of texts. Each stored byte is read once, files on all cores,
//! in memory that does not grow with them.

use super::Package;
use super::{FileLocation, PackageFile, TensorKind, ValueType};
use holdall_core::{Error, ErrorKind, Result, Warning};
use holdall_io::error::CANCELLED;
use holdall_io::{Strictness, Verdict};
use holdall_io::{Work, with_work};
use holdall_package::{LINKS_NAME, MANIFEST_NAME, unmet, warnings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Findings that are kept; more are counted.
const MAX_FINDINGS: usize = 1000;

/// What a caller chooses about verifying a package.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageVerifyOptions {
    work: Work,
    strictness: Strictness,
}

impl PackageVerifyOptions {
    /// One thread for each core, no progress, warnings are told.
    pub fn new() -> PackageVerifyOptions {
        PackageVerifyOptions::default()
    }

    /// Takes warnings for this: as what is told, or as findings.
    pub fn with_strictness(mut self, strictness: Strictness) -> PackageVerifyOptions {
        self.strictness = strictness;
        self
    }
}

with_work!(PackageVerifyOptions);

/// What verifying a package did, found, and could not do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageReport {
    /// Files of the package.
    pub files: u64,
    /// Those of them whose SHA-256 is the one in `MANIFEST`.
    pub hashed: u64,
    /// Stored bytes that were read.
    pub read_len: u64,
    /// Tensors whose files hold what their rows say.
    pub tensors: u64,
    /// What is wrong, in the order of the files: the first 1000.
    pub findings: Vec<Error>,
    /// How much is wrong in all.
    pub finding_count: u64,
    /// What is over a limit, and so was not checked, in the order of the files: the first 1000.
    pub over_limit: Vec<Error>,
    /// How much is over a limit in all.
    pub over_limit_count: u64,
    /// Files that are only linked to, and could not be fetched.
    pub linked: u64,
    /// The first of them.
    pub first_linked: Option<String>,
    /// Files without a hash: a folder without `MANIFEST` has only such.
    pub unhashed: u64,
    /// What is odd. Where that counts, it is among the findings too.
    pub warnings: Vec<Warning>,
}

impl PackageReport {
    /// What it comes to.
    pub fn verdict(&self) -> Verdict {
        if self.finding_count > 0 {
            Verdict::Bad
        } else if self.linked > 0 || self.over_limit_count > 0 {
            Verdict::Incomplete
        } else {
            Verdict::Sound
        }
    }
}

pub(super) fn verify(package: &Package, options: &PackageVerifyOptions) -> Result<PackageReport> {
    let mut report = PackageReport {
        files: package.files().len() as u64,
        warnings: package.warnings().to_vec(),
        ..PackageReport::default()
    };
    let has_file = |path: &str| package.file(path).is_some();
    report.warnings.extend(unmet(package.description(), package.has_model(), &has_file));
    // What a symbolic link leads to is checked where it is.
    let is_own_file = |f: &&PackageFile| f.target.is_none();
    let mut files: Vec<(usize, &PackageFile)> =
        package.files().iter().filter(is_own_file).enumerate().collect();
    let is_own = |f: &PackageFile| matches!(f.path.as_str(), MANIFEST_NAME | LINKS_NAME);
    let unhashed = package.files().iter().filter(|f| f.sha256.is_none() && !is_own(f));
    report.unhashed = unhashed.count() as u64;
    options.work.begin(files.iter().filter_map(|(_, file)| file.len).sum());
    // The longest first, so that no thread is left with one at the end.
    files.sort_by_key(|(_, file)| std::cmp::Reverse(file.len));
    let (hashed, read_len) = (AtomicU64::new(0), AtomicU64::new(0));
    let findings: Mutex<Vec<(usize, Error)>> = Mutex::default();
    // Files that are only linked to, and cannot be fetched.
    let away: Mutex<BTreeSet<&str>> = Mutex::default();
    let find = |at: usize, e: Error| {
        findings.lock().unwrap_or_else(PoisonError::into_inner).push((at, e));
    };
    options.work.for_each(
        files,
        || (),
        |(), (at, file)| {
            let checked = package.check_file(file, &options.work);
            match checked.map_err(|e| e.in_source(package.inside(&file.path))) {
                Ok(read) => {
                    read_len.fetch_add(read, Ordering::Relaxed);
                    hashed.fetch_add(u64::from(file.sha256.is_some()), Ordering::Relaxed);
                }
                Err(e) if e.code() == CANCELLED.code => return Err(e),
                Err(e) if file.place == FileLocation::Links && e.kind() != ErrorKind::Integrity => {
                    away.lock().unwrap_or_else(PoisonError::into_inner).insert(&file.path);
                }
                Err(e) if e.kind() == ErrorKind::Io => return Err(e),
                Err(e) => find(at, e),
            }
            Ok(())
        },
    )?;
    (report.hashed, report.read_len) = (hashed.into_inner(), read_len.into_inner());
    let away = away.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.first_linked = away.first().map(|path| (*path).to_owned());
    report.linked = away.len() as u64;
    let mut findings = findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.sort_by_key(|(at, _)| *at);
    // Their files are right or not; what they say is another question.
    let broken = !findings.is_empty();
    for row in package.tensors() {
        let file = match &row.kind {
            TensorKind::Plain { file, .. } => package.file(&format!("tensor_data/{file}")),
            TensorKind::Nested { .. } => None,
        };
        let file = file.map(|file| target_of(package, file));
        if file.is_some_and(|file| away.contains(file.path.as_str())) {
            continue;
        }
        let is_text = matches!(&row.kind, TensorKind::Plain { ty: ValueType::String, .. });
        // The lengths of the others were compared when the package was opened.
        let is_linked = file.is_some_and(|file| file.place == FileLocation::Links);
        match if is_text || is_linked { package.value(&row.name).map(drop) } else { Ok(()) } {
            Ok(()) => report.tensors += 1,
            Err(e) if broken && e.kind() == holdall_core::ErrorKind::Integrity => {}
            // What is over a limit shows in the file already.
            Err(e) if findings.iter().any(|(_, known)| known.to_string() == e.to_string()) => {}
            Err(e) => findings.push((usize::MAX, e)),
        }
    }
    let (over, mut findings): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .map(|(_, e)| e)
        .partition(|e| e.kind() == holdall_core::ErrorKind::Limit);
    // The specification has readers ignore fields that it does not name, whatever they are.
    let counted = report.warnings.iter().filter(|w| w.code != warnings::EXTENSION).cloned();
    let odd = options.strictness.findings(&counted.collect::<Vec<_>>());
    findings.extend(odd.into_iter().map(|e| e.in_source(package.name())));
    report.over_limit_count = over.len() as u64;
    report.over_limit = over.into_iter().take(MAX_FINDINGS).collect();
    report.finding_count = findings.len() as u64;
    report.findings = findings.into_iter().take(MAX_FINDINGS).collect();
    Ok(report)
}

/// What a symbolic link leads to; a file itself.
fn target_of<'a>(package: &'a Package, file: &'a PackageFile) -> &'a PackageFile {
    let target = file.target.as_deref().and_then(|target| package.file(target));
    target.unwrap_or(file)
}
