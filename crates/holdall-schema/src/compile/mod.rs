//! Compiles the JSON of a schema.

mod nodes;
mod read;
mod types;

use crate::error::Result;
use crate::extent::{Symbols, sized};
use crate::kinds::{Align, Kind, Type, TypeId};
use crate::limits::SchemaLimits;
use crate::refs::Defs;
use crate::rules::DEPTH;
use crate::schema::{Node, NodeId, Root, Schema};
use holdall_collections::HashMap;
use read::SchemaPath;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Schema {
    /// Compiles the schema of a file's `tensors`: finds the references, and lays out the records of datasets. Takes
    /// time and memory in proportion to the schema.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules.
    pub fn compile(schema: &Value, limits: &SchemaLimits) -> Result<Schema> {
        let mut compiler = Compiler::new(schema, limits)?;
        let root = compiler.node(schema, &SchemaPath::root(), 1)?;
        Ok(compiler.finish(Root::References(root)))
    }

    /// Compiles the schema of one record: its root has a kind that is stored as bytes.
    ///
    /// # Errors
    /// Returns an error of the `schema/…` rules.
    pub fn compile_record(schema: &Value, limits: &SchemaLimits) -> Result<Schema> {
        let mut compiler = Compiler::new(schema, limits)?;
        let root = compiler.ty(schema, &SchemaPath::root(), 1)?;
        Ok(compiler.finish(Root::Record(root)))
    }
}

struct Compiler<'v> {
    defs: Defs<'v>,
    max_depth: usize,
    types: Vec<Type>,
    nodes: Vec<NodeEntry>,
    symbols: BTreeSet<Arc<str>>,
    /// Types that may be used again, by the address of their node.
    known_types: HashMap<usize, Found<TypeId>>,
    /// Defaults by their address: many members can share one through `$ref`.
    known_defaults: HashMap<usize, Arc<Value>>,
    /// Nodes that a `$ref` refers to, by their address.
    known_nodes: HashMap<usize, Found<NodeId>>,
}

/// A node and the facts about it that its parents need.
struct NodeEntry {
    node: Node,
    /// Whether it contains references.
    leads: Leads,
    /// The nesting depth, including this node.
    height: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToReferences,
    Nowhere,
}

/// The state of a shared node.
enum Found<Id> {
    /// It is being compiled, so a reference to it now comes from inside of it.
    Open,
    /// A reference to it was found inside of it.
    Inside,
    Done(Id),
}

impl<'v> Compiler<'v> {
    fn new(schema: &'v Value, limits: &SchemaLimits) -> Result<Compiler<'v>> {
        Ok(Compiler {
            defs: Defs::checked(schema, limits)?,
            max_depth: limits.max_depth(),
            types: Vec::new(),
            nodes: Vec::new(),
            symbols: BTreeSet::new(),
            known_types: HashMap::default(),
            known_defaults: HashMap::default(),
            known_nodes: HashMap::default(),
        })
    }

    fn finish(self, root: Root) -> Schema {
        Schema {
            types: self.types,
            nodes: self.nodes.into_iter().map(|e| e.node).collect(),
            root,
            symbols: self.symbols.into_iter().collect(),
            bound: Symbols::new(),
        }
    }

    /// Adds a type.
    fn add_type(
        &mut self,
        kind: Kind,
        align: Option<Align>,
        at: &SchemaPath<'_>,
    ) -> Result<TypeId> {
        let ty = sized(kind, align, &self.types, &Symbols::new());
        let ty = ty.map_err(|e| at.locate(e))?;
        // The number of nodes is bounded below 2^31.
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        Ok(id)
    }

    /// Adds a node.
    fn add_node(&mut self, node: Node, leads: Leads, below: usize) -> NodeId {
        // As for types.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(NodeEntry { node, leads, height: below.saturating_add(1) });
        id
    }

    fn entry(&self, id: NodeId) -> Option<&NodeEntry> {
        self.nodes.get(usize::try_from(id.0).ok()?)
    }

    fn leads(&self, id: NodeId) -> Leads {
        self.entry(id).map_or(Leads::Nowhere, |e| e.leads)
    }

    fn height(&self, id: NodeId) -> usize {
        self.entry(id).map_or(0, |e| e.height)
    }

    fn check_depth(&self, depth: usize, below: usize, at: &SchemaPath<'_>) -> Result<()> {
        let most = self.max_depth;
        if depth.saturating_add(below) > most.saturating_add(1) {
            let message = format!("the schema nests more than {most} levels deep, at {at}");
            return Err(DEPTH.broken(message));
        }
        Ok(())
    }
}
