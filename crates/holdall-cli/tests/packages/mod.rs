//! Packages on the command line: packed, inspected, verified, unpacked, compared, and killed meanwhile.
#![cfg(feature = "carton")]

mod hashes;
mod pack;
mod shown;
#[cfg(unix)]
mod symlinks;
mod unpack;

use crate::command::holdall;
use std::path::Path;

/// Returns a length-delimited field of a protocol buffer.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// Returns an ONNX graph that only declares an input `x` of this type and of shape `[n, 2]`.
fn onnx(element: u8) -> Vec<u8> {
    onnx_with(element, &[])
}

/// Returns such a graph with further fields, such as nodes.
fn onnx_with(element: u8, fields: &[u8]) -> Vec<u8> {
    let dims = [field(1, &field(2, b"n")), field(1, &[0x08, 2])].concat();
    let tensor = [vec![0x08, element], field(2, &dims)].concat();
    let value = [field(1, b"x"), field(2, &field(1, &tensor))].concat();
    let graph = [fields, &field(2, b"g"), &field(11, &value), &field(12, &value)].concat();
    [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat()
}

const CARD: &str = r#"
spec_version = 1
model_name = "Echo"
[[input]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[output]]
name = "x"
dtype = "float32"
shape = ["n", 2]
[[self_test]]
inputs = { x = "@tensor_data/x" }
expected_out = { x = "@tensor_data/x" }
[[example]]
inputs = { x = "@misc/note.txt" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

/// Returns an `.npy` file of ones.
fn npy(shape: &str, count: usize) -> Vec<u8> {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let head = format!("{head:<117}\n");
    let len = (head.len() as u16).to_le_bytes();
    let ones = std::iter::repeat_n(1f32.to_le_bytes(), count).flatten();
    b"\x93NUMPY\x01\x00".iter().copied().chain(len).chain(head.into_bytes()).chain(ones).collect()
}

fn write(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the names of incomplete files in a folder.
fn left(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".part")).collect()
}

/// Writes a sound package of one safetensors file, and a copy in which the last element differs.
fn sound_and_altered(dir: &Path) -> (String, String) {
    let header = r#"{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    let len = (header.len() as u64).to_le_bytes();
    let file = [&len[..], header.as_bytes(), b"tail"].concat();
    let model = write(dir, "t.safetensors", file);
    let sound = dir.join("sound.carton").to_str().unwrap().to_owned();
    let version = ["--runner", "noop", "--framework-version", "=1.0.0"];
    holdall([&["pack", &model, "-o", &sound][..], &version].concat()).ends_with(0);
    let mut bytes = std::fs::read(&sound).unwrap();
    let at = bytes.windows(4).position(|w| w == b"tail").unwrap();
    bytes[at] = b'T';
    (sound, write(dir, "altered.carton", bytes))
}
