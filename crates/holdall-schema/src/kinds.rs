//! The contents of a compiled schema: an arena of types.

use crate::dtype::TensorDType;
use crate::meaning::Meaning;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The index of a type in the arena of its [`Schema`](crate::Schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

/// A type: the kind of its values, and the layout of their bytes.
///
/// `size`, `stride` and offsets that depend on them are `None` while they depend on a symbol without a number: see
/// [`Schema::bind`](crate::Schema::bind).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Type {
    /// The kind of the values.
    pub kind: Kind,
    /// The size of a value in bytes.
    pub size: Option<u64>,
    /// The alignment of the first byte: a power of two.
    pub align: u32,
    /// The distance from one element of an array to the next, in bytes.
    pub stride: Option<u64>,
    /// The `align` of the schema, if present.
    pub align_keyword: Option<Align>,
    /// The alignment of the heap, if values or parts of them have entries.
    pub heap_align: Option<u32>,
    /// The meaning of the values, if keywords next to the kind state it.
    pub meaning: Option<Arc<Meaning>>,
    /// The nesting depth, including this type.
    pub(crate) height: usize,
}

/// The keyword `align`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// This number of bytes, a power of two from 1 to 65536.
    Bytes(u32),
    /// The alignment of the kind itself; for a struct, the largest alignment of its members.
    Natural,
}

/// The kind of the values of a type.
///
/// A blob has no kind, because it is never part of a record: it is only a [`Node`](crate::Node).
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
    /// One of several structs, identified by a tag.
    Union(Union),
    /// An entry that refers to UTF-8 text.
    String,
    /// An entry that refers to bytes.
    Bytes,
    /// An entry that refers to one JSON object.
    Record,
    /// A tensor whose elements are in the record itself.
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
    /// All scalars, in the order of the specification.
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

    /// Returns the element type of tensors that has the same form; `None` for complex numbers of 128 bits and times.
    pub fn dtype(self) -> Option<TensorDType> {
        Some(match self {
            Scalar::Int8 => TensorDType::I8,
            Scalar::Int16 => TensorDType::I16,
            Scalar::Int32 => TensorDType::I32,
            Scalar::Int64 => TensorDType::I64,
            Scalar::Uint8 => TensorDType::U8,
            Scalar::Uint16 => TensorDType::U16,
            Scalar::Uint32 => TensorDType::U32,
            Scalar::Uint64 => TensorDType::U64,
            Scalar::Float16 => TensorDType::F16,
            Scalar::BFloat16 => TensorDType::Bf16,
            Scalar::Float8E4M3 => TensorDType::F8_E4M3,
            Scalar::Float8E5M2 => TensorDType::F8_E5M2,
            Scalar::Float32 => TensorDType::F32,
            Scalar::Float64 => TensorDType::F64,
            Scalar::Complex64 => TensorDType::C64,
            Scalar::Boolean => TensorDType::Bool,
            Scalar::Complex128 | Scalar::Timestamp => return None,
        })
    }

    /// Returns the part of the keyword after `TypeDef:`.
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

    /// Returns the scalar with this name.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.as_str() == name)
    }

    /// Returns the size of a value in bytes.
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

    /// Returns the alignment in bytes if the schema has no `align`.
    pub const fn align(self) -> u32 {
        match self {
            Scalar::Complex64 => 4,
            Scalar::Complex128 => 8,
            other => other.size(),
        }
    }

    /// Returns the `type` of the JSON of its values.
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

/// The size of an index into a list: the values of an enum or the variants of a union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexWidth {
    /// One byte: up to 256 items.
    One,
    /// Two bytes: up to 65,536 items.
    Two,
    /// Four bytes: more items.
    Four,
}

impl IndexWidth {
    /// Returns the smallest width for `count` items.
    pub const fn for_count(count: usize) -> IndexWidth {
        match count {
            0..=0x100 => IndexWidth::One,
            0x101..=0x1_0000 => IndexWidth::Two,
            _ => IndexWidth::Four,
        }
    }

    /// Returns the width in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            IndexWidth::One => 1,
            IndexWidth::Two => 2,
            IndexWidth::Four => 4,
        }
    }
}

/// One of a list of strings (section 3.3).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Enum {
    /// The strings, in the order of the schema.
    pub values: Arc<[Arc<str>]>,
    /// The width of a stored index.
    pub width: IndexWidth,
    /// The indices of the values, sorted by value.
    pub(crate) sorted: Arc<[u32]>,
}

impl Enum {
    /// Returns the index of a value.
    pub fn index_of(&self, value: &str) -> Option<u32> {
        let key = |index: &u32| self.value(*index).unwrap_or_default().cmp(value);
        self.sorted.binary_search_by(key).ok().and_then(|at| self.sorted.get(at)).copied()
    }

    /// Returns the value at an index.
    pub fn value(&self, index: u32) -> Option<&str> {
        self.values.get(usize::try_from(index).ok()?).map(|v| &**v)
    }
}

/// Elements of one type (section 3.4).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Array {
    /// The type of its elements.
    pub items: TypeId,
    /// The number of elements. It also decides where they are stored.
    pub len: Len,
}

/// The number of elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Len {
    /// This number of elements, stored in the record itself.
    Fixed(u64),
    /// Any number of elements from `minItems` to `maxItems`. In a record they are in the heap.
    Variable {
        /// `minItems`, or 0 if absent.
        min: u64,
        /// `maxItems`, if present.
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
    /// The number of bytes with presence bits at the start of the struct.
    pub presence_len: u32,
    /// The indices of the members, sorted by name.
    pub(crate) sorted: Vec<u32>,
    /// For each member, the index of the member with the next name.
    pub(crate) next: Vec<u32>,
}

impl Struct {
    /// Returns the index of the member with this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let key = |index: &u32| self.name(*index).cmp(name);
        let at = self.sorted.binary_search_by(key).ok()?;
        usize::try_from(*self.sorted.get(at)?).ok()
    }

    /// Returns the index of the member with the next name after `last`, or of the member with the first name if `last`
    /// is `None`.
    pub(crate) fn next_by_name(&self, last: Option<usize>) -> Option<usize> {
        let next = match last {
            None => self.sorted.first(),
            Some(last) => self.next.get(last),
        };
        usize::try_from(*next?).ok()
    }

    fn name(&self, index: u32) -> &str {
        let member = usize::try_from(index).ok().and_then(|p| self.members.get(p));
        member.map_or("", |m| &m.name)
    }
}

/// One member of a struct.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Member {
    /// The name of the member.
    pub name: Arc<str>,
    /// The type of its value.
    pub ty: TypeId,
    /// The distance of its value from the start of the struct, in bytes.
    pub offset: Option<u64>,
    /// The bit that is set if the member is present, counted from the start of the struct. `None` for a required
    /// member.
    pub presence: Option<u32>,
    /// The `default` of the schema. Members with the same `default` through `$ref` share its memory.
    pub default: Option<Arc<Value>>,
}

/// One of several structs, identified by a tag (section 3.6).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Union {
    /// The JSON member that contains the variant's key.
    pub discriminator: Arc<str>,
    /// The variants by tag, which is the order of the UTF-8 bytes of their keys.
    pub variants: Vec<Variant>,
    /// The width of the tag.
    pub width: IndexWidth,
    /// The distance of the variant from the start of the union, in bytes.
    pub start: u32,
}

impl Union {
    /// Returns the tag of the variant with this key.
    pub fn tag(&self, key: &str) -> Option<usize> {
        self.variants.binary_search_by(|v| (*v.key).cmp(key)).ok()
    }
}

/// One variant of a union.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Variant {
    /// The key of the variant in `mapping`.
    pub key: Arc<str>,
    /// The type of the variant, which is a struct.
    pub ty: TypeId,
}

/// The value of `TypeDef:Tensor` (section 3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorType {
    /// The element type, or `None` if several are allowed.
    pub dtype: Option<TensorDType>,
    /// The allowed element types if there are several. Empty if any is allowed.
    pub dtypes: Vec<TensorDType>,
    /// The dimensions, or `None` if any shape is allowed.
    pub shape: Option<Vec<Dim>>,
}

impl TensorType {
    /// Returns `true` if a tensor with this element type is allowed.
    pub fn accepts(&self, dtype: TensorDType) -> bool {
        match self.dtype {
            Some(own) => own == dtype,
            None => self.dtypes.is_empty() || self.dtypes.contains(&dtype),
        }
    }

    /// Returns the names of the allowed element types: `F32`, `F32|I16`. Returns `None` if any is allowed.
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
    /// This size.
    Known(u64),
    /// Any size.
    Any,
    /// The number of the symbol, which is the same throughout a file.
    Symbol(Arc<str>),
}

/// The content type of a blob's entries (section 3.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 text.
    Utf8,
    /// Any bytes.
    Bytes,
    /// One JSON value.
    Json,
    /// Elements of a type that takes whole bytes.
    Elements(TensorDType),
}

impl Content {
    /// Returns the content type with this name in a schema: `utf-8`, `bytes`, `json`, or an element type that takes
    /// whole bytes.
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
    /// Returns the part of the keyword after `TypeDef:`.
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
