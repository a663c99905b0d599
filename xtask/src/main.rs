//! The tasks that contributors and CI run on this repository. `.ci/run` calls [`mod@test`], which
//! calls the others; they set up what they need.

mod big_endian;
mod check;
mod command;
mod corpus;
mod derived;
mod dist;
mod docs;
mod doors;
mod dropin;
mod fuzz;
mod gpu;
mod interop;
mod js;
mod json;
mod layers;
mod limits;
mod mutants;
mod new_format;
mod platform;
mod public_api;
mod python;
mod readmes;
mod scan;
mod sizes;
mod stores;
mod tables;
mod test;
mod tokens;
mod wasm;
mod words;

use command::Outcome;
use std::process::ExitCode;

/// A task, with its description in the list of tasks.
struct Task {
    name: &'static str,
    says: &'static str,
    run: fn(&[String]) -> Outcome,
}

const fn task(name: &'static str, says: &'static str, run: fn(&[String]) -> Outcome) -> Task {
    Task { name, says, run }
}

const TASKS: &[Task] = &[
    task("test", "runs all checks, stage by stage, or only the named stages", test::all),
    task("check", "formatting, clippy and docs, warnings as errors", check::check),
    task(
        "layers",
        "checks that dependencies of crates point down, and that pure crates do not access the system",
        layers::layers,
    ),
    task("features", "builds with each format alone, none and all", check::features),
    task(
        "public-api",
        "compares the public items of `holdall` with the list in the tree; --write writes it",
        public_api::public_api,
    ),
    task("wasm", "builds the pure crates for WebAssembly, and checks their size", wasm::wasm),
    task("corpus", "tests the corpus; --make writes the generated files first", corpus::corpus),
    task("bless", "writes the output of `inspect` next to each accepted file", corpus::bless),
    task(
        "fuzz-smoke",
        "tries mutated inputs, the same ones each time; --help describes options",
        fuzz::smoke,
    ),
    task(
        "whole",
        "runs checks completely that `test` runs partly: truncated and mutated files, inputs of the fuzzer, records",
        test::whole,
    ),
    task("big-endian", "tests files on an emulated big-endian processor", big_endian::big_endian),
    task(
        "platform",
        "builds and tests for other systems, or only the named ones: aarch64, musl, windows, macos, s390x",
        platform::platform,
    ),
    task("interop", "compares with the published packages, which it fetches", interop::interop),
    task(
        "scan-differential",
        "compares the scan for pickles with what CPython would import, a million times; --count",
        scan::whole,
    ),
    task(
        "stores",
        "tests the command with third-party object stores, which it fetches",
        stores::stores,
    ),
    task("gpu", "tests the crate for GPUs, with a software driver if needed", gpu::gpu),
    task("python", "builds the Python package, installs and tests it; --release", python::python),
    task("js", "builds the JavaScript package and runs its tests, or only the named ones", js::js),
    task(
        "js-pack",
        "installs the npm package into projects of many kinds, or only the named ones",
        js::pack,
    ),
    task("viewer", "builds the viewer into the crate of the command", js::viewer),
    task(
        "dist",
        "makes and checks everything that a release consists of; --help describes options",
        dist::dist,
    ),
    task("publish", "uploads what `dist` made: crates, npm FOLDER, github FOLDER", dist::publish),
    task("workflows", "checks the workflows of CI, with actionlint", dist::workflows),
    task("deny", "checks licences and sources of the crates of others", dist::deny),
    task("js-bench", "measures the JavaScript package against others, which it fetches", js::bench),
    task("js-images", "makes the pictures of the viewer in `docs/images`", js::images),
    task(
        "ecosystem",
        "tests torch, transformers and others with our package, in a separate environment",
        python::ecosystem,
    ),
    task(
        "safetensors",
        "runs safetensors' own tests, of two releases, with our package in its place",
        dropin::safetensors,
    ),
    task(
        "words",
        "counts overused idioms in comments, messages and pages, refuses more of them; --list, --write",
        words::words,
    ),
    task("sizes", "lists files over 400 lines, refuses them over 800", sizes::sizes),
    task("gen", "writes generated tables and files; --check compares them", docs::write),
    task(
        "new-format",
        "creates the files of a new file format, which build without changes",
        new_format::new_format,
    ),
    task(
        "doors",
        "adds a toy format and a toy codec to a copy of the repository, and uses them",
        doors::doors,
    ),
    task(
        "mutants",
        "tests 400 further mutants of the code that reads; --count, --again, --check",
        mutants::mutants,
    ),
    task("bench", "measures against the peers; arguments go to benches/", bench),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        menu();
        return ExitCode::SUCCESS;
    };
    let Some(task) = TASKS.iter().find(|t| t.name == name) else {
        eprintln!("error: there is no task `{name}`\n");
        menu();
        return ExitCode::from(2);
    };
    match (task.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("\ncargo xtask {name}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn menu() {
    eprintln!("cargo xtask <task>\n");
    for task in TASKS {
        eprintln!("  {:<11} {}", task.name, task.says);
    }
}

/// Runs the benchmarks, which are a separate workspace.
fn bench(args: &[String]) -> Outcome {
    command::cargo(["run", "--release", "--manifest-path", "benches/Cargo.toml", "--"])
        .args(args)
        .run()
}
