//! Weights of MLX, whose parameters are only in `config.json`.

use super::super::decoding::{Arithmetic, Codes, Cover, ScaleType, Table, Zeros, ZerosForm};
use super::super::kind::Kind;
use super::super::settings::{count, member};
use super::super::{KIND, PARAMETER, SHAPE, StoredTensor};
use super::Finder;
use super::draft::{Described, Draft, cover, plain, with_columns};
use holdall_core::error::{Escape as _, Result};
use holdall_core::{DType, Value};

/// Adds the weights of words of `u32` with scales next to them.
pub(super) fn find(finder: &mut Finder<'_>) {
    for module in finder.with_suffix(".scales") {
        let name = format!("{module}.weight");
        let Some(weight) = finder.get(&name).filter(|w| w.is_plain(DType::U32)) else { continue };
        finder.add(name, |draft| describe(draft, module, weight));
    }
}

/// The parameters of a weight.
struct Parameters {
    bits: u32,
    group: u64,
    mode: String,
}

/// Returns the parameters of a module: its own, or those of the model.
fn parameters(all: Option<&Value>, module: &str) -> Result<Parameters> {
    let all =
        all.ok_or_else(|| PARAMETER.broken("`quantization` of `config.json` is not known"))?;
    let own = match member(all, module) {
        Some(Value::Bool(false)) => {
            let message = "`quantization` says that the module is not quantized, but it has scales";
            return Err(PARAMETER.broken(message));
        }
        Some(own @ Value::Map(_)) => Some(own),
        _ => None,
    };
    // A module with parameters of its own has the defaults of MLX for those that it lacks.
    let find = |key: &str| member(own.unwrap_or(all), key);
    let mode = find("mode");
    let mode = mode.and_then(Value::as_text).unwrap_or("affine").to_owned();
    let (bits, group) = match mode.as_str() {
        "mxfp4" => (4, 32),
        "nvfp4" => (4, 16),
        "mxfp8" => (8, 32),
        _ => (4, 64),
    };
    let number = |key: &str, default: u64| match find(key) {
        None => Ok(default),
        Some(value) => count(value)
            .ok_or_else(|| PARAMETER.broken(format!("`{key}` is not a positive integer"))),
    };
    let stated = number("bits", bits)?;
    let bits = u32::try_from(stated).ok().filter(|bits| (1..=8).contains(bits));
    let bits =
        bits.ok_or_else(|| KIND.broken(format!("expected 1 to 8 bits of MLX, found {stated}")))?;
    Ok(Parameters { bits, group: number("group_size", group)?, mode })
}

fn describe(draft: &mut Draft<'_, '_>, module: &str, weight: &StoredTensor) -> Result<Described> {
    draft.kind(Kind::MlxAffine);
    draft.take("weight", &weight.name)?;
    let scale = draft.take("scale", &format!("{module}.scales"))?;
    let bias = draft.take_optional("bias", &format!("{module}.biases"));
    let Parameters { bits, group, mode } = parameters(draft.settings().mlx(), module)?;
    draft.parameter("bits", bits);
    draft.parameter("group_size", group);
    let expected = match mode.as_str() {
        "affine" => None,
        "mxfp4" => Some((Kind::MlxMxfp4, 4, ScaleType::E8m0)),
        "mxfp8" => Some((Kind::MlxMxfp8, 8, ScaleType::E8m0)),
        "nvfp4" => Some((Kind::MlxNvfp4, 4, ScaleType::E4m3)),
        other => return Err(KIND.broken(format!("the mode `{}` of MLX", other.escaped()))),
    };
    if let Some((kind, _, _)) = expected {
        draft.kind(kind);
    }
    let row_len = weight.shape.last().and_then(|words| words.checked_mul(4));
    let row_len = row_len.ok_or_else(|| {
        let message = format!("expected rows of 32-bit words, found the shape {:?}", weight.shape);
        SHAPE.broken(message).in_tensor(&weight.name)
    })?;
    let bits_of = u64::from(bits);
    let shape = with_columns(weight, |words| {
        let all = words.checked_mul(32)?;
        all.checked_div(bits_of).filter(|n| n.checked_mul(bits_of) == Some(all))
    })?;
    let columns = shape.last().copied().unwrap_or(0);
    if columns.checked_rem(group) != Some(0) {
        let message = format!("rows of {columns} elements are not whole groups of {group}");
        return Err(SHAPE.broken(message).in_tensor(&weight.name));
    }
    let mut grid = cover(&shape, scale, &[Cover::Blocks(1, group)])?;
    let Some((_, own_bits, scale_type)) = expected else {
        let bias = match bias {
            Some(bias) => bias,
            None => draft.take("bias", &format!("{module}.biases"))?,
        };
        scale.expect_type(scale.is_wide_float(), "floats")?;
        bias.expect_type(bias.is_wide_float(), "floats")?;
        bias.expect_shape(&scale.shape)?;
        let codes = Codes::Stream { bits, row_len, table: Table::Integer };
        let biases = Zeros { role: "bias", form: ZerosForm::Numbers };
        return plain(shape, codes, grid, Arithmetic::Bias(biases));
    };
    if bits != own_bits {
        return Err(
            PARAMETER.broken(format!("the mode `{mode}` has {own_bits} bits, found {bits}"))
        );
    }
    if let Some(bias) = bias {
        let message = format!("the mode `{mode}` has no biases");
        return Err(PARAMETER.broken(message).in_tensor(&bias.name));
    }
    scale.expect_type(scale.is_plain(DType::U8), "u8")?;
    grid.scale_type = scale_type;
    let codes = match bits {
        8 => Codes::Bytes(super::super::decoding::ByteCode::E4m3),
        _ => Codes::Stream { bits, row_len, table: Table::E2m1 },
    };
    plain(shape, codes, grid, Arithmetic::Multiply)
}
