//! Small handmade files that were once handled incorrectly: in the folder `cases`.

use crate::command::{holdall, holdall_with};
use std::path::{Path, PathBuf};

fn case(name: &str) -> String {
    path_of(name).display().to_string()
}

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Returns a temporary folder with a copy of the files of a folder of `cases`.
fn copy_of(folder: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in path_of(folder).read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    dir
}

/// One byte of a component does not match its digest: every way of reading its values fails.
#[test]
fn a_changed_component_is_never_returned() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name).display().to_string();
    for (name, tensor, forms) in [
        (
            "F1_flipped_sha256.zt",
            "w",
            &["--sparse=coo", "--sparse=csr", "--quantize=q8_0", "--dtype=bf16"][..],
        ),
        ("dg_csr_values_crc.zt", "a", &["--sparse=coo", "--dense"][..]),
        ("dg_q_scales_sha.zt", "a", &["--dense"][..]),
    ] {
        let path = case(name);
        for form in [&["--dense", "--force"], forms].concat() {
            let ran = holdall(["convert", &path, &out("o.zt"), form]).ends_with(1);
            assert!(ran.err.contains("[file/digest]"), "{form} {ran:?}");
            assert!(!dir.path().join("o.zt").exists());
        }
        for args in [
            vec!["verify", &path],
            vec!["diff", &path, &path],
            vec!["inspect", "--stats", &path],
            vec!["extract", &path, tensor, "--dense", "-o", &out("x.npy")],
            vec!["extract", &path, tensor, "--format", "raw", "-o", &out("x.raw")],
        ] {
            let ran = holdall(&args);
            assert_ne!(ran.status, 0, "{args:?} {ran:?}");
            assert!(!dir.path().join("x.npy").exists(), "{args:?}");
        }
        assert_ne!(
            holdall_with(["convert", "-", &out("o.zt")], &std::fs::read(&path).unwrap()).status,
            0
        );
    }
}

#[test]
fn a_package_with_other_files_than_it_says_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name).display().to_string();
    let path = case("h_tampered_8.carton");
    for args in [
        vec!["verify", &path],
        vec!["diff", &path, &path],
        vec!["convert", &path, &out("o.zt"), "--drop-attributes"],
        vec!["extract", &path, "p", "-o", &out("p.npy")],
        vec!["inspect", "--stats", &path],
        vec!["unpack", &path, "-o", &out("folder")],
    ] {
        let ran = holdall(&args).ends_with(1);
        let is_named = |rule: &str| ran.err.contains(rule) || ran.out.contains(rule);
        let says = is_named("carton/hash") || is_named("file/digest");
        assert!(says, "{args:?} {ran:?}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn integers_among_fractions_are_exact_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let bigint = std::fs::read_to_string(path_of("bigint2.ndjson")).unwrap();
    for text in [
        &*bigint,
        "{\"a\":18446744073709551615}\n{\"a\":0.5}\n",
        "{\"a\":-9007199254740993}\n{\"a\":null}\n{\"a\":0.5}\n",
        "{\"a\":123456789012345678901234567890}\n{\"a\":5}\n",
        "{\"a\":[9007199254740993,0.5]}\n",
        "{\"a\":{\"b\":9007199254740993}}\n{\"a\":{\"b\":1.5}}\n",
    ] {
        std::fs::write(at("r.ndjson"), text).unwrap();
        holdall(["schema", "infer", &at("r.ndjson"), "-o", &at("s.json"), "--force"]).ends_with(0);
        let args = ["--schema", &at("s.json"), "-o", &at("r.mt"), "--force"];
        let ran = holdall([&["build", "--records", &at("r.ndjson")][..], &args].concat());
        match ran.status {
            0 => {
                let back = holdall(["records", &at("r.mt"), "--json"]).ends_with(0).out;
                assert_eq!(back, text);
            }
            _ => assert!(ran.err.contains("[record/range]"), "{text} {ran:?}"),
        }
        let _ = std::fs::remove_file(at("r.mt"));
    }
}

#[test]
fn rows_of_records_are_records() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("o.npy");
    let out = to.display().to_string();
    let whole = std::fs::read(path_of("names.npy")).unwrap();
    holdall(["extract", &case("names.npy"), "data", "--rows", "0..1", "-o", &out]).ends_with(0);
    let one = std::fs::read(&to).unwrap();
    let text = String::from_utf8_lossy(&one);
    assert!(text.contains("('n', '<U5')") && text.contains("'shape': (1,)"), "{text}");
    // The file ends with two records of 44 bytes.
    assert!(one.ends_with(&whole[whole.len() - 88..whole.len() - 44]));
}

#[test]
fn parts_in_an_archive_are_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.safetensors").display().to_string();
    let tar = case("split_gguf.tar");
    for path in [format!("{tar}!/t/model-00001-of-00008.gguf"), format!("{tar}!/t")] {
        holdall(["convert", &path, &out, "--force"]).ends_with(0);
        let found = holdall(["inspect", "--json", &out]).ends_with(0).json();
        assert_eq!(found["tensors"].as_array().unwrap().len(), 22);
    }
    let names = holdall(["inspect", "--json", &format!("{tar}!/t")]).ends_with(0).json();
    assert_eq!(names["tensors"].as_array().unwrap().len(), 22);
}

#[test]
fn a_wrong_key_of_a_chunk_index_is_a_fault() {
    let found = holdall(["verify", "--json", &case("h5-chunk-key-9.h5")]).ends_with(1).json();
    assert_eq!(found["finding_count"], 1, "{found}");
    assert_eq!(
        (&found["findings"][0]["code"], &found["findings"][0]["tensor"]),
        (&"hdf5/chunk".into(), &"ext2".into())
    );
}

#[test]
fn an_array_cut_short_gives_its_whole_rows() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("o.zt").display().to_string();
    let ran = holdall(["salvage", &case("cut.npy"), &out]).ends_with(1);
    assert!(format!("{}{}", ran.out, ran.err).contains("50 of 100 rows"), "{ran:?}");
    let found = holdall(["inspect", "--json", &out]).ends_with(0).json();
    assert_eq!(found["tensors"][0]["shape"], serde_json::json!([50, 10]));
}

#[test]
fn an_edit_of_an_index_edits_the_shards() {
    let dir = copy_of("edit_index");
    let path = dir.path().join("model.safetensors.index.json").display().to_string();
    holdall(["edit", &path, "set", "note=hello"]).ends_with(0);
    let found = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!(found["tensors"].as_array().unwrap().len(), 4);
    assert_eq!(found["attributes"]["note"], "hello");
    let index = std::fs::read(&path).unwrap();
    assert!(index.starts_with(b"{"), "it is still an index");
}

#[test]
fn an_edit_of_the_first_part_leaves_the_others() {
    let dir = copy_of("split_gguf");
    let part = |number: u32| dir.path().join(format!("m-{number:05}-of-00003.gguf"));
    let path = part(1).display().to_string();
    holdall(["edit", &path, "set", "general.name=sev"]).ends_with(0);
    for number in [2, 3] {
        let name = format!("split_gguf/m-{number:05}-of-00003.gguf");
        assert_eq!(std::fs::read(part(number)).unwrap(), std::fs::read(path_of(&name)).unwrap());
    }
    assert_eq!(
        part(1).metadata().unwrap().len(),
        path_of("split_gguf/m-00001-of-00003.gguf").metadata().unwrap().len()
    );
    let found = holdall(["inspect", "--json", &path]).ends_with(0).json();
    assert_eq!(found["tensors"].as_array().unwrap().len(), 6);
    assert_eq!(found["attributes"]["general.name"], "sev");
}

#[test]
fn meaning_of_torch_tensors_outlives_an_edit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("qpc.pt").display().to_string();
    std::fs::copy(path_of("qpc.pt"), &path).unwrap();
    let attributes = |path: &str, name: &str| {
        let found = holdall(["inspect", "--json", path]).ends_with(0).json();
        let all = found["tensors"].as_array().unwrap().clone();
        let one = all.into_iter().find(|t| t["name"] == name).unwrap();
        one["attributes"].clone()
    };
    let before = attributes(&path, "qc");
    assert!(before.as_object().is_some_and(|all| !all.is_empty()), "{before}");
    holdall(["edit", &path, "rename", "plain=p"]).ends_with(0);
    assert_eq!(attributes(&path, "qc"), before);
    let zt = dir.path().join("o.zt").display().to_string();
    holdall(["convert", &path, &zt]).ends_with(0);
    assert_eq!(attributes(&zt, "qc"), before);
    // Python attributes of a tensor are kept, or the edit is refused and names the tensor.
    let path = dir.path().join("attrs.pt").display().to_string();
    std::fs::copy(path_of("attrs.pt"), &path).unwrap();
    let ran = holdall(["edit", &path, "rename", "p=q"]);
    let is_named = ran.status == 4 && ran.err.contains("p.tag");
    assert!(ran.status == 0 || is_named, "{ran:?}");
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(path_of("attrs.pt")).unwrap());
}

#[test]
fn unknown_types_of_gguf_survive() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::copy(path_of("ik153.gguf"), at("a.gguf")).unwrap();
    holdall(["edit", &at("a.gguf"), "set", "tokenizer.chat_template=new"]).ends_with(0);
    holdall(["convert", &at("a.gguf"), &at("b.gguf")]).ends_with(0);
    holdall(["diff", &at("a.gguf"), &at("b.gguf")]).ends_with(0);
    let found = holdall(["inspect", "--json", &at("b.gguf")]).ends_with(0).json();
    let all = found["tensors"].as_array().unwrap();
    let one = all.iter().find(|t| t["layout"] == "gguf.type_153").unwrap();
    let name = one["name"].as_str().unwrap();
    for file in ["a.gguf", "b.gguf"] {
        let raw = at(&format!("{file}.raw"));
        holdall(["extract", &at(file), name, "--format", "raw", "-o", &raw]).ends_with(0);
    }
    assert_eq!(std::fs::read(at("a.gguf.raw")).unwrap(), std::fs::read(at("b.gguf.raw")).unwrap());
}

#[test]
fn strided_tensors_have_the_expected_elements() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("o.npy");
    let out = to.display().to_string();
    let path = case("extract-strided.npy");
    for (rows, shape, wanted) in [
        (None, "(2, 3)", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0][..]),
        (Some("0..1"), "(1, 3)", &[0.0, 1.0, 2.0][..]),
        (Some("1..2"), "(1, 3)", &[3.0, 4.0, 5.0][..]),
    ] {
        let mut args = vec!["extract", &path, "data", "-o", &out, "--force"];
        args.extend(rows.iter().flat_map(|rows| ["--rows", *rows]));
        holdall(&args).ends_with(0);
        let written = std::fs::read(&to).unwrap();
        let bytes: Vec<u8> = wanted.iter().flat_map(|x: &f64| x.to_le_bytes()).collect();
        assert!(written.ends_with(&bytes), "{rows:?}");
        let header = String::from_utf8_lossy(&written[..written.len() - bytes.len()]);
        assert!(header.contains(shape), "{header}");
    }
    let found =
        holdall(["verify", "--json", &case("verify-sound-strides.pkl")]).ends_with(1).json();
    assert_eq!(
        (&found["findings"][0]["code"], &found["findings"][0]["tensor"]),
        (&"strided/strides".into(), &"big".into())
    );
}
