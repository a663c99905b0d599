//! Headers of `.npy` files.

pub use holdall_core::wire::npy::{
    DESCR_KEYWORD, Element, Field, FieldType, Fields, HEADER_MAX, Header, header, header_len,
    header_of, read,
};

use holdall_core::Result;
use holdall_io::Tensor;

/// Returns NumPy's name of the type of a tensor's elements, if it says more than their storage type, and the shape in such elements: a
/// structured type for a dataset, and times, texts and opaque bytes, which an attribute of the tensor names. Their bytes, row by row, are
/// those of an `.npy` file behind [`header_of`] this type and shape.
///
/// # Errors
/// `npy/no-such-type`, for datasets whose records no structured type describes.
pub fn type_of(tensor: &Tensor) -> Result<Option<(String, Vec<u64>)>> {
    #[cfg(any(feature = "numpy", feature = "hdf5"))]
    return holdall_formats::npy_type(&holdall_io::items::spec_of(tensor));
    #[cfg(not(any(feature = "numpy", feature = "hdf5")))]
    {
        let _ = tensor;
        Ok(None)
    }
}
