//! Quantized weights as one tensor each: checkpoints converted to zTensor with `described`, and back.

use holdall::{Convert, File, FloatType, Role, WriteOptions, convert, verify};
use std::fs;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized")
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus()).unwrap();
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn described() -> Convert {
    Convert::new(WriteOptions::new().with_overwrite(true)).with_described()
}

/// The values of the quantized weights, by name.
fn values(file: &File) -> Vec<(String, Vec<u64>, Vec<u8>)> {
    let dense = file.dequantized().unwrap();
    let weights = dense.tensors().filter(|tensor| tensor.quantized_weight().is_some());
    let weights = weights.filter(|tensor| tensor.fault().is_none());
    let of_one = |tensor: holdall::Tensor| {
        let dense = tensor.to_dense().unwrap();
        (tensor.name().to_owned(), tensor.shape().to_vec(), dense.bytes().to_vec())
    };
    let mut all: Vec<_> = weights.map(of_one).collect();
    all.sort();
    all
}

/// The stored tensors in order: names, types, shapes and bytes.
fn stored(file: &File) -> Vec<(String, String, Vec<u64>, Vec<u8>)> {
    let of_one = |tensor: holdall::Tensor| {
        let c = tensor.require(&Role::Data).unwrap();
        let element = holdall::ElementType::new(c.dtype, c.logical_type).to_string();
        let bytes = tensor.bytes(&Role::Data).unwrap().to_vec();
        (tensor.name().to_owned(), element, tensor.shape().to_vec(), bytes)
    };
    file.tensors().map(of_one).collect()
}

#[test]
fn checkpoints_of_all_kinds_are_described_and_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let (zt, back) = (dir.path().join("model.zt"), dir.path().join("back.safetensors"));
    let mut weights = 0;
    let mut kinds = std::collections::BTreeSet::new();
    for folder in cases() {
        let context = folder.display();
        let source = holdall::open(folder.join("model.safetensors")).unwrap();
        convert(&source, &zt, &described()).unwrap_or_else(|e| panic!("{context}: {e}"));
        let file = holdall::open(&zt).unwrap();
        assert!(verify(&file, &Default::default()).unwrap().is_sound(), "{context}");
        let found = source.quantized_weights().unwrap();
        let sound: Vec<_> = found.iter().filter(|weight| weight.fault().is_none()).collect();
        for weight in &sound {
            let tensor = file.tensor(weight.name()).unwrap();
            assert_eq!(tensor.described_weight(), Some(weight.kind()), "{context}");
            assert_eq!(tensor.layout().as_str(), format!("quantized.{}", weight.kind()));
            assert_eq!(tensor.shape(), weight.shape());
            kinds.insert(weight.kind().as_str());
        }
        weights += sound.len();
        assert_eq!(file.has_described_weights(), !sound.is_empty(), "{context}");
        // The values are the same, far from the texts of the folder.
        let all = values(&source);
        assert_eq!(values(&file), all, "{context}");
        for (name, _, bytes) in &all {
            let tensor = file.tensor(name).unwrap();
            assert_eq!(tensor.to_dense().unwrap().bytes().as_ref(), bytes, "{context}: {name}");
            let pieces = tensor.dense_pieces(holdall::Check::All).unwrap();
            let pieces: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
            assert_eq!(&pieces, bytes, "{context}: {name}");
        }

        // The stored tensors are the same again: their names, types, shapes, bytes and order.
        let again = convert(&file, &back, &Convert::new(WriteOptions::new().with_overwrite(true)));
        again.unwrap_or_else(|e| panic!("{context}: {e}"));
        let restored = holdall::open(&back).unwrap();
        assert_eq!(stored(&restored), stored(&source), "{context}");
        for (key, value) in source.attributes().iter() {
            assert_eq!(restored.attributes().get(key), Some(value), "{context}");
        }
        let plain = holdall::open(&zt).unwrap().stored().unwrap();
        assert_eq!(stored(&plain), stored(&source), "{context}");
        if sound.is_empty() {
            // The texts are kept, so that the faults stay.
            let faults = |file: &File| file.dequantized().unwrap().faults().count();
            assert!(faults(&source) > 0 && faults(&restored) == faults(&source), "{context}");
            continue;
        }
        assert_eq!(values(&restored), values(&source), "{context}");
        let config = folder.join("config.json");
        if config.exists() {
            let texts = file.attributes().get("holdall.quantization_texts").unwrap().to_json();
            let texts: serde_json::Value = serde_json::from_str(&texts).unwrap();
            assert_eq!(texts["config.json"], fs::read_to_string(config).unwrap(), "{context}");
        }
        // Dense values come from either.
        let dense = Convert::new(WriteOptions::new().with_overwrite(true));
        let dense = dense.with_dense().with_dtype(FloatType::F32);
        let (one, other) = (dir.path().join("one.npz"), dir.path().join("other.npz"));
        convert(&source, &one, &dense).unwrap();
        let report = convert(&file, &other, &dense).unwrap();
        assert_eq!(report.dequantized.len(), sound.len(), "{context}");
        let (one, other) = (holdall::open(&one).unwrap(), holdall::open(&other).unwrap());
        let diff = holdall::diff(&one, &other, &Default::default()).unwrap();
        assert!(diff.changed.is_empty() && diff.added.is_empty() && diff.removed.is_empty());
    }
    assert!(weights >= 32 && kinds.len() >= 20, "{weights} {kinds:?}");
}

#[test]
fn described_weights_are_copied_and_their_parts_may_be_in_several_shards() {
    let dir = tempfile::tempdir().unwrap();
    let case = corpus().join("gptq-4bit");
    let source = holdall::open(case.join("model.safetensors")).unwrap();
    let folder = dir.path().join("shards");
    let shards = Convert::new(WriteOptions::new()).with_max_shard_tensors(1);
    convert(&source, &folder, &shards).unwrap();
    for name in ["config.json", "quantize_config.json"] {
        if case.join(name).exists() {
            fs::copy(case.join(name), folder.join(name)).unwrap();
        }
    }
    let (a, b) = (dir.path().join("a.zt"), dir.path().join("b.zt"));
    convert(&holdall::open(&folder).unwrap(), &a, &described()).unwrap();
    let compressed = WriteOptions::new().with_zstd(3);
    convert(&holdall::open(&a).unwrap(), &b, &Convert::new(compressed).reencode()).unwrap();
    let file = holdall::open(&b).unwrap();
    assert!(file.has_described_weights());
    assert_eq!(values(&file), values(&source));
    // A described model is not described twice, and older versions of the format lack the layout.
    convert(&file, &a, &described()).unwrap();
    assert_eq!(values(&holdall::open(&a).unwrap()), values(&source));
    let old = WriteOptions::new().with_encode(holdall::EncodeOptions::new().with_version("1.0"));
    let e = convert(&source, dir.path().join("old.zt"), &Convert::new(old).with_described());
    assert_eq!(e.unwrap_err().code(), "convert/cannot-hold");
    let e = convert(&source, dir.path().join("x.safetensors"), &described());
    assert_eq!(e.unwrap_err().code(), "convert/cannot-hold");
}

#[test]
fn descriptions_that_do_not_fit_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.zt");
    let source = holdall::open(corpus().join("gptq-4bit/model.safetensors")).unwrap();
    convert(&source, &path, &described()).unwrap();
    let file = holdall::open(&path).unwrap();
    let name = source.quantized_weights().unwrap()[0].name().to_owned();
    let own = file.tensor(&name).unwrap().attributes().get("holdall.stored").unwrap().clone();
    let holdall::Value::Array(all) = own else { panic!("{own:?}") };
    for (what, code) in [
        ("fewer", "quantized-weight/parameter"),
        ("shape", "index/size"),
        ("role", "quantized-weight/parameter"),
        ("name", "write/same-name"),
    ] {
        let mut all = all.clone();
        let second = match &all[1] {
            holdall::Value::Map(pairs) => {
                pairs.iter().find(|(key, _)| key.as_text() == Some("name")).unwrap().1.clone()
            }
            other => panic!("{other:?}"),
        };
        if what == "fewer" {
            all.pop();
        } else if let holdall::Value::Map(pairs) = &mut all[0] {
            let (_, value) = pairs.iter_mut().find(|(key, _)| key.as_text() == Some(what)).unwrap();
            *value = match what {
                "shape" => holdall::Value::Array(vec![holdall::Value::Integer(3); 2]),
                "role" => holdall::Value::Text("nothing".into()),
                _ => second.clone(),
            };
        }
        let copy = dir.path().join(format!("{what}.zt"));
        fs::copy(&path, &copy).unwrap();
        let mut edit = holdall::Edit::open(&copy).unwrap();
        edit.set_tensor_attribute(&name, "holdall.stored", holdall::Value::Array(all)).unwrap();
        if what == "name" {
            // Nothing could read the tensors.
            assert_eq!(edit.commit().unwrap_err().code(), "write/same-name");
            continue;
        }
        edit.commit().unwrap();
        let file = holdall::open(&copy).unwrap();
        let found = file.stored().err().map(|e| e.code());
        let fault = file.stored().ok().and_then(|file| file.faults().next().map(|e| e.code()));
        assert_eq!(found.or(fault), Some(code), "{what}");
        assert!(file.quantized_weights().is_err() || fault.is_some(), "{what}");
    }
}
