//! Unix: the connection is a pair of sockets, one of which is the runner's standard input, and a runner leads a process
//! group, which is killed as a whole.

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process_group, waitid};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The connection between a caller and a runner.
pub(crate) type Wire = UnixStream;

/// The caller's end of a connection to a process that is about to be started.
pub(crate) struct Offer(UnixStream);

impl Offer {
    /// Lets the command be started as a runner: with the other end of the connection, in a process group of its own. The
    /// connection is closed for the runner once the command is dropped.
    pub(crate) fn new(command: &mut Command) -> io::Result<Offer> {
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        Ok(Offer(ours))
    }

    /// Returns the connection to the started process.
    pub(crate) fn accept(self, _: &mut Child, _: Instant) -> io::Result<Wire> {
        Ok(self.0)
    }
}

/// Returns the connection to the process that started this one. `None` if it was not started as a runner.
pub(crate) fn connect() -> io::Result<Option<Wire>> {
    let wire = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    Ok(wire.peer_addr().is_ok().then_some(wire))
}

/// Ends this process when its parent process has ended, which the connection shows only between calls.
pub(crate) fn end_with_parent() {
    let parent = getppid();
    while getppid() == parent {
        std::thread::sleep(Duration::from_secs(1));
    }
    std::process::exit(1);
}

/// Returns `true` if the process has ended. It is not reaped, so that the id of its process group stays valid.
pub(crate) fn has_ended(child: &mut Child) -> bool {
    let Some(pid) = pid(child) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// Kills the process, which must not have been reaped, and those that it has started.
pub(crate) fn kill(child: &mut Child) {
    if let Some(pid) = pid(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Returns the number of the signal that ended a process.
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Returns a folder in memory, which the system need not have.
pub(crate) fn memory_folder() -> Option<&'static Path> {
    Some(Path::new("/dev/shm"))
}

/// Opens only files: no symbolic links, and no pipes, which could block.
pub(crate) fn open_only_files(options: &mut OpenOptions) {
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
}

/// Returns `true` if two names are those of the same environment variable.
pub(crate) fn is_same_variable(one: &OsStr, other: &OsStr) -> bool {
    one == other
}

/// Further environment variables that every process gets.
pub(crate) const PASSED_NAMES: &[&str] = &[];

/// Returns the user's folder for configuration files.
pub(crate) fn config_folder() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let own = own.filter(|folder| folder.is_absolute());
    own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))
}

/// The usual name of the Python interpreter.
pub(crate) const PYTHON: &str = "python3";
