//! Files on a web server, opened in place.
#![cfg(feature = "http")]

use crate::server::{self, Reply, Server, policy};
use holdall::http::{Hosts, Policy, Timeouts};
use holdall::source::HttpSource;
use holdall::{ByteSource, Error, OpenOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn open(server: &Server) -> Result<HttpSource, Error> {
    HttpSource::open(&server.url("/f"), &policy())
}

#[track_caller]
fn refused(server: &Server) -> Error {
    open(server).map(|_| ()).unwrap_err()
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

const KIB: u64 = 1 << 10;

#[test]
fn the_end_is_fetched_first_with_the_length() {
    let bytes = noise(1 << 20);
    let server = Server::with_file(bytes.clone());
    let source = open(&server).unwrap();
    assert_eq!(source.len(), 1 << 20);
    assert_eq!(server.count(), (1, 512 << 10));
    let seen = server.seen();
    assert_eq!(seen[0].header("range"), Some("bytes=-524288"));
    assert_eq!(seen[0].header("accept-encoding"), Some("identity"));
    // Bytes that were received are not requested again.
    let tail = source.read_range((1 << 20) - 100..1 << 20).unwrap();
    assert_eq!(tail, bytes[(1 << 20) - 100..]);
    assert!(source.read_range(77..77).unwrap().is_empty());
    assert_eq!(server.count().0, 1);
}

#[test]
fn a_short_file_is_one_request_and_an_empty_one_too() {
    for len in [0, 1, 524288] {
        let bytes = noise(len);
        let server = Server::with_file(bytes.clone());
        let source = open(&server).unwrap();
        assert_eq!(source.read_range(0..len as u64).unwrap(), bytes);
        assert_eq!(server.count(), (1, len));
    }
}

#[test]
fn neighbours_come_together_and_others_apart() {
    let bytes = noise(4 << 20);
    let server = Server::with_file(bytes.clone());
    let source = open(&server).unwrap();
    server.forget();
    let far = 2 << 20;
    let wanted =
        [far..far + 70 * KIB, 0..80 * KIB, 100 * KIB..101 * KIB, 0..10, 140 * KIB..230 * KIB];
    let got = source.read(&wanted).unwrap();
    for (range, got) in wanted.iter().zip(&got) {
        assert_eq!(got, &bytes[range.start as usize..range.end as usize]);
    }
    let mut asked: Vec<String> =
        server.seen().iter().map(|r| r.header("range").unwrap().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["bytes=0-235519", "bytes=2097152-2168831"]);
    assert!(server.seen().iter().all(|r| r.header("if-range") == Some("\"v1\"")));
    assert_eq!(server.count(), (2, 300 << 10));
}

#[test]
fn small_reads_fetch_ahead_once() {
    let bytes = noise(1 << 20);
    let server = Server::with_file(bytes.clone());
    let source = open(&server).unwrap();
    server.forget();
    for at in (0..60 * KIB).step_by(500) {
        let got = source.read_range(at..at + 30).unwrap();
        assert_eq!(got, bytes[at as usize..at as usize + 30]);
    }
    assert_eq!(server.count(), (1, 64 << 10));
    let mut out = vec![0; 300 << 10];
    source.read_into(99, &mut out).unwrap();
    assert_eq!(out, bytes[99..99 + (300 << 10)]);
    assert_eq!(server.count(), (2, 364 << 10));
    assert_eq!(source.read_range(5..(1 << 20) + 1).unwrap_err().code(), "window/outside");
}

#[test]
fn a_server_without_ranges_is_named_and_nothing_is_downloaded() {
    let bytes = noise(8 << 20);
    let server = Server::new(move |_| Reply::new(200, &bytes[..]));
    let e = refused(&server);
    assert_eq!(e.code(), "http/ranges");
    assert!(e.hint().unwrap().contains("download"), "{e}");
    assert_eq!(server.seen().len(), 1);
    // A server that claims to support ranges, but does not.
    let server = Server::new(|_| Reply::new(200, noise(1 << 20)).with("accept-ranges", "bytes"));
    assert_eq!(refused(&server).code(), "http/ranges");
    assert_eq!(server.seen().len(), 2);
    // A short file is received completely.
    let server = Server::new(|_| Reply::new(200, "short"));
    assert_eq!(open(&server).unwrap().read_range(0..5).unwrap(), "short");
    // A part that is declared as the whole file: the rest would be hidden.
    let server = Server::new(|_| {
        Reply::new(200, "short").with("accept-ranges", "bytes").with("content-range", "bytes 3-7/8")
    });
    assert_eq!(refused(&server).code(), "http/answer");
}

#[test]
fn a_server_that_knows_no_ranges_from_the_end_is_asked_for_the_start() {
    let bytes = noise(1 << 20);
    for status in [200, 400, 416, 501] {
        let all = bytes.clone();
        let server = Server::new(move |r| match r.header("range") {
            Some(range) if range.starts_with("bytes=-") => {
                let body = if status == 200 { &all[..] } else { b"" };
                Reply::new(status, body).with("accept-ranges", "bytes")
            }
            _ => Reply::file(&all, "\"v1\"", r),
        });
        let source = open(&server).unwrap();
        assert_eq!(source.len(), 1 << 20);
        assert_eq!(source.read_range(0..9).unwrap(), bytes[..9]);
        assert_eq!(server.seen().len(), 2);
        assert_eq!(source.read_range((1 << 20) - 9..1 << 20).unwrap(), bytes[(1 << 20) - 9..]);
    }
}

#[test]
fn another_version_midway_is_an_error() {
    type Change = fn(&[u8], &server::Request) -> Reply;
    let longer = |bytes: &[u8], r: &server::Request| {
        let mut more = bytes.to_vec();
        more.push(0);
        let mut reply = Reply::file(&more, "\"v1\"", r);
        reply.headers.retain(|(name, _)| name != "etag");
        reply
    };
    let changes: [(Change, &str); 5] = [
        // The condition fails, so the whole file is sent.
        (|b, r| Reply::file(b, "\"v2\"", r), "http/changed"),
        // The server ignores the condition.
        (
            |b, r| {
                let mut r = r.clone();
                r.headers.retain(|(name, _)| name != "if-range");
                Reply::file(b, "\"v2\"", &r)
            },
            "http/changed",
        ),
        (longer, "http/changed"),
        (|_, _| Reply::new(416, ""), "http/changed"),
        (|_, _| Reply::new(412, ""), "http/changed"),
    ];
    for (n, (change, code)) in changes.into_iter().enumerate() {
        let bytes = noise(1 << 20);
        let server = Server::new(move |r| match r.nth {
            0 => Reply::file(&bytes, "\"v1\"", r),
            _ => change(&bytes, r),
        });
        let source = open(&server).unwrap();
        let e = source.read_range(0..100).unwrap_err();
        assert_eq!(e.code(), code, "{n}: {e}");
        assert_eq!(server.seen().len(), 2, "{n}");
    }
}

#[test]
fn a_date_pins_a_file_that_has_no_strong_tag() {
    let bytes = noise(1 << 20);
    let date = "Sat, 21 Nov 2026 10:00:00 GMT";
    let server = Server::new(move |r| {
        let mut plain = r.clone();
        plain.headers.retain(|(name, _)| name != "if-range");
        let modified = if r.nth < 2 { date } else { "Sun, 22 Nov 2026 10:00:00 GMT" };
        let mut reply = Reply::file(&bytes, "", &plain);
        reply.headers.retain(|(name, _)| name != "etag");
        reply.with("last-modified", modified)
    });
    let source = open(&server).unwrap();
    source.read_range(0..100).unwrap();
    assert_eq!(server.seen()[1].header("if-range"), Some(date));
    assert_eq!(source.read_range(200 * KIB..201 * KIB).unwrap_err().code(), "http/changed");
}

/// Returns a reply whose `ETag` and `Last-Modified` are as given, for any request.
fn marked(bytes: &[u8], r: &server::Request, tag: &str, date: &str, now: &str) -> Reply {
    let mut plain = r.clone();
    plain.headers.retain(|(name, _)| name != "if-range");
    let mut reply = Reply::file(bytes, "", &plain);
    reply.headers.retain(|(name, _)| name != "etag");
    for (name, value) in [("etag", tag), ("last-modified", date), ("date", now)] {
        if !value.is_empty() {
            reply = reply.with(name, value);
        }
    }
    reply
}

const FIRST: &str = "Sat, 21 Nov 2026 10:00:00 GMT";
const LATER: &str = "Sat, 21 Nov 2026 10:00:01 GMT";

#[test]
fn every_answer_has_the_validator_of_the_first() {
    let kinds = [
        ("\"a\"", ""),
        ("\"b\"", ""),
        ("W/\"a\"", ""),
        ("W/\"b\"", ""),
        ("\"a\"", FIRST),
        ("W/\"a\"", FIRST),
        ("", FIRST),
        ("", LATER),
        ("", ""),
    ];
    let bytes = noise(1 << 20);
    for first in kinds {
        for later in kinds {
            let all = bytes.clone();
            let server = Server::new(move |r| {
                let (tag, date) = if r.nth == 0 { first } else { later };
                marked(&all, r, tag, date, LATER)
            });
            let source = open(&server).unwrap();
            let read = source.read_range(0..100);
            // With a strong tag the time is not needed.
            let is_strong = first.0.starts_with('"');
            let same = first == later || is_strong && first.0 == later.0;
            match read {
                Ok(read) => assert!(same && read == bytes[..100], "{first:?} {later:?}"),
                Err(e) => {
                    assert!(!same && e.code() == "http/changed", "{first:?} {later:?}: {e}");
                    assert!(e.message().contains("first response"), "{e}");
                }
            }
            assert_eq!(server.seen().len(), 2);
        }
    }
}

#[test]
fn a_server_without_validators_gives_a_warning() {
    let bytes = noise(1 << 20);
    for (tag, date, now, says) in [
        ("\"a\"", "", "", ""),
        ("\"a\"", FIRST, FIRST, ""),
        ("", FIRST, LATER, ""),
        ("", FIRST, FIRST, "in the same second"),
        ("", FIRST, "", "in the same second"),
        ("", "yesterday", LATER, "in the same second"),
        ("W/\"a\"", "", LATER, "`ETag` is weak"),
        ("W/\"a\"", FIRST, LATER, "`ETag` is weak"),
        ("", "", LATER, "neither `ETag` nor `Last-Modified`"),
    ] {
        let all = bytes.clone();
        let server = Server::new(move |r| marked(&all, r, tag, date, now));
        let source = open(&server).unwrap();
        let warnings = source.warnings();
        assert_eq!(warnings.len(), usize::from(!says.is_empty()), "{tag} {date}: {warnings:?}");
        for warning in warnings {
            assert_eq!(warning.code, "http/validator");
            assert!(warning.message.contains(says), "{warning}");
        }
        // As far as can be determined, the same version.
        assert_eq!(source.read_range(0..100).unwrap(), bytes[..100]);
    }
    // A file received in one answer has one version.
    let server = Server::new(|_| Reply::new(200, "short"));
    assert!(open(&server).unwrap().warnings().is_empty());
}

#[test]
fn server_warnings_are_listed_with_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let header = br#"{"w":{"dtype":"U8","shape":[600000],"data_offsets":[0,600000]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(noise(600_000));
    std::fs::write(&path, &bytes).unwrap();
    let server = Server::new(move |r| marked(&bytes, r, "", "", ""));
    let file = OpenOptions::new().with_policy(policy()).open(server.url("/x")).unwrap();
    let codes: Vec<_> = file.warnings().iter().map(|w| (w.code, w.count)).collect();
    assert_eq!(codes, [("http/validator", 1)]);
    let local = holdall::open(&path).unwrap();
    assert!(local.warnings().is_empty());
    let report = holdall::verify(&file, &holdall::VerifyOptions::new()).unwrap();
    assert_eq!(report.warnings, file.warnings());
    assert!(report.is_sound());
}

#[cfg(feature = "carton")]
#[test]
fn server_warnings_are_listed_with_a_package() {
    use holdall::carton::{Description, FileContent, Package, Packer};
    let dir = tempfile::tempdir().unwrap();
    let tiny = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let mut description = Description::default();
    description.runner.name = "noop".into();
    description.runner.framework_version = "=1.0.0".into();
    description.runner.compat_version = 1;
    let packed = dir.path().join("x.carton");
    let packer = Packer::new(description)
        .with_file("model/noise", FileContent::Bytes(noise(700_000).into()))
        .with_file("model/tiny.zt", FileContent::Path(tiny));
    packer.write(&packed, false).unwrap();
    let bytes = std::fs::read(packed).unwrap();
    assert!(bytes.len() > 600_000);
    let server = Server::new(move |r| marked(&bytes, r, "W/\"1\"", "", ""));
    let options = OpenOptions::new().with_policy(policy());
    let package = Package::open_with(server.url("/x"), &options).unwrap();
    assert_eq!(package.warnings()[0].code, "http/validator");
    let file = package.open_file("model/tiny.zt").unwrap();
    assert_eq!(file.warnings()[0].code, "http/validator");
}

#[test]
fn duplicate_response_headers_are_refused() {
    let bytes = noise(1 << 20);
    let part = "bytes 524288-1048575/1048576";
    for (name, value) in [
        // The same header twice is refused, too: it is not known which of two a proxy reads.
        ("content-range", part),
        ("content-range", "bytes 0-524287/1048576"),
        ("etag", "\"v1\""),
        ("etag", "\"v2\""),
    ] {
        for nth in [0, 1] {
            let all = bytes.clone();
            let server = Server::new(move |r| {
                let reply = Reply::file(&all, "\"v1\"", r);
                if r.nth == nth { reply.with(name, value) } else { reply }
            });
            let e = open(&server).and_then(|s| s.read_range(0..100).map(|_| ())).unwrap_err();
            assert_eq!(e.code(), "http/answer", "{name}: {e}");
            assert!(e.message().contains("more than once"), "{e}");
            assert_eq!(server.seen().len(), nth + 1);
        }
    }
    for range in
        ["bytes 524288-1048575/1048576, bytes 0-9/1048576", "bytes +524288-1048575/1048576"]
    {
        let server =
            Server::new(move |_| Reply::new(206, noise(524288)).with("content-range", range));
        assert_eq!(refused(&server).code(), "http/answer");
    }
}

#[test]
fn answers_that_contradict_themselves_are_refused() {
    let part = |range: &str, len: usize| {
        Reply::new(206, noise(len)).with("content-range", range).with("etag", "\"v1\"")
    };
    let cases: Vec<(Reply, &str)> = vec![
        (Reply::new(206, noise(524288)), "http/answer"),
        (part("bytes 0-524287/1048576", 524288), "http/answer"),
        (part("bytes 524288-1048575/1048576", 524287), "http/answer"),
        (part("bytes 524288-1048575/1048575", 524288), "http/answer"),
        (part("bytes 524288-1048575/*", 524288), "http/ranges"),
        (part("lines 1-2/3", 524288), "http/answer"),
        (part("bytes */1048576", 0), "http/answer"),
        (
            Reply::new(206, "--x").with("content-type", "multipart/byteranges; boundary=x"),
            "http/answer",
        ),
        (
            part("bytes 524288-1048575/1048576", 524288).with("content-encoding", "gzip"),
            "http/encoding",
        ),
        (
            part("bytes 524288-1048575/1048576", 524288).with("content-encoding", "gzip, br"),
            "http/encoding",
        ),
        (Reply::new(200, "short").with("content-encoding", "br"), "http/encoding"),
        (Reply::new(404, "no"), "http/status"),
        (Reply::new(403, "no"), "http/status"),
        (Reply::new(204, ""), "http/status"),
    ];
    for (n, (reply, code)) in cases.into_iter().enumerate() {
        let server = Server::new(move |_| reply.clone());
        let e = refused(&server);
        assert_eq!(e.code(), code, "{n}: {e}");
        assert_eq!(server.seen().len(), 1, "{n}");
    }
}

#[test]
fn more_or_fewer_bytes_than_promised_are_refused() {
    let bytes = noise(1 << 20);
    // No length, and bytes to the end of the connection: one too many, one too few.
    for (extra, code) in [(1, "http/answer"), (-1, "http/answer")] {
        let all = bytes.clone();
        let server = Server::new(move |r| {
            let mut reply = Reply::file(&all, "\"v1\"", r);
            if r.nth > 0 {
                reply.body.resize(reply.body.len().checked_add_signed(extra).unwrap(), 7);
                reply.declared = None;
            }
            reply
        });
        let source = open(&server).unwrap();
        let e = source.read_range(0..100_000).unwrap_err();
        assert_eq!(e.code(), code, "{extra}: {e}");
        assert_eq!(e.range(), Some(0..100_000));
    }
}

#[test]
fn temporary_failures_are_retried_from_the_received_bytes() {
    let bytes = noise(1 << 20);
    let all = bytes.clone();
    let server = Server::new(move |r| {
        let mut reply = Reply::file(&all, "\"v1\"", r);
        match r.nth {
            0 => Reply::new(503, "").with("retry-after", 0),
            2 => {
                reply.cut = Some(100_000);
                reply
            }
            3 => Reply::new(500, "oops"),
            _ => reply,
        }
    });
    let source = open(&server).unwrap();
    assert_eq!(source.read_range(10..300_010).unwrap(), bytes[10..300_010]);
    let asked: Vec<_> =
        server.seen().iter().map(|r| r.header("range").unwrap().to_owned()).collect();
    let rest = "bytes=100010-300009";
    assert_eq!(asked, ["bytes=-524288", "bytes=-524288", "bytes=10-300009", rest, rest]);
}

#[test]
fn a_server_that_stays_down_is_asked_four_times() {
    let server = Server::new(|_| Reply::new(503, ""));
    let e = refused(&server);
    assert_eq!(e.code(), "http/status");
    assert!(e.message().contains("503") && e.message().contains("4 tries"), "{e}");
    assert_eq!(server.seen().len(), 4);
    // Cut off in the middle, every time.
    let bytes = noise(1 << 20);
    let server = Server::new(move |r| {
        let mut reply = Reply::file(&bytes, "\"v1\"", r);
        reply.cut = Some(10);
        reply
    });
    let e = refused(&server);
    assert_eq!(e.code(), "http/failed");
    assert!(e.is_retryable(), "{e}");
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn silence_and_trickles_end() {
    let hasty = |stall| {
        let mut timeouts = Timeouts::default();
        timeouts.stall = stall;
        timeouts.tries = 1;
        timeouts.slowest = 1 << 20;
        policy().with_timeouts(timeouts)
    };
    let bytes = noise(524288);
    let all = bytes.clone();
    let server = Server::new(move |r| {
        let mut reply = Reply::file(&all, "\"v1\"", r);
        reply.pace = Some((10, Duration::from_millis(30)));
        reply
    });
    let begun = Instant::now();
    let url = server.url("/f");
    let e = HttpSource::open(&url, &hasty(Duration::from_millis(200))).unwrap_err();
    assert_eq!(e.code(), "http/slow", "{e}");
    let server = Server::new(move |r| {
        std::thread::sleep(Duration::from_secs(30));
        Reply::file(&bytes, "\"v1\"", r)
    });
    let url = server.url("/f");
    let e = HttpSource::open(&url, &hasty(Duration::from_millis(200))).unwrap_err();
    assert_eq!(e.code(), "http/failed", "{e}");
    assert!(e.is_retryable());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn redirects_are_followed_under_the_policy() {
    let bytes = noise(1 << 20);
    let all = bytes.clone();
    let server = Server::new(move |r| match r.target.as_str() {
        "/f" => Reply::to("a/b?x=1"),
        "/a/b?x=1" => Reply::to("../real"),
        "/real" => Reply::file(&all, "\"v1\"", r),
        "/loop" => Reply::to("/loop"),
        "/file" => Reply::to("file:///etc/passwd"),
        "/nowhere" => Reply::new(302, ""),
        "/bad" => Reply::to("http://[::bad"),
        "/gone" => Reply::to("http://127.0.0.1:1/f"),
        _ => Reply::new(404, ""),
    });
    let source = open(&server).unwrap();
    assert_eq!(server.seen().len(), 3);
    // The redirect is known now.
    assert_eq!(source.read_range(0..9).unwrap(), bytes[..9]);
    assert_eq!(server.seen().len(), 4);
    for (path, code, requests) in [
        ("/loop", "http/redirect", 9),
        ("/file", "http/redirect-target", 1),
        ("/bad", "http/redirect-target", 1),
        ("/nowhere", "http/redirect", 1),
    ] {
        server.forget();
        let e = HttpSource::open(&server.url(path), &policy()).unwrap_err();
        assert_eq!(e.code(), code, "{e}");
        assert_eq!(server.seen().len(), requests, "{path}");
        let is_said = e.code() == "http/redirect-target";
        assert!(!is_said || e.message().contains(&format!("{path} redirects to `")), "{e}");
    }
    let e = HttpSource::open(&server.url("/gone"), &policy()).unwrap_err();
    assert_eq!(e.code(), "http/failed");
    assert!(e.message().contains("redirected to http://127.0.0.1:1/f: "), "{e}");
}

#[test]
fn an_expired_redirect_is_requested_again() {
    let bytes = noise(1 << 20);
    let all = bytes.clone();
    let turn = Arc::new(AtomicUsize::new(0));
    let server = Server::new(move |r| match r.target.as_str() {
        "/f" => Reply::to(format!("/signed?{}", turn.fetch_add(1, Ordering::SeqCst))),
        "/signed?0" if r.nth > 0 => Reply::new(403, "expired"),
        _ => Reply::file(&all, "\"v1\"", r),
    });
    let source = open(&server).unwrap();
    assert_eq!(source.read_range(0..9).unwrap(), bytes[..9]);
    let asked: Vec<_> = server.seen().iter().map(|r| r.target.clone()).collect();
    assert_eq!(asked, ["/f", "/signed?0", "/signed?0", "/f", "/signed?1"]);
}

#[test]
fn hosts_that_are_not_public_are_refused_before_they_are_asked() {
    let server = Server::with_file(noise(10));
    let strict = policy().with_hosts(Hosts::Public);
    let port = server.port();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"]
    {
        let e = HttpSource::open(&format!("http://{host}:{port}/f"), &strict).unwrap_err();
        assert_eq!(e.code(), "http/private-host", "{host}: {e}");
        assert_eq!(e.remedies(), [holdall::Remedy::AllowPrivateHosts]);
    }
    for url in ["https://10.1.2.3/f", "https://169.254.169.254/latest", "https://[fe80::1]/"] {
        let e = HttpSource::open(url, &Policy::new()).unwrap_err();
        assert_eq!(e.code(), "http/private-host", "{url}: {e}");
    }
    let e = HttpSource::open("http://8.8.8.8/f", &Policy::new()).unwrap_err();
    assert_eq!(e.code(), "http/scheme");
    assert!(server.seen().is_empty());
}

#[test]
fn credentials_are_sent_and_never_displayed() {
    let bytes = noise(600_000);
    let server = Server::new(move |r| match r.header("authorization") {
        Some("Basic bWU6c2VjcmV0") if r.nth < 1 => Reply::file(&bytes, "\"v1\"", r),
        _ => Reply::new(401, ""),
    });
    let url = server.url("/f?token=secret").replace("http://", "http://me:secret@");
    let source = HttpSource::open(&url, &policy()).unwrap();
    let e = source.read_range(0..9).unwrap_err();
    for text in [format!("{e}"), format!("{source:?}"), source.name()] {
        assert!(!text.contains("secret") && text.contains("/f?…"), "{text}");
    }
    let e = HttpSource::open("http://me:secret@ho st/", &policy()).unwrap_err();
    assert!(!e.to_string().contains("secret"), "{e}");
}

#[test]
fn tensor_files_open_in_place_in_few_requests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bytes = std::fs::read(root.join("examples/tiny.zt")).unwrap();
    let server = Server::with_file(bytes);
    let options = OpenOptions::new().with_policy(policy());
    let file = options.open(server.url("/tiny.zt?sig=1")).unwrap();
    assert_eq!(file.name(), format!("{}?…", server.url("/tiny.zt")));
    let local = holdall::open(root.join("examples/tiny.zt")).unwrap();
    assert_eq!(file.load_all().unwrap().len(), local.load_all().unwrap().len());
    // The end of the file, which has its index, and at the same time the start, which identifies it.
    let mut asked: Vec<_> =
        server.seen().iter().map(|r| r.header("range").unwrap().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["bytes=-524288", "bytes=0-4095"]);
    let e = options.open(server.url("/none").replace("http", "https")).unwrap_err();
    assert_eq!(e.code(), "http/failed");
}

#[test]
fn long_bodies_leave_the_connection_where_the_next_answer_begins() {
    let bytes = noise(4 << 20);
    let server = Server::with_file(bytes.clone());
    let source = open(&server).unwrap();
    let mut at = 1;
    for number in 0..80 {
        // Lengths below and above the threshold for receiving bytes without the HTTP library.
        let len = number * 37_123 % 900_000 + 1;
        at = at * 48_271 % (bytes.len() - len);
        let mut out = vec![0; len];
        source.read_into(at as u64, &mut out).unwrap();
        assert!(out == bytes[at..at + len], "{len} bytes from {at}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_that_is_to_end_has_no_second_answer() {
    let bytes = noise(1 << 20);
    let own = bytes.clone();
    let server = Server::new(move |r| Reply::file(&own, "\"v1\"", r).with("connection", "close"));
    let source = open(&server).unwrap();
    let mut out = vec![0; 300_000];
    for at in [7, 200_000] {
        source.read_into(at as u64, &mut out).unwrap();
        assert!(out == bytes[at..at + out.len()], "{at}");
    }
    assert_eq!(server.connections(), server.seen().len());
}

#[test]
fn long_bodies_resume_after_any_byte() {
    const LEN: usize = 300_000;
    let bytes = noise(1 << 20);
    for cut in [0, 1, 100, 65_535, 65_536, 65_537, 131_072, 131_073, 234_463, 234_464, LEN - 1] {
        for pace in [None, Some((9_973, Duration::from_micros(100)))] {
            let own = bytes.clone();
            let server = Server::new(move |r| {
                let mut reply = Reply::file(&own, "\"v1\"", r);
                if r.nth == 1 {
                    (reply.cut, reply.pace) = (Some(cut), pace);
                }
                reply
            });
            let source = open(&server).unwrap();
            let mut out = vec![0; LEN];
            source.read_into(7, &mut out).unwrap();
            assert!(out == bytes[7..7 + LEN], "{cut}");
            let asked = server.seen();
            let again = asked[2].header("range").unwrap();
            assert_eq!(again, format!("bytes={}-{}", 7 + cut, 7 + LEN - 1), "{pace:?}");
            assert_eq!(asked.len(), 3);
        }
    }
}
