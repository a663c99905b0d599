//! Python models in separate processes: inputs, outputs, and all ways to end. Skipped, with a message, without a Python
//! interpreter that has NumPy.
#![cfg(unix)]

mod models;

use holdall::carton::{Description, OptionValue, TensorValue};
use holdall::{Error, Result};
use holdall_run::{LogLine, Model, NamedValues, Settings};
use models::{description, python, value};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns `true` if there is an interpreter that can run models.
fn can_run() -> bool {
    let ran = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    let can = ran.is_ok_and(|out| out.status.success());
    if !can {
        eprintln!("SKIPPED: there is no python3 with numpy");
    }
    can
}

fn folder(code: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.py"), code).unwrap();
    folder
}

fn settings() -> Settings {
    Settings::default().with_timeout(Duration::from_secs(60))
}

/// Loads a model whose `load` returns the function `run`.
fn load_with(
    d: Description,
    code: &str,
    settings: &Settings,
) -> Result<(tempfile::TempDir, Model)> {
    let folder = folder(&format!("{code}\ndef load():\n    return run\n"));
    Model::load_folder(d, folder.path(), settings).map(|model| (folder, model))
}

fn x(value: TensorValue) -> NamedValues {
    vec![("x".to_owned(), value)]
}

fn any() -> Description {
    let mut d = python(&[], &[]);
    d.model_name = Some("any".to_owned());
    d
}

#[test]
fn values_of_every_kind_go_there_and_back() {
    if !can_run() {
        return;
    }
    let code = "
import numpy as np
def run(inputs):
    for name, a in inputs.items():
        if name != 'nested':
            assert isinstance(a, np.ndarray), name
    return inputs
";
    let (_folder, mut model) = load_with(any(), code, &settings()).unwrap();
    let big: Vec<f64> = (0..400_000).map(f64::from).collect();
    let part =
        |n: u64| TensorValue::from_elements(vec![n, 1], &vec![n as f32; n as usize]).unwrap();
    let texts = ["a", "", "ü𝄞", "zero\0"].map(str::to_owned).to_vec();
    let inputs: NamedValues = [
        (
            "f32",
            TensorValue::from_elements(
                vec![2, 2],
                &[1f32, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE],
            ),
        ),
        ("f64", TensorValue::from_elements(vec![], &[0.1f64])),
        ("i8", TensorValue::from_elements(vec![2], &[i8::MIN, 1])),
        ("i16", TensorValue::from_elements(vec![1, 1, 2], &[i16::MIN, 1])),
        ("i32", TensorValue::from_elements(vec![2], &[i32::MIN, 1])),
        ("i64", TensorValue::from_elements(vec![2], &[i64::MIN, 1])),
        ("u8", TensorValue::from_elements(vec![2], &[u8::MAX, 1])),
        ("u16", TensorValue::from_elements(vec![2], &[u16::MAX, 1])),
        ("u32", TensorValue::from_elements(vec![2], &[u32::MAX, 1])),
        ("u64", TensorValue::from_elements(vec![2], &[u64::MAX, 1])),
        ("none", TensorValue::from_elements(vec![0, 4], &[0f32; 0])),
        ("big", TensorValue::from_elements(vec![400, 1000], &big)),
        ("texts", TensorValue::strings(vec![2, 2], texts)),
        ("text", TensorValue::strings(vec![], vec!["scalar".to_owned()])),
        ("nested", TensorValue::nested(vec![part(3), part(1)])),
    ]
    .map(|(name, value)| (name.to_owned(), value.unwrap()))
    .to_vec();
    assert_eq!(model.run(inputs.clone()).unwrap(), inputs);
    // A second time, in the same process.
    assert_eq!(model.run(inputs.clone()).unwrap(), inputs);
}

#[test]
fn the_three_forms_of_a_model_are_taken() {
    if !can_run() {
        return;
    }
    let original = "
class Model:
    def infer_with_tensors(self, tensors):
        return {'y': tensors['x'] + 1}
def load():
    return Model()
";
    let sealing = "
from .parts.more import ADD
import other
class Model:
    def __init__(self):
        self.sealed = {}
    def seal(self, tensors):
        self.sealed[7] = tensors
        return 7
    def infer_with_handle(self, handle):
        return {'y': self.sealed.pop(handle)['x'] + ADD * other.ONE}
def load():
    return Model()
";
    for code in [
        original,
        sealing,
        "def run(t):\n    return {'y': t['x'] + 1}\ndef load():\n    return run\n",
    ] {
        let folder = folder(code);
        std::fs::create_dir(folder.path().join("parts")).unwrap();
        std::fs::write(folder.path().join("parts/more.py"), "ADD = 1\n").unwrap();
        std::fs::write(folder.path().join("other.py"), "ONE = 1\n").unwrap();
        let d = python(&[("x", "n")], &[("y", "n")]);
        let mut model = Model::load_folder(d, folder.path(), &settings()).unwrap();
        let out = model.run(x(TensorValue::from_elements(vec![2], &[1f32, 2.0]).unwrap())).unwrap();
        assert_eq!(
            out,
            [("y".to_owned(), TensorValue::from_elements(vec![2], &[2f32, 3.0]).unwrap())],
            "{code}"
        );
        assert!(!folder.path().join("__pycache__").exists());
    }
}

#[test]
fn printed_text_goes_to_the_log() {
    if !can_run() {
        return;
    }
    let lines: Arc<Mutex<Vec<LogLine>>> = Arc::default();
    let keep = lines.clone();
    let settings = settings().with_log(move |line| keep.lock().unwrap().push(line));
    let code = "
import os, sys
print('loading')
def run(inputs):
    print('running', inputs['x'].shape)
    print('oops', file=sys.stderr)
    os.system('echo from a child')
    sys.stdout.write('x' * 70000 + chr(10))
    assert sys.stdin.read() == ''
    return inputs
";
    let (_folder, mut model) = load_with(any(), code, &settings).unwrap();
    model.run(x(value(&[2]))).unwrap();
    drop(model);
    // No output is lost when the model ends.
    let has = |is_error: bool, text: &str| {
        lines.lock().unwrap().iter().any(|l| l.is_error == is_error && l.text == text)
    };
    let all = || {
        has(false, "loading")
            && has(false, "running (2,)")
            && has(true, "oops")
            && has(false, "from a child")
            && has(false, &"x".repeat(65536))
    };
    assert!(all(), "{:?}", lines.lock().unwrap());
}

#[test]
fn a_generator_streams() {
    if !can_run() {
        return;
    }
    let code = "
def run(inputs):
    for n in range(3):
        yield {'y': inputs['x'] * n}
    if inputs['x'][0] < 0:
        raise ValueError('negative')
";
    let d = python(&[("x", "n")], &[("y", "n")]);
    let (_folder, mut model) = load_with(d, code, &settings()).unwrap();
    let mut seen = Vec::new();
    let mut run = |first: f32, stop: usize| {
        seen.clear();
        let ran = model.run_streaming(
            x(TensorValue::from_elements(vec![1], &[first]).unwrap()),
            &mut |out| {
                seen.push(out);
                match seen.len() == stop {
                    true => Err(holdall_run::rules::NOTHING.broken("enough")),
                    false => Ok(()),
                }
            },
        );
        (seen.len(), ran.map_err(|e| (e.code(), e.message().to_owned())))
    };
    assert_eq!(run(1.0, 9), (3, Ok(())));
    let failed = (3, Err(("runner/failed", "ValueError: negative".to_owned())));
    assert_eq!(run(-1.0, 9), failed);
    // The receiver may stop, and the model can still be run.
    assert_eq!(run(1.0, 1), (1, Err(("run/nothing", "enough".to_owned()))));
    assert_eq!(run(2.0, 9), (3, Ok(())));
}

/// Returns the error of loading or running a model, which must not take long.
fn error_of(code: &str, settings: &Settings) -> Error {
    let start = Instant::now();
    let d = python(&[("x", "n")], &[("y", "n")]);
    let e = match load_with(d, code, settings) {
        Err(e) => e,
        Ok((_folder, mut model)) => {
            let e = model.run(x(value(&[2]))).unwrap_err();
            let again = model.run(x(value(&[2]))).unwrap_err();
            let lives = e.code() == "runner/failed" || !e.code().starts_with("runner/");
            assert_eq!(again.code() == "run/closed", !lives, "{e}, then {again}");
            e
        }
    };
    // Generous, because other tests run at the same time.
    assert!(start.elapsed() < Duration::from_secs(50), "{e} after {:?}", start.elapsed());
    e
}

#[test]
fn every_exit_of_a_model_is_reported() {
    if !can_run() {
        return;
    }
    let garbage = "
import os, stat
def run(t):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, GARBAGE)
        except OSError:
            pass
    import time; time.sleep(60)
";
    let cases: [(&str, &str, &str); 22] = [
        ("def run(t): raise ValueError('\\ud800')", "runner/failed", "ValueError: \\ud800"),
        ("def run(t): return {'\\ud800': t['x']}", "python/output", "the name `\\ud800` of an"),
        ("def run(t): raise ValueError('x' * (80 << 20))", "runner/failed", "ValueError: xxx"),
        ("def run(t): import os; os._exit(3)", "runner/died", "the runner ended with status 3"),
        (
            "def run(t): import os; os.kill(os.getpid(), 11)",
            "runner/died",
            "the runner was ended by signal 11",
        ),
        ("import os; os._exit(0)", "runner/died", "the runner ended with status 0"),
        ("def run(t): return {'y': 1 / 0}", "runner/failed", "ZeroDivisionError: division by zero"),
        ("def run(t): raise SystemExit(4)", "runner/failed", "SystemExit: 4"),
        (
            "def run(t): return {'y': t['x'][:1]}",
            "signature/output-symbol",
            "dimension 0 of output `y` is 1",
        ),
        ("def run(t): return {'z': t['x']}", "signature/output-unknown", "there is no output `z`"),
        (
            "def run(t): return {'y': t['x'].astype('f8')}",
            "signature/output-type",
            "output `y` is float64",
        ),
        ("def run(t): return {'y': t['x'] > 0}", "python/output", "output `y` is an array of bool"),
        (
            "def run(t): return {'y': t['x'] + 1j}",
            "python/output",
            "output `y` is an array of complex",
        ),
        ("def run(t): return {'y': object()}", "python/output", "output `y` is an array of object"),
        ("def run(t): return {1: t['x']}", "python/output", "the name of an output is an int"),
        ("def run(t): return t['x']", "python/output", "the model returned a ndarray, not a dict"),
        ("def run(t): return None", "python/output", "the model returned None, not a dict"),
        ("def run(t): return iter(())", "run/nothing", "the model returned no outputs"),
        (
            "import nowhere",
            "python/load",
            "module `main` cannot be imported: No module named 'nowhere'",
        ),
        ("raise KeyError('k')", "python/load", "module `main`: KeyError: 'k'"),
        ("run = 3", "python/entry", "`main.load` returned an int, which"),
        ("def run(t) return", "python/load", "module `main`: SyntaxError"),
    ];
    for (code, rule, says) in cases {
        let e = error_of(code, &settings());
        assert_eq!(e.code(), rule, "{code}: {e}");
        assert!(e.message().starts_with(says), "{code}: {e}");
    }
    for (bytes, rule) in [
        ("b'garbage on the wire'", "runner/frame"),
        ("bytes(16)", "runner/frame"),
        // A frame that is too long, one whose header is not JSON, one that was not requested.
        ("bytes([6, 0, 0, 0, 3, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0])", "runner/frame-limit"),
        ("bytes([6, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 120])", "runner/frame"),
        ("bytes([4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 123, 125])", "runner/order"),
        ("bytes([7, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 123, 125])", "runner/order"),
    ] {
        let e = error_of(&garbage.replace("GARBAGE", bytes), &settings());
        assert_eq!(e.code(), rule, "{bytes}: {e}");
    }
}

#[test]
fn the_last_words_of_a_model_are_in_the_hint() {
    if !can_run() {
        return;
    }
    let code = "def run(t): import os, sys; print('out of luck', file=sys.stderr); os._exit(1)";
    let e = error_of(code, &settings());
    assert!(e.hint().unwrap().contains("out of luck"), "{:?}", e.hint());
}

/// The model never pauses, and each of its items is in time.
#[test]
fn a_model_that_streams_without_end_is_stopped() {
    if !can_run() {
        return;
    }
    for pause in ["pass", "time.sleep(0.5)"] {
        let code = format!(
            "import time\ndef run(t):\n    while True:\n        yield {{'y': t['x']}}\n        {pause}"
        );
        let start = Instant::now();
        let e = error_of(&code, &settings().with_timeout(Duration::from_secs(5)));
        assert_eq!(e.code(), "runner/timeout", "{e}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

#[test]
fn a_model_that_hangs_is_killed_with_its_children() {
    if !can_run() {
        return;
    }
    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("alive");
    // A child process that would write a file after the time limit, if it were not killed with its group.
    let code = format!(
        "
import subprocess
def run(t):
    subprocess.Popen(['sh', '-c', 'sleep 6; echo > {}'])
    while True: pass
",
        mark.display()
    );
    let start = Instant::now();
    let e = error_of(&code, &settings().with_timeout(Duration::from_secs(4)));
    assert_eq!(e.code(), "runner/timeout", "{e}");
    std::thread::sleep(Duration::from_secs(12).saturating_sub(start.elapsed()));
    assert!(!Path::new(&mark).exists());
}

/// The specification requires that models run without options for their runner.
#[test]
fn a_model_needs_no_options() {
    if !can_run() {
        return;
    }
    let code = "
def load():
    return lambda inputs: {'y': inputs['x'] + 1}
def other():
    return lambda inputs: {'y': inputs['x'] + 2}
";
    let dir = folder(code);
    let input = x(TensorValue::from_elements(vec![1], &[1f32]).unwrap());
    for (options, wanted) in [
        (&[][..], 2f32),
        (&[("entrypoint_package", "main")][..], 2.0),
        (&[("entrypoint_fn", "other")][..], 3.0),
    ] {
        let mut d = description("python", &[], &[]);
        for (name, value) in options {
            d.runner.options.push(((*name).to_owned(), OptionValue::String((*value).to_owned())));
        }
        let mut model = Model::load_folder(d, dir.path(), &settings()).unwrap();
        let y = TensorValue::from_elements(vec![1], &[wanted]).unwrap();
        assert_eq!(model.run(input.clone()).unwrap(), [("y".to_owned(), y)], "{options:?}");
    }
    // A missing module.
    std::fs::rename(dir.path().join("main.py"), dir.path().join("model.py")).unwrap();
    let e = Model::load_folder(description("python", &[], &[]), dir.path(), &settings());
    let e = e.map(|_| ()).unwrap_err();
    assert_eq!((e.code(), e.message()), ("python/entry", "there is no module `main` in `model`"));
}

#[test]
fn missing_entry_points_and_interpreters_are_errors() {
    if !can_run() {
        return;
    }
    let dir = folder("def other():\n    return 1\n");
    let load = |d: Description, settings: &Settings| {
        Model::load_folder(d, dir.path(), settings).map(|_| ()).unwrap_err()
    };
    // The defaults of the options.
    let e = load(description("python", &[], &[]), &settings());
    assert_eq!(
        (e.code(), e.message()),
        ("python/entry", "there is no function `load` in module `main`")
    );
    assert!(e.hint().unwrap().contains("runner.opts"));
    for (value, says) in [
        (OptionValue::Integer(1), "the option `entrypoint_fn` is not text"),
        (OptionValue::String(String::new()), "the option `entrypoint_fn` is empty"),
    ] {
        let mut d = description("python", &[], &[]);
        d.runner.options.push(("entrypoint_fn".to_owned(), value));
        let e = load(d, &settings());
        assert_eq!((e.code(), e.message()), ("python/entry", says));
    }
    let e = load(any(), &settings());
    assert_eq!(
        (e.code(), e.message()),
        ("python/entry", "there is no function `load` in module `main`")
    );
    let mut d = any();
    d.runner.options[0].1 = OptionValue::String("a.b".to_owned());
    assert_eq!(load(d, &settings()).message(), "there is no module `a.b` in `model`");

    let e = load(any(), &settings().with_python("/nowhere/python"));
    assert_eq!(e.code(), "python/interpreter");
    // A program that is not an interpreter ends, or sends nothing.
    let e = load(any(), &settings().with_python("true"));
    assert_eq!(e.code(), "runner/died");
    let mut d = any();
    d.runner.framework_version = "=2.7".to_owned();
    let e = load(d, &settings());
    assert_eq!(e.code(), "run/framework-version");
    assert!(
        e.message().starts_with("the package requires `=2.7`, the runner `python` has Python 3.")
    );
    let mut d = any();
    d.runner.framework_version = ">=3.8".to_owned();
    let e = load(d, &settings());
    assert_eq!(e.code(), "python/entry");
}

#[test]
fn a_call_that_is_no_longer_wanted_ends() {
    if !can_run() {
        return;
    }
    use std::sync::atomic::{AtomicBool, Ordering};
    let unwanted = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&unwanted);
    let settings = settings().with_cancelled(move || asked.load(Ordering::Relaxed));
    let code =
        "import time\ndef run(inputs):\n    time.sleep(float(inputs['x']))\n    return inputs";
    let (_folder, mut model) = load_with(any(), code, &settings).unwrap();
    let seconds = |n: f64| x(TensorValue::from_elements(Vec::new(), &[n]).unwrap());
    model.run(seconds(0.0)).unwrap();
    let flag = Arc::clone(&unwanted);
    let teller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::Relaxed);
    });
    let start = Instant::now();
    let e = model.run(seconds(60.0)).unwrap_err();
    teller.join().unwrap();
    assert_eq!(e.code(), "work/cancelled");
    assert!(start.elapsed() < Duration::from_secs(20));
    // A model whose call was cancelled cannot be run again.
    assert_eq!(model.run(seconds(0.0)).unwrap_err().code(), "run/closed");
    // If it is cancelled beforehand, loading does not begin.
    assert_eq!(load_with(any(), code, &settings).unwrap_err().code(), "work/cancelled");
}

/// Returns the strings that the code of `main.py` computes.
fn found(code: &str, settings: &Settings) -> Result<Vec<String>> {
    let code = format!(
        "import numpy as np, os\n{code}\ndef run(x):\n    return {{'y': np.array(ALL or [''])}}\n"
    );
    let (_folder, mut model) = load_with(any(), &code, settings)?;
    let outputs = model.run(NamedValues::new())?;
    match &outputs[0].1 {
        TensorValue::Strings { data, .. } => Ok(data.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_has_a_chosen_environment() {
    if !can_run() {
        return;
    }
    // Cargo sets variables in the environment of tests, which must not be passed on.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let code = "ALL = sorted('%s=%s' % item for item in os.environ.items())";
    let names = |settings: &Settings| found(code, settings).unwrap();
    let usual = names(&settings());
    assert!(usual.iter().any(|v| v.starts_with("PATH=")), "{usual:?}");
    assert!(!usual.iter().any(|v| v.starts_with("CARGO")), "{usual:?}");
    let more = settings()
        .with_inherited_variable("CARGO_MANIFEST_DIR")
        .with_variable("AWS_PROFILE", "a = b")
        .with_variable("PATH_OF_MINE", "");
    let more = names(&more);
    let own = format!("CARGO_MANIFEST_DIR={}", env!("CARGO_MANIFEST_DIR"));
    for variable in [own.as_str(), "AWS_PROFILE=a = b", "PATH_OF_MINE="] {
        assert!(more.iter().any(|v| v == variable), "{variable}: {more:?}");
    }
    assert_eq!(more.len(), usual.len() + 3);
    for wrong in [
        settings().with_inherited_variable("HOLDALL_NOT_SET"),
        settings().with_variable("A=B", "x"),
        settings().with_variable("", "x"),
    ] {
        assert_eq!(found(code, &wrong).unwrap_err().code(), "run/environment");
    }
    let debug = format!("{:?}", settings().with_variable("TOKEN", "hidden"));
    assert!(debug.contains("TOKEN") && !debug.contains("hidden"), "{debug}");
}

#[test]
fn a_model_has_no_descriptors_of_its_caller() {
    if !can_run() {
        return;
    }
    let secret = tempfile::NamedTempFile::new().unwrap();
    // Inheritable, as a shell or a library might leave it.
    rustix::io::fcntl_setfd(secret.as_file(), rustix::io::FdFlags::empty()).unwrap();
    let code = "
ALL = []
for number in range(3, 256):
    try:
        os.fstat(number)
    except OSError:
        continue
    ALL.append(os.readlink('/proc/self/fd/%d' % number) if os.path.exists('/proc/self/fd') else 'open')
";
    let open = found(code, &settings()).unwrap();
    // The connection, and the file that the module is read from.
    let others = open.iter().filter(|to| !to.starts_with("socket:") && !to.ends_with("main.py"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
    let sockets = open.iter().filter(|to| to.starts_with("socket:")).count();
    assert!(sockets <= 1, "{open:?}");
}
