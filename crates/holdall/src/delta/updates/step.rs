//! One update: a whole model, or changes of tensors.

use super::super::{BASE, TARGET};
use super::VERSION;
use holdall_core::error::Escape as _;
use holdall_core::layout::update::bytes::{ByteDiff, DiffEncoding};
use holdall_core::layout::update::sparse::{SparseDiff, SparseHead};
use holdall_core::layout::update::{ChecksumKind, DeltaIndex, PAIR, SPARSE_HEAD};
use holdall_core::{Error, Layout, Result, Role};
use holdall_io::{Check, File, OpenOptions, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// An update.
pub(super) struct Step {
    /// The location, as it is shown.
    pub(super) name: String,
    /// The version that it leads to.
    pub(super) version: u64,
    /// The version that it is applied to, if it says so.
    pub(super) base: Option<u64>,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// A whole model.
    Whole(File),
    /// Differences of bytes.
    Bytes { delta: DeltaIndex, changes: BTreeMap<String, Change> },
    /// Differences of elements.
    Sparse { head: SparseHead, changes: BTreeMap<String, Change> },
}

/// A change of a tensor.
#[derive(Clone)]
pub(super) enum Change {
    Bytes {
        tensor: Tensor,
        encoding: DiffEncoding,
        checksums: ChecksumKind,
        /// The checksum of the new bytes.
        checksum: String,
    },
    Sparse {
        head: SparseHead,
        indices: Tensor,
        values: Tensor,
    },
}

/// A change that was decoded.
pub(super) enum Decoded {
    Bytes(ByteDiff),
    Sparse(SparseDiff),
}

impl Step {
    /// Returns the model, if the step is a whole one.
    pub(super) fn whole(&self) -> Option<&File> {
        match &self.content {
            Content::Whole(file) => Some(file),
            _ => None,
        }
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = (&String, &Change)> {
        self.all().into_iter().flatten()
    }

    /// Returns the change of a tensor, if it changes.
    pub(super) fn change(&self, name: &str) -> Option<&Change> {
        self.all()?.get(name)
    }

    fn all(&self) -> Option<&BTreeMap<String, Change>> {
        match &self.content {
            Content::Whole(_) => None,
            Content::Bytes { changes, .. } | Content::Sparse { changes, .. } => Some(changes),
        }
    }

    /// Checks every change against the tensor of `start` that it is applied to. Returns the number of elements that are listed
    /// or change.
    pub(super) fn check(&self, start: &File) -> Result<u64> {
        let (mut elements, mut total) = (0u64, 0u64);
        for (name, change) in self.changes() {
            let Ok(old) = start.tensor(name) else {
                let message = "the base lacks the tensor";
                return Err(BASE.broken(message).in_tensor(name).in_source(&self.name));
            };
            total = total.saturating_add(old.count());
            let decoded = change.decode(&old)?;
            elements = elements.saturating_add(decoded.changed(width(&old).unwrap_or(1)));
        }
        let all: u64 = start.tensors().map(|tensor| tensor.count()).fold(0, u64::saturating_add);
        if let Content::Sparse { head, .. } = &self.content
            && head.total != total
            && head.total != all
        {
            let stated = head.total;
            let message = format!(
                "the changed tensors have {stated} elements in the update, and {total} in the base"
            );
            return Err(BASE.broken(message).in_source(&self.name));
        }
        Ok(elements)
    }
}

impl Change {
    /// Decodes the change of a tensor, and checks that it fits.
    pub(super) fn decode(&self, old: &Tensor) -> Result<Decoded> {
        let part = self.part();
        let placed = |e: Error| e.in_tensor(old.name()).in_source(part.file().name());
        let has_elements = matches!(old.sound()?.layout(), Layout::Dense | Layout::Planes(_));
        let Some(element_type) = old.dense_type().filter(|_| has_elements) else {
            let message = format!("the tensor of the base is {}, not dense", old.layout().as_str());
            return Err(placed(BASE.broken(message)));
        };
        match self {
            Change::Bytes { tensor, encoding, .. } => {
                let stored = tensor.checked_with(Check::All).bytes(&Role::Data)?;
                let len = element_type.len_of(old.count());
                let diff = ByteDiff::decode(*encoding, &stored, len, tensor.file().limits());
                Ok(Decoded::Bytes(diff.map_err(placed)?))
            }
            Change::Sparse { head, indices, values } => {
                let of_values = values.dense_type();
                let is_alike = of_values.as_ref().is_some_and(|found| {
                    (found.dtype, &found.logical_type)
                        == (element_type.dtype, &element_type.logical_type)
                });
                let Some(width) = width(old).filter(|_| is_alike) else {
                    let found = of_values.map(|found| found.to_string()).unwrap_or_default();
                    let message = format!("the base is {element_type}, the values are {found}");
                    return Err(placed(BASE.broken(message)));
                };
                let diff = sparse(head, indices, values, old.count(), width);
                Ok(Decoded::Sparse(diff.map_err(placed)?))
            }
        }
    }

    /// Changes the elements of `old` in `elements`, and compares the checksum.
    pub(super) fn apply(&self, old: &Tensor, elements: &mut [u8]) -> Result<()> {
        let part = self.part();
        let placed = |e: Error| e.in_tensor(old.name()).in_source(part.file().name());
        match self.decode(old)? {
            Decoded::Bytes(diff) => diff.apply(elements).map_err(placed)?,
            Decoded::Sparse(diff) => diff.apply(elements).map_err(placed)?,
        }
        if let Change::Bytes { checksums, checksum, .. } = self {
            let found = checksums.compute(elements);
            if !ChecksumKind::agree(checksum, &found) {
                let (kind, stated) = (checksums.name(), checksum.escaped());
                let message = format!("the result has the {kind} {found}, not {stated}");
                let e = TARGET.broken(message).with_hint(
                    "the update is damaged, or the base is not the version that it was made from",
                );
                return Err(placed(e));
            }
        }
        Ok(())
    }

    /// Decodes a change of elements without its base, or returns `None` if it is one of bytes.
    pub(super) fn decode_sparse(&self) -> Result<Option<SparseDiff>> {
        let Change::Sparse { head, indices, values } = self else { return Ok(None) };
        let placed = |e: Error| e.in_tensor(values.name()).in_source(values.file().name());
        let Some(width) = width(values) else {
            return Err(placed(PAIR.broken("the values are not of whole bytes")));
        };
        sparse(head, indices, values, u64::MAX, width).map(Some).map_err(placed)
    }

    /// Returns the bytes that the change takes in its file.
    pub(super) fn stored_len(&self) -> u64 {
        match self {
            Change::Bytes { tensor, .. } => tensor.stored_len(),
            Change::Sparse { indices, values, .. } => {
                indices.stored_len().saturating_add(values.stored_len())
            }
        }
    }

    /// Returns a tensor of the file that has the change.
    fn part(&self) -> &Tensor {
        match self {
            Change::Bytes { tensor, .. } => tensor,
            Change::Sparse { values, .. } => values,
        }
    }
}

impl Decoded {
    fn changed(&self, width: u64) -> u64 {
        match self {
            Decoded::Bytes(diff) => diff.changed_elements(width),
            Decoded::Sparse(diff) => diff.changed(),
        }
    }
}

/// Decodes indices and values of a tensor of `count` elements.
fn sparse(
    head: &SparseHead,
    indices: &Tensor,
    values: &Tensor,
    count: u64,
    width: u64,
) -> Result<SparseDiff> {
    let stored = indices.checked_with(Check::All).bytes(&Role::Data)?;
    let dtype = indices.require(&Role::Data)?.dtype;
    let bytes = values.checked_with(Check::All).bytes(&Role::Data)?;
    SparseDiff::decode(head.layout, dtype, &stored, bytes, count, width)
}

/// Returns the bytes of an element, or `None` if an element is not a number of whole bytes.
pub(super) fn width(tensor: &Tensor) -> Option<u64> {
    let element_type = tensor.dense_type()?;
    let is_whole = element_type.len_of(8) == element_type.len_of(1).saturating_mul(8);
    Some(element_type.len_of(1)).filter(|_| is_whole)
}

/// Reads a file of sparse steps. `wanted` is the number in its name.
pub(super) fn read(path: &Path, wanted: Option<u64>, options: &OpenOptions) -> Result<Step> {
    let file = options.open(path)?;
    let name = path.display().to_string();
    let placed = |e: Error| e.in_source(&name);
    let head = SparseHead::read(file.attributes()).map_err(placed)?;
    let head = head.ok_or_else(|| {
        placed(SPARSE_HEAD.broken("the metadata has no `format` sparse_weight_patch"))
    })?;
    let version = head.model_version;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != version) {
        let message = format!("the metadata says step {version}, the name {wanted}");
        return Err(placed(VERSION.broken(message)));
    }
    if !head.is_sparse {
        let content = Content::Whole(file);
        return Ok(Step { name, version, base: None, content });
    }
    let changes = pairs(&file, &head).map_err(placed)?;
    check_counts(&head, &changes).map_err(placed)?;
    // The values are those of the step: the one before is the only one that they are known to fit.
    let base = version.checked_sub(1);
    Ok(Step { name, version, base, content: Content::Sparse { head, changes } })
}

/// Returns the pairs of indices and values by the names of their tensors.
fn pairs(file: &File, head: &SparseHead) -> Result<BTreeMap<String, Change>> {
    let [indices_end, values_end] = head.layout.suffixes();
    let mut found: BTreeMap<String, [Option<Tensor>; 2]> = BTreeMap::new();
    for tensor in file.tensors() {
        let placed = |e: Error| e.in_tensor(tensor.name());
        let own = tensor.name();
        let (name, at) = match (own.strip_suffix(indices_end), own.strip_suffix(values_end)) {
            (Some(name), _) => (name, 0),
            (None, Some(name)) => (name, 1),
            (None, None) => {
                let message = format!("the name ends with neither {indices_end} nor {values_end}");
                return Err(placed(PAIR.broken(message)));
            }
        };
        if *tensor.sound()?.layout() != Layout::Dense || tensor.shape().len() != 1 {
            return Err(placed(PAIR.broken("it has not one dimension")));
        }
        found.entry(name.to_owned()).or_default()[at] = Some(tensor.clone());
    }
    let pair = |(name, parts): (String, [Option<Tensor>; 2])| match parts {
        [Some(indices), Some(values)] => {
            let (a, b) = (indices.count(), values.count());
            if a != b {
                let message = format!("there are {a} indices, but {b} values");
                return Err(PAIR.broken(message).in_tensor(&name));
            }
            Ok((name, Change::Sparse { head: head.clone(), indices, values }))
        }
        [None, _] => Err(PAIR.broken("there are values, but no indices").in_tensor(&name)),
        [_, None] => Err(PAIR.broken("there are indices, but no values").in_tensor(&name)),
    };
    found.into_iter().map(pair).collect()
}

/// Compares the counts of the metadata with the tensors.
fn check_counts(head: &SparseHead, changes: &BTreeMap<String, Change>) -> Result<()> {
    let elements = changes.values().map(|change| change.part().count());
    let elements = elements.fold(0, u64::saturating_add);
    let found = [("num_changed_params", head.tensors, changes.len() as u64)].into_iter().chain([(
        "total_changed_elements",
        head.changed,
        elements,
    )]);
    for (key, stated, found) in found {
        if stated != found {
            return Err(SPARSE_HEAD.broken(format!("`{key}` is {stated}, but there are {found}")));
        }
    }
    if let Some(names) = &head.names {
        let listed: BTreeSet<&String> = names.iter().collect();
        if listed.len() != names.len() || !listed.into_iter().eq(changes.keys()) {
            let message = "`changed_params` does not list the tensors of the file";
            return Err(SPARSE_HEAD.broken(message));
        }
    }
    Ok(())
}
