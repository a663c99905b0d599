//! Runs the example with a small model.

#[path = "../examples/first_layer.rs"]
mod first_layer;

use std::cell::RefCell;

#[test]
fn a_model_is_computed_with_while_it_arrives_though_the_connection_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let lines = RefCell::new(Vec::new());
    first_layer::run(folder.path(), 16 << 20, |line| lines.borrow_mut().push(line)).unwrap();
    let lines = lines.into_inner();
    assert!(lines[1].ends_with("computed, 31 on their way"), "{lines:#?}");
    // A server whose disk is fast enough to read the second layer first sends it first.
    let gone = lines.iter().position(|line| line.ends_with("the server is gone")).unwrap();
    assert!(lines[..gone].iter().any(|line| line.contains(" layers.0 computed")), "{lines:#?}");
    assert!(lines.last().unwrap().contains("every byte the same"), "{lines:#?}");
}
