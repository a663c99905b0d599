//! The targets. Those that decode come first, then what formats are made of, then what is done with
//! tensors.

pub mod assembly;
pub mod carton_texts;
pub mod cbor;
pub mod checkpoint;
pub mod columns;
pub mod decode_carton;
pub mod decode_flax;
pub mod decode_gguf;
pub mod decode_hdf5;
pub mod decode_metatensor;
pub mod decode_numpy;
pub mod decode_onnx;
pub mod decode_pytorch;
pub mod decode_safetensors;
pub mod decode_tensorflow;
pub mod decode_tflite;
pub mod decode_ztensor;
pub mod decode_ztensor2;
pub mod diff;
pub mod file;
pub mod http_texts;
pub mod json;
pub mod metatensor;
pub mod npy;
pub mod pickle;
pub mod records;
pub mod roundtrip;
pub mod runner_frames;
pub mod schema_evolution;
pub mod schema_layout;
pub mod stream_frames;
pub mod tar;
pub mod views_dense;
pub mod views_described;
pub mod views_quantized;
pub mod views_sparse;
pub mod windowed;
pub mod zip;
pub mod zstd_seekable;

use crate::limits;
use crate::walk::{is_of_the_file, walk};
use holdall::{Bytes, Format, Stop, Window};

/// Decodes a whole file as one of `format`, whatever it says it is, and walks what was decoded.
fn decode(format: &Format, data: &[u8]) {
    let window = Window::whole(Bytes::copy_from_slice(data));
    match (format.decode)(&window, &limits::tight()) {
        Ok(index) => walk(&index, data.len() as u64),
        Err(Stop::Fail(e)) => is_of_the_file(&e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}
