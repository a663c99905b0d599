//! The attribute that says what records and blobs are: section 7.2.

use super::KIND_ATTRIBUTE;
use super::rules::HEADER_LIMIT;
use holdall_collections::HashMap;
use holdall_core::error::Result;
use holdall_core::model::{Attributes, IndexBuilder, Value};
use holdall_schema::{Node, NodeId, Schema, Symbols, def_name};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Makes the attribute for each node of a schema, once.
pub(super) struct Kinds<'s> {
    schema: &'s Json,
    symbols: &'s Symbols,
    texts: HashMap<NodeId, Known>,
    /// Bytes that may still be written.
    room: u64,
    most: u64,
}

struct Known {
    text: String,
    /// A tensor that has this attribute and no other.
    tensor: Option<usize>,
}

impl<'s> Kinds<'s> {
    /// For nodes of `schema`, in which symbols stand for these numbers; `most` bytes in all.
    pub(super) fn new(schema: &'s Json, symbols: &'s Symbols, most: u64) -> Kinds<'s> {
        Kinds { schema, symbols, texts: HashMap::default(), room: most, most }
    }

    /// Gives the tensor added last, number `tensor`, its attributes: its own and its kind.
    pub(super) fn attach(
        &mut self,
        compiled: &Schema,
        id: NodeId,
        tensor: usize,
        own: Option<Attributes>,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        if !self.texts.contains_key(&id) {
            let text = self.text(compiled.node(id));
            self.take_room(text.len())?;
            self.texts.insert(id, Known { text, tensor: None });
        }
        let Some(known) = self.texts.get(&id) else { return Ok(()) };
        if let (None, Some(first)) = (&own, known.tensor) {
            builder.same_attributes(first);
            return Ok(());
        }
        let text = known.text.clone();
        let is_plain = own.is_none();
        if !is_plain {
            self.take_room(text.len())?;
        }
        let mut all = own.unwrap_or_default();
        all.set(KIND_ATTRIBUTE, Value::Text(text));
        builder.tensor_attributes(all);
        if is_plain && let Some(known) = self.texts.get_mut(&id) {
            known.tensor = Some(tensor);
        }
        Ok(())
    }

    fn take_room(&mut self, len: usize) -> Result<()> {
        match self.room.checked_sub(len as u64) {
            Some(left) => {
                self.room = left;
                Ok(())
            }
            None => {
                let message =
                    format!("the kinds of its tensors take more than {} bytes", self.most);
                Err(HEADER_LIMIT.broken(message))
            }
        }
    }

    /// The schema of a record, or of a blob's node, that needs nothing around it.
    fn text(&self, node: &Node) -> String {
        let (pointer, keyword) = match node {
            Node::Dataset { pointer, .. } => (pointer, Some("items")),
            Node::Blob { pointer, .. } => (pointer, None),
            _ => return String::new(),
        };
        let found = self.schema.pointer(pointer);
        let found = keyword.map_or(found, |keyword| found.and_then(|n| n.get(keyword)));
        let mut kind = found.cloned().unwrap_or_default();
        if let Json::Object(keywords) = &mut kind {
            keywords.remove("$defs");
        }
        let defs = self.schema.get("$defs").and_then(Json::as_object);
        let mut needed: BTreeMap<String, Json> = BTreeMap::new();
        let mut open = Vec::new();
        self.settle(&mut kind, &mut open);
        while let Some(name) = open.pop() {
            let Some(def) = defs.and_then(|d| d.get(&name)) else { continue };
            if let Entry::Vacant(slot) = needed.entry(name) {
                let mut def = def.clone();
                self.settle(&mut def, &mut open);
                slot.insert(def);
            }
        }
        if let (Json::Object(keywords), false) = (&mut kind, needed.is_empty()) {
            keywords.insert("$defs".to_owned(), Json::Object(needed.into_iter().collect()));
        }
        kind.to_string()
    }

    /// Puts numbers in the place of symbols, and notes the names of `$defs` that are referred to. The
    /// text was parsed under a limit that bounds the recursion.
    fn settle(&self, node: &mut Json, refs: &mut Vec<String>) {
        match node {
            Json::Array(items) => items.iter_mut().for_each(|item| self.settle(item, refs)),
            Json::Object(keywords) => {
                if let Some(name) = keywords.get("$ref").and_then(Json::as_str).and_then(def_name) {
                    refs.push(name);
                }
                let tensor = keywords.get_mut("TypeDef:Tensor").and_then(|t| t.get_mut("shape"));
                for dim in tensor.and_then(Json::as_array_mut).into_iter().flatten() {
                    let number = dim.as_str().and_then(|symbol| self.symbols.get(symbol));
                    if let Some(number) = number {
                        *dim = (*number).into();
                    }
                }
                keywords.values_mut().for_each(|value| self.settle(value, refs));
            }
            _ => {}
        }
    }
}
