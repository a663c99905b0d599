//! Prints a summary of a package.

use super::shape;
use crate::exit::Failure;
use crate::output::as_json;
use crate::output::style::Style;
use crate::output::table::{self, Cell, Column};
use crate::output::text::{
    Size, count, cut_end, escape, escape_path, exact_size, lines_of, printable,
};
use crate::session::Session;
use holdall::carton::{
    Description, Example, FileLocation, OptionValue, Package, PackageFile, Reference, SelfTest,
    Tolerance, ValueSpec, hex,
};
use holdall::plain::ToPlain as _;
use std::io::Write as _;

/// Width of the keys, in columns.
const KEY: usize = 12;
/// Maximum number of lines of a description that are shown.
const DESCRIPTION_LINES: usize = 40;
/// Number of hexadecimal digits of a hash in the table of files.
const SHORT_HASH: usize = 16;

/// Prints the summary of a package.
pub(crate) fn show(session: &Session, package: &Package) -> Result<(), Failure> {
    if session.json() {
        writeln!(session.out(), "{}", as_json(&package.to_plain()))?;
        return Ok(());
    }
    head(session, package)?;
    let d = package.description();
    specs(session, "inputs", &d.inputs)?;
    specs(session, "outputs", &d.outputs)?;
    runs(session, d)?;
    files(session, package)?;
    let out = &mut *session.out();
    let paint = session.paint();
    if let Some(text) = &d.model_description {
        writeln!(out, "\n{}", paint.styled("description", Style::Dim))?;
        let lines: Vec<&str> = text.trim().lines().collect();
        for line in lines.iter().take(DESCRIPTION_LINES) {
            writeln!(out, "{}", format!("  {}", printable(line)).trim_end())?;
        }
        if let Some(more) = lines.len().checked_sub(DESCRIPTION_LINES).filter(|n| *n > 0) {
            let more = count(more as u64, "more line");
            writeln!(
                out,
                "  {}",
                paint.styled(format!("and {more}, which --json shows"), Style::Dim)
            )?;
        }
    }
    for warning in package.warnings() {
        writeln!(
            out,
            "{} {}",
            paint.styled("warning:", Style::Warn),
            printable(&warning.to_string())
        )?;
    }
    Ok(())
}

fn head(session: &Session, package: &Package) -> Result<(), Failure> {
    let d = package.description();
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push((key.to_owned(), value));
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(escape);
    add("name", text(&d.model_name));
    add("about", text(&d.short_description));
    add("format", Some(format_line(package)));
    add("model hash", package.hash().map(|hash| hex(&hash)));
    let runner = &d.runner;
    let (name, version) = (escape(&runner.name), escape(&runner.framework_version));
    add(
        "runner",
        Some(format!("{name}, framework {version}, files of version {}", runner.compat_version)),
    );
    for (at, (key, value)) in runner.options.iter().enumerate() {
        let line = format!("{} = {}", escape(key), option(value));
        add(if at == 0 { "options" } else { "" }, Some(line));
    }
    let platforms: Vec<String> = d.required_platforms.iter().map(|p| escape(p)).collect();
    add("platforms", Some(if platforms.is_empty() { "any".into() } else { platforms.join(" · ") }));
    add("license", text(&d.license));
    add("repository", text(&d.repository));
    add("homepage", text(&d.homepage));
    let bases: Vec<String> = d.base_models.iter().map(|b| escape(b)).collect();
    add("made from", Some(bases.join(" · ")).filter(|b| !b.is_empty()));
    add("sbom", text(&d.sbom));
    for (key, value) in &d.card {
        add(&escape(key), Some(escape(value)));
    }
    let out = &mut *session.out();
    let paint = session.paint();
    let room = session.width().unwrap_or(usize::MAX).saturating_sub(KEY + 2).max(20);
    writeln!(out, "{}", paint.styled(escape_path(package.name()), Style::Title))?;
    for (key, value) in lines {
        for (at, line) in lines_of(&value, room).into_iter().enumerate() {
            let key = if at == 0 { key.as_str() } else { "" };
            // A long key of the author is followed by at least one space.
            let key = paint.styled(format!("{key:<width$} ", width = KEY - 1), Style::Dim);
            writeln!(out, "  {key}{line}")?;
        }
    }
    Ok(())
}

fn format_line(package: &Package) -> String {
    let is_folder = package.files().iter().any(|f| f.location == FileLocation::Disk);
    let len = package.files().iter().filter(|f| f.target.is_none()).filter_map(|f| f.len).sum();
    let form = if is_folder { "Carton 1, unpacked" } else { "Carton 1" };
    let files = count(package.files().len() as u64, "file");
    let linked =
        package.files().iter().filter(|f| f.location == FileLocation::Links).count() as u64;
    match linked {
        0 => format!("{form}, {files}, {}", exact_size(len)),
        n => format!("{form}, {files}, {n} of them only linked, {} stored", exact_size(len)),
    }
}

fn option(value: &OptionValue) -> String {
    match value {
        OptionValue::String(s) => format!("\"{}\"", escape(s)),
        other => escape(&other.to_string()),
    }
}

fn specs(session: &Session, title: &str, specs: &[ValueSpec]) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    if specs.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let title = title.to_owned();
    let columns = [
        Column::left(title),
        Column::left("dtype"),
        Column::left("shape"),
        Column::left("").cut_end(),
    ];
    let row = |at: usize| {
        let spec = &specs[at];
        let about = spec.description.as_deref().unwrap_or_default();
        vec![
            Cell::styled(format!("  {}", escape(&spec.name)), Style::Title),
            Cell::styled(spec.ty.as_str(), Style::Type),
            Cell::new(shape(&spec.shape)),
            Cell::styled(escape(about), Style::Dim),
        ]
    };
    table::write(out, &columns, specs.len(), &row, 0, session.width(), paint)?;
    Ok(())
}

/// Prints self-tests and examples.
fn runs(session: &Session, d: &Description) -> Result<(), Failure> {
    let out = &mut *session.out();
    let paint = session.paint();
    let width = session.width().unwrap_or(usize::MAX);
    if !d.self_tests.is_empty() {
        writeln!(out, "\n{}", paint.styled("self-tests", Style::Dim))?;
        for (at, test) in d.self_tests.iter().enumerate() {
            writeln!(out, "{}", cut_end(&self_test(at, test), width))?;
        }
    }
    if !d.examples.is_empty() {
        writeln!(out, "\n{}", paint.styled("examples", Style::Dim))?;
        for (at, one) in d.examples.iter().enumerate() {
            writeln!(out, "{}", cut_end(&example(at, one), width))?;
        }
    }
    Ok(())
}

fn self_test(at: usize, test: &SelfTest) -> String {
    let names = |all: &[(String, String)]| {
        all.iter().map(|(n, _)| escape(n)).collect::<Vec<_>>().join(", ")
    };
    let name = title(at, test.name.as_deref());
    let mut line = format!("  {name}: {} → ", names(&test.inputs));
    match &test.expected {
        Some(expected) => line.push_str(&names(expected)),
        None => line.push_str("any outputs"),
    }
    let Tolerance { rtol, atol, .. } = test.tolerance;
    if test.tolerance != Tolerance::default() {
        line.push_str(&format!(" (rtol {rtol:e}, atol {atol:e})"));
    }
    line
}

fn example(at: usize, example: &Example) -> String {
    let one = |(name, to): &(String, Reference)| match to {
        Reference::Tensor(_) => escape(name),
        Reference::Misc(path) => format!("{} ({})", escape(name), escape(path)),
    };
    let all = |pairs: &[(String, Reference)]| pairs.iter().map(one).collect::<Vec<_>>().join(", ");
    let name = title(at, example.name.as_deref());
    format!("  {name}: {} → {}", all(&example.inputs), all(&example.outputs))
}

fn title(at: usize, name: Option<&str>) -> String {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => escape(name),
        None => (at + 1).to_string(),
    }
}

fn files(session: &Session, package: &Package) -> Result<(), Failure> {
    let out = &mut *session.out();
    let files = package.files();
    writeln!(out)?;
    let columns = [
        Column::left("files").cut(),
        Column::right("size"),
        Column::left("sha256").dropped(0),
        Column::left(""),
    ];
    let row = |at: usize| {
        let file = &files[at];
        let hash = file.sha256.map_or(String::new(), |hash| hex(&hash)[..SHORT_HASH].to_owned());
        vec![
            Cell::new(format!("  {}", escape(&file.path))),
            Cell::new(file.len.map_or("-".to_owned(), |len| Size(len).to_string())),
            Cell::styled(hash, Style::Dim),
            Cell::styled(note(file), Style::Dim),
        ]
    };
    table::write(out, &columns, files.len(), &row, 0, session.width(), session.paint())?;
    Ok(())
}

fn note(file: &PackageFile) -> String {
    match (&file.target, file.location) {
        (Some(target), _) => format!("→ {}", escape(target)),
        (None, FileLocation::Links) => "linked".to_owned(),
        _ => String::new(),
    }
}
