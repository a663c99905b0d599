//! Converts JSON to the bytes of records.

use super::fail::{Fail, Outcome};
use super::input::{RecordInput, ValueInput};
use super::number::{Element, Num, expect, small_code};
use super::rules::{
    BASE64, BOOL_BYTE, COUNT, ENUM_VALUE, LENGTH, MISSING_MEMBER, RANGE, TYPE, UNION_KEY,
    UNKNOWN_MEMBER,
};
use super::{Entry, Heap};
use crate::dtype::TensorDType;
use crate::error::{Error, Escape as _, Remedy, Result};
use crate::extent::get;
use crate::kinds::{Array, Enum, Kind, Len, Struct, TensorType, TypeId, Union};
use crate::limits::SchemaLimits;
use crate::path::Segment;
use crate::rules::OPEN_SHAPE;
use crate::schema::Schema;
use data_encoding::BASE64 as STANDARD;
use holdall_collections::DebugUnwrap;
use holdall_json::{DUPLICATE_KEY, Reader, Token};
use serde_json::Value;

/// Encodes values of one type as records. Reuses its memory, so that encoding many records allocates almost nothing.
#[derive(Debug)]
pub struct Encoder<'s> {
    schema: &'s Schema,
    ty: TypeId,
    size: usize,
    max_depth: usize,
    lenience: Lenience,
    tools: Tools,
}

/// How to treat members that a struct does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// Returns the error `record/unknown-member`.
    #[default]
    Refuse,
    /// Skips unknown members.
    Ignore,
}

/// The meaning of `null` for an optional member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Null {
    /// A value, which is invalid for every kind.
    #[default]
    Value,
    /// The member is absent.
    Absent,
}

/// Options for input that is accepted in addition to section 5.2.
#[derive(Debug, Clone, Copy)]
struct Lenience {
    unknown: Unknown,
    null: Null,
}

/// Reused memory.
#[derive(Debug, Default)]
struct Tools {
    /// For keys and strings with escapes.
    text: String,
    /// For elements of variable arrays before their number is known.
    spare: Vec<Vec<u8>>,
}

impl<'s> Encoder<'s> {
    /// Creates an encoder of values of this type.
    ///
    /// # Errors
    /// Returns `schema/open-shape` if a symbol has no number, `schema/size-overflow` if a record does not fit in this
    /// machine's memory.
    pub fn new(schema: &'s Schema, ty: TypeId, limits: &SchemaLimits) -> Result<Encoder<'s>> {
        let size = crate::extent::in_memory(schema.extent(ty)?.size)?;
        Ok(Encoder {
            schema,
            ty,
            size,
            max_depth: limits.json_depth(),
            lenience: Lenience { unknown: Unknown::Refuse, null: Null::Value },
            tools: Tools::default(),
        })
    }

    /// Sets how to treat members that structs do not have.
    pub fn with_unknown(mut self, unknown: Unknown) -> Encoder<'s> {
        self.lenience.unknown = unknown;
        self
    }

    /// Sets the meaning of `null` for an optional member.
    pub fn with_null(mut self, null: Null) -> Encoder<'s> {
        self.lenience.null = null;
        self
    }

    /// Returns the size of a record in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Encodes JSON text into `record`. The data of entries is appended to the heap.
    ///
    /// # Errors
    /// Returns an error of the `json/…` rules or of those in section 5.2; `record/length` if `record` does not have the
    /// size of a record; and the errors of the heap. After an error, `record` and the heap may contain part of the
    /// value.
    pub fn text(&mut self, json: &[u8], record: &mut [u8], heap: &mut impl Heap) -> Result<()> {
        let mut reader = Reader::new(json, 0, self.max_depth)?;
        self.input(&mut reader, record, heap)?;
        reader.end()
    }

    /// Encodes a JSON value into `record`. The data of entries is appended to the heap.
    ///
    /// # Errors
    /// Returns the errors of [`Encoder::text`], except for `json/…`.
    pub fn value(&mut self, json: &Value, record: &mut [u8], heap: &mut impl Heap) -> Result<()> {
        self.input(&mut ValueInput::new(json), record, heap)
    }

    /// Encodes a value of any source into `record`. The data of entries is appended to the heap.
    ///
    /// # Errors
    /// Returns the errors of [`Encoder::value`] and those of `input`.
    pub fn input<I: RecordInput, H: Heap>(
        &mut self,
        input: &mut I,
        record: &mut [u8],
        heap: &mut H,
    ) -> Result<()> {
        if record.len() != self.size {
            let message =
                format!("found {} bytes for a record of {} bytes", record.len(), self.size);
            return Err(LENGTH.broken(message));
        }
        record.fill(0);
        let Encoder { schema, lenience, tools, .. } = self;
        let mut run = Run { schema, lenience: *lenience, tools, heap };
        let is_array = input.peek()? == Token::Array;
        run.value(input, self.ty, record).map_err(|f| {
            let is_struct = get(&schema.types, self.ty)
                .is_ok_and(|t| matches!(t.kind, Kind::Struct(_) | Kind::Union(_)));
            let f = if is_array && is_struct { f.advised(Remedy::ReadArray) } else { f };
            f.into_error()
        })
    }
}

struct Run<'r, H> {
    schema: &'r Schema,
    lenience: Lenience,
    tools: &'r mut Tools,
    heap: &'r mut H,
}

impl<H: Heap> Run<'_, H> {
    /// Encodes one value of a type. `out` is all zero and has the size of the type.
    fn value<I: RecordInput>(&mut self, input: &mut I, ty: TypeId, out: &mut [u8]) -> Outcome<()> {
        let schema = self.schema;
        let found = get(&schema.types, ty)?;
        if let Some(meaning) = found.meaning.as_ref().filter(|meaning| meaning.is_numeric())
            && input.peek()? == Token::String
        {
            let text = input.string(&mut self.tools.text)?;
            let wrong = || {
                let message =
                    format!("found `{}`, expected {}", text.escaped(), meaning.expected());
                RANGE.broken(message)
            };
            return Ok(meaning.encode(&found.kind, text, out).ok_or_else(wrong)?);
        }
        match &found.kind {
            Kind::Scalar(scalar) => {
                Num::from_scalar(*scalar).encode(input, out, &mut self.tools.text)?;
            }
            Kind::Struct(fields) => {
                expect(input, Token::Object, "a struct")?;
                self.fields(input, fields, None, out)?;
            }
            Kind::Union(union) => self.union(input, union, out)?,
            Kind::Enum(e) => {
                expect(input, Token::String, "a string of an enum")?;
                let index = enum_index(e, input.string(&mut self.tools.text)?)?.to_le_bytes();
                copy(out, &index);
            }
            Kind::String => {
                expect(input, Token::String, "a string")?;
                let text = input.string(&mut self.tools.text)?;
                let entry = append(self.heap, text.as_bytes(), 1)?;
                copy(out, &entry.to_bytes());
            }
            Kind::Bytes => self.base64(input, out)?,
            Kind::Record => {
                expect(input, Token::Object, "an object")?;
                let text = input.object_text(&mut self.tools.text)?;
                let entry = append(self.heap, text.as_bytes(), 1)?;
                copy(out, &entry.to_bytes());
            }
            Kind::Array(array) => self.array(input, array, out)?,
            Kind::Tensor(tensor) => self.tensor(input, tensor, out)?,
        }
        Ok(())
    }

    /// Encodes an object as a struct. `skip` is the discriminator of the union that contains it.
    fn fields<I: RecordInput>(
        &mut self,
        input: &mut I,
        fields: &Struct,
        skip: Option<&str>,
        out: &mut [u8],
    ) -> Outcome<()> {
        input.begin_object()?;
        let mut seen = Seen::new(fields.members.len());
        let mut discriminators = 0u32;
        let mut last = None;
        while let Some(key) = input.next_key(&mut self.tools.text)? {
            // Most writers use the order of the schema or that of the names, so these are tried first.
            let is_it = |index: &usize| fields.members.get(*index).is_some_and(|m| *m.name == *key);
            let by_index = last.map_or(0, |last: usize| last.saturating_add(1));
            let index = Some(by_index)
                .filter(is_it)
                .or_else(|| fields.next_by_name(last).filter(is_it))
                .or_else(|| fields.index_of(key));
            let Some(index) = index else {
                if skip == Some(key) {
                    discriminators = discriminators.saturating_add(1);
                    if discriminators > 1 {
                        return Err(twice(key).into());
                    }
                    input.skip()?;
                    continue;
                }
                if self.lenience.unknown == Unknown::Ignore {
                    input.skip()?;
                    continue;
                }
                let message = format!("unknown member `{}`", key.escaped());
                return Err(UNKNOWN_MEMBER.broken(message).into());
            };
            if !seen.insert(index) {
                return Err(twice(key).into());
            }
            last = Some(index);
            self.member(input, fields, index, out)?;
        }
        if seen.count == fields.members.len() {
            return Ok(());
        }
        self.missing(fields, &seen, out)
    }

    fn member<I: RecordInput>(
        &mut self,
        input: &mut I,
        fields: &Struct,
        index: usize,
        out: &mut [u8],
    ) -> Outcome<()> {
        let Some(member) = fields.members.get(index) else { return Ok(()) };
        let mut is_null = false;
        if let Some(bit) = member.presence {
            is_null = input.peek()? == Token::Null;
            if is_null && self.lenience.null == Null::Absent {
                return Ok(input.skip()?);
            }
            let at = usize::try_from(bit / 8).ok();
            if let Some(byte) = at.and_then(|at| out.get_mut(at)) {
                *byte |= 1 << (bit % 8);
            }
        }
        let slot = self.slot(member.offset, member.ty, out)?;
        self.value(input, member.ty, slot).map_err(|f| {
            let f = if is_null { f.advised(Remedy::NullIsAbsent) } else { f };
            f.inside(Segment::Name(member.name.clone()))
        })
    }

    /// Encodes the defaults of required members that were absent.
    fn missing(&mut self, fields: &Struct, seen: &Seen, out: &mut [u8]) -> Outcome<()> {
        for (index, member) in fields.members.iter().enumerate() {
            if seen.contains(index) || member.presence.is_some() {
                continue;
            }
            let Some(default) = &member.default else {
                let message = format!("missing member `{}`", member.name.escaped());
                return Err(MISSING_MEMBER.broken(message).into());
            };
            self.member(&mut ValueInput::new(default), fields, index, out)?;
        }
        Ok(())
    }

    fn union<I: RecordInput>(
        &mut self,
        input: &mut I,
        union: &Union,
        out: &mut [u8],
    ) -> Outcome<()> {
        expect(input, Token::Object, "a union")?;
        let tag = self.union_tag(&mut input.clone(), union)?;
        let Some(variant) = union.variants.get(tag) else { return Ok(()) };
        copy(out.get_mut(..width(union.width.bytes())).debug_unwrap(), &tag.to_le_bytes());
        let schema = self.schema;
        let Kind::Struct(fields) = &get(&schema.types, variant.ty)?.kind else { return Ok(()) };
        let slot = self.slot(Some(u64::from(union.start)), variant.ty, out)?;
        self.fields(input, fields, Some(&union.discriminator), slot)
            .map_err(|f| f.inside(Segment::Name(variant.key.clone())))
    }

    /// Looks for the discriminator, which most writers put first.
    fn union_tag<I: RecordInput>(&mut self, ahead: &mut I, union: &Union) -> Result<usize> {
        let text = &mut self.tools.text;
        let name = &*union.discriminator;
        ahead.begin_object()?;
        loop {
            match ahead.next_key(text)? {
                None => {
                    let message = format!("missing member `{}`", name.escaped());
                    return Err(UNION_KEY.broken(message));
                }
                Some(key) if key == name => break,
                Some(_) => ahead.skip()?,
            }
        }
        if ahead.peek()? != Token::String {
            let message = format!("the discriminator `{}` is not a string", name.escaped());
            return Err(UNION_KEY.broken(message));
        }
        let key = ahead.string(text)?;
        union.tag(key).ok_or_else(|| {
            let message = format!("unknown variant `{}`", key.escaped());
            UNION_KEY.broken(message)
        })
    }

    fn base64<I: RecordInput>(&mut self, input: &mut I, out: &mut [u8]) -> Outcome<()> {
        let mut bytes = self.tools.spare.pop().unwrap_or_default();
        bytes.clear();
        if !input.bytes(&mut bytes)? {
            expect(input, Token::String, "base64")?;
            base64(input.string(&mut self.tools.text)?, &mut bytes)?;
        }
        let entry = append(self.heap, &bytes, 1)?;
        self.tools.spare.push(bytes);
        copy(out, &entry.to_bytes());
        Ok(())
    }

    fn array<I: RecordInput>(
        &mut self,
        input: &mut I,
        array: &Array,
        out: &mut [u8],
    ) -> Outcome<()> {
        expect(input, Token::Array, "an array")?;
        if let Some(dtype) = self.dtype_of(array.items)
            && self.block(input, array, dtype, out)?
        {
            return Ok(());
        }
        input.begin_array()?;
        let items = self.schema.extent(array.items)?;
        let (stride, size) = (width64(items.stride), width64(items.size));
        let mut at = 0usize;
        match array.len {
            Len::Fixed(len) => {
                let wrong =
                    |found: &str| COUNT.broken(format!("expected {len} elements, found {found}"));
                while input.next_item()? {
                    let start = at.saturating_mul(stride);
                    let end = start.saturating_add(size);
                    let slot = if at as u64 >= len { None } else { out.get_mut(start..end) };
                    let Some(slot) = slot else { return Err(wrong("more").into()) };
                    self.value(input, array.items, slot).map_err(|f| f.inside(index(at)))?;
                    at = at.saturating_add(1);
                }
                if at as u64 != len {
                    return Err(wrong(&at.to_string()).into());
                }
            }
            Len::Variable { .. } => {
                let mut bytes = self.tools.spare.pop().unwrap_or_default();
                bytes.clear();
                while input.next_item()? {
                    let start = bytes.len();
                    bytes.resize(start.saturating_add(stride), 0);
                    let slot = bytes.get_mut(start..).and_then(|s| s.get_mut(..size));
                    let slot = slot.unwrap_or_default();
                    self.value(input, array.items, slot).map_err(|f| f.inside(index(at)))?;
                    at = at.saturating_add(1);
                }
                let entry = append(self.heap, &bytes, items.align)?;
                self.tools.spare.push(bytes);
                copy(out, &entry.to_bytes());
            }
        }
        Ok(())
    }

    fn tensor<I: RecordInput>(
        &mut self,
        input: &mut I,
        tensor: &TensorType,
        out: &mut [u8],
    ) -> Outcome<()> {
        let Some(dtype) = tensor.dtype else {
            return Err(OPEN_SHAPE.broken("the dtype of the tensor is not known").into());
        };
        if I::HAS_NESTED_TENSORS && input.peek()? != Token::Object {
            return self.nested_tensor(input, tensor, dtype, out);
        }
        expect(input, Token::Object, "a tensor")?;
        input.begin_object()?;
        let (mut has_dtype, mut has_shape, mut has_data) = (false, false, false);
        while let Some(key) = input.next_key(&mut self.tools.text)? {
            let seen = match key {
                "dtype" => &mut has_dtype,
                "shape" => &mut has_shape,
                "data" => &mut has_data,
                _ => {
                    let message = format!("unknown member `{}` of a tensor", key.escaped());
                    return Err(UNKNOWN_MEMBER.broken(message).into());
                }
            };
            if std::mem::replace(seen, true) {
                return Err(twice(key).into());
            }
            match key {
                "dtype" => {
                    expect(input, Token::String, "a dtype")?;
                    let found = input.string(&mut self.tools.text)?;
                    if found != dtype.as_str() {
                        let found = found.escaped();
                        let message = format!("expected the dtype {dtype}, found `{found}`");
                        return Err(TYPE.broken(message).into());
                    }
                }
                "shape" => self.shape(input, tensor)?,
                _ => self.elements(input, Num::from_dtype(dtype), dtype.bits(), out)?,
            }
        }
        if !has_data {
            return Err(MISSING_MEMBER.broken("missing member `data` of a tensor").into());
        }
        Ok(())
    }

    fn shape<I: RecordInput>(&mut self, input: &mut I, tensor: &TensorType) -> Outcome<()> {
        let wanted = self.schema.dims(tensor)?;
        expect(input, Token::Array, "a shape")?;
        input.begin_array()?;
        let mut found = Vec::new();
        while input.next_item()? {
            let mut bytes = [0; 8];
            Num::U64.encode(input, &mut bytes, &mut self.tools.text)?;
            found.push(u64::from_le_bytes(bytes));
            if found.len() > wanted.len() {
                break;
            }
        }
        if found != wanted {
            let message =
                format!("expected the shape {wanted:?}, found one that starts with {found:?}");
            return Err(TYPE.broken(message).into());
        }
        Ok(())
    }

    fn elements<I: RecordInput>(
        &mut self,
        input: &mut I,
        element: Element,
        bits: u64,
        out: &mut [u8],
    ) -> Outcome<()> {
        let bits = width64(bits);
        let len = out.len().saturating_mul(8).checked_div(bits).unwrap_or(0);
        let wrong = |found: &str| COUNT.broken(format!("expected {len} elements, found {found}"));
        expect(input, Token::Array, "the elements of a tensor")?;
        input.begin_array()?;
        let text = &mut self.tools.text;
        let mut at = 0usize;
        while input.next_item()? {
            if at >= len {
                return Err(wrong("more").into());
            }
            one_element(input, element, bits, at, text, out)
                .map_err(|e| Box::<Fail>::from(e).inside(index(at)))?;
            at = at.saturating_add(1);
        }
        if at == len { Ok(()) } else { Err(wrong(&at.to_string()).into()) }
    }

    /// Returns the element type of scalars.
    fn dtype_of(&self, ty: TypeId) -> Option<TensorDType> {
        match get(&self.schema.types, ty).ok()?.kind {
            Kind::Scalar(scalar) => scalar.dtype(),
            _ => None,
        }
    }

    /// Encodes an array whose elements the input has in one block. Returns `false` if it does not.
    fn block<I: RecordInput>(
        &mut self,
        input: &mut I,
        array: &Array,
        dtype: TensorDType,
        out: &mut [u8],
    ) -> Outcome<bool> {
        let mut bytes = self.tools.spare.pop().unwrap_or_default();
        bytes.clear();
        let found = input.block(dtype, &mut bytes)?;
        if let Some(shape) = &found {
            check_block(dtype, &bytes, shape)?;
            let [count] = shape[..] else {
                let message = format!("expected one dimension, found the shape {shape:?}");
                return Err(TYPE.broken(message).into());
            };
            match array.len {
                Len::Fixed(len) if len != count => {
                    let message = format!("expected {len} elements, found {count}");
                    return Err(COUNT.broken(message).into());
                }
                Len::Fixed(_) => copy(out, &bytes),
                Len::Variable { .. } => {
                    let align = self.schema.extent(array.items)?.align;
                    copy(out, &append(self.heap, &bytes, align)?.to_bytes());
                }
            }
        }
        self.tools.spare.push(bytes);
        Ok(found.is_some())
    }

    /// Encodes a tensor from a block of elements, or from nested arrays of numbers.
    fn nested_tensor<I: RecordInput>(
        &mut self,
        input: &mut I,
        tensor: &TensorType,
        dtype: TensorDType,
        out: &mut [u8],
    ) -> Outcome<()> {
        let dims = self.schema.dims(tensor)?;
        if dtype.bits().is_multiple_of(8) {
            let mut bytes = self.tools.spare.pop().unwrap_or_default();
            bytes.clear();
            if let Some(shape) = input.block(dtype, &mut bytes)? {
                if shape != dims {
                    return Err(wrong_shape(&dims, &shape).into());
                }
                check_block(dtype, &bytes, &shape)?;
                copy(out, &bytes);
                self.tools.spare.push(bytes);
                return Ok(());
            }
            self.tools.spare.push(bytes);
        }
        let (element, bits) = (Num::from_dtype(dtype), width64(dtype.bits()));
        let mut at = 0;
        nested(input, &dims, element, bits, &mut at, &mut self.tools.text, out)
    }

    /// Returns the bytes of a part of the value.
    #[inline]
    fn slot<'o>(&self, start: Option<u64>, ty: TypeId, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        let size = get(&self.schema.types, ty)?.size;
        let (Some(start), Some(size)) = (start, size) else {
            return Err(OPEN_SHAPE.broken("the size of a member is not known"));
        };
        let range = width64(start)..width64(start.saturating_add(size));
        let len = out.len();
        out.get_mut(range).ok_or_else(|| {
            LENGTH.broken(format!("a member ends after the {len} bytes of its record"))
        })
    }
}

/// Encodes element number `at` of a tensor.
fn one_element<I: RecordInput>(
    input: &mut I,
    element: Element,
    bits: usize,
    at: usize,
    text: &mut String,
    out: &mut [u8],
) -> Result<()> {
    let start = at.saturating_mul(bits);
    match element {
        Element::Whole(num) => {
            let (start, width) = (start / 8, bits / 8);
            let slot = out.get_mut(start..start.saturating_add(width));
            num.encode(input, slot.unwrap_or_default(), text)?;
        }
        Element::Bits(kind) => {
            let shifted = (small_code(kind, input, text)? << (start % 8)).to_le_bytes();
            let bytes = out.get_mut(start / 8..).debug_unwrap();
            for (slot, b) in bytes.iter_mut().zip(shifted) {
                *slot |= b;
            }
        }
    }
    Ok(())
}

/// Encodes nested arrays of these dimensions. `at` is the number of the next element. The recursion is bounded by the
/// number of dimensions in the schema.
fn nested<I: RecordInput>(
    input: &mut I,
    dims: &[u64],
    element: Element,
    bits: usize,
    at: &mut usize,
    text: &mut String,
    out: &mut [u8],
) -> Outcome<()> {
    let Some((len, rest)) = dims.split_first() else {
        one_element(input, element, bits, *at, text, out)?;
        *at = at.saturating_add(1);
        return Ok(());
    };
    expect(input, Token::Array, "an array of the tensor")?;
    input.begin_array()?;
    let mut count = 0u64;
    while input.next_item()? {
        if count >= *len {
            return Err(COUNT.broken(format!("expected {len} elements, found more")).into());
        }
        let index = Segment::Index(count);
        nested(input, rest, element, bits, at, text, out).map_err(|f| f.inside(index))?;
        count = count.saturating_add(1);
    }
    if count == *len {
        return Ok(());
    }
    Err(COUNT.broken(format!("expected {len} elements, found {count}")).into())
}

/// Checks the length of a block of elements, and that booleans are 0 or 1.
fn check_block(dtype: TensorDType, bytes: &[u8], shape: &[u64]) -> Result<()> {
    let width = dtype.bits() / 8;
    let wanted = shape.iter().fold(width, |all, len| all.saturating_mul(*len));
    if bytes.len() as u64 != wanted {
        let message = format!("{} bytes for elements of the shape {shape:?}", bytes.len());
        return Err(LENGTH.broken(message));
    }
    match bytes.iter().find(|b| **b > 1).filter(|_| dtype == TensorDType::Bool) {
        Some(byte) => Err(BOOL_BYTE.broken(format!("found the byte {byte}, not 0 or 1"))),
        None => Ok(()),
    }
}

#[cold]
fn wrong_shape(wanted: &[u64], found: &[u64]) -> Error {
    TYPE.broken(format!("expected the shape {wanted:?}, found {found:?}"))
}

/// The set of members that were present.
struct Seen {
    first: u64,
    rest: Vec<u64>,
    count: usize,
}

impl Seen {
    fn new(members: usize) -> Seen {
        Seen { first: 0, rest: vec![0; members / 64], count: 0 }
    }

    /// Adds a member. Returns whether it was new.
    #[inline]
    fn insert(&mut self, index: usize) -> bool {
        let word = match (index / 64).checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.rest.get_mut(at),
        };
        let Some(word) = word else { return false };
        let bit = 1u64 << (index % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count = self.count.saturating_add(usize::from(is_new));
        is_new
    }

    fn contains(&self, index: usize) -> bool {
        let word = match (index / 64).checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.rest.get(at),
        };
        word.is_some_and(|w| w & (1 << (index % 64)) != 0)
    }
}

#[inline]
fn append(heap: &mut impl Heap, bytes: &[u8], align: u32) -> Result<Entry> {
    if bytes.is_empty() {
        return Ok(Entry { offset: 0, len: 0 });
    }
    Ok(Entry { offset: heap.append(bytes, align)?, len: bytes.len() as u64 })
}

fn enum_index(e: &Enum, value: &str) -> Result<u32> {
    e.index_of(value).ok_or_else(|| {
        let value = value.escaped();
        ENUM_VALUE.broken(format!("`{value}` is not one of the {} values", e.values.len()))
    })
}

/// Copies as many bytes as fit.
#[inline]
fn copy(out: &mut [u8], bytes: &[u8]) {
    for (slot, b) in out.iter_mut().zip(bytes) {
        *slot = *b;
    }
}

fn index(at: usize) -> Segment {
    Segment::Index(at as u64)
}

/// Converts a size in memory, which the size of the record bounds.
fn width64(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn width(n: u32) -> usize {
    width64(u64::from(n))
}

/// Decodes base64 text and appends the bytes.
pub(super) fn base64(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let wrong = |e| BASE64.broken("this is not base64").because(e);
    let start = out.len();
    let most = STANDARD.decode_len(text.len()).map_err(wrong)?;
    out.resize(start.saturating_add(most), 0);
    let room = out.get_mut(start..).debug_unwrap();
    let len = STANDARD.decode_mut(text.as_bytes(), room).map_err(|e| wrong(e.error))?;
    out.truncate(start.saturating_add(len));
    Ok(())
}

#[cold]
fn twice(key: &str) -> Error {
    DUPLICATE_KEY.broken(format!("duplicate key `{}`", key.escaped()))
}
