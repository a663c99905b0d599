//! Checks values against standard keywords: minima, patterns and formats of header values and of records as JSON. Uses
//! the `jsonschema` crate; a validator is compiled once for a schema, with a custom keyword for each kind. Only built
//! with the feature `validate`; otherwise `unchecked.rs` replaces this module.

mod defaults;
mod effort;
mod patterns;

use crate::error::{Error, Escape as _, Result, Rule};
use crate::extent::in_memory;
use crate::kinds::{Scalar, TypeId, is_kind};
use crate::limits::SchemaLimits;
use crate::record::input::{RecordInput, ValueInput};
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
    /// Patterns that this build cannot compile, with the name of the part that contains them. Patterns in `$defs` may
    /// apply to any part.
    unverified: Vec<(String, String)>,
    /// Number of parts of the schema that may still be tried on plain values.
    left: AtomicU64,
}

/// Additional number of parts of a schema that may be tried for each JSON value.
const EFFORT: u64 = 64;
/// Number of parts that may be tried to find a better error message.
const EFFORT_TO_TELL: u64 = 4096;

impl<'s> Checker<'s> {
    /// Whether this build can check values: the feature `validate`.
    pub const IS_BUILT: bool = true;

    /// Creates a checker for `schema`, which was compiled from `source`. Nothing is fetched, and matching a pattern
    /// takes time in proportion to the text.
    ///
    /// # Errors
    /// Returns `schema/invalid` if the source is not a JSON Schema of draft 2020-12.
    pub fn new(schema: &'s Schema, source: &Value, limits: &SchemaLimits) -> Result<Checker<'s>> {
        Checker::with_vocabulary(schema, source, &Vocabulary::default(), limits)
    }

    /// Creates a checker with additional user-defined formats and keywords.
    ///
    /// # Errors
    /// Returns the errors of [`Checker::new`], and `schema/own-keyword` if a keyword already has a meaning.
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
                for id in reachable(schema, root) {
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
                // Errors should refer to the author's schema rather than to the adapted one.
                Err(own) => invalid(&own, own.schema_path()),
                Ok(_) => INVALID.broken(shorten(&e.masked().to_string()).to_owned()),
            })?;
        let left = AtomicU64::new(limits.max_nodes());
        Ok(Checker { schema, validator, limits: limits.clone(), unverified, left })
    }

    /// Returns the patterns of the schema that values are not checked against, because they use features that cannot be
    /// matched in linear time: `(?!`, `\\1`.
    pub fn unverified(&self) -> impl Iterator<Item = &str> {
        self.unverified.iter().map(|(_, pattern)| pattern.as_str())
    }

    /// Returns a pattern that the value at a plain node is not checked against, if any.
    pub fn unverified_at(&self, node: NodeId) -> Option<&str> {
        let name = node.0.to_string();
        let is_named = |part: &str| part == name || part == patterns::SHARED;
        self.unverified.iter().find(|(part, _)| is_named(part)).map(|(_, pattern)| pattern.as_str())
    }

    /// Checks the value at a plain node of a header. `rule` is the rule that an invalid value breaks.
    ///
    /// # Errors
    /// Returns an error of `rule` if the value is invalid; `schema/too-large` if all values so far try more than
    /// [`SchemaLimits::nodes`] parts of the schema, plus 64 for each JSON value in them.
    pub fn plain(&self, node: NodeId, value: Value, rule: &'static Rule) -> Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        let left = self.part(&node.0.to_string(), value, rule, left)?;
        self.left.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// Checks the JSON of a record of a dataset: first everything that encoding it would check, then the standard
    /// keywords.
    ///
    /// # Errors
    /// Returns the errors of [`Encoder::value`]; `record/keyword` if a keyword is not satisfied; `record/too-large` if
    /// the encoded record would be too large; `schema/too-large` as for plain values, but counted for each record
    /// separately.
    pub fn record(&self, node: NodeId, value: Value) -> Result<()> {
        if let Node::Dataset { items, .. } = self.schema.node(node) {
            self.encodes(*items, &value)?;
        }
        self.part(&node.0.to_string(), value, &KEYWORD, self.limits.max_nodes()).map(drop)
    }

    /// Checks the JSON of a record, for the schema of one record.
    ///
    /// # Errors
    /// Returns the same errors as [`Checker::record`].
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
            return Err(TOO_LARGE
                .broken(format!("the record has {size} bytes; at most {most} are allowed")));
        }
        encoder.value(value, &mut vec![0; in_memory(size as u64)?], &mut Counted(0))
    }

    /// Checks a value, which may try `left` parts of the schema plus some for each JSON value in it. Returns how many
    /// are left.
    fn part(&self, name: &str, value: Value, rule: &'static Rule, left: u64) -> Result<u64> {
        let most = left.saturating_add(EFFORT.saturating_mul(effort::values(&value)));
        let wrapped = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        let (at, text) = match ask(&self.validator, &wrapped, most)? {
            Ok(left) => return Ok(left),
            Err(found) => found,
        };
        Err(match at.get(name.len().saturating_add(1)..).unwrap_or_default() {
            "" => rule.broken(text),
            path => rule.broken(format!("{text}, at `{}`", path.escaped())),
        })
    }
}

/// Validates a value, trying at most `most` parts of the schema. Returns how many are left, or the path and the message
/// of the first error.
fn ask(validator: &Validator, value: &Value, most: u64) -> Result<Result<u64, (String, String)>> {
    let (is_valid, left) = effort::with_budget(most, || validator.is_valid(value))?;
    if is_valid {
        return Ok(Ok(left));
    }
    // The validator keeps the errors of all variants until one is returned, so only few are tried.
    let found = effort::with_budget(EFFORT_TO_TELL, || validator.validate(value));
    Ok(Err(match found {
        Ok((Err(e), _)) => {
            (e.instance_path().to_string(), shorten(&e.masked().to_string()).to_owned())
        }
        _ => (String::new(), "the value does not match the schema".to_owned()),
    }))
}

/// Returns `true` if a value satisfies the standard keywords of a node of a schema with these `$defs`.
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
        Ok(effort::with_budget(most, || validator.is_valid(&wrapped))?.0)
    };
    valid().unwrap_or(false)
}

/// Returns an adapted schema of an object with these members. If `refers` is true, it includes the `$defs` that they
/// refer to.
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

/// Returns `true` if a schema contains a `$ref` anywhere.
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

/// Builds a validator for a schema in which kinds are keywords.
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
        // By the standard, formats are annotations, so only user-defined ones are checked.
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

/// A user-defined format or keyword with its value in the schema.
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

/// Returns the error for an invalid schema, with the JSON pointer of the invalid node.
#[cold]
fn invalid(e: &ValidationError<'_>, at: &Location) -> Error {
    let found = INVALID.broken(shorten(&e.masked().to_string()).to_owned());
    match at.as_str() {
        "" => found.within("the root"),
        at => found.within(format!("`{}`", at.escaped())),
    }
}

/// Returns the nodes at which a header has values; not those inside of plain nodes.
fn reachable(schema: &Schema, root: NodeId) -> BTreeSet<NodeId> {
    let mut reachable = BTreeSet::from([root]);
    for node in &schema.nodes {
        match node {
            Node::Object(object) => {
                reachable.extend(object.properties.iter().map(|p| p.node));
                if let AdditionalMembers::Node(id) = object.additional {
                    reachable.insert(id);
                }
            }
            Node::List { items, .. } => {
                reachable.insert(*items);
            }
            _ => {}
        }
    }
    reachable
}

/// The name for the schema of one record among the parts.
const RECORD: &str = "record";

/// A heap that stores only its length.
struct Counted(u64);

impl Heap for Counted {
    fn append(&mut self, bytes: &[u8], _align: u32) -> Result<u64> {
        let start = self.0;
        self.0 = start.saturating_add(bytes.len() as u64);
        Ok(start)
    }
}

/// Adapts a schema to the JSON of records: where a plain validator needs less strict keywords next to a kind, a float
/// may be `{"$float": …}`, a member with a default may be missing, and a tensor has its elements. Variants become
/// conditions. Schemas that may be tried more than once on one value are counted.
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

/// Removes members with a default from `required`.
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

/// Converts the variants of a union to conditions on its discriminator.
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

/// The keyword of a kind, which checks the JSON type of a value. The contents of structs, unions and arrays are checked
/// by their standard keywords and by the encoder.
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

/// Shortens the text of a validator, which may be as long as the value that it describes.
fn shorten(text: &str) -> &str {
    text.char_indices().nth(200).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}
