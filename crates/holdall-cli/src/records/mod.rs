//! `holdall records`: what is in the records and blobs of a file.

mod blob;
mod choose;
mod columns;
mod condition;
mod write;

use crate::exit::{Failure, Status, WHICH_DATASET};
use crate::extract::{Rows, rows};
use crate::input;
use crate::output::text::count;
use crate::session::Session;
use choose::Chosen;
use clap::Args;
use columns::Columns;
use condition::Condition;
use holdall::{File, Records, Tensor};
use std::path::PathBuf;
use write::Output;

/// Show the records of a file: by place, by column, by condition, by chance
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall records train.mt                                 the first of the one dataset there is
  holdall records train.mt --path samples --range 500..510 --json
  holdall records train.mt --columns id,at.lat --csv       two columns of all records
  holdall records train.mt --where 'label=cat' --where 'stars>=4' --columns id,caption
  holdall records train.mt --sample 5 --seed 1 --json      five by chance, the same ones each time

A record is found by its place, without reading those before it. Conditions are MEMBER=VALUE, !=,
<, <=, > and >=; a MEMBER alone asks whether it is there, !MEMBER whether it is not. All of them hold.
--json writes a JSON value on each line, --csv a table with names in its first line.")]
pub(crate) struct RecordsArgs {
    /// A file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The dataset or blob [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    /// Only records A to B (not included), as 0..64, ..64 or 64..
    #[arg(long, value_name = "A..B", value_parser = rows, allow_hyphen_values = true)]
    range: Option<Rows>,

    /// Only these members, as id,at.lat
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',')]
    columns: Vec<String>,

    /// Only records for which this holds, as 'stars>=4'; may be given again
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,

    /// N of the records by chance, in their order
    #[arg(long, value_name = "N")]
    sample: Option<u64>,

    /// What the chance starts from: the same number gives the same records
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    seed: u64,

    /// Write CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Draw a table, also of more records than fit a screen
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    table: bool,
}

/// Records that are shown when nothing says how many.
const SHOWN: u64 = 20;

/// Columns of a table that were not asked for.
const TABLE_COLUMNS: usize = 64;

/// Shows them.
pub(crate) fn run(session: &Session, args: &RecordsArgs) -> Result<Status, Failure> {
    let file = input::open(session, &args.file)?;
    let tensor = which(&file, args.path.as_deref())?;
    if tensor.layout().as_str() == "blob" {
        return blob::run(session, args, &tensor.blob()?);
    }
    let records = tensor.records()?;
    let own = |e: holdall::Error| e.in_tensor(tensor.name()).in_source(file.name());
    let most = if args.csv { usize::MAX } else { TABLE_COLUMNS };
    let columns = Columns::new(&records, &args.columns, most).map_err(own)?;
    let conditions: Vec<Condition> = args
        .conditions
        .iter()
        .map(|text| Condition::new(&records, text))
        .collect::<Result<_, _>>()
        .map_err(own)?;
    let mut chosen = chosen(args, records.len());
    let mut output = Output::new(session, args, &columns.titles, chosen.is_whole());
    show(&records, &columns, &conditions, &mut chosen, &mut output, session)?;
    output.finish(session, &count(records.len(), "record"))
}

fn show(
    records: &Records,
    columns: &Columns,
    conditions: &[Condition],
    chosen: &mut Chosen,
    output: &mut Output,
    session: &Session,
) -> Result<(), Failure> {
    let holds = |index: u64| -> holdall::Result<bool> {
        let record = records.record(index)?;
        for condition in conditions {
            if !condition.holds(&record)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let plain = conditions.is_empty();
    let mut next = chosen.begin(plain, &holds).map_err(|e| {
        let tensor = records.tensor();
        e.in_tensor(tensor.name()).in_source(tensor.file().name())
    })?;
    // Whether there are more records that would have been shown.
    while let Some(index) = next.next()? {
        if output.is_full() {
            output.more = true;
            break;
        }
        let record = records.record(index)?;
        output.record(session, &record, columns)?;
    }
    Ok(())
}

/// Which of `count` records or runs were asked for.
fn chosen(args: &RecordsArgs, count: u64) -> Chosen {
    let range = args.range.map_or(0..count, |rows| rows.range(&[count]));
    Chosen { range, count, sample: args.sample, seed: args.seed }
}

/// The dataset or blob of that name, or the only one.
fn which(file: &File, path: Option<&str>) -> Result<Tensor, Failure> {
    if let Some(path) = path {
        return Ok(file.tensor(path)?);
    }
    let has = |t: &Tensor| matches!(t.layout().as_str(), "records" | "blob");
    let mut all = file.tensors().filter(has);
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let e = WHICH_DATASET.broken("the file has no dataset of records, and no blob");
            Err(e.in_source(file.name()).into())
        }
        (Some(first), Some(second)) => {
            let mut names = vec![first.name().to_owned(), second.name().to_owned()];
            names.extend(all.take(6).map(|t| t.name().to_owned()));
            let names: Vec<String> =
                names.iter().map(|n| format!("`{}`", n.escape_debug())).collect();
            let e = WHICH_DATASET.broken("the file has several datasets and blobs");
            let e = e.with_hint(format!("name one with `--path`: {}", names.join(", ")));
            Err(e.in_source(file.name()).into())
        }
    }
}
