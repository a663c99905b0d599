//! Writes the texts of a package: `carton.toml`, `MANIFEST`, `LINKS`, `tensor_data/index.toml`.
//!
//! The same contents give the same text, which the original can read: it requires `tensor = []` if there are
//! no tensors, `inner = []` in every row, `runner_compat_version`, and `sample_out` in every example.

use crate::description::{
    Description, DimSpec, Example, OptionValue, Reference, SelfTest, ShapeSpec, Tolerance,
    UnknownKeys, ValueSpec,
};
use crate::links::Links;
use crate::manifest::Manifest;
use crate::tensors::{TensorKind, TensorRow};
use holdall_collections::sort;
use holdall_core::wire::toml::Value;
use std::fmt::Write as _;

/// Returns the text of `carton.toml`.
pub fn description(d: &Description) -> String {
    let mut out = String::from("spec_version = 1\n");
    field(&mut out, "model_name", d.model_name.as_deref());
    field(&mut out, "short_description", d.short_description.as_deref());
    field(&mut out, "model_description", d.model_description.as_deref());
    field(&mut out, "license", d.license.as_deref());
    field(&mut out, "repository", d.repository.as_deref());
    field(&mut out, "homepage", d.homepage.as_deref());
    if !d.required_platforms.is_empty() {
        put(&mut out, "required_platforms", &array(&d.required_platforms));
    }
    others(&mut out, &d.other);
    for spec in &d.inputs {
        tensor_spec(&mut out, "input", spec);
    }
    for spec in &d.outputs {
        tensor_spec(&mut out, "output", spec);
    }
    for test in &d.self_tests {
        self_test(&mut out, test);
    }
    for example in &d.examples {
        self::example(&mut out, example);
    }
    runner(&mut out, d);
    if !d.card.is_empty() {
        out.push_str("\n[card]\n");
        for (key, text) in &d.card {
            put(&mut out, &self::key(key), &quoted(text));
        }
    }
    if !d.base_models.is_empty() || !d.other_lineage.is_empty() {
        out.push_str("\n[lineage]\n");
        match d.base_models.as_slice() {
            [] => {}
            [one] => put(&mut out, "base_model", &quoted(one)),
            many => put(&mut out, "base_model", &array(many)),
        }
        others(&mut out, &d.other_lineage);
    }
    if d.sbom.is_some() || !d.other_sbom.is_empty() {
        out.push_str("\n[sbom]\n");
        field(&mut out, "file", d.sbom.as_deref());
        others(&mut out, &d.other_sbom);
    }
    out
}

/// Appends unknown keys as they were.
fn others(out: &mut String, others: &UnknownKeys) {
    for (name, value) in others {
        put(out, &key(name), value);
    }
}

/// Returns a value of any kind on one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        Value::Integer(n) => n.to_string(),
        Value::Float(n) => float(*n),
        Value::Boolean(b) => b.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => list(items.iter().map(self::value)),
        Value::Table(table) if table.is_empty() => String::from("{}"),
        Value::Table(table) => {
            let pairs =
                table.iter().map(|(name, value)| format!("{} = {}", key(name), self::value(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

pub(super) fn tensor_spec(out: &mut String, table: &str, spec: &ValueSpec) {
    header(out, table);
    put(out, "name", &quoted(&spec.name));
    put(out, "dtype", &quoted(spec.ty.as_str()));
    put(out, "shape", &shape(&spec.shape));
    field(out, "description", spec.description.as_deref());
    field(out, "internal_name", spec.internal_name.as_deref());
    others(out, &spec.other);
}

fn shape(shape: &ShapeSpec) -> String {
    let dim = |d: &DimSpec| match d {
        DimSpec::Size(n) => n.to_string(),
        DimSpec::Symbol(s) => quoted(s),
        DimSpec::Any => quoted("*"),
    };
    match shape {
        ShapeSpec::Any => quoted("*"),
        ShapeSpec::Symbol(s) => quoted(s),
        ShapeSpec::Dims(dims) => list(dims.iter().map(dim)),
    }
}

pub(super) fn self_test(out: &mut String, test: &SelfTest) {
    let tensors = |pairs: &[(String, String)]| {
        inline(pairs.iter().map(|(name, tensor)| (name, format!("@tensor_data/{tensor}"))))
    };
    header(out, "self_test");
    field(out, "name", test.name.as_deref());
    field(out, "description", test.description.as_deref());
    put(out, "inputs", &tensors(&test.inputs));
    if let Some(expected) = &test.expected {
        put(out, "expected_out", &tensors(expected));
    }
    others(out, &test.other);
    let is_usual = test.tolerance == Tolerance::default();
    if is_usual && test.other_compare.is_empty() {
        return;
    }
    out.push_str("\n[self_test.compare]\n");
    if !is_usual {
        put(out, "rtol", &float(test.tolerance.rtol));
        put(out, "atol", &float(test.tolerance.atol));
        if test.tolerance.equal_nan {
            put(out, "equal_nan", "true");
        }
    }
    others(out, &test.other_compare);
}

pub(super) fn example(out: &mut String, example: &Example) {
    let shown = |pairs: &[(String, Reference)]| {
        inline(pairs.iter().map(|(name, to)| {
            let to = match to {
                Reference::Tensor(tensor) => format!("@tensor_data/{tensor}"),
                Reference::Misc(path) => format!("@misc/{path}"),
            };
            (name, to)
        }))
    };
    header(out, "example");
    field(out, "name", example.name.as_deref());
    field(out, "description", example.description.as_deref());
    put(out, "inputs", &shown(&example.inputs));
    put(out, "sample_out", &shown(&example.outputs));
    others(out, &example.other);
}

fn runner(out: &mut String, d: &Description) {
    let runner = &d.runner;
    out.push_str("\n[runner]\n");
    put(out, "runner_name", &quoted(&runner.name));
    put(out, "required_framework_version", &quoted(&runner.framework_version));
    put(out, "runner_compat_version", &runner.compat_version.to_string());
    others(out, &runner.other);
    if !runner.options.is_empty() {
        out.push_str("\n[runner.opts]\n");
    }
    for (name, value) in &runner.options {
        let value = match value {
            OptionValue::String(s) => quoted(s),
            other => option(other),
        };
        put(out, &key(name), &value);
    }
}

/// Returns a runner's option on one line.
pub(super) fn option(value: &OptionValue) -> String {
    match value {
        OptionValue::Integer(n) => n.to_string(),
        OptionValue::Double(n) => float(*n),
        OptionValue::String(s) => one_line(s),
        OptionValue::Boolean(b) => b.to_string(),
        OptionValue::Datetime(time) => time.clone(),
        OptionValue::Array(all) => list(all.iter().map(option)),
        OptionValue::Table(all) if all.is_empty() => String::from("{}"),
        OptionValue::Table(all) => {
            let pairs =
                all.iter().map(|(name, value)| format!("{} = {}", key(name), option(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the text of `MANIFEST`: rows in the order of the bytes of their paths.
pub fn manifest(manifest: &Manifest) -> String {
    let mut rows: Vec<_> = manifest.rows.iter().collect();
    sort(&mut rows);
    let mut out = String::new();
    for (path, sha256) in rows {
        let _ = writeln!(out, "{path}={}", hex(sha256));
    }
    out
}

/// Returns the text of `LINKS`, in the order of the hashes.
pub fn links(links: &Links) -> String {
    let mut rows: Vec<_> = links.urls.iter().collect();
    sort(&mut rows);
    let mut out = String::from("version = 1\n\n[urls]\n");
    for (sha256, urls) in rows {
        put(&mut out, &hex(sha256), &array(urls));
    }
    out
}

/// Returns the text of `tensor_data/index.toml`.
pub fn index(rows: &[TensorRow]) -> String {
    if rows.is_empty() {
        return String::from("tensor = []\n");
    }
    let mut out = String::new();
    for row in rows {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str("[[tensor]]\n");
        put(&mut out, "name", &quoted(&row.name));
        match &row.kind {
            TensorKind::Plain { ty, shape, file } => {
                put(&mut out, "dtype", &quoted(ty.as_str()));
                put(&mut out, "shape", &list(shape.iter().map(u64::to_string)));
                put(&mut out, "file", &quoted(file));
                put(&mut out, "inner", "[]");
            }
            TensorKind::Nested { inner } => {
                put(&mut out, "dtype", &quoted("nested"));
                put(&mut out, "inner", &array(inner));
            }
        }
    }
    out
}

/// Returns the text of a string tensor's file in `tensor_data`.
pub fn strings(texts: &[String]) -> String {
    format!("data = {}\n", array(texts))
}

/// Returns a hash as 64 lower-case hex digits.
pub fn hex(sha256: &[u8; 32]) -> String {
    data_encoding::HEXLOWER.encode(sha256)
}

fn header(out: &mut String, table: &str) {
    let _ = write!(out, "\n[[{table}]]\n");
}

fn field(out: &mut String, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        put(out, name, &quoted(text));
    }
}

fn put(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {value}");
}

pub(super) fn array(texts: &[String]) -> String {
    list(texts.iter().map(|s| quoted(s)))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn inline<'a>(pairs: impl Iterator<Item = (&'a String, String)>) -> String {
    let all: Vec<String> =
        pairs.map(|(name, to)| format!("{} = {}", key(name), quoted(&to))).collect();
    if all.is_empty() { String::from("{}") } else { format!("{{ {} }}", all.join(", ")) }
}

/// Returns the shortest text of the number that is a float in TOML.
fn float(n: f64) -> String {
    if n.is_nan() { String::from("nan") } else { format!("{n:?}") }
}

/// Returns a key without quotes if TOML allows it, otherwise quoted.
pub(super) fn key(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { one_line(name) }
}

/// Returns a quoted text, over several lines if it has several.
pub(super) fn quoted(text: &str) -> String {
    if !text.contains('\n') {
        return one_line(text);
    }
    let mut out = String::from("\"\"\"\n");
    let mut quotes = 0u32;
    for c in text.chars() {
        // Three quotes in a row would end the text, and so would one at the end.
        quotes = if c == '"' { quotes.saturating_add(1) } else { 0 };
        match c {
            '"' if quotes < 3 => out.push('"'),
            '"' => {
                quotes = 0;
                out.push_str("\\\"");
            }
            '\n' => out.push('\n'),
            c => push_char(&mut out, c),
        }
    }
    if quotes > 0 {
        // The last quote is escaped, and there are fewer than three right before it.
        out.pop();
        out.push_str("\\\"");
    }
    out.push_str("\"\"\"");
    out
}

fn one_line(text: &str) -> String {
    let mut out = String::from("\"");
    text.chars().for_each(|c| push_char(&mut out, c));
    out.push('"');
    out
}

fn push_char(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_control() => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        let long = "\"\"\"\"\"\"x\"\"\n".to_owned();
        for text in [
            "",
            "a",
            "\"",
            "a\\b",
            "\n",
            "\n\n",
            "a\nb\"",
            "a\nb\"\"",
            "a\nb\"\"\"",
            "\r\n",
            "\t\u{0}\u{7f}\n\u{85}",
            "a\\\nb",
            "e\u{301}\u{1f600}\n",
            "  \n  x  \n",
            &long,
        ] {
            let toml = format!("a = {}\n{} = 1\n", quoted(text), key(&format!("k{text}")));
            let back: toml::Table = toml.parse().unwrap_or_else(|e| panic!("{toml}: {e}"));
            assert_eq!(back["a"].as_str(), Some(text), "{toml}");
            assert!(back.contains_key(&format!("k{text}")), "{toml}");
        }
    }

    #[test]
    fn floats_stay_floats() {
        for n in [0.0, 1.0, -1e300, 1e-5, 1e16, f64::INFINITY, f64::NEG_INFINITY] {
            let back: toml::Table = format!("a = {}\n", float(n)).parse().unwrap();
            assert_eq!(back["a"].as_float(), Some(n));
        }
    }
}
