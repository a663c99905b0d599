//! What holds for every schema and every record.

use holdall_schema::{Encoder, Kind, Schema, SchemaLimits, Segment, TypeId};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn limits() -> SchemaLimits {
    SchemaLimits::default().with_nodes(5000)
}

fn align() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        6 => Just(None),
        1 => Just(Some(json!("natural"))),
        2 => (0u32..7).prop_map(|n| Some(json!(1u32 << n))),
    ]
}

fn with_align(mut schema: Value, align: Option<Value>) -> Value {
    if let Some(align) = align {
        schema["align"] = align;
    }
    schema
}

fn leaf() -> impl Strategy<Value = Value> {
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

fn schema() -> impl Strategy<Value = Value> {
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
struct Dice<'d>(std::iter::Cycle<std::slice::Iter<'d, u64>>);

impl Dice<'_> {
    fn next(&mut self) -> u64 {
        *self.0.next().unwrap()
    }

    fn below(&mut self, n: u64) -> u64 {
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
fn value(schema: &Schema, ty: TypeId, dice: &mut Dice<'_>) -> Value {
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
                _ => json!(dice.below(7)),
            };
            json!({"data": (0..len).map(|_| element(dice)).collect::<Vec<_>>()})
        }
        _ => panic!("a kind without values here"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 200, failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn parts_lie_apart_inside_of_their_record(schema in schema()) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let extent = schema.extent(ty).unwrap();
        prop_assert!(extent.stride.is_multiple_of(u64::from(extent.align)));
        let items: Vec<_> = schema.layout(ty, &limits()).unwrap().collect();
        let items: Vec<_> = items.into_iter().map_while(Result::ok).collect();
        for (at, item) in items.iter().enumerate() {
            prop_assert!(item.range.start <= item.range.end && item.range.end <= extent.size);
            let depth = item.path.0.len();
            if depth == 0 {
                continue;
            }
            // Nearest item before that is one step shorter.
            let parent = items[..at].iter().rev().find(|p| p.path.0.len() == depth - 1).unwrap();
            prop_assert_eq!(&parent.path.0[..], &item.path.0[..depth - 1]);
            prop_assert!(parent.range.start <= item.range.start && item.range.end <= parent.range.end);
            if let Some(bit) = item.presence {
                prop_assert!((parent.range.start..item.range.start + 1).contains(&bit.byte));
            }
            let Kind::Struct(fields) = &schema.ty(parent.ty).kind else { continue };
            let first = parent.range.start + u64::from(fields.presence_len);
            prop_assert!(item.range.start >= first);
            let align = u64::from(item.align.min(schema.ty(parent.ty).align));
            prop_assert!((item.range.start - parent.range.start).is_multiple_of(align));
            // Members in order: none starts before the one before it ends.
            let before = items[..at].iter().rev().take_while(|p| p.path.0.len() >= depth);
            for sibling in before.filter(|s| s.path.0.len() == depth) {
                prop_assert!(sibling.range.end <= item.range.start, "{} {}", sibling.path, item.path);
            }
        }
    }

    #[test]
    fn records_come_back_from_their_bytes(schema in schema(), dice in prop::collection::vec(any::<u64>(), 1..60)) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let json = value(&schema, ty, &mut Dice(dice.iter().cycle()));
        let mut encoder = Encoder::new(&schema, ty, &limits()).unwrap();
        let (mut record, mut heap) = (vec![0xff; encoder.size()], Vec::new());
        encoder.value(&json, &mut record, &mut heap).unwrap();
        schema.check_record(ty, &record, &heap, &limits()).unwrap();
        let mut text = String::new();
        schema.record_text(ty, &record, &heap, &limits(), &mut text).unwrap();
        // By text: members in the order of the bytes, so entries may lie elsewhere in the heap.
        let (mut record2, mut heap2) = (vec![0; encoder.size()], Vec::new());
        encoder.text(text.as_bytes(), &mut record2, &mut heap2).unwrap();
        let mut text2 = String::new();
        schema.record_text(ty, &record2, &heap2, &limits(), &mut text2).unwrap();
        prop_assert_eq!(&text, &text2);
        if heap.is_empty() {
            prop_assert_eq!(&record, &record2);
        }
        // Written in the order it was read in, it is the same to the byte.
        let (mut record3, mut heap3) = (vec![0; encoder.size()], Vec::new());
        encoder.text(text2.as_bytes(), &mut record3, &mut heap3).unwrap();
        prop_assert_eq!((record2, heap2), (record3, heap3));
    }

    #[test]
    fn any_bytes_are_a_record_or_break_a_rule(schema in schema(), noise in prop::collection::vec(any::<u8>(), 1..64), heap in prop::collection::vec(any::<u8>(), 0..64)) {
        let schema = Schema::compile_record(&schema, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        let ty = schema.record().unwrap();
        let size = schema.extent(ty).unwrap().size as usize;
        let record: Vec<u8> = noise.iter().cycle().take(size).copied().collect();
        let checked = schema.check_record(ty, &record, &heap, &limits());
        let shown = schema.record_value(ty, &record, &heap, &limits());
        prop_assert_eq!(checked.map_err(|e| e.code()).err(), shown.map_err(|e| e.code()).err());
        for item in schema.layout(ty, &limits()).unwrap().map_while(Result::ok) {
            let mut path = item.path.clone();
            for segment in &mut path.0 {
                if *segment == Segment::Each {
                    *segment = Segment::Index(0);
                }
            }
            let accessor = schema.accessor(ty, &path).unwrap();
            prop_assert_eq!(accessor.offset() as u64, item.range.start);
            let _ = accessor.raw(&record);
            let _ = accessor.elements(&record, &heap);
            let _ = accessor.string(&record, &heap);
        }
    }
}

fn noise() -> impl Strategy<Value = Value> {
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn any_json_is_a_schema_or_breaks_a_rule(schema in noise()) {
        let limits = SchemaLimits::default().with_nodes(200);
        let _ = Schema::compile(&schema, &limits);
        if let Ok(schema) = Schema::compile_record(&schema, &limits) {
            let ty = schema.record().unwrap();
            if let Ok(layout) = schema.layout(ty, &limits) {
                prop_assert!(layout.count() <= 201);
            }
        }
    }
}
