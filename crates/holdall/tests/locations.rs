//! Models in several files are equal in every kind of location, and a part of one is not taken for the whole.

use crate::archives::{member, tar, zip};
use crate::onnx_files;
use holdall::carton::{Package, Recipe};
use holdall::{
    Check, Convert, DType, FORMATS, File, FileRole, Format, Location, OpenOptions, TensorSpec,
    WriteOptions, Writer, convert,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TENSORS: u8 = 5;

/// Writes a file of five tensors.
fn whole(dir: &Path) -> File {
    let path = dir.join("whole.safetensors");
    let mut writer = Writer::create(&path, &WriteOptions::new().with_overwrite(true)).unwrap();
    let specs: Vec<TensorSpec> =
        (0..TENSORS).map(|at| TensorSpec::dense(format!("t.{at}"), DType::F32, [3, 4])).collect();
    writer.declare(&specs).unwrap();
    for (spec, at) in specs.into_iter().zip(0..) {
        writer.add(spec, &[&f32::from(at as u8).to_le_bytes().repeat(12)]).unwrap();
    }
    writer.finish().unwrap();
    holdall::open(path).unwrap()
}

/// Returns the contents of a file: names and values.
fn contents(file: &File) -> Vec<(String, Vec<f32>)> {
    let mut all: Vec<_> = file
        .tensors()
        .map(|t| (t.name().to_owned(), t.dense().unwrap().to_f32().unwrap()))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// A model in several files: its folder, and the names in it by which it can be opened.
struct Model {
    folder: PathBuf,
    entries: Vec<&'static str>,
}

fn by_id(id: &str) -> &'static Format {
    FORMATS.iter().copied().find(|format| format.id == id).unwrap()
}

/// Returns a model of each kind, each with the same tensors.
fn models(dir: &Path) -> Vec<Model> {
    let file = whole(dir);
    let divided = |name: &str, format: &str| {
        let folder = dir.join(name);
        let write = WriteOptions::new().with_format(by_id(format));
        convert(&file, &folder, &Convert::new(write).with_max_shard_len(60)).unwrap();
        folder
    };
    let indexed = divided("indexed", "safetensors");
    let bare = divided("bare", "safetensors");
    std::fs::remove_file(bare.join("model.safetensors.index.json")).unwrap();
    let variant = divided("variant", "safetensors");
    for number in 1..=5 {
        let name = |stem: &str| variant.join(holdall_io::part_name(stem, number, 5, "safetensors"));
        std::fs::rename(name("model"), name("model.fp16")).unwrap();
    }
    let plain = variant.join("model.safetensors.index.json");
    let index = std::fs::read_to_string(&plain).unwrap().replace("\"model-", "\"model.fp16-");
    std::fs::remove_file(plain).unwrap();
    std::fs::write(variant.join("model.safetensors.index.fp16.json"), index).unwrap();
    let onnx = dir.join("onnx");
    std::fs::create_dir_all(onnx.join("data")).unwrap();
    let (mut graph, mut data) = (Vec::new(), Vec::new());
    for at in 0..TENSORS {
        let offset = data.len().to_string();
        let pairs = [("location", "data/weights"), ("offset", &*offset), ("length", "48")];
        graph.push(onnx_files::external(&format!("t.{at}"), &[3, 4], &pairs));
        data.extend(f32::from(at).to_le_bytes().repeat(12));
    }
    std::fs::write(onnx.join("model.onnx"), onnx_files::model(&graph)).unwrap();
    std::fs::write(onnx.join("data/weights"), data).unwrap();
    vec![
        Model { folder: indexed, entries: vec!["", "model.safetensors.index.json"] },
        Model { folder: bare, entries: vec![""] },
        Model { folder: variant, entries: vec!["", "model.safetensors.index.fp16.json"] },
        Model { folder: divided("parts", "gguf"), entries: vec!["", "model-00001-of-00005.gguf"] },
        Model { folder: divided("ztensor", "ztensor2"), entries: vec!["", "model.zt"] },
        Model { folder: onnx, entries: vec!["", "model.onnx"] },
    ]
}

/// Returns the files in and below a folder, by their relative paths.
fn files_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), String::new())]);
    while let Some((folder, prefix)) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            match path.is_dir() {
                true => folders.push((path, format!("{name}/"))),
                false => found.push((name, std::fs::read(path).unwrap())),
            }
        }
    }
    found
}

/// Puts a model into each kind of container; returns the addresses of the folders in these.
fn places(folder: &Path, dir: &Path) -> Vec<String> {
    let files = files_in(folder);
    let in_folder: Vec<(String, &[u8])> =
        files.iter().map(|(name, bytes)| (format!("w/{name}"), &**bytes)).collect();
    let put = |name: &str, bytes: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let of_tar = |all: &[(String, &[u8])]| {
        tar(&all.iter().map(|(n, b)| member(n, b'0', b)).collect::<Vec<_>>())
    };
    let zip_crc32 = |is_packed: bool| {
        let all: Vec<_> = in_folder.iter().map(|(n, b)| (n.as_str(), *b, is_packed)).collect();
        zip(&all)
    };
    let flat: Vec<(String, &[u8])> =
        files.iter().map(|(name, bytes)| (name.clone(), &**bytes)).collect();
    let outer = tar(&[member("in/inner.zip", b'0', &zip_crc32(false))]);
    let mut recipe = Recipe::new();
    (recipe.runner, recipe.framework_version) = (Some("python".into()), Some(">=3.10".into()));
    let package = dir.join("m.carton");
    let unpacked = dir.join("unpacked");
    let _ = std::fs::remove_dir_all(&unpacked);
    // An incomplete model is not packed.
    let packed = recipe.prepare(folder).map(|found| {
        found.packer.write(&package, true).unwrap();
        Package::open(&package).unwrap().unpack(&unpacked).unwrap();
        [format!("{}!/model", package.display()), format!("{}!/model", unpacked.display())]
    });
    let mut all = vec![
        folder.display().to_string(),
        format!("{}!/w", put("m.tar", of_tar(&in_folder))),
        format!("{}!/", put("flat.tar", of_tar(&flat))),
        format!("{}!/w", put("m.zip", zip_crc32(false))),
        format!("{}!/w", put("packed.zip", zip_crc32(true))),
        format!("{}!/in/inner.zip!/w", put("outer.tar", outer)),
    ];
    all.extend(packed.into_iter().flatten());
    all
}

fn joined(folder: &str, name: &str) -> String {
    match (folder.ends_with('/'), name.is_empty()) {
        (_, true) => folder.to_owned(),
        (true, false) => format!("{folder}{name}"),
        (false, false) => format!("{folder}/{name}"),
    }
}

#[test]
fn a_model_is_the_same_in_every_place() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = contents(&whole(dir.path()));
    for Model { folder, entries } in models(dir.path()) {
        let inside = tempfile::tempdir().unwrap();
        let roles = |file: &File| file.files().iter().map(|file| file.role).collect::<Vec<_>>();
        let mut first = None;
        for place in places(&folder, inside.path()) {
            for entry in &entries {
                for check in [Check::Read, Check::All] {
                    let path = joined(&place, entry);
                    let file = OpenOptions::new().with_check(check).open(&path);
                    let file = file.unwrap_or_else(|e| panic!("{path}: {e}"));
                    assert_eq!(contents(&file), wanted, "{path}");
                    assert_eq!(file.warnings(), [], "{path}");
                    let first = first.get_or_insert_with(|| roles(&file));
                    assert_eq!(&roles(&file), first, "{path}");
                    for own in file.files() {
                        // Each file is at the location that the model gives.
                        let again = Location::new(own.location.to_path_buf());
                        assert_eq!(again, own.location, "{path}");
                        let len = own.source.map(|at| file.all_sources()[at].len());
                        let (source, _) = OpenOptions::new().source_at(&own.location).unwrap();
                        assert!(len.is_none_or(|len| len == source.len()), "{path}");
                    }
                }
            }
        }
    }
}

/// Returns the code and the text of an error.
fn refusal(path: impl AsRef<Path>) -> (&'static str, String) {
    let e = holdall::open(path).map(drop).unwrap_err();
    (e.code(), e.to_string())
}

/// If a file of a model is missing, it does not open as if it were whole, and the error names the file.
#[test]
fn a_missing_file_is_named_in_every_place() {
    let dir = tempfile::tempdir().unwrap();
    for Model { folder, entries } in models(dir.path()) {
        let names = files_in(&folder).into_iter().map(|(name, _)| name);
        for missing in names.filter(|name| !entries.contains(&name.as_str())) {
            let copy = tempfile::tempdir().unwrap();
            for (name, bytes) in files_in(&folder).into_iter().filter(|(n, _)| *n != missing) {
                let path = copy.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            let inside = tempfile::tempdir().unwrap();
            for place in places(copy.path(), inside.path()) {
                for entry in &entries {
                    let path = joined(&place, entry);
                    let error_text = match holdall::open(&path) {
                        Err(e) => e.to_string(),
                        // Then tensors with external data are faults.
                        Ok(file) => {
                            let faults: Vec<_> = file.faults().collect();
                            assert!(!faults.is_empty(), "{path} without {missing}");
                            faults[0].to_string()
                        }
                    };
                    let is_named = error_text.contains(&missing) || error_text.contains("shard `");
                    assert!(
                        is_named || error_text.contains("no index that makes them"),
                        "{path}: {error_text}"
                    );
                }
            }
        }
    }
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
}

#[test]
fn a_folder_of_shards_without_an_index_is_one_model() {
    let file = holdall::open(case("noidx")).unwrap();
    assert_eq!((file.len(), file.warnings()), (6, &[][..]));
    let roles: Vec<_> = file.files().iter().map(|file| file.role).collect();
    assert_eq!(roles, [FileRole::Shard(0), FileRole::Shard(1), FileRole::Shard(2)]);
    // A file that is opened by its own name is opened alone, with a warning.
    let shard = case("noidx").join("diffusion_pytorch_model-00002-of-00003.safetensors");
    let file = holdall::open(shard).unwrap();
    let codes: Vec<_> = file.warnings().iter().map(|w| w.code).collect();
    assert_eq!((file.len(), codes), (2, vec!["shards/part"]));
    assert!(file.warnings()[0].to_string().contains("file 2 of 3"));
}

#[test]
fn a_folder_with_several_variants_asks_which() {
    let index = "diffusion_pytorch_model.safetensors.index.fp16.json";
    let (code, message) = refusal(case("var"));
    assert_eq!(code, "shards/variants");
    assert!(message.contains(index), "{message}");
    assert!(message.contains("`diffusion_pytorch_model-00001-of-00003.safetensors`"), "{message}");
    let file = holdall::open(case("var").join(index)).unwrap();
    assert_eq!((file.len(), file.warnings()), (6, &[][..]));
    // A shard that an index names needs no warning.
    let shard = case("var").join("diffusion_pytorch_model.fp16-00001-of-00003.safetensors");
    assert_eq!(holdall::open(shard).unwrap().warnings(), []);
    // Nor do whole files.
    let dir = tempfile::tempdir().unwrap();
    let file = whole(dir.path());
    std::fs::remove_file(dir.path().join("whole.safetensors")).unwrap();
    for name in ["model.safetensors", "model.bf16.safetensors"] {
        convert(&file, dir.path().join(name), &Convert::new(Default::default())).unwrap();
    }
    let (code, message) = refusal(dir.path());
    assert_eq!(code, "shards/variants");
    assert!(
        message.contains("`model.safetensors`") && message.contains("`model.bf16.safetensors`")
    );
}

#[test]
fn missing_and_stale_files_are_reported() {
    let (code, message) = refusal(case("missing"));
    assert_eq!(code, "shards/missing");
    assert!(
        message.contains("1 of 2 files") && message.contains("`model-00002-of-00002.safetensors`")
    );
    let (code, message) = refusal(case("stale"));
    assert_eq!(code, "shards/missing", "{message}");
    assert!(message.contains("the index is of another division"), "{message}");
    let first = case("gguf_part_missing").join("m-00001-of-00003.gguf");
    for path in [case("gguf_part_missing"), first] {
        let (code, message) = refusal(path);
        assert_eq!(code, "shards/missing");
        assert!(message.contains("`m-00002-of-00003.gguf`"), "{message}");
    }
    // The files alone, without the index.
    let name = |no| case("stale").join(holdall_io::part_name("model", no, 2, "safetensors"));
    let file = OpenOptions::new().open_all(&[name(1), name(2)]).unwrap();
    assert_eq!((file.len(), file.files().len()), (4, 2));
    // An index of as many files with another division.
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files_in(&case("stale")).iter().filter(|(name, _)| !name.ends_with("json"))
    {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let index = std::fs::read_to_string(case("missing").join("model.safetensors.index.json"));
    let swapped = index.unwrap().replace("00001-of", "00000-of").replace("00002-of", "00001-of");
    let swapped = swapped.replace("00000-of", "00002-of");
    std::fs::write(dir.path().join("model.safetensors.index.json"), swapped).unwrap();
    let (code, message) = refusal(dir.path());
    assert_eq!(code, "shards/tensor", "{message}");
    assert!(message.contains("the index is of another division"), "{message}");
}

#[test]
fn external_data_in_a_package_is_found() {
    let path = format!("{}!/model/enc.onnx", case("onnx_inside.carton").display());
    let file = holdall::open(path).unwrap();
    let numbers: Vec<f32> = (0..20u8).map(f32::from).collect();
    let all = contents(&file);
    let values = |name: &str| all.iter().find(|(own, _)| own == name).map(|(_, values)| &**values);
    assert_eq!(values("enc.w"), Some(&numbers[..]));
    assert!(values("enc.b").is_some_and(|all| all.iter().all(|x| *x == 1.0)));
}

/// Bytes in memory have no sibling files: a part is recognised as one.
#[test]
fn a_single_shard_is_recognized() {
    let dir = tempfile::tempdir().unwrap();
    let models = models(dir.path());
    let parts = &models.iter().find(|model| model.folder.ends_with("parts")).unwrap().folder;
    for number in [1, 2] {
        let path = parts.join(holdall_io::part_name("model", number, 5, "gguf"));
        let bytes = std::fs::read(&path).unwrap();
        let file = OpenOptions::new().open_bytes(bytes, "some").unwrap();
        let [warning] = file.warnings() else { panic!("{:?}", file.warnings()) };
        assert_eq!(warning.code, "shards/part");
        assert!(warning.to_string().contains(&format!("part {number} of 5")), "{warning}");
        assert_eq!(file.files()[0].location, Location::Bytes("some".into()));
    }
    let second = holdall::open(parts.join("model-00002-of-00005.gguf")).unwrap();
    assert_eq!(second.warnings()[0].code, "shards/part");
}

/// A link out of the folder is refused for every kind of model; caches whose files are all links into one
/// folder can be opened.
#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let wanted = contents(&whole(dir.path()));
    for Model { folder, entries } in models(dir.path()) {
        // `bare` has no file that lists the others: it is opened by its folder.
        let Some(entry) = entries.get(1) else { continue };
        let files = files_in(&folder);
        // As in the hub's cache.
        let cache = TempDir::new().unwrap();
        let (blobs, snapshot) = (cache.path().join("blobs"), cache.path().join("snapshots/1"));
        std::fs::create_dir_all(&blobs).unwrap();
        for (at, (name, bytes)) in files.iter().enumerate() {
            std::fs::write(blobs.join(at.to_string()), bytes).unwrap();
            let link = snapshot.join(name);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            let up = "../".repeat(2 + name.matches('/').count());
            symlink(format!("{up}blobs/{at}"), link).unwrap();
        }
        for path in [snapshot.clone(), snapshot.join(entry)] {
            assert_eq!(contents(&holdall::open(path).unwrap()), wanted);
        }
        // The file that lists the others is in the folder, and one of the others is not.
        let (out, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for (at, (name, bytes)) in files.iter().enumerate() {
            let path = out.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if name == entry {
                std::fs::write(path, bytes).unwrap();
            } else {
                let target = outside.path().join(at.to_string());
                std::fs::write(&target, bytes).unwrap();
                symlink(target, path).unwrap();
            }
        }
        let (code, message) = refusal(out.path().join(entry));
        let codes = ["shards/outside", "onnx-file/location", "ztensor2/shard-name"];
        assert!(codes.contains(&code), "{}: {message}", folder.display());
    }
}
