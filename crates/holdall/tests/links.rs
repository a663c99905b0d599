//! Linked files: fetched, cached, shared by processes.
#![cfg(all(feature = "http", feature = "carton"))]

mod count;
mod server;

use count::Count;
use holdall::carton::Fetcher;
use holdall::carton::links::{LinkFetcher, Store, hex};
use holdall::http::{Hosts, Policy, Schemes, Timeouts};
use holdall::{Error, Limits};
use server::{Reply, Request, Server};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns the tests' policy: http, loopback, and no waiting.
fn policy() -> Policy {
    let mut timeouts = Timeouts::default();
    timeouts.pause = Duration::from_millis(1);
    timeouts.longest_pause = Duration::from_millis(5);
    timeouts.stall = Duration::from_secs(5);
    Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo).with_timeouts(timeouts)
}

/// Returns bytes without repetitions.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hasher = holdall::Hasher::new(holdall::Algorithm::Sha256);
    hasher.update(bytes);
    match hasher.finish() {
        holdall::Digest::Sha256(v) => v,
        other => panic!("{other}"),
    }
}

/// A store in its own folder, and a fetcher into it.
struct Cache {
    folder: tempfile::TempDir,
    fetcher: LinkFetcher,
}

impl Cache {
    fn new() -> Cache {
        Cache::under(&policy())
    }

    fn under(policy: &Policy) -> Cache {
        let folder = tempfile::tempdir().unwrap();
        let fetcher = LinkFetcher::new(Store::new(folder.path()), policy);
        Cache { folder, fetcher }
    }

    /// Fetches a file, and compares it with the expected bytes.
    #[track_caller]
    fn gets(&self, bytes: &[u8], urls: &[String]) {
        let path = self.fetcher.fetch(sha256(bytes), urls, u64::MAX).unwrap();
        assert_eq!(path, self.fetcher.store().path(&sha256(bytes)));
        assert!(std::fs::read(&path).unwrap() == bytes);
        assert_eq!(self.names(), [hex(&sha256(bytes))]);
    }

    #[track_caller]
    fn fails(&self, sha256: [u8; 32], urls: &[String]) -> Error {
        let e = self.fetcher.fetch(sha256, urls, u64::MAX).unwrap_err();
        assert!(!self.names().contains(&hex(&sha256)), "a name without its file");
        e
    }

    /// Returns the names of all files in the store.
    fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(names(&entry.path()));
        } else {
            all.push(entry.file_name().into_string().unwrap());
        }
    }
    all.sort();
    all
}

#[test]
fn a_file_is_fetched_once_and_kept_under_its_hash() {
    let bytes = noise(300_000);
    let server = Server::with_file(bytes.clone());
    let cache = Cache::new();
    let urls = [server.url("/f")];
    cache.gets(&bytes, &urls);
    cache.gets(&bytes, &urls);
    assert_eq!(server.count(), (1, 300_000));
    assert_eq!(server.seen()[0].header("accept-encoding"), Some("zstd, gzip, br, deflate"));
    let name = hex(&sha256(&bytes));
    let path = cache.folder.path().join("sha256").join(&name[..2]).join(&name);
    assert_eq!(cache.fetcher.store().find(&sha256(&bytes)).unwrap(), Some(path.clone()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o222, 0);
    }
    // Another process finds it without a network.
    let offline = LinkFetcher::offline(Store::new(cache.folder.path()));
    assert_eq!(offline.fetch(sha256(&bytes), &urls, u64::MAX).unwrap(), path);
    let e = offline.fetch([7; 32], &urls, u64::MAX).unwrap_err();
    assert_eq!(e.code(), "links/offline");
    assert!(e.message().contains(&hex(&[7; 32])), "{e}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn an_empty_file_is_a_file() {
    let server = Server::with_file(Vec::new());
    Cache::new().gets(b"", &[server.url("/f")]);
}

#[test]
fn a_damaged_file_is_found_and_replaced() {
    let bytes = noise(100_000);
    let server = Server::with_file(bytes.clone());
    let cache = Cache::new();
    let urls = [server.url("/f")];
    let damages: [fn(&mut Vec<u8>); 3] = [|b| b[50_000] ^= 1, |b| b.truncate(99), |b| b.push(0)];
    for damage in damages {
        cache.gets(&bytes, &urls);
        let path = cache.fetcher.store().path(&sha256(&bytes));
        let mut worse = bytes.clone();
        damage(&mut worse);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, worse).unwrap();
        let offline = LinkFetcher::offline(Store::new(cache.folder.path()));
        let e = offline.fetch(sha256(&bytes), &urls, u64::MAX).unwrap_err();
        assert_eq!(e.code(), "links/offline");
        assert!(e.message().contains("damaged"), "{e}");
        cache.gets(&bytes, &urls);
    }
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn every_address_is_tried_and_reported() {
    let bytes = noise(1000);
    let all = bytes.clone();
    let server = Server::new(move |r| match r.target.as_str() {
        "/good" => Reply::file(&all, "\"v1\"", r),
        "/wrong?key=secret" => Reply::new(200, "something else"),
        _ => Reply::new(404, ""),
    });
    let cache = Cache::new();
    let dead = {
        // A port without a listener.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://127.0.0.1:{}/f", taken.local_addr().unwrap().port())
    };
    let wrong = server.url("/wrong?key=secret");
    let bad =
        vec!["file:///etc/passwd".to_owned(), server.url("/none"), wrong.clone(), dead.clone()];
    let e = cache.fails(sha256(&bytes), &bad);
    assert_eq!(e.code(), "links/unreachable");
    for line in [
        "file:///etc/passwd: the scheme is `file` [links/not-an-address]",
        "/none: 127.0.0.1 answers with status 404: there is no such file [http/status]",
        "/wrong?…: the server sent a file with sha256:",
        "[links/digest]",
        &format!("{dead}: request to 127.0.0.1: "),
    ] {
        assert!(e.message().contains(line), "{line}\n{e}");
    }
    assert!(!e.message().contains("secret"), "{e}");
    let mut urls = bad;
    urls.push(server.url("/good"));
    cache.gets(&bytes, &urls);
    // If all addresses fail under the same rule, the error has its code.
    let cache = Cache::new();
    assert_eq!(cache.fails(sha256(&bytes), &[wrong.clone(), wrong]).code(), "links/digest");
    assert_eq!(cache.fails(sha256(&bytes), &[dead]).code(), "http/failed");
    assert_eq!(cache.fails(sha256(&bytes), &[]).code(), "links/no-address");
}

#[test]
fn a_file_is_asked_for_at_32_addresses_at_most() {
    let server = Server::new(|_| Reply::new(404, ""));
    let urls: Vec<String> = (0..1000).map(|i| server.url(&format!("/{i}"))).collect();
    let e = Cache::new().fails([7; 32], &urls);
    assert_eq!(server.seen().len(), 32);
    assert!(e.message().ends_with("968 more addresses were not tried, only the first 32"), "{e}");
}

#[test]
fn failed_fetches_leave_no_files() {
    let server = Server::new(|r| match r.target.as_str() {
        "/wrong" => Reply::new(200, "something else"),
        _ => Reply::new(404, ""),
    });
    for url in ["file:///etc/passwd".to_owned(), server.url("/none"), server.url("/wrong")] {
        let cache = Cache::new();
        cache.fails([7; 32], &[url]);
        assert_eq!(cache.names(), Vec::<String>::new());
    }
}

#[test]
fn errors_name_the_file_of_the_package() {
    use holdall::carton::{Links, Package, Packer, links};
    let folder = tempfile::tempdir().unwrap();
    let (whole, small) = (folder.path().join("whole.carton"), folder.path().join("small.carton"));
    let made =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/accept/carton/made-minimal.carton");
    let description = Package::open(made).unwrap().description().clone();
    std::fs::create_dir_all(folder.path().join("in/model")).unwrap();
    std::fs::write(folder.path().join("in/model/w"), "w").unwrap();
    let package =
        Package::open_folder(folder.path().join("in"), &description, &Default::default()).unwrap();
    Packer::from_package(&package)
        .with_description(package.description().clone())
        .write(&whole, false)
        .unwrap();
    let server = Server::new(|_| Reply::new(404, ""));
    let links_to = Links { urls: vec![(sha256(b"w"), vec![server.url("/w")])] };
    let whole = Package::open(&whole).unwrap();
    Packer::from_package(&whole).with_links(links_to).write(&small, false).unwrap();
    let inside = format!("{}!/model/w", small.display());
    let package = Package::open(&small).unwrap();
    let offline = LinkFetcher::offline(Store::new(folder.path().join("cache")));
    for fetcher in [Cache::new().fetcher, offline] {
        let e = links::fetch(&package, &fetcher).unwrap_err();
        assert_eq!(e.source_name(), Some(inside.as_str()), "{e}");
        let e = package.clone().with_fetcher(Arc::new(fetcher)).read("model/w").unwrap_err();
        assert_eq!(e.source_name(), Some(inside.as_str()), "{e}");
    }
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Encodes brotli without compression: RFC 7932, section 9.2.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, part) in bytes.chunks(1 << 16).enumerate() {
        // From the lowest bit: a window of 16 bits (only at the start), not the last, 4 digits of length, the
        // length minus one, uncompressed.
        let (mut bits, mut at) = (0u32, usize::from(n == 0));
        for (value, width) in [(0, 1), (0, 2), (part.len() as u32 - 1, 16), (1, 1)] {
            bits |= value << at;
            at += width;
        }
        out.extend(&bits.to_le_bytes()[..3]);
        out.extend(part);
    }
    out.push(3);
    out
}

#[test]
fn content_encodings_are_undone_by_the_headers_word() {
    let bytes = [noise(70_000), vec![0; 500_000]].concat();
    let coded: [(&str, Vec<u8>); 8] = [
        ("zstd", zstd(&bytes)),
        ("ZSTD", [zstd(&bytes[..9]), zstd(&bytes[9..])].concat()),
        ("gzip", gzip(&bytes)),
        ("x-gzip", [gzip(&bytes[..9]), gzip(&bytes[9..])].concat()),
        ("deflate", zlib(&bytes)),
        ("deflate", deflate(&bytes)),
        ("br", brotli(&bytes)),
        ("identity", bytes.clone()),
    ];
    for (name, body) in coded {
        let sent = body.clone();
        let server =
            Server::new(move |_| Reply::new(200, &sent[..]).with("content-encoding", name));
        Cache::new().gets(&bytes, &[server.url("/f")]);
        // Without that header the bytes are not decoded.
        let sent = body.clone();
        let server = Server::new(move |_| Reply::new(200, &sent[..]));
        Cache::new().gets(&body, &[server.url("/f.gz")]);
    }
}

#[test]
fn false_encodings_are_refused() {
    let bytes = noise(50_000);
    let half = |mut coded: Vec<u8>| {
        coded.truncate(coded.len() / 2);
        coded
    };
    let cases = [
        ("gzip", half(gzip(&bytes)), "links/encoded"),
        ("zstd", half(zstd(&bytes)), "links/encoded"),
        ("br", half(brotli(&bytes)), "links/encoded"),
        ("deflate", half(zlib(&bytes)), "links/encoded"),
        ("deflate", Vec::new(), "links/encoded"),
        ("gzip", bytes.clone(), "links/encoded"),
        ("zstd", gzip(&bytes), "links/encoded"),
        ("compress", bytes.clone(), "http/encoding"),
        ("gzip, br", bytes.clone(), "http/encoding"),
    ];
    for (n, (name, body, code)) in cases.into_iter().enumerate() {
        let server =
            Server::new(move |_| Reply::new(200, &body[..]).with("content-encoding", name));
        let e = Cache::new().fails(sha256(&bytes), &[server.url("/f")]);
        assert_eq!(e.code(), code, "{n} {name}: {e}");
    }
}

#[test]
fn bombs_are_stopped() {
    // Made by another encoder: 14 bytes that decode to a megabyte of zeros.
    let brotli = [91, 255, 255, 143, 127, 2, 32, 30, 11, 4, 114, 239, 31, 0];
    let zeros = vec![0; 1 << 20];
    let mut limits = Limits::default();
    limits.decoded_len = 100_000;
    limits.expansion = 50;
    let coded = [
        ("br", brotli.to_vec()),
        ("gzip", gzip(&zeros)),
        ("zstd", zstd(&zeros)),
        ("deflate", deflate(&zeros)),
    ];
    for (name, body) in coded {
        let server =
            Server::new(move |_| Reply::new(200, &body[..]).with("content-encoding", name));
        let mut cache = Cache::new();
        cache.gets(&zeros, &[server.url("/f")]);
        cache = Cache::new();
        cache.fetcher = cache.fetcher.with_limits(limits.clone());
        let e = cache.fails(sha256(&zeros), &[server.url("/f")]);
        assert_eq!(e.code(), "links/too-long", "{name}: {e}");
        let left: u64 = names(cache.folder.path())
            .iter()
            .map(|name| cache.folder.path().join("sha256").join(&name[1..3]).join(name))
            .map(|path| path.metadata().unwrap().len())
            .sum();
        assert!(left <= 400_000, "{name}: {left}");
    }
    // A file without encoding that is too long: by its stated length, and while fetching.
    limits.fetched_len = 1000;
    for declared in [true, false] {
        let bytes = noise(5000);
        let server = Server::new(move |_| {
            let mut reply = Reply::new(200, noise(5000));
            reply.declared = reply.declared.filter(|_| declared);
            reply
        });
        let mut cache = Cache::new();
        cache.fetcher = cache.fetcher.with_limits(limits.clone());
        assert_eq!(cache.fails(sha256(&bytes), &[server.url("/f")]).code(), "http/too-long");
    }
}

#[test]
fn responses_longer_than_declared_are_refused() {
    let bytes = noise(5000);
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    for (encoded, declared) in [(false, true), (false, false), (true, true)] {
        let body = if encoded { packed.clone() } else { bytes.clone() };
        let server = Server::new(move |_| {
            let mut reply = Reply::new(200, &body[..]);
            reply.declared = reply.declared.filter(|_| declared);
            if encoded { reply.with("content-encoding", "zstd") } else { reply }
        });
        let urls = [server.url("/f")];
        for at_most in [0, 4999] {
            let cache = Cache::new();
            let e = cache.fetcher.fetch(sha256(&bytes), &urls, at_most).unwrap_err();
            assert_eq!(e.code(), "links/declared-len", "{e}");
            assert!(e.message().contains(&format!("at most {at_most}")), "{e}");
            let left = names(cache.folder.path());
            let len = |name: &String| {
                let path = cache.folder.path().join("sha256").join(&name[1..3]).join(name);
                path.metadata().unwrap().len()
            };
            assert_eq!(left.iter().map(len).sum::<u64>(), 0);
        }
        let cache = Cache::new();
        cache.fetcher.fetch(sha256(&bytes), &urls, 5000).unwrap();
    }
}

/// Cuts off each of the first answers after the given number of bytes.
fn cutting(bytes: Vec<u8>, cuts: &'static [usize]) -> impl Fn(&Request) -> Reply {
    move |r| {
        let mut reply = Reply::file(&bytes, "\"v1\"", r);
        reply.cut = cuts.get(r.nth).copied();
        reply
    }
}

fn ranges(server: &Server) -> Vec<Option<String>> {
    server.seen().iter().map(|r| r.header("range").map(str::to_owned)).collect()
}

#[test]
fn an_interrupted_fetch_resumes() {
    let bytes = noise(400_000);
    let server = Server::new(cutting(bytes.clone(), &[100_000, 150_000]));
    Cache::new().gets(&bytes, &[server.url("/f")]);
    let from = |at: usize| Some(format!("bytes={at}-"));
    assert_eq!(ranges(&server), [None, from(100_000), from(250_000)]);
    let seen = server.seen();
    assert!(seen[1..].iter().all(|r| r.header("if-range") == Some("\"v1\"")));
    assert!(seen[1..].iter().all(|r| r.header("accept-encoding") == Some("identity")));
    assert_eq!(server.count(), (3, 400_000));
}

#[test]
fn an_interrupted_fetch_resumes_in_another_process() {
    let bytes = noise(400_000);
    let server = Server::new(cutting(bytes.clone(), &[100_000, 0, 0, 0]));
    let cache = Cache::new();
    let urls = [server.url("/f")];
    assert_eq!(cache.fails(sha256(&bytes), &urls).code(), "http/failed");
    assert_eq!(cache.names().len(), 2);
    assert_eq!(server.seen().len(), 4);
    cache.gets(&bytes, &urls);
    assert_eq!(ranges(&server)[4].as_deref(), Some("bytes=100000-"));
    assert_eq!(server.count().1, 400_000);
}

#[test]
fn a_part_of_another_version_or_address_is_not_gone_on_with() {
    let bytes = noise(400_000);
    let other = noise(400_001)[1..].to_vec();
    type Change = fn(&[u8], &Request) -> Reply;
    let changes: [Change; 4] = [
        // The condition fails.
        |b, r| Reply::file(b, "\"v2\"", r),
        // The server ignores the condition.
        |b, r| {
            let mut r = r.clone();
            r.headers.retain(|(name, _)| name != "if-range");
            Reply::file(b, "\"v2\"", &r)
        },
        // The server claims the wrong version: the hash differs.
        |b, r| Reply::file(b, "\"v1\"", r),
        // The server does not support ranges.
        |b, _| Reply::new(200, b),
    ];
    for change in changes {
        let (first, then) = (other.clone(), bytes.clone());
        let server = Server::new(move |r| match r.nth {
            0 => {
                let mut reply = Reply::file(&first, "\"v1\"", r);
                reply.cut = Some(100_000);
                reply
            }
            _ => change(&then, r),
        });
        Cache::new().gets(&bytes, &[server.url("/f")]);
    }
    // From another address the download starts anew.
    let cache = Cache::new();
    let server = Server::new(cutting(bytes.clone(), &[100_000, 0, 0, 0]));
    cache.fails(sha256(&bytes), &[server.url("/f")]);
    server.forget();
    let server = Server::with_file(bytes.clone());
    cache.gets(&bytes, &[server.url("/g")]);
    assert_eq!(ranges(&server), [None]);
}

#[test]
fn encoded_or_unversioned_responses_restart() {
    let bytes = noise(300_000);
    for tag in [None, Some("\"v1\"")] {
        let (all, coded) = (bytes.clone(), gzip(&bytes));
        let server = Server::new(move |r| {
            let mut reply = match tag {
                Some(tag) => {
                    Reply::new(200, &coded[..]).with("content-encoding", "gzip").with("etag", tag)
                }
                None => Reply::new(200, &all[..]),
            };
            reply.cut = (r.nth == 0).then_some(100_000);
            reply
        });
        Cache::new().gets(&bytes, &[server.url("/f")]);
        assert_eq!(ranges(&server), [None, None]);
    }
}

#[test]
fn shorter_answers_than_promised_are_tried_again() {
    let bytes = noise(1000);
    let server = Server::new(move |_| {
        let mut reply = Reply::new(200, &noise(1000)[..999]);
        reply.declared = Some(1000);
        reply
    });
    let e = Cache::new().fails(sha256(&bytes), &[server.url("/f")]);
    assert_eq!(e.code(), "http/failed", "{e}");
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn links_reach_only_public_hosts_by_https() {
    let server = Server::with_file(noise(10));
    let port = server.port();
    let strict = Cache::under(&Policy::new());
    for (url, code) in [
        (server.url("/f"), "http/scheme"),
        (format!("https://127.0.0.1:{port}/f"), "http/private-host"),
        (format!("https://localhost:{port}/f"), "http/private-host"),
        (format!("https://[::ffff:7f00:1]:{port}/f"), "http/private-host"),
        ("https://169.254.169.254/".to_owned(), "http/private-host"),
        ("file:///etc/passwd".to_owned(), "links/not-an-address"),
        ("data:text/plain,hi".to_owned(), "links/not-an-address"),
        ("model/w.bin".to_owned(), "links/not-an-address"),
    ] {
        assert_eq!(
            strict.fails(sha256(&noise(10)), std::slice::from_ref(&url)).code(),
            code,
            "{url}"
        );
    }
    assert!(server.seen().is_empty());
}

#[test]
fn several_files_are_fetched_at_once_with_progress() {
    let files: Vec<Vec<u8>> = (1..=6).map(|n| noise(n * 50_000)).collect();
    let (sent, now, most) = (files.clone(), Mutex::new(0), Arc::new(Mutex::new(0)));
    let seen = most.clone();
    let server = Server::new(move |r| {
        let n: usize = r.target[1..].parse().unwrap();
        *now.lock().unwrap() += 1;
        let mut most = most.lock().unwrap();
        *most = (*now.lock().unwrap()).max(*most);
        drop(most);
        std::thread::sleep(Duration::from_millis(200));
        *now.lock().unwrap() -= 1;
        let mut reply = Reply::file(&sent[n], "\"v1\"", r);
        reply.cut = (n == 2 && r.nth == 0).then_some(1000);
        reply
    });
    let count = Arc::new(Count::default());
    let cache = Cache::new();
    let fetcher = cache.fetcher.clone().with_work(count.work().with_threads(3));
    let urls: Vec<Vec<String>> = (0..6).map(|n| vec![server.url(&format!("/{n}"))]).collect();
    let mut wanted: Vec<([u8; 32], &[String], u64)> =
        files.iter().zip(&urls).map(|(f, u)| (sha256(f), u.as_slice(), f.len() as u64)).collect();
    // The same file for a use for which it would be too long.
    wanted.push((wanted[0].0, wanted[0].1, 10));
    fetcher.fetch_all(&wanted).unwrap();
    assert_eq!(cache.names().len(), 6);
    assert_eq!(server.seen().len(), 7);
    assert!((2..=3).contains(&*seen.lock().unwrap()), "{seen:?}");
    let all = 21 * 50_000;
    assert_eq!(count.total.load(Ordering::SeqCst), all);
    assert_eq!(count.done.load(Ordering::SeqCst), all);
}

/// Not a test itself: run by the tests below in other processes.
#[test]
#[ignore = "run by other tests"]
fn child() {
    let var = |name| std::env::var(name).unwrap();
    let fetcher = LinkFetcher::new(Store::new(var("TEST_STORE")), &policy());
    let bytes = noise(var("TEST_LEN").parse().unwrap());
    let path = fetcher.fetch(sha256(&bytes), &[var("TEST_URL")], u64::MAX).unwrap();
    assert!(std::fs::read(path).unwrap() == bytes);
}

fn child_of(store: &Path, len: usize, url: String) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TEST_STORE", store).env("TEST_LEN", len.to_string()).env("TEST_URL", url);
    command.spawn().unwrap()
}

#[test]
fn processes_that_want_the_same_file_fetch_it_once() {
    let bytes = noise(500_000);
    let all = bytes.clone();
    let server = Server::new(move |r| {
        let mut reply = Reply::file(&all, "\"v1\"", r);
        reply.pace = Some((50_000, Duration::from_millis(20)));
        reply
    });
    let cache = Cache::new();
    let spawn = || child_of(cache.folder.path(), bytes.len(), server.url("/f"));
    let children: Vec<_> = (0..5).map(|_| spawn()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.count(), (1, 500_000));
    assert_eq!(cache.names(), [hex(&sha256(&bytes))]);
}

#[test]
fn a_killed_fetch_publishes_nothing_and_the_next_resumes() {
    let bytes = noise(2_000_000);
    let all = bytes.clone();
    let server = Server::new(move |r| {
        let mut reply = Reply::file(&all, "\"v1\"", r);
        if r.nth == 0 {
            reply.pace = Some((100_000, Duration::from_millis(400)));
        }
        reply
    });
    let cache = Cache::new();
    let mut first = child_of(cache.folder.path(), bytes.len(), server.url("/f"));
    let part = cache.fetcher.store().path(&sha256(&bytes));
    let part = part.with_file_name(format!(".{}.part", hex(&sha256(&bytes))));
    wait_for(&part, 300_000);
    // Another process waits for it, and takes over.
    let mut second = child_of(cache.folder.path(), bytes.len(), server.url("/f"));
    std::thread::sleep(Duration::from_millis(100));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    assert_eq!(cache.names(), [hex(&sha256(&bytes))]);
    let asked = ranges(&server);
    assert_eq!(asked.len(), 2, "{asked:?}");
    let from: usize =
        asked[1].as_deref().unwrap()["bytes=".len()..].trim_end_matches('-').parse().unwrap();
    assert!((300_000..2_000_000).contains(&from), "{asked:?}");
}

fn wait_for(path: &Path, len: u64) {
    let begun = Instant::now();
    while path.metadata().map_or(0, |meta| meta.len()) < len {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}
