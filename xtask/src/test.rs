//! All checks that must pass before a change lands.

use crate::command::{DECODERS, Outcome, Run, above, below, program, target};
use crate::{
    check, docs, doors, fuzz, gpu, interop, js, layers, public_api, python, scan, sizes, stores,
    wasm, words,
};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A stage and its name.
type Stage = (&'static str, fn(&[String]) -> Outcome);

/// The stages: quick ones first, and builds before the stages that use them.
const STAGES: &[Stage] = &[
    ("formatting", check::formatting),
    ("sizes", sizes::sizes),
    ("words", words::words),
    ("layers", layers::layers),
    ("generated docs", compare_docs),
    ("tests", tests),
    ("Parquet and Arrow files", columns),
    ("GPU", gpu::gpu),
    ("records", records),
    ("fuzzing", some_inputs),
    ("scan against CPython", scan::some),
    ("other packages", interop::interop),
    ("stores", stores::stores),
    ("JavaScript", js::js),
];

/// Stages that run in parallel to the others, in order, since most stages keep only one core
/// busy. When one side is done, it helps with the rest. These stages build no programs that
/// others run, since a program is missing while it is replaced. The WebAssembly modules are built
/// long before the stage `JavaScript` needs them.
const BESIDE: &[Stage] = &[
    ("clippy, docs", check::workspace),
    ("wasm", wasm::wasm),
    ("features", check::features),
    ("doors", doors::doors),
    ("public items", public_api::public_api),
    ("decoders", decoders),
    ("other workspaces", check::others),
    ("Python", python::python),
];

/// The outcome of a stage, and its duration.
struct Ended {
    name: &'static str,
    seconds: u64,
    outcome: Outcome,
}

impl Ended {
    fn measure(name: &'static str, run: impl FnOnce() -> Outcome) -> Ended {
        let start = Instant::now();
        let outcome = run();
        Ended { name, outcome, seconds: start.elapsed().as_secs() }
    }
}

/// `cargo xtask test`: runs all stages, or those whose names begin with an argument; prints how
/// long each took and which failed. A failed stage does not stop the others.
pub(crate) fn all(args: &[String]) -> Outcome {
    let start = Instant::now();
    let is_wanted = |name: &str| args.iter().any(|a| name.starts_with(a));
    let queue = Mutex::new(BESIDE.iter());
    let ended = match args.is_empty() {
        true => std::thread::scope(|scope| {
            let other = scope.spawn(|| beside(&queue));
            let mut ended = in_turn(STAGES.iter());
            // The side that is done first helps with the remaining stages.
            ended.extend(beside(&queue));
            // A stage that is not reported would look like one that succeeded.
            ended.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended
        }),
        false => in_turn(BESIDE.iter().chain(STAGES).filter(|(name, _)| is_wanted(name))),
    };
    eprintln!("\nseconds");
    for Ended { name, seconds, .. } in &ended {
        eprintln!("  {seconds:>5}  {name}");
    }
    eprintln!("  {:>5}  in all", start.elapsed().as_secs());
    let failed = ended.iter().filter(|e| e.outcome.is_err()).map(|e| e.name);
    let failed = failed.collect::<Vec<_>>().join("; ");
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {failed}")) }
}

/// Runs stages one after the other.
fn in_turn<'a>(stages: impl Iterator<Item = &'a Stage>) -> Vec<Ended> {
    let run = |(name, run): &Stage| {
        eprintln!("\n=== {name}");
        let ended = Ended::measure(name, || run(&[]));
        if let Err(e) = &ended.outcome {
            eprintln!("\n{name}: {e}");
        }
        ended
    };
    stages.map(run).collect()
}

/// Runs the parallel stages until none is left, each in a separate process, whose output is
/// printed when it has ended.
fn beside(queue: &Mutex<std::slice::Iter<'_, Stage>>) -> Vec<Ended> {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = |(name, _): &Stage| {
        let log = target().join(format!("{}.log", name.replace(' ', "-")));
        let ended = Ended::measure(name, || {
            let own = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
            program(own).args(["test", name]).log(&log)
        });
        eprint!("{}", std::fs::read_to_string(&log).unwrap_or_default());
        ended
    };
    std::iter::from_fn(next).map(run).collect()
}

fn compare_docs(_args: &[String]) -> Outcome {
    docs::write(&["--check".to_owned()])
}

/// Tests the crates that decode, without optimisation: compiling with it would take longer than
/// it saves.
fn decoders(_args: &[String]) -> Outcome {
    below("test", DECODERS).args(["--no-fail-fast"]).run()
}

/// Tests all other crates. Tests that need a device are a separate stage.
fn tests(_args: &[String]) -> Outcome {
    let tests = above("test").args(["--no-fail-fast"]).env("HOLDALL_GPU_TESTS", "skipped");
    // Many tests mostly wait: for a disk, a network, or a program that is to be killed.
    tests.env("RUST_TEST_THREADS", threads_for_waiting().to_string()).run()
}

/// Returns the number of parallel tests if many of them wait: two per core.
fn threads_for_waiting() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Tests a feature that is off by default because it takes a minute to build.
fn columns(_args: &[String]) -> Outcome {
    // All in one build. The tests of the command and of the fuzzer have the same name.
    let features = "holdall/parquet,holdall-cli/parquet,holdall-fuzz/parquet";
    let tests = ["--no-fail-fast", "--test", "parquet", "--test", "columns"];
    above("test").args(["--features", features]).args(tests).run()
}

/// Runs tests without overflow checks, as in a release build.
fn as_released(tests: Run) -> Run {
    tests
        .args(["--config", "profile.dev.overflow-checks=false"])
        .args(["--config", "profile.dev.debug-assertions=false"])
}

/// Runs a third of the inputs of each fuzzer target, including all inputs that once failed.
fn some_inputs(_args: &[String]) -> Outcome {
    fuzz::smoke(&["--part", "3"].map(str::to_owned))
}

/// `cargo xtask whole`: tests that take too long before each change, of which [`all`] runs a
/// part. All files of the corpus are truncated everywhere and mutated, with overflow checks; all
/// cells of the matrix and all inputs of the fuzzer are tried; datasets have realistic sizes;
/// then all tests about whole files, and those of the crates that decode, run without the checks.
/// The results can only differ if an operation overflows, which the checks detect.
pub(crate) fn whole(_args: &[String]) -> Outcome {
    let more = |test: &str| above("test").args(["--test", test]).env("HOLDALL_WHOLE", "1");
    more("truncate").run()?;
    more("cli").args(["--", "many_records::", "matrix::"]).run()?;
    dataset("1000000")?;
    fuzz::smoke(&[])?;
    let own = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    program(own).args(["python", "-k", "wrong_calls"]).env("HOLDALL_WHOLE", "1").run()?;
    let tests = ["corpus*", "truncate", "windowed"].into_iter().flat_map(|test| ["--test", test]);
    as_released(below("test", ["holdall"])).args(tests).run()?;
    as_released(below(
        "test",
        ["holdall-json", "holdall-core", "holdall-package", "holdall-formats"],
    ))
    .args(["--tests"])
    .run()
}

/// Tests building a dataset of some records with the library.
fn records(_args: &[String]) -> Outcome {
    dataset("100000")
}

fn dataset(count: &str) -> Outcome {
    above("build").args(["--example", "dataset"]).run()?;
    program(target().join("debug/examples/dataset")).args([count]).run()
}
