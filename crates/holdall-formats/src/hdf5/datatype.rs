//! Datatypes and dataspaces: types of elements, and shapes.

use super::reader::{Reader, little};
use super::{DTYPE, STRUCTURE, VERSION};
use holdall_collections::{HashSet, sort};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::{ByteOrder, DType, LogicalType};
use holdall_core::wire::cursor::Cursor;
use holdall_core::wire::npy::{Element, EntryType, Field, FieldType, Fields, any_element};

/// The number of bytes of an entry in records.
const ENTRY: u64 = 16;
/// The maximum nesting depth of types.
const DEPTH: usize = 16;
/// The maximum number of dimensions in HDF5.
const RANK: u8 = 32;
/// The maximum number of members of a compound, or of names of an enumeration.
const MEMBERS: u16 = 4096;

/// Values of the attribute that names the type of elements, and the corresponding types. The names are NumPy's; the
/// first is also used by Keras.
pub(super) const MARKS: [(&str, DType, Option<LogicalType>); 5] = [
    ("bfloat16", DType::Bf16, None),
    ("float8_e4m3fn", DType::U8, Some(LogicalType::F8E4M3Fn)),
    ("float8_e4m3fnuz", DType::U8, Some(LogicalType::F8E4M3FnUz)),
    ("float8_e5m2fnuz", DType::U8, Some(LogicalType::F8E5M2FnUz)),
    ("float8_e8m0fnu", DType::U8, Some(LogicalType::F8E8M0)),
];

/// The prefix of h5py's tag on opaque types. NumPy's name of the type follows.
pub(super) const TAG: &str = "NUMPY:";

/// The type of elements, or of the values of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Datatype {
    /// The number of bytes of a value.
    pub(super) size: u32,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A number that tensors can have.
    Number(Number),
    /// An enumeration: numbers with names.
    Enum(Box<Datatype>, Vec<(String, Vec<u8>)>),
    /// An array of values.
    Array(Vec<u64>, Box<Datatype>),
    /// A fixed-length string.
    Text(Padding),
    /// Variable-length strings, in the global heap.
    VarText,
    /// Variable-length sequences, in the global heap.
    Var(Box<Datatype>),
    /// References to objects: the addresses of their headers.
    Reference,
    /// Opaque bytes, whose meaning may be given by the tag.
    Opaque(String),
    /// A compound that is not a complex number.
    Record(Vec<Member>),
    /// A type that is not supported, with a description.
    Other(&'static str),
}

/// A member of a compound.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    /// The offset in the record, in bytes.
    pub(super) at: u64,
    pub(super) datatype: Datatype,
}

/// The padding after a string that is shorter than its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    /// A zero byte, then any bytes.
    Ended,
    /// Zero bytes.
    Zeros,
    Spaces,
}

/// A number as tensors have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    pub(super) dtype: DType,
    pub(super) logical: Option<LogicalType>,
    pub(super) order: ByteOrder,
}

impl Number {
    /// Returns the integer with these bytes; `None` if the numbers are not integers.
    pub(super) fn integer(&self, bytes: &[u8]) -> Option<i128> {
        let mut bytes = bytes.to_vec();
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        let bits = little(&bytes)?;
        // The bits beyond a signed number's own are those of its sign.
        let unused = 64u32.checked_sub(u32::try_from(bytes.len()).ok()?.checked_mul(8)?)?;
        let signed = || bits.checked_shl(unused).unwrap_or(0).cast_signed().checked_shr(unused);
        Some(match self.dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => signed()?.into(),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => bits.into(),
            _ => return None,
        })
    }

    fn plain(dtype: DType, order: ByteOrder) -> Kind {
        Kind::Number(Number { dtype, logical: None, order })
    }
}

/// The type of an element.
#[derive(Debug, Clone)]
pub(super) enum ElementKind {
    /// A number. If NumPy has a more specific type for it, its name.
    Number(Number, Option<String>),
    Record(Fields),
    /// A value of variable length or a reference, or one that contains such values.
    Varying,
}

/// The type of a dataset's elements.
pub(super) struct Elements {
    pub(super) what: ElementKind,
    /// Further dimensions, after those of the dataset.
    pub(super) inner: Vec<u64>,
    /// Whether the type is the one that an attribute names.
    pub(super) is_marked: bool,
}

impl From<Element> for Elements {
    fn from(datatype: Element) -> Elements {
        let (dtype, logical, order) = (datatype.dtype, datatype.logical_type, datatype.byte_order);
        let what = ElementKind::Number(Number { dtype, logical, order }, datatype.descr);
        Elements { what, inner: datatype.inner.into_iter().collect(), is_marked: false }
    }
}

impl Datatype {
    /// Reads the type in a message.
    pub(super) fn read(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Datatype> {
        let mut cursor = Cursor::new(body);
        let read = datatype(&mut cursor, DEPTH);
        let cut = || reader.broken(at, "a datatype ends before its last field");
        read.ok_or_else(cut)?.map_err(|e| e.at(reader.locate(at, 0).unwrap_or_default()))
    }

    /// Returns the type of tensor elements for this datatype, if there is one. `mark` is the attribute that names the
    /// type.
    pub(super) fn elements(&self, mark: Option<&str>) -> Result<Elements> {
        let marked = MARKS.iter().find(|(name, ..)| Some(*name) == mark);
        let plain = |number: &Number| {
            let is_marked = marked.is_some_and(|(_, dtype, logical)| {
                (dtype, logical) == (&number.dtype, &number.logical)
            });
            Elements {
                what: ElementKind::Number(number.clone(), None),
                inner: Vec::new(),
                is_marked,
            }
        };
        let refused = |what: String| Err(DTYPE.broken(what));
        let is_array = matches!(self.kind, Kind::Array(..));
        if !is_array && self.is_varying() {
            self.field("", &HashSet::default())?;
            return Ok(Elements {
                what: ElementKind::Varying,
                inner: Vec::new(),
                is_marked: false,
            });
        }
        match &self.kind {
            Kind::Number(number) => Ok(plain(number)),
            Kind::Enum(datatype, names) => {
                let Kind::Number(number) = &datatype.kind else {
                    return refused(
                        "elements are an enumeration that is not of numbers".to_owned(),
                    );
                };
                match is_bool(datatype, names) {
                    true => Ok(plain(&Number { dtype: DType::Bool, ..number.clone() })),
                    false => Ok(plain(number)),
                }
            }
            Kind::Array(dims, datatype) => {
                let datatype = datatype.elements(mark)?;
                Ok(Elements { inner: [dims.as_slice(), &datatype.inner].concat(), ..datatype })
            }
            Kind::Record(members) => {
                let fields = self.fields(members, &HashSet::default())?;
                Ok(Elements {
                    what: ElementKind::Record(fields),
                    inner: Vec::new(),
                    is_marked: false,
                })
            }
            Kind::Text(_) if self.size > 0 => Ok(self.bytes('S').into()),
            Kind::Text(_) => refused("elements are strings of 0 bytes".to_owned()),
            Kind::VarText | Kind::Var(_) | Kind::Reference => {
                refused("elements have a variable length".to_owned())
            }
            Kind::Opaque(tag) => {
                match marked.filter(|(_, dtype, _)| dtype.width() == u64::from(self.size)) {
                    Some((_, dtype, logical)) => {
                        let order = ByteOrder::Little;
                        Ok(plain(&Number { dtype: *dtype, logical: logical.clone(), order }))
                    }
                    None if self.size == 0 => refused("elements have 0 bytes".to_owned()),
                    None => Ok(self.tagged(tag).into()),
                }
            }
            Kind::Other(what) => refused(format!("elements are {what}")),
        }
    }
}

/// Returns the schema that reading derives from a type of records; `None` if the type is read as something else.
pub(super) fn record_schema_of(message: &[u8]) -> Option<String> {
    let datatype = datatype(&mut Cursor::new(message), DEPTH)?.ok()?;
    match datatype.elements(None).ok()?.what {
        ElementKind::Record(fields) => Some(fields.schema()),
        ElementKind::Number(..) | ElementKind::Varying => None,
    }
}

impl Datatype {
    /// Returns `true` if values have a variable length, are references, or contain such values.
    pub(super) fn is_varying(&self) -> bool {
        self.any(&|kind| matches!(kind, Kind::VarText | Kind::Var(_) | Kind::Reference))
    }

    /// Returns `true` if values are or contain references to objects.
    pub(super) fn has_references(&self) -> bool {
        self.any(&|kind| matches!(kind, Kind::Reference))
    }

    /// Returns `true` if this type or one that it contains is such a type.
    fn any(&self, is: &dyn Fn(&Kind) -> bool) -> bool {
        is(&self.kind)
            || match &self.kind {
                Kind::Array(_, datatype) | Kind::Var(datatype) => datatype.any(is),
                Kind::Record(members) => members.iter().any(|member| member.datatype.any(is)),
                _ => false,
            }
    }

    /// Returns the number that identifies this type while it is borrowed.
    pub(super) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the type of an element of an array, which may be an array of arrays.
    pub(super) fn innermost(&self) -> &Datatype {
        match &self.kind {
            Kind::Array(_, datatype) => datatype.innermost(),
            _ => self,
        }
    }

    /// Returns the number of bytes of a value in records, where values of variable length and references take an entry.
    pub(super) fn width(&self) -> u64 {
        match &self.kind {
            Kind::VarText | Kind::Var(_) | Kind::Reference => ENTRY,
            Kind::Array(dims, datatype) => {
                dims.iter().fold(datatype.width(), |n, dim| n.saturating_mul(*dim))
            }
            Kind::Record(members) => {
                members.iter().fold(0, |n, member| n.saturating_add(member.datatype.width()))
            }
            _ => self.size.into(),
        }
    }

    /// Returns the fields of a compound with these members. Texts of the types in `bytes`, given by their identities, are
    /// not UTF-8. The fields of a compound with values of variable length are those of its records, one after the other.
    fn fields(&self, members: &[Member], bytes: &HashSet<usize>) -> Result<Fields> {
        let is_varying = self.is_varying();
        let mut end = 0u64;
        let mut fields = Vec::new();
        for member in members {
            let mut field = member.datatype.field(&member.name, bytes)?;
            field.offset = member.at;
            if is_varying {
                field.offset = end;
                end = end.saturating_add(member.datatype.width());
            }
            fields.push(field);
        }
        let size = if is_varying { end } else { self.size.into() };
        let wrong = |e| DTYPE.broken("elements are records that cannot be read").because(e);
        Fields::with_offsets(fields, size).map_err(wrong)
    }

    /// Returns the field for a value with this name. `bytes` is as for [`Datatype::fields`].
    pub(super) fn field(&self, name: &str, bytes: &HashSet<usize>) -> Result<Field> {
        let element = |dtype, logical_type, byte_order| {
            FieldType::Element(Element {
                dtype,
                logical_type,
                byte_order,
                descr: None,
                inner: None,
            })
        };
        let mut names = Vec::new();
        let ty = match &self.kind {
            Kind::Number(Number { dtype, logical, order }) => {
                element(*dtype, logical.clone(), *order)
            }
            Kind::Enum(datatype, names) if is_bool(datatype, names) => {
                element(DType::Bool, None, ByteOrder::Little)
            }
            Kind::Enum(datatype, _) => {
                names = self.names();
                datatype.field(name, bytes)?.ty
            }
            Kind::Array(dims, datatype) => {
                let datatype = datatype.field(name, bytes)?;
                return Ok(Field {
                    shape: [dims.as_slice(), &datatype.shape].concat(),
                    ..datatype
                });
            }
            Kind::Text(_) => FieldType::Element(self.bytes('S')),
            Kind::Opaque(tag) => FieldType::Element(self.tagged(tag)),
            Kind::Record(members) => {
                let inside = |e: Error| match name {
                    "" => e,
                    _ => e.within(format!("the member `{}`", name.escaped())),
                };
                FieldType::Fields(self.fields(members, bytes).map_err(inside)?)
            }
            Kind::VarText if bytes.contains(&self.identity()) => FieldType::Entry(EntryType::Bytes),
            Kind::VarText | Kind::Reference => FieldType::Entry(EntryType::Text),
            Kind::Var(datatype) if datatype.width() == 0 => {
                return Err(DTYPE.broken("elements are sequences of values without bytes"));
            }
            Kind::Var(datatype) => {
                FieldType::Entry(EntryType::Array(Box::new(datatype.field(name, bytes)?)))
            }
            Kind::Other(what) => {
                return Err(DTYPE.broken(match name {
                    "" => format!("elements are {what}"),
                    _ => {
                        let name = name.escaped();
                        format!("elements are records, whose member `{name}` is {what}")
                    }
                }));
            }
        };
        Ok(Field { name: name.to_owned(), title: None, offset: 0, ty, shape: Vec::new(), names })
    }

    /// Returns the names of the values of an enumeration, each once; nothing for other types and truth values.
    pub(super) fn names(&self) -> Vec<(String, i128)> {
        let Kind::Enum(datatype, names) = &self.kind else { return Vec::new() };
        let Kind::Number(number) = &datatype.kind else { return Vec::new() };
        if is_bool(datatype, names) {
            return Vec::new();
        }
        let mut seen = HashSet::default();
        let own = names.iter().filter(|(name, _)| seen.insert(name.as_str()));
        own.filter_map(|(name, bytes)| Some((name.clone(), number.integer(bytes)?))).collect()
    }

    /// Returns an element of this size, with a kind of NumPy's bytes.
    fn bytes(&self, class: char) -> Element {
        Element {
            dtype: DType::U8,
            logical_type: None,
            byte_order: ByteOrder::Little,
            descr: Some(format!("|{class}{}", self.size)),
            inner: Some(self.size.into()),
        }
    }

    /// Returns the type of opaque bytes: the NumPy type that h5py's tag names, if HDF5 has no counterpart, as for
    /// times.
    fn tagged(&self, tag: &str) -> Element {
        let named = tag.strip_prefix(TAG).and_then(|descr| any_element(descr).ok());
        let is_time = |datatype: &Element| datatype.dtype == DType::I64 && datatype.descr.is_some();
        let named = named.filter(|datatype| is_time(datatype) && self.size == 8);
        named.unwrap_or_else(|| self.bytes('V'))
    }
}

/// Returns `true` if an enumeration is h5py's boolean type.
pub(super) fn is_bool(datatype: &Datatype, names: &[(String, Vec<u8>)]) -> bool {
    let mut found: Vec<(&str, &[u8])> =
        names.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    sort(&mut found);
    datatype.size == 1 && found == [("FALSE", &[0][..]), ("TRUE", &[1])]
}

/// Reads the next datatype; `None` if it is cut short.
fn datatype(cursor: &mut Cursor<'_>, depth: usize) -> Option<Result<Datatype>> {
    let (first, bits, size) = (cursor.u8()?, cursor.array::<3>()?, cursor.u32_le()?);
    let (class, version) = (first & 15, first >> 4);
    let [low, second, _] = bits;
    let count = u16::from_le_bytes([low, second]);
    if !(1..=5).contains(&version) {
        return Some(Err(VERSION.broken(format!("unsupported datatype version {version}"))));
    }
    let Some(inside) = depth.checked_sub(1) else {
        return Some(Err(STRUCTURE.broken(format!("types are nested deeper than {DEPTH}"))));
    };
    let order = if low & 1 == 1 { ByteOrder::Big } else { ByteOrder::Little };
    let kind = match class {
        0 | 4 => {
            let (start, bits) = (cursor.u16_le()?, cursor.u16_le()?);
            // A bit field is an unsigned integer.
            let is_signed = class == 0 && low & 8 != 0;
            match integer(size, is_signed) {
                Some(dtype) if start == 0 && u32::from(bits) == size.saturating_mul(8) => {
                    Number::plain(dtype, order)
                }
                _ => Kind::Other("integers with an unsupported number of bits"),
            }
        }
        1 => float(cursor.array()?, size, bits, order),
        2 => {
            cursor.take(2)?;
            Kind::Other("times")
        }
        3 => match low & 15 {
            0 => Kind::Text(Padding::Ended),
            1 => Kind::Text(Padding::Zeros),
            2 => Kind::Text(Padding::Spaces),
            _ => Kind::Other("strings of an unknown type"),
        },
        5 => {
            let tag = cursor.take(low.into())?.split(|byte| *byte == 0).next().unwrap_or_default();
            Kind::Opaque(String::from_utf8_lossy(tag).into_owned())
        }
        6 => match compound(cursor, count, size, version, inside)? {
            Ok(kind) => kind,
            Err(e) => return Some(Err(e)),
        },
        7 if low & 15 == 0 => Kind::Reference,
        7 => Kind::Other("references to regions or in a newer form"),
        8 => match enumeration(cursor, count, version, inside)? {
            Ok(kind) => kind,
            Err(e) => return Some(Err(e)),
        },
        9 => match datatype(cursor, inside)? {
            Ok(_) if low & 15 == 1 => Kind::VarText,
            Ok(datatype) => Kind::Var(Box::new(datatype)),
            Err(e) => return Some(Err(e)),
        },
        10 => {
            let rank = cursor.u8().filter(|rank| *rank <= RANK)?;
            cursor.take(if version < 3 { 3 } else { 0 })?;
            let dims: Option<Vec<u64>> =
                (0..rank).map(|_| cursor.u32_le().map(u64::from)).collect();
            cursor.take(if version < 3 { u64::from(rank).saturating_mul(4) } else { 0 })?;
            match datatype(cursor, inside)? {
                Ok(datatype) => Kind::Array(dims?, Box::new(datatype)),
                Err(e) => return Some(Err(e)),
            }
        }
        11 => match datatype(cursor, inside)? {
            Ok(datatype) => complex(&datatype, size),
            Err(e) => return Some(Err(e)),
        },
        // The length of an unknown type is also unknown.
        _ => return Some(Err(DTYPE.broken("elements are of an unknown datatype class"))),
    };
    let e = match &kind {
        _ if size == 0 && !matches!(kind, Kind::Text(_) | Kind::Opaque(_) | Kind::Other(_)) => {
            Some("a type of 0 bytes".to_owned())
        }
        Kind::Enum(datatype, _) if datatype.size != size => {
            Some(format!("a type of {size} bytes for values of {} bytes", datatype.size))
        }
        Kind::Array(dims, datatype) => {
            let len = dims.iter().try_fold(u64::from(datatype.size), |n, dim| n.checked_mul(*dim));
            (len != Some(size.into()))
                .then(|| format!("{size} bytes for an array {dims:?} of {}", datatype.size))
        }
        _ => None,
    };
    Some(match e {
        Some(message) => Err(STRUCTURE.broken(message)),
        None => Ok(Datatype { size, kind }),
    })
}

fn integer(size: u32, is_signed: bool) -> Option<DType> {
    Some(match (size, is_signed) {
        (1, true) => DType::I8,
        (2, true) => DType::I16,
        (4, true) => DType::I32,
        (8, true) => DType::I64,
        (1, false) => DType::U8,
        (2, false) => DType::U16,
        (4, false) => DType::U32,
        (8, false) => DType::U64,
        _ => return None,
    })
}

/// Returns the float type with these bit fields.
fn float(fields: [u8; 12], size: u32, [low, sign, _]: [u8; 3], order: ByteOrder) -> Kind {
    let [o0, o1, p0, p1, exponent, exponent_len, mantissa, mantissa_len, b0, b1, b2, b3] = fields;
    let (start, bits) = (u16::from_le_bytes([o0, o1]), u16::from_le_bytes([p0, p1]));
    let bias = u32::from_le_bytes([b0, b1, b2, b3]);
    let fields = (size, exponent, exponent_len, mantissa_len, bias);
    // The mantissa has an implied leading bit. The VAX byte order sets both order bits.
    let is_plain = start == 0
        && mantissa == 0
        && u32::from(bits) == size.saturating_mul(8)
        && u32::from(sign).saturating_add(1) == u32::from(bits)
        && low & 0x30 == 0x20
        && low & 0x40 == 0;
    let (dtype, logical) = match fields {
        _ if !is_plain => return Kind::Other("floats of an unknown type"),
        (2, 10, 5, 10, 15) => (DType::F16, None),
        (2, 7, 8, 7, 127) => (DType::Bf16, None),
        (4, 23, 8, 23, 127) => (DType::F32, None),
        (8, 52, 11, 52, 1023) => (DType::F64, None),
        (1, 3, 4, 3, 7) => (DType::U8, Some(LogicalType::F8E4M3Fn)),
        (1, 2, 5, 2, 15) => (DType::U8, Some(LogicalType::F8E5M2)),
        _ => return Kind::Other("floats of an unknown type"),
    };
    Kind::Number(Number { dtype, logical, order })
}

/// Reads a compound: two floats, as h5py writes complex numbers, or a record.
fn compound(
    cursor: &mut Cursor<'_>,
    count: u16,
    size: u32,
    version: u8,
    depth: usize,
) -> Option<Result<Kind>> {
    let mut members: Vec<Member> = Vec::new();
    if count > MEMBERS {
        return Some(Ok(Kind::Other("records with too many members")));
    }
    for _ in 0..count {
        let name = text(cursor, version < 3)?;
        let mut dims = Vec::new();
        let offset = match version {
            1 => {
                let (offset, rank) = (cursor.u32_le()?, cursor.u8()?);
                cursor.take(11)?;
                for at in 0..4 {
                    let dim = cursor.u32_le()?;
                    dims.extend((at < rank).then_some(dim));
                }
                u64::from(offset)
            }
            2 => cursor.u32_le()?.into(),
            _ => little(cursor.take(offset_len(size))?)?,
        };
        let datatype = match datatype(cursor, depth)? {
            Ok(datatype) => datatype,
            Err(e) => return Some(Err(e)),
        };
        // In version 1, a member has dimensions in addition to its type.
        let datatype = match dims.iter().try_fold(datatype.size, |size, dim| size.checked_mul(*dim))
        {
            _ if dims.is_empty() => datatype,
            Some(size) => {
                let dims = dims.into_iter().map(u64::from).collect();
                Datatype { size, kind: Kind::Array(dims, Box::new(datatype)) }
            }
            None => return Some(Err(STRUCTURE.broken("a member has more than 2^32 bytes"))),
        };
        members.push(Member { name, at: offset, datatype });
    }
    let is_pair = |names: [&str; 2]| match &members[..] {
        [a, b] if [a.name.as_str(), &b.name] == names && a.at == 0 => {
            let same = match (&a.datatype.kind, &b.datatype.kind) {
                (Kind::Number(a), Kind::Number(b)) => (a.dtype, a.order) == (b.dtype, b.order),
                _ => false,
            };
            same && b.at == u64::from(a.datatype.size) && b.at == u64::from(b.datatype.size)
        }
        _ => false,
    };
    let is_complex = [["r", "i"], ["re", "im"], ["real", "imag"]].into_iter().any(is_pair);
    Some(Ok(match members.first() {
        Some(member) if is_complex => complex(&member.datatype, size),
        _ => Kind::Record(members),
    }))
}

/// Returns the type of a compound of two floats.
fn complex(datatype: &Datatype, size: u32) -> Kind {
    let logical = |dtype: DType| match dtype {
        DType::F32 => Some(LogicalType::Complex64),
        DType::F64 => Some(LogicalType::Complex128),
        _ => None,
    };
    match &datatype.kind {
        Kind::Number(number) if size == datatype.size.saturating_mul(2) => {
            match logical(number.dtype) {
                Some(logical) => Kind::Number(Number { logical: Some(logical), ..number.clone() }),
                None => Kind::Other("complex numbers of an unknown type"),
            }
        }
        _ => Kind::Other("complex numbers of an unknown type"),
    }
}

/// Returns the number of bytes that give a member's offset in a record of `size` bytes.
fn offset_len(size: u32) -> u64 {
    u64::from(32u32.saturating_sub(size.leading_zeros()).div_ceil(8).max(1))
}

fn enumeration(
    cursor: &mut Cursor<'_>,
    count: u16,
    version: u8,
    depth: usize,
) -> Option<Result<Kind>> {
    let datatype = match datatype(cursor, depth)? {
        Ok(datatype) => datatype,
        Err(e) => return Some(Err(e)),
    };
    if count > MEMBERS {
        return Some(Ok(Kind::Other("enumerations with too many names")));
    }
    let names: Option<Vec<String>> = (0..count).map(|_| text(cursor, version < 3)).collect();
    let mut value = || cursor.take(datatype.size.into()).map(<[u8]>::to_vec);
    let names = names?.into_iter().map(|name| Some((name, value()?)));
    let names: Option<Vec<(String, Vec<u8>)>> = names.collect();
    Some(Ok(Kind::Enum(Box::new(datatype), names?)))
}

/// Reads a string that ends with a zero byte. If `is_padded`, zero bytes follow up to a multiple of 8.
fn text(cursor: &mut Cursor<'_>, is_padded: bool) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        match cursor.u8()? {
            0 => break,
            byte => bytes.push(byte),
        }
    }
    if is_padded {
        let len = (bytes.len() as u64).saturating_add(1);
        cursor.take(len.next_multiple_of(8).saturating_sub(len))?;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The shape in a dataspace message, and its maximum; the shape is `None` if there are no elements at all.
pub(super) struct Dataspace {
    pub(super) shape: Option<Vec<u64>>,
    /// The maximum of each dimension; `u64::MAX` if it is unlimited.
    pub(super) most: Vec<u64>,
}

impl Dataspace {
    pub(super) fn read(reader: &Reader<'_>, at: u64, body: &[u8]) -> Result<Dataspace> {
        let read = reader.read(at, "a dataspace", body, |cursor| {
            let (version, rank, flags) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
            if rank > RANK {
                return None;
            }
            let is_null = match version {
                1 => cursor.take(5).map(|_| false)?,
                2 => cursor.u8()? == 2,
                _ => return Some(Err(version)),
            };
            let mut dims =
                || (0..rank).map(|_| reader.length(cursor)).collect::<Option<Vec<u64>>>();
            let shape = dims()?;
            let most = if flags & 1 == 1 { dims()? } else { shape.clone() };
            Some(Ok(Dataspace { shape: (!is_null).then_some(shape), most }))
        })?;
        let refused = |version| -> Error {
            VERSION.broken(format!("unsupported dataspace version {version}"))
        };
        read.map_err(refused)
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> Option<u64> {
        match &self.shape {
            Some(shape) => holdall_core::model::element_count(shape),
            None => Some(0),
        }
    }
}
