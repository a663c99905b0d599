//! Measures Holdall side by side with published crates and with the simplest code that moves the same bytes.
//!
//! A *comparison* ([`rows`]) is a set of contestants that do the same work, with goals for their results relative to
//! each other. The contestants run one after the other in rounds (A B C, A B C, …), each run in its own process.
//! Otherwise, memory allocated by an earlier run would make the next one faster; also, the peak memory of a process can
//! be read when it ends. A process times itself ([`worker`]), so its start is not counted. The first round warms up,
//! compares the bytes that the contestants delivered, and samples memory; it is not measured.
//!
//! The workload files are made once, by the writers of the peers ([`files`]).

mod args;
mod cold;
mod datasets;
mod files;
mod floor;
mod machine;
mod measure;
mod ours;
mod packages;
mod pairs;
mod peers;
mod report;
mod rows;
mod timing;
mod worker;
mod workload;

use anyhow::{Context, Result};
use args::{Args, Command};

#[cfg(not(target_os = "linux"))]
compile_error!("the floors are written for Linux (O_DIRECT, fallocate, mincore)");

fn main() -> Result<()> {
    let args = Args::from_env()?;
    match &args.command {
        Command::Help => print!("{}", args::HELP),
        Command::List => report::list(&rows::all()),
        Command::Worker(run) => worker::run(run, &args)?,
        Command::Make => {
            let comparisons = rows::possible(rows::chosen(&args.rows)?, &args.dir);
            files::make(&args, &comparisons)?;
        }
        Command::Measure => {
            let comparisons = rows::possible(rows::chosen(&args.rows)?, &args.dir);
            files::make(&args, &comparisons)?;
            let machine = machine::describe(&args)?;
            let results = measure::all(&comparisons, &args)?;
            let report = report::Report { machine, args: &args, results: &results };
            print!("{}", report.text());
            if let Some(path) = &args.write {
                std::fs::write(path, report.markdown())
                    .with_context(|| path.display().to_string())?;
            }
            if let Some(path) = &args.json {
                std::fs::write(path, format!("{:#}\n", report.json()))
                    .with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(())
}
