//! What differs between two files of any two formats: names, types, shapes, attributes, values.
//!
//! How something is stored is not a difference: encodings, digests, offsets, the order of tensors, and
//! which of the forms of a sparse layout a format has.

mod jobs;
mod schemas;
mod structure;
mod values;

pub use schemas::{SchemaDiff, diff_schemas};

use holdall_core::{Error, Layout, Result, Role, TensorInfo, Value};
use holdall_io::File;
use holdall_io::number::{ElementType, Number};
use holdall_io::select::Select;
use holdall_io::{Work, with_work};

/// What a caller chooses about a comparison.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    work: Work,
    select: Select,
    /// Without one, elements of one type agree when they are the same bits.
    tolerance: Option<Tolerance>,
}

/// Elements agree when `|a - b| <= atol + rtol * |b|`.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl DiffOptions {
    /// All tensors, compared exactly, one thread for each core, no progress.
    pub fn new() -> DiffOptions {
        DiffOptions::default()
    }

    /// Lets elements agree when `|a - b| <= atol + rtol * |b|`, as NumPy's `allclose` does; a NaN
    /// agrees with a NaN, an infinity only with itself, and 0.0 with -0.0, also where both are 0. Without a
    /// tolerance, the default, elements of one type agree when they are the same bits, elements of two types when
    /// they are the same number. Elements of an unknown logical type are not numbers: of them bits count always.
    pub fn with_tolerance(mut self, rtol: f64, atol: f64) -> DiffOptions {
        self.tolerance = Some(Tolerance { rtol, atol });
        self
    }

    /// Compares only these tensors, and the attributes of the files.
    pub fn with_select(mut self, select: Select) -> DiffOptions {
        self.select = select;
        self
    }
}

with_work!(DiffOptions);

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
    pub first: Option<Differing>,
}

/// An element that does not agree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Differing {
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

/// Compares two files, in bounded memory and on several threads.
///
/// Values are compared where the shapes are the same: between types as numbers, between layouts
/// by the elements they stand for. Sparse and quantized tensors are held in memory while they are
/// compared. Digests are not checked: [`crate::verify()`] does that.
///
/// # Errors
/// What reading either file finds wrong; NotFound, when the selection names a tensor that is in
/// neither.
pub fn diff(a: &File, b: &File, options: &DiffOptions) -> Result<Diff> {
    let (mut out, pairs) = structure::compare(a, b, &options.select)?;
    let changed = jobs::compare(&pairs, options)?;
    out.compared = pairs.len() as u64;
    out.changed = changed;
    out.identical = out.compared - out.changed.len() as u64;
    Ok(out)
}
