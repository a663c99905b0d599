//! The example file of the repository equals the output of its program.

#[path = "../examples/make_example.rs"]
mod make_example;

use std::path::Path;

#[test]
fn the_example_file_matches_its_program() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let kept = std::fs::read(kept).expect("examples/tiny.zt");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.zt");
    make_example::make(&path).expect("the example is made");
    let made = std::fs::read(path).expect("the made file");
    let again = "`cargo run -p holdall --example make_example` makes it anew";
    assert!(made == kept, "{} bytes made, {} kept: {again}", made.len(), kept.len());
    assert!(kept.len() < 30_000, "{} bytes are not small", kept.len());
}
