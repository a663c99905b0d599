//! Mixes of block types, as llama.cpp's `llama-quantize` names and composes them: most matrices get one type, and those
//! that matter more for the results get more bits.

use super::outtype::Form;
use super::plan::Output;
use holdall_core::model::{Attributes, BlockType, DType, Value};

/// A mix of block types.
#[derive(Debug, PartialEq, Eq)]
pub struct Mix {
    /// The name, such as `q4_k_m`.
    pub name: &'static str,
    /// The type of most matrices.
    base: &'static str,
    /// The number of the mix as `general.file_type` of GGUF.
    pub(super) file_type: i128,
}

/// All mixes, in the order of their numbers.
#[rustfmt::skip]
pub(super) static MIXES: [Mix; 16] = [
    Mix { name: "q4_0", base: "q4_0", file_type: 2 },
    Mix { name: "q4_1", base: "q4_1", file_type: 3 },
    Mix { name: "q5_0", base: "q5_0", file_type: 8 },
    Mix { name: "q5_1", base: "q5_1", file_type: 9 },
    Mix { name: "q2_k", base: "q2_k", file_type: 10 },
    Mix { name: "q3_k_s", base: "q3_k", file_type: 11 },
    Mix { name: "q3_k_m", base: "q3_k", file_type: 12 },
    Mix { name: "q3_k_l", base: "q3_k", file_type: 13 },
    Mix { name: "q4_k_s", base: "q4_k", file_type: 14 },
    Mix { name: "q4_k_m", base: "q4_k", file_type: 15 },
    Mix { name: "q5_k_s", base: "q5_k", file_type: 16 },
    Mix { name: "q5_k_m", base: "q5_k", file_type: 17 },
    Mix { name: "q6_k", base: "q6_k", file_type: 18 },
    Mix { name: "tq1_0", base: "tq1_0", file_type: 36 },
    Mix { name: "tq2_0", base: "tq2_0", file_type: 37 },
    Mix { name: "mxfp4_moe", base: "mxfp4", file_type: 38 },
];

/// The part of a model that a matrix belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The matrix that makes logits.
    Output,
    Embedding,
    /// The values of the attention, alone or with queries and keys.
    AttentionValue,
    AttentionKey,
    AttentionOutput,
    FeedForwardDown,
    Other,
}

impl Role {
    fn of_tensor(name: &str) -> Role {
        let has = |part: &str| name.contains(part);
        match name {
            "output.weight" => Role::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Role::Embedding,
            _ if has("attn_qkv.weight") || has("attn_kv_b.weight") || has("attn_v.weight") => {
                Role::AttentionValue
            }
            _ if has("attn_k.weight") => Role::AttentionKey,
            _ if has("attn_output.weight") => Role::AttentionOutput,
            _ if has("ffn_down") => Role::FeedForwardDown,
            _ => Role::Other,
        }
    }
}

/// The facts about a model on which the types depend.
struct Facts {
    is_falcon: bool,
    has_output: bool,
    layers: u64,
    experts: u64,
    /// The number of query heads for each head of keys and values.
    queries_per_key: u64,
    /// The number of matrices of attention values.
    values: u64,
}

impl Facts {
    fn new(metadata: &Attributes, outputs: &[Output]) -> Facts {
        let architecture = match metadata.get("general.architecture") {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let number = |key: &str| match metadata.get(&format!("{architecture}.{key}")) {
            Some(Value::Integer(n)) => u64::try_from(*n).unwrap_or(0),
            Some(Value::Array(all)) => all
                .iter()
                .filter_map(|n| match n {
                    Value::Integer(n) => u64::try_from(*n).ok(),
                    _ => None,
                })
                .max()
                .unwrap_or(0),
            _ => 0,
        };
        let heads = number("attention.head_count");
        let keys = match number("attention.head_count_kv") {
            0 => heads,
            n => n,
        };
        let is_value = |output: &&Output| Role::of_tensor(&output.name) == Role::AttentionValue;
        Facts {
            is_falcon: architecture == "falcon",
            has_output: outputs.iter().any(|output| output.name == "output.weight"),
            layers: number("block_count"),
            experts: number("expert_count"),
            queries_per_key: heads.checked_div(keys).unwrap_or(1),
            values: outputs.iter().filter(is_value).count() as u64,
        }
    }
}

impl Mix {
    /// Returns the mix with this name.
    pub(super) fn by_name(name: &str) -> Option<&'static Mix> {
        MIXES.iter().find(|mix| mix.name == name)
    }

    /// Sets the forms of the matrices among `outputs`; tensors that are written as F32 stay so.
    pub(super) fn apply(&self, outputs: &mut [Output], metadata: &Attributes) {
        let facts = Facts::new(metadata, outputs);
        let is_matrix = |output: &Output| output.form != Form::Float(DType::F32);
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        let key = |at: &usize| outputs.get(*at).map(|output| (layer(&output.name), &output.name));
        order.sort_by(|a, b| key(a).cmp(&key(b)));
        let (mut values, mut downs) = (0, 0);
        for at in order {
            let Some(output) = outputs.get_mut(at).filter(|output| is_matrix(output)) else {
                continue;
            };
            let role = Role::of_tensor(&output.name);
            let row = output.shape().last().copied().unwrap_or(0);
            let position = match role {
                Role::AttentionValue => count_up(&mut values),
                // Experts may lie anywhere.
                Role::FeedForwardDown if facts.experts > 1 => layer(&output.name).unwrap_or(0),
                Role::FeedForwardDown => count_up(&mut downs),
                _ => 0,
            };
            let wanted = self.block_type(role, position, row, output.shape().len(), &facts);
            output.form = fitting(wanted, row);
        }
    }

    /// Returns the block type of a matrix with rows of length `row`.
    fn block_type(
        &self,
        role: Role,
        position: u64,
        row: u64,
        rank: usize,
        facts: &Facts,
    ) -> &'static str {
        let (base, name) = (self.base, self.name);
        let is = |names: &[&str]| names.contains(&name);
        let has_many_experts = facts.experts == 8;
        match role {
            Role::Output => self.of_output(row, facts),
            Role::Embedding if !facts.has_output => self.of_output(row, facts),
            _ if name == "mxfp4_moe" => {
                if rank > 2 {
                    "mxfp4"
                } else {
                    "q8_0"
                }
            }
            Role::Embedding if is(&["tq1_0", "tq2_0"]) => "q4_k",
            Role::AttentionValue if has_many_experts => "q8_0",
            Role::AttentionValue => {
                let chosen = match name {
                    "q2_k" if facts.queries_per_key >= 4 => "q4_k",
                    "q2_k" => "q3_k",
                    "q3_k_m" if position < 2 => "q5_k",
                    "q3_k_m" => "q4_k",
                    "q3_k_l" => "q5_k",
                    "q4_k_m" | "q5_k_m" if has_more_bits(position, facts.values) => "q6_k",
                    "q4_k_s" if position < 4 => "q5_k",
                    _ => base,
                };
                // Models of 70 billion parameters have small matrices of values.
                let is_small = facts.layers == 80 && facts.queries_per_key > 1;
                if is_small && matches!(chosen, "q3_k" | "q4_k") { "q5_k" } else { chosen }
            }
            Role::AttentionKey if has_many_experts => "q8_0",
            Role::FeedForwardDown => {
                let layers = facts.layers;
                match name {
                    "q2_k" => "q3_k",
                    "q3_k_m" if position < layers / 16 => "q5_k",
                    "q3_k_m" if !facts.is_falcon || has_more_bits(position, layers) => "q4_k",
                    "q3_k_l" if facts.is_falcon => "q4_k",
                    "q3_k_l" => "q5_k",
                    "q4_k_m" if facts.is_falcon && position < layers / 16 => "q6_k",
                    "q4_k_m" | "q5_k_m" if has_more_bits(position, layers) => {
                        if facts.is_falcon && name == "q4_k_m" { "q5_k" } else { "q6_k" }
                    }
                    "q4_k_s" if !facts.is_falcon && position < layers / 8 => "q5_k",
                    _ => base,
                }
            }
            Role::AttentionOutput if facts.is_falcon => {
                if name == "q3_k_l" {
                    "q4_k"
                } else {
                    base
                }
            }
            Role::AttentionOutput if has_many_experts => {
                let low = ["q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m"];
                if is(&low) { "q5_k" } else { base }
            }
            Role::AttentionOutput => match name {
                "q2_k" => "q3_k",
                "q3_k_m" => "q4_k",
                "q3_k_l" => "q5_k",
                _ => base,
            },
            _ => base,
        }
    }

    /// Returns the type of the matrix that makes logits.
    fn of_output(&self, row: u64, facts: &Facts) -> &'static str {
        let fits = BlockType::by_name(self.base).is_some_and(|of| row.is_multiple_of(of.elements));
        match self.base {
            "mxfp4" => "q8_0",
            _ if facts.is_falcon || !fits => "q8_0",
            _ => "q6_k",
        }
    }
}

/// Returns the number before it is incremented.
fn count_up(counter: &mut u64) -> u64 {
    let now = *counter;
    *counter = now.saturating_add(1);
    now
}

/// Returns `true` for the layers that get more bits: the first and the last eighth, and every third between.
fn has_more_bits(layer: u64, layers: u64) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= layers.saturating_mul(7) / 8 || layer.saturating_sub(eighth) % 3 == 2
}

/// Returns the number of the layer in a name such as `blk.3.attn_v.weight`.
fn layer(name: &str) -> Option<u64> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Returns the form of a matrix, of the type `wanted` or of one with smaller blocks if its rows are not whole blocks.
fn fitting(wanted: &str, row: u64) -> Form {
    let smaller = match wanted {
        "q2_k" | "q3_k" | "tq1_0" | "tq2_0" => "q4_0",
        "q4_k" => "q5_0",
        "q5_k" => "q5_1",
        _ => "q8_0",
    };
    let types = [wanted, smaller].into_iter().filter_map(BlockType::by_name);
    let mut fitting = types.filter(|of| row > 0 && row.is_multiple_of(of.elements));
    fitting.next().map_or(Form::Float(DType::F16), Form::Blocks)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn mix(name: &str) -> &'static Mix {
        Mix::by_name(name).unwrap()
    }

    fn facts(layers: u64, experts: u64) -> Facts {
        Facts {
            is_falcon: false,
            has_output: true,
            layers,
            experts,
            queries_per_key: 4,
            values: layers,
        }
    }

    /// The layers of 32 whose matrices get Q6_K in Q4_K_M, as files of Llama 3 8B have them.
    #[test]
    fn every_third_layer_gets_more_bits() {
        let mix = mix("q4_k_m");
        let kind = |role, position| mix.block_type(role, position, 4096, 2, &facts(32, 0));
        for role in [Role::AttentionValue, Role::FeedForwardDown] {
            let more: Vec<u64> = (0..32).filter(|layer| kind(role, *layer) == "q6_k").collect();
            assert_eq!(more, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        }
        assert_eq!(kind(Role::Output, 0), "q6_k");
        assert_eq!(kind(Role::AttentionKey, 0), "q4_k");
        assert_eq!(kind(Role::Embedding, 0), "q4_k");
    }

    #[test]
    fn eight_experts_keep_their_attention_in_8_bits() {
        let mix = mix("q4_k_m");
        let kind = |role| mix.block_type(role, 8, 4096, 2, &facts(32, 8));
        assert_eq!([kind(Role::AttentionValue), kind(Role::AttentionKey)], ["q8_0"; 2]);
        assert_eq!(kind(Role::AttentionOutput), "q5_k");
        assert_eq!(kind(Role::FeedForwardDown), "q4_k");
    }

    #[test]
    fn rows_that_are_not_whole_blocks_get_another_type() {
        let name = |wanted, row| match fitting(wanted, row) {
            Form::Blocks(of) => of.as_str().to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(name("q4_k", 512), "q4_k");
        assert_eq!(name("q4_k", 96), "q5_0");
        assert_eq!(name("q6_k", 96), "q8_0");
        assert_eq!(name("q2_k", 32), "q4_0");
        assert_eq!(name("q4_0", 48), "Float(F16)");
        assert_eq!(name("q4_0", 0), "Float(F16)");
    }

    #[test]
    fn every_type_of_a_mix_can_be_made() {
        for mix in &MIXES {
            let block_type = BlockType::by_name(mix.base).unwrap();
            assert!(holdall_core::layout::blocks::can_quantize(block_type), "{}", mix.name);
        }
    }
}
