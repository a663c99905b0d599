//! A scan of a model in several files scans all of them, and the verdict on files that could not be scanned
//! is unknown.

use crate::archives::{member, tar, zip};
use holdall::scan::{ScanReport, Verdict, scan_source};
use holdall::source::{ByteSource, MemorySource};
use holdall::{
    Attributes, DType, Limits, OpenOptions, TensorSpec, Value, Work, WriteOptions, Writer, scan,
};
use std::path::Path;
use std::sync::Arc;

const BAD: &[u8] = b"cos\nsystem\n(S'true'\ntR.";
const GOOD: &[u8] = b"\x80\x02}q\0.";
const INDEX: &str =
    r#"{"metadata": {"total_size": 8}, "weight_map": {"a": "m-1.bin", "b": "in/m-2.bin"}}"#;

fn scanned(path: impl AsRef<Path>) -> ScanReport {
    scan(path, &OpenOptions::new(), &Work::new()).unwrap()
}

fn unread(report: &ScanReport) -> Vec<&'static str> {
    report.unread.iter().map(|e| e.code()).collect()
}

/// Returns a folder with an index with that name, and its files; the second contains `second`, or is missing.
fn model(index: &str, second: Option<&[u8]>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join(index), INDEX).unwrap();
    std::fs::write(dir.path().join("m-1.bin"), GOOD).unwrap();
    if let Some(bytes) = second {
        std::fs::write(dir.path().join("in/m-2.bin"), bytes).unwrap();
    }
    dir
}

#[test]
fn every_file_that_an_index_names_is_scanned() {
    // Loaders read any index; accelerate accepts one of any name.
    for index in [
        "pytorch_model.bin.index.json",
        "model.safetensors.index.json",
        "model.safetensors.index.fp16.json",
        "other.json",
        "other",
    ] {
        for (second, verdict, files) in [
            (Some(GOOD), Verdict::Safe, 3),
            (Some(BAD), Verdict::Dangerous, 3),
            (Some(&b"BZh91AY"[..]), Verdict::Unknown, 3),
            (None, Verdict::Unknown, 2),
        ] {
            let dir = model(index, second);
            for path in [dir.path().join(index), dir.path().to_owned()] {
                let report = scanned(&path);
                let context = format!("{}: {report:?}", path.display());
                assert_eq!((report.verdict(), report.files), (verdict, files), "{context}");
                assert_eq!(report.unread.is_empty(), verdict != Verdict::Unknown, "{context}");
            }
        }
    }
}

#[test]
fn an_index_that_is_refused_is_unknown() {
    for text in [
        r#"{"weight_map": {"a": "../m-1.bin"}}"#,
        r#"{"weight\u005fmap": {"a": "/m-1.bin"}}"#,
        r#"{"weight_map": {"a": ["m-1.bin"]}}"#,
        r#"{"weight_map": {"a": "m-1.bin"}, "x": NaN}"#,
        r#"{"weight_map": {"a": "m-1.bin"}, "weight_map": {"b": "m-2.bin"}} "#,
    ] {
        let dir = model("m.bin.index.json", Some(GOOD));
        let path = dir.path().join("m.bin.index.json");
        std::fs::write(&path, text).unwrap();
        for path in [path, dir.path().to_owned()] {
            assert_eq!(scanned(&path).verdict(), Verdict::Unknown, "{text}");
        }
    }
    // Other texts are not an index.
    for text in [r#"{"a": 1}"#, r#"{"a": "\u0077eight_mop"}"#, "{", r#"{"a": NaN}"#] {
        let dir = model("m.bin.index.json", Some(GOOD));
        let path = dir.path().join("m.bin.index.json");
        std::fs::write(&path, text).unwrap();
        assert_eq!(scanned(&path).verdict(), Verdict::NoPickles, "{text}");
    }
}

#[test]
fn an_index_without_its_folder_is_unknown() {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new(INDEX.as_bytes().to_vec()));
    let report = scan_source(&source, "x.index.json", &Limits::default(), &Work::new()).unwrap();
    assert_eq!(report.verdict(), Verdict::Unknown);
    assert_eq!(unread(&report), ["shards/missing"]);
    assert!(report.unread[0].to_string().contains("`in/m-2.bin`"), "{}", report.unread[0]);
}

#[test]
fn models_in_archives_are_scanned_with_all_their_files() {
    for (second, verdict) in
        [(Some(GOOD), Verdict::Safe), (Some(BAD), Verdict::Dangerous), (None, Verdict::Unknown)]
    {
        let dir = tempfile::tempdir().unwrap();
        let padded = format!("{INDEX}{}", " ".repeat(9000));
        let mut files = vec![("m/x.bin.index.json", padded.as_bytes()), ("m/m-1.bin", GOOD)];
        files.extend(second.map(|bytes| ("m/in/m-2.bin", bytes)));
        let members: Vec<_> = files.iter().map(|(name, bytes)| member(name, b'0', bytes)).collect();
        std::fs::write(dir.path().join("m.tar"), tar(&members)).unwrap();
        let entries: Vec<_> = files.iter().map(|(name, bytes)| (*name, *bytes, true)).collect();
        std::fs::write(dir.path().join("m.zip"), zip(&entries)).unwrap();
        for archive in ["m.tar", "m.zip"] {
            for inside in ["", "!/m/x.bin.index.json", "!/m"] {
                let path = format!("{}{inside}", dir.path().join(archive).display());
                let report = scanned(&path);
                assert_eq!(report.verdict(), verdict, "{path}: {report:?}");
            }
        }
    }
}

#[test]
fn shards_and_side_files_are_scanned() {
    let dir = tempfile::tempdir().unwrap();
    let part = |number: u32| dir.path().join(format!("m-{number:05}-of-00003.gguf"));
    let names = ["a", "b", "c"];
    for (no, name) in (0u32..).zip(names) {
        let format = holdall::formats::by_name("gguf").unwrap();
        let mut split = Attributes::new();
        for (key, value) in [("split.no", no), ("split.count", 3), ("split.tensors.count", 3)] {
            split.push(key, Value::Integer(value.into()));
        }
        let options = WriteOptions::new().with_format(format).with_attributes(split);
        let mut writer = Writer::create(part(no + 1), &options).unwrap();
        let spec = TensorSpec::dense(name, DType::F32, [1]);
        writer.declare(std::slice::from_ref(&spec)).unwrap();
        writer.add(spec, &[&[0; 4]]).unwrap();
        writer.finish().unwrap();
    }
    let report = scanned(part(1));
    assert_eq!((report.verdict(), report.files), (Verdict::NoPickles, 3), "{report:?}");
    assert_eq!(scanned(dir.path()).files, 3);
    std::fs::remove_file(part(2)).unwrap();
    for path in [part(1), dir.path().to_owned()] {
        let report = scanned(path);
        assert_eq!(report.verdict(), Verdict::Unknown);
        assert_eq!(unread(&report), ["shards/missing"]);
    }
}

#[test]
fn files_of_checkpoints_are_scanned() {
    let ranks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/ranks");
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in ranks.read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        count += 1;
    }
    let entry = dir.path().join(".metadata");
    let seen = |path: &Path| {
        let report = scanned(path);
        let mut sources: Vec<_> = report.pickles.iter().map(|p| p.source.clone()).collect();
        sources.dedup_by_key(|source| source.split("!/").next().unwrap().to_owned());
        (report.verdict(), sources.len())
    };
    assert_eq!(seen(&entry), seen(dir.path()));
    assert!(seen(&entry).1 >= count, "{:?}", seen(&entry));
    let chunks = dir.path().join("__1_0.distcp");
    std::fs::write(&chunks, BAD).unwrap();
    assert_eq!(seen(&entry).0, Verdict::Dangerous);
    std::fs::remove_file(&chunks).unwrap();
    assert!(seen(&entry).0 >= Verdict::Unknown);
}

/// Functions in Keras files are code, though not in a pickle.
#[test]
fn layers_of_keras_that_are_functions_are_unknown() {
    let config = |class: &str| {
        format!("{{\"class_name\": \"Sequential\", \"config\": [{{\"class_name\": \"{class}\"}}]}}")
    };
    let of = |bytes: &[u8]| {
        let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new(bytes.to_vec()));
        scan_source(&source, "x", &Limits::default(), &Work::new()).unwrap().verdict()
    };
    for (class, verdict) in [
        ("Dense", Verdict::NoPickles),
        ("Lambda", Verdict::Unknown),
        ("__lambda__", Verdict::Unknown),
    ] {
        let long = format!("{}{}", config(class), " ".repeat(9000));
        for text in [config(class), config(class).replace(": ", ":"), long] {
            assert_eq!(of(text.as_bytes()), verdict, "{text}");
            for is_packed in [false, true] {
                let file = zip(&[("config.json", text.as_bytes(), is_packed)]);
                assert_eq!(of(&file), verdict, "{text}");
            }
            let hdf5 = [&b"\x89HDF\r\n\x1a\n"[..], &[0; 600], text.as_bytes()].concat();
            assert_eq!(of(&hdf5), verdict, "{text}");
        }
    }
}
