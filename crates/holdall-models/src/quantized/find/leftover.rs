//! Finds companions without a weight, and weights without companions, after all other searches.

use super::super::kind::Kind;
use super::super::{MISSING, ORPHAN, StoredTensor};
use super::{Finder, bits_and_bytes};
use holdall_core::error::Escape as _;
use holdall_core::{DType, LogicalType};

/// Suffixes of names that only tensors next to a quantized weight have, whatever the configuration says.
const COMPANIONS: [&str; 22] = [
    "_scale_inv",
    "weight_scale",
    "weight_scale_2",
    "weight_global_scale",
    "weight_zero_point",
    "weight_packed",
    "weight_g_idx",
    ".qzeros",
    ".SCB",
    ".weight_format",
    ".weight.absmax",
    ".weight.quant_map",
    ".weight.nested_absmax",
    ".weight.nested_quant_map",
    ".scale_weight",
    ".scale_input",
    ".comfy_quant",
    "._data",
    "._shift",
    "._weight_qdata",
    "._weight_scale",
    "._weight_zero_point",
];
/// Suffixes of names that are those of companions if the configuration says that the model is quantized.
const CONFIGURED: [&str; 8] = [
    ".scales",
    ".biases",
    ".g_idx",
    "weight_shape",
    "_blocks",
    "_scales",
    "._scale",
    "_proj_scale",
];

/// Adds a weight with a fault for each companion without a weight, and for each weight without its companions.
pub(super) fn find(finder: &mut Finder<'_>) {
    let is_quantized = finder.settings.is_quantized();
    let has_others = !finder.found.is_empty();
    let is_dense = finder.settings.text("format").as_deref() == Some("dense");
    if is_dense {
        return;
    }
    let left: Vec<&StoredTensor> = finder.unclaimed().collect();
    for tensor in left {
        let name = tensor.name.as_str();
        // A weight found here claims its other companions.
        if finder.get(name).is_none() {
            continue;
        }
        // Powers of two are nothing but scales.
        let of_module = || {
            let is_power = tensor.is_of(&LogicalType::F8E8M0);
            name.strip_suffix(".scale")
                .filter(|_| is_power)
                .map(|module| format!("{module}.weight"))
        };
        if let Some(weight) = weight_of_companion(name, is_quantized).or_else(of_module) {
            finder.add(weight, |draft| {
                draft.take("companion", name)?;
                let message = format!("no quantized weight for the tensor `{}`", name.escaped());
                Err(ORPHAN.broken(message))
            });
        } else if is_scaled(tensor, is_quantized, has_others) {
            finder.add(name, |draft| {
                if tensor.is_fp8() {
                    draft.kind(Kind::Fp8);
                }
                draft.take("weight", name)?;
                let message = format!("elements of {} have no scale", tensor.type_name());
                Err(MISSING.broken(message))
            });
        }
    }
}

/// Returns `true` if the name can be that of a tensor next to a quantized weight, if the texts of the model say that it has some.
pub(super) fn may_be_companion(name: &str) -> bool {
    let mut ends = COMPANIONS.iter().chain(&CONFIGURED).chain(&[".zero", ".nbits"]);
    ends.any(|end| name.ends_with(end)) || name.contains(bits_and_bytes::STATE)
}

/// Returns the name of the weight that a companion belongs to, if the tensor is one.
pub(super) fn weight_of_companion(name: &str, is_quantized: bool) -> Option<String> {
    if let Some((weight, _)) = name.split_once(bits_and_bytes::STATE) {
        return Some(weight.to_owned());
    }
    let activations = ["input_scale", "output_scale", "k_scale", "v_scale", "q_scale", "kv_scale"];
    let last = name.rsplit('.').next().unwrap_or(name);
    if activations.contains(&last) || last.starts_with("activation_scale") {
        return None;
    }
    let ends = COMPANIONS.iter().chain(CONFIGURED.iter().filter(|_| is_quantized));
    let end = ends.filter(|end| name.ends_with(**end)).max_by_key(|end| end.len())?;
    let base = name.strip_suffix(end)?;
    Some(match *end {
        "_proj_scale" => format!("{base}_proj"),
        "_scale_inv" | "_blocks" | "_scales" | "._data" | "._shift" | "._scale" => base.to_owned(),
        ".weight.absmax"
        | ".weight.quant_map"
        | ".weight.nested_absmax"
        | ".weight.nested_quant_map" => format!("{base}.weight"),
        end if end.starts_with('.') => format!("{base}.weight"),
        _ => format!("{base}weight"),
    })
}

/// Returns `true` if a tensor contains codes that mean nothing without scales.
fn is_scaled(tensor: &StoredTensor, is_quantized: bool, has_others: bool) -> bool {
    let is_weight = tensor.name.ends_with("weight") || tensor.name.ends_with("_proj");
    let is_matrix = tensor.shape.len() >= 2;
    let is_code =
        tensor.is_plain(DType::I8) || tensor.is_plain(DType::U8) || tensor.is_plain(DType::U32);
    let is_fp8 = tensor.is_fp8();
    // Without a configuration, a model may well have plain 8-bit floats.
    is_matrix && (is_quantized || has_others) && (is_fp8 || (is_quantized && is_code && is_weight))
}
