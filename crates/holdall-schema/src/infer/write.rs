//! Writes the schema for the values that were seen.

use super::shape::{MAX_MEMBERS, Seen, Shape};
use super::{InferOptions, MIXED, Width};
use crate::error::{Error, Result};
use crate::path::{Path, Segment};
use serde_json::{Map, Value, json};

/// Returns the schema of records with these values.
pub(super) fn schema(shape: &Shape, wants: &InferOptions) -> Result<Value> {
    Write { wants }.shape(shape, &Path::root())
}

struct Write<'w> {
    wants: &'w InferOptions,
}

impl Write<'_> {
    fn shape(&self, shape: &Shape, path: &Path) -> Result<Value> {
        if self.wants.file_members.contains(path) {
            return Ok(bytes());
        }
        match self.kind(shape, path) {
            // Every cell is text, so text always fits.
            Err(e) if shape.is_cell && e.code() == MIXED.code => {
                Ok(json!({"type": "string", "TypeDef:String": true}))
            }
            made => made,
        }
    }

    fn kind(&self, shape: &Shape, path: &Path) -> Result<Value> {
        let has_numbers = shape.integers.count > 0 || shape.floats.count > 0;
        // Text and values that have a form as text are all text.
        let is_text = shape.texts.count > 0;
        let nothing = Seen::default();
        let (texts, times, bytes) = match is_text {
            true => (shape.texts, nothing, nothing),
            false => (nothing, shape.times, shape.bytes),
        };
        let kinds = [
            ("a boolean", shape.bools),
            ("a number", if shape.integers.count > 0 { shape.integers } else { shape.floats }),
            ("text", texts),
            ("a time", times),
            ("bytes", bytes),
            ("an array", shape.arrays),
            ("an object", shape.objects),
        ];
        let mut found = kinds.iter().filter(|(_, seen)| seen.count > 0);
        let (first, second) = (found.next(), found.next());
        if let (Some(a), Some(b)) = (first, second) {
            return Err(mixed(path, a, b));
        }
        if shape.bools.count > 0 {
            return Ok(json!({"type": "boolean", "TypeDef:Boolean": true}));
        }
        if has_numbers {
            return Ok(self.number(shape));
        }
        if times.count > 0 {
            return Ok(time());
        }
        if bytes.count > 0 {
            return Ok(self::bytes());
        }
        if shape.arrays.count > 0 || shape.columns.is_some() {
            return self.array(shape, path);
        }
        if shape.objects.count > 0 || !shape.members.is_empty() {
            return self.object(shape, path);
        }
        // Text, or only null and empty arrays, for which any kind fits.
        Ok(self.text(shape))
    }

    fn number(&self, shape: &Shape) -> Value {
        let fits =
            |least: i128, most: i128| shape.min_integer >= least && shape.max_integer <= most;
        let kind = if shape.floats.count > 0 {
            let is_narrow = self.wants.width == Width::Tight && !shape.is_wide;
            // Integers up to 2^24 are exact as 32-bit floats.
            let has_small = shape.integers.count == 0 || fits(-(1 << 24), 1 << 24);
            if is_narrow && has_small { "Float32" } else { "Float64" }
        } else if self.wants.width == Width::Wide {
            if fits(i128::from(i64::MIN), i128::from(i64::MAX)) {
                "Int64"
            } else if shape.min_integer >= 0 {
                "Uint64"
            } else {
                "Float64"
            }
        } else {
            let narrow = [
                ("Uint8", 0, i128::from(u8::MAX)),
                ("Int8", i128::from(i8::MIN), i128::from(i8::MAX)),
                ("Uint16", 0, i128::from(u16::MAX)),
                ("Int16", i128::from(i16::MIN), i128::from(i16::MAX)),
                ("Uint32", 0, i128::from(u32::MAX)),
                ("Int32", i128::from(i32::MIN), i128::from(i32::MAX)),
                ("Uint64", 0, i128::from(u64::MAX)),
                ("Int64", i128::from(i64::MIN), i128::from(i64::MAX)),
            ];
            let found = narrow.iter().find(|(_, least, most)| fits(*least, *most));
            found.map_or("Float64", |(kind, ..)| kind)
        };
        let json_type = if kind.starts_with("Float") { "number" } else { "integer" };
        json!({"type": json_type, format!("TypeDef:{kind}"): true})
    }

    fn text(&self, shape: &Shape) -> Value {
        if self.wants.width == Width::Tight && shape.texts.count > 0 && !shape.has_other_text {
            return time();
        }
        let has_few = !shape.has_many_texts && !shape.different.is_empty();
        if has_few && self.wants.enums > 0 {
            let values: Vec<&String> = shape.different.iter().collect();
            return json!({"enum": values, "TypeDef:Enum": true});
        }
        json!({"type": "string", "TypeDef:String": true})
    }

    fn array(&self, shape: &Shape, path: &Path) -> Result<Value> {
        let empty = Shape::default();
        let items = shape.items.as_deref().unwrap_or(&empty);
        let schema = self.shape(items, &path.then(Segment::Each))?;
        let mut array = json!({"type": "array", "items": schema, "TypeDef:Array": true});
        // A single array is not enough to conclude a fixed length. Arrays of text and objects are never fixed.
        let is_fixed = shape.shortest == shape.longest && shape.shortest > 0;
        let is_fixed = is_fixed && shape.arrays.count > 1 && is_numeric(items);
        // In a table, each column is one element.
        let len = shape.columns.or(is_fixed.then_some(shape.shortest));
        if let (Some(len), Some(keywords)) = (len, array.as_object_mut()) {
            keywords.insert("minItems".to_owned(), len.into());
            keywords.insert("maxItems".to_owned(), len.into());
        }
        Ok(array)
    }

    fn object(&self, shape: &Shape, path: &Path) -> Result<Value> {
        if shape.members.is_empty() || shape.members.len() > MAX_MEMBERS {
            return Ok(
                json!({"type": "object", "additionalProperties": true, "TypeDef:Record": true}),
            );
        }
        let (mut names, mut required) = (Vec::new(), Vec::new());
        let mut properties = Map::new();
        for (name, member) in &shape.members {
            let path = path.then(Segment::Name(name.as_str().into()));
            properties.insert(name.clone(), self.shape(member, &path)?);
            names.push(name.as_str());
            // An object with a duplicate key is refused when it is encoded.
            if member.values >= shape.objects.count {
                required.push(name.as_str());
            }
        }
        let mut object = json!({
            "type": "object",
            "TypeDef:Struct": names,
            "required": required,
            "properties": properties,
        });
        if let (false, Some(keywords)) = (path.is_root(), object.as_object_mut()) {
            keywords.insert("align".to_owned(), "natural".into());
        }
        Ok(object)
    }
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time", "TypeDef:Timestamp": true})
}

fn bytes() -> Value {
    json!({"type": "string", "contentEncoding": "base64", "TypeDef:Bytes": true})
}

/// Returns `true` if only numbers and booleans were seen, including in arrays.
fn is_numeric(shape: &Shape) -> bool {
    let nests = shape.items.as_deref().is_none_or(is_numeric);
    let others = [shape.texts, shape.times, shape.bytes, shape.objects];
    shape.values > 0 && others.iter().all(|seen| seen.count == 0) && nests
}

fn mixed(path: &Path, a: &(&str, Seen), b: &(&str, Seen)) -> Error {
    let root = match path.is_root() {
        true => "a record".to_owned(),
        false => format!("`{path}`"),
    };
    let ((a, at), (b, then)) = (a, b);
    MIXED.broken(format!("{root} is {a} in line {} and {b} in line {}", at.line, then.line))
}
