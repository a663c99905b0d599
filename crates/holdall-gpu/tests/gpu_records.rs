//! A compute pass over a dataset, with code that `holdall schema code --lang wgsl` generates: it computes the same sums
//! as the CPU.

mod common;

use common::shaders::{run, wgsl};
use common::{device, open};
use holdall::WriteOptions;
use holdall::records::{Build, FillOptions, RowsOptions};
use holdall::schema::{Document, Reading, SchemaLimits};
use holdall_gpu::{LoadOptions, load_model};
use serde_json::json;

/// Loads a dataset of records; a shader computes the same sums as the CPU, with functions and with the struct.
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
        let (mut build, mut set) = build.dataset_from_document(&document, None).unwrap();
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
