//! Metadata that the caller sets, in place of the values of a recipe or next to them.

use super::SETTING;
use super::metadata::{TYPES, single};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Attributes, Value};

/// The maximum nesting of a value that is given as JSON.
const MAX_DEPTH: usize = 4;
/// Keys that a conversion decides: they follow from the recipe and from the types of the tensors.
const MADE: [&str; 4] =
    ["general.architecture", "general.type", "general.file_type", "general.quantization_version"];
/// The first part of keys that belong to the file, not to the model.
const OF_FILE: [&str; 2] = ["split", "holdall"];
/// Keys of an architecture whose values are sizes of the tensors.
const SIZES: [&str; 10] = [
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_count",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
];
/// Keys whose lists have an item for each token.
const OF_TOKENS: [&str; 3] =
    ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"];

/// A key of the metadata with the value that the caller wants.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataSetting {
    key: String,
    given: Given,
    kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Given {
    Value(Value),
    /// A text that is read as the type of the key.
    Text(String),
}

/// A key that was set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SetKey {
    /// The key.
    pub key: String,
    /// The value that the recipe would have written, if any.
    pub old: Option<Value>,
    /// The value that is written.
    pub value: Value,
}

impl MetadataSetting {
    /// Sets `key` to `value`. Its type in GGUF is that of the key if the recipe writes it, and the usual one otherwise.
    pub fn new(key: impl Into<String>, value: Value) -> MetadataSetting {
        MetadataSetting { key: key.into(), given: Given::Value(value), kind: None }
    }

    /// Gives the value a type of GGUF, such as `u64` or `[f32]`; also `int`, `float` and `str`.
    pub fn with_type(mut self, name: impl Into<String>) -> MetadataSetting {
        self.kind = Some(name.into());
        self
    }

    /// Parses `KEY=VALUE` or `KEY=TYPE:VALUE`. Without a type, the value is read as the type of the key, or is a text.
    ///
    /// # Errors
    /// Returns [`SETTING`] if there is no key or no `=`.
    pub fn parse(text: &str) -> Result<MetadataSetting> {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let message = format!("`{}` is not KEY=VALUE", text.escaped());
            return Err(SETTING.broken(message));
        };
        let typed = value.split_once(':').filter(|(name, _)| Kind::by_name(name).is_some());
        let (kind, value) = match typed {
            Some((name, value)) => (Some(name.to_owned()), value),
            None => (None, value),
        };
        Ok(MetadataSetting { key: key.to_owned(), given: Given::Text(value.to_owned()), kind })
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Sets keys of the metadata that a recipe made. Keys that are sizes of tensors keep their values if the file has
/// tensors.
///
/// # Errors
/// Returns [`SETTING`] if a value is not of the type of its key, or contradicts the file.
pub fn set_keys(
    all: &[MetadataSetting],
    attributes: &mut Attributes,
    has_tensors: bool,
) -> Result<Vec<SetKey>> {
    let mut out: Vec<SetKey> = Vec::with_capacity(all.len());
    for setting in all {
        let key = setting.key.as_str();
        let in_context = |e: Error| e.within(format!("`{}`", key.escaped()));
        if out.iter().any(|set| set.key == key) {
            return Err(in_context(SETTING.broken("the key is set twice")));
        }
        let old = attributes.get(key).cloned();
        let (value, kind) = setting.value(old.as_ref(), kind_of(attributes, key));
        let value = value.map_err(in_context)?;
        if old.as_ref() != Some(&value) {
            check(key, old.as_ref(), &value, attributes, has_tensors).map_err(in_context)?;
        }
        set_kind(attributes, key, kind);
        attributes.set(key, value.clone());
        out.push(SetKey { key: key.to_owned(), old, value });
    }
    Ok(out)
}

/// Checks that a key may have another value than the one of the recipe.
fn check(
    key: &str,
    old: Option<&Value>,
    new: &Value,
    all: &Attributes,
    has_tensors: bool,
) -> Result<()> {
    let first = key.split('.').next().unwrap_or_default();
    if key.is_empty() || OF_FILE.contains(&first) {
        return Err(SETTING.broken("the key belongs to the file, which decides its value"));
    }
    if MADE.contains(&key) {
        let found = old.map_or("not written".to_owned(), |old| old.to_json().to_string());
        let message = format!("its value follows from the recipe and the tensors: {found}");
        return Err(SETTING.broken(message));
    }
    let architecture = all.get("general.architecture").and_then(Value::as_text);
    let own = key.split_once('.').filter(|(own, _)| Some(*own) == architecture);
    if has_tensors && own.is_some_and(|(_, rest)| SIZES.contains(&rest)) {
        let found = old.map_or("not written".to_owned(), |old| old.to_json().to_string());
        let message = format!("its value is a size of the tensors: {found}");
        return Err(SETTING.broken(message));
    }
    if let (Some(Value::Array(old)), Value::Array(new)) = (old, new)
        && OF_TOKENS.contains(&key)
        && old.len() != new.len()
    {
        let message = format!("{} items, expected {}: one for each token", new.len(), old.len());
        return Err(SETTING.broken(message));
    }
    Ok(())
}

impl MetadataSetting {
    /// Returns the value, and the name of its type if it has one.
    fn value(
        &self,
        old: Option<&Value>,
        old_kind: Option<String>,
    ) -> (Result<Value>, Option<String>) {
        let Some(name) = &self.kind else {
            let value = self.as_old(old).map(single);
            let fits = |value: &Value| {
                let kind = old_kind.as_deref().and_then(Kind::by_name);
                kind.is_none_or(|kind| kind.holds(value))
            };
            let value = value.and_then(|value| match fits(&value) {
                true => Ok(value),
                false => {
                    let (found, kind) = (value.to_json(), old_kind.as_deref().unwrap_or_default());
                    let message = format!("{} does not fit {kind}", found.escaped());
                    Err(SETTING.broken(message))
                }
            });
            return (value, old_kind);
        };
        let Some(kind) = Kind::by_name(name) else {
            let message = format!("`{}` is not a type of metadata", name.escaped());
            return (Err(SETTING.broken(message)), None);
        };
        let value = match &self.given {
            Given::Value(value) => Ok(value.clone()),
            Given::Text(text) => kind.read(text),
        };
        let value =
            value.map(|value| kind.converted(value)).and_then(|value| match kind.holds(&value) {
                true => Ok(value),
                false => {
                    let found = value.to_json();
                    Err(SETTING.broken(format!("{} is not {}", found.escaped(), name.escaped())))
                }
            });
        (value, kind.name())
    }

    /// Returns the value as the type of the old one.
    fn as_old(&self, old: Option<&Value>) -> Result<Value> {
        let kind = match old {
            None => None,
            Some(Value::Bool(_)) => Some(Kind::One(Item::Bool)),
            Some(Value::Integer(_)) => Some(Kind::One(Item::Integer(None))),
            Some(Value::Float(_)) => Some(Kind::One(Item::Float(None))),
            Some(Value::Array(items)) => Some(Kind::Array(match items.first() {
                Some(Value::Bool(_)) => Item::Bool,
                Some(Value::Integer(_)) => Item::Integer(None),
                Some(Value::Float(_)) => Item::Float(None),
                Some(Value::Text(_)) => Item::Text,
                _ => return Err(SETTING.broken("the list of the recipe has no items: give a type")),
            })),
            Some(_) => Some(Kind::One(Item::Text)),
        };
        let value = match (&self.given, kind) {
            (Given::Text(text), None) => {
                let is_other = Value::from_json(text, MAX_DEPTH).is_ok();
                return match is_other {
                    false => Ok(Value::Text(text.clone())),
                    true => Err(SETTING.broken(
                        "the recipe does not write the key: give a type, such as `int:`, `float:`, `bool:` or `str:`",
                    )),
                };
            }
            (Given::Value(value), None) => match value {
                Value::Bool(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Array(_) => return Ok(value.clone()),
                other => {
                    let found = other.to_json();
                    return Err(
                        SETTING.broken(format!("{} is no value of metadata", found.escaped()))
                    );
                }
            },
            (Given::Text(text), Some(kind)) => kind.read(text)?,
            (Given::Value(value), Some(_)) => value.clone(),
        };
        let Some(kind) = kind else { return Ok(value) };
        let value = kind.converted(value);
        match kind.holds(&value) {
            true => Ok(value),
            false => {
                let (found, old) = (value.to_json(), old.map(Value::to_json).unwrap_or_default());
                let start: String = old.chars().take(40).collect();
                Err(SETTING.broken(format!(
                    "{} is of another type than the value of the recipe, {}",
                    found.escaped(),
                    start.escaped()
                )))
            }
        }
    }
}

/// A type of values in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One(Item),
    Array(Item),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Bool,
    /// The name of the type; without one, the usual type.
    Integer(Option<&'static str>),
    Float(Option<&'static str>),
    Text,
}

impl Kind {
    fn by_name(name: &str) -> Option<Kind> {
        let list = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let of_name = |name: &str| {
            const INTEGERS: [&str; 8] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"];
            Some(match name {
                "int" => Item::Integer(None),
                "float" => Item::Float(None),
                "bool" => Item::Bool,
                "str" | "string" => Item::Text,
                "f32" => Item::Float(Some("f32")),
                "f64" => Item::Float(Some("f64")),
                other => Item::Integer(Some(*INTEGERS.iter().find(|own| **own == other)?)),
            })
        };
        match list {
            Some(name) => of_name(name).map(Kind::Array),
            None => of_name(name).map(Kind::One),
        }
    }

    /// Returns the name of the type, if it is not the usual one.
    fn name(self) -> Option<String> {
        let (item, is_list) = match self {
            Kind::One(item) => (item, false),
            Kind::Array(item) => (item, true),
        };
        match item {
            Item::Integer(Some(name)) | Item::Float(Some(name)) if is_list => {
                Some(format!("[{name}]"))
            }
            Item::Integer(Some(name)) | Item::Float(Some(name)) => Some(name.to_owned()),
            _ => None,
        }
    }

    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Kind::One(item), value) => item.holds(value),
            (Kind::Array(item), Value::Array(all)) => all.iter().all(|value| item.holds(value)),
            _ => false,
        }
    }

    /// Reads a text. Lists are JSON.
    fn read(self, text: &str) -> Result<Value> {
        let wrong = || SETTING.broken(format!("`{}` is not {}", text.escaped(), self.words()));
        match self {
            Kind::One(Item::Text) => Ok(Value::Text(text.to_owned())),
            Kind::One(Item::Bool) => text.parse().map(Value::Bool).map_err(|_| wrong()),
            Kind::One(Item::Integer(_)) => text.parse().map(Value::Integer).map_err(|_| wrong()),
            Kind::One(Item::Float(_)) => text.parse().map(Value::Float).map_err(|_| wrong()),
            Kind::Array(_) => match Value::from_json(text, MAX_DEPTH) {
                Ok(value @ Value::Array(_)) => Ok(value),
                _ => Err(wrong()),
            },
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Kind::One(Item::Bool) => "true or false",
            Kind::One(Item::Integer(_)) => "a whole number",
            Kind::One(Item::Float(_)) => "a number",
            Kind::One(Item::Text) => "a text",
            Kind::Array(_) => "a list in JSON",
        }
    }

    /// Makes floats of whole numbers where floats are expected, and rounds them to F32 unless the type is `f64`.
    fn converted(self, value: Value) -> Value {
        let (Kind::One(item) | Kind::Array(item)) = self;
        let Item::Float(name) = item else { return value };
        let float = |value: Value| match value {
            Value::Integer(n) => Value::Float(n as f64),
            other => other,
        };
        let value = match value {
            Value::Array(all) => Value::Array(all.into_iter().map(float).collect()),
            other => float(other),
        };
        if name == Some("f64") { value } else { single(value) }
    }
}

impl Item {
    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Item::Bool, Value::Bool(_)) | (Item::Text, Value::Text(_)) => true,
            (Item::Float(_), Value::Float(_)) => true,
            (Item::Integer(name), Value::Integer(n)) => {
                let (least, most) = match name {
                    Some("u8") => (0, u8::MAX.into()),
                    Some("i8") => (i8::MIN.into(), i8::MAX.into()),
                    Some("u16") => (0, u16::MAX.into()),
                    Some("i16") => (i16::MIN.into(), i16::MAX.into()),
                    Some("u32") => (0, u32::MAX.into()),
                    Some("i32") => (i32::MIN.into(), i32::MAX.into()),
                    Some("u64") => (0, u64::MAX.into()),
                    Some(_) => (i64::MIN.into(), i64::MAX.into()),
                    None => (i64::MIN.into(), u64::MAX.into()),
                };
                (least..=most).contains(n)
            }
            _ => false,
        }
    }
}

/// Returns the name of the type that a key has, if it is not the usual one.
fn kind_of(attributes: &Attributes, key: &str) -> Option<String> {
    let Some(Value::Map(pairs)) = attributes.get(TYPES) else { return None };
    let (_, name) = pairs.iter().find(|(own, _)| own.as_text() == Some(key))?;
    name.as_text().map(ToOwned::to_owned)
}

fn set_kind(attributes: &mut Attributes, key: &str, kind: Option<String>) {
    let mut pairs = match attributes.remove(TYPES) {
        Some(Value::Map(pairs)) => pairs,
        _ => Vec::new(),
    };
    pairs.retain(|(own, _)| own.as_text() != Some(key));
    if let Some(kind) = kind {
        pairs.push((Value::Text(key.to_owned()), Value::Text(kind)));
    }
    if !pairs.is_empty() {
        attributes.set(TYPES, Value::Map(pairs));
    }
}
