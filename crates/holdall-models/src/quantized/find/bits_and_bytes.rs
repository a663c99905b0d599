//! Weights of bitsandbytes.

use super::super::decoding::{
    Along, Arithmetic, ByteCode, Codes, Cover, Decoding, Grid, Order, ScaleType, Table,
};
use super::super::kind::Kind;
use super::super::settings::{count, member, parse_object};
use super::super::{CONTENT, KIND, PARAMETER, SHAPE};
use super::Finder;
use super::draft::{Described, Draft, cover, plain};
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::element_count;
use holdall_core::{DType, Value};

/// The part of a tensor's name that says that it describes a weight in 4 bits.
pub(super) const STATE: &str = ".quant_state.bitsandbytes__";

/// The factor of the library, 1/127 as it rounds it.
const INVERSE: f32 = 0.007_874_016;

/// Adds the weights of bitsandbytes.
pub(super) fn find(finder: &mut Finder<'_>) {
    let states: Vec<(&str, &str)> =
        finder.unclaimed().filter_map(|tensor| tensor.name.split_once(STATE)).collect();
    for (name, kind) in states {
        finder.add(name, |draft| four_bits(draft, name, kind));
    }
    for module in finder.with_suffix(".SCB") {
        finder.add(format!("{module}.weight"), |draft| eight_bits(draft, module));
    }
}

fn four_bits(draft: &mut Draft<'_, '_>, name: &str, kind: &str) -> Result<Described> {
    draft.kind(Kind::BitsAndBytes4);
    let state_name = format!("{name}{STATE}{kind}");
    draft.take("state", &state_name)?;
    let weight = draft.take("weight", name)?;
    let map = draft.take("map", &format!("{name}.quant_map"))?;
    let scale = draft.take("scale", &format!("{name}.absmax"))?;
    let text = std::str::from_utf8(draft.small(&state_name)?)
        .map_err(|_| CONTENT.broken("the state is not UTF-8").in_tensor(&state_name))?;
    let state = parse_object(text).map_err(|e| e.in_tensor(&state_name))?;
    draft.parameter("quant_type", kind.escaped());
    if !matches!(kind, "nf4" | "fp4") {
        return Err(KIND.broken(format!("codes of type `{}`", kind.escaped())));
    }
    let no = |what: &str| {
        PARAMETER.broken(format!("`{what}` is missing or invalid")).in_tensor(&state_name)
    };
    let block = member(&state, "blocksize").and_then(count).ok_or_else(|| no("blocksize"))?;
    draft.parameter("block", block);
    let shape = match member(&state, "shape") {
        Some(Value::Array(sizes)) => sizes
            .iter()
            .map(|size| size.as_integer().and_then(|n| u64::try_from(n).ok()))
            .collect::<Option<Vec<u64>>>(),
        _ => None,
    };
    let shape = shape.ok_or_else(|| no("shape"))?;
    let elements = element_count(&shape).filter(|n| *n <= u64::MAX / 64);
    let elements = elements.ok_or_else(|| no("shape"))?;
    // The bytes are stored in elements of any width.
    let len = elements.div_ceil(2);
    let padded = len.div_ceil(weight.dtype.width().max(1)).saturating_mul(weight.dtype.width());
    if weight.byte_len() != Some(padded) {
        let message =
            format!("shape {shape:?} needs {padded} bytes, found shape {:?}", weight.shape);
        return Err(SHAPE.broken(message).in_tensor(name));
    }
    map.expect_shape(&[16])?;
    map.expect_type(map.is_plain(DType::F32), "f32")?;
    let blocks = elements.div_ceil(block);
    scale.expect_shape(&[blocks])?;
    let scale_type = match member(&state, "nested_blocksize") {
        None => {
            scale.expect_type(scale.is_wide_float(), "floats")?;
            ScaleType::Stored
        }
        Some(nested) => {
            scale.expect_type(scale.is_plain(DType::U8), "u8")?;
            let nested = count(nested).ok_or_else(|| no("nested_blocksize"))?;
            let offset = member(&state, "nested_offset").and_then(Value::as_f64);
            let offset = offset.ok_or_else(|| no("nested_offset"))?;
            let map = draft.take("nested_map", &format!("{name}.nested_quant_map"))?;
            map.expect_shape(&[256])?;
            let outer = draft.take("nested_scale", &format!("{name}.nested_absmax"))?;
            outer.expect_shape(&[blocks.div_ceil(nested)])?;
            let is_f32 = map.is_plain(DType::F32) && outer.is_plain(DType::F32);
            outer.expect_type(is_f32, "f32")?;
            draft.parameter("nested_block", nested);
            ScaleType::Nested { block: nested, offset: nearest_f32(offset) }
        }
    };
    let grid = Grid {
        matrices: 1,
        rows: 1,
        columns: blocks,
        row: Along::Size(1),
        column: Along::Size(block),
        scale: "scale",
        scale_type,
        order: Order::Rows(blocks),
        factor: None,
    };
    let decoding = Decoding {
        matrices: 1,
        rows: 1,
        columns: elements,
        is_transposed: false,
        data: "weight",
        codes: Codes::HighNibbles { row_len: len, table: Table::Component("map") },
        grid,
        arithmetic: Arithmetic::Multiply,
    };
    Ok(Described { shape, decoding })
}

fn eight_bits(draft: &mut Draft<'_, '_>, module: &str) -> Result<Described> {
    draft.kind(Kind::BitsAndBytes8);
    let scale = draft.take("scale", &format!("{module}.SCB"))?;
    let weight = draft.take("weight", &format!("{module}.weight"))?;
    weight.expect_type(weight.is_plain(DType::I8), "i8")?;
    scale.expect_type(scale.is_plain(DType::F32), "f32")?;
    let format = format!("{module}.weight_format");
    if draft.take_optional("format", &format).is_some() {
        let bytes = draft.small(&format)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(KIND.broken("8-bit integers whose `weight_format` is not 0 (rows)"));
        }
    }
    if weight.shape.len() != 2 {
        let message = format!("expected 2 dimensions, found {:?}", weight.shape);
        return Err(SHAPE.broken(message).in_tensor(&weight.name));
    }
    let grid = cover(&weight.shape, scale, &[Cover::Rows])?;
    plain(
        weight.shape.clone(),
        Codes::Bytes(ByteCode::Signed),
        grid,
        Arithmetic::MultiplyBy(INVERSE),
    )
}

/// Rounds to the nearest `f32`.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn nearest_f32(x: f64) -> f32 {
    x as f32
}
