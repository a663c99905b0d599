//! Writing members of records, and entries that refer to too many bytes.

use holdall_schema::{Accessor, Encoder, Path, Schema, SchemaLimits, TypeId};
use serde_json::{Value, json};

fn limits() -> SchemaLimits {
    SchemaLimits::default()
}

fn compile(schema: Value) -> (Schema, TypeId) {
    let schema = Schema::compile_record(&schema, &limits()).unwrap();
    let ty = schema.record().unwrap();
    (schema, ty)
}

fn at(schema: &Schema, ty: TypeId, path: &str) -> Accessor {
    schema.accessor(ty, &path.parse::<Path>().unwrap()).unwrap()
}

fn shapes() -> (Schema, TypeId) {
    let one = |name: &str, kind: &str| {
        json!({"TypeDef:Struct": [name], "properties": {name: {kind: true}}, "required": [name],
               "align": "natural"})
    };
    compile(json!({
        "TypeDef:Struct": ["id", "shape", "on", "half"],
        "properties": {
            "id": {"TypeDef:Uint16": true},
            "shape": {"TypeDef:Union": {"discriminator": "kind"},
                      "mapping": {"circle": one("r", "TypeDef:Float32"),
                                  "square": one("side", "TypeDef:Float64")}},
            "on": {"TypeDef:Boolean": true},
            "half": {"TypeDef:Float16": true},
        },
        "required": ["id"],
    }))
}

#[test]
fn records_written_part_by_part_are_those_written_from_json() {
    let (schema, ty) = shapes();
    let json = json!({"id": 7, "shape": {"kind": "square", "side": 2.5}, "half": 1.5});
    let mut encoder = Encoder::new(&schema, ty, &limits()).unwrap();
    let mut wanted = vec![0; encoder.size()];
    encoder.value(&json, &mut wanted, &mut Vec::new()).unwrap();

    let mut record = vec![0; encoder.size()];
    let (id, half) = (at(&schema, ty, "id").typed(), at(&schema, ty, "half").typed::<f32>());
    let (side, r) = (at(&schema, ty, "shape.square.side"), at(&schema, ty, "shape.circle.r"));
    id.unwrap().write(&mut record, 7u16).unwrap();
    half.unwrap().write(&mut record, 1.5).unwrap();
    // Writing one variant removes the other.
    side.typed().unwrap().write(&mut record, f64::MAX).unwrap();
    r.typed().unwrap().write(&mut record, 1.0f32).unwrap();
    schema.check_record(ty, &record, &[], &limits()).unwrap();
    assert_eq!(side.typed::<f64>().unwrap().read(&record).unwrap(), None);
    assert_eq!(r.typed::<f32>().unwrap().read(&record).unwrap(), Some(1.0));
    side.typed().unwrap().write(&mut record, 2.5f64).unwrap();
    // A member that was written and cleared leaves no trace.
    let on = at(&schema, ty, "on");
    on.typed().unwrap().write(&mut record, true).unwrap();
    assert_eq!(on.typed::<bool>().unwrap().read(&record).unwrap(), Some(true));
    on.clear(&mut record).unwrap();
    on.clear(&mut record).unwrap();
    assert_eq!(on.typed::<bool>().unwrap().read(&record).unwrap(), None);
    assert_eq!(record, wanted);
}

#[test]
fn a_value_that_the_kind_lacks_leaves_the_record_as_it_was() {
    let (schema, ty) = shapes();
    let mut record = vec![0; schema.extent(ty).unwrap().size as usize];
    let half = at(&schema, ty, "half").typed::<f64>().unwrap();
    assert_eq!(half.write(&mut record, 1e6).unwrap_err().code(), "record/range");
    assert!(record.iter().all(|b| *b == 0));
    half.write(&mut record, f64::NEG_INFINITY).unwrap();
    assert_eq!(half.read(&record).unwrap(), Some(f64::NEG_INFINITY));
    assert_eq!(half.write(&mut record[1..], 1.0).unwrap_err().code(), "record/length");
}

#[test]
fn parts_are_read_as_types_that_hold_all_their_values() {
    let (schema, ty) = shapes();
    let refused = [
        at(&schema, ty, "id").typed::<u8>().err(),
        at(&schema, ty, "id").typed::<u32>().err(),
        at(&schema, ty, "shape.square.side").typed::<f32>().err(),
        at(&schema, ty, "on").typed::<u8>().err(),
        at(&schema, ty, "id").clear(&mut [0; 64]).err(),
        at(&schema, ty, "id").entry(&[0; 64]).err(),
        at(&schema, ty, "id").string(&[0; 64], &[]).err(),
    ];
    for error in refused {
        assert_eq!(error.unwrap().code(), "record/access");
    }
    assert!(at(&schema, ty, "shape.circle.r").typed::<f64>().is_ok());
}

#[test]
fn entries_that_share_bytes_are_followed_so_far_and_no_farther() {
    // Nested arrays of 1000 entries each, all of which refer to the same bytes.
    let entries = |offset: u64| -> Vec<u8> {
        [offset.to_le_bytes(), 16_000u64.to_le_bytes()].concat().repeat(1000)
    };
    let array = |items: Value| json!({"TypeDef:Array": true, "items": items});
    let bytes = array(array(array(array(json!({"TypeDef:Uint8": true})))));
    let (schema, ty) = compile(bytes);
    let heap = [vec![0; 16_000], entries(0), entries(16_000)].concat();
    let record = [32_000u64.to_le_bytes(), 16_000u64.to_le_bytes()].concat();
    let few = limits().with_decoded_len(1 << 20);
    let error = schema.check_record(ty, &record, &heap, &few).unwrap_err();
    assert_eq!(error.code(), "record/too-large");
}

#[test]
fn members_without_bytes_are_met_so_often_and_no_more() {
    let nested = |levels: u32| {
        let mut defs = json!({"0": {"TypeDef:Struct": [], "properties": {}, "align": 1}});
        for level in 1..=levels {
            let below = json!({"$ref": format!("#/$defs/{}", level - 1)});
            defs[level.to_string()] = json!({"TypeDef:Struct": ["a", "b"], "align": 1,
                "properties": {"a": below, "b": below}, "required": ["a", "b"]});
        }
        let top = json!({"$ref": format!("#/$defs/{levels}")});
        json!({"TypeDef:Struct": ["n", "x"], "align": 1, "required": ["n", "x"], "$defs": defs,
            "properties": {"n": {"TypeDef:Uint8": true}, "x": top}})
    };
    let (schema, ty) = compile(nested(5));
    assert!(schema.record_value(ty, &[7], &[], &limits()).is_ok());
    let few = limits().with_nodes(62);
    assert_eq!(schema.check_record(ty, &[7], &[], &few).unwrap_err().code(), "schema/too-large");
    assert!(schema.check_record(ty, &[7], &[], &few.with_nodes(63)).is_ok());
    let (schema, ty) = compile(nested(40));
    let found = schema.check_record(ty, &[7], &[], &limits()).unwrap_err();
    assert_eq!(found.code(), "schema/too-large");
}

#[test]
fn errors_name_the_path() {
    let (schema, ty) = shapes();
    let mut encoder = Encoder::new(&schema, ty, &limits()).unwrap();
    let mut record = vec![0; encoder.size()];
    let text = br#"{"id": 1, "shape": {"kind": "circle", "r": 1e99}}"#;
    let error = encoder.text(text, &mut record, &mut Vec::new()).unwrap_err();
    assert_eq!(error.message(), "`shape.circle.r`: 1e99 is out of range for its kind");
}
