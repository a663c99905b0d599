//! The texts of a model's folder that describe how it is quantized.

use super::TEXT;
use holdall_core::error::{Escape as _, Result};
use holdall_core::{Attributes, Value};

/// How deep the texts may nest.
const DEPTH: usize = 64;

/// The texts that describe how a model is quantized. All are optional.
#[derive(Debug, Clone, Default)]
pub struct QuantizationTexts {
    /// The text of `config.json`.
    pub config: Option<String>,
    /// The text of `quantize_config.json`, or of `quant_config.json`.
    pub quantize_config: Option<String>,
    /// The text of `hf_quant_config.json`.
    pub hf_quant_config: Option<String>,
    /// The text of `quanto_qmap.json`.
    pub quanto_qmap: Option<String>,
    /// The attributes of the model's files, such as the metadata in the header of safetensors.
    pub metadata: Attributes,
}

impl QuantizationTexts {
    /// Returns `true` if the texts describe the quantization like `other`. The metadata of files does not count.
    ///
    /// # Errors
    /// Returns [`TEXT`] if a text is not JSON.
    pub fn describe_like(&self, other: &QuantizationTexts) -> Result<bool> {
        let (own, other) = (Settings::parse(self)?, Settings::parse(other)?);
        Ok(own.quantization() == other.quantization()
            && own.mlx() == other.mlx()
            && own.quantize_config == other.quantize_config
            && own.hf_quant_config == other.hf_quant_config
            && own.quanto_qmap == other.quanto_qmap)
    }
}

/// The parsed texts.
#[derive(Debug, Default)]
pub(super) struct Settings {
    config: Option<Value>,
    quantize_config: Option<Value>,
    hf_quant_config: Option<Value>,
    pub(super) quanto_qmap: Option<Value>,
    pub(super) metadata: Attributes,
}

impl Settings {
    /// Parses the texts.
    ///
    /// # Errors
    /// Returns [`TEXT`] if one is not JSON.
    pub(super) fn parse(texts: &QuantizationTexts) -> Result<Settings> {
        let one = |name: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            parse_object(text).map(Some).map_err(|e| e.within(format!("in `{name}`")))
        };
        Ok(Settings {
            config: one("config.json", &texts.config)?,
            quantize_config: one("quantize_config.json", &texts.quantize_config)?,
            hf_quant_config: one("hf_quant_config.json", &texts.hf_quant_config)?,
            quanto_qmap: one("quanto_qmap.json", &texts.quanto_qmap)?,
            metadata: texts.metadata.clone(),
        })
    }

    /// Returns the description of the quantisation: `quantization_config` of `config.json` (or of its text part), or
    /// `quantize_config.json`.
    pub(super) fn quantization(&self) -> Option<&Value> {
        let config = self.config.as_ref();
        let own = config.and_then(|config| member(config, "quantization_config"));
        let of_text = || member(member(config?, "text_config")?, "quantization_config");
        let is_map = |value: &&Value| matches!(value, Value::Map(_));
        let older = || config.and_then(|config| member(config, "compression_config"));
        own.filter(is_map)
            .or_else(|| of_text().filter(is_map))
            .or_else(|| older().filter(is_map))
            .or(self.quantize_config.as_ref())
    }

    /// Returns a member of the description of the quantisation. `quantize_config.json` has those that `config.json`
    /// lacks.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let own = self.quantization().and_then(|own| member(own, key));
        own.or_else(|| member(self.quantize_config.as_ref()?, key))
    }

    /// Returns the quantisation method, in lower case.
    pub(super) fn method(&self) -> Option<String> {
        let method = ["quant_method", "method"].iter().find_map(|key| self.text(key));
        if method.is_none() && self.hf_quant_config.is_some() {
            return Some("modelopt".to_owned());
        }
        method
    }

    /// Returns a member that is a text, in lower case.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Value::as_text).map(str::to_lowercase)
    }

    /// Returns a member that is a positive integer.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        count(self.get(key)?)
    }

    /// Returns the member `quantization` of `config.json`, which MLX writes.
    pub(super) fn mlx(&self) -> Option<&Value> {
        let has_bits = |value: &&Value| {
            member(value, "group_size").is_some() && member(value, "quant_method").is_none()
        };
        let config = self.config.as_ref()?;
        let own = member(config, "quantization").or_else(|| {
            member(config, "quantization_config").filter(|value| member(value, "bits").is_some())
        });
        own.filter(has_bits)
    }

    /// Returns the algorithm that NVIDIA Model Optimizer names, in lower case.
    pub(super) fn modelopt(&self) -> Option<String> {
        let of_hf = || {
            let hf = self.hf_quant_config.as_ref()?;
            let own = member(hf, "quantization").unwrap_or(hf);
            member(own, "quant_algo")?.as_text().map(str::to_lowercase)
        };
        self.text("quant_algo").or_else(of_hf)
    }

    /// Returns the size of groups that NVIDIA Model Optimizer states.
    pub(super) fn modelopt_group(&self) -> Option<u64> {
        let of_hf = || {
            let hf = self.hf_quant_config.as_ref()?;
            count(member(member(hf, "quantization").unwrap_or(hf), "group_size")?)
        };
        self.count("group_size").or_else(of_hf)
    }

    /// Returns `true` if a text says that the model is quantized.
    pub(super) fn is_quantized(&self) -> bool {
        self.quantization().is_some() || self.hf_quant_config.is_some() || self.mlx().is_some()
    }
}

/// Returns a member of an object.
pub(super) fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let Value::Map(pairs) = value else { return None };
    let found = pairs.iter().find(|(name, _)| name.as_text() == Some(key));
    found.map(|(_, value)| value).filter(|value| **value != Value::Null)
}

/// Returns a positive integer.
pub(super) fn count(value: &Value) -> Option<u64> {
    u64::try_from(value.as_integer()?).ok().filter(|n| *n > 0)
}

/// Parses a JSON object, in which Python may have written `NaN` and `Infinity`.
///
/// # Errors
/// Returns [`TEXT`] if the text is not a JSON object.
pub(super) fn parse_object(text: &str) -> Result<Value> {
    let parsed = Value::from_json(text, DEPTH).or_else(|e| match without_infinities(text) {
        Some(text) => Value::from_json(&text, DEPTH),
        None => Err(e),
    });
    match parsed {
        Ok(value @ Value::Map(_)) => Ok(value),
        Ok(_) => Err(TEXT.broken("expected an object")),
        Err(e) => Err(TEXT.broken(e.found().escaped().to_string())),
    }
}

/// Replaces numbers that JSON does not have by `null`, outside strings. Returns `None` if the text has no such numbers.
fn without_infinities(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped, mut is_changed) = (false, false, false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if !is_string {
            let odd = ["-Infinity", "Infinity", "NaN"].iter().find(|word| rest.starts_with(**word));
            if let Some(word) = odd {
                out.push_str("null");
                rest = rest.get(word.len()..)?;
                is_changed = true;
                continue;
            }
        }
        match first {
            '"' if !is_escaped => is_string = !is_string,
            _ => {}
        }
        is_escaped = is_string && first == '\\' && !is_escaped;
        out.push(first);
        rest = rest.get(first.len_utf8()..)?;
    }
    is_changed.then_some(out)
}
