//! Finds the quantized weights among the stored tensors of a model.
//!
//! Each submodule recognises the kinds of one family, from the most specific evidence to the least: JSON that
//! describes one weight, names that only one writer uses, and at last names that several writers share, where the
//! configuration of the model decides. A tensor belongs to one weight at most. [`leftover`] looks at what remains.

mod bits_and_bytes;
mod comfy;
mod draft;
mod gptq;
mod grouped;
mod leftover;
mod mlx;
mod packed;
mod scaled;
mod torchao;

use super::settings::Settings;
use super::{NAME, QuantizationTexts, QuantizedWeight, StoredTensor, StoredTensors};
use bytes::Bytes;
use draft::Draft;
use holdall_collections::HashMap;
use holdall_core::error::Result;

/// Small tensors have at most this many bytes.
const SMALL: u64 = 1 << 16;

/// Returns the names of the small tensors whose bytes [`find`] needs: JSON and parameters.
pub fn small_tensors(stored: &StoredTensors) -> Vec<&str> {
    let is_needed = |name: &str| {
        name.ends_with(".comfy_quant")
            || name.ends_with("weight_shape")
            || name.ends_with(".weight_format")
            || name.contains(bits_and_bytes::STATE)
            || name.rsplit_once('.').is_some_and(|(module, last)| {
                grouped::HQQ_PARAMETERS.contains(&last)
                    && stored.get(&format!("{module}.W_q")).is_some()
            })
    };
    let small = stored.iter().filter(|tensor| is_needed(&tensor.name));
    small
        .filter(|tensor| tensor.byte_len().is_some_and(|len| len <= SMALL))
        .map(|tensor| tensor.name.as_str())
        .collect()
}

/// Returns `false` if no tensor of the model can belong to a quantized weight: none has codes, and none is named like a
/// companion. Then the texts of the model need not be read.
pub fn may_be_quantized(stored: &StoredTensors) -> bool {
    stored.iter().any(|tensor| {
        let is_code = tensor.shape.len() >= 2
            && (tensor.logical_type.is_some()
                || !(tensor.is_wide_float() || tensor.dtype.width() == 8));
        is_code || leftover::may_be_companion(&tensor.name)
    })
}

/// Finds the quantized weights of a model, in the order of its tensors. `small` has the decoded bytes of
/// [`small_tensors`] by name.
///
/// # Errors
/// Returns [`TEXT`](super::TEXT) if a text is not JSON. Anything else that is wrong with a weight is its
/// [fault](QuantizedWeight::fault).
pub fn find(
    stored: &StoredTensors,
    texts: &QuantizationTexts,
    small: &HashMap<String, Bytes>,
) -> Result<Vec<QuantizedWeight>> {
    let settings = Settings::parse(texts)?;
    let mut finder = Finder {
        stored,
        settings,
        small,
        is_claimed: vec![false; stored.iter().len()],
        found: Vec::new(),
    };
    torchao::find(&mut finder);
    comfy::find(&mut finder);
    bits_and_bytes::find(&mut finder);
    grouped::find(&mut finder);
    gptq::find(&mut finder);
    packed::find(&mut finder);
    mlx::find(&mut finder);
    scaled::find(&mut finder);
    leftover::find(&mut finder);
    let mut found = finder.found;
    found.sort_by_key(|(at, _)| *at);
    let mut weights: Vec<QuantizedWeight> = found.into_iter().map(|(_, weight)| weight).collect();
    let mut counts: HashMap<String, usize> = HashMap::default();
    for weight in &weights {
        let count = counts.entry(weight.name.clone()).or_default();
        *count = count.saturating_add(1);
    }
    for weight in weights.iter_mut().filter(|w| w.decoding.is_ok()) {
        let count = counts.get(&weight.name).copied().unwrap_or(1);
        if count > 1 {
            let message = format!("{count} quantized weights have this name");
            weight.decoding = Err(NAME.broken(message).in_tensor(&weight.name));
            weight.shape = Vec::new();
        }
    }
    Ok(weights)
}

/// The state of a search.
struct Finder<'a> {
    stored: &'a StoredTensors,
    settings: Settings,
    small: &'a HashMap<String, Bytes>,
    is_claimed: Vec<bool>,
    /// The weights, each with the index of its first tensor.
    found: Vec<(usize, QuantizedWeight)>,
}

impl<'a> Finder<'a> {
    /// Returns the tensors that belong to no weight yet.
    fn unclaimed(&self) -> impl Iterator<Item = &'a StoredTensor> + use<'_, 'a> {
        let all = self.stored.iter().zip(&self.is_claimed);
        all.filter(|(_, is_claimed)| !**is_claimed).map(|(tensor, _)| tensor)
    }

    /// Returns the tensor called `name` if it belongs to no weight yet.
    fn get(&self, name: &str) -> Option<&'a StoredTensor> {
        let at = self.stored.index_of(name)?;
        if self.is_claimed.get(at).copied().unwrap_or(true) {
            return None;
        }
        self.stored.get(name)
    }

    /// Returns the names of unclaimed tensors that end with `suffix`, without it.
    fn with_suffix(&self, suffix: &str) -> Vec<&'a str> {
        self.unclaimed().filter_map(|tensor| tensor.name.strip_suffix(suffix)).collect()
    }

    /// Adds a weight that `describe` describes. Its error is the weight's fault.
    fn add(
        &mut self,
        name: impl Into<String>,
        describe: impl FnOnce(&mut Draft<'_, 'a>) -> Result<draft::Described>,
    ) {
        let mut draft = Draft::new(self, name.into());
        let described = describe(&mut draft);
        draft.finish(described);
    }
}
