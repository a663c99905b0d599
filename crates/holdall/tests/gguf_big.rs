//! Big-endian GGUF, as `gguf` 0.19 wrote it: read whole, by ranges, and rewritten.

use holdall::{Convert, Layout, Role, VerifyOptions, WriteOptions, convert, verify};
use std::path::Path;

fn corpus(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/gguf").join(name)
}

fn sha256(bytes: &[u8]) -> String {
    let mut hasher = holdall_core::model::Hasher::new(holdall::Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish().to_string().trim_start_matches("sha256:").to_owned()
}

#[test]
fn big_endian_files_are_read_as_little_endian_ones_and_written_so() {
    let path = corpus("gguf-py_big.gguf");
    let text = std::fs::read(corpus("gguf-py_big.gguf.expect.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (little, zt) = (dir.path().join("little.gguf"), dir.path().join("little.zt"));
    let file = holdall::open(&path).unwrap();
    for to in [&little, &zt] {
        convert(&file, to, &Convert::new(WriteOptions::new())).unwrap();
    }
    for of in [&path, &little, &zt] {
        let file = holdall::open(of).unwrap();
        assert!(verify(&file, &VerifyOptions::new()).unwrap().is_sound());
        let loaded = file.load_all().unwrap();
        for wanted in expected["tensors"].as_array().unwrap() {
            let name = wanted["name"].as_str().unwrap();
            let tensor = file.tensor(name).unwrap();
            assert_eq!(serde_json::json!(tensor.shape()), wanted["shape"], "{name}");
            assert_eq!(tensor.layout().as_str(), wanted["layout"], "{name}");
            let bytes = tensor.bytes(&Role::Data).unwrap();
            assert_eq!(sha256(&bytes), wanted["components"]["data"]["sha256"], "{name}");
            let also = loaded.iter().find(|t| t.info().name() == name).unwrap();
            assert_eq!(also.bytes(&Role::Data).unwrap(), &bytes, "{name}");
            let len = bytes.len() as u64;
            // Inside of a block, across the end of one, and the last byte.
            for range in [0..1, 1..len.min(3), len / 2..len / 2 + 9, len - 1..len, 3..len] {
                let range = range.start..range.end.min(len);
                let part = tensor.bytes_range(&Role::Data, range.clone()).unwrap();
                let whole = &bytes[range.start as usize..range.end as usize];
                assert_eq!(part, whole, "{name} {range:?}");
            }
            if matches!(tensor.layout(), Layout::Blocks(_)) {
                let read = tensor.to_dense().unwrap();
                assert_eq!(sha256(read.bytes()), wanted["dequantized_f32_sha256"], "{name}");
            }
        }
    }
    let both = holdall::diff(&file, &holdall::open(&little).unwrap(), &Default::default()).unwrap();
    assert!(both.changed.is_empty() && both.added.is_empty() && both.removed.is_empty());
    assert!(holdall::open(&little).unwrap().warnings().is_empty());
}
