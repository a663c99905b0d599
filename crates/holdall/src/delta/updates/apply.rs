//! Applying weight updates.

use super::super::target::Target;
use super::super::{ApplyReport, BASE};
use super::step::{Change, Content, Step};
use super::{CHAIN, UpdateLayout, Updates};
use crate::convert::{Convert, item};
use crate::repack::SparseForms;
use bytes::Bytes;
use holdall_core::layout::update::sparse::SparseHead;
use holdall_core::{Attributes, ComponentSpec, Layout, Result, Role, TensorSpec, Value};
use holdall_io::buffer::Buffer;
use holdall_io::error::io;
use holdall_io::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use holdall_io::{File, Tensor, WriteOptions};
use std::path::Path;

/// Where the programs that apply versions in place keep the number of the version that a folder has.
pub(crate) const STATE: &str = ".weight_sync/state.json";

/// Options of [`apply_updates`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// The version of the result; by default the newest.
    pub to: Option<u64>,
    /// The version of the base. By default, it is what the base says; a base that says nothing is version 0.
    pub from: Option<u64>,
    /// How the result is written. Without a format, the extension of the path decides.
    pub write: WriteOptions,
}

/// Writes the model that `updates` make of `base` to `path`: the newest whole model up to the version, or the base, with every
/// difference after it. All differences are checked before anything is written, and the checksum of each changed tensor after each
/// difference, before the result appears.
///
/// Memory is that of a tensor and one of its differences for each that is written.
///
/// # Errors
/// Returns `delta/version` if a version is missing; `delta/chain` if the updates were made from another version than that of the base;
/// `delta/target` if a checksum differs; the rules of the files; errors of reading and writing. After any error, the previous contents of `path`
/// are unchanged.
pub fn apply_updates(
    base: &File,
    updates: &Updates,
    path: impl AsRef<Path>,
    options: &UpdateOptions,
) -> Result<ApplyReport> {
    let path = path.as_ref();
    let chain = Chain::new(base, updates, options)?;
    for step in &chain.steps {
        options.write.work.check()?;
        step.check(&chain.start)?;
    }
    let start = &chain.start;
    let write = options.write.clone().with_attributes(chain.attributes()?);
    let target = Target::new(start, path, write)?;
    let convert = Convert::new(target.write().clone());
    let forms = SparseForms::for_encoder(target.encoder());
    let mut report = ApplyReport {
        version: Some(chain.version),
        steps: chain.steps.len() as u64,
        ..ApplyReport::default()
    };
    let mut items = Vec::with_capacity(start.len());
    for old in start.tensors() {
        let changes: Vec<Change> = chain.changes(old.name()).cloned().collect();
        if changes.is_empty() {
            items.push(item(&old, target.encoder(), &forms, &convert)?);
            continue;
        }
        report.changed += 1;
        items.push(changed(&old, changes)?);
    }
    report.tensors = items.len() as u64;
    let is_of_versions = updates.layout == UpdateLayout::Versions;
    report.len = target.finish(items, is_of_versions.then_some(chain.version))?;
    Ok(report)
}

/// The updates from a model to a version.
struct Chain {
    /// The base, or the newest whole model.
    start: File,
    /// The differences, in order.
    steps: Vec<Step>,
    version: u64,
}

impl Chain {
    fn new(base: &File, updates: &Updates, options: &UpdateOptions) -> Result<Chain> {
        let version = match options.to.or_else(|| updates.latest()) {
            Some(version) => version,
            None => return Err(updates.missing(0)),
        };
        let of_base = match options.from {
            Some(from) => Some(from),
            None => version_of(base, updates)?,
        };
        let mut steps = Vec::new();
        let mut at = version;
        let start = loop {
            if of_base == Some(at) {
                break base.clone();
            }
            // Where the version of the base is not known, the first update that is found begins.
            let is_first = !updates.found.contains_key(&at) && of_base.is_none();
            if is_first && !steps.is_empty() {
                break base.clone();
            }
            let mut all = updates.steps(at)?.into_iter();
            let Some(step) = all.next() else { return Err(updates.missing(at)) };
            if let Content::Whole(file) = step.content {
                break file;
            }
            let Some(before) = step.base.filter(|before| *before < at) else {
                let message = format!("version {at} says that it is made from a later one");
                return Err(CHAIN.broken(message).in_source(&step.name));
            };
            let is_past = of_base.is_some_and(|of_base| before < of_base);
            if is_past && (updates.is_single || !updates.found.contains_key(&before)) {
                let of_base = of_base.unwrap_or_default();
                let message = format!(
                    "the base is version {of_base}, but version {at} is made from version {before}"
                );
                return Err(CHAIN.broken(message).in_source(&step.name));
            }
            if updates.is_single && of_base.is_some_and(|of_base| before != of_base) {
                let of_base = of_base.unwrap_or_default();
                let message = format!(
                    "version {at} is made from version {before}, but the base is version {of_base}"
                );
                return Err(CHAIN.broken(message).in_source(&step.name));
            }
            steps.push(step);
            at = before;
        };
        steps.reverse();
        Ok(Chain { start, steps, version })
    }

    /// Returns the changes of a tensor, in order.
    fn changes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Change> {
        self.steps.iter().filter_map(move |step| step.change(name))
    }

    /// Returns the attributes of the result: those of the start, with the number of the step.
    fn attributes(&self) -> Result<Attributes> {
        let mut out = self.start.attributes().clone();
        if SparseHead::read(&out)?.is_some() {
            out.set("model_version", Value::Text(self.version.to_string()));
        }
        Ok(out)
    }
}

/// Returns the version that the base says it is. A base of versions that says nothing is version 0.
fn version_of(base: &File, updates: &Updates) -> Result<Option<u64>> {
    if updates.layout == UpdateLayout::Steps {
        return Ok(SparseHead::read(base.attributes())?.map(|head| head.model_version));
    }
    let state = base.files().first().and_then(|file| {
        let folder = file.location.as_path()?.parent()?;
        Some(folder.join(STATE)).filter(|path| path.is_file())
    });
    let Some(path) = state else { return Ok((!updates.is_single).then_some(0)) };
    let text = std::fs::read(&path).map_err(|e| io(e, "reading").in_source(path.display()))?;
    let stated = holdall_json::parse(&text, 8).ok();
    let stated = stated.and_then(|state| state.get("version")?.as_str()?.parse().ok());
    stated.map(Some).ok_or_else(|| {
        CHAIN.broken("it does not say the version of the base").in_source(path.display())
    })
}

/// Returns an item for a tensor that is computed from the start and changes.
fn changed(old: &Tensor, changes: Vec<Change>) -> Result<Item> {
    old.check_dense()?;
    let element_type = old.dense_type().ok_or_else(|| BASE.broken("the base has no elements"))?;
    let mut data =
        ComponentSpec::new(Role::Data, element_type.dtype, element_type.len_of(old.count()));
    data.logical_type = element_type.logical_type;
    let spec = TensorSpec {
        name: old.name().to_owned(),
        shape: old.shape().to_vec(),
        layout: Layout::Dense,
        attributes: old.attributes().clone(),
        components: vec![data],
    };
    let old = old.clone();
    let make = move || {
        let pieces: ComputedPieces = Box::new(std::iter::once(elements(&old, &changes)));
        Ok(pieces)
    };
    Ok(Item { spec, feeds: vec![ComponentSource::Made(Box::new(make))], keep: CopyMode::Nothing })
}

fn elements(old: &Tensor, changes: &[Change]) -> Result<Bytes> {
    let start = old.to_dense()?;
    let mut out = Buffer::mapped(start.bytes().len())?;
    out.as_mut().copy_from_slice(start.bytes());
    drop(start);
    for change in changes {
        change.apply(old, out.as_mut())?;
    }
    Ok(out.freeze())
}
