//! Finds the references of a schema (sections 6.1 and 6.2).

use super::read::{self, Keywords, SchemaPath};
use super::types::sorted_by;
use super::{Compiler, Found, Leads};
use crate::error::{Escape as _, Result};
use crate::kinds::Align;
use crate::refs::children;
use crate::rules::{CYCLE, REFERENCE_KEYWORD};
use crate::schema::{AdditionalMembers, Node, NodeId, Object, Presence, Property};
use serde_json::Value;
use std::sync::Arc;

/// The keywords that a node on the path to references may have (6.2).
const ON_THE_WAY: [&str; 17] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "$defs",
    "$ref",
    "$schema",
    "$id",
    "title",
    "description",
    "$comment",
    "default",
    "examples",
    "deprecated",
];

impl<'v> Compiler<'v> {
    /// Compiles a node and everything below it.
    pub(super) fn node(
        &mut self,
        node: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<NodeId> {
        let found = self.defs.resolve(node).map_err(|e| at.locate(e))?;
        let Some(name) = &found.name else { return self.own_node(found.node, at, depth) };
        let root = SchemaPath::root();
        let at = &SchemaPath::def(&root, name);
        let address = std::ptr::from_ref(found.node).addr();
        match self.known_nodes.get_mut(&address) {
            Some(Found::Done(id)) => {
                let id = *id;
                self.check_depth(depth, self.height(id), at)?;
                return Ok(id);
            }
            Some(open) => {
                // The node is plain if nothing in it contains references; otherwise the cycle is detected below.
                *open = Found::Inside;
                let node = Node::Plain { ty: None, pointer: at.pointer() };
                return Ok(self.add_node(node, Leads::Nowhere, 0));
            }
            None => {}
        }
        self.known_nodes.insert(address, Found::Open);
        let id = self.own_node(found.node, at, depth)?;
        let before = self.known_nodes.insert(address, Found::Done(id));
        if matches!(before, Some(Found::Inside)) && self.leads(id) == Leads::ToReferences {
            return Err(at.broken(&CYCLE, "a node on the path to references contains itself"));
        }
        Ok(id)
    }

    fn own_node(&mut self, node: &'v Value, at: &SchemaPath<'_>, depth: usize) -> Result<NodeId> {
        self.check_depth(depth, 1, at)?;
        let Some(keywords) = node.as_object() else {
            let node = Node::Plain { ty: None, pointer: at.pointer() };
            return Ok(self.add_node(node, Leads::Nowhere, 0));
        };
        match read::kind(keywords, at)? {
            None => self.plain_node(keywords, at, depth),
            Some(("Tensor", value)) => {
                read::agrees(keywords, "type", "object", at)?;
                let tensor = read::tensor(value, at)?;
                self.take_symbols(&tensor);
                let align = bytes(read::align(keywords, at)?);
                Ok(self.add_node(Node::Flat { tensor, align }, Leads::ToReferences, 0))
            }
            Some(("Blob", value)) => {
                read::align(keywords, at)?;
                let content = read::content(value, at)?;
                let node = Node::Blob { content, pointer: at.pointer() };
                Ok(self.add_node(node, Leads::ToReferences, 0))
            }
            Some(("Array", value)) => {
                let (items, len) = self.array(keywords, value, at, depth)?;
                let own = crate::extent::get(&self.types, items)?;
                let align = bytes(read::align(keywords, at)?).unwrap_or(own.align);
                // Compiles the type of the array, only to check its rules about sizes.
                let (below, pointer) = (own.height, at.pointer());
                self.ty(node, at, depth)?;
                let node = Node::Dataset { items, len, align, pointer };
                Ok(self.add_node(node, Leads::ToReferences, below))
            }
            Some(("Struct", value)) => self.struct_node(node, keywords, value, at, depth),
            Some(_) => self.value_node(node, at, depth),
        }
    }

    /// Compiles a node with a kind whose values are in the header.
    fn value_node(&mut self, node: &'v Value, at: &SchemaPath<'_>, depth: usize) -> Result<NodeId> {
        let ty = self.ty(node, at, depth)?;
        let below = crate::extent::get(&self.types, ty)?.height.saturating_sub(1);
        let node = Node::Plain { ty: Some(ty), pointer: at.pointer() };
        Ok(self.add_node(node, Leads::Nowhere, below))
    }

    fn struct_node(
        &mut self,
        node: &'v Value,
        keywords: &'v Keywords,
        value: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<NodeId> {
        read::agrees(keywords, "type", "object", at)?;
        read::align(keywords, at)?;
        let raw = read::members(keywords, value, at)?;
        let mut properties = Vec::with_capacity(raw.len());
        for member in raw {
            let member_path = at.member("properties", member.name);
            self.need_kind(member.schema, &member_path)?;
            let node = self.node(member.schema, &member_path, depth.saturating_add(1))?;
            let presence = if member.is_required { Presence::Required } else { Presence::Optional };
            let default = self.defs.resolve(member.schema)?.default.map(|d| self.default(d));
            properties.push(Property { name: member.name.into(), node, presence, default });
        }
        if properties.iter().all(|p| self.leads(p.node) == Leads::Nowhere) {
            return self.value_node(node, at, depth);
        }
        Ok(self.object(properties, AdditionalMembers::Forbidden, Vec::new()))
    }

    fn plain_node(
        &mut self,
        node: &'v Keywords,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<NodeId> {
        let below = depth.saturating_add(1);
        let mut properties = Vec::new();
        if let Some(Value::Object(schemas)) = node.get("properties") {
            for (name, schema) in schemas {
                let id = self.node(schema, &at.member("properties", name), below)?;
                let name = Arc::from(name.as_str());
                let default = self.defs.resolve(schema)?.default.map(|d| self.default(d));
                let presence = Presence::Optional;
                properties.push(Property { name, node: id, presence, default });
            }
        }
        let additional = match node.get("additionalProperties") {
            None | Some(Value::Bool(true)) => AdditionalMembers::Anything,
            Some(Value::Bool(false)) => AdditionalMembers::Forbidden,
            Some(schema) => {
                let member_path = at.below("additionalProperties");
                AdditionalMembers::Node(self.node(schema, &member_path, below)?)
            }
        };
        let items = match node.get("items") {
            None => None,
            Some(schema) => Some(self.node(schema, &at.below("items"), below)?),
        };
        let others = self.others(node, at, below)?;
        let additional_leads = match additional {
            AdditionalMembers::Node(id) => self.leads(id) == Leads::ToReferences,
            AdditionalMembers::Anything | AdditionalMembers::Forbidden => false,
        };
        let is_object = additional_leads
            || properties.iter().any(|p| self.leads(p.node) == Leads::ToReferences);
        let list = items.filter(|id| self.leads(*id) == Leads::ToReferences);
        if let Some(keyword) = others {
            let message = format!("references are not allowed below `{}`", keyword.escaped());
            return Err(at.broken(&REFERENCE_KEYWORD, message));
        }
        if !is_object && list.is_none() {
            let node = Node::Plain { ty: None, pointer: at.pointer() };
            return Ok(self.add_node(node, Leads::Nowhere, 0));
        }
        self.check_on_the_way(node, if is_object { "object" } else { "array" }, at)?;
        match list {
            None => {
                let others = require(&mut properties, node, at)?;
                Ok(self.object(properties, additional, others))
            }
            Some(_) if is_object => {
                let message = "references are not allowed both below `items` and below members";
                Err(at.broken(&REFERENCE_KEYWORD, message))
            }
            Some(items) => {
                let (min, max) = read::bounds(node, at)?;
                let height = self.height(items);
                let node = Node::List { items, min, max };
                Ok(self.add_node(node, Leads::ToReferences, height))
            }
        }
    }

    /// Checks that no other keyword leads to references.
    fn others(
        &mut self,
        node: &'v Keywords,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<Option<&'v str>> {
        for (keyword, value) in node {
            if matches!(
                keyword.as_str(),
                "properties"
                    | "additionalProperties"
                    | "items"
                    | "$defs"
                    | "definitions"
                    | "mapping"
            ) {
                continue;
            }
            let mut schemas = Vec::new();
            children(keyword, value, |schema| schemas.push(schema));
            for schema in schemas {
                let id = self.node(schema, &at.below("…"), depth)?;
                if self.leads(id) == Leads::ToReferences {
                    return Ok(Some(keyword));
                }
            }
        }
        Ok(None)
    }

    fn check_on_the_way(&self, node: &Keywords, ty: &str, at: &SchemaPath<'_>) -> Result<()> {
        if let Some(keyword) = node.keys().find(|k| !ON_THE_WAY.contains(&k.as_str())) {
            let message =
                format!("`{}` is not allowed on the path to references", keyword.escaped());
            return Err(at.broken(&REFERENCE_KEYWORD, message));
        }
        match node.get("type") {
            None => Ok(()),
            Some(found) if found == ty => Ok(()),
            Some(found) => {
                let found = read::shorten(found);
                let message = format!("`type` is {found} on the path to references, expected {ty}");
                Err(at.broken(&REFERENCE_KEYWORD, message))
            }
        }
    }

    fn object(
        &mut self,
        properties: Vec<Property>,
        additional: AdditionalMembers,
        required_others: Vec<Arc<str>>,
    ) -> NodeId {
        let more = match additional {
            AdditionalMembers::Node(id) => self.height(id),
            AdditionalMembers::Anything | AdditionalMembers::Forbidden => 0,
        };
        let below = properties.iter().map(|p| self.height(p.node)).fold(more, usize::max);
        let sorted = sorted_by(&properties, |p| &p.name);
        let object = Object { properties, additional, required_others, sorted };
        self.add_node(Node::Object(object), Leads::ToReferences, below)
    }
}

/// Marks the properties that `required` names, and returns the names that are not properties.
fn require(
    properties: &mut [Property],
    node: &Keywords,
    at: &SchemaPath<'_>,
) -> Result<Vec<Arc<str>>> {
    let mut others = Vec::new();
    let required = match node.get("required") {
        None => return Ok(others),
        Some(value) => value.as_array().map(|l| l.iter().map(Value::as_str).collect()),
    };
    let Some(Some(names)) = required.map(|l: Option<Vec<&str>>| l) else {
        return Err(at.broken(&REFERENCE_KEYWORD, "`required` is not a list of names"));
    };
    for name in names {
        // The properties are sorted by name, because JSON objects are kept sorted.
        match properties.binary_search_by(|p| (*p.name).cmp(name)) {
            Ok(index) => {
                if let Some(property) = properties.get_mut(index) {
                    property.presence = Presence::Required;
                }
            }
            Err(_) => others.push(name.into()),
        }
    }
    Ok(others)
}

fn bytes(align: Option<Align>) -> Option<u32> {
    match align {
        Some(Align::Bytes(bytes)) => Some(bytes),
        Some(Align::Natural) | None => None,
    }
}
