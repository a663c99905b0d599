//! All that must pass before a change lands.

use crate::command::{DECODERS, Outcome, Run, above, below, program, target};
use crate::{
    check, docs, doors, fuzz, gpu, interop, js, layers, public_api, python, scan, sizes, stores,
    wasm, words,
};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A stage and its name.
type Stage = (&'static str, fn(&[String]) -> Outcome);

/// The quick ones first, and before others what builds for them.
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

/// What goes on beside them, one after the other too: most stages keep one core busy for most of their time. Those that are left when the
/// others have ended are shared. These make no program that others run: while one is replaced, it is not there. The modules of WebAssembly
/// are there long before `JavaScript` wants them.
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

/// How a stage ended, and what it took.
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

/// `cargo xtask test`: all stages, or those whose names begin with an argument; says how long each took and which
/// failed. One that fails does not hide what the next would say.
pub(crate) fn all(args: &[String]) -> Outcome {
    let start = Instant::now();
    let is_wanted = |name: &str| args.iter().any(|a| name.starts_with(a));
    let queue = Mutex::new(BESIDE.iter());
    let ended = match args.is_empty() {
        true => std::thread::scope(|scope| {
            let other = scope.spawn(|| beside(&queue));
            let mut ended = in_turn(STAGES.iter());
            // Whoever is done helps with what is left.
            ended.extend(beside(&queue));
            // A stage that is not told of would pass for one that succeeded.
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

/// Takes what is beside the others until nothing is left, each in a process of its own, whose output comes whole when it has ended.
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

/// The tests of the crates that decode, which are not optimised for them: compiling takes longer than that saves.
fn decoders(_args: &[String]) -> Outcome {
    below("test", DECODERS).args(["--no-fail-fast"]).run()
}

/// Those of all others. Those that want a device have a stage of their own.
fn tests(_args: &[String]) -> Outcome {
    let tests = above("test").args(["--no-fail-fast"]).env("HOLDALL_GPU_TESTS", "skipped");
    // Many wait for most of their time: for a disk, a network, or a program that is to be killed.
    tests.env("RUST_TEST_THREADS", threads_for_waiting().to_string()).run()
}

/// How many tests go on at once where many of them wait: two for each core.
fn threads_for_waiting() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// What is off by default, because it takes a minute to build.
fn columns(_args: &[String]) -> Outcome {
    // All in one build. The tests of the command and of the fuzzer have the same name.
    let features = "holdall/parquet,holdall-cli/parquet,holdall-fuzz/parquet";
    let tests = ["--no-fail-fast", "--test", "parquet", "--test", "columns"];
    above("test").args(["--features", features]).args(tests).run()
}

/// Tests where arithmetic is not checked for overflow, as in a build that is released.
fn as_released(tests: Run) -> Run {
    tests
        .args(["--config", "profile.dev.overflow-checks=false"])
        .args(["--config", "profile.dev.debug-assertions=false"])
}

/// A third of the inputs of each target of the fuzzer, all of what once broke something among them.
fn some_inputs(_args: &[String]) -> Outcome {
    fuzz::smoke(&["--part", "3"].map(str::to_owned))
}

/// `cargo xtask whole`: what a machine has no time for before each change, of which [`all`] tries a part. All files of the corpus are cut short
/// everywhere and changed, with arithmetic that is checked; all cells of the matrix and all inputs of the fuzzer are tried; datasets have the size that people have; then
/// all tests about whole files, and those of the crates that decode, are run without the checks. They find no more than before as long as
/// nothing overflows, which is what the checks are for.
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

/// A dataset from the library, of some records.
fn records(_args: &[String]) -> Outcome {
    dataset("100000")
}

fn dataset(count: &str) -> Outcome {
    above("build").args(["--example", "dataset"]).run()?;
    program(target().join("debug/examples/dataset")).args([count]).run()
}
