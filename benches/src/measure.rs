//! Running the contestants of a comparison in turn, each run in its own process.

use crate::args::Args;
use crate::cold::{drop_cache, warm_cache};
use crate::files::Workload;
use crate::floor::memory::HugeMemory;
use crate::rows::{Cache, Comparison, Contestant, Goal, Kind, Target};
use crate::timing::Outcome;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{IsTerminal, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The results of the rounds of a comparison.
pub struct Results {
    pub comparison: Comparison,
    /// The results, in the order of the contestants.
    pub measured: Vec<Measured>,
    /// The files that it reads, and their sizes in bytes.
    pub files: Vec<(Workload, u64)>,
}

/// The measured runs of one contestant.
pub struct Measured {
    pub contestant: Contestant,
    pub runs: Vec<Outcome>,
    /// The peak anonymous memory of the process in the warm-up in bytes, sampled every millisecond.
    pub anonymous_peak: u64,
    check: Option<u64>,
}

impl Measured {
    pub fn median(&self) -> u64 {
        let mut nanos: Vec<u64> = self.runs.iter().map(|r| r.nanos).collect();
        nanos.sort_unstable();
        let middle = nanos.len() / 2;
        if nanos.len() % 2 == 1 { nanos[middle] } else { (nanos[middle - 1] + nanos[middle]) / 2 }
    }

    pub fn spread(&self) -> (u64, u64) {
        let nanos = || self.runs.iter().map(|r| r.nanos);
        (nanos().min().unwrap_or(0), nanos().max().unwrap_or(0))
    }

    /// Returns the median of processor time divided by wall time and cores.
    pub fn busy(&self) -> f64 {
        let cores = crate::floor::cores() as f64;
        self.middle(|r| r.cpu_nanos as f64 / (r.nanos as f64 * cores))
    }

    /// Returns the median of bytes written per second of processor time.
    pub fn output(&self) -> f64 {
        self.middle(|r| r.written.unwrap_or(0) as f64 * 1e9 / r.cpu_nanos as f64)
    }

    fn middle(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
}

/// The outcome of a goal.
pub struct Verdict {
    pub ours: &'static str,
    /// The contestant it is compared with, empty for memory and cores.
    pub against: &'static str,
    /// The measured value, in the unit of the target.
    pub value: f64,
    pub met: bool,
}

impl Results {
    /// Returns the length of the first file.
    pub fn bytes(&self) -> u64 {
        self.files.first().map_or(0, |(_, len)| *len)
    }

    pub fn named(&self, name: &str) -> Result<&Measured> {
        let found = self.measured.iter().find(|m| m.contestant.name == name);
        found.with_context(|| format!("{}: no contestant `{name}`", self.comparison.name))
    }

    pub fn verdict(&self, goal: &Goal) -> Result<Verdict> {
        let ours = self.named(goal.ours)?;
        let fastest = |against: &[&str]| -> Result<&Measured> {
            let others: Vec<&Measured> =
                against.iter().map(|n| self.named(n)).collect::<Result<_>>()?;
            others.into_iter().min_by_key(|m| m.median()).context("no rival")
        };
        let ratio = |against: &[&str]| -> Result<(&'static str, f64)> {
            let fastest = fastest(against)?;
            Ok((fastest.contestant.name, ours.median() as f64 / fastest.median() as f64))
        };
        let len = |file: Workload| -> Result<f64> {
            let found = self.files.iter().find(|(f, _)| *f == file).context("no such file")?;
            Ok(found.1 as f64)
        };
        let (against, value, met) = match goal.target {
            Target::TimeAtMost(most, against) => {
                let (name, ratio) = ratio(against)?;
                (name, ratio, ratio <= most)
            }
            Target::SpeedAtLeast(least, against) => {
                let (name, ratio) = ratio(against)?;
                (name, 1.0 / ratio, 1.0 / ratio >= least)
            }
            Target::MemoryAtMost(most) => {
                ("", ours.anonymous_peak as f64, ours.anonymous_peak <= most)
            }
            Target::MemoryAtMostFile(most, file) => {
                let ratio = ours.anonymous_peak as f64 / len(file)?;
                ("", ratio, ratio <= most)
            }
            Target::BeyondAtMost(most, against) => {
                let fastest = fastest(against)?;
                let beyond = ours.median().saturating_sub(fastest.median());
                (fastest.contestant.name, beyond as f64, beyond <= most)
            }
            Target::MemoryAtMostOf(most, other) => {
                let ratio = ours.anonymous_peak as f64 / self.named(other)?.anonymous_peak as f64;
                (other, ratio, ratio <= most)
            }
            Target::MemoryBeyondAtMost(most, other) => {
                let beyond = ours.anonymous_peak.saturating_sub(self.named(other)?.anonymous_peak);
                (other, beyond as f64, beyond <= most)
            }
            Target::SizeAtMost(most, file, other, more) => {
                let ratio = len(file)? / (len(other)? + more as f64);
                ("", ratio, ratio <= most)
            }
            Target::OutputAtLeast(least) => ("", ours.output(), ours.output() >= least as f64),
            Target::BusyAtLeast(least) => ("", ours.busy(), ours.busy() >= least),
        };
        Ok(Verdict { ours: goal.ours, against, value, met })
    }

    /// Returns the fastest floor, or else the fastest peer. Times are shown as multiples of its time.
    pub fn yardstick(&self) -> Option<&Measured> {
        let fastest = |kind: Kind| {
            let of_kind = self.measured.iter().filter(|m| m.contestant.kind == kind);
            of_kind.min_by_key(|m| m.median())
        };
        fastest(Kind::Floor).or_else(|| fastest(Kind::Peer))
    }
}

/// Runs all comparisons.
pub fn all(comparisons: &[Comparison], args: &Args) -> Result<Vec<Results>> {
    comparisons.iter().map(|c| one(*c, args)).collect()
}

fn one(comparison: Comparison, args: &Args) -> Result<Results> {
    let measured = |c: &Contestant| Measured {
        contestant: *c,
        runs: Vec::new(),
        anonymous_peak: 0,
        check: None,
    };
    let mut measured: Vec<Measured> = {
        let kept = |c: &&Contestant| !args.skip.iter().any(|text| c.name.contains(text));
        comparison.contestants.iter().filter(kept).map(measured).collect()
    };
    if comparison.cache == Cache::Warm {
        // Files left in the page cache by their writer are in pieces of other sizes there than files read from the
        // disk.
        comparison.files.iter().try_for_each(|f| drop_cache(&f.path(&args.dir)))?;
    }
    for round in 0..=args.rounds {
        if std::io::stderr().is_terminal() {
            eprint!("\r{}: round {round} of {} ", comparison.name, args.rounds);
        }
        for entry in &mut measured {
            if comparison.cache == Cache::Warm {
                comparison.files.iter().try_for_each(|f| warm_cache(&f.path(&args.dir)))?;
            }
            let place = || format!("{}, {}", comparison.name, entry.contestant.name);
            claim_memory(&comparison, args)?;
            let run = run(&comparison, &entry.contestant, round, args).with_context(place)?;
            if round == 0 {
                entry.anonymous_peak = run.anonymous_peak;
                entry.check = run.outcome.check;
            } else {
                entry.runs.push(run.outcome);
            }
        }
        if round == 0 {
            compare_checks(&measured)?;
        }
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    let len = |f: &Workload| Ok((*f, std::fs::metadata(f.path(&args.dir))?.len()));
    let files = comparison.files.iter().map(len).collect::<Result<_>>()?;
    Ok(Results { comparison, measured, files })
}

/// Allocates as much memory as a run may need, and frees it. A virtual machine may have returned free memory to its
/// host, and getting it back takes longer than the measured work.
fn claim_memory(comparison: &Comparison, args: &Args) -> Result<()> {
    if let (true, Some(first)) = (comparison.rate, comparison.files.first()) {
        let len = std::fs::metadata(first.path(&args.dir))?.len();
        // Files that are read or written also occupy the page cache.
        HugeMemory::new(2 * len as usize + (64 << 20))
            .iter_mut()
            .step_by(4096)
            .for_each(|b| *b = 1);
    }
    Ok(())
}

/// Returns an error unless all contestants with a check of their output have the same.
fn compare_checks(measured: &[Measured]) -> Result<()> {
    let mut given = measured.iter().filter_map(|m| Some((m.contestant.name, m.check?)));
    if let Some((first, check)) = given.next() {
        for (name, other) in given {
            ensure!(check == other, "`{first}` and `{name}` delivered different bytes");
        }
    }
    Ok(())
}

struct Run {
    outcome: Outcome,
    anonymous_peak: u64,
}

fn run(comparison: &Comparison, contestant: &Contestant, round: usize, args: &Args) -> Result<Run> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["worker", comparison.name, contestant.name, &round.to_string(), "--dir"])
        .arg(&args.dir)
        .stdout(Stdio::piped())
        .spawn()?;
    // Only the warm-up is sampled, because sampling slows a small machine down.
    let anonymous_peak = if round == 0 { watch(&mut child)? } else { 0 };
    let mut text = String::new();
    child.stdout.take().context("no output")?.read_to_string(&mut text)?;
    if !child.wait()?.success() {
        bail!("the run failed");
    }
    let found: Value = serde_json::from_str(&text).context("the run printed no JSON")?;
    let nanos = |key: &str| found[key].as_u64().with_context(|| format!("no `{key}`"));
    let outcome = Outcome {
        nanos: nanos("nanos")?,
        cpu_nanos: nanos("cpu_nanos")?,
        check: found["check"].as_u64(),
        written: found["written"].as_u64(),
    };
    Ok(Run { outcome, anonymous_peak })
}

/// Samples the anonymous memory of the process until it ends.
fn watch(child: &mut Child) -> Result<u64> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(peak)
}
