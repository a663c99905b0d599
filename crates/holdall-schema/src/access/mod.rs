//! Reads members of records from their bytes. The path is looked up once; reading a member then takes a few
//! instructions, without an allocation or a comparison of names.

mod scalar;

pub use scalar::{ReadScalar, Typed, Values};

use crate::error::{Escape as _, Result};
use crate::extent::{get, in_memory};
use crate::kinds::{Enum, IndexWidth, Kind, Len, TypeId, Variant};
use crate::limits::SchemaLimits;
use crate::path::{Path, Segment};
use crate::record::number::le;
use crate::record::rules::{ACCESS, LENGTH, UNION_TAG};
use crate::record::walk::{enum_value, object, read_index, text};
use crate::record::{Elements, Entry};
use crate::rules::UNKNOWN_PATH;
use crate::schema::{Extent, Schema};
use std::sync::Arc;

/// The position and type of a member of the records of a type: see [`Schema::accessor`].
#[derive(Debug, Clone)]
pub struct Accessor {
    ty: TypeId,
    start: usize,
    /// The end of the member, in bytes from the start of the record.
    end: usize,
    record: Extent,
    guards: Box<[Guard]>,
    /// Whether the last segment is an optional member, whose bit is the last guard.
    last_is_optional: bool,
    leaf: Leaf,
}

/// A condition for a member to be present.
#[derive(Debug, Clone)]
enum Guard {
    /// A presence bit.
    Bit { byte: usize, mask: u8 },
    /// The tag of a union whose bytes are `at..end`. The bytes of its variants are `start..end`.
    Tag { at: usize, width: IndexWidth, tag: u32, variants: usize, start: usize, end: usize },
}

/// The kind of the member, with the properties that are needed to read it.
#[derive(Debug, Clone)]
enum Leaf {
    Scalar(crate::Scalar),
    Enum(Enum),
    String,
    Bytes,
    Record,
    Elements(Extent),
    Fixed(Extent),
    Union { width: IndexWidth, variants: Arc<[Variant]> },
    Whole,
}

/// A member of all records of a dataset, as a strided view: element `i` is the `size` bytes at `offset + i * stride` of
/// the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The distance from the start of the dataset to the first element, in bytes.
    pub offset: u64,
    /// The distance from one element to the next, in bytes.
    pub stride: u64,
    /// The number of elements.
    pub count: u64,
    /// The size of each element in bytes.
    pub size: u64,
}

impl Schema {
    /// Looks up a member of the records of a type. Indices select elements of fixed arrays, and names of variants
    /// select the variants of unions. Elements of variable arrays are not part of the record; look up their members in
    /// the type of the elements.
    ///
    /// # Errors
    /// Returns `schema/unknown-path` if there is no such member; `schema/open-shape` if a symbol has no number;
    /// `schema/size-overflow` if a record does not fit in memory.
    pub fn accessor(&self, record: TypeId, path: &Path) -> Result<Accessor> {
        let whole = self.extent(record)?;
        in_memory(whole.size)?;
        let (mut ty, mut start, mut guards) = (record, 0u64, Vec::new());
        let mut last_is_optional = false;
        for segment in &path.0 {
            let wrong = |what: &str| UNKNOWN_PATH.broken(format!("`{path}`: {what}"));
            last_is_optional = false;
            match (&get(&self.types, ty)?.kind, segment) {
                (Kind::Struct(fields), Segment::Name(name)) => {
                    let member = fields.index_of(name).and_then(|at| fields.members.get(at));
                    let Some(member) = member else {
                        let name = name.escaped();
                        return Err(match path.0.len() {
                            1 => UNKNOWN_PATH.broken(format!("unknown member `{name}`")),
                            _ => wrong(&format!("the struct has no member `{name}`")),
                        });
                    };
                    if let Some(bit) = member.presence {
                        let byte = in_memory(start.saturating_add(u64::from(bit / 8)))?;
                        guards.push(Guard::Bit { byte, mask: 1 << (bit % 8) });
                        last_is_optional = true;
                    }
                    start = start.saturating_add(member.offset.unwrap_or(0));
                    ty = member.ty;
                }
                (Kind::Union(union), Segment::Name(key)) => {
                    let Some(tag) = union.tag(key) else {
                        let key = key.escaped();
                        return Err(wrong(&format!("the union has no variant `{key}`")));
                    };
                    let at = in_memory(start)?;
                    let end = in_memory(start.saturating_add(self.extent(ty)?.size))?;
                    start = start.saturating_add(u64::from(union.start));
                    guards.push(Guard::Tag {
                        at,
                        width: union.width,
                        tag: u32::try_from(tag).unwrap_or(u32::MAX),
                        variants: union.variants.len(),
                        start: in_memory(start)?,
                        end,
                    });
                    ty = union.variants.get(tag).map_or(ty, |v| v.ty);
                }
                (Kind::Array(array), Segment::Index(at)) => {
                    let Len::Fixed(len) = array.len else {
                        return Err(wrong("the elements of a variable array are in the heap"));
                    };
                    if *at >= len {
                        return Err(wrong(&format!(
                            "index {at} is out of range for an array of {len} elements"
                        )));
                    }
                    // Part of the record, whose size fits in memory.
                    let step = at.saturating_mul(self.extent(array.items)?.stride);
                    start = start.saturating_add(step);
                    ty = array.items;
                }
                (kind, _) => {
                    return Err(wrong(&format!("a `TypeDef:{}` has no members", kind.as_str())));
                }
            }
        }
        Ok(Accessor {
            ty,
            start: in_memory(start)?,
            // Part of the record, whose size fits in memory.
            end: in_memory(start.saturating_add(self.extent(ty)?.size))?,
            record: whole,
            guards: guards.into(),
            last_is_optional,
            leaf: self.leaf(ty)?,
        })
    }

    fn leaf(&self, ty: TypeId) -> Result<Leaf> {
        Ok(match &get(&self.types, ty)?.kind {
            Kind::Scalar(scalar) => Leaf::Scalar(*scalar),
            Kind::Enum(e) => Leaf::Enum(e.clone()),
            Kind::String => Leaf::String,
            Kind::Bytes => Leaf::Bytes,
            Kind::Record => Leaf::Record,
            Kind::Array(array) => {
                let items = self.extent(array.items)?;
                match array.len {
                    Len::Fixed(_) => Leaf::Fixed(items),
                    Len::Variable { .. } => Leaf::Elements(items),
                }
            }
            Kind::Union(union) => {
                Leaf::Union { width: union.width, variants: union.variants.as_slice().into() }
            }
            Kind::Struct(_) | Kind::Tensor(_) => Leaf::Whole,
        })
    }
}

impl Accessor {
    /// Returns the type of the member.
    pub fn ty(&self) -> TypeId {
        self.ty
    }

    /// Returns the distance of the member from the start of the record, in bytes.
    pub fn offset(&self) -> usize {
        self.start
    }

    /// Returns the size of the member in bytes.
    pub fn size(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns `true` if every record has the member: its path contains no optional member and no variant.
    pub fn is_always_present(&self) -> bool {
        self.guards.is_empty()
    }

    /// Returns the member of all `count` records of a dataset. In records without the member, its bytes are zero or
    /// belong to another variant.
    pub fn column(&self, count: u64) -> Column {
        Column {
            offset: self.start as u64,
            stride: self.record.stride,
            count,
            size: self.size() as u64,
        }
    }

    /// Returns `true` if the record has the member.
    ///
    /// # Errors
    /// Returns `record/union-tag` if a tag is invalid, `record/length` if there are fewer bytes than a record has.
    #[inline]
    pub fn is_present(&self, record: &[u8]) -> Result<bool> {
        for guard in &self.guards {
            match guard {
                Guard::Bit { byte, mask } => match record.get(*byte) {
                    Some(bits) if bits & mask == 0 => return Ok(false),
                    Some(_) => {}
                    None => return Err(self.short(record)),
                },
                Guard::Tag { at, width, tag, variants, .. } => {
                    let Some(bytes) = record.get(*at..) else { return Err(self.short(record)) };
                    let found = read_index(*width, bytes);
                    if found == *tag {
                        continue;
                    }
                    if found as usize >= *variants {
                        return Err(bad_tag(found, *variants));
                    }
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sets each element of `out` to 1 if the corresponding record has the member, else to 0. The records are
    /// consecutive, at their stride.
    ///
    /// # Errors
    /// Returns the same errors as [`Accessor::is_present`].
    pub fn fill_presence(&self, records: &[u8], out: &mut [u8]) -> Result<()> {
        out.fill(1);
        let stride = in_memory(self.record.stride)?.max(1);
        let from = |start: usize| records.get(start..).unwrap_or_default().chunks(stride);
        for guard in &self.guards {
            match guard {
                Guard::Bit { byte, mask } => {
                    for (slot, record) in out.iter_mut().zip(from(*byte)) {
                        let bits = record.first().copied().unwrap_or(0);
                        *slot &= u8::from(bits & mask != 0);
                    }
                }
                Guard::Tag { at, width, tag, variants, .. } => {
                    for (slot, record) in out.iter_mut().zip(from(*at)).filter(|(s, _)| **s == 1) {
                        let found = read_index(*width, record);
                        if found as usize >= *variants {
                            return Err(bad_tag(found, *variants));
                        }
                        *slot = u8::from(found == *tag);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes of the member in the record: those of a fixed array, a tensor, a struct or a number, or the 16
    /// bytes of an entry.
    ///
    /// # Errors
    /// Returns the same errors as [`Accessor::is_present`].
    #[inline]
    pub fn raw<'r>(&self, record: &'r [u8]) -> Result<Option<&'r [u8]>> {
        if !self.guards.is_empty() && !self.is_present(record)? {
            return Ok(None);
        }
        match record.get(self.start..self.end) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(self.short(record)),
        }
    }

    /// Returns the entry of a string, bytes, a JSON object or a variable array.
    ///
    /// # Errors
    /// Returns `record/access` if the member has no entry, and the errors of [`Accessor::is_present`].
    #[inline]
    pub fn entry(&self, record: &[u8]) -> Result<Option<Entry>> {
        match self.leaf {
            Leaf::String | Leaf::Bytes | Leaf::Record | Leaf::Elements(_) => {}
            _ => return Err(self.not("an entry")),
        }
        Ok(self.raw(record)?.map(|bytes| Entry::from_bytes(le(bytes))))
    }

    /// Returns the heap bytes of a string, bytes, a JSON object or a variable array.
    ///
    /// # Errors
    /// Returns `record/entry-bounds`, and the errors of [`Accessor::entry`].
    #[inline]
    pub fn bytes<'h>(&self, record: &[u8], heap: &'h [u8]) -> Result<Option<&'h [u8]>> {
        match self.entry(record)? {
            Some(entry) => entry.bytes(heap).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the value of a string.
    ///
    /// # Errors
    /// Returns `record/utf8`, and the errors of [`Accessor::bytes`].
    #[inline]
    pub fn string<'h>(&self, record: &[u8], heap: &'h [u8]) -> Result<Option<&'h str>> {
        if !matches!(self.leaf, Leaf::String) {
            return Err(self.not("a string"));
        }
        match self.bytes(record, heap)? {
            Some(bytes) => text(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the JSON text of a `TypeDef:Record`, which is one JSON object.
    ///
    /// # Errors
    /// Returns `record/json`, and the errors of [`Accessor::bytes`].
    pub fn json<'h>(
        &self,
        record: &[u8],
        heap: &'h [u8],
        limits: &SchemaLimits,
    ) -> Result<Option<&'h str>> {
        if !matches!(self.leaf, Leaf::Record) {
            return Err(self.not("a JSON object"));
        }
        match self.bytes(record, heap)? {
            Some(bytes) => object(bytes, limits.json_depth()).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the elements of an array: from the record for a fixed array, from the heap for a variable one.
    ///
    /// # Errors
    /// Returns `record/entry-length`, `record/entry-align`, and the errors of [`Accessor::bytes`].
    #[inline]
    pub fn elements<'h>(&self, record: &'h [u8], heap: &'h [u8]) -> Result<Option<Elements<'h>>> {
        match &self.leaf {
            Leaf::Elements(items) => match self.entry(record)? {
                Some(entry) => entry.elements(heap, *items).map(Some),
                None => Ok(None),
            },
            Leaf::Fixed(items) => {
                let (stride, size) = (in_memory(items.stride)?, in_memory(items.size)?);
                Ok(self.raw(record)?.map(|bytes| Elements::new(bytes, stride, size)))
            }
            _ => Err(self.not("an array")),
        }
    }

    /// Returns the value of an enum as its string.
    ///
    /// # Errors
    /// Returns `record/enum-index`, `record/access`, and the errors of [`Accessor::is_present`].
    #[inline]
    pub fn enum_value(&self, record: &[u8]) -> Result<Option<&str>> {
        let Leaf::Enum(e) = &self.leaf else { return Err(self.not("an enum")) };
        match self.raw(record)? {
            Some(bytes) => enum_value(e, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the key of the variant that a union contains.
    ///
    /// # Errors
    /// Returns `record/union-tag`, `record/access`, and the errors of [`Accessor::is_present`].
    #[inline]
    pub fn variant(&self, record: &[u8]) -> Result<Option<&str>> {
        let Leaf::Union { width, variants } = &self.leaf else { return Err(self.not("a union")) };
        let Some(bytes) = self.raw(record)? else { return Ok(None) };
        let tag = read_index(*width, bytes);
        match variants.get(tag as usize) {
            Some(variant) => Ok(Some(&variant.key)),
            None => Err(bad_tag(tag, variants.len())),
        }
    }

    /// Makes the member present by setting presence bits and tags. If it was absent, its bytes are zero. The bytes of
    /// another variant are overwritten with zeros.
    ///
    /// # Errors
    /// Returns `record/length` if `record` is too short.
    pub fn make_present(&self, record: &mut [u8]) -> Result<()> {
        let len = record.len();
        let short = || {
            LENGTH.broken(format!("found {len} bytes for a record of {} bytes", self.record.size))
        };
        for guard in &self.guards {
            match guard {
                Guard::Bit { byte, mask } => *record.get_mut(*byte).ok_or_else(short)? |= mask,
                Guard::Tag { at, width, tag, start, end, .. } => {
                    let own = record.get_mut(*at..*end).ok_or_else(short)?;
                    if read_index(*width, own) == *tag {
                        continue;
                    }
                    let payload = start.saturating_sub(*at);
                    own.get_mut(payload..).unwrap_or_default().fill(0);
                    let width = width.bytes() as usize;
                    for (slot, b) in own.iter_mut().zip(tag.to_le_bytes()).take(width) {
                        *slot = b;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes an optional member absent and sets its bytes to zero. Does nothing if it is already absent.
    ///
    /// # Errors
    /// Returns `record/access` if the last segment is not an optional member, and the errors of [`Accessor::is_present`].
    pub fn clear(&self, record: &mut [u8]) -> Result<()> {
        let Some(Guard::Bit { byte, mask }) = self.own_bit() else {
            return Err(self.not("an optional member"));
        };
        if !self.is_present(record)? {
            return Ok(());
        }
        let (byte, mask) = (*byte, *mask);
        let len = record.len();
        let Some(bytes) = record.get_mut(self.start..self.end) else {
            return Err(LENGTH
                .broken(format!("found {len} bytes for a record of {} bytes", self.record.size)));
        };
        bytes.fill(0);
        if let Some(bits) = record.get_mut(byte) {
            *bits &= !mask;
        }
        Ok(())
    }

    fn own_bit(&self) -> Option<&Guard> {
        self.guards.last().filter(|g| matches!(g, Guard::Bit { .. }) && self.last_is_optional)
    }

    #[cold]
    fn short(&self, record: &[u8]) -> crate::Error {
        LENGTH.broken(format!(
            "found {} bytes for a record of {} bytes",
            record.len(),
            self.record.size
        ))
    }

    #[cold]
    fn not(&self, what: &str) -> crate::Error {
        let kind = match &self.leaf {
            Leaf::Scalar(scalar) => scalar.as_str(),
            Leaf::Enum(_) => "Enum",
            Leaf::String => "String",
            Leaf::Bytes => "Bytes",
            Leaf::Record => "Record",
            Leaf::Elements(_) | Leaf::Fixed(_) => "Array",
            Leaf::Union { .. } => "Union",
            Leaf::Whole => "Struct or Tensor",
        };
        ACCESS.broken(format!("a `TypeDef:{kind}` is not {what}"))
    }
}

#[cold]
fn bad_tag(tag: u32, variants: usize) -> crate::Error {
    UNION_TAG.broken(format!("tag {tag} is out of range for a union with {variants} variants"))
}
