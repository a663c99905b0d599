//! Layouts that are defined by descriptions: read, checked, compared, converted.

use crate::make::{self, Made, bytes_of, dense, f32s, part, tensor};
use holdall::{
    Attributes, Bytes, Convert, DType, DiffOptions, File, Layout, Layouts, Limits, OpenOptions,
    Role, StatsOptions, Value, VerifyOptions, WriteOptions, diff, formats, stats, verify,
};

/// The layout printed in the document of zTensor 1.0, which gives only the lengths of its bytes.
const QUANTIZED_4BIT: &str = r#"
[layouts.quantized_4bit]
about = "two elements in a byte, a scale and a zero point for each row"
shape = ["rows", "columns"]
index = ["row", "column"]
value = "(data[row, column] - zero_point[row]) * scale[row]"

[layouts.quantized_4bit.components]
data = { bits = 4, shape = ["rows", "columns"] }
scale = { read_as = "f32", shape = ["rows"] }
zero_point = { read_as = "f32", shape = ["rows"] }
"#;

const ROWS: u64 = 4;
const COLUMNS: u64 = 6000;

fn described(text: &str) -> Layouts {
    Layouts::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn other(name: &str) -> Layout {
    Layout::Other(name.into())
}

fn role(name: &str) -> Role {
    Role::from_name(name)
}

/// Returns the nibbles of element `at`.
fn q(at: u64) -> u8 {
    (at * 7 % 16) as u8
}

const SCALES: [f32; 4] = [0.5, 0.1, -3.25, 1e-20];
const ZEROS: [f32; 4] = [8.0, 7.3, 0.0, 15.0];

/// Returns a tensor of that layout as printed in the document: 1.0 has one dtype for all components.
fn printed() -> Made {
    let data: Vec<u8> = (0..ROWS * COLUMNS / 2).map(|at| q(2 * at) | q(2 * at + 1) << 4).collect();
    let parts = vec![
        part(role("data"), DType::U8, data),
        part(role("scale"), DType::U8, f32s(&SCALES)),
        part(role("zero_point"), DType::U8, f32s(&ZEROS)),
    ];
    tensor("w", &[ROWS, COLUMNS], other("quantized_4bit"), parts)
}

fn values() -> Vec<f32> {
    let one = |at: u64| {
        let row = (at / COLUMNS) as usize;
        let value = (f64::from(q(at)) - f64::from(ZEROS[row])) * f64::from(SCALES[row]);
        value as f32
    };
    (0..ROWS * COLUMNS).map(one).collect()
}

fn opened(made: &[Made], version: &str, text: &str) -> File {
    let bytes = bytes_of(version, &Attributes::new(), made);
    let options = OpenOptions::new().with_layouts(described(text));
    options.open_bytes(bytes, "test").unwrap()
}

#[test]
fn the_documents_own_layout_has_values() {
    for version in ["ztensor@1.0", "ztensor@1.2.0"] {
        let file = opened(&[printed()], version, QUANTIZED_4BIT);
        let w = file.tensor("w").unwrap();
        assert!(w.description().is_some());
        let dense = w.to_dense().unwrap();
        assert_eq!((dense.dtype(), dense.shape()), (DType::F32, &[ROWS, COLUMNS][..]));
        assert_eq!(dense.to_vec::<f32>().unwrap(), values(), "{version}");
        // Any range of it is the same.
        let view = w.described().unwrap();
        for range in [0..1, 4095..4097, 5999..6001, 7..20000, 23999..24000, 24000..24000] {
            let mut out = Vec::new();
            view.elements(range.clone(), &mut out).unwrap();
            let all = dense.bytes().slice(range.start as usize * 4..range.end as usize * 4);
            assert_eq!(out, all, "{range:?}");
        }
        assert_eq!(view.elements(1..24001, &mut Vec::new()).unwrap_err().code(), "layout/rows");
        let found = stats(&w, &StatsOptions::new()).unwrap();
        let (least, most) = (values(), values());
        let least = least.into_iter().fold(f32::INFINITY, f32::min);
        let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(found.count, ROWS * COLUMNS);
        assert_eq!(found.min.unwrap().to_f64(), f64::from(least));
        assert_eq!(found.max.unwrap().to_f64(), f64::from(most));
        let report = verify(&file, &VerifyOptions::new()).unwrap();
        assert!(report.is_sound());
        assert_eq!(report.described, 1);
        assert!(report.unverified.iter().all(|u| u.reason.as_str() != "unknown_layout"));
    }
}

#[test]
fn a_layout_without_description_is_refused_with_advice() {
    let file = make::open(bytes_of("ztensor@1.0", &Attributes::new(), &[printed()]));
    let w = file.tensor("w").unwrap();
    let e = w.to_dense().unwrap_err();
    assert_eq!(e.code(), "file/unknown-layout");
    assert!(e.remedies().iter().any(|r| r.name() == "describe_layout"), "{e}");
    assert!(e.hint().is_some());
    assert_eq!(w.described().unwrap_err().code(), "layout/wrong-layout");
    let report = verify(&file, &VerifyOptions::new()).unwrap();
    assert_eq!(report.described, 0);
}

#[test]
fn a_described_layout_becomes_dense_in_other_formats() {
    let dir = tempfile::tempdir().unwrap();
    let file = opened(&[printed()], "ztensor@1.0", QUANTIZED_4BIT);
    let target = dir.path().join("out.safetensors");
    let options = Convert::new(WriteOptions::new());
    let e = holdall::convert(&file, &target, &options).unwrap_err();
    assert!(e.remedies().iter().any(|r| r.name() == "make_dense"), "{e}");
    holdall::convert(&file, &target, &options.clone().with_dense()).unwrap();
    let out = holdall::open(&target).unwrap();
    let w = out.tensor("w").unwrap();
    assert_eq!((w.layout(), w.shape()), (&Layout::Dense, &[ROWS, COLUMNS][..]));
    assert_eq!(w.dense().unwrap().to_vec::<f32>().unwrap(), values());
    // It equals its dense elements, and other bytes with the same values are equal, too.
    let found = diff(&file, &out, &DiffOptions::new()).unwrap();
    assert!(found.values_agree(), "{found:?}");
    // Unchanged, if the target can hold it.
    let kept = dir.path().join("kept.zt");
    let keep = Convert::new(WriteOptions::new().with_format(formats::by_name("ztensor").unwrap()));
    holdall::convert(&file, &kept, &keep).unwrap();
    assert_eq!(
        holdall::open(&kept).unwrap().tensor("w").unwrap().layout(),
        &other("quantized_4bit")
    );
}

#[test]
fn described_layouts_are_compared_by_value() {
    let with = |data: u8, scale: f32| {
        let parts = vec![
            part(role("data"), DType::U8, vec![data; 2]),
            part(role("scale"), DType::U8, f32s(&[scale])),
            part(role("zero_point"), DType::U8, f32s(&[0.0])),
        ];
        let made = tensor("w", &[1, 4], other("quantized_4bit"), parts);
        opened(&[made], "ztensor@1.0", QUANTIZED_4BIT)
    };
    let same = diff(&with(0x22, 1.0), &with(0x44, 0.5), &DiffOptions::new()).unwrap();
    assert!(!same.is_identical() && same.values_agree(), "{same:?}");
    let others = diff(&with(0x22, 1.0), &with(0x44, 0.25), &DiffOptions::new()).unwrap();
    assert!(!others.values_agree());
}

/// The other features of descriptions: tables, attributes, defaults, bits in the other order, other types.
#[test]
fn everything_that_a_description_can_say() {
    let text = r#"
[layouts.codebook]
dtype = "bf16"
index = ["k"]
value = "book[data[k]] * scale[k // size] + shift + exp2(exponent[k % 2]) * 0"
attributes = { size = { default = 3 }, shift = {} }
tables = { book = [-1.0, 0, 0.5, 2] }

[layouts.codebook.components]
data = { dtype = ["u8", "i8"], bits = 2, first = "high", shape = ["count"] }
scale = { shape = ["(count + size - 1) // size"], default = 1 }
exponent = { read_as = "i8", shape = [2] }
"#;
    let data = part(role("data"), DType::U8, vec![0b00_01_10_11, 0b11_00_00_00]);
    let exponent = part(role("exponent"), DType::U8, vec![0xff, 3]);
    let made = tensor("w", &[5, 1], other("codebook"), vec![data.clone(), exponent.clone()]);
    let made = made.attribute("shift", Value::Text("1".into()));
    let file = opened(&[made], "ztensor@1.2.0", text);
    let dense = file.tensor("w").unwrap().to_dense().unwrap();
    assert_eq!((dense.dtype(), dense.shape()), (DType::Bf16, &[5, 1][..]));
    assert_eq!(dense.to_f32().unwrap(), [0.0, 1.0, 1.5, 3.0, 3.0]);
    let scale = part(role("scale"), DType::F16, vec![0, 0x40, 0, 0x3c]); // 2 and 1.
    let made = tensor("w", &[5], other("codebook"), vec![data, scale, exponent]);
    let made = made.attribute("shift", Value::Float(0.5)).attribute("size", Value::Integer(4));
    let file = opened(&[made], "ztensor@1.2.0", text);
    let dense = file.tensor("w").unwrap().to_dense().unwrap();
    assert_eq!(dense.to_f32().unwrap(), [-1.5, 0.5, 1.5, 4.5, 2.5]);
}

/// Errors in a tensor are found when it is read, and by verification, with their position.
#[test]
fn tensors_that_are_not_as_described() {
    let text = r#"
[layouts.x]
shape = ["n"]
index = ["i"]
value = "data[i + by] // one[0]"
attributes = { by = { default = 0 } }
[layouts.x.components]
data = { dtype = "u8", shape = ["n"] }
one = { shape = ["n - 3"] }
"#;
    let data = || part(role("data"), DType::U8, vec![1, 2, 3, 4]);
    let one = |n: u8| part(role("one"), DType::U8, vec![n]);
    let made =
        |shape: &[u64], parts: Vec<make::MadeComponent>| tensor("w", shape, other("x"), parts);
    let sound = made(&[4], vec![data(), one(1)]);
    assert_eq!(
        opened(std::slice::from_ref(&sound), "ztensor@1.2.0", text)
            .tensor("w")
            .unwrap()
            .to_dense()
            .unwrap()
            .to_f32()
            .unwrap(),
        [1.0, 2.0, 3.0, 4.0]
    );
    for (wrong, code, says) in [
        (made(&[2, 2], vec![data(), one(1)]), "layouts/fit", "expected 1 dimensions"),
        (made(&[4], vec![data()]), "layouts/fit", "missing component `one`"),
        (
            made(&[4], vec![data(), one(1), part(role("g"), DType::U8, vec![1])]),
            "layouts/fit",
            "unexpected component `g`",
        ),
        (made(&[3], vec![data(), one(1)]), "layouts/fit", "require 3 bytes, found 4"),
        (made(&[2], vec![data(), one(1)]), "layouts/fit", "require 2 bytes, found 4"),
        (
            made(&[4], vec![part(role("data"), DType::I8, vec![0; 4]), one(1)]),
            "layouts/fit",
            "are i8, expected u8",
        ),
        (
            sound.clone().attribute("by", Value::Text("x".into())),
            "layouts/fit",
            "`by` is not a number",
        ),
        (
            sound.clone().attribute("by", Value::Integer(1)),
            "layouts/value",
            "element 3: subscript 0 of `data` is 4, outside 0..4",
        ),
        (
            sound.clone().attribute("by", Value::Float(1.0)),
            "layouts/value",
            "must be a whole number",
        ),
        (made(&[4], vec![data(), one(0)]), "layouts/value", "element 0: the result of `//`"),
    ] {
        let file = opened(&[wrong], "ztensor@1.2.0", text);
        let e = file.tensor("w").unwrap().to_dense().unwrap_err();
        assert_eq!(e.code(), code, "{e}");
        assert!(e.message().contains(says) && e.tensor() == Some("w"), "{e}");
        let report = verify(&file, &VerifyOptions::new()).unwrap();
        let found: Vec<_> = report.findings.iter().map(|e| (e.code(), e.tensor())).collect();
        assert_eq!(found, [(code, Some("w"))]);
        assert_eq!(
            stats(&file.tensor("w").unwrap(), &StatsOptions::new()).unwrap_err().code(),
            code
        );
    }
    // A dense copy beyond the limits is not started, even if the file is small.
    let vast = made(&[1 << 40], vec![data(), one(1)]);
    let e = opened(&[vast], "ztensor@1.2.0", text).tensor("w").unwrap().described().unwrap_err();
    assert_eq!(e.code(), "layout/dense-limit");
    // A tensor with a fault keeps it.
    let none = tensor("w", &[0], other("x"), vec![part(role("data"), DType::U8, vec![]), one(1)]);
    assert!(opened(&[none], "ztensor@1.2.0", text).tensor("w").unwrap().to_dense().is_err());
}

#[test]
fn invalid_descriptions_are_reported_with_line_and_key() {
    let head = "[layouts.x]\nindex = ['i']\nvalue = '1'\n[layouts.x.components]\n";
    let with = |key: &str, value: &str| {
        format!("[layouts.x]\nindex = ['i']\nvalue = '1'\n{key} = {value}\ncomponents = {{}}\n")
    };
    let of = |inside: &str| format!("{head}d = {{ {inside} }}\n");
    for (text, code, says) in [
        ("a = 1\na = 2\n".to_owned(), "toml/broken", "line 2"),
        ("x = 1\n".to_owned(), "layouts/description", "missing key `layouts`"),
        ("layouts = 3\n".to_owned(), "layouts/description", "line 1: `layouts`: expected a table"),
        (
            "layouts = {}\nmore = 1\n".to_owned(),
            "layouts/description",
            "line 2: `more`: unknown key",
        ),
        ("[layouts.dense]\n".to_owned(), "layouts/taken", "line 1: `layouts.dense`"),
        ("[layouts.x]\n".to_owned(), "layouts/description", "missing key `index` in `layouts.x`"),
        (
            "[layouts.x]\nindex = ['i']\n".to_owned(),
            "layouts/description",
            "missing key `components`",
        ),
        (
            "[layouts.x]\nindex = ['i']\ncomponents = {}\n".to_owned(),
            "layouts/description",
            "missing key `value`",
        ),
        (
            "[layouts.x]\nindex = ['i', 'j']\n".to_owned(),
            "layouts/description",
            "each of 1 dimensions, found 2 names",
        ),
        (
            with("dtype", "'i8'"),
            "layouts/description",
            "line 4: `layouts.x.dtype`: unknown type `i8`; expected one of",
        ),
        (with("shape", "['n', 'm']"), "layouts/description", "each of 2 dimensions, found 1 names"),
        (with("shape", "['i']"), "layouts/description", "`i` is used for two things"),
        (with("shape", "['count']"), "layouts/description", "`count` is used for two things"),
        (with("shape", "['1n']"), "layouts/description", "`1n` is not a valid name"),
        (with("shape", "['min']"), "layouts/description", "name of a function"),
        (with("shape", "'n'"), "layouts/description", "expected a list"),
        (with("about", "1"), "layouts/description", "expected a string"),
        (
            with("attributes", "{ a = 1 }"),
            "layouts/description",
            "line 4: `layouts.x.attributes.a`: expected a table",
        ),
        (
            with("attributes", "{ a = { z = 1 } }"),
            "layouts/description",
            "`layouts.x.attributes.a.z`",
        ),
        (with("tables", "{ t = [1, 'a'] }"), "layouts/description", "a list of numbers"),
        (with("unknown", "1"), "layouts/description", "`layouts.x.unknown`: unknown key"),
        (of(""), "layouts/description", "missing key `shape`"),
        (of("shape = ['i']"), "layouts/expression", "line 5: `layouts.x.components.d.shape`"),
        (of("shape = [1.5]"), "layouts/description", "whole numbers and expressions"),
        (of("shape = [1], bits = 33"), "layouts/description", "1 to 32 bits"),
        (
            of("shape = [1], bits = 3, first = 'high'"),
            "layouts/description",
            "do not fill whole bytes",
        ),
        (of("shape = [1], bits = 4, first = 'middle'"), "layouts/description", "`low` or `high`"),
        (of("shape = [1], signed = true"), "layouts/description", "requires `bits`"),
        (of("shape = [1], bits = 4, read_as = 'u8'"), "layouts/description", "not both"),
        (of("shape = [1], read_as = 'complex64'"), "layouts/description", "not a numeric type"),
        (of("shape = [1], read_as = 'f4_e5'"), "layouts/description", "not a numeric type"),
        (of("shape = [1], dtype = ['u8', 'f8']"), "layouts/description", "unknown dtype `f8`"),
        (of("shape = [1], default = 'x'"), "layouts/description", "a number"),
        (of("shape = [1], other = 1"), "layouts/description", "unknown key"),
        (
            format!("{head}'a b' = {{ shape = [1] }}\n"),
            "layouts/description",
            "`a b` is not a valid name",
        ),
        (
            with("value2", "''").replace("'1'", "'1 +'").replace("value2 = ''\n", ""),
            "layouts/expression",
            "line 3: `layouts.x.value`: `1 +`, at character 3",
        ),
    ] {
        let e = Layouts::parse(text.as_bytes(), &Limits::default()).expect_err(&text);
        assert_eq!(e.code(), code, "{text}: {e}");
        assert!(e.message().contains(says), "{text}: {e}");
    }
    let mut twice = described(QUANTIZED_4BIT);
    assert_eq!(twice.extend(described(QUANTIZED_4BIT)).unwrap_err().code(), "layouts/taken");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.toml");
    std::fs::write(&path, "[layouts.dense]\n").unwrap();
    let e = holdall::read_layouts(&path, &Limits::default()).unwrap_err();
    assert_eq!(e.source_name(), Some(path.display().to_string().as_str()));
    let e = holdall::read_layouts(dir.path().join("none.toml"), &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "io/failed");
}

/// A dense tensor is read as dense, whatever the descriptions.
#[test]
fn built_in_layouts_ignore_descriptions() {
    let made = dense("d", &[2], part(Role::Data, DType::F32, f32s(&[1.0, 2.0])));
    let file = opened(&[made], "ztensor@1.2.0", QUANTIZED_4BIT);
    assert!(file.tensor("d").unwrap().description().is_none());
    let bytes: Bytes = file.tensor("d").unwrap().to_dense().unwrap().into_bytes();
    assert_eq!(bytes, f32s(&[1.0, 2.0]));
}
