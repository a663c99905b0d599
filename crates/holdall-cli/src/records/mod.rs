//! `holdall records`: shows the records and blobs in a file.

mod blob;
mod write;

use crate::exit::{Failure, Status};
use crate::extract::{Rows, rows};
use crate::input;
use crate::output::as_json;
use crate::output::text::count;
use crate::schema::evolution::Evolution;
use crate::schema::read;
use crate::session::Session;
use crate::tables::{self, Columns};
use clap::{ArgGroup, Args};
use holdall::records::{self, Export, Group, Migration, RecordForm, Sample};
use holdall::schema::Reading;
use holdall::{File, Records, TensorRecords as _};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use write::Output;

/// Show the records of a file: by index, by column, by condition, or a random sample
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("written").args(["files", "parquet", "arrow"]).multiple(true))]
#[command(after_help = "Examples:
  holdall records train.mt                                 the first records of the only dataset
  holdall records train.mt --path samples --range 500..510 --json
  holdall records train.mt --columns id,at.lat --csv       two columns of all records
  holdall records train.mt --where 'label=cat' --where 'stars>=4' --columns id,caption
  holdall records train.mt --sample 5 --seed 1 --json      five random ones, reproducible
  holdall records train.mt --where 'label in (cat, dog) and not stars<3' --sort=-stars,id
  holdall records train.mt --group label                   the number of records per label
  holdall records train.mt --group label --aggregate 'mean(stars),max(at.lat)'
  holdall records train.mt --csv --files out --file-member image    save a member as files
  holdall records train.mt --where 'stars>=4' --parquet good.parquet
  holdall records old.mt --schema new.json --rename text=caption    with another schema

Any record can be read without reading those before it. Conditions are MEMBER=VALUE, !=, <, <=, > and >=; \
MEMBER in (VALUE, VALUE); MEMBER between VALUE and VALUE; MEMBER is null; MEMBER like PATTERN, with % for any \
text and _ for a character; and MEMBER contains VALUE, for text and arrays. A VALUE can be another member: \
width<height, or title=member(caption) for texts. MEMBER alone is true if the member \
is present (for a Boolean, if it is true), !MEMBER if it is not. Conditions are combined with `and`, `or`, `not` \
and parentheses; a VALUE that contains such words is quoted like JSON text. All --where must hold.
With --schema, records are converted while they are read, to the result of `holdall schema migrate`; members \
that the schema does not have are ignored.
--json prints one JSON value per line, --csv a table with names in its first line; --parquet and --arrow write \
files of columns, which appear when they are complete.")]
pub(crate) struct RecordsArgs {
    /// A file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The dataset or blob [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    /// Read the file with this schema: of a record, or of the whole file
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<PathBuf>,

    #[command(flatten)]
    evolution: Evolution,

    /// Only records A to B (excluding B), such as 0..64, ..64 or 64..
    #[arg(long, value_name = "A..B", value_parser = rows, allow_hyphen_values = true)]
    range: Option<Rows>,

    /// Only these members, such as id,at.lat
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',')]
    columns: Vec<String>,

    /// Only records that match this condition, such as 'stars>=4'; can be repeated
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,

    /// Sort by these members, such as id,-stars; `-` means descending
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,

    /// Print only the number of records
    #[arg(long, conflicts_with_all = ["sort", "columns", "group", "aggregate", "files", "csv", "table"])]
    count: bool,

    /// Print the number of records for each combination of these members' values, the most frequent first
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',', conflicts_with_all = ["sort", "columns", "files"])]
    group: Vec<String>,

    /// Also print these aggregates of each group, or of all records: count, sum, min, max, mean or std of a MEMBER
    #[arg(long, value_name = "FUNCTION(MEMBER)", value_delimiter = ',', conflicts_with_all = ["sort", "columns", "files", "count"])]
    aggregate: Vec<String>,

    /// Write the bytes of --file-member into files in this folder, and show the files' names instead
    #[arg(long, value_name = "DIR", requires = "file_member")]
    files: Option<PathBuf>,

    /// The member, bytes or text, to write into files
    #[arg(long, value_name = "MEMBER", requires = "files")]
    file_member: Option<String>,

    /// The member that names the files [default: the indices of the records]
    #[arg(long, value_name = "MEMBER", requires = "files")]
    file_names: Option<String>,

    /// Replace existing files
    #[arg(short, long, requires = "written")]
    force: bool,

    /// Only N random records, in the order of the file
    #[arg(long, value_name = "N")]
    sample: Option<u64>,

    /// Random seed: the same seed selects the same records
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    seed: u64,

    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Print a table, even of more records than fit on a screen
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    table: bool,

    /// Write a Parquet file
    #[arg(long, value_name = "OUT", conflicts_with_all = ["csv", "table", "count", "group", "aggregate", "files", "arrow"])]
    parquet: Option<PathBuf>,

    /// Write an Arrow IPC file, which other programs can map
    #[arg(long, value_name = "OUT", conflicts_with_all = ["csv", "table", "count", "group", "aggregate", "files"])]
    arrow: Option<PathBuf>,
}

/// Default number of records that are shown.
const SHOWN: u64 = 20;

/// Maximum number of columns of a table, unless they are named.
const TABLE_COLUMNS: usize = 64;

/// Prints records.
pub(crate) fn run(session: &Session, args: &RecordsArgs) -> Result<Status, Failure> {
    input::check_once([&args.file].into_iter().chain(&args.schema))?;
    let file = input::open(session, &args.file)?;
    let file = match &args.schema {
        Some(schema) => viewed_with(session, args, &file, schema)?,
        None => file,
    };
    let tensor = records::dataset_or_blob(&file, args.path.as_deref())?;
    if tensor.layout().as_str() == "blob" {
        return blob::run(session, args, &tensor.blob()?);
    }
    let records = tensor.records()?;
    let columns = match args.columns.is_empty() {
        true if args.csv => records.all_columns(usize::MAX)?,
        true => records.all_columns(TABLE_COLUMNS)?,
        false => records.columns(&args.columns)?,
    };
    let mut query = records.query().with_range(args.range(records.len()));
    for condition in &args.conditions {
        query = query.with_condition(condition)?;
    }
    if let Some(Sample { count, seed }) = args.sample() {
        query = query.with_sample(count, seed);
    }
    if args.count {
        return counted(session, query.count()?);
    }
    if !args.group.is_empty() || !args.aggregate.is_empty() {
        return groups(session, args, &query.groups(&args.group, &args.aggregate)?);
    }
    if !args.sort.is_empty() {
        query = query.with_order(&args.sort)?;
    }
    query = match args.columns.is_empty() {
        true => query.with_parts([records.accessor("")?]),
        false => query.with_parts(columns.parts().cloned()),
    };
    if let Some((form, out)) = args.columns_file() {
        let rows = Columns::Records(&records, query, &args.columns);
        return tables::write(session, rows, form, out, args.force);
    }
    let mut export = args.export(&records)?;
    let whole = args.is_whole(records.len());
    let mut output = Output::new(session, args, columns.names(), whole && export.is_none());
    for record in query.run()? {
        if output.is_full() {
            output.more = true;
            break;
        }
        match &mut export {
            Some(export) => output.exported(session, &record?, &columns, export)?,
            None => output.record(session, &record?, &columns)?,
        }
    }
    output.finish(session, &count(records.len(), "record"))
}

/// Prints the number of records.
fn counted(session: &Session, count: u64) -> Result<Status, Failure> {
    match session.json() {
        true => writeln!(session.out(), "{}", as_json(&holdall::fields!(count: count)))?,
        false => writeln!(session.out(), "{count}")?,
    }
    Ok(Status::Fine)
}

/// Prints the number of records per combination of values.
fn groups(session: &Session, args: &RecordsArgs, groups: &[Group]) -> Result<Status, Failure> {
    let trimmed =
        |all: &[String]| -> Vec<String> { all.iter().map(|name| name.trim().to_owned()).collect() };
    let titles =
        [trimmed(&args.group), vec!["count".to_owned()], trimmed(&args.aggregate)].concat();
    let mut output = Output::new(session, args, &titles, true);
    for (place, group) in (0..).zip(groups) {
        if output.is_full() {
            output.more = true;
            break;
        }
        let values = group.values.iter().cloned().chain([Some(group.count.to_string())]);
        let values = values.chain(group.aggregates.iter().cloned()).collect();
        output.values(session, place, values)?;
    }
    output.finish(session, &count(groups.len() as u64, "group"))
}

/// Returns the file viewed with another schema.
fn viewed_with(
    session: &Session,
    args: &RecordsArgs,
    file: &File,
    schema: &Path,
) -> Result<File, Failure> {
    let schema = read::schema(session, schema, Reading::ByContent)?;
    let mut migration = Migration::new(schema).with_limits(session.global.limits().schema_limits());
    if let Some(path) = args.path.as_deref().filter(|path| file.index().get(path).is_some()) {
        migration = migration.with_dataset(path);
    }
    Ok(args.evolution.apply(migration)?.view(file)?)
}

impl RecordsArgs {
    /// Returns the form and path of the file of columns to write, if requested.
    fn columns_file(&self) -> Option<(RecordForm, &Path)> {
        let parquet = self.parquet.as_deref().map(|out| (RecordForm::Parquet, out));
        parquet.or(self.arrow.as_deref().map(|out| (RecordForm::Arrow, out)))
    }

    /// Returns the writer of the members' files, if requested.
    fn export(&self, records: &Records) -> Result<Option<Export>, Failure> {
        let (Some(folder), Some(member)) = (&self.files, &self.file_member) else {
            return Ok(None);
        };
        let mut export = records.export(member, folder)?.with_overwrite(self.force);
        if let Some(names) = &self.file_names {
            export = export.with_names(records, names)?;
        }
        Ok(Some(export))
    }

    /// Returns the requested range of the `count` records or runs.
    fn range(&self, count: u64) -> Range<u64> {
        self.range.map_or(0..count, |rows| rows.range(&[count]))
    }

    fn sample(&self) -> Option<Sample> {
        self.sample.map(|count| Sample { count, seed: self.seed })
    }

    /// Returns `true` if all `count` records or runs are requested.
    fn is_whole(&self, count: u64) -> bool {
        self.range(count) == (0..count) && self.sample.is_none()
    }
}
