//! Decoding anything as a model of LiteRT gives an index that can be walked, or an error of the file.

use holdall_formats::tflite::FORMAT;

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    super::decode(&FORMAT, data);
}
