//! The schema of a header's references in standard keywords alone (section 2.10), for validators that know nothing of
//! kinds.

use crate::document::note_refs;
use crate::kinds::{Dim, Len, TensorType};
use crate::refs::reference;
use crate::schema::{AdditionalMembers, Node, NodeId, Object, Presence, Root, Schema};
use holdall_collections::HashMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

impl Schema {
    /// Returns the JSON Schema (draft 2020-12) of the `tensors` of a file: in place of datasets, blobs and tensors it
    /// has their references. `source` is the JSON that the schema was compiled from. The schema of a record gives
    /// `true`.
    pub fn header_schema(&self, source: &Value) -> Value {
        let Root::References(root) = self.root else { return Value::Bool(true) };
        let defs = source.get("$defs").and_then(Value::as_object);
        let mut deriver = Deriver {
            schema: self,
            source,
            defs,
            uses: uses(self),
            named: HashMap::default(),
            out: Map::new(),
            wanted: Vec::new(),
        };
        let mut derived = deriver.node_schema(root);
        deriver.take_wanted();
        if let Value::Object(keywords) = &mut derived {
            keywords.insert("$schema".to_owned(), DRAFT.into());
            if !deriver.out.is_empty() {
                keywords.insert("$defs".to_owned(), Value::Object(deriver.out));
            }
        }
        derived
    }

    /// Returns `true` if a plain validator of draft 2020-12 cannot check the `tensors` of a file with `author`, the
    /// JSON that its author wrote: it describes records or runs where the header has references to them, or has lists
    /// of `items`.
    pub fn needs_header_schema(&self, author: &Value) -> bool {
        let Root::References(_) = self.root else { return false };
        let is_data = |node: &Node| matches!(node, Node::Dataset { .. } | Node::Blob { .. });
        self.nodes.iter().any(is_data) || crate::forms::has_tuples(author)
    }
}

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns how many nodes refer to each node.
fn uses(schema: &Schema) -> HashMap<NodeId, u32> {
    let mut uses: HashMap<NodeId, u32> = HashMap::default();
    let mut count = |id: &NodeId| {
        let n = uses.entry(*id).or_insert(0);
        *n = n.saturating_add(1);
    };
    for node in &schema.nodes {
        match node {
            Node::Object(object) => {
                object.properties.iter().for_each(|p| count(&p.node));
                if let AdditionalMembers::Node(id) = &object.additional {
                    count(id);
                }
            }
            Node::List { items, .. } => count(items),
            _ => {}
        }
    }
    uses
}

struct Deriver<'s> {
    schema: &'s Schema,
    source: &'s Value,
    /// The `$defs` of the source.
    defs: Option<&'s Map<String, Value>>,
    uses: HashMap<NodeId, u32>,
    /// Nodes that are in `$defs`, by their names there.
    named: HashMap<NodeId, String>,
    /// The `$defs` of the derived schema.
    out: Map<String, Value>,
    /// The names of the source's `$defs` that plain nodes refer to.
    wanted: Vec<String>,
}

impl Deriver<'_> {
    /// Returns the schema of a node, or a `$ref` to it if several nodes refer to it. The recursion is bounded by the
    /// depth of schemas.
    fn node(&mut self, id: NodeId) -> Value {
        let is_shared = self.uses.get(&id).is_some_and(|n| *n > 1);
        if !is_shared || matches!(self.schema.node(id), Node::Plain { .. }) {
            return self.node_schema(id);
        }
        if let Some(name) = self.named.get(&id) {
            return to(name);
        }
        let own = self.node_schema(id);
        let name = self.add("part", own);
        let found = to(&name);
        self.named.insert(id, name);
        found
    }

    fn node_schema(&mut self, id: NodeId) -> Value {
        let schema = self.schema;
        match schema.node(id) {
            Node::Flat { tensor, .. } => self.flat(tensor),
            Node::Dataset { items, len, .. } => {
                let (min, max) = match *len {
                    Len::Fixed(n) => (n, Some(n)),
                    Len::Variable { min, max } => (min, max),
                };
                let count = bounded(json!({"type": "integer"}), ["minimum", "maximum"], min, max);
                let offsets = self.offsets();
                match schema.ty(*items).heap_align {
                    Some(_) => {
                        let heap = self.heap();
                        json!({
                            "type": "object",
                            "properties": {"count": count, "data_offsets": offsets, "blob_data": heap},
                            "required": ["count", "data_offsets", "blob_data"],
                        })
                    }
                    None => json!({
                        "type": "object",
                        "properties": {"count": count, "data_offsets": offsets, "blob_data": false},
                        "required": ["count", "data_offsets"],
                    }),
                }
            }
            Node::Blob { .. } => {
                let (offsets, heap) = (self.offsets(), self.heap());
                json!({
                    "type": "object",
                    "properties": {
                        "entries": {
                            "type": "object",
                            "properties": {"count": {"type": "integer", "minimum": 0}, "data_offsets": offsets},
                            "required": ["count", "data_offsets"],
                        },
                        "blob_data": heap,
                    },
                    "required": ["entries", "blob_data"],
                })
            }
            Node::Object(object) => self.object(object),
            Node::List { items, min, max } => {
                let items = self.node(*items);
                let list = json!({"type": "array", "items": items});
                bounded(list, ["minItems", "maxItems"], *min, *max)
            }
            Node::Plain { pointer, .. } => self.plain(pointer),
        }
    }

    fn object(&mut self, object: &Object) -> Value {
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for property in &object.properties {
            let own = self.node(property.node);
            properties.insert(property.name.to_string(), own);
            if property.presence == Presence::Required {
                required.push((&*property.name).into());
            }
        }
        required.extend(object.required_others.iter().map(|name| Value::from(&**name)));
        let mut out = json!({"type": "object", "properties": properties, "required": required});
        let additional = match object.additional {
            AdditionalMembers::Forbidden => Some(Value::Bool(false)),
            AdditionalMembers::Anything => None,
            AdditionalMembers::Node(id) => Some(self.node(id)),
        };
        if let (Some(additional), Value::Object(out)) = (additional, &mut out) {
            out.insert("additionalProperties".to_owned(), additional);
        }
        out
    }

    fn flat(&mut self, tensor: &TensorType) -> Value {
        let dtype = match (tensor.dtype, &tensor.dtypes[..]) {
            (Some(dtype), _) => json!({"const": dtype.as_str()}),
            (None, []) => json!({"type": "string"}),
            (None, among) => {
                let names: Vec<&str> = among.iter().map(|dtype| dtype.as_str()).collect();
                json!({ "enum": names })
            }
        };
        let dim = |dim: &Dim| match dim {
            Dim::Known(n) => json!({ "const": n }),
            Dim::Any | Dim::Symbol(_) => json!({"type": "integer", "minimum": 0}),
        };
        let shape = match &tensor.shape {
            None => json!({"type": "array", "items": {"type": "integer", "minimum": 0}}),
            Some(dims) if dims.is_empty() => json!({"type": "array", "maxItems": 0}),
            Some(dims) => json!({
                "type": "array",
                "prefixItems": dims.iter().map(dim).collect::<Vec<_>>(),
                "minItems": dims.len(),
                "maxItems": dims.len(),
            }),
        };
        let offsets = self.offsets();
        json!({
            "type": "object",
            "properties": {"dtype": dtype, "shape": shape, "data_offsets": offsets},
            "required": ["dtype", "shape", "data_offsets"],
        })
    }

    fn heap(&mut self) -> Value {
        let offsets = self.offsets();
        self.shared("blob_data", || {
            json!({
                "type": "object",
                "properties": {
                    "dtype": {"const": "U8"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 1},
                    "data_offsets": offsets,
                },
                "required": ["dtype", "shape", "data_offsets"],
            })
        })
    }

    fn offsets(&mut self) -> Value {
        self.shared("data_offsets", || {
            json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2})
        })
    }

    /// Returns a `$ref` to a part that all references share.
    fn shared(&mut self, name: &str, make: impl FnOnce() -> Value) -> Value {
        let name = format!("{name}#");
        if self.defs.is_some_and(|defs| defs.contains_key(&name)) {
            return make();
        }
        if !self.out.contains_key(&name) {
            self.out.insert(name.clone(), make());
        }
        to(&name)
    }

    /// Adds a part to `$defs` under a name that is not in use.
    fn add(&mut self, name: &str, part: Value) -> String {
        let is_free = |name: &String| {
            !self.out.contains_key(name) && !self.defs.is_some_and(|d| d.contains_key(name))
        };
        let mut names = (1u64..).map(|n| format!("{name}#{n}"));
        let name = names.find(is_free).unwrap_or_default();
        self.out.insert(name.clone(), part);
        name
    }

    /// Returns the schema of plain JSON as its author wrote it.
    fn plain(&mut self, pointer: &str) -> Value {
        let Some(found) = self.source.pointer(pointer) else { return Value::Bool(true) };
        if let Some(name) = pointer.strip_prefix("/$defs/")
            && !name.contains('/')
        {
            let target = json!({"$ref": format!("#{}", pointer.replace('%', "%25"))});
            self.note(&target);
            return target;
        }
        let mut own = found.clone();
        if let Value::Object(keywords) = &mut own {
            // With `$id`, pointers into the whole schema would become pointers into this part.
            for keyword in ["$id", "$schema", "$defs"] {
                keywords.remove(keyword);
            }
        }
        self.note(&own);
        own
    }

    /// Collects the `$defs` that a part refers to.
    fn note(&mut self, part: &Value) {
        note_refs(part, &mut self.wanted);
    }

    /// Copies the `$defs` that plain parts refer to, and those that these refer to in turn.
    fn take_wanted(&mut self) {
        let mut seen = BTreeSet::new();
        while let Some(name) = self.wanted.pop() {
            let found = self.defs.and_then(|defs| defs.get(&name));
            if let (Some(found), true) = (found, seen.insert(name.clone())) {
                self.note(found);
                self.out.insert(name, found.clone());
            }
        }
    }
}

fn to(name: &str) -> Value {
    json!({"$ref": reference(name)})
}

fn bounded(mut node: Value, [least, most]: [&str; 2], min: u64, max: Option<u64>) -> Value {
    if let Value::Object(keywords) = &mut node {
        if min > 0 || least == "minimum" {
            keywords.insert(least.to_owned(), min.into());
        }
        if let Some(max) = max {
            keywords.insert(most.to_owned(), max.into());
        }
    }
    node
}
