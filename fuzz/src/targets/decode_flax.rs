//! Decoding anything as Flax's gives an index that can be walked, or an error of the file.

use holdall_formats::flax::FORMAT;

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    super::decode(&FORMAT, data);
}
