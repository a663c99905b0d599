//! Making deltas.

use super::{Head, KEY, UNFIT, digest_of, digest_of_model, is_delta, is_difference};
use bytes::Bytes;
use holdall_core::layout::delta::{DeltaType, LAYOUT, encode};
use holdall_core::{
    Attributes, Component, ComponentSpec, DType, Layout, Result, TensorSpec, Value,
};
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::sink::FileSink;
use holdall_io::{File, FileRole, Tensor, WriteOptions, Writer, planes};
use std::collections::HashSet;
use std::path::Path;

/// Options of [`make`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MakeOptions {
    /// How the delta is written. Its format is always zTensor 1.2.
    pub write: WriteOptions,
}

/// A delta that was made.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct MakeReport {
    /// Tensors of the target of which some elements differ, which are stored as differences.
    pub changed: u64,
    /// Tensors that are stored whole: new ones, and those of another type, shape, layout or with other attributes, or whose difference
    /// would not be smaller.
    pub whole: u64,
    /// Tensors that are equal in both models.
    pub unchanged: u64,
    /// Tensors of the base that the target lacks.
    pub removed: u64,
    /// Elements that differ, of the tensors that are stored as differences.
    pub elements: u64,
    /// Bytes of the target's tensors, decoded.
    pub target_len: u64,
    /// Bytes of the file.
    pub len: u64,
    /// Properties of the target that applying the delta does not reproduce.
    pub not_covered: Vec<String>,
}

/// Writes the delta from `base` to `target` to `path`. Both models are read whole; memory is that of the largest tensor, in both
/// models.
///
/// # Errors
/// Unsupported if one of the models is a delta; Misuse if `path` exists; Io; Integrity or Malformed if a model is damaged.
pub fn make(
    base: &File,
    target: &File,
    path: impl AsRef<Path>,
    options: &MakeOptions,
) -> Result<MakeReport> {
    for file in [base, target] {
        if is_delta(file) {
            return Err(UNFIT.broken("it is a delta itself").in_source(file.name()));
        }
    }
    if target.attributes().get(KEY).is_some() {
        let message = "it has an attribute `delta` of its own, which a delta has no place for";
        return Err(UNFIT.broken(message).in_source(target.name()));
    }
    let mut report = MakeReport { not_covered: not_covered(base, target), ..MakeReport::default() };
    let olds: Vec<Tensor> = base.tensors().collect();
    let mut digests = Vec::with_capacity(olds.len());
    for old in &olds {
        options.write.work.check()?;
        digests.push(digest_of(old.sound()?, None)?);
    }
    let mut items = Vec::new();
    for new in target.tensors() {
        options.write.work.check()?;
        new.sound()?;
        let len = new.components().filter_map(|c| c.decoded_len).fold(0, u64::saturating_add);
        report.target_len = report.target_len.saturating_add(len);
        let position = base.index().position(new.name());
        let old = position.and_then(|at| olds.get(at).zip(digests.get(at)));
        match difference(old, &new)? {
            Difference::None => report.unchanged += 1,
            Difference::Elements(item, count) => {
                report.changed += 1;
                report.elements = report.elements.saturating_add(count);
                items.push(item);
            }
            Difference::Whole => {
                report.whole += 1;
                items.push(whole(&new)?);
            }
        }
    }
    let removed = olds.iter().filter(|old| target.tensor(old.name()).is_err());
    let removed: Vec<String> = removed.map(|old| old.name().to_owned()).collect();
    report.removed = removed.len() as u64;
    let pairs = olds.iter().zip(digests.iter().map(String::as_str));
    let head = Head { tensors: target.len() as u64, removed, base: Some(digest_of_model(pairs)) };
    let mut attributes = target.attributes().clone();
    attributes.set(KEY, head.value());
    let write = options.write.clone().with_attributes(attributes);
    let write = write.with_format(
        crate::formats::by_name("ztensor")
            .ok_or_else(|| UNFIT.broken("this build does not write zTensor"))?,
    );
    let path = path.as_ref();
    let encoder = write.encoder(write.format_for(path)?)?;
    let items = items::arrange(items, &*encoder, Sharing::Keep)?;
    let sink = FileSink::create(path, write.overwrite, write.durability)?;
    let mut writer = Writer::new(sink, encoder, &write);
    items::write(&mut writer, items, &write.work)?;
    let finished = writer.close()?;
    report.len = finished.len();
    finished.publish()?;
    Ok(report)
}

/// How a tensor of the target differs from the one of the same name in the base.
enum Difference {
    None,
    /// The item, and the number of elements that changed.
    Elements(Item, u64),
    /// It is stored whole.
    Whole,
}

fn difference(old: Option<(&Tensor, &String)>, new: &Tensor) -> Result<Difference> {
    let Some((old, base)) = old else { return Ok(Difference::Whole) };
    let is_alike = old.shape() == new.shape()
        && old.dense_type() == new.dense_type()
        && old.attributes() == new.attributes();
    let target = digest_of(new, None)?;
    if is_alike && layouts_agree(old, new) && *base == target {
        return Ok(Difference::None);
    }
    let has_elements =
        |tensor: &Tensor| matches!(tensor.layout(), Layout::Dense | Layout::Planes(_));
    let element_type = new
        .dense_type()
        .and_then(|element_type| DeltaType::new(element_type.dtype, element_type.logical_type));
    let Some(element_type) =
        element_type.filter(|_| is_alike && has_elements(old) && has_elements(new))
    else {
        return Ok(Difference::Whole);
    };
    let is_reserved = |key: &str| holdall_core::layout::delta::ATTRIBUTES.contains(&key);
    if new.attributes().iter().any(|(key, _)| is_reserved(key)) {
        return Ok(Difference::Whole);
    }
    let (a, b) = (old.to_dense()?, new.to_dense()?);
    let Some(encoded) = encode(&element_type, a.bytes(), b.bytes()) else {
        return Ok(Difference::Whole);
    };
    let mut attributes: Attributes = new.attributes().clone();
    attributes.set("dtype", Value::Text(element_type.dtype.as_str().to_owned()));
    if let Some(logical) = &element_type.logical_type {
        attributes.set("type", Value::Text(logical.to_string()));
    }
    attributes.set("base", Value::Text(base.clone()));
    attributes.set("target", Value::Text(target));
    attributes.set("changed", Value::Integer(encoded.changed.into()));
    let (mut components, mut feeds, mut stored) = (Vec::new(), Vec::new(), 0f64);
    for (role, bytes) in encoded.components {
        let dtype = if role.as_str() == "starts" { DType::U64 } else { DType::U8 };
        components.push(ComponentSpec::new(role, dtype, bytes.len() as u64));
        let (compression, share) = planes::best(&bytes)?;
        stored += bytes.len() as f64 * share;
        feeds.push(ComponentSource::InMemory(Bytes::from(bytes), compression));
    }
    if stored > 0.6 * b.bytes().len() as f64 && b.bytes().len() > 4096 {
        return Ok(Difference::Whole);
    }
    let spec = TensorSpec {
        name: new.name().to_owned(),
        shape: new.shape().to_vec(),
        layout: Layout::Other(LAYOUT.into()),
        attributes,
        components,
    };
    Ok(Difference::Elements(Item { spec, feeds, keep: CopyMode::Nothing }, encoded.changed))
}

/// Returns `true` if equal digests mean equal tensors.
fn layouts_agree(old: &Tensor, new: &Tensor) -> bool {
    let roles = |tensor: &Tensor| -> Vec<_> {
        tensor.components().map(|c| (c.role, c.dtype, c.logical_type)).collect()
    };
    old.layout() == new.layout() && roles(old) == roles(new)
}

/// Returns a tensor as it is, or in planes if that is smaller.
fn whole(tensor: &Tensor) -> Result<Item> {
    debug_assert!(!is_difference(tensor));
    if *tensor.layout() == Layout::Dense
        && let Some(item) = planes::item(tensor, false)?
    {
        return Ok(item);
    }
    let mut item = items::unchanged_item(tensor)?;
    item.keep = CopyMode::Encoding;
    Ok(item)
}

/// Returns what of the target a delta does not have, in words.
fn not_covered(base: &File, target: &File) -> Vec<String> {
    let mut out = Vec::new();
    let common = |file: &File, other: &File| -> Vec<String> {
        let names = file.names().filter(|name| other.tensor(name).is_ok());
        names.map(str::to_owned).collect()
    };
    if common(base, target) != common(target, base) {
        out.push("the order of the tensors".to_owned());
    }
    let mut stored = HashSet::new();
    let mut is_shared = |c: Component| c.decoded_len != Some(0) && !stored.insert(c.stored);
    if target.index().tensors().any(|tensor| tensor.components().any(&mut is_shared)) {
        out.push("which tensors share their bytes".to_owned());
    }
    let shards = target.files().iter().filter(|file| matches!(file.role, FileRole::Shard(_)));
    let shards = shards.count();
    if shards > 1 {
        out.push(format!("the division into {shards} files"));
    }
    if base.format() != target.format() {
        out.push(format!("the format {}: the base is in {}", target.format(), base.format()));
    }
    out
}
