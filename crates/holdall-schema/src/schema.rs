//! A compiled schema.

use crate::error::{Result, Shown as _, list};
use crate::extent::{Symbols, get, sized};
use crate::kinds::{Content, Dim, Len, TensorType, Type, TypeId};
use crate::rules::OPEN_SHAPE;
use serde_json::Value;
use std::sync::Arc;

/// A place where `tensors` has a reference, or something that leads to one, in its [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A schema, its types laid out and its references found: see [`Schema::compile`].
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) types: Vec<Type>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Root,
    pub(crate) symbols: Vec<Arc<str>>,
    /// The numbers of symbols that have one.
    pub(crate) bound: Symbols,
}

/// What the schema as a whole describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The `tensors` of a header: [`Schema::compile`].
    References(NodeId),
    /// One record: [`Schema::compile_record`].
    Record(TypeId),
}

/// What stands in `tensors` at a node of the schema (section 6.1).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Node {
    /// A flat reference.
    Flat {
        /// Its dtype and shape.
        tensor: TensorType,
        /// The `align` of the node in bytes, where it is a number.
        align: Option<u32>,
    },
    /// A dataset of records.
    Dataset {
        /// The type of a record.
        items: TypeId,
        /// How many there may be.
        len: Len,
        /// What the first record is aligned to, in bytes: the node's `align`, or the record's.
        align: u32,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
    /// A blob.
    Blob {
        /// What its entries hold.
        content: Content,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
    /// An object of references.
    Object(Object),
    /// An array of references.
    List {
        /// What its elements are.
        items: NodeId,
        /// `minItems`, 0 where it is absent.
        min: u64,
        /// `maxItems`.
        max: Option<u64>,
    },
    /// Plain JSON.
    Plain {
        /// The type, where the node has a kind.
        ty: Option<TypeId>,
        /// The JSON pointer of the node in the schema.
        pointer: String,
    },
}

/// An object of references.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Object {
    /// Its members: in the order of a struct's keyword, else of their names.
    pub properties: Vec<Property>,
    /// What other members may be.
    pub additional: AdditionalMembers,
    /// Required names that are not among `properties`.
    pub required_others: Vec<Arc<str>>,
    pub(crate) sorted: Vec<u32>,
}

impl Object {
    /// The member of that name.
    pub fn property(&self, name: &str) -> Option<&Property> {
        let of = |place: &u32| usize::try_from(*place).ok().and_then(|p| self.properties.get(p));
        let key = |place: &u32| of(place).map_or("", |p| &*p.name).cmp(name);
        self.sorted.binary_search_by(key).ok().and_then(|at| of(self.sorted.get(at)?))
    }
}

/// A member of an object of references.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Property {
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub node: NodeId,
    /// Whether it must be there.
    pub presence: Presence,
    /// The `default` of the schema.
    pub default: Option<Arc<Value>>,
}

/// Whether a member must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must.
    Required,
    /// It may be absent.
    Optional,
}

/// What members may be that are not among the properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionalMembers {
    /// There may be none.
    Forbidden,
    /// Plain JSON of any kind.
    Anything,
    /// What that node says.
    Node(NodeId),
}

impl Schema {
    /// What the schema as a whole describes.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The type of a record, of a schema that [`Schema::compile_record`] gave.
    pub fn record(&self) -> Option<TypeId> {
        match self.root {
            Root::Record(ty) => Some(ty),
            Root::References(_) => None,
        }
    }

    /// A type of this schema.
    ///
    /// # Panics
    /// Where the type is of another schema.
    #[track_caller]
    pub fn ty(&self, id: TypeId) -> &Type {
        match get(&self.types, id) {
            Ok(ty) => ty,
            Err(e) => panic!("{e}"),
        }
    }

    /// A node of this schema.
    ///
    /// # Panics
    /// Where the node is of another schema.
    #[track_caller]
    pub fn node(&self, id: NodeId) -> &Node {
        match usize::try_from(id.0).ok().and_then(|at| self.nodes.get(at)) {
            Some(node) => node,
            None => panic!("the node is of another schema"),
        }
    }

    /// Every type, with those it is made of before it.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.types.iter()
    }

    /// The symbols in shapes, in the order of their names.
    pub fn symbols(&self) -> &[Arc<str>] {
        &self.symbols
    }

    /// The same schema, with sizes as these numbers make them. Nodes and types keep their ids.
    ///
    /// # Errors
    /// `schema/size-overflow`, `schema/zero-size`, `schema/tensor`.
    pub fn bind(&self, symbols: &Symbols) -> Result<Schema> {
        let mut types: Vec<Type> = Vec::with_capacity(self.types.len());
        for ty in &self.types {
            types.push(sized(ty.kind.clone(), ty.align_keyword, &types, symbols)?);
        }
        Ok(Schema {
            types,
            nodes: self.nodes.clone(),
            root: self.root,
            symbols: self.symbols.clone(),
            bound: symbols.clone(),
        })
    }

    /// Size and stride of a type in bytes.
    ///
    /// # Errors
    /// [`OPEN_SHAPE`] where they depend on a symbol without a number.
    pub fn extent(&self, id: TypeId) -> Result<Extent> {
        let ty = get(&self.types, id)?;
        match (ty.size, ty.stride) {
            (Some(size), Some(stride)) => Ok(Extent { size, stride, align: ty.align }),
            _ => Err(OPEN_SHAPE.broken(format!(
                "the size of a `TypeDef:{}` depends on symbols without a number, of {}",
                ty.kind.as_str(),
                list(self.symbols.iter().map(|s| s.shown()))
            ))),
        }
    }

    /// The dimensions of a tensor in a record.
    ///
    /// # Errors
    /// `schema/open-shape` where one depends on a symbol without a number, or is any.
    pub fn dims(&self, tensor: &TensorType) -> Result<Vec<u64>> {
        let number = |dim: &Dim| match dim {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(name) => self.bound.get(name).copied(),
            Dim::Any => None,
        };
        let dims = tensor.shape.iter().flatten().map(number).collect::<Option<Vec<u64>>>();
        dims.ok_or_else(|| OPEN_SHAPE.broken("a tensor whose shape is not known"))
    }
}

/// Where the bytes of a type's values may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of one value.
    pub size: u64,
    /// Bytes from one element of an array to the next.
    pub stride: u64,
    /// What the first byte is aligned to.
    pub align: u32,
}
