//! Adds rows to a dataset of a file.

use crate::build::Build;
use crate::rows::{FillOptions, Rows};
use crate::schemas::{schema_of_dataset, schema_of_file};
use crate::{BuildReport, TensorRecords as _};
use holdall_core::Result;
use holdall_core::ledger::Expected;
use holdall_io::{Check, File, WriteOptions, ledger, with_work};
use holdall_schema::{SCHEMA_ATTRIBUTE, SchemaLimits};
use std::path::Path;

/// Adds rows to a dataset of a file by writing a new file, to which everything else is copied as it is. Programs that
/// read the old file are not disturbed, even if the new one takes its place.
///
/// ```no_run
/// # fn main() -> holdall_core::Result<()> {
/// use holdall_io::WriteOptions;
/// use holdall_records::{Append, Rows};
/// let file = holdall_io::open("points.mt")?;
/// let options = WriteOptions::new().with_overwrite(true);
/// let report = Append::new().run(&file, Rows::open("more.csv")?, "points.mt", &options)?;
/// println!("{} records, {} of them new", report.records, report.added);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Append {
    dataset: Option<String>,
    filling: FillOptions,
    limits: SchemaLimits,
    reencode: bool,
    work: holdall_io::Work,
}

/// The result of an [`Append`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendReport {
    /// The path of the dataset.
    pub dataset: String,
    /// The number of its records in the new file.
    pub records: u64,
    /// The number of records that were added.
    pub added: u64,
    /// The length of the new file in bytes.
    pub target_len: u64,
    /// Other parts of the source that the new file lacks, because this version does not know them or the format cannot
    /// hold them.
    pub left_behind: Vec<String>,
}

impl Append {
    /// Adds rows to the only dataset of a file, with the default options for converting them.
    pub fn new() -> Append {
        Append::default()
    }

    /// Sets the dataset to which rows are added.
    pub fn with_dataset(mut self, path: impl Into<String>) -> Append {
        self.dataset = Some(path.into());
        self
    }

    /// Sets how rows become records.
    pub fn with_filling(mut self, filling: FillOptions) -> Append {
        self.filling = filling;
        self
    }

    /// Encodes every component with the encoding of the write options (raw by default, or zstd), instead of copying
    /// compressed components as they are and compressing the records as those of the file are.
    pub fn reencode(mut self) -> Append {
        self.reencode = true;
        self
    }

    /// Writes a new file at `path`: `file` with these rows after the records of the dataset. The old records are copied
    /// as bytes, after they were compared with their digests. Memory does not grow with the number of records.
    ///
    /// # Errors
    /// Returns `records/which-dataset` or `file/no-tensor` if it is not clear which dataset is meant; an integrity error
    /// if the old records do not have their digest; the errors of [`DatasetWriter::fill`](crate::DatasetWriter::fill); and those of
    /// [`Build::create`] and [`Build::finish`]. After an error, an existing file at the path is unchanged.
    pub fn run(
        &self,
        file: &File,
        rows: Rows,
        path: impl AsRef<Path>,
        options: &WriteOptions,
    ) -> Result<AppendReport> {
        let tensor = crate::dataset(file, self.dataset.as_deref())?;
        let name = tensor.name().to_owned();
        let records = tensor.records()?;
        let kind = schema_of_dataset(file, &name)?;
        let mut attributes = file.attributes().clone();
        attributes.remove(SCHEMA_ATTRIBUTE);
        let options = options.clone().with_attributes(attributes);
        let mut build = Build::create(path, &options)?.with_limits(self.limits.clone());
        if let Some(schema) = schema_of_file(file)? {
            build = build.with_document(&schema)?;
        }
        let mut report =
            AppendReport { dataset: name.clone(), records: records.len(), ..Default::default() };
        let mut rows = Some(rows);
        for other in file.tensors() {
            let Some(rows) = rows.take_if(|_| other.name() == name) else {
                match self.reencode {
                    true => build.copy(&other)?,
                    false => build.copy_encoded(&other)?,
                }
                continue;
            };
            let dataset = build.dataset_with_schema(&name, &kind.json)?;
            let dataset = dataset.with_schema_text(kind.normal_text());
            let mut dataset = dataset.with_vocabulary(kind.vocabulary.clone());
            // The new file gets new digests, so the old bytes are verified first.
            tensor.checked_with(Check::All).compare_all()?;
            dataset.copy_all(&records, &self.work).map_err(|e| e.in_source(file.name()))?;
            report.added = dataset.fill(rows, &self.filling)?;
            report.records = dataset.len();
            match self.reencode {
                true => build.add_with(dataset, tensor.attributes())?,
                false => build.add_like(dataset, &tensor)?,
            }
        }
        let mut expected = Expected::new();
        expected.change_attribute(SCHEMA_ATTRIBUTE);
        let change = expected.tensor(&name);
        (change.elements, change.shape) = (true, true);
        if options.is_digest_chosen() {
            expected.choose_digests();
        }
        let (BuildReport { target_len, .. }, left_behind) = build.finish_from(|record, ties| {
            expected.set_ties(ties);
            ledger::close(file, record, &expected)
        })?;
        (report.target_len, report.left_behind) = (target_len, left_behind);
        Ok(report)
    }
}

with_work!(Append);
