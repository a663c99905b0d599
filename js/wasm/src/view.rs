//! Tensors that are not dense, as dense ones; elements as numbers.

use crate::Answer;
use crate::json::CALL;
use holdall_core::error::Shown as _;
use holdall_core::layout::blocks::Blocks;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr};
use holdall_core::layout::{Computed as _, float, strided};
use holdall_core::{Bytes, DType, Error, Layout, Limits, LogicalType, Role, TensorInfo};
use std::collections::BTreeMap;

/// Decoded components by their numbers.
pub(crate) type Held = BTreeMap<u32, Bytes>;

/// Hands out what is held, by role.
pub(crate) fn get<'h>(
    info: &'h TensorInfo,
    held: &'h Held,
) -> impl Fn(&Role) -> Result<Bytes, Error> + 'h {
    move |role| {
        let number = info.components().position(|c| c.role == *role);
        let found = number.and_then(|n| held.get(&(n as u32))).cloned();
        found.ok_or_else(|| CALL.broken(format!("the component `{role}` is not held")))
    }
}

/// The elements of a tensor, row by row.
pub(crate) fn dense(info: TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let made = of_layout(&info, held, limits).map_err(|e| e.in_tensor(info.name()))?;
    Ok(Answer::Done(made.into_bytes().into()))
}

fn of_layout(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Dense, Error> {
    let get = get(info, held);
    match info.layout() {
        Layout::SparseCsr | Layout::PackedCsr => Csr::of(info, get, limits)?.to_dense(limits),
        Layout::SparseCoo | Layout::PackedCoo => Coo::of(info, get, limits)?.to_dense(limits),
        Layout::QuantizedGroup => Quantized::of(info, get)?.to_dense(limits),
        Layout::Blocks(_) => Blocks::of(info, get)?.to_dense(limits),
        Layout::Strided => strided::to_dense(info, get, limits),
        other => {
            let layout = other.as_str().shown();
            Err(CALL.broken(format!("the layout `{layout}` has no dense form")))
        }
    }
}

/// Elements of a type as `f32` or `f64`.
pub(crate) fn numbers(input: &[u8], name_len: usize, wide: bool) -> Result<Answer, Error> {
    let (name, bytes) = input.split_at(name_len.min(input.len()));
    let name = std::str::from_utf8(name).unwrap_or_default();
    let (dtype, logical) = match name.split_once(' ') {
        Some((dtype, logical)) => (dtype, Some(LogicalType::from_name(logical))),
        None => (name, None),
    };
    let Some(dtype) = DType::from_name(dtype) else {
        return Err(CALL.broken(format!("there is no element type `{}`", name.shown())));
    };
    let mut out = Vec::new();
    match wide {
        true => float::decode_f64(dtype, logical.as_ref(), bytes, |chunk| {
            chunk.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        })?,
        false => float::decode_f32(dtype, logical.as_ref(), bytes, |chunk| {
            chunk.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        })?,
    }
    Ok(Answer::Done(out))
}
