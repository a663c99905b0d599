//! Metadata that the caller sets, in place of the values of a recipe or next to them.

use super::SETTING;
use super::metadata::{TYPES, single};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{Attributes, Value};

/// The maximum nesting of a value that is given as JSON.
const MAX_DEPTH: usize = 4;
/// Keys that a conversion decides: they follow from the recipe and from the types of the tensors.
const MADE: [&str; 5] = [
    "general.architecture",
    "general.type",
    "general.file_type",
    "general.quantization_version",
    "adapter.type",
];
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
        let (value, kind) =
            setting.value(old.as_ref(), kind_of(attributes, key)).map_err(in_context)?;
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
    /// Returns the value, and the name of its type if it is not the usual one for the value.
    fn value(
        &self,
        old: Option<&Value>,
        old_kind: Option<Kind>,
    ) -> Result<(Value, Option<String>)> {
        let given = match &self.kind {
            None => None,
            Some(name) => Some(Kind::by_name(name).ok_or_else(|| {
                SETTING.broken(format!("`{}` is not a type of metadata", name.escaped()))
            })?),
        };
        let own = old_kind.or_else(|| usual(old?));
        if let (Some(given), Some(own)) = (given, own)
            && !given.includes(own)
        {
            let (given, own) = (given.full_name(), own.full_name());
            let message = format!("{given} is not the type of the key, which is {own}");
            return Err(SETTING.broken(message));
        }
        let Some(kind) = own.or(given) else { return self.untyped(old).map(|value| (value, None)) };
        let value = match &self.given {
            Given::Value(value) => value.clone(),
            Given::Text(text) => kind.read(text)?,
        };
        let value = kind.converted(value);
        if !kind.holds(&value) {
            let (found, name) = (value.to_json(), kind.full_name());
            let found = found.escaped();
            return Err(SETTING.broken(match old {
                None => format!("{found} is not {name}"),
                Some(_) => format!("{found} is not of the type of the key, {name}"),
            }));
        }
        let name = kind.name().filter(|_| usual(&value) != Some(kind));
        Ok((value, name))
    }

    /// Returns the value of a key that has no type.
    fn untyped(&self, old: Option<&Value>) -> Result<Value> {
        if old.is_some() {
            return Err(SETTING.broken("the list of the recipe has no items: give a type"));
        }
        match &self.given {
            Given::Text(text) if Value::from_json(text, MAX_DEPTH).is_ok() => Err(SETTING.broken(
                "the recipe does not write the key: give a type, such as `int:`, `float:`, `bool:` or `str:`",
            )),
            Given::Text(text) => match text.split_once(':') {
                Some((name, rest)) if looks_like_type(name, rest) => {
                    let name = name.escaped();
                    let message = format!(
                        "`{name}` is not a type of metadata; with `str:` before it, the value is a text"
                    );
                    Err(SETTING.broken(message))
                }
                _ => Ok(Value::Text(text.clone())),
            },
            Given::Value(
                value @ (Value::Bool(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Array(_)),
            ) => Ok(single(value.clone())),
            Given::Value(other) => {
                let found = other.to_json();
                Err(SETTING.broken(format!("{} is no value of metadata", found.escaped())))
            }
        }
    }
}

/// Returns `true` if a text before a colon is meant as a type: a short word, and not the start of an address.
fn looks_like_type(name: &str, rest: &str) -> bool {
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_word = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    is_word && (1..=8).contains(&name.len()) && !rest.starts_with("//") && !rest.starts_with(' ')
}

/// Returns the type that GGUF gives a value of which nothing else is known: the first of a few types that can hold it.
pub(super) fn usual(value: &Value) -> Option<Kind> {
    let first = |items: &[&Value], integers: [&'static str; 4]| {
        let integers = integers.map(|name| Item::Integer(Some(name)));
        let all = [Item::Bool].into_iter().chain(integers);
        let mut all = all.chain([Item::Float(Some("f32")), Item::Float(Some("f64")), Item::Text]);
        all.find(|item| items.iter().all(|value| item.holds(value)))
    };
    match value {
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items: Vec<&Value> = items.iter().collect();
            first(&items, ["i32", "u32", "i64", "u64"]).map(Kind::Array)
        }
        one => first(&[one], ["u32", "i32", "u64", "i64"]).map(Kind::One),
    }
}

/// A type of values in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    One(Item),
    Array(Item),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Bool,
    /// The name of the type; without one, the usual type.
    Integer(Option<&'static str>),
    Float(Option<&'static str>),
    Text,
}

impl Kind {
    pub(super) fn by_name(name: &str) -> Option<Kind> {
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

    /// Returns `true` if the other type is this one, or one of those that it accepts.
    fn includes(self, other: Kind) -> bool {
        let of_item = |own: Item, other: Item| match (own, other) {
            (Item::Integer(None), Item::Integer(_)) | (Item::Float(None), Item::Float(_)) => true,
            (own, other) => own == other,
        };
        match (self, other) {
            (Kind::One(own), Kind::One(other)) | (Kind::Array(own), Kind::Array(other)) => {
                of_item(own, other)
            }
            _ => false,
        }
    }

    fn full_name(self) -> String {
        let of_item = |item: Item| match item {
            Item::Bool => "bool",
            Item::Integer(name) => name.unwrap_or("int"),
            Item::Float(name) => name.unwrap_or("float"),
            Item::Text => "str",
        };
        match self {
            Kind::One(item) => of_item(item).to_owned(),
            Kind::Array(item) => format!("[{}]", of_item(item)),
        }
    }

    /// Returns the name of the type, if it does not follow from the kind of value.
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
            #[allow(clippy::cast_possible_truncation)] // It is compared with what was rounded.
            (Item::Float(Some("f32")), Value::Float(x)) => {
                x.is_nan() || f64::from(*x as f32).to_bits() == x.to_bits()
            }
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

/// Returns the type that a key has, if it is not the usual one.
fn kind_of(attributes: &Attributes, key: &str) -> Option<Kind> {
    let Some(Value::Map(pairs)) = attributes.get(TYPES) else { return None };
    let (_, name) = pairs.iter().find(|(own, _)| own.as_text() == Some(key))?;
    name.as_text().and_then(Kind::by_name)
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
