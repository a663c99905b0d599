//! Code that `holdall schema code --lang wgsl` makes, run on the device: it reads records as the processor does.

mod common;

use common::{device, noise, open};
use half::{bf16, f16};
use holdall::WriteOptions;
use holdall::records::{Build, FillOptions, RowsOptions};
use holdall::schema::code::{Lang, code};
use holdall::schema::{Document, Kind, Reading, Schema, SchemaLimits, TypeId};
use holdall_gpu::{LoadOptions, load_model};
use serde_json::{Value, json};
use std::fmt::Write as _;
use wgpu::BufferUsages;

/// What a shader writes into `out`, `words` of it, where `main` has the records in binding 0 and `out` in binding 1.
fn run(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    shader: &str,
    records: wgpu::BindingResource<'_>,
    words: u64,
) -> Vec<u32> {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(shader.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: words * 4,
            usage,
            mapped_at_creation: false,
        })
    };
    let out = buffer(BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let read = buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: records },
            wgpu::BindGroupEntry { binding: 1, resource: out.as_entire_binding() },
        ],
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&out, 0, &read, 0, words * 4);
    queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    let mapped = read.slice(..).get_mapped_range().unwrap();
    mapped.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

fn wgsl(kind: &Value, name: &str) -> (Schema, String) {
    let schema = Schema::compile_record(kind, &SchemaLimits::default()).unwrap();
    let text = code(&schema, schema.record().unwrap(), name, Lang::Wgsl).unwrap();
    (schema, text)
}

/// Members of every kind with fixed bytes: `align` says whether they lie anywhere, or where they are quick to read.
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
        "Timestamp",
        "Complex64",
        "Complex128",
    ];
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

/// Where a member of a struct lies, and its type.
fn member(schema: &Schema, of: TypeId, name: &str) -> (usize, TypeId) {
    let Kind::Struct(fields) = &schema.ty(of).kind else { panic!("`{name}` of no struct") };
    let member = &fields.members[fields.place(name).unwrap()];
    (member.offset.unwrap() as usize, member.ty)
}

/// A float of 8 bits with 4 of exponent.
fn e4m3(byte: u8) -> f32 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => sign * fraction / 512.0,
        _ => sign * (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7),
    }
}

/// A double as a float, where those that are subnormal are 0.
fn narrow(bytes: &[u8]) -> f32 {
    let x = f64::from_le_bytes(bytes.try_into().unwrap()) as f32;
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
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
            let mut bytes = noise(stride * count, 7);
            // Exponents whose bits are all set are rare: NaN and infinity of every width, and numbers between two floats.
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
        let bit = fields.members[fields.place("maybe").unwrap()].presence.unwrap() as usize;
        // What is called in the shader, as words, and what the processor makes of the bytes there.
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
        let mut main = format!(
            "{text}\n@group(0) @binding(1) var<storage, read_write> out: array<u32>;\n@compute @workgroup_size(1)\nfn main() {{\n    \
             for (var r = 0u; r < {count}u; r++) {{\n"
        );
        for (n, (call, ty, _, _)) in calls.iter().enumerate() {
            let value = match *ty {
                "b" => format!("select(0u, 1u, my_kinds_{call})"),
                _ => format!("bitcast<u32>(my_kinds_{call})"),
            };
            let _ = writeln!(main, "        out[r * {}u + {n}u] = {value};", calls.len());
        }
        main.push_str("    }\n}\n");
        let buffer = wgpu::util::DeviceExt::create_buffer_init(
            &device,
            &wgpu::util::BufferInitDescriptor {
                label: None,
                contents: &[&bytes[..], &[0; 8][..]].concat()[..(bytes.len() + 7) / 4 * 4],
                usage: BufferUsages::STORAGE,
            },
        );
        let words = (count * calls.len()) as u64;
        let found = run(&device, &queue, &main, buffer.as_entire_binding(), words);
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

/// A dataset of records is loaded, and a shader comes to the sums of the processor, by functions and by the struct.
#[test]
fn a_pass_over_a_dataset_has_the_sums_of_the_processor() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    for align in [json!(1), json!("natural")] {
        let is_tight = align == json!(1);
        let kind = json!({"TypeDef:Struct": ["flag", "id", "at", "label"], "required": ["flag", "id", "at", "label"],
            "align": align, "properties": {
                "flag": {"TypeDef:Boolean": true},
                "id": {"TypeDef:Int32": true},
                "at": {"TypeDef:Struct": ["x", "y"], "required": ["x", "y"],
                    "properties": {"x": {"TypeDef:Float32": true}, "y": {"TypeDef:Float32": true}}},
                "label": {"TypeDef:Enum": true, "enum": ["a", "b", "c"]}}});
        let rows: String = (0..10_000)
            .map(|i| {
                let label = ["a", "b", "c"][i as usize % 3];
                let row = json!({"flag": i % 3 == 0, "id": i * 77 - 5000, "at": {"x": i % 100, "y": -(i % 7)},
                    "label": label});
                format!("{row}\n")
            })
            .collect();
        let path = dir.path().join("points.mt");
        let document =
            Document::new(kind.clone(), "kind", Reading::Record, &SchemaLimits::default()).unwrap();
        let build = Build::create(&path, &WriteOptions::new().with_overwrite(true)).unwrap();
        let (mut build, mut set) = build.dataset_for(&document, None).unwrap();
        set.fill(
            RowsOptions::new().read(std::io::Cursor::new(rows.into_bytes()), "rows").unwrap(),
            &FillOptions::new(),
        )
        .unwrap();
        build.add(set).unwrap();
        build.finish().unwrap();
        let model = load_model(&device, &queue, &open(&path), &LoadOptions::new()).unwrap();
        let records = model.tensors().next().unwrap();
        let (_, text) = wgsl(&kind, "Point");
        let own = "@group(0) @binding(1) var<storage, read_write> out: array<u32>;";
        let by_functions = format!(
            "{text}\n{own}\n@compute @workgroup_size(1)\nfn main() {{\n    for (var r = 0u; r < 10000u; r++) {{\n        \
             if point_flag(r) && point_label(r) != POINT_LABEL_B {{\n            out[0] += u32(point_id(r) + 5000);\n            \
             out[1] = bitcast<u32>(bitcast<f32>(out[1]) + point_at_x(r) + point_at_y(r));\n        }}\n    }}\n}}\n"
        );
        let (mut ids, mut sum) = (0u32, 0f32);
        for i in (0..10_000u32).filter(|i| i % 3 == 0) {
            ids = ids.wrapping_add(i * 77);
            sum += (i % 100) as f32 - (i % 7) as f32;
        }
        let wanted = [ids, sum.to_bits()];
        let role = holdall::Role::Data;
        let found = run(&device, &queue, &by_functions, records.binding(&role).unwrap(), 2);
        assert_eq!(found, wanted, "{text}");
        assert_eq!(text.contains("struct Point {"), !is_tight, "{text}");
        if is_tight {
            assert!(text.contains("no struct of WGSL for records of 22 bytes"), "{text}");
            continue;
        }
        let by_struct = format!(
            "{text}\n@group(0) @binding(0) var<storage, read> points: array<Point>;\n{own}\n@compute @workgroup_size(1)\n\
             fn main() {{\n    for (var r = 0u; r < arrayLength(&points); r++) {{\n        \
             if (points[r].words_0[0] & 1u) == 1u {{\n            out[0] += u32(points[r].id + 5000);\n            \
             out[1] = bitcast<u32>(bitcast<f32>(out[1]) + points[r].at.x + points[r].at.y);\n        }}\n    }}\n}}\n"
        );
        let found = run(&device, &queue, &by_struct, records.binding(&role).unwrap(), 2);
        assert_eq!(found, wanted, "{text}");
    }
}
