//! Headers of `.npy` files.

pub use holdall_core::wire::npy::{
    DESCR_KEYWORD, Element, Field, FieldType, Fields, HEADER_MAX, Header, header, header_len,
    header_of, read,
};

use holdall_core::Result;
use holdall_io::Tensor;

/// Returns NumPy's name for the type of a tensor's elements and the shape in such elements, or `None` if it
/// follows from the storage type. Datasets have structured types; tensors with an attribute that names a NumPy
/// type can have times, strings and opaque bytes. In an `.npy` file, the tensor's bytes in row-major order come
/// after the [`header_of`] this type and shape.
///
/// # Errors
/// Returns `npy/no-such-type` if no structured type describes the records of a dataset.
pub fn type_of(tensor: &Tensor) -> Result<Option<(String, Vec<u64>)>> {
    #[cfg(any(feature = "numpy", feature = "hdf5"))]
    return holdall_formats::npy_type(&holdall_io::items::spec_of(tensor));
    #[cfg(not(any(feature = "numpy", feature = "hdf5")))]
    {
        let _ = tensor;
        Ok(None)
    }
}
