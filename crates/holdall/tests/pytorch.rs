//! PyTorch's files: read as torch wrote them, and no code that a pickle requests is executed.

use crate::described::{self, code, compare, folder, open};
use crate::pytorch_files::{file_of, rejects, storage, tensor, zip};
use holdall::{Convert, Limits, OpenOptions, Value, WriteOptions, convert, verify};

/// Every tensor of every file that torch wrote has torch's elements, also after a conversion.
#[test]
fn files_of_torch_have_its_elements() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("pytorch");
    for (path, wanted) in &files {
        let file = holdall::open(path).unwrap();
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let target = dir.path().join("out.zt");
        let options = Convert::new(WriteOptions::new().with_overwrite(true)).with_dense();
        convert(&file, &target, &options).unwrap();
        let converted = holdall::open(&target).unwrap();
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            for (which, file) in [("read", &file), ("converted", &converted)] {
                let tensor = file.tensor(name).unwrap();
                let dense = tensor.to_dense().unwrap();
                let place = format!("{} {name} {which}", path.display());
                compare(&dense, wanted, &wanted["dense_sha256"], &place);
            }
        }
        assert!(verify(&file, &Default::default()).unwrap().is_sound(), "{}", path.display());
    }
    assert_eq!(files.len(), 26);
}

#[test]
fn other_values_are_attributes() {
    let file = holdall::open(folder("pytorch").join("torch_checkpoint.pt")).unwrap();
    let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
    let is = |key: &str, json: &str| assert_eq!(get(key).as_deref(), Some(json), "{key}");
    is("epoch", "7");
    is("name", "\"näme\"");
    is("flags", "[true,null,2.5]");
    is("size", "[1,2]");
    is("dtype", "\"torch.bfloat16\"");
    is("device", "\"cuda:1\"");
    is("bytes", "{\"$bytes\":\"00ff\"}");
    is("set", "[3]");
    assert!(
        get("optimizer.param_groups").unwrap().contains("\"lr\":0.001"),
        "{:?}",
        get("optimizer.param_groups")
    );
    assert!(file.tensor("optimizer.state.0.exp_avg").is_ok());
    assert!(file.tensor("model.1.running_mean").is_ok());
    let numpy = holdall::open(folder("pytorch").join("torch_numpy.pt")).unwrap();
    let get = |key: &str| numpy.index().attributes().get(key).cloned();
    assert_eq!((get("s"), get("i")), (Some(Value::Float(1.5)), Some(Value::Integer(-3))));
    let quantized = holdall::open(folder("pytorch").join("torch_quantized.pt")).unwrap();
    let q = quantized.tensor("q").unwrap();
    assert_eq!(q.attributes().get("scale"), Some(&Value::Float(0.1)));
    assert_eq!(q.attributes().get("zero_point"), Some(&Value::Integer(3)));
}

/// NumPy scalars that are texts, and types of times and texts.
#[test]
fn times_and_texts_of_numpy_are_named() {
    let file = holdall::open(folder("pytorch").join("numpy_texts-p4.pkl")).unwrap();
    let get = |key: &str| file.index().attributes().get(key).cloned();
    assert_eq!(get("said"), Some(Value::Text("né".into())));
    assert_eq!(get("bytes"), Some(Value::Bytes(vec![1, 2])));
    for (name, descr) in [
        ("day", "<M8[D]"),
        ("step", "<m8[25us]"),
        ("time", "<M8[ns]"),
        ("bare", "<m8"),
        ("word", "<U5"),
        ("raw", "|S3"),
    ] {
        let tensor = file.tensor(name).unwrap();
        let descr_attribute = tensor.attributes().get("numpy.descr").cloned();
        assert_eq!(descr_attribute, Some(Value::Text(descr.into())), "{name}");
    }
}

/// Tensors in other sparse forms of torch are listed with their layout, and converted only on request.
#[test]
fn sparse_tensors_have_their_layouts() {
    let file = holdall::open(folder("pytorch").join("torch_layouts.pt")).unwrap();
    let layout = |name: &str| file.tensor(name).unwrap().layout().as_str().to_owned();
    for (name, wanted) in [
        ("csc", "sparse_blocks"),
        ("bsr.batch", "sparse_blocks"),
        ("csr.complex", "sparse_csr"),
        ("coo.hybrid", "sparse_hybrid"),
        ("coo", "sparse_coo"),
    ] {
        assert_eq!(layout(name), wanted, "{name}");
    }
    let blocks = file.tensor("bsc").unwrap();
    let json: Vec<(String, String)> =
        blocks.attributes().iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect();
    let wanted = [("compressed", "\"columns\""), ("block", "[2,3]"), ("batch", "0")];
    assert_eq!(json, wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

/// Whether a tensor requires a gradient is an attribute, and survives being written.
#[test]
fn requires_grad_is_kept() {
    let wants = |file: &holdall::File, name: &str| {
        file.tensor(name).unwrap().attributes().get("torch.requires_grad").cloned()
    };
    let exported = holdall::open(folder("pytorch").join("torch_export.pt2")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.pt");
    convert(&exported, &out, &Convert::new(WriteOptions::new())).unwrap();
    let written = holdall::open(&out).unwrap();
    for file in [&exported, &written] {
        assert_eq!(wants(file, "lin.weight"), Some(Value::Bool(true)));
        assert_eq!(wants(file, "mask"), None);
    }
    let bytes = std::fs::read(&out).unwrap();
    assert!(!bytes.windows(13).any(|w| w == b"requires_grad"), "torch has a place for it");
    // Weights of one name share their bytes, and example inputs are not weights.
    let place = |name: &str| exported.tensor(name).unwrap().components().next().unwrap().stored;
    assert_eq!(place("lin.weight"), place("tied"));
    assert_eq!(exported.len(), 9);
}

/// The bytes of a shared storage are stored once.
#[test]
fn tied_tensors_are_tied() {
    let file = holdall::open(folder("pytorch").join("torch_state.pt")).unwrap();
    let place = |name: &str| file.tensor(name).unwrap().components().next().unwrap().stored;
    assert_eq!(place("lin.weight"), place("tied"));
    assert_eq!(file.tensor("t").unwrap().layout().as_str(), "strided");
    assert_eq!(file.tensor("row").unwrap().layout().as_str(), "dense");
}

/// Written files have the same contents when read, and the form that torch maps: stored entries, aligned,
/// with known names.
#[test]
fn written_files_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let source = holdall::open(folder("pytorch").join("torch_state.pt")).unwrap();
    let write = WriteOptions::new().with_overwrite(true);
    convert(&source, path("out.pt"), &Convert::new(write.clone())).unwrap();
    let written = holdall::open(path("out.pt")).unwrap();
    assert_eq!(written.format(), "pytorch");
    let found = holdall::diff(&source, &written, &Default::default()).unwrap();
    assert!(found.added.is_empty() && found.removed.is_empty(), "{found:?}");
    // Strided views have become dense.
    let is_view = |t: &holdall::diff::TensorDiff| t.layouts.is_some() && t.values.is_none();
    assert!(found.changed.iter().all(is_view), "{found:?}");
    let place = |file: &holdall::File, name: &str| {
        file.tensor(name).unwrap().components().next().unwrap().stored
    };
    assert_eq!(place(&written, "lin.weight"), place(&written, "tied"));
    assert!(place(&written, "lin.weight").start.is_multiple_of(64));
    assert!(verify(&written, &Default::default()).unwrap().is_sound());
    // A dict with only tensors loses nothing when it is rewritten; other values cannot be kept.
    assert!(written.index().unrepresented().is_empty());
    let nested = holdall::open(folder("pytorch").join("torch_checkpoint.pt")).unwrap();
    assert!(!nested.index().unrepresented().is_empty());

    // Attributes of files and tensors are stored in separate entries.
    let tensor = holdall::TensorSpec::dense("w", holdall::DType::F32, [2]);
    let tensor = holdall::TensorSpec {
        attributes: [("unit".to_owned(), Value::Text("m".into()))].into_iter().collect(),
        ..tensor
    };
    let attributes = [("n".to_owned(), Value::Array(vec![Value::Integer(1 << 40), Value::Null]))];
    let attributes: holdall::Attributes = attributes.into_iter().collect();
    let with_attributes = write.clone().with_attributes(attributes.clone());
    let mut writer = holdall::Writer::create(path("a.pt"), &with_attributes).unwrap();
    writer.add(tensor, &[&[1; 8]]).unwrap();
    // A view keeps its strides, which must lie inside of its bytes.
    let view = |strides: [i128; 2]| holdall::TensorSpec {
        layout: holdall::Layout::Strided,
        attributes: [("strides".to_owned(), Value::Array(strides.map(Value::Integer).into()))]
            .into_iter()
            .collect(),
        ..holdall::TensorSpec::dense("view", holdall::DType::U8, [2, 3])
    };
    writer.add(view([1, 2]), &[&[1, 4, 2, 5, 3, 6]]).unwrap();
    assert_eq!(writer.tensor(view([2, 2])).unwrap_err().code(), "strided/strides");
    writer.finish().unwrap();
    let back = holdall::open(path("a.pt")).unwrap();
    assert_eq!(back.index().attributes(), &attributes);
    assert_eq!(back.tensor("w").unwrap().attributes().get("unit"), Some(&Value::Text("m".into())));

    let view = back.tensor("view").unwrap();
    assert_eq!(view.layout().as_str(), "strided");
    assert_eq!(view.to_dense().unwrap().bytes()[..], [1, 2, 3, 4, 5, 6]);

    // Types that torch lacks are refused before a file is created.
    for (file, code) in [
        ("torch_sparse.pt", "pytorch/layout"),
        ("../gguf/gguf_quant_legacy.gguf", "pytorch/layout"),
    ] {
        let source = holdall::open(folder("pytorch").join(file)).unwrap();
        let e = convert(&source, path("no.pt"), &Convert::new(write.clone())).unwrap_err();
        let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{e} {cause}").contains(code), "{e}: {cause}");
        assert!(e.advice(|r| Some(r.to_string())).is_some() && !path("no.pt").exists());
        convert(&source, path("yes.pt"), &Convert::new(write.clone()).with_dense()).unwrap();
    }
}

#[test]
fn every_reject_fails_with_its_code() {
    let (sparse, others): (Vec<_>, Vec<_>) =
        rejects().into_iter().partition(|(what, _)| what.starts_with("sparse."));
    described::all_fail(others);
    for (what, bytes) in sparse {
        let e = open(bytes).unwrap().tensor("w").unwrap().to_dense().unwrap_err();
        assert!(what.replace('.', "/").starts_with(e.code()), "{what}: {e}");
    }
}

#[test]
fn views_stay_inside_their_storages() {
    let float = storage("FloatStorage", "0", 4);
    let of = |offset, shape: &[u8], strides: &[u8]| {
        code(file_of(&tensor(&float, offset, shape, strides)))
    };
    assert_eq!(of(0, &[4], &[1]), "");
    assert_eq!(of(0, &[2, 2], &[2, 1]), "");
    assert_eq!(of(3, &[], &[]), "");
    assert_eq!(of(0, &[2, 2], &[1, 2]), "");
    assert_eq!(of(4, &[0], &[1]), "");
    assert_eq!(of(0, &[5], &[1]), "pytorch/view");
    assert_eq!(of(1, &[4], &[1]), "pytorch/view");
    assert_eq!(of(4, &[], &[]), "pytorch/view");
    assert_eq!(of(0, &[2, 2], &[3, 1]), "pytorch/view");
    assert_eq!(of(0, &[4], &[1, 1]), "pytorch/call");
    let of = |class, key, len| code(file_of(&tensor(&storage(class, key, len), 0, &[1], &[1])));
    assert_eq!(of("FloatStorage", "0", 5), "pytorch/storage");
    assert_eq!(of("FloatStorage", "1", 4), "pytorch/storage");
    assert_eq!(of("DoubleStorage", "0", 2), "");
    assert_eq!(of("DoubleStorage", "0", 3), "pytorch/storage");
    assert_eq!(of("QUInt4x2Storage", "0", 3), "pytorch/dtype");
    assert_eq!(of("OddStorage", "0", 3), "pytorch/dtype");
}

/// All ways to name an object that would be executed.
#[test]
fn no_code_in_a_pickle_is_run() {
    let marker = tempfile::tempdir().unwrap().path().join("ran");
    let command = format!("touch {}", marker.display());
    let short = |text: &str| [vec![0x8c, text.len() as u8], text.as_bytes().to_vec()].concat();
    let text = |text: &str| {
        [b"X".to_vec(), (text.len() as u32).to_le_bytes().to_vec(), text.as_bytes().to_vec()]
            .concat()
    };
    let all = [
        [b"\x80\x02cos\nsystem\n(".to_vec(), text(&command), b"tR.".to_vec()].concat(),
        [
            b"\x80\x04".to_vec(),
            short("os"),
            short("system"),
            b"\x93".to_vec(),
            text(&command),
            b"\x85R.".to_vec(),
        ]
        .concat(),
        b"\x80\x02cbuiltins\neval\nX\x01\0\0\x001\x85R.".to_vec(),
        b"\x80\x02c__builtin__\ngetattr\n.".to_vec(),
        b"\x80\x02ctorch\nload\n)R.".to_vec(),
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.__globals__\n)R.".to_vec(),
        b"\x80\x02ctorch.serialization\nload\n)\x81.".to_vec(),
        b"\x80\x02cnn\nModule\n)\x81}b.".to_vec(),
        b"\x80\x02ccollections\nOrderedDict\n(cos\nsystem\ntR.".to_vec(),
    ];
    for pickle in &all {
        assert_eq!(code(file_of(pickle)), "pytorch/global", "{}", pickle.escape_ascii());
        let e = open(file_of(pickle)).unwrap_err();
        assert!(e.to_string().contains("would import"), "{e}");
        // Left out on request, and reported.
        let mut limits = Limits::default();
        limits.skip_unknown = true;
        let file =
            OpenOptions::new().with_limits(limits).open_bytes(file_of(pickle), "made.pt").unwrap();
        assert_eq!(file.index().warnings().first().map(|w| w.code), Some("pytorch/left-out"));
    }
    for opcode in [b"\x82\x01.".to_vec(), b"\x97.".to_vec()] {
        assert_eq!(code(file_of(&opcode)), "pickle/opcode", "{}", opcode.escape_ascii());
    }
    assert!(!marker.exists());
}

#[test]
fn broken_pickles_are_refused() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "pickle/broken"),
        (b"\x80\x02}", "pickle/broken"),
        (b"\x80\x02.", "pickle/broken"),
        (b"\x80\x06.", "pickle/opcode"),
        (b"K\x01K\x02s.", "pickle/broken"),
        (b"t.", "pickle/broken"),
        (b"h\x05.", "pickle/broken"),
        (b"X\xff\xff\xff\xffabc.", "pickle/broken"),
        (b"X\x01\0\0\0\xff.", "pickle/broken"),
        (b"\x8a\xff.", "pickle/broken"),
        (b"(K\x01u.", "pickle/broken"),
        (b"ctorch\nFloatStorage\n.", "pytorch/global"),
    ];
    for (pickle, wanted) in cases {
        assert_eq!(code(file_of(pickle)), wanted, "{}", pickle.escape_ascii());
    }
    // Lists that contain the previous list twice: 2^60 paths, in a few bytes.
    let mut bomb = b"\x80\x02]q\0".to_vec();
    for i in 0..60u8 {
        bomb.extend([b'(', b'h', i, b'h', i, b'l', b'q', i + 1]);
    }
    bomb.push(b'.');
    assert_eq!(code(file_of(&bomb)), "pytorch/too-many-values");
    // Sets, and counters, of the items of one list or dict, again and again.
    let list = [b"(".to_vec(), vec![b'N'; 10_000], b"lq\0".to_vec()].concat();
    let dict = [b"(".to_vec(), vec![b'N'; 20_000], b"dq\0".to_vec()].concat();
    let set = (b"c__builtin__\nset\nq\x01".as_slice(), list);
    for (of, items) in [set, (b"ccollections\nCounter\nq\x01".as_slice(), dict)] {
        let again = b"h\x01(h\0tR".repeat(1000);
        let bomb = [b"\x80\x02", &items[..], of, &again, b"."].concat();
        assert_eq!(code(file_of(&bomb)), "pickle/too-many-values");
    }
    let deep = [vec![b']'; 5000], vec![b'a'; 4999], b".".to_vec()].concat();
    assert_eq!(code(file_of(&deep)), "pytorch/depth");
    let itself = b"\x80\x02]q\0h\0a.".to_vec();
    assert!(matches!(code(file_of(&itself)), "pytorch/depth" | "pytorch/too-many-values"));
    let many = [vec![b'N'; 1001], b".".to_vec()].concat();
    let mut limits = Limits::default();
    limits.attribute_values = 1000;
    let e =
        OpenOptions::new().with_limits(limits).open_bytes(file_of(&many), "made.pt").unwrap_err();
    assert_eq!(e.code(), "pickle/too-many-values");
}

#[test]
fn zips_that_do_not_fit_are_refused() {
    let float = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let with = |order: &'static [u8]| {
        zip(&[
            ("a/data.pkl", &float),
            ("a/byteorder", order),
            ("a/data/0", &[0, 0, 0x80, 0x3f, 0x3f, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ])
    };
    let first =
        |order| open(with(order)).unwrap().tensor("w").unwrap().dense().unwrap().to_f32().unwrap();
    assert_eq!(first(b"little")[0], 1.0);
    assert_eq!(first(b"big")[1], 1.0);
    assert_eq!(code(with(b"middle")), "pytorch/byte-order");
    assert_eq!(code(zip(&[("data.pkl", &float)])), "format/unknown", "not in a folder");
    assert_eq!(code(zip(&[("a/b/data.pkl", &float)])), "format/unknown");
    let mut deflated = std::fs::read(folder("pytorch").join("torch_alone.pt")).unwrap();
    // Changes the method of every entry, in the directory and the local header, to zstd, which torch does not
    // read.
    for at in 0..deflated.len() - 12 {
        if deflated[at..].starts_with(b"PK\x03\x04")
            && deflated[at + 30..].starts_with(b"torch_alone/data/0")
        {
            deflated[at + 8] = 93;
        }
        if deflated[at..].starts_with(b"PK\x01\x02")
            && deflated[at + 46..].starts_with(b"torch_alone/data/0")
        {
            deflated[at + 10] = 93;
        }
    }
    assert_eq!(code(deflated), "pytorch/compressed");
}

/// Files from before 1.6, cut at every byte.
#[test]
fn old_files_may_be_cut_anywhere() {
    let whole = std::fs::read(folder("pytorch").join("torch_state-legacy.pt")).unwrap();
    assert_eq!(code(whole.clone()), "");
    for len in (1..whole.len()).step_by(7) {
        let code = code(whole[..len].to_vec());
        assert!(
            code.starts_with("pytorch/")
                || code.starts_with("pickle/")
                || code.starts_with("format/"),
            "{len}: {code}"
        );
    }
    let mut huge = whole.clone();
    let at = whole.len() - 100;
    huge[at..at + 8].fill(0xff);
    assert_ne!(code(huge), "io/failed");
    assert_eq!(code(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".to_vec()), "pytorch/legacy");
    assert_eq!(
        code(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.K\x01.}.}.].".to_vec()),
        "pytorch/legacy"
    );
    assert_eq!(code(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.M\xe9\x03.}.}.].".to_vec()), "");
}

/// Files from before 1.6 have pickles of any protocol: none is taken for a stand-alone pickle.
#[test]
fn old_files_of_every_protocol_are_read() {
    let sound = std::fs::read(folder("pytorch").join("torch_state-legacy.pt")).unwrap();
    let wanted = open(sound.clone()).unwrap();
    let frame = b"\x95\x0d\0\0\0\0\0\0\0";
    for (protocol, frame) in [(2, &b""[..]), (3, b""), (4, frame), (5, frame)] {
        let bytes = [&[0x80, protocol], frame, &sound[2..]].concat();
        let file = open(bytes).unwrap();
        assert_eq!(file.len(), wanted.len(), "protocol {protocol}");
        for tensor in wanted.tensors() {
            let other = file.tensor(tensor.name()).unwrap().to_dense().unwrap();
            assert_eq!(other, tensor.to_dense().unwrap(), "protocol {protocol}, {}", tensor.name());
        }
    }
}

/// Counters, and dicts with a default, as protocol 2 names their types.
#[test]
fn counts_and_defaults_are_maps() {
    let pickle = b"\x80\x02}(X\x01\0\0\0cccollections\nCounter\n}X\x01\0\0\0aK\x02s\x85R\
        X\x01\0\0\0dccollections\ndefaultdict\nc__builtin__\nlong\n\x85RX\x01\0\0\0nK\x03su.";
    let file = open(file_of(pickle)).unwrap();
    let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
    assert_eq!(get("c").as_deref(), Some("{\"a\":2}"));
    assert_eq!(get("d").as_deref(), Some("{\"n\":3}"));
}

/// An unknown element type does not hide the other tensors.
#[test]
fn elements_of_an_unknown_type_are_the_fault_of_their_tensor() {
    let (_, bytes) =
        rejects().into_iter().find(|(name, _)| *name == "pytorch.dtype.storage").unwrap();
    let file = open(bytes).unwrap();
    let faults: Vec<&str> = file.tensors().filter_map(|t| t.fault().map(|e| e.code())).collect();
    assert_eq!(faults, ["pytorch/dtype"]);
}

/// An array used in several places is complete in each, although it gets its elements after it was memoized.
#[test]
fn arrays_that_are_shared_are_whole() {
    let array = b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87Rq\x01(K\x01K\x02\x85\
        cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R(K\x03X\x01\0\0\0|NNNK\x00K\x00K\x00tb\x89C\x02\x05\x06tb";
    let file = open([&b"\x80\x03]("[..], array, b"h\x01e."].concat()).unwrap();
    for name in ["0", "1"] {
        let dense = file.tensor(name).unwrap().to_dense().unwrap();
        assert_eq!((dense.shape(), &dense.bytes()[..]), (&[2][..], &[5, 6][..]), "{name}");
    }
}

/// Types of NumPy and of `ml_dtypes`: of arrays, of scalars, and as values. A scalar that no attribute can
/// express is left out.
#[test]
fn types_of_numpy_are_read() {
    let dtype = |name: &[u8], order: u8| {
        let state = [b"(K\x03X\x01\0\0\0".as_slice(), &[order], b"NNNK\x00K\x00K\x00tb"].concat();
        [b"cnumpy\ndtype\n", name, b"\x89\x88\x87R", &state].concat()
    };
    let plain = |name: &str, order| dtype(&[b"X\x02\0\0\0", name.as_bytes()].concat(), order);
    let scalar = |dtype: &[u8], bytes: &[u8]| {
        let bytes = [&[b'C', bytes.len() as u8], bytes].concat();
        [b"cnumpy._core.multiarray\nscalar\n", dtype, &bytes, b"\x86R"].concat()
    };
    let small = dtype(b"cml_dtypes\nbfloat16\n", b'<');
    let half = [0x80, 0x3f];
    let complex = [1f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
    let values = [
        [
            b"cnumpy.core.numeric\n_frombuffer\n(C\x02\x80\x3f",
            &small[..],
            b"K\x01\x85X\x01\0\0\0CtR",
        ]
        .concat(),
        scalar(&small, &half),
        scalar(&plain("c8", b'>'), &complex),
        scalar(&plain("M8", b'<'), &[0; 8]),
        plain("i4", b'>'),
    ];
    let file = open([&b"\x80\x03]("[..], &values.concat(), b"e."].concat()).unwrap();
    let dense = file.tensor("0").unwrap().to_dense().unwrap();
    assert_eq!((dense.dtype(), &dense.bytes()[..]), (holdall::DType::Bf16, &half[..]));
    let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
    assert_eq!(get("1").as_deref(), Some("1.0"));
    assert_eq!(get("2").as_deref(), Some("[1.0,-2.0]"));
    assert_eq!((get("3"), get("4").as_deref()), (None, Some("\">i4\"")));
    let warned: Vec<String> = file.index().warnings().iter().map(|w| w.to_string()).collect();
    assert!(warned.len() == 1 && warned[0].contains("`<M8`"), "{warned:?}");
}

/// A stand-alone storage is a tensor of all its elements.
#[test]
fn storages_alone_are_tensors() {
    for (class, len, dtype) in
        [("FloatStorage", 4, holdall::DType::F32), ("UntypedStorage", 16, holdall::DType::U8)]
    {
        let pickle = [b"\x80\x02".to_vec(), storage(class, "0", len), b".".to_vec()].concat();
        let file = open(file_of(&pickle)).unwrap();
        let dense = file.tensor("data").unwrap().to_dense().unwrap();
        assert_eq!((dense.dtype(), dense.shape()), (dtype, &[u64::from(len)][..]), "{class}");
        assert_eq!(dense.bytes()[..], [1; 16]);
    }
    let long = [b"\x80\x02".to_vec(), storage("FloatStorage", "0", 5), b".".to_vec()].concat();
    assert_eq!(code(file_of(&long)), "pytorch/storage");
}

/// torch writes 0 for every CRC-32 if checksums are disabled. A single wrong one is damage.
#[test]
fn zips_without_sums_are_read() {
    let bare = |bytes: &mut [u8], name: &[u8]| {
        let places = bytes.windows(name.len()).enumerate().filter(|(_, w)| *w == name);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        let [local, directory] = places[..] else { panic!("{places:?}") };
        bytes[local - 16..][..4].fill(0);
        bytes[directory - 30..][..4].fill(0);
    };
    let mut bytes = file_of(&tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]));
    bare(&mut bytes, b"a/data.pkl");
    assert_eq!(code(bytes.clone()), "zip/crc32");
    bare(&mut bytes, b"a/version");
    bare(&mut bytes, b"a/data/0");
    let file = open(bytes).unwrap();
    assert_eq!(file.tensor("w").unwrap().to_dense().unwrap().bytes()[..], [1; 16]);
}

/// Shared texts are copied for each use, and names consist of all keys on the path: both are counted in
/// bytes.
#[test]
fn texts_that_are_shared_count_each_time() {
    let long =
        |opcode: u8, n: usize| [&[opcode][..], &(n as u32).to_le_bytes(), &vec![b'a'; n]].concat();
    let often = |value: &[u8]| [b"\x80\x03(", value, b"q\0", &b"h\0".repeat(1000), b"l."].concat();
    let array = [
        b"cnumpy.core.numeric\n_frombuffer\n(",
        &long(b'B', 1 << 20)[..],
        b"cnumpy\ndtype\nX\x02\0\0\0u1\x85RJ\0\0\x10\0\x85X\x01\0\0\0CtR",
    ];
    let dtype = [b"cnumpy\ndtype\n", &long(b'X', 1 << 20)[..], b"\x85R"];
    for value in [long(b'X', 1 << 20), long(b'B', 1 << 20), array.concat(), dtype.concat()] {
        assert_eq!(code(file_of(&often(&value))), "pytorch/too-many-values");
    }
    let few = [
        b"}(",
        &(0..1000u16)
            .flat_map(|n| [&b"M"[..], &n.to_le_bytes(), b"N"].concat())
            .collect::<Vec<u8>>()[..],
        b"u",
    ];
    let named = [b"\x80\x02}", &long(b'X', 1 << 20)[..], &few.concat(), b"s."].concat();
    assert_eq!(code(file_of(&named)), "pytorch/too-many-values");
}

/// Python 2 has one type for texts and bytes: arrays keep their elements in it, whether text or not, and
/// dicts their keys.
#[test]
fn pickles_of_python_2_are_read() {
    let array = |bytes: &[u8]| {
        let dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNK\x00K\x00K\x00tb\x89";
        let count = [b'K', bytes.len() as u8];
        let len = (bytes.len() as u32).to_le_bytes();
        [
            &b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"[..],
            &count,
            b"\x85",
            dtype,
            b"T",
            &len,
            bytes,
            b"tb",
        ]
        .concat()
    };
    let arrays: [&[u8]; 4] = [&[0xff, 1], b"ab", "é".as_bytes(), &[]];
    let items: Vec<u8> = (b'a'..)
        .zip(arrays)
        .flat_map(|(key, bytes)| [&[b'U', 1, key][..], &array(bytes)].concat())
        .collect();
    let scalar = b"U\x01scnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\x02i2\x85RU\x02ab\x86R";
    let texts = b"U\x01tU\x02\xc3\xa9U\x01vU\x01\xff";
    let pickle = [&b"\x80\x02}("[..], &items, scalar, texts, b"u."];
    let file = open(pickle.concat()).unwrap();
    for (name, bytes) in ["a", "b", "c", "d"].into_iter().zip(arrays) {
        assert_eq!(file.tensor(name).unwrap().to_dense().unwrap().bytes()[..], *bytes, "{name}");
    }
    let get = |key: &str| file.index().attributes().get(key).cloned();
    assert_eq!(get("s"), Some(Value::Integer(0x6261)));
    assert_eq!(get("t"), Some(Value::Text("é".into())));
    assert_eq!(get("v"), Some(Value::Bytes(vec![0xff])));
}

/// Arrays with permuted dimensions: the order must name each dimension once.
#[test]
fn turned_arrays_name_each_dimension_once() {
    let of = |axes: &[u8]| {
        let axes: Vec<u8> = axes.iter().flat_map(|axis| [b'K', *axis]).collect();
        [
            &b"\x80\x03cnumpy._core.numeric\n_frombuffer\n(C\x06\x00\x01\x02\x03\x04\x05cnumpy\ndtype\nX\x02\0\0\0u1\x85R\
            K\x01K\x02K\x03\x87X\x01\0\0\0K("[..],
            &axes,
            b"ttR.",
        ]
        .concat()
    };
    let file = open(of(&[2, 0, 1])).unwrap();
    let dense = file.tensor("data").unwrap().to_dense().unwrap();
    assert_eq!((dense.shape(), &dense.bytes()[..]), (&[3, 1, 2][..], &[0, 3, 1, 4, 2, 5][..]));
    for axes in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 3]] {
        assert_eq!(code(of(axes)), "pytorch/call", "{axes:?}");
    }
}

/// Integers of any length, as in the state of NumPy's generators, and as keys.
#[test]
fn integers_have_any_length() {
    let long = |bytes: &[u8]| [&[0x8a, bytes.len() as u8][..], bytes].concat();
    let most = [&[0xff; 16][..], &[0]].concat();
    let least = [&[0; 16][..], &[0xff]].concat();
    let map = [b"}", &long(&most[7..])[..], b"Ns"].concat();
    let pickle = [b"\x80\x02](", &long(&most)[..], &long(&least), &map, b"e."].concat();
    let file = open(file_of(&pickle)).unwrap();
    let tag = |tag, bytes: &[u8]| Value::Tag(tag, Box::new(Value::Bytes(bytes.to_vec())));
    let key = tag(2, &[0xff; 9]);
    let wanted =
        vec![tag(2, &[0xff; 16]), tag(3, &[0xff; 16]), Value::Map(vec![(key, Value::Null)])];
    assert_eq!(file.index().attributes().get("data"), Some(&Value::Array(wanted)));
    let dir = tempfile::tempdir().unwrap();
    convert(&file, dir.path().join("out.zt"), &Convert::new(WriteOptions::new())).unwrap();
}

/// Keys that are not texts are named by their JSON, in the names of tensors and of attributes.
#[test]
fn keys_of_any_plain_value_have_names() {
    let alone = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let inner = &alone[9..alone.len() - 2];
    let (pair, half) = (b"K\x00K\x01\x86", b"G\x3f\xe0\0\0\0\0\0\0");
    let of = |key: &[u8], value: &[u8]| [key, value].concat();
    let beside = [b"}(", &of(pair, b"K\x05")[..], b"u"].concat();
    let pairs = [of(pair, inner), of(b"N", inner), of(half, inner), of(b"K\x07", &beside)];
    let file = open(file_of(&[b"\x80\x02}(", &pairs.concat()[..], b"u."].concat())).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["[0,1]", "null", "0.5"]);
    let key = Value::Array(vec![Value::Integer(0), Value::Integer(1)]);
    let wanted = Value::Map(vec![(key, Value::Integer(5))]);
    assert_eq!(file.index().attributes().get("7"), Some(&wanted));
}

/// A text that equals the JSON of another key of its dict is named by its own JSON: in quotes.
#[test]
fn keys_alike_but_for_their_type_have_names_of_their_own() {
    let alone = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let inner = &alone[9..alone.len() - 2];
    let of = |key: &[u8], value: &[u8]| [key, value].concat();
    let pairs = [
        of(b"K\x01", inner),
        of(b"X\x01\0\0\x001", inner),
        of(b"X\x01\0\0\x002", inner),
        of(b"K\x03", b"N"),
        of(b"X\x01\0\0\x003", b"\x88"),
    ];
    let dict = [b"\x80\x02}(", &pairs.concat()[..], b"u."].concat();
    let file = open(file_of(&dict)).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["1", "\"1\"", "2"]);
    let attributes: Vec<(&str, &Value)> = file.index().attributes().iter().collect();
    assert_eq!(attributes, [("3", &Value::Null), ("\"3\"", &Value::Bool(true))]);
    // Also if there are no tensors.
    let file = open(file_of(b"}(K\x01K\x02X\x01\0\0\x001K\x03u.")).unwrap();
    let attributes: Vec<(&str, &Value)> = file.index().attributes().iter().collect();
    assert_eq!(attributes, [("1", &Value::Integer(2)), ("\"1\"", &Value::Integer(3))]);
}

/// An error about a key names its dict.
#[test]
fn errors_of_keys_say_where() {
    let alone = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let inner = &alone[9..alone.len() - 2];
    let of = |key: &[u8], value: &[u8]| {
        file_of(&[b"}X\x01\0\0\0m}X\x01\0\0\0n}", key, value, b"sss."].concat())
    };
    let e = open(of(b"}", inner)).unwrap_err();
    assert_eq!(e.code(), "pytorch/key");
    assert!(e.message().starts_with("in the dict `m.n`: a key on the path"), "{}", e.message());
    let e = open(of(b"cos\nsystem\n", b"N")).unwrap_err();
    assert_eq!(e.code(), "pytorch/global");
    assert!(e.message().contains("in the dict `m.n`: the pickle would import"), "{}", e.message());
    let e = open(file_of(&[b"}}", inner, b"s."].concat())).unwrap_err();
    assert!(e.message().starts_with("in the outermost dict: "), "{}", e.message());
    // A plain value under such a key is left out, and that is reported.
    let file = open(of(b"}", b"N")).unwrap();
    let warned: Vec<String> = file.index().warnings().iter().map(|w| w.to_string()).collect();
    assert!(warned.len() == 1 && warned[0].contains("`m.n.?` is left out"), "{warned:?}");
}

/// Files from before 1.6 whose pickles state no protocol, as torch writes them with `pickle_protocol=1`.
#[test]
fn old_files_of_protocol_1_are_read() {
    let value = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let bytes = [
        b"L119547037146038801333356L\n.I1001\n.(dS'little_endian'\nI01\ns.",
        &value[2..],
        b"(lS'0'\na.",
        &4u64.to_le_bytes(),
        &[1; 16],
    ];
    let file = open(bytes.concat()).unwrap();
    assert_eq!(file.tensor("w").unwrap().to_dense().unwrap().bytes()[..], [1; 16]);
}

/// Values as the lines of protocol 0 spell them, including objects of classes.
#[test]
fn values_of_protocol_0_are_those_of_others() {
    let lines = b"(dVa\\u0062\np0\nF-1e+300\nsS'it\\'s'\nL-170141183460469231731687303715884105729L\nsS'x'\n\
        ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR(dbsS'y'\n(im\nD\nsS'z'\n(cm\nE\nI1\nosS'again'\ng0\ns.";
    let zip = file_of(lines);
    let mut limits = Limits::default();
    assert!(open(zip.clone()).unwrap_err().message().contains("`m.C`"));
    limits.skip_unknown = true;
    let file = OpenOptions::new().with_limits(limits).open_bytes(zip, "made").unwrap();
    let get = |key: &str| file.index().attributes().get(key).map(Value::to_json);
    assert_eq!(get("ab").as_deref(), Some("-1e300"));
    assert_eq!(get("again").as_deref(), Some("\"ab\""));
    let long = get("it's").unwrap();
    assert!(long.contains("\"$tag\":[3,{\"$bytes\":\"80000000"), "{long}");
    let left: Vec<String> = file.index().warnings().iter().map(|w| w.to_string()).collect();
    let all = "`x` is left out: it is `m.C` (and 2 more)";
    assert!(left.len() == 1 && left[0].contains(all), "{left:?}");
}

/// A tensor that torch saved from a device through the processor's memory has its elements.
#[test]
fn device_tensors_have_the_copied_values() {
    let alone = tensor(&storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let inner = &alone[9..alone.len() - 2];
    let pickle = [
        b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(",
        inner,
        b"ctorch\nfloat32\nX\x03\0\0\0mps\x88tRs.",
    ];
    let file = open(file_of(&pickle.concat())).unwrap();
    let found = file.tensor("w").unwrap();
    assert_eq!(found.to_dense().unwrap().bytes()[..], [1; 16]);
    assert_eq!(found.attributes().get("torch.requires_grad"), Some(&Value::Bool(true)));
}

/// torch counts two 4-bit floats as one element; here they are two.
#[test]
fn pairs_of_small_floats_are_two_elements() {
    let pairs = |shape: &[u8], strides: &[u8]| {
        let numbers = |all: &[u8]| {
            let items: Vec<u8> = all.iter().flat_map(|n| [b'K', *n]).collect();
            [b"(", &items[..], b"t"].concat()
        };
        let bytes = [
            b"(X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\0",
            &b"0X\x03\0\0\0cpuK\x10tQ"[..],
        ];
        file_of(
            &[
                b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v3\n(",
                &bytes.concat()[..],
                b"K\x00",
                &numbers(shape),
                &numbers(strides),
                b"\x89)ctorch\nfloat4_e2m1fn_x2\ntRs.",
            ]
            .concat(),
        )
    };
    let file = open(pairs(&[2, 3], &[3, 1])).unwrap();
    let found = file.tensor("w").unwrap();
    assert_eq!((found.shape(), found.bytes(&holdall::Role::Data).unwrap().len()), (&[2, 6][..], 6));
    let logical = found.components().next().unwrap().logical_type.clone();
    assert_eq!(logical, Some(holdall::LogicalType::F4E2M1));
    for (shape, strides) in [(&[2, 3][..], &[1, 2][..]), (&[], &[])] {
        let file = open(pairs(shape, strides)).unwrap();
        assert_eq!(file.tensor("w").unwrap().fault().map(|e| e.code()), Some("pytorch/dtype"));
    }
    // And back.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.pt");
    convert(&file, &out, &Convert::new(WriteOptions::new())).unwrap();
    let written = holdall::open(&out).unwrap();
    assert!(holdall::diff(&file, &written, &Default::default()).unwrap().is_same());
    let bytes = std::fs::read(&out).unwrap();
    assert!(bytes.windows(16).any(|w| w == b"float4_e2m1fn_x2"));
}
