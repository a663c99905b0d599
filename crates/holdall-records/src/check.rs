//! Whether records fit a schema: rows that people have, and what is in a file.

use super::TensorRecords as _;
use super::rows::{Fill, FillOptions, Rows};
use super::rules::{NO_METATENSOR, UNKNOWN_LEN};
use super::{Records, choose};
use holdall_core::{EncodeOptions, Error, Layout, Result, TensorSpec, Value, formats};
use holdall_io::File;
use holdall_io::Work;
use holdall_schema::{Checker, Document, Root, SCHEMA_ATTRIBUTE, SchemaLimits};

/// What a check found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tensors of a file that were compared with the schema of one.
    pub tensors: Option<u64>,
    /// Records that were looked at.
    pub records: u64,
    /// How many things do not fit.
    pub found: u64,
    /// The first 1000 of them.
    pub findings: Vec<Finding>,
}

/// One thing that does not fit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// Where it is.
    pub at: Where,
    /// What is wrong.
    pub error: Error,
}

/// Where something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Where {
    /// In the schema, or in the header of a file.
    Whole,
    /// In this line of a text, from 1.
    Line(u64),
    /// In this record of a dataset, from 0.
    Record(u64),
}

/// Findings that are kept; all are counted.
const MOST: usize = 1000;

impl CheckReport {
    /// Whether everything fits.
    pub fn is_sound(&self) -> bool {
        self.found == 0
    }

    /// Adds something that was found.
    pub fn add(&mut self, at: Where, error: Error) {
        self.found += 1;
        if self.findings.len() < MOST {
            self.findings.push(Finding { at, error });
        }
    }
}

/// Checks a schema of its own: what of it the keywords of JSON Schema make impossible.
///
/// # Errors
/// The `schema/…` rules.
pub fn check_schema(schema: &Document, limits: &SchemaLimits) -> Result<()> {
    Checker::new(&schema.schema, &schema.json, limits)
        .map(drop)
        .map_err(|e| e.in_source(&schema.name))
}

/// Looks at every row, and says which are not records of the schema, which is that of a record.
///
/// # Errors
/// Those of reading `rows`; the `schema/…` rules; `input/table` for the names of a table.
pub fn check_rows(
    mut rows: Rows,
    schema: &Document,
    options: &FillOptions,
    limits: &SchemaLimits,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let Some(ty) = schema.schema.record() else { return Ok(report) };
    let own = |e: Error| e.in_source(&schema.name);
    let options = options.clone().with_checks();
    let fill = Fill::new(&schema.schema, &schema.json, ty, &options, limits);
    let mut fill = fill.map_err(own)?;
    let columns = fill.columns(&rows)?;
    while let Some((line, row)) = rows.next()? {
        report.records += 1;
        if let Err(e) = fill.check(&columns, row) {
            report.add(Where::Line(line), rows.at_line(e, line));
        }
    }
    Ok(report)
}

/// Compares the tensors of a file with a schema, and the values of its records, and says what does not fit.
/// The schema of a record is that of the dataset at `path`, or of the only one; of a file's schema `path`
/// chooses one dataset to look at. `work` counts the bytes of records.
///
/// # Errors
/// `records/which-dataset`; the `schema/…` rules; as [`Records::record`].
pub fn check_file(
    file: &File,
    schema: &Document,
    path: Option<&str>,
    limits: &SchemaLimits,
    work: &Work,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let mut datasets: Vec<(Records, Document)> = Vec::new();
    match schema.schema.root() {
        Root::Record(_) => {
            datasets.push((choose::dataset(file, path)?.records()?, schema.clone()));
        }
        Root::References(_) => {
            report.tensors = Some(file.len() as u64);
            if let Err(e) = header(file, schema)? {
                report.add(Where::Whole, e.in_source(file.name()));
            }
            let is_wanted = |name: &str| path.is_none_or(|path| path == name);
            for tensor in file.tensors().filter(|t| *t.layout() == Layout::Records) {
                // Where the schema has no place for it, the header does not fit.
                if let (true, Ok((_, kind))) =
                    (is_wanted(tensor.name()), schema.dataset(Some(tensor.name()), limits))
                {
                    datasets.push((tensor.records()?, kind));
                }
            }
        }
    }
    let len = |(r, _): &(Records, Document)| r.len().saturating_mul(r.extent().stride);
    work.begin(datasets.iter().map(len).fold(0, u64::saturating_add));
    for (records, kind) in &datasets {
        check_records(records, kind, limits, work, &mut report)?;
    }
    Ok(report)
}

fn check_records(
    records: &Records,
    kind: &Document,
    limits: &SchemaLimits,
    work: &Work,
    report: &mut CheckReport,
) -> Result<()> {
    let checker = Checker::new(&kind.schema, &kind.json, limits);
    let checker = checker.map_err(|e| e.in_source(&kind.name))?;
    for record in records.iter(0..records.len())? {
        let record = record?;
        report.records += 1;
        let index = record.index();
        let found = record
            .to_value()
            .and_then(|value| checker.one_record(value).map_err(|e| records.in_record(e, index)));
        if let Err(e) = found {
            report.add(Where::Record(index), e);
        }
        work.advance(records.extent().stride)?;
    }
    Ok(())
}

/// Whether the tensors of a file could stand under that schema, asked of what would write them so.
fn header(file: &File, schema: &Document) -> Result<Result<()>> {
    let format = formats::with_schema().and_then(|format| format.encode);
    let encode = format.ok_or_else(|| NO_METATENSOR.broken("this build has no Metatensor"))?;
    let mut specs = Vec::new();
    for tensor in file.tensors() {
        specs.push(TensorSpec::of(tensor.info()).ok_or_else(|| {
            let e = UNKNOWN_LEN.broken("only decoding it says how long it is");
            e.in_tensor(tensor.name()).in_source(file.name())
        })?);
    }
    let mut attributes = file.attributes().clone();
    attributes.set(SCHEMA_ATTRIBUTE, Value::Text(schema.json.to_string()));
    let mut encoder = encode(&EncodeOptions::new())?;
    Ok(specs
        .iter()
        .try_for_each(|spec| encoder.check_tensor(spec))
        .and_then(|()| encoder.check_attributes(&attributes))
        .and_then(|()| encoder.begin(&attributes, &specs).map(|_| ())))
}
