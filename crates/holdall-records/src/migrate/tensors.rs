//! Flat tensors on their way to another schema: what becomes of each, and its bytes.

use super::conversion::{Conversion, TensorFn};
use bytes::Bytes;
use holdall_core::error::Shown as _;
use holdall_core::formats::{schema_dtype, stored_as};
use holdall_core::layout::cast::{Caster, FloatType, Overflow};
use holdall_core::model::element_count;
use holdall_core::{Encoding, Error, Layout, Result, Role, TensorSpec};
use holdall_io::Tensor;
use holdall_schema::evolve::rules::{NO_CONVERTER, NO_DEFAULT, VALUE};
use holdall_schema::rules::TOO_LARGE;
use holdall_schema::{
    Chain, Dim, Document, Filled, Node, NodeId, Path, Presence, Root, Scalar, SchemaLimits,
    Segment, TensorDType, TensorType,
};
use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A tensor of the old file, to become one of the new schema.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TensorPart<'a> {
    /// The tensor as the file has it.
    pub tensor: &'a Tensor,
    /// What is wanted: its shape, and the type of its elements.
    pub to: &'a TensorSpec,
}

/// A flat tensor of the new file.
#[derive(Clone)]
pub(crate) struct Flat {
    pub(crate) spec: TensorSpec,
    pub(super) how: How,
}

/// Where the bytes of a tensor come from.
#[derive(Clone)]
pub(super) enum How {
    /// Those of the old one, as they are.
    Same(Tensor),
    /// Those of the old one, element by element.
    Elements(Box<Elements>),
    /// What the caller makes of the old one.
    Made(Tensor, Arc<TensorFn>, OnceLock<Bytes>),
    /// A default.
    Filled(Arc<Filled>),
}

/// The elements of a tensor, made others.
#[derive(Clone)]
pub(super) struct Elements {
    tensor: Tensor,
    chain: Chain,
    from: (TensorDType, Scalar),
    pub(super) to: (TensorDType, Scalar),
    /// Whether each becomes one of a wider type.
    pub(super) widens: bool,
    /// All bytes of the old one, where ranges of them cannot be had.
    whole: OnceLock<Bytes>,
}

/// Bytes of a tensor that are made at a time.
const PIECE: usize = 4 << 20;

impl Flat {
    /// What a tensor of the file is under the new schema, which has `to` at its place.
    ///
    /// # Errors
    /// `evolve/no-converter`.
    pub(crate) fn new(
        tensor: &Tensor,
        target: &str,
        to: &TensorType,
        conversion: Option<&Conversion>,
    ) -> Result<Flat> {
        let mut spec = holdall_io::items::spec_of(tensor.sound()?);
        target.clone_into(&mut spec.name);
        let same = |spec: TensorSpec| Flat { spec, how: How::Same(tensor.clone()) };
        let named = match &spec.components[..] {
            [data] if spec.layout == Layout::Dense => {
                schema_dtype(data.dtype, data.logical_type.as_ref())
            }
            _ => None,
        };
        let Some(from) = named else {
            return match conversion {
                // Whether the schema has a place for it is asked later.
                None => Ok(same(spec)),
                Some(_) => {
                    Err(NO_CONVERTER.broken("it is not a dense tensor of a type with a name"))
                }
            };
        };
        let wanted = to.dtype.unwrap_or(from);
        let wrong = || {
            let old = show(Some(from), &spec.shape);
            NO_CONVERTER
                .broken(format!("it is {old} in the file, and {} for the reader", shown(to)))
        };
        let chain = conversion.and_then(|c| c.chain.as_ref());
        let Some(shape) = shape_for(&spec.shape, to) else { return Err(wrong()) };
        let is_moved = shape != spec.shape;
        if is_moved && conversion.is_none_or(|c| c.tensors.is_none()) {
            let is_asked = chain.is_some_and(Chain::reshapes);
            if element_count(&shape) != element_count(&spec.shape) {
                return Err(wrong());
            }
            if !is_asked {
                return Err(wrong()
                    .with_hint("the converter `reshape` takes its elements in the new shape"));
            }
        }
        let how = match (chain, conversion.and_then(|c| c.tensors.as_ref())) {
            (None, None) if conversion.is_some() => {
                return Err(NO_CONVERTER.broken("a converter of records was given a tensor"));
            }
            (None, None) if wanted == from => return Ok(same(spec)),
            (None, None) if from.widens_to(wanted) => {
                elements(tensor, WIDEN.parse()?, from, wanted)
            }
            (None, None) => {
                return Err(
                    wrong().with_hint("the converter `cast` rounds numbers into another type")
                );
            }
            (None, Some(change)) => {
                Some(How::Made(tensor.clone(), Arc::clone(change), OnceLock::new()))
            }
            (Some(chain), _) if chain.is_cast() && wanted == from => {
                Some(How::Same(tensor.clone()))
            }
            (Some(chain), _) => elements(tensor, chain.clone(), from, wanted),
        };
        let Some(how) = how else {
            let by = conversion.map_or("", Conversion::name).shown();
            let message = format!("`{by}` does not make elements of {wanted} from those of {from}");
            return Err(NO_CONVERTER.broken(message));
        };
        spec.shape = shape;
        set_type(&mut spec, wanted);
        Ok(Flat { spec, how })
    }

    /// Where it comes from, if it is not a default.
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match &self.how {
            How::Same(tensor) | How::Made(tensor, ..) => Some(tensor),
            How::Elements(elements) => Some(&elements.tensor),
            How::Filled(_) => None,
        }
    }

    /// What it is, in short.
    pub(super) fn shown(&self) -> String {
        shown_spec(&self.spec)
    }

    /// A range of its bytes.
    pub(super) fn range(&self, range: Range<u64>) -> Result<Bytes> {
        match &self.how {
            How::Same(tensor) => tensor.bytes_range(&Role::Data, range),
            How::Elements(elements) => elements.range(range),
            How::Made(_, _, known) => {
                let whole = match known.get() {
                    Some(whole) => whole,
                    None => {
                        let made = self.made()?;
                        known.get_or_init(|| made)
                    }
                };
                slice(whole, range)
            }
            How::Filled(filled) => {
                let mut out = vec![0; (range.end - range.start) as usize];
                filled.read(range.start, &mut out);
                Ok(out.into())
            }
        }
    }

    fn made(&self) -> Result<Bytes> {
        let How::Made(tensor, change, _) = &self.how else { return Ok(Bytes::new()) };
        let made = change(TensorPart { tensor, to: &self.spec })?;
        let wanted = self.spec.components.first().map_or(0, |c| c.decoded_len);
        if made.len() as u64 != wanted {
            let new = self.shown();
            let message =
                format!("the converter gave {} bytes for {new}, which takes {wanted}", made.len());
            return Err(VALUE.broken(message).in_tensor(tensor.name()));
        }
        Ok(made.into())
    }

    /// All of its bytes, in order.
    pub(super) fn reader(&self) -> Result<Box<dyn Read + Send>> {
        let tensor = self.tensor().cloned();
        let mut left = match &self.how {
            How::Elements(elements) => {
                let pieces = elements.tensor.pieces(&Role::Data)?;
                let source = Source::Elements(elements.clone(), pieces, Vec::new(), 0);
                return Ok(Box::new(Reader { source, piece: Bytes::new(), tensor }));
            }
            _ => 0..self.spec.components.first().map_or(0, |c| c.decoded_len),
        };
        let flat = self.clone();
        let next = move || {
            let range = left.start..left.end.min(left.start + PIECE as u64);
            left.start = range.end;
            (!range.is_empty()).then(|| flat.range(range))
        };
        let source = Source::Ranges(Box::new(next));
        Ok(Box::new(Reader { source, piece: Bytes::new(), tensor }))
    }
}

/// What makes elements those of a wider type.
const WIDEN: &str = "cast";

fn elements(tensor: &Tensor, chain: Chain, from: TensorDType, to: TensorDType) -> Option<How> {
    let widens = from.widens_to(to) && chain.is_cast();
    let (from, to) = ((from, from.scalar()?), (to, to.scalar()?));
    if !chain.takes(from.1, to.1) && !widens {
        return None;
    }
    let whole = OnceLock::new();
    let tensor = tensor.clone();
    Some(How::Elements(Box::new(Elements { tensor, chain, from, to, widens, whole })))
}

impl Elements {
    /// The converter that makes them.
    pub(super) fn name(&self) -> &str {
        self.chain.as_str()
    }

    fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let (old, new) = (u64::from(self.from.1.size()), u64::from(self.to.1.size()));
        let (first, end) = (range.start / new, range.end.div_ceil(new));
        let bytes = self.old_bytes(first * old..end * old)?;
        let mut out = Vec::new();
        self.convert(first, &bytes, &mut out)?;
        let start = range.start - first * new;
        slice(&out.into(), start..start + (range.end - range.start))
    }

    fn old_bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let is_raw = |c: holdall_core::Component| c.encoding == Encoding::Raw;
        if self.tensor.component(&Role::Data).is_some_and(is_raw) {
            return self.tensor.bytes_range(&Role::Data, range);
        }
        let whole = match self.whole.get() {
            Some(whole) => whole,
            None => {
                let whole = self.tensor.bytes(&Role::Data)?;
                self.whole.get_or_init(|| whole)
            }
        };
        slice(whole, range)
    }

    /// Appends what elements become; `bytes` are whole ones, of which the first has that number.
    fn convert(&self, first: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let count = bytes.len() / self.from.1.size().max(1) as usize;
        let stored = (stored_as(self.from.0), stored_as(self.to.0));
        let float = |(dtype, logical): &(_, Option<_>)| FloatType::of(*dtype, logical.as_ref());
        if let (true, Some(_), Some(to)) =
            (self.chain.is_cast(), float(&stored.0), float(&stored.1))
        {
            let beyond =
                if self.chain.saturates() { Overflow::Saturate } else { Overflow::Infinite };
            let (dtype, logical) = stored.0;
            let mut caster = Caster::new(dtype, logical, count as u64, to, beyond);
            caster.push(bytes, out)?;
            let lost = caster.finish(out)?;
            if lost > 0 && !self.chain.saturates() {
                let message = format!("{lost} numbers or more are beyond what {} holds", self.to.0);
                let e = VALUE.broken(message);
                return Err(e.with_hint("`cast(saturate)` makes them the nearest there is"));
            }
            return Ok(());
        }
        let start = out.len();
        out.resize(start + count * self.to.1.size() as usize, 0);
        self.chain.elements(first, (self.from.1, bytes), (self.to.1, &mut out[start..]))
    }
}

/// Bytes of a flat tensor, one after the other.
struct Reader {
    source: Source,
    piece: Bytes,
    tensor: Option<Tensor>,
}

enum Source {
    Ranges(Box<dyn FnMut() -> Option<Result<Bytes>> + Send>),
    /// The pieces of the old tensor, the start of an element whose end has not come, and elements so far.
    Elements(Box<Elements>, holdall_io::Pieces, Vec<u8>, u64),
}

impl Source {
    fn next(&mut self) -> Result<Option<Bytes>> {
        let (elements, pieces, begun, done) = match self {
            Source::Ranges(next) => return next().transpose(),
            Source::Elements(elements, pieces, begun, done) => (elements, pieces, begun, done),
        };
        let width = elements.from.1.size().max(1) as usize;
        loop {
            let Some(piece) = pieces.next() else { return Ok(None) };
            begun.extend_from_slice(&piece?);
            let whole = begun.len() - begun.len() % width;
            if whole == 0 {
                continue;
            }
            let mut out = Vec::new();
            elements.convert(*done, &begun[..whole], &mut out)?;
            begun.drain(..whole);
            *done += (whole / width) as u64;
            return Ok(Some(out.into()));
        }
    }
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() {
            let next = self.source.next().map_err(|e| match &self.tensor {
                Some(tensor) => e.in_tensor(tensor.name()).in_source(tensor.file().name()),
                None => e,
            });
            match next.map_err(std::io::Error::other)? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = out.len().min(self.piece.len());
        out[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// The tensors that the schema has and a file lacks, whose tensors stand at `present` under it: those that a
/// `default` makes, and the paths of those that are absent.
///
/// # Errors
/// `evolve/no-default`; the rules that a default breaks.
pub(crate) fn missing(
    schema: &Document,
    present: impl Iterator<Item = String>,
    limits: &SchemaLimits,
) -> Result<(Vec<Flat>, Vec<(Path, TensorType)>)> {
    let path = |name: String| {
        name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.as_str().into())]))
    };
    let present: BTreeSet<Path> = present.map(path).collect();
    let mut walk =
        Missing { schema, present, limits, left: limits.nodes, filled: vec![], absent: vec![] };
    if let Root::References(root) = schema.schema.root() {
        walk.below(root, &Path::root()).map_err(|e| e.in_source(&schema.name))?;
    }
    Ok((walk.filled, walk.absent))
}

struct Missing<'m> {
    schema: &'m Document,
    present: BTreeSet<Path>,
    limits: &'m SchemaLimits,
    left: u64,
    filled: Vec<Flat>,
    absent: Vec<(Path, TensorType)>,
}

impl Missing<'_> {
    fn below(&mut self, id: NodeId, at: &Path) -> Result<()> {
        let Node::Object(object) = self.schema.schema.node(id) else { return Ok(()) };
        for property in &object.properties {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                TOO_LARGE.broken(format!("a schema with more than {} paths", self.limits.nodes))
            })?;
            let path = at.then(Segment::Name(Arc::clone(&property.name)));
            let next = self.present.range(&path..).next();
            let is_there = next.is_some_and(|p| p.0.starts_with(&path.0));
            match self.schema.schema.node(property.node) {
                Node::Object(_) if is_there || property.presence == Presence::Required => {
                    self.below(property.node, &path)?;
                }
                Node::Flat { tensor, .. } if !is_there => {
                    match (&property.default, property.presence) {
                        (Some(value), _) => {
                            let filled = tensor.filled(value, self.limits);
                            let filled = filled.map_err(|e| e.in_tensor(path.to_string()))?;
                            self.filled.push(default(&path, filled));
                        }
                        (None, Presence::Optional) => self.absent.push((path, tensor.clone())),
                        (None, Presence::Required) => {
                            let message = format!(
                                "the file has no tensor `{}`, which is {} without a default",
                                path.to_string().shown(),
                                shown(tensor)
                            );
                            return Err(NO_DEFAULT.broken(message));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The tensor that a default is.
fn default(path: &Path, filled: Filled) -> Flat {
    let (dtype, _) = stored_as(filled.dtype);
    let mut spec = TensorSpec::dense(path.to_string(), dtype, filled.shape.clone());
    set_type(&mut spec, filled.dtype);
    Flat { spec, how: How::Filled(Arc::new(filled)) }
}

/// Makes the one component that of elements of a type.
fn set_type(spec: &mut TensorSpec, to: TensorDType) {
    let bits = element_count(&spec.shape).and_then(|n| n.checked_mul(to.bits()));
    if let Some(data) = spec.components.first_mut() {
        (data.dtype, data.logical_type) = stored_as(to);
        data.decoded_len = bits.unwrap_or(u64::MAX) / 8;
    }
}

/// The shape that a tensor has under a schema; what may be any stays as it is.
fn shape_for(old: &[u64], to: &TensorType) -> Option<Vec<u64>> {
    let Some(dims) = &to.shape else { return Some(old.to_vec()) };
    let is_same_rank = dims.len() == old.len();
    let dim = |(at, dim): (usize, &Dim)| match dim {
        Dim::Known(n) => Some(*n),
        Dim::Any | Dim::Symbol(_) if is_same_rank => old.get(at).copied(),
        Dim::Any | Dim::Symbol(_) => None,
    };
    dims.iter().enumerate().map(dim).collect()
}

fn slice(whole: &Bytes, range: Range<u64>) -> Result<Bytes> {
    if range.start > range.end || range.end > whole.len() as u64 {
        return Err(outside(&range, whole.len()));
    }
    Ok(whole.slice(range.start as usize..range.end as usize))
}

#[cold]
fn outside(range: &Range<u64>, len: usize) -> Error {
    let rule = &holdall_core::window::OUTSIDE;
    rule.broken(format!("bytes {}..{} of {len}", range.start, range.end))
}

/// `F32 [2, 3]`.
pub(super) fn shown_spec(spec: &TensorSpec) -> String {
    let named = spec.components.first();
    let named = named.and_then(|c| schema_dtype(c.dtype, c.logical_type.as_ref()));
    show(named, &spec.shape)
}

fn show(dtype: Option<TensorDType>, shape: &[u64]) -> String {
    format!("{} {shape:?}", dtype.map_or("Tensor", TensorDType::as_str))
}

/// `F32 [2, n]`.
pub(super) fn shown(to: &TensorType) -> String {
    let dims = to.shape.iter().flatten().map(|dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Any => "null".to_owned(),
        Dim::Symbol(name) => name.shown().to_string(),
    });
    let dims: Vec<String> = dims.collect();
    let dtype = to.dtype.map_or("Tensor", TensorDType::as_str);
    if to.shape.is_none() { dtype.to_owned() } else { format!("{dtype} [{}]", dims.join(", ")) }
}
