//! Schemas as the user names them: JSON in a file or on standard input, or what a tensor file says of
//! itself.

use super::infer;
use crate::exit::{Failure, SCHEMA_LEN, WHICH_DATASET};
use crate::given::MARK;
use crate::input;
use crate::session::Session;
use clap::ValueEnum;
use holdall::{File, Result, Tensor, Value};
use holdall_schema::{
    Additional, KIND_ATTRIBUTE, Len, Node, NodeId, Path as Way, Root, SCHEMA_ATTRIBUTE, Schema,
    SchemaLimits, Segment, json,
};
use serde_json::Value as Json;
use std::io::Read;
use std::path::Path;

/// A schema, and where it came from.
#[derive(Clone)]
pub(crate) struct Named {
    /// The file as it was named.
    pub(crate) source: String,
    pub(crate) json: Json,
    pub(crate) schema: Schema,
}

/// What a schema is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reading {
    /// That of a record where its root is a struct, a union or the like, else that of a file.
    #[value(skip)]
    ByContent,
    /// That of one record.
    Record,
    /// That of the `tensors` of a file.
    File,
}

/// What was named.
pub(crate) enum Given {
    /// A schema of its own.
    Schema(Box<Named>),
    /// A tensor file.
    File(File),
}

/// Opens a schema or a tensor file, told apart by content; `-` is standard input.
pub(crate) fn given(session: &Session, path: &Path, reading: Reading) -> Result<Given, Failure> {
    let is_stdin = path.as_os_str() == "-";
    if !is_stdin && !begins_as_json(path) {
        return Ok(Given::File(input::open(session, path)?));
    }
    let source = input::shown(path);
    let limits = session.global.limits();
    let (_, mut reader) = input::reader(session, path)?;
    let cap = if is_stdin { u64::MAX } else { limits.header_len };
    let mut text = Vec::new();
    reader.by_ref().take(cap.saturating_add(1)).read_to_end(&mut text).map_err(|e| {
        let rule = &holdall::error::IO;
        rule.broken(format!("reading: {e}")).with_io(e).in_source(&source)
    })?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len());
    }
    if is_stdin && !is_json(&text) {
        return Ok(Given::File(input::options(session).open_bytes(text, input::STDIN)?));
    }
    if text.len() as u64 > limits.header_len {
        let most = limits.header_len;
        return Err(SCHEMA_LEN
            .broken(format!("there are more than {most} bytes"))
            .in_source(source)
            .into());
    }
    let json = json::parse(&text, limits.depth).map_err(|e| e.in_source(&source))?;
    let schema = compile(&json, reading, &limits.of_schemas()).map_err(|e| e.in_source(&source))?;
    Ok(Given::Schema(Box::new(Named { source, json, schema })))
}

/// A schema, which must be one of its own.
pub(crate) fn schema(session: &Session, path: &Path, reading: Reading) -> Result<Named, Failure> {
    match given(session, path, reading)? {
        Given::Schema(named) => Ok(*named),
        Given::File(file) => of_file(&file),
    }
}

/// The schema of a tensor file: the one among its attributes, or else one made from its tensors.
pub(crate) fn of_file(file: &File) -> Result<Named, Failure> {
    if let Some(named) = own_of_file(file)? {
        return Ok(named);
    }
    let json = infer::of_file(file)?;
    let schema = compile(&json, Reading::File, &file.limits().of_schemas());
    let schema = schema.map_err(|e| e.in_source(file.name()))?;
    Ok(Named { source: file.name().to_owned(), json, schema })
}

/// The schema that a tensor file has among its attributes.
pub(crate) fn own_of_file(file: &File) -> Result<Option<Named>> {
    match file.attributes().get(SCHEMA_ATTRIBUTE) {
        Some(Value::Text(text)) => parsed(text, file, Reading::File).map(Some),
        _ => Ok(None),
    }
}

/// The schema that a tensor of records or a blob has; `None` for other tensors.
pub(crate) fn of_tensor(tensor: &Tensor) -> Result<Option<Named>> {
    let reading = match tensor.layout().as_str() {
        "records" => Reading::Record,
        "blob" => Reading::File,
        _ => return Ok(None),
    };
    let Some(Value::Text(text)) = tensor.attributes().get(KIND_ATTRIBUTE) else { return Ok(None) };
    parsed(text, tensor.file(), reading).map(Some).map_err(|e| e.in_tensor(tensor.name()))
}

/// The schema of the records in a tensor of a file.
pub(crate) fn of_records(file: &File, name: &str) -> Result<Named> {
    let tensor = file.tensor(name)?;
    match of_tensor(&tensor)? {
        Some(named) if matches!(named.schema.root(), Root::Record(_)) => Ok(named),
        _ => {
            let e = WHICH_DATASET.broken("it is no dataset of records");
            Err(e.in_tensor(name).in_source(file.name()))
        }
    }
}

fn parsed(text: &str, file: &File, reading: Reading) -> Result<Named> {
    let own = |e: holdall::Error| e.in_source(file.name());
    let json = json::parse(text.as_bytes(), file.limits().depth).map_err(own)?;
    let schema = compile(&json, reading, &file.limits().of_schemas()).map_err(own)?;
    Ok(Named { source: file.name().to_owned(), json, schema })
}

/// Compiles a schema as what it is taken for.
pub(crate) fn compile(json: &Json, reading: Reading, limits: &SchemaLimits) -> Result<Schema> {
    if reading == Reading::Record {
        return Schema::compile_record(json, limits);
    }
    let whole = Schema::compile(json, limits);
    if reading == Reading::File {
        return whole;
    }
    if let Ok(whole) = &whole
        && let Root::References(root) = whole.root()
        && !matches!(whole.node(root), Node::Object(_) | Node::Plain { .. })
    {
        return Ok(whole.clone());
    }
    // Members that lead to references may as well lie in a record: a root with a kind is one.
    match (Schema::compile_record(json, limits), whole) {
        (Ok(record), _) => Ok(record),
        (Err(_), Ok(whole)) => Ok(whole),
        (Err(e), Err(other)) => Err(if has_kind(json) { e } else { other }),
    }
}

fn has_kind(json: &Json) -> bool {
    json.as_object().is_some_and(|k| k.keys().any(|k| k.starts_with("TypeDef:")))
}

impl Named {
    /// The schema of the records at a path of `tensors`, or of the one dataset there is. The schema
    /// of a record stays as it is.
    pub(crate) fn records(
        self,
        path: Option<&str>,
        limits: &SchemaLimits,
    ) -> Result<Named, Failure> {
        match self.schema.root() {
            Root::Record(_) => Ok(self),
            Root::References(_) => Ok(self.dataset(path, limits)?.1),
        }
    }

    /// The path of the dataset that is meant, and the schema of its records.
    ///
    /// # Errors
    /// `records/which-dataset`, `schema/path`, `schema/unknown-path`.
    pub(crate) fn dataset(
        &self,
        path: Option<&str>,
        limits: &SchemaLimits,
    ) -> Result<(String, Named)> {
        self.find_dataset(path, limits).map_err(|e| e.in_source(&self.source))
    }

    fn find_dataset(&self, path: Option<&str>, limits: &SchemaLimits) -> Result<(String, Named)> {
        let Root::References(root) = self.schema.root() else {
            return Err(WHICH_DATASET.broken("the schema is that of one record"));
        };
        let (way, pointer) = match path {
            Some(path) => (path.to_owned(), self.dataset_at(root, &path.parse()?)?),
            None => self.only_dataset(root)?,
        };
        let mut record = self.json.pointer(&pointer).and_then(|n| n.get("items")).cloned();
        if let (Some(Json::Object(keywords)), Some(defs)) = (&mut record, self.json.get("$defs")) {
            keywords.insert("$defs".to_owned(), defs.clone());
        }
        let json = record.unwrap_or(Json::Null);
        let schema = Schema::compile_record(&json, limits)?;
        Ok((way, Named { source: self.source.clone(), json, schema }))
    }

    /// The JSON pointer of the dataset at a path.
    pub(crate) fn dataset_pointer(&self, path: &str) -> Result<String> {
        match self.schema.root() {
            Root::References(root) => self.dataset_at(root, &path.parse()?),
            Root::Record(_) => Err(WHICH_DATASET.broken("the schema is that of one record")),
        }
    }

    fn dataset_at(&self, root: NodeId, way: &Way) -> Result<String> {
        let mut at = root;
        for segment in &way.0 {
            let next = match (self.schema.node(at), segment) {
                (Node::Object(object), Segment::Name(name)) => match object.property(name) {
                    Some(property) => Some(property.node),
                    None => match object.additional {
                        Additional::Node(node) => Some(node),
                        _ => None,
                    },
                },
                (Node::List { items, .. }, Segment::Index(_) | Segment::Each) => Some(*items),
                _ => None,
            };
            let rule = &holdall_schema::rules::UNKNOWN_PATH;
            at = next.ok_or_else(|| rule.broken(format!("`{way}` leads to nothing")))?;
        }
        match self.schema.node(at) {
            Node::Dataset { pointer, .. } => Ok(pointer.clone()),
            _ => Err(WHICH_DATASET.broken(format!("`{way}` leads to no dataset of records"))),
        }
    }

    fn only_dataset(&self, root: NodeId) -> Result<(String, String)> {
        let mut found: Vec<(Way, String)> = Vec::new();
        let mut ahead = vec![(Way::root(), root)];
        let mut left = 1u32 << 20;
        while let Some((way, node)) = ahead.pop() {
            left = left.saturating_sub(1);
            if left == 0 || found.len() > 8 {
                break;
            }
            match self.schema.node(node) {
                Node::Dataset { pointer, .. } => found.push((way, pointer.clone())),
                Node::Object(object) => {
                    for property in object.properties.iter().rev() {
                        ahead.push((way.then(Segment::Name(property.name.clone())), property.node));
                    }
                }
                Node::List { items, .. } => ahead.push((way.then(Segment::Each), *items)),
                _ => {}
            }
        }
        match &found[..] {
            [(way, pointer)] => Ok((way.to_string(), pointer.clone())),
            [] => Err(WHICH_DATASET.broken("the schema has no dataset of records")),
            several => {
                let names: Vec<String> =
                    several.iter().map(|(way, _)| format!("`{way}`")).collect();
                let e = WHICH_DATASET.broken("the schema has several datasets of records");
                Err(e.with_hint(format!("name one with `--path`: {}", names.join(", "))))
            }
        }
    }
}

/// Whether a file is JSON text, by its start, or by its name where there is nothing in it.
fn begins_as_json(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(64).read_to_end(&mut start));
    let start = start.strip_prefix(MARK).unwrap_or(&start);
    read.is_ok() && (is_json(start) || path.extension().is_some_and(|e| e == "json"))
}

/// The dataset at a path of a file, or the only one.
pub(crate) fn only_dataset(file: &File, path: Option<&str>) -> holdall::Result<Tensor> {
    if let Some(path) = path {
        return file.tensor(path);
    }
    let mut all = file.tensors().filter(|t| t.layout().as_str() == "records");
    let e = match (all.next(), all.next()) {
        (Some(only), None) => return Ok(only),
        (None, _) => WHICH_DATASET.broken("the file has no dataset of records"),
        (Some(a), Some(b)) => {
            let e = WHICH_DATASET.broken("the file has several datasets of records");
            let (a, b) = (a.name().escape_debug(), b.name().escape_debug());
            e.with_hint(format!("name one with `--path`: `{a}`, `{b}` …"))
        }
    };
    Err(e.in_source(file.name()))
}

/// Whether a file starts with something else than text, as all tensor files do.
pub(crate) fn is_binary(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(64).read_to_end(&mut start));
    let is_text = |b: &u8| *b >= 0x20 || matches!(b, b'\t' | b'\n' | b'\r');
    path.as_os_str() != "-" && read.is_ok() && !start.iter().all(is_text)
}

/// Whether bytes are JSON text: a brace first, and nothing but text. No tensor file starts like this:
/// in a header's length, control bytes follow.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    let is_space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    let first = bytes.iter().find(|b| !is_space(b));
    let is_text = bytes.iter().take(8).all(|b| *b >= 0x20 || is_space(b));
    matches!(first, Some(b'{' | b'[')) && is_text
}

/// Whether elements of an array are in the record itself.
pub(super) fn is_fixed(len: Len) -> bool {
    matches!(len, Len::Fixed(_))
}
