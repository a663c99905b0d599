//! Whether records fit a schema: rows that people have, and what is in a file.

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
    Checker, Converters, Document, KIND_ATTRIBUTE, Node, Resolution, ResolveOptions, Root,
    SCHEMA_ATTRIBUTE, SchemaLimits, TypeId, resolve,
};

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
    pub at: FindingLocation,
    /// What is wrong.
    pub error: Error,
}

/// Where something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingLocation {
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
    pub fn add(&mut self, at: FindingLocation, error: Error) {
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
    Checker::with_vocabulary(&schema.schema, &schema.json, &schema.vocabulary, limits)
        .and_then(|checker| checker.defaults(&schema.json, &schema.vocabulary))
        .map_err(|e| e.in_source(&schema.name))
}

/// Patterns of a schema that values are not checked against: see [`Checker::unverified`].
///
/// # Errors
/// The `schema/…` rules.
pub fn unverified_patterns(schema: &Document, limits: &SchemaLimits) -> Result<Vec<String>> {
    let checker =
        Checker::with_vocabulary(&schema.schema, &schema.json, &schema.vocabulary, limits);
    let checker = checker.map_err(|e| e.in_source(&schema.name))?;
    let mut found: Vec<String> = checker.unverified().map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Ok(found)
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
    if schema.schema.extent(ty).map_err(own)?.stride == 0 {
        // No dataset has such records.
        let e = SIZE.broken("records of 0 bytes");
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
            if let Err(e) = header(file, schema, limits)? {
                report.add(FindingLocation::Whole, e.in_source(file.name()));
            }
            let is_wanted = |name: &str| path.is_none_or(|path| path == name);
            for tensor in file.tensors().filter(|t| *t.layout() == Layout::Records) {
                // Where the schema has no member for it, the header does not fit.
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
    // Where records do not become those of the schema, what they are as JSON tells which of them fit.
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

/// How the records of a file become those of a schema, as in a migration (8.4).
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

/// Whether the tensors of a file could stand under that schema, asked of what would write them so. They are
/// taken as what a migration makes of them, which is told nothing.
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
            let e = UNKNOWN_LEN.broken("only decoding it says how long it is");
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
        Ok(lacking) => specs.extend(lacking.filled.into_iter().map(|flat| flat.spec)),
        Err(e) => return Ok(Err(e)),
    }
    fits(&specs, file.attributes(), &schema.json)
}

/// A dataset as what it is under another schema.
fn migrated(spec: &mut TensorSpec, kind: &Document, ty: TypeId) -> Result<()> {
    spec.attributes.set(KIND_ATTRIBUTE, Value::Text(kind.json.to_string()));
    let count = spec.shape.first().copied().unwrap_or(0);
    let len = count.saturating_mul(kind.schema.extent(ty)?.stride);
    spec.components.retain(|c| c.role == Role::Data);
    spec.components.iter_mut().for_each(|data| data.decoded_len = len);
    if kind.schema.ty(ty).heap_align.is_some() {
        // How long it will be says nothing about whether it fits.
        spec.components.push(ComponentSpec::new(Role::BlobData, DType::U8, 0));
    }
    Ok(())
}

/// Whether tensors and attributes could stand in one file under a schema.
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
