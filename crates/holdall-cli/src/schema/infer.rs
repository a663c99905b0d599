//! `holdall schema infer`.

use super::table;
use crate::exit::{Failure, Status};
use crate::given::{self, Files, RecordFormArg};
use crate::input;
use crate::output::as_json;
use crate::session::Session;
use clap::Args;
use holdall::schema::{InferOptions, Path, Width};
use holdall::{Durability, FileSink, Sink as _, convert, records};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;

/// Infer a schema from records, or from the tensors of a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema infer points.ndjson                   the schema on standard output
  holdall schema infer points.csv -o point.json        from a table, into a file
  holdall schema infer points.ndjson --tight --enums 8 the narrowest types for the data
  holdall schema infer photos.csv --files images --file-member image     bytes of files
  holdall schema infer model.safetensors               objects from the dots in the tensors' names

All records are read. Integers become Int64 (Uint64 if they exceed it), other numbers Float64, text \
String, arrays of numbers with a common length fixed arrays, and members that are ever missing or null \
optional. Check the schema before you rely on it: later records may have values that did not occur yet. \
For a tensor file, it is the schema that `convert` writes for Metatensor; to use an edited one, pass it \
to `convert --schema`.")]
pub(crate) struct InferArgs {
    /// Records (NDJSON, JSON, CSV, TSV), `-` for JSON lines from standard input, or a tensor file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the schema into this file
    #[arg(short, long, value_name = "SCHEMA")]
    output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(short, long, requires = "output")]
    force: bool,

    /// Use the narrowest number types that hold all values, and time types for text that contains times
    #[arg(long)]
    tight: bool,

    /// Make text with at most N different values an enum
    #[arg(long, value_name = "N", default_value_t = 0)]
    enums: usize,

    /// Read only the first N records
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    #[command(flatten)]
    files: Files,

    /// The format of the records: ndjson, json, csv, tsv, parquet or arrow [default: by the file's extension]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<RecordFormArg>,
}

/// Infers a schema.
pub(crate) fn run(session: &Session, args: &InferArgs) -> Result<Status, Failure> {
    let schema = match args.form.is_none()
        && records::is_binary(&args.file, &input::options(session))
    {
        true => convert::infer_schema(&input::open(session, &args.file)?)?,
        false => {
            let members = args.files.members.iter().map(|member| member.parse());
            let members: Vec<Path> = members.collect::<holdall::Result<_>>()?;
            let mut options = InferOptions::new().with_enums(args.enums).with_file_members(members);
            if args.tight {
                options = options.with_width(Width::Tight);
            }
            let rows = given::open(session, &args.file, args.form, session.work("reading"))?;
            let limits = session.global.limits().schema_limits();
            let names = rows.names().unwrap_or_default().to_vec();
            let (name, delimiter) = (rows.name().to_owned(), rows.delimiter());
            let schema = records::infer(rows, args.first, &options, &limits)?;
            if let Some(delimiter) = delimiter {
                session.note(format_args!("{name}: {}", table::taken(delimiter, &names, &schema)));
            }
            schema
        }
    };
    put(session, &schema, args.output.as_deref(), args.force)?;
    Ok(Status::Fine)
}

/// Prints a schema, or writes it to a file.
pub(super) fn put(
    session: &Session,
    schema: &Value,
    output: Option<&std::path::Path>,
    force: bool,
) -> Result<(), Failure> {
    let text = match session.json() && output.is_none() {
        true => schema.to_string(),
        false => super::show::pretty(schema),
    };
    match output {
        None => writeln!(session.out(), "{text}")?,
        Some(path) => {
            let mut sink = FileSink::create(path, force, Durability::System)?;
            sink.append(format!("{text}\n").as_bytes())?;
            sink.finish()?;
            if session.json() {
                let schema = holdall::plain::Plain::Json(schema.to_string().into());
                let fields = holdall::fields!(target: path.display().to_string(), schema: schema);
                writeln!(session.out(), "{}", as_json(&fields))?;
            } else {
                session.note(format_args!("{}: a schema", path.display()));
            }
        }
    }
    Ok(())
}
