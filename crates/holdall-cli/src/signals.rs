//! Signals that the command handles. A signal that the parent process had ignored (`nohup`) stays ignored.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether signals that end the process are the command's own to take.
static OWN: AtomicBool = AtomicBool::new(false);

/// Lets commands take signals that end the process, to remove their temporary files. For a process that is the
/// command and nothing else.
pub fn own_signals() {
    OWN.store(true, Ordering::Relaxed);
}

/// The command that starts this program.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says by which command this program is started again, for what it does in another process of itself.
pub fn starts_by(command: Vec<OsString>) {
    // Said once; it does not change.
    let _ = PROGRAM.set(command);
}

/// The command that starts this program, where that was said.
#[cfg(all(unix, feature = "carton"))]
pub(crate) fn this_program() -> Option<Vec<OsString>> {
    PROGRAM.get().cloned()
}

/// Makes a write past the limit on the size of files (`ulimit -f`) fail, as one to a full disk does: its
/// signal would end the process before anything could be said. Who handles it need do nothing.
pub(crate) fn outlive_file_limits() {
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGXFSZ;
        use std::sync::Arc;
        // Where that cannot be had, the signal does what it did.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Removes temporary folders, of models that run and of targets, before a signal ends the process.
#[cfg(unix)]
pub(crate) fn leave_nothing_behind() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    if !OWN.load(Ordering::Relaxed) {
        return;
    }
    let taken = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    let (is_ready, ready) = std::sync::mpsc::channel::<()>();
    // Where no thread starts, or they cannot be had, signals do what they did.
    let started = std::thread::Builder::new().spawn(move || {
        let signals = signal_hook::iterator::Signals::new(taken);
        drop(is_ready);
        let Ok(mut signals) = signals else { return };
        for signal in signals.forever() {
            holdall::temporary::remove_all();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    if started.is_ok() {
        let _ = ready.recv();
    }
}

/// Whether the process was started with the signal ignored. Linux says so; elsewhere nobody can be asked without
/// unsafe code, and the answer is no.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    // Signals count from 1, bits from 0.
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}
