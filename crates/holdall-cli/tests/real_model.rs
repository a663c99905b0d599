//! A real model is converted through every version and back, bit for bit.
//!
//! `cargo xtask interop` downloads the model and sets its path; without it the test is ignored.

use crate::command::holdall;
use std::path::{Path, PathBuf};

/// Asserts that bytes, types and shapes of all tensors are the same.
fn assert_same(a: &Path, b: &Path) {
    let (a_file, b_file) = (holdall::open(a).unwrap(), holdall::open(b).unwrap());
    assert_eq!(a_file.len(), b_file.len());
    for tensor in a_file.tensors() {
        let other = b_file.tensor(tensor.name()).unwrap();
        assert_eq!(tensor.shape(), other.shape(), "{}", tensor.name());
        for c in tensor.components() {
            let of_other = other.component(&c.role).unwrap();
            assert_eq!((c.dtype, c.logical_type), (of_other.dtype, of_other.logical_type));
            let same = tensor.bytes(&c.role).unwrap() == other.bytes(&c.role).unwrap();
            assert!(same, "{} differs in {}", tensor.name(), b.display());
        }
    }
    let found = holdall([Path::new("diff"), a, b]).ends_with(0);
    assert!(found.err.is_empty(), "{}", found.err);
}

#[test]
#[ignore = "needs a real model: cargo xtask interop"]
fn a_real_model_goes_there_and_back() {
    let model = std::env::var_os("HOLDALL_MODEL").expect("`cargo xtask interop` runs this test");
    let model = PathBuf::from(model);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let convert = |from: &Path, to: &Path, args: &[&str]| {
        let from_to = [from.to_str().unwrap(), to.to_str().unwrap()];
        holdall([&["convert"], &from_to[..], args].concat()).ends_with(0);
    };
    assert!(holdall::open(&model).unwrap().len() > 50);
    let mut before = model.clone();
    for (number, args) in [
        &["--to", "ztensor@1.2"][..],
        &["--to", "ztensor@1.2", "--encoding", "zstd:1"],
        &["--to", "ztensor@1.2", "--encoding", "raw", "--digest", "sha256", "--align", "4096"],
        &["--to", "ztensor@1.0"],
        &["--to", "ztensor@0.1"],
        &["--to", "metatensor"],
    ]
    .into_iter()
    .enumerate()
    {
        // Also from the previous version: nothing that a version loses reappears in the next.
        for from in [&model, &before] {
            let to = path(&format!("{number}.zt"));
            convert(from, &to, &[args, &["--force"]].concat());
            holdall([Path::new("verify"), &to]).ends_with(0);
            assert_same(&model, &to);
            let back = path("back.safetensors");
            convert(&to, &back, &["--force"]);
            assert_same(&model, &back);
            let header = |path: &Path| {
                let file = holdall::open(path).unwrap();
                let attributes = file.attributes().to_json();
                (file.names().map(str::to_owned).collect::<Vec<_>>(), attributes)
            };
            let (mut expected, mut found) = (header(&model), header(&back));
            expected.0.sort();
            found.0.sort();
            assert_eq!(expected, found);
        }
        before = path(&format!("{number}.zt"));
    }
}
