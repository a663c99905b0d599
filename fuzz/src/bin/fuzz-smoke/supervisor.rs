//! Starts the workers, watches them, and reports the effect of an input.

use crate::inputs::{Inputs, root};
use crate::worker::{LOOK_EVERY, TOO_MUCH_MEMORY};
use holdall_fuzz::Target;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The maximum CPU time of one input.
const MAX_CPU: Duration = Duration::from_secs(5);
/// The maximum wall-clock time of one input, on a machine that is busy otherwise.
const MAX_TIME: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Inputs of one target per process.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) target: &'static Target,
    pub(crate) seed: u64,
    pub(crate) numbers: Range<u64>,
}

/// How a worker ended that did not finish its inputs.
struct Ended {
    number: u64,
    how: String,
    output: String,
    is_memory: bool,
}

/// The inputs of a seed to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Regressions and seeds unchanged, then inputs generated from them.
    First,
    /// Only generated inputs: the others are the same under every seed.
    Done,
}

/// Returns the jobs of all targets under one seed, in two parts: each target's inputs, or the first Nth of the
/// generated ones.
pub(crate) fn jobs(
    targets: &[&'static Target],
    seed: u64,
    which: Known,
    part: u64,
) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for target in targets {
        let known = Inputs::for_target(target)?.known();
        let start = if which == Known::First { 0 } else { known };
        let runs = target.runs / part.max(1);
        let (middle, end) = (known + runs / 2, known + runs);
        for numbers in [start..middle, middle..end] {
            jobs.push(Job { target, seed, numbers });
        }
    }
    Ok(jobs)
}

/// Runs all jobs on every core. Returns the number of jobs that found an error.
pub(crate) fn run(jobs: Vec<Job>) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let queue = Mutex::new(jobs.into_iter());
    let failures = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for core in 0..cores {
            let (queue, failures) = (&queue, &failures);
            scope.spawn(move || {
                loop {
                    let job = queue.lock().map_or_else(|p| p.into_inner().next(), |mut q| q.next());
                    let Some(job) = job else { return };
                    if let Err(e) = do_job(&job, core) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        eprintln!("{e}");
                    }
                }
            });
        }
    });
    failures.into_inner()
}

fn do_job(job: &Job, core: usize) -> Result<(), String> {
    let start = Instant::now();
    let (name, Range { start: from, end: to }) = (job.target.name, job.numbers.clone());
    let Some(mut ended) = work(job, core)? else {
        let spent = start.elapsed().as_secs_f64();
        println!("{name:<20} {:>8} inputs, seed {}: {spent:.1} s", to - from, job.seed);
        return Ok(());
    };
    if ended.is_memory {
        // One of the last few inputs caused it: find out which.
        for number in ended.number.saturating_sub(LOOK_EVERY)..=ended.number {
            let job = Job { numbers: number..number + 1, ..job.clone() };
            if let Some(found) = work(&job, core)? {
                ended = found;
                break;
            }
        }
    }
    let input = Inputs::for_target(job.target)?.input(job.seed, ended.number);
    let path = keep(job, ended.number, &input)?;
    let Ended { number, how, output, .. } = ended;
    Err(format!(
        "\n{name}: input {number} of seed {} {how}\n{output}\nit is in {}; to run it again:\n    \
         cargo xtask fuzz-smoke --target {name} --input {}\n",
        job.seed,
        path.display(),
        path.display()
    ))
}

/// Writes an input that causes an error to a file.
fn keep(job: &Job, number: u64, input: &[u8]) -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let folder = root().join(target).join("fuzz-failures");
    let path = folder.join(format!("{}-{}-{number}", job.target.name, job.seed));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    written.map_err(|e| format!("{}: {e}", path.display())).map(|()| path)
}

/// Runs a job in a separate process. Returns `None` if it finished all its inputs.
fn work(job: &Job, core: usize) -> Result<Option<Ended>, String> {
    let place = |what: &str| {
        let own = std::process::id();
        std::env::temp_dir().join(format!("holdall-fuzz-{own}-{core}-{what}"))
    };
    let (record, output) = (place("at"), place("said"));
    let io = |e: std::io::Error| format!("cannot run a worker: {e}");
    let program = std::env::current_exe().map_err(io)?;
    let mut child = Command::new(program)
        .args(["--worker", "--target", job.target.name])
        .args(["--seed", &job.seed.to_string()])
        .args(["--from", &job.numbers.start.to_string(), "--to", &job.numbers.end.to_string()])
        .arg("--record")
        .arg(&record)
        // Otherwise the C library reserves 64 MiB per thread that allocates.
        .env("MALLOC_ARENA_MAX", "1")
        // Running the input again shows where it panicked.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stderr(File::create(&output).map_err(io)?)
        .spawn()
        .map_err(io)?;
    let mut watch = Watch::new();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break Some(status);
        }
        if watch.is_over(child.id(), read_number(&record)) {
            child.kill().and_then(|()| child.wait()).map_err(io)?;
            break None;
        }
        std::thread::sleep(POLL);
    };
    let number = read_number(&record).unwrap_or(job.numbers.start);
    let text = std::fs::read(&output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    let _ = (std::fs::remove_file(&record), std::fs::remove_file(&output));
    Ok(match status {
        Some(status) if status.success() => None,
        Some(status) => Some(Ended {
            number,
            how: how(status),
            output: text,
            is_memory: status.code() == Some(TOO_MUCH_MEMORY.into()),
        }),
        None => {
            let how = format!("takes more than {} s", MAX_CPU.as_secs());
            Some(Ended { number, how, output: text, is_memory: false })
        }
    })
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code == i32::from(TOO_MUCH_MEMORY) => "takes too much memory".to_owned(),
        // The exit status of a Rust program that panicked.
        Some(101) => "panics".to_owned(),
        _ => format!("ends the process: {status}"),
    }
}

fn read_number(record: &Path) -> Option<u64> {
    let bytes = std::fs::read(record).ok()?;
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns how long the current input of a worker has taken.
struct Watch {
    number: Option<u64>,
    since: Instant,
    cpu: Option<Duration>,
}

impl Watch {
    fn new() -> Watch {
        Watch { number: None, since: Instant::now(), cpu: None }
    }

    fn is_over(&mut self, worker: u32, number: Option<u64>) -> bool {
        if number != self.number || number.is_none() {
            *self = Watch { number, since: Instant::now(), cpu: cpu_time(worker) };
            return false;
        }
        let spent = cpu_time(worker).zip(self.cpu).map(|(now, then)| now.saturating_sub(then));
        spent.is_some_and(|spent| spent > MAX_CPU) || self.since.elapsed() > MAX_TIME
    }
}

/// Returns the CPU time of a process, or `None` if the system does not report it.
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may contain anything; user and system time are fields 14 and 15, in 1/100 s.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    Some(Duration::from_millis(ticks * 10))
}
