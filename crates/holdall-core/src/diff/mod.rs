//! What differs between two files of any two formats: names, types, shapes, attributes, values.
//!
//! How something is stored is not a difference: encodings, digests, offsets, the order of tensors, and
//! which of the forms of a sparse layout a format has. Whoever reads the values of both hands them over.

mod structure;
mod values;

pub use structure::{TensorPair, compare, family};
pub(crate) use structure::{same_attribute, same_value};
pub use values::{Comparator, Scratch, Side, Tally, is_comparable, unravel};

use crate::error::Error;
use crate::layout::number::{ElementType, Number};
use crate::model::{Layout, Role, TensorInfo, Value};

/// Elements agree when `|a - b| <= atol + rtol * |b|`.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// How much of `|b|` they may be apart.
    pub rtol: f64,
    /// How far they may be apart whatever `b` is.
    pub atol: f64,
}

/// What differs between two files, `a` and `b`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Diff {
    /// Tensors that are only in `a`, in its order.
    pub removed: Vec<TensorInfo>,
    /// Tensors that are only in `b`, in its order.
    pub added: Vec<TensorInfo>,
    /// Tensors of both that are not the same in all, in the order of `a`.
    pub changed: Vec<TensorDiff>,
    /// Attributes of the files that are not the same.
    pub attributes: Vec<AttributeDiff>,
    /// Tensors that are in both.
    pub compared: u64,
    /// Those of them that are the same in all.
    pub identical: u64,
}

impl Diff {
    /// Whether there is no difference at all: the same tensors, bit for bit, and attributes.
    pub fn is_identical(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.is_empty()
            && self.attributes.is_empty()
    }

    /// Whether there is no difference but in values that agree under the tolerance.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.attributes.is_empty()
            && self.changed.iter().all(TensorDiff::is_same)
    }

    /// Whether nothing was found to differ, but some values could not be compared: see
    /// [`TensorDiff::incomparable`].
    pub fn is_undecided(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.attributes.is_empty()
            && self.changed.iter().all(|t| t.is_same() || t.is_undecided())
            && !self.is_same()
    }

    /// As [`Diff::is_undecided`] of what [`Diff::values_agree`] asks about.
    pub fn values_undecided(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.iter().all(|t| t.values_agree() || t.values_undecided())
            && !self.values_agree()
    }

    /// Whether both have the same names and shapes, and values that agree under the tolerance; types,
    /// layouts and attributes may differ. This is what a conversion to another precision keeps.
    pub fn values_agree(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.iter().all(TensorDiff::values_agree)
    }
}

/// What differs between two tensors of one name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorDiff {
    /// Their name.
    pub name: String,
    /// The types of their elements, if they are not the same. Of layouts that are not known only
    /// [`TensorDiff::components`] tells.
    pub types: Option<(Option<ElementType>, Option<ElementType>)>,
    /// Their shapes, if they are not the same; values are not compared then.
    pub shapes: Option<(Vec<u64>, Vec<u64>)>,
    /// Their layouts, if they do not mean the same.
    pub layouts: Option<(Layout, Layout)>,
    /// Attributes that are not the same.
    pub attributes: Vec<AttributeDiff>,
    /// Of quantized tensors and unknown layouts: components that are not the same.
    pub components: Vec<ComponentDiff>,
    /// How their values compare, if they are not all the same; of quantized tensors, also if only
    /// their components are not. Always none for layouts that are not known: see
    /// [`TensorDiff::components`].
    pub values: Option<ValueDiff>,
    /// Why their values could not be compared, if they could not.
    pub incomparable: Option<Error>,
}

impl TensorDiff {
    /// Whether there is anything to tell.
    pub fn is_change(&self) -> bool {
        self.types.is_some()
            || self.shapes.is_some()
            || self.layouts.is_some()
            || !self.attributes.is_empty()
            || !self.components.is_empty()
            || self.values.is_some()
            || self.incomparable.is_some()
    }

    /// Whether they differ in nothing but values that agree under the tolerance.
    pub fn is_same(&self) -> bool {
        self.types.is_none()
            && self.layouts.is_none()
            && self.attributes.is_empty()
            && self.values_agree()
    }

    /// Whether their shapes are the same, and their values agree under the tolerance.
    pub fn values_agree(&self) -> bool {
        self.incomparable.is_none() && self.none_differs()
    }

    /// Whether they may be the same: their values could not be compared, and nothing else differs.
    pub fn is_undecided(&self) -> bool {
        self.types.is_none()
            && self.layouts.is_none()
            && self.attributes.is_empty()
            && self.values_undecided()
    }

    /// Whether their values may agree: they could not be compared, and the shapes are the same.
    pub fn values_undecided(&self) -> bool {
        self.incomparable.is_some() && self.none_differs()
    }

    /// Whether no shape and no value was found to differ.
    fn none_differs(&self) -> bool {
        let same = match &self.values {
            // What quantized components stand for counts, not they themselves.
            Some(values) => values.differing == 0,
            None => self.components.iter().all(ComponentDiff::agrees),
        };
        same && self.shapes.is_none()
    }
}

/// What differs between two components of one role.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ComponentDiff {
    /// Their role.
    pub role: Role,
    /// The types of their elements; none where only the other tensor has such a component.
    pub types: (Option<ElementType>, Option<ElementType>),
    /// Their decoded lengths in bytes, where they are there and known.
    pub lens: (Option<u64>, Option<u64>),
    /// How their elements compare, if there are as many in both and they are not all the same.
    pub values: Option<ValueDiff>,
}

impl ComponentDiff {
    /// Two components of a role, before their elements were looked at.
    pub fn new(
        role: Role,
        types: (Option<ElementType>, Option<ElementType>),
        lens: (Option<u64>, Option<u64>),
    ) -> ComponentDiff {
        ComponentDiff { role, types, lens, values: None }
    }

    /// Whether there is anything to tell.
    pub fn is_change(&self) -> bool {
        self.types.0 != self.types.1 || self.lens.0 != self.lens.1 || self.values.is_some()
    }

    fn agrees(&self) -> bool {
        self.types.0 == self.types.1
            && self.lens.0 == self.lens.1
            && self.values.as_ref().is_none_or(|v| v.differing == 0)
    }
}

/// How elements compare.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// Elements of each. Of two sparse tensors with values in the same places, only those.
    pub count: u64,
    /// Elements that are not the same: other bits, or other numbers where the types differ.
    pub unequal: u64,
    /// Elements that do not agree under the tolerance; without one, as many as are unequal.
    pub differing: u64,
    /// The greatest `|a - b|`. Elements of which one is NaN are left out.
    pub max_abs: f64,
    /// The greatest `|a - b| / |b|` where `b` is not 0.
    pub max_rel: f64,
    /// The first element that does not agree.
    pub first: Option<DifferingElement>,
}

/// An element that does not agree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DifferingElement {
    /// Its place, one number for each dimension.
    pub index: Vec<u64>,
    /// What it is in `a`.
    pub a: Number,
    /// What it is in `b`.
    pub b: Number,
}

/// An attribute that is not the same in both.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeDiff {
    /// Its key.
    pub key: String,
    /// Its value in `a`, if it is there.
    pub a: Option<Value>,
    /// Its value in `b`, if it is there.
    pub b: Option<Value>,
}
