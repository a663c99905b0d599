//! The table of a distributed checkpoint, with items that are all the same file.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::{Bytes, Window};
use holdall_formats::pytorch::{FORMAT, checkpoint::Checkpoint};

const ITEM: &[u8] = include_bytes!("../../../corpus/accept/pytorch/torch_alone.pt");

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits::tight();
    let checkpoint = match Checkpoint::read(data, &limits) {
        Ok(checkpoint) => checkpoint,
        Err(e) => return is_of_the_file(&e),
    };
    let Ok(item) = (FORMAT.decode)(&Window::whole(Bytes::from_static(ITEM)), &limits) else {
        panic!("the item is sound")
    };
    let items = vec![item; checkpoint.items().len()];
    let lens = vec![1 << 20; checkpoint.files().len()];
    match checkpoint.join(&lens, &items, &limits) {
        Ok(index) => {
            for tensor in index.tensors() {
                let _ = (tensor.fault(), tensor.components().len(), tensor.stored_len());
            }
            for array in index.chunked() {
                assert!(array.covering(0..array.len()).count() <= array.chunks().len());
            }
        }
        Err(e) => is_of_the_file(&e),
    }
}
