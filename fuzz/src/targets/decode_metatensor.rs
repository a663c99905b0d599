//! Decoding anything as a Metatensor gives an index that can be walked, or an error of the file.

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    super::decode(&holdall_formats::metatensor::FORMAT, data);
}
