//! Applying deltas.

use super::target::Target;
use super::{BASE, TARGET, UNFIT, digest_of, digest_of_model, is_delta, is_difference, read_head};
use crate::convert::{Convert, dense_item, item};
use crate::repack::SparseForms;
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::layout::delta::{
    ATTRIBUTES, BLOCK, DeltaHead, DeltaType, DeltaView, ElementsDigest, KEY, NOT_DELTA,
};
use holdall_core::{Attributes, ComponentSpec, Encode, Error, Layout, Result, Role, TensorSpec};
use holdall_io::buffer::Buffer;
use holdall_io::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use holdall_io::{Check, DensePieces, File, Tensor, Work, WriteOptions};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

/// The most blocks that are computed at once.
const AT_ONCE: u64 = 4;

/// Options of [`apply`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ApplyOptions {
    /// How the result is written. Without a format, the extension of the path decides.
    pub write: WriteOptions,
}

/// A delta that was applied.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ApplyReport {
    /// Tensors of the result.
    pub tensors: u64,
    /// Tensors whose elements were changed.
    pub changed: u64,
    /// Tensors that were stored whole in the delta.
    pub whole: u64,
    /// Tensors of the base that the result lacks.
    pub removed: u64,
    /// Whether the base was the target already: nothing was changed, and the result is a copy.
    pub was_applied: bool,
    /// The version of the result, if weight updates were applied.
    pub version: Option<u64>,
    /// The number of weight updates that were applied, one after the other.
    pub steps: u64,
    /// Bytes of the result.
    pub len: u64,
}

/// Writes the target of the delta `delta`, which was made from `base`, to `path`. The whole delta and the digests of the base are
/// checked before anything is written, and the digest of each changed tensor before the result appears.
///
/// Memory is that of the differences of one tensor, and of a few blocks of 2^20 elements.
///
/// # Errors
/// Returns Malformed if `delta` is not a sound delta; Integrity if it was made from another base; errors of reading and writing. After any error,
/// the previous contents of `path` are unchanged.
pub fn apply(
    base: &File,
    delta: &File,
    path: impl AsRef<Path>,
    options: &ApplyOptions,
) -> Result<ApplyReport> {
    let path = path.as_ref();
    let write = &options.write;
    if is_delta(base) {
        return Err(UNFIT.broken("it is a delta itself").in_source(base.name()));
    }
    let head = read_head(delta)?;
    let checked = check(base, delta, &head, &write.work)?;
    let mut report = ApplyReport { was_applied: checked.was_applied, ..ApplyReport::default() };
    let mut attributes = delta.attributes().clone();
    attributes.remove(KEY);
    let write = write.clone().with_attributes(attributes);
    let target = Target::new(base, path, write)?;
    let encoder = target.encoder();
    let convert = Convert::new(target.write().clone());
    let forms = SparseForms::for_encoder(encoder);
    let mut made = Vec::new();
    let removed: HashSet<&str> = head.removed.iter().map(String::as_str).collect();
    for old in base.tensors() {
        if removed.contains(old.name()) {
            report.removed += 1;
            continue;
        }
        made.push(match delta.tensor(old.name()) {
            Err(_) => item(&old, encoder, &forms, &convert)?,
            Ok(new) if is_difference(&new) && checked.was_applied => with_attributes(&old, &new)?,
            Ok(new) if is_difference(&new) => {
                report.changed += 1;
                changed(&old, &new, target.write().work.clone())?
            }
            Ok(new) => {
                report.whole += u64::from(!checked.was_applied);
                whole(&new, encoder, &forms, &convert)?
            }
        });
    }
    let is_new = |tensor: &Tensor| base.tensor(tensor.name()).is_err();
    for new in delta.tensors().filter(is_new) {
        report.whole += 1;
        made.push(whole(&new, encoder, &forms, &convert)?);
    }
    report.tensors = made.len() as u64;
    if report.tensors != head.tensors {
        let (stated, found) = (head.tensors, report.tensors);
        let message = format!("the target has {stated} tensors, but base and delta give {found}");
        return Err(BASE.broken(message).in_source(delta.name()));
    }
    report.len = target.finish(made, None)?;
    Ok(report)
}

pub(super) struct Checked {
    /// Whether the base is the target, by its digest as a whole, or by those of the changed tensors if the delta has no other.
    pub(super) was_applied: bool,
}

/// Checks all of the delta, and the base against it.
pub(super) fn check(base: &File, delta: &File, head: &DeltaHead, work: &Work) -> Result<Checked> {
    let mut digests = HashMap::new();
    for old in base.tensors() {
        work.check()?;
        digests.insert(old.name().to_owned(), digest_of(old.sound()?, None)?);
    }
    let gone = head.removed.iter().find(|name| base.tensor(name).is_err());
    let mut wrong = gone.map(|name| {
        let message = format!("the base lacks `{}`, which is to be removed", name.escaped());
        BASE.broken(message).in_source(delta.name())
    });
    if let Some(name) = head.removed.iter().find(|name| delta.tensor(name).is_ok()) {
        let message = format!("it removes `{}` and has it as well", name.escaped());
        return Err(NOT_DELTA.broken(message).in_source(delta.name()));
    }
    let stranger = head.added.iter().flatten().find(|name| base.tensor(name).is_ok());
    if let (None, Some(name)) = (&wrong, stranger) {
        let message = format!("the base has `{}`, which the delta adds", name.escaped());
        wrong = Some(BASE.broken(message).in_source(delta.name()));
    }
    // Whether the base is the target.
    let none_left = head.removed.iter().all(|name| base.tensor(name).is_err());
    let mut is_target = base.len() as u64 == head.tensors && none_left;
    for new in delta.tensors() {
        work.check()?;
        new.sound()?;
        let found = digests.get(new.name());
        if !is_difference(&new) {
            is_target &= found == Some(&digest_of(&new, None)?);
            continue;
        }
        let view = view(&new)?;
        let old = fitting(base, &new, view.element_type())?;
        let digest = match view.base().starts_with("sha256:") {
            true => digest_of(&old, Some(view.base()))?,
            false => found.cloned().unwrap_or_default(),
        };
        is_target &= match view.target().starts_with("sha256:") {
            true => digest_of(&old, Some(view.target()))? == view.target(),
            false => found.is_some_and(|found| found == view.target()),
        };
        if digest != view.base() {
            let message = format!("the base has the digest {digest}, not {}", view.base());
            let e = BASE.broken(message).in_tensor(new.name()).in_source(delta.name());
            wrong.get_or_insert(e);
        }
    }
    let tensors: Vec<Tensor> = base.tensors().collect();
    let pairs = tensors.iter().filter_map(|t| Some((t, digests.get(t.name())?.as_str())));
    let found = digest_of_model(pairs);
    if let Some(wanted) = &head.target {
        is_target = found == *wanted;
    }
    if let (None, Some(wanted)) = (&wrong, &head.base)
        && found != *wanted
    {
        let message = format!("the base has the digest {found}, not {wanted}");
        wrong = Some(BASE.broken(message).in_source(delta.name()));
    }
    if wrong.is_none() {
        check_target(&tensors, &digests, delta, head)?;
    }
    match wrong {
        Some(e) if !is_target => Err(e),
        wrong => Ok(Checked { was_applied: wrong.is_some() }),
    }
}

/// Compares the digest of the target with that of the tensors of the result: those of the base, and those of the delta, of which each
/// is compared with its digest when it is computed.
fn check_target(
    base: &[Tensor],
    digests: &HashMap<String, String>,
    delta: &File,
    head: &DeltaHead,
) -> Result<()> {
    let Some(wanted) = &head.target else { return Ok(()) };
    let removed: HashSet<&str> = head.removed.iter().map(String::as_str).collect();
    let mut result: Vec<(Tensor, String)> = Vec::with_capacity(base.len());
    for old in base.iter().filter(|old| !removed.contains(old.name())) {
        match delta.tensor(old.name()) {
            Err(_) => {
                let digest = digests.get(old.name()).cloned().unwrap_or_default();
                result.push((old.clone(), digest));
            }
            Ok(new) if is_difference(&new) => {
                let digest = view(&new)?.target().to_owned();
                if digest.starts_with("sha256:") {
                    // The digest of the whole has those of the other kind.
                    return Ok(());
                }
                result.push((old.clone(), digest));
            }
            Ok(_) => {}
        }
    }
    for new in delta.tensors().filter(|new| !is_difference(new)) {
        let digest = digest_of(&new, None)?;
        result.push((new, digest));
    }
    let found = digest_of_model(result.iter().map(|(tensor, digest)| (tensor, digest.as_str())));
    if found == *wanted {
        return Ok(());
    }
    let message = format!("the result would have the digest {found}, not {wanted}");
    Err(TARGET.broken(message).in_source(delta.name()))
}

/// Returns the tensor of the base that a difference belongs to, if it has the same type and shape.
pub(super) fn fitting(base: &File, new: &Tensor, element_type: &DeltaType) -> Result<Tensor> {
    let placed = |e: Error| e.in_tensor(new.name()).in_source(new.file().name());
    let Ok(old) = base.tensor(new.name()) else {
        return Err(placed(BASE.broken("the base lacks the tensor")));
    };
    let found = old.dense_type();
    let is_alike = found.as_ref().is_some_and(|found| {
        (found.dtype, &found.logical_type) == (element_type.dtype, &element_type.logical_type)
    });
    if is_alike && old.shape() == new.shape() {
        return Ok(old);
    }
    let found = found.map(|element_type| element_type.to_string()).unwrap_or_default();
    let (shape, dtype, wanted) = (old.shape(), element_type.dtype, new.shape());
    let message = format!("the base has {found} {shape:?}, the delta is of {dtype} {wanted:?}");
    Err(placed(BASE.broken(message)))
}

/// Returns the checked view of a difference.
pub(super) fn view(tensor: &Tensor) -> Result<DeltaView> {
    let checked = tensor.checked_with(Check::All);
    let view = DeltaView::from_tensor(tensor.info(), |role| checked.bytes(role));
    view.map_err(|e| e.in_tensor(tensor.name()).in_source(tensor.file().name()))
}

/// Returns an item for a tensor that the delta has whole.
pub(super) fn whole(
    new: &Tensor,
    encoder: &dyn Encode,
    forms: &SparseForms,
    convert: &Convert,
) -> Result<Item> {
    match new.layout() {
        Layout::Planes(_) => dense_item(new),
        _ => item(new, encoder, forms, convert),
    }
}

/// Returns an item for a tensor that has the elements of the target already, with the attributes of the target.
pub(super) fn with_attributes(old: &Tensor, new: &Tensor) -> Result<Item> {
    let mut item = dense_item(old)?;
    item.spec.attributes = target_attributes(new);
    Ok(item)
}

/// Returns the attributes that a tensor of layout `delta` gives the tensor of the target.
pub(super) fn target_attributes(new: &Tensor) -> Attributes {
    let own = |key: &str| ATTRIBUTES.contains(&key);
    let attributes = new.attributes().iter().filter(|(key, _)| !own(key));
    attributes.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// Returns an item for a tensor that is computed from the base and a difference.
pub(super) fn changed(old: &Tensor, new: &Tensor, work: Work) -> Result<Item> {
    let element_type =
        old.dense_type().ok_or_else(|| NOT_DELTA.broken("the base has no elements"))?;
    old.check_dense()?;
    let mut data =
        ComponentSpec::new(Role::Data, element_type.dtype, element_type.len_of(old.count()));
    data.logical_type = element_type.logical_type;
    let spec = TensorSpec {
        name: new.name().to_owned(),
        shape: new.shape().to_vec(),
        layout: Layout::Dense,
        attributes: target_attributes(new),
        components: vec![data],
    };
    let (old, new) = (old.clone(), new.clone());
    let make = move || {
        let pieces: ComputedPieces = Box::new(TargetElements::new(&old, new, work)?);
        Ok(pieces)
    };
    Ok(Item { spec, feeds: vec![ComponentSource::Made(Box::new(make))], keep: CopyMode::Nothing })
}

/// The elements of the target of a difference, block by block. Their digest is compared after the last.
struct TargetElements {
    base: DensePieces,
    new: Tensor,
    view: DeltaView,
    /// Until it is compared.
    digest: Option<ElementsDigest>,
    /// The next block to compute.
    next: u64,
    /// Blocks that are computed.
    ready: VecDeque<Bytes>,
    work: Work,
}

impl TargetElements {
    fn new(old: &Tensor, new: Tensor, work: Work) -> Result<TargetElements> {
        let view = view(&new)?;
        let digest = Some(ElementsDigest::like(view.target()));
        let base = old.dense_pieces(Check::All)?;
        let ready = VecDeque::new();
        Ok(TargetElements { base, new, view, digest, next: 0, ready, work })
    }

    /// Computes the next blocks, on several threads.
    fn compute(&mut self) -> Result<()> {
        let count = self.view.count();
        let first = self.next;
        self.next = count.div_ceil(BLOCK).min(first.saturating_add(AT_ONCE));
        let width = self.view.element_type().width();
        let mut blocks = Vec::new();
        for block in first..self.next {
            let elements = block * BLOCK..count.min((block + 1) * BLOCK);
            let out = Buffer::mapped(((elements.end - elements.start) * width) as usize)?;
            blocks.push((block, self.base.piece(elements)?, out));
        }
        let view = &self.view;
        self.work.for_each(
            blocks.iter_mut().collect(),
            || (),
            |(), (block, base, out)| {
                out.as_mut().copy_from_slice(base);
                view.apply(*block, out.as_mut())
            },
        )?;
        for (_, _, mut out) in blocks {
            if let Some(digest) = &mut self.digest {
                digest.update(out.as_mut());
            }
            self.ready.push_back(out.freeze());
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<Option<Bytes>> {
        if self.ready.is_empty() {
            self.compute()?;
        }
        if let Some(block) = self.ready.pop_front() {
            return Ok(Some(block));
        }
        let Some(digest) = self.digest.take() else { return Ok(None) };
        let (found, target) = (digest.finish(), self.view.target());
        if found != target {
            return Err(TARGET.broken(format!("the result has the digest {found}, not {target}")));
        }
        Ok(None)
    }
}

impl Iterator for TargetElements {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let found = self.next_block();
        let in_context = |e: Error| e.in_tensor(self.new.name()).in_source(self.new.file().name());
        found.map_err(in_context).transpose()
    }
}
