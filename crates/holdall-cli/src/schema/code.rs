//! `holdall schema code`.

use super::read;
use crate::exit::{Failure, Status};
use crate::output::as_json;
use crate::session::Session;
use clap::{Args, ValueEnum};
use holdall::fields;
use holdall::schema::{Lang, Reading};
use std::io::Write as _;
use std::path::PathBuf;

/// Generate code for records: Rust structs, NumPy dtypes, TypeScript types, WGSL functions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall schema code point.json --lang rust > src/point.rs
  holdall schema code photos.mt --lang python --name Photo
  holdall schema code model.json --path samples --lang typescript
  holdall schema code points.mt --lang wgsl --name Point > point.wgsl

Rust code has `#[repr(C)]` structs with `#[derive(Record)]`, whose fields have the members' offsets. Python code \
has the dtype of `records.dtype`. In both, members without a fixed size (text, lists, optional members, unions) \
are mentioned in comments. TypeScript code has types for the records' JSON, including all members. WGSL code has \
a function for each member of fixed size, which reads it from a buffer of the records, and a struct \
if records consist of whole words.")]
pub(crate) struct CodeArgs {
    /// A schema, `-` for a schema from standard input, or a file of records
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The language of the code
    #[arg(long, value_name = "LANG")]
    lang: Language,

    /// The dataset to generate code for [default: the only one]
    #[arg(short, long, value_name = "PATH")]
    path: Option<String>,

    /// The name of the type of a record
    #[arg(long, value_name = "NAME", default_value = "Record")]
    name: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    Rust,
    Python,
    Typescript,
    Wgsl,
}

impl From<Language> for Lang {
    fn from(lang: Language) -> Lang {
        match lang {
            Language::Rust => Lang::Rust,
            Language::Python => Lang::Python,
            Language::Typescript => Lang::TypeScript,
            Language::Wgsl => Lang::Wgsl,
        }
    }
}

/// Generates the code.
pub(crate) fn run(session: &Session, args: &CodeArgs) -> Result<Status, Failure> {
    let limits = session.global.limits().schema_limits();
    let schema = read::schema(session, &args.file, Reading::ByContent)?;
    let records = schema.records(args.path.as_deref(), &limits)?;
    let lang = Lang::from(args.lang);
    let text = records.code(&args.name, lang)?;
    if session.json() {
        let fields = fields!(lang: lang.as_str(), name: &args.name, code: text);
        writeln!(session.out(), "{}", as_json(&fields))?;
    } else {
        write!(session.out(), "{text}")?;
    }
    Ok(Status::Fine)
}
