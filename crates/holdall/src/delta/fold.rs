//! Folding deltas: one delta instead of several in a row.

use super::apply::view;
use super::make::difference_item;
use super::updates::CHAIN;
use super::{MakeReport, UNFIT, digest_of, is_difference, read_head};
use holdall_core::error::Escape as _;
use holdall_core::layout::delta::{
    ATTRIBUTES, BLOCK, DeltaHead, DeltaView, ElementsDigest, KEY, encode,
};
use holdall_core::{Attributes, ComponentSpec, Encode, Error, Layout, Result, Role, TensorSpec};
use holdall_io::items::{self, ComponentSource, CopyMode, Item, Sharing};
use holdall_io::sink::FileSink;
use holdall_io::{File, Tensor, Work, WriteOptions, Writer};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Options of [`fold`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FoldOptions {
    /// How the delta is written. Its format is always zTensor 1.2.
    pub write: WriteOptions,
}

/// What happened to a tensor.
#[derive(Default)]
struct History {
    /// The tensor as a delta has it whole.
    whole: Option<Tensor>,
    /// The differences after that, in order.
    differences: Vec<Tensor>,
    /// Whether the base has the tensor; `None` if no delta says so.
    in_base: Option<bool>,
    is_removed: bool,
}

/// Writes the delta that has the effect of `deltas`, one applied after the other. The base is not needed. The result has the tensors of the
/// last target; those that are removed and added again have the place of the base's.
///
/// Memory is that of the two largest tensors.
///
/// # Errors
/// Returns `delta/chain` if a delta was not made from the target of the one before, as far as they show it; the rules of deltas; Misuse if `path`
/// exists; Io.
pub fn fold(deltas: &[File], path: impl AsRef<Path>, options: &FoldOptions) -> Result<MakeReport> {
    let heads = deltas.iter().map(read_head).collect::<Result<Vec<DeltaHead>>>()?;
    let (Some(first), Some(last)) = (heads.first(), heads.last()) else {
        return Err(UNFIT.broken("there are no deltas to fold"));
    };
    for (pair, delta) in heads.windows(2).zip(deltas.iter().skip(1)) {
        if let [before, after] = pair
            && let (Some(target), Some(base)) = (&before.target, &after.base)
            && target != base
        {
            let message =
                format!("its base has the digest {base}, but the delta before gives {target}");
            return Err(CHAIN.broken(message).in_source(delta.name()));
        }
    }
    let (mut names, mut histories) = (Vec::new(), HashMap::<String, History>::new());
    for (delta, head) in deltas.iter().zip(&heads) {
        options.write.work.check()?;
        add(delta, head, &mut names, &mut histories)?;
    }
    let mut report = MakeReport::default();
    let (mut removed, mut added, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let Some(history) = histories.remove(&name) else { continue };
        if history.is_removed {
            match history.in_base {
                Some(true) => removed.push(name),
                Some(false) => {}
                None => {
                    let message = "the deltas do not say whether the base has the tensor";
                    return Err(CHAIN.broken(message).in_tensor(&name));
                }
            }
            continue;
        }
        if history.in_base == Some(false) {
            added.push(name);
        }
        kept.push(history);
    }
    report.removed = removed.len() as u64;
    let knows_added = heads.iter().all(|head| head.added.is_some());
    let head = DeltaHead {
        tensors: last.tensors,
        removed,
        added: knows_added.then_some(added),
        base: first.base.clone(),
        target: last.target.clone(),
        base_version: first.base_version.clone(),
        target_version: last.target_version.clone(),
    };
    let mut attributes = deltas.last().map(|delta| delta.attributes().clone()).unwrap_or_default();
    attributes.set(KEY, head.value());
    let mut writer = DeltaWriter::new(path.as_ref(), attributes, &options.write)?;
    let mut wholes = Vec::new();
    for history in kept {
        options.write.work.check()?;
        write_folded(history, &mut writer, &mut wholes, &mut report)?;
    }
    writer.add(wholes)?;
    report.len = writer.finish()?;
    Ok(report)
}

/// Writes what became of a tensor, or adds it to `wholes`, which are written at the end.
fn write_folded(
    history: History,
    writer: &mut DeltaWriter,
    wholes: &mut Vec<Item>,
    report: &mut MakeReport,
) -> Result<()> {
    let as_it_is = |tensor: &Tensor| -> Result<Item> {
        let mut item = items::unchanged_item(tensor)?;
        item.keep = CopyMode::Encoding;
        Ok(item)
    };
    match (&history.whole, history.differences.as_slice()) {
        (Some(whole), []) => {
            report.whole += 1;
            wholes.push(as_it_is(whole)?);
        }
        (Some(whole), differences) => {
            report.whole += 1;
            writer.add(vec![changed_whole(whole, differences)?])?;
        }
        (None, [one]) => {
            report.changed += 1;
            report.elements = report.elements.saturating_add(view(one)?.changed());
            writer.add(vec![as_it_is(one)?])?;
        }
        (None, differences) => match composed(differences)? {
            Some((item, changed)) => {
                report.changed += 1;
                report.elements = report.elements.saturating_add(changed);
                writer.add(vec![item])?;
            }
            None => report.unchanged += 1,
        },
    }
    Ok(())
}

/// The file of a delta, which is written tensor by tensor.
pub(super) struct DeltaWriter {
    writer: Writer<FileSink>,
    /// Decides the order of components.
    encoder: Box<dyn Encode>,
    work: Work,
}

impl DeltaWriter {
    pub(super) fn new(
        path: &Path,
        attributes: Attributes,
        write: &WriteOptions,
    ) -> Result<DeltaWriter> {
        let format = crate::formats::by_name("ztensor")
            .ok_or_else(|| UNFIT.broken("this build does not write zTensor"))?;
        let write = write.clone().with_attributes(attributes).with_format(format);
        let sink = FileSink::create(path, write.overwrite, write.durability)?;
        let writer = Writer::new(sink, write.encoder(format)?, &write);
        Ok(DeltaWriter { writer, encoder: write.encoder(format)?, work: write.work.clone() })
    }

    /// Writes tensors. Those that share their bytes are written at once.
    pub(super) fn add(&mut self, items: Vec<Item>) -> Result<()> {
        let items = items::arrange(items, &*self.encoder, Sharing::Keep)?;
        items::write(&mut self.writer, items, &self.work)
    }

    /// Shows the file under its name. Returns its length.
    pub(super) fn finish(self) -> Result<u64> {
        let finished = self.writer.close()?;
        let len = finished.len();
        finished.publish()?;
        Ok(len)
    }
}

/// Adds what a delta does to each tensor.
fn add(
    delta: &File,
    head: &DeltaHead,
    names: &mut Vec<String>,
    histories: &mut HashMap<String, History>,
) -> Result<()> {
    let broken = |name: &str, message: &str| {
        CHAIN.broken(message.to_owned()).in_tensor(name).in_source(delta.name())
    };
    let mut begin = |name: &str| {
        if !histories.contains_key(name) {
            names.push(name.to_owned());
            histories.insert(name.to_owned(), History::default());
        }
    };
    head.removed.iter().for_each(|name| begin(name));
    delta.names().for_each(&mut begin);
    for name in &head.removed {
        let Some(history) = histories.get_mut(name) else { continue };
        let is_known = history.whole.is_some() || !history.differences.is_empty();
        if history.is_removed {
            return Err(broken(
                name,
                "the tensor is removed, but the deltas before have no tensor",
            ));
        }
        if !is_known {
            history.in_base = Some(true);
        }
        (history.whole, history.is_removed) = (None, true);
        history.differences.clear();
    }
    let added: Option<BTreeSet<&str>> =
        head.added.as_ref().map(|added| added.iter().map(String::as_str).collect());
    for tensor in delta.tensors() {
        let name = tensor.name();
        tensor.sound()?;
        let Some(history) = histories.get_mut(name) else { continue };
        let is_new = history.whole.is_none() && history.differences.is_empty();
        if is_difference(&tensor) {
            let new = view(&tensor)?;
            if history.is_removed {
                return Err(broken(name, "the tensor changes, but was removed before"));
            }
            if is_new {
                history.in_base = Some(true);
            }
            check_before(history, &tensor, &new)?;
            history.differences.push(tensor);
            continue;
        }
        let is_added = added.as_ref().map(|added| added.contains(name));
        if is_added == Some(true) && !history.is_removed && !is_new {
            return Err(broken(name, "the tensor is new, but was there before"));
        }
        if is_new && !history.is_removed {
            history.in_base = is_added.map(|is_added| !is_added);
        }
        history.differences.clear();
        (history.whole, history.is_removed) = (Some(tensor.clone()), false);
    }
    Ok(())
}

/// Checks that a difference belongs to what the deltas before give.
fn check_before(history: &History, new: &Tensor, view: &DeltaView) -> Result<()> {
    let broken = |message: String| {
        Err(CHAIN.broken(message).in_tensor(new.name()).in_source(new.file().name()))
    };
    let (before, element_type, shape) = match (history.differences.last(), &history.whole) {
        (Some(last), _) => {
            let last_view = super::apply::view(last)?;
            let element_type = last_view.element_type().clone();
            (last_view.target().to_owned(), Some(element_type), last.shape())
        }
        (None, Some(whole)) => {
            let element_type = whole.dense_type().and_then(|found| {
                holdall_core::layout::delta::DeltaType::new(found.dtype, found.logical_type)
            });
            (digest_of(whole, Some(view.base()))?, element_type, whole.shape())
        }
        (None, None) => return Ok(()),
    };
    if element_type.as_ref() != Some(view.element_type()) || shape != new.shape() {
        return broken("the delta before has another type or shape".to_owned());
    }
    let is_same_kind = before.split(':').next() == view.base().split(':').next();
    if is_same_kind && before != view.base() {
        let base = view.base().escaped().to_string();
        return broken(format!(
            "its base has the digest {base}, but the delta before gives {before}"
        ));
    }
    Ok(())
}

/// Applies differences to elements.
fn apply_all(elements: &mut [u8], differences: &[Tensor]) -> Result<Option<DeltaView>> {
    let mut last = None;
    for difference in differences {
        let view = view(difference)?;
        let step = usize::try_from(BLOCK.saturating_mul(view.element_type().width()))
            .unwrap_or(usize::MAX);
        let placed = |e: Error| e.in_tensor(difference.name()).in_source(difference.file().name());
        for (block, elements) in (0u64..).zip(elements.chunks_mut(step)) {
            view.apply(block, elements).map_err(placed)?;
        }
        last = Some(view);
    }
    Ok(last)
}

/// Returns the tensor that a whole one becomes.
fn changed_whole(whole: &Tensor, differences: &[Tensor]) -> Result<Item> {
    let dense = whole.to_dense()?;
    let mut bytes = dense.bytes().to_vec();
    let (view, last) = (apply_all(&mut bytes, differences)?, differences.last());
    let (Some(view), Some(last)) = (view, last) else { return items::unchanged_item(whole) };
    let mut digest = ElementsDigest::like(view.target());
    digest.update(&bytes);
    let found = digest.finish();
    if found != view.target() {
        let message = format!("the result has the digest {found}, not {}", view.target());
        let e = super::TARGET.broken(message);
        return Err(e.in_tensor(last.name()).in_source(last.file().name()));
    }
    let element_type = view.element_type();
    let mut data = ComponentSpec::new(Role::Data, element_type.dtype, bytes.len() as u64);
    data.logical_type = element_type.logical_type.clone();
    let own = last.attributes().iter().filter(|(key, _)| !ATTRIBUTES.contains(key));
    let spec = TensorSpec {
        name: last.name().to_owned(),
        shape: last.shape().to_vec(),
        layout: Layout::Dense,
        attributes: own.map(|(key, value)| (key.to_owned(), value.clone())).collect(),
        components: vec![data],
    };
    let feeds = vec![ComponentSource::InMemory(bytes.into(), None)];
    Ok(Item { spec, feeds, keep: CopyMode::Nothing })
}

/// Returns the difference that has the effect of several, and its number of elements, or `None` if they cancel.
fn composed(differences: &[Tensor]) -> Result<Option<(Item, u64)>> {
    let [first, .., last] = differences else { return Ok(None) };
    let first = view(first)?;
    let element_type = first.element_type();
    let len = first.count().saturating_mul(element_type.width());
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    // Distances of elements do not depend on the elements: they are added up from zeros.
    let zeros = vec![0u8; len];
    let mut elements = zeros.clone();
    let Some(view) = apply_all(&mut elements, differences)? else { return Ok(None) };
    let Some(encoded) = encode(element_type, &zeros, &elements) else { return Ok(None) };
    let own = last.attributes().iter().filter(|(key, _)| !ATTRIBUTES.contains(key));
    let attributes = own.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let changed = encoded.changed;
    let digests = (first.base(), view.target());
    let (item, _) = difference_item(last, element_type, attributes, digests, encoded)?;
    Ok(Some((item, changed)))
}
