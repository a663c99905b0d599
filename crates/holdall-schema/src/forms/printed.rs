//! Recognizes references as the concept document prints them: plain objects with the fields of a header's references.

use crate::dtype::TensorDType;
use crate::refs::{decode_name, def_name};
use serde_json::{Map, Value, json};

type Keywords = Map<String, Value>;

/// Keywords that do not constrain values.
const NOTES: [&str; 9] = [
    "$id",
    "$schema",
    "$defs",
    "definitions",
    "title",
    "description",
    "$comment",
    "examples",
    "deprecated",
];

/// The `$defs` of a schema, which parts of references may refer to.
pub(super) struct Names<'v> {
    defs: Option<&'v Keywords>,
    definitions: Option<&'v Keywords>,
}

impl<'v> Names<'v> {
    pub(super) fn in_schema(root: &'v Value) -> Names<'v> {
        let named = |keyword: &str| root.get(keyword).and_then(Value::as_object);
        Names { defs: named("$defs"), definitions: named("definitions") }
    }

    /// Returns the kind of a node that is a reference without a keyword: the keyword and its value.
    pub(super) fn kind_of(&self, node: &Keywords) -> Option<(&'static str, Value)> {
        if node.contains_key("$ref") || node.keys().any(|k| k.starts_with("TypeDef:")) {
            return None;
        }
        if let Some(tensor) = self.tensor(node) {
            return Some(("TypeDef:Tensor", tensor));
        }
        self.is_blob(node).then(|| ("TypeDef:Blob", json!({"content": "bytes"})))
    }

    /// Returns the value of `TypeDef:Tensor` for an object of `dtype`, `shape` and `data_offsets`.
    fn tensor(&self, node: &Keywords) -> Option<Value> {
        let [dtype, shape, offsets] = self.fields(node, ["dtype", "shape", "data_offsets"])?;
        if !is_array(offsets) || self.items(offsets).is_some_and(|items| !is_number(items)) {
            return None;
        }
        Some(json!({"dtype": dtype_of(dtype)?, "shape": self.shape(shape)?}))
    }

    /// Returns `true` if the node is an object of `entries` and `blob_data`.
    fn is_blob(&self, node: &Keywords) -> bool {
        let is = || {
            let [entries, heap] = self.fields(node, ["entries", "blob_data"])?;
            let entry = self.items(entries).filter(|_| is_array(entries))?;
            let [offset, length] = self.fields(entry, ["offset", "length"])?;
            let heap = self.tensor(heap)?;
            Some(is_number(offset) && is_number(length) && heap.get("dtype") == Some(&json!("U8")))
        };
        is().unwrap_or(false)
    }

    /// Returns the schemas of the members of an object that has exactly these members, all required, and no other
    /// constraints.
    fn fields<'n, const N: usize>(
        &self,
        node: &'n Keywords,
        names: [&str; N],
    ) -> Option<[&'n Keywords; N]>
    where
        'v: 'n,
    {
        let known = ["type", "properties", "required", "additionalProperties", "align"];
        let is_known = |k: &String| known.contains(&k.as_str()) || NOTES.contains(&k.as_str());
        let properties = node.get("properties")?.as_object()?;
        let required = node.get("required")?.as_array()?;
        let is_same = properties.len() == N
            && required.len() == N
            && names.iter().all(|name| required.iter().any(|r| r == name));
        let is_object = node.get("type").is_none_or(|ty| ty == "object");
        let others = node.get("additionalProperties").is_none_or(Value::is_boolean);
        if !(is_same && is_object && others && node.keys().all(is_known)) {
            return None;
        }
        let mut found = names.map(|name| properties.get(name).and_then(|field| self.target(field)));
        let all: Vec<&Keywords> = found.iter_mut().filter_map(Option::take).collect();
        all.try_into().ok()
    }

    /// Returns the keywords of a schema, or those of the target of its `$ref`.
    fn target<'n>(&self, schema: &'n Value) -> Option<&'n Keywords>
    where
        'v: 'n,
    {
        let mut at = schema.as_object()?;
        for _ in 0..32 {
            let Some(target) = at.get("$ref").and_then(Value::as_str) else { return Some(at) };
            let next = match target.strip_prefix("#/definitions/") {
                Some(name) => self.definitions?.get(&decode_name(name)?),
                None => self.defs?.get(&def_name(target)?),
            };
            at = next?.as_object()?;
        }
        None
    }

    /// Returns the schema of all elements of an array, if one schema applies to all.
    fn items<'n>(&self, node: &'n Keywords) -> Option<&'n Keywords>
    where
        'v: 'n,
    {
        self.target(node.get("items")?)
    }

    /// Returns the dimensions of `shape`, or `null` if any shape is allowed.
    fn shape(&self, node: &Keywords) -> Option<Value> {
        if !is_array(node) {
            return None;
        }
        if let Some(dims) = node.get("const") {
            let all = short(dims.as_array()?)?;
            return all.iter().all(Value::is_u64).then(|| dims.clone());
        }
        let dims = node.get("prefixItems").or_else(|| node.get("items").filter(|i| i.is_array()));
        if let Some(dims) = dims {
            let dim = |dim_node: &Value| {
                let dim_node = self.target(dim_node)?;
                match dim_node.get("const") {
                    Some(n) => n.is_u64().then(|| n.clone()),
                    None => is_number(dim_node).then_some(Value::Null),
                }
            };
            let all = short(dims.as_array()?)?.iter().map(dim);
            return all.collect::<Option<Vec<_>>>().map(Value::from);
        }
        if self.items(node).is_some_and(|items| !is_number(items)) {
            return None;
        }
        let count = |keyword| node.get(keyword).and_then(Value::as_u64);
        match (count("minItems"), count("maxItems")) {
            (None, None) => Some(Value::Null),
            (Some(min), Some(max)) if min == max && max <= LONGEST as u64 => {
                Some(vec![Value::Null; usize::try_from(max).ok()?].into())
            }
            _ => None,
        }
    }
}

/// Returns the dtypes that a schema allows: a name, a list of several, or `null` for any.
fn dtype_of(node: &Keywords) -> Option<Value> {
    let mut names = Vec::new();
    let among = [node.get("const"), node.get("enum"), node.get("anyOf")].into_iter().flatten();
    for value in among {
        match value {
            Value::Array(values) => {
                names.extend(short(values)?.iter().map(|v| v.get("const").unwrap_or(v)))
            }
            value => names.push(value),
        }
    }
    let names = names.into_iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
    let is_text = node.get("type").is_none_or(|ty| ty == "string");
    match names[..] {
        _ if !is_text => None,
        [name] => TensorDType::from_name(name).map(|_| name.into()),
        [] => Some(Value::Null),
        _ => {
            // Names that are not known dtypes occur in no file.
            let known: Vec<&str> =
                names.iter().copied().filter(|n| TensorDType::from_name(n).is_some()).collect();
            (!known.is_empty()).then(|| known.into())
        }
    }
}

/// Largest number of dtypes or dimensions that a reference may list, because many nodes may refer to one list.
const LONGEST: usize = 256;

fn short(list: &[Value]) -> Option<&[Value]> {
    (list.len() <= LONGEST).then_some(list)
}

fn is_array(node: &Keywords) -> bool {
    node.get("type").is_none_or(|ty| ty == "array")
}

fn is_number(node: &Keywords) -> bool {
    node.get("type").is_some_and(|ty| ty == "number" || ty == "integer")
}
