//! Quantized weights of which one stored tensor is gone: an error, never silence.

use holdall::{Convert, WriteOptions, convert};
use std::fs;
use std::path::Path;

/// Roles of tensors without which the rest is a whole weight of its kind: nothing says that they were there.
fn is_optional(kind: &str, role: &str) -> bool {
    let parameters = ["compute_dtype", "encoded_state_dict", "offload_meta", "optimize", "packing"];
    match (kind, role) {
        ("hqq", "group_size" | "quant_scale" | "quant_zero" | "channel_wise" | "view_as_float") => {
            true
        }
        ("hqq", "round_zero" | "stores_quant_config" | "unpack_view_dtype") => true,
        ("hqq", role) => parameters.contains(&role),
        ("gptq", "group_index") | ("ct-pack", "group_index") | ("bnb-int8", "format") => true,
        _ => false,
    }
}

#[test]
fn every_stored_tensor_of_a_weight_is_needed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized");
    let mut all: Vec<_> = fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    let mut removed = 0;
    let mut silent = Vec::new();
    for folder in all {
        let source = holdall::open(folder.join("model.safetensors")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for text in ["config.json", "quantize_config.json", "hf_quant_config.json", "quanto_qmap.json"]
        {
            if folder.join(text).exists() {
                fs::copy(folder.join(text), dir.path().join(text)).unwrap();
            }
        }
        let weights = source.quantized_weights().unwrap();
        for weight in weights.iter().filter(|weight| weight.fault().is_none()) {
            for own in weight.components() {
                let without = dir.path().join(format!("{removed}.safetensors"));
                let select = holdall::Select::all().without([own.tensor.clone()]);
                convert(
                    &source,
                    &without,
                    &Convert::new(WriteOptions::new()).with_select(select),
                )
                .unwrap();
                removed += 1;
                let file = holdall::open(&without).unwrap();
                let found = file.quantized_weights().unwrap();
                let fault = found.iter().find_map(|weight| weight.fault());
                let what = format!("{}: {} ({})", folder.display(), own.tensor, own.role);
                match fault {
                    Some(_) => assert!(file.dequantized().unwrap().faults().next().is_some()),
                    None if is_optional(weight.kind().as_str(), own.role) => {}
                    None => silent.push(what),
                }
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    assert!(removed >= 150, "{removed}");
}
