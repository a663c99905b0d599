//! Finds the alignment of tensors to be written, and checks them against a schema.

use super::ENTRY_ALIGN;
use super::rules::SCHEMA_FIT;
use super::tree::Tree;
use super::walk::heap_align;
use holdall_core::encode::TensorSpec;
use holdall_core::error::{Error, Result};
use holdall_core::model::{Layout, Role};
use holdall_schema::{AdditionalMembers, Node, NodeId, Schema, TensorDType};
use serde_json::Value as Json;

/// The alignment of the components of each tensor, in bytes.
pub(super) struct Aligns {
    all: Vec<ComponentAligns>,
}

#[derive(Clone, Copy)]
struct ComponentAligns {
    /// The alignment of `data` or `entries`.
    first: u64,
    /// The alignment of `blob_data`.
    heap: u64,
}

impl Aligns {
    /// Finds the schema node of each tensor of `tree`.
    ///
    /// # Errors
    /// Returns [`SCHEMA_FIT`] if a tensor does not fit the schema.
    pub(super) fn from_tree(
        tree: &Tree,
        schema: &Schema,
        root: NodeId,
        tensors: &[TensorSpec],
    ) -> Result<Aligns> {
        let mut aligns = Aligns { all: vec![ComponentAligns { first: 1, heap: 1 }; tensors.len()] };
        aligns.node(tree, schema, Some(root), tensors)?;
        Ok(aligns)
    }

    /// Returns the alignment of a component of tensor number `tensor`.
    pub(super) fn component(&self, tensor: usize, role: &Role) -> u64 {
        let aligns = self.all.get(tensor).copied().unwrap_or(ComponentAligns { first: 1, heap: 1 });
        if *role == Role::BlobData { aligns.heap } else { aligns.first }
    }

    fn node(
        &mut self,
        tree: &Tree,
        schema: &Schema,
        at: Option<NodeId>,
        tensors: &[TensorSpec],
    ) -> Result<()> {
        let node = at.map(|id| schema.node(id));
        match tree {
            Tree::Value(_) => Ok(()),
            Tree::Object(members) => members.iter().try_for_each(|(key, member)| {
                let below = match node {
                    Some(Node::Object(object)) => match (object.property(key), object.additional) {
                        (Some(property), _) => Some(property.node),
                        (None, AdditionalMembers::Node(id)) => Some(id),
                        (None, _) => None,
                    },
                    _ => None,
                };
                self.node(member, schema, below, tensors)
            }),
            Tree::List(items) => {
                let below = match node {
                    Some(Node::List { items, .. }) => Some(*items),
                    _ => None,
                };
                items.iter().try_for_each(|item| self.node(item, schema, below, tensors))
            }
            Tree::Tensor(number) => {
                let Some(tensor) = tensors.get(*number) else { return Ok(()) };
                let found = match (node, &tensor.layout) {
                    (Some(Node::Flat { align, .. }), Layout::Dense) => {
                        let natural = || natural_align(tensor);
                        let first = align.map_or_else(natural, u64::from);
                        Some(ComponentAligns { first, heap: 1 })
                    }
                    (Some(Node::Dataset { items, align, .. }), Layout::Records) => {
                        let heap = u64::from(schema.ty(*items).heap_align.unwrap_or(1));
                        Some(ComponentAligns { first: u64::from(*align), heap })
                    }
                    (Some(Node::Blob { content, .. }), Layout::Blob) => {
                        Some(ComponentAligns { first: ENTRY_ALIGN, heap: heap_align(content) })
                    }
                    _ => None,
                };
                let found = found.ok_or_else(|| misfit(tensor))?;
                if let Some(slot) = self.all.get_mut(*number) {
                    *slot = found;
                }
                Ok(())
            }
        }
    }
}

#[cold]
fn misfit(tensor: &TensorSpec) -> Error {
    let layout = tensor.layout.as_str();
    let message =
        format!("the schema has no node for a tensor of this name with the layout `{layout}`");
    SCHEMA_FIT.broken(message).in_tensor(tensor.name.as_str())
}

fn natural_align(tensor: &TensorSpec) -> u64 {
    let data = tensor.components.first();
    let element = data.and_then(|c| crate::element::by_meaning(c.dtype, c.logical_type.as_ref()));
    element.map_or(1, |e| u64::from(e.named.align()))
}

/// Raises the alignment of the tensors and datasets of a schema to at least `align`.
pub(super) fn raise(schema: &mut Json, align: u64) {
    let mut open = vec![String::new()];
    let mut seen = holdall_collections::HashSet::default();
    while let Some(pointer) = open.pop() {
        let Some(Json::Object(node)) = schema.pointer_mut(&pointer) else { continue };
        let below = |keyword: &str| format!("{pointer}/{keyword}");
        if let Some(target) = node.get("$ref").and_then(Json::as_str) {
            if let Some(name) = holdall_schema::def_name(target)
                && seen.insert(name.clone())
            {
                open.push(format!("/$defs/{}", escaped(&name)));
            }
            continue;
        }
        let tensor = node.get("TypeDef:Tensor").map(|t| {
            let dtype = t.get("dtype").and_then(Json::as_str).and_then(TensorDType::from_name);
            dtype.map_or(1, |d| u64::from(d.align()))
        });
        // The maximum alignment of records without `align` is 16, that of structs and of 16-byte elements.
        let natural = tensor.or_else(|| node.get("TypeDef:Array").map(|_| 16));
        if let Some(natural) = natural {
            let own = node.get("align").and_then(Json::as_u64).unwrap_or(natural);
            if align > own {
                node.insert("align".to_owned(), align.into());
            }
            continue;
        }
        if node.contains_key("TypeDef:Blob") {
            continue;
        }
        if let Some(Json::Object(properties)) = node.get("properties") {
            open.extend(properties.keys().map(|k| below(&format!("properties/{}", escaped(k)))));
        }
        open.extend(["additionalProperties", "items"].map(below));
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
