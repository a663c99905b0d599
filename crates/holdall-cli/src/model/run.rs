//! `holdall run`.

use super::{Running, given, shown};
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::session::Session;
use clap::Args;
use holdall::carton::TensorValue;
use holdall::fields;
use holdall_run::Model;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

/// Run the model in a package on your inputs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall run iris.carton --input x='[[5.1, 3.5, 1.4, 0.2]]'      inputs as JSON
  holdall run iris.carton --input x=flowers.npy -o out            outputs as out/NAME.npy
  holdall run iris.carton flowers.npy --json                      inputs in the declared order
  echo '{\"x\": [[5.1, 3.5, 1.4, 0.2]]}' | holdall run iris.carton --inputs -
  holdall run chat.carton --input prompt='\"hello\"' --stream --json

A model's code runs with all your rights: run packages that you trust. What it prints goes to \
standard error. `holdall inspect PACKAGE` lists the inputs.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    running: Running,

    /// Inputs in the declared order, in the same forms as for `--input`
    #[arg(value_name = "INPUT", conflicts_with = "input")]
    positional: Vec<String>,

    /// Input: an .npy file, a file of raw elements in the declared type, or JSON; can be repeated
    #[arg(short, long, value_name = "NAME=WHAT")]
    input: Vec<String>,

    /// File with a JSON object of inputs by name, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,

    /// Folder to write outputs to: .npy files, and .json for strings and nested tensors
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Replace existing files
    #[arg(short, long, requires = "output")]
    force: bool,

    /// Print outputs whenever the model returns some: each time a line of JSON, a table, or a folder 1, 2, …
    #[arg(long)]
    stream: bool,
}

/// Runs the model once.
pub(crate) fn run(session: &Session, args: &RunArgs) -> Result<Status, Failure> {
    let package = args.running.open(session)?;
    let object = match &args.inputs {
        None => None,
        Some(path) => {
            let mut bytes = Vec::new();
            let (_, mut reader) = input::reader(session, path)?;
            reader.read_to_end(&mut bytes).map_err(|e| {
                holdall::error::io(e, "reading").in_source(input::display_name(path))
            })?;
            let text = String::from_utf8(bytes).map_err(|e| {
                let e = crate::exit::INPUT_VALUE.broken("the inputs are not valid JSON").because(e);
                e.with_hint("for an `.npy` file, use `--input NAME=FILE`")
                    .in_source(input::display_name(path))
            })?;
            Some(text)
        }
    };
    let texts = if args.positional.is_empty() { &args.input } else { &args.positional };
    let inputs = given::inputs(&package.description().inputs, texts, object.as_deref())?;
    let named = |e: Failure| match e {
        Failure::Error(e) if e.source_name().is_none() => {
            Failure::Error(e.in_source(package.name()))
        }
        other => other,
    };
    Model::check_inputs(package.description(), &inputs).map_err(|e| named(e.into()))?;
    let mut model = args.running.load(session, &package)?;
    if !args.stream {
        let outputs = model.run(inputs).map_err(|e| named(e.into()))?;
        give(session, args, &outputs, None)?;
        return Ok(Status::Fine);
    }
    let mut count = 0;
    let mut failed = None;
    let ran = model.run_streaming(inputs, &mut |outputs| {
        count += 1;
        let given = give(session, args, &outputs, Some(count)).and_then(|()| session.finish());
        given.map_err(|e| {
            failed = Some(e);
            // Never reported: the reason is in `failed`.
            crate::exit::OUTPUT.broken("the output was closed")
        })
    });
    match (failed, ran) {
        (Some(failure), _) => Err(failure),
        (None, Err(e)) => Err(named(e.into())),
        (None, Ok(())) => Ok(Status::Fine),
    }
}

fn give(
    session: &Session,
    args: &RunArgs,
    outputs: &[(String, TensorValue)],
    number: Option<u64>,
) -> Result<(), Failure> {
    if let Some(folder) = &args.output {
        let folder = number.map_or_else(|| folder.clone(), |n| folder.join(n.to_string()));
        let written = shown::files(&folder, outputs, args.force)?;
        if session.json() {
            writeln!(session.out(), "{}", as_json(&fields!(written: &written)))?;
        } else {
            for path in written {
                session.note(format_args!("wrote {}", crate::output::text::printable(&path)));
            }
        }
        return Ok(());
    }
    if session.json() {
        writeln!(session.out(), "{}", shown::json(outputs))?;
        return Ok(());
    }
    shown::table(session, outputs)
}
