//! Runs the `holdall` binary.
#![allow(dead_code)] // Each test file uses its own part.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The output and exit status of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) raw: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// Asserts the exit status and returns the run.
    #[track_caller]
    pub(crate) fn ends_with(self, status: i32) -> Ran {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Parses standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// Parses standard error as a single JSON object.
    #[track_caller]
    pub(crate) fn error(&self) -> serde_json::Value {
        let all: serde_json::Value =
            serde_json::from_str(&self.err).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        all["error"].clone()
    }
}

/// The environment variable with an emulator and its arguments, for tests that themselves run in one: a system that starts
/// programs for another processor only by their emulator.
const EMULATOR: &str = "HOLDALL_TEST_EMULATOR";

/// Returns the words of the command line that starts the binary.
pub(crate) fn words() -> Vec<String> {
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let emulator = emulator.split_whitespace().map(str::to_owned);
    emulator.chain([env!("CARGO_BIN_EXE_holdall").to_owned()]).collect()
}

/// Returns a command for the binary, without environment variables that set colors or certificate authorities (loading
/// authorities takes longer than reading most files of the tests).
pub(crate) fn command(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut words = words().into_iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "SSL_CERT_FILE"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs `holdall` with these arguments.
pub(crate) fn holdall(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
    ran(command(args).output().unwrap())
}

/// Runs `holdall` with bytes on a pipe to its standard input.
pub(crate) fn holdall_with(args: impl IntoIterator<Item = impl AsRef<OsStr>>, stdin: &[u8]) -> Ran {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    // The command may exit before it has read everything.
    let writer = std::thread::spawn(move || pipe.write_all(&bytes));
    let out = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    ran(out)
}

pub(crate) fn ran(out: std::process::Output) -> Ran {
    Ran {
        status: out.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&out.stdout).into_owned(),
        raw: out.stdout,
        err: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// Returns the path of the corpus.
pub(crate) fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Returns the path of an accepted file of the corpus, as an argument.
pub(crate) fn accept(name: &str) -> String {
    corpus().join("accept").join(name).to_str().unwrap().to_owned()
}

/// Returns the files in the folders of `corpus/<kind>`, without the JSON descriptions, sorted.
pub(crate) fn files(kind: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(corpus().join(kind))
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e != "json"))
        .collect();
    out.sort();
    assert!(!out.is_empty());
    out
}

/// Returns the accepted files written by other programs that have an independently written description, with that
/// description.
pub(crate) fn golden() -> Vec<(PathBuf, serde_json::Value)> {
    let described = |path: PathBuf| {
        let text = std::fs::read(format!("{}.expect.json", path.display())).ok()?;
        Some((path, serde_json::from_slice(&text).unwrap()))
    };
    let all: Vec<_> = files("accept").into_iter().filter_map(described).collect();
    assert!(all.len() >= 14, "{} files are described", all.len());
    all
}

/// A temporary folder for the files of a test.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
