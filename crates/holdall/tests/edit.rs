//! Edits: what changes, what stays, in place and not, and that a kill leaves the old or the new file.

use bytes::Bytes;
use holdall::{
    DType, Edit, EncodeOptions, OpenOptions, Role, TensorSpec, Value, WriteOptions, Writer,
    compact, formats,
};
use std::path::Path;

fn bytes_of(n: u64) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + n) as u8).collect()
}

/// Writes a file of three tensors, `len` bytes each.
fn make(path: &Path, format: &str, version: Option<&str>, len: u64) {
    let mut encode = EncodeOptions::new();
    if let Some(version) = version {
        encode = encode.with_version(version);
    }
    let options = WriteOptions::new()
        .with_format(formats::by_name(format).unwrap())
        .with_encode(encode)
        .with_overwrite(true);
    let specs: Vec<_> = (0..3).map(|i| spec(&format!("t{i}"), len + i)).collect();
    let mut writer = Writer::create(path, &options).unwrap();
    writer.declare(&specs).unwrap();
    for spec in specs {
        let bytes = bytes_of(spec.shape[0]);
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
}

fn spec(name: &str, len: u64) -> TensorSpec {
    TensorSpec::dense(name, DType::U8, [len])
}

const TARGETS: [(&str, Option<&str>); 4] = [
    ("ztensor", Some("1.2")),
    ("ztensor", Some("1.0")),
    ("ztensor", Some("0.1")),
    ("safetensors", None),
];

#[test]
fn all_changes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for (format, version) in TARGETS {
        for len in [100, 2 << 20] {
            let path = dir.path().join("f");
            make(&path, format, version, len);
            let mut edit = Edit::open(&path).unwrap();
            edit.remove("t1").unwrap();
            edit.rename("t0", "renamed").unwrap();
            edit.add(spec("new", 5000), vec![Bytes::from(bytes_of(5000))]).unwrap();
            edit.set_attribute("note", Value::Text("edited".into()));
            let report = edit.commit().unwrap();
            let can = format == "ztensor" && len > 1 << 20 && cfg!(target_os = "linux");
            assert_eq!(report.in_place, can, "{format} {version:?} {len}");

            let file = holdall::open(&path).unwrap();
            let mut names: Vec<&str> = file.names().collect();
            names.sort_unstable();
            assert_eq!(names, ["new", "renamed", "t2"]);
            for (name, n) in [("new", 5000), ("renamed", len), ("t2", len + 2)] {
                let tensor = file.tensor(name).unwrap();
                assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes_of(n), "{name}");
            }
            assert_eq!(file.attributes().get("note").unwrap().as_text(), Some("edited"));
            assert_eq!(file.index().source_len(), report.len);

            let compacted = compact(&path, WriteOptions::new()).unwrap();
            assert!(compacted.len <= report.len);
            let file = holdall::open(&path).unwrap();
            assert_eq!(file.tensor("t2").unwrap().bytes(&Role::Data).unwrap(), bytes_of(len + 2));
        }
    }
}

/// Writes a file of one tensor that states that version, and text attributes.
fn stating(path: &Path, version: &str) {
    let options = WriteOptions::new().with_encode(EncodeOptions::new().with_stated(version));
    let mut options = options.with_overwrite(true);
    options.attributes.set("note", Value::Text("first".into()));
    let mut writer = Writer::create(path, &options).unwrap();
    writer.add(spec("w", 1000), &[&bytes_of(1000)]).unwrap();
    writer.finish().unwrap();
}

fn renamed(path: &Path) -> holdall::Result<()> {
    let mut edit = Edit::open(path)?;
    edit.rename("w", "renamed")?;
    edit.commit().map(drop)
}

#[test]
fn a_file_keeps_the_version_that_it_states() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    for version in ["0.1.0", "1.0", "1.0.0", "1.1.0", "1.2.0", "1.2.7"] {
        stating(&path, version);
        let file = holdall::open(&path).unwrap();
        assert_eq!((file.version(), file.warnings()), (version, &[][..]));
        let last = |path: &Path| std::fs::read(path).unwrap().ends_with(b"ZTEN1000");
        let footer = last(&path);
        renamed(&path).unwrap();
        compact(&path, WriteOptions::new()).unwrap();
        let file = holdall::open(&path).unwrap();
        assert_eq!((file.version(), file.warnings()), (version, &[][..]));
        assert_eq!(last(&path), footer, "{version}");
        let tensor = file.tensor("renamed").unwrap();
        assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes_of(1000));
        assert_eq!(file.attributes().get("note").unwrap().as_text(), Some("first"));
    }
    // 1.1 has fewer features than 1.2.
    stating(&path, "1.1.0");
    let before = std::fs::read(&path).unwrap();
    let mut edit = Edit::open(&path).unwrap();
    edit.set_attribute("n", Value::Integer(1));
    assert_eq!(edit.commit().unwrap_err().code(), "ztensor/file-attributes");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn unknown_content_is_never_lost_silently() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("f.zt"), dir.path().join("out.zt"));
    stating(&path, "1.2.0");
    let sound = std::fs::read(&path).unwrap();
    let changed = |from: &str, to: &str| {
        let at = sound.windows(from.len()).rposition(|w| w == from.as_bytes()).unwrap();
        let mut bytes = sound.clone();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    for (bytes, what) in [
        (changed("1.2.0", "1.7.0"), "the version 1.7.0"),
        (changed("1.2.0", "1.0.0"), "the version 1.0.0"),
        (changed("attributes", "attributez"), "the field `attributez` of the manifest"),
        (changed("digest", "digesd"), "the field `digesd` of component `data` of tensor `w`"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        for e in [renamed(&path).unwrap_err(), compact(&path, WriteOptions::new()).unwrap_err()] {
            assert_eq!(e.code(), "edit/unrepresented");
            assert!(e.message().contains(what), "{e}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        // A conversion writes another file, and reports the items that are not in it.
        let file = holdall::open(&path).unwrap();
        let options = holdall::Convert::new(WriteOptions::new().with_overwrite(true));
        let report = holdall::convert(&file, &out, &options).unwrap();
        assert!(
            report.left_behind.len() == 1 && report.left_behind[0].starts_with(what),
            "{report:?}"
        );
    }
    let report = holdall::convert(
        &OpenOptions::new().open_bytes(sound.clone(), "sound").unwrap(),
        &out,
        &holdall::Convert::new(WriteOptions::new().with_overwrite(true)),
    );
    assert_eq!(report.unwrap().left_behind, [""; 0]);
}

#[test]
fn edits_in_place_follow_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    make(&path, "ztensor", Some("1.2"), 1 << 20);
    for i in 0..20u64 {
        let mut edit = Edit::open(&path).unwrap();
        let name = format!("added{i}");
        edit.add(spec(&name, 10_000 * i), vec![Bytes::from(bytes_of(10_000 * i))]).unwrap();
        if i % 3 == 2 {
            edit.remove(&format!("added{}", i - 1)).unwrap();
        }
        let report = edit.commit().unwrap();
        assert!(report.in_place || cfg!(not(target_os = "linux")));
        let file = holdall::open(&path).unwrap();
        let tensor = file.tensor(&name).unwrap();
        assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes_of(10_000 * i));
        assert_eq!(file.tensor("t0").unwrap().bytes(&Role::Data).unwrap(), bytes_of(1 << 20));
    }
}

#[test]
fn impossible_edits_are_refused_without_changes() {
    let dir = tempfile::tempdir().unwrap();
    for (format, version) in TARGETS {
        let path = dir.path().join("f");
        make(&path, format, version, 2 << 20);
        let before = std::fs::read(&path).unwrap();
        let mut edit = Edit::open(&path).unwrap();
        assert_eq!(edit.remove("t9").unwrap_err().code(), "file/no-tensor");
        assert_eq!(edit.rename("t0", "t1").unwrap_err().code(), "edit/cannot");
        assert!(edit.add(spec("t0", 1), vec![Bytes::from(vec![0])]).is_err());
        // Fewer bytes than declared: found only while writing.
        edit.add(spec("short", 100_000), vec![Bytes::from(bytes_of(99))]).unwrap();
        assert_eq!(edit.commit().unwrap_err().code(), "write/length");
        assert!(std::fs::read(&path).unwrap() == before, "{format} {version:?}");
    }
}

#[test]
fn kept_tensors_keep_encoding_digest_and_alignment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    let options = WriteOptions::new()
        .with_overwrite(true)
        .with_encode(EncodeOptions::new().with_align(1024))
        .with_digest(Some(holdall::Algorithm::Sha256));
    for (zstd, digest) in [(false, true), (true, true), (false, false)] {
        let mut options = if zstd { options.clone().with_zstd(3) } else { options.clone() };
        if !digest {
            options = options.with_digest(None);
        }
        let mut writer = Writer::create(&path, &options).unwrap();
        for n in [1000, 0, 70_000] {
            writer.add(spec(&format!("t{n}"), n), &[&bytes_of(n)]).unwrap();
        }
        writer.finish().unwrap();
        let before = holdall::open(&path).unwrap();
        let mut edit = Edit::open(&path).unwrap().with_write(WriteOptions::new().with_zstd(9));
        edit.add(spec("new", 500), vec![Bytes::from(bytes_of(500))]).unwrap();
        assert!(!edit.commit().unwrap().in_place);
        compact(&path, WriteOptions::new()).unwrap();
        let after = holdall::open(&path).unwrap();
        // Empty tensors are written anew.
        for old in before.tensors().filter(|t| t.count() > 0) {
            let (old, new) = (
                old.component(&Role::Data).unwrap(),
                after.tensor(old.name()).unwrap().component(&Role::Data).unwrap(),
            );
            assert_eq!((old.encoding, &old.digest), (new.encoding, &new.digest));
            assert_eq!(old.stored_len(), new.stored_len());
            assert!(new.stored.start.is_multiple_of(1024));
        }
        let new = after.tensor("new").unwrap();
        assert_eq!(new.component(&Role::Data).unwrap().encoding, holdall::Encoding::ZSTD);
        assert_eq!(new.bytes(&Role::Data).unwrap(), bytes_of(500));
    }
}

#[test]
fn an_edit_is_of_the_file_that_was_read() {
    let dir = tempfile::tempdir().unwrap();
    for len in [100, 2 << 20] {
        let path = dir.path().join("f.zt");
        make(&path, "ztensor", None, len);
        let open = |key: &str| {
            let mut edit = Edit::open(&path).unwrap();
            edit.set_attribute(key, Value::Null);
            edit
        };
        let (first, second) = (open("first"), open("second"));
        first.commit().unwrap();
        assert_eq!(second.commit().unwrap_err().code(), "edit/changed");
        let file = holdall::open(&path).unwrap();
        assert!(file.attributes().get("first").is_some());
        assert!(file.attributes().get("second").is_none());
    }
}

#[cfg(unix)]
#[test]
fn a_device_is_not_replaced_by_a_file() {
    assert_eq!(holdall::open("/dev/null").unwrap_err().code(), "io/not-regular");
    let options =
        WriteOptions::new().with_format(formats::by_name("ztensor").unwrap()).with_overwrite(true);
    assert_eq!(Writer::create("/dev/null", &options).err().unwrap().code(), "io/not-regular");
}

#[test]
fn no_change_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    make(&path, "ztensor", None, 100);
    let before = std::fs::read(&path).unwrap();
    assert_eq!(Edit::open(&path).unwrap().commit().unwrap().written, 0);
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn readers_during_an_edit_see_the_old_or_the_new_file() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    make(&path, "ztensor", Some("1.2"), 2 << 20);
    /// Stops the edits when the readers end, also after a failed assertion, so that the test fails instead of
    /// hanging.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    let edit = |n: u64| {
        let mut edit = Edit::open(&path).unwrap();
        edit.set_attribute("n", Value::Text("x".repeat(n as usize * 37 % 4000)));
        edit.commit().unwrap().in_place
    };
    let can = edit(0);
    std::thread::scope(|scope| {
        let stop = Stop(&done);
        let edits = scope.spawn(|| {
            for n in 1.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                edit(n);
            }
        });
        for io in [holdall::Io::Map, holdall::Io::Read].into_iter().cycle().take(300) {
            let file = holdall::OpenOptions::new().with_io(io).open(&path);
            let file = file.unwrap_or_else(|e| panic!("{io:?}, edited in place: {can}: {e}"));
            assert_eq!(file.names().collect::<Vec<_>>(), ["t0", "t1", "t2"]);
            let text = file.attributes().get("n").and_then(Value::as_text).unwrap();
            assert!(text.bytes().all(|b| b == b'x'));
        }
        drop(stop);
        edits.join().unwrap();
    });
}

/// If no tensor moves, and all changes of a header are in one sector, they are written in one step; otherwise
/// the file is rewritten. Either way the result equals a newly written file.
#[test]
fn headers_that_come_first_are_changed_in_place_where_that_is_one_step() {
    // Not every system tells which file it is.
    let id = |path: &Path| holdall_io::platform::file_id(&path.metadata().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(3000);
    let write = |path: &Path, format: &str, pairs: &[(&str, Value)]| {
        let attributes = pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let options = WriteOptions::new()
            .with_format(formats::by_name(format).unwrap())
            .with_attributes(attributes)
            .with_overwrite(true);
        let specs = [("a", 999u64), ("b", 0), ("c", 5000)];
        let specs = specs.map(|(name, len)| TensorSpec::dense(name, DType::I8, [len]));
        let mut writer = Writer::create(path, &options).unwrap();
        writer.declare(&specs).unwrap();
        for spec in specs {
            let bytes = bytes_of(spec.shape[0]);
            writer.add(spec, &[&bytes]).unwrap();
        }
        writer.finish().unwrap();
    };
    for format in ["gguf", "safetensors", "metatensor"] {
        let [path, wanted] = ["edited", "wanted"].map(|name| dir.path().join(name));
        let text = |text: &str| Value::Text(text.to_owned());
        let number = |n| if format == "gguf" { Value::Integer(n) } else { text(&n.to_string()) };
        let first = [("id", number(20000)), ("long", text(&long)), ("template", text("abc"))];
        // The attribute to set, and whether that is one step.
        let cases = [
            ("id", number(32007), true),
            ("template", text("xyz"), true),
            ("long", text(&"x".repeat(3000)), true),
            ("long", text(&"y".repeat(3000)), false),
            ("template", text(&"longer ".repeat(20)), false),
            ("new", text("new"), false),
        ];
        for (key, value, in_place) in cases {
            write(&path, format, &first);
            let before = id(&path);
            let mut edit = Edit::open(&path).unwrap();
            edit.set_attribute(key, value.clone());
            let report = edit.commit().unwrap();
            assert_eq!(report.in_place, in_place, "{format} {key}");
            assert!(before.is_none() || (id(&path) == before) == in_place, "{format} {key}");
            assert!(!in_place || report.written < 8, "{format} {key}: {}", report.written);
            let mut after = first.to_vec();
            match after.iter_mut().find(|(k, _)| *k == key) {
                Some(pair) => pair.1 = value,
                None => after.push((key, value)),
            }
            write(&wanted, format, &after);
            let [found, wanted] = [&path, &wanted].map(|path| std::fs::read(path).unwrap());
            assert!(found == wanted, "{format} {key}");
        }
        // Adding or removing a tensor changes more than the header; a name of the same length does not.
        write(&path, format, &first);
        let mut edit = Edit::open(&path).unwrap();
        edit.remove("a").unwrap();
        assert!(!edit.commit().unwrap().in_place);
        let mut edit = Edit::open(&path).unwrap();
        edit.rename("c", "d").unwrap();
        edit.commit().unwrap();
        let file = holdall::open(&path).unwrap();
        assert_eq!(*file.tensor("d").unwrap().bytes(&Role::Data).unwrap(), bytes_of(5000)[..]);
    }
}

/// Names that can be read, but that common readers of the format refuse, cause a warning when they are
/// written.
#[test]
fn long_names_in_gguf_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let (from, path) = (dir.path().join("a.safetensors"), dir.path().join("a.gguf"));
    let gguf = WriteOptions::new().with_format(formats::by_name("gguf").unwrap());
    for (len, warned) in [(63, 0), (64, 1), (127, 1)] {
        let name = "n".repeat(len);
        make_f32(&from, "safetensors", &["a", "b"]);
        let mut edit = Edit::open(&from).unwrap();
        edit.rename("a", &name).unwrap();
        assert_eq!(edit.commit().unwrap().warnings, [], "others have no such bound");
        let options = holdall::Convert::new(gguf.clone().with_overwrite(true));
        let file = holdall::open(&from).unwrap();
        let report = holdall::convert(&file, &path, &options).unwrap();
        let codes = |all: &[holdall::Warning]| all.iter().map(|w| w.code).collect::<Vec<_>>();
        let wanted = vec!["gguf/long-name"; warned];
        assert_eq!(codes(&report.warnings), wanted, "{len}");
        make_f32(&path, "gguf", &["a", "b"]);
        let mut edit = Edit::open(&path).unwrap();
        edit.rename("a", &name).unwrap();
        assert_eq!(codes(&edit.commit().unwrap().warnings), wanted, "{len}");
        // Names that existed before are not reported.
        let mut edit = Edit::open(&path).unwrap();
        edit.rename("b", "c").unwrap();
        assert_eq!(edit.commit().unwrap().warnings, []);
    }
}

fn make_f32(path: &Path, format: &str, names: &[&str]) {
    let format = formats::by_name(format).unwrap();
    let options = WriteOptions::new().with_format(format).with_overwrite(true);
    let specs: Vec<_> =
        names.iter().map(|name| TensorSpec::dense(*name, DType::F32, [1])).collect();
    let mut writer = Writer::create(path, &options).unwrap();
    writer.declare(&specs).unwrap();
    specs.into_iter().for_each(|spec| writer.add(spec, &[&[0; 4]]).unwrap());
    writer.finish().unwrap();
}

/// No byte of a removed tensor, nor of an old manifest, is left in a file that was edited in place; and the
/// next edit removes what a killed one left.
#[cfg(target_os = "linux")]
#[test]
fn removed_bytes_are_zeroed_in_place() {
    use std::os::unix::fs::FileExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    // The bytes of a file that belong to none of its tensors.
    let between = |path: &Path| {
        let file = holdall::open(path).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let mut is_used = vec![false; bytes.len()];
        for tensor in file.tensors() {
            tensor.components().for_each(|c| {
                is_used[c.stored.start as usize..c.stored.end as usize].fill(true);
            });
        }
        let data = file.index().data_range();
        let all = data.start as usize..data.end as usize;
        all.filter(|at| !is_used[*at] && bytes[*at] != 0).count()
    };
    for (format, version) in TARGETS.into_iter().filter(|(format, _)| *format == "ztensor") {
        for removed in [vec!["t0"], vec!["t1"], vec!["t2"], vec!["t0", "t1"], vec!["t1", "t2"]] {
            make(&path, format, version, 1 << 20);
            let mut edit = Edit::open(&path).unwrap();
            removed.iter().for_each(|name| edit.remove(name).unwrap());
            let report = edit.commit().unwrap();
            assert!(report.in_place, "{version:?} {removed:?}");
            assert_eq!(between(&path), 0, "{version:?} {removed:?}");
            let file = holdall::open(&path).unwrap();
            for tensor in file.tensors() {
                let n = tensor.shape()[0];
                assert_eq!(tensor.bytes(&Role::Data).unwrap(), bytes_of(n), "{removed:?}");
            }
            assert!(report.unused_len > 1 << 19, "{removed:?}: {}", report.unused_len);
            // As if the edit had been killed before this step: the next edit makes up for it.
            let data = file.index().data_range();
            let used: Vec<_> =
                file.tensors().flat_map(|t| t.components().collect::<Vec<_>>()).collect();
            let gap = (data.start..data.end)
                .rfind(|at| used.iter().all(|c| *at < c.stored.start || *at >= c.stored.end + 64));
            drop(file);
            if let Some(at) = gap {
                let target = std::fs::File::options().write(true).open(&path).unwrap();
                target.write_all_at(&[7; 1], at).unwrap();
                assert_eq!(between(&path), 1);
            }
            let mut edit = Edit::open(&path).unwrap();
            edit.set_attribute("note", Value::Text("again".into()));
            assert!(edit.commit().unwrap().in_place);
            assert_eq!(between(&path), 0, "{version:?} {removed:?}");
            let report = compact(&path, WriteOptions::new()).unwrap();
            assert_eq!(report.unused_len, 0, "{version:?} {removed:?}");
        }
    }
}

/// Components that share their bytes stay shared in every file that can express it, whatever types they have.
#[test]
fn shared_components_of_several_types_stay_shared() {
    use holdall::{ComponentRef, Convert, LogicalType, convert};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zt");
    let mut writer = Writer::create(&path, &WriteOptions::new()).unwrap();
    let bytes = bytes_of(64);
    writer.add(spec("plain", 64), &[&bytes]).unwrap();
    let shares = || Some(ComponentRef { tensor: "plain".into(), role: Role::Data });
    for (name, dtype, logical, shape) in [
        ("a", DType::U8, Some("f8_e4m3fn"), 64),
        ("b", DType::U8, Some("int4x"), 64),
        ("c", DType::F32, Some("complex64"), 8),
        ("d", DType::F32, None, 16),
        // The dtype's own name adds nothing.
        ("e", DType::F64, Some("f64"), 8),
    ] {
        let mut spec = TensorSpec::dense(name, dtype, [shape]);
        spec.components[0].logical_type = logical.map(LogicalType::from_name);
        spec.components[0].decoded_len = 64;
        spec.components[0].shares = shares();
        writer.add(spec, &[]).unwrap();
    }
    writer.finish().unwrap();
    let ranges = |path: &Path| {
        let file = holdall::open(path).unwrap();
        let all: Vec<_> =
            file.tensors().map(|t| t.components().next().unwrap().stored.range()).collect();
        assert_eq!(all.len(), 6);
        let mut all = all.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    assert_eq!(ranges(&path), 1);
    let types = |path: &Path| {
        let file = holdall::open(path).unwrap();
        file.tensor("e").unwrap().logical_type()
    };
    assert_eq!(types(&path), None);
    let out = dir.path().join("o.zt");
    let report = convert(&holdall::open(&path).unwrap(), &out, &Convert::new(WriteOptions::new()));
    assert_eq!(report.unwrap().left_behind, [""; 0]);
    assert_eq!((ranges(&out), types(&out)), (1, None));
    let mut edit = Edit::open(&out).unwrap();
    edit.set_attribute("note", Value::Null);
    edit.commit().unwrap();
    compact(&out, WriteOptions::new()).unwrap();
    assert_eq!(ranges(&out), 1);
}

/// Files as authors of the documents create them: each can be edited and written in its own version, with all
/// of its contents; otherwise an edit reports what it would lose, and a conversion names it.
#[test]
fn unknown_content_is_kept_or_named() {
    use holdall::{Convert, convert};
    let dir = tempfile::tempdir().unwrap();
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/ztensor"));
    for (name, version, named) in [
        ("attrs10_nontextval", "1.0", None),
        ("attrs12_nontext", "1.2", Some("the attribute with the key")),
        ("chk01_null", "0.1", None),
        ("deep61", "1.2", None),
        ("indefname12", "1.2", None),
        ("s01_csr_other", "0.1", None),
        ("type_same", "1.2", None),
        ("u12root_nontextkey", "1.2", Some("the field with the key 5")),
    ] {
        let path = dir.path().join("f.zt");
        let from = match name {
            // No other format's JSON supports this depth.
            "deep61" => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/deep61.zt"),
            name => corpus.join(format!("author-{name}.zt")),
        };
        std::fs::copy(from, &path).unwrap();
        let source = holdall::open(&path).unwrap();
        let out = dir.path().join("o.zt");
        let write = WriteOptions::new()
            .with_overwrite(true)
            .with_encode(EncodeOptions::new().with_version(version));
        let report = convert(&source, &out, &Convert::new(write)).unwrap();
        let left_behind = report.left_behind.join("; ");
        assert_eq!(left_behind.is_empty(), named.is_none(), "{name}: {left_behind}");
        assert!(left_behind.contains(named.unwrap_or_default()), "{name}: {left_behind}");
        let same = |path: &Path, name: &str| {
            let file = holdall::open(path).unwrap();
            for (key, value) in source.attributes().iter() {
                assert_eq!(file.attributes().get(key), Some(value), "{name}: {key}");
            }
            for (a, b) in source.tensors().zip(file.tensors()) {
                assert_eq!((a.name(), a.shape()), (b.name(), b.shape()), "{name}");
                assert_eq!((a.layout(), a.attributes()), (b.layout(), b.attributes()), "{name}");
                assert_eq!(a.logical_type(), b.logical_type(), "{name}");
                assert_eq!(a.bytes(&Role::Data).unwrap(), b.bytes(&Role::Data).unwrap(), "{name}");
            }
        };
        same(&out, name);
        let before = std::fs::read(&path).unwrap();
        let done = Edit::open(&path).and_then(|mut edit| {
            edit.set_attribute("note", Value::Integer(1));
            edit.commit()
        });
        match (done, named) {
            (Ok(_), None) => {
                same(&path, name);
                let file = holdall::open(&path).unwrap();
                assert_eq!(file.attributes().get("note"), Some(&Value::Integer(1)), "{name}");
            }
            (Err(e), Some(words)) => {
                assert!(e.to_string().contains(words), "{name}: {e}");
                assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
            }
            (done, _) => panic!("{name}: {done:?}"),
        }
    }
}
