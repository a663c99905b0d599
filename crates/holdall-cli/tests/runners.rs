//! Runners that are external programs, given on the command line or in a file; and folders of models without a
//! description.
#![cfg(feature = "run-onnx")]

use crate::command::{self, command, holdall, ran};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn xor() -> String {
    root().join("examples/xor").display().to_string()
}

/// Creates a folder with the graph of a test.
fn graph(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = root().join(format!("crates/holdall-run/tests/onnx/{name}.onnx"));
    std::fs::copy(from, folder.path().join("graph.onnx")).unwrap();
    folder
}

fn path(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().unwrap()
}

fn serve() -> Vec<String> {
    crate::command::words()
        .into_iter()
        .chain(["runner", "serve", "onnx"].map(str::to_owned))
        .collect()
}

#[test]
fn the_engine_is_a_runner_for_others() {
    let check = |more: &[&str]| {
        let args = ["runner", "check", "--json"].iter().chain(more).chain(&["--"]);
        let args = args.map(|arg| (*arg).to_owned()).chain(serve());
        holdall(args).ends_with(0).json()
    };
    let json = check(&[]);
    assert_eq!((&json["passed"], &json["failed"]), (&9.into(), &0.into()), "{json}");
    let json = check(&["--package", &xor()]);
    assert_eq!((&json["passed"], &json["failed"]), (&14.into(), &0.into()), "{json}");
    assert_eq!(json["trials"][0]["name"], "hello");
    let bad = holdall(["runner", "check", "--", "false"]).ends_with(1);
    assert!(bad.out.starts_with("failed  answers `hello`"), "{bad:?}");
    assert!(bad.out.ends_with("1 trial: 0 passed, 1 failed\n"), "{bad:?}");
    holdall(["runner", "check"]).ends_with(2);
    // Started by hand, the program has no peer to communicate with.
    assert_eq!(
        holdall(["runner", "serve", "onnx", "--json"]).ends_with(3).error()["code"],
        "runner/start"
    );
    assert_eq!(
        holdall(["runner", "serve", "x", "--json"]).ends_with(4).error()["code"],
        "run/no-runner"
    );
}

#[test]
fn programs_are_named_on_the_line_and_in_a_file() {
    let by = serve().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let passed = holdall(["test", &xor(), "--runner-command", &by]).ends_with(0);
    assert!(passed.out.ends_with("1 passed, 0 failed\n"), "{passed:?}");
    let gone = holdall(["test", &xor(), "--json", "--runner-command", "/no/such/runner"]);
    assert_eq!(gone.ends_with(3).error()["code"], "runner/start");
    holdall(["test", &xor(), "--runner-command", "'"]).ends_with(2);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("holdall/config.toml");
    std::fs::create_dir(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "[runners.onnx]\ncommand = [\"/no/such/runner\"]\n").unwrap();
    let code = |args: &[&str], variable: &str, value: &Path| {
        let ran =
            ran(command(args.iter().chain(&["--json"])).env(variable, value).output().unwrap());
        (
            ran.status,
            if ran.status == 0 { serde_json::Value::Null } else { ran.error()["code"].clone() },
        )
    };
    let test = ["test", &xor()];
    let started = (3, serde_json::json!("runner/start"));
    assert_eq!(code(&test, "HOLDALL_CONFIG", &config), started);
    assert_eq!(code(&test, "XDG_CONFIG_HOME", dir.path()), started);
    assert_eq!(code(&test, "XDG_CONFIG_HOME", Path::new("/no/such/folder")).0, 0);
    assert_eq!(code(&test, "HOLDALL_CONFIG", Path::new("/no/such/file")).1, "run/io");
    let named = ["test", &xor(), "--config", config.to_str().unwrap()];
    assert_eq!(code(&named, "HOLDALL_CONFIG", Path::new("")), started);
    // The command line takes precedence over the file.
    assert_eq!(code(&["test", &xor(), "--runner-command", &by], "HOLDALL_CONFIG", &config).0, 0);
    std::fs::write(&config, "[runners.onnx]").unwrap();
    assert_eq!(code(&named, "HOLDALL_CONFIG", Path::new("")).1, "run/config");
}

#[test]
fn a_call_with_a_time_limit_is_ended() {
    let folder = graph("endless");
    let start = Instant::now();
    let args =
        ["run", path(&folder), "--runner", "onnx", "-i", "x=[1]", "--timeout", "2", "--json"];
    let ran = holdall(args).ends_with(1);
    assert_eq!(ran.error()["code"], "runner/timeout");
    assert!(start.elapsed() < Duration::from_secs(30));
    #[cfg(target_os = "linux")]
    {
        // No process continues to compute.
        let serves = |pid: &Path| {
            let line = std::fs::read(pid.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let is_child = line.contains("runner\0serve\0onnx");
            let stat = std::fs::read_to_string(pid.join("stat")).unwrap_or_default();
            is_child
                && stat.contains(") R")
                && std::fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == folder.path())
        };
        let all = std::fs::read_dir("/proc").unwrap().map(|e| e.unwrap().path());
        assert_eq!(all.filter(|pid| serves(pid)).count(), 0);
    }
    let double = graph("double");
    let args =
        ["run", path(&double), "--runner", "onnx", "--timeout", "20", "-i", "x=[1]", "--json"];
    let code = holdall(args).ends_with(4).error()["code"].clone();
    assert_eq!(code, "onnx/width");
}

#[test]
fn a_folder_without_a_description_is_run() {
    let folder = graph("xor");
    let run = |more: &[&str]| holdall(["run", path(&folder), "--json"].iter().chain(more));
    let label = |ran: command::Ran| ran.ends_with(0).json()["label"].clone();
    let wanted = serde_json::json!({ "dtype": "int64", "shape": [1], "data": [1] });
    assert_eq!(label(run(&["--runner", "onnx", "[[1, 0]]"])), wanted);
    // Declared by hand, in place of the graph's declarations.
    let by_hand = ["--runner", "onnx", "--takes", "x: f32[n, 2]", "--gives", "label: i64[n]"];
    assert_eq!(label(run(&[&by_hand[..], &["-i", "x=[[1, 0]]"]].concat())), wanted);
    let code = |more: &[&str], status| run(more).ends_with(status).error()["code"].clone();
    assert_eq!(code(&[&by_hand[..], &["-i", "x=[[1]]"]].concat(), 2), "signature/input-size");
    assert_eq!(code(&["[[1, 0]]"], 1), "carton/missing-file");
    assert_eq!(code(&["--runner", "python", "[[1, 0]]"], 2), "package/runner");
    assert_eq!(code(&["--takes", "x: f32", "[[1, 0]]"], 2), "usage/arguments");
    run(&["--runner", "onnx", "--takes", "x"]).ends_with(2);
    let described = ["run", &xor(), "--runner", "onnx", "[[1, 0]]", "--json"];
    assert_eq!(holdall(described).ends_with(2).error()["code"], "package/part");
    let echo = tempfile::tempdir().unwrap();
    std::fs::create_dir(echo.path().join("model")).unwrap();
    let args = [
        "run",
        path(&echo),
        "--runner",
        "noop",
        "--framework-version",
        "1",
        "-i",
        "a=[2]",
        "--json",
    ];
    assert_eq!(holdall(args).ends_with(0).json()["a"]["data"], serde_json::json!([2]));
}

#[test]
fn a_folder_is_packed_as_its_graph_says() {
    let folder = graph("xor");
    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("xor.carton").display().to_string();
    let pack = |more: &[&str]| {
        holdall(["pack", path(&folder), "-f", "-o", &to, "--runner", "onnx"].iter().chain(more))
            .ends_with(0);
        holdall(["inspect", &to, "--json"]).ends_with(0).json()
    };
    let json = pack(&[]);
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["n", 2]));
    assert_eq!(json["outputs"][1]["name"], "label");
    assert_eq!(json["runner"]["required_framework_version"], ">=1.12, <2");
    let json = pack(&[
        "--takes",
        "x: f32[batch, 2]",
        "--gives",
        "p: float32 whole",
        "--gives",
        "label: i64",
    ]);
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["batch", 2]));
    assert_eq!(
        (&json["outputs"][0]["shape"], &json["outputs"][1]["shape"]),
        (&"whole".into(), &"*".into())
    );
    let ran = holdall(["run", &to, "-i", "x=[[0, 1]]", "--json"]).ends_with(0).json();
    assert_eq!(ran["label"]["data"], serde_json::json!([1]));
}
