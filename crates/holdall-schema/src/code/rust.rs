//! Generates Rust structs for `#[derive(Record)]`.

use super::name::{Names, is_plain};
use super::{bytes, describe, indented, no_mirror};
use crate::dtype::TensorDType;
use crate::error::{Escape as _, Result};
use crate::kinds::{Enum, Kind, Len, Scalar, Struct, TypeId};
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// See [`super::code`].
pub(super) fn code(schema: &Schema, ty: TypeId, name: &str) -> Result<String> {
    let mut all =
        Code { schema, types: Names::default(), known: BTreeMap::new(), out: String::new() };
    let kind = &schema.ty(ty).kind;
    let is_struct = matches!(kind, Kind::Struct(_));
    let inner = if is_struct { name.to_owned() } else { all.types.alias(name) };
    let Some(mirror) = all.mirror(ty, &inner)? else { return Err(no_mirror(kind, "Rust")) };
    let extent = schema.extent(ty)?;
    let mut text = format!(
        "// Records of {}, aligned to {}: `records.structs::<{name}>()` compares them with the schema.\n",
        bytes(extent.size),
        extent.align
    );
    text.push_str("// Made by `holdall schema code`.\n");
    if !is_struct {
        let _ = write!(all.out, "\npub type {name} = {};\n", mirror.text);
    }
    text.push_str(&all.out);
    Ok(text)
}

/// A Rust type with the layout of a type of the schema.
#[derive(Debug, Clone)]
struct Mirror {
    text: String,
    size: u64,
    align: u64,
    /// Whether it is or contains a struct with a stated alignment, which packed structs cannot contain.
    is_aligned: bool,
}

struct Code<'s> {
    schema: &'s Schema,
    types: Names,
    known: BTreeMap<TypeId, Mirror>,
    out: String,
}

impl Code<'_> {
    /// Returns the Rust type of a type, or `None` if Rust has no such type. A struct is called `name`.
    fn mirror(&mut self, ty: TypeId, name: &str) -> Result<Option<Mirror>> {
        let schema = self.schema;
        let number = |text: &str, size: u32| {
            let size = u64::from(size);
            Some(Mirror { text: text.to_owned(), size, align: size, is_aligned: false })
        };
        Ok(match &schema.ty(ty).kind {
            Kind::Scalar(Scalar::Complex64) => array(number("f32", 4), 2),
            Kind::Scalar(Scalar::Complex128) => array(number("f64", 8), 2),
            Kind::Scalar(scalar) => number(scalar_text(*scalar), scalar.size()),
            Kind::Enum(e) => number(index_type(e), e.width.bytes()),
            Kind::Array(items) => match items.len {
                Len::Fixed(len) => {
                    let item = self.mirror(items.items, name)?;
                    let stride = schema.extent(items.items)?.stride;
                    array(item.filter(|item| item.size == stride), len)
                }
                Len::Variable { .. } => None,
            },
            Kind::Tensor(tensor) => {
                let element = tensor.dtype.and_then(element_text);
                let mut mirror = element.and_then(|(text, size)| number(text, size));
                let dims = schema.dims(tensor)?;
                // A tensor without dimensions is an array of one element.
                let dims = if dims.is_empty() { vec![1] } else { dims };
                for len in dims.into_iter().rev() {
                    mirror = array(mirror, len);
                }
                mirror
            }
            Kind::Struct(fields) => match self.known.get(&ty) {
                Some(known) => Some(known.clone()),
                None => {
                    let mirror = self.structure(ty, fields, name)?;
                    self.known.insert(ty, mirror.clone());
                    Some(mirror)
                }
            },
            Kind::Union(_) | Kind::String | Kind::Bytes | Kind::Record => None,
        })
    }

    /// Writes a struct.
    fn structure(&mut self, ty: TypeId, fields: &Struct, name: &str) -> Result<Mirror> {
        let schema = self.schema;
        let extent = schema.extent(ty)?;
        let name = self.types.take(name.to_owned());
        let mut mirrors = Vec::with_capacity(fields.members.len());
        for member in &fields.members {
            let inner = format!("{name}{}", Names::type_name(&member.name));
            let mirror = match member.presence {
                None => self.mirror(member.ty, &inner)?,
                Some(_) => None,
            };
            let size = schema.extent(member.ty)?.size;
            mirrors.push(mirror.filter(|mirror| mirror.size == size));
        }
        let offset = |at: usize| fields.members.get(at).and_then(|m| m.offset).unwrap_or(0);
        let (own, mut widest) = (u64::from(extent.align), widest(&mirrors));
        let mut pack = packing(own, widest, &mirrors, offset);
        if pack.is_some() {
            for mirror in &mut mirrors {
                *mirror = mirror.take().filter(|mirror| !mirror.is_aligned);
            }
            widest = self::widest(&mirrors);
            pack = packing(own, widest, &mirrors, offset);
        }
        let (repr, align) = match pack {
            Some(pack) => (format!("C, packed({pack})"), pack.min(widest)),
            None if own > widest => (format!("C, align({own})"), own),
            None => ("C".to_owned(), widest),
        };
        let mut body = Body::default();
        if fields.presence_len > 0 {
            body.bytes(
                "presence",
                0,
                u64::from(fields.presence_len),
                "which optional members are there",
            );
        }
        for (at, (member, mirror)) in fields.members.iter().zip(&mirrors).enumerate() {
            match mirror {
                Some(mirror) => {
                    let align = pack.map_or(mirror.align, |pack| pack.min(mirror.align));
                    body.field(&member.name, offset(at), mirror, align, self.names_of(member.ty));
                }
                None => {
                    let kind = &schema.ty(member.ty).kind;
                    let maybe = if member.presence.is_some() { ", may be absent" } else { "" };
                    let what = format!("{}{maybe}: {}", describe(kind), member.name.escaped());
                    body.bytes(&member.name, offset(at), schema.extent(member.ty)?.size, &what);
                }
            }
        }
        if body.end.next_multiple_of(align.max(1)) != extent.size {
            body.bytes("end", body.end, extent.size.saturating_sub(body.end), "padding");
        }
        let is_snake = fields.members.iter().all(|m| !m.name.contains(|c: char| c.is_uppercase()));
        let allowed = if is_snake { "" } else { "#[allow(non_snake_case)]\n" };
        let out = &mut self.out;
        let _ = write!(
            out,
            "\n/// {}, aligned to {}.\n\
             #[derive(Clone, Copy, Debug, holdall::records::Record)]\n{allowed}#[repr({repr})]\npub struct {name} {{\n{}}}\n",
            bytes(extent.size),
            extent.align,
            indented(&body.fields, "    "),
        );
        if !body.names.is_empty() {
            let _ = write!(out, "\nimpl {name} {{\n{}}}\n", indented(&body.names, "    "));
        }
        let is_stated = own > widest || mirrors.iter().flatten().any(|m| m.is_aligned);
        let is_aligned = pack.is_none() && is_stated;
        Ok(Mirror { text: name, size: extent.size, align, is_aligned })
    }

    /// Returns the enum that a type is, or that the elements of an array are.
    fn names_of(&self, ty: TypeId) -> Option<&Enum> {
        match &self.schema.ty(ty).kind {
            Kind::Enum(e) => Some(e),
            Kind::Array(array) => self.names_of(array.items),
            _ => None,
        }
    }
}

/// The fields of a struct.
#[derive(Default)]
struct Body {
    fields: String,
    taken: Names,
    /// Constants with the values of enums.
    names: String,
    /// Number of bytes so far.
    end: u64,
}

impl Body {
    fn field(
        &mut self,
        name: &str,
        offset: u64,
        mirror: &Mirror,
        align: u64,
        names: Option<&Enum>,
    ) {
        if self.end.next_multiple_of(align.max(1)) < offset {
            self.bytes("gap", self.end, offset.saturating_sub(self.end), "padding");
        }
        let field = self.taken.take(field_name(name));
        if field.strip_prefix("r#").unwrap_or(&field) != name {
            let _ = writeln!(self.fields, "#[record(name = {name:?})]");
        }
        let _ = writeln!(self.fields, "pub {field}: {},", mirror.text);
        if let Some(e) = names {
            let plain = field.strip_prefix("r#").unwrap_or(&field).to_ascii_uppercase();
            let own = self.taken.take(format!("{plain}_NAMES"));
            let all: Vec<String> = e.values.iter().map(|value| format!("{:?}", &**value)).collect();
            let _ = write!(
                self.names,
                "/// The values of `{field}`, which stores the index of one.\npub const {own}: [&'static str; {}] = [{}];\n",
                all.len(),
                all.join(", ")
            );
        }
        self.end = offset.saturating_add(mirror.size);
    }

    /// Adds bytes that are not compared with the schema.
    fn bytes(&mut self, name: &str, offset: u64, size: u64, what: &str) {
        let gap = offset.saturating_sub(self.end);
        if gap > 0 {
            let field = self.taken.take("_gap".to_owned());
            let _ = writeln!(self.fields, "pub {field}: [u8; {gap}],");
        }
        if size > 0 {
            let field = self.taken.take(format!("_{}", Names::field_name(name)));
            let _ = writeln!(self.fields, "/// {}.\npub {field}: [u8; {size}],", doc(what));
        } else {
            let _ = writeln!(self.fields, "// No bytes: {}.", doc(what));
        }
        self.end = offset.saturating_add(size);
    }
}

/// Returns the largest alignment.
fn widest(mirrors: &[Option<Mirror>]) -> u64 {
    mirrors.iter().flatten().map(|m| m.align).max().unwrap_or(1)
}

/// Returns the `packed` value of a struct if its own alignment and those of its fields would not produce the right
/// offsets.
fn packing(
    own: u64,
    widest: u64,
    mirrors: &[Option<Mirror>],
    offset: impl Fn(usize) -> u64,
) -> Option<u64> {
    let fits = |pack: u64| {
        let mut all = mirrors.iter().enumerate();
        all.all(|(at, m)| {
            m.as_ref().is_none_or(|m| offset(at).is_multiple_of(m.align.min(pack).max(1)))
        })
    };
    if own >= widest && fits(widest) {
        return None;
    }
    let most = own.min(widest);
    let mut pack = if own < widest { most } else { most / 2 };
    while pack > 1 && !fits(pack) {
        pack /= 2;
    }
    Some(pack.max(1))
}

/// Returns an array of `len` elements, or `None` for an empty array.
fn array(item: Option<Mirror>, len: u64) -> Option<Mirror> {
    let item = item.filter(|_| len > 0)?;
    let size = item.size.checked_mul(len)?;
    Some(Mirror { text: format!("[{}; {len}]", item.text), size, ..item })
}

/// Returns a text for a comment of one line.
fn doc(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn scalar_text(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int8 => "i8",
        Scalar::Int16 => "i16",
        Scalar::Int32 => "i32",
        Scalar::Int64 | Scalar::Timestamp => "i64",
        Scalar::Uint16 => "u16",
        Scalar::Uint32 => "u32",
        Scalar::Uint64 => "u64",
        Scalar::Float16 => "half::f16",
        Scalar::BFloat16 => "half::bf16",
        Scalar::Float32 | Scalar::Complex64 => "f32",
        Scalar::Float64 | Scalar::Complex128 => "f64",
        Scalar::Boolean => "bool",
        Scalar::Uint8 | Scalar::Float8E4M3 | Scalar::Float8E5M2 => "u8",
    }
}

fn index_type(e: &Enum) -> &'static str {
    match e.width.bytes() {
        1 => "u8",
        2 => "u16",
        _ => "u32",
    }
}

/// Returns the Rust type of a tensor's elements and its size, or `None` if Rust has no such type.
fn element_text(dtype: TensorDType) -> Option<(&'static str, u32)> {
    Some(match dtype {
        TensorDType::Bool => ("bool", 1),
        TensorDType::U8 => ("u8", 1),
        TensorDType::I8 => ("i8", 1),
        TensorDType::I16 => ("i16", 2),
        TensorDType::U16 => ("u16", 2),
        TensorDType::F16 => ("half::f16", 2),
        TensorDType::Bf16 => ("half::bf16", 2),
        TensorDType::I32 => ("i32", 4),
        TensorDType::U32 => ("u32", 4),
        TensorDType::F32 => ("f32", 4),
        TensorDType::F64 => ("f64", 8),
        TensorDType::I64 => ("i64", 8),
        TensorDType::U64 => ("u64", 8),
        _ => return None,
    })
}

/// Returns the name of the field for a member.
fn field_name(member: &str) -> String {
    let name = if is_plain(member) { member.to_owned() } else { Names::field_name(member) };
    match name.as_str() {
        "self" | "Self" | "super" | "crate" => format!("{name}_"),
        word if KEYWORDS.contains(&word) => format!("r#{name}"),
        _ => name,
    }
}

/// Words that are only valid as `r#word`.
const KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];
