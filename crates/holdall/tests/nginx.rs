//! Files on a real web server, nginx, if it is installed: ranges, versions, encodings, redirects, TLS.
#![cfg(all(feature = "http", feature = "carton", unix))]

use holdall::carton::Fetcher;
use holdall::carton::links::{LinkFetcher, Store};
use holdall::http::{Hosts, Policy, Schemes};
use holdall::source::HttpSource;
use holdall::{ByteSource, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of a folder; it stops when this is dropped.
struct Nginx {
    child: Child,
    port: u16,
}

impl Nginx {
    /// Starts a server; `None` if nginx is not installed. `secure` returns a further server for its
    /// configuration.
    fn start(folder: &Path, secure: &dyn Fn(u16) -> String) -> Option<Nginx> {
        let found =
            ["nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"].into_iter().find(|name| {
                let asked = Command::new(name).arg("-v").stderr(Stdio::null()).status();
                asked.is_ok_and(|status| status.success())
            });
        let Some(program) = found else {
            // Written directly, since the test harness captures the output of passing tests.
            let _ = std::io::stderr().write_all(b"skipped: nginx is not installed\n");
            return None;
        };
        let port = free_port();
        let secure = secure(port);
        let at = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log stderr;
             events {{}}
             http {{
                 access_log off; etag on; default_type application/octet-stream;
                 client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3;
                 uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;
                 {secure}
                 server {{
                     listen 127.0.0.1:{port}; root {at}/www;
                     location /squeezed/ {{ alias {at}/www/; gzip on; gzip_types *; gzip_min_length 1; }}
                     location /zstd/ {{ alias {at}/zstd/; add_header Content-Encoding zstd; }}
                     location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
                     location /round/ {{ return 302 /round/; }}
                     location /whole/ {{ alias {at}/www/; max_ranges 0; }}
                 }}
             }}"
        );
        std::fs::write(folder.join("conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("conf"));
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let server = Nginx { child, port };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "nginx does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn policy() -> Policy {
    Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo)
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    holdall_package::sha256(bytes)
}

#[test]
fn nginx_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let www = dir.path().join("www");
    std::fs::create_dir(&www).unwrap();
    std::fs::create_dir(dir.path().join("zstd")).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
    std::fs::write(www.join("f.bin"), &bytes).unwrap();
    std::fs::write(www.join("empty"), b"").unwrap();
    let packed = zstd::encode_all(&bytes[..], 3).unwrap();
    std::fs::write(dir.path().join("zstd/f.bin"), packed).unwrap();
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    std::fs::copy(&tiny, www.join("tiny.zt")).unwrap();
    let Some(server) = Nginx::start(dir.path(), &|_| String::new()) else { return };

    // In place, also through a redirect.
    for path in ["/f.bin", "/moved/f.bin"] {
        let source = HttpSource::open(&server.url(path), &policy()).unwrap();
        assert_eq!(source.len(), bytes.len() as u64);
        let got = source.read(&[0..10, 5..300, 700_000..900_000, 1_199_990..1_200_000]).unwrap();
        assert_eq!(got[1], bytes[5..300]);
        assert_eq!(got[2], bytes[700_000..900_000]);
        assert_eq!(got[3], bytes[1_199_990..]);
    }
    assert!(HttpSource::open(&server.url("/empty"), &policy()).unwrap().is_empty());
    let file = OpenOptions::new().with_policy(policy()).open(server.url("/tiny.zt")).unwrap();
    assert_eq!(file.len(), holdall::open(&tiny).unwrap().len());
    let code =
        |path: &str| HttpSource::open(&server.url(path), &policy()).map(drop).unwrap_err().code();
    assert_eq!(code("/none"), "http/status");
    assert_eq!(code("/round/"), "http/redirect");
    assert_eq!(code("/whole/f.bin"), "http/ranges");

    // As links: unencoded, compressed by the server, and precompressed.
    for path in ["/f.bin", "/squeezed/f.bin", "/zstd/f.bin", "/moved/f.bin"] {
        let store = Store::new(dir.path().join("cache").join(&path[1..2]));
        let fetcher = LinkFetcher::new(store, &policy());
        let got = fetcher
            .fetch(sha256(&bytes), &[server.url("/none"), server.url(path)], u64::MAX)
            .unwrap();
        assert!(std::fs::read(got).unwrap() == bytes, "{path}");
    }

    // Another version while it is open.
    let source = HttpSource::open(&server.url("/f.bin"), &policy()).unwrap();
    std::fs::write(www.join("f.bin"), &bytes[4..]).unwrap();
    assert_eq!(source.read_range(0..10).unwrap_err().code(), "http/changed");
}

/// Creates a self-signed certificate for `localhost`; returns `false` if that failed.
fn certify(folder: &Path) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join("key"))
        .arg("-out")
        .arg(folder.join("cert"))
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success())
}

#[test]
fn certificates_are_held_against_the_authorities() {
    let dir = tempfile::tempdir().unwrap();
    let www = dir.path().join("www");
    std::fs::create_dir(&www).unwrap();
    let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(www.join("f.bin"), &bytes).unwrap();
    if !certify(dir.path()) {
        let _ = std::io::stderr().write_all(b"skipped: openssl is not installed\n");
        return;
    }
    let port = free_port();
    let at = dir.path().display().to_string();
    let secure = |plain: u16| {
        format!(
            "server {{
                 listen 127.0.0.1:{port} ssl; root {at}/www;
                 ssl_certificate {at}/cert; ssl_certificate_key {at}/key;
                 location /down/ {{ return 302 http://localhost:{plain}/f.bin; }}
             }}"
        )
    };
    let Some(server) = Nginx::start(dir.path(), &secure) else { return };
    let url = |path: &str| format!("https://localhost:{port}{path}");
    let code = |url: &str, policy: &Policy| {
        let e = HttpSource::open(url, policy).map(drop).unwrap_err();
        assert!(!e.message().is_empty());
        e.code()
    };
    // The certificate is not trusted.
    assert_eq!(code(&url("/f.bin"), &policy()), "http/failed");
    let pem = std::fs::read(dir.path().join("cert")).unwrap();
    let trusting = policy().with_certificates(&pem).unwrap();
    let source = HttpSource::open(&url("/f.bin"), &trusting).unwrap();
    assert_eq!(source.read_range(7..300_000).unwrap(), bytes[7..300_000]);
    // The certificate is for another name.
    let by_number = format!("https://127.0.0.1:{port}/f.bin");
    assert_eq!(code(&by_number, &trusting), "http/failed");
    // A redirect down to http, which is allowed by itself.
    assert!(HttpSource::open(&server.url("/f.bin"), &trusting).is_ok());
    assert_eq!(code(&url("/down/"), &trusting), "http/downgrade");
    // By default the host is refused, even with a trusted certificate.
    let strict = Policy::new().with_certificates(&pem).unwrap();
    assert_eq!(code(&url("/f.bin"), &strict), "http/private-host");
    // This port has no TLS.
    assert_eq!(code(&server.url("/f.bin").replace("http:", "https:"), &trusting), "http/failed");
}
