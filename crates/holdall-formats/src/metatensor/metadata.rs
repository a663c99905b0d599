//! `metadata`: the file's attributes, and data that has no other place in the header (section 7).

use super::header::{Header, metadata_depth};
use super::rules::ATTRIBUTE;
use super::{SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE, VALUES_ATTRIBUTE};
use crate::kept::duplicate_tensor;
use holdall_collections::HashMap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::attributes::LOSSLESS;
use holdall_core::model::{Attributes, Value};
use holdall_json::{DUPLICATE_KEY, Reader, duplicate, parse, write_string};
use holdall_schema::{Schema, SchemaLimits, normalize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The prefix of keys that Holdall adds.
const PREFIX: &str = "holdall.";
/// The key of the file's attributes whose names have a prefix of Holdall or of the format.
const ATTRIBUTES: &str = "holdall.attributes";
/// The key of the attributes of tensors.
const TENSOR_ATTRIBUTES: &str = "holdall.tensor_attributes";
/// The key of the names of tensors by path.
const NAMES: &str = "holdall.names";
/// The key that says whether the schema was inferred from the tensors.
const SCHEMA: &str = "holdall.schema";
/// The value of [`SCHEMA`] for an inferred schema.
const INFERRED: &str = "inferred";

/// The prefix of the format's attributes of the file.
const FORMAT_PREFIX: &str = "metatensor.";

/// The contents of a file's metadata.
#[derive(Default, Clone)]
pub(super) struct Metadata {
    pub(super) attributes: Attributes,
    /// The attributes of each tensor, by name.
    pub(super) tensor_attributes: HashMap<String, Attributes>,
    /// The names of tensors, by path.
    pub(super) names: HashMap<String, String>,
    /// Whether the schema was inferred from the tensors.
    pub(super) is_inferred: bool,
    /// Keys of Holdall whose value is not in the form that Holdall writes, with the reasons.
    pub(super) odd: Vec<(String, String)>,
}

impl Metadata {
    pub(super) fn read(header: &Header<'_>, limits: &Limits) -> Result<Metadata> {
        let mut found = Metadata::default();
        let Some(range) = &header.metadata else { return Ok(found) };
        let text = header.text_of(range);
        let depth = metadata_depth(limits);
        let mut reader = Reader::new(text.as_bytes(), range.start, depth)?;
        let mut keys = Vec::new();
        let mut scratch = String::new();
        let mut restored = None;
        reader.begin_object()?;
        while let Some(key) = reader.next_key(&mut scratch)? {
            reader.peek()?;
            let start = reader.offset();
            reader.skip()?;
            let value = reader.text_from(start);
            let key = key.to_owned();
            keys.push(key.clone());
            if let Err(why) = found.take(&key, value, start, depth, &mut restored)? {
                found.odd.push((key, why));
            }
        }
        if let Some(key) = duplicate(keys.iter().map(String::as_str)) {
            let message = format!("duplicate key `{}` in `metadata`", key.escaped());
            return Err(DUPLICATE_KEY.broken(message).at(range.clone()));
        }
        for (key, value) in restored.iter().flat_map(Attributes::iter) {
            if found.attributes.get(key).is_some() {
                let why = format!("`{}` is also a key of `metadata` itself", key.escaped());
                found.odd.push((ATTRIBUTES.to_owned(), why));
            } else {
                found.attributes.push(key, value.clone());
            }
        }
        Ok(found)
    }

    /// Reads one member. Returns `Ok(Err(why))` if the key is Holdall's, but its value is in another form.
    fn take(
        &mut self,
        key: &str,
        text: &str,
        start: u64,
        depth: usize,
        restored: &mut Option<Attributes>,
    ) -> Result<Result<(), String>> {
        let reader = || Reader::new(text.as_bytes(), start, depth);
        let show = |e: Error| e.to_string();
        let read = match key {
            ATTRIBUTES => reader().and_then(|mut r| Attributes::read_json(&mut r)).map(|all| {
                *restored = Some(all);
            }),
            TENSOR_ATTRIBUTES => {
                reader().and_then(|mut r| by_name(&mut r)).map(|all| self.tensor_attributes = all)
            }
            NAMES => reader().and_then(|mut r| names(&mut r)).map(|all| self.names = all),
            SCHEMA => {
                self.is_inferred = text == format!("\"{INFERRED}\"");
                let why = "expected `inferred`".to_owned();
                return Ok(if self.is_inferred { Ok(()) } else { Err(why) });
            }
            SCHEMA_ATTRIBUTE | VALUES_ATTRIBUTE => {
                return Ok(Err("the key is reserved for a part of the header".to_owned()));
            }
            _ => {
                let value = match Value::read_json(&mut reader()?) {
                    Err(e) if e.code() == LOSSLESS.code => plain(parse(text.as_bytes(), depth)?),
                    other => other?,
                };
                self.attributes.push(key, value);
                return Ok(Ok(()));
            }
        };
        Ok(read.map_err(show))
    }
}

/// Converts JSON that is not in the form for values that JSON lacks.
fn plain(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::Integer(i.into()),
            (None, Some(u)) => Value::Integer(u.into()),
            (None, None) => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        Json::Object(members) => {
            Value::Map(members.into_iter().map(|(k, v)| (Value::Text(k), plain(v))).collect())
        }
    }
}

fn by_name(reader: &mut Reader<'_>) -> Result<HashMap<String, Attributes>> {
    let mut all = HashMap::default();
    let mut scratch = String::new();
    reader.begin_object()?;
    while let Some(name) = reader.next_key(&mut scratch)? {
        let name = name.to_owned();
        let attributes = Attributes::read_json(reader)?;
        if all.contains_key(&name) {
            return Err(duplicate_tensor(&name));
        }
        all.insert(name, attributes);
    }
    Ok(all)
}

fn names(reader: &mut Reader<'_>) -> Result<HashMap<String, String>> {
    let mut all = HashMap::default();
    let (mut key, mut value) = (String::new(), String::new());
    reader.begin_object()?;
    while let Some(path) = reader.next_key(&mut key)? {
        let path = path.to_owned();
        let name = reader.string(&mut value)?.to_owned();
        if all.contains_key(&path) {
            return Err(duplicate_path(&path));
        }
        all.insert(path, name);
    }
    Ok(all)
}

/// The schema and the plain values in the attributes of a file to be written.
pub(super) struct Parts<'a> {
    /// The schema, parsed and as text.
    pub(super) schema: Option<(Json, &'a str)>,
    /// The values as JSON text, with their paths.
    pub(super) values: Vec<(String, String)>,
}

impl<'a> Parts<'a> {
    /// Reads the schema and the plain values from the attributes of a file.
    ///
    /// # Errors
    /// Returns [`ATTRIBUTE`] if an attribute is not valid.
    pub(super) fn read(attributes: &'a Attributes, limits: &SchemaLimits) -> Result<Parts<'a>> {
        let text = |key: &str| match attributes.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(ATTRIBUTE.broken(format!("the attribute `{key}` is not text"))),
        };
        let blame = |key: &str, e: Error| {
            ATTRIBUTE.broken(format!("the attribute `{key}` cannot be used")).because(e)
        };
        let schema = match text(SCHEMA_ATTRIBUTE)? {
            None => None,
            Some(text) => {
                let parsed = parse(text.as_bytes(), limits.depth).and_then(normalize);
                let parsed = parsed.map_err(|e| blame(SCHEMA_ATTRIBUTE, e))?;
                Schema::compile(&parsed, limits).map_err(|e| blame(SCHEMA_ATTRIBUTE, e))?;
                Some((parsed, text))
            }
        };
        let values = match text(VALUES_ATTRIBUTE)? {
            None => Vec::new(),
            Some(text) => values(text, limits.depth).map_err(|e| blame(VALUES_ATTRIBUTE, e))?,
        };
        Ok(Parts { schema, values })
    }
}

/// Returns the members of an object, each with the text of its value.
fn values(text: &str, depth: usize) -> Result<Vec<(String, String)>> {
    let mut reader = Reader::new(text.as_bytes(), 0, depth.saturating_add(1))?;
    let mut all = Vec::new();
    let mut scratch = String::new();
    reader.begin_object()?;
    while let Some(path) = reader.next_key(&mut scratch)? {
        reader.peek()?;
        let start = reader.offset();
        reader.skip()?;
        let value = reader.text_from(start);
        parse(value.as_bytes(), depth)?;
        all.push((path.to_owned(), value.to_owned()));
    }
    reader.end()?;
    match duplicate(all.iter().map(|(path, _)| path.as_str())) {
        Some(path) => Err(duplicate_path(path)),
        None => Ok(all),
    }
}

#[cold]
fn duplicate_path(path: &str) -> Error {
    DUPLICATE_KEY.broken(format!("the path `{}` is given twice", path.escaped()))
}

/// The metadata of a file to be written, besides its attributes.
#[derive(Default)]
pub(super) struct WrittenMetadata<'a> {
    pub(super) tensor_attributes: BTreeMap<&'a str, Attributes>,
    pub(super) names: BTreeMap<String, &'a str>,
    pub(super) is_inferred: bool,
}

impl WrittenMetadata<'_> {
    /// Returns the text of the object; `None` if it would be empty.
    pub(super) fn write(&self, attributes: &Attributes) -> Option<String> {
        let mut out = String::from("{");
        let mut member = |key: &str, write: &mut dyn FnMut(&mut String)| {
            if out.len() > 1 {
                out.push(',');
            }
            write_string(key, &mut out);
            out.push(':');
            write(&mut out);
        };
        let mut ours = Attributes::new();
        for (key, value) in attributes.iter() {
            match key {
                SCHEMA_ATTRIBUTE | VALUES_ATTRIBUTE => {}
                _ if key.starts_with(PREFIX) || key.starts_with(FORMAT_PREFIX) => {
                    ours.push(key, value.clone());
                }
                _ => member(key, &mut |out| value.write_json(out)),
            }
        }
        if !ours.is_empty() {
            member(ATTRIBUTES, &mut |out| out.push_str(&ours.to_json()));
        }
        if !self.tensor_attributes.is_empty() {
            member(TENSOR_ATTRIBUTES, &mut |out| {
                object(&self.tensor_attributes, out, |own, out| out.push_str(&own.to_json()));
            });
        }
        if !self.names.is_empty() {
            member(NAMES, &mut |out| object(&self.names, out, |name, out| write_string(name, out)));
        }
        if self.is_inferred {
            member(SCHEMA, &mut |out| write_string(INFERRED, out));
        }
        (out.len() > 1).then(|| out + "}")
    }
}

/// Returns the attributes of a tensor that the schema does not contain.
pub(super) fn own_attributes(attributes: &Attributes, has_kind: bool) -> Attributes {
    let mut own = attributes.clone();
    if has_kind {
        own.remove(TENSOR_SCHEMA_ATTRIBUTE);
    }
    own
}

fn object<K: AsRef<str>, T>(
    pairs: &BTreeMap<K, T>,
    out: &mut String,
    write: impl Fn(&T, &mut String),
) {
    for (at, (key, value)) in pairs.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        write_string(key.as_ref(), out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}
