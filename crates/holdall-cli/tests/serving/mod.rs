//! Runs `holdall serve` as a separate process.
#![allow(dead_code)] // Each test file uses its own part.

use crate::command::command;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

/// A server that is stopped when this is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) report: serde_json::Value,
    pub(crate) log: Option<BufReader<ChildStderr>>,
}

impl Serving {
    pub(crate) fn new(args: &[&str]) -> Serving {
        let mut command = command(["serve", "--json"]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = child.stderr.take().map(BufReader::new);
        let report = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        Serving { child, report, log }
    }

    pub(crate) fn address(&self) -> &str {
        self.report["address"].as_str().unwrap()
    }

    pub(crate) fn url(&self, name: &str) -> String {
        let pin = self.report["sha256"].as_str().unwrap();
        format!("holdall://{}/{name}#sha256={pin}", self.address())
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
    }

    /// Returns the exit status and the log, after the server has ended.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let until = Instant::now() + Duration::from_secs(15);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut log = String::new();
        self.log.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
