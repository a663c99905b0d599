//! The menu: everything a contributor or a machine runs on this repository, one task each. `.ci/run`
//! calls [`test`], which calls the others; what they need they set up themselves.

mod check;
mod command;
mod docs;
mod sizes;
mod test;

use command::Outcome;
use std::process::ExitCode;

/// One line of the menu.
struct Task {
    name: &'static str,
    says: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task { name: "test", says: "everything below that must pass, then all tests", run: test::all },
    Task {
        name: "check",
        says: "formatting, clippy and docs, warnings as errors",
        run: check::check,
    },
    Task {
        name: "features",
        says: "builds with each format alone, none and all",
        run: check::features,
    },
    Task {
        name: "sizes",
        says: "lists files over 400 lines, refuses them over 800",
        run: sizes::sizes,
    },
    Task {
        name: "gen",
        says: "writes the generated tables in docs/; --check compares them",
        run: docs::write,
    },
    Task {
        name: "bench",
        says: "measures against the peers; arguments go to benches/",
        run: bench,
    },
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

/// Runs the measurements; they are a workspace of their own.
fn bench(args: &[String]) -> Outcome {
    command::cargo(["run", "--release", "--manifest-path", "benches/Cargo.toml", "--"])
        .args(args)
        .run()
}
