//! Compares two files of any two formats: names, types, shapes, attributes, values.
//!
//! Differences in storage are ignored: encodings, digests, offsets, the order of tensors, and the spelling of
//! a sparse layout in the format.

mod jobs;
mod norms;
mod sample;
mod schemas;
mod values;

pub use holdall_core::diff::{
    AttributeDiff, ComponentDiff, Diff, DifferingElement, LayerDiff, TensorDiff, ValueDiff,
};
pub use sample::{SampleDiff, SampleOptions, SampleVerdict, sample};
pub use schemas::{SchemaDiff, diff_schemas};

use holdall_core::Result;
use holdall_core::diff::{Tolerance, compare};
use holdall_io::File;
use holdall_io::select::Select;
use holdall_io::{Work, with_work};

/// Options of a comparison.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    work: Work,
    select: Select,
    /// If `None`, elements of the same type are equal if their bits are equal.
    tolerance: Option<Tolerance>,
}

impl DiffOptions {
    /// Creates the default options: all tensors, compared exactly, one thread per core, no progress.
    pub fn new() -> DiffOptions {
        DiffOptions::default()
    }

    /// Treats elements as equal if `|a - b| <= atol + rtol * |b|`, as NumPy's `allclose` does. NaN equals
    /// NaN, an infinity equals only itself, and 0.0 equals -0.0, even if both tolerances are 0. Without a
    /// tolerance, the default, elements of one type are equal if they have the same bits, and elements of two
    /// types if they are the same number. Elements of an unknown logical type are not numbers, so their bits
    /// are always compared.
    pub fn with_tolerance(mut self, rtol: f64, atol: f64) -> DiffOptions {
        self.tolerance = Some(Tolerance { rtol, atol });
        self
    }

    /// Compares only the selected tensors, and the attributes of the files.
    pub fn with_select(mut self, select: Select) -> DiffOptions {
        self.select = select;
        self
    }
}

with_work!(DiffOptions);

/// Compares two files, in bounded memory and on several threads.
///
/// Values are compared if the shapes are equal: elements of different types as numbers, different layouts by
/// their dense elements. Quantized tensors, and sparse tensors whose entries are at different positions, are
/// held in memory while they are compared. Digests are not checked: [`crate::verify()`] does that.
///
/// The sums of squares for [`ValueDiff::relative`] and [`LayerDiff::relative`] need elements of `a` that are the same in `b`, too. If
/// a layer changed, its tensors in `a` that have such elements are read a second time, unless they are far away.
///
/// # Errors
/// Returns the errors of reading either file; a `NotFound` error if the selection names a tensor that is in neither file.
pub fn diff(a: &File, b: &File, options: &DiffOptions) -> Result<Diff> {
    let takes = |name: &str| options.select.selects(name);
    let (mut out, pairs) = compare(a.index(), b.index(), takes);
    if a.has_texts_of(b).unwrap_or(false) {
        // The same texts, once next to the model.
        let texts = a.quantization_attribute().or(b.quantization_attribute());
        out.attributes.retain(|own| texts.is_none_or(|(key, _)| own.key != key));
    }
    if out.compared == 0 && out.removed.is_empty() && out.added.is_empty() {
        // Returns the error if the selection matches nothing in either file.
        options.select.tensors(a)?;
    }
    let with_files = |pair: holdall_core::diff::TensorPair| {
        let (x, y) = (a.tensor(pair.a.name())?, b.tensor(pair.b.name())?);
        Ok(jobs::Pair { a: x, b: y, diff: pair.diff })
    };
    let pairs = pairs.into_iter().map(with_files).collect::<Result<Vec<_>>>()?;
    let mut found = jobs::compare(&pairs, options)?;
    out.layers = norms::layers(&pairs, &mut found, options)?;
    out.changed = found.changed.into_iter().map(|(_, diff)| diff).collect();
    out.identical = out.compared - out.changed.len() as u64;
    Ok(out)
}
