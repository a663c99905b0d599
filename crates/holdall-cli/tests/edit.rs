//! `edit`: each action, and files that stay intact when it fails.

use crate::command::{self, accept, holdall, holdall_with};
use serde_json::{Value as Json, json};

struct Edited {
    dir: tempfile::TempDir,
    path: String,
}

impl Edited {
    /// Copies a file of the corpus.
    fn new(name: &str) -> Edited {
        let dir = tempfile::tempdir().unwrap();
        let source = accept(name);
        let extension = source.rsplit('.').next().unwrap();
        let path = dir.path().join(format!("copy.{extension}")).to_str().unwrap().to_owned();
        std::fs::write(&path, std::fs::read(source).unwrap()).unwrap();
        Edited { dir, path }
    }

    fn edit(&self, args: &[&str]) -> command::Ran {
        holdall([&["edit", &self.path], args].concat())
    }

    fn inspect(&self) -> Json {
        holdall(["verify", &self.path]).ends_with(0);
        holdall(["inspect", "--json", "--digests", &self.path]).ends_with(0).json()
    }

    fn names(&self) -> Vec<String> {
        let all = self.inspect();
        let names = all["tensors"].as_array().unwrap().iter();
        names.map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }

    fn tensor(&self, name: &str) -> Json {
        let all = self.inspect();
        let mut tensors = all["tensors"].as_array().unwrap().iter();
        tensors.find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    }
}

#[test]
fn tensors_come_go_and_change_their_names() {
    for name in ["ztensor/v1.2-dense_all.zt", "safetensors/st_dense_all.safetensors"] {
        let file = Edited::new(name);
        let before = file.names().len();
        let first = file.names()[0].clone();
        let sha = file.tensor(&first)["components"]["data"]["sha256"].clone();

        file.edit(&["rename", &format!("{first}=renamed")]).ends_with(0);
        assert_eq!(file.tensor("renamed")["components"]["data"]["sha256"], sha);
        file.edit(&["remove", "t_i*"]).ends_with(0);
        let removed = before - file.names().len();
        assert!(removed >= 4, "{:?}", file.names());
        let other = accept("safetensors/st_fp8.safetensors");
        file.edit(&["append", &other, "--rename", "t_*=fp8/*", "-s", "*e4m3*"]).ends_with(0);
        assert_eq!(file.tensor("fp8/float8_e4m3fn")["components"]["data"]["decoded_len"], 256);
        // A name that is in use is refused, except with `--force`.
        let args = ["append", &other, "--rename", "t_*=fp8/*"];
        assert!(file.edit(&args).ends_with(2).err.contains("[edit/cannot]"));
        file.edit(&[&args[..], &["--replace"]].concat()).ends_with(0);
        assert_eq!(file.names().len(), before - removed + 5);
    }
}

#[test]
fn names_may_go_round_in_a_circle() {
    let file = Edited::new("ztensor/v1.2-dense_all.zt");
    let sha = |name: &str| file.tensor(name)["components"]["data"]["sha256"].clone();
    let (f32, f64) = (sha("t_f32"), sha("t_f64"));
    file.edit(&["rename", "t_f32=t_f64", "t_f64=t_f32"]).ends_with(0);
    assert_eq!((sha("t_f64"), sha("t_f32")), (f32, f64));
    let error = file.edit(&["rename", "nothing=x", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "select/nothing");
}

#[test]
fn elements_come_from_npy_files_raw_files_and_pipes() {
    let file = Edited::new("ztensor/v1.2-dense_all.zt");
    let npy = file.dir.path().join("t.npy");
    let npy = npy.to_str().unwrap();
    holdall(["extract", &file.path, "t_f64", "-o", npy]).ends_with(0);
    file.edit(&["add", "a", "--from", npy, "--encoding", "zstd", "--digest", "sha256"])
        .ends_with(0);
    let (a, original) = (file.tensor("a"), file.tensor("t_f64"));
    assert_eq!(a["shape"], original["shape"]);
    let c = &a["components"]["data"];
    assert_eq!(c["sha256"], original["components"]["data"]["sha256"]);
    assert_eq!(c["encoding"], "zstd");
    assert!(c["digest"].as_str().unwrap().starts_with("sha256:"));

    let from_pipe = |args: &[&str]| {
        let all = [&["edit", &file.path], args, &["--from", "-"]].concat();
        holdall_with(all, b"\x01\x02\x03\x04\x05\x06")
    };
    from_pipe(&["add", "b", "--dtype", "f8_e5m2", "--shape", "2,3"]).ends_with(0);
    let b = file.tensor("b");
    assert_eq!(
        (&b["shape"], &b["components"]["data"]["logical_type"]),
        (&json!([2, 3]), &json!("f8_e5m2"))
    );
    file.edit(&["set", "why=because", "--tensor", "b"]).ends_with(0);
    // Type, shape and attributes of the replaced tensor are kept.
    from_pipe(&["replace", "b"]).ends_with(0);
    assert_eq!(file.tensor("b")["attributes"], json!({"why": "because"}));
    assert_eq!(file.tensor("b")["components"]["data"]["logical_type"], "f8_e5m2");

    let before = std::fs::read(&file.path).unwrap();
    for (args, status, code) in [
        (&["add", "c"][..], 2, "usage/arguments"),
        (&["add", "c", "--dtype", "u8"], 2, "usage/arguments"),
        (&["add", "c", "--dtype", "u8", "--shape", "7"], 2, "input/length"),
        (
            &["add", "c", "--dtype", "u16", "--shape", "4294967296,4294967296,2"],
            2,
            "usage/arguments",
        ),
        (&["add", "b", "--dtype", "u8", "--shape", "6"], 2, "edit/cannot"),
        (&["replace", "t_f32"], 2, "input/length"),
        (&["replace", "nothing"], 2, "file/no-tensor"),
    ] {
        let found = from_pipe(&[args, &["--json"]].concat()).ends_with(status);
        assert_eq!(found.error()["code"], code, "{args:?}");
    }
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
}

#[test]
fn attributes_of_every_type() {
    let file = Edited::new("ztensor/v1.2-append.zt");
    file.edit(&["set", "text=1=2", "other= x"]).ends_with(0);
    file.edit(&["set", "n=-5", "--type", "int"]).ends_with(0);
    file.edit(&["set", "x=0.5", "--type", "float"]).ends_with(0);
    file.edit(&["set", "yes=true", "--type", "bool"]).ends_with(0);
    file.edit(&["set", "b=00ff", "--type", "bytes"]).ends_with(0);
    file.edit(&["set", r#"j={"a":[1,null]}"#, "--type", "json"]).ends_with(0);
    file.edit(&["unset", "a", "other"]).ends_with(0);
    let from = tempfile::NamedTempFile::new().unwrap();
    let at = |key: &str| format!("{key}=@{}", from.path().display());
    std::fs::write(from.path(), "{{ template }}\n").unwrap();
    file.edit(&["set", &at("template"), "name=@@me"]).ends_with(0);
    let attributes = file.inspect()["attributes"].clone();
    assert_eq!(
        (&attributes["template"], &attributes["name"]),
        (&json!("{{ template }}\n"), &json!("@me"))
    );
    std::fs::write(from.path(), "12\n").unwrap();
    file.edit(&["set", &at("template"), "--type", "int"]).ends_with(0);
    assert_eq!(file.inspect()["attributes"]["template"], 12);
    std::fs::write(from.path(), [0, 255]).unwrap();
    file.edit(&["set", &at("template")]).ends_with(2);
    file.edit(&["set", &at("template"), "--type", "bytes"]).ends_with(0);
    assert_eq!(file.inspect()["attributes"]["template"], json!({"$bytes": "00ff"}));
    file.edit(&["set", "template=@nowhere/to/be"]).ends_with(3);
    file.edit(&["unset", "template", "name"]).ends_with(0);
    let expected = json!({
        "text": "1=2", "n": -5, "x": 0.5, "yes": true, "b": {"$bytes": "00ff"},
        "j": {"a": [1, null]},
    });
    assert_eq!(file.inspect()["attributes"], expected);
    // Existing values keep their type.
    file.edit(&["set", "text=7", "n=7", "x=7", "yes=false", "b=07", r#"j=[7]"#]).ends_with(0);
    let expected = json!({
        "text": "7", "n": 7, "x": 7.0, "yes": false, "b": {"$bytes": "07"}, "j": [7],
    });
    assert_eq!(file.inspect()["attributes"], expected);
    let found = file.edit(&["set", "n=seven"]).ends_with(2);
    assert!(
        found.err.contains("hint: the attribute `n` has that type; `--type` changes it"),
        "{found:?}"
    );
    let found = file.edit(&["unset", "texts"]).ends_with(2);
    assert!(found.err.contains("hint: did you mean `text`?"), "{found:?}");
    file.edit(&["set", "k=v", "--tensor", "second"]).ends_with(0);
    assert_eq!(file.tensor("second")["attributes"], json!({"k": "v"}));
    file.edit(&["unset", "k", "--tensor", "second"]).ends_with(0);
    assert_eq!(file.tensor("second")["attributes"], json!({}));
    file.edit(&["unset", "nothing"]).ends_with(2);
    file.edit(&["set", "n=x", "--type", "int"]).ends_with(2);
    file.edit(&["set", "k=v", "--tensor", "secnd"]).ends_with(2);
}

#[test]
fn the_report_lists_all_changes() {
    let file = Edited::new("ztensor/v1.2-append.zt");
    let found = file.edit(&["remove", "third_csr", "--json"]).ends_with(0).json();
    assert_eq!(found["source"], file.path);
    assert!(found["in_place"].is_boolean() && found["written"].is_u64());
    assert_eq!(found["len"], std::fs::metadata(&file.path).unwrap().len());
    let found = file.edit(&["compact"]).ends_with(0);
    assert!(found.err.contains("compacted; the file was rewritten"), "{found:?}");
    let found = file.edit(&["compact", "--quiet"]).ends_with(0);
    assert_eq!((found.out.as_str(), found.err.as_str()), ("", ""));
    holdall(["edit", "-", "compact"]).ends_with(2);
}

#[test]
fn names_and_attributes_are_refused_in_words() {
    let file = Edited::new("ztensor/v1.2-dense_all.zt");
    let before = std::fs::read(&file.path).unwrap();
    let names = file.names();
    let refused = |args: &[&str], code: &str| {
        let error = file.edit(&[args, &["--json"]].concat()).ends_with(2).error();
        assert_eq!(error["code"], code, "{args:?}: {error}");
        error["message"].as_str().unwrap().to_owned()
    };
    let message = refused(&["unset", "nothing"], "edit/no-attribute");
    assert_eq!(message, "there is no attribute `nothing`");
    refused(&["unset", "nothing", "--tensor", "t_f32"], "edit/no-attribute");
    let message = refused(&["rename", "*=y"], "write/same-name");
    assert_eq!(message, format!("the rules rename both `{}` and `{}` to `y`", names[0], names[1]));
    let message = refused(&["rename", "t_f32=t_f64"], "write/same-name");
    assert_eq!(message, "the rules rename `t_f32` to `t_f64`, which is the name of another tensor");
    let message = refused(&["set", "a=1", "b=2", "a=2"], "usage/arguments");
    assert_eq!(message, "attribute `a` is given twice");
    refused(&["unset", "a", "a"], "usage/arguments");
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
}

#[test]
fn limits_and_ways_of_reading_are_those_asked_for() {
    let file = Edited::new("ztensor/v1.2-dense_all.zt");
    for action in [&["set", "a=1"][..], &["compact"]] {
        let found = file.edit(&[action, &["--limit", "tensors=1"]].concat()).ends_with(4);
        assert!(found.err.contains("tensors"), "{found:?}");
        let found = file.edit(&[action, &["--io", "map"]].concat()).ends_with(2);
        assert!(found.err.contains("hint: omit `--io`"), "{found:?}");
        file.edit(&[action, &["--io", "direct"]].concat()).ends_with(0);
    }
}

#[test]
fn unsupported_tensors_are_refused_with_advice_for_an_edit() {
    let file = Edited::new("ztensor/v1.0-dense_all.zt");
    let before = std::fs::read(&file.path).unwrap();
    let tensor = file.names()[0].clone();
    for args in [
        &["set", "k=v", "--tensor", &tensor][..],
        &["append", &accept("ztensor/v1.2-quantized.zt")],
    ] {
        let error = file.edit(&[args, &["--json"]].concat()).ends_with(4).error();
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("convert the file first"), "{args:?}: {error}");
        assert!(!hint.contains("--drop-attributes") && !hint.contains("--dense"), "{error}");
    }
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
    // Following the hint helps.
    let new = file.dir.path().join("new.zt").to_str().unwrap().to_owned();
    holdall(["convert", &file.path, &new]).ends_with(0);
    holdall(["edit", &new, "set", r#"k={"a":1}"#, "--type", "json"]).ends_with(0);
}

#[test]
fn numbers_without_room_and_keys_without_a_letter_are_refused() {
    let file = Edited::new("ztensor/v1.2-append.zt");
    for args in [
        &["set", "a=1e400", "--type", "float"][..],
        &["set", "a=-1e400", "--type", "float"],
        &["set", "=2"],
        &["set", "=2", "--tensor", "second"],
    ] {
        let error = file.edit(&[args, &["--json"]].concat()).ends_with(2).error();
        assert_eq!(error["code"], "usage/arguments", "{args:?}");
    }
    file.edit(&["set", "a=inf", "--type", "float"]).ends_with(0);
    file.edit(&["set", "b=nan", "--type", "float"]).ends_with(0);
    let all = file.inspect()["attributes"].clone();
    assert_eq!((&all["a"], &all["b"]), (&json!({"$float": "inf"}), &json!({"$float": "nan"})));
}

#[test]
fn npy_files_of_several_fields_are_unsupported() {
    let file = Edited::new("ztensor/v1.2-append.zt");
    let npy = |descr: &str| {
        let dict = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{dict:117}\n").bytes());
        bytes.extend([0; 8]);
        bytes
    };
    for descr in ["[('a', '<f4'), ('b', '<i4')]", "('<f4', (2,))", "'|V8'", "'|O'"] {
        let args = ["edit", &file.path, "add", "c", "--from", "-", "--json"];
        let error = holdall_with(args, &npy(descr)).ends_with(4).error();
        assert_eq!(error["code"], "npy/dtype", "{descr}: {error}");
        assert_eq!(error["kind"], "unsupported");
    }
    let args = ["edit", &file.path, "add", "c", "--from", "-"];
    holdall_with(args, &npy("'<f8'")).ends_with(0);
}

#[test]
fn a_name_longer_than_a_pattern_may_be_is_itself() {
    let file = Edited::new("ztensor/v1.2-append.zt");
    let long = "n".repeat(20_000);
    let first = file.names()[0].clone();
    file.edit(&["rename", &format!("{first}={long}")]).ends_with(0);
    let listed = holdall(["inspect", &file.path, "--json", "-s", &long]).ends_with(0).json();
    assert_eq!(listed["tensors"].as_array().unwrap().len(), 1);
    file.edit(&["rename", &format!("{long}=short")]).ends_with(0);
    file.edit(&["rename", &format!("short={long}")]).ends_with(0);
    file.edit(&["remove", &long]).ends_with(0);
    assert!(!file.names().contains(&long));
    let pattern = format!("{long}*");
    let error = holdall(["inspect", &file.path, "--json", "-s", &pattern]).ends_with(2).error();
    assert_eq!(error["code"], "select/pattern");
}

#[test]
fn attributes_that_a_tensor_is_read_with_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.zt").to_str().unwrap().to_owned();
    std::fs::copy(accept("../../examples/tiny.zt"), &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    for key in ["bits", "group_size"] {
        let tensor = ["--tensor", "experts.gate.weight", "--json"];
        let error =
            holdall([&["edit", &path, "unset", key][..], &tensor].concat()).ends_with(2).error();
        assert_eq!(error["code"], "edit/needed-attribute", "{error}");
        assert_eq!(error["tensor"], "experts.gate.weight");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // Attributes can be removed and can change their type.
    let of = ["--tensor", "experts.gate.weight"];
    holdall([&["edit", &path, "unset", "packing"][..], &of].concat()).ends_with(0);
    holdall([&["edit", &path, "set", "group_size=16", "--type", "int"][..], &of].concat())
        .ends_with(0);
    holdall(["verify", &path]).ends_with(0);
}

/// A model in several files is edited in its files, whichever of them is named; files that a killed edit left are
/// removed, but none that the model refers to.
#[test]
fn a_model_in_several_files_is_edited_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    let from = accept("../../examples/tiny.zt");
    let model_of = |to: &str| {
        let _ = std::fs::remove_dir_all(&model);
        let to = ["--to", to, "--max-shard-size", "4KB", "--dense"];
        holdall([&["convert", &from, model.to_str().unwrap()], &to[..]].concat()).ends_with(0);
    };
    for (to, entry) in [("safetensors", "model.safetensors.index.json"), ("ztensor2", "model.zt")] {
        model_of(to);
        let names = || {
            let all = model.read_dir().unwrap().map(|e| e.unwrap().file_name());
            let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
            all.sort();
            all
        };
        let before = names();
        let shards: Vec<&String> = before.iter().filter(|name| name.contains("-of-")).collect();
        assert!(shards.len() > 2, "{before:?}");
        let listed =
            json!(shards.into_iter().map(String::as_str).chain(["stray"]).collect::<Vec<_>>());
        for given in [entry, "."] {
            std::fs::write(model.join("stray"), "").unwrap();
            std::fs::write(model.join(format!(".{entry}.holdall-edit")), listed.to_string())
                .unwrap();
            let args = ["edit", given, "set", "note=x", "--json"];
            let out = command::command(args).current_dir(&model).output().unwrap();
            let ran = command::ran(out).ends_with(0);
            assert_eq!(ran.json()["files"].as_array().unwrap().len(), 1, "{ran:?}");
            assert_eq!(names(), before, "{to}, {given}");
        }
        let found = holdall(["inspect", "--json", model.to_str().unwrap()]).ends_with(0).json();
        assert_eq!(found["attributes"]["note"], "x");
    }
}
