//! Decoding anything as a package gives an index that can be walked, or an error of the file.

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    super::decode(&holdall_formats::carton::FORMAT, data);
}
