//! Weights written back into graphs: by name, with everything else unchanged.
#![cfg(feature = "http")]

use crate::described::folder;
use crate::onnx_files::{self, external, field, int, model, node, raw, tensor};
use crate::server::{Reply, Server, policy};
use holdall::{
    Cast, Convert, DType, Error, ExternalData, File, OpenOptions, Rename, Role, Select, TensorSpec,
    WriteOptions, Writer, convert,
};
use std::path::{Path, PathBuf};

fn over() -> WriteOptions {
    WriteOptions::new().with_overwrite(true)
}

fn to_stream() -> WriteOptions {
    WriteOptions::new().with_format(holdall::formats::by_name("onnx").unwrap())
}

fn open(bytes: &[u8]) -> File {
    OpenOptions::new().open_bytes(bytes.to_vec(), "model.onnx").unwrap()
}

/// Returns a file with these tensors.
fn weights(dir: &Path, tensors: &[(&str, DType, &[u64], &[u8])]) -> File {
    let path = dir.join("weights.zt");
    let mut writer = Writer::create(&path, &over()).unwrap();
    for (name, dtype, shape, bytes) in tensors {
        writer.add(TensorSpec::dense(*name, *dtype, *shape), &[bytes]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(&path).unwrap()
}

fn bytes(path: &Path, name: &str) -> Vec<u8> {
    holdall::open(path).unwrap().tensor(name).unwrap().bytes(&Role::Data).unwrap().to_vec()
}

fn refused(e: Error, code: &str) {
    let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{e} {cause}").contains(code), "{e}: {cause}");
    let is_helped = e.advice(|r| Some(r.to_string())).is_some() || e.hint().is_some();
    assert!(is_helped, "{e}");
}

const SOME: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// Returns a model with unknown fields, a branch and a constant.
fn graph() -> Vec<u8> {
    let branch = [raw("w", 1, &[1], &[9; 4]), field(2, b"then")].concat();
    let constant = field(
        1,
        &[
            field(2, b"c"),
            field(4, b"Constant"),
            field(
                5,
                &[field(1, b"value"), field(5, &tensor("", 7, &[1], &[field(9, &[3; 8])]))]
                    .concat(),
            ),
        ]
        .concat(),
    );
    let doc = [field(12, b"about w"), field(9, &[0; 8]), field(77, b"unknown")];
    model(&[
        field(2, b"main"),
        node("if", &[field(1, b"then_branch"), field(6, &branch), field(99, b"odd")]),
        constant,
        field(5, &tensor("w", 1, &[2], &doc)),
        field(5, &tensor("n", 7, &[2], &[field(7, &[1, 2])])),
        raw("v", 1, &[2], &[7; 8]),
        field(13, b"\x0a\x01w"),
    ])
}

/// The written model differs only in its elements.
#[test]
fn elements_change_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let model = open(&graph());
    // Its own weights: the same file.
    convert(&model, &out, &Convert::new(over())).unwrap();
    assert_eq!(std::fs::read(&out).unwrap(), graph());
    for name in ["onnx_all.onnx", "onnx_external.onnx"] {
        let Ok(source) = holdall::open(folder("onnx").join(name)) else { continue };
        if source.all_sources().len() == 1 {
            convert(&source, &out, &Convert::new(over())).unwrap();
            assert!(
                std::fs::read(&out).unwrap() == std::fs::read(folder("onnx").join(name)).unwrap()
            );
        }
    }
    // The weights of another file.
    let file = weights(
        dir.path(),
        &[
            ("w", DType::F32, &[2], &SOME),
            ("if.then_branch.w", DType::F32, &[1], &SOME[..4]),
            ("c", DType::I64, &[1], &SOME),
        ],
    );
    let into = Convert::new(over()).with_graph(model.clone());
    let report = convert(&file, &out, &into).unwrap();
    assert!(report.files.is_empty());
    let mut wanted = graph();
    for (from, to) in [(&[0u8; 8][..], &SOME[..]), (&[9; 4], &SOME[..4]), (&[3; 8], &SOME)] {
        // With the tag and the length of a bytes field before it.
        let with = |bytes: &[u8]| field(9, bytes);
        let at = wanted.windows(from.len() + 2).position(|found| found == with(from)).unwrap();
        wanted[at..at + from.len() + 2].copy_from_slice(&with(to));
    }
    assert_eq!(std::fs::read(&out).unwrap(), wanted);
    // Numbers in a field of their own become bytes; also in a stream.
    let file = weights(dir.path(), &[("n", DType::I64, &[2], &[5; 16])]);
    let into = Convert::new(to_stream()).with_graph(model.clone());
    let (_, streamed) = holdall::convert_to(&file, Vec::new(), &into).unwrap();
    let streamed = open(&streamed);
    assert_eq!(streamed.tensor("n").unwrap().bytes(&Role::Data).unwrap(), [5; 16][..]);
    assert_eq!(streamed.tensor("v").unwrap().bytes(&Role::Data).unwrap(), [7; 8][..]);
    assert_eq!(streamed.len(), model.len());
}

/// Types change on request, and the graph casts them back.
#[test]
fn other_types_are_cast_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let model = open(&graph());
    let halves = weights(dir.path(), &[("w", DType::F16, &[2], &SOME[..4])]);
    let into = Convert::new(over()).with_graph(model.clone());
    refused(convert(&halves, &out, &into).unwrap_err(), "onnx-file/type");
    assert!(!out.exists());
    // To the type of the graph.
    let plain = into.clone().with_dtypes([Cast::new("f32").unwrap()]);
    convert(&halves, &out, &plain).unwrap();
    assert_eq!(holdall::open(&out).unwrap().tensor("w").unwrap().dtype(), Some(DType::F32));
    // To another type.
    let floats = weights(dir.path(), &[("w", DType::F32, &[2], &[0, 0, 128, 63, 0, 0, 0, 64])]);
    let short = into.with_dtypes([Cast::new("bf16").unwrap()]);
    assert_eq!(convert(&floats, &out, &short).unwrap().cast, 1);
    let written = holdall::open(&out).unwrap();
    let stored = written.tensor("w.stored").unwrap();
    assert_eq!(stored.dtype(), Some(DType::Bf16));
    assert_eq!(stored.bytes(&Role::Data).unwrap(), [128, 63, 0, 64][..]);
    let all = std::fs::read(&out).unwrap();
    let cast = [
        field(1, b"w.stored"),
        field(2, b"w"),
        field(3, b"w.stored.cast"),
        field(4, b"Cast"),
        field(5, &[field(1, b"to"), int(3, 1), int(20, 2)].concat()),
    ];
    let cast = field(1, &cast.concat());
    assert!(all.windows(cast.len()).any(|found| found == cast));
    // Tensors that are not initializers cannot be cast, nor those that are inputs, nor any in old versions.
    let own = |bytes: &[u8]| {
        let all = Convert::new(over()).with_dtypes([Cast::new("f16").unwrap()]);
        convert(&open(bytes), &out, &all)
    };
    let value = [field(1, b"value"), field(5, &tensor("", 1, &[2], &[field(9, &[0; 8])]))];
    let w = || raw("w", 1, &[2], &[0; 8]);
    refused(own(&onnx_files::model(&[node("k", &value)])).unwrap_err(), "onnx-file/type");
    refused(
        own(&onnx_files::model(&[w(), field(11, &field(1, b"w"))])).unwrap_err(),
        "onnx-file/type",
    );
    let old = [int(1, 3), field(7, &w()), field(8, &int(2, 8))].concat();
    refused(own(&old).unwrap_err(), "onnx-file/type");
    own(&onnx_files::model(&[w(), field(11, &field(1, b"x"))])).unwrap();
}

/// External data is written next to the model, and back into it.
#[test]
fn elements_are_in_the_model_or_an_external_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let beside = |n: &str| dir.path().join(format!("out.onnx{n}.data"));
    let model = open(&graph());
    let large = Convert::new(over()).with_external(ExternalData::AtLeast(8));
    let report = convert(&model, &out, &large).unwrap();
    assert_eq!(report.files, ["out.onnx", "out.onnx.data"]);
    assert_eq!(
        report.target_len,
        out.metadata().unwrap().len() + beside("").metadata().unwrap().len()
    );
    let written = holdall::open(&out).unwrap();
    assert_eq!(written.len(), model.len());
    for name in model.names() {
        let (was, is) = (model.tensor(name).unwrap(), written.tensor(name).unwrap());
        assert_eq!(was.bytes(&Role::Data).unwrap(), is.bytes(&Role::Data).unwrap(), "{name}");
        let stored = is.components().next().unwrap().stored;
        let is_beside = ["w", "v", "c"].contains(&name);
        assert_eq!(stored.source == 1, is_beside, "{name}");
        assert!(!is_beside || stored.start.is_multiple_of(4096));
    }
    // External tensors stay external, in a new file until the new model exists.
    let file = weights(dir.path(), &[("v", DType::F32, &[2], &SOME)]);
    convert(&file, &out, &Convert::new(over()).with_graph(written)).unwrap();
    assert_eq!((bytes(&out, "v"), bytes(&out, "w")), (SOME.to_vec(), vec![0; 8]));
    assert!(!beside("").exists() && beside(".2").exists());
    // Back in the model, with the original bytes except for the encoding.
    let written = holdall::open(&out).unwrap();
    let inside = Convert::new(over()).with_external(ExternalData::None);
    assert!(convert(&written, &out, &inside).unwrap().files.is_empty());
    assert_eq!(bytes(&out, "v"), SOME);
    assert!(!beside("").exists() && !beside(".2").exists());
    // A stream cannot have an external file, and a missing one is reported.
    let large = Convert::new(to_stream()).with_external(ExternalData::AtLeast(8));
    refused(holdall::convert_to(&model, Vec::new(), &large).unwrap_err(), "onnx-file/beside");
    let gone = onnx_files::model(&[external("x", &[2], &[("location", "gone.data")])]);
    let path = dir.path().join("gone.onnx");
    std::fs::write(&path, gone).unwrap();
    refused(
        convert(&holdall::open(&path).unwrap(), &out, &inside).unwrap_err(),
        "onnx-file/external",
    );
}

#[test]
fn changes_that_the_graph_does_not_allow_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.onnx");
    let model = open(&graph());
    let into = Convert::new(over()).with_graph(model.clone());
    let other =
        weights(dir.path(), &[("a.w", DType::F32, &[2], &SOME), ("odd", DType::U8, &[1], &[1])]);
    refused(convert(&other, &out, &into).unwrap_err(), "onnx-file/fit");
    let renamed = into.clone().with_renames(vec![Rename::new("a.*=*").unwrap()]);
    refused(convert(&other, &out, &renamed).unwrap_err(), "onnx-file/fit");
    convert(&other, &out, &renamed.with_select(Select::all().without(["odd".to_owned()]))).unwrap();
    assert_eq!(bytes(&out, "w"), SOME);
    std::fs::remove_file(&out).unwrap();
    let shape = weights(dir.path(), &[("w", DType::F32, &[2, 1], &SOME)]);
    refused(convert(&shape, &out, &into).unwrap_err(), "onnx-file/fit");
    let mut limits = holdall::Limits::default();
    limits.header_len = 20;
    let long = OpenOptions::new().with_limits(limits).open_bytes(graph(), "model").unwrap();
    let into_long = Convert::new(over()).with_graph(long);
    refused(convert(&other, &out, &into_long).unwrap_err(), "onnx-file/graph-len");
    // Without a graph, with a graph that is not ONNX, and for another format.
    refused(convert(&shape, &out, &Convert::new(over())).unwrap_err(), "onnx-file/no-graph");
    let none = Convert::new(over()).with_graph(shape.clone());
    assert_eq!(convert(&shape, &out, &none).unwrap_err().code(), "onnx-file/no-graph");
    let zt = dir.path().join("out.zt");
    assert_eq!(convert(&shape, &zt, &into).unwrap_err().code(), "onnx-file/no-graph");
    let blocks = holdall::open(folder("gguf").join("gguf_quant_legacy.gguf")).unwrap();
    refused(convert(&blocks, &out, &into).unwrap_err(), "onnx-file/form");
    assert!(!out.exists() && !zt.exists());
}

/// Missing external data is named on the web, too.
#[test]
fn missing_data_on_the_web_is_named() {
    let whole = onnx_files::model(&[
        raw("here", 1, &[1], &[0; 4]),
        external("there", &[2], &[("location", "there.data")]),
        external("gone", &[2], &[("location", "sub/gone.data")]),
    ]);
    let server = Server::new(move |request| match request.target.as_str() {
        "/m/model.onnx" => Reply::file(&whole, "\"1\"", request),
        "/m/there.data" => Reply::file(&SOME, "\"1\"", request),
        _ => Reply::new(404, "no such file"),
    });
    let options = OpenOptions::new().with_policy(policy());
    let e = options.open(PathBuf::from(server.url("/m/model.onnx"))).unwrap_err();
    assert!(e.to_string().contains("`sub/gone.data`") && e.to_string().contains("404"), "{e}");
}
