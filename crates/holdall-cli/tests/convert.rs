//! `convert`: files converted to other formats and back, and conversions that are refused.

use crate::command::{self, accept, holdall, holdall_with};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns a file's contents independent of its format: by name and role, the shape and type, and the SHA-256.
fn content(path: &str) -> BTreeMap<String, (Json, Json)> {
    let found = holdall(["inspect", "--json", "--digests", path]).ends_with(0).json();
    let mut out = BTreeMap::new();
    for tensor in found["tensors"].as_array().unwrap() {
        for (role, c) in tensor["components"].as_object().unwrap() {
            let key = format!("{}:{role}", tensor["name"].as_str().unwrap());
            let what = json!([tensor["shape"], tensor["layout"], c["dtype"], c["logical_type"]]);
            out.insert(key, (what, c["sha256"].clone()));
        }
    }
    out
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn every_version_there_and_back_keeps_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("safetensors/st_dense_all.safetensors");
    let before = content(&source);
    assert!(before.len() > 10);
    for (name, args) in [
        ("a.zt", &[][..]),
        ("b.zt", &["--to", "ztensor@1.0"]),
        ("c.zt", &["--to", "ztensor@0.1", "--digest", "sha256"]),
        ("d.zt", &["--encoding", "zstd:7", "--align", "4096"]),
        ("e.zt", &["--share", "dedupe", "--no-sync", "--threads", "1"]),
    ] {
        let (there, back) = (path(&dir, name), path(&dir, &format!("{name}.safetensors")));
        // Old versions have no logical types for complex numbers and 8-bit floats.
        let raw = if name == "b.zt" || name == "c.zt" { &["--raw-types"][..] } else { &[] };
        holdall([&["convert", &source, &there], args, raw].concat()).ends_with(0);
        holdall(["convert", &there, &back]).ends_with(0);
        for file in [&there, &back] {
            let after = content(file);
            assert_eq!(after.len(), before.len(), "{file}");
            for (key, (what, sha)) in &before {
                assert_eq!(&after[key].1, sha, "{file} {key}");
                if raw.is_empty() {
                    assert_eq!(&after[key].0, what, "{file} {key}");
                }
            }
        }
    }
    let aligned = holdall(["inspect", "--json", &path(&dir, "d.zt")]).json();
    for tensor in aligned["tensors"].as_array().unwrap() {
        let c = &tensor["components"]["data"];
        assert_eq!(c["offset"].as_u64().unwrap() % 4096, 0);
        assert_eq!(c["encoding"], "zstd");
    }
}

#[test]
fn the_report_lists_all_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (accept("ztensor/v1.2-dense_all.zt"), path(&dir, "x.safetensors"));
    let found = holdall(["convert", &source, &target, "-s", "t_f*", "--json"]).ends_with(0);
    let report = found.json();
    assert_eq!((&report["source"], &report["target"]), (&json!(source), &json!(target)));
    assert_eq!((&report["format"], &report["tensors"]), (&json!("safetensors"), &json!(3)));
    assert_eq!(report["decoded_len"], 30 + 60 + 120);
    assert_eq!(report["target_len"], std::fs::metadata(&target).unwrap().len());
    let text = holdall(["convert", &source, &target, "-f", "-x", "t_f*"]).ends_with(0);
    assert!(text.out.is_empty() && text.err.contains("safetensors, 10 tensors, 2.06 kB → "));
    let quiet = holdall(["convert", &source, &target, "-f", "-q"]).ends_with(0);
    assert!(quiet.out.is_empty() && quiet.err.is_empty());
}

#[test]
fn a_refusal_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let sparse = accept("ztensor/v1.2-sparse.zt");
    let target = path(&dir, "x.safetensors");
    let error = holdall(["convert", &sparse, &target, "--json"]).ends_with(4).error();
    assert_eq!(error["code"], "convert/cannot-hold");
    assert!(error["hint"].as_str().unwrap().contains("--dense"), "{error}");
    assert!(!Path::new(&target).exists());
    holdall(["convert", &sparse, &target, "--dense", "-s", "csr_f32"]).ends_with(0);

    // An existing file is kept, except with `--force`.
    let dense = accept("ztensor/v1.2-dense_all.zt");
    let before = std::fs::read(&target).unwrap();
    let error = holdall(["convert", &dense, &target, "--json"]).ends_with(2).error();
    assert_eq!((&error["code"], &error["source"]), (&json!("write/exists"), &json!(target)));
    holdall(["convert", &dense, &target, "-n"]).ends_with(2);
    assert_eq!(std::fs::read(&target).unwrap(), before);
    holdall(["convert", &dense, &target, "--force"]).ends_with(0);
    assert_ne!(std::fs::read(&target).unwrap(), before);

    // If the source is broken, no file appears at the target.
    let mut bytes = std::fs::read(accept("ztensor/v1.1-zstd.zt")).unwrap();
    let found = holdall(["inspect", "--plain", &accept("ztensor/v1.1-zstd.zt")]).out;
    let line = found.lines().find(|l| l.contains("\tzstd\t")).unwrap();
    let offset: usize = line.split('\t').next_back().unwrap().parse().unwrap();
    bytes[offset] ^= 0xff;
    let (bad, out) = (path(&dir, "bad.zt"), path(&dir, "out.safetensors"));
    std::fs::write(&bad, bytes).unwrap();
    holdall(["convert", &bad, &out]).ends_with(1);
    assert!(!Path::new(&out).exists());

    for (args, status, code) in [
        (&["x.unknown"][..], 2, "write/extension"),
        (&["-"], 2, "write/extension"),
        (&["x.zt", "--to", "ztensor@1.1"], 2, "format/unknown-version"),
        (&["x.zt", "--to", "npy"], 2, "usage/arguments"),
        (&["x.zt", "--align", "3"], 2, "ztensor/align"),
        (&["x.zt", "--rename", "a*=b"], 0, ""),
        (&["y.zt", "--rename", "a"], 2, "select/pattern"),
        (&["y.zt", "--rename", "*=same"], 2, "write/same-name"),
        (&["no/such/dir/x.zt"], 3, "io/failed"),
        (&["x.carton"], 2, "write/extension"),
    ] {
        let mut all = vec!["convert".to_owned(), "--json".to_owned(), dense.clone()];
        let out = if args[0] == "-" { "-".to_owned() } else { path(&dir, args[0]) };
        all.push(out);
        all.extend(args[1..].iter().map(|s| (*s).to_owned()));
        let found = holdall(all).ends_with(status);
        if status > 0 {
            assert_eq!(found.error()["code"], code, "{args:?}");
        }
    }
    // A misspelt rule is reported.
    let idle = ["--rename", "t_*=x.*", "--rename", "u_*=x.*", "--dry-run"];
    let found = holdall([&["convert", &dense, &out][..], &idle].concat()).ends_with(0);
    assert!(found.err.contains("warning: `u_*=x.*` matches none of "), "{found:?}");
    assert!(!found.err.contains("`t_*=x.*`"), "{found:?}");
}

#[test]
fn pipes_on_both_sides() {
    let source = accept("safetensors/st_fp8.safetensors");
    let bytes = std::fs::read(&source).unwrap();
    let args = ["convert", "-", "-", "--to", "ztensor"];
    let packed = holdall_with(args, &bytes).ends_with(0);
    assert!(packed.raw.starts_with(b"ZTEN1000"));
    assert!(packed.err.starts_with("-: zTensor 1.2, 5 tensors"), "{}", packed.err);
    let args = ["convert", "-", "-", "--to", "safetensors"];
    let back = holdall_with(args, &packed.raw).ends_with(0);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("back"), back.raw).unwrap();
    assert_eq!(content(&path(&dir, "back")), content(&source));
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (accept("ztensor/v1.2-dense_all.zt"), path(&dir, "x.zt"));
    let rename = ["--rename", "t_*=tensor.*"];
    let args = ["convert", &source, &target, "--dry-run", "-s", "t_f32"];
    let found = holdall([&args[..], &rename].concat()).ends_with(0);
    assert!(found.out.contains("tensor.f32  f32    [3, 5]     60 B  dense"), "{}", found.out);
    let found = holdall([&args[..], &rename, &["--json"]].concat()).ends_with(0).json();
    assert_eq!(found["plan"][0]["name"], "tensor.f32");
    assert_eq!(found["plan"][0]["components"]["data"]["decoded_len"], 60);
    assert!(!Path::new(&target).exists());
}

#[test]
fn impossible_options_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("safetensors/st_dense_all.safetensors");
    let out = path(&dir, "out.safetensors");
    for option in [["--encoding", "zstd"], ["--digest", "sha256"], ["--digest", "crc32c"]] {
        let args = ["convert", &source, &out, option[0], option[1]];
        for more in [&[][..], &["--dry-run"]] {
            let error = holdall([&args[..], more, &["--json"]].concat()).ends_with(2).error();
            assert_eq!(error["code"], "write/not-in-format", "{option:?}");
            assert!(error["hint"].as_str().unwrap().contains(option[0]), "{error}");
        }
        let piped = ["convert", &source, "-", "--to", "safetensors", option[0], option[1]];
        assert_eq!(holdall(piped).ends_with(2).raw, b"");
        let edit = path(&dir, "edited.safetensors");
        std::fs::copy(&source, &edit).unwrap();
        let before = std::fs::read(&edit).unwrap();
        holdall(["edit", &edit, "compact", option[0], option[1]]).ends_with(2);
        assert_eq!(std::fs::read(&edit).unwrap(), before);
        std::fs::remove_file(&edit).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "{option:?}");
    }
    // If an option asks for the default, or is not given, no capability is missing.
    for option in [&["--encoding", "raw"][..], &["--digest", "none"], &[]] {
        holdall([&["convert", &source, &out, "--force"], option].concat()).ends_with(0);
    }
}

#[test]
fn attributes_that_a_layout_requires_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (accept("metatensor/made-optional.mt"), path(&dir, "out.zt"));
    holdall(["convert", &source, &out]).ends_with(0);
    let before = std::fs::read(&out).unwrap();
    let args =
        ["convert", "-f", "--drop-attributes", &source, &out, "--to", "ztensor@1.0", "--json"];
    let error = holdall(args).ends_with(4).error();
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--to ztensor@1.2") && !hint.contains("--drop-attributes"), "{error}");
    assert_eq!(std::fs::read(&out).unwrap(), before);
}

#[test]
fn refusals_are_sentences_that_do_not_repeat_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tiny.zt");
    let out = path(&dir, "out");
    let refused = |source: &str, to: &str| {
        let args = ["convert", source, &out, "--to", to, "--json"];
        let error = holdall(args).ends_with(4).error();
        let text = |key: &str| error[key].as_str().unwrap().to_owned();
        (text("message"), text("hint"))
    };
    let (message, hint) = refused(tiny, "ztensor@1.0");
    let expected = "the target cannot hold all of it: \
        zTensor 1.0 cannot store attributes of tensors, such as `scale` (`layers.0.mlp.up.weight`, \
        `layers.0.mlp.down.weight`, `layers.1.mlp.up.weight` and 5 more); \
        zTensor 1.0 has no layout `quantized_group` (`experts.gate.weight`)";
    assert_eq!(message, expected);
    let expected = "`--to ztensor@1.2` keeps them; \
        `--drop-attributes` omits attributes that cannot be stored; \
        `--dense` writes sparse, quantized and described tensors as dense ones; \
        `--exclude` omits tensors";
    assert_eq!(hint, expected);

    // A tensor of an unknown layout cannot be made dense.
    let layouts = accept("ztensor/crate-1.2.3-layouts.zt");
    for (to, name) in [("safetensors", "safetensors"), ("ztensor@0.1", "zTensor 0.1")] {
        let args = ["convert", &layouts, &out, "--to", to, "-s", "ragged", "--json"];
        let error = holdall(args).ends_with(4).error();
        assert_eq!(error["message"], format!("{name} has no layout `ragged`"));
        assert_eq!(error["hint"], "`--exclude` omits tensors; `--to ztensor@1.2` keeps them");
    }
    for source in command::files("accept") {
        for to in ["safetensors", "ztensor@0.1", "ztensor@1.0", "ztensor@1.2"] {
            let source = source.to_str().unwrap();
            let found = holdall(["convert", source, "-n", "--to", to, "--json", &out]);
            if found.status == 0 {
                continue;
            }
            let error = found.ends_with(4).error();
            let advice: Vec<&str> = error["hint"].as_str().unwrap().split("; ").collect();
            let mut once = advice.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), advice.len(), "{error}");
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("safetensors/st_dense_all.safetensors");
    let target = path(&dir, "none/out.zt");
    let found = holdall(["convert", &source, &target]).ends_with(3);
    let expected = format!("the folder `{}` does not exist", path(&dir, "none"));
    assert!(found.err.contains(&expected) && found.err.contains(&target), "{found:?}");
    std::fs::write(path(&dir, "none"), "").unwrap();
    let other = holdall(["convert", &source, &target]).ends_with(3);
    assert!(other.err.contains("is a file, not a folder"), "{other:?}");
    assert!(!(found.err + &other.err).contains(".part"));
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("safetensors/st_dense_all.safetensors");
    let (link, file) = (path(&dir, "link.zt"), path(&dir, "file.zt"));
    std::os::unix::fs::symlink("file.zt", &link).unwrap();
    let is_link = || Path::new(&link).symlink_metadata().unwrap().is_symlink();
    for args in [&[][..], &["--force"]] {
        holdall([&["convert", &source, &link], args].concat()).ends_with(0);
        assert!(is_link() && Path::new(&file).symlink_metadata().unwrap().is_file());
    }
    holdall(["edit", &link, "compact"]).ends_with(0);
    assert!(is_link() && Path::new(&file).symlink_metadata().unwrap().is_file());
    assert_eq!(content(&file), content(&source));
}

/// Temporary files of a killed conversion, on systems without unnamed files, are removed by the next one.
#[cfg(unix)]
#[test]
fn the_next_write_removes_leftovers_of_killed_ones() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("safetensors/st_dense_all.safetensors");
    let target = path(&dir, "out.zt");
    let (stale, held) = (path(&dir, ".holdall-Ab3dEf.part"), path(&dir, ".holdall-123456.part"));
    std::fs::write(&target, "old").unwrap();
    std::fs::write(&stale, "half").unwrap();
    let other = std::fs::File::create(&held).unwrap();
    other.lock().unwrap();
    holdall(["convert", &source, &target, "--force"]).ends_with(0);
    assert!(!Path::new(&stale).exists() && Path::new(&held).exists());
    drop(other);
    holdall(["convert", &source, &target, "--force"]).ends_with(0);
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
}

/// Errors name the file as the user did, and an invalid target is reported before anything is read.
#[test]
fn invalid_targets_are_refused_before_reading() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("ztensor/v1.2-dense_all.zt");
    let refused = |args: &[&str], status: i32, code: &str, message: &str| {
        let found = command::command([args, &["--json"]].concat())
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8(found.stderr).unwrap();
        let error: Json = serde_json::from_str(&text).unwrap();
        let error = &error["error"];
        assert_eq!(found.status.code(), Some(status), "{args:?}: {text}");
        assert_eq!((&error["code"], &error["source"]), (&json!(code), &json!(args[2])), "{args:?}");
        assert!(error["message"].as_str().unwrap().contains(message), "{args:?}: {text}");
    };
    std::fs::write(dir.path().join("m.zt"), "mine").unwrap();
    std::fs::create_dir(dir.path().join("dir.zt")).unwrap();
    // The source does not exist: the problem with the target is reported first.
    for source in [source.as_str(), "missing.zt"] {
        refused(&["convert", source, "m.zt"], 2, "write/exists", "exists already");
        refused(&["convert", source, "./m.zt", "-n"], 2, "write/exists", "exists already");
        for more in [&["-f"][..], &["-n"], &["--no-sync"]] {
            let args = |out| [&["convert", source, out, "--to", "ztensor"], more].concat();
            refused(&args("dir.zt"), 3, "io/failed", "a folder, not a file");
            refused(&args("./x/"), 3, "io/failed", "names a folder, which does not exist");
            refused(&args("no/x.zt"), 3, "io/failed", "the folder `no` does not exist");
            refused(&args("m.zt/"), 3, "io/failed", "creating: ");
            refused(&args("m.zt/x.zt"), 3, "io/failed", "`m.zt` is a file, not a folder");
        }
    }
    assert_eq!(std::fs::read(dir.path().join("m.zt")).unwrap(), b"mine");
}

#[cfg(unix)]
#[test]
fn links_that_go_round_in_a_circle_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("ztensor/v1.2-dense_all.zt");
    for (name, to) in [("loop1.zt", "loop2.zt"), ("loop2.zt", "loop1.zt")] {
        std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    }
    let target = path(&dir, "loop1.zt");
    for more in [&["-f"][..], &[]] {
        let args = [&["convert", &source, &target, "--json"], more].concat();
        let error = holdall(args).ends_with(3).error();
        assert_eq!((&error["code"], &error["source"]), (&json!("io/failed"), &json!(target)));
    }
    let there = |name| dir.path().join(name).read_link().unwrap();
    assert_eq!(there("loop1.zt").to_str(), Some("loop2.zt"));
    assert_eq!(there("loop2.zt").to_str(), Some("loop1.zt"));
}

/// Writes a safetensors file with one f32 tensor per name.
fn floats(path: &str, tensors: &[(&str, &[f32])]) {
    let (mut header, mut bytes) = (serde_json::Map::new(), Vec::new());
    for (name, values) in tensors {
        let start = bytes.len();
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        let about = json!({
            "dtype": "F32", "shape": [values.len()], "data_offsets": [start, bytes.len()],
        });
        header.insert((*name).to_owned(), about);
    }
    let header = Json::Object(header).to_string();
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.extend(header.into_bytes());
    all.extend(bytes);
    std::fs::write(path, all).unwrap();
}

#[test]
fn casts_report_overflows() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (path(&dir, "a.safetensors"), path(&dir, "b.zt"));
    floats(&source, &[("a.norm", &[1.0]), ("a.w", &[0.5, 1e5, -1e5]), ("b.w", &[3.0, 1000.0])]);
    let types = |found: &Json| -> Vec<String> {
        let all = found["tensors"].as_array().unwrap().iter();
        let text =
            |c: &Json| c["logical_type"].as_str().or(c["dtype"].as_str()).unwrap().to_owned();
        let mut all: Vec<_> =
            all.map(|t| (t["name"].to_string(), text(&t["components"]["data"]))).collect();
        all.sort();
        all.into_iter().map(|t| t.1).collect()
    };
    let inspect = || types(&holdall(["inspect", "--json", &out]).json());

    let found = holdall(["convert", &source, &out, "--dtype", "bf16"]).ends_with(0);
    assert!(found.err.contains(", 3 tensors converted"), "{}", found.err);
    assert!(!found.err.contains("warning"), "{}", found.err);
    assert_eq!(inspect(), ["bf16"; 3]);

    let args = ["convert", "-f", &source, &out, "--dtype", "f16", "--dtype", "*.norm=keep"];
    let found = holdall([&args[..], &["--dtype", "b.*=f8_e4m3fn"]].concat()).ends_with(0);
    assert!(found.err.contains("2 tensors converted"), "{}", found.err);
    assert!(
        found.err.contains("warning: `a.w`: 2 numbers out of range of f16 became infinite"),
        "{}",
        found.err
    );
    assert!(
        found.err.contains("warning: `b.w`: 1 number out of range of f8_e4m3fn became NaN"),
        "{}",
        found.err
    );
    assert_eq!(inspect(), ["f32", "f16", "f8_e4m3fn"]);
    let found = holdall([&args[..], &["--saturate", "--json"]].concat()).ends_with(0);
    let report = found.json();
    assert_eq!((&report["cast"], &report["overflowed"]), (&json!(2), &json!(2)));
    let expected = json!([{"name": "a.w", "from": "f32", "to": "f16", "count": 2}]);
    assert_eq!(report["overflows"], expected);
    // The report is on standard output, the warning on standard error.
    assert!(found.err.contains("became the largest finite number"), "{}", found.err);

    let plan = holdall([&args[..], &["-n", "--json"]].concat()).ends_with(0).json();
    assert_eq!((&plan["cast"], plan.get("overflows")), (&json!(2), None));
    let plan = holdall([&args[..], &["-n"]].concat()).ends_with(0);
    assert!(plan.out.contains("a.w     f16"), "{}", plan.out);
    let pipe = ["convert", &source, "-", "--to", "zt", "--dtype", "f16"];
    assert!(holdall(pipe).ends_with(0).err.contains("2 numbers out of range of f16"));
}

#[test]
fn casting_a_named_tensor_without_floats_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (accept("ztensor/v1.2-dense_all.zt"), path(&dir, "x.zt"));
    for (rule, code) in [
        (&["t_i32=f16"][..], "convert/not-cast"),
        (&["t_bool=f16"], "convert/not-cast"),
        (&["t_*=f16"], ""),
        // In NumPy's notation.
        (&["float16"], ""),
        (&["t_f*=bfloat16"], ""),
        (&["float8_e4m3fn"], ""),
        (&["float4"], "convert/cast-rule"),
        (&["nothing=f16"], "select/nothing"),
        (&["i8"], "convert/cast-rule"),
        (&["t_f32="], "convert/cast-rule"),
        (&["f16", "--dtype", "bf16"], "convert/cast-rule"),
    ] {
        let args = [&["convert", &source, &out, "-f", "--json", "--dtype"][..], rule].concat();
        let found = holdall(args);
        match code {
            "" => drop(found.ends_with(0)),
            _ => assert_eq!(found.error()["code"], code, "{rule:?}"),
        }
    }
    holdall(["convert", &source, &out, "-f", "--saturate"]).ends_with(2);
    let error = holdall(["convert", &source, &out, "-f", "--dtype", "t_i32=f16"]);
    assert!(
        error.err.contains(
            "tensor `t_i32`: elements of i32 are not converted to f16 [convert/not-cast]"
        ),
        "{}",
        error.err
    );
}

#[test]
fn arrays_and_folders_of_them_are_converted() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("ztensor/v1.2-dense_all.zt");
    let (folder, out) = (dir.path().join("arrays/layers"), path(&dir, "out.zt"));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["t_f32", "t_i64"] {
        let npy = folder.join(format!("{name}.npy"));
        holdall(["extract", &source, name, "-o", npy.to_str().unwrap()]).ends_with(0);
    }
    holdall(["convert", &path(&dir, "arrays"), &out, "--rename", "layers.*=*"]).ends_with(0);
    let (before, after) = (content(&source), content(&out));
    assert_eq!(after.len(), 2);
    for (key, what) in &after {
        assert_eq!(&before[key], what, "{key}");
    }
    let one = path(&dir, "arrays/layers/t_f32.npy");
    holdall(["convert", &one, &out, "-f", "--dtype", "data=f16"]).ends_with(0);
    let empty = path(&dir, "empty");
    std::fs::create_dir(&empty).unwrap();
    let error = holdall(["convert", &empty, &out, "-f", "--json"]).error();
    assert_eq!((&error["code"], &error["source"]), (&json!("shards/no-model"), &json!(empty)));
}

#[test]
fn sparse_and_quantized_conversions_report_their_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = accept("../../examples/tiny.zt");
    let (out, back) = (path(&dir, "out.zt"), path(&dir, "back.zt"));
    let args = ["--quantize", "layers.0.*=group:4:8", "--sparse", "causal_mask=coo"];
    let ran = holdall([&["convert", &source, &out][..], &args].concat()).ends_with(0);
    assert!(ran.err.contains("1 tensor made sparse"), "{}", ran.err);
    assert!(ran.err.contains("`layers.0.attn.k.weight`: group:4:8, 512 B → "), "{}", ran.err);
    assert!(ran.err.contains("error at most"), "{}", ran.err);
    let ran = holdall([&["convert", &source, &out, "-f", "--json"][..], &args].concat());
    let report = ran.ends_with(0).json();
    let reformed = report["reformed"].as_array().unwrap();
    let of = |name: &str| reformed.iter().find(|r| r["name"] == name).unwrap();
    let (mask, k) = (of("causal_mask"), of("layers.0.attn.k.weight"));
    assert_eq!((&mask["form"], &mask["max_error"]), (&json!("coo"), &Json::Null));
    assert_eq!((&k["form"], &k["from_len"]), (&json!("group:4:8"), &json!(512)));
    assert!(!reformed.iter().any(|r| r["name"] == "layers.0.norm.weight"), "one dimension");
    // The largest error of the values read back equals the one in the report, and is reached by one element.
    holdall(["convert", &out, &back, "--dense"]).ends_with(0);
    let diff = holdall(["diff", "--json", &source, &back, "-s", "layers.0.attn.k.weight"]).json();
    let max = diff["changed"][0]["values"]["max_abs"].as_f64().unwrap();
    assert_eq!(Some(max), k["max_error"].as_f64());
    let same = holdall(["diff", "--json", &source, &back, "-s", "causal_mask"]).json();
    assert_eq!(same["values_agree"], true);
    let plan = holdall([&["convert", &source, &out, "-f", "-n", "--json"][..], &args].concat());
    let plan = plan.ends_with(0).json();
    assert_eq!(plan["reformed"].as_array().unwrap().len(), reformed.len());
    // If no tensor is eligible, that is reported.
    for (option, form, expected) in [
        ("--quantize", "group:4:8", "`--quantize`: no tensor was quantized"),
        ("--sparse", "csr", "`--sparse`: no tensor was made sparse"),
        ("--quantize", "keep", ""),
    ] {
        let args = ["convert", &source, &out, "-f", "-s", "layers.0.norm.weight", option, form];
        let ran = holdall(args).ends_with(0);
        assert!(ran.err.contains(expected), "{}", ran.err);
        assert_eq!(ran.err.contains("no tensor was"), !expected.is_empty(), "{}", ran.err);
    }
    let e = holdall(["convert", &source, &out, "-f", "--sparse", "group:4:8"]).ends_with(2);
    assert!(e.err.contains("is for `--quantize`"), "{}", e.err);
    let e = holdall(["convert", &source, &out, "-f", "--quantize", "bsr"]).ends_with(2);
    assert!(e.err.contains("[convert/form-rule]"), "{}", e.err);
}

/// Findings about the source are reported by every command that rewrites it.
#[test]
fn odd_sources_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("odd.safetensors");
    let header = r#"{"__metadata__":{"holdall.attributes":"no JSON"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
    std::fs::write(&source, bytes).unwrap();
    let target = dir.path().join("out.zt");
    let (source, target) = (source.to_str().unwrap(), target.to_str().unwrap());
    let out = holdall(["convert", source, target]).ends_with(0);
    assert!(out.err.contains("warning:") && out.err.contains("safetensors/restore"), "{}", out.err);
    let report = holdall(["convert", "--json", "--force", source, target]).ends_with(0).json();
    assert_eq!(report["warnings"][0]["code"], "safetensors/restore");
}

#[test]
fn models_are_written_in_several_files() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (accept("../../examples/tiny.zt"), path(&dir, "model"));
    let args = ["convert", &source, &out, "--dense", "--max-shard-size", "8KiB"];
    let plan = holdall([&args[..], &["-n", "--json"]].concat()).ends_with(0).json();
    let count = plan["files"].as_array().unwrap().len();
    let planned = holdall([&args[..], &["-n"]].concat()).ends_with(0);
    assert!(planned.out.contains(&format!(" decoded, {count} files")), "{}", planned.out);
    let report = holdall([&args[..], &["--json"]].concat()).ends_with(0).json();
    assert_eq!(report["files"], plan["files"]);
    let first = format!("model-00001-of-{:05}.safetensors", count - 1);
    assert_eq!(report["files"][0], json!(first));
    assert_eq!(report["files"][count - 1], "model.safetensors.index.json");
    assert_eq!(report["tensors"], 34);
    holdall(["verify", "--strict", &out]).ends_with(0);
    let e = holdall(args).ends_with(2);
    assert!(e.err.contains("[shards/target]") && e.err.contains("--force"), "{}", e.err);
    let parts = path(&dir, "parts");
    let gguf = ["convert", &source, &parts, "--max-shard-size", "8KB", "--to", "gguf"];
    let gguf = [&gguf[..], &["--dense", "-s", "*.attn.*"]].concat();
    let ran = holdall(&gguf).ends_with(0);
    assert!(ran.err.contains("GGUF 3") && ran.err.contains(" files"), "{}", ran.err);
    holdall(["verify", &parts]).ends_with(0);
    holdall(["convert", &source, "-", "--max-shard-size", "8KB"]).ends_with(2);
    let e = holdall(["convert", &source, &out, "--max-shard-size", "much"]).ends_with(2);
    assert!(e.err.contains("not a number of bytes"), "{}", e.err);
    // Split by number of tensors.
    let each = path(&dir, "each");
    let args = ["convert", &source, &each, "--dense", "--max-shard-tensors", "10", "--json"];
    let report = holdall(args).ends_with(0).json();
    assert_eq!(report["files"].as_array().unwrap().len(), 34usize.div_ceil(10) + 1);
    holdall(["verify", "--strict", &each]).ends_with(0);
    holdall(["convert", &source, "-", "--max-shard-tensors", "1"]).ends_with(2);
    holdall(["convert", &source, &each, "--max-shard-tensors", "0"]).ends_with(2);
}

/// Files of a conversion killed between writing external data and writing the model are removed by the next run; files
/// that belong to a model or to the user stay.
#[test]
fn external_data_of_a_killed_conversion_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let graph = accept("onnx/onnx_raw_data.onnx");
    let (weights, model, note) = (path("w.zt"), path("m.onnx"), path(".m.onnx.holdall-external"));
    holdall(["convert", &graph, &weights]).ends_with(0);
    let convert = || {
        holdall(["convert", &weights, &model, "--graph", &graph, "--external", "0", "-f"])
            .ends_with(0);
        let mut all: Vec<_> = dir
            .path()
            .read_dir()
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        all.sort();
        all
    };
    std::fs::write(&note, "m.onnx.data").unwrap();
    std::fs::write(path("m.onnx.data"), "half").unwrap();
    std::fs::write(path("m.onnx.7.data"), "of somebody else").unwrap();
    assert_eq!(convert(), ["m.onnx", "m.onnx.7.data", "m.onnx.data", "w.zt"]);
    holdall(["verify", &model]).ends_with(0);
    // The model was published, and only the note remained.
    std::fs::write(&note, "m.onnx.data").unwrap();
    assert_eq!(convert(), ["m.onnx", "m.onnx.2.data", "m.onnx.7.data", "w.zt"]);
    holdall(["verify", &model]).ends_with(0);
    // A note that names any other file is ignored.
    std::fs::write(&note, "w.zt").unwrap();
    assert_eq!(convert(), ["m.onnx", "m.onnx.7.data", "m.onnx.data", "w.zt"]);
}
