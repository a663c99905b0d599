//! The hand-written targets: the encodings of formats, and operations on tensors. Targets that decode a format follow
//! from the list of formats: [`decode`].

pub mod apply_delta;
pub mod assembly;
pub mod carton_texts;
pub mod cbor;
pub mod checkpoint;
pub mod columns;
pub mod decode_delta;
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
pub mod tensorflow_with_data;
pub mod views_dense;
pub mod views_described;
pub mod views_quantized;
pub mod views_sparse;
pub mod windowed;
pub mod zip;
pub mod zstd_seekable;
pub mod ztensor2_resealed;

use crate::limits;
use crate::walk::{is_of_the_file, walk};
use holdall::{Bytes, Format, Stop, Window};

/// Decodes a whole file as `format`, whatever its contents, and walks the result.
pub(crate) fn decode(format: &Format, data: &[u8]) {
    let window = Window::whole(Bytes::copy_from_slice(data));
    match (format.decode)(&window, &limits::tight()) {
        Ok(index) => walk(&index, data.len() as u64),
        Err(Stop::Fail(e)) => is_of_the_file(&e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}
