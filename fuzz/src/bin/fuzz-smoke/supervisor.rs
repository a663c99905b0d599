//! Starts the workers, watches them, and tells what an input did.

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

/// Processor time that one input may take.
const MOST_CPU: Duration = Duration::from_secs(5);
/// Time on the clock that one input may take, on a machine with other things to do.
const MOST_TIME: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Inputs of one target for one process.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) target: &'static Target,
    pub(crate) seed: u64,
    pub(crate) numbers: Range<u64>,
}

/// How a worker ended that did not do all its inputs.
struct Ended {
    number: u64,
    how: String,
    said: String,
    is_memory: bool,
}

/// Which inputs of a seed are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Regressions and seeds as they are, then those made from them.
    First,
    /// Only those that are made: the others are the same under every seed.
    Done,
}

/// The jobs of all targets under one seed: each target's inputs, or the first Nth of those that are made, in two parts.
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

/// Does all jobs on every core. The answer is how many found something.
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
        // One of the last few: which one?
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
    let Ended { number, how, said, .. } = ended;
    Err(format!(
        "\n{name}: input {number} of seed {} {how}\n{said}\nit is in {}; to run it again:\n    \
         cargo xtask fuzz-smoke --target {name} --input {}\n",
        job.seed,
        path.display(),
        path.display()
    ))
}

/// Writes an input that something is wrong with to a file.
fn keep(job: &Job, number: u64, input: &[u8]) -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let folder = root().join(target).join("fuzz-failures");
    let path = folder.join(format!("{}-{}-{number}", job.target.name, job.seed));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    written.map_err(|e| format!("{}: {e}", path.display())).map(|()| path)
}

/// Runs a job in a process of its own. `None` when it did all its inputs.
fn work(job: &Job, core: usize) -> Result<Option<Ended>, String> {
    let place = |what: &str| {
        let own = std::process::id();
        std::env::temp_dir().join(format!("holdall-fuzz-{own}-{core}-{what}"))
    };
    let (record, said) = (place("at"), place("said"));
    let io = |e: std::io::Error| format!("a worker cannot be run: {e}");
    let program = std::env::current_exe().map_err(io)?;
    let mut child = Command::new(program)
        .args(["--worker", "--target", job.target.name])
        .args(["--seed", &job.seed.to_string()])
        .args(["--from", &job.numbers.start.to_string(), "--to", &job.numbers.end.to_string()])
        .arg("--record")
        .arg(&record)
        // Else the C library sets aside 64 MiB for each thread that asks for some.
        .env("MALLOC_ARENA_MAX", "1")
        // Where it panicked is told by running the one input again.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stderr(File::create(&said).map_err(io)?)
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
    let text = std::fs::read(&said).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    let _ = (std::fs::remove_file(&record), std::fs::remove_file(&said));
    Ok(match status {
        Some(status) if status.success() => None,
        Some(status) => Some(Ended {
            number,
            how: how(status),
            said: text,
            is_memory: status.code() == Some(TOO_MUCH_MEMORY.into()),
        }),
        None => {
            let how = format!("takes more than {} s", MOST_CPU.as_secs());
            Some(Ended { number, how, said: text, is_memory: false })
        }
    })
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code == i32::from(TOO_MUCH_MEMORY) => "takes too much memory".to_owned(),
        // What a Rust program that panicked ends with.
        Some(101) => "panics".to_owned(),
        _ => format!("ends the process: {status}"),
    }
}

fn read_number(record: &Path) -> Option<u64> {
    let bytes = std::fs::read(record).ok()?;
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// How long the input that a worker is at has taken.
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
        spent.is_some_and(|spent| spent > MOST_CPU) || self.since.elapsed() > MOST_TIME
    }
}

/// Processor time of a process; `None` where the system does not tell.
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything; user and system time are fields 14 and 15, in 1/100 s.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    Some(Duration::from_millis(ticks * 10))
}
