//! Reads the keywords of one node.

use crate::dtype::TensorDType;
use crate::error::{Error, Escape as _, Result, Rule};
use crate::kinds::{Align, Content, Dim, Enum, IndexWidth, Len, TensorType, is_kind};
use crate::rules::{ALIGN, BLOB, ENUM, KEYWORD, KIND, STRUCT, TENSOR};
use holdall_collections::DebugUnwrap;
use holdall_collections::sort;
use holdall_json::duplicate;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

pub(super) type Keywords = Map<String, Value>;

/// The path of a node in the schema.
pub(super) struct SchemaPath<'p> {
    parent: Option<&'p SchemaPath<'p>>,
    keyword: &'static str,
    name: Option<&'p str>,
}

impl<'p> SchemaPath<'p> {
    pub(super) fn root() -> SchemaPath<'static> {
        SchemaPath { parent: None, keyword: "", name: None }
    }

    pub(super) fn below(&'p self, keyword: &'static str) -> SchemaPath<'p> {
        SchemaPath { parent: Some(self), keyword, name: None }
    }

    pub(super) fn member(&'p self, keyword: &'static str, name: &'p str) -> SchemaPath<'p> {
        SchemaPath { parent: Some(self), keyword, name: Some(name) }
    }

    /// Returns the path of an item of `$defs`.
    pub(super) fn def(root: &'p SchemaPath<'p>, name: &'p str) -> SchemaPath<'p> {
        SchemaPath { parent: Some(root), keyword: "$defs", name: Some(name) }
    }

    /// Returns the JSON pointer. The target of a `$ref` has the pointer of its location in `$defs`.
    pub(super) fn pointer(&self) -> String {
        let mut out = String::new();
        self.push(&mut out);
        out
    }

    fn push(&self, out: &mut String) {
        let Some(parent) = self.parent else { return };
        parent.push(out);
        out.push('/');
        out.push_str(self.keyword);
        if let Some(name) = self.name {
            out.push('/');
            out.push_str(&name.replace('~', "~0").replace('/', "~1"));
        }
    }

    /// Returns an error at this path.
    #[cold]
    pub(super) fn broken(&self, rule: &'static Rule, message: impl fmt::Display) -> Error {
        self.locate(rule.broken(message.to_string()))
    }

    /// Adds this path to an error.
    #[cold]
    pub(super) fn locate(&self, error: Error) -> Error {
        error.within(self.to_string())
    }
}

impl fmt::Display for SchemaPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            None => f.write_str("the root"),
            Some(_) => write!(f, "`{}`", self.pointer().escaped()),
        }
    }
}

/// Returns the kind of a node: the text after `TypeDef:`, and the keyword's value.
pub(super) fn kind<'v>(
    node: &'v Keywords,
    at: &SchemaPath<'_>,
) -> Result<Option<(&'v str, &'v Value)>> {
    let named = || node.iter().filter_map(|(k, v)| Some((k.strip_prefix("TypeDef:")?, v)));
    let mut kinds = named().filter(|(name, _)| is_kind(name));
    let found = kinds.next();
    match kinds.next() {
        None if found.is_some() => Ok(found),
        // A custom kind is allowed on plain JSON of such a type. To define bytes, it must be next to a kind of this
        // format.
        None => Ok(named()
            .next()
            .filter(|_| !PLAIN.iter().any(|ty| node.get("type") == Some(&(*ty).into())))),
        Some((second, _)) => {
            let first = found.map_or("", |(k, _)| k);
            let message = format!(
                "found both `TypeDef:{}` and `TypeDef:{}`",
                first.escaped(),
                second.escaped()
            );
            Err(at.broken(&KIND, message))
        }
    }
}

/// JSON types that cannot be references.
const PLAIN: [&str; 5] = ["boolean", "integer", "null", "number", "string"];

/// Checks that a kind's keyword has the value `true`.
pub(super) fn is_true(name: &str, value: &Value, at: &SchemaPath<'_>) -> Result<()> {
    match value {
        Value::Bool(true) => Ok(()),
        _ => Err(at.broken(&KIND, format!("the value of `TypeDef:{name}` is not `true`"))),
    }
}

/// Checks that a keyword, if present, has this value.
pub(super) fn agrees(
    node: &Keywords,
    keyword: &str,
    wanted: impl Into<Value>,
    at: &SchemaPath<'_>,
) -> Result<()> {
    let wanted = wanted.into();
    let Some(found) = node.get(keyword) else { return Ok(()) };
    let is_same_count = count(Some(found)).is_some_and(|n| Some(n) == count(Some(&wanted)));
    if *found == wanted || is_same_count {
        return Ok(());
    }
    let message = format!("`{keyword}` is {}, but the kind requires {wanted}", shorten(found));
    Err(at.broken(&KEYWORD, message))
}

/// Reads the keyword `align`.
pub(super) fn align(node: &Keywords, at: &SchemaPath<'_>) -> Result<Option<Align>> {
    let Some(value) = node.get("align") else { return Ok(None) };
    if value.as_str() == Some("natural") {
        return Ok(Some(Align::Natural));
    }
    let bytes = count(Some(value)).filter(|b| b.is_power_of_two() && *b <= 65536);
    match bytes.and_then(|b| u32::try_from(b).ok()) {
        Some(bytes) => Ok(Some(Align::Bytes(bytes))),
        None => {
            let message = format!(
                "`align` is {}, expected `natural` or a power of two up to 65536",
                shorten(value)
            );
            Err(at.broken(&ALIGN, message))
        }
    }
}

/// Reads a whole number that is not negative; JSON may write it with a point.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = value?;
    if let Some(n) = value.as_u64() {
        return Some(n);
    }
    let float = value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..=EXACT).contains(x))?;
    // Whole numbers up to 2^53 are printed without a point.
    format!("{float:.0}").parse().ok()
}

/// Reads a keyword that is a count, or absent.
fn count_keyword(node: &Keywords, keyword: &str, at: &SchemaPath<'_>) -> Result<Option<u64>> {
    match node.get(keyword) {
        None => Ok(None),
        found => match count(found) {
            Some(n) => Ok(Some(n)),
            None => Err(at.broken(&KEYWORD, format!("`{keyword}` is not a count"))),
        },
    }
}

/// Reads `minItems` and `maxItems`.
pub(super) fn bounds(node: &Keywords, at: &SchemaPath<'_>) -> Result<(u64, Option<u64>)> {
    let min = count_keyword(node, "minItems", at)?;
    Ok((min.unwrap_or(0), count_keyword(node, "maxItems", at)?))
}

/// Reads the number of elements of an array with a kind.
pub(super) fn len(node: &Keywords, at: &SchemaPath<'_>) -> Result<Len> {
    let (min, max) = bounds(node, at)?;
    Ok(match max {
        Some(max) if max == min && node.contains_key("minItems") => Len::Fixed(max),
        _ => Len::Variable { min, max },
    })
}

/// Reads the keyword `enum` of an enum.
pub(super) fn enum_values(node: &Keywords, at: &SchemaPath<'_>) -> Result<Enum> {
    let list = node.get("enum").and_then(Value::as_array);
    let values: Option<Vec<Arc<str>>> =
        list.and_then(|l| l.iter().map(|v| v.as_str().map(Arc::from)).collect());
    let values = match values {
        Some(values) if !values.is_empty() => values,
        _ => return Err(at.broken(&ENUM, "`enum` is not a list of one or more strings")),
    };
    let Ok(count) = u32::try_from(values.len()) else {
        return Err(at.broken(&ENUM, "`enum` has more than 2^32 values"));
    };
    let mut sorted: Vec<(&str, u32)> = values.iter().map(|v| &**v).zip(0..count).collect();
    sort(&mut sorted);
    if let Some(twice) = duplicate(values.iter().map(|v| &**v)) {
        return Err(at.broken(&ENUM, format!("`{}` is listed twice", twice.escaped())));
    }
    let sorted = sorted.iter().map(|(_, index)| *index).collect();
    Ok(Enum { width: IndexWidth::for_count(values.len()), values: values.into(), sorted })
}

/// A member of a struct with its schema.
pub(super) struct RawMember<'v> {
    pub(super) name: &'v str,
    pub(super) schema: &'v Value,
    pub(super) is_required: bool,
}

/// Reads the keywords of a struct (3.5.1), except for the kinds of its members. Returns the members in order.
pub(super) fn members<'v>(
    node: &'v Keywords,
    keyword: &'v Value,
    at: &SchemaPath<'_>,
) -> Result<Vec<RawMember<'v>>> {
    let list = keyword.as_array().map(|l| l.iter().map(Value::as_str).collect());
    let Some(Some(names)) = list.map(|l: Option<Vec<&str>>| l) else {
        return Err(at.broken(&STRUCT, "`TypeDef:Struct` is not a list of names"));
    };
    let empty = Map::new();
    let properties = match node.get("properties") {
        None => None,
        Some(Value::Object(properties)) => Some(properties),
        Some(_) => return Err(at.broken(&STRUCT, "`properties` is not an object")),
    };
    let mut required = strings(node, "required", at)?;
    sort(&mut required);
    let mut sorted = names.clone();
    sort(&mut sorted);
    if let Some(twice) = duplicate(names.iter().copied()) {
        return Err(at.broken(&STRUCT, format!("`{}` is listed twice", twice.escaped())));
    }
    let keys = properties.unwrap_or(&empty).keys().map(String::as_str);
    let mut all = keys.chain(required.iter().copied());
    if let Some(stray) = all.find(|name| sorted.binary_search(name).is_err()) {
        let message = format!("`{}` is not listed as a member", stray.escaped());
        return Err(at.broken(&STRUCT, message));
    }
    let member = |name: &'v str| match properties.and_then(|p| p.get(name)) {
        Some(schema) => {
            let is_required = required.binary_search(&name).is_ok();
            Ok(RawMember { name, schema, is_required })
        }
        None => {
            let message = format!("`{}` is not in `properties`", name.escaped());
            Err(at.broken(&STRUCT, message))
        }
    };
    names.into_iter().map(member).collect()
}

/// Reads a keyword that is a list of strings; empty if absent.
fn strings<'v>(node: &'v Keywords, keyword: &str, at: &SchemaPath<'_>) -> Result<Vec<&'v str>> {
    let Some(value) = node.get(keyword) else { return Ok(Vec::new()) };
    let list = value.as_array().map(|l| l.iter().map(Value::as_str).collect());
    match list {
        Some(Some(names)) => Ok(names),
        _ => Err(at.broken(&STRUCT, format!("`{keyword}` is not a list of names"))),
    }
}

/// Reads the value of `TypeDef:Tensor`.
pub(super) fn tensor(keyword: &Value, at: &SchemaPath<'_>) -> Result<TensorType> {
    let Some(keyword) = keyword.as_object() else {
        return Err(at.broken(&TENSOR, "`TypeDef:Tensor` is not an object"));
    };
    if let Some(other) = keyword.keys().find(|k| !matches!(k.as_str(), "dtype" | "shape")) {
        let message = format!("`TypeDef:Tensor` has the unknown key `{}`", other.escaped());
        return Err(at.broken(&TENSOR, message));
    }
    let (dtype, dtypes) = dtypes(keyword.get("dtype"), at)?;
    let shape = match keyword.get("shape") {
        None | Some(Value::Null) => None,
        Some(Value::Array(dims)) => {
            let dims: Option<Vec<Dim>> = dims.iter().map(dim).collect();
            match dims {
                Some(dims) => Some(dims),
                None => {
                    let message = "a dimension is not a count, `null` or the name of a symbol";
                    return Err(at.broken(&TENSOR, message));
                }
            }
        }
        Some(_) => return Err(at.broken(&TENSOR, "`shape` is not an array")),
    };
    Ok(TensorType { dtype, dtypes, shape })
}

/// Reads the element type that `dtype` names, or the list of element types.
fn dtypes(
    value: Option<&Value>,
    at: &SchemaPath<'_>,
) -> Result<(Option<TensorDType>, Vec<TensorDType>)> {
    let one = |name: &Value| match name.as_str().and_then(TensorDType::from_name) {
        Some(dtype) => Ok(dtype),
        None => Err(at.broken(&TENSOR, format!("unknown dtype {}", shorten(name)))),
    };
    match value {
        None | Some(Value::Null) => Ok((None, Vec::new())),
        Some(Value::Array(names)) => {
            let mut found: Vec<TensorDType> = Vec::new();
            for name in names {
                let dtype = one(name)?;
                if !found.contains(&dtype) {
                    found.push(dtype);
                }
            }
            match found[..] {
                [] => Err(at.broken(&TENSOR, "`dtype` is an empty list")),
                [only] => Ok((Some(only), Vec::new())),
                _ => Ok((None, found)),
            }
        }
        Some(name) => Ok((Some(one(name)?), Vec::new())),
    }
}

fn dim(value: &Value) -> Option<Dim> {
    match value {
        Value::Null => Some(Dim::Any),
        Value::String(name) if !name.is_empty() => Some(Dim::Symbol(name.as_str().into())),
        number => count(Some(number)).map(Dim::Known),
    }
}

/// Reads the value of `TypeDef:Blob`.
pub(super) fn content(keyword: &Value, at: &SchemaPath<'_>) -> Result<Content> {
    let content = keyword.as_object().and_then(|k| k.get("content"));
    content.and_then(Value::as_str).and_then(Content::from_name).ok_or_else(|| {
        let found = content.map_or("absent".to_owned(), shorten);
        at.broken(
            &BLOB,
            format!(
                "`content` is {found}, expected `utf-8`, `bytes`, `json` or a dtype of whole bytes"
            ),
        )
    })
}

/// Shortens a long value for an error message.
pub(super) fn shorten(value: &Value) -> String {
    let text = match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", text.get(..at).debug_unwrap()),
        None => text,
    }
}
