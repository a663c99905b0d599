//! Shaders for quantized elements in groups: each element is `(q - zero) * scale`.

use super::{Reading, plain_expression};
use crate::model::{Component, Tensor};
use crate::rules::CONVERSION;
use holdall::layout::rules::QUANTIZED_COUNTS;
use holdall::layout::{Packing, Scheme};
use holdall::{DType, Error, Result, Role};
use std::fmt::Write as _;

/// Returns the shader code that reads the elements of a tensor of layout `quantized_group`.
pub(super) fn group_reading(tensor: &Tensor) -> Result<Reading> {
    let info = tensor.info();
    let scheme = Scheme::from_info(info)?;
    let count: u64 = tensor.shape().iter().product();
    let columns = tensor.shape().get(1).copied().unwrap_or(1).max(1);
    let rows = tensor.shape().first().copied().unwrap_or(1);
    let (data, scales) = (tensor.component(&Role::PackedWeight)?, tensor.component(&Role::Scales)?);
    if data.logical_type.is_some() || scheme.exponent != 0 {
        let e = CONVERSION
            .broken("no shader for quantized elements that are floats or have an exponent");
        return Err(e.in_component(&data.role));
    }
    let packing = &scheme.packing;
    let (blocks, across) = match scheme.packs_rows {
        true => (rows.div_ceil(packing.elements()), columns),
        false => (count.div_ceil(packing.elements()), 1),
    };
    let block_len = packing.words() * packing.word().width();
    fits(data, u128::from(blocks) * u128::from(across) * u128::from(block_len))?;
    let named = tensor.component(&Role::from_name("g_idx")).ok();
    let (group, groups) = match (scheme.groups_rows, scheme.group_size) {
        (true, None) => (format!("i % {columns}u"), columns * rows.min(1)),
        (true, Some(size)) => (
            format!("i / {columns}u / {size}u * {columns}u + i % {columns}u"),
            rows.div_ceil(size) * columns,
        ),
        (false, size) => {
            let size = size.unwrap_or(tensor.shape().last().copied().unwrap_or(1)).max(1);
            (format!("i / {size}u"), count.div_ceil(size))
        }
    };
    fits(scales, u128::from(groups) * u128::from(scales.dtype.width()))?;
    let zero = match tensor.component(&Role::Zeros) {
        Ok(zeros) => zero_points(&scheme, zeros, groups)?,
        Err(_) => {
            let zero = scheme.zero_of_all(false);
            (format!("fn zero(g: u32) -> f32 {{ return {zero}.0; }}\n"), false)
        }
    };
    let mut code = String::new();
    let mut parts = vec![("scales", Role::Scales)];
    let mut body = format!("let g = {group};");
    if let Some(named) = named {
        if !scheme.groups_rows {
            let e = CONVERSION.broken("unexpected `g_idx`: the groups do not run down the rows");
            return Err(e.in_component(&named.role));
        }
        let down = groups / columns;
        parts.push(("rows", named.role.clone()));
        code.push_str(&groups_of_rows(named, rows)?);
        body = format!(
            "let row = group_of_row(i / {columns}u);
    if row >= {down}u {{
        return 0x7fc00000u;
    }}
    let g = row * {columns}u + i % {columns}u;"
        );
    }
    let _ = write!(
        code,
        "fn number_of_scales(i: u32) -> u32 {{ {} }}\nfn scale(g: u32) -> f32 {{ return bitcast<f32>(number_of_scales(g)); }}\n",
        plain_expression("scales", scales)?
    );
    code.push_str(&zero.0);
    match scheme.packs_rows {
        true => code.push_str(&down_rows(packing, columns)),
        false => code.push_str(&flat("data", packing)),
    }
    if zero.1 {
        parts.push(("zeros", Role::Zeros));
    }
    body.push_str("\n    return bitcast<u32>((q_of_data(i) - zero(g)) * scale(g));");
    Ok(Reading { code, parts, ..Reading::new(body) })
}

/// Returns the code of `group_of_row(i)`: the number of each row's group, or the largest number if it does not fit in
/// 32 bits.
fn groups_of_rows(named: &Component, rows: u64) -> Result<String> {
    fits(named, u128::from(rows) * u128::from(named.dtype.width()))?;
    let body = match named.dtype {
        DType::I32 | DType::U32 => "rows_word(i)",
        DType::I64 | DType::U64 => {
            "select(0xffffffffu, rows_word(2u * i), rows_word(2u * i + 1u) == 0u)"
        }
        DType::U16 => "rows_u16(2u * i)",
        DType::U8 => "rows_u8(i)",
        _ => {
            let e =
                CONVERSION.broken(format!("no shader for group numbers of type {}", named.dtype));
            return Err(e.in_component(&named.role));
        }
    };
    Ok(format!("fn group_of_row(i: u32) -> u32 {{ return {body}; }}\n"))
}

/// Returns the code for a group's zero point, and whether it reads the component.
fn zero_points(scheme: &Scheme, zeros: &Component, groups: u64) -> Result<(String, bool)> {
    let is_float = matches!(zeros.dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16)
        || zeros.logical_type.is_some();
    let own = u128::from(groups) * u128::from(zeros.dtype.width());
    let code = if is_float || u128::from(zeros.len) == own {
        fits(zeros, own)?;
        let offset = if is_float { 0.0 } else { scheme.zero_offset };
        format!(
            "fn number_of_zeros(i: u32) -> u32 {{ {} }}\nfn zero(g: u32) -> f32 {{ return bitcast<f32>(number_of_zeros(g)) + {offset:?}; }}\n",
            plain_expression("zeros", zeros)?
        )
    } else {
        let packing = scheme.packing.with_word(zeros.dtype)?;
        let len = groups.div_ceil(packing.elements()) * packing.words() * packing.word().width();
        fits(zeros, u128::from(len))?;
        let offset = scheme.zero_offset;
        format!(
            "{}fn zero(g: u32) -> f32 {{ return q_of_zeros(g) + {offset:?}; }}\n",
            flat("zeros", &packing)
        )
    };
    Ok((code, true))
}

fn fits(component: &Component, len: u128) -> Result<()> {
    match u128::from(component.len) == len {
        true => Ok(()),
        false => Err(wrong_len(component, len)),
    }
}

#[cold]
fn wrong_len(component: &Component, len: u128) -> Error {
    let found = component.len;
    QUANTIZED_COUNTS
        .broken(format!("expected {len} bytes, found {found}"))
        .in_component(&component.role)
}

/// Returns the code that converts the bits of an element to its number.
fn number(packing: &Packing) -> String {
    let mask = (1u32 << packing.bits()) - 1;
    match packing.is_signed() {
        true => "f32((i32(both & 255u) ^ 128) - 128)".to_owned(),
        false => format!("f32(both & {mask}u)"),
    }
}

/// Returns the code for the lowest bit of element `slot` in a block.
fn bit(packing: &Packing) -> String {
    if packing.is_msb() {
        return format!("({}u - slot) * {}u", packing.elements() - 1, packing.bits());
    }
    if !packing.is_awq() {
        return format!("slot * {}u", packing.bits());
    }
    let bits: Vec<String> = (0..8).map(|slot| format!("{}u", packing.bit(slot))).collect();
    format!("array<u32, 8>({})[slot]", bits.join(", "))
}

/// Returns the code of `q_of_NAME(i)`, for elements that are stored one after the other in blocks of words.
fn flat(name: &str, packing: &Packing) -> String {
    let block_len = packing.words() * packing.word().width();
    format!(
        "fn q_of_{name}(i: u32) -> f32 {{
    let slot = i % {per}u;
    let bit = {bit};
    let byte = i / {per}u * {block_len}u + bit / 8u;
    let both = {name}_u16(byte) >> (bit % 8u);
    return {number};
}}
",
        per = packing.elements(),
        bit = bit(packing),
        number = number(packing),
    )
}

/// Returns the code of `q_of_data(i)`, for words whose elements are in the same column of consecutive rows.
fn down_rows(packing: &Packing, columns: u64) -> String {
    let width = packing.word().width();
    format!(
        "fn q_of_data(i: u32) -> f32 {{
    let row = i / {columns}u;
    let slot = row % {per}u;
    let bit = {bit};
    let line = row / {per}u * {words}u + bit / {word_bits}u;
    let within = bit % {word_bits}u;
    let byte = (line * {columns}u + i % {columns}u) * {width}u + within / 8u;
    // The rest of the element is in the next byte: of the same word, or of the word in the next line.
    let next = select((line + 1u) * {columns}u + i % {columns}u, 0u, within / 8u + 1u < {width}u) * {width}u;
    let high = data_u8(select(next, byte + 1u, within / 8u + 1u < {width}u));
    let both = (data_u8(byte) | (high << 8u)) >> (within % 8u);
    return {number};
}}
",
        per = packing.elements(),
        words = packing.words(),
        word_bits = width * 8,
        bit = bit(packing),
        number = number(packing),
    )
}
