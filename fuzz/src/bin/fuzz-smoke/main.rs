//! Runs the targets on stable Rust, reproducibly: inputs are determined by a target, a seed and a number. Targets run
//! in processes of their own, so that every effect of an input is detected: panics, excessive memory, endless loops.
//!
//! `cargo xtask fuzz-smoke` calls it.

mod inputs;
mod memory;
mod mutate;
mod random;
mod supervisor;
mod worker;

use holdall_fuzz::{TARGETS, Target, target};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use supervisor::Known;

/// The seed that is used before a change is merged.
const FIRST_SEED: u64 = 1;

const USAGE: &str = "\
cargo xtask fuzz-smoke [--targets a,b] [--seconds N] [--seed N] [--part N]
cargo xtask fuzz-smoke --target T --input FILE
cargo xtask fuzz-smoke --list

  --targets a,b   these targets only
  --seconds N     go on with further seeds until N seconds are over
  --seed N        begin with this seed; the default is 1
  --part N        try the first Nth of the inputs of each target
  --input FILE    run this one input of target T
  --list          print the names of all targets, one a line";

/// The command line.
#[derive(Default)]
struct Args {
    targets: Option<String>,
    target: Option<String>,
    input: Option<PathBuf>,
    record: Option<PathBuf>,
    seconds: u64,
    seed: Option<u64>,
    part: u64,
    from: u64,
    to: u64,
    is_worker: bool,
}

fn main() -> ExitCode {
    match args().and_then(run) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

fn args() -> Result<Args, String> {
    let mut out = Args::default();
    let mut all = std::env::args().skip(1);
    while let Some(arg) = all.next() {
        let mut value = || all.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"));
        let number = |text: String| text.parse().map_err(|_| format!("`{text}` is not a number"));
        match arg.as_str() {
            "--targets" => out.targets = Some(value()?),
            "--target" => out.target = Some(value()?),
            "--input" => out.input = Some(value()?.into()),
            "--record" => out.record = Some(value()?.into()),
            "--seconds" => out.seconds = number(value()?)?,
            "--seed" => out.seed = Some(number(value()?)?),
            "--part" => out.part = number(value()?)?,
            "--from" => out.from = number(value()?)?,
            "--to" => out.to = number(value()?)?,
            "--worker" => out.is_worker = true,
            "--list" => {
                TARGETS.iter().for_each(|target| println!("{}", target.name));
                std::process::exit(0);
            }
            "--help" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => return Err(format!("`{arg}` is not an option\n\n{USAGE}")),
        }
    }
    Ok(out)
}

fn run(args: Args) -> Result<u8, String> {
    let seed = args.seed.unwrap_or(FIRST_SEED);
    let one = args.target.as_deref().map(find).transpose()?;
    if let Some(input) = args.input {
        return worker::one(one.ok_or("--input needs --target")?, &input);
    }
    if args.is_worker {
        let target = one.ok_or("--worker needs --target")?;
        let record = args.record.ok_or("--worker needs --record")?;
        return worker::run(target, seed, args.from..args.to, &record);
    }
    let targets: Vec<&Target> = match (&args.targets, one) {
        (Some(names), _) => names.split(',').map(find).collect::<Result<_, _>>()?,
        (None, Some(target)) => vec![target],
        (None, None) => TARGETS.iter().filter(|target| target.is_built()).collect(),
    };
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut which = Known::First;
    for seed in seed.. {
        let failures = supervisor::run(supervisor::jobs(&targets, seed, which, args.part)?);
        if failures > 0 {
            return Err(format!("{failures} inputs went wrong"));
        }
        if Instant::now() >= end {
            break;
        }
        which = Known::Done;
    }
    Ok(0)
}

fn find(name: &str) -> Result<&'static Target, String> {
    let found = target(name).ok_or_else(|| {
        let all: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        format!("unknown target `{name}`; the targets are {}", all.join(", "))
    })?;
    match found.is_built() {
        true => Ok(found),
        false => Err(format!("the target `{name}` needs the feature `parquet`")),
    }
}
