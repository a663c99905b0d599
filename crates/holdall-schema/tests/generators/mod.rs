//! Schemas and values by chance.
#![allow(dead_code, reason = "not every test uses all of them")]

use holdall_schema::{Kind, Schema, TypeId};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn align() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        6 => Just(None),
        1 => Just(Some(json!("natural"))),
        2 => (0u32..7).prop_map(|n| Some(json!(1u32 << n))),
    ]
}

pub(crate) fn with_align(mut schema: Value, align: Option<Value>) -> Value {
    if let Some(align) = align {
        schema["align"] = align;
    }
    schema
}

pub(crate) fn leaf() -> impl Strategy<Value = Value> {
    let scalars = [
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "Uint8",
        "Uint16",
        "Uint32",
        "Uint64",
        "Float16",
        "Float32",
        "Float64",
        "BFloat16",
        "Float8E4M3",
        "Float8E5M2",
        "Complex64",
        "Complex128",
        "Boolean",
        "Timestamp",
        "String",
        "Bytes",
        "Record",
    ];
    let scalar = prop::sample::select(scalars.to_vec())
        .prop_map(|name| json!({format!("TypeDef:{name}"): true}));
    let tensor = (
        prop::sample::select(vec!["F32", "U8", "BOOL", "C64", "F4", "F6_E2M3", "F8_E8M0", "BF16"]),
        1u64..4,
    )
        .prop_map(|(dtype, n)| json!({"TypeDef:Tensor": {"dtype": dtype, "shape": [n, 4]}}));
    let few = prop::sample::select(vec![1usize, 3, 256, 257]).prop_map(|n| {
        let values: Vec<String> = (0..n).map(|i| format!("v{i}")).collect();
        json!({"TypeDef:Enum": true, "enum": values})
    });
    (prop_oneof![8 => scalar, 1 => tensor, 1 => few], align()).prop_map(|(s, a)| with_align(s, a))
}

fn make_struct(members: Vec<(Value, bool)>, align: Option<Value>) -> Value {
    let mut properties = Map::new();
    let (mut names, mut required) = (Vec::new(), Vec::new());
    for (at, (schema, is_required)) in members.into_iter().enumerate() {
        // Neither in the order of names.
        let name = format!("m{}", (at * 7) % 16);
        names.push(name.clone());
        if is_required {
            required.push(name.clone());
        }
        properties.insert(name, schema);
    }
    let schema = json!({"TypeDef:Struct": names, "properties": properties, "required": required});
    with_align(schema, align)
}

pub(crate) fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 12, |inner| {
        let members = prop::collection::vec((inner.clone(), any::<bool>()), 1..12);
        let fields =
            (members, align()).prop_map(|(members, align)| make_struct(members, align)).boxed();
        let array = (inner, prop::option::of(0u64..4), align()).prop_map(|(items, len, align)| {
            let mut array = json!({"TypeDef:Array": true, "items": items});
            if let Some(len) = len {
                array["minItems"] = json!(len);
                array["maxItems"] = json!(len);
            }
            with_align(array, align)
        });
        let union =
            (prop::collection::vec(fields.clone(), 1..4), align()).prop_map(|(all, align)| {
                let mapping: Map<String, Value> =
                    all.into_iter().enumerate().map(|(i, s)| (format!("v{i}"), s)).collect();
                let union = json!({"TypeDef:Union": {"discriminator": "kind"}, "mapping": mapping});
                with_align(union, align)
            });
        prop_oneof![3 => fields, 2 => array, 1 => union]
    })
}

/// Numbers that decide what a value is, one after the other.
pub(crate) struct Dice<'d>(pub(crate) std::iter::Cycle<std::slice::Iter<'d, u64>>);

impl Dice<'_> {
    pub(crate) fn next(&mut self) -> u64 {
        *self.0.next().unwrap()
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn float(dice: &mut Dice<'_>, largest: f64) -> Value {
    match dice.below(8) {
        0 => json!({"$float": "nan"}),
        1 => json!(-0.0),
        2 => json!(1e-3),
        n => json!((n as f64 / 8.0) * largest),
    }
}

/// A value of a type.
pub(crate) fn value(schema: &Schema, ty: TypeId, dice: &mut Dice<'_>) -> Value {
    use holdall_schema::Len;
    match &schema.ty(ty).kind {
        Kind::Scalar(scalar) => match scalar.as_str() {
            "Boolean" => json!(dice.below(2) == 0),
            "Timestamp" => json!(format!(
                "20{:02}-02-1{}T01:02:03.{:03}Z",
                dice.below(100),
                dice.below(10),
                dice.below(999)
            )),
            "Complex64" | "Complex128" => json!([float(dice, 1e30), float(dice, 9.5)]),
            "Float64" => float(dice, 1e300),
            "Float32" | "BFloat16" => float(dice, 3e38),
            "Float16" => float(dice, 65000.0),
            "Float8E4M3" | "Float8E5M2" => float(dice, 448.0),
            "Uint64" => json!(dice.next()),
            "Int64" => json!(dice.next() as i64),
            name if name.starts_with('U') => json!(dice.below(256)),
            _ => json!(dice.below(256) as i64 - 128),
        },
        Kind::Enum(e) => json!(*e.values[dice.below(e.values.len() as u64) as usize]),
        Kind::String => json!("é\n\"".repeat(dice.below(5) as usize)),
        Kind::Bytes => json!("AAECAw=="),
        Kind::Record => json!({"k": dice.below(9), "l": [null, "x"]}),
        Kind::Array(array) => {
            let len = match array.len {
                Len::Fixed(len) => len,
                Len::Variable { .. } => dice.below(4),
            };
            json!((0..len).map(|_| value(schema, array.items, dice)).collect::<Vec<_>>())
        }
        Kind::Struct(fields) => {
            let mut object = Map::new();
            for member in &fields.members {
                if member.presence.is_none() || dice.below(2) == 0 {
                    object.insert(member.name.to_string(), value(schema, member.ty, dice));
                }
            }
            Value::Object(object)
        }
        Kind::Union(union) => {
            let variant = &union.variants[dice.below(union.variants.len() as u64) as usize];
            let mut object = value(schema, variant.ty, dice);
            object[&*union.discriminator] = json!(*variant.key);
            object
        }
        Kind::Tensor(tensor) => {
            let dtype = tensor.dtype.unwrap();
            let len = schema.ty(ty).size.unwrap() * 8 / dtype.bits();
            let element = |dice: &mut Dice<'_>| match dtype.as_str() {
                "BOOL" => json!(dice.below(2) == 0),
                "C64" => json!([0.5, dice.below(9)]),
                "U8" => json!(dice.below(256)),
                "F8_E8M0" => json!(1 << dice.below(9)),
                // Floats: an integer that F4 rounds is refused.
                _ => json!(dice.below(7) as f64),
            };
            json!({"data": (0..len).map(|_| element(dice)).collect::<Vec<_>>()})
        }
        _ => panic!("a kind without values here"),
    }
}

pub(crate) fn noise() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "$ref",
        "$defs",
        "TypeDef:Struct",
        "TypeDef:Union",
        "TypeDef:Array",
        "TypeDef:Tensor",
        "TypeDef:Blob",
        "TypeDef:Enum",
        "TypeDef:Int8",
        "TypeDef:String",
        "properties",
        "required",
        "items",
        "minItems",
        "maxItems",
        "enum",
        "mapping",
        "discriminator",
        "dtype",
        "shape",
        "content",
        "align",
        "additionalProperties",
        "anyOf",
        "a",
        "b",
        "#/$defs/a",
        "#/$defs/b",
        "F32",
        "utf-8",
        "natural",
        "type",
        "object",
        "array",
    ]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        3 => Just(Value::Bool(true)),
        1 => any::<u64>().prop_map(|n| json!(n)),
        1 => any::<i32>().prop_map(|n| json!(n)),
        1 => any::<f64>().prop_map(|n| json!(n)),
        3 => word.clone().prop_map(|w| json!(w)),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            3 => prop::collection::vec((word.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}
