//! Edits of models in several files: the result equals that of the same edit of the model in one file.

use holdall::operations::{self, LocationKind, OPERATIONS, Operation, Support};
use holdall::{
    Convert, DType, Edit, File, FileRole, TensorSpec, Value, WriteOptions, Writer, compact,
    convert, diff, formats, verify,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const KINDS: [&str; 4] = ["safetensors", "bin", "gguf", "ztensor2"];

fn write_whole(path: &Path, format: &str) -> File {
    let options = WriteOptions::new().with_format(formats::by_name(format).unwrap());
    let mut writer = Writer::create(path, &options).unwrap();
    let specs: Vec<TensorSpec> =
        (0..9).map(|i| TensorSpec::dense(format!("layers.{i}.w"), DType::F32, [4 + i])).collect();
    writer.declare(&specs).unwrap();
    for (at, spec) in specs.into_iter().enumerate() {
        writer.add(spec, &[&(at as f32).to_le_bytes().repeat(4 + at)]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

/// Writes a model in one file, and the same in several; returns the paths by which they are opened.
fn models(dir: &Path, kind: &str) -> (PathBuf, PathBuf) {
    let format = if kind == "bin" { "pytorch" } else { kind };
    let folder = dir.join(format!("{kind}-model"));
    let whole_path = dir.join(format!("whole.{}", if format == "ztensor2" { "zt" } else { kind }));
    let whole = write_whole(&whole_path, format);
    if kind == "bin" {
        std::fs::create_dir(&folder).unwrap();
        let mut map = BTreeMap::new();
        for (number, range) in [(1, 0..4), (2, 4..9)] {
            let name = format!("pytorch_model-{number:05}-of-00002.bin");
            let names: Vec<String> = range.map(|i| format!("layers.{i}.w")).collect();
            let select = holdall::Select::new(&names, &[]).unwrap();
            let write = WriteOptions::new().with_format(formats::by_name("pytorch").unwrap());
            let options = Convert::new(write).with_select(select);
            convert(&whole, folder.join(&name), &options).unwrap();
            map.extend(names.into_iter().map(|tensor| (tensor, name.clone())));
        }
        let total: u64 = (0..9).map(|i| 4 * (4 + i)).sum();
        let map: Vec<String> = map.iter().map(|(t, f)| format!("    \"{t}\": \"{f}\"")).collect();
        let text = format!(
            "{{\n  \"metadata\": {{\"total_size\": {total}, \"mine\": [1]}},\n  \"weight_map\": {{\n{}\n  }}\n}}\n",
            map.join(",\n")
        );
        let index = folder.join("pytorch_model.bin.index.json");
        std::fs::write(&index, text).unwrap();
        return (whole_path, index);
    }
    let write = WriteOptions::new().with_format(formats::by_name(kind).unwrap());
    convert(&whole, &folder, &Convert::new(write).with_max_shard_len(100)).unwrap();
    let entry = match kind {
        "safetensors" => "model.safetensors.index.json".to_owned(),
        "ztensor2" => "model.zt".to_owned(),
        _ => {
            let names = names(&folder);
            names.into_iter().find(|name| name.contains("-00001-of-")).unwrap()
        }
    };
    let entry = folder.join(entry);
    assert!(holdall::open(&entry).unwrap().files().len() > 2);
    (whole_path, entry)
}

/// Options that do not wait for the disk.
fn quick() -> WriteOptions {
    WriteOptions::new().with_durability(holdall::Durability::System)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (name.clone(), std::fs::read(folder.join(name)).unwrap());
    names(folder).into_iter().map(read).collect()
}

/// Checks that two models are equal.
fn check_same(a: &Path, b: &Path, what: &str) {
    let (a, b) = (holdall::open(a).unwrap(), holdall::open(b).unwrap());
    assert_eq!(b.warnings(), [], "{what}");
    let found = diff(&a, &b, &Default::default()).unwrap();
    assert!(found.is_same() && found.attributes.is_empty(), "{what}: {found:?}");
    let all = |file: &File| file.names().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(all(&a), all(&b), "{what}");
    let found = verify(&b, &Default::default()).unwrap();
    assert!(found.is_sound(), "{what}: {found:?}");
    // Every file of the folder belongs to the model.
    let parent = b.files()[0].location.as_path().unwrap().parent().unwrap();
    assert_eq!(names(parent).len(), b.files().len(), "{what}");
}

/// Applies an edit by its number; returns its description.
fn apply(edit: &mut Edit, number: usize) -> String {
    let all: Vec<String> = edit.file().names().map(str::to_owned).collect();
    let pick = |n: usize| all[(number / 7 + n) % all.len()].clone();
    let spec = |name: &str, dtype, count: u64| TensorSpec::dense(name, dtype, [count]);
    let (one, other) = (pick(0), pick(3));
    match number % 7 {
        0 => {
            edit.set_attribute("note", Value::Text(format!("note {number}")));
            "set".to_owned()
        }
        1 => {
            edit.rename(&one, &format!("new.{number}")).unwrap();
            format!("rename {one}")
        }
        2 => {
            let len = edit.file().tensor(&one).unwrap().count();
            edit.remove(&one).unwrap();
            edit.add(spec(&one, DType::I8, len), vec![vec![number as u8; len as usize].into()])
                .unwrap();
            format!("replace {one} by others")
        }
        3 => {
            let old = edit.file().tensor(&one).unwrap();
            let (count, dtype) = (old.count(), old.dtype().unwrap());
            edit.remove(&one).unwrap();
            let bytes = vec![number as u8; (count * dtype.width()) as usize];
            edit.add(spec(&one, dtype, count), vec![bytes.into()]).unwrap();
            format!("replace {one}")
        }
        4 if one != other => {
            edit.rename(&one, "passing").unwrap();
            edit.rename(&other, &one).unwrap();
            edit.rename("passing", &other).unwrap();
            format!("swap {one} and {other}")
        }
        5 if all.len() > 5 => {
            edit.remove(&one).unwrap();
            format!("remove {one}")
        }
        _ => {
            edit.add(spec(&format!("added.{number}"), DType::F16, 2), vec![vec![1; 4].into()])
                .unwrap();
            "add".to_owned()
        }
    }
}

#[test]
fn edits_of_several_files_are_those_of_one() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let (whole, model) = models(dir.path(), kind);
        let folder = model.parent().unwrap();
        let (mut done, mut refused) = (0, 0);
        let mut seed = 7usize;
        for round in 0..40 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = seed >> 33;
            let before = bytes_of(folder);
            let path = if kind != "gguf" && round % 2 == 0 { folder } else { &model };
            let mut edit = Edit::open(path).unwrap();
            let what = format!("{kind}, round {round}: {}", apply(&mut edit, number));
            match edit.with_write(quick()).commit() {
                Ok(report) => {
                    done += 1;
                    let mut edit = Edit::open(&whole).unwrap();
                    apply_same(&mut edit, number, &what);
                    edit.with_write(quick()).commit().unwrap();
                    assert!(!report.files.is_empty(), "{what}");
                    let after = bytes_of(folder);
                    let changed =
                        after.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
                    assert_eq!(changed.count(), report.files.len(), "{what}: {:?}", report.files);
                }
                Err(e) => {
                    refused += 1;
                    // Parts of GGUF state the total number of tensors, and no index commits several.
                    assert_eq!((kind, e.code()), ("gguf", "edit/several-files"), "{what}: {e}");
                    assert!(e.hint().unwrap().contains("convert"), "{e}");
                    assert!(before == bytes_of(folder), "{what}");
                }
            }
            check_same(&whole, &model, &what);
        }
        assert!(done > 15 && (refused > 0) == (kind == "gguf"), "{kind}: {done}, {refused}");
        let report = compact(&model, quick()).unwrap();
        assert!(!report.in_place && report.files.len() > 1);
        check_same(&whole, &model, kind);
        // Unknown keys of the index are kept.
        if kind == "bin" {
            assert!(std::fs::read_to_string(&model).unwrap().contains("\"mine\": [1]"));
        }
    }
}

/// Applies the same edit to the model in one file, whose tensors may be listed in another order.
fn apply_same(edit: &mut Edit, number: usize, what: &str) {
    let again = apply_named(edit, number, what);
    assert!(again, "{what}");
}

fn apply_named(edit: &mut Edit, number: usize, what: &str) -> bool {
    let words: Vec<&str> = what.rsplit(": ").next().unwrap().split(' ').collect();
    let spec = |name: &str, dtype, count: u64| TensorSpec::dense(name, dtype, [count]);
    match words.as_slice() {
        ["set"] => edit.set_attribute("note", Value::Text(format!("note {number}"))),
        ["rename", one] => edit.rename(one, &format!("new.{number}")).unwrap(),
        ["replace", one, ..] => {
            let old = edit.file().tensor(one).unwrap();
            let (count, dtype) = (old.count(), old.dtype().unwrap());
            let dtype = if words.len() > 2 { DType::I8 } else { dtype };
            edit.remove(one).unwrap();
            let bytes = vec![number as u8; (count * dtype.width()) as usize];
            edit.add(spec(one, dtype, count), vec![bytes.into()]).unwrap();
        }
        ["swap", one, _, other] => {
            edit.rename(one, "passing").unwrap();
            edit.rename(other, one).unwrap();
            edit.rename("passing", other).unwrap();
        }
        ["remove", one] => edit.remove(one).unwrap(),
        ["add"] => {
            let added = format!("added.{number}");
            edit.add(spec(&added, DType::F16, 2), vec![vec![1; 4].into()]).unwrap();
        }
        _ => return false,
    }
    true
}

/// A change of one file changes only that file.
#[test]
fn one_file_that_changes_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["safetensors", "bin", "gguf"] {
        let (_, model) = models(dir.path(), kind);
        let folder = model.parent().unwrap();
        let before = bytes_of(folder);
        let mut edit = Edit::open(&model).unwrap();
        edit.set_attribute("note", Value::Text("x".repeat(600)));
        let report = edit.commit().unwrap();
        assert_eq!(report.files.len(), 1);
        let after = bytes_of(folder);
        assert!(before.keys().eq(after.keys()));
        let changed: Vec<&String> = before
            .iter()
            .filter(|(name, bytes)| after[*name] != **bytes)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(changed.len(), 1);
        assert!(changed[0].contains("-00001-of-"), "{changed:?}");
        let file = holdall::open(&model).unwrap();
        assert_eq!(file.attributes().get("note"), Some(&Value::Text("x".repeat(600))));
        assert!(file.attributes().get("split.count").is_none());
        let roles: Vec<FileRole> = file.files().iter().map(|file| file.role).collect();
        assert_eq!(roles.contains(&FileRole::Index), kind != "gguf");
    }
}

/// Shards of Keras are named by groups, and their attributes are those of all files.
#[test]
fn weights_of_keras_are_edited_in_their_files() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keras");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("parts");
    std::fs::create_dir(&folder).unwrap();
    for name in names(&from).iter().filter(|name| name.starts_with("parts")) {
        std::fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    let (whole, model) = (dir.path().join("whole.weights.h5"), folder.join("parts.weights.json"));
    std::fs::copy(from.join("whole.weights.h5"), &whole).unwrap();
    let all: Vec<String> = holdall::open(&whole).unwrap().names().map(str::to_owned).collect();
    let last = all.last().unwrap().clone();
    let (group, number) = last.rsplit_once('/').unwrap();
    let moved = format!("{}_moved/vars/{number}", group.strip_suffix("/vars").unwrap_or(group));
    let steps: [&dyn Fn(&mut Edit); 4] = [
        &|edit| edit.rename(&last, &moved).unwrap(),
        &|edit| edit.set_attribute("mine", Value::Text("1".into())),
        &|edit| edit.remove(&all[0]).unwrap(),
        &|edit| {
            edit.add(TensorSpec::dense("new/vars/0", DType::F32, [2]), vec![vec![0; 8].into()])
                .unwrap();
        },
    ];
    for (number, step) in steps.into_iter().enumerate() {
        for path in [&whole, &model] {
            let mut edit = Edit::open(path).unwrap();
            step(&mut edit);
            edit.commit().unwrap();
        }
        let (a, b) = (holdall::open(&whole).unwrap(), holdall::open(&model).unwrap());
        assert_eq!(b.warnings(), [], "{number}");
        let found = diff(&a, &b, &Default::default()).unwrap();
        assert!(found.is_same(), "{number}: {found:?}");
        assert_eq!(names(&folder).len(), b.files().len(), "{number}");
    }
    compact(&model, quick()).unwrap();
    let (a, b) = (holdall::open(&whole).unwrap(), holdall::open(&model).unwrap());
    assert_eq!(b.warnings(), []);
    assert!(diff(&a, &b, &Default::default()).unwrap().is_same());
}

#[test]
fn a_shard_by_itself_keeps_the_names_that_an_index_gives() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["safetensors", "ztensor2", "gguf"] {
        let (_, model) = models(dir.path(), kind);
        let folder = model.parent().unwrap();
        let shard = names(folder).into_iter().find(|name| name.contains("-00002-of-")).unwrap();
        let (before, shard) = (bytes_of(folder), folder.join(shard));
        let change = |rename: bool| {
            let mut edit = Edit::open(&shard).unwrap();
            let name = edit.file().names().next().unwrap().to_owned();
            match rename {
                true => edit.remove(&name).unwrap(),
                false => edit.set_attribute("note", Value::Text("2".into())),
            }
            edit.commit().map(drop)
        };
        let e = change(true).unwrap_err();
        let expected = if kind == "gguf" { "edit/several-files" } else { "edit/named-elsewhere" };
        assert_eq!(e.code(), expected, "{kind}: {e}");
        assert!(before == bytes_of(folder));
        match change(false) {
            Ok(()) => assert_ne!(kind, "ztensor2"),
            // The model states the digest of the whole shard.
            Err(e) => assert_eq!((kind, e.code()), ("ztensor2", "edit/named-elsewhere")),
        }
        assert!(verify(&holdall::open(&model).unwrap(), &Default::default()).unwrap().is_sound());
    }
}

/// A shard that another index names too is kept.
#[test]
fn shards_of_another_index_are_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, model) = models(dir.path(), "safetensors");
    let other = model.with_file_name("other.safetensors.index.json");
    std::fs::copy(&model, &other).unwrap();
    let before = names(model.parent().unwrap());
    let mut edit = Edit::open(&model).unwrap();
    edit.rename("layers.0.w", "x").unwrap();
    edit.commit().unwrap();
    assert!(before.is_subset(&names(model.parent().unwrap())));
    assert!(holdall::open(&other).unwrap().index().get("layers.0.w").is_some());
    assert!(holdall::open(&model).unwrap().index().get("x").is_some());
}

/// A reader that opens a model during an edit gets the old one or the new one.
#[test]
fn readers_during_an_edit_see_one_version_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let (_, model) = models(dir.path(), "safetensors");
    let path = model.clone();
    let editing = std::thread::spawn(move || {
        for round in 0..20 {
            let mut edit = Edit::open(&path).unwrap();
            let (from, to) = if round % 2 == 0 { ("layers.0.w", "x") } else { ("x", "layers.0.w") };
            edit.rename(from, to).unwrap();
            edit.with_write(quick()).commit().unwrap();
        }
    });
    let mut opened = 0;
    while !editing.is_finished() || opened < 20 {
        let file = holdall::open(&model).unwrap();
        assert_eq!(file.len(), 9);
        opened += 1;
    }
    editing.join().unwrap();
}

#[test]
fn every_operation_is_in_the_table_once() {
    let mut seen = BTreeSet::new();
    for row in OPERATIONS {
        assert!(seen.insert(row.name), "{} is twice in the table", row.name);
        assert_eq!(row.operation.row().name, row.name);
    }
}

/// Operations that the table refuses are refused with its rule, and nothing is written.
#[test]
fn unsupported_operations_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a.tar");
    std::fs::write(&archive, [0; 1024]).unwrap();
    let package = dir.path().join("p.carton");
    std::fs::write(&package, "").unwrap();
    let path = |place| match place {
        LocationKind::ArchiveMember => {
            Some(archive.join("x").to_string_lossy().replace("/x", "!/x"))
        }
        LocationKind::PackageMember => Some(format!("{}!/model/x", package.display())),
        LocationKind::Address => Some("https://example.org/model.safetensors".to_owned()),
        LocationKind::Store => Some("s3://bucket/model.safetensors".to_owned()),
        LocationKind::Folder => Some(dir.path().to_string_lossy().into_owned()),
        _ => None,
    };
    let before = names(dir.path());
    let mut count = 0;
    for row in OPERATIONS {
        for place in LocationKind::ALL {
            let found = operations::check_kind(row.operation, place, "x");
            let Support::No(rule, _) = row.support(place) else {
                found.unwrap();
                continue;
            };
            let e = found.unwrap_err();
            assert_eq!(e.code(), rule.code);
            assert!(e.hint().is_some(), "{}: {e}", row.name);
            let Some(path) = path(place) else { continue };
            assert_eq!(LocationKind::from_path(Path::new(&path)), place, "{path}");
            let ran = match row.operation {
                Operation::Edit => Edit::open(&path).map(drop),
                Operation::Compact => compact(&path, WriteOptions::new()).map(drop),
                _ => operations::check(row.operation, Path::new(&path)),
            };
            assert_eq!(ran.unwrap_err().code(), rule.code, "{} {path}", row.name);
            count += 1;
        }
    }
    assert!(count > 10);
    assert_eq!(before, names(dir.path()));
}
