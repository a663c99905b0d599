//! Schemas of records, and their values, generated from bytes: see [`Take`].

use crate::take::Take;
use holdall::schema::{Kind, Len, Scalar, Schema, SchemaLimits, TypeId};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Returns limits that keep a small schema small.
pub(crate) fn limits() -> SchemaLimits {
    let limits = crate::limits::tight();
    SchemaLimits::default()
        .with_nodes(1 << 10)
        .with_depth(limits.depth)
        .with_decoded_len(limits.decoded_len)
}

/// The maximum length of a record, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// Compiles the schema of a record, unless its size depends on symbols or is too large.
pub(crate) fn compile(json: &Value) -> Option<(Schema, TypeId)> {
    let schema = Schema::compile_record(json, &limits()).ok()?;
    let ty = schema.record().expect("it is one of a record");
    let size = schema.extent(ty).ok()?.size;
    (size <= MAX_BYTES && schema.symbols().is_empty()).then_some((schema, ty))
}

/// Returns the schema of a record: a run of bytes if it is JSON text, otherwise a generated schema.
pub(crate) fn taken(take: &mut Take<'_>) -> Value {
    let run = take.run();
    match serde_json::from_slice(run) {
        Ok(json) => json,
        Err(_) => made(&mut Take::new(run), 4),
    }
}

/// Generates a schema of at most this many levels.
fn made(take: &mut Take<'_>, levels: usize) -> Value {
    let of_what = if levels == 0 { 0 } else { take.below(8) };
    let mut schema = match of_what {
        4 | 5 => made_struct(take, levels),
        6 => {
            let mut array = json!({"TypeDef:Array": true, "items": made(take, levels - 1)});
            let len = take.below(8);
            if len < 4 {
                array["minItems"] = json!(len);
                array["maxItems"] = json!(len);
            }
            array
        }
        7 => {
            let variants = 1 + take.below(4);
            let mapping: Map<String, Value> =
                (0..variants).map(|i| (format!("v{i}"), made_struct(take, levels))).collect();
            json!({"TypeDef:Union": {"discriminator": "kind"}, "mapping": mapping})
        }
        _ => leaf(take),
    };
    match take.below(16) {
        1 => schema["align"] = json!("natural"),
        2 | 3 => schema["align"] = json!(1u32 << take.below(8)),
        _ => {}
    }
    schema
}

fn made_struct(take: &mut Take<'_>, levels: usize) -> Value {
    let count = if take.below(16) == 1 { 20 } else { 1 + take.below(4) };
    let mut properties = Map::new();
    let (mut names, mut required) = (Vec::new(), Vec::new());
    for at in 0..count {
        // Not in the order of names.
        let name = format!("m{}", (at * 7) % 20);
        let mut member = made(take, levels - 1);
        match take.below(4) {
            0 => {}
            1 => set_default(&mut member),
            _ => required.push(name.clone()),
        }
        names.push(name.clone());
        properties.insert(name, member);
    }
    json!({"TypeDef:Struct": names, "properties": properties, "required": required})
}

/// Adds a `default` to a schema, if its type has a simple one.
fn set_default(schema: &mut Value) {
    let defaults = [
        ("Int8", json!(-1)),
        ("String", json!("new")),
        ("Bytes", json!("AAEC")),
        ("Float32", json!(0.5)),
    ];
    for (kind, default) in defaults {
        if schema.get(format!("TypeDef:{kind}")).is_some() {
            schema["default"] = default;
        }
    }
}

fn leaf(take: &mut Take<'_>) -> Value {
    match take.below(24) {
        at @ 0..18 => json!({format!("TypeDef:{}", Scalar::ALL[at].as_str()): true}),
        18 => json!({"TypeDef:String": true}),
        19 => json!({"TypeDef:Bytes": true}),
        20 => json!({"TypeDef:Record": true}),
        21 => {
            let count = [1usize, 3, 256, 257][take.below(4)];
            let values: Vec<String> = (0..count).map(|i| format!("v{i}")).collect();
            json!({"TypeDef:Enum": true, "enum": values})
        }
        _ => {
            let names = ["F32", "U8", "BOOL", "C64", "F4", "F6_E2M3", "F8_E8M0", "BF16", "I64"];
            let shape = [take.below(4), 4];
            let dtype = names[take.below(names.len())];
            json!({"TypeDef:Tensor": {"dtype": dtype, "shape": shape}})
        }
    }
}

/// Returns an edited version of a schema.
pub(crate) fn edited(take: &mut Take<'_>, schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(keywords) = schema.as_object_mut() else { return schema };
    let what = take.below(32);
    match what {
        0 => return schema,
        1 => return made(take, 2),
        2 => drop(keywords.insert("align".to_owned(), json!(1u32 << take.below(6)))),
        3 => drop(keywords.remove("align")),
        _ => {}
    }
    for place in ["properties", "mapping", "$defs"] {
        for child in keywords.get_mut(place).and_then(Value::as_object_mut).into_iter().flatten() {
            *child.1 = edited(take, child.1);
        }
    }
    if let Some(items) = keywords.get_mut("items") {
        *items = edited(take, items);
        match what {
            4 => drop(keywords.insert("maxItems".to_owned(), json!(3))),
            5 => drop(keywords.remove("minItems")),
            _ => {}
        }
    }
    if let Some(values) = keywords.get_mut("enum").and_then(Value::as_array_mut) {
        match what {
            4 | 5 => values.push(json!("new")),
            6 | 7 => values.reverse(),
            8 => drop(values.pop()),
            _ => {}
        }
    }
    if let Some(mapping) = keywords.get_mut("mapping").and_then(Value::as_object_mut) {
        match (what, mapping.values().next().cloned()) {
            (4..8, Some(other)) => drop(mapping.insert("a0".to_owned(), other)),
            (8, _) => drop(mapping.remove("v0")),
            _ => {}
        }
    }
    if keywords.contains_key("TypeDef:Struct") {
        edit_members(take, keywords, what);
    }
    let widened = keywords.keys().find_map(|k| Scalar::from_name(k.strip_prefix("TypeDef:")?));
    if let Some(scalar) = widened.filter(|_| what >= 16) {
        keywords.remove(&format!("TypeDef:{}", scalar.as_str()));
        let to = if what < 20 { Scalar::ALL[take.below(18)] } else { wider(scalar) };
        keywords.insert(format!("TypeDef:{}", to.as_str()), json!(true));
    }
    schema
}

fn edit_members(take: &mut Take<'_>, keywords: &mut Map<String, Value>, what: usize) {
    let list = |keywords: &Map<String, Value>, key: &str| -> Vec<Value> {
        keywords.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (mut names, mut required) = (list(keywords, "TypeDef:Struct"), list(keywords, "required"));
    let Some(properties) = keywords.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    match what {
        4 => names.reverse(),
        5 | 6 => {
            let Some(name) = names.pop() else { return };
            required.retain(|n| *n != name);
            properties.remove(name.as_str().unwrap_or_default());
        }
        7 => required.truncate(required.len() / 2),
        8 => required.clone_from(&names),
        9 => properties.values_mut().for_each(set_default),
        10..15 => {
            let mut member = leaf(take);
            if what < 13 {
                set_default(&mut member);
            }
            properties.insert("new".to_owned(), member);
            names.insert(names.len() / 2, json!("new"));
            if what != 14 {
                required.push(json!("new"));
            }
        }
        _ => {}
    }
    keywords.insert("TypeDef:Struct".to_owned(), Value::Array(names));
    keywords.insert("required".to_owned(), Value::Array(required));
}

fn wider(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Int8 => Scalar::BFloat16,
        Scalar::Uint8 => Scalar::Int16,
        Scalar::Int16 | Scalar::Uint16 => Scalar::Int32,
        Scalar::Int32 | Scalar::Uint32 | Scalar::Float32 => Scalar::Float64,
        Scalar::Float16 | Scalar::BFloat16 => Scalar::Float32,
        Scalar::Float8E4M3 | Scalar::Float8E5M2 => Scalar::Float16,
        Scalar::Complex64 => Scalar::Complex128,
        other => other,
    }
}

/// Generates the JSON text of a value of this type, with members in the order of their bytes.
pub(crate) fn value(take: &mut Take<'_>, schema: &Schema, ty: TypeId) -> String {
    let mut out = String::new();
    write_value(take, schema, ty, &mut out);
    out
}

fn write_value(take: &mut Take<'_>, schema: &Schema, ty: TypeId, out: &mut String) {
    match &schema.ty(ty).kind {
        Kind::Scalar(scalar) => write_scalar(take, *scalar, out),
        Kind::Enum(e) => push(out, json!(*e.values[usize::from(take.u16()) % e.values.len()])),
        Kind::String => push(out, json!(String::from_utf8_lossy(short(take)))),
        Kind::Bytes => out.push_str(["\"\"", "\"AA==\"", "\"AAECAw==\""][take.below(3)]),
        Kind::Record => push(out, json!({"k": take.u16(), "l": [null, "\u{e9}\n"]})),
        Kind::Array(array) => {
            let len = match array.len {
                Len::Fixed(len) => len as usize,
                Len::Variable { .. } => take.below(4),
            };
            list(out, len, |out| write_value(take, schema, array.items, out));
        }
        Kind::Struct(_) => write_members(take, schema, ty, None, out),
        Kind::Union(union) => {
            let variant = &union.variants[usize::from(take.u16()) % union.variants.len()];
            let head = format!("{}:{}", json!(*union.discriminator), json!(*variant.key));
            write_members(take, schema, variant.ty, Some(head), out);
        }
        Kind::Tensor(tensor) => {
            let dtype = tensor.dtype.expect("its size is known");
            let size = schema.extent(ty).expect("it is known").size;
            let element = |out: &mut String| match dtype.as_str() {
                "BOOL" => push(out, json!(take.below(2) == 1)),
                "C64" => push(out, json!([0.5, take.u8()])),
                "F8_E8M0" => push(out, json!(1 << take.below(9))),
                "I64" | "U8" => push(out, json!(take.u8())),
                _ => push(out, json!(take.below(7))),
            };
            out.push_str("{\"data\":");
            list(out, (size * 8 / dtype.bits()) as usize, element);
            out.push('}');
        }
        other => panic!("a kind without values: {}", other.as_str()),
    }
}

/// Appends an object with the members of a struct, after `head`.
fn write_members(
    take: &mut Take<'_>,
    schema: &Schema,
    ty: TypeId,
    head: Option<String>,
    out: &mut String,
) {
    let Kind::Struct(fields) = &schema.ty(ty).kind else {
        panic!("a variant that is not a struct")
    };
    out.push('{');
    out.push_str(head.as_deref().unwrap_or_default());
    let mut is_first = head.is_none();
    for member in &fields.members {
        if member.presence.is_some() && take.below(2) == 1 {
            continue;
        }
        if !is_first {
            out.push(',');
        }
        is_first = false;
        push(out, json!(*member.name));
        out.push(':');
        write_value(take, schema, member.ty, out);
    }
    out.push('}');
}

fn list(out: &mut String, len: usize, mut element: impl FnMut(&mut String)) {
    out.push('[');
    for at in 0..len {
        if at > 0 {
            out.push(',');
        }
        element(out);
    }
    out.push(']');
}

fn push(out: &mut String, value: Value) {
    write!(out, "{value}").expect("text takes text");
}

/// Takes up to 15 bytes.
fn short<'a>(take: &mut Take<'a>) -> &'a [u8] {
    let len = take.below(16);
    take.bytes(len)
}

fn write_scalar(take: &mut Take<'_>, scalar: Scalar, out: &mut String) {
    match scalar {
        Scalar::Int8 => push(out, json!(take.u8().cast_signed())),
        Scalar::Uint8 => push(out, json!(take.u8())),
        Scalar::Int16 => push(out, json!(take.u16().cast_signed())),
        Scalar::Uint16 => push(out, json!(take.u16())),
        Scalar::Int32 => push(out, json!(take.u32().cast_signed())),
        Scalar::Uint32 => push(out, json!(take.u32())),
        Scalar::Int64 => push(out, json!(take.u64().cast_signed())),
        Scalar::Uint64 => push(out, json!(take.u64())),
        Scalar::Boolean => push(out, json!(take.below(2) == 1)),
        Scalar::Timestamp => {
            let (year, nanoseconds) =
                (1678 + u32::from(take.u16()) % 584, take.u32() % 1_000_000_000);
            push(out, json!(format!("{year}-02-1{}T01:02:03.{nanoseconds:09}Z", take.below(10))));
        }
        Scalar::Complex64 => list(out, 2, |out| write_float(take, f64::from(f32::MAX), out)),
        Scalar::Complex128 => list(out, 2, |out| write_float(take, f64::MAX, out)),
        Scalar::Float64 => write_float(take, f64::MAX, out),
        Scalar::Float32 | Scalar::BFloat16 => write_float(take, 3.38e38, out),
        Scalar::Float16 => write_float(take, 65504.0, out),
        Scalar::Float8E4M3 => write_float(take, 448.0, out),
        Scalar::Float8E5M2 => write_float(take, 57344.0, out),
    }
}

/// Appends a number of at most this magnitude.
fn write_float(take: &mut Take<'_>, most: f64, out: &mut String) {
    match take.below(8) {
        1 => out.push_str("{\"$float\":\"nan\"}"),
        2 => out.push_str("-0.0"),
        3 => push(out, json!(most * (f64::from(take.u32()) / f64::from(u32::MAX)))),
        4 => push(out, json!(-most)),
        5 => push(out, json!(most * 1e-7 / (1.0 + f64::from(take.u32())))),
        _ => {
            let x = f64::from_bits(take.u64());
            push(out, json!(if x.abs() <= most { x } else { 0.0 }));
        }
    }
}

/// Returns the schemas in a file of vectors, as JSON text; those of one object are consecutive.
pub(crate) fn test_vectors(file: &[u8], keys: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let Ok(Value::Array(all)) = serde_json::from_slice(file) else { return Vec::new() };
    let texts = |vector: &Value| -> Option<Vec<Vec<u8>>> {
        keys.iter().map(|key| Some(vector.get(*key)?.to_string().into_bytes())).collect()
    };
    all.iter().filter_map(texts).collect()
}

/// Decodes the hexadecimal text of a vector.
pub(crate) fn from_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> =
        text.iter().filter_map(|b| char::from(*b).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
