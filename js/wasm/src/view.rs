//! Dense forms of tensors that are not dense, and conversion of elements to numbers.

use crate::json::CALL;
use crate::{Answer, le};
use holdall_core::error::Escape as _;
use holdall_core::layout::blocks::Blocks;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::number::ElementType;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::layout::{Computed as _, float, planes::Planes, strided::Strided};
use holdall_core::{Bytes, DType, Error, Layout, Limits, LogicalType, Role, TensorInfo};
use std::collections::BTreeMap;

/// Decoded components by index.
pub(crate) type Held = BTreeMap<u32, Bytes>;

/// Returns a held component by role.
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

/// Returns the elements of a tensor, row-major.
pub(crate) fn dense(info: TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let made = dense_view(&info, held, limits).map_err(|e| e.in_tensor(info.name()))?;
    Ok(Answer::Done(made.into_bytes().into()))
}

fn dense_view(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Dense, Error> {
    let get = get(info, held);
    match info.layout() {
        Layout::SparseCsr | Layout::PackedCsr => {
            Csr::from_tensor(info, get, limits)?.to_dense(limits)
        }
        Layout::SparseCoo | Layout::PackedCoo => {
            Coo::from_tensor(info, get, limits)?.to_dense(limits)
        }
        Layout::SparseBlocks | Layout::SparseHybrid => {
            Tiles::from_tensor(info, get, limits)?.to_dense(limits)
        }
        Layout::QuantizedGroup => Quantized::from_tensor(info, get)?.to_dense(limits),
        Layout::Blocks(_) => Blocks::from_tensor(info, get)?.to_dense(limits),
        Layout::Strided => Strided::from_tensor(info, get)?.to_dense(limits),
        Layout::Planes(_) => Planes::from_tensor(info, get)?.to_dense(limits),
        other => {
            let layout = other.as_str().escaped();
            Err(CALL.broken(format!("the layout `{layout}` has no dense form")))
        }
    }
}

/// Returns the element type of its dense form.
pub(crate) fn dense_type(info: &TensorInfo) -> Option<ElementType> {
    match info.layout() {
        layout if layout.is_computed() => Some(ElementType::new(DType::F32, None)),
        Layout::Records | Layout::Blob | Layout::Other(_) => None,
        _ => Some(ElementType::new(info.dtype()?, info.logical_type())),
    }
}

/// Returns the name of an element type: the storage type, with the logical type if it has one
/// (`f32`, `u8 f8_e5m2`).
pub(crate) fn name_of(element_type: &ElementType) -> String {
    match &element_type.logical_type {
        Some(logical) => format!("{} {logical}", element_type.dtype.as_str()),
        None => element_type.dtype.as_str().to_owned(),
    }
}

/// Parses the name of an element type.
pub(crate) fn element_type(name: &[u8]) -> Result<ElementType, Error> {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let (dtype, logical) = match name.split_once(' ') {
        Some((dtype, logical)) => (dtype, Some(LogicalType::from_name(logical))),
        None => (name, None),
    };
    let dtype = DType::from_name(dtype);
    let element_type = dtype.map(|dtype| ElementType::new(dtype, logical));
    element_type
        .ok_or_else(|| CALL.broken(format!("there is no element type `{}`", name.escaped())))
}

/// Decodes whole blocks of a quantized tensor to `f32`.
pub(crate) fn blocks(info: &TensorInfo, bytes: Bytes) -> Result<Answer, Error> {
    let Layout::Blocks(block_type) = info.layout() else {
        return Err(CALL.broken("the tensor has no blocks"));
    };
    let count = bytes.len() as u64 / block_type.bytes * block_type.elements;
    let made = Blocks::new(block_type, &[count], bytes).and_then(|blocks| blocks.dequantize());
    let made = made.map_err(|e| e.in_tensor(info.name()))?;
    Ok(Answer::Done(made.iter().flat_map(|x| x.to_le_bytes()).collect()))
}

/// Converts elements of a type to `f32` or `f64`.
pub(crate) fn numbers(input: &[u8], name_len: usize, wide: bool) -> Result<Answer, Error> {
    let (name, bytes) = input.split_at(name_len.min(input.len()));
    let ElementType { dtype, logical_type: logical, .. } = element_type(name)?;
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

/// Returns the range of a tensor's data that holds elements `start..end`, the number of elements
/// before them in that range, and the size of its smallest unit of whole elements in bytes; empty
/// if ranges cannot be read separately.
pub(crate) fn range(info: &TensorInfo, start: u64, end: u64) -> Answer {
    let end = end.min(info.count());
    let start = start.min(end);
    let (bits, unit, elements) = match info.layout() {
        Layout::Dense => {
            let Some(element_type) = dense_type(info) else { return Answer::NOTHING };
            (element_type.bits(), element_type.bits() / 2, 4)
        }
        Layout::Blocks(block_type) => (0, block_type.bytes, block_type.elements),
        _ => return Answer::NOTHING,
    };
    let Some(data) = info.component(&Role::Data) else { return Answer::NOTHING };
    let first = start / elements;
    let behind = end.div_ceil(elements).saturating_mul(unit);
    let whole = if bits == 0 {
        info.count() / elements * unit
    } else {
        data.decoded_len.unwrap_or(u64::MAX)
    };
    Answer::Done(le([
        first.saturating_mul(unit),
        behind.min(whole),
        start - first * elements,
        unit,
    ]))
}
