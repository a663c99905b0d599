//! `holdall schema infer`.

mod shape;
mod tensors;
mod write;

pub(crate) use tensors::{of_file, of_tensors};

use crate::exit::{Failure, Status};
use crate::given::{self, Form, Rows, at_line};
use crate::input;
use crate::session::Session;
use clap::Args;
use holdall::{Durability, FileSink, Sink as _};
use serde_json::{Map, Value};
use shape::Shape;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a schema from records, or from the tensors of a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema infer points.ndjson                   the schema on standard output
  holdall schema infer points.csv -o point.json        the same of a table, into a file
  holdall schema infer points.ndjson --tight --enums 8 the narrowest kinds that hold what is there
  holdall schema infer model.safetensors               objects from the dots in the tensors' names

Every record is looked at. Integers become Int64 (Uint64 where they pass it), other numbers Float64,
text String, arrays of numbers that always have one length fixed ones, and members that are missing
or null anywhere optional. Read what you get before you build on it: records that come later may hold
more than those that were seen. Of a tensor file it is the schema that `convert` gives it as Metatensor;
`convert --schema` takes one that you changed.")]
pub(crate) struct InferArgs {
    /// Records (NDJSON, JSON, CSV, TSV), `-` for lines of JSON from standard input, or a tensor file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the schema into this file
    #[arg(short, long, value_name = "SCHEMA")]
    output: Option<PathBuf>,

    /// Replace it
    #[arg(short, long, requires = "output")]
    force: bool,

    /// The narrowest numbers that hold every value seen; times where text is in their one form
    #[arg(long)]
    tight: bool,

    /// Text of at most N different values becomes an enum
    #[arg(long, value_name = "N", default_value_t = 0)]
    enums: usize,

    /// Look at the first N records only
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    /// How the records are written: ndjson, json, csv or tsv [default: as the extension says]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    form: Option<Form>,
}

/// How much a schema made from records says.
#[derive(Debug, Clone, Copy)]
struct Wants {
    tight: bool,
    /// The most values that an enum gets.
    enums: usize,
}

/// Infers.
pub(crate) fn run(session: &Session, args: &InferArgs) -> Result<Status, Failure> {
    if args.form.is_none() && super::read::is_binary(&args.file) {
        let schema = of_file(&input::open(session, &args.file)?)?;
        put(session, &schema, args.output.as_deref(), args.force)?;
        return Ok(Status::Fine);
    }
    let name = input::shown(&args.file);
    let wants = Wants { tight: args.tight, enums: args.enums };
    let work = session.work("reading");
    let mut shape = Shape::default();
    let most = args.first.unwrap_or(u64::MAX);
    let depth = session.global.limits().depth;
    let mut count = 0u64;
    let mut table = false;
    match given::open(session, &args.file, args.form, &work)? {
        Rows::Json(mut texts) => {
            while count < most
                && let Some((line, text)) = texts.next()?
            {
                count += 1;
                shape.see(text, depth, line, &wants).map_err(|e| at_line(e, line, &name))?;
            }
        }
        Rows::Table(mut rows) => {
            table = true;
            let tree = Tree::new(rows.names()).map_err(|e| at_line(e, 1, &name))?;
            while count < most
                && let Some((line, row)) = rows.next()?
            {
                count += 1;
                let text = tree.value(row).to_string();
                let seen = shape.see(text.as_bytes(), depth, line, &wants);
                seen.map_err(|e| at_line(e, line, &name))?;
            }
            shape.order(rows.names());
        }
    }
    drop(work);
    let schema = write::schema(&shape, &wants, table).map_err(|e| e.in_source(&name))?;
    let limits = session.global.limits().of_schemas();
    holdall_schema::Schema::compile_record(&schema, &limits).map_err(|e| e.in_source(&name))?;
    put(session, &schema, args.output.as_deref(), args.force)?;
    Ok(Status::Fine)
}

/// Writes a schema where it is wanted.
pub(super) fn put(
    session: &Session,
    schema: &Value,
    output: Option<&Path>,
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
                let mut out = String::from("{\"target\":");
                crate::output::json::push_string(&path.display().to_string(), &mut out);
                writeln!(session.out(), "{out},\"schema\":{schema}}}")?;
            } else {
                session.note(format_args!("{}: a schema", path.display()));
            }
        }
    }
    Ok(())
}

/// The columns of a table as members that nest.
struct Tree {
    members: Vec<(String, Branch)>,
}

enum Branch {
    Cell(usize),
    Members(Tree),
}

impl Tree {
    fn new(names: &[String]) -> holdall::Result<Tree> {
        let mut root = Tree { members: Vec::new() };
        for (column, name) in names.iter().enumerate() {
            root.add(&steps(name), column, name)?;
        }
        Ok(root)
    }

    fn add(&mut self, steps: &[String], column: usize, name: &str) -> holdall::Result<()> {
        let taken = || {
            let name = name.escape_debug();
            crate::exit::TABLE
                .broken(format!("the column `{name}` is a member that is there already"))
        };
        let Some((first, rest)) = steps.split_first() else { return Err(taken()) };
        let at = self.members.iter().position(|(known, _)| known == first);
        match (at, rest.is_empty()) {
            (None, true) => self.members.push((first.clone(), Branch::Cell(column))),
            (None, false) => {
                let mut below = Tree { members: Vec::new() };
                below.add(rest, column, name)?;
                self.members.push((first.clone(), Branch::Members(below)));
            }
            (Some(at), _) => match self.members.get_mut(at) {
                Some((_, Branch::Members(below))) if !rest.is_empty() => {
                    below.add(rest, column, name)?;
                }
                _ => return Err(taken()),
            },
        }
        Ok(())
    }

    fn value(&self, row: &csv::StringRecord) -> Value {
        let mut object = Map::new();
        for (name, branch) in &self.members {
            match branch {
                Branch::Cell(column) => {
                    let text = row.get(*column).unwrap_or_default();
                    if !text.is_empty() {
                        object.insert(name.clone(), guess(text));
                    }
                }
                Branch::Members(below) => {
                    let value = below.value(row);
                    if value.as_object().is_some_and(|o| !o.is_empty()) {
                        object.insert(name.clone(), value);
                    }
                }
            }
        }
        Value::Object(object)
    }
}

/// The names that a column's name stands for: itself, where it is no path of names.
fn steps(name: &str) -> Vec<String> {
    use holdall_schema::{Path as Way, Segment};
    let path: Result<Way, _> = name.parse();
    let names = path.ok().and_then(|path| {
        let of = |segment: &Segment| match segment {
            Segment::Name(name) => Some(name.to_string()),
            _ => None,
        };
        path.0.iter().map(of).collect::<Option<Vec<_>>>()
    });
    names.unwrap_or_else(|| vec![name.to_owned()])
}

/// What a cell is, by its text.
fn guess(text: &str) -> Value {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "nan" | "inf" | "-inf" => return serde_json::json!({"$float": "nan"}),
        _ => {}
    }
    match holdall_schema::json::parse(text.trim().as_bytes(), 1) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::String(text.to_owned()),
    }
}
