//! Weights whose names only one writer uses: gpt-oss, HQQ and optimum-quanto.

use super::super::decoding::{
    Along, Arithmetic, ByteCode, Codes, Cover, Decoding, Grid, Order, ScaleType, Stack, Table,
    Zeros, ZerosForm,
};
use super::super::kind::Kind;
use super::super::settings::member;
use super::super::{CONTENT, KIND, PARAMETER, SHAPE, StoredTensor};
use super::Finder;
use super::draft::{Described, Draft, cover, plain};
use super::scaled::fp8_codes;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::element_count;
use holdall_core::{DType, LogicalType, Value};

/// The names of the parameters of HQQ, after the name of the module.
pub(super) const HQQ_PARAMETERS: [&str; 17] = [
    "nbits",
    "group_size",
    "axis",
    "packing",
    "shape",
    "view_as_float",
    "quant_scale",
    "quant_zero",
    "channel_wise",
    "compute_dtype",
    "encoded_state_dict",
    "offload_meta",
    "optimize",
    "round_zero",
    "stores_quant_config",
    "unpack_view_dtype",
    "scale_quant_params",
];

/// Adds the weights of gpt-oss, HQQ and optimum-quanto.
pub(super) fn find(finder: &mut Finder<'_>) {
    for name in finder.with_suffix("_blocks") {
        let is_ours = |tensor: &StoredTensor| {
            tensor.is_plain(DType::U8)
                && tensor.shape.len() == 4
                && tensor.shape.last() == Some(&16)
        };
        let blocks = format!("{name}_blocks");
        let is_mxfp4 = finder.settings.method().as_deref() == Some("mxfp4");
        if finder.get(&blocks).is_some_and(|tensor| is_mxfp4 || is_ours(tensor)) {
            finder.add(name, |draft| gpt_oss(draft, name));
        }
    }
    for module in finder.with_suffix(".W_q") {
        finder.add(format!("{module}.weight"), |draft| hqq(draft, module));
    }
    let is_hqq = finder.settings.method().as_deref() == Some("hqq");
    for end in [".zero", ".scale"] {
        for module in finder.with_suffix(end) {
            // The packed elements are missing.
            let nbits = format!("{module}.nbits");
            if finder.get(&format!("{module}{end}")).is_some()
                && (is_hqq || finder.get(&nbits).is_some())
            {
                finder.add(format!("{module}.weight"), |draft| hqq(draft, module));
            }
        }
    }
    for name in finder.with_suffix("._data._data") {
        finder.add(name, |draft| quanto_packed(draft, name));
    }
    for name in finder.with_suffix("._data") {
        if finder.get(&format!("{name}._scale")).is_some() || finder.settings.quanto_qmap.is_some()
        {
            finder.add(name, |draft| quanto(draft, name));
        }
    }
}

fn gpt_oss(draft: &mut Draft<'_, '_>, name: &str) -> Result<Described> {
    draft.kind(Kind::GptOss);
    let blocks = draft.take("weight", &format!("{name}_blocks"))?;
    let scale = draft.take("scale", &format!("{name}_scales"))?;
    blocks.expect_type(blocks.is_plain(DType::U8), "u8")?;
    let is_power = scale.is_plain(DType::U8) || scale.is_of(&LogicalType::F8E8M0);
    scale.expect_type(is_power, "u8")?;
    let &[experts, rows, groups, 16] = &blocks.shape[..] else {
        let message =
            format!("expected shape [experts, rows, groups, 16], found {:?}", blocks.shape);
        return Err(SHAPE.broken(message).in_tensor(&blocks.name));
    };
    scale.expect_shape(&[experts, rows, groups])?;
    let columns = groups.checked_mul(32).ok_or_else(|| {
        SHAPE.broken(format!("{groups} groups of 32 elements in a row exceed 2^64"))
    })?;
    Stack::from_shape(&[experts, rows, columns])?;
    draft.parameter("group_size", 32);
    let grid = Cover::Blocks(1, 32).grid(&[experts, rows, columns], &scale.shape);
    let mut grid = grid.ok_or_else(|| {
        SHAPE.broken(format!("expected a scale for each group of 32, found {:?}", scale.shape))
    })?;
    grid.scale_type = ScaleType::E8m0;
    let decoding = Decoding {
        matrices: experts,
        rows,
        columns,
        is_transposed: true,
        data: "weight",
        codes: Codes::Stream { bits: 4, row_len: columns / 2, table: Table::E2m1 },
        grid,
        arithmetic: Arithmetic::Multiply,
    };
    Ok(Described { shape: vec![experts, columns, rows], decoding })
}

/// Reads the small integer of a parameter of HQQ.
fn integer(draft: &Draft<'_, '_>, name: &str) -> Result<i64> {
    let bytes = draft.small(name)?;
    let number = match bytes.as_ref() {
        [one] => Some(i64::from(*one)),
        four if four.len() == 4 => four.first_chunk().map(|b| i64::from(i32::from_le_bytes(*b))),
        eight if eight.len() == 8 => eight.first_chunk().map(|b| i64::from_le_bytes(*b)),
        _ => None,
    };
    number.ok_or_else(|| {
        let message =
            format!("expected an integer of 1, 4 or 8 bytes, found {} bytes", bytes.len());
        CONTENT.broken(message).in_tensor(name)
    })
}

fn hqq(draft: &mut Draft<'_, '_>, module: &str) -> Result<Described> {
    draft.kind(Kind::Hqq);
    let name = |end: &str| format!("{module}.{end}");
    let weight = draft.take("weight", &name("W_q"));
    let scale = draft.take("scale", &name("scale"));
    let zeros = draft.take("zero", &name("zero"));
    for end in HQQ_PARAMETERS {
        // Needed below, where they change the values.
        let _ = draft.take_optional(end, &name(end));
    }
    let (weight, scale, zeros) = (weight?, scale?, zeros?);
    for end in ["quant_scale", "quant_zero"] {
        if draft.small(&name(end)).is_ok() && integer(draft, &name(end))? != 0 {
            return Err(KIND.broken(format!("HQQ with quantized scales or zero points (`{end}`)")));
        }
    }
    let number = |end: &str| -> Result<u64> {
        let value = integer(draft, &name(end))?;
        let wrong = || CONTENT.broken(format!("`{end}` is {value}")).in_tensor(name(end));
        u64::try_from(value).map_err(|_| wrong())
    };
    let bits = number("nbits")?;
    let axis = number("axis")?;
    let bytes = draft.small(&name("shape"))?;
    let shape: Option<Vec<u64>> =
        bytes.as_chunks().0.iter().map(|b| u64::try_from(i64::from_le_bytes(*b)).ok()).collect();
    let shape = shape.filter(|shape| !shape.is_empty());
    let shape = shape.ok_or_else(|| {
        CONTENT
            .broken("expected a shape with one or more dimensions, none of them negative")
            .in_tensor(name("shape"))
    })?;
    let count = element_count(&shape).filter(|n| *n <= u64::MAX / 64);
    let count = count.ok_or_else(|| {
        let message = format!("the shape {shape:?} has more than 2^58 elements");
        CONTENT.broken(message).in_tensor(name("shape"))
    })?;
    let packing = match draft.small(&name("packing")) {
        Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Err(_) => format!("{bits}bit_{}", if bits == 3 { "32" } else { "u8" }),
    };
    let size = match draft.small(&name("group_size")) {
        Ok(_) => number("group_size")?,
        // One group for each row or column.
        Err(_) => shape.get(usize::from(axis == 1)).copied().unwrap_or(0),
    };
    draft.parameter("bits", bits);
    draft.parameter("group_size", size);
    draft.parameter("axis", axis);
    let other = count.checked_div(size).filter(|n| n.checked_mul(size) == Some(count));
    let other = other.ok_or_else(|| PARAMETER.broken("the elements are not whole groups"))?;
    let (rows, columns) = match axis {
        0 => (size, other),
        1 => (other, size),
        _ => return Err(PARAMETER.broken(format!("`axis` is {axis}, expected 0 or 1"))),
    };
    let (field, per_word, word) = match packing.as_str() {
        "8bit_u8" => (8, 1, 1),
        "4bit_u8" => (4, 2, 1),
        "2bit_u8" => (2, 4, 1),
        "1bit_u8" => (1, 8, 1),
        "3bit_32" => (3, 10, 4),
        other => return Err(KIND.broken(format!("the packing `{}` of HQQ", other.escaped()))),
    };
    if u64::from(field) < bits || (word == 1 && rows.checked_rem(per_word) != Some(0)) {
        let message = format!("{rows} rows of {bits} bits do not fit the packing `{packing}`");
        return Err(PARAMETER.broken(message));
    }
    let slab = rows.div_ceil(per_word);
    let codes = match field {
        8 => Codes::Bytes(ByteCode::Unsigned),
        bits => Codes::Slabs { bits, rows: slab, word, is_first_high: true },
    };
    // With `view_as_float`, the same bytes have another element type.
    let len = codes.byte_len(1, rows, columns);
    if len.is_none() || weight.byte_len() != len {
        let message = format!("expected {len:?} bytes, found shape {:?}", weight.shape);
        return Err(SHAPE.broken(message).in_tensor(&weight.name));
    }
    scale.expect_type(scale.is_wide_float(), "floats")?;
    zeros.expect_type(zeros.is_wide_float(), "floats")?;
    let cells = if axis == 0 { [1, columns] } else { [rows, 1] };
    scale.expect_shape(&cells)?;
    zeros.expect_shape(&cells)?;
    let [grid_rows, grid_columns] = cells;
    let along = |cells: u64, size: u64| if cells == 1 { size.max(1) } else { 1 };
    let grid = Grid {
        matrices: 1,
        rows: grid_rows,
        columns: grid_columns,
        row: Along::Size(along(grid_rows, rows)),
        column: Along::Size(along(grid_columns, columns)),
        scale: "scale",
        scale_type: ScaleType::Stored,
        order: Order::Rows(grid_columns),
        factor: None,
    };
    let zeros = Zeros { role: "zero", form: ZerosForm::Numbers };
    let decoding = Decoding {
        matrices: 1,
        rows,
        columns,
        is_transposed: false,
        data: "weight",
        codes,
        grid,
        arithmetic: Arithmetic::Zeros(zeros),
    };
    Ok(Described { shape, decoding })
}

/// Returns the quantized type that the map of optimum-quanto, or the configuration, states for a weight.
fn quanto_type(draft: &Draft<'_, '_>, name: &str) -> Option<String> {
    let module = name.rsplit_once('.').map_or("", |(module, _)| module);
    let settings = draft.settings();
    let own = settings.quanto_qmap.as_ref().and_then(|map| member(map, module));
    let own = own.and_then(|own| member(own, "weights")).and_then(Value::as_text);
    let stated = || {
        let is_quanto = settings.method().is_some_and(|method| method == "quanto");
        let weights = settings.text("weights").filter(|_| is_quanto)?;
        Some(if weights.starts_with('q') { weights } else { format!("q{weights}") })
    };
    own.map(str::to_lowercase).or_else(stated)
}

fn quanto(draft: &mut Draft<'_, '_>, name: &str) -> Result<Described> {
    draft.kind(Kind::Quanto);
    let weight = draft.take("weight", &format!("{name}._data"))?;
    let scale = draft.take("scale", &format!("{name}._scale"))?;
    let stated = quanto_type(draft, name);
    if let Some(stated) = &stated {
        draft.parameter("type", stated.escaped());
    }
    let codes = if weight.is_plain(DType::I8) {
        Codes::Bytes(ByteCode::Signed)
    } else {
        fp8_codes(weight)?
    };
    let is_int = matches!(codes, Codes::Bytes(ByteCode::Signed));
    if stated.is_some_and(|stated| is_int != (stated == "qint8")) {
        let message = format!("elements of {} do not fit the stated type", weight.type_name());
        return Err(PARAMETER.broken(message).in_tensor(&weight.name));
    }
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let mut flat = weight.shape.clone();
    // The scales of a convolution are for its first dimension.
    if let [rows, rest @ ..] = weight.shape.as_slice()
        && rest.len() > 1
    {
        let columns = element_count(rest).ok_or_else(|| {
            SHAPE.broken(format!("the shape {:?} has more than 2^64 elements", weight.shape))
        })?;
        flat = vec![*rows, columns];
    }
    let grid = cover(&flat, scale, &[Cover::Tensor, Cover::Rows])?;
    let mut described = plain(flat, codes, grid, Arithmetic::Multiply)?;
    described.shape = weight.shape.clone();
    Ok(described)
}

fn quanto_packed(draft: &mut Draft<'_, '_>, name: &str) -> Result<Described> {
    draft.kind(Kind::QuantoPacked);
    let weight = draft.take("weight", &format!("{name}._data._data"))?;
    let scale = draft.take("scale", &format!("{name}._scale"))?;
    let shift = draft.take("shift", &format!("{name}._shift"))?;
    weight.expect_type(weight.is_plain(DType::U8), "u8")?;
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let stated = quanto_type(draft, name);
    let bits = match stated.as_deref() {
        Some("qint4") => 4,
        Some("qint2") => 2,
        Some(other) => return Err(KIND.broken(format!("packed `{}`", other.escaped()))),
        None => return Err(PARAMETER.broken("the type of the packed elements is not known")),
    };
    draft.parameter("bits", bits);
    let (&[rows, 1], &[packed, columns]) = (&scale.shape[..], &weight.shape[..]) else {
        let message = format!(
            "expected one scale for each row, found shapes {:?} and {:?}",
            scale.shape, weight.shape
        );
        return Err(SHAPE.broken(message).in_tensor(&scale.name));
    };
    shift.expect_shape(&scale.shape)?;
    let per_byte = 8u64.checked_div(u64::from(bits)).unwrap_or(1);
    if rows.div_ceil(per_byte) != packed {
        let message = format!("{rows} scales do not fit {packed} rows of {per_byte} packed rows");
        return Err(SHAPE.broken(message).in_tensor(&weight.name));
    }
    draft.parameter("group_size", columns);
    let flat = vec![rows, columns];
    let count = Stack::from_shape(&flat).map(|_| rows.saturating_mul(columns))?;
    // The rows are groups: the number of outputs is only known from the bias of the layer.
    let module = name.strip_suffix("weight").unwrap_or(name);
    let bias = draft.look(&format!("{module}bias"));
    let outputs = bias.and_then(|bias| match bias.shape.as_slice() {
        [n] if *n > 0 && count.checked_rem(*n) == Some(0) => Some(*n),
        _ => None,
    });
    let outputs = outputs.ok_or_else(|| {
        let message = format!(
            "the shape of {rows} groups of {columns} elements is not known: there is no bias"
        );
        PARAMETER.broken(message)
    })?;
    let shape = vec![outputs, count.checked_div(outputs).unwrap_or(0)];
    let grid = cover(&flat, scale, &[Cover::Rows])?;
    let codes = Codes::Slabs { bits, rows: packed, word: 1, is_first_high: false };
    let zeros = Zeros { role: "shift", form: ZerosForm::Numbers };
    let arithmetic = match shift.dtype {
        DType::I8 | DType::U8 => Arithmetic::Zeros(zeros),
        _ => Arithmetic::RoundedShift(zeros, scale.dtype),
    };
    let mut described = plain(flat, codes, grid, arithmetic)?;
    described.shape = shape;
    Ok(described)
}
