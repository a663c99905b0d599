//! A compiled schema.

use crate::error::{Escape as _, Result, list};
use crate::extent::{Symbols, get, sized};
use crate::kinds::{Content, Dim, Len, TensorType, Type, TypeId};
use crate::rules::OPEN_SHAPE;
use serde_json::Value;
use std::sync::Arc;

/// The index of a node in its [`Schema`]: a node where `tensors` has a reference or something that contains one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A compiled schema with the layouts of its types and the positions of its references: see [`Schema::compile`].
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) types: Vec<Type>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Root,
    pub(crate) symbols: Vec<Arc<str>>,
    /// The numbers of symbols that have been bound.
    pub(crate) bound: Symbols,
}

/// The subject of a schema: a record, or the tensors of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The `tensors` of a header: [`Schema::compile`].
    References(NodeId),
    /// One record: [`Schema::compile_record`].
    Record(TypeId),
}

/// A node of the schema of a file's `tensors` (section 6.1).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Node {
    /// A reference to a dense tensor.
    Flat {
        /// The dtype and the shape.
        tensor: TensorType,
        /// The `align` of the node in bytes, if it is a number.
        align: Option<u32>,
    },
    /// A dataset of records.
    Dataset {
        /// The type of a record.
        items: TypeId,
        /// The number of records allowed.
        len: Len,
        /// The alignment of the first record in bytes: the node's `align`, or that of a record.
        align: u32,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
    /// A blob.
    Blob {
        /// The content type of its entries.
        content: Content,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
    /// An object of references.
    Object(Object),
    /// An array of references.
    List {
        /// The node of its elements.
        items: NodeId,
        /// `minItems`, or 0 if absent.
        min: u64,
        /// `maxItems`, if present.
        max: Option<u64>,
    },
    /// Plain JSON.
    Plain {
        /// The type, if the node has a kind.
        ty: Option<TypeId>,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
}

/// An object of references.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Object {
    /// The members, in the order of a struct's keyword, otherwise sorted by name.
    pub properties: Vec<Property>,
    /// The additional members that are allowed.
    pub additional: AdditionalMembers,
    /// Required names that are not in `properties`.
    pub required_others: Vec<Arc<str>>,
    pub(crate) sorted: Vec<u32>,
}

impl Object {
    /// Returns the member with this name.
    pub fn property(&self, name: &str) -> Option<&Property> {
        let property_at =
            |index: &u32| usize::try_from(*index).ok().and_then(|p| self.properties.get(p));
        let key = |index: &u32| property_at(index).map_or("", |p| &*p.name).cmp(name);
        self.sorted.binary_search_by(key).ok().and_then(|at| property_at(self.sorted.get(at)?))
    }
}

/// A member of an object of references.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Property {
    /// The name of the member.
    pub name: Arc<str>,
    /// The node of the member.
    pub node: NodeId,
    /// Whether the member must be present.
    pub presence: Presence,
    /// The `default` of the schema.
    pub default: Option<Arc<Value>>,
}

/// The rule for the presence of a member: required or optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The member must be present.
    Required,
    /// The member may be absent.
    Optional,
}

/// The members that are allowed in addition to the properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionalMembers {
    /// No other members.
    Forbidden,
    /// Plain JSON of any kind.
    Anything,
    /// Members of this node.
    Node(NodeId),
}

impl Schema {
    /// Returns what the whole schema describes.
    pub fn root(&self) -> Root {
        self.root
    }

    /// Returns the type of a record, if this schema comes from [`Schema::compile_record`].
    pub fn record(&self) -> Option<TypeId> {
        match self.root {
            Root::Record(ty) => Some(ty),
            Root::References(_) => None,
        }
    }

    /// Returns a type of this schema.
    ///
    /// # Panics
    /// Panics if the type belongs to another schema.
    #[track_caller]
    pub fn ty(&self, id: TypeId) -> &Type {
        match get(&self.types, id) {
            Ok(ty) => ty,
            Err(e) => panic!("{e}"),
        }
    }

    /// Returns a node of this schema.
    ///
    /// # Panics
    /// Panics if the node belongs to another schema.
    #[track_caller]
    pub fn node(&self, id: NodeId) -> &Node {
        match usize::try_from(id.0).ok().and_then(|at| self.nodes.get(at)) {
            Some(node) => node,
            None => panic!("the node belongs to another schema"),
        }
    }

    /// Returns every type. The types that a type consists of come before it.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.types.iter()
    }

    /// Returns the symbols in shapes, sorted by name.
    pub fn symbols(&self) -> &[Arc<str>] {
        &self.symbols
    }

    /// Returns the same schema with sizes for these numbers of the symbols. Nodes and types keep their ids.
    ///
    /// # Errors
    /// Returns `schema/size-overflow`, `schema/zero-size`, `schema/tensor`.
    pub fn bind(&self, symbols: &Symbols) -> Result<Schema> {
        let mut types: Vec<Type> = Vec::with_capacity(self.types.len());
        for ty in &self.types {
            let bound = sized(ty.kind.clone(), ty.align_keyword, &types, symbols)?;
            types.push(Type { meaning: ty.meaning.clone(), ..bound });
        }
        Ok(Schema {
            types,
            nodes: self.nodes.clone(),
            root: self.root,
            symbols: self.symbols.clone(),
            bound: symbols.clone(),
        })
    }

    /// Returns size, stride and alignment of a type, in bytes.
    ///
    /// # Errors
    /// Returns [`OPEN_SHAPE`] if they depend on a symbol without a number.
    pub fn extent(&self, id: TypeId) -> Result<Extent> {
        let ty = get(&self.types, id)?;
        match (ty.size, ty.stride) {
            (Some(size), Some(stride)) => Ok(Extent { size, stride, align: ty.align }),
            _ => Err(OPEN_SHAPE.broken(format!(
                "the size of a `TypeDef:{}` depends on symbols without a number: {}",
                ty.kind.as_str(),
                list(self.symbols.iter().map(|s| s.escaped()))
            ))),
        }
    }

    /// Returns the dimensions of a tensor in a record.
    ///
    /// # Errors
    /// Returns `schema/open-shape` if one depends on a symbol without a number or is not fixed.
    pub fn dims(&self, tensor: &TensorType) -> Result<Vec<u64>> {
        let number = |dim: &Dim| match dim {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(name) => self.bound.get(name).copied(),
            Dim::Any => None,
        };
        let dims = tensor.shape.iter().flatten().map(number).collect::<Option<Vec<u64>>>();
        dims.ok_or_else(|| OPEN_SHAPE.broken("the shape of the tensor is not known"))
    }
}

/// The size and alignment of a type's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The size of one value in bytes.
    pub size: u64,
    /// The distance from one element of an array to the next, in bytes.
    pub stride: u64,
    /// The alignment of the first byte.
    pub align: u32,
}
