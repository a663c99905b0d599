//! What standard keywords say of values: minima, patterns, formats of header values and of records
//! as JSON. By the `jsonschema` crate, compiled once for a schema, with a keyword for each kind.
//! Built with the feature `validate`; `unchecked.rs` stands in without it.

mod defaults;
mod effort;
mod patterns;

use crate::error::{Error, Result, Rule, Shown as _};
use crate::extent::in_memory;
use crate::kinds::{Scalar, TypeId, is_kind};
use crate::limits::SchemaLimits;
use crate::record::input::{Input, ValueInput};
use crate::record::number::Num;
use crate::record::rules::{KEYWORD, TOO_LARGE};
use crate::record::{Encoder, Heap};
use crate::refs::{Defs, children_mut};
use crate::rules::INVALID;
use crate::schema::{AdditionalMembers, Node, NodeId, Root, Schema};
use crate::vocabulary::Vocabulary;
use data_encoding::BASE64;
use holdall_json::Token;
use jsonschema::paths::Location;
use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Checks the plain values of a header, and records as JSON, against all keywords of a schema.
#[derive(Debug)]
pub struct Checker<'s> {
    schema: &'s Schema,
    validator: Validator,
    limits: SchemaLimits,
    /// Patterns that this build does not compile, by the part that they are in; `$defs` may be in any.
    unverified: Vec<(String, String)>,
    /// Parts of the schema that may still be tried on plain values.
    left: AtomicU64,
}

/// Parts of a schema that may be tried for each value in JSON, beyond those that may be anyway.
const EFFORT: u64 = 64;
/// Those that may be tried for the sake of a better message.
const EFFORT_TO_TELL: u64 = 4096;

impl<'s> Checker<'s> {
    /// Whether this build has what checks: the feature `validate`.
    pub const IS_BUILT: bool = true;

    /// A checker of what the schema compiled from `source` describes. Nothing is fetched, and patterns
    /// take time in proportion to their text.
    ///
    /// # Errors
    /// `schema/invalid` where the source is not a JSON Schema of draft 2020-12.
    pub fn new(schema: &'s Schema, source: &Value, limits: &SchemaLimits) -> Result<Checker<'s>> {
        Checker::with_vocabulary(schema, source, &Vocabulary::default(), limits)
    }

    /// The same, with formats and keywords of your own.
    ///
    /// # Errors
    /// As [`Checker::new`]; `schema/own-keyword`.
    pub fn with_vocabulary(
        schema: &'s Schema,
        source: &Value,
        vocabulary: &Vocabulary,
        limits: &SchemaLimits,
    ) -> Result<Checker<'s>> {
        vocabulary.check()?;
        let (compiled, _) = patterns::without_uncompiled(source.clone());
        jsonschema::draft202012::meta::validate(&compiled)
            .map_err(|e| invalid(&e, e.instance_path()))?;
        let defs = Defs::checked(source, limits)?;
        let mut parts = Map::new();
        match schema.root() {
            Root::Record(_) => {
                let mut own = source.clone();
                if let Some(keywords) = own.as_object_mut() {
                    keywords.remove("$defs");
                    keywords.remove("$id");
                }
                parts.insert(RECORD.to_owned(), own);
            }
            Root::References(root) => {
                for id in places(schema, root) {
                    let part = match schema.node(id) {
                        Node::Plain { pointer, .. } => source.pointer(pointer).cloned(),
                        Node::Dataset { pointer, .. } => {
                            source.pointer(pointer).and_then(|n| n.get("items")).cloned()
                        }
                        _ => None,
                    };
                    if let Some(part) = part {
                        parts.insert(id.0.to_string(), part);
                    }
                }
            }
        }
        let (document, unverified) = document(parts, &defs, true)?;
        let validator =
            built(&document, vocabulary).map_err(|e| match built(&compiled, vocabulary) {
                // The schema as it was given has places that its author knows.
                Err(own) => invalid(&own, own.schema_path()),
                Ok(_) => INVALID.broken(shorten(&e.masked().to_string()).to_owned()),
            })?;
        let left = AtomicU64::new(limits.max_nodes());
        Ok(Checker { schema, validator, limits: limits.clone(), unverified, left })
    }

    /// Patterns of the schema that values are not checked against, because they have what regular expressions that take
    /// time in proportion to the text do not: `(?!`, `\\1`.
    pub fn unverified(&self) -> impl Iterator<Item = &str> {
        self.unverified.iter().map(|(_, pattern)| pattern.as_str())
    }

    /// Such a pattern that the value at a plain node may have to match.
    pub fn unverified_at(&self, node: NodeId) -> Option<&str> {
        let name = node.0.to_string();
        let is_there = |part: &str| part == name || part == patterns::SHARED;
        self.unverified.iter().find(|(part, _)| is_there(part)).map(|(_, pattern)| pattern.as_str())
    }

    /// Checks the value at a plain node of a header; `rule` is what breaks where it is not sound.
    ///
    /// # Errors
    /// `rule`; `schema/too-large` where all values so far try more than [`SchemaLimits::nodes`] parts of the
    /// schema, and 64 for each value in them.
    pub fn plain(&self, node: NodeId, value: Value, rule: &'static Rule) -> Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        let left = self.part(&node.0.to_string(), value, rule, left)?;
        self.left.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// Checks the JSON of a record of a dataset: everything that encoding it would check, and then the
    /// standard keywords.
    ///
    /// # Errors
    /// Those of [`Encoder::value`]; `record/keyword`; `record/too-large` where the bytes would be;
    /// `schema/too-large` as for plain values, but for each record alone.
    pub fn record(&self, node: NodeId, value: Value) -> Result<()> {
        if let Node::Dataset { items, .. } = self.schema.node(node) {
            self.encodes(*items, &value)?;
        }
        self.part(&node.0.to_string(), value, &KEYWORD, self.limits.max_nodes()).map(drop)
    }

    /// The same, for the schema of one record.
    ///
    /// # Errors
    /// As [`Checker::record`].
    pub fn one_record(&self, value: Value) -> Result<()> {
        if let Some(ty) = self.schema.record() {
            self.encodes(ty, &value)?;
        }
        self.part(RECORD, value, &KEYWORD, self.limits.max_nodes()).map(drop)
    }

    fn encodes(&self, ty: TypeId, value: &Value) -> Result<()> {
        let mut encoder = Encoder::new(self.schema, ty, &self.limits)?;
        let size = encoder.size();
        if size as u64 > self.limits.decoded_len {
            let most = self.limits.decoded_len;
            return Err(TOO_LARGE.broken(format!("a record of {size} bytes, over {most}")));
        }
        encoder.value(value, &mut vec![0; in_memory(size as u64)?], &mut Counted(0))
    }

    /// Checks a value, which may try so many parts of the schema and some for each value in it. Gives what
    /// is left.
    fn part(&self, name: &str, value: Value, rule: &'static Rule, left: u64) -> Result<u64> {
        let most = left.saturating_add(EFFORT.saturating_mul(effort::values(&value)));
        let wrapped = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        let (at, text) = match ask(&self.validator, &wrapped, most)? {
            Ok(left) => return Ok(left),
            Err(found) => found,
        };
        Err(match at.get(name.len().saturating_add(1)..).unwrap_or_default() {
            "" => rule.broken(text),
            path => rule.broken(format!("{text}, at `{}`", path.shown())),
        })
    }
}

/// Asks about a value, which may try so many parts of the schema. Gives what is left; or where in the value something is not as the
/// schema says, and what.
fn ask(validator: &Validator, value: &Value, most: u64) -> Result<Result<u64, (String, String)>> {
    let (is_valid, left) = effort::within(most, || validator.is_valid(value))?;
    if is_valid {
        return Ok(Ok(left));
    }
    // Errors of all variants are kept until one is told, so no more are tried than somebody would read.
    let found = effort::within(EFFORT_TO_TELL, || validator.validate(value));
    Ok(Err(match found {
        Ok((Err(e), _)) => {
            (e.instance_path().to_string(), shorten(&e.masked().to_string()).to_owned())
        }
        _ => (String::new(), "it is not as the schema says".to_owned()),
    }))
}

/// Whether a value is what a node of a schema with these `$defs` says in standard keywords.
pub(crate) fn is_value(
    node: &Value,
    defs: &Defs<'_>,
    value: &Value,
    limits: &SchemaLimits,
) -> bool {
    let valid = || -> Result<bool> {
        let parts = Map::from_iter([("value".to_owned(), node.clone())]);
        let (document, _) = document(parts, defs, has_ref(node))?;
        let validator = built(&document, &Vocabulary::default());
        let validator = validator.map_err(|e| invalid(&e, e.schema_path()))?;
        let most = limits.max_nodes();
        let wrapped = json!({ "value": value });
        Ok(effort::within(most, || validator.is_valid(&wrapped))?.0)
    };
    valid().unwrap_or(false)
}

/// A schema of an object with these members, adapted, with what they refer to unless they do not.
fn document(
    parts: Map<String, Value>,
    defs: &Defs<'_>,
    refers: bool,
) -> Result<(Value, Vec<(String, String)>)> {
    let mut document = Map::from_iter([("properties".to_owned(), Value::Object(parts))]);
    if let (true, Some(all)) = (refers, defs.all()) {
        document.insert("$defs".to_owned(), Value::Object(all.clone()));
    }
    let mut document = Value::Object(document);
    adapt(&mut document, defs)?;
    Ok(patterns::without_uncompiled(document))
}

/// Whether a `$ref` is anywhere in a schema.
fn has_ref(node: &Value) -> bool {
    let mut open = vec![node];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) if members.contains_key("$ref") => return true,
            Value::Object(members) => open.extend(members.values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

/// A validator of a schema in which kinds are keywords.
fn built(schema: &Value, vocabulary: &Vocabulary) -> Result<Validator, ValidationError<'static>> {
    let mut options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .offline();
    options = options.with_keyword(effort::KEYWORD, |_, value, _| {
        Ok(Box::new(effort::Step::for_keyword(value)))
    });
    for kind in KindKeyword::all() {
        let name = kind.name();
        options = options.with_keyword(name, move |_, _, _| Ok(Box::new(kind)));
    }
    for (name, check) in vocabulary.keywords.clone() {
        options = options.with_keyword(name.clone(), move |_, value, _| {
            let (check, value, name) = (Arc::clone(&check), value.clone(), name.clone());
            let holds = move |found: &Value| check(&value, found);
            Ok(Box::new(Own { what: format!("`{name}`"), holds: Box::new(holds) }))
        });
    }
    let formats = vocabulary.formats.clone();
    if !formats.is_empty() {
        // The standard says that formats are annotations: those of the caller alone count.
        options = options.with_keyword("format", move |_, value, _| {
            let name = value.as_str().unwrap_or_default();
            let check = formats.get(name).cloned();
            let holds = move |found: &Value| match (&check, found.as_str()) {
                (Some(check), Some(text)) => check(text),
                _ => true,
            };
            Ok(Box::new(Own { what: format!("of the format `{name}`"), holds: Box::new(holds) }))
        });
    }
    options.build(schema)
}

/// A format or a keyword of the caller's, beside what a schema says with it.
struct Own {
    what: String,
    holds: Box<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl<'i> Keyword<'i> for Own {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match (self.holds)(value) {
            true => Ok(()),
            false => Err(ValidationError::custom(format!("value is not {}", self.what))),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        (self.holds)(value)
    }
}

/// What is wrong with a schema, at a place of it: a JSON pointer, as in all rules of schemas.
#[cold]
fn invalid(e: &ValidationError<'_>, at: &Location) -> Error {
    let found = INVALID.broken(shorten(&e.masked().to_string()).to_owned());
    match at.as_str() {
        "" => found.within("the root"),
        at => found.within(format!("`{}`", at.shown())),
    }
}

/// The nodes at which a header has values: not those inside of plain ones.
fn places(schema: &Schema, root: NodeId) -> BTreeSet<NodeId> {
    let mut places = BTreeSet::from([root]);
    for node in &schema.nodes {
        match node {
            Node::Object(object) => {
                places.extend(object.properties.iter().map(|p| p.node));
                if let AdditionalMembers::Node(id) = object.additional {
                    places.insert(id);
                }
            }
            Node::List { items, .. } => {
                places.insert(*items);
            }
            _ => {}
        }
    }
    places
}

/// What the one record of a schema is called among the parts.
const RECORD: &str = "record";

/// A heap that keeps nothing but its length.
struct Counted(u64);

impl Heap for Counted {
    fn append(&mut self, bytes: &[u8], _align: u32) -> Result<u64> {
        let start = self.0;
        self.0 = start.saturating_add(bytes.len() as u64);
        Ok(start)
    }
}

/// Makes a schema say what the values of records are, where standard keywords beside a kind say what a
/// plain validator may know: a float may be `{"$float": …}`, a member with a default may be missing,
/// and a tensor has its elements. Variants become conditions. What may be tried on one value more than
/// once is counted.
fn adapt(node: &mut Value, defs: &Defs<'_>) -> Result<()> {
    let Some(keywords) = node.as_object_mut() else { return Ok(()) };
    let mut kinds = keywords.keys().filter_map(|k| k.strip_prefix("TypeDef:"));
    let kind = kinds.find(|name| is_kind(name)).map(str::to_owned);
    match kind.as_deref() {
        Some("Tensor") => keywords.retain(|k, _| k == "TypeDef:Tensor"),
        Some("Struct") => drop_defaulted(keywords, defs)?,
        Some("Union") => branch(keywords),
        Some("Complex64" | "Complex128") => {
            keywords.remove("items");
        }
        Some(name) if Scalar::from_name(name).is_some_and(|s| s.json_type() == "number") => {
            keywords.remove("type");
        }
        _ => {}
    }
    for (keyword, value) in keywords.iter_mut() {
        let is_counted = COUNTED.contains(&keyword.as_str());
        children_mut(keyword, value, &mut |child| {
            adapt(child, defs)?;
            if is_counted || effort::is_long(child) {
                *child = effort::counted(child.take());
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Keywords with schemas of which many may be tried on one value.
const COUNTED: [&str; 6] =
    ["$defs", "allOf", "anyOf", "oneOf", "dependentSchemas", "patternProperties"];

/// Takes members with a default from `required`.
fn drop_defaulted(keywords: &mut Map<String, Value>, defs: &Defs<'_>) -> Result<()> {
    let Some(Value::Array(mut required)) = keywords.remove("required") else { return Ok(()) };
    let properties = keywords.get("properties");
    let mut failed = None;
    required.retain(|name| {
        let member = name.as_str().and_then(|n| properties?.get(n));
        match member.map(|m| defs.has_default(m)) {
            Some(Ok(has)) => !has,
            Some(Err(e)) => {
                failed = Some(e);
                true
            }
            None => true,
        }
    });
    keywords.insert("required".to_owned(), Value::Array(required));
    failed.map_or(Ok(()), Err)
}

/// Turns the variants of a union into conditions on its discriminator.
fn branch(keywords: &mut Map<String, Value>) {
    let discriminator = keywords.get("TypeDef:Union").and_then(|u| u.get("discriminator")).cloned();
    let name = discriminator.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Object(mapping)) = keywords.remove("mapping") else { return };
    let branches = mapping.into_iter().map(|(key, variant)| {
        json!({
            "if": { "properties": { name.as_str(): { "const": key } }, "required": [name] },
            "then": variant,
        })
    });
    let branches: Vec<Value> = branches.collect();
    match keywords.get_mut("allOf") {
        Some(Value::Array(all)) => all.extend(branches),
        _ => {
            keywords.insert("allOf".to_owned(), Value::Array(branches));
        }
    }
}

/// The keyword of a kind: whether a value may be one of it. What is in a struct, a union or an array is a
/// matter of their standard keywords and of the encoder.
#[derive(Debug, Clone, Copy)]
enum KindKeyword {
    Scalar(Scalar),
    Other { name: &'static str, token: Token },
}

impl KindKeyword {
    fn all() -> impl Iterator<Item = KindKeyword> {
        let others = [
            ("Enum", Token::String),
            ("String", Token::String),
            ("Bytes", Token::String),
            ("Array", Token::Array),
            ("Struct", Token::Object),
            ("Union", Token::Object),
            ("Record", Token::Object),
            ("Tensor", Token::Object),
            ("Blob", Token::Object),
        ];
        let others = others.map(|(name, token)| KindKeyword::Other { name, token });
        Scalar::ALL.into_iter().map(KindKeyword::Scalar).chain(others)
    }

    fn name(self) -> String {
        match self {
            KindKeyword::Scalar(scalar) => format!("TypeDef:{}", scalar.as_str()),
            KindKeyword::Other { name, .. } => format!("TypeDef:{name}"),
        }
    }

    fn check(self, value: &Value) -> Result<(), Error> {
        let mut input = ValueInput::new(value);
        match self {
            KindKeyword::Scalar(scalar) => {
                Num::from_scalar(scalar).encode(&mut input, &mut [0; 16], &mut String::new())
            }
            KindKeyword::Other { name, token } => {
                crate::record::number::expect(&mut input, token, name)?;
                match value.as_str().filter(|_| name == "Bytes") {
                    Some(text) => match BASE64.decode(text.as_bytes()) {
                        Ok(_) => Ok(()),
                        Err(e) => Err(crate::record::rules::BASE64
                            .broken("this is not base64")
                            .because(e)),
                    },
                    None => input.skip(),
                }
            }
        }
    }
}

impl<'i> Keyword<'i> for KindKeyword {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.check(value).map_err(|e| ValidationError::custom(e.message()))
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.check(value).is_ok()
    }
}

/// Text of a validator, which may be as long as the value it is about.
fn shorten(text: &str) -> &str {
    text.char_indices().nth(200).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}
