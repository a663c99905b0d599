//! `holdall test` and `holdall run`.
#![cfg(feature = "run-onnx")]

use crate::command::{self, holdall, holdall_with};
use std::path::{Path, PathBuf};

fn xor() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xor").display().to_string()
}

/// Copies the package and changes its `carton.toml`.
fn changed(change: impl Fn(String) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in [
        "model/model.onnx",
        "tensor_data/index.toml",
        "tensor_data/tensor_0.bin",
        "tensor_data/tensor_1.bin",
        "tensor_data/tensor_2.bin",
    ] {
        let to = folder.path().join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(Path::new(&xor()).join(file), to).unwrap();
    }
    let text = std::fs::read_to_string(Path::new(&xor()).join("carton.toml")).unwrap();
    std::fs::write(folder.path().join("carton.toml"), change(text)).unwrap();
    folder
}

fn path(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().unwrap()
}

#[test]
fn self_tests_are_run_and_reported() {
    let ran = holdall(["test", &xor()]).ends_with(0);
    assert_eq!(ran.out.lines().last(), Some("1 self-test: 1 passed, 0 failed"));
    let json = holdall(["test", &xor(), "--json"]).ends_with(0).json();
    assert_eq!(json["passed"], 1);
    assert_eq!(json["tests"][0]["outputs"][1]["name"], "label");
    assert_eq!(json["tests"][0]["outputs"][1]["elements"], 4);
    assert_eq!(holdall(["test", &xor(), "--quiet"]).ends_with(0).out, "");
}

#[test]
fn a_self_test_that_fails_says_where() {
    let folder = changed(|text| text);
    // The first expected `p` is changed slightly.
    let at = folder.path().join("tensor_data/tensor_1.bin");
    let mut bytes = std::fs::read(&at).unwrap();
    bytes[1] ^= 0x80;
    std::fs::write(&at, bytes).unwrap();
    let ran = holdall(["test", path(&folder)]).ends_with(1);
    assert!(
        ran.out.contains(
            "failed  all four\n  p: 1 of 8 elements too far; first at [0, 0]: 1, expected 1.0039"
        ),
        "{ran:?}"
    );
    assert!(ran.out.ends_with("0 passed, 1 failed\n"), "{ran:?}");
    let report = || {
        let json = holdall(["test", path(&folder), "--json"]).ends_with(1).json();
        json["tests"][0]["outputs"][0].clone()
    };
    let p = report();
    assert_eq!(
        (&p["close"], &p["differ"], &p["first"]["index"][1]),
        (&false.into(), &1.into(), &0.into())
    );
    holdall(["test", path(&folder), "--atol", "0.1"]).ends_with(0);
    holdall(["test", path(&folder), "--atol", "-1"]).ends_with(2);
    // The package's tolerances are used.
    let text = std::fs::read_to_string(folder.path().join("carton.toml")).unwrap();
    let text = text.replace("[runner]", "[self_test.compare]\natol = 0.1\n\n[runner]");
    std::fs::write(folder.path().join("carton.toml"), text).unwrap();
    holdall(["test", path(&folder)]).ends_with(0);
    holdall(["test", path(&folder), "--atol", "0"]).ends_with(1);
    // An infinite difference is not equal, and NaN has no difference.
    let mut bytes = std::fs::read(&at).unwrap();
    bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    std::fs::write(&at, &bytes).unwrap();
    let ran = holdall(["test", path(&folder)]).ends_with(1);
    assert!(ran.out.contains("1, expected inf; the largest difference is infinite\n"), "{ran:?}");
    let infinite = serde_json::json!({ "$float": "inf" });
    let p = report();
    assert_eq!((&p["max_abs"], &p["max_rel"]), (&infinite, &infinite));
    bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&at, &bytes).unwrap();
    let ran = holdall(["test", path(&folder)]).ends_with(1);
    assert!(ran.out.contains("first at [0, 0]: 1, expected NaN\n"), "{ran:?}");
}

#[test]
fn packages_that_cannot_run_fail_with_a_code() {
    let swap = |from: &'static str, to: &'static str| {
        let folder = changed(|text| {
            assert!(text.contains(from));
            text.replace(from, to)
        });
        let ran = holdall(["test", path(&folder), "--json"]);
        let code = match ran.status {
            1 if !ran.out.is_empty() => ran.json()["tests"][0]["error"]["code"].clone(),
            _ => ran.error()["code"].clone(),
        };
        (ran.status, code.as_str().unwrap().to_owned())
    };
    let is = |status, code: &str| (status, code.to_owned());
    assert_eq!(swap("\"onnx\"", "\"torchscript\""), is(4, "run/no-runner"));
    assert_eq!(swap("version = \"1\"", "version = \"=3.1\""), is(4, "run/framework-version"));
    assert_eq!(swap("compat_version = 1", "compat_version = 7"), is(4, "run/compat-version"));
    let platforms = "spec_version = 1\nrequired_platforms = [\"riscv64gc-unknown-linux-gnu\"]";
    assert_eq!(swap("spec_version = 1", platforms), is(4, "run/platform"));
    assert_eq!(swap("name = \"x\"", "name = \"y\"\ninternal_name = \"z\""), is(1, "onnx/name"));
    assert_eq!(
        swap("\"label\"\ndtype = \"int64\"", "\"label\"\ndtype = \"float32\""),
        is(1, "signature/output-type")
    );
    assert_eq!(
        swap("[\"n\", 2]\ndescription = \"Rows", "[\"n\", 3]\ndescription = \"Rows"),
        is(1, "signature/input-size")
    );
}

#[test]
fn inputs_come_in_every_form_and_outputs_go_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rows: Vec<u8> = [1f32, 0.0, 1.0, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(at("x.bin"), &rows).unwrap();
    let json = r#"{"x": [[1, 0], [1, 1]]}"#;
    std::fs::write(at("x.json"), json).unwrap();
    let labels = |ran: command::Ran| ran.ends_with(0).json()["label"]["data"].clone();
    let want = serde_json::json!([1, 0]);
    let x = |what: &str| format!("x={what}");
    assert_eq!(labels(holdall(["run", &xor(), "--json", "--input", "x=[[1, 0], [1, 1]]"])), want);
    assert_eq!(labels(holdall(["run", &xor(), "--json", "-i", &x(&at("x.bin"))])), want);
    assert_eq!(labels(holdall(["run", &xor(), "--json", "--inputs", &at("x.json")])), want);
    let piped = holdall_with(["run", &xor(), "--json", "--inputs", "-"], json.as_bytes());
    assert_eq!(labels(piped), want);
    assert_eq!(labels(holdall(["run", &xor(), "[[1, 0], [1, 1]]", "--json"])), want);

    // Into files, one of which is then an input.
    let out = at("out");
    let ran = holdall(["run", &xor(), &at("x.bin"), "-o", &out]).ends_with(0);
    assert!(ran.out.is_empty() && ran.err.contains("label.npy"), "{ran:?}");
    let again = holdall(["run", &xor(), &at("x.bin"), "-o", &out, "--json"]).ends_with(2);
    assert_eq!(again.error()["code"], "write/exists");
    holdall(["run", &xor(), &at("x.bin"), "-o", &out, "--force"]).ends_with(0);
    let p = PathBuf::from(&out).join("p.npy");
    let back = holdall(["run", &xor(), "--json", "-i", &x(p.to_str().unwrap())]);
    assert_eq!(labels(back), serde_json::json!([1, 1]));

    let table = holdall(["run", &xor(), "[[1, 0]]"]).ends_with(0);
    assert!(table.out.contains("label   int64    [1]"), "{table:?}");
}

#[test]
fn outputs_with_invalid_file_names_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("model")).unwrap();
    let toml = "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"1\"\n\
                runner_compat_version = 1\n";
    std::fs::write(folder.path().join("carton.toml"), toml).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let to = out.to_str().unwrap();
    let package = path(&folder);
    let run = |input: &str, more: &[&str]| {
        holdall([&["run", package, "-i", "a=[1]", "-i", input, "-o", to, "--json"], more].concat())
    };
    for name in ["..", "b/c", ".hidden"] {
        let e = run(&format!("{name}=[1]"), &[]).ends_with(4).error();
        assert_eq!(e["code"], "output/name");
        assert!(!out.exists(), "{name}");
    }
    // A file at the path of the folder was named by the user.
    std::fs::write(&out, "file").unwrap();
    for more in [&[][..], &["--force"], &["--stream"]] {
        let e = run("b=[1]", more).ends_with(2).error();
        assert_eq!((&e["code"], &e["source"]), (&"write/exists".into(), &to.into()));
        // The hint does not suggest an option that would not help.
        assert!(!e["hint"].as_str().unwrap().contains("--force"), "{e}");
    }
    assert_eq!(std::fs::read(&out).unwrap(), b"file");
}

#[test]
fn invalid_inputs_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("x.bin").to_str().unwrap().to_owned();
    std::fs::write(&short, [0; 7]).unwrap();
    for (args, code) in [
        (vec!["-i", "x=nowhere.npy"], "io/failed"),
        (vec!["-i", "x=nowhere"], "input/value"),
        (vec!["-i", "x=[[\"a\", \"b\"]]"], "input/value"),
        (vec!["-i", "x=[1, 2]"], "signature/input-rank"),
        (vec!["-i", "z=[1, 2]"], "signature/input-unknown"),
        (vec![], "signature/input-missing"),
        (vec![short.as_str()], "input/raw-shape"),
        (vec!["[[1, 0]]", "[[1, 0]]"], "signature/position"),
        (vec!["--inputs", "/nowhere"], "io/failed"),
    ] {
        let ran = holdall(["run", &xor(), "--json"].into_iter().chain(args.iter().copied()));
        assert_eq!(ran.error()["code"], code, "{args:?}");
    }
    let stdin = holdall_with(["run", &xor(), "--json", "--inputs", "-"], b"[1]").ends_with(2);
    assert_eq!(stdin.error()["code"], "input/value");
    // Errors in inputs are reported before the model is loaded, which would fail here.
    let broken = changed(|text| text);
    std::fs::write(broken.path().join("model/model.onnx"), b"no graph").unwrap();
    for (input, code) in [(vec![], "signature/input-missing"), (vec!["[[1, 0]]"], "onnx/model")] {
        let ran = holdall(["run", path(&broken), "--json"].into_iter().chain(input));
        assert_eq!(ran.error()["code"], code);
    }
}

#[test]
fn invalid_arguments_are_explained() {
    let two = holdall(["run", &xor(), "[[1, 2]]", "[[1, 2]]", "--json"]);
    assert_eq!(two.ends_with(2).error()["code"], "signature/position");
    let large = holdall(["run", &xor(), "[[1, 1e400]]", "--json"]).ends_with(2).error();
    assert!(large["message"].as_str().unwrap().contains("too large for a float"), "{large}");
    let large = holdall(["run", &xor(), "-i", "x=[[1, 1e39]]", "--json"]).ends_with(2).error();
    assert_eq!((&large["code"], &large["tensor"]), (&"input/value".into(), &"x".into()));
    assert!(
        large["message"].as_str().unwrap().contains("`1e+39` is too large for float32"),
        "{large}"
    );
    let folder = tempfile::tempdir().unwrap();
    let npy = folder.path().join("x.npy");
    std::fs::write(&npy, b"\x93NUMPY").unwrap();
    let ran = holdall(["run", &xor(), "--inputs", npy.to_str().unwrap(), "--json"]);
    assert_eq!(ran.ends_with(2).error()["code"], "input/value");
    for (option, says) in
        [("--timeout", "write seconds"), ("--rtol", "expected a number of at least 0")]
    {
        let ran = holdall(["test", &xor(), option, "-1"]).ends_with(2);
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

#[test]
fn options_and_limits_are_taken() {
    let ran = holdall(["test", &xor(), "--option", "num_threads=1", "--option", "speed=fast"]);
    let ran = ran.ends_with(0);
    assert!(ran.err.contains("warning: the runner `onnx` has no option `speed`"), "{ran:?}");
    let e =
        holdall(["test", &xor(), "--option", "num_threads=many", "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "run/option");
    holdall(["test", &xor(), "--timeout", "0"]).ends_with(2);
    holdall(["test", "-"]).ends_with(2);
}

#[test]
fn a_python_model_runs_where_there_is_one() {
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("model")).unwrap();
    std::fs::write(
        folder.path().join("model/main.py"),
        "def run(inputs):\n    for word in inputs['text']:\n        print('saying', word)\n        \
         yield {'said': [word][0]}\ndef load():\n    return run\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("carton.toml"),
        "spec_version = 1\n[[input]]\nname = \"text\"\ndtype = \"string\"\nshape = [\"n\"]\n[[output]]\n\
         name = \"said\"\ndtype = \"string\"\nshape = []\n[runner]\nrunner_name = \"python\"\n\
         required_framework_version = \"3\"\nrunner_compat_version = 1\n[runner.opts]\n\
         entrypoint_package = \"main\"\nentrypoint_fn = \"load\"\n",
    )
    .unwrap();
    let input = "text=[\"a\", \"b\"]";
    let args = ["run", path(&folder), "-i", input, "--json", "--stream"];
    let ran = holdall(args).ends_with(0);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["said"]["data"]), (2, &"b".into()));
    assert!(ran.err.contains("model: saying a"), "{ran:?}");
    let out = folder.path().join("out");
    let to = out.to_str().unwrap();
    holdall(["run", path(&folder), "-i", input, "--stream", "-o", to]).ends_with(0);
    assert_eq!(std::fs::read_to_string(out.join("2/said.json")).unwrap(), "\"b\"\n");
    let e = holdall(["run", path(&folder), "-i", input, "--json", "--python", "/nowhere"]);
    assert_eq!(e.ends_with(4).error()["code"], "python/interpreter");
}

#[test]
fn a_python_model_receives_the_commands_inputs() {
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let package = python_package(
        "import os\nimport numpy as np\ndef run(inputs):\n    \
         return {'y': np.array(sorted('%s=%s' % v for v in os.environ.items()))}\n\
         def load():\n    return run\n",
    );
    let variables = |more: &[&str]| {
        let args = [&["run", path(&package), "--json"], more].concat();
        let json = holdall(args).ends_with(0).json();
        let all = json["y"]["data"].as_array().unwrap().clone();
        all.iter().map(|v| v.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Cargo sets this variable for every test.
    let own = format!("CARGO_MANIFEST_DIR={}", env!("CARGO_MANIFEST_DIR"));
    let usual = variables(&[]);
    assert!(usual.iter().any(|v| v.starts_with("PATH=")) && !usual.contains(&own), "{usual:?}");
    let more = variables(&["--env", "CARGO_MANIFEST_DIR", "--env", "MINE=a=b", "--env=EMPTY="]);
    for variable in [own.as_str(), "MINE=a=b", "EMPTY="] {
        assert!(more.iter().any(|v| v == variable), "{variable}: {more:?}");
    }
    assert_eq!(more.len(), usual.len() + 3);
    for wrong in ["HOLDALL_NOT_SET", "=x", ""] {
        let ran = holdall(["run", path(&package), "--json", "--env", wrong]);
        assert_eq!(ran.ends_with(2).error()["code"], "run/environment", "{wrong}");
    }
}

/// If the command is killed by a signal, neither files nor processes remain.
#[test]
#[cfg(unix)]
fn a_killed_command_leaves_no_files() {
    use std::time::{Duration, Instant};
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let (package, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(package.path().join("model")).unwrap();
    let started = package.path().join("started");
    let code = format!(
        "import os, time\ndef run(inputs):\n    open({started:?}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n\
         def load():\n    return run\n"
    );
    std::fs::write(package.path().join("model/main.py"), code).unwrap();
    let toml = "spec_version = 1\n[runner]\nrunner_name = \"python\"\nrequired_framework_version = \"3\"\n\
                runner_compat_version = 1\n[runner.opts]\nentrypoint_package = \"main\"\nentrypoint_fn = \"load\"\n";
    std::fs::write(package.path().join("carton.toml"), toml).unwrap();
    let mut command = command::command(["run", path(&package), "-i", "x=1"]);
    let mut running = command.env("TMPDIR", temporary.path()).spawn().unwrap();
    let files = || std::fs::read_dir(temporary.path()).unwrap().count();
    let wait = |until: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !until() {
            assert!(Instant::now() < end, "{} files", files());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&|| std::fs::read_to_string(&started).is_ok_and(|pid| !pid.is_empty()));
    assert_eq!(files(), 1);
    running.kill().unwrap();
    running.wait().unwrap();
    wait(&|| files() == 0);
    let pid = std::fs::read_to_string(&started).unwrap();
    let is_running = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    wait(&|| !is_running());
}

/// On a signal that can be handled, the files are removed before the command exits. A streaming model notices by
/// itself.
#[test]
#[cfg(unix)]
fn an_interrupted_command_leaves_no_files() {
    use std::time::{Duration, Instant};
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let sleeps = "        time.sleep(600)";
    let streams = "        yield {'y': inputs['x']}";
    for (signal, body, at_once) in [("-TERM", sleeps, true), ("-KILL", streams, false)] {
        let temporary = tempfile::tempdir().unwrap();
        let started = temporary.path().join("started");
        let (inside, log) = (temporary.path().join("in"), started.display());
        std::fs::create_dir(&inside).unwrap();
        let package = python_package(&format!(
            "import time\ndef run(inputs):\n    open('{log}', 'w').close()\n    while True:\n{body}\n\
             def load():\n    return run\n"
        ));
        let mut command = command::command(["run", path(&package), "-i", "x=1"]);
        let mut running = command.env("TMPDIR", &inside).spawn().unwrap();
        let wait = |until: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(60);
            while !until() {
                assert!(Instant::now() < end, "{signal}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let files = || std::fs::read_dir(&inside).unwrap().count();
        wait(&|| started.exists());
        assert_eq!(files(), 1);
        let pid = running.id().to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
        assert!(!running.wait().unwrap().success());
        if at_once {
            assert_eq!(files(), 0);
        }
        wait(&|| files() == 0);
    }
}

/// A signal that the parent process ignores, as `nohup` does, stays ignored.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_is_ignored_stays_so() {
    use std::process::Command;
    use std::time::{Duration, Instant};
    let numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (started, go) = (folder.path().join("started"), folder.path().join("go"));
    let (first, second) = (started.display(), go.display());
    let package = python_package(&format!(
        "import os, time\ndef run(inputs):\n    open('{first}', 'w').close()\n    \
         while not os.path.exists('{second}'):\n        time.sleep(0.01)\n    return {{'y': inputs['x']}}\n\
         def load():\n    return run\n"
    ));
    let mut running = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .args(crate::command::words())
        .args(["run", path(&package), "-i", "x=1", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !started.exists() {
        assert!(Instant::now() < end && running.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    // Wait long enough for the process to end if it did not ignore the signal.
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(go, "").unwrap();
    let out = running.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

/// A failure of the model is not reported as a failure of the system.
#[test]
#[cfg(unix)]
fn a_model_that_dies_or_hangs_is_bad() {
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let package = python_package("import os\ndef load():\n    os._exit(1)\n");
    for command in ["test", "run"] {
        let ran = holdall([command, path(&package), "--json"]).ends_with(1);
        assert!(ran.err.contains("runner/died"), "{ran:?}");
    }
    let package = python_package("import time\ndef load():\n    time.sleep(60)\n");
    let ran = holdall(["run", path(&package), "--json", "--timeout", "3"]).ends_with(1);
    assert!(ran.err.contains("runner/timeout"), "{ran:?}");
}

/// The package of the guide, with its files copied from the text.
#[test]
fn the_python_model_of_the_guide_runs() {
    let numpy = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: there is no python3 with numpy");
        return;
    }
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, after) = guide.split_once("A Python model is a folder like this one").unwrap();
    let block = |kind: &str| {
        let (_, block) = after.split_once(&format!("```{kind}\n")).unwrap();
        block.split_once("```").unwrap().0
    };
    let package = python_package(block("python"));
    std::fs::write(package.path().join("carton.toml"), block("toml")).unwrap();
    let ran = holdall(["run", path(&package), "[1, 2]", "--json"]).ends_with(0);
    assert_eq!(ran.json()["y"]["data"][1], 4.0);
}

/// Creates a package of a Python model that declares no inputs or outputs.
fn python_package(code: &str) -> tempfile::TempDir {
    let package = tempfile::tempdir().unwrap();
    std::fs::create_dir(package.path().join("model")).unwrap();
    std::fs::write(package.path().join("model/main.py"), code).unwrap();
    let toml = "spec_version = 1\n[runner]\nrunner_name = \"python\"\nrequired_framework_version = \"3\"\n\
                runner_compat_version = 1\n[runner.opts]\nentrypoint_package = \"main\"\nentrypoint_fn = \"load\"\n";
    std::fs::write(package.path().join("carton.toml"), toml).unwrap();
    package
}

/// A real encoder, built by `interop/onnx/minilm.py`: its self-test, and sentences of one or more tokens.
#[test]
#[ignore = "needs a real model: cargo xtask interop"]
fn a_real_encoder_returns_the_same_as_numpy() {
    let package = std::env::var("HOLDALL_MINILM").expect("`cargo xtask interop` runs this test");
    // Packing twice gives the same bytes, and the package is sound.
    let folder = tempfile::tempdir().unwrap();
    let [once, twice] = ["once", "twice"]
        .map(|name| folder.path().join(format!("{name}.carton")).to_str().unwrap().to_owned());
    for packed in [&once, &twice] {
        holdall(["pack", &package, "-o", packed]).ends_with(0);
    }
    assert!(std::fs::read(&once).unwrap() == std::fs::read(&twice).unwrap());
    holdall(["verify", "--strict", &once]).ends_with(0);
    let package = once;
    let json = holdall(["test", &package, "--json"]).ends_with(0).json();
    assert_eq!((&json["passed"], &json["failed"]), (&1.into(), &0.into()));
    let output = &json["tests"][0]["outputs"][0];
    assert_eq!((&output["elements"], &output["differ"]), (&(3 * 384).into(), &0.into()));
    let args = ["run", &package, "--json", "[[101, 102], [101, 102]]", "[[1, 1], [1, 0]]"];
    let json = holdall(args).ends_with(0).json();
    assert_eq!(json["embedding"]["shape"], serde_json::json!([2, 384]));
    for row in json["embedding"]["data"].as_array().unwrap() {
        let norm: f64 = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{norm}");
    }
    // Both inputs use the same symbol.
    let args = ["run", &package, "--json", "[[101, 102]]", "[[1, 1, 1]]"];
    assert_eq!(holdall(args).ends_with(2).error()["code"], "signature/input-symbol");
}
