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

Rust gets `#[repr(C)]` structs with `#[derive(Record)]`, whose fields lie where the members do. Python gets \
the dtype that `records.dtype` has. In both, what has no fixed bytes (text, lists, what may be absent, unions) \
is named in comments. TypeScript gets types of the records' JSON, with everything in it. WGSL gets \
a function for each member with fixed bytes, which reads it from a buffer of the records, and a struct \
where records are of whole words.")]
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

/// Writes it.
pub(crate) fn run(session: &Session, args: &CodeArgs) -> Result<Status, Failure> {
    let limits = session.global.limits().of_schemas();
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
