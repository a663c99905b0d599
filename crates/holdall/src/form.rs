//! Writes dense tensors in another form: sparse, quantized, or in byte planes.

mod groups;
mod stored;

use crate::repack::{attributes_of_elements, is_sparse};
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::layout::blocks::{Blocks, can_quantize};
use holdall_core::layout::cast::FloatType;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::number::{ElementType, NumberClass};
use holdall_core::layout::quantized::Grouping;
use holdall_core::layout::{DENSE_LIMIT, errors_of};
use holdall_core::model::block::{BLOCK_TYPES, BlockType};
use holdall_core::model::plane::PlaneType;
use holdall_core::{
    Attributes, ComponentSpec, DType, Error, Layout, LogicalType, Result, Role, TensorSpec, Warning,
};
use holdall_io::error::{FORM_RULE, NOT_FORMED};
use holdall_io::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use holdall_io::select::{ByName, Glob};
use holdall_io::{Check, DensePieces, File, Tensor, Work, planes};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use stored::NonzeroContent;

/// A form that a tensor can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorForm {
    /// Sparse, in compressed rows (CSR).
    Csr,
    /// Sparse, by coordinates (COO).
    Coo,
    /// Floats in byte planes, losslessly compressed.
    Planes,
    /// Quantized in groups.
    Group(Grouping),
    /// Quantized in blocks of a ggml type that [can be written](can_quantize).
    Blocks(&'static BlockType),
}

/// Writes `csr`, `coo`, `group:4:128` (bits and size), `group:4:-1` for one group per row, `q8_0`.
impl fmt::Display for TensorForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorForm::Csr => f.write_str("csr"),
            TensorForm::Coo => f.write_str("coo"),
            TensorForm::Planes => f.write_str("planes"),
            TensorForm::Group(kind) => match kind.size() {
                Some(size) => write!(f, "group:{}:{size}", kind.bits()),
                None => write!(f, "group:{}:-1", kind.bits()),
            },
            TensorForm::Blocks(kind) => write!(f, "{kind}"),
        }
    }
}

impl TensorForm {
    /// Returns the form with this name.
    ///
    /// # Errors
    /// Returns a `Misuse` error if the name is unknown; an `Unsupported` error or a `Malformed` error if the bits and size of groups are not valid.
    pub fn new(name: &str) -> Result<TensorForm> {
        match name {
            "csr" => return Ok(TensorForm::Csr),
            "coo" => return Ok(TensorForm::Coo),
            "planes" => return Ok(TensorForm::Planes),
            _ => {}
        }
        if let Some(block_type) = BlockType::by_name(name) {
            if can_quantize(block_type) {
                return Ok(TensorForm::Blocks(block_type));
            }
            let made = BLOCK_TYPES
                .iter()
                .filter(|block_type| can_quantize(block_type))
                .map(BlockType::as_str);
            let made = made.collect::<Vec<_>>().join(", ");
            let message = format!(
                "cannot write blocks of {block_type}, only read them; block types that can be written: {made}"
            );
            return Err(FORM_RULE.broken(message));
        }
        let parts = name.strip_prefix("group:").and_then(|rest| rest.split_once(':'));
        let parsed = parts.and_then(|(bits, size)| {
            let size =
                if size == "-1" { None } else { Some(size.parse().ok().filter(|n| *n > 0)?) };
            Some((bits.parse().ok()?, size))
        });
        let Some((bits, size)) = parsed else {
            let name = name.escaped();
            let message = format!(
                "unknown form `{name}`; expected csr, coo, planes, keep, group:BITS:SIZE (such as group:4:128) or a block type (such as q8_0)"
            );
            return Err(FORM_RULE.broken(message));
        };
        Ok(TensorForm::Group(Grouping::new(bits, size)?))
    }

    /// Returns `true` if the form is sparse.
    pub fn is_sparse(self) -> bool {
        matches!(self, TensorForm::Csr | TensorForm::Coo)
    }
}

/// One rule about the form that tensors are written in: `FORM` for all, or `PATTERN=FORM` for tensors whose
/// names match the [`Glob`]. FORM is the name of a [`TensorForm`], or `keep`.
#[derive(Debug, Clone)]
pub struct FormRule {
    glob: Option<Glob>,
    /// `None` for `keep`: matching tensors stay as they are.
    to: Option<TensorForm>,
}

impl FormRule {
    /// Parses a rule. The text before the last `=` is the pattern.
    ///
    /// # Errors
    /// Returns the same errors as [`TensorForm::new`]; a `Misuse` error if the pattern cannot be parsed.
    pub fn new(rule: &str) -> Result<FormRule> {
        let (glob, name) = match rule.rsplit_once('=') {
            Some((glob, name)) => (Some(Glob::new(glob)?), name),
            None => (None, rule),
        };
        let to = if name == "keep" { None } else { Some(TensorForm::new(name)?) };
        Ok(FormRule { glob, to })
    }

    /// Creates a rule for all tensors that no other rule matches.
    pub fn all(to: TensorForm) -> FormRule {
        FormRule { glob: None, to: Some(to) }
    }

    /// Returns the form; `None` if matching tensors stay as they are.
    pub fn to(&self) -> Option<TensorForm> {
        self.to
    }
}

/// A tensor that was written in another form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReformedTensor {
    /// The tensor's name in the target.
    pub name: String,
    /// The form in the target.
    pub form: TensorForm,
    /// Decoded bytes of the tensor in the source.
    pub from_len: u64,
    /// Decoded bytes of the tensor in the target.
    pub len: u64,
    /// For a quantized tensor, the largest absolute difference between an element and its dequantized value.
    pub max_error: Option<f64>,
    /// For a quantized tensor, the root mean square of those differences.
    pub rms_error: Option<f64>,
}

/// Rules about forms, looked up by tensor name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reforms(ByName<Option<TensorForm>>);

/// A tensor that is being written in another form, with the resulting error once it is written.
pub(crate) struct Forming {
    form: TensorForm,
    from_len: u64,
    len: u64,
    errors: ErrorStats,
}

impl Forming {
    /// Returns the entry for the report.
    pub(crate) fn report(&self, name: String) -> ReformedTensor {
        let errors = *self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        ReformedTensor {
            name,
            form: self.form,
            from_len: self.from_len,
            len: self.len,
            max_error: errors.map(|(max, _)| max),
            rms_error: errors.map(|(_, rms)| rms),
        }
    }
}

impl Reforms {
    pub(crate) fn extend(&mut self, rules: impl IntoIterator<Item = FormRule>) {
        rules.into_iter().for_each(|rule| self.0.push(rule.glob, rule.to));
    }

    /// Checks that at most one rule has no pattern, and that each pattern matches a tensor.
    pub(crate) fn check(&self, file: &File) -> Result<()> {
        let name =
            |form: &Option<TensorForm>| form.map_or("keep".to_owned(), |form| form.to_string());
        self.0.check(file, |one, other| {
            let (one, other) = (name(one), name(other));
            FORM_RULE.broken(format!("`{one}` and `{other}` are both given for all tensors"))
        })
    }

    /// Returns the form that a rule gives the tensor with this name.
    pub(crate) fn target(&self, name: &str) -> Option<TensorForm> {
        self.0.lookup(name).and_then(|(form, _)| form)
    }

    /// Returns a warning if a pattern skips a tensor only because its rows are not a whole number of blocks.
    pub(crate) fn unchanged_warning(&self, tensor: &Tensor) -> Option<Warning> {
        let (Some(form @ TensorForm::Blocks(_)), false) = self.0.lookup(tensor.name())? else {
            return None;
        };
        let element_type =
            tensor.dense_type().filter(|element_type| is_quantizable(tensor, element_type))?;
        let is_over = is_simple(tensor) && !can_have_form(tensor, form, &element_type);
        let message = || format!("it stays as it is: {}", not_formed(tensor, form).message());
        is_over.then(|| Warning::new(NOT_FORMED.code, message()).in_tensor(tensor.name()))
    }

    /// Returns the tensor as an item in the form that a rule gives, or `None` if the tensor stays as it is.
    /// Patterns apply to dense and strided tensors and to sparse ones of another form: sparse forms if they
    /// make the tensor smaller, quantized forms if it holds floats in at least two dimensions, blocks if its
    /// rows are whole blocks. A tensor given by its exact name is converted whatever its layout.
    pub(crate) fn item(&self, tensor: &Tensor, work: &Work) -> Result<Option<(Item, Forming)>> {
        let Some((Some(form), by_name)) = self.0.lookup(tensor.name()) else { return Ok(None) };
        if has_form(tensor, form) {
            return Ok(None);
        }
        let fits_pattern = || {
            tensor
                .dense_type()
                .is_some_and(|element_type| fits_pattern(tensor, form, &element_type))
        };
        let is_taken = by_name || (is_simple(tensor) && fits_pattern());
        if !is_taken {
            return Ok(None);
        }
        let in_context = |e: Error| e.in_tensor(tensor.name()).in_source(tensor.file().name());
        let Some(element_type) =
            tensor.dense_type().filter(|element_type| can_have_form(tensor, form, element_type))
        else {
            return Err(in_context(not_formed(tensor, form)));
        };
        let made = match form {
            TensorForm::Group(grouping) => quantized(tensor, grouping, work).map_err(in_context)?,
            TensorForm::Blocks(block_type) => in_blocks(tensor, block_type, work),
            TensorForm::Planes => {
                planes::item(tensor, by_name)?.map(|item| (item, ErrorStats::default()))
            }
            _ => sparse(tensor, form, &element_type, by_name)?,
        };
        let Some((item, errors)) = made else { return Ok(None) };
        let lens = tensor.components().map(|c| c.decoded_len.unwrap_or(c.stored_len()));
        let from_len = lens.fold(0u64, u64::saturating_add);
        let len = item.spec.components.iter().fold(0u64, |n, c| n.saturating_add(c.decoded_len));
        Ok(Some((item, Forming { form, from_len, len, errors })))
    }
}

/// Returns `true` if patterns apply to tensors of this layout.
fn is_simple(tensor: &Tensor) -> bool {
    let is_dense = matches!(
        tensor.layout(),
        Layout::Dense
            | Layout::Planes(_)
            | Layout::Strided
            | Layout::SparseBlocks
            | Layout::SparseHybrid
    );
    is_dense || is_sparse(tensor)
}

/// Returns `true` if the tensor has that form already.
fn has_form(tensor: &Tensor, form: TensorForm) -> bool {
    match tensor.layout() {
        Layout::SparseCsr | Layout::PackedCsr => form == TensorForm::Csr,
        Layout::SparseCoo | Layout::PackedCoo => form == TensorForm::Coo,
        Layout::Blocks(block_type) => form == TensorForm::Blocks(block_type),
        Layout::Planes(_) => form == TensorForm::Planes,
        _ => false,
    }
}

/// Returns `true` if the tensor can be written in that form.
fn can_have_form(tensor: &Tensor, form: TensorForm, element_type: &ElementType) -> bool {
    match form {
        TensorForm::Csr => {
            tensor.shape().len() == 2 && element_type.is_known() && element_type.bits() >= 8
        }
        TensorForm::Coo => element_type.is_known() && element_type.bits() >= 8,
        TensorForm::Planes => {
            element_type.logical_type.is_none() && PlaneType::by_dtype(element_type.dtype).is_some()
        }
        TensorForm::Group(_) => {
            element_type.is_known() && element_type.class() == NumberClass::Float
        }
        TensorForm::Blocks(blocks) => {
            let is_whole = blocks.stored_len(tensor.shape()).is_some();
            is_whole && element_type.is_known() && element_type.class() == NumberClass::Float
        }
    }
}

/// Returns `true` if a pattern applies to the tensor.
fn fits_pattern(tensor: &Tensor, form: TensorForm, element_type: &ElementType) -> bool {
    let is_any = form.is_sparse() || form == TensorForm::Planes;
    can_have_form(tensor, form, element_type) && (is_any || is_quantizable(tensor, element_type))
}

fn is_quantizable(tensor: &Tensor, element_type: &ElementType) -> bool {
    let is_float =
        FloatType::from_dtype(element_type.dtype, element_type.logical_type.as_ref()).is_some();
    is_float && tensor.shape().len() >= 2 && tensor.count() > 0
}

#[cold]
fn not_formed(tensor: &Tensor, form: TensorForm) -> Error {
    let layout = tensor.layout().as_str().escaped();
    let what = match tensor.dense_type() {
        None => format!("cannot write a tensor of layout `{layout}` as {form}: it has no elements"),
        Some(element_type)
            if element_type.is_known() && element_type.class() == NumberClass::Float =>
        {
            match form {
                TensorForm::Blocks(blocks) => format!(
                    "rows of shape {:?} are not whole blocks of {form}, which have {} elements",
                    tensor.shape(),
                    blocks.elements
                ),
                _ => format!("cannot write {element_type} of shape {:?} as {form}", tensor.shape()),
            }
        }
        Some(element_type) => {
            format!("cannot write {element_type} of shape {:?} as {form}", tensor.shape())
        }
    };
    NOT_FORMED.broken(what)
}

/// The largest error of a quantized tensor and the root mean square of the errors, set once the tensor is
/// written.
type ErrorStats = Arc<Mutex<Option<(f64, f64)>>>;

/// An item, and the slot where its errors are stored once it is written.
type MeasuredItem = (Item, ErrorStats);

/// Refuses a sparse tensor that is too large in dense form: its zeros are not stored, and visiting all of
/// them might never end.
fn check_zeros(tensor: &Tensor, element_type: &ElementType) -> Result<()> {
    let is_large = element_type.len_of(tensor.count()) > tensor.file().limits().decoded_len;
    // `to_dense` returns the error with the limit.
    if is_sparse(tensor) && is_large { tensor.to_dense().map(drop) } else { Ok(()) }
}

fn sparse(
    tensor: &Tensor,
    form: TensorForm,
    element_type: &ElementType,
    by_name: bool,
) -> Result<Option<MeasuredItem>> {
    let limits = tensor.file().limits();
    let before = element_type.len_of(tensor.count());
    check_zeros(tensor, element_type)?;
    let (count, width) = (stored::count(tensor)?, element_type.len_of(1).max(1));
    let (roles, kinds): (&[Role], Vec<Vec<NonzeroContent>>) = match (form, tensor.shape()) {
        (TensorForm::Csr, &[rows, columns]) => {
            // A shape with no columns can have any number of rows.
            if rows.checked_mul(8).is_none_or(|len| len >= limits.decoded_len) {
                let most = limits.decoded_len;
                let message = format!("{rows} row pointers, at most {most} bytes");
                let e = DENSE_LIMIT.broken(message).in_tensor(tensor.name());
                return Err(e.in_source(tensor.file().name()));
            }
            let nonzeros = NonzeroContent::Places { every: 1, size: columns };
            let kinds = vec![
                vec![NonzeroContent::Values],
                vec![nonzeros],
                vec![NonzeroContent::Rows { rows, columns }],
            ];
            (&[Role::Values, Role::Indices, Role::Indptr], kinds)
        }
        (_, shape) => {
            let behind = |d: usize| shape[d + 1..].iter().fold(1, |n, size| size.saturating_mul(n));
            let dims = shape.iter().enumerate();
            let nonzeros =
                dims.map(|(d, &size)| NonzeroContent::Places { every: behind(d), size }).collect();
            (&[Role::Values, Role::Coords], vec![vec![NonzeroContent::Values], nonzeros])
        }
    };
    let len = |all: &Vec<NonzeroContent>| {
        all.iter().fold(0u64, |len, what| {
            len.saturating_add(match what {
                NonzeroContent::Values => count.saturating_mul(width),
                NonzeroContent::Places { .. } => count.saturating_mul(8),
                NonzeroContent::Rows { rows, .. } => rows.saturating_add(1).saturating_mul(8),
            })
        })
    };
    let after = kinds.iter().map(len).fold(0, u64::saturating_add);
    if !by_name && after >= before && !is_sparse(tensor) {
        return Ok(None);
    }
    let types = roles.iter().map(|role| match role {
        Role::Values => (element_type.dtype, element_type.logical_type.clone()),
        _ => (DType::U64, None),
    });
    let specs = roles.iter().zip(types).zip(&kinds);
    let components =
        specs.map(|((role, (dtype, logical)), kind)| spec(role, dtype, logical, len(kind)));
    let components = components.collect();
    let attributes = attributes_of_elements(tensor);
    let feeds = kinds.into_iter().map(|kind| stored::feed(tensor, kind)).collect();
    let layout = if form == TensorForm::Csr { Layout::SparseCsr } else { Layout::SparseCoo };
    Ok(Some((item(tensor, layout, attributes, components, feeds), Arc::default())))
}

fn quantized(tensor: &Tensor, grouping: Grouping, work: &Work) -> Result<Option<MeasuredItem>> {
    if let Some(element_type) = tensor.dense_type() {
        check_zeros(tensor, &element_type)?;
    }
    let [words, scales, zeros] = grouping.lens(tensor.shape())?;
    let components = vec![
        spec(&Role::PackedWeight, DType::I32, None, words),
        spec(&Role::Scales, DType::F32, None, scales),
        spec(&Role::Zeros, DType::U8, None, zeros),
    ];
    let attributes = grouping.attributes(&attributes_of_elements(tensor))?;
    let errors = ErrorStats::default();
    let feeds = groups::feeds(tensor, grouping, [words, scales, zeros], work, &errors);
    Ok(Some((item(tensor, Layout::QuantizedGroup, attributes, components, feeds), errors)))
}

fn in_blocks(tensor: &Tensor, block_type: &'static BlockType, work: &Work) -> Option<MeasuredItem> {
    let len = block_type.stored_len(tensor.shape())?;
    let components = vec![spec(&Role::Data, DType::U8, None, len)];
    let attributes = attributes_of_elements(tensor);
    let errors = ErrorStats::default();
    let (from, error_stats, work) = (tensor.clone(), errors.clone(), work.clone());
    let make = move || {
        let element = from.dense_type().unwrap_or(ElementType::new(DType::F32, None));
        let dense = from.dense_pieces(Check::All)?;
        let made: ComputedPieces = Box::new(Quantizing {
            block_type,
            from,
            element,
            dense,
            work,
            most: 0.,
            squares: 0.,
            error_stats,
        });
        Ok(made)
    };
    let feeds = vec![ComponentSource::Made(Box::new(make))];
    Some((item(tensor, Layout::Blocks(block_type), attributes, components, feeds), errors))
}

/// Reads the elements of a tensor as quantized blocks, piece by piece.
struct Quantizing {
    block_type: &'static BlockType,
    from: Tensor,
    element: ElementType,
    dense: DensePieces,
    work: Work,
    /// The largest error so far, and the sum of the squares of all errors.
    most: f64,
    squares: f64,
    error_stats: ErrorStats,
}

impl Iterator for Quantizing {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let made = match self.dense.next() {
            Some(piece) => piece.and_then(|piece| self.blocks_of(piece)),
            None => {
                let count = self.from.count().max(1) as f64;
                let both = (self.most, (self.squares / count).sqrt());
                *self.error_stats.lock().unwrap_or_else(PoisonError::into_inner) = Some(both);
                return None;
            }
        };
        Some(made.map_err(|e| e.in_tensor(self.from.name()).in_source(self.from.file().name())))
    }
}

/// Elements that a thread quantizes at a time: a whole number of blocks of every type.
const AT_A_TIME: u64 = 1 << 16;

impl Quantizing {
    /// Returns the blocks of these elements, quantized on the threads of `work`.
    fn blocks_of(&mut self, dense: Bytes) -> Result<Bytes> {
        let Quantizing { block_type, element, work, .. } = self;
        let count = dense.len() as u64 * 8 / element.bits().max(1);
        let mut out = vec![0; (count / block_type.elements * block_type.bytes) as usize];
        let runs = out.chunks_mut((AT_A_TIME / block_type.elements * block_type.bytes) as usize);
        let mut errors = vec![(0f64, 0f64); runs.len()];
        let jobs = runs.zip(&mut errors).enumerate().collect();
        work.for_each(
            jobs,
            || (),
            |(), (at, (out, errors))| {
                work.check()?;
                let count = out.len() as u64 / block_type.bytes * block_type.elements;
                let start = at as u64 * AT_A_TIME;
                let bytes = element.len_of(start) as usize..element.len_of(start + count) as usize;
                let bytes = dense.slice(bytes);
                let part =
                    Dense::new(element.dtype, element.logical_type.clone(), vec![count], bytes);
                let made = Blocks::quantize(block_type, &part)?;
                out.copy_from_slice(made.bytes());
                let (most, rms) = errors_of(&part, &made)?;
                *errors = (most, rms * rms * count as f64);
                Ok(())
            },
        )?;
        for (most, squares) in errors {
            self.most = self.most.max(most);
            self.squares += squares;
        }
        Ok(out.into())
    }
}

fn spec(role: &Role, dtype: DType, logical: Option<LogicalType>, len: u64) -> ComponentSpec {
    let mut spec = ComponentSpec::new(role.clone(), dtype, len);
    spec.logical_type = logical;
    spec
}

fn item(
    tensor: &Tensor,
    layout: Layout,
    attributes: Attributes,
    components: Vec<ComponentSpec>,
    feeds: Vec<ComponentSource>,
) -> Item {
    let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
    let spec = TensorSpec { name, shape, layout, attributes, components };
    Item { spec, feeds, keep: CopyMode::Nothing }
}
