//! NumPy's files: read as NumPy wrote them, and written so that NumPy reads them.

use crate::described::{self, compare};
use crate::numpy_files::{array, deflated, rejects};
use crate::pytorch_files::zip;
use holdall::{
    Check, Convert, DType, Io, Layout, Limits, LogicalType, OpenOptions, Role, TensorRecords,
    TensorSpec, Value, WriteOptions, Writer, convert, npy, verify,
};

/// Every tensor of every file that NumPy wrote has NumPy's elements, in all ways of reading, and after
/// conversions.
#[test]
fn files_of_numpy_have_its_elements() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("numpy");
    for (path, wanted) in &files {
        let open = |io| OpenOptions::new().with_io(io).with_check(Check::All).open(path).unwrap();
        let file = open(Io::Map);
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let options = Convert::new(WriteOptions::new().with_overwrite(true)).with_dense();
        let targets = ["out.zt", "out.npz"].map(|name| {
            let target = dir.path().join(name);
            convert(&file, &target, &options).unwrap();
            holdall::open(&target).unwrap()
        });
        let [zt, npz] = targets;
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            if let Some(count) = wanted["records"].as_u64() {
                for file in [&file, &open(Io::Read), &zt, &npz] {
                    are_records(file, name, count, &wanted["dense_sha256"]);
                }
                continue;
            }
            let sum = match &wanted["dense_sha256"] {
                serde_json::Value::Null => &wanted["components"]["data"]["sha256"],
                sum => sum,
            };
            for (which, file) in
                [("mapped", &file), ("read", &open(Io::Read)), ("to zt", &zt), ("to npz", &npz)]
            {
                let dense = file.tensor(name).unwrap().to_dense().unwrap();
                compare(&dense, wanted, sum, &format!("{} {name} {which}", path.display()));
            }
        }
        for file in [&file, &zt, &npz] {
            let report = verify(file, &Default::default()).unwrap();
            assert!(report.is_sound(), "{}", path.display());
            assert!(report.read_len <= report.stored_len, "{}: bytes count once", path.display());
        }
    }
    assert_eq!(files.len(), 8);
}

/// Structured arrays are datasets: their bytes are those of NumPy's fields one after the other,
/// little-endian, read whole, by ranges and record by record; and the schema gives the offsets.
fn are_records(file: &holdall::File, name: &str, count: u64, sum: &serde_json::Value) {
    let place = format!("{} {name}", file.name());
    let tensor = file.tensor(name).unwrap();
    assert_eq!((tensor.layout(), tensor.shape()), (&Layout::Records, &[count][..]), "{place}");
    let bytes = tensor.bytes(&Role::Data).unwrap();
    assert_eq!(described::hex(&bytes), *sum, "{place}");
    let records = tensor.records().unwrap();
    let stride = bytes.len() / (count as usize).max(1);
    for at in 0..count as usize {
        let range = at * stride..(at + 1) * stride;
        let own = tensor.bytes_range(&Role::Data, range.start as u64..range.end as u64).unwrap();
        assert_eq!(own, bytes[range], "{place}");
        records.record(at as u64).unwrap().to_json().unwrap();
    }
}

/// Datasets are written as structured arrays, which express the schema as far as NumPy can; the rest is
/// stored in a separate entry. Datasets with heap entries are refused before a byte is written.
#[test]
fn datasets_become_structured_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let schema = serde_json::json!({
        "type": "object", "TypeDef:Struct": ["tag", "at", "é", "px", "kind"], "align": "natural",
        "required": ["tag", "at", "é", "px", "kind"],
        "properties": {
            "tag": {"TypeDef:Uint8": true},
            "at": {"TypeDef:Timestamp": true},
            "é": {"type": "array", "TypeDef:Array": true, "minItems": 2, "maxItems": 2, "items": {"TypeDef:BFloat16": true}},
            "px": {"TypeDef:Tensor": {"dtype": "F32", "shape": [1, 2]}},
            "kind": {"enum": ["cat", "dog"], "TypeDef:Enum": true},
        },
    });
    let of = |schema: &serde_json::Value, len: usize| {
        let mut spec = TensorSpec::dense("r", DType::U8, [2]);
        spec.layout = Layout::Records;
        spec.components[0].decoded_len = len as u64;
        spec.attributes.push("metatensor.kind", Value::Text(schema.to_string()));
        spec
    };
    let path = dir.path().join("a.npz");
    // tag, 7 bytes of padding, at, é, px, kind, 3 bytes of padding.
    let mut bytes = vec![0; 64];
    for (at, record) in bytes.chunks_mut(32).enumerate() {
        record[0] = 7;
        record[8..28].copy_from_slice(&[at as u8 + 1; 20]);
        record[28] = at as u8;
    }
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    writer.add(of(&schema, 64), &[&bytes]).unwrap();
    writer.finish().unwrap();
    let stored = std::fs::read(&path).unwrap();
    let descr = "[('tag', '|u1'), ('', '|V7'), ('at', '<M8[ns]'), ('\\xe9', '|V2', (2,)), ('px', '<f4', (1, 2)), ('kind', '|u1'), ('', '|V3')]";
    assert!(stored.windows(descr.len()).any(|w| w == descr.as_bytes()));
    let file = holdall::open(&path).unwrap();
    let tensor = file.tensor("r").unwrap();
    assert_eq!(tensor.attributes(), &of(&schema, 64).attributes);
    assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes);
    let json = tensor.records().unwrap().record(1).unwrap().to_json().unwrap();
    assert!(json.contains("\"kind\":\"dog\""), "{json}");
    let refused = |schema: serde_json::Value, len: usize| {
        let target = dir.path().join("no.npz");
        let mut writer = Writer::create(&target, &WriteOptions::new()).unwrap();
        writer.tensor(of(&schema, len)).unwrap_err().code()
    };
    let one = |member: serde_json::Value, required: bool| {
        let required = if required { vec!["a"] } else { vec![] };
        serde_json::json!({"type": "object", "TypeDef:Struct": ["a"], "properties": {"a": member}, "required": required, "align": 1})
    };
    assert_eq!(refused(one(serde_json::json!({"TypeDef:String": true}), true), 32), "npz/layout");
    assert_eq!(refused(one(serde_json::json!({"TypeDef:Uint8": true}), false), 4), "npz/layout");
    assert_eq!(refused(serde_json::json!({"TypeDef:Uint8": true}), 2), "npz/layout");
    assert_eq!(refused(one(serde_json::json!({"TypeDef:Uint8": true}), true), 3), "npz/declared");
}

/// Converted records come from chunks: any ranges of them equal those of the whole.
#[test]
fn long_structured_arrays_are_read_by_ranges() {
    let count = 400_000u32;
    let stored: Vec<u8> =
        (0..count).flat_map(|n| [&n.to_be_bytes()[..], &[0xEE, n as u8]].concat()).collect();
    let wanted: Vec<u8> =
        (0..count).flat_map(|n| [&n.to_le_bytes()[..], &[n as u8]].concat()).collect();
    let descr = "[('n', '>u4'), ('', '|V1'), ('b', '|u1')]";
    let file = array(descr, false, "(400000,)", &stored);
    let file = OpenOptions::new().open_bytes(file, "file").unwrap();
    let tensor = file.tensor("data").unwrap();
    assert_eq!(tensor.bytes(&Role::Data).unwrap(), wanted);
    for range in [0..1u64, 873_813 * 2..873_900 * 2, 1_999_999..2_000_000, 4_999..1_900_000] {
        let own = tensor.bytes_range(&Role::Data, range.clone()).unwrap();
        assert!(own == wanted[range.start as usize..range.end as usize], "{range:?}");
    }
    let json = tensor.records().unwrap().record(399_999).unwrap().to_json().unwrap();
    assert_eq!(json, "{\"n\":399999,\"b\":127}");
}

/// `np.savez` without arrays writes a zip without entries, and a file with only attributes has no array
/// either.
#[test]
fn files_without_arrays_are_files() {
    let mut nothing = b"PK\x05\x06".to_vec();
    nothing.resize(22, 0);
    let file = OpenOptions::new().open_bytes(nothing, "nothing.npz").unwrap();
    assert_eq!((file.format(), file.len()), ("npz", 0));
    let mut attributes = holdall::Attributes::new();
    attributes.push("epoch", Value::Integer(7));
    let options = WriteOptions::new()
        .with_format(holdall::formats::by_name("npz").unwrap())
        .with_attributes(attributes.clone());
    let bytes = Writer::stream(Vec::new(), &options).unwrap().finish().unwrap();
    let file = OpenOptions::new().open_bytes(bytes, "facts.npz").unwrap();
    assert_eq!((file.len(), file.attributes()), (0, &attributes));
}

/// Contents that NumPy cannot express are stored in separate entries, and restored.
#[test]
fn written_files_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let mut attributes = holdall::Attributes::new();
    attributes.push("epoch", Value::Integer(7));
    let options = WriteOptions::new().with_attributes(attributes);
    let mut writer = Writer::create(&path, &options).unwrap();
    let mut typed = TensorSpec::dense("f8", DType::U8, [2, 2]);
    typed.components[0].logical_type = Some(LogicalType::F8E5M2);
    typed.attributes.push("scale", Value::Float(0.5));
    let mut time = TensorSpec::dense("time", DType::I64, [1]);
    time.attributes.push("numpy.descr", Value::Text("<M8[ns]".into()));
    let mut lie = TensorSpec::dense("lie", DType::U8, [3]);
    lie.attributes.push("numpy.descr", Value::Text("<U7".into()));
    let tensors = [
        (TensorSpec::dense("bf", DType::Bf16, [3]), vec![1u8, 2, 3, 4, 5, 6]),
        (typed, vec![7, 8, 9, 10]),
        (TensorSpec::dense("a/ü", DType::F32, [0, 4]), vec![]),
        (time, vec![1; 8]),
        (lie, vec![1, 2, 3]),
    ];
    for (spec, bytes) in &tensors {
        writer.add(spec.clone(), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    let text = std::fs::read(&path).unwrap();
    for descr in ["'<V2'", "'|V1'", "'<M8[ns]'", "'|u1'"] {
        assert!(text.windows(descr.len()).any(|w| w == descr.as_bytes()), "{descr}");
    }
    let file = holdall::open(&path).unwrap();
    assert_eq!(file.index().attributes().get("epoch"), Some(&Value::Integer(7)));
    for (spec, bytes) in &tensors {
        let tensor = file.tensor(&spec.name).unwrap();
        let c = tensor.components().next().unwrap();
        assert_eq!((tensor.shape(), c.dtype), (&spec.shape[..], spec.components[0].dtype));
        assert_eq!(c.logical_type, spec.components[0].logical_type, "{}", spec.name);
        assert_eq!(tensor.attributes(), &spec.attributes, "{}", spec.name);
        assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes, "{}", spec.name);
        assert_eq!(c.stored.start % 64, 0);
    }
    assert!(verify(&file, &Default::default()).unwrap().is_sound());
    // The same bytes again.
    let again = dir.path().join("b.npz");
    convert(&file, &again, &Convert::new(WriteOptions::new())).unwrap();
    assert!(std::fs::read(&again).unwrap() == text);
}

#[test]
fn unsupported_tensors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |spec: TensorSpec| {
        let path = dir.path().join("a.npz");
        let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
        writer.tensor(spec).unwrap_err().code()
    };
    assert_eq!(fails(TensorSpec::dense("../w", DType::U8, [1])), "npz/fit");
    assert_eq!(fails(TensorSpec::dense("a\\w", DType::U8, [1])), "npz/fit");
    let mut packed = TensorSpec::dense("w", DType::U8, [2]);
    packed.components[0].logical_type = Some(LogicalType::F4E2M1);
    packed.components[0].decoded_len = 1;
    assert_eq!(fails(packed), "npz/element-type");
    let mut blob = TensorSpec::dense("w", DType::U8, [2]);
    blob.layout = holdall::Layout::SparseCoo;
    assert_eq!(fails(blob), "npz/layout");
    let options = WriteOptions::new().with_digest(Some(holdall::Algorithm::Sha256));
    let e = Writer::create(dir.path().join("b.npz"), &options).map(drop).unwrap_err();
    assert_eq!(e.code(), "write/not-in-format");
    // NumPy needs its CRC-32, whatever was requested.
    let path = dir.path().join("c.npz");
    let mut writer = Writer::create(&path, &WriteOptions::new().with_digest(None)).unwrap();
    writer.add(TensorSpec::dense("w", DType::U8, [1]), &[&[1]]).unwrap();
    writer.finish().unwrap();
    assert!(verify(&holdall::open(&path).unwrap(), &Default::default()).unwrap().is_sound());
}

/// An array that cannot be read leaves the others readable, and ranges of compressed arrays are read
/// independently.
#[test]
fn arrays_are_read_one_by_one() {
    let whole: Vec<u8> = (0..=255).cycle().take(60_000).collect();
    let long = array("<u2", false, "(30000,)", &whole);
    let objects = array("|O", false, "(1,)", b"\x80\x04N.");
    let file = deflated(&[("a.npy", &long), ("o.npy", &objects)]);
    let file = OpenOptions::new().open_bytes(file, "file").unwrap();
    assert_eq!(file.tensor("o").unwrap().info().fault().unwrap().code(), "npy/dtype");
    let a = file.tensor("a").unwrap();
    assert_eq!(a.bytes_range(&Role::Data, 40_000..40_007).unwrap(), whole[40_000..40_007]);
    assert_eq!(a.bytes(&Role::Data).unwrap(), whole);
    let pieces: Vec<u8> =
        a.pieces(&Role::Data).unwrap().flat_map(|piece| piece.unwrap().to_vec()).collect();
    assert_eq!(pieces, whole);
    // A zip with another kind of file in it, and one without arrays.
    let u8s = npy::header(DType::U8, None, &[]).unwrap();
    let mixed = zip(&[("x.npy", &[&u8s[..], &[3]].concat()), ("notes.txt", b"hello")]);
    let file = OpenOptions::new().open_bytes(mixed, "file").unwrap();
    assert_eq!((file.len(), file.index().warnings()[0].code), (1, "npz/passed-over"));
    let none = OpenOptions::new().open_bytes(zip(&[("x.txt", b"1")]), "file").unwrap_err();
    assert_eq!(none.code(), "format/unknown");
    let package = zip(&[("carton.toml", b""), ("tensor_data/x.npy", &u8s)]);
    let e = OpenOptions::new().open_bytes(package, "file").unwrap_err();
    assert!(e.code().starts_with("carton/") || e.code().starts_with("toml/"), "{e}");
}

/// Structured arrays whose first dimension varies fastest have their records in row-major order, as NumPy
/// returns them.
#[test]
fn records_by_columns_are_put_in_rows() {
    // Shape (2, 3), stored as (3, 2): a big-endian number that is the index of the record in row-major order,
    // and its negative.
    let record = |n: u8| [0, n, n.wrapping_neg()];
    let stored: Vec<u8> = [0, 3, 1, 4, 2, 5].into_iter().flat_map(record).collect();
    let rows: Vec<u8> = (0..6u8).flat_map(|n| [n, 0, n.wrapping_neg()]).collect();
    let of = |descr: &str, shape: &str| array(descr, true, shape, &stored);
    let turned = of("[('a', '>u2'), ('b', '|i1')]", "(2, 3)");
    let deflated = deflated(&[("data.npy", &turned)]);
    for file in [turned, deflated] {
        let file = OpenOptions::new().open_bytes(file, "file").unwrap();
        let tensor = file.tensor("data").unwrap();
        let shape = tensor.attributes().get("numpy.shape").map(Value::to_json);
        assert_eq!(shape.as_deref(), Some("[2,3]"));
        assert_eq!(tensor.bytes(&Role::Data).unwrap(), rows);
        assert_eq!(tensor.bytes_range(&Role::Data, 4..11).unwrap(), rows[4..11]);
        let json = tensor.records().unwrap().record(4).unwrap().to_json().unwrap();
        assert_eq!(json, r#"{"a":4,"b":-4}"#);
        assert!(verify(&file, &Default::default()).unwrap().is_sound());
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out.npz");
        convert(&file, &out, &Convert::new(WriteOptions::new())).unwrap();
        let written = holdall::open(&out).unwrap();
        assert_eq!(written.tensor("data").unwrap().bytes(&Role::Data).unwrap(), rows);
    }
    // Bytes that need no swapping, and dimensions that change nothing.
    for (shape, wanted) in [("(2, 3)", [0, 1, 2, 3, 4, 5]), ("(1, 6, 1)", [0, 3, 1, 4, 2, 5])] {
        let file = of("[('a', '|i1'), ('b', '|i1'), ('c', '|i1')]", shape);
        let file = OpenOptions::new().open_bytes(file, "file").unwrap();
        let bytes = file.tensor("data").unwrap().bytes(&Role::Data).unwrap();
        assert_eq!(bytes, wanted.into_iter().flat_map(record).collect::<Vec<u8>>());
    }
}

/// The total of all fields in a file is limited: small compressed headers may declare many.
#[test]
fn fields_of_all_arrays_are_counted() {
    let pair = array("[('a', '|i1'), ('b', '|i1')]", false, "(1,)", &[1, 2]);
    let file = deflated(&[("a.npy", &pair), ("b.npy", &pair)]);
    let mut limits = Limits::default();
    limits.schema_nodes = 7;
    let file = OpenOptions::new().with_limits(limits).open_bytes(file, "file").unwrap();
    assert!(file.tensor("a").unwrap().records().is_ok());
    let fault = file.tensor("b").unwrap().info().fault().unwrap();
    assert_eq!(fault.code(), "schema/too-large");
}

/// No prefix and no changed byte of a file causes more than an error.
#[test]
fn damaged_files_are_survived() {
    for (name, file) in rejects() {
        for cut in 0..file.len() {
            let _ = OpenOptions::new().open_bytes(file[..cut].to_vec(), name);
        }
    }
}
