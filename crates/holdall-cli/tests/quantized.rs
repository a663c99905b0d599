//! Quantized weights that a model stores as several tensors, through the command.

use crate::command::holdall;

fn case(name: &str) -> String {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/quantized");
    format!("{corpus}/{name}/model.safetensors")
}

#[test]
fn inspect_lists_weights_next_to_the_stored_tensors() {
    let path = case("gptq-4bit");
    let json = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!(json["tensors"].as_array().unwrap().len(), 4);
    let weight = &json["quantized"][0];
    assert_eq!(weight["name"], "model.layers.0.self_attn.q_proj.weight");
    assert_eq!(weight["kind"], "gptq");
    assert_eq!(weight["shape"], serde_json::json!([64, 96]));
    assert_eq!(weight["components"]["scale"], "model.layers.0.self_attn.q_proj.scales");
    let text = holdall(["inspect", &path]).ends_with(0).out;
    assert!(text.contains("quantized weights") && text.contains("q_proj.qweight"), "{text}");
    // A weight of this name has values and statistics.
    let name = "model.layers.0.self_attn.q_proj.weight";
    let text = holdall(["inspect", &path, "-t", name, "--stats"]).ends_with(0).out;
    assert!(text.contains("gptq") && text.contains("mean"), "{text}");
    let text = holdall(["inspect", &case("fp8-block"), "--dequantize"]).ends_with(0).out;
    assert!(text.contains("fp8-block") && !text.contains("weight_scale_inv"), "{text}");
}

#[test]
fn faults_of_weights_are_shown() {
    let path = case("err-missing-scale");
    let json = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!(json["quantized"][0]["fault"]["code"], "quantized-weight/missing");
    let text = holdall(["inspect", &path]).ends_with(0).out;
    assert!(text.contains("quantized-weight/missing"), "{text}");
}

#[test]
fn dense_conversions_compare_equal_with_the_weights() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ct-nvfp4", "bnb-nf4", "awq-gemm", "fp8-block"] {
        let (from, to) = (case(name), dir.path().join(format!("{name}.zt")));
        let to = to.to_str().unwrap();
        let done = holdall(["convert", &from, to, "--dense"]).ends_with(0);
        assert!(done.err.contains("1 quantized weight made dense"), "{}", done.err);
        holdall(["diff", "--dequantize", "--values-only", &from, to]).ends_with(0);
        holdall(["diff", &from, to]).ends_with(1);
    }
    let to = dir.path().join("a.safetensors");
    let from = case("fp8-tensor-static");
    let done = holdall(["convert", &from, to.to_str().unwrap(), "--dense"]).ends_with(0);
    assert!(done.err.contains(" tensor `model.layers.0.mlp.gate_proj.input_scale`"));
}

#[test]
fn casts_without_scales_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.zt");
    let to = to.to_str().unwrap();
    for name in
        ["fp8-block", "comfy-fp8", "ct-float-channel", "err-missing-scale", "quanto-qfloat8"]
    {
        let done = holdall(["convert", &case(name), to, "--dtype", "f32"]).ends_with(4);
        if !name.starts_with("err-") {
            assert!(done.err.contains("--dense"), "{name}: {}", done.err);
        }
    }
    holdall(["convert", &case("fp8-block"), to, "--dense", "--dtype", "bf16"]).ends_with(0);
    holdall(["convert", &case("err-missing-scale"), "x.zt", "--dense", "--dry-run"]).ends_with(1);
}

#[test]
fn weights_are_extracted_by_rows() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a.raw");
    let args = ["--dense", "--rows", "2..5", "-o", out.to_str().unwrap()];
    let name = "model.layers.0.mlp.gate_proj.weight";
    holdall([&["extract", &case("fp8-block"), name][..], &args].concat()).ends_with(0);
    assert_eq!(std::fs::read(&out).unwrap().len(), 3 * 192 * 4);
}

#[test]
fn described_weights_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (zt, npy) = (path("a.zt"), path("scale.npy"));
    holdall(["convert", &case("fp8-block"), &zt, "--described"]).ends_with(0);
    let verified = holdall(["verify", &zt]).ends_with(0);
    assert!(!verified.out.contains("unknown layout"), "{verified:?}");
    assert!(verified.out.contains("with components that fit the shape"), "{verified:?}");
    let shown = holdall(["inspect", "--json", &case("fp8-block")]).ends_with(0).json();
    let tensors = shown["tensors"].as_array().unwrap();
    let scale = tensors.iter().find(|t| t["name"].as_str().unwrap().ends_with("_scale_inv"));
    let (name, shape) = (scale.unwrap()["name"].as_str().unwrap(), &scale.unwrap()["shape"]);
    let weight = name.strip_suffix("_scale_inv").unwrap();
    holdall(["extract", &zt, weight, "--component", "scale", "-o", &npy]).ends_with(0);
    let bytes = std::fs::read(&npy).unwrap();
    let sizes = format!("'shape': ({}, {})", shape[0], shape[1]);
    assert!(String::from_utf8_lossy(&bytes).contains(&sizes), "{shape}");
    // A comparison of values sees no difference.
    holdall(["diff", &case("fp8-block"), &zt, "--dequantize"]).ends_with(0);
    // Nothing could be described, which is said.
    let ran =
        holdall(["convert", &case("err-missing-scale"), &path("e.zt"), "--described"]).ends_with(0);
    assert!(ran.err.contains("stayed as stored"), "{ran:?}");
    holdall(["convert", &path("e.zt"), &path("e.npz"), "--dense"]).ends_with(1);
    let plain = path("plain.safetensors");
    holdall(["convert", &zt, &plain, "--dense"]).ends_with(0);
    let ran = holdall(["convert", &plain, &path("p.zt"), "--described"]).ends_with(0);
    assert!(ran.err.contains("had no effect"), "{ran:?}");
}
