//! External runners: a runner in Python that is correct or has one defect; configuration files. Skipped, with a
//! message, without a Python interpreter that has NumPy.
#![cfg(unix)]

mod models;

use holdall::carton::{Description, OptionValue, Package, Packer, TensorValue};
use holdall_run::process::check::{CheckResult, check};
use holdall_run::{Config, Model, Program, Runners, Settings};
use models::{description, value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WIRE: &str = include_str!("../src/process/wire.py");

/// The code of a runner that doubles numbers.
const DOUBLING: &str = "
class Doubling:
    name = 'doubling'
    def start(self):
        return {'version': '2.1.0', 'compat_versions': [1, 3]}
    def load(self, folder, options, said):
        if not os.listdir(folder):
            raise Failure('load', 'there are no files')
        odd = ['the option `%s` does nothing' % name for name in options if name != 'factor']
        factor = options.get('factor', 2)
        if not isinstance(factor, int):
            raise Failure('run/option', '`factor` is a whole number')
        to = {spec['name']: said['outputs'][at]['internal_name'] or said['outputs'][at]['name']
              for at, spec in enumerate(said['inputs'])}
        def run(inputs):
            if 'forever' in options:
                while True: pass
            return {to[name]: (x * factor).astype(x.dtype) for name, x in inputs.items()}
        return run, odd
serve(Doubling())
";

/// Returns `true` if there is an interpreter that can run models.
fn can_run() -> bool {
    let ran = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    let can = ran.is_ok_and(|out| out.status.success());
    if !can {
        eprintln!("SKIPPED: there is no python3 with numpy");
    }
    can
}

/// Returns a runner whose command is Python with our protocol implementation and this code.
fn program(name: &str, folder: &Path, code: &str) -> Program {
    let path = folder.join("runner.py");
    std::fs::write(&path, format!("{WIRE}\n{code}")).unwrap();
    Program::new(name, ["python3".into(), "-u".into(), path.into_os_string()])
}

fn settings(program: Program) -> Settings {
    let runners = Runners::default().with(program);
    Settings::default().with_runners(runners).with_timeout(Duration::from_secs(60))
}

fn doubling() -> Description {
    let mut d = description("doubling", &[("x", "n")], &[("y", "n")]);
    d.runner.framework_version = "^2".to_owned();
    d
}

fn model_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weights"), "w").unwrap();
    folder
}

/// Makes a package for the runner, with one self-test that expects twice the input.
fn package(folder: &Path) -> PathBuf {
    let mut d = doubling();
    let mut test = holdall::carton::SelfTest::default();
    test.inputs = vec![("x".to_owned(), "x".to_owned())];
    test.expected = Some(vec![("y".to_owned(), "y".to_owned())]);
    d.self_tests.push(test);
    let to = folder.join("doubling.carton");
    let of = |x: &[f32]| TensorValue::from_elements(vec![x.len() as u64], x).unwrap();
    let files = model_folder();
    Packer::from_model(files.path(), Default::default(), Default::default())
        .unwrap()
        .with_description(d)
        .with_tensor("x", of(&[1.0, -2.5]))
        .with_tensor("y", of(&[2.0, -5.0]))
        .write(&to, true)
        .unwrap();
    to
}

#[test]
fn a_program_runs_models() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(program("doubling", dir.path(), DOUBLING));
    let package = Package::open(package(dir.path())).unwrap();
    let mut model = Model::load(&package, &settings).unwrap();
    assert!(model.warnings().is_empty());
    let big: Vec<f32> = (0..600_000).map(|n| n as f32).collect();
    for x in [vec![1f32, 2.0], big] {
        let twice: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
        let of = |x: &[f32]| TensorValue::from_elements(vec![x.len() as u64], x).unwrap();
        let out = model.run(vec![("x".to_owned(), of(&x))]).unwrap();
        assert_eq!(out, [("y".to_owned(), of(&twice))]);
    }
    let value = |name: &str| package.value(name);
    let reports = holdall_run::self_tests(&mut model, &value, Default::default(), &mut |_| {});
    assert!(reports.len() == 1 && reports[0].passed(), "{reports:?}");
}

#[test]
fn the_name_and_version_come_from_the_program() {
    if !can_run() {
        return;
    }
    let (dir, files) = (tempfile::tempdir().unwrap(), model_folder());
    let settings = settings(program("doubling", dir.path(), DOUBLING));
    let load = |d: &Description, folder: &Path, settings: &Settings| {
        Model::load_folder(d.clone(), folder, settings)
    };
    let code = |d: &Description| load(d, files.path(), &settings).map(|_| ()).unwrap_err().code();
    let mut d = doubling();
    d.runner.framework_version = "=3".to_owned();
    assert_eq!(code(&d), "run/framework-version");
    let mut d = doubling();
    d.runner.compat_version = 2;
    assert_eq!(code(&d), "run/compat-version");
    d.runner.compat_version = 3;
    assert!(load(&d, files.path(), &settings).is_ok());
    let mut d = doubling();
    d.runner.options.push(("factor".to_owned(), OptionValue::String("two".to_owned())));
    assert_eq!(code(&d), "run/option");
    let odd = settings.clone().with_option("speed", OptionValue::Integer(3));
    let model = load(&doubling(), files.path(), &odd).unwrap();
    assert_eq!(model.warnings(), ["the option `speed` does nothing"]);
    // Internal names are passed to the runner.
    let mut d = doubling();
    d.outputs[0].internal_name = Some("z".to_owned());
    let mut model = load(&d, files.path(), &settings).unwrap();
    let e = model.run(vec![("x".to_owned(), value(&[2]))]).unwrap_err();
    assert_eq!(e.code(), "signature/output-unknown");
    let empty = tempfile::tempdir().unwrap();
    let e = load(&doubling(), empty.path(), &settings).map(|_| ()).unwrap_err();
    assert_eq!((e.code(), e.message()), ("runner/load", "there are no files"));
    // A runner that takes too long is killed.
    let slow = settings.clone().with_option("forever", OptionValue::Boolean(true));
    let slow = slow.with_timeout(Duration::from_secs(5));
    let mut model = load(&doubling(), files.path(), &slow).unwrap();
    let start = Instant::now();
    let e = model.run(vec![("x".to_owned(), value(&[2]))]).unwrap_err();
    assert_eq!(e.code(), "runner/timeout");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn programs_that_are_not_runners_are_errors() {
    if !can_run() {
        return;
    }
    let (dir, files) = (tempfile::tempdir().unwrap(), model_folder());
    let code = |program: Program| {
        let loaded = Model::load_folder(doubling(), files.path(), &settings(program));
        loaded.map(|_| ()).unwrap_err().code()
    };
    assert_eq!(code(Program::new("doubling", ["/no/such/program"])), "runner/start");
    assert_eq!(code(Program::new("doubling", [""; 0])), "runner/start");
    assert_eq!(code(Program::new("doubling", ["true"])), "runner/died");
    let changed = |from: &str, to: &str| {
        assert!(DOUBLING.contains(from));
        code(program("doubling", dir.path(), &DOUBLING.replace(from, to)))
    };
    assert_eq!(changed("'2.1.0'", "'two'"), "runner/handshake");
    assert_eq!(changed("'2.1.0'", "2"), "runner/handshake");
    let no_framework = "raise Failure('framework', '`import torch` fails')";
    assert_eq!(
        changed("return {'version'", &format!("{no_framework}; return {{'v'")),
        "runner/framework"
    );
}

/// Returns the names of the checks that a runner fails.
fn failed(program: &Program, package: Option<&Package>) -> Vec<&'static str> {
    let settings = Settings::default().with_timeout(Duration::from_secs(5));
    let mut calls = 0;
    let trials = check(program, package, &settings.runner, &mut |_| calls += 1).unwrap();
    assert_eq!(calls, trials.len());
    trials.iter().filter(|t| t.error.is_some()).map(|t: &CheckResult| t.name).collect()
}

#[test]
fn a_sound_runner_passes_every_trial() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = Package::open(package(dir.path())).unwrap();
    let sound = program("doubling", dir.path(), DOUBLING);
    assert_eq!(failed(&sound, Some(&package)), [""; 0]);
}

#[test]
fn each_fault_of_a_runner_fails_its_trial() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = Package::open(package(dir.path())).unwrap();
    // In the protocol implementation.
    for (from, to, trial) in [
        ("dict(runner.start(), protocol=PROTOCOL", "dict(runner.start(), protocol=7", "hello"),
        ("if PROTOCOL not in header.get(\"protocols\", ()):", "if False:", "no-protocol"),
        ("if \"run\" not in state:", "if False:", "early-call"),
        ("raise NoFrame(\"this is not the start of a frame\")", "return receive()", "not-a-frame"),
        (
            "raise NoFrame(\"the header of a frame is not JSON: %s\" % e)",
            "return receive()",
            "not-json",
        ),
        (
            "if kind == \"bye\":\n                return",
            "if kind == \"bye\":\n                continue",
            "bye",
        ),
        ("raise Gone()\n        view", "time.sleep(9)\n        view", "closed"),
        ("            os.unlink(path)\n", "", "shared-memory"),
    ] {
        assert!(WIRE.contains(from), "{from}");
        let path = dir.path().join("faulty.py");
        std::fs::write(&path, format!("{}\n{DOUBLING}", WIRE.replace(from, to))).unwrap();
        let faulty = Program::new("doubling", ["python3".into(), path.into_os_string()]);
        let failed = failed(&faulty, (trial == "shared-memory").then_some(&package));
        assert!(failed.contains(&trial), "{trial}: {failed:?}");
    }
    // In the runner.
    for (from, to, trial) in [
        ("return run, odd", "return run", "unknown-option"),
        ("options.get('factor', 2)", "options.get('factor', 3)", "self-tests"),
        ("(x * factor)", "(x * factor)[:1]", "self-tests"),
        ("to[name]: (x", "os._exit(1) if name not in to else to[name]: (x", "wrong-input"),
        (
            "if not os.listdir(folder):",
            "if not os.listdir(folder): os._exit(3)\n        if False:",
            "no-model",
        ),
    ] {
        assert!(DOUBLING.contains(from), "{from}");
        let faulty = program("doubling", dir.path(), &DOUBLING.replace(from, to));
        let failed = failed(&faulty, (trial != "no-model").then_some(&package));
        assert!(failed.contains(&trial), "{trial}: {failed:?}");
    }
    // A runner that does not start is checked once.
    assert_eq!(failed(&Program::new("x", ["false"]), Some(&package)), ["hello"]);
}

#[test]
fn configuration_files_name_runners() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Config::read(&path)
    };
    let sound = "later = 1\n[runners.a]\ncommand = [\"p\", \"-x\"]\nmore = 1\n[runners.\"b c\"]\ncommand = ['q']\n";
    let wanted = [Program::new("a", ["p", "-x"]), Program::new("b c", ["q"])];
    let config = read(sound).unwrap();
    assert_eq!(config.runners, wanted);
    let runners = Runners::none().with_config(&config);
    assert_eq!(runners.names(), ["a", "b c"]);
    assert!(read("").unwrap().runners.is_empty());
    for text in [
        "runners = 1",
        "[runners.a]",
        "[runners.a]\ncommand = \"p\"",
        "[runners.a]\ncommand = []",
        "[runners.a]\ncommand = [1]",
        "[runners.a]\ncommand = [\"\"]",
        "[runners",
    ] {
        assert_eq!(read(text).unwrap_err().code(), "run/config", "{text}");
    }
    assert_eq!(Config::read(dir.path().join("none")).unwrap_err().code(), "run/io");
}
