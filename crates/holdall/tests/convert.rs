//! Conversions between all formats and versions: which properties are kept, which are refused and why.

use crate::count::Count;
use holdall::{
    Attributes, ComponentSpec, Convert, DType, EncodeOptions, Encoding, ErrorKind, File, Layout,
    LogicalType, OpenOptions, Rename, Role, Select, Sharing, TensorRecords as _, TensorSpec, Value,
    VerifyOptions, WriteOptions, Writer, convert, convert_to, formats, verify,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const TARGETS: [(&str, Option<&str>); 4] = [
    ("ztensor", Some("1.2")),
    ("ztensor", Some("1.0")),
    ("ztensor", Some("0.1")),
    ("safetensors", None),
];

fn target(format: &str, version: Option<&str>) -> WriteOptions {
    let mut encode = EncodeOptions::new();
    if let Some(version) = version {
        encode = encode.with_version(version);
    }
    WriteOptions::new()
        .with_format(formats::by_name(format).unwrap())
        .with_encode(encode)
        .with_overwrite(true)
}

/// Returns `len` bytes, different for each seed and not periodic.
fn bytes_of(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| (i * i / 7 + i * 3 + seed * 11) as u8).collect()
}

fn dense_file(dir: &Path) -> PathBuf {
    let path = dir.join("dense.zt");
    let mut attributes = Attributes::new();
    attributes.set("license", Value::Text("MIT".into()));
    let options = target("ztensor", None).with_attributes(attributes);
    let mut writer = Writer::create(&path, &options).unwrap();
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        let mut spec = TensorSpec::dense(format!("layer.{i}.{dtype}"), dtype, [3, 50_000]);
        if dtype == DType::Bool {
            spec = TensorSpec::dense("mask", dtype, [4]);
        }
        let len = spec.components[0].decoded_len;
        let bytes = if dtype == DType::Bool { vec![0, 1, 1, 0] } else { bytes_of(len, i as u64) };
        writer.add(spec, &[&bytes]).unwrap();
    }
    let spec = TensorSpec::dense("scalar", DType::F32, []);
    writer.add(spec, &[&1.5f32.to_le_bytes()]).unwrap();
    writer.finish().unwrap();
    path
}

fn same(a: &File, b: &File) {
    assert_eq!(a.len(), b.len());
    for x in a.tensors() {
        let y = b.tensor(x.name()).unwrap();
        assert_eq!((x.shape(), x.dtype()), (y.shape(), y.dtype()), "{}", x.name());
        assert_eq!(x.bytes(&Role::Data).unwrap(), y.bytes(&Role::Data).unwrap(), "{}", x.name());
    }
    assert_eq!(a.attributes(), b.attributes());
}

#[test]
fn dense_tensors_go_everywhere_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(dense_file(dir.path())).unwrap();
    for (format, version) in TARGETS {
        for zstd in [false, true] {
            let mut write = target(format, version);
            if zstd {
                write = write.with_zstd(3);
            }
            let there = dir.path().join("there");
            if zstd && format == "safetensors" {
                let e = convert(&source, &there, &Convert::new(write)).unwrap_err();
                assert_eq!((e.code(), e.kind()), ("write/not-in-format", ErrorKind::Misuse));
                continue;
            }
            convert(&source, &there, &Convert::new(write).reencode()).unwrap();
            let middle = holdall::open(&there).unwrap();
            same(&source, &middle);
            let back = dir.path().join("back.zt");
            convert(&middle, &back, &Convert::new(target("ztensor", None)).reencode()).unwrap();
            same(&source, &holdall::open(&back).unwrap());
            let (_, streamed) =
                convert_to(&middle, Vec::new(), &Convert::new(target("ztensor", None)).reencode())
                    .unwrap();
            assert!(streamed == std::fs::read(&back).unwrap());
        }
    }
}

#[test]
fn compressed_components_are_copied_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(dense_file(dir.path())).unwrap();
    let (a, b) = (dir.path().join("a.zt"), dir.path().join("b.zt"));
    let zstd = Convert::new(target("ztensor", None).with_zstd(7)).reencode();
    convert(&source, &a, &zstd).unwrap();
    let a = holdall::open(&a).unwrap();
    convert(&a, &b, &Convert::new(target("ztensor", Some("1.0")))).unwrap();
    let b = holdall::open(&b).unwrap();
    for x in a.tensors() {
        let y = b.tensor(x.name()).unwrap();
        assert_eq!(y.component(&Role::Data).unwrap().encoding, Encoding::ZSTD);
        assert_eq!(x.stored(&Role::Data).unwrap(), y.stored(&Role::Data).unwrap());
    }
    same(&source, &b);
}

fn u64s(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Returns a file with the 2×3 matrix [[0, 1.5, 0], [2.5, 0, 3.5]] in both sparse layouts.
fn sparse_file(dir: &Path) -> File {
    let path = dir.join("sparse.zt");
    let mut writer = Writer::create(&path, &target("ztensor", None)).unwrap();
    let tensor = |name: &str, layout, components: &[(Role, DType, usize)]| TensorSpec {
        name: name.into(),
        shape: vec![2, 3],
        layout,
        attributes: Attributes::new(),
        components: components
            .iter()
            .map(|(role, dtype, len)| ComponentSpec::new(role.clone(), *dtype, *len as u64))
            .collect(),
    };
    let values = f32s(&[1.5, 2.5, 3.5]);
    let (indices, indptr) = (u64s(&[1, 0, 2]), u64s(&[0, 1, 3]));
    let csr = [
        (Role::Values, DType::F32, 12),
        (Role::Indices, DType::U64, 24),
        (Role::Indptr, DType::U64, 24),
    ];
    writer.add(tensor("csr", Layout::SparseCsr, &csr), &[&values, &indices, &indptr]).unwrap();
    let coords = u64s(&[0, 1, 1, 1, 0, 2]);
    let coo = [(Role::Values, DType::F32, 12), (Role::Coords, DType::U64, 48)];
    writer.add(tensor("coo", Layout::SparseCoo, &coo), &[&values, &coords]).unwrap();
    writer.finish().unwrap();
    holdall::open(&path).unwrap()
}

#[test]
fn sparse_tensors_go_through_every_generation() {
    let dir = tempfile::tempdir().unwrap();
    let source = sparse_file(dir.path());
    let dense = [0.0, 1.5, 0.0, 2.5, 0.0, 3.5];
    for version in ["1.2", "1.0", "0.1"] {
        for zstd in [false, true] {
            let mut write = target("ztensor", Some(version));
            if zstd {
                write = write.with_zstd(3);
            }
            let there = dir.path().join("there.zt");
            convert(&source, &there, &Convert::new(write).reencode()).unwrap();
            let middle = holdall::open(&there).unwrap();
            let back = dir.path().join("back.zt");
            convert(&middle, &back, &Convert::new(target("ztensor", None)).reencode()).unwrap();
            let back = holdall::open(&back).unwrap();
            for name in ["csr", "coo"] {
                let tensor = middle.tensor(name).unwrap();
                assert_eq!(tensor.to_dense().unwrap().to_f32().unwrap(), dense, "{version} {name}");
                let (x, y) = (source.tensor(name).unwrap(), back.tensor(name).unwrap());
                assert_eq!(x.layout(), y.layout());
                for c in x.components() {
                    assert_eq!(x.bytes(&c.role).unwrap(), y.bytes(&c.role).unwrap());
                }
            }
        }
    }
}

/// Indices that 0.1 states in its manifest are written into every version, and into the manifest of another
/// 0.1 file; an edit of such a file keeps it unchanged.
#[test]
fn stated_indices_go_through_every_generation() {
    let dir = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/ztensor/");
    let path = format!("{root}made-0.1-sparse_stated.zt");
    let source = holdall::open(&path).unwrap();
    let same = |there: &File| {
        assert_eq!(source.len(), there.len());
        for t in source.tensors() {
            let other = there.tensor(t.name()).unwrap();
            assert_eq!(t.layout(), other.layout(), "{}", t.name());
            let stated = |t: &holdall::Tensor| t.components().any(|c| c.stored.is_stated());
            assert_eq!(stated(&other), stated(&t) && there.version().starts_with("0.1"));
            assert_eq!(t.to_dense().unwrap(), other.to_dense().unwrap(), "{}", t.name());
        }
    };
    for version in ["1.2", "1.0", "0.1"] {
        let there = dir.path().join("there.zt");
        let options = Convert::new(target("ztensor", Some(version))).with_drop_attributes();
        convert(&source, &there, &options).unwrap();
        same(&holdall::open(&there).unwrap());
        let there = holdall::open(&there).unwrap();
        assert!(verify(&there, &VerifyOptions::new()).unwrap().is_sound());
    }
    let edited = dir.path().join("edited.zt");
    std::fs::copy(&path, &edited).unwrap();
    assert!(verify(&source, &VerifyOptions::new()).unwrap().is_sound());
    let mut edit = holdall::Edit::open(&edited).unwrap();
    edit.set_attribute("note", Value::Text("edited".into()));
    edit.commit().unwrap();
    let file = holdall::open(&edited).unwrap();
    assert_eq!(file.version(), "0.1.0");
    same(&file);
    holdall::compact(&edited, WriteOptions::new()).unwrap();
    same(&holdall::open(&edited).unwrap());
}

#[test]
fn empty_sparse_tensors_of_unknown_length_pass_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.zt");
    // 1.0 does not state decoded lengths, and that of an empty component cannot be found otherwise.
    let mut writer = Writer::create(&path, &target("ztensor", Some("1.0")).with_zstd(3)).unwrap();
    let spec = TensorSpec {
        name: "empty".into(),
        shape: vec![2, 3],
        layout: Layout::SparseCsr,
        attributes: Attributes::new(),
        components: vec![
            ComponentSpec::new(Role::Values, DType::F32, 0),
            ComponentSpec::new(Role::Indices, DType::U64, 0),
            ComponentSpec::new(Role::Indptr, DType::U64, 24),
        ],
    };
    writer.add(spec, &[&u64s(&[0, 0, 0])]).unwrap();
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    for version in ["1.2", "1.0", "0.1"] {
        let out = dir.path().join("out.zt");
        convert(&source, &out, &Convert::new(target("ztensor", Some(version)))).unwrap();
        let tensor = holdall::open(&out).unwrap().tensor("empty").unwrap();
        assert_eq!(tensor.to_dense().unwrap().to_f32().unwrap(), [0.0; 6]);
    }
    holdall::compact(&path, WriteOptions::new()).unwrap();
}

#[test]
fn packed_bools_are_sound() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("bools.zt"), dir.path().join("out.zt"));
    let mut writer = Writer::create(&path, &target("ztensor", None)).unwrap();
    let spec = TensorSpec {
        name: "mask".into(),
        shape: vec![1, 9],
        layout: Layout::SparseCoo,
        attributes: Attributes::new(),
        components: vec![
            ComponentSpec::new(Role::Values, DType::Bool, 2),
            ComponentSpec::new(Role::Coords, DType::U64, 32),
        ],
    };
    writer.add(spec, &[&[1, 1], &u64s(&[0, 0, 5, 8])]).unwrap();
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    convert(&source, &out, &Convert::new(target("ztensor", Some("0.1")))).unwrap();
    let report = holdall::verify(&holdall::open(&out).unwrap(), &holdall::VerifyOptions::new());
    assert!(report.unwrap().is_sound());
}

#[test]
fn unsupported_tensors_are_refused_before_writing() {
    let dir = tempfile::tempdir().unwrap();
    let source = sparse_file(dir.path());
    let out = dir.path().join("out.safetensors");
    std::fs::write(&out, "precious").unwrap();
    let options = Convert::new(target("safetensors", None));
    let e = convert(&source, &out, &options).unwrap_err();
    assert_eq!(e.kind(), holdall::ErrorKind::Unsupported);
    assert!(e.message().contains("csr") && e.message().contains("coo"), "{e}");
    assert!(e.remedies().contains(&holdall::Remedy::MakeDense), "{e}");
    assert_eq!(std::fs::read(&out).unwrap(), b"precious");

    convert(&source, &out, &options.with_dense()).unwrap();
    let dense = holdall::open(&out).unwrap().tensor("coo").unwrap().dense().unwrap();
    assert_eq!(dense.to_f32().unwrap(), [0.0, 1.5, 0.0, 2.5, 0.0, 3.5]);
}

#[test]
fn logical_types_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("types.zt");
    let mut writer = Writer::create(&path, &target("ztensor", None)).unwrap();
    let mut complex = TensorSpec::dense("complex", DType::F32, [3]);
    complex.components[0].logical_type = Some(LogicalType::Complex64);
    complex.components[0].decoded_len = 24;
    writer.add(complex, &[&bytes_of(24, 1)]).unwrap();
    let mut f8 = TensorSpec::dense("f8", DType::U8, [5]);
    f8.components[0].logical_type = Some(LogicalType::F8E4M3Fn);
    writer.add(f8, &[&bytes_of(5, 2)]).unwrap();
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    let out = dir.path().join("out.zt");
    for version in ["1.0", "0.1"] {
        let options = Convert::new(target("ztensor", Some(version)));
        let e = convert(&source, &out, &options).unwrap_err();
        assert!(e.remedies().contains(&holdall::Remedy::DropLogicalTypes), "{e}");
        convert(&source, &out, &options.with_raw_types()).unwrap();
        let file = holdall::open(&out).unwrap();
        assert_eq!(file.tensor("complex").unwrap().shape(), [3, 2]);
        assert_eq!(file.tensor("f8").unwrap().shape(), [5]);
        assert_eq!(file.tensor("f8").unwrap().bytes(&Role::Data).unwrap(), bytes_of(5, 2));
    }
    // safetensors has both types.
    convert(&source, &out, &Convert::new(target("safetensors", None))).unwrap();
    let file = holdall::open(&out).unwrap();
    assert_eq!(file.tensor("complex").unwrap().logical_type(), Some(LogicalType::Complex64));
}

#[test]
fn attributes_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("attributes.zt");
    let mut attributes = Attributes::new();
    attributes.set("license", Value::Text("MIT".into()));
    attributes.set("epoch", Value::Integer(3));
    let mut writer =
        Writer::create(&path, &target("ztensor", None).with_attributes(attributes)).unwrap();
    let mut spec = TensorSpec::dense("w", DType::U8, [3]);
    spec.attributes.set("scale", Value::Float(0.5));
    writer.add(spec, &[&[1, 2, 3]]).unwrap();
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    let out = dir.path().join("out.zt");
    let options = Convert::new(target("ztensor", Some("1.0")));
    let e = convert(&source, &out, &options).unwrap_err();
    assert!(e.remedies().contains(&holdall::Remedy::DropAttributes), "{e}");
    convert(&source, &out, &options.with_drop_attributes()).unwrap();
    let file = holdall::open(&out).unwrap();
    assert_eq!(file.attributes().to_json(), r#"{"license":"MIT","epoch":3}"#);
    assert!(file.tensor("w").unwrap().attributes().is_empty());
    // Attributes that the target can hold are kept.
    let options = Convert::new(target("ztensor", Some("0.1"))).with_drop_attributes();
    convert(&source, &out, &options).unwrap();
    let file = holdall::open(&out).unwrap();
    assert_eq!(file.attributes(), source.attributes());
    assert_eq!(file.tensor("w").unwrap().attributes().len(), 1);
}

/// Records and blobs have no meaning without their schema: that attribute cannot be left out.
#[test]
fn attributes_that_a_layout_needs_are_not_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/metatensor/");
    for name in ["made-optional.mt", "made-blob-bytes.mt"] {
        let source = holdall::open(format!("{root}{name}")).unwrap();
        let kinds = |file: &File| -> Vec<String> {
            let of = |t: holdall::Tensor| match t.layout() {
                Layout::Records => format!("{} {}", t.name(), t.records().unwrap().len()),
                Layout::Blob => format!("{} {}", t.name(), t.blob().unwrap().len()),
                _ => t.name().to_owned(),
            };
            file.tensors().map(of).collect()
        };
        let out = dir.path().join("out");
        std::fs::write(&out, b"precious").unwrap();
        for version in ["1.0", "0.1"] {
            let options = Convert::new(target("ztensor", Some(version))).with_drop_attributes();
            let e = convert(&source, &out, &options).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.message().contains("has no layout"), "{e}");
            assert!(!e.remedies().contains(&holdall::Remedy::DropAttributes), "{e}");
            assert_eq!(std::fs::read(&out).unwrap(), b"precious");
        }
        for (format, version) in [("ztensor", Some("1.2")), ("metatensor", None)] {
            let options = Convert::new(target(format, version)).with_drop_attributes();
            convert(&source, &out, &options).unwrap();
            assert_eq!(kinds(&holdall::open(&out).unwrap()), kinds(&source), "{name} {format}");
        }
    }
}

#[test]
fn shared_bytes_stay_shared_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tied.zt");
    let mut writer = Writer::create(&path, &target("ztensor", None)).unwrap();
    for name in ["a", "b", "c"] {
        let seed = u64::from(name == "c");
        writer
            .add(TensorSpec::dense(name, DType::U8, [100_000]), &[&bytes_of(100_000, seed)])
            .unwrap();
    }
    writer.finish().unwrap();
    let source = holdall::open(&path).unwrap();
    let out = dir.path().join("out");
    let place =
        |file: &File, name: &str| file.tensor(name).unwrap().component(&Role::Data).unwrap().stored;
    for (format, version) in TARGETS {
        let with = |sharing| Convert::new(target(format, version)).with_sharing(sharing);
        let report = convert(&source, &out, &with(Sharing::Keep)).unwrap();
        assert_eq!(report.shared, 0);
        let report = convert(&source, &out, &with(Sharing::Dedupe)).unwrap();
        assert_eq!(report.shared, 1);
        let tied = holdall::open(&out).unwrap();
        assert_eq!(place(&tied, "a"), place(&tied, "b"), "{format} {version:?}");
        assert_ne!(place(&tied, "a"), place(&tied, "c"));
        for (again, (sharing, expected)) in
            [(Sharing::Keep, 1), (Sharing::Copy, 0)].into_iter().enumerate()
        {
            let back = dir.path().join(format!("back{again}.zt"));
            let options = Convert::new(target("ztensor", None)).with_sharing(sharing);
            assert_eq!(convert(&tied, &back, &options).unwrap().shared, expected);
            let back = holdall::open(&back).unwrap();
            assert_eq!(place(&back, "a") == place(&back, "b"), expected == 1);
            assert_eq!(back.tensor("b").unwrap().bytes(&Role::Data).unwrap(), bytes_of(100_000, 0));
        }
    }
}

#[test]
fn tensors_are_chosen_and_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let source = holdall::open(dense_file(dir.path())).unwrap();
    let out = dir.path().join("out.zt");
    let options = Convert::new(target("ztensor", None))
        .with_select(Select::new(&["layer.*"], &["*.i8", "*.u8"]).unwrap())
        .with_renames(vec![Rename::new("layer.*=blk.*").unwrap()]);
    convert(&source, &out, &options).unwrap();
    let file = holdall::open(&out).unwrap();
    assert_eq!(file.len(), 10);
    assert!(file.names().all(|n| n.starts_with("blk.")));
    let options = options.with_renames(vec![Rename::new("layer.*=same").unwrap()]);
    let before = std::fs::read(&out).unwrap();
    assert!(convert(&source, &out, &options).is_err());
    assert!(std::fs::read(&out).unwrap() == before);
}

#[test]
fn damage_in_the_source_leaves_the_old_target() {
    let dir = tempfile::tempdir().unwrap();
    let path = dense_file(dir.path());
    let out = dir.path().join("out.zt");
    for zstd in [false, true] {
        let source = holdall::open(&path).unwrap();
        let mut write = target("ztensor", None);
        if zstd {
            write = write.with_zstd(3);
        }
        let good = dir.path().join("good.zt");
        convert(&source, &good, &Convert::new(write).reencode()).unwrap();
        let stored = holdall::open(&good).unwrap().tensor("layer.3.bf16").unwrap();
        let stored = stored.component(&Role::Data).unwrap().stored;
        let mut bytes = std::fs::read(&good).unwrap();
        bytes[(stored.start + stored.end) as usize / 2] ^= 1;
        let bad = OpenOptions::new().open_bytes(bytes, "bad").unwrap();
        std::fs::write(&out, "precious").unwrap();
        for format in ["ztensor", "safetensors"] {
            let e = convert(&bad, &out, &Convert::new(target(format, None))).unwrap_err();
            assert_eq!(e.tensor(), Some("layer.3.bf16"), "{e}");
            assert_eq!(std::fs::read(&out).unwrap(), b"precious");
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

/// The total of progress announced equals the bytes reported done, however they are written.
#[test]
fn progress_ends_at_its_total() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain.zt");
    let mut writer = Writer::create(&plain, &target("ztensor", None)).unwrap();
    // One of a single frame, one of many, and an empty one.
    for (name, len) in [("small", 100_000), ("large", 9 << 20), ("none", 0)] {
        let bytes: Vec<u8> = (0..len).map(|i| (i / 1000) as u8).collect();
        writer.add(TensorSpec::dense(name, DType::U8, [len]), &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
    let zstd = dir.path().join("zstd.zt");
    let compress = Convert::new(target("ztensor", None).with_zstd(3)).reencode();
    convert(&holdall::open(&plain).unwrap(), &zstd, &compress).unwrap();
    let (to_zt, to_st) = (target("ztensor", None), target("safetensors", None));
    for (from, options) in [
        (&plain, Convert::new(to_zt.clone())),
        (&plain, Convert::new(to_zt.clone().with_zstd(3)).reencode()),
        (&zstd, Convert::new(to_zt.clone())),
        (&zstd, Convert::new(to_zt).reencode()),
        (&zstd, Convert::new(to_st)),
    ] {
        let count = Arc::new(Count::default());
        let options = options.with_work(count.work());
        let from = holdall::open(from).unwrap();
        let to = dir.path().join("out");
        let report = convert(&from, &to, &options).unwrap();
        let (total, done) = (&count.total, &count.done);
        assert_eq!(total.load(Ordering::Relaxed), report.decoded_len);
        assert_eq!(done.load(Ordering::Relaxed), report.decoded_len, "{options:?}");
    }
}
