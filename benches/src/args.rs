//! The command line.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

pub const HELP: &str = "\
Measures Holdall side by side with other crates and with the simplest code that moves the same bytes.

Usage: bench [OPTIONS]

  --rows NAME,NAME  only these comparisons (see --list)
  --skip TEXT       leave out contestants whose names contain this; may be repeated
  --rounds N        measured rounds per comparison (default 7; one more warms up)
  --dir DIR         where the workload files are made and kept, up to 12 GB
                    (default: target/bench-data next to the benchmark's manifest)
  --quick           small files and 2 rounds: shows that everything runs, its numbers mean nothing
  --make            make the files and stop
  --list            name the comparisons and their goals, and stop
  --write FILE      write the report as Markdown, too
  --json FILE       write every number as JSON, too
";

/// The parsed arguments.
pub struct Args {
    pub command: Command,
    pub rows: Vec<String>,
    pub skip: Vec<String>,
    pub rounds: usize,
    /// The given folder, with a subfolder for the size of the workload.
    pub dir: PathBuf,
    pub quick: bool,
    pub write: Option<PathBuf>,
    pub json: Option<PathBuf>,
}

pub enum Command {
    Help,
    List,
    Make,
    Measure,
    /// One run of one contestant, started by the measuring process.
    Worker(WorkerRun),
}

pub struct WorkerRun {
    pub comparison: String,
    pub contestant: String,
    /// 0 for the warm-up.
    pub round: usize,
}

impl Args {
    pub fn from_env() -> Result<Args> {
        let mut words = std::env::args().skip(1);
        let mut command = Command::Measure;
        let (mut rows, mut skip) = (Vec::new(), Vec::new());
        let (mut rounds, mut quick) = (None, false);
        let (mut dir, mut write, mut json) = (None, None, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} requires a value"));
            match word.as_str() {
                "--help" | "-h" => command = Command::Help,
                "--list" => command = Command::List,
                "--make" => command = Command::Make,
                "--quick" => quick = true,
                "--rows" => rows = value()?.split(',').map(str::to_owned).collect(),
                "--skip" => skip.push(value()?),
                "--rounds" => {
                    rounds = Some(value()?.parse().context("--rounds requires a number")?)
                }
                "--dir" => dir = Some(PathBuf::from(value()?)),
                "--write" => write = Some(PathBuf::from(value()?)),
                "--json" => json = Some(PathBuf::from(value()?)),
                "worker" => {
                    let (comparison, contestant) = (value()?, value()?);
                    let round = value()?.parse()?;
                    command = Command::Worker(WorkerRun { comparison, contestant, round });
                }
                other => bail!("unknown option `{other}`; --help lists them"),
            }
        }
        let base = dir.unwrap_or_else(|| {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join("bench-data")
        });
        let dir = match command {
            Command::Worker(_) => base,
            _ => base.join(if quick { "quick" } else { "full" }),
        };
        let rounds = rounds.unwrap_or(if quick { 2 } else { 7 });
        if rounds == 0 {
            bail!("--rounds must be at least 1");
        }
        Ok(Args { command, rows, skip, rounds, dir, quick, write, json })
    }
}
