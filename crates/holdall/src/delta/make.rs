//! Making deltas.

use super::fold::DeltaWriter;
use super::{
    ChecksumKind, DeltaLayout, UNFIT, digest_of, digest_of_model, is_delta, is_difference,
};
use bytes::Bytes;
use holdall_core::layout::delta::{
    BLOCK, DeltaEncoder, DeltaHead, DeltaType, Encoded, KEY, LAYOUT, count_changed,
};
use holdall_core::{
    Attributes, Component, ComponentSpec, DType, Layout, Result, TensorSpec, Value,
};
use holdall_io::items::{self, ComponentSource, CopyMode, Item};
use holdall_io::{Check, File, FileRole, Tensor, WriteOptions, planes};
use std::collections::HashSet;
use std::path::Path;

/// Options of [`make`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MakeOptions {
    /// The layout of the delta.
    pub layout: DeltaLayout,
    /// The number of the version of the target, which a delta states if it is given, and a weight update always: by default 1.
    pub version: Option<u64>,
    /// The number of the version of the base; by default the one before.
    pub base_version: Option<u64>,
    /// The kind of the checksums of a weight update, if its layout has them.
    pub checksums: ChecksumKind,
    /// How the delta is written. The layout decides its format.
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

/// Writes the delta from `base` to `target` to `path`. Both models are read three times, in pieces; memory is that of the difference of
/// one tensor.
///
/// # Errors
/// Returns Unsupported if one of the models is a delta, or if the layout cannot hold the difference; Misuse if `path` exists; Io; Integrity or Malformed if a model is damaged.
pub fn make(
    base: &File,
    target: &File,
    path: impl AsRef<Path>,
    options: &MakeOptions,
) -> Result<MakeReport> {
    let path = path.as_ref();
    if options.layout != DeltaLayout::Holdall {
        return super::convert::make_update(base, target, path, options);
    }
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
    let news: Vec<Tensor> = target.tensors().collect();
    let mut of_news = Vec::with_capacity(news.len());
    for new in &news {
        options.write.work.check()?;
        let len = new.sound()?.components().filter_map(|c| c.decoded_len);
        report.target_len = report.target_len.saturating_add(len.fold(0, u64::saturating_add));
        of_news.push(digest_of(new, None)?);
    }
    let names = |all: &[Tensor], other: &File| -> Vec<String> {
        let only = all.iter().filter(|tensor| other.tensor(tensor.name()).is_err());
        only.map(|tensor| tensor.name().to_owned()).collect()
    };
    let removed = names(&olds, target);
    report.removed = removed.len() as u64;
    let model = |tensors: &[Tensor], digests: &[String]| {
        Some(digest_of_model(tensors.iter().zip(digests.iter().map(String::as_str))))
    };
    let head = DeltaHead {
        tensors: target.len() as u64,
        removed,
        added: Some(names(&news, base)),
        base: model(&olds, &digests),
        target: model(&news, &of_news),
        base_version: options.base_version.map(|version| version.to_string()),
        target_version: options.version.map(|version| version.to_string()),
    };
    let mut attributes = target.attributes().clone();
    attributes.set(KEY, head.value());
    let mut writer = DeltaWriter::new(path, attributes, &options.write)?;
    let mut wholes = Vec::new();
    for (new, digest) in news.iter().zip(&of_news) {
        options.write.work.check()?;
        let position = base.index().position(new.name());
        let old = position.and_then(|at| olds.get(at).zip(digests.get(at)));
        match difference(old, new, digest)? {
            Difference::None => report.unchanged += 1,
            Difference::Elements(item, count) => {
                report.changed += 1;
                report.elements = report.elements.saturating_add(count);
                writer.add(vec![item])?;
            }
            Difference::Whole => {
                report.whole += 1;
                wholes.push(whole(new)?);
            }
        }
    }
    // Together, so that those that share their bytes still do.
    writer.add(wholes)?;
    report.len = writer.finish()?;
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

fn difference(old: Option<(&Tensor, &String)>, new: &Tensor, target: &str) -> Result<Difference> {
    let Some((old, base)) = old else { return Ok(Difference::Whole) };
    let is_alike = old.shape() == new.shape()
        && old.dense_type() == new.dense_type()
        && old.attributes() == new.attributes();
    if is_alike && layouts_agree(old, new) && base == target {
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
    let Some(encoded) = encoded(&element_type, old, new)? else { return Ok(Difference::Whole) };
    let (attributes, changed) = (new.attributes().clone(), encoded.changed);
    let (item, stored) = difference_item(new, &element_type, attributes, (base, target), encoded)?;
    let len = new.count().saturating_mul(element_type.width());
    if stored > 0.6 * len as f64 && len > 4096 {
        return Ok(Difference::Whole);
    }
    Ok(Difference::Elements(item, changed))
}

/// Returns the difference of the elements of two tensors of the same shape, which are read in pieces, or `None` if they are equal.
fn encoded(element_type: &DeltaType, old: &Tensor, new: &Tensor) -> Result<Option<Encoded>> {
    let (a, b) = (old.dense_pieces(Check::All)?, new.dense_pieces(Check::All)?);
    let count = new.count();
    let pieces = || {
        (0..count.div_ceil(BLOCK)).map(|block| -> Result<(Bytes, Bytes)> {
            let elements = block * BLOCK..count.min((block + 1) * BLOCK);
            Ok((a.piece(elements.clone())?, b.piece(elements)?))
        })
    };
    let mut changed = 0u64;
    for piece in pieces() {
        let (a, b) = piece?;
        changed += count_changed(element_type.width(), &a, &b);
    }
    if changed == 0 {
        return Ok(None);
    }
    let mut encoder = DeltaEncoder::new(element_type, count, changed);
    for piece in pieces() {
        let (a, b) = piece?;
        encoder.push(&a, &b);
    }
    Ok(Some(encoder.finish()))
}

/// Returns the item of a difference between tensors with these digests, and the bytes that it will take, by a sample.
pub(super) fn difference_item(
    new: &Tensor,
    element_type: &DeltaType,
    mut attributes: Attributes,
    (base, target): (&str, &str),
    encoded: Encoded,
) -> Result<(Item, f64)> {
    attributes.set("dtype", Value::Text(element_type.dtype.as_str().to_owned()));
    if let Some(logical) = &element_type.logical_type {
        attributes.set("type", Value::Text(logical.to_string()));
    }
    attributes.set("base", Value::Text(base.to_owned()));
    attributes.set("target", Value::Text(target.to_owned()));
    attributes.set("changed", Value::Integer(encoded.changed.into()));
    let (mut components, mut feeds, mut stored) = (Vec::new(), Vec::new(), 0f64);
    for (role, bytes) in encoded.components {
        let dtype = if role.as_str() == "starts" { DType::U64 } else { DType::U8 };
        components.push(ComponentSpec::new(role, dtype, bytes.len() as u64));
        let (compression, share) = planes::best(&bytes)?;
        stored += bytes.len() as f64 * share;
        feeds.push(ComponentSource::InMemory(Bytes::from(bytes), compression));
    }
    let spec = TensorSpec {
        name: new.name().to_owned(),
        shape: new.shape().to_vec(),
        layout: Layout::Other(LAYOUT.into()),
        attributes,
        components,
    };
    Ok((Item { spec, feeds, keep: CopyMode::Nothing }, stored))
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
