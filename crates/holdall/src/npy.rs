//! Headers of `.npy` files.

pub use holdall_core::wire::npy::{
    DESCR_KEYWORD, Element, Field, FieldType, Fields, HEADER_MAX, Header, header, header_len,
    header_of, read,
};

use holdall_core::Result;
use holdall_io::Tensor;

/// Returns NumPy's name for the type of a tensor's elements and the shape in such elements, or `None` if the
/// name says no more than the storage type. Structured types are returned for datasets; times, texts and
/// opaque bytes for tensors with an attribute that names them. The tensor's bytes, row by row, follow the
/// [`header_of`] this type and shape in an `.npy` file.
///
/// # Errors
/// `npy/no-such-type` if no structured type describes the records of a dataset.
pub fn type_of(tensor: &Tensor) -> Result<Option<(String, Vec<u64>)>> {
    #[cfg(any(feature = "numpy", feature = "hdf5"))]
    return holdall_formats::npy_type(&holdall_io::items::spec_of(tensor));
    #[cfg(not(any(feature = "numpy", feature = "hdf5")))]
    {
        let _ = tensor;
        Ok(None)
    }
}
