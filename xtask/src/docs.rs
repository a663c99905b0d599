//! Generated copies of tables in the code: tables of the docs, types of the packages, and files
//! derived from the list of formats. They are written from the code, or compared with it.

use crate::command::{Outcome, built, holdall, program, root};
use crate::{derived, limits, readmes};
use holdall::operations::{LayoutKind, LocationKind, OPERATIONS, Support};
use holdall::{ErrorKind, FORMATS, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const GENERATED: &str = "<!-- Written by `cargo xtask gen` from the tables in the code. -->\n";

/// `cargo xtask gen [--check]`.
pub(crate) fn write(args: &[String]) -> Outcome {
    let check = match args {
        [] => false,
        [one] if one == "--check" => true,
        _ => return Err("the only option is --check".into()),
    };
    let mut stale = Vec::new();
    // Files that a build needs come first: the pages are made from the output of a build.
    stale.extend(update(derived::manifests(root())?, check)?);
    stale.extend(update([derived::tables(root())?], check)?);
    stale.extend(update(readmes::readmes()?, check)?);
    let rules = rules()?;
    let caps = rules.iter().filter(|(_, rule)| rule.kind == ErrorKind::Limit.as_str());
    let caps = caps.map(|(code, rule)| (code.clone(), rule.sentence.clone())).collect();
    let pages = [
        ("docs/rules.md", rules_page(rules)),
        ("docs/formats.md", formats_page()),
        ("docs/matrix.md", matrix_page()),
        ("docs/spec/index.md", with_limits("docs/spec/index.md", &limits::specification(&caps))?),
        ("docs/cli.md", with_limits("docs/cli.md", &limits::command())?),
        ("docs/javascript.md", with_limits("docs/javascript.md", &limits::javascript())?),
        ("js/src/limits.ts", limits::typescript()),
        ("crates/holdall-py/python/holdall/_limits.py", limits::python()),
        ("crates/holdall-py/python/holdall/runners/_wire.py", wire()?),
    ];
    let targets = program(built("fuzz-smoke", &[])?).args(["--list"]).output()?;
    let targets: Vec<&str> = targets.lines().collect();
    stale.extend(update(derived::programs(root(), &targets)?, check)?);
    for stray in derived::stray_programs(root(), &targets) {
        match check {
            true => stale.push(stray),
            false => {
                std::fs::remove_file(root().join(&stray)).map_err(|e| format!("{stray}: {e}"))?;
                println!("removed {stray}");
            }
        }
    }
    stale.extend(update(pages.map(|(path, text)| (path.to_owned(), text)), check)?);
    match stale.is_empty() {
        true => Ok(()),
        false => Err(format!("not as the code says: {}; run `cargo xtask gen`", stale.join(", "))),
    }
}

/// Writes files that are out of date; with `check`, only returns their paths.
fn update(
    files: impl IntoIterator<Item = (String, String)>,
    check: bool,
) -> Result<Vec<String>, String> {
    let mut stale = Vec::new();
    for (path, text) in files {
        let at = root().join(&path);
        if std::fs::read_to_string(&at).is_ok_and(|found| found == text) {
            continue;
        }
        if check {
            stale.push(path);
            continue;
        }
        std::fs::write(&at, text).map_err(|e| format!("{path}: {e}"))?;
        println!("wrote {path}");
    }
    Ok(stale)
}

/// Returns a page with its table of limits.
fn with_limits(path: &str, table: &str) -> Result<String, String> {
    let page = std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    limits::in_page(&page, table).map_err(|e| format!("{path}: {e}"))
}

/// Returns the runner's side of the wire, which the Python package has for its own runners.
fn wire() -> Result<String, String> {
    let from = "crates/holdall-run/src/process/wire.py";
    std::fs::read_to_string(root().join(from)).map_err(|e| format!("{from}: {e}"))
}

/// Returns the page of what each operation does with each place and file.
fn matrix_page() -> String {
    let mut out = format!("# What works where\n\n{GENERATED}\n");
    out.push_str(MATRIX_INTRODUCTION);
    let mut notes: Vec<String> = Vec::new();
    let mut cell = |support: Support| {
        let (answer, note) = match support {
            Support::WithNote(how) => ("yes", how.to_owned()),
            Support::Partly(what, rules) => {
                let codes: Vec<String> =
                    rules.iter().map(|rule| format!("`{}`", rule.code)).collect();
                ("in part", format!("{what}; else {}", codes.join(" or ")))
            }
            Support::No(rule, instead) => ("no", format!("`{}`: {instead}", rule.code)),
            _ => return "yes".to_owned(),
        };
        let at = notes.iter().position(|own| *own == note).unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
        format!("{answer} ({})", at + 1)
    };
    out.push_str("\n## Places\n\n| operation |");
    LocationKind::ALL.iter().for_each(|place| out.push_str(&format!(" {} |", place.as_str())));
    out.push_str("\n| --- |");
    LocationKind::ALL.iter().for_each(|_| out.push_str(" --- |"));
    for row in OPERATIONS {
        out.push_str(&format!("\n| `{}` |", row.name));
        for place in LocationKind::ALL {
            out.push_str(&format!(" {} |", cell(row.support(place))));
        }
    }
    out.push_str("\n\n## Layouts\n\n| operation |");
    LayoutKind::ALL.iter().for_each(|layout| out.push_str(&format!(" {} |", layout.as_str())));
    out.push_str("\n| --- |");
    LayoutKind::ALL.iter().for_each(|_| out.push_str(" --- |"));
    for row in OPERATIONS.iter().filter(|row| row.layouts.is_some()) {
        out.push_str(&format!("\n| `{}` |", row.name));
        for layout in LayoutKind::ALL {
            out.push_str(&format!(" {} |", row.layout(layout).map_or(String::new(), &mut cell)));
        }
    }
    out.push_str("\n\n## Notes\n\n");
    for (at, note) in notes.iter().enumerate() {
        out.push_str(&format!("{}. {note}\n", at + 1));
    }
    out.push_str("\n## Files of a model\n\n| operation | the only file | shards | index | files with bytes of another |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for row in OPERATIONS {
        let cells = row.files.map(|file_use| file_use.as_str()).join(" | ");
        out.push_str(&format!("| `{}` | {cells} |\n", row.name));
    }
    out
}

const MATRIX_INTRODUCTION: &str = "What each operation does with each place that a model can be in, with tensors of each layout, and with each file of a model in several. \
An operation that does not work with a place or a layout refuses it before anything is written, with the rule that the note names. \
What can be edited and written in which format is in [formats.md](formats.md). \
A model in several files is named by its folder, by its index, or by the first part of a split GGUF file.\n";

/// A rule as the docs show it.
struct Row {
    kind: String,
    sentence: String,
    hint: Option<String>,
}

/// Returns every rule by its code, as listed by the command: those of the formats, the library
/// and the command.
fn rules() -> Result<BTreeMap<String, Row>, String> {
    let odd = || "`holdall rules --json` prints something else than rules".to_owned();
    let text = program(holdall()?).args(["rules", "--json"]).output()?;
    let Ok(Value::Array(all)) = Value::from_json(text.trim(), 3) else { return Err(odd()) };
    let row = |rule: &Value| {
        let Value::Map(fields) = rule else { return None };
        let field = |name: &str| {
            let (_, value) = fields.iter().find(|(k, _)| k.as_text() == Some(name))?;
            value.as_text().map(str::to_owned)
        };
        let row = Row { kind: field("kind")?, sentence: field("sentence")?, hint: field("hint") };
        Some((field("code")?, row))
    };
    all.iter().map(row).collect::<Option<_>>().ok_or_else(odd)
}

fn rules_page(rules: BTreeMap<String, Row>) -> String {
    let mut out = format!(
        "# Rules\n\n{GENERATED}\n\
         Every error has the code of the rule that was broken: in [brackets] after its text, and as\n\
         `error.code` in JSON. (Errors about the arguments of the command, `usage/arguments`, may\n\
         have no code in their text.) Codes never change; texts may. A rule describes a sound file,\n\
         or a sound call.\n\n\
         | kind | whose fault | exit status |\n| --- | --- | --- |\n"
    );
    for (kind, fault, status) in [
        (ErrorKind::Malformed, "the file breaks a rule of its format", 1),
        (ErrorKind::Integrity, "the bytes are not the bytes that were written", 1),
        (ErrorKind::NotFound, "no tensor, component or attribute has that name", 2),
        (ErrorKind::Misuse, "the call asks for something that cannot be done", 2),
        (ErrorKind::Io, "the operating system refused", 3),
        (ErrorKind::Unsupported, "this version cannot do it", 4),
        (ErrorKind::Limit, "one of the limits is exceeded", 4),
    ] {
        line(&mut out, &format!("| {} | {fault} | {status} |", kind.as_str()));
    }
    let mut area = String::new();
    for (code, rule) in rules {
        let own = code.split('/').next().unwrap_or_default();
        if own != area {
            area = own.to_owned();
            line(
                &mut out,
                &format!("\n## {area}\n\n| code | kind | the rule |\n| --- | --- | --- |"),
            );
        }
        let hint = rule.hint.map(|h| format!(" *Hint: {}.*", cell(&h))).unwrap_or_default();
        line(&mut out, &format!("| `{code}` | {} | {}{hint} |", rule.kind, cell(&rule.sentence)));
    }
    out
}

fn formats_page() -> String {
    let mut out = format!(
        "# Formats\n\n{GENERATED}\n\
         Formats are recognised by their content, never by their name; the name only determines the format\n\
         to write. The page of a format describes in detail which files are accepted and refused; its cargo\n\
         feature enables it in a build.\n\n\
         | format | `--to` | extensions | versions written | feature |\n| --- | --- | --- | --- | --- |\n"
    );
    for format in FORMATS {
        let extensions: Vec<String> = format.extensions.iter().map(|e| format!("`.{e}`")).collect();
        let versions = match (format.encode, format.versions) {
            (None, _) if format.has_graph => "into a graph".to_owned(),
            (None, _) => "read only".to_owned(),
            (Some(_), []) => "it has none".to_owned(),
            (Some(_), all) => all.join(", "),
        };
        let (name, id) = (format.name, format.id);
        let family = holdall_formats::family_of(format).unwrap_or(id);
        let extensions = extensions.join(", ");
        line(
            &mut out,
            &format!(
                "| [{name}](spec/{family}.md) | `{id}` | {extensions} | {versions} | `{family}` |"
            ),
        );
    }
    out
}

/// Escapes text for a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

pub(crate) fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}
