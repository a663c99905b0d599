//! Models of several files open as one.

use holdall::{
    Attributes, Convert, DType, FileRole, Io, OpenOptions, TensorSpec, Value, WriteOptions, Writer,
    convert, verify,
};
use std::path::Path;

/// Writes a file of f32 tensors, each filled with one number.
fn write(path: &Path, tensors: &[(&str, u64, f32)], attributes: &[(&str, Value)]) {
    let mut all = Attributes::new();
    attributes.iter().for_each(|(key, value)| all.push(*key, value.clone()));
    let options = WriteOptions::new().with_attributes(all).with_overwrite(true);
    let mut writer = Writer::create(path, &options).unwrap();
    let specs: Vec<TensorSpec> =
        tensors.iter().map(|(name, n, _)| TensorSpec::dense(*name, DType::F32, [*n])).collect();
    writer.declare(&specs).unwrap();
    for (spec, (_, n, x)) in specs.into_iter().zip(tensors) {
        writer.add(spec, &[&x.to_le_bytes().repeat(*n as usize)]).unwrap();
    }
    writer.finish().unwrap();
}

/// Creates a folder with two shards and their index.
fn model(folder: &Path, map: &str) {
    write(&folder.join("model-00001-of-00002.safetensors"), &[("a", 4, 1.0), ("b.w", 2, 2.0)], &[]);
    write(&folder.join("model-00002-of-00002.safetensors"), &[("c", 3, 3.0)], &[]);
    std::fs::write(folder.join("model.safetensors.index.json"), map).unwrap();
    std::fs::write(folder.join("config.json"), "{}").unwrap();
}

const MAP: &str = r#"{"metadata": {"total_size": 36}, "weight_map": {
    "a": "model-00001-of-00002.safetensors", "b.w": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors"}}"#;

fn values(file: &holdall::File, name: &str) -> Vec<f32> {
    file.tensor(name).unwrap().dense().unwrap().to_f32().unwrap()
}

#[test]
fn files_that_no_index_names_open_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["b.safetensors", "a.safetensors"].map(|name| dir.path().join(name));
    write(&paths[0], &[("b", 2, 2.0)], &[("note", Value::Text("first".into()))]);
    write(&paths[1], &[("a", 4, 1.0), ("c", 3, 3.0)], &[("note", Value::Text("second".into()))]);
    for io in [Io::Map, Io::Read] {
        let options = OpenOptions::new().with_io(io);
        let file = options.open_all(&paths).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!((values(&file, "b"), values(&file, "c")), (vec![2.0; 2], vec![3.0; 3]));
        assert_eq!(file.attributes().get("note"), Some(&Value::Text("first".into())));
        assert_eq!(file.name(), format!("{} and 1 more", paths[0].display()));
        assert_eq!(options.open_all(&paths[1..]).unwrap().name(), paths[1].display().to_string());
    }
    let open = |paths: &[&Path]| OpenOptions::new().open_all(paths).unwrap_err();
    assert_eq!(open(&[&paths[0], &paths[1], &paths[0]]).code(), "index/duplicate-name");
    assert_eq!(open(&[]).code(), "shards/no-model");
    let missing = dir.path().join("missing.safetensors");
    let e = open(&[&paths[0], &missing]);
    assert_eq!((e.code(), e.source_name()), ("io/failed", Some(&*missing.to_string_lossy())));
}

#[test]
fn a_folder_with_an_index_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), MAP);
    for io in [Io::Map, Io::Read] {
        for path in [dir.path().to_owned(), dir.path().join("model.safetensors.index.json")] {
            let file = OpenOptions::new().with_io(io).open(&path).unwrap();
            assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b.w", "c"]);
            assert_eq!((file.format(), file.index().warnings()), ("safetensors", &[][..]));
            let name = |number| format!("model-0000{number}-of-00002.safetensors");
            let shards = file.files().iter().filter(|file| matches!(file.role, FileRole::Shard(_)));
            let found: Vec<_> = shards.map(|shard| shard.location.to_path_buf()).collect();
            assert_eq!(found, [1, 2].map(|number| dir.path().join(name(number))));
            assert_eq!(file.files()[0].role, FileRole::Index);
            assert_eq!(values(&file, "a"), [1.0; 4]);
            assert_eq!(values(&file, "b.w"), [2.0; 2]);
            assert_eq!(values(&file, "c"), [3.0; 3]);
            assert_eq!(file.load_all().unwrap().len(), 3);
            assert!(verify(&file, &Default::default()).unwrap().is_sound());
            let out = dir.path().join("out").with_extension("zt");
            convert(&file, &out, &Convert::new(WriteOptions::new().with_overwrite(true))).unwrap();
            assert_eq!(values(&holdall::open(&out).unwrap(), "c"), [3.0; 3]);
            std::fs::remove_file(out).unwrap();
        }
    }
}

#[test]
fn a_mismatched_index_is_refused_or_warned_about() {
    let fails = |map: &str| -> Result<Vec<&str>, &str> {
        let dir = tempfile::tempdir().unwrap();
        model(dir.path(), map);
        let file = holdall::open(dir.path());
        file.map_err(|e| e.code())
            .map(|file| file.index().warnings().iter().map(|w| w.code).collect::<Vec<_>>())
    };
    assert_eq!(fails(MAP), Ok(vec![]));
    assert_eq!(fails(""), Err("shards/index"));
    assert_eq!(fails("{}"), Err("shards/index"));
    assert_eq!(fails(r#"{"weight_map": []}"#), Err("shards/index"));
    assert_eq!(fails(r#"{"weight_map": {"a": "x", "a": "x"}}"#), Err("shards/index"));
    assert_eq!(fails(&MAP.replace("\"c\":", "\"d\":")), Err("shards/tensor"));
    assert_eq!(fails(&MAP.replace("00002-of-00002", "00003-of-00002")), Err("shards/missing"));
    for bad in
        ["../model", "/model", "C:model", "a/../../model", "a\\\\model", "./model", "", "a//b"]
    {
        assert_eq!(
            fails(&MAP.replace("model-00002-of-00002.safetensors", bad)),
            Err("shards/outside"),
            "{bad}"
        );
    }
    assert_eq!(fails(&MAP.replace("36", "37")), Ok(vec!["shards/total-size"]));
    assert_eq!(fails(&MAP.replace("36", "36.0")), Ok(vec![]));
    let without =
        MAP.replace(r#""a": "model-00001-of-00002.safetensors", "#, "").replace("36", "20");
    assert_eq!(fails(&without), Ok(vec!["shards/extra"]));
    // In another shard than in the index.
    let moved = MAP.replace("\"c\": \"model-00002", "\"c\": \"model-00001");
    assert_eq!(fails(&moved), Err("shards/tensor"));
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), MAP);
    std::fs::write(dir.path().join("model-00002-of-00002.safetensors"), "cut").unwrap();
    let e = holdall::open(dir.path()).unwrap_err();
    assert!(e.to_string().contains("model-00002-of-00002.safetensors"), "{e}");
}

/// As with transformers, which takes `model.safetensors` before its index, and diffusers, which takes the
/// index.
#[test]
fn a_folder_with_a_model_and_an_index_says_which_is_read() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), MAP);
    write(&dir.path().join("model.safetensors"), &[("whole", 4, 1.0)], &[]);
    let read = |path: &Path| {
        let file = holdall::open(path).unwrap();
        let names: Vec<_> = file.names().map(str::to_owned).collect();
        let warnings: Vec<_> = file.index().warnings().iter().map(|w| w.to_string()).collect();
        assert_eq!(values(&file, &names[0]), [1.0; 4]);
        (names.join(" "), warnings)
    };
    let (names, warnings) = read(dir.path());
    assert_eq!(names, "whole");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let both = "`model.safetensors` is read: name the other file to read it instead";
    assert!(warning.contains(both), "{warning}");
    // Naming a file selects it.
    let index = dir.path().join("model.safetensors.index.json");
    assert_eq!(read(&index), ("a b.w c".to_owned(), vec![]));
    assert_eq!(read(&dir.path().join("model.safetensors")), ("whole".to_owned(), vec![]));
    let of = |stem: &str| {
        let stem = dir.path().join(stem);
        [stem.with_extension("safetensors"), stem.with_extension("safetensors.index.json")]
    };
    for (from, to) in of("model").into_iter().zip(of("diffusion_pytorch_model")) {
        std::fs::rename(from, to).unwrap();
    }
    let (names, warnings) = read(dir.path());
    assert_eq!((&*names, warnings.len()), ("a b.w c", 1), "{warnings:?}");
}

/// Errors about an index give its path.
#[test]
fn an_error_of_an_index_names_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "{}");
    let e = holdall::open(dir.path()).unwrap_err();
    let index = dir.path().join("model.safetensors.index.json");
    assert_eq!((e.code(), e.source_name()), ("shards/index", Some(&*index.to_string_lossy())));
}

#[test]
fn a_folder_opens_by_its_contents() {
    let dir = tempfile::tempdir().unwrap();
    let fails = || holdall::open(dir.path()).map_err(|e| e.code()).map(|file| file.len());
    assert_eq!(fails(), Err("shards/no-model"));
    // Any file may have that name: a TensorFlow checkpoint has its data next to it.
    std::fs::write(dir.path().join("words.index"), "no checkpoint").unwrap();
    assert_eq!(fails(), Err("shards/no-model"));
    assert!(!holdall_io::is_model_folder(dir.path()));
    write(&dir.path().join("one.safetensors"), &[("a", 4, 1.0)], &[]);
    assert_eq!(fails(), Ok(1));
    write(&dir.path().join("two.zt"), &[("a", 4, 1.0), ("b", 1, 0.0)], &[]);
    assert_eq!(fails(), Err("shards/no-model"));
    // A model in several precisions has an index for each: the plain one is used.
    model(dir.path(), MAP);
    std::fs::write(dir.path().join("model.fp16.safetensors.index.json"), "{}").unwrap();
    assert_eq!(fails(), Ok(3));
}

#[test]
fn parts_of_a_gguf_file_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let name = |no: u32| dir.path().join(format!("m-{no:05}-of-00003.gguf"));
    let int = |n: u32| Value::Integer(n.into());
    let part = |no: u32, tensors: &[(&str, u64, f32)], total: u32| {
        let split = [
            ("split.no", int(no)),
            ("split.count", int(3)),
            ("split.tensors.count", int(total)),
            ("general.architecture", Value::Text("llama".into())),
        ];
        write(&name(no + 1), tensors, &split[..if no == 0 { 4 } else { 3 }]);
    };
    part(0, &[], 3);
    part(1, &[("a", 4, 1.0), ("b", 2, 2.0)], 3);
    let e = holdall::open(name(1)).unwrap_err();
    assert_eq!(e.code(), "shards/missing");
    part(2, &[("c", 3, 3.0)], 3);
    for path in [name(1), dir.path().to_owned()] {
        let file = holdall::open(path).unwrap();
        assert_eq!((file.len(), values(&file, "c")), (3, vec![3.0; 3]));
        assert!(file.index().attributes().get("general.architecture").is_some());
    }
    assert_eq!(holdall::open(name(2)).unwrap().len(), 2, "a later part is itself");
    part(0, &[], 4);
    assert_eq!(holdall::open(name(1)).unwrap_err().code(), "shards/split");
    part(0, &[], 3);
    std::fs::copy(name(2), name(3)).unwrap();
    assert_eq!(holdall::open(name(1)).unwrap_err().code(), "shards/split");
    let other = dir.path().join("renamed.gguf");
    std::fs::rename(name(1), &other).unwrap();
    assert_eq!(holdall::open(other).unwrap_err().code(), "shards/split");
}

/// Converts into a folder, and opens the result.
fn split(
    file: &holdall::File,
    folder: &Path,
    most: u64,
    write: WriteOptions,
) -> holdall::Result<(holdall::File, Vec<String>)> {
    let options = Convert::new(write).with_max_shard_len(most);
    let (_, plan) = holdall::convert::plan(file, folder, &options)?;
    let report = convert(file, folder, &options)?;
    assert_eq!(plan.files, report.files);
    let mut there: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut files = report.files.clone();
    files.sort();
    assert_eq!(there, files);
    let len = |name: &String| folder.join(name).metadata().unwrap().len();
    assert_eq!(report.target_len, files.iter().map(len).sum::<u64>());
    let out = holdall::open(folder)?;
    assert_eq!(out.warnings(), []);
    assert!(verify(&out, &Default::default()).unwrap().is_sound());
    assert!(holdall::diff(file, &out, &Default::default()).unwrap().changed.is_empty());
    Ok((out, report.files))
}

/// Divided like `split_torch_state_dict_into_shards` of `huggingface_hub`: a tensor that is too large goes
/// before the file that is being filled.
#[test]
fn a_model_is_written_in_several_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.zt");
    let tensors = [("a", 4, 1.0), ("é", 2, 2.0), ("big", 11, 3.0), ("c", 4, 4.0), ("d\"", 1, 5.0)];
    write(&path, &tensors, &[("format", Value::Text("pt".into()))]);
    let file = holdall::open(&path).unwrap();
    let out = dir.path().join("out");
    let (model, files) = split(&file, &out, 40, WriteOptions::new()).unwrap();
    let names = |no: u32| format!("model-{no:05}-of-00003.safetensors");
    assert_eq!(files, [names(1), names(2), names(3), "model.safetensors.index.json".to_owned()]);
    let text = std::fs::read_to_string(out.join(&files[3])).unwrap();
    let expected = r#"{
  "metadata": {
    "total_size": 88
  },
  "weight_map": {
    "a": "model-00002-of-00003.safetensors",
    "big": "model-00001-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "d\"": "model-00003-of-00003.safetensors",
    "\u00e9": "model-00002-of-00003.safetensors"
  }
}
"#;
    assert_eq!(text, expected);
    assert_eq!(model.attributes().get("format"), Some(&Value::Text("pt".into())));
    for name in &files[..3] {
        let one = holdall::open(out.join(name)).unwrap();
        assert_eq!(one.attributes().get("format"), Some(&Value::Text("pt".into())), "{name}");
    }
    // An existing folder stays, unless it is to be replaced as a whole.
    let e = split(&file, &out, 40, WriteOptions::new()).unwrap_err();
    assert_eq!(e.code(), "shards/target");
    let (_, files) = split(&file, &out, 1 << 20, WriteOptions::new().with_overwrite(true)).unwrap();
    assert_eq!(files, ["model.safetensors"]);
    let inside = holdall::open(&out).unwrap();
    let e = split(&inside, &out, 40, WriteOptions::new().with_overwrite(true)).unwrap_err();
    assert_eq!(e.code(), "shards/target");
    // Each in its own file.
    let (_, files) = split(&file, &dir.path().join("each"), 1, WriteOptions::new()).unwrap();
    assert_eq!(files.len(), 6);
    let e = split(&file, &dir.path().join("x.zt"), 1, WriteOptions::new()).unwrap_err();
    assert_eq!(e.code(), "shards/format");
    let options = Convert::new(WriteOptions::new()).with_max_shard_len(1);
    let e = holdall::convert_to(&file, Vec::new(), &options).unwrap_err();
    assert_eq!(e.code(), "shards/target");
    assert!(!dir.path().join("x.zt").exists());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 3, "nothing is left of what failed");
}

#[test]
fn tied_tensors_follow_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.zt");
    let tensors = [("embed", 8, 1.0), ("w", 8, 2.0), ("v", 8, 3.0), ("head", 8, 1.0)];
    write(&path, &tensors, &[]);
    let tied = dir.path().join("tied.zt");
    let options = Convert::new(WriteOptions::new()).with_sharing(holdall::Sharing::Dedupe);
    convert(&holdall::open(&path).unwrap(), &tied, &options).unwrap();
    let file = holdall::open(&tied).unwrap();
    let out = dir.path().join("out");
    let (model, files) = split(&file, &out, 64, WriteOptions::new()).unwrap();
    assert_eq!(files.len(), 3);
    let index = std::fs::read_to_string(out.join(&files[2])).unwrap();
    assert!(index.contains("\"total_size\": 96"), "{index}");
    let first = holdall::open(out.join(&files[0])).unwrap();
    let mut names: Vec<_> = first.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["embed", "head", "w"]);
    assert_eq!(values(&model, "head"), [1.0; 8]);
    // If they cannot be tied, each has its own bytes.
    let gguf = holdall::formats::by_name("gguf").unwrap();
    let out = dir.path().join("parts");
    let (_, files) = split(&file, &out, 64, WriteOptions::new().with_format(gguf)).unwrap();
    assert_eq!(files.len(), 2);
}

#[test]
fn a_gguf_model_is_written_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.gguf");
    let tensors = [("a", 64, 1.0), ("b", 32, 2.0), ("c", 32, 3.0)];
    write(&path, &tensors, &[("general.architecture", Value::Text("llama".into()))]);
    let file = holdall::open(&path).unwrap();
    let format = holdall::formats::by_name("gguf").unwrap();
    let write = || WriteOptions::new().with_format(format);
    let out = dir.path().join("out");
    let (model, files) = split(&file, &out, 256, write()).unwrap();
    assert_eq!(files, ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"]);
    assert_eq!(model.attributes(), file.attributes(), "together they are not parts");
    let second = holdall::open(out.join(&files[1])).unwrap();
    let keys: Vec<_> = second.attributes().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["split.no", "split.count", "split.tensors.count", "holdall.gguf.types"]);
    assert_eq!(second.attributes().get("split.tensors.count"), Some(&Value::Integer(3.into())));
    let types = second.attributes().get("holdall.gguf.types").unwrap().to_json();
    assert_eq!(types, r#"{"split.no":"u16","split.count":"u16","split.tensors.count":"i32"}"#);
    // As one file again, it equals the original.
    let one = dir.path().join("one.gguf");
    convert(&model, &one, &Convert::new(WriteOptions::new())).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&path).unwrap());
    let (_, files) = split(&model, &dir.path().join("all"), 1 << 20, write()).unwrap();
    assert_eq!(files, ["model.gguf"]);
}

/// By number of tensors, alone and with a limit on bytes, as safetensors and as parts of GGUF.
#[test]
fn shards_have_a_maximum_number_of_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.zt");
    let tensors = [("a", 4, 1.0), ("b", 4, 2.0), ("c", 4, 3.0), ("d", 64, 4.0), ("e", 4, 5.0)];
    write(&path, &tensors, &[]);
    let file = holdall::open(&path).unwrap();
    for (format, most, len, counts) in [
        ("safetensors", 2, None, vec![2, 2, 1]),
        ("gguf", 2, None, vec![2, 2, 1]),
        ("gguf", 3, Some(48), vec![1, 3, 1]),
        ("gguf", 2, Some(16), vec![1, 1, 1, 1, 1]),
        ("gguf", 1, None, vec![1; 5]),
        ("safetensors", 5, None, vec![5]),
        ("gguf", u64::MAX, None, vec![5]),
        // With a limit of 0, each tensor has a file of its own.
        ("gguf", 0, None, vec![1; 5]),
    ] {
        let of = holdall::formats::by_name(format).unwrap();
        let write = WriteOptions::new().with_format(of).with_overwrite(true);
        let mut options = Convert::new(write).with_max_shard_tensors(most);
        if let Some(len) = len {
            options = options.with_max_shard_len(len);
        }
        let out = dir.path().join("out");
        let report = convert(&file, &out, &options).unwrap();
        let files = report.files.iter().filter(|name| !name.ends_with(".json"));
        // A part of GGUF would be opened with the others: its header states how many tensors it has itself.
        let found = files.map(|name| match format {
            "gguf" => std::fs::read(out.join(name)).unwrap()[8].into(),
            _ => holdall::open(out.join(name)).unwrap().len(),
        });
        let found: Vec<_> = found.collect();
        // A larger tensor comes before the file that is being filled.
        assert_eq!(found, counts, "{format}, {most} tensors, {len:?} bytes");
        let model = holdall::open(&out).unwrap();
        assert!(holdall::diff(&file, &model, &Default::default()).unwrap().changed.is_empty());
        assert_eq!(model.len(), 5);
    }
    let options = Convert::new(WriteOptions::new()).with_max_shard_tensors(2);
    let e = holdall::convert_to(&file, Vec::new(), &options).unwrap_err();
    assert_eq!(e.code(), "shards/target");
    // Tensors that share their bytes are together, and counted.
    let tied = dir.path().join("tied.zt");
    write_tied(&dir.path().join("pairs.zt"), &tied);
    let report = convert(&holdall::open(&tied).unwrap(), dir.path().join("of-pairs"), &options);
    let report = report.unwrap();
    assert_eq!(report.files.len(), 3, "{:?}", report.files);
}

/// Writes two pairs of tensors, each tied.
fn write_tied(plain: &Path, path: &Path) {
    write(plain, &[("a", 4, 1.0), ("b", 4, 2.0), ("c", 4, 1.0), ("d", 4, 2.0)], &[]);
    let options = Convert::new(WriteOptions::new()).with_sharing(holdall::Sharing::Dedupe);
    convert(&holdall::open(plain).unwrap(), path, &options).unwrap();
}

/// The output of `save_pretrained(safe_serialization=False)`: pickles, old or new, and an index.
#[test]
fn pickles_with_an_index_are_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let accepted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/pytorch");
    let shards = [
        ("pytorch_model-00001-of-00003.bin", "torch_state.pt"),
        ("pytorch_model-00002-of-00003.bin", "torch_state-legacy.pt"),
        ("pytorch_model-00003-of-00003.bin", ""),
    ];
    let mut map = Vec::new();
    for (shard, from) in shards {
        let path = dir.path().join(shard);
        match from {
            "" => write(&dir.path().join("own.pt"), &[("own", 3, 4.0)], &[]),
            from => drop(std::fs::copy(accepted.join(from), &path).unwrap()),
        }
        if from.is_empty() {
            std::fs::rename(dir.path().join("own.pt"), &path).unwrap();
        }
        let file = holdall::open(&path).unwrap();
        // Both files have some names in common, and the index assigns each name to one of them.
        let takes = |name: &&str| match from {
            "torch_state.pt" => !name.contains('t') || name.starts_with("d."),
            "torch_state-legacy.pt" => name.contains('t') && !name.starts_with("d."),
            _ => true,
        };
        map.extend(file.names().filter(takes).map(|name| format!("\"{name}\": \"{shard}\"")));
    }
    let name = dir.path().join("pytorch_model.bin.index.json");
    std::fs::write(&name, format!("{{\"weight_map\": {{{}}}}}", map.join(", "))).unwrap();
    for path in [dir.path(), &name] {
        let file = holdall::open(path).unwrap();
        assert_eq!((file.format(), file.len()), ("pytorch", map.len()));
        assert_eq!(values(&file, "own"), [4.0; 3]);
        assert!(verify(&file, &Default::default()).unwrap().is_sound());
        let alone = holdall::open(dir.path().join(shards[0].0)).unwrap();
        let rows = |file: &holdall::File| {
            let all = file.tensors().filter(|t| alone.index().get(t.info().name()).is_some());
            all.map(|t| (t.info().name().to_owned(), t.bytes(&holdall::Role::Data).unwrap()))
                .collect::<Vec<_>>()
        };
        let (mut all, mut wanted) = (rows(&file), rows(&alone));
        all.sort();
        wanted.sort();
        assert_eq!(all, wanted);
    }
    // If there are tensor files that are not pickles, the model consists of those.
    write(&dir.path().join("model.safetensors"), &[("a", 4, 1.0)], &[]);
    let file = holdall::open(dir.path()).unwrap();
    assert_eq!((file.format(), file.len()), ("safetensors", 1));
}

/// Weights that Keras 3.15 wrote into several files equal those in one file: `interop/others/keras_files.py`.
#[test]
fn weights_of_keras_in_several_files_are_one_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keras");
    let whole = holdall::open(folder.join("whole.weights.h5")).unwrap();
    let parts = holdall::open(folder.join("parts.weights.json")).unwrap();
    let found = holdall::diff(&whole, &parts, &Default::default()).unwrap();
    assert!(found.is_same(), "{found:?}");
    assert!(parts.warnings().is_empty(), "{:?}", parts.warnings());
    assert_eq!(parts.all_sources().len(), 3);
    let attribute = |file: &holdall::File, key: &str| file.index().attributes().get(key).cloned();
    let name = "layers/dense_2/vars/name";
    assert!(attribute(&parts, name).is_some());
    assert_eq!(attribute(&parts, name), attribute(&whole, name));

    // Opened as the model of a folder; with a single name instead of a list of files, as older versions write it;
    // with mismatches.
    let dir = tempfile::tempdir().unwrap();
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name();
        if name.to_str().unwrap().starts_with("parts") {
            std::fs::copy(entry.path(), dir.path().join(name)).unwrap();
        }
    }
    assert_eq!(holdall::open(dir.path()).unwrap().len(), parts.len());
    let index = dir.path().join("parts.weights.json");
    let text = std::fs::read_to_string(&index).unwrap();
    let open = |from: &str, to: &str| {
        assert!(text.contains(from));
        std::fs::write(&index, text.replacen(from, to, 1)).unwrap();
        holdall::open(&index)
    };
    let first = r#"[
            "parts_00000.weights.h5"
        ]"#;
    assert_eq!(open(first, r#""parts_00000.weights.h5""#).unwrap().len(), parts.len());
    assert_eq!(open("/layers/dense_1/vars", "/x/vars").unwrap_err().code(), "shards/tensor");
    assert_eq!(open("\"parts_00001", "\"../parts_00001").unwrap_err().code(), "shards/outside");
    let file = open("24176.0", "24000.0").unwrap();
    assert_eq!(file.warnings()[0].code, "shards/total-size");
}
