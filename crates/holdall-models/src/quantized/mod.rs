//! Quantized weights: the tensors that belong together, and their values.
//!
//! Writers of quantized checkpoints store one weight as several tensors: packed words or small floats under one name,
//! scales and zero points under others. [`find`] groups the stored tensors of a model into weights, from their names,
//! dtypes and shapes, the texts of the model's folder ([`QuantizationTexts`]) and a few small tensors that contain JSON
//! ([`small_tensors`]). [`QuantizedWeight::values`] computes the elements of a weight from the bytes of its components.
//!
//! `docs/spec/quantized.md` describes each [`Kind`]: its tensors, its formula, and what identifies it. These are not
//! the tensors of the layout `quantized_group`, which are one tensor of a file and have their components in it:
//! [`holdall_core::layout::quantized`].
//!
//! A weight whose companions are missing, have the wrong shape or are unknown has a fault
//! ([`QuantizedWeight::fault`]) and no values.

mod decoding;
mod find;
mod kind;
mod settings;
mod stored;
mod values;

pub use find::{find, may_be_quantized, small_tensors};
pub use kind::{KINDS, Kind};
pub use settings::QuantizationTexts;
pub use stored::{StoredTensor, StoredTensors};
pub use values::WeightValues;

use decoding::Decoding;
use holdall_core::error::{Error, Result};
use holdall_core::layout::Decoded;

holdall_core::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// A tensor that belongs to a quantized weight does not exist.
    pub MISSING: Malformed "quantized-weight/missing"
        "All tensors that the kind of a quantized weight requires are in the model.";
    /// A tensor of scales or the like belongs to no weight.
    pub ORPHAN: Malformed "quantized-weight/orphan"
        "A tensor of scales, zero points or the like belongs to a quantized weight that is in the model.";
    /// A tensor of a quantized weight has the wrong shape.
    pub SHAPE: Malformed "quantized-weight/shape"
        "The tensors of a quantized weight have the shapes that follow from its kind and its parameters.";
    /// A tensor of a quantized weight has the wrong element type.
    pub TYPE: Malformed "quantized-weight/type"
        "The tensors of a quantized weight have the element types that its kind defines.";
    /// A tensor of a quantized weight contains numbers that are out of range.
    pub CONTENT: Malformed "quantized-weight/content"
        "The small tensors and the indices of a quantized weight contain values that fit its shape.";
    /// A parameter is missing, invalid or contradicts the tensors.
    pub PARAMETER: Malformed "quantized-weight/parameter"
        "The parameters of a quantized weight, such as the number of bits, are in the configuration of its model, and fit its tensors."
        hint "keep the model's `config.json`, `quantize_config.json` or `hf_quant_config.json` next to its tensors";
    /// Tensors next to a quantized weight have an unknown meaning.
    pub COMPANION: Unsupported "quantized-weight/companion"
        "All tensors next to a quantized weight that change its values are known to its kind.";
    /// The kind of a quantized weight is not supported.
    pub KIND: Unsupported "quantized-weight/kind"
        "A quantized weight has one of the kinds in `docs/spec/quantized.md`."
        hint "its stored tensors can be read one by one";
    /// Two weights have the same name.
    pub NAME: Malformed "quantized-weight/name"
        "The quantized weights of a model have different names.";
    /// A text that describes the quantisation cannot be parsed.
    pub TEXT: Malformed "quantized-weight/text"
        "The texts that describe how a model is quantized are valid JSON objects.";
}

/// A quantized weight of a model.
#[derive(Debug, Clone)]
pub struct QuantizedWeight {
    name: String,
    kind: Kind,
    shape: Vec<u64>,
    components: Vec<Companion>,
    not_applied: Vec<String>,
    parameters: Vec<(&'static str, String)>,
    decoding: Result<Decoding>,
}

/// A stored tensor that is part of a quantized weight.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Companion {
    /// The role of the tensor in the weight, such as `scale`.
    pub role: &'static str,
    /// The name of the stored tensor.
    pub tensor: String,
}

impl QuantizedWeight {
    /// Returns the name of the weight: that of the tensor that the model had before quantisation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the quantisation.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the dimensions, in elements. Empty if the weight has a fault.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the stored tensors that the weight consists of.
    pub fn components(&self) -> &[Companion] {
        &self.components
    }

    /// Returns the names of stored tensors that belong to the weight but do not change its values, such as scales of
    /// activations.
    pub fn not_applied(&self) -> &[String] {
        &self.not_applied
    }

    /// Returns the parameters, such as the number of bits and the size of groups, as pairs of name and value.
    pub fn parameters(&self) -> &[(&'static str, String)] {
        &self.parameters
    }

    /// Returns why the weight has no values, if it has none.
    pub fn fault(&self) -> Option<&Error> {
        self.decoding.as_ref().err()
    }

    /// Returns the weight with other names: `name`, and those that `rename` returns for its tensors. Names without a new one
    /// stay.
    pub fn renamed(
        mut self,
        name: Option<String>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> QuantizedWeight {
        let own = self.components.iter_mut().map(|companion| &mut companion.tensor);
        for tensor in own.chain(&mut self.not_applied) {
            if let Some(new) = rename(tensor) {
                *tensor = new;
            }
        }
        self.name = name.unwrap_or(self.name);
        self
    }

    /// Returns `true` if both weights compute the same values from the same components.
    pub fn has_same_meaning(&self, other: &QuantizedWeight) -> bool {
        let decodings = self.decoding.as_ref().ok().zip(other.decoding.as_ref().ok());
        let is_equal = decodings.is_some_and(|(own, other)| own == other);
        is_equal && self.kind == other.kind && self.shape == other.shape
    }

    /// Returns the number of elements.
    pub fn count(&self) -> u64 {
        self.decoding.as_ref().map_or(0, Decoding::count)
    }

    /// Returns the values of the weight. `component` returns the decoded bytes of the component in a role.
    ///
    /// # Errors
    /// Returns the fault of the weight, the errors of `component`, and [`SHAPE`], [`TYPE`] or [`CONTENT`] if the bytes
    /// do not fit the weight.
    pub fn values(&self, component: impl Fn(&str) -> Result<Decoded>) -> Result<WeightValues> {
        let decoding = self.decoding.as_ref().map_err(Clone::clone)?;
        let in_tensor = |e: Error| if e.tensor().is_some() { e } else { e.in_tensor(&self.name) };
        WeightValues::new(decoding, &self.shape, component).map_err(in_tensor)
    }
}
