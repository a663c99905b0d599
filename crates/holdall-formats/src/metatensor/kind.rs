//! The attribute with the schema of records and blobs: section 7.2.

use super::TENSOR_SCHEMA_ATTRIBUTE;
use super::rules::HEADER_LIMIT;
use holdall_collections::HashMap;
use holdall_core::error::Result;
use holdall_core::model::{Attributes, IndexBuilder, Value};
use holdall_schema::{Node, NodeId, OrderedJson, Schema, Symbols, self_contained};
use serde_json::Value as Json;

/// Creates the attribute of each node of a schema, once for each node.
pub(super) struct Kinds<'s> {
    schema: &'s Json,
    /// The schema's text, and its parsed form once it was needed.
    author: (&'s str, Option<OrderedJson<'s>>),
    symbols: &'s Symbols,
    texts: HashMap<NodeId, Known>,
    /// The number of bytes that may still be written.
    room: u64,
    most: u64,
}

struct Known {
    text: String,
    /// A tensor whose only attribute is this one.
    tensor: Option<usize>,
}

impl<'s> Kinds<'s> {
    /// Creates kinds for the nodes of `schema`. `symbols` has the values of its symbols; `most` is the maximum number
    /// of bytes in all.
    pub(super) fn new(
        schema: &'s Json,
        text: &'s str,
        symbols: &'s Symbols,
        most: u64,
    ) -> Kinds<'s> {
        Kinds { schema, author: (text, None), symbols, texts: HashMap::default(), room: most, most }
    }

    /// Sets the attributes of tensor number `tensor`, which was added last: its own attributes and its kind.
    pub(super) fn attach(
        &mut self,
        compiled: &Schema,
        id: NodeId,
        tensor: usize,
        own: Option<Attributes>,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        if !self.texts.contains_key(&id) {
            let text = self.text(compiled.node(id))?;
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
        all.set(TENSOR_SCHEMA_ATTRIBUTE, Value::Text(text));
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

    /// Returns the self-contained schema of a record, or of a blob's node.
    fn text(&mut self, node: &Node) -> Result<String> {
        let pointer = match node {
            Node::Dataset { pointer, .. } => format!("{pointer}/items"),
            Node::Blob { pointer, .. } => pointer.clone(),
            _ => return Ok(String::new()),
        };
        let defs = self.schema.get("$defs").and_then(Json::as_object);
        let found = self.schema.pointer(&pointer).cloned();
        let mut kind = self_contained(found.unwrap_or_default(), defs);
        if !self.symbols.is_empty() {
            self.resolve_symbols(&mut kind);
        }
        let author = match self.author.1.take() {
            Some(author) => author,
            // Its nesting was checked before.
            None => OrderedJson::read(self.author.0, usize::MAX)?,
        };
        Ok(self.author.1.insert(author).part_text(&kind, &pointer))
    }

    /// Replaces symbols by their values. The depth of the text was limited when it was parsed, which bounds the
    /// recursion.
    fn resolve_symbols(&self, node: &mut Json) {
        match node {
            Json::Array(items) => items.iter_mut().for_each(|item| self.resolve_symbols(item)),
            Json::Object(keywords) => {
                let tensor = keywords.get_mut("TypeDef:Tensor").and_then(|t| t.get_mut("shape"));
                for dim in tensor.and_then(Json::as_array_mut).into_iter().flatten() {
                    let number = dim.as_str().and_then(|symbol| self.symbols.get(symbol));
                    if let Some(number) = number {
                        *dim = (*number).into();
                    }
                }
                keywords.values_mut().for_each(|value| self.resolve_symbols(value));
            }
            _ => {}
        }
    }
}
