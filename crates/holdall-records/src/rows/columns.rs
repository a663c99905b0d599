//! Maps the columns of a table to members of a record: column names are paths, and cells become JSON according to the
//! kind of the member.

use super::{Fields, Row};
use crate::rules::TABLE;
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_json::{Reader, parse};
use holdall_schema::record::Unknown;
use holdall_schema::record::rules::{RANGE, TYPE, UNKNOWN_MEMBER};
use holdall_schema::{Kind, Len, Path, Scalar, Schema, Segment, TypeId};
use serde_json::{Map, Value};

/// The type of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cells {
    /// Numbers, as JSON or `nan`, `inf`, `-inf`.
    Number,
    /// Integers; the text must be one.
    Integer,
    /// `true`, `false`, `1`, `0`.
    Boolean,
    /// The text itself.
    Text,
    /// JSON text.
    Json,
}

/// The columns of a table, arranged in the structure of a record.
pub(crate) struct Columns {
    names: Vec<String>,
    root: ColumnNode,
    max_depth: usize,
}

/// A part of a record, and the columns that belong to it.
struct ColumnNode {
    is_optional: bool,
    what: ColumnContent,
}

enum ColumnContent {
    Nothing,
    Cell(usize, Cells),
    Members(Vec<(String, ColumnNode)>),
    Elements(Vec<ColumnNode>),
}

impl Columns {
    /// Arranges columns with these names in the structure of a record of this type.
    ///
    /// # Errors
    /// Returns `record/unknown-member` for an unknown member; `input/table` if two columns belong to one member or a
    /// column has no name.
    pub(super) fn new(
        names: &[String],
        schema: &Schema,
        ty: TypeId,
        unknown: Unknown,
        max_depth: usize,
    ) -> Result<Columns> {
        let mut root = ColumnNode { is_optional: false, what: ColumnContent::Nothing };
        for (column, name) in names.iter().enumerate() {
            let path = self::column(name);
            if path.is_root() && matches!(schema.ty(ty).kind, Kind::Struct(_)) {
                match unknown {
                    Unknown::Ignore => continue,
                    Unknown::Refuse => return Err(unnamed(column)),
                }
            }
            match insert_column(&mut root, schema, ty, &path, column) {
                Ok(()) => {}
                Err(e) if e.code() == UNKNOWN_MEMBER.code && unknown == Unknown::Ignore => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Columns { names: names.to_vec(), root, max_depth })
    }

    /// Returns the JSON value of a row.
    ///
    /// # Errors
    /// Returns `record/type` if a cell is not a value of its kind; or an error of the `json/…` rules.
    pub(crate) fn value(&self, row: Row<'_>) -> Result<Value> {
        match row {
            Row::Json(text) => parse(text, self.max_depth),
            Row::Table(fields) => self.object(fields),
        }
    }

    fn object(&self, fields: &Fields) -> Result<Value> {
        let value = self.part(&self.root, fields)?;
        Ok(value.unwrap_or_else(|| Value::Object(Map::new())))
    }

    fn part(&self, part: &ColumnNode, row: &Fields) -> Result<Option<Value>> {
        match &part.what {
            ColumnContent::Nothing => Ok(None),
            ColumnContent::Cell(column, cells) => {
                let text = row.get(*column).unwrap_or_default();
                let is_absent = text.is_empty() && (part.is_optional || *cells != Cells::Text);
                if is_absent {
                    return Ok(None);
                }
                let value = cell(text, *cells, self.max_depth).map_err(|e| {
                    let name = self.names.get(*column).map_or("", String::as_str);
                    e.within(format!("column `{}`", name.escaped()))
                })?;
                Ok(Some(value))
            }
            ColumnContent::Members(members) => {
                let mut object = Map::new();
                for (name, member) in members {
                    if let Some(value) = self.part(member, row)? {
                        object.insert(name.clone(), value);
                    }
                }
                let is_absent = object.is_empty() && part.is_optional;
                Ok((!is_absent).then_some(Value::Object(object)))
            }
            ColumnContent::Elements(elements) => {
                let mut items = Vec::new();
                for element in elements {
                    items.push(self.part(element, row)?);
                }
                if items.iter().all(Option::is_none) {
                    return Ok(None);
                }
                let items = items.into_iter().map(|i| i.unwrap_or(Value::Null)).collect();
                Ok(Some(Value::Array(items)))
            }
        }
    }
}

/// Parses the name of a column as a path. A name that is not a path becomes the path of the member with exactly that
/// name.
pub(crate) fn column(name: &str) -> Path {
    name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.into())]))
}

/// Returns the error for a column without a name.
#[cold]
pub(crate) fn unnamed(column: usize) -> Error {
    let e = TABLE.broken(format!("column {} has no name", column + 1));
    e.with_hint("give it a name in the first line; in pandas, `to_csv(index=False)` omits the unnamed index column")
}

/// Adds a column at its path.
fn insert_column(
    root: &mut ColumnNode,
    schema: &Schema,
    ty: TypeId,
    path: &Path,
    column: usize,
) -> Result<()> {
    let missing =
        || UNKNOWN_MEMBER.broken(format!("column `{path}`: the schema has no such member"));
    let twice = || TABLE.broken(format!("two columns belong to the member `{path}`"));
    // Checks that the member exists first, so that an error leaves nothing half done.
    let leaf = schema.accessor(ty, path).map_err(|_| missing())?.ty();
    let (mut at, mut ty) = (root, ty);
    for segment in &path.0 {
        match (&schema.ty(ty).kind, segment) {
            (Kind::Struct(fields), Segment::Name(name)) => {
                let member = fields.index_of(name).and_then(|p| fields.members.get(p));
                let member = member.ok_or_else(missing)?;
                if matches!(at.what, ColumnContent::Nothing) {
                    at.what = ColumnContent::Members(Vec::new());
                }
                let ColumnContent::Members(members) = &mut at.what else { return Err(twice()) };
                let place = members.iter().position(|(known, _)| **known == **name);
                let place = place.unwrap_or_else(|| {
                    let is_optional = member.presence.is_some();
                    members.push((
                        name.to_string(),
                        ColumnNode { is_optional, what: ColumnContent::Nothing },
                    ));
                    members.len() - 1
                });
                at = &mut members[place].1;
                ty = member.ty;
            }
            (Kind::Array(array), Segment::Index(index)) => {
                let Len::Fixed(len) = array.len else { return Err(missing()) };
                // A table has no more columns than its first line has names.
                const MAX_COLUMNS: u64 = 1 << 16;
                if len > MAX_COLUMNS {
                    return Err(missing());
                }
                if matches!(at.what, ColumnContent::Nothing) {
                    let empty = || ColumnNode { is_optional: false, what: ColumnContent::Nothing };
                    at.what = ColumnContent::Elements((0..len).map(|_| empty()).collect());
                }
                let ColumnContent::Elements(elements) = &mut at.what else { return Err(twice()) };
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                at = elements.get_mut(index).ok_or_else(missing)?;
                ty = array.items;
            }
            _ => return Err(missing()),
        }
    }
    if !matches!(at.what, ColumnContent::Nothing) {
        return Err(twice());
    }
    at.what = ColumnContent::Cell(column, cells(&schema.ty(leaf).kind));
    Ok(())
}

/// Returns how cells of a kind are written.
fn cells(kind: &Kind) -> Cells {
    match kind {
        Kind::Scalar(Scalar::Boolean) => Cells::Boolean,
        Kind::Scalar(Scalar::Timestamp) => Cells::Text,
        Kind::Scalar(Scalar::Complex64 | Scalar::Complex128) => Cells::Json,
        Kind::Scalar(
            Scalar::Float16
            | Scalar::BFloat16
            | Scalar::Float8E4M3
            | Scalar::Float8E5M2
            | Scalar::Float32
            | Scalar::Float64,
        ) => Cells::Number,
        Kind::Scalar(_) => Cells::Integer,
        Kind::String | Kind::Bytes | Kind::Enum(_) => Cells::Text,
        _ => Cells::Json,
    }
}

/// Parses a cell.
fn cell(text: &str, cells: Cells, max_depth: usize) -> Result<Value> {
    let wrong = |what: &str| TYPE.broken(format!("`{}` is not a {what}", shorten(text)));
    match cells {
        Cells::Text => Ok(Value::String(text.to_owned())),
        Cells::Boolean => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(wrong("boolean")),
        },
        Cells::Integer => {
            let text = text.trim();
            let number = Reader::new(text.as_bytes(), 0, 1).and_then(|mut reader| {
                let number = reader.number()?;
                reader.end().map(|()| number)
            });
            let n = number.map_err(|_| wrong("number"))?.integer();
            let small = n.and_then(|n| u64::try_from(n).map(Value::from).ok());
            let value = small.or_else(|| n.and_then(|n| i64::try_from(n).map(Value::from).ok()));
            // A double would round a number that is not an integer, possibly to one, so the text is checked.
            value.ok_or_else(|| {
                RANGE.broken(format!("`{}` is not a whole number of 64 bits", shorten(text)))
            })
        }
        Cells::Number => {
            let text = text.trim();
            let name = match text.to_ascii_lowercase().as_str() {
                "nan" => "nan",
                "inf" | "+inf" | "infinity" => "inf",
                "-inf" | "-infinity" => "-inf",
                _ => match parse(text.as_bytes(), 1) {
                    Ok(number @ Value::Number(_)) => return Ok(number),
                    _ => return Err(wrong("number")),
                },
            };
            Ok(serde_json::json!({ "$float": name }))
        }
        Cells::Json => parse(text.as_bytes(), max_depth),
    }
}

/// Shortens a long cell for an error message.
#[cold]
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escaped().to_string()
}

#[cfg(all(test, feature = "tables"))]
mod tests {
    use super::*;
    use holdall_schema::SchemaLimits;
    use serde_json::json;

    fn schema() -> Schema {
        let number = json!({"TypeDef:Float32": true});
        let record = json!({
            "TypeDef:Struct": ["id", "at", "name", "v", "ok"],
            "required": ["id", "at", "name", "v"],
            "properties": {
                "id": {"TypeDef:Int32": true},
                "at": {
                    "TypeDef:Struct": ["x", "y"], "required": ["x"],
                    "properties": {"x": number, "y": number},
                },
                "name": {"TypeDef:String": true},
                "v": {"TypeDef:Array": true, "items": number, "minItems": 2, "maxItems": 2},
                "ok": {"TypeDef:Boolean": true},
            },
        });
        Schema::compile_record(&record, &SchemaLimits::default()).unwrap()
    }

    fn columns(names: &[&str], unknown: Unknown) -> Result<Columns> {
        let (schema, names) = (schema(), names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        Columns::new(&names, &schema, schema.record().unwrap(), unknown, 8)
    }

    #[test]
    fn cells_become_the_members_that_their_columns_name() {
        let all = ["id", "at.x", "at.y", "name", "v[0]", "v[1]", "ok"];
        let columns = columns(&all, Unknown::Refuse).unwrap();
        let value = |cells: &[&str]| columns.object(&Fields::from(cells.to_vec()));
        assert_eq!(
            value(&["7", "1.5", "nan", "a,b", "1", "-inf", "TRUE"]).unwrap(),
            json!({"id": 7, "at": {"x": 1.5, "y": {"$float": "nan"}}, "name": "a,b",
                "v": [1, {"$float": "-inf"}], "ok": true})
        );
        // An empty cell means an absent member, unless the member is a required text.
        assert_eq!(
            value(&["", "2", "", "", "", "", ""]).unwrap(),
            json!({"at": {"x": 2}, "name": ""})
        );
        let e = value(&["seven", "1", "1", "", "1", "1", ""]).unwrap_err();
        assert_eq!(
            (e.code(), e.message()),
            ("record/type", "column `id`: `seven` is not a number")
        );
        // Integers are read from their text, not through a double.
        for text in
            ["0.99999999999999999999", "1.5", "18446744073709551616", "-9223372036854775809"]
        {
            let e = value(&[text, "1", "1", "", "1", "1", ""]).unwrap_err();
            assert_eq!(e.code(), "record/range");
            assert_eq!(
                e.message(),
                format!("column `id`: `{text}` is not a whole number of 64 bits")
            );
        }
        let whole = value(&["70e-1", "1", "1", "", "1", "1", ""]).unwrap();
        assert_eq!(whole["id"], json!(7));
    }

    #[test]
    fn unknown_columns_are_refused_by_default() {
        let e = columns(&["id", "colour"], Unknown::Refuse).err().unwrap();
        assert_eq!(e.code(), "record/unknown-member");
        assert!(columns(&["id", "colour"], Unknown::Ignore).is_ok());
        assert_eq!(columns(&["id", "id"], Unknown::Ignore).err().unwrap().code(), "input/table");
    }
}
