//! Quantized weights of which one stored tensor is gone: an error, never silence.

use holdall::{Convert, File, WriteOptions, convert};
use std::fs;
use std::path::Path;

/// The values of a weight, if it has any.
fn values(file: &File, name: &str) -> Option<Vec<u8>> {
    let tensor = file.dequantized().unwrap().tensor(name).ok()?;
    Some(tensor.to_dense().ok()?.bytes().to_vec())
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
        for text in
            ["config.json", "quantize_config.json", "hf_quant_config.json", "quanto_qmap.json"]
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
                convert(&source, &without, &Convert::new(WriteOptions::new()).with_select(select))
                    .unwrap();
                removed += 1;
                let file = holdall::open(&without).unwrap();
                let found = file.quantized_weights().unwrap();
                let fault = found.iter().find_map(|weight| weight.fault());
                let what = format!("{}: {} ({})", folder.display(), own.tensor, own.role);
                match fault {
                    Some(_) => assert!(file.dequantized().unwrap().faults().next().is_some()),
                    // The tensor says what another one says too, or nothing about the values.
                    None if values(&file, weight.name()) == values(&source, weight.name()) => {}
                    None => silent.push(what),
                }
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    assert!(removed >= 100, "{removed}");
}
