//! The files of the corpus that each format's own tables make. Written by `cargo xtask gen` from the list of formats.

#[path = "../../crates/holdall-formats/tests/carton_files/mod.rs"]
pub(crate) mod carton_files;

#[path = "../../crates/holdall-formats/tests/flax_files/mod.rs"]
pub(crate) mod flax_files;

#[path = "../../crates/holdall-formats/tests/gguf_files/mod.rs"]
pub(crate) mod gguf_files;

#[path = "../../crates/holdall-formats/tests/hdf5_files/mod.rs"]
pub(crate) mod hdf5_files;

#[path = "../../crates/holdall-formats/tests/metatensor_files/mod.rs"]
pub(crate) mod metatensor_files;

#[path = "../../crates/holdall-formats/tests/numpy_files/mod.rs"]
pub(crate) mod numpy_files;

#[path = "../../crates/holdall-formats/tests/onnx_files/mod.rs"]
pub(crate) mod onnx_files;

#[path = "../../crates/holdall-formats/tests/pytorch_files/mod.rs"]
pub(crate) mod pytorch_files;

#[path = "../../crates/holdall-formats/tests/safetensors_files/mod.rs"]
pub(crate) mod safetensors_files;

#[path = "../../crates/holdall-formats/tests/tensorflow_files/mod.rs"]
pub(crate) mod tensorflow_files;

#[path = "../../crates/holdall-formats/tests/tflite_files/mod.rs"]
pub(crate) mod tflite_files;

#[path = "../../crates/holdall-formats/tests/ztensor_files/mod.rs"]
pub(crate) mod ztensor_files;

#[path = "../../crates/holdall-formats/tests/ztensor2_files/mod.rs"]
pub(crate) mod ztensor2_files;

/// Makes files of the corpus: the path of each below `corpus/`, and its bytes.
pub(crate) type Make = fn() -> Vec<(String, Vec<u8>)>;

/// The functions that make the files of each family.
pub(crate) static TABLES: &[Make] = &[
    carton_files::files,
    flax_files::files,
    gguf_files::files,
    hdf5_files::files,
    metatensor_files::files,
    numpy_files::files,
    onnx_files::files,
    pytorch_files::files,
    safetensors_files::files,
    tensorflow_files::files,
    tflite_files::files,
    ztensor_files::files,
    ztensor2_files::files,
];
