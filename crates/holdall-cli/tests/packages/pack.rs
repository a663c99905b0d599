//! What `pack` makes of models and folders, and what it refuses.

use super::{field, npy, onnx, onnx_with, sound_and_altered, write};
use crate::command::{accept, command, holdall};
use std::path::Path;

#[test]
fn a_model_file_determines_the_runner() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.onnx", onnx(1));
    let made = holdall(["pack", &model, "--name", "M", "--json"]).ends_with(0).json();
    let package = dir.path().join("m.carton");
    let package = package.to_str().unwrap();
    assert_eq!((&made["package"], &made["files"]), (&package.into(), &3.into()));
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    assert_eq!(card["hash"], made["hash"]);
    assert_eq!(card["runner"]["name"], "onnx");
    assert_eq!(card["runner"]["required_framework_version"], ">=1.12, <2");
    assert_eq!(card["inputs"][0]["shape"], serde_json::json!(["n", 2]));
    assert_eq!(card["inputs"][0]["dtype"], "float32");
    let text = holdall(["inspect", package]).ends_with(0).out;
    assert!(text.contains("[n, 2]") && text.contains("model/m.onnx"), "{text}");
    // Element types that packages do not have.
    let model = write(dir.path(), "half.onnx", onnx(10));
    let made = holdall(["pack", &model]).ends_with(0);
    assert!(made.err.contains("float16"), "{made:?}");
    let no = holdall(["pack", &write(dir.path(), "bad.onnx", b"\x08")]).ends_with(1);
    assert!(no.err.contains("protobuf/broken"), "{no:?}");
    let no = holdall(["pack", &write(dir.path(), "w.bin", b"w")]).ends_with(2);
    assert!(no.err.contains("--runner"), "{no:?}");
    holdall(["pack", "no-such-file"]).ends_with(3);
}

#[test]
fn self_tests_and_examples_are_given_by_options() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(dir.path(), "m.onnx", onnx(1));
    let x = write(dir.path(), "x.npy", npy("(3, 2)", 6));
    let png = write(dir.path(), "rose.png", b"\x89PNG\r\n\x1a\n");
    let pack = |out: &str, more: &[&str]| {
        let out = at(out);
        let fixed =
            ["pack", &model, "-o", &out, "--force", "--runner", "noop", "--framework-version", "1"];
        holdall(fixed.into_iter().chain(more.iter().copied()))
    };
    let same = format!("three: x={x} -> x={x}");
    let image = format!("a rose, red: x=[[1, 2]], image={png} -> label=\"red, as \\\"it\\\" is\"");
    let given = ["--self-test", &same, "--self-test", "x=[[0.5, 1]]", "--example", &image];
    pack("a.carton", &given).ends_with(0);
    pack("b.carton", &given).ends_with(0);
    assert!(std::fs::read(at("a.carton")).unwrap() == std::fs::read(at("b.carton")).unwrap());
    let tested = holdall(["test", &at("a.carton"), "--json"]).ends_with(0).json();
    assert_eq!((&tested["passed"], &tested["failed"]), (&2.into(), &0.into()));
    assert_eq!(tested["tests"][0]["name"], "three");
    let card = holdall(["inspect", &at("a.carton"), "--json"]).ends_with(0).json();
    let example = &card["examples"][0];
    assert_eq!(
        (&example["name"], &example["inputs"]["image"]),
        (&"a rose, red".into(), &"@misc/rose.png".into())
    );
    assert_eq!(example["outputs"]["label"], "@tensor_data/example_0.outputs.label");
    // With the declared type.
    let tensor = holdall(["inspect", &at("a.carton"), "-t", "self_test_1.inputs.x", "--json"])
        .ends_with(0)
        .json();
    assert_eq!(tensor["tensors"][0]["components"]["data"]["dtype"], "f32");
    let page = holdall(["inspect", &at("a.carton"), "--html"]).ends_with(0).out;
    assert!(page.contains("data:image/png;base64,iVBORw0KGgo="), "{page}");
    let other = write(&dir.path().join("sub"), "rose.png", "other");
    for (option, value, code) in [
        ("--self-test", "x=none.npy", "io/failed"),
        ("--self-test", "x=none", "input/value"),
        ("--self-test", "x=[[\"a\"]]", "input/value"),
        ("--self-test", "x", "write NAME=FILE"),
        ("--example", &format!("a={png}, b={other}"), "rose.png"),
    ] {
        let refused = pack("c.carton", &[option, value]);
        assert!(refused.err.contains(code) && refused.status != 0, "{value}: {refused:?}");
        assert!(!Path::new(&at("c.carton")).exists());
    }
}

#[test]
fn unpackable_paths_are_misuse() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, _) = sound_and_altered(dir.path());
    let out = dir.path().join("out.carton");
    let pack = |from: &str, version: &str| {
        let to = out.to_str().unwrap();
        holdall(["pack", from, "-o", to, "--runner", "noop", "--framework-version", version])
    };
    assert!(pack(&sound, "=1.0.0").ends_with(2).err.contains("a package already"));
    let model = write(dir.path(), "w.bin", b"w");
    assert!(pack(&model, "abc").ends_with(2).err.contains("--framework-version"));
    pack(&model, "=1.0.0").ends_with(0);
}

/// For a folder without `carton.toml`, the command does not guess, and its error has a hint.
#[test]
fn a_folder_of_model_files_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "files/model.bin", b"weights");
    let folder = dir.path().join("files");
    let folder = folder.to_str().unwrap();
    for command in [
        vec!["inspect", folder],
        vec!["verify", folder],
        vec!["hash", folder],
        vec!["test", folder],
        vec!["run", folder],
    ] {
        let e = holdall([&command[..], &["--json"]].concat()).ends_with(1).error();
        assert_eq!(e["code"], "carton/missing-file", "{command:?}");
        let hint = e["hint"].as_str().unwrap();
        assert!(hint.contains("name the runner: `--runner NAME --framework-version"), "{hint}");
    }
    // Following the hint helps.
    holdall(["pack", folder, "--runner", "noop", "--framework-version", "1"]).ends_with(0);
    holdall(["verify", "--strict", &format!("{folder}.carton")]).ends_with(0);
}

#[test]
fn a_folder_without_a_model_is_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.carton");
    for empty in ["empty", "inner/model", "deep/model/more"] {
        std::fs::create_dir_all(dir.path().join(empty)).unwrap();
        let from = dir.path().join(empty.split('/').next().unwrap());
        let args = ["pack", from.to_str().unwrap(), "-o", to.to_str().unwrap(), "--json"];
        let e = holdall([&args[..], &["--runner", "noop", "--framework-version", "1"]].concat());
        let e = e.ends_with(2).error();
        assert_eq!(e["code"], "package/part", "{e}");
        assert!(e["message"].as_str().unwrap().contains("no model files"), "{e}");
        assert!(!to.exists());
    }
}

/// Texts given as options are read back from the package unchanged.
#[test]
fn packed_folders_pass_strict_verification() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "m.bin", b"weights");
    let odd = "a \"quote\", a \\ and\ttabs\nü\u{7f}";
    let args = ["pack", &model, "--runner", "noop", "--framework-version", "1", "--license", odd];
    let more = ["--platform", odd, "--platform", "", "--name", odd, "--about", odd];
    let packed = holdall([&args[..], &more].concat()).ends_with(0);
    let package = dir.path().join("m.carton");
    let package = package.to_str().unwrap();
    // No platform has such a name, which is reported at once.
    assert!(packed.err.contains("(and 1 more) [carton/platform]"), "{packed:?}");
    let report = holdall(["verify", "--strict", package, "--json"]).ends_with(1).json();
    let found = &report["findings"];
    assert_eq!(
        (&report["finding_count"], &found[0]["code"]),
        (&1.into(), &"carton/platform".into())
    );
    holdall(["verify", package]).ends_with(0);
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    assert_eq!((&card["license"], &card["required_platforms"][0]), (&odd.into(), &odd.into()));
    let more = ["--platform", "aarch64-apple-darwin", "--name", odd, "--about", odd, "--force"];
    let packed = holdall([&args[..], &more].concat()).ends_with(0);
    assert!(!packed.err.contains("warning"), "{packed:?}");
    let unversioned = holdall(["pack", &model, "--runner", "noop"]).ends_with(2);
    assert!(unversioned.err.contains("the versions of `noop`"), "{unversioned:?}");
    holdall(["verify", "--strict", package]).ends_with(0);
}

/// Packages have no boolean type: the booleans of a graph are declared as numbers, which the runner accepts and
/// returns.
#[cfg(feature = "run-onnx")]
#[test]
fn booleans_of_a_graph_are_declared_as_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let value = |name: &[u8]| {
        let dims = [field(1, &field(2, b"n")), field(1, &[0x08, 2])].concat();
        let tensor = [vec![0x08, 9], field(2, &dims)].concat();
        [field(1, name), field(2, &field(1, &tensor))].concat()
    };
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Not")].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &value(b"x")), field(12, &value(b"y"))];
    let model = [vec![0x08, 8], field(7, &graph.concat()), field(8, &[0x10, 17])].concat();
    let packed = holdall(["pack", &write(dir.path(), "not.onnx", model)]).ends_with(0);
    assert_eq!(packed.err, "");
    let package = dir.path().join("not.carton");
    let package = package.to_str().unwrap();
    let card = holdall(["inspect", package, "--json"]).ends_with(0).json();
    for side in ["inputs", "outputs"] {
        assert_eq!(card[side][0]["dtype"], "uint8", "{card}");
    }
    let ran = holdall(["run", package, "-i", "x=[[1, 0], [0, 0]]", "--json"]).ends_with(0);
    assert!(ran.out.replace(' ', "").contains("[[0,1],[1,1]]"), "{}", ran.out);
}

#[test]
fn a_graph_that_the_built_in_engine_cannot_run_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // The operator of a tree, which is not in the standard set.
    let node = [field(4, b"TreeEnsembleClassifier"), field(7, b"ai.onnx.ml")].concat();
    let sound = holdall(["pack", &write(dir.path(), "m.onnx", onnx(1)), "--json"]);
    assert!(!sound.ends_with(0).out.contains("onnx/built-in"));
    let model = write(dir.path(), "trees.onnx", onnx_with(1, &field(1, &node)));
    let packed = holdall(["pack", &model]).ends_with(0);
    for message in ["onnx/built-in", "ai.onnx.ml.TreeEnsembleClassifier", "ONNX Runtime"] {
        assert!(packed.err.contains(message), "{message}: {packed:?}");
    }
    let packed = holdall(["pack", &model, "-f", "--json"]).ends_with(0).json();
    assert_eq!(packed["warnings"][0]["code"], "onnx/built-in");
    // Text, which the engine does not have.
    let model = write(dir.path(), "text.onnx", onnx(8));
    let packed = holdall(["pack", &model, "--json"]).ends_with(0).json();
    assert_eq!(packed["warnings"][0]["code"], "onnx/built-in");
    assert!(packed["warnings"][0]["message"].as_str().unwrap().contains("`x`"), "{packed}");
    // Another runner has other operators.
    let runner = ["--runner", "python", "--framework-version", ">=3.10"];
    let packed = holdall([&["pack", &model, "-f", "--json"][..], &runner].concat()).ends_with(0);
    assert!(!packed.out.contains("onnx/built-in"), "{packed:?}");
}

#[test]
fn a_damaged_model_is_packed_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let sound = std::fs::read(accept("safetensors/st_dense_all.safetensors")).unwrap();
    let half = &sound[..sound.len() / 2];
    let pack = |model: &str| {
        let package = dir.path().join("p.carton").to_str().unwrap().to_owned();
        let version = ["--runner", "noop", "--framework-version", "1"];
        holdall([&["pack", model, "-f", "-o", &package][..], &version].concat()).ends_with(0).err
    };
    let alone = write(dir.path(), "cut.safetensors", half);
    let message = pack(&alone);
    assert!(
        message.contains("package/unread") && message.contains("`cut.safetensors`"),
        "{message}"
    );
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    write(&folder, "model.safetensors", half);
    let message = pack(folder.to_str().unwrap());
    assert!(message.contains("package/unread"), "{message}");
    // An index alone is refused: it is only a part of a model.
    let index = write(
        &folder,
        "model.safetensors.index.json",
        r#"{"weight_map": {"a": "model.safetensors"}}"#,
    );
    let to = dir.path().join("index.carton").to_str().unwrap().to_owned();
    let args =
        ["pack", &index, "-o", &to, "--json", "--runner", "noop", "--framework-version", "1"];
    assert_eq!(holdall(args).error()["code"], "package/part");
    assert!(!Path::new(&to).exists());
    // Neither message appears for a sound file or for a file that is not a tensor file.
    for (name, bytes) in [("sound.safetensors", &sound[..]), ("m.bin2", half)] {
        assert_eq!(pack(&write(dir.path(), name, bytes)), "", "{name}");
    }
}

#[test]
fn a_package_is_not_written_into_the_packed_folder() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), "folder/m.bin", b"weights");
    std::fs::create_dir(dir.path().join("folder/deep")).unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let names = ["folder/o.carton", "folder/deep/o.carton", "folder/../folder/o.carton"];
    #[cfg(unix)]
    let names = {
        std::os::unix::fs::symlink(at("folder"), at("around")).unwrap();
        std::os::unix::fs::symlink(at("folder/o.carton"), at("dangling")).unwrap();
        names.into_iter().chain(["around/o.carton", "dangling"])
    };
    let version = ["--runner", "noop", "--framework-version", "1"];
    let pack = |args: &[&str]| holdall([&["pack"][..], args, &version, &["--json"]].concat());
    for name in names {
        for more in [&[][..], &["-f"]] {
            let to = at(name);
            let e = pack(&[&[&at("folder"), "-o", &to][..], more].concat()).ends_with(2).error();
            assert_eq!(e["code"], "package/output-inside", "{name}");
            assert!(e["hint"].as_str().unwrap().contains("another folder"), "{e}");
        }
    }
    assert!(!Path::new(&at("folder/o.carton")).exists());
    // The single file that is packed is not overwritten either.
    let e = pack(&[&model, "-o", &model, "-f"]).ends_with(2).error();
    assert_eq!(e["code"], "package/output-inside");
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
    // By default, the package is written next to the folder, also if the folder is the current one.
    pack(&[&at("folder")]).ends_with(0);
    pack(&[&at("folder"), "-f"]).ends_with(0);
    pack(&[&at("folder/deep/.."), "-f"]).ends_with(0);
    let mut within = command(["pack", ".", "-f", "--json"]);
    let within = within.args(version).current_dir(at("folder")).output().unwrap();
    assert!(within.status.success(), "{within:?}");
    // A path that merely begins with the folder's name is not inside the folder.
    pack(&[&at("folder"), "-o", &at("folder.more")]).ends_with(0);
}

/// A card may contain only new fields; the rest comes from the graph and from the folder's own `carton.toml`.
#[test]
fn a_card_may_omit_fields_known_from_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let xor = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xor");
    let card = "license = \"MIT\"\n[runner.opts]\nthreads = 2\n[card]\nusage = \"at will\"\n";
    let card = write(dir.path(), "card.toml", card);
    let model = format!("{xor}/model/model.onnx");
    holdall(["pack", &model, "-o", &at("a.carton"), "--from-toml", &card]).ends_with(0);
    let found = holdall(["inspect", &at("a.carton"), "--json"]).ends_with(0).json();
    let package = found.to_string();
    assert!(package.contains("\"MIT\"") && package.contains("at will"), "{package}");
    let bare = holdall(["pack", &model, "-o", &at("b.carton"), "--json"]).ends_with(0);
    assert!(bare.err.is_empty(), "{bare:?}");
    let text = |package: &str| {
        let to = at("unpacked");
        holdall(["unpack", package, "-o", &to, "--force"]).ends_with(0);
        std::fs::read_to_string(format!("{to}/carton.toml")).unwrap()
    };
    let (with, without) = (text(&at("a.carton")), text(&at("b.carton")));
    for line in without.lines().filter(|line| !line.is_empty()) {
        assert!(with.contains(line), "`{line}` is not in\n{with}");
    }
    assert!(with.contains("threads = 2"), "{with}");
    // The card takes precedence over the folder's description.
    holdall(["pack", xor, "-o", &at("c.carton"), "--from-toml", &card]).ends_with(0);
    let own = std::fs::read_to_string(format!("{xor}/carton.toml")).unwrap();
    let again = text(&at("c.carton"));
    assert!(again.contains("[[self_test]]") == own.contains("[[self_test]]"), "{again}");
    assert!(again.contains("license = \"MIT\"\n"), "{again}");
    // The fields of the card must be valid, and the missing ones must come from elsewhere.
    let wrong = write(dir.path(), "wrong.toml", "spec_version = 2\n");
    let error = holdall(["pack", &model, "-o", &at("d.carton"), "--from-toml", &wrong, "--json"]);
    assert_eq!(error.ends_with(4).error()["code"], "carton/version");
    let bin = write(dir.path(), "w.bin", [7; 10]);
    let error = holdall(["pack", &bin, "-o", &at("d.carton"), "--from-toml", &card, "--json"]);
    assert_eq!(error.ends_with(2).error()["code"], "package/runner");
}
