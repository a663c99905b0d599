//! `holdall schema migrate`.

use super::evolution::Evolution;
use super::{plan, read};
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, escape, escape_path};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::Args;
use holdall::records::{Migration, MigrationReport};
use holdall::schema::Reading;
use holdall::schema::rules::DROPS_MEMBER;
use holdall::{Error, File, fields};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Rewrite a file with another schema: its records, or the tensors of a model
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema migrate old.mt new.json -o new.mt                  members match by name
  holdall schema migrate old.mt new.json -o new.mt --rename text=caption
  holdall schema migrate old.mt new.json -o new.mt --drop           omit removed members
  holdall schema migrate model.mt whole.json -o new.mt --rename up.weight=w1 --drop
  holdall schema migrate model.mt half.json -o half.mt --convert 'encoder.w=cast'
  holdall schema migrate old.mt new.json --dry-run                  show the plan

Converters compute values that cannot be derived automatically; `|` chains several:
  cast                  another number type: floats are rounded to nearest, ties to even;
                        values out of range are refused; cast(saturate) clamps them
  round  scale(K)  offset(K)  clamp(MIN,MAX)         numbers
  map(OLD=NEW,…)        numbers, texts, values of enums; *=NEW for all others
  parse  text           text to a number, anything to text
  split(SEP)  join(SEP) text to a list of texts, and back; join(SEP,MEMBER,…) of a struct
  member(NAME)          another member of the struct, for a member that the file does not have
  const(VALUE)          the same value for all
  reshape               a tensor with another shape and the same number of elements

Numbers are widened, enum values and union variants match by name, and new members and tensors get their \
default or are absent; `holdall schema diff` shows the changes beforehand. Nothing is left out without --drop. \
Everything else in the file stays unchanged. Records are processed one by one, so memory use does not grow with \
the file.")]
pub(crate) struct MigrateArgs {
    /// The file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The new schema (JSON): of a record, or of the whole file
    #[arg(value_name = "SCHEMA")]
    schema: PathBuf,

    /// The file to write
    #[arg(short, long, value_name = "OUT", required_unless_present = "dry_run")]
    output: Option<PathBuf>,

    /// Show what would be done, without writing anything
    #[arg(long)]
    dry_run: bool,

    /// The dataset that a record's schema is for [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    #[command(flatten)]
    evolution: Evolution,

    /// Omit members and tensors that the new schema does not have
    #[arg(long)]
    drop: bool,

    /// Replace OUT if it exists
    #[arg(short, long)]
    force: bool,

    /// The output format, with a version if wanted [default: by OUT's extension]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,

    #[command(flatten)]
    writing: Writing,
}

/// Migrates a file.
pub(crate) fn run(session: &Session, args: &MigrateArgs) -> Result<Status, Failure> {
    input::check_once([&args.file, &args.schema])?;
    if let Some(output) = &args.output {
        writing::check_is_file(output)?;
    }
    let file = input::open(session, &args.file)?;
    let schema = read::schema(session, &args.schema, Reading::ByContent)?;
    let mut migration = Migration::new(schema).with_limits(session.global.limits().schema_limits());
    if let Some(path) = &args.path {
        migration = migration.with_dataset(path);
    }
    migration = args.evolution.apply(migration)?;
    if args.drop {
        migration = migration.with_drop();
    }
    let output = match &args.output {
        Some(output) if !args.dry_run => output,
        _ => {
            let plan = migration.plan(&file).map_err(replace_advice)?;
            plan::show(session, &file, &input::display_name(&args.schema), &plan)?;
            return Ok(Status::Fine);
        }
    };
    let options = args.writing.options_for_records(
        session.work("writing"),
        args.to.as_deref(),
        args.force,
    )?;
    let migration = migration.with_work(session.work("migrating"));
    let migrated = migration.run(&file, output, &options);
    drop((migration, options));
    tell(session, &file, output, &migrated.map_err(replace_advice)?)?;
    Ok(Status::Fine)
}

/// Adds a hint about options to an error about a member that would be left out.
fn replace_advice(e: Error) -> Error {
    if e.code() != DROPS_MEMBER.code {
        return e;
    }
    e.with_hint("`--rename NEW=OLD` gives its new name, `--drop` omits it")
}

fn tell(
    session: &Session,
    file: &File,
    output: &Path,
    report: &MigrationReport,
) -> Result<(), Failure> {
    let target = output.display().to_string();
    if session.json() {
        let fields = fields! {
            source: file.name(),
            target: &target,
            records: report.records,
            tensors: report.tensors,
            dropped: &report.dropped,
            left_behind: &report.left_behind,
            target_len: report.target_len,
        };
        writeln!(session.out(), "{}", as_json(&fields))?;
        return Ok(());
    }
    let what = match report.records {
        0 => count(report.tensors, "tensor"),
        records => count(records, "record"),
    };
    let mut text = format!(
        "{}: {what} under the new schema, {}",
        escape_path(&target),
        Size(report.target_len)
    );
    if !report.dropped.is_empty() {
        let dropped: Vec<String> =
            report.dropped.iter().map(|p| format!("`{}`", escape(p))).collect();
        text.push_str(&format!("; left out: {}", dropped.join(", ")));
    }
    session.note(text);
    writing::left_behind(session, &report.left_behind);
    Ok(())
}
