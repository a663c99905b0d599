//! `holdall diff --recipe`: compares a converted model with its source.

use super::DiffArgs;
use super::rows::attribute;
use crate::exit::{ARGUMENTS, Failure, Status};
use crate::input;
use crate::number::short;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{Grouped, count, escape, escape_path, printable, shape};
use crate::recipe::{advised, named};
use crate::session::Session;
use holdall::plain::ToPlain as _;
use holdall::recipe::{self, ConvertedTensor, ModelConvert, ModelDiff, Verdict, diff_model};
use holdall::{File, WriteOptions, fields};
use std::io::Write as _;

/// Compares the file `b` with what the recipe makes of the folder `a`.
pub(super) fn run(session: &Session, args: &DiffArgs, recipe: &str) -> Result<Status, Failure> {
    if !args.select.is_all() {
        let message = "`--recipe` compares whole models, without a selection of tensors";
        return Err(ARGUMENTS.broken(message).into());
    }
    if !recipe::is_model(&args.a, &session.global.limits()) {
        let message = format!(
            "`--recipe` compares a model's folder with a file that was converted from it, and {} is no folder with a config.json",
            printable(&args.a.display().to_string())
        );
        let is_swapped = recipe::is_model(&args.b, &session.global.limits());
        let hint = is_swapped.then_some("name the folder first");
        let e = ARGUMENTS.broken(message);
        return Err(hint.map_or_else(|| e.clone(), |hint| e.clone().with_hint(hint)).into());
    }
    let write = WriteOptions::new().with_work(session.work("comparing"));
    let mut options = ModelConvert::new(write);
    if recipe != "auto" {
        options = options.with_recipe(named(recipe, session)?);
    }
    if let Some(name) = &args.pre_tokenizer {
        options = options.with_pre_tokenizer(name);
    }
    if args.no_tokenizer {
        options = options.without_tokenizer();
    }
    let (a, b) = (input::open(session, &args.a)?, input::open(session, &args.b)?);
    let diff = diff_model(&args.a, &a, &b, &options).map_err(advised)?;
    drop(options);
    if session.json() {
        let report = fields!(a: &a, b: &b).and(diff.to_plain());
        writeln!(session.out(), "{}", as_json(&report))?;
    } else if !session.global.quiet {
        text(session, &a, &b, &diff)?;
    }
    Ok(if diff.is_faithful() { Status::Fine } else { Status::Bad })
}

fn text(session: &Session, a: &File, b: &File, diff: &ModelDiff) -> Result<(), Failure> {
    let mut rows: Vec<&ConvertedTensor> =
        diff.tensors.iter().filter(|t| t.error.max > 0.0 || t.verdict != Verdict::Exact).collect();
    let order = |t: &ConvertedTensor| (t.verdict != Verdict::Differs, -t.error.relative);
    rows.sort_by(|x, y| {
        let ((x, own), (y, other)) = (order(x), order(y));
        x.cmp(&y).then(own.total_cmp(&other))
    });
    let out = &mut *session.out();
    let (width, paint) = (session.width(), session.paint());
    for (names, mark, style, what) in [
        (&diff.missing, "-", Style::Bad, "the file lacks it"),
        (&diff.added, "+", Style::Bad, "the recipe does not write it"),
    ] {
        for name in names {
            writeln!(out, "{} {}: {what}", paint.styled(mark, style), escape(name))?;
        }
    }
    for key in &diff.attributes {
        let mark = paint.styled("~", Style::Bad);
        writeln!(out, "{mark} metadata {}: {}", escape(&key.key), attribute(key))?;
    }
    if !rows.is_empty() {
        let columns = [
            Column::left(""),
            Column::left("name").cut(),
            Column::left("type"),
            Column::left("shape"),
            Column::right("max error"),
            Column::right("rms"),
            Column::right("relative"),
            Column::right("cosine"),
            Column::left("result").cut_end(),
        ];
        table::write(out, &columns, rows.len(), &|at| cells(rows[at]), 0, width, paint)?;
        writeln!(out)?;
    }
    diff.warnings.iter().for_each(|w| session.warn(printable(&w.to_string())));
    if !diff.added_attributes.is_empty() {
        session.note(format!(
            "{} of the file {} not from the recipe: {}",
            count(diff.added_attributes.len() as u64, "key"),
            if diff.added_attributes.len() == 1 { "is" } else { "are" },
            diff.added_attributes.iter().map(|key| escape(key)).collect::<Vec<_>>().join(", "),
        ));
    }
    let number = |verdict| diff.tensors.iter().filter(|t| t.verdict == verdict).count() as u64;
    let parts: Vec<String> = [
        (diff.missing.len() as u64, "missing"),
        (diff.added.len() as u64, "added"),
        (number(Verdict::Differs), "with other values"),
        (number(Verdict::Exact), "bit for bit as the recipe writes them"),
        (number(Verdict::Rounded), "but for the last place"),
        (number(Verdict::Quantized), "as near as their types allow"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", Grouped(n)))
    .collect();
    let verdict = match diff.is_faithful() {
        true => paint.styled("same model:", Style::Good),
        false => paint.styled("differ:", Style::Bad),
    };
    let mut parts = parts.join(", ");
    if !diff.attributes.is_empty() {
        parts
            .push_str(&format!("; {}", count(diff.attributes.len() as u64, "key of the metadata")));
    }
    writeln!(
        out,
        "{verdict} {} and {}, recipe {}, {}: {parts}",
        escape_path(a.name()),
        escape_path(b.name()),
        printable(&diff.recipe),
        count(diff.tensors.len() as u64, "tensor"),
    )?;
    Ok(())
}

fn cells(t: &ConvertedTensor) -> Vec<Cell> {
    let (mark, style) = match t.verdict {
        Verdict::Differs => ("~", Style::Bad),
        Verdict::Exact => ("=", Style::Plain),
        _ => ("≈", Style::Plain),
    };
    let numbers = match t.expected_shape {
        Some(_) => [const { String::new() }; 4],
        None => {
            let e = &t.error;
            let cosine = if e.cosine < 1.0 { format!("{:.6}", e.cosine) } else { "1".to_owned() };
            [short(e.max), short(e.rms), short(e.relative), cosine]
        }
    };
    let mut cells = vec![
        Cell::styled(mark, style),
        Cell::styled(escape(&t.name), style),
        Cell::styled(t.stored.clone(), Style::Type),
        Cell::new(shape(&t.shape)),
    ];
    cells.extend(numbers.into_iter().map(Cell::new));
    cells.push(Cell::new(result(t)));
    cells
}

/// Describes the result of a tensor.
fn result(t: &ConvertedTensor) -> String {
    if let Some(expected) = &t.expected_shape {
        return format!("the recipe writes the shape {}", shape(expected));
    }
    let mut text = t.verdict.as_str().to_owned();
    let (Verdict::Differs, Some(n), Some(first)) = (t.verdict, t.differing, &t.first) else {
        if let (Verdict::Differs, Some(worst)) = (t.verdict, &t.worst) {
            text.push_str(&format!(
                ", worst in block {}, elements {}–{}: {} relative",
                Grouped(worst.index),
                worst.elements.start,
                worst.elements.end.saturating_sub(1),
                short(worst.relative),
            ));
        }
        return text;
    };
    match first.end.saturating_sub(first.start) {
        1 => text.push_str(&format!(
            " in {} of {}, first element {}",
            Grouped(n),
            count(t.count, "element"),
            first.start
        )),
        block => text.push_str(&format!(
            " in {} of {}, first block {}, elements {}–{}",
            Grouped(n),
            count(t.count / block, "block"),
            Grouped(first.start / block),
            first.start,
            first.end.saturating_sub(1),
        )),
    }
    text
}
