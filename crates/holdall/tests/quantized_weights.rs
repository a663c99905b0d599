//! Quantized weights that a model stores as several tensors: files of their writers, through open files and
//! conversions.

use holdall::quantized::Kind;
use holdall::{Check, Convert, File, FloatType, Layout, Remedy, WriteOptions};
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized")
}

fn open(case: &str) -> File {
    holdall::open(corpus().join(case).join("model.safetensors")).unwrap()
}

/// Returns the expected digests of the values, by name, and the error.
fn expected(folder: &Path) -> (Vec<(String, String)>, bool) {
    let text = std::fs::read(folder.join("expect.json")).unwrap();
    let json = holdall::json::parse(&text, 32).unwrap();
    let all = json["expected"].as_object().unwrap().iter();
    let digests =
        all.map(|(name, about)| (name.clone(), about["sha256"].as_str().unwrap().to_owned()));
    (digests.collect(), json.get("error").is_some())
}

fn sha256(bytes: &[u8]) -> String {
    let mut hasher = holdall::Hasher::new(holdall::Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish().to_string().trim_start_matches("sha256:").to_owned()
}

#[test]
fn open_files_give_the_values_of_their_writers() {
    let mut weights = 0;
    for folder in std::fs::read_dir(corpus()).unwrap() {
        let folder = folder.unwrap().path();
        let (digests, is_error) = expected(&folder);
        let stored = holdall::open(folder.join("model.safetensors")).unwrap();
        let file = stored.dequantized().unwrap();
        if is_error {
            let faults: Vec<_> = file.faults().collect();
            assert_eq!(faults.len(), 1, "{folder:?}");
            assert!(faults[0].code().starts_with("quantized-weight/"), "{faults:?}");
            assert!(file.tensor(faults[0].tensor().unwrap()).unwrap().to_dense().is_err());
            continue;
        }
        assert_eq!(file.faults().count(), 0, "{folder:?}");
        for (name, digest) in digests {
            let tensor = file.tensor(&name).unwrap();
            if *tensor.layout() != Layout::QuantizedWeight {
                continue;
            }
            weights += 1;
            let dense = tensor.to_dense().unwrap();
            assert_eq!(sha256(dense.bytes()), digest, "{folder:?}: {name}");
            let pieces = tensor.dense_pieces(Check::All).unwrap();
            let bytes: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
            assert_eq!(bytes, dense.bytes().as_ref());
            let rows = 1..tensor.shape()[0] - 1;
            let row = bytes.len() / tensor.shape()[0] as usize;
            let pieces = tensor.dense_pieces(Check::All).unwrap().with_rows(rows).unwrap();
            let some: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
            assert_eq!(some, &bytes[row..bytes.len() - row]);
            // The stored tensors are as before.
            let weight = tensor.quantized_weight().unwrap();
            for companion in weight.components() {
                assert!(stored.tensor(&companion.tensor).unwrap().fault().is_none());
            }
        }
    }
    assert!(weights >= 32, "{weights}");
}

#[test]
fn companions_may_be_in_other_shards() {
    for case in ["gptq-4bit", "fp8-block", "bnb-nf4-double", "hqq-4bit", "torchao-int8"] {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("model");
        let options = Convert::new(WriteOptions::new()).with_max_shard_tensors(1);
        holdall::convert(&open(case), &folder, &options).unwrap();
        for name in ["config.json", "quantize_config.json"] {
            let from = corpus().join(case).join(name);
            if from.exists() {
                std::fs::copy(from, folder.join(name)).unwrap();
            }
        }
        let file = holdall::open(&folder).unwrap();
        assert!(file.all_sources().len() > 1);
        let logical = file.dequantized().unwrap();
        for (name, digest) in expected(&corpus().join(case)).0 {
            let tensor = logical.tensor(&name).unwrap();
            if tensor.quantized_weight().is_some() {
                assert_eq!(sha256(tensor.to_dense().unwrap().bytes()), digest, "{case}");
            }
        }
    }
}

#[test]
fn conversion_to_dense_applies_scales_and_names_dropped_tensors() {
    for case in ["fp8-tensor-static", "ct-nvfp4", "comfy-fp8", "gptoss-mxfp4", "torchao-int8"] {
        let file = open(case);
        let temp = tempfile::tempdir().unwrap();
        for to in [None, Some(FloatType::Bf16)] {
            let path = temp.path().join(format!("{}.safetensors", to.is_some()));
            let mut options = Convert::new(WriteOptions::new()).with_dense();
            if let Some(to) = to {
                options = options.with_dtype(to);
            }
            let report = holdall::convert(&file, &path, &options).unwrap();
            assert_eq!(report.dequantized.len(), 1, "{case}");
            let weight = &report.dequantized[0];
            let out = holdall::open(&path).unwrap();
            for name in weight.applied.iter().chain(&weight.dropped) {
                assert!(*name == weight.name || out.tensor(name).is_err(), "{case}: {name}");
            }
            let tensor = out.tensor(&weight.name).unwrap();
            assert_eq!(tensor.dtype().unwrap().as_str(), to.map_or("f32", |_| "bf16"));
            assert!(out.quantized_weights().unwrap().is_empty(), "{case}");
            assert!(out.attributes().get("_quantization_metadata").is_none());
            if to.is_none() {
                let digest = &expected(&corpus().join(case)).0;
                let digest = digest.iter().find(|(name, _)| *name == weight.name).unwrap();
                assert_eq!(sha256(tensor.to_dense().unwrap().bytes()), digest.1, "{case}");
            }
        }
    }
    let report = holdall::convert::plan(
        &open("fp8-tensor-static"),
        "x.safetensors",
        &Convert::new(WriteOptions::new()).with_dense(),
    );
    let dropped = &report.unwrap().1.dequantized[0].dropped;
    assert_eq!(*dropped, ["model.layers.0.mlp.gate_proj.input_scale"]);
}

#[test]
fn no_part_of_a_weight_is_cast() {
    let mut refused = 0;
    for folder in std::fs::read_dir(corpus()).unwrap() {
        let folder = folder.unwrap().path();
        let file = holdall::open(folder.join("model.safetensors")).unwrap();
        let parts = file.quantized_weights().unwrap().iter().flat_map(|w| w.components());
        let parts: Vec<String> = parts.map(|c| c.tensor.clone()).collect();
        let options = Convert::new(WriteOptions::new()).with_dtype(FloatType::Bf16);
        match holdall::convert::plan(&file, "x.safetensors", &options) {
            Err(e) => {
                let is_scaled = e.code() == "convert/scaled-weight";
                assert!(is_scaled || e.code() == "convert/cannot-hold", "{folder:?}: {e}");
                assert!(e.message().contains("quantized weight") || is_scaled, "{folder:?}: {e}");
                if !folder.to_string_lossy().contains("err-") {
                    assert!(e.remedies().contains(&Remedy::MakeDense), "{folder:?}: {e}");
                }
                refused += 1;
            }
            // All floats have the type already, or none are floats.
            Ok((specs, _)) => {
                for spec in specs.iter().filter(|spec| parts.contains(&spec.name)) {
                    let was = file.tensor(&spec.name).unwrap();
                    assert_eq!(spec.components[0].dtype, was.dtype().unwrap(), "{folder:?}");
                    assert_eq!(spec.components[0].logical_type, was.logical_type(), "{folder:?}");
                }
            }
        }
    }
    assert!(refused >= 20, "{refused}");
}

#[test]
fn weights_without_a_configuration_have_no_values() {
    let temp = tempfile::tempdir().unwrap();
    for case in ["gptq-4bit", "awq-gemm", "mlx-affine-4bit-g64", "fp8-block", "ct-pack-int4-g32"] {
        let path = temp.path().join(format!("{case}.safetensors"));
        std::fs::copy(corpus().join(case).join("model.safetensors"), &path).unwrap();
        let file = holdall::open(&path).unwrap();
        let all = file.quantized_weights().unwrap();
        assert_eq!(all.len(), 1, "{case}");
        let fault = all[0].fault().unwrap_or_else(|| panic!("{case}: {all:?}"));
        assert_eq!(fault.code(), "quantized-weight/parameter", "{case}: {fault}");
    }
    for (case, kind) in [("bnb-nf4", Kind::BitsAndBytes4), ("comfy-nvfp4", Kind::ComfyNvfp4)] {
        // These describe themselves.
        let path = temp.path().join(format!("{case}.safetensors"));
        std::fs::copy(corpus().join(case).join("model.safetensors"), &path).unwrap();
        let file = holdall::open(&path).unwrap();
        assert_eq!(file.quantized_weights().unwrap()[0].kind(), kind);
        assert!(file.quantized_weights().unwrap()[0].fault().is_none());
    }
}

#[test]
fn damaged_companions_are_found_by_their_digests() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model.zt");
    holdall::convert(&open("gptq-4bit"), &path, &Convert::new(WriteOptions::new())).unwrap();
    let config = corpus().join("gptq-4bit/quantize_config.json");
    std::fs::copy(config, temp.path().join("quantize_config.json")).unwrap();
    let file = holdall::open(&path).unwrap();
    let name = "model.layers.0.self_attn.q_proj.weight";
    assert!(file.dequantized().unwrap().tensor(name).unwrap().to_dense().is_ok());
    let scales = file.tensor("model.layers.0.self_attn.q_proj.scales").unwrap();
    let at = scales.components().next().unwrap().stored.start as usize;
    drop((file, scales));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let file = holdall::open(&path).unwrap().dequantized().unwrap();
    let e = file.tensor(name).unwrap().to_dense().unwrap_err();
    assert_eq!(e.kind(), holdall::ErrorKind::Integrity, "{e}");
}

#[test]
fn values_can_be_computed_in_any_ranges() {
    let file = open("mlx-affine-3bit-g64").dequantized().unwrap();
    let tensor = file.tensors().find(|t| t.quantized_weight().is_some()).unwrap();
    let values = tensor.computed().unwrap();
    let all = values.dequantize().unwrap();
    let mut some = vec![0.0; 77];
    values.dequantize_range(130..207, &mut some).unwrap();
    assert_eq!(some, all[130..207]);
}
