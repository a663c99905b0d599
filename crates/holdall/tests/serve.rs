//! Files served over HTTP, and misbehaving clients.
#![cfg(feature = "http")]

use holdall::OpenOptions;
use holdall::http::{Hosts, Policy, Schemes};
use holdall::serve::http::{HttpOptions, HttpServer};
use holdall::serve::{Files, ServerLimits, Service, Tokens};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

struct Folder {
    _kept: tempfile::TempDir,
    inside: PathBuf,
}

fn folder() -> Folder {
    let kept = tempfile::tempdir().unwrap();
    let inside = kept.path().join("models");
    std::fs::create_dir_all(inside.join("a b")).unwrap();
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept");
    let from = corpus.join("ztensor/v0.1-dense_all.zt");
    std::fs::copy(from, inside.join("a b/model.zt")).unwrap();
    std::fs::write(inside.join("digits"), b"0123456789").unwrap();
    std::fs::write(kept.path().join("secret"), b"secret").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
    Folder { _kept: kept, inside }
}

fn service(folder: &Folder) -> Service {
    Service::new(Arc::new(Files::new([&folder.inside]).unwrap()))
}

fn start(service: Service, options: HttpOptions) -> HttpServer {
    HttpServer::start(service, "127.0.0.1:0".parse().unwrap(), options).unwrap()
}

/// Returns the status, head and body of the answer to a request.
fn says(to: SocketAddr, request: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut all = Vec::new();
    // A reset after the answer ends it too.
    let _ = stream.read_to_end(&mut all);
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or_else(|| panic!("{request}"));
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), all[end + 4..].to_vec())
}

fn get(to: SocketAddr, path: &str, headers: &str) -> (u16, String, Vec<u8>) {
    says(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"),
    )
}

#[test]
fn ranges_validators_and_lists_are_as_http_has_them() {
    let folder = folder();
    let server = start(service(&folder), HttpOptions::default());
    let at = server.address();
    let (status, head, body) = get(at, "/models/digits", "");
    assert_eq!((status, &body[..]), (200, &b"0123456789"[..]));
    let etag = head.split("etag: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    for (headers, status, body, range) in [
        ("Range: bytes=2-4\r\n".to_owned(), 206, "234", Some("bytes 2-4/10")),
        ("Range: bytes=-3\r\n".to_owned(), 206, "789", Some("bytes 7-9/10")),
        ("Range: bytes=8-100\r\n".to_owned(), 206, "89", Some("bytes 8-9/10")),
        ("Range: bytes=10-\r\n".to_owned(), 416, "", Some("bytes */10")),
        ("Range: bytes=1-2,4-5\r\n".to_owned(), 200, "0123456789", None),
        (format!("Range: bytes=0-1\r\nIf-Range: {etag}\r\n"), 206, "01", Some("bytes 0-1/10")),
        ("Range: bytes=0-1\r\nIf-Range: \"other\"\r\n".to_owned(), 200, "0123456789", None),
        (format!("If-None-Match: \"x\", {etag}\r\n"), 304, "", None),
        ("If-Match: \"other\"\r\n".to_owned(), 412, "", None),
        (format!("If-Match: {etag}\r\n"), 200, "0123456789", None),
    ] {
        let (found, head, bytes) = get(at, "/models/digits", &headers);
        assert_eq!(
            (found, String::from_utf8(bytes).unwrap().as_str()),
            (status, body),
            "{headers}"
        );
        let is = |range: &str| head.contains(&format!("content-range: {range}"));
        assert!(range.is_none_or(is) && (range.is_some() || !head.contains("content-range")));
    }
    let (status, head, body) =
        says(at, "HEAD /models/digits HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n");
    assert!(status == 200 && body.is_empty() && head.contains("content-length: 10"));
    // Two requests on one connection.
    let two = "GET /models/digits HTTP/1.1\r\n\r\nGET /models/none HTTP/1.1\r\n\r\n";
    let (status, _, body) = says(at, two);
    assert_eq!(status, 200);
    assert!(String::from_utf8(body).unwrap().contains("HTTP/1.1 404"));
    let (status, head, body) = get(at, "/", "");
    assert!(status == 200 && head.contains("application/json"));
    let list = String::from_utf8(body).unwrap();
    assert!(list.contains(r#"{"name":"models/a b/model.zt","bytes":"#), "{list}");
    assert!(!list.contains("link") && !list.contains("secret"), "{list}");
    assert_eq!(get(at, "/none/", "").0, 404);
    assert_eq!(says(at, "POST /models/digits HTTP/1.1\r\n\r\n").0, 405);
    server.stop(Duration::from_secs(1));
    assert!(TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_err());
}

#[test]
fn holdall_opens_served_files() {
    let folder = folder();
    let server = start(service(&folder), HttpOptions::default());
    let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
    let url = format!("http://{}/models/a%20b/model.zt", server.address());
    let file = OpenOptions::new().with_policy(policy).open(url).unwrap();
    let local = holdall::open(folder.inside.join("a b/model.zt")).unwrap();
    assert!(file.names().eq(local.names()) && file.warnings().len() == local.warnings().len());
}

#[test]
fn an_index_is_found_without_decoding_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    // The first bytes look valid, but the file is not: decoding it returns the error.
    let mut bytes = 1000u64.to_le_bytes().to_vec();
    bytes.extend(b"{ no JSON".iter().chain(&[b' '; 100_000]));
    std::fs::write(&path, bytes).unwrap();
    let index = holdall::serve::file(&path).unwrap().index();
    assert!(index.iter().any(|range| range.contains(&0) && range.contains(&1007)), "{index:?}");
    let read: u64 = index.iter().map(|range| range.end - range.start).sum();
    assert!(read < 1100, "{index:?}");
    assert_eq!(holdall::open(&path).unwrap_err().code(), "json/syntax");
}

#[test]
fn only_served_files_are_readable_with_the_token() {
    let folder = folder();
    let mut options = HttpOptions::default();
    options.cors = Some("https://app.example".into());
    let server = start(service(&folder), options);
    let at = server.address();
    for path in [
        "/secret",
        "/models/link",
        "/models/../secret",
        "/models/%2e%2e/secret",
        "/models/..%2Fsecret",
        "/models/%2E%2E%2fsecret",
        "/models//digits",
        "//models/digits",
        "/models/./digits",
        "/models/digits%00",
        "/models/digits/",
        "/models/a%20b",
        "/etc/passwd",
        "/%ff",
    ] {
        let (status, _, body) = get(at, path, "");
        assert_eq!(status, 404, "{path}");
        assert_eq!(body, b"no such file is served\n", "{path}");
    }
    let (_, head, _) = get(at, "/models/digits", "Origin: https://app.example\r\n");
    assert!(head.contains("access-control-allow-origin: https://app.example"), "{head}");
    let (status, head, _) = says(at, "OPTIONS /models/digits HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(status == 204 && head.contains("access-control-allow-headers"));
    // A web page whose host name resolves to this machine.
    assert_eq!(says(at, "GET /models/digits HTTP/1.1\r\nHost: evil.example\r\n\r\n").0, 421);

    let tokens = Tokens::new(vec!["right".into()]).unwrap();
    let server = start(service(&folder).with_tokens(tokens), HttpOptions::default());
    let at = server.address();
    for (header, status) in [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Bearer right\r\n", 200),
        ("Authorization: Basic cmlnaHQ6\r\n", 200),
        ("Authorization: Basic dTpyaWdodA==\r\n", 200),
        ("Authorization: Basic ??\r\n", 401),
    ] {
        assert_eq!(get(at, "/models/digits", header).0, status, "{header}");
        assert_eq!(get(at, "/", header).0, status, "{header}");
    }
    assert!(
        !get(at, "/models/digits", "Authorization: Bearer right\r\n").1.contains("access-control")
    );
}

#[test]
fn clients_of_http_that_misbehave_end() {
    let folder = folder();
    let mut limits = ServerLimits::default();
    limits.idle_timeout = Duration::from_millis(400);
    limits.clients = 8;
    let server = start(service(&folder).with_limits(limits), HttpOptions::default());
    let at = server.address();
    for bad in [
        "\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET / HTTP/9\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        assert_eq!(says(at, bad).0, 400, "{bad}");
    }
    assert_eq!(says(at, &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000))).0, 400);
    // These clients send nothing, or half a request; connections above the limit are refused. Earlier
    // connections have ended by then.
    std::thread::sleep(Duration::from_millis(100));
    let idle: Vec<TcpStream> = (0..12).map(|_| TcpStream::connect(at).unwrap()).collect();
    (&idle[0]).write_all(b"GET / HT").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let mut more = TcpStream::connect(at).unwrap();
    let mut response = String::new();
    let _ = more.read_to_string(&mut response);
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(get(at, "/models/digits", "").0, 200, "their places are free again");
}
