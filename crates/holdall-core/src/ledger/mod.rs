//! The ledger: compares a model that was written again with its source, item by item.
//!
//! Every tensor, component, type, attribute, digest and shared component of the source is in the target, or it is a
//! [`Loss`]. A loss that the operation allows, because it was requested or because the target cannot represent the
//! item, is [left behind](Ledger::left_behind), and the operation reports it. Every other loss is a bug in Holdall:
//! [`Ledger::check`] returns an error for it before anything is published.
//!
//! An operation only describes the requested changes, as [`Expected`]. It keeps no list of what it drops.

mod expected;
mod loss;
mod record;
mod ties;

pub use expected::{Expected, TensorChange, TieRule};
pub use loss::{Loss, LossKind};
pub use record::{Record, Side};

use crate::diff::{family, same_attribute, same_value};
use crate::error::{Result, list};
use crate::layout::is_parameter;
use crate::layout::quantized::ORIGINAL_FIELDS;
use crate::model::{Attributes, DType, Digest, Layout, LogicalType, Role};
use record::{ComponentEntry, Entry};

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// Something of the source is neither in the target nor reported as left behind.
    pub LEDGER: Unsupported "internal/ledger"
        "The target contains everything that its source contains, except for requested changes and what the report names as left behind."
        hint "this is a bug in Holdall, not a fault of the file, and nothing was published; please report it";
}

/// The result of comparing a source with what was written from it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// Items that are missing in the target because it cannot represent them, or because the caller allowed it.
    pub left_behind: Vec<Loss>,
    /// Items that are missing in the target without a reason.
    pub unaccounted: Vec<Loss>,
}

impl Ledger {
    /// Returns descriptions of the dropped items, for a report: each kind of item once, with its tensors.
    ///
    /// # Errors
    /// Returns [`LEDGER`] if something is missing without a reason.
    pub fn check(&self) -> Result<Vec<String>> {
        if self.unaccounted.is_empty() {
            return Ok(loss::words(&self.left_behind));
        }
        let words = loss::words(&self.unaccounted);
        Err(LEDGER.broken(format!("the target lacks {}", list(&words))))
    }
}

/// Compares a model with what was written from it.
pub fn compare(source: Side<'_>, target: Side<'_>, expected: &Expected) -> Ledger {
    let mut out = Ledger::default();
    for words in source.unrepresented() {
        out.left_behind.push(Loss::new(LossKind::Unknown(words.clone())));
    }
    if let (Some(source), Some(target)) = (source.attributes(), target.attributes()) {
        file_attributes(source, target, expected, &mut out);
    }
    let indices = target.indices_by_name();
    // The index in the target of each tensor of the source.
    let mut found = Vec::with_capacity(source.len());
    for at in 0..source.len() {
        let entry = source.entry(at);
        let change = expected.change(entry.name());
        if change.is_some_and(|change| change.left_out) {
            found.push(None);
            continue;
        }
        let name = change.and_then(|change| change.name.as_deref()).unwrap_or(entry.name());
        let index = indices.get(name).copied();
        found.push(index);
        match index {
            Some(index) => {
                let other = target.entry(index);
                let nothing = TensorChange::default();
                let change = change.unwrap_or(&nothing);
                Pair { source: &entry, target: &other, change, expected, out: &mut out }.compare();
            }
            None => out.unaccounted.push(Loss::in_tensor(entry.name(), LossKind::Tensor)),
        }
    }
    ties::compare(&source, &target, &found, expected, &mut out);
    out
}

fn file_attributes(
    source: &Attributes,
    target: &Attributes,
    expected: &Expected,
    out: &mut Ledger,
) {
    for (key, value) in source.iter() {
        let is_kept = || target.get(key).is_some_and(|other| same_value(value, other));
        if expected.is_file_attribute_changed(key) || is_kept() {
            continue;
        }
        let loss = Loss::new(LossKind::FileAttribute(key.to_owned()));
        match expected.may_leave_file_attribute(key) {
            true => out.left_behind.push(loss),
            false => out.unaccounted.push(loss),
        }
    }
}

/// A tensor of the source, and the tensor that it became.
struct Pair<'a> {
    source: &'a Entry<'a>,
    target: &'a Entry<'a>,
    change: &'a TensorChange,
    expected: &'a Expected,
    out: &'a mut Ledger,
}

impl Pair<'_> {
    fn compare(mut self) {
        if self.source.is_faulty() {
            return;
        }
        let (old, new) = (self.source.layout(), self.target.layout());
        let may_have_other_shape =
            self.change.shape || self.change.elements || self.change.stored_elements;
        if self.source.shape() != self.target.shape() && !may_have_other_shape {
            self.unaccounted(LossKind::Shape);
        }
        if !self.is_layout_accounted(old, new) {
            self.unaccounted(LossKind::Layout(old.as_str().to_owned()));
        }
        let (parts, others) = (self.source.parts(), self.target.parts());
        if !self.change.elements {
            self.element_type(&parts, &others);
        }
        let is_other_layout = old != new || self.change.layout || self.change.elements;
        if !is_other_layout {
            self.components(&parts, &others);
        }
        self.digests(&parts, &others);
        self.attributes(is_other_layout);
    }

    /// Returns `true` if the layout is equal, is a variant of the same layout, or was requested to change.
    fn is_layout_accounted(&mut self, old: &Layout, new: &Layout) -> bool {
        if old == new || self.change.layout || self.change.elements || family(old) == family(new) {
            return true;
        }
        match (old, new) {
            (Layout::Strided, Layout::Dense) => true,
            (Layout::SparseBlocks | Layout::SparseHybrid, Layout::Dense) => {
                self.left_behind(LossKind::Layout(old.as_str().to_owned()));
                true
            }
            _ => false,
        }
    }

    /// Compares the types of the tensors' elements, in whichever component these are.
    fn element_type(&mut self, parts: &[ComponentEntry], others: &[ComponentEntry]) {
        let Some(old) = main(parts) else { return };
        // An unknown layout has no main component, so the components of the same role are compared.
        let same_role = others.iter().find(|other| other.role == old.role);
        let Some(new) = same_role.or_else(|| main(others)) else { return };
        let was = element_type(self.source.layout(), old);
        let is = element_type(self.target.layout(), new);
        let is_computed = self.source.layout().is_computed()
            || self.target.layout().is_computed()
            || matches!(self.source.layout(), Layout::Other(_));
        let is_cast =
            |(dtype, logical): &(DType, Option<LogicalType>)| (*dtype, logical.as_ref()) == is;
        let asked = self.change.element_type.as_ref().map(|(dtype, _)| *dtype);
        let is_storage_of = |dtype| dtype == old.dtype || asked == Some(dtype);
        let is_accounted = was == is
            || (self.change.layout && is_computed)
            || self.change.element_type.as_ref().is_some_and(is_cast)
            || (self.change.stored_elements && is.1.is_none() && is_storage_of(new.dtype));
        if !is_accounted {
            self.unaccounted(LossKind::ElementType(old.type_name()));
        }
    }

    fn components(&mut self, parts: &[ComponentEntry], others: &[ComponentEntry]) {
        let main_role = main(parts).map(|part| part.role.clone());
        for part in parts {
            let Some(other) = others.iter().find(|other| other.role == part.role) else {
                self.unaccounted(LossKind::Component(part.role.clone()));
                continue;
            };
            // The main component was compared in `element_type`.
            let is_main = main_role.as_ref() == Some(&part.role);
            let is_index = matches!(part.role, Role::Indices | Role::Indptr | Role::Coords);
            let is_same_type = part.dtype == other.dtype && part.logical_type == other.logical_type;
            if !is_same_type && !is_main && !is_index {
                self.unaccounted(LossKind::ElementType(part.type_name()));
            }
            let lens = part.decoded_len.zip(other.decoded_len);
            if is_same_type && lens.is_some_and(|(old, new)| old != new) {
                self.unaccounted(LossKind::Component(part.role.clone()));
            }
        }
    }

    fn digests(&mut self, parts: &[ComponentEntry], others: &[ComponentEntry]) {
        if self.expected.are_digests_asked_for() {
            return;
        }
        for part in parts {
            let Some(Some(digest)) = &part.digest else { continue };
            let same_role = others.iter().find(|other| other.role == part.role);
            // A component without bytes needs no digest.
            let Some(other) = same_role.or(main(others)).filter(|c| c.decoded_len != Some(0))
            else {
                continue;
            };
            match &other.digest {
                None => {}
                Some(Some(new)) if rank(new) >= rank(digest) => {}
                Some(_) => self.left_behind(LossKind::Digest(
                    Digest::algorithm_of(&digest.to_string()).to_owned(),
                )),
            }
        }
    }

    /// Compares the attributes. `is_other_layout` says that the parameters of the old layout are not needed any more.
    fn attributes(&mut self, is_other_layout: bool) {
        let (old, new) = (self.source.layout(), self.target.layout());
        for (key, value) in self.source.attributes().iter() {
            let is_kept = || {
                let other = self.target.attributes().get(key);
                other.is_some_and(|other| same_attribute(key, value, other))
            };
            // The attribute that lists equivalent spellings may change.
            let is_spelling = *old == Layout::QuantizedGroup && key == ORIGINAL_FIELDS;
            let is_asked = self.change.attributes.iter().any(|changed| changed == key);
            if is_asked || is_spelling || (is_other_layout && is_parameter(old, key)) || is_kept() {
                continue;
            }
            let is_replaced = is_other_layout && is_parameter(new, key);
            let lost = LossKind::Attribute(key.to_owned());
            if is_replaced || self.expected.may_leave_attributes() {
                self.left_behind(lost);
            } else {
                self.unaccounted(lost);
            }
        }
    }

    fn left_behind(&mut self, lost: LossKind) {
        self.out.left_behind.push(Loss::in_tensor(self.source.name(), lost));
    }

    fn unaccounted(&mut self, lost: LossKind) {
        self.out.unaccounted.push(Loss::in_tensor(self.source.name(), lost));
    }
}

/// Returns the component that contains the elements, as [`crate::TensorInfo::dtype`] does.
fn element_type<'a>(layout: &Layout, main: &'a ComponentEntry) -> (DType, Option<&'a LogicalType>) {
    match layout {
        Layout::Planes(of) => (of.dtype, None),
        _ => (main.dtype, main.logical_type.as_ref()),
    }
}

/// Returns the component that holds the elements.
fn main(parts: &[ComponentEntry]) -> Option<&ComponentEntry> {
    let roles = [Role::Data, Role::Values, Role::PackedWeight, Role::Entries];
    let of_role = |role| parts.iter().find(|part| part.role == role);
    roles.into_iter().find_map(of_role).or_else(|| parts.first())
}

/// Returns how strong a digest is: 1 against accidents, 2 against attacks too, 3 if unknown.
fn rank(digest: &Digest) -> u8 {
    match digest {
        Digest::Crc32c(_) | Digest::Crc32(_) | Digest::Xxh3(_) => 1,
        Digest::Sha256(_) | Digest::Sha256Decoded(_) => 2,
        Digest::Other(_) => 3,
    }
}

#[cfg(test)]
mod tests;
