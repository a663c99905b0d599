//! The requested changes of an operation.

use crate::model::{DType, LogicalType};
use holdall_collections::HashMap;

/// The changes that a caller requested, and the losses that the operation allows. By default nothing changes, and only
/// digests may be left behind.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    tensors: HashMap<String, TensorChange>,
    /// Whether the caller replaced all file attributes of the source.
    replaces_attributes: bool,
    /// Keys of file attributes that the caller changed or removed.
    changed: Vec<String>,
    /// Keys of file attributes that the target cannot represent.
    left: Vec<String>,
    drops_attributes: bool,
    asks_for_digests: bool,
    ties: TieRule,
}

/// The expected handling of components that share their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TieRule {
    /// The components also share their bytes in the target.
    #[default]
    Keep,
    /// Whole tensors of the same shape and type also share their bytes in the target; other ties may be left behind.
    KeepWhole,
    /// The target cannot share bytes: all ties are left behind.
    Leave,
    /// The caller requested components that do not share bytes.
    Asked,
}

/// The requested changes of one tensor.
#[derive(Debug, Clone, Default)]
pub struct TensorChange {
    /// The tensor is not written.
    pub left_out: bool,
    /// The tensor's name in the target, if it changes.
    pub name: Option<String>,
    /// The layout, or the parameters of the layout, change.
    pub layout: bool,
    /// The shape changes.
    pub shape: bool,
    /// The elements are recomputed, and their type and number may change: records under another schema, or the result
    /// of a converter.
    pub elements: bool,
    /// The type that the elements may be converted to.
    pub element_type: Option<(DType, Option<LogicalType>)>,
    /// The tensor may be written as its stored elements without their logical type, with the shape that follows from
    /// this.
    pub stored_elements: bool,
    /// Keys of attributes that are set or removed.
    pub attributes: Vec<String>,
}

impl Expected {
    /// Creates an empty list of changes.
    pub fn new() -> Expected {
        Expected::default()
    }

    /// Returns the changes of the tensor with this name in the source, to be filled in.
    pub fn tensor(&mut self, name: &str) -> &mut TensorChange {
        self.tensors.entry(name.to_owned()).or_default()
    }

    /// Expects that the caller replaces the source's file attributes.
    pub fn replace_attributes(&mut self) {
        self.replaces_attributes = true;
    }

    /// Expects that the caller sets or removes the file attribute `key`.
    pub fn change_attribute(&mut self, key: impl Into<String>) {
        self.changed.push(key.into());
    }

    /// Allows the file attribute `key` to be left behind, because the target cannot represent it. The report names it.
    pub fn drop_attribute(&mut self, key: impl Into<String>) {
        self.left.push(key.into());
    }

    /// Allows all attributes of the file and of tensors to be left behind. The report names them.
    pub fn drop_attributes(&mut self) {
        self.drops_attributes = true;
    }

    /// Expects that the caller chose the digests of the target.
    pub fn choose_digests(&mut self) {
        self.asks_for_digests = true;
    }

    /// Sets what may happen to components that share their bytes.
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
