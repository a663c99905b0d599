//! Compares a converted model with its source, through a recipe.

mod errors;

use super::{ModelConvert, planned_for};
use errors::{Bound, Sums};
use holdall_core::diff::{AttributeDiff, compare_attributes};
use holdall_core::layout::blocks::Blocks;
use holdall_core::layout::float::decode_f32;
use holdall_core::layout::number::ElementType;
use holdall_core::layout::{Computed as _, NOT_FINITE};
use holdall_core::model::BlockType;
use holdall_core::{Attributes, Bytes, DType, Layout, Result, Role, Warning};
use holdall_io::{Check, File, Tensor};
use holdall_models::recipe::{Form, Output, Plan};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Keys of the metadata that depend on options of the conversion.
const OPTIONAL_KEYS: [&str; 4] =
    ["general.file_type", "general.name", "general.size_label", "general.quantization_version"];

/// The result of a comparison of a converted model with its source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelDiff {
    /// The name of the recipe.
    pub recipe: String,
    /// The tensors that the conversion writes and the converted model has, in the order of the conversion.
    pub tensors: Vec<ConvertedTensor>,
    /// The names of the tensors that the conversion writes and the converted model lacks.
    pub missing: Vec<String>,
    /// The names of the tensors that only the converted model has.
    pub added: Vec<String>,
    /// The keys of the metadata that the conversion writes with another value. `a` is the value that it writes.
    /// Keys that the options of a conversion decide, such as `general.name`, are not compared.
    pub attributes: Vec<AttributeDiff>,
    /// The keys of the metadata that only the converted model has: a model card's, for example.
    pub added_attributes: Vec<String>,
    /// Properties of the model that the converted form cannot express.
    pub warnings: Vec<Warning>,
}

impl ModelDiff {
    /// Returns `true` if the converted model is what the conversion writes, but for the errors of quantization.
    pub fn is_faithful(&self) -> bool {
        self.missing.is_empty()
            && self.added.is_empty()
            && self.attributes.is_empty()
            && self.tensors.iter().all(|t| t.verdict != Verdict::Differs)
    }
}

/// What a comparison found out about a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The bytes are those that the conversion into the tensor's type writes.
    Exact,
    /// Some elements of a tensor that is computed by an exponential differ in the last place.
    Rounded,
    /// The blocks are not those that Holdall writes, but all are as near to the source as the type allows.
    Quantized,
    /// The tensor has another shape, or other values.
    Differs,
}

impl Verdict {
    /// Returns the name, such as `exact`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Rounded => "rounded",
            Verdict::Quantized => "quantized",
            Verdict::Differs => "differs",
        }
    }
}

/// A tensor of a converted model, compared with the values of its source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConvertedTensor {
    /// The name in the converted model.
    pub name: String,
    /// The shape in the converted model.
    pub shape: Vec<u64>,
    /// The type of its elements or blocks, such as `bf16` or `q8_0`.
    pub stored: String,
    /// The shape that the conversion writes, if it is another one. Then no value was compared.
    pub expected_shape: Option<Vec<u64>>,
    /// The result.
    pub verdict: Verdict,
    /// The number of elements.
    pub count: u64,
    /// The number of units (elements, or blocks of a quantized tensor) with other bytes than the conversion writes;
    /// `None` if Holdall does not write this type bit for bit as other writers do.
    pub differing: Option<u64>,
    /// The first such unit: its elements, in row-major order.
    pub first: Option<Range<u64>>,
    /// The differences from the source's values.
    pub error: Deviation,
    /// The block with the largest error relative to its values.
    pub worst: Option<WorstBlock>,
}

/// The differences between the values of a tensor and those of its source.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Deviation {
    /// The largest difference.
    pub max: f64,
    /// The root of the mean square of the differences.
    pub rms: f64,
    /// `rms` divided by the root mean square of the source's values.
    pub relative: f64,
    /// The cosine of the angle between both tensors as vectors; 1 for two tensors of zeros.
    pub cosine: f64,
}

/// A block of a quantized tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WorstBlock {
    /// The number of the block, from 0.
    pub index: u64,
    /// Its elements, in row-major order.
    pub elements: Range<u64>,
    /// The root mean square of its differences, divided by that of the source's values; infinite if these are zeros.
    pub relative: f64,
}

/// Compares `converted` with the model in `folder`, whose tensors `file` has, through a recipe: with the tensors and
/// the metadata that [`super::convert_model`] writes with the same options. The type of each tensor is the one that
/// `converted` has, whatever [`ModelConvert::with_outtype`] says.
///
/// # Errors
/// Returns the errors of [`super::plan_model`]; errors of reading either model; Integrity if a digest differs.
pub fn diff_model(
    folder: &Path,
    file: &File,
    converted: &File,
    options: &ModelConvert,
) -> Result<ModelDiff> {
    let planned = planned_for(folder, file, options)?;
    let plan = planned.plan;
    let mut jobs = Vec::new();
    let mut missing = Vec::new();
    for (at, output) in plan.outputs.iter().enumerate() {
        match converted.index().get(&output.name) {
            Some(_) => jobs.push((at, converted.tensor(&output.name)?)),
            None => missing.push(output.name.clone()),
        }
    }
    let outputs: HashSet<&str> = plan.outputs.iter().map(|output| output.name.as_str()).collect();
    let known = |name: &str| outputs.contains(name);
    let names = converted.index().tensors().map(|tensor| tensor.name().to_owned());
    let added = names.filter(|name| !known(name)).collect();
    let cost = |tensor: &Tensor| tensor.components().map(|c| c.stored_len()).sum::<u64>();
    let work = &options.write.work;
    work.begin(jobs.iter().map(|(_, tensor)| cost(tensor)).sum());
    let compared = Mutex::new(Vec::with_capacity(jobs.len()));
    work.for_each(
        jobs,
        || (),
        |(), (at, tensor)| {
            let of_tensor = compare(&plan, &plan.outputs[at], &tensor)?;
            compared.lock().unwrap_or_else(PoisonError::into_inner).push((at, of_tensor));
            work.advance(cost(&tensor))
        },
    )?;
    let mut tensors = compared.into_inner().unwrap_or_else(PoisonError::into_inner);
    tensors.sort_by_key(|(at, _)| *at);
    let (attributes, added_attributes) = metadata(&planned.attributes, converted.attributes());
    Ok(ModelDiff {
        recipe: planned.recipe.name().to_owned(),
        tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect(),
        missing,
        added,
        attributes,
        added_attributes,
        warnings: plan.warnings.clone(),
    })
}

/// Returns the attributes with other values, and the keys that only `found` has.
fn metadata(expected: &Attributes, found: &Attributes) -> (Vec<AttributeDiff>, Vec<String>) {
    let mut all = compare_attributes(expected, found);
    all.retain(|diff| !OPTIONAL_KEYS.contains(&diff.key.as_str()));
    let (differing, added): (Vec<_>, Vec<_>) = all.into_iter().partition(|diff| diff.a.is_some());
    (differing, added.into_iter().map(|diff| diff.key).collect())
}

/// The elements of a converted tensor, range by range.
enum Converted {
    /// Elements of a plain type.
    Dense(Tensor, ElementType),
    Blocks(Tensor, &'static BlockType),
    /// A tensor of any other layout, which is in memory.
    Held(Bytes, ElementType),
}

impl Converted {
    fn new(tensor: &Tensor) -> Result<Converted> {
        match tensor.layout() {
            Layout::Dense => {
                let c = tensor.require(&Role::Data)?;
                let element = ElementType::new(c.dtype, c.logical_type);
                Ok(Converted::Dense(tensor.clone(), element))
            }
            Layout::Blocks(of) => Ok(Converted::Blocks(tensor.clone(), of)),
            _ => {
                let dense = tensor.to_dense()?;
                let element = ElementType::new(dense.dtype(), dense.logical_type().cloned());
                Ok(Converted::Held(dense.into_bytes(), element))
            }
        }
    }

    /// Returns the form in which the conversion writes such elements, or `None` if it does not.
    fn form(&self, output: &Output) -> Option<Form> {
        match self {
            Converted::Blocks(_, of) => Some(Form::Blocks(of)),
            Converted::Dense(_, own) | Converted::Held(_, own) => {
                let is_float = matches!(own.dtype, DType::F32 | DType::F16 | DType::Bf16);
                match own {
                    _ if own == output.element() => Some(Form::AsItIs),
                    own if own.logical_type.is_none() && is_float => Some(Form::Float(own.dtype)),
                    _ => None,
                }
            }
        }
    }

    /// The number of elements in a unit, and the bytes of one.
    fn unit(&self) -> (u64, u64) {
        match self {
            Converted::Blocks(_, of) => (of.elements, of.bytes),
            Converted::Dense(_, element) | Converted::Held(_, element) => {
                (1, element.len_of(1).max(1))
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Converted::Blocks(_, of) => of.as_str().to_owned(),
            Converted::Dense(_, element) | Converted::Held(_, element) => element.to_string(),
        }
    }

    /// Returns the stored bytes of a range of elements, which starts and ends between units.
    fn bytes(&self, elements: &Range<u64>) -> Result<Bytes> {
        let offset = |n: u64| match self {
            Converted::Blocks(_, of) => n / of.elements * of.bytes,
            // Elements may be shorter than a byte.
            Converted::Dense(_, element) | Converted::Held(_, element) => element.len_of(n),
        };
        let range = offset(elements.start)..offset(elements.end);
        match self {
            Converted::Dense(tensor, _) | Converted::Blocks(tensor, _) => {
                tensor.bytes_range(&Role::Data, range)
            }
            Converted::Held(bytes, _) => Ok(bytes.slice(range.start as usize..range.end as usize)),
        }
    }

    /// Appends the values of stored bytes.
    fn values(&self, bytes: &Bytes, out: &mut Vec<f32>) -> Result<()> {
        match self {
            Converted::Blocks(_, of) => {
                let count = bytes.len() as u64 / of.bytes * of.elements;
                let start = out.len();
                out.resize(start + count as usize, 0.0);
                let blocks = Blocks::new(of, &[count], bytes.clone())?;
                blocks.dequantize_range(0..count, &mut out[start..])
            }
            Converted::Dense(_, element) | Converted::Held(_, element) => {
                decode_f32(element.dtype, element.logical_type.as_ref(), bytes, |values| {
                    out.extend_from_slice(values);
                })
            }
        }
    }
}

/// Compares a tensor with the one that the conversion writes.
fn compare(plan: &Plan, output: &Output, tensor: &Tensor) -> Result<ConvertedTensor> {
    tensor.sound()?;
    tensor.checked_with(Check::All).compare_all()?;
    let converted = Converted::new(tensor)?;
    let (unit, width) = converted.unit();
    let has_blocks = matches!(converted, Converted::Blocks(..));
    let mut found = ConvertedTensor {
        name: output.name.clone(),
        shape: tensor.shape().to_vec(),
        stored: converted.name(),
        expected_shape: None,
        verdict: Verdict::Differs,
        count: 0,
        differing: None,
        first: None,
        error: Deviation::default(),
        worst: None,
    };
    if output.shape() != tensor.shape() {
        found.expected_shape = Some(output.shape().to_vec());
        return Ok(found);
    }
    let form = converted.form(output).filter(|form| match form {
        Form::Blocks(of) => errors::is_reproducible(of),
        _ => true,
    });
    let in_context = |e: holdall_core::Error| e.in_tensor(output.name.as_str());
    let (mut at, mut differing, mut sums) = (0u64, 0u64, Sums::default());
    let (mut expected, mut own) = (Vec::new(), Vec::new());
    for piece in plan.elements(output) {
        let piece = piece.map_err(in_context)?;
        let element = output.element();
        expected.clear();
        let values = |all: &[f32]| expected.extend_from_slice(all);
        decode_f32(element.dtype, element.logical_type.as_ref(), &piece, values)?;
        let elements = at..at + expected.len() as u64;
        let bytes = converted.bytes(&elements)?;
        own.clear();
        converted.values(&bytes, &mut own)?;
        if let Some(form) = form {
            let written = written(form, element, &piece).map_err(in_context)?;
            // Numbers that no block can hold are not what the conversion writes.
            let same = |number: usize| {
                let range = number * width as usize..(number + 1) * width as usize;
                written.as_ref().is_some_and(|w| w.get(range.clone()) == bytes.get(range.clone()))
            };
            if written.as_ref() != Some(&bytes) {
                let units = bytes.len() / width as usize;
                for number in (0..units).filter(|number| !same(*number)) {
                    let start = elements.start + number as u64 * unit;
                    found.first.get_or_insert(start..start + unit);
                    differing += 1;
                }
            }
        }
        sums.add(&expected, &own, has_blocks.then_some(unit));
        at = elements.end;
    }
    found.count = at;
    found.differing = form.map(|_| differing);
    found.error = sums.error();
    found.worst = sums.worst(unit);
    found.verdict = verdict(&converted, output.is_rounded(), &found, &sums);
    Ok(found)
}

/// Returns the bytes of elements in a form, or `None` if their numbers do not fit into blocks.
fn written(form: Form, element: &ElementType, bytes: &Bytes) -> Result<Option<Bytes>> {
    match form.encode(element, bytes.to_vec()) {
        Err(e) if e.code() == NOT_FINITE.code => Ok(None),
        encoded => encoded.map(Some),
    }
}

fn verdict(
    converted: &Converted,
    is_rounded: bool,
    found: &ConvertedTensor,
    sums: &Sums,
) -> Verdict {
    if found.differing == Some(0) {
        return Verdict::Exact;
    }
    match converted {
        Converted::Blocks(_, of) => {
            let is_like_the_type = sums.is_within(Bound::of_blocks(of));
            // Other programs choose other scales in all blocks; a few blocks that differ were changed later.
            let blocks = found.count / of.elements;
            let are_most = found.differing.is_none_or(|n| n.saturating_mul(2) >= blocks);
            match is_like_the_type && are_most {
                true => Verdict::Quantized,
                false => Verdict::Differs,
            }
        }
        Converted::Dense(..) | Converted::Held(..) => {
            match is_rounded && sums.is_within(Bound::LAST_PLACE) {
                true => Verdict::Rounded,
                false => Verdict::Differs,
            }
        }
    }
}
