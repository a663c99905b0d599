//! `holdall serve`, and the other commands over what it serves.
#![cfg(all(unix, feature = "quic"))]

mod command;

use command::{command, holdall};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt")
}

/// A server that ends with this.
struct Serving {
    child: Child,
    told: serde_json::Value,
    log: Option<BufReader<ChildStderr>>,
}

impl Serving {
    fn new(args: &[&str]) -> Serving {
        let mut command = command(["serve", "--json", "--listen", "127.0.0.1:0"]);
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = child.stderr.take().map(BufReader::new);
        let told = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        Serving { child, told, log }
    }

    fn address(&self) -> &str {
        self.told["address"].as_str().unwrap()
    }

    fn url(&self, name: &str) -> String {
        let pin = self.told["sha256"].as_str().unwrap();
        format!("holdall://{}/{name}#sha256={pin}", self.address())
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
    }

    /// Exit status and log, once it has ended.
    fn ended(mut self) -> (i32, String) {
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

const ALLOW: [&str; 2] = ["--allow", "private-hosts"];

#[test]
fn commands_read_what_is_served_and_a_signal_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(tiny(), folder.path().join("tiny.zt")).unwrap();
    let key = folder.path().join(".key");
    let args = [folder.path().to_str().unwrap(), "--identity", key.to_str().unwrap()];
    // The folder's name begins with a dot where the system's temporary ones do.
    let inside = folder.path().join("models");
    std::fs::create_dir(&inside).unwrap();
    std::fs::rename(folder.path().join("tiny.zt"), inside.join("tiny.zt")).unwrap();
    let args = [inside.to_str().unwrap(), args[1], args[2]];
    let serving = Serving::new(&args);
    assert_eq!(serving.told["files"], serde_json::json!(["models/tiny.zt"]));
    let url = serving.url("models/tiny.zt");
    let local = holdall(["inspect", "--json", tiny().to_str().unwrap()]).ends_with(0).json();
    let remote = holdall(["inspect", "--json", &url, ALLOW[0], ALLOW[1]]).ends_with(0).json();
    assert_eq!(remote["tensors"], local["tensors"]);
    holdall(["verify", &url, ALLOW[0], ALLOW[1]]).ends_with(0);
    let out = folder.path().join("copy.zt");
    holdall(["convert", &url, out.to_str().unwrap(), ALLOW[0], ALLOW[1]]).ends_with(0);
    holdall(["diff", out.to_str().unwrap(), tiny().to_str().unwrap()]).ends_with(0);
    let http = format!("http://{}/models/tiny.zt", serving.address());
    holdall(["verify", &http, "--allow", "http", ALLOW[0], ALLOW[1]]).ends_with(0);
    // Not without leave; not what is not there.
    let e = holdall(["inspect", "--json", &url]).ends_with(2).error();
    assert_eq!(e["code"], "http/private-host");
    let none = serving.url("models/.key");
    let e = holdall(["inspect", "--json", &none, ALLOW[0], ALLOW[1]]).ends_with(2).error();
    assert_eq!(e["code"], "net/no-file");
    let pin = serving.told["sha256"].clone();
    serving.signal("-TERM");
    let (status, log) = serving.ended();
    assert_eq!(status, 0, "{log}");
    assert!(
        log.contains(" quic models/tiny.zt ") && log.contains(" http models/tiny.zt "),
        "{log}"
    );
    assert!(log.contains(" net/no-file\n") && log.ends_with("ending\n"), "{log}");
    // The same key is the same certificate.
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = Serving::new(&args);
    assert_eq!(again.told["sha256"], pin);
    again.signal("-INT");
    assert_eq!(again.ended().0, 0);
}

#[test]
fn tokens_come_from_a_file_and_are_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::File::create(&tokens).unwrap().write_all(b"one\n\nsecret-two\n").unwrap();
    let tokens = tokens.to_str().unwrap();
    let serving = Serving::new(&[tiny().to_str().unwrap(), "--token-file", tokens]);
    let url = serving.url("tiny.zt");
    let with = |token: &str| url.replace("holdall://", &format!("holdall://{token}@"));
    holdall(["verify", &with("secret-two"), ALLOW[0], ALLOW[1]]).ends_with(0);
    for url in [url.clone(), with("secret-wrong")] {
        let e = holdall(["verify", "--json", &url, ALLOW[0], ALLOW[1]]).ends_with(2);
        assert_eq!(e.error()["code"], "net/token");
        assert!(!e.err.contains("secret"), "{}", e.err);
    }
    serving.signal("-INT");
    let (_, log) = serving.ended();
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn what_cannot_be_served_is_told() {
    let tiny = tiny();
    let tiny = tiny.to_str().unwrap();
    for (args, code) in [
        (vec!["none.zt"], "net/serve"),
        (vec![tiny, tiny], "net/serve"),
        (vec![tiny, "--listen", "192.0.2.1:1"], "net/listen"),
        (vec![tiny, "--listen", "127.0.0.1:0", "--identity", tiny], "net/identity"),
        (vec![tiny, "--listen", "127.0.0.1:0", "--token-file", "/dev/null"], "net/token"),
    ] {
        let ran = holdall(["serve", "--json", "--quiet"].iter().chain(&args));
        assert_eq!(ran.error()["code"], code, "{args:?}");
    }
}
