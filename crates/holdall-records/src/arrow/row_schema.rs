//! Infers the schema of a record from Arrow columns.

use super::element::{DTYPE, Element};
use super::types::{EXTENSION_METADATA, EXTENSION_NAME, FIXED_SHAPE};
use crate::rules::ARROW;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_json::parse;
use holdall_schema::{Scalar, TensorDType};
use serde_json::{Map, Value, json};

/// Returns the schema of a record that is a row of a table with these columns, for
/// [`Build::dataset_with_schema`](crate::Build::dataset_with_schema). A nullable column becomes an optional member.
/// Columns of [`Records::arrow`](crate::Records::arrow) become the kinds that they came from, with these exceptions:
/// enums and JSON become texts and unions become structs, because Arrow has no such types; tensors of elements without
/// an Arrow type become arrays, or are refused if records have no such number.
///
/// # Errors
/// Returns `records/arrow` for a type that records have no kind for.
pub fn row_schema(schema: &arrow_schema::Schema) -> Result<Value> {
    let mut out = structure(schema.fields(), "")?;
    out.remove("align");
    Ok(Value::Object(out))
}

fn structure(fields: &Fields, path: &str) -> Result<Map<String, Value>> {
    let mut properties = Map::new();
    for field in fields {
        let path = super::write::below(path, field.name());
        let node = node(field, &path)?;
        if properties.insert(field.name().clone(), node).is_some() {
            return Err(ARROW.broken(format!("two columns are called `{}`", path.escaped())));
        }
    }
    let names: Vec<_> = fields.iter().map(|f| f.name()).collect();
    let required: Vec<_> = fields.iter().filter(|f| !f.is_nullable()).map(|f| f.name()).collect();
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("object"));
    out.insert("align".to_owned(), json!("natural"));
    out.insert("TypeDef:Struct".to_owned(), json!(names));
    out.insert("required".to_owned(), json!(required));
    out.insert("properties".to_owned(), Value::Object(properties));
    Ok(out)
}

fn node(field: &Field, path: &str) -> Result<Value> {
    if let Some(tensor) = tensor(field) {
        return Ok(tensor);
    }
    let array = |item: &Field, len: Option<i32>| -> Result<Value> {
        let items = node(item, &format!("{path}[]"))?;
        let mut out = json!({"type": "array", "TypeDef:Array": true, "items": items});
        if let (Some(len), Some(out)) = (len, out.as_object_mut()) {
            out.insert("minItems".to_owned(), json!(len));
            out.insert("maxItems".to_owned(), json!(len));
        }
        Ok(out)
    };
    let own = field.metadata().get(DTYPE).and_then(|name| Element::named(name));
    Ok(match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => text(),
        DataType::Dictionary(_, values) if is_text(values) => text(),
        DataType::Dictionary(_, values) => {
            return self::node(&field.clone().with_data_type((**values).clone()), path);
        }
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => {
            let mut out = text();
            if *scale >= 0 && *digits <= DECIMAL128_MAX_PRECISION {
                out["arrow.decimal"] = json!([digits, scale]);
            }
            out
        }
        DataType::Map(entries, _) => {
            let mut out = array(entries, None)?;
            out["arrow.map"] = json!(true);
            out
        }
        DataType::FixedSizeBinary(_) if own.is_some() => {
            let scalar = Scalar::ALL.into_iter().find(|s| Some(Element::from_scalar(*s)) == own);
            number(scalar.ok_or_else(|| refused(field, path))?)
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            json!({"type": "string", "contentEncoding": "base64", "TypeDef:Bytes": true})
        }
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            json!({"type": "string", "format": "date-time", "TypeDef:Timestamp": true})
        }
        DataType::Struct(fields) => Value::Object(structure(fields, path)?),
        DataType::List(item) | DataType::LargeList(item) => array(item, None)?,
        DataType::FixedSizeList(item, len) => array(item, Some(*len))?,
        other => {
            let same = |s: &Scalar| Element::from_scalar(*s).own_type().as_ref() == Some(other);
            number(Scalar::ALL.into_iter().find(same).ok_or_else(|| refused(field, path))?)
        }
    })
}

/// Returns the kind of a column of tensors of one shape.
fn tensor(field: &Field) -> Option<Value> {
    let said = field.metadata();
    let is_tensor = said.get(EXTENSION_NAME).is_some_and(|name| name == FIXED_SHAPE);
    let DataType::FixedSizeList(item, _) = field.data_type() else { return None };
    let shape = parse(said.get(EXTENSION_METADATA)?.as_bytes(), DEPTH).ok()?;
    let same = |d: &TensorDType| Element::Of(*d).own_type().as_ref() == Some(item.data_type());
    let dtype = TensorDType::ALL.into_iter().find(same).filter(|_| is_tensor)?;
    Some(json!({"TypeDef:Tensor": {"dtype": dtype.as_str(), "shape": shape.get("shape")?}}))
}

/// Largest nesting depth of a tensor's metadata.
const DEPTH: usize = 8;

fn number(scalar: Scalar) -> Value {
    let mut out = json!({"type": scalar.json_type()});
    out[format!("TypeDef:{}", scalar.as_str())] = json!(true);
    out
}

fn text() -> Value {
    json!({"type": "string", "TypeDef:String": true})
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cold]
fn refused(field: &Field, path: &str) -> Error {
    ARROW.broken(format!(
        "column `{}` has the type {}, for which records have no kind",
        path.escaped(),
        field.data_type()
    ))
}
