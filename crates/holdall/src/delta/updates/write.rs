//! Writing weight updates.

use super::super::{MakeReport, UNFIT, is_delta, target};
use super::step::{Content, width};
use super::{Updates, VERSION};
use bytes::Bytes;
use holdall_core::layout::update::bytes::{ByteDiff, DiffEncoding};
use holdall_core::layout::update::sparse::{SparseDiff, SparseHead, SparseLayout};
use holdall_core::layout::update::{
    ChecksumKind, DeltaIndex, PAIR, VersionIndex, step_text, version_folder,
};
use holdall_core::{
    Attributes, ComponentSpec, DType, Layout, Result, Role, TensorSpec, Value, codec,
};
use holdall_io::error::{SHARDS_TARGET, io};
use holdall_io::items::{ComponentSource, CopyMode, Item};
use holdall_io::sink::{FileSink, FolderSink, Sink as _};
use holdall_io::{File, Tensor, WriteOptions};
use std::path::{Path, PathBuf};

/// The name of the file of a version.
const SHARD: &str = "model-00000-of-00001.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// The level of zstd.
const LEVEL: i32 = 1;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A layout of weight updates cannot hold a difference.
    pub NOT_IN_LAYOUT: Unsupported "delta/not-in-layout"
        "A weight update changes elements of dense tensors: it does not add, remove or reshape tensors, or change their types. Sparse steps have bf16 elements, and fewer than 2^31 in a tensor."
        hint "a delta in Holdall's own layout holds every change";
    /// A conversion needs the base.
    pub NEEDS_BASE: Misuse "delta/needs-base"
        "Converting a delta into another layout needs its base, except between sparse steps.";
}

/// A layout in which changes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeltaLayout {
    /// A delta of Holdall: a zTensor file.
    #[default]
    Holdall,
    /// A version with the XOR of bytes.
    VersionXor,
    /// A version with bytes that are overwritten.
    VersionOverwrite,
    /// A sparse step, version 1.
    StepV1,
    /// A sparse step, version 2, with indices.
    StepV2Raw,
    /// A sparse step, version 2, with gaps.
    StepV2Gap,
}

impl DeltaLayout {
    /// All layouts.
    pub const ALL: [DeltaLayout; 6] = [
        DeltaLayout::Holdall,
        DeltaLayout::VersionXor,
        DeltaLayout::VersionOverwrite,
        DeltaLayout::StepV1,
        DeltaLayout::StepV2Raw,
        DeltaLayout::StepV2Gap,
    ];

    /// Returns the name: `slime-xor`.
    pub fn name(self) -> &'static str {
        match self {
            DeltaLayout::Holdall => "holdall",
            DeltaLayout::VersionXor => "slime-xor",
            DeltaLayout::VersionOverwrite => "slime-overwrite",
            DeltaLayout::StepV1 => "trl-v1",
            DeltaLayout::StepV2Raw => "trl-v2-raw",
            DeltaLayout::StepV2Gap => "trl-v2-gap",
        }
    }

    /// Returns the layout with this name.
    pub fn from_name(name: &str) -> Option<DeltaLayout> {
        DeltaLayout::ALL.into_iter().find(|layout| layout.name() == name)
    }

    fn diff_encoding(self) -> Option<DiffEncoding> {
        match self {
            DeltaLayout::VersionXor => Some(DiffEncoding::Xor),
            DeltaLayout::VersionOverwrite => Some(DiffEncoding::Overwrite),
            _ => None,
        }
    }

    pub(super) fn sparse(self) -> Option<SparseLayout> {
        match self {
            DeltaLayout::StepV1 => Some(SparseLayout::V1),
            DeltaLayout::StepV2Raw => Some(SparseLayout::V2Raw),
            DeltaLayout::StepV2Gap => Some(SparseLayout::V2Gap),
            _ => None,
        }
    }
}

/// How a weight update is written.
pub(in crate::delta) struct Written<'a> {
    pub(in crate::delta) layout: DeltaLayout,
    /// The number of the version.
    pub(in crate::delta) version: u64,
    /// The version that it is applied to.
    pub(in crate::delta) base_version: u64,
    pub(in crate::delta) checksums: ChecksumKind,
    pub(in crate::delta) write: &'a WriteOptions,
}

/// Writes the update from `base` to `target`.
pub(in crate::delta) fn write(
    base: &File,
    target: &File,
    path: &Path,
    how: &Written<'_>,
) -> Result<MakeReport> {
    for file in [base, target] {
        if is_delta(file) {
            return Err(UNFIT.broken("it is a delta itself").in_source(file.name()));
        }
    }
    let mut report = MakeReport::default();
    if base.attributes() != target.attributes() {
        report.not_covered.push("the attributes of the file".to_owned());
    }
    let gone = base.tensors().find(|old| target.tensor(old.name()).is_err());
    if let Some(gone) = gone {
        let e = NOT_IN_LAYOUT.broken("the target lacks the tensor");
        return Err(e.in_tensor(gone.name()).in_source(target.name()));
    }
    let (mut made, mut attributes) = (Vec::new(), Attributes::new());
    let mut head = how.layout.sparse().map(|layout| SparseHead {
        is_sparse: true,
        layout,
        model_version: how.version,
        tensors: 0,
        changed: 0,
        total: 0,
        names: (layout == SparseLayout::V1).then(Vec::new),
    });
    for new in target.tensors() {
        how.write.work.check()?;
        let Some((old_bytes, new_bytes)) = elements(base, &new, &mut report)? else {
            report.unchanged += 1;
            continue;
        };
        report.changed += 1;
        let refused = |what: &str| {
            NOT_IN_LAYOUT.broken(what.to_owned()).in_tensor(new.name()).in_source(target.name())
        };
        if let Some(head) = &mut head {
            let is_bf16 = new.dense_type().is_some_and(|t| t.dtype == DType::Bf16);
            if !is_bf16 {
                return Err(refused("its elements are not bf16"));
            }
            let diff = SparseDiff::between(&old_bytes, &new_bytes, 2)
                .ok_or_else(|| refused("its length differs"))?;
            add_pair(&mut made, head, new.name(), &diff, new.count())?;
            continue;
        }
        let encoding = how.layout.diff_encoding().unwrap_or(DiffEncoding::Xor);
        let diff = ByteDiff::between(encoding, &old_bytes, &new_bytes)
            .ok_or_else(|| refused("it is longer than 4 GiB, which positions cannot name"))?;
        report.elements += diff.changed_elements(width(&new).unwrap_or(1));
        let mut stored = Vec::new();
        codec::zstd::Encoder::new(LEVEL)?.frame(diff.bytes(), &mut stored)?;
        attributes.set(new.name(), Value::Text(how.checksums.compute(&new_bytes)));
        made.push(vector(new.name().to_owned(), DType::U8, stored));
    }
    match head {
        Some(head) => {
            report.elements = head.changed;
            report.len = write_step(path, made, &head, how.write)?;
        }
        None => report.len = write_version(path, made, attributes, how)?,
    }
    Ok(report)
}

/// Returns the elements of a tensor in both models, or `None` if they are equal.
fn elements(base: &File, new: &Tensor, report: &mut MakeReport) -> Result<Option<(Bytes, Bytes)>> {
    let refused = |what: &str| {
        let e = NOT_IN_LAYOUT.broken(what.to_owned());
        Err(e.in_tensor(new.name()).in_source(new.file().name()))
    };
    new.sound()?;
    let Ok(old) = base.tensor(new.name()) else { return refused("the base lacks the tensor") };
    let has_elements = |tensor: &Tensor| {
        matches!(tensor.layout(), Layout::Dense | Layout::Planes(_) | Layout::Strided)
    };
    if !has_elements(old.sound()?) || !has_elements(new) {
        return refused("it is not dense");
    }
    if old.shape() != new.shape() || old.dense_type() != new.dense_type() {
        return refused("its type or its shape differs from the base");
    }
    if old.attributes() != new.attributes() {
        report.not_covered.push(format!("the attributes of the tensor `{}`", new.name()));
    }
    let (a, b) = (old.to_dense()?, new.to_dense()?);
    report.target_len = report.target_len.saturating_add(b.bytes().len() as u64);
    Ok((a.bytes() != b.bytes()).then(|| (a.into_bytes(), b.into_bytes())))
}

/// Adds the indices and values of a tensor.
pub(super) fn add_pair(
    made: &mut Vec<Item>,
    head: &mut SparseHead,
    name: &str,
    diff: &SparseDiff,
    count: u64,
) -> Result<()> {
    let [indices_end, values_end] = head.layout.suffixes();
    let Some((dtype, indices)) = diff.indices(head.layout) else {
        let message = "an index of the tensor does not fit 31 bits";
        return Err(NOT_IN_LAYOUT.broken(message).in_tensor(name));
    };
    made.push(vector(format!("{name}{indices_end}"), dtype, indices));
    made.push(vector(format!("{name}{values_end}"), DType::Bf16, diff.values().to_vec()));
    head.tensors += 1;
    head.changed = head.changed.saturating_add(diff.changed());
    head.total = head.total.saturating_add(count);
    if let Some(names) = &mut head.names {
        names.push(name.to_owned());
        names.sort();
    }
    Ok(())
}

/// Returns an item for a tensor of one dimension.
fn vector(name: String, dtype: DType, bytes: Vec<u8>) -> Item {
    let len = bytes.len() as u64;
    let count = len / dtype.width().max(1);
    let spec = TensorSpec {
        name,
        shape: vec![count],
        layout: Layout::Dense,
        attributes: Attributes::new(),
        components: vec![ComponentSpec::new(Role::Data, dtype, len)],
    };
    let feeds = vec![ComponentSource::InMemory(bytes.into(), None)];
    Item { spec, feeds, keep: CopyMode::Nothing }
}

/// Writes the file of a step. A path without the extension of safetensors is the folder of the file. Returns the number of bytes.
pub(super) fn write_step(
    path: &Path,
    made: Vec<Item>,
    head: &SparseHead,
    write: &WriteOptions,
) -> Result<u64> {
    let is_file = path.extension().is_some_and(|extension| extension == "safetensors");
    let path: PathBuf = match is_file {
        true => path.to_owned(),
        false => {
            create_folder(path)?;
            path.join(step_text(head.model_version))
        }
    };
    write_file(&path, made, head.attributes(), write, write.overwrite)
}

fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| io(e, "creating").in_source(path.display()))
}

/// Writes the folder of a version into the folder `path`.
fn write_version(
    path: &Path,
    made: Vec<Item>,
    attributes: Attributes,
    how: &Written<'_>,
) -> Result<u64> {
    create_folder(path)?;
    let sink = FolderSink::create(
        &path.join(version_folder(how.version)),
        how.write.overwrite,
        &SHARDS_TARGET,
    )?;
    let weight_map = made.iter().map(|item| (item.spec.name.clone(), SHARD.to_owned())).collect();
    let delta = DeltaIndex {
        base_version: how.base_version,
        encoding: how.layout.diff_encoding().unwrap_or(DiffEncoding::Xor),
        checksums: how.checksums,
    };
    let index = VersionIndex { version: Some(how.version), delta: Some(delta), weight_map };
    let mut len = write_file(&sink.path().join(SHARD), made, attributes, how.write, false)?;
    let text = index.text();
    let mut to = FileSink::create(&sink.path().join(INDEX), false, how.write.durability)?;
    to.append(text.as_bytes())?;
    to.finish()?;
    len = len.saturating_add(text.len() as u64);
    sink.finish(how.write.durability)?;
    Ok(len)
}

fn write_file(
    path: &Path,
    made: Vec<Item>,
    attributes: Attributes,
    write: &WriteOptions,
    overwrite: bool,
) -> Result<u64> {
    let format = holdall_formats::by_name("safetensors")
        .ok_or_else(|| UNFIT.broken("this build does not write safetensors"))?;
    let write = WriteOptions::new()
        .with_work(write.work.clone())
        .with_durability(write.durability)
        .with_format(format)
        .with_attributes(attributes);
    target::write_file(path, made, write.encoder(format)?, &write, overwrite)
}

/// Writes a sparse step in another layout of sparse steps, without its base. Returns `None` if the updates are not a single sparse
/// step.
pub(in crate::delta) fn rewrite(
    updates: &Updates,
    to: Option<u64>,
    path: &Path,
    layout: DeltaLayout,
    write: &WriteOptions,
) -> Result<Option<MakeReport>> {
    let (Some(layout), Some(version)) = (layout.sparse(), to.or_else(|| updates.latest())) else {
        return Ok(None);
    };
    if !updates.is_single {
        return Ok(None);
    }
    let mut all = updates.steps(version)?;
    let Some(step) = all.pop() else { return Err(VERSION.broken("there is no step")) };
    let Content::Sparse { head: old, .. } = &step.content else { return Ok(None) };
    let mut head = SparseHead {
        layout,
        tensors: 0,
        changed: 0,
        total: 0,
        names: (layout == SparseLayout::V1).then(Vec::new),
        ..old.clone()
    };
    let mut made = Vec::new();
    for (name, change) in step.changes() {
        // The shape is not known; the readers of the result compare positions with it.
        let diff = change.decode_sparse()?;
        let diff = diff.ok_or_else(|| PAIR.broken("it is not sparse").in_tensor(name))?;
        add_pair(&mut made, &mut head, name, &diff, 0)?;
    }
    head.total = old.total;
    let mut report = MakeReport { changed: head.tensors, ..MakeReport::default() };
    report.elements = head.changed;
    report.len = write_step(path, made, &head, write)?;
    Ok(Some(report))
}
