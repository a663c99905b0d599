//! Weight updates of training frameworks: folders of versions, and sparse steps.
//!
//! `docs/spec/updates.md` describes the layouts, and [`holdall_core::layout::update`] decodes them.

mod apply;
mod find;
mod show;
mod step;
mod version;
mod write;

pub(super) use apply::STATE;
pub use apply::{UpdateOptions, apply_updates};
pub use show::{UpdateReport, UpdateStep, UpdateTensor, show_updates};
pub use write::DeltaLayout;
pub(super) use write::{NEEDS_BASE, Written, rewrite, write};

use holdall_core::Result;
use holdall_io::OpenOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use step::Step;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A version is missing, or is not the one that its name says.
    pub VERSION: NotFound "delta/version"
        "Every version between the base and the target of a weight update is in its folder, complete, and has the number that its name has."
        hint "`holdall delta show` lists the versions of a folder";
    /// An update was made from another version.
    pub CHAIN: Integrity "delta/chain"
        "A delta or weight update is applied to the version that it was made from."
        hint "apply the versions between them first, or name the version of the base";
    /// The files of a version are not those that its index names.
    pub WEIGHT_MAP: Malformed "delta/weight-map"
        "The files of a version have the tensors that `weight_map` says, and no others.";
}

/// Returns the rules of weight updates.
pub(super) fn rules() -> impl Iterator<Item = &'static holdall_core::Rule> {
    RULES.iter().chain(write::RULES.iter()).copied()
}

/// The layout of weight updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateLayout {
    /// Folders `weight_v000001`, …: the XOR of bytes or bytes that are overwritten, with checksums, and whole models.
    Versions,
    /// Files `step_000001.safetensors`, …: indices and values of elements, without checksums, and whole models.
    Steps,
}

impl UpdateLayout {
    /// Returns the name: `versions` or `steps`.
    pub fn name(self) -> &'static str {
        match self {
            UpdateLayout::Versions => "versions",
            UpdateLayout::Steps => "steps",
        }
    }
}

/// The weight updates in a folder, or a single one.
#[derive(Clone)]
pub struct Updates {
    name: String,
    layout: UpdateLayout,
    /// The location of each version. Several files may have one step: a whole model, and the difference from the step before.
    found: BTreeMap<u64, Vec<PathBuf>>,
    /// The version that a pointer names.
    latest: Option<u64>,
    /// Whether the path is that of one update, and not of a folder of them.
    is_single: bool,
    options: OpenOptions,
}

impl Updates {
    /// Returns the weight updates at `path`: a folder of versions, one of them, a folder of steps, or one of their files. Returns
    /// `None` for anything else.
    ///
    /// # Errors
    /// Returns Io; the rules of a version or step that is opened to recognise it.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Option<Updates>> {
        find::find(path.as_ref(), options)
    }

    /// Returns the path, as it is shown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the layout.
    pub fn layout(&self) -> UpdateLayout {
        self.layout
    }

    /// Returns the numbers of the versions or steps, in order.
    pub fn versions(&self) -> impl Iterator<Item = u64> + '_ {
        self.found.keys().copied()
    }

    /// Returns the version that is applied if none is requested: the one that a pointer names, otherwise the newest.
    pub fn latest(&self) -> Option<u64> {
        self.latest.or_else(|| self.versions().last())
    }

    /// Returns all models and differences that lead to a version, whole models first.
    ///
    /// # Errors
    /// Returns [`VERSION`] if the version is missing; the rules of its files.
    fn steps(&self, version: u64) -> Result<Vec<Step>> {
        let paths = self.found.get(&version).ok_or_else(|| self.missing(version))?;
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            let step = match self.layout {
                UpdateLayout::Versions => version::read(path, version, &self.options)?,
                UpdateLayout::Steps => step::read(path, Some(version), &self.options)?,
            };
            all.push(step);
        }
        all.sort_by_key(|step| step.whole().is_none());
        Ok(all)
    }

    fn missing(&self, version: u64) -> holdall_core::Error {
        let found: Vec<String> = self.versions().map(|found| found.to_string()).collect();
        let found = match found.as_slice() {
            [] => "none".to_owned(),
            [first, .., last] if found.len() > 8 => format!("{first} to {last}"),
            all => all.join(", "),
        };
        let message = format!("version {version} is missing; found: {found}");
        VERSION.broken(message).in_source(&self.name)
    }
}
