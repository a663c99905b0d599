//! `zt.quant_group/1` and `zt.mx/1`: quantized groups, with their attributes in zTensor 2.
//!
//! Converts the attributes of such objects to those of the layout `quantized_group`, and back. Objects that this layout
//! cannot represent keep their own layout.

use super::OTHER_LAYOUT;
use super::manifest::member;
use holdall_core::encode::TensorSpec;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::layout::quantized::{ORIGINAL_FIELDS, PARAMETER_ATTRIBUTES, Scheme};
use holdall_core::model::{Attributes, DType, Layout, LogicalType, Role, Value, element_count};

pub(super) const QUANT_GROUP: &str = "zt.quant_group/1";
pub(super) const MX: &str = "zt.mx/1";
/// The name of the part with quantized elements.
pub(super) const DATA: &str = "data";
/// The exponent of 2 by which an MXINT8 integer is scaled.
const INT8_EXPONENT: i128 = -6;
const SCALE_FORM: &str = "scale_form";
const E8M0: &str = "e8m0_exponent";
/// The attributes of either layout.
const THEIRS: [&str; 7] =
    ["bits", "group_size", "axis", "packing", SCALE_FORM, "zero_point", "block_size"];

/// The properties of a part that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) role: &'a str,
    pub(super) dtype: DType,
    pub(super) logical: Option<&'a LogicalType>,
    /// The decoded length in bytes.
    pub(super) len: u64,
}

impl Given<'_> {
    /// Returns `true` if it has `count` elements.
    fn has(&self, count: u64) -> bool {
        let bits = self.logical.map_or(Some(self.dtype.width().saturating_mul(8)), |t| t.bits());
        let len = bits.and_then(|bits| count.checked_mul(bits)).map(|bits| bits.div_ceil(8));
        len == Some(self.len)
    }

    fn is_float(&self) -> bool {
        match self.logical {
            None => matches!(self.dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16),
            Some(t) => t.bits().is_some() && !t.is_complex(),
        }
    }
}

/// The reason why an object is not a known quantized group.
type Odd<T> = std::result::Result<T, String>;

/// Returns the attributes of a `quantized_group` for an object of one of the two layouts.
pub(super) fn read(
    layout: &str,
    shape: &[u64],
    parts: &[Given<'_>],
    attributes: &Attributes,
) -> Odd<Attributes> {
    let find = |role: &str| parts.iter().find(|part| part.role == role);
    let (Some(data), Some(scales)) = (find(DATA), find("scales")) else {
        return Err("the parts `data` and `scales` are missing".into());
    };
    let zeros = find("zeros");
    if parts.len() != if zeros.is_some() { 3 } else { 2 } {
        return Err("there are other parts than `data`, `scales` and `zeros`".into());
    }
    let count = element_count(shape).ok_or("the shape is too large")?;
    let is_theirs = |key: &&str| match layout {
        MX => matches!(*key, "block_size" | "axis" | SCALE_FORM),
        _ => THEIRS.contains(key) && *key != "block_size",
    };
    if let Some((key, _)) =
        attributes.iter().find(|(key, _)| PARAMETER_ATTRIBUTES.contains(key) && !is_theirs(key))
    {
        return Err(format!("an attribute `{key}` has no meaning in this layout"));
    }
    let others = attributes.iter().filter(|(key, _)| !is_theirs(key));
    let mut out: Attributes = others.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let own = Own { shape, count, data, scales, zeros };
    match layout {
        MX => own.mx(attributes, &mut out)?,
        _ => own.quant_group(attributes, &mut out)?,
    }
    let (_, usual) = words(shape, parts, &out).map_err(|e| e.message().to_owned())?;
    let pair = |key: &str, value: Option<&Value>| {
        (Value::Text(key.into()), value.cloned().unwrap_or(Value::Null))
    };
    let keys = THEIRS.into_iter().filter(|key| attributes.get(key) != usual.get(key));
    let spelled: Vec<_> = keys.map(|key| pair(key, attributes.get(key))).collect();
    if !spelled.is_empty() {
        out.set(ORIGINAL_FIELDS, Value::Map(spelled));
    }
    Ok(out)
}

/// Returns the attributes in their original spelling: `usual` with the attributes in [`ORIGINAL_FIELDS`], if they have the same
/// meaning.
fn spelled(
    layout: &str,
    shape: &[u64],
    parts: &[Given<'_>],
    attributes: &Attributes,
    usual: &Attributes,
) -> Option<Attributes> {
    let Some(Value::Map(own)) = attributes.get(ORIGINAL_FIELDS) else { return None };
    let mut out = usual.clone();
    for key in THEIRS {
        match member(own, key) {
            Some(Value::Null) => drop(out.remove(key)),
            Some(value) => out.set(key, value.clone()),
            None => {}
        }
    }
    let read = read(layout, shape, parts, &out).ok()?;
    let meaning = |attributes: &Attributes| {
        attributes.iter().filter(|(key, _)| *key != ORIGINAL_FIELDS).count()
    };
    let is_said =
        |(key, value): (&str, &Value)| key == ORIGINAL_FIELDS || attributes.get(key) == Some(value);
    (meaning(&read) == meaning(attributes) && read.iter().all(is_said)).then_some(out)
}

struct Own<'a> {
    shape: &'a [u64],
    count: u64,
    data: &'a Given<'a>,
    scales: &'a Given<'a>,
    zeros: Option<&'a Given<'a>>,
}

impl Own<'_> {
    fn quant_group(&self, attributes: &Attributes, out: &mut Attributes) -> Odd<()> {
        let bits = uint(attributes, "bits")?.ok_or("`bits` is missing")?;
        let size = uint(attributes, "group_size")?.ok_or("`group_size` is missing")?;
        let axis = uint(attributes, "axis")?.ok_or("`axis` is missing")?;
        if self.data.logical.is_some() || self.data.is_float() || self.data.dtype == DType::Bool {
            return Err("the elements of `data` are not integers".into());
        }
        let packing = field(attributes, "packing")?;
        let word = match member(packing, "word") {
            Some(Value::Text(word)) => DType::from_name(word),
            _ => None,
        };
        let is_word = |word: DType| {
            matches!(word, DType::U8 | DType::U16 | DType::U32 | DType::U64)
                && word.width() == self.data.dtype.width()
        };
        let word = word.filter(|word| is_word(*word)).ok_or("`word` is not the type of `data`")?;
        let word_bits = word.width().saturating_mul(8);
        let per_word = word_bits.checked_div(bits).unwrap_or_default();
        let fills = matches!(bits, 2 | 4 | 8) && per_word.checked_mul(bits) == Some(word_bits);
        if !fills || member(packing, "per_word") != Some(&Value::Integer(per_word.into())) {
            return Err(format!("elements of {bits} bits do not fill {word} as `packing` says"));
        }
        let order = match member(packing, "order") {
            Some(Value::Text(order)) if order == "lsb_first" => "",
            Some(Value::Text(order)) if order == "msb_first" && per_word > 1 => "_msb",
            Some(Value::Text(order)) if order == "msb_first" => "",
            _ => return Err("`order` is neither `lsb_first` nor `msb_first`".into()),
        };
        let packed = |count: u64| count.checked_div(per_word)?.checked_mul(word.width());
        let is_whole = self.count.is_multiple_of(per_word);
        if !is_whole || packed(self.count) != Some(self.data.len) {
            return Err(format!("`data` does not have {} elements of {bits} bits", self.count));
        }
        let groups = self.grouping((size > 0).then_some(size), axis, out)?;
        out.set("bits", Value::Integer(bits.into()));
        let packing = format!("{per_word}_per_{}{order}", self.data.dtype);
        out.set("packing", Value::Text(packing));
        self.scale_form(attributes, out)?;
        let is_signed = self.data.dtype == DType::I8 && bits == 8;
        let zero_point = field(attributes, "zero_point")?;
        let form = member(zero_point, "form").and_then(Value::as_text);
        let value = match (form, self.zeros) {
            (Some("none"), None) => 0,
            (Some("implied"), None) => match member(zero_point, "value") {
                Some(Value::Integer(value)) => *value,
                _ => return Err("an implied zero point has no `value`".into()),
            },
            (Some("tensor"), Some(zeros)) => {
                let fits = match member(zero_point, "packing").and_then(Value::as_text) {
                    Some("plain") => zeros.has(groups),
                    Some("same_as_data") => {
                        let is_word = zeros.logical.is_none() && zeros.dtype == self.data.dtype;
                        // If a word has one element, both forms are the same.
                        let row = self.shape.last().copied().unwrap_or_default();
                        let are_whole = groups.is_multiple_of(per_word)
                            && (out.get("axis").is_none() || row.is_multiple_of(per_word));
                        is_word && are_whole && packed(groups) == Some(zeros.len)
                    }
                    _ => false,
                };
                return match fits {
                    true => Ok(()),
                    false => Err(format!(
                        "`zeros` does not have {groups} elements as `zero_point` requires"
                    )),
                };
            }
            _ => return Err("`zero_point` does not fit the parts".into()),
        };
        let own = if is_signed { 0 } else { 1i128 << bits.saturating_sub(1) };
        if value != own {
            out.set("zero_point", Value::Integer(value));
        }
        Ok(())
    }

    fn mx(&self, attributes: &Attributes, out: &mut Attributes) -> Odd<()> {
        let size = uint(attributes, "block_size")?.ok_or("`block_size` is missing")?;
        let last =
            (self.shape.len() as u64).checked_sub(1).ok_or("the tensor has no dimensions")?;
        let axis = uint(attributes, "axis")?.unwrap_or(last);
        if size < 2 || self.zeros.is_some() || self.scales.logical != Some(&LogicalType::F8E8M0) {
            return Err("the parts are not two elements per byte with scales of `f8_e8m0`".into());
        }
        if !matches!(attributes.get(SCALE_FORM), None | Some(Value::Text(_)))
            || attributes.get(SCALE_FORM).and_then(Value::as_text).is_some_and(|form| form != E8M0)
        {
            return Err(format!("`{SCALE_FORM}` is not `{E8M0}`"));
        }
        let (bits, packing) = match (self.data.dtype, self.data.logical) {
            (DType::U8, Some(LogicalType::F4E2M1)) => (4, "2_per_u8"),
            (DType::U8, Some(LogicalType::F8E4M3Fn | LogicalType::F8E5M2)) => (8, "1_per_u8"),
            (DType::I8, None) => (8, "1_per_i8"),
            _ => return Err("the elements of `data` are not of an MX type".into()),
        };
        if !self.data.has(self.count) {
            return Err(format!("`data` does not have {} elements", self.count));
        }
        self.grouping(Some(size), axis, out)?;
        out.set("bits", Value::Integer(bits));
        out.set("packing", Value::Text(packing.into()));
        if self.data.dtype == DType::I8 {
            out.set("element_exponent", Value::Integer(INT8_EXPONENT));
        }
        Ok(())
    }

    /// Sets which elements form a group: `size` neighbours along an axis, or all elements of an index of the axis.
    /// Returns the number of groups.
    fn grouping(&self, size: Option<u64>, axis: u64, out: &mut Attributes) -> Odd<u64> {
        let rank = self.shape.len();
        let at = usize::try_from(axis).ok().filter(|at| *at < rank);
        let at = at.ok_or_else(|| format!("the tensor has no axis {axis}"))?;
        let along = self.shape.get(at).copied().unwrap_or_default();
        let is_last = at.saturating_add(1) == rank;
        let (size, runs_down) = match size {
            Some(size) if !along.is_multiple_of(size) => {
                return Err(format!("{along} elements are not divisible into groups of {size}"));
            }
            Some(size) if is_last => (i128::from(size), false),
            Some(size) if (at, rank) == (0, 2) => (i128::from(size), true),
            None if is_last && rank == 2 => (-1, true),
            None if (at, rank) == (0, 2) => (-1, false),
            None if at == 0 && self.count > 0 => {
                (i128::from(self.count.checked_div(along).unwrap_or_default()), false)
            }
            _ => {
                return Err(format!(
                    "groups along axis {axis} of {rank} dimensions are not supported"
                ));
            }
        };
        let groups = match u64::try_from(size) {
            // Each group of neighbours has the same number of elements on any axis.
            Ok(size) => self.count.checked_div(size).unwrap_or_default(),
            Err(_) => along,
        };
        if !self.scales.has(groups) {
            return Err(format!("`scales` does not have {groups} elements"));
        }
        out.set("group_size", Value::Integer(size));
        if runs_down {
            out.set("axis", Value::Integer(0));
            out.set("pack_axis", Value::Integer(1));
        }
        Ok(groups)
    }

    /// Checks the stated type of scales, which is kept if it differs from their element type.
    fn scale_form(&self, attributes: &Attributes, out: &mut Attributes) -> Odd<()> {
        let form = attributes.get(SCALE_FORM).and_then(Value::as_text);
        let is_half = self.scales.logical.is_none() && self.scales.dtype.width() == 2;
        let is_power = self.scales.logical == Some(&LogicalType::F8E8M0);
        let fits = self.scales.is_float()
            && match form {
                Some("f32_factors") => !is_power,
                Some("f16_factors") => is_half,
                Some(E8M0) => is_power,
                _ => false,
            };
        if !fits {
            return Err(format!("`{SCALE_FORM}` does not fit the elements of `scales`"));
        }
        if form == Some("f32_factors") && is_half {
            out.set(SCALE_FORM, Value::Text("f32_factors".into()));
        }
        Ok(())
    }
}

/// Returns the layout and the attributes for a tensor of layout `quantized_group`.
///
/// # Errors
/// Returns [`OTHER_LAYOUT`] if neither layout can represent it.
pub(super) fn write(tensor: &TensorSpec) -> Result<(&'static str, Attributes)> {
    let parts: Vec<Given<'_>> = tensor
        .components
        .iter()
        .map(|c| Given {
            role: role(&tensor.layout, &c.role),
            dtype: c.dtype,
            logical: c.logical_type.as_ref(),
            len: c.decoded_len,
        })
        .collect();
    let (shape, attributes) = (tensor.shape.as_slice(), &tensor.attributes);
    let (layout, usual) = words(shape, &parts, attributes)?;
    let out = spelled(layout, shape, &parts, attributes, &usual).unwrap_or(usual);
    // Checks that reading returns the same.
    match read(layout, shape, &parts, &out) {
        Ok(_) => Ok((layout, out)),
        Err(why) => Err(other(&format!("like these: {}", why.escaped()))),
    }
}

#[cold]
fn other(why: &str) -> Error {
    OTHER_LAYOUT.broken(format!("zTensor 2 cannot represent quantized groups {why}"))
}

/// Returns the attributes in their usual spelling. Not all of them are checked.
fn words(
    shape: &[u64],
    parts: &[Given<'_>],
    attributes: &Attributes,
) -> Result<(&'static str, Attributes)> {
    let find = |role: &str| parts.iter().find(|part| part.role == role);
    let (Some(data), Some(scales)) = (find(DATA), find("scales")) else {
        return Err(other("without words or scales"));
    };
    let zeros = find("zeros");
    let scheme = Scheme::new(shape, attributes, data.dtype, data.len)
        .map_err(|e| e.with_rule(&OTHER_LAYOUT))?;
    if scheme.packs_rows || scheme.packing.is_awq() || scheme.zero_offset != 0.0 {
        return Err(other(
            "that are packed down rows or in AWQ's order, or whose zero points are offset",
        ));
    }
    let rank = shape.len() as u64;
    let dim = |at: usize| shape.get(at).copied().unwrap_or_default();
    let last = shape.last().copied().unwrap_or_default();
    let rest = shape.get(1..).and_then(element_count).unwrap_or_default();
    // The number of elements of a group, 0 for all of an index, and the axis of the group.
    let (size, axis) = match (scheme.groups_rows, scheme.group_size) {
        (true, None) => (0, 1),
        (true, Some(size)) if dim(0).is_multiple_of(size) => (size, 0),
        (false, None) if rank == 2 => (0, 0),
        (false, None) if rank > 0 && last > 0 => (last, rank.saturating_sub(1)),
        (false, Some(size)) if rank > 0 && last.is_multiple_of(size) => {
            (size, rank.saturating_sub(1))
        }
        (false, Some(size)) if size == rest && rank > 0 => (0, 0),
        _ => return Err(other("that end inside a row")),
    };
    let are_floats = data.logical.is_some_and(|t| !matches!(t, LogicalType::Other(_)));
    let is_mx = are_floats || scheme.exponent != 0;
    if is_mx && (size == 0 || scheme.zero_of_all(are_floats) != 0) {
        return Err(other("of floats without blocks, or with a zero point"));
    }
    if data.dtype == DType::I8 && is_mx && i128::from(scheme.exponent) != INT8_EXPONENT {
        return Err(other("with that exponent"));
    }
    if is_mx && data.dtype != DType::I8 && scheme.exponent != 0 {
        return Err(other("of floats with an exponent"));
    }
    let own = |key: &&str| PARAMETER_ATTRIBUTES.contains(key) || *key == SCALE_FORM;
    let others = attributes.iter().filter(|(key, _)| !own(key));
    let mut out: Attributes = others.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let number = |n: u64| Value::Integer(n.into());
    let name = |text: &str| Value::Text(text.into());
    let is_power = scales.logical == Some(&LogicalType::F8E8M0);
    let form = match attributes.get(SCALE_FORM).and_then(Value::as_text) {
        Some(form) => form,
        None if is_power => E8M0,
        None if scales.logical.is_none() && scales.dtype.width() == 2 => "f16_factors",
        None => "f32_factors",
    };
    out.set(SCALE_FORM, name(form));
    if out.get("block_size").is_some() {
        return Err(other("with an attribute `block_size` of their own"));
    }
    if is_mx {
        out.set("block_size", number(size));
        if axis.saturating_add(1) != rank {
            out.set("axis", number(axis));
        }
    } else {
        out.set("bits", number(scheme.packing.bits().into()));
        out.set("group_size", number(size));
        out.set("axis", number(axis));
        let word = match scheme.packing.word().width() {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            _ => DType::U64,
        };
        let order = if scheme.packing.is_msb() { "msb_first" } else { "lsb_first" };
        let packing = [
            ("word", name(word.as_str())),
            ("order", name(order)),
            ("per_word", number(scheme.packing.elements())),
        ];
        out.set("packing", map(packing));
        let zero = i128::from(scheme.zero_of_all(false));
        let zero_point = match zeros {
            Some(zeros) => {
                let groups = match (size, axis) {
                    (0, axis) => dim(usize::try_from(axis).unwrap_or_default()),
                    (size, _) => {
                        element_count(shape).and_then(|n| n.checked_div(size)).unwrap_or(0)
                    }
                };
                let is_plain = groups.checked_mul(zeros.dtype.width()) == Some(zeros.len);
                let packing = if is_plain { "plain" } else { "same_as_data" };
                map([("form", name("tensor")), ("packing", name(packing))])
            }
            None if zero == 0 => map([("form", name("none"))]),
            None => map([("form", name("implied")), ("value", Value::Integer(zero))]),
        };
        out.set("zero_point", zero_point);
    }
    Ok((if is_mx { MX } else { QUANT_GROUP }, out))
}

/// Returns the name of the part.
pub(super) fn role<'a>(layout: &Layout, role: &'a Role) -> &'a str {
    match (layout, role) {
        (Layout::QuantizedGroup, Role::PackedWeight) => DATA,
        _ => role.as_str(),
    }
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.map(|(key, value)| (Value::Text(key.into()), value)).to_vec())
}

fn field<'a>(attributes: &'a Attributes, key: &str) -> Odd<&'a [(Value, Value)]> {
    match attributes.get(key) {
        Some(Value::Map(pairs)) => Ok(pairs),
        _ => Err(format!("`{key}` is not a map")),
    }
}

fn uint(attributes: &Attributes, key: &str) -> Odd<Option<u64>> {
    match attributes.get(key) {
        None => Ok(None),
        Some(Value::Integer(i)) => match u64::try_from(*i) {
            Ok(i) => Ok(Some(i)),
            Err(_) => Err(format!("`{key}` is {i}")),
        },
        Some(_) => Err(format!("`{key}` is not a number")),
    }
}
