//! Infers a schema from rows.

use super::rows::{Fields, Row, Rows, column, infer_rows, unnamed};
use super::rules::{NO_RECORDS, TABLE};
use holdall_core::error::Escape as _;
use holdall_core::{Remedy, Result};
use holdall_io::select::nearest;
use holdall_json::parse;
use holdall_schema::rules::UNKNOWN_PATH;
use holdall_schema::{InferOptions, Inference, Path, Schema, SchemaLimits, Segment};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Infers the schema of a record from rows: from the first `max_records` rows, or all. For Parquet and Arrow files the schema
/// follows from the columns, and `options` have no effect.
///
/// # Errors
/// Returns `schema/unknown-path` if no record has a member that `options` name for files; `infer/mixed` if one path has
/// values of two types; `infer/no-records` if there are no rows; `record/type` for `null` in an array; `input/table`
/// for invalid columns; an error of the `json/…` rules; the errors of reading `rows`; and an error of the `schema/…`
/// rules if the schema exceeds `limits`.
pub fn infer(
    mut rows: Rows,
    max_records: Option<u64>,
    options: &InferOptions,
    limits: &SchemaLimits,
) -> Result<Value> {
    // Columns have their types, so their values need not be read.
    if let Some(kind) = rows.row_schema()? {
        return Ok(kind);
    }
    let mut seen = Inference::new(options, rows.depth());
    let mut left = max_records.unwrap_or(u64::MAX);
    let names = rows.names().unwrap_or_default().to_vec();
    let paths: Vec<Path> = names.iter().map(|name| column(name)).collect();
    let root = Branch::new(&names, &paths).map_err(|e| rows.at_line(e, 1))?;
    let cells = Cells { names: &names, depth: rows.depth() };
    if let Some(mut source) = rows.take_source() {
        let count = infer_rows(&mut *source, &mut seen, left);
        left -= count.map_err(|e| e.in_source(rows.name()))?;
    }
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
    if left == max_records.unwrap_or(u64::MAX) {
        return Err(own(
            NO_RECORDS.broken("no records found; a schema is inferred from at least one")
        ));
    }
    let schema = seen.schema().map_err(own)?;
    let compiled = Schema::compile_record(&schema, limits).map_err(own)?;
    for path in &options.file_members {
        let there = compiled.record().and_then(|record| compiled.accessor(record, path).ok());
        if there.is_none() {
            let e = UNKNOWN_PATH.broken(format!(
                "no record has the member `{path}`, which was given as a member with file names"
            ));
            let given = path.to_string();
            return Err(own(match nearest(&given, names.iter().map(String::as_str)) {
                Some(near) => e.with_remedy(Remedy::did_you_mean(near)),
                None => e,
            }));
        }
    }
    Ok(schema)
}

/// The JSON structure that a row of a table is converted to.
enum Branch {
    Nothing,
    Cell(usize),
    Members(Vec<(Arc<str>, Branch)>),
    Elements(BTreeMap<u64, Branch>),
}

impl Branch {
    /// Builds the structure from the names of the columns and the paths of their members.
    fn new(names: &[String], paths: &[Path]) -> Result<Branch> {
        let mut root = Branch::Members(Vec::new());
        for (at, (name, path)) in names.iter().zip(paths).enumerate() {
            if path.is_root() {
                return Err(unnamed(at));
            }
            let added = root.add(&path.0, at);
            added.map_err(|what| TABLE.broken(format!("column `{}`: {what}", name.escaped())))?;
        }
        match root.gap() {
            Some(column) => {
                let name = names.get(column).map_or("", String::as_str).escaped();
                let message =
                    format!("column `{name}`: an earlier element of the array has no column");
                Err(TABLE.broken(message))
            }
            None => Ok(root),
        }
    }

    fn add(&mut self, path: &[Segment], column: usize) -> std::result::Result<(), &'static str> {
        const TAKEN: &str = "another column belongs to the same member";
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
                let index = members.iter().position(|(known, _)| known == name);
                let index = index.unwrap_or_else(|| {
                    members.push((name.clone(), Branch::Nothing));
                    members.len() - 1
                });
                &mut members[index].1
            }
            Segment::Index(index) => {
                if matches!(self, Branch::Nothing) {
                    *self = Branch::Elements(BTreeMap::new());
                }
                let Branch::Elements(elements) = self else { return Err(TAKEN) };
                elements.entry(*index).or_insert(Branch::Nothing)
            }
            Segment::Each => return Err("the path refers to all elements; expected an index"),
        };
        // The recursion is bounded by the length of the path.
        below.add(rest, column)
    }

    /// Returns a column of an element that comes after an element without a column.
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

/// Converts rows to JSON.
struct Cells<'n> {
    names: &'n [String],
    depth: usize,
}

impl Cells<'_> {
    /// Returns the JSON of a part of a row, or `None` if all of its cells are empty.
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
                // In an array of texts, an empty cell is an empty text.
                let is_text =
                    all.iter().any(|(_, json)| json.as_ref().is_some_and(|j| j.starts_with('"')));
                for (at, (below, json)) in all.into_iter().enumerate().filter(|_| some) {
                    out.push(if at > 0 { ',' } else { '[' });
                    match json {
                        Some(json) => out.push_str(&json),
                        None if is_text => out.push_str("\"\""),
                        None => {
                            let name = below.column().and_then(|column| self.names.get(column));
                            let name = name.map_or("", String::as_str).escaped();
                            let message = format!(
                                "column `{name}` is empty, but other columns of the same array are not"
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

    /// Guesses the JSON value of a cell from its text.
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

/// Returns `true` if the value contains an array with `null`, which records cannot represent.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_null() || has_null(item)),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}
