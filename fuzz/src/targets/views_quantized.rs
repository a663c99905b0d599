//! All ways to read the elements of a quantized tensor agree, and their count is that of the shape.

use crate::limits;
use crate::take::{Put, Take};
use holdall::layout::Computed as _;
use holdall::layout::{Decoded, Quantized, QuantizedParts};
use holdall::{Attributes, Bytes, DType, Layout, Role, Value};
use holdall_core::wire::cbor::{Reader, Writer};

/// Components are resized to fit shapes of up to this many elements.
const MAX: u64 = 16 << 10;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits::tight();
    let mut take = Take::new(data);
    let shape = take.shape();
    let (is_fit, has_zeros, has_g_idx) = (take.below(2) == 1, take.below(2), take.below(2));
    let attributes = Reader::new(take.run(), 0, &limits).attributes("the attributes");
    let attributes = attributes.unwrap_or_default();
    let (packed_weight, scales) = (take.component(), take.component());
    let zeros = (has_zeros == 1).then(|| take.component());
    let g_idx = (has_g_idx == 1).then(|| take.component());
    let mut parts = QuantizedParts { packed_weight, scales, zeros, g_idx };
    if is_fit {
        fit(&shape, &attributes, &mut parts);
    }
    let view = match Quantized::new(&shape, &attributes, parts) {
        Ok(view) => view,
        // These errors occur earlier: such elements cannot be read as numbers, and lengths are checked when the file is
        // opened.
        Err(e) if ["layout/length", "layout/not-a-number"].contains(&e.code()) => return,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    assert_eq!(view.shape(), shape);
    if view.count() > limits::DECODED_LEN / 4 {
        view.to_dense(&limits).expect_err("it is above the limit");
        return;
    }
    let all = view.dequantize().expect("it is in memory");
    assert_eq!(all.len() as u64, view.count());
    let dense = view.to_dense(&limits).expect("it is below the limit");
    assert!(same(&dense.to_f32().expect("they are f32"), &all));
    // Reads pieces whose lengths do not occur in the tensor.
    for step in [1, 3, 7, 64, 1000] {
        let mut at = 0;
        // Single elements are read only at the start.
        let end = if step < 64 { all.len().min(300) } else { all.len() };
        let mut out = Vec::new();
        while at < end {
            let to = all.len().min(at + step);
            out.resize(to - at, 0.0);
            view.dequantize_range(at as u64..to as u64, &mut out).expect("the range is inside");
            assert!(same(&out, &all[at..to]), "elements {at}..{to} differ when read alone");
            at = to;
        }
    }
    let past = view.count()..view.count() + 1;
    view.dequantize_range(past, &mut [0.0]).expect_err("the range is outside the view");
}

/// Returns whether both have the same bits, or are both NaN.
fn same(a: &[f32], b: &[f32]) -> bool {
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// Repeats the bytes of components up to the length that a tensor with these attributes usually has, so that the code
/// after the check of lengths is reached.
fn fit(shape: &[u64], attributes: &Attributes, parts: &mut QuantizedParts) {
    let integer = |key| attributes.get(key).and_then(Value::as_integer);
    let word = parts.packed_weight.dtype.width();
    let bits = integer("bits").and_then(|n| u64::try_from(n).ok()).filter(|n| (1..=8).contains(n));
    let (Some(bits), Some(count)) = (bits, holdall::element_count(shape)) else { return };
    if count > MAX {
        return;
    }
    let named = attributes.get("packing").and_then(Value::as_text).and_then(|name| {
        let (elements, rest) = name.split_once("_per_")?;
        let rest = rest.strip_suffix("_awq").or_else(|| rest.strip_suffix("_msb")).unwrap_or(rest);
        let words = rest.split_once('_').map_or(Some(1), |(words, _)| words.parse().ok())?;
        Some((elements.parse::<u64>().ok()?, words))
    });
    let natural = || {
        let words = (1..=bits).find(|words| (words * word * 8).is_multiple_of(bits))?;
        Some((words * word * 8 / bits, words))
    };
    let Some((elements, words)) = named.or_else(natural) else { return };
    let is_awq = attributes.get("order").is_some();
    let (rows, columns) = match shape {
        &[rows, columns] => (rows, columns),
        _ => (1, count),
    };
    let axis = |key| integer(key).map(|axis| axis == 0 || axis == -2);
    let groups_down = axis("axis").unwrap_or(false) && shape.len() == 2;
    let packs_down = axis("pack_axis").unwrap_or(groups_down && !is_awq) && shape.len() == 2;
    let (along, across) = if packs_down { (rows, columns) } else { (count, 1) };
    let group = integer("group_size").and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    let groups = if groups_down {
        group.map_or(1, |size| rows.div_ceil(size)) * columns
    } else {
        count.div_ceil(group.unwrap_or(shape.last().copied().unwrap_or(1)).max(1))
    };
    let packed = |count: u64| count.checked_div(elements).map(|n| n + 1).map(|n| n * words);
    let weights = along.checked_next_multiple_of(elements.max(1)).map(|n| n / elements.max(1));
    let weights =
        weights.and_then(|n| n.checked_mul(words)?.checked_mul(across)?.checked_mul(word));
    repeat(&mut parts.packed_weight, weights);
    let width = width(&parts.scales);
    repeat(&mut parts.scales, groups.checked_mul(width));
    if let Some(zeros) = &mut parts.zeros {
        // Floats, and groups of one byte each, have one zero point each; others are packed.
        let is_float = matches!(zeros.dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        let each = groups.checked_mul(self::width(zeros));
        let in_words = packed(groups.saturating_sub(1)).map(|n| n.saturating_mul(word));
        repeat(zeros, if is_float { each } else { in_words });
    }
    if let Some(g_idx) = &mut parts.g_idx {
        let width = g_idx.dtype.width();
        repeat(g_idx, rows.checked_mul(width));
    }
}

/// Returns the bytes of an element, at least 1.
fn width(part: &Decoded) -> u64 {
    let bits = part.logical_type.as_ref().and_then(|t| t.bits());
    bits.map_or(part.dtype.width(), |bits| (bits / 8).max(1))
}

fn repeat(part: &mut Decoded, len: Option<u64>) {
    if let Some(len) = len.filter(|len| *len <= 16 * MAX) {
        let all: Vec<u8> = part.bytes.iter().copied().chain([0]).collect();
        part.bytes = all.into_iter().cycle().take(len as usize).collect::<Vec<u8>>().into();
    }
}

/// Returns every quantized tensor unchanged and with fitting lengths, and some tensors that do not occur in real files.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(file) = crate::open(file) else { return Vec::new() };
    let mut out = Vec::new();
    for t in file.tensors().filter(|t| *t.layout() == Layout::QuantizedGroup) {
        let part = |role: &Role| -> Option<Decoded> {
            let c = t.component(role)?;
            let bytes = t.bytes(role).ok().filter(|bytes| bytes.len() <= 4096)?;
            Some(Decoded { dtype: c.dtype, logical_type: c.logical_type, bytes })
        };
        let (Some(weight), Some(scales)) = (part(&Role::PackedWeight), part(&Role::Scales)) else {
            continue;
        };
        let (zeros, g_idx) = (part(&Role::Zeros), part(&Role::from_name("g_idx")));
        let parts = [Some(weight), Some(scales), zeros, g_idx];
        out.extend(seed(t.shape(), t.attributes(), &parts, 0));
        let axis = [("axis", 0), ("pack_axis", 0), ("pack_axis", 1), ("zero_offset", 1)];
        for (key, value) in axis {
            let mut attributes = t.attributes().clone();
            attributes.set(key, Value::Integer(value));
            out.extend(seed(t.shape(), &attributes, &parts, 1));
        }
        for bits in [1, 2, 3, 5, 8] {
            let mut attributes = t.attributes().clone();
            attributes.set("bits", Value::Integer(bits));
            attributes.remove("packing");
            let mut parts = parts.clone();
            parts[3] = Some(Decoded::new(DType::U8, Bytes::from_static(&[0])));
            out.extend(seed(t.shape(), &attributes, &parts, 1));
            attributes.set("axis", Value::Integer(0));
            out.extend(seed(&[40, 3], &attributes, &parts, 1));
        }
    }
    out
}

fn seed(
    shape: &[u64],
    attributes: &Attributes,
    parts: &[Option<Decoded>; 4],
    is_fit: u8,
) -> Option<Vec<u8>> {
    let mut put = Put::default();
    put.shape(shape).then_some(())?;
    put.u8(is_fit);
    put.u8(parts[2].is_some().into());
    put.u8(parts[3].is_some().into());
    let mut writer = Writer::new();
    writer.attributes(attributes).ok()?;
    put.run(writer.as_bytes());
    for part in parts.iter().flatten() {
        put.types(part.dtype, part.logical_type.as_ref());
        put.run(&part.bytes);
    }
    Some(put.0)
}
