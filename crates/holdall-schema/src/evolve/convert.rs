//! Converters: what the caller does where schemas do not say enough.

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

/// A value of the writer's, to become one of the reader's.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConversionInput<'a> {
    /// Its type in the writer's schema.
    pub from: TypeId,
    /// The type that is wanted, in the reader's schema.
    pub to: TypeId,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The heap that its entries point into.
    pub heap: &'a [u8],
}

/// Makes a value of the reader's from one of the writer's.
///
/// Closures are converters:
///
/// ```
/// use holdall_schema::{Converters, Heap, Part};
///
/// let converters = Converters::new().with("halve", |from: Part<'_>, to: &mut [u8], _: &mut dyn Heap| {
///     to[0] = from.bytes[0] / 2;
///     Ok(())
/// });
/// ```
pub trait Convert: Send + Sync {
    /// Writes the value into `to`, which is all zero and as long as the type, and what its entries
    /// point at into `heap`.
    ///
    /// # Errors
    /// Whatever stands in the way of it.
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

/// Converters by name.
#[derive(Default)]
pub struct Converters<'c>(BTreeMap<String, Box<dyn Convert + 'c>>);

impl<'c> Converters<'c> {
    /// None.
    pub fn new() -> Converters<'c> {
        Converters::default()
    }

    /// With one more.
    pub fn with(mut self, name: impl Into<String>, convert: impl Convert + 'c) -> Converters<'c> {
        self.0.insert(name.into(), Box::new(convert));
        self
    }

    /// The one of that name.
    pub(super) fn find(&self, name: &str) -> Option<&dyn Convert> {
        self.0.get(name).map(|c| &**c)
    }
}

impl fmt::Debug for Converters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A converter that works on values as JSON: easy to write, and far slower than one on bytes.
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

/// The converter that a chain of named ones is: numbers are passed as they are, other values as their JSON.
pub fn by_chain<'s>(
    writer: impl Deref<Target = Schema> + Send + Sync + 's,
    reader: impl Deref<Target = Schema> + Send + Sync + 's,
    limits: SchemaLimits,
    chain: Chain,
) -> impl Convert + 's {
    move |from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap| {
        let kinds = (&writer.ty(from.from).kind, &reader.ty(from.to).kind);
        if let Some((a, b)) = numbers(kinds, &chain)
            && chain.takes(a, b)
        {
            return chain.elements(0, (a, from.bytes), (b, to));
        }
        let value = writer.record_value(from.from, from.bytes, from.heap, &limits)?;
        let value = chain.value(value)?;
        let mut heap = heap;
        Encoder::new(&reader, from.to, &limits)?.value(&value, to, &mut heap)
    }
}

/// The kinds of number that both sides are made of: one, or as many in a tensor.
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
