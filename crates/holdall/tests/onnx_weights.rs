//! ONNX models: files that the package `onnx` wrote are read unchanged, with tensors anywhere in the graph,
//! and external data.

use crate::described::{self, dtype, folder, hex};
use crate::onnx_files::{external, field, int, model, node, raw, rejects, tensor};
use holdall::{
    Check, Convert, DType, Faults, Io, Layout, Limits, OpenOptions, Role, Value, WriteOptions,
    convert, verify,
};

fn open(bytes: Vec<u8>) -> holdall::File {
    OpenOptions::new().open_bytes(bytes, "model").unwrap()
}

/// Every tensor of every file that the package wrote has its elements, in all ways of reading.
#[test]
fn files_of_onnx_have_its_elements() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("onnx");
    for (path, wanted) in &files {
        let open = |io| OpenOptions::new().with_io(io).with_check(Check::All).open(path).unwrap();
        let file = open(Io::Map);
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let target = dir.path().join("out.zt");
        let options = Convert::new(WriteOptions::new().with_overwrite(true));
        convert(&file, &target, &options).unwrap();
        let converted = holdall::open(&target).unwrap();
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            for (which, file) in
                [("mapped", &file), ("read", &open(Io::Read)), ("converted", &converted)]
            {
                let tensor = file.tensor(name).unwrap();
                let c = tensor.components().next().unwrap();
                assert_eq!(serde_json::json!(tensor.shape()), wanted["shape"], "{name} {which}");
                let bytes = match (&wanted["dense_sha256"], *tensor.layout() == Layout::Dense) {
                    (serde_json::Value::Null, _) | (_, true) => {
                        assert_eq!(dtype(&c), wanted["dtype"], "{name} {which}");
                        tensor.bytes(&Role::Data).unwrap()
                    }
                    _ => tensor.to_dense().unwrap().into_bytes(),
                };
                let sum = match &wanted["dense_sha256"] {
                    serde_json::Value::Null => &wanted["components"]["data"]["sha256"],
                    sum => sum,
                };
                assert_eq!(hex(&bytes), *sum, "{} {name} {which}", path.display());
            }
        }
        assert!(verify(&file, &Default::default()).unwrap().is_sound(), "{}", path.display());
    }
    assert_eq!(files.len(), 2);
}

#[test]
fn metadata_of_a_model_becomes_attributes() {
    let file = holdall::open(folder("onnx").join("onnx_all.onnx")).unwrap();
    let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
    let is = |key: &str, json: &str| assert_eq!(get(key).as_deref(), Some(json), "{key}");
    is("producer_name", "\"tester\"");
    is("opset_import", r#"{"ai.onnx":20,"my.dom":1}"#);
    is("metadata_props", r#"{"a":"1","ü":"é"}"#);
    is("functions", r#"["my.dom.F"]"#);
    is("graph", "\"main\"");
    is("inputs", r#"[{"name":"x","dtype":"f32","shape":["N",3]}]"#);
}

/// Numbers in typed fields, packed or not, in one run or several.
#[test]
fn numbers_come_in_every_form() {
    let x = |of, shape: &[u64], rest: &[Vec<u8>]| {
        let file = open(model(&[field(5, &tensor("x", of, shape, rest))]));
        let x = file.tensor("x").unwrap();
        x.bytes(&Role::Data).map(|bytes| bytes.to_vec())
    };
    let minus_one = [0xff; 9].into_iter().chain([1]).collect::<Vec<u8>>();
    let packed = [&[5][..], &minus_one].concat();
    let both = [5i64.to_le_bytes(), (-1i64).to_le_bytes()].concat();
    assert_eq!(x(7, &[2], &[field(7, &packed)]).unwrap(), both);
    assert_eq!(x(7, &[2], &[int(7, 5), int(7, u64::MAX)]).unwrap(), both);
    assert_eq!(x(7, &[2], &[field(7, &[5]), field(7, &minus_one)]).unwrap(), both);
    assert_eq!(x(3, &[2], &[field(5, &packed)]).unwrap(), [5, 0xff]);
    assert_eq!(x(9, &[3], &[field(5, &[0, 1, 7])]).unwrap(), [0, 1, 1]);
    assert_eq!(x(10, &[1], &[field(5, &[0x80, 0x78])]).unwrap(), [0x00, 0x3c]);
    let floats = [1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
    assert_eq!(x(1, &[2], &[field(4, &floats)]).unwrap(), floats);
    assert_eq!(x(1, &[2], &[field(4, &floats[..4]), field(4, &floats[4..])]).unwrap(), floats);
    let alone = [&[0x25][..], &floats[..4], &[0x25], &floats[4..]].concat();
    assert_eq!(x(1, &[2], &[alone]).unwrap(), floats);
    assert_eq!(x(14, &[1], &[field(4, &floats)]).unwrap(), floats);
    // Six bits: four elements in three bytes, or one in each number.
    assert_eq!(x(27, &[4], &[field(5, &[8, 4, 16, 0])]).unwrap(), [0x08, 0x01, 0x01]);
    assert_eq!(x(28, &[4], &[field(9, &[0x0c, 0x02, 0x01])]).unwrap(), [0x0c, 0x02, 0x01]);
    // Four bits: two elements per byte, the last half empty.
    assert_eq!(x(22, &[3], &[field(9, &[0x21, 0x03])]).unwrap(), [0x21, 0x03]);
    assert_eq!(x(22, &[3], &[field(5, &[0x21, 0x03])]).unwrap(), [0x21, 0x03]);
}

/// If the elements do not fill whole bytes, the tensor has the bytes, with ONNX's name of the type.
#[test]
fn elements_that_do_not_fill_bytes_are_bytes() {
    for (of, count, bytes, name) in [
        (23, 3, &[0x21, 0x07][..], "float4e2m1"),
        (23, 4, &[0x21, 0x07], "f4_e2m1"),
        (27, 1, &[0x3f], "float6e2m3"),
        (28, 3, &[1, 2, 3], "float6e3m2"),
        (21, 3, &[0x21, 0x0f], "uint4"),
        (22, 5, &[0x21, 0xf0, 0x0f], "int4"),
        (25, 5, &[0xe4, 0x03], "uint2"),
        (26, 1, &[0x03], "int2"),
    ] {
        let file = open(model(&[raw("w", of, &[count], bytes)]));
        let w = file.tensor("w").unwrap();
        assert!(w.fault().is_none(), "{name}: {:?}", w.fault());
        let c = w.components().next().unwrap();
        assert_eq!((c.dtype, c.logical_type.unwrap().as_str()), (DType::U8, name));
        assert_eq!((w.shape(), &w.bytes(&Role::Data).unwrap()[..]), (&[count][..], bytes));
    }
}

#[test]
fn one_bad_tensor_leaves_the_others() {
    let text = field(5, &tensor("text", 8, &[1], &[field(6, b"hello")]));
    let file = open(model(&[text, raw("w", 1, &[1], &[0, 0, 128, 63])]));
    assert_eq!(
        file.tensor("text").unwrap().info().fault().unwrap().code(),
        "onnx-file/element-type"
    );
    assert_eq!(file.tensor("w").unwrap().to_dense().unwrap().to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn names_stay_apart() {
    let w = || raw("w", 2, &[1], &[7]);
    let body = node("loop", &[field(1, b"body"), field(6, &[w(), w()].concat())]);
    let file = open(model(&[w(), body, raw("", 2, &[1], &[1]), raw("", 2, &[1], &[2])]));
    let mut names: Vec<&str> = file.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["", "#2", "loop.body.w", "loop.body.w#2", "w"]);
    let codes: Vec<&str> = file.index().warnings().iter().map(|w| w.code).collect();
    assert_eq!(codes, ["onnx-file/renamed"]);
}

/// External data is read from next to the model, and from nowhere else.
#[test]
fn external_data_is_read_where_it_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("model");
    std::fs::create_dir_all(home.join("sub")).unwrap();
    let bytes: Vec<u8> = (0..64).collect();
    std::fs::write(home.join("w.data"), &bytes).unwrap();
    std::fs::write(home.join("sub/v.data"), [1; 8]).unwrap();
    std::fs::write(dir.path().join("secret"), [9; 64]).unwrap();
    let path = home.join("m.onnx");
    let graph = [
        raw("here", 1, &[1], &[0; 4]),
        external("a", &[4], &[("location", "w.data"), ("offset", "4"), ("length", "16")]),
        external("b", &[4], &[("location", "w.data"), ("offset", "8")]),
        external("v", &[2], &[("location", "sub/v.data")]),
        external("gone", &[2], &[("location", "gone.data")]),
        external("past", &[2], &[("location", "w.data"), ("offset", "60")]),
        external("up", &[2], &[("location", "../secret")]),
    ];
    std::fs::write(&path, model(&graph)).unwrap();
    let file = holdall::open(&path).unwrap();
    let get = |name: &str| file.tensor(name).unwrap().bytes(&Role::Data).map_err(|e| e.code());
    assert_eq!(get("a").unwrap(), bytes[4..20]);
    assert_eq!(get("b").unwrap(), bytes[8..24]);
    assert_eq!(get("v").unwrap(), [1; 8][..]);
    assert_eq!(get("here").unwrap(), [0; 4][..]);
    assert_eq!(get("gone"), Err("onnx-file/external"));
    assert_eq!(get("past"), Err("onnx-file/external"));
    assert_eq!(get("up"), Err("onnx-file/location"));
    let strict = OpenOptions::new().with_faults(Faults::Refuse);
    assert_eq!(strict.open(&path).unwrap_err().code(), "onnx-file/external");
    // Whole models are opened strictly too, and converted.
    std::fs::write(&path, model(&graph[..4])).unwrap();
    let file = strict.open(&path).unwrap();
    let out = dir.path().join("out.safetensors");
    convert(&file, &out, &Convert::new(WriteOptions::new())).unwrap();
    let made = holdall::open(&out).unwrap();
    assert_eq!(made.tensor("a").unwrap().dtype(), Some(DType::F32));
    assert_eq!(made.tensor("a").unwrap().bytes(&Role::Data).unwrap(), bytes[4..20]);
    // A model in memory has no external files.
    let alone = open(model(&graph[..4]));
    assert_eq!(alone.tensor("a").unwrap().info().fault().unwrap().code(), "onnx-file/external");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret", home.join("link")).unwrap();
        let graph = [external("x", &[2], &[("location", "link")])];
        std::fs::write(&path, model(&graph)).unwrap();
        assert_eq!(holdall::open(&path).unwrap_err().code(), "onnx-file/location");
        // As in caches: links to files of one folder.
        let links = dir.path().join("links");
        std::fs::create_dir(&links).unwrap();
        std::fs::write(&path, model(&[external("x", &[2], &[("location", "w.data")])])).unwrap();
        std::os::unix::fs::symlink(&path, links.join("m.onnx")).unwrap();
        std::os::unix::fs::symlink(home.join("w.data"), links.join("w.data")).unwrap();
        let file = holdall::open(links.join("m.onnx")).unwrap();
        assert_eq!(file.tensor("x").unwrap().bytes(&Role::Data).unwrap(), bytes[..8]);
    }
}

/// More files than are kept open.
#[test]
fn every_tensor_may_have_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut graph = Vec::new();
    for i in 0..100u8 {
        let name = format!("w{i}");
        std::fs::write(dir.path().join(&name), [i; 4]).unwrap();
        graph.push(external(&name, &[1], &[("location", &name)]));
    }
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, model(&graph)).unwrap();
    let file = holdall::open(&path).unwrap();
    let loaded = file.load_all().unwrap();
    for i in 0..100u8 {
        assert_eq!(loaded.get(&format!("w{i}")).unwrap().bytes(&Role::Data).unwrap(), &[i; 4][..]);
    }
}

/// Long graphs are read in ranges, with elements between the fields.
#[test]
fn long_models_are_read_in_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let mut graph: Vec<Vec<u8>> =
        (0..20_000).map(|i| node(&format!("n{i}"), &[field(1, b"a")])).collect();
    graph.push(raw("big", 2, &[1 << 20], &vec![3; 1 << 20]));
    let packed: Vec<u8> = (0..200_000u32).flat_map(|i| [i as u8 | 0x80, 1]).collect();
    graph.push(field(5, &tensor("numbers", 7, &[200_000], &[field(7, &packed)])));
    graph.push(raw("last", 2, &[1], &[9]));
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, model(&graph)).unwrap();
    for io in [Io::Map, Io::Read] {
        let file = OpenOptions::new().with_io(io).open(&path).unwrap();
        let numbers = file.tensor("numbers").unwrap().to_dense().unwrap().to_vec::<i64>().unwrap();
        assert!(numbers.iter().enumerate().all(|(i, n)| *n == (i as u8 & 0x7f) as i64 + 128));
        assert_eq!(file.tensor("last").unwrap().bytes(&Role::Data).unwrap(), [9][..]);
        assert_eq!(file.tensor("big").unwrap().bytes(&Role::Data).unwrap().len(), 1 << 20);
    }
}

#[test]
fn limits_are_kept() {
    let fails = |bytes: Vec<u8>, lower: fn(&mut Limits)| {
        let mut limits = Limits::default();
        lower(&mut limits);
        let opened = OpenOptions::new().with_limits(limits).open_bytes(bytes, "model");
        match opened {
            Ok(file) => file.tensor("x").unwrap().info().fault().unwrap().code(),
            Err(e) => e.code(),
        }
    };
    let numbers = model(&[field(5, &tensor("x", 7, &[3], &[field(7, &[1, 2, 3])]))]);
    assert_eq!(fails(numbers, |l| l.header_len = 20), "onnx-file/numbers");
    let named = model(&[raw(&"x".repeat(100), 2, &[1], &[1])]);
    assert_eq!(fails(named, |l| l.text_len = 50), "onnx-file/text");
}

#[test]
fn damaged_files_are_survived() {
    for (name, file) in rejects() {
        for cut in 0..file.len().min(400) {
            let _ = OpenOptions::new().open_bytes(file[..cut].to_vec(), name);
        }
    }
}

/// If a model has other files, its graph is one of its additional files.
#[test]
fn a_folder_with_a_graph_is_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let graph = model(&[external("w", &[1], &[("location", "w.data")])]);
    std::fs::write(dir.path().join("m.onnx"), graph).unwrap();
    std::fs::write(dir.path().join("w.data"), [7; 4]).unwrap();
    let file = holdall::open(dir.path()).unwrap();
    assert_eq!(file.tensor("w").unwrap().bytes(&Role::Data).unwrap(), [7; 4][..]);
    let options = Convert::new(WriteOptions::new());
    convert(&file, dir.path().join("model.safetensors"), &options).unwrap();
    assert_eq!(holdall::open(dir.path()).unwrap().format(), "safetensors");
}
