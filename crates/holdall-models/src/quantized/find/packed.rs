//! Weights whose packed elements are called `weight_packed`: compressed-tensors.

use super::super::decoding::{
    Along, Arithmetic, Codes, Cover, Factor, ScaleType, Table, Zeros, ZerosForm, words_down,
};
use super::super::kind::Kind;
use super::super::settings::{count, member};
use super::super::{CONTENT, KIND, PARAMETER, SHAPE, StoredTensor};
use super::draft::{Described, Draft, cover, plain, with_columns};
use super::scaled::check_factor;
use super::{Finder, Settings};
use holdall_core::error::Result;
use holdall_core::{DType, LogicalType, Value};

/// Adds the weights of compressed-tensors that are packed.
pub(super) fn find(finder: &mut Finder<'_>) {
    for name in finder.with_suffix("_packed") {
        let packed = format!("{name}_packed");
        let is_of_weight = finder.get(&format!("{name}_scale")).is_some()
            || name.ends_with("weight")
            || finder.get(&format!("{name}_shape")).is_some();
        let Some(tensor) = finder.get(&packed).filter(|_| is_of_weight) else { continue };
        finder.add(name, |draft| {
            draft.take("weight", &packed)?;
            match tensor.dtype {
                DType::U8 if tensor.logical_type.is_none() => floats(draft, name, tensor),
                _ => integers(draft, name, tensor),
            }
        });
    }
}

/// Returns the descriptions of weights in the groups of the configuration.
pub(super) fn schemes(settings: &Settings) -> Vec<&Value> {
    let groups = match settings.get("config_groups") {
        Some(Value::Map(groups)) => groups.as_slice(),
        _ => &[],
    };
    groups.iter().filter_map(|(_, group)| member(group, "weights")).collect()
}

/// Describes floats of 4 or 6 bits.
fn floats(draft: &mut Draft<'_, '_>, name: &str, packed: &StoredTensor) -> Result<Described> {
    let scale = draft.take("scale", &format!("{name}_scale"))?;
    let row_len = packed.shape.last().copied().unwrap_or(0);
    if scale.is_of(&LogicalType::F8E4M3Fn) {
        draft.kind(Kind::CompressedNvfp4);
        let factor = draft.take("divisor", &format!("{name}_global_scale"))?;
        factor.expect_type(factor.is_plain(DType::F32), "f32")?;
        let shape = with_columns(packed, |n| n.checked_mul(2))?;
        let mut grid = cover(&shape, scale, &[Cover::Blocks(1, 16)])?;
        check_factor(factor, grid.matrices)?;
        grid.factor = Some(Factor { role: "divisor", is_divisor: true });
        draft.parameter("group_size", 16);
        let codes = Codes::Stream { bits: 4, row_len, table: Table::E2m1 };
        return plain(shape, codes, grid, Arithmetic::Multiply);
    }
    let is_power = scale.is_plain(DType::U8) || scale.is_of(&LogicalType::F8E8M0);
    scale.expect_type(is_power, "powers of two (u8 or f8_e8m0)")?;
    // The scales of 32 elements tell how many bits an element has.
    let four = with_columns(packed, |n| n.checked_mul(2))?;
    let six = with_columns(packed, |n| (n % 3 == 0).then(|| (n / 3).checked_mul(4)).flatten());
    let covers = [Cover::Blocks(1, 32)];
    let (kind, bits, shape, table) = match (cover(&four, scale, &covers), six) {
        (Ok(_), _) => (Kind::CompressedMxfp4, 4, four, Table::E2m1),
        (Err(_), Ok(six)) if cover(&six, scale, &covers).is_ok() => {
            (Kind::CompressedMxfp6, 6, six, Table::E2m3)
        }
        (Err(e), _) => {
            draft.kind(Kind::CompressedMxfp4);
            return Err(e);
        }
    };
    draft.kind(kind);
    check_bits(draft.settings(), bits)?;
    let mut grid = cover(&shape, scale, &covers)?;
    grid.scale_type = ScaleType::E8m0;
    draft.parameter("group_size", 32);
    plain(shape, Codes::Stream { bits, row_len, table }, grid, Arithmetic::Multiply)
}

/// Checks that a group of the configuration has elements of this many bits, if the configuration states the bits.
fn check_bits(settings: &Settings, bits: u32) -> Result<()> {
    let stated: Vec<u64> =
        schemes(settings).iter().filter_map(|s| count(member(s, "num_bits")?)).collect();
    if stated.is_empty() || stated.contains(&u64::from(bits)) {
        return Ok(());
    }
    Err(PARAMETER
        .broken(format!("the shapes tell elements of {bits} bits, `num_bits` is {stated:?}")))
}

/// Describes integers in words of 32 bits.
fn integers(draft: &mut Draft<'_, '_>, name: &str, packed: &StoredTensor) -> Result<Described> {
    draft.kind(Kind::CompressedPacked);
    packed.expect_type(packed.is_plain(DType::I32), "i32")?;
    let scale = draft.take("scale", &format!("{name}_scale"))?;
    scale.expect_type(scale.is_wide_float(), "floats")?;
    let shape = stated_shape(draft, name, packed)?;
    let (packing, bits, covers, is_symmetric) = scheme(draft, packed, &shape, scale)?;
    draft.parameter("bits", bits);
    let mut grid = cover(&shape, scale, &covers)?;
    if let super::super::decoding::Along::Size(size) = grid.column {
        draft.parameter("group_size", size);
    }
    let index = format!("{name}_g_idx");
    if let Some(index) = draft.take_optional("group_index", &index) {
        let columns = shape.last().copied().unwrap_or(0);
        index.expect_shape(&[columns])?;
        index.expect_type(index.is_plain(DType::I32) || index.is_plain(DType::I64), "i32")?;
        grid.column = Along::Index("group_index");
    }
    let zeros = draft.take_optional("zero", &format!("{name}_zero_point"));
    let arithmetic = match (zeros, is_symmetric) {
        (Some(zeros), _) => {
            let mut lines = shape.clone();
            lines.pop();
            let rows = lines.pop().unwrap_or(1);
            let per_word = packing.per_word();
            let words = words_down(rows, bits, per_word);
            lines.extend(words.into_iter().chain([grid.columns]));
            zeros.expect_type(zeros.is_plain(DType::I32), "i32")?;
            zeros.expect_shape(&lines)?;
            let codes = Codes::Down { bits, per_word };
            let form = ZerosForm::Packed { codes, bits, add: 0 };
            Arithmetic::Zeros(Zeros { role: "zero", form })
        }
        (None, Some(false)) => {
            draft.take("zero", &format!("{name}_zero_point"))?;
            Arithmetic::Multiply
        }
        (None, _) => Arithmetic::Offset(1u32.wrapping_shl(bits.saturating_sub(1)) as f32),
    };
    let row_len = packed.shape.last().copied().unwrap_or(0);
    let row_len = row_len.checked_mul(4).ok_or_else(|| {
        SHAPE.broken(format!("a row of {row_len} words of 4 bytes exceeds 2^64 bytes"))
    })?;
    let codes = match packing {
        Packing::Dense => Codes::Stream { bits, row_len, table: Table::Integer },
        Packing::Whole(per_word) => Codes::Words { bits, per_word, row_len },
    };
    plain(shape, codes, grid, arithmetic)
}

/// Returns the shape that the tensor `weight_shape` states.
fn stated_shape(draft: &mut Draft<'_, '_>, name: &str, packed: &StoredTensor) -> Result<Vec<u64>> {
    let stated = draft.take("shape", &format!("{name}_shape"))?;
    let bytes = draft.small(&stated.name)?;
    let numbers: Vec<i64> = match stated.dtype {
        DType::I64 => bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
        DType::I32 => {
            bytes.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()
        }
        _ => {
            stated.expect_type(false, "i64")?;
            Vec::new()
        }
    };
    let shape: Option<Vec<u64>> = numbers.iter().map(|n| u64::try_from(*n).ok()).collect();
    let leading = |shape: &[u64]| shape.split_last().map(|(_, leading)| leading.to_vec());
    match shape {
        Some(shape) if leading(&shape) == leading(&packed.shape) => Ok(shape),
        _ => {
            let message = format!(
                "the shape {numbers:?} does not fit packed elements of shape {:?}",
                packed.shape
            );
            Err(CONTENT.broken(message).in_tensor(&stated.name))
        }
    }
}

/// How elements are packed into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// One stream of bits.
    Dense,
    /// This number of elements in each word.
    Whole(u64),
}

impl Packing {
    fn per_word(self) -> Option<u64> {
        match self {
            Packing::Dense => None,
            Packing::Whole(n) => Some(n),
        }
    }
}

/// The scheme of a weight: packing, bits, covers of the scales, and whether it is symmetric.
type Scheme = (Packing, u32, Vec<Cover>, Option<bool>);

/// Chooses the group of the configuration that fits the tensors.
fn scheme(
    draft: &Draft<'_, '_>,
    packed: &StoredTensor,
    shape: &[u64],
    scale: &StoredTensor,
) -> Result<Scheme> {
    let words = packed.shape.last().copied().unwrap_or(0);
    let columns = shape.last().copied().unwrap_or(0);
    let settings = draft.settings();
    let mut fitting: Vec<Scheme> = Vec::new();
    let mut tried = Vec::new();
    for weights in schemes(settings) {
        if member(weights, "type").and_then(Value::as_text).is_some_and(|kind| kind != "int") {
            continue;
        }
        let bits = member(weights, "num_bits").and_then(count).and_then(|n| u32::try_from(n).ok());
        let Some(bits) = bits.filter(|bits| (1..=8).contains(bits)) else {
            return Err(KIND.broken("packed integers have 1 to 8 bits (`num_bits`)"));
        };
        tried.push(bits);
        let group = member(weights, "group_size").and_then(count);
        let covers = match (member(weights, "strategy").and_then(Value::as_text), group) {
            (Some("tensor"), _) => vec![Cover::Tensor],
            (Some("channel"), _) => vec![Cover::Rows],
            (_, Some(group)) => vec![Cover::Blocks(1, group)],
            (_, None) => vec![Cover::Rows, Cover::Tensor],
        };
        let is_symmetric = match member(weights, "symmetric") {
            Some(Value::Bool(is)) => Some(*is),
            _ => None,
        };
        let per_word = 32u64.checked_div(u64::from(bits)).unwrap_or(1);
        let dense = words_down(columns, bits, None) == Some(words);
        let whole = words_down(columns, bits, Some(per_word)) == Some(words);
        let is_aligned = bits.is_power_of_two();
        let packing = match (dense, whole) {
            (true, _) if is_aligned => Packing::Dense,
            // Up to one word, both packings are the same.
            (true, true) if words <= 1 => Packing::Dense,
            (true, true) if is_before_dense(settings) => Packing::Whole(per_word),
            (true, _) => Packing::Dense,
            (false, true) => Packing::Whole(per_word),
            (false, false) => continue,
        };
        if covers.iter().any(|cover| cover.grid(shape, &scale.shape).is_some()) {
            let scheme = (packing, bits, covers, is_symmetric);
            if !fitting.contains(&scheme) {
                fitting.push(scheme);
            }
        }
    }
    match fitting.as_slice() {
        [one] => Ok(one.clone()),
        [one, rest @ ..]
            if rest
                .iter()
                .all(|other| (&other.0, other.1, &other.2) == (&one.0, one.1, &one.2)) =>
        {
            // Only symmetry differs, which the presence of zero points decides.
            Ok((one.0, one.1, one.2.clone(), None))
        }
        [] if tried.is_empty() => {
            Err(PARAMETER.broken("the number of bits (`num_bits`) is not known"))
        }
        [] => Err(SHAPE.broken(format!(
            "{words} words and scales of shape {:?} do not fit shape {shape:?} with {tried:?} bits",
            scale.shape
        ))),
        _ => Err(PARAMETER.broken("several groups of the configuration fit the tensors")),
    }
}

/// Returns `true` if the version of compressed-tensors packs only whole elements into a word.
fn is_before_dense(settings: &Settings) -> bool {
    let Some(version) = settings.text("version") else { return false };
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    major == 0 && minor < 20
}
