//! Tensors in byte planes: joined into dense ones, and made from them.

pub(crate) mod split;

pub use split::{PlaneSource, item};

use crate::buffer::Buffer;
use crate::file::Tensor;
use crate::workers;
use bytes::Bytes;
use holdall_core::layout::DENSE_LIMIT;
use holdall_core::layout::dense::{Dense, row_range};
use holdall_core::layout::planes::{Planes, check};
use holdall_core::model::plane::PlaneType;
use holdall_core::{Error, Result, Role};
use std::ops::Range;

/// Elements that a thread joins at a time.
const AT_A_TIME: usize = 1 << 19;

/// Returns the whole tensor.
pub(crate) fn to_dense(tensor: &Tensor) -> Result<Dense> {
    let placed = |e: Error| e.in_tensor(tensor.name()).in_source(tensor.file().name());
    let of = check(tensor.info()).map_err(placed)?;
    let most = tensor.file().limits().decoded_len;
    let len = tensor.count().checked_mul(of.count as u64).filter(|len| *len <= most);
    let Some(len) = len else {
        let (count, dtype) = (tensor.count(), of.dtype);
        let message = format!("{count} elements of {dtype} exceed the limit of {most} bytes");
        return Err(placed(DENSE_LIMIT.broken(message)));
    };
    let checked = tensor.checked();
    let view = Planes::from_tensor(tensor.info(), |role| checked.bytes(role)).map_err(placed)?;
    let mut out = Buffer::mapped(len as usize)?;
    join(of, &view, out.as_mut()).map_err(placed)?;
    Ok(Dense::new(of.dtype, None, tensor.shape().to_vec(), out.freeze()))
}

fn join(of: &PlaneType, view: &Planes, out: &mut [u8]) -> Result<()> {
    let runs = out.chunks_mut(AT_A_TIME * of.count).enumerate().collect();
    workers::for_each(
        workers::threads(None),
        runs,
        || (),
        |(), (at, out)| {
            let start = (at * AT_A_TIME) as u64;
            view.read(start..start + (out.len() / of.count) as u64, out)
        },
    )
}

/// Returns the rows `rows` of the first dimension, reading only the frames that contain them.
pub(crate) fn rows(tensor: &Tensor, rows: Range<u64>) -> Result<Dense> {
    let placed = |e: Error| e.in_tensor(tensor.name()).in_source(tensor.file().name());
    let of = check(tensor.info()).map_err(placed)?;
    let range = row_range(tensor.shape(), of.dtype, None, rows.clone()).map_err(placed)?;
    let width = of.count as u64;
    let elements = range.start / width..range.end / width;
    let read = |role: Role| tensor.bytes_range(&role, elements.clone());
    let planes = of.roles().map(read).collect::<Result<Vec<Bytes>>>()?;
    let planes: Vec<&[u8]> = planes.iter().map(|plane| &plane[..]).collect();
    let mut out = vec![0; ((elements.end - elements.start) * width) as usize];
    of.join(&planes, &mut out).map_err(placed)?;
    let mut shape = tensor.shape().to_vec();
    if let Some(first) = shape.first_mut() {
        *first = rows.end - rows.start;
    }
    Ok(Dense::new(of.dtype, None, shape, Bytes::from(out)))
}
