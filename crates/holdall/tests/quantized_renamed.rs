//! Quantized weights as one tensor each after they were renamed, joined with others, compared and made dense.

use holdall::{Convert, Edit, File, Rename, WriteOptions, convert, diff, verify};
use std::path::{Path, PathBuf};

fn open(case: &str) -> File {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized");
    holdall::open(corpus.join(case).join("model.safetensors")).unwrap()
}

fn options() -> Convert {
    Convert::new(WriteOptions::new().with_overwrite(true))
}

fn described(case: &str, dir: &Path) -> (File, PathBuf) {
    let path = dir.join(format!("{case}.zt"));
    convert(&open(case), &path, &options().with_described()).unwrap();
    (holdall::open(&path).unwrap(), path)
}

fn renames(rules: &[&str]) -> Vec<Rename> {
    rules.iter().map(|rule| Rename::new(rule).unwrap()).collect()
}

fn values(file: &File, name: &str) -> Vec<u8> {
    file.dequantized().unwrap().tensor(name).unwrap().to_dense().unwrap().bytes().to_vec()
}

const SWAP: [&str; 2] = ["model.layers.0.*=model.layers.9.*", "model.layers.1.*=model.layers.0.*"];

#[test]
fn renaming_carries_the_stored_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let source = open("mlx-per-layer");
    let (file, path) = described("mlx-per-layer", dir.path());
    let names: Vec<String> =
        source.quantized_weights().unwrap().iter().map(|w| w.name().to_owned()).collect();
    let moved = |name: &str| renames(&SWAP).iter().find_map(|rule| rule.apply(name));
    assert!(names.iter().filter(|name| moved(name).is_some()).count() >= 2, "{names:?}");
    let to = dir.path().join("renamed.zt");
    convert(&file, &to, &options().with_renames(renames(&SWAP))).unwrap();
    // Described and renamed at once is the same.
    let at_once = dir.path().join("at-once.zt");
    convert(&source, &at_once, &options().with_described().with_renames(renames(&SWAP))).unwrap();
    // And so is an edit.
    let mut edit = Edit::open(&path).unwrap();
    for from in ["model.layers.0.", "model.layers.1."] {
        for name in file.names().filter(|name| name.starts_with(from)) {
            edit.rename(name, &moved(name).unwrap()).unwrap();
        }
    }
    edit.commit().unwrap();
    for renamed in [to, at_once, path] {
        let renamed = holdall::open(renamed).unwrap();
        assert!(verify(&renamed, &Default::default()).unwrap().is_sound());
        for name in &names {
            let new = moved(name).unwrap_or(name.clone());
            assert_eq!(values(&renamed, &new), values(&source, name), "{name}");
            assert_eq!(
                renamed.tensor(&new).unwrap().to_dense().unwrap().bytes().as_ref(),
                values(&source, name)
            );
        }
        // The names of the stored tensors are new ones too.
        let new: Vec<String> = source.names().map(|n| moved(n).unwrap_or(n.to_owned())).collect();
        let stored = renamed.stored().unwrap();
        assert_eq!(stored.names().collect::<Vec<_>>(), new);
        // As stored tensors, the layers would get each other's parameters.
        let back = convert(&renamed, dir.path().join("x.safetensors"), &options());
        assert_eq!(back.unwrap_err().code(), "quantized-weight/parameter");
        convert(&renamed, dir.path().join("x.npz"), &options().with_dense()).unwrap();
    }
}

#[test]
fn renamed_weights_are_stored_if_the_texts_mean_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for case in ["gptq-4bit", "awq-gemm", "quanto-qint8", "ct-pack-int4-g32", "gptoss-mxfp4"] {
        let (file, _) = described(case, dir.path());
        let source = open(case);
        let all = renames(&["*=net.*"]);
        let to = dir.path().join("renamed.zt");
        convert(&file, &to, &options().with_renames(all)).unwrap();
        let renamed = holdall::open(&to).unwrap();
        for weight in source.quantized_weights().unwrap() {
            let new = format!("net.{}", weight.name());
            assert_eq!(values(&renamed, &new), values(&source, weight.name()), "{case}");
        }
        let stored: Vec<_> = source.names().map(|name| format!("net.{name}")).collect();
        assert_eq!(renamed.stored().unwrap().names().collect::<Vec<_>>(), stored, "{case}");
    }
    // The number of outputs is that of the bias, which was renamed as well.
    let (file, _) = described("quanto-qint4", dir.path());
    let to = dir.path().join("renamed.zt");
    convert(&file, &to, &options().with_renames(renames(&["*=net.*"]))).unwrap();
    let weight = open("quanto-qint4").quantized_weights().unwrap()[0].name().to_owned();
    let renamed = holdall::open(&to).unwrap();
    assert_eq!(values(&renamed, &format!("net.{weight}")), values(&open("quanto-qint4"), &weight));
}

#[test]
fn names_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, path) = described("fp8-block", dir.path());
    let stored = open("fp8-block");
    let weight = stored.quantized_weights().unwrap()[0].clone();
    let scale = &weight.components().iter().find(|own| own.role == "scale").unwrap().tensor;
    let other = stored.names().find(|name| name.ends_with("norm.weight")).unwrap();
    let to = dir.path().join("x.zt");
    let rule = format!("{other}={scale}");
    let e = convert(&file, &to, &options().with_renames(renames(&[&rule]))).unwrap_err();
    assert_eq!(e.code(), "write/same-name");
    let mut edit = Edit::open(&path).unwrap();
    edit.rename(other, scale).unwrap();
    assert_eq!(edit.commit().unwrap_err().code(), "write/same-name");
    // A new name that does not tell the names of the stored tensors.
    let (file, _) = described("gptq-4bit", dir.path());
    let weight = open("gptq-4bit").quantized_weights().unwrap()[0].name().to_owned();
    let rule = format!("{weight}=w");
    let e = convert(&file, &to, &options().with_renames(renames(&[&rule]))).unwrap_err();
    assert_eq!(e.code(), "quantized-weight/parameter");
}

#[test]
fn weights_of_different_texts_are_not_joined() {
    let dir = tempfile::tempdir().unwrap();
    let (_, a) = described("gptq-4bit", dir.path());
    let (b, other) = described("gptq-4bit-v2", dir.path());
    let mut edit = Edit::open(&a).unwrap();
    let first = open("gptq-4bit-v2").quantized_weights().unwrap()[0].name().to_owned();
    edit.append(&b.tensor(&first).unwrap(), &format!("other.{first}")).unwrap();
    assert_eq!(edit.commit().unwrap_err().code(), "quantized-weight/parameter");
    // A file that has such weights anyway does not give other values.
    let mut edit = Edit::open(&other).unwrap();
    let texts = holdall::open(&a).unwrap();
    let texts = texts.attributes().get("holdall.quantization_texts").unwrap().clone();
    edit.set_attribute("holdall.quantization_texts", texts);
    assert_eq!(edit.commit().unwrap_err().code(), "quantized-weight/parameter");
}

#[test]
fn files_of_different_texts_are_not_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/quantized");
    let (_, a) = described("gptq-4bit", dir.path());
    // So that the names differ.
    let b = dir.path().join("b.zt");
    let all = renames(&["*=other.*"]);
    let source = open("gptq-4bit-v2");
    convert(&source, &b, &options().with_described().with_renames(all.clone())).unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let stored = folder.join("b.safetensors");
    convert(&source, &stored, &options().with_renames(all.clone())).unwrap();
    for text in ["config.json", "quantize_config.json"] {
        let from = corpus.join("gptq-4bit-v2").join(text);
        if from.exists() {
            std::fs::copy(from, folder.join(text)).unwrap();
        }
    }
    let plain = corpus.join("gptq-4bit/model.safetensors");
    for (one, other) in [(&a, &b), (&plain, &stored), (&a, &stored), (&plain, &b)] {
        let e = holdall::OpenOptions::new().open_all(&[one, other]).map(drop).unwrap_err();
        assert_eq!(e.code(), "quantized-weight/parameter", "{one:?} {other:?}");
    }
    // The same texts are no hindrance.
    convert(&open("gptq-4bit"), &b, &options().with_described().with_renames(all)).unwrap();
    let both = holdall::OpenOptions::new().open_all(&[&a, &b]).unwrap();
    let joined = dir.path().join("joined.zt");
    let own = both.stored();
    // Both were stored under the same names, which the texts use.
    assert_eq!(own.map(drop).unwrap_err().code(), "quantized-weight/parameter");
    let e = convert(&both, &joined, &options()).unwrap_err();
    assert_eq!(e.code(), "quantized-weight/parameter");
}

#[test]
fn a_faulty_weight_keeps_its_fault() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = described("err-missing-scale", dir.path());
    let found = file.quantized_weights().unwrap();
    assert!(found.iter().any(|weight| weight.fault().is_some()));
    let e = convert(&file, dir.path().join("e.npz"), &options().with_dense()).unwrap_err();
    assert_eq!(e.code(), "quantized-weight/missing");
}

#[test]
fn texts_are_no_difference_and_not_kept_with_dense_values() {
    let dir = tempfile::tempdir().unwrap();
    for case in ["fp8-block", "gptq-4bit"] {
        let (file, _) = described(case, dir.path());
        let (a, b) = (open(case).dequantized().unwrap(), file.dequantized().unwrap());
        let found = diff(&a, &b, &Default::default()).unwrap();
        assert!(found.attributes.is_empty() && found.changed.is_empty(), "{case}: {found:?}");
        // Other texts are a difference.
        let (other, _) = described("gptq-4bit-v2", dir.path());
        let found = diff(&a, &other.dequantized().unwrap(), &Default::default()).unwrap();
        assert!(!found.attributes.is_empty(), "{case}");
        let dense = dir.path().join("dense.safetensors");
        convert(&file, &dense, &options().with_dense()).unwrap();
        let dense = holdall::open(&dense).unwrap();
        assert!(dense.attributes().get("holdall.quantization_texts").is_none());
        convert(&dense, dir.path().join("again.safetensors"), &options().with_dense()).unwrap();
    }
}

#[test]
fn verify_knows_described_weights_and_parts_have_their_shape() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = described("fp8-block", dir.path());
    let report = verify(&file, &Default::default()).unwrap();
    let source = open("fp8-block");
    let weights = source.quantized_weights().unwrap();
    assert_eq!(report.quantized, weights.len() as u64);
    assert!(report.is_sound());
    for weight in weights {
        let tensor = file.tensor(weight.name()).unwrap();
        for own in weight.components() {
            let shape = source.tensor(&own.tensor).unwrap().shape().to_vec();
            let role = holdall::Role::from_name(own.role);
            assert_eq!(tensor.stored_shape(&role), Some(shape));
        }
    }
}
