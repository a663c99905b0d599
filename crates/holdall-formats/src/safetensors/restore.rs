//! Data that safetensors has no field for: attributes that are not text, and tensors that share bytes. It is stored as
//! JSON text in `__metadata__`, under keys that start with `holdall.`, and restored when the file is read.

use super::METADATA_KEY;
use super::decode::component;
use crate::element::ElementType;
use crate::kept::{
    self, ATTRIBUTES, PREFIX, TENSOR_ATTRIBUTES, TensorAttributes, object, read_tensor_attributes,
};
use holdall_collections::HashMap;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, IndexBuilder, Layout, Value};
use holdall_json::{Reader, duplicate, write_string};
use std::collections::BTreeMap;
use std::ops::Range;

/// The key of `__metadata__` that lists aliases: tensors that share the bytes of another.
pub(super) const ALIASES: &str = "holdall.aliases";

const HOLDALL_KEYS: [&str; 3] = [ATTRIBUTES, TENSOR_ATTRIBUTES, ALIASES];

/// The pairs of `__metadata__` in the file's order, with unique keys.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) pairs: Vec<(String, String)>,
}

impl Metadata {
    /// Returns `true` if the metadata concerns tensors, so that it should be read before them.
    pub(super) fn needs_tensors(&self) -> bool {
        self.pairs.iter().any(|(k, _)| k == TENSOR_ATTRIBUTES || k == ALIASES)
    }
}

/// Restores the attributes and aliases that the metadata contains.
pub(super) struct Restore {
    metadata: Metadata,
    attributes: Option<Attributes>,
    tensor_attributes: Option<TensorAttributes>,
    aliases: Option<Aliases>,
    /// Keys of Holdall whose text cannot be parsed, and the reasons.
    unparsed: Vec<(&'static str, String)>,
}

/// The aliases of a file, and the tensors whose bytes they share.
struct Aliases {
    /// The name of the tensor that each alias refers to.
    pairs: BTreeMap<String, String>,
    targets: HashMap<String, Option<TargetComponent>>,
    /// An alias that also has an entry.
    clash: Option<String>,
}

struct TargetComponent {
    shape: Vec<u64>,
    element: &'static ElementType,
    stored: Range<u64>,
}

impl Restore {
    pub(super) fn new(metadata: Metadata, limits: &Limits) -> Restore {
        let depth = kept::depth(limits);
        let mut unparsed = Vec::new();
        let find = |wanted: &'static str| metadata.pairs.iter().find(|(k, _)| k == wanted);
        let mut keep = |key: &'static str, why: String| unparsed.push((key, why));
        let attributes = find(ATTRIBUTES).and_then(|(_, text)| {
            let read = Attributes::from_json(text, depth).map_err(|e| e.to_string());
            let read = read.and_then(|read| without_clash(read, &metadata));
            read.map_err(|why| keep(ATTRIBUTES, why)).ok()
        });
        let tensor_attributes = find(TENSOR_ATTRIBUTES).and_then(|(_, text)| {
            let read = read_tensor_attributes(text, depth);
            read.map_err(|e| keep(TENSOR_ATTRIBUTES, e.to_string())).ok()
        });
        let aliases = find(ALIASES)
            .and_then(|(_, text)| read_aliases(text).map_err(|why| keep(ALIASES, why)).ok());
        Restore { attributes, tensor_attributes, aliases, unparsed, metadata }
    }

    /// Records a tensor of the header, and returns its attributes.
    pub(super) fn tensor(
        &mut self,
        name: &str,
        shape: &[u64],
        element: &'static ElementType,
        stored: &Range<u64>,
    ) -> Option<Attributes> {
        if let Some(aliases) = &mut self.aliases {
            if aliases.pairs.contains_key(name) {
                aliases.clash.get_or_insert_with(|| name.to_owned());
            }
            if let Some(target) = aliases.targets.get_mut(name) {
                *target = Some(TargetComponent {
                    shape: shape.to_vec(),
                    element,
                    stored: stored.clone(),
                });
            }
        }
        self.tensor_attributes.as_mut()?.remove(name)
    }

    /// Drops the attributes of a tensor that cannot be read. Otherwise they would be reported as those of an unknown
    /// tensor.
    pub(super) fn drop_attributes(&mut self, name: &str) {
        if let Some(all) = &mut self.tensor_attributes {
            all.remove(name);
        }
    }

    /// Adds the aliases and the file's attributes, after all tensors of the header.
    pub(super) fn finish(mut self, builder: &mut IndexBuilder) -> Result<()> {
        if let Some(aliases) = self.aliases.take() {
            match aliases.inconsistency() {
                Some(why) => self.unparsed.push((ALIASES, why)),
                None => aliases.add(builder, &mut self.tensor_attributes)?,
            }
        }
        if let Some(name) = self.tensor_attributes.iter().flat_map(HashMap::keys).min() {
            let why = format!("there is no tensor `{}`", name.escaped());
            self.unparsed.push((TENSOR_ATTRIBUTES, why));
        }
        for (key, why) in &self.unparsed {
            builder.warn("safetensors/restore", None, None, || {
                format!("`{key}` in the metadata is not in the form that Holdall writes, and is kept as text: {why}")
                    .into()
            });
        }
        let mut all = Attributes::new();
        let restored = |key: &str| self.attributes.as_ref().is_some_and(|a| a.get(key).is_some());
        for (key, text) in self.metadata.pairs {
            let unparsed = self.unparsed.iter().any(|(unparsed, _)| *unparsed == key);
            if !HOLDALL_KEYS.contains(&key.as_str()) || (unparsed && !restored(&key)) {
                all.push(key, Value::Text(text));
            }
        }
        for (key, value) in self.attributes.iter().flat_map(Attributes::iter) {
            all.push(key, value.clone());
        }
        builder.attributes(all);
        Ok(())
    }
}

impl Aliases {
    /// Returns the reason why the aliases cannot be restored, if there is one.
    fn inconsistency(&self) -> Option<String> {
        if let Some(name) = &self.clash {
            return Some(format!("the alias `{}` also has an entry", name.escaped()));
        }
        let (alias, target) = self
            .pairs
            .iter()
            .find(|(_, target)| !matches!(self.targets.get(target.as_str()), Some(Some(_))))?;
        let (alias, target) = (alias.escaped(), target.escaped());
        Some(format!("`{alias}` shares the bytes of `{target}`, which is not in the header"))
    }

    /// Adds the aliases in the order of their names.
    fn add(
        self,
        builder: &mut IndexBuilder,
        attributes: &mut Option<TensorAttributes>,
    ) -> Result<()> {
        for (alias, target) in &self.pairs {
            let Some(Some(target)) = self.targets.get(target) else { continue };
            builder.tensor(alias, &target.shape, Layout::Dense)?;
            if let Some(own) = attributes.as_mut().and_then(|all| all.remove(alias)) {
                builder.tensor_attributes(own);
            }
            builder.component(component(target.element, target.stored.clone()))?;
        }
        Ok(())
    }
}

/// Returns the attributes, if none of their keys is also a plain text in the metadata.
fn without_clash(read: Attributes, metadata: &Metadata) -> Result<Attributes, String> {
    let own = read.iter().map(|(k, _)| k);
    let text = metadata.pairs.iter().map(|(k, _)| k.as_str()).filter(|k| !HOLDALL_KEYS.contains(k));
    match duplicate(own.chain(text)) {
        Some(key) => Err(format!("`{}` is also a key of the metadata itself", key.escaped())),
        None => Ok(read),
    }
}

fn read_aliases(text: &str) -> Result<Aliases, String> {
    let mut pairs = BTreeMap::new();
    let mut read = || -> Result<bool> {
        let mut reader = Reader::new(text.as_bytes(), 0, 1)?;
        let (mut key, mut value) = (String::new(), String::new());
        reader.begin_object()?;
        let mut is_unique = true;
        while let Some(alias) = reader.next_key(&mut key)? {
            let target = reader.string(&mut value)?;
            is_unique &= pairs.insert(alias.to_owned(), target.to_owned()).is_none();
        }
        reader.end()?;
        Ok(is_unique)
    };
    match read() {
        Ok(true) => {}
        Ok(false) => return Err("duplicate alias".to_owned()),
        Err(e) => return Err(e.to_string()),
    }
    let targets = pairs.values().map(|target: &String| (target.clone(), None)).collect();
    Ok(Aliases { pairs, targets, clash: None })
}

/// The metadata of a file to be written.
pub(super) struct WrittenMetadata<'a> {
    /// The attributes of the file that are plain text.
    text: BTreeMap<&'a str, &'a str>,
    /// All other attributes of the file.
    attributes: BTreeMap<&'a str, &'a Value>,
    pub(super) tensor_attributes: BTreeMap<&'a str, &'a Attributes>,
    pub(super) aliases: BTreeMap<&'a str, &'a str>,
}

impl<'a> WrittenMetadata<'a> {
    /// Creates the metadata with the attributes of the file. Those of tensors and the aliases are added later.
    pub(super) fn new(attributes: &'a Attributes) -> WrittenMetadata<'a> {
        let mut metadata = WrittenMetadata {
            text: BTreeMap::new(),
            attributes: BTreeMap::new(),
            tensor_attributes: BTreeMap::new(),
            aliases: BTreeMap::new(),
        };
        for (key, value) in attributes.iter() {
            match value {
                Value::Text(text) if !key.starts_with(PREFIX) => {
                    metadata.text.insert(key, text);
                }
                _ => {
                    metadata.attributes.insert(key, value);
                }
            }
        }
        metadata
    }

    /// Appends `"__metadata__":{…}` with sorted keys, unless it would be empty.
    pub(super) fn write(&self, out: &mut String) {
        let attributes = object(self.attributes.iter().map(|(k, v)| (*k, *v)), |value, out| {
            value.write_json(out)
        });
        let tensor_attributes =
            object(self.tensor_attributes.iter().map(|(k, v)| (*k, *v)), |own, out| {
                out.push_str(&own.to_json())
            });
        let aliases = object(self.aliases.iter().map(|(k, v)| (*k, *v)), |target, out| {
            write_string(target, out)
        });
        let mut all: BTreeMap<&str, &str> = self.text.clone();
        let ours = [
            (ATTRIBUTES, &attributes),
            (TENSOR_ATTRIBUTES, &tensor_attributes),
            (ALIASES, &aliases),
        ];
        all.extend(ours.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?))));
        if let Some(metadata) = object(all.iter().map(|(k, v)| (*k, *v)), write_string) {
            write_string(METADATA_KEY, out);
            out.push(':');
            out.push_str(&metadata);
        }
    }
}
