//! Rows into a dataset.

use super::files::FileMembers;
use super::{Columns, Row, Rows};
use crate::DatasetWriter;
use holdall_core::Result;
use holdall_schema::record::rules::TOO_LARGE;
use holdall_schema::record::{Null, Unknown};
use holdall_schema::{Checker, Encoder, Schema, SchemaLimits, TypeId, Vocabulary, says_more};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How rows become records.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FillOptions {
    /// What becomes of members that the schema does not have.
    pub unknown: Unknown,
    /// What `null` for an optional member is.
    pub null: Null,
    pub(crate) checks: Checks,
    files: Option<(PathBuf, Vec<String>)>,
}

/// Which records are checked against the standard keywords of their schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Checks {
    /// Those of schemas that say more than their kinds, where this build can check them.
    #[default]
    WhereSaid,
    /// All of them.
    All,
    /// None of them.
    None,
}

impl FillOptions {
    /// Every member is one that the schema has, `null` is a value, and records are checked against the standard keywords where
    /// the schema says more than its kinds.
    pub fn new() -> FillOptions {
        FillOptions::default()
    }

    /// What becomes of members that the schema does not have.
    pub fn with_unknown(mut self, unknown: Unknown) -> FillOptions {
        self.unknown = unknown;
        self
    }

    /// What `null` for an optional member is.
    pub fn with_null(mut self, null: Null) -> FillOptions {
        self.null = null;
        self
    }

    /// Checks every record against all keywords of the schema (`minimum`, `pattern` and the like) too.
    pub fn with_checks(mut self) -> FillOptions {
        self.checks = Checks::All;
        self
    }

    /// Checks no record against the standard keywords of the schema: it is read as its kinds alone.
    pub fn without_checks(mut self) -> FillOptions {
        self.checks = Checks::None;
        self
    }

    /// Returns `true` if records of that schema are checked.
    pub(crate) fn checks(&self, kind: &Value, vocabulary: &Vocabulary) -> bool {
        match self.checks {
            Checks::All => true,
            Checks::None => false,
            Checks::WhereSaid => Checker::IS_BUILT && (!vocabulary.is_empty() || says_more(kind)),
        }
    }

    /// Takes the bytes, or the text, of these members from the files of `folder` that the records name in
    /// their places.
    pub fn with_files(
        mut self,
        folder: impl Into<PathBuf>,
        members: impl IntoIterator<Item = String>,
    ) -> FillOptions {
        self.files = Some((folder.into(), members.into_iter().collect()));
        self
    }

    /// Whether rows are what the schema says and no more.
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
    /// Adds a record for each row, in order. Lines of JSON are encoded on several threads, unless `options`
    /// ask for more than the schema says. Gives their number.
    ///
    /// # Errors
    /// As [`DatasetWriter::text`], with the number of the line, and of columns as [`DatasetWriter::batch`]; those of reading
    /// `rows`; `input/table`, `build/file-name`; `record/keyword`. Records of the lines before
    /// have been added then.
    pub fn fill(&mut self, mut rows: Rows, options: &FillOptions) -> Result<u64> {
        let before = self.len();
        let is_plain = options.is_plain(&self.kind, &self.vocabulary);
        if is_plain && let Some(reader) = rows.take_lines() {
            return self.lines(reader).map_err(|e| e.in_source(rows.name()));
        }
        if let Some(batches) = rows.take_batches() {
            self.batches(batches, options).map_err(|e| e.in_source(rows.name()))?;
            return Ok(self.len() - before);
        }
        // The writer changes while its schema is at work.
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

/// What makes records of the values of rows, or says why they are not.
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
    /// `kind` is the JSON of the schema.
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

    /// The members that the columns of a table are; none for other rows.
    ///
    /// # Errors
    /// `schema/path`, `record/unknown-member`, `input/table`.
    pub(crate) fn columns(&self, rows: &Rows) -> Result<Columns> {
        let names = rows.names().unwrap_or_default();
        Columns::new(names, self.schema, self.ty, self.unknown, rows.depth())
            .map_err(|e| rows.at_line(e, 1))
    }

    /// Says why a row does not fit the schema and its keywords.
    pub(crate) fn check(&mut self, columns: &Columns, row: Row<'_>) -> Result<()> {
        let text = match row {
            Row::Json(text) if self.members.is_none() => Some(text),
            _ => None,
        };
        self.check_value(columns.value(row)?)?;
        // A value has doubles where the text has decimals: an integer is one or is none by its text.
        match text {
            Some(text) => self.encode(|encoder, record, heap| encoder.text(text, record, heap)),
            None => Ok(()),
        }
    }

    fn check_value(&mut self, mut value: Value) -> Result<()> {
        if let Some(members) = &self.members {
            members.take(self.schema, self.ty, &mut value)?;
        }
        match &self.checker {
            // Where more is taken than the schema says, what is written is as it says.
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
        let mut value = columns.value(row)?;
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
            return Err(TOO_LARGE.broken(format!("a record of {size} bytes, over {most}")));
        }
        self.record.resize(size, 0);
        self.heap.clear();
        write(&mut self.encoder, &mut self.record, &mut self.heap)
    }

    /// Checks the record encoded last against the standard keywords, if they are asked for.
    fn check_keywords(&self) -> Result<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let value = self.schema.record_value(self.ty, &self.record, &self.heap, self.limits)?;
        checker.one_record(value)
    }
}
