//! Checks whether records fit a schema: rows from other files, and the records of a file.

use super::TensorRecords as _;
use super::migrate::missing::missing;
use super::migrate::tensors::Flat;
use super::reread::Reread;
use super::rows::{Fill, FillOptions, Rows};
use super::rules::{NO_METATENSOR, UNKNOWN_LEN, WHICH_DATASET};
use super::{Records, choose};
use holdall_core::layout::records::SIZE;
use holdall_core::{
    Attributes, ComponentSpec, DType, EncodeOptions, Error, Layout, Result, Role, TensorSpec, Value,
};
use holdall_io::File;
use holdall_io::Work;
use holdall_schema::{
    Checker, Converters, Document, Node, Resolution, ResolveOptions, Root, SCHEMA_ATTRIBUTE,
    SchemaLimits, TENSOR_SCHEMA_ATTRIBUTE, TypeId, resolve,
};

/// The result of a check.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of tensors of a file that were compared with the schema of a file.
    pub tensors: Option<u64>,
    /// Number of records that were checked.
    pub records: u64,
    /// Number of findings.
    pub found: u64,
    /// The first 1000 findings.
    pub findings: Vec<Finding>,
}

/// Something that does not fit the schema.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The location of the finding.
    pub location: FindingLocation,
    /// The error.
    pub error: Error,
}

/// The location of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingLocation {
    /// The schema, or the header of a file.
    Whole,
    /// The line of a text with this number, counted from 1.
    Line(u64),
    /// The record of a dataset with this index, counted from 0.
    Record(u64),
}

/// Number of findings to keep; all are counted.
const MAX_FINDINGS: usize = 1000;

impl CheckReport {
    /// Returns `true` if there are no findings.
    pub fn is_sound(&self) -> bool {
        self.found == 0
    }

    /// Adds a finding.
    pub fn add(&mut self, location: FindingLocation, error: Error) {
        self.found += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { location, error });
        }
    }
}

/// Checks a schema by itself: whether it is valid, and whether its defaults satisfy its keywords.
///
/// # Errors
/// Returns an error of the `schema/…` rules.
pub fn check_schema(schema: &Document, limits: &SchemaLimits) -> Result<()> {
    Checker::with_vocabulary(&schema.schema, &schema.json, &schema.vocabulary, limits)
        .and_then(|checker| checker.defaults(&schema.json, &schema.vocabulary))
        .map_err(|e| e.in_source(&schema.name))
}

/// Returns the patterns of a schema that values are not checked against: see [`Checker::unverified`].
///
/// # Errors
/// Returns an error of the `schema/…` rules.
pub fn unverified_patterns(schema: &Document, limits: &SchemaLimits) -> Result<Vec<String>> {
    let checker =
        Checker::with_vocabulary(&schema.schema, &schema.json, &schema.vocabulary, limits);
    let checker = checker.map_err(|e| e.in_source(&schema.name))?;
    let mut found: Vec<String> = checker.unverified().map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Checks every row, and reports the rows that are not records of `schema`, which must be the schema of a record.
///
/// # Errors
/// Returns the errors of reading `rows`; an error of the `schema/…` rules if the schema is invalid; `input/table` for
/// invalid names in the first line of a table.
pub fn check_rows(
    mut rows: Rows,
    schema: &Document,
    options: &FillOptions,
    limits: &SchemaLimits,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let Some(ty) = schema.schema.record() else { return Ok(report) };
    let own = |e: Error| e.in_source(&schema.name);
    if schema.schema.extent(ty).map_err(own)?.stride == 0 {
        // A dataset cannot contain such records.
        let e = SIZE.broken("a record has 0 bytes");
        report.add(FindingLocation::Whole, own(e));
        return Ok(report);
    }
    if let Some(batches) = rows.take_batches() {
        let checked = batches.check(schema, ty, options, limits, &mut report);
        checked.map_err(|e| e.in_source(rows.name()))?;
        return Ok(report);
    }
    let options = options.clone().with_checks();
    let vocabulary = &schema.vocabulary;
    let fill = Fill::new(&schema.schema, &schema.json, ty, vocabulary, &options, limits);
    let mut fill = fill.map_err(own)?;
    let columns = fill.columns(&rows)?;
    while let Some((line, row)) = rows.next()? {
        report.records += 1;
        if let Err(e) = fill.check(&columns, row) {
            report.add(FindingLocation::Line(line), rows.at_line(e, line));
        }
    }
    Ok(report)
}

/// Compares the tensors of a file with a schema, and the values of its records, and reports what does not fit. A schema
/// of a record is compared with the dataset at `path`, or with the only dataset. With a schema of a file, `path`
/// chooses one dataset to check. `work` counts the bytes of records.
///
/// # Errors
/// Returns `records/which-dataset` if it is not clear which dataset is meant, an error of the `schema/…` rules if the
/// schema is invalid, and the errors of [`Records::record`].
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
            if let Err(e) = header(file, schema, limits)? {
                report.add(FindingLocation::Whole, e.in_source(file.name()));
            }
            let is_wanted = |name: &str| path.is_none_or(|path| path == name);
            for tensor in file.tensors().filter(|t| *t.layout() == Layout::Records) {
                // If the schema has no such dataset, comparing the header reports it.
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
    let checker = Checker::with_vocabulary(&kind.schema, &kind.json, &kind.vocabulary, limits);
    let checker = checker.map_err(|e| e.in_source(&kind.name))?;
    let own = |e: Error| {
        let tensor = records.tensor();
        e.in_tensor(tensor.name()).in_source(tensor.file().name())
    };
    let converters = Converters::new();
    let resolved = resolved(records, kind, limits);
    // If the records cannot be converted to the schema, their JSON is checked instead.
    let mut reread = match &resolved {
        Ok((_, resolution)) => {
            if let Err(e) = resolution.keeps_all() {
                report.add(FindingLocation::Whole, own(e));
            }
            Some(Reread::new(records, resolution, &converters, limits).map_err(own)?)
        }
        Err(e) => {
            report.add(FindingLocation::Whole, own(e.clone()));
            None
        }
    };
    for record in records.iter(0..records.len())? {
        let record = record?;
        report.records += 1;
        let index = record.index();
        let value = match (&mut reread, &resolved) {
            (Some(reread), Ok((ty, _))) => reread
                .record(&record)
                .and_then(|(bytes, heap)| kind.schema.record_value(*ty, bytes, heap, limits))
                .map_err(|e| records.in_record(e, index)),
            _ => record.to_value(),
        };
        let found = value
            .and_then(|value| checker.one_record(value).map_err(|e| records.in_record(e, index)));
        if let Err(e) = found {
            report.add(FindingLocation::Record(index), e);
        }
        work.advance(records.extent().stride)?;
    }
    Ok(())
}

/// Resolves the records of a file against a schema, as a migration does (8.4).
fn resolved(
    records: &Records,
    kind: &Document,
    limits: &SchemaLimits,
) -> Result<(TypeId, Resolution)> {
    let Some(ty) = kind.schema.record() else {
        return Err(WHICH_DATASET.broken("this is not the schema of a record"));
    };
    let options = ResolveOptions::default().with_limits(limits.clone());
    Ok((ty, resolve(records.schema(), records.ty(), &kind.schema, ty, &options)?))
}

/// Checks whether the tensors of a file fit a schema, with the same code that writes such a file. The tensors are
/// compared in the form that a migration without options would give them.
fn header(file: &File, schema: &Document, limits: &SchemaLimits) -> Result<Result<()>> {
    let mut specs = Vec::new();
    for tensor in file.tensors() {
        if let (Layout::Dense, Ok(id)) = (tensor.layout(), schema.find_node(tensor.name()))
            && let Node::Flat { tensor: to, .. } = schema.schema.node(id)
            && tensor.sound().is_ok()
        {
            match Flat::new(&tensor, tensor.name(), to, None) {
                Ok(flat) => specs.push(flat.spec),
                Err(e) => return Ok(Err(e.in_tensor(tensor.name()))),
            }
            continue;
        }
        specs.push(TensorSpec::from_info(tensor.info()).ok_or_else(|| {
            let e = UNKNOWN_LEN.broken("the decoded length is only known after decoding it");
            e.in_tensor(tensor.name()).in_source(file.name())
        })?);
        if let (Layout::Records, Ok((_, kind)), Some(spec)) =
            (tensor.layout(), schema.dataset(Some(tensor.name()), limits), specs.last_mut())
            && let Ok((ty, _)) = resolved(&tensor.records()?, &kind, limits)
        {
            migrated(spec, &kind, ty)?;
        }
    }
    match missing(schema, specs.iter().map(|spec| spec.name.clone()), limits) {
        Ok(missing_tensors) => {
            specs.extend(missing_tensors.filled.into_iter().map(|flat| flat.spec))
        }
        Err(e) => return Ok(Err(e)),
    }
    fits(&specs, file.attributes(), &schema.json)
}

/// Changes the description of a dataset to that under another schema.
fn migrated(spec: &mut TensorSpec, kind: &Document, ty: TypeId) -> Result<()> {
    spec.attributes.set(TENSOR_SCHEMA_ATTRIBUTE, Value::Text(kind.json.to_string()));
    let count = spec.shape.first().copied().unwrap_or(0);
    let len = count.saturating_mul(kind.schema.extent(ty)?.stride);
    spec.components.retain(|c| c.role == Role::Data);
    spec.components.iter_mut().for_each(|data| data.decoded_len = len);
    if kind.schema.ty(ty).heap_align.is_some() {
        // Whether it fits does not depend on its length.
        spec.components.push(ComponentSpec::new(Role::BlobData, DType::U8, 0));
    }
    Ok(())
}

/// Checks whether tensors and attributes fit in one file under a schema.
pub(crate) fn fits(
    specs: &[TensorSpec],
    attributes: &Attributes,
    schema: &serde_json::Value,
) -> Result<Result<()>> {
    let format = holdall_formats::with_schema().and_then(|format| format.encode);
    let encode = format.ok_or_else(|| NO_METATENSOR.broken("this build has no Metatensor"))?;
    let mut attributes = attributes.clone();
    attributes.set(SCHEMA_ATTRIBUTE, Value::Text(schema.to_string()));
    let mut encoder = encode(&EncodeOptions::new())?;
    Ok(specs
        .iter()
        .try_for_each(|spec| encoder.check_tensor(spec))
        .and_then(|()| encoder.check_attributes(&attributes))
        .and_then(|()| encoder.begin(&attributes, specs).map(|_| ())))
}
