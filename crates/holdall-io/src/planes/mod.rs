//! Tensors in byte planes: joined into dense ones, and made from them.

pub(crate) mod smallest;
pub(crate) mod split;

pub use smallest::smallest_item;
pub use split::{PlaneSource, best, item};

use crate::buffer::Buffer;
use crate::file::Tensor;
use crate::workers;
use bytes::Bytes;
use holdall_core::layout::dense::{Dense, row_range};
use holdall_core::layout::planes::{Planes, check};
use holdall_core::layout::{LENGTH, ROWS};
use holdall_core::{Error, Layout, Result, Role};
use std::ops::Range;

/// Elements that a thread joins at a time.
const AT_A_TIME: usize = 1 << 19;

/// Returns `true` if the component in this role is not stored, but joined from planes.
pub(crate) fn is_joined(tensor: &Tensor, role: &Role) -> bool {
    *role == Role::Data && matches!(tensor.layout(), Layout::Planes(_))
}

fn in_context(tensor: &Tensor) -> impl Fn(Error) -> Error {
    |e| e.in_tensor(tensor.name()).in_source(tensor.file().name())
}

/// Returns the whole tensor.
pub(crate) fn to_dense(tensor: &Tensor) -> Result<Dense> {
    let plane_type = check(tensor.info()).map_err(in_context(tensor))?;
    let memory = joined(tensor)?;
    Ok(Dense::new(plane_type.dtype, None, tensor.shape().to_vec(), memory.freeze()))
}

/// Returns the elements of the whole tensor in new memory.
pub(crate) fn joined(tensor: &Tensor) -> Result<Buffer> {
    let plane_type = check(tensor.info()).map_err(in_context(tensor))?;
    tensor.check_dense()?;
    // At most the limit, which `check_dense` compares.
    let len = tensor.count().saturating_mul(plane_type.count as u64);
    let mut out = Buffer::mapped(len as usize)?;
    join_into(tensor, out.as_mut())?;
    Ok(out)
}

/// Stores the elements of the whole tensor in `out`.
pub(crate) fn join_into(tensor: &Tensor, out: &mut [u8]) -> Result<()> {
    let checked = tensor.checked();
    let view = Planes::from_tensor(tensor.info(), |role| checked.bytes(role));
    let view = view.map_err(in_context(tensor))?;
    let plane_type = view.plane_type();
    if out.len() as u64 != tensor.count().saturating_mul(plane_type.count as u64) {
        let expected = tensor.count().saturating_mul(plane_type.count as u64);
        let message = format!("expected a buffer of {expected} bytes, found {}", out.len());
        return Err(in_context(tensor)(LENGTH.broken(message)));
    }
    let runs = out.chunks_mut(AT_A_TIME * plane_type.count).enumerate().collect();
    let joined = workers::for_each(
        workers::threads(None),
        runs,
        || (),
        |(), (at, out): (usize, &mut [u8])| {
            let start = (at * AT_A_TIME) as u64;
            view.read(start..start + (out.len() / plane_type.count) as u64, out)
        },
    );
    joined.map_err(in_context(tensor))
}

/// Returns the bytes `range` of the elements, reading only the frames that contain them.
pub(crate) fn range(tensor: &Tensor, range: Range<u64>) -> Result<Bytes> {
    let plane_type = check(tensor.info()).map_err(in_context(tensor))?;
    let width = plane_type.count as u64;
    if range.start > range.end || range.end > tensor.count().saturating_mul(width) {
        let Range { start, end } = range;
        let message = format!("bytes {start}..{end} are outside the elements");
        return Err(in_context(tensor)(ROWS.broken(message)));
    }
    let elements = range.start / width..range.end.div_ceil(width);
    let read = |role: Role| tensor.bytes_range(&role, elements.clone());
    let planes = plane_type.roles().map(read).collect::<Result<Vec<Bytes>>>()?;
    let planes: Vec<&[u8]> = planes.iter().map(|plane| &plane[..]).collect();
    let mut out = vec![0; ((elements.end - elements.start) * width) as usize];
    plane_type.join(&planes, &mut out).map_err(in_context(tensor))?;
    let first = (range.start - elements.start * width) as usize;
    Ok(Bytes::from(out).slice(first..first + (range.end - range.start) as usize))
}

/// Returns the rows `rows` of the first dimension, reading only the frames that contain them.
pub(crate) fn rows(tensor: &Tensor, rows: Range<u64>) -> Result<Dense> {
    let plane_type = check(tensor.info()).map_err(in_context(tensor))?;
    let bytes = row_range(tensor.shape(), plane_type.dtype, None, rows.clone())
        .map_err(in_context(tensor))?;
    let out = range(tensor, bytes)?;
    let mut shape = tensor.shape().to_vec();
    if let Some(first) = shape.first_mut() {
        *first = rows.end - rows.start;
    }
    Ok(Dense::new(plane_type.dtype, None, shape, out))
}
