//! Headers of `.npy` files: a header that is read can be written, and is read back unchanged.

use holdall::ByteOrder;
use holdall::npy;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let found = match npy::read(data) {
        Ok(found) => found,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    let len = npy::header_len(&data[..data.len().min(12)]).expect("its length was read");
    assert_eq!(len, found.len);
    assert!(len <= data.len() as u64);
    let logical = found.logical_type.as_ref();
    let written = npy::header(found.dtype, logical, &found.shape).expect("NumPy has its type");
    let own = npy::Header {
        byte_order: ByteOrder::Little,
        fortran_order: false,
        len: written.len() as u64,
        ..found
    };
    match npy::read(&written) {
        Ok(back) => assert_eq!(back, own),
        // Written numbers may be longer than the original ones.
        Err(e) => assert!(written.len() as u64 > npy::HEADER_MAX, "{e}"),
    }
    assert!(written.len().is_multiple_of(64));
}

/// Returns the headers of all tensors.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let header = |t: holdall::Tensor| npy::header(t.dtype()?, None, t.shape()).ok();
    file.tensors().filter_map(header).collect()
}
