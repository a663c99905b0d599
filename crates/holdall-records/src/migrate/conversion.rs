//! The converters of a migration: named converters, or functions of the caller.

use super::tensors::ConverterInput;
use holdall_core::Result;
use holdall_schema::evolve::rules::NO_CONVERTER;
use holdall_schema::{
    Chain, ConversionInput, Converters, Encoder, Heap, Schema, SchemaLimits, by_chain,
};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Converts a member or a tensor of the old schema to one of the new schema: a chain of [named converters](Chain), or a
/// function.
///
/// ```
/// use holdall_records::Conversion;
/// let names: Conversion = "split(\" \")".parse()?;
/// let upper = Conversion::values(|value| {
///     Ok(value.as_str().unwrap_or_default().to_uppercase().into())
/// });
/// # drop((names, upper));
/// # Ok::<(), holdall_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Conversion {
    pub(super) chain: Option<Chain>,
    values: Option<Arc<ValueFn>>,
    pub(super) tensors: Option<Arc<TensorFn>>,
}

type ValueFn = dyn Fn(Value) -> Result<Value> + Send + Sync;
pub(super) type TensorFn = dyn Fn(ConverterInput<'_>) -> Result<Vec<u8>> + Send + Sync;

impl Conversion {
    /// Creates a conversion that calls a function with the JSON of each value of a member.
    pub fn values(change: impl Fn(Value) -> Result<Value> + Send + Sync + 'static) -> Conversion {
        Conversion { values: Some(Arc::new(change)), ..Conversion::default() }
    }

    /// Creates a conversion that calls a function which returns the bytes of a tensor.
    pub fn tensors(
        change: impl Fn(ConverterInput<'_>) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Conversion {
        Conversion { tensors: Some(Arc::new(change)), ..Conversion::default() }
    }

    /// Adds a function for tensors, for callers that do not know whether the path refers to a member or a tensor.
    pub fn with_tensor_function(
        mut self,
        change: impl Fn(ConverterInput<'_>) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Conversion {
        self.tensors = Some(Arc::new(change));
        self
    }

    /// Returns the name for plans.
    pub fn name(&self) -> &str {
        self.chain.as_ref().map_or("a function", Chain::as_str)
    }

    /// Converts the JSON of a value.
    fn value(&self, value: Value) -> Result<Value> {
        match (&self.chain, &self.values) {
            (Some(chain), _) => chain.value(value),
            (None, Some(change)) => change(value),
            (None, None) => Err(NO_CONVERTER
                .broken("this converter is for tensors, but the path is a member of records")),
        }
    }

    /// Adds this conversion under a name to the converters of records.
    pub(super) fn add_to(
        &self,
        converters: Converters<'static>,
        name: &str,
        (writer, reader): (&Arc<Schema>, &Arc<Schema>),
        limits: &SchemaLimits,
    ) -> Converters<'static> {
        let (conversion, limits) = (self.clone(), limits.clone());
        let (writer, reader) = (Arc::clone(writer), Arc::clone(reader));
        if let Some(chain) = conversion.chain {
            return converters.with(name, by_chain(writer, reader, limits, chain));
        }
        converters.with(
            name,
            move |from: ConversionInput<'_>, to: &mut [u8], heap: &mut dyn Heap| {
                let value = writer.record_value(from.from, from.bytes, from.heap, &limits)?;
                let value = conversion.value(value)?;
                let mut heap = heap;
                Encoder::new(&reader, from.to, &limits)?.value(&value, to, &mut heap)
            },
        )
    }
}

impl From<Chain> for Conversion {
    fn from(chain: Chain) -> Conversion {
        Conversion { chain: Some(chain), ..Conversion::default() }
    }
}

impl std::str::FromStr for Conversion {
    type Err = holdall_core::Error;

    /// Parses a chain of converters.
    ///
    /// # Errors
    /// Returns `evolve/converter` if the text is not a chain of converters.
    fn from_str(text: &str) -> Result<Conversion> {
        Ok(text.parse::<Chain>()?.into())
    }
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Conversion").field(&self.name()).finish()
    }
}
