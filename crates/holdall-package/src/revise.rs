//! Changes values in an author's `carton.toml` and keeps comments, spacing, unknown tables and the order of
//! everything.

use crate::description::Description;
use crate::write::{self, key, quoted};
use holdall_collections::sort_by;
use holdall_core::limits::Limits;
use std::fmt::Write as _;
use std::ops::Range;

/// Returns the text with the values of `description`. Returns `None` if it cannot be changed piece by piece,
/// for example because tables are inline. Returns the text unchanged if the values are equal.
pub fn revise(text: &[u8], description: &Description) -> Option<String> {
    let limits = Limits::default();
    let (own, _) = Description::parse_part(text, &limits).ok()?;
    let mut text = Text::new(std::str::from_utf8(text).ok()?);
    let d = description;
    if !text.has(&["spec_version"]) {
        text.set(&["spec_version"], "1");
    }
    for (name, old, new) in [
        ("model_name", &own.model_name, &d.model_name),
        ("short_description", &own.short_description, &d.short_description),
        ("model_description", &own.model_description, &d.model_description),
        ("license", &own.license, &d.license),
        ("repository", &own.repository, &d.repository),
        ("homepage", &own.homepage, &d.homepage),
    ] {
        match new {
            Some(new) if old.as_ref() != Some(new) => text.set(&[name], &quoted(new)),
            _ => {}
        }
    }
    if own.required_platforms != d.required_platforms {
        text.set(&["required_platforms"], &write::array(&d.required_platforms));
    }
    let (old, new) = (&own.runner, &d.runner);
    if old.name != new.name {
        text.set(&["runner", "runner_name"], &quoted(&new.name));
    }
    if old.framework_version != new.framework_version {
        text.set(&["runner", "required_framework_version"], &quoted(&new.framework_version));
    }
    if old.compat_version != new.compat_version || !text.has(&["runner", "runner_compat_version"]) {
        text.set(&["runner", "runner_compat_version"], &new.compat_version.to_string());
    }
    for (name, value) in &new.options {
        if !old.options.iter().any(|(known, old)| known == name && old == value) {
            text.set(&["runner", "opts", name], &value.to_string());
        }
    }
    for (name, changed) in [
        ("input", own.inputs != d.inputs),
        ("output", own.outputs != d.outputs),
        ("self_test", own.self_tests != d.self_tests),
        ("example", own.examples != d.examples),
    ] {
        if changed {
            text.remove(name);
            let mut tables = String::new();
            match name {
                "input" => d.inputs.iter().for_each(|s| write::tensor_spec(&mut tables, name, s)),
                "output" => d.outputs.iter().for_each(|s| write::tensor_spec(&mut tables, name, s)),
                "self_test" => d.self_tests.iter().for_each(|t| write::self_test(&mut tables, t)),
                _ => d.examples.iter().for_each(|e| write::example(&mut tables, e)),
            }
            text.append(&tables);
        }
    }
    // Reading the result back detects anything that was missed.
    let (found, _) = Description::parse(text.0.as_bytes(), &limits).ok()?;
    (normalized_text(&found) == normalized_text(description)).then_some(text.0)
}

/// Returns a description's contents with sorted options, since their order has no meaning.
fn normalized_text(description: &Description) -> String {
    let mut all = description.clone();
    sort_by(&mut all.runner.options, |(a, _), (b, _)| a.cmp(b));
    write::description(&all)
}

/// A text of valid TOML.
struct Text(String);

/// One item of the text: one line, or several if a value spans several.
struct Item {
    /// The key, with its table.
    path: Vec<String>,
    kind: ItemKind,
    /// The item's lines, with the final line feed.
    lines: Range<usize>,
}

enum ItemKind {
    /// `[path]` or `[[path]]`.
    Header,
    /// `path = value`: the range of the value.
    Pair(Range<usize>),
}

impl Text {
    fn new(text: &str) -> Text {
        let mut text = text.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Text(text)
    }

    /// Returns `true` if the key has a line of its own.
    fn has(&self, path: &[&str]) -> bool {
        items(&self.0)
            .iter()
            .any(|item| item.path == path && matches!(item.kind, ItemKind::Pair(_)))
    }

    /// Sets a key at the top level or in a table that is not in a list.
    fn set(&mut self, path: &[&str], value: &str) {
        let items = items(&self.0);
        let pair = items.iter().find_map(|item| match &item.kind {
            ItemKind::Pair(value) if item.path == path => Some(value.clone()),
            _ => None,
        });
        if let Some(range) = pair {
            self.0.replace_range(range, value);
            return;
        }
        let Some((name, table)) = path.split_last() else { return };
        let line = format!("{} = {value}\n", key(name));
        // After the last key of the table, or its header; for the top level, before the first header.
        let header = items
            .iter()
            .position(|item| matches!(item.kind, ItemKind::Header) && item.path == table);
        let of_table = match (table, header) {
            ([], _) => {
                Some(0..items.iter().take_while(|i| !matches!(i.kind, ItemKind::Header)).count())
            }
            (_, Some(at)) => {
                let after = items.iter().skip(at.saturating_add(1));
                let pairs = after.take_while(|i| !matches!(i.kind, ItemKind::Header)).count();
                Some(at..at.saturating_add(1).saturating_add(pairs))
            }
            _ => None,
        };
        match of_table {
            Some(own) => {
                let last = items.get(own).and_then(|own| own.last());
                let offset = last.map_or_else(|| first_place(&self.0), |item| item.lines.end);
                self.0.insert_str(offset, &line);
            }
            None => {
                let names: Vec<String> = table.iter().map(|name| key(name)).collect();
                let _ = write!(self.0, "\n[{}]\n{line}", names.join("."));
            }
        }
    }

    /// Removes the tables of a list, with all subtables.
    fn remove(&mut self, name: &str) {
        let mut is_inside = false;
        let mut gone: Vec<Range<usize>> = Vec::new();
        for item in items(&self.0) {
            let is_own = item.path.first().is_some_and(|first| first == name);
            match item.kind {
                ItemKind::Header => is_inside = is_own,
                ItemKind::Pair(_) => {}
            }
            if is_inside || is_own {
                gone.push(item.lines);
            }
        }
        for lines in gone.into_iter().rev() {
            self.0.replace_range(lines, "");
        }
    }

    fn append(&mut self, tables: &str) {
        self.0.push_str(tables);
    }
}

/// Returns the position for the first key: after the comment at the very start.
fn first_place(text: &str) -> usize {
    let comment = text.split_inclusive('\n').take_while(|line| line.starts_with('#'));
    comment.map(str::len).sum()
}

/// Returns the items of the text, in their order.
fn items(text: &str) -> Vec<Item> {
    let mut out = Vec::new();
    let mut table: Vec<String> = Vec::new();
    let mut at = 0usize;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let line_end = |from: usize| {
            let rest = text.get(from..).unwrap_or_default();
            from.saturating_add(rest.find('\n').map_or(rest.len(), |n| n.saturating_add(1)))
        };
        let indent = rest.len().saturating_sub(rest.trim_start_matches([' ', '\t']).len());
        let begin = at.saturating_add(indent);
        let line = text.get(begin..).unwrap_or_default();
        match line.bytes().next() {
            Some(b'\n' | b'\r' | b'#') | None => at = line_end(at),
            Some(b'[') => {
                let name = line.trim_start_matches('[');
                table = keys(name).0;
                let lines = at..line_end(begin);
                at = lines.end;
                out.push(Item { path: table.clone(), kind: ItemKind::Header, lines });
            }
            Some(_) => {
                let (own, len) = keys(line);
                let after = begin.saturating_add(len);
                let value = text.get(after..).unwrap_or_default();
                let equals = value.find('=').map_or(value.len(), |n| n.saturating_add(1));
                let value = value.get(equals..).unwrap_or_default();
                let blank = value.len().saturating_sub(value.trim_start_matches([' ', '\t']).len());
                let start = after.saturating_add(equals).saturating_add(blank);
                let end = start.saturating_add(value_len(text.get(start..).unwrap_or_default()));
                let lines = at..line_end(end);
                at = lines.end;
                let path = table.iter().cloned().chain(own).collect();
                out.push(Item { path, kind: ItemKind::Pair(start..end), lines });
            }
        }
    }
    out
}

/// Parses a dotted key; returns its parts and its length in bytes, including blanks after it.
fn keys(text: &str) -> (Vec<String>, usize) {
    let mut out = Vec::new();
    let mut at = 0usize;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let rest = rest.trim_start_matches([' ', '\t']);
        at = text.len().saturating_sub(rest.len());
        let len = match rest.bytes().next() {
            Some(b'"' | b'\'') => string_len(rest),
            _ => rest.find(['.', '=', ']', ' ', '\t', '\n']).unwrap_or(rest.len()),
        };
        out.push(plain_key(rest.get(..len).unwrap_or_default()));
        at = at.saturating_add(len);
        let rest = text.get(at..).unwrap_or_default();
        let after = rest.trim_start_matches([' ', '\t']);
        at = text.len().saturating_sub(after.len());
        if !after.starts_with('.') {
            return (out, at);
        }
        at = at.saturating_add(1);
    }
}

/// Returns a key without its quotes.
fn plain_key(key: &str) -> String {
    let parsed = format!("{key} = 1\n").parse::<holdall_core::wire::toml::Table>();
    parsed.ok().and_then(|table| table.into_iter().next()).map_or(key.to_owned(), |(key, _)| key)
}

/// Returns the length of the string at the start, with its quotes.
fn string_len(text: &str) -> usize {
    let quote = text.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let (open, is_long) = match text.starts_with(&triple) {
        true => (3usize, true),
        false => (1, false),
    };
    let bytes = text.as_bytes();
    let mut at = open;
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        if *byte == b'\\' && quote == "\"" {
            at = at.saturating_add(2);
        } else if is_long && rest.starts_with(triple.as_bytes()) {
            // Up to two more quotes belong to the text.
            let quotes = rest.iter().take_while(|b| quote.as_bytes().first() == Some(*b)).count();
            return at.saturating_add(quotes.min(5));
        } else if !is_long && quote.as_bytes().first() == Some(byte) {
            return at.saturating_add(1);
        } else {
            at = at.saturating_add(1);
        }
    }
    text.len()
}

/// Returns the length of the value at the start, without blanks and the comment after it.
fn value_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut end, mut depth) = (0usize, 0usize, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                at = at.saturating_add(string_len(text.get(at..).unwrap_or_default()));
                end = at;
                continue;
            }
            b'#' if depth == 0 => break,
            b'#' => {
                // A comment inside a list.
                let rest = text.get(at..).unwrap_or_default();
                at = at.saturating_add(rest.find('\n').unwrap_or(rest.len()));
                continue;
            }
            b'\n' if depth == 0 => break,
            b'[' | b'{' => depth = depth.saturating_add(1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at = at.saturating_add(1);
        if !byte.is_ascii_whitespace() {
            end = at;
        }
    }
    end
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::OptionValue;

    const TEXT: &str = r##"# who wrote this
spec_version = 1 # the only one
"model_name" = 'old' # its name

[unknown] # a table of others
a = [1, # one
  "]", # not the end
  2]
"b.c" = {x = 1}

[runner] # what runs it
runner_name = "noop"
required_framework_version = "*"
# a comment of the runner
runner_compat_version = 1
later = """
[not a header]
x = "y" \""""

[runner.opts]
arr = [1, 2]
inl = {a = 1}
dt = 2024-01-01T00:00:00Z
inf = -inf
[runner.opts.sub]
k = "v"

[[input]]
name = "x" # one
dtype = "float32"
shape = []
[[unknown_list]]
a = 1
[[output]]
name = "y"
dtype = "float32"
shape = [] # last"##;

    fn changed(change: impl FnOnce(&mut Description)) -> (String, Description) {
        let (mut d, _) = Description::parse(TEXT.as_bytes(), &Limits::default()).unwrap();
        change(&mut d);
        let text = revise(TEXT.as_bytes(), &d).unwrap();
        let (found, _) = Description::parse(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(normalized_text(&found), normalized_text(&d));
        (text, d)
    }

    #[test]
    fn unchanged_text_is_kept() {
        assert_eq!(changed(|_| ()).0, format!("{TEXT}\n"));
        let (text, _) = changed(|d| d.model_name = Some("new".into()));
        assert_eq!(text, format!("{TEXT}\n").replace("'old'", "\"new\""));
        let (text, _) = changed(|d| d.license = Some("MIT".into()));
        let line = "\"model_name\" = 'old' # its name\n";
        assert_eq!(text, format!("{TEXT}\n").replace(line, &format!("{line}license = \"MIT\"\n")));
    }

    #[test]
    fn every_field_can_be_changed() {
        let (text, _) = changed(|d| {
            d.runner.options.push(("new one".into(), OptionValue::Boolean(true)));
            d.runner.options[0].1 = OptionValue::Array(Vec::new());
            d.runner.framework_version = ">=2".into();
            d.runner.compat_version = 7;
            d.required_platforms = vec!["x86_64-unknown-linux-gnu".into()];
            d.model_description = Some("a\n\"\"\"b".into());
        });
        for kept in
            ["# a comment of the runner", "# what runs it", "[unknown] # a table", "inf = -inf"]
        {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        let (text, _) = changed(|d| d.inputs[0].name = "z".into());
        assert!(
            text.contains("[[unknown_list]]\na = 1\n") && !text.contains("name = \"x\""),
            "{text}"
        );
    }

    #[test]
    fn optional_fields_are_added() {
        let text = "[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\n";
        let (mut d, _) = Description::parse_unpacked(text.as_bytes(), &Limits::default()).unwrap();
        d.runner.compat_version = 1;
        let text = revise(text.as_bytes(), &d).unwrap();
        assert_eq!(
            text,
            "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\n\
             runner_compat_version = 1\n"
        );
        let only = revise(b"spec_version = 1\n", &d).unwrap();
        assert!(only.ends_with("runner_compat_version = 1\n"), "{only}");
    }

    #[test]
    fn inline_tables_are_not_revised() {
        let text = "spec_version = 1\nrunner = {runner_name = \"a\", required_framework_version = \"*\", runner_compat_version = 1}\n";
        let (mut d, _) = Description::parse(text.as_bytes(), &Limits::default()).unwrap();
        d.runner.name = "b".into();
        assert_eq!(revise(text.as_bytes(), &d), None);
    }
}
