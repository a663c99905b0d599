//! A schema of records as people have them.

use super::rows::{Fields, Row, Rows, column, unnamed};
use super::rules::{NO_RECORDS, TABLE};
use holdall_core::error::Shown as _;
use holdall_core::{Remedy, Result};
use holdall_io::select::nearest;
use holdall_json::parse;
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{InferOptions, Inference, Path, Schema, SchemaLimits, Segment};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes the schema of a record from rows: the first `most` of them, or all. Of Parquet and Arrow files it is what their columns
/// are, whatever `options` say.
///
/// # Errors
/// `schema/unknown-path` for a member of files that no record has; `infer/mixed` where one place has values of two types; `infer/no-records`; `record/type` for `null` in an array;
/// `input/table`; the `json/…` rules; those of reading `rows`; the `schema/…` rules where what was made is over
/// `limits`.
pub fn infer(
    mut rows: Rows,
    most: Option<u64>,
    options: &InferOptions,
    limits: &SchemaLimits,
) -> Result<Value> {
    // Columns have their types: what they hold need not be looked at.
    if let Some(kind) = rows.kind()? {
        return Ok(kind);
    }
    let mut seen = Inference::new(options, rows.depth());
    let mut left = most.unwrap_or(u64::MAX);
    let names = rows.names().unwrap_or_default().to_vec();
    let paths: Vec<Path> = names.iter().map(|name| column(name)).collect();
    let root = Branch::new(&names, &paths).map_err(|e| rows.at_line(e, 1))?;
    let cells = Cells { names: &names, depth: rows.depth() };
    while left > 0
        && let Some((line, row)) = rows.next()?
    {
        left -= 1;
        let taken = match row {
            Row::Json(text) => seen.text(text, line),
            Row::Table(fields) => cells.json(&root, fields).and_then(|json| {
                seen.text(json.unwrap_or_else(|| "{}".to_owned()).as_bytes(), line)
            }),
        };
        taken.map_err(|e| rows.at_line(e, line))?;
    }
    seen.columns(&paths);
    let own = |e: holdall_core::Error| e.in_source(rows.name());
    if left == most.unwrap_or(u64::MAX) {
        return Err(own(NO_RECORDS.broken("there is no record to make a schema of")));
    }
    let schema = seen.schema().map_err(own)?;
    let compiled = Schema::compile_record(&schema, limits).map_err(own)?;
    for path in &options.file_members {
        let there = compiled.record().and_then(|record| compiled.accessor(record, path).ok());
        if there.is_none() {
            let e = UNKNOWN_PATH
                .broken(format!("no record has the member `{path}`, which is to name files"));
            let given = path.to_string();
            return Err(own(match nearest(&given, names.iter().map(String::as_str)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }));
        }
    }
    Ok(schema)
}

/// A part of what a row of a table looks like.
enum Branch {
    Nothing,
    Cell(usize),
    Members(Vec<(Arc<str>, Branch)>),
    Elements(BTreeMap<u64, Branch>),
}

impl Branch {
    /// The columns of these names, which are for the members at these paths.
    fn new(names: &[String], paths: &[Path]) -> Result<Branch> {
        let mut root = Branch::Members(Vec::new());
        for (at, (name, path)) in names.iter().zip(paths).enumerate() {
            if path.is_root() {
                return Err(unnamed(at));
            }
            let added = root.add(&path.0, at);
            added.map_err(|what| TABLE.broken(format!("column `{}`: {what}", name.shown())))?;
        }
        match root.gap() {
            Some(column) => {
                let name = names.get(column).map_or("", String::as_str).shown();
                let message = format!("column `{name}`: an element before it has no column");
                Err(TABLE.broken(message))
            }
            None => Ok(root),
        }
    }

    fn add(&mut self, path: &[Segment], column: usize) -> std::result::Result<(), &'static str> {
        const TAKEN: &str = "another column is for the same member";
        let Some((first, rest)) = path.split_first() else {
            match self {
                Branch::Nothing => *self = Branch::Cell(column),
                _ => return Err(TAKEN),
            }
            return Ok(());
        };
        let below = match first {
            Segment::Name(name) => {
                if matches!(self, Branch::Nothing) {
                    *self = Branch::Members(Vec::new());
                }
                let Branch::Members(members) = self else { return Err(TAKEN) };
                let place = members.iter().position(|(known, _)| known == name);
                let place = place.unwrap_or_else(|| {
                    members.push((name.clone(), Branch::Nothing));
                    members.len() - 1
                });
                &mut members[place].1
            }
            Segment::Index(index) => {
                if matches!(self, Branch::Nothing) {
                    *self = Branch::Elements(BTreeMap::new());
                }
                let Branch::Elements(elements) = self else { return Err(TAKEN) };
                elements.entry(*index).or_insert(Branch::Nothing)
            }
            Segment::Each => return Err("it is for every element, not for one"),
        };
        // The length of a path, which a name has, bounds the recursion.
        below.add(rest, column)
    }

    /// A column of an element before which one has none.
    fn gap(&self) -> Option<usize> {
        match self {
            Branch::Nothing | Branch::Cell(_) => None,
            Branch::Members(members) => members.iter().find_map(|(_, below)| below.gap()),
            Branch::Elements(elements) => {
                let odd = (0..).zip(elements).find(|(at, (index, _))| at != *index);
                odd.and_then(|(_, (_, below))| below.column())
                    .or_else(|| elements.values().find_map(Branch::gap))
            }
        }
    }

    fn column(&self) -> Option<usize> {
        match self {
            Branch::Nothing => None,
            Branch::Cell(column) => Some(*column),
            Branch::Members(members) => members.first().and_then(|(_, below)| below.column()),
            Branch::Elements(elements) => elements.values().next().and_then(Branch::column),
        }
    }
}

/// What makes JSON of rows.
struct Cells<'n> {
    names: &'n [String],
    depth: usize,
}

impl Cells<'_> {
    /// The JSON that a part of a row looks like; `None` where there is nothing in its cells.
    fn json(&self, part: &Branch, row: &Fields) -> Result<Option<String>> {
        let (mut out, mut some) = (String::new(), false);
        match part {
            Branch::Nothing => {}
            Branch::Cell(column) => {
                let text = row.get(*column).unwrap_or_default();
                return Ok((!text.is_empty()).then(|| self.guess(text)));
            }
            Branch::Members(members) => {
                for (name, below) in members {
                    let Some(json) = self.json(below, row)? else { continue };
                    out.push(if some { ',' } else { '{' });
                    out.push_str(&Value::from(&**name).to_string());
                    out.push(':');
                    out.push_str(&json);
                    some = true;
                }
                out.push('}');
            }
            Branch::Elements(elements) => {
                let all = elements.values().map(|below| Ok((below, self.json(below, row)?)));
                let all = all.collect::<Result<Vec<_>>>()?;
                some = all.iter().any(|(_, json)| json.is_some());
                // Of texts an empty cell is one.
                let is_text =
                    all.iter().any(|(_, json)| json.as_ref().is_some_and(|j| j.starts_with('"')));
                for (at, (below, json)) in all.into_iter().enumerate().filter(|_| some) {
                    out.push(if at > 0 { ',' } else { '[' });
                    match json {
                        Some(json) => out.push_str(&json),
                        None if is_text => out.push_str("\"\""),
                        None => {
                            let name = below.column().and_then(|column| self.names.get(column));
                            let name = name.map_or("", String::as_str).shown();
                            let message = format!(
                                "column `{name}` is empty, and others of its array are not"
                            );
                            return Err(TABLE.broken(message));
                        }
                    }
                }
                out.push(']');
            }
        }
        Ok(some.then_some(out))
    }

    /// What a cell is, by its text.
    fn guess(&self, text: &str) -> String {
        let trimmed = text.trim();
        match trimmed.to_ascii_lowercase().as_str() {
            known @ ("true" | "false") => return known.to_owned(),
            "nan" | "inf" | "-inf" => return json!({"$float": "nan"}).to_string(),
            _ => {}
        }
        match parse(trimmed.as_bytes(), self.depth) {
            Ok(Value::Number(_)) => trimmed.to_owned(),
            Ok(value @ (Value::Array(_) | Value::Object(_))) if !has_null(&value) => {
                trimmed.to_owned()
            }
            _ => Value::from(text).to_string(),
        }
    }
}

/// Whether an array in it has `null`, which no array of records does.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_null() || has_null(item)),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}
