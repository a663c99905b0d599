//! Decoding anything as NumPy's gives an index that can be walked, or an error of the file.

use holdall_formats::numpy::{NPY, NPZ};

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    super::decode(&NPY, data);
    super::decode(&NPZ, data);
}
