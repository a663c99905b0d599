//! Signals that the command handles. A signal that the parent process had ignored (`nohup`) stays ignored.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the command may handle signals that end the process.
static OWN: AtomicBool = AtomicBool::new(false);

/// Lets commands handle signals that end the process, to remove their temporary files. To be called only in a process
/// that does nothing but run the command.
pub fn own_signals() {
    OWN.store(true, Ordering::Relaxed);
}

/// The command line that starts this program.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command line that starts this program, for commands that start it again as another process.
pub fn set_program_command(command: Vec<OsString>) {
    // Only the first call counts.
    let _ = PROGRAM.set(command);
}

/// Returns the command line that starts this program, if it is known.
#[cfg(all(unix, feature = "carton"))]
pub(crate) fn this_program() -> Option<Vec<OsString>> {
    PROGRAM.get().cloned()
}

/// Makes a write past the limit on file sizes (`ulimit -f`) fail like on a full disk. The default action of its signal
/// would end the process without an error message. An empty handler suffices.
pub(crate) fn outlive_file_limits() {
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGXFSZ;
        use std::sync::Arc;
        // If the handler cannot be installed, the signal keeps its effect.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Removes temporary folders, of running models and of outputs, before a signal ends the process.
#[cfg(unix)]
pub(crate) fn leave_nothing_behind() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    if !OWN.load(Ordering::Relaxed) {
        return;
    }
    let taken = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    let (is_ready, ready) = std::sync::mpsc::channel::<()>();
    // If the thread or the handlers cannot be created, signals keep their effect.
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

/// Returns whether the process was started with the signal ignored. Outside Linux this cannot be determined without
/// unsafe code, so the result is `false`.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    // Signals are numbered from 1, bits from 0.
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}
