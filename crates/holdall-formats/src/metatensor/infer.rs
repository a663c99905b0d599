//! Infers a schema from tensors: one that gives each tensor's dtype and shape, and the schemas of datasets and blobs.

use super::TENSOR_SCHEMA_ATTRIBUTE;
use super::rules::{KIND, LAYOUT};
use super::tree::{self, Tree};
use crate::element::by_meaning;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashMap;
use holdall_core::encode::TensorSpec;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Layout, Value};
use holdall_json::{parse, write_string};
use holdall_schema::{OrderedJson, TensorDType, def_name, reference};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// The maximum alignment of a type without `align`, in bytes. It is the minimum alignment of a struct.
const MAX_NATURAL_ALIGN: u64 = 16;

/// Returns the JSON text of the schema that is written for these tensors if the file's attributes contain no schema.
/// It has objects according to the paths in names, and the dtype and shape of each tensor. Schemas that occur more than
/// once are under `$defs` if this is shorter. Tensors and records are aligned to multiples of `align`.
///
/// # Errors
/// Returns `metatensor/…` for tensors that Metatensor cannot hold.
pub fn infer(tensors: &[TensorSpec], align: Option<u64>) -> Result<String> {
    let leaves = Leaves::from_tensors(tensors, align)?;
    let names: Vec<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
    let named = tree::build(&names, &[], Some(&|a, b| leaves.are_alike(a, b)))?;
    Ok(leaves.schema(&named.tree))
}

/// The schemas of all tensors.
pub(super) struct Leaves {
    /// The distinct schemas, as text.
    texts: Vec<String>,
    /// The index in `texts` of each tensor's schema.
    leaf_ids: Vec<usize>,
    /// The `$defs` that the schemas refer to.
    defs: Defs,
}

/// The `$defs` that the schemas of records and blobs refer to.
#[derive(Default)]
struct Defs {
    by_name: BTreeMap<String, Json>,
    /// The names and texts, in the order in which they were added.
    texts: Vec<(String, String)>,
}

impl Defs {
    fn add(&mut self, name: String, def: Json, text: String) {
        if self.by_name.insert(name.clone(), def).is_none() {
            self.texts.push((name, text));
        }
    }
}

impl Leaves {
    /// Collects the schemas of tensors. Tensors and records are aligned to multiples of `align`.
    ///
    /// # Errors
    /// Returns [`LAYOUT`], [`KIND`] or `metatensor/logical-type` if a tensor has no schema.
    pub(super) fn from_tensors(tensors: &[TensorSpec], align: Option<u64>) -> Result<Leaves> {
        let mut leaves = Leaves { texts: Vec::new(), leaf_ids: Vec::new(), defs: Defs::default() };
        let mut known: HashMap<String, usize> = HashMap::default();
        // The schemas of records and blobs so far, without `$defs`, by their text.
        let mut without_defs: HashMap<&str, String> = HashMap::default();
        for tensor in tensors {
            let text = match &tensor.layout {
                Layout::Dense => dense(tensor, align)?,
                Layout::Records | Layout::Blob => {
                    let kind = schema_text_of(tensor)?;
                    let own = match without_defs.get(kind) {
                        Some(own) => own.clone(),
                        None => {
                            let own = leaves.take_defs(kind).map_err(|e| named(e, tensor))?;
                            without_defs.insert(kind, own.clone());
                            own
                        }
                    };
                    if tensor.layout == Layout::Blob { own } else { dataset(&own, align) }
                }
                other => {
                    let message = format!("it has the layout `{}`", other.as_str().escaped());
                    return Err(named(LAYOUT.broken(message), tensor));
                }
            };
            let next = leaves.texts.len();
            let number = *known.entry(text).or_insert_with_key(|text| {
                leaves.texts.push(text.clone());
                next
            });
            leaves.leaf_ids.push(number);
        }
        Ok(leaves)
    }

    /// Returns `true` if two tensors have the same schema.
    pub(super) fn are_alike(&self, a: usize, b: usize) -> bool {
        self.leaf_ids.get(a) == self.leaf_ids.get(b)
    }

    /// Moves the `$defs` of a record's or blob's schema to those of all schemas, under other names if theirs are taken.
    /// Returns the text of the schema without them.
    fn take_defs(&mut self, text: &str) -> Result<String> {
        let depth = Limits::default().depth;
        let (mut kind, author) = (parse(text.as_bytes(), depth)?, OrderedJson::read(text, depth)?);
        let own = match kind.as_object_mut().and_then(|k| k.remove("$defs")) {
            Some(Json::Object(own)) => own,
            _ => return Ok(author.text_of(&kind)),
        };
        let is_free =
            |name: &str, def: &Json| self.defs.by_name.get(name).is_none_or(|other| other == def);
        let is_free = own.iter().all(|(name, def)| is_free(name, def));
        // If a name is taken by a different definition, all of these definitions are renamed.
        let renamed = |number: u64, name: &str| format!("{name}#{number}");
        let is_taken =
            |n: &u64| own.keys().any(|k| self.defs.by_name.contains_key(&renamed(*n, k)));
        let number = match is_free {
            true => None,
            false => (2..).find(|n| !is_taken(n)),
        };
        let new_name = |name: &str| number.map_or(name.to_owned(), |n| renamed(n, name));
        if number.is_some() {
            rename(&mut kind, &own, &new_name);
        }
        for (name, author) in author.member("$defs").into_iter().flat_map(OrderedJson::members) {
            let Some(mut def) = own.get(name).cloned() else { continue };
            if number.is_some() {
                rename(&mut def, &own, &new_name);
            }
            let text = author.text_of(&def);
            self.defs.add(new_name(name), def, text);
        }
        Ok(author.text_of(&kind))
    }

    /// Returns the schema of a whole tree.
    pub(super) fn schema(&self, tree: &Tree) -> String {
        let mut shared = Shared::default();
        let root = shared.add(tree, &self.leaf_ids);
        let Some(root) = root else {
            // Without tensors, the schema says only that members are tensors.
            let any = "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"TypeDef:Tensor\":{}}}";
            return any.to_owned();
        };
        shared.write(root, &self.texts, &self.defs)
    }
}

/// Returns the schema of records or a blob, the text of an attribute.
pub(super) fn schema_text_of(tensor: &TensorSpec) -> Result<&str> {
    match tensor.attributes.get(TENSOR_SCHEMA_ATTRIBUTE) {
        Some(Value::Text(kind)) => Ok(kind),
        _ => {
            let message = format!("it has no text attribute `{TENSOR_SCHEMA_ATTRIBUTE}`");
            Err(named(KIND.broken(message), tensor))
        }
    }
}

fn named(e: Error, tensor: &TensorSpec) -> Error {
    e.in_tensor(tensor.name.as_str())
}

fn dense(tensor: &TensorSpec, align: Option<u64>) -> Result<String> {
    let data = tensor.components.first();
    let element = data.and_then(|c| by_meaning(c.dtype, c.logical_type.as_ref()));
    let Some(element) = element else {
        let message = "the format has no name for its element type";
        return Err(named(super::rules::LOGICAL_TYPE.broken(message), tensor));
    };
    let dims: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let natural = u64::from(TensorDType::align(element.named));
    let align = align.filter(|a| *a > natural);
    let align = align.map_or(String::new(), |a| format!(",\"align\":{a}"));
    let (dtype, shape) = (element.name, dims.join(","));
    Ok(format!(
        "{{\"type\":\"object\",\"TypeDef:Tensor\":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}]}}{align}}}"
    ))
}

fn dataset(kind: &str, align: Option<u64>) -> String {
    let align = align.filter(|a| *a > MAX_NATURAL_ALIGN);
    let align = align.map_or(String::new(), |a| format!(",\"align\":{a}"));
    format!("{{\"type\":\"array\",\"items\":{kind},\"TypeDef:Array\":true{align}}}")
}

/// Renames references to some of the `$defs`.
fn rename(node: &mut Json, own: &Map<String, Json>, to: &dyn Fn(&str) -> String) {
    match node {
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, own, to)),
        Json::Object(keywords) => {
            let name = keywords.get("$ref").and_then(Json::as_str).and_then(def_name);
            if let Some(name) = name.filter(|name| own.contains_key(name)) {
                keywords.insert("$ref".to_owned(), Json::String(reference(&to(&name))));
            }
            keywords.values_mut().for_each(|value| rename(value, own, to));
        }
        _ => {}
    }
}

/// The distinct nodes of a tree, children before parents.
#[derive(Default)]
struct Shared {
    known: HashMap<Rc<InferredNode>, usize>,
    nodes: Vec<Rc<InferredNode>>,
    /// The number of times that each node is a child of another.
    uses: Vec<u64>,
}

/// A node of the tree of schemas. Children are given by their indices in [`Shared::nodes`].
#[derive(PartialEq, Eq, Hash)]
enum InferredNode {
    /// A tensor, with the index of its schema in [`Leaves::texts`].
    Leaf(usize),
    Object(Vec<(String, usize)>),
    /// A list of this node, with this length.
    List(usize, usize),
}

impl Shared {
    /// Adds the node that describes a tree, and returns its index; `None` if the tree has no tensors. The recursion is
    /// bounded by the depth of names.
    fn add(&mut self, tree: &Tree, leaf_ids: &[usize]) -> Option<usize> {
        let node = match tree {
            Tree::Value(_) => return None,
            Tree::Tensor(number) => InferredNode::Leaf(leaf_ids.get(*number).copied()?),
            Tree::List(items) => {
                let first = self.add(items.first()?, leaf_ids)?;
                InferredNode::List(first, items.len())
            }
            Tree::Object(members) => {
                let of_member = |(key, member): &(String, Tree)| {
                    Some((key.clone(), self.add(member, leaf_ids)?))
                };
                let members: Vec<_> = members.iter().filter_map(of_member).collect();
                if members.is_empty() {
                    return None;
                }
                InferredNode::Object(members)
            }
        };
        if let Some(&number) = self.known.get(&node) {
            return Some(number);
        }
        let number = self.nodes.len();
        match &node {
            InferredNode::Leaf(_) => {}
            InferredNode::List(item, _) => self.use_once(*item),
            InferredNode::Object(members) => members.iter().for_each(|(_, m)| self.use_once(*m)),
        }
        let node = Rc::new(node);
        self.known.insert(Rc::clone(&node), number);
        self.nodes.push(node);
        self.uses.push(0);
        Some(number)
    }

    fn use_once(&mut self, number: usize) {
        if let Some(uses) = self.uses.get_mut(number) {
            *uses = uses.saturating_add(1);
        }
    }

    /// Returns the text of the schema whose root is the node with this index.
    fn write(&self, root: usize, leaves: &[String], defs: &Defs) -> String {
        // The text for each node where it is used: its schema, or a reference if its schema is under `$defs`.
        let mut texts: Vec<String> = Vec::with_capacity(self.nodes.len());
        let mut all = String::new();
        let mut define = |name: &str, text: &str| {
            all.push_str(if all.is_empty() { "" } else { "," });
            write_string(name, &mut all);
            all.push(':');
            all.push_str(text);
        };
        for (name, text) in &defs.texts {
            define(name, text);
        }
        let mut numbers = (1u64..).map(|n| n.to_string()).filter(|n| !defs.by_name.contains_key(n));
        let mut name = numbers.next().unwrap_or_default();
        for (number, node) in self.nodes.iter().enumerate() {
            let text = node_text(node, &texts, leaves);
            let uses = self.uses.get(number).copied().debug_unwrap();
            let short = format!("{{\"$ref\":\"#/$defs/{name}\"}}");
            let len = |text: &str| text.len() as u64;
            let once = len(&text).saturating_add(len(&name)).saturating_add(4);
            let shared = uses.saturating_mul(len(&short)).saturating_add(once);
            if uses > 1 && number != root && shared < uses.saturating_mul(len(&text)) {
                define(&name, &text);
                texts.push(short);
                name = numbers.next().unwrap_or_default();
            } else {
                texts.push(text);
            }
        }
        let text = texts.swap_remove(root);
        if all.is_empty() {
            return text;
        }
        let rest = text.strip_prefix('{').unwrap_or_default();
        format!("{{\"$defs\":{{{all}}},{rest}")
    }
}

fn node_text(node: &InferredNode, texts: &[String], leaves: &[String]) -> String {
    let text = |number: &usize| texts.get(*number).map_or("", String::as_str);
    match node {
        InferredNode::Leaf(leaf) => leaves.get(*leaf).cloned().debug_unwrap(),
        InferredNode::List(item, len) => {
            let item = text(item);
            format!("{{\"type\":\"array\",\"items\":{item},\"minItems\":{len},\"maxItems\":{len}}}")
        }
        InferredNode::Object(members) => {
            let mut out = String::from("{\"type\":\"object\",\"properties\":{");
            let mut names = String::new();
            for (at, (key, member)) in members.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                out.push_str(comma);
                names.push_str(comma);
                write_string(key, &mut out);
                write_string(key, &mut names);
                let _ = write!(out, ":{}", text(member));
            }
            let _ = write!(out, "}},\"required\":[{names}]}}");
            out
        }
    }
}
