//! What weight updates change.

use super::step::{Change, Content, Step};
use super::{UpdateLayout, Updates};
use holdall_core::Result;

/// The weight updates of a folder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpdateReport {
    /// The layout: `versions` or `steps`.
    pub layout: &'static str,
    /// The version that is applied if none is requested.
    pub latest: Option<u64>,
    /// The updates, by version.
    pub updates: Vec<UpdateStep>,
}

/// A weight update.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpdateStep {
    /// The version that it leads to.
    pub version: u64,
    /// The version that it is applied to; `None` if it is a whole model.
    pub base: Option<u64>,
    /// How changes are encoded: `whole`, `xor`, `overwrite`, `indices`, `raw` or `gap_delta`.
    pub encoding: &'static str,
    /// The kind of the checksums, if there are any.
    pub checksums: Option<&'static str>,
    /// The tensors that change, or those of the whole model.
    pub tensors: Vec<UpdateTensor>,
    /// Bytes of the tensors in the files.
    pub stored_len: u64,
}

/// A tensor of a weight update.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpdateTensor {
    /// The name of the tensor of the base.
    pub name: String,
    /// The number of elements that are listed, if the layout lists elements.
    pub changed: Option<u64>,
    /// Bytes that the change takes in the file.
    pub stored_len: u64,
}

/// Returns what weight updates change, after checking their indexes and metadata. What only a base shows is checked by
/// [`apply_updates`](super::apply_updates).
///
/// # Errors
/// Returns the rules of the files; Io.
pub fn show_updates(updates: &Updates) -> Result<UpdateReport> {
    let mut all = Vec::new();
    for version in updates.versions() {
        all.extend(updates.steps(version)?.iter().map(shown));
    }
    Ok(UpdateReport { layout: updates.layout.name(), latest: updates.latest(), updates: all })
}

fn shown(step: &Step) -> UpdateStep {
    let (encoding, checksums) = match &step.content {
        Content::Whole(_) => ("whole", None),
        Content::Bytes { delta, .. } => (delta.encoding.name(), Some(delta.checksums.name())),
        Content::Sparse { head, .. } => (head.layout.encoding().unwrap_or("indices"), None),
    };
    let changed = |change: &Change| match change {
        Change::Bytes { .. } => None,
        Change::Sparse { values, .. } => Some(values.count()),
    };
    let tensors: Vec<UpdateTensor> = match step.whole() {
        Some(file) => file
            .tensors()
            .map(|tensor| UpdateTensor {
                name: tensor.name().to_owned(),
                changed: None,
                stored_len: tensor.stored_len(),
            })
            .collect(),
        None => step
            .changes()
            .map(|(name, change)| UpdateTensor {
                name: name.clone(),
                changed: changed(change),
                stored_len: change.stored_len(),
            })
            .collect(),
    };
    let stored_len = tensors.iter().map(|tensor| tensor.stored_len).fold(0, u64::saturating_add);
    UpdateStep { version: step.version, base: step.base, encoding, checksums, tensors, stored_len }
}

impl UpdateLayout {
    /// Returns a description for people.
    pub fn description(self) -> &'static str {
        match self {
            UpdateLayout::Versions => "versions with differences of bytes",
            UpdateLayout::Steps => "steps with indices and values",
        }
    }
}
