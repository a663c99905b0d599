//! HDF5: files that h5py wrote are read unchanged, in every generation.

use crate::described::{self, code, compare, folder, open};
use crate::hdf5_files::{
    self, DATA, DATASET, EXTRA, I32, attribute, chunked, compound, contiguous, dataset, filters,
    leaf, link, message, rejects, shape, with_root,
};
use holdall::schema::TENSOR_SCHEMA_ATTRIBUTE;
use holdall::{
    Convert, DType, Limits, LoadOptions, OpenOptions, Role, TensorRecords, TensorSpec, Value,
    WriteOptions, Writer, convert, verify,
};

/// Every dataset of every file has h5py's elements, read at once, in ranges, and after a conversion.
#[test]
fn files_of_h5py_have_its_elements() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("hdf5");
    for (path, wanted) in &files {
        let file = holdall::open(path).unwrap();
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let target = dir.path().join("out.zt");
        let options = Convert::new(WriteOptions::new().with_overwrite(true));
        convert(&file, &target, &options).unwrap();
        let converted = holdall::open(&target).unwrap();
        let names: Vec<&str> = file.names().collect();
        let loaded = file.load(names.iter().copied(), &LoadOptions::new()).unwrap();
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            let sum = wanted.get("sha256").unwrap_or(&wanted["components"]["data"]["sha256"]);
            for (which, file) in [("read", &file), ("converted", &converted)] {
                let tensor = file.tensor(name).unwrap();
                let place = format!("{} {name} {which}", path.display());
                let bytes = match wanted["dtype"].as_str() {
                    Some("records") => {
                        let records = tensor.records().unwrap();
                        assert_eq!(serde_json::json!([records.len()]), wanted["shape"], "{place}");
                        let bytes = tensor.bytes(&Role::Data).unwrap();
                        assert_eq!(described::hex(&bytes), *sum, "{place}");
                        bytes
                    }
                    _ => {
                        let dense = tensor.dense().unwrap();
                        compare(&dense, wanted, sum, &place);
                        dense.into_bytes()
                    }
                };
                assert_eq!(
                    loaded.get(name).unwrap().bytes(&Role::Data).unwrap(),
                    &bytes,
                    "{place}"
                );
                let len = bytes.len() as u64;
                for range in [0..len.min(7), len / 3..len / 2, len.saturating_sub(5)..len] {
                    let found = tensor.bytes_range(&Role::Data, range.clone()).unwrap();
                    assert_eq!(
                        found,
                        bytes.slice(range.start as usize..range.end as usize),
                        "{place}"
                    );
                }
            }
        }
        assert!(verify(&file, &Default::default()).unwrap().is_sound(), "{}", path.display());
    }
    assert_eq!(files.len(), 22);
}

/// Compounds are datasets: their members have h5py's names, types and values.
#[test]
fn compounds_are_records() {
    for version in ["earliest", "v110"] {
        let path = folder("hdf5").join(format!("h5py_records-{version}.h5"));
        let file = holdall::open(path).unwrap();
        let records = |name: &str| file.tensor(name).unwrap().records().unwrap();
        let all = records("all");
        let kind = file
            .tensor("all")
            .unwrap()
            .attributes()
            .get(TENSOR_SCHEMA_ATTRIBUTE)
            .unwrap()
            .to_json();
        for part in ["n", "Complex64", "Float16", "|S4", "|V3", "Complex128"] {
            assert!(kind.contains(part), "{version} {part}: {kind}");
        }
        assert_eq!(
            file.tensor("all").unwrap().attributes().get("unit").and_then(Value::as_text),
            Some("mm")
        );
        assert_eq!(all.len(), 4);
        // Numbers of every width, in either byte order, with and without padding.
        let nested = records("nested");
        assert_eq!(nested.extent().size, 8 + (16 + 1) + 5);
        let [when, name, q] = ["when", "name", "at.q"].map(|path| nested.accessor(path).unwrap());
        assert!(nested.record(0).unwrap().raw(&name).unwrap().is_some_and(|b| b.len() == 5));
        assert_eq!((when.offset(), q.size()), (0, 1));
        let whole = records("table/nested");
        for range in [0..1, 7..9, 30..33] {
            for record in whole.iter(range.clone()).unwrap() {
                let record = record.unwrap();
                let alone = whole.record(record.index()).unwrap();
                assert_eq!(record.to_value().unwrap(), alone.to_value().unwrap());
            }
        }
        // Unwritten elements have the fill value.
        let sparse = records("table/sparse");
        let (b, c) = (sparse.typed::<f64>("b").unwrap(), sparse.typed::<i16>("c[2]").unwrap());
        assert_eq!((sparse.get(0, &b).unwrap(), sparse.get(39, &c).unwrap()), (Some(0.5), Some(3)));
        let shape = |name: &str| {
            let of = file.tensor(name).unwrap();
            of.attributes().get("numpy.shape").map(Value::to_json)
        };
        assert_eq!(shape("square").as_deref(), Some("[3,4]"));
        assert_eq!(shape("array").as_deref(), Some("[3,2]"));
        assert_eq!((shape("one").as_deref(), shape("plain")), (Some("[]"), None));
    }
}

/// Texts of one length, opaque bytes and h5py's times name their NumPy type, and are written unchanged.
#[test]
fn texts_and_times_are_arrays_of_numpys_types() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["earliest", "v110"] {
        let path = folder("hdf5").join(format!("h5py_texts-{version}.h5"));
        let copy = dir.path().join(format!("{version}.h5"));
        convert(&holdall::open(&path).unwrap(), &copy, &Convert::new(WriteOptions::new())).unwrap();
        for path in [path, copy] {
            let file = holdall::open(path).unwrap();
            let descr = |name: &str| {
                let tensor = file.tensor(name).unwrap();
                let descr = tensor.attributes().get("numpy.descr");
                descr.and_then(Value::as_text).map(str::to_owned)
            };
            let types = ["fixed", "grid", "one", "none", "opaque", "filled", "when", "lasts"];
            let found = types.map(|name| descr(name).unwrap());
            let wanted = ["|S10", "|S3", "|S5", "|S4", "|V2", "|S4", "<M8[s]", "<m8[ms]"];
            assert_eq!(found, wanted);
            let fixed = file.tensor("fixed").unwrap();
            let unit = fixed.attributes().get("unit").cloned();
            assert_eq!(unit, Some(Value::Text("mm".to_owned())));
        }
    }
}

#[test]
fn attributes_are_values() {
    for version in ["earliest", "v108", "v110"] {
        let file = holdall::open(folder("hdf5").join(format!("h5py_attrs-{version}.h5"))).unwrap();
        let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
        let is =
            |key: &str, json: &str| assert_eq!(get(key).as_deref(), Some(json), "{version} {key}");
        is("text", "\"häuser\"");
        is("bytes", "\"abc\"");
        is("names", "[\"a\",\"bb\",\"ccc\"]");
        is("fixed", "[\"x\",\"yy\",\"zzz\"]");
        is("arr", "[[0,1,2],[3,4,5]]");
        is("bools", "[true,false]");
        is("big-endian", "[1,-2]");
        is("half", "0.5");
        is("c", "[1.0,2.0]");
        is("empty", "null");
        is("es", "\"\"");
        is("none", "[]");
        is("g/k", "\"v\"");
        let w = file.tensor("w").unwrap();
        assert_eq!(w.attributes().get("a19"), Some(&Value::Integer(19)), "{version}");
        let long = w.attributes().get("long").and_then(Value::as_text).map(str::len);
        assert_eq!(long, Some(5000), "{version}");
        let unrepresented = file.index().unrepresented().join("; ");
        assert!(unrepresented.contains("`t`"), "{unrepresented}");
        assert_eq!(w.attributes().get("ref"), Some(&Value::Text("/w".to_owned())), "{version}");
    }
    let keras = holdall::open(folder("hdf5").join("h5py_zipped.keras")).unwrap();
    assert_eq!(keras.index().attributes().get("config.json"), Some(&Value::Text("{}".to_owned())));
    let legacy = holdall::open(folder("hdf5").join("h5py_legacy.h5")).unwrap();
    let names =
        legacy.index().attributes().get("model_weights/dense/weight_names").unwrap().clone();
    assert_eq!(names.to_json(), "[\"dense/kernel:0\",\"dense/bias:0\"]");
}

/// Keras looks for the group of each layer, even of those without weights.
#[test]
fn layers_without_weights_have_groups() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("layers.h5");
    let none = || Value::Array(Vec::new());
    let keys = ["m/flatten/weight_names", "m/w/weight_names", "x/./weight_names", "weight_names"];
    let all: holdall::Attributes = keys.into_iter().map(|key| (key.to_owned(), none())).collect();
    let mut writer = Writer::create(&path, &over().with_attributes(all)).unwrap();
    let w = TensorSpec::dense("m/w", DType::U8, [1]);
    writer.declare(std::slice::from_ref(&w)).unwrap();
    writer.add(w, &[&[7]]).unwrap();
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    assert!(keys.iter().all(|key| file.attributes().get(key) == Some(&none())), "{file:?}");
    assert!(verify(&file, &Default::default()).unwrap().is_sound());
    let bytes = std::fs::read(&path).unwrap();
    let has = |name: &str| bytes.windows(name.len()).any(|own| own == name.as_bytes());
    // A group's attribute is stored under its own name; an attribute whose prefix is not a valid group name
    // belongs to the parent group.
    assert!(!has("flatten/weight_names") && has("flatten\0"));
    assert!(has("w/weight_names") && has("x/./weight_names"));
}

/// Written files have the same contents when read: elements, names in groups, attributes of every kind.
#[test]
fn written_files_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (source, _) in described::files("hdf5") {
        let source = holdall::open(&source).unwrap();
        convert(&source, path("out.h5"), &Convert::new(over())).unwrap();
        let written = holdall::open(path("out.h5")).unwrap();
        let found = holdall::diff(&source, &written, &Default::default()).unwrap();
        assert!(found.is_same(), "{found:?}");
        assert!(verify(&written, &Default::default()).unwrap().is_sound());
    }
    // Tied tensors are one dataset under two names.
    let source = holdall::open(folder("hdf5").join("h5py_groups-v110.h5")).unwrap();
    convert(&source, path("out.h5"), &Convert::new(over())).unwrap();
    let written = holdall::open(path("out.h5")).unwrap();
    let place = |name: &str| written.tensor(name).unwrap().components().next().unwrap().stored;
    assert_eq!(place("hard"), place("g3/w1"));
    assert!(place("hard").start.is_multiple_of(64));

    let texts = |n: usize| Value::Array((0..n).map(|n| Value::Text(format!("t{n}"))).collect());
    let attributes: holdall::Attributes = [
        ("text", Value::Text("häuser".to_owned())),
        ("empty", Value::Text(String::new())),
        ("zero", Value::Text("a\0b".to_owned())),
        ("texts", texts(3)),
        ("many", texts(100_000)),
        ("long", Value::Text("x".repeat(3 << 20))),
        ("none", Value::Null),
        ("flags", Value::Array(vec![Value::Bool(true), Value::Bool(false)])),
        ("least", Value::Integer(i64::MIN.into())),
        ("most", Value::Integer(u64::MAX.into())),
        ("more", Value::Integer(-(1 << 64))),
        ("float", Value::Float(0.1)),
        ("bytes", Value::Bytes(vec![0, 1, 0])),
        ("nothing", Value::Array(Vec::new())),
        ("mixed", Value::Array(vec![Value::Integer(1), Value::Null])),
        (
            "square",
            Value::Array(vec![Value::Array(vec![Value::Integer(1), Value::Integer(-1)]); 2]),
        ),
        ("ragged", Value::Array(vec![Value::Array(Vec::new()), Value::Array(vec![Value::Null])])),
        ("map", Value::Map(vec![(Value::Text("k".into()), Value::Undefined)])),
        ("g/h/of the group", Value::Integer(1)),
        ("g/of the other", Value::Integer(2)),
        ("x/of none", Value::Integer(3)),
        ("holdall.attributes", Value::Text("mine".to_owned())),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    let mut specs = Vec::new();
    for dtype in holdall::DType::ALL {
        specs.push(holdall::TensorSpec::dense(format!("g/h/{dtype}"), dtype, [2, 3]));
    }
    let is_there =
        |of: &holdall::LogicalType| of.bits() >= Some(8) && *of != holdall::LogicalType::Complex32;
    for logical in holdall::LogicalType::KNOWN.into_iter().filter(is_there) {
        let name = format!("logical/{logical}");
        let storage = logical.storage().unwrap();
        let mut spec = holdall::TensorSpec::dense(name, storage, [3]);
        let component = &mut spec.components[0];
        component.decoded_len = 3 * logical.bits().unwrap() / 8;
        component.logical_type = Some(logical);
        spec.attributes.set("dtype", Value::Text("its own".to_owned()));
        specs.push(spec);
    }
    // Keras reads this type only as bytes.
    specs.push(holdall::TensorSpec::dense("layers/dense/vars/0", holdall::DType::Bf16, [2]));
    specs.push(holdall::TensorSpec::dense("scalar", holdall::DType::Bool, []));
    specs.push(holdall::TensorSpec::dense("empty", holdall::DType::F32, [0, 4]));
    specs.push(holdall::TensorSpec::dense("wide", holdall::DType::U8, [1; 32]));
    // Tables and trees of several levels.
    specs.extend(
        (0..2_500)
            .map(|n| holdall::TensorSpec::dense(format!("many/t{n}"), holdall::DType::U8, [1])),
    );
    let bytes = |spec: &holdall::TensorSpec, at: usize| {
        let len = spec.components[0].decoded_len as usize;
        let one = |n: usize| (n as u8).wrapping_mul(31).wrapping_add(at as u8) & 1;
        (0..len).map(one).collect::<Vec<u8>>()
    };
    let write = over().with_attributes(attributes.clone());
    let mut writer = holdall::Writer::create(path("a.h5"), &write).unwrap();
    writer.declare(&specs).unwrap();
    for (at, spec) in specs.iter().enumerate() {
        writer.add(spec.clone(), &[&bytes(spec, at)]).unwrap();
    }
    writer.finish().unwrap();
    let written = std::fs::read(path("a.h5")).unwrap();
    // An opaque type of two bytes: its class and its length.
    assert!(written.windows(8).any(|at| at == [0x15, 0, 0, 0, 2, 0, 0, 0]));
    let back = holdall::open(path("a.h5")).unwrap();
    let sorted = |all: &holdall::Attributes| {
        let mut all: Vec<_> =
            all.iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(back.index().attributes()), sorted(&attributes));
    assert_eq!(back.len(), specs.len());
    for (at, spec) in specs.iter().enumerate() {
        let found = back.tensor(&spec.name).unwrap();
        assert_eq!(found.shape(), spec.shape, "{}", spec.name);
        let data = found.components().next().unwrap();
        let wanted = &spec.components[0];
        assert_eq!((data.dtype, &data.logical_type), (wanted.dtype, &wanted.logical_type));
        assert_eq!(found.bytes(&Role::Data).unwrap(), bytes(spec, at), "{}", spec.name);
        assert_eq!(found.attributes(), &spec.attributes, "{}", spec.name);
    }
    assert!(verify(&back, &Default::default()).unwrap().is_sound());
}

/// Contents that HDF5 lacks are refused before a file is created.
#[test]
fn unsupported_tensors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no.h5");
    let code = |specs: &[holdall::TensorSpec]| {
        let mut writer = holdall::Writer::create(&path, &over()).unwrap();
        let e = writer.declare(specs).unwrap_err();
        assert!(e.advice(|r| Some(r.to_string())).is_some() && !path.exists(), "{e}");
        e.code()
    };
    let named = |name: &str| holdall::TensorSpec::dense(name, holdall::DType::U8, [1]);
    for name in ["", "/a", "a/", "a//b", "a/./b", "a\0b", &"x".repeat(70_000), &"a/".repeat(200)] {
        assert_eq!(code(&[named(name)]), "hdf5/fit", "{name}");
    }
    assert_eq!(code(&[named("a/b"), named("a")]), "hdf5/fit");
    assert_eq!(code(&[named("a"), named("a/b")]), "hdf5/fit");
    assert_eq!(code(&[holdall::TensorSpec::dense("w", holdall::DType::U8, [1; 33])]), "hdf5/fit");
    let mut sub = named("w");
    sub.components[0].logical_type = Some(holdall::LogicalType::from_name("odd"));
    assert_eq!(code(&[sub]), "hdf5/element-type");
    let source = holdall::open(folder("gguf").join("gguf_quant_legacy.gguf")).unwrap();
    let e = convert(&source, &path, &Convert::new(over())).unwrap_err();
    let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{e} {cause}").contains("hdf5/form"), "{e}: {cause}");
    convert(&source, &path, &Convert::new(over()).with_dense()).unwrap();
    // Weights do not contain the model that a `.keras` file needs.
    let e = convert(&source, dir.path().join("a.keras"), &Convert::new(over())).unwrap_err();
    assert_eq!(e.code(), "write/extension");
}

fn over() -> WriteOptions {
    WriteOptions::new().with_overwrite(true)
}

/// One dataset under three names, the third through the second; with another type they cannot be tied.
#[test]
fn tied_tensors_are_links_of_one_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tied.h5");
    let dense = |name: &str, dtype| holdall::TensorSpec::dense(name, dtype, [2]);
    let shared = |name: &str, dtype, of: &str| {
        let mut spec = dense(name, dtype);
        let role = holdall::Role::Data;
        spec.components[0].shares = Some(holdall::ComponentRef { tensor: of.to_owned(), role });
        spec
    };
    let f32 = holdall::DType::F32;
    let specs = [dense("a", f32), shared("b", f32, "a"), shared("g/c", f32, "b")];
    let mut writer = holdall::Writer::create(&path, &over()).unwrap();
    writer.declare(&specs).unwrap();
    for spec in specs {
        let bytes: &[&[u8]] =
            if spec.name == "a" { &[&[0, 0, 128, 63, 0, 0, 0, 64]] } else { &[&[]] };
        writer.add(spec, bytes).unwrap();
    }
    writer.finish().unwrap();
    let file = holdall::open(&path).unwrap();
    let place = |name: &str| file.tensor(name).unwrap().components().next().unwrap().stored;
    assert_eq!((place("b"), place("g/c")), (place("a"), place("a")));
    let found = file.tensor("g/c").unwrap().to_dense().unwrap().to_f32().unwrap();
    assert_eq!(found, [1.0, 2.0]);
    let mut writer = holdall::Writer::create(&path, &over()).unwrap();
    let specs = [dense("a", f32), shared("b", holdall::DType::I32, "a")];
    assert_eq!(writer.declare(&specs).unwrap_err().code(), "hdf5/fit");
}

/// Bytes shared by links are stored once.
#[test]
fn links_are_tied_tensors() {
    for version in ["earliest", "v110"] {
        let file = holdall::open(folder("hdf5").join(format!("h5py_groups-{version}.h5"))).unwrap();
        let place = |name: &str| file.tensor(name).unwrap().components().next().unwrap().stored;
        assert_eq!(place("hard"), place("g3/w1"));
        assert_eq!(place("soft"), place("g3/w0"));
        assert_eq!(place("g4/rel"), place("g4/w1"));
        assert!(file.tensor("hardgroup/w0").is_err() && file.tensor("many/t11").is_ok());
    }
}

/// A link may go through groups that are links themselves.
#[test]
fn links_go_through_links() {
    let soft = |name: &str, to: &str| {
        let [name, to] = [name, to].map(|text| [&[text.len() as u8], text.as_bytes()].concat());
        message(6, 0, &[&[1, 8, 1][..], &name, &to[..1], b"\0", &to[1..]].concat())
    };
    let links = [
        link(b"g", EXTRA),
        link(b"h", EXTRA),
        soft("s", "/g"),
        soft("through", "s/own"),
        soft("hard", "./h//own"),
        soft("up", "s/up/s/up/g/own"),
        soft("twice", "through"),
        soft("none", "s/none"),
        soft("of-data", "g/own/x"),
        soft("round", "round/x"),
    ];
    let mut bytes = with_root(&links);
    let group = hdf5_files::header(&[link(b"own", DATASET), soft("up", "/")]);
    bytes[EXTRA as usize..][..group.len()].copy_from_slice(&group);
    let file = open(bytes).unwrap();
    let place = |name: &str| file.tensor(name).unwrap().components().next().unwrap().stored;
    for name in ["through", "hard", "up", "twice"] {
        assert_eq!(place(name), place("w"), "{name}");
    }
    for (name, code) in [("none", "hdf5/link"), ("of-data", "hdf5/link"), ("round", "hdf5/loop")] {
        assert_eq!(file.tensor(name).unwrap().fault().unwrap().code(), code, "{name}");
    }
    assert!(file.tensor("s").is_err() && file.tensor("h").is_err());
}

#[test]
fn every_reject_fails_with_its_code() {
    described::all_fail(rejects());
    assert_eq!(code(with_root(&[])), "");
    // An error in one dataset leaves the others readable.
    let of = [message(3, 0, &[0x17, 0, 0, 0, 8, 0, 0, 0]), shape(&[1]), contiguous(DATA, 8)];
    let mut bytes = with_root(&[link(b"t", EXTRA)]);
    let header = hdf5_files::header(&of);
    bytes[EXTRA as usize..][..header.len()].copy_from_slice(&header);
    let file = open(bytes).unwrap();
    assert_eq!(file.tensor("w").unwrap().dense().unwrap().bytes().len(), 16);
    assert_eq!(file.tensor("t").unwrap().dense().unwrap_err().code(), "hdf5/link");
}

/// Attributes of unknown kinds are left out, and the file can be read; a damaged attribute is an error that
/// names it.
#[test]
fn attributes_of_unknown_kinds_are_passed_over() {
    let unknown_class = attribute(&[0x1c, 0, 0, 0, 4, 0, 0, 0], &[0; 4]);
    let unknown_version = attribute(&[0x71, 0, 0, 0, 4, 0, 0, 0], &[0; 4]);
    // A list of records with a member of an unknown class.
    let pair =
        [&[0x36, 1, 0, 0, 4, 0, 0, 0, b'x', 0, 0][..], &[0x3c, 0, 0, 0, 4, 0, 0, 0]].concat();
    let inside = attribute(&[&[0x39, 0, 0, 0, 16, 0, 0, 0][..], &pair].concat(), &[0; 16]);
    let elsewhere = message(12, 2, &[3, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (message, why) in [
        (unknown_class, "the attribute `a`: elements are of an unknown datatype class"),
        (unknown_version, "the attribute `a`: unsupported datatype version 7"),
        (inside, "the attribute `a`: elements are of an unknown datatype class"),
        (elsewhere, "the attribute `?`: a message is in the table of shared messages"),
    ] {
        let file = open(with_root(&[message])).unwrap();
        assert_eq!(file.index().unrepresented(), [why]);
        assert_eq!(file.tensor("w").unwrap().dense().unwrap().bytes().len(), 16);
    }
    let (_, bytes) =
        rejects().into_iter().find(|(name, _)| *name == "hdf5.structure.heap").unwrap();
    let e = open(bytes).unwrap_err();
    assert!(e.message().contains("the attribute `a`: a value is missing from the heap"), "{e}");
}

/// Memory and time depend on the actual contents, not on declared sizes.
#[test]
fn false_sizes_allocate_nothing() {
    let never = |dims: &[u64]| code(dataset(&[shape(dims), contiguous(u64::MAX, 0)], &[]));
    assert_eq!(never(&[4]), "");
    assert_eq!(never(&[1 << 20, 1 << 20]), "zstd/decoded-len");
    assert_eq!(never(&[1 << 40, 1 << 40]), "index/shape-overflow");
    assert_eq!(never(&[1 << 40, 1 << 40, 0]), "");
    // A chunk of 16 GiB that is not stored takes no memory.
    let none = dataset(&[shape(&[4]), chunked(&[u32::MAX, 4], EXTRA)], &leaf(&[]));
    assert_eq!(code(none), "");
    let wide = dataset(
        &[shape(&[4]), chunked(&[1 << 30, 4], EXTRA), filters(&[1, 1, 1, 1, 1])],
        &leaf(&[(100, &[0], DATA)]),
    );
    assert_ne!(code(wide), "");
}

/// Files of every generation, cut anywhere, are refused and never misread.
#[test]
fn files_may_be_cut_anywhere() {
    for name in ["h5py_groups-earliest.h5", "h5py_sparse-v110.h5", "h5py_zipped.keras"] {
        let whole = std::fs::read(folder("hdf5").join(name)).unwrap();
        for len in (1..whole.len()).step_by(whole.len() / 40) {
            let code = code(whole[..len].to_vec());
            let of = ["hdf5/", "format/", "zip/"].iter().any(|area| code.starts_with(area));
            assert!(of, "{name} {len}: {code}");
        }
        // The available part of a cut file is read on request.
        let mut limits = holdall::Limits::default();
        limits.salvage = true;
        let cut = whole[..whole.len() - 100].to_vec();
        let _ = OpenOptions::new().with_limits(limits).open_bytes(cut, name);
    }
}

/// Members of compounds count as values, and those of a dataset once for each of its paths, as its attributes
/// do.
#[test]
fn shared_objects_count_for_each_path() {
    let names: Vec<String> = (0..9).map(|n| format!("m{n}")).collect();
    let members: Vec<(&str, u8, &[u8])> =
        names.iter().zip(0..).map(|(name, n)| (name.as_str(), 4 * n, &I32[..])).collect();
    let of = [message(3, 0, &compound(36, &members)), shape(&[2]), contiguous(DATA, 72)];
    let open = |links: &[&[u8]], most| {
        let root: Vec<_> = links.iter().map(|name| link(name, DATASET)).collect();
        let bytes = hdf5_files::file(&[
            (hdf5_files::ROOT, hdf5_files::header(&root)),
            (DATASET, hdf5_files::header(&of)),
        ]);
        let mut limits = Limits::default();
        limits.attribute_values = most;
        OpenOptions::new().with_limits(limits).open_bytes(bytes, "made")
    };
    let values = (1..).find(|most| open(&[b"w"], *most).is_ok()).unwrap();
    assert!((18..100).contains(&values), "{values}");
    for (links, most) in [(&[&b"w"[..]][..], values), (&[b"w", b"x", b"y"], 3 * values)] {
        assert_eq!(open(links, most).unwrap().len(), links.len());
        assert_eq!(open(links, most - 1).unwrap_err().code(), "hdf5/too-many-values");
    }
}
