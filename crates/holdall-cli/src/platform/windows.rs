//! Windows: no signals, and consoles that understand escapes once they are asked to.

#[cfg(feature = "carton")]
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The program that opens an address in the user's browser.
pub(crate) const BROWSER: &str = "explorer";

/// Whether a backslash in a command that is given as one argument escapes the next character. Here it separates the parts
/// of a path.
#[cfg(feature = "carton")]
pub(crate) const BACKSLASH_ESCAPES: bool = false;

/// Returns `true` if a console of this system shows colours, which older ones do not.
pub(crate) fn enable_colors() -> bool {
    // `None`: there is no console, but a terminal of another kind, such as that of Cygwin.
    anstyle_query::windows::enable_ansi_colors().unwrap_or(true)
}

/// Returns `true` if the error of a write says that the reader has closed the other end of a pipe.
pub(crate) fn is_closed_pipe(e: &std::io::Error) -> bool {
    const ERROR_PIPE_NOT_CONNECTED: i32 = 233;
    e.kind() == std::io::ErrorKind::BrokenPipe || e.raw_os_error() == Some(ERROR_PIPE_NOT_CONNECTED)
}

/// Splits `NAME=VALUE`, which may contain any units, at the first `=`. Without one, there is no name.
#[cfg(feature = "carton")]
pub(crate) fn split_variable(text: &OsStr) -> (OsString, OsString) {
    use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
    let units: Vec<u16> = text.encode_wide().collect();
    let at = units.iter().position(|unit| *unit == u16::from(b'=')).unwrap_or(0);
    let (name, value) = units.split_at(at);
    let value = value.get(1..).unwrap_or_default();
    (OsString::from_wide(name), OsString::from_wide(value))
}

/// Returns `None`: standard input cannot be opened again.
pub(crate) fn redirected_input() -> Option<&'static Path> {
    None
}

/// Does nothing: there are no limits on file sizes but those of the disk.
pub(crate) fn outlive_file_limits() {}

/// Does nothing: the process ends at once. What it leaves is removed by the next one that writes to the same folder.
pub(crate) fn before_end(_: fn()) {}

/// Returns a flag that never becomes `true`: the process ends at once.
pub(crate) fn end_requested() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}
