//! Verifies every byte of a package.
//!
//! Opening a package checks its texts and their consistency. Verification checks the bytes: hashes and
//! checksums, compressed data, string tensors. Each stored byte is read once, on all cores, in memory that
//! does not grow with the files.

use super::Package;
use super::{FileLocation, PackageFile, TensorKind, ValueType};
use holdall_core::{Error, ErrorKind, Result, Warning};
use holdall_io::error::CANCELLED;
use holdall_io::{Strictness, Verdict};
use holdall_io::{Work, with_work};
use holdall_package::{LINKS_NAME, MANIFEST_NAME, unmet_requirements, warnings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of findings that are kept; further ones are only counted.
const MAX_FINDINGS: usize = 1000;

/// Options of verifying a package.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageVerifyOptions {
    work: Work,
    strictness: Strictness,
}

impl PackageVerifyOptions {
    /// Creates the default options: one thread per core, no progress, warnings are only reported.
    pub fn new() -> PackageVerifyOptions {
        PackageVerifyOptions::default()
    }

    /// Sets how warnings are treated: reported, or counted as findings.
    pub fn with_strictness(mut self, strictness: Strictness) -> PackageVerifyOptions {
        self.strictness = strictness;
        self
    }
}

with_work!(PackageVerifyOptions);

/// The result of verifying a package.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageReport {
    /// Number of files in the package.
    pub files: u64,
    /// Number of files whose SHA-256 matches `MANIFEST`.
    pub hashed: u64,
    /// Number of stored bytes that were read.
    pub read_len: u64,
    /// Number of tensors whose files match their rows.
    pub tensors: u64,
    /// The findings in the order of the files: the first 1000.
    pub findings: Vec<Error>,
    /// Number of findings, including those beyond the first 1000.
    pub finding_count: u64,
    /// Checks that a limit prevented, in the order of the files: the first 1000.
    pub over_limit: Vec<Error>,
    /// Number of checks that a limit prevented.
    pub over_limit_count: u64,
    /// Number of files that are only linked to and could not be fetched.
    pub linked: u64,
    /// The path of the first such file.
    pub first_linked: Option<String>,
    /// Number of files without a hash: all files of a folder without `MANIFEST`.
    pub unhashed: u64,
    /// Harmless irregularities. Under strict verification they are among the findings too.
    pub warnings: Vec<Warning>,
}

impl PackageReport {
    /// Returns the verdict.
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
    report.warnings.extend(unmet_requirements(
        package.description(),
        package.has_model(),
        &has_file,
    ));
    // The target of a symbolic link is checked as a file of its own.
    let is_own_file = |f: &&PackageFile| f.target.is_none();
    let mut files: Vec<(usize, &PackageFile)> =
        package.files().iter().filter(is_own_file).enumerate().collect();
    let is_own = |f: &PackageFile| matches!(f.path.as_str(), MANIFEST_NAME | LINKS_NAME);
    let unhashed = package.files().iter().filter(|f| f.sha256.is_none() && !is_own(f));
    report.unhashed = unhashed.count() as u64;
    options.work.begin(files.iter().filter_map(|(_, file)| file.len).sum());
    // The longest first, so that no thread still works on a long one at the end.
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
                Err(e)
                    if file.location == FileLocation::Links && e.kind() != ErrorKind::Integrity =>
                {
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
    // With findings in the files, errors in their contents would only follow from those.
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
        // The lengths of other files were compared when the package was opened.
        let is_linked = file.is_some_and(|file| file.location == FileLocation::Links);
        match if is_text || is_linked { package.value(&row.name).map(drop) } else { Ok(()) } {
            Ok(()) => report.tensors += 1,
            Err(e) if broken && e.kind() == holdall_core::ErrorKind::Integrity => {}
            // The limit was reported for the file already.
            Err(e) if findings.iter().any(|(_, known)| known.to_string() == e.to_string()) => {}
            Err(e) => findings.push((usize::MAX, e)),
        }
    }
    let (over, mut findings): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .map(|(_, e)| e)
        .partition(|e| e.kind() == holdall_core::ErrorKind::Limit);
    // By the specification, readers ignore fields that it does not name, of any type.
    let counted = report.warnings.iter().filter(|w| w.code != warnings::EXTENSION).cloned();
    let odd = options.strictness.findings(&counted.collect::<Vec<_>>());
    findings.extend(odd.into_iter().map(|e| e.in_source(package.name())));
    report.over_limit_count = over.len() as u64;
    report.over_limit = over.into_iter().take(MAX_FINDINGS).collect();
    report.finding_count = findings.len() as u64;
    report.findings = findings.into_iter().take(MAX_FINDINGS).collect();
    Ok(report)
}

/// Returns the target of a symbolic link, or the file itself.
fn target_of<'a>(package: &'a Package, file: &'a PackageFile) -> &'a PackageFile {
    let target = file.target.as_deref().and_then(|target| package.file(target));
    target.unwrap_or(file)
}
