//! Converting deltas and weight updates into another layout.

use super::updates::{self, NEEDS_BASE, Updates, Written};
use super::{
    ApplyOptions, ChecksumKind, DeltaLayout, MakeOptions, MakeReport, UNFIT, UpdateOptions, apply,
    apply_updates, is_delta, make, read_head,
};
use holdall_core::Result;
use holdall_core::layout::delta::NOT_DELTA;
use holdall_io::error::SHARDS_TARGET;
use holdall_io::sink::FolderSink;
use holdall_io::{File, OpenOptions, WriteOptions};
use std::ffi::OsString;
use std::path::Path;

/// A delta, or weight updates.
#[derive(Clone)]
pub enum DeltaSource {
    /// A delta of Holdall.
    Delta(File),
    /// Weight updates of another program.
    Updates(Box<Updates>),
}

impl DeltaSource {
    /// Opens the delta or the weight updates at `path`, and recognises their layout.
    ///
    /// # Errors
    /// Returns `delta/not-a-delta` if it is neither; the errors of [`OpenOptions::open`] and [`Updates::open`].
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<DeltaSource> {
        let path = path.as_ref();
        if let Some(updates) = Updates::open(path, options)? {
            return Ok(DeltaSource::Updates(Box::new(updates)));
        }
        let file = options.open(path)?;
        if !is_delta(&file) {
            let message = "it has no attribute `delta`, and no versions or steps of weight updates";
            return Err(NOT_DELTA.broken(message).in_source(path.display()));
        }
        Ok(DeltaSource::Delta(file))
    }
}

/// Options of [`convert`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The layout to write.
    pub layout: DeltaLayout,
    /// Of weight updates, the version of the target; by default the newest.
    pub to: Option<u64>,
    /// Of weight updates, the version of the base; by default what the base says.
    pub from: Option<u64>,
    /// The number of the version that is written; by default that of the source, otherwise 1.
    pub version: Option<u64>,
    /// The kind of the checksums that are written, if the layout has them.
    pub checksums: ChecksumKind,
    /// How the result is written.
    pub write: WriteOptions,
}

/// Writes the difference between `base` and the target of `source` in another layout. The target is written into a temporary folder next to
/// `path`, which takes as many bytes as the model. The base is needed except from one sparse step to another.
///
/// # Errors
/// Returns `delta/needs-base` if the base is needed and absent; those of [`apply`] or [`apply_updates`], and of [`make`].
pub fn convert(
    source: &DeltaSource,
    base: Option<&File>,
    path: impl AsRef<Path>,
    options: &ConvertOptions,
) -> Result<MakeReport> {
    let path = path.as_ref();
    let Some(base) = base else {
        if let DeltaSource::Updates(updates) = source
            && let Some(report) =
                updates::rewrite(updates, options.to, path, options.layout, &options.write)?
        {
            return Ok(report);
        }
        return Err(NEEDS_BASE.broken("the base is not given"));
    };
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(".target");
    let parent = path.parent().unwrap_or(Path::new(""));
    // It is never published, so that it is removed when it is dropped.
    let temporary = FolderSink::create(&parent.join(name), false, &SHARDS_TARGET)?;
    let applied = temporary.path().join("target.zt");
    let write = WriteOptions::new().with_work(options.write.work.clone());
    let (version, base_version) = match source {
        DeltaSource::Delta(delta) => {
            let head = read_head(delta)?;
            let apply_options = ApplyOptions { write, ..ApplyOptions::default() };
            apply(base, delta, &applied, &apply_options)?;
            let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
            (number(head.target_version), number(head.base_version))
        }
        DeltaSource::Updates(updates) => {
            let (to, from) = (options.to, options.from);
            let report =
                apply_updates(base, updates, &applied, &UpdateOptions { to, from, write })?;
            let before = report.version.map(|version| version.saturating_sub(report.steps));
            (report.version, before)
        }
    };
    let target = OpenOptions::new().with_limits(base.limits().clone()).open(&applied)?;
    let mut make_options = MakeOptions {
        layout: options.layout,
        version: options.version.or(version),
        base_version: options.version.is_none().then_some(base_version).flatten(),
        checksums: options.checksums,
        write: options.write.clone(),
    };
    if let (None, Some(version)) = (make_options.base_version, options.version) {
        make_options.base_version = version.checked_sub(1);
    }
    make(base, &target, path, &make_options)
}

/// Writes the update from `base` to `target` in a layout of weight updates.
pub(super) fn make_update(
    base: &File,
    target: &File,
    path: &Path,
    options: &MakeOptions,
) -> Result<MakeReport> {
    let version = options.version.unwrap_or(1);
    let base_version = options.base_version.or(version.checked_sub(1));
    let base_version = base_version.filter(|before| *before < version).ok_or_else(|| {
        UNFIT.broken(format!("version {version} is not after the version of its base"))
    })?;
    let (layout, checksums, write) = (options.layout, options.checksums, &options.write);
    updates::write(base, target, path, &Written { layout, version, base_version, checksums, write })
}
