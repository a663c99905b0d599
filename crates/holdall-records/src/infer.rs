//! A schema of records as people have them.

use super::rows::{Fields, Row, Rows};
use super::rules::TABLE;
use holdall_core::Result;
use holdall_core::error::Shown as _;
use holdall_json::parse;
use holdall_schema::{InferOptions, Inference, Path, Plain, Schema, SchemaLimits, Segment};
use serde_json::{Map, Value, json};

/// Makes the schema of a record from rows: the first `most` of them, or all.
///
/// # Errors
/// `infer/mixed` where one place has values of two types; `record/type` for `null` in an array;
/// `input/table`; the `json/…` rules; those of reading `rows`; the `schema/…` rules where what was made is over
/// `limits`.
pub fn infer(
    mut rows: Rows,
    most: Option<u64>,
    options: &InferOptions,
    limits: &SchemaLimits,
) -> Result<Value> {
    let mut seen = Inference::new(options, rows.depth());
    let mut left = most.unwrap_or(u64::MAX);
    let names = rows.names().unwrap_or_default();
    let tree = Tree::new(names).map_err(|e| rows.at_line(e, 1))?;
    while left > 0
        && let Some((line, row)) = rows.next()?
    {
        left -= 1;
        let taken = match row {
            Row::Json(text) => seen.text(text, line),
            Row::Table(fields) => seen.text(tree.value(fields).to_string().as_bytes(), line),
        };
        taken.map_err(|e| rows.at_line(e, line))?;
    }
    let plain = match rows.names() {
        Some(names) => {
            seen.order(&names.iter().map(|name| steps(name)).collect::<Vec<_>>());
            Plain::Text
        }
        None => Plain::Apart,
    };
    let own = |e: holdall_core::Error| e.in_source(rows.name());
    let schema = seen.schema(plain).map_err(own)?;
    Schema::compile_record(&schema, limits).map_err(own)?;
    Ok(schema)
}

/// The columns of a table as members that nest.
#[derive(Default)]
struct Tree {
    members: Vec<(String, Branch)>,
}

enum Branch {
    Cell(usize),
    Members(Tree),
}

impl Tree {
    fn new(names: &[String]) -> Result<Tree> {
        let mut root = Tree::default();
        for (column, name) in names.iter().enumerate() {
            root.add(&steps(name), column, name)?;
        }
        Ok(root)
    }

    fn add(&mut self, steps: &[String], column: usize, name: &str) -> Result<()> {
        let taken = || {
            let name = name.shown();
            TABLE.broken(format!("column `{name}`: another column is for the same member"))
        };
        let Some((first, rest)) = steps.split_first() else { return Err(taken()) };
        let at = self.members.iter().position(|(known, _)| known == first);
        match (at, rest.is_empty()) {
            (None, true) => self.members.push((first.clone(), Branch::Cell(column))),
            (None, false) => {
                let mut below = Tree::default();
                below.add(rest, column, name)?;
                self.members.push((first.clone(), Branch::Members(below)));
            }
            (Some(at), _) => match self.members.get_mut(at) {
                Some((_, Branch::Members(below))) if !rest.is_empty() => {
                    below.add(rest, column, name)?;
                }
                _ => return Err(taken()),
            },
        }
        Ok(())
    }

    /// The value that a row looks like.
    fn value(&self, row: &Fields) -> Value {
        let mut object = Map::new();
        for (name, branch) in &self.members {
            match branch {
                Branch::Cell(column) => {
                    let text = row.get(*column).unwrap_or_default();
                    if !text.is_empty() {
                        object.insert(name.clone(), guess(text));
                    }
                }
                Branch::Members(below) => {
                    let value = below.value(row);
                    if value.as_object().is_some_and(|o| !o.is_empty()) {
                        object.insert(name.clone(), value);
                    }
                }
            }
        }
        Value::Object(object)
    }
}

/// The names that a column's name stands for: itself, where it is not a path of names.
fn steps(name: &str) -> Vec<String> {
    let path: Result<Path> = name.parse();
    let names = path.ok().and_then(|path| {
        let of = |segment: &Segment| match segment {
            Segment::Name(name) => Some(name.to_string()),
            _ => None,
        };
        path.0.iter().map(of).collect::<Option<Vec<_>>>()
    });
    names.unwrap_or_else(|| vec![name.to_owned()])
}

/// What a cell is, by its text.
fn guess(text: &str) -> Value {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "nan" | "inf" | "-inf" => return json!({"$float": "nan"}),
        _ => {}
    }
    match parse(text.trim().as_bytes(), 1) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::String(text.to_owned()),
    }
}
