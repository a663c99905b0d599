//! Converters: the caller's code for conversions that do not follow from the schemas.

use super::chain::Chain;
use crate::error::Result;
use crate::kinds::{Kind, Scalar, TypeId};
use crate::limits::SchemaLimits;
use crate::record::{Encoder, Heap};
use crate::schema::Schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

/// A value of the writer to convert to one of the reader.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConversionInput<'a> {
    /// The type in the writer's schema.
    pub from: TypeId,
    /// The type of the result, in the reader's schema.
    pub to: TypeId,
    /// The bytes of the value.
    pub bytes: &'a [u8],
    /// The heap that its entries refer to.
    pub heap: &'a [u8],
}

/// Converts a value of the writer to one of the reader.
///
/// Closures are converters:
///
/// ```
/// use holdall_schema::{ConversionInput, Converters, Heap};
///
/// let converters = Converters::new().with("halve", |from: ConversionInput<'_>, to: &mut [u8], _: &mut dyn Heap| {
///     to[0] = from.bytes[0] / 2;
///     Ok(())
/// });
/// ```
pub trait Convert: Send + Sync {
    /// Writes the result into `to`, which is all zero and has the size of the type, and the data of its entries into
    /// `heap`.
    ///
    /// # Errors
    /// Returns an error if the value cannot be converted.
    fn convert(&self, from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap) -> Result<()>;
}

impl<F> Convert for F
where
    F: Fn(ConversionInput<'_>, &mut [u8], &mut dyn Heap) -> Result<()> + Send + Sync,
{
    fn convert(&self, from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap) -> Result<()> {
        self(from, to, heap)
    }
}

/// A collection of converters by name.
#[derive(Default)]
pub struct Converters<'c>(BTreeMap<String, Box<dyn Convert + 'c>>);

impl<'c> Converters<'c> {
    /// Creates an empty collection.
    pub fn new() -> Converters<'c> {
        Converters::default()
    }

    /// Adds a converter.
    pub fn with(mut self, name: impl Into<String>, convert: impl Convert + 'c) -> Converters<'c> {
        self.0.insert(name.into(), Box::new(convert));
        self
    }

    /// Returns the converter with this name.
    pub(super) fn find(&self, name: &str) -> Option<&dyn Convert> {
        self.0.get(name).map(|c| &**c)
    }
}

impl fmt::Debug for Converters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns a converter that works on JSON values: easy to write, but much slower than one on bytes.
pub fn by_value<'s>(
    writer: &'s Schema,
    reader: &'s Schema,
    limits: SchemaLimits,
    change: impl Fn(Value) -> Result<Value> + Send + Sync + 's,
) -> impl Convert + 's {
    move |from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap| {
        let value = writer.record_value(from.from, from.bytes, from.heap, &limits)?;
        let value = change(value)?;
        let mut heap = heap;
        Encoder::new(reader, from.to, &limits)?.value(&value, to, &mut heap)
    }
}

/// Returns a converter that applies a chain of named converters. Numbers are converted directly, other values through
/// their JSON.
pub fn by_chain<'s>(
    writer: impl Deref<Target = Schema> + Send + Sync + 's,
    reader: impl Deref<Target = Schema> + Send + Sync + 's,
    limits: SchemaLimits,
    chain: Chain,
) -> impl Convert + 's {
    move |from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap| {
        let kinds = (&writer.ty(from.from).kind, &reader.ty(from.to).kind);
        if let Some((a, b)) = numbers(kinds, &chain)
            && chain.can_convert(a, b)
        {
            return chain.elements(0, (a, from.bytes), (b, to));
        }
        let value = writer.record_value(from.from, from.bytes, from.heap, &limits)?;
        let value = chain.value(value)?;
        let mut heap = heap;
        Encoder::new(&reader, from.to, &limits)?.value(&value, to, &mut heap)
    }
}

/// Returns the kinds of number on both sides: of one number, or of the elements of tensors of equal length.
fn numbers((from, to): (&Kind, &Kind), chain: &Chain) -> Option<(Scalar, Scalar)> {
    match (from, to) {
        (Kind::Scalar(a), Kind::Scalar(b)) => Some((*a, *b)),
        (Kind::Tensor(a), Kind::Tensor(b)) => {
            let is_same =
                a.shape == b.shape || (chain.reshapes() && a.known_count()? == b.known_count()?);
            is_same.then_some((a.dtype?.scalar()?, b.dtype?.scalar()?))
        }
        _ => None,
    }
}
