//! Differences between two files of any formats: names, types, shapes, attributes, values.
//!
//! How something is stored is not a difference: encodings, digests, offsets, the order of tensors, and which variant of
//! a sparse layout a format has. The caller reads the values of both files and passes them to this module.

mod layers;
mod squares;
mod structure;
mod values;

pub use layers::{LayerDiff, Layers, layer_name};
pub use squares::{Squares, sum_of_squares};
pub use structure::{TensorPair, compare, compare_attributes, family};
pub(crate) use structure::{same_attribute, same_value};
pub use values::{Comparator, EqualBlocks, Scratch, Side, Tally, is_comparable, unravel};

use crate::error::Error;
use crate::layout::number::{ElementType, Number};
use crate::model::{Layout, Role, TensorInfo, Value};

/// The tolerance of a comparison: elements agree if `|a - b| <= atol + rtol * |b|`.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// The relative tolerance, a factor of `|b|`.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
}

/// The differences between two files, `a` and `b`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Diff {
    /// Tensors that are only in `a`, in its order.
    pub removed: Vec<TensorInfo>,
    /// Tensors that are only in `b`, in its order.
    pub added: Vec<TensorInfo>,
    /// Tensors that are in both files and differ, in the order of `a`.
    pub changed: Vec<TensorDiff>,
    /// Attributes of the files that differ.
    pub attributes: Vec<AttributeDiff>,
    /// The layers of the model, in the order of `a`, each with what changed in it. Tensors that only one file has are in none.
    pub layers: Vec<LayerDiff>,
    /// The number of tensors that are in both files.
    pub compared: u64,
    /// The number of tensors that are identical in both files.
    pub identical: u64,
}

impl Diff {
    /// Returns `true` if there is no difference: both files have the same tensors, bit for bit, and the same
    /// attributes.
    pub fn is_identical(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.is_empty()
            && self.attributes.is_empty()
    }

    /// Returns `true` if the only differences are values that agree within the tolerance.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.attributes.is_empty()
            && self.changed.iter().all(TensorDiff::is_same)
    }

    /// Returns `true` if no difference was found, but some values could not be compared: see
    /// [`TensorDiff::incomparable`].
    pub fn is_undecided(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.attributes.is_empty()
            && self.changed.iter().all(|t| t.is_same() || t.is_undecided())
            && !self.is_same()
    }

    /// Returns `true` if [`Diff::values_agree`] cannot be decided because some values could not be compared.
    pub fn values_undecided(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.iter().all(|t| t.values_agree() || t.values_undecided())
            && !self.values_agree()
    }

    /// Returns `true` if both files have the same names and shapes, and values that agree within the tolerance. Types,
    /// layouts and attributes may differ. A conversion to another precision preserves this.
    pub fn values_agree(&self) -> bool {
        self.removed.is_empty()
            && self.added.is_empty()
            && self.changed.iter().all(TensorDiff::values_agree)
    }
}

/// The differences between two tensors of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorDiff {
    /// The name of the tensors.
    pub name: String,
    /// The types of the elements, if they differ. Always `None` for unknown layouts, whose types are compared in
    /// [`TensorDiff::components`].
    pub types: Option<(Option<ElementType>, Option<ElementType>)>,
    /// The shapes, if they differ; values are not compared then.
    pub shapes: Option<(Vec<u64>, Vec<u64>)>,
    /// The layouts, if they are not equivalent.
    pub layouts: Option<(Layout, Layout)>,
    /// Attributes that differ.
    pub attributes: Vec<AttributeDiff>,
    /// Components that differ, for quantized tensors and unknown layouts.
    pub components: Vec<ComponentDiff>,
    /// How the values compare, if they are not all equal; for quantized tensors, also if only the components differ.
    /// Always `None` for unknown layouts: see [`TensorDiff::components`].
    pub values: Option<ValueDiff>,
    /// The error because of which the values could not be compared, if any.
    pub incomparable: Option<Error>,
}

impl TensorDiff {
    /// Returns `true` if there is any difference to report.
    pub fn is_change(&self) -> bool {
        self.types.is_some()
            || self.shapes.is_some()
            || self.layouts.is_some()
            || !self.attributes.is_empty()
            || !self.components.is_empty()
            || self.values.is_some()
            || self.incomparable.is_some()
    }

    /// Returns `true` if the only differences are values that agree within the tolerance.
    pub fn is_same(&self) -> bool {
        self.types.is_none()
            && self.layouts.is_none()
            && self.attributes.is_empty()
            && self.values_agree()
    }

    /// Returns `true` if the shapes are equal, and the values agree within the tolerance.
    pub fn values_agree(&self) -> bool {
        self.incomparable.is_none() && self.none_differs()
    }

    /// Returns `true` if the values could not be compared, and nothing else differs.
    pub fn is_undecided(&self) -> bool {
        self.types.is_none()
            && self.layouts.is_none()
            && self.attributes.is_empty()
            && self.values_undecided()
    }

    /// Returns `true` if the values could not be compared, and the shapes are equal.
    pub fn values_undecided(&self) -> bool {
        self.incomparable.is_some() && self.none_differs()
    }

    /// Returns `true` if no shape and no value was found to differ.
    fn none_differs(&self) -> bool {
        let same = match &self.values {
            // The dequantized values count, not the components themselves.
            Some(values) => values.differing == 0,
            None => self.components.iter().all(ComponentDiff::agrees),
        };
        same && self.shapes.is_none()
    }
}

/// The differences between two components of the same role.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ComponentDiff {
    /// The role of the components.
    pub role: Role,
    /// The types of the elements; `None` if one tensor has no such component.
    pub types: (Option<ElementType>, Option<ElementType>),
    /// The decoded lengths in bytes, if the components exist and the lengths are known.
    pub lens: (Option<u64>, Option<u64>),
    /// How the elements compare, if there are equally many in both and they are not all equal.
    pub values: Option<ValueDiff>,
}

impl ComponentDiff {
    /// Creates the description of two components whose elements were not compared yet.
    pub fn new(
        role: Role,
        types: (Option<ElementType>, Option<ElementType>),
        lens: (Option<u64>, Option<u64>),
    ) -> ComponentDiff {
        ComponentDiff { role, types, lens, values: None }
    }

    /// Returns `true` if there is any difference to report.
    pub fn is_change(&self) -> bool {
        self.types.0 != self.types.1 || self.lens.0 != self.lens.1 || self.values.is_some()
    }

    fn agrees(&self) -> bool {
        self.types.0 == self.types.1
            && self.lens.0 == self.lens.1
            && self.values.as_ref().is_none_or(|v| v.differing == 0)
    }
}

/// The result of comparing elements.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// The number of elements in each tensor. For two sparse tensors with values at the same coordinates, only these values.
    pub count: u64,
    /// The number of elements that are not equal: different bits, or different numbers if the types differ.
    pub unequal: u64,
    /// The number of elements that do not agree within the tolerance; without a tolerance, equal to `unequal`.
    pub differing: u64,
    /// The maximum of `|a - b|`. Elements of which one is NaN are ignored.
    pub max_abs: f64,
    /// The maximum of `|a - b| / |b|` over the elements where `b` is not 0.
    pub max_rel: f64,
    /// The number of unequal elements of which one is NaN or infinite. `rms`, `relative` and `cosine` leave them out.
    pub non_finite: u64,
    /// The root of the mean square of the differences. `None`, like the next two fields, if the elements are of an unknown
    /// type, or if a sum overflows `f64`.
    pub rms: Option<f64>,
    /// `rms` divided by the root of the mean square of the elements of `a`: infinite if all of these are 0 and others are
    /// not.
    pub relative: Option<f64>,
    /// The cosine of the angle between both tensors as vectors: 1 if they are equal, 0 if all elements of one are 0.
    pub cosine: Option<f64>,
    /// The first element that does not agree.
    pub first: Option<DifferingElement>,
}

impl ValueDiff {
    /// Returns the share of the elements that are not equal, from 0 to 1.
    pub fn share(&self) -> f64 {
        share(self.unequal, self.count)
    }

    /// Sets the fields that are computed from sums over all elements; `None` if these are not numbers.
    pub fn set_squares(&mut self, squares: Option<&Squares>) {
        let squares = squares.filter(|squares| squares.is_finite());
        self.rms = squares.map(|s| s.rms(self.count.saturating_sub(self.non_finite)));
        self.relative = squares.map(Squares::relative);
        self.cosine = squares.map(Squares::cosine);
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// An element that does not agree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DifferingElement {
    /// The element's index, one number per dimension.
    pub index: Vec<u64>,
    /// The element's value in `a`.
    pub a: Number,
    /// The element's value in `b`.
    pub b: Number,
}

/// An attribute that differs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeDiff {
    /// The attribute's key.
    pub key: String,
    /// The value in `a`, if it exists.
    pub a: Option<Value>,
    /// The value in `b`, if it exists.
    pub b: Option<Value>,
}
