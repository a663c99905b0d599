//! Migrates dense tensors: decides how each is converted, and provides its bytes.

use super::conversion::{Conversion, TensorFn};
use super::elements::{Elements, Reader};
use bytes::Bytes;
use holdall_core::model::element_count;
use holdall_core::{Error, Layout, Result, Role, TensorSpec};
use holdall_formats::{schema_dtype, stored_as};
use holdall_io::Tensor;
use holdall_io::items::ComponentSource;
use holdall_schema::evolve::rules::{NO_CONVERTER, VALUE};
use holdall_schema::{
    Filled, TensorChange, TensorConverter, TensorDType, TensorSource, TensorType, resolve_tensor,
};
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The input of a converter function: a tensor of the old file, and the type of its result.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConverterInput<'a> {
    /// The tensor in the old file.
    pub tensor: &'a Tensor,
    /// The shape and the element type of the result.
    pub target: &'a TensorSpec,
}

/// A dense tensor of the new file.
#[derive(Clone)]
pub(crate) struct Flat {
    pub(crate) spec: TensorSpec,
    pub(super) how: FlatSource,
}

/// The source of a tensor's bytes.
#[derive(Clone)]
pub(super) enum FlatSource {
    /// The bytes of the old tensor.
    Same(Tensor),
    /// The elements of the old tensor, converted one by one.
    Elements(Box<Elements>),
    /// The result of a function of the caller.
    Made(Tensor, Arc<TensorFn>, OnceLock<Bytes>),
    /// A default.
    Filled(Arc<Filled>),
}

/// Number of bytes of a tensor to produce at a time.
const PIECE: u64 = 4 << 20;

impl Flat {
    /// Decides how a tensor of the file is converted to the type `to` of the new schema.
    ///
    /// # Errors
    /// Returns `evolve/no-converter`.
    pub(crate) fn new(
        tensor: &Tensor,
        target: &str,
        to: &TensorType,
        conversion: Option<&Conversion>,
    ) -> Result<Flat> {
        let mut spec = holdall_io::items::spec_of(tensor.sound()?);
        target.clone_into(&mut spec.name);
        let same = |spec: TensorSpec| Flat { spec, how: FlatSource::Same(tensor.clone()) };
        let named = match &spec.components[..] {
            [data] if spec.layout == Layout::Dense => {
                schema_dtype(data.dtype, data.logical_type.as_ref())
            }
            _ => None,
        };
        let Some(from) = named else {
            return match conversion {
                // Whether the schema has such a tensor is checked later.
                None => Ok(same(spec)),
                Some(_) => {
                    Err(NO_CONVERTER.broken("only dense tensors of a named type can be converted"))
                }
            };
        };
        // The length is set even if it would otherwise be known only after decoding.
        set_type(&mut spec, from);
        let converter = match conversion {
            None => None,
            Some(c) => Some(match (&c.chain, &c.tensors) {
                (Some(chain), _) => TensorConverter::Named(chain),
                (None, Some(_)) => TensorConverter::Function,
                (None, None) => {
                    return Err(NO_CONVERTER.broken(
                        "this converter is for members of records, but the path is a tensor",
                    ));
                }
            }),
        };
        let TensorChange { dtype, shape, how } =
            resolve_tensor((from, &spec.shape), to, converter)?;
        let how = match how {
            TensorSource::Same => FlatSource::Same(tensor.clone()),
            TensorSource::Elements(chain) => {
                FlatSource::Elements(Box::new(Elements::new(tensor, chain, from, dtype)))
            }
            TensorSource::Function => {
                let Some(change) = conversion.and_then(|c| c.tensors.as_ref()) else {
                    return Err(NO_CONVERTER.broken("the conversion has no function for tensors"));
                };
                FlatSource::Made(tensor.clone(), Arc::clone(change), OnceLock::new())
            }
        };
        spec.shape = shape;
        set_type(&mut spec, dtype);
        Ok(Flat { spec, how })
    }

    /// Returns the old tensor, unless this is a default.
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match &self.how {
            FlatSource::Same(tensor) | FlatSource::Made(tensor, ..) => Some(tensor),
            FlatSource::Elements(elements) => Some(elements.tensor()),
            FlatSource::Filled(_) => None,
        }
    }

    /// Returns a short description of the type.
    pub(super) fn describe(&self) -> String {
        describe_spec(&self.spec)
    }

    /// Returns a range of the tensor's bytes.
    pub(super) fn range(&self, range: Range<u64>) -> Result<Bytes> {
        match &self.how {
            FlatSource::Same(tensor) => tensor.bytes_range(&Role::Data, range),
            FlatSource::Elements(elements) => elements.range(range),
            FlatSource::Made(_, _, known) => {
                let whole = match known.get() {
                    Some(whole) => whole,
                    None => {
                        let made = self.made()?;
                        known.get_or_init(|| made)
                    }
                };
                slice(whole, range)
            }
            FlatSource::Filled(filled) => {
                let mut out = vec![0; (range.end - range.start) as usize];
                filled.read(range.start, &mut out);
                Ok(out.into())
            }
        }
    }

    fn made(&self) -> Result<Bytes> {
        let FlatSource::Made(tensor, change, _) = &self.how else { return Ok(Bytes::new()) };
        let made = change(ConverterInput { tensor, target: &self.spec })?;
        let wanted = self.spec.components.first().map_or(0, |c| c.decoded_len);
        if made.len() as u64 != wanted {
            let new = self.describe();
            let message =
                format!("the converter returned {} bytes for {new}; expected {wanted}", made.len());
            return Err(VALUE.broken(message).in_tensor(tensor.name()));
        }
        Ok(made.into())
    }

    /// Returns the source of the bytes for a writer. A cast between floats is passed to the writer as such, so that
    /// tensors that share their bytes still do.
    pub(super) fn feed(&self) -> Result<ComponentSource> {
        if let FlatSource::Elements(elements) = &self.how
            && let Some(feed) = elements.cast()
        {
            return Ok(feed);
        }
        Ok(ComponentSource::Reader(self.reader()?))
    }

    /// Returns a reader of all bytes of the tensor.
    fn reader(&self) -> Result<Box<dyn Read + Send>> {
        let tensor = self.tensor().cloned();
        if let FlatSource::Elements(elements) = &self.how {
            let all = Elements::clone(elements).all()?;
            return Ok(Box::new(Reader::new(all, tensor)));
        }
        let flat = self.clone();
        let mut left = 0..self.spec.components.first().map_or(0, |c| c.decoded_len);
        let next = move || {
            let range = left.start..left.end.min(left.start + PIECE);
            left.start = range.end;
            (!range.is_empty()).then(|| flat.range(range)).transpose()
        };
        Ok(Box::new(Reader::new(Box::new(next), tensor)))
    }
}

/// Sets the type of the only component's elements, and its length.
pub(super) fn set_type(spec: &mut TensorSpec, to: TensorDType) {
    let bits = element_count(&spec.shape).and_then(|n| n.checked_mul(to.bits()));
    if let Some(data) = spec.components.first_mut() {
        (data.dtype, data.logical_type) = stored_as(to);
        data.decoded_len = bits.unwrap_or(u64::MAX) / 8;
    }
}

pub(super) fn slice(whole: &Bytes, range: Range<u64>) -> Result<Bytes> {
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

/// Describes a tensor: `F32 [2, 3]`.
pub(super) fn describe_spec(spec: &TensorSpec) -> String {
    let named = spec.components.first();
    let named = named.and_then(|c| schema_dtype(c.dtype, c.logical_type.as_ref()));
    show(named, &spec.shape)
}

fn show(dtype: Option<TensorDType>, shape: &[u64]) -> String {
    format!("{} {shape:?}", dtype.map_or("Tensor", TensorDType::as_str))
}
