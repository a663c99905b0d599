//! Quantized weights as one tensor each, which names its kind and has the stored tensors as components: what
//! [`File::described`] makes of the tensors of a checkpoint, and [`File::stored`] undoes.

mod names;

pub(crate) use names::Originals;
pub use names::check_described;

use crate::file::{File, Tensor};
use crate::quantized::Weights;
use holdall_core::model::IndexBuilder;
use holdall_core::{Attributes, Component, Layout, Result, Role, TensorInfo, Value};
use holdall_models::quantized::{Kind, PARAMETER, QuantizationTexts, QuantizedWeight};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The start of the names of layouts; the name of the kind follows.
const LAYOUT: &str = "quantized.";
/// The attribute of a tensor that describes its stored tensors.
const STORED: &str = "holdall.stored";
/// The attribute of a tensor with the name of the weight when it was described: the texts call it so.
const NAME: &str = "holdall.name";
/// The attribute of a tensor with the SHA-256 of the texts with which the weight was found.
const TEXTS_DIGEST: &str = "holdall.quantization_texts_digest";
/// The attribute of a file with the texts that describe the quantization, by the names of their files.
const TEXTS: &str = "holdall.quantization_texts";

impl File {
    /// Returns the model with each quantized weight as one tensor of the layout `quantized.KIND`, whose components are the
    /// stored tensors, in place of those. The tensor's attributes have the kind, its parameters, and the names, shapes and
    /// places of the stored tensors; an attribute of the file has the texts that describe the quantization. Weights with a
    /// fault stay as they are stored. A model without quantized weights is returned as it is.
    ///
    /// # Errors
    /// Returns the same errors as [`File::quantized_weights`].
    pub fn described(&self) -> Result<File> {
        if self.has_described_weights() {
            return Ok(self.clone());
        }
        let all = self.quantized_weights()?;
        let index = self.index();
        let mut by_first: HashMap<usize, &QuantizedWeight> = HashMap::new();
        let mut consumed: HashSet<usize> = HashSet::new();
        for weight in all.iter().filter(|weight| weight.fault().is_none()) {
            let own = weight.components().iter();
            let own: Vec<usize> = own.filter_map(|own| index.position(&own.tensor)).collect();
            let is_sound = weight
                .components()
                .iter()
                .all(|own| index.get(&own.tensor).is_some_and(|tensor| tensor.fault().is_none()));
            // Its own name must be free.
            let is_free = index.get(weight.name()).is_none()
                || weight.components().iter().any(|own| own.tensor == weight.name());
            let Some(first) = own.iter().min().filter(|_| is_sound && is_free) else { continue };
            by_first.insert(*first, weight);
            consumed.extend(own);
        }
        // The texts are kept also if all weights have a fault, so that they still have it.
        let texts = match all.is_empty() {
            true => Vec::new(),
            false => pairs_of(&self.quantization_texts()?),
        };
        if by_first.is_empty() && texts.is_empty() {
            return Ok(self.clone());
        }
        let mut builder = IndexBuilder::for_files(index.format(), index.version(), self.limits());
        builder.absorb(index, |_| false)?;
        let mut attributes = index.attributes().clone();
        if !texts.is_empty() {
            attributes.set(TEXTS, Value::Map(texts));
        }
        let digest = names::digest(&attributes);
        builder.attributes(attributes);
        for (position, tensor) in index.tensors().enumerate() {
            if let Some(weight) = by_first.get(&position) {
                self.add_composite(&mut builder, weight, &digest)?;
            }
            if !consumed.contains(&position) {
                builder.copy(tensor.name(), &tensor, index, |extent| extent)?;
            }
        }
        let index = builder.finish().map_err(|e| e.in_source(self.name()))?;
        Ok(self.with_weights(index, Weights::new()))
    }

    fn add_composite(
        &self,
        builder: &mut IndexBuilder,
        weight: &QuantizedWeight,
        digest: &str,
    ) -> Result<()> {
        let index = self.index();
        let layout = Layout::Other(format!("{LAYOUT}{}", weight.kind().as_str()).into());
        builder.tensor(weight.name(), weight.shape(), layout)?;
        let text = |text: &str| Value::Text(text.to_owned());
        let mut stored = Vec::new();
        for companion in weight.components() {
            let Some(tensor) = index.get(&companion.tensor) else { continue };
            let position = index.position(&companion.tensor).unwrap_or(0);
            let shape = tensor.shape().iter().map(|n| Value::Integer((*n).into())).collect();
            let mut pairs = vec![
                (text("role"), text(companion.role)),
                (text("name"), text(&companion.tensor)),
                (text("shape"), Value::Array(shape)),
                (text("position"), Value::Integer((position as u64).into())),
            ];
            if !tensor.attributes().is_empty() {
                let own = tensor.attributes().iter();
                let own = own.map(|(key, value)| (text(key), value.clone())).collect();
                pairs.push((text("attributes"), Value::Map(own)));
            }
            stored.push(Value::Map(pairs));
        }
        let mut attributes = Attributes::new();
        attributes.set("kind", text(weight.kind().as_str()));
        for (name, value) in weight.parameters() {
            attributes.set(*name, text(value));
        }
        attributes.set(NAME, text(weight.name()));
        attributes.set(TEXTS_DIGEST, text(digest));
        attributes.set(STORED, Value::Array(stored));
        builder.tensor_attributes(attributes);
        self.add_components(builder, weight)
    }

    /// Returns `true` if the file has quantized weights as one tensor each: see [`File::described`].
    pub fn has_described_weights(&self) -> bool {
        self.index().tensors().any(|tensor| is_composite(&tensor))
    }

    /// Returns the model with the stored tensors of its quantized weights, as they were before [`File::described`]: their
    /// names, shapes and order. A model without such weights is returned as it is.
    ///
    /// # Errors
    /// Returns `quantized-weight/parameter` if the description of a weight does not fit its components; the errors of an index,
    /// such as `index/size`.
    pub fn stored(&self) -> Result<File> {
        if !self.has_described_weights() {
            return Ok(self.clone());
        }
        self.quantized().stored.get_or_init(|| self.with_stored_tensors()).clone()
    }

    fn with_stored_tensors(&self) -> Result<File> {
        let index = self.index();
        let in_file = |e: holdall_core::Error| e.in_source(self.name());
        let mut builder = IndexBuilder::for_files(index.format(), index.version(), self.limits());
        builder.absorb(index, |_| false)?;
        builder.attributes(index.attributes().clone());
        let mut at_position: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        let mut others = Vec::new();
        let mut originals = Originals::default();
        for tensor in index.tensors() {
            match is_composite(&tensor) && tensor.fault().is_none() {
                true => {
                    let own = entries(&tensor, &mut originals);
                    for entry in own.map_err(|e| in_file(e.in_tensor(tensor.name())))? {
                        at_position.entry(entry.position).or_default().push(entry);
                    }
                }
                false => others.push(tensor),
            }
        }
        // The positions are those among all tensors: the others fill the gaps.
        let mut others = others.into_iter();
        let mut position = 0u64;
        loop {
            let mut due = at_position.remove(&position).unwrap_or_default();
            if due.is_empty() {
                match others.next() {
                    Some(tensor) => builder.copy(tensor.name(), &tensor, index, |extent| extent)?,
                    None => match at_position.pop_first() {
                        Some((_, rest)) => due = rest,
                        None => break,
                    },
                }
            }
            for entry in due {
                self.add_stored(&mut builder, entry)?;
            }
            position = position.saturating_add(1);
        }
        let stored = builder.finish().map_err(in_file)?;
        let all: Vec<_> = index.tensors().collect();
        let all = all.iter().map(|one| (one.name(), one.layout(), one.attributes()));
        names::check_described(all, index.attributes()).map_err(in_file)?;
        Ok(self.with_index_in_order(stored, originals))
    }

    fn add_stored(&self, builder: &mut IndexBuilder, entry: Entry) -> Result<()> {
        builder.tensor(&entry.name, &entry.shape, Layout::Dense)?;
        if !entry.attributes.is_empty() {
            builder.tensor_attributes(entry.attributes);
        }
        let c = entry.component;
        let stored = match c.stored.is_stated() {
            true => builder.stated(crate::quantized::stated(self, c.stored)),
            false => c.stored,
        };
        builder.component(Component { role: Role::Data, stored, ..c })
    }

    /// Returns the attribute of the file with the texts that describe the quantization, if it has one: its key and its value.
    pub fn quantization_attribute(&self) -> Option<(&'static str, &Value)> {
        Some((TEXTS, self.attributes().get(TEXTS)?))
    }

    /// Returns `true` if an attribute of this file has the texts that the other has in its folder: then
    /// [the attribute](File::quantization_attribute) is no difference.
    ///
    /// # Errors
    /// Returns `quantized-weight/text`; an `Io` error.
    pub fn has_texts_of(&self, other: &File) -> Result<bool> {
        let has_own = |file: &File| file.quantization_attribute().is_some();
        if has_own(self) == has_own(other) {
            return Ok(false);
        }
        Ok(pairs_of(&self.quantization_texts()?) == pairs_of(&other.quantization_texts()?))
    }

    /// Returns the texts that describe the quantization and that the file itself has.
    pub(crate) fn own_texts(&self) -> Option<QuantizationTexts> {
        texts_of(self.attributes())
    }
}

/// Returns the texts that describe the quantization and that are in an attribute of a file.
pub(crate) fn texts_of(attributes: &Attributes) -> Option<QuantizationTexts> {
    let Some(Value::Map(pairs)) = attributes.get(TEXTS) else { return None };
    let text = |name: &str| {
        let (_, value) = pairs.iter().find(|(key, _)| key.as_text() == Some(name))?;
        value.as_text().map(ToOwned::to_owned)
    };
    Some(QuantizationTexts {
        config: text("config.json"),
        quantize_config: text("quantize_config.json"),
        hf_quant_config: text("hf_quant_config.json"),
        quanto_qmap: text("quanto_qmap.json"),
        metadata: attributes.clone(),
    })
}

impl Tensor {
    /// Returns the kind of the quantized weight that the tensor is as a whole: see [`File::described`].
    pub fn described_weight(&self) -> Option<Kind> {
        let name = self.layout().as_str().strip_prefix(LAYOUT)?;
        let kind = holdall_models::quantized::KINDS.iter().find(|kind| kind.as_str() == name);
        kind.copied().filter(|_| self.info().attributes().get(STORED).is_some())
    }

    /// Returns the shape of the stored tensor that a component of a described weight is.
    pub fn stored_shape(&self, role: &Role) -> Option<Vec<u64>> {
        self.described_weight()?;
        let all = entries(self.info(), &mut Originals::default()).ok()?;
        let mut all = all.into_iter();
        all.find(|entry| entry.component.role == *role).map(|entry| entry.shape)
    }

    /// Checks that the components of a described weight have values together.
    ///
    /// # Errors
    /// Returns the errors of [`File::stored`] and of [`Tensor::computed`].
    pub fn check_described_weight(&self) -> Result<()> {
        match self.as_weight() {
            Some(weight) => weight?.computed().map(drop),
            None => Ok(()),
        }
    }

    /// Returns the tensor as [`File::dequantized`] has it, if it is a described weight.
    pub(crate) fn as_weight(&self) -> Option<Result<Tensor>> {
        self.described_weight()?;
        Some(self.file().dequantized().and_then(|file| file.tensor(self.name())))
    }
}

/// A stored tensor of a composite one.
struct Entry {
    name: String,
    shape: Vec<u64>,
    position: u64,
    attributes: Attributes,
    component: Component,
}

pub(crate) fn is_composite(tensor: &TensorInfo) -> bool {
    names::is_composite(tensor.layout(), tensor.attributes())
}

/// Reads the description of a composite tensor.
fn entries(tensor: &TensorInfo, originals: &mut Originals) -> Result<Vec<Entry>> {
    let wrong = || PARAMETER.broken(format!("`{STORED}` does not describe the components"));
    let Some(Value::Array(all)) = tensor.attributes().get(STORED) else { return Err(wrong()) };
    let original = tensor.attributes().get(NAME).and_then(Value::as_text);
    let original = original.unwrap_or(tensor.name());
    if original != tensor.name() {
        originals.add_weight(tensor.name(), original);
    }
    let mut out = Vec::with_capacity(all.len());
    let mut roles: HashSet<&str> = HashSet::new();
    for one in all {
        let Value::Map(pairs) = one else { return Err(wrong()) };
        let member = |name: &str| {
            pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
        };
        let number = |value: &Value| value.as_integer().and_then(|n| u64::try_from(n).ok());
        let role = member("role").and_then(Value::as_text).ok_or_else(wrong)?;
        let name = member("name").and_then(Value::as_text).ok_or_else(wrong)?;
        let position = member("position").and_then(number).ok_or_else(wrong)?;
        let Some(Value::Array(shape)) = member("shape") else { return Err(wrong()) };
        let shape = shape.iter().map(|n| number(n).ok_or_else(wrong)).collect::<Result<_>>()?;
        let attributes = match member("attributes") {
            None => Attributes::new(),
            Some(Value::Map(pairs)) => {
                let own = pairs
                    .iter()
                    .filter_map(|(key, value)| Some((key.as_text()?.to_owned(), value.clone())));
                own.collect()
            }
            Some(_) => return Err(wrong()),
        };
        let component = tensor.component(&Role::from_name(role)).ok_or_else(wrong)?;
        if !roles.insert(role) {
            return Err(wrong());
        }
        let now = names::stored_name(tensor.name(), original, name)?;
        if original != tensor.name() {
            originals.add_tensor(&now, name);
        }
        out.push(Entry { name: now, shape, position, attributes, component });
    }
    match out.len() == tensor.components().count() {
        true => Ok(out),
        false => Err(wrong()),
    }
}

/// Returns the texts by the names of their files.
fn pairs_of(texts: &QuantizationTexts) -> Vec<(Value, Value)> {
    let all = [
        ("config.json", &texts.config),
        ("quantize_config.json", &texts.quantize_config),
        ("hf_quant_config.json", &texts.hf_quant_config),
        ("quanto_qmap.json", &texts.quanto_qmap),
    ];
    let given = all.into_iter().filter_map(|(name, text)| {
        let value = Value::Text(text.as_ref()?.clone());
        Some((Value::Text(name.to_owned()), value))
    });
    given.collect()
}
