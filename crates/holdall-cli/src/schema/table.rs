//! A summary of how a table was interpreted.

use holdall::schema::{Path, Segment};
use serde_json::Value;

/// Maximum number of columns that are named.
const SHOWN: usize = 16;

/// Describes the delimiter, and the columns that are not plain values.
pub(super) fn taken(delimiter: char, names: &[String], schema: &Value) -> String {
    let between = match delimiter {
        ',' => "commas",
        ';' => "semicolons",
        '\t' => "tabs",
        _ => "bars",
    };
    let mut members: Vec<Member> = Vec::new();
    for name in names {
        let path = name.parse::<Path>().unwrap_or_default();
        let (first, is_whole) = match path.0.split_first() {
            Some((Segment::Name(first), rest)) => (first.to_string(), rest.is_empty()),
            _ => (name.clone(), true),
        };
        match members.iter_mut().find(|member| member.name == first) {
            Some(member) => member.columns += 1,
            None => members.push(Member { name: first, columns: 1, is_whole }),
        }
    }
    let mut all: Vec<String> = members.iter().take(SHOWN).map(|m| m.describe(schema)).collect();
    if members.len() > SHOWN {
        all.push(format!("{} more", members.len() - SHOWN));
    }
    format!("a table with {between} between its fields: {}", all.join(", "))
}

/// A member of the record.
struct Member {
    name: String,
    /// Number of columns of the member or its parts.
    columns: usize,
    is_whole: bool,
}

impl Member {
    fn describe(&self, schema: &Value) -> String {
        let kind = schema.get("properties").and_then(|all| all.get(&self.name));
        let is = |keyword: &str| kind.is_some_and(|kind| kind.get(keyword).is_some());
        let is_array = is("TypeDef:Array");
        let columns = match self.columns {
            1 => "1 column".to_owned(),
            n => format!("{n} columns"),
        };
        let what = match (self.is_whole, is_array) {
            (false, true) => format!(" (an array in {columns})"),
            (false, false) => format!(" (a struct in {columns})"),
            (true, true) => " (arrays as JSON)".to_owned(),
            (true, false) if is("TypeDef:Struct") || is("TypeDef:Record") => {
                " (objects as JSON)".to_owned()
            }
            (true, false) => String::new(),
        };
        format!("`{}`{what}", self.name)
    }
}
