//! Adds rows to a dataset.

use super::files::FileMembers;
use super::{Columns, Row, Rows};
use crate::DatasetWriter;
use holdall_core::Result;
use holdall_schema::record::rules::TOO_LARGE;
use holdall_schema::record::{Null, Unknown};
use holdall_schema::{
    Checker, Encoder, Schema, SchemaLimits, TypeId, Vocabulary, has_value_constraints,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Options for converting rows to records.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FillOptions {
    /// How to treat members that the schema does not have.
    pub unknown: Unknown,
    /// The meaning of `null` for an optional member.
    pub null: Null,
    pub(crate) checks: Checks,
    files: Option<(PathBuf, Vec<String>)>,
}

/// The records that are checked against the standard keywords of their schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Checks {
    /// Records of schemas with more keywords than their kinds, if this build can check them.
    #[default]
    WhereSaid,
    /// All records.
    All,
    /// No records.
    None,
}

impl FillOptions {
    /// Returns the default options: unknown members are refused, `null` is a value, and records are checked against the
    /// standard keywords if the schema contains any besides its kinds.
    pub fn new() -> FillOptions {
        FillOptions::default()
    }

    /// Sets how to treat members that the schema does not have.
    pub fn with_unknown(mut self, unknown: Unknown) -> FillOptions {
        self.unknown = unknown;
        self
    }

    /// Sets the meaning of `null` for an optional member.
    pub fn with_null(mut self, null: Null) -> FillOptions {
        self.null = null;
        self
    }

    /// Also checks every record against all keywords of the schema, such as `minimum` and `pattern`.
    pub fn with_checks(mut self) -> FillOptions {
        self.checks = Checks::All;
        self
    }

    /// Checks records only against the kinds of the schema, not against its standard keywords.
    pub fn without_checks(mut self) -> FillOptions {
        self.checks = Checks::None;
        self
    }

    /// Returns `true` if records of this schema are checked against its keywords.
    pub(crate) fn checks(&self, kind: &Value, vocabulary: &Vocabulary) -> bool {
        match self.checks {
            Checks::All => true,
            Checks::None => false,
            Checks::WhereSaid => {
                Checker::IS_BUILT && (!vocabulary.is_empty() || has_value_constraints(kind))
            }
        }
    }

    /// Reads the bytes or the text of these members from files in `folder`. The records contain the file names in place
    /// of the values.
    pub fn with_files(
        mut self,
        folder: impl Into<PathBuf>,
        members: impl IntoIterator<Item = String>,
    ) -> FillOptions {
        self.files = Some((folder.into(), members.into_iter().collect()));
        self
    }

    /// Returns `true` if rows are encoded exactly as the schema says, without any of the other options.
    fn is_plain(&self, kind: &Value, vocabulary: &Vocabulary) -> bool {
        let is_strict = self.unknown == Unknown::Refuse && self.null == Null::Value;
        is_strict && self.files().is_none() && !self.checks(kind, vocabulary)
    }

    pub(crate) fn files(&self) -> Option<(&Path, &[String])> {
        let (folder, members) = self.files.as_ref()?;
        (!members.is_empty()).then_some((folder, members))
    }
}

impl DatasetWriter {
    /// Adds a record for each row, in order, and returns the number of records added. Lines of JSON are encoded on
    /// several threads, unless `options` require more than the schema does.
    ///
    /// # Errors
    /// Returns the errors of [`DatasetWriter::text`], with the number of the line; for columns, those of
    /// [`DatasetWriter::batch`]; the errors of reading `rows`; and `input/table`, `build/file-name` or
    /// `record/keyword`. The records of the lines before the error have been added.
    pub fn fill(&mut self, mut rows: Rows, options: &FillOptions) -> Result<u64> {
        let before = self.len();
        let is_plain = options.is_plain(&self.kind, &self.vocabulary);
        if is_plain && let Some(reader) = rows.take_lines() {
            return self.lines(reader).map_err(|e| e.in_source(rows.name()));
        }
        if let Some(mut source) = rows.take_source() {
            let added = self.encode_rows(&mut *source, options).map_err(|e| self.in_context(e));
            added.map_err(|e| e.in_source(rows.name()))?;
            return Ok(self.len() - before);
        }
        if let Some(batches) = rows.take_batches() {
            self.add_batches(batches, options).map_err(|e| e.in_source(rows.name()))?;
            return Ok(self.len() - before);
        }
        // The writer is borrowed mutably while its schema is used.
        let (schema, kind, limits) = (self.schema.clone(), self.kind.clone(), self.limits.clone());
        let mut fill = Fill::new(&schema, &kind, self.ty, &self.vocabulary, options, &limits)?;
        let columns = fill.columns(&rows)?;
        while let Some((line, row)) = rows.next()? {
            let added = match row {
                Row::Json(text) if is_plain => self.text(text),
                row => fill.put(&columns, row, self),
            };
            added.map_err(|e| rows.at_line(e, line))?;
        }
        Ok(self.len() - before)
    }
}

/// Converts the values of rows to records, or returns why a row does not fit.
pub(crate) struct Fill<'s> {
    schema: &'s Schema,
    ty: TypeId,
    limits: &'s SchemaLimits,
    unknown: Unknown,
    is_lenient: bool,
    encoder: Encoder<'s>,
    checker: Option<Checker<'s>>,
    members: Option<FileMembers>,
    record: Vec<u8>,
    heap: Vec<u8>,
}

impl<'s> Fill<'s> {
    /// Creates a converter. `kind` is the JSON of the schema.
    pub(crate) fn new(
        schema: &'s Schema,
        kind: &'s Value,
        ty: TypeId,
        vocabulary: &Vocabulary,
        options: &FillOptions,
        limits: &'s SchemaLimits,
    ) -> Result<Fill<'s>> {
        let FillOptions { unknown, null, .. } = *options;
        let encoder = Encoder::new(schema, ty, limits)?.with_unknown(unknown).with_null(null);
        let checker = match options.checks(kind, vocabulary) {
            true => Some(Checker::with_vocabulary(schema, kind, vocabulary, limits)?),
            false => None,
        };
        let members = match options.files() {
            Some((folder, paths)) => Some(FileMembers::new(folder, paths, schema, ty)?),
            None => None,
        };
        let is_lenient = unknown == Unknown::Ignore || null == Null::Absent;
        let (record, heap) = (Vec::new(), Vec::new());
        Ok(Fill {
            schema,
            ty,
            limits,
            unknown,
            is_lenient,
            encoder,
            checker,
            members,
            record,
            heap,
        })
    }

    /// Maps the columns of a table to members; empty for other rows.
    ///
    /// # Errors
    /// Returns `schema/path`, `record/unknown-member`, `input/table`.
    pub(crate) fn columns(&self, rows: &Rows) -> Result<Columns> {
        let names = rows.names().unwrap_or_default();
        Columns::new(names, self.schema, self.ty, self.unknown, rows.depth())
            .map_err(|e| rows.at_line(e, 1))
    }

    /// Checks that a row fits the schema and its keywords.
    pub(crate) fn check(&mut self, columns: &Columns, row: Row<'_>) -> Result<()> {
        let text = match row {
            Row::Json(text) if self.members.is_none() => Some(text),
            _ => None,
        };
        self.check_value(columns.value(row)?)?;
        // Parsing to a value would turn decimal numbers into doubles, so integers are checked on the text.
        match text {
            Some(text) => self.encode(|encoder, record, heap| encoder.text(text, record, heap)),
            None => Ok(()),
        }
    }

    /// Checks that a value fits the schema and its keywords.
    pub(crate) fn check_value(&mut self, mut value: Value) -> Result<()> {
        if let Some(members) = &self.members {
            members.take(self.schema, self.ty, &mut value)?;
        }
        match &self.checker {
            // With lenient options the row may differ from the schema, so the encoded record is checked instead.
            Some(checker) if !self.is_lenient => checker.one_record(value),
            _ => self.encode_value(&value),
        }
    }

    /// Adds the record of a row.
    fn put(&mut self, columns: &Columns, row: Row<'_>, to: &mut DatasetWriter) -> Result<()> {
        if let (Row::Json(text), None) = (&row, &self.members) {
            self.encode(|encoder, record, heap| encoder.text(text, record, heap))?;
            self.check_keywords()?;
            return to.raw(&self.record, &self.heap);
        }
        self.put_value(columns.value(row)?, to)
    }

    /// Adds the record with this JSON value.
    pub(crate) fn put_value(&mut self, mut value: Value, to: &mut DatasetWriter) -> Result<()> {
        let files = match &self.members {
            Some(members) => members.take(self.schema, self.ty, &mut value)?,
            None => Vec::new(),
        };
        self.encode_value(&value)?;
        if let Some(members) = &self.members {
            members.put(files, &mut self.record, &mut self.heap);
        }
        to.raw(&self.record, &self.heap)
    }

    fn encode_value(&mut self, value: &Value) -> Result<()> {
        self.encode(|encoder, record, heap| encoder.value(value, record, heap))?;
        self.check_keywords()
    }

    fn encode(
        &mut self,
        write: impl FnOnce(&mut Encoder<'s>, &mut [u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let (size, most) = (self.encoder.size(), self.limits.decoded_len);
        if size as u64 > most {
            return Err(TOO_LARGE
                .broken(format!("the record has {size} bytes; at most {most} are allowed")));
        }
        self.record.resize(size, 0);
        self.heap.clear();
        write(&mut self.encoder, &mut self.record, &mut self.heap)
    }

    /// Checks the last encoded record against the standard keywords, if they are checked.
    fn check_keywords(&self) -> Result<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let value = self.schema.record_value(self.ty, &self.record, &self.heap, self.limits)?;
        checker.one_record(value)
    }
}
