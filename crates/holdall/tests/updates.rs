//! Weight updates of training frameworks: files of their own writers, and damaged ones.

use holdall::delta::{ApplyReport, UpdateOptions, Updates, apply_updates, show_updates};
use holdall::{File, OpenOptions, Result};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/updates").join(name)
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn updates(path: &Path) -> Updates {
    Updates::open(path, &OpenOptions::new()).unwrap().unwrap()
}

fn apply(base: &Path, from: &Path, to: Option<u64>, path: &Path) -> Result<ApplyReport> {
    let mut options = UpdateOptions::default();
    options.to = to;
    options.write.overwrite = true;
    let updates = Updates::open(from, &OpenOptions::new())?.expect("updates");
    apply_updates(&holdall::open(base)?, &updates, path, &options)
}

fn expected(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(corpus(name).join("expect.json")).unwrap()).unwrap()
}

fn assert_hashes(file: &File, expected: &serde_json::Value) {
    let expected = expected.as_object().unwrap();
    assert_eq!(file.len(), expected.len());
    for (name, hash) in expected {
        let bytes = file.tensor(name).unwrap().to_dense().unwrap();
        assert_eq!(sha256(bytes.bytes()), hash.as_str().unwrap(), "{name}");
    }
}

/// The hashes were computed by the programs that wrote the updates.
#[test]
fn versions_give_the_models_of_their_writer() {
    let folder = tempfile::tempdir().unwrap();
    let expect = expected("versions");
    let base = corpus("versions/base");
    for good in expect["good"].as_array().unwrap() {
        let version = good["target_version"].as_u64().unwrap();
        // A file, and a folder like the base's.
        for name in ["m.safetensors", "m.zt", "m"] {
            let to = folder.path().join(name);
            let report = apply(&base, &corpus("versions/updates"), Some(version), &to).unwrap();
            assert_eq!(report.version, Some(version));
            assert_eq!(report.steps, version % 4, "version 4 is whole");
            let made = holdall::open(&to).unwrap();
            assert_hashes(&made, &good["sha256_of_tensor_bytes"]);
            for (name, about) in expect["tensors"].as_object().unwrap() {
                let shape: Vec<u64> = serde_json::from_value(about["shape"].clone()).unwrap();
                assert_eq!(made.tensor(name).unwrap().shape(), shape);
            }
        }
        let made = folder.path().join("m");
        assert_eq!(holdall::open(&made).unwrap().files().len(), 3);
        assert!(made.join("config.json").is_file());
        // The folder says which version it is, so that the next one is applied to it.
        let to = folder.path().join("next.safetensors");
        let report = apply(&made, &corpus("versions/updates"), Some(3), &to);
        if version <= 3 {
            assert_eq!(report.unwrap().steps, 3 - version);
            assert_hashes(
                &holdall::open(&to).unwrap(),
                &expect["good"][3]["sha256_of_tensor_bytes"],
            );
        } else {
            assert_eq!(report.unwrap_err().code(), "delta/chain");
        }
    }
    let to = folder.path().join("newest.safetensors");
    assert_eq!(apply(&base, &corpus("versions/updates"), None, &to).unwrap().version, Some(4));
    let e = apply(&base, &corpus("versions/updates"), Some(5), &to).unwrap_err();
    assert_eq!(e.code(), "delta/version");
}

#[test]
fn a_single_version_is_applied_to_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let expect = expected("versions");
    let single = |version: usize| corpus(&format!("versions/updates/weight_v{version:06}"));
    let to = |version: usize| folder.path().join(format!("v{version}.safetensors"));
    apply(&corpus("versions/base"), &single(1), None, &to(1)).unwrap();
    apply(&to(1), &single(2), None, &to(2)).unwrap();
    assert_hashes(&holdall::open(to(2)).unwrap(), &expect["good"][2]["sha256_of_tensor_bytes"]);
    // A version that was made from another one.
    let e = apply(&to(1), &single(3), None, &to(4)).unwrap_err();
    assert_eq!(e.code(), "delta/target", "{e}");
    let mut options = UpdateOptions::default();
    options.from = Some(1);
    let base = holdall::open(to(1)).unwrap();
    let e = apply_updates(&base, &updates(&single(3)), to(4), &options).unwrap_err();
    assert_eq!(e.code(), "delta/chain", "{e}");
    options.to = Some(3);
    let report =
        apply_updates(&base, &updates(&corpus("versions/updates")), to(3), &options).unwrap();
    assert_eq!(report.steps, 2);
    assert_hashes(&holdall::open(to(3)).unwrap(), &expect["good"][3]["sha256_of_tensor_bytes"]);
    assert!(!to(4).exists());
}

#[test]
fn bad_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("never");
    let base = corpus("versions/base");
    for bad in expected("versions")["bad"].as_array().unwrap() {
        let name = bad["name"].as_str().unwrap();
        let code = match name {
            "unknown-encoding" => "delta/encoding",
            "unknown-checksum" => "delta/checksum-format",
            "no-checksum" => "delta/checksum",
            "wrong-diff" => "delta/target",
            "short-diff" => "delta/diff-length",
            "far-position" => "delta/position",
            other => panic!("{other}"),
        };
        let from = corpus("versions/bad").join(name);
        let e = apply(&base, &from, bad["target_version"].as_u64(), &to).unwrap_err();
        assert_eq!(e.code(), code, "{name}: {e}");
        assert!(!to.exists());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => std::fs::write(&target, std::fs::read(&path).unwrap()).unwrap(),
        }
    }
}

#[test]
fn all_other_files_of_the_base_are_in_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let (base, to) = (folder.path().join("base"), folder.path().join("made"));
    copy(&corpus("versions/base"), &base);
    for (name, text) in [
        (".gitattributes", "*.safetensors"),
        (".git/HEAD", "ref"),
        (".weight_sync/state.json", "{\"version\": \"000000\"}"),
        ("extra/deep/note.txt", "a note"),
    ] {
        let path = base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("extra", base.join("linked")).unwrap();
    apply(&base, &corpus("versions/updates"), Some(1), &to).unwrap();
    let text = |name: &str| std::fs::read_to_string(to.join(name)).unwrap();
    assert_eq!(text(".gitattributes"), "*.safetensors");
    assert_eq!(text("extra/deep/note.txt"), "a note");
    assert!(text(".weight_sync/state.json").contains("000001"));
    assert!(!to.join(".git").exists());
    #[cfg(unix)]
    {
        assert_eq!(text("linked/deep/note.txt"), "a note");
        // A link that leads round, and something that is no file.
        std::os::unix::fs::symlink("..", base.join("extra/round")).unwrap();
        let e = apply(&base, &corpus("versions/updates"), Some(1), &folder.path().join("other"));
        assert!(e.unwrap_err().message().contains("lie in each other"));
        assert!(!folder.path().join("other").exists());
    }
}

/// What the programs that apply versions take without a word.
#[test]
fn versions_that_are_not_what_they_say_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let index = "weight_v000001/model.safetensors.index.json";
    let shard = "weight_v000001/model-00001-of-00002.safetensors";
    let change_index = |at: &Path, from: &str, to: &str| {
        let text = std::fs::read_to_string(at.join(index)).unwrap();
        assert!(text.contains(from));
        std::fs::write(at.join(index), text.replacen(from, to, 1)).unwrap();
    };
    type Change<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Change); 10] = [
        ("delta/weight-map", &|at| std::fs::remove_file(at.join(shard)).unwrap()),
        ("delta/weight-map", &|at| change_index(at, "_scale_inv\"", "_scale\"")),
        ("delta/weight-map", &|at| {
            change_index(at, "model-00001-of-00002", "model-00000-of-00002")
        }),
        ("delta/weight-map", &|at| {
            let old = at.join("weight_v000001/model-00000-of-00002.safetensors");
            std::fs::copy(old, at.join("weight_v000001/left-over.safetensors")).unwrap();
        }),
        ("delta/version", &|at| {
            change_index(at, "\"version\": \"000001\"", "\"version\": \"000002\"")
        }),
        ("delta/version", &|at| std::fs::remove_file(at.join(index)).unwrap()),
        ("delta/version", &|at| std::fs::remove_dir_all(at.join("weight_v000001")).unwrap()),
        ("delta/chain", &|at| {
            change_index(at, "\"base_version\": \"000000\"", "\"base_version\": \"000001\"")
        }),
        ("delta/index", &|at| change_index(at, "\"base_version\"", "\"base\"")),
        ("delta/base", &|at| {
            let shard = at.join("weight_v000001/model-00000-of-00002.safetensors");
            let mut bytes = std::fs::read(&shard).unwrap();
            for at in 0..bytes.len() - 12 {
                if bytes[at..].starts_with(b"embed_tokens") {
                    bytes[at..at + 12].copy_from_slice(b"stranger_one");
                }
            }
            std::fs::write(&shard, bytes).unwrap();
            change_index(at, "embed_tokens", "stranger_one");
        }),
    ];
    for (number, (code, change)) in cases.into_iter().enumerate() {
        let at = folder.path().join(number.to_string());
        copy(&corpus("versions/updates"), &at);
        change(&at);
        let to = folder.path().join("never.safetensors");
        let e = apply(&corpus("versions/base"), &at, Some(1), &to).unwrap_err();
        assert_eq!(e.code(), code, "case {number}: {e}");
        assert!(!to.exists());
    }
}

/// The layout of a run: a pointer names the newest version, and the folder of versions is inside.
#[test]
fn a_pointer_names_the_newest_version() {
    let folder = tempfile::tempdir().unwrap();
    copy(&corpus("versions/updates"), &folder.path().join("updates"));
    let to = folder.path().join("m.safetensors");
    for (text, version) in [("/data/run/weight_v000002\n", 2), ("weight_v000003", 3)] {
        std::fs::write(folder.path().join("latest"), text).unwrap();
        for path in [folder.path().to_owned(), folder.path().join("updates")] {
            assert_eq!(updates(&path).latest(), Some(version));
            let report = apply(&corpus("versions/base"), &path, None, &to).unwrap();
            assert_eq!(report.version, Some(version));
        }
    }
    std::fs::write(folder.path().join("latest"), "../..").unwrap();
    let e = Updates::open(folder.path(), &OpenOptions::new()).err().unwrap();
    assert_eq!(e.code(), "delta/version");
}

#[test]
fn steps_give_the_models_of_their_writer() {
    let folder = tempfile::tempdir().unwrap();
    let expect = expected("steps");
    let anchor = corpus("steps/v1/anchors/step_000001.safetensors");
    for (layout, about) in expect["layouts"].as_object().unwrap() {
        let at = corpus("steps").join(layout);
        for step in about["steps"].as_array().unwrap() {
            let version = step["model_version"].as_u64().unwrap();
            for (n, from) in [at.clone(), at.join("deltas")].iter().enumerate() {
                let to = folder.path().join(format!("{n}.safetensors"));
                let report = apply(&anchor, from, Some(version), &to).unwrap();
                assert_eq!((report.version, report.steps), (Some(version), version - 1));
                let made = holdall::open(&to).unwrap();
                assert_hashes(&made, &step["sha256_of_tensor_bytes"]);
                // The result says which step it is.
                let stated = made.attributes().get("model_version").unwrap();
                assert_eq!(stated.as_text(), Some(&*version.to_string()));
            }
            // One file at a time.
            let to = |version: u64| folder.path().join(format!("{layout}-{version}.safetensors"));
            if version == 1 {
                std::fs::copy(&anchor, to(1)).unwrap();
            } else {
                let from = at.join(step["file"].as_str().unwrap());
                apply(&to(version - 1), &from, None, &to(version)).unwrap();
                let made = holdall::open(to(version)).unwrap();
                assert_hashes(&made, &step["sha256_of_tensor_bytes"]);
                if version > 2 {
                    let e = apply(&to(version - 2), &from, None, &to(99)).unwrap_err();
                    assert_eq!(e.code(), "delta/chain");
                }
            }
        }
        let shown = show_updates(&updates(&at)).unwrap();
        let changed: u64 = shown
            .updates
            .iter()
            .rev()
            .take(1)
            .flat_map(|step| &step.tensors)
            .filter_map(|tensor| tensor.changed)
            .sum();
        assert_eq!(changed, 57);
    }
}

#[test]
fn bad_steps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("never.safetensors");
    for bad in expected("steps")["bad"].as_array().unwrap() {
        let name = bad["file"].as_str().unwrap();
        let code = match name {
            "bad/index-outside.safetensors" | "bad/twice.safetensors" => "delta/position",
            "bad/count.safetensors" | "bad/no-indices.safetensors" => "delta/pair",
            "bad/encoding.safetensors" | "bad/nvcomp.safetensors" => "delta/encoding",
            other => panic!("{other}"),
        };
        let anchor = corpus("steps").join(bad["anchor"].as_str().unwrap());
        let e = apply(&anchor, &corpus("steps").join(name), None, &to).unwrap_err();
        assert_eq!(e.code(), code, "{name}: {e}");
        assert!(!to.exists());
    }
}

#[test]
fn other_files_are_no_updates() {
    for name in ["versions/base", "versions/base/model-00001-of-00002.safetensors", "versions/bad"]
    {
        assert!(Updates::open(corpus(name), &OpenOptions::new()).unwrap().is_none(), "{name}");
    }
}
