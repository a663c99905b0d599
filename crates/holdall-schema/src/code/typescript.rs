//! Generates TypeScript types for the JSON of records (section 5).

use super::name::{Names, is_plain};
use crate::dtype::TensorDType;
use crate::error::Result;
use crate::kinds::{Kind, Len, Scalar, Struct, TensorType, TypeId, Union};
use crate::schema::Schema;
use holdall_collections::DebugUnwrap;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Largest number of elements for which a fixed array becomes a tuple.
const TUPLE: u64 = 16;

/// See [`super::code`].
pub(super) fn code(schema: &Schema, ty: TypeId, name: &str) -> Result<String> {
    let mut all =
        Code { schema, types: Names::default(), known: BTreeMap::new(), out: String::new() };
    let is_named = matches!(schema.ty(ty).kind, Kind::Struct(_) | Kind::Union(_));
    let inner = if is_named { name.to_owned() } else { all.types.alias(name) };
    let root = all.ty(ty, &inner)?;
    if !is_named {
        let _ = write!(all.out, "\nexport type {name} = {root};\n");
    }
    let mut text =
        "// The JSON of records, as `holdall records` prints it. Made by `holdall schema code`.\n"
            .to_owned();
    if all.out.contains("Float") {
        text.push_str(FLOAT);
    }
    if all.out.contains("Integer") {
        text.push_str(INTEGER);
    }
    text.push_str(&all.out);
    Ok(text)
}

const FLOAT: &str = "
/** A float; what JSON has no number for is said by name. */
export type Float = number | { $float: \"nan\" | \"inf\" | \"-inf\" };
";
const INTEGER: &str = "
/** An integer of 64 bits: `JSON.parse` rounds it beyond 2^53, parsers that keep it give a bigint. */
export type Integer = number | bigint;
";

struct Code<'s> {
    schema: &'s Schema,
    types: Names,
    known: BTreeMap<TypeId, String>,
    out: String,
}

impl Code<'_> {
    /// Returns the TypeScript type of the values of a type. Structs and unions are called `name`.
    fn ty(&mut self, ty: TypeId, name: &str) -> Result<String> {
        let schema = self.schema;
        if let Some(known) = self.known.get(&ty) {
            return Ok(known.clone());
        }
        Ok(match &schema.ty(ty).kind {
            Kind::Scalar(scalar) => scalar_text(*scalar).to_owned(),
            Kind::Enum(e) => e.values.iter().map(|v| literal(v)).collect::<Vec<_>>().join(" | "),
            Kind::Array(array) => {
                let item = self.ty(array.items, name)?;
                match array.len {
                    Len::Fixed(len @ 0..=TUPLE) => {
                        let len = usize::try_from(len).debug_unwrap();
                        format!("[{}]", vec![item; len].join(", "))
                    }
                    _ => array_of(&item),
                }
            }
            Kind::Struct(fields) => {
                let own = self.types.take(name.to_owned());
                self.known.insert(ty, own.clone());
                self.structure(fields, &own)?;
                own
            }
            Kind::Union(union) => {
                let own = self.types.take(name.to_owned());
                self.known.insert(ty, own.clone());
                self.union(union, &own)?;
                own
            }
            Kind::String | Kind::Bytes => "string".to_owned(),
            Kind::Record => "{ [key: string]: unknown }".to_owned(),
            Kind::Tensor(tensor) => tensor_text(tensor, &schema.dims(tensor)?),
        })
    }

    fn structure(&mut self, fields: &Struct, name: &str) -> Result<()> {
        let mut body = String::new();
        for member in &fields.members {
            let inner = format!("{name}{}", Names::type_name(&member.name));
            let value = self.ty(member.ty, &inner)?;
            if let Some(note) = self.note(member.ty) {
                let _ = writeln!(body, "  /** {note} */");
            }
            let maybe = if member.presence.is_some() { "?" } else { "" };
            let key = if is_plain(&member.name) {
                member.name.to_string()
            } else {
                literal(&member.name)
            };
            let _ = writeln!(body, "  {key}{maybe}: {value};");
        }
        let _ = write!(self.out, "\nexport interface {name} {{\n{body}}}\n");
        Ok(())
    }

    fn union(&mut self, union: &Union, name: &str) -> Result<()> {
        let mut variants = String::new();
        for variant in &union.variants {
            let inner = format!("{name}{}", Names::type_name(&variant.key));
            let value = self.ty(variant.ty, &inner)?;
            let (key, tag) = (literal(&union.discriminator), literal(&variant.key));
            let _ = write!(variants, "\n  | ({{ {key}: {tag} }} & {value})");
        }
        let _ = write!(self.out, "\nexport type {name} ={variants};\n");
        Ok(())
    }

    /// Returns a comment on what the TypeScript type does not express.
    fn note(&self, ty: TypeId) -> Option<String> {
        match &self.schema.ty(ty).kind {
            Kind::Scalar(Scalar::Timestamp) => Some("RFC 3339, with `Z`.".to_owned()),
            Kind::Bytes => Some("base64.".to_owned()),
            Kind::Array(array) => match array.len {
                Len::Fixed(len) if len > TUPLE => Some(format!("{len} elements.")),
                _ => None,
            },
            _ => None,
        }
    }
}

fn array_of(item: &str) -> String {
    match item.contains(' ') {
        true => format!("({item})[]"),
        false => format!("{item}[]"),
    }
}

/// Returns a text as a TypeScript string.
fn literal(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn scalar_text(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int8
        | Scalar::Int16
        | Scalar::Int32
        | Scalar::Uint8
        | Scalar::Uint16
        | Scalar::Uint32 => "number",
        Scalar::Int64 | Scalar::Uint64 => "Integer",
        Scalar::Float16
        | Scalar::Float32
        | Scalar::Float64
        | Scalar::BFloat16
        | Scalar::Float8E4M3
        | Scalar::Float8E5M2 => "Float",
        Scalar::Complex64 | Scalar::Complex128 => "[Float, Float]",
        Scalar::Boolean => "boolean",
        Scalar::Timestamp => "string",
    }
}

fn tensor_text(tensor: &TensorType, dims: &[u64]) -> String {
    let dtype = tensor.dtype.map_or("", TensorDType::as_str);
    let element = match tensor.dtype {
        Some(TensorDType::Bool) => "boolean",
        Some(TensorDType::I64 | TensorDType::U64) => "Integer",
        Some(TensorDType::C64) => "[Float, Float]",
        Some(
            TensorDType::U8
            | TensorDType::I8
            | TensorDType::I16
            | TensorDType::U16
            | TensorDType::I32
            | TensorDType::U32,
        ) => "number",
        _ => "Float",
    };
    let shape = super::list(dims);
    format!("{{ dtype: \"{dtype}\"; shape: [{shape}]; data: {} }}", array_of(element))
}
