//! `holdall serve`, and other commands that read from it.
#![cfg(all(unix, feature = "quic"))]

use crate::command::{command, holdall};
use crate::serving::Serving;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt")
}

const ALLOW: [&str; 2] = ["--allow", "private-hosts"];

#[test]
fn commands_read_served_files_and_a_signal_stops_the_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(tiny(), folder.path().join("tiny.zt")).unwrap();
    let key = folder.path().join(".key");
    let args = [folder.path().to_str().unwrap(), "--identity", key.to_str().unwrap()];
    // The names of temporary folders begin with a dot, and `serve` skips such names.
    let inside = folder.path().join("models");
    std::fs::create_dir(&inside).unwrap();
    std::fs::rename(folder.path().join("tiny.zt"), inside.join("tiny.zt")).unwrap();
    let args = [inside.to_str().unwrap(), args[1], args[2]];
    let serving = Serving::new(&args);
    assert_eq!(serving.report["files"], serde_json::json!(["models/tiny.zt"]));
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
    // Private hosts must be allowed, and missing files are errors.
    let e = holdall(["inspect", "--json", &url]).ends_with(2).error();
    assert_eq!(e["code"], "http/private-host");
    let none = serving.url("models/.key");
    let e = holdall(["inspect", "--json", &none, ALLOW[0], ALLOW[1]]).ends_with(2).error();
    assert_eq!(e["code"], "net/no-file");
    let pin = serving.report["sha256"].clone();
    serving.signal("-TERM");
    let (status, log) = serving.ended();
    assert_eq!(status, 0, "{log}");
    assert!(
        log.contains(" quic models/tiny.zt ") && log.contains(" http models/tiny.zt "),
        "{log}"
    );
    assert!(log.contains(" net/no-file\n") && log.ends_with("stopping\n"), "{log}");
    // The next server uses the certificate that was written.
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = Serving::new(&args);
    assert_eq!(again.report["sha256"], pin);
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
    let over_http = |who: &str| {
        let address = format!("http://{who}{}/tiny.zt", serving.address());
        holdall(["verify", "--json", &address, ALLOW[0], ALLOW[1], "--allow", "http"])
    };
    over_http("secret-two@").ends_with(0);
    let error = over_http("").ends_with(3).error();
    assert!(error["hint"].as_str().unwrap().contains("`TOKEN@`"), "{error}");
    assert_eq!(over_http("secret-wrong@").ends_with(3).error()["hint"], serde_json::Value::Null);
    serving.signal("-INT");
    let (_, log) = serving.ended();
    assert!(!log.contains("secret"), "{log}");
}

#[cfg(feature = "http2")]
#[test]
fn no_token_goes_over_a_network_in_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, b"secret\n").unwrap();
    let tiny = tiny();
    let tiny = tiny.to_str().unwrap();
    let (any, asks) = (["--listen", "0.0.0.0:0"], ["--token-file", tokens.to_str().unwrap()]);
    for (args, is_plain) in [
        ([&any[..], &asks].concat(), false),
        ([&any[..], &asks, &["--plain-http", "allow"]].concat(), true),
        (any.to_vec(), true),
        (asks.to_vec(), true),
        ([&asks[..], &["--plain-http", "refuse"]].concat(), false),
    ] {
        let serving = Serving::new(&[&[tiny][..], &args].concat());
        assert_eq!(serving.report["http"], is_plain, "{args:?}");
        assert_eq!(serving.report["https"], true, "{args:?}");
        let port = serving.address().rsplit(':').next().unwrap();
        let asked = "GET /tiny.zt HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                     Authorization: Bearer secret\r\n\r\n";
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.write_all(asked.as_bytes()).unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let status = if is_plain { "HTTP/1.1 200 " } else { "HTTP/1.1 400 " };
        assert!(response.starts_with(status.as_bytes()), "{args:?}");
    }
}

#[test]
fn files_that_cannot_be_served_are_reported() {
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
    let ran = holdall(["serve", tiny, "--token-file", "/dev/null"]).ends_with(2);
    assert!(ran.err.ends_with("hint: write one secret per line\n"), "{ran:?}");
}

/// Writes a file of random bytes.
fn noise(path: &Path, len: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let bytes: Vec<u8> = (0..len).map(|_| next()).collect();
    std::fs::write(path, &bytes).unwrap();
    bytes
}

/// Sends a request over HTTP.
fn ask(address: &str, path: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn body(mut stream: std::net::TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    all.split_off(end + 4)
}

#[test]
fn metrics_are_served_on_request() {
    let tiny = tiny();
    let none = Serving::new(&[tiny.to_str().unwrap()]);
    assert!(none.report["metrics"].is_null());
    assert!(body(ask(none.address(), "/metrics")).starts_with(b"no such file"));
    let serving = Serving::new(&[tiny.to_str().unwrap(), "--metrics", "127.0.0.1:0"]);
    let metrics = serving.report["metrics"].as_str().unwrap();
    let numbers = || String::from_utf8(body(ask(metrics, "/metrics"))).unwrap();
    let before = numbers();
    assert!(
        before.contains("# TYPE holdall_clients gauge\nholdall_clients{protocol=\"http\"} 0\n")
    );
    holdall(["verify", &serving.url("tiny.zt"), ALLOW[0], ALLOW[1]]).ends_with(0);
    let bytes = body(ask(serving.address(), "/tiny.zt")).len();
    body(ask(serving.address(), "/none.zt"));
    // The counter may be updated shortly before or after the client has received the answer.
    let until = Instant::now() + Duration::from_secs(10);
    let wanted = [
        "holdall_clients{protocol=\"http\"} 0\n".to_owned(),
        "holdall_clients_total{protocol=\"http\"} 2\n".to_owned(),
        "holdall_clients_total{protocol=\"quic\"} 1\n".to_owned(),
        "holdall_answering{protocol=\"http\"} 0\n".to_owned(),
        format!(
            "holdall_sent_bytes_total{{protocol=\"http\"}} {}\n",
            bytes + "no such file is served\n".len()
        ),
        "holdall_requests_total{protocol=\"http\",outcome=\"whole\"} 1\n".to_owned(),
        "holdall_requests_total{protocol=\"http\",outcome=\"net/no-file\"} 1\n".to_owned(),
        "holdall_requests_total{protocol=\"quic\",outcome=\"whole\"} ".to_owned(),
    ];
    loop {
        let now = numbers();
        match wanted.iter().find(|wanted| !now.contains(&**wanted)) {
            None => break,
            Some(missing) => assert!(Instant::now() < until, "{missing}{now}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_rate_is_limited_and_running_responses_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noise.bin");
    let bytes = noise(&path, 400_000);
    for (rate, scheme) in [("--rate", "http"), ("--rate-of-all", "http"), ("--rate", "quic")] {
        let serving = Serving::new(&[path.to_str().unwrap(), rate, "400KB"]);
        let began = Instant::now();
        let arrived = match scheme {
            "http" => {
                let mut stream = ask(serving.address(), "/noise.bin");
                stream.read_exact(&mut [0; 4]).unwrap();
                serving.signal("-TERM");
                body(stream)
            }
            _ => {
                let url = serving.url("noise.bin");
                let policy = holdall::http::Policy::new().with_hosts(holdall::http::Hosts::Any);
                let source = holdall::source::QuicSource::open(&url, &policy).unwrap();
                let source: &dyn holdall::ByteSource = &source;
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(300));
                        serving.signal("-TERM");
                    });
                    source.read_range(0..bytes.len() as u64).unwrap().to_vec()
                })
            }
        };
        // One second, less the initial burst; a busy machine may take longer.
        assert!(began.elapsed() > Duration::from_millis(800), "{scheme}: {:?}", began.elapsed());
        assert!(arrived == bytes, "{scheme}: {} bytes", arrived.len());
        let (status, log) = serving.ended();
        assert_eq!(status, 0, "{log}");
        assert!(log.contains(&format!(" {scheme} noise.bin 400000 whole\n")), "{log}");
    }
}

#[test]
fn hashes_stand_in_addresses_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.zt");
    std::fs::copy(tiny(), &path).unwrap();
    let plain = Serving::new(&[path.to_str().unwrap()]);
    assert!(plain.report["blake3"].is_null());
    let serving = Serving::new(&[path.to_str().unwrap(), "--hash"]);
    let hash = serving.report["blake3"]["tiny.zt"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    let url = format!("{}&blake3={hash}", serving.url("tiny.zt"));
    holdall(["verify", &url, ALLOW[0], ALLOW[1]]).ends_with(0);
    let local = holdall(["inspect", "--json", tiny().to_str().unwrap()]).ends_with(0).json();
    let remote = holdall(["inspect", "--json", &url, ALLOW[0], ALLOW[1]]).ends_with(0).json();
    assert_eq!(remote["tensors"], local["tensors"]);
    // If the file is replaced and its server does not notice, the client refuses it by its hash.
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let e = holdall(["inspect", "--json", &url, ALLOW[0], ALLOW[1]]).ends_with(1).error();
    assert_eq!(e["code"], "net/proof", "{e}");
    // In text output, the address is not shortened.
    let mut command = command(["serve", "--hash", "--listen", "127.0.0.1:0"]);
    let mut child =
        command.arg(tiny()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _serving = Serving { child, report: serde_json::Value::Null, log: None };
    assert!(
        line.contains("/tiny.zt#sha256=") && line.trim_end().ends_with(&format!("&blake3={hash}"))
    );
    holdall(["verify", line.trim_end(), ALLOW[0], ALLOW[1]]).ends_with(0);
}

#[test]
#[cfg(feature = "http2")]
fn curl_reads_over_both_versions_and_tls() {
    let run = |args: &[&str]| {
        let out = std::process::Command::new("curl").args(args).output().ok()?;
        Some((out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned()))
    };
    let Some((_, version)) = run(&["--version"]).filter(|(_, text)| text.contains("HTTP2")) else {
        return eprintln!("skipped: there is no curl that speaks HTTP/2");
    };
    assert!(version.starts_with("curl "));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noise.bin");
    let bytes = noise(&path, 3_000_000);
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "sesame").unwrap();
    let serving = Serving::new(&[path.to_str().unwrap(), "--token-file", tokens.to_str().unwrap()]);
    assert_eq!(serving.report["https"], true);
    let (out, who) = (folder.path().join("out"), "Authorization: Bearer sesame");
    let out_at = out.to_str().unwrap();
    for (scheme, how, version) in [
        ("http", "--http1.1", "1.1"),
        ("http", "--http2-prior-knowledge", "2"),
        ("https", "--http1.1", "1.1"),
        ("https", "--http2", "2"),
    ] {
        let url = format!("{scheme}://{}/noise.bin", serving.address());
        let format = "%{http_version} %{http_code} %{size_download}";
        let args = ["-s", "-k", how, "-w", format, "-o", out_at, &url];
        let ask = |more: &[&str]| run(&[&args, more].concat()).unwrap();
        assert_eq!(ask(&["-H", who]), (true, format!("{version} 200 3000000")), "{url} {how}");
        assert!(std::fs::read(&out).unwrap() == bytes);
        let part = ask(&["-H", who, "-r", "1000-1999999"]);
        assert_eq!(part, (true, format!("{version} 206 1999000")), "{url} {how}");
        assert!(std::fs::read(&out).unwrap() == bytes[1000..2_000_000]);
        assert_eq!(ask(&[]).1, format!("{version} 401 25"), "{url} {how}");
    }
    serving.signal("-TERM");
    let (status, log) = serving.ended();
    assert_eq!(status, 0, "{log}");
    assert_eq!(log.matches(" http noise.bin 3000000 whole\n").count(), 4, "{log}");
}
