//! What `adapter_config.json` says about the factors of an adapter.

use super::ADAPTER;
use super::adapter::Module;
use super::evaluate::member;
use super::plan::SourceTensor;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::{Attributes, Value, Warning};

/// The key of alpha.
pub(super) const ALPHA: &str = "adapter.lora.alpha";
/// Keys of the configuration whose adapters compute something else than a product of two factors.
const OTHER_KINDS: [(&str, &str); 6] = [
    ("use_dora", "DoRA also scales the columns"),
    ("use_qalora", "QALoRA pools the inputs"),
    ("lora_bias", "the factors have biases"),
    ("layer_replication", "layers of the base model are repeated"),
    ("target_parameters", "it changes parameters inside layers"),
    ("alora_invocation_tokens", "it begins at invocation tokens"),
];

/// Checks that the alpha in the metadata of an adapter is a number by which factors can be scaled.
///
/// # Errors
/// Returns [`ADAPTER`] if it is 0, infinite or no number.
pub fn check_adapter_alpha(attributes: &Attributes) -> Result<()> {
    match attributes.get(ALPHA).map(Value::as_f64) {
        None => Ok(()),
        Some(Some(alpha)) if is_alpha(alpha) => Ok(()),
        Some(_) => Err(ADAPTER.broken(format!("`{ALPHA}` is not a number other than 0"))),
    }
}

fn is_alpha(alpha: f64) -> bool {
    alpha.is_finite() && alpha != 0.0
}

/// The parts of `adapter_config.json` that decide what the factors mean.
pub(super) struct AdapterKind {
    alpha: f64,
    /// Names of modules, or of their last parts, with another alpha.
    alphas: Vec<(String, f64)>,
    /// The rank of the factors, if the configuration has it, and other ranks like other alphas.
    rank: Option<i128>,
    ranks: Vec<(String, i128)>,
    /// Whether the product is divided by the square root of the rank.
    has_root: bool,
    pub(super) warnings: Vec<Warning>,
}

impl AdapterKind {
    pub(super) fn new(config: &Value) -> Result<AdapterKind> {
        let kind = member(config, "peft_type").and_then(Value::as_text).unwrap_or("LORA");
        if !kind.eq_ignore_ascii_case("lora") {
            let message = format!("the adapter is of the kind {}, not LoRA", kind.escaped());
            return Err(ADAPTER.broken(message));
        }
        let is_set = |key: &str| match member(config, key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(all)) => !all.is_empty(),
            Some(_) => true,
        };
        if let Some((key, reason)) = OTHER_KINDS.iter().find(|(key, _)| is_set(key)) {
            return Err(ADAPTER.broken(format!("`{key}` is set: {reason}")));
        }
        let alpha = member(config, "lora_alpha").and_then(Value::as_f64);
        let Some(alpha) = alpha.filter(|alpha| is_alpha(*alpha)) else {
            return Err(ADAPTER.broken("`lora_alpha` is not a number other than 0"));
        };
        let mut alphas = Vec::new();
        if let Some(Value::Map(pairs)) = member(config, "alpha_pattern") {
            for (key, value) in pairs {
                let (key, value) = (key.as_text().unwrap_or_default(), value.as_f64());
                let Some(value) = value.filter(|value| is_plain(key) && is_alpha(*value)) else {
                    let key = key.escaped();
                    let message = format!(
                        "`alpha_pattern` has `{key}`, an expression, or one whose value is not a number other than 0"
                    );
                    return Err(ADAPTER.broken(message));
                };
                alphas.push((key.to_owned(), value));
            }
        }
        let mut rank = member(config, "r").and_then(Value::as_integer);
        let mut ranks = Vec::new();
        if let Some(Value::Map(pairs)) = member(config, "rank_pattern") {
            for (key, value) in pairs {
                match (key.as_text().filter(|key| is_plain(key)), value.as_integer()) {
                    (Some(key), Some(value)) => ranks.push((key.to_owned(), value)),
                    // Which modules an expression is for is not known.
                    _ => rank = None,
                }
            }
        }
        let mut warnings = Vec::new();
        let init = member(config, "init_lora_weights").and_then(Value::as_text).unwrap_or("");
        let init = init.to_ascii_lowercase();
        if ["pissa", "olora", "corda"].iter().any(|own| init.starts_with(own)) {
            let message = format!(
                "an adapter that began as {init} is for the changed weights of its training, not for those of the base model"
            );
            warnings.push(Warning::new("recipe/differs", message));
        }
        let has_root = is_set("use_rslora");
        Ok(AdapterKind { alpha, alphas, rank, ranks, has_root, warnings })
    }

    /// Returns the alpha of modules that become one tensor: the product is multiplied by alpha and divided by the rank.
    pub(super) fn alpha(
        &self,
        indices: &[usize],
        modules: &[Module],
        tensors: &[SourceTensor],
    ) -> Result<f64> {
        let mut found = None;
        for module in indices.iter().filter_map(|at| modules.get(*at)) {
            let matches = |key: &str| match key.strip_prefix('^') {
                Some(whole) => module.name == whole,
                None => {
                    let before = module.name.strip_suffix(key);
                    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
                }
            };
            let own = self.alphas.iter().find(|(key, _)| matches(key));
            let own = own.map_or(self.alpha, |(_, alpha)| *alpha);
            let rank = module.factors(tensors)?.0.shape.first().copied().unwrap_or(1);
            if let Some(stated) = self.rank {
                let other = self.ranks.iter().find(|(key, _)| matches(key));
                let stated = other.map_or(stated, |(_, rank)| *rank);
                if stated != i128::from(rank) {
                    let message = format!(
                        "the factors have the rank {rank}, but the configuration of the adapter says {stated}"
                    );
                    return Err(ADAPTER.broken(message).in_tensor(module.weight()));
                }
            }
            let own = if self.has_root { own * (rank as f64).sqrt() } else { own };
            if *found.get_or_insert(own) != own {
                let message = "matrices with different alphas become one tensor";
                return Err(ADAPTER.broken(message).in_tensor(module.weight()));
            }
        }
        Ok(found.unwrap_or(self.alpha))
    }
}

/// Returns `true` if a key of a pattern is a name, or the end of one, and no regular expression.
fn is_plain(key: &str) -> bool {
    !key.contains(|c: char| "*+?()[]{}|\\$".contains(c))
}
