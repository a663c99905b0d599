//! Exit statuses, and errors as text and as JSON.

use crate::command::{self, accept, files, holdall, holdall_with};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

#[test]
fn every_rejected_file_fails_with_the_code_it_is_named_after() {
    let rules = holdall(["rules", "--json"]).ends_with(0).json();
    let kinds: HashMap<&str, &str> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["code"].as_str().unwrap(), r["kind"].as_str().unwrap()))
        .collect();
    // Hundreds of processes are started: use all cores.
    let queue = Mutex::new(files("reject"));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().unwrap().pop() else { return };
                    fails_with_its_code(&path, &kinds);
                }
            });
        }
    });
}

fn fails_with_its_code(path: &Path, kinds: &HashMap<&str, &str>) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut parts = name.split('.');
    let code = format!("{}/{}", parts.next().unwrap(), parts.next().unwrap());
    let kind = kinds[code.as_str()];
    let path = path.to_str().unwrap();
    let mut found = holdall(["inspect", "--json", path]);
    if found.status == 0 {
        // The structure is valid and the fault is in the bytes of tensors: only `verify` finds it.
        found = holdall(["verify", "--json", path]);
        if found.err.is_empty() {
            let report = found.json();
            let findings = report["findings"].as_array().unwrap();
            let bad = findings.iter().any(|f| f["code"] == code);
            // Something that this version does not support is not a fault of the file.
            let mut unverified = report["unverified"].as_array().into_iter().flatten();
            let in_brackets = format!("[{code}]");
            let beyond =
                unverified.any(|u| u["message"].as_str().is_some_and(|m| m.contains(&in_brackets)));
            let status = if bad {
                1
            } else if beyond {
                4
            } else {
                0
            };
            assert_eq!(found.status, status, "{path}");
            if bad || beyond {
                return;
            }
            // The remaining components cannot be made into a dense tensor.
            let args = ["--dense", "--json", "--format", "raw", "-o", "-"];
            found = holdall([&["extract", path, "w"], &args[..]].concat());
        }
    }
    let error = found.error();
    assert_eq!(error["code"], code, "{path}: {error}");
    assert_eq!(error["kind"], kind, "{path}: {error}");
    assert_eq!(error["source"], path);
    let status = match kind {
        "malformed" | "integrity" => 1,
        "unsupported" | "limit" => 4,
        other => panic!("{path}: {other}"),
    };
    assert_eq!((found.status, found.out.as_str()), (status, ""), "{path}");
}

#[test]
fn error_objects_have_exactly_these_keys() {
    let found = holdall(["inspect", "--json", "no-such-file"]).ends_with(3);
    let error = found.error();
    let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
    let expected =
        ["code", "component", "hint", "kind", "message", "range", "remedies", "source", "tensor"];
    assert_eq!(keys, expected);
    assert_eq!((&error["kind"], &error["code"]), (&json!("io"), &json!("io/failed")));
    assert_eq!(error["tensor"], Json::Null);
    assert_eq!(found.err.lines().count(), 1);

    let bounds = command::corpus().join("reject/ztensor/index.bounds.past-end.zt");
    let error = holdall(["inspect", "--json", bounds.to_str().unwrap()]).ends_with(1).error();
    assert!(error["range"][0].is_u64() && error["range"][1].is_u64(), "{error}");
    assert!(error["tensor"].is_string() && error["component"] == "data", "{error}");
}

#[test]
fn wrong_arguments_end_with_2_and_are_json_when_asked() {
    for args in [
        &["inspct"][..],
        &["inspect"],
        &["inspect", "x", "--sort", "colour"],
        &["inspect", "x", "--digests"],
        &["inspect", "x", "--limit", "tensor=1"],
        &["inspect", "x", "--threads", "0"],
        &[],
    ] {
        let found = holdall(args).ends_with(2);
        assert_eq!(found.out, "");
        assert!(!found.err.is_empty() && !found.err.contains('\u{1b}'), "{found:?}");
        // Adding `--json` makes `--digests` valid.
        if args.contains(&"--digests") {
            continue;
        }
        let error = holdall([args, &["--json"]].concat()).ends_with(2).error();
        assert_eq!(error["code"], "usage/arguments", "{args:?}");
        assert_eq!(error["kind"], "misuse");
    }
    let error = holdall(["--json", "inspct"]).error();
    assert_eq!(error["hint"], "did you mean `inspect`?");
    assert_eq!(error["remedies"], json!([{"do": "did_you_mean", "name": "inspect"}]));
}

#[test]
fn misuse_and_missing_names_end_with_2() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let found = holdall(["inspect", &path, "-s", "t_f33"]).ends_with(2);
    assert!(found.err.contains("[select/nothing]"), "{found:?}");
    assert!(found.err.contains("hint: did you mean `t_f"), "{found:?}");
    let convert = ["convert", &path, "never", "--json"];
    for (wrong, like) in [
        (&["--to", "safetensor"][..], "safetensors"),
        (&["--to", "ztensor", "--dtype", "fp16"], "f16"),
    ] {
        let error = holdall([&convert[..], wrong].concat()).ends_with(2).error();
        assert_eq!(error["remedies"], json!([{"do": "did_you_mean", "name": like}]));
    }
    let found = holdall(["convert", &path, "never.foo"]).ends_with(2);
    assert!(
        found.err.contains("`--to`: one of ztensor, ") && found.err.contains("hdf5"),
        "{found:?}"
    );
    let error = holdall(["inspect", "--json", &path, "-s", "[z-a]"]).ends_with(2).error();
    assert_eq!(error["code"], "select/pattern");
    let found = holdall_with(["inspect", "-", "-"], b"").ends_with(2);
    assert!(found.err.contains("[usage/stdin-twice]"), "{found:?}");
}

#[test]
fn limits_end_with_4_and_can_be_changed() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let found = holdall(["inspect", &path, "--limit", "tensors=12"]).ends_with(4);
    assert!(found.err.contains("[index/too-many-tensors]"), "{found:?}");
    holdall(["inspect", &path, "--limit", "tensors=13"]).ends_with(0);

    let bytes = std::fs::read(&path).unwrap();
    let args = ["inspect", "-", "--limit"];
    let short = format!("stdin-len={}", bytes.len() - 1);
    let error = holdall_with([&args[..], &[&short, "--json"]].concat(), &bytes);
    assert_eq!(error.ends_with(4).error()["code"], "input/stdin-len");
    let enough = format!("stdin-len={}", bytes.len());
    holdall_with([&args[..], &[&enough]].concat(), &bytes).ends_with(0);

    let found = holdall_with(["inspect", "-"], b"OGGS, perhaps").ends_with(4);
    assert!(found.err.contains("[format/unknown]"), "{found:?}");
    let found = holdall_with(["inspect", "-"], b"").ends_with(1);
    assert!(found.err.contains("[format/empty]"), "{found:?}");
}

#[test]
fn rules_explain_every_code() {
    let found = holdall(["rules", "index/overlap"]).ends_with(0);
    assert!(found.out.contains("malformed, exit status 1"), "{found:?}");
    let found = holdall(["rules", "--json", "file/digest"]).ends_with(0).json();
    assert_eq!(found["kind"], "integrity");
    assert!(found["hint"].is_string() && found["sentence"].is_string());
    let error = holdall(["rules", "--json", "index/overlaps"]).ends_with(2).error();
    assert_eq!(error["hint"], "did you mean `index/overlap`?");
}

/// Each message names the option, the value given and the accepted values, with an example.
#[test]
fn values_that_cannot_be_read_are_answered_with_an_example() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let extract = ["extract", &path, "t_i16", "-o", "-", "--rows"];
    let convert = ["convert", &path, "never.zt"];
    for (args, option, given, example) in [
        (vec!["inspect", &path, "--limit", "tensors=abc"], "--limit", "abc", "tensors=16777216"),
        (vec!["inspect", &path, "--limit", "decoded-len=1Q"], "--limit", "1Q", "5GB"),
        (vec!["inspect", &path, "--limit", "tensors"], "--limit", "tensors", "tensors=1000"),
        (vec!["inspect", &path, "--threads", "0"], "--threads", "0", "for example 4"),
        ([&extract[..], &["5..2"]].concat(), "--rows", "5..2", "2..5"),
        ([&extract[..], &["-1..2"]].concat(), "--rows", "-1..2", "0..64"),
        ([&extract[..], &["a..b"]].concat(), "--rows", "a..b", "0..64"),
        ([&extract[..], &["2"]].concat(), "--rows", "2", "0..64"),
        ([&convert[..], &["--align", "abc"]].concat(), "--align", "abc", "64KiB"),
        ([&convert[..], &["--encoding", "gzip"]].concat(), "--encoding", "gzip", "zstd:9"),
        ([&convert[..], &["--encoding", "zstd:99"]].concat(), "--encoding", "zstd:99", "zstd:9"),
        ([&convert[..], &["--digest", "md5"]].concat(), "--digest", "md5", "sha256"),
        (vec!["serve", &path, "--listen", "here:1"], "--listen", "here:1", "127.0.0.1:4433"),
        (vec!["serve", &path, "--clients", "0"], "--clients", "0", "for example 4"),
        (vec!["diff", &path, &path, "--rtol", "-1"], "--rtol", "-1", "1e-5"),
        (vec!["diff", &path, &path, "--atol", "x"], "--atol", "x", "1e-5"),
    ] {
        let found = holdall(&args).ends_with(2);
        let first = found.err.split("\n\nFor more").next().unwrap();
        for part in [option, given, example] {
            assert!(first.contains(part), "{args:?}: {part} is not in {first}");
        }
    }
}

/// A full disk is reported, even by commands that write no tensor data.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_ends_with_3() {
    use std::process::Stdio;
    let path = accept("ztensor/v1.2-dense_all.zt");
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [
        &["inspect", &path][..],
        &["inspect", &path, "--json"],
        &["verify", &path],
        &["extract", &path, "t_i16", "-o", "-", "--format", "raw"],
        &["convert", &path, "-", "--to", "ztensor"],
        &["rules"],
        &["man"],
        &["--help"],
        &["inspect", "--help"],
        &["--version"],
    ] {
        let found = command::command(args).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(found.stderr).unwrap();
        assert_eq!(found.status.code(), Some(3), "{args:?}: {err}");
        assert!(err.contains("No space left"), "{args:?}: {err}");

        // The reader closed the pipe: that is not an error and prints no message.
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let found = command::command(args).stdout(write).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(found.stderr).unwrap();
        assert_eq!(found.status.code(), Some(0), "{args:?}: {err}");
        assert!(!err.contains("error") && !err.contains("panic"), "{args:?}: {err}");
    }
}

/// The same status as when the disk is full.
#[cfg(unix)]
#[test]
fn a_file_over_the_limit_on_their_size_ends_with_3() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to.zt");
    let args = ["convert", "--json", &accept("ztensor/v1.2-dense_all.zt"), to.to_str().unwrap()];
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).args(crate::command::words());
    let out = command.args(args).output().unwrap();
    let error: Json = serde_json::from_slice(&out.stderr).unwrap();
    assert_eq!((out.status.code(), &error["error"]["code"]), (Some(3), &json!("io/failed")));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn help_is_a_command_too() {
    let found = holdall(["help"]).ends_with(0);
    assert_eq!(found.out, holdall(["--help"]).ends_with(0).out);
    let found = holdall(["help", "convert"]).ends_with(0);
    assert_eq!(found.out, holdall(["convert", "--help"]).ends_with(0).out);
    holdall(["help", "nothing"]).ends_with(2);
}

#[test]
fn manual_pages_require_an_existing_folder() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none").to_str().unwrap().to_owned();
    let error = holdall(["man", "--dir", &missing, "--json"]).ends_with(3).error();
    assert_eq!((&error["code"], &error["source"]), (&json!("io/failed"), &json!(missing)));
    assert!(error["message"].as_str().unwrap().contains("does not exist"), "{error}");
    holdall(["man", "--dir", dir.path().to_str().unwrap()]).ends_with(0);
    assert!(dir.path().join("holdall-convert.1").exists());
}

/// As docs/cli.md says about `--json` for commands whose output is not JSON.
#[test]
fn scripts_and_pages_are_the_same_with_json() {
    for args in [&["completions", "bash"][..], &["man"], &["--help"], &["convert", "--help"]] {
        let with = holdall([args, &["--json"]].concat()).ends_with(0).out;
        assert_eq!(with, holdall(args).ends_with(0).out, "{args:?}");
    }
}

/// Every command names the kind of file if it is not a tensor file, and also names folders.
#[test]
fn files_of_other_kinds_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("page.safetensors"), "<!DOCTYPE html><title>Sign in</title>").unwrap();
    for args in [&["inspect"][..], &["verify"], &["unpack"], &["test"], &["run"], &["records"]] {
        let found = holdall([args, &[&at("page.safetensors")]].concat()).ends_with(4);
        assert!(found.err.contains("an HTML page titled “Sign in”"), "{found:?}");
        assert!(
            found.err.contains("hint: the server sent an error or a web page instead of the file"),
            "{found:?}"
        );
    }
    std::fs::write(at("a.csv"), "id,name\n1,a\n").unwrap();
    let found = holdall(["inspect", &at("a.csv")]).ends_with(4);
    assert!(found.err.contains("`holdall build` makes a dataset"), "{found:?}");

    // A valid file of another format is not a package.
    std::fs::write(at("empty.carton"), "").unwrap();
    let error = holdall(["inspect", "--json", &at("empty.carton")]).ends_with(1).error();
    assert_eq!(error["code"], "format/empty");
    for sound in
        ["safetensors/made-dtypes.safetensors", "numpy/npz_deflate.npz", "pytorch/torch_state.pt"]
    {
        let path = accept(sound);
        for command in ["unpack", "test", "run"] {
            let found = holdall([command, &path]);
            assert!(found.err.contains(", not a package"), "{found:?}");
        }
    }
    std::fs::create_dir(at("tables")).unwrap();
    std::fs::write(at("tables/a.csv"), "a\n1\n").unwrap();
    let found = holdall(["test", &at("tables")]);
    assert!(found.err.contains("no file of tensors"), "{found:?}");
    std::fs::create_dir(at("empty")).unwrap();
    let found = holdall(["inspect", &at("empty")]);
    assert!(found.err.contains("the folder is empty") && !found.err.contains("hint"), "{found:?}");
    std::fs::create_dir(at("hub")).unwrap();
    std::fs::copy(accept("safetensors/made-dtypes.safetensors"), at("hub/model.safetensors"))
        .unwrap();
    let found = holdall(["unpack", &at("hub")]);
    assert!(found.err.contains("has a model, but is not a package"), "{found:?}");
}

#[test]
fn tips_about_options_are_true() {
    let path = accept("ztensor/v1.2-dense_all.zt");
    let found = holdall(["inspect", &path, "--dtype", "f32"]).ends_with(2);
    assert!(found.err.contains("tip: `holdall convert`"), "{found:?}");
    assert!(found.err.contains("`--dtype`") && !found.err.contains("'-- "), "{found:?}");
    let found = holdall(["inspect", &path, "--nonsense"]).ends_with(2);
    assert!(!found.err.contains("tip:"), "{found:?}");
    let found = holdall(["convert", &path, "x.zt", "--ouput"]).ends_with(2);
    assert!(!found.err.contains("pass '--ouput' as a value"), "{found:?}");
    let found = holdall(["convert", &path, "x.zt", "--dtypes", "f16"]).ends_with(2);
    assert!(found.err.contains("'--dtype'"), "{found:?}");
    let error = holdall(["--json", "inspect", &path, "--dtype", "f32"]).ends_with(2).error();
    assert!(error["hint"].as_str().unwrap().contains("`--dtype`"), "{error}");
    // A target given to a command that does not accept one as an argument.
    let found = holdall(["unpack", &path, "out"]).ends_with(2);
    assert!(
        found.err.contains("tip: to name the output of `holdall unpack`, use `-o out`"),
        "{found:?}"
    );
    let error = holdall(["--json", "schema", "infer", &path, "out"]).ends_with(2).error();
    assert!(error["hint"].as_str().unwrap().contains("`-o out`"), "{error}");
    let found = holdall(["formats", "out"]).ends_with(2);
    assert!(!found.err.contains("tip:"), "{found:?}");
    // A target that is already given by `-o`.
    let found = holdall(["build", "lines.ndjson", "-o", "out.mt"]).ends_with(2);
    let tip = "tip: to name the records for `holdall build`, use `--records lines.ndjson`";
    assert!(found.err.contains(tip) && !found.err.contains("the output of"), "{found:?}");
    let found = holdall(["unpack", &path, "-o", "out", "more"]).ends_with(2);
    assert!(!found.err.contains("tip:"), "{found:?}");
    // An option for the target as the last argument.
    for option in ["-o", "-oout.zt", "--output"] {
        let found = holdall(["salvage", &path, option, "out.zt"]).ends_with(2);
        let tip = "tip: the last argument names the file to write: `holdall salvage <IN> <OUT>`";
        assert!(found.err.contains(tip) && !found.err.contains("similar"), "{found:?}");
    }
    for option in ["-t", "-tw", "--tensor=w"] {
        let found = holdall(["extract", &path, option, "-o", "w.npy"]).ends_with(2);
        let tip = "tip: the last argument names the tensor: `holdall extract <FILE> <TENSOR>`";
        assert!(found.err.contains(tip) && !found.err.contains("similar"), "{found:?}");
    }
    // A file or an address in place of a command.
    for given in [&path, "https://host/model.zt"] {
        let found = holdall([given]).ends_with(2);
        let tip = format!("tip: `holdall inspect {given}` shows its contents");
        assert!(found.err.contains(&tip) && !found.err.contains("similar"), "{found:?}");
        let error = holdall(["--json", given]).ends_with(2).error();
        assert!(error["hint"].as_str().unwrap().contains("holdall inspect"), "{error}");
    }
    let found = holdall(["inspekt", &path]).ends_with(2);
    assert!(found.err.contains("'inspect'"), "{found:?}");
    // A command that resembles no existing one, and one that is an option's name.
    let found = holdall(["nope", &path]).ends_with(2);
    assert!(!found.err.contains("tip:") && !found.err.contains("\n\n\n"), "{found:?}");
    let found = holdall(["stats", &path]).ends_with(2);
    assert!(found.err.contains("tip: `holdall inspect` has this option: `--stats`"), "{found:?}");
}

#[test]
fn help_on_help_is_help() {
    let help = holdall(["help"]).ends_with(0).out;
    assert!(help.contains("Commands:"), "{help}");
    assert_eq!(holdall(["help", "--help"]).ends_with(0).out, help);
    assert_eq!(holdall(["help", "-h"]).ends_with(0).out, help);
}

#[test]
fn an_address_of_no_known_scheme_is_no_missing_file() {
    for (given, hint) in [("ftp://host/a.zt", "`https://`"), ("file:///a.zt", "by its path")] {
        let error = holdall(["inspect", "--json", given]).ends_with(2).error();
        assert_eq!(error["code"], "http/scheme", "{error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{error}");
    }
}

#[test]
fn a_name_that_is_nearly_that_of_a_file_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::copy(accept("ztensor/v1.2-dense_all.zt"), path("model.zt")).unwrap();
    let error = holdall(["inspect", "--json", &path("modle.zt")]).ends_with(3).error();
    let hint = format!("did you mean `{}`?", path("model.zt"));
    assert_eq!((&error["code"], &error["hint"]), (&json!("io/failed"), &json!(hint)));
    let error = holdall(["inspect", "--json", &path("weights.bin")]).ends_with(3).error();
    assert_eq!((&error["code"], error["hint"].as_str()), (&json!("io/failed"), None));
}

#[test]
fn remote_files_are_not_edited() {
    let error = holdall(["edit", "--json", "s3://bucket/a.zt", "set", "a=b"]).ends_with(4).error();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("write/address"), &json!("write a file, and upload it"))
    );
}

/// Line breaks in the sentences below the examples are made by the printer, not by the text.
#[test]
fn sentences_of_help_fill_their_lines() {
    let help = holdall(["--help"]).ends_with(0).out;
    let list = help.split("\n\n").find_map(|part| part.strip_prefix("Commands:\n")).unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names: Vec<&str> = rows.filter_map(|row| row.split(' ').next()).collect();
    assert!(names.contains(&"serve"), "{names:?}");
    for name in names.into_iter().filter(|name| !["", "help"].contains(name)) {
        let help = holdall([name, "--help"]).ends_with(0).out;
        let notes = help.split_once("\nExamples:").map_or("", |(_, notes)| notes);
        let lines: Vec<&str> = notes.lines().collect();
        // Each example is on one line, or is broken deliberately.
        let mut examples = lines.iter().skip(1).take_while(|line| !line.is_empty());
        let fits = |line: &&str| line.contains("holdall ") || line.starts_with("    ");
        assert!(examples.all(fits), "{name}: {notes}");
        for pair in lines.windows(2) {
            let word = pair[1].split(' ').next().unwrap_or_default();
            let is_end = pair[0].starts_with(' ') || pair[0].ends_with(['.', ':']);
            let is_full = pair[0].chars().count() + 1 + word.chars().count() > 100;
            assert!(is_end || is_full || pair.contains(&""), "{name}: {pair:?}");
        }
    }
}
