//! `holdall edit`: changes a file.

mod from;
mod value;

use crate::args::{IoChoice, SelectionArgs};
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::text::{Size, count, printable};
use crate::session::Session;
use crate::writing::{self, Writing};
use clap::{Args, Subcommand};
use from::From;
use holdall::error::Escape as _;
use holdall::fields;
use holdall::operations::Operation;
use holdall::plain::ToPlain as _;
use holdall::{Edit, EditReport, Error, Remedy, Result, Select, Work, WriteOptions};
use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use value::ValueType;

/// Add, replace, remove and rename tensors, set attributes, compact the file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall edit model.zt append adapter.safetensors --rename '*=adapter.*'
  holdall edit model.zt remove 'lm_head.*' && holdall edit model.zt compact
  holdall edit model.zt set license=MIT epoch=3
  holdall edit model.gguf set tokenizer.chat_template=@template.jinja
  holdall edit model.zt replace embed.weight --from embed.npy

The file is changed in place if its format and file system allow that, and otherwise rewritten; the \
command reports which. If it is killed at any time, the file is either the old or the new one. Of a model in \
several files, named by its folder, its index or its first part, only the files that change are written.")]
pub(crate) struct EditArgs {
    /// The file or model to change
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(subcommand)]
    action: Action,
}

/// The change to make.
#[derive(Debug, Subcommand)]
enum Action {
    /// Add tensors of another file
    Append {
        /// A file of any format, or `-` for standard input
        other: PathBuf,
        #[command(flatten)]
        select: SelectionArgs,
        /// Rename the added tensors, such as '*=adapter.*'; can be repeated
        #[arg(long, value_name = "OLD=NEW")]
        rename: Vec<String>,
        /// Replace existing tensors of the same names
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        writing: Writing,
    },
    /// Add one tensor from an .npy file or raw bytes
    Add {
        /// The tensor's name
        name: String,
        #[command(flatten)]
        from: From,
        #[command(flatten)]
        writing: Writing,
    },
    /// Replace the elements of a tensor; it keeps its name and attributes
    Replace {
        /// The tensor's name
        name: String,
        #[command(flatten)]
        from: From,
        #[command(flatten)]
        writing: Writing,
    },
    /// Remove tensors
    Remove {
        /// Names or globs, such as 'layers.3.*'
        #[arg(required = true, value_name = "GLOB")]
        globs: Vec<String>,
    },
    /// Rename tensors; `*` matches the same text on both sides
    Rename {
        /// Rules, such as 'model.*=*'; the first rule that matches a name applies
        #[arg(required = true, value_name = "OLD=NEW")]
        rules: Vec<String>,
    },
    /// Set attributes of the file or of a tensor
    Set {
        /// Attributes, such as license=MIT, or KEY=@PATH for the content of a file (KEY=@@… for text that starts with
        /// @)
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
        /// The tensor [default: the attributes of the file]
        #[arg(long, value_name = "NAME")]
        tensor: Option<String>,
        /// The type of the values: text, json, int, float, bool or bytes (hex) [default: the type of the existing
        /// attribute, or text]
        #[arg(long = "type", value_name = "TYPE", hide_possible_values = true)]
        kind: Option<ValueType>,
    },
    /// Remove attributes from the file or from a tensor
    Unset {
        /// Keys of the attributes
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// The tensor [default: the attributes of the file]
        #[arg(long, value_name = "NAME")]
        tensor: Option<String>,
    },
    /// Rewrite the file without unused bytes
    Compact {
        #[command(flatten)]
        writing: Writing,
    },
}

/// Changes a file.
pub(crate) fn run(session: &Session, args: &EditArgs) -> Result<Status, Failure> {
    let operation = match &args.action {
        Action::Compact { .. } => Operation::Compact,
        _ => Operation::Edit,
    };
    input::check_location(operation, &args.file)?;
    let options = input::options(session);
    if session.global.io == IoChoice::Map {
        let e = ARGUMENTS.broken("`--io map` cannot be used for editing");
        return Err(e.with_hint("omit `--io`, or use `read` or `direct`").into());
    }
    let work = session.work("writing");
    let (done, report) = match &args.action {
        Action::Compact { writing } => {
            let write = writing.options(work);
            ("compacted".to_owned(), holdall::compact_with(&args.file, write, &options)?)
        }
        action => {
            let mut edit = Edit::open_with(&args.file, &options)?;
            let (done, write) = change(session, &mut edit, action, work)?;
            (done, edit.with_write(write).commit().map_err(|e| replace_advice(e, &args.file))?)
        }
    };
    print_report(session, args, &done, &report)?;
    Ok(Status::Fine)
}

/// Makes the change. Returns its description, and how to write new tensors.
fn change(
    session: &Session,
    edit: &mut Edit,
    action: &Action,
    work: Work,
) -> Result<(String, WriteOptions), Failure> {
    let plain = |work| WriteOptions::new().with_work(work);
    Ok(match action {
        Action::Append { other, select, rename, replace, writing } => {
            let added = append(session, edit, other, select, rename, *replace)?;
            (format!("{} added", count(added, "tensor")), writing.options(work))
        }
        Action::Add { name, from, writing } => {
            from.add(session, edit, name, None)?;
            ("1 tensor added".to_owned(), writing.options(work))
        }
        Action::Replace { name, from, writing } => {
            let old = edit.file().tensor(name)?;
            edit.remove(name)?;
            from.add(session, edit, name, Some(&old))?;
            ("1 tensor replaced".to_owned(), writing.options(work))
        }
        Action::Remove { globs } => {
            let removed = edit.remove_all(&Select::new(globs, &[])?)?;
            (format!("{} removed", count(removed as u64, "tensor")), plain(work))
        }
        Action::Rename { rules } => {
            let renamed = rename(session, edit, rules)?;
            (format!("{} renamed", count(renamed, "tensor")), plain(work))
        }
        Action::Set { pairs, tensor, kind } => {
            let file = edit.file().clone();
            let of_tensor = tensor.as_ref().and_then(|name| file.tensor(name).ok());
            let old =
                of_tensor.map_or_else(|| file.attributes().clone(), |t| t.attributes().clone());
            let pairs = pairs.iter().map(|pair| value::pair(pair, *kind, &old));
            let pairs: Vec<_> = pairs.collect::<Result<_>>()?;
            check_once(pairs.iter().map(|(key, _)| *key))?;
            let set = count(pairs.len() as u64, "attribute");
            for (key, value) in pairs {
                match tensor {
                    Some(tensor) => edit.set_tensor_attribute(tensor, key, value)?,
                    None => edit.set_attribute(key, value),
                }
            }
            (format!("{set} set"), plain(work))
        }
        Action::Unset { keys, tensor } => {
            check_once(keys.iter().map(String::as_str))?;
            for key in keys {
                match tensor {
                    Some(tensor) => edit.unset_tensor_attribute(tensor, key)?,
                    None => edit.unset_attribute(key)?,
                }
            }
            (format!("{} removed", count(keys.len() as u64, "attribute")), plain(work))
        }
        Action::Compact { writing } => ("compacted".to_owned(), writing.options(work)),
    })
}

/// Replaces options of `convert`, which `edit` does not have, in the advice of an error.
fn replace_advice(e: Error, file: &Path) -> Error {
    let is_of_convert = |remedy: &Remedy| {
        matches!(
            remedy,
            Remedy::WriteFormat { .. }
                | Remedy::DropAttributes
                | Remedy::MakeDense
                | Remedy::DropLogicalTypes
                | Remedy::CopyShared
        )
    };
    if !e.remedies().iter().any(is_of_convert) {
        return e;
    }
    let name = file.display();
    e.without_advice().with_hint(format!(
        "convert the file first to a format that holds it: `holdall convert {name} NEW.zt`, and edit that"
    ))
}

/// Refuses to set or remove an attribute twice.
fn check_once<'k>(keys: impl Iterator<Item = &'k str>) -> Result<()> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            let shown = key.escaped();
            return Err(ARGUMENTS.broken(format!("attribute `{shown}` is given twice")));
        }
    }
    Ok(())
}

fn append(
    session: &Session,
    edit: &mut Edit,
    other: &Path,
    select: &SelectionArgs,
    rename: &[String],
    replace: bool,
) -> Result<u64, Failure> {
    let rules = writing::renames(rename)?;
    let other = input::open(session, other)?;
    writing::warn_of_unused_renames(session, &rules, &other);
    let tensors = select.parse()?.tensors(&other)?;
    edit.append_all(&tensors, &rules, replace)?;
    Ok(tensors.len() as u64)
}

/// Renames every tensor that a rule matches. Returns their number.
fn rename(session: &Session, edit: &mut Edit, rules: &[String]) -> Result<u64, Failure> {
    let rules = writing::renames(rules)?;
    let renamed = edit.rename_all(&rules)?;
    writing::warn_of_unused_renames(session, &rules, edit.file());
    Ok(renamed as u64)
}

fn print_report(
    session: &Session,
    args: &EditArgs,
    done: &str,
    report: &EditReport,
) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    if session.json() {
        writeln!(session.out(), "{}", as_json(&fields!(source: &name).and(report.to_plain())))?;
        return Ok(());
    }
    let outcome = match (report.in_place, report.written, &*report.files) {
        (true, 0, _) => "nothing to write".to_owned(),
        (true, written, [file]) => {
            format!("in place in {}, {} written", file_name(file), Size(written))
        }
        (true, written, _) => format!("in place, {} written", Size(written)),
        (false, written, []) => format!("the file was rewritten, {}", Size(written)),
        (false, written, [file]) => {
            format!("{} was rewritten, {}", file_name(file), Size(written))
        }
        (false, written, files) => {
            format!("{} were rewritten, {}", count(files.len() as u64, "file"), Size(written))
        }
    };
    let mut text = format!("{}: {done}; {outcome}", printable(&name));
    if report.unused_len > 0 {
        text.push_str(&format!("; {} unused", Size(report.unused_len)));
        if report.unused_len > report.len / 10 {
            text.push_str(" (`compact` frees it)");
        }
    }
    report.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    session.note(text);
    writing::left_behind(session, &report.left_behind);
    Ok(())
}

fn file_name(path: &Path) -> String {
    printable(&path.file_name().unwrap_or_default().to_string_lossy())
}
