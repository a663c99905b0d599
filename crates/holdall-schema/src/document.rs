//! A schema with its JSON and its source, and the schemas of records inside it.

use crate::code::{Lang, code};
use crate::error::{Error, Escape as _, Result};
use crate::forms::normalize;
use crate::limits::SchemaLimits;
use crate::order::OrderedJson;
use crate::path::{Path, Segment};
use crate::refs::def_name;
use crate::rules::{UNKNOWN_PATH, WHICH_DATASET};
use crate::schema::{AdditionalMembers, Node, NodeId, Root, Schema};
use crate::vocabulary::Vocabulary;
use holdall_json::parse;
use serde_json::{Map, Value};

/// A compiled schema and the JSON that it was compiled from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Document {
    /// The name for errors, usually the path of a file.
    pub name: String,
    /// The original text without spaces between tokens. Files with this schema contain this text.
    pub text: String,
    /// The JSON, in the normal form that [`normalize`](crate::normalize) returns.
    pub json: Value,
    /// The compiled schema.
    pub schema: Schema,
    /// User-defined formats and keywords, for checking values.
    pub vocabulary: Vocabulary,
}

/// How to interpret a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reading {
    /// The schema of a record if its root has a kind that a record can have, otherwise that of a file.
    #[default]
    ByContent,
    /// The schema of one record.
    Record,
    /// The schema of the tensors of a file.
    File,
}

impl Document {
    /// Parses and compiles a schema.
    ///
    /// # Errors
    /// Returns an error of the `json/…` and `schema/…` rules, with the source `name`.
    pub fn parse(
        text: &[u8],
        name: impl Into<String>,
        reading: Reading,
        limits: &SchemaLimits,
    ) -> Result<Document> {
        let name = name.into();
        let json = parse(text, limits.depth).map_err(|e| e.in_source(&name))?;
        let text = compact(&String::from_utf8_lossy(text));
        Ok(Document { text, ..Document::new(json, name, reading, limits)? })
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules, with the source `name`.
    pub fn new(
        json: Value,
        name: impl Into<String>,
        reading: Reading,
        limits: &SchemaLimits,
    ) -> Result<Document> {
        let name = name.into();
        let text = json.to_string();
        let json = normalize(json).map_err(|e| e.in_source(&name))?;
        let schema = compile(&json, reading, limits).map_err(|e| e.in_source(&name))?;
        Ok(Document { name, text, json, schema, vocabulary: Vocabulary::default() })
    }

    /// Adds user-defined formats and keywords, which apply when records are checked ([`Checker`](crate::Checker)).
    /// Schemas that are extracted from this one keep them.
    ///
    /// # Errors
    /// Returns `schema/own-keyword` if a keyword already has a meaning.
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Result<Document> {
        vocabulary.check()?;
        self.vocabulary = vocabulary;
        Ok(self)
    }

    /// Returns the schema of the records at a path of a file's schema, or of its only dataset. The schema of a record
    /// is returned unchanged.
    ///
    /// # Errors
    /// Returns the same errors as [`Document::dataset`].
    pub fn records(self, path: Option<&str>, limits: &SchemaLimits) -> Result<Document> {
        match self.schema.root() {
            Root::Record(_) => Ok(self),
            Root::References(_) => Ok(self.dataset(path, limits)?.1),
        }
    }

    /// Returns the path of a dataset of a file's schema and the schema of its records. Without `path`, the schema must
    /// have exactly one dataset.
    ///
    /// # Errors
    /// Returns `records/which-dataset` if no dataset or more than one can be meant; `schema/path` or
    /// `schema/unknown-path` if the path does not exist.
    pub fn dataset(&self, path: Option<&str>, limits: &SchemaLimits) -> Result<(String, Document)> {
        let own = |e: Error| e.in_source(&self.name);
        let (path, pointer) = match path {
            Some(path) => (path.to_owned(), self.dataset_pointer(path)?),
            None => self.only_dataset().map_err(own)?,
        };
        let json = record_schema(&self.json, &pointer).unwrap_or(Value::Null);
        let schema = Schema::compile_record(&json, limits).map_err(own)?;
        let (vocabulary, text) =
            (self.vocabulary.clone(), record_text(&json, &self.text, &pointer, limits.depth));
        Ok((path, Document { name: self.name.clone(), text, json, schema, vocabulary }))
    }

    /// Returns the JSON Schema of the `tensors` of a file of this schema: see [`Schema::header_schema`].
    ///
    /// # Errors
    /// Returns `records/which-dataset` for the schema of a record, which has no header.
    pub fn header_schema(&self) -> Result<Value> {
        self.root().map_err(|e| e.in_source(&self.name))?;
        Ok(self.schema.header_schema(&self.json))
    }

    /// Returns the text of [`Document::json`], with all members in the order of the author's text.
    pub fn normal_text(&self) -> String {
        self.in_authors_order(&self.json)
    }

    /// Returns the JSON text of `value` with members in the order of the document's text.
    fn in_authors_order(&self, value: &Value) -> String {
        // Its nesting was checked when it was parsed.
        match OrderedJson::read(&self.text, usize::MAX) {
            Ok(ordered) => ordered.text_of(value),
            Err(_) => value.to_string(),
        }
    }

    /// Returns source code with the layout of a record: see [`crate::code::code`].
    ///
    /// # Errors
    /// Returns `records/which-dataset` if this is not the schema of a record, and the errors of [`crate::code::code`].
    pub fn code(&self, name: &str, lang: Lang) -> Result<String> {
        let code = match self.schema.root() {
            Root::Record(ty) => code(&self.schema, ty, name, lang),
            Root::References(_) => {
                Err(WHICH_DATASET.broken("this is the schema of a file: choose its dataset"))
            }
        };
        code.map_err(|e| e.in_source(&self.name))
    }

    /// Returns the JSON pointer of the dataset at a path of a file's schema.
    ///
    /// # Errors
    /// Returns the same errors as [`Document::dataset`].
    pub fn dataset_pointer(&self, path: &str) -> Result<String> {
        let found = self.root().and_then(|root| self.dataset_at(root, &path.parse()?));
        found.map_err(|e| e.in_source(&self.name))
    }

    /// Returns the node that a file's schema has for a tensor of this name. A name that is not a path is one segment.
    ///
    /// # Errors
    /// Returns `records/which-dataset` for the schema of a record, `schema/unknown-path` if there is no such node.
    pub fn find_node(&self, name: &str) -> Result<NodeId> {
        let own = |e: Error| e.in_source(&self.name);
        let path = name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.into())]));
        let root = self.root().map_err(own)?;
        let Some(at) = self.schema.follow(root, &path) else {
            let e = UNKNOWN_PATH.broken(format!("the schema has no `{}`", name.escaped()));
            return Err(own(e));
        };
        match self.schema.node(at) {
            Node::Flat { .. } | Node::Dataset { .. } | Node::Blob { .. } => Ok(at),
            _ => {
                let message = format!("`{}` is not a tensor", name.escaped());
                Err(own(UNKNOWN_PATH.broken(message)))
            }
        }
    }

    /// Returns the text of the file's schema with another schema for the records of the dataset at a path. Returns
    /// `None` if there is no such dataset, or if the two schemas have different `$defs` with the same name.
    pub fn with_records(&self, path: &str, records: &Document) -> Option<String> {
        let pointer = self.dataset_pointer(path).ok()?;
        let (mut json, mut items) = (self.json.clone(), records.json.clone());
        let keywords = items.as_object_mut()?;
        keywords.remove("$schema");
        if let Some(Value::Object(own)) = keywords.remove("$defs") {
            let defs = json.as_object_mut()?.entry("$defs").or_insert_with(|| Map::new().into());
            let defs = defs.as_object_mut()?;
            if own.iter().any(|(name, def)| defs.get(name).is_some_and(|other| other != def)) {
                return None;
            }
            defs.extend(own);
        }
        *json.pointer_mut(&pointer)?.get_mut("items")? = items;
        // If nothing changes, the author's text is kept.
        Some(if json == self.json { self.text.clone() } else { self.in_authors_order(&json) })
    }

    fn root(&self) -> Result<NodeId> {
        match self.schema.root() {
            Root::References(root) => Ok(root),
            Root::Record(_) => {
                Err(WHICH_DATASET.broken("this is the schema of a record, which has no datasets"))
            }
        }
    }

    fn dataset_at(&self, root: NodeId, path: &Path) -> Result<String> {
        let at = self.schema.follow(root, path);
        let at = at.ok_or_else(|| UNKNOWN_PATH.broken(format!("the schema has no `{path}`")))?;
        match self.schema.node(at) {
            Node::Dataset { pointer, .. } => Ok(pointer.clone()),
            _ => Err(WHICH_DATASET.broken(format!("`{path}` is not a dataset of records"))),
        }
    }

    /// Returns the path and the JSON pointer of each dataset of a file's schema, in the schema's order. The schema of a
    /// record has none.
    pub fn datasets(&self) -> impl Iterator<Item = (Path, &str)> {
        let root = match self.schema.root() {
            Root::References(root) => Some(root),
            Root::Record(_) => None,
        };
        let mut ahead: Vec<(Path, NodeId)> =
            root.map(|id| (Path::root(), id)).into_iter().collect();
        let mut left = 1u32 << 20;
        std::iter::from_fn(move || {
            while let Some((path, node)) = ahead.pop() {
                left = left.checked_sub(1)?;
                match self.schema.node(node) {
                    Node::Dataset { pointer, .. } => return Some((path, pointer.as_str())),
                    Node::Object(object) => {
                        for property in object.properties.iter().rev() {
                            let path = path.then(Segment::Name(property.name.clone()));
                            ahead.push((path, property.node));
                        }
                    }
                    Node::List { items, .. } => ahead.push((path.then(Segment::Each), *items)),
                    _ => {}
                }
            }
            None
        })
    }

    fn only_dataset(&self) -> Result<(String, String)> {
        self.root()?;
        let found: Vec<(Path, &str)> = self.datasets().take(MAX_NAMED).collect();
        match &found[..] {
            [(path, pointer)] => Ok((path.to_string(), (*pointer).to_owned())),
            [] => Err(WHICH_DATASET.broken("the schema has no dataset of records")),
            several => {
                let names: Vec<String> = several
                    .iter()
                    .map(|(path, _)| format!("`{}`", path.to_string().escaped()))
                    .collect();
                let e = WHICH_DATASET.broken("the schema has more than one dataset of records");
                Err(e.with_hint(format!("name one of them: {}", names.join(", "))))
            }
        }
    }
}

/// Returns JSON text without the spaces between tokens.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut is_text, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_text,
            '"' => is_text = !is_text,
            ' ' | '\t' | '\n' | '\r' if !is_text => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Returns the schema of the records of the dataset at a JSON pointer of `schema`. The result is self-contained.
pub fn record_schema(schema: &Value, pointer: &str) -> Option<Value> {
    let kind = schema.pointer(pointer)?.get("items")?.clone();
    Some(self_contained(kind, schema.get("$defs").and_then(Value::as_object)))
}

/// Returns the text of `kind`, the schema of a dataset's records that [`record_schema`] returned, in the order of the
/// `author`'s text of the schema that has the dataset at the JSON pointer.
pub fn record_text(kind: &Value, author: &str, pointer: &str, max_depth: usize) -> String {
    match OrderedJson::read(author, max_depth) {
        Ok(author) => author.part_text(kind, &format!("{pointer}/items")),
        Err(_) => kind.to_string(),
    }
}

/// Returns a part of a schema with the `$defs` of the schema that it needs, and no others. Its own `$defs` are removed,
/// because no reference uses them.
pub fn self_contained(mut part: Value, defs: Option<&Map<String, Value>>) -> Value {
    if let Value::Object(keywords) = &mut part {
        keywords.remove("$defs");
    }
    let mut needed: Map<String, Value> = Map::new();
    let mut names = Vec::new();
    note_refs(&part, &mut names);
    while let Some(name) = names.pop() {
        let Some(def) = defs.and_then(|defs| defs.get(&name)) else { continue };
        if !needed.contains_key(&name) {
            note_refs(def, &mut names);
            needed.insert(name, def.clone());
        }
    }
    if let (Value::Object(keywords), false) = (&mut part, needed.is_empty()) {
        keywords.insert("$defs".to_owned(), Value::Object(needed));
    }
    part
}

/// Adds the names of `$defs` that a part of a schema refers to.
pub(crate) fn note_refs(part: &Value, names: &mut Vec<String>) {
    let mut open = vec![part];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                names.extend(members.get("$ref").and_then(Value::as_str).and_then(def_name));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// Largest number of datasets to list in an error about an ambiguous dataset.
const MAX_NAMED: usize = 9;

impl Schema {
    /// Returns the node at a path from another node, or `None` if there is no such node.
    pub fn follow(&self, from: NodeId, path: &Path) -> Option<NodeId> {
        path.0.iter().try_fold(from, |at, segment| self.step(at, segment))
    }

    /// Returns the node that a segment of a path leads to, or `None` if there is no such node. `[]` and an index lead to the
    /// items of a list.
    pub fn step(&self, from: NodeId, segment: &Segment) -> Option<NodeId> {
        match (self.node(from), segment) {
            (Node::Object(object), Segment::Name(name)) => match object.property(name) {
                Some(property) => Some(property.node),
                None => match object.additional {
                    AdditionalMembers::Node(node) => Some(node),
                    _ => None,
                },
            },
            (Node::List { items, .. }, Segment::Index(_) | Segment::Each) => Some(*items),
            _ => None,
        }
    }
}

/// Compiles a schema, interpreted as `reading` says.
fn compile(json: &Value, reading: Reading, limits: &SchemaLimits) -> Result<Schema> {
    if reading == Reading::Record {
        return Schema::compile_record(json, limits);
    }
    let whole = Schema::compile(json, limits);
    if reading == Reading::File {
        return whole;
    }
    if let Ok(schema) = &whole
        && let Root::References(root) = schema.root()
        && !matches!(schema.node(root), Node::Object(_) | Node::Plain { .. })
    {
        return whole;
    }
    // An object whose members lead to references can also be a record: it is one if the root has a kind.
    match (Schema::compile_record(json, limits), whole) {
        (Ok(record), _) => Ok(record),
        (Err(_), Ok(whole)) => Ok(whole),
        (Err(e), Err(other)) => Err(if has_kind(json) { e } else { other }),
    }
}

fn has_kind(json: &Value) -> bool {
    json.as_object().is_some_and(|k| k.keys().any(|k| k.starts_with("TypeDef:")))
}
