//! Unix: signals, and consoles that understand escapes.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
#[cfg(feature = "carton")]
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The program that opens an address in the user's browser.
pub(crate) const BROWSER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Whether a backslash in a command that is given as one argument escapes the next character.
#[cfg(feature = "carton")]
pub(crate) const BACKSLASH_ESCAPES: bool = true;

/// Returns `true` if a console of this system shows colours.
pub(crate) fn enable_colors() -> bool {
    true
}

/// Returns `true` if the error of a write says that the reader has closed the other end of a pipe.
pub(crate) fn is_closed_pipe(e: &std::io::Error) -> bool {
    e.kind() == std::io::ErrorKind::BrokenPipe
}

/// Splits `NAME=VALUE`, which may contain any bytes, at the first `=`. Without one, there is no name.
#[cfg(feature = "carton")]
pub(crate) fn split_variable(text: &OsStr) -> (OsString, OsString) {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=').unwrap_or(0);
    let (name, value) = bytes.split_at(at);
    let value = value.get(1..).unwrap_or_default();
    (OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned())
}

/// Returns the path under which standard input can be opened again, if it is redirected from a file and at its start.
pub(crate) fn redirected_input() -> Option<&'static Path> {
    use std::io::Seek as _;
    use std::os::fd::AsFd as _;
    // On other systems, the path leads to the same open file, with the same position.
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut file = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    (is_file && file.stream_position().ok() == Some(0)).then_some(Path::new("/dev/stdin"))
}

/// Makes a write past the limit on file sizes (`ulimit -f`) fail like on a full disk. The default action of its signal
/// would end the process without an error message. An empty handler suffices.
pub(crate) fn outlive_file_limits() {
    // If the handler cannot be installed, the signal keeps its effect.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Calls `clean` before a signal ends the process. A signal that the parent process had ignored (`nohup`) stays ignored.
pub(crate) fn before_end(clean: fn()) {
    let taken = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    let (is_ready, ready) = std::sync::mpsc::channel::<()>();
    // If the thread or the handlers cannot be created, signals keep their effect.
    let started = std::thread::Builder::new().spawn(move || {
        let signals = signal_hook::iterator::Signals::new(taken);
        drop(is_ready);
        let Ok(mut signals) = signals else { return };
        for signal in signals.forever() {
            clean();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    if started.is_ok() {
        let _ = ready.recv();
    }
}

/// Returns a flag that becomes `true` when a signal requests the process to end. A second signal ends it immediately.
pub(crate) fn end_requested() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // If the handler cannot be installed, the signal keeps its effect.
        let _ = flag::register_conditional_shutdown(signal, 130, Arc::clone(&ended));
        let _ = flag::register(signal, Arc::clone(&ended));
    }
    ended
}

/// Returns whether the process was started with the signal ignored. Outside Linux this cannot be determined without
/// unsafe code, so the result is `false`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    // Signals are numbered from 1, bits from 0.
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}
