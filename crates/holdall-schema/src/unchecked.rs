//! What stands in for the checker in a build without the feature `validate`.

use crate::error::{Result, Rule};
use crate::limits::SchemaLimits;
use crate::refs::Defs;
use crate::rules::NOT_BUILT;
use crate::schema::{NodeId, Schema};
use crate::vocabulary::Vocabulary;
use serde_json::Value;
use std::convert::Infallible;
use std::marker::PhantomData;

/// Checks the plain values of a header, and records as JSON, against all keywords of a schema. This build
/// has no feature `validate`: there is none, and [`Checker::new`] says so.
#[derive(Debug)]
pub struct Checker<'s> {
    never: Infallible,
    schema: PhantomData<&'s Schema>,
}

impl<'s> Checker<'s> {
    /// Whether this build has what checks: the feature `validate`.
    pub const IS_BUILT: bool = false;

    /// A checker of what the schema describes.
    ///
    /// # Errors
    /// `schema/not-built`, always.
    pub fn new(_: &'s Schema, _: &Value, _: &SchemaLimits) -> Result<Checker<'s>> {
        Err(NOT_BUILT.broken("this build does not check standard keywords"))
    }

    /// The same, with formats and keywords of your own.
    ///
    /// # Errors
    /// `schema/not-built`, always.
    pub fn with_vocabulary(
        schema: &'s Schema,
        source: &Value,
        _: &Vocabulary,
        limits: &SchemaLimits,
    ) -> Result<Checker<'s>> {
        Checker::new(schema, source, limits)
    }

    /// Patterns of the schema that values are not checked against.
    pub fn unverified(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    /// Such a pattern that the value at a plain node may have to match.
    pub fn unverified_at(&self, _: NodeId) -> Option<&str> {
        match self.never {}
    }

    /// Checks the value at a plain node of a header.
    ///
    /// # Errors
    /// None: there is no checker to ask.
    pub fn plain(&self, _: NodeId, _: Value, _: &'static Rule) -> Result<()> {
        match self.never {}
    }

    /// Checks the JSON of a record of a dataset.
    ///
    /// # Errors
    /// None: there is no checker to ask.
    pub fn record(&self, _: NodeId, _: Value) -> Result<()> {
        match self.never {}
    }

    /// Checks every `default`.
    ///
    /// # Errors
    /// None: there is no checker to ask.
    pub fn defaults(&self, _: &Value, _: &Vocabulary) -> Result<()> {
        match self.never {}
    }

    /// The same, for the schema of one record.
    ///
    /// # Errors
    /// None: there is no checker to ask.
    pub fn one_record(&self, _: Value) -> Result<()> {
        match self.never {}
    }
}

/// Whether a value is what a node of a schema says in standard keywords: nobody here can tell.
pub(crate) fn is_value(_: &Value, _: &Defs<'_>, _: &Value, _: &SchemaLimits) -> bool {
    true
}
