//! Code that `holdall schema code --lang wgsl` generates, run on the device: it reads members of every kind like the
//! CPU.

mod common;

use common::shaders::{run, wgsl};
use common::{any_bytes, device};
use half::{bf16, f16};
use holdall::layout::into_f32;
use holdall::schema::{Kind, Path, Scalar, Schema, TensorDType, TypeId};
use holdall::{DType, LogicalType};
use serde_json::{Value, json};
use std::fmt::Write as _;
use wgpu::BufferUsages;

/// Members of every kind with a fixed size. `align` says whether they are packed or aligned.
fn every_kind(align: Value) -> Value {
    let scalars = [
        "Uint8",
        "Float64",
        "Int8",
        "Uint16",
        "Int16",
        "Boolean",
        "Uint32",
        "Int32",
        "Float16",
        "BFloat16",
        "Float8E4M3",
        "Float8E5M2",
        "Float32",
        "Int64",
        "Uint64",
        "Timestamp",
        "Complex64",
        "Complex128",
    ];
    assert_eq!(scalars.len(), Scalar::ALL.len());
    let mut members: Vec<String> = scalars.iter().map(|s| s.to_lowercase()).collect();
    let mut properties: serde_json::Map<String, Value> = scalars
        .iter()
        .map(|s| (s.to_lowercase(), json!({ format!("TypeDef:{s}"): true })))
        .collect();
    let inner = json!({"TypeDef:Struct": ["fn", "u8"], "required": ["fn", "u8"], "properties":
        {"fn": {"TypeDef:Int32": true}, "u8": {"TypeDef:Uint8": true}}, "align": align});
    for (name, kind) in [
        ("label", json!({"TypeDef:Enum": true, "enum": ["cat", "dog house", ""]})),
        ("maybe", json!({"TypeDef:Int16": true})),
        ("inner", inner.clone()),
        ("list", json!({"TypeDef:Array": true, "items": inner, "minItems": 3, "maxItems": 3})),
        ("grid", json!({"TypeDef:Tensor": {"dtype": "F16", "shape": [2, 3]}})),
        ("text", json!({"TypeDef:String": true})),
    ] {
        members.push(name.into());
        properties.insert(name.into(), kind);
    }
    let required: Vec<&String> = members.iter().filter(|m| *m != "maybe").collect();
    json!({"TypeDef:Struct": members, "required": required, "properties": properties, "align": align})
}

/// The location of a struct's member, and its type.
fn member(schema: &Schema, of: TypeId, name: &str) -> (usize, TypeId) {
    let Kind::Struct(fields) = &schema.ty(of).kind else { panic!("`{name}` of no struct") };
    let member = &fields.members[fields.index_of(name).unwrap()];
    (member.offset.unwrap() as usize, member.ty)
}

/// Decodes an 8-bit float with 4 exponent bits.
fn e4m3(byte: u8) -> f32 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => sign * fraction / 512.0,
        _ => sign * (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7),
    }
}

/// Converts a double to a float, with subnormal results flushed to 0.
fn narrow(bytes: &[u8]) -> f32 {
    let x = f64::from_le_bytes(bytes.try_into().unwrap()) as f32;
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// Returns the results of generated functions for each of some records: `b` is a boolean, all others have four bytes.
fn values(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    code: &str,
    prefix: &str,
    calls: &[(&str, &str)],
    records: &[u8],
    count: usize,
) -> Vec<u32> {
    let mut main = format!(
        "{code}\n@group(0) @binding(1) var<storage, read_write> out: array<u32>;\n@compute @workgroup_size(1)\nfn main() {{\n    \
         for (var r = 0u; r < {count}u; r++) {{\n"
    );
    for (n, (call, ty)) in calls.iter().enumerate() {
        let value = match *ty {
            "b" => format!("select(0u, 1u, {prefix}_{call})"),
            _ => format!("bitcast<u32>({prefix}_{call})"),
        };
        let _ = writeln!(main, "        out[r * {}u + {n}u] = {value};", calls.len());
    }
    main.push_str("    }\n}\n");
    let mut contents = records.to_vec();
    contents.resize(contents.len().next_multiple_of(4) + 4, 0);
    let buffer = wgpu::util::DeviceExt::create_buffer_init(
        device,
        &wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &contents,
            usage: BufferUsages::STORAGE,
        },
    );
    run(device, queue, &main, buffer.as_entire_binding(), (count * calls.len()) as u64)
}

#[test]
fn every_kind_of_member_is_read_where_it_lies() {
    let Some((device, queue)) = device() else { return };
    for align in [json!(1), json!("natural")] {
        let (schema, text) = wgsl(&every_kind(align), "my kinds");
        let root = schema.record().unwrap();
        let stride = schema.extent(root).unwrap().stride as usize;
        let count = 500;
        let bytes = {
            let mut bytes = any_bytes(stride * count, 7);
            // Exponents whose bits are all set are rare: NaN and infinity of every width, and numbers between two
            // floats.
            for (i, (name, value)) in [
                ("float64", &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f][..]),
                ("float64", &[1, 0, 0, 0, 0, 0, 0xf0, 0xff]),
                ("float64", &[0, 0, 0, 0x10, 0, 0, 0xf0, 0x3f]),
                ("float64", &[0, 0, 0, 0x30, 0, 0, 0xf0, 0x3f]),
                ("float64", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x47]),
                ("float64", &[0, 0, 0, 0, 0, 0, 0x10, 0x38]),
                ("float64", &[0, 0, 0, 0, 0, 0, 0, 0x80]),
                ("float16", &[0, 0x7c]),
                ("float16", &[1, 0xfe]),
                ("float16", &[1, 0x80]),
                ("float8e4m3", &[0x7f]),
                ("float8e4m3", &[0x87]),
                ("float8e5m2", &[0xfc]),
                ("float8e5m2", &[0x03]),
            ]
            .into_iter()
            .enumerate()
            {
                let at = i * stride + member(&schema, root, name).0;
                bytes[at..at + value.len()].copy_from_slice(value);
            }
            for i in 0..count {
                let at = i * stride + member(&schema, root, "label").0;
                bytes[at] %= 3;
            }
            bytes
        };
        let at = |name: &str| member(&schema, root, name).0;
        let (list, list_ty) = member(&schema, root, "list");
        let Kind::Array(array) = &schema.ty(list_ty).kind else { panic!() };
        let step = schema.extent(array.items).unwrap().stride as usize;
        let in_list = list + 2 * step + member(&schema, array.items, "fn").0;
        let (inner, inner_ty) = member(&schema, root, "inner");
        let Kind::Struct(fields) = &schema.ty(root).kind else { panic!() };
        let bit = fields.members[fields.index_of("maybe").unwrap()].presence.unwrap() as usize;
        // The calls in the shader, and the words that the CPU computes from the same bytes.
        type Wanted = Box<dyn Fn(&[u8]) -> Vec<u32>>;
        let float = |of: fn(&[u8]) -> f32| -> Wanted { Box::new(move |b| vec![of(b).to_bits()]) };
        let int = |of: fn(&[u8]) -> i32| -> Wanted { Box::new(move |b| vec![of(b) as u32]) };
        let word = |b: &[u8]| u32::from_le_bytes(b[..4].try_into().unwrap());
        let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
        let calls: Vec<(&str, &str, usize, Wanted)> = vec![
            ("uint8(r)", "u", at("uint8"), int(|b| b[0].into())),
            ("int8(r)", "u", at("int8"), int(|b| (b[0] as i8).into())),
            ("uint16(r)", "u", at("uint16"), Box::new(move |b| vec![half(b).into()])),
            ("int16(r)", "u", at("int16"), Box::new(move |b| vec![(half(b) as i16) as i32 as u32])),
            ("boolean(r)", "b", at("boolean"), int(|b| (b[0] != 0).into())),
            ("uint32(r)", "u", at("uint32"), Box::new(move |b| vec![word(b)])),
            ("int32(r)", "u", at("int32"), Box::new(move |b| vec![word(b)])),
            (
                "float16(r)",
                "f",
                at("float16"),
                float(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
            ),
            (
                "bfloat16(r)",
                "f",
                at("bfloat16"),
                float(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()),
            ),
            ("float8e4m3(r)", "f", at("float8e4m3"), float(|b| e4m3(b[0]))),
            (
                "float8e5m2(r)",
                "f",
                at("float8e5m2"),
                float(|b| f16::from_le_bytes([0, b[0]]).to_f32()),
            ),
            ("float32(r)", "f", at("float32"), Box::new(move |b| vec![word(b)])),
            ("float64(r)", "f", at("float64"), float(|b| narrow(&b[..8]))),
            ("int64(r).y", "u", at("int64") + 4, Box::new(move |b| vec![word(b)])),
            ("uint64(r).x", "u", at("uint64"), Box::new(move |b| vec![word(b)])),
            ("timestamp(r).x", "u", at("timestamp"), Box::new(move |b| vec![word(b)])),
            ("complex64(r).y", "f", at("complex64") + 4, Box::new(move |b| vec![word(b)])),
            ("complex128(r).y", "f", at("complex128") + 8, float(|b| narrow(&b[..8]))),
            ("label(r)", "u", at("label"), int(|b| b[0].into())),
            (
                "has_maybe(r)",
                "b",
                bit / 8,
                Box::new(move |b| vec![u32::from(b[0] >> (bit % 8) & 1)]),
            ),
            ("maybe(r)", "u", at("maybe"), Box::new(move |b| vec![(half(b) as i16) as i32 as u32])),
            (
                "inner_fn(r)",
                "u",
                inner + member(&schema, inner_ty, "fn").0,
                Box::new(move |b| vec![word(b)]),
            ),
            ("list_fn(r, 2u)", "u", in_list, Box::new(move |b| vec![word(b)])),
            (
                "grid(r, 5u)",
                "f",
                at("grid") + 10,
                float(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
            ),
        ];
        let names: Vec<(&str, &str)> = calls.iter().map(|(call, ty, ..)| (*call, *ty)).collect();
        let found = values(&device, &queue, &text, "my_kinds", &names, &bytes, count);
        let is_nan = |bits: u32| f32::from_bits(bits).is_nan();
        for r in 0..count {
            for (n, (call, ty, at, wanted)) in calls.iter().enumerate() {
                let (wanted, found) =
                    (wanted(&bytes[r * stride + at..])[0], found[r * calls.len() + n]);
                let same = wanted == found
                    || (*ty == "f" && is_nan(wanted) && is_nan(found))
                    || (*ty == "f" && f32::from_bits(wanted).is_subnormal());
                assert!(same, "{call} of record {r}: {wanted:08x} and {found:08x}\n{text}");
            }
        }
    }
}

/// Elements of tensors in records, of every type that has whole bytes; for other types a comment says that there is no
/// function.
#[test]
fn every_element_of_a_tensor_in_a_record_is_read() {
    let Some((device, queue)) = device() else { return };
    for dtype in TensorDType::ALL {
        let tensor = json!({"TypeDef:Tensor": {"dtype": dtype.as_str(), "shape": [2, 4]}});
        let kind = json!({"TypeDef:Struct": ["odd", "t"], "required": ["odd", "t"], "align": 1,
            "properties": {"odd": {"TypeDef:Uint8": true}, "t": tensor}});
        let (schema, text) = wgsl(&kind, "R");
        let size = dtype.bits();
        if size < 8 {
            let comment =
                "\n// t: a tensor, without a function: its elements are not whole bytes.\n";
            assert!(text.contains(comment) && !text.contains("fn r_t("), "{text}");
            continue;
        }
        let is_bits = ["F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"].contains(&dtype.as_str());
        assert_eq!(
            text.contains(&format!("\n// t: the bits of {dtype} [8].\n")),
            is_bits,
            "{text}"
        );
        let stride = schema.extent(schema.record().unwrap()).unwrap().stride as usize;
        let count = 200;
        let bytes = any_bytes(stride * count, 5);
        let (call, ty) = match dtype {
            TensorDType::Bool => ("t(r, 6u)", "b"),
            TensorDType::C64 | TensorDType::I64 | TensorDType::U64 => ("t(r, 6u).y", "u"),
            _ => ("t(r, 6u)", "u"),
        };
        let found = values(&device, &queue, &text, "r", &[(call, ty)], &bytes, count);
        let size = size as usize / 8;
        let as_float = |dtype, logical: Option<LogicalType>, bytes: &[u8]| {
            let mut out = [0f32];
            into_f32(dtype, logical.as_ref(), bytes, &mut out).unwrap();
            out[0].to_bits()
        };
        for (record, found) in bytes.chunks_exact(stride).zip(found) {
            let element = &record[1 + 6 * size..][..size];
            let mut word = [0; 4];
            let last = &element[size.saturating_sub(4)..];
            word[..last.len()].copy_from_slice(last);
            let bits = u32::from_le_bytes(word);
            let wanted = match dtype {
                TensorDType::Bool => u32::from(bits != 0),
                TensorDType::I8 => i32::from(bits as u8 as i8) as u32,
                TensorDType::I16 => i32::from(bits as u16 as i16) as u32,
                TensorDType::F8_E5M2 => as_float(DType::U8, Some(LogicalType::F8E5M2), element),
                TensorDType::F8_E4M3 => as_float(DType::U8, Some(LogicalType::F8E4M3Fn), element),
                TensorDType::F16 => as_float(DType::F16, None, element),
                TensorDType::Bf16 => as_float(DType::Bf16, None, element),
                TensorDType::F64 => narrow(element).to_bits(),
                _ => bits,
            };
            let (x, y) = (f32::from_bits(wanted), f32::from_bits(found));
            assert!(wanted == found || (x.is_nan() && y.is_nan()), "{dtype}: {x} and {y}\n{text}");
        }
    }
}

/// Nested members, and positions in long lists.
#[test]
fn unions_arrays_of_arrays_and_long_enums_are_read() {
    let Some((device, queue)) = device() else { return };
    let values_of = |count: u32| (0..count).map(|n| format!("v{n}")).collect::<Vec<_>>();
    let array = |items: Value, len: u32| json!({"TypeDef:Array": true, "items": items, "minItems": len, "maxItems": len});
    let number = |name: &str| json!({format!("TypeDef:{name}"): true});
    for align in [json!(1), json!("natural")] {
        let record = |members: Value, required: Value, properties: Value| json!({"TypeDef:Struct": members, "required": required, "properties": properties, "align": align});
        let one = record(
            json!(["v", "maybe"]),
            json!(["v"]),
            json!({"v": number("Int32"), "maybe": number("Uint8")}),
        );
        let a = record(
            json!(["x", "y"]),
            json!(["x", "y"]),
            json!({"x": number("Int8"), "y": number("Float32")}),
        );
        let b = record(
            json!(["rows"]),
            json!(["rows"]),
            json!({"rows": array(array(number("Int16"), 3), 2)}),
        );
        let kind = record(
            json!(["odd", "u", "wide", "huge", "deep", "more"]),
            json!(["odd", "u", "wide", "huge", "deep"]),
            json!({
                "odd": number("Uint8"),
                "u": {"TypeDef:Union": {"discriminator": "k"}, "mapping": {"a": a, "b": b}},
                "wide": {"TypeDef:Enum": true, "enum": values_of(300)},
                "huge": {"TypeDef:Enum": true, "enum": values_of(65_600)},
                "deep": array(array(one, 3), 2),
                "more": number("Boolean"),
            }),
        );
        let (schema, text) = wgsl(&kind, "R");
        let root = schema.record().unwrap();
        let stride = schema.extent(root).unwrap().stride as usize;
        let count = 300;
        let bytes = any_bytes(stride * count, 9);
        let reads = [
            ("tag_u(r)", "u", 1),
            ("u_a_x(r)", "u.a.x", 1),
            ("u_a_y(r)", "u.a.y", 4),
            ("u_b_rows(r, 1u, 2u)", "u.b.rows[1][2]", 2),
            ("wide(r)", "wide", 2),
            ("huge(r)", "huge", 4),
            ("deep_v(r, 1u, 0u)", "deep[1][0].v", 4),
            ("deep_maybe(r, 0u, 2u)", "deep[0][2].maybe", 1),
        ];
        let part = |path: &str| schema.accessor(root, &path.parse::<Path>().unwrap()).unwrap();
        let mut calls: Vec<(&str, &str)> = reads.iter().map(|(call, ..)| (*call, "u")).collect();
        calls.extend([("has_more(r)", "b"), ("has_deep_maybe(r, 1u, 2u)", "b")]);
        let found = values(&device, &queue, &text, "r", &calls, &bytes, count);
        for (record, found) in bytes.chunks_exact(stride).zip(found.chunks_exact(calls.len())) {
            for ((call, path, size), found) in reads.iter().zip(found) {
                let mut word = [0; 4];
                word[..*size].copy_from_slice(&record[part(path).offset()..][..*size]);
                let bits = u32::from_le_bytes(word);
                let wanted = match *call {
                    "u_a_x(r)" => i32::from(bits as u8 as i8) as u32,
                    "u_b_rows(r, 1u, 2u)" => i32::from(bits as u16 as i16) as u32,
                    _ => bits,
                };
                assert_eq!(wanted, *found, "{call}\n{text}");
            }
            let there =
                ["more", "deep[1][2].maybe"].map(|path| part(path).is_present(record).unwrap());
            assert_eq!(there.map(u32::from), found[reads.len()..], "{text}");
        }
        assert!(text.contains("const R_TAG_U_B: u32 = 1u;"), "{text}");
        assert!(text.contains("// … and 65344 more, in the order of the schema."), "{text}");
    }
}

#[test]
fn members_without_a_function_are_named() {
    let Some((device, queue)) = device() else { return };
    let elsewhere = [
        ("text", json!({"TypeDef:String": true}), "text"),
        ("blob", json!({"TypeDef:Bytes": true, "contentEncoding": "base64"}), "bytes"),
        ("json", json!({"TypeDef:Record": true}), "JSON"),
        ("list", json!({"TypeDef:Array": true, "items": {"TypeDef:Float32": true}}), "an array"),
    ];
    let mut members = vec!["n".to_owned()];
    let mut properties =
        serde_json::Map::from_iter([("n".to_owned(), json!({"TypeDef:Uint32": true}))]);
    for (name, kind, _) in &elsewhere {
        members.push((*name).to_owned());
        properties.insert((*name).to_owned(), kind.clone());
    }
    let kind = json!({"TypeDef:Struct": members, "required": members, "properties": properties});
    let (schema, text) = wgsl(&kind, "R");
    for (name, _, what) in elsewhere {
        let comment = format!(
            "\n// {name}: {what}, without a function: its data is in the component `blob_data`.\n"
        );
        assert!(
            text.contains(&comment) && !text.contains(&format!("fn r_{name}(")),
            "{comment}{text}"
        );
    }
    let stride = schema.extent(schema.record().unwrap()).unwrap().stride as usize;
    let records = vec![3; 2 * stride];
    let found = values(&device, &queue, &text, "r", &[("n(r)", "u")], &records, 2);
    assert_eq!(found, [0x0303_0303; 2]);
}
