//! Weights whose packed elements are called `qweight`: GPTQ and AWQ.

use super::super::decoding::{
    Along, Arithmetic, Codes, Cover, Decoding, Grid, Order, ScaleType, Table, Zeros, ZerosForm,
    words_down,
};
use super::super::kind::Kind;
use super::super::settings::{Settings, count};
use super::super::{KIND, PARAMETER, SHAPE, StoredTensor};
use super::Finder;
use super::draft::{Described, Draft};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::{DType, Value};

/// Adds the weights with a tensor `qweight`.
pub(super) fn find(finder: &mut Finder<'_>) {
    for module in finder.with_suffix(".qweight") {
        finder.add(format!("{module}.weight"), |draft| {
            let words = draft.take("weight", &format!("{module}.qweight"))?;
            let names = Names::new(module);
            match Layout::from_settings(draft.settings())? {
                Layout::Gptq { zero_add } => gptq(draft, &names, words, zero_add),
                Layout::AwqGemm => awq_gemm(draft, &names, words),
                Layout::AwqGemv => awq_gemv(draft, &names, words),
            }
        });
    }
}

/// The names of the tensors of a module.
struct Names {
    zeros: String,
    scales: String,
    index: String,
}

impl Names {
    fn new(module: &str) -> Names {
        let name = |end: &str| format!("{module}.{end}");
        Names { zeros: name("qzeros"), scales: name("scales"), index: name("g_idx") }
    }
}

/// How words are laid out.
enum Layout {
    /// Older checkpoints store zero points minus 1: 1 is added.
    Gptq {
        zero_add: u32,
    },
    AwqGemm,
    AwqGemv,
}

impl Layout {
    fn from_settings(settings: &Settings) -> Result<Layout> {
        let method = settings.method().or_else(|| {
            // Older files of AutoGPTQ and AutoAWQ do not name the method.
            let is_awq = settings.get("w_bit").is_some() || settings.get("q_group_size").is_some();
            let has_bits = settings.get("bits").is_some();
            is_awq.then(|| "awq".to_owned()).or_else(|| has_bits.then(|| "gptq".to_owned()))
        });
        // Only AutoAWQ means the format by `version`.
        let keys: &[&str] = match method.as_deref() {
            Some("awq") => &["version", "checkpoint_format", "format"],
            _ => &["checkpoint_format", "format"],
        };
        let format = keys.iter().find_map(|key| settings.text(key));
        let unknown = |what: &str, name: &str| {
            KIND.broken(format!("{what} `{}` with tensors `qweight`", name.escaped()))
        };
        match (method.as_deref(), format.as_deref()) {
            (Some("gptq"), None | Some("gptq")) => {
                let is_marlin = settings.get("is_marlin_format") == Some(&Value::Bool(true));
                match is_marlin {
                    true => Err(unknown("the format", "marlin")),
                    false => Ok(Layout::Gptq { zero_add: 1 }),
                }
            }
            (Some("gptq"), Some("gptq_v2")) => Ok(Layout::Gptq { zero_add: 0 }),
            (Some("awq"), None | Some("gemm")) => Ok(Layout::AwqGemm),
            (Some("awq"), Some("gemv")) => Ok(Layout::AwqGemv),
            (Some("gptq" | "awq"), Some(format)) => Err(unknown("the format", format)),
            (Some(method), _) => Err(unknown("the method", method)),
            (None, _) => Err(PARAMETER
                .broken("the method of tensors `qweight` (`quant_method`, `bits`) is not known")),
        }
    }
}

/// Returns the number of bits that the configuration states.
fn stated_bits(settings: &Settings) -> Option<u64> {
    ["bits", "w_bit", "wbits"].iter().find_map(|key| settings.count(key))
}

/// Returns the size of groups that the configuration states: `None` if it is -1, one group for all.
fn stated_group(settings: &Settings) -> Result<Option<u64>> {
    let stated = ["group_size", "q_group_size"].iter().find_map(|key| settings.get(key));
    match stated {
        Some(value) if value.as_integer() == Some(-1) => Ok(None),
        Some(value) => count(value)
            .map(Some)
            .ok_or_else(|| PARAMETER.broken("`group_size` is neither positive nor -1")),
        None => Err(PARAMETER.broken("the size of groups (`group_size`) is not known")),
    }
}

fn matrix(tensor: &StoredTensor) -> Result<[u64; 2]> {
    tensor.shape.as_slice().try_into().map_err(|_| {
        let message = format!("expected 2 dimensions, found {:?}", tensor.shape);
        SHAPE.broken(message).in_tensor(&tensor.name)
    })
}

fn too_large() -> Error {
    SHAPE.broken("the shape of a weight exceeds 64 bits")
}

fn gptq(
    draft: &mut Draft<'_, '_>,
    names: &Names,
    words: &StoredTensor,
    zero_add: u32,
) -> Result<Described> {
    draft.kind(Kind::Gptq);
    let scales = draft.take("scale", &names.scales)?;
    let zeros = draft.take("zero", &names.zeros)?;
    let index = draft.take_optional("group_index", &names.index);
    words.expect_type(words.is_plain(DType::I32), "i32")?;
    zeros.expect_type(zeros.is_plain(DType::I32), "i32")?;
    scales.expect_type(scales.is_wide_float(), "floats")?;
    let [word_rows, outputs] = matrix(words)?;
    let [groups, _] = matrix(scales)?;
    scales.expect_shape(&[groups, outputs])?;
    let [_, zero_words] = matrix(zeros)?;
    // Words of zero points tell the bits, because layers can have their own.
    let bits = [2u64, 3, 4, 8].into_iter().find(|bits| {
        outputs > 0
            && outputs.checked_mul(*bits).map(|n| n.div_ceil(32)) == Some(zero_words)
            && (*bits != 3 || word_rows % 3 == 0)
    });
    let stated = stated_bits(draft.settings());
    let has_layers = draft.settings().get("dynamic").is_some();
    let bits = match (bits, stated) {
        (_, Some(stated)) if !has_layers => stated,
        (Some(bits), _) => bits,
        (None, _) => {
            zeros.expect_shape(&[groups, 0])?;
            0
        }
    };
    let bits = match u32::try_from(bits) {
        Ok(bits @ (2 | 3 | 4 | 8)) => bits,
        _ => return Err(KIND.broken(format!("GPTQ with {bits} bits"))),
    };
    let zero_row = outputs.checked_mul(u64::from(bits)).ok_or_else(too_large)?.div_ceil(32);
    zeros.expect_shape(&[groups, zero_row])?;
    let inputs = word_rows.checked_mul(32).ok_or_else(too_large)?;
    if inputs.checked_rem(u64::from(bits)) != Some(0) {
        let message = format!("{word_rows} words do not end with a whole element of {bits} bits");
        return Err(SHAPE.broken(message).in_tensor(&words.name));
    }
    let mut inputs = inputs.checked_div(u64::from(bits)).unwrap_or(0);
    if let Some(index) = index {
        index.expect_type(index.is_plain(DType::I32), "i32")?;
        // The last word can be padded.
        let stated = index.shape.first().copied().unwrap_or(0);
        if words_down(stated, bits, None) == Some(word_rows) {
            inputs = stated;
        }
        index.expect_shape(&[inputs])?;
    }
    let group = stated_group(draft.settings())
        .or_else(|e| if index.is_some() { Ok(None) } else { Err(e) })?;
    let size = group_size(group, inputs, groups, index.is_some(), has_layers)
        .map_err(|e| e.in_tensor(&scales.name))?;
    draft.parameter("bits", bits);
    draft.parameter("group_size", size);
    let row = match index {
        Some(_) => Along::Index("group_index"),
        None => Along::Size(size),
    };
    let zero_codes = Codes::Stream {
        bits,
        row_len: zero_row.checked_mul(4).ok_or_else(too_large)?,
        table: Table::Integer,
    };
    let form = ZerosForm::Packed { codes: zero_codes, bits, add: zero_add };
    transposed(
        inputs,
        outputs,
        Codes::Down { bits, per_word: None },
        grid(groups, outputs, row),
        Arithmetic::Zeros(Zeros { role: "zero", form }),
    )
}

/// Returns the size of groups, which must give the number of groups that the scales have.
fn group_size(
    stated: Option<u64>,
    inputs: u64,
    groups: u64,
    has_index: bool,
    has_layers: bool,
) -> Result<u64> {
    let size = stated.unwrap_or(inputs).max(1);
    if inputs.div_ceil(size) == groups {
        return Ok(size);
    }
    // With an index, or sizes for each layer, the number of groups tells their size.
    let own = inputs.checked_div(groups).filter(|_| has_index || has_layers);
    match own.filter(|size| *size > 0 && inputs.div_ceil(*size) == groups) {
        Some(size) => Ok(size),
        None => Err(SHAPE.broken(format!(
            "expected {} groups of {size} elements, found {groups}",
            inputs.div_ceil(size)
        ))),
    }
}

fn grid(rows: u64, columns: u64, row: Along) -> Grid {
    Grid {
        matrices: 1,
        rows,
        columns,
        row,
        column: Along::Size(1),
        scale: "scale",
        scale_type: ScaleType::Stored,
        order: Order::Rows(columns),
        factor: None,
    }
}

fn transposed(
    rows: u64,
    columns: u64,
    codes: Codes,
    grid: Grid,
    arithmetic: Arithmetic,
) -> Result<Described> {
    let shape = vec![columns, rows];
    super::super::decoding::Stack::from_shape(&shape)?;
    let decoding = Decoding {
        matrices: 1,
        rows,
        columns,
        is_transposed: true,
        data: "weight",
        codes,
        grid,
        arithmetic,
    };
    Ok(Described { shape, decoding })
}

/// Checks the number of bits: AutoAWQ packs 4.
fn check_awq_bits(draft: &mut Draft<'_, '_>) -> Result<()> {
    let bits = stated_bits(draft.settings()).unwrap_or(4);
    draft.parameter("bits", bits);
    if bits == 4 { Ok(()) } else { Err(KIND.broken(format!("AWQ with {bits} bits"))) }
}

fn awq_gemm(draft: &mut Draft<'_, '_>, names: &Names, words: &StoredTensor) -> Result<Described> {
    draft.kind(Kind::AwqGemm);
    check_awq_bits(draft)?;
    let scales = draft.take("scale", &names.scales)?;
    let zeros = draft.take("zero", &names.zeros)?;
    words.expect_type(words.is_plain(DType::I32), "i32")?;
    zeros.expect_type(zeros.is_plain(DType::I32), "i32")?;
    scales.expect_type(scales.is_wide_float(), "floats")?;
    let [inputs, row_words] = matrix(words)?;
    let outputs = row_words.checked_mul(8).ok_or_else(too_large)?;
    let size = stated_group(draft.settings())?.unwrap_or(inputs).max(1);
    let groups = inputs.div_ceil(size);
    scales.expect_shape(&[groups, outputs])?;
    zeros.expect_shape(&[groups, row_words])?;
    draft.parameter("group_size", size);
    let form = ZerosForm::Packed { codes: Codes::Awq, bits: 4, add: 0 };
    transposed(
        inputs,
        outputs,
        Codes::Awq,
        grid(groups, outputs, Along::Size(size)),
        Arithmetic::Zeros(Zeros { role: "zero", form }),
    )
}

fn awq_gemv(draft: &mut Draft<'_, '_>, names: &Names, words: &StoredTensor) -> Result<Described> {
    draft.kind(Kind::AwqGemv);
    check_awq_bits(draft)?;
    let scales = draft.take("scale", &names.scales)?;
    let zeros = draft.take("zero", &names.zeros)?;
    words.expect_type(words.is_plain(DType::I32), "i32")?;
    zeros.expect_type(zeros.is_plain(DType::I32), "i32")?;
    scales.expect_type(scales.is_wide_float(), "floats")?;
    let [outputs, row_words] = matrix(words)?;
    let inputs = row_words.checked_mul(8).ok_or_else(too_large)?;
    let size = stated_group(draft.settings())?.unwrap_or(inputs).max(1);
    let groups = inputs.div_ceil(size);
    let [_, zero_words] = matrix(zeros)?;
    let [_, stored] = matrix(scales)?;
    // Both are padded on the right: there is a scale for each zero point that the words have room for.
    if zero_words < groups.div_ceil(8) || Some(stored) != zero_words.checked_mul(8) {
        let message = format!(
            "expected scales and zero points of {groups} groups, found {:?} and {:?}",
            scales.shape, zeros.shape
        );
        return Err(SHAPE.broken(message).in_tensor(&scales.name));
    }
    scales.expect_shape(&[outputs, stored])?;
    zeros.expect_shape(&[outputs, zero_words])?;
    draft.parameter("group_size", size);
    let shape = vec![outputs, inputs];
    let no_grid = || {
        SHAPE.broken(format!(
            "groups of {size} do not divide the shape {shape:?} into {groups} columns of scales"
        ))
    };
    let mut grid = Cover::Blocks(1, size).grid(&shape, &[outputs, groups]).ok_or_else(no_grid)?;
    grid.order = Order::Rows(stored);
    let codes = |words: u64| -> Result<Codes> {
        let row_len = words.checked_mul(4).ok_or_else(too_large)?;
        Ok(Codes::Stream { bits: 4, row_len, table: Table::Integer })
    };
    let form = ZerosForm::Packed { codes: codes(zero_words)?, bits: 4, add: 0 };
    let arithmetic = Arithmetic::Zeros(Zeros { role: "zero", form });
    super::draft::plain(shape, codes(row_words)?, grid, arithmetic)
}
