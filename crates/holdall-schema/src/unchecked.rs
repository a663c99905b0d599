//! Replaces the checker in builds without the feature `validate`.

use crate::error::{Result, Rule};
use crate::limits::SchemaLimits;
use crate::refs::Defs;
use crate::rules::NOT_BUILT;
use crate::schema::{NodeId, Schema};
use crate::vocabulary::Vocabulary;
use serde_json::Value;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Checks the plain values of a header, and records as JSON, against all keywords of a schema. This build does not have
/// the feature `validate`, so [`Checker::new`] always fails.
#[derive(Debug)]
pub struct Checker<'s> {
    never: Infallible,
    schema: PhantomData<&'s Schema>,
}

impl<'s> Checker<'s> {
    /// Whether this build can check values: the feature `validate`.
    pub const IS_BUILT: bool = false;

    /// Fails, because this build cannot check values.
    ///
    /// # Errors
    /// Returns always returns `schema/not-built`.
    pub fn new(_: &'s Schema, _: &Value, _: &SchemaLimits) -> Result<Checker<'s>> {
        Err(NOT_BUILT.broken("this build does not check standard keywords"))
    }

    /// Fails like [`Checker::new`]. In other builds, also checks user-defined formats and keywords.
    ///
    /// # Errors
    /// Returns always returns `schema/not-built`.
    pub fn with_vocabulary(
        schema: &'s Schema,
        source: &Value,
        _: &Vocabulary,
        limits: &SchemaLimits,
    ) -> Result<Checker<'s>> {
        Checker::new(schema, source, limits)
    }

    /// Returns the patterns of the schema that values are not checked against.
    pub fn unverified(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    /// Returns a pattern that the value at a plain node is not checked against, if any.
    pub fn unverified_at(&self, _: NodeId) -> Option<&str> {
        match self.never {}
    }

    /// Checks the value at a plain node of a header.
    ///
    /// # Errors
    /// Never called, because no checker can be created.
    pub fn plain(&self, _: NodeId, _: Value, _: &'static Rule) -> Result<()> {
        match self.never {}
    }

    /// Checks the JSON of a record of a dataset.
    ///
    /// # Errors
    /// Never called, because no checker can be created.
    pub fn record(&self, _: NodeId, _: Value) -> Result<()> {
        match self.never {}
    }

    /// Checks every `default`.
    ///
    /// # Errors
    /// Never called, because no checker can be created.
    pub fn defaults(&self, _: &Value, _: &Vocabulary) -> Result<()> {
        match self.never {}
    }

    /// Checks the JSON of a record, for the schema of one record.
    ///
    /// # Errors
    /// Never called, because no checker can be created.
    pub fn one_record(&self, _: Value) -> Result<()> {
        match self.never {}
    }
}

/// Always returns `true`: this build cannot check values against standard keywords.
pub(crate) fn is_value(_: &Value, _: &Defs<'_>, _: &Value, _: &SchemaLimits) -> bool {
    true
}
