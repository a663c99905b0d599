//! Rust structs as mirrors of records: compared field by field, cast where possible, copied elsewhere.
#![cfg(feature = "derive")]

use bytemuck::{AnyBitPattern, Pod, Zeroable};
use holdall::records::{Build, FromRecord, Record};
use holdall::{Io, OpenOptions, Records, TensorRecords as _, WriteOptions};
use serde_json::{Value, json};

#[path = "../examples/mirror.rs"]
mod mirror;

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    mirror::run(&folder.path().join("mirror.zt")).unwrap();
}

fn members(align: Value, members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    json!({"TypeDef:Struct": names, "required": names, "properties": properties, "align": align})
}

fn fixed(items: Value, len: u64) -> Value {
    json!({"type": "array", "TypeDef:Array": true, "minItems": len, "maxItems": len, "items": items})
}

fn scalar(kind: &str) -> Value {
    json!({ format!("TypeDef:{kind}"): true })
}

/// Returns records of that kind, opened with `io`.
fn records(kind: &Value, values: &[Value], io: Io) -> Records {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    let mut set = build.dataset_with_schema("set", kind).unwrap();
    values.iter().for_each(|v| set.value(v).unwrap());
    build.add(set).unwrap();
    build.finish().unwrap();
    OpenOptions::new().with_io(io).open(&path).unwrap().tensor("set").unwrap().records().unwrap()
}

/// Returns the text of the error from comparing.
fn refused<T: FromRecord>(kind: &Value) -> String {
    let e = records(kind, &[], Io::Map).structs::<T>().map(drop).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("records/derive", Some("set")), "{e}");
    e.message().to_owned()
}

#[derive(Clone, Copy, Record, Zeroable, Pod, Debug, PartialEq)]
#[repr(C)]
struct Inner {
    a: u16,
    b: [i8; 2],
}

#[derive(Clone, Copy, Record, AnyBitPattern, Debug, PartialEq)]
#[repr(C)]
struct Outer {
    time: i64,
    x: f64,
    parts: [Inner; 3],
    matrix: [[f32; 2]; 2],
    z: [f32; 2],
    half: half_bits::F16,
    #[record(name = "type")]
    kind: u8,
    flag: u8,
}

/// A 16-bit float by its bits, where the schema has an integer.
mod half_bits {
    pub(crate) type F16 = u16;
}

fn outer() -> Value {
    let inner =
        members(json!("natural"), &[("a", scalar("Uint16")), ("b", fixed(scalar("Int8"), 2))]);
    members(
        json!("natural"),
        &[
            ("time", scalar("Timestamp")),
            ("x", scalar("Float64")),
            ("parts", fixed(inner, 3)),
            ("matrix", json!({"TypeDef:Tensor": {"dtype": "F32", "shape": [2, 2]}})),
            ("z", scalar("Complex64")),
            ("half", scalar("Uint16")),
            ("type", json!({"enum": ["a", "b"], "TypeDef:Enum": true})),
            ("flag", scalar("Boolean")),
        ],
    )
}

#[test]
fn nested_structs_are_cast_and_copied() {
    let value = |i: i64| {
        json!({
            "time": format!("1970-01-01T00:00:0{i}Z"), "x": i as f64 / 2.0,
            "parts": [{"a": i, "b": [1, -1]}, {"a": 2, "b": [2, -2]}, {"a": 3, "b": [3, -3]}],
            "matrix": {"data": [1, 2, 3, i]}, "z": [i, -1], "half": 7, "type": "b", "flag": true
        })
    };
    let wanted = |i: i64| Outer {
        time: i * 1_000_000_000,
        x: i as f64 / 2.0,
        parts: [
            Inner { a: i as u16, b: [1, -1] },
            Inner { a: 2, b: [2, -2] },
            Inner { a: 3, b: [3, -3] },
        ],
        matrix: [[1.0, 2.0], [3.0, i as f32]],
        z: [i as f32, -1.0],
        half: 7,
        kind: 1,
        flag: 1,
    };
    let values: Vec<Value> = (0..5).map(value).collect();
    for io in [Io::Map, Io::Read] {
        let records = records(&outer(), &values, io);
        let structs = records.structs::<Outer>().unwrap();
        assert_eq!((structs.len(), structs.is_empty()), (5, false));
        for i in 0..5 {
            assert_eq!(structs.get(i).unwrap(), wanted(i as i64));
        }
        let all: Vec<Outer> = structs.iter(1..5).unwrap().map(|s| s.unwrap()).collect();
        assert!(all.into_iter().eq((1..5).map(wanted)));
        assert_eq!(structs.get(5).unwrap_err().code(), "records/index");
        assert_eq!(structs.slice().is_some(), io == Io::Map);
        let loaded = records.loaded().unwrap().structs::<Outer>().unwrap();
        assert!(loaded.slice().unwrap().iter().copied().eq((0..5).map(wanted)));
    }
}

#[derive(Clone, Copy, Record, AnyBitPattern)]
#[repr(C, align(16))]
struct Aligned {
    x: f32,
}

#[derive(Clone, Copy, Record, AnyBitPattern)]
#[repr(C)]
struct Loose {
    x: f32,
}

#[derive(Clone, Copy, Record, AnyBitPattern)]
#[repr(C, packed)]
struct Packed {
    _skipped: u8,
    x: f32,
}

#[test]
fn records_of_another_size_are_copied_not_cast() {
    let kind = json!({
        "TypeDef:Struct": ["x"], "required": ["x"], "properties": {"x": scalar("Float32")}
    });
    let found = records(&kind, &[json!({"x": 1.5}), json!({"x": 2.5})], Io::Map);
    let aligned = found.structs::<Aligned>().unwrap();
    assert_eq!(aligned.slice().unwrap()[1].x, 2.5);
    let loose = found.structs::<Loose>().unwrap();
    assert!(loose.slice().is_none());
    assert_eq!(loose.get(1).unwrap().x, 2.5);

    let packed = members(json!(1), &[("n", scalar("Uint8")), ("x", scalar("Float32"))]);
    let found = records(&packed, &[json!({"n": 9, "x": 1.5}), json!({"n": 9, "x": 2.5})], Io::Map);
    let x = found.structs::<Packed>().unwrap().slice().unwrap()[1].x;
    assert_eq!(x, 2.5);
}

#[derive(Clone, Copy, Record, Debug)]
#[repr(C)]
struct Flags {
    on: bool,
}

#[test]
fn a_boolean_is_read_and_checked() {
    let kind = members(json!("natural"), &[("on", scalar("Boolean"))]);
    let found = records(&kind, &[json!({"on": true})], Io::Map).structs::<Flags>().unwrap();
    assert!(found.get(0).unwrap().on);
    // A byte of 2, where the schema has a number.
    let other = members(json!("natural"), &[("on", scalar("Uint8"))]);
    assert!(refused::<Flags>(&other).contains("bool in Rust, a `TypeDef:Uint8`"));
}

#[derive(Clone, Copy, Record)]
#[repr(C)]
struct Two {
    x: f32,
    y: f32,
}

#[derive(Clone, Copy, Record)]
#[repr(C)]
struct Deep {
    inner: Inner,
}

#[derive(Clone, Copy, Record)]
#[repr(C)]
struct Many {
    xs: [f32; 4],
}

#[derive(Clone, Copy, Record)]
#[repr(C)]
struct Tail {
    x: f32,
    _tail: [u8; 60],
}

#[test]
fn differences_are_named_with_both_sides() {
    let float = || scalar("Float32");
    let natural = || json!("natural");
    let of = |kind: Value, parts: &[&str]| {
        for part in parts {
            let found = refused::<Two>(&kind);
            assert!(found.contains(part), "`{part}` is not in `{found}`");
        }
    };
    of(members(natural(), &[("x", float())]), &["`y`", "not in the schema"]);
    of(
        members(natural(), &[("x", float()), ("y", scalar("Float64"))]),
        &["`y`", "f32 in Rust", "Float64"],
    );
    of(
        members(natural(), &[("y", float()), ("x", float())]),
        &["`x`", "at byte 0 in Rust, 4 in the schema"],
    );
    of(float(), &["`the record`", "a struct in Rust", "Float32"]);
    let mut optional = members(natural(), &[("x", float()), ("y", float())]);
    optional["required"] = json!(["y"]);
    of(optional, &["optional"]);
    let string = members(natural(), &[("x", float()), ("y", scalar("String"))]);
    of(string, &["`y`", "TypeDef:String"]);

    let inner = members(natural(), &[("a", scalar("Uint16")), ("b", fixed(scalar("Int8"), 3))]);
    let found = refused::<Deep>(&members(natural(), &[("inner", inner)]));
    assert!(found.contains("`inner.b`") && found.contains("Array of 3"), "{found}");
    let wide = members(json!(16), &[("a", scalar("Uint16")), ("b", fixed(scalar("Int8"), 2))]);
    let found = refused::<Deep>(&members(natural(), &[("inner", wide)]));
    assert!(found.contains("4 bytes in Rust, 16 in the schema"), "{found}");

    let xs = |kind: Value| refused::<Many>(&members(natural(), &[("xs", kind)]));
    assert!(xs(fixed(scalar("Int32"), 4)).contains("`xs[]`"));
    assert!(xs(fixed(scalar("Float32"), 5)).contains("Array of 5"));
    let aligned = json!({"TypeDef:Float32": true, "align": 16});
    assert!(xs(fixed(aligned, 4)).contains("4 bytes apart in Rust, 16 in the schema"));
    let tensor = |shape: Value| json!({"TypeDef:Tensor": {"dtype": "F32", "shape": shape}});
    assert!(xs(tensor(json!([5]))).contains("4 elements in Rust, 5 in the schema"));
    records(&members(natural(), &[("xs", tensor(json!([2, 2])))]), &[], Io::Map)
        .structs::<Many>()
        .unwrap();

    let found = refused::<Tail>(&members(natural(), &[("x", float())]));
    assert!(found.contains("64 bytes in Rust, 4 in the schema"), "{found}");
}
