//! Windows: the connection is a stream over the loopback interface. The runner finds its port, and a secret that shows
//! the caller that it is the runner which connects, in an environment variable.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The connection between a caller and a runner.
pub(crate) type Wire = TcpStream;

/// The environment variable with the port and the secret: `51234:0123456789abcdef0123456789abcdef`.
const CONNECTION: &str = "HOLDALL_RUNNER_CONNECTION";
/// The number of bytes of the secret in hexadecimal digits, which the runner sends first.
const SECRET_LEN: usize = 32;
/// How often to check for a connection.
const LOOK: Duration = Duration::from_millis(5);
/// How long a client may take to send the secret.
const GREETING: Duration = Duration::from_secs(2);

/// A port to which the process that is about to be started will connect.
pub(crate) struct Offer {
    listener: TcpListener,
    secret: String,
}

impl Offer {
    /// Lets the command be started as a runner: with the port and the secret in its environment.
    pub(crate) fn new(command: &mut Command) -> io::Result<Offer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        // Each state has keys that the system chose.
        let random = || RandomState::new().hash_one(0);
        let secret = format!("{:016x}{:016x}", random(), random());
        command.stdin(Stdio::null());
        command.env(CONNECTION, format!("{}:{secret}", listener.local_addr()?.port()));
        Ok(Offer { listener, secret })
    }

    /// Returns the connection to the started process.
    pub(crate) fn accept(self, child: &mut Child, until: Instant) -> io::Result<Wire> {
        loop {
            match self.listener.accept() {
                Ok((wire, _)) => {
                    if self.is_runner(&wire).unwrap_or(false) {
                        return Ok(wire);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if has_ended(child) {
                        return Err(io::ErrorKind::ConnectionReset.into());
                    }
                    if Instant::now() >= until {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    std::thread::sleep(LOOK);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn is_runner(&self, mut wire: &TcpStream) -> io::Result<bool> {
        wire.set_nonblocking(false)?;
        wire.set_nodelay(true)?;
        wire.set_read_timeout(Some(GREETING))?;
        let mut secret = [0; SECRET_LEN];
        wire.read_exact(&mut secret)?;
        Ok(secret == self.secret.as_bytes())
    }
}

/// Returns the connection to the process that started this one. `None` if it was not started as a runner.
pub(crate) fn connect() -> io::Result<Option<Wire>> {
    let Ok(connection) = std::env::var(CONNECTION) else { return Ok(None) };
    let Some((port, secret)) = connection.split_once(':') else { return Ok(None) };
    let Ok(port) = port.parse() else { return Ok(None) };
    let mut wire = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    wire.set_nodelay(true)?;
    wire.write_all(secret.as_bytes())?;
    Ok(Some(wire))
}

/// Does nothing: the connection, which ends with the parent process, shows it at the end of a call.
pub(crate) fn end_with_parent() {}

/// Returns `true` if the process has ended.
pub(crate) fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Kills the process. Processes that it has started go on until they end.
pub(crate) fn kill(child: &mut Child) {
    let _ = child.kill();
}

/// Returns `None`: there are no signals.
pub(crate) fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// Returns `None`: there is no folder in memory.
pub(crate) fn memory_folder() -> Option<&'static Path> {
    None
}

/// Does nothing: only accounts with a special right can create symbolic links, and pipes are not in folders.
pub(crate) fn open_only_files(_: &mut OpenOptions) {}

/// Returns `true` if two names are those of the same environment variable, which do not differ by case alone.
pub(crate) fn is_same_variable(one: &OsStr, other: &OsStr) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Further environment variables that every process gets: without some, no program can use the network or find its
/// libraries.
#[rustfmt::skip]
pub(crate) const PASSED_NAMES: &[&str] = &[
    "ALLUSERSPROFILE", "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS",
    "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME",
    "USERPROFILE", "WINDIR",
];

/// Returns the user's folder for configuration files.
pub(crate) fn config_folder() -> Option<PathBuf> {
    std::env::var_os("APPDATA").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The usual name of the Python interpreter.
pub(crate) const PYTHON: &str = "python";
