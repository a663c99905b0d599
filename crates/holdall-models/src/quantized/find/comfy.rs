//! Weights of ComfyUI: JSON in a tensor next to the weight or in the metadata of the file, or, in older files, scales
//! called `scale_weight`.

use super::super::decoding::{Arithmetic, ByteCode, Codes, Cover, Factor, Order, ScaleType, Table};
use super::super::kind::Kind;
use super::super::settings::{member, parse_object};
use super::super::{CONTENT, KIND, SHAPE, StoredTensor};
use super::Finder;
use super::draft::{Described, Draft, cover, plain, with_columns};
use super::scaled::{check_factor, fp8_codes};
use holdall_core::error::{Escape as _, Result};
use holdall_core::{DType, LogicalType, Value};

/// The key of the metadata that describes layers.
const METADATA: &str = "_quantization_metadata";
/// Members of a description that do not change the values.
const HARMLESS: [&str; 3] = ["format", "full_precision_matrix_mult", "orig_dtype"];

/// Adds the weights of ComfyUI.
pub(super) fn find(finder: &mut Finder<'_>) {
    for module in finder.with_suffix(".comfy_quant") {
        finder.add(format!("{module}.weight"), |draft| described_by_tensor(draft, module));
    }
    for (module, description) in layers(finder) {
        let name = format!("{module}.weight");
        if finder.found.iter().any(|(_, weight)| weight.name() == name) {
            continue;
        }
        finder.add(name, |draft| describe(draft, &module, &description));
    }
    // The marker of older files says that scales follow.
    let markers = finder.with_suffix("scaled_fp8");
    for module in finder.with_suffix(".scale_weight") {
        finder.add(format!("{module}.weight"), |draft| {
            for prefix in &markers {
                draft.set_aside(&format!("{prefix}scaled_fp8"));
            }
            older(draft, module)
        });
    }
}

/// Returns the layers that the metadata of the file describes.
fn layers(finder: &Finder<'_>) -> Vec<(String, Value)> {
    let metadata = finder.settings.metadata.get(METADATA);
    let parsed = match metadata {
        Some(Value::Text(text)) => parse_object(text).ok(),
        other => other.cloned(),
    };
    match parsed.as_ref().and_then(|parsed| member(parsed, "layers")) {
        Some(Value::Map(layers)) => {
            let named = layers
                .iter()
                .filter_map(|(name, value)| Some((name.as_text()?.to_owned(), value.clone())));
            named.collect()
        }
        _ => Vec::new(),
    }
}

fn described_by_tensor(draft: &mut Draft<'_, '_>, module: &str) -> Result<Described> {
    let name = format!("{module}.comfy_quant");
    draft.take("description", &name)?;
    let text = std::str::from_utf8(draft.small(&name)?)
        .map_err(|_| CONTENT.broken("the description is not UTF-8").in_tensor(&name))?;
    let description = parse_object(text).map_err(|e| e.in_tensor(&name))?;
    describe(draft, module, &description)
}

fn describe(draft: &mut Draft<'_, '_>, module: &str, description: &Value) -> Result<Described> {
    draft.set_aside(&format!("{module}.input_scale"));
    let weight = draft.take("weight", &format!("{module}.weight"))?;
    let scale = draft.take("scale", &format!("{module}.weight_scale"))?;
    let format = member(description, "format").and_then(Value::as_text);
    let format = format.ok_or_else(|| CONTENT.broken("the description has no `format`"))?;
    check_members(description)?;
    match format {
        "float8_e4m3fn" | "float8_e5m2" | "float8_e4m3fn_scaled" => {
            draft.kind(Kind::ComfyFp8);
            scale.expect_type(scale.is_wide_float(), "floats")?;
            let grid = cover(&weight.shape, scale, &[Cover::Tensor])?;
            plain(weight.shape.clone(), fp8_codes(weight)?, grid, Arithmetic::Multiply)
        }
        "nvfp4" => nvfp4(draft, module, weight, scale),
        "mxfp8" => mxfp8(draft, weight, scale),
        "int8" | "int8_tensorwise" | "int8_rowwise" | "int8_channelwise" => {
            draft.kind(Kind::ComfyInt8);
            weight.expect_type(weight.is_plain(DType::I8), "i8")?;
            scale.expect_type(scale.is_wide_float(), "floats")?;
            let grid = cover(&weight.shape, scale, &[Cover::Tensor, Cover::Rows])?;
            let codes = Codes::Bytes(ByteCode::Signed);
            plain(weight.shape.clone(), codes, grid, Arithmetic::Multiply)
        }
        other => Err(KIND.broken(format!("the format `{}` of ComfyUI", other.escaped()))),
    }
}

/// Refuses members that change the meaning of the weight, such as a rotation.
fn check_members(description: &Value) -> Result<()> {
    let Value::Map(members) = description else { return Ok(()) };
    for (key, value) in members {
        let key = key.as_text().unwrap_or_default();
        let is_off = matches!(value, Value::Null | Value::Bool(false));
        let is_size = key == "group_size" || key.ends_with("_groupsize");
        if !(HARMLESS.contains(&key) || is_off || is_size) {
            let (key, value) = (key.escaped(), value.to_json());
            return Err(KIND.broken(format!("`{key}`: {} of ComfyUI", value.escaped())));
        }
    }
    Ok(())
}

/// Checks that scales have the shape of a grid that is padded to whole tiles, and returns their order.
fn tiles(scale: &StoredTensor, shape: &[u64], group: u64) -> Result<Order> {
    let &[rows, columns] = shape else {
        return Err(SHAPE.broken(format!("expected 2 dimensions, found {shape:?}")));
    };
    if columns.checked_rem(group) != Some(0) {
        let message = format!("rows of {columns} elements are not whole groups of {group}");
        return Err(SHAPE.broken(message));
    }
    let padded = |n: u64, to: u64| n.checked_next_multiple_of(to);
    let sizes = padded(rows, 128).zip(padded(columns.checked_div(group).unwrap_or(0), 4));
    let (rows, columns) = sizes.ok_or_else(|| {
        SHAPE.broken(format!("the shape {shape:?}, padded to whole tiles of scales, exceeds 2^64"))
    })?;
    scale.expect_shape(&[rows, columns])?;
    Ok(Order::Tiles { rows, columns })
}

/// Returns a grid for groups of columns, whatever the shape of the stored scales is.
fn grid_of_groups(shape: &[u64], group: u64) -> Result<super::super::decoding::Grid> {
    let scales = [
        shape.first().copied().unwrap_or(0),
        shape.last().copied().unwrap_or(0).div_ceil(group.max(1)),
    ];
    Cover::Blocks(1, group)
        .grid(shape, &scales)
        .ok_or_else(|| SHAPE.broken(format!("too many elements in shape {shape:?}")))
}

fn nvfp4(
    draft: &mut Draft<'_, '_>,
    module: &str,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    draft.kind(Kind::ComfyNvfp4);
    let factor = draft.take("factor", &format!("{module}.weight_scale_2"))?;
    factor.expect_type(factor.is_plain(DType::F32), "f32")?;
    check_factor(factor, 1)?;
    weight.expect_type(weight.is_plain(DType::U8), "u8")?;
    scale.expect_type(scale.is_of(&LogicalType::F8E4M3Fn), "f8_e4m3fn")?;
    let row_len = weight.shape.last().copied().unwrap_or(0);
    let shape = with_columns(weight, |n| n.checked_mul(2))?;
    let order = tiles(scale, &shape, 16)?;
    let mut grid = grid_of_groups(&shape, 16)?;
    grid.order = order;
    grid.factor = Some(Factor { role: "factor", is_divisor: false });
    draft.parameter("group_size", 16);
    plain(shape, Codes::HighNibbles { row_len, table: Table::E2m1 }, grid, Arithmetic::Multiply)
}

fn mxfp8(
    draft: &mut Draft<'_, '_>,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    draft.kind(Kind::ComfyMxfp8);
    let is_power = scale.is_plain(DType::U8) || scale.is_of(&LogicalType::F8E8M0);
    scale.expect_type(is_power, "powers of two (u8 or f8_e8m0)")?;
    let codes = fp8_codes(weight)?;
    let order = tiles(scale, &weight.shape, 32)?;
    let mut grid = grid_of_groups(&weight.shape, 32)?;
    grid.order = order;
    grid.scale_type = ScaleType::E8m0;
    draft.parameter("group_size", 32);
    plain(weight.shape.clone(), codes, grid, Arithmetic::Multiply)
}

fn older(draft: &mut Draft<'_, '_>, module: &str) -> Result<Described> {
    draft.kind(Kind::ComfyFp8);
    let scale = draft.take("scale", &format!("{module}.scale_weight"))?;
    let weight = draft.take("weight", &format!("{module}.weight"))?;
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let grid = cover(&weight.shape, scale, &[Cover::Tensor])?;
    plain(weight.shape.clone(), fp8_codes(weight)?, grid, Arithmetic::Multiply)
}
