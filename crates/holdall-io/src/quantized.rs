//! Quantized weights of an open model: which of its tensors are together one weight, and their values.
//!
//! [`File::dequantized`] returns the model with each weight as one tensor, of the layout
//! [`QuantizedWeight`](Layout::QuantizedWeight), whose components are the stored tensors. So everything that computes
//! with tensors works with weights too, and reads their bytes with the same checks.

mod texts;

pub(crate) use texts::check_joined;

use crate::composite::Originals;
use crate::file::{File, Tensor};
use crate::load::LoadOptions;
use crate::location::{Location, Site};
use bytes::Bytes;
use holdall_core::layout::Decoded;
use holdall_core::model::IndexBuilder;
use holdall_core::{Component, Extent, Layout, Result, Role, Value};
use holdall_models::quantized::{
    Kind, PARAMETER, QuantizationTexts, QuantizedWeight, StoredTensor, StoredTensors, WeightValues,
    find, may_be_quantized, small_tensors,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The quantized weights of an index, by the positions of their tensors.
pub(crate) type Weights = HashMap<usize, Arc<QuantizedWeight>>;

/// The result of the search for quantized weights, which happens when it is first needed.
#[derive(Default)]
pub(crate) struct Quantized {
    /// The weights of a file that [`File::dequantized`] returned.
    own: Option<Weights>,
    found: OnceLock<Result<Found>>,
    dequantized: OnceLock<Result<File>>,
    /// The file with the stored tensors in place of described weights.
    pub(crate) stored: OnceLock<Result<File>>,
    /// Whether the order of the tensors is that of another file, not that of their bytes.
    pub(crate) has_order: bool,
    /// The names that the texts use for renamed weights.
    originals: Originals,
}

/// The weights of a model, and the index in them for the name of each stored tensor.
struct Found {
    weights: Vec<Arc<QuantizedWeight>>,
    by_tensor: HashMap<String, usize>,
}

impl Quantized {
    pub(crate) fn from_weights(weights: Weights) -> Quantized {
        Quantized { own: Some(weights), ..Quantized::default() }
    }

    /// Creates the search in a file whose order of tensors is to be kept.
    pub(crate) fn in_order(originals: Originals) -> Quantized {
        Quantized { has_order: true, originals, ..Quantized::default() }
    }
}

impl File {
    /// Returns the quantized weights of the model: those that it stores as several tensors. The first call reads the
    /// texts that describe the quantization, such as `config.json` in the folder of the model, and small tensors. A
    /// weight with a missing or unknown companion is in the list, with its
    /// [fault](holdall_models::quantized::QuantizedWeight::fault).
    ///
    /// # Errors
    /// Returns `quantized-weight/text` if a text is not JSON; an `Io` error.
    pub fn quantized_weights(&self) -> Result<&[Arc<QuantizedWeight>]> {
        Ok(&self.found_weights()?.weights)
    }

    /// Returns the quantized weight that the tensor called `name` is a component of.
    ///
    /// # Errors
    /// Returns the same errors as [`File::quantized_weights`].
    pub fn quantized_weight_of(&self, name: &str) -> Result<Option<&Arc<QuantizedWeight>>> {
        let found = self.found_weights()?;
        Ok(found.by_tensor.get(name).and_then(|at| found.weights.get(*at)))
    }

    fn found_weights(&self) -> Result<&Found> {
        let find = || {
            let weights = self.find_weights()?;
            let mut by_tensor = HashMap::new();
            for (at, weight) in weights.iter().enumerate() {
                for companion in weight.components() {
                    by_tensor.insert(companion.tensor.clone(), at);
                }
            }
            Ok(Found { weights, by_tensor })
        };
        self.quantized().found.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    fn find_weights(&self) -> Result<Vec<Arc<QuantizedWeight>>> {
        if self.quantized().own.is_some() {
            return Ok(Vec::new());
        }
        if self.has_described_weights() {
            return self.stored()?.find_weights();
        }
        let originals = &self.quantized().originals;
        if originals.is_empty() {
            let found = self.find_as(|name| Some(name.to_owned()))?;
            return Ok(found.into_iter().map(Arc::new).collect());
        }
        let names: Vec<&str> = self.names().collect();
        let called = originals.of_all(&names);
        let found = self.find_as(|name| called.get(name).cloned())?;
        let now: HashMap<&str, &str> =
            called.iter().map(|(now, original)| (original.as_str(), *now)).collect();
        let now = |original: &str| now.get(original).map(|name| (*name).to_owned());
        let renamed = found.into_iter().map(|weight| {
            let name = originals.weight(weight.name()).map(str::to_owned);
            let name = name.or_else(|| now(weight.name()));
            Arc::new(weight.renamed(name, now))
        });
        Ok(renamed.collect())
    }

    /// Checks that the texts describe the quantized weights alike by the names that `rename` returns, if they are stored
    /// tensors in place of [described](File::described) ones. A format without described weights has only one name for each.
    ///
    /// # Errors
    /// Returns [`PARAMETER`] for a weight whose values would be others; the errors of [`File::quantized_weights`].
    pub fn check_described_names(&self, rename: impl Fn(&str) -> Option<String>) -> Result<()> {
        let quantized = self.quantized();
        let new_name = |name: &str| rename(name).unwrap_or_else(|| name.to_owned());
        let is_same = quantized.originals.is_empty() && !self.names().any(|n| rename(n).is_some());
        if !quantized.has_order || is_same {
            return Ok(());
        }
        let found = self.find_as(|name| Some(new_name(name)))?;
        let mut by_tensor: HashMap<&str, &QuantizedWeight> = HashMap::new();
        for weight in &found {
            by_tensor.extend(weight.components().iter().map(|own| (own.tensor.as_str(), weight)));
        }
        for weight in self.quantized_weights()?.iter().filter(|weight| weight.fault().is_none()) {
            let is_alike = weight.components().iter().all(|own| {
                let other = by_tensor.get(new_name(&own.tensor).as_str());
                other.is_some_and(|other| other.has_same_meaning(weight))
            });
            if !is_alike {
                let message =
                    "the texts of the model do not describe the weight alike by its new name";
                return Err(PARAMETER
                    .broken(message)
                    .with_hint(
                        "write zTensor, which keeps the name that the texts use, or `--dense`",
                    )
                    .in_tensor(weight.name())
                    .in_source(self.name()));
            }
        }
        Ok(())
    }

    /// Finds quantized weights among the tensors, called as `called` returns for their names. Tensors without such a name are
    /// left out.
    fn find_as(&self, called: impl Fn(&str) -> Option<String>) -> Result<Vec<QuantizedWeight>> {
        let mut own_name: HashMap<String, &str> = HashMap::new();
        let mut dense = Vec::new();
        for (own, tensor) in self.names().zip(self.index().tensors()) {
            let first = tensor.components().next().filter(|_| *tensor.layout() == Layout::Dense);
            let (Some(c), Some(name)) = (first, called(own)) else { continue };
            let (dtype, logical_type) = (c.dtype, c.logical_type);
            own_name.insert(name.clone(), own);
            dense.push(StoredTensor { name, dtype, logical_type, shape: tensor.shape().to_vec() });
        }
        let stored = StoredTensors::new(dense);
        // So that ordinary models need no further requests.
        if !may_be_quantized(&stored) {
            return Ok(Vec::new());
        }
        let texts = self.quantization_texts()?;
        let names = small_tensors(&stored);
        let own = names.iter().filter_map(|name| own_name.get(*name).copied());
        let loaded = self.load(own, &LoadOptions::new())?;
        let mut small = holdall_collections::HashMap::default();
        for name in names {
            let tensor = own_name.get(name).and_then(|own| loaded.get(own));
            let Some(tensor) = tensor else { continue };
            small.insert(name.to_owned(), tensor.bytes(&Role::Data)?.clone());
        }
        find(&stored, &texts, &small).map_err(|e| e.in_source(self.name()))
    }

    /// Reads the texts in the folder of the model.
    pub(crate) fn quantization_texts(&self) -> Result<QuantizationTexts> {
        if let Some(texts) = self.own_texts() {
            return Ok(texts);
        }
        let texts = QuantizationTexts {
            metadata: self.attributes().clone(),
            ..QuantizationTexts::default()
        };
        let first = self.files().first().map(|file| &file.location);
        let Some(location) = first.filter(|location| !matches!(location, Location::Bytes(_)))
        else {
            return Ok(texts);
        };
        // The models of other formats have no such texts: at an address, each would take a request.
        let has_texts = matches!(self.format(), "safetensors" | "pytorch");
        if !has_texts && self.sources().read_hints().is_remote() {
            return Ok(texts);
        }
        let folder = Site::new(self.options(), location)?.folder;
        let metadata = texts.metadata;
        Ok(QuantizationTexts { metadata, ..texts::read(self.options(), &folder)? })
    }

    /// Returns the model with each quantized weight as one tensor under its own name, in place of the tensors that store
    /// it: their elements are those that [`Tensor::to_dense`] computes. A weight with a fault is a tensor with this
    /// fault. All other tensors are unchanged. A model without quantized weights is returned as it is.
    ///
    /// # Errors
    /// Returns the same errors as [`File::quantized_weights`].
    pub fn dequantized(&self) -> Result<File> {
        if self.has_described_weights() {
            return self.stored()?.dequantized();
        }
        let weights = self.quantized_weights()?;
        if weights.is_empty() {
            return Ok(self.clone());
        }
        self.quantized().dequantized.get_or_init(|| self.with_weights_of(weights)).clone()
    }

    fn with_weights_of(&self, found: &[Arc<QuantizedWeight>]) -> Result<File> {
        let index = self.index();
        // By the first of their tensors, in place of which each weight is added.
        let mut by_first: HashMap<usize, &Arc<QuantizedWeight>> = HashMap::new();
        let mut consumed: HashSet<usize> = HashSet::new();
        for weight in found {
            let names = weight.components().iter().map(|companion| companion.tensor.as_str());
            let all = names.chain(weight.not_applied().iter().map(String::as_str));
            let positions: Vec<usize> = all.filter_map(|name| index.position(name)).collect();
            if let Some(first) = positions.iter().min() {
                by_first.insert(*first, weight);
            }
            consumed.extend(positions);
        }
        let mut builder = IndexBuilder::for_files(index.format(), index.version(), self.limits());
        builder.absorb(index, |_| false)?;
        builder.attributes(index.attributes().clone());
        let mut weights = Weights::new();
        let mut count = 0;
        let names: HashSet<&str> = found.iter().map(|weight| weight.name()).collect();
        let mut added: HashSet<&str> = HashSet::new();
        for (position, tensor) in index.tensors().enumerate() {
            if let Some(weight) = by_first.get(&position) {
                // Two faults can concern one weight.
                if added.insert(weight.name()) {
                    self.add_weight(&mut builder, weight)?;
                    weights.insert(count, (*weight).clone());
                    count += 1;
                }
            }
            if !consumed.contains(&position) && !names.contains(tensor.name()) {
                builder.copy(tensor.name(), &tensor, index, |extent| extent)?;
                count += 1;
            }
        }
        let index = builder.finish().map_err(|e| e.in_source(self.name()))?;
        Ok(self.with_weights(index, weights))
    }

    /// Returns `true` if [`File::dequantized`] returned the file, and it has quantized weights.
    pub fn has_dequantized_weights(&self) -> bool {
        self.quantized().own.is_some()
    }

    /// Returns `true` if an attribute of a file that [`File::dequantized`] returned only describes its quantized weights.
    pub fn describes_quantization(&self, key: &str) -> bool {
        let Some(own) = &self.quantized().own else { return false };
        if own.is_empty() {
            return false;
        }
        if self.quantization_attribute().is_some_and(|(texts, _)| texts == key) {
            return true;
        }
        let any = |is_right: fn(Kind) -> bool| own.values().any(|weight| is_right(weight.kind()));
        match key {
            "_quantization_metadata" => any(|kind| {
                matches!(
                    kind,
                    Kind::ComfyFp8 | Kind::ComfyNvfp4 | Kind::ComfyMxfp8 | Kind::ComfyInt8
                )
            }),
            "tensor_names" => any(|kind| kind == Kind::Torchao),
            // torchao describes each tensor under its name.
            name => {
                let is_type =
                    |value: &Value| value.as_text().is_some_and(|t| t.contains("\"_type\""));
                self.attributes().get(name).is_some_and(is_type)
                    && self.index().get(name).is_some()
                    && any(|kind| kind == Kind::Torchao)
            }
        }
    }

    /// Adds a weight to an index, with the components of its tensors.
    fn add_weight(&self, builder: &mut IndexBuilder, weight: &QuantizedWeight) -> Result<()> {
        builder.tensor(weight.name(), weight.shape(), Layout::QuantizedWeight)?;
        let text = |value: &str| Value::Text(value.to_owned());
        let kind = [("kind".to_owned(), text(weight.kind().as_str()))];
        let more = weight.parameters().iter();
        let more = more.map(|(name, value)| ((*name).to_owned(), text(value)));
        builder.tensor_attributes(kind.into_iter().chain(more).collect());
        if let Some(e) = weight.fault() {
            builder.fault(e.clone());
        }
        self.add_components(builder, weight)
    }

    /// Adds the stored tensors of a weight to an index as the components of a tensor.
    pub(crate) fn add_components(
        &self,
        builder: &mut IndexBuilder,
        weight: &QuantizedWeight,
    ) -> Result<()> {
        for companion in weight.components() {
            let Some(tensor) = self.index().get(&companion.tensor) else { continue };
            if let Some(e) = tensor.fault() {
                builder.fault(e);
                continue;
            }
            let Some(c) = tensor.component(&Role::Data) else { continue };
            let stored = match c.stored.is_stated() {
                true => builder.stated(stated(self, c.stored)),
                false => c.stored,
            };
            builder.component(Component { role: Role::from_name(companion.role), stored, ..c })?;
        }
        Ok(())
    }
}

/// Returns bytes that the index of a file states.
pub(crate) fn stated(file: &File, extent: Extent) -> &[u8] {
    let range = extent.start as usize..extent.end as usize;
    file.index().stated().get(range).unwrap_or_default()
}

impl Tensor {
    /// Returns the quantized weight that the tensor is, in a file that [`File::dequantized`] returned.
    pub fn quantized_weight(&self) -> Option<&Arc<QuantizedWeight>> {
        self.file().quantized().own.as_ref()?.get(&self.position())
    }

    /// Returns the values of the quantized weight that the tensor is. `component` returns the bytes of a component.
    pub(crate) fn weight_values(
        &self,
        component: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<WeightValues> {
        self.sound()?;
        let weight = self.quantized_weight().ok_or_else(|| {
            crate::error::WRONG_LAYOUT.broken("the tensor is not a quantized weight")
        })?;
        weight.values(|role| {
            let role = Role::from_name(role);
            let c = self.require(&role)?;
            let bytes = component(&role)?;
            Ok(Decoded { dtype: c.dtype, logical_type: c.logical_type, bytes })
        })
    }
}
