//! What an operation was asked to change.

use crate::model::{DType, LogicalType};
use holdall_collections::HashMap;

/// The changes that a caller asked for, and the losses that the operation allows. By default nothing changes and nothing
/// but digests may be left behind.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    tensors: HashMap<String, TensorChange>,
    /// Whether the caller gave other file attributes in place of all of the source's.
    replaces_attributes: bool,
    /// Keys of file attributes that the caller asked to change or to remove.
    changed: Vec<String>,
    /// Keys of file attributes that the target has no place for.
    left: Vec<String>,
    drops_attributes: bool,
    asks_for_digests: bool,
    ties: TieRule,
}

/// What may become of components that share their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TieRule {
    /// They share them in the target.
    #[default]
    Keep,
    /// Whole tensors of one shape and type share them in the target; other components may be left behind.
    KeepWhole,
    /// The target cannot share bytes: each is left behind.
    Leave,
    /// The caller asked for components with bytes of their own.
    Asked,
}

/// What was asked to become of one tensor.
#[derive(Debug, Clone, Default)]
pub struct TensorChange {
    /// It is not written.
    pub left_out: bool,
    /// Its name in the target, if that is another one.
    pub name: Option<String>,
    /// It gets another layout, or other parameters of its layout.
    pub layout: bool,
    /// It gets another shape.
    pub shape: bool,
    /// Its elements are made anew, of another type and number: records under another schema, what a converter returns.
    pub elements: bool,
    /// Its elements may become this type.
    pub element_type: Option<(DType, Option<LogicalType>)>,
    /// It may be written as its stored elements, without their logical type, with the shape that follows.
    pub stored_elements: bool,
    /// Keys of attributes that are set or removed.
    pub attributes: Vec<String>,
}

impl Expected {
    /// Nothing changes.
    pub fn new() -> Expected {
        Expected::default()
    }

    /// Returns the change of the tensor that has this name in the source, to be filled in.
    pub fn tensor(&mut self, name: &str) -> &mut TensorChange {
        self.tensors.entry(name.to_owned()).or_default()
    }

    /// The caller gives file attributes in place of those of the source.
    pub fn replace_attributes(&mut self) {
        self.replaces_attributes = true;
    }

    /// The caller sets or removes the file attribute `key`.
    pub fn change_attribute(&mut self, key: impl Into<String>) {
        self.changed.push(key.into());
    }

    /// The target has no place for the file attribute `key`; the report names it.
    pub fn leave_attribute(&mut self, key: impl Into<String>) {
        self.left.push(key.into());
    }

    /// Attributes may be left behind, those of the file and those of tensors; the report names them.
    pub fn leave_attributes(&mut self) {
        self.drops_attributes = true;
    }

    /// The caller chose the digests of the target.
    pub fn choose_digests(&mut self) {
        self.asks_for_digests = true;
    }

    /// Sets what may become of components that share their bytes.
    pub fn set_ties(&mut self, rule: TieRule) {
        self.ties = rule;
    }

    pub(super) fn change(&self, name: &str) -> Option<&TensorChange> {
        match self.tensors.is_empty() {
            true => None,
            false => self.tensors.get(name),
        }
    }

    pub(super) fn is_file_attribute_changed(&self, key: &str) -> bool {
        self.replaces_attributes || self.changed.iter().any(|changed| changed == key)
    }

    pub(super) fn may_leave_file_attribute(&self, key: &str) -> bool {
        self.drops_attributes || self.left.iter().any(|left| left == key)
    }

    pub(super) fn may_leave_attributes(&self) -> bool {
        self.drops_attributes
    }

    pub(super) fn are_digests_asked_for(&self) -> bool {
        self.asks_for_digests
    }

    pub(super) fn ties(&self) -> TieRule {
        self.ties
    }
}
