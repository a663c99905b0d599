//! `holdall diff`.

mod json;
mod layers;
mod model;
mod rows;
mod sample;
mod sort;

use crate::args::SelectionArgs;
use crate::exit::{Failure, Status};
use crate::input;
use crate::output::style::Style;
use crate::output::table::{self, Column};
use crate::output::text::{Grouped, count, escape_path};
use crate::session::Session;
use clap::Args;
use holdall::diff::TensorDiff;
use holdall::{Diff, DiffOptions, File};
use rows::{Row, cells};
use sort::Sort;
use std::io::Write as _;
use std::path::PathBuf;

/// Compare two files of any formats: names, types, shapes, attributes, values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  holdall diff model.safetensors model.zt                  exit status 0: the same, 1: they differ,
                                                           4: not all could be compared
  holdall diff before.zt after.zt -s '*.mlp.*'             only some tensors
  holdall diff f32.zt bf16.zt --values-only --rtol 0.01    compare two precisions
  holdall diff base/ tuned/ --by-layer                     which layers changed most
  holdall diff base/ https://example.org/model.safetensors --sample
                                                           related or not, by 1 % of the bytes
  holdall diff Llama-3.2-1B/ llama-q4_k_m.gguf --recipe auto
                                                           a converted model with its source

Two packages are compared by their descriptions, their files and their tensors for tests.
How something is stored is not a difference: format, encoding, digests, offsets, order.")]
pub(crate) struct DiffArgs {
    /// A file, or `-` for standard input
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The file to compare it with, or `-`
    #[arg(value_name = "B")]
    b: PathBuf,

    #[command(flatten)]
    select: SelectionArgs,

    /// Values are equal if |a - b| <= ATOL + RTOL * |b|; if only one tolerance is given, the other is 0; if neither is
    /// given, values must be bit for bit the same
    #[arg(long, value_name = "RTOL", value_parser = tolerance, allow_negative_numbers = true)]
    rtol: Option<f64>,

    /// See --rtol; such as 1e-5
    #[arg(long, value_name = "ATOL", value_parser = tolerance, allow_negative_numbers = true)]
    atol: Option<f64>,

    /// Compare each quantized weight that a model stores as several tensors as one tensor, by its values
    #[arg(long)]
    dequantize: bool,

    /// Compare names, shapes and values, but not types, layouts and attributes
    #[arg(long)]
    values_only: bool,

    /// The order of tensors and layers: what changed most first, by the change relative to the values (the default) or by
    /// the share of changed elements; by name; or as in A. JSON has them as in A
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Sort::Relative, hide_default_value = true)]
    sort: Sort,

    /// List the layers of the model with what changed in them, in place of each tensor whose values changed
    #[arg(long)]
    by_layer: bool,

    /// Read only a part of the weights, at most this share of the bytes, such as 0.5% [default: 1%, and less of large
    /// models]: are the models the same, of the same base, or unrelated
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = sampled,
        conflicts_with_all = ["rtol", "atol", "dequantize", "values_only", "by_layer", "sort", "recipe"])]
    sample: Option<f64>,

    /// A is the folder of a model, B a file that was converted from it: compare B with what this recipe makes of A, with
    /// the errors of quantization; a name, a TOML file, or `auto` for the one for the architecture in config.json
    #[arg(long, value_name = "RECIPE", conflicts_with_all = ["rtol", "atol", "dequantize", "values_only", "by_layer"])]
    recipe: Option<String>,

    /// With a recipe: the name of the pre-tokenizer, such as `llama-bpe`, in place of the one that its rules have
    #[arg(long, value_name = "NAME", requires = "recipe")]
    pre_tokenizer: Option<String>,

    /// With a recipe: do not compare the tokenizer
    #[arg(long, requires = "recipe", conflicts_with = "pre_tokenizer")]
    no_tokenizer: bool,
}

/// Parses the share to sample; 0 if it is not given.
fn sampled(text: &str) -> Result<f64, String> {
    if text.is_empty() { Ok(0.0) } else { sample::parse_share(text) }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| *x >= 0.0 && x.is_finite());
    number.ok_or_else(|| "expected a number of at least 0, for example 1e-5".to_owned())
}

/// Compares the two files.
pub(crate) fn run(session: &Session, args: &DiffArgs) -> Result<Status, Failure> {
    input::check_once([&args.a, &args.b])?;
    if let Some(recipe) = &args.recipe {
        return model::run(session, args, recipe);
    }
    if let Some(share) = args.sample {
        return sample::run(session, args, share);
    }
    #[cfg(feature = "carton")]
    if let (Some(a), Some(b)) =
        (crate::package::open(session, &args.a)?, crate::package::open(session, &args.b)?)
    {
        return crate::package::diff::run(session, &a, &b);
    }
    let (a, b) = (input::open(session, &args.a)?, input::open(session, &args.b)?);
    #[cfg(feature = "carton")]
    if let (Some(a), Some(b)) = (crate::package::from_file(&a)?, crate::package::from_file(&b)?) {
        return crate::package::diff::run(session, &a, &b);
    }
    let (a, b) = match args.dequantize {
        true => (a.dequantized()?, b.dequantized()?),
        false => (a, b),
    };
    let mut options =
        DiffOptions::new().with_select(args.select.parse()?).with_work(session.work("comparing"));
    if args.rtol.is_some() || args.atol.is_some() {
        options = options.with_tolerance(args.rtol.unwrap_or(0.0), args.atol.unwrap_or(0.0));
    }
    let diff = holdall::diff(&a, &b, &options)?;
    drop(options);
    if session.json() {
        writeln!(session.out(), "{}", json::report(&a, &b, &diff))?;
    } else if !session.global.quiet {
        text(session, &a, &b, &diff, args)?;
    }
    let same = if args.values_only { diff.values_agree() } else { diff.is_same() };
    Ok(match (same, is_undecided(&diff, args.values_only)) {
        (true, _) => Status::Fine,
        (false, true) => Status::Incomplete,
        (false, false) => Status::Bad,
    })
}

/// Returns `true` if no difference was found, but not everything could be compared.
fn is_undecided(diff: &Diff, values_only: bool) -> bool {
    if values_only { diff.values_undecided() } else { diff.is_undecided() }
}

fn text(
    session: &Session,
    a: &File,
    b: &File,
    diff: &Diff,
    args: &DiffArgs,
) -> Result<(), Failure> {
    let values_only = args.values_only;
    let standing = |d: &TensorDiff| Standing::from_diff(d, values_only);
    let number = |kind| diff.changed.iter().filter(|t| standing(t) == kind).count() as u64;
    let out = &mut *session.out();
    let (width, paint) = (session.width(), session.paint());
    let attributes = if values_only { &[][..] } else { &diff.attributes[..] };
    // With `--by-layer`, the layers list values in place of the tensors.
    let is_in_layers = |t: &TensorDiff| args.by_layer && t.values.is_some() && t.shapes.is_none();
    let mut changed: Vec<_> = diff.changed.iter().filter(|t| !is_in_layers(t)).collect();
    sort::tensors(&mut changed, args.sort);
    let rows: Vec<Row<'_>> = attributes
        .iter()
        .map(Row::Attribute)
        .chain(diff.removed.iter().map(Row::Removed))
        .chain(diff.added.iter().map(Row::Added))
        .chain(changed.into_iter().map(Row::Changed))
        .collect();
    if !rows.is_empty() {
        let has_values =
            rows.iter().any(|row| matches!(row, Row::Changed(d) if d.values.is_some()));
        let mut columns = vec![
            Column::left(""),
            Column::left("name").cut(),
            Column::left("dtype"),
            Column::left("shape"),
        ];
        if has_values {
            columns.extend([
                Column::right("changed"),
                Column::right("relative"),
                Column::right("rms").dropped(1),
                Column::right("cosine").dropped(0),
            ]);
        }
        columns.push(Column::left("difference").cut_end());
        let row = |at: usize| cells(a, &rows[at], values_only, has_values);
        table::write(out, &columns, rows.len(), &row, 0, width, paint)?;
        writeln!(out)?;
    }
    layers::write(session, out, &diff.layers, args.sort, args.by_layer)?;
    let converted = diff.changed.iter().filter(|t| t.types.is_some() && t.incomparable.is_none());
    match converted.count() as u64 {
        0 => {}
        n => writeln!(
            out,
            "{} {} another type in the second: the values were compared as numbers",
            count(n, "tensor"),
            if n == 1 { "has" } else { "have" },
        )?,
    }
    let names = format!("{} and {}", escape_path(a.name()), escape_path(b.name()));
    let (within, unknown) = (number(Standing::Agree), number(Standing::Unknown));
    let near = if values_only { "with values that agree" } else { "within the tolerance" };
    let all_same = within == diff.changed.len() as u64
        && diff.removed.is_empty()
        && diff.added.is_empty()
        && attributes.is_empty();
    let verdict = if all_same && within == 0 {
        let all = count(diff.compared, "tensor");
        format!("{} {names}, {all}, bit for bit", paint.styled("same:", Style::Good))
    } else if all_same {
        format!(
            "{} {names}, {}: {} bit for bit, {} {near}",
            paint.styled("same:", Style::Good),
            count(diff.compared, "tensor"),
            Grouped(diff.identical),
            Grouped(within),
        )
    } else {
        let mut parts = vec![];
        for (n, what) in [
            (diff.removed.len() as u64, "only in the first"),
            (diff.added.len() as u64, "only in the second"),
            (diff.changed.len() as u64 - within - unknown, "changed"),
            (unknown, "not compared"),
            (within, near),
            (diff.identical, "the same"),
        ] {
            if n > 0 {
                parts.push(format!("{} {what}", Grouped(n)));
            }
        }
        if !diff.attributes.is_empty() {
            parts.push(count(diff.attributes.len() as u64, "file attribute"));
        }
        let undecided = is_undecided(diff, values_only);
        let (verdict, style) =
            if undecided { ("not compared:", Style::Warn) } else { ("differ:", Style::Bad) };
        format!("{} {names}: {}", paint.styled(verdict, style), parts.join(", "))
    };
    writeln!(out, "{verdict}")?;
    Ok(())
}

/// The result for two tensors that are not identical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Agree,
    Differ,
    /// The files could not be compared completely, and no difference was found.
    Unknown,
}

impl Standing {
    fn from_diff(d: &TensorDiff, values_only: bool) -> Standing {
        let (agree, unknown) = if values_only {
            (d.values_agree(), d.values_undecided())
        } else {
            (d.is_same(), d.is_undecided())
        };
        match (agree, unknown) {
            (true, _) => Standing::Agree,
            (_, true) => Standing::Unknown,
            _ => Standing::Differ,
        }
    }
}
