//! Generates WGSL functions that read records from a buffer of words, and structs with the layout of the records.
//!
//! WGSL has numbers of four bytes, and strides that are multiples of four. Functions read every member of fixed
//! size, at any offset. A WGSL struct contains the members whose layout WGSL supports, and words in place of all
//! others.

mod names;

use super::name::Names;
use super::{bytes, describe, join, no_mirror};
use crate::dtype::TensorDType;
use crate::error::Result;
use crate::kinds::{IndexWidth, Kind, Len, Scalar, Struct, TypeId};
use crate::path::Path;
use crate::schema::Schema;
use names::{constant_name, field_name, function_name};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Largest number of members with a function; through `$ref`, a schema can have many more.
const MAX_MEMBERS: usize = 1000;
/// Largest number of enum values with a constant.
const MAX_VALUES: usize = 256;
/// Size of a word in bytes.
const WORD: u64 = 4;

/// See [`super::code`].
pub(super) fn code(schema: &Schema, ty: TypeId, name: &str) -> Result<String> {
    let kind = &schema.ty(ty).kind;
    if matches!(kind, Kind::String | Kind::Bytes | Kind::Record)
        || matches!(kind, Kind::Array(array) if matches!(array.len, Len::Variable { .. }))
    {
        return Err(no_mirror(kind, "WGSL"));
    }
    let stride = schema.extent(ty)?.stride;
    let mut readers = Readers::new(schema, name, stride);
    readers.all(ty)?;
    let mut text = format!(
        "// Reads records of {}. Made by `holdall schema code`.\n\n// The component `data` of the records. Change \
         the group and the binding as you need; if you use none of the functions below, you need not bind it.\n\
         @group(0) @binding(0) var<storage, read> {}: array<u32>;\n\nconst {}: u32 = {stride}u;\n",
        bytes(stride),
        readers.words,
        readers.stride,
    );
    readers.write_helpers(&mut text);
    text.push_str(&readers.out);
    if !matches!(kind, Kind::Struct(_)) {
        return Ok(text);
    }
    if stride == 0 || !stride.is_multiple_of(WORD) {
        let _ = write!(
            text,
            "\n// There is no struct of WGSL for records of {}: in WGSL, strides are multiples of 4.\n",
            bytes(stride)
        );
        return Ok(text);
    }
    let mut structs =
        Structs { schema, types: Names::default(), known: BTreeMap::new(), out: String::new() };
    structs.name_for(ty, name, stride)?;
    let _ = write!(
        text,
        "\n// The same bytes as a struct, for a binding that is `array<{name}>`. Members without a WGSL type are words.\n{}",
        structs.out.trim_start_matches('\n')
    );
    Ok(text)
}

/// A function that reads a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Helper {
    Byte,
    Half,
    Word,
    F16,
    E4m3,
    F64,
}

/// Generates the functions.
struct Readers<'s> {
    schema: &'s Schema,
    names: Names,
    prefix: String,
    words: String,
    stride: String,
    helpers: Vec<Helper>,
    /// Whether every word is at a multiple of four bytes.
    aligned: bool,
    left: usize,
    out: String,
}

/// The position of a value in a record.
#[derive(Clone)]
struct At {
    path: Path,
    offset: u64,
    /// For each array on the path, the distance between its elements in bytes and their number.
    steps: Vec<(u64, u64)>,
}

impl<'s> Readers<'s> {
    fn new(schema: &'s Schema, name: &str, stride_of_records: u64) -> Readers<'s> {
        let prefix = function_name(name);
        let mut names = Names::default();
        for helper in ["u8", "u16", "u32", "f16", "f8_e4m3", "f64"] {
            names.take(format!("{prefix}_{helper}"));
        }
        let (words, stride) =
            (format!("{prefix}_words"), format!("{}_STRIDE", prefix.to_ascii_uppercase()));
        names.take(words.clone());
        names.take(stride.clone());
        let (helpers, left) = (Vec::new(), MAX_MEMBERS);
        let (aligned, out) = (stride_of_records.is_multiple_of(WORD), String::new());
        Readers { schema, names, prefix, words, stride, helpers, aligned, left, out }
    }

    /// Generates a reader function for each fixed-size value in the type.
    fn all(&mut self, root: TypeId) -> Result<()> {
        let schema = self.schema;
        let mut ahead = vec![(At { path: Path::root(), offset: 0, steps: Vec::new() }, root)];
        while let Some((at, ty)) = ahead.pop() {
            if self.left == 0 {
                self.out.push_str("\n// … and more members, without functions.\n");
                break;
            }
            self.left = self.left.saturating_sub(1);
            let kind = &schema.ty(ty).kind;
            match kind {
                Kind::Struct(fields) => {
                    for member in fields.members.iter().rev() {
                        let path = join(&at.path, &member.name);
                        let offset = at.offset.saturating_add(member.offset.unwrap_or(0));
                        ahead.push((At { path, offset, ..at.clone() }, member.ty));
                    }
                    self.presence(&at, fields);
                }
                Kind::Union(union) => {
                    let tags: Vec<_> = union.variants.iter().map(|v| &*v.key).collect();
                    let tag = format!("the index of the variant of {}", describe(kind));
                    self.write_enum(&at, "tag", union.width, &tag, &tags);
                    let offset = at.offset.saturating_add(union.start.into());
                    for variant in union.variants.iter().rev() {
                        let path = join(&at.path, &variant.key);
                        ahead.push((At { path, offset, ..at.clone() }, variant.ty));
                    }
                }
                Kind::Array(array) => match array.len {
                    Len::Fixed(len) => {
                        let mut at = at;
                        at.steps.push((schema.extent(array.items)?.stride, len));
                        ahead.push((at, array.items));
                    }
                    Len::Variable { .. } => self.comment_on_missing_reader(&at, kind),
                },
                Kind::Tensor(tensor) => {
                    let len = schema.dims(tensor)?.iter().fold(1, |n: u64, d| n.saturating_mul(*d));
                    match tensor.dtype.and_then(|dtype| Some((dtype, element(dtype)?))) {
                        Some((dtype, scalar)) => {
                            let mut at = at;
                            at.steps.push((scalar.size().into(), len));
                            match is_bits(dtype) {
                                true => self.scalar(&at, scalar, &format!("the bits of {dtype}")),
                                false => self.scalar(&at, scalar, scalar.as_str()),
                            }
                        }
                        None => self.comment_on_missing_reader(&at, kind),
                    }
                }
                Kind::Scalar(scalar) => self.scalar(&at, *scalar, scalar.as_str()),
                Kind::Enum(e) => {
                    let values: Vec<_> = e.values.iter().map(|v| &**v).collect();
                    self.write_enum(&at, "", e.width, describe(kind), &values);
                }
                Kind::String | Kind::Bytes | Kind::Record => {
                    self.comment_on_missing_reader(&at, kind)
                }
            }
        }
        Ok(())
    }

    /// Generates functions that return whether an optional member is present.
    fn presence(&mut self, at: &At, fields: &Struct) {
        for member in &fields.members {
            let Some(bit) = member.presence else { continue };
            let path = join(&at.path, &member.name);
            let byte = at.offset.saturating_add(u64::from(bit / 8));
            let value = format!("(({} >> {}u) & 1u) != 0u", self.load(Helper::Byte), bit % 8);
            let note = "true if the member is present".to_owned();
            self.function(&At { path, offset: byte, ..at.clone() }, "has", &note, "bool", &value);
        }
    }

    /// Generates a function for an enum index or a union tag, and a constant for each value.
    fn write_enum(&mut self, at: &At, what: &str, width: IndexWidth, note: &str, values: &[&str]) {
        let helper = match width {
            IndexWidth::One => Helper::Byte,
            IndexWidth::Two => Helper::Half,
            IndexWidth::Four => Helper::Word,
        };
        let value = self.load(helper);
        self.reads_words_at(at, width == IndexWidth::Four);
        self.function(at, what, note, "u32", &value);
        let base = self.name(&at.path, what).to_ascii_uppercase();
        for (address, text) in values.iter().enumerate().take(MAX_VALUES) {
            let name = self.names.take(format!("{base}_{}", constant_name(text)));
            let _ = writeln!(self.out, "const {name}: u32 = {address}u;");
        }
        if values.len() > MAX_VALUES {
            let more = values.len().saturating_sub(MAX_VALUES);
            let _ = writeln!(self.out, "// … and {more} more, in the order of the schema.");
        }
    }

    fn scalar(&mut self, at: &At, scalar: Scalar, what: &str) {
        use Helper::*;
        let load = |helper, readers: &mut Self| readers.load(helper);
        let (ty, value) = match scalar {
            Scalar::Uint8 => ("u32", load(Byte, self)),
            Scalar::Uint16 => ("u32", load(Half, self)),
            Scalar::Uint32 => ("u32", load(Word, self)),
            Scalar::Int8 => ("i32", format!("bitcast<i32>({} << 24u) >> 24u", load(Byte, self))),
            Scalar::Int16 => ("i32", format!("bitcast<i32>({} << 16u) >> 16u", load(Half, self))),
            Scalar::Int32 => ("i32", format!("bitcast<i32>({})", load(Word, self))),
            Scalar::Float32 => ("f32", format!("bitcast<f32>({})", load(Word, self))),
            Scalar::BFloat16 => ("f32", format!("bitcast<f32>({} << 16u)", load(Half, self))),
            Scalar::Float16 => {
                let half = load(Half, self);
                ("f32", self.call(F16, &half))
            }
            Scalar::Float8E5M2 => {
                let byte = load(Byte, self);
                ("f32", self.call(F16, &format!("{byte} << 8u")))
            }
            Scalar::Float8E4M3 => {
                let byte = load(Byte, self);
                ("f32", self.call(E4m3, &byte))
            }
            Scalar::Boolean => ("bool", format!("{} != 0u", load(Byte, self))),
            Scalar::Int64 | Scalar::Uint64 | Scalar::Timestamp => {
                ("vec2<u32>", format!("vec2<u32>({}, {})", load(Word, self), self.word(4)))
            }
            Scalar::Float64 => {
                let (low, high) = (load(Word, self), self.word(4));
                ("f32", self.call(F64, &format!("{low}, {high}")))
            }
            Scalar::Complex64 => {
                let (re, im) = (load(Word, self), self.word(4));
                ("vec2<f32>", format!("vec2<f32>(bitcast<f32>({re}), bitcast<f32>({im}))"))
            }
            Scalar::Complex128 => {
                let (low, high) = (load(Word, self), self.word(4));
                let re = self.call(F64, &format!("{low}, {high}"));
                let im = self.call(F64, &format!("{}, {}", self.word(8), self.word(12)));
                ("vec2<f32>", format!("vec2<f32>({re}, {im})"))
            }
        };
        self.reads_words_at(at, scalar.size() >= 4);
        let note = match scalar {
            Scalar::Int64 | Scalar::Uint64 => ", the low word first".to_owned(),
            Scalar::Timestamp => ": nanoseconds since 1970, the low word first".to_owned(),
            Scalar::Float64 | Scalar::Complex128 => {
                ", rounded to nearest; below 2^-126 it is 0".to_owned()
            }
            _ => String::new(),
        };
        self.function(at, "", &format!("{what}{note}"), ty, &value);
    }

    /// Updates `aligned` for a value at this position. `is_words` tells whether the value is read as words.
    fn reads_words_at(&mut self, at: &At, is_words: bool) {
        let steps = at.steps.iter().all(|(step, _)| step.is_multiple_of(WORD));
        self.aligned &= !is_words || (at.offset.is_multiple_of(WORD) && steps);
    }

    /// Writes a comment on a member that has no reader function, with the reason.
    fn comment_on_missing_reader(&mut self, at: &At, kind: &Kind) {
        let why = match kind {
            Kind::Tensor(_) => "its elements are not whole bytes",
            _ => "its data is in the component `blob_data`",
        };
        let _ = write!(
            self.out,
            "\n// {}: {}, without a function: {why}.\n",
            comment_path(&at.path),
            describe(kind)
        );
    }

    /// Returns a call of `helper` at the current offset.
    fn load(&mut self, helper: Helper) -> String {
        self.helpers.push(helper);
        self.helpers.extend((helper == Helper::Half).then_some(Helper::Byte));
        let name = match helper {
            Helper::Byte => "u8",
            Helper::Half => "u16",
            _ => "u32",
        };
        format!("{}_{name}(at)", self.prefix)
    }

    fn word(&self, distance: u32) -> String {
        format!("{}_u32(at + {distance}u)", self.prefix)
    }

    fn call(&mut self, helper: Helper, argument: &str) -> String {
        self.helpers.push(helper);
        let name = match helper {
            Helper::F16 => "f16",
            Helper::E4m3 => "f8_e4m3",
            _ => "f64",
        };
        format!("{}_{name}({argument})", self.prefix)
    }

    fn name(&self, path: &Path, what: &str) -> String {
        let path = function_name(&path.to_string());
        let parts = [&*self.prefix, what, &*path];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
    }

    fn function(&mut self, at: &At, what: &str, note: &str, ty: &str, value: &str) {
        let name = self.name(&at.path, what);
        let name = self.names.take(name);
        let indices: Vec<String> = (0..at.steps.len()).map(|n| format!("i{n}")).collect();
        let params: String = indices.iter().map(|i| format!(", {i}: u32")).collect();
        let mut address = format!("record * {}", self.stride);
        if at.offset > 0 {
            let _ = write!(address, " + {}u", at.offset);
        }
        let mut lens = String::new();
        for (i, (step, len)) in indices.iter().zip(&at.steps) {
            let _ = write!(address, " + {i} * {step}u");
            let _ = write!(lens, "[{len}]");
        }
        let lens_text = if lens.is_empty() { String::new() } else { format!(" {lens}") };
        let _ = write!(
            self.out,
            "\n// {}: {note}{lens_text}.\nfn {name}(record: u32{params}) -> {ty} {{\n    let at = {address};\n    return {value};\n}}\n",
            comment_path(&at.path)
        );
    }

    fn write_helpers(&self, text: &mut String) {
        let has = |helper| self.helpers.contains(&helper);
        let (p, words) = (&self.prefix, &self.words);
        if has(Helper::Byte) {
            let _ = write!(
                text,
                "\nfn {p}_u8(at: u32) -> u32 {{\n    return ({words}[at >> 2u] >> ((at & 3u) * 8u)) & 0xffu;\n}}\n"
            );
        }
        if has(Helper::Half) {
            let _ = write!(
                text,
                "\nfn {p}_u16(at: u32) -> u32 {{\n    return {p}_u8(at) | ({p}_u8(at + 1u) << 8u);\n}}\n"
            );
        }
        if has(Helper::Word) {
            let body = match self.aligned {
                true => format!("    return {words}[at >> 2u];\n"),
                false => format!(
                    "    let low = {words}[at >> 2u];\n    let by = (at & 3u) * 8u;\n    if by == 0u {{\n        return low;\n    \
                     }}\n    return (low >> by) | ({words}[(at >> 2u) + 1u] << (32u - by));\n"
                ),
            };
            let _ = write!(text, "\nfn {p}_u32(at: u32) -> u32 {{\n{body}}}\n");
        }
        for (helper, body) in [(Helper::F16, F16), (Helper::E4m3, E4M3), (Helper::F64, F64)] {
            if has(helper) {
                text.push_str(&body.replace("PREFIX", p));
            }
        }
    }
}

/// Subnormal halves are converted to normal floats, so that nothing is flushed to zero.
const F16: &str = "
fn PREFIX_f16(half: u32) -> f32 {
    let sign = (half & 0x8000u) << 16u;
    let exponent = (half >> 10u) & 0x1fu;
    let fraction = half & 0x3ffu;
    if exponent == 0u {
        return bitcast<f32>(bitcast<u32>(f32(fraction) * 5.9604644775390625e-8) | sign);
    }
    let wide = select(exponent + 112u, 0xffu, exponent == 0x1fu);
    return bitcast<f32>(sign | (wide << 23u) | (fraction << 13u));
}
";

const E4M3: &str = "
fn PREFIX_f8_e4m3(byte: u32) -> f32 {
    let sign = (byte & 0x80u) << 24u;
    let exponent = (byte >> 3u) & 0xfu;
    let fraction = byte & 7u;
    if (byte & 0x7fu) == 0x7fu {
        return bitcast<f32>(sign | 0x7fc00000u);
    }
    if exponent == 0u {
        return bitcast<f32>(bitcast<u32>(f32(fraction) * 0.001953125) | sign);
    }
    return bitcast<f32>(sign | ((exponent + 120u) << 23u) | (fraction << 20u));
}
";

const F64: &str = "
fn PREFIX_f64(low: u32, high: u32) -> f32 {
    let sign = high & 0x80000000u;
    let exponent = (high >> 20u) & 0x7ffu;
    let fraction = ((high & 0xfffffu) << 3u) | (low >> 29u);
    let rest = low & 0x1fffffffu;
    if exponent == 0x7ffu {
        let quiet = select(0u, 0x400000u, (fraction | rest) != 0u);
        return bitcast<f32>(sign | 0x7f800000u | quiet | fraction);
    }
    if exponent < 897u {
        return bitcast<f32>(sign);
    }
    if exponent > 1150u {
        return bitcast<f32>(sign | 0x7f800000u);
    }
    let up = rest > 0x10000000u || (rest == 0x10000000u && (fraction & 1u) == 1u);
    return bitcast<f32>(sign | ((((exponent - 896u) << 23u) | fraction) + select(0u, 1u, up)));
}
";

/// Generates the structs.
struct Structs<'s> {
    schema: &'s Schema,
    types: Names,
    /// The generated name for a type and a length.
    known: BTreeMap<(TypeId, u64), String>,
    out: String,
}

impl Structs<'_> {
    /// Returns the name of a struct with the layout of a type in `len` bytes.
    fn name_for(&mut self, ty: TypeId, name: &str, len: u64) -> Result<Option<String>> {
        let Kind::Struct(fields) = &self.schema.ty(ty).kind else { return Ok(None) };
        if let Some(known) = self.known.get(&(ty, len)) {
            return Ok(Some(known.clone()));
        }
        let name = self.types.take(name.to_owned());
        let (mut body, mut names, mut end) = (String::new(), Names::default(), 0u64);
        let mut members: Vec<_> = fields.members.iter().collect();
        members.sort_by_key(|member| member.offset);
        for member in members {
            let offset = member.offset.unwrap_or(0);
            let size = self.schema.extent(member.ty)?.size;
            let inner = format!("{name}{}", Names::type_name(&member.name));
            let fits = offset.is_multiple_of(WORD)
                && size.is_multiple_of(WORD)
                && size > 0
                && offset >= end;
            let Some(text) = (if fits { self.ty(member.ty, &inner)? } else { None }) else {
                continue;
            };
            fill(&mut body, &mut names, end, offset);
            let field = names.take(field_name(&member.name));
            let _ = writeln!(body, "    {field}: {text},");
            end = offset.saturating_add(size);
        }
        fill(&mut body, &mut names, end, len);
        let _ = write!(self.out, "\nstruct {name} {{\n{body}}}\n");
        self.known.insert((ty, len), name.clone());
        Ok(Some(name))
    }

    /// Returns the WGSL type that has the same bytes as the type `ty` if it starts at a multiple of four bytes. Returns
    /// `None` if WGSL has no such type.
    fn ty(&mut self, ty: TypeId, name: &str) -> Result<Option<String>> {
        let schema = self.schema;
        Ok(match &schema.ty(ty).kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).map(str::to_owned),
            Kind::Enum(e) => (e.width == IndexWidth::Four).then(|| "u32".to_owned()),
            Kind::Tensor(tensor) => {
                let len = schema.dims(tensor)?.iter().fold(1, |n: u64, d| n.saturating_mul(*d));
                let scalar = tensor.dtype.and_then(element).and_then(scalar_type);
                scalar.map(|scalar| format!("array<{scalar}, {len}>"))
            }
            Kind::Array(array) => {
                let (Len::Fixed(len), stride) = (array.len, schema.extent(array.items)?.stride)
                else {
                    return Ok(None);
                };
                // The last element of a struct with padding is not followed by padding.
                let item = match &schema.ty(array.items).kind {
                    _ if schema.extent(array.items)?.size != stride => None,
                    Kind::Struct(_) if stride.is_multiple_of(WORD) => {
                        self.name_for(array.items, name, stride)?
                    }
                    Kind::Struct(_) => None,
                    _ => self.ty(array.items, name)?,
                };
                item.map(|item| format!("array<{item}, {len}>"))
            }
            Kind::Struct(_) => self.name_for(ty, name, schema.extent(ty)?.size)?,
            Kind::Union(_) | Kind::String | Kind::Bytes | Kind::Record => None,
        })
    }
}

/// Adds words as padding between two offsets.
fn fill(body: &mut String, names: &mut Names, from: u64, to: u64) {
    let words = to.saturating_sub(from) / WORD;
    if words > 0 {
        let name = names.take(format!("words_{from}"));
        let _ = writeln!(body, "    {name}: array<u32, {words}>,");
    }
}

/// Returns the WGSL type that has the same bytes as a scalar that starts at a multiple of four bytes.
fn scalar_type(scalar: Scalar) -> Option<&'static str> {
    match scalar {
        Scalar::Int32 => Some("i32"),
        Scalar::Uint32 => Some("u32"),
        Scalar::Float32 => Some("f32"),
        Scalar::Complex64 => Some("array<f32, 2>"),
        Scalar::Int64 | Scalar::Uint64 | Scalar::Timestamp | Scalar::Float64 => {
            Some("array<u32, 2>")
        }
        Scalar::Complex128 => Some("array<u32, 4>"),
        _ => None,
    }
}

/// Returns the scalar with the bits of a tensor's element, if there is one.
fn element(dtype: TensorDType) -> Option<Scalar> {
    Some(match dtype {
        TensorDType::F4 | TensorDType::F6_E2M3 | TensorDType::F6_E3M2 => return None,
        TensorDType::Bool => Scalar::Boolean,
        TensorDType::U8
        | TensorDType::F8_E8M0
        | TensorDType::F8_E4M3Fnuz
        | TensorDType::F8_E5M2Fnuz => Scalar::Uint8,
        TensorDType::I8 => Scalar::Int8,
        TensorDType::F8_E5M2 => Scalar::Float8E5M2,
        TensorDType::F8_E4M3 => Scalar::Float8E4M3,
        TensorDType::I16 => Scalar::Int16,
        TensorDType::U16 => Scalar::Uint16,
        TensorDType::F16 => Scalar::Float16,
        TensorDType::Bf16 => Scalar::BFloat16,
        TensorDType::I32 => Scalar::Int32,
        TensorDType::U32 => Scalar::Uint32,
        TensorDType::F32 => Scalar::Float32,
        TensorDType::C64 => Scalar::Complex64,
        TensorDType::F64 => Scalar::Float64,
        TensorDType::I64 => Scalar::Int64,
        TensorDType::U64 => Scalar::Uint64,
    })
}

/// Returns `true` if elements are read as bits, because neither WGSL nor a scalar has such numbers.
fn is_bits(dtype: TensorDType) -> bool {
    use TensorDType::{F8_E4M3Fnuz, F8_E5M2Fnuz, F8_E8M0};
    matches!(dtype, F8_E8M0 | F8_E4M3Fnuz | F8_E5M2Fnuz)
}

/// Formats a path on one line, for a comment.
fn comment_path(path: &Path) -> String {
    let text = path.to_string();
    match text.is_empty() {
        true => "the record".to_owned(),
        false => {
            text.chars().map(|c| if c.is_control() || is_break(c) { ' ' } else { c }).collect()
        }
    }
}

/// Returns `true` for characters, other than control characters, that end a line in WGSL.
fn is_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}
