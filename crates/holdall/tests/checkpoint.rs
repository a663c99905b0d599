//! Distributed checkpoints of PyTorch open as one model. `checkpoint/ranks` was written by four processes
//! with torch 2.15 (`checkpoint/make.py`); the other files are its `.metadata`, each with one change.

use holdall::{
    Convert, DType, Io, Limits, OpenOptions, Result, Value, WriteOptions, convert, verify,
};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint")
}

fn values(file: &holdall::File, name: &str) -> Vec<f32> {
    file.tensor(name).unwrap().to_dense().unwrap().to_f32().unwrap()
}

/// Copies the files into a new folder, with that `.metadata` and its data file.
fn copy(metadata: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in folder().join("ranks").read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    if !metadata.is_empty() {
        let from = folder().join(format!("{metadata}.metadata"));
        std::fs::copy(from, dir.path().join(".metadata")).unwrap();
        let data = folder().join(format!("{metadata}.distcp"));
        if data.exists() {
            std::fs::copy(data, dir.path().join("array.distcp")).unwrap();
        }
    }
    dir
}

#[test]
fn tensors_of_many_ranks_are_put_together() {
    let full: Vec<f32> = (0..35u8).map(f32::from).collect();
    for io in [Io::Map, Io::Read] {
        for path in [folder().join("ranks"), folder().join("ranks/.metadata")] {
            let file = OpenOptions::new().with_io(io).open(path).unwrap();
            assert_eq!((file.format(), file.len()), ("pytorch", 9));
            for (name, dtype, shape) in [
                ("rows", DType::F32, [5, 7]),
                ("cols", DType::Bf16, [5, 7]),
                ("both", DType::F64, [5, 7]),
                ("same", DType::F32, [5, 7]),
                ("plain", DType::F16, [5, 7]),
            ] {
                let info = file.index().get(name).unwrap();
                assert_eq!((info.dtype(), info.shape()), (Some(dtype), &shape[..]), "{name}");
                assert_eq!(values(&file, name), full, "{name}");
            }
            let turned: Vec<f32> =
                (0..7).flat_map(|at| full.iter().skip(at).step_by(7).copied()).collect();
            assert_eq!(values(&file, "tp"), turned);
            assert_eq!(values(&file, "few"), [1.0, 2.0, 3.0]);
            assert_eq!((values(&file, "none"), values(&file, "one")), (vec![], vec![2.5]));
            let attribute = |key: &str| file.attributes().get(key).unwrap().to_json();
            assert_eq!(
                [attribute("step"), attribute("opt.lr"), attribute("opt.names")],
                ["12", "0.5", r#"["x","y"]"#]
            );
            // Rows of a tensor whose rows are in several files.
            let both = file.tensor("both").unwrap();
            for (at, wanted) in full.iter().enumerate() {
                let range = at as u64 * 8..at as u64 * 8 + 8;
                let bytes = both.bytes_range(&holdall::Role::Data, range).unwrap();
                assert_eq!(*bytes, f64::from(*wanted).to_le_bytes());
            }
            assert!(verify(&file, &Default::default()).unwrap().is_sound());
            assert_eq!(file.load_all().unwrap().len(), 9);
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out.safetensors");
            convert(&file, &out, &Convert::new(WriteOptions::new())).unwrap();
            let written = holdall::open(&out).unwrap();
            assert_eq!((written.len(), values(&written, "cols")), (9, full.clone()));
            assert_eq!(written.attributes().get("step"), Some(&Value::Integer(12)));
        }
    }
}

#[test]
fn inconsistent_checkpoints_are_refused_or_faulty() {
    let code = |opened: Result<holdall::File>| opened.map_or_else(|e| e.code(), |_| "");
    let opened = |metadata: &str| code(holdall::open(copy(metadata).path()));
    assert_eq!(opened(""), "");
    for (metadata, rule) in [
        ("transformed", "pytorch/transformed"),
        ("lost", "pytorch/checkpoint"),
        ("outside", "pytorch/checkpoint"),
        ("global", "pytorch/global"),
    ] {
        assert_eq!(opened(metadata), rule, "{metadata}");
    }
    // Nor is it called.
    let mut limits = Limits::default();
    limits.skip_unknown = true;
    let dir = copy("global");
    let file = OpenOptions::new().with_limits(limits).open(dir.path()).unwrap();
    assert_eq!(values(&file, "one"), [2.5]);
    for (metadata, rule) in [
        ("chunks", "pytorch/chunks"),
        ("gap", "pytorch/chunks"),
        ("huge", "index/shape-overflow"),
        ("item", "pytorch/item"),
        // A chunk that is a NumPy array, whose bytes are in the pickle.
        ("array", "pytorch/chunks"),
    ] {
        let dir = copy(metadata);
        let file = holdall::open(dir.path()).unwrap();
        let fault = file.index().get("rows").unwrap().fault().map(|e| e.code());
        assert_eq!((fault, values(&file, "one")), (Some(rule), vec![2.5]), "{metadata}");
    }
}

#[test]
fn files_are_all_there_and_nowhere_else() {
    let code =
        |dir: &tempfile::TempDir| holdall::open(dir.path()).map_or_else(|e| e.code(), |_| "");
    let dir = copy("");
    let (metadata, last) = (dir.path().join(".metadata"), dir.path().join("__3_0.distcp"));
    let whole = std::fs::read(&metadata).unwrap();
    let at = whole.windows(12).position(|w| w == b"__3_0.distcp").unwrap();
    for name in [b"../_0.distcp", b"/_3_0.distcp", b"C:3_0.distcp", b"_\\3_0.distcp"] {
        let mut changed = whole.clone();
        changed[at..at + 12].copy_from_slice(name);
        std::fs::write(&metadata, changed).unwrap();
        assert_eq!(code(&dir), "shards/outside");
    }
    std::fs::write(&metadata, &whole).unwrap();
    let items = std::fs::read(&last).unwrap();
    std::fs::write(&last, &items[..items.len() - 1]).unwrap();
    assert_eq!(code(&dir), "pytorch/checkpoint");
    let mut changed = items;
    let middle = changed.len() - 500;
    changed[middle..].fill(0);
    std::fs::write(&last, changed).unwrap();
    assert!(code(&dir).starts_with("zip/"), "{}", code(&dir));
    std::fs::remove_file(&last).unwrap();
    assert_eq!(code(&dir), "shards/missing");
    // No prefix of the table is accepted as the table.
    for len in (0..whole.len()).step_by(61) {
        std::fs::write(&metadata, &whole[..len]).unwrap();
        assert_ne!(code(&dir), "", "{len}");
    }
}
