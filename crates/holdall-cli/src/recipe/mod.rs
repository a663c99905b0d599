//! `holdall recipe`: lists, shows and checks recipes.

mod convert;

pub(crate) use convert::{ByRecipe, advised, convert, named};

use crate::exit::{Failure, Status};
use crate::input;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{count, printable};
use crate::session::Session;
use clap::{Args, Subcommand};
use convert::{recipe_text, report_losses};
use holdall::plain::Plain;
use holdall::recipe::{self, ModelConvert, ModelConvertReport, ModelRestore, OutType, Recipe};
use holdall::{File, TensorSpec, WriteOptions, fields};
use std::io::Write as _;
use std::path::PathBuf;

/// Work with recipes, by which models of the Hugging Face hub become GGUF files: list, show, check
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall recipe list                           recipes and their architectures
  holdall recipe show llama                     the text of one, to start from
  holdall recipe check my.toml                  whether a recipe can be read
  holdall recipe check my.toml Llama-3.2-1B/    and has a rule for every tensor
  holdall recipe reverse llama llama.gguf       whether it leads back from a GGUF
  holdall convert Llama-3.2-1B/ llama.gguf --recipe my.toml

The specification (docs/spec/recipes.md) describes the language.")]
pub(crate) struct RecipeArgs {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the recipes of this program
    List,
    Show(ShowArgs),
    Check(CheckArgs),
    Reverse(ReverseArgs),
}

/// Print the text of a recipe of this program
#[derive(Debug, Args)]
struct ShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

/// Check a recipe, and whether it fits a model
#[derive(Debug, Args)]
struct CheckArgs {
    /// A TOML file, or the name of a recipe of this program
    #[arg(value_name = "RECIPE")]
    recipe: String,

    /// The folder of a model
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
}

/// Check whether a recipe can be followed backwards, from a GGUF file to a folder
#[derive(Debug, Args)]
struct ReverseArgs {
    /// A TOML file, or the name of a recipe of this program
    #[arg(value_name = "RECIPE")]
    recipe: String,

    /// The GGUF file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(session: &Session, args: &RecipeArgs) -> Result<Status, Failure> {
    match &args.action {
        Action::List => list(session),
        Action::Show(args) => show(session, args),
        Action::Check(args) => check(session, args),
        Action::Reverse(args) => reverse(session, args),
    }
}

fn list(session: &Session) -> Result<Status, Failure> {
    let limits = session.global.limits();
    let mut all = Vec::new();
    for (_, text) in recipe::builtin() {
        let recipe = Recipe::parse(text.as_bytes(), &limits)?;
        // Recipes without an architecture are there to be extended.
        if !recipe.architectures().is_empty() {
            all.push(recipe);
        }
    }
    let out = &mut *session.out();
    if session.json() {
        writeln!(out, "{}", as_json(&Plain::list(all.iter().map(plain))))?;
        return Ok(Status::Fine);
    }
    let columns =
        [Column::left("recipe"), Column::left("models"), Column::left("architectures").cut_end()];
    let row = |at: usize| {
        let r = &all[at];
        vec![
            Cell::styled(r.name().to_owned(), Style::Title),
            Cell::new(r.about().to_owned()),
            Cell::new(r.architectures().join(" ")),
        ]
    };
    table::write(out, &columns, all.len(), &row, 0, session.width(), session.paint())?;
    Ok(Status::Fine)
}

/// Returns a recipe as it is listed.
fn plain(recipe: &Recipe) -> Plain<'_> {
    fields! {
        name: recipe.name(),
        about: recipe.about(),
        architectures: Plain::list(recipe.architectures().iter().map(String::as_str)),
    }
}

fn show(session: &Session, args: &ShowArgs) -> Result<Status, Failure> {
    session.out().write_all(&recipe_text(&args.name)?)?;
    Ok(Status::Fine)
}

fn check(session: &Session, args: &CheckArgs) -> Result<Status, Failure> {
    let recipe = named(&args.recipe, session)?;
    let name = recipe.name().to_owned();
    let Some(model) = &args.model else {
        if session.json() {
            writeln!(session.out(), "{}", as_json(&fields!(recipe: &name)))?;
        } else {
            writeln!(session.out(), "{}: sound", printable(&args.recipe))?;
        }
        return Ok(Status::Fine);
    };
    let file = input::open(session, model)?;
    let options =
        ModelConvert::new(WriteOptions::new()).with_recipe(recipe).with_outtype(OutType::F32);
    let options = options.without_tokenizer();
    let planned = recipe::plan_model(model, &file, "model.gguf", &options).map_err(advised)?;
    fit(session, &args.recipe, &name, &file, planned, ["", "model", "file"])
}

fn reverse(session: &Session, args: &ReverseArgs) -> Result<Status, Failure> {
    let recipe = named(&args.recipe, session)?;
    let name = recipe.name().to_owned();
    let file = input::open(session, &args.file)?;
    let options = ModelRestore::new(WriteOptions::new(), recipe);
    let planned = recipe::plan_restore(&file, &options)?;
    fit(session, &args.recipe, &name, &file, planned, [" backwards", "file", "model"])
}

/// Prints what a recipe makes of a model or a file: the direction, and what the source and the target are.
fn fit(
    session: &Session,
    given: &str,
    name: &str,
    file: &File,
    (specs, report): (Vec<TensorSpec>, ModelConvertReport),
    [direction, source, target]: [&str; 3],
) -> Result<Status, Failure> {
    if session.json() {
        let head = fields! {
            recipe: name,
            model: file.name(),
            tensors: report.convert.tensors,
            left_behind: Plain::list(report.convert.left_behind.iter().map(String::as_str)),
            warnings: report.convert.warnings.as_slice(),
            plan: specs.as_slice(),
        };
        writeln!(session.out(), "{}", as_json(&head))?;
        return Ok(Status::Fine);
    }
    writeln!(
        session.out(),
        "{}: fits {}{direction}: {} of the {source} become {} of the {target}",
        printable(given),
        printable(file.name()),
        count(file.len() as u64, "tensor"),
        count(report.convert.tensors, "tensor"),
    )?;
    report_losses(session, &report);
    Ok(Status::Fine)
}
