//! Weights of torchao, whose classes are in the metadata of the file.

use super::super::decoding::{Arithmetic, ByteCode, Codes, Cover, Zeros, ZerosForm};
use super::super::kind::Kind;
use super::super::settings::{count, member, parse_object};
use super::super::{KIND, PARAMETER, TEXT};
use super::Finder;
use super::draft::{Described, Draft, cover, plain};
use super::scaled::fp8_codes;
use holdall_core::error::{Escape as _, Result};
use holdall_core::{DType, Value};

/// Adds the weights that the metadata of the file describes.
pub(super) fn find(finder: &mut Finder<'_>) {
    if finder.settings.metadata.get("tensor_names").is_none() {
        return;
    }
    let described = finder.settings.metadata.iter().filter_map(|(name, value)| {
        let description = match value {
            Value::Text(text) if text.contains("_type") => parse_object(text),
            value @ Value::Map(_) => Ok(value.clone()),
            _ => return None,
        };
        Some((name.to_owned(), description))
    });
    let described: Vec<(String, Result<Value>)> = described.collect();
    for (name, description) in described {
        let class = description.as_ref().ok().and_then(|value| member(value, "_type")?.as_text());
        if class.is_some_and(|class| matches!(class, "Tensor" | "torch.Tensor" | "Parameter")) {
            continue;
        }
        finder.add(name.clone(), |draft| {
            draft.kind(Kind::Torchao);
            describe(draft, &name, &description?)
        });
    }
}

fn describe(draft: &mut Draft<'_, '_>, name: &str, description: &Value) -> Result<Described> {
    let class = member(description, "_type").and_then(Value::as_text).unwrap_or_default();
    let (module, last) = name
        .rsplit_once('.')
        .ok_or_else(|| TEXT.broken(format!("`{}` has no module", name.escaped())))?;
    let part = |part: &str| format!("{module}._{last}_{part}");
    draft.parameter("class", class.escaped());
    let weight = draft.take("weight", &part("qdata"))?;
    let scale = draft.take("scale", &part("scale"))?;
    let zeros = draft.take_optional("zero", &part("zero_point"));
    for end in ["act_quant_scale", "act_quant_zero_point", "act_pre_scale"] {
        draft.set_aside(&part(end));
    }
    if let Some(Value::Array(names)) = member(description, "_tensor_data_names") {
        let known = [
            "qdata",
            "scale",
            "zero_point",
            "act_quant_scale",
            "act_quant_zero_point",
            "act_pre_scale",
        ];
        if let Some(odd) =
            names.iter().filter_map(Value::as_text).find(|name| !known.contains(name))
        {
            return Err(KIND.broken(format!(
                "torchao's class `{}` with `{}`",
                class.escaped(),
                odd.escaped()
            )));
        }
        let has_zero = names.iter().any(|name| name.as_text() == Some("zero_point"));
        if has_zero && zeros.is_none() {
            draft.take("zero", &part("zero_point"))?;
        }
    }
    let codes = match class {
        "Int8Tensor" | "IntxUnpackedToInt8Tensor" => {
            weight.expect_type(weight.is_plain(DType::I8), "i8")?;
            Codes::Bytes(ByteCode::Signed)
        }
        "Float8Tensor" => fp8_codes(weight)?,
        other => return Err(KIND.broken(format!("torchao's class `{}`", other.escaped()))),
    };
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let data = member(description, "_data");
    let covers = match data.and_then(|data| member(data, "block_size")) {
        Some(Value::Array(sizes)) => block_covers(sizes, &weight.shape)?,
        _ => vec![Cover::Tensor, Cover::Rows],
    };
    let grid = cover(&weight.shape, scale, &covers)?;
    let arithmetic = match zeros {
        Some(zeros) => {
            zeros.expect_shape(&scale.shape)?;
            Arithmetic::Zeros(Zeros { role: "zero", form: ZerosForm::Numbers })
        }
        None => Arithmetic::Multiply,
    };
    plain(weight.shape.clone(), codes, grid, arithmetic)
}

/// Returns how scales of these blocks, with one size for each dimension, can cover a weight.
fn block_covers(sizes: &[Value], shape: &[u64]) -> Result<Vec<Cover>> {
    let sizes: Option<Vec<u64>> = sizes.iter().map(count).collect();
    let sizes = sizes.filter(|sizes| sizes.len() == shape.len());
    let sizes = sizes.ok_or_else(|| {
        PARAMETER.broken("`block_size` is not one positive integer per dimension")
    })?;
    match (sizes.as_slice(), shape) {
        (sizes, shape) if sizes == shape => Ok(vec![Cover::Tensor]),
        ([1, across], [_, columns]) if across == columns => Ok(vec![Cover::Rows]),
        ([down, across], [_, _]) => Ok(vec![Cover::Blocks(*down, *across)]),
        ([1, down, across], [_, rows, columns]) => match (*down, *across) {
            (1, across) if across == *columns => Ok(vec![Cover::Rows]),
            (down, across) if (down, across) == (*rows, *columns) => Ok(vec![Cover::Tensor]),
            (down, across) => Ok(vec![Cover::Blocks(down, across)]),
        },
        _ => Err(KIND.broken(format!("blocks of shape {sizes:?} of a weight of shape {shape:?}"))),
    }
}
