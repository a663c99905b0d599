//! What the command does when it is asked to end, and how it starts itself again.

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
#[cfg(feature = "carton")]
pub(crate) fn this_program() -> Option<Vec<OsString>> {
    PROGRAM.get().cloned()
}

/// Removes temporary folders, of running models and of outputs, before a signal ends the process.
pub(crate) fn leave_nothing_behind() {
    if OWN.load(Ordering::Relaxed) {
        crate::platform::before_end(holdall::temporary::remove_all);
    }
}
