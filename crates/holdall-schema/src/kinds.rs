//! What a schema is made of once it is compiled: an arena of types.

use crate::dtype::TensorDType;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A type in the arena of its [`Schema`](crate::Schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// A node with a kind, and where the bytes of its values lie.
///
/// `size`, `stride` and what is counted from them are `None` while they depend on a symbol that has
/// no number yet: see [`Schema::bind`](crate::Schema::bind).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Type {
    /// What its values are.
    pub kind: Kind,
    /// Bytes of one value.
    pub size: Option<u64>,
    /// What its first byte is aligned to: a power of two.
    pub align: u32,
    /// Bytes from one element of an array to the next.
    pub stride: Option<u64>,
    /// The `align` of the schema, where it has one.
    pub align_keyword: Option<Align>,
    /// Where values, or parts of them, have entries: what their heap is aligned to.
    pub heap_align: Option<u32>,
    /// Levels of types below, this one included.
    pub(crate) height: usize,
}

/// The keyword `align`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// So many bytes, a power of two from 1 to 65536.
    Bytes(u32),
    /// The kind's own; for a struct the largest of its members'.
    Natural,
}

/// What the values of a type are.
///
/// A blob is none of them: it never lies in a record, so it is only a [`Node`](crate::Node).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kind {
    /// A number, a boolean or a time of fixed size.
    Scalar(Scalar),
    /// One of a list of strings.
    Enum(Enum),
    /// Elements of one type.
    Array(Array),
    /// Members in the order of their bytes.
    Struct(Struct),
    /// One of several structs, by a tag.
    Union(Union),
    /// An entry of UTF-8.
    String,
    /// An entry of bytes.
    Bytes,
    /// An entry of one JSON object.
    Record,
    /// Elements in the record itself.
    Tensor(TensorType),
}

/// Returns `true` if `TypeDef:` and that name is the keyword of a kind.
pub(crate) fn is_kind(name: &str) -> bool {
    const OTHERS: [&str; 9] =
        ["Array", "Blob", "Bytes", "Enum", "Record", "String", "Struct", "Tensor", "Union"];
    OTHERS.contains(&name) || Scalar::from_name(name).is_some()
}

/// A number, a boolean or a time of fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The variants are their own names.
pub enum Scalar {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
    BFloat16,
    Float8E4M3,
    Float8E5M2,
    Complex64,
    Complex128,
    Boolean,
    Timestamp,
}

impl Scalar {
    /// All of them, in the order of the specification.
    pub const ALL: [Scalar; 18] = [
        Scalar::Int8,
        Scalar::Int16,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Uint8,
        Scalar::Uint16,
        Scalar::Uint32,
        Scalar::Uint64,
        Scalar::Float16,
        Scalar::Float32,
        Scalar::Float64,
        Scalar::BFloat16,
        Scalar::Float8E4M3,
        Scalar::Float8E5M2,
        Scalar::Complex64,
        Scalar::Complex128,
        Scalar::Boolean,
        Scalar::Timestamp,
    ];

    /// What follows `TypeDef:` in its keyword.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scalar::Int8 => "Int8",
            Scalar::Int16 => "Int16",
            Scalar::Int32 => "Int32",
            Scalar::Int64 => "Int64",
            Scalar::Uint8 => "Uint8",
            Scalar::Uint16 => "Uint16",
            Scalar::Uint32 => "Uint32",
            Scalar::Uint64 => "Uint64",
            Scalar::Float16 => "Float16",
            Scalar::Float32 => "Float32",
            Scalar::Float64 => "Float64",
            Scalar::BFloat16 => "BFloat16",
            Scalar::Float8E4M3 => "Float8E4M3",
            Scalar::Float8E5M2 => "Float8E5M2",
            Scalar::Complex64 => "Complex64",
            Scalar::Complex128 => "Complex128",
            Scalar::Boolean => "Boolean",
            Scalar::Timestamp => "Timestamp",
        }
    }

    /// The scalar of that name.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.as_str() == name)
    }

    /// Bytes of one value.
    pub const fn size(self) -> u32 {
        match self {
            Scalar::Int8
            | Scalar::Uint8
            | Scalar::Float8E4M3
            | Scalar::Float8E5M2
            | Scalar::Boolean => 1,
            Scalar::Int16 | Scalar::Uint16 | Scalar::Float16 | Scalar::BFloat16 => 2,
            Scalar::Int32 | Scalar::Uint32 | Scalar::Float32 => 4,
            Scalar::Int64
            | Scalar::Uint64
            | Scalar::Float64
            | Scalar::Complex64
            | Scalar::Timestamp => 8,
            Scalar::Complex128 => 16,
        }
    }

    /// Its alignment in bytes where the schema has no `align`.
    pub const fn align(self) -> u32 {
        match self {
            Scalar::Complex64 => 4,
            Scalar::Complex128 => 8,
            other => other.size(),
        }
    }

    /// The `type` of its JSON.
    pub const fn json_type(self) -> &'static str {
        match self {
            Scalar::Int8
            | Scalar::Int16
            | Scalar::Int32
            | Scalar::Int64
            | Scalar::Uint8
            | Scalar::Uint16
            | Scalar::Uint32
            | Scalar::Uint64 => "integer",
            Scalar::Float16
            | Scalar::Float32
            | Scalar::Float64
            | Scalar::BFloat16
            | Scalar::Float8E4M3
            | Scalar::Float8E5M2 => "number",
            Scalar::Complex64 | Scalar::Complex128 => "array",
            Scalar::Boolean => "boolean",
            Scalar::Timestamp => "string",
        }
    }
}

/// Bytes that hold a place in a list: of an enum's values, of a union's variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceWidth {
    /// Up to 256.
    One,
    /// Up to 65 536.
    Two,
    /// More.
    Four,
}

impl PlaceWidth {
    /// The narrowest that holds `count` places.
    pub const fn for_count(count: usize) -> PlaceWidth {
        match count {
            0..=0x100 => PlaceWidth::One,
            0x101..=0x1_0000 => PlaceWidth::Two,
            _ => PlaceWidth::Four,
        }
    }

    /// How many bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            PlaceWidth::One => 1,
            PlaceWidth::Two => 2,
            PlaceWidth::Four => 4,
        }
    }
}

/// One of a list of strings (section 3.3).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Enum {
    /// The strings, in the order of the schema.
    pub values: Arc<[Arc<str>]>,
    /// Bytes of a place.
    pub width: PlaceWidth,
    /// Places in the order of their strings.
    pub(crate) sorted: Arc<[u32]>,
}

impl Enum {
    /// The place of that string.
    pub fn index_of(&self, value: &str) -> Option<u32> {
        let key = |place: &u32| self.value(*place).unwrap_or_default().cmp(value);
        self.sorted.binary_search_by(key).ok().and_then(|at| self.sorted.get(at)).copied()
    }

    /// The string in that place.
    pub fn value(&self, place: u32) -> Option<&str> {
        self.values.get(usize::try_from(place).ok()?).map(|v| &**v)
    }
}

/// Elements of one type (section 3.4).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Array {
    /// The type of its elements.
    pub items: TypeId,
    /// How many, and so where they lie.
    pub len: Len,
}

/// The number of elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Len {
    /// Always so many, in the record itself.
    Fixed(u64),
    /// Any number within `minItems` and `maxItems`; in a record they lie in the heap.
    Variable {
        /// `minItems`, 0 where it is absent.
        min: u64,
        /// `maxItems`.
        max: Option<u64>,
    },
}

/// `[3]`, `[]`, `[1..]`, `[0..5]`: bounds include both ends.
impl fmt::Display for Len {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Len::Fixed(n) => write!(f, "[{n}]"),
            Len::Variable { min: 0, max: None } => f.write_str("[]"),
            Len::Variable { min, max: None } => write!(f, "[{min}..]"),
            Len::Variable { min, max: Some(max) } => write!(f, "[{min}..{max}]"),
        }
    }
}

/// Members in the order of their bytes (section 3.5).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Struct {
    /// The members, in the order of the keyword.
    pub members: Vec<Member>,
    /// Bytes of presence at the start.
    pub presence_len: u32,
    /// Places of members in the order of their names.
    pub(crate) sorted: Vec<u32>,
    /// For each member, the place of that whose name comes next.
    pub(crate) next: Vec<u32>,
}

impl Struct {
    /// The place of the member of that name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let key = |place: &u32| self.name(*place).cmp(name);
        let at = self.sorted.binary_search_by(key).ok()?;
        usize::try_from(*self.sorted.get(at)?).ok()
    }

    /// The place of the member that follows one in the order of names; of the first, where there is none.
    pub(crate) fn next_by_name(&self, last: Option<usize>) -> Option<usize> {
        let next = match last {
            None => self.sorted.first(),
            Some(last) => self.next.get(last),
        };
        usize::try_from(*next?).ok()
    }

    fn name(&self, place: u32) -> &str {
        let member = usize::try_from(place).ok().and_then(|p| self.members.get(p));
        member.map_or("", |m| &m.name)
    }
}

/// One member of a struct.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub name: Arc<str>,
    /// The type of its value.
    pub ty: TypeId,
    /// Where its value starts, in bytes from the start of the struct.
    pub offset: Option<u64>,
    /// The bit that says whether it is there, counted from the start of the struct; `None` where it
    /// is required.
    pub presence: Option<u32>,
    /// The `default` of the schema; members that share it through `$ref` share its memory.
    pub default: Option<Arc<Value>>,
}

/// One of several structs, by a tag (section 3.6).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Union {
    /// The member of the JSON that holds the variant's key.
    pub discriminator: Arc<str>,
    /// The variants in the order of their tags: of the UTF-8 bytes of their keys.
    pub variants: Vec<Variant>,
    /// Bytes of the tag.
    pub width: PlaceWidth,
    /// Where the variant starts, in bytes from the start of the union.
    pub start: u32,
}

impl Union {
    /// The tag of the variant with that key.
    pub fn tag(&self, key: &str) -> Option<usize> {
        self.variants.binary_search_by(|v| (*v.key).cmp(key)).ok()
    }
}

/// One variant of a union.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Variant {
    /// Its key in `mapping`.
    pub key: Arc<str>,
    /// A struct.
    pub ty: TypeId,
}

/// The value of `TypeDef:Tensor` (section 3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorType {
    /// The element type; `None` where several will do.
    pub dtype: Option<TensorDType>,
    /// The element types there may be, where there are several; empty where any will do.
    pub dtypes: Vec<TensorDType>,
    /// The dimensions; `None` where any will do.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// Returns `true` if a tensor of that element type may stand here.
    pub fn accepts(&self, dtype: TensorDType) -> bool {
        match self.dtype {
            Some(own) => own == dtype,
            None => self.dtypes.is_empty() || self.dtypes.contains(&dtype),
        }
    }

    /// The element types there may be: `F32`, `F32|I16`; `None` where any will do.
    pub fn dtype_names(&self) -> Option<String> {
        let names: Vec<&str> = match self.dtype {
            Some(dtype) => vec![dtype.as_str()],
            None => self.dtypes.iter().map(|dtype| dtype.as_str()).collect(),
        };
        (!names.is_empty()).then(|| names.join("|"))
    }
}

/// One dimension of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// So many.
    Known(u64),
    /// Any number.
    Any,
    /// The number that the symbol stands for throughout a file.
    Symbol(Arc<str>),
}

/// What the entries of a blob hold (section 3.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 text.
    Utf8,
    /// Anything.
    Bytes,
    /// One JSON value.
    Json,
    /// Elements of whole bytes.
    Elements(TensorDType),
}

impl Content {
    /// The content of that name in a schema: `utf-8`, `bytes`, `json`, or an element type of whole bytes.
    pub fn from_name(name: &str) -> Option<Content> {
        match name {
            "utf-8" => Some(Content::Utf8),
            "bytes" => Some(Content::Bytes),
            "json" => Some(Content::Json),
            name => {
                let dtype = TensorDType::from_name(name);
                dtype.filter(|d| d.bits().is_multiple_of(8)).map(Content::Elements)
            }
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Content::Utf8 => "utf-8",
            Content::Bytes => "bytes",
            Content::Json => "json",
            Content::Elements(dtype) => dtype.as_str(),
        })
    }
}

impl Kind {
    /// What follows `TypeDef:` in its keyword.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Kind::Scalar(scalar) => scalar.as_str(),
            Kind::Enum(_) => "Enum",
            Kind::Array(_) => "Array",
            Kind::Struct(_) => "Struct",
            Kind::Union(_) => "Union",
            Kind::String => "String",
            Kind::Bytes => "Bytes",
            Kind::Record => "Record",
            Kind::Tensor(_) => "Tensor",
        }
    }
}
