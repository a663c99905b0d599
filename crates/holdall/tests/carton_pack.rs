//! Writes packages: the same parts give the same bytes, at offsets from which they can be mapped.
#![cfg(feature = "carton")]

use bytes::Bytes;
use holdall::carton::{
    Description, DimSpec, Example, FileContent, Inferred, Packer, Packing, Reference, Runner,
    SelfTest, ShapeSpec, TensorValue, ValueSpec, ValueType,
};
use holdall::{Limits, Window};
use holdall_core::wire::zip::{Directory, Method};
use std::path::Path;
use std::sync::Arc;

fn spec(name: &str, ty: ValueType, shape: ShapeSpec) -> ValueSpec {
    ValueSpec::new(name, ty, shape)
}

fn description() -> Description {
    let mut d = Description::default();
    d.model_name = Some("Doubler".into());
    d.model_description = Some("Doubles.\n\nTwice \"\"\"quoted\"\"\".".into());
    let batch = ShapeSpec::Dims(vec![DimSpec::Symbol("batch".into()), DimSpec::Size(2)]);
    d.inputs = vec![
        spec("x", ValueType::Float32, batch.clone()),
        spec("names", ValueType::String, ShapeSpec::Any),
    ];
    d.outputs = vec![spec("y", ValueType::Float32, batch)];
    let mut test = SelfTest::default();
    test.name = Some("two rows".into());
    test.inputs = vec![("x".into(), "in".into()), ("names".into(), "words".into())];
    test.expected = Some(vec![("y".into(), "out".into())]);
    d.self_tests = vec![test];
    let mut example = Example::default();
    example.inputs = vec![("x".into(), Reference::Misc("in.txt".into()))];
    d.examples = vec![example];
    d.runner = Runner::default();
    d.runner.name = "noop".into();
    d.runner.framework_version = "=1.0.0".into();
    d.runner.compat_version = 1;
    d
}

fn floats(shape: &[u64], all: &[f32]) -> TensorValue {
    let data = all.iter().flat_map(|f| f.to_le_bytes()).collect();
    TensorValue::Numbers { ty: ValueType::Float32, shape: shape.to_vec(), data }
}

fn packer(big: &Bytes) -> Packer {
    Packer::new(description())
        .with_file("model/weights.bin", FileContent::Bytes(big.clone()))
        .with_file("model/a/empty", FileContent::Bytes(Bytes::new()))
        .with_file("misc/in.txt", FileContent::Bytes(Bytes::from_static(b"hello\n")))
        .with_tensor("in", floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
        .with_tensor("out", floats(&[2, 2], &[2.0, 4.0, 6.0, 8.0]))
        .with_tensor(
            "words",
            TensorValue::Strings { shape: vec![2], data: vec!["a".into(), "ü\n".into()] },
        )
        .with_tensor("ragged", TensorValue::Nested(vec![floats(&[1], &[1.0]), floats(&[0], &[])]))
}

fn big() -> Bytes {
    (0..9_000_000u32).map(|i| (i.wrapping_mul(i) >> 13) as u8).collect()
}

fn directory(path: &Path) -> (Arc<Directory>, Window) {
    let window = Window::whole(std::fs::read(path).unwrap().into());
    (Directory::read(&window, &Limits::default()).unwrap(), window)
}

#[test]
fn the_same_parts_give_the_same_bytes_at_places_that_can_be_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let big = big();
    let (a, b) = (dir.path().join("a.carton"), dir.path().join("b.carton"));
    let first = packer(&big).write(&a, false).unwrap();
    let second = packer(&big).write(&b, false).unwrap();
    assert_eq!(first, second);
    assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap());
    assert_eq!(first.len, a.metadata().unwrap().len());
    let (directory, window) = directory(&a);
    let names: Vec<&str> = directory.entries().map(|e| e.name()).collect();
    let expected = [
        "carton.toml",
        "misc/in.txt",
        "model/a/empty",
        "model/weights.bin",
        "tensor_data/index.toml",
        "tensor_data/tensor_0.bin",
        "tensor_data/tensor_1.bin",
        "tensor_data/tensor_2.toml",
        "tensor_data/tensor_3.bin",
        "tensor_data/tensor_4.bin",
        "MANIFEST",
    ];
    assert_eq!(names, expected);
    for entry in directory.entries() {
        let place = directory.data(entry, &window).unwrap();
        assert_eq!(place.start % 64, 0, "{}", entry.name());
        assert_eq!(entry.method(), Method::Stored);
        let bytes = window.bytes(place).unwrap();
        assert_eq!(
            holdall_core::codec::crc::Crc32::zip_crc32(&bytes),
            entry.crc32(),
            "{}",
            entry.name()
        );
    }
    // An existing file is not replaced.
    assert_eq!(packer(&big).write(&a, false).unwrap_err().code(), "write/exists");
    packer(&big).write(&a, true).unwrap();
}

#[test]
fn compressed_packages_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let big: Bytes = (0..9_000_000u32).map(|i| (i >> 9) as u8).collect();
    let stored = packer(&big).write(dir.path().join("stored"), false).unwrap();
    for packing in [Packing::Zstd, Packing::Deflate] {
        let to = dir.path().join(format!("{packing:?}"));
        let report = packer(&big).with_packing(packing).write(&to, false).unwrap();
        assert_eq!(report.hash, stored.hash);
        assert!(report.len < 1_000_000, "{packing:?}: {}", report.len);
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("x.carton");
    let refused = |packer: Packer, says: &str| {
        let e = packer.write(&to, false).unwrap_err();
        assert!(matches!(e.code(), "package/part" | "carton/reference"), "{e}");
        assert!(e.message().contains(says), "{e}");
        assert!(!to.exists());
    };
    refused(Packer::new(description()), "refers to tensor `in`");
    let mut bare = description();
    bare.self_tests.clear();
    refused(Packer::new(bare), "refers to `misc/in.txt`, which is not there");
    let all = packer(&Bytes::new());
    refused(all.clone().with_tensor("in", floats(&[], &[1.0])), "two tensors are named `in`");
    refused(all.clone().with_tensor("z", floats(&[2], &[1.0])), "4 bytes do not fit the shape [2]");
    let texts = TensorValue::Strings { shape: vec![], data: vec![] };
    refused(all.clone().with_tensor("z", texts), "0 strings do not fit the shape []");
    let deep = TensorValue::Nested(vec![TensorValue::Nested(vec![])]);
    refused(all.with_tensor("z", deep), "contains a nested tensor");
}

#[test]
fn metadata_of_a_model_file_becomes_the_description() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor/model/model.onnx");
    let found = Inferred::from_file(&model).unwrap();
    assert_eq!(found.undeclared, None);
    let d = found.description;
    assert_eq!((d.runner.name.as_str(), d.inputs.len(), d.outputs.len()), ("onnx", 1, 2));
    assert!(d.runner.framework_version.ends_with(", <2"));

    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("weights.bin");
    std::fs::write(&other, b"x").unwrap();
    assert_eq!(Inferred::from_file(&other).unwrap(), Inferred::default());
    let broken = folder.path().join("broken.ONNX");
    std::fs::write(&broken, b"\xff").unwrap();
    assert!(Inferred::from_file(&broken).is_err());
    let e = Inferred::from_file(folder.path().join("nothing.onnx")).unwrap_err();
    assert_eq!(e.kind(), holdall::ErrorKind::Io);
}

/// Unknown keys of a `carton.toml` are packed with it, also if other values are changed.
#[test]
fn keys_that_are_not_known_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir_all(folder.join("model")).unwrap();
    std::fs::write(folder.join("model/weights"), b"1").unwrap();
    let text = "spec_version = 1\nteam = \"vision\"\nsince = 2024-05-01\nsizes = [1, 2.5, \"a\\\"b\"]\n\
        [runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"=1.0.0\"\n\
        runner_compat_version = 1\nnote = \"here\"\nmore = [{ a = 1 }]\n[tool.ours]\ndeep = { a = true }\n\"odd key\" = {}\n\
        [[input]]\nname = \"x\"\ndtype = \"uint8\"\nshape = []\nunit = \"mm\"\n\
        [[output]]\nname = \"y\"\ndtype = \"uint8\"\nshape = []\nrange = [0, 9]\n\
        [[self_test]]\ninputs = {}\nseed = 3\n[self_test.compare]\nulp = 2\n\
        [[example]]\ninputs = {}\nsample_out = {}\nshown = true\n\
        [lineage]\nparent = \"p\"\n[sbom]\nkind = \"spdx\"\n";
    std::fs::write(folder.join("carton.toml"), text).unwrap();
    let parsed = |text: &[u8]| holdall_core::wire::toml::parse(text, &Limits::default()).unwrap();
    let packed = |recipe: &holdall::carton::Recipe, name: &str| {
        let to = dir.path().join(name);
        recipe.prepare(&folder).unwrap().packer.write(&to, false).unwrap();
        let package = holdall::carton::Package::open(&to).unwrap();
        let text = package.read("carton.toml").unwrap();
        parsed(&text)
    };
    let unchanged_item = packed(&holdall::carton::Recipe::new(), "as-it-is.carton");
    let mut recipe = holdall::carton::Recipe::new();
    recipe.name = Some("Named".into());
    let named = packed(&recipe, "named.carton");
    assert!(recipe.prepare(&folder).unwrap().warnings.is_empty());
    assert_eq!(named["model_name"].as_str(), Some("Named"));
    let tables = ["input", "output", "self_test", "example", "runner", "lineage", "sbom"];
    for key in ["team", "since", "sizes", "tool"].into_iter().chain(tables) {
        assert_eq!(unchanged_item[key], parsed(text.as_bytes())[key], "{key}");
        assert_eq!(named[key], unchanged_item[key], "{key}");
    }
}

/// A model's file is packed with the files that it refers to, or not at all.
#[cfg(all(feature = "onnx", feature = "gguf", feature = "safetensors", feature = "ztensor2"))]
mod named {
    use holdall::carton::{Package, Recipe, SymlinkPolicy};
    use holdall::{Convert, DType, File, TensorSpec, WriteOptions, Writer, convert, formats};
    use std::path::{Path, PathBuf};

    fn recipe() -> Recipe {
        let mut recipe = Recipe::new();
        recipe.runner = Some("python".into());
        recipe.framework_version = Some(">=3.10".into());
        recipe
    }

    fn weights(path: &Path) -> File {
        let mut writer = Writer::create(path, &WriteOptions::new()).unwrap();
        let specs: Vec<TensorSpec> =
            (0..4).map(|i| TensorSpec::dense(format!("w{i}"), DType::F32, [8])).collect();
        writer.declare(&specs).unwrap();
        specs.into_iter().for_each(|spec| writer.add(spec, &[&[7; 32]]).unwrap());
        writer.finish().unwrap();
        holdall::open(path).unwrap()
    }

    /// Returns models in several files, of each kind: the file by which each is opened.
    fn models(dir: &Path) -> Vec<PathBuf> {
        let weights = weights(&dir.join("w.safetensors"));
        let mut all = Vec::new();
        for (format, entry) in [
            ("safetensors", "model.safetensors.index.json"),
            ("gguf", "model-00001-of-00004.gguf"),
            ("ztensor2", "model.zt"),
        ] {
            let write = WriteOptions::new().with_format(formats::by_name(format).unwrap());
            let folder = dir.join(format);
            convert(&weights, &folder, &Convert::new(write).with_max_shard_len(32)).unwrap();
            all.push(folder.join(entry));
        }
        let accepted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/onnx");
        let from = accepted.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut from: Vec<PathBuf> =
            from.filter(|p| p.extension().is_some_and(|e| e == "onnx")).collect();
        from.sort();
        let path = dir.join("onnx").join("model.onnx");
        std::fs::create_dir(dir.join("onnx")).unwrap();
        let external = Convert::new(WriteOptions::new().with_overwrite(true))
            .with_external(holdall::ExternalData::AtLeast(1));
        let has_external = from.iter().any(|from| {
            let file = holdall::open(from).unwrap();
            file.faults().next().is_none()
                && convert(&file, &path, &external).is_ok_and(|report| report.files.len() == 2)
        });
        assert!(has_external, "no model of the corpus has weights");
        all.push(path);
        all
    }

    #[test]
    fn a_model_is_packed_with_the_files_that_it_names() {
        let dir = tempfile::tempdir().unwrap();
        for model in models(dir.path()) {
            let folder = model.parent().unwrap();
            let package = dir.path().join("p.carton");
            recipe().prepare(&model).unwrap().packer.write(&package, true).unwrap();
            let packed = Package::open(&package).unwrap();
            let whole = holdall::open(&model).unwrap();
            assert!(whole.files().len() > 1);
            for file in whole.files() {
                let name = file.location.file_name();
                let inside = packed.read(&format!("model/{name}")).unwrap();
                assert!(inside == std::fs::read(folder.join(name)).unwrap(), "{name}");
            }
            // One file missing, and one in another folder.
            let last = whole.files().last().unwrap().location.clone();
            let last: &Path = last.as_path().unwrap();
            let away = dir.path().join("away");
            std::fs::rename(last, &away).unwrap();
            let e = recipe().prepare(&model).unwrap_err();
            assert_eq!(e.code(), "package/part", "{}: {e}", model.display());
            let e = recipe().prepare(folder).err();
            // The other parts of a split file name their number.
            assert!(e.is_some_and(|e| e.code() == "package/part"), "{}", model.display());
            #[cfg(unix)]
            {
                std::os::unix::fs::symlink(&away, last).unwrap();
                let e = recipe().prepare(&model).unwrap_err();
                assert!(["package/link-out", "package/part"].contains(&e.code()), "{e}");
                // A model whose files are elsewhere does not open, and is not packed through links either.
                let mut follow = recipe();
                follow.symlinks = SymlinkPolicy::All;
                follow.prepare(&model).unwrap_err();
                std::fs::remove_file(last).unwrap();
            }
            std::fs::rename(&away, last).unwrap();
            recipe().prepare(folder).unwrap();
        }
    }
}
