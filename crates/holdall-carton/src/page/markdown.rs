//! Renders a page as Markdown.

use super::{
    example_references, facts, is_allowed_link, line, misc, numbered, options, tables, tensor_of,
    title,
};
use crate::{Package, Reference};
use pulldown_cmark::{Event, Parser, Tag};

pub(super) fn page(package: &Package) -> String {
    let d = package.description();
    let mut out = String::new();
    line(&mut out, format_args!("# {}\n", escaped(&title(package))));
    if let Some(text) = &d.short_description {
        line(&mut out, format_args!("{}\n", escaped(text)));
    }
    let rows = facts(package).into_iter().map(|(key, value)| vec![key, value]).collect::<Vec<_>>();
    table(&mut out, &["", ""], &rows);
    if let Some(text) = &d.model_description {
        line(&mut out, format_args!("\n{}", description(text).trim_end()));
    }
    let tables = tables(package);
    for (name, (columns, rows)) in tables.iter().filter(|(name, _)| *name != "Files") {
        line(&mut out, format_args!("\n## {name}\n"));
        table(&mut out, columns, rows);
    }
    examples(&mut out, package);
    for (name, (columns, rows)) in tables.iter().filter(|(name, _)| *name == "Files") {
        line(&mut out, format_args!("\n## {name}\n"));
        table(&mut out, columns, rows);
    }
    out
}

fn table(out: &mut String, columns: &[&str], rows: &[Vec<String>]) {
    let row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |", cells.join(" | "))
    };
    line(out, row(&mut columns.iter().map(|c| escaped(c))));
    line(out, row(&mut columns.iter().map(|_| "---".to_owned())));
    for cells in rows {
        line(out, row(&mut cells.iter().map(|c| escaped(c))));
    }
}

fn examples(out: &mut String, package: &Package) {
    let examples = &package.description().examples;
    if !examples.is_empty() {
        line(out, "\n## Examples");
    }
    for (at, example) in examples.iter().enumerate() {
        line(out, format_args!("\n### {}\n", escaped(&numbered(at, example.name.as_deref()))));
        if let Some(about) = &example.description {
            line(out, format_args!("{}\n", escaped(about)));
        }
        for (what, name, to) in example_references(example) {
            let content = match to {
                Reference::Tensor(tensor) => tensor_of(package, tensor),
                Reference::Misc(path) => format!("misc/{path}"),
            };
            line(out, format_args!("- {what} **{}**: {}", escaped(name), escaped(&content)));
        }
    }
}

/// Returns the Markdown with HTML as text, pictures as links, and only links to absolute addresses.
fn description(text: &str) -> String {
    // Positions where a backslash is inserted, and where an exclamation mark is removed.
    let (mut before, mut without) = (Vec::new(), Vec::new());
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let part = text.get(range.clone()).unwrap_or_default();
                before.extend(part.match_indices('<').map(|(at, _)| range.start + at));
            }
            Event::Start(Tag::Link { dest_url, link_type, .. })
                if !is_allowed_link(&dest_url, link_type) && misc(&dest_url).is_none() =>
            {
                before.push(range.start);
            }
            Event::Start(Tag::Image { dest_url, link_type, .. }) => {
                without.push(range.start);
                if !is_allowed_link(&dest_url, link_type) && misc(&dest_url).is_none() {
                    before.push(range.start + 1);
                }
            }
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len());
    before.sort_unstable();
    without.sort_unstable();
    for (at, c) in text.char_indices() {
        match (before.binary_search(&at).is_ok(), c) {
            (true, '<') => out.push_str("&lt;"),
            (true, c) => out.extend(['\\', c]),
            (false, '!') if without.binary_search(&at).is_ok() => {}
            (false, c) => out.push(c),
        }
    }
    out
}

/// Escapes a plain text, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c if r"\`*_{}[]#|!~>".contains(c) => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
