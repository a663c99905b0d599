//! Runs test programs for one mutant after the other.

use super::Verdict;
use super::build::Program;
use crate::command::target;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The memory that a test program may map, in KiB: a mutant may allocate without end.
const MEMORY: u64 = 16 << 20;
/// Tests that take at least this long are run after the others, and not at all if they take at least that long.
const LATER: Duration = Duration::from_millis(500);
const NEVER: Duration = Duration::from_secs(30);
/// A mutant's tests may take this many times as long as without it, and this much longer.
const SLOWER: u32 = 2;
const LONGER: Duration = Duration::from_secs(20);

/// The test programs, with the tests that pass without mutants.
pub(super) struct Programs {
    measured: Vec<Measured>,
}

struct Measured {
    program: Program,
    /// The tests that pass, and how long they take.
    passed: BTreeMap<String, Duration>,
    /// The tests that reach a function, by its number.
    reach: BTreeMap<usize, BTreeSet<String>>,
    /// The functions that are reached in threads that are no test's.
    elsewhere: BTreeSet<usize>,
}

/// How a run of a test program ended.
enum Ended {
    Passed,
    Failed(String),
    TimedOut,
}

impl Programs {
    /// Runs all tests without a mutant, and records which functions they reach. Tests that fail here, for example
    /// without a network, and those that take long are left out.
    pub(super) fn measure(programs: Vec<Program>) -> Result<Programs, String> {
        let hits = target().join("mutants/hits.txt");
        let measured = programs.into_iter().map(|program| measure(program, &hits));
        Ok(Programs { measured: measured.collect::<Result<_, _>>()? })
    }

    /// Tests one mutant with the tests that reach its function, and returns the name of a test that fails.
    pub(super) fn test(&self, mutant: usize, function: usize) -> Result<(Verdict, String), String> {
        for measured in &self.measured {
            let near = measured.reach.get(&function).cloned().unwrap_or_default();
            if let Some(verdict) = measured.verdict(&measured.program, mutant, &near)? {
                return Ok(verdict);
            }
            if measured.elsewhere.contains(&function) {
                let rest = measured.passed.keys().filter(|name| !near.contains(*name));
                let rest = rest.cloned().collect();
                if let Some(verdict) = measured.verdict(&measured.program, mutant, &rest)? {
                    return Ok(verdict);
                }
            }
        }
        Ok((Verdict::Missed, String::new()))
    }

    /// Tests a mutant that was built alone with all tests.
    pub(super) fn test_all(&self, programs: &[Program]) -> Result<(Verdict, String), String> {
        for (measured, program) in self.measured.iter().zip(programs) {
            let all = measured.passed.keys().cloned().collect();
            if let Some(verdict) = measured.verdict(program, 0, &all)? {
                return Ok(verdict);
            }
        }
        Ok((Verdict::Missed, String::new()))
    }
}

impl Measured {
    /// Returns the verdict if a test notices the mutant.
    fn verdict(
        &self,
        program: &Program,
        mutant: usize,
        tests: &BTreeSet<String>,
    ) -> Result<Option<(Verdict, String)>, String> {
        let time = |name: &String| self.passed.get(name).copied().unwrap_or_default();
        let (quick, slow): (Vec<_>, Vec<_>) = tests.iter().partition(|name| time(name) < LATER);
        for tests in [quick, slow].into_iter().filter(|tests| !tests.is_empty()) {
            let most: Duration = tests.iter().map(|name| time(name)).sum();
            let mut command = limited(program);
            command.env("HOLDALL_MUTANT", mutant.to_string()).arg("--exact").args(tests);
            match run(command, most * SLOWER + LONGER, true, &mut |_| {})? {
                Ended::Passed => {}
                Ended::Failed(by) => return Ok(Some((Verdict::Caught, format!("  ({by})")))),
                Ended::TimedOut => return Ok(Some((Verdict::TimedOut, String::new()))),
            }
        }
        Ok(None)
    }
}

fn measure(program: Program, hits: &Path) -> Result<Measured, String> {
    // The folder does not exist before the first run.
    _ = std::fs::remove_file(hits);
    let mut passed = BTreeMap::new();
    let mut left_out = BTreeMap::new();
    let start = Instant::now();
    let mut command = limited(&program);
    // The times of tests are an unstable feature.
    command.args(["-Z", "unstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    command.env("HOLDALL_MUTANT_HITS", hits);
    let ended = run(command, Duration::from_secs(1800), false, &mut |line| {
        let Some((name, outcome, time)) = outcome(line) else { return };
        match outcome {
            "ok" if time < NEVER => _ = passed.insert(name.to_owned(), time),
            "ok" => _ = left_out.insert(name.to_owned(), "takes long"),
            "FAILED" => _ = left_out.insert(name.to_owned(), "fails"),
            _ => {}
        }
    })?;
    let took = start.elapsed();
    let (mut reach, mut elsewhere) = (BTreeMap::<_, BTreeSet<_>>::new(), BTreeSet::new());
    for line in std::fs::read_to_string(hits).unwrap_or_default().lines() {
        let Some((function, thread)) = line.split_once(' ') else { continue };
        let Ok(function) = function.parse() else { continue };
        if passed.contains_key(thread) {
            reach.entry(function).or_default().insert(thread.to_owned());
        } else if !left_out.contains_key(thread) {
            elsewhere.insert(function);
        }
    }
    let shown = program.path.file_stem().unwrap_or_default().display();
    println!("{shown}: {} tests pass in {} s", passed.len(), took.as_secs());
    left_out.iter().for_each(|(name, why)| println!("  left out: {name}, which {why}"));
    match ended {
        Ended::TimedOut => Err(format!("{shown} does not end")),
        _ if passed.is_empty() => Err(format!("no test of {shown} passes")),
        _ => Ok(Measured { program, passed, reach, elsewhere }),
    }
}

/// Returns the name, the outcome and the time of a test in a line that it prints.
fn outcome(line: &str) -> Option<(&str, &str, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let (outcome, time) = rest.split_once(' ').unwrap_or((rest, ""));
    let time = time.strip_prefix('<').and_then(|time| time.strip_suffix("s>"));
    let time =
        time.and_then(|time| time.parse().ok()).map_or(Duration::ZERO, Duration::from_secs_f64);
    Some((name, outcome, time))
}

/// Returns the command of a test program that may not take all memory.
fn limited(program: &Program) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")]).arg(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("RUST_MIN_STACK", (16 << 20).to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs a test program until it ends, until the time is over, or until a test fails if `is_short`.
fn run(
    mut command: Command,
    most: Duration,
    is_short: bool,
    each: &mut dyn FnMut(&str),
) -> Result<Ended, String> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|e| format!("a test program cannot be run: {e}"))?;
    let out = child.stdout.take().ok_or("a test program has no output")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        // Other programs that a test starts may keep the output open: this thread ends with them.
        let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
        lines.map(|l| String::from_utf8_lossy(&l).into_owned()).all(|l| sender.send(l).is_ok())
    });
    let end = Instant::now() + most;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left.min(Duration::from_millis(100))) {
            Ok(line) => {
                each(&line);
                let failed = outcome(&line).filter(|(_, outcome, _)| *outcome == "FAILED");
                if let Some((name, _, _)) = failed.filter(|_| is_short) {
                    kill(&mut child);
                    return Ok(Ended::Failed(name.to_owned()));
                }
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                kill(&mut child);
                return Ok(Ended::TimedOut);
            }
            Err(_) => {
                if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                    lines.try_iter().for_each(|line| each(&line));
                    return Ok(match status.success() {
                        true => Ended::Passed,
                        false => Ended::Failed(status.to_string()),
                    });
                }
            }
        }
    }
}

/// Ends a test program and the programs that it has started.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    {
        let group = format!("-{}", child.id());
        _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
    // It may have ended by itself.
    _ = child.kill();
    _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let (none, some) = (Duration::ZERO, Duration::from_millis(1250));
        assert_eq!(outcome("test a::b ... ok <1.250s>"), Some(("a::b", "ok", some)));
        assert_eq!(outcome("test a::b ... FAILED"), Some(("a::b", "FAILED", none)));
        assert_eq!(outcome("test result: ok. 1 passed"), None);
    }
}
