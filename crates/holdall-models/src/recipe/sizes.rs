//! Sizes in the metadata, compared with the shapes of the tensors: a configuration of another model is noticed.

use super::evaluate::member;
use super::plan::Output;
use super::{INCOMPLETE, SHAPE};
use holdall_core::error::Result;
use holdall_core::model::{Attributes, Value};

/// What the names of tensors of layers begin with.
const LAYERS: &str = "blk.";

/// Returns the number of the layer that a tensor belongs to.
pub(super) fn layer(name: &str) -> Option<u64> {
    name.strip_prefix(LAYERS)?.split('.').next()?.parse().ok()
}

/// Compares the sizes in the metadata with the shapes of the tensors: layers, width, feed-forward networks, tokens,
/// experts and heads.
///
/// # Errors
/// Returns [`INCOMPLETE`] for another number of layers, and [`SHAPE`] for other sizes.
pub(super) fn check(outputs: &[Output], metadata: &Attributes, config: &Value) -> Result<()> {
    let Some(architecture) = metadata.get("general.architecture").and_then(Value::as_text) else {
        return Ok(());
    };
    let sizes = Sizes { architecture, metadata, config };
    let last = outputs.iter().filter_map(|output| layer(&output.name)).max();
    if let (Some(last), Some(stated)) = (last, sizes.stated("block_count", None)) {
        let found = last.saturating_add(1);
        // Layers that predict further tokens count too, and need not be there.
        let further = sizes.stated("nextn_predict_layers", None).unwrap_or(0);
        if found > stated || found < stated.saturating_sub(further) {
            let key = sizes.key("block_count");
            let message = format!(
                "the configuration says {stated} layers (`{key}`), but the tensors are those of {found}"
            );
            return Err(INCOMPLETE.broken(message));
        }
    }
    outputs.iter().try_for_each(|output| sizes.check(output))
}

/// The metadata of a model.
struct Sizes<'a> {
    architecture: &'a str,
    metadata: &'a Attributes,
    config: &'a Value,
}

impl Sizes<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// Returns a size, for one layer if there is a list of them.
    fn stated(&self, name: &str, layer: Option<u64>) -> Option<u64> {
        let value = match self.metadata.get(&self.key(name))? {
            Value::Array(all) => all.get(usize::try_from(layer?).ok()?)?,
            one => one,
        };
        value.as_integer().and_then(|n| u64::try_from(n).ok())
    }

    /// Returns the rows of the matrix of a number of heads of a size, if the configuration has them in this way.
    fn rows(&self, heads: &[&str], size: &str, layer: Option<u64>) -> Option<u64> {
        let is_other = |name: &&str| self.metadata.get(&self.key(name)).is_some();
        if ["attention.kv_lora_rank", "attention.key_length_swa"].iter().any(is_other) {
            return None;
        }
        let heads = heads.iter().find_map(|name| self.stated(name, layer))?;
        let size = match self.stated(size, layer) {
            Some(size) => size,
            None => {
                let all = self.stated("attention.head_count", layer)?;
                self.stated("embedding_length", None)?.checked_div(all)?
            }
        };
        heads.checked_mul(size)
    }

    /// Returns `true` if the configuration has this length of the feed-forward networks.
    fn is_length_of_config(&self, length: Option<u64>) -> bool {
        let stated = member(self.config, "intermediate_size").and_then(Value::as_integer);
        stated.is_some() && stated == length.map(i128::from)
    }

    fn check(&self, output: &Output) -> Result<()> {
        let shape = output.shape();
        let (first, last) = (shape.first().copied(), shape.last().copied());
        let layer = layer(&output.name);
        let part = match layer {
            None => output.name.as_str(),
            Some(_) => output.name.splitn(3, '.').nth(2).unwrap_or_default(),
        };
        let keyed = |name: &str| (self.key(name), self.stated(name, layer));
        let heads = "attention.head_count";
        let kv_heads = ["attention.head_count_kv", heads];
        let of_heads = |names: &[&str], size: &str| {
            let key = names.first().copied().unwrap_or(heads);
            (self.key(key), self.rows(names, size, layer))
        };
        let (key_length, value_length) = ("attention.key_length", "attention.value_length");
        let compared = match (part, shape.len()) {
            ("token_embd.weight", 2) => {
                vec![(first, keyed("vocab_size")), (last, keyed("embedding_length"))]
            }
            ("output_norm.weight", 1) => vec![(last, keyed("embedding_length"))],
            ("ffn_down.weight", 2) => {
                let (key, stated) = keyed("feed_forward_length");
                // Some recipes write a multiple of the width, whatever the configuration says.
                let stated = stated.filter(|_| !self.is_length_of_config(last));
                vec![(first, keyed("embedding_length")), (last, (key, stated))]
            }
            ("ffn_down_exps.weight", 3) => {
                vec![(first, keyed("expert_count")), (last, keyed("expert_feed_forward_length"))]
            }
            ("attn_q.weight", 2) => {
                let (key, rows) = of_heads(&[heads], key_length);
                // Some models have a gate for each head next to it.
                let has_gate = rows.and_then(|rows| rows.checked_mul(2)) == first;
                vec![(first, (key, rows.filter(|_| !has_gate)))]
            }
            ("attn_k.weight", 2) => vec![(first, of_heads(&kv_heads, key_length))],
            ("attn_v.weight", 2) => vec![(first, of_heads(&kv_heads, value_length))],
            _ => return Ok(()),
        };
        for (found, (key, stated)) in compared {
            let (Some(found), Some(stated)) = (found, stated) else { continue };
            if found != stated {
                let message = format!(
                    "the configuration says {stated} (by `{key}`), but the shape is {shape:?}, with {found}"
                );
                return Err(SHAPE.broken(message).in_tensor(&output.name));
            }
        }
        Ok(())
    }
}
