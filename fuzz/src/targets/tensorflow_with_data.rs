//! Decoding any bytes as the index of a TensorFlow checkpoint, with data files next to it, gives an index that can be
//! walked, or an error of the file.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::{Bytes, Stop, Window};
use holdall_formats::tensorflow::FORMAT;

/// The length of each data file in bytes.
const LEN: u64 = 4096;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let (window, limits) = (Window::whole(Bytes::copy_from_slice(data)), limits::tight());
    let Some(beside) = FORMAT.external_files else { panic!("a checkpoint has files next to it") };
    let Ok(names) = (beside.names)(&window, &limits) else { return };
    let files: Vec<(String, u64)> = names.into_iter().take(8).map(|name| (name, LEN)).collect();
    match (beside.decode)(&window, &limits, &files) {
        Ok(index) => {
            for tensor in index.tensors() {
                let _ = (tensor.fault(), tensor.stored_len());
                assert!(tensor.components().all(|c| c.stored.end <= LEN.max(c.stored.len())));
            }
            for array in index.chunked() {
                assert!(array.covering(0..array.len()).count() <= array.chunks().len());
            }
        }
        Err(Stop::Fail(e)) => is_of_the_file(&e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}
