//! Checks everything about a file that can be checked, and reports what could not be.
//!
//! Opening a file checks its structure. Verification checks the bytes: digests, compressed data that must
//! decode to the declared length, sparse indices that must lie inside the shape, `bool` bytes that must be 0
//! or 1, records and blobs, gaps that must be zero. The checks run on all cores and read each stored byte
//! once where one pass is enough. Memory does not grow with the file, except for small remote records, blobs
//! and tensors of described layouts.

mod bytes;
mod gaps;
mod layouts;

pub use holdall_io::{Strictness, Verdict};

use holdall_core::{Algorithm, Error, ErrorKind, Result, Warning};
use holdall_io::select::Select;
use holdall_io::{File, external};
use holdall_io::{Work, with_work};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Maximum number of findings that are kept; further ones are only counted.
const MAX_FINDINGS: usize = 1000;

/// Options of a verification.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    pub(crate) work: Work,
    select: Select,
    strictness: Strictness,
}

impl VerifyOptions {
    /// Creates the default options: all tensors, one thread per core, no progress.
    pub fn new() -> VerifyOptions {
        VerifyOptions::default()
    }

    /// Verifies only the selected tensors.
    pub fn with_select(mut self, select: Select) -> VerifyOptions {
        self.select = select;
        self
    }

    /// Sets how warnings are treated: reported, or counted as findings, which make the file bad.
    pub fn with_strictness(mut self, strictness: Strictness) -> VerifyOptions {
        self.strictness = strictness;
        self
    }
}

with_work!(VerifyOptions);

/// The result of a verification.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of tensors that were checked.
    pub tensors: u64,
    /// Number of their components.
    pub components: u64,
    /// Bytes of the file that those components take; bytes shared by several count once.
    pub stored_len: u64,
    /// Number of these bytes that were read for a check, each counted once. Bytes that cannot be checked are
    /// not read.
    pub read_len: u64,
    /// Number of components whose bytes match their digest, for each algorithm in the file. For a package,
    /// the number of files with the right hash.
    pub digests: Vec<(Algorithm, u64)>,
    /// Number of components stored in chunks that each match a checksum of their own, by the checksum's name:
    /// `fletcher32`.
    pub chunk_checksums: Vec<(&'static str, u64)>,
    /// The digest of the content, independent of how it is divided into files, if the format defines one (zTensor
    /// 2) and all of it is correct: `sha256:…`.
    pub content: Option<String>,
    /// Number of compressed components that decode to the declared length.
    pub decoded: u64,
    /// Number of components of dtype `bool` that contain only 0 and 1.
    pub bools: u64,
    /// Number of sparse tensors whose indices fit their shape.
    pub sparse: u64,
    /// Number of quantized tensors whose components fit their shape and parameters.
    pub quantized: u64,
    /// Number of tensors of described layouts in which every element has a value.
    pub described: u64,
    /// Number of tensors of records in which every record fits the schema.
    pub records: u64,
    /// Number of blobs whose entries all lie inside the blob and are valid.
    pub blobs: u64,
    /// The findings in the file's order: the first 1000.
    pub findings: Vec<Error>,
    /// Number of findings, including those beyond the first 1000.
    pub finding_count: u64,
    /// Checks that could not be made, one entry for each reason.
    pub unverified: Vec<Unverified>,
    /// Warnings about the file, from opening or verifying it. With [`Strictness::Strict`] they are findings
    /// too; otherwise they do not make the file bad.
    pub warnings: Vec<Warning>,
}

impl VerifyReport {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        if self.finding_count > 0 {
            Verdict::Bad
        } else if self.unverified_for(Reason::Unsupported) > 0 {
            Verdict::Incomplete
        } else {
            Verdict::Sound
        }
    }

    /// Returns `true` if there are no findings and no possible check was prevented. Bytes without a digest,
    /// for example, may still be unchecked: see [`VerifyReport::unverified`].
    pub fn is_sound(&self) -> bool {
        self.verdict() == Verdict::Sound
    }

    /// Returns how many components (or tensors, depending on the reason) were not verified for `reason`.
    pub fn unverified_for(&self, reason: Reason) -> u64 {
        self.unverified.iter().filter(|u| u.reason == reason).map(|u| u.count).sum()
    }

    fn count_chunk_checksum(&mut self, name: &'static str) {
        match self.chunk_checksums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.chunk_checksums.push((name, 1)),
        }
    }

    /// Returns how many components match their digest, or the checksums of their chunks, by the name of the
    /// algorithm.
    pub fn checked(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<(&'static str, u64)> =
            self.digests.iter().map(|(algorithm, count)| (algorithm.as_str(), *count)).collect();
        for (name, more) in &self.chunk_checksums {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += more,
                None => all.push((name, *more)),
            }
        }
        all.sort_unstable();
        all
    }

    fn count_digest(&mut self, algorithm: Algorithm, more: u64) {
        match self.digests.iter_mut().find(|(a, _)| *a == algorithm) {
            Some((_, count)) => *count += more,
            None => self.digests.push((algorithm, more)),
        }
    }
}

/// The reason why something could not be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The file has no digest for the component: changed bytes would not be noticed.
    NoDigest,
    /// The component's digest is of an algorithm that this version cannot compute.
    UnknownDigest,
    /// The tensor's layout is unknown: how its components fit together is not checked.
    UnknownLayout,
    /// The component's logical type is unknown: its length is not checked against the shape.
    UnknownLogicalType,
    /// This version cannot read the tensor in the way that the check needs, or a limit forbids it.
    Unsupported,
}

impl Reason {
    /// Returns the name of the reason in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NoDigest => "no_digest",
            Reason::UnknownDigest => "unknown_digest",
            Reason::UnknownLayout => "unknown_layout",
            Reason::UnknownLogicalType => "unknown_logical_type",
            Reason::Unsupported => "unsupported",
        }
    }
}

/// A kind of check that could not be made; one for each reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unverified {
    /// The reason.
    pub reason: Reason,
    /// The first case, in words.
    pub message: String,
    /// The name of the first tensor that it concerns.
    pub tensor: String,
    /// The component of that tensor, unless it concerns the whole tensor.
    pub component: Option<String>,
    /// Number of components or tensors that it concerns.
    pub count: u64,
    /// The first tensor's index in the file.
    at: usize,
}

/// Checks everything about `file` that can be checked. Findings are in the report and do not stop other checks. For
/// a package, every file is checked, and the bytes in the report are those of its files.
///
/// # Errors
/// Returns an `Io` error if the bytes cannot be read; a `NotFound` error if the selection names a tensor that does not exist.
pub fn verify(file: &File, options: &VerifyOptions) -> Result<VerifyReport> {
    #[cfg(feature = "carton")]
    if options.select.is_all()
        && let Some(package) = crate::carton::Package::from_file(file)?
    {
        return whole_package(file, &package, options);
    }
    let state = State::default();
    let mut report = tensors(file, options, &state)?;
    gaps::check(file, &state)?;
    report.warnings.extend(gaps::padding(file, &options.select)?);
    let State { findings, unverified } = state;
    let mut findings = findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.keep_first();
    let odd = options.strictness.findings(&report.warnings);
    report.finding_count = findings.count + odd.len() as u64;
    report.findings = findings.all.into_iter().map(|(_, e)| e).chain(odd).collect();
    report.findings.truncate(MAX_FINDINGS);
    report.findings = report.findings.into_iter().map(|e| e.in_source(file.name())).collect();
    report.unverified = unverified.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.unverified.sort_by_key(|u| u.reason);
    report.digests.sort_by_key(|(algorithm, _)| algorithm.as_str());
    let checked: u64 = report.digests.iter().map(|(_, count)| count).sum();
    if options.select.is_all() && report.is_sound() && checked == report.components {
        report.content = external::content(file)?;
    }
    Ok(report)
}

/// Checks the selected tensors, and the checksums that cover any of them; all checksums if all tensors are
/// selected.
fn tensors(file: &File, options: &VerifyOptions, state: &State) -> Result<VerifyReport> {
    let tensors = options.select.tensors(file)?;
    for tensor in &tensors {
        if let Some(e) = tensor.fault() {
            state.find(tensor.position(), 0, e)?;
        }
    }
    let mut report = VerifyReport {
        tensors: tensors.len() as u64,
        warnings: warnings(file, &options.select),
        ..VerifyReport::default()
    };
    let mut checksums: Vec<bytes::IndexedChecksum<'_>> = file.checksums().enumerate().collect();
    if !options.select.is_all() {
        let bare = tensors.iter().flat_map(|t| t.components()).filter(|c| c.digest.is_none());
        let wanted: HashSet<usize> = bare.flat_map(|c| file.checksums_of(&c)).collect();
        checksums.retain(|(number, _)| wanted.contains(number));
    }
    bytes::check(file, &tensors, checksums, options, state, &mut report)?;
    layouts::check(&tensors, options, state, &mut report)?;
    Ok(report)
}

/// Returns the warnings about the file and about the selected tensors.
fn warnings(file: &File, select: &Select) -> Vec<Warning> {
    if select.is_all() {
        return file.warnings().to_vec();
    }
    let mut out = file.index().warnings_of(&|name| select.selects(name));
    // The source of the file may have warnings, too.
    let of_file = |w: &&Warning| w.tensor.is_none() && !out.iter().any(|own| own.code == w.code);
    let more: Vec<Warning> = file.warnings().iter().filter(of_file).cloned().collect();
    out.extend(more);
    out
}

/// Verifies the tensors of a file. Returns the first errors, the indices of all tensors with errors, and the
/// number of components that have no digest that could be checked.
pub(crate) fn broken(file: &File, work: &Work) -> Result<Broken> {
    let state = State::default();
    let options = VerifyOptions::new().with_work(work.clone());
    tensors(file, &options, &state)?;
    let mut found = state.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Tensors that this version does not know are not findings, but cannot be taken either.
    for tensor in file.tensors() {
        if let Some(e) = tensor.fault()
            && found.tensors.insert(tensor.position())
        {
            found.all.push(((tensor.position(), 0), e));
        }
    }
    found.keep_first();
    let unverified = state.unverified.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_unchecked =
        |u: &&Unverified| matches!(u.reason, Reason::NoDigest | Reason::UnknownDigest);
    Ok(Broken {
        errors: found.all.into_iter().map(|(_, e)| e.in_source(file.name())).collect(),
        tensors: found.tensors,
        unchecked: unverified.iter().filter(is_unchecked).map(|u| u.count).sum(),
    })
}

/// The result of [`broken`].
pub(crate) struct Broken {
    pub(crate) errors: Vec<Error>,
    pub(crate) tensors: HashSet<usize>,
    pub(crate) unchecked: u64,
}

/// Verifies all files of a package, not only those with its tensors.
#[cfg(feature = "carton")]
fn whole_package(
    file: &File,
    package: &crate::carton::Package,
    options: &VerifyOptions,
) -> Result<VerifyReport> {
    let wanted = crate::carton::PackageVerifyOptions::new()
        .with_strictness(options.strictness)
        .with_work(options.work.clone());
    let found = package.verify(&wanted)?;
    let mut unverified = Vec::new();
    let mut skip = |message: Option<String>, count: u64| {
        unverified.extend(message.map(|message| Unverified {
            reason: Reason::Unsupported,
            message,
            tensor: String::new(),
            component: None,
            count,
            at: 0,
        }));
    };
    let linked = found.first_linked.as_ref().map(|path| format!("`{path}` is only linked to"));
    match (linked, found.over_limit.first()) {
        (None, Some(e)) => skip(Some(e.to_string()), found.over_limit_count),
        (linked, _) => skip(linked, found.linked.saturating_add(found.over_limit_count)),
    }
    Ok(VerifyReport {
        tensors: file.len() as u64,
        components: file.tensors().map(|t| t.components().len() as u64).sum(),
        stored_len: found.read_len,
        read_len: found.read_len,
        digests: match found.hashed {
            0 => Vec::new(),
            hashed => vec![(Algorithm::Sha256, hashed)],
        },
        findings: found.findings,
        finding_count: found.finding_count,
        unverified,
        warnings: found.warnings,
        ..VerifyReport::default()
    })
}

/// Results shared by the threads.
#[derive(Default)]
struct State {
    findings: Mutex<Findings>,
    unverified: Mutex<Vec<Unverified>>,
}

#[derive(Default)]
struct Findings {
    /// Findings, with the index of the tensor and the order within the tensor.
    all: Vec<((usize, u64), Error)>,
    count: u64,
    /// Indices of the tensors with findings.
    tensors: HashSet<usize>,
}

impl Findings {
    /// Drops all but the first [`MAX_FINDINGS`] in the file's own order.
    fn keep_first(&mut self) {
        self.all.sort_by_key(|(position, _)| *position);
        self.all.truncate(MAX_FINDINGS);
    }
}

impl State {
    /// Records an error about the tensor at index `tensor`: as a finding, unless it says that this version
    /// does not support the tensor or that a limit forbids it. `order` sorts the findings about one tensor.
    ///
    /// # Errors
    /// Returns the error itself if it came from the operating system.
    fn find(&self, tensor: usize, order: u64, e: Error) -> Result<()> {
        match e.kind() {
            ErrorKind::Io => return Err(e),
            ErrorKind::Unsupported | ErrorKind::Limit => self.skip(
                tensor,
                Reason::Unsupported,
                e.tensor().unwrap_or(""),
                e.component(),
                || format!("{} [{}]", e.message(), e.code()),
            ),
            _ => {
                let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
                findings.count += 1;
                findings.tensors.insert(tensor);
                findings.all.push(((tensor, order), e));
                if findings.all.len() >= 4 * MAX_FINDINGS {
                    findings.keep_first();
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if the tensor at this index has a finding.
    fn is_bad(&self, tensor: usize) -> bool {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).tensors.contains(&tensor)
    }

    /// Records that something could not be verified.
    fn skip(
        &self,
        at: usize,
        reason: Reason,
        tensor: &str,
        component: Option<&str>,
        message: impl FnOnce() -> String,
    ) {
        let mut all = self.unverified.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter_mut().find(|u| u.reason == reason);
        let count = known.as_ref().map_or(0, |u| u.count) + 1;
        match known {
            Some(first) if first.at <= at => first.count = count,
            known => {
                let new = Unverified {
                    reason,
                    message: message(),
                    tensor: tensor.to_owned(),
                    component: component.map(str::to_owned),
                    count,
                    at,
                };
                match known {
                    Some(later) => *later = new,
                    None => all.push(new),
                }
            }
        }
    }
}
