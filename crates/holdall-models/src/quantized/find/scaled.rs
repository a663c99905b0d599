//! Weights that keep their name, with scales called `…_scale` or `…_scale_inv` next to them: 8-bit floats and integers
//! of several writers, NVFP4 of NVIDIA Model Optimizer, BitNet.

use super::super::decoding::{
    Arithmetic, ByteCode, Codes, Cover, Factor, ScaleType, Table, Zeros, ZerosForm,
};
use super::super::kind::Kind;
use super::super::settings::{count, member};
use super::super::{KIND, PARAMETER, SHAPE, StoredTensor, TYPE};
use super::Finder;
use super::draft::{Described, Draft, cover, plain, with_columns};
use holdall_core::error::{Escape as _, Result};
use holdall_core::{DType, LogicalType, Value};

/// Adds the weights whose stored name with `_scale_inv` or `_scale` is a tensor.
pub(super) fn find(finder: &mut Finder<'_>) {
    for suffix in ["_scale_inv", "_scale"] {
        for name in finder.with_suffix(suffix) {
            let Some(weight) = finder.get(name) else { continue };
            if is_packed_or_small(weight) {
                finder.add(name, |draft| describe(draft, weight, &format!("{name}{suffix}")));
            }
        }
    }
    // DeepSeek-V4 names scales after the module.
    for module in finder.with_suffix(".scale") {
        let (name, scale) = (format!("{module}.weight"), format!("{module}.scale"));
        let is_power = finder.get(&scale).is_some_and(|s| s.is_of(&LogicalType::F8E8M0));
        let Some(weight) = finder.get(&name).filter(|_| is_power) else { continue };
        if is_packed_or_small(weight) {
            finder.add(name, |draft| deepseek_v4(draft, weight, &scale));
        }
    }
}

/// Returns `true` if the elements are codes: floats of at most 8 bits, or bytes.
fn is_packed_or_small(tensor: &StoredTensor) -> bool {
    tensor.is_fp8()
        || tensor.is_plain(DType::I8)
        || tensor.is_plain(DType::U8)
        || tensor.is_of(&LogicalType::F4E2M1)
}

fn describe(draft: &mut Draft<'_, '_>, weight: &StoredTensor, scale: &str) -> Result<Described> {
    draft.take("weight", &weight.name)?;
    let scale = draft.take("scale", scale)?;
    if weight.is_fp8() {
        return fp8(draft, weight, scale);
    }
    if weight.is_plain(DType::I8) {
        return integers(draft, weight, scale);
    }
    let method = draft.settings().method();
    match method.as_deref() {
        Some("bitnet") => bitnet(draft, weight, scale),
        _ if scale.is_of(&LogicalType::F8E4M3Fn) => nvfp4(draft, weight, scale),
        _ => Err(KIND.broken(format!(
            "unknown kind: {} of shape {:?} with scales of {} of shape {:?}",
            weight.type_name(),
            weight.shape,
            scale.type_name(),
            scale.shape
        ))),
    }
}

/// Returns the codes of 8-bit floats.
pub(super) fn fp8_codes(weight: &StoredTensor) -> Result<Codes> {
    Ok(Codes::Bytes(match weight.logical_type {
        Some(LogicalType::F8E4M3Fn) => ByteCode::E4m3,
        Some(LogicalType::F8E5M2) => ByteCode::E5m2,
        Some(LogicalType::F8E4M3FnUz) => ByteCode::E4m3Fnuz,
        Some(LogicalType::F8E5M2FnUz) => ByteCode::E5m2Fnuz,
        _ => {
            let message = format!("expected 8-bit floats, found {}", weight.type_name());
            return Err(TYPE.broken(message).in_tensor(&weight.name));
        }
    }))
}

/// Returns `true` if the scales are stored as powers of two, one byte each.
fn is_power_of_two(scale: &StoredTensor) -> bool {
    scale.is_plain(DType::U8) || scale.is_of(&LogicalType::F8E8M0)
}

fn fp8(
    draft: &mut Draft<'_, '_>,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    let codes = fp8_codes(weight)?;
    let settings = draft.settings();
    let method = settings.method();
    let covers = match method.as_deref() {
        Some("compressed-tensors") => compressed_covers(settings, "float")?,
        _ => match settings.get("weight_block_size") {
            Some(sizes) => vec![block_size(sizes)?],
            None => vec![Cover::Tensor, Cover::Rows],
        },
    };
    let is_ct = method.as_deref() == Some("compressed-tensors");
    if scale.is_plain(DType::U8) {
        draft.kind(Kind::CompressedMxfp8);
        let mut grid = cover(&weight.shape, scale, &[Cover::Blocks(1, 32)])?;
        grid.scale_type = ScaleType::E8m0;
        draft.parameter("group_size", 32);
        return plain(weight.shape.clone(), codes, grid, Arithmetic::Multiply);
    }
    let is_block = covers.iter().any(|cover| matches!(cover, Cover::Blocks(down, _) if *down > 1));
    draft.kind(match (is_ct, is_block) {
        (true, _) => Kind::CompressedFloat,
        (false, true) => Kind::Fp8Block,
        (false, false) => Kind::Fp8,
    });
    let is_float = scale.is_wide_float() || scale.is_of(&LogicalType::F8E8M0);
    scale.expect_type(is_float, "floats")?;
    let fit = cover(&weight.shape, scale, &covers);
    let grid = match fit {
        Err(e) if method.is_none() => {
            return Err(PARAMETER.broken(format!(
                "the size of the blocks of scales of shape {:?} is not known: {}",
                scale.shape,
                e.found()
            )));
        }
        fit => fit?,
    };
    if let Some(Cover::Blocks(down, across)) =
        covers.iter().find(|cover| cover.grid(&weight.shape, &scale.shape).is_some())
    {
        draft.parameter("block", format!("{down}x{across}"));
    }
    let zeros = draft.take_optional("zero", &format!("{}_zero_point", weight.name));
    if let Some(zeros) = zeros {
        // compressed-tensors can store zero points for symmetric floats, which are then all 0.
        zeros.expect_shape(&scale.shape)?;
        let zeros = Zeros { role: "zero", form: ZerosForm::Numbers };
        return plain(weight.shape.clone(), codes, grid, Arithmetic::Zeros(zeros));
    }
    plain(weight.shape.clone(), codes, grid, Arithmetic::Multiply)
}

fn block_size(sizes: &Value) -> Result<Cover> {
    let sizes = match sizes {
        Value::Array(sizes) => sizes.iter().map(count).collect::<Option<Vec<u64>>>(),
        _ => None,
    };
    match sizes.as_deref() {
        Some([down, across]) => Ok(Cover::Blocks(*down, *across)),
        _ => Err(PARAMETER.broken("the size of blocks is not two positive integers")),
    }
}

/// Returns how scales can cover a weight, from the groups of the configuration of compressed-tensors: those whose type
/// is `number`.
fn compressed_covers(settings: &super::Settings, number: &str) -> Result<Vec<Cover>> {
    let mut covers: Vec<Cover> = Vec::new();
    for weights in super::packed::schemes(settings) {
        if member(weights, "type").and_then(Value::as_text).is_some_and(|kind| kind != number) {
            continue;
        }
        let strategy = member(weights, "strategy").and_then(Value::as_text);
        let group = member(weights, "group_size").and_then(count);
        let cover = match (strategy, group) {
            (Some("tensor"), _) => Cover::Tensor,
            (Some("channel"), _) => Cover::Rows,
            (Some("block"), _) => match member(weights, "block_structure") {
                Some(Value::Text(text)) => {
                    let sizes = text.split_once('x');
                    let size = |text: &str| text.parse::<u64>().ok().filter(|n| *n > 0);
                    let sizes = sizes.and_then(|(a, b)| Some((size(a)?, size(b)?)));
                    let (down, across) = sizes.ok_or_else(|| {
                        let text = text.escaped();
                        PARAMETER
                            .broken(format!("`block_structure` is `{text}`, expected two sizes"))
                    })?;
                    Cover::Blocks(down, across)
                }
                Some(sizes) => block_size(sizes)?,
                None => return Err(PARAMETER.broken("`block_structure` is missing")),
            },
            (Some("group" | "tensor_group"), Some(group)) | (None, Some(group)) => {
                Cover::Blocks(1, group)
            }
            (None, None) => Cover::Tensor,
            (Some(other), _) => {
                let other = other.escaped();
                return Err(KIND.broken(format!("scales of the unknown strategy `{other}`")));
            }
        };
        if !covers.contains(&cover) {
            covers.push(cover);
        }
    }
    if covers.is_empty() {
        covers = vec![Cover::Tensor, Cover::Rows];
    }
    Ok(covers)
}

fn integers(
    draft: &mut Draft<'_, '_>,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    let settings = draft.settings();
    let method = settings.method();
    if method.as_deref() != Some("compressed-tensors") {
        let message = match method {
            Some(method) => {
                format!("8-bit integers with scales of the method `{}`", method.escaped())
            }
            None => "8-bit integers with scales of an unknown method".to_owned(),
        };
        return Err(KIND.broken(message));
    }
    let covers = compressed_covers(settings, "int")?;
    draft.kind(Kind::CompressedInt);
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let grid = cover(&weight.shape, scale, &covers)?;
    let zeros = draft.take_optional("zero", &format!("{}_zero_point", weight.name));
    let arithmetic = match zeros {
        Some(zeros) => {
            zeros.expect_shape(&scale.shape)?;
            zeros.expect_type(zeros.is_plain(DType::I8) || zeros.is_wide_float(), "i8")?;
            Arithmetic::Zeros(Zeros { role: "zero", form: ZerosForm::Numbers })
        }
        None => Arithmetic::Multiply,
    };
    plain(weight.shape.clone(), Codes::Bytes(ByteCode::Signed), grid, arithmetic)
}

/// Describes pairs of 4-bit floats with E4M3 scales of 16 elements and one more scale, which multiplies.
fn nvfp4(
    draft: &mut Draft<'_, '_>,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    draft.kind(Kind::ModeloptNvfp4);
    let algorithm = draft.settings().modelopt();
    if algorithm.is_none() && draft.settings().method().is_none() {
        // ComfyUI has the same tensors in another order, and says so in JSON.
        let message = "the software that wrote these 4-bit floats is not known";
        return Err(PARAMETER.broken(message));
    }
    let is_known =
        algorithm.as_deref().is_none_or(|name| name.contains("nvfp4") || name == "mixed_precision");
    if !is_known {
        let name = algorithm.unwrap_or_default();
        return Err(KIND.broken(format!("4-bit floats of the algorithm `{}`", name.escaped())));
    }
    let group = match algorithm.as_deref() {
        Some("nvfp4") => draft.settings().modelopt_group().unwrap_or(16),
        _ => 16,
    };
    let factor = draft.take("factor", &format!("{}_scale_2", weight.name))?;
    factor.expect_type(factor.is_plain(DType::F32), "f32")?;
    draft.parameter("group_size", group);
    let (shape, row_len) = nibbles(weight)?;
    let mut grid = cover(&shape, scale, &[Cover::Blocks(1, group)])?;
    check_factor(factor, grid.matrices)?;
    grid.factor = Some(Factor { role: "factor", is_divisor: false });
    plain(shape, Codes::Stream { bits: 4, row_len, table: Table::E2m1 }, grid, Arithmetic::Multiply)
}

/// Returns the shape of a weight whose bytes contain two elements each, and the bytes of a row.
pub(super) fn nibbles(weight: &StoredTensor) -> Result<(Vec<u64>, u64)> {
    if weight.is_of(&LogicalType::F4E2M1) {
        let columns = weight.shape.last().copied().unwrap_or(0);
        if columns % 2 == 1 {
            let message = format!("rows of {columns} elements do not end with a whole byte");
            return Err(SHAPE.broken(message).in_tensor(&weight.name));
        }
        return Ok((weight.shape.clone(), columns / 2));
    }
    let row_len = weight.shape.last().copied().unwrap_or(0);
    Ok((with_columns(weight, |n| n.checked_mul(2))?, row_len))
}

/// Checks that a factor has one number, or one for each matrix.
pub(super) fn check_factor(factor: &StoredTensor, matrices: u64) -> Result<()> {
    match factor.count() {
        Some(count) if count == 1 || count == matrices => Ok(()),
        _ => {
            let message = format!("expected one number, found shape {:?}", factor.shape);
            Err(SHAPE.broken(message).in_tensor(&factor.name))
        }
    }
}

fn bitnet(
    draft: &mut Draft<'_, '_>,
    weight: &StoredTensor,
    scale: &StoredTensor,
) -> Result<Described> {
    let class = draft.settings().text("linear_class");
    if class.as_deref().is_some_and(|class| class != "bitlinear") {
        let class = class.unwrap_or_default();
        return Err(KIND.broken(format!("BitNet with layers of class `{}`", class.escaped())));
    }
    draft.kind(Kind::BitNet);
    weight.expect_type(weight.is_plain(DType::U8), "u8")?;
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let &[packed, columns] = &weight.shape[..] else {
        let message = format!("expected 2 dimensions, found {:?}", weight.shape);
        return Err(SHAPE.broken(message).in_tensor(&weight.name));
    };
    let rows = packed
        .checked_mul(4)
        .ok_or_else(|| SHAPE.broken(format!("{packed} rows of 4 packed rows each exceed 2^64")))?;
    let shape = vec![rows, columns];
    let grid = cover(&shape, scale, &[Cover::Tensor])?;
    draft.parameter("bits", 2);
    let codes = Codes::Slabs { bits: 2, rows: packed, word: 1, is_first_high: false };
    plain(shape, codes, grid, Arithmetic::DivideOffset(1.0))
}

/// Describes 8-bit floats in blocks, or pairs of 4-bit floats in bytes, with scales that are powers of two.
fn deepseek_v4(draft: &mut Draft<'_, '_>, weight: &StoredTensor, scale: &str) -> Result<Described> {
    draft.kind(Kind::DeepSeekV4);
    draft.take("weight", &weight.name)?;
    let scale = draft.take("scale", scale)?;
    scale.expect_type(is_power_of_two(scale), "f8_e8m0")?;
    if weight.is_fp8() {
        let block = match draft.settings().get("weight_block_size") {
            Some(sizes) => block_size(sizes)?,
            None => Cover::Blocks(128, 128),
        };
        let grid = cover(&weight.shape, scale, &[block])?;
        return plain(weight.shape.clone(), fp8_codes(weight)?, grid, Arithmetic::Multiply);
    }
    let (shape, row_len) = nibbles(weight)?;
    let grid = cover(&shape, scale, &[Cover::Blocks(1, 32)])?;
    draft.parameter("group_size", 32);
    let codes = Codes::Stream { bits: 4, row_len, table: Table::E2m1 };
    plain(shape, codes, grid, Arithmetic::Multiply)
}
