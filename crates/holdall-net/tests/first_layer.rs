//! Runs the example with a small model.

#[path = "../examples/first_layer.rs"]
mod first_layer;

use std::cell::RefCell;

#[test]
fn a_model_is_computed_with_while_it_arrives_though_the_connection_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let told = RefCell::new(Vec::new());
    first_layer::run(folder.path(), 16 << 20, |line| told.borrow_mut().push(line)).unwrap();
    let told = told.into_inner();
    assert!(told[1].ends_with("computed, 31 on their way"), "{told:#?}");
    // A server whose disk is fast enough to read the second layer first sends it first.
    let gone = told.iter().position(|line| line.ends_with("the server is gone")).unwrap();
    assert!(told[..gone].iter().any(|line| line.contains(" layers.0 computed")), "{told:#?}");
    assert!(told.last().unwrap().contains("every byte the same"), "{told:#?}");
}
