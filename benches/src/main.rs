//! Side-by-side measurements of Holdall against published crates and against the barest code that moves
//! the same bytes.
//!
//! One *comparison* ([`rows`]) is a set of contestants that do the same work, and goals that say which of
//! them must stand where. Contestants run one after the other, round after round (A B C, A B C, …), each
//! run in a process of its own: memory that an earlier run has already faulted in would otherwise make
//! the next one look fast, and the peak memory of a process can be read when it ends. A process times
//! itself ([`worker`]), so its start is not counted. The first round warms up, compares the bytes that the
//! contestants delivered and samples memory; it is not measured.
//!
//! The workload files are made once, by the peers' own writers ([`files`]).

mod args;
mod cold;
mod datasets;
mod files;
mod floor;
mod machine;
mod measure;
mod ours;
mod packages;
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
