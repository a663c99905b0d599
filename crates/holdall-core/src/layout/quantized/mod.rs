//! Quantized groups: each element is `(q - zero) * scale`, where `q` has a few bits and is stored in `packed_weight`,
//! and each group of neighbours has one scale and one zero point.
//!
//! zTensor names the components and three attributes (`bits`, `group_size`, `packing`) but does not define the order of
//! elements and groups. This module documents how they are read here. Further attributes describe what writers of GPTQ
//! and AWQ checkpoints store.
//!
//! **Elements.** `q` is an unsigned number of `bits` bits, 1 to 8. `packing` is `n_per_t`, for example `8_per_i32`:
//! each word of integer type `t` contains `n` elements, from its low bits up; or `n_per_w_t`, for example
//! `32_per_3_i32`: `w` words contain `n` elements as one stream of bits, from the low bits of the first word up, so
//! that an element may span two words (GPTQ with 3 bits). Without `packing`, a word contains as many elements as fit if
//! `bits` is 1, 2, 4 or 8; otherwise a stream has as many words as are needed to end with a whole element. `t` has the
//! width of the component's dtype; whether it is signed only matters for `1_per_i8` with 8 bits, where `q` is signed. A
//! `packing` that ends in `_msb` fills words from their high bits down. If `packed_weight` has a logical type of `bits`
//! bits (`f8_e4m3fn`, `f4_e2m1`, …), `q` is the float that the bits encode.
//!
//! **Order.** By default everything is in row-major order: element `k` of the tensor is element `k mod n` of word group
//! `k / n`, and belongs to group `k / group_size`. The attribute `axis` = 0 of a matrix changes the direction of both:
//! groups run down the rows (scales have the shape `[rows / group_size, columns]`, rounded up), and so does packing:
//! the word of element `(i, j)` is `(i / n, j)` in a matrix of words (GPTQ). `pack_axis` gives packing another
//! direction than groups. `order` = `awq`, or a `packing` that ends in `_awq`, is AutoAWQ's order: the eight 4-bit
//! elements of a word have the order 0, 2, 4, 6, 1, 3, 5, 7, low bits first, and packing runs along rows whatever
//! `axis` is.
//!
//! **Groups.** A `group_size` of -1 makes one group of each row (or, with `axis` 0, of each column). A component
//! `g_idx`, with one integer per row, replaces `i / group_size` if `axis` is 0 (GPTQ's "act-order").
//!
//! **Zeros.** Zero points are floats, one per group; or integers, one per group; or integers packed like elements,
//! along the rows of the matrix of groups. `zero_offset` is added to integers (older GPTQ checkpoints store zero points
//! minus 1: `zero_offset` = 1). Without `zeros` the zero point is the integer `zero_point`; without that it is 2^(bits
//! - 1), or 0 if `q` is signed or a float. `sym` = false requires `zeros`.
//!
//! **Scales.** All scales are multiplied by 2^`element_exponent`, which is 0 by default. MXINT8 uses -6.

mod make;
mod packing;

pub use make::{Grouping, QuantizationResult};
pub use packing::Packing;

use super::float::into_f32;
use super::{Computed, Decoded, LENGTH, WRONG_LAYOUT, check_room};
use crate::error::{Error, Escape as _, Result};
use crate::limits::Limits;
use crate::model::{
    Attributes, DType, Layout, LogicalType, Role, TensorInfo, Value, element_count,
};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use packing::{AWQ, Direction, Packed};
use std::ops::Range;

crate::error::rules! {
    /// The rules of this module.
    pub static RULES;

    /// An attribute is missing or has the wrong type.
    pub ATTRIBUTE: Malformed "quantized/attribute"
        "A quantized tensor has `bits` and `group_size`, neither of them 0. Its attributes have the right types and are in range, and an axis is one of the shape's.";
    /// The number of bits is not supported.
    pub BITS: Unsupported "quantized/bits" "A quantized element has 1 to 8 bits.";
    /// The packing is unknown.
    pub PACKING: Unsupported "quantized/packing"
        "A packing is `n_per_t` or `n_per_w_t` of integer words, in a known order.";
    /// The packing is impossible: its elements do not fit in its words.
    pub FIT: Malformed "quantized/fit"
        "The elements of a packing fit in its words, and its words are as wide as the dtype of the component.";
    /// The direction is not supported.
    pub AXIS: Unsupported "quantized/axis"
        "Groups and packing run along the last axis, or down the rows of a matrix.";
    /// The length of a component does not match the shape.
    pub COUNTS: Malformed "quantized/counts"
        "The numbers of words, scales and zero points match the shape, the packing and the group size.";
    /// Zero points are missing or have an invalid type.
    pub ZEROS: Malformed "quantized/zeros"
        "Zero points are floats or integers, and are present if quantization is not symmetric.";
    /// The group of a row does not exist.
    pub GROUP_INDEX: Malformed "quantized/group-index"
        "`g_idx` has one integer for each row, the number of a group, and groups run down the rows.";
}

/// The decoded components of a quantized tensor.
#[derive(Debug, Clone)]
pub struct QuantizedParts {
    /// Words of packed elements.
    pub packed_weight: Decoded,
    /// One scale per group.
    pub scales: Decoded,
    /// One zero point per group.
    pub zeros: Option<Decoded>,
    /// The number of each row's group.
    pub g_idx: Option<Decoded>,
}

/// A quantized tensor whose lengths were checked. Scales and zero points are converted to `f32`.
#[derive(Debug, Clone)]
pub struct Quantized {
    shape: Vec<u64>,
    count: u64,
    packed: Packed,
    groups: Groups,
    scales: Vec<f32>,
    zeros: Zeros,
    /// The value of each bit pattern, if elements are floats.
    floats: Option<Vec<f32>>,
}

#[derive(Debug, Clone)]
enum Zeros {
    /// One zero point for all groups.
    Same(f32),
    /// One zero point per group.
    Each(Vec<f32>),
}

/// The group of each element.
#[derive(Debug, Clone)]
enum Groups {
    /// Groups of `size` elements, in row-major order.
    Flat { size: u64 },
    /// Groups run down the rows: the number of the group at the start of each row, to which the column is added.
    Rows { columns: u64, first: Vec<u64> },
}

impl Quantized {
    /// Creates the view of a tensor of layout `quantized_group`. `get` returns decoded components.
    ///
    /// # Errors
    /// Returns [`WRONG_LAYOUT`] if the tensor has another layout, the errors of `get`, and those of [`Quantized::new`].
    pub fn from_tensor(
        info: &TensorInfo,
        get: impl Fn(&Role) -> Result<Bytes>,
    ) -> Result<Quantized> {
        if *info.layout() != Layout::QuantizedGroup {
            let layout = info.layout().as_str().escaped();
            return Err(
                WRONG_LAYOUT.broken(format!("expected a quantized layout, found `{layout}`"))
            );
        }
        let find = |role: Role| -> Result<Option<Decoded>> {
            let Some(c) = info.component(&role) else { return Ok(None) };
            let bytes = get(&role)?;
            Ok(Some(Decoded { dtype: c.dtype, logical_type: c.logical_type, bytes }))
        };
        let require = |role: Role| {
            find(role.clone())?.ok_or_else(|| {
                let message = format!("missing component `{role}`");
                crate::model::builder::MISSING_COMPONENT.broken(message)
            })
        };
        let parts = QuantizedParts {
            packed_weight: require(Role::PackedWeight)?,
            scales: require(Role::Scales)?,
            zeros: find(Role::Zeros)?,
            g_idx: find(Role::from_name("g_idx"))?,
        };
        Quantized::new(info.shape(), info.attributes(), parts)
    }

    /// Creates a view of a tensor's components.
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`], [`BITS`], [`PACKING`], [`FIT`], [`AXIS`], [`COUNTS`], [`ZEROS`] or [`GROUP_INDEX`] if the
    /// attributes are invalid or do not match the components.
    pub fn new(shape: &[u64], attributes: &Attributes, parts: QuantizedParts) -> Result<Quantized> {
        let count = element_count(shape)
            .ok_or_else(|| LENGTH.broken(format!("shape {shape:?} exceeds 2^64 elements")))?;
        let words = &parts.packed_weight;
        let plan = Scheme::new(shape, attributes, words.dtype, words.bytes.len() as u64)?;
        let matrix = (shape.first().copied().unwrap_or(1), shape.get(1).copied().unwrap_or(1));
        let direction = if plan.packs_rows {
            Direction::Rows { rows: matrix.0, columns: matrix.1 }
        } else {
            Direction::Flat { count }
        };
        let floats = floats(words.logical_type.as_ref(), plan.packing.bits())
            .map_err(|e| e.in_component(Role::PackedWeight))?;
        let bytes = parts.packed_weight.bytes;
        let packed = Packed::new(plan.packing.clone(), direction, bytes)
            .map_err(|e| e.in_component(Role::PackedWeight))?;
        let (groups, group_count, columns) = if plan.groups_rows {
            let (rows, columns) = matrix;
            let down = match plan.group_size {
                Some(size) => rows.div_ceil(size),
                None => rows.min(1),
            };
            let first = rows_of_groups(rows, columns, down, plan.group_size, parts.g_idx, &packed)?;
            (Groups::Rows { columns, first }, down.checked_mul(columns), columns)
        } else {
            if parts.g_idx.is_some() {
                let e = GROUP_INDEX.broken("unexpected `g_idx`: groups do not run down the rows");
                return Err(
                    e.with_hint("set the attribute `axis` to 0 if groups run down the rows")
                );
            }
            let size = plan.group_size.unwrap_or(shape.last().copied().unwrap_or(1)).max(1);
            (Groups::Flat { size }, Some(count.div_ceil(size)), 0)
        };
        let group_count = group_count
            .ok_or_else(|| COUNTS.broken(format!("shape {shape:?} has more than 2^64 groups")))?;
        let mut scales =
            one_each(&parts.scales, group_count).map_err(|e| e.in_component(Role::Scales))?;
        if plan.exponent != 0 {
            let by = 2f32.powi(plan.exponent);
            scales.iter_mut().for_each(|scale| *scale *= by);
        }
        let zeros = match parts.zeros {
            Some(zeros) => Zeros::Each(
                plan.zeros(zeros, group_count, columns).map_err(|e| e.in_component(Role::Zeros))?,
            ),
            None if plan.is_symmetric == Some(false) => {
                return Err(ZEROS.broken("missing component `zeros`, which `sym` = false requires"));
            }
            None => Zeros::Same(plan.zero_of_all(floats.is_some()) as f32),
        };
        Ok(Quantized { shape: shape.to_vec(), count, packed, groups, scales, zeros, floats })
    }

    /// Returns how elements are packed into words.
    pub fn packing(&self) -> &Packing {
        self.packed.packing()
    }

    /// Returns the scale of each group.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Converts packed numbers of one group or one row into elements.
    fn scale(&self, at: u64, run: &mut [f32]) {
        match &self.groups {
            Groups::Flat { size } => {
                let group = usize::try_from(at / size).unwrap_or(usize::MAX);
                let scale = self.scales.get(group).copied().debug_unwrap();
                let zero = match &self.zeros {
                    Zeros::Same(zero) => *zero,
                    Zeros::Each(all) => all.get(group).copied().debug_unwrap(),
                };
                run.iter_mut().for_each(|x| *x = (*x - zero) * scale);
            }
            Groups::Rows { columns, first } => {
                let row = usize::try_from(at / columns).unwrap_or(usize::MAX);
                let group = first.get(row).copied().debug_unwrap().saturating_add(at % columns);
                let group = usize::try_from(group).unwrap_or(usize::MAX);
                let scales = self.scales.get(group..).debug_unwrap();
                match &self.zeros {
                    Zeros::Same(zero) => {
                        run.iter_mut().zip(scales).for_each(|(x, s)| *x = (*x - zero) * s);
                    }
                    Zeros::Each(all) => {
                        let zeros = all.get(group..).debug_unwrap();
                        for ((x, scale), zero) in run.iter_mut().zip(scales).zip(zeros) {
                            *x = (*x - zero) * scale;
                        }
                    }
                }
            }
        }
    }
}

impl Computed for Quantized {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn dequantize_range(&self, elements: Range<u64>, out: &mut [f32]) -> Result<()> {
        check_room(self.count, &elements, out)?;
        let mut at = elements.start;
        let mut left = out;
        while !left.is_empty() {
            // A run inside one group, or one row.
            let run = match &self.groups {
                Groups::Flat { size } => size - at % size,
                Groups::Rows { columns, .. } => columns - at % columns,
            };
            let run = usize::try_from(run).unwrap_or(usize::MAX).min(left.len());
            let (now, later) = left.split_at_mut(run);
            self.packed.unpack(at, now);
            if let Some(floats) = &self.floats {
                // A number of at most 8 bits.
                now.iter_mut().for_each(|x| *x = floats[usize::from(*x as u8)]);
            }
            self.scale(at, now);
            at += run as u64;
            left = later;
        }
        Ok(())
    }
}

/// The attributes that are parameters of a quantized tensor.
pub const PARAMETER_ATTRIBUTES: [&str; 11] = [
    "bits",
    "group_size",
    "packing",
    "axis",
    "pack_axis",
    "order",
    "zero_offset",
    "zero_point",
    "element_exponent",
    "sym",
    ORIGINAL_FIELDS,
];

/// The attribute with the original values of zTensor 2 fields that are not in their usual form, by name.
pub const ORIGINAL_FIELDS: &str = "ztensor2.spelled";

/// The parameters of a quantized tensor, from its attributes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Scheme {
    /// How elements are packed into words.
    pub packing: Packing,
    /// Elements per group; `None` for one group per row or column.
    pub group_size: Option<u64>,
    /// Whether groups run down the rows of a matrix.
    pub groups_rows: bool,
    /// Whether packing runs down the rows of a matrix.
    pub packs_rows: bool,
    /// The number that is added to integer zero points.
    pub zero_offset: f32,
    /// `false` if zero points are required, `true` if they are optional, `None` if this is not stated.
    pub is_symmetric: Option<bool>,
    /// The zero point of all groups, if there is no component of zero points.
    pub zero_point: Option<i64>,
    /// The power of two that all scales are multiplied by.
    pub exponent: i32,
}

impl Scheme {
    /// Returns the scheme of a tensor of layout `quantized_group`, without reading components.
    ///
    /// # Errors
    /// Returns the errors of [`Quantized::new`], except those about lengths.
    pub fn from_info(info: &TensorInfo) -> Result<Scheme> {
        let words = info.component(&Role::PackedWeight).ok_or_else(|| {
            crate::model::builder::MISSING_COMPONENT.broken("missing component `packed_weight`")
        })?;
        let len = words.decoded_len.unwrap_or(0);
        Scheme::new(info.shape(), info.attributes(), words.dtype, len)
    }

    /// Returns the zero point of all groups, for tensors without a component of zero points.
    pub fn zero_of_all(&self, are_floats: bool) -> i64 {
        let is_middle = !are_floats && !self.packing.is_signed();
        let own = if is_middle { 1 << (self.packing.bits() - 1) } else { 0 };
        self.zero_point.unwrap_or(own)
    }

    /// Returns the scheme that `attributes` describe, for a tensor of this shape. `word` is the type of the packed
    /// words, and `len` their length in bytes.
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`] or another rule of this module if the attributes are invalid.
    pub fn new(shape: &[u64], attributes: &Attributes, word: DType, len: u64) -> Result<Scheme> {
        let Some(bits) = integer(attributes, "bits")? else {
            return Err(ATTRIBUTE.broken("missing attribute `bits`"));
        };
        let bits = known_bits(bits, shape, len)?;
        let group_size = match integer(attributes, "group_size")? {
            None => return Err(ATTRIBUTE.broken("missing attribute `group_size`")),
            Some(-1) => None,
            Some(size) => match u64::try_from(size) {
                Ok(size) if size > 0 => Some(size),
                _ => return Err(ATTRIBUTE.broken(format!("invalid `group_size` of {size}"))),
            },
        };
        let order = text(attributes, "order")?;
        if let Some(order) = order.filter(|order| *order != "awq") {
            let message = format!("unknown order `{}`", order.escaped());
            return Err(PACKING.broken(message));
        }
        let named = text(attributes, "packing")?;
        let is_awq = order.is_some() || named.is_some_and(|name| name.ends_with(AWQ));
        let packing = Packing::new(bits, named, is_awq, word)?;
        let groups_rows = runs_down(shape, attributes, "axis")?;
        let packs_rows = match runs_down(shape, attributes, "pack_axis")? {
            None => groups_rows.unwrap_or(false) && !is_awq,
            Some(down) => down,
        };
        let zero_offset = integer(attributes, "zero_offset")?.unwrap_or(0) as f32;
        let is_symmetric = match attributes.get("sym") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(sym)) => Some(*sym),
            Some(Value::Text(sym)) if sym.parse::<bool>().is_ok() => sym.parse().ok(),
            Some(_) => return Err(ATTRIBUTE.broken("`sym` must be true or false")),
        };
        let groups_rows = groups_rows.unwrap_or(false);
        let within = |key: &str, range: Range<i64>| {
            let fits = |i: i128| i64::try_from(i).ok().filter(|i| range.contains(i));
            match integer(attributes, key)? {
                Some(i) => fits(i).map(Some).ok_or_else(|| {
                    ATTRIBUTE.broken(format!(
                        "`{key}` is {i}, expected {} to {}",
                        range.start,
                        range.end - 1
                    ))
                }),
                None => Ok(None),
            }
        };
        let zero_point = within("zero_point", -(1 << 24)..(1 << 24) + 1)?;
        let exponent = within("element_exponent", -64..65)?.unwrap_or(0) as i32;
        Ok(Scheme {
            packing,
            group_size,
            groups_rows,
            packs_rows,
            zero_offset,
            is_symmetric,
            zero_point,
            exponent,
        })
    }

    /// Returns one zero point per group. `columns` is the width of the matrix of groups, or 0 without a matrix.
    fn zeros(&self, zeros: Decoded, count: u64, columns: u64) -> Result<Vec<f32>> {
        let is_float = matches!(zeros.dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        if is_float || zeros.logical_type.is_some() {
            return one_each(&zeros, count);
        }
        if zeros.dtype == DType::Bool {
            return Err(ZEROS.broken("zero points must be floats or integers, found bool"));
        }
        let mut all = if count.checked_mul(zeros.dtype.width()) == Some(zeros.bytes.len() as u64) {
            one_each(&zeros, count)?
        } else {
            let packing = self.packing.with_word(zeros.dtype)?;
            if columns != 0 && !columns.is_multiple_of(packing.elements()) {
                let message = format!(
                    "rows of {columns} zero points are not a multiple of {}, the number in a word",
                    packing.elements()
                );
                return Err(PACKING.broken(message));
            }
            let packed = Packed::new(packing, Direction::Flat { count }, zeros.bytes)?;
            // Bounded by the scales: there are as many, and they are in memory.
            let mut all = vec![0.0; usize::try_from(count).debug_unwrap()];
            packed.unpack(0, &mut all);
            all
        };
        all.iter_mut().for_each(|zero| *zero += self.zero_offset);
        Ok(all)
    }
}

/// Returns the attribute `bits`, if its value is supported.
fn known_bits(bits: i128, shape: &[u64], len: u64) -> Result<u32> {
    if bits < 1 {
        return Err(ATTRIBUTE.broken(format!("invalid `bits` of {bits}")));
    }
    if let Ok(known @ 1..=8) = u32::try_from(bits) {
        return Ok(known);
    }
    // Whatever the packing is, the elements must fit.
    let room = u128::from(len).saturating_mul(8);
    let count = u128::from(element_count(shape).unwrap_or(u64::MAX));
    if count.saturating_mul(bits.unsigned_abs()) > room {
        let message = format!("{count} elements of {bits} bits do not fit in {len} bytes");
        return Err(COUNTS.broken(message).in_component(Role::PackedWeight));
    }
    Err(BITS.broken(format!("unsupported elements of {bits} bits; expected 1 to 8")))
}

/// Returns the value of each pattern of `bits` bits in a float type, or `None` without a known logical type.
fn floats(logical: Option<&LogicalType>, bits: u32) -> Result<Option<Vec<f32>>> {
    let Some(logical) = logical.filter(|t| !matches!(t, LogicalType::Other(_))) else {
        return Ok(None);
    };
    let each: usize = match (logical.bits(), bits) {
        (Some(8), 8) => 1,
        // Two per byte, of which the low one is used.
        (Some(4), 4) => 2,
        _ => {
            let message = format!("elements of {bits} bits cannot be {}", logical.as_str());
            return Err(FIT.broken(message));
        }
    };
    let patterns: Vec<u8> = (0..=u8::MAX).take(1 << bits).collect();
    let mut out = vec![0.0; patterns.len() * each];
    into_f32(DType::U8, Some(logical), &patterns, &mut out)?;
    Ok(Some(out.into_iter().step_by(each).collect()))
}

/// Converts numbers, one per group, to `f32`.
fn one_each(component: &Decoded, count: u64) -> Result<Vec<f32>> {
    let len = component.bytes.len();
    let bits = component.logical_type.as_ref().and_then(|t| t.bits());
    let bits = bits.unwrap_or(component.dtype.width() * 8);
    let found = (len as u64).saturating_mul(8).checked_div(bits).debug_unwrap();
    if found != count {
        return Err(
            COUNTS.broken(format!("expected {count} numbers, one per group, found {found}"))
        );
    }
    let mut out = vec![0.0; usize::try_from(found).debug_unwrap()];
    let logical = component.logical_type.as_ref();
    into_f32(component.dtype, logical, &component.bytes, &mut out)?;
    Ok(out)
}

/// Returns the first group number of each row, if groups run down the rows: the row of the group times `columns`.
fn rows_of_groups(
    rows: u64,
    columns: u64,
    down: u64,
    size: Option<u64>,
    g_idx: Option<Decoded>,
    packed: &Packed,
) -> Result<Vec<u64>> {
    // Rows without columns have no elements, however many rows the shape states.
    if columns == 0 {
        return Ok(Vec::new());
    }
    // Each row has elements of at least one bit, so `rows` is limited by the bytes in memory.
    let most = (packed.bytes().len() as u64).saturating_mul(8);
    let rows = usize::try_from(rows.min(most)).debug_unwrap();
    let Some(g_idx) = g_idx else {
        let group = |row: u64| size.map_or(0, |size| row / size);
        return Ok((0..rows as u64).map(|row| group(row).saturating_mul(columns)).collect());
    };
    let blame = |e: Error| e.in_component("g_idx");
    let found = g_idx.bytes.len() / g_idx.dtype.width() as usize;
    if found != rows {
        let message = format!("expected {rows} numbers, one per row, found {found}");
        return Err(blame(GROUP_INDEX.broken(message)));
    }
    let unlimited = Limits { decoded_len: u64::MAX, ..Limits::default() };
    let indices = super::sparse::Indices::new(g_idx, &unlimited)
        .map_err(|e| blame(e.with_rule(&GROUP_INDEX)))?;
    if let Some((row, group)) = indices.outside(0..rows, down) {
        let message = format!("row {row} belongs to group {group}, outside 0..{down}");
        return Err(blame(GROUP_INDEX.broken(message)));
    }
    Ok(indices.range(0..rows).map(|group| group.saturating_mul(columns)).collect())
}

/// Returns `true` if the attribute `key` selects the direction down the rows of a matrix, or `None` without it.
fn runs_down(shape: &[u64], attributes: &Attributes, key: &str) -> Result<Option<bool>> {
    let Some(axis) = integer(attributes, key)? else { return Ok(None) };
    let rank = shape.len() as i128;
    if !(-rank..rank).contains(&axis) {
        let dimensions = if rank == 1 { "dimension" } else { "dimensions" };
        return Err(
            ATTRIBUTE.broken(format!("`{key}` is {axis}, but the tensor has {rank} {dimensions}"))
        );
    }
    let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if axis == rank - 1 {
        return Ok(Some(false));
    }
    if axis == 0 && rank == 2 {
        return Ok(Some(true));
    }
    Err(AXIS.broken(format!("unsupported `{key}` of {axis} with {rank} dimensions")))
}

fn integer(attributes: &Attributes, key: &str) -> Result<Option<i128>> {
    match attributes.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Integer(i)) => Ok(Some(*i)),
        // Some formats have only text attributes.
        Some(Value::Text(text)) if text.parse::<i64>().is_ok() => {
            Ok(text.parse::<i64>().ok().map(i128::from))
        }
        Some(_) => Err(ATTRIBUTE.broken(format!("`{key}` must be an integer"))),
    }
}

fn text<'a>(attributes: &'a Attributes, key: &str) -> Result<Option<&'a str>> {
    match attributes.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(_) => Err(ATTRIBUTE.broken(format!("`{key}` must be text"))),
    }
}
